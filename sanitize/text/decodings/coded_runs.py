"""Decodes runs of characters of an alphabet: base64, base32, hexadecimal digits, uuencode and
ASCII85; and finds words that may be digests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from sanitize.array_types import I64, U8
from sanitize.core.arrow_buffers import TextBuffers, fill_columns, make_byte_table, slice_spans
from sanitize.kernels.coded_runs import (
    decode_ascii85,
    decode_runs,
    find_runs,
    find_separated_hex,
    find_uuencoded_lines,
)
from sanitize.text.decodings.decoded_pieces import MIN_BYTES, Decoding, EncodedSpans, find_text_no


@dataclass(frozen=True, repr=False)
class _Alphabet:
    """The characters of a coding: what each stands for (`_NO_VALUE` for other bytes), in how many
    bits."""

    values: U8
    bits: int

    @property
    def chars_per_group(self) -> int:
        """The characters that stand for a whole number of bytes: a value may begin at each of
        them."""
        return {4: 2, 5: 8, 6: 4}[self.bits]


_NO_VALUE = 255


def _make_alphabet(*alphabets: bytes) -> _Alphabet:
    """The alphabet of some lists of characters: the first one is whole, and each ends with the
    character of the highest value."""
    values = np.full(256, _NO_VALUE, np.uint8)
    size = len(alphabets[0])
    for chars in alphabets:
        values[np.frombuffer(chars, np.uint8)] = np.arange(size - len(chars), size)
    return _Alphabet(values, size.bit_length() - 1)


_BASE32, _HEX = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", b"0123456789ABCDEF"
_BASE32_HEX = b"0123456789ABCDEFGHIJKLMNOPQRSTUV"
_ALPHABETS = {
    "base64": _make_alphabet(
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", b"-_"
    ),
    "base32": _make_alphabet(_BASE32, _BASE32.lower()),
    "base32hex": _make_alphabet(_BASE32_HEX, _BASE32_HEX.lower()),
    "hexadecimal": _make_alphabet(_HEX, _HEX.lower()),
    "uuencode": _make_alphabet(bytes(range(32, 96)), b"`" + bytes(range(33, 96))),
}
RUN_FORMS = ("base64", "base32", "base32hex", "hexadecimal")
_MIN_CHARS = [-(-8 * MIN_BYTES[form] // _ALPHABETS[form].bits) for form in RUN_FORMS]
# what is searched in one pass, with the bytes that it consists of and its least length; groups of
# digits have one separator at least
SEPARATED_HEX = "separated hexadecimal"
_SEARCHED_RUNS = {
    **{
        form: (_ALPHABETS[form].values != _NO_VALUE, _MIN_CHARS[row])
        for row, form in enumerate(RUN_FORMS)
    },
    SEPARATED_HEX: (
        make_byte_table(_HEX + _HEX.lower() + b"xX ,:;-\t\r\n"),
        2 * MIN_BYTES["hexadecimal"] + 1,
    ),
}
_RUN_MEMBERS = np.zeros(256, np.uint64)  # see the kernel `find_runs`
for _number, (_is_member, _) in enumerate(_SEARCHED_RUNS.values()):
    _RUN_MEMBERS[_is_member] |= np.uint64(0xFF << 8 * _number)
_LEAST_LENGTHS = np.array([length for _, length in _SEARCHED_RUNS.values()])
_EXPECTED_BYTES = 1 << 16  # decoded bytes of a column; it is decoded once more where there are more


# by form: start, end and whether it continues the run above (see the kernel `find_runs`)
CodedRuns = Mapping[str, tuple[I64, I64, I64]]


def find_coded_runs(texts: pa.LargeStringArray) -> CodedRuns:
    """The runs of characters of base64, base32, base32hex and hexadecimal digits in a column that
    are long enough for a value, and those of hexadecimal digits and their separators; one pass over
    it."""
    buffers = TextBuffers.from_array(texts)
    joined = RUN_FORMS.index("base64")
    number, *runs = fill_columns(
        partial(find_runs, buffers.data, buffers.offsets, _RUN_MEMBERS, _LEAST_LENGTHS, joined), 4
    )
    start, end, continues = (
        [column[number == row] for row in range(len(_SEARCHED_RUNS))] for column in runs
    )
    return dict(zip(_SEARCHED_RUNS, zip(start, end, continues, strict=True), strict=True))


def decode_coded_runs(
    form: str, buffers: TextBuffers, runs: tuple[I64, I64, I64]
) -> Decoding | None:
    """Decodes each run of characters of an alphabet at each of its alignments; lines of base64 that
    follow each other are also decoded as one. A piece is a stretch of the decoded bytes that is
    text: nearly all runs of base64 are words, whose decoding is noise."""
    return _decode_runs(
        form, buffers, runs, _ALPHABETS[form].chars_per_group, _MIN_CHARS[RUN_FORMS.index(form)]
    )


def decode_uuencode(buffers: TextBuffers) -> Decoding | None:
    """Decodes lines whose first character says how many bytes the rest encodes; lines that follow
    each other are decoded as one."""
    lines = fill_columns(partial(find_uuencoded_lines, buffers.data, buffers.offsets), 3)
    return _decode_runs("uuencode", buffers, lines, 1, len(buffers.data) + 1)


def decode_separated_hex(buffers: TextBuffers, runs: tuple[I64, I64, I64]) -> Decoding | None:
    """Decodes groups of hexadecimal digits with separators between them. A span inside of one group
    is not encoded: the digits of a group are a run."""
    kernel = partial(find_separated_hex, buffers.data, *runs[:2], MIN_BYTES["hexadecimal"])
    decoding = _decode_runs(
        "hexadecimal", buffers, fill_columns(kernel, 3), 1, len(buffers.data) + 1
    )
    if decoding is None:
        return None
    find_in_pieces = decoding.find_encoded_spans

    def find_encoded_spans(piece_no: I64, start: I64, stop: I64) -> EncodedSpans:
        spans = find_in_pieces(piece_no, start, stop)
        return replace(spans, is_encoded=spans.end - spans.start > 2 * (stop - start))

    return replace(decoding, find_encoded_spans=find_encoded_spans)


def decode_adobe_ascii85(buffers: TextBuffers) -> Decoding | None:
    """Decodes ASCII85 between <~ and ~>."""
    return _make_pieces(
        "ASCII85",
        buffers,
        partial(decode_ascii85, buffers.data, buffers.offsets, MIN_BYTES["ASCII85"]),
    )


def _decode_runs(
    form: str, buffers: TextBuffers, runs: tuple[I64, ...], alignment_count: int, min_alone: int
) -> Decoding | None:
    """Decodes runs (see the kernel `decode_runs`); None if nothing in them is text."""
    alphabet = _ALPHABETS[form]
    kernel = partial(
        decode_runs,
        buffers.data,
        *runs,
        alphabet.values,
        alphabet.bits,
        alignment_count,
        min_alone,
        MIN_BYTES[form],
    )
    return _make_pieces(form, buffers, kernel)


def _make_pieces(
    form: str, buffers: TextBuffers, kernel: Callable[..., tuple[int, int]]
) -> Decoding | None:
    """The pieces that a kernel writes to four arrays as `decode_runs` does; None if there are
    none."""
    capacity = _EXPECTED_BYTES
    while True:
        text, (starts, ends, piece_ends) = (
            np.empty(capacity, np.uint8),
            np.empty((3, capacity), np.int64),
        )
        piece_count, byte_count = kernel(text, starts, ends, piece_ends)
        if byte_count <= capacity:
            break
        capacity = byte_count
    if not piece_count:
        return None
    offsets = np.concatenate([[0], piece_ends[:piece_count]])
    piece_text = find_text_no(buffers, starts[offsets[:-1]])

    def find_encoded_spans(piece_no: I64, start: I64, stop: I64) -> EncodedSpans:
        text_no = piece_text[piece_no]
        first, last = starts[offsets[piece_no] + start], ends[offsets[piece_no] + stop - 1]
        return EncodedSpans(
            text_no,
            first - buffers.offsets[text_no],
            last - buffers.offsets[text_no],
            np.ones(len(piece_no), np.bool_),
        )

    return Decoding(form, TextBuffers(text[:byte_count], offsets).to_array(), find_encoded_spans)


_DIGEST_CHARS = (32, 40, 64, 128)  # of MD5, SHA-1, SHA-256 and SHA-512


def find_digests(
    texts: pa.LargeStringArray, runs: CodedRuns | None = None
) -> tuple[list[str], EncodedSpans]:
    """Returns what may be an MD5, SHA-1, SHA-256 or SHA-512 digest: 32, 40, 64 or 128 hexadecimal
    digits, with any other byte beside them; in lower case, and where each is. `runs` are those of
    the column, if they are known."""
    buffers = TextBuffers.from_array(texts)
    starts, stops, _ = (runs or find_coded_runs(texts))["hexadecimal"]
    has_digest_length = np.isin(stops - starts, _DIGEST_CHARS)
    starts, stops = starts[has_digest_length], stops[has_digest_length]
    text_no = find_text_no(buffers, starts)
    base = buffers.offsets[text_no]
    words = [str(word) for word in slice_spans(buffers, starts, stops).to_pylist()]
    spans = EncodedSpans(text_no, starts - base, stops - base, np.ones(len(words), np.bool_))
    return [word.lower() for word in words], spans
