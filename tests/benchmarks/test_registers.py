"""The generated texts of four registers, and how finds in them are counted."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

from benchmarks.bench_registers import (
    KINDS,
    count_false_finds,
    count_finds,
    format_false_finds,
    format_table,
)
from benchmarks.labelled_templates import LabelledText
from benchmarks.register_texts import (
    REGISTERS,
    REGISTERS_WITHOUT_PEOPLE,
    generate_texts,
    generate_texts_without_people,
)
from sanitize.core.keys import Key
from sanitize.finders.patterns import PatternFinder
from sanitize.kinds.kind import get_kind


def test_texts_are_drawn_from_the_seed_and_their_labels_are_values_of_their_kind() -> None:
    texts = generate_texts(2, seed=3)
    assert texts == generate_texts(2, seed=3) != generate_texts(2, seed=4)
    assert {text.register for text in texts} == set(REGISTERS)
    for text in texts:
        assert "{mail}" not in text.text and "{{" not in text.text
        for start, end, kind in text.spans:
            assert kind in KINDS and get_kind(kind)
            value = text.text[start:end]
            assert value == value.strip() and len(value) > 4


def test_finds_are_counted_by_register_and_kind() -> None:
    texts = [
        LabelledText(
            "ann@example.com bob@example.com 10.1.2.3",
            ((0, 15, "EMAIL_ADDRESS"), (16, 31, "EMAIL_ADDRESS")),
            "prose",
        ),
        LabelledText("no value", (), "chat"),
    ]
    found = [
        [(0, 15, "EMAIL_ADDRESS"), (18, 31, "EMAIL_ADDRESS"), (32, 40, "IP_ADDRESS")],
        [(0, 2, "PERSON")],
    ]
    counts = count_finds(texts, found)
    assert counts["prose"]["EMAIL_ADDRESS"] == {"labels": 2, "found": 1, "finds": 2, "true": 2}
    assert counts["prose"]["IP_ADDRESS"] == {"labels": 0, "found": 0, "finds": 1, "true": 0}
    assert counts["mail"] == {} and set(counts["chat"]) == {"PERSON"}
    assert format_table(counts).splitlines()[2:] == [
        "| EMAIL_ADDRESS | 1.000, 0.500 | – | – | – |",
        "| IP_ADDRESS | 1 false | – | – | – |",
        "| PERSON | – | – | – | 1 false |",
    ]


def test_finds_in_texts_without_people_are_counted_per_megabyte() -> None:
    texts = generate_texts_without_people(3, seed=5)
    assert texts == generate_texts_without_people(3, seed=5) != generate_texts_without_people(3, 6)
    assert {text.register for text in texts} == set(REGISTERS_WITHOUT_PEOPLE)
    assert not any(text.spans for text in texts)
    found = [[(0, 2, "IP_ADDRESS")] if text.register == "code" else [] for text in texts]
    counts = count_false_finds(texts, found)
    assert counts == {"IP_ADDRESS": {"numeric data": 0, "code": 3, "changelogs": 0, "dialogues": 0}}
    table = format_false_finds(counts, dict.fromkeys(REGISTERS_WITHOUT_PEOPLE, 500_000))
    assert table.splitlines()[2:] == ["| IP_ADDRESS | 0 | 6 | 0 | 0 |"]


def test_finders_find_hardly_anything_in_texts_without_people() -> None:
    texts = generate_texts_without_people(60, seed=2)
    finder = PatternFinder(Key.from_seed(3), opt_in_kinds=("USER_NAME",))
    spans = finder.run(pa.array([text.text for text in texts], pa.large_string()))
    finds = Counter(texts[no].register for no in spans.text_no)
    # with no context rules for numbers in rows and roles: 45, 41, 259, 40
    assert finds["numeric data"] <= 1 and finds["code"] <= 9
    assert finds["changelogs"] <= 25 and finds["dialogues"] <= 1
