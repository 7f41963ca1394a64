"""Detection of one task (`sanitize index`): writes occurrences, their counts, the raw values (for
the vault) and quarantined records.

There are two rounds. The first reads a range of `doc_no` once and runs `patterns` and every finder
that needs only the batch at hand. Where a finder of the plan needs results of the whole corpus,
these are collected (sanitize/stages/second_round_input.py), and the second round reads the range
again with them.

Each task is a pure function. A round costs one pass over the texts. Memory: one batch and the
task's distinct values; in the second round also the collected results.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.array_types import I64
from sanitize.core.keys import Key, siphash
from sanitize.core.text_cells import LeafPath, list_text_leaves
from sanitize.kinds.field_names import is_ambiguous_people_name
from sanitize.kinds.kind import all_kinds
from sanitize.plans.detection_spec import DetectionSpec
from sanitize.readers.survey import find_faults
from sanitize.stages.finder_pass import FinderPass
from sanitize.stages.occurrence_table_writer import (
    OccurrenceCounts,
    OccurrenceTableWriter,
    one_spelling_each,
    read_values,
)
from sanitize.storage.corpus import Documents
from sanitize.storage.parquet_files import read_table
from sanitize.storage.table_schemas import QuarantineRow

# a number, a hexadecimal code or a UUID, with or without a prefix
_CODE_PATTERN = "^<?([A-Za-z0-9_-]+[/:])*[{]?[0-9A-Fa-f-]+[}]?>?$"
VERSION = (
    6  # part of the index's fingerprint: raise it when what is written for the same input changes
)


@dataclass(frozen=True, kw_only=True)
class FindTask:
    """One range of documents to index: in the first round, or in the second where `first_round`
    names the results of the first."""

    first_doc_no: int
    end_doc_no: int
    documents: Documents
    leaves: tuple[LeafPath, ...]
    key: Key
    max_doc_bytes: int
    max_doc_matches: int  # what the finders may match in a document
    output_columns: tuple[str, ...]  # columns of the output: their strings must be readable
    # documents of the range that were quarantined when they were staged or in the first round
    quarantined_docs: tuple[int, ...]
    folder: Path  # attempts are written here: <table>.parquet
    detection_spec: DetectionSpec = DetectionSpec()
    first_round: FirstRoundFiles | None = None
    # of `count_columns_task`: columns whose cells may all be names of people
    person_columns: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        """The task in words, for an error."""
        return self.documents.describe_range(self.first_doc_no, self.end_doc_no)

    def quarantine_row(self, doc_no: int, reason: str) -> QuarantineRow:
        """A quarantined document, located by its source file and its row in it."""
        source = next(
            s for s in self.documents.files if s.first_doc_no <= doc_no < s.first_doc_no + s.rows
        )
        return QuarantineRow(doc_no, source.path, f"row {doc_no - source.first_doc_no}", reason)


@dataclass(frozen=True, kw_only=True)
class FirstRoundFiles:
    """Results of the first round: the tables of one range, and what was collected from the whole
    corpus."""

    occurrences: Path
    values: Path
    skipped: Path
    entities: Path  # value_id, entity_id: values of one person share an entity_id
    second_round_input: Path  # search terms that the finders of the second round load


@dataclass(frozen=True, kw_only=True)
class FindResult(OccurrenceCounts):
    """Counts of one task's documents that were searched, and of those that could not be."""

    text_bytes: int
    quarantined: int
    matched_by_finder: Mapping[str, int] = field(default_factory=dict)  # spans read from files


def find_task(task: FindTask) -> FindResult:
    """First round of one task."""
    text_bytes = 0
    spec, id_key = task.detection_spec, task.key.subkey("doc_id")
    string_columns = sorted(
        name
        for name in task.output_columns
        if list_text_leaves(pa.schema([task.documents.schema.field(name)]))
    )
    columns = [*dict.fromkeys([*(leaf.column for leaf in task.leaves), *string_columns, "doc_id"])]
    finder_pass = FinderPass(
        spec,
        task.leaves,
        task.key,
        max_doc_matches=task.max_doc_matches,
        unnamed_columns=[
            leaf.column
            for leaf in task.leaves
            # counts decided that such a column holds no people, else it would be codes
            if not leaf.steps and is_ambiguous_people_name(leaf.column)
        ],
    )
    with OccurrenceTableWriter(task.folder, finder_pass.finder_names) as tables, finder_pass:
        for table in task.documents.read(task.first_doc_no, task.end_doc_no, columns):
            table, unreadable = split_readable_rows(table.combine_chunks(), task)
            tables.quarantine_rows += [
                task.quarantine_row(doc_no, reason) for doc_no, reason in unreadable
            ]
            if table.num_rows:
                table, group_occurrences, unread = finder_pass.find_in_batch(table)
                tables.quarantine_rows += [
                    task.quarantine_row(doc_no, reason) for doc_no, reason in unread
                ]
            if not table.num_rows:
                continue
            text_bytes += sum(
                int(pc.sum(pc.binary_length(group.texts)).as_py() or 0)
                for group, _ in group_occurrences
            )
            tables.document_ids.append(siphash(table.column("doc_id").chunk(0), id_key))
            tables.add_batch(np.asarray(table.column("doc_no"), np.int64), group_occurrences)
    has_second_round = any(finder.second_round for finder in spec.finders)
    tables.write_first_round(finder_pass.distinct_links() if has_second_round else None)
    return FindResult(
        text_bytes=text_bytes,
        quarantined=len(tables.quarantine_rows),
        matched_by_finder=finder_pass.matched_by_finder,
        **vars(tables.write()),
    )


def second_round_task(task: FindTask) -> OccurrenceCounts:
    """Second round of one task: the first round's occurrences, merged with what the finders that
    need the whole corpus find."""
    first_round = task.first_round
    assert first_round is not None
    first_round_rows = pl.DataFrame(read_table(first_round.occurrences)).with_columns(
        pl.col("kind").cast(pl.String),
        pl.col("finder").cast(pl.String),
        pl.col("section").cast(pl.String),
    )
    doc_nos = first_round_rows["doc_no"].to_numpy()
    entities = pl.read_parquet(first_round.entities, glob=False).sort("value_id")
    known_values = read_values(first_round.values)
    columns = [*dict.fromkeys(leaf.column for leaf in task.leaves)]
    finder_pass = FinderPass(
        task.detection_spec,
        task.leaves,
        task.key,
        first_round.second_round_input,
        known_values=one_spelling_each(known_values),
    )
    with (
        OccurrenceTableWriter(task.folder, finder_pass.finder_names, entities) as tables,
        finder_pass,
    ):
        tables.add_first_round(known_values, first_round.skipped)
        for table in task.documents.read(task.first_doc_no, task.end_doc_no, columns):
            table = table.combine_chunks()
            doc_no = np.asarray(table.column("doc_no"), np.int64)
            if task.quarantined_docs:
                table = table.filter(
                    pa.array(~np.isin(doc_no, np.array(task.quarantined_docs, np.int64)))
                ).combine_chunks()
                doc_no = np.asarray(table.column("doc_no"), np.int64)
            if table.num_rows:
                low, high = np.searchsorted(doc_nos, [doc_no[0], doc_no[-1] + 1])
                tables.add_batch(
                    doc_no, finder_pass.find_again(table, first_round_rows[int(low) : int(high)])
                )
    return tables.write()


@dataclass(frozen=True, kw_only=True)
class ColumnFindings:
    """What the finders find in each of `FindTask.leaves` of one task."""

    values: Sequence[Mapping[str, int]]  # occurrences by kind
    values_in_codes: Sequence[Mapping[str, int]]  # those in strings that are codes
    codes: Sequence[int]  # strings that are codes, by `_CODE_PATTERN`


def find_in_columns_task(task: FindTask) -> ColumnFindings:
    """Search the columns that the output keeps, whose strings are `task.leaves`, with the finders
    that need only the texts. One pass over these columns; writes no file."""
    kind_names = list(all_kinds())
    # a row for each leaf, a column for each kind
    values, in_codes = np.zeros((2, len(task.leaves), len(kind_names)), np.int64)
    codes = np.zeros(len(task.leaves), np.int64)
    columns = [*dict.fromkeys([*(leaf.column for leaf in task.leaves), "doc_id"])]
    with FinderPass(select_text_finders(task.detection_spec), task.leaves, task.key) as finder_pass:
        for table in task.documents.read(task.first_doc_no, task.end_doc_no, columns):
            table, _ = split_readable_rows(table.combine_chunks(), task)
            for group, found in finder_pass.find_in_batch(table).by_group if table.num_rows else []:
                is_code = np.asarray(
                    pc.fill_null(pc.match_substring_regex(group.texts, _CODE_PATTERN), False)
                )
                np.add.at(codes, group.leaf_no[is_code], 1)
                leaf_no, is_in_code = group.leaf_no[found.text_no], is_code[found.text_no]
                np.add.at(values, (leaf_no, found.kind), 1)
                np.add.at(in_codes, (leaf_no[is_in_code], found.kind[is_in_code]), 1)
    by_kind, by_kind_in_codes = (
        [
            {kind_names[kind]: int(row[kind]) for kind in np.flatnonzero(row).tolist()}
            for row in counts
        ]
        for counts in (values, in_codes)
    )
    return ColumnFindings(
        values=by_kind,
        values_in_codes=by_kind_in_codes,
        codes=codes.tolist(),
    )


def find_in_texts(task: FindTask, texts: pa.LargeStringArray) -> dict[str, I64]:
    """The occurrences in a few texts that are no documents: kind -> the index of the text of
    each."""
    count = pa.array(np.arange(len(texts)), pa.int64())
    table = pa.table({"doc_no": count, "doc_id": count.cast(pa.large_string()), "text": texts})
    with FinderPass(
        select_text_finders(task.detection_spec), [LeafPath("text")], task.key
    ) as finder_pass:
        column_occurrences = finder_pass.find_in_batch(table).by_group
    kind_names, found_by_kind = list(all_kinds()), dict[str, I64]()
    for _, found in column_occurrences:
        found_by_kind |= {
            kind_names[number]: found.text_no[found.kind == number]
            for number in np.unique(found.kind).tolist()
        }
    return found_by_kind


def select_text_finders(spec: DetectionSpec) -> DetectionSpec:
    """The spec without the finders that need the whole corpus or read spans of its documents from a
    file."""
    return replace(
        spec,
        finders=tuple(
            finder for finder in spec.finders if not finder.second_round and finder.use != "spans"
        ),
    )


def split_readable_rows(table: pa.Table, task: FindTask) -> tuple[pa.Table, list[tuple[int, str]]]:
    """The readable rows of a batch, and (doc_no, reason) of each other one. Documents that were
    quarantined when they were staged are in neither."""
    is_readable = np.ones(table.num_rows, np.bool_)
    doc_nos = np.asarray(table.column("doc_no"), np.int64)
    if task.quarantined_docs:
        is_readable &= ~np.isin(doc_nos, np.array(task.quarantined_docs, np.int64))
    unreadable = []
    for row, reason in sorted(
        find_faults(table.drop_columns(["doc_no"]).to_batches()[0], task.max_doc_bytes).items()
    ):
        if is_readable[row]:
            unreadable.append((int(doc_nos[row]), reason))
            is_readable[row] = False
    return table if is_readable.all() else table.filter(
        pa.array(is_readable)
    ).combine_chunks(), unreadable


@functools.cache
def hash_kind_sources() -> str:
    """Hash of all source files of sanitize/kinds, part of the index's fingerprint: which texts a
    kind accepts depends on functions and shared modules as much as on its pattern."""
    hash_ = hashlib.blake2b(digest_size=8)
    folder = resources.files("sanitize") / "kinds"
    for directory in (folder, folder / "countries"):
        for file in sorted(directory.iterdir(), key=lambda path: path.name):
            if file.name.endswith(".py"):
                hash_.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return hash_.hexdigest()
