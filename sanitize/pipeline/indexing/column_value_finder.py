"""Values of columns that the output does not hold in clear (pseudonymized, dropped): known values,
which the leak check searches in all texts, as it searches those that the finders found.

Which values a column has is decided cell by cell: what the plan's finders find in it, and in
columns of people and ids also what identifies somebody by its shape
(sanitize/text/person_names/identity_shapes.py). Where only the cells of a column show that it names
people, its shapes count if half of the cells are names. Left out are dates, places and
organizations, kinds that the plan leaves, and values that are ordinary words
(`Kind.is_distinctive`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

import numpy as np
import polars as pl
import pyarrow as pa

from sanitize.array_types import I64, Mask
from sanitize.core.arrow_buffers import TextBuffers, splice, to_large_string
from sanitize.core.intervals import flatten_spans, is_outermost
from sanitize.core.keys import Key, compute_value_ids
from sanitize.core.span_table import VALUE_SCHEMA
from sanitize.core.text_cells import (
    FlatTexts,
    LeafPath,
    flatten_leaf,
    is_number_type,
    write_numbers,
)
from sanitize.kinds.kind import all_kinds
from sanitize.plans.detection_spec import DetectionSpec
from sanitize.readers.survey import find_faults
from sanitize.stages.detection import select_text_finders
from sanitize.stages.finder_pass import FinderPass
from sanitize.storage import table_schemas
from sanitize.storage.corpus import Documents
from sanitize.storage.parquet_files import open_table_writer, read_table
from sanitize.text.literal_search import find_common_values
from sanitize.text.name_lexicon import count_name_cells
from sanitize.text.person_names.identity_shapes import find_identities

VERSION = 3  # raise it when other values are found in the same columns
# attributes, which many people share
_NO_VALUE_CATEGORIES = ("time", "demographic", "place", "organization")
_MAX_CELL_BYTES = 256  # of a cell that is a value
_MAX_LIST_BYTES = 1 << 16  # of a cell that lists people
_MIN_NAME_CELLS = 2
_MIN_ROWS_TO_COMPACT = 100_000
_CUT = ";"  # in the place of a value that was found
CANDIDATE_SCHEMA = pa.schema(
    [
        *table_schemas.COLUMN_VALUES.schema,
        pa.field("leaf_no", pa.int32()),
        pa.field("is_name_guess", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class ValueLeaf:
    """The strings or integers at a path inside a column. `is_identity`: its role, its name or the
    user's option says that it identifies people. `kind`: the kind that its name says it holds, or
    "".
    """

    leaf: LeafPath
    is_identity: bool = False
    kind: str = ""


class ColumnValueFinder:
    """Finds values in the cells of columns. Opens the finders on first use; a context manager
    closes them.
    """

    def __init__(self, spec: DetectionSpec, key: Key, left_kinds: Collection[str]) -> None:
        """`spec` and `left_kinds` are those of the plan: the finders, and the kinds that it
        leaves in the texts.
        """
        self._spec, self._key = spec, key
        self._open_pass: FinderPass | None = None
        kinds = all_kinds()
        self._kind_names = list(kinds)
        self._is_wanted = np.array(
            [
                name not in left_kinds and one.category not in _NO_VALUE_CATEGORIES
                for name, one in kinds.items()
            ]
        )

    def __enter__(self) -> ColumnValueFinder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._open_pass is not None:
            self._open_pass.__exit__()

    def find(self, value_leaf: ValueLeaf, cells: pa.LargeStringArray, doc_nos: I64) -> pl.DataFrame:
        """The values in a column of cells: `value_id`, `kind` (a number), `value`, `normalised`,
        `first_doc_no` and `is_name_guess`: true for a value that is one only if most cells of the
        column are names. `doc_nos` has the document of each cell.
        """
        texts, cell_docs = _select_cells(
            cells, doc_nos, _MAX_LIST_BYTES if value_leaf.is_identity else _MAX_CELL_BYTES
        )
        if not len(texts):
            return _no_rows()
        found_values, rest = self._run_finders(texts, must_fill=not value_leaf.is_identity)
        shaped = find_identities(pl.Series(rest))
        parts = [(found_values, False), (self._complete(shaped), not value_leaf.is_identity)]
        if value_leaf.kind:
            parts.append(
                (self._complete(_select_of_kind(pl.Series(texts), value_leaf.kind)), False)
            )
        found = pl.concat(
            [frame.with_columns(is_name_guess=pl.lit(is_guess)) for frame, is_guess in parts]
        )
        return found.with_columns(
            first_doc_no=pl.Series(cell_docs[found["cell_no"].to_numpy()])
        ).select(_no_rows().columns)

    def _run_finders(
        self, cells: pa.LargeStringArray, *, must_fill: bool
    ) -> tuple[pl.DataFrame, pa.LargeStringArray]:
        """The values that the finders find, with `must_fill` only those that fill their cell,
        each with its first cell (`cell_no`); and the cells without what was found.
        """
        if self._open_pass is None:
            self._open_pass = FinderPass(select_text_finders(self._spec), (), self._key).__enter__()
        found = self._open_pass.find_in_texts(cells)
        values = (
            found.take_used_values()
            .values.to_frame()
            .unique(["value_id", "value"], maintain_order=True)
        )
        common_ids = values.filter(find_common_values(values))["value_id"].to_numpy()
        is_value = self._is_wanted[found.kind] & ~np.isin(found.value_id, common_ids)
        is_cut = is_value | ~self._is_wanted[found.kind]
        buffers = TextBuffers.from_array(cells)
        base = buffers.offsets[found.text_no]
        rows = np.flatnonzero(is_cut)
        ((start, end),) = flatten_spans(
            (found.text_no[rows], found.start_byte[rows], found.end_byte[rows])
        )
        rows = rows[is_outermost(start, end)]
        low, high = (base + found.start_byte)[rows], (base + found.end_byte)[rows]
        # of two that overlap, the rest of the second
        low = np.maximum(low, np.append(0, np.maximum.accumulate(high))[: len(low)])
        rest = splice(buffers, low, high, pa.array([_CUT] * len(rows), pa.large_string()))
        if must_fill:
            cell_size, rest_size = (_count_letters(texts) for texts in (cells, rest))
            is_value &= (2 * rest_size < cell_size)[found.text_no]
        value_ids, first = np.unique(found.value_id[is_value], return_index=True)
        first_cells = pl.DataFrame(
            {"value_id": value_ids, "cell_no": found.text_no[is_value][first].astype(np.int64)}
        )
        return values.join(first_cells, on="value_id", how="inner", maintain_order="left"), rest

    def _complete(self, values: pl.DataFrame) -> pl.DataFrame:
        """Values (`kind`, a name, `value` and `cell_no`) with their ids, without those that are not
        searched for.
        """
        frames = [pl.DataFrame(schema={**VALUE_SCHEMA, "cell_no": pl.Int64})]
        for (name,), rows in values.group_by("kind", maintain_order=True):
            number, kind = self._kind_names.index(str(name)), all_kinds()[str(name)]
            if self._is_wanted[number]:
                normalised = kind.normalise(rows["value"])
                ids = compute_value_ids(to_large_string(normalised), kind.name, self._key)
                columns = {
                    "value_id": ids,
                    "kind": np.full(len(ids), number),
                    "value": rows["value"],
                    "normalised": normalised,
                    "cell_no": rows["cell_no"],
                }
                frames.append(pl.DataFrame(columns, frames[0].schema))
        completed = pl.concat(frames)
        return completed.filter(~find_common_values(completed))


def _no_rows() -> pl.DataFrame:
    return pl.DataFrame(
        schema={**VALUE_SCHEMA, "first_doc_no": pl.Int64, "is_name_guess": pl.Boolean}
    )


def _select_cells(
    cells: pa.LargeStringArray, doc_nos: I64, max_bytes: int
) -> tuple[pa.LargeStringArray, I64]:
    """The distinct cells that are not null and have at most so many bytes, and the first document
    of each."""
    frame = pl.DataFrame({"cell": pl.Series(cells), "doc_no": doc_nos}).filter(
        pl.col("cell").str.len_bytes() <= max_bytes
    )
    first = frame.group_by("cell", maintain_order=True).agg(pl.col("doc_no").min())
    return to_large_string(first["cell"]), first["doc_no"].to_numpy()


def _count_letters(texts: pa.LargeStringArray) -> I64:
    """The letters and digits of each text."""
    return pl.Series(texts).str.count_matches(r"[\p{L}\p{N}]").to_numpy().astype(np.int64)


def _select_of_kind(cells: pl.Series, kind_name: str) -> pl.DataFrame:
    """The cells that are a value of a kind, where the name of their column is context enough."""
    values = pl.DataFrame({"value": cells.str.strip_chars(), "cell_no": np.arange(len(cells))})
    values = values.filter(all_kinds()[kind_name].is_field_value(values["value"]))
    return values.select(pl.lit(kind_name).alias("kind"), "value", "cell_no")


# ---- one task of a run ----


@dataclass(frozen=True, kw_only=True)
class ColumnValuesTask:
    """One range of documents, and the columns whose values are known values."""

    first_doc_no: int
    end_doc_no: int
    documents: Documents
    value_leaves: tuple[ValueLeaf, ...]
    key: Key
    detection_spec: DetectionSpec
    left_kinds: tuple[str, ...]
    quarantined_docs: tuple[int, ...]
    max_doc_bytes: int
    folder: Path

    @property
    def description(self) -> str:
        """The task in words, for an error."""
        return self.documents.describe_range(self.first_doc_no, self.end_doc_no)


@dataclass(frozen=True, kw_only=True)
class CellCounts:
    """For each leaf of one task, how many cells are a name and how many are not empty."""

    cells: Sequence[tuple[int, int]]


def column_values_task(task: ColumnValuesTask) -> CellCounts:
    """Write the distinct values in the columns of a range of documents to `candidates.parquet`
    (`CANDIDATE_SCHEMA`)."""
    values = _DistinctRows(_no_rows().with_columns(leaf_no=pl.lit(0, pl.Int32)))
    cell_counts = [(0, 0)] * len(task.value_leaves)
    with ColumnValueFinder(task.detection_spec, task.key, task.left_kinds) as finder:
        for doc_nos, columns in _iter_cells(task):
            counts = count_name_cells([cells.texts for cells in columns])
            cell_counts = [
                (names + more, filled + others)
                for (names, filled), (more, others) in zip(cell_counts, counts, strict=True)
            ]
            for leaf_no, (value_leaf, cells) in enumerate(
                zip(task.value_leaves, columns, strict=True)
            ):
                found = finder.find(value_leaf, cells.texts, doc_nos[cells.rows])
                values.add(found.with_columns(leaf_no=pl.lit(leaf_no, pl.Int32)))
    _write_values(values.collect(), task.folder / "candidates.parquet", CANDIDATE_SCHEMA)
    return CellCounts(cells=cell_counts)


def _iter_cells(task: ColumnValuesTask) -> Iterator[tuple[I64, list[FlatTexts]]]:
    """Yields the numbers of some documents and the cells of each leaf, batch by batch, without
    quarantined documents and rows that are not text.
    """
    names = [*dict.fromkeys(one.leaf.column for one in task.value_leaves)]
    for table in task.documents.read(task.first_doc_no, task.end_doc_no, names):
        table = table.combine_chunks()
        is_readable = ~np.isin(
            np.asarray(table.column("doc_no"), np.int64), np.array(task.quarantined_docs, np.int64)
        )
        faults = (
            find_faults(table.select(names).to_batches()[0], task.max_doc_bytes)
            if table.num_rows
            else {}
        )
        is_readable[list(faults)] = False
        table = table.filter(pa.array(is_readable)).combine_chunks()
        if table.num_rows:
            columns = [
                list_cells(table.column(one.leaf.column).chunk(0), one.leaf)
                for one in task.value_leaves
            ]
            yield np.asarray(table.column("doc_no"), np.int64), columns


def list_cells(column: pa.Array, leaf: LeafPath) -> FlatTexts:
    """The cells at a path inside a column; a whole number as its digits."""
    cells = flatten_leaf(column, leaf)
    is_number = is_number_type(cells.texts.type)
    return replace(cells, texts=write_numbers(cells.texts)) if is_number else cells


def number_texts_type(data_type: pa.DataType) -> pa.DataType:
    """A type with texts in the place of numbers, also inside lists and structs."""
    if is_number_type(data_type):
        return pa.large_string()
    if pa.types.is_large_list(data_type):
        return pa.large_list(number_texts_type(data_type.value_type))
    if pa.types.is_struct(data_type):
        return pa.struct([field.with_type(number_texts_type(field.type)) for field in data_type])
    return data_type


def merge_column_values(
    candidate_files: Sequence[Path], cell_counts: Sequence[Sequence[tuple[int, int]]], out: Path
) -> None:
    """Write the values of the columns of all tasks to `out`, a table `column_values`.

    `cell_counts` has the counts of each task. Of columns that nothing but their cells shows to
    name people, those with names in at least half of their cells count.
    """
    totals = (
        np.array(cell_counts, np.int64).sum(axis=0)
        if len(cell_counts)
        else np.zeros((0, 2), np.int64)
    )
    names_people: Mask = (totals[:, 0] >= _MIN_NAME_CELLS) & (2 * totals[:, 0] >= totals[:, 1])
    numbers = {name: number for number, name in enumerate(all_kinds())}
    values = _DistinctRows(_no_rows().drop("is_name_guess"))
    for path in candidate_files:
        rows = pl.DataFrame(read_table(path))
        is_of_people = pl.Series(names_people[rows["leaf_no"].to_numpy()], dtype=pl.Boolean)
        rows = rows.filter(~pl.col("is_name_guess") | is_of_people).with_columns(
            pl.col("kind").cast(pl.String).replace_strict(numbers, return_dtype=pl.Int32),
            normalised=pl.coalesce("normalised", "value"),
        )
        values.add(rows)
    rows = values.collect().sort("kind", "value_id", "value")
    _write_values(rows, out, table_schemas.COLUMN_VALUES.schema)


class _DistinctRows:
    """Distinct rows of many frames, each with the lowest `first_doc_no`; memory is that of at most
    twice the distinct rows."""

    def __init__(self, empty: pl.DataFrame) -> None:
        self._rows, self._added, self._added_count = empty, [empty], 0

    def add(self, frame: pl.DataFrame) -> None:
        """Add the rows of a frame that has the columns of the first one."""
        self._added.append(frame.select(self._rows.columns))
        self._added_count += frame.height
        if self._added_count > self._rows.height + _MIN_ROWS_TO_COMPACT:
            self.collect()

    def collect(self) -> pl.DataFrame:
        """The distinct rows so far, in the order in which they were added."""
        rows = pl.concat([self._rows, *self._added])
        keys = [name for name in rows.columns if name != "first_doc_no"]
        self._rows = (
            rows.group_by(keys, maintain_order=True)
            .agg(pl.col("first_doc_no").min())
            .select(rows.columns)
        )
        self._added, self._added_count = [], 0
        return self._rows


def _write_values(rows: pl.DataFrame, path: Path, schema: pa.Schema) -> None:
    """Write values, whose `kind` is a number, as a table of the vault."""
    names = pa.array(list(all_kinds()), pa.string())
    rows = rows.with_columns(
        normalised=pl.when(pl.col("normalised") != pl.col("value")).then("normalised")
    )
    table = (
        rows.select(schema.names).to_arrow(compat_level=pl.CompatLevel.oldest()).combine_chunks()
    )
    kind = pa.DictionaryArray.from_arrays(
        pa.chunked_array(table.column("kind")).combine_chunks().cast(pa.int32()), names
    )
    arrays = [
        kind if field.name == "kind" else table.column(field.name).cast(field.type)
        for field in schema
    ]
    with open_table_writer(path, schema) as out:
        out.write_table(pa.table(arrays, schema=schema), row_group_size=100_000)
