"""Occurrences of every kind that has a pattern: one pass over a column of texts for all kinds at once, exact in bytes and code points.

One alternation of all patterns is run by the linear-time engine of Polars, which writes a mark around each match; the marks are read
back from the bytes. Kind, check, identity and `value_id` are settled on the distinct candidates only. A URL is looked into once more,
for what stands inside it. All kinds are always looked for, so that one index serves every plan, and no kind takes another's text
because a plan does not name it. Costs about one pass at 280 MB per CPU-second; leaves names and free forms to other finders.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from sanitize.headers import sections
from sanitize.keyed import Key, value_ids
from sanitize.kinds.kind import WORD, Kind, boundaries, kinds, table_of
from sanitize.spans import I64, Buffers, arrow, code_points, cut, matches

I32 = npt.NDArray[np.int32]
NAME = "patterns"
_INSIDE = ("URL",)  # kinds whose values are looked into
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
    outside mail. `skipped` counts candidates that their kind's check refused, by (kind index, reason).
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


class Patterns:
    """The finder of all kinds in sanitize/kinds/, under one key."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self.kinds: list[Kind] = [kind for kind in kinds().values() if kind.pattern]
        self._outer = "|".join(kind.pattern for kind in self.kinds)
        self._inner = "|".join(kind.pattern for kind in self.kinds if kind.name not in _INSIDE)
        self._before, self._after = boundaries(self.kinds)
        self._word = table_of(WORD)
        self._index = {kind.name: number for number, kind in enumerate(self.kinds)}

    def run(self, texts: pa.LargeStringArray) -> Found:
        """All occurrences in a column of texts; a null text has none."""
        if texts.null_count:
            texts = texts.fill_null("")
        buffers = Buffers.of(texts)
        starts, stops = matches(buffers, self._outer)
        text_no = np.searchsorted(buffers.offsets, starts, side="right") - 1
        where = sections(buffers, text_no, starts)
        spans = self._settle(buffers, text_no, starts, stops, where.is_id_field * 2 + where.is_address_field)
        spans = self._look_inside(buffers, spans)
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

    def _settle(self, buffers: Buffers, text_no: I64, starts: I64, stops: I64, field: I64, weight: I64 | None = None) -> _Spans:
        """Which kind each candidate is, if any: decided once for each distinct (value, bracketed, field). `field` is 2 in an id field, 1 in
        an address field, else 0; `weight` is how often each candidate counts among the refused."""
        bracketed = np.zeros(len(starts), np.bool_)
        if len(starts):
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
        kind, reasons = self._kinds_of(frame)
        good = np.flatnonzero(kind >= 0)
        distinct = self._distinct(kind[good].astype(np.int32), values.take(pa.array(good)))
        skipped: dict[tuple[int, str], int] = {}
        row = place[variant]
        if reasons:
            times = np.bincount(row, weight, minlength=len(used))
            for where, rows in reasons.items():
                skipped[where] = int(times[rows].sum())
        to_distinct = np.full(len(used), -1, np.int64)
        to_distinct[good] = np.arange(len(good))
        which = to_distinct[row]
        keep = np.flatnonzero(which >= 0)
        glued = self._glued(buffers, text_no[keep], starts[keep], stops[keep], distinct.kind[which[keep]])
        if glued.any():
            times = np.bincount(distinct.kind[which[keep[glued]]], None if weight is None else weight[keep[glued]])
            skipped |= {(number, "boundary"): int(times[number]) for number in np.flatnonzero(times).tolist()}
            keep = keep[~glued]
        return _Spans(text_no[keep], starts[keep], stops[keep], which[keep], keep, distinct, skipped, True)

    def _glued(self, buffers: Buffers, text_no: I64, starts: I64, stops: I64, kind: I32) -> npt.NDArray[np.bool_]:
        """True where a value may not stand, by its kind's boundary rule."""
        data, offsets, last = buffers.data, buffers.offsets, stops - 1
        before = (starts > offsets[text_no]) & self._word[data[starts]] & self._before[kind, data[np.maximum(starts - 1, 0)]]
        after = (stops < offsets[text_no + 1]) & self._word[data[last]] & self._after[kind, data[np.minimum(stops, len(data) - 1)]]
        glued: npt.NDArray[np.bool_] = before | after
        return glued

    def _kinds_of(self, frame: pl.DataFrame) -> tuple[I64, dict[tuple[int, str], I64]]:
        """The kind of every candidate (-1 where none), and the rows that a kind took and its check refused, by (kind, reason)."""
        kind = np.full(frame.height, -1, np.int64)
        open_rows = np.arange(frame.height)
        refused: dict[tuple[int, str], I64] = {}
        for number, one in enumerate(self.kinds):
            if not len(open_rows):
                break
            rest = frame if len(open_rows) == frame.height else frame[open_rows]
            taken = one.takes(rest).to_numpy()
            mine, open_rows = open_rows[taken], open_rows[~taken]
            if one.check is not None and len(mine):
                reason = one.check(frame["value"].gather(mine))
                bad = reason.is_not_null().to_numpy()
                for word in reason.drop_nulls().unique().to_list():
                    refused[number, word] = mine[(reason == word).fill_null(False).to_numpy()]
                mine = mine[~bad]
            kind[mine] = number
        return kind, refused

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

    def _look_inside(self, buffers: Buffers, spans: _Spans) -> _Spans:
        """What stands inside values such as URLs, added to the spans."""
        numbers = [self._index[name] for name in _INSIDE if name in self._index]
        outer = np.flatnonzero(np.isin(spans.distinct.kind, numbers))
        if not len(outer):
            return spans
        inside = Buffers.of(spans.distinct.value.take(pa.array(outer)))
        starts, stops = matches(inside, self._inner)
        if not len(starts):
            return spans
        holder = np.searchsorted(inside.offsets, starts, side="right") - 1
        times = np.bincount(spans.which, minlength=len(spans.distinct.kind))[outer[holder]]
        inner = self._settle(inside, holder, starts, stops, np.zeros(len(starts), np.int64), times)
        if not len(inner.text_no):
            return replace(spans, skipped=_sum(spans.skipped, inner.skipped))
        # every occurrence of a holding value holds the same spans
        order = np.argsort(spans.which, kind="stable")
        low = np.searchsorted(spans.which[order], outer[inner.text_no], side="left")
        high = np.searchsorted(spans.which[order], outer[inner.text_no], side="right")
        times = high - low
        each = np.repeat(np.arange(len(times)), times)
        holding = order[np.repeat(low, times) + np.arange(len(each)) - np.repeat(np.cumsum(times) - times, times)]
        base = spans.starts[holding] - inside.offsets[inner.text_no[each]]
        both = Distinct(
            np.concatenate([spans.distinct.kind, inner.distinct.kind]),
            pa.concat_arrays([spans.distinct.value, inner.distinct.value]),
            pa.concat_arrays([spans.distinct.normalised, inner.distinct.normalised]),
            np.concatenate([spans.distinct.value_id, inner.distinct.value_id]),
        )
        return _Spans(
            np.concatenate([spans.text_no, spans.text_no[holding]]),
            np.concatenate([spans.starts, base + inner.starts[each]]),
            np.concatenate([spans.stops, base + inner.stops[each]]),
            np.concatenate([spans.which, len(spans.distinct.kind) + inner.which[each]]),
            np.concatenate([spans.origin, spans.origin[holding]]),
            both,
            _sum(spans.skipped, inner.skipped),
            False,
        )


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


def _sum(one: dict[tuple[int, str], int], other: dict[tuple[int, str], int]) -> dict[tuple[int, str], int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in one.keys() | other.keys()}
