"""What a column of texts says in other writing: each view gives pieces of it, decoded, and tells where in the column a place came from.

A view is made around what is encoded only (an escape, a run of base64, a long row of digits), so a text without any costs one look.
Views know nothing of values: they take bytes and give bytes. The forms:

    zero-width         characters that show nothing, left out            HTML               &#64; &commat; &amp;#64;
    URL                %40, and twice: %2540                             JSON               \\u0040, \\x40, escaped slashes and quotes
    quoted-printable   =40, soft line breaks                             base64             at any of its alignments, folded or URL-safe
    UTF-16             either byte order, in any bytes                   digits             digits only, whatever separates them
"""

from __future__ import annotations

import binascii
import html
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sanitize.core.arrow_buffers import Buffers, among, cut, splice, table_of

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
VIEWS = ("zero-width", "HTML", "URL", "JSON", "quoted-printable", "base64", "UTF-16", "digits")
_RUN = 11  # characters of base64 that hold eight bytes: shorter values are not looked for in it
_DIGITS = 7  # a shorter row of digits is no number that a person is known by


@dataclass(frozen=True)
class Spans:
    """Places in a column: the text of each, and first and last + 1 byte in it. `touched`: the place holds something decoded.
    `alone`: it is no part of a longer word, as far as a view can tell."""

    text_no: I64
    start: I64
    stop: I64
    touched: Mask
    alone: Mask | None = None


@dataclass(frozen=True, repr=False)
class View:
    """Decoded pieces of a column (bytes that may be no UTF-8), and `original`: where piece, start and stop stand in the column."""

    form: str
    pieces: pa.LargeStringArray
    original: Callable[[I64, I64, I64], Spans]


def views(texts: pa.LargeStringArray, wide: int, only: tuple[str, ...] = VIEWS) -> Iterator[View]:
    """The views of a column that hold anything; `wide` is the longest value that is looked for, in bytes."""
    buffers = Buffers.of(texts)
    raw = buffers.data.tobytes()
    for form, (mark, pattern, decode) in _ESCAPES.items():
        if form in only and any(one in raw for one in mark):
            view = _escaped(form, buffers, raw, pattern, decode, wide)
            if view is not None:
                yield view
    for form, make in (("base64", _base64), ("UTF-16", _utf16), ("digits", _digits)):
        if form in only and (form != "UTF-16" or b"\0" in raw):
            view = make(buffers, raw)
            if view is not None:
                yield view


_NO_BREAK = re.compile(rb"[%=][Cc]2[%=][Aa]0")  # U+00A0 as two escaped bytes


# ---- escapes: a few bytes that stand for others ----


def _byte(found: bytes) -> bytes:
    """The byte that the last two characters write in hexadecimal; a no-break blank, of two bytes, is a blank."""
    return b" " if _NO_BREAK.fullmatch(found) else bytes((int(found[-2:], 16),))


def _entity(found: bytes) -> bytes:
    """What an HTML entity stands for, in its compatibility form: `&nbsp;` is a blank. One that HTML does not know stays."""
    return unicodedata.normalize("NFKC", html.unescape(html.unescape(found.decode("ascii")))).encode("utf-8", "surrogatepass")


def _json(found: bytes) -> bytes:
    r"""What a backslash escape of JSON, or a `\x40` of other languages, stands for, in its compatibility form."""
    found = found.lstrip(b"\\")
    code = found[:1]
    if code == b"u":
        # an escape of its own, or the two halves of a character beyond the basic plane
        units = [int(part, 16) for part in re.findall(rb"u([0-9A-Fa-f]{4})", found)]
        return unicodedata.normalize("NFKC", b"".join(unit.to_bytes(2, "big") for unit in units).decode("utf-16-be", "replace")).encode()
    if code == b"x":
        return _byte(found)
    return {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}.get(code, code)


def _soft(found: bytes) -> bytes:
    """A byte of quoted-printable; a soft line break is nothing."""
    return _byte(found) if len(found) in (3, 6) and found[1:2] not in (b"\r", b"\n", b" ", b"\t") else b""


def _nothing(_: bytes) -> bytes:
    return b""


def _ignorable() -> str:
    """A class of the characters that show nothing: format characters, variation selectors, fillers (Unicode's default-ignorables)."""
    codes = [code for code in range(0x80, 0x10000) if not 0xD800 <= code < 0xE000 and unicodedata.category(chr(code)) == "Cf"]
    codes += [
        0x034F,
        0x115F,
        0x1160,
        0x17B4,
        0x17B5,
        0x3164,
        0xFFA0,
        *range(0x180B, 0x1810),
        *range(0xFE00, 0xFE10),
        *range(0xE0000, 0xE0080),
    ]
    return "|".join(re.escape(chr(code)) for code in sorted(set(codes)))


_ESCAPES: dict[str, tuple[tuple[bytes, ...], re.Pattern[bytes], Callable[[bytes], bytes]]] = {
    "zero-width": (
        # what such characters begin with in UTF-8
        (
            b"\xc2\xad",
            b"\xcd\x8f",
            b"\xd8",
            b"\xdb",
            b"\xdc",
            b"\xe0\xa2",
            b"\xe1",
            b"\xe2\x80",
            b"\xe2\x81",
            b"\xe3\x85",
            b"\xef",
            b"\xf3\xa0",
        ),
        re.compile(_ignorable().encode()),
        _nothing,
    ),
    "HTML": ((b"&",), re.compile(rb"&(?:amp;)?(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,24});"), _entity),
    "URL": ((b"%",), re.compile(rb"%[Cc]2%[Aa]0|%(?:25)*[0-9A-Fa-f]{2}"), _byte),
    "JSON": (
        (b"\\",),
        re.compile(rb"\\+(?:u[dD][89ABab][0-9A-Fa-f]{2}\\+u[dD][C-Fc-f][0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|[\"/nrtbf])"),
        _json,
    ),
    "quoted-printable": ((b"=",), re.compile(rb"=[Cc]2=[Aa]0|=(?:[0-9A-Fa-f]{2}|[ \t]*\r?\n)"), _soft),
}


def _escaped(
    form: str, buffers: Buffers, raw: bytes, pattern: re.Pattern[bytes], decode: Callable[[bytes], bytes], wide: int
) -> View | None:
    """The column around its escapes, with each replaced by what it stands for."""
    # a loop over escapes, not over texts: what one stands for is looked up once for each distinct one
    spans = np.array([found.span() for found in pattern.finditer(raw)], np.int64).reshape(-1, 2)
    starts, stops = spans[:, 0], spans[:, 1]
    text_no = np.searchsorted(buffers.offsets, starts, side="right") - 1
    whole = stops <= buffers.offsets[text_no + 1]
    starts, stops, text_no = starts[whole], stops[whole], text_no[whole]
    if not len(starts):
        return None
    known: dict[bytes, bytes] = {}
    written = [raw[start:stop] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]
    meant = [known[one] if one in known else known.setdefault(one, decode(one)) for one in written]
    low, high, of = _windows(buffers, starts, stops, text_no, wide)
    pieces = Buffers.of(cut(buffers, low, high))
    piece = np.searchsorted(low, starts, side="right") - 1
    shift = pieces.offsets[piece] - low[piece]
    first, last = starts + shift, stops + shift
    text = pa.array(meant, pa.large_binary())
    replacements = pa.LargeStringArray.from_buffers(len(text), *text.buffers()[1:])
    decoded = splice(pieces, first, last, replacements)
    grown = np.concatenate([[0], np.cumsum(Buffers.of(replacements).lengths - (last - first))])
    out_first, out_last = first + grown[:-1], last + grown[1:]
    begins = Buffers.of(decoded).offsets

    def original(number: I64, start: I64, stop: I64) -> Spans:
        start, stop = begins[number] + start, begins[number] + stop
        before, through = np.searchsorted(out_last, start, side="right"), np.searchsorted(out_first, stop, side="left")
        holds, ends = np.minimum(before, len(first) - 1), np.maximum(through - 1, 0)
        start = np.where((before < len(first)) & (out_first[holds] < start), first[holds], start - grown[before])
        stop = np.where((through > 0) & (out_last[ends] > stop), last[ends], stop - grown[through])
        back = low[number] - pieces.offsets[number] - buffers.offsets[of[number]]
        return Spans(of[number], start + back, stop + back, through > before)

    return View(form, decoded, original)


def _windows(buffers: Buffers, starts: I64, stops: I64, text_no: I64, wide: int) -> tuple[I64, I64, I64]:
    """What lies around some spans of the column, `wide` bytes on either side, never across two texts: first, last + 1, and the text."""
    low, high = np.maximum(starts - wide, buffers.offsets[text_no]), np.minimum(stops + wide, buffers.offsets[text_no + 1])
    new = np.append(True, (low[1:] > np.maximum.accumulate(high)[:-1]) | (np.diff(text_no) != 0))
    return low[new], np.maximum.reduceat(high, np.flatnonzero(new)), text_no[new]


# ---- base64 ----


def _base64(buffers: Buffers, raw: bytes) -> View | None:
    """Runs of base64 decoded four times, once for each place where its groups of four may begin; line breaks inside are left out."""
    starts, stops = _runs(buffers, _BASE64)
    long = stops - starts >= _RUN
    # a line of base64 goes on behind a line break, whatever the length of the next
    joined = np.zeros(len(starts), np.bool_)
    gap = starts[1:] - stops[:-1]
    at = np.flatnonzero(long[:-1] & (gap >= 1) & (gap <= 3) & (buffers.data[np.minimum(stops[:-1], len(raw) - 1)] < 32))
    at = at[_text_of(buffers, starts[at]) == _text_of(buffers, starts[at + 1])]
    joined[at + 1] = [
        _FOLD.fullmatch(raw, stop, start) is not None for stop, start in zip(stops[at].tolist(), starts[at + 1].tolist(), strict=True)
    ]
    keep = np.flatnonzero(long | joined)
    if not len(keep):
        return None
    new = np.append(True, ~joined[keep][1:] | (np.diff(keep) != 1))
    low, high = starts[keep][new], np.maximum.reduceat(stops[keep], np.flatnonzero(new))
    # each line of a joined run for itself too: what stands above it may be no base64, and would glue to its first bytes
    lines = np.flatnonzero(long & (joined | np.append(joined[1:], False)))
    low, high = np.concatenate([low, starts[lines]]), np.concatenate([high, stops[lines]])
    pieces: list[bytes] = []
    run, phases = np.repeat(np.arange(len(low)), 4), np.tile(np.arange(4), len(low))
    for start, stop in zip(low.tolist(), high.tolist(), strict=True):
        # a loop over runs, which are rare in text: base64 has no columnar decoder here
        flat = raw[start:stop].translate(_URL_SAFE, b"\r\n \t")
        for phase in range(4):
            part = flat[phase:]
            part = part[: len(part) - (len(part) % 4 == 1)]
            pieces.append(binascii.a2b_base64(part + b"=" * (-len(part) % 4)))
    text = pa.array(pieces, pa.large_binary())
    of = _text_of(buffers, low)

    def original(number: I64, start: I64, stop: I64) -> Spans:
        # a byte is in two characters; of its run all but line breaks are counted
        which, phase = run[number], phases[number]
        first, last = phase + start * 8 // 6, phase + (stop * 8 - 1) // 6
        begin, end = np.empty(len(which), np.int64), np.empty(len(which), np.int64)
        for one in np.unique(which).tolist():
            mine = np.flatnonzero(which == one)
            places = low[one] + np.flatnonzero(_BASE64[buffers.data[low[one] : high[one]]])
            begin[mine], end[mine] = places[first[mine]], places[last[mine]] + 1
        base = buffers.offsets[of[which]]
        return Spans(of[which], begin - base, end - base, np.ones(len(which), np.bool_))

    return View("base64", pa.LargeStringArray.from_buffers(len(text), *text.buffers()[1:]), original)


def _text_of(buffers: Buffers, places: I64) -> I64:
    return np.searchsorted(buffers.offsets, places, side="right") - 1


def _runs(buffers: Buffers, table: Mask) -> tuple[I64, I64]:
    """Every run of bytes that a table holds, within one text: first and last + 1."""
    member = np.concatenate([[False], among(buffers.data, table), [False]])
    cut_here = np.zeros(len(member), np.bool_)
    cut_here[buffers.offsets] = True
    edge = member[1:] & (~member[:-1] | cut_here[:-1])
    last = member[:-1] & (~member[1:] | cut_here[:-1])
    return np.flatnonzero(edge), np.flatnonzero(last)


_BASE64 = table_of(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_")
_FOLD = re.compile(rb"\r?\n[ \t]?")
_URL_SAFE = bytes.maketrans(b"-_", b"+/")


# ---- UTF-16 ----


def _utf16(buffers: Buffers, raw: bytes) -> View | None:
    """What bytes say as UTF-16, in either order, where every other byte of several is zero."""
    zeros = np.flatnonzero(buffers.data == 0)
    step = np.diff(zeros)
    linked = (step % 2 == 0) & (step <= 8) & (np.diff(_text_of(buffers, zeros)) == 0)
    firsts = np.flatnonzero(np.append(True, ~linked))
    size = np.diff(np.append(firsts, len(zeros)))
    some = size >= 4
    low, high = zeros[firsts[some]], zeros[(firsts + size - 1)[some]] + 1
    pieces, starts = [], []
    # a loop over such stretches, which text does not hold: each is decoded once for each order
    for first, last in zip(low.tolist(), high.tolist(), strict=True):
        no = int(np.searchsorted(buffers.offsets, first, side="right")) - 1
        least, most = int(buffers.offsets[no]), int(buffers.offsets[no + 1])
        for order, begin in (("utf-16-le", first - 1), ("utf-16-be", first)):
            begin -= 2 * min(8, max(0, (begin - least) // 2))
            begin = max(begin, least)
            pieces.append(raw[begin : min(last + 17, most)].decode(order, "replace").encode("utf-8", "replace"))
            starts.append(begin)
    if not pieces:
        return None
    text = pa.array(pieces, pa.large_binary())
    begins = np.array(starts, np.int64)
    of = _text_of(buffers, begins)

    def original(number: I64, start: I64, stop: I64) -> Spans:
        base = begins[number] - buffers.offsets[of[number]]
        low, high = (
            base + np.array([_wide(pieces[no][:place]) for no, place in zip(number.tolist(), places.tolist(), strict=True)], np.int64)
            for places in (start, stop)
        )
        return Spans(of[number], low, high, np.ones(len(number), np.bool_))

    return View("UTF-16", pa.LargeStringArray.from_buffers(len(text), *text.buffers()[1:]), original)


def _wide(text: bytes) -> int:
    """How many bytes some UTF-8 takes in UTF-16."""
    return len(text.decode("utf-8", "replace").encode("utf-16-le"))


# ---- digits ----


def _digits(buffers: Buffers, raw: bytes) -> View | None:
    """Rows of digits without what separates them (up to four bytes of blanks and signs). A place counts as `touched` where it is all
    of its row, or stands there unbroken; elsewhere its digits may belong to several numbers."""
    data = buffers.data
    places = np.flatnonzero(among(data, _IS_DIGIT))
    if len(places) < _DIGITS:
        return None
    text = _text_of(buffers, places)
    gap = np.diff(places)
    linked = (gap <= 5) & (np.diff(text) == 0)
    for step in range(1, 5):
        open_here = np.flatnonzero(linked & (gap > step))
        linked[open_here] = _IN_NUMBER[data[places[open_here] + step]]
    new = np.append(True, ~linked)
    group = np.cumsum(new) - 1
    size = np.bincount(group)
    keep = size >= _DIGITS
    if not keep.any():
        return None
    flat = places[keep[group]]
    offsets = np.concatenate([[0], np.cumsum(size[keep])]).astype(np.int64)
    of = text[new][keep]
    pieces = pa.LargeStringArray.from_buffers(len(of), pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data[flat])))

    def original(number: I64, start: I64, stop: I64) -> Spans:
        first, last = flat[offsets[number] + start], flat[offsets[number] + stop - 1] + 1
        base, end = buffers.offsets[of[number]], buffers.offsets[of[number] + 1]
        free = ~((first > base) & _WORD[data[first - 1]]) & ~((last < end) & _WORD[data[np.minimum(last, len(data) - 1)]])
        whole = (start == 0) & (stop == offsets[number + 1] - offsets[number])
        touched = free & (whole | (last - first == stop - start))
        return Spans(of[number], first - base, last - base, touched, free)

    return View("digits", pieces, original)


_IS_DIGIT = table_of(b"0123456789")
# blanks, hyphens, dots, brackets; those of Unicode by their bytes, but for those of Chinese, whose commas are of the same bytes
_IN_NUMBER = table_of(b"0123456789 .-/()+\t" + "\u00a0\u202f\u205f\u2212".encode() + bytes(range(0x80, 0x96)))
_WORD = table_of(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")


# ---- digests ----


_HEXADECIMAL = table_of(b"0123456789ABCDEFabcdef")


def digests(texts: pa.LargeStringArray) -> tuple[list[str], I64, I64, I64]:
    """What may be the MD5, SHA-1, SHA-256 or SHA-512 of something: words of 32, 40, 64 or 128 hexadecimal digits, in small letters, with
    text, first and last + 1 byte of each."""
    buffers = Buffers.of(texts)
    starts, stops = _runs(buffers, _HEXADECIMAL)
    some = np.isin(stops - starts, (32, 40, 64, 128))
    starts, stops = starts[some], stops[some]
    text_no = _text_of(buffers, starts)
    data = buffers.data
    alone = ~((starts > buffers.offsets[text_no]) & _WORD[data[starts - 1]])
    alone &= ~((stops < buffers.offsets[text_no + 1]) & _WORD[data[np.minimum(stops, len(data) - 1)]])
    starts, stops, text_no = starts[alone], stops[alone], text_no[alone]
    base = buffers.offsets[text_no]
    words = [str(word) for word in cut(buffers, starts, stops).to_pylist()]
    return [word.lower() for word in words], text_no, starts - base, stops - base
