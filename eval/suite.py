"""A suite (TOML): which runs, texts and metrics are measured; `evaluate` returns one JSON object.

    baseline = "raw"                                   # the run that the others are compared with

    [runs]
    raw = "runs/raw"                                   # folders that `sanitize-train` wrote
    rmft = "runs/rmft"

    [original]
    documents = "corpus/train"                         # the raw documents, or work = "OUT.private"
                                                       for a run's vault

    [texts]
    mail = { path = "corpus/test" }
    body = { path = "corpus/test", part = "body" }

    [[metric]]
    use = "extraction"                                 # eval/metrics/extraction.py and its settings
    [[metric]]
    use = "perplexity"
    [[metric]]
    use = "frontier"

Every metric is called at every checkpoint (or some of them), each of which is loaded once, and then
once over all results. Checkpoints with the same weights are measured once where the metric depends
on them alone. Paths in a suite are relative to its file.
"""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from sanitize.errors import UsageError, describe_validation_error, suggest_names
from sanitize.storage.files import parse_toml, read_regular_file
from sanitize.storage.records.splits import TRAIN

from .evaluation_progress import EvaluationProgress
from .language_model import LanguageModel, resolve_devices
from .measurement_records import Measurement, MeasurementRecords
from .metric import EvalContext, Metric, describe_settings, load_metric, resolve_paths
from .run_folder import Checkpoint, RunFolder
from .texts_and_prompts import TextSection, count_addresses, read_texts, read_vault_addresses

REPORT_VERSION = 2  # of the report's JSON
MessageCallback = Callable[[str], None]
# one row per leaked value: suite, run, step, metric, and the fields of `metric.LeakedValue`
LeakRows = list[dict[str, Any]]


class _SuiteSection(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TextSetSettings(_SuiteSection):
    """`[texts]`: a named set of texts."""

    path: Path
    column: str = "text"
    split: str = TRAIN  # of data that has splits
    part: TextSection = "whole"
    most: int | None = Field(default=None, ge=1)


class OriginalSettings(_SuiteSection):
    """The section `[original]` of a suite: what the models could have memorized.

    The addresses of the raw corpus are read from the private folder of a run (`work`) or, without
    one, from a corpus (`documents`). `strangers` are texts with addresses of people who are in no
    training data: what a model generates of them is chance."""

    documents: Path | None = None
    work: Path | None = None
    strangers: Path | None = (
        # texts with addresses that no run was trained on; None: recombined components of the
        # original ones
        None
    )


class Suite(_SuiteSection):
    """A checked suite with resolved paths."""

    name: str = "suite"
    seed: int = Field(default=0, ge=0, lt=2**63)
    device: str | None = (
        None  # or several, joined by commas, which share the work; None: a GPU if available
    )
    dtype: Literal["float32", "bfloat16"] = "float32"  # of weights and computation
    baseline: str | None = None
    checkpoints: Literal["all", "final"] | int = (
        "all"  # a number: every n-th, and always the base model and the last
    )
    runs: dict[str, Path] = Field(min_length=1)
    original: OriginalSettings | None = None
    texts: dict[str, TextSetSettings] = Field(default_factory=dict)
    metric: list[dict[str, Any]] = Field(min_length=1)
    # relative paths of metrics are resolved against it
    _base_folder: Path = PrivateAttr(default=Path())

    @classmethod
    def read(cls, path: str | Path) -> Suite:
        """Read a suite from a TOML file; UsageError for missing, unknown or wrong settings."""
        file = Path(path)
        try:
            table = parse_toml(read_regular_file(file).decode())
        except OSError as error:
            raise UsageError(
                f"{file}: cannot be read ({type(error).__name__}); expected a suite in TOML"
            ) from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{file.name}: not TOML: {error}") from None
        return cls.from_table({"name": file.stem, **table}, file.parent, file.name)

    @classmethod
    def from_table(
        cls, table: Mapping[str, Any], base_folder: Path = Path(), where: str = "suite"
    ) -> Suite:
        """Build a suite from a table; relative paths are resolved against `base_folder`."""
        try:
            suite = cls.model_validate(dict(table))
        except ValidationError as error:
            raise UsageError(describe_validation_error(error, cls, f"{where}:")) from None
        if suite.baseline is not None and suite.baseline not in suite.runs:
            raise UsageError(
                f"{where}: baseline = {suite.baseline!r} is not one of the runs;"
                f" {suggest_names(suite.baseline, suite.runs)}"
            )
        if isinstance(suite.checkpoints, int) and suite.checkpoints < 1:
            raise UsageError(
                f"{where}: checkpoints = {suite.checkpoints}; expected all, final, or every n-th as"
                " a number of 1 or more"
            )
        for name in (suite.name, *suite.runs):
            if not name.strip() or "/" in name or "\0" in name or name in (".", ".."):
                raise UsageError(
                    f"{where}: the name {name!r} of a suite or run is no file name, as which cards"
                    " of models have it; rename it"
                )
        original = suite.original
        if original is not None:
            if (original.documents is None) == (original.work is None):
                raise UsageError(f"{where}: [original] takes either documents or work")
            paths = {
                name: base_folder / place
                for name in ("documents", "work", "strangers")
                if (place := getattr(original, name)) is not None
            }
            original = original.model_copy(update=paths)
        suite._base_folder = base_folder
        return suite.model_copy(
            update={
                "runs": {name: base_folder / place for name, place in suite.runs.items()},
                "texts": {
                    name: one.model_copy(update={"path": base_folder / one.path})
                    for name, one in suite.texts.items()
                },
                "original": original,
            }
        )

    def build_metrics(self) -> list[Metric]:
        """Build the metrics of the suite, in order; UsageError if one is named twice."""
        found = [
            resolve_paths(
                load_metric(settings, f"{self.name}: metric[{number}]"), self._base_folder
            )
            for number, settings in enumerate(self.metric)
        ]
        uses = [one.use for one in found]
        if twice := sorted({use for use in uses if uses.count(use) > 1}):
            raise UsageError(
                f"{self.name}: metric {twice[0]} is named twice; their numbers would have the same"
                " name. Split the suite in two"
            )
        return found

    def build_context(self) -> EvalContext:
        """Read the texts and addresses that the metrics share."""
        original, unseen = self.original, None
        original_addresses: dict[str, int] = {}
        if original is not None:
            original_addresses = (
                read_vault_addresses(original.work)
                if original.work
                else count_addresses(read_texts(original.documents or "").texts)
            )
            unseen = (
                count_addresses(read_texts(original.strangers).texts)
                if original.strangers
                else None
            )
        return EvalContext(
            seed=self.seed,
            baseline=self.baseline,
            text_sets={
                name: read_texts(
                    one.path,
                    text_column=one.column,
                    section=one.part,
                    most=one.most,
                    split=one.split,
                )
                for name, one in self.texts.items()
            },
            original_addresses=original_addresses,
            unseen_addresses=tuple(sorted((unseen or {}).keys() - original_addresses.keys())),
        )


def evaluate(
    suite: Suite | str | Path,
    *,
    leaks: LeakRows | None = None,
    records: Path | None = None,
    progress: MessageCallback = lambda line: None,
) -> dict[str, Any]:
    """Measure a suite; return one JSON object without values or texts of the data. `progress` is
    given a line for each checkpoint.

    A list given as `leaks` is filled with the raw values behind the counts, for
    `leak_list.write_leak_list`. `records` is a folder for results of single metrics
    (`measurement_records`): a call that was stopped continues there; delete it once the report is
    written.
    """
    if not isinstance(suite, Suite):
        suite = Suite.read(suite)
    metrics = suite.build_metrics()
    runs = {name: RunFolder.open(path) for name, path in suite.runs.items()}
    return measure_runs(
        runs,
        metrics,
        suite.build_context(),
        name=suite.name,
        device=suite.device,
        dtype=suite.dtype,
        checkpoints=suite.checkpoints,
        leaks=leaks,
        records=records,
        progress=progress,
    )


def measure_runs(
    runs: Mapping[str, RunFolder],
    metrics: Sequence[Metric],
    context: EvalContext,
    *,
    name: str = "suite",
    device: str | None = None,
    dtype: str = "float32",
    checkpoints: str | int = "all",
    leaks: LeakRows | None = None,
    records: Path | None = None,
    progress: MessageCallback = lambda line: None,
) -> dict[str, Any]:
    """Measure runs with metrics; return the report: rows by run and checkpoint, aggregates and
    figures. `leaks`, `records` and `progress` as in `evaluate`; `device` and `dtype` as in a
    suite."""
    devices = resolve_devices(device)
    stored = MeasurementRecords(records, context, devices[0], dtype, with_leaks=leaks is not None)
    tasks = [
        (run_name, checkpoint, [stored.make_name(metric, run, checkpoint) for metric in metrics])
        for run_name, run in runs.items()
        for checkpoint in select_checkpoints(run, checkpoints)
    ]
    # by the name of its record, so that what has the same result is measured once
    missing = {
        record_name: metric.use
        for _, _, record_names in tasks
        for metric, record_name in zip(metrics, record_names, strict=True)
        if stored.find(record_name) is None
    }
    lines = EvaluationProgress(list(missing.values()), progress)
    for one in metrics:
        one.setup(context)
    rows: dict[str, list[dict[str, Any]]] = {run_name: [] for run_name in runs}
    with lines.heartbeat():
        for run_name, checkpoint, record_names in tasks:
            where = f"{run_name}, {checkpoint.name}"
            model: LanguageModel | None = None  # only one fits into memory
            lines.note(f"{where} ({lines.describe()})")
            row: dict[str, Any] = {
                "step": checkpoint.step,
                "epoch": checkpoint.epoch,
                "train_loss": checkpoint.train_loss,
                "validation_loss": checkpoint.validation_loss,
            }
            rows[run_name].append(row)
            for metric, record_name in zip(metrics, record_names, strict=True):
                measured = stored.find(record_name)
                if measured is not None:
                    metric.restore_state(measured.state)
                else:
                    lines.begin(where, metric.use)
                    started = time.monotonic()
                    model = model or LanguageModel.load(
                        checkpoint.path, ",".join(devices), dtype, control=lines.control
                    )
                    measured = measure_metric(
                        metric, runs[run_name], checkpoint, model, with_leaks=leaks is not None
                    )
                    lines.end(metric.use, time.monotonic() - started)
                    stored.write(record_name, measured)
                if measured.result:
                    row[metric.use] = measured.result
                if leaks is not None:
                    place = {"suite": name, "run": run_name, "step": checkpoint.step}
                    leaks += [{**place, "metric": metric.use, **leak} for leak in measured.leaks]
    aggregates = {one.use: found for one in metrics if (found := one.aggregate(rows))}
    figures = [
        {**asdict(figure), "metric": one.use}
        for one in metrics
        for figure in one.build_figures(rows, aggregates.get(one.use, {}))
    ]
    return {
        "version": REPORT_VERSION,
        "name": name,
        "seed": context.seed,
        "device": devices[0].partition(":")[0],
        "dtype": dtype,
        "baseline": context.baseline,
        "metrics": [describe_settings(one) for one in metrics],
        "runs": {
            run_name: {"trained": describe_training(run), "rows": rows[run_name]}
            for run_name, run in runs.items()
        },
        "aggregates": aggregates,
        "figures": figures,
    }


def measure_metric(
    metric: Metric,
    run: RunFolder,
    checkpoint: Checkpoint,
    model: LanguageModel,
    *,
    with_leaks: bool,
) -> Measurement:
    """Return what a metric measures at a checkpoint, as from a record."""
    measured = metric.on_checkpoint(run, checkpoint, model)
    # NaN and infinity are no JSON
    result = json.loads(json.dumps(measured), parse_constant=lambda name: None)
    leaks = [leak._asdict() for leak in metric.list_leaked_values()] if with_leaks else []
    return Measurement(result=result, state=metric.save_state(), leaks=leaks)


def select_checkpoints(run: RunFolder, checkpoints: str | int) -> tuple[Checkpoint, ...]:
    """Return the checkpoints of a run to measure: all, the last, or every n-th; the base model and
    the last are always included."""
    if checkpoints == "all":
        return run.checkpoints
    every = len(run.checkpoints) if checkpoints == "final" else int(checkpoints)
    last = len(run.checkpoints) - 1
    return tuple(
        one for place, one in enumerate(run.checkpoints) if place % every == 0 or place == last
    )


def describe_training(run: RunFolder) -> dict[str, Any]:
    """Return what a run was trained on and how, for the report and the model card: settings and
    counts, no paths of the data."""
    recipe, data = run.recipe.get("recipe", {}), run.recipe.get("data", {})
    counts = {key: run.summary.get(key) for key in ("steps", "tokens", "documents", "final")}
    data_summary = (
        {key: data.get(key) for key in ("documents", "sha256")} if isinstance(data, dict) else {}
    )
    return {
        **counts,
        "data": data_summary,
        "recipe_hash": run.recipe.get("recipe_hash"),
        "base_model": (
            None
            if run.recipe.get("base_model") is None
            else Path(str(run.recipe["base_model"])).name
        ),
        "objective": {
            # only the last name of a path
            key: (value.rpartition("/")[2] if isinstance(value, str) else value)
            for key, value in recipe.get("objective", {}).items()
        },
        "privacy": {"claim": (run.summary.get("privacy") or {}).get("claim")},
        "model": {key: value for key, value in recipe.get("model", {}).items() if key != "path"},
        "settings": {
            key: recipe.get("run", {}).get(key)
            for key in ("epochs", "batch", "lr", "schedule", "seed")
        },
    }
