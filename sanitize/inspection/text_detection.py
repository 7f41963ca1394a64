"""`detect`: the finders of a plan on texts in memory, both rounds if the plan has them, by the
functions of the tasks of an index (sanitize/stages/detection.py):

    texts -> first round -> occurrences and values -> terms -> second round -> occurrences

No file is written.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from sanitize.core.arrow_buffers import (
    TextBuffers,
    fill_null_texts,
    numbers_to_arrow,
    numbers_to_numpy,
    slice_spans,
    to_large_string,
)
from sanitize.core.keys import Key
from sanitize.core.span_table import SpanTable, ValueTable
from sanitize.core.text_cells import LeafPath, list_text_leaves
from sanitize.errors import UsageError, printable_path, suggest_columns
from sanitize.finders.known import build_known_terms, read_known_list
from sanitize.kinds.kind import all_kinds, custom_kinds, get_kind
from sanitize.pipeline.input_objects import list_paths, read_object, read_texts
from sanitize.plans.detection_spec import DetectionSpec
from sanitize.plans.plan import DEFAULT_PLAN, Plan, SelectionRules
from sanitize.plans.python_api import Names, name_data_object, public_function
from sanitize.readers.standard_form import find_leaf
from sanitize.stages.finder_pass import FinderPass
from sanitize.stages.occurrence_table_writer import (
    OccurrenceBatch,
    distinct_spellings,
    one_spelling_each,
)
from sanitize.storage.corpus import CellGroup
from sanitize.storage.records.record_shapes import canonical_schema

_SCHEMA = {
    "text_index": pl.Int64,
    "column": pl.String,
    "kind": pl.String,
    "start": pl.Int64,
    "end": pl.Int64,
    "score": pl.Float32,
    "value": pl.String,
}
_TEXT = LeafPath("text")
_ROW_COLUMNS = ("doc_no", "doc_id")  # of the tables that finders search, beside the texts
_BATCH_BYTES, _BATCH_TEXTS = 16 << 20, 10_000  # of texts that are searched together


@public_function()
def detect(
    texts: Any,
    /,
    *,
    plan: Plan | Path | str = DEFAULT_PLAN,
    values: bool = False,
    known: Path | str | None = None,
    text_column: Names = (),
) -> pl.DataFrame:
    """The occurrences that the finders of a plan report in some texts, as one row each of a Polars
    frame: `text_index` (the position of the text or row, from 0), `kind`, `start`, `end` (code
    points, half-open: the value is `text[start:end]`) and `score` (0 to 1), by position. Of data
    with columns there are also `column`, the path of the text, and `split`, if it has splits; of
    paths `file`, the name of the file.

    texts   A text; a list, tuple, Series or Arrow array of texts, of which None has no rows; a
             frame of Polars (a lazy one is collected) or pandas, an Arrow table, a list of records
             (dictionaries), a Dataset or a DatasetDict. A `Path`, or a list of them, is read as by
             `sanitize detect`: each file, also of a folder, as one text, whatever its format, from
             which positions count; files of a folder that hold no text are left out with a warning.
             A `str` is a text, never a path.
    plan    The name of a shipped plan, the path of a TOML file, or a `Plan`. Finders that need the
            whole corpus take these texts for it.
    values  Adds a column `value`. Without it no value is in the result, so that none reaches a log
    by its `repr`.
    known   A list of known values to find: CSV, TSV or JSON lines with kind and value.
    text_column  The columns or paths (`messages[].content`) to search; without it all that hold
             texts.

    Occurrences that the plan does not act on (`find.allow`, `find.min_score`) are left out. Raises
    UsageError for anything that is not a text, InputRefused for a path that cannot be read, and
    PlanError for a plan that is not valid.

    >>> import sanitize
    >>> texts = ["Write to ann.lee@example.com", None, "or call +1 212 555 0123."]
    >>> found = sanitize.detect(texts, values=True)
    >>> found.select("text_index", "start", "end", "value").rows()
    [(0, 9, 28, 'ann.lee@example.com'), (2, 8, 23, '+1 212 555 0123')]
    """
    paths = [text_column] if isinstance(text_column, str) else list(text_column)
    files: list[str] | None = None
    if name_data_object(texts):
        source = _read_columns(texts, paths)
    else:
        if paths:
            raise UsageError(
                "detect: text_column names columns of a frame, and texts is a"
                f" {type(texts).__name__}; leave it out"
            )
        if inputs := list_paths("detect", texts):
            files, texts = _read_files(inputs)
        source = _SearchedTexts(_split_texts(read_texts("detect", texts)), (_TEXT,), (str(_TEXT),))
    chosen = Plan.load(plan).with_known_values(known)
    with custom_kinds(chosen.custom_kinds):
        found = _find_occurrences(source, chosen.detection_spec, known)
        found = _select(
            found.sort("text_index", "column", "start", "end", "kind"),
            chosen.find.selection_rules,
        )
    left_out = [] if values else ["value"]
    if not name_data_object(texts):
        left_out.append("column")
    if files is not None:
        names = pl.Series("file", files, dtype=pl.String)
        found = found.insert_column(0, names.gather(found["text_index"]))
    return source.number_splits(found).drop(left_out)


def _read_files(paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """The names of files as they are shown, and their texts; a warning counts the files of folders
    that hold no text."""
    from sanitize.inspection.text_files import read_file_texts  # most calls are given texts

    read = read_file_texts(paths)
    if read.without_text:
        warnings.warn(
            f"detect: {len(read.without_text)} files of folders hold no text, and have no rows",
            stacklevel=4,
        )
    return list(map(printable_path, read.texts)), list(read.texts.values())


def _select(found: pl.DataFrame, rules: SelectionRules) -> pl.DataFrame:
    """The occurrences that the rules of a plan select."""
    if not rules:
        return found
    from sanitize.pipeline.occurrence_selection import find_unselected  # few plans have rules

    values = found.select("kind", "value").unique().with_row_index("value_id")
    by_kind = values.partition_by("kind")
    values = pl.concat([values.clear(), *by_kind]).with_columns(
        normalised=pl.concat(
            [
                pl.Series("normalised", [], pl.String),
                *(
                    get_kind(part["kind"][0]).normalise(part["value"]).alias("normalised")
                    for part in by_kind
                ),
            ]
        )
    )
    is_allowed, is_below_min = find_unselected(
        found.join(values, ["kind", "value"], maintain_order="left"), values, rules
    )
    return found.filter(pl.Series(~is_allowed & ~is_below_min))


@dataclass(frozen=True, repr=False)
class _SearchedTexts:
    """Texts as tables with `doc_no`, `doc_id` and the columns that hold the texts at `leaves`;
    `paths` names these for the caller, whose columns may have had the names of the former. `splits`
    has the first `doc_no` of each split."""

    tables: Iterable[pa.Table]
    leaves: tuple[LeafPath, ...]
    paths: tuple[str, ...]
    splits: Mapping[str, int] = field(default_factory=dict)

    def number_splits(self, found: pl.DataFrame) -> pl.DataFrame:
        """The rows with the split of each, numbered from 0 in each split."""
        if not self.splits:
            return found
        names = pl.Series("split", list(self.splits), dtype=pl.String)
        first = np.array(list(self.splits.values()))
        row = found["text_index"].to_numpy()
        split_no = np.searchsorted(first, row, side="right") - 1
        return found.with_columns(text_index=row - first[split_no]).insert_column(
            0, names.gather(split_no)
        )


def _read_columns(given: Any, paths: Sequence[str]) -> _SearchedTexts:
    """The texts of data in memory, at `paths` or wherever it has texts. Raises UsageError for a
    path without texts, and where splits have different columns."""
    from sanitize.pipeline.data_objects import read_splits  # most calls are given texts

    data = read_object("detect", given).data
    data = data.collect() if isinstance(data, pl.LazyFrame) else data
    tables = {
        split: pa.Table.from_batches(batches, schema)
        for split, (schema, batches) in read_splits("detect", data).items()
    }
    schema, *others = [canonical_schema(table.schema) for table in tables.values()]
    if any(other != schema for other in others):
        raise UsageError(
            "detect: the splits of the DatasetDict have different columns; call detect for each"
        )
    leaves = list_text_leaves(schema)
    if unknown := [path for path in paths if find_leaf(path, schema) not in leaves]:
        raise UsageError(
            f"detect: text_column={unknown[0]}: there are no texts;"
            f" {suggest_columns(unknown[0], {str(leaf) for leaf in leaves})}"
        )
    if paths:
        chosen_leaves = {find_leaf(path, schema) for path in paths}
        leaves = [leaf for leaf in leaves if leaf in chosen_leaves]
    columns = list(dict.fromkeys(leaf.column for leaf in leaves))
    sizes = [table.num_rows for table in tables.values()]
    first_rows = dict(zip(tables, np.cumsum([0, *sizes[:-1]]).tolist(), strict=True))
    chosen = pa.schema([schema.field(name) for name in columns])
    rows = pa.concat_tables([table.select(columns).cast(chosen) for table in tables.values()])
    names = _rename_row_columns(columns)
    return _SearchedTexts(
        _split_rows(rows.rename_columns([names[name] for name in columns])),
        tuple(replace(leaf, column=names[leaf.column]) for leaf in leaves),
        tuple(map(str, leaves)),
        first_rows if isinstance(data, Mapping) else {},
    )


def _rename_row_columns(columns: Sequence[str]) -> dict[str, str]:
    """A name for each column that is none of `_ROW_COLUMNS`, and says the same about its cells."""
    names = dict(zip(columns, columns, strict=True))
    for name in _ROW_COLUMNS:
        if name in names:
            new = name
            while new in columns or new in _ROW_COLUMNS:
                new += "_"
            names[name] = new
    return names


@dataclass(frozen=True, repr=False)
class _SearchedBatch:
    """A batch of texts, and what was found in each of its groups of cells."""

    table: pa.Table
    by_group: Sequence[tuple[CellGroup, SpanTable]]

    @property
    def doc_no(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return numbers_to_numpy(self.table.column("doc_no"))

    def list_rows(self, leaf_paths: Sequence[str]) -> pl.DataFrame:
        """The occurrences with the columns of `_SCHEMA`."""
        kind_names = pl.Series(list(all_kinds()), dtype=pl.String)
        paths = pl.Series(leaf_paths, dtype=pl.String)
        frames = [pl.DataFrame(schema=_SCHEMA)]
        for group, found in self.by_group:
            buffers = TextBuffers.from_array(fill_null_texts(group.texts))
            start, end = found.find_code_points(buffers.to_array())
            columns = {
                "text_index": self.doc_no[group.rows[found.text_no]],
                "column": paths.gather(group.leaf_no[found.text_no]),
                "kind": kind_names.gather(found.kind),
                "start": start,
                "end": end,
                "score": found.score,
                "value": pl.Series(slice_spans(buffers, *found.locate(buffers))),
            }
            frames.append(pl.DataFrame(columns, _SCHEMA))
        return pl.concat(frames)


def _find_occurrences(
    source: _SearchedTexts, spec: DetectionSpec, known: Path | str | None
) -> pl.DataFrame:
    """The occurrences with the columns of `_SCHEMA`: those of both rounds if `spec` has finders of
    the second, for which `known` is a user's list. A null text has none; a warning counts texts
    that a finder could not analyse."""
    key = Key.generate()
    batches = _run_first_round(source, spec, key)
    if any(finder.second_round for finder in spec.finders):
        batches = _run_second_round(batches, source.leaves, spec, key, known)
    frames = [batch.list_rows(source.paths) for batch in batches]
    return pl.concat([pl.DataFrame(schema=_SCHEMA), *frames])


def _run_first_round(source: _SearchedTexts, spec: DetectionSpec, key: Key) -> list[_SearchedBatch]:
    batches, unread_count = list[_SearchedBatch](), 0
    with FinderPass(spec, source.leaves, key) as finder_pass:
        for table in source.tables:
            found = finder_pass.find_in_batch(table)
            unread_count += len(found.unread)
            batches.append(_SearchedBatch(found.table, found.by_group))
    if unread_count:
        warnings.warn(
            f"{unread_count} texts could not be analysed by a finder of the plan, and have no rows",
            stacklevel=5,
        )
    return batches


def _run_second_round(
    batches: Sequence[_SearchedBatch],
    leaves: Sequence[LeafPath],
    spec: DetectionSpec,
    key: Key,
    known: Path | str | None,
) -> list[_SearchedBatch]:
    """Searches the texts again with what the first round found in all of them."""
    finder_names = [finder.use for finder in spec.finders]
    occurrences = list[pl.DataFrame]()
    values = [ValueTable.empty().to_frame()]
    for batch in batches:
        rows = OccurrenceBatch(batch.doc_no, finder_names)
        for group, found in batch.by_group:
            rows.add(found, group)
        if rows.pieces:
            values.append(rows.spellings())
        occurrences.append(rows.to_frame())
    spellings = distinct_spellings(values)
    kind_names = pl.Series(list(all_kinds()), dtype=pl.String)
    terms = build_known_terms(
        [spellings.with_columns(kind_names.gather(spellings["kind"]).alias("kind"))],
        occurrences,
        read_known_list(Path(known)) if known is not None else None,
        key,
    )
    known_values = one_spelling_each(ValueTable.from_frame(spellings))
    with FinderPass(spec, leaves, key, terms, known_values=known_values) as finder_pass:
        return [
            _SearchedBatch(batch.table, list(finder_pass.find_again(batch.table, rows)))
            for batch, rows in zip(batches, occurrences, strict=True)
            if batch.table.num_rows
        ]


def _split_texts(texts: pl.Series) -> Iterator[pa.Table]:
    """The texts in batches, as the column `text`."""
    sizes = texts.str.len_bytes().fill_null(0).to_numpy()
    low, size = 0, 0
    for position, text_bytes in enumerate(sizes.tolist()):
        if position > low and (size + text_bytes > _BATCH_BYTES or position - low >= _BATCH_TEXTS):
            yield _number_rows(pa.table({"text": to_large_string(texts[low:position])}), low)
            low, size = position, 0
        size += text_bytes
    if low < len(texts):
        yield _number_rows(pa.table({"text": to_large_string(texts[low:])}), low)


def _split_rows(table: pa.Table) -> Iterator[pa.Table]:
    """The rows in batches."""
    step = max(1, min(_BATCH_TEXTS, _BATCH_BYTES * table.num_rows // max(table.nbytes, 1)))
    for low in range(0, table.num_rows, step):
        yield _number_rows(table.slice(low, step).combine_chunks(), low)


def _number_rows(table: pa.Table, first: int) -> pa.Table:
    """The table with the columns that the finders of a run expect: `doc_no` and `doc_id`."""
    doc_no = numbers_to_arrow(np.arange(first, first + table.num_rows))
    columns = {name: table.column(name) for name in table.column_names}
    return pa.table({**columns, "doc_no": doc_no, "doc_id": doc_no.cast(pa.large_string())})
