"""One batch of a stream: occurrences, what the editors make of them against what was seen, and a look at the outcome before it counts.

    find -> which stay -> edit and apply -> look for what had to go -> sweep once -> set aside what still holds it

A pure function of the batch and of what stands before it; nothing here touches the disk. The leak check looks for every value of the batch
that had to go, in each of its spellings and in the forms of the fast check, with that check's own matcher.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from sanitize.core.arrow_buffers import Buffers, arrow, ascii_lower, code_points, filled
from sanitize.core.keys import Key
from sanitize.core.parts import Counts, Editor
from sanitize.core.text_cells import Leaf
from sanitize.finders import patterns
from sanitize.kinds.kind import every_kind
from sanitize.pipeline.streaming.component_log import Stores
from sanitize.pipeline.streaming.records import Sheaf
from sanitize.pipeline.streaming.value_log import MADE, REAL, Seen, times_of
from sanitize.plans.plan import Plan
from sanitize.stages.rewriting import ApplyTask, Occurrences, Sheet
from sanitize.stages.scanner import Seeker
from sanitize.storage.corpus import CellColumn, Documents, cells_of
from sanitize.text.literal_search import Flagged, Matches, respelled
from sanitize.verification.attribution import inside_kept, owned_by
from sanitize.verification.leak_check import opaque_of

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_SPANS = ("doc_no", "cell", "start", "stop", "start_byte", "stop_byte")


class Past:
    """What a stream has seen before a batch, and of the batch itself (`part.Past`)."""

    def __init__(self, seen: Seen, stores: Stores | None) -> None:
        self.seen, self._stores = seen, stores
        self._ids = self._first = np.empty(0, np.int64)
        self.fresh: list[I64] = []

    def begin(self, ids: I64, first: I64) -> None:
        """A batch with these values (ascending), and the document of the first occurrence of each."""
        self._ids, self._first, self.fresh = ids, first, []

    def taken(self, ids: I64, doc_no: I64) -> Mask:
        """True for ids of values up to that document, and of variants made before this batch."""
        there: Mask = self.seen.tags(ids) != 0
        if len(self._ids):
            at = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
            there |= (self._ids[at] == ids) & (self._first[at] <= doc_no)
        return there

    def made(self, ids: I64) -> Mask:
        """True for ids of variants made before this batch."""
        found: Mask = (self.seen.tags(ids) & MADE) != 0
        return found

    def make(self, ids: I64) -> None:
        """Remember the variants of this batch, once it counts."""
        self.fresh.append(ids)

    def parts(self, kind: str, part: str) -> tuple[pa.LargeStringArray, I64] | None:
        """What variants of a part are drawn from."""
        return None if self._stores is None else self._stores.of(kind, part)


@dataclass(frozen=True, repr=False)
class Outcome:
    """A batch that is done: its table with the new texts, the rows of it that differ, and the documents that had to be set aside.

    `seen` and `tags` are what is to be added to what was seen; `by_kind` counts occurrences, kept ones, and those that the plan leaves.
    """

    table: pa.Table
    edited: I64
    gone: list[int]
    seen: I64
    tags: npt.NDArray[np.uint32]
    by_kind: dict[str, dict[str, int]]
    swept: int


@dataclass(frozen=True, repr=False)
class _Found:
    """All occurrences of a batch in corpus order, with the values behind them."""

    spans: dict[str, I64]  # by the names in _SPANS
    kind: npt.NDArray[np.int32]
    value_id: I64
    values: pl.DataFrame  # value_id, kind, value, normalised: one row a spelling

    def of(self, rows: I64 | Mask) -> _Found:
        """Some of them."""
        return _Found({name: column[rows] for name, column in self.spans.items()}, self.kind[rows], self.value_id[rows], self.values)


@dataclass(repr=False)
class Batchwise:
    """A plan at work on one batch after the other."""

    plan: Plan
    key: Key
    past: Past
    stores: Stores | None
    folder: Path
    checked: Mask = field(init=False)

    def __post_init__(self) -> None:
        # `Found.kind` counts those that the finder looks for, `Flagged.kind` all there are
        self.names = [kind.name for kind in Seeker(self.key, self.plan.sought).kinds]
        every = list(every_kind())
        self.number = np.array([every.index(name) for name in self.names], np.int32)
        self.place = np.full(len(every), -1, np.int32)
        self.place[self.number] = np.arange(len(self.names))
        self.checked = np.isin(self.names, self.plan.checked)
        self.opaque = opaque_of(self.plan.leave)
        self.grown = [kind for editor in self.plan.editors for kind in editor.kinds if getattr(editor, "stores", "curated") != "curated"]
        for editor in self.plan.editors:
            editor.open(self.key, Counts({}))
            if editor.ordered:
                editor.follow(self.past)

    def run(
        self,
        sheaf: Sheaf,
        columns: Sequence[CellColumn],
        founds: Sequence[patterns.Found],
        holds: Callable[[int, set[str]], bool] = lambda row, names: False,
    ) -> Outcome:
        """One batch: the sheaf, its cells, and what the finder found in each of them; `holds` says whether a row of the lot has a field of
        one of some names."""
        numbers = np.asarray(sheaf.table.column("doc_no"), np.int64)
        found = self._gathered(numbers, columns, founds)
        flagged = self._flagged(found.values)
        aside: set[int] = set()
        sweep: list[tuple[int, int, int, int, int]] = []
        total = 0
        while True:
            left = ~np.isin(numbers, list(aside))
            table = sheaf.table if left.all() else _some(sheaf.table, left)
            here = found if left.all() else found.of(~np.isin(found.spans["doc_no"], list(aside)))
            attempt = _Attempt(self, table, sheaf, here, [one for one in sweep if one[0] not in aside], flagged)
            if attempt.names:
                rows = zip(numbers.tolist(), sheaf.rows.tolist(), strict=True)
                attempt.leaks |= {doc_no for doc_no, row in rows if doc_no not in aside and holds(row, attempt.names)}
            if not attempt.leaks and not attempt.residual:
                break
            # a second sweep would find what a first one made; what is left then is set aside, as is what cannot be swept
            aside |= {int(doc_no) for doc_no in attempt.leaks}
            if attempt.residual and not sweep:
                sweep = attempt.residual
                total = len(sweep)
            else:
                aside |= {one[0] for one in attempt.residual}
        edited = np.searchsorted(np.asarray(table.column("doc_no")), np.unique(attempt.sheet.edits.column("doc_no")))
        fresh = np.concatenate([np.empty(0, np.int64), *self.past.fresh])
        known = self.past.seen.tags(attempt.ids)
        news = ((known & REAL) == 0) | ((attempt.times > 0) & (times_of(known) < self.past.seen.most))
        ids = np.concatenate([attempt.ids[news], fresh])
        tags = np.concatenate([attempt.times[news].astype(np.uint32) | REAL, np.full(len(fresh), MADE, np.uint32)])
        return Outcome(attempt.sheet.table, edited, sorted(aside), ids, tags, attempt.tally(), total)

    def _gathered(self, numbers: I64, columns: Sequence[CellColumn], founds: Sequence[patterns.Found]) -> _Found:
        """The occurrences of all cells as one, in order."""
        parts: dict[str, list[npt.NDArray[Any]]] = {name: [np.empty(0, np.int64)] for name in (*_SPANS, "kind", "value_id")}
        frames = [pl.DataFrame(schema={"value_id": pl.Int64, "kind": pl.Int32, "value": pl.String, "normalised": pl.String})]
        for column, one in zip(columns, founds, strict=True):
            if not len(one.text_no):
                continue
            parts["doc_no"].append(numbers[column.flat.rows[one.text_no]])
            parts["cell"].append(column.cells[one.text_no].astype(np.int64))
            for name in _SPANS[2:]:
                parts[name].append(getattr(one, name))
            parts["kind"].append(one.distinct.kind[one.which])
            parts["value_id"].append(one.distinct.value_id[one.which])
            used = pa.array(np.flatnonzero(np.bincount(one.which, minlength=len(one.distinct.kind))))
            texts = {name: pl.Series(getattr(one.distinct, name).take(used)) for name in ("value", "normalised")}
            frames.append(pl.DataFrame({"value_id": one.distinct.value_id[used], "kind": one.distinct.kind[used], **texts}))
        joined = {name: np.concatenate(some) for name, some in parts.items()}
        if sum(len(one.text_no) > 0 for one in founds) > 1:
            order = np.lexsort((-joined["stop"], joined["start"], joined["cell"], joined["doc_no"]))
            joined = {name: column[order] for name, column in joined.items()}
        kind, value_id = joined.pop("kind").astype(np.int32), joined.pop("value_id")
        return _Found(joined, kind, value_id, pl.concat(frames))

    def _flagged(self, values: pl.DataFrame) -> Flagged | None:
        """What is looked for: all spellings of the values of the batch whose kinds are edited, in the forms of the fast check."""
        goes = values.filter(pl.Series(self.checked[values["kind"].to_numpy()]))
        for number, name in enumerate(self.names):
            tells = every_kind()[name].telling
            if tells is not None:
                mine = goes["kind"] == number
                goes = goes.filter(~mine | mine.clone().scatter(mine.arg_true(), tells(goes.filter(mine)["normalised"])))
        if not goes.height:
            return None
        goes = goes.rename({"value": "form"})
        every = pl.concat([goes.with_columns(ascii_lower(goes["form"])), respelled(goes)])
        forms = every.filter(pl.col("form") != "").unique(["form", "kind"], keep="first", maintain_order=True)
        return Flagged(arrow(forms["form"]), self.number[forms["kind"].to_numpy()], forms["value_id"].to_numpy())

    def kept(self, found: _Found) -> tuple[tuple[Mask, ...], I64, I64, I64, I64]:
        """For each editor which occurrences stay; all values ascending, with the first document, how often they stand as a part that keeps
        some counts them, and the row of their first occurrence."""
        order = np.argsort(found.value_id, kind="stable")
        new = np.flatnonzero(np.diff(found.value_id[order], prepend=-1))
        ids, rows = found.value_id[order[new]], order[new]
        group = np.zeros(len(order), np.int64)
        group[order] = np.repeat(np.arange(len(new)), np.diff(np.append(new, len(order))))
        times = np.zeros(len(ids), np.int64)
        left = np.ones(len(order), np.bool_)
        taken: set[str] = set()
        flags = []
        before: I64 | None = None
        for number, editor in enumerate(self.plan.editors):
            mine = np.isin(found.kind, [self.names.index(name) for name in editor.kinds if name not in taken])
            taken |= set(editor.kinds)
            stays = np.zeros(len(order), np.bool_)
            if editor.keep and "firsts" in editor.needs:
                before = times_of(self.past.seen.tags(ids)) if before is None else before
                counted = np.flatnonzero(mine & left)
                by_value = counted[np.argsort(group[counted], kind="stable")]
                edges = np.flatnonzero(np.diff(group[by_value], prepend=-1))
                nth = np.arange(len(by_value)) - np.repeat(edges, np.diff(np.append(edges, len(by_value))))
                stays[by_value[nth + before[group[by_value]] < editor.keep]] = True
                times += np.bincount(group[counted], minlength=len(ids))
            flags.append(stays)
            if any(later.keep for later in self.plan.editors[number + 1 :]):
                left &= ~_touched(found, mine & left & ~stays)
        return tuple(flags), ids, found.spans["doc_no"][rows], times, rows


def _some(table: pa.Table, rows: Mask) -> pa.Table:
    """Some rows of a table of one batch, as one batch, also where none is left."""
    return table.filter(pa.array(rows)).combine_chunks() if rows.any() else table.schema.empty_table()


def most_kept(editors: Sequence[Editor]) -> int:
    """How often an occurrence of a value has to be counted."""
    return max((editor.keep for editor in editors), default=0)


def _touched(found: _Found, claimed: Mask) -> Mask:
    """True for occurrences that share a byte with a claimed one."""
    spans = found.spans
    new = (np.diff(spans["doc_no"], prepend=-1) != 0) | (np.diff(spans["cell"], prepend=-1) != 0)
    cell = np.cumsum(new).astype(np.int64) << 40
    start, stop = cell + spans["start_byte"], cell + spans["stop_byte"]
    rows = np.flatnonzero(claimed)
    if not len(rows):
        return claimed
    reach = np.maximum.accumulate(stop[rows])
    at = np.searchsorted(start[rows], stop, side="left") - 1
    hit: Mask = (at >= 0) & (reach[np.maximum(at, 0)] > start)
    return hit


class _Attempt:
    """A batch rewritten once, and what the check sees in it: `leaks` (documents), and `residual`, which a sweep can take."""

    def __init__(
        self,
        whole: Batchwise,
        table: pa.Table,
        sheaf: Sheaf,
        found: _Found,
        sweep: Sequence[tuple[int, int, int, int, int]],
        flagged: Flagged | None,
    ) -> None:
        self.whole, self.found, self.flagged = whole, found, flagged
        kept, self.ids, self.first, self.times, rows = whole.kept(found)
        whole.past.begin(self.ids, self.first)
        if whole.stores is not None:
            whole.stores.forget()
            self._offer(whole.stores, rows)
        self.task = ApplyTask(
            no=0,
            first=0,
            last=0,
            documents=Documents(sources=(), schema=table.schema, main=sheaf.leaves[0]),
            leaves=sheaf.leaves,
            policies={},
            key=whole.key,
            editors=tuple(whole.plan.editors),
            counts=(),
            occurrences=(),
            by_position=False,
            gone=(),
            folder=whole.folder,
        )
        self.leaves = list(sheaf.leaves)
        self.sheet = Sheet(self.task, table, self._occurrences(table, kept, sweep))
        self.leaks: set[int] = set()
        self.names: set[str] = set()
        self.residual: list[tuple[int, int, int, int, int]] = []
        if flagged is not None:
            self._look(flagged, sheaf)

    def _offer(self, stores: Stores, rows: I64) -> None:
        """The parts of values that are new, in order of appearance."""
        new = np.flatnonzero((self.whole.past.seen.tags(self.ids) & REAL) == 0)
        new = new[np.argsort(rows[new])]
        for name in self.whole.grown:
            mine = new[self.found.kind[rows[new]] == self.whole.names.index(name)]
            if len(mine):
                wanted = pl.DataFrame({"value_id": self.ids[mine], "doc_no": self.first[mine]})
                forms = self.found.values.unique("value_id", keep="first", maintain_order=True)
                both = wanted.join(forms, on="value_id", how="left", maintain_order="left")
                stores.offer(name, arrow(both["normalised"]), both["doc_no"].to_numpy())

    def _occurrences(self, table: pa.Table, kept: tuple[Mask, ...], sweep: Sequence[tuple[int, int, int, int, int]]) -> Occurrences:
        """Those of edited kinds, and what is swept; an original cannot stay where a swept value reaches into it."""
        whole, found = self.whole, self.found
        edited = np.isin(found.kind, [whole.names.index(name) for name in whole.plan.edited])
        columns = {name: column[edited] for name, column in found.spans.items()}
        kind, value_id = found.kind[edited], found.value_id[edited]
        flags = [one[edited] for one in kept]
        swept = np.zeros(len(kind), np.bool_)
        if sweep:
            assert self.flagged is not None
            doc_no, cell, low, high, form = (np.array(column, np.int64) for column in zip(*sweep, strict=True))
            points = _points(table, self.leaves, doc_no, cell, low, high)
            more = dict(zip(_SPANS, (doc_no, cell, *points, low, high), strict=True))
            order = np.lexsort(
                (
                    -np.concatenate([columns["stop_byte"], high]),
                    *(np.concatenate([columns[name], more[name]]) for name in ("start_byte", "cell", "doc_no")),
                )
            )
            for one in zip(doc_no, cell, low, high, strict=True):
                here = (columns["doc_no"] == one[0]) & (columns["cell"] == one[1])
                here &= (columns["start_byte"] < one[3]) & (columns["stop_byte"] > one[2])
                flags = [flag & ~here for flag in flags]
            columns = {name: np.concatenate([columns[name], more[name]])[order] for name in columns}
            kind = np.concatenate([kind, whole.place[self.flagged.kind[form]]])[order]
            value_id = np.concatenate([value_id, self.flagged.value_id[form]])[order]
            flags = [np.concatenate([flag, np.zeros(len(form), np.bool_)])[order] for flag in flags]
            swept = np.concatenate([swept, np.ones(len(form), np.bool_)])[order]
        columns["cell"] = columns["cell"].astype(np.int32)
        return Occurrences(
            **columns,  # type: ignore[arg-type]
            kind=kind,
            value_id=value_id,
            swept=swept,
            erased=np.zeros(len(kind), np.bool_),
            kept=tuple(flags),
            names=pa.array(whole.names, pa.string()),
        )

    def _look(self, flagged: Flagged, sheaf: Sheaf) -> None:
        """What had to go, wherever it still stands: in the texts, in texts that are kept, and in the names of fields."""
        table, here = self.sheet.table, pl.DataFrame(self.sheet.kept)
        doc_no = np.asarray(table.column("doc_no"), np.int64)
        rest: list[tuple[I64, I64, I64, I64, I64]] = []
        for column in cells_of(table, self.leaves):
            texts = filled(column.flat.texts)
            for seen_at in _matches(flagged, texts):
                docs, cells = doc_no[column.flat.rows[seen_at.text_no]], column.cells[seen_at.text_no].astype(np.int64)
                inside, _ = inside_kept(here, docs, cells, seen_at.start, seen_at.stop)
                out = np.flatnonzero(~inside)
                rest.append((docs[out], cells[out], seen_at.start[out], seen_at.stop[out], seen_at.form[out]))
        if rest:
            self._sort_out(flagged, *(np.concatenate(parts) for parts in zip(*rest, strict=True)))
        numbers = sheaf.table.column("doc_no").to_numpy()
        offset = int(numbers[0]) - int(sheaf.rows[0]) if len(numbers) else 0
        there = set(doc_no.tolist())
        for texts, rows in sheaf.kept:
            for seen_at in _matches(flagged, texts):
                self.leaks |= {row for one in seen_at.text_no if (row := int(rows[one]) + offset) in there}
        names = pa.array(sheaf.names, pa.large_string())
        self.names = {sheaf.names[one] for seen_at in _matches(flagged, names) for one in seen_at.text_no.tolist()}

    def _sort_out(self, flagged: Flagged, doc_no: I64, cell: I64, start: I64, stop: I64, form: I64) -> None:
        """What can be swept, in bytes of the input text, and what is a leak: a match that is all of a replacement. A match strictly inside
        a replacement, or inside an opaque value that the plan leaves, belongs to that; so does one that is a value of a later document."""
        if not len(doc_no):
            return
        spans = {name: self.found.spans[name] for name in ("doc_no", "cell", "start_byte", "stop_byte")}
        every = pl.DataFrame(
            {**spans, "kind": pl.Series(np.array(self.whole.names, object)[self.found.kind], dtype=pl.String)},
            schema_overrides={"cell": pl.Int32},
        )
        whose = owned_by(pl.DataFrame(self.sheet.edits), every, self.whole.opaque, doc_no, cell, start, stop)
        ids = flagged.value_id[form]
        at = np.minimum(np.searchsorted(self.ids, ids), max(len(self.ids) - 1, 0))
        known = self.ids[at] == ids if len(self.ids) else np.zeros(len(ids), np.bool_)
        later = np.zeros(len(ids), np.bool_)
        later[known] = self.first[at[known]] > doc_no[known]
        later &= (self.whole.past.seen.tags(ids) & REAL) == 0
        self.leaks |= set(doc_no[whose.whole & ~later].tolist())
        rest = np.flatnonzero(~whose.inside_edit & ~whose.inside_opaque & ~whose.whole)
        columns = (doc_no[rest], cell[rest], whose.first[rest], -whose.last[rest], form[rest])
        spans_of = sorted(set(zip(*(column.tolist() for column in columns), strict=True)))
        done = (-1, -1, -1)
        for document, where, low, high, which in spans_of:  # few; the longest of two that begin together stays
            if (document, where) == done[:2] and -high <= done[2]:
                continue
            done = (document, where, -high)
            self.residual.append((document, where, low, -high, which))

    def tally(self) -> dict[str, dict[str, int]]:
        """By kind its occurrences, those that were kept, and those that the plan leaves."""
        counts: dict[str, dict[str, int]] = {}
        names, edited = self.whole.names, self.sheet.found
        left = self.found.kind[np.isin(self.found.kind, [names.index(name) for name in self.whole.plan.leave if name in names])]
        for what, kinds in (
            ("occurrences", np.concatenate([edited.kind, left])),
            ("kept", edited.kind[self.sheet.kept_rows]),
            ("left", left),
        ):
            for kind, times in enumerate(np.bincount(kinds, minlength=len(names)).tolist()):
                if times and kind < len(names):
                    counts.setdefault(names[kind], dict.fromkeys(("occurrences", "kept", "left"), 0))[what] += times
        return counts


def _matches(flagged: Flagged, texts: pa.LargeStringArray) -> list[Matches]:
    """Places of what had to go, in all forms of the fast check."""
    return [one for one in (flagged.find(texts), flagged.find_compatible(texts)) if len(one.form)]


def _points(table: pa.Table, leaves: list[Leaf], doc_no: I64, cell: I64, low: I64, high: I64) -> tuple[I64, I64]:
    """Code points for a few spans of cells, in bytes of the input text."""
    numbers = np.asarray(table.column("doc_no"), np.int64)
    start, stop = np.zeros(len(low), np.int64), np.zeros(len(low), np.int64)
    for column in cells_of(table, leaves):
        docs = numbers[column.flat.rows]
        for row in range(len(low)):  # rare: what the finder missed and the check found
            at = np.flatnonzero((docs == doc_no[row]) & (column.cells == cell[row]))
            if len(at):
                one = Buffers.of(pa.array([column.flat.texts[int(at[0])].as_py() or ""], pa.large_string()))
                (points,) = code_points(one, np.zeros(2, np.int64), np.array([low[row], high[row]]))
                start[row], stop[row] = points
    return start, stop
