"""What is wrong with a model folder that cannot be used, for the messages of training and
evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sanitize.storage.files import read_json


def describe_unreadable_model(folder: Path, error: BaseException) -> str:
    """Return why transformers cannot load a model, as the end of a message: by its configuration
    and the type of the error alone."""
    config = read_json(folder / "config.json") or {}
    name = type(error).__name__
    if "auto_map" in config:
        return (
            f"needs code of its own (auto_map in config.json), which is not run ({name}); expected"
            " an architecture of transformers"
        )
    if name == "SafetensorError":
        return f"a *.safetensors file is damaged or incomplete ({name}); copy the model again"
    return (
        f"cannot be loaded by transformers ({name}); expected config.json and weights of one of its"
        " architectures"
    )


def has_finite_weights(model: Any) -> bool:
    """Whether all weights are finite numbers."""
    import torch

    return all(bool(torch.isfinite(parameter).all()) for parameter in model.parameters())
