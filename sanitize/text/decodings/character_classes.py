"""Classes of characters beyond ASCII: invisible ones, digits of other scripts, and those whose
compatibility form is another one."""

from __future__ import annotations

import unicodedata
from functools import partial

import numpy as np

from sanitize.array_types import I64
from sanitize.core.arrow_buffers import TextBuffers, fill_columns
from sanitize.kernels.escapes import find_characters

# bits of a class
# format characters, variation selectors, fillers (default-ignorables), controls of ISO 8859
INVISIBLE = 1
NO_BREAK_SPACE = 2
OTHER_DIGIT = 4  # a decimal digit
FOLDS = 8  # NFKC with the case folded differs from the character itself
FOLDS_TO_ASCII = 16  # ... and has a character of ASCII
# the code points that may have a class: no ideographs, no syllables of Yi, Hangul and Tangut, no
# private and unassigned ones
_SEARCHED_RANGES = (
    (0x80, 0x3400),
    (0xA4D0, 0xAC00),
    (0xF900, 0x12000),
    (0x16A00, 0x17000),
    (0x1AFF0, 0x20000),
    (0xE0000, 0xE0080),
)
_FILLERS = [
    0x034F,
    0x20E3,  # the frame of a keycap
    0x115F,
    0x1160,
    0x17B4,
    0x17B5,
    0x3164,
    0xFFA0,
    *range(0x180B, 0x1810),
    *range(0xFE00, 0xFE10),
    *range(0xE0000, 0xE0080),
    *range(0xE0100, 0xE01F0),
]
_NEXT_LINE = 0x85  # ends a line
_BLOCK_COUNT = 0xE02  # blocks of 256 code points
# the class of each code point in the blocks that have occurred in a text: to look all up would take
# 40 ms in each process
_CLASSES, _IS_KNOWN = np.zeros(_BLOCK_COUNT << 8, np.uint8), np.zeros(_BLOCK_COUNT, np.uint8)
_CLASSES[_FILLERS], _CLASSES[0xA0] = INVISIBLE, NO_BREAK_SPACE


def find_character_places(buffers: TextBuffers, classes: int) -> tuple[I64, ...]:
    """Text number, start and end of each character of one of these classes."""
    if buffers.data.max(initial=0) < 0x80:
        return (np.empty(0, np.int64),) * 3
    while True:
        unknown = np.zeros(_BLOCK_COUNT, np.uint8)
        places = fill_columns(
            partial(
                find_characters,
                buffers.data,
                buffers.offsets,
                _CLASSES,
                _IS_KNOWN,
                unknown,
                classes,
            ),
            3,
        )
        if not unknown.any():
            return places
        for block in np.flatnonzero(unknown).tolist():
            _look_up_block(block)


def is_invisible(code: int) -> bool:
    """Whether a code point, of a character that `find_character_places` found, is invisible."""
    return bool(_CLASSES[code] & INVISIBLE)


def _look_up_block(block: int) -> None:
    """Sets the classes of 256 code points."""
    first = block << 8
    codes = [
        code
        for low, high in _SEARCHED_RANGES
        for code in range(max(first, low), min(first + 256, high))
    ]
    for code in codes:
        character = chr(code)
        category, folded = (
            unicodedata.category(character),
            unicodedata.normalize("NFKC", character).casefold(),
        )
        is_control = category == "Cc" and code != _NEXT_LINE
        is_invisible = is_control or category == "Cf" and code < 0x10000
        _CLASSES[code] |= INVISIBLE * is_invisible | OTHER_DIGIT * (category == "Nd")
        if folded != character:
            _CLASSES[code] |= FOLDS | FOLDS_TO_ASCII * (min(folded) < "\x80")
    _IS_KNOWN[block] = 1
