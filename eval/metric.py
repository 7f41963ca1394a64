"""Base class of metrics: settings with a name, called at every checkpoint of every run, and once
over all results.

A file of `metrics/` that a suite can use defines one subclass of `Metric`, named after the file.
Metrics return numbers, never a value or a text of the data.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from sanitize.errors import UsageError, describe_validation_error, suggest_names

from .language_model import LanguageModel
from .run_folder import Checkpoint, RunFolder
from .texts_and_prompts import TextSet

_SettingsT = TypeVar("_SettingsT", bound=BaseModel)
# what was measured at one checkpoint: step, epoch, and one entry for each metric
MetricRow = Mapping[str, Any]
MetricRows = Mapping[str, Sequence[MetricRow]]  # by name of the run


@dataclass(frozen=True, repr=False)
class EvalContext:
    """What all metrics of a suite share: seed, baseline, texts and addresses."""

    seed: int = 0
    baseline: str | None = None  # the run that the others are compared with
    text_sets: Mapping[str, TextSet] = field(default_factory=dict)
    # addresses of the raw corpus, and how often each occurs
    original_addresses: Mapping[str, int] = field(default_factory=dict)
    unseen_addresses: Sequence[str] = ()  # addresses that no run was trained on


class LeakedValue(NamedTuple):
    """A value that a model leaked: the kind of prompt (`how`), the value's kind, the value, and its
    occurrences in the original data."""

    how: str
    kind: str
    value: str
    occurrences: int


class FigureSeries(NamedTuple):
    """One curve of a figure: the name of its run, and its points from left to right."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Figure:
    """A figure of a report: curves over one pair of axes, drawn as `line`, `steps` (a staircase,
    right-continuous) or `dots`."""

    title: str
    x: str
    y: str
    series: Sequence[FigureSeries]
    kind: Literal["line", "steps", "dots"] = "line"


class Metric(BaseModel):
    """One metric. `on_checkpoint` is called for each checkpoint, `aggregate` once at the end; each
    returns a JSON object of numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    use: str

    def setup(self, context: EvalContext) -> None:
        """Prepare for measuring; UsageError if the suite lacks something that the metric needs."""

    def depends_on_run(self, checkpoint: Checkpoint) -> bool:
        """Whether the result at a checkpoint depends on its run (data, recipe, step), and not on
        the model alone.

        Where it does not, checkpoints with the same weights are measured once: the base model of
        several runs.
        """
        return True

    def on_checkpoint(
        self, run: RunFolder, checkpoint: Checkpoint, model: LanguageModel
    ) -> dict[str, Any]:
        """Return the measurements of one checkpoint; may be empty."""
        return {}

    def list_leaked_values(self) -> Sequence[LeakedValue]:
        """Return the values behind the counts of the last `on_checkpoint`, for a private list;
        never part of a report."""
        return ()

    def save_state(self) -> Any:
        """Return what `aggregate` needs of the last `on_checkpoint` besides its result, as JSON
        data without values of the data."""
        return None

    def restore_state(self, state: Any) -> None:
        """Take over a state that `save_state` returned in an earlier process, instead of a call of
        `on_checkpoint`."""

    def aggregate(self, rows: MetricRows) -> dict[str, Any]:
        """Return results over all checkpoints of all runs; may be empty."""
        return {}

    def build_figures(self, rows: MetricRows, aggregated: Mapping[str, Any]) -> list[Figure]:
        """Return the figures of a report; `aggregated` is the result of `aggregate`."""
        return []


def make_epoch_figure(
    rows: MetricRows, value: Callable[[MetricRow], float | None], title: str, y_label: str
) -> Figure:
    """Return a figure of one number over the epochs of each run; checkpoints without the number are
    left out."""
    series = [
        FigureSeries(
            name, [(row["epoch"], found) for row in run_rows if (found := value(row)) is not None]
        )
        for name, run_rows in rows.items()
    ]
    return Figure(title, "epoch", y_label, series)


def list_metrics() -> list[str]:
    """Return the names of the metrics that a suite can use, by file name."""
    found = sorted(
        path.stem
        for path in (Path(__file__).parent / "metrics").glob("*.py")
        if path.stem != "__init__"
    )
    return [name for name in found if _find_metric_class(name) is not None]


def _find_metric_class(name: str) -> type[Metric] | None:
    module = importlib.import_module(f".metrics.{name}", __package__)
    classes = [
        one
        for _, one in inspect.getmembers(module, inspect.isclass)
        if issubclass(one, Metric) and one.__module__ == module.__name__
    ]
    return classes[0] if classes else None


def load_metric(settings: Mapping[str, Any], where: str = "metric") -> Metric:
    """Build a metric from its table in a suite; UsageError for an unknown name, key or value."""
    name = settings.get("use")
    if name not in list_metrics():
        raise UsageError(
            f"{where}.use = {name!r}: no such metric; {suggest_names(str(name), list_metrics())}"
        )
    metric_class = _find_metric_class(str(name))
    assert metric_class is not None
    try:
        return metric_class.model_validate(dict(settings))
    except ValidationError as error:
        raise UsageError(describe_validation_error(error, metric_class, f"{where}:")) from None


def resolve_paths(settings: _SettingsT, base_folder: Path) -> _SettingsT:
    """Return the same settings with relative paths resolved against `base_folder`."""
    changed: dict[str, Any] = {}
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, Path):
            changed[name] = base_folder / value
        elif isinstance(value, BaseModel):
            changed[name] = resolve_paths(value, base_folder)
    return settings.model_copy(update=changed)


def describe_settings(settings: BaseModel) -> dict[str, Any]:
    """Return settings for a report; paths are shortened to their last name, so that reports do not
    disclose locations."""
    found = settings.model_dump(mode="json")
    for name in found:
        value = getattr(settings, name)
        found[name] = (
            value.name
            if isinstance(value, Path)
            else describe_settings(value)
            if isinstance(value, BaseModel)
            else found[name]
        )
    return found
