"""Words become what a masked language model finds alike: rewriting by cosine, NOT differentially private.

The other variant of the published code of DP2Unlearning, for comparison with `dp_mlm` only. A word is hidden behind a mask, and of the
`top` most likely words the one that takes its place is drawn with probability proportional to exp(epsilon * cosine), the cosine being
that of the last four layers' states at the mask and at the candidate in its place. Which words are candidates hangs on the text, and
nothing is calibrated to a sensitivity (the published weight has no factor 2 * sensitivity either), so that no epsilon bounds anything:
the ledger names draws, and claims none.

Settings, mappings and draws are those of `dp_mlm`; no bounds are asked for. Cost: `top` + 1 forward passes for each word.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field

from sanitize.core.exponential_mechanism import inverse
from sanitize.editors.dp_mlm import DpMlm
from sanitize.text.masked_lm import Row


class CosineMlm(DpMlm):
    """Those of `dp_mlm`, and `top`: how many candidates a word has."""

    top: int = Field(default=10, ge=2, le=1000)

    def settled(self) -> Self:
        """The same with the model's hash."""
        return self.model_copy(update={"model_sha256": self._hash()}) if self.model else self

    def spends(self) -> dict[str, Any]:
        """One draw, of which nothing is claimed."""
        return {
            "mechanism": "a softmax over cosines of a masked language model's most likely words: not DP",
            "not_dp": True,
            "epsilon": math.inf,  # of any draw: no number bounds it
            "weight": self.epsilon,
            "shared": self.mapping == "corpus",
            "by_document": "",
            "top": self.top,
            **self._settings(),
        }

    def _chosen(self, rows: list[Row], at: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """The number of the word drawn for each row."""
        found = np.empty(len(rows), np.int64)
        for some, candidates, cosines in self._model.alike(rows, self.batch, self.top):
            exact = cosines.astype(np.float64)
            if np.isnan(exact).any():
                raise ValueError("the model gives NaN for a word; nothing is drawn around a failure")
            drawn = inverse(np.exp(self.epsilon * (exact - exact.max(axis=1, keepdims=True))), at[some])
            found[some] = candidates[np.arange(len(some)), drawn]
        return found
