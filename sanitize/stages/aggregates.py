"""Corpus-wide tables that editors need. Those over all occurrences are computed in SQL; forms of
values and components of values, which kinds compute, task by task.

A part declares its tables in `required_aggregates`: `first_occurrences` (those it keeps),
`value_ids` (the ids of all values of the corpus), `known_forms` (the forms of all values, in which
a surrogate must differ from them), `increments` (the first document of each increment of the
output), `distinct_values_of_kinds` (the raw values of its kinds), `component_pools` (components
that surrogates are drawn from), `blacklist`, or queries of its own, which it runs in
`build_tables`. A `LinkingEditor` also gets `entity_values` (which values belong to one
person). Counts cover only the occurrences that earlier parts left. `value_ids`, `known_forms`,
`distinct_values_of_kinds` and `entity_values` cover the whole corpus, because a variant must not
equal a value of a dropped document either."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.array_types import I64
from sanitize.core.arrow_buffers import to_large_string
from sanitize.core.engine import Engine
from sanitize.core.keys import Key
from sanitize.core.part_protocols import Aggregates, Editor, LinkingEditor
from sanitize.editors.synthesis.known_values import KNOWN_FORMS_SCHEMA, FirstForms, hash_value_forms
from sanitize.kinds.kind import Kind, get_kind
from sanitize.stages.corpus_pass import CorpusContext, exclude_dropped
from sanitize.stages.prior_values import find_sorted
from sanitize.storage import queries
from sanitize.storage.parquet_files import (
    TABLE_CODEC,
    TABLE_CODEC_LEVEL,
    open_table_writer,
    read_table,
)
from sanitize.storage.table_schemas import BLACKLIST


def write_value_counts(engine: Engine, partial_files: Sequence[Path], out: Path) -> None:
    """Write the table `value_counts`: the partial counts of all tasks, added up."""
    engine.sql(queries.get_query("value_counts").sql, {"partial_counts": partial_files}, out)


def count_remaining_kinds(
    engine: Engine, remaining_files: Sequence[Path], out: Path
) -> dict[str, dict[str, int]]:
    """Returns occurrences, distinct values and documents by kind, over the remaining occurrences;
    the same table is written to `out`."""
    engine.sql(
        queries.get_query("remaining_kind_counts").sql,
        {"remaining_occurrences": remaining_files},
        out,
    )
    rows = read_table(out).rename_columns({"distinct_values": "values"}).to_pylist()
    return {row.pop("kind"): row for row in rows}


@dataclass(frozen=True, kw_only=True, repr=False)
class AggregateSources:
    """What the tables of all editors are computed from, and the folder that they are written to.

    `value_counts_file` covers the whole corpus, `occurrences` may be a selection (`is_selection`);
    `value_files` has a file for each task. No replacement may equal a value of
    `column_value_files`, tables `column_values`. `increment_starts`: the first task and the first
    document of each increment of the output. `blacklist_file` is the table of the plan; without it
    an empty table is written.
    """

    engine: Engine
    occurrences: Sequence[Path]
    value_counts_file: Path
    value_files: Sequence[Path]
    folder: Path
    key: Key
    drop_files: Sequence[Path] = ()
    column_value_files: Sequence[Path] = ()
    increment_starts: Sequence[tuple[int, int]] = ((0, 0),)
    blacklist_file: Path | None = None
    is_selection: bool = False


def aggregate_for_editors(
    sources: AggregateSources,
    editors: Sequence[Editor],
    *,
    corpus: CorpusContext | None = None,
    filter_first_occurrences: Callable[[Path], object] = lambda first_occurrences_file: None,
) -> tuple[Aggregates, ...]:
    """Write the tables that each editor needs; returns their paths, one `Aggregates` per editor.

    Editors that read texts before editing (`pass_schemas`) run their passes over `corpus`.
    `filter_first_occurrences` may remove rows from a table of first occurrences (a path)."""
    engine, folder, remaining = sources.engine, sources.folder, sources.occurrences
    if sources.drop_files:
        remaining_file = folder / "remaining_occurrences.parquet"
        remaining = [exclude_dropped(engine, remaining, sources.drop_files, remaining_file)]
    results: list[Aggregates] = []
    claimed_kinds: set[str] = set()
    for number, editor in enumerate(editors):
        kinds_file = folder / f"{number}-kinds.parquet"
        chosen_kinds = sorted(set(editor.kinds) - claimed_kinds)
        pq.write_table(pa.table({"kind": pa.array(chosen_kinds, pa.string())}), kinds_file)
        claimed_kinds |= set(editor.kinds)
        tables = _EditorTables(sources, number, editor, kinds_file, remaining).write_all()
        if "first_occurrences" in tables:
            filter_first_occurrences(tables["first_occurrences"])
        if editor.pass_schemas:
            assert corpus is not None
            tables |= editor.build_tables(
                corpus.for_part(editor, f"edit-{number}", chosen_kinds, remaining)
            )
        if any(later.keep or later.pass_schemas for later in editors[number + 1 :]):
            remaining = _exclude_claimed(engine, remaining, kinds_file, tables, folder, number)
        results.append(Aggregates(tables))
    return tuple(results)


@dataclass(frozen=True, repr=False)
class _EditorTables:
    """Writes the tables of one editor: a method for each name in `required_aggregates`."""

    sources: AggregateSources
    number: int  # of the editor
    editor: Editor
    kinds_file: Path  # the kinds that no earlier editor has
    remaining: Sequence[Path]  # the occurrences that no earlier part took

    def write_all(self) -> dict[str, Path]:
        """The files by the names of their tables."""
        writers = {
            "first_occurrences": self.write_first_occurrences,
            "value_ids": lambda: self.sources.value_counts_file,
            "known_forms": self.write_known_forms,
            "increments": self.write_increments,
            "component_pools": self.write_component_pools,
            "distinct_values_of_kinds": self.write_distinct_values,
            "blacklist": self.write_blacklist,
        }
        names = [
            name
            for name in self.editor.required_aggregates
            if name in writers and (name != "first_occurrences" or self.editor.keep)
        ]
        tables = {name: writers[name]() for name in names}
        if isinstance(self.editor, LinkingEditor) and self.editor.linked:
            tables["entity_values"] = self.write_entity_values()
        return tables

    def _query(
        self, table: str, sources: Mapping[str, Sequence[Path]], *, query: str = "", **options: int
    ) -> Path:
        """Run the query of a table, or another one with the same columns, into its file."""
        out = self.sources.folder / f"{self.number}-{table}.parquet"
        self.sources.engine.sql(queries.get_query(query or table).sql, sources, out, **options)
        return out

    def write_first_occurrences(self) -> Path:
        chosen_kinds = {"chosen_kinds": [self.kinds_file]}
        is_whole_corpus = not (self.number or self.sources.drop_files or self.sources.is_selection)
        if is_whole_corpus and self.editor.keep == 1:
            return self._query(
                "first_occurrences",
                {"value_counts": [self.sources.value_counts_file], **chosen_kinds},
                query="first_occurrences_from_counts",
            )
        return self._query(
            "first_occurrences",
            {"remaining_occurrences": self.remaining, **chosen_kinds},
            keep=self.editor.keep,
        )

    def write_known_forms(self) -> Path:
        sources, out = self.sources, self.sources.folder / "known_forms.parquet"
        if not out.exists():  # the same for all editors
            write_known_forms(
                sources.value_counts_file,
                sources.value_files,
                sources.column_value_files,
                sources.increment_starts,
                sources.key,
                out,
            )
        return out

    def write_increments(self) -> Path:
        out = self.sources.folder / "increments.parquet"
        starts = [first_doc_no for _, first_doc_no in self.sources.increment_starts]
        pq.write_table(pa.table({"first_doc_no": pa.array(starts, pa.int64())}), out)
        return out

    def write_component_pools(self) -> Path:
        sources, out = self.sources, self.sources.folder / f"{self.number}-component_pools.parquet"
        remaining_ids = None
        if sources.drop_files:
            ids_file = self._query("remaining_values", {"remaining_occurrences": self.remaining})
            remaining_ids = np.asarray(read_table(ids_file).column("value_id"), np.int64)
        write_component_pools(self.editor.kinds, sources.value_files, out, remaining_ids)
        return out

    def write_distinct_values(self) -> Path:
        spellings = [*self.sources.value_files, *self.sources.column_value_files]
        return self._query(
            "distinct_values_of_kinds",
            {"value_spellings": spellings, "chosen_kinds": [self.kinds_file]},
        )

    def write_blacklist(self) -> Path:
        if self.sources.blacklist_file is not None:
            return self.sources.blacklist_file
        out = self.sources.folder / "empty_blacklist.parquet"
        pq.write_table(BLACKLIST.schema.empty_table(), out)
        return out

    def write_entity_values(self) -> Path:
        return self._query(
            "entity_values",
            {
                "occurrences": self.sources.occurrences,
                "value_spellings": self.sources.value_files,
                "chosen_kinds": [self.kinds_file],
            },
        )


def _exclude_claimed(
    engine: Engine,
    remaining_files: Sequence[Path],
    kinds_file: Path,
    tables: Mapping[str, Path],
    folder: Path,
    number: int,
) -> list[Path]:
    """Returns the file of occurrences that remain for later editors after editor `number` has
    claimed its spans."""
    claimed_spans = tables.get("removed_occurrences")
    if claimed_spans is None:
        claimed_spans, first_occurrences = (
            folder / f"{number}-claimed_spans.parquet",
            tables.get("first_occurrences"),
        )
        if first_occurrences is None:
            first_occurrences = folder / f"{number}-no_first_occurrences.parquet"
            schema = pa.schema(
                [
                    ("doc_no", pa.int64()),
                    ("cell", pa.int32()),
                    ("start", pa.int64()),
                    ("value_id", pa.int64()),
                ]
            )
            pq.write_table(schema.empty_table(), first_occurrences)
        engine.sql(
            queries.get_query("claimed_spans").sql,
            {
                "remaining_occurrences": remaining_files,
                "chosen_kinds": [kinds_file],
                "first_occurrences": [first_occurrences],
            },
            claimed_spans,
        )
    drops, out = (
        folder / f"{number}-drops.parquet",
        folder / f"{number}-remaining_occurrences.parquet",
    )
    pq.write_table(pa.table({"doc_no": pa.array([], pa.int64())}), drops)
    sources = {"occurrences": remaining_files, "claimed_spans": [claimed_spans], "drops": [drops]}
    engine.sql(queries.get_query("remaining_occurrences").sql, sources, out)
    return [out]


def _unique_texts(pieces: Sequence[pa.LargeStringArray]) -> pa.LargeStringArray:
    """The distinct texts of several arrays."""
    return pc.unique(pa.concat_arrays(pieces))


def write_known_forms(
    value_counts_file: Path,
    value_files: Sequence[Path],
    column_value_files: Sequence[Path],
    increment_starts: Sequence[tuple[int, int]],
    key: Key,
    out: Path,
) -> None:
    """Write the aggregate `known_forms`: the distinct forms of all values, ascending, and for each
    the document from which on it is known.

    This is the first document of the value, in a text or in a column; for a spelling that only a
    later increment has, the first document of that increment, because what was drawn for earlier
    ones did not know it. `value_files` has a file for each task.
    Memory is 32 bytes for each form, and 16 bytes for each value."""
    # values 1, 2 of task 0, value 3 of task 5, first documents 0, 4, 9; increments from tasks 0
    # and 5, documents 0 and 8: the forms of 1, 2, 3 are known from 0, 4, 9. A new spelling of
    # value 1 in task 5 is known from 8.
    text_values = _read_first_documents(value_counts_file)
    tasks, starts = (np.array(column, np.int64) for column in zip(*increment_starts, strict=True))
    increments = np.searchsorted(tasks, np.arange(len(value_files)), side="right") - 1
    sources = itertools.chain(
        zip(value_files, itertools.repeat(text_values), starts[increments], strict=False),
        ((path, _read_first_documents(path), 0) for path in column_value_files),
    )
    known = FirstForms.collect(np.empty(0, np.int64), np.empty(0, np.int64))
    unmerged = [known]
    for path, (known_ids, first_doc_nos), increment_start in sources:
        for _, value_ids, forms in iter_value_forms([path], key):
            place, is_counted = find_sorted(known_ids, value_ids)
            first = np.full(len(value_ids), increment_start)
            first[is_counted] = np.maximum(first_doc_nos[place[is_counted]], increment_start)
            unmerged.append(FirstForms.collect(forms, first))
            if sum(len(found.forms) for found in unmerged[1:]) > len(known.forms):
                # not after every batch, which would sort all forms again
                known = FirstForms.merge(unmerged)
                unmerged = [known]
    known = FirstForms.merge(unmerged)
    with open_table_writer(out, KNOWN_FORMS_SCHEMA) as writer:
        writer.write_table(pa.table([known.forms, known.first_doc_nos], schema=KNOWN_FORMS_SCHEMA))


def _read_first_documents(path: Path) -> tuple[I64, I64]:
    """The values of a table, ascending, and the first document of each."""
    table = read_table(path, columns=["value_id", "first_doc_no"])
    rows = pl.DataFrame(table).sort("value_id", "first_doc_no")
    first = rows.filter(pl.col("value_id").diff().ne_missing(0))
    return first["value_id"].to_numpy(), first["first_doc_no"].to_numpy()


def iter_value_forms(value_files: Sequence[Path], key: Key) -> Iterator[tuple[Kind, I64, I64]]:
    """Yields the ids and the forms of distinct values in batches of one kind each."""
    for table in _iter_values(value_files):
        kinds = table.column("kind").cast(pa.string())
        columns = [
            table.column("value"),
            pc.coalesce(table.column("normalised"), table.column("value")),
        ]
        for name in pc.unique(kinds).to_pylist():
            rows = pa.array(np.flatnonzero(np.asarray(pc.equal(kinds, name))))
            value, normalised = (
                column.cast(pa.large_string()).combine_chunks().take(rows) for column in columns
            )
            value_ids = np.asarray(table.column("value_id").take(rows), np.int64)
            yield (
                get_kind(name),
                value_ids,
                hash_value_forms(get_kind(name), value, normalised, key),
            )


def _iter_values(value_files: Sequence[Path]) -> Iterator[pa.Table]:
    """Yields the distinct values of each task in batches of `_READ_ROWS` rows."""
    for path in value_files:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for batch in file.iter_batches(
                _READ_ROWS, columns=["value_id", "kind", "value", "normalised"], use_threads=False
            ):
                yield pa.Table.from_batches([batch])


# Components that a variant may contain: those that look like names. A longer or unusual component
# may itself contain an address or a number (bounce-7-bob=example.com, [192.0.2.1]), which a variant
# would then copy to new places.
COMPONENT_PATTERNS = {
    "first": r"\A[a-z]{2,20}[0-9]{0,4}\z",
    "local": r"\A[a-z]{2,24}[0-9]{0,4}\z",
    "last": r"\A[a-z]{1,20}(?:[._-][a-z]{1,20}){0,2}[0-9]{0,4}\z",
    "domain": r"\A(?:[a-z0-9-]{1,20}[.])*[a-z0-9-]*[a-z][a-z0-9-]*\z",
    "host": r"\A(?:[a-z0-9-]{1,20}[.])*[a-z0-9-]*[a-z][a-z0-9-]*[.][a-z]{2,24}\z",
    "tld": r"\A[a-z]{2,24}\z",
}
# longer parts are often addresses themselves (`bounce-7-bob=example.com`), which a variant would
# carry elsewhere
MAX_COMPONENT_BYTES = 32
_READ_ROWS = 50_000


def write_component_pools(
    kinds: Sequence[str], value_files: Sequence[Path], out: Path, value_ids: I64 | None = None
) -> None:
    """Write the component pools: the distinct components, in lower case, of the values of each kind
    that has components; columns `kind`, `component`, `text`, sorted. Components that are too long
    or of another alphabet are left out. With `value_ids` (ascending) only those values count.

    Loops over the tasks' files of distinct values, not over documents. Each kind splits its values
    with a columnar function of its own.
    """
    texts_by_pool: dict[tuple[str, str], list[pa.LargeStringArray]] = {}
    for name in kinds:
        split = get_kind(name).split_components
        for table in _iter_values(value_files) if split is not None else ():
            table = table.filter(pc.equal(table.column("kind").cast(pa.string()), name))
            ids, rows = np.unique(np.asarray(table.column("value_id")), return_index=True)
            table = table.take(
                pa.array(rows if value_ids is None else rows[find_sorted(value_ids, ids)[1]])
            )
            if not table.num_rows:
                continue
            components = split(
                pl.Series(pc.coalesce(table.column("normalised"), table.column("value")))
            )  # type: ignore[misc]
            is_single = components["last"] == ""
            for component, texts in (
                ("first", components["first"].filter(~is_single)),
                ("local", components["first"].filter(is_single)),
                ("last", components["last"]),
                ("domain", components["domain"]),
                ("tld", components["tld"]),
                ("host", components.select(pl.concat_str("domain", "dot", "tld")).to_series()),
            ):
                lowercase = texts.unique().str.to_lowercase()
                usable = lowercase.filter(
                    lowercase.str.contains(COMPONENT_PATTERNS[component])
                    & (lowercase.str.len_bytes() <= MAX_COMPONENT_BYTES)
                )
                # converted to Arrow, which copies: Polars returns views, each of which would keep
                # all values of its batch in memory
                pool = texts_by_pool.setdefault((name, component), [])
                pool.append(to_large_string(usable.unique()))
                if sum(len(unmerged) for unmerged in pool[1:]) > len(pool[0]):
                    # not after every batch, which would scan all texts each time
                    pool[:] = [_unique_texts(pool)]
    frames = []
    for (name, component), pieces in sorted(texts_by_pool.items(), key=lambda item: item[0]):
        texts = pl.Series("text", _unique_texts(pieces)).sort()
        frames.append(
            pl.DataFrame({"kind": [name], "component": [component]}).join(
                texts.to_frame(), how="cross"
            )
        )
    empty = pl.DataFrame(schema={"kind": pl.String, "component": pl.String, "text": pl.String})
    pl.concat([empty, *frames]).write_parquet(
        out, compression=TABLE_CODEC, compression_level=TABLE_CODEC_LEVEL
    )
