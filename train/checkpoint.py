"""What a run leaves: checkpoints in Hugging Face layout, and the newest state to go on from. safetensors and JSON, never pickle.

Everything is written aside and renamed, so that a name that is there is whole.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanitize.errors import OutputBroken
from sanitize.storage.corpus import fsync, read_json, write_json


def name_of(step: int) -> str:
    """The name of the checkpoint after so many steps."""
    return f"step-{step:06d}"


@dataclass(frozen=True, repr=False)
class Moment:
    """What a hook is given at a checkpoint: its folder, what its checkpoint.json says, the live model and the tokenizer."""

    path: Path
    info: Mapping[str, Any]
    model: Any
    tokenizer: Any


def write(folder: Path, *, model: Any, tokenizer: Any, info: Mapping[str, Any]) -> Path:
    """The checkpoint of this moment in `folder`, by the name of its step; one that is there already is replaced."""
    path = folder / name_of(info["step"])
    aside = _aside(path)
    model.save_pretrained(aside)
    tokenizer.save_pretrained(aside)
    write_json(aside / "checkpoint.json", info)
    _settle(aside, path)
    return path


def write_state(folder: Path, *, model: Any, optimizer: Any, names: Mapping[Any, str], info: Mapping[str, Any]) -> None:
    """The state after `info["step"]` steps in `folder`, as the only one there: weights, moments of the optimizer, and numbers as JSON."""
    from safetensors.torch import save_file

    path = folder / name_of(info["step"])
    aside = _aside(path)
    weights = {name: one.detach().cpu().contiguous() for name, one in model.named_parameters()}  # tied ones once
    moments = {
        f"{names[one]}/{key}": value.detach().cpu().contiguous() for one, entry in optimizer.state.items() for key, value in entry.items()
    }
    save_file(weights, aside / "weights.safetensors")
    save_file(moments, aside / "optimizer.safetensors")
    write_json(aside / "state.json", info)
    _settle(aside, path)
    for other in folder.iterdir():
        if other != path:
            shutil.rmtree(other)


def newest_state(folder: Path) -> dict[str, Any] | None:
    """The numbers of the newest whole state, with its `path`; None where there is none."""
    found = sorted(path for path in folder.glob("step-*") if path.suffix != ".tmp") if folder.is_dir() else []
    if not found:
        return None
    info = read_json(found[-1] / "state.json")
    if info is None:
        raise OutputBroken(f"{found[-1]}: no readable state.json; take the folder away to start anew")
    return {**info, "path": found[-1]}


def load_state(path: Path, *, model: Any, optimizer: Any, names: Mapping[Any, str]) -> None:
    """Put model and optimizer back to what `write_state` wrote. OutputBroken where a file is damaged or of another model."""
    import torch
    from safetensors.torch import load_file

    try:
        weights, moments = load_file(path / "weights.safetensors"), load_file(path / "optimizer.safetensors")
        with torch.no_grad():
            for name, one in model.named_parameters():
                one.copy_(weights[name])
        by_name = {name: one for one, name in names.items()}
        for whole, value in moments.items():
            name, _, key = whole.rpartition("/")
            one = by_name[name]
            # as torch does: moments lie beside their parameter, the step count stays on the CPU
            optimizer.state[one][key] = value if key == "step" else value.to(one.device)
    except Exception as error:  # safetensors raises errors of its own
        raise OutputBroken(f"{path}: cannot be resumed from ({type(error).__name__}); take the folder away to start anew") from None


def append_log(path: Path, entry: Mapping[str, Any]) -> None:
    """One more line of log.jsonl."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry, sort_keys=True) + "\n")


def cut_log(path: Path, step: int) -> None:
    """Take away what was logged after `step`: those steps are made again."""
    if not path.is_file():
        return
    kept = []
    for line in path.read_text("utf-8").splitlines():
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line)
        except (ValueError, KeyError, TypeError):
            break  # half a line, where the run was killed
    aside = path.with_name(path.name + ".tmp")
    aside.write_text("".join(line + "\n" for line in kept), encoding="utf-8")
    aside.rename(path)


def _aside(path: Path) -> Path:
    aside = path.with_name(path.name + ".tmp")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    return aside


def _settle(aside: Path, path: Path) -> None:
    for file in aside.iterdir():
        fsync(file)
    shutil.rmtree(path, ignore_errors=True)
    aside.rename(path)
    fsync(path.parent)
