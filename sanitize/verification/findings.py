"""Collects what a search for removed values found outside of texts that can be swept: leaks, and
inconclusive matches, never a value."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from sanitize.verification.search_terms import ALL_FORMS, SearchTerms
from sanitize.verification.value_matches import NONE, ValueMatches, describe_forms


@dataclass(frozen=True)
class LeakFinding:
    """Leaks of one sort: the file, the location in it, the kind and form of the removed values, and
    the number of matches."""

    file: str
    location: str
    kind: str
    form: str
    count: int

    def __str__(self) -> str:
        return f"{self.file}, {self.location}: {self.count} {self.kind} ({self.form})"


@dataclass(frozen=True, repr=False)
class Findings:
    """Numbers of leaks by location, kind and form, and of inconclusive matches by kind and form."""

    leaks: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    inconclusive: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(
        self,
        location: str,
        terms: SearchTerms,
        matches: ValueMatches,
        texts: pa.LargeStringArray,
        *,
        is_cell: bool = False,
    ) -> None:
        """Add matches in some texts. In a cell of a table (`is_cell`) a short value is certain as
        it is written; elsewhere it may be there by chance."""
        matches = matches.take(np.flatnonzero(matches.certainty != NONE))
        if not len(matches):
            return
        is_certain = matches.are_certain(is_cell=is_cell)
        kinds = terms.plain.kind_names
        forms = describe_forms(terms, matches, texts)
        for certain, kind, form in zip(
            is_certain.tolist(), matches.kind.tolist(), forms.tolist(), strict=True
        ):
            if certain:
                self.leaks[location, kinds[kind], ALL_FORMS[form]] += 1
            else:
                self.inconclusive[kinds[kind], ALL_FORMS[form]] += 1
