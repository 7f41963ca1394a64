"""Decodes encoded text in a column (base64, HTML and URL escapes, UTF-16 ...) and maps positions in the decoded text back to the column.

Only the surroundings of encoded text (an escape, a run of base64, a long row of digits) are decoded, so a text without any costs one
scan. This module knows nothing about values: bytes in, bytes out. The forms:

    zero-width         invisible characters, left out, and a no-break space beside an @
    line breaks        the end of a line, with the blanks and quote marks (>) that begin the next one, as one space
    other digits       digits of other scripts, and full-width ones
    HTML               &#64; &#64 &commat; &amp;#64;
    URL                %40, and twice: %2540
    JSON               \\u0040, \\x40, escaped slashes and quotes
    quoted-printable   =40, soft line breaks
    base64             at any of its alignments, folded or URL-safe
    base32             at any of its alignments, of texts of 12 bytes or more
    hexadecimal        of texts of 12 bytes or more
    uuencode           whole lines, of texts of 12 bytes or more
    UTF-16             either byte order, in any bytes
    digits             digits only, without their separators; also those of the escaped forms above
"""

from __future__ import annotations

import html
import itertools
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from sanitize.array_types import I64, U8, Mask
from sanitize.core.arrow_buffers import TextBuffers, is_in_byte_table, make_byte_table, slice_spans, splice
from sanitize.core.intervals import expand_ranges, merge_spans

ENCODED_FORMS = (
    *("zero-width", "line breaks", "other digits", "HTML", "URL", "JSON", "quoted-printable"),
    *("base64", "base32", "hexadecimal", "uuencode", "UTF-16", "digits"),
)
# values of fewer bytes are not searched in these forms: their decoding occurs by chance
MIN_BYTES = {"base64": 8, "UTF-16": 8, "base32": 12, "hexadecimal": 12, "uuencode": 12}
_MIN_BASE64_CHARS = 11  # base64 characters that encode so many bytes
_BITS_PER_CHAR = {"base32": 5, "hexadecimal": 4}
_BYTES_PER_MATCH = 64  # a pattern is tried at one place in the time in which it searches so many bytes
_MIN_DIGITS = 7  # a shorter row of digits does not identify a person


@dataclass(frozen=True)
class EncodedSpans:
    """Spans in a column, one row each: the number of its text, and start and end byte within that text. `is_encoded`: the span contains
    something that was decoded. `is_whole_word`: it is not part of a longer word; None if the form cannot tell."""

    text_no: I64
    start: I64
    end: I64
    is_encoded: Mask
    is_whole_word: Mask | None = None


@dataclass(frozen=True, repr=False)
class Decoding:
    """Decoded pieces of a column (bytes, not necessarily valid UTF-8). `find_encoded_spans(piece_no, start, end)` maps byte spans in the
    pieces back to the spans of the column that they were decoded from."""

    form: str
    pieces: pa.LargeStringArray
    find_encoded_spans: Callable[[I64, I64, I64], EncodedSpans]


def iter_decodings(texts: pa.LargeStringArray, max_value_bytes: int, forms: tuple[str, ...] = ENCODED_FORMS) -> Iterator[Decoding]:
    """Yields the decodings of a column, for each form that occurs; `digits` may come several times. `max_value_bytes` is the length of the
    longest value that is searched for: that many bytes on either side of an escape are part of a piece."""
    buffers = TextBuffers.from_array(texts)
    raw = buffers.data.tobytes()
    for form in ("line breaks", *_ESCAPES):
        if form in forms:
            escapes = _find_line_breaks(buffers) if form == "line breaks" else _find_escapes(_ESCAPES[form], buffers, raw)
            decoding = _decode_escapes(form, buffers, escapes, max_value_bytes)
            if decoding is not None:
                yield decoding
                if "digits" in forms and (digits := _join_decoded_digits(decoding)) is not None:
                    yield digits
    for form, decode_form in _WHOLE_FORMS.items():
        if form in forms and (form != "UTF-16" or b"\0" in raw):
            decoding = decode_form(buffers, raw)
            if decoding is not None:
                yield decoding


_ESCAPED_NBSP = re.compile(rb"[%=][Cc]2[%=][Aa]0")  # U+00A0 as two escaped bytes


# ---- escapes: short sequences that represent other bytes ----


def _decode_hex_escape(escape: bytes) -> bytes:
    """Returns the byte given by the last two hexadecimal digits; an escaped no-break space (two bytes) becomes a space."""
    return b" " if _ESCAPED_NBSP.fullmatch(escape) else bytes((int(escape[-2:], 16),))


def _decode_html_entity(escape: bytes) -> bytes:
    """Returns the text of an HTML entity in its compatibility form (NFKC): `&nbsp;` becomes a space. An unknown entity stays as it is."""
    return unicodedata.normalize("NFKC", html.unescape(html.unescape(escape.decode("ascii")))).encode("utf-8", "surrogatepass")


def _decode_backslash_escape(escape: bytes) -> bytes:
    r"""Returns the text of a backslash escape of JSON, or of a `\x40` of other languages, in its compatibility form (NFKC)."""
    escape = escape.lstrip(b"\\")
    code = escape[:1]
    if code == b"u":
        # a single escape, or the two surrogate halves of a character beyond the basic plane
        units = [int(part, 16) for part in re.findall(rb"u([0-9A-Fa-f]{4})", escape)]
        return unicodedata.normalize("NFKC", b"".join(unit.to_bytes(2, "big") for unit in units).decode("utf-16-be", "replace")).encode()
    if code == b"x":
        return _decode_hex_escape(escape)
    return {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}.get(code, code)


def _decode_quoted_printable(escape: bytes) -> bytes:
    """Returns the byte of a quoted-printable escape; a soft line break becomes nothing."""
    return _decode_hex_escape(escape) if len(escape) in (3, 6) and escape[1:2] not in (b"\r", b"\n", b" ", b"\t") else b""


def _decode_to_nothing(_: bytes) -> bytes:
    return b""


def _decode_digit(char: bytes) -> bytes:
    """Returns the ASCII digit of a decimal digit of another script."""
    return str(unicodedata.decimal(char.decode())).encode()


def _list_other_digits() -> list[bytes]:
    """Returns the decimal digits beyond ASCII, in UTF-8."""
    return [chr(code).encode() for code in range(0x80, 0x20000) if unicodedata.category(chr(code)) == "Nd"]


def _write_pattern(chars: list[bytes]) -> bytes:
    """Returns a pattern for any of these characters: alternatives by all their bytes but the last."""
    last_bytes: dict[bytes, list[bytes]] = {}
    for char in chars:
        last_bytes.setdefault(char[:-1], []).append(re.escape(char[-1:]))
    return b"|".join(re.escape(head) + b"[" + b"".join(ends) + b"]" for head, ends in last_bytes.items())


def _list_invisible_chars() -> list[bytes]:
    """Returns all invisible characters in UTF-8: format characters, variation selectors, fillers (Unicode's default-ignorables)."""
    codes = {code for code in range(0x80, 0x10000) if not 0xD800 <= code < 0xE000 and unicodedata.category(chr(code)) == "Cf"}
    codes |= {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10)}
    return [chr(code).encode() for code in sorted(codes | {*range(0xE0000, 0xE0080)})]


@dataclass(frozen=True, repr=False)
class _Escape:
    """The escapes of one form: the bytes that one begins with, their pattern, and what an escape stands for."""

    first_bytes: bytes
    pattern: re.Pattern[bytes]
    decode: Callable[[bytes], bytes]


_INVISIBLE, _OTHER_DIGITS = _list_invisible_chars(), _list_other_digits()
_ESCAPES = {
    "zero-width": _Escape(
        bytes({char[0] for char in _INVISIBLE} | {0xC2}),
        re.compile(_write_pattern(_INVISIBLE) + rb"|\xc2\xa0(?=@)|(?<=@)\xc2\xa0"),
        _decode_to_nothing,
    ),
    "other digits": _Escape(bytes({char[0] for char in _OTHER_DIGITS}), re.compile(_write_pattern(_OTHER_DIGITS)), _decode_digit),
    "HTML": _Escape(
        b"&", re.compile(rb"&(?:amp;)?(?:#[0-9]{1,7};?|#[xX][0-9A-Fa-f]{1,6};?|[A-Za-z][A-Za-z0-9]{1,24};)"), _decode_html_entity
    ),
    "URL": _Escape(b"%", re.compile(rb"%[Cc]2%[Aa]0|%(?:25)*[0-9A-Fa-f]{2}"), _decode_hex_escape),
    "JSON": _Escape(
        b"\\",
        re.compile(rb"\\+(?:u[dD][89ABab][0-9A-Fa-f]{2}\\+u[dD][C-Fc-f][0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|[\"/nrtbf])"),
        _decode_backslash_escape,
    ),
    "quoted-printable": _Escape(b"=", re.compile(rb"=[Cc]2=[Aa]0|=(?:[0-9A-Fa-f]{2}|[ \t]*\r?\n)"), _decode_quoted_printable),
}


@dataclass(frozen=True, repr=False)
class _FoundEscapes:
    """Start and end of escapes in a column, none of which crosses two texts; the number of the text; and what each stands for."""

    starts: I64
    ends: I64
    text_no: I64
    decoded: pa.LargeStringArray


def _find_escapes(escape: _Escape, buffers: TextBuffers, raw: bytes) -> _FoundEscapes | None:
    """Returns every escape of one form; None if there is none."""
    candidates = np.flatnonzero(is_in_byte_table(buffers.data, make_byte_table(escape.first_bytes)))
    if not len(candidates):
        return None
    if len(candidates) * _BYTES_PER_MATCH > len(raw):
        spans = [found.span() for found in escape.pattern.finditer(raw)]
    else:
        # a loop over places where an escape may begin, which is faster than a search of all bytes where they are few
        spans, end = [], 0
        for start in candidates.tolist():
            if start >= end and (found := escape.pattern.match(raw, start)) is not None:
                spans.append(found.span())
                end = found.end()
    starts, ends = np.array(spans, np.int64).reshape(-1, 2).T
    text_no = _find_text_no(buffers, starts)
    within_text = ends <= buffers.offsets[text_no + 1]
    starts, ends, text_no = starts[within_text], ends[within_text], text_no[within_text]
    if not len(starts):
        return None
    decode, cache = escape.decode, dict[bytes, bytes]()  # a loop over escapes; each distinct one is decoded once
    escapes = [raw[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    decoded = pa.array([cache[one] if one in cache else cache.setdefault(one, decode(one)) for one in escapes], pa.large_binary())
    return _FoundEscapes(starts, ends, text_no, pa.LargeStringArray.from_buffers(len(decoded), *decoded.buffers()[1:]))


def _find_line_breaks(buffers: TextBuffers) -> _FoundEscapes | None:
    """Returns every end of a line that is inside a paragraph, with the blanks around it and quote marks after it, as one space."""
    data, last = buffers.data, len(buffers.data) - 1
    starts = np.flatnonzero(data == 10)
    ends, text_no = starts + 1, _find_text_no(buffers, starts)
    low, high = buffers.offsets[text_no], buffers.offsets[text_no + 1]
    for _ in range(_MAX_BLANKS):
        steps = (starts > low) & _BLANK_BYTES[data[np.maximum(starts - 1, 0)]]
        starts = starts - steps
        if not steps.any():
            break
    for _ in range(_MAX_BLANKS):
        steps = (ends < high) & _QUOTE_BYTES[data[np.minimum(ends, last)]]
        ends = ends + steps
        if not steps.any():
            break
    is_inside = (starts > low) & (ends < high)
    is_inside &= (
        (data[np.maximum(starts - 1, 0)] != 10) & ~_BLANK_BYTES[data[np.minimum(ends, last)]] & (data[np.minimum(ends, last)] != 10)
    )
    starts, ends, text_no = starts[is_inside], ends[is_inside], text_no[is_inside]
    count = len(starts)
    offsets, spaces = pa.py_buffer(np.arange(count + 1)), pa.py_buffer(np.full(count, 32, np.uint8))
    return _FoundEscapes(starts, ends, text_no, pa.LargeStringArray.from_buffers(count, offsets, spaces)) if count else None


_MAX_BLANKS = 40  # more blanks or quote marks are no wrapped line
_BLANK_BYTES, _QUOTE_BYTES = make_byte_table(b" \t\r"), make_byte_table(b" \t>|")


def _decode_escapes(form: str, buffers: TextBuffers, escapes: _FoundEscapes | None, max_value_bytes: int) -> Decoding | None:
    """Decodes escapes: pieces of the column around its escapes, with each escape replaced by the text it represents."""
    if escapes is None:
        return None
    starts, stops, text_no, replacements = escapes.starts, escapes.ends, escapes.text_no, escapes.decoded
    low, high, window_text = _merge_windows(buffers, starts, stops, text_no, max_value_bytes)
    pieces = TextBuffers.from_array(slice_spans(buffers, low, high))
    piece = np.searchsorted(low, starts, side="right") - 1
    shift = pieces.offsets[piece] - low[piece]
    first, last = starts + shift, stops + shift
    decoded = splice(pieces, first, last, replacements)
    growth = np.concatenate([[0], np.cumsum(TextBuffers.from_array(replacements).lengths - (last - first))])
    out_first, out_last = first + growth[:-1], last + growth[1:]
    decoded_offsets = TextBuffers.from_array(decoded).offsets

    def find_encoded_spans(piece_no: I64, start: I64, stop: I64) -> EncodedSpans:
        start, stop = decoded_offsets[piece_no] + start, decoded_offsets[piece_no] + stop
        first_after, end_touched = np.searchsorted(out_last, start, side="right"), np.searchsorted(out_first, stop, side="left")
        first_touched, last_touched = np.minimum(first_after, len(first) - 1), np.maximum(end_touched - 1, 0)
        start = np.where((first_after < len(first)) & (out_first[first_touched] < start), first[first_touched], start - growth[first_after])
        stop = np.where((end_touched > 0) & (out_last[last_touched] > stop), last[last_touched], stop - growth[end_touched])
        to_text = low[piece_no] - pieces.offsets[piece_no] - buffers.offsets[window_text[piece_no]]
        return EncodedSpans(window_text[piece_no], start + to_text, stop + to_text, end_touched > first_after)

    return Decoding(form, decoded, find_encoded_spans)


def _merge_windows(buffers: TextBuffers, starts: I64, ends: I64, text_no: I64, margin_bytes: int) -> tuple[I64, I64, I64]:
    """Returns windows around spans: `margin_bytes` on either side, never across two texts, overlapping ones merged. Returns start and end
    byte in the column, and the number of the text."""
    low, high = np.maximum(starts - margin_bytes, buffers.offsets[text_no]), np.minimum(ends + margin_bytes, buffers.offsets[text_no + 1])
    text_no, low, high = merge_spans(text_no, low, high)
    return low, high, text_no


# ---- base64 ----


def _decode_base64(buffers: TextBuffers, raw: bytes) -> Decoding | None:
    """Decodes each run of base64 at each of its four alignments; line breaks inside are left out. A piece is a stretch of the decoded bytes
    that is text (`_is_text_byte`): nearly all runs are words, whose decoding is noise."""
    starts, stops, is_run_start = _find_base64_lines(buffers)
    if not len(starts):
        return None
    # each line of a joined run is also decoded on its own: the line above may not be base64 and would shift its first bytes
    lines = np.flatnonzero((stops - starts >= _MIN_BASE64_CHARS) & (~is_run_start | np.append(~is_run_start[1:], False)))
    starts, stops = np.concatenate([starts, starts[lines]]), np.concatenate([stops, stops[lines]])
    line_start = np.concatenate([[0], np.cumsum(stops - starts)])  # in the sequence of all characters
    run_start = line_start[np.flatnonzero(np.concatenate([is_run_start, np.ones(len(lines) + 1, np.bool_)]))]
    char_offsets = expand_ranges(starts, stops)
    sextets = _BASE64_SEXTETS[buffers.data[char_offsets]]
    low, high = _find_groups_of_text(sextets, run_start)
    chars, first_char = expand_ranges(low, high), np.repeat(low, high - low)
    place = (chars - first_char) & 3  # in the group of four
    begins_byte = (place < 3) & (chars + 1 < np.repeat(run_start[np.searchsorted(run_start, low, side="right")], high - low))
    chars, place, first_char = chars[begins_byte], place[begins_byte], first_char[begins_byte]
    decoded = np.choose(place, _decode_sextets(sextets[chars], sextets[chars + 1]))
    is_first = np.append(True, np.diff(first_char) != 0)[: len(chars)]
    # the bits of a decoded byte are in the character that it begins in and in the next one
    return _cut_texts("base64", buffers, decoded, is_first, char_offsets[chars], char_offsets[chars + 1] + 1)


def _cut_texts(form: str, buffers: TextBuffers, decoded: U8, is_first: Mask, starts: I64, ends: I64) -> Decoding | None:
    """The stretches of decoded bytes that are text, as pieces. `is_first`: the byte follows none of the others; `starts` and `ends`: what
    each byte was decoded from."""
    is_text = _is_text_byte(decoded, is_first)
    begins = np.flatnonzero(is_text & (is_first | ~np.append(False, is_text[:-1])[: len(decoded)]))
    stops = np.flatnonzero(is_text & np.append(is_first[1:] | ~is_text[1:], True)[: len(decoded)]) + 1
    is_long = stops - begins >= MIN_BYTES[form]
    lengths = (stops - begins)[is_long]
    if not len(lengths):
        return None
    rows = expand_ranges(begins[is_long], stops[is_long])
    text, starts, ends = decoded[rows], starts[rows], ends[rows]  # of the bytes of all pieces
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    piece_text = _find_text_no(buffers, starts[offsets[:-1]])

    def find_encoded_spans(piece_no: I64, start: I64, stop: I64) -> EncodedSpans:
        text_no = piece_text[piece_no]
        first, last = starts[offsets[piece_no] + start], ends[offsets[piece_no] + stop - 1]
        return EncodedSpans(text_no, first - buffers.offsets[text_no], last - buffers.offsets[text_no], np.ones(len(piece_no), np.bool_))

    pieces = pa.LargeStringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(text))
    return Decoding(form, pieces, find_encoded_spans)


def _find_base64_lines(buffers: TextBuffers) -> tuple[I64, I64, Mask]:
    """Returns start and end of each line of base64, and a mask of those that do not continue the line above. A line has at least
    `_MIN_BASE64_CHARS` characters, or continues such a line."""
    data, length = buffers.data, len(buffers.data)
    starts, stops = _find_long_runs(buffers, _BASE64_BYTES, _MIN_BASE64_CHARS)

    def byte_at(offsets: I64) -> U8:
        return data[np.minimum(offsets, length - 1)]

    line_end = stops + (byte_at(stops) == 13)
    below = line_end + 1
    below += (byte_at(below) == 9) | (byte_at(below) == 32)
    continues = (byte_at(line_end) == 10) & (below < length) & _BASE64_BYTES[byte_at(below)]
    below, last_byte = below[continues], stops[continues] - 1
    below = below[_find_text_no(buffers, below) == _find_text_no(buffers, last_byte)]
    long_no = np.searchsorted(starts, below)  # of the line below, if it is long
    is_long = starts[np.minimum(long_no, len(starts) - 1)] == below
    short = below[~is_long]
    short_stops, text_end = short + 1, buffers.offsets[_find_text_no(buffers, short) + 1]
    for size in range(1, _MIN_BASE64_CHARS - 1):
        short_stops += (short_stops - short == size) & (short_stops < text_end) & _BASE64_BYTES[byte_at(short_stops)]
    is_run_start = np.ones(len(starts), np.bool_)
    is_run_start[long_no[is_long]] = False
    order = np.argsort(np.concatenate([starts, short]), kind="stable")
    columns = ((starts, short), (stops, short_stops), (is_run_start, np.zeros(len(short), np.bool_)))
    first, last, begins_run = (np.concatenate(column)[order] for column in columns)
    return first, last, begins_run


def _decode_sextets(sextets: U8, following: U8) -> tuple[U8, U8, U8]:
    """Returns the bytes that begin in each character where it is the first, second and third of its group of four; in the fourth, no byte
    begins. `following`: the sextet of the next character."""
    first, second, third = sextets << 2 | following >> 4, sextets << 4 | following >> 2, sextets << 6 | following
    return first.astype(np.uint8, copy=False), second.astype(np.uint8, copy=False), third.astype(np.uint8, copy=False)


def _find_groups_of_text(sextets: U8, run_start: I64) -> tuple[I64, I64]:
    """Returns start and end of the stretches of groups of four, at any alignment, that may be text, with the group before and after it: of
    eight bytes of text, six are in two whole groups. Of the words of ordinary text, a few percent have such a stretch."""
    empty = np.empty(0, np.int64)
    if len(sextets) < 8:
        return empty, empty
    first, second, third = (_BYTE_CLASS[part] for part in _decode_sextets(sextets[:-1], sextets[1:]))
    second, third = second[1:], third[2:]  # of the group that begins in the same character
    length = len(third)
    is_text = _CLASSES_IN_TEXT[first[:length] << 2 | second[:length]] & _CLASSES_IN_TEXT[second[:length] << 2 | third]
    is_text = is_text[:-4] & is_text[4:] & _CLASSES_IN_TEXT[third[:-4] << 2 | first[4:length]]  # two groups
    edges = run_start[1:-1, None] - np.arange(1, 8)
    is_text[edges[(edges >= 0) & (edges < len(is_text))]] = False  # groups of two runs
    hits = np.flatnonzero(is_text)
    padded = np.concatenate([np.zeros(4, np.bool_), is_text, np.zeros(4, np.bool_)])
    begins, ends = hits[~padded[hits]], hits[~padded[hits + 8]]
    begins, ends = (one[np.lexsort((one, one & 3))] for one in (begins, ends))  # stretches of one alignment follow each other
    run = np.searchsorted(run_start, begins, side="right") - 1
    return np.where(begins - 4 >= run_start[run], begins - 4, begins), np.minimum(ends + 12, run_start[run + 1])


def _is_text_byte(data: U8, is_first: Mask) -> Mask:
    """True for bytes that may be part of a text in UTF-8: printable ASCII, tab and line ends, and bytes from 0x80 on that follow each
    other as a first byte and its continuation do. `is_first`: the byte follows none of the others."""
    kind = _BYTE_CLASS[data]
    is_continuation, is_lead = kind == _CONTINUATION, kind == _LEAD
    before = np.append(False, (is_lead | is_continuation)[:-1])[: len(data)] & ~is_first
    after = np.append(is_continuation[1:] & ~is_first[1:], False)[: len(data)]
    result: Mask = (kind == _ASCII) | (is_lead & after) | (is_continuation & before)
    return result


def _find_text_no(buffers: TextBuffers, byte_offsets: I64) -> I64:
    return np.searchsorted(buffers.offsets, byte_offsets, side="right") - 1


def _find_long_runs(buffers: TextBuffers, byte_table: Mask, min_length: int) -> tuple[I64, I64]:
    """Returns start and end of every run of at least `min_length` bytes that are in the table; a run never crosses two texts.

    The mask of members is combined with itself, shifted: the starts of 2, 4, 8 ... members in a row, then those of `min_length`."""
    starts_row = is_in_byte_table(buffers.data, byte_table)
    length = 1
    while length < min_length:
        step = min(length, min_length - length)
        starts_row = starts_row[: max(0, len(starts_row) - step)] & starts_row[step:]
        if length == 1:
            boundaries = buffers.offsets[1:-1] - 1
            starts_row[boundaries[(boundaries >= 0) & (boundaries < len(starts_row))]] = (
                False  # from the last byte of a text to the next one
            )
        length += step
    changes = np.flatnonzero(starts_row[1:] != starts_row[:-1]) + 1
    begins_at_once, ends_at_last = starts_row[:1].any(), starts_row[-1:].any()
    changes = np.concatenate([np.zeros(int(begins_at_once), np.int64), changes, np.full(int(ends_at_last), len(starts_row))])
    return changes[::2], changes[1::2] + min_length - 1


_BASE64_BYTES = make_byte_table(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_")
_BASE64_SEXTETS = np.zeros(256, np.uint8)  # the six bits that a character stands for, in the standard and the URL-safe alphabet
for _alphabet in (b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", b"-_"):
    _BASE64_SEXTETS[np.frombuffer(_alphabet, np.uint8)] = np.arange(64 - len(_alphabet), 64)
# the class of a byte in a text in UTF-8, and which classes may follow each other (class << 2 | next class)
_NO_TEXT, _ASCII, _LEAD, _CONTINUATION = range(4)
_BYTE_CLASS = np.zeros(256, np.uint8)
_BYTE_CLASS[[9, 10, 13, *range(32, 127)]] = _ASCII
_BYTE_CLASS[0xC2:0xF5] = _LEAD
_BYTE_CLASS[0x80:0xC0] = _CONTINUATION
_CLASSES_IN_TEXT = np.zeros(16, np.bool_)
for _before, _after in itertools.product((_ASCII, _LEAD, _CONTINUATION), repeat=2):
    _CLASSES_IN_TEXT[_before << 2 | _after] = (
        _after == _CONTINUATION if _before == _LEAD else _after != _CONTINUATION or _before == _CONTINUATION
    )


# ---- base32 and hexadecimal ----


def _decode_bit_runs(form: str, buffers: TextBuffers) -> Decoding | None:
    """Decodes each run of characters that stand for four or five bits each, at each of its alignments. A piece is a stretch of the decoded
    bytes that is text."""
    bits, values = _BITS_PER_CHAR[form], _CHAR_VALUES[form]
    starts, stops = _find_long_runs(buffers, values < _NO_VALUE, -(-8 * MIN_BYTES[form] // bits))
    if not len(starts):
        return None
    # each run once per alignment: from its first character on, from its second one on ...
    alignments = np.arange({4: 2, 5: 8}[bits])
    first = (starts[:, None] + alignments).ravel()
    stops = np.repeat(stops, len(alignments))
    sizes = np.maximum((stops - first) * bits // 8, 0)  # bytes of each
    row = np.repeat(np.arange(len(first)), sizes)
    byte_no = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    begin, bit = first[row] + byte_no * 8 // bits, byte_no * 8 % bits
    end = first[row] + ((byte_no + 1) * 8 - 1) // bits + 1
    last = len(buffers.data) - 1
    window = np.zeros(len(row), np.int64)  # the three characters from `begin` on; four or five bits each
    for step in range(3):
        window = window << bits | (values[buffers.data[np.minimum(begin + step, last)]] & ((1 << bits) - 1))
    decoded = ((window >> (3 * bits - 8 - bit)) & 0xFF).astype(np.uint8)
    return _cut_texts(form, buffers, decoded, byte_no == 0, begin, end)


def _decode_base32(buffers: TextBuffers, raw: bytes) -> Decoding | None:
    return _decode_bit_runs("base32", buffers)


def _decode_hexadecimal(buffers: TextBuffers, raw: bytes) -> Decoding | None:
    return _decode_bit_runs("hexadecimal", buffers)


_NO_VALUE = 255


def _make_char_values(alphabet: bytes) -> U8:
    """Returns the number that each byte stands for in an alphabet, in either letter case; `_NO_VALUE` for other bytes."""
    values = np.full(256, _NO_VALUE, np.uint8)
    for chars in (alphabet, alphabet.lower()):
        values[np.frombuffer(chars, np.uint8)] = np.arange(len(chars))
    return values


_CHAR_VALUES = {"base32": _make_char_values(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"), "hexadecimal": _make_char_values(b"0123456789ABCDEF")}


# ---- uuencode ----


def _decode_uuencode(buffers: TextBuffers, raw: bytes) -> Decoding | None:
    """Decodes lines whose first character says how many bytes the rest encodes, four characters for three bytes. Lines that follow each
    other are decoded as one."""
    data = buffers.data
    if not len(data):
        return None
    line_ends = np.union1d(np.flatnonzero(data == 10), buffers.offsets[1:])
    starts = np.append(0, line_ends[:-1] + (data[np.minimum(line_ends[:-1], len(data) - 1)] == 10))
    stops = line_ends - ((line_ends > starts) & (data[np.maximum(line_ends - 1, 0)] == 13))
    is_line = stops - starts >= 5
    starts, stops = starts[is_line], stops[is_line]
    byte_counts = data[starts].astype(np.int64) - 32
    is_uuencoded = (byte_counts >= 1) & (byte_counts <= 45) & (stops - starts - 1 == -(-byte_counts // 3) * 4)
    starts, stops, byte_counts = starts[is_uuencoded], stops[is_uuencoded], byte_counts[is_uuencoded]
    sizes = stops - starts - 1
    chars = expand_ranges(starts + 1, stops)
    is_foreign = (data[chars] < 32) | (data[chars] > 96)
    line_no = np.repeat(np.arange(len(starts)), sizes)
    is_uuencoded = np.bincount(line_no[is_foreign], minlength=len(starts)) == 0
    starts, stops, byte_counts = starts[is_uuencoded], stops[is_uuencoded], byte_counts[is_uuencoded]
    if not len(starts):
        return None
    row = np.repeat(np.arange(len(starts)), byte_counts)
    byte_no = np.arange(len(row)) - np.repeat(np.cumsum(byte_counts) - byte_counts, byte_counts)
    begin = starts[row] + 1 + byte_no * 8 // 6
    first, second = ((data[begin + step].astype(np.int64) - 32) & 63 for step in range(2))
    decoded = ((first << 6 | second) >> (4 - byte_no * 8 % 6) & 0xFF).astype(np.uint8)
    same_text = np.append(False, _find_text_no(buffers, starts[1:]) == _find_text_no(buffers, starts[:-1]))
    follows = same_text & np.append(False, (starts[1:] - stops[:-1] <= 2) & (byte_counts[:-1] % 3 == 0))
    return _cut_texts("uuencode", buffers, decoded, (byte_no == 0) & ~follows[row], begin, begin + 2)


# ---- UTF-16 ----


def _decode_utf16(buffers: TextBuffers, raw: bytes) -> Decoding | None:
    """Decodes bytes as UTF-16, in both byte orders, where every other byte of several is zero."""
    zeros = np.flatnonzero(buffers.data == 0)
    step = np.diff(zeros)
    linked = (step % 2 == 0) & (step <= 8) & (np.diff(_find_text_no(buffers, zeros)) == 0)
    firsts = np.flatnonzero(np.append(True, ~linked))
    size = np.diff(np.append(firsts, len(zeros)))
    is_long = size >= 4
    low, high = zeros[firsts[is_long]], zeros[(firsts + size - 1)[is_long]] + 1
    pieces, starts = [], []
    # a loop over stretches with zero bytes, which ordinary text does not contain; each is decoded once per byte order
    for first, last in zip(low.tolist(), high.tolist(), strict=True):
        text_no = int(np.searchsorted(buffers.offsets, first, side="right")) - 1
        text_start, text_end = int(buffers.offsets[text_no]), int(buffers.offsets[text_no + 1])
        for order, piece_start in (("utf-16-le", first - 1), ("utf-16-be", first)):
            piece_start -= 2 * min(8, max(0, (piece_start - text_start) // 2))
            piece_start = max(piece_start, text_start)
            pieces.append(raw[piece_start : min(last + 17, text_end)].decode(order, "replace").encode("utf-8", "replace"))
            starts.append(piece_start)
    if not pieces:
        return None
    text = pa.array(pieces, pa.large_binary())
    begins = np.array(starts, np.int64)
    piece_text = _find_text_no(buffers, begins)

    def find_encoded_spans(piece_nos: I64, start: I64, stop: I64) -> EncodedSpans:
        base = begins[piece_nos] - buffers.offsets[piece_text[piece_nos]]
        low, high = (
            base
            + np.array(
                [_utf16_length(pieces[text_no][:place]) for text_no, place in zip(piece_nos.tolist(), places.tolist(), strict=True)],
                np.int64,
            )
            for places in (start, stop)
        )
        return EncodedSpans(piece_text[piece_nos], low, high, np.ones(len(piece_nos), np.bool_))

    return Decoding("UTF-16", pa.LargeStringArray.from_buffers(len(text), *text.buffers()[1:]), find_encoded_spans)


def _utf16_length(utf8: bytes) -> int:
    """Returns the number of bytes that UTF-8 text takes in UTF-16."""
    return len(utf8.decode("utf-8", "replace").encode("utf-16-le"))


# ---- digits ----


def _join_digits(buffers: TextBuffers, raw: bytes) -> Decoding | None:
    """Joins rows of digits by leaving out their separators (up to four bytes of blanks and signs between two digits). A span counts as
    `is_encoded` where it is its whole row, or has no separators inside; elsewhere its digits may belong to several numbers."""
    data = buffers.data
    digit_offsets = np.flatnonzero(is_in_byte_table(data, _DIGIT_BYTES))
    if len(digit_offsets) < _MIN_DIGITS:
        return None
    text = _find_text_no(buffers, digit_offsets)
    gap = np.diff(digit_offsets)
    linked = (gap <= 5) & (np.diff(text) == 0)
    for step in range(1, 5):
        open_here = np.flatnonzero(linked & (gap > step))
        linked[open_here] = _NUMBER_BYTES[data[digit_offsets[open_here] + step]]
    new = np.append(True, ~linked)
    group = np.cumsum(new) - 1
    size = np.bincount(group)
    keep = size >= _MIN_DIGITS
    if not keep.any():
        return None
    kept_offsets = digit_offsets[keep[group]]
    offsets = np.concatenate([[0], np.cumsum(size[keep])]).astype(np.int64)
    row_text = text[new][keep]
    pieces = pa.LargeStringArray.from_buffers(len(row_text), pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data[kept_offsets])))

    def find_encoded_spans(row_no: I64, start: I64, stop: I64) -> EncodedSpans:
        first, last = kept_offsets[offsets[row_no] + start], kept_offsets[offsets[row_no] + stop - 1] + 1
        text_start, text_end = buffers.offsets[row_text[row_no]], buffers.offsets[row_text[row_no] + 1]
        is_whole_word = ~((first > text_start) & _WORD_BYTES[data[first - 1]]) & ~(
            (last < text_end) & _WORD_BYTES[data[np.minimum(last, len(data) - 1)]]
        )
        is_whole_row = (start == 0) & (stop == offsets[row_no + 1] - offsets[row_no])
        is_encoded = is_whole_word & (is_whole_row | (last - first == stop - start))
        return EncodedSpans(row_text[row_no], first - text_start, last - text_start, is_encoded, is_whole_word)

    return Decoding("digits", pieces, find_encoded_spans)


def _join_decoded_digits(outer: Decoding) -> Decoding | None:
    """Joins rows of digits in decoded pieces; spans are those of the column."""
    buffers = TextBuffers.from_array(outer.pieces)
    inner = _join_digits(buffers, b"")
    if inner is None:
        return None
    find_in_pieces = inner.find_encoded_spans

    def find_encoded_spans(row_no: I64, start: I64, stop: I64) -> EncodedSpans:
        inside = find_in_pieces(row_no, start, stop)
        found = outer.find_encoded_spans(inside.text_no, inside.start, inside.end)
        return replace(found, is_encoded=found.is_encoded & inside.is_encoded, is_whole_word=inside.is_whole_word)

    return replace(inner, find_encoded_spans=find_encoded_spans)


_WHOLE_FORMS: dict[str, Callable[[TextBuffers, bytes], Decoding | None]] = {
    "base64": _decode_base64,
    "base32": _decode_base32,
    "hexadecimal": _decode_hexadecimal,
    "uuencode": _decode_uuencode,
    "UTF-16": _decode_utf16,
    "digits": _join_digits,
}
_DIGIT_BYTES = make_byte_table(b"0123456789")
# blanks, hyphens, dots, brackets, and the bytes of their Unicode counterparts; without the bytes of Chinese ones, as its commas share them
_NUMBER_BYTES = make_byte_table(b"0123456789 .-/()+\t" + "\u00a0\u202f\u205f\u2212".encode() + bytes(range(0x80, 0x96)))
_WORD_BYTES = make_byte_table(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")


# ---- digests ----


_HEX_BYTES = make_byte_table(b"0123456789ABCDEFabcdef")


def find_digests(texts: pa.LargeStringArray) -> tuple[list[str], I64, I64, I64]:
    """Returns the words that may be an MD5, SHA-1, SHA-256 or SHA-512 digest: 32, 40, 64 or 128 hexadecimal digits.

    Returns the words in lower case, and for each the number of its text, and start and end byte in that text."""
    buffers = TextBuffers.from_array(texts)
    starts, stops = _find_long_runs(buffers, _HEX_BYTES, 32)
    has_digest_length = np.isin(stops - starts, (32, 40, 64, 128))
    starts, stops = starts[has_digest_length], stops[has_digest_length]
    text_no = _find_text_no(buffers, starts)
    data = buffers.data
    is_whole_word = ~((starts > buffers.offsets[text_no]) & _WORD_BYTES[data[starts - 1]])
    is_whole_word &= ~((stops < buffers.offsets[text_no + 1]) & _WORD_BYTES[data[np.minimum(stops, len(data) - 1)]])
    starts, stops, text_no = starts[is_whole_word], stops[is_whole_word], text_no[is_whole_word]
    base = buffers.offsets[text_no]
    words = [str(word) for word in slice_spans(buffers, starts, stops).to_pylist()]
    return [word.lower() for word in words], text_no, starts - base, stops - base
