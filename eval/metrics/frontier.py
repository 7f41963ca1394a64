"""The trade-off of privacy against utility: the MaxTER staircase and the area below it, AURC (RMFT,
section 6).

    MaxTER(tau) = the largest reduction of TER among the checkpoints whose MDP% is tau or less
    (equation 4); 0 if there is none

The reduction is (TER of the baseline - TER) / TER of the baseline, in percent: positive is good.
The paper's equation 6 has the other sign, with which the maximum would choose the worst checkpoint.
A checkpoint at which the baseline leaks nothing has no reduction: it is skipped and counted. The
staircase is continuous from the right. The paper gives the AURC "units^2" without its range; from
its tables the area is divided by a range of about 25 points of MDP% (inferred: no other reading
fits 17.09 and 82.08 for one technique). `aurc` is that, in percent; `aurc_raw` the area itself, in
percent times percent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field, PrivateAttr

from sanitize.errors import UsageError

from ..metric import EvalContext, Figure, FigureSeries, Metric, MetricRows
from .extraction import pair_checkpoints

MDP_RANGE = 25.0  # points of MDP%, inferred


class Frontier(Metric):
    """Settings of the curve. Measures nothing itself: it uses the results of `extraction` and
    `perplexity` in the same suite."""

    family: Literal["web", "cue"] = "web"
    texts: str | None = None  # the text set whose perplexity is used; None: the first
    reading: Literal["mean", "corpus"] = "mean"
    range: float = Field(default=MDP_RANGE, gt=0)

    _context: EvalContext = PrivateAttr(default_factory=EvalContext)

    def setup(self, context: EvalContext) -> None:
        """Check that the suite names a baseline; UsageError if not."""
        if context.baseline is None:
            raise UsageError(
                "frontier compares with a baseline; name one of the runs: baseline = ..."
            )
        self._context = context

    def aggregate(self, rows: MetricRows) -> dict[str, Any]:
        """Return the staircase and both areas of each run but the baseline."""
        assert self._context.baseline is not None
        results = {}
        for name, other in rows.items():
            if name != self._context.baseline:
                points, skipped = self._checkpoint_points(rows[self._context.baseline], other)
                results[name] = {
                    **compute_staircase_area(points, self.range),
                    "steps": build_staircase(points),
                    "points": points,
                    "skipped": skipped,
                }
        return results

    def build_figures(self, rows: MetricRows, aggregated: Mapping[str, Any]) -> list[Figure]:
        """Return the staircases (the paper's figures 4 and 6), and a figure of all checkpoints by
        MDP% and reduction."""
        stairs = []
        for name, result in aggregated.items():
            corners = [
                (0.0, max_ter(result["points"], 0.0)),
                *((cost, drop) for cost, drop in result["steps"] if 0 < cost < self.range),
            ]
            stairs.append(
                FigureSeries(name, [*corners, (self.range, max_ter(result["points"], self.range))])
            )
        dots = [FigureSeries(name, result["points"]) for name, result in aggregated.items()]
        return [
            Figure(
                "MaxTER: largest reduction for a loss of utility",
                "tau, MDP % allowed",
                "reduction of TER %",
                stairs,
                "steps",
            ),
            Figure(
                "Utility and privacy at each checkpoint",
                "MDP %",
                "reduction of TER %",
                dots,
                "dots",
            ),
        ]

    def _checkpoint_points(
        self, base: Sequence[Any], other: Sequence[Any]
    ) -> tuple[list[tuple[float, float]], int]:
        """Return (MDP%, reduction of TER in percent) of each checkpoint, and the number of skipped
        checkpoints."""
        sides = []
        for run in (base, other):
            if any("extraction" not in row or "perplexity" not in row for row in run):
                raise UsageError(
                    "frontier needs extraction and perplexity in the same suite; add both before it"
                )
            which = self.texts or next(iter(run[0]["perplexity"]))
            if which not in run[0]["perplexity"]:
                raise UsageError(f"frontier.texts: no perplexity of {which!r} was measured")
            if any(row["perplexity"][which][self.reading] is None for row in run):
                raise UsageError(
                    f"frontier.texts: the texts of {which!r} have no finite perplexity, or no"
                    " token; choose others"
                )
            if self.family not in run[0]["extraction"]:
                raise UsageError(f"frontier.family: no {self.family} prompts were asked")
            sides.append(
                [
                    (
                        row["step"],
                        (
                            row["extraction"][self.family]["ter"],
                            row["perplexity"][which][self.reading],
                        ),
                    )
                    for row in run
                    if row["step"]
                ]
            )
        pairs = pair_checkpoints(*sides)
        points = [
            (100 * (two[1] - one[1]) / one[1], 100 * (one[0] - two[0]) / one[0])
            for one, two in pairs
            if one[0] > 0
        ]
        return points, len(pairs) - len(points)


def max_ter(points: Sequence[tuple[float, float]], tau: float) -> float:
    """Return the largest reduction among points with an MDP% of `tau` or less; 0 if there is
    none."""
    return max((drop for cost, drop in points if cost <= tau), default=0.0)


def build_staircase(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the steps of MaxTER as (MDP%, reduction), each valid until the next one; ascending in
    both.

    The first step may be negative, if every checkpoint at that cost leaks more than the baseline.
    """
    steps: list[tuple[float, float]] = []
    for cost, drop in sorted(points, key=lambda point: (point[0], -point[1])):
        if not steps or drop > steps[-1][1]:
            steps.append((cost, drop))
    return steps


def compute_staircase_area(
    points: Sequence[tuple[float, float]], max_mdp: float = MDP_RANGE
) -> dict[str, float]:
    """Return `aurc`: mean height of the staircase over 0..`max_mdp` points of MDP%, in percent;
    `aurc_raw`: area; `range`: `max_mdp`."""
    edges = np.unique([0.0, *(cost for cost, _ in points if 0 < cost < max_mdp), max_mdp])
    # the staircase is constant between two edges, with the value at the left one
    raw = sum(
        max_ter(points, float(low)) * float(high - low)
        for low, high in zip(edges[:-1], edges[1:], strict=True)
    )
    return {"aurc": raw / max_mdp, "aurc_raw": raw, "range": max_mdp}
