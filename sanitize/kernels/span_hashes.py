"""Hashes of byte spans: SipHash-2-4 (Aumasson and Bernstein, INDOCRYPT 2012) of texts and of rows
of 64-bit words.

`initial` is the state of four words that a key of 16 bytes gives (section 2.1 of the paper); the
caller computes it once.
"""

import cython
from cython.cimports.libc.stdint import int64_t, uint8_t, uint64_t
from cython.cimports.libc.string import memcpy


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _rotate(word: uint64_t, bits: cython.int) -> uint64_t:
    return (word << bits) | (word >> (64 - bits))


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _mix(state: cython.pointer[uint64_t], rounds: cython.int) -> cython.void:
    """Applies SipRound to the four words of a state."""
    for _ in range(rounds):
        state[0] += state[1]
        state[2] += state[3]
        state[1] = _rotate(state[1], 13) ^ state[0]
        state[3] = _rotate(state[3], 16) ^ state[2]
        state[0] = _rotate(state[0], 32)
        state[2] += state[1]
        state[0] += state[3]
        state[1] = _rotate(state[1], 17) ^ state[2]
        state[3] = _rotate(state[3], 21) ^ state[0]
        state[2] = _rotate(state[2], 32)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _absorb(state: cython.pointer[uint64_t], word: uint64_t) -> cython.void:
    state[3] ^= word
    _mix(state, 2)
    state[0] ^= word


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _finish(state: cython.pointer[uint64_t]) -> uint64_t:
    state[2] ^= 255
    _mix(state, 4)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def hash_texts(
    data: cython.const[uint8_t][::1],
    starts: cython.const[int64_t][::1],
    ends: cython.const[int64_t][::1],
    initial: cython.const[uint64_t][::1],
    hashes: uint64_t[::1],
):
    """Writes the hash of data[starts[i]:ends[i]] to hashes[i]."""
    state: uint64_t[4]
    word: uint64_t
    position: int64_t
    end: int64_t
    shift: cython.int
    row: cython.Py_ssize_t
    with cython.nogil:
        for row in range(hashes.shape[0]):
            state[0], state[1], state[2], state[3] = initial[0], initial[1], initial[2], initial[3]
            position, end = starts[row], ends[row]
            while position + 8 <= end:
                # little-endian machines only, as Arrow
                memcpy(cython.address(word), cython.address(data[position]), 8)
                _absorb(state, word)
                position += 8
            # the last block: the length modulo 256, and the remaining bytes
            word = cython.cast(uint64_t, end - starts[row]) << 56
            shift = 0
            while position < end:
                word |= cython.cast(uint64_t, data[position]) << shift
                shift += 8
                position += 1
            _absorb(state, word)
            hashes[row] = _finish(state)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _hash_lower(
    text: cython.pointer[cython.const[uint8_t]],
    size: int64_t,
    initial: cython.pointer[cython.const[uint64_t]],
) -> int64_t:
    """The upper 63 bits of the hash of a text with its ASCII letters in lower case; never 0."""
    state: uint64_t[4]
    word: uint64_t = 0
    position: int64_t
    byte: uint64_t
    state[0], state[1], state[2], state[3] = initial[0], initial[1], initial[2], initial[3]
    for position in range(size):
        byte = text[position]
        if byte >= 65 and byte <= 90:
            byte += 32
        word |= byte << ((position & 7) << 3)
        if position & 7 == 7:
            _absorb(state, word)
            word = 0
    _absorb(state, word | (cython.cast(uint64_t, size) << 56))
    word = _finish(state) >> 1
    return cython.cast(int64_t, word if word != 0 else 1)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _collect_digits(
    text: cython.pointer[cython.const[uint8_t]],
    size: int64_t,
    separated: cython.bint,
    digits: cython.pointer[uint8_t],
) -> int64_t:
    """Writes the digits of a number to `digits`; returns how many these are, 0 if the text is no
    number or has more than 64.

    A number is digits after an optional `+`; with `separated` also among other characters that are
    no ASCII letters. The digits after an `x` at its end, an extension, do not count."""
    position: int64_t
    count: int64_t = 0
    byte: uint8_t
    for position in range(size):
        byte = text[position]
        if byte >= 48 and byte <= 57:
            if count == 64:
                return 0
            digits[count] = byte
            count += 1
        elif byte == 120 and count > 0:  # x
            for end in range(position + 1, size):
                if text[end] < 48 or text[end] > 57:
                    return 0
            return count
        elif (
            (byte >= 65 and byte <= 90)
            or (byte >= 97 and byte <= 122)
            or not separated
            and not (byte == 43 and position == 0)
        ):
            return 0
    return count


def hash_forms(
    data: cython.const[uint8_t][::1],
    bounds: cython.const[int64_t][::1],
    min_digits: cython.int,
    separated: cython.bint,
    initial: cython.const[uint64_t][::1],
    forms: int64_t[:, ::1],
):
    """Writes the hashes of the forms of the text data[bounds[i]:bounds[i + 1]] to forms[i]: in
    lower case; the digits of a number of `min_digits` to 64 digits, with `separated` also of one
    that has separators; and these without the country code of a number of 11 digits that begins
    with 1. 0 for a form that it does not have."""
    digits: uint8_t[64]
    count: int64_t
    size: int64_t
    row: cython.Py_ssize_t
    text: cython.pointer[cython.const[uint8_t]]
    nothing: uint8_t = 0
    with cython.nogil:
        for row in range(forms.shape[0]):
            size = bounds[row + 1] - bounds[row]
            text = cython.address(data[bounds[row]]) if size > 0 else cython.address(nothing)
            forms[row, 0] = _hash_lower(text, size, cython.address(initial[0]))
            forms[row, 1] = forms[row, 2] = 0
            count = _collect_digits(text, size, separated, digits)
            if count >= min_digits:
                forms[row, 1] = _hash_lower(digits, count, cython.address(initial[0]))
                if count == 11 and digits[0] == 49:
                    forms[row, 2] = _hash_lower(
                        cython.address(digits[1]), 10, cython.address(initial[0])
                    )


def absorb_words(states: uint64_t[:, ::1], words: cython.const[uint64_t][::1]):
    """Feeds words[i] to the state in row i of `states` (four columns)."""
    row: cython.Py_ssize_t
    with cython.nogil:
        for row in range(words.shape[0]):
            _absorb(cython.address(states[row, 0]), words[row])


def finish_lanes(
    states: cython.const[uint64_t][:, ::1],
    lanes: cython.const[uint64_t][::1],
    length_word: uint64_t,
    hashes: uint64_t[::1],
):
    """Writes to hashes[i] the hash of what the state in row i has absorbed, lanes[i] and
    `length_word`; one lane serves all rows."""
    state: uint64_t[4]
    row: cython.Py_ssize_t
    lane_step: cython.Py_ssize_t = 0 if lanes.shape[0] == 1 else 1
    with cython.nogil:
        for row in range(hashes.shape[0]):
            state[0], state[1], state[2], state[3] = (
                states[row, 0],
                states[row, 1],
                states[row, 2],
                states[row, 3],
            )
            _absorb(state, lanes[row * lane_step])
            _absorb(state, length_word)
            hashes[row] = _finish(state)
