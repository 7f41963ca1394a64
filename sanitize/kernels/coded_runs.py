"""Runs of characters that may be bytes in another alphabet (base64, base32, hexadecimal, uuencode), what they decode to, and digits.

Text i is data[offsets[i]:offsets[i + 1]]; no run crosses two texts. A function that fills arrays returns how many rows there are, also
where the arrays are too short for all of them.
"""

import cython
from cython.cimports.libc.stdint import int64_t, uint8_t, uint32_t, uint64_t
from cython.cimports.libc.string import memchr

# the class of a byte in UTF-8: of no text; printable ASCII or white space; the first one of a character beyond ASCII; one that continues it
NO_TEXT = cython.declare(cython.int, 0)
ASCII = cython.declare(cython.int, 1)
LEAD = cython.declare(cython.int, 2)
CONTINUATION = cython.declare(cython.int, 3)

# pieces of decoded text, as they are written: `size` bytes in all pieces, of which the last one begins at `piece_start`; arrays as in
# `decode_runs`, of `capacity` bytes and `piece_capacity` pieces
Pieces = cython.struct(
    size=cython.Py_ssize_t,
    count=cython.Py_ssize_t,
    piece_start=cython.Py_ssize_t,
    class_before=cython.int,
    min_bytes=cython.Py_ssize_t,
    capacity=cython.Py_ssize_t,
    piece_capacity=cython.Py_ssize_t,
    decoded=cython.pointer[uint8_t],
    byte_starts=cython.pointer[int64_t],
    byte_ends=cython.pointer[int64_t],
    piece_ends=cython.pointer[int64_t],
)

# what may be text: the class of each byte; and by the classes of two bytes (the first one times four): whether the second one is part of a
# text, and -1 if it may be of the text of the first one
TextRules = cython.struct(
    classes=uint8_t[256],
    is_text=int64_t[16],
    keeps_length=int64_t[16],
)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _classify(byte: cython.int) -> cython.int:
    if 32 <= byte < 127 or byte == 9 or byte == 10 or byte == 13:
        return ASCII
    if 0x80 <= byte < 0xC0:
        return CONTINUATION
    return LEAD if 0xC2 <= byte < 0xF5 else NO_TEXT


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _end_piece(pieces: cython.pointer[Pieces]) -> cython.void:
    """Ends the last piece, without a first byte of a character that nothing continues; a piece that is too short is dropped."""
    if pieces.class_before == LEAD:
        pieces.size -= 1
        pieces.class_before = NO_TEXT
    if pieces.size - pieces.piece_start < pieces.min_bytes:
        pieces.size = pieces.piece_start
    else:
        if pieces.count < pieces.piece_capacity:
            pieces.piece_ends[pieces.count] = pieces.size
        pieces.count += 1
    pieces.piece_start = pieces.size


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _add_byte(pieces: cython.pointer[Pieces], byte: cython.int, start: int64_t, end: int64_t) -> cython.void:
    """Adds a byte that data[start:end] stands for to the last piece, or ends the piece if it cannot be the next byte of it."""
    byte_class: cython.int = _classify(byte)
    class_before: cython.int = pieces.class_before
    if class_before == LEAD and byte_class != CONTINUATION:
        _end_piece(pieces)
    if byte_class == NO_TEXT or (byte_class == CONTINUATION and class_before != LEAD and class_before != CONTINUATION):
        _end_piece(pieces)
    else:
        if pieces.size < pieces.capacity:
            pieces.decoded[pieces.size], pieces.byte_starts[pieces.size], pieces.byte_ends[pieces.size] = byte, start, end
        pieces.size += 1
    pieces.class_before = byte_class


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _find_run(
    data: cython.pointer[cython.const[uint8_t]],
    start: int64_t,
    end: int64_t,
    is_member: cython.pointer[cython.const[uint8_t]],
    min_length: int64_t,
) -> int64_t:
    """Where the first run of `min_length` members or more begins in [start, end), or `end`. A run ends before `start`, if any does.

    A byte that is no member, found `min_length` bytes ahead, rules out all runs that begin before it (as Boyer and Moore search a word).
    """
    probe: int64_t
    while start + min_length <= end:
        probe = start + min_length - 1
        while probe >= start and is_member[data[probe]]:
            probe -= 1
        if probe < start:
            return start
        start = probe + 1
    return end


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _skip_line_end(data: cython.pointer[cython.const[uint8_t]], position: int64_t, end: int64_t) -> int64_t:
    """Where the line below begins, behind a blank at most, if the line ends at `position`; else -1."""
    if position < end and data[position] == 13:
        position += 1
    if position >= end or data[position] != 10:
        return -1
    position += 1
    if position < end and (data[position] == 9 or data[position] == 32):
        position += 1
    return position


def find_runs(
    data: cython.const[uint8_t][::1],
    offsets: cython.const[int64_t][::1],
    members: cython.const[uint32_t][::1],
    min_lengths: cython.const[int64_t][::1],
    joined: cython.int,
    alphabets: int64_t[::1],
    starts: int64_t[::1],
    ends: int64_t[::1],
    continues: int64_t[::1],
):
    """Writes the longest runs of characters of up to four alphabets, each with the number of its alphabet and at least as long as
    `min_lengths` says (at most 127). Bits 8 k to 8 k + 7 of `members`, which has 256 entries, are set for the characters of alphabet k.

    Of the alphabet `joined` (-1: none) a run that begins the line below such a run, behind a blank at most, is written whatever its length,
    and has 1 in `continues`; the lines below a shorter one are not looked at.
    """
    count: cython.Py_ssize_t = 0
    text_no: cython.Py_ssize_t
    alphabet: cython.int
    position: int64_t
    start: int64_t
    end: int64_t
    text_end: int64_t
    continued: int64_t
    searched_to: int64_t[4]  # where the last run of each alphabet ends
    ones: uint32_t = 0x01010101
    lengths: uint32_t  # in each of four bytes the characters of an alphabet up to here
    to_highest_bit: uint32_t = 0  # in each byte what is missing from the least length to 128
    member: uint32_t
    reached: uint32_t
    first: cython.pointer[cython.const[uint8_t]]
    if data.shape[0] == 0:
        return 0
    first = cython.address(data[0])
    for alphabet in range(min_lengths.shape[0]):
        to_highest_bit |= cython.cast(uint32_t, 128 - min_lengths[alphabet]) << (8 * alphabet)
    with cython.nogil:
        for text_no in range(offsets.shape[0] - 1):
            text_end, lengths = offsets[text_no + 1], 0
            continued = -1  # where a run begins that continues the one before
            for alphabet in range(4):
                searched_to[alphabet] = 0
            for position in range(offsets[text_no], text_end):
                lengths = (lengths + ones) & members[data[position]]
                reached = (lengths + to_highest_bit) & (ones << 7)
                if not reached:
                    continue
                for alphabet in range(min_lengths.shape[0]):
                    member = cython.cast(uint32_t, 0xFF) << (8 * alphabet)
                    if not reached & member:
                        continue
                    lengths &= ~member
                    start, end = position + 1 - min_lengths[alphabet], position + 1
                    if start < searched_to[alphabet]:
                        continue  # within a run that was written
                    while end < text_end and members[data[end]] & member:
                        end += 1
                    searched_to[alphabet] = end
                    if count < starts.shape[0]:
                        alphabets[count], starts[count], ends[count] = alphabet, start, end
                        continues[count] = alphabet == joined and start == continued
                    count += 1
                    if alphabet != joined:
                        continue
                    start = continued = _skip_line_end(first, end, text_end)
                    if start < 0:
                        continue
                    end = start
                    while end < text_end and end < start + min_lengths[alphabet] and members[data[end]] & member:
                        end += 1
                    if start < end < start + min_lengths[alphabet]:
                        if count < starts.shape[0]:
                            alphabets[count], starts[count], ends[count], continues[count] = alphabet, start, end, 1
                        count += 1
    return count


def find_uuencoded_lines(
    data: cython.const[uint8_t][::1],
    offsets: cython.const[int64_t][::1],
    starts: int64_t[::1],
    ends: int64_t[::1],
    continues: int64_t[::1],
):
    """Writes the characters of each uuencoded line, without those that only fill it up; 1 in `continues` if the line above is one, too,
    and its bytes end with a character of it.

    The first character of a line says how many bytes (1 to 45) the others stand for, four characters for three bytes.
    """
    count: cython.Py_ssize_t = 0
    text_no: cython.Py_ssize_t
    start: int64_t
    end: int64_t
    line_end: int64_t
    text_end: int64_t
    position: int64_t
    byte_count: int64_t
    continued: int64_t
    found: cython.pointer[cython.const[uint8_t]]
    with cython.nogil:
        for text_no in range(offsets.shape[0] - 1):
            start, text_end = offsets[text_no], offsets[text_no + 1]
            continued = -1  # where the line begins that continues the one before
            while start < text_end:
                found = cython.cast(cython.pointer[cython.const[uint8_t]], memchr(cython.address(data[start]), 10, text_end - start))
                line_end = found - cython.address(data[0]) if found else text_end
                end = line_end - 1 if line_end > start and data[line_end - 1] == 13 else line_end
                byte_count = cython.cast(int64_t, data[start]) - 32
                if 1 <= byte_count <= 45 and end - start - 1 == (byte_count + 2) // 3 * 4:
                    position = start + 1
                    while position < end and 32 <= data[position] <= 96:
                        position += 1
                    if position == end:
                        if count < starts.shape[0]:
                            starts[count], ends[count] = start + 1, start + 1 + (byte_count * 8 + 5) // 6
                            continues[count] = start == continued
                        count += 1
                        if byte_count % 3 == 0:
                            continued = line_end + 1
                start = line_end + 1
    return count


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _may_hold_text(
    data: cython.pointer[cython.const[uint8_t]],
    start: int64_t,
    end: int64_t,
    values: cython.pointer[cython.const[uint8_t]],
    text_rules: cython.pointer[cython.const[TextRules]],
    min_bytes: int64_t,
) -> cython.bint:
    """False if base64 in [start, end) stands for no `min_bytes` bytes in a row that are text. No branches: they could not be predicted."""
    word: uint32_t
    step: cython.int
    pair: cython.int = 0  # the class of the byte before and that of this byte
    length: int64_t = 0  # of the text up to here
    longest: int64_t = 0
    while start < end:
        word = 0
        for step in range(4):
            word = word << 6 | (values[data[start + step]] if start + step < end else 0)
        for step in range(3):
            pair = (pair << 2 | text_rules.classes[(word >> (16 - 8 * step)) & 255]) & 15
            length = (length & text_rules.keeps_length[pair]) + text_rules.is_text[pair]
            longest = max(longest, length)
        start += 4
    return longest >= min_bytes


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _set_text_rules(text_rules: cython.pointer[TextRules]) -> cython.void:
    value: cython.int
    before: cython.int
    for value in range(256):
        text_rules.classes[value] = _classify(value)
    for before in range(4):
        for value in range(4):
            text_rules.is_text[before << 2 | value] = value in (ASCII, LEAD) or (value == CONTINUATION and before >= LEAD)
            # the first byte of a character that nothing continues ends a text
            text_rules.keeps_length[before << 2 | value] = 0 if before == LEAD and value != CONTINUATION else -1
        text_rules.keeps_length[before << 2 | NO_TEXT] = 0
        if before < LEAD:
            text_rules.keeps_length[before << 2 | CONTINUATION] = 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _decode_run(
    data: cython.pointer[cython.const[uint8_t]],
    starts: cython.pointer[cython.const[int64_t]],
    ends: cython.pointer[cython.const[int64_t]],
    low: cython.Py_ssize_t,
    high: cython.Py_ssize_t,
    values: cython.pointer[cython.const[uint8_t]],
    bits: cython.int,
    alignment: cython.int,
    text_rules: cython.pointer[cython.const[TextRules]],
    pieces: cython.pointer[Pieces],
) -> cython.void:
    """Decodes the runs `low` to `high` as one, without the first `alignment` characters."""
    waiting: cython.int = 0  # bits that no byte has yet
    window: uint64_t = 0
    run: cython.Py_ssize_t
    position: int64_t
    byte_start: int64_t = 0
    position = starts[low] + alignment
    if bits == 6 and high == low + 1 and not _may_hold_text(data, position, ends[low], values, text_rules, pieces.min_bytes):
        return
    for run in range(low, high):
        position = starts[run] + alignment if run == low else starts[run]
        while position < ends[run]:
            if waiting == 0:
                byte_start = position
            window = window << bits | values[data[position]]
            waiting += bits
            position += 1
            if waiting >= 8:
                waiting -= 8
                _add_byte(pieces, (window >> waiting) & 255, byte_start, position)
                byte_start = position - 1  # the other bits of this character
    _end_piece(pieces)
    pieces.class_before = NO_TEXT


def decode_runs(
    data: cython.const[uint8_t][::1],
    starts: cython.const[int64_t][::1],
    ends: cython.const[int64_t][::1],
    continues: cython.const[int64_t][::1],
    values: cython.const[uint8_t][::1],
    bits: cython.int,
    alignment_count: cython.int,
    min_alone: int64_t,
    min_bytes: int64_t,
    decoded: uint8_t[::1],
    byte_starts: int64_t[::1],
    byte_ends: int64_t[::1],
    piece_ends: int64_t[::1],
):
    """Writes the pieces of text that runs of characters stand for; returns how many pieces and how many bytes there are.

    A run, with those that continue it, is decoded from its first character on, from its second one on, and so on, `alignment_count` times;
    one of several is also decoded by itself if it has `min_alone` characters, as the one above may be something else that would shift its
    bytes. A character stands for `bits` bits of values[byte]. A piece has at least `min_bytes` bytes of text in UTF-8. `byte_starts` and
    `byte_ends`: the characters from which each byte was decoded. `piece_ends`: in the sequence of all bytes.
    """
    pieces: Pieces
    text_rules: TextRules
    rules: cython.pointer[cython.const[TextRules]] = cython.address(text_rules)
    low: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t
    run: cython.Py_ssize_t
    alignment: cython.int
    text: cython.pointer[cython.const[uint8_t]]
    table: cython.pointer[cython.const[uint8_t]]
    first_start: cython.pointer[cython.const[int64_t]]
    first_end: cython.pointer[cython.const[int64_t]]
    _set_text_rules(cython.address(text_rules))
    pieces.size = pieces.count = pieces.piece_start = 0
    pieces.class_before, pieces.min_bytes = NO_TEXT, min_bytes
    pieces.capacity, pieces.piece_capacity = decoded.shape[0], piece_ends.shape[0]
    if starts.shape[0] == 0 or decoded.shape[0] == 0 or piece_ends.shape[0] == 0:
        return 0, 0
    text, table = cython.address(data[0]), cython.address(values[0])
    first_start, first_end = cython.address(starts[0]), cython.address(ends[0])
    pieces.decoded, pieces.byte_starts = cython.address(decoded[0]), cython.address(byte_starts[0])
    pieces.byte_ends, pieces.piece_ends = cython.address(byte_ends[0]), cython.address(piece_ends[0])
    with cython.nogil:
        while low < starts.shape[0]:
            high = low + 1
            while high < starts.shape[0] and continues[high]:
                high += 1
            for alignment in range(alignment_count):
                _decode_run(text, first_start, first_end, low, high, table, bits, alignment, rules, cython.address(pieces))
            for run in range(low, high if high > low + 1 else low):
                if ends[run] - starts[run] >= min_alone:
                    for alignment in range(alignment_count):
                        _decode_run(text, first_start, first_end, run, run + 1, table, bits, alignment, rules, cython.address(pieces))
            low = high
    return pieces.count, pieces.size


def find_digit_rows(
    data: cython.const[uint8_t][::1],
    offsets: cython.const[int64_t][::1],
    is_number_byte: cython.const[uint8_t][::1],
    min_digits: int64_t,
    digit_positions: int64_t[::1],
    row_ends: int64_t[::1],
):
    """Writes the positions of the digits of each row, and where each row ends among them; returns how many rows and digits there are.

    A row has `min_digits` digits or more, each at most four bytes behind the last one, with separators between them: the other members of
    `is_number_byte`.
    """
    row_count: cython.Py_ssize_t = 0
    digit_count: cython.Py_ssize_t = 0  # of all rows
    first_digit: cython.Py_ssize_t = 0  # of this row
    text_no: cython.Py_ssize_t
    position: int64_t
    text_end: int64_t
    digit: int64_t
    with cython.nogil:
        for text_no in range(offsets.shape[0] - 1):
            position, text_end = offsets[text_no], offsets[text_no + 1]
            while position + min_digits <= text_end:
                position = _find_run(cython.address(data[0]), position, text_end, cython.address(is_number_byte[0]), min_digits)
                digit = -1  # the last one
                while position < text_end and is_number_byte[data[position]]:
                    if 48 <= data[position] <= 57:
                        if digit_count > first_digit and position - digit > 5:
                            if digit_count - first_digit >= min_digits:
                                if row_count < row_ends.shape[0]:
                                    row_ends[row_count] = digit_count
                                row_count += 1
                            else:
                                digit_count = first_digit
                            first_digit = digit_count
                        if digit_count < digit_positions.shape[0]:
                            digit_positions[digit_count] = position
                        digit_count += 1
                        digit = position
                    position += 1
                if digit_count - first_digit >= min_digits:
                    if row_count < row_ends.shape[0]:
                        row_ends[row_count] = digit_count
                    row_count += 1
                else:
                    digit_count = first_digit
                first_digit = digit_count
    return row_count, digit_count
