"""The full check: every byte of every file of a corpus, and everything decoded from it, in all forms of every value that had to go.

Values go in passes (sanitize/verification/value_forms.py); in each pass every shard is looked at once, in workers. What a cell holds is
judged as in the
fast check: inside a kept original it belongs there, in whatever form; else it is a leak. What pages and raw bytes hold beyond what the
rows hold (a dictionary entry no row uses, a key of the footer) is a leak too. Forms that say little are counted apart, as ambiguous.
Names of people who are to be forgotten belong nowhere, and are looked for in the first pass, decoded too.
"""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.core.arrow_buffers import Buffers, ascii_lower, filled
from sanitize.core.engine import Engine
from sanitize.core.text_cells import flatten, leaves
from sanitize.kinds.kind import every_kind
from sanitize.storage.corpus import cells_of
from sanitize.storage.formats import by_suffix
from sanitize.text import name_search
from sanitize.text.decodings import VIEWS, digests, views
from sanitize.verification.attribution import VerifyTask, batches, comes_later, in_its_place, inside_kept, owned, schema_of
from sanitize.verification.parquet_pages import as_one, chunks, pages, readable
from sanitize.verification.value_forms import FULL, SURE, Needles, heads_of, no_chance

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_Belongs = Callable[[I64, I64, I64], Mask]  # of text, first and last + 1 byte
_AS_WRITTEN = ("exact", "NFKC", "digits")  # forms that may come about by chance inside a longer replacement


@dataclass(frozen=True)
class Finding:
    """Places that hold a form of values that had to go: in which file, where in it, of which kind, in which form, and how many."""

    file: str
    place: str
    kind: str
    form: str
    times: int

    def __str__(self) -> str:
        return f"{self.file}, {self.place}: {self.times} {self.kind} ({self.form})"


@dataclass(frozen=True, kw_only=True)
class Look:
    """One file in one pass: a shard with its tables, or any other file of the corpus."""

    file: Path
    name: str  # searched itself
    shown: str  # how it is reported: the name of a foreign file may be a value
    needles: Path
    digests: Path | None  # what may be a digest is written here, in the first pass
    shard: VerifyTask | None = None
    names: tuple[str, ...] = ()  # people who had to go; looked for in the first pass
    aside: Path | None = None  # where an attempt writes `digests` before that has its name

    def attempt(self, folder: Path) -> Look:
        """The task as one of several attempts at once may do it."""
        return replace(self, aside=folder / "digests.parquet")


def full(
    engine: Engine,
    shards: Sequence[tuple[VerifyTask, str]],
    files: Sequence[tuple[Path, str]],
    passes: Sequence[Path],
    folder: Path,
    ours: Sequence[str] = (),
    names: Sequence[str] = (),
) -> dict[str, Any]:
    """Look at shards (each with its name) and at other files for all forms of the values in `passes`, with `folder` for scratch;
    files that are not among `ours` are not reported by name. `names` are looked for as they are mentioned, and so in everything decoded.

    Returns `findings` (leaks), `passes`, `forms`, `ambiguous` (counts by kind), `ambiguous_forms` (by form), `looked` (bytes by place),
    and for the shards rows, kept_seen and kept_planned.
    """
    words = folder / "digests"
    shutil.rmtree(words, ignore_errors=True)
    words.mkdir(parents=True)
    every: list[tuple[Path, str, VerifyTask | None]] = [(task.shard, name, task) for task, name in shards]
    every += [(path, name, None) for path, name in files]
    known = {*ours, *(name for _, name in shards)}
    foreign = [name for _, name, _ in every if name not in known]
    looks = [
        Look(
            file=file,
            name=name,
            shown=name if name in known else f"foreign file {foreign.index(name) + 1}",
            needles=needles,
            digests=None if number else words / f"{no:06d}.parquet",
            shard=task,
            names=() if number else tuple(names),
        )
        for number, needles in enumerate(passes)
        for no, (file, name, task) in enumerate(every)
    ]
    found: Counter[tuple[str, str, str, str]] = Counter()
    ambiguous: Counter[str] = Counter()
    ambiguous_forms: Counter[str] = Counter()
    looked: Counter[str] = Counter()
    about = dict.fromkeys(("rows", "kept_seen", "kept_planned"), 0)
    for done in engine.map_shards(look, looks):
        result = done.result
        found.update(result["findings"])
        for (kind, form), times in result["ambiguous"].items():
            ambiguous[kind] += times
            ambiguous_forms[form] += times
        about["kept_seen"] += result["kept_seen"]
        if looks[done.place].digests is not None:  # every pass reads the same bytes and rows, for other values
            looked.update(result["looked"])
            about["rows"] += result["rows"]
            about["kept_planned"] += result["kept_planned"]
    some = tuple(sorted(words.iterdir()))
    for done in engine.map_shards(hashed, [(needles, some) for needles in passes] if some else []):
        found.update(done.result)
    return {
        "findings": [Finding(*where, times) for where, times in sorted(found.items())],
        "passes": len(passes),
        "forms": list(FULL),
        "ambiguous": dict(sorted(ambiguous.items())),
        "ambiguous_forms": dict(sorted(ambiguous_forms.items())),
        "looked": dict(sorted(looked.items())),
        **about,
    }


def look(task: Look) -> dict[str, Any]:
    """One file in one pass; counts by place, kind and form, never a value."""
    seen = _Seen(task, Needles.read(task.needles))
    seen.judged("file name", pa.array([task.name], pa.large_string()))
    if task.shard is not None:
        seen.shard(task.shard)
    else:
        seen.other()
    seen.write_digests()
    return {
        "findings": dict(seen.found),
        "ambiguous": dict(seen.ambiguous),
        "looked": dict(seen.looked),
        **{name: seen.about[name] for name in ("rows", "kept_seen", "kept_planned")},
    }


def hashed(task: tuple[Path, tuple[Path, ...]]) -> dict[tuple[str, str, str, str], int]:
    """Which of the words that may be digests are of a value of one pass."""
    needles, files = task
    heads = [np.unique(heads_of(pl.Series(pq.read_table(path, columns=["word"], partitioning=None).column("word")))) for path in files]
    kinds = Needles.read(needles).digests(np.unique(np.concatenate(heads)))
    names, found = list(every_kind()), Counter[tuple[str, str, str, str]]()
    for path in files if kinds else ():
        table = pq.read_table(path, partitioning=None)
        for row in table.filter(pc.is_in(table.column("word"), pa.array(list(kinds), table.schema.field("word").type))).to_pylist():
            found[row["file"], row["place"], names[kinds[row["word"]][0]], "digest"] += row["times"]
    return dict(found)


@dataclass(frozen=True, repr=False)
class _Hits:
    """Where forms stand in a column. `allowed`: by the kind's boundary rule; `sure`: no short form, nor part of a longer row of digits."""

    form: str
    text_no: I64
    start: I64
    stop: I64
    row: I64
    allowed: Mask
    sure: Mask

    def some(self, rows: Mask | npt.NDArray[np.intp]) -> _Hits:
        columns = (getattr(self, name)[rows] for name in ("text_no", "start", "stop", "row", "allowed", "sure"))
        return _Hits(self.form, *columns)


class _Tally:
    """How often each form stands somewhere, whatever its bounds: by the way it was seen."""

    def __init__(self) -> None:
        self.by_form: dict[str, npt.NDArray[np.int32]] = {}
        self.where: dict[str, npt.NDArray[np.int32]] = {}

    def add(self, hits: _Hits, size: int, where: int = 0) -> None:
        if len(hits.row):
            self.by_form.setdefault(hits.form, np.zeros(size, np.int32))
            np.add.at(self.by_form[hits.form], hits.row, 1)
            self.where.setdefault(hits.form, np.zeros(size, np.int32))[hits.row] = where


@dataclass
class _Seen:
    """What one file in one pass holds."""

    task: Look
    needles: Needles
    found: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    ambiguous: Counter[tuple[str, str]] = field(default_factory=Counter)
    looked: Counter[str] = field(default_factory=Counter)
    about: Counter[str] = field(default_factory=Counter)
    words: Counter[tuple[str, str]] = field(default_factory=Counter)  # what may be digests, by place, where none belongs
    row_words: Counter[str] = field(default_factory=Counter)  # the same in all rows, wherever
    hidden: dict[str, int] = field(default_factory=dict)

    def hits(
        self, texts: pa.LargeStringArray, place: str, only: tuple[str, ...] | None = None, belongs: _Belongs | None = None
    ) -> Iterator[_Hits]:
        """All forms in a column: as they stand, in compatibility form, and in every view. `belongs`: where a digest may stand."""
        needles = self.needles
        others: list[_Hits] = []
        if self.task.names and place:
            self._mentioned(texts, place, only)
        if only is None:
            if self.task.digests is not None:
                self._digests(texts, place, belongs)
            exact = needles.plain.find(texts, bounded=False)
            allowed = needles.plain.bounded(texts, exact)
            others.append(_Hits("exact", exact.text_no, exact.start, exact.stop, exact.form, allowed, ~needles.short[exact.form]))
            yield others[0]
            wide = needles.plain.find_compatible(texts)
            good = np.ones(len(wide.form), np.bool_)
            more = _Hits("NFKC", wide.text_no, wide.start, wide.stop, wide.form, good, ~needles.short[wide.form])
            others.append(more)
            yield more
        for view in views(texts, needles.wide + 4) if only is None else views(texts, needles.wide + 4, only):
            number = view.form == "digits"
            flagged = needles.digits if number else needles.plain
            seen = flagged.find(view.pieces, bounded=False)
            if not len(seen.form):
                continue
            at = view.original(seen.text_no, seen.start, seen.stop)
            if number:
                assert at.alone is not None
                sure = at.touched & ~needles.short_digits[seen.form]
                one = _Hits(view.form, at.text_no, at.start, at.stop, seen.form, at.alone, sure)
                yield one.some(~_overlap(one, others))
            else:
                sure = ~needles.short[seen.form] & no_chance(needles.plain.lengths[seen.form], view.form)
                one = _Hits(view.form, at.text_no, at.start, at.stop, seen.form, flagged.bounded(view.pieces, seen), sure)
                if view.form == "base64":
                    # a line is read by itself and with those around it: each place counts once
                    best = np.lexsort((~one.allowed, one.start, one.row, one.text_no))
                    new = [np.diff(column[best]) != 0 for column in (one.text_no, one.row, one.start)]
                    yield one.some(np.sort(best[np.append(True, np.logical_or.reduce(new))]))
                else:
                    yield one.some(at.touched)

    def _digests(self, texts: pa.LargeStringArray, place: str, belongs: _Belongs | None) -> None:
        words, text_no, start, stop = digests(texts)
        out = ~belongs(text_no, start, stop) if words and belongs is not None else np.ones(len(words), np.bool_)
        self.row_words.update(words)
        self.words.update((word, place) for word, counts in zip(words, out.tolist(), strict=True) if counts)

    def _mentioned(self, texts: pa.LargeStringArray, place: str, only: tuple[str, ...] | None) -> None:
        """Count the names that had to go, as they stand and in every view: there is no place where one belongs."""
        names = self.task.names
        if only is None:
            self._named_people("mention", name_search.count(texts, names), place)
        for form, times in name_search.count_hidden(texts, names, only or VIEWS):
            self._named_people(form, times, place)

    def _named_people(self, form: str, times: int, place: str) -> None:
        if times:
            self.found[self.task.shown, place, name_search.KIND, form] += times

    # ---- a shard ----

    def shard(self, task: VerifyTask) -> None:
        """Rows, pages and bytes of one shard."""
        kept = pl.DataFrame(pq.read_table(task.kept, partitioning=None))
        kept_doc = kept["doc_no"].to_numpy()
        self.about["kept_planned"] += kept.height
        self._hide(schema_of(task))
        rows = _Tally()
        residual: list[tuple[str, _Hits, I64, I64, list[str]]] = []
        for table, doc_no in batches(task):
            self.about["rows"] += table.num_rows
            low, high = np.searchsorted(kept_doc, [doc_no[0], doc_no[-1] + 1])
            here = kept[int(low) : int(high)]
            which = [leaf for leaf in task.leaves if leaf.column in table.column_names]
            for column in cells_of(table, which):
                texts = filled(column.flat.texts)
                self._read("rows", texts)
                belongs = partial(in_its_place, task, here, doc_no[column.flat.rows], column.cells.astype(np.int64))
                for hits in self.hits(texts, self._column(str(column.leaf)), belongs=belongs):
                    self._count(rows, hits)
                    hits = hits.some(hits.allowed)
                    if len(hits.row):
                        docs, cells = doc_no[column.flat.rows[hits.text_no]], column.cells[hits.text_no].astype(np.int64)
                        inside, ends = inside_kept(here, docs, cells, hits.start, hits.stop)
                        self.about["kept_seen"] += ends if hits.form == "exact" else 0
                        out = np.flatnonzero(~inside)
                        if len(out):
                            rest = hits.some(out)
                            residual.append((self._column(str(column.leaf)), rest, docs[out], cells[out], self._named(rest, texts)))
            for leaf in leaves(table.schema):
                if leaf not in which:
                    texts = flatten(table.column(leaf.column).chunk(0), leaf).texts.fill_null("")
                    self._read("rows", texts)
                    self.judged(self._column(str(leaf)), texts, rows, strict=True)
            for name in table.column_names:
                for numbers in _numbers(table.column(name).chunk(0)):
                    self.judged(self._column(name), numbers, None, only=("digits",), strict=True)
                for raw in _bytes(table.column(name).chunk(0)):
                    for texts, only in _of_bytes(raw):
                        self.judged(self._column(name), texts, rows, only=only, strict=True)
        self._settle(task, residual)
        self._collisions(task)
        self._beyond(task.shard, rows)

    def _hide(self, schema: pa.Schema) -> None:
        """Look at the columns' names; one that holds something is told by its number."""
        names = pa.array(sorted({str(leaf) for leaf in leaves(schema)} | set(schema.names)), pa.large_string())
        self.judged("column names", names, strict=True)
        bad = {int(no) for hits in self.hits(names, "column names") for no in hits.text_no}
        self.hidden = {str(names[no]): number for number, no in enumerate(sorted(bad), 1)}

    def _column(self, name: str) -> str:
        """A column as it is reported: never by a name that is a value itself."""
        number = next((number for hidden, number in self.hidden.items() if name == hidden or name.startswith(f"{hidden}.")), None)
        return f"column {name}" if number is None else f"column whose name holds a value ({number})"

    def _read(self, place: str, texts: pa.LargeStringArray) -> None:
        self.looked[place] += len(Buffers.of(texts).data)

    def _settle(self, task: VerifyTask, residual: Iterable[tuple[str, _Hits, I64, I64, list[str]]]) -> None:
        """What no kept original holds: belongs to a replacement or to an opaque value, is ambiguous, or is a leak."""
        for place, hits, docs, cells, forms in residual:
            whose = owned(task.edits, task.occurrences, task.opaque, docs, cells, hits.start, hits.stop)
            belongs = whose.inside_opaque | (whose.inside_edit & (hits.form in _AS_WRITTEN))
            values = (self.needles.digits if hits.form == "digits" else self.needles.plain).value_id
            belongs[whose.whole] |= comes_later(task, values[hits.row[whose.whole]], docs[whose.whole])
            for row in np.flatnonzero(~belongs).tolist():
                how = " (a replacement)" if whose.whole[row] else " (across an edit)" if whose.across[row] else ""
                as_it_is = hits.form in ("exact", "NFKC") and not self.needles.common[hits.row[row]]
                sure = bool(hits.sure[row]) or as_it_is
                self._found(f"{place}{how}", hits.form, int(hits.row[row]), forms[row], sure)

    def _collisions(self, task: VerifyTask) -> None:
        """Replacements that are values of the corpus."""
        edits = pl.DataFrame(pq.read_table(task.edits, columns=["kind", "replacement", "doc_no"], partitioning=None))
        edits = edits.group_by(pl.col("kind").cast(pl.String), value="replacement", maintain_order=True).agg(pl.col("doc_no").max())
        edits = edits.filter(pl.col("kind").is_in(list(every_kind())))  # a mention becomes a label, which stands for no value
        asked = []
        for (name,), group in edits.group_by("kind"):
            if str(name) not in every_kind() or every_kind()[str(name)].common:
                continue  # a word that is no value of any kind, or of one whose stand-ins may be values
            normal = every_kind()[str(name)].normalise(group["value"])
            asked.append(group.select("kind", "doc_no", form=ascii_lower(group["value"]), normal=ascii_lower(normal)))
        if asked:
            found = self.needles.collisions(pl.concat(asked))
            found = found.filter(~pl.Series(comes_later(task, found["value_id"].to_numpy(), found["doc_no"].to_numpy()), dtype=pl.Boolean))
            for kind, times in found.unique(["kind", "form"]).group_by("kind").len().sort("kind").iter_rows():
                self.found[self.task.shown, "replacements that are values of the corpus", kind, "exact or identity"] += times

    def _beyond(self, path: Path, rows: _Tally) -> None:
        """What pages and raw bytes hold more often than the rows do."""
        packed = by_suffix(path) is not None
        words, in_rows = self.words, self.row_words
        for place, source in (("a page of", partial(pages, path)), ("raw bytes", partial(_whole, path)))[packed:]:
            columns: list[str] = []
            tally = _Tally()
            self.words, self.row_words = Counter(), Counter()
            for column, data in source():
                if not columns or columns[-1] != column:
                    columns.append(column)
                self.looked["raw bytes" if place == "raw bytes" else "pages"] += len(data)
                where = f"{place} {self._column(column)}" if column else place
                for texts, only in _of_bytes(data):
                    for hits in self.hits(texts, where, only):
                        if not packed or hits.form == "exact":  # its rows are all that it holds, and rows side by side make other forms
                            self._count(tally, hits, len(columns) - 1)
            self._more(place, tally, rows, columns, source)
            for (word, where), times in self.words.items():
                if self.row_words[word] > in_rows[word]:
                    words[word, where] += times
        self.words = words

    def _more(
        self, place: str, tally: _Tally, rows: _Tally, columns: list[str], source: Callable[[], Iterator[tuple[str, npt.NDArray[np.uint8]]]]
    ) -> None:
        for form, times in tally.by_form.items():
            extra = times - rows.by_form.get(form, np.zeros(1, np.int32))
            more = np.flatnonzero(extra > 0)
            names = self._again(source, more) if form == "exact" and len(more) else {}
            for row in more.tolist():
                flagged, short = (
                    (self.needles.digits, self.needles.short_digits) if form == "digits" else (self.needles.plain, self.needles.short)
                )
                column = columns[tally.where[form][row]]
                where = f"{place} {self._column(column)}" if column else place
                sure = bool(not short[row] and flagged.lengths[row] >= SURE)
                self._found(where, form, row, " or ".join(sorted(names.get(row, {form}))), sure, int(extra[row]))

    def _again(self, source: Callable[[], Iterator[tuple[str, npt.NDArray[np.uint8]]]], wanted: I64) -> dict[int, set[str]]:
        """How some forms are written where they stand too often: a second look, taken only then."""
        names: dict[int, set[str]] = {}
        for _, data in source():
            texts = readable(data)
            hits = next(self.hits(texts, "", None))
            hits = hits.some(np.isin(hits.row, wanted))
            for row, name in zip(hits.row.tolist(), self._named(hits, texts), strict=True):
                names.setdefault(row, set()).add(name)
        return names

    def _count(self, tally: _Tally, hits: _Hits, where: int = 0) -> None:
        tally.add(hits, len(self.needles.digits if hits.form == "digits" else self.needles.plain), where)

    # ---- other files, names ----

    def other(self) -> None:
        """A file that is no shard: as one text where it is one, else its readable stretches."""
        for chunk in chunks(self.task.file):
            self.looked["other files"] += len(chunk)
            raw = chunk.tobytes()
            with contextlib.suppress(UnicodeDecodeError):
                self.judged("text", pa.array([raw.decode("utf-8")], pa.large_string()))
                continue
            for texts, only in _of_bytes(chunk):
                self.judged("bytes", texts, only=only)

    def judged(
        self, place: str, texts: pa.LargeStringArray, tally: _Tally | None = None, only: tuple[str, ...] | None = None, strict: bool = False
    ) -> None:
        """A column in which nothing is kept on purpose; `strict`: short forms as they are written count as leaks too."""
        for hits in self.hits(texts, place, only):
            if tally is not None:
                self._count(tally, hits)
            hits = hits.some(hits.allowed)
            forms = self._named(hits, texts)
            for row in range(len(hits.row)):
                as_it_is = strict and hits.form in ("exact", "NFKC") and not self.needles.common[hits.row[row]]
                sure = bool(hits.sure[row]) or as_it_is
                self._found(place, hits.form, int(hits.row[row]), forms[row], sure)

    def _named(self, hits: _Hits, texts: pa.LargeStringArray) -> list[str]:
        """The form of each match; one as it is written is `exact`, `case-folded` or `identity`. Short ones in other letter case go."""
        if hits.form != "exact" or not len(hits.row):
            return [hits.form] * len(hits.row)
        buffers = Buffers.of(texts)
        base = buffers.offsets[hits.text_no]
        names = []
        spelled = self.needles.spelled(hits.row)
        for row, start, stop, known in zip(
            hits.row.tolist(), (base + hits.start).tolist(), (base + hits.stop).tolist(), spelled, strict=True
        ):
            same = buffers.data[start:stop].tobytes() == known
            names.append("exact" if same else "identity" if self.needles.identity[row] else "case-folded")
        return names

    def _found(self, place: str, way: str, row: int, form: str, sure: bool, times: int = 1) -> None:
        flagged = self.needles.digits if way == "digits" else self.needles.plain
        kind = flagged.names[flagged.kind[row]]
        if sure:
            self.found[self.task.shown, place, kind, form] += times
        elif form != "case-folded":  # a short form counts as it is spelled only
            self.ambiguous[kind, form] += times

    def write_digests(self) -> None:
        """The words that may be digests, for later: whether they are of a value is asked once, when all are known."""
        if self.words and self.task.digests is not None:
            rows = [{"word": word, "place": place, "file": self.task.shown, "times": times} for (word, place), times in self.words.items()]
            pq.write_table(pa.Table.from_pylist(rows), self.task.aside or self.task.digests, compression="lz4")
            if self.task.aside:
                self.task.aside.rename(self.task.digests)


def _whole(path: Path) -> Iterator[tuple[str, npt.NDArray[np.uint8]]]:
    return (("", chunk) for chunk in chunks(path))


def _overlap(one: _Hits, others: Sequence[_Hits]) -> Mask:
    """True for matches that share bytes with one of others."""
    text_no = np.concatenate([other.text_no for other in others] or [np.empty(0, np.int64)])
    if not len(text_no):
        return np.zeros(len(one.row), np.bool_)
    start = np.concatenate([other.start for other in others]) + (text_no << 32)
    stop = np.concatenate([other.stop for other in others]) + (text_no << 32)
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(stop[order])
    before = np.searchsorted(start, one.stop + (one.text_no << 32), side="left")
    shared: Mask = (before > 0) & (reach[np.maximum(before - 1, 0)] > one.start + (one.text_no << 32))
    return shared


def _of_bytes(data: npt.NDArray[np.uint8]) -> Iterator[tuple[pa.LargeStringArray, tuple[str, ...] | None]]:
    """Bytes as they are searched: what is readable in all forms, and all of it as UTF-16."""
    if len(data):
        yield readable(data), None
        yield as_one(data), ("UTF-16",)


def _nested(array: pa.Array, wanted: Callable[[pa.DataType], bool]) -> Iterator[pa.Array]:
    if pa.types.is_large_list(array.type):
        yield from _nested(array.flatten(), wanted)
    elif pa.types.is_struct(array.type):
        for number in range(array.type.num_fields):
            yield from _nested(pc.struct_field(array, number), wanted)
    elif wanted(array.type):
        yield array


def _numbers(array: pa.Array) -> Iterator[pa.LargeStringArray]:
    """The numbers of a column as they are written in digits."""
    for one in _nested(array, lambda kind: bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))):
        if pa.types.is_floating(one.type):
            whole = one.cast(pa.float64())
            whole = whole.filter(pc.fill_null(pc.and_(pc.equal(pc.floor(whole), whole), pc.less(pc.abs(whole), 2.0**63)), False))
            one = whole.cast(pa.int64())
        yield one.cast(pa.string()).cast(pa.large_string()).fill_null("")


def _bytes(array: pa.Array) -> Iterator[npt.NDArray[np.uint8]]:
    """The values of a column of bytes, one after the other with a zero between them."""
    for one in _nested(
        array, lambda kind: bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))
    ):
        yield np.frombuffer(b"\0\0\0".join(value for value in one.to_pylist() if value is not None), np.uint8)
