"""Forecasts how many addresses a model trained on a corpus may leak, by plan, before any model is
trained.

`sanitize-eval frontier` measures, for each plan and band of frequency, which share of the addresses
its small models leaked (`curves.json`). Here these shares, with their intervals, are applied to the
frequencies of another corpus. The result compares plans; it does not predict absolute numbers: a
larger model, more epochs or another attack leak more or less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from sanitize.errors import UsageError
from sanitize.reporting.confidence_intervals import wilson_interval
from sanitize.storage.files import parse_json

FORECAST_KIND = "EMAIL_ADDRESS"
CURVES_VERSION = 2


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """How many of some addresses models may leak, with an interval."""

    addresses: int
    expected: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class BandForecast(Forecast):
    """The forecast for addresses that occur `from_` to `to` times (None: or more)."""

    from_: Annotated[int, Field(alias="from")]
    to: int | None
    measured_on: int


@dataclass(frozen=True, kw_only=True)
class PlanForecast(Forecast):
    """How many addresses models trained on the output of a plan may leak, in total and by band of
    frequency. The intervals include the differences between trainings where `between_trainings` is
    true."""

    plan: str
    between_trainings: bool
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
        for plan, bands in curves["plans"].items():
            if not (curves["dispersion"][plan] is None or curves["dispersion"][plan] >= 1):
                raise ValueError("no dispersion")
            for band in bands:
                if not (
                    0 <= band["leaked"] <= band["addresses"]
                    and 0 <= band["low"] <= band["share"] <= band["high"] <= 1
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
    """For each plan of the curves the expected number of leaked addresses, with an interval: in
    total, and by band of frequency.

    `frequency_histogram` has pairs (occurrences, number of addresses with so many). The interval of
    a band is one for a new training: it has the uncertainty of the measured share and of the new
    count, both enlarged by the dispersion between the measured trainings. With curves of one
    training the dispersion is not known, and `between_trainings` of the plan is false: the interval
    is too narrow then. The interval of a sum is the sum of the intervals, which is wider than
    necessary. A band without measurements has the interval from none to all.
    """
    plans = []
    for plan, bands in curves["plans"].items():
        forecasts, dispersion = [], curves["dispersion"][plan]
        for band in bands:
            addresses = sum(
                values
                for times, values in frequency_histogram
                if band["from"] <= times and (band["to"] is None or times <= band["to"])
            )
            low, high = _predict_share(band, addresses, dispersion or 1.0)
            forecasts.append(
                BandForecast(
                    from_=band["from"],
                    to=band["to"],
                    addresses=addresses,
                    measured_on=band["addresses"],
                    expected=round(addresses * band["share"], 1),
                    low=round(addresses * low, 1),
                    high=round(addresses * high, 1),
                )
            )
        plans.append(
            PlanForecast(
                plan=plan,
                between_trainings=dispersion is not None,
                addresses=sum(band.addresses for band in forecasts),
                expected=round(sum(band.expected for band in forecasts), 1),
                low=round(sum(band.low for band in forecasts), 1),
                high=round(sum(band.high for band in forecasts), 1),
                bands=forecasts,
            )
        )
    return LeakForecast(prompts=curves.get("family", ""), runs=curves.get("runs", 0), plans=plans)


def _predict_share(
    band: Mapping[str, Any], addresses: int, dispersion: float
) -> tuple[float, float]:
    """The interval of the share that leaks of so many new addresses: Wilson's, with the number of
    trials that has the variances of the measured and of the new share."""
    share = band["share"]
    if not band["addresses"] or not addresses:
        return 0.0, 1.0
    low, high = wilson_interval(
        share, 1 / (dispersion / band["addresses"] + dispersion / addresses)
    ) or (0.0, 1.0)
    return min(low, share), max(high, share)
