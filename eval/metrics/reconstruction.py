"""Reconstruction of masked values of training texts: the attack Recollect and Rank, its criteria,
and earlier attacks as baselines.

The attack and its tables are in `eval/recollect_and_rank.py`. The victim is each checkpoint of a
run; the reference is the model before training, or any other folder. In the row of step 0 the
reference is its own victim. With `untrained` the same attack runs on records that no run was
trained on: right answers there are guesses.

Success is defined as in the paper: the true value is part of the answer, ignoring case. That
favours long answers, so exact matches and F1 over words are reported as well; `longest` limits
answers. A label without candidates is wrong. Returns counts and shares, never a value.
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

from ..language_model import LanguageModel
from ..metric import (
    EvalContext,
    Figure,
    FigureSeries,
    Metric,
    MetricRow,
    MetricRows,
    make_epoch_figure,
)
from ..recollect_and_rank import (
    B_GRID,
    CRITERIA,
    DIRECT_PROMPT,
    EMPTY_PROMPT,
    KEY_PROMPT,
    OCCURRENCE_BANDS,
    VOTE_CRITERIA,
    WHOLE_PROMPT,
    WORD_BANDS,
    AttackSettings,
    MaskedRecords,
    ValueFinder,
    accuracy_by_b,
    answer_accuracy,
    choose_best_b,
    compute_candidate_losses,
    count_by_band,
    direct_prompt_candidates,
    judge_candidates,
    p2p_candidates,
    rank_candidates,
    recall_after_queries,
    recall_at_rank,
    recollect_candidates,
    select_answers,
    tab_candidates,
)
from ..run_folder import Checkpoint, RunFolder
from ..texts_and_prompts import find_values
from ..value_finder import make_value_finder

# numbers of queries for which recall is reported (figure 4)
QUERY_COUNTS = (
    1,
    2,
    5,
    10,
    20,
    30,
    40,
    50,
)
TOP_COUNTS = (1, 3, 5, 10)  # of the ranked candidates
BASELINES = ("direct", "tab", "p2p", "p2p_recall", "p2p_votes")  # `run_baselines_by_key`


class ShadowRun(BaseModel):
    """`[metric.shadow]`: a run on public texts, from the same base model, on which b is chosen."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run: Path
    masked: Path
    work: Path


class Reconstruction(Metric):
    """Settings of the attack; the defaults are the paper's (40 queries, temperature 1.2, top-k 30,
    top-p 0.8), with b = 1."""

    # the training texts, published by `sanitize run --plan redact --set edit.0.label=numbered`
    masked: Path
    work: Path  # the private folder of that run, whose vault has the values of the labels
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
    shadow: ShadowRun | None = None  # if set, b is chosen on it
    criterion: Literal[
        "vanilla", "partial", "subtract", "ratio", "biased", "votes", "votes_subtract"
    ] = "biased"
    reach: int = Field(default=300, ge=0)
    longest: int | None = Field(default=None, ge=1)
    baselines: bool = True
    p2p_queries: int = Field(default=64, ge=1)
    chat: bool = False
    whole_prompt: str = WHOLE_PROMPT
    key_prompt: str = KEY_PROMPT
    direct_prompt: str = DIRECT_PROMPT
    empty_prompt: str = EMPTY_PROMPT
    # finders of candidates in answers, as in a plan's `find.finders`
    finders: tuple[str | dict[str, Any], ...] = ("patterns",)
    batch: int = Field(default=64, ge=1)

    # a plain function as default would become a method
    _value_finder: ValueFinder = PrivateAttr(default_factory=lambda: find_values)
    _record_sets: dict[str, MaskedRecords] = PrivateAttr(default_factory=dict)
    _attack_settings: AttackSettings = PrivateAttr(default_factory=AttackSettings)
    _reference_models: dict[tuple[Path, str], LanguageModel] = PrivateAttr(default_factory=dict)

    def setup(self, context: EvalContext) -> None:
        """Read the masked texts and the values of their labels; UsageError or OutputBroken if they
        are not of one run."""
        attack_fields = {
            name: getattr(self, name)
            for name in AttackSettings.__dataclass_fields__
            if name in type(self).model_fields
        }
        self._attack_settings = AttackSettings(**attack_fields, seed=context.seed)
        self._value_finder = make_value_finder(self.finders, "reconstruction.finders")
        self._record_sets = {
            "trained": MaskedRecords.read(self.masked, self.work, kinds=self.kinds, most=self.most)
        }
        if (self.untrained is None) != (self.untrained_work is None):
            raise UsageError(
                "reconstruction: untrained and untrained_work belong together; give both, or"
                " neither"
            )
        if self.untrained is not None and self.untrained_work is not None:
            self._record_sets["untrained"] = MaskedRecords.read(
                self.untrained, self.untrained_work, kinds=self.kinds, most=self.most
            )
        self._reference_models.clear()

    def on_checkpoint(
        self, run: RunFolder, checkpoint: Checkpoint, model: LanguageModel
    ) -> dict[str, Any]:
        """Return the results of the attack at a checkpoint, on trained records and on untrained
        ones."""
        reference = self._get_reference(run, checkpoint, model)
        attack = self._attack_settings
        results: dict[str, Any] = {}
        if self.shadow is not None:
            b, curve = self._choose_b(reference)
            attack = replace(attack, b=b)
            results["shadow"] = {"accuracy_by_b": tabulate_by_b(curve)}
        results["b"] = None if math.isinf(attack.b) else attack.b
        for name, records in self._record_sets.items():
            results[name] = run_attack(
                model,
                reference,
                records,
                attack,
                criterion=self.criterion,
                value_finder=self._value_finder,
            )
            if self.baselines and name == "trained":
                results["baselines"] = run_baselines(
                    model,
                    records,
                    attack,
                    queries=self.p2p_queries,
                    value_finder=self._value_finder,
                )
        return results

    def _get_reference(
        self, run: RunFolder, checkpoint: Checkpoint, model: LanguageModel
    ) -> LanguageModel:
        checkpoint_path = self.reference or run.base_checkpoint.path
        if checkpoint_path == checkpoint.path:
            return model
        key = (checkpoint_path, model.device)
        if key not in self._reference_models:
            self._reference_models.clear()  # keep only one in memory
            self._reference_models[key] = model.load_another(checkpoint_path)
        return self._reference_models[key]

    def _choose_b(self, reference: LanguageModel) -> tuple[float, list[tuple[float, float]]]:
        """Return the b with the highest accuracy on the shadow run, and the curve of accuracy by
        b."""
        assert self.shadow is not None
        records = MaskedRecords.read(
            self.shadow.masked, self.shadow.work, kinds=self.kinds, most=self.most
        )
        victim = reference.load_another(RunFolder.open(self.shadow.run).final_checkpoint.path)
        curve = compute_b_curve(
            victim, reference, records, self._attack_settings, value_finder=self._value_finder
        )
        return choose_best_b(curve), curve

    def build_figures(self, rows: MetricRows, aggregated: Mapping[str, Any]) -> list[Figure]:
        """Return figures of right answers over epochs; at the last checkpoint, of recall by queries
        and accuracy by b (figures 3, 4)."""

        def last(run_rows: Sequence[MetricRow]) -> Mapping[str, Any]:
            found = run_rows[-1].get(self.use, {}) if run_rows else {}
            trained: Mapping[str, Any] = found.get("trained", {})
            return trained

        recall = [
            FigureSeries(
                name,
                [
                    (entry["queries"], 100 * entry["recall"])
                    for entry in last(run_rows).get("recall_by_queries", ())
                ],
            )
            for name, run_rows in rows.items()
        ]
        ratio = [
            FigureSeries(
                name,
                [
                    (entry["b"], entry["ratio"])
                    for entry in last(run_rows).get("by_b", ())
                    if entry["b"] is not None and entry["ratio"] is not None
                ],
            )
            for name, run_rows in rows.items()
        ]
        top = make_epoch_figure(
            rows,
            lambda row: 100 * row[self.use]["trained"]["top1"] if self.use in row else None,
            "Masked values that are recovered",
            "%",
        )
        return [
            top,
            Figure(
                "Values that were generated at all",
                "queries",
                "%",
                [entry for entry in recall if entry.points],
            ),
            Figure(
                "Accuracy by b, over that of b = 0",
                "b",
                "ratio",
                [entry for entry in ratio if entry.points],
            ),
        ]


def run_attack(
    victim: LanguageModel,
    reference: LanguageModel,
    records: MaskedRecords,
    settings: AttackSettings,
    *,
    criterion: str = "biased",
    value_finder: ValueFinder = find_values,
) -> dict[str, Any]:
    """Run the whole attack on some records. Shares are of all keys; `by_b` has `ratio` None if
    nothing is right at b = 0."""
    candidates = recollect_candidates(victim, records, settings, value_finder)
    judged, keys = judge_candidates(records, candidates), records.keys
    losses = compute_candidate_losses(victim, reference, records, candidates, settings)
    return summarize_attack(keys, judged, losses, settings, criterion=criterion)


def summarize_attack(
    keys: pl.DataFrame,
    judged: pl.DataFrame,
    losses: pl.DataFrame,
    settings: AttackSettings,
    *,
    criterion: str = "biased",
) -> dict[str, Any]:
    """Summarize an attack for the report, from the tables `MaskedRecords.keys`, `judged` and
    `losses`."""
    order = rank_candidates(losses, criterion, settings.b)
    best = select_answers(keys, judged, order)
    by_criterion = {
        name: select_answers(keys, judged, rank_candidates(losses, name, settings.b))
        for name in (*CRITERIA, *VOTE_CRITERIA)
    }
    rates = {
        name: {
            "top1": answer_accuracy(one),
            "exact": answer_accuracy(one, "exact"),
            "f1": answer_accuracy(one, "f1"),
        }
        for name, one in by_criterion.items()
    }
    ratio, partial = (by_criterion[name]["hit"] for name in ("ratio", "partial"))
    return {
        "keys": keys.height,
        "texts": keys["text_no"].n_unique(),
        "keys_without_candidates": keys.height - judged["key"].n_unique(),
        "candidates": judged.height,
        "top1": answer_accuracy(best),
        "top1_exact": answer_accuracy(best, "exact"),
        "top1_f1": answer_accuracy(best, "f1"),
        "recall": recall_at_rank(keys, judged, order),
        "recall_at": [
            {"first": most, "recall": recall_at_rank(keys, judged, order, most)}
            for most in TOP_COUNTS
        ],
        "recall_by_queries": [
            {"queries": some, "recall": recall_after_queries(keys, judged, some)}
            for some in sorted(
                {*(one for one in QUERY_COUNTS if one < settings.queries), settings.queries}
            )
        ],
        "criteria": {name: rates[name] for name in CRITERIA},
        "other_criteria": {name: rates[name] for name in VOTE_CRITERIA},
        "ratio_and_partial": {
            "both": int((ratio & partial).sum()),
            "ratio_only": int((ratio & ~partial).sum()),
            "partial_only": int((partial & ~ratio).sum()),
        },
        "by_b": tabulate_by_b(accuracy_by_b(keys, judged, losses)),
        "by_kind": [
            {"kind": kind, "keys": some.height, "correct": int(some["hit"].sum())}
            for (kind,), some in sorted(
                best.partition_by("kind", as_dict=True).items(), key=lambda entry: str(entry[0])
            )
        ],
        "by_words": count_by_band(best, "words", WORD_BANDS),
        "by_occurrences": count_by_band(best, "times", OCCURRENCE_BANDS),
    }


def tabulate_by_b(curve: Sequence[tuple[float, float]]) -> list[dict[str, float | None]]:
    """Return the accuracy for each b of the biased score (`biased_score`) as rows: `b` (None:
    infinite), `top1`, and `ratio`, which is `top1` divided by that of b = 0 (None if that is 0)."""
    base = next((share for b, share in curve if b == 0), 0.0)
    return [
        {"b": None if math.isinf(b) else b, "top1": share, "ratio": share / base if base else None}
        for b, share in curve
    ]


def compute_b_curve(
    victim: LanguageModel,
    reference: LanguageModel,
    records: MaskedRecords,
    settings: AttackSettings,
    grid: Sequence[float] = B_GRID,
    *,
    value_finder: ValueFinder = find_values,
) -> list[tuple[float, float]]:
    """Run an attack and return its accuracy by b; used with a shadow model that was tuned on public
    texts."""
    found = recollect_candidates(victim, records, settings, value_finder)
    return accuracy_by_b(
        records.keys,
        judge_candidates(records, found),
        compute_candidate_losses(victim, reference, records, found, settings),
        grid,
    )


def run_baselines(
    model: LanguageModel,
    records: MaskedRecords,
    settings: AttackSettings,
    *,
    queries: int = 64,
    value_finder: ValueFinder = find_values,
) -> dict[str, float]:
    """Return the accuracy of earlier attacks, as shares of the keys of `run_baselines_by_key`."""
    hits = run_baselines_by_key(
        model, records, settings, queries=queries, value_finder=value_finder
    )
    if not hits.height:
        return dict.fromkeys(BASELINES, 0.0)
    means = (hits[name].cast(pl.Float64).mean() for name in BASELINES)
    return {
        name: float(mean or 0.0)  # type: ignore[arg-type]
        for name, mean in zip(BASELINES, means, strict=True)
    }


def run_baselines_by_key(
    model: LanguageModel,
    records: MaskedRecords,
    settings: AttackSettings,
    *,
    queries: int = 64,
    value_finder: ValueFinder = find_values,
) -> pl.DataFrame:
    """Return `key`, and whether each of the earlier attacks is right: DirectPrompt, TAB and P2P.

    DirectPrompt and TAB are right if any value in their single completion is; P2P ranks by the loss
    of the whole segment, without a reference. `p2p_recall`: P2P generated the value at all;
    `p2p_votes`: its candidates ranked by votes, which is not part of P2P.
    """
    keys, right_keys = records.keys, {}
    for name, candidates in (
        ("direct", direct_prompt_candidates(model, records, settings, value_finder)),
        ("tab", tab_candidates(model, records, settings, value_finder)),
    ):
        judged = judge_candidates(records, candidates)
        right_keys[name] = judged.filter(pl.col("hit") & (pl.col("query") < 1))["key"]
    candidates = p2p_candidates(model, records, settings, value_finder, queries=queries)
    judged = judge_candidates(records, candidates)
    losses = compute_candidate_losses(model, None, records, candidates, settings)
    for name, criterion in (("p2p", "vanilla"), ("p2p_votes", "votes")):
        right_keys[name] = select_answers(keys, judged, rank_candidates(losses, criterion)).filter(
            "hit"
        )["key"]
    right_keys["p2p_recall"] = rank_candidates(losses, "vanilla").join(
        judged.filter("hit"), on=["key", "place"]
    )["key"]
    return keys.select(
        "key",
        *(
            pl.col("key").is_in(right_keys[name].unique().to_list()).alias(name)
            for name in BASELINES
        ),
    )
