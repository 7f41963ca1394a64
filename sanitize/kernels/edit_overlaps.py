"""Overlaps of proposed edits: which of them stay, and what is left of those that another one
cuts."""

import cython
from cython.cimports.libc.stdint import int32_t, int64_t, uint8_t


def cut_overlaps(
    start: int64_t[::1],
    end: int64_t[::1],
    editor_no: cython.const[int32_t][::1],
    begins: cython.const[uint8_t][::1],
    is_left: uint8_t[::1],
    is_masked: uint8_t[::1],
    rows: int64_t[::1],
):
    """Cuts edits, in order of position, until none overlaps another; `begins` marks the first of
    each group of edits that overlap.

    An edit inside another is removed: `is_left`, which is all 1, becomes 0. Of two that cross, that
    of the later editor is cut in `start` or `end`, and is marked in `is_masked`, which is all 0;
    where nothing of it is left, it is removed. `rows` has space for as many numbers as there are
    edits. One pass.
    """
    row: cython.Py_ssize_t
    last: cython.Py_ssize_t
    # invariant: the first `count` of `rows` are those of a group that are left, in order, and do
    # not overlap, so that only the last one can overlap the next row
    count: cython.Py_ssize_t = 0
    with cython.nogil:
        for row in range(start.shape[0]):
            if begins[row]:
                count = 0
            while count and is_left[row] and end[rows[count - 1]] > start[row]:
                last = rows[count - 1]
                if end[row] <= end[last]:
                    is_left[row] = 0
                elif editor_no[last] <= editor_no[row]:
                    start[row] = end[last]
                    is_masked[row] = 1
                else:
                    end[last] = start[row]
                    is_masked[last] = 1
                    if end[last] <= start[last]:  # the edit before it may overlap this row as well
                        is_left[last] = 0
                        count -= 1
            if is_left[row]:
                rows[count] = row
                count += 1
