"""Partial memorization by n-grams: how much of a suffix a model generates in pieces before it
generates all of it, and stopping rules.

The score (Slack and Al Moubayed, early detection of memorization, section 3.2) is the share of the
n-grams of a suffix, sizes 4, 5 and 6, that occur anywhere in the generated continuation. It rises
before a suffix is generated verbatim, so it can stop training in time. The paper does not specify
how a sample's share is computed; the default here counts clipped multisets over all sizes together,
others are options.

Pure functions on arrays: token ids [samples, length], -1 after the end of a sequence. Scores are
percent, NaN if a sample has no n-gram at all; tables leave such samples out and have None for empty
groups.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from pydantic import Field, PrivateAttr

from sanitize.array_types import F64, I64, Mask

from ..language_model import LanguageModel
from ..metric import EvalContext, Figure, FigureSeries, Metric, MetricRows, make_epoch_figure
from ..run_folder import Checkpoint, RunFolder
from ..trained_documents import read_seen_texts
from .verbatim import (
    ENDED_TOKEN,
    SUFFIX_LENGTH,
    choose_probe_points,
    encode_trained_part,
    generate_continuations,
    get_text_set,
    is_memorized,
    require_probed_texts,
)

NGRAM_SIZES = (4, 5, 6)  # section 3.5
STOP_THRESHOLD = 20.0  # section 4.2: mean score of the training set, in percent

# Coarse text categories; the first matching rule decides. The paper (section 4.3.3) names the
# categories, not the rules.
CATEGORY_PATTERNS = {
    "code": r"[{};]\s*$|==|\(\)|</|\bdef \w+\(|\breturn\b.*;",
    "question": r"\?|^(?i:who|what|when|where|why|how|which|is|are|do|does|can)\b",
    "medical": (
        r"(?i)\b(patient|dose|mg|clinical|symptom|diagnos|therap|surg|tablet|chronic|acute|hospital)\w*"
    ),
    "financial": (
        r"(?i)[$€£]\s?\d|\d\s?%|\b(stock|shares|yield|market|invoice|revenue|price|futures|budget)s?\b"
    ),
    "entity": r"\b\p{Lu}[\p{L}'-]+(?:\s+\p{Lu}[\p{L}'-]+)+",
    "review": r"(?i)\b(film|movie|actor|book|recommend|enjoy|boring|delightful|disappoint)\w*",
}


class Ngram(Metric):
    """Settings of the score and of the stopping rules."""

    texts: str = ""  # a text set of the suite; empty: the training data of each run
    k: int = Field(default=16, ge=1)  # tokens of the prefix
    suffix: int = Field(default=SUFFIX_LENGTH, ge=1)
    sizes: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=NGRAM_SIZES, min_length=1)
    counts: Literal["multiset", "set"] = "multiset"
    average: Literal["micro", "macro"] = "micro"
    threshold: float = Field(default=STOP_THRESHOLD, ge=0, le=100)
    take: Literal["last_below", "first_above"] = "last_below"
    batch: int = Field(default=64, ge=1)

    _context: EvalContext = PrivateAttr(default_factory=EvalContext)
    # by checkpoint, in the order of measuring: score, verbatim hit and category of each text; for
    # `aggregate`, not part of the report
    _stored_scores: list[tuple[F64, Mask, list[str]]] = PrivateAttr(default_factory=list)

    def setup(self, context: EvalContext) -> None:
        """Store the context; UsageError for a text set that the suite does not have."""
        get_text_set(context, self.texts, self.use)
        self._context = context
        self._stored_scores.clear()

    def on_checkpoint(
        self, run: RunFolder, checkpoint: Checkpoint, model: LanguageModel
    ) -> dict[str, Any]:
        """Return the mean score and the number of verbatim texts; the scores of each text are
        stored for `aggregate`."""
        texts = get_text_set(self._context, self.texts, self.use) or read_seen_texts(run)
        probe_points = choose_probe_points(
            encode_trained_part(run, model, texts.texts),
            texts.doc_ids,
            ks=(self.k,),
            suffix_length=self.suffix,
            seed=self._context.seed,
        )
        require_probed_texts(probe_points, self.use)
        generated = generate_continuations(model, probe_points, self.k, batch=self.batch)
        scores = ngram_scores(
            generated,
            probe_points.suffix_tokens,
            sizes=self.sizes,
            counts=self.counts,
            average=self.average,
        )
        hits = is_memorized(generated, probe_points.suffix_tokens)
        self._stored_scores.append(
            (
                scores,
                hits,
                categorize_texts([texts.texts[row] for row in probe_points.text_numbers]),
            )
        )
        return {"score": mean_score(scores), "verbatim": int(hits.sum()), "probed_texts": len(hits)}

    def save_state(self) -> dict[str, Any]:
        """Return the scores of the last checkpoint."""
        scores, hits, categories = self._stored_scores[-1]
        return {"scores": scores.tolist(), "hits": hits.tolist(), "categories": categories}

    def restore_state(self, state: Any) -> None:
        """Store the scores of a checkpoint that was measured earlier."""
        columns = (
            np.array(state["scores"], np.float64),
            np.array(state["hits"], np.bool_),
            list(state["categories"]),
        )
        self._stored_scores.append(columns)

    def aggregate(self, rows: MetricRows) -> dict[str, Any]:
        """Return for each run: newly memorized texts by checkpoint, scores before, stopping rules,
        thresholds compared, and categories.

        The best-task rule is applied if the suite has a `task`, with its first metric; the
        validation rule if runs have a validation loss.
        """
        found = {}
        stored = iter(self._stored_scores)  # in the order of the rows
        for name, run_rows in rows.items():
            measured_rows = [row for row in run_rows if self.use in row]
            if not measured_rows:
                continue
            stored_scores = list(itertools.islice(stored, len(measured_rows)))
            scores, hits = (
                np.stack([one for one, _, _ in stored_scores]),
                np.stack([one for _, one, _ in stored_scores]),
            )
            epochs = [row["epoch"] for row in measured_rows]
            means = [row[self.use]["score"] for row in measured_rows]
            losses = [row["validation_loss"] for row in measured_rows]
            stops = [stop_by_ngram(means, threshold=self.threshold, take=self.take)]
            if None not in losses:
                stops.append(stop_by_validation(losses))
            if all("task" in row for row in measured_rows):
                stops.append(
                    stop_by_task(
                        [
                            next(value for key, value in row["task"].items() if key != "examples")
                            for row in measured_rows
                        ]
                    )
                )
            precursors = tabulate_precursors(scores, hits, epochs=epochs)
            mem = [100 * float(one.mean()) if len(one) else 0.0 for one in hits]
            found[name] = {
                "newly_memorized": count_newly_memorized(hits),
                "precursors": precursors,
                "precursor_ratio": precursor_ratio(precursors),
                "stopping_points": [
                    {
                        "rule": stop.rule,
                        "epoch": epochs[stop.evaluation],
                        "mem": mem[stop.evaluation],
                        "note": stop.note,
                    }
                    for stop in stops
                ],
                "thresholds": tabulate_thresholds(means, {"epoch": epochs, "mem": mem}),
                "categories": tabulate_categories(
                    stored_scores[0][2], scores, hits, seed=self._context.seed
                ),
            }
        return found

    def build_figures(self, rows: MetricRows, aggregated: Mapping[str, Any]) -> list[Figure]:
        """Return figures of the mean score over epochs, newly memorized texts (figure 1), and the
        scores before that (figure 2)."""
        newly_memorized, precursors = [], []
        for name, result in aggregated.items():
            epochs = [row["epoch"] for row in rows[name] if self.use in row]
            newly_memorized.append(
                FigureSeries(name, list(zip(epochs, result["newly_memorized"], strict=True)))
            )
            for group, words in (("next", "memorized next"), ("not_yet", "not by then")):
                points = [
                    (row["epoch"], row[f"{group}_median"])
                    for row in result["precursors"]
                    if row[f"{group}_median"] is not None
                ]
                precursors.append(FigureSeries(f"{name}: {words}", points))
        return [
            make_epoch_figure(
                rows,
                lambda row: row.get(self.use, {}).get("score"),
                "n-gram memorization score",
                "%",
            ),
            Figure("Texts memorized for the first time", "epoch", "texts", newly_memorized),
            Figure("Median score one checkpoint before", "epoch", "%", precursors),
        ]


def ngram_scores(
    generated: I64,
    suffix: I64,
    *,
    sizes: Sequence[int] = NGRAM_SIZES,
    counts: Literal["multiset", "set"] = "multiset",
    average: Literal["micro", "macro"] = "micro",
) -> F64:
    """Return the partial memorization score of each sample, in percent: the share of the suffix's
    n-grams in the generated tokens.

    `multiset` clips: an n-gram counts as often as both have it; `set` counts each distinct one
    once. `micro` divides over all sizes together, `macro` averages over the sizes. A size longer
    than the suffix is left out; NaN if none is left.
    """
    assert len(generated) == len(suffix), "one row of generated tokens for each suffix"
    if not sizes or min(sizes) < 1:
        raise ValueError("sizes: expected one or more n-gram sizes of 1 or more, such as (4, 5, 6)")
    rows = len(suffix)
    # tokens and n-grams are renumbered densely, so that each longer n-gram is one integer again,
    # without collisions
    tokens, dense = np.unique(
        np.concatenate(
            [np.asarray(generated, np.int64).ravel(), np.asarray(suffix, np.int64).ravel()]
        ),
        return_inverse=True,
    )
    generated_tokens, suffix_tokens = (
        dense[: generated.size].reshape(generated.shape),
        dense[generated.size :].reshape(suffix.shape),
    )
    generated_valid, suffix_valid = (
        np.asarray(generated) != ENDED_TOKEN,
        np.asarray(suffix) != ENDED_TOKEN,
    )
    grams = [generated_tokens, suffix_tokens]
    is_complete = [generated_valid, suffix_valid]
    hits, totals = np.zeros((max(sizes) + 1, rows)), np.zeros((max(sizes) + 1, rows))
    for size in range(1, max(sizes) + 1):
        if size > 1:
            longer = [
                a[:, :-1] * len(tokens) + b[:, size - 1 :]
                for a, b in zip(grams, (generated_tokens, suffix_tokens), strict=True)
            ]
            _, dense = np.unique(
                np.concatenate([part.ravel() for part in longer]), return_inverse=True
            )
            grams = [
                dense[: longer[0].size].reshape(longer[0].shape),
                dense[longer[0].size :].reshape(longer[1].shape),
            ]
            is_complete = [
                a[:, :-1] & b[:, size - 1 :]
                for a, b in zip(is_complete, (generated_valid, suffix_valid), strict=True)
            ]
        if size in sizes:
            hits[size], totals[size] = _count_shared_ngrams(
                grams, is_complete, rows, as_sets=counts == "set"
            )
    chosen = sorted(set(sizes))
    hits, totals = hits[chosen], totals[chosen]
    with np.errstate(invalid="ignore", divide="ignore"):
        if average == "micro":
            return np.asarray(100.0 * hits.sum(0) / totals.sum(0))
        has_ngrams = totals > 0
        return np.asarray(
            100.0 * np.where(has_ngrams, hits / totals, 0.0).sum(0) / has_ngrams.sum(0)
        )


def _count_shared_ngrams(
    ngrams: Sequence[I64], is_complete: Sequence[Mask], row_count: int, *, as_sets: bool
) -> tuple[F64, F64]:
    """Return for each sample how many n-grams of the suffix (second of each pair) occur in the
    generated tokens, and their total."""
    width = 1 + max((int(part.max()) for part in ngrams if part.size), default=0)
    keys = [
        (np.arange(row_count)[:, None] * width + part)[mask]
        for part, mask in zip(ngrams, is_complete, strict=True)
    ]
    (generated_keys, generated_times), (suffix_keys, suffix_times) = (
        np.unique(key, return_counts=True) for key in keys
    )
    if as_sets:
        generated_times, suffix_times = np.ones_like(generated_times), np.ones_like(suffix_times)
    _, left, right = np.intersect1d(
        generated_keys, suffix_keys, assume_unique=True, return_indices=True
    )
    hits = np.bincount(
        suffix_keys[right] // width,
        np.minimum(generated_times[left], suffix_times[right]),
        row_count,
    )
    return hits.astype(np.float64), np.bincount(
        suffix_keys // width, suffix_times, row_count
    ).astype(np.float64)


def mean_score(scores: F64) -> float:
    """Return the mean score over the samples that have one (equation of section 3.2); 0.0 if none
    has."""
    known = scores[~np.isnan(scores)]
    return float(known.mean()) if len(known) else 0.0


def first_memorized(is_memorized: Mask) -> I64:
    """Return for each sample the first evaluation (row of [evaluations, samples]) at which it was
    verbatim; -1 if never."""
    return np.where(is_memorized.any(0), is_memorized.argmax(0), -1).astype(np.int64)


def count_newly_memorized(is_memorized: Mask) -> list[int]:
    """Return how many samples were verbatim for the first time, by evaluation (figure 1)."""
    first = first_memorized(is_memorized)
    return (
        np.bincount(first[first >= 0], minlength=len(is_memorized)).tolist()
        if is_memorized.size
        else [0] * len(is_memorized)
    )


def tabulate_precursors(
    scores: F64, is_memorized: Mask, *, epochs: Sequence[float] | None = None
) -> list[dict[str, Any]]:
    """Compare scores one evaluation before a sample becomes verbatim with those of samples that do
    not, by evaluation (figure 2).

    One row for each evaluation but the last, with count, median and quartiles of three groups:
    samples that are memorized for the first time at the next evaluation (`next`), samples that are
    not memorized by then (`not_yet`), and samples that never are (`never`). The paper compares with
    `never`; if nearly all samples are memorized in the end, that group is tiny and `not_yet` is the
    fair comparison. Samples that were verbatim before are in no group. Several runs over the same
    samples can be concatenated along the second axis.
    """
    first = first_memorized(is_memorized)
    rows = []
    for now in range(len(is_memorized) - 1):
        groups = {
            "next": first == now + 1,
            "not_yet": (first > now + 1) | (first < 0),
            "never": first < 0,
        }
        row: dict[str, Any] = {"epoch": now + 1 if epochs is None else epochs[now]}
        for name, group in groups.items():
            known = scores[now][group & ~np.isnan(scores[now])]
            row[name] = len(known)
            for statistic, share in (("median", 0.5), ("q1", 0.25), ("q3", 0.75)):
                row[f"{name}_{statistic}"] = (
                    float(np.quantile(known, share)) if len(known) else None
                )
        rows.append(row)
    return rows


def precursor_ratio(
    rows: Sequence[Mapping[str, Any]],
    *,
    floor: float = 100 / 48,
    against: Literal["not_yet", "never"] = "not_yet",
) -> float:
    """Return how many times higher the median score is one evaluation before a text is verbatim,
    over rows of `tabulate_precursors`.

    0.0 without such texts. Both sides are weighted by the number of texts that become verbatim
    next, so that both cover the same evaluations (and the same k, if tables of several ks are
    concatenated). The denominator is at least `floor`, one n-gram of the 48 in twenty tokens, so
    that a group at zero does not make the ratio infinite.
    """
    usable_rows = [row for row in rows if row["next"] and row[against]]
    total_weight = sum(row["next"] for row in usable_rows)
    if not total_weight:
        return 0.0
    before, comparison = (
        sum(row["next"] * row[f"{group}_median"] for row in usable_rows) / total_weight
        for group in ("next", against)
    )
    return float(before / max(comparison, floor))


@dataclass(frozen=True, kw_only=True)
class StopPoint:
    """The evaluation that a rule chooses (0 is the first), and a note if the choice is unusual."""

    rule: str
    evaluation: int
    note: str = ""


def stop_by_ngram(
    scores: Sequence[float],
    *,
    threshold: float = STOP_THRESHOLD,
    take: Literal["last_below", "first_above"] = "last_below",
) -> StopPoint:
    """Stop when the mean score exceeds `threshold`: choose the evaluation before the first that
    does (or that one itself).

    The paper does not say which of the two is used. Never exceeded: the last evaluation. Exceeded
    at once: the first, with a note.
    """
    if not scores:
        raise ValueError("scores: expected the mean score of one or more evaluations")
    above = [at for at, score in enumerate(scores) if score > threshold]
    rule = f"n-gram {threshold:g}"
    if not above:
        return StopPoint(rule=rule, evaluation=len(scores) - 1, note="never above the threshold")
    if take == "first_above":
        return StopPoint(rule=rule, evaluation=above[0])
    return (
        StopPoint(rule=rule, evaluation=above[0] - 1)
        if above[0]
        else StopPoint(
            rule=rule, evaluation=0, note="above the threshold from the first evaluation on"
        )
    )


def stop_by_validation(losses: Sequence[float]) -> StopPoint:
    """Choose the evaluation with the lowest validation loss; the first of several."""
    if not losses:
        raise ValueError("losses: expected the validation loss of one or more evaluations")
    return StopPoint(rule="best validation", evaluation=int(np.argmin(losses)))


def stop_by_task(results: Sequence[float]) -> StopPoint:
    """Choose the evaluation with the best result in the task (higher is better); the first of
    several."""
    if not results:
        raise ValueError("results: expected the task's result of one or more evaluations")
    return StopPoint(rule="best task", evaluation=int(np.argmax(results)))


def tabulate_thresholds(
    scores: Sequence[float],
    measurements: Mapping[str, Sequence[float]],
    *,
    thresholds: Sequence[float] = (5, 10, 15, 20, 30, 40, 60),
) -> list[dict[str, Any]]:
    """Return for each threshold where the n-gram rule stops, and the `measurements` (name -> value
    by evaluation) there."""
    rows = []
    for threshold in thresholds:
        stop = stop_by_ngram(scores, threshold=threshold)
        rows.append(
            {
                "threshold": float(threshold),
                "evaluation": stop.evaluation,
                "note": stop.note,
                **{name: float(values[stop.evaluation]) for name, values in measurements.items()},
            }
        )
    return rows


def categorize_texts(texts: Sequence[str], rules: Mapping[str, str] | None = None) -> list[str]:
    """Return a coarse category for each text, by the first matching rule; `prose` if none
    matches."""
    category = pl.lit("prose")
    for name, pattern in reversed(list((rules or CATEGORY_PATTERNS).items())):
        category = (
            pl.when(pl.col("text").str.contains(pattern)).then(pl.lit(name)).otherwise(category)
        )
    return (
        pl.DataFrame({"text": list(texts)}, schema={"text": pl.String})
        .select(category.alias("category"))["category"]
        .to_list()
    )


def tabulate_categories(
    labels: Sequence[str],
    scores: F64,
    is_memorized: Mask,
    *,
    sample_size: int = 500,
    seed: int = 0,
    early_evaluations: int = 2,
) -> list[dict[str, Any]]:
    """Return the memorization of each category, in percent of at most `sample_size` drawn samples
    (figure 6).

    `mem_early`: verbatim within the first `early_evaluations` and ever after; `mem_high_partial`:
    verbatim after an evaluation with a score above the median of the not yet memorized; `mem_all`:
    verbatim at any evaluation. Arrays are [evaluations, samples].
    """
    first = first_memorized(is_memorized)
    stays_verbatim = np.array(
        [
            bool(is_memorized[at:, sample].all()) if at >= 0 else False
            for sample, at in enumerate(first)
        ],
        np.bool_,
    )
    had_high_score = np.zeros(len(labels), np.bool_)
    for now, row in enumerate(tabulate_precursors(scores, is_memorized)):
        if row["not_yet_median"] is not None:
            had_high_score |= (first > now) & (scores[now] > row["not_yet_median"])
    rows = []
    for label in sorted(set(labels)):
        samples = np.flatnonzero(np.asarray(labels) == label)
        drawn = np.array(
            sorted(
                samples,
                key=lambda sample: hashlib.blake2b(
                    f"{seed}/{sample}".encode(), digest_size=8
                ).digest(),
            )[:sample_size]
        )
        kept = first[drawn]
        rows.append(
            {
                "category": label,
                "samples": len(drawn),
                "mem_early": (
                    100
                    * float(
                        ((kept >= 0) & (kept < early_evaluations) & stays_verbatim[drawn]).mean()
                    )
                ),
                "mem_high_partial": 100 * float(((kept >= 0) & had_high_score[drawn]).mean()),
                "mem_all": 100 * float((kept >= 0).mean()),
            }
        )
    return rows
