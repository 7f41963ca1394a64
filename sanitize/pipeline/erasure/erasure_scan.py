"""Searches the texts for erased persons: mentions of their names, and documents they wrote.

The index has neither: names have no pattern, and the user of a document is not an occurrence. One
pass over the corpus finds both; it runs only where a tombstone lists names or users.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from sanitize.core.keys import Key
from sanitize.core.text_cells import LeafPath
from sanitize.storage import table_schemas
from sanitize.storage.corpus import Documents, flatten_cells
from sanitize.storage.parquet_files import open_table_writer, read_table
from sanitize.storage.tombstones import Tombstones, hash_user_ids
from sanitize.text import name_search
from sanitize.text.erased_addresses import ErasedAddresses

ERASED_DOCS_SCHEMA = pa.schema([pa.field("doc_no", pa.int64())])


@dataclass(frozen=True, kw_only=True)
class ErasureScanTask:
    """One range of documents to search for erased persons."""

    first_doc_no: int
    end_doc_no: int
    documents: Documents
    leaves: tuple[LeafPath, ...]
    erased: Tombstones
    key: Key
    folder: Path

    @property
    def description(self) -> str:
        """The task in words, for an error."""
        return self.documents.describe_range(self.first_doc_no, self.end_doc_no)


@dataclass(frozen=True, kw_only=True)
class ErasureCounts:
    """How many documents of one task the erased users wrote."""

    authored_documents: int


def erasure_scan_task(task: ErasureScanTask) -> ErasureCounts:
    """Write `mentions.parquet` (of the names, as rows of `occurrences`) and `documents.parquet`
    (`doc_no` of the users' documents)."""
    text_columns = [leaf.column for leaf in task.leaves] if task.erased.names else []
    user_columns = (
        ["user_id"] if task.erased.user_hashes and "user_id" in task.documents.schema.names else []
    )
    columns = [*dict.fromkeys([*text_columns, *user_columns])]
    written = 0
    with (
        open_table_writer(
            task.folder / "mentions.parquet", table_schemas.OCCURRENCES.schema
        ) as out,
        open_table_writer(task.folder / "documents.parquet", ERASED_DOCS_SCHEMA) as documents_out,
    ):
        for table in (
            task.documents.read(task.first_doc_no, task.end_doc_no, columns) if columns else ()
        ):
            table = table.combine_chunks()
            doc_no = np.asarray(table.column("doc_no"), np.int64)
            if user_columns:
                ids = table.column("user_id").chunk(0).cast(pa.large_string())
                is_by_erased_user = np.isin(
                    hash_user_ids(ids.fill_null(""), task.key),
                    np.array(task.erased.user_hashes, np.int64),
                ) & np.asarray(ids.is_valid())
                documents_out.write_table(
                    pa.table([doc_no[is_by_erased_user]], schema=ERASED_DOCS_SCHEMA)
                )
                written += int(is_by_erased_user.sum())
            if text_columns:
                found = pl.concat(
                    name_search.build_occurrence_rows(
                        column.flat.texts,
                        doc_no[column.flat.rows],
                        column.cell,
                        task.erased.names,
                        task.key,
                    )
                    for column in flatten_cells(table, task.leaves)
                ).sort("doc_no", "cell", "start")
                if found.height:
                    out.write_table(
                        found.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(
                            table_schemas.OCCURRENCES.schema
                        )
                    )
    return ErasureCounts(authored_documents=written)


def edits_have_erased_address(edits_file: Path, addresses: ErasedAddresses) -> bool:
    """True where a replacement of an earlier run has an erased address; its shard must be
    rewritten."""
    if not edits_file.exists():
        return False
    replacements = pl.Series(read_table(edits_file, columns=["replacement"]).column(0))
    return bool(addresses.are_in(replacements).any())
