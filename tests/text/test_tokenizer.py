"""Word hashes: the same words as a slow Python tokenizer, equal hashes for equal words and n-grams, never across two texts."""

from __future__ import annotations

import re
import unicodedata

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanitize.core.arrow_buffers import TextBuffers
from sanitize.text.tokenizer import NonAsciiRunCache, hash_ngrams, hash_word_ranges, hash_words, locate_ngrams, tokenize_unicode

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


def lowered(text: str) -> str:
    return re.sub("[A-Z]", lambda match: match[0].lower(), text)


def slow_words(text: str) -> list[str]:
    alone = "\u0e00-\u0eff\u1000-\u107f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
    return re.findall(rf"[{alone}]|(?:(?![{alone}])[a-z0-9\u0080-\U0010ffff])+", lowered(text))


def test_a_text_without_blanks_has_many_words() -> None:
    assert hash_words(buffers(["我们明天见面吗", "เราไป", "cafés 한국어 мир", "see你then"])).counts.tolist() == [7, 5, 3, 3]


def slow_spoken(text: str) -> list[str]:
    return "".join(letter if unicodedata.category(letter)[0] in "LMN" else " " for letter in text).split()


def slow_characters(text: str) -> list[str]:
    return [letter for letter in lowered(text) if letter not in " \t\n\v\f\r\0"]


def buffers(texts: list[str]) -> TextBuffers:
    return TextBuffers.from_array(pa.array(texts, pa.large_string()))


def same_partition(one: list[object], other: list[object]) -> bool:
    """Asserts that two columns have the same equalities between their entries."""
    pairs = set(zip(one, other, strict=True))
    return len(pairs) == len(set(one)) == len(set(other))


@settings(max_examples=200, deadline=None)
@given(texts=TEXTS)
def test_words_and_characters_are_those_of_a_slow_reading(texts: list[str]) -> None:
    for characters, slow in ((False, slow_words), (True, slow_characters)):
        found = hash_words(buffers(texts), by_character=characters)
        expected = [slow(text) for text in texts]
        assert found.counts.tolist() == [len(row) for row in expected]
        assert same_partition(found.hashes.tolist(), [word for row in expected for word in row])


@settings(max_examples=200, deadline=None)
@given(texts=TEXTS, size=st.integers(1, 6))
def test_runs_are_those_of_a_slow_reading(texts: list[str], size: int) -> None:
    found = hash_words(buffers(texts))
    for short in (False, True):
        expected = []
        for text in texts:
            row = slow_words(text)
            some = [tuple(row[at : at + size]) for at in range(len(row) - size + 1)]
            expected.append(some or ([tuple(row)] if short and row else []))
        hashes, first = hash_ngrams(found, size, keep_short=short)
        assert [int(b - a) for a, b in zip(first[:-1], first[1:], strict=True)] == [len(row) for row in expected]
        assert same_partition(hashes.tolist(), [run for row in expected for run in row])


def test_a_slice_and_another_column_give_the_same_hashes() -> None:
    column = pa.array(["x y", "one two three", "z"], pa.large_string())
    alone = hash_words(TextBuffers.from_array(pa.array(["One, TWO three"], pa.large_string())))
    inside = hash_words(TextBuffers.from_array(column.slice(1, 1)))
    within = hash_words(TextBuffers.from_array(column))
    assert alone.hashes.tolist() == inside.hashes.tolist() == within.hashes[2:5].tolist()


@pytest.mark.parametrize("most", [0, 3, 1 << 16])
@settings(max_examples=200, deadline=None)
@given(columns=st.lists(TEXTS, max_size=4))
def test_runs_beyond_ascii_are_the_same_words_in_whichever_column_they_came_first(most: int, columns: list[list[str]]) -> None:
    """Runs without a word, with one and with several, in consecutive columns, with and without the cache kept between them."""
    apart = NonAsciiRunCache()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sanitize.text.tokenizer._MAX_CACHED_RUNS", most)
        for texts in columns:
            column = buffers(texts)
            once, alone = tokenize_unicode(column, apart), tokenize_unicode(column)
            for name in ("text_no", "start", "end", "hashes"):
                assert getattr(once, name).tolist() == getattr(alone, name).tolist()
            if any(unicodedata.category(letter) == "Cn" for text in texts for letter in text):
                continue  # a character that this Python does not know, and others may
            raw = column.data.tobytes()
            expected = [
                (text_no, unicodedata.normalize("NFC", word.lower())) for text_no, text in enumerate(texts) for word in slow_spoken(text)
            ]
            found = [
                (text_no, unicodedata.normalize("NFC", raw[start:stop].decode().lower()))
                for text_no, start, stop in zip(once.text_no.tolist(), once.start.tolist(), once.end.tolist(), strict=True)
            ]
            assert found == expected
            assert same_partition(once.hashes.tolist(), [word for _, word in expected])


def test_a_hash_is_always_the_same() -> None:
    """Signatures are stored in WORK: another hash would give another result. Values recorded from the first version."""
    found = hash_words(buffers(["The quick brown fox, internationalization!"]))
    assert [f"{number:016x}" for number in found.hashes.tolist()] == [
        "e462f04d1a9ae53f",
        "a37ab12c4a073eb6",
        "b35c16a395e6fb91",
        "aa68ab3474fe6eef",
        "68105185a9d9217f",
    ]
    assert f"{int(hash_ngrams(found, 5)[0][0]):016x}" == "a64faddaea43b654"
    assert (hash_words(buffers(["fox"])).hashes != hash_words(buffers(["fox"]), seed=1).hashes).all()


def test_places_of_runs_stay_in_their_text() -> None:
    found = hash_words(buffers(["a b", "", "c", "d e f"]))
    starts, stops, first = locate_ngrams(found, 2)
    assert (starts.tolist(), stops.tolist(), first.tolist()) == ([0, 3, 4], [2, 5, 6], [0, 1, 1, 1, 3])
    hashes, _ = hash_word_ranges(found, starts, stops, first)
    assert len(set(hashes.tolist())) == 3
