"""What `find` writes for one task: occurrences, their counts, the raw values (into the vault), and the records it sets aside.

Two rounds. The first reads a fixed range of `doc_no` once and asks `patterns` and every finder that looks at a batch alone. Where a finder
of the plan needs what was found in the whole corpus, that is gathered, and the second round reads the range again with it in hand.

Each task is a pure function. A round costs one pass; memory is that of a batch and of the task's distinct values, and in the second round
of what was gathered.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.core.arrow_buffers import Buffers, arrow, code_points, cut_nested, filled
from sanitize.core.keys import Key, siphash, value_ids
from sanitize.core.parts import Column, Spans
from sanitize.core.text_cells import Leaf, leaves
from sanitize.finders import patterns
from sanitize.kinds.kind import every_kind
from sanitize.plans.detection_spec import Sought
from sanitize.readers.survey import faults
from sanitize.stages.scanner import Seeker
from sanitize.stages.span_conflicts import Claims, settle
from sanitize.storage import table_schemas
from sanitize.storage.corpus import CellColumn, Documents, cells_of, table_writer, write_rows
from sanitize.text.mail_headers import sections

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
VERSION = 3  # part of the index's fingerprint: raise it when what is written for the same input changes
LINKS = pa.schema([pa.field("value_id", pa.int64()), pa.field("other", pa.int64())])
_SHOWN = ("text_no", "start_byte", "stop_byte", "kind", "value_id")  # what a finder sees of what others found


@dataclass(frozen=True, kw_only=True)
class FindTask:
    """One range of documents to be indexed: in the first round, unless `before` names what that one left."""

    no: int
    first: int
    last: int
    documents: Documents
    leaves: tuple[Leaf, ...]
    key: Key
    max_doc_bytes: int
    checked: tuple[str, ...]  # columns of the output: their strings must be readable
    set_aside: tuple[int, ...]  # documents of the range that could not be read, when they were staged or in the first round
    folder: Path  # attempts are written here: <table>.parquet
    sought: Sought = Sought()
    before: FirstRound | None = None

    @property
    def told(self) -> str:
        """The task in words, for an error."""
        return self.documents.told(self.first, self.last)

    def aside(self, doc_no: int, reason: str) -> tuple[int, str, str, str]:
        """A document that is set aside, as a row of the table `quarantine`."""
        source = next(s for s in self.documents.sources if s.first_doc_no <= doc_no < s.first_doc_no + s.rows)
        return doc_no, source.path, f"row {doc_no - source.first_doc_no}", reason


@dataclass(frozen=True, kw_only=True)
class FirstRound:
    """What the first round left of a range, and what was gathered from the whole of it."""

    occurrences: Path
    values: Path
    skipped: Path
    entities: Path  # value_id, entity_id, for values that are one person's
    gathered: Path  # what the finders of the second round are opened with


def find_task(task: FindTask) -> dict[str, Any]:
    """Index one task; returns documents, quarantined, text_bytes, and by kind its occurrences and the documents that hold it."""
    names = pa.array(list(every_kind()), pa.string())
    finder = Seeker(task.key, task.sought)
    look = _Look(task, finder)
    made = _Made(task, names)
    text_bytes = documents = 0
    ids, id_key = [np.empty(0, np.uint64)], task.key.subkey("doc_id")
    texts = {name for name in task.checked if leaves(pa.schema([task.documents.schema.field(name)]))}
    wanted = [*dict.fromkeys([*(leaf.column for leaf in task.leaves), *sorted(texts), "doc_id"])]
    with table_writer(task.folder / "occurrences.parquet", table_schemas.OCCURRENCES.schema) as out, look:
        for table in task.documents.read(task.first, task.last, wanted):
            table = table.combine_chunks()
            good, bad = _readable(table, task)
            made.aside += bad
            if not good.all():
                table = table.filter(pa.array(good)).combine_chunks()
            if not table.num_rows:
                continue
            table, seen, unread = look.batch(table)
            made.aside += [task.aside(doc_no, "not_analysed") for doc_no in unread]
            if not table.num_rows:
                continue
            documents += table.num_rows
            ids.append(siphash(table.column("doc_id").chunk(0), id_key))
            batch = _Rows(task, names, np.asarray(table.column("doc_no"), np.int64))
            for column, found in seen:
                text_bytes += int(pc.sum(pc.binary_length(column.flat.texts)).as_py() or 0)
                batch.add(found, column.flat.rows, column.cells)
            made.add(batch, out)
    with table_writer(task.folder / "ids.parquet", table_schemas.IDS.schema) as out:
        out.write_table(pa.table([np.concatenate(ids).astype(np.int64)], schema=table_schemas.IDS.schema))
    if any(finder.second for finder in task.sought.finders):
        with table_writer(task.folder / "links.parquet", LINKS) as out:
            out.write_table(look.linked().to_arrow(compat_level=pl.CompatLevel.oldest()).cast(LINKS))
    write_rows(task.folder / "quarantine.parquet", table_schemas.QUARANTINE.schema, made.aside)
    counted = {"documents": documents, "quarantined": len(made.aside), "text_bytes": text_bytes, "placed": look.placed}
    return {**counted, **made.write()}


def known_task(task: FindTask) -> dict[str, Any]:
    """The second round of one task: what the first one found, and what its finders find now that the whole corpus was looked at."""
    assert task.before is not None
    names = pa.array(list(every_kind()), pa.string())
    look = _Look(task, None)
    made = _Made(task, names)
    made.carry(task.before)
    before = pl.DataFrame(pq.read_table(task.before.occurrences, partitioning=None)).with_columns(
        pl.col("kind").cast(pl.String), pl.col("finder").cast(pl.String), pl.col("section").cast(pl.String)
    )
    numbers = before["doc_no"].to_numpy()
    entities = pl.read_parquet(task.before.entities, glob=False).sort("value_id")
    wanted = [*dict.fromkeys(leaf.column for leaf in task.leaves)]
    with table_writer(task.folder / "occurrences.parquet", table_schemas.OCCURRENCES.schema) as out, look:
        for table in task.documents.read(task.first, task.last, wanted):
            table = table.combine_chunks()
            doc_no = np.asarray(table.column("doc_no"), np.int64)
            if task.set_aside:
                table = table.filter(pa.array(~np.isin(doc_no, np.array(task.set_aside, np.int64)))).combine_chunks()
                doc_no = np.asarray(table.column("doc_no"), np.int64)
            if not table.num_rows:
                continue
            low, high = np.searchsorted(numbers, [doc_no[0], doc_no[-1] + 1])
            here = before[int(low) : int(high)]
            batch = _Rows(task, names, doc_no, entities)
            for column in cells_of(table, list(task.leaves)):
                which = pl.DataFrame(
                    {"doc_no": doc_no[column.flat.rows], "cell": column.cells, "text_no": np.arange(len(column.cells))},
                    schema={"doc_no": pl.Int64, "cell": pl.Int32, "text_no": pl.Int64},
                )
                mine = here.join(which, on=["doc_no", "cell"], how="inner", maintain_order="left")
                batch.add(look.second(column.flat.texts, mine), column.flat.rows, column.cells)
            made.add(batch, out)
    return made.write()


@dataclass(frozen=True, repr=False)
class _Seen:
    """Occurrences in a column of texts, sorted by (text, start, longest first). `kind` is a number in the list of all kinds, `finder` in
    the task's; `section` indexes `section_names`, -1 outside mail. `values` has the spellings: value_id, kind, value, normalised."""

    text_no: I64
    start_byte: I64
    stop_byte: I64
    start: I64
    stop: I64
    kind: I32
    value_id: I64
    section: I32
    section_names: list[str]
    finder: I32
    score: npt.NDArray[np.float32]
    values: pl.DataFrame
    skipped: dict[tuple[int, str], int]

    def shown(self) -> pl.DataFrame:
        """What the next finder sees of them."""
        frame = pl.DataFrame({name: getattr(self, name) for name in _SHOWN})
        return frame.with_columns(pl.Series("kind", list(every_kind()), dtype=pl.String).gather(frame["kind"]))


_NO_VALUES = pl.DataFrame(schema={"value_id": pl.Int64, "kind": pl.Int32, "value": pl.String, "normalised": pl.String})


class _Look:
    """The finders of one task at work, from `with` to its end."""

    def __init__(self, task: FindTask, finder: Seeker | None) -> None:
        self.task, self.finder = task, finder
        self.uses = [one.use for one in task.sought.finders]
        self.numbers = {name: number for number, name in enumerate(every_kind())}
        second = task.before is not None
        self.others = [(number, one) for number, one in enumerate(task.sought.finders) if one.use != patterns.NAME and one.second == second]
        self.sealed = self.uses.index(patterns.NAME) if patterns.NAME in self.uses else -1
        self.placed: dict[str, int] = {}  # by finder, for those that are given spans from outside
        self._links: list[pl.DataFrame] = []
        self._told: list[tuple[int, Spans]] = []  # what the finders told of the batch at work
        self._unread = np.empty(0, np.int64)

    def __enter__(self) -> _Look:
        for _, one in self.others:
            one.open(self.task.key, self.task.before.gathered if self.task.before else None)
        return self

    def __exit__(self, *_: object) -> None:
        for _number, one in self.others:
            one.close()

    def linked(self) -> pl.DataFrame:
        """The distinct pairs of values that are one person's."""
        return pl.concat([pl.DataFrame(schema={"value_id": pl.Int64, "other": pl.Int64}), *self._links]).unique().sort("value_id", "other")

    def batch(self, table: pa.Table) -> tuple[pa.Table, list[tuple[CellColumn, _Seen]], list[int]]:
        """What the first round finds in a batch of documents: the batch without those that a finder could not look at, what was found in
        each column of cells, and the numbers of the documents left out. Where there are such, the others are looked at again."""
        unread: list[int] = []
        while True:
            doc_no, doc_id = np.asarray(table.column("doc_no"), np.int64), table.column("doc_id").chunk(0)
            self._told, gone, seen = [], np.zeros(table.num_rows, np.bool_), []
            for column in cells_of(table, list(self.task.leaves)):
                rows = column.flat.rows
                where = (doc_no[rows], doc_id.take(pa.array(rows)), column.cells) if self.others else (None, None, None)
                seen.append((column, self._first(column.flat.texts, *where)))
                gone[rows[self._unread]] = True
            if not gone.any():
                break
            unread += doc_no[gone].tolist()
            table = table.filter(pa.array(~gone)).combine_chunks()
            if not table.num_rows:
                return table, [], unread
        self._links += [spans.links for _, spans in self._told if spans.links is not None]
        for number, spans in self._told:
            if spans.placed:
                self.placed[self.uses[number]] = self.placed.get(self.uses[number], 0) + spans.placed
        return table, seen, unread

    def _first(self, texts: pa.LargeStringArray, doc_no: I64 | None, doc_id: pa.LargeStringArray | None, cell: I32 | None) -> _Seen:
        """What the first round finds in a column of texts."""
        texts = filled(texts)
        assert self.finder is not None
        seen = self._of_patterns(self.finder.run(texts if self.sealed >= 0 else texts.slice(0, 0)))
        return self._with_others(Column(texts, seen.shown() if self.others else pl.DataFrame(), doc_no, doc_id, cell), seen)

    def second(self, texts: pa.LargeStringArray, before: pl.DataFrame) -> _Seen:
        """What the second round finds beside `before`, rows of the table `occurrences` with the `text_no` of each."""
        texts = filled(texts)
        before = before.sort("text_no", "start_byte", -pl.col("stop_byte"), maintain_order=True)
        section = before["section"].unique(maintain_order=True).drop_nulls().to_list()
        place = {name: number for number, name in enumerate(section)}
        finder = {name: number for number, name in enumerate(self.uses)}
        columns = {name: before[name].to_numpy() for name in ("text_no", "start_byte", "stop_byte", "start", "stop", "value_id", "score")}
        seen = _Seen(
            **columns,
            kind=before["kind"].replace_strict(self.numbers, return_dtype=pl.Int32).to_numpy(),
            section=before["section"].replace_strict(place, default=-1, return_dtype=pl.Int32).fill_null(-1).to_numpy(),
            section_names=section,
            finder=before["finder"].replace_strict(finder, return_dtype=pl.Int32).to_numpy(),
            values=_NO_VALUES,
            skipped={},
        )
        self._told = []
        return self._with_others(Column(texts, seen.shown()), seen)

    def _of_patterns(self, found: patterns.Found) -> _Seen:
        assert self.finder is not None
        codes = np.array([self.numbers[one.name] for one in self.finder.kinds], np.int32)
        one, used = found.distinct, np.flatnonzero(np.bincount(found.which))
        value, normalised = (pl.Series(column.take(pa.array(used))) for column in (one.value, one.normalised))
        values = {"value_id": one.value_id[used], "kind": codes[one.kind[used]], "value": value, "normalised": normalised}
        return _Seen(
            text_no=found.text_no,
            start_byte=found.start_byte,
            stop_byte=found.stop_byte,
            start=found.start,
            stop=found.stop,
            kind=codes[one.kind[found.which]],
            value_id=one.value_id[found.which],
            section=found.section,
            section_names=found.section_names,
            finder=np.full(len(found.text_no), max(self.sealed, 0), np.int32),
            score=np.ones(len(found.text_no), np.float32) if found.score is None else found.score,
            values=pl.DataFrame(values, schema=_NO_VALUES.schema),
            skipped={(int(codes[kind]), reason): times for (kind, reason), times in found.skipped.items()},
        )

    def _with_others(self, column: Column, seen: _Seen) -> _Seen:
        """What stays of `seen` and of what the other finders find, by the rule of sanitize/stages/span_conflicts.py."""
        told = [(number, one.run(column)) for number, one in self.others]
        self._told += told
        self._unread = np.unique(np.concatenate([np.empty(0, np.int64), *(s.unread for _, s in told if s.unread is not None)]))
        for _, spans in told:
            for (name, reason), times in spans.refused.items():
                where = self.numbers[name], reason
                seen.skipped[where] = seen.skipped.get(where, 0) + times
        told = [(number, spans) for number, spans in told if len(spans.text_no)]
        if not told:
            return seen
        old = len(seen.text_no)

        def joined(mine: npt.NDArray[Any], theirs: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
            return np.concatenate([mine, *theirs]).astype(mine.dtype)

        claims = Claims(
            text_no=joined(seen.text_no, [spans.text_no for _, spans in told]),
            start=joined(seen.start_byte, [spans.start_byte for _, spans in told]),
            stop=joined(seen.stop_byte, [spans.stop_byte for _, spans in told]),
            kind=joined(seen.kind, [np.array([self.numbers[name] for name in s.kinds], np.int32)[s.kind] for _, s in told]),
            finder=joined(seen.finder, [np.full(len(spans.text_no), number) for number, spans in told]),
            score=joined(seen.score, [spans.score for _, spans in told]),
            sealed=self.sealed,
        )
        given = joined(
            np.full(old, -1, np.int64),
            [np.full(len(spans.text_no), -1) if spans.value_id is None else spans.value_id for _, spans in told],
        )
        stay, lost = settle(claims)
        skipped = dict(seen.skipped)
        for kind, times in enumerate(np.bincount(claims.kind[lost], minlength=1).tolist()):
            if times:
                skipped[kind, "overlap"] = skipped.get((kind, "overlap"), 0) + times
        new = stay[stay >= old]
        fresh = self._described(column.texts, claims.take(new), given[new])
        columns: dict[str, Any] = {}
        for name in ("text_no", "start_byte", "stop_byte", "start", "stop", "kind", "value_id", "section", "finder", "score"):
            columns[name] = joined(getattr(seen, name), [getattr(fresh, name)])
        # the sections of both under one list of names
        names = [*dict.fromkeys([*seen.section_names, *fresh.section_names])]
        number = {name: place for place, name in enumerate(names)}
        moved = [np.array([*(number[name] for name in one.section_names), -1], np.int32)[one.section] for one in (seen, fresh)]
        columns["section"] = np.concatenate(moved)
        # rows of `seen` as they are, then the new ones in their order
        rank = np.empty(len(claims.text_no), np.int64)
        rank[new] = old + np.arange(len(new))
        place = np.where(stay < old, stay, rank[stay])
        kept = {name: column[place] for name, column in columns.items()}
        values = pl.concat([seen.values, fresh.values])
        if len(lost):
            values = values.filter(pl.col("value_id").is_in(pl.Series(np.unique(kept["value_id"])).implode()))
        return _Seen(**kept, section_names=names, values=values, skipped=skipped)

    def _described(self, texts: pa.LargeStringArray, claims: Claims, given: I64) -> _Seen:
        """Offsets, sections and values of spans, which are sorted."""
        buffers = Buffers.of(texts)
        base = buffers.offsets[claims.text_no]
        low, high = base + claims.start, base + claims.stop
        where = sections(buffers, claims.text_no, low)
        start, stop = code_points(buffers, claims.text_no, low, high)
        encoded = cut_nested(buffers, low, high).dictionary_encode()
        code = np.asarray(encoded.indices, np.int64)
        value_id = np.empty(len(low), np.int64)
        frames = [_NO_VALUES]
        for number in np.unique(claims.kind).tolist():
            mine = np.flatnonzero(claims.kind == number)
            used, back = np.unique(code[mine], return_inverse=True)
            one, value = list(every_kind().values())[number], pl.Series(encoded.dictionary.take(pa.array(used)))
            form = one.normalise(value)
            ids = value_ids(arrow(form), one.name, self.task.key)[back]
            value_id[mine] = np.where(given[mine] >= 0, given[mine], ids)
            rows = {
                "value_id": value_id[mine],
                "kind": np.full(len(mine), number),
                "value": value.gather(back),
                "normalised": form.gather(back),
            }
            frames.append(pl.DataFrame(rows, schema=_NO_VALUES.schema).unique(["value_id", "value"], maintain_order=True))
        return _Seen(
            text_no=claims.text_no,
            start_byte=claims.start,
            stop_byte=claims.stop,
            start=start,
            stop=stop,
            kind=claims.kind,
            value_id=value_id,
            section=where.index,
            section_names=where.names,
            finder=claims.finder,
            score=claims.score,
            values=pl.concat(frames),
            skipped={},
        )


class _Made:
    """What a task has made so far."""

    def __init__(self, task: FindTask, names: pa.Array) -> None:
        self.task, self.names = task, names
        self.partial: list[pl.DataFrame] = []
        self.values: list[pl.DataFrame] = []
        self.skipped: dict[tuple[int, str], int] = {}
        self.aside: list[tuple[int, str, str, str]] = []
        self.holding = np.zeros(len(names), np.int64)
        self.carried = False

    def carry(self, before: FirstRound) -> None:
        """Values and refused candidates of the first round."""
        numbers = {name: number for number, name in enumerate(self.names.to_pylist())}
        frame = pl.DataFrame(pq.read_table(before.values, partitioning=None)).with_columns(
            pl.col("kind").cast(pl.String).replace_strict(numbers, return_dtype=pl.Int32),
            pl.coalesce("normalised", "value").alias("normalised"),
        )
        self.values.append(frame.select(_NO_VALUES.columns))
        for row in pq.read_table(before.skipped, partitioning=None).to_pylist():
            self.skipped[numbers[row["kind"]], row["reason"]] = row["candidates"]
        self.carried = True

    def add(self, batch: _Rows, out: pq.ParquetWriter) -> None:
        """Write the rows of a batch, and count them."""
        if batch.parts:
            rows = batch.table()
            out.write_table(rows, row_group_size=rows.num_rows)
            self.partial.append(batch.counts())
            self.holding += batch.holding()
            self.values.append(batch.values())
        for where, times in batch.skipped.items():
            self.skipped[where] = self.skipped.get(where, 0) + times

    def write(self) -> dict[str, Any]:
        """Write the tables of the task; returns what is told of its kinds."""
        folder, names = self.task.folder, self.names
        counts = _merge(self.partial)
        _write(folder / "partial_counts.parquet", table_schemas.VALUE_COUNTS, counts, names)
        spellings = pl.concat(self.values).unique(["value_id", "value"], maintain_order=True) if self.values else None
        if self.carried and spellings is not None:  # what lost to a span of the second round has no place in the vault
            there = counts["value_id"] if counts is not None else pl.Series([], dtype=pl.Int64)
            spellings = spellings.filter(pl.col("value_id").is_in(there.implode()))
        _write(folder / "values.parquet", table_schemas.VALUES, spellings, names)
        write_rows(
            folder / "skipped.parquet",
            table_schemas.SKIPPED.schema,
            [(names[kind].as_py(), reason, times) for (kind, reason), times in sorted(self.skipped.items())],
        )
        by_kind: dict[str, int] = {}
        if counts is not None:
            summed = counts.group_by("kind").agg(pl.col("occurrences").sum())
            by_kind = {names[kind].as_py(): times for kind, times in summed.sort("kind").iter_rows()}
        held = {name: int(times) for name, times in zip(names.to_pylist(), self.holding, strict=True) if times}
        return {"by_kind": by_kind, "documents_by_kind": held}


def _readable(table: pa.Table, task: FindTask) -> tuple[npt.NDArray[np.bool_], list[tuple[int, str, str, str]]]:
    """Which rows can be worked on; the others with source, place and reason. Records set aside when staged are only left out."""
    good = np.ones(table.num_rows, np.bool_)
    numbers = np.asarray(table.column("doc_no"), np.int64)
    if task.set_aside:
        good &= ~np.isin(numbers, np.array(task.set_aside, np.int64))
    bad = []
    for row, reason in sorted(faults(table.drop_columns(["doc_no"]).to_batches()[0], task.max_doc_bytes).items()):
        if good[row]:
            bad.append(task.aside(int(numbers[row]), reason))
            good[row] = False
    return good, bad


class _Rows:
    """The occurrences of one batch, gathered over its leaves."""

    def __init__(self, task: FindTask, names: pa.Array, doc_no: I64, entities: pl.DataFrame | None = None) -> None:
        self.names, self.uses, self.doc_no, self.entities = names, [one.use for one in task.sought.finders], doc_no, entities
        self.parts: list[tuple[_Seen, I64, npt.NDArray[np.int32]]] = []
        self.skipped: dict[tuple[int, str], int] = {}
        self._sorted: dict[str, npt.NDArray[Any]] = {}

    def add(self, seen: _Seen, rows: I64, cells: npt.NDArray[np.int32]) -> None:
        for where, times in seen.skipped.items():
            self.skipped[where] = self.skipped.get(where, 0) + times
        if len(seen.text_no):
            self.parts.append((seen, self.doc_no[rows[seen.text_no]], cells[seen.text_no]))

    def table(self) -> pa.Table:
        """The rows of the table `occurrences`, sorted."""
        sections = sorted({name for seen, _, _ in self.parts for name in seen.section_names})
        number = {name: place for place, name in enumerate(sections)}
        columns: dict[str, list[npt.NDArray[Any]]] = {}
        for seen, doc_no, cell in self.parts:
            lookup = np.array([*(number[name] for name in seen.section_names), -1], np.int32)
            columns.setdefault("doc_no", []).append(doc_no)
            columns.setdefault("cell", []).append(cell)
            columns.setdefault("section", []).append(lookup[seen.section])
            for name in ("start", "stop", "start_byte", "stop_byte", "kind", "value_id", "finder", "score"):
                columns.setdefault(name, []).append(getattr(seen, name))
        joined = {name: np.concatenate(parts) if len(parts) > 1 else parts[0] for name, parts in columns.items()}
        if len(self.parts) > 1:
            order = np.lexsort((-joined["stop"], joined["start"], joined["cell"], joined["doc_no"]))
            joined = {name: column[order] for name, column in joined.items()}
        self._sorted = joined
        section = pa.array(joined["section"].astype(np.int32), mask=joined["section"] < 0)
        arrays: dict[str, pa.Array] = {
            **{
                name: pa.array(joined[name]) for name in ("doc_no", "cell", "start", "stop", "start_byte", "stop_byte", "value_id", "score")
            },
            "kind": pa.DictionaryArray.from_arrays(pa.array(joined["kind"].astype(np.int32)), self.names),
            "finder": pa.DictionaryArray.from_arrays(pa.array(joined["finder"].astype(np.int32)), pa.array(self.uses)),
            "section": pa.DictionaryArray.from_arrays(section, pa.array(sections, pa.string())),
            "entity_id": self._entity_ids(joined["value_id"]),
        }
        return pa.table([arrays[name] for name in table_schemas.OCCURRENCES.schema.names], schema=table_schemas.OCCURRENCES.schema)

    def _entity_ids(self, value_id: I64) -> pa.Array:
        """Whose each value is, null where that is unknown."""
        if self.entities is None or not self.entities.height:
            return pa.nulls(len(value_id), pa.int64())
        known = self.entities["value_id"].to_numpy()
        at = np.minimum(np.searchsorted(known, value_id), len(known) - 1)
        return pa.array(self.entities["entity_id"].to_numpy()[at], mask=known[at] != value_id)

    def counts(self) -> pl.DataFrame:
        """The batch's share of `value_counts`; call after `table`."""
        rows = self._sorted
        order = np.argsort(rows["value_id"], kind="stable")
        value_id, doc_no = rows["value_id"][order], rows["doc_no"][order]
        new_value = np.diff(value_id, prepend=-1) != 0
        new_document = new_value | (np.diff(doc_no, prepend=-1) != 0)
        at = np.flatnonzero(new_value)
        first = order[at]
        return pl.DataFrame(
            {
                "value_id": value_id[at],
                "kind": rows["kind"][first].astype(np.int32),
                "occurrences": np.diff(np.append(at, len(order))),
                "documents": np.add.reduceat(new_document.astype(np.int64), at) if len(at) else np.empty(0, np.int64),
                "first_doc_no": rows["doc_no"][first],
                "first_cell": rows["cell"][first],
                "first_start": rows["start"][first],
            }
        )

    def holding(self) -> I64:
        """How many documents hold each kind; call after `table`."""
        rows = self._sorted
        document = rows["doc_no"] - rows["doc_no"][0]  # a batch has few
        held = np.zeros((int(document[-1]) + 1, len(self.names)), np.bool_)
        held[document, rows["kind"]] = True
        return np.asarray(held.sum(axis=0), np.int64)

    def values(self) -> pl.DataFrame:
        """The batch's spellings, for the vault."""
        return pl.concat([seen.values for seen, _, _ in self.parts])


def _merge(partial: list[pl.DataFrame]) -> pl.DataFrame | None:
    """Counts of batches added up; batches hold different documents and stand in corpus order."""
    if not partial:
        return None
    rest = ("kind", "first_doc_no", "first_cell", "first_start")
    return (
        pl.concat(partial)
        .group_by("value_id", maintain_order=True)
        .agg(pl.col("occurrences").sum(), pl.col("documents").sum(), *(pl.col(name).first() for name in rest))
        .sort("value_id")
    )


def _write(path: Path, table: table_schemas.Table, frame: pl.DataFrame | None, names: pa.Array) -> None:
    """Write a frame whose `kind` is an index into `names` as one of the house's tables."""
    with table_writer(path, table.schema) as out:
        if frame is None or not frame.height:
            out.write_table(table.schema.empty_table())
            return
        arrays = []
        for field in table.schema:
            column = frame[field.name].to_arrow(compat_level=pl.CompatLevel.oldest())
            if field.name == "kind":
                column = pa.DictionaryArray.from_arrays(column.cast(pa.int32()), names)
            if field.name == "normalised":
                column = pc.if_else(pc.equal(column, frame["value"].to_arrow(compat_level=pl.CompatLevel.oldest())), None, column)
            arrays.append(column.cast(field.type))
        out.write_table(pa.table(arrays, schema=table.schema), row_group_size=100_000)


@functools.cache
def kinds_hash() -> str:
    """The files of the kinds, as part of the index's fingerprint: what a kind takes and refuses is told by functions as much as by its
    pattern, and by what they share."""
    hash_ = hashlib.blake2b(digest_size=8)
    folder = resources.files("sanitize") / "kinds"
    for place in (folder, folder / "countries"):
        for file in sorted(place.iterdir(), key=lambda one: one.name):
            if file.name.endswith(".py"):
                hash_.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return hash_.hexdigest()
