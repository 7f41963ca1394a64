"""All that a text says by itself of what a plan looks for: what the house's patterns find, and the plan's own kinds.

    texts -> occurrences

A kind of the plan is looked for in the texts as they are, whatever else stands there: its pattern by one pass of the linear-time engine,
its words by the matcher of the leak check. Where such an occurrence and another one share bytes, sanitize/stages/span_conflicts.py
decides as it does
between finders; of equally sure and equally long ones the plan's own stays. Costs a pass for each kind with a pattern, and one for its
words; nothing where a plan brings none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from sanitize.core.arrow_buffers import I64, Buffers, arrow, ascii_lower, code_points, cut_nested, filled, matches, table_of, within
from sanitize.core.keys import Key, value_ids
from sanitize.finders.known import Folded
from sanitize.finders.patterns import Distinct, Found, Patterns
from sanitize.kinds.custom_kind import Custom
from sanitize.kinds.kind import BOUND, WORD, Kind, boundaries, every_kind, parted
from sanitize.plans.detection_spec import Sought
from sanitize.stages.span_conflicts import Claims, settle
from sanitize.text.literal_search import Flagged, Matches, respelled
from sanitize.text.mail_headers import sections

Bools = npt.NDArray[np.bool_]
F32 = npt.NDArray[np.float32]
_BEFORE, _AFTER = 64, 32  # bytes in which a word of the context may stand
_WORD = table_of(WORD)


class Seeker:
    """The finder of everything that is sought by itself; `kinds` is what its results count by."""

    def __init__(self, key: Key, sought: Sought) -> None:
        self._patterns = Patterns(key, sought.countries, sought.named)
        self._customs = [_One(custom, key) for custom in sought.customs]
        self.kinds: list[Kind] = [*self._patterns.kinds, *(one.kind for one in self._customs)]

    def run(self, texts: pa.LargeStringArray) -> Found:
        """All occurrences in a column of texts; a null text has none."""
        texts = filled(texts)
        found = self._patterns.run(texts)
        if not self._customs:
            return found
        return _together(texts, found, [one.run(texts) for one in self._customs], len(self._patterns.kinds))


@dataclass(frozen=True, repr=False)
class _Spans:
    """What one kind of the plan found: spans sorted by place, in the bytes of their text."""

    text_no: I64
    start: I64
    stop: I64
    score: F32
    which: I64  # of the three below
    value: pa.LargeStringArray
    normalised: pa.LargeStringArray
    value_id: I64
    skipped: dict[str, int]


class _One:
    """One kind of the plan at work."""

    def __init__(self, custom: Custom, key: Key) -> None:
        self.custom, self.key = custom, key
        self.kind = every_kind()[custom.name]
        self._before, self._after = boundaries([self.kind])
        words = _single(pl.Series(custom.words, dtype=pl.String).str.strip_chars())
        self._spelled = words.str.normalize("NFKC") if custom.case == "exact" else None
        forms = pl.concat([ascii_lower(words), respelled(pl.DataFrame({"form": words}))["form"]]).unique(maintain_order=True)
        number = list(every_kind()).index(custom.name)
        self._words = Flagged(arrow(forms), np.full(len(forms), number, np.int32), np.zeros(len(forms), np.int64))
        self._context = _any_of(custom.context) if custom.context else ""

    def run(self, texts: pa.LargeStringArray) -> _Spans:
        """Its occurrences in a column of texts without nulls."""
        buffers, custom, skipped = Buffers.of(texts), self.custom, dict[str, int]()

        def refused(reason: str, good: Bools, *columns: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
            if not good.all():
                skipped[reason] = skipped.get(reason, 0) + int((~good).sum())
            return [column[good] for column in columns]

        low, high = matches(buffers, custom.pattern) if custom.pattern else (np.empty(0, np.int64), np.empty(0, np.int64))
        low, high = low[high > low], high[high > low]
        low, high = refused("boundary", self._alone(buffers, low, high), low, high)
        if custom.words:
            more = self._listed(buffers)
            low, high = np.concatenate([low, more[0]]), np.concatenate([high, more[1]])
            # the longest of those that begin together first; each once
            order = np.lexsort((-high, low))
            low, high = low[order], high[order]
            new = np.append(True, (np.diff(low) != 0) | (np.diff(high) != 0))[: len(low)]
            low, high = low[new], high[new]
        encoded = cut_nested(buffers, low, high).dictionary_encode()
        which, values = np.asarray(encoded.indices, np.int64), pl.Series(encoded.dictionary, dtype=pl.String)
        if self.kind.check is not None and len(values):
            sound = self.kind.check(values).is_null().to_numpy()
            low, high, which = refused(custom.check, sound[which], low, high, which)
        sure = np.full(len(low), 1.0 if custom.score is None else custom.score, np.float32)
        if self._context:
            told = self._said(buffers, low, high)
            sure[told] = 1.0
            if custom.score is None:
                low, high, which, sure = refused("context", told, low, high, which, sure)
        text_no = np.searchsorted(buffers.offsets, low, side="right") - 1
        base = buffers.offsets[text_no]
        forms = arrow(self.kind.normalise(values))
        ids = value_ids(forms, self.kind.name, self.key)
        return _Spans(text_no, low - base, high - base, sure, which, arrow(values), forms, ids, skipped)

    def _alone(self, buffers: Buffers, low: I64, high: I64) -> Bools:
        """True for spans that are not glued to bytes which their kind's boundary rule forbids."""
        text_no = np.searchsorted(buffers.offsets, low, side="right") - 1
        before, after = buffers.data[np.maximum(low - 1, 0)], buffers.data[np.minimum(high, max(len(buffers.data) - 1, 0))]
        glued = (low > buffers.offsets[text_no]) & _WORD[buffers.data[low]] & self._before[0][before]
        glued |= (high < buffers.offsets[text_no + 1]) & _WORD[buffers.data[high - 1]] & self._after[0][after]
        return np.asarray(~glued)

    def _listed(self, buffers: Buffers) -> tuple[I64, I64]:
        """Where the words of the list stand: across any white space, and in Unicode's compatibility forms; in their own letter case, where
        that counts."""
        folded = Folded(buffers)
        both = [self._words.find(folded.texts), self._words.find_compatible(folded.texts)]
        joined = Matches(*(np.concatenate([getattr(one, name) for one in both]) for name in ("text_no", "start", "stop", "form")))
        text_no, start, stop = folded.original(joined)
        low, high = buffers.offsets[text_no] + start, buffers.offsets[text_no] + stop
        order = np.lexsort((-high, low))
        low, high = low[order], high[order]
        if self._spelled is not None and len(low):
            written = _single(pl.Series(cut_nested(buffers, low, high))).str.normalize("NFKC")
            good = written.is_in(self._spelled.implode()).to_numpy()
            low, high = low[good], high[good]
        return low, high

    def _said(self, buffers: Buffers, low: I64, high: I64) -> Bools:
        """True for spans with a word of the context near them, in the same text."""
        text_no = np.searchsorted(buffers.offsets, low, side="right") - 1
        first = np.maximum(low - _BEFORE, buffers.offsets[text_no])
        last = np.minimum(high + _AFTER, buffers.offsets[text_no + 1])
        told = np.zeros(len(low), np.bool_)
        for begin, end in ((first, low), (high, last)):
            begin, end = _whole(buffers.data, begin, end)
            window = parted(buffers.data[within(begin, end)], np.concatenate([[0], np.cumsum(end - begin)]))
            told |= window.str.contains(self._context).to_numpy()
        return told


def _whole(data: npt.NDArray[np.uint8], begin: I64, end: I64) -> tuple[I64, I64]:
    """The ranges without the characters that their edges cut."""
    last = max(len(data) - 1, 0)
    for _ in range(3):
        begin = begin + ((begin < end) & ((data[np.minimum(begin, last)] & 0xC0) == 0x80))
        end = end - ((end > begin) & (end <= last) & ((data[np.minimum(end, last)] & 0xC0) == 0x80))
    return begin, end


def _any_of(words: Sequence[str]) -> str:
    """A pattern for any of some words, in any letter case, as whole words where they begin and end in ASCII."""
    parts = []
    for word in words:
        plain = re.escape(re.sub(r"\s+", " ", word.strip())).replace(r"\ ", r"\s+")
        parts.append((BOUND if word.strip()[:1].isascii() else "") + plain + (BOUND if word.strip()[-1:].isascii() else ""))
    return "(?i)(?:" + "|".join(parts) + ")"


def _single(texts: pl.Series) -> pl.Series:
    """Every run of white space as one blank."""
    return texts.str.replace_all(r"\s+", " ")


def _together(texts: pa.LargeStringArray, house: Found, own: Sequence[_Spans], first: int) -> Found:
    """What the house found and what the plan's kinds did, by the rule of sanitize/stages/span_conflicts.py; `first` is the number of the
    plan's
    first kind."""
    sizes = [len(house.text_no), *(len(one.text_no) for one in own)]

    def joined(mine: npt.NDArray[Any], theirs: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        return np.concatenate([mine, *theirs])

    sure = np.ones(sizes[0], np.float32) if house.score is None else house.score
    sealed = len(own)  # behind the plan's own, which come first among equals
    claims = Claims(
        text_no=joined(house.text_no, [one.text_no for one in own]),
        start=joined(house.start_byte, [one.start for one in own]),
        stop=joined(house.stop_byte, [one.stop for one in own]),
        kind=joined(house.distinct.kind[house.which], [np.full(size, first + no) for no, size in enumerate(sizes[1:])]).astype(np.int32),
        finder=np.repeat(np.array([sealed, *range(len(own))], np.int32), sizes),
        score=joined(sure, [one.score for one in own]),
        sealed=sealed,
    )
    stay, lost = settle(claims)
    skipped = dict(house.skipped)
    for no, one in enumerate(own):
        skipped |= {(first + no, reason): times for reason, times in one.skipped.items()}
    for kind, times in enumerate(np.bincount(claims.kind[lost], minlength=1).tolist()):
        if times:
            skipped[kind, "overlap"] = skipped.get((kind, "overlap"), 0) + times
    shift = np.cumsum([len(house.distinct.kind), *(len(one.value) for one in own)])
    which = joined(house.which, [one.which + before for one, before in zip(own, shift, strict=False)])
    distinct = Distinct(
        kind=joined(house.distinct.kind, [np.full(len(one.value), first + no) for no, one in enumerate(own)]).astype(np.int32),
        value=pa.concat_arrays([house.distinct.value, *(one.value for one in own)]),
        normalised=pa.concat_arrays([house.distinct.normalised, *(one.normalised for one in own)]),
        value_id=joined(house.distinct.value_id, [one.value_id for one in own]),
    )
    # places and sections of the new ones, in their order; those of the house are known
    fresh = stay[stay >= sizes[0]]
    buffers = Buffers.of(texts)
    base = buffers.offsets[claims.text_no[fresh]]
    low, high = base + claims.start[fresh], base + claims.stop[fresh]
    where = sections(buffers, claims.text_no[fresh], low)
    begins, ends = code_points(buffers, claims.text_no[fresh], low, high)
    names = [*dict.fromkeys([*house.section_names, *where.names])]
    number = {name: place for place, name in enumerate(names)}
    mine, theirs = (np.array([*(number[name] for name in told), -1], np.int32) for told in (house.section_names, where.names))
    columns = []
    for old, new in ((house.start, begins), (house.stop, ends), (mine[house.section], theirs[where.index])):
        every = np.zeros(len(claims.text_no), old.dtype)
        every[: sizes[0]], every[fresh] = old, new
        columns.append(every[stay])
    start, stop, section = columns
    return Found(
        text_no=claims.text_no[stay],
        start_byte=claims.start[stay],
        stop_byte=claims.stop[stay],
        start=start,
        stop=stop,
        which=which[stay],
        section=section,
        section_names=names,
        distinct=distinct,
        skipped=skipped,
        score=claims.score[stay],
    )
