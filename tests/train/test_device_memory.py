"""The memory that the page of GPUs states is computed from models on torch's device `meta`, and by
hand on small ones."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from sanitize.train.adapters import add_adapter
from sanitize.train.device_memory import is_out_of_memory
from sanitize.train.model import trainable_parameters
from sanitize.train.recipe import LoraSettings, TrainingSettings
from sanitize.train.trainer import build_adamw

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "how_to" / "gpu.md").read_text("utf-8")
CONFIGS: dict[str, Any] = {
    "135 M": transformers.LlamaConfig(
        hidden_size=576,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        intermediate_size=1536,
        vocab_size=49152,
        tie_word_embeddings=True,
    ),
    "1.5 B": transformers.Qwen2Config(
        hidden_size=1536,
        num_hidden_layers=28,
        num_attention_heads=12,
        num_key_value_heads=2,
        intermediate_size=8960,
        vocab_size=151936,
        tie_word_embeddings=True,
    ),
    "8 B": transformers.LlamaConfig(
        hidden_size=4096,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        intermediate_size=14336,
        vocab_size=128256,
        tie_word_embeddings=False,
    ),
}


# bytes of each trained weight: float32 weight, gradient, and two moments of AdamW
_TRAINED_BYTES = 16
# of activations for each token, layer and unit of width, in bf16 without the scores of attention
# (Korthikanti et al. 2022, section 4.1)
_LAYER_BYTES, _CHECKPOINTED_BYTES = 34, 2
# logits of a token in bf16 and float32, their gradients in both, and the softmax's result in bf16
_LOGIT_BYTES = 14


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes that training needs: of weights with gradients and moments, and of each row of a
    micro-batch."""

    weights: int
    row: int
    row_checkpointed: int  # with run.gradient_checkpointing
    row_gradients: int  # besides, in private training


def count_adapter_weights(model: Any, rank: int) -> int:
    """Return the weights of a LoRA adapter of all linear layers but the head."""
    head = model.get_output_embeddings()
    linear = [
        module
        for module in model.modules()
        if isinstance(module, torch.nn.Linear) and module is not head
    ]
    return sum(rank * (module.in_features + module.out_features) for module in linear)


def estimate_memory(
    model: Any, context: int, *, adapter_rank: int | None = None, frozen_bytes: int = 4
) -> MemoryEstimate:
    """Return what training a model by rows of `context` tokens needs: of all its weights, or of an
    adapter."""
    config = model.config
    weight_count = sum(parameter.numel() for parameter in model.parameters())
    trained = weight_count if adapter_rank is None else count_adapter_weights(model, adapter_rank)
    frozen = 0 if adapter_rank is None else weight_count
    logits = _LOGIT_BYTES * config.vocab_size
    layers, width = config.num_hidden_layers, config.hidden_size
    return MemoryEstimate(
        weights=_TRAINED_BYTES * trained + frozen_bytes * frozen,
        row=context * (_LAYER_BYTES * width * layers + logits),
        row_checkpointed=context
        * (_CHECKPOINTED_BYTES * width * layers + _LAYER_BYTES * width + logits),
        row_gradients=4 * trained,
    )


def build_on_meta(name: str) -> Any:
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(CONFIGS[name])
    model.tie_weights()
    return model


def format_number(value: float) -> str:
    """At most two digits after the point, as on the page: 128, 6.4, .5, .02."""
    digits = 0 if value >= 10 else 1 if value >= 0.1 else 2
    return f"{value:.{digits}f}".removeprefix("0")


@pytest.mark.parametrize("name", CONFIGS)
def test_figures_of_the_page_are_computed(name: str) -> None:
    model = build_on_meta(name)
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}
    whole, adapter, frozen_bf16 = (
        estimate_memory(model, 1024, **options)
        for options in ({}, {"adapter_rank": 16}, {"adapter_rank": 16, "frozen_bytes": 2})
    )
    expected = [
        format_number(number / 1e9)
        for number in (
            whole.weights,
            adapter.weights,
            frozen_bf16.weights,
            whole.row,
            whole.row_checkpointed,
        )
    ] + [
        f"{format_number(number / 1e9)} more"
        for number in (whole.row_gradients, adapter.row_gradients)
    ]
    rows = re.findall(rf"^\| {re.escape(name)}[^|]*\|(.*)\|$", PAGE, re.MULTILINE)
    assert [cell.strip() for cell in rows[0].split("|")] == expected
    layers, vocabulary = model.config.num_hidden_layers, model.config.vocab_size
    assert f"| {name} ({layers} layers, vocabulary {vocabulary:,}) |" in PAGE
    weights = sum(parameter.numel() for parameter in model.parameters())
    minutes = [10e6 * flops * weights / (0.4 * 989e12) / 60 for flops in (6, 4)]
    assert [cell.strip() for cell in rows[1].split("|")] == [
        f"{format_number(value) if value < 1 else f'{value:.0f}'} min" for value in minutes
    ]
    assert f"{format_number(100 * count_adapter_weights(model, 16) / weights)}" in re.sub(
        r"\s+", " ", PAGE
    )


def test_bytes_of_weights_are_those_of_a_trained_model() -> None:
    """Float32 weights, gradients and moments of a small model, all of it and an adapter, counted
    after a step."""
    config = transformers.LlamaConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        vocab_size=99,
        tie_word_embeddings=True,
    )
    for rank in (None, 4):
        model = transformers.AutoModelForCausalLM.from_config(config)
        estimate = estimate_memory(model, 16, adapter_rank=rank)
        if rank is not None:
            add_adapter(model, LoraSettings(rank=rank), base_folder=Path(), head="causal")
        optimizer = build_adamw(model, TrainingSettings())
        model(input_ids=torch.ones((1, 4), dtype=torch.long)).logits.sum().backward()
        optimizer.step()
        trained = [parameter for _, parameter in trainable_parameters(model)]
        moments = [
            value for entry in optimizer.state.values() for value in entry.values() if value.ndim
        ]
        tensors = [*model.parameters(), *(parameter.grad for parameter in trained), *moments]
        assert sum(value.numel() * 4 for value in tensors) == estimate.weights
        assert estimate.row_gradients == 4 * sum(parameter.numel() for parameter in trained)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.OutOfMemoryError("anything"), True),
        (MemoryError(), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)"), True),
        (RuntimeError("vmap: not supported"), False),
        (ValueError("shape"), False),
    ],
)
def test_errors_of_memory_are_recognised(error: BaseException, expected: bool) -> None:
    assert is_out_of_memory(error) is expected
