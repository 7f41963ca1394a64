"""Writes and reads checkpoints in Hugging Face layout, the newest state to resume from, and the
log. safetensors and JSON, never pickle.

Every folder and file is written under a temporary name and renamed: one that has its final name is
complete.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanitize.errors import InputRefused, OutputBroken, UsageError
from sanitize.storage.files import fsync, read_json, write_json

from .adapters import CONFIG_FILE, find_base_folder, has_adapter, is_adapter, save_adapter
from .model import (
    load_model,
    load_tokenizer,
    read_architectures,
    read_stored_dtype,
    trainable_parameters,
)


def format_checkpoint_name(step: int) -> str:
    """Return the folder name of the checkpoint after `step` steps."""
    return f"step-{step:06d}"


@dataclass(frozen=True, repr=False)
class CheckpointEvent:
    """What a hook is given at a checkpoint: its folder, the contents of its checkpoint.json, the
    live model and the tokenizer."""

    path: Path
    metadata: Mapping[str, Any]
    model: Any
    tokenizer: Any


CheckpointHook = Callable[[CheckpointEvent], bool]


def write_checkpoint(
    folder: Path,
    *,
    model: Any,
    tokenizer: Any,
    metadata: Mapping[str, Any],
    dtype: str = "float32",
) -> Path:
    """Write a checkpoint into `folder`, named by its step, and return its path; an existing one of
    that name is replaced.

    Weights are written in `dtype`. Of a model with a LoRA adapter only the adapter is written, in
    float32.
    """
    path = folder / format_checkpoint_name(metadata["step"])
    temp_path = _make_temp_folder(path)
    if has_adapter(model):
        save_adapter(model, temp_path)
    else:
        _save_model(model, temp_path, dtype)
    tokenizer.save_pretrained(temp_path)
    write_json(temp_path / "checkpoint.json", metadata)
    _commit_folder(temp_path, path)
    return path


def _save_model(model: Any, path: Path, dtype: str) -> None:
    """Write a model, its weights in floating point in `dtype`."""
    import torch

    cast: dict[object, Any] = {}  # by place in memory: tied weights stay one tensor
    weights = model.state_dict()
    for name, value in weights.items():
        is_float = value.is_floating_point()
        place = (value.data_ptr(), value.shape, value.stride()) if value.numel() else name
        weights[name] = cast.setdefault(
            place, value.to(getattr(torch, dtype)) if is_float else value
        )
    model.save_pretrained(path, state_dict=weights)
    config = read_json(path / "config.json")
    if config is not None and config.get("dtype") != dtype:
        write_json(path / "config.json", {**config, "dtype": dtype})


def write_merged_model(adapter: str | Path, out: str | Path) -> Path:
    """Write the base model of a LoRA adapter with the adapter merged into its weights, and the
    tokenizer, into the folder `out`.

    Raises InputRefused if `adapter` is no adapter or has no base, UsageError if `out` exists.
    """
    source, path = Path(adapter), Path(out)
    if not is_adapter(source):
        raise InputRefused(
            f"{source}: no LoRA adapter; expected a checkpoint with {CONFIG_FILE}, as a recipe with"
            " a table [lora] writes it"
        )
    if path.exists():
        raise UsageError(f"{path}: exists; choose a folder that does not")
    base = find_base_folder(source)
    head = "masked" if any("MaskedLM" in name for name in read_architectures(base)) else "causal"
    model = load_model(source, head)
    tokenizer = load_tokenizer(source if (source / "tokenizer.json").is_file() else base)
    temp_path = _make_temp_folder(path)
    _save_model(model, temp_path, read_stored_dtype(source))
    tokenizer.save_pretrained(temp_path)
    _commit_folder(temp_path, path)
    return path


def write_state(folder: Path, *, model: Any, optimizer: Any, metadata: Mapping[str, Any]) -> None:
    """Write the state after `metadata["step"]` steps into `folder`: trained weights and optimizer
    moments (`state.safetensors`), and numbers (`state.json`); delete older ones."""
    from safetensors.torch import save_file

    path = folder / format_checkpoint_name(metadata["step"])
    temp_path = _make_temp_folder(path)
    tensors = {f"weights/{name}": value.detach() for name, value in trainable_parameters(model)}
    for number, entry in optimizer.state_dict()["state"].items():
        tensors |= {f"moments/{number}/{key}": value for key, value in entry.items()}
    save_file(
        {name: value.cpu().contiguous() for name, value in tensors.items()},
        temp_path / "state.safetensors",
    )
    write_json(temp_path / "state.json", metadata)
    _commit_folder(temp_path, path)
    for other in folder.iterdir():
        if other != path:
            shutil.rmtree(other)


def find_latest_state(folder: Path) -> dict[str, Any] | None:
    """Return the state.json of the newest complete state, with its folder as `path`; None if there
    is no state."""
    found = (
        sorted(path for path in folder.glob("step-*") if path.suffix != ".tmp")
        if folder.is_dir()
        else []
    )
    if not found:
        return None
    info = read_json(found[-1] / "state.json")
    if info is None:
        raise OutputBroken(f"{found[-1]}: no readable state.json; remove the folder to start again")
    return {**info, "path": found[-1]}


def load_state(path: Path, *, model: Any, optimizer: Any) -> None:
    """Restore model and optimizer from what `write_state` wrote; OutputBroken if a file is damaged
    or belongs to another model."""
    import torch
    from safetensors.torch import load_file

    try:
        tensors, moments = load_file(path / "state.safetensors"), dict[int, dict[str, Any]]()
        with torch.no_grad():
            for name, parameter in trainable_parameters(model):
                parameter.copy_(tensors.pop(f"weights/{name}"))
        for name, value in tensors.items():
            _, number, key = name.split("/")
            moments.setdefault(int(number), {})[key] = value
        optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})
    except Exception as error:  # safetensors raises errors of its own
        raise OutputBroken(
            f"{path}: cannot be resumed from ({type(error).__name__}); remove the folder to start"
            " again"
        ) from None


def append_log_entry(path: Path, entry: Mapping[str, Any]) -> None:
    """Append one line to log.jsonl."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry, sort_keys=True) + "\n")


def truncate_log(path: Path, last_step: int) -> None:
    """Remove the lines of the log that come after `last_step`: a resumed run repeats those
    steps."""
    if not path.is_file():
        return
    kept = []
    for line in path.read_text("utf-8").splitlines():
        try:
            if json.loads(line)["step"] <= last_step:
                kept.append(line)
        except (ValueError, KeyError, TypeError):
            break  # an incomplete line: the run was killed
    temp_path = path.with_name(path.name + ".tmp")
    temp_path.write_text("".join(line + "\n" for line in kept), encoding="utf-8")
    temp_path.rename(path)


def _make_temp_folder(path: Path) -> Path:
    temp_path = path.with_name(path.name + ".tmp")
    shutil.rmtree(temp_path, ignore_errors=True)
    temp_path.mkdir(parents=True)
    return temp_path


def _commit_folder(temp_path: Path, path: Path) -> None:
    for file in temp_path.iterdir():
        fsync(file)
    shutil.rmtree(path, ignore_errors=True)
    temp_path.rename(path)
    fsync(path.parent)
