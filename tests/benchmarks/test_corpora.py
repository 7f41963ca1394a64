"""The generated corpora depend on their arguments only, have the stated density, and contain
reserved addresses only."""

from __future__ import annotations

import mailbox
import re
from pathlib import Path

import pyarrow as pa
import pytest

from sanitize.cli.generated_mails import (
    MAIL_SCHEMA,
    MAILS_PER_CHUNK,
    generate_mail_batches,
    generate_mails,
    write_mbox,
)

ADDRESS = re.compile(r"[\w.+-]+@([\w-]+(?:\.[\w-]+)+)")
VALUE_PATTERN = re.compile(
    r"https?://\S+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|\d{3}\)?[-. ]555[-. ]01\d\d"
    r"|\b(?:192\.0\.2|198\.51\.100|203\.0\.113)\.\d+|2001:db8::[0-9a-f]+"
    r"|\b\d{4}[ -]?\d{4,6}[ -]?\d{4,5}(?:[ -]?\d{4})?\b|\b(?:GB|DE|NL)\d\d["
    r" 0-9A-Z]{14,}|\b[78]\d\d-\d\d-\d{4}\b"
)


def list_texts(table: pa.Table) -> list[str]:
    return list(table["text"].to_pylist())


@pytest.fixture(scope="module", params=[True, False], ids=["dense", "sparse"])
def corpus(request: pytest.FixtureRequest) -> tuple[bool, pa.Table]:
    return request.param, generate_mails(4_000, 1, dense=request.param)


def test_the_same_arguments_give_the_same_mails() -> None:
    assert generate_mails(300, 5).equals(generate_mails(300, 5))
    assert not generate_mails(300, 5).equals(generate_mails(300, 6))


def test_batches_equal_the_table() -> None:
    pieces = list(generate_mail_batches(MAILS_PER_CHUNK + 10, 2))
    assert [len(piece) for piece in pieces] == [MAILS_PER_CHUNK, 10]
    table = generate_mails(MAILS_PER_CHUNK + 10, 2)
    assert table.schema == MAIL_SCHEMA
    assert table.equals(pa.Table.from_batches(pieces))
    assert len(set(table["doc_id"].to_pylist())) == MAILS_PER_CHUNK + 10


@pytest.mark.slow
def test_size_and_density(corpus: tuple[bool, pa.Table]) -> None:
    dense, table = corpus
    size = sum(len(text.encode()) for text in list_texts(table))
    rate = sum(len(VALUE_PATTERN.findall(text)) for text in list_texts(table)) / size * 1_000
    assert 1_700 < size / len(table) < 2_100
    assert (4.0 < rate < 5.0) if dense else (0.9 < rate < 1.4)
    assert 0.10 < sum(not text.isascii() for text in list_texts(table)) / len(table) < 0.20


def test_frequencies_follow_a_power_law(corpus: tuple[bool, pa.Table]) -> None:
    counts: dict[str, int] = {}
    for text in list_texts(corpus[1]):
        for match in ADDRESS.finditer(text):
            counts[match[0].lower()] = counts.get(match[0].lower(), 0) + 1
    ranked = sorted(counts.values(), reverse=True)
    assert ranked[0] > 50
    assert ranked[len(ranked) // 2] <= 2


def test_addresses_and_numbers_are_reserved(corpus: tuple[bool, pa.Table]) -> None:
    for text in list_texts(corpus[1]):
        for domain in ADDRESS.findall(text):
            assert domain.lower().endswith(".example") or re.search(
                r"(^|\.)example\.(com|org|net)$", domain.lower()
            )
        for number in re.findall(r"\d{3}\)?[-. ]\d{3}[-. ]\d{4}\b", text):
            assert re.search(r"555[-. ]01\d\d$", number)


def test_mbox_round_trip(tmp_path: Path) -> None:
    table = generate_mails(200, 3)
    with_from_lines = [
        *list_texts(table)[:-1],
        list_texts(table)[-1] + "From here on\n>From there\n",
    ]
    changed = table.set_column(2, "text", pa.array(with_from_lines, pa.large_string()))
    write_mbox(changed, tmp_path / "mails.mbox")
    box = mailbox.mbox(tmp_path / "mails.mbox")
    assert len(box) == 200
    for message, text in zip(box, list_texts(changed), strict=True):
        payload = message.get_payload(decode=True)
        assert isinstance(payload, bytes)
        body = payload.decode("utf-8")
        expected_body = text.partition("\n\n")[2]
        assert re.sub(r"^>(>*From )", r"\1", body, flags=re.MULTILINE).rstrip(
            "\n"
        ) == expected_body.rstrip("\n")
