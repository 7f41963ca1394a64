"""Tiny models for the tests of eval/: random weights that are far apart, so that a wrong mask shows
in every row."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def byte_tokenizer() -> Any:
    """A tokenizer of single bytes with the three special tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = ["<|endoftext|>", "<|pad|>", "<|mask|>"]
    words = [*special, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE({word: number for number, word in enumerate(words)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(special)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=special[0],
        bos_token=special[0],
        pad_token=special[1],
        mask_token=special[2],
    )


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return byte_tokenizer()


@pytest.fixture(scope="session")
def gpt2(tokenizer: Any) -> Any:
    """GPT-2 of two layers with random weights (initializer_range .25)."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.set_num_threads(1)
    torch.manual_seed(1)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=64,
        n_embd=32,
        n_layer=2,
        n_head=4,
        initializer_range=0.25,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=1,
    )
    return GPT2LMHeadModel(config).eval()


@pytest.fixture(scope="session")
def bert(tokenizer: Any) -> Any:
    """BERT of two layers with random weights."""
    import torch
    from transformers import BertConfig, BertForMaskedLM

    torch.set_num_threads(1)
    torch.manual_seed(2)
    config = BertConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=64,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        initializer_range=0.25,
        pad_token_id=1,
    )
    return BertForMaskedLM(config).eval()


@pytest.fixture
def write_run(gpt2: Any, tokenizer: Any, tmp_path: Path) -> Any:
    """A function that writes a run folder with two untrained checkpoints of random weights:
    `write_run(name, texts)`."""
    import torch

    def write(name: str, texts: dict[str, str], steps: tuple[int, ...] = (0, 4)) -> Path:
        folder, data = tmp_path / name, tmp_path / f"{name}-data"
        data.mkdir()
        pq.write_table(
            pa.table({"doc_id": list(texts), "text": list(texts.values())}), data / "a.parquet"
        )
        for step in steps:
            checkpoint_folder = folder / "checkpoints" / f"step-{step:06d}"
            model = copy.deepcopy(gpt2)
            torch.nn.init.normal_(
                model.transformer.wpe.weight,
                std=0.25 + step / 10,
                generator=torch.Generator().manual_seed(step),
            )
            model.save_pretrained(checkpoint_folder)
            tokenizer.save_pretrained(checkpoint_folder)
            checkpoint_info = {
                "step": step,
                "epoch": step / 4,
                "train_loss": 3.5,
                "validation_loss": None,
            }
            (checkpoint_folder / "checkpoint.json").write_text(json.dumps(checkpoint_info))
        (folder / "recipe.json").write_text(
            json.dumps({"data": {"path": str(data)}, "recipe_hash": "0123", "recipe": {}})
        )
        first = pa.array([2 * number for number in range(1, len(texts) + 1)], pa.int64())
        pq.write_table(
            pa.table({"doc_id": list(texts), "first_step": first}), folder / "seen.parquet"
        )
        names = [f"step-{step:06d}" for step in steps]
        (folder / "train.json").write_text(
            json.dumps(
                {
                    "steps": 4,
                    "tokens": 99,
                    "documents": len(texts),
                    "checkpoints": names,
                    "final": names[-1],
                }
            )
        )
        return folder

    return write
