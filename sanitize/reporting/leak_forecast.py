"""Forecasts how many addresses a model trained on a corpus may leak, by plan, before any model is trained.

`sanitize-eval frontier` measures, for each plan and band of frequency, which share of the addresses its small models leaked
(`curves.json`). Here these shares, with their intervals, are applied to the frequencies of another corpus. The result compares plans; it
does not predict absolute numbers: a larger model, more epochs or another attack leak more or less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sanitize.core.command_results import BandForecast, LeakForecast, PlanForecast
from sanitize.errors import UsageError
from sanitize.storage.files import parse_json

FORECAST_KIND = "EMAIL_ADDRESS"
CURVES_VERSION = 1


def read_curves(path: Path) -> dict[str, Any]:
    """Read the curves that `sanitize-eval frontier` wrote. Raises UsageError for any other file."""
    try:
        curves = parse_json(path.read_text("utf-8"))
        if curves["version"] != CURVES_VERSION:
            raise ValueError("another version")
        for bands in curves["plans"].values():
            for band in bands:
                if not (
                    0 <= band["low"] <= band["share"] <= band["high"] <= 1
                    and band["from"] >= 1
                    and (band["to"] or band["from"]) >= band["from"]
                ):
                    raise ValueError("no share")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path}: no measured curves ({type(error).__name__}); expected curves.json of `sanitize-eval frontier`") from None
    return dict(curves)


def forecast_leaks(curves: Mapping[str, Any], frequency_histogram: Sequence[tuple[int, int]]) -> LeakForecast:
    """For each plan of the curves the expected number of leaked addresses, with an interval: in total, and by band of frequency.

    `frequency_histogram` has pairs (occurrences, number of addresses with so many). The interval of a sum is the sum of the intervals,
    which is wider than necessary. A band without measurements has the interval from none to all.
    """
    plans = []
    for plan, bands in curves["plans"].items():
        forecasts = []
        for band in bands:
            addresses = sum(
                values for times, values in frequency_histogram if band["from"] <= times and (band["to"] is None or times <= band["to"])
            )
            sums = {name: round(addresses * band[key], 1) for name, key in (("expected", "share"), ("low", "low"), ("high", "high"))}
            measured_on = band["addresses"]
            forecasts.append(BandForecast(from_=band["from"], to=band["to"], addresses=addresses, measured_on=measured_on, **sums))
        plans.append(
            PlanForecast(
                plan=plan,
                addresses=sum(band.addresses for band in forecasts),
                expected=round(sum(band.expected for band in forecasts), 1),
                low=round(sum(band.low for band in forecasts), 1),
                high=round(sum(band.high for band in forecasts), 1),
                bands=forecasts,
            )
        )
    return LeakForecast(prompts=curves.get("family", ""), runs=curves.get("runs", 0), plans=plans)
