"""Occurrences of every kind that has a pattern: three passes over a column of texts, exact in bytes and code points.

One alternation of the patterns of a turn is run by the linear-time engine of Polars, which writes a mark around each match; the marks
are read back from the bytes. Kind, check, identity and `value_id` are settled on the distinct candidates only. A turn looks at what the
earlier ones left (see `Kind.turn`). A URL is looked into once more, for what stands inside it. All kinds are always
looked for, so that one index serves every plan, and no kind takes another's text because a plan does not name it; only national
identifiers are asked by country. Leaves names and free forms to other finders.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from sanitize.core.arrow_buffers import GONE, I64, Buffers, arrow, code_points, cut, filled, matches, ranges, table_of, within
from sanitize.core.keys import Key, value_ids
from sanitize.kinds.kind import WORD, Kind, boundaries, kinds, parted
from sanitize.text.digit_lines import Pieces, numeric
from sanitize.text.mail_headers import Headers, Sections
from sanitize.text.regex_threads import apart

I32 = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
U8 = npt.NDArray[np.uint8]
NAME = "patterns"
_INSIDE = ("URL",)  # kinds whose values are looked into
_BEFORE, _AFTER = 48, 16  # bytes of context on either side
_LESS, _MORE = ord("<"), ord(">")


@dataclass(frozen=True, repr=False)
class Distinct:
    """The distinct values of a batch. `kind` indexes `Patterns.kinds`; `normalised` is the identity form of `value`."""

    kind: I32
    value: pa.LargeStringArray
    normalised: pa.LargeStringArray
    value_id: I64


@dataclass(frozen=True, repr=False)
class Found:
    """Occurrences in a column of texts, sorted by (text_no, start, longest first), and their distinct values.

    `start_byte` and `stop_byte` count from the text's first byte; `which` indexes `distinct`; `section` indexes `section_names`, -1
    outside mail. `skipped` counts candidates that their kind's check refused, by (kind index, reason). `score`: how sure each is; None
    where all are.
    """

    text_no: I64
    start_byte: I64
    stop_byte: I64
    start: I64
    stop: I64
    which: I64
    section: I32
    section_names: list[str]
    distinct: Distinct
    skipped: dict[tuple[int, str], int]
    score: npt.NDArray[np.float32] | None = None


class Patterns:
    """The finder of all kinds in sanitize/kinds/ that have a pattern, under one key; of national identifiers those of
    `countries`, of kinds that are looked for on request those `named`."""

    def __init__(self, key: Key, countries: Iterable[str] = (), named: Iterable[str] = ()) -> None:
        self.key = key
        self.kinds: list[Kind] = [kind for kind in kinds(countries, named).values() if kind.pattern]
        self._turns = sorted({kind.turn for kind in self.kinds})
        self._before, self._after = boundaries(self.kinds)
        self._word = table_of(WORD)
        self._index = {kind.name: number for number, kind in enumerate(self.kinds)}

    def run(self, texts: pa.LargeStringArray) -> Found:
        """All occurrences in a column of texts; a null text has none."""
        buffers = Buffers.of(filled(texts))
        spans, where = self._search(buffers, fields=True)
        spans = self._look_inside(spans)
        text_no, starts, stops, which, origin = spans.text_no, spans.starts, spans.stops, spans.which, spans.origin
        if not spans.sorted:
            # two sorted runs, which a stable sort of one key merges; a batch has fewer than 2^31 bytes
            order = np.argsort((starts << 32) - stops, kind="stable")
            text_no, starts, stops, which, origin = (column[order] for column in (text_no, starts, stops, which, origin))
        first = buffers.offsets[text_no]
        start, stop = code_points(buffers, text_no, starts, stops)
        return Found(
            text_no=text_no,
            start_byte=starts - first,
            stop_byte=stops - first,
            start=start,
            stop=stop,
            which=which,
            section=where.index[origin],
            section_names=where.names,
            distinct=spans.distinct,
            skipped=spans.skipped,
        )

    def _search(
        self, buffers: Buffers, *, fields: bool = False, without: tuple[str, ...] = (), times: I64 | None = None
    ) -> tuple[_Spans, Sections]:
        """What the kinds of each turn find in what the earlier turns left, and the section of every candidate (of none without `fields`).
        `times` is how often each text counts."""
        spans, found, headers = _Spans.none(), list[Sections](), Headers(buffers)
        pieces: Pieces | None = None  # what a turn of numbers looks at, and those after it
        for turn in self._turns:
            kinds = [kind for kind in self.kinds if kind.turn == turn and kind.name not in without]
            if not all(kind.numeric for kind in kinds):
                pieces, seen = None, _hidden(buffers, spans.starts, spans.stops)
            elif pieces is None:
                order = np.argsort(spans.starts, kind="stable")
                pieces = numeric(buffers, spans.starts[order], spans.stops[order])
                seen = pieces.buffers
            low, high = _matches(seen, kinds)
            starts, stops = (low, high) if pieces is None else (pieces.back(low), pieces.back(high - 1) + 1)
            text_no = np.searchsorted(buffers.offsets, starts, side="right") - 1
            where = headers.sections(text_no, starts) if fields else Sections(np.full(len(starts), -1, np.int32), [])
            found.append(where)
            field = where.is_id_field * 2 + where.is_address_field
            more = self._settle(buffers, text_no, starts, stops, field, None if times is None else times[text_no], turn=turn)
            if pieces is not None and turn != self._turns[-1]:
                shift = (low - starts)[more.origin]
                seen = _hidden(seen, more.starts + shift, more.stops + shift)
            spans = spans.plus(more, sum(len(one.index) for one in found[:-1]))
        return spans, _together(found)

    def _settle(
        self, buffers: Buffers, text_no: I64, starts: I64, stops: I64, field: I64, weight: I64 | None = None, *, turn: int
    ) -> _Spans:
        """Which kind each candidate is, if any: decided once for each distinct (value, bracketed, field). `field` is 2 in an id field, 1 in
        an address field, else 0; `weight` is how often each candidate counts among the refused."""
        if not len(starts):
            return _Spans.none()
        bracketed = (buffers.data[starts] == _LESS) & (buffers.data[stops - 1] == _MORE)
        starts, stops = starts + bracketed, stops - bracketed
        encoded = cut(buffers, starts, stops).dictionary_encode()
        code = np.asarray(encoded.indices, np.int64)
        # the same text may stand with and without brackets, in and outside an id field: each is a candidate of its own
        variant = code * 8 + bracketed * 4 + field
        used = np.flatnonzero(np.bincount(variant, minlength=1))
        place = np.zeros(int(used[-1]) + 1 if len(used) else 1, np.int64)
        place[used] = np.arange(len(used))
        values = encoded.dictionary.take(pa.array(used // 8))
        frame = pl.DataFrame(
            {"value": pl.Series(values), "bracketed": (used & 4) > 0, "id_field": (used & 2) > 0, "address_field": (used & 1) > 0}
        )
        kind, reasons, frame, lead, trail = apart(f"kinds {turn}", self._kinds_of, frame, turn)
        good = np.flatnonzero(kind >= 0)
        found, one_of = kind[good].astype(np.int32), np.arange(len(good))
        if lead.any() or trail.any():
            # the same value may have been taken along with different words
            pairs = pl.DataFrame({"kind": found, "value": frame["value"].gather(good)}).with_row_index("row")
            first = pairs.unique(["kind", "value"], keep="first", maintain_order=True).with_row_index("to")
            one_of = pairs.join(first, on=["kind", "value"], how="left", maintain_order="left")["to"].to_numpy().astype(np.int64)
            found, values = found[first["row"].to_numpy()], arrow(first["value"])
        else:
            values = values.take(pa.array(good))
        distinct = apart(f"distinct {turn}", self._distinct, found, values)
        skipped: dict[tuple[int, str], int] = {}
        row = place[variant]
        if reasons:
            times = np.bincount(row, weight, minlength=len(used))
            for where, rows in reasons.items():
                skipped[where] = int(times[rows].sum())
        to_distinct = np.full(len(used), -1, np.int64)
        to_distinct[good] = one_of
        which = to_distinct[row]
        keep = np.flatnonzero(which >= 0)
        leads, trails = lead[row[keep]], trail[row[keep]]
        starts, stops = starts[keep] + leads, stops[keep] - trails
        text_no, which = text_no[keep], which[keep]
        glued = self._glued(buffers, text_no, starts, stops, distinct.kind[which], leads == 0, trails == 0)
        unsaid = self._unsaid(buffers, text_no, starts, stops, which, distinct) & ~glued
        for reason, bad in (("boundary", glued), ("context", unsaid)):
            if bad.any():
                times = np.bincount(distinct.kind[which[bad]], None if weight is None else weight[keep[bad]])
                skipped |= {(number, reason): int(times[number]) for number in np.flatnonzero(times).tolist()}
        if (bad := glued | unsaid).any():
            keep, text_no, starts, stops, which = keep[~bad], text_no[~bad], starts[~bad], stops[~bad], which[~bad]
        return _Spans(text_no, starts, stops, which, keep, distinct, skipped, True)

    def _unsaid(self, buffers: Buffers, text_no: I64, starts: I64, stops: I64, which: I64, distinct: Distinct) -> Bools:
        """True where a value is one of its kind only in a context, and does not stand in one."""
        unsaid = np.zeros(len(which), np.bool_)
        for number, one in enumerate(self.kinds):
            if one.doubtful is None or one.context is None or not len(mine := np.flatnonzero(distinct.kind == number)):
                continue
            doubtful = np.zeros(len(distinct.kind), np.bool_)
            values = pl.Series("value", distinct.value.take(pa.array(mine)))
            doubtful[mine] = apart(f"doubt {one.name}", one.doubtful, values).to_numpy()
            rows = np.flatnonzero(doubtful[which])
            if not len(rows):
                continue
            low = np.maximum(starts[rows] - _BEFORE, buffers.offsets[text_no[rows]])
            high = np.minimum(stops[rows] + _AFTER, buffers.offsets[text_no[rows] + 1])
            before, spelled = _before(buffers, low, starts[rows])
            seen = pl.DataFrame(
                {
                    "value": pl.Series(distinct.value.take(pa.array(which[rows]))),
                    "before": before,
                    "spelled": spelled,
                    "after": _window(buffers, stops[rows], high),
                }
            )
            unsaid[rows] = ~apart(f"context {one.name}", one.context, seen).to_numpy()
        return unsaid

    def _glued(
        self, buffers: Buffers, text_no: I64, starts: I64, stops: I64, kind: I32, left: Bools, right: Bools
    ) -> npt.NDArray[np.bool_]:
        """True where a value may not stand, by its kind's boundary rule; `left` and `right`: whether that side is asked."""
        data, offsets, last = buffers.data, buffers.offsets, stops - 1
        before = left & (starts > offsets[text_no]) & self._word[data[starts]] & self._before[kind, data[np.maximum(starts - 1, 0)]]
        after = right & (stops < offsets[text_no + 1]) & self._word[data[last]] & self._after[kind, data[np.minimum(stops, len(data) - 1)]]
        glued: npt.NDArray[np.bool_] = before | after
        return glued

    def _kinds_of(self, frame: pl.DataFrame, turn: int) -> tuple[I64, dict[tuple[int, str], I64], pl.DataFrame, I64, I64]:
        """The kind of every candidate (-1 where none); the rows that a kind took and its check refused, by (kind, reason); and the
        candidates without what their kind takes along before and after a value, with the bytes that were cut off on either side."""
        kind, lead, trail = np.full(frame.height, -1, np.int64), np.zeros(frame.height, np.int64), np.zeros(frame.height, np.int64)
        open_rows = np.arange(frame.height)
        refused: dict[tuple[int, str], I64] = {}
        rest = frame  # the open rows as they came
        second: list[tuple[int, I64, pl.Series]] = []  # what national identifiers refused
        for number, one in enumerate(self.kinds):
            if not len(open_rows):
                break
            if one.turn != turn:
                continue
            taken = one.takes(rest).to_numpy()
            mine = open_rows[taken]
            if not len(mine):
                continue
            values = frame["value"].gather(mine)
            if one.lead is not None or one.trail is not None:
                before, after, values = _cut_off(one, values)
                cut_off = (before + after) > 0
            else:
                cut_off = None
            if one.check is not None:
                reason = apart(f"check {turn}", one.check, values)
                bad = reason.is_not_null().to_numpy()
                if one.country is None:
                    for word in reason.drop_nulls().unique().to_list():
                        refused[number, word] = mine[(reason == word).fill_null(False).to_numpy()]
                else:
                    taken[taken] = ~bad  # a number of one country may be that of another
                    if bad.any():
                        second.append((number, mine[bad], reason.filter(pl.Series(bad))))
                good = ~bad
            else:
                good = np.ones(len(mine), np.bool_)
            if cut_off is not None and (cut_off & good).any():
                where = np.flatnonzero(cut_off & good)
                lead[mine[where]], trail[mine[where]] = before[where], after[where]
                frame = frame.with_columns(value=frame["value"].scatter(mine[where], values.gather(where)))
            kind[mine[good]] = number
            if taken.any():
                open_rows = open_rows[~taken]
                rest = rest.filter(pl.Series(~taken))
        told = np.zeros(frame.height, np.bool_)
        for rows in refused.values():
            told[rows] = True  # once, by the kind that asked last
        for number, rows, reason in second:
            nobodys = (kind[rows] < 0) & ~told[rows]
            told[rows] = True
            for word in reason.unique(maintain_order=True).to_list():
                some = rows[nobodys & (reason == word).to_numpy()]
                if len(some):
                    refused[number, word] = some
        return kind, refused, frame, lead, trail

    def _distinct(self, kind: I32, value: pa.LargeStringArray) -> Distinct:
        """Identity forms and ids, kind by kind."""
        ids = np.empty(len(kind), np.int64)
        order: list[npt.NDArray[np.intp]] = []
        forms: list[pa.Array] = []
        for number in np.flatnonzero(np.bincount(kind, minlength=1)):
            rows = np.flatnonzero(kind == number)
            one = self.kinds[number]
            form = arrow(one.normalise(pl.Series(value.take(pa.array(rows)))))
            ids[rows] = value_ids(form, one.name, self.key)
            order.append(rows)
            forms.append(form)
        if not forms:
            return Distinct(kind, value, value, ids)
        back = np.empty(len(kind), np.int64)
        back[np.concatenate(order)] = np.arange(len(kind))
        return Distinct(kind, value, pa.concat_arrays(forms).take(pa.array(back)), ids)

    def _look_inside(self, spans: _Spans) -> _Spans:
        """What stands inside values such as URLs, added to the spans."""
        numbers = [self._index[name] for name in _INSIDE if name in self._index]
        outer = np.flatnonzero(np.isin(spans.distinct.kind, numbers))
        if not len(outer):
            return spans
        inside = Buffers.of(spans.distinct.value.take(pa.array(outer)))
        times = np.bincount(spans.which, minlength=len(spans.distinct.kind))[outer]
        inner, _ = self._search(inside, without=_INSIDE, times=times)
        if not len(inner.text_no):
            return spans.plus(inner, 0)
        # every occurrence of a holding value holds the same spans
        order = np.argsort(spans.which, kind="stable")
        low = np.searchsorted(spans.which[order], outer[inner.text_no], side="left")
        high = np.searchsorted(spans.which[order], outer[inner.text_no], side="right")
        each, place = ranges(low, high)
        holding = order[place]
        base = spans.starts[holding] - inside.offsets[inner.text_no[each]]
        held = _Spans(
            spans.text_no[holding],
            base + inner.starts[each],
            base + inner.stops[each],
            inner.which[each],
            spans.origin[holding],
            inner.distinct,
            inner.skipped,
            False,
        )
        return spans.plus(held, 0)


def _cut_off(one: Kind, values: pl.Series) -> tuple[I64, I64, pl.Series]:
    """The bytes of what a kind's pattern took along before and after each value, and the values without."""
    frame = pl.DataFrame({"value": values}).with_columns(
        before=pl.lit("") if one.lead is None else pl.col("value").str.extract(rf"\A({one.lead})").fill_null(""),
        after=pl.lit("") if one.trail is None else pl.col("value").str.extract(rf"({one.trail})\z").fill_null(""),
    )
    frame = frame.select(
        pl.col("before").str.len_bytes().cast(pl.Int64),
        pl.col("after").str.len_bytes().cast(pl.Int64),
        value=pl.col("value").str.strip_prefix(pl.col("before")).str.strip_suffix(pl.col("after")),
    )
    return frame["before"].to_numpy(), frame["after"].to_numpy(), frame["value"]


def _matches(seen: Buffers, kinds: list[Kind]) -> tuple[I64, I64]:
    """First and last + 1 byte of every leftmost match of the kinds' patterns.

    A form with a gate is looked for in the texts that hold what it needs, in no other, which finds the same: few texts hold any, and one
    such form among the alternatives makes the automaton several times as slow.
    """
    texts, forms = seen.column(), [form for kind in kinds for form in kind.gate or (((), kind.pattern),)]
    series = pl.Series(texts)
    holding = [_holding(series, needs) for needs, _ in forms]
    gated = np.zeros(len(texts), np.bool_)
    for rows in holding:
        gated[rows] = True
    low = high = np.empty(0, np.int64)
    plain = "|".join(form for needs, form in forms if not needs)
    if plain and not gated.all():
        low, high = apart("search", matches, seen, plain)
    if not gated.any():
        return low, high
    some = np.flatnonzero(gated)
    part = Buffers.of(texts.take(pa.array(some)))
    held = "|".join(form for (needs, form), rows in zip(forms, holding, strict=True) if not needs or len(rows))
    more, end = apart("gated search", matches, part, held)
    at = np.searchsorted(part.offsets, more, side="right") - 1
    shift = seen.offsets[some[at]] - part.offsets[at]
    others = ~gated[np.searchsorted(seen.offsets, low, side="right") - 1]
    low, high = np.concatenate([low[others], more + shift]), np.concatenate([high[others], end + shift])
    order = np.argsort(low, kind="stable")
    return low[order], high[order]


def _holding(texts: pl.Series, needs: tuple[str, ...]) -> I64:
    """The texts that match all of these, if any is asked."""
    rows = np.empty(0, np.int64)
    for number, one in enumerate(needs):
        here = texts.str.contains(one).arg_true().to_numpy().astype(np.int64)
        rows, texts = rows[here] if number else here, texts.gather(here)
    return rows


def _hidden(buffers: Buffers, starts: I64, stops: I64) -> Buffers:
    """The texts with what was found in them put out of sight."""
    if not len(starts):
        return buffers
    data = buffers.data.copy()
    data[within(starts, stops)] = GONE
    return Buffers(data, buffers.offsets)


def _window(buffers: Buffers, low: I64, high: I64) -> pl.Series:
    """The bytes of each range, whether ranges overlap or not; those beyond ASCII as blanks."""
    return _plain(buffers.data[within(low, high)], high - low)


def _plain(data: U8, sizes: I64) -> pl.Series:
    """Bytes in pieces of these sizes; those beyond ASCII as blanks."""
    return parted(np.where(data < 128, data, np.uint8(32)), np.concatenate([[0], np.cumsum(sizes)]))


def _before(buffers: Buffers, low: I64, high: I64) -> tuple[pl.Series, pl.Series]:
    """The same, and the bytes of each range in their own letters, but for those of a character that began before it."""
    data = buffers.data[within(low, high)]
    plain = _plain(data, high - low)
    if not (data > 127).any():
        return plain, plain
    for _ in range(3):  # a character has up to three bytes behind its first
        low = low + ((low < high) & ((buffers.data[np.minimum(low, len(buffers.data) - 1)] & 0xC0) == 0x80))
    return plain, parted(buffers.data[within(low, high)], np.concatenate([[0], np.cumsum(high - low)]))


def _together(found: list[Sections]) -> Sections:
    """The sections of several rounds of candidates, one after the other."""
    names = list(dict.fromkeys(name for one in found for name in one.names))
    number = {name: at for at, name in enumerate(names)}
    # the last entry serves index -1
    index = [np.array([*(number[name] for name in one.names), -1], np.int32)[one.index] for one in found]
    return Sections(np.concatenate(index) if index else np.empty(0, np.int32), names)


@dataclass(frozen=True, repr=False)
class _Spans:
    text_no: I64
    starts: I64  # in the column's bytes
    stops: I64
    which: I64
    origin: I64  # the candidate it came from, for its section
    distinct: Distinct
    skipped: dict[tuple[int, str], int]
    sorted: bool

    @classmethod
    def none(cls) -> _Spans:
        nothing, texts = np.empty(0, np.int64), pa.array([], pa.large_string())
        return cls(nothing, nothing, nothing, nothing, nothing, Distinct(nothing.astype(np.int32), texts, texts, nothing), {}, True)

    def plus(self, other: _Spans, candidates: int) -> _Spans:
        """These spans and others, whose origins are counted behind so many candidates."""
        skipped = {name: self.skipped.get(name, 0) + other.skipped.get(name, 0) for name in self.skipped.keys() | other.skipped.keys()}
        if not len(self.text_no) and not len(self.distinct.kind):
            return replace(other, origin=other.origin + candidates, skipped=skipped)
        if not len(other.text_no):
            return replace(self, skipped=skipped)
        one, two = self.distinct, other.distinct
        return _Spans(
            np.concatenate([self.text_no, other.text_no]),
            np.concatenate([self.starts, other.starts]),
            np.concatenate([self.stops, other.stops]),
            np.concatenate([self.which, len(one.kind) + other.which]),
            np.concatenate([self.origin, other.origin + candidates]),
            Distinct(
                np.concatenate([one.kind, two.kind]),
                pa.concat_arrays([one.value, two.value]),
                pa.concat_arrays([one.normalised, two.normalised]),
                np.concatenate([one.value_id, two.value_id]),
            ),
            skipped,
            False,
        )
