"""What privacy is to be had for a given loss of utility: the MaxTER staircase, and the area below it (RMFT, section 6).

    MaxTER(tau) = the largest reduction of TER among the checkpoints whose MDP% is tau or less (equation 4); 0 where there is none

The reduction is (TER of the baseline - TER) / TER of the baseline, in percent: positive is good. The paper's equation 6 has the other sign,
with which the maximum would choose the worst checkpoint. A checkpoint at which the baseline leaks nothing has no reduction: it is skipped
and counted. The staircase is continuous from the right. The paper gives the AURC "units^2" without its range; from its tables the area is
divided by a range of about 25 points of MDP% (inferred: no other reading fits 17.09 and 82.08 for one technique). `aurc` is that, in
percent; `aurc_raw` the area itself, in percent times percent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field, PrivateAttr

from sanitize.errors import UsageError

from ..metric import Figure, Ground, Metric, Rows, Series
from .extraction import paired

RANGE = 25.0  # points of MDP%, inferred


class Frontier(Metric):
    """Which rates make the curve. It measures nothing itself, and stands behind `extraction` and `perplexity` in a suite."""

    family: Literal["web", "cue"] = "web"
    texts: str | None = None  # the set whose perplexity counts; None: the first
    reading: Literal["mean", "corpus"] = "mean"
    range: float = Field(default=RANGE, gt=0)

    _ground: Ground = PrivateAttr(default_factory=Ground)

    def open(self, ground: Ground) -> None:
        """Check that there is a baseline."""
        if ground.baseline is None:
            raise UsageError("frontier compares with a baseline; name one of the runs: baseline = ...")
        self._ground = ground

    def over(self, rows: Rows) -> dict[str, Any]:
        """The staircase and both areas of each run but the baseline."""
        assert self._ground.baseline is not None
        told = {}
        for name, other in rows.items():
            if name != self._ground.baseline:
                points, skipped = self._points(rows[self._ground.baseline], other)
                told[name] = {**area(points, self.range), "steps": staircase(points), "points": points, "skipped": skipped}
        return told

    def figures(self, rows: Rows, over: Mapping[str, Any]) -> list[Figure]:
        """The staircases (the paper's figures 4 and 6), and every checkpoint by its cost and its reduction."""
        stairs = []
        for name, told in over.items():
            corners = [(0.0, max_ter(told["points"], 0.0)), *((cost, drop) for cost, drop in told["steps"] if 0 < cost < self.range)]
            stairs.append(Series(name, [*corners, (self.range, max_ter(told["points"], self.range))]))
        dots = [Series(name, told["points"]) for name, told in over.items()]
        return [
            Figure("MaxTER: what is to be had for a loss of utility", "tau, MDP % allowed", "reduction of TER %", stairs, "steps"),
            Figure("Utility and privacy at each checkpoint", "MDP %", "reduction of TER %", dots, "dots"),
        ]

    def _points(self, base: Sequence[Any], other: Sequence[Any]) -> tuple[list[tuple[float, float]], int]:
        """(MDP%, reduction of TER in percent) of each checkpoint, and how many were skipped."""
        sides = []
        for run in (base, other):
            if any("extraction" not in row or "perplexity" not in row for row in run):
                raise UsageError("frontier needs extraction and perplexity in the same suite; add both before it")
            which = self.texts or next(iter(run[0]["perplexity"]))
            if which not in run[0]["perplexity"]:
                raise UsageError(f"frontier.texts: no perplexity of {which!r} was measured")
            if self.family not in run[0]["extraction"]:
                raise UsageError(f"frontier.family: no {self.family} prompts were asked")
            sides.append(
                [
                    (row["step"], (row["extraction"][self.family]["ter"], row["perplexity"][which][self.reading]))
                    for row in run
                    if row["step"]
                ]
            )
        pairs = paired(*sides)
        points = [(100 * (two[1] - one[1]) / one[1], 100 * (one[0] - two[0]) / one[0]) for one, two in pairs if one[0] > 0]
        return points, len(pairs) - len(points)


def max_ter(points: Sequence[tuple[float, float]], tau: float) -> float:
    """The largest reduction among points with an MDP% of `tau` or less; 0 where there is none."""
    return max((drop for cost, drop in points if cost <= tau), default=0.0)


def staircase(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The steps of MaxTER: from each MDP% on, the reduction that holds until the next one; ascending in both.

    The first step may lie below zero, where every checkpoint that is that cheap leaks more than the baseline.
    """
    steps: list[tuple[float, float]] = []
    for cost, drop in sorted(points, key=lambda point: (point[0], -point[1])):
        if not steps or drop > steps[-1][1]:
            steps.append((cost, drop))
    return steps


def area(points: Sequence[tuple[float, float]], upto: float = RANGE) -> dict[str, float]:
    """`aurc`: the mean height of the staircase over 0..`upto` points of MDP%, in percent; `aurc_raw`: the area; `range`: `upto`."""
    edges = np.unique([0.0, *(cost for cost, _ in points if 0 < cost < upto), upto])
    # between two edges nothing changes, so the value at the left one holds
    raw = sum(max_ter(points, float(low)) * float(high - low) for low, high in zip(edges[:-1], edges[1:], strict=True))
    return {"aurc": raw / upto, "aurc_raw": raw, "range": upto}
