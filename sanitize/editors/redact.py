"""A label instead of every occurrence: `[EMAIL_ADDRESS]`, or `[EMAIL_ADDRESS-1]` numbered per document.

Numbered labels give each distinct value of a document its own number, in order of appearance; which value a label stands for goes to
the vault (table `labels`), where reconstruction attacks look it up. Source of the numbered form: R.R. (Recollect and Rank), section 4.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from sanitize.core.arrow_buffers import arrow
from sanitize.core.parts import Batch, Editor
from sanitize.storage import table_schemas


class Redact(Editor):
    """Settings: `label` is `fixed` or `numbered`."""

    label: Literal["fixed", "numbered"] = "fixed"
    keep: Literal[0] = 0

    def run(self, batch: Batch) -> tuple[npt.NDArray[np.intp], pa.Array, pa.Table | None]:
        """A label for every occurrence; with numbered labels also what they stand for."""
        frame = batch.occurrences.select("doc_no", pl.col("kind").cast(pl.String), "value_id")
        rows = np.arange(frame.height)
        if self.label == "fixed":
            return rows, arrow(frame.select("[" + pl.col("kind") + "]").to_series()), None
        # the number of a value: how many values of its kind appear in the document up to its first place
        new = pl.struct("doc_no", "kind", "value_id").is_first_distinct()
        frame = frame.with_columns(number=new.cum_sum().over("doc_no", "kind"))
        frame = frame.with_columns(number=pl.col("number").first().over("doc_no", "kind", "value_id"))
        frame = frame.with_columns(label="[" + pl.col("kind") + "-" + pl.col("number").cast(pl.String) + "]")
        labels = frame.select("doc_no", "label", "value_id").unique(maintain_order=True)
        return rows, arrow(frame["label"]), labels.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(table_schemas.LABELS.schema)
