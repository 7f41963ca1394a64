"""The generated texts of four registers, and how finds in them are counted."""

from __future__ import annotations

from benchmarks.bench_registers import KINDS, count_finds, format_table
from benchmarks.labelled_templates import LabelledText
from benchmarks.register_texts import REGISTERS, generate_texts
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
