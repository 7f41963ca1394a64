"""Changes to an unlearned model that may bring back what it no longer says: weights rounded to four
bits, and an epoch of training on half of the forgotten documents.

A method can make a model say less without knowing less. Rounding removes small changes of the
weights, and with them much of what approximate methods change (Zhang et al. 2025, Catastrophic
failure of LLM unlearning via quantization). A few steps on some forgotten documents can bring back
the others (Hu et al. 2025, Jogging the memory of unlearned models).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from sanitize.train import fit
from sanitize.train.unlearning import read_run_recipe

from .trained_documents import TrainedDocuments

LEVELS = 16  # of four bits
GROUP = 64  # weights that share a scale
DEFAULT_LR = 1e-4


def round_to_four_bits(model: Any) -> float:
    """Round the weights of a model's linear layers to 16 evenly spaced levels between the least and
    the largest of each 64 weights of an output, in place; return the share of the model's weights
    that were rounded.

    Embeddings, norms, biases and the output layer stay, as common four-bit formats have it.
    """
    import torch
    from transformers.pytorch_utils import Conv1D

    output_layer, rounded_count = model.get_output_embeddings(), 0
    for layer in model.modules():
        if layer is output_layer or not isinstance(layer, torch.nn.Linear | Conv1D):
            continue
        with torch.no_grad():
            # [outputs, inputs]; Conv1D has them the other way round
            weights = layer.weight.T if isinstance(layer, Conv1D) else layer.weight
            rounded, rounded_count = [], rounded_count + weights.numel()
            for group in torch.split(weights.float(), GROUP, dim=1):
                low, high = group.amin(1, keepdim=True), group.amax(1, keepdim=True)
                step = ((high - low) / (LEVELS - 1)).clamp_min(torch.finfo(torch.float32).tiny)
                rounded.append(((group - low) / step).round() * step + low)
            weights.copy_(torch.cat(rounded, dim=1))
    return float(rounded_count / sum(parameter.numel() for parameter in model.parameters()))


@dataclass(frozen=True)
class Relearning:
    """A model after an epoch on some documents: its checkpoint, and how it was trained."""

    checkpoint: Path
    documents: int
    steps: int
    learning_rate: float


def relearn_documents(
    checkpoint: Path,
    documents: TrainedDocuments,
    folder: Path,
    *,
    learning_rate: float,
    seed: int,
    device: str | None,
    dtype: str,
) -> Relearning:
    """Train a checkpoint for one epoch on these documents, in batches of up to 8 that make at least
    8 steps where there are as many documents.

    `folder` gets the documents and the run; both have their texts, so it must be private.
    """
    pl.DataFrame({"doc_id": documents.doc_ids, "text": documents.join_prompts()}).write_parquet(
        folder / "documents.parquet"
    )
    table: dict[str, Any] = {
        "name": "relearn",
        "data": {
            "path": str(folder / "documents.parquet"),
            "layout": "document",
            "overlong": "cut",
        },
        "model": {"path": str(checkpoint)},
        "objective": {"use": "causal"},
        "run": {
            "epochs": 1,
            "batch": max(1, min(8, len(documents) // 8)),
            "lr": learning_rate,
            "schedule": "constant",
            "checkpoint_every": 0.0,
            "seed": seed,
            "precision": "bf16" if dtype == "bfloat16" else "float32",
        },
    }
    if device is not None:
        table["run"]["device"] = device.split(",")[0]
    result = fit(table, folder / "run")
    return Relearning(
        folder / "run" / "checkpoints" / str(result.final),
        len(documents),
        result.steps,
        learning_rate,
    )


def find_learning_rate(checkpoint: Path) -> float:
    """Return the learning rate of the run that wrote a checkpoint; 1e-4 where none is known, or
    where only an adapter was trained."""
    recipe = (read_run_recipe(checkpoint) or {}).get("recipe", {})
    rate = recipe.get("run", {}).get("lr")
    return DEFAULT_LR if rate is None or recipe.get("lora") else float(rate)
