"""Finds escapes in a column (short sequences of bytes that stand for other bytes), replaces them,
and maps positions in the result back.

Only the surroundings of escapes are copied, so a column without any costs one scan.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from sanitize.array_types import I64, Mask
from sanitize.core.arrow_buffers import TextBuffers, fill_columns, slice_spans
from sanitize.kernels.escapes import (
    find_blank_runs,
    find_controls,
    find_escapes,
    find_form_blanks,
    find_line_breaks,
    find_utf7_escapes,
    find_wrapped_signs,
    merge_windows,
    splice_windows,
)
from sanitize.text.decodings.character_classes import (
    INVISIBLE,
    NO_BREAK_SPACE,
    OTHER_DIGIT,
    find_character_places,
    is_invisible,
)
from sanitize.text.decodings.decoded_pieces import Decoding, EncodedSpans


@dataclass(frozen=True, repr=False)
class FoundEscapes:
    """The number of the text, start and end of each escape in a column, and what it stands for.
    `is_counted`: a span with such an escape counts as encoded (None: with any); the others are of
    another form, too."""

    text_no: I64
    starts: I64
    ends: I64
    decoded: TextBuffers
    is_counted: Mask | None = None


def decode_places(
    buffers: TextBuffers, places: tuple[I64, ...], decode: Callable[[bytes], bytes]
) -> FoundEscapes | None:
    """Decodes the bytes of each place (text number, start, end), each distinct escape once."""
    text_no, starts, ends = places
    if not len(starts):
        return None
    escapes = slice_spans(buffers, starts, ends).cast(pa.large_binary()).dictionary_encode()
    distinct = pa.array(
        [decode(escape) for escape in escapes.dictionary.to_pylist()], pa.large_binary()
    )
    decoded = distinct.take(escapes.indices)
    column = pa.LargeStringArray.from_buffers(len(decoded), *decoded.buffers()[1:])
    return FoundEscapes(text_no, starts, ends, TextBuffers.from_array(column))


def decode_escapes(
    form: str, buffers: TextBuffers, escapes: FoundEscapes, max_value_bytes: int
) -> Decoding:
    """Decodes escapes: pieces of the column around its escapes, with each escape replaced by the
    text it represents."""
    starts, ends = escapes.starts, escapes.ends
    windows = tuple(np.empty(len(starts), np.int64) for _ in range(3))
    places = (escapes.text_no, starts, ends)
    window_count = merge_windows(buffers.data, buffers.offsets, *places, max_value_bytes, *windows)
    window_text, low, high = (column[:window_count] for column in windows)
    lengths = escapes.decoded.lengths
    spliced = np.empty(int((high - low).sum() + (lengths - (ends - starts)).sum()), np.uint8)
    offsets, first_escape = np.empty(window_count + 1, np.int64), np.empty(window_count, np.int64)
    decoded_starts = np.empty(len(starts), np.int64)
    splice_windows(
        buffers.data,
        low,
        high,
        starts,
        ends,
        escapes.decoded.data,
        escapes.decoded.offsets,
        spliced,
        offsets,
        decoded_starts,
        first_escape,
    )
    decoded_ends = decoded_starts + lengths
    counted = np.arange(len(starts) + 1)  # how many of the escapes before each one are counted
    if escapes.is_counted is not None:
        np.cumsum(escapes.is_counted, out=counted[1:])

    def find_encoded_spans(piece_no: I64, start: I64, stop: I64) -> EncodedSpans:
        start, stop = offsets[piece_no] + start, offsets[piece_no] + stop
        first_after, end_touched = (
            np.searchsorted(decoded_ends, start, side="right"),
            np.searchsorted(decoded_starts, stop, side="left"),
        )

        def to_column(places: I64, escapes_before: I64) -> I64:
            """Where decoded bytes outside of escapes come from; `escapes_before` each, in all
            pieces."""
            last = np.maximum(escapes_before - 1, 0)
            is_behind_escape = escapes_before > first_escape[piece_no]
            return places + np.where(
                is_behind_escape, ends[last] - decoded_ends[last], low[piece_no] - offsets[piece_no]
            )

        first, last = np.minimum(first_after, len(starts) - 1), np.maximum(end_touched - 1, 0)
        begins_inside = (first_after < len(starts)) & (decoded_starts[first] < start)
        ends_inside = (end_touched > 0) & (decoded_ends[last] > stop)
        start = np.where(begins_inside, starts[first], to_column(start, first_after))
        stop = np.where(ends_inside, ends[last], to_column(stop, end_touched))
        base = buffers.offsets[window_text[piece_no]]
        return EncodedSpans(
            window_text[piece_no],
            start - base,
            stop - base,
            counted[end_touched] > counted[first_after],
        )

    return Decoding(form, TextBuffers(spliced, offsets).to_array(), find_encoded_spans)


def decode_soft_breaks(
    buffers: TextBuffers, escapes: FoundEscapes, max_value_bytes: int
) -> Decoding | None:
    """Decodes the soft line breaks of quoted-printable alone: `=536-22=`, a line end and `-8741` is
    `=536-22-8741`. Of the spans only those that have a part of another escape are encoded: the
    reading with all escapes has the others."""
    is_break = escapes.decoded.lengths == 0
    other_starts, other_ends = escapes.starts[~is_break], escapes.ends[~is_break]
    rows = np.flatnonzero(is_break)
    low, high = escapes.starts[rows] - max_value_bytes, escapes.ends[rows] + max_value_bytes
    rows = rows[np.searchsorted(other_ends, low) < np.searchsorted(other_starts, high)]
    if not len(rows):
        return None
    nothing = TextBuffers(np.empty(0, np.uint8), np.zeros(len(rows) + 1, np.int64))
    places = escapes.text_no[rows], escapes.starts[rows], escapes.ends[rows]
    decoding = decode_escapes(
        "quoted-printable", buffers, FoundEscapes(*places, nothing), max_value_bytes
    )

    def find_encoded_spans(piece_no: I64, start: I64, stop: I64) -> EncodedSpans:
        spans = decoding.find_encoded_spans(piece_no, start, stop)
        base = buffers.offsets[spans.text_no]
        first_other = np.searchsorted(other_ends, base + spans.start, side="right")
        has_other = first_other < np.searchsorted(other_starts, base + spans.end)
        return replace(spans, is_encoded=spans.is_encoded & has_other)

    return replace(decoding, find_encoded_spans=find_encoded_spans)


# ---- the escapes of each form ----

_ESCAPED_NBSP = re.compile(rb"[%=][Cc]2[%=][Aa]0")  # U+00A0 as two escaped bytes
_BLANK, _AT_SIGN, _PLUS = ord(" "), ord("@"), ord("+")


def _decode_hex_escape(escape: bytes) -> bytes:
    """Returns the byte given by the last two hexadecimal digits; an escaped no-break space (two
    bytes) becomes a space."""
    return b" " if _ESCAPED_NBSP.fullmatch(escape) else bytes((int(escape[-2:], 16),))


def _decode_code_point(code: int) -> bytes:
    """Returns a character in its compatibility form (NFKC); U+FFFD for what is none."""
    is_character = code < 0xD800 or 0xE000 <= code < 0x110000
    return unicodedata.normalize("NFKC", chr(code) if is_character else "\ufffd").encode()


def _decode_utf16_units(escape: bytes) -> bytes:
    """Returns the text of one or two `u0071`, the halves of a character beyond the basic plane, in
    its compatibility form (NFKC)."""
    units = [int(part, 16) for part in re.findall(rb"u([0-9A-Fa-f]{4})", escape)]
    text = b"".join(unit.to_bytes(2, "big") for unit in units).decode("utf-16-be", "replace")
    return unicodedata.normalize("NFKC", text).encode()


def _decode_percent(escape: bytes) -> bytes:
    """Returns the byte of a percent escape, or the text of `%u0071`."""
    return _decode_utf16_units(escape) if b"u" in escape else _decode_hex_escape(escape)


def _decode_form_blank(escape: bytes) -> bytes:
    """Returns a blank for the + of form encoding, what it stands for of a percent escape."""
    return b" " if escape == b"+" else _decode_percent(escape)


def _decode_html_entity(escape: bytes) -> bytes:
    """Returns the text of an HTML entity in its compatibility form (NFKC): `&nbsp;` becomes a
    space. An unknown entity stays as it is."""
    return unicodedata.normalize(
        "NFKC", html.unescape(html.unescape(escape.decode("ascii")))
    ).encode("utf-8", "surrogatepass")


def _decode_backslash_escape(escape: bytes) -> bytes:
    r"""Returns the text of a backslash escape of JSON, or of a `\u{40}`, `\x40` or `\100` of other
    languages, in its compatibility form (NFKC)."""
    escape = escape.lstrip(b"\\")
    code = escape[:1]
    if code == b"U" or escape[:2] == b"u{":
        return _decode_code_point(int(escape.strip(b"Uu{}"), 16))
    if code == b"u":
        return _decode_utf16_units(escape)
    if code in b"01234567":
        return bytes((int(escape, 8),))
    if code == b"x":
        return _decode_hex_escape(escape)
    return {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}.get(code, code)


def _decode_css(escape: bytes) -> bytes:
    """Returns the text of an escape of CSS, in its compatibility form (NFKC)."""
    return _decode_code_point(int(escape.lstrip(b"\\"), 16))


def _decode_utf7(escape: bytes) -> bytes:
    """Returns the text of a shifted sequence of UTF-7, in its compatibility form (NFKC); one that
    is not valid stays as it is."""
    try:
        return unicodedata.normalize("NFKC", escape.decode("utf-7")).encode()
    except UnicodeError:
        return escape


def _decode_quoted_printable(escape: bytes) -> bytes:
    """Returns the byte of a quoted-printable escape; a soft line break becomes nothing."""
    return (
        _decode_hex_escape(escape)
        if len(escape) in (3, 6) and escape[1:2] not in (b"\r", b"\n", b" ", b"\t")
        else b""
    )


def _decode_wrapped_sign(escape: bytes) -> bytes:
    """Returns the @ of a bounced address, or what Exchange encodes as `+40` or `_`."""
    return _decode_hex_escape(escape) if len(escape) == 3 else b"@" if escape == b"=" else b" "


def normalise_character(char: bytes) -> bytes:
    """The ASCII character of a decimal digit or a full-width character (U+FF01 to U+FF5E), nothing
    for an invisible character; others as they are."""
    code = ord(char.decode())
    if 0xFF01 <= code <= 0xFF5E:
        return bytes((code - 0xFEE0,))
    if is_invisible(code):
        return b""
    return char if unicodedata.decimal(chr(code), None) is None else _decode_digit(char)


def _decode_digit(char: bytes) -> bytes:
    """Returns the ASCII digit of a decimal digit of another script."""
    return str(unicodedata.decimal(char.decode())).encode()


def _find_escapes(
    buffers: TextBuffers, mark: int, decode: Callable[[bytes], bytes]
) -> FoundEscapes | None:
    """Returns the escapes that begin with a mark; None if there is none."""
    return decode_places(
        buffers, fill_columns(partial(find_escapes, buffers.data, buffers.offsets, mark), 3), decode
    )


def _find_other_digits(buffers: TextBuffers) -> FoundEscapes | None:
    return decode_places(buffers, find_character_places(buffers, OTHER_DIGIT), _decode_digit)


def _find_invisible(buffers: TextBuffers) -> FoundEscapes | None:
    """Returns every invisible character, control characters, and each no-break space beside an
    @."""
    data, offsets = buffers.data, buffers.offsets
    characters = find_character_places(buffers, INVISIBLE | NO_BREAK_SPACE)
    controls = fill_columns(partial(find_controls, data, offsets), 3)
    text_no, starts, ends = _merge_places(characters, controls)
    if not len(starts):
        return None
    is_nbsp = (ends - starts == 2) & (data[starts] == 0xC2) & (data[ends - 1] == 0xA0)
    follows_at = (starts > offsets[text_no]) & (data[starts - 1] == _AT_SIGN)
    precedes_at = (ends < offsets[text_no + 1]) & (
        data[np.minimum(ends, len(data) - 1)] == _AT_SIGN
    )
    rows = np.flatnonzero(~is_nbsp | follows_at | precedes_at)
    nothing = TextBuffers(np.empty(0, np.uint8), np.zeros(len(rows) + 1, np.int64))
    return FoundEscapes(text_no[rows], starts[rows], ends[rows], nothing) if len(rows) else None


def _merge_places(first: tuple[I64, ...], second: tuple[I64, ...]) -> tuple[I64, ...]:
    """The places (text number, start, end) of both, in order."""
    if not len(first[1]) or not len(second[1]):
        return first if len(first[1]) else second
    order = np.argsort(np.concatenate([first[1], second[1]]), kind="stable")
    return tuple(np.concatenate(columns)[order] for columns in zip(first, second, strict=True))


def find_form_escapes(
    buffers: TextBuffers, pairs: Mask, max_value_bytes: int
) -> FoundEscapes | None:
    """Returns each + that may be a blank of form encoding, and the percent escapes near one.

    [a, b] of `pairs` is True where a value may have a blank between the bytes a and b."""
    blanks = fill_columns(
        partial(find_form_blanks, buffers.data, buffers.offsets, pairs.view(np.uint8)), 3
    )
    if not len(blanks[1]):
        return None
    percents = fill_columns(partial(find_escapes, buffers.data, buffers.offsets, ord("%")), 3)
    reach = 3 * max_value_bytes  # every byte of a value may be an escape
    low, high = percents[1] - reach, percents[2] + reach
    is_near = np.searchsorted(blanks[1], low) < np.searchsorted(blanks[1], high)
    places = _merge_places(blanks, tuple(column[is_near] for column in percents))
    escapes = decode_places(buffers, places, _decode_form_blank)
    return escapes and replace(escapes, is_counted=buffers.data[escapes.starts] == _PLUS)


def find_paragraph_breaks(
    buffers: TextBuffers, pairs: Mask, run_pairs: Mask
) -> FoundEscapes | None:
    """Returns the ends of lines inside paragraphs, with the blanks around each, backslashes before
    it and quote marks after it, and other runs of blanks, each as one space. [a, b] of `pairs` (of
    `run_pairs` for runs) is True where such a space may be between the bytes a and b."""
    breaks, runs = (
        fill_columns(partial(find, buffers.data, buffers.offsets, wanted.view(np.uint8)), 3)
        for find, wanted in ((find_line_breaks, pairs), (find_blank_runs, run_pairs))
    )
    # blanks behind a quote mark may be part of the end of a line
    is_other = np.searchsorted(breaks[2], runs[1], side="right") == np.searchsorted(
        breaks[1], runs[2]
    )
    text_no, starts, ends = _merge_places(breaks, tuple(column[is_other] for column in runs))
    spaces = TextBuffers(np.full(len(starts), _BLANK, np.uint8), np.arange(len(starts) + 1))
    return FoundEscapes(text_no, starts, ends, spaces) if len(starts) else None


def _find_wrapped_signs(buffers: TextBuffers) -> FoundEscapes | None:
    return decode_places(
        buffers,
        fill_columns(partial(find_wrapped_signs, buffers.data, buffers.offsets), 3),
        _decode_wrapped_sign,
    )


def _find_utf7(buffers: TextBuffers) -> FoundEscapes | None:
    return decode_places(
        buffers,
        fill_columns(partial(find_utf7_escapes, buffers.data, buffers.offsets), 3),
        _decode_utf7,
    )


FindEscapes = Callable[[TextBuffers], FoundEscapes | None]
ESCAPES: dict[str, FindEscapes] = {
    "zero-width": _find_invisible,
    "other digits": _find_other_digits,
    "HTML": partial(_find_escapes, mark=ord("&"), decode=_decode_html_entity),
    "URL": partial(_find_escapes, mark=ord("%"), decode=_decode_percent),
    "JSON": partial(_find_escapes, mark=ord("\\"), decode=_decode_backslash_escape),
    "CSS": partial(_find_escapes, mark=256 + ord("\\"), decode=_decode_css),
    "wrapped address": _find_wrapped_signs,
    "quoted-printable": partial(_find_escapes, mark=ord("="), decode=_decode_quoted_printable),
    "UTF-7": _find_utf7,
}
