"""Names of people, without a model: mined from header lines, and read in prose by lists of names, titles and what stands around them.

Mined: what stands beside an address in a list (`Ann Roe <ann@example.com>`, `ann@example.com (Ann Roe)`), at the top of a mail or in a
forwarded or quoted block. Such a name is sure, is linked to its address where the two share a word, and is looked for everywhere by
`known`; so is a listed name that stands in such a line without an address.

In prose: runs of capitalised words, by what the words are (sanitize/text/name_lexicon.py): given names and surnames, titles, initials,
words of
the language that are names too. A single word needs more: to be a given name and no common word, a title, a greeting, a signature, `my
name is`; or to be part of a longer name of the same text. Words that name firms, places and days cut a run; in lower case two listed names
side by side count.

Scores say how it was told, not how likely it is: 1.0 beside an address, 0.9 in a header line or behind a title, 0.8 two listed names, or
one behind a greeting, 0.7 a part of a longer name, or a name of which one word is listed, 0.6 a given name alone, 0.5 in lower case.

All of it on columns of words, a text by itself.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import PrivateAttr

from sanitize.core.arrow_buffers import I64, Buffers, among, arrow, cut, ranges, table_of
from sanitize.core.keys import Key, value_ids
from sanitize.core.parts import Column, Finder, Spans
from sanitize.kinds.kind import kind
from sanitize.kinds.person import plain
from sanitize.text.address_lists import display_spans
from sanitize.text.mail_headers import HeaderLines, header_lines
from sanitize.text.name_lexicon import (
    BODY,
    CLOSE,
    COMMON,
    FAMILY,
    FIRST,
    GREET,
    LABEL,
    LAST,
    LEADS,
    PARTICLE,
    PLACE,
    ROMANIZED,
    SAYS,
    STOP,
    TITLE,
    WHERE,
    lexicon,
)
from sanitize.text.tokenizer import Spoken, spoken

Mask = npt.NDArray[np.bool_]
I32 = npt.NDArray[np.int32]
NAME = "names"
_PERSON = "PERSON"
_LONGEST = 5  # words of a name
BESIDE, HEADER, TITLED, LISTED, GREETED, PART, HALF, ALONE, LOWER = 1.0, 0.9, 0.9, 0.8, 0.8, 0.7, 0.7, 0.6, 0.5
_NO_LINKS = pl.DataFrame(schema={"value_id": pl.Int64, "other": pl.Int64})


class Names(Finder):
    """Settings: `prose = false` mines header lines alone."""

    VERSION: ClassVar[int] = 3
    prose: bool = True
    _key: Key = PrivateAttr()

    @property
    def kinds(self) -> tuple[str, ...]:
        """Names of people alone."""
        return (_PERSON,)

    def open(self, key: Key, gathered: object) -> None:
        """Build the lexicon, once a process."""
        self._key = key
        lexicon()

    def run(self, column: Column) -> Spans:
        """The names in a column of texts."""
        buffers = Buffers.of(column.texts)
        found = column.found.filter(pl.col("kind") != _PERSON)
        addresses = found.filter(pl.col("kind") == "EMAIL_ADDRESS")
        start, stop, score, links = _beside(buffers, addresses, self._key)
        if self.prose:
            words = _Words(buffers)
            more = _Prose(words).names()
            more = _apart(*_apart(*more, *_covered(buffers, found)), start, stop)
            start, stop, score = (np.concatenate([one, other]) for one, other in zip((start, stop, score), more, strict=True))
        text_no = np.searchsorted(buffers.offsets, start, side="right") - 1
        base = buffers.offsets[text_no]
        return Spans(
            text_no=text_no,
            start_byte=start - base,
            stop_byte=stop - base,
            kind=np.zeros(len(start), np.int32),
            kinds=(_PERSON,),
            score=score.astype(np.float32),
            links=links,
        )


# ---------------------------------------------------------------------------------------------------------------------- header lines


def _beside(buffers: Buffers, addresses: pl.DataFrame, key: Key) -> tuple[I64, I64, npt.NDArray[np.float64], pl.DataFrame]:
    """The names beside addresses in lists, and the links between the two."""
    text_no = addresses["text_no"].to_numpy()
    starts, stops = (buffers.offsets[text_no] + addresses[name].to_numpy() for name in ("start_byte", "stop_byte"))
    # an address inside another value (a URL) is no entry of a list, and one inside another has no name of its own
    alone = np.flatnonzero(np.append(True, starts[1:] >= np.maximum.accumulate(stops)[:-1])) if len(starts) else np.empty(0, np.int64)
    text_no, starts, stops = text_no[alone], starts[alone], stops[alone]
    lines: HeaderLines = header_lines(buffers, text_no, starts) if len(starts) else HeaderLines.empty(0)
    names, begin, end = display_spans(buffers, lines, starts, stops)
    rows = np.flatnonzero(begin >= 0)
    local = pl.Series(cut(buffers, starts[rows], stops[rows])).str.to_lowercase().str.extract(r"\A([^@]*)@").fill_null("")
    form = kind(_PERSON).normalise(names.gather(rows))
    close = alike(form, local).to_numpy() if len(rows) else np.empty(0, np.bool_)
    good = np.flatnonzero(_personal(names.gather(rows))) if len(rows) else np.empty(0, np.int64)
    if not len(good):
        nothing = np.empty(0, np.int64)
        return nothing, nothing, np.empty(0), _NO_LINKS
    linked = good[close[good]]
    pairs = pl.DataFrame({"name": form.gather(linked), "value_id": addresses["value_id"].gather(alone).gather(rows[linked])})
    pairs = pairs.unique(maintain_order=True)
    links = pl.DataFrame({"value_id": pairs["value_id"], "other": value_ids(arrow(pairs["name"]), _PERSON, key)}, schema=_NO_LINKS.schema)
    rows = rows[good]
    return begin[rows], end[rows], np.full(len(rows), BESIDE), links


def _personal(names: pl.Series) -> Mask:
    """True for display names that are a person's: a word of it is a listed name that is no common word, or it is a given name and one
    more word, or none of it is a common word; and none says a firm or a body."""
    column = arrow(names)
    seen = spoken(Buffers.of(column))
    flags = lexicon().flags_of(seen.hashes)
    count = len(column)

    def times(where: Mask) -> I64:
        return np.bincount(seen.text_no[where], minlength=count)

    name = (flags & (FIRST | LAST)) > 0
    plain = (flags & (COMMON | STOP | CLOSE | PLACE)) > 0
    words, listed = times(np.ones(len(flags), np.bool_)), times(name & ~plain)
    body = times(((flags & BODY) > 0) & ~name)
    given = times((flags & FIRST) > 0)
    apart = names.str.contains(" ", literal=True).to_numpy()  # `ann.roe` beside its address is the address again
    good: Mask = (
        apart & (words >= 2) & (words <= _LONGEST) & (body == 0) & ((listed > 0) | ((given > 0) & (words == 2)) | (times(plain) == 0))
    )
    return good


def alike(names: pl.Series, locals_of: pl.Series) -> pl.Series:
    """True where a word of the name, of three letters or more, stands in the local part; accents do not count (`Jürgen`: `jurgen` and
    `juergen`)."""
    words = names.str.split(" ")
    frame = pl.DataFrame({"row": np.arange(len(names)), "word": words, "local": plain(locals_of)}).explode("word")
    frame = frame.with_columns(word=plain(frame["word"]), long=plain(frame["word"], long=True))
    said = pl.any_horizontal(pl.col("local").str.contains(pl.col(word), literal=True) for word in ("word", "long"))
    same = frame.select("row", hit=(pl.col("word").str.len_chars() > 2) & said)
    return same.group_by("row", maintain_order=True).agg(pl.col("hit").any()).sort("row")["hit"].fill_null(False)


# ----------------------------------------------------------------------------------------------------------------------------- prose


class _Words:
    """The words of a column with what is known of each: `flags` of the lexicon, how it is written, and how it is joined to the next."""

    def __init__(self, buffers: Buffers) -> None:
        seen: Spoken = spoken(buffers)
        self.buffers, self.start, self.stop, self.hashes = buffers, seen.start, seen.stop, seen.hashes
        self.text_no = seen.text_no
        count = len(self.start)
        data = np.concatenate([buffers.data, np.zeros(4, np.uint8)])
        self.flags = lexicon().flags_of(seen.hashes)
        head, tail, second = data[self.start], data[self.stop - 1], data[self.start + 1]
        length = self.stop - self.start
        self.cap = _UPPER[head]
        wide = np.flatnonzero(head >= 0xC3)
        if len(wide):
            shown = pl.Series(cut(buffers, self.start[wide], self.stop[wide]))
            self.cap[wide] = shown.str.contains(r"\A\p{Lu}").to_numpy()
        self.initial = self.cap & ((length == 1) | ((length == 2) & (head >= 0xC3)))
        self.upper = _UPPER[head] & (length > 1) & _UPPER[tail] & _UPPER[second]
        self.lower = _LOWER[head]
        digit = np.zeros(count, np.bool_)
        places = np.flatnonzero(among(buffers.data, _DIGIT))
        if len(places):
            digit[np.searchsorted(self.start, places, side="right") - 1] = True
        self.digit = digit
        # what stands between each word and the next
        gap = np.append(self.start[1:] - self.stop[:-1], 0)
        one, two = data[self.stop], data[self.stop + 1]
        same = np.append(np.diff(self.text_no) == 0, False)
        blank = (gap == 1) & (one == 32)
        self.tight = same & (((gap == 1) & _TIGHT[one]) | ((gap == 3) & (one == 0xE2)))
        short = self.initial | ((self.flags & TITLE) > 0)
        self.joined = same & (
            blank | self.tight | ((gap == 2) & (one == 46) & (two == 32) & short) | ((gap == 1) & (one == 46) & self.initial)
        )
        self.blank = same & blank
        self.same = same
        self.after = one  # the byte behind each word
        self.gap = gap
        self.data = data

    def has(self, flag: int) -> Mask:
        """True where a word has one of some flags."""
        found: Mask = (self.flags & flag) > 0
        return found


_UPPER, _LOWER = (table_of(bytes(range(first, first + 26))) for first in b"Aa")
_DIGIT = table_of(b"0123456789")
_TIGHT = table_of(b"-'")
_ENDS, _OPENS = (table_of(signs) for signs in (b";:\n\r\t)>]\"'/|<", b"<([-|/"))
_STARTS = table_of(b";:\n\r\t(<[\"'|>")
_COMMA, _DOT, _COLON, _SLASH = ord(","), ord("."), ord(":"), ord("/")
_SIGN = table_of(b",!:;.\n\r-")


# how abbreviations begin that are no initials: `U.S. Attorney`, `P.S. Zyqwert`, `C.O.D.`
_ABBREVIATED = [first << 8 | second for first, second in b"US UK UN UA EU PS DC NY NJ LA AM PM QA NB BC AD PO CO SA CE IE EG RI VP".split()]


def _next(where: Mask) -> Mask:
    """What holds for the word behind each."""
    return np.append(where[1:], np.zeros(min(len(where), 1), np.bool_))


def _before(where: Mask) -> Mask:
    """What holds for the word before each."""
    return np.append(np.zeros(min(len(where), 1), np.bool_), where[:-1])


class _Prose:
    """The names in the words of a column."""

    def __init__(self, words: _Words) -> None:
        self.w = words
        has = words.has
        self.common = has(COMMON) | has(STOP)
        self.first, self.last = has(FIRST), has(LAST)
        self.given = self.first & ~self.common & ~has(STOP)  # a given name, and seldom anything else
        self.listed = (self.first | self.last) & ~self.common
        title = has(TITLE) & (words.cap | ~words.joined)
        # a title that is a name too (`Dean`) is one where it begins a name
        cut_off = (has(BODY) & ~self.listed) | has(STOP) | has(GREET) | has(CLOSE) | (has(TITLE) & ~self.given)
        cut_off &= ~(words.initial & (words.after == _DOT))  # `John A. Roe`, where `A` is no article
        self.title = title & ~self.given
        self.namey = words.cap & ~words.digit & ~cut_off
        particle = has(PARTICLE) & words.lower
        for _ in range(2):  # `van der Berg`
            self.namey |= (
                particle & _before(self.namey & words.joined & (words.cap | particle)) & words.joined & _next(words.cap | particle)
            )
        # `Mr. van der Berg`
        after_title = particle & words.joined & _before(self.title & words.joined)
        chain = after_title
        for _ in range(2):
            chain = chain | (particle & words.joined & _before(chain))
        whole = chain & _next(self.namey)
        for _ in range(2):
            whole = whole | (chain & _next(whole))
        self.namey |= whole
        self.particle = particle & self.namey & ~(after_title & whole)
        # a listed name, or what leads to one: `O'Brien`, `van der Berg`, `A. Roe`
        self.ahead = self.listed
        for _ in range(3):
            self.ahead = self.ahead | ((self.particle | words.initial) & words.joined & _next(self.ahead))

    def names(self) -> tuple[I64, I64, npt.NDArray[np.float64]]:
        """First byte, byte after, and score of every name."""
        w, count = self.w, len(self.w.start)
        if not count:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        link = w.joined & self.namey & _next(self.namey)  # this word and the next are of one run
        opens = self.namey & ~_before(link)
        run_end = _run_end(link)  # the last word of the run that each word is in
        # where a name may begin inside a run
        follows = link & _next(self.ahead)
        surname_first = self.last & ~self.common & link & _next(self.given)
        family = self._romanized(link)
        lettered = self._lettered(link)
        initials = (w.initial & link & _next(self.ahead)) | lettered
        begins = self.namey & ~self.particle & (self.given | ((self.first & self.common) & follows) | surname_first | family | initials)
        context, told = self._context(opens, run_end)
        told[lettered] = np.maximum(told[lettered], HALF)
        begins |= context & self.namey & ~self.particle
        # the first such word of each run
        run = np.cumsum(opens) - 1
        candidates = np.flatnonzero(begins)
        candidates = candidates[np.append(True, np.diff(run[candidates]) != 0)] if len(candidates) else candidates
        start = candidates
        end = np.minimum(run_end[start], start + _LONGEST - 1)
        two = family[start] & ~self.given[start]  # a family name and one word
        start, end = self._trimmed(start, np.where(two, np.minimum(end, start + 1), end), two)
        words = end - start + 1
        score = np.where(words > 1, HALF, 0.0)
        solid = np.append(0, np.cumsum(self.listed))
        score = np.where((words > 1) & (solid[end + 1] - solid[start] > 1), LISTED, score)
        score = np.where((words == 1) & self.given[start], ALONE, score)
        score = np.where(family[start] & (words > 1), LISTED, score)
        score = np.maximum(score, told[start])
        # a single place is a name where the context says so
        place = (words == 1) & w.has(PLACE)[start] & (told[start] == 0)
        where = w.has(WHERE) | w.has(BODY)
        near = np.append(False, where[:-1] & w.blank[:-1])[start] | (w.after[end] == 44) | ~(w.blank[end] & _next(w.has(SAYS))[end])
        score[place & near] = 0
        # `Wells Fargo Bank`, `Johnson & Sons`: what goes on is a firm's, a street's, a body's
        goes_on = (w.joined & _next(w.has(BODY) & w.cap & ~w.initial))[end] | (w.same & (w.gap == 3) & (w.data[w.stop + 1] == 38))[end]
        comes_from = np.append(False, (w.same & (w.gap == 3) & (w.data[w.stop + 1] == 38))[:-1])[start]
        score[(goes_on | comes_from) & (told[start] < TITLED)] = 0
        # `New York`: places and common words alone
        says = np.append(0, np.cumsum(self.listed & ~w.has(PLACE)))
        score[(words > 1) & (told[start] == 0) & (says[end + 1] == says[start]) & ~family[start]] = 0
        # `ENE`: short capitals alone
        score[(words == 1) & w.upper[start] & ((w.stop - w.start)[start] <= 3) & (told[start] == 0)] = 0
        good = score > 0
        start, end, score = start[good], end[good], score[good]
        turned = self._turned(opens, run_end)
        if len(turned[0]):
            start, end, score = _with(*turned, start, end, score)
        start, end, score = _with(start, end, score, *self._parts(start, end, score))
        start, end, score = _with(start, end, score, *self._lower())
        return w.start[start], w.stop[end], score

    def _lettered(self, link: Mask) -> Mask:
        """The first of two initials or more with dots, `J. R. R. Zyqwert`, where what follows is no common word; not `U.S. Attorney`."""
        w = self.w
        dotted = w.initial & (w.after == _DOT) & link
        word = w.cap & ~w.upper & ~w.initial & ~self.common & ~w.has(PLACE | BODY) & (w.stop - w.start > 2)
        ahead = dotted & _next(word)
        for _ in range(2):
            ahead |= dotted & _next(ahead)
        first = dotted & ~_before(w.initial & w.same & (w.after == _DOT) & (w.gap <= 2))
        pair = w.data[w.start].astype(np.int64) << 8 | np.append(w.data[w.start[1:]], 0)
        found: Mask = first & _next(dotted & ahead) & ~np.isin(pair, _ABBREVIATED)
        return found

    def _romanized(self, link: Mask) -> Mask:
        """Chinese family names in Latin letters before a given name of one to three syllables."""
        w = self.w
        found: Mask = w.has(FAMILY) & w.cap & link & _next(w.cap & ~w.upper & ~w.initial)
        rows = np.flatnonzero(found)
        if len(rows):
            shown = pl.Series(cut(w.buffers, w.start[rows + 1], w.stop[rows + 1])).str.to_lowercase()
            found[rows] = shown.str.contains(ROMANIZED).to_numpy()
        return found

    def _turned(self, opens: Mask, run_end: I64) -> tuple[I64, I64, npt.NDArray[np.float64]]:
        """`Roe, Ann` and `Roe, Ann B.`: a surname, behind its comma a given name, and the end of an entry; a surname that is a given
        name too must begin one (`Anna, Peter` in a sentence are two people)."""
        w = self.w
        comma = w.same & (w.gap == 2) & (w.after == _COMMA) & (w.data[w.stop + 1] == 32)
        one, two, three = (w.data[w.start - back] for back in (1, 2, 3))
        first = w.start == w.buffers.offsets[w.text_no]
        listed = (two == _COMMA) & (three == ord(">"))  # behind the address of another
        begins = first | _STARTS[one] | ((one == 32) & (_STARTS[two] | listed | (w.start - 1 == w.buffers.offsets[w.text_no])))
        alone = opens & ~self.common & ~w.initial & comma & ~_before(comma & w.cap)
        surname = alone & (begins | (self.last & ~self.first))
        rows = np.flatnonzero(surname & _next(opens & self.given))
        end = run_end[np.minimum(rows + 1, len(run_end) - 1)]
        fine = (end <= rows + 3) & (w.initial | self.first)[end]
        last = np.minimum(w.stop[end] + (w.initial[end] & (w.after[end] == _DOT)), len(w.data) - 1)
        bare = w.data[last] == 32  # a blank, and then a bracket
        behind = np.where(bare, w.data[np.minimum(last + 1, len(w.data) - 1)], w.data[last])
        fine &= self.last[rows] | (bare & (behind == ord("<")))  # a surname that no list has: before an address alone
        fine &= np.where(bare, _OPENS[behind], _ENDS[behind] | (last >= w.buffers.offsets[w.text_no[rows] + 1]))
        return rows[fine], end[fine], np.full(int(fine.sum()), LISTED)

    def _context(self, opens: Mask, run_end: I64) -> tuple[Mask, npt.NDArray[np.float64]]:
        """Where what stands before or behind says that a name begins, and how sure that is."""
        w, count = self.w, len(self.w.start)
        told = np.zeros(count)
        end = run_end
        near = w.joined | (w.same & (w.gap == 2) & (w.after == 46))  # `Mr. Roe`, not `President, Acorn`
        sign = (_SIGN[w.after] | ~w.same)[end]
        titled = opens & _before(self.title & near)
        # `Ann Zyqwert/HOU/EXAMPLE`, as Lotus Notes writes a person
        noted = opens & (end > np.arange(count)) & self._noted(end)
        greeted = opens & _before(w.has(GREET) & w.cap & (w.blank | (w.same & (w.gap == 2)))) & sign & ~(w.has(COMMON) & ~self.first)
        # `Regards,` or `Thanks,` and a line of a name alone
        fresh = self.fresh
        closing = (
            opens & fresh & _before(w.has(CLOSE) & w.same & (w.gap <= 6)) & (~w.same | _next(fresh))[end] & ~(w.has(COMMON) & ~self.first)
        )
        # `my name is Ann`, `I'm Ann`, `signed by Ann Roe`: for a listed name
        leads = opens & _before(w.has(LEADS) & w.blank) & self.given
        # `Patient: Ann Roe`, `Name:** Ann`: a field of a form, whose words are no common ones
        field = w.same & (w.after == 58) & (w.gap <= 5)
        tainted = np.append(0, np.cumsum(self.common & ~self.listed))
        plain = (tainted[end + 1] - tainted[np.arange(count)]) == 0
        labelled = opens & _before(w.has(LABEL) & w.cap & field) & plain & ~w.upper
        says = opens & (w.blank & _next(w.has(SAYS) & w.lower))[end] & (self.listed | self.given)
        for where, score in (
            (says, ALONE),
            (leads, HALF),
            (labelled & ~self.given, HALF),
            (labelled & self.given, GREETED),
            (closing & plain, GREETED),
            (greeted & plain, GREETED),
            (titled | noted, TITLED),
        ):
            told[where] = score
        return told > 0, told

    @cached_property
    def fresh(self) -> Mask:
        """True for the first word of each line."""
        w = self.w
        fresh = np.zeros(len(w.start) + 1, np.bool_)
        fresh[np.searchsorted(w.start, np.flatnonzero(w.buffers.data == 10))] = True
        fresh[np.searchsorted(w.start, w.buffers.offsets)] = True
        return fresh[:-1]

    def _noted(self, end: I64) -> Mask:
        """True where two parts in capitals follow the last word of a run, each behind a slash."""
        w = self.w
        slash = w.same & (w.gap == 1) & (w.after == _SLASH)
        parts = slash & _next(w.upper & slash & _next(w.upper))
        found: Mask = parts[end]
        return found

    def _fields(self) -> Mask:
        """True for the words of lines that begin with the name of a field of people (`From:`, `X-To:`)."""
        w, fresh = self.w, self.fresh
        colon = np.flatnonzero(w.after == _COLON)
        colon = colon[fresh[colon] | (fresh[np.maximum(colon - 1, 0)] & w.tight[np.maximum(colon - 1, 0)])]
        names = pl.Series(cut(w.buffers, w.start[colon], w.stop[colon])).str.to_lowercase()
        colon = colon[names.is_in(["from", "to", "cc", "bcc", "sender"]).to_numpy()]
        line = np.cumsum(fresh)
        found: Mask = np.isin(line, line[colon])
        return found

    def _trimmed(self, start: I64, end: I64, whole: Mask) -> tuple[I64, I64]:
        """Names without the words behind them that are none: common words, a trailing initial or particle; not those that are `whole`."""
        w = self.w
        weak = (self.common & ~self.first & ~self.last) | w.initial | self.particle | (w.has(COMMON) & ~self.last)
        for _ in range(_LONGEST):
            goes = (end > start) & weak[end] & ~whole
            if not goes.any():
                break
            end = end - goes
        return start, end

    def _parts(self, start: I64, end: I64, score: npt.NDArray[np.float64]) -> tuple[I64, I64, npt.NDArray[np.float64]]:
        """Single capitalised words that are part of a longer name of the same text."""
        w = self.w
        long = end > start
        which, words = ranges(start[long], end[long] + 1)
        sure = score[long][which] >= LISTED
        words = words[sure | self.first[words] | self.last[words]]
        words = words[w.cap[words] & ~w.initial[words] & ~self.common[words]]
        mixed = w.hashes ^ (w.text_no.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
        other = self.namey & ~self.common
        lone = self.namey & ~_before(w.joined & other) & ~(w.joined & _next(other)) & ~w.has(PLACE)
        rows = np.flatnonzero(lone)
        rows = rows[np.isin(mixed[rows], mixed[words])] if len(words) else rows[:0]
        return rows, rows, np.full(len(rows), PART)

    def _lower(self) -> tuple[I64, I64, npt.NDArray[np.float64]]:
        """Two listed names side by side in lower case, the first of them a given name; `roe, ann` in a header line; and one behind a
        greeting, or at the end of a line behind `thanks`."""
        w = self.w
        sure = (
            self.listed & w.lower & ~w.has(PLACE | BODY | TITLE | GREET | CLOSE | PARTICLE | LEADS | SAYS | WHERE) & (w.stop - w.start > 2)
        )
        pair = np.flatnonzero(sure & self.given & w.blank & _next(sure))
        greeted = np.flatnonzero(self.first & w.lower & _before(w.has(GREET) & w.blank) & _SIGN[w.after] & ~self.common)
        fresh = self.fresh
        small = w.lower & ~self.common & (w.stop - w.start > 2)
        closed = np.flatnonzero(
            self.first & small & _before(w.has(CLOSE) & w.same & (w.gap <= 3)) & (~w.same | _next(fresh) | (w.after == 10))
        )
        listed = (
            w.same & (w.gap == 2) & (w.after == _COMMA) & (self.last | ~self.first) & small & self._fields() & _next(self.first & small)
        )
        turned = np.flatnonzero(listed & ~_before(w.joined & w.lower))
        turned = turned[~_next(w.joined & _next(w.lower))[turned]]  # `doe, jane smith` is two entries, or prose
        rows = np.concatenate([pair, greeted, closed, turned])
        ends = np.concatenate([pair + 1, greeted, closed, turned + 1])
        return rows, ends, np.full(len(rows), LOWER)


def _run_end(link: Mask) -> I64:
    """For each word the last one of the chain that begins there: of words each linked to the next."""
    stops = np.flatnonzero(~link)
    return stops[np.searchsorted(stops, np.arange(len(link)))]


def _with(
    start: I64, end: I64, score: npt.NDArray[np.float64], more: I64, more_end: I64, more_score: npt.NDArray[np.float64]
) -> tuple[I64, I64, npt.NDArray[np.float64]]:
    """Names and further ones that share no word with them."""
    if not len(more):
        return start, end, score
    order = np.argsort(start, kind="stable")
    low, high = start[order], end[order]
    after = np.searchsorted(low, more_end, side="right") - 1
    free = (after < 0) | (high[np.maximum(after, 0)] < more) if len(low) else np.ones(len(more), np.bool_)
    more, more_end, more_score = more[free], more_end[free], more_score[free]
    # of further ones that overlap the first stays
    order = np.argsort(more, kind="stable")
    more, more_end, more_score = more[order], more_end[order], more_score[order]
    new = np.append(True, more[1:] > np.maximum.accumulate(more_end)[:-1]) if len(more) else np.empty(0, np.bool_)
    return np.append(start, more[new]), np.append(end, more_end[new]), np.append(score, more_score[new])


def _covered(buffers: Buffers, found: pl.DataFrame) -> tuple[I64, I64]:
    """The bytes of the column that are values of other kinds, as spans that ascend."""
    if not found.height:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    base = buffers.offsets[found["text_no"].to_numpy()]
    low, high = base + found["start_byte"].to_numpy(), base + found["stop_byte"].to_numpy()
    return low, np.maximum.accumulate(high)


def _apart(start: I64, stop: I64, score: npt.NDArray[np.float64], low: I64, high: I64) -> tuple[I64, I64, npt.NDArray[np.float64]]:
    """Names that share no byte with values of other kinds."""
    if not len(low) or not len(start):
        return start, stop, score
    before = np.searchsorted(low, stop, side="left") - 1
    free = (before < 0) | (high[np.maximum(before, 0)] <= start)
    return start[free], stop[free], score[free]
