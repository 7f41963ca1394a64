r"""What adjoins a match of a removed value, and what follows from it: the boundary rule of the leak
check.

The rule, by what is beside an edge of the match that is a letter, a digit or `_`:

    nothing of a word, or a sign that the kind allows there   separate   ann: Ann wrote, (Ann)
    an escape, or an ANSI sequence, before it                 separate   ann: \nAnn, %0AAnn, ESC[31mAnn
    `_`; a letter beside a digit                              adjoined   84170163: scan_84170163, id84170163
    a letter beside a letter, a digit beside a digit          inside     ann: Joanna
    a sign of the kind between digits                         inside     84.17.201.63: 1.84.17.201.63

An adjoined match is certain from the `certain_length` of its kind on, unless it is part of a run of
20 or more hexadecimal digits or characters of base64. One inside a longer word or number is never
certain; from that length on it is inconclusive. Bytes beyond ASCII separate, save for Latin letters
and accents, which are letters as those of ASCII are; other scripts are written without blanks, or
decline names, so that a value in them is one wherever it is. The escapes are those of
text/decodings/written_escapes.py, and others; the finders have code of their own for their side of
the rule.
"""  # noqa: E501

from __future__ import annotations

import re

import numpy as np

from sanitize.array_types import I32, I64, U8, Mask
from sanitize.core.arrow_buffers import TextBuffers
from sanitize.text.decodings.written_escapes import (
    BACKSLASH_SEPARATORS,
    ESCAPE_CHARACTERS,
    FONTS,
    HEXADECIMAL_ESCAPES,
)

SEPARATE, ADJOINED, INSIDE = range(3)
_OTHER, _LETTER, _DIGIT, _UNDERSCORE = range(4)
_MIN_RUN = 20  # characters of a run of hexadecimal digits or base64
_MAX_RUN = 200  # how far a run is followed on either side
_MIN_CHANGES = 4  # of letter case or digits in the rest of a run of base64: words have fewer
_MAX_ESCAPE = 24  # bytes
_HEX_DIGIT = "[0-9A-Fa-f]"
_ESCAPES = (
    rf"""\\+(?:[ae0"'/\\{"".join(BACKSLASH_SEPARATORS)}]|f[{FONTS}]|[0-7]{{3}}|u\{{{_HEX_DIGIT}{{1,6}}\}})""",
    *(rf"\\+{letter}{_HEX_DIGIT}{{{size}}}" for letter, size in HEXADECIMAL_ESCAPES.items()),
    rf"%(?:25)*{_HEX_DIGIT}{{2}}|%u{_HEX_DIGIT}{{4}}|={_HEX_DIGIT}{{2}}|&[#0-9A-Za-z]{{2,8}};",
    rf"(?:{'|'.join(map(re.escape, ESCAPE_CHARACTERS))})\[[0-9;]*[A-Za-z]",
)
_ESCAPE_BEFORE = re.compile(f"(?:{'|'.join(_ESCAPES)})\\Z".encode())
_HEX_RUN = re.compile(rb"[0-9A-Fa-f]+")
_BASE64_RUN = re.compile(rb"[0-9A-Za-z+/]+")
_CLASSES = np.zeros(256, np.uint8)
for _bytes, _class in (
    (b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", _LETTER),
    (b"0123456789", _DIGIT),
    (b"_", _UNDERSCORE),
):
    _CLASSES[np.frombuffer(_bytes, np.uint8)] = _class


def find_boundaries(
    buffers: TextBuffers,
    text_no: I64,
    start: I64,
    end: I64,
    kind: I32,
    forbidden: tuple[Mask, Mask],
) -> U8:
    """SEPARATE, ADJOINED or INSIDE for each match: what its two edges are, the worse of both.
    `start` and `end` are bytes of `buffers.data`; `kind` is a number among all kinds; `forbidden`
    are the tables of `boundary_tables`."""
    data, (not_before, not_after) = buffers.data, forbidden
    if not len(start):
        return np.zeros(0, np.uint8)
    low, high = buffers.offsets[text_no], buffers.offsets[text_no + 1]
    before = _find_edges(data, start, start - 1, -1, low, high, kind, not_before)
    rows = np.flatnonzero(before)
    for row in rows.tolist():  # few: matches in the middle of a word
        window = data[max(int(low[row]), int(start[row]) - _MAX_ESCAPE) : start[row]].tobytes()
        if _ESCAPE_BEFORE.search(window):
            before[row] = SEPARATE
    after = _find_edges(data, end - 1, end, 1, low, high, kind, not_after)
    return np.maximum(before, after)


def _find_edges(
    data: U8, edge: I64, beside: I64, step: int, low: I64, high: I64, kind: I32, forbidden: Mask
) -> U8:
    """What is beside one edge of each match: `edge` is the byte of the match, `beside` the one next
    to it, `step` the direction. `forbidden`: [kind, byte] is True for bytes that may not be
    there."""
    last = len(data) - 1
    edge_class = np.where(_is_latin(data, edge, -step), np.uint8(_LETTER), _CLASSES[data[edge]])
    exists = (beside >= low) & (beside < high) & (edge_class != _OTHER)
    byte = data[np.clip(beside, 0, last)]
    beside_class = np.where(exists, _CLASSES[byte], _OTHER)
    is_accented = exists & (byte >= 0x80) & (edge_class == _LETTER) & _is_latin(data, beside, step)
    is_accented &= forbidden[kind, ord("a")]
    is_forbidden = exists & forbidden[kind, byte]
    result = np.where(is_forbidden & (beside_class != _OTHER), ADJOINED, SEPARATE).astype(np.uint8)
    same = (beside_class == edge_class) & (edge_class != _UNDERSCORE)
    result[(is_forbidden & same) | is_accented] = INSIDE
    # a sign that the kind excludes, such as the point before an IP address: part of a longer value
    # only where it continues with the same class of characters
    beyond = beside + step
    has_more = is_forbidden & (beside_class == _OTHER) & (beyond >= low) & (beyond < high)
    result[has_more & (_CLASSES[data[np.clip(beyond, 0, last)]] == edge_class)] = INSIDE
    return result


def _is_latin(data: U8, beside: I64, step: int) -> Mask:
    """True where the character beyond ASCII with its first (`step` 1) or last byte there is a Latin
    letter or an accent: U+00C0 to 027F without the signs of multiplication, U+0300 to 036F, and
    U+1E00 to 1EFF."""
    last = len(data) - 1
    trail = data[np.clip(beside + (step > 0), 0, last)]
    lead = data[np.clip(beside - (step < 0), 0, last)]
    two_bytes = ((lead >= 0xC3) & (lead <= 0xC9)) & ~(
        (lead == 0xC3) & ((trail == 0x97) | (trail == 0xB7))
    )
    accent = (lead == 0xCC) | ((lead == 0xCD) & (trail < 0xB0))
    # of three bytes the first is E1, the second B8 to BB
    first, second = (
        data[np.clip(beside + offset, 0, last)] for offset in ((0, 1) if step > 0 else (-2, -1))
    )
    three_bytes = (first == 0xE1) & (second >= 0xB8) & (second <= 0xBB)
    is_latin: Mask = two_bytes | accent | three_bytes
    return is_latin


def is_in_code(data: U8, low: int, high: int, start: int, end: int) -> bool:
    """True for a match inside a run of 20 or more hexadecimal digits, or of characters of base64
    whose rest is no word: letter case and digits change four times or more in it. `low` and `high`
    are the bounds of the text."""
    first, last = max(low, start - _MAX_RUN), min(high, end + _MAX_RUN)
    before, inside, after = (
        data[a:b].tobytes() for a, b in ((first, start), (start, end), (end, last))
    )
    # its digits belong to no run
    before = b"" if _ESCAPE_BEFORE.search(before[-_MAX_ESCAPE:]) else before
    for run in (_HEX_RUN, _BASE64_RUN):
        if not run.fullmatch(inside):
            continue
        head, tail = run.match(before[::-1]), run.match(after)
        rest = (head.group() if head else b""), (tail.group() if tail else b"")
        if len(rest[0]) + len(inside) + len(rest[1]) < _MIN_RUN:
            continue
        if run is _HEX_RUN or sum(map(_count_changes, rest)) >= _MIN_CHANGES:
            return True
    return False


def _count_changes(text: bytes) -> int:
    """How often the class of characters changes: upper case, lower case, digits, signs."""
    classes = [
        (byte >= 0x61) + 2 * (0x41 <= byte <= 0x5A) + 4 * (0x30 <= byte <= 0x39) for byte in text
    ]
    return sum(one != other for one, other in zip(classes, classes[1:], strict=False))
