"""The tagger of people's names: what it finds, its file of weights, and its training."""

from __future__ import annotations

import hashlib
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.person_tagger import train
from benchmarks.person_tagger.texts import FOLDER, TextWriter, read_pools
from sanitize.array_types import I64
from sanitize.errors import InstallationBroken
from sanitize.text.person_names.name_tagger import (
    WEIGHTS_FILE,
    TaggerWeights,
    load_weights,
    tag_names,
)
from tests.support import to_buffers

NONE: I64 = np.empty(0, np.int64)
SENTENCES = ("Hi, I'm {}.", "Yesterday {} met the board.", "Patient: {}\nDate: 3 May 2019")


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
        assert "{{" not in text.text


def test_vocabulary_knows_a_name_only_as_a_common_word() -> None:
    words = train.list_vocabulary()
    assert words.keys() & {"the", "regards", "report"} == {"the", "regards", "report"}
    assert not words.keys() & {"kowalczyk", "adeyemi", "okonkwo", "nguyen", "fernández"}


@pytest.mark.slow
def test_retraining_gives_the_same_bytes() -> None:
    contents = train.train().to_bytes()
    expected = hashlib.sha256(WEIGHTS_FILE.read_bytes()).hexdigest()
    assert hashlib.sha256(contents).hexdigest() == expected


@pytest.mark.slow
def test_names_seen_in_training_do_not_score_above_names_held_out() -> None:
    """Held-out names of twelve origins, and as many names of the pools for these origins."""
    origins = {
        "arabic": "eg lb ma", "indian_north": "in_north", "indian_south": "in_south lk",
        "nigerian": "ng_hausa ng_igbo ng_yoruba", "ghana_kenya": "gh ke",
        "turkish_iranian": "tr ir", "japanese": "jp",
    }  # fmt: skip
    seen, held_out = [], []
    for origin, pools in origins.items():
        lines = (FOLDER / "held_out" / f"{origin}.txt").read_text("utf-8").splitlines()
        rows = [line.split("\t") for line in lines if "\t" in line]
        held_out += [" ".join(row) for row in rows]
        chosen = [read_pools()[name] for name in pools.split()]
        seen += [
            f"{pool.given[i * 7 % len(pool.given)]} {pool.surnames[i * 11 % len(pool.surnames)]}"
            for i in range(len(rows))
            for pool in (chosen[i % len(chosen)],)
        ]
    shares = [
        np.mean([name in find(SENTENCES[i % 3].format(name)) for i, name in enumerate(names)])
        for names in (seen, held_out)
    ]
    assert len(seen) == len(held_out) >= 1000
    # a tagger that knew names by heart would find more of those that it has seen
    assert shares[0] - shares[1] < 0.02, shares
