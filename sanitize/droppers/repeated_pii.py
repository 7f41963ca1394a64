"""Drops every document that repeats a value of an earlier one that stays: deduplication of data points, as the literature does it.

Afterwards no value of `kinds` stands in two documents, and a document went only for the sake of one that stays. Values are those that
were found, by their identity (letter case and spelling aside); how often a value stands within one document does not matter. No text
is read. Source: RMFT (arXiv 2512.03310), section 4.1.2, after Lee et al., ACL 2022.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from sanitize.core.duplicate_groups import that_repeat
from sanitize.core.parts import Dropper, Whole

I64 = npt.NDArray[np.int64]


class RepeatedPii(Dropper):
    """Settings: the `kinds` whose values may stand in one document only."""

    kinds: tuple[str, ...] = Field(default=("EMAIL_ADDRESS",), min_length=1)
    reason: ClassVar[str] = "same value"
    needs: ClassVar[tuple[str, ...]] = ("document_values", "repeated_things")

    @property
    def counted(self) -> tuple[str, ...]:
        """Its kinds."""
        return self.kinds

    def gather(self, whole: Whole) -> tuple[I64, I64]:
        """Every document with a value of an earlier one that stays, and the first such document."""
        return that_repeat(whole.ask("repeated_things", {"things": [whole.ask("document_values", {})]}))
