"""Words of texts, their hashes, flags and properties, against loops in Python."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sanitize.kernels import text_words

MASK = (1 << 64) - 1
WORD_BYTES = bytes(byte >= 128 or chr(byte).isalnum() for byte in range(256))
WORD = re.compile(rb"[0-9A-Za-z\x80-\xff]+")
# texts of bytes that have a meaning, and of any bytes
TEXTS = st.lists(
    st.lists(st.sampled_from(b"aAzZbB09 \n\r.,-'\xc3\x89\xe2\x80\x99\0"), max_size=24).map(bytes)
    | st.binary(max_size=30),
    max_size=5,
)


def mix_bits(number: int) -> int:
    for multiplier in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        number = (number ^ number >> 33) * multiplier & MASK
    return number ^ number >> 33


def reference_word_hash(word: bytes, seed: int, base: int) -> int:
    first, *further = [
        int.from_bytes(word[at : at + 8], "little") for at in range(0, len(word), 8)
    ] or [0]
    number = mix_bits((first + len(word) * base + mix_bits(seed)) & MASK)
    for count, block in enumerate(further, 1):
        number = (mix_bits(number ^ block) * base + 8 * count) & MASK
    return number


@given(st.lists(st.binary(max_size=40), max_size=8), st.integers(0, MASK), st.integers(0, MASK))
def test_words_are_hashed_as_by_the_reference(words: list[bytes], seed: int, base: int) -> None:
    data = np.frombuffer(b"".join(words) or b"-", np.uint8)
    ends = np.cumsum([len(word) for word in words], dtype=np.int64)
    starts = ends - np.array([len(word) for word in words], np.int64)
    hashes = np.empty(len(words), np.uint64)
    text_words.hash_words(data, starts, ends, seed, base, hashes)
    assert hashes.tolist() == [reference_word_hash(word, seed, base) for word in words]


def join_texts(texts: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    return np.frombuffer(b"".join(texts), np.uint8), np.cumsum(
        [0, *map(len, texts)], dtype=np.int64
    )


def list_words(texts: list[bytes]) -> list[tuple[int, int, int, bytes]]:
    """Text number, start and end in the joined texts, and bytes of each word."""
    offsets = np.cumsum([0, *map(len, texts)]).tolist()
    return [
        (text_no, offsets[text_no] + match.start(), offsets[text_no] + match.end(), match[0])
        for text_no, text in enumerate(texts)
        for match in WORD.finditer(text)
    ]


@given(TEXTS, st.integers(0, MASK), st.integers(0, MASK), st.integers(0, 20))
def test_words_are_longest_runs_of_word_bytes(
    texts: list[bytes], seed: int, base: int, capacity: int
) -> None:
    data, offsets = join_texts(texts)
    text_nos, starts, ends = (
        np.full(capacity, -1, np.int32),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int64),
    )
    hashes, is_wide = np.empty(capacity, np.uint64), np.empty(capacity, np.uint8)
    word_bytes = np.frombuffer(WORD_BYTES, np.uint8)
    count = text_words.find_words(
        data, offsets, word_bytes, seed, base, text_nos, starts, ends, hashes, is_wide
    )
    expected = [
        (text_no, start, end, reference_word_hash(word.lower(), seed, base), not word.isascii())
        for text_no, start, end, word in list_words(texts)
    ]
    assert count == len(expected)
    found = zip(
        *(column[:count].tolist() for column in (text_nos, starts, ends, hashes, is_wide)),
        strict=True,
    )
    assert list(found) == expected[:capacity]


@given(st.lists(st.tuples(st.booleans(), st.lists(st.integers(1, 9), max_size=3)), max_size=8))
def test_replaced_runs_are_their_words(runs: list[tuple[bool, list[int]]]) -> None:
    replaced = [row for row, (is_replaced, _) in enumerate(runs) if is_replaced]
    lengths = [runs[row][1] for row in replaced]
    word_lengths = np.array([length for own in lengths for length in own], np.int64)
    word_offsets, word_hashes = (
        np.arange(len(word_lengths)) * 2,
        np.arange(len(word_lengths), dtype=np.uint64) + 100,
    )
    counts = np.array([len(own) for own in lengths], np.int64)
    starts = np.arange(len(runs)) * 50
    columns = starts.astype(np.int32) // 100, starts, starts + 20, starts.astype(np.uint64)
    expected, word = list[tuple[int, ...]](), 0
    for row, (is_replaced, own) in enumerate(runs):
        text_no, start, end, number = (int(column[row]) for column in columns)
        for length in own if is_replaced else ():
            expected.append((text_no, start + 2 * word, start + 2 * word + length, 100 + word))
            word += 1
        if not is_replaced:
            expected.append((text_no, start, end, number))
    new = [np.empty(len(expected), column.dtype) for column in columns]
    text_words.replace_runs(
        *(
            *columns,
            np.array(replaced, np.int64),
            counts,
            np.cumsum(counts) - counts,
            word_offsets,
            word_lengths,
            word_hashes,
            *new,
        )
    )
    assert list(zip(*(column.tolist() for column in new), strict=True)) == expected


@given(
    st.dictionaries(st.integers(0, 40) | st.integers(0, MASK), st.integers(1, 9), max_size=12),
    st.lists(st.integers(0, 40)),
)
def test_flags_are_those_of_the_entry(entries: dict[int, int], others: list[int]) -> None:
    slot_bits, hashes = 3, [0, *entries]
    tables, left = list[np.ndarray](), list(range(1, len(hashes)))
    while left and len(tables) * slot_bits < 64:
        table = np.zeros(1 << slot_bits, np.int32)
        for entry in reversed(left):
            table[hashes[entry] >> len(tables) * slot_bits & 7] = entry
        tables.append(table)
        left = [entry for entry in left if entry not in table]
    wanted = [*entries, *others]
    flags = np.empty(len(wanted), np.int32)
    slots = np.stack(tables) if tables else np.zeros((0, 1 << slot_bits), np.int32)
    columns = (
        np.array(wanted, np.uint64),
        slots,
        slot_bits,
        np.array(hashes, np.uint64),
        np.array([0, *entries.values()], np.int32),
    )
    text_words.lookup_flags(*columns, flags)
    assert flags.tolist() == [entries.get(number, 0) for number in wanted]


NAMES = (
    *(
        "is_capitalized",
        "is_initial",
        "is_uppercase",
        "is_lowercase",
        "has_digit",
        "is_line_start",
        "has_next",
        "is_joined",
    ),
    *("is_tightly_joined", "has_blank_after", "next_byte", "gap_size", "size"),
)


def describe_words_by_loop(
    texts: list[bytes], is_title: list[bool], is_wide_capital: list[bool]
) -> list[dict[str, int]]:
    words = list_words(texts)
    data, (_, offsets) = b"".join(texts), join_texts(texts)
    rows = []
    for row, (text_no, start, end, word) in enumerate(words):
        has_next = row + 1 < len(words) and words[row + 1][0] == text_no
        is_first = row == 0 or words[row - 1][0] != text_no
        gap = data[end : words[row + 1][1]] if has_next else b""
        is_capitalized = is_wide_capital[row] if word[0] >= 128 else word[:1].isupper()
        is_initial = is_capitalized and (len(word) == 1 or (len(word) == 2 and word[0] >= 0xC3))
        is_tight = gap in (b"-", b"'") or (len(gap) == 3 and gap[0] == 0xE2)
        rows.append(
            {
                "is_capitalized": is_capitalized,
                "is_initial": is_initial,
                "is_uppercase": len(word) > 1 and all(65 <= word[at] <= 90 for at in (0, 1, -1)),
                "is_lowercase": 97 <= word[0] <= 122,
                "has_digit": any(48 <= byte <= 57 for byte in word),
                "is_line_start": is_first or b"\n" in data[words[row - 1][2] : start],
                "has_next": has_next,
                "is_joined": gap == b" "
                or is_tight
                or (gap == b"." and is_initial)
                or (gap == b". " and (is_initial or is_title[row])),
                "is_tightly_joined": is_tight,
                "has_blank_after": gap == b" ",
                "next_byte": data[end] if end < offsets[text_no + 1] else 0,
                "gap_size": min(len(gap), 255),
                "size": min(len(word), 255),
            }
        )
    return rows


@given(
    TEXTS | st.integers(250, 260).map(lambda size: [b"A" * size + b"\n" * size + b"b", b"c"]),
    st.lists(st.booleans()),
    st.lists(st.booleans()),
)
def test_properties_of_words_are_those_of_the_loop(
    texts: list[bytes], is_title: list[bool], is_wide_capital: list[bool]
) -> None:
    words = list_words(texts)
    is_title, is_wide_capital = (
        [*given, *[False] * len(words)][: len(words)] for given in (is_title, is_wide_capital)
    )
    data, offsets = join_texts(texts)
    found = {name: np.full(len(words), 7, np.uint8) for name in NAMES}
    found["is_capitalized"] = np.array(is_wide_capital, np.uint8)
    text_words.describe_words(
        *(data, offsets, np.array([word[0] for word in words], np.int32)),
        *(np.array([word[side] for word in words], np.int64) for side in (1, 2)),
        *(np.where(is_title, 6, 9).astype(np.int32), 2, *found.values()),
    )
    expected = describe_words_by_loop(texts, is_title, is_wide_capital)
    assert {name: column.tolist() for name, column in found.items()} == {
        name: [row[name] for row in expected] for name in NAMES
    }
