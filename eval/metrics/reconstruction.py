"""How many masked values of its training texts a model gives back: Recollect and Rank, its criteria, and the attacks before it.

The attack and its tables stand in `eval/recollect_and_rank.py`. The victim is each checkpoint of a run, the reference the model before its
first step, or any other folder. The row of step 0 has the reference as its own victim: what it says of itself. With `untrained` the same
attack is made on records that no run was trained on: what is right there was guessed.

Success is the paper's: the true value is part of the answer, in any case of letters. That favours long answers, so exact matches and F1
over words stand beside it; `longest` limits answers. A label without candidates is wrong. Counts and shares come out, never a value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from sanitize.errors import UsageError

from ..language_model import Model
from ..metric import Figure, Ground, Metric, Row, Rows, Series, by_epoch
from ..probe_inputs import values_in
from ..recollect_and_rank import (
    CRITERIA,
    DIRECT,
    EMPTY,
    GRID,
    ONE,
    TIMES,
    VOTES,
    WHOLE,
    WORDS,
    Attack,
    Finder,
    Records,
    accuracy,
    answers,
    bands,
    best_b,
    direct,
    judged,
    losses,
    p2p,
    ranked,
    recall_after,
    recall_at,
    recollected,
    sweep,
    tab,
)
from ..run_folder import Checkpoint, Run
from ..value_finder import seer

QUERIES = (1, 2, 5, 10, 20, 30, 40, 50)  # where recall is told (figure 4)
FIRST = (1, 3, 5, 10)  # of the ranked candidates


class Shadow(BaseModel):
    """`[metric.shadow]`: a run on public texts, from the same base model, on which b is chosen."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run: Path
    masked: Path
    work: Path


class Reconstruction(Metric):
    """Settings of the attack; the defaults are the paper's (40 queries, temperature 1.2, top-k 30, top-p 0.8), with b = 1."""

    masked: Path  # what `sanitize run --plan redact --set edit.0.label=numbered` published of the training texts
    work: Path  # the private folder of that run, whose vault says what the labels stand for
    untrained: Path | None = None  # the same of texts that no run was trained on
    untrained_work: Path | None = None
    reference: Path | None = None  # a checkpoint folder; None: the run's own base model
    most: int | None = Field(default=None, ge=1)  # texts
    kinds: tuple[str, ...] = ()
    layout: Literal["whole", "key"] = "whole"
    queries: int = Field(default=40, ge=1)
    temperature: float = Field(default=1.2, gt=0)
    top_k: int | None = Field(default=30, ge=1)
    top_p: float | None = Field(default=0.8, gt=0, le=1)
    new_tokens: int = Field(default=381, ge=1)
    b: float = Field(default=1.0, ge=0)
    shadow: Shadow | None = None  # b is then what is best there
    criterion: Literal["vanilla", "partial", "subtract", "ratio", "biased", "votes", "votes_subtract"] = "biased"
    reach: int = Field(default=300, ge=0)
    longest: int | None = Field(default=None, ge=1)
    baselines: bool = True
    p2p_queries: int = Field(default=64, ge=1)
    chat: bool = False
    whole_prompt: str = WHOLE
    key_prompt: str = ONE
    direct_prompt: str = DIRECT
    empty_prompt: str = EMPTY
    finders: tuple[str | dict[str, Any], ...] = ("patterns",)  # what sees candidates in an answer, as in a plan's `find.finders`
    batch: int = Field(default=64, ge=1)

    _finder: Finder = PrivateAttr(default_factory=lambda: values_in)  # a default that is a function would be taken for a method
    _records: dict[str, Records] = PrivateAttr(default_factory=dict)
    _attack: Attack = PrivateAttr(default_factory=Attack)
    _references: dict[tuple[Path, str], Model] = PrivateAttr(default_factory=dict)

    def open(self, ground: Ground) -> None:
        """Read the masked texts and what their labels stand for; UsageError or OutputBroken where they are not of one run."""
        told = {name: getattr(self, name) for name in Attack.__dataclass_fields__ if name in type(self).model_fields}
        self._attack = Attack(**told, seed=ground.seed)
        self._finder = seer(self.finders, "reconstruction.finders")
        self._records = {"trained": Records.read(self.masked, self.work, kinds=self.kinds, most=self.most)}
        if (self.untrained is None) != (self.untrained_work is None):
            raise UsageError("reconstruction: untrained and untrained_work belong together; give both, or neither")
        if self.untrained is not None and self.untrained_work is not None:
            self._records["untrained"] = Records.read(self.untrained, self.untrained_work, kinds=self.kinds, most=self.most)
        self._references.clear()

    def at(self, run: Run, checkpoint: Checkpoint, model: Model) -> dict[str, Any]:
        """What the attack finds at a checkpoint, of trained records and of untrained ones."""
        reference = self._reference(run, checkpoint, model)
        attack = self._attack
        told: dict[str, Any] = {}
        if self.shadow is not None:
            b, curve = self._chosen(reference)
            attack = replace(attack, b=b)
            told["shadow"] = {"accuracy_by_b": by_b(curve)}
        told["b"] = None if math.isinf(attack.b) else attack.b
        for name, records in self._records.items():
            told[name] = attacked(model, reference, records, attack, criterion=self.criterion, finder=self._finder)
            if self.baselines and name == "trained":
                told["baselines"] = baselines(model, records, attack, queries=self.p2p_queries, finder=self._finder)
        return told

    def _reference(self, run: Run, checkpoint: Checkpoint, model: Model) -> Model:
        place = self.reference or run.base.path
        if place == checkpoint.path:
            return model
        key = (place, model.device)
        if key not in self._references:
            self._references.clear()  # one at a time in memory
            self._references[key] = Model.load(place, model.device)
        return self._references[key]

    def _chosen(self, reference: Model) -> tuple[float, list[tuple[float, float]]]:
        """The b that is best for the shadow run, and its curve."""
        assert self.shadow is not None
        records = Records.read(self.shadow.masked, self.shadow.work, kinds=self.kinds, most=self.most)
        victim = Model.load(Run.open(self.shadow.run).final.path, reference.device)
        curve = curve_of(victim, reference, records, self._attack, finder=self._finder)
        return best_b(curve), curve

    def figures(self, rows: Rows, over: Mapping[str, Any]) -> list[Figure]:
        """Right answers over epochs; recall by queries, and the ratio of accuracies by b, at the last checkpoint (figures 3 and 4)."""

        def last(told: Sequence[Row]) -> Mapping[str, Any]:
            found = told[-1].get(self.use, {}) if told else {}
            trained: Mapping[str, Any] = found.get("trained", {})
            return trained

        recall = [
            Series(name, [(one["queries"], 100 * one["recall"]) for one in last(told).get("recall_by_queries", ())])
            for name, told in rows.items()
        ]
        ratio = [
            Series(
                name, [(one["b"], one["ratio"]) for one in last(told).get("by_b", ()) if one["b"] is not None and one["ratio"] is not None]
            )
            for name, told in rows.items()
        ]
        top = by_epoch(
            rows, lambda row: 100 * row[self.use]["trained"]["top1"] if self.use in row else None, "Masked values that are given back", "%"
        )
        return [
            top,
            Figure("Values that were said at all", "queries", "%", [one for one in recall if one.points]),
            Figure("Accuracy by b, over that of b = 0", "b", "ratio", [one for one in ratio if one.points]),
        ]


def attacked(
    victim: Model, reference: Model, records: Records, attack: Attack, *, criterion: str = "biased", finder: Finder = values_in
) -> dict[str, Any]:
    """The whole attack on some records. Shares are of all keys; `by_b` has `ratio` None where nothing is right at b = 0."""
    found = recollected(victim, records, attack, finder)
    worth, keys = judged(records, found), records.keys
    told = losses(victim, reference, records, found, attack)
    return summary(keys, worth, told, attack, criterion=criterion)


def summary(keys: pl.DataFrame, worth: pl.DataFrame, told: pl.DataFrame, attack: Attack, *, criterion: str = "biased") -> dict[str, Any]:
    """What a report says of an attack, from the tables `Records.keys`, `judged` and `losses`."""
    order = ranked(told, criterion, attack.b)
    best = answers(keys, worth, order)
    by_criterion = {name: answers(keys, worth, ranked(told, name, attack.b)) for name in (*CRITERIA, *VOTES)}
    rates = {
        name: {"top1": accuracy(one), "exact": accuracy(one, "exact"), "f1": accuracy(one, "f1")} for name, one in by_criterion.items()
    }
    ratio, partial = (by_criterion[name]["hit"] for name in ("ratio", "partial"))
    return {
        "keys": keys.height,
        "texts": keys["text_no"].n_unique(),
        "without_candidates": keys.height - worth["key"].n_unique(),
        "candidates": worth.height,
        "top1": accuracy(best),
        "top1_exact": accuracy(best, "exact"),
        "top1_f1": accuracy(best, "f1"),
        "recall": recall_at(keys, worth, order),
        "recall_at": [{"first": most, "recall": recall_at(keys, worth, order, most)} for most in FIRST],
        "recall_by_queries": [
            {"queries": some, "recall": recall_after(keys, worth, some)}
            for some in sorted({*(one for one in QUERIES if one < attack.queries), attack.queries})
        ],
        "criteria": {name: rates[name] for name in CRITERIA},
        "criteria_not_the_papers": {name: rates[name] for name in VOTES},
        "ratio_and_partial": {
            "both": int((ratio & partial).sum()),
            "ratio_only": int((ratio & ~partial).sum()),
            "partial_only": int((partial & ~ratio).sum()),
        },
        "by_b": by_b(sweep(keys, worth, told)),
        "by_kind": [
            {"kind": kind, "keys": some.height, "right": int(some["hit"].sum())}
            for (kind,), some in sorted(best.partition_by("kind", as_dict=True).items(), key=lambda entry: str(entry[0]))
        ],
        "by_words": bands(best, "words", WORDS),
        "by_times": bands(best, "times", TIMES),
    }


def by_b(curve: Sequence[tuple[float, float]]) -> list[dict[str, float | None]]:
    """A sweep as rows: `b` (None: infinite), `top1`, and its `ratio` to that of b = 0 (None where that is 0)."""
    base = next((share for b, share in curve if b == 0), 0.0)
    return [{"b": None if math.isinf(b) else b, "top1": share, "ratio": share / base if base else None} for b, share in curve]


def curve_of(
    victim: Model, reference: Model, records: Records, attack: Attack, grid: Sequence[float] = GRID, *, finder: Finder = values_in
) -> list[tuple[float, float]]:
    """Accuracy by b of an attack, as on a shadow model that was tuned on public texts."""
    found = recollected(victim, records, attack, finder)
    return sweep(records.keys, judged(records, found), losses(victim, reference, records, found, attack), grid)


def baselines(model: Model, records: Records, attack: Attack, *, queries: int = 64, finder: Finder = values_in) -> dict[str, float]:
    """Accuracy of the attacks before it: DirectPrompt and TAB (right where any value of their one completion is), and P2P (ranked by the
    loss of the whole segment, without a reference); with the share of keys whose value P2P said at all, and what would come first of its
    candidates by votes (`p2p_votes`, which is not P2P's way)."""
    keys, told = records.keys, {}
    for name, made in (("direct", direct(model, records, attack, finder)), ("tab", tab(model, records, attack, finder))):
        told[name] = recall_after(keys, judged(records, made), 1)
    made = p2p(model, records, attack, finder, queries=queries)
    worth = judged(records, made)
    scored = losses(model, None, records, made, attack)
    order, votes = ranked(scored, "vanilla"), ranked(scored, "votes")
    return {
        **told,
        "p2p": accuracy(answers(keys, worth, order)),
        "p2p_recall": recall_at(keys, worth, order),
        "p2p_votes": accuracy(answers(keys, worth, votes)),
    }
