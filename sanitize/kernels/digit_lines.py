"""Selects the pieces of lines that can contain a number, and joins them to a text that number patterns search."""

import cython
from cython.cimports.libc.stdint import int64_t, uint8_t
from cython.cimports.libc.string import memchr, memcpy


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _can_hold_number(piece: cython.pointer[cython.const[uint8_t]], size: int64_t) -> cython.bint:
    """Whether a piece has a digit, two `.` five bytes apart, two `-` three bytes apart, or two `:` at most five bytes apart.

    The loops have no early exit, so that the compiler turns them into vector instructions.
    """
    found: uint8_t = 0
    i: int64_t
    for i in range(size):
        found |= cython.cast(uint8_t, piece[i] - 48) < 10
    if found or size < 2:
        return found
    for i in range(size - 5):
        found |= (piece[i] == 46) & (piece[i + 5] == 46)
        found |= (piece[i] == 58) & ((piece[i + 3] == 58) | (piece[i + 4] == 58) | (piece[i + 5] == 58))
    for i in range(size - 3):
        found |= (piece[i] == 45) & (piece[i + 3] == 45)
        found |= (piece[i] == 58) & ((piece[i + 1] == 58) | (piece[i + 2] == 58))
    for i in range(size - 5 if size > 5 else 0, size - 1):  # colons near the end of the piece
        found |= (piece[i] == 58) & (piece[i + 1] == 58)
        if i + 2 < size:
            found |= (piece[i] == 58) & (piece[i + 2] == 58)
        if i + 3 < size:
            found |= (piece[i] == 58) & (piece[i + 3] == 58)
        if i + 4 < size:
            found |= (piece[i] == 58) & (piece[i + 4] == 58)
    return found


def select_pieces(
    data: cython.const[uint8_t][::1],
    text_offsets: cython.const[int64_t][::1],
    excluded_starts: cython.const[int64_t][::1],
    excluded_ends: cython.const[int64_t][::1],
    piece_starts: int64_t[::1],
    piece_ends: int64_t[::1],
) -> int:
    """Writes the pieces of the lines of all texts that can hold a number; returns their number.

    A piece is what the excluded spans (ascending, not overlapping) leave of a line. Pieces beyond the size of the outputs are counted only.
    """
    count: int64_t = 0
    capacity: int64_t = piece_starts.shape[0]
    excluded: int64_t = 0
    excluded_count: int64_t = excluded_starts.shape[0]
    text: cython.Py_ssize_t
    position: int64_t
    text_end: int64_t
    line_end: int64_t
    end: int64_t
    feed: cython.pointer[cython.const[uint8_t]]
    if data.shape[0] == 0:
        return 0
    first: cython.pointer[cython.const[uint8_t]] = cython.address(data[0])
    with cython.nogil:
        for text in range(text_offsets.shape[0] - 1):
            position, text_end = text_offsets[text], text_offsets[text + 1]
            while position < text_end:
                feed = cython.cast(cython.pointer[cython.const[uint8_t]], memchr(first + position, 10, text_end - position))
                line_end = text_end if feed is cython.NULL else feed - first
                while position <= line_end:
                    while excluded < excluded_count and excluded_ends[excluded] <= position:
                        excluded += 1
                    end = line_end
                    if excluded < excluded_count and excluded_starts[excluded] < line_end:
                        end = excluded_starts[excluded]
                    if position < end and _can_hold_number(first + position, end - position):
                        if count < capacity:
                            piece_starts[count], piece_ends[count] = position, end
                        count += 1
                    if end == line_end:
                        break
                    position = excluded_ends[excluded]
                if position <= line_end:
                    position = line_end + 1
    return count


def join_pieces(
    data: cython.const[uint8_t][::1],
    piece_starts: cython.const[int64_t][::1],
    piece_ends: cython.const[int64_t][::1],
    separator: uint8_t,
    joined: uint8_t[::1],
):
    """Copies the pieces one after the other, with the separator after each; `joined` has exactly the bytes for that."""
    position: int64_t = 0
    size: int64_t
    piece: cython.Py_ssize_t
    with cython.nogil:
        for piece in range(piece_starts.shape[0]):
            size = piece_ends[piece] - piece_starts[piece]
            if size > 0:
                memcpy(cython.address(joined[position]), cython.address(data[piece_starts[piece]]), size)
            joined[position + size] = separator
            position += size + 1
