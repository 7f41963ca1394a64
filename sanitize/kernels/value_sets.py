"""Sets of ids as hash tables, and the choice of the first draws that are new.

A table is an array of a power of two of entries, at most half of them used, with linear probing; 0
marks a free entry, so that the id 0 is stored as 1. Ids are keyed hashes, whose lowest bits are
uniform: they are the place of an id in the table.
"""

import cython
from cython.cimports.libc.stdint import int64_t, uint8_t, uint64_t


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _find(table: cython.const[uint64_t][::1], number: uint64_t) -> cython.Py_ssize_t:
    """The place of a number in a table: where it is, or the free entry where it would be
    inserted."""
    mask: cython.Py_ssize_t = table.shape[0] - 1
    place: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, number) & mask
    while table[place] != 0 and table[place] != number:
        place = (place + 1) & mask
    return place


def insert(ids: cython.const[int64_t][::1], table: uint64_t[::1]):
    """Inserts ids into a table that has a free entry for each."""
    row: cython.Py_ssize_t
    number: uint64_t
    with cython.nogil:
        for row in range(ids.shape[0]):
            number = cython.cast(uint64_t, ids[row])
            number = number if number != 0 else 1
            table[_find(table, number)] = number


def contains(
    ids: cython.const[int64_t][::1], table: cython.const[uint64_t][::1], found: uint8_t[::1]
):
    """Writes to found[i] whether ids[i] is in the table."""
    row: cython.Py_ssize_t
    number: uint64_t
    with cython.nogil:
        for row in range(ids.shape[0]):
            number = cython.cast(uint64_t, ids[row])
            number = number if number != 0 else 1
            found[row] = table[_find(table, number)] != 0


def contains_any(
    ids: cython.const[int64_t][:, ::1], table: cython.const[uint64_t][::1], found: uint8_t[::1]
):
    """Writes to found[i] whether one of ids[i] that are not 0 is in the table."""
    row: cython.Py_ssize_t
    column: cython.Py_ssize_t
    number: uint64_t
    with cython.nogil:
        for row in range(ids.shape[0]):
            found[row] = 0
            for column in range(ids.shape[1]):
                number = cython.cast(uint64_t, ids[row, column])
                if number != 0 and table[_find(table, number)] != 0:
                    found[row] = 1
                    break


def accept_new(
    ids: cython.const[int64_t][::1],
    usable: cython.const[uint8_t][::1],
    doc_no: cython.const[int64_t][::1],
    doc_factor: uint64_t,
    used: uint64_t[::1],
    accepted: int64_t[::1],
):
    """Writes to accepted[i] the position of the draw that occurrence i gets, or -1; it has as many
    draws as any other, one after the other.

    An occurrence gets its first draw that is usable and that no occurrence of its document has. Of
    two that draw the same, the one with the earlier attempt gets it, then the earlier one. `used`
    is the table of the ids that were given to a document before, with a free entry for each
    occurrence: an id and a document are one number, id ^ (document * doc_factor)."""
    occurrence: cython.Py_ssize_t
    attempt: cython.Py_ssize_t
    draw: cython.Py_ssize_t
    place: cython.Py_ssize_t
    number: uint64_t
    attempts: cython.Py_ssize_t = ids.shape[0] // accepted.shape[0] if accepted.shape[0] else 0
    with cython.nogil:
        for occurrence in range(accepted.shape[0]):
            accepted[occurrence] = -1
        for attempt in range(attempts):
            for occurrence in range(accepted.shape[0]):
                draw = occurrence * attempts + attempt
                if accepted[occurrence] >= 0 or not usable[draw]:
                    continue
                number = (
                    cython.cast(uint64_t, ids[draw])
                    ^ cython.cast(uint64_t, doc_no[occurrence]) * doc_factor
                )
                number = number if number != 0 else 1
                place = _find(used, number)
                if used[place] == 0:
                    used[place] = number
                    accepted[occurrence] = draw
