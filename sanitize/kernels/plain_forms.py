"""The forms that values are written in: which automaton accepts a value, and its bytes translated
one by one."""

import cython
from cython.cimports.libc.stdint import int32_t, int64_t, uint8_t


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _accepts(
    next_state: cython.const[int32_t][::1],
    is_final: cython.const[uint8_t][::1],
    initial: int64_t,
    data: cython.const[uint8_t][::1],
    start: int64_t,
    end: int64_t,
) -> cython.bint:
    state: int64_t = initial
    position: int64_t = start
    while position < end and state != 0:
        state = next_state[state * 256 + data[position]]
        position += 1
    return is_final[state] != 0


def match_forms(
    data: cython.const[uint8_t][::1],
    offsets: cython.const[int64_t][::1],
    marks: cython.const[uint8_t][::1],
    next_state: cython.const[int32_t][::1],
    is_final: cython.const[uint8_t][::1],
    initial: cython.const[int64_t][::1],
    initial_unless: cython.const[int64_t][::1],
    marks_allowed: cython.const[uint8_t][::1],
    max_bytes: cython.const[int64_t][::1],
    forms: int64_t[::1],
):
    """Writes to forms[i] the first form of the value data[offsets[i]:offsets[i + 1]], or -1.

    The automata of all forms are in one table: after state s and byte b comes next_state[256 s +
    b]; state 0 refuses. The values of form f are accepted from the state initial[f] on, exceptions
    from them from initial_unless[f] on. marks[i] is a number below 8; a form is for values with a
    mark whose bit is set in `marks_allowed`, of at most `max_bytes` bytes.
    """
    row: cython.Py_ssize_t
    form: cython.Py_ssize_t
    with cython.nogil:
        for row in range(forms.shape[0]):
            forms[row] = -1
            for form in range(initial.shape[0]):
                if (
                    (marks_allowed[form] >> marks[row]) & 1
                    and offsets[row + 1] - offsets[row] <= max_bytes[form]
                    and _accepts(
                        next_state, is_final, initial[form], data, offsets[row], offsets[row + 1]
                    )
                    and not _accepts(
                        next_state,
                        is_final,
                        initial_unless[form],
                        data,
                        offsets[row],
                        offsets[row + 1],
                    )
                ):
                    forms[row] = form
                    break


def translate_values(
    data: cython.const[uint8_t][::1],
    offsets: cython.const[int64_t][::1],
    forms: cython.const[int64_t][::1],
    prefixes: cython.const[uint8_t][:, ::1],
    tables: cython.const[uint8_t][::1],
    new_offsets: int64_t[::1],
    translated: uint8_t[::1],
):
    """Writes the prefix of each value's form and the value's bytes in the table of that form: byte
    b of form f becomes tables[256 f + b]. Zeros are left out. `new_offsets` gets the start of each
    result and the end of the last; `translated` has one byte more than all results can have
    together."""
    row: cython.Py_ssize_t
    at: cython.Py_ssize_t
    position: int64_t
    table: int64_t
    size: int64_t = 0
    with cython.nogil:
        new_offsets[0] = 0
        for row in range(forms.shape[0]):
            for at in range(prefixes.shape[1]):
                translated[size] = prefixes[forms[row], at]
                size += translated[size] != 0
            table = forms[row] * 256
            for position in range(offsets[row], offsets[row + 1]):
                translated[size] = tables[table + data[position]]
                size += translated[size] != 0
            new_offsets[row + 1] = size
