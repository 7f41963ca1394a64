"""Replaces every occurrence by a label: `[EMAIL_ADDRESS]`, or `[EMAIL_ADDRESS-1]` numbered per
document.

Numbered labels give each distinct value of a document its own number, in order of appearance. The
value of each label is stored in the vault (table `labels`), where reconstruction attacks read it.
Source of the numbered form: R.R. (Recollect and Rank), section 4.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import polars as pl

from sanitize.core.arrow_buffers import to_large_string
from sanitize.core.part_protocols import EditBatch, Editor, OccurrenceEdits
from sanitize.storage import table_schemas


class Redact(Editor):
    """Settings: `label` is `fixed` or `numbered`."""

    label: Literal["fixed", "numbered"] = "fixed"
    keep: Literal[0] = 0

    @property
    def draws_anew(self) -> bool:
        return True

    @property
    def action(self) -> str:
        """A label for every occurrence."""
        return "every occurrence replaced by a label"

    def edit_occurrences(self, batch: EditBatch) -> OccurrenceEdits:
        """A label for every occurrence; with numbered labels also the table `labels`, which maps
        them to value_ids."""
        frame = batch.occurrences.select("doc_no", pl.col("kind").cast(pl.String), "value_id")
        rows = np.arange(frame.height)
        if self.label == "fixed":
            return OccurrenceEdits(
                rows, to_large_string(frame.select("[" + pl.col("kind") + "]").to_series())
            )
        # the number of a value: how many distinct values of its kind the document has up to its
        # first occurrence
        new = pl.struct("doc_no", "kind", "value_id").is_first_distinct()
        frame = frame.with_columns(number=new.cum_sum().over("doc_no", "kind"))
        frame = frame.with_columns(
            number=pl.col("number").first().over("doc_no", "kind", "value_id")
        )
        frame = frame.with_columns(
            label="[" + pl.col("kind") + "-" + pl.col("number").cast(pl.String) + "]"
        )
        labels = frame.select("doc_no", "label", "value_id").unique(maintain_order=True)
        return OccurrenceEdits(
            rows,
            to_large_string(frame["label"]),
            labels.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(table_schemas.LABELS.schema),
        )
