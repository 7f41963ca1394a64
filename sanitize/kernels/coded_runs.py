"""Runs of characters that may be bytes in another alphabet (base64, base32, hexadecimal, uuencode,
ASCII85), what they decode to, and digits.

Text i is data[offsets[i]:offsets[i + 1]]; no run crosses two texts. A function that fills arrays
returns how many rows there are, also where the arrays are too short for all of them.
"""

import cython
from cython.cimports.libc.stdint import int64_t, uint8_t, uint64_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memchr

# the class of a byte in UTF-8: of no text; printable ASCII or white space; the first one of a
# character beyond ASCII; one that continues it
NO_TEXT = cython.declare(cython.int, 0)
ASCII = cython.declare(cython.int, 1)
LEAD = cython.declare(cython.int, 2)
CONTINUATION = cython.declare(cython.int, 3)
# more blanks or quote marks around the end of a line, or between two codes, are no separator
_MAX_BLANKS = cython.declare(int64_t, 40)

# pieces of decoded text, as they are written: `size` bytes in all pieces, of which the last one
# begins at `piece_start`; arrays as in `decode_runs`, of `capacity` bytes and `piece_capacity`
# pieces
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

# what may be text: the class of each byte; and by the classes of two bytes (the first one times
# four): whether the second one is part of a text, and -1 if it may be of the text of the first one
TextRules = cython.struct(
    classes=uint8_t[256],
    is_text=int64_t[16],
    keeps_length=int64_t[16],
)

CodeRange = cython.struct(start=int64_t, end=int64_t)


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
    """Ends the last piece, without a first byte of a character that nothing continues; a piece that
    is too short is dropped."""
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
def _add_byte(
    pieces: cython.pointer[Pieces], byte: cython.int, start: int64_t, end: int64_t
) -> cython.void:
    """Adds a byte that data[start:end] stands for to the last piece, or ends the piece if it cannot
    be the next byte of it."""
    byte_class: cython.int = _classify(byte)
    class_before: cython.int = pieces.class_before
    if class_before == LEAD and byte_class != CONTINUATION:
        _end_piece(pieces)
    if byte_class == NO_TEXT or (
        byte_class == CONTINUATION and class_before != LEAD and class_before != CONTINUATION
    ):
        _end_piece(pieces)
    else:
        if pieces.size < pieces.capacity:
            (
                pieces.decoded[pieces.size],
                pieces.byte_starts[pieces.size],
                pieces.byte_ends[pieces.size],
            ) = byte, start, end
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
    """Where the first run of `min_length` members or more begins in [start, end), or `end`. A run
    ends before `start`, if any does.

    A byte that is no member, found `min_length` bytes ahead, rules out all runs that begin before
    it (as Boyer and Moore search a word).
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
def _is_blank(byte: uint8_t) -> cython.bint:
    return byte == 32 or 9 <= byte <= 10 or byte == 13


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _skip_line_end(
    data: cython.pointer[cython.const[uint8_t]], position: int64_t, end: int64_t
) -> int64_t:
    """Where the line below begins, behind its indentation and quote marks (> | # *), if the line
    ends at `position`, also with backslashes that continue it; else -1."""
    last: int64_t = min(end, position + _MAX_BLANKS)
    while position < last and data[position] in (9, 13, 32, 92):
        position += 1
    if position >= end or data[position] != 10:
        return -1
    position += 1
    last = min(end, position + _MAX_BLANKS)
    while position < last and data[position] in (9, 32, 62, 124, 35, 42):
        position += 1
    return position


def find_runs(
    data: cython.const[uint8_t][::1],
    offsets: cython.const[int64_t][::1],
    members: cython.const[uint64_t][::1],
    min_lengths: cython.const[int64_t][::1],
    joined: cython.int,
    alphabets: int64_t[::1],
    starts: int64_t[::1],
    ends: int64_t[::1],
    continues: int64_t[::1],
):
    """Writes the longest runs of characters of up to eight alphabets, each with the number of its
    alphabet and at least as long as `min_lengths` says (at most 127). Bits 8 k to 8 k + 7 of
    `members`, which has 256 entries, are set for the characters of alphabet k.

    Of the alphabet `joined` (-1: none) a run that begins the line below such a run, behind its
    backslashes, indentation and quote marks, is written whatever its length, and has 1 in
    `continues`; the lines below a shorter one are not looked at.
    """
    count: cython.Py_ssize_t = 0
    text_no: cython.Py_ssize_t
    alphabet: cython.int
    position: int64_t
    start: int64_t
    end: int64_t
    text_end: int64_t
    continued: int64_t
    searched_to: int64_t[8]  # where the last run of each alphabet ends
    ones: uint64_t = 0x0101010101010101
    lengths: uint64_t  # in each of eight bytes the characters of an alphabet up to here
    to_highest_bit: uint64_t = 0  # in each byte what is missing from the least length to 128
    member: uint64_t
    reached: uint64_t
    first: cython.pointer[cython.const[uint8_t]]
    if data.shape[0] == 0:
        return 0
    first = cython.address(data[0])
    for alphabet in range(min_lengths.shape[0]):
        to_highest_bit |= cython.cast(uint64_t, 128 - min_lengths[alphabet]) << (8 * alphabet)
    with cython.nogil:
        for text_no in range(offsets.shape[0] - 1):
            text_end, lengths = offsets[text_no + 1], 0
            continued = -1  # where a run begins that continues the one before
            for alphabet in range(8):
                searched_to[alphabet] = 0
            for position in range(offsets[text_no], text_end):
                lengths = (lengths + ones) & members[data[position]]
                reached = (lengths + to_highest_bit) & (ones << 7)
                if not reached:
                    continue
                for alphabet in range(min_lengths.shape[0]):
                    member = cython.cast(uint64_t, 0xFF) << (8 * alphabet)
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
                    while (
                        end < text_end
                        and end < start + min_lengths[alphabet]
                        and members[data[end]] & member
                    ):
                        end += 1
                    if start < end < start + min_lengths[alphabet]:
                        if count < starts.shape[0]:
                            alphabets[count], starts[count], ends[count], continues[count] = (
                                alphabet,
                                start,
                                end,
                                1,
                            )
                        count += 1
    return count


def find_uuencoded_lines(
    data: cython.const[uint8_t][::1],
    offsets: cython.const[int64_t][::1],
    starts: int64_t[::1],
    ends: int64_t[::1],
    continues: int64_t[::1],
):
    """Writes the characters of each uuencoded line, without those that only fill it up; 1 in
    `continues` if the line above is one, too, and its bytes end with a character of it.

    The first character of a line says how many bytes (1 to 45) the others stand for, four
    characters for three bytes.
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
                found = cython.cast(
                    cython.pointer[cython.const[uint8_t]],
                    memchr(cython.address(data[start]), 10, text_end - start),
                )
                line_end = found - cython.address(data[0]) if found else text_end
                end = line_end - 1 if line_end > start and data[line_end - 1] == 13 else line_end
                byte_count = cython.cast(int64_t, data[start]) - 32
                if 1 <= byte_count <= 45 and end - start - 1 == (byte_count + 2) // 3 * 4:
                    position = start + 1
                    while position < end and 32 <= data[position] <= 96:
                        position += 1
                    if position == end:
                        if count < starts.shape[0]:
                            starts[count], ends[count] = (
                                start + 1,
                                start + 1 + (byte_count * 8 + 5) // 6,
                            )
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
def _is_hex(byte: uint8_t) -> cython.bint:
    return 48 <= byte <= 57 or 97 <= byte | 32 <= 102


def find_separated_hex(
    data: cython.const[uint8_t][::1],
    run_starts: cython.const[int64_t][::1],
    run_ends: cython.const[int64_t][::1],
    min_bytes: int64_t,
    starts: int64_t[::1],
    ends: int64_t[::1],
    continues: int64_t[::1],
):
    """Writes each two hexadecimal digits of the sequences in runs that stand for `min_bytes` bytes
    or more; 0 in `continues` where a sequence begins.

    A sequence is groups of an even number of digits, with or without 0x, and between each two of
    them the same sign (comma, colon, semicolon, hyphen or none) and blanks or ends of lines: `71 75
    69`, `71:75:69`, `0x71, 0x75`. The address before a line of a dump (six digits or more before a
    group of at most four in the same line) is no part of it.
    """
    count: cython.Py_ssize_t = 0
    first_pair: cython.Py_ssize_t  # of this sequence
    run: cython.Py_ssize_t
    position: int64_t
    start: int64_t
    end: int64_t
    group_before: int64_t
    blank_count: int64_t
    sign: cython.int  # since the last group
    sequence_sign: cython.int  # -1 behind the first group
    is_group: cython.bint
    is_next: cython.bint
    is_address: cython.bint  # if this group is shorter, and in the same line
    with cython.nogil:
        for run in range(run_starts.shape[0]):
            position, first_pair, group_before, is_address = run_starts[run], count, 0, False
            sign, sequence_sign, blank_count = 0, -1, 0
            while position < run_ends[run]:
                if _is_blank(data[position]):
                    is_address = is_address and data[position] != 10
                    blank_count += 1
                    position += 1
                    continue
                if sign == 0 and data[position] in (44, 45, 58, 59):
                    sign = data[position]
                    position += 1
                    continue
                start = position
                end = run_ends[run]
                if position + 1 < end and data[position] == 48 and data[position + 1] | 32 == 120:
                    start = position + 2
                end = start
                while end < run_ends[run] and _is_hex(data[end]):
                    end += 1
                is_group = end > start and (end - start) % 2 == 0
                is_next = is_group and blank_count <= _MAX_BLANKS
                is_next = is_next and not (is_address and end - start <= 4)
                if count > first_pair and not (is_next and sequence_sign in (-1, sign)):
                    if count - first_pair < min_bytes:
                        count = first_pair
                    first_pair = count
                    # the sign before this group may begin another sequence with the last one
                    if is_next:
                        position, sequence_sign, is_address, sign, blank_count = (
                            group_before,
                            -1,
                            False,
                            0,
                            0,
                        )
                        continue
                    sequence_sign = -1
                elif count > first_pair:
                    sequence_sign = sign
                sign = blank_count = 0
                if is_group:
                    group_before, is_address = position, end - start >= 6
                    while start < end:
                        if count < starts.shape[0]:
                            starts[count], ends[count], continues[count] = (
                                start,
                                start + 2,
                                count > first_pair,
                            )
                        count += 1
                        start += 2
                position = end if end > position else position + 1
            if count - first_pair < min_bytes:
                count = first_pair
    return count


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _start_pieces(
    pieces: cython.pointer[Pieces],
    min_bytes: int64_t,
    decoded: uint8_t[::1],
    byte_starts: int64_t[::1],
    byte_ends: int64_t[::1],
    piece_ends: int64_t[::1],
) -> cython.bint:
    """Sets up pieces without bytes; False if the arrays have no place."""
    pieces.size = pieces.count = pieces.piece_start = 0
    pieces.class_before, pieces.min_bytes = NO_TEXT, min_bytes
    pieces.capacity, pieces.piece_capacity = decoded.shape[0], piece_ends.shape[0]
    if decoded.shape[0] == 0 or piece_ends.shape[0] == 0:
        return False
    pieces.decoded, pieces.byte_starts = cython.address(decoded[0]), cython.address(byte_starts[0])
    pieces.byte_ends, pieces.piece_ends = (
        cython.address(byte_ends[0]),
        cython.address(piece_ends[0]),
    )
    return True


def decode_ascii85(
    data: cython.const[uint8_t][::1],
    offsets: cython.const[int64_t][::1],
    min_bytes: int64_t,
    decoded: uint8_t[::1],
    byte_starts: int64_t[::1],
    byte_ends: int64_t[::1],
    piece_ends: int64_t[::1],
):
    """Writes the pieces of text that ASCII85 behind <~ stands for, as `decode_runs` does. Five
    characters, with blanks between them, stand for four bytes, two to four at the end for one less,
    z for four zero bytes."""
    pieces: Pieces
    text_no: cython.Py_ssize_t = -1
    position: int64_t = 0
    start: int64_t
    end: int64_t
    text_end: int64_t = 0
    word: uint64_t
    byte: cython.int
    sign: cython.int
    length: cython.int
    step: cython.int
    is_inside: cython.bint
    size: int64_t = data.shape[0]
    found: cython.pointer[cython.const[uint8_t]]
    if not _start_pieces(
        cython.address(pieces), min_bytes, decoded, byte_starts, byte_ends, piece_ends
    ):
        return 0, 0
    with cython.nogil:
        while position + 1 < size:
            found = cython.cast(
                cython.pointer[cython.const[uint8_t]],
                memchr(cython.address(data[position]), 60, size - position),
            )
            if not found:
                break
            position = found - cython.address(data[0]) + 1
            while position - 1 >= text_end:
                text_no += 1
                text_end = offsets[text_no + 1]
            if position >= text_end or data[position] != 126:
                continue
            position += 1
            start, end, word, length, is_inside = position, position, 0, 0, True
            while is_inside:
                if position < text_end and _is_blank(data[position]):
                    position += 1
                    continue
                sign = data[position] if position < text_end else 0
                is_inside = 33 <= sign <= 117 or (sign == 122 and length == 0)
                # <~ begins another one, but <~> ends this one
                if sign == 60 and position + 2 < text_end and data[position + 1] == 126:
                    is_inside = data[position + 2] == 62
                if is_inside:
                    start = start if length else position
                    word = word * 85 + (0 if sign == 122 else sign - 33)
                    length = 5 if sign == 122 else length + 1
                    position += 1
                    end = position
                if length == 5 or (length > 1 and not is_inside):
                    for _ in range(length, 5):
                        word = word * 85 + 84
                    for step in range(length - 1):
                        # no four bytes are more than 32 bits
                        byte = 0 if word >> 32 else word >> (24 - 8 * step) & 255
                        _add_byte(cython.address(pieces), byte, start, end)
                    word, length = 0, 0
            _end_piece(cython.address(pieces))
            pieces.class_before = NO_TEXT
            if position < text_end and data[position] == 126 and data[position - 1] == 60:
                position -= 1  # <~> may begin another one as well
    return pieces.count, pieces.size


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _find_text(
    codes: cython.pointer[cython.const[uint8_t]],
    first: int64_t,
    code_count: int64_t,
    chars: cython.int,
    bits: cython.int,
    text_rules: cython.pointer[cython.const[TextRules]],
    min_bytes: int64_t,
) -> CodeRange:
    """The codes from number `first` on that hold all texts of `min_bytes` bytes or more; none (end
    0) without such a text.

    Each code has `bits` bits, and `chars` of them stand for whole bytes; as many may be read behind
    the last one. No branches: they could not be predicted."""
    word: uint64_t
    step: cython.int
    pair: cython.int = 0  # the class of the byte before and that of this byte
    length: int64_t = 0  # of the text up to here
    longest: int64_t  # of these bytes
    start: int64_t = first
    found: CodeRange
    found.start, found.end = code_count, 0
    while start < code_count:
        word = 0
        for step in range(chars):
            word = word << bits | codes[start + step]
        longest = 0
        for step in range(chars * bits // 8):
            pair = (
                pair << 2 | text_rules.classes[(word >> (chars * bits - 8 - 8 * step)) & 255]
            ) & 15
            length = (length & text_rules.keeps_length[pair]) + text_rules.is_text[pair]
            longest = max(longest, length)
        found.start = min(found.start, start if longest >= min_bytes else code_count)
        found.end = start + chars if longest >= min_bytes else found.end
        start += chars
    # the first text begins `min_bytes` bytes before, those that are decoded with its last one, and
    # a part of the codes of its first one
    found.start = max(first, found.start - (min_bytes * 8 // (chars * bits) + 1) * chars)
    found.end = min(found.end, code_count)
    return found


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
            text_rules.is_text[before << 2 | value] = value in (ASCII, LEAD) or (
                value == CONTINUATION and before >= LEAD
            )
            # the first byte of a character that nothing continues ends a text
            text_rules.keeps_length[before << 2 | value] = (
                0 if before == LEAD and value != CONTINUATION else -1
            )
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
    values: cython.pointer[cython.const[uint8_t]],
    bits: cython.int,
    codes: CodeRange,
    pieces: cython.pointer[Pieces],
) -> cython.void:
    """Decodes some characters of the run `low` and of those that continue it; `codes` are their
    numbers, counted over all these runs."""
    waiting: cython.int = 0  # bits that no byte has yet
    window: uint64_t = 0
    position: int64_t
    byte_start: int64_t = 0
    stop: int64_t
    length: int64_t
    while codes.end > 0:
        length = ends[low] - starts[low]
        position, stop = starts[low] + codes.start, min(ends[low], starts[low] + codes.end)
        while position < stop:
            if waiting == 0:
                byte_start = position
            window = window << bits | values[data[position]]
            waiting += bits
            position += 1
            if waiting >= 8:
                waiting -= 8
                _add_byte(pieces, (window >> waiting) & 255, byte_start, position)
                byte_start = position - 1  # the other bits of this character
        codes.start, codes.end = max(0, codes.start - length), codes.end - length
        low += 1
    _end_piece(pieces)
    pieces.class_before = NO_TEXT


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _decode_alignments(
    data: cython.pointer[cython.const[uint8_t]],
    starts: cython.pointer[cython.const[int64_t]],
    ends: cython.pointer[cython.const[int64_t]],
    low: cython.Py_ssize_t,
    high: cython.Py_ssize_t,
    values: cython.pointer[cython.const[uint8_t]],
    bits: cython.int,
    alignment_count: cython.int,
    text_rules: cython.pointer[cython.const[TextRules]],
    codes: cython.pointer[uint8_t],
    pieces: cython.pointer[Pieces],
) -> cython.void:
    """Decodes the runs `low` to `high` as one at each alignment, without the characters before and
    after their texts. `codes` has a place for each of their characters, and for eight more."""
    alignment: cython.int
    run: cython.Py_ssize_t
    position: int64_t
    count: int64_t = 0
    text: CodeRange
    for run in range(low, high):
        for position in range(starts[run], ends[run]):
            codes[count] = values[data[position]]
            count += 1
    for alignment in range(8):
        codes[count + alignment] = 0
    for alignment in range(alignment_count):
        # the numbers are constants, so that the loops over them are unrolled
        if bits == 6:
            text = _find_text(codes, alignment, count, 4, 6, text_rules, pieces.min_bytes)
        elif bits == 5:
            text = _find_text(codes, alignment, count, 8, 5, text_rules, pieces.min_bytes)
        else:
            text = _find_text(codes, alignment, count, 2, 4, text_rules, pieces.min_bytes)
        _decode_run(data, starts, ends, low, values, bits, text, pieces)


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
    """Writes the pieces of text that runs of characters stand for; returns how many pieces and how
    many bytes there are.

    A run, with those that continue it, is decoded from its first character on, from its second one
    on, and so on, `alignment_count` times; one of several is also decoded by itself if it has
    `min_alone` characters, as the one above may be something else that would shift its bytes. A
    character stands for `bits` bits of values[byte]. A piece has at least `min_bytes` bytes of text
    in UTF-8. `byte_starts` and `byte_ends`: the characters from which each byte was decoded.
    `piece_ends`: in the sequence of all bytes.
    """
    pieces: Pieces
    text_rules: TextRules
    rules: cython.pointer[cython.const[TextRules]] = cython.address(text_rules)
    low: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t
    run: cython.Py_ssize_t
    code_count: int64_t = 0  # of the longest runs that are decoded as one
    length: int64_t = 0
    codes: cython.pointer[uint8_t]
    text: cython.pointer[cython.const[uint8_t]]
    table: cython.pointer[cython.const[uint8_t]]
    first_start: cython.pointer[cython.const[int64_t]]
    first_end: cython.pointer[cython.const[int64_t]]
    _set_text_rules(cython.address(text_rules))
    if (
        not _start_pieces(
            cython.address(pieces), min_bytes, decoded, byte_starts, byte_ends, piece_ends
        )
        or starts.shape[0] == 0
    ):
        return 0, 0
    text, table = cython.address(data[0]), cython.address(values[0])
    first_start, first_end = cython.address(starts[0]), cython.address(ends[0])
    with cython.nogil:
        for run in range(starts.shape[0]):
            length = (length if continues[run] else 0) + ends[run] - starts[run]
            code_count = max(code_count, length)
        codes = cython.cast(cython.pointer[uint8_t], malloc(code_count + 8))
    if not codes:
        raise MemoryError
    with cython.nogil:
        while low < starts.shape[0]:
            high = low + 1
            while high < starts.shape[0] and continues[high]:
                high += 1
            _decode_alignments(
                text,
                first_start,
                first_end,
                low,
                high,
                table,
                bits,
                alignment_count,
                rules,
                codes,
                cython.address(pieces),
            )
            for run in range(low, high if high > low + 1 else low):
                if ends[run] - starts[run] >= min_alone:
                    _decode_alignments(
                        text,
                        first_start,
                        first_end,
                        run,
                        run + 1,
                        table,
                        bits,
                        alignment_count,
                        rules,
                        codes,
                        cython.address(pieces),
                    )
            low = high
        free(codes)
    return pieces.count, pieces.size


def find_digit_rows(
    data: cython.const[uint8_t][::1],
    offsets: cython.const[int64_t][::1],
    is_number_byte: cython.const[uint8_t][::1],
    min_digits: int64_t,
    digit_positions: int64_t[::1],
    row_ends: int64_t[::1],
):
    """Writes the positions of the digits of each row, and where each row ends among them; returns
    how many rows and digits there are.

    A row has `min_digits` digits or more, each at most four bytes behind the last one, with
    separators between them: the other members of `is_number_byte`.
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
                position = _find_run(
                    cython.address(data[0]),
                    position,
                    text_end,
                    cython.address(is_number_byte[0]),
                    min_digits,
                )
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
