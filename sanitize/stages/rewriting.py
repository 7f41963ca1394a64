"""Documents + occurrences + editors -> sanitized documents, the edits that made them, and where the kept originals stand.

A pure function of a task. Text is read once; editors see the occurrences of their kinds in whole documents; overlaps are settled; the
edits are spliced in one sweep per column. Every byte of text outside the edits is the input's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.core.arrow_buffers import Buffers, arrow, cut_nested, filled, splice
from sanitize.core.keys import Key, pseudonyms
from sanitize.core.parts import Batch, Counts, Editor, Rewrites, Sight
from sanitize.core.text_cells import Leaf, replaced
from sanitize.kinds.kind import every_kind
from sanitize.stages.prior_values import followed
from sanitize.stages.privacy_ledger import Spent
from sanitize.storage import table_schemas
from sanitize.storage.corpus import CellColumn, Documents, cells_of, table_writer, writer
from sanitize.storage.row_groups import Groups

I64 = npt.NDArray[np.int64]
SUBJECT = "subject"  # the part that erases a person, in `edits`
VERSION = 2  # raise it when emitted bytes change for the same input, plan and key

KEPT = pa.schema(
    [
        pa.field("doc_no", pa.int64()),
        pa.field("cell", pa.int32()),
        pa.field("start_byte", pa.int64()),
        pa.field("stop_byte", pa.int64()),
        pa.field("value_id", pa.int64()),
    ]
)


WORD = "WORD"  # the kind of an edit that belongs to no occurrence
_NO_VALUE = -1
ROWS = pa.schema([pa.field("doc_no", pa.int64())])


@dataclass(frozen=True, kw_only=True)
class ApplyTask:
    """One range of documents to be rewritten: one output shard."""

    no: int
    first: int
    last: int
    documents: Documents
    leaves: tuple[Leaf, ...]
    policies: Mapping[str, str]  # output column -> sanitize | keep | pseudonymize | drop
    key: Key
    editors: tuple[Editor, ...]
    counts: tuple[Counts, ...]
    occurrences: tuple[Path, ...]  # of this task: the index's, and what the sweep added
    by_position: bool  # draws hang on doc_no, because ids repeat
    gone: tuple[int, ...]  # quarantined and dropped documents of the range
    folder: Path
    erased: tuple[int, ...] = ()  # values of people who are to be forgotten: a label takes their place, whatever the plan says
    shunned: tuple[str, ...] = ()  # what stands before the @ in their addresses: no variant may say it again
    earlier: tuple[Path, ...] = ()  # for editors that are `ordered`: the variants that other tasks made

    @property
    def told(self) -> str:
        """The task in words, for an error."""
        return self.documents.told(self.first, self.last)


def output_schema(documents: Documents, policies: Mapping[str, str]) -> pa.Schema:
    """The schema of the output shards: the documents' columns without the dropped ones."""
    return pa.schema([field for field in documents.schema if policies[field.name] != "drop"])


def apply_task(task: ApplyTask) -> dict[str, Any]:
    """Rewrite one task; returns rows and bytes of the shard, and what happened to the occurrences of each kind."""
    for editor, counts in zip(task.editors, task.counts, strict=True):
        editor.open(task.key, counts)
    past = followed(task.editors, task.counts, task.earlier)
    occurrences = _occurrences(task)
    schema = output_schema(task.documents, task.policies)
    done = _Tally()
    gone = np.array(task.gone, np.int64)
    rows = 0
    shard = task.folder / "shard.parquet"
    with (
        writer(shard, schema) as out,
        table_writer(task.folder / "edits.parquet", table_schemas.EDITS.schema) as edits_out,
        table_writer(task.folder / "kept.parquet", KEPT) as kept_out,
        table_writer(task.folder / "labels.parquet", table_schemas.LABELS.schema) as labels_out,
        table_writer(task.folder / "rows.parquet", ROWS) as rows_out,
        Spent(task.editors, task.folder) as spent,
    ):
        groups = Groups(out)
        at = 0
        names = [name for name in task.documents.schema.names if task.policies[name] != "drop"]
        asked = [name for editor in task.editors for name in editor.columns]
        for table in task.documents.read(task.first, task.last, [*dict.fromkeys(["doc_id", *names, *asked])]):
            table = table.combine_chunks()
            stop = int(np.searchsorted(occurrences.doc_no, table.column("doc_no")[-1].as_py(), side="right"))
            if len(gone):
                table = table.filter(pc.invert(pc.is_in(table.column("doc_no"), value_set=pa.array(gone)))).combine_chunks()
            if not table.num_rows:
                at = stop
                continue
            made = Sheet(task, table, occurrences.slice(at, stop))
            at = stop
            for one in past:
                one.settle()
            rows_out.write_table(table.select(["doc_no"]))
            edits_out.write_table(made.edits)
            kept_out.write_table(made.kept)
            for labels in made.labels:
                labels_out.write_table(labels)
            spent.add(*made.spent)
            done.add(made)
            clean = _columns(task, made.table).select(schema.names)
            groups.add(clean)
            rows += clean.num_rows
        groups.flush()
        if not rows:
            out.write_table(schema.empty_table())
    for one in past:
        one.write(task.folder / "made.parquet")
    told = {"by_kind": done.by_kind, "masked": done.masked, "words": done.words, "erased": done.erased}
    return {"rows": rows, "bytes": shard.stat().st_size, **told}


@dataclass(frozen=True, repr=False)
class Occurrences:
    """The columns of a task's occurrences that matter here, as arrays."""

    doc_no: I64
    cell: npt.NDArray[np.int32]
    start: I64
    stop: I64
    start_byte: I64
    stop_byte: I64
    kind: npt.NDArray[np.int32]
    value_id: I64
    swept: npt.NDArray[np.bool_]  # added by the leak check
    erased: npt.NDArray[np.bool_]  # of a value that nobody may keep
    kept: tuple[npt.NDArray[np.bool_], ...]  # one column an editor
    names: pa.Array

    def slice(self, low: int, high: int) -> Occurrences:
        return self.take(np.arange(low, high))

    def take(self, rows: I64) -> Occurrences:
        """Some of the occurrences."""
        columns = {name: getattr(self, name)[rows] for name in _ARRAYS}
        return Occurrences(**columns, kept=tuple(kept[rows] for kept in self.kept), names=self.names)


_ARRAYS = ("doc_no", "cell", "start", "stop", "start_byte", "stop_byte", "kind", "value_id", "swept", "erased")
_COLUMNS = [*_ARRAYS[:-2], "finder"]


def _occurrences(task: ApplyTask) -> Occurrences:
    """The task's occurrences of edited kinds, sorted, with a flag per editor for those that stay."""
    edited = sorted({kind for editor in task.editors for kind in editor.kinds})
    read = [pq.read_table(path, columns=_COLUMNS, partitioning=None) for path in task.occurrences]
    table = pa.concat_tables(read).unify_dictionaries().combine_chunks()
    kind = (
        table.column("kind").chunk(0)
        if table.num_rows
        else pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), pa.array([], pa.string()))
    )
    wanted = np.isin(np.array(kind.dictionary.to_pylist(), object), edited)
    code = np.asarray(kind.indices, np.int32)
    erased = np.isin(np.asarray(table.column("value_id")), np.array(task.erased, np.int64))
    rows = np.flatnonzero(wanted[code] | erased) if len(code) else np.empty(0, np.int64)
    columns = {name: np.asarray(table.column(name))[rows] for name in _COLUMNS if name not in ("kind", "finder")}
    columns["kind"] = code[rows]
    finder = table.column("finder").chunk(0) if table.num_rows else None
    by_sweep = (
        np.asarray(pc.equal(finder.dictionary, table_schemas.SWEEP))[np.asarray(finder.indices)]
        if finder is not None
        else np.empty(0, np.bool_)
    )
    columns["swept"], columns["erased"] = by_sweep[rows], erased[rows]
    if len(read) > 1:
        order = np.lexsort((-columns["stop_byte"], columns["start_byte"], columns["cell"], columns["doc_no"]))
        columns = {name: column[order] for name, column in columns.items()}
    # an original cannot stay where a swept value reaches into it
    free = ~columns["swept"] & ~columns["erased"]
    for row in np.flatnonzero(columns["swept"]):
        low, high = (np.searchsorted(columns["doc_no"], columns["doc_no"][row], side=side) for side in ("left", "right"))
        near = slice(int(low), int(high))
        free[near] &= (
            (columns["cell"][near] != columns["cell"][row])
            | (columns["start_byte"][near] >= columns["stop_byte"][row])
            | (columns["stop_byte"][near] <= columns["start_byte"][row])
        )
    kept = tuple(
        _kept(task, editor, counts, columns, kind.dictionary) & (free | ("goes" in counts.tables))
        for editor, counts in zip(task.editors, task.counts, strict=True)
    )
    return Occurrences(kept=kept, names=kind.dictionary, **columns)


def _kept(task: ApplyTask, editor: Editor, counts: Counts, columns: dict[str, npt.NDArray[Any]], names: pa.Array) -> npt.NDArray[np.bool_]:
    """True for the editor's occurrences that stay: those among its firsts, or all that are not among what goes."""
    goes = "goes" in counts.tables
    kept = np.full(len(columns["doc_no"]), goes)
    if not (goes or "firsts" in counts.tables) or not len(kept):
        return kept
    on = ["doc_no", "cell", "start", "value_id"]
    between = [("doc_no", ">=", task.first), ("doc_no", "<", task.last)]
    listed = pl.DataFrame(pq.read_table(counts.tables["goes" if goes else "firsts"], columns=on, filters=between, partitioning=None))
    all_rows = pl.DataFrame({name: columns[name] for name in on}).with_row_index("row")
    listed = listed.select(pl.col(name).cast(all_rows.schema[name]) for name in on)
    kept[all_rows.join(listed, on=on, how="semi")["row"].to_numpy()] = not goes
    mine = np.isin(np.array(names.to_pylist(), object), list(editor.kinds))
    of_mine: npt.NDArray[np.bool_] = mine[columns["kind"]]
    return kept & of_mine


class Sheet:
    """One batch on the table: the editors have been over it, overlaps are settled, the texts are spliced."""

    def __init__(self, task: ApplyTask, table: pa.Table, found: Occurrences) -> None:
        self.labels: list[pa.Table] = []
        self.masked = 0
        self.unchecked = [no for no, editor in enumerate(task.editors) if editor.policy == "ledger"]
        columns = cells_of(table, list(task.leaves))
        doc_no = np.asarray(table.column("doc_no"), np.int64)
        row = np.searchsorted(doc_no, found.doc_no)
        there = (row < len(doc_no)) & (doc_no[np.minimum(row, len(doc_no) - 1)] == found.doc_no)
        if not there.all():  # occurrences of dropped documents
            keep = np.flatnonzero(there)
            found, row = found.take(keep), row[keep]
        self.found = found
        leaf, self.flat = _places(columns, table.num_rows, row, found.cell)
        buffers = [Buffers.of(filled(column.flat.texts)) for column in columns]
        values = _values(buffers, leaf, self.flat, found)
        doc_ids = pa.DictionaryArray.from_arrays(pa.array(row.astype(np.int32)), _known_by(task, table))
        texts = _Texts(columns, buffers, doc_no, leaf, self.flat, _known_by(task, table), table)
        edits, found, leaf, self.flat = self._edit(task, found, values, doc_ids, texts)
        self.found = found
        edits = self._settle(edits, found)
        self.words = int((found.value_id[edits.row] == _NO_VALUE).sum())
        drawn = np.flatnonzero(self.draw[edits.row] >= 0)
        rows = edits.row[drawn]
        self.spent = (edits.part[drawn], found.doc_no[rows], leaf[rows], self.draw[rows])
        self.edits = self._edit_table(task, edits, found)
        self.kept = self._kept_table(edits, found)
        for number, column in enumerate(columns):
            mine = np.flatnonzero(leaf[edits.row] == number)
            if len(mine):
                base = buffers[number].offsets[self.flat[edits.row[mine]]]
                starts, stops = base + edits.start[mine], base + edits.stop[mine]
                assert (starts[1:] >= stops[:-1]).all()
                texts = splice(buffers[number], starts, stops, edits.text.take(pa.array(mine)))
                if column.flat.texts.null_count:
                    texts = pc.if_else(column.flat.texts.is_valid(), texts, pa.scalar(None, pa.large_string()))
                place = table.schema.get_field_index(column.leaf.column)
                table = table.set_column(place, column.leaf.column, replaced(table.column(place).chunk(0), column.leaf, texts))
        self.table = table
        self.edited_rows = edits.row

    def _edit(
        self, task: ApplyTask, found: Occurrences, values: pa.Array, doc_ids: pa.DictionaryArray, cells: _Texts
    ) -> tuple[_Edits, Occurrences, I64, I64]:
        """What the editors say, one after the other; a kind belongs to the first editor that names it. Words that an editor found by
        reading become occurrences among the others, which are returned too, each with its leaf and its place there."""
        rows, texts, parts = [], [], []
        words: list[_Words] = []
        draws: list[tuple[I64, I64]] = []
        spans: list[tuple[I64, I64]] = []
        wider = False
        claimed = np.zeros(len(found.names), np.bool_)
        for number, editor in enumerate(task.editors):
            mine = np.isin(np.array(found.names.to_pylist(), object), list(editor.kinds)) & ~claimed
            claimed |= mine
            which = np.flatnonzero(mine[found.kind] & ~found.erased) if len(found.kind) else np.empty(0, np.int64)
            if editor.reads == "texts":
                for made, row, one in cells.rewritten(editor, found, which, len(found.doc_no) + sum(len(one.leaf) for one in words)):
                    words.append(one)
                    spans.append((made.start, made.stop))
                    rows.append(row)
                    if made.draw is not None:
                        draws.append((row, made.draw))
                    texts.append(made.replacement)
                    parts.append(np.full(len(row), number, np.int32))
                    if editor.unit:  # what no span of a mechanism touches stands as it is
                        left = np.setdiff1d(which, row)
                        found.kept[number][left] = True
                continue
            if not len(which):
                continue
            frame = pl.DataFrame(
                {
                    **{name: getattr(found, name)[which] for name in ("doc_no", "cell", "start", "stop", "value_id", "swept")},
                    "kind": pl.Series(pa.DictionaryArray.from_arrays(pa.array(found.kind[which]), found.names).cast(pa.large_string())),
                    "kept": found.kept[number][which],
                    "value": pl.Series(values.take(pa.array(which))),
                }
            )
            batch = Batch(occurrences=frame, doc_ids=doc_ids.take(pa.array(which)))
            changed, replacement, labels = editor.run(batch)
            if task.shunned:
                replacement = _shunning(task.shunned, frame["kind"].gather(changed), replacement)
            reach = editor.reach(batch, changed)
            wider |= reach is not None
            spans.append(reach or (found.start_byte[which[changed]], found.stop_byte[which[changed]]))
            rows.append(which[changed])
            texts.append(replacement)
            parts.append(np.full(len(changed), number, np.int32))
            if labels is not None:
                self.labels.append(labels)
        erased = np.flatnonzero(found.erased)
        if len(erased):
            labels = pa.array([f"[{name}]" for name in found.names.to_pylist()], pa.large_string())
            rows.append(erased)
            texts.append(labels.take(pa.array(found.kind[erased])))
            parts.append(np.full(len(erased), len(task.editors), np.int32))
            spans.append((found.start_byte[erased], found.stop_byte[erased]))
        if not rows:
            nothing = np.empty(0, np.int64)
            none = _Edits(nothing, nothing, nothing, np.empty(0, np.int32), pa.array([], pa.large_string()))
            self.draw = np.full(len(found.doc_no), -1, np.int64)
            return none, found, cells.leaf, cells.flat
        row = np.concatenate(rows)
        leaf, flat, place = cells.leaf, cells.flat, np.arange(len(found.doc_no))
        if words:
            found, place, leaf, flat = _with_words(found, leaf, flat, words)
            row, wider = place[row], True
        self.draw = np.full(len(found.doc_no), -1, np.int64)
        for shown, draw in draws:
            self.draw[place[shown]] = draw
        start, stop = (np.concatenate(side) for side in zip(*spans, strict=True))
        # the occurrences are in order, and so are their edits, unless one takes more than its occurrence
        order = np.lexsort((-stop, start, _cell_key(found)[row])) if wider else np.argsort(row, kind="stable")
        edits = _Edits(
            row[order],
            start[order],
            stop[order],
            np.concatenate(parts)[order],
            pa.concat_arrays(texts).take(pa.array(order)),
        )
        return edits, found, leaf, flat

    def _settle(self, edits: _Edits, found: Occurrences) -> _Edits:
        """Edits that do not overlap: one inside another vanishes, and of two that cross the later part's remainder is masked."""
        if not len(edits.row):
            return edits
        cell = _cell_key(found)[edits.row]
        reach = np.maximum.accumulate(cell * (1 << 40) + edits.stop)
        crossing = np.flatnonzero((cell[1:] * (1 << 40) + edits.start[1:]) < reach[:-1]) + 1
        if not len(crossing):
            return edits
        # rare (addresses inside edited URLs, swept spans): settle these few one by one, in order of their place
        start, stop = edits.start.copy(), edits.stop.copy()
        alive = np.ones(len(start), np.bool_)
        mask: dict[int, int] = {}
        for place in crossing.tolist():
            before: int = place - 1
            while before >= 0 and not alive[before]:
                before -= 1
            if before < 0 or cell[before] != cell[place] or stop[before] <= start[place]:
                continue
            if stop[place] <= stop[before]:
                alive[place] = False
            elif edits.part[before] <= edits.part[place]:
                start[place] = stop[before]
                mask[place] = int(stop[place] - start[place])
            else:
                stop[before] = start[place]
                mask[int(before)] = int(stop[before] - start[before])
        text = edits.text
        if mask:
            texts = text.to_pylist()
            for place, size in mask.items():
                texts[place] = "*" * size
            text = pa.array(texts, pa.large_string())
            self.masked += len(mask)
        keep = np.flatnonzero(alive & (stop > start))
        return _Edits(edits.row[keep], start[keep], stop[keep], edits.part[keep], text.take(pa.array(keep)))

    def _edit_table(self, task: ApplyTask, edits: _Edits, found: Occurrences) -> pa.Table:
        parts = pa.array([*(editor.use for editor in task.editors), SUBJECT], pa.string())
        arrays = {
            "doc_no": pa.array(found.doc_no[edits.row]),
            "cell": pa.array(found.cell[edits.row]),
            "start_byte": pa.array(edits.start),
            "stop_byte": pa.array(edits.stop),
            "replacement": edits.text,
            "part": pa.DictionaryArray.from_arrays(pa.array(edits.part), parts),
            "kind": pa.DictionaryArray.from_arrays(pa.array(found.kind[edits.row]), found.names),
        }
        return pa.table([arrays[name] for name in table_schemas.EDITS.schema.names], schema=table_schemas.EDITS.schema)

    def _kept_table(self, edits: _Edits, found: Occurrences) -> pa.Table:
        """The kept occurrences that no edit touches, in output bytes, as far as the leak check looks for them."""
        kept = np.flatnonzero(np.logical_or.reduce(found.kept)) if found.kept else np.empty(0, np.int64)
        cell = _cell_key(found)
        grown = np.concatenate([[0], np.cumsum(Buffers.of(edits.text).lengths - (edits.stop - edits.start))])
        at = cell[edits.row] * (1 << 40)
        before = np.searchsorted(at + edits.stop, cell[kept] * (1 << 40) + found.start_byte[kept], side="right")
        touched = np.searchsorted(at + edits.start, cell[kept] * (1 << 40) + found.stop_byte[kept], side="left") != before
        first = np.searchsorted(at, cell[kept] * (1 << 40), side="left")
        kept, shift = kept[~touched], (grown[before] - grown[first])[~touched]
        self.kept_rows = kept
        # what a mechanism leaves by its own claim is counted, and not looked for by the leak check
        checked = ~np.logical_or.reduce([found.kept[no][kept] for no in self.unchecked]) if self.unchecked else np.ones(len(kept), np.bool_)
        # nor what stands for other things elsewhere
        known = every_kind()
        common = np.array([name in known and known[name].common for name in found.names.to_pylist()] + [False], np.bool_)
        checked &= ~common[found.kind[kept]]
        kept, shift = kept[checked], shift[checked]
        return pa.table(
            [
                found.doc_no[kept],
                found.cell[kept],
                found.start_byte[kept] + shift,
                found.stop_byte[kept] + shift,
                found.value_id[kept],
            ],
            schema=KEPT,
        )


@dataclass(frozen=True, repr=False)
class _Edits:
    """Edits in order of their place; `row` is the occurrence, `part` the editor's number."""

    row: I64
    start: I64
    stop: I64
    part: npt.NDArray[np.int32]
    text: pa.Array


@dataclass(frozen=True, repr=False)
class _Words:
    """Places in the texts that are no occurrence, found by an editor that reads them."""

    doc_no: I64
    cell: npt.NDArray[np.int32]
    start: I64
    stop: I64
    leaf: I64
    flat: I64


@dataclass(frozen=True, repr=False)
class _Texts:
    """The texts of a batch for editors that read them, and where each occurrence stands."""

    columns: list[CellColumn]
    buffers: list[Buffers]
    doc_no: I64
    leaf: I64
    flat: I64
    known_by: pa.Array
    table: pa.Table

    def rewritten(self, editor: Editor, found: Occurrences, mine: I64, next_row: int) -> Iterator[tuple[Rewrites, I64, _Words]]:
        """What the editor replaces, column by column; the occurrence of each, and for what is none a new row from `next_row` on."""
        for number, (column, buffers) in enumerate(zip(self.columns, self.buffers, strict=True)):
            here = mine[self.leaf[mine] == number]
            frame = pl.DataFrame(
                {name: getattr(found, name)[here] for name in ("doc_no", "cell", "start", "start_byte", "stop_byte", "value_id")}
            )
            docs = self.doc_no[column.flat.rows]
            sight = Sight(
                docs,
                column.cells,
                buffers.column(),
                frame.with_columns(text_no=pl.Series(self.flat[here])),
                pa.DictionaryArray.from_arrays(pa.array(column.flat.rows.astype(np.int32)), self.known_by),
                self.table.select(list(editor.columns)).take(pa.array(column.flat.rows)) if editor.columns else None,
            )
            made = editor.rewrite(sight)
            alone = np.flatnonzero(made.occurrence < 0)
            row = np.full(len(made.start), -1, np.int64)
            row[alone] = next_row + np.arange(len(alone))
            with_one = np.flatnonzero(made.occurrence >= 0)
            row[with_one] = here[made.occurrence[with_one]]
            text_no = made.text_no[alone]
            leaf = np.full(len(alone), number, np.int64)
            next_row += len(alone)
            yield made, row, _Words(docs[text_no], column.cells[text_no], made.start[alone], made.stop[alone], leaf, text_no)


def _with_words(found: Occurrences, leaf: I64, flat: I64, words: list[_Words]) -> tuple[Occurrences, I64, I64, I64]:
    """The occurrences with words among them, in order; the new place of each row, and all leaves and places in them."""
    columns = {name: np.concatenate([getattr(found, name), *(getattr(one, name) for one in words)]) for name in ("doc_no", "cell")}
    for side in ("start", "stop"):
        more = [getattr(one, side) for one in words]
        columns[f"{side}_byte"] = np.concatenate([getattr(found, f"{side}_byte"), *more])
        columns[side] = np.concatenate([getattr(found, side), *more])
    many = sum(len(one.leaf) for one in words)
    columns["kind"] = np.append(found.kind, np.full(many, len(found.names), np.int32))
    columns["value_id"] = np.append(found.value_id, np.full(many, _NO_VALUE, np.int64))
    columns["swept"], columns["erased"] = (np.append(one, np.zeros(many, np.bool_)) for one in (found.swept, found.erased))
    kept = tuple(np.append(one, np.zeros(many, np.bool_)) for one in found.kept)
    names = pa.concat_arrays([found.names.cast(pa.string()), pa.array([WORD], pa.string())])
    order = np.lexsort((-columns["stop_byte"], columns["start_byte"], columns["cell"], columns["doc_no"]))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    leaf, flat = np.concatenate([leaf, *(one.leaf for one in words)]), np.concatenate([flat, *(one.flat for one in words)])
    return Occurrences(**columns, kept=kept, names=names).take(order), place, leaf[order], flat[order]


class _Tally:
    """What happened to the occurrences, by kind."""

    def __init__(self) -> None:
        self.by_kind: dict[str, dict[str, int]] = {}
        self.masked = self.words = 0
        self.erased: dict[str, int] = {}

    def add(self, made: Sheet) -> None:
        names = made.found.names.to_pylist()
        for what, rows in (("occurrences", slice(None)), ("kept", made.kept_rows)):
            for kind, times in enumerate(np.bincount(made.found.kind[rows], minlength=len(names)).tolist()):
                if times:
                    counts = self.by_kind.setdefault(names[kind], {"occurrences": 0, "kept": 0})
                    counts[what] += times
        self.masked += made.masked
        self.words += made.words
        if made.found.erased.any():
            for kind, times in zip(names, np.bincount(made.found.kind[made.found.erased], minlength=len(names)).tolist(), strict=True):
                self.erased[kind] = self.erased.get(kind, 0) + times


def _shunning(shunned: Sequence[str], kinds: pl.Series, replacement: pa.Array) -> pa.LargeStringArray:
    """The replacements, with a label where one has the local part of an address that is to be forgotten."""
    made = pl.Series(replacement)
    again = says(made, shunned)
    return arrow(pl.select(pl.when(again).then(pl.concat_str(pl.lit("["), kinds, pl.lit("]"))).otherwise(made)).to_series())


def says(replacements: pl.Series, shunned: Sequence[str]) -> pl.Series:
    """True for each replacement that has one of some local parts, which are in lower case."""
    return replacements.str.to_lowercase().str.extract(r"\A([^@]+)@").is_in(pl.Series(shunned).implode()).fill_null(False)


def _cell_key(found: Occurrences) -> I64:
    """A number for every cell that holds occurrences, ascending in their order."""
    new = (np.diff(found.doc_no, prepend=-1) != 0) | (np.diff(found.cell, prepend=-1) != 0)
    return np.cumsum(new).astype(np.int64)


def _places(columns: list[CellColumn], rows: int, row: I64, cell: npt.NDArray[np.int32]) -> tuple[I64, I64]:
    """The leaf, and the place in the leaf's flat column, of every (row, cell)."""
    if len(columns) == 1 and not columns[0].leaf.steps:
        return np.zeros(len(row), np.int64), row
    per_row = np.zeros(rows, np.int64)
    for column in columns:
        per_row += np.bincount(column.flat.rows, minlength=rows)
    first = np.concatenate([[0], np.cumsum(per_row)])
    leaf_of, flat_of = np.empty(first[-1], np.int64), np.empty(first[-1], np.int64)
    for number, column in enumerate(columns):
        at = first[column.flat.rows] + column.cells
        leaf_of[at], flat_of[at] = number, np.arange(len(at))
    at = first[row] + cell
    return leaf_of[at], flat_of[at]


def _values(buffers: list[Buffers], leaf: I64, flat: I64, found: Occurrences) -> pa.Array:
    """The text of every occurrence."""
    pieces, order = [], []
    for number, one in enumerate(buffers):
        mine = np.flatnonzero(leaf == number)
        if len(mine):
            base = one.offsets[flat[mine]]
            pieces.append(cut_nested(one, base + found.start_byte[mine], base + found.stop_byte[mine]))
            order.append(mine)
    if not pieces:
        return pa.array([], pa.large_string())
    if len(pieces) == 1:
        return pieces[0]
    return pa.concat_arrays(pieces).take(pa.array(np.argsort(np.concatenate(order))))


def _known_by(task: ApplyTask, table: pa.Table) -> pa.Array:
    """What the draws of each document hang on: its id, or its position where ids repeat."""
    return table.column("doc_no").chunk(0).cast(pa.large_string()) if task.by_position else table.column("doc_id").chunk(0)


def _columns(task: ApplyTask, table: pa.Table) -> pa.Table:
    """Pseudonymised columns: the same text becomes the same keyed 16 hexadecimal digits; null stays null."""
    for name, policy in task.policies.items():
        if policy == "pseudonymize":
            place = table.schema.get_field_index(name)
            table = table.set_column(place, name, pseudonyms(table.column(place).chunk(0), name, task.key))
    return table
