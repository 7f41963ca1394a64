"""A folder that `sanitize-train` wrote, read by path: its recipe, its checkpoints in order, and which documents each had seen.

    RUN/recipe.json  train.json  seen.parquet  checkpoints/step-000120/{config.json,*.safetensors,tokenizer.json,checkpoint.json}

The face is the folder; nothing of `train/` is imported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.errors import OutputBroken, UsageError


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint of a run: after how many steps and epochs, and where it lies."""

    step: int
    epoch: float
    path: Path
    train_loss: float | None = None
    validation_loss: float | None = None

    @property
    def name(self) -> str:
        """The name of its folder, such as `step-000120`."""
        return self.path.name


@dataclass(frozen=True, repr=False)
class Run:
    """A finished training run. `checkpoints` go by step; the first is the model before the first step."""

    path: Path
    recipe: Mapping[str, Any]
    summary: Mapping[str, Any]
    checkpoints: tuple[Checkpoint, ...]

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """The run in a folder; UsageError where there is none, OutputBroken where it is not finished or something of it is missing."""
        folder = Path(path)
        if not folder.is_dir():
            raise UsageError(f"{folder}: no such folder; expected a run that `sanitize-train` made (recipe.json, checkpoints/)")
        recipe = _object(folder / "recipe.json", "expected a folder that `sanitize-train` made; give the folder that holds checkpoints/")
        summary = _object(folder / "train.json", "the training has not come to its end; run `sanitize-train` again, it goes on from there")
        names = summary.get("checkpoints")
        if not isinstance(names, list) or not names:
            raise OutputBroken(f"{folder}/train.json: names no checkpoints; train again")
        found = sorted((_checkpoint(folder / "checkpoints" / str(name)) for name in names), key=lambda one: one.step)
        return cls(folder, recipe, summary, tuple(found))

    @property
    def base(self) -> Checkpoint:
        """The model before the first step; OutputBroken where it was not kept."""
        if self.checkpoints[0].step != 0:
            raise OutputBroken(f"{self.path}/checkpoints: no step-000000; what the base model knew cannot be told apart. Train again")
        return self.checkpoints[0]

    @property
    def trained(self) -> tuple[Checkpoint, ...]:
        """The checkpoints after the base model."""
        return tuple(one for one in self.checkpoints if one.step > 0)

    @property
    def final(self) -> Checkpoint:
        """The checkpoint that the training ended with."""
        wanted = self.summary.get("final")
        return next((one for one in self.checkpoints if one.name == wanted), self.checkpoints[-1])

    @property
    def data(self) -> Path:
        """The folder of documents that it was trained on."""
        told = self.recipe.get("data")
        place = told.get("path") if isinstance(told, dict) else told
        if not isinstance(place, str):
            raise OutputBroken(f"{self.path}/recipe.json: does not say what data it was trained on; train again")
        return Path(place)

    def seen_table(self) -> pa.Table:
        """`doc_id` (string) and `first_step` (int64): the step at whose end a document had been in a batch, once for every document."""
        place = self.path / "seen.parquet"
        try:
            table = pq.read_table(place, columns=["doc_id", "first_step"], partitioning=None)
        except (OSError, pa.ArrowException, KeyError) as error:
            raise OutputBroken(f"{place}: cannot be read ({type(error).__name__}); expected doc_id and first_step. Train again") from None
        return table.cast(pa.schema([("doc_id", pa.string()), ("first_step", pa.int64())]))

    def seen(self, step: int) -> pa.Array:
        """The `doc_id` of every document that had been in a batch when `step` ended, in the order of the file; none at step 0."""
        table = self.seen_table()
        return table.filter(pc.less_equal(table["first_step"], step))["doc_id"].combine_chunks()


def _object(path: Path, hint: str) -> dict[str, Any]:
    """The JSON object in a file; OutputBroken with the hint where there is none."""
    if not path.is_file():
        raise OutputBroken(f"{path}: is not there; {hint}")
    try:
        told = json.loads(path.read_text("utf-8"))
        if not isinstance(told, dict):
            raise ValueError("not an object")
    except (OSError, ValueError) as error:
        raise OutputBroken(f"{path}: no readable JSON object ({type(error).__name__}); train again") from None
    return told


def _checkpoint(path: Path) -> Checkpoint:
    told = _object(path / "checkpoint.json", "the checkpoint is not whole; train again, or take its name out of train.json")
    if not (path / "config.json").is_file() or not any(path.glob("*.safetensors")):
        raise OutputBroken(f"{path}: no config.json with *.safetensors; the checkpoint is not whole, train again")
    try:
        losses = [None if told.get(name) is None else float(told[name]) for name in ("train_loss", "validation_loss")]
        return Checkpoint(int(told["step"]), float(told["epoch"]), path, *losses)
    except (KeyError, TypeError, ValueError) as error:
        raise OutputBroken(f"{path}/checkpoint.json: no step and epoch ({type(error).__name__}); train again") from None
