"""Whether what a masked model predicts gives away whose texts it was trained on: a count, its ROC, and what it tells at few false alarms.

The attack (Boutet et al., towards the anonymization of masked language modeling, section 5.1) costs no shadow model: a person's score is
how many of their own indirect identifiers the model predicted. The paper does not say who the non-members are. Here members and non-members
stand in one graph, so that a word is somebody's own only if nobody else, trained on or not, wrote it, and the texts of both are audited
alike (`identifiers.py`); with a graph of the members alone every non-member would score 0 by construction.

People with the same score are told apart by no threshold, so a ROC goes over them in one step, and the true-positive rate at a
false-positive rate is that of the last threshold that does not exceed it. With fewer than 1,000 non-members only 0 lies below 0.1 %.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import Field, PrivateAttr

from sanitize.errors import UsageError

from ..language_model import Model
from ..metric import Figure, Ground, Metric, Rows, Series, by_epoch
from ..probe_inputs import tables
from ..run_folder import Checkpoint, Run
from .identifiers import FOLDS, Blacklist, audit, own_identifiers, said

F64 = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

TARGETS = (0.001, 0.01, 0.1)  # table 2


class Membership(Metric):
    """Settings of the attack: the texts of people who were trained on and of others, and the blacklist of both together."""

    members: Path
    non_members: Path
    blacklist: Path  # of a run of the plan over both
    user_column: str = "user_id"
    text_column: str = "text"
    by: Literal["count", "share"] = "count"
    folds: int = Field(default=FOLDS, ge=1)

    _ground: Ground = PrivateAttr(default_factory=Ground)
    _black: Blacklist | None = PrivateAttr(default=None)
    _texts: dict[str, pl.DataFrame] = PrivateAttr(default_factory=dict)

    def open(self, ground: Ground) -> None:
        """Read blacklist and texts; UsageError where one is missing."""
        self._ground, self._black = ground, Blacklist.read(self.blacklist)
        self._texts = {
            name: people(path, user=self.user_column, text=self.text_column)
            for name, path in (("members", self.members), ("non_members", self.non_members))
        }

    def at(self, run: Run, checkpoint: Checkpoint, model: Model) -> dict[str, Any]:
        """The area with its interval, the rates at few false alarms, and the curve as [false, true] positive rates."""
        assert self._black is not None, "opened"
        scores = []
        for frame in self._texts.values():
            table = audit(model, frame["text"].to_list(), frame["doc_id"].to_list(), folds=self.folds, seed=self._ground.seed)
            own = own_identifiers(frame["text"].to_list(), frame["user_id"].to_list(), self._black.indirect)
            scores.append(list(count_scores(own, said(table, self._black.indirect), by=self.by).values()))
        curve = roc(*scores)
        points = np.stack([curve.false_positive, curve.true_positive], axis=1).tolist()
        return {**attack_table(*scores, seed=self._ground.seed), "curve": points}

    def figures(self, rows: Rows, over: Mapping[str, Any]) -> list[Figure]:
        """The area over epochs, and the curve of the last checkpoint (figure 6)."""
        last = [Series(name, told[-1][self.use]["curve"]) for name, told in rows.items() if told and self.use in told[-1]]
        return [
            by_epoch(rows, lambda row: row.get(self.use, {}).get("auc"), "Membership told from predicted words", "AUC"),
            Figure(
                "ROC at the last checkpoint",
                "false-positive rate",
                "true-positive rate",
                [*last, Series("chance", [(0.0, 0.0), (1.0, 1.0)])],
            ),
        ]


def people(path: Path, *, user: str = "user_id", text: str = "text") -> pl.DataFrame:
    """`doc_id`, `user_id` and `text` of a published folder, of Parquet or of JSON lines; documents without a user are left out."""
    frames = []
    for file, frame in tables(path):
        for column in (user, text):
            if column not in frame.columns:
                raise UsageError(f"{file}: no column {column}; it has {', '.join(sorted(frame.columns))}")
        ids = pl.col("doc_id").cast(pl.String) if "doc_id" in frame.columns else pl.lit(None, pl.String)
        frames.append(
            frame.select(ids.alias("doc_id"), pl.col(user).cast(pl.String).alias("user_id"), pl.col(text).cast(pl.String).alias("text"))
        )
    whole = pl.concat(frames).with_columns(
        pl.coalesce(pl.col("doc_id"), pl.int_range(pl.len()).cast(pl.String)), pl.col("text").fill_null("")
    )
    return whole.drop_nulls("user_id")


def count_scores(
    own: Mapping[str, Collection[str]], predicted: Collection[str], *, by: Literal["count", "share"] = "count"
) -> dict[str, float]:
    """For each person how many of their own identifiers were predicted; `share` divides by how many they have. Without any: 0."""
    there = set(predicted)
    scores = {}
    for person, words in own.items():
        hits = len(there.intersection(words))
        scores[person] = float(hits) if by == "count" else hits / len(set(words)) if words else 0.0
    return scores


@dataclass(frozen=True, kw_only=True)
class Roc:
    """The curve of an attack: one point a threshold, from nobody called a member to everybody."""

    false_positive: F64  # share of non-members called members
    true_positive: F64  # share of members called members
    members: int
    non_members: int

    @property
    def auc(self) -> float:
        """The area below: the chance that a member scores above a non-member, ties counted half; 0.5 where either group is empty."""
        if not self.members or not self.non_members:
            return 0.5
        return float(np.trapezoid(self.true_positive, self.false_positive))

    def rate_at(self, target: float) -> float:
        """The true-positive rate of the last threshold with a false-positive rate of at most `target`."""
        return float(self.true_positive[self.false_positive <= target].max())


def roc(members: Sequence[float], non_members: Sequence[float]) -> Roc:
    """The curve of scores, higher for members; equal scores are one step."""
    inside, outside = np.asarray(members, np.float64), np.asarray(non_members, np.float64)
    thresholds = np.unique(np.concatenate([inside, outside]))[::-1]
    calls = [
        1 - np.searchsorted(np.sort(scores), thresholds) / len(scores) if len(scores) else np.zeros(len(thresholds))
        for scores in (inside, outside)
    ]
    true, false = (np.concatenate([[0.0], shares]) for shares in calls)
    return Roc(false_positive=false, true_positive=true, members=len(inside), non_members=len(outside))


def auc_interval(
    members: Sequence[float], non_members: Sequence[float], *, level: float = 0.95, draws: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """A bootstrap interval of the area: people of both groups drawn with replacement (percentiles); 0 to 1 where either group is empty."""
    inside, outside = np.asarray(members, np.float64), np.asarray(non_members, np.float64)
    if not len(inside) or not len(outside):
        return 0.0, 1.0
    random = np.random.default_rng(seed)
    areas = [
        _area(inside[random.integers(0, len(inside), len(inside))], outside[random.integers(0, len(outside), len(outside))])
        for _ in range(draws)
    ]
    low, high = np.quantile(areas, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _area(inside: F64, outside: F64) -> float:
    """The Mann-Whitney share: pairs that the member wins, ties half."""
    ordered = np.sort(outside)
    below, upto = np.searchsorted(ordered, inside), np.searchsorted(ordered, inside, side="right")
    return float((below + upto).sum() / (2 * len(inside) * len(outside)))


def exact_interval(hits: int, of: int, *, level: float = 0.95) -> tuple[float, float]:
    """The interval of Clopper and Pearson for a share of `hits` in `of`; 0 to 1 where there is nothing to share."""
    assert 0 <= hits <= of, "hits lie in 0..of"
    if not of:
        return 0.0, 1.0
    tail = (1 - level) / 2
    # the lower end is the rate at which so many hits or more are as rare as the tail, the upper end the same with so many or fewer
    low = 0.0 if hits == 0 else _solve(lambda rate: 1 - _upto(hits - 1, of, rate), tail)
    high = 1.0 if hits == of else _solve(lambda rate: -_upto(hits, of, rate), -tail)
    return low, high


def _solve(rising: Any, wanted: float) -> float:
    """Where a rising function of a rate in 0..1 takes a value, by halving."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < wanted else (low, middle)
    return (low + high) / 2


def _upto(hits: int, of: int, rate: float) -> float:
    """The chance of at most `hits` in `of` at a rate."""
    if rate <= 0.0 or rate >= 1.0:
        return 1.0 if rate <= 0.0 or hits >= of else 0.0
    there = np.arange(hits + 1)
    logs = np.array([math.lgamma(of + 1) - math.lgamma(n + 1) - math.lgamma(of - n + 1) for n in there.tolist()])
    return float(min(1.0, np.exp(logs + there * math.log(rate) + (of - there) * math.log1p(-rate)).sum()))


def attack_table(
    members: Sequence[float], non_members: Sequence[float], *, targets: Sequence[float] = TARGETS, level: float = 0.95, seed: int = 0
) -> dict[str, Any]:
    """One row: the area with its interval, and the true-positive rate at each target with an exact interval (figure 6, table 2)."""
    curve = roc(members, non_members)
    low, high = auc_interval(members, non_members, level=level, seed=seed)
    row: dict[str, Any] = {"members": curve.members, "non_members": curve.non_members, "auc": curve.auc, "auc_low": low, "auc_high": high}
    for target in targets:
        rate = curve.rate_at(target)
        name = f"tpr_at_{100 * target:g}%"
        row[name] = rate
        row[f"{name}_low"], row[f"{name}_high"] = exact_interval(round(rate * curve.members), curve.members, level=level)
    return row
