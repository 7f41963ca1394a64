"""The pattern finder against a reference implementation with Python's `re`, span for span; and
expected findings, by hand."""

from __future__ import annotations

import functools
import re
import time
from collections import Counter

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sanitize.core.arrow_buffers import TextBuffers
from sanitize.core.keys import Key, compute_value_ids
from sanitize.core.span_table import SpanTable
from sanitize.finders import patterns
from sanitize.finders.patterns import PatternFinder
from sanitize.kinds.kind import (
    ASCII_WORD_CHARS,
    BOUNDARY,
    Kind,
    all_kinds,
    known_countries,
    list_kinds,
)
from sanitize.text.decodings.plain_readings import decode_hidden_characters
from sanitize.text.decodings.written_escapes import separate_escapes

KEY = Key.from_seed(7)
FINDER = PatternFinder(KEY)
COUNTRIES = known_countries()
ALL_COUNTRIES_FINDER = PatternFinder(KEY, COUNTRIES)
ADDRESS_FIELDS = {
    before + field
    for before in ("", "resent-", "x-", "x-original-")
    for field in (
        "from to cc bcc reply-to sender return-path delivered-to envelope-to envelope-from "
        "errors-to"
    ).split()
}
ID_FIELDS = (
    "message-id",
    "in-reply-to",
    "references",
    "resent-message-id",
    "content-id",
    "original-message-id",
)

# start, stop, start_byte, end_byte, kind, value, value_id, section
Row = tuple[int, int, int, int, str, str, int, str | None]


# --- the reference implementation -----------------------------------------------------------------


@functools.cache
def reference_pattern(
    countries: tuple[str, ...], phase: int, inside_url: bool = False
) -> re.Pattern[str]:
    """Returns the patterns of a phase as one alternation, in the syntax of Python's `re`."""
    patterns = [
        kind.pattern
        for kind in list_kinds(countries).values()
        if kind.pattern and kind.phase == phase and not (inside_url and kind.name == "URL")
    ]
    return re.compile("|".join(patterns).replace(BOUNDARY, r"\b").replace(r"\z", r"\Z"), re.ASCII)


@functools.cache
def reference_later_pattern(name: str, countries: tuple[str, ...], phase: int) -> re.Pattern[str]:
    """Returns the patterns of tokens or labelled values as one alternation; one that never matches
    where the phase has none."""
    patterns = [
        getattr(kind, name).pattern
        for kind in list_kinds(countries).values()
        if getattr(kind, name) and kind.phase == phase
    ]
    return re.compile(to_python("|".join(patterns or ["(?!)"])), re.ASCII)


@functools.cache
def reference_embedded_pattern(countries: tuple[str, ...], phase: int) -> re.Pattern[str]:
    """Returns the patterns of values inside words as one alternation; one that never matches where
    the phase has none."""
    patterns = [
        kind.embedded_pattern
        for kind in list_kinds(countries).values()
        if kind.embedded_pattern and kind.phase == phase
    ]
    return re.compile("|".join(patterns or ["(?!)"]).replace(BOUNDARY, r"\b"), re.ASCII)


def reference_find(
    text: str, countries: tuple[str, ...] = ()
) -> tuple[list[Row], Counter[tuple[str, str]]]:
    """Returns all occurrences in one text, and the rejected candidates by kind and reason."""
    rejected: Counter[tuple[str, str]] = Counter()
    spans: list[tuple[int, int, str, str | None]] = []
    for start, stop, kind, candidate_start in reference_phases(
        separate(text), text, text, rejected, countries
    ):
        section = reference_section(text, candidate_start)
        spans.append((start, stop, kind, section))
        if kind == "URL":
            searched = text[start:stop]
            for _, first, last in all_kinds()["URL"].find_opaque_parts(pl.Series([searched])):  # type: ignore[misc]
                searched = searched[:first] + "\x7f" * (last - first) + searched[last:]
            inner_spans = reference_phases(
                separate(searched, inside_urls=True), searched, None, rejected, countries
            )
            spans += [
                (start + first, start + last, name, section) for first, last, name, _ in inner_spans
            ]
    rows = []
    for start, stop, kind, section in sorted(spans, key=lambda span: (span[0], -span[1])):
        first = len(text[:start].encode())
        value = text[start:stop]
        rows.append(
            (
                start,
                stop,
                first,
                first + len(value.encode()),
                kind,
                value,
                reference_value_id(kind, value),
                section,
            )
        )
    return rows, rejected


def separate(text: str, *, inside_urls: bool = False) -> str:
    """The text with separators for escapes (tests/text/test_written_escapes.py)."""
    buffers = TextBuffers.from_array(pa.array([text], pa.large_string()))
    return separate_escapes(buffers, inside_urls=inside_urls).data.tobytes().decode()


def to_python(pattern: str) -> str:
    return pattern.replace(BOUNDARY, r"\b").replace(r"\z", r"\Z").replace("(?i-u:", "(?i:")


def reference_phases(
    text: str,
    written: str,
    mail: str | None,
    rejected: Counter[tuple[str, str]],
    countries: tuple[str, ...],
) -> list[tuple[int, int, str, int]]:
    """Returns the spans of all phases, their kinds, and the start of each one's candidate; a phase
    does not search earlier findings. `mail` is the text with its escapes, for sections; None for a
    text inside a value."""
    spans: list[tuple[int, int, str, int]] = []
    for phase in (1, 2, 3):
        for pattern in (
            reference_pattern(countries, phase, mail is None),
            reference_later_pattern("tokens", countries, phase),
            labelled := reference_later_pattern("labelled_text", countries, phase),
            reference_embedded_pattern(countries, phase),
        ):
            searched = written if pattern is labelled else text
            remaining_text = searched
            for start, stop, _, _ in spans:
                remaining_text = (
                    remaining_text[:start] + "\x7f" * (stop - start) + remaining_text[stop:]
                )
            for match in pattern.finditer(remaining_text):
                section = None if mail is None else reference_section(mail, match.start())
                span = reference_candidate(
                    searched,
                    *match.span(),
                    section,
                    rejected,
                    countries,
                    phase,
                    is_labelled=pattern is labelled,
                )
                if span is not None:
                    spans.append((*span, match.start()))
    return spans


def reference_candidate(
    text: str,
    start: int,
    stop: int,
    section: str | None,
    rejected: Counter[tuple[str, str]],
    countries: tuple[str, ...],
    phase: int,
    *,
    is_labelled: bool,
) -> tuple[int, int, str] | None:
    """Returns the span without brackets and its kind, or None if its check or its boundary rule
    rejects it."""
    bracketed = text[start] == "<" and text[stop - 1] == ">"
    start, stop = start + bracketed, stop - bracketed
    kind, reason, prefix_length, suffix_length = reference_kind(
        text[start:stop], bracketed, section, countries, phase, is_labelled
    )
    if kind is None:
        return None
    start, stop = start + prefix_length, stop - suffix_length
    if reason is None:
        rule = all_kinds()[kind]
        before, after = text[start - 1 : start].encode()[-1:], text[stop : stop + 1].encode()[:1]
        invalid_before = (
            not prefix_length
            and before
            and text[start].encode()[0] in ASCII_WORD_CHARS
            and before[0] in rule.not_preceded_by
        )
        invalid_after = (
            not suffix_length
            and after
            and text[stop - 1].encode()[-1] in ASCII_WORD_CHARS
            and after[0] in rule.not_followed_by
        )
        if invalid_before or invalid_after:
            reason = "boundary"
        elif reference_lacks_context(text, start, stop, rule):
            reason = "context"
        else:
            return start, stop, kind
    rejected[kind, reason] += 1
    return None


def reference_lacks_context(text: str, start: int, stop: int, kind: Kind) -> bool:
    """True if a value needs context, and its context does not satisfy the rule."""
    value = pl.Series("value", [text[start:stop]])
    if kind.needs_context is None or kind.context_rule is None or not kind.needs_context(value)[0]:
        return False
    before, after = (
        bytes(byte if byte < 128 else 32 for byte in piece.encode())
        for piece in (text[:start], text[stop:])
    )
    frame = pl.DataFrame(
        {
            "value": value,
            "before": [before[-48:].decode()],
            "spelled": [before[-48:].decode()],
            "after": [after[:16].decode()],
        }
    )
    return not kind.context_rule(frame)[0]


@functools.cache
def cut_text(match: re.Match[str] | None) -> str:
    """What a group matches, or all of a match without groups; nothing without a match."""
    return (
        ""
        if match is None
        else (
            next((text for text in match.groups() if text is not None), "")
            if match.re.groups
            else match[0]
        )
    )


def reference_kind(
    value: str,
    bracketed: bool,
    section: str | None,
    countries: tuple[str, ...],
    phase: int,
    is_labelled: bool,
) -> tuple[str | None, str | None, int, int]:
    """Returns the first kind that matches a candidate, why its check rejects it, and the characters
    of it before and after the value. A candidate that a national identifier rejects is offered to
    those of other countries."""
    frame = pl.DataFrame(
        {
            "value": [value],
            "bracketed": [bracketed],
            "id_field": [section in ID_FIELDS],
            "address_field": [section in ADDRESS_FIELDS],
        }
    )
    rejected: tuple[str | None, str | None, int, int] = (None, None, 0, 0)
    for kind in list_kinds(countries).values():
        if kind.phase != phase or not kind.pattern:
            continue
        if is_labelled and kind.accepts_labelled is None:
            continue
        accepts = kind.accepts_labelled if is_labelled else None
        if not (accepts(frame["value"]) if accepts else kind.is_value(frame))[0]:
            continue
        before = re.match(
            to_python(kind.prefix_pattern or ""),
            value,
            re.ASCII,
        )
        prefix_length = len(cut_text(before))
        after = (
            re.search(rf"(?:{kind.suffix_pattern})\z".replace(r"\z", r"\Z"), value)
            if kind.suffix_pattern
            else None
        )
        suffix_length = len(cut_text(after))
        reason = (
            kind.check(pl.Series([value[prefix_length : len(value) - suffix_length]]))[0]
            if kind.check is not None
            else None
        )
        if reason is None or kind.country is None:
            return kind.name, reason, prefix_length, suffix_length
        if rejected[0] is None:
            rejected = kind.name, reason, prefix_length, suffix_length
    return rejected


@functools.cache
def reference_value_id(kind: str, value: str) -> int:
    form = all_kinds()[kind].normalise(pl.Series([value]))[0]
    return int(compute_value_ids(pa.array([form], pa.large_string()), kind, KEY)[0])


def reference_section(text: str, position: int) -> str | None:
    """Returns the header field of a position, `body`, or None if the text is not a mail."""
    lines = text.split("\n")
    if lines[0].startswith("From ") and len(lines) > 1:
        lines = lines[1:]
    known_field = r"(?:[Ff]rom|FROM|[Tt]o|TO|[Dd]ate|DATE|[Ss]ubject|SUBJECT|[Mm]essage-[Ii][Dd]|[Rr]eceived|[Rr]eturn-[Pp]ath):"  # noqa: E501
    field = r"[A-Za-z][A-Za-z0-9-]*:(?!//)"  # a line that begins with a URL is no field
    second = next((line for line in lines[1:] if line[:1] not in (" ", "\t") or not line), "")
    if not re.match(known_field, lines[0]) and not (
        re.match(field, lines[0]) and re.match(field, second)
    ):
        return None
    end = text.find("\n\n")
    if end >= 0 and position >= end:
        return "body"
    begin = text.rfind("\n", 0, position) + 1
    while begin and text[begin] in " \t":
        begin = text.rfind("\n", 0, begin - 1) + 1
    name, colon, _ = text[begin:].split("\n")[0].partition(":")
    return name.lower() if colon and re.fullmatch("[!-9;-?A-~]{1,76}", name) else "header"


# --- comparing ------------------------------------------------------------------------------------


def list_rows(
    found: SpanTable, texts: list[str | None], kinds: list[Kind] = FINDER.kinds
) -> list[list[Row]]:
    """Returns the finder's results, text by text, in the format of the reference implementation."""
    out: list[list[Row]] = [[] for _ in texts]
    values, kind = found.values.value.to_pylist(), found.values.kind.tolist()
    ids = found.values.value_id.tolist()
    columns = (
        found.text_no,
        *found.find_code_points(pa.array([text or "" for text in texts], pa.large_string())),
        found.start_byte,
        found.end_byte,
        found.value_no,
        found.section_no,
    )
    for text_no, start, stop, first, last, value_no, section in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        name = None if section < 0 else found.section_names[section]
        out[text_no].append(
            (
                start,
                stop,
                first,
                last,
                kinds[kind[value_no]].name,
                values[value_no],
                ids[value_no],
                name,
            )
        )
    assert found.text_no.tolist() == sorted(found.text_no.tolist())
    return out


def count_rejected(found: SpanTable, kinds: list[Kind] = FINDER.kinds) -> Counter[tuple[str, str]]:
    return Counter(
        {
            (kinds[number].name, reason): count
            for (number, reason), count in found.skipped.items()
            if count
        }
    )


def build_column(texts: list[str | None]) -> pa.LargeStringArray:
    return pa.array(texts, pa.large_string())


def is_read_again(text: str) -> bool:
    """Whether a text has digits of other scripts or invisible characters, which the reference does
    not read."""
    buffers = TextBuffers.from_array(build_column([text]))
    return decode_hidden_characters(buffers, len(buffers.data)) is not None


def assert_matches_reference(
    texts: list[str], finder: PatternFinder = FINDER, countries: tuple[str, ...] = ()
) -> list[list[Row]]:
    """Asserts that both finders give the same results, offsets in bytes and code points included;
    returns them."""
    found = finder.run(build_column(texts))
    rows = list_rows(found, texts, finder.kinds)
    for text, text_rows in zip(texts, rows, strict=True):
        if not is_read_again(text):
            assert text_rows == reference_find(text, countries)[0]
        for start, stop, first, last, _, value, _, _ in text_rows:
            assert text[start:stop] == text.encode()[first:last].decode() == value
    return rows


TEXT_PIECES = [
    # escapes, and values inside words
    "\\n",
    "\\\\t",
    "\\u001b[32m",
    "\x1b[0m",
    "%0A",
    "=0A",
    "scan_",
    "ssn_123-45-6789",
    "id4111111111111111",
    "card_5555-5555-5555-4444_x",
    "iban_GB82WEST12345698765432",
    "x_1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
    # values of every kind, valid and almost valid
    "bob@example.com",
    "Bob.Mann@EXAMPLE.org",
    "o'neil@example.com",
    "kenneth..lee@mail.example.com",
    "bob@corp",
    "a@b@example.com",
    "@example.com",
    "bob@",
    "icon@2x.png",
    "<bob@example.com>",
    "<bob@corp>",
    "<<bob@example.com>>",
    "mailto:bob@example.com",
    "<mailto:bob@example.com>",
    "<200102031234.A1234$ab@host>",
    "<Pine.LNX.4.21.0010151234560.1234-100000@example.com>",
    "<bob.mann2001@example.com>",
    "<bob@example.com",
    "713-555-0123",
    "(713) 555-0123",
    "+1 713 555 0123",
    "1-713-555-0123 x12",
    "+49 30 555 0123 4",
    "555-0123",
    "713-555-0123-4",
    "93.184.216.34",
    "10.1.2.3",
    "1.2.3.4.5",
    "999.1.1.1",
    "127.0.0.1",
    "2001:db8::8a2e:370:7334",
    "fe80::1",
    "::ffff:192.0.2.1",
    "ab:cd:ef:01:23:45",
    "http://example.com/a?u=bob@example.com&b=1",
    "https://93.184.216.34:80/x",
    "www.example.com",
    "http://",
    "ftp://ftp.example.com/1.2.3.400",
    "HTTP://x@y/713-555-0123/",
    "4111 1111 1111 1111",
    "4111111111111112",
    "5555-5555-5555-4444",
    "3782 822463 10005",
    "GB82 WEST 1234 5698 7654 32",
    "GB82WEST12345698765433",
    "DE89370400440532013000",
    "123-45-6789",
    "000-12-3456",
    "123 45-6789",
    "AKIAIOSFODNN7EXAMPLE",
    "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "sk-ant-",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
    "https://user:pw@example.com/",
    "postgres://ann:s3cr3t@db.example.com:5432/x",
    "://:@",
    "-----BEGIN PRIVATE KEY-----",
    "MIIE+/\n",
    "-----END PRIVATE KEY-----",
    "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
    "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD",
    "00:1A:2b:3c:4d:5e",
    "001a.2b3c.4d5e",
    "12-34-56-78-90-12",
    "/O=EXAMPLE/OU=NA/CN=RECIPIENTS/CN=ALEE",
    "Ann Lee/HOU/EXAMPLE@EXAMPLE",
    "=3D",
    "=20",
    "=\n",
    "=\r\n",
    "%40",
    "bob at example dot com",
    " at ",
    " dot ",
    "com",
    "[at]",
    " (dot) ",
    "example",
    "bob＠example.com",
    "bob@bücher.example",
    "иван@пример.рф",
    "bob@xn--bcher-kva.example",
    "josé@example.com",
    "例子.中国",
    "version ",
    "§ ",
    # text between and around them
    "",
    " ",
    "\n",
    "\n\n",
    "\t",
    "\r\n",
    ".",
    ",",
    ";",
    ":",
    "-",
    "_",
    "+",
    "/",
    "=",
    "?",
    "@",
    "<",
    ">",
    "(",
    ")",
    "[",
    "]",
    "'",
    '"',
    "x",
    "X1",
    "7",
    "0",
    "é",
    "ß",
    "中文",
    "谢谢",
    "🙂",
    "👩\u200d👩",
    "e\u0301",
    "\u0301",
    "\u202eabc\u202c",
    "שלום",
    "\u00a0",
    "\u200b",
    "\ufeff",
    "\uff20",
    "ｂｏｂ",
    "\x00",
    "\x01",
    "\x02",
    "\x01\x02",
    "\x02\x01",
    "\x7f",
    "\u0660",
    "\U0010ffff",
    # header blocks
    "From: ",
    "To: Ann <",
    "\nTo: ",
    "\nReferences: ",
    "\n <",
    "Message-ID: ",
    "\nIn-Reply-To:\n\t",
    "From bob Mon Jan  1 12:00:00 2001\n",
    "X: y\nZ: ",
    "\nann@example.com: ",
]
TEXTS = st.lists(st.sampled_from(TEXT_PIECES), max_size=14).map("".join)


@pytest.mark.slow
@given(st.lists(TEXTS, max_size=12))
@settings(max_examples=40, deadline=None)
def test_spans_equal_the_reference_implementation(texts: list[str]) -> None:
    assert_matches_reference(texts)


# valid and almost valid numbers of several countries, in the forms they share with each other and
# with telephones and cards
NUMBERS = [
    "943 476 5919",
    "943-476-5919",
    "9434765919",
    "AB 12 34 56 C",
    "130 692 544",
    "123 456 782",
    "111222333",
    "86095742719",
    "44051401359",
    "10000000146",
    "111.444.777-35",
    "2341 2341 2346",
    "1234 5678 9018",
    "2 55 08 14 168 025 38",
    "255081416802538",
    "11010519491231002X",
    "8001015009087",
    "811228-9874",
    "131052-308T",
    "12345678Z",
    "RSSMRA85T10A562S",
    "801231-1234567",
    "ABCPE1234F",
    "NHS ",
    "NHS number: ",
    "BSN ",
    "SIN no. ",
    "TFN=",
    "CPF: ",
    "Steuer-ID ",
    "マイナンバー：",
    "713-555-0123",
    "4111 1111 1111 1111",
    "192.0.2.77",
    "bob@example.com",
    "http://example.com/9434765919",
    " ",
    "\n",
    "-",
    ".",
    "7",
    "x",
    "é",
]


@pytest.mark.slow
@given(st.lists(st.lists(st.sampled_from(NUMBERS), max_size=10).map("".join), max_size=12))
@settings(max_examples=40, deadline=None)
def test_numbers_of_all_countries_equal_the_reference(texts: list[str]) -> None:
    assert_matches_reference(texts, ALL_COUNTRIES_FINDER, COUNTRIES)


@example(["234686095742719"])  # rejected by one country first, then by the following kinds
@given(st.lists(st.lists(st.sampled_from(NUMBERS), max_size=10).map("".join), max_size=3))
@settings(max_examples=40, deadline=None)
def test_candidates_that_all_countries_reject_are_counted_once(texts: list[str]) -> None:
    expected: Counter[tuple[str, str]] = Counter()
    for text in texts:
        expected += reference_find(text, COUNTRIES)[1]
    assert (
        count_rejected(ALL_COUNTRIES_FINDER.run(build_column(texts)), ALL_COUNTRIES_FINDER.kinds)
        == expected
    )


@given(st.lists(st.sampled_from("ab7._-@+<>:/?=5 \n\x01é中4"), max_size=30).map("".join))
@settings(max_examples=100, deadline=None)
def test_noise_equals_the_reference(text: str) -> None:
    assert_matches_reference([text, "From: bob@example.com\n\n" + text])


@pytest.mark.slow
@given(st.lists(st.one_of(st.none(), TEXTS), min_size=1, max_size=6), st.data())
@settings(max_examples=30, deadline=None)
def test_slices_of_a_column_give_the_same_rows(
    texts: list[str | None], data: st.DataObject
) -> None:
    all_rows = list_rows(FINDER.run(build_column(texts)), texts)
    low = data.draw(st.integers(0, len(texts)))
    high = data.draw(st.integers(low, len(texts)))
    for first, last in ((0, low), (low, high), (high, len(texts))):
        part = build_column(texts).slice(first, last - first)
        assert list_rows(FINDER.run(part), texts[first:last]) == all_rows[first:last]


@pytest.mark.slow
@given(st.lists(TEXTS, max_size=4))
@settings(max_examples=40, deadline=None)
def test_rejected_candidates_are_counted_once_each(texts: list[str]) -> None:
    texts = [text for text in texts if not is_read_again(text)]
    expected: Counter[tuple[str, str]] = Counter()
    for text in texts:
        expected += reference_find(text)[1]
    assert count_rejected(FINDER.run(build_column(texts))) == expected


def test_rejected_counts_do_not_depend_on_the_batch() -> None:
    texts = ["see http://example.com/999.1.1.1 there", "and http://example.com/999.1.1.1 again"]
    separate_counts = count_rejected(FINDER.run(build_column(texts[:1]))) + count_rejected(
        FINDER.run(build_column(texts[1:]))
    )
    assert separate_counts == {("IP_ADDRESS", "range"): 2}
    assert count_rejected(FINDER.run(build_column(texts))) == separate_counts


def test_columns_of_nulls_and_empty_columns() -> None:
    for texts in ([], [None], [None, "", None]):
        found = FINDER.run(build_column(texts))
        assert len(found.text_no) == 0 and len(found.values.kind) == 0 and not found.skipped


def test_texts_do_not_run_into_each_other() -> None:
    texts = [
        "bob@exam",
        "ple.com",
        "713-555-",
        "0123",
        "x",
        "713-555-0123",
        "4",
        "<bob@example.com",
        ">",
        "a",
        "ann@example.com",
    ]
    rows = assert_matches_reference(texts)
    assert [[row[5] for row in text_rows] for text_rows in rows] == [
        [],
        [],
        [],
        [],
        [],
        ["713-555-0123"],
        [],
        ["bob@example.com"],
        [],
        [],
        ["ann@example.com"],
    ]


# text, then (kind, value) of every occurrence in order
CASES: list[tuple[str, list[tuple[str, str]]]] = [
    ("write to bob@example.com", [("EMAIL_ADDRESS", "bob@example.com")]),
    ("bob@example.com", [("EMAIL_ADDRESS", "bob@example.com")]),
    (
        "a@example.com;b@example.org,c@example.net , d@example.com",
        [
            ("EMAIL_ADDRESS", f"{name}@example.{tld}")
            for name, tld in (("a", "com"), ("b", "org"), ("c", "net"), ("d", "com"))
        ],
    ),
    ("mailto:bob@example.com", [("EMAIL_ADDRESS", "bob@example.com")]),
    ("<mailto:bob@example.com>", [("EMAIL_ADDRESS", "bob@example.com")]),
    ("Bob <Bob@Example.com>", [("EMAIL_ADDRESS", "Bob@Example.com")]),
    ("Bob <bob@example.com", [("EMAIL_ADDRESS", "bob@example.com")]),
    (
        "写信给bob@example.com谢谢🙂ann@example.org",
        [("EMAIL_ADDRESS", "bob@example.com"), ("EMAIL_ADDRESS", "ann@example.org")],
    ),
    (
        "Message-ID: <bob@example.com>\nFrom: <bob@example.com>\n\n<bob@example.com>",
        # a text like a person's address is one in any position
        [
            ("EMAIL_ADDRESS", "bob@example.com"),
            ("EMAIL_ADDRESS", "bob@example.com"),
            ("EMAIL_ADDRESS", "bob@example.com"),
        ],
    ),
    ("see <200102031234.A1234$ab@host> there", [("MESSAGE_ID", "200102031234.A1234$ab@host")]),
    (
        "Subject: x\nReferences: <a.1@example.com>\n <b.2@example.com>\n\nno <c.3@example.com>",
        [
            ("MESSAGE_ID", "a.1@example.com"),
            ("MESSAGE_ID", "b.2@example.com"),
            ("EMAIL_ADDRESS", "c.3@example.com"),
        ],
    ),
    # values inside a URL are found too
    (
        "go to http://www.example.com/?u=bob@example.com&x=1.",
        [
            ("URL", "http://www.example.com/?u=bob@example.com&x=1"),
            ("EMAIL_ADDRESS", "bob@example.com"),
        ],
    ),
    (
        "http://93.184.216.34:8080/x",
        [("URL", "http://93.184.216.34:8080/x"), ("IP_ADDRESS", "93.184.216.34")],
    ),
    (
        "http://example.com/713-555-0123/93.184.216.34/a@example.org",
        [
            ("URL", "http://example.com/713-555-0123/93.184.216.34/a@example.org"),
            ("PHONE_NUMBER", "713-555-0123"),
            ("IP_ADDRESS", "93.184.216.34"),
            ("EMAIL_ADDRESS", "a@example.org"),
        ],
    ),
    (
        "call 713-555-0123, (713) 555-0124",
        [("PHONE_NUMBER", "713-555-0123"), ("PHONE_NUMBER", "(713) 555-0124")],
    ),
    (
        "+1 713 555 0123 / 1.713.555.0124",
        [("PHONE_NUMBER", "+1 713 555 0123"), ("PHONE_NUMBER", "1.713.555.0124")],
    ),
    ("call 713-555-0123 x45.", [("PHONE_NUMBER", "713-555-0123 x45")]),
    # a candidate that fails its check is not offered to other kinds
    ("card 4111 1111 1111 1112", []),
    ("4111-1111-1111-1111", [("CREDIT_CARD", "4111-1111-1111-1111")]),
    ("000-12-3456 and 123-45-6789", [("US_SSN", "123-45-6789")]),
    (
        "GB82 WEST 1234 5698 7654 32 and GB82 WEST 1234 5698 7654 33",
        [("IBAN_CODE", "GB82 WEST 1234 5698 7654 32")],
    ),
    # no value is found next to a word character
    ("x713-555-0123, 713-555-0123y, 713-555-01234", []),
    ("bob@example.comé", [("EMAIL_ADDRESS", "bob@example.com")]),
    ("é713-555-0123é", [("PHONE_NUMBER", "713-555-0123")]),
    # the text itself contains the scanner's marks
    ("\x01bob@example.com\x02", [("EMAIL_ADDRESS", "bob@example.com")]),
    ("bob@exam\x01ple.com ann@example.com\x02", [("EMAIL_ADDRESS", "ann@example.com")]),
    ("\x02\x02\x01 713-555-0123\x01 \x00", [("PHONE_NUMBER", "713-555-0123")]),
]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=range(len(CASES)))
def test_expected_findings(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(row[4], row[5]) for row in assert_matches_reference([text])[0]] == expected


def test_expected_findings_in_one_column() -> None:
    rows = assert_matches_reference([text for text, _ in CASES])
    assert [[(row[4], row[5]) for row in text_rows] for text_rows in rows] == [
        expected for _, expected in CASES
    ]


def test_reasons_of_rejected_candidates() -> None:
    found = FINDER.run(
        build_column(
            [
                "4111 1111 1111 1112, 999.1.1.1, 1.2.3.4, 000-12-3456, icon@2x.png,"
                " x93.184.216.34-y93.184.216.34"
            ]
        )
    )
    assert count_rejected(found)["CREDIT_CARD", "luhn"] == 1
    assert count_rejected(found)["IP_ADDRESS", "range"] == 1
    assert count_rejected(found)["IP_ADDRESS", "version"] == 1
    assert count_rejected(found)["US_SSN", "range"] == 1
    assert count_rejected(found)["EMAIL_ADDRESS", "file_name"] == 1
    # a later phase searches what an earlier one rejected; without a context word it is not a
    # telephone number either
    assert {reason for kind, reason in count_rejected(found) if kind == "PHONE_NUMBER"} == {
        "context"
    }


def test_sections() -> None:
    mail = (
        "From: a@example.com\nTo: b@example.com,\n\tc@example.com\n\nd@example.com\nTo:"
        " http://e.example.com/?f@example.com"
    )
    names = [(row[5], row[7]) for row in assert_matches_reference([mail])[0]]
    assert names == [
        ("a@example.com", "from"),
        ("b@example.com", "to"),
        ("c@example.com", "to"),
        ("d@example.com", "body"),
        ("http://e.example.com/?f@example.com", "body"),
        ("f@example.com", "body"),
    ]
    assert [row[7] for row in assert_matches_reference(["no mail: a@example.com"])[0]] == [None]


def test_spellings_of_one_value_share_an_id_and_kinds_do_not() -> None:
    rows = assert_matches_reference(
        ["Bob@Example.com bob@example.com 713-555-0123 +1 (713) 555-0123 ann@example.com"]
    )[0]
    ids = {row[5]: row[6] for row in rows}
    assert ids["Bob@Example.com"] == ids["bob@example.com"]
    assert ids["713-555-0123"] == ids["+1 (713) 555-0123"]
    assert len(set(ids.values())) == 3
    assert all(0 <= value_id < 1 << 63 for value_id in ids.values())
    other_key = PatternFinder(Key.from_seed(8)).run(build_column(["bob@example.com"]))
    assert other_key.values.value_id[0] != ids["bob@example.com"]


def test_a_section_is_never_an_address() -> None:
    found = PatternFinder(KEY).run(
        pa.array(
            ["From: bo@example.org\nann.roe@example.com: dee@example.net\n\nbody\n"],
            pa.large_string(),
        )
    )
    assert [found.section_names[section] for section in found.section_no] == [
        "from",
        "header",
        "header",
    ]


def test_an_alternative_is_searched_only_in_texts_that_meet_its_conditions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scanned, archived = (
        "X-Virus-Scanned: amavisd-new at lists.example.org",
        "Cc: bob at lists.example.org",
    )
    form = next(
        one.pattern for one in list_kinds()["EMAIL_ADDRESS"].alternatives if len(one.conditions) > 1
    )
    original, searched_texts = patterns.find_matches_in, []

    def record_search(
        buffers: TextBuffers, rows: np.ndarray, pattern: str
    ) -> tuple[np.ndarray, np.ndarray]:
        if form in pattern:
            searched_texts.append(buffers.to_array().take(pa.array(rows)).to_pylist())
        return original(buffers, rows, pattern)

    monkeypatch.setattr(patterns, "find_matches_in", record_search)
    for texts, expected in (
        ([scanned], []),
        ([scanned, "a: b", "Cc: bob"], []),
        (["a", archived, scanned, archived], [archived, archived]),
        ([archived], [archived]),
        ([], []),
    ):
        searched_texts.clear()
        PatternFinder(KEY).run(build_column(texts))
        assert searched_texts == ([expected] if expected else [])


@pytest.mark.parametrize("letters", ["phs", "php", "hehp", "ehhe", "h", "pepshp", "hhh"])
def test_obfuscated_addresses_do_not_change_results_of_other_texts(letters: str) -> None:
    text_of_letter = {
        "p": "a@b.example.com, www.example.com 713-555-0123",
        "h": "x@example.com or <bob at example.com>, c@d.example.net",
        "s": "spelled out: bob at example dot com",
        "e": "",
    }
    texts = [text_of_letter[letter] for letter in letters]
    rows = assert_matches_reference(texts)
    assert rows == [assert_matches_reference([text])[0] for text in texts]
    assert [len(text_rows) for text_rows in rows] == [
        {"p": 3, "h": 3, "s": 1, "e": 0}[letter] for letter in letters
    ]


# --- values in the digits of other scripts, full width, with invisible characters ----------------

_ZEROS = "٠۰०০๐０𝟎၀០೦"  # Arabic, Persian, Devanagari, Bengali, Thai, full width, mathematical ...
_HIDDEN_VALUES = (  # kind, value, text around
    ("CREDIT_CARD", "4111 1111 1111 1111", "paid {} today"),
    ("US_SSN", "123-45-6789", "SSN: {}."),
    ("PHONE_NUMBER", "+44 20 7946 0958", "call {} or write"),
    ("PHONE_NUMBER", "2125550187", "phone: {}"),
    ("IP_ADDRESS", "203.0.113.77", "host {} is up"),
    ("EMAIL_ADDRESS", "bob.mann@example.com", "Bob {} wrote"),
)


def _find_with_ids(text: str) -> list[tuple[str, str, int]]:
    """Kind, text in the column and id of each value."""
    found = FINDER.run(pa.array(["x", text], pa.large_string()))
    assert found.text_no.tolist() == [1] * len(found)
    encoded = text.encode()
    rows = zip(found.kind, found.start_byte, found.end_byte, found.value_id, strict=True)
    values = found.values.value.take(pa.array(found.value_no)).to_pylist()
    pieces = [(FINDER.kinds[kind].name, encoded[a:b].decode(), no) for kind, a, b, no in rows]
    assert [piece[1] for piece in pieces] == values
    return pieces


def _to_full_width(value: str) -> str:
    return "".join(chr(ord(sign) + 0xFEE0) if sign > " " else sign for sign in value)


def test_a_long_key_with_a_hidden_character_is_found_whole() -> None:
    lines = "\n".join("MIIEpAIBAAKCAQEA" * 4 for _ in range(90))
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{lines}\n-----END RSA PRIVATE KEY-----"
    for at in (3000, len(key) - 40):
        spelling = key[:at] + "\u200b" + key[at:]
        assert [found for _, found, _ in _find_with_ids(f"key:\n{spelling}\n")] == [spelling]


@pytest.mark.parametrize(("kind", "value", "around"), _HIDDEN_VALUES)
def test_values_with_hidden_characters_are_found_as_the_plain_value(
    kind: str, value: str, around: str
) -> None:
    ((_, _, value_id),) = _find_with_ids(around.format(value))
    spellings = [_to_full_width(value)] + [
        value[:at] + hidden + value[at:]
        for hidden in ("\u200b", "\u00ad", "\u2060", "\u200d", "\u2066", "\ufeff\u200c")
        for at in (1, len(value) // 2, len(value) - 1)
        if not {value[at - 1], value[at]} & {" "}
    ]
    if "@" not in value:
        table = [
            str.maketrans("0123456789", "".join(chr(ord(zero) + no) for no in range(10)))
            for zero in _ZEROS
        ]
        spellings += [value.translate(one) for one in table]
        spellings.append("".join(sign + "\ufe0f\u20e3" * sign.isdigit() for sign in value))
    for spelling in spellings:
        ((found_kind, found, found_id),) = _find_with_ids(around.format(spelling))
        assert (found_kind, found_id) == (kind, value_id)
        assert found == spelling.rstrip("\ufe0f\u20e3")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("&#98;ob&#64;example&#46;com", ["&#98;ob&#64;example&#46;com"]),
        (
            '<a data-cfemail="5d3f323f1d38253c302d3138733e3230">x</a>',
            ["5d3f323f1d38253c302d3138733e3230"],
        ),
        ("写于２０２０年，共１２３人（见附录）", []),
        ("10² m², ½ cup, ①②③, 5\u200b0", []),
        ("data-cfemail='deadbeefdeadbeef' &#8217;&amp;&#65;", []),
        ("\ufeffHello می\u200cخواهم, \u202aabc\u202c", []),
    ],
)
def test_coded_addresses_and_texts_with_hidden_characters(text: str, values: list[str]) -> None:
    assert [found for _, found, _ in _find_with_ids(text)] == values


def test_digits_of_many_scripts_take_linear_time() -> None:
    def measure(size: int) -> float:
        digits = "".join(chr(ord(zero) + no % 10) for no in range(size // 10) for zero in _ZEROS)
        column = pa.array([digits], pa.large_string())
        start = time.process_time()
        FINDER.run(column)
        return time.process_time() - start

    measure(1000)
    assert measure(400_000) < 40 * max(measure(40_000), 0.01)
