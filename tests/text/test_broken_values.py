"""Values that a line end, quoted-printable or a character reader broke are found whole; lines that
only look so are not joined."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from sanitize.core.arrow_buffers import TextBuffers
from sanitize.core.keys import Key
from sanitize.finders.patterns import PatternFinder
from sanitize.text.decodings.broken_values import find_broken_values

FINDER = PatternFinder(Key.from_seed(3))


def _find(text: str) -> list[tuple[str, str, int]]:
    found = FINDER.run(pa.array([text], pa.large_string()))
    values = found.values
    return [
        (FINDER.kinds[values.kind[no]].name, values.value[no].as_py(), int(values.value_id[no]))
        for no in found.value_no.tolist()
    ]


@pytest.mark.parametrize(
    ("kind", "text", "value", "plain"),
    [
        ("EMAIL_ADDRESS", "to {} for", "ann.roe@\nexample.org", "ann.roe@example.org"),
        ("EMAIL_ADDRESS", "> to {} for", "ann.roe@\r\n> example.org", "ann.roe@example.org"),
        ("EMAIL_ADDRESS", "{} (A)", "ann@example-univer\nsity.edu", "ann@example-university.edu"),
        ("EMAIL_ADDRESS", "at {}, or", "ann.roe@example.\n  org", "ann.roe@example.org"),
        ("US_SSN", "SSN {} ok", "512-45-\n6789", "512-45-6789"),
        ("US_SSN", "SSN: {} ok", "512-\n45-6789", "512-45-6789"),
        ("US_SSN", "SSN: {} ok", "512-4=\n5-6789", "512-45-6789"),
        ("PHONE_NUMBER", "call {} now", "205-555-\n0142", "205-555-0142"),
        ("PHONE_NUMBER", "Tel: {} now", "+1 205 555\n0142", "+1 205 555 0142"),
        ("CREDIT_CARD", "card {} exp", "4111 1111\n1111 1111", "4111 1111 1111 1111"),
        ("CREDIT_CARD", "Visa: {} exp", "4111 1111 1111\n1111", "4111 1111 1111 1111"),
        ("IBAN_CODE", "to {} ok", "DE89 3704 0044\n0532 0130 00", "DE89370400440532013000"),
        ("PHONE_NUMBER", "Tel: {}", "2O5-555-O142", "205-555-0142"),
        ("PHONE_NUMBER", "Phone: {} x", "(2O5) 555-0l42", "(205) 555-0142"),
        ("US_SSN", "Soc. Sec. #: {}", "5l2-45-6789", "512-45-6789"),
        ("CREDIT_CARD", "card {} exp", "4111 1111 1111 l111", "4111 1111 1111 1111"),
    ],
)
def test_a_broken_value_is_found_as_the_plain_value(
    kind: str, text: str, value: str, plain: str
) -> None:
    ((_, _, plain_id),) = _find(text.format(plain))
    assert _find(text.format(value)) == [(kind, value, plain_id)]


@pytest.mark.parametrize(
    "text",
    [
        "root@host\nsetup.py\n",
        "root@host\nREADME.md and example",
        "see @\nexample.org",
        "ann@example\n\nexample.org",  # a paragraph between
        "1234 5678\n9012 3456\n1111 1111",
        "4111 1111\n1111 1111",  # no word for a card
        "205-555-\n01425",
        "Tel: below\n205\n5550142",
        "Tel: loO-lol-Il0O",
        "O.K. 1-l-0-O and l0 I1",
        "SSN: ask-me-lOII",
    ],
)
def test_lines_that_only_look_broken_are_left(text: str) -> None:
    assert find_broken_values(TextBuffers.from_array(pa.array([text], pa.large_string()))) == []


def test_a_value_is_not_joined_over_two_texts() -> None:
    texts = pa.array(["ann.roe@\n", "example.org", "card 4111 1111\n", None], pa.large_string())
    assert not len(FINDER.run(texts.fill_null("")).value_no)


@pytest.mark.parametrize(
    "line", ["a@b\n", "1234\n", "123-\n", "a=\n", "O1-", "l0 ", "\n", "AB12 3456\n", "@"]
)
def test_texts_of_candidates_take_linear_time(line: str) -> None:
    def measure(size: int) -> float:
        column = TextBuffers.from_array(pa.array([line * (size // len(line))], pa.large_string()))
        start = time.process_time()
        find_broken_values(column)
        return time.process_time() - start

    measure(1000)
    assert measure(200_000) < 40 * max(measure(20_000), 0.01)
