"""The tagger of people's names: what it finds, its file of weights, and its training."""

from __future__ import annotations

import hashlib
import random
import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.bench_origins import SENTENCES
from benchmarks.person_tagger import train
from benchmarks.person_tagger.texts import TextWriter, read_pools
from sanitize.array_types import I64
from sanitize.errors import InstallationBroken
from sanitize.kernels import name_tags
from sanitize.text.person_names.name_tagger import (
    WEIGHTS_FILE,
    TaggerWeights,
    classify_characters,
    load_weights,
    tag_names,
)
from tests.support import to_buffers

NONE: I64 = np.empty(0, np.int64)


def find(text: str) -> list[str]:
    found = tag_names(to_buffers([text]), NONE, NONE)
    data = text.encode()
    return [data[a:b].decode() for a, b in zip(found.start, found.end, strict=True)]


@pytest.mark.parametrize("name", ["Oluwadamilare Adeyokunnu", "Thirumurugan Velachami"])
def test_finds_names_that_no_list_has(name: str) -> None:
    assert find(f"Hi, I'm {name}. Can you send me the invoice?") == [name]


@pytest.mark.parametrize("text", ["", "the order is late", "2019-05-03 12:00", "\n\n", "a" * 9999])
def test_finds_nothing_without_capitals(text: str) -> None:
    assert find(text) == []


@pytest.mark.parametrize("name", ["Gung Han-byeol", "Dokgo Sun-ok", "Bong Gil-dong"])
def test_a_name_goes_on_behind_its_hyphen(name: str) -> None:
    assert find(f"Patient: {name}\nDate: 3 May 2019") == [name]


@pytest.mark.parametrize("accents", [("My", "Mỹ"), ("Cam", "Cẩm"), ("Sang", "Sáng")])
def test_a_word_with_other_accents_is_another_word(accents: tuple[str, str]) -> None:
    hashes = np.empty(2, np.uint32)
    buffers = to_buffers(list(accents))
    name_tags.hash_vocabulary(buffers.data, buffers.offsets, *classify_characters(), hashes)
    assert hashes[0] != hashes[1]


@given(st.lists(st.binary(max_size=60), max_size=4))
def test_spans_lie_in_their_texts_for_any_bytes(texts: list[bytes]) -> None:
    buffers = to_buffers(texts)
    found = tag_names(buffers, NONE, NONE)
    text_no = np.searchsorted(buffers.offsets, found.start, side="right") - 1
    assert (found.start < found.end).all()
    assert (found.end <= buffers.offsets[text_no + 1]).all()
    assert (found.start[1:] >= found.end[:-1]).all()


@given(st.lists(st.text(alphabet="Aab .\n,-é", max_size=40), max_size=5))
def test_each_text_is_tagged_on_its_own(texts: list[str]) -> None:
    buffers = to_buffers(texts)
    together = tag_names(buffers, NONE, NONE)
    apart = [
        tag_names(to_buffers([text]), NONE, NONE).start + buffers.offsets[number]
        for number, text in enumerate(texts)
    ]
    assert together.start.tolist() == [int(one) for starts in apart for one in starts]


def test_a_text_is_tagged_alike_among_any_others() -> None:
    """The words that a text has in small letters are looked up in its own words only, and its first
    and last word have no neighbours."""
    texts = [one.text for one in TextWriter(11).write(400)]
    texts += [f"Patient {name}" for name in ("Kim Seung-ho", "Lee Mi-na", "Ana de", "Ana de Souza")]

    def tag(part: list[str]) -> list[tuple[int, int, int]]:
        buffers = to_buffers(part)
        known = np.array(
            [offset for offset, text in zip(buffers.offsets, part, strict=False) if text], np.int64
        )
        found = tag_names(buffers, known, known + 1)
        base = buffers.offsets[np.searchsorted(buffers.offsets, found.start, side="right") - 1]
        columns = (found.start - base, found.end - base, found.margin)
        return list(zip(*(column.tolist() for column in columns), strict=True))

    alone = [row for text in texts for row in tag([text])]
    assert tag(texts) == alone
    assert tag(texts[::-1]) == [row for text in texts[::-1] for row in tag([text])]


@pytest.mark.parametrize("text", ["ANN " * 200_000, "Aa\n" * 300_000, "Aa" * 300_000])
def test_long_runs_are_cut(text: str) -> None:
    found = tag_names(to_buffers([text]), NONE, NONE)
    assert len(found.start) <= text.count("A")


def test_file_is_below_its_limit_and_reads_as_written() -> None:
    contents = WEIGHTS_FILE.read_bytes()
    assert len(contents) < 500_000
    assert load_weights().to_bytes() == contents


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda data: data[:-1], "bytes instead of"),
        (lambda data: data + b"\0", "bytes instead of"),
        (lambda data: data[:10], "which begin otherwise"),
        (lambda data: b"", "which begin otherwise"),
        (lambda data: b"x" + data[1:], "which begin otherwise"),
        (lambda data: data[:16] + struct.pack("<I", 9) + data[20:], "feature set 9"),
        (lambda data: data[:20] + struct.pack("<I", 3) + data[24:], "bytes instead of"),
    ],
)  # fmt: skip
def test_other_files_are_refused(change, says: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InstallationBroken, match=says) as raised:
        TaggerWeights.from_bytes(change(WEIGHTS_FILE.read_bytes()), "weights.bin")
    assert str(raised.value).startswith("weights.bin: ")


def test_texts_are_drawn_from_the_seed_and_spans_are_names() -> None:
    texts = TextWriter(7).write(200)
    assert texts == TextWriter(7).write(200)
    assert texts != TextWriter(8).write(200)
    for text in texts:
        assert all(text.text[start:end].strip() for start, end, _ in text.spans)
        assert "{{" not in text.text and "[[" not in text.text


def test_vocabulary_knows_a_name_only_as_a_common_word() -> None:
    words = train.list_vocabulary()
    assert words.keys() & {"the", "regards", "report"} == {"the", "regards", "report"}
    assert not words.keys() & {"kowalczyk", "adeyemi", "okonkwo", "nguyen", "fernández"}


@pytest.mark.slow
def test_retraining_gives_the_same_bytes() -> None:
    contents = train.train().to_bytes()
    expected = hashlib.sha256(WEIGHTS_FILE.read_bytes()).hexdigest()
    assert hashlib.sha256(contents).hexdigest() == expected


def _halve(names: tuple[str, ...], half: int) -> tuple[str, ...]:
    """Every second of the names in a random order."""
    shuffled = sorted(set(names))
    random.Random(3).shuffle(shuffled)
    return tuple(shuffled[half::2])


@pytest.mark.slow
def test_names_seen_in_training_and_names_held_out_are_found_alike() -> None:
    """Trained with half of each list of names, the tagger finds the names of both halves."""
    halves = [
        {
            country: replace(
                pool, given=_halve(pool.given, half), surnames=_halve(pool.surnames, half)
            )
            for country, pool in read_pools().items()
        }
        for half in (0, 1)
    ]
    weights = train.train(pools=halves[0])
    shares = []
    for pools in halves:
        draw = random.Random(5)
        names = []
        for number in range(3000):
            pool = pools[sorted(pools)[number % len(pools)]]
            given, surname = draw.choice(pool.given), draw.choice(pool.surnames)
            names.append(f"{surname} {given}" if pool.surname_first else f"{given} {surname}")
        texts = [SENTENCES[row % len(SENTENCES)].format(name) for row, name in enumerate(names)]
        buffers = to_buffers(texts)
        found = tag_names(buffers, NONE, NONE, weights)
        spans = set(zip(found.start.tolist(), found.end.tolist(), strict=True))
        hits = 0
        for base, text, name in zip(buffers.offsets.tolist(), texts, names, strict=False):
            start = base + len(text[: text.index(name)].encode())
            hits += (start, start + len(name.encode())) in spans
        shares.append(hits / len(names))
    assert min(shares) > 0.9, shares
    # a tagger that knew names by heart would find more of those that it has seen
    assert abs(shares[0] - shares[1]) < 0.02, shares
