"""Words of a column: where they are, their hashes, the flags that a lexicon has for them, and how
they are written and joined.

A hash is not keyed: anybody can compute it, and find words of one hash. `seed` and `base` are
parameters of the hash, 64 bits each.
"""

import cython
from cython.cimports.libc.stdint import int32_t, int64_t, uint8_t, uint64_t
from cython.cimports.libc.string import memcpy


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _mix_bits(number: uint64_t) -> uint64_t:
    """The finalizer of MurmurHash3 (Appleby), a bijection."""
    number = (number ^ (number >> 33)) * cython.cast(uint64_t, 0xFF51AFD7ED558CCD)
    number = (number ^ (number >> 33)) * cython.cast(uint64_t, 0xC4CEB9FE1A85EC53)
    return number ^ (number >> 33)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _read_block(
    place: cython.pointer[cython.const[uint8_t]], size: int64_t, readable: int64_t
) -> uint64_t:
    """The first eight of `size` bytes as a number, the first byte the lowest; bytes that are
    missing are 0.

    At least `size` bytes, and `readable` bytes, may be read. Little-endian machines only, as Arrow.
    """
    block: uint64_t = 0
    if size <= 0:
        return 0
    if readable < 8:
        memcpy(cython.address(block), place, size)
        return block
    memcpy(cython.address(block), place, 8)
    if size < 8:
        block &= (cython.cast(uint64_t, 1) << (8 * size)) - 1
    return block


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _fold_block(block: uint64_t) -> uint64_t:
    """Eight word bytes (ASCII letters, digits, bytes beyond ASCII, or 0) with the letters in lower
    case.

    Of these bytes, the letters are those with bit 6 and without bit 7; bit 5 is set in lower case.
    """
    bit_6: uint64_t = (block & cython.cast(uint64_t, 0x4040404040404040)) >> 1
    bit_7: uint64_t = (block & cython.cast(uint64_t, 0x8080808080808080)) >> 2
    return block | (bit_6 & ~bit_7)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _hash_word(
    word: cython.pointer[cython.const[uint8_t]],
    size: int64_t,
    readable: int64_t,
    salt: uint64_t,
    base: uint64_t,
    is_folded: cython.bint,
) -> uint64_t:
    """The hash of a word, eight bytes at a time; of its lower case where the bytes are not folded
    yet."""
    block: uint64_t = _read_block(word, size, readable)
    done: int64_t = 8
    number: uint64_t = _mix_bits(size * base + salt + (block if is_folded else _fold_block(block)))
    while done < size:
        block = _read_block(word + done, size - done, readable - done)
        number = _mix_bits(number ^ (block if is_folded else _fold_block(block))) * base + done
        done += 8
    return number


def hash_words(
    data: cython.const[uint8_t][::1],
    starts: cython.const[int64_t][::1],
    ends: cython.const[int64_t][::1],
    seed: uint64_t,
    base: uint64_t,
    hashes: uint64_t[::1],
):
    """Writes a hash of data[starts[i]:ends[i]] to hashes[i]."""
    salt: uint64_t = _mix_bits(seed)
    data_size: int64_t = data.shape[0]
    first: cython.pointer[cython.const[uint8_t]] = cython.NULL
    row: cython.Py_ssize_t
    if data_size > 0:
        first = cython.address(data[0])
    with cython.nogil:
        for row in range(hashes.shape[0]):
            hashes[row] = _hash_word(
                first + starts[row],
                ends[row] - starts[row],
                data_size - starts[row],
                salt,
                base,
                True,
            )


def find_words(
    data: cython.const[uint8_t][::1],
    offsets: cython.const[int64_t][::1],
    word_bytes: cython.const[uint8_t][::1],
    seed: uint64_t,
    base: uint64_t,
    text_nos: int32_t[::1],
    starts: int64_t[::1],
    ends: int64_t[::1],
    hashes: uint64_t[::1],
    is_wide: uint8_t[::1],
) -> int:
    """Writes the words of all texts: longest runs of bytes whose entry in `word_bytes` (256) is not
    0, within one text, with the hash of their lower case, and whether they have a byte beyond
    ASCII. Returns their number.

    Words beyond the size of the outputs are counted only.

    `word_bytes` selects among ASCII letters, digits, and bytes beyond ASCII, which have no lower
    case.
    """
    salt: uint64_t = _mix_bits(seed)
    data_size: int64_t = data.shape[0]
    capacity: int64_t = starts.shape[0]
    count: int64_t = 0
    position: int64_t
    start: int64_t
    text_end: int64_t
    seen: uint8_t
    text: cython.Py_ssize_t
    if data_size == 0:
        return 0
    first: cython.pointer[cython.const[uint8_t]] = cython.address(data[0])
    is_word: cython.pointer[cython.const[uint8_t]] = cython.address(word_bytes[0])
    with cython.nogil:
        for text in range(offsets.shape[0] - 1):
            position, text_end = offsets[text], offsets[text + 1]
            while True:
                while position < text_end and not is_word[first[position]]:
                    position += 1
                if position >= text_end:
                    break
                start = position
                seen = 0
                while position < text_end and is_word[first[position]]:
                    seen |= first[position]
                    position += 1
                if count < capacity:
                    text_nos[count], starts[count], ends[count] = (
                        cython.cast(int32_t, text),
                        start,
                        position,
                    )
                    hashes[count] = _hash_word(
                        first + start, position - start, data_size - start, salt, base, False
                    )
                    is_wide[count] = seen >> 7
                count += 1
    return count


def replace_runs(
    text_nos: cython.const[int32_t][::1],
    starts: cython.const[int64_t][::1],
    ends: cython.const[int64_t][::1],
    hashes: cython.const[uint64_t][::1],
    replaced: cython.const[int64_t][::1],
    word_counts: cython.const[int64_t][::1],
    first_words: cython.const[int64_t][::1],
    word_offsets: cython.const[int64_t][::1],
    word_lengths: cython.const[int64_t][::1],
    word_hashes: cython.const[uint64_t][::1],
    new_text_nos: int32_t[::1],
    new_starts: int64_t[::1],
    new_ends: int64_t[::1],
    new_hashes: uint64_t[::1],
):
    """Copies runs to the new arrays, of which some, in the rows `replaced` (ascending), are
    replaced by word_counts[i] words each.

    These are the words from row first_words[i]; word_offsets has where each begins in its run. The
    new arrays have exactly the needed size.
    """
    run: cython.Py_ssize_t
    next_replaced: cython.Py_ssize_t = 0
    count: cython.Py_ssize_t = 0
    word: int64_t
    with cython.nogil:
        for run in range(starts.shape[0]):
            if next_replaced < replaced.shape[0] and replaced[next_replaced] == run:
                for word in range(
                    first_words[next_replaced],
                    first_words[next_replaced] + word_counts[next_replaced],
                ):
                    new_text_nos[count] = text_nos[run]
                    new_starts[count] = starts[run] + word_offsets[word]
                    new_ends[count] = new_starts[count] + word_lengths[word]
                    new_hashes[count] = word_hashes[word]
                    count += 1
                next_replaced += 1
            else:
                new_text_nos[count], new_starts[count], new_ends[count] = (
                    text_nos[run],
                    starts[run],
                    ends[run],
                )
                new_hashes[count] = hashes[run]
                count += 1


def lookup_flags(
    hashes: cython.const[uint64_t][::1],
    slots: cython.const[int32_t][:, ::1],
    slot_bits: cython.int,
    entry_hashes: cython.const[uint64_t][::1],
    entry_flags: cython.const[int32_t][::1],
    flags: int32_t[::1],
):
    """Writes the flags of the entry with each hash, 0 where there is none.

    Each row of `slots` is a table of entries (0: none) by `slot_bits` bits of the hash, the lowest
    in the first row, the next ones in the second. An entry is in the first row in which no entry
    before it has its place.
    """
    number: uint64_t
    mask: uint64_t = (cython.cast(uint64_t, 1) << slot_bits) - 1
    entry: int32_t
    table: cython.Py_ssize_t
    row: cython.Py_ssize_t
    with cython.nogil:
        for row in range(hashes.shape[0]):
            number = hashes[row]
            flags[row] = 0
            for table in range(slots.shape[0]):
                entry = slots[
                    table, cython.cast(cython.Py_ssize_t, (number >> (slot_bits * table)) & mask)
                ]
                if entry == 0:
                    break
                if entry_hashes[entry] == number:
                    flags[row] = entry_flags[entry]
                    break


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_upper(byte: uint8_t) -> cython.bint:
    return cython.cast(uint8_t, byte - 65) < 26


def describe_words(
    data: cython.const[uint8_t][::1],
    offsets: cython.const[int64_t][::1],
    text_nos: cython.const[int32_t][::1],
    starts: cython.const[int64_t][::1],
    ends: cython.const[int64_t][::1],
    flags: cython.const[int32_t][::1],
    title_flag: int32_t,
    is_capitalized: uint8_t[::1],
    is_initial: uint8_t[::1],
    is_uppercase: uint8_t[::1],
    is_lowercase: uint8_t[::1],
    has_digit: uint8_t[::1],
    is_line_start: uint8_t[::1],
    has_next: uint8_t[::1],
    is_joined: uint8_t[::1],
    is_tightly_joined: uint8_t[::1],
    has_blank_after: uint8_t[::1],
    next_bytes: uint8_t[::1],
    gap_sizes: uint8_t[::1],
    sizes: uint8_t[::1],
):
    """Writes the properties of words, which are in order and not empty.

    is_capitalized      begins with a capital; an input for words that begin with a byte beyond
                        ASCII
    is_initial          a capital by itself, of one byte or two
    is_uppercase        the first two letters and the last one are capitals of ASCII
    is_lowercase        begins with a small letter of ASCII
    has_digit           has a digit of ASCII
    is_line_start       the first word of its line
    has_next            not the last word of its text; the others are 0 for that one
    is_joined           to the next word: by one blank, tightly, by a dot and a blank after an
                        initial or a title, by a dot after an initial
    is_tightly_joined   by `-` or `'`, or by a character of three bytes that begins with E2, such as
                        an apostrophe or a dash
    has_blank_after     one blank separates it from the next word
    next_bytes          the byte after it, 0 at the end of its text
    gap_sizes           the number of bytes between it and the next word, at most 255
    sizes               the number of its bytes, at most 255
    """
    word_count: cython.Py_ssize_t = starts.shape[0]
    row: cython.Py_ssize_t
    position: int64_t
    start: int64_t
    end: int64_t
    gap: int64_t
    head: uint8_t
    byte: uint8_t
    before_next: cython.bint
    blank: cython.bint
    tight: cython.bint
    dot: cython.bint
    found: uint8_t
    with cython.nogil:
        for row in range(word_count):
            start, end = starts[row], ends[row]
            head = data[start]
            if head < 128:
                is_capitalized[row] = _is_upper(head)
            is_initial[row] = is_capitalized[row] and (
                end - start == 1 or (end - start == 2 and head >= 0xC3)
            )
            is_uppercase[row] = (
                end - start > 1
                and _is_upper(head)
                and _is_upper(data[start + 1])
                and _is_upper(data[end - 1])
            )
            is_lowercase[row] = 97 <= head <= 122
            found = 0
            for position in range(start, end):
                found |= cython.cast(uint8_t, data[position] - 48) < 10
            has_digit[row] = found
            found = row == 0 or text_nos[row - 1] != text_nos[row]
            if not found:
                for position in range(ends[row - 1], start):
                    found |= data[position] == 10
            is_line_start[row] = found
            before_next = row + 1 < word_count and text_nos[row + 1] == text_nos[row]
            gap = starts[row + 1] - end if before_next else 0
            byte = data[end] if end < offsets[text_nos[row] + 1] else 0
            blank = gap == 1 and byte == 32
            tight = (gap == 1 and (byte == 45 or byte == 39)) or (gap == 3 and byte == 0xE2)
            if is_initial[row]:
                dot = byte == 46 and (gap == 1 or (gap == 2 and data[end + 1] == 32))
            else:
                dot = (
                    byte == 46
                    and gap == 2
                    and data[end + 1] == 32
                    and (flags[row] & title_flag) != 0
                )
            has_next[row], has_blank_after[row], is_tightly_joined[row], is_joined[row] = (
                before_next,
                blank,
                tight,
                blank or tight or dot,
            )
            next_bytes[row] = byte
            gap_sizes[row] = 255 if gap > 255 else cython.cast(uint8_t, gap)
            sizes[row] = 255 if end - start > 255 else cython.cast(uint8_t, end - start)
