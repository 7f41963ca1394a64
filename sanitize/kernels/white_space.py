"""Collapses white space in a column of texts."""

import cython
from cython.cimports.libc.stdint import int64_t, uint8_t


def collapse(
    data: cython.const[uint8_t][::1],
    offsets: cython.const[int64_t][::1],
    is_white: cython.const[uint8_t][::1],
    collapsed: uint8_t[::1],
    collapsed_offsets: int64_t[::1],
    breaks: int64_t[::1],
    shifts: int64_t[::1],
):
    """Copies texts to `collapsed`, every run of white space as one blank; returns how many breaks
    there are, also where the arrays are too short for all of them.

    Text i is data[offsets[i]:offsets[i + 1]], with offsets[0] = 0. From break b to the next one,
    the byte at x of `collapsed` is the one at x + shifts[b] of `data`; before the first break it is
    at x.
    """
    count: cython.Py_ssize_t = 0
    text_no: cython.Py_ssize_t
    position: int64_t
    out: int64_t = 0
    shift: int64_t = 0
    is_in_run: cython.bint
    byte: uint8_t
    with cython.nogil:
        for text_no in range(offsets.shape[0] - 1):
            collapsed_offsets[text_no] = out
            is_in_run = False
            for position in range(offsets[text_no], offsets[text_no + 1]):
                byte = data[position]
                if is_white[byte]:
                    if is_in_run:
                        continue
                    byte, is_in_run = 32, True
                else:
                    is_in_run = False
                if position - out != shift:
                    shift = position - out
                    if count < breaks.shape[0]:
                        breaks[count], shifts[count] = out, shift
                    count += 1
                collapsed[out] = byte
                out += 1
        collapsed_offsets[offsets.shape[0] - 1] = out
    return count
