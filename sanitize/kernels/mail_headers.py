"""Finds the ends of mail header blocks, the field that each span of a header is in, and the names
of fields."""

import cython
from cython.cimports.libc.stdint import int64_t, uint8_t
from cython.cimports.libc.string import memchr


def find_block_ends(
    data: cython.const[uint8_t][::1],
    text_starts: cython.const[int64_t][::1],
    text_ends: cython.const[int64_t][::1],
    block_ends: int64_t[::1],
):
    """Writes where the first pair of line feeds of each text begins, with or without a carriage
    return between them; else its end."""
    row: cython.Py_ssize_t
    position: int64_t
    text_end: int64_t
    feed: cython.pointer[cython.const[uint8_t]]
    with cython.nogil:
        for row in range(text_starts.shape[0]):
            position, text_end = text_starts[row], text_ends[row]
            while position < text_end:
                feed = cython.cast(
                    cython.pointer[cython.const[uint8_t]],
                    memchr(cython.address(data[position]), 10, text_end - position),
                )
                if feed is cython.NULL:
                    position = text_end
                    break
                position = feed - cython.address(data[0])
                if position + 1 < text_end and data[position + 1] == 10:
                    break
                if (
                    position + 2 < text_end
                    and data[position + 1] == 13
                    and data[position + 2] == 10
                ):
                    break
                position += 1
            block_ends[row] = position


def find_field_starts(
    data: cython.const[uint8_t][::1],
    text_starts: cython.const[int64_t][::1],
    positions: cython.const[int64_t][::1],
    is_foldable: cython.const[uint8_t][::1],
    field_starts: int64_t[::1],
):
    """Writes the first byte of the line of each position; where it is foldable, of the first line
    of the field that the line belongs to.

    Positions ascend, and text_starts[i] is where the text of positions[i] begins. Bytes before the
    previous position of the same text are not searched again: without a line start between the two,
    both are in the same field.
    """
    row: cython.Py_ssize_t
    line: int64_t
    floor: int64_t
    is_same: cython.bint
    with cython.nogil:
        for row in range(positions.shape[0]):
            floor = text_starts[row]
            is_same = row > 0 and text_starts[row - 1] == floor
            if is_same:
                floor = positions[row - 1]
            line = positions[row]
            while True:
                while line > floor and data[line - 1] != 10:
                    line -= 1
                # `line` begins a line, or is the floor
                if line > floor and is_foldable[row] and (data[line] == 32 or data[line] == 9):
                    line -= 1
                else:
                    break
            if is_same and line <= floor:
                line = field_starts[row - 1]
            field_starts[row] = line


def find_name_ends(
    data: cython.const[uint8_t][::1],
    line_starts: cython.const[int64_t][::1],
    ceilings: cython.const[int64_t][::1],
    max_length: int64_t,
    name_ends: int64_t[::1],
):
    """Writes where the first colon of each line is; the start of the line where its first
    `max_length` + 1 bytes have none before a line feed or the ceiling."""
    row: cython.Py_ssize_t
    position: int64_t
    last: int64_t
    with cython.nogil:
        for row in range(line_starts.shape[0]):
            position = line_starts[row]
            last = min(position + max_length, ceilings[row] - 1)
            while position <= last and data[position] != 58 and data[position] != 10:
                position += 1
            name_ends[row] = (
                position if position <= last and data[position] == 58 else line_starts[row]
            )
