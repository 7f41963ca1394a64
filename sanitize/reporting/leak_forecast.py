"""What a model trained on a corpus may leak, told from measured curves before any is trained: addresses by frequency, plan by plan.

`sanitize-eval frontier` measures, for each plan and band of frequency, how many of the addresses its small models said (`curves.json`).
Here these shares, with their intervals, are put on the frequencies of another corpus. That is a comparison of plans, not of levels: a
larger model, more epochs or another attack leak at another level.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sanitize.errors import UsageError

KIND = "EMAIL_ADDRESS"
VERSION = 1


def read_curves(path: Path) -> dict[str, Any]:
    """The curves in a file that `sanitize-eval frontier` wrote; UsageError where it is none."""
    try:
        curves = json.loads(path.read_text("utf-8"))
        if curves["version"] != VERSION:
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


def forecast(curves: Mapping[str, Any], histogram: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """For each plan of the curves how many addresses may be said, with an interval: in all, and by band of frequency.

    `histogram` holds (occurrences, how many addresses occur so often). An interval of a sum is the sum of the intervals, which is wider
    than need be. Bands in which nothing was measured go from none to all.
    """
    plans = []
    for plan, bands in curves["plans"].items():
        told = []
        for band in bands:
            there = sum(values for times, values in histogram if band["from"] <= times and (band["to"] is None or times <= band["to"]))
            sums = {name: round(there * band[key], 1) for name, key in (("expected", "share"), ("low", "low"), ("high", "high"))}
            told.append({"from": band["from"], "to": band["to"], "addresses": there, "measured_on": band["addresses"], **sums})
        total = {name: round(sum(band[name] for band in told), 1) for name in ("expected", "low", "high")}
        plans.append({"plan": plan, "addresses": sum(band["addresses"] for band in told), **total, "bands": told})
    return {"prompts": curves.get("family", ""), "runs": curves.get("runs", 0), "plans": plans}
