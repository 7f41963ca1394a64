"""Selects the pieces of texts in which a pattern can match, and joins them to shorter texts."""

import cython
from cython.cimports.libc.stdint import int64_t, uint8_t, uint32_t, uint64_t
from cython.cimports.libc.string import memchr, memcmp, memcpy, memset


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


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _find_buckets(
    data: cython.pointer[cython.const[uint8_t]],
    remaining: int64_t,
    window_masks: cython.pointer[cython.const[uint64_t]],
) -> uint64_t:
    """The buckets of which a literal may begin at `data`, as bits. Bytes beyond the column count as
    0."""
    window: uint32_t = 0
    if remaining > 3:
        memcpy(cython.address(window), data, 4)  # little-endian machines only, as Arrow
    else:
        memcpy(cython.address(window), data, remaining)
    return (
        window_masks[window & 255]
        & window_masks[256 + ((window >> 8) & 255)]
        & window_masks[512 + ((window >> 16) & 255)]
        & window_masks[768 + (window >> 24)]
    )


def select_runs(
    data: cython.const[uint8_t][::1],
    text_offsets: cython.const[int64_t][::1],
    literals: cython.const[uint8_t][::1],
    literal_offsets: cython.const[int64_t][::1],
    literal_marks: cython.const[uint64_t][::1],
    window_masks: cython.const[uint64_t][::1],
    bucket_offsets: cython.const[int64_t][::1],
    text_marks: uint64_t[::1],
    run_starts: int64_t[::1],
    run_ends: int64_t[::1],
) -> int:
    """Sets the bits of every literal that a text contains in text_marks, and writes the runs of
    bytes (see `_ends_run`) that contain a literal without bits; returns their number. Runs beyond
    the size of the outputs are counted only.

    Literals are divided into 64 buckets: those of bucket b are bucket_offsets[b] to
    bucket_offsets[b + 1]. Bit b of window_masks[256 * place + byte] says that a literal of the
    bucket may have this byte at this place, from 0 to 3; so four loads for each byte of a text rule
    out nearly all literals (the filter of Hyperscan's FDR: Wang et al., NSDI 2019, section 5). A
    literal of one byte is not found at the end of a text.
    """
    count: int64_t = 0
    capacity: int64_t = run_starts.shape[0]
    data_size: int64_t = data.shape[0]
    text: cython.Py_ssize_t
    text_start: int64_t
    text_end: int64_t
    position: int64_t
    start: int64_t
    end: int64_t
    size: int64_t
    last_run_end: int64_t
    literal: int64_t
    bucket: cython.int
    buckets: uint64_t
    if data_size == 0 or literal_marks.shape[0] == 0:
        return 0
    first: cython.pointer[cython.const[uint8_t]] = cython.address(data[0])
    masks: cython.pointer[cython.const[uint64_t]] = cython.address(window_masks[0])
    with cython.nogil:
        for text in range(text_offsets.shape[0] - 1):
            text_start, text_end = text_offsets[text], text_offsets[text + 1]
            last_run_end = text_start
            for position in range(text_start, text_end - 1):
                buckets = _find_buckets(first + position, data_size - position, masks)
                bucket = 0
                while buckets:
                    while not buckets & 1:
                        buckets >>= 1
                        bucket += 1
                    for literal in range(bucket_offsets[bucket], bucket_offsets[bucket + 1]):
                        if literal_marks[literal] == 0 and position < last_run_end:
                            continue
                        size = literal_offsets[literal + 1] - literal_offsets[literal]
                        if (
                            position + size > text_end
                            or memcmp(
                                first + position,
                                cython.address(literals[literal_offsets[literal]]),
                                size,
                            )
                            != 0
                        ):
                            continue
                        if literal_marks[literal]:
                            text_marks[text] |= literal_marks[literal]
                            continue
                        start = end = position
                        while start > last_run_end and not _ends_run(
                            first, start - 1, text_start, text_end
                        ):
                            start -= 1
                        while end < text_end and not _ends_run(first, end, text_start, text_end):
                            end += 1
                        if count < capacity:
                            run_starts[count], run_ends[count] = start, end
                        count += 1
                        last_run_end = end
                    buckets >>= 1
                    bucket += 1
    return count


def fill_spans(
    data: uint8_t[::1],
    starts: cython.const[int64_t][::1],
    ends: cython.const[int64_t][::1],
    byte: uint8_t,
):
    """Writes a byte over every span of `data`; an empty or reversed span has no bytes."""
    span: cython.Py_ssize_t
    with cython.nogil:
        for span in range(starts.shape[0]):
            if starts[span] < ends[span]:
                memset(cython.address(data[starts[span]]), byte, ends[span] - starts[span])


def find_two_lines(
    data: cython.const[uint8_t][::1],
    text_offsets: cython.const[int64_t][::1],
    positions: cython.const[int64_t][::1],
    starts: int64_t[::1],
    ends: int64_t[::1],
):
    """For each position (ascending, each inside a text), where its line starts and where the line
    after it ends, in its text. Positions of one line cost one search."""
    text: cython.Py_ssize_t = 0
    row: cython.Py_ssize_t
    start: int64_t
    line_end: int64_t = -1
    text_end: int64_t
    feed: cython.pointer[cython.const[uint8_t]]
    if data.shape[0] == 0:
        return
    first: cython.pointer[cython.const[uint8_t]] = cython.address(data[0])
    with cython.nogil:
        for row in range(positions.shape[0]):
            if positions[row] <= line_end:
                starts[row], ends[row] = starts[row - 1], ends[row - 1]
                continue
            while text_offsets[text + 1] <= positions[row]:
                text += 1
            text_end = text_offsets[text + 1]
            start = positions[row]
            while start > text_offsets[text] and first[start - 1] != 10:
                start -= 1
            feed = cython.cast(
                cython.pointer[cython.const[uint8_t]],
                memchr(first + positions[row], 10, text_end - positions[row]),
            )
            ends[row] = text_end
            line_end = text_end - 1
            if feed is not cython.NULL:
                line_end = feed - first
                feed = cython.cast(
                    cython.pointer[cython.const[uint8_t]],
                    memchr(feed + 1, 10, text_end - line_end - 1),
                )
                if feed is not cython.NULL:
                    ends[row] = feed - first
            starts[row] = start


def select_labelled_words(
    data: cython.const[uint8_t][::1],
    text_offsets: cython.const[int64_t][::1],
    line_starts: cython.const[int64_t][::1],
    line_ends: cython.const[int64_t][::1],
    max_size: int64_t,
    piece_starts: int64_t[::1],
    piece_ends: int64_t[::1],
) -> int:
    """Writes the spans of lines (ascending) of at most `max_size` bytes without a blank or tab that
    have, in their text, a line above with one to `max_size` bytes with its line end, from that
    line on; returns their number. The outputs are as long as the lines."""
    count: int64_t = 0
    text: cython.Py_ssize_t = 0
    line: cython.Py_ssize_t
    start: int64_t
    end: int64_t
    above: int64_t
    lowest: int64_t
    if data.shape[0] == 0:
        return 0
    first: cython.pointer[cython.const[uint8_t]] = cython.address(data[0])
    with cython.nogil:
        for line in range(line_starts.shape[0]):
            start, end = line_starts[line], line_ends[line]
            while text_offsets[text + 1] <= start:
                text += 1
            lowest = text_offsets[text]
            if start <= lowest or end - start > max_size or first[start - 1] != 10:
                continue
            if memchr(first + start, 32, end - start) or memchr(first + start, 9, end - start):
                continue
            above = start - 1
            while above > lowest and first[above - 1] != 10 and start - above <= max_size:
                above -= 1
            if start - above <= max_size:
                piece_starts[count], piece_ends[count] = above, end
                count += 1
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
