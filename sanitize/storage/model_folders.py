"""Checks of a model folder before a library builds the model that it describes."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from .files import read_json

# names of the number of layers in config.json, by architecture
_LAYER_SETTINGS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_MAX_HEADER_BYTES = 100_000_000  # the format's own limit


def describe_impossible_layers(folder: Path) -> str:
    """Return, as the end of a message, that `config.json` states more layers than the weights of
    the folder have tensors; empty if it does not, or if the weights cannot be read.

    A library builds all layers, in minutes and gigabytes, before it compares them with the weights.
    """
    config = read_json(folder / "config.json")
    stated = [
        (name, number)
        for name in _LAYER_SETTINGS
        if isinstance(config, dict) and isinstance(number := config.get(name), int)
    ]
    if not stated:
        return ""
    tensor_count = _count_tensors(folder)
    for name, number in stated:
        if tensor_count is not None and number > tensor_count:
            return (
                f"config.json has {name} = {number}, but its *.safetensors have {tensor_count}"
                " tensors; copy the model again"
            )
    return ""


def _count_tensors(folder: Path) -> int | None:
    """Return the number of tensors in the *.safetensors of a folder, by their headers; None if
    there are none, or if one cannot be read."""
    names: set[str] = set()
    paths = sorted(folder.glob("*.safetensors"))
    for path in paths:
        try:
            with path.open("rb") as file:
                (length,) = struct.unpack("<Q", file.read(8))
                if length > _MAX_HEADER_BYTES:
                    return None
                names |= set(json.loads(file.read(length)))
        except (OSError, ValueError, TypeError, struct.error):
            return None
    return len(names - {"__metadata__"}) if paths else None
