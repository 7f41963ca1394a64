"""Distinct texts among byte spans, by open addressing in a table; and copies of spans, one after
the other."""

import cython
from cython.cimports.libc.stdint import int64_t, uint8_t, uint64_t
from cython.cimports.libc.string import memcmp, memcpy


def number_texts(
    data: cython.const[uint8_t][::1],
    starts: cython.const[int64_t][::1],
    ends: cython.const[int64_t][::1],
    hashes: cython.const[uint64_t][::1],
    slots: int64_t[::1],
    numbers: int64_t[::1],
    first_spans: int64_t[::1],
):
    """Numbers the distinct texts in the order in which they first occur, and returns how many there
    are.

    Writes the number of span i to numbers[i], and the first span of each text to `first_spans`.
    `hashes` is a hash of each span's bytes; hostile data may not be able to choose it. `slots` has
    a power of two of entries, more than there are spans, all -1.
    """
    count: int64_t = 0
    mask: uint64_t = slots.shape[0] - 1
    slot: uint64_t
    size: int64_t
    known: int64_t
    row: cython.Py_ssize_t
    with cython.nogil:
        for row in range(starts.shape[0]):
            size = ends[row] - starts[row]
            slot = hashes[row] & mask
            while slots[slot] >= 0:
                known = first_spans[slots[slot]]
                if (
                    hashes[known] == hashes[row]
                    and ends[known] - starts[known] == size
                    and (
                        size <= 0
                        or memcmp(
                            cython.address(data[starts[known]]),
                            cython.address(data[starts[row]]),
                            size,
                        )
                        == 0
                    )
                ):
                    break
                slot = (slot + 1) & mask
            if slots[slot] < 0:
                slots[slot] = count
                first_spans[count] = row
                count += 1
            numbers[row] = slots[slot]
    return count


def copy_spans(
    data: cython.const[uint8_t][::1],
    starts: cython.const[int64_t][::1],
    ends: cython.const[int64_t][::1],
    targets: cython.const[int64_t][::1],
    copied: uint8_t[::1],
):
    """Copies each span to `copied`, from the byte targets[i] on."""
    row: cython.Py_ssize_t
    with cython.nogil:
        for row in range(starts.shape[0]):
            if ends[row] > starts[row]:
                memcpy(
                    cython.address(copied[targets[row]]),
                    cython.address(data[starts[row]]),
                    ends[row] - starts[row],
                )
