"""Searches for single bytes behind positions of a column."""

import cython
from cython.cimports.libc.stdint import int64_t, uint8_t
from cython.cimports.libc.string import memchr


def find_first_from(
    data: cython.const[uint8_t][::1],
    byte: uint8_t,
    positions: cython.const[int64_t][::1],
    ceilings: cython.const[int64_t][::1],
    found: int64_t[::1],
):
    """Writes where the first `byte` in [positions[i], ceilings[i]) is; the ceiling where there is none.

    What was searched for one row is not searched again for the next, so that ascending positions cost one pass.
    """
    row: cython.Py_ssize_t
    searched_start: int64_t = 0  # no `byte` is in [searched_start, searched_end)
    searched_end: int64_t = 0
    start: int64_t
    hit: cython.pointer[cython.const[uint8_t]]
    with cython.nogil:
        for row in range(positions.shape[0]):
            start = positions[row]
            if searched_start <= start <= searched_end:
                start = searched_end
            else:
                searched_start = start
            if start < ceilings[row]:
                hit = cython.cast(
                    cython.pointer[cython.const[uint8_t]],
                    memchr(cython.address(data[start]), byte, ceilings[row] - start),
                )
                searched_end = ceilings[row] if hit is cython.NULL else hit - cython.address(data[0])
            else:
                searched_end = start
            found[row] = searched_end if searched_end < ceilings[row] else ceilings[row]
