"""A linear tagger of names of people: the words of texts, their features, the labels of a run of
words, and the training of its weights.

A word is a longest run of letters, marks and digits. Words that may belong to a name (capitalised
ones, and particles between them) form runs; each word of a run is labelled outside (0), first word
of a name (1) or further word (2). The score of a labelling is a sum of weights: of a word's
features for its label, and of a few features of the word for the label before it and its own;
label 0 scores 0. The best labelling of a run is found by dynamic programming (Viterbi 1967), in
integers; the training maximises the likelihood of a linear chain (Lafferty, McCallum and Pereira
2001) with AdaGrad (Duchi, Hazan and Singer 2011).

Features are hashed to rows of the weights. Both sides use the same code for them. The training uses
additions, multiplications, divisions and square roots of IEEE 754 only, in a fixed order.
"""

import cython
from cython.cimports.libc.math import sqrt
from cython.cimports.libc.stdint import (
    int8_t,
    int32_t,
    int64_t,
    uint8_t,
    uint16_t,
    uint32_t,
    uint64_t,
)

MAX_RUN = cython.declare(cython.int, 24)  # a longer run is cut
_MAX_FEATURES = cython.declare(cython.int, 96)
_MAX_LETTERS = cython.declare(cython.int, 16)  # of a word that features look at

# how a word is written
LOWER = cython.declare(cython.int, 0)
CAPITALISED = cython.declare(cython.int, 1)
UPPER = cython.declare(cython.int, 2)
SINGLE = cython.declare(cython.int, 3)
MIXED = cython.declare(cython.int, 4)
NUMBER = cython.declare(cython.int, 5)
CASELESS = cython.declare(cython.int, 6)
INNER_CAPITAL = cython.declare(cython.int, 7)

# what separates a word from the one before it
APART = cython.declare(cython.int, 0)
BLANK = cython.declare(cython.int, 1)
HYPHEN = cython.declare(cython.int, 2)
APOSTROPHE = cython.declare(cython.int, 3)
DOT_BLANK = cython.declare(cython.int, 4)
DOT = cython.declare(cython.int, 5)
COMMA_BLANK = cython.declare(cython.int, 6)
LINE_BREAK = cython.declare(cython.int, 7)

# classes of the characters below 0x2000
SEPARATOR = cython.declare(cython.int, 0)
LOWER_LETTER = cython.declare(cython.int, 1)
UPPER_LETTER = cython.declare(cython.int, 2)
OTHER_LETTER = cython.declare(cython.int, 3)
DIGIT = cython.declare(cython.int, 4)
_CLASSIFIED = cython.declare(cython.int, 0x2000)

# class of the words of the vocabulary that may be between two words of a name; the others are those
# of the trainer (benchmarks/person_tagger/train.py), and features only. All have the bit 128.
PARTICLE = cython.declare(cython.int, 1)

# 40 bytes; `line` is the number of words since the first one of the line
Word = cython.struct(
    start=int64_t,
    end=int64_t,
    hash=uint32_t,
    gap=uint32_t,
    text_no=int32_t,
    line=int32_t,
    shape=uint8_t,
    known=uint8_t,
    join=uint8_t,
    breaks=uint8_t,
    letters=uint8_t,
    rule=uint8_t,
    twin=uint8_t,
    candidate=uint8_t,
)
Words = cython.typedef(cython.pointer[Word])
Bytes = cython.typedef(cython.pointer[cython.const[uint8_t]])
# classes, lower-case letters and lower-case base letters of the characters below 0x2000; the
# vocabulary, a hash table with `mask + 1` slots
Tables = cython.struct(
    classes=cython.pointer[cython.const[uint8_t]],
    lowered=cython.pointer[cython.const[uint16_t]],
    folded=cython.pointer[cython.const[uint16_t]],
    hashes=cython.pointer[cython.const[uint32_t]],
    kinds=cython.pointer[cython.const[uint8_t]],
    mask=uint32_t,
)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _mix(number: uint64_t) -> uint64_t:
    """The finalizer of MurmurHash3 (Appleby), a bijection."""
    number = (number ^ (number >> 33)) * cython.cast(uint64_t, 0xFF51AFD7ED558CCD)
    number = (number ^ (number >> 33)) * cython.cast(uint64_t, 0xC4CEB9FE1A85EC53)
    return number ^ (number >> 33)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _read_character(
    data: Bytes, position: int64_t, end: int64_t, size: cython.pointer[int64_t]
) -> uint32_t:
    """The character at a position, and its number of bytes; a byte that begins no character is one
    by itself, 0xFFFD."""
    lead: uint32_t = data[position]
    size[0] = 1
    if lead < 0x80:
        return lead
    if 0xC2 <= lead < 0xE0 and position + 1 < end:
        size[0] = 2
        return (lead & 31) << 6 | (data[position + 1] & 63)
    if 0xE0 <= lead < 0xF0 and position + 2 < end:
        size[0] = 3
        return (lead & 15) << 12 | (data[position + 1] & 63) << 6 | (data[position + 2] & 63)
    if 0xF0 <= lead < 0xF5 and position + 3 < end:
        size[0] = 4
        return 0x10000
    return 0xFFFD


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _classify(character: uint32_t, tables: cython.pointer[Tables]) -> cython.int:
    if character < cython.cast(uint32_t, _CLASSIFIED):
        return tables.classes[character]
    # punctuation, symbols, full-width signs, emoji, and what is no character
    if character < 0x2C00 or 0x3000 <= character < 0x3040 or character >= 0xE000:
        return SEPARATOR
    return OTHER_LETTER


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _hash_word(
    data: Bytes, start: int64_t, end: int64_t, tables: cython.pointer[Tables]
) -> uint32_t:
    """The hash of the lower-case letters of a word; never 0. Accents count: without them, many
    short names are common words of some language."""
    number: uint64_t = 0x9E3779B97F4A7C15
    size: int64_t = 0
    character: uint32_t
    while start < end:
        character = _read_character(data, start, end, cython.address(size))
        if character < cython.cast(uint32_t, _CLASSIFIED):
            character = tables.lowered[character]
        number = (number ^ character) * cython.cast(uint64_t, 0x100000001B3)
        number ^= number >> 29
        start += size
    return cython.cast(uint32_t, _mix(number) >> 32) | 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _look_up(number: uint32_t, tables: cython.pointer[Tables]) -> uint8_t:
    slot: uint32_t = (number >> 8) & tables.mask
    while tables.hashes[slot] != 0:
        if tables.hashes[slot] == number:
            return tables.kinds[slot]
        slot = (slot + 1) & tables.mask
    return 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _find_join(
    data: Bytes, start: int64_t, end: int64_t, before: cython.pointer[Word], breaks: cython.int
) -> cython.int:
    """What the bytes between two words are."""
    size: int64_t = end - start
    first: uint8_t
    if size == 0:
        return APART
    first = data[start]
    if size == 1:
        if first == 32 or first == 9:
            return BLANK
        if first == 45:
            return HYPHEN
        if first == 39:
            return APOSTROPHE
        if first == 46 and before.shape == SINGLE:
            return DOT
        if first == 10:
            return LINE_BREAK
        return APART
    if size == 2 and data[start + 1] == 32:
        if first == 46:
            return DOT_BLANK if before.letters <= 4 else APART
        if first == 44:
            return COMMA_BLANK
        return APART
    if size == 2 and first == 13 and breaks == 1:
        return LINE_BREAK
    if size == 2 and first == 0xC2 and data[start + 1] == 0xA0:
        return BLANK
    if size == 3 and first == 0xE2 and data[start + 1] == 0x80:
        return (
            APOSTROPHE if data[start + 2] == 0x99 else HYPHEN if data[start + 2] <= 0x91 else APART
        )
    return APART


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _describe_word(
    data: Bytes, word: cython.pointer[Word], tables: cython.pointer[Tables]
) -> cython.void:
    """Sets the fields of a word that its letters say."""
    position: int64_t = word.start
    size: int64_t = 0
    character: uint32_t
    kind: cython.int
    capitals: cython.int = 0
    small: cython.int = 0
    digits: cython.int = 0
    letters: cython.int = 0
    starts_capital: cython.bint = False
    while position < word.end:
        character = _read_character(data, position, word.end, cython.address(size))
        kind = _classify(character, tables)
        if kind == UPPER_LETTER:
            starts_capital |= letters == 0
            capitals += 1
        small += kind == LOWER_LETTER
        digits += kind == DIGIT
        letters += 1
        position += size
    word.letters = letters if letters < 255 else 255
    if digits:
        word.shape = NUMBER
    elif capitals == 0:
        word.shape = LOWER if small else CASELESS
    elif small == 0:
        word.shape = SINGLE if letters == 1 else UPPER
    elif starts_capital:
        word.shape = CAPITALISED if capitals == 1 else MIXED
    else:
        word.shape = INNER_CAPITAL
    word.hash = _hash_word(data, word.start, word.end, tables)
    word.known = _look_up(word.hash, tables)
    word.rule = 0
    word.twin = 0
    word.candidate = 0


def hash_vocabulary(
    data: cython.const[uint8_t][::1],
    offsets: cython.const[int64_t][::1],
    classes: cython.const[uint8_t][::1],
    lowered: cython.const[uint16_t][::1],
    folded: cython.const[uint16_t][::1],
    hashes: uint32_t[::1],
):
    """Writes the hash of each text, a word, to `hashes`."""
    tables: Tables
    row: cython.Py_ssize_t
    tables.classes, tables.lowered = cython.address(classes[0]), cython.address(lowered[0])
    tables.folded = cython.address(folded[0])
    for row in range(hashes.shape[0]):
        hashes[row] = _hash_word(
            cython.address(data[0]), offsets[row], offsets[row + 1], cython.address(tables)
        )


def split_words(
    data: cython.const[uint8_t][::1],
    offsets: cython.const[int64_t][::1],
    classes: cython.const[uint8_t][::1],
    lowered: cython.const[uint16_t][::1],
    folded: cython.const[uint16_t][::1],
    vocabulary: cython.const[uint32_t][::1],
    vocabulary_kinds: cython.const[uint8_t][::1],
    words: uint8_t[::1],
) -> int:
    """Writes the words of all texts to `words`, as structs `Word`; returns their number.

    Words beyond the size of `words` are counted only. The vocabulary is a hash table: hashes, 0 in
    free slots, and classes.
    """
    tables: Tables
    capacity: int64_t = words.shape[0] // cython.sizeof(Word)
    count: int64_t = 0
    line_start: int64_t
    text_start: int64_t
    position: int64_t
    text_end: int64_t
    gap_start: int64_t
    size: int64_t = 0
    character: uint32_t
    gap: uint64_t
    gap_signs: cython.int
    breaks: cython.int
    text: cython.Py_ssize_t
    word: cython.pointer[Word]
    if data.shape[0] == 0:
        return 0
    first: Bytes = cython.address(data[0])
    out: Words = cython.NULL
    spare: Word
    if capacity:
        out = cython.cast(Words, cython.address(words[0]))
    tables.classes, tables.lowered = cython.address(classes[0]), cython.address(lowered[0])
    tables.folded = cython.address(folded[0])
    tables.hashes, tables.kinds = cython.address(vocabulary[0]), cython.address(vocabulary_kinds[0])
    tables.mask = vocabulary.shape[0] - 1
    with cython.nogil:
        for text in range(offsets.shape[0] - 1):
            position, text_end = offsets[text], offsets[text + 1]
            text_start = line_start = count
            while True:
                gap_start, gap, gap_signs, breaks = position, 7, 0, 0
                while position < text_end:
                    character = _read_character(first, position, text_end, cython.address(size))
                    if _classify(character, cython.address(tables)) != SEPARATOR:
                        break
                    if character == 10:
                        breaks += breaks < 3
                    if gap_signs < 4 and character != 13:
                        gap = gap * 31 + character
                        gap_signs += 1
                    position += size
                if position >= text_end:
                    break
                word = out + count if count < capacity else cython.address(spare)
                word.start = position
                while position < text_end:
                    character = _read_character(first, position, text_end, cython.address(size))
                    if _classify(character, cython.address(tables)) == SEPARATOR:
                        break
                    position += size
                word.end = position
                if count < capacity:
                    if breaks or count == text_start:
                        line_start = count
                    word.text_no = cython.cast(int32_t, text)
                    word.line = cython.cast(int32_t, count - line_start)
                    word.gap = cython.cast(uint32_t, _mix(gap)) & 0xFFFF
                    word.breaks = breaks if count > text_start else 3
                    _describe_word(first, word, cython.address(tables))
                    word.join = APART
                    if count > text_start:
                        word.join = _find_join(first, gap_start, word.start, word - 1, breaks)
                count += 1
    return count


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _may_be_in_name(word: cython.pointer[Word]) -> cython.bint:
    return CAPITALISED <= word.shape <= MIXED


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _continues_name(w: cython.pointer[Word], has_next: cython.bint) -> cython.bint:
    """True for a particle in a name and for what is behind its hyphen: `Ana de Souza`, `Seung-ho`.
    The word is not the first of its text."""
    if w.shape != LOWER:
        return False
    if w.join == HYPHEN:
        return (w - 1).shape == CAPITALISED and (w - 1).letters <= 6 and w.letters <= 6
    if w.join != BLANK or w.known & 127 != PARTICLE or not (w - 1).candidate or not has_next:
        return False
    return (w + 1).join == BLANK or (w + 1).join == HYPHEN or (w + 1).join == APOSTROPHE


def find_runs(
    words: uint8_t[::1],
    count: cython.Py_ssize_t,
    rule_starts: cython.const[int64_t][::1],
    rule_ends: cython.const[int64_t][::1],
    twins: uint32_t[::1],
    run_starts: int64_t[::1],
    run_sizes: int32_t[::1],
) -> int:
    """Marks the words of spans that rules found (ascending, disjoint) and the words that their text
    has in lower case as well, and writes the runs of words that may be names; returns the number of
    runs. What is written for a text depends on this text alone.

    `twins` has a power of two of slots, all 0 before and after.
    """
    word: Words = cython.cast(Words, cython.address(words[0])) if count else cython.NULL
    row: cython.Py_ssize_t
    first: cython.Py_ssize_t = 0
    last: cython.Py_ssize_t
    rule: cython.Py_ssize_t = 0
    runs: cython.Py_ssize_t = 0
    mask: uint32_t = twins.shape[0] - 1
    run_size: int32_t
    with cython.nogil:
        while first < count:
            last = first
            while last < count and word[last].text_no == word[first].text_no:
                while rule < rule_starts.shape[0] and rule_ends[rule] <= word[last].start:
                    rule += 1
                if rule < rule_starts.shape[0] and rule_starts[rule] < word[last].end:
                    word[last].rule = (
                        1 if word[last].start <= rule_starts[rule] or last == first else 2
                    )
                if word[last].shape == LOWER:
                    twins[word[last].hash & mask] = word[last].hash
                last += 1
            run_size = 0
            for row in range(first, last):
                word[row].candidate = _may_be_in_name(word + row) or (
                    row > first and _continues_name(word + row, row + 1 < last)
                )
                if not word[row].candidate:
                    run_size = 0
                    continue
                word[row].twin = twins[word[row].hash & mask] == word[row].hash
                if run_size == 0 or run_size >= MAX_RUN or word[row].join == APART:
                    run_starts[runs] = row
                    runs += 1
                    run_size = 0
                run_size += 1
                run_sizes[runs - 1] = run_size
            for row in range(first, last):
                if word[row].shape == LOWER:
                    twins[word[row].hash & mask] = 0
            first = last
    return runs


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _identify(word: cython.pointer[Word]) -> uint64_t:
    """A number of a word of the vocabulary; of other words, of how they are written only."""
    if word.known:
        return word.hash
    return 2 * (word.shape * 4 + (0 if word.letters < 3 else 1 if word.letters < 6 else 2))


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _describe(word: cython.pointer[Word]) -> uint64_t:
    """How a word is written, and its class in the vocabulary: 11 bits."""
    return word.shape | cython.cast(uint64_t, word.known) << 3


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _row_of(number: cython.int, value: uint64_t, mask: uint64_t) -> uint32_t:
    """The row of the weights of a feature: template and value."""
    return cython.cast(
        uint32_t, _mix(value * cython.cast(uint64_t, 0x9E3779B97F4A7C15) + number) & mask
    )


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _list_features(
    data: Bytes,
    word: Words,
    row: int64_t,
    count: int64_t,
    tables: cython.pointer[Tables],
    mask: uint64_t,
    use_rules: cython.bint,
    out: cython.pointer[uint32_t],
) -> cython.int:
    """Writes the rows of the features of a word for its label; returns their number."""
    k: cython.int = 0
    w: cython.pointer[Word] = word + row
    me: uint64_t = _describe(w)
    absent: uint64_t = 0xFFFF
    left: uint64_t = absent
    right: uint64_t = absent
    left_2: uint64_t = absent
    right_2: uint64_t = absent
    left_word: uint64_t = 1
    right_word: uint64_t = 1
    left_word_2: uint64_t = 1
    right_word_2: uint64_t = 1
    gap_right: uint64_t = 0x1FFFF
    gap_left: uint64_t = w.gap if row > 0 and word[row - 1].text_no == w.text_no else 0x1FFFE
    rules: uint64_t = w.rule
    last_of_line: uint64_t = 1
    length: uint64_t = w.letters if w.letters < 14 else 14
    shape: uint64_t = w.shape
    begins: uint64_t
    position: int64_t
    size: int64_t = 0
    letters: uint32_t[16]
    n: cython.int = 0
    at: cython.int
    character: uint32_t
    head: cython.pointer[Word]
    value: uint64_t
    if row > 0 and word[row - 1].text_no == w.text_no:
        left, left_word = _describe(w - 1), _identify(w - 1)
        rules |= cython.cast(uint64_t, word[row - 1].rule) << 2
        if row > 1 and word[row - 2].text_no == w.text_no:
            left_2, left_word_2 = _describe(w - 2), _identify(w - 2)
    if row + 1 < count and word[row + 1].text_no == w.text_no:
        right, right_word, gap_right = _describe(w + 1), _identify(w + 1), word[row + 1].gap
        rules |= cython.cast(uint64_t, word[row + 1].rule) << 4
        last_of_line = word[row + 1].breaks > 0
        if row + 2 < count and word[row + 2].text_no == w.text_no:
            right_2, right_word_2 = _describe(w + 2), _identify(w + 2)
    # a word begins a sentence after a break of the line or a sign that ends one
    begins = w.line == 0
    if not begins and w.join == APART:
        for position in range(word[row - 1].end, w.start):
            if data[position] == 46 or data[position] == 33 or data[position] == 63:
                begins = 1
    out[0] = _row_of(1, me, mask)
    out[1] = _row_of(2, shape << 4 | length, mask)
    out[2] = _row_of(3, _identify(w), mask)
    out[3] = _row_of(4, left_word, mask)
    out[4] = _row_of(5, right_word, mask)
    out[5] = _row_of(6, left_word_2, mask)
    out[6] = _row_of(7, right_word_2, mask)
    out[7] = _row_of(8, gap_left << 3 | shape, mask)
    out[8] = _row_of(9, gap_right << 3 | shape, mask)
    out[9] = _row_of(10, left_word << 17 ^ gap_left, mask)
    out[10] = _row_of(11, right_word << 17 ^ gap_right, mask)
    out[11] = _row_of(12, left_word << 32 ^ left_word_2, mask)
    out[12] = _row_of(13, right_word << 32 ^ right_word_2, mask)
    out[13] = _row_of(14, (me << 16 | left) << 17 ^ gap_left, mask)
    out[14] = _row_of(15, (me << 16 | right) << 17 ^ gap_right, mask)
    out[15] = _row_of(16, (me << 16 | left) << 16 | right, mask)
    out[16] = _row_of(17, left_word << 11 ^ me, mask)
    out[17] = _row_of(18, right_word << 11 ^ me, mask)
    out[18] = _row_of(19, (me << 1 | w.twin) << 1 | begins, mask)
    out[19] = _row_of(20, (left_2 << 16 | left) << 3 | shape, mask)
    out[20] = _row_of(21, (right_2 << 16 | right) << 3 | shape, mask)
    out[21] = _row_of(
        22,
        ((cython.cast(uint64_t, w.line if w.line < 4 else 4) << 2 | w.breaks) << 1 | last_of_line)
        << 3
        | shape,
        mask,
    )
    head = w - w.line
    value = _identify(head) << 1
    if w.line > 0 and data[head.end] == 58:
        value |= 1
    out[22] = _row_of(23, value, mask)
    out[23] = _row_of(24, (gap_left << 17 | gap_right) << 3 | shape, mask)
    out[24] = _row_of(25, (left_word << 13 ^ right_word) << 1 | 1, mask)
    k = 25
    if use_rules:
        out[k] = _row_of(40, rules, mask)
        out[k + 1] = _row_of(41, (rules & 3) << 11 | me, mask)
        out[k + 2] = _row_of(42, rules << 3 | shape, mask)
        k += 3
    # letters, without case and accents, a sign of the beginning and one of the end around them
    letters[0] = 94
    n = 1
    position = w.start
    while position < w.end and n < _MAX_LETTERS - 1:
        character = _read_character(data, position, w.end, cython.address(size))
        if character < cython.cast(uint32_t, _CLASSIFIED):
            character = tables.folded[character]
        letters[n] = character & 0xFFF
        n += 1
        position += size
    if position >= w.end:
        letters[n] = 36
        n += 1
    for at in range(2, n):
        value = cython.cast(uint64_t, letters[at - 2]) << 24 | letters[at - 1] << 12 | letters[at]
        out[k] = _row_of(26, value, mask)
        k += 1
    if n >= 5:
        value = cython.cast(uint64_t, letters[1]) << 36 | cython.cast(uint64_t, letters[2]) << 24
        out[k] = _row_of(27, value | letters[3] << 12 | letters[4], mask)
        value = (
            cython.cast(uint64_t, letters[n - 4]) << 36
            | cython.cast(uint64_t, letters[n - 3]) << 24
        )
        out[k + 1] = _row_of(28, value | letters[n - 2] << 12 | letters[n - 1], mask)
        k += 2
    if n >= 4:
        value = letters[n - 3] << 12 | letters[n - 2]
        out[k] = _row_of(29, (value << 3 | shape) << 2 | (n > 8), mask)
        k += 1
    return k


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _list_transitions(
    word: Words,
    row: int64_t,
    count: int64_t,
    before: uint64_t,
    mask: uint64_t,
    out: cython.pointer[uint32_t],
) -> cython.int:
    """Writes the rows of the features of a word and of the label before it (3 at the beginning of a
    run) for its label; returns their number."""
    w: cython.pointer[Word] = word + row
    me: uint64_t = _describe(w)
    left: uint64_t = _describe(w - 1) if before < 3 else 0xFFFF
    right: uint64_t = 0xFFFF
    join_right: uint64_t = 0
    if row + 1 < count and word[row + 1].text_no == w.text_no:
        right, join_right = _describe(w + 1), word[row + 1].join
    before |= cython.cast(uint64_t, w.join) << 2
    out[0] = _row_of(50, before, mask)
    out[1] = _row_of(51, before << 11 | me, mask)
    out[2] = _row_of(52, before << 32 | me << 16 | left, mask)
    out[3] = _row_of(53, before << 40 | me << 20 | right << 3 | join_right, mask)
    out[4] = _row_of(54, (before << 4 | (w.letters if w.letters < 14 else 14)) << 3 | w.shape, mask)
    out[5] = _row_of(55, (before << 2 | w.rule) << 3 | w.shape, mask)
    return 6


def tag_words(
    data: cython.const[uint8_t][::1],
    words: cython.const[uint8_t][::1],
    count: cython.Py_ssize_t,
    run_starts: cython.const[int64_t][::1],
    run_sizes: cython.const[int32_t][::1],
    classes: cython.const[uint8_t][::1],
    lowered: cython.const[uint16_t][::1],
    folded: cython.const[uint16_t][::1],
    weights: cython.const[int8_t][:, ::1],
    outside_bonus: cython.int,
    use_rules: cython.bint,
    starts: int64_t[::1],
    ends: int64_t[::1],
    margins: int32_t[::1],
) -> int:
    """Writes the names of all runs: start byte, end byte, and the score of its labels over that of
    the label 0 for all of its words; returns their number.

    `weights` has a power of two of rows, with the weights of the labels 1 and 2. `outside_bonus` is
    the score of label 0. The arrays have a place for every word of a run.
    """
    tables: Tables
    word: Words = cython.cast(Words, cython.address(words[0])) if count else cython.NULL
    mask: uint64_t = weights.shape[0] - 1
    rows: uint32_t[96]
    score: int32_t[3][24]
    step: int32_t[3][4][24]
    best: int32_t[3][24]
    came: int8_t[3][24]
    label: int8_t[24]
    run: cython.Py_ssize_t
    first: int64_t
    size: cython.int
    at: cython.int
    y: cython.int
    p: cython.int
    k: cython.int
    j: cython.int
    value: int32_t
    found: cython.Py_ssize_t = 0
    tables.classes, tables.lowered = cython.address(classes[0]), cython.address(lowered[0])
    tables.folded = cython.address(folded[0])
    with cython.nogil:
        for run in range(run_starts.shape[0]):
            first, size = run_starts[run], run_sizes[run]
            for at in range(size):
                k = _list_features(
                    cython.address(data[0]), word, first + at, count, cython.address(tables), mask,
                    use_rules, rows,
                )  # fmt: skip
                score[at][0], score[at][1], score[at][2] = outside_bonus, 0, 0
                for j in range(k):
                    score[at][1] += weights[rows[j], 0]
                    score[at][2] += weights[rows[j], 1]
                for p in range(4):
                    step[at][p][0] = step[at][p][1] = step[at][p][2] = 0
                    if (p == 3) != (at == 0):
                        continue
                    k = _list_transitions(word, first + at, count, p, mask, rows)
                    for j in range(k):
                        step[at][p][1] += weights[rows[j], 0]
                        step[at][p][2] += weights[rows[j], 1]
                for y in range(3):
                    if at == 0:
                        best[at][y] = score[at][y] + step[at][3][y] if y < 2 else -(1 << 28)
                        continue
                    best[at][y], came[at][y] = -(1 << 29), 0
                    for p in range(3):
                        if y == 2 and p == 0:
                            continue
                        value = best[at - 1][p] + step[at][p][y] + score[at][y]
                        if value > best[at][y]:
                            best[at][y], came[at][y] = value, p
            y = 0
            for p in range(1, 3):
                if best[size - 1][p] > best[size - 1][y]:
                    y = p
            for at in range(size - 1, -1, -1):
                label[at] = y
                y = came[at][y]
            for at in range(size):
                y = label[at]
                if y == 0:
                    continue
                p = label[at - 1] if at else 3
                value = score[at][y] + step[at][p][y] - score[at][0]
                if y == 1:
                    starts[found], margins[found] = word[first + at].start, value
                    found += 1
                else:
                    margins[found - 1] += value
                ends[found - 1] = word[first + at].end
    return found


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _exponential(x: cython.double) -> cython.double:
    """About exp(x), for x <= 0: (1 + x / 1024) ** 1024. The same on every machine, unlike exp."""
    if x < -40:
        return 0
    x = 1 + x / 1024
    for _ in range(10):
        x *= x
    return x


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _normalise(values: cython.pointer[cython.double]) -> cython.void:
    """Divides three probabilities by their sum."""
    total: cython.double = values[0] + values[1] + values[2]
    values[0] /= total
    values[1] /= total
    values[2] /= total


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _update(
    rows: cython.pointer[uint32_t],
    k: cython.int,
    gradient_1: cython.double,
    gradient_2: cython.double,
    weights: cython.double[:, ::1],
    squares: cython.double[:, ::1],
    rate: cython.double,
    decay: cython.double,
) -> cython.void:
    """One step of AdaGrad for the features of a word."""
    j: cython.int
    q: uint32_t
    g: cython.double
    for j in range(k):
        q = rows[j]
        g = gradient_1 + decay * weights[q, 0]
        squares[q, 0] += g * g
        weights[q, 0] -= rate * g / sqrt(squares[q, 0])
        g = gradient_2 + decay * weights[q, 1]
        squares[q, 1] += g * g
        weights[q, 1] -= rate * g / sqrt(squares[q, 1])


def train_pass(
    data: cython.const[uint8_t][::1],
    words: uint8_t[::1],
    count: cython.Py_ssize_t,
    run_starts: cython.const[int64_t][::1],
    run_sizes: cython.const[int32_t][::1],
    order: cython.const[int64_t][::1],
    labels: cython.const[int8_t][::1],
    classes: cython.const[uint8_t][::1],
    lowered: cython.const[uint16_t][::1],
    folded: cython.const[uint16_t][::1],
    weights: cython.double[:, ::1],
    squares: cython.double[:, ::1],
    rate: cython.double,
    decay: cython.double,
    keep: cython.double,
    use_rules: cython.bint,
    seed: uint64_t,
):
    """One pass over the runs, in `order`: a step of AdaGrad for each, towards the likelihood of its
    labels (one for each word). Each feature is used with the probability `keep`.
    """
    tables: Tables
    word: Words = cython.cast(Words, cython.address(words[0]))
    mask: uint64_t = weights.shape[0] - 1
    rows: uint32_t[96][24]
    row_counts: cython.int[24]
    step_rows: uint32_t[8][4][24]
    score: cython.double[3][24]
    step: cython.double[3][4][24]
    forward: cython.double[3][24]
    backward: cython.double[3][24]
    pair: cython.double[3][4]
    single: cython.double[3]
    state: uint64_t = seed
    limit: uint64_t = cython.cast(uint64_t, keep * 65536)
    scale: cython.double = 1 / keep
    top: cython.double
    total: cython.double
    number: cython.Py_ssize_t
    run: int64_t
    first: int64_t
    size: cython.int
    at: cython.int
    y: cython.int
    p: cython.int
    k: cython.int
    j: cython.int
    kept: cython.int
    gold: cython.int
    before: cython.int
    tables.classes, tables.lowered = cython.address(classes[0]), cython.address(lowered[0])
    tables.folded = cython.address(folded[0])
    with cython.nogil:
        for number in range(order.shape[0]):
            run = order[number]
            first, size = run_starts[run], run_sizes[run]
            for at in range(size):
                k = _list_features(
                    cython.address(data[0]), word, first + at, count, cython.address(tables), mask,
                    use_rules, rows[at],
                )  # fmt: skip
                kept = 0
                score[at][0] = score[at][1] = score[at][2] = 0
                for j in range(k):
                    state = state * cython.cast(uint64_t, 6364136223846793005) + cython.cast(
                        uint64_t, 1442695040888963407
                    )
                    if (state >> 40) & 65535 < limit:
                        rows[at][kept] = rows[at][j]
                        kept += 1
                row_counts[at] = kept
                for j in range(kept):
                    score[at][1] += weights[rows[at][j], 0]
                    score[at][2] += weights[rows[at][j], 1]
                score[at][1] *= scale
                score[at][2] *= scale
                for p in range(4):
                    step[at][p][0] = step[at][p][1] = step[at][p][2] = 0
                    if (p == 3) != (at == 0):
                        continue
                    k = _list_transitions(word, first + at, count, p, mask, step_rows[at][p])
                    for j in range(k):
                        step[at][p][1] += weights[step_rows[at][p][j], 0]
                        step[at][p][2] += weights[step_rows[at][p][j], 1]
            # probabilities: step[at][p][y] becomes exp(step + score - the largest)
            for at in range(size):
                top = 0
                for p in range(4):
                    if (p == 3) != (at == 0):
                        continue
                    for y in range(1, 3):
                        if y == 2 and (p == 0 or p == 3):
                            continue
                        top = max(top, step[at][p][y] + score[at][y])
                for p in range(4):
                    for y in range(3):
                        if (p == 3) != (at == 0) or (y == 2 and (p == 0 or p == 3)):
                            step[at][p][y] = 0
                        else:
                            step[at][p][y] = _exponential(
                                step[at][p][y] + score[at][y] - top if y else -top
                            )
            for at in range(size):
                for y in range(3):
                    forward[at][y] = step[at][3][y] if at == 0 else 0
                    if at:
                        for p in range(3):
                            forward[at][y] += forward[at - 1][p] * step[at][p][y]
                    forward[at][y] += 1e-30
                _normalise(forward[at])
            for at in range(size - 1, -1, -1):
                for p in range(3):
                    backward[at][p] = 1
                    if at + 1 < size:
                        backward[at][p] = 1e-30
                        for y in range(3):
                            backward[at][p] += step[at + 1][p][y] * backward[at + 1][y]
                _normalise(backward[at])
            for at in range(size):
                gold = labels[first + at]
                before = labels[first + at - 1] if at else 3
                total = 0
                for p in range(4):
                    for y in range(3):
                        pair[p][y] = step[at][p][y] * backward[at][y]
                        if at:
                            pair[p][y] *= forward[at - 1][p] if p < 3 else 0
                        total += pair[p][y]
                single[1] = single[2] = 0
                for p in range(4):
                    for y in range(1, 3):
                        pair[p][y] /= total + 1e-30
                        single[y] += pair[p][y]
                if abs(single[1] - (gold == 1)) + abs(single[2] - (gold == 2)) < 0.002:
                    continue
                _update(
                    rows[at], row_counts[at], single[1] - (gold == 1), single[2] - (gold == 2),
                    weights, squares, rate, decay,
                )  # fmt: skip
                for p in range(4):
                    if (p == 3) != (at == 0):
                        continue
                    _update(
                        step_rows[at][p], 6, pair[p][1] - (gold == 1 and before == p),
                        pair[p][2] - (gold == 2 and before == p), weights, squares, rate, decay,
                    )  # fmt: skip
