"""Reads a folder that `sanitize-train` wrote: its recipe, its checkpoints in order, and which
documents each had seen.

    RUN/recipe.json  train.json  seen.parquet
    checkpoints/step-000120/{config.json,*.safetensors,tokenizer.json,checkpoint.json}

The interface is the folder.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.errors import OutputBroken, UsageError
from sanitize.storage.files import parse_json


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint of a run: its number of steps and epochs, its folder and its losses."""

    step: int
    epoch: float
    path: Path
    train_loss: float | None = None
    validation_loss: float | None = None

    @property
    def name(self) -> str:
        """Name of its folder, such as `step-000120`."""
        return self.path.name


@dataclass(frozen=True, repr=False)
class RunFolder:
    """A finished training run. `checkpoints` are sorted by step; the first is the model before
    training."""

    path: Path
    recipe: Mapping[str, Any]
    summary: Mapping[str, Any]
    checkpoints: tuple[Checkpoint, ...]

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """Open the run in a folder; UsageError if the folder does not exist, OutputBroken if the
        run is unfinished or incomplete."""
        folder = Path(path)
        if not folder.is_dir():
            raise UsageError(
                f"{folder}: no such folder; expected a run that `sanitize-train` wrote"
                " (recipe.json, checkpoints/)"
            )
        recipe = _read_json_object(
            folder / "recipe.json",
            "expected a folder that `sanitize-train` wrote; give the folder that contains"
            " checkpoints/",
        )
        summary = _read_json_object(
            folder / "train.json",
            "the training is not finished; run `sanitize-train` again to resume it",
        )
        sections, tables = recipe.get("recipe", {}), ("data", "objective", "model", "run")
        if not isinstance(sections, dict) or not all(
            isinstance(sections.get(name, {}), dict) for name in tables
        ):
            raise OutputBroken(f"{folder}/recipe.json: `recipe` is no table of tables; train again")
        names = summary.get("checkpoints")
        if not isinstance(names, list) or not names:
            raise OutputBroken(f"{folder}/train.json: names no checkpoints; train again")
        found = sorted(
            (_read_checkpoint(folder / "checkpoints" / str(name)) for name in names),
            key=lambda one: one.step,
        )
        return cls(folder, recipe, summary, tuple(found))

    @property
    def base_checkpoint(self) -> Checkpoint:
        """The checkpoint of the model before training; OutputBroken if it was not kept."""
        if self.checkpoints[0].step != 0:
            raise OutputBroken(
                f"{self.path}/checkpoints: no step-000000, so that the base model cannot be"
                " compared with. Train again"
            )
        return self.checkpoints[0]

    @property
    def trained_checkpoints(self) -> tuple[Checkpoint, ...]:
        """The checkpoints after the base model."""
        return tuple(one for one in self.checkpoints if one.step > 0)

    @property
    def final_checkpoint(self) -> Checkpoint:
        """The checkpoint that the training ended with."""
        final_name = self.summary.get("final")
        return next(
            (one for one in self.checkpoints if one.name == final_name), self.checkpoints[-1]
        )


def read_first_steps(folder: Path) -> pa.Table:
    """Return `doc_id` (string) and `first_step` (int64) of a run, finished or not: the step in
    which a document is in a batch first.

    One row per document.
    """
    file = folder / "seen.parquet"
    try:
        table = pq.read_table(file, columns=["doc_id", "first_step"], partitioning=None)
        return table.cast(pa.schema([("doc_id", pa.string()), ("first_step", pa.int64())]))
    except (OSError, pa.ArrowException, KeyError) as error:
        raise OutputBroken(
            f"{file}: cannot be read ({type(error).__name__}); expected doc_id and first_step."
            " Train again"
        ) from None


def _read_json_object(path: Path, hint: str) -> dict[str, Any]:
    """Return the JSON object in a file; OutputBroken with the hint if the file is missing."""
    if not path.is_file():
        raise OutputBroken(f"{path}: is missing; {hint}")
    try:
        content = parse_json(path.read_text("utf-8"))
        if not isinstance(content, dict):
            raise ValueError("not an object")
    except (OSError, ValueError) as error:
        raise OutputBroken(
            f"{path}: no readable JSON object ({type(error).__name__}); train again"
        ) from None
    return content


def _read_checkpoint(path: Path) -> Checkpoint:
    metadata = _read_json_object(
        path / "checkpoint.json",
        "the checkpoint is incomplete; train again, or remove its name from train.json",
    )
    if not any(
        (path / name).is_file() for name in ("config.json", "adapter_config.json")
    ) or not any(path.glob("*.safetensors")):
        raise OutputBroken(
            f"{path}: no config.json or adapter_config.json with *.safetensors; the checkpoint is"
            " incomplete, train again"
        )
    try:
        losses = [
            None if (loss := metadata.get(name)) is None else float(loss)
            for name in ("train_loss", "validation_loss")
        ]
        losses = [None if loss is None or not math.isfinite(loss) else loss for loss in losses]
        return Checkpoint(int(metadata["step"]), float(metadata["epoch"]), path, *losses)
    except (KeyError, TypeError, ValueError) as error:
        raise OutputBroken(
            f"{path}/checkpoint.json: no step and epoch ({type(error).__name__}); train again"
        ) from None
