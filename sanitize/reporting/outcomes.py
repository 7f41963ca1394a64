"""Counts the outcomes of all occurrences: kept, replaced by a surrogate, a label or another text,
deleted, dropped; summed over the corpus.

    occurrences + edits + drops -> shard_outcomes (one file per shard) -> outcomes
    (sql/outcomes.sql, once for each range of values)

The counts of a shard depend on its own tables only. Occurrences and edits are both sorted by
position, so the edits of an occurrence are found by binary search, not by a join. The corpus needs
from each shard how often each value occurs in the output; a surrogate is identified by the hash of
its text. Nearly every surrogate is distinct, so the values are counted in ranges, each read
separately: memory is that of the tables of one shard, and of `_ROWS_PER_RANGE` rows, for any size
of the corpus.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.array_types import I64, Mask
from sanitize.core.engine import Engine
from sanitize.core.intervals import (
    enumerate_ranges,
    find_overlapping_rows,
    flatten_spans,
    pack_pairs,
)
from sanitize.core.part_protocols import list_part_names, load_part_class
from sanitize.storage import queries
from sanitize.storage.files import attempt_file
from sanitize.storage.parquet_files import TABLE_CODEC, TABLE_CODEC_LEVEL, read_table

# rows without a section: how often each value occurs in the output (`result_id`: value_id of an
# original, hash of a surrogate's text, 0 for what is no value any more); rows with a section: the
# same occurrences by their location in the input
_DICTIONARY = pa.dictionary(pa.int32(), pa.string())
OUTCOME_SCHEMA = pa.schema(
    [
        pa.field("kind", _DICTIONARY),
        pa.field("outcome", _DICTIONARY),
        pa.field("section", _DICTIONARY),
        pa.field("result_id", pa.int64()),
        pa.field("occurrences", pa.int64()),
    ]
)
# other_text: what an editor writes that invents no values: a mask, a year, a range
_OUTCOMES = ("original", "surrogate", "label", "other_text", "removed", "other_edit", "dropped")
_BYTE_SPAN_COLUMNS = ["doc_no", "cell", "start_byte", "end_byte"]
_ROWS_PER_RANGE = 2_000_000  # rows that are counted together: 100 bytes each in DuckDB
_ROWS_AT_ONCE = 1 << 18  # occurrences of a shard that are counted together: 200 bytes each
_ROW_GROUP_SIZE = 65_536  # rows per row group; a range reads whole row groups


@dataclass(frozen=True, kw_only=True)
class OutcomeTask:
    """One shard: its tables of occurrences, edits and drops, and the file to write its outcomes
    to."""

    occurrences: tuple[Path, ...]
    edits: Path | None
    drops: tuple[Path, ...]
    outcomes_path: Path
    temp_path: Path | None = None

    def for_attempt(self, folder: Path) -> OutcomeTask:
        """The same task with a temporary file in `folder`, so that several attempts can run at
        once."""
        return replace(self, temp_path=folder / self.outcomes_path.name)


def count_outcomes(engine: Engine, tasks: Sequence[OutcomeTask], out: Path) -> pa.Table:
    """Count the outcomes of all shards; returns the rows of `sql/outcomes.sql`. `out` is a
    temporary file for the result of a range."""
    for _ in engine.map_shards(write_shard_outcomes, tasks):
        pass
    files = [task.outcomes_path for task in tasks]
    parts = -(-sum(pq.read_metadata(file).num_rows for file in files) // _ROWS_PER_RANGE) or 1
    # ids and hashes are uniform over 64 bits
    edges = [-(1 << 63) + part * (1 << 64) // parts for part in range(parts + 1)]
    range_counts = []
    for low, high in itertools.pairwise(edges):
        engine.sql(
            queries.get_query("outcomes").sql,
            {"shard_outcomes": files},
            out,
            min_result_id=low,
            max_result_id=high - 1,
        )
        range_counts.append(pl.DataFrame(read_table(out)))
    key = ["kind", "outcome", "section", "occurrences"]
    total = pl.concat(range_counts).group_by(key).agg(pl.col("distinct_values").sum())
    return total.sort(key, descending=[False, False, False, True]).to_arrow()


def write_shard_outcomes(task: OutcomeTask) -> None:
    """Count the outcomes of one shard, and write them in `OUTCOME_SCHEMA`, sorted by
    `result_id`."""
    columns = [*_BYTE_SPAN_COLUMNS, "value_id", "kind", "section"]
    tables = [read_table(path, columns=columns) for path in task.occurrences]
    occurrences = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    kind, kinds = _dictionary_codes(occurrences, "kind")
    section, sections = _dictionary_codes(occurrences, "section")
    sections = [*sections, ""]  # the last one is for texts that are not mails
    spans = {name: np.asarray(occurrences.column(name), np.int64) for name in _BYTE_SPAN_COLUMNS}
    edits = _EditColumns.read(task.edits, kinds)
    low, high = edits.find_overlapping(spans)
    dropped = _in_dropped_documents(spans.pop("doc_no"), task.drops)
    value_id = np.asarray(occurrences.column("value_id"), np.int64)
    slices = []
    for first in range(0, max(len(kind), 1), _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        row, edit = _pair_by_kind(low[rows], high[rows], kind[rows], edits.kind)
        touched, edited = (low < high)[rows], slice(0, len(edit))  # the edited rows come first
        result_id = value_id[rows][row]  # what the output has there; see OUTCOME_SCHEMA
        outcome = np.where(touched[row], _OUTCOMES.index("other_edit"), _OUTCOMES.index("original"))
        result_id[edited], outcome[edited] = edits.result_id[edit], edits.outcome[edit]
        outcome[dropped[rows][row]] = _OUTCOMES.index("dropped")
        is_value = (outcome == _OUTCOMES.index("original")) | (
            outcome == _OUTCOMES.index("surrogate")
        )
        keys = kind[rows][row] * len(_OUTCOMES) + outcome
        slices.append(
            _sum_outcomes(
                keys, np.where(is_value, result_id, 0), section[rows][row], kinds, sections
            )
        )
    summed = pa.concat_tables(slices).combine_chunks()
    summed = summed.take(np.argsort(np.asarray(summed.column("result_id")), kind="stable"))
    settings: dict[str, Any] = {
        "compression": TABLE_CODEC,
        "compression_level": TABLE_CODEC_LEVEL,
        "write_page_checksum": True,
    }
    settings |= {
        "use_dictionary": ["kind", "outcome", "section"],
        "write_statistics": ["result_id"],
    }
    with (
        attempt_file(task.outcomes_path, task.temp_path) as path,
        pq.ParquetWriter(path, OUTCOME_SCHEMA, **settings) as out,
    ):
        out.write_table(summed, row_group_size=_ROW_GROUP_SIZE)


def _dictionary_codes(table: pa.Table, name: str) -> tuple[I64, list[str]]:
    """A dictionary column as its indices (-1 for null) and its dictionary."""
    if not table.num_rows:
        return np.empty(0, np.int64), []
    column = table.column(name).chunk(0)
    return np.asarray(column.indices.fill_null(-1), np.int64), column.dictionary.to_pylist()


def _sum_outcomes(
    outcome_keys: I64, result_id: I64, section: I64, kinds: list[str], sections: list[str]
) -> pa.Table:
    """Sum rows into `OUTCOME_SCHEMA`: first the occurrences of each (kind, outcome, result_id),
    then of each (kind, outcome, section).

    `outcome_keys` is kind * number of outcomes + outcome; `result_id` and `section` belong to the
    same rows.
    """
    order = np.argsort(outcome_keys, kind="stable")
    edges = np.flatnonzero(np.diff(outcome_keys[order], prepend=-1, append=-1))
    ids = result_id[order]
    for low, high in zip(edges[:-1], edges[1:], strict=True):
        # a loop over pairs of kind and outcome
        ids[low:high].sort()
    is_new = np.diff(ids, prepend=0) != 0
    is_new[edges[:-1]] = True
    first = np.flatnonzero(is_new)  # the first row of each distinct (kind, outcome, result_id)
    section_keys = outcome_keys * len(sections) + np.where(section < 0, len(sections) - 1, section)
    section_counts = np.bincount(section_keys)
    used = np.flatnonzero(section_counts)
    # the rows counted by section come last
    has_section = np.arange(len(first) + len(used)) >= len(first)
    kind, outcome = np.divmod(
        np.concatenate([outcome_keys[order[first]], used // len(sections)]), len(_OUTCOMES)
    )
    section_codes = np.concatenate([np.zeros(len(first), np.int64), used % len(sections)])
    columns = [
        pa.DictionaryArray.from_arrays(pa.array(kind, pa.int32()), pa.array(kinds, pa.string())),
        pa.DictionaryArray.from_arrays(
            pa.array(outcome, pa.int32()), pa.array(_OUTCOMES, pa.string())
        ),
        pa.DictionaryArray.from_arrays(
            pa.array(section_codes, pa.int32(), mask=~has_section), pa.array(sections, pa.string())
        ),
        pa.array(np.concatenate([ids[first], np.zeros(len(used), np.int64)])),
        pa.array(
            np.concatenate([np.diff(np.append(first, len(ids))), section_counts[used]]), pa.int64()
        ),
    ]
    return pa.table(columns, schema=OUTCOME_SCHEMA)


def _in_dropped_documents(doc_no: I64, drops: tuple[Path, ...]) -> Mask:
    """Whether each occurrence is in a dropped document."""
    if not drops or not len(doc_no):
        return np.zeros(len(doc_no), np.bool_)
    number = pc.field("doc_no")
    in_range = (number >= int(doc_no.min())) & (number <= int(doc_no.max()))
    tables = [read_table(path, columns=["doc_no"], filters=in_range) for path in drops]
    return np.isin(
        doc_no, np.concatenate([np.asarray(table.column(0), np.int64) for table in tables])
    )


@dataclass(frozen=True, repr=False)
class _EditColumns:
    """The edits of a shard: their spans; their kinds as numbers, -1 for one that no occurrence has;
    and what they leave in the place of an occurrence of their own kind: the outcome, and the hash
    of the text."""

    spans: dict[str, I64]
    kind: I64
    outcome: I64
    result_id: I64

    @classmethod
    def read(cls, path: Path | None, kinds: list[str]) -> _EditColumns:
        """The edits in a file, of which the texts are read in batches."""
        columns: dict[str, list[I64]] = {
            name: [np.empty(0, np.int64)]
            for name in (*_BYTE_SPAN_COLUMNS, "kind", "outcome", "result_id")
        }
        kind_numbers = {name: number for number, name in enumerate(kinds)}
        names = [*_BYTE_SPAN_COLUMNS, "kind", "replacement", "part"]
        for batch in _read_batches(path, names) if path else ():
            for name in _BYTE_SPAN_COLUMNS:
                columns[name].append(np.asarray(batch.column(name), np.int64))
            kind = pl.Series(batch.column("kind").cast(pa.string()), dtype=pl.String)
            columns["kind"].append(
                kind.replace_strict(kind_numbers, default=-1, return_dtype=pl.Int64).to_numpy()
            )
            text = pl.Series("text", batch.column("replacement"), dtype=pl.String)
            is_label = (
                text.to_frame()
                .select(pl.col("text").str.slice(1).str.starts_with(pl.lit(kind)))
                .to_series()
                .to_numpy()
            )
            outcome = np.where(
                is_label,
                _OUTCOMES.index("label"),
                np.where(
                    _is_surrogate(batch.column("part")),
                    _OUTCOMES.index("surrogate"),
                    _OUTCOMES.index("other_text"),
                ),
            )
            columns["outcome"].append(
                np.where((text == "").to_numpy(), _OUTCOMES.index("removed"), outcome)
            )
            # surrogates are identified by Polars' hash: 64 bits, equal in all processes of one run,
            # and not used after it
            columns["result_id"].append(text.hash().reinterpret(signed=True).to_numpy())
        joined = {name: np.concatenate(parts) for name, parts in columns.items()}
        return cls({name: joined.pop(name) for name in _BYTE_SPAN_COLUMNS}, **joined)

    def find_overlapping(self, spans: dict[str, I64]) -> tuple[I64, I64]:
        """The range [low, high) of the edits that overlap each occurrence."""
        edit_cell, cell = pack_pairs(
            (self.spans["doc_no"], spans["doc_no"]), (self.spans["cell"], spans["cell"])
        )
        edit_axis, axis = flatten_spans(
            (edit_cell, self.spans["start_byte"], self.spans["end_byte"]),
            (cell, spans["start_byte"], spans["end_byte"]),
        )
        return find_overlapping_rows(*axis, *edit_axis)


def _is_surrogate(parts: pa.Array) -> Mask:
    """Whether each edit is by an editor that invents values; what an editor from outside of
    sanitize writes is not known."""
    dictionary = parts.dictionary_encode() if not pa.types.is_dictionary(parts.type) else parts
    gives_surrogates = [
        name in list_part_names("edit") and load_part_class("edit", name, "").gives_surrogates
        for name in dictionary.dictionary.to_pylist()
    ]
    part_no = np.asarray(dictionary.indices.fill_null(-1), np.int64)
    return np.array([*gives_surrogates, False], np.bool_)[part_no]


def _read_batches(path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a table in batches."""
    with pq.ParquetFile(path, pre_buffer=False) as file:
        yield from file.iter_batches(_ROW_GROUP_SIZE, columns=columns, use_threads=False)


def _pair_by_kind(low: I64, high: I64, kind: I64, edit_kind: I64) -> tuple[I64, I64]:
    """Pair occurrences with the edits of their own kind that overlap them, which are among [low,
    high) for each.

    Returns (row, edit). `row` has occurrence numbers: first one for each pair, then the occurrences
    without such an edit. `edit` has the edit of each pair.
    """
    occurrence, edit = enumerate_ranges(low, high)
    same_kind = kind[occurrence] == edit_kind[edit]
    occurrence, edit = occurrence[same_kind], edit[same_kind]
    unpaired = np.ones(len(kind), np.bool_)
    unpaired[occurrence] = False
    return np.concatenate([occurrence, np.flatnonzero(unpaired)]), edit
