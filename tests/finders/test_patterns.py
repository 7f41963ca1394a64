"""The pattern finder against a slow reference implementation with Python's `re`, span for span; and expected findings, by hand."""

from __future__ import annotations

import functools
import re
from collections import Counter

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sanitize.core.arrow_buffers import TextBuffers
from sanitize.core.keys import Key, compute_value_ids
from sanitize.finders import patterns
from sanitize.finders.patterns import Detections, PatternFinder
from sanitize.kinds.kind import ASCII_WORD_CHARS, BOUNDARY, Kind, all_kinds, known_countries, list_kinds

KEY = Key.from_seed(7)
FINDER = PatternFinder(KEY)
WORLD = known_countries()
EVERYWHERE = PatternFinder(KEY, WORLD)
ADDRESS_FIELDS = {
    before + field
    for before in ("", "resent-", "x-", "x-original-")
    for field in "from to cc bcc reply-to sender return-path delivered-to envelope-to envelope-from errors-to".split()
}
ID_FIELDS = ("message-id", "in-reply-to", "references", "resent-message-id", "content-id", "original-message-id")

# start, stop, start_byte, end_byte, kind, value, value_id, section
Row = tuple[int, int, int, int, str, str, int, str | None]


# --- the slow finder --------------------------------------------------------------------------------------------------------------


@functools.cache
def slow_pattern(home: tuple[str, ...], turn: int, inside: bool = False) -> re.Pattern[str]:
    """Returns the patterns of a phase as one alternation, in the syntax of Python's `re`."""
    some = [
        kind.pattern for kind in list_kinds(home).values() if kind.pattern and kind.phase == turn and not (inside and kind.name == "URL")
    ]
    return re.compile("|".join(some).replace(BOUNDARY, r"\b").replace(r"\z", r"\Z"), re.ASCII)


def slow(text: str, home: tuple[str, ...] = ()) -> tuple[list[Row], Counter[tuple[str, str]]]:
    """Returns all occurrences in one text, and the rejected candidates by kind and reason; `home`: countries of national identifiers."""
    skipped: Counter[tuple[str, str]] = Counter()
    spans: list[tuple[int, int, str, str | None]] = []
    for start, stop, kind, place in slow_turns(text, True, skipped, home):
        section = slow_section(text, place)
        spans.append((start, stop, kind, section))
        if kind == "URL":
            held = slow_turns(text[start:stop], False, skipped, home)
            spans += [(start + first, start + last, name, section) for first, last, name, _ in held]
    rows = []
    for start, stop, kind, section in sorted(spans, key=lambda span: (span[0], -span[1])):
        first = len(text[:start].encode())
        value = text[start:stop]
        rows.append((start, stop, first, first + len(value.encode()), kind, value, slow_id(kind, value), section))
    return rows, skipped


def slow_turns(text: str, outside: bool, skipped: Counter[tuple[str, str]], home: tuple[str, ...]) -> list[tuple[int, int, str, int]]:
    """Returns the spans of all phases, their kinds, and the start of each one's candidate; a phase does not search earlier findings."""
    spans: list[tuple[int, int, str, int]] = []
    seen = text
    for turn in (1, 2, 3):
        for match in slow_pattern(home, turn, not outside).finditer(seen):
            section = slow_section(text, match.start()) if outside else None
            taken = slow_candidate(text, *match.span(), section, skipped, home, turn)
            if taken is not None:
                spans.append((*taken, match.start()))
        for start, stop, _, _ in spans:
            seen = seen[:start] + "\x7f" * (stop - start) + seen[stop:]
    return spans


def slow_candidate(
    text: str, start: int, stop: int, section: str | None, skipped: Counter[tuple[str, str]], home: tuple[str, ...], turn: int
) -> tuple[int, int, str] | None:
    """Returns the span without brackets and its kind, or None if its check or its boundary rule rejects it."""
    bracketed = text[start] == "<" and text[stop - 1] == ">"
    start, stop = start + bracketed, stop - bracketed
    kind, reason, lead, trail = slow_kind(text[start:stop], bracketed, section, home, turn)
    if kind is None:
        return None
    start, stop = start + lead, stop - trail
    if reason is None:
        rule = all_kinds()[kind]
        before, after = text[start - 1 : start].encode()[-1:], text[stop : stop + 1].encode()[:1]
        left = not lead and before and text[start].encode()[0] in ASCII_WORD_CHARS and before[0] in rule.not_preceded_by
        right = not trail and after and text[stop - 1].encode()[-1] in ASCII_WORD_CHARS and after[0] in rule.not_followed_by
        if left or right:
            reason = "boundary"
        elif slow_doubt(text, start, stop, rule):
            reason = "context"
        else:
            return start, stop, kind
    skipped[kind, reason] += 1
    return None


def slow_doubt(text: str, start: int, stop: int, kind: Kind) -> bool:
    """True if a value needs context, and its context does not satisfy the rule."""
    value = pl.Series("value", [text[start:stop]])
    if kind.needs_context is None or kind.context_rule is None or not kind.needs_context(value)[0]:
        return False
    before, after = (bytes(byte if byte < 128 else 32 for byte in piece.encode()) for piece in (text[:start], text[stop:]))
    frame = pl.DataFrame(
        {"value": value, "before": [before[-48:].decode()], "spelled": [before[-48:].decode()], "after": [after[:16].decode()]}
    )
    return not kind.context_rule(frame)[0]


@functools.cache
def slow_kind(
    value: str, bracketed: bool, section: str | None, home: tuple[str, ...], turn: int
) -> tuple[str | None, str | None, int, int]:
    """Returns the first kind that matches a candidate, why its check rejects it, and the characters of it before and after the value.
    A candidate that a national identifier rejects is offered to those of other countries."""
    frame = pl.DataFrame(
        {"value": [value], "bracketed": [bracketed], "id_field": [section in ID_FIELDS], "address_field": [section in ADDRESS_FIELDS]}
    )
    refused: tuple[str | None, str | None, int, int] = (None, None, 0, 0)
    for kind in list_kinds(home).values():
        if kind.phase != turn or not kind.pattern or not kind.is_value(frame)[0]:
            continue
        before = re.match((kind.prefix_pattern or "").replace(BOUNDARY, r"\b").replace(r"\z", r"\Z"), value, re.ASCII)
        lead = before.end() if before else 0
        after = re.search(rf"(?:{kind.suffix_pattern})\z".replace(r"\z", r"\Z"), value[lead:]) if kind.suffix_pattern else None
        trail = len(after[0]) if after else 0
        reason = kind.check(pl.Series([value[lead : len(value) - trail]]))[0] if kind.check is not None else None
        if reason is None or kind.country is None:
            return kind.name, reason, lead, trail
        if refused[0] is None:
            refused = kind.name, reason, lead, trail
    return refused


@functools.cache
def slow_id(kind: str, value: str) -> int:
    form = all_kinds()[kind].normalise(pl.Series([value]))[0]
    return int(compute_value_ids(pa.array([form], pa.large_string()), kind, KEY)[0])


def slow_section(text: str, place: int) -> str | None:
    """Returns the header field of a position, `body`, or None if the text is not a mail."""
    lines = text.split("\n")
    if lines[0].startswith("From ") and len(lines) > 1:
        lines = lines[1:]
    known = r"(?:[Ff]rom|FROM|[Tt]o|TO|[Dd]ate|DATE|[Ss]ubject|SUBJECT|[Mm]essage-[Ii][Dd]|[Rr]eceived|[Rr]eturn-[Pp]ath):"
    field = r"[A-Za-z][A-Za-z0-9-]*:"
    second = next((line for line in lines[1:] if line[:1] not in (" ", "\t") or not line), "")
    if not re.match(known, lines[0]) and not (re.match(field, lines[0]) and re.match(field, second)):
        return None
    end = text.find("\n\n")
    if end >= 0 and place >= end:
        return "body"
    begin = text.rfind("\n", 0, place) + 1
    while begin and text[begin] in " \t":
        begin = text.rfind("\n", 0, begin - 1) + 1
    name, colon, _ = text[begin:].split("\n")[0].partition(":")
    return name.lower() if colon and re.fullmatch("[!-9;-?A-~]{1,76}", name) else "header"


# --- comparing --------------------------------------------------------------------------------------------------------------------


def rows_of(found: Detections, texts: list[str | None], known: list[Kind] = FINDER.kinds) -> list[list[Row]]:
    """Returns the finder's results, text by text, in the format of the reference implementation."""
    out: list[list[Row]] = [[] for _ in texts]
    values, kind = found.distinct.value.to_pylist(), found.distinct.kind.tolist()
    ids = found.distinct.value_id.tolist()
    columns = (found.text_no, found.start, found.end, found.start_byte, found.end_byte, found.value_no, found.section_no)
    for text_no, start, stop, first, last, which, section in zip(*(column.tolist() for column in columns), strict=True):
        name = None if section < 0 else found.section_names[section]
        out[text_no].append((start, stop, first, last, known[kind[which]].name, values[which], ids[which], name))
    assert found.text_no.tolist() == sorted(found.text_no.tolist())
    return out


def refused(found: Detections, known: list[Kind] = FINDER.kinds) -> Counter[tuple[str, str]]:
    return Counter({(known[number].name, reason): times for (number, reason), times in found.skipped.items() if times})


def column(texts: list[str | None]) -> pa.LargeStringArray:
    return pa.array(texts, pa.large_string())


def agree(texts: list[str], finder: PatternFinder = FINDER, home: tuple[str, ...] = ()) -> list[list[Row]]:
    """Asserts that both finders give the same results, offsets in bytes and code points included; returns them."""
    found = finder.run(column(texts))
    made = rows_of(found, texts, finder.kinds)
    for text, mine in zip(texts, made, strict=True):
        assert mine == slow(text, home)[0]
        for start, stop, first, last, _, value, _, _ in mine:
            assert text[start:stop] == text.encode()[first:last].decode() == value
    return made


PIECES = [
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
TEXTS = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)


@given(st.lists(TEXTS, max_size=12))
@settings(max_examples=150, deadline=None)
def test_agrees_with_the_slow_finder_span_for_span(texts: list[str]) -> None:
    agree(texts)


# numbers of several countries, whole and nearly, in the forms they share with each other and with telephones and cards
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


@given(st.lists(st.lists(st.sampled_from(NUMBERS), max_size=10).map("".join), max_size=12))
@settings(max_examples=60, deadline=None)
def test_agrees_on_numbers_of_all_countries(texts: list[str]) -> None:
    agree(texts, EVERYWHERE, WORLD)


@example(["234686095742719"])  # refused by a country first, and by what is asked behind it
@given(st.lists(st.lists(st.sampled_from(NUMBERS), max_size=10).map("".join), max_size=3))
@settings(max_examples=80, deadline=None)
def test_what_all_countries_refuse_is_counted_once(texts: list[str]) -> None:
    expected: Counter[tuple[str, str]] = Counter()
    for text in texts:
        expected += slow(text, WORLD)[1]
    assert refused(EVERYWHERE.run(column(texts)), EVERYWHERE.kinds) == expected


@given(st.lists(st.sampled_from("ab7._-@+<>:/?=5 \n\x01é中4"), max_size=30).map("".join))
@settings(max_examples=150, deadline=None)
def test_agrees_on_noise(text: str) -> None:
    agree([text, "From: bob@example.com\n\n" + text])


@given(st.lists(st.one_of(st.none(), TEXTS), min_size=1, max_size=6), st.data())
@settings(max_examples=80, deadline=None)
def test_every_split_of_a_column_gives_the_same(texts: list[str | None], data: st.DataObject) -> None:
    whole = rows_of(FINDER.run(column(texts)), texts)
    low = data.draw(st.integers(0, len(texts)))
    high = data.draw(st.integers(low, len(texts)))
    for first, last in ((0, low), (low, high), (high, len(texts))):
        part = column(texts).slice(first, last - first)
        assert rows_of(FINDER.run(part), texts[first:last]) == whole[first:last]


@given(st.lists(TEXTS, max_size=4))
@settings(max_examples=80, deadline=None)
def test_refused_candidates_are_counted_once_each(texts: list[str]) -> None:
    expected: Counter[tuple[str, str]] = Counter()
    for text in texts:
        expected += slow(text)[1]
    assert refused(FINDER.run(column(texts))) == expected


def test_refused_candidates_do_not_hang_on_the_batch() -> None:
    texts = ["see http://example.com/999.1.1.1 there", "and http://example.com/999.1.1.1 again"]
    one_by_one = refused(FINDER.run(column(texts[:1]))) + refused(FINDER.run(column(texts[1:])))
    assert one_by_one == {("IP_ADDRESS", "range"): 2}
    assert refused(FINDER.run(column(texts))) == one_by_one


def test_a_column_of_nulls_and_of_nothing() -> None:
    for texts in ([], [None], [None, "", None]):
        found = FINDER.run(column(texts))
        assert len(found.text_no) == 0 and len(found.distinct.kind) == 0 and not found.skipped


def test_texts_do_not_run_into_each_other() -> None:
    texts = ["bob@exam", "ple.com", "713-555-", "0123", "x", "713-555-0123", "4", "<bob@example.com", ">", "a", "ann@example.com"]
    made = agree(texts)
    assert [[row[5] for row in mine] for mine in made] == [
        [], [], [], [], [], ["713-555-0123"], [], ["bob@example.com"], [], [], ["ann@example.com"]
    ]  # fmt: skip


# text, then (kind, value) of every occurrence in order
CASES: list[tuple[str, list[tuple[str, str]]]] = [
    ("write to bob@example.com", [("EMAIL_ADDRESS", "bob@example.com")]),
    ("bob@example.com", [("EMAIL_ADDRESS", "bob@example.com")]),
    (
        "a@example.com;b@example.org,c@example.net , d@example.com",
        [("EMAIL_ADDRESS", f"{name}@example.{tld}") for name, tld in (("a", "com"), ("b", "org"), ("c", "net"), ("d", "com"))],
    ),
    ("mailto:bob@example.com", [("EMAIL_ADDRESS", "bob@example.com")]),
    ("<mailto:bob@example.com>", [("EMAIL_ADDRESS", "bob@example.com")]),
    ("Bob <Bob@Example.com>", [("EMAIL_ADDRESS", "Bob@Example.com")]),
    ("Bob <bob@example.com", [("EMAIL_ADDRESS", "bob@example.com")]),
    ("写信给bob@example.com谢谢🙂ann@example.org", [("EMAIL_ADDRESS", "bob@example.com"), ("EMAIL_ADDRESS", "ann@example.org")]),
    (
        "Message-ID: <bob@example.com>\nFrom: <bob@example.com>\n\n<bob@example.com>",
        # a text like a person's address is one in any position
        [("EMAIL_ADDRESS", "bob@example.com"), ("EMAIL_ADDRESS", "bob@example.com"), ("EMAIL_ADDRESS", "bob@example.com")],
    ),
    ("see <200102031234.A1234$ab@host> there", [("MESSAGE_ID", "200102031234.A1234$ab@host")]),
    (
        "Subject: x\nReferences: <a.1@example.com>\n <b.2@example.com>\n\nno <c.3@example.com>",
        [("MESSAGE_ID", "a.1@example.com"), ("MESSAGE_ID", "b.2@example.com"), ("EMAIL_ADDRESS", "c.3@example.com")],
    ),
    # values inside a URL are found too
    (
        "go to http://www.example.com/?u=bob@example.com&x=1.",
        [("URL", "http://www.example.com/?u=bob@example.com&x=1"), ("EMAIL_ADDRESS", "bob@example.com")],
    ),
    ("http://93.184.216.34:8080/x", [("URL", "http://93.184.216.34:8080/x"), ("IP_ADDRESS", "93.184.216.34")]),
    (
        "http://example.com/713-555-0123/93.184.216.34/a@example.org",
        [
            ("URL", "http://example.com/713-555-0123/93.184.216.34/a@example.org"),
            ("PHONE_NUMBER", "713-555-0123"),
            ("IP_ADDRESS", "93.184.216.34"),
            ("EMAIL_ADDRESS", "a@example.org"),
        ],
    ),
    ("call 713-555-0123, (713) 555-0124", [("PHONE_NUMBER", "713-555-0123"), ("PHONE_NUMBER", "(713) 555-0124")]),
    ("+1 713 555 0123 / 1.713.555.0124", [("PHONE_NUMBER", "+1 713 555 0123"), ("PHONE_NUMBER", "1.713.555.0124")]),
    ("call 713-555-0123 x45.", [("PHONE_NUMBER", "713-555-0123 x45")]),
    # a candidate that fails its check is not offered to other kinds
    ("card 4111 1111 1111 1112", []),
    ("4111-1111-1111-1111", [("CREDIT_CARD", "4111-1111-1111-1111")]),
    ("000-12-3456 and 123-45-6789", [("US_SSN", "123-45-6789")]),
    ("GB82 WEST 1234 5698 7654 32 and GB82 WEST 1234 5698 7654 33", [("IBAN_CODE", "GB82 WEST 1234 5698 7654 32")]),
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
def test_what_is_found(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(row[4], row[5]) for row in agree([text])[0]] == expected


def test_all_cases_at_once() -> None:
    made = agree([text for text, _ in CASES])
    assert [[(row[4], row[5]) for row in mine] for mine in made] == [expected for _, expected in CASES]


def test_reasons_of_refused_candidates() -> None:
    found = FINDER.run(column(["4111 1111 1111 1112, 999.1.1.1, 1.2.3.4, 000-12-3456, icon@2x.png, x93.184.216.34-y93.184.216.34"]))
    assert refused(found)["CREDIT_CARD", "luhn"] == 1
    assert refused(found)["IP_ADDRESS", "range"] == 1
    assert refused(found)["IP_ADDRESS", "version"] == 1
    assert refused(found)["US_SSN", "range"] == 1
    assert refused(found)["EMAIL_ADDRESS", "file_name"] == 1
    # a later phase searches what an earlier one rejected; without a context word it is not a telephone number either
    assert {reason for kind, reason in refused(found) if kind == "PHONE_NUMBER"} == {"context"}


def test_sections() -> None:
    mail = "From: a@example.com\nTo: b@example.com,\n\tc@example.com\n\nd@example.com\nTo: http://e.example.com/?f@example.com"
    names = [(row[5], row[7]) for row in agree([mail])[0]]
    assert names == [
        ("a@example.com", "from"),
        ("b@example.com", "to"),
        ("c@example.com", "to"),
        ("d@example.com", "body"),
        ("http://e.example.com/?f@example.com", "body"),
        ("f@example.com", "body"),
    ]
    assert [row[7] for row in agree(["no mail: a@example.com"])[0]] == [None]


def test_spellings_of_one_value_share_an_id_and_kinds_do_not() -> None:
    made = agree(["Bob@Example.com bob@example.com 713-555-0123 +1 (713) 555-0123 ann@example.com"])[0]
    ids = {row[5]: row[6] for row in made}
    assert ids["Bob@Example.com"] == ids["bob@example.com"]
    assert ids["713-555-0123"] == ids["+1 (713) 555-0123"]
    assert len(set(ids.values())) == 3
    assert all(0 <= one < 1 << 63 for one in ids.values())
    other = PatternFinder(Key.from_seed(8)).run(column(["bob@example.com"]))
    assert other.distinct.value_id[0] != ids["bob@example.com"]


def test_a_section_is_never_an_address() -> None:
    found = PatternFinder(KEY).run(pa.array(["From: bo@example.org\nann.roe@example.com: dee@example.net\n\nbody\n"], pa.large_string()))
    assert [found.section_names[section] for section in found.section_no] == ["from", "header", "header"]


def test_a_form_is_looked_for_in_the_texts_that_hold_all_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    scanned, archived = "X-Virus-Scanned: amavisd-new at lists.example.org", "Cc: bob at lists.example.org"
    form = next(form for needs, form in list_kinds()["EMAIL_ADDRESS"].prefilter if len(needs) > 1)
    real, asked = patterns.find_matches, []

    def seen(buffers: TextBuffers, pattern: str) -> tuple[np.ndarray, np.ndarray]:
        if form in pattern:
            asked.append(buffers.to_array().to_pylist())
        return real(buffers, pattern)

    monkeypatch.setattr(patterns, "find_matches", seen)
    for texts, there in (
        ([scanned], []),
        ([scanned, "a: b", "Cc: bob"], []),
        (["a", archived, scanned, archived], [archived, archived]),
        ([archived], [archived]),
        ([], []),
    ):
        asked.clear()
        PatternFinder(KEY).run(column(texts))
        assert asked == ([there] if there else [])


@pytest.mark.parametrize("shape", ["phs", "php", "hehp", "ehhe", "h", "pepshp", "hhh"])
def test_texts_that_hold_a_hidden_address_change_nothing_for_those_beside_them(shape: str) -> None:
    text = {
        "p": "a@b.example.com, www.example.com 713-555-0123",
        "h": "x@example.com or <bob at example.com>, c@d.example.net",
        "s": "spelled out: bob at example dot com",
        "e": "",
    }
    texts = [text[one] for one in shape]
    made = agree(texts)
    assert made == [agree([one])[0] for one in texts]
    assert [len(rows) for rows in made] == [{"p": 3, "h": 3, "s": 1, "e": 0}[one] for one in shape]
