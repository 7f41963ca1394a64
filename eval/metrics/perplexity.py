"""Perplexity of named text sets, per text and over all tokens, and its increase over a baseline run
(MDP%).

    perplexity of a text = exp(mean loss of its tokens)    `mean`: the mean over texts (the paper's
                                                           reading)    `corpus`: over all tokens

Each text follows the end-of-text token, which is what training puts before it, so that its first
token is scored too. The mean delta perplexity (RMFT, equations 3 and 5) compares checkpoint by
checkpoint: MDP% = 100 (PPL - PPL of the baseline) / PPL of the baseline. The mean over texts is a
mean of exponentials, dominated by a few unusual texts: the paper's 605 on WikiText2 can only be
such a mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import Field, PrivateAttr

from sanitize.errors import UsageError, suggest_names

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
from ..run_folder import Checkpoint, RunFolder
from ..texts_and_prompts import TextSet
from .extraction import pair_checkpoints


class Perplexity(Metric):
    """Settings: which text sets are measured; default: all of the suite."""

    texts: tuple[str, ...] = ()
    batch: int = Field(default=32, ge=1)

    _context: EvalContext = PrivateAttr(default_factory=EvalContext)
    _text_sets: dict[str, TextSet] = PrivateAttr(default_factory=dict)

    def setup(self, context: EvalContext) -> None:
        """Select the text sets; UsageError for a name that the suite does not have."""
        for name in self.texts:
            if name not in context.text_sets:
                raise UsageError(
                    f"perplexity.texts: no set {name!r} in [texts];"
                    f" {suggest_names(name, context.text_sets)}"
                )
        self._context = context
        self._text_sets = {
            name: context.text_sets[name] for name in self.texts or context.text_sets
        }
        if not self._text_sets:
            raise UsageError("perplexity needs texts; name a set in [texts] with its path")

    def depends_on_run(self, checkpoint: Checkpoint) -> bool:
        """False: the texts are those of the suite."""
        return False

    def on_checkpoint(
        self, run: RunFolder, checkpoint: Checkpoint, model: LanguageModel
    ) -> dict[str, Any]:
        """Return the perplexities of each set."""
        return {
            name: measure_perplexity(model, texts.texts, batch=self.batch)
            for name, texts in self._text_sets.items()
        }

    def aggregate(self, rows: MetricRows) -> dict[str, Any]:
        """Return for each run and set the MDP% at each checkpoint, their mean and the last, by both
        readings. Empty without a baseline."""
        base = rows.get(self._context.baseline or "")
        if base is None:
            return {}
        return {
            name: {which: compute_mdp(base, other, which) for which in self._text_sets}
            for name, other in rows.items()
            if name != self._context.baseline
        }

    def build_figures(self, rows: MetricRows, aggregated: Mapping[str, Any]) -> list[Figure]:
        """Return figures of perplexity after the base model, and of MDP% if there is a baseline
        (the paper's figure 3)."""

        def value(which: str) -> Callable[[MetricRow], float | None]:
            return lambda row: row["perplexity"][which]["mean"] if row["step"] > 0 else None

        drawn = [
            make_epoch_figure(rows, value(which), f"Perplexity of {which}", "mean perplexity")
            for which in self._text_sets
        ]
        for which in self._text_sets if aggregated else ():
            series = []
            for name, by_set in aggregated.items():
                epochs = [row["epoch"] for row in rows[name] if row["step"] > 0]
                series.append(
                    FigureSeries(
                        name, list(zip(epochs, by_set[which]["mean"]["mdp_percent"], strict=False))
                    )
                )
            drawn.append(Figure(f"What it costs on {which}", "epoch", "MDP %", series))
        return drawn


def measure_perplexity(
    model: LanguageModel, texts: Sequence[str], *, batch: int = 32
) -> dict[str, Any]:
    """Return the perplexity of texts, as the mean over texts and over all tokens; texts without
    tokens are left out."""
    start = model.begin_ids or [model.pad_id]
    rows = [start + row for row in model.encode(texts) if row]
    losses = [
        one[len(start) - 1 :].astype(np.float64) for one in model.token_losses(rows, batch=batch)
    ]
    if not losses:
        return {"mean": None, "corpus": None, "texts": 0, "tokens": 0}
    tokens = sum(map(len, losses))
    return {
        "mean": float(np.mean([np.exp(one.mean()) for one in losses])),
        "corpus": float(np.exp(sum(one.sum() for one in losses) / tokens)),
        "texts": len(losses),
        "tokens": tokens,
    }


def compute_mdp(
    base: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]], set_name: str
) -> dict[str, Any]:
    """Return MDP% of each checkpoint after the base model, their mean, the last, and the mean
    difference in perplexity (equation 3)."""
    sides = [
        [(row["step"], row["perplexity"][set_name]) for row in run if row["step"] > 0]
        for run in (base, other)
    ]
    pairs = pair_checkpoints(*sides)
    results: dict[str, Any] = {}
    for reading in ("mean", "corpus"):
        # None: no token, or infinite
        pairs = [(one, two) for one, two in pairs if None not in (one[reading], two[reading])]
        percent = [100 * (two[reading] - one[reading]) / one[reading] for one, two in pairs]
        results[reading] = {
            "mdp_percent": percent,
            "mean": float(np.mean(percent)) if percent else None,
            "final": percent[-1] if percent else None,
            "delta": (
                float(np.mean([two[reading] - one[reading] for one, two in pairs]))
                if pairs
                else None
            ),
        }
    return results
