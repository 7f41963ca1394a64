"""Drops every document that contains a value of an earlier, kept document: deduplication of data
points, as in the literature.

Afterwards no value of `kinds` occurs in two documents, and every dropped document shares a value
with a kept one. Values are those that were found, compared by their normalised form (letter case
and spelling do not count); repetitions within one document do not matter. Texts are not read.
Source: RMFT (arXiv 2512.03310), section 4.1.2, after Lee et al., ACL 2022.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from sanitize.array_types import I64
from sanitize.core.duplicate_groups import find_repeating_groups
from sanitize.core.part_protocols import CorpusView, Dropper


class RepeatedPii(Dropper):
    """Settings: the `kinds` whose values may occur in one document only."""

    kinds: tuple[str, ...] = Field(default=("EMAIL_ADDRESS",), min_length=1)
    reason: ClassVar[str] = "same value"
    required_aggregates: ClassVar[tuple[str, ...]] = ("document_values", "repeated_items")

    @property
    def occurrence_kinds(self) -> tuple[str, ...]:
        """The kinds whose occurrences it reads."""
        return self.kinds

    def select_drops(self, corpus: CorpusView) -> tuple[I64, I64]:
        """Every document with a value of an earlier, kept document, and the first such document
        (two arrays of doc_no)."""
        return find_repeating_groups(
            corpus.run_query("repeated_items", {"items": [corpus.run_query("document_values", {})]})
        )
