"""Forecasts how many addresses a model trained on a corpus may leak, by plan, before any model is
trained.

`sanitize-eval frontier` measures, for each plan and band of frequency, which share of the addresses
its small models leaked (`curves.json`). Here these shares are applied to the frequencies of another
corpus. The result compares plans; it does not predict absolute numbers: a larger model, more epochs
or another attack leak more or less.

A forecast has no interval, but the counts that it was measured on. How much one training differs
from the next is seen in a handful of them only: the profile likelihood covers 40 to 90 % of new
trainings in simulations (benchmarks/bench_intervals.py), and is too narrow by up to a factor of 30.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from sanitize.errors import UsageError
from sanitize.storage.files import parse_json

FORECAST_KIND = "EMAIL_ADDRESS"
CURVES_VERSION = 2


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """How many of some addresses models may leak; None where no such address was measured."""

    addresses: int
    expected: float | None


@dataclass(frozen=True, kw_only=True)
class BandForecast(Forecast):
    """The forecast for addresses that occur `from_` to `to` times (None: or more), and how many of
    those measured leaked."""

    from_: Annotated[int, Field(alias="from")]
    to: int | None
    measured_on: int
    measured_leaked: int


@dataclass(frozen=True, kw_only=True)
class PlanForecast(Forecast):
    """How many addresses models trained on the output of a plan may leak, in total and by band of
    frequency."""

    plan: str
    bands: Sequence[BandForecast]


@dataclass(frozen=True, kw_only=True)
class LeakForecast:
    """Forecasts by plan, from the curves that `sanitize-eval frontier` measured in `runs` runs with
    these prompts."""

    prompts: str
    runs: int
    plans: Sequence[PlanForecast]


def read_curves(path: Path) -> dict[str, Any]:
    """Read the curves that `sanitize-eval frontier` wrote. Raises UsageError for any other file."""
    try:
        curves = parse_json(path.read_text("utf-8"))
        if curves["version"] != CURVES_VERSION:
            raise ValueError("another version")
        for bands in curves["plans"].values():
            for band in bands:
                if not (
                    0 <= band["leaked"] <= band["addresses"]
                    and band["from"] >= 1
                    and (band["to"] or band["from"]) >= band["from"]
                ):
                    raise ValueError("no share")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path}: no measured curves ({type(error).__name__}); expected curves.json of"
            " `sanitize-eval frontier`"
        ) from None
    return dict(curves)


def forecast_leaks(
    curves: Mapping[str, Any], frequency_histogram: Sequence[tuple[int, int]]
) -> LeakForecast:
    """For each plan of the curves the expected number of leaked addresses, in total and by band of
    frequency. `frequency_histogram` has pairs (occurrences, number of addresses with so many)."""
    plans = []
    for plan, bands in curves["plans"].items():
        forecasts = []
        for band in bands:
            addresses = sum(
                values
                for times, values in frequency_histogram
                if band["from"] <= times and (band["to"] is None or times <= band["to"])
            )
            forecasts.append(
                BandForecast(
                    from_=band["from"],
                    to=band["to"],
                    addresses=addresses,
                    measured_on=band["addresses"],
                    measured_leaked=band["leaked"],
                    expected=_forecast_count(addresses, band["leaked"], band["addresses"]),
                )
            )
        expected = [band.expected for band in forecasts if band.expected is not None]
        plans.append(
            PlanForecast(
                plan=plan,
                addresses=sum(band.addresses for band in forecasts),
                expected=round(sum(expected), 1) if len(expected) == len(forecasts) else None,
                bands=forecasts,
            )
        )
    return LeakForecast(prompts=curves.get("family", ""), runs=curves.get("runs", 0), plans=plans)


def _forecast_count(addresses: int, leaked: int, measured: int) -> float | None:
    if not addresses:
        return 0.0
    return round(addresses * leaked / measured, 1) if measured else None
