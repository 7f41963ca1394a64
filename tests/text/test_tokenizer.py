"""Word hashes: the same words as a reference tokenizer in Python, equal hashes for equal words and
n-grams, never across two texts."""

from __future__ import annotations

import re
import unicodedata

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanitize.core.arrow_buffers import TextBuffers
from sanitize.text.tokenizer import (
    NonAsciiRunCache,
    hash_ngrams,
    hash_word_ranges,
    hash_words,
    locate_ngrams,
    tokenize_unicode,
)
from tests.support import to_buffers

TEXTS = st.lists(
    st.one_of(
        st.lists(
            st.sampled_from(
                [
                    "a",
                    "B",
                    "Word",
                    "word",
                    "7",
                    "abcdefghi",
                    "ABCDEFGHijklmnopqrstuv",
                    " ",
                    "  ",
                    "\n",
                    ".",
                    "-",
                    "é",
                    "É",
                    "中文",
                    "ひらカナ",
                    "ภาษา",
                    "한국어",
                    "𠀀",
                    "🙂",
                    "_",
                    "–",
                    "•",
                    "naïve–café",
                    "№5…Ω",
                ]
            ),
            max_size=20,
        ).map("".join),
        st.text(max_size=12),
    ),
    max_size=8,
)


def lower_ascii(text: str) -> str:
    return re.sub("[A-Z]", lambda match: match[0].lower(), text)


def reference_words(text: str) -> list[str]:
    single_character_words = (
        "\u0e00-\u0eff\u1000-\u107f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
    )
    return re.findall(
        rf"[{single_character_words}]|(?:(?![{single_character_words}])[a-z0-9\u0080-\U0010ffff])+",
        lower_ascii(text),
    )


def test_a_text_without_blanks_has_many_words() -> None:
    assert hash_words(
        to_buffers(["我们明天见面吗", "เราไป", "cafés 한국어 мир", "see你then"])
    ).counts.tolist() == [7, 5, 3, 3]


def reference_unicode_words(text: str) -> list[str]:
    return "".join(
        letter if unicodedata.category(letter)[0] in "LMN" else " " for letter in text
    ).split()


def reference_characters(text: str) -> list[str]:
    return [letter for letter in lower_ascii(text) if letter not in " \t\n\v\f\r\0"]


def has_same_partition(first: list[object], second: list[object]) -> bool:
    """True if two columns have the same equalities between their entries."""
    pairs = set(zip(first, second, strict=True))
    return len(pairs) == len(set(first)) == len(set(second))


@settings(max_examples=200, deadline=None)
@given(texts=TEXTS)
def test_words_and_characters_equal_the_reference(texts: list[str]) -> None:
    for characters, reference in ((False, reference_words), (True, reference_characters)):
        words = hash_words(to_buffers(texts), by_character=characters)
        expected = [reference(text) for text in texts]
        assert words.counts.tolist() == [len(row) for row in expected]
        assert has_same_partition(words.hashes.tolist(), [word for row in expected for word in row])


@settings(max_examples=200, deadline=None)
@given(texts=TEXTS, size=st.integers(1, 6))
def test_ngrams_equal_the_reference(texts: list[str], size: int) -> None:
    hashed = hash_words(to_buffers(texts))
    for keep_short in (False, True):
        expected = []
        for text in texts:
            words = reference_words(text)
            ngrams = [tuple(words[at : at + size]) for at in range(len(words) - size + 1)]
            expected.append(ngrams or ([tuple(words)] if keep_short and words else []))
        hashes, first = hash_ngrams(hashed, size, keep_short=keep_short)
        assert [int(b - a) for a, b in zip(first[:-1], first[1:], strict=True)] == [
            len(words) for words in expected
        ]
        assert has_same_partition(hashes.tolist(), [run for words in expected for run in words])


def test_a_slice_and_another_column_give_the_same_hashes() -> None:
    column = pa.array(["x y", "one two three", "z"], pa.large_string())
    separate = hash_words(TextBuffers.from_array(pa.array(["One, TWO three"], pa.large_string())))
    slice_hashes = hash_words(TextBuffers.from_array(column.slice(1, 1)))
    column_hashes = hash_words(TextBuffers.from_array(column))
    assert (
        separate.hashes.tolist()
        == slice_hashes.hashes.tolist()
        == column_hashes.hashes[2:5].tolist()
    )


@pytest.mark.parametrize("max_cached", [0, 3, 1 << 16])
@settings(max_examples=80, deadline=None)
@given(columns=st.lists(TEXTS, max_size=4))
def test_non_ascii_words_do_not_depend_on_the_cache(
    max_cached: int, columns: list[list[str]]
) -> None:
    """Runs without a word, with one and with several, in consecutive columns, with and without the
    cache kept between them."""
    cache = NonAsciiRunCache()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sanitize.text.tokenizer._MAX_CACHED_RUNS", max_cached)
        for texts in columns:
            column = to_buffers(texts)
            cached, uncached = tokenize_unicode(column, cache), tokenize_unicode(column)
            for name in ("text_no", "start", "end", "hashes"):
                assert getattr(cached, name).tolist() == getattr(uncached, name).tolist()
            if any(unicodedata.category(letter) == "Cn" for text in texts for letter in text):
                continue  # unassigned in this Python's Unicode version, perhaps assigned in another
            raw = column.data.tobytes()
            expected = [
                (text_no, unicodedata.normalize("NFC", word.lower()))
                for text_no, text in enumerate(texts)
                for word in reference_unicode_words(text)
            ]
            found = [
                (text_no, unicodedata.normalize("NFC", raw[start:stop].decode().lower()))
                for text_no, start, stop in zip(
                    cached.text_no.tolist(), cached.start.tolist(), cached.end.tolist(), strict=True
                )
            ]
            assert found == expected
            assert has_same_partition(cached.hashes.tolist(), [word for _, word in expected])


def test_recorded_hashes() -> None:
    """Signatures are stored in the workspace, so the hash must not change. Values recorded from the
    first version."""
    found = hash_words(to_buffers(["The quick brown fox, internationalization!"]))
    assert [f"{number:016x}" for number in found.hashes.tolist()] == [
        "e462f04d1a9ae53f",
        "a37ab12c4a073eb6",
        "b35c16a395e6fb91",
        "aa68ab3474fe6eef",
        "68105185a9d9217f",
    ]
    assert f"{int(hash_ngrams(found, 5)[0][0]):016x}" == "a64faddaea43b654"
    assert (
        hash_words(to_buffers(["fox"])).hashes != hash_words(to_buffers(["fox"]), seed=1).hashes
    ).all()


def test_ngrams_stay_in_their_text() -> None:
    found = hash_words(to_buffers(["a b", "", "c", "d e f"]))
    starts, first = locate_ngrams(found, 2)
    assert (starts.tolist(), first.tolist()) == ([0, 3, 4], [0, 1, 1, 1, 3])
    hashes, offsets = hash_ngrams(found, 2)
    assert hashes.tolist() == hash_word_ranges(found, starts, starts + 2).tolist()
    assert len(set(hashes.tolist())) == 3 and offsets.tolist() == first.tolist()
