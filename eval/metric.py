"""What a measurement is: settings with a name, asked at every checkpoint of every run, and once over all of them.

A file of `metrics/` that a suite can use holds one subclass of `Metric`, named after the file. Numbers come out, never a value or a text.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from sanitize.errors import UsageError, nearest

from .language_model import Model
from .probe_inputs import Texts
from .run_folder import Checkpoint, Run

_Settings = TypeVar("_Settings", bound=BaseModel)
Row = Mapping[str, Any]  # what was measured at one checkpoint: step, epoch, and one entry for each metric
Rows = Mapping[str, Sequence[Row]]  # by name of the run


@dataclass(frozen=True, repr=False)
class Ground:
    """What all measurements of a suite share."""

    seed: int = 0
    baseline: str | None = None  # the run that the others are compared with
    texts: Mapping[str, Texts] = field(default_factory=dict)
    original: Mapping[str, int] = field(default_factory=dict)  # addresses of the raw corpus, and how often each occurs
    strangers: Sequence[str] = ()  # addresses that no run was trained on


class Leak(NamedTuple):
    """A value that a model gave away: how it was asked, the value's kind, itself, and how often it stands in the original data."""

    how: str
    kind: str
    value: str
    occurrences: int


class Series(NamedTuple):
    """One curve of a figure: the run it is of, and its points from left to right."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Figure:
    """What a report draws: curves over one pair of axes, as `line`, `steps` (a staircase, continuous from the right) or `dots`."""

    title: str
    x: str
    y: str
    series: Sequence[Series]
    kind: Literal["line", "steps", "dots"] = "line"


class Metric(BaseModel):
    """One measurement. `at` is asked checkpoint by checkpoint, `over` once at the end; each gives a JSON object of numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    use: str

    def open(self, ground: Ground) -> None:
        """Make ready; UsageError where the suite does not give what is needed."""

    def at(self, run: Run, checkpoint: Checkpoint, model: Model) -> dict[str, Any]:
        """What is measured of one checkpoint; empty where nothing is."""
        return {}

    def leaked(self) -> Sequence[Leak]:
        """The values behind the counts of the last `at`, for a private list; never part of a report."""
        return ()

    def over(self, rows: Rows) -> dict[str, Any]:
        """What follows from all checkpoints of all runs; empty where nothing does."""
        return {}

    def figures(self, rows: Rows, over: Mapping[str, Any]) -> list[Figure]:
        """What a report draws of it; `over` is what `over` gave."""
        return []


def by_epoch(rows: Rows, value: Callable[[Row], float | None], title: str, y: str) -> Figure:
    """A figure of one number over the epochs of each run; checkpoints without it are left out."""
    series = [Series(name, [(row["epoch"], found) for row in told if (found := value(row)) is not None]) for name, told in rows.items()]
    return Figure(title, "epoch", y, series)


def names() -> list[str]:
    """The metrics that a suite can use, by file name."""
    found = sorted(path.stem for path in (Path(__file__).parent / "metrics").glob("*.py") if path.stem != "__init__")
    return [name for name in found if _class_of(name) is not None]


def _class_of(name: str) -> type[Metric] | None:
    module = importlib.import_module(f".metrics.{name}", __package__)
    classes = [
        one for _, one in inspect.getmembers(module, inspect.isclass) if issubclass(one, Metric) and one.__module__ == module.__name__
    ]
    return classes[0] if classes else None


def metric(settings: Mapping[str, Any], where: str = "metric") -> Metric:
    """The metric of a suite's table; UsageError for an unknown name, key or value."""
    name = settings.get("use")
    if name not in names():
        raise UsageError(f"{where}.use = {name!r}: no such metric; {nearest(str(name), names())}")
    kind = _class_of(str(name))
    assert kind is not None
    try:
        return kind.model_validate(dict(settings))
    except ValidationError as error:
        raise UsageError(f"{where}: {told(error, kind)}") from None


def placed(settings: _Settings, home: Path) -> _Settings:
    """The same settings, relative paths among them taken from `home`."""
    changed: dict[str, Any] = {}
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, Path):
            changed[name] = home / value
        elif isinstance(value, BaseModel):
            changed[name] = placed(value, home)
    return settings.model_copy(update=changed)


def reported(settings: BaseModel) -> dict[str, Any]:
    """Settings as a report says them: of a path its last name, since where data lies is nobody else's business."""
    found = settings.model_dump(mode="json")
    for name in found:
        value = getattr(settings, name)
        found[name] = value.name if isinstance(value, Path) else reported(value) if isinstance(value, BaseModel) else found[name]
    return found


def told(error: ValidationError, kind: type[BaseModel]) -> str:
    """The first thing that is wrong with settings, as one line with the nearest key."""
    first = error.errors()[0]
    place = ".".join(str(step) for step in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"unknown key {place}; {nearest(str(first['loc'][-1]), kind.model_fields)}"
    return f"{place or 'settings'}: {first['msg']}"
