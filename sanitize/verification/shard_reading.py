"""Reads the rows of a published shard for the check: its task, with the tables of what was kept and
replaced in it, and the names of its columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.array_types import I64
from sanitize.core.text_cells import LeafPath, to_canonical_type
from sanitize.errors import OutputBroken
from sanitize.storage import formats
from sanitize.storage.corpus import Documents
from sanitize.storage.parquet_files import read_table
from sanitize.verification.attribution import DrawTimes


@dataclass(frozen=True, kw_only=True)
class VerifyTask:
    """One shard to check, with the tables of what was kept and replaced in it."""

    shard_no: int
    first_doc_no: int
    end_doc_no: int
    shard_path: Path
    terms: tuple[Path, ...]  # folders of `write_terms`
    check_mode: str  # full or fast
    values: Path  # the values of the shard, with their spellings
    kept_originals: Path
    edits: Path
    occurrences: Path
    # kinds that the plan leaves; a match inside such a value is no leak
    atomic_kinds: tuple[str, ...]
    row_doc_nos: Path  # the doc_no of every row of the shard
    documents: Documents
    leaves: tuple[LeafPath, ...]
    sweep_path: Path  # matches to sweep are written here, as occurrences of the input text
    erased_names: tuple[str, ...] = ()  # of erased persons: no mention may occur
    # of the shard, in order; formats other than Parquet do not store them
    columns: tuple[str, ...] = ()
    renamed_columns: Mapping[str, str] = field(default_factory=dict)  # see `find_renamed_columns`
    draws: DrawTimes = field(default_factory=DrawTimes)
    temp_folder: Path | None = None  # where an attempt writes its files before they are renamed

    def for_attempt(self, folder: Path) -> VerifyTask:
        """The task for one of several concurrent attempts: with files in `folder`."""
        return replace(self, temp_folder=folder)


def find_renamed_columns(roles: Mapping[str, Any]) -> dict[str, str]:
    """The columns of the output that have another name in the input, with that name: those of the
    roles `id` and `user`, where the user named a column for them."""
    given = {"doc_id": roles.get("id"), "user_id": roles.get("user")}
    return {name: source for name, source in given.items() if source and source != name}


def describe_column(name: str, renamed_columns: Mapping[str, str]) -> str:
    """A column of the output in words, with its name in the input where that is another one."""
    return (
        f"column {name} ({renamed_columns[name]} in the input)"
        if name in renamed_columns
        else f"column {name}"
    )


def read_shard_batches(
    task: VerifyTask, columns: Sequence[str] | None = None
) -> Iterator[tuple[pa.Table, I64]]:
    """Yields the rows of a shard as tables of canonical types, with the `doc_no` of each row; of a
    Parquet file only the given `columns`. Raises OutputBroken on another row count."""
    if (format_module := formats.find_packed_format(task.shard_path)) is not None:
        yield from _read_converted_batches(task, format_module)
        return
    with pq.ParquetFile(task.shard_path, page_checksum_verification=True, pre_buffer=False) as file:
        doc_nos = np.asarray(read_table(task.row_doc_nos).column("doc_no"), np.int64)
        if len(doc_nos) != file.metadata.num_rows:
            raise OutputBroken(
                f"{task.shard_path}: {file.metadata.num_rows} rows; the run wrote {len(doc_nos)};"
                " run again with --replace"
            )
        next_row = 0
        for batch in file.iter_batches(
            5_000 if columns is None else 50_000, columns=columns, use_threads=False
        ):
            if batch.num_rows:
                arrays = {
                    name: to_canonical_type(batch.column(name)) for name in batch.schema.names
                }
                yield pa.table(arrays), doc_nos[next_row : next_row + batch.num_rows]
                next_row += batch.num_rows


def read_shard_schema(task: VerifyTask) -> pa.Schema:
    """The schema of a shard."""
    if formats.find_packed_format(task.shard_path) is None:
        return pq.read_schema(task.shard_path)
    return pa.schema(
        [
            (name, formats.packed_type(task.documents.schema.field(name).type))
            for name in task.columns
        ]
    )


def _read_converted_batches(
    task: VerifyTask, format_module: ModuleType
) -> Iterator[tuple[pa.Table, I64]]:
    """`read_shard_batches` for a shard in a format other than Parquet."""
    doc_nos = np.asarray(read_table(task.row_doc_nos).column("doc_no"), np.int64)
    next_row = 0
    for batch in format_module.read_batches(task.shard_path, read_shard_schema(task)):
        for low in range(0, batch.num_rows, 5_000):
            part = batch.slice(low, 5_000)
            yield (
                pa.Table.from_batches([part]).combine_chunks(),
                doc_nos[next_row : next_row + part.num_rows],
            )
            next_row += part.num_rows
    if next_row != len(doc_nos):
        raise OutputBroken(
            f"{task.shard_path}: {next_row} rows; the run wrote {len(doc_nos)}; run again with"
            " --replace"
        )
