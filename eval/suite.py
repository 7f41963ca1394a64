"""A suite: which runs, which texts, which metrics; one JSON object out.

    baseline = "raw"                                   # what the others are compared with

    [runs]
    raw = "runs/raw"                                   # folders that `sanitize-train` wrote
    rmft = "runs/rmft"

    [original]
    documents = "corpus/train"                         # the raw documents, or work = "OUT.private" for a run's vault

    [texts]
    mail = { path = "corpus/test" }
    body = { path = "corpus/test", part = "body" }

    [[metric]]
    use = "extraction"                                 # eval/metrics/extraction.py and its settings
    [[metric]]
    use = "perplexity"
    [[metric]]
    use = "frontier"

Every metric is asked at every checkpoint (or only some of them), each of which is loaded once, and then once over all. Paths in a suite are
relative to its file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from sanitize.errors import UsageError, nearest

from .language_model import Model
from .metric import Ground, Metric, metric, placed, reported, told
from .probe_inputs import Part, counted_addresses, read_texts, vault_addresses
from .run_folder import Checkpoint, Run

VERSION = 1  # of the JSON
Say = Callable[[str], None]
Leaks = list[dict[str, Any]]  # a row for each value that was given away: suite, run, step, metric, and the fields of `metric.Leak`


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Set(_Section):
    """`[texts]`: a named set of texts."""

    path: Path
    column: str = "text"
    part: Part = "whole"
    most: int | None = Field(default=None, ge=1)


class Original(_Section):
    """`[original]`: where the addresses of the raw corpus are taken from."""

    documents: Path | None = None
    work: Path | None = None
    strangers: Path | None = None  # texts with addresses that no run was trained on; None: the original ones' parts put together anew


class Suite(_Section):
    """A checked suite, its paths as they are to be opened."""

    name: str = "suite"
    seed: int = 0
    device: str = "cpu"
    baseline: str | None = None
    checkpoints: Literal["all", "final"] | int = "all"  # a number: every n-th, and always the base model and the last
    runs: dict[str, Path] = Field(min_length=1)
    original: Original | None = None
    texts: dict[str, Set] = Field(default_factory=dict)
    metric: list[dict[str, Any]] = Field(min_length=1)
    _home: Path = PrivateAttr(default=Path())  # what relative paths of metrics begin at

    @classmethod
    def read(cls, path: str | Path) -> Suite:
        """The suite of a TOML file; UsageError for what it does not say, or says wrongly."""
        file = Path(path)
        try:
            table = tomllib.loads(file.read_text("utf-8"))
        except OSError as error:
            raise UsageError(f"{file}: cannot be read ({type(error).__name__}); expected a suite in TOML") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{file.name}: not TOML: {error}") from None
        return cls.of({"name": file.stem, **table}, file.parent, file.name)

    @classmethod
    def of(cls, table: Mapping[str, Any], home: Path = Path(), where: str = "suite") -> Suite:
        """The suite of a table; relative paths are taken from `home`."""
        try:
            suite = cls.model_validate(dict(table))
        except ValidationError as error:
            raise UsageError(f"{where}: {told(error, cls)}") from None
        if suite.baseline is not None and suite.baseline not in suite.runs:
            raise UsageError(f"{where}: baseline = {suite.baseline!r} is none of the runs; {nearest(suite.baseline, suite.runs)}")
        if isinstance(suite.checkpoints, int) and suite.checkpoints < 1:
            raise UsageError(f"{where}: checkpoints = {suite.checkpoints}; expected all, final, or every n-th as a number of 1 or more")
        original = suite.original
        if original is not None:
            if (original.documents is None) == (original.work is None):
                raise UsageError(f"{where}: [original] takes either documents or work")
            paths = {name: home / place for name in ("documents", "work", "strangers") if (place := getattr(original, name)) is not None}
            original = original.model_copy(update=paths)
        suite._home = home
        return suite.model_copy(
            update={
                "runs": {name: home / place for name, place in suite.runs.items()},
                "texts": {name: one.model_copy(update={"path": home / one.path}) for name, one in suite.texts.items()},
                "original": original,
            }
        )

    def metrics(self) -> list[Metric]:
        """Its metrics, in order; each may stand there once."""
        found = [placed(metric(settings, f"{self.name}: metric[{number}]"), self._home) for number, settings in enumerate(self.metric)]
        uses = [one.use for one in found]
        if twice := sorted({use for use in uses if uses.count(use) > 1}):
            raise UsageError(f"{self.name}: metric {twice[0]} stands there twice; their numbers would have one name. Make two suites of it")
        return found

    def ground(self) -> Ground:
        """The texts and addresses that its metrics share."""
        original, unknown = self.original, None
        known: dict[str, int] = {}
        if original is not None:
            known = vault_addresses(original.work) if original.work else counted_addresses(read_texts(original.documents or "").texts)
            unknown = counted_addresses(read_texts(original.strangers).texts) if original.strangers else None
        return Ground(
            seed=self.seed,
            baseline=self.baseline,
            texts={name: read_texts(one.path, column=one.column, part=one.part, most=one.most) for name, one in self.texts.items()},
            original=known,
            strangers=tuple(sorted((unknown or {}).keys() - known.keys())),
        )


def evaluate(suite: Suite | str | Path, *, leaks: Leaks | None = None, say: Say = lambda line: None) -> dict[str, Any]:
    """Everything a suite measures, as one JSON object without a value or text; `say` hears a line for each checkpoint.

    A list that is given as `leaks` is filled with the values behind the counts: raw ones, for `leaked.write`.
    """
    if not isinstance(suite, Suite):
        suite = Suite.read(suite)
    metrics = suite.metrics()
    runs = {name: Run.open(path) for name, path in suite.runs.items()}
    return measured(runs, metrics, suite.ground(), name=suite.name, device=suite.device, which=suite.checkpoints, leaks=leaks, say=say)


def measured(
    runs: Mapping[str, Run],
    metrics: Sequence[Metric],
    ground: Ground,
    *,
    name: str = "suite",
    device: str | None = "cpu",
    which: str | int = "all",
    leaks: Leaks | None = None,
    say: Say = lambda line: None,
) -> dict[str, Any]:
    """The report of metrics over runs: rows by run and checkpoint, and what follows over all of them."""
    for one in metrics:
        one.open(ground)
    rows: dict[str, list[dict[str, Any]]] = {}
    for run_name, run in runs.items():
        rows[run_name] = []
        for checkpoint in chosen(run, which):
            say(f"{run_name}, {checkpoint.name}")
            model = Model.load(checkpoint.path, device)
            row: dict[str, Any] = {"step": checkpoint.step, "epoch": checkpoint.epoch, "train_loss": checkpoint.train_loss}
            row["validation_loss"] = checkpoint.validation_loss
            for one in metrics:
                if found := one.at(run, checkpoint, model):
                    row[one.use] = found
                if leaks is not None:
                    where = {"suite": name, "run": run_name, "step": checkpoint.step, "metric": one.use}
                    leaks += [{**where, **leak._asdict()} for leak in one.leaked()]
            rows[run_name].append(row)
    over = {one.use: found for one in metrics if (found := one.over(rows))}
    figures = [{**asdict(figure), "metric": one.use} for one in metrics for figure in one.figures(rows, over.get(one.use, {}))]
    return {
        "version": VERSION,
        "name": name,
        "seed": ground.seed,
        "baseline": ground.baseline,
        "metrics": [reported(one) for one in metrics],
        "runs": {run_name: {"trained": trained_on(run), "rows": rows[run_name]} for run_name, run in runs.items()},
        "over": over,
        "figures": figures,
    }


def chosen(run: Run, which: str | int) -> tuple[Checkpoint, ...]:
    """The checkpoints of a run that are measured: all, the last, or every n-th; the base model is always among them, and the last."""
    if which == "all":
        return run.checkpoints
    every = len(run.checkpoints) if which == "final" else int(which)
    last = len(run.checkpoints) - 1
    return tuple(one for place, one in enumerate(run.checkpoints) if place % every == 0 or place == last)


def trained_on(run: Run) -> dict[str, Any]:
    """What a run was trained on and how, for the report and the model card: names of settings and counts, no paths of the data."""
    recipe, data = run.recipe.get("recipe", {}), run.recipe.get("data", {})
    told = {key: run.summary.get(key) for key in ("steps", "tokens", "documents", "final")}
    keep = {key: data.get(key) for key in ("documents", "sha256")} if isinstance(data, dict) else {}
    return {
        **told,
        "data": keep,
        "recipe_hash": run.recipe.get("recipe_hash"),
        "base_model": None if run.recipe.get("base_model") is None else Path(str(run.recipe["base_model"])).name,
        "objective": {
            key: value.rpartition("/")[2] if isinstance(value, str) else value  # of a path its last name
            for key, value in recipe.get("objective", {}).items()
        },
        "privacy": {"claim": (run.summary.get("privacy") or {}).get("claim")},
        "model": {key: value for key, value in recipe.get("model", {}).items() if key != "path"},
        "settings": {key: recipe.get("run", {}).get(key) for key in ("epochs", "batch", "lr", "schedule", "seed")},
    }
