"""The generated judgments, contracts, medical notes and support mails, and how finds in them are
counted."""

from __future__ import annotations

import json
import re
from pathlib import Path

from benchmarks.bench_documents import (
    ALL,
    DIRECT,
    DIRECT_HELD_OUT,
    count_by_type,
    format_page,
    main,
    match_labels,
)
from benchmarks.document_texts import (
    INDIRECT,
    TYPES,
    Document,
    Template,
    generate_documents,
    read_templates,
)


def test_each_type_has_thirty_templates_of_eight_lines_or_more() -> None:
    for document_type in TYPES:
        templates = read_templates(document_type)
        assert len(templates) >= 30
        assert len({template.text[:60] for template in templates}) == len(templates)
        for template in templates:
            assert 8 <= len(template.text.splitlines()) <= 26, template.text[:60]
        held_out = sum(template.held_out for template in templates)
        assert held_out == len(templates) // 2


def test_texts_are_drawn_from_the_seed_and_every_field_is_filled() -> None:
    documents = generate_documents(1, seed=3)
    assert documents == generate_documents(1, seed=3) != generate_documents(1, seed=4)
    assert len(documents) == sum(len(read_templates(one)) for one in TYPES)
    for document in documents:
        assert not re.search(r"\{[a-z_]+[0-9]*\}", document.text)
        values = [document.text[start:end] for start, end, _ in document.spans]
        assert len(values) >= 5 and all(value.strip() for value in values)
        assert [start for start, _, _ in document.spans] == sorted(
            start for start, _, _ in document.spans
        )
        addresses = [
            value
            for value, (_, _, kind) in zip(values, document.spans, strict=True)
            if kind == "EMAIL_ADDRESS"
        ]
        assert all(re.search(r"\bexample\b|[.]test\Z|@okbank\Z", one) for one in addresses)


def test_a_number_of_a_field_names_one_person() -> None:
    documents = generate_documents(1, seed=5)
    lease = next(one for one in documents if one.text.startswith("RESIDENTIAL LEASE"))
    people = [lease.text[start:end] for start, end, kind in lease.spans if kind == "PERSON"]
    assert people[0] == people[-3] and people[1] == people[-2]


def _document(
    document_type: str, text: str, *spans: tuple[int, int, str], held_out: bool
) -> Document:
    return Document(Template(document_type, "en_US", text, held_out), text, spans)


def test_labels_are_touched_by_any_kind_and_exact_by_their_edges() -> None:
    documents = [
        _document(
            "contracts",
            "Ann Roe, MRN 441, DOB 1.2.1980",
            *((0, 7, "PERSON"), (13, 16, "RECORD_NUMBER"), (22, 30, "DATE_OF_BIRTH")),
            held_out=False,
        ),
        _document("judgments", "Bo Lee and Oslo", (0, 6, "PERSON"), held_out=True),
    ]
    found = [[(0, 8, "PERSON"), (13, 15, "PHONE_NUMBER")], [(11, 15, "PERSON")]]
    labels, false_finds = match_labels(documents, found)
    counts = count_by_type(labels)
    assert counts["PERSON"]["contracts"] == {"labels": 1, "touched": 1, "exact": 1}
    assert counts["RECORD_NUMBER"][ALL] == {"labels": 1, "touched": 1, "exact": 0}
    assert "DATE_OF_BIRTH" in INDIRECT
    assert counts[DIRECT][ALL] == {"labels": 3, "touched": 2, "exact": 1}
    assert counts[DIRECT_HELD_OUT][ALL] == {"labels": 1, "touched": 0, "exact": 0}
    assert false_finds == {("judgments", "PERSON"): 1}
    page = format_page(
        {
            "counts": counts,
            "texts": dict.fromkeys(TYPES, 1),
            "false_finds": {"PERSON": dict.fromkeys(TYPES, 0) | {"judgments": 1}},
        }
    )
    assert "| PERSON | 2 | 0.00, 0.00 | 1.00, 1.00 | – | – | 0.50, 0.50 |" in page
    assert "| PERSON | 100.0 | 0.0 | 0.0 | 0.0 |" in page


def test_direct_identifiers_are_touched_by_redact(tmp_path: Path) -> None:
    main(["--texts", "1", "--results", str(tmp_path)])
    result = json.loads((tmp_path / "documents.json").read_text("utf-8"))
    direct = result["counts"][DIRECT][ALL]
    assert direct["labels"] > 1200 and direct["touched"] / direct["labels"] >= 0.92
    assert "| PERSON |" in (tmp_path / "documents.md").read_text("utf-8")
