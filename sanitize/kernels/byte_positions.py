"""Single bytes of a column: the first one of a sort behind a position, and those that adjoin
values."""

import cython
from cython.cimports.libc.stdint import int32_t, int64_t, uint8_t
from cython.cimports.libc.string import memchr


def find_first_from(
    data: cython.const[uint8_t][::1],
    byte: uint8_t,
    positions: cython.const[int64_t][::1],
    ceilings: cython.const[int64_t][::1],
    found: int64_t[::1],
):
    """Writes where the first `byte` in [positions[i], ceilings[i]) is; the ceiling where there is
    none.

    What was searched for one row is not searched again for the next, so that ascending positions
    cost one pass.
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
                searched_end = (
                    ceilings[row] if hit is cython.NULL else hit - cython.address(data[0])
                )
            else:
                searched_end = start
            found[row] = searched_end if searched_end < ceilings[row] else ceilings[row]


def find_forbidden_neighbours(
    data: cython.const[uint8_t][::1],
    offsets: cython.const[int64_t][::1],
    text_nos: cython.const[int64_t][::1],
    starts: cython.const[int64_t][::1],
    ends: cython.const[int64_t][::1],
    kinds: cython.const[int32_t][::1],
    cuts: cython.const[uint8_t][::1],
    is_word: cython.const[uint8_t][::1],
    not_before: cython.const[uint8_t][:, ::1],
    not_after: cython.const[uint8_t][:, ::1],
    is_forbidden: uint8_t[::1],
):
    """Writes 1 where a value that begins (ends) with a word byte follows (precedes) a byte of the
    same text that its kind forbids, else 0.

    cuts[i] is 1 if that is not checked before the value, 2 if it is not checked after it, 3 for
    neither, else 0. Text t ends where offsets[t + 1] says; nothing is forbidden to an empty value.
    """
    row: cython.Py_ssize_t
    start: int64_t
    end: int64_t
    with cython.nogil:
        for row in range(starts.shape[0]):
            start, end = starts[row], ends[row]
            is_forbidden[row] = 0
            if start >= end:
                continue
            if (
                start > offsets[text_nos[row]]
                and not cuts[row] & 1
                and is_word[data[start]]
                and not_before[kinds[row], data[start - 1]]
            ):
                is_forbidden[row] = 1
            if (
                end < offsets[text_nos[row] + 1]
                and not cuts[row] & 2
                and is_word[data[end - 1]]
                and not_after[kinds[row], data[end]]
            ):
                is_forbidden[row] = 1
