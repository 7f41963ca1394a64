"""Memory of devices: which errors mean that it is too small, and what a training run needs.

The estimates count weights of a model that may be on torch's device `meta`, where it takes no
memory. They are computed, not measured; how attention and the allocator add to them depends on the
device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# bytes of each trained weight: float32 weight, gradient, and two moments of AdamW
_TRAINED_BYTES = 16
# of activations for each token, layer and unit of width, in bf16 without the scores of attention
# (Korthikanti et al. 2022, section 4.1)
_LAYER_BYTES, _CHECKPOINTED_BYTES = 34, 2
# logits of a token in bf16 and float32, their gradients in both, and the softmax's result in bf16
_LOGIT_BYTES = 14


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of torch means that the device, or the machine, has too little memory."""
    import torch

    # the allocator of a CPU has no error of its own; some calls of CUDA and its libraries report a
    # RuntimeError
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(
        text in str(error) for text in ("can't allocate memory", "out of memory", "ALLOC_FAILED")
    )


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
    import torch

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
