"""Selects the pieces of texts in which a pattern can match, and joins them to shorter texts."""

import cython
from cython.cimports.libc.stdint import int64_t, uint8_t, uint16_t, uint64_t
from cython.cimports.libc.string import memchr, memcmp, memcpy


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _can_hold_number(piece: cython.pointer[cython.const[uint8_t]], size: int64_t) -> cython.bint:
    """Whether a piece has a digit, two `.` five bytes apart, two `-` three bytes apart, or two `:`
    at most five bytes apart.

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
        found |= (piece[i] == 58) & (
            (piece[i + 3] == 58) | (piece[i + 4] == 58) | (piece[i + 5] == 58)
        )
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

    A piece is what the excluded spans (ascending, not overlapping) leave of a line. Pieces beyond
    the size of the outputs are counted only.
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
                feed = cython.cast(
                    cython.pointer[cython.const[uint8_t]],
                    memchr(first + position, 10, text_end - position),
                )
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
    """Copies the pieces one after the other, with the separator after each; `joined` has exactly
    the bytes for that."""
    position: int64_t = 0
    size: int64_t
    piece: cython.Py_ssize_t
    with cython.nogil:
        for piece in range(piece_starts.shape[0]):
            size = piece_ends[piece] - piece_starts[piece]
            if size > 0:
                memcpy(
                    cython.address(joined[position]),
                    cython.address(data[piece_starts[piece]]),
                    size,
                )
            joined[position + size] = separator
            position += size + 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_bracket(byte: uint8_t) -> cython.bint:
    return byte in (40, 41, 60, 62, 91, 93, 123, 125)  # ( ) < > [ ] { }


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _ends_run(
    data: cython.pointer[cython.const[uint8_t]],
    position: int64_t,
    text_start: int64_t,
    text_end: int64_t,
) -> cython.bint:
    """Whether the byte at `position` separates two runs: a control byte, or a blank that is next to
    no bracket.

    A line end behind `=` (a soft line break of quoted-printable) does not.
    """
    byte: uint8_t = data[position]
    before: uint8_t
    if byte > 32:
        return byte == 127
    before = data[position - 1] if position > text_start else 0
    if byte == 32:
        return not (
            _is_bracket(before) or (position + 1 < text_end and _is_bracket(data[position + 1]))
        )
    if byte == 13:
        return before != 61
    if byte == 10:
        return not (
            before == 61
            or (before == 13 and position - 1 > text_start and data[position - 2] == 61)
        )
    return True


def select_runs(
    data: cython.const[uint8_t][::1],
    text_offsets: cython.const[int64_t][::1],
    literals: cython.const[uint8_t][::1],
    literal_offsets: cython.const[int64_t][::1],
    literal_marks: cython.const[uint64_t][::1],
    trigger_offsets: cython.const[int64_t][::1],
    first_literals: cython.const[uint16_t][::1],
    next_literals: cython.const[uint16_t][::1],
    text_marks: uint64_t[::1],
    run_starts: int64_t[::1],
    run_ends: int64_t[::1],
) -> int:
    """Sets the bits of every literal that a text contains in text_marks, and writes the runs of
    bytes (see `_ends_run`) that contain a literal without bits; returns their number. Runs beyond
    the size of the outputs are counted only.

    Two neighbouring bytes of each literal, at `trigger_offsets`, lead to it: first_literals[first *
    256 + second] is 1 + the number of the first literal with these bytes, next_literals of a
    literal 1 + the next one, 0 is none. A literal of one byte is found before any other byte, but
    not at the end of a text.
    """
    count: int64_t = 0
    capacity: int64_t = run_starts.shape[0]
    text: cython.Py_ssize_t
    text_start: int64_t
    text_end: int64_t
    position: int64_t
    start: int64_t
    end: int64_t
    size: int64_t
    last_run_end: int64_t
    literal: cython.int
    if data.shape[0] == 0:
        return 0
    first: cython.pointer[cython.const[uint8_t]] = cython.address(data[0])
    with cython.nogil:
        for text in range(text_offsets.shape[0] - 1):
            text_start, text_end = text_offsets[text], text_offsets[text + 1]
            last_run_end = text_start
            for position in range(text_start, text_end - 1):
                literal = first_literals[
                    (cython.cast(cython.int, first[position]) << 8) | first[position + 1]
                ]
                while literal:
                    start = position - trigger_offsets[literal - 1]
                    size = literal_offsets[literal] - literal_offsets[literal - 1]
                    if (
                        start >= text_start
                        and start + size <= text_end
                        and memcmp(
                            first + start,
                            cython.address(literals[literal_offsets[literal - 1]]),
                            size,
                        )
                        == 0
                    ):
                        if literal_marks[literal - 1]:
                            text_marks[text] |= literal_marks[literal - 1]
                        elif start >= last_run_end:
                            end = start
                            while start > last_run_end and not _ends_run(
                                first, start - 1, text_start, text_end
                            ):
                                start -= 1
                            while end < text_end and not _ends_run(
                                first, end, text_start, text_end
                            ):
                                end += 1
                            if count < capacity:
                                run_starts[count], run_ends[count] = start, end
                            count += 1
                            last_run_end = end
                    literal = next_literals[literal - 1]
    return count


def select_words(
    data: cython.const[uint8_t][::1],
    text_offsets: cython.const[int64_t][::1],
    word_starts: int64_t[::1],
    word_ends: int64_t[::1],
) -> int:
    """Writes the runs of ASCII letters, digits, `_` and `-` in which a letter or `_` may adjoin a
    value: with nine digits, or with a `_` and 27 bytes; returns their number. Runs beyond the size
    of the outputs are counted only.
    """
    count: int64_t = 0
    capacity: int64_t = word_starts.shape[0]
    text: cython.Py_ssize_t
    position: int64_t
    text_end: int64_t
    start: int64_t
    digits: int64_t
    letters: int64_t
    underscores: int64_t
    byte: uint8_t
    if data.shape[0] == 0:
        return 0
    first: cython.pointer[cython.const[uint8_t]] = cython.address(data[0])
    with cython.nogil:
        for text in range(text_offsets.shape[0] - 1):
            position, text_end = text_offsets[text], text_offsets[text + 1]
            while position < text_end:
                start = position
                digits = letters = underscores = 0
                while position < text_end:
                    byte = first[position]
                    if 48 <= byte <= 57:
                        digits += 1
                    elif byte == 95:
                        underscores += 1
                    elif 97 <= byte | 32 <= 122:
                        letters += 1
                    elif byte != 45:
                        break
                    position += 1
                if (digits >= 9 and letters + underscores > 0) or (
                    underscores > 0 and position - start >= 27
                ):
                    if count < capacity:
                        word_starts[count], word_ends[count] = start, position
                    count += 1
                position += 1
    return count
