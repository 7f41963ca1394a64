"""Membership inference on a masked model: scores people by their identifiers that the model
predicts; ROC and rates at few false alarms.

The attack (Boutet et al., towards the anonymization of masked language modeling, section 5.1) needs
no shadow model: a person's score is the number of their own indirect identifiers that the model
predicted. The paper does not define the non-members. Here members and non-members are in one graph:
a word is a person's own only if no other person, trained on or not, wrote it, and the texts of both
groups are audited in the same way (`identifiers.py`). With a graph of the members alone every
non-member would score 0 by construction.

No threshold separates people with the same score, so the ROC passes them in one step, and the
true-positive rate at a false-positive rate is that of the last threshold that does not exceed it.
With fewer than 1,000 non-members only a rate of 0 is below 0.1 %.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from pydantic import Field, PrivateAttr

from sanitize.array_types import F64
from sanitize.errors import UsageError
from sanitize.train.corpus_reader import read_documents

from ..language_model import LanguageModel
from ..metric import EvalContext, Figure, FigureSeries, Metric, MetricRows, make_epoch_figure
from ..run_folder import Checkpoint, RunFolder
from ..unlearning_metrics import import_scipy_stats
from .identifiers import (
    DEFAULT_FOLDS,
    IdentifierSets,
    count_identifiers,
    find_own_identifiers,
    predict_hidden_words,
)

FPR_TARGETS = (0.001, 0.01, 0.1)  # table 2


class Membership(Metric):
    """Settings of the attack: the texts of people who were trained on and of others, and the
    blacklist of both together."""

    members: Path
    non_members: Path
    blacklist: Path  # of a run of the plan over both
    user_column: str = "user_id"
    text_column: str = "text"
    by: Literal["count", "share"] = "count"
    folds: int = Field(default=DEFAULT_FOLDS, ge=1)

    _context: EvalContext = PrivateAttr(default_factory=EvalContext)
    _identifier_sets: IdentifierSets | None = PrivateAttr(default=None)
    _user_texts: dict[str, pl.DataFrame] = PrivateAttr(default_factory=dict)

    def setup(self, context: EvalContext) -> None:
        """Read blacklist and texts; UsageError if one is missing, or a group has nobody."""
        self._context, self._identifier_sets = context, IdentifierSets.read(self.blacklist)
        self._user_texts = {
            name: read_user_texts(path, user_column=self.user_column, text_column=self.text_column)
            for name, path in (("members", self.members), ("non_members", self.non_members))
        }
        for name, frame in self._user_texts.items():
            if frame.is_empty():
                raise UsageError(
                    f"membership.{name} = {getattr(self, name)}: no document has a user in"
                    f" {self.user_column}; expected the texts of at least one person"
                )

    def depends_on_run(self, checkpoint: Checkpoint) -> bool:
        """False: members and others are those of the suite."""
        return False

    def on_checkpoint(
        self, run: RunFolder, checkpoint: Checkpoint, model: LanguageModel
    ) -> dict[str, Any]:
        """Return the area with its interval, the rates at few false alarms, and the curve as
        [false, true] positive rates."""
        assert self._identifier_sets is not None, "opened"
        scores = []
        for frame in self._user_texts.values():
            table = predict_hidden_words(
                model,
                frame["text"].to_list(),
                frame["doc_id"].to_list(),
                folds=self.folds,
                seed=self._context.seed,
            )
            own_identifiers = find_own_identifiers(
                frame["text"].to_list(), frame["user_id"].to_list(), self._identifier_sets.indirect
            )
            scores.append(
                list(
                    compute_membership_scores(
                        own_identifiers,
                        count_identifiers(table, self._identifier_sets.indirect),
                        by=self.by,
                    ).values()
                )
            )
        curve = compute_roc(*scores)
        points = np.stack([curve.false_positive_rates, curve.true_positive_rates], axis=1).tolist()
        return {**summarize_membership(*scores), "curve": points}

    def build_figures(self, rows: MetricRows, aggregated: Mapping[str, Any]) -> list[Figure]:
        """Return figures of the area over epochs, and of the curve of the last checkpoint (figure
        6)."""
        last = [
            FigureSeries(name, run_rows[-1][self.use]["curve"])
            for name, run_rows in rows.items()
            if run_rows and self.use in run_rows[-1]
        ]
        return [
            make_epoch_figure(
                rows,
                lambda row: row.get(self.use, {}).get("auc"),
                "Membership inferred from predicted words",
                "AUC",
            ),
            Figure(
                "ROC at the last checkpoint",
                "false-positive rate",
                "true-positive rate",
                [*last, FigureSeries("chance", [(0.0, 0.0), (1.0, 1.0)])],
            ),
        ]


def read_user_texts(
    path: Path, *, user_column: str = "user_id", text_column: str = "text"
) -> pl.DataFrame:
    """Read `doc_id`, `user_id` and `text` of a published folder, of Parquet or of JSON lines;
    documents without a user are left out."""
    documents = read_documents(path, text_column=text_column, user_column=user_column)
    table = pl.DataFrame(pl.from_arrow(documents.table))
    return table.select("doc_id", pl.col("user").alias("user_id"), "text").drop_nulls("user_id")


def compute_membership_scores(
    own_identifiers: Mapping[str, Collection[str]],
    predicted: Collection[str],
    *,
    by: Literal["count", "share"] = "count",
) -> dict[str, float]:
    """Return for each person the number of their own identifiers that were predicted; `share`
    divides by their number. 0 without any."""
    predicted_set = set(predicted)
    scores = {}
    for person, words in own_identifiers.items():
        hits = len(predicted_set.intersection(words))
        scores[person] = float(hits) if by == "count" else hits / len(set(words)) if words else 0.0
    return scores


@dataclass(frozen=True, kw_only=True)
class RocCurve:
    """The ROC of an attack: one point per threshold, from no person classified as a member to
    all."""

    false_positive_rates: F64  # share of non-members classified as members
    true_positive_rates: F64  # share of members classified as members
    member_count: int
    non_member_count: int

    @property
    def auc(self) -> float:
        """Area under the curve: the probability that a member scores above a non-member, ties
        counted half; 0.5 if a group is empty."""
        if not self.member_count or not self.non_member_count:
            return 0.5
        return float(np.trapezoid(self.true_positive_rates, self.false_positive_rates))

    def tpr_at(self, max_fpr: float) -> float:
        """Return the true-positive rate of the last threshold with a false-positive rate of at most
        `max_fpr`."""
        return float(self.true_positive_rates[self.false_positive_rates <= max_fpr].max())


def compute_roc(members: Sequence[float] | F64, non_members: Sequence[float] | F64) -> RocCurve:
    """Compute the ROC of scores that are higher for members; equal scores are one step."""
    member_scores, non_member_scores = (
        np.asarray(members, np.float64),
        np.asarray(non_members, np.float64),
    )
    thresholds = np.unique(np.concatenate([member_scores, non_member_scores]))[::-1]
    # a quotient of counts is the float nearest to the share, so that a rate of exactly 1 % is not
    # above the target 0.01; 1 - k / n may be
    calls = [
        (len(scores) - np.searchsorted(np.sort(scores), thresholds)) / len(scores)
        if len(scores)
        else np.zeros(len(thresholds))
        for scores in (member_scores, non_member_scores)
    ]
    true, false = (np.concatenate([[0.0], shares]) for shares in calls)
    return RocCurve(
        false_positive_rates=false,
        true_positive_rates=true,
        member_count=len(member_scores),
        non_member_count=len(non_member_scores),
    )


def find_auc_interval(
    members: Sequence[float] | F64, non_members: Sequence[float] | F64, *, level: float = 0.95
) -> tuple[float, float]:
    """Return an interval of the area: the areas whose own standard error covers the measured one;
    0 to 1 if a group is empty.

    At 0.5 that is the test of Mann and Whitney, and no interval is empty, as that of a bootstrap is
    where every member scores above every non-member; a bootstrap of 30 people covers 82 % there.
    """
    if not len(members) or not len(non_members):
        return 0.0, 1.0
    quantile = import_scipy_stats().norm.ppf((1 + level) / 2)
    grid = np.linspace(0, 1, 2001)
    errors = find_auc_errors(grid, len(members), len(non_members))
    area = compute_roc(members, non_members).auc
    covered = grid[np.abs(grid - area) <= quantile * errors + 1 / 4000]  # half a step of the grid
    return float(covered[0]), float(covered[-1])


def find_auc_errors(areas: F64, member_count: int, non_member_count: int) -> F64:
    """Return the standard errors of areas (Hanley and McNeil, The meaning and use of the area under
    a receiver operating characteristic curve, 1982)."""
    first, second = areas / (2 - areas), 2 * areas**2 / (1 + areas)
    variance = areas * (1 - areas) + (member_count - 1) * (first - areas**2)
    variance += (non_member_count - 1) * (second - areas**2)
    return np.asarray(np.sqrt(variance / (member_count * non_member_count)), np.float64)


def clopper_pearson_interval(hits: int, trials: int, *, level: float = 0.95) -> tuple[float, float]:
    """Return the Clopper-Pearson interval of the share `hits` / `trials`; 0 to 1 without trials."""
    assert 0 <= hits <= trials, "hits are in 0..trials"
    if not trials:
        return 0.0, 1.0
    found = import_scipy_stats().binomtest(hits, trials).proportion_ci(level, "exact")
    return float(found.low), float(found.high)


def tpr_interval(
    members: Sequence[float], non_members: Sequence[float], max_fpr: float, *, level: float = 0.95
) -> tuple[float, float]:
    """Return an interval of the true-positive rate at the threshold that classifies a share
    `max_fpr` of all non-members as members.

    That threshold is not known, only estimated from the non-members: half of the error probability
    is spent on it (the order statistics between which it lies by the binomial distribution of the
    non-members above it), half on the members (Clopper-Pearson at either end). It covers the rate
    in at least `level` of all samples, in most cases in more; the lower end is 0 if the sample of
    non-members is too small for any threshold (below 4 / `max_fpr`, about).
    """
    member_scores, ordered = (
        np.asarray(members, np.float64),
        np.sort(np.asarray(non_members, np.float64))[::-1],
    )
    if not len(member_scores) or not len(ordered):
        return 0.0, 1.0
    tail = (1 - level) / 4
    fewest, most = (
        import_scipy_stats().binom.ppf([tail, 1 - tail], len(ordered), max_fpr).astype(int)
    )
    surely_above = int((member_scores > ordered[fewest - 1]).sum()) if fewest else 0
    possibly_above = (
        int((member_scores > ordered[most]).sum()) if most < len(ordered) else len(member_scores)
    )
    half_level = 1 - 2 * tail
    return (
        clopper_pearson_interval(surely_above, len(member_scores), level=half_level)[0],
        clopper_pearson_interval(possibly_above, len(member_scores), level=half_level)[1],
    )


def summarize_membership(
    members: Sequence[float],
    non_members: Sequence[float],
    *,
    fpr_targets: Sequence[float] = FPR_TARGETS,
    level: float = 0.95,
) -> dict[str, Any]:
    """Return one row: the area with its interval, and the true-positive rate at each target with
    `tpr_interval` (figure 6, table 2)."""
    curve = compute_roc(members, non_members)
    low, high = find_auc_interval(members, non_members, level=level)
    row: dict[str, Any] = {
        "members": curve.member_count,
        "non_members": curve.non_member_count,
        "auc": curve.auc,
        "auc_low": low,
        "auc_high": high,
    }
    for target in fpr_targets:
        rate = curve.tpr_at(target)
        name = f"tpr_at_{100 * target:g}%"
        row[name] = rate
        row[f"{name}_low"], row[f"{name}_high"] = tpr_interval(
            members, non_members, target, level=level
        )
    return row
