"""Replaces words by similar words of a masked language model, weighted by cosine similarity. NOT
differentially private.

The other variant in the published code of DP2Unlearning, only for comparison with `dp_mlm`. A word
is masked, and its replacement is drawn among the `top` most likely words with probability
proportional to exp(epsilon * cosine), where the cosine compares the states of the last four layers
at the mask with those at the candidate in its place. The candidates depend on the text, and nothing
is calibrated to a sensitivity (the published weight has no factor 2 * sensitivity either), so no
epsilon bounds anything: the ledger counts draws and makes no privacy claim.

Settings, mappings and draws are those of `dp_mlm`; no clip bounds are needed. Cost: `top` + 1
forward passes for each word.
"""

from __future__ import annotations

import math
from typing import Self

import numpy as np
from pydantic import Field

from sanitize.array_types import F64, I64
from sanitize.core.exponential_mechanism import invert_cdf
from sanitize.core.part_protocols import PrivacyCost
from sanitize.editors.dp_mlm import DpMlm
from sanitize.text.masked_lm import MaskedInput


class CosineMlm(DpMlm):
    """Settings: those of `dp_mlm`, and `top`, the number of candidates for a word."""

    top: int = Field(default=10, ge=2, le=1000)

    @property
    def action(self) -> str:
        """Draws of a language model for words, without a privacy claim."""
        return "words replaced by likely words of a masked language model, without a privacy claim"

    def describe_staying(self, kind: str) -> str:
        """The same for all its kinds."""
        return "words that are drawn again"

    def resolve_settings(self) -> Self:
        """These settings with the hash of the model."""
        return self.model_copy(update={"model_sha256": self._model_hash()}) if self.model else self

    def describe_privacy_cost(self) -> PrivacyCost:
        """One draw in the ledger, without a privacy claim."""
        return self._make_privacy_cost(
            mechanism=(
                "a softmax over cosines of a masked language model's most likely words: not DP"
            ),
            epsilon=math.inf,  # no finite number bounds a draw
            weight=self.epsilon,
            top=self.top,
        )

    def _draw_words(self, rows: list[MaskedInput], uniforms: F64) -> I64:
        """The vocabulary number of the word drawn for each row, at its uniform number. ValueError
        where the model gives NaN."""
        found = np.empty(len(rows), np.int64)
        for some, candidates, cosines in self._model.rank_candidates(rows, self.batch, self.top):
            exact = cosines.astype(np.float64)
            if np.isnan(exact).any():
                raise ValueError(
                    "the model gives NaN for a word; no word is drawn from a failed model"
                )
            drawn = invert_cdf(
                np.exp(self.epsilon * (exact - exact.max(axis=1, keepdims=True))), uniforms[some]
            )
            found[some] = candidates[np.arange(len(some)), drawn]
        return found
