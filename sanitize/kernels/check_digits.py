"""Check digits of numbers that are written without separators: the Luhn sum, and ISO 7064 modulo 97
as IBANs use it."""

import cython
from cython.cimports.libc.stdint import int64_t, uint8_t


def luhn_remainders(
    data: cython.const[uint8_t][::1], offsets: cython.const[int64_t][::1], remainders: int64_t[::1]
):
    """Writes the Luhn sum modulo ten of each number: every second digit, counted from the one
    before the last, counts double, and a result of two digits counts as the sum of these. A byte
    that is no digit counts as 0."""
    row: cython.Py_ssize_t
    position: int64_t
    digit: int64_t
    total: int64_t
    is_doubled: cython.bint
    with cython.nogil:
        for row in range(remainders.shape[0]):
            total, is_doubled = 0, False
            position = offsets[row + 1] - 1
            while position >= offsets[row]:
                digit = data[position] - 48
                if digit < 0 or digit > 9:
                    digit = 0
                if is_doubled:
                    digit = 2 * digit - 9 if digit > 4 else 2 * digit
                total += digit
                is_doubled = not is_doubled
                position -= 1
            remainders[row] = total % 10


def mod97_remainders(
    data: cython.const[uint8_t][::1], offsets: cython.const[int64_t][::1], remainders: int64_t[::1]
):
    """Writes the remainder modulo 97 of each number, in which the first four characters are moved
    to the end and the letters A to Z count as 10 to 35."""
    row: cython.Py_ssize_t
    step: int64_t
    size: int64_t
    byte: int64_t
    total: int64_t
    with cython.nogil:
        for row in range(remainders.shape[0]):
            size, total = offsets[row + 1] - offsets[row], 0
            for step in range(size):
                byte = (
                    data[offsets[row] + (step + 4) % size]
                    if size > 4
                    else data[offsets[row] + step]
                )
                total = total * 100 + byte - 55 if byte >= 65 else total * 10 + byte - 48
                total %= 97
            remainders[row] = total
