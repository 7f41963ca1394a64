"""Checks the rows of one shard: its texts, which can be swept, and all that stands beside them,
which cannot."""

from __future__ import annotations

import secrets
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.array_types import I64, U64, Mask
from sanitize.core.arrow_buffers import TextBuffers, fill_null_texts, to_large_string
from sanitize.core.intervals import pack_pairs
from sanitize.core.keys import IdSet, siphash, siphash_spans
from sanitize.core.span_table import CellSpans
from sanitize.core.text_cells import LeafPath, PathArrays, flatten_leaf, list_text_leaves
from sanitize.kinds.kind import all_kinds
from sanitize.storage import table_schemas
from sanitize.storage.corpus import CellColumn, CellGroup, flatten_cells, group_cells
from sanitize.storage.files import attempt_file
from sanitize.storage.parquet_files import open_table_writer, read_table
from sanitize.text import name_search
from sanitize.text.decodings import ENCODED_FORMS
from sanitize.verification.batch_check import (
    BatchFindings,
    BatchTables,
    check_batch,
    find_code_points,
)
from sanitize.verification.column_texts import list_binary_texts, list_number_texts
from sanitize.verification.findings import Findings
from sanitize.verification.parquet_pages import count_plain_bytes
from sanitize.verification.search_terms import ALL_FORMS, SearchTerms, list_searched_forms
from sanitize.verification.shard_reading import (
    VerifyTask,
    describe_column,
    read_shard_batches,
    read_shard_schema,
)
from sanitize.verification.value_matches import NONE, find_value_matches


@dataclass(frozen=True, repr=False)
class ShardFindings:
    """What the check of a shard found, never a value.

    `sweepable`: matches in texts, which a sweep can redact (`swept` spans of them were written to
    the task's `sweep_path`), and `leaks`: matches elsewhere, and those that are all of a
    replacement; by location, kind and form. `inconclusive`: by kind and form. `kept_found` of
    `kept_expected` originals are where they were kept. `plain_bytes`: the bytes of the texts of
    each column (`count_plain_bytes`).
    """

    rows: int
    text_bytes: int
    kept_found: int
    kept_expected: int
    swept: int
    sweepable: Mapping[tuple[str, str, str], int]
    leaks: Mapping[tuple[str, str, str], int]
    inconclusive: Mapping[tuple[str, str], int]
    plain_bytes: Mapping[str, int]


def verify_task(task: VerifyTask) -> ShardFindings:
    """Check the rows of one shard in the forms of its check mode."""
    check = _ShardCheck.open(task)
    sweeps = []
    for table, doc_no in read_shard_batches(task):
        sweeps.append(check.check_rows(table, doc_no))
        check.check_other_values(table)
    check.check_column_names()
    if task.check_mode == "full":
        check.count_collisions()
    to_sweep = CellSpans.concat([CellSpans.empty(), *sweeps])
    _write_sweep(task, to_sweep)
    counts = check.counts
    return ShardFindings(
        rows=counts["rows"],
        text_bytes=counts["text_bytes"],
        kept_found=counts["kept_found"],
        kept_expected=check.kept.height,
        swept=len(to_sweep),
        sweepable=dict(check.sweepable),
        leaks=dict(check.findings.leaks),
        inconclusive=dict(check.findings.inconclusive),
        plain_bytes=dict(check.plain_bytes),
    )


def select_atomic_kinds(left_kinds: Sequence[str]) -> tuple[str, ...]:
    """The atomic kinds among those that a plan leaves: their values are one token, whatever they
    contain."""
    return tuple(name for name in left_kinds if all_kinds()[name].atomic)


@dataclass(frozen=True, repr=False)
class _ShardCheck:
    """The tables of a shard, and what was found in it so far."""

    task: VerifyTask
    passes: tuple[SearchTerms, ...]
    forms: tuple[str, ...]
    kept: pl.DataFrame
    edits: pl.DataFrame
    occurrences: pl.DataFrame
    spellings: _Spellings
    locations: Mapping[str, str]  # of columns and leaves
    findings: Findings = field(default_factory=Findings)
    sweepable: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    plain_bytes: Counter[str] = field(default_factory=Counter)

    @classmethod
    def open(cls, task: VerifyTask) -> _ShardCheck:
        """Read the tables of the task."""
        passes, forms = SearchTerms.open(task.terms), tuple(list_searched_forms(task.check_mode))
        kept, edits, occurrences = (
            pl.DataFrame(read_table(path, columns=columns))
            for path, columns in (
                (task.kept_originals, None),
                (
                    task.edits,
                    ["doc_no", "cell", "start_byte", "end_byte", "replacement", "part", "kind"],
                ),
                (
                    task.occurrences,
                    ["doc_no", "cell", "start_byte", "end_byte", "kind", "value_id"],
                ),
            )
        )
        spellings = _Spellings.read(task.values) if kept.height else _Spellings.none()
        return cls(
            task,
            passes,
            forms,
            kept,
            edits,
            occurrences,
            spellings,
            describe_columns(task, passes, forms),
        )

    def check_rows(self, table: pa.Table, doc_no: I64) -> CellSpans:
        """Check the texts of a batch; returns what a sweep can redact."""
        names = frozenset(table.column_names)
        leaves = [leaf for leaf in self.task.leaves if leaf.column in names]
        leaf_numbers = {leaf: number for number, leaf in enumerate(self.task.leaves)}
        columns = flatten_cells(table, leaves)
        for column in columns:
            if not column.leaf.steps:
                self.plain_bytes[column.leaf.column] += count_plain_bytes(column.flat.texts)
        task_leaf_no = np.array([leaf_numbers[leaf] for leaf in leaves], np.int64)
        groups = [
            replace(group, texts=fill_null_texts(group.texts), leaf_no=task_leaf_no[group.leaf_no])
            for group in group_cells(columns)
        ]
        kept = _select_documents(self.kept, doc_no)
        tables = BatchTables(
            kept=kept,
            edits=_select_documents(self.edits, doc_no),
            occurrences=_select_documents(self.occurrences, doc_no),
            atomic_kinds=self.task.atomic_kinds,
            find_drawn_before=self._find_drawn_before,
        )
        found = check_batch(self.passes, groups, doc_no, tables, self.forms)
        self._add(found)
        self.counts["rows"] += table.num_rows
        self.counts["text_bytes"] += sum(
            len(TextBuffers.from_array(group.texts).data) for group in groups
        )
        self.counts["kept_found"] += self.spellings.count(kept, groups, doc_no)
        return found.to_sweep

    def _add(self, found: BatchFindings) -> None:
        """Count what was found in the texts of a batch."""
        kinds = list(all_kinds())
        for (leaf_no, kind, form, is_across_edit), count in found.sweepable.items():
            mark = " (across an edit)" if is_across_edit else ""
            self.sweepable[f"{self._locate(leaf_no)}{mark}", kinds[kind], ALL_FORMS[form]] += count
        leaks = Counter(
            zip(
                found.leaks.leaf_no.tolist(),
                found.leaks.kind.tolist(),
                found.leaks.form.tolist(),
                strict=True,
            )
        )
        for (leaf_no, kind, form), count in leaks.items():
            self.findings.leaks[
                f"{self._locate(leaf_no)} (a replacement)", kinds[kind], ALL_FORMS[form]
            ] += count
        for (kind, form), count in found.inconclusive.items():
            self.findings.inconclusive[kinds[kind], ALL_FORMS[form]] += count

    def _locate(self, leaf_no: int) -> str:
        """How a leaf of the task is reported."""
        return self.locations[str(self.task.leaves[leaf_no].stored)]

    def check_other_values(self, table: pa.Table) -> None:
        """Check what is beside the texts: texts of kept columns, bytes, and numbers by their
        digits; and names of erased persons."""
        names = frozenset(table.column_names)
        stored = {leaf.stored for leaf in self.task.leaves if leaf.column in names}
        # parts of nested columns, each taken once
        arrays: defaultdict[str, PathArrays] = defaultdict(dict)
        for leaf in list_text_leaves(table.schema):
            if leaf in stored and not self.task.erased_names:
                continue
            texts = fill_null_texts(
                flatten_leaf(table.column(leaf.column).chunk(0), leaf, arrays[leaf.column]).texts
            )
            if leaf not in stored:
                self.counts["text_bytes"] += len(TextBuffers.from_array(texts).data)
                self._search(self.locations[str(leaf)], texts, self.forms)
            self._count_mentions(self.locations[str(leaf)], texts)
        for name in table.column_names:
            values = table.column(name).chunk(0)
            for texts, forms in list_binary_texts(values):
                self._search(
                    self.locations[name],
                    texts,
                    [form for form in forms or self.forms if form in self.forms],
                )
            if self.task.check_mode == "full":
                for texts in list_number_texts(values):
                    self._search(self.locations[name], texts, ("digits",))

    def check_column_names(self) -> None:
        """Check the names of columns and fields."""
        self._search("column names", _list_names(read_shard_schema(self.task)), self.forms)

    def _search(self, location: str, texts: pa.LargeStringArray, forms: Sequence[str]) -> None:
        """Add what is found in texts that cannot be swept."""
        for terms in self.passes:
            for matches in find_value_matches(terms, texts, forms):
                self.findings.add(location, terms, matches, texts, is_cell=True)

    def _count_mentions(self, location: str, texts: pa.LargeStringArray) -> None:
        """Count names of erased persons, as written and in every decoding; each one is a leak."""
        for form, times in count_mentions(texts, self.task.erased_names, self.forms).items():
            self.findings.leaks[location, name_search.PERSON, form] += times

    def count_collisions(self) -> None:
        """Count replacements that equal a value of the corpus as leaks."""
        for name in self.edits["kind"].cast(pl.String).unique().sort():
            if name not in all_kinds() or all_kinds()[name].ambiguous_text:
                # a mention, which becomes a label, or a kind whose surrogates may equal values
                continue
            of_kind = self.edits.filter(pl.col("kind") == name)
            replacements = of_kind["replacement"].unique()
            for terms in self.passes:
                found = terms.find_collisions(name, replacements).join(of_kind, on="replacement")
                drawn_before = self._find_drawn_before(found["value_id"].to_numpy(), found)
                if times := found.filter(~pl.Series(drawn_before))["term"].n_unique():
                    self.findings.leaks[
                        "replacements that are values of the corpus", name, "exact or identity"
                    ] += times

    def _find_drawn_before(self, value_ids: I64, edits: pl.DataFrame) -> Mask:
        return self.task.draws.find_drawn_before(value_ids, edits, self.occurrences)


def count_mentions(
    texts: pa.LargeStringArray, names: Sequence[str], forms: Sequence[str]
) -> Counter[str]:
    """The occurrences of names of erased persons in texts, by form: as written, and in the
    decodings among `forms`."""
    counts = Counter[str]()
    if names:
        counts["mention"] += name_search.count_names(texts, tuple(names)) if "exact" in forms else 0
        encoded = [form for form in ENCODED_FORMS if form in forms]
        for form, times in (
            name_search.count_encoded_names(texts, tuple(names), encoded) if encoded else ()
        ):
            counts[form] += times
    return +counts


def describe_columns(
    task: VerifyTask, passes: Sequence[SearchTerms], forms: Sequence[str]
) -> dict[str, str]:
    """How each column and leaf of the shard is reported: never by a name that holds a value."""
    names = _list_names(read_shard_schema(task), [leaf.stored for leaf in task.leaves])
    matches = [one for terms in passes for one in find_value_matches(terms, names, forms)]
    with_value = sorted({int(no) for one in matches for no in one.text_no[one.certainty != NONE]})
    hidden = {
        str(names[no]): f"column whose name holds a value ({number})"
        for number, no in enumerate(with_value, 1)
    }
    locations = {}
    for name in names.to_pylist():
        number = next(
            (text for one, text in hidden.items() if name == one or name.startswith(f"{one}.")),
            None,
        )
        locations[name] = number or describe_column(name, task.renamed_columns)
    return locations


def _list_names(schema: pa.Schema, leaves: Sequence[LeafPath] = ()) -> pa.LargeStringArray:
    """The names of columns, of their leaves and of those in `leaves`, in order."""
    return pa.array(
        sorted({str(leaf) for leaf in (*list_text_leaves(schema), *leaves)} | set(schema.names)),
        pa.large_string(),
    )


def _select_documents(rows: pl.DataFrame, doc_no: I64) -> pl.DataFrame:
    """The rows of a table ordered by document that are of the documents of a batch."""
    low, high = np.searchsorted(rows["doc_no"].to_numpy(), [doc_no[0], doc_no[-1] + 1])
    return rows[int(low) : int(high)]


@dataclass(frozen=True, repr=False)
class _Spellings:
    """The spellings of values in a shard, as hashes of value and text."""

    hashes: IdSet
    key: bytes

    @classmethod
    def none(cls) -> _Spellings:
        """No spellings."""
        return cls(IdSet.of(np.empty(0, np.uint64)), bytes(16))

    @classmethod
    def read(cls, path: Path) -> _Spellings:
        """The spellings in a file of the vault."""
        values = pl.DataFrame(read_table(path, columns=["value_id", "value"]))
        key = secrets.token_bytes(16)
        hashes = siphash(to_large_string(values["value"]), key)
        return cls(IdSet.of(_combine(hashes, values["value_id"].to_numpy())), key)

    def count(self, kept: pl.DataFrame, groups: Sequence[CellGroup], doc_no: I64) -> int:
        """How many kept originals are where they were kept, spelled as they were found."""
        count = 0
        for group in groups if kept.height else ():
            text_cell, kept_cell = pack_pairs(
                (doc_no[group.rows], kept["doc_no"].to_numpy()),
                (group.cell, kept["cell"].to_numpy()),
            )
            order = np.argsort(text_cell)
            place = np.minimum(np.searchsorted(text_cell[order], kept_cell), max(len(order) - 1, 0))
            rows = (
                np.flatnonzero(text_cell[order][place] == kept_cell)
                if len(order)
                else np.empty(0, np.int64)
            )
            buffers = TextBuffers.from_array(group.texts)
            text_no = order[place[rows]]
            base, size = buffers.offsets[text_no], buffers.lengths[text_no]
            start, end = (kept[name].to_numpy()[rows] for name in ("start_byte", "end_byte"))
            rows, base, start, end = (column[end <= size] for column in (rows, base, start, end))
            hashes = siphash_spans(buffers.data, base + start, base + end, self.key)
            count += int(
                self.hashes.contains(_combine(hashes, kept["value_id"].to_numpy()[rows])).sum()
            )
        return count


def _combine(hashes: U64, value_ids: I64) -> U64:
    """One hash of a text and a value."""
    combined: U64 = hashes ^ (value_ids.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    return combined


def _write_sweep(task: VerifyTask, to_sweep: CellSpans) -> None:
    """Write what is to be swept, as occurrences of the input text."""
    start, end = find_code_points(to_sweep, _read_input_cells(task, np.unique(to_sweep.doc_no)))
    count = len(to_sweep)
    kinds, finders = (
        pa.array(list(all_kinds()), pa.string()),
        pa.array([table_schemas.SWEEP_FINDER], pa.string()),
    )
    columns = {
        **{
            name: getattr(to_sweep, name)
            for name in ("doc_no", "cell", "start_byte", "end_byte", "value_id")
        },
        "start": start,
        "end": end,
        "kind": pa.DictionaryArray.from_arrays(pa.array(to_sweep.kind), kinds),
        "finder": pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), finders),
        "score": pa.array(np.ones(count, np.float32)),
        "section": pa.nulls(count, pa.string()).dictionary_encode(),
        "entity_id": pa.nulls(count, pa.int64()),
    }
    schema = table_schemas.OCCURRENCES.schema
    temp_path = task.temp_folder / "sweep.parquet" if task.temp_folder else None
    with attempt_file(task.sweep_path, temp_path) as path, open_table_writer(path, schema) as out:
        out.write_table(pa.table([columns[name] for name in schema.names], schema=schema))


def _read_input_cells(task: VerifyTask, doc_nos: I64) -> Iterator[tuple[I64, list[CellColumn]]]:
    """Yields the text cells of these documents of the input, and the document of each row; nothing
    without documents."""
    if not len(doc_nos):
        return
    columns = [*dict.fromkeys(leaf.column for leaf in task.leaves)]
    for table in task.documents.read(int(doc_nos[0]), int(doc_nos[-1]) + 1, columns):
        table = table.filter(
            pc.is_in(table.column("doc_no"), value_set=pa.array(doc_nos))
        ).combine_chunks()
        if table.num_rows:
            yield (
                np.asarray(table.column("doc_no"), np.int64),
                flatten_cells(table, task.leaves),
            )
