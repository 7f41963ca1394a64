r"""Values directly behind an escape that a text writes out: found without it, and the escape stays.

A value is found behind an escape where it is found behind the character that the escape stands
for."""

from __future__ import annotations

import json

import polars as pl
import pyarrow as pa
import pytest

import sanitize
from sanitize.core.keys import Key
from sanitize.core.part_protocols import TextColumn
from sanitize.finders.names import Names
from sanitize.finders.patterns import PatternFinder
from sanitize.kinds.kind import Kind, all_kinds, known_countries
from tests.support import find_pattern_values

OPT_IN_KINDS = [kind.name for kind in all_kinds().values() if kind.opt_in]
FINDER = PatternFinder(Key.from_seed(3), known_countries(), OPT_IN_KINDS)
KINDS = [kind for kind in FINDER.kinds if kind.hits and kind.pattern]
LINE_ENDS = [r"\n", r"\r\n", r"\r", r"\u000a", r"\x0a", r"\\n", r"\\\\n", "%0A", "%250A", "=0A"]
BLANKS = [r"\t", r"\f", r"\b", r"\v", r"\u0009", r"\x09", "%09", "\x1b[32m", "\x1b[38;5;196m"]
BLANKS += [r"\x1b[32m", r"\u001b[0m", r"\033[0m", r"\e[1m"]
QUOTES = [r"\"", r"\u0022", r"\u003c", r"\/", "%22", "&quot;", "&lt;", "&#10;", "&nbsp;"]
FOUR_PLANS = ["redact", "surrogates", "strict", "rmft"]


def list_values(finder: PatternFinder, texts: list[str]) -> list[set[tuple[str, str]]]:
    """The kinds and values that are found in each text."""
    return [
        {(kind, value) for kind, value, _ in of_text}
        for of_text in find_pattern_values(finder, texts)
    ]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.name))
def test_values_of_every_kind_are_found_behind_escapes(kind: Kind) -> None:
    text, *values = kind.hits[0]
    cases = []  # the text with a character before the value or the example, and with an escape
    for escapes, sign in ((LINE_ENDS, "\n"), (BLANKS, "\t")):
        for escape in escapes:
            cases.append((f"end{sign}{text}", f"end{escape}{text}"))
            cases += [(f"end{sign}{value}.", f"end{escape}{value}.") for value in values]
    # a number may be of several kinds
    countries = [kind.country] if kind.country else []
    finder = PatternFinder(Key.from_seed(3), countries, [kind.name] if kind.opt_in else [])
    plain = list_values(finder, [text for text, _ in cases])
    escaped = list_values(finder, [text for _, text in cases])
    assert all(kind.name in {name for name, _ in found} for found in plain[::2][:1])
    for (_, text), with_sign, with_escape in zip(cases, plain, escaped, strict=True):
        assert with_escape >= {pair for pair in with_sign if pair[0] == kind.name}, text


@pytest.mark.parametrize("escape", LINE_ENDS + BLANKS + QUOTES)
def test_addresses_and_numbers_behind_escapes(escape: str) -> None:
    for value in ("quinn@example.com", "312-555-0178", "198.51.100.23", "4539578763621486"):
        assert {found for _, found in list_values(FINDER, [f"Hi{escape}{value}"])[0]} == {value}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://h.example/a?x=1%0A2", {"https://h.example/a?x=1%0A2"}),
        ("http://h.example/?a=0A312&id=20", {"http://h.example/?a=0A312&id=20"}),
        (
            "http://h.example/?q=%0A312-555-0178",
            {"http://h.example/?q=%0A312-555-0178", "312-555-0178"},
        ),
        (r"C:\Users\tom\x C:\\Users\\nina", {"tom", "nina"}),
        (r"C:\temp\tom@example.com", {"om@example.com"}),
        (r"\textbf{\nu} \bword\b \\server\new CORP\nina", set()),
    ],
)
def test_values_with_something_like_an_escape_stay_whole(text: str, expected: set[str]) -> None:
    assert {value for _, value in list_values(FINDER, [text])[0]} == expected


def test_names_behind_escapes() -> None:
    names = Names(use="names")
    names.open(Key.from_seed(3), None)
    integers = dict.fromkeys(("text_no", "start_byte", "end_byte", "value_id"), pl.Int64())
    no_spans = pl.DataFrame(schema={**integers, "kind": pl.String()})
    for escape in ["\n", *LINE_ENDS, *BLANKS]:
        text = f'"The team{escape}Wendel Haas{escape}will call."'
        spans = names.find_spans(TextColumn(pa.array([text], pa.large_string()), no_spans))
        places = zip(spans.start_byte.tolist(), spans.end_byte.tolist(), strict=True)
        assert [text[start:end] for start, end in places] == ["Wendel Haas"], escape


@pytest.mark.parametrize("plan", FOUR_PLANS)
def test_json_texts_stay_json(plan: str) -> None:
    """Values of every kind that all plans search, behind every character that JSON escapes."""
    values = [kind.hits[0][1] for kind in KINDS if not kind.country and not kind.opt_in]
    texts = []
    for number, value in enumerate(values):
        for sign in ("\n", "\t", "\r\n", '"', "/", "\b", "\f", "\u001b[32m", "\u2028"):
            message = json.dumps({"m": f"Hi{sign}{value}{sign}end", "no": number})
            texts += [message, json.dumps({"inner": message})]
    result = sanitize.redact(texts, plan=plan)
    assert result != texts
    for before, after in zip(texts, result, strict=True):
        parsed = json.loads(after)
        assert parsed.keys() == json.loads(before).keys()
        if "inner" in parsed:
            assert json.loads(parsed["inner"]).keys() == {"m", "no"}


def test_rmft_keeps_one_original_of_values_behind_escapes() -> None:
    value = "quinn.varl@example.net"
    texts = [f"Write to {value} please", *(f'{{"b": "m{no}\\n{value}"}}' for no in range(3))]
    result = sanitize.redact(texts, plan="rmft")
    assert sum(value in text for text in result) == 1
    assert result[0] == texts[0]
    assert [json.loads(text)["b"][:3] for text in result[1:]] == ["m0\n", "m1\n", "m2\n"]


def test_rmft_keeps_the_original_behind_an_escape_if_it_is_first() -> None:
    value = "quinn.varl@example.net"
    result = sanitize.redact([f'{{"b": "x\\n{value}"}}', f"Write to {value}"], plan="rmft")
    assert result[0] == f'{{"b": "x\\n{value}"}}'
    assert value not in result[1]
