"""How well a model predicts named sets of texts: perplexity, per text and over the whole set, and what it costs against a baseline run.

    perplexity of a text = exp(mean loss of its tokens)    `mean`: the mean over texts (the paper's reading)    `corpus`: over all tokens

Each text follows the end-of-text token, which is what training puts before it, so that its first token is scored too. The mean delta
perplexity (RMFT, equations 3 and 5) compares checkpoint by checkpoint: MDP% = 100 (PPL - PPL of the baseline) / PPL of the baseline.
A perplexity per text is a mean of exponentials, and a few odd texts decide it: the paper's 605 on WikiText2 can only be one of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import Field, PrivateAttr

from sanitize.errors import UsageError, nearest

from ..language_model import Model
from ..metric import Figure, Ground, Metric, Row, Rows, Series, by_epoch
from ..probe_inputs import Texts
from ..run_folder import Checkpoint, Run
from .extraction import paired


class Perplexity(Metric):
    """Which sets of texts are measured; all of the suite's by default."""

    texts: tuple[str, ...] = ()
    batch: int = Field(default=32, ge=1)

    _ground: Ground = PrivateAttr(default_factory=Ground)
    _sets: dict[str, Texts] = PrivateAttr(default_factory=dict)

    def open(self, ground: Ground) -> None:
        """Take the sets; UsageError for a name that the suite does not have."""
        for name in self.texts:
            if name not in ground.texts:
                raise UsageError(f"perplexity.texts: no set {name!r} in [texts]; {nearest(name, ground.texts)}")
        self._ground = ground
        self._sets = {name: ground.texts[name] for name in self.texts or ground.texts}
        if not self._sets:
            raise UsageError("perplexity needs texts; name a set in [texts] with its path")

    def at(self, run: Run, checkpoint: Checkpoint, model: Model) -> dict[str, Any]:
        """The perplexities of each set."""
        return {name: perplexities(model, texts.texts, batch=self.batch) for name, texts in self._sets.items()}

    def over(self, rows: Rows) -> dict[str, Any]:
        """For each run and set: MDP% at each checkpoint, their mean, and the last one; by both readings. Empty without a baseline."""
        base = rows.get(self._ground.baseline or "")
        if base is None:
            return {}
        return {
            name: {which: deltas(base, other, which) for which in self._sets}
            for name, other in rows.items()
            if name != self._ground.baseline
        }

    def figures(self, rows: Rows, over: Mapping[str, Any]) -> list[Figure]:
        """Perplexity after the base model, and MDP% where there is a baseline (the paper's figure 3)."""

        def value(which: str) -> Callable[[Row], float | None]:
            return lambda row: row["perplexity"][which]["mean"] if row["step"] > 0 else None

        drawn = [by_epoch(rows, value(which), f"Perplexity of {which}", "mean perplexity") for which in self._sets]
        for which in self._sets if over else ():
            series = []
            for name, told in over.items():
                epochs = [row["epoch"] for row in rows[name] if row["step"] > 0]
                series.append(Series(name, list(zip(epochs, told[which]["mean"]["mdp_percent"], strict=False))))
            drawn.append(Figure(f"What it costs on {which}", "epoch", "MDP %", series))
        return drawn


def perplexities(model: Model, texts: Sequence[str], *, batch: int = 32) -> dict[str, Any]:
    """The perplexity of a set, as the mean over texts and over all tokens; texts without a token are left out."""
    start = [model.eos if model.eos is not None else model.pad]
    losses = [one.astype(np.float64) for one in model.token_losses([start + row for row in model.encode(texts) if row], batch=batch)]
    if not losses:
        return {"mean": None, "corpus": None, "texts": 0, "tokens": 0}
    tokens = sum(map(len, losses))
    return {
        "mean": float(np.mean([np.exp(one.mean()) for one in losses])),
        "corpus": float(np.exp(sum(one.sum() for one in losses) / tokens)),
        "texts": len(losses),
        "tokens": tokens,
    }


def deltas(base: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]], which: str) -> dict[str, Any]:
    """MDP% of each checkpoint after the base model, the mean of them, the last, and the mean difference in perplexity (equation 3)."""
    sides = [[(row["step"], row["perplexity"][which]) for row in run if row["step"] > 0] for run in (base, other)]
    pairs = paired(*sides)
    told: dict[str, Any] = {}
    for reading in ("mean", "corpus"):
        percent = [100 * (two[reading] - one[reading]) / one[reading] for one, two in pairs]
        told[reading] = {
            "mdp_percent": percent,
            "mean": float(np.mean(percent)) if percent else None,
            "final": percent[-1] if percent else None,
            "delta": float(np.mean([two[reading] - one[reading] for one, two in pairs])) if pairs else None,
        }
    return told
