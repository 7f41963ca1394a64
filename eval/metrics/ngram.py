"""How much of a text a model says in pieces before it says it whole: the partial score of n-grams, and what it is good for.

The score (Slack and Al Moubayed, early detection of memorization, section 3.2) is the share of the n-grams of a suffix, sizes 4, 5 and 6,
that stand anywhere in what the model generated for it. It rises before a suffix comes out verbatim, so it can stop a training in time.
The paper leaves open how a sample's share is taken; the default here counts clipped multisets over all sizes together, others are options.

Pure functions on arrays: token numbers come in as [samples, length], -1 where a sequence has ended. Scores are percent, NaN where a sample
has no n-gram at all; tables leave such samples out and have None where a group is empty.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import Field, PrivateAttr

from ..language_model import Model
from ..metric import Figure, Ground, Metric, Rows, Series, by_epoch
from ..probe_inputs import read_texts
from ..run_folder import Checkpoint, Run
from .verbatim import ENDED, SUFFIX, continued, memorized, named_set, places, trained_part

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

SIZES = (4, 5, 6)  # section 3.5
THRESHOLD = 20.0  # section 4.2: mean score of the training set, in percent

# Coarse categories by what a text shows; the first rule that fits counts. The paper (section 4.3.3) names the categories, not the rule.
CATEGORIES = {
    "code": r"[{};]\s*$|==|\(\)|</|\bdef \w+\(|\breturn\b.*;",
    "question": r"\?|^(?i:who|what|when|where|why|how|which|is|are|do|does|can)\b",
    "medical": r"(?i)\b(patient|dose|mg|clinical|symptom|diagnos|therap|surg|tablet|chronic|acute|hospital)\w*",
    "financial": r"(?i)[$€£]\s?\d|\d\s?%|\b(stock|shares|yield|market|invoice|revenue|price|futures|budget)s?\b",
    "entity": r"\b\p{Lu}[\p{L}'-]+(?:\s+\p{Lu}[\p{L}'-]+)+",
    "review": r"(?i)\b(film|movie|actor|book|recommend|enjoy|boring|delightful|disappoint)\w*",
}


class Ngram(Metric):
    """Settings of the score and of the rules that read it."""

    texts: str = ""  # a set of the suite; empty: what each run was trained on
    k: int = Field(default=16, ge=1)  # tokens of the prefix
    suffix: int = Field(default=SUFFIX, ge=1)
    sizes: tuple[int, ...] = Field(default=SIZES, min_length=1)
    counts: Literal["multiset", "set"] = "multiset"
    average: Literal["micro", "macro"] = "micro"
    threshold: float = Field(default=THRESHOLD, ge=0, le=100)
    take: Literal["last_below", "first_above"] = "last_below"
    batch: int = Field(default=64, ge=1)

    _ground: Ground = PrivateAttr(default_factory=Ground)
    # by the step's row: what was said of each text and what it looks like, which is not for the report
    _seen: dict[int, tuple[F64, Bools, list[str]]] = PrivateAttr(default_factory=dict)

    def open(self, ground: Ground) -> None:
        """Take the seed and the sets of texts; UsageError for a set that the suite does not have."""
        named_set(ground, self.texts, self.use)
        self._ground = ground
        self._seen.clear()

    def at(self, run: Run, checkpoint: Checkpoint, model: Model) -> dict[str, Any]:
        """The mean score, and how many texts came out verbatim; `number` names what was kept of each text until all is measured."""
        texts = named_set(self._ground, self.texts, self.use) or read_texts(run.data)
        where = places(trained_part(run, model, texts.texts), texts.doc_ids, ks=(self.k,), suffix=self.suffix, seed=self._ground.seed)
        said = continued(model, where, self.k, batch=self.batch)
        scores = ngram_scores(said, where.suffix, sizes=self.sizes, counts=self.counts, average=self.average)
        hits = memorized(said, where.suffix)
        number = len(self._seen)
        self._seen[number] = scores, hits, categories_of([texts.texts[row] for row in where.rows])
        return {"number": number, "score": mean_score(scores), "verbatim": int(hits.sum()), "probed": len(hits)}

    def over(self, rows: Rows) -> dict[str, Any]:
        """For each run: newly memorized by checkpoint, the scores before, where the rules stop, the thresholds compared, and categories.

        The rule of the best task is asked where the suite has a `task`, by its first measure; that of validation where runs have its loss.
        """
        found = {}
        for name, told in rows.items():
            mine = [row for row in told if self.use in row]
            if not mine:
                continue
            kept = [self._seen[row[self.use]["number"]] for row in mine]
            scores, hits = np.stack([one for one, _, _ in kept]), np.stack([one for _, one, _ in kept])
            epochs = [row["epoch"] for row in mine]
            means = [row[self.use]["score"] for row in mine]
            losses = [row["validation_loss"] for row in mine]
            stops = [stop_by_ngram(means, threshold=self.threshold, take=self.take)]
            if None not in losses:
                stops.append(stop_by_validation(losses))
            if all("task" in row for row in mine):
                stops.append(stop_by_task([next(value for key, value in row["task"].items() if key != "examples") for row in mine]))
            before = precursor(scores, hits, epochs=epochs)
            mem = [100 * float(one.mean()) if len(one) else 0.0 for one in hits]
            found[name] = {
                "newly_memorized": newly_memorized(hits),
                "precursor": before,
                "precedes": precedes(before),
                "stops": [{"rule": stop.rule, "epoch": epochs[stop.at], "mem": mem[stop.at], "note": stop.note} for stop in stops],
                "thresholds": threshold_sweep(means, {"epoch": epochs, "mem": mem}),
                "categories": category_table(kept[0][2], scores, hits, seed=self._ground.seed),
            }
        return found

    def figures(self, rows: Rows, over: Mapping[str, Any]) -> list[Figure]:
        """The mean score over epochs, the texts newly memorized (figure 1), and the scores before that (figure 2)."""
        fresh, before = [], []
        for name, told in over.items():
            epochs = [row["epoch"] for row in rows[name] if self.use in row]
            fresh.append(Series(name, list(zip(epochs, told["newly_memorized"], strict=True))))
            for group, words in (("next", "come out next"), ("not_yet", "not by then")):
                points = [(row["epoch"], row[f"{group}_median"]) for row in told["precursor"] if row[f"{group}_median"] is not None]
                before.append(Series(f"{name}: {words}", points))
        return [
            by_epoch(rows, lambda row: row.get(self.use, {}).get("score"), "n-gram memorization score", "%"),
            Figure("Texts that come out for the first time", "epoch", "texts", fresh),
            Figure("Median score one checkpoint before", "epoch", "%", before),
        ]


def ngram_scores(
    generated: I64,
    suffix: I64,
    *,
    sizes: Sequence[int] = SIZES,
    counts: Literal["multiset", "set"] = "multiset",
    average: Literal["micro", "macro"] = "micro",
) -> F64:
    """The partial memorization score of each sample, in percent: the share of the suffix's n-grams that the generated tokens hold.

    `multiset` clips: an n-gram counts as often as both have it; `set` counts each kind once. `micro` divides over all sizes together,
    `macro` takes the mean of the sizes. A size that is longer than the suffix is left out; NaN where none is left.
    """
    assert len(generated) == len(suffix), "one row of generated tokens for each suffix"
    if not sizes or min(sizes) < 1:
        raise ValueError("sizes: expected one or more n-gram sizes of 1 or more, such as (4, 5, 6)")
    rows = len(suffix)
    # numbers of tokens and n-grams are made dense, so that a longer n-gram is a number again and nothing can collide
    tokens, dense = np.unique(
        np.concatenate([np.asarray(generated, np.int64).ravel(), np.asarray(suffix, np.int64).ravel()]), return_inverse=True
    )
    said, there = dense[: generated.size].reshape(generated.shape), dense[generated.size :].reshape(suffix.shape)
    said_open, there_open = np.asarray(generated) != ENDED, np.asarray(suffix) != ENDED
    grams = [said, there]
    whole = [said_open, there_open]
    hits, of = np.zeros((max(sizes) + 1, rows)), np.zeros((max(sizes) + 1, rows))
    for size in range(1, max(sizes) + 1):
        if size > 1:
            longer = [a[:, :-1] * len(tokens) + b[:, size - 1 :] for a, b in zip(grams, (said, there), strict=True)]
            _, dense = np.unique(np.concatenate([part.ravel() for part in longer]), return_inverse=True)
            grams = [dense[: longer[0].size].reshape(longer[0].shape), dense[longer[0].size :].reshape(longer[1].shape)]
            whole = [a[:, :-1] & b[:, size - 1 :] for a, b in zip(whole, (said_open, there_open), strict=True)]
        if size in sizes:
            hits[size], of[size] = _shared(grams, whole, rows, once=counts == "set")
    chosen = sorted(set(sizes))
    hits, of = hits[chosen], of[chosen]
    with np.errstate(invalid="ignore", divide="ignore"):
        if average == "micro":
            return np.asarray(100.0 * hits.sum(0) / of.sum(0))
        known = of > 0
        return np.asarray(100.0 * np.where(known, hits / of, 0.0).sum(0) / known.sum(0))


def _shared(grams: Sequence[I64], whole: Sequence[Bools], rows: int, *, once: bool) -> tuple[F64, F64]:
    """For each sample how many n-grams of the suffix (the second of each pair) the generated tokens hold, and how many there are."""
    width = 1 + max((int(part.max()) for part in grams if part.size), default=0)
    keys = [(np.arange(rows)[:, None] * width + part)[mask] for part, mask in zip(grams, whole, strict=True)]
    (said, said_times), (there, there_times) = (np.unique(key, return_counts=True) for key in keys)
    if once:
        said_times, there_times = np.ones_like(said_times), np.ones_like(there_times)
    _, left, right = np.intersect1d(said, there, assume_unique=True, return_indices=True)
    hits = np.bincount(there[right] // width, np.minimum(said_times[left], there_times[right]), rows)
    return hits.astype(np.float64), np.bincount(there // width, there_times, rows).astype(np.float64)


def mean_score(scores: F64) -> float:
    """The mean score over the samples that have one (equation of section 3.2); 0.0 where none has."""
    known = scores[~np.isnan(scores)]
    return float(known.mean()) if len(known) else 0.0


def first_epoch(memorized: Bools) -> I64:
    """For each sample the first evaluation (row of [evaluations, samples]) at which it came out verbatim; -1 where it never did."""
    return np.where(memorized.any(0), memorized.argmax(0), -1).astype(np.int64)


def newly_memorized(memorized: Bools) -> list[int]:
    """How many samples came out verbatim for the first time, by evaluation (figure 1)."""
    first = first_epoch(memorized)
    return np.bincount(first[first >= 0], minlength=len(memorized)).tolist() if memorized.size else [0] * len(memorized)


def precursor(scores: F64, memorized: Bools, *, epochs: Sequence[float] | None = None) -> list[dict[str, Any]]:
    """The scores one evaluation before a sample comes out verbatim, beside those of samples that do not, by evaluation (figure 2).

    One row for each evaluation but the last: of the samples that are memorized for the first time at the next one (`next`), of those that
    are not memorized by then (`not_yet`), and of those that never are (`never`): how many, median and quartiles. The paper compares with
    `never`; where nearly all are memorized in the end that group is a handful, and `not_yet` is the fair one. A run's samples that were
    verbatim before belong to no group. Several runs over the same samples can be laid side by side along the second axis.
    """
    first = first_epoch(memorized)
    rows = []
    for now in range(len(memorized) - 1):
        groups = {"next": first == now + 1, "not_yet": (first > now + 1) | (first < 0), "never": first < 0}
        row: dict[str, Any] = {"epoch": now + 1 if epochs is None else epochs[now]}
        for name, group in groups.items():
            known = scores[now][group & ~np.isnan(scores[now])]
            row[name] = len(known)
            for told, share in (("median", 0.5), ("q1", 0.25), ("q3", 0.75)):
                row[f"{name}_{told}"] = float(np.quantile(known, share)) if len(known) else None
        rows.append(row)
    return rows


def precedes(rows: Sequence[Mapping[str, Any]], *, floor: float = 100 / 48, against: Literal["not_yet", "never"] = "not_yet") -> float:
    """How many times higher the median score is one evaluation before a text comes out, over rows of `precursor`; 0.0 without any.

    Each row counts as often as texts come out after it, on both sides, so that both sides are of the same evaluations (and of the same k,
    where tables of several ks are given one after the other). The lower side is at least `floor`, one n-gram of the 48 in twenty tokens,
    so that a group at zero does not make the ratio endless.
    """
    judged = [row for row in rows if row["next"] and row[against]]
    times = sum(row["next"] for row in judged)
    if not times:
        return 0.0
    before, beside = (sum(row["next"] * row[f"{group}_median"] for row in judged) / times for group in ("next", against))
    return float(before / max(beside, floor))


@dataclass(frozen=True, kw_only=True)
class Stop:
    """Which evaluation a rule picks (0 is the first), and what is odd about it."""

    rule: str
    at: int
    note: str = ""


def stop_by_ngram(
    scores: Sequence[float], *, threshold: float = THRESHOLD, take: Literal["last_below", "first_above"] = "last_below"
) -> Stop:
    """Where a training stops whose mean score may not exceed `threshold`: the evaluation before the first that does (or that one itself).

    The paper does not say which of the two is kept. Never exceeded: the last evaluation. Exceeded at once: the first, with a note.
    """
    if not scores:
        raise ValueError("scores: expected the mean score of one or more evaluations")
    above = [at for at, score in enumerate(scores) if score > threshold]
    rule = f"n-gram {threshold:g}"
    if not above:
        return Stop(rule=rule, at=len(scores) - 1, note="never above the threshold")
    if take == "first_above":
        return Stop(rule=rule, at=above[0])
    return Stop(rule=rule, at=above[0] - 1) if above[0] else Stop(rule=rule, at=0, note="above the threshold from the first evaluation on")


def stop_by_validation(losses: Sequence[float]) -> Stop:
    """The evaluation with the lowest validation loss; the first of several."""
    if not losses:
        raise ValueError("losses: expected the validation loss of one or more evaluations")
    return Stop(rule="best validation", at=int(np.argmin(losses)))


def stop_by_task(results: Sequence[float]) -> Stop:
    """The evaluation with the best result in the task (higher is better); the first of several."""
    if not results:
        raise ValueError("results: expected the task's result of one or more evaluations")
    return Stop(rule="best task", at=int(np.argmax(results)))


def threshold_sweep(
    scores: Sequence[float], measured: Mapping[str, Sequence[float]], *, thresholds: Sequence[float] = (5, 10, 15, 20, 30, 40, 60)
) -> list[dict[str, Any]]:
    """For each threshold where the n-gram rule stops, and what was `measured` (name -> value by evaluation) there."""
    rows = []
    for threshold in thresholds:
        stop = stop_by_ngram(scores, threshold=threshold)
        rows.append(
            {
                "threshold": float(threshold),
                "at": stop.at,
                "note": stop.note,
                **{name: float(values[stop.at]) for name, values in measured.items()},
            }
        )
    return rows


def categories_of(texts: Sequence[str], rules: Mapping[str, str] | None = None) -> list[str]:
    """A coarse category for each text, by the first of the rules that fits; `prose` where none does."""
    told = pl.lit("prose")
    for name, pattern in reversed(list((rules or CATEGORIES).items())):
        told = pl.when(pl.col("text").str.contains(pattern)).then(pl.lit(name)).otherwise(told)
    return pl.DataFrame({"text": list(texts)}, schema={"text": pl.String}).select(told.alias("category"))["category"].to_list()


def category_table(
    labels: Sequence[str], scores: F64, memorized: Bools, *, each: int = 500, seed: int = 0, early: int = 2
) -> list[dict[str, Any]]:
    """What became of the samples of each category, in percent of at most `each` drawn ones (figure 6).

    `mem_early`: verbatim within the first `early` evaluations and ever after; `mem_high_partial`: verbatim after an evaluation with a
    score above the median of the not yet memorized; `mem_all`: verbatim at any evaluation. [evaluations, samples] arrays.
    """
    first = first_epoch(memorized)
    stays = np.array([bool(memorized[at:, sample].all()) if at >= 0 else False for sample, at in enumerate(first)], np.bool_)
    warned = np.zeros(len(labels), np.bool_)
    for now, row in enumerate(precursor(scores, memorized)):
        if row["not_yet_median"] is not None:
            warned |= (first > now) & (scores[now] > row["not_yet_median"])
    rows = []
    for label in sorted(set(labels)):
        samples = np.flatnonzero(np.asarray(labels) == label)
        drawn = np.array(sorted(samples, key=lambda sample: hashlib.blake2b(f"{seed}/{sample}".encode(), digest_size=8).digest())[:each])
        kept = first[drawn]
        rows.append(
            {
                "category": label,
                "samples": len(drawn),
                "mem_early": 100 * float(((kept >= 0) & (kept < early) & stays[drawn]).mean()),
                "mem_high_partial": 100 * float(((kept >= 0) & warned[drawn]).mean()),
                "mem_all": 100 * float((kept >= 0).mean()),
            }
        )
    return rows
