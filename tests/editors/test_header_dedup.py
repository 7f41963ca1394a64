"""Header deduplication, compared with a plain reference that reads every mail by line and every
address list by character."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sanitize.editors import header_dedup
from sanitize.pipeline.run import run_with_settings
from sanitize.pipeline.run_results import RunResult
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.text.mail_headers import ADDRESS_LIST_FIELDS

MAIL = Path(__file__).resolve().parents[3] / "shared" / "data" / "mail"
QUOTED = {
    name.replace("_", " "): english
    for english, names in {
        "from": "from von de da van",
        "to": "to an à para a aan",
        "cc": "cc",
        "bcc": "bcc",
        "sent": "sent gesendet envoyé enviado enviado_el inviato verzonden",
        "date": "date datum fecha data",
        "subject": "subject betreff objet asunto oggetto assunto onderwerp",
        "reply-to": "reply-to antwort_an répondre_à responder_a",
        "sender": "sender",
    }.items()
    for name in names.split()
}
QUOTED_LISTS = {"from", "to", "cc", "bcc", "reply-to", "sender"}
Span = tuple[int, int, int]  # first code point, code point after, identity

# ---- the reference implementation ----------------------------------------------------------------


def split_lines(text: str) -> list[tuple[int, str]]:
    """The lines of a text with their line feeds, and the offset of each."""
    lines, offset = [], 0
    for line in re.findall(r"[^\n]*\n|[^\n]+\Z", text):
        lines.append((offset, line))
        offset += len(line)
    return lines


def count_header_lines(lines: Sequence[tuple[int, str]]) -> int:
    """The number of lines in the header block at the start of a text."""
    rows = [line for _, line in lines]
    first = 1 if rows and rows[0].startswith("From ") and rows[0].endswith("\n") else 0
    known_names = (
        "From",
        "from",
        "FROM",
        "To",
        "to",
        "TO",
        "Date",
        "date",
        "DATE",
        "Subject",
        "subject",
        "SUBJECT",
    )
    known_names += tuple(
        a + b
        for a, b in (("Message-", "ID"), ("Message-", "Id"), ("Message-", "iD"), ("Message-", "id"))
    )
    known_names += tuple(
        a + b for a in ("M", "m") for b in ("essage-ID", "essage-Id", "essage-iD", "essage-id")
    )
    known_names += ("Received", "received", *(f"{a}eturn-{b}ath" for a in "Rr" for b in "Pp"))

    def has_field_name(line: str) -> bool:
        name, colon, rest = line.partition(":")
        return (
            bool(colon)
            and re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", name) is not None
            and not rest.startswith("//")
        )

    def starts_header(first: int) -> bool:
        rest = rows[first:]
        if rest and ":" in rest[0] and rest[0].partition(":")[0] in known_names:
            return True
        if not rest or not has_field_name(rest[0]):
            return False
        next_line = 1
        while (
            next_line < len(rest)
            and rest[next_line][:1] in (" ", "\t")
            and rest[next_line].endswith("\n")
        ):
            next_line += 1
        return rest[0].endswith("\n") and next_line < len(rest) and has_field_name(rest[next_line])

    if not (starts_header(first) or starts_header(0)):
        return 0
    return next((no for no, line in enumerate(rows) if no and line in ("\n", "\r\n")), len(rows))


def get_quote_marks(line: str) -> str:
    offset = 0
    while line.startswith((">", " >"), offset):
        offset += 1 if line[offset] == ">" else 2
    return line[:offset]


def match_quoted_field(line: str) -> str | None:
    rest = line[len(get_quote_marks(line)) :].lstrip(" \t").removeprefix("*")
    for name, english in QUOTED.items():
        if rest[: len(name)].lower() == name and rest[len(name) :].removeprefix("*").lstrip(
            " \t\u00a0\u202f"
        ).startswith(":"):
            return english
    return None


def is_quoted_fold(line: str) -> bool:
    rest = line[len(get_quote_marks(line)) :]
    content = rest.lstrip(" \t")
    return len(content) < len(rest) and content[:1] not in ("", "\r", "\n", ">")


def find_fields(text: str) -> list[tuple[int, int, str, bool]]:
    """Every header line of a text: start, end, field name (empty if it is no field), and whether it
    lists addresses."""
    lines = split_lines(text)
    header_count = count_header_lines(lines)
    fields = []
    line_no = 0
    while line_no < len(lines):
        begin, line = lines[line_no]
        last = line_no + 1
        if line_no < header_count:
            while last < header_count and lines[last][1][0] in " \t":
                last += 1
            match = re.match(r"([!-9;-?A-~]+)[ \t]*:", line)
            name = match[1].lower() if match else ""
            fields.append(
                (
                    begin,
                    lines[last - 1][0] + len(lines[last - 1][1]),
                    name,
                    match is not None and name in ADDRESS_LIST_FIELDS,
                )
            )
        elif (name := match_quoted_field(line)) is not None:
            marks = get_quote_marks(line)
            while (
                last < len(lines)
                and is_quoted_fold(lines[last][1])
                and match_quoted_field(lines[last][1]) is None
                and get_quote_marks(lines[last][1]) == marks
            ):
                last += 1
            neighbours = [
                lines[no][1] for no in (line_no - 1, last) if header_count <= no < len(lines)
            ]
            if any(
                match_quoted_field(neighbour) is not None and get_quote_marks(neighbour) == marks
                for neighbour in neighbours
            ):
                fields.append(
                    (
                        begin,
                        lines[last - 1][0] + len(lines[last - 1][1]),
                        name,
                        name in QUOTED_LISTS,
                    )
                )
        line_no = last
    return fields


def trim_span(text: str, begin: int, end: int) -> tuple[int, int]:
    """A span without white space, and without the marks that quoted lines begin with."""
    while begin < end and text[begin] in " \t\r\n":
        begin += 1
        if text[begin - 1] == "\n":
            begin = min(begin + len(get_quote_marks(text[begin:end])), end)
    match = re.search(r"(?:[ \t\r]|\n(?: ?>)*)*\Z", text[begin:end])
    assert match
    return begin, begin + match.start()


def find_entries(text: str, begin: int, end: int) -> list[tuple[int, int]]:
    """The entries of an address list, without blank entries."""
    commas, position = [], begin
    while position < end:
        letter, close = text[position], -1
        if letter == '"':
            close = position + 1
            while close < end and text[close] != '"':
                close += 2 if text[close] == "\\" else 1
        elif letter == "(":
            close = position + 1
            while close < end and text[close] not in "()":
                close += 2 if text[close] == "\\" else 1
            close = close if close < end and text[close] == ")" else -1
        elif letter == "<":
            close = next((no for no in range(position + 1, end) if text[no] in "<>"), -1)
            close = close if close > 0 and text[close] == ">" else -1
        elif letter in ",;":
            commas.append(position)
        position = close + 1 if 0 < close < end else position + 1
    edges = [begin - 1, *commas, end]
    pieces = [[low + 1, high] for low, high in zip(edges[:-1], edges[1:], strict=True)]
    joins = []
    for (low, high), (low_2, high_2) in zip(pieces[:-1], pieces[1:], strict=True):
        (a, b), (c, _) = trim_span(text, low, high), trim_span(text, low_2, high_2)
        word = a < b and not set(text[a:b]) & set(' \t\r\n,;<>@"()')
        joins.append(
            text[high] == ","
            and word
            and re.match(r'[^ \t\r\n<>@",;():][^<>@",;():]*<[^<>]*>', text[c:high_2]) is not None
        )
    merged = [pieces[0]]
    for piece, join in zip(pieces[1:], joins, strict=True):
        if join:
            merged[-1] = [merged[-1][0], piece[1]]
        else:
            merged.append(piece)
    return [(a, b) for a, b in (trim_span(text, *piece) for piece in merged) if a < b]


def reference_dedup(mails: Sequence[tuple[str, Sequence[Span]]], scope: str) -> list[str]:
    """The mails after header deduplication; each is given with the addresses that occur in it."""
    seen_values: set[int] = set()
    output_texts = []
    for text, spans in mails:
        removed_spans: list[tuple[int, int]] = []
        for begin, end, name, is_list in find_fields(text):
            field_spans = [span for span in spans if begin <= span[0] < end]
            if scope == "line":
                if {span[2] for span in field_spans} & seen_values:
                    removed_spans.append((begin, end))
                else:
                    seen_values |= {span[2] for span in field_spans}
                continue
            if not field_spans:
                continue
            if is_list:
                entries = find_entries(text, text.index(":", begin) + 1, end)
            else:
                wrapped = [
                    text[a - 1 : a] == "<" and a > 0 and text[b : b + 1] == ">"
                    for a, b, _ in field_spans
                ]
                entries = [
                    (a - wrap, b + wrap)
                    for (a, b, _), wrap in zip(field_spans, wrapped, strict=True)
                ]
            is_duplicate = []
            for low, high in entries:
                values = {value for a, _, value in field_spans if low <= a < high}
                is_duplicate.append(bool(values & seen_values))
                seen_values |= set() if is_duplicate[-1] else values
            low, high = entries[0]
            is_single = len(entries) == 1 and name and text.find(":", begin, low) >= 0
            is_bare = is_single and not (
                text[text.index(":", begin) + 1 : low] + text[high:end]
            ).strip(" \t\r\n")
            if is_duplicate and all(is_duplicate) and (is_list or is_bare):
                removed_spans.append((begin, end))
            elif is_list:
                first = is_duplicate.index(False)
                if first:
                    removed_spans.append((entries[0][0], entries[first][0]))
                removed_spans += [
                    (entries[no - 1][1], entries[no][1])
                    for no in range(first, len(entries))
                    if is_duplicate[no]
                ]
            else:
                removed_spans += [
                    entry
                    for entry, duplicate in zip(entries, is_duplicate, strict=True)
                    if duplicate
                ]
        for low, high in sorted(removed_spans, reverse=True):
            text = text[:low] + text[high:]
        output_texts.append(text)
    return output_texts


# ---- running it ----------------------------------------------------------------------------------


PLAN = """publishable = false
[find]
kinds = ["EMAIL_ADDRESS"]
[[edit]]
use = "header_dedup"
kinds = ["EMAIL_ADDRESS"]
"""


def write_plan(folder: Path, scope: str) -> str:
    path = folder / f"{scope}.toml"
    path.write_text(PLAN + f'scope = "{scope}"\n')
    return str(path)


def run_dedup(
    folder: Path, source: Path, scope: str, columns: dict[str, Any] | None = None, **options: Any
) -> tuple[RunResult, list[str]]:
    """The summary and the output texts."""
    run_settings = Settings(seed=1, workers=1, **(columns or {}), **options)
    summary = run_with_settings(
        [source],
        folder / f"out-{scope}",
        load_plan(write_plan(folder, scope)),
        folder / "work",
        run_settings,
    )
    files = sorted((folder / f"out-{scope}" / "data").iterdir())
    return summary, [
        text for file in files for text in pq.read_table(file, columns=["text"])["text"].to_pylist()
    ]


def read_mails(folder: Path, texts: Sequence[str]) -> list[tuple[str, list[Span]]]:
    """The texts with the addresses that the index holds."""
    mails: list[tuple[str, list[Span]]] = [(text, []) for text in texts]
    for file in sorted((folder / "work" / "tables" / "occurrences").iterdir()):
        for row in pq.read_table(
            file, columns=["doc_no", "cell", "start", "end", "kind", "value_id"]
        ).to_pylist():
            if row["kind"] == "EMAIL_ADDRESS" and row["cell"] == 0:
                mails[row["doc_no"]][1].append((row["start"], row["end"], row["value_id"]))
    return mails


def run_both(
    folder: Path, texts: Sequence[str], scope: str, **options: Any
) -> tuple[RunResult, list[str], list[str]]:
    """The summary, the output texts, and the texts of the reference."""
    pq.write_table(
        pa.table({"text": pa.array(texts, pa.string())}), folder / "in.parquet", row_group_size=3
    )
    summary, got = run_dedup(folder, folder / "in.parquet", scope, **options)
    return summary, got, reference_dedup(read_mails(folder, texts), scope)


ANN, BOB, CY = "ann@example.com", "bob@example.com", "cy@example.org"
FIRST_MAIL = f"From: Ann Roe <{ANN}>\nTo: {BOB}\n\nhello\n"

# a second mail after FIRST_MAIL, and its expected output with the scopes `address` and `line`
CASES = {
    "a field with one address is removed as a line": (
        f"From: x\nTo: {BOB}\nSubject: s\n\nb",
        "From: x\nSubject: s\n\nb",
        None,
    ),
    "the first of several": (f"To: {BOB}, new@example.com\n\nb", "To: new@example.com\n\nb", "\nb"),
    "the last of several": (f"To: new@example.com, {BOB}\n\nb", "To: new@example.com\n\nb", "\nb"),
    "one in the middle": (
        f"To: a@example.com,{BOB} , c@example.com\n\nb",
        "To: a@example.com , c@example.com\n\nb",
        "\nb",
    ),
    "two next to each other": (
        f"To: a@example.com, {BOB}, {ANN}, c@example.com\n\nb",
        "To: a@example.com, c@example.com\n\nb",
        "\nb",
    ),
    "the display name is removed with its address": (
        f'To: "Mann, Bob" <{BOB}>, Cy Day <{CY}>\n\nb',
        f"To: Cy Day <{CY}>\n\nb",
        "\nb",
    ),
    "a name with a bare comma": (
        f"To: Cy <{CY}>, Mann, Bob <{BOB}>\n\nb",
        f"To: Cy <{CY}>\n\nb",
        "\nb",
    ),
    "a comment": (f"To: {BOB} (Bob, at work), {CY}\n\nb", f"To: {CY}\n\nb", "\nb"),
    "a name without an address is kept": (
        f"X-To: Cy Day, {BOB}\nX-From: Ann\n\nb",
        "X-To: Cy Day\nX-From: Ann\n\nb",
        "X-From: Ann\n\nb",
    ),
    "X-From and X-To": (
        f"X-From: {ANN}\nX-To: Bob <{BOB}>\nX-Folder: f\n\nb",
        "X-Folder: f\n\nb",
        "X-Folder: f\n\nb",
    ),
    "semicolons": (f"To: {BOB}; {CY}\n\nb", f"To: {CY}\n\nb", "\nb"),
    "folded, one": (
        f"To: {CY},\n\t{BOB},\n\td@example.com\nX-Y: z\n\nb",
        f"To: {CY},\n\td@example.com\nX-Y: z\n\nb",
        "X-Y: z\n\nb",
    ),
    "folded, all": (f"To: {ANN},\n {BOB}\nX-Y: z\n\nb", "X-Y: z\n\nb", "X-Y: z\n\nb"),
    "other letter case": (f"To: BOB@Example.com\n\n{BOB}", f"\n{BOB}", f"\n{BOB}"),
    "name equal to the address": (
        'To: "n@example.com" <n@example.com>\n\nb',
        'To: "n@example.com" <n@example.com>\n\nb',
        None,
    ),
    "not in the body": (f"Subject: s\n\n{ANN} {BOB}", f"Subject: s\n\n{ANN} {BOB}", None),
    "field without an address list": (
        f"Subject: for <{BOB}> only\nX-Y: {ANN}\n\nb",
        "Subject: for  only\n\nb",
        "\nb",
    ),
    "forwarded": (
        (
            f"Subject: s\n\n-----Original Message-----\nFrom: {ANN}\nSent: today\nTo: {BOB};"
            f" {CY}\nSubject: t\n\nTo: {BOB}\n"
        ),
        (
            f"Subject: s\n\n-----Original Message-----\nSent: today\nTo: {CY}\nSubject: t\n\nTo:"
            f" {BOB}\n"
        ),
        f"Subject: s\n\n-----Original Message-----\nSent: today\nSubject: t\n\nTo: {BOB}\n",
    ),
    "quoted and folded": (
        f"Subject: s\n\n> From: d@example.com\n> To: {CY},\n>   {BOB}\n> Subject: t\n>\n> {BOB}",
        f"Subject: s\n\n> From: d@example.com\n> To: {CY}\n> Subject: t\n>\n> {BOB}",
        f"Subject: s\n\n> From: d@example.com\n> Subject: t\n>\n> {BOB}",
    ),
    "quoted in German": (
        (
            f"Subject: s\n\n> Von: Ann Roe <{ANN}>\n> Gesendet: heute\n> An: Bob <{BOB}>; {CY}\n>"
            f" Betreff: t\n>\n> an {BOB}"
        ),
        f"Subject: s\n\n> Gesendet: heute\n> An: {CY}\n> Betreff: t\n>\n> an {BOB}",
        f"Subject: s\n\n> Gesendet: heute\n> Betreff: t\n>\n> an {BOB}",
    ),
    "another depth is no neighbour": (
        f"Subject: s\n\n> To: {BOB}\n>> Subject: t\n",
        f"Subject: s\n\n> To: {BOB}\n>> Subject: t\n",
        None,
    ),
    "no mail at all": (f"write to {BOB}, please", f"write to {BOB}, please", None),
    "carriage returns": (
        f"To: {CY},\r\n {BOB}\r\nX-Y: z\r\n\r\nb",
        f"To: {CY}\r\nX-Y: z\r\n\r\nb",
        "X-Y: z\r\n\r\nb",
    ),
    "a header without its line feed": (f"Subject: s\nTo: {BOB}", "Subject: s\n", "Subject: s\n"),
    "a From line": (
        f"From {BOB} Mon Jan 1\nSubject: s\n\nb",
        "From  Mon Jan 1\nSubject: s\n\nb",
        "Subject: s\n\nb",
    ),
}


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], tuple[str, str]]:
    """All cases in one run per scope: each case has its own domain."""
    results: dict[tuple[str, str], tuple[str, str]] = {}
    for scope in ("address", "line"):
        folder = tmp_path_factory.mktemp(scope)
        texts = []
        for number, (text, *_) in enumerate(CASES.values()):
            texts += [
                re.sub(r"(?i)@example", lambda m, no=number: f"{m[0]}-{no}", mail)
                for mail in (FIRST_MAIL, text)
            ]  # type: ignore[misc]
        _, got, expected = run_both(folder, texts, scope)
        for number, name in enumerate(CASES):
            results[scope, name] = tuple(
                re.sub(rf"-{number}\b", "", mails[2 * number + 1]) for mails in (got, expected)
            )  # type: ignore[assignment]
            assert got[2 * number] == texts[2 * number]
    return results


@pytest.mark.parametrize("scope", ["address", "line"])
@pytest.mark.parametrize("name", CASES)
def test_cases_match_the_reference(
    cases: dict[tuple[str, str], tuple[str, str]], name: str, scope: str
) -> None:
    text, address, line = CASES[name]
    got, reference = cases[scope, name]
    assert got == reference == (address if scope == "address" or line is None else line)


PIECES = [
    *(
        "From: ",
        "To: ",
        "http://example.com/\n",
        "cc: ",
        "Bcc:",
        "X-To: ",
        "Subject: ",
        "Received: ",
        "Sent: ",
        "Von: ",
        "À : ",
        "à\u00a0: ",
        "Para:",
        "A:",
        "Enviado el: ",
        "Répondre à : ",
        "*From:* ",
        "X-Loop: ",
        "\tTo: ",
        "From bob@example.com\n",
    ),
    *(f"{local}@example.com" for local in ("ann", "bob", "cy", "dee", "ann.lee")),
    *(
        "<ann@example.com>",
        "Bob Mann <bob@example.com>",
        '"Mann, Bob" <bob@example.com>',
        "Mann, Bob <bob@example.com>",
        "Cy Day",
        "(cy, at work)",
    ),
    *(
        ", ",
        ",",
        "; ",
        ",\n\t",
        ",\n  ",
        "\n",
        "\n",
        "\n\n",
        "\r\n",
        " ",
        "\n> ",
        "\n>  ",
        "\n> > ",
        ">",
        '"',
        "(",
        "<",
        "\\",
        ":",
        "é",
        "🙂",
        "x",
    ),
    *("\n> To: ", "\n> From: ", "\n-----Original Message-----\n", "\nDate: today\n"),
]
TEXTS = st.tuples(
    st.sampled_from(["", "From: x\n", "Subject: s\nTo: "]),
    st.lists(st.sampled_from(PIECES), max_size=24),
).map(lambda t: t[0] + "".join(t[1]))


@pytest.mark.slow
@settings(
    max_examples=5,
    deadline=None,
    phases=set(Phase) - {Phase.shrink},
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(texts=st.lists(TEXTS, min_size=1, max_size=60), scope=st.sampled_from(["address", "line"]))
def test_random_mails_match_the_reference(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], scope: str
) -> None:
    _, got, expected = run_both(tmp_path_factory.mktemp("fuzz"), texts, scope, max_quarantine=1.0)
    assert got == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("corpus", "scope"),
    [
        *(("enron", "address"), ("linux-man", "address"), ("spamassassin", "line")),
        *(
            pytest.param(*case, marks=pytest.mark.soak)
            for case in (("enron", "line"), ("linux-man", "line"), ("spamassassin", "address"))
        ),
    ],
)
def test_real_mails_match_the_reference(tmp_path: Path, corpus: str, scope: str) -> None:
    source = MAIL / f"{corpus}.parquet"
    if not source.exists():
        pytest.skip("the shared corpora are not available")
    table = pq.read_table(source, columns=["raw"]).slice(0, 700)
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=200)
    summary, got = run_dedup(
        tmp_path, tmp_path / "in.parquet", scope, {"text_column": ("raw",)}, rows_per_shard=300
    )
    document_files = sorted((tmp_path / "work" / "documents").glob("*.parquet"))
    texts = [
        text
        for file in document_files
        for text in pq.read_table(file, columns=["text"])["text"].to_pylist()
    ]
    expected = reference_dedup(read_mails(tmp_path, texts), scope)
    differing = [
        number
        for number, (text, expected_text) in enumerate(zip(got, expected, strict=True))
        if text != expected_text
    ]
    assert differing == []  # numbers, not texts
    assert summary.replaced > 500


def test_the_summary_reports_fields_and_counts(tmp_path: Path) -> None:
    texts = [FIRST_MAIL, f"From: {ANN}\nTo: {BOB}, {CY}, {ANN}\nX-Jane-Roe: {BOB}\n\n{ANN}\n"]
    summary, got, _ = run_both(tmp_path, texts, "address")
    assert got == [FIRST_MAIL, f"To: {CY}\n\n{ANN}\n"]
    (report,) = summary.editor_reports
    assert (report["part"], report["scope"]) == ("header_dedup", "address")
    assert report["by_field"] == {
        "to": {"occurrences": 2, "spans": 2, "lines": 0},
        "from": {"occurrences": 1, "spans": 1, "lines": 1},
        "other": {"occurrences": 1, "spans": 1, "lines": 1},
    }
    assert (summary.replaced, summary.kept_originals, summary.publishable) == (4, 4, False)
    assert "jane" not in json.dumps(summary.to_dict()).lower()
    edits = pq.read_table(
        tmp_path / "work" / "runs" / summary.run_hash / "edits" / "00000.parquet"
    ).to_pylist()
    assert {(row["part"], row["kind"], row["replacement"]) for row in edits} == {
        ("header_dedup", "EMAIL_ADDRESS", "")
    }


@pytest.mark.parametrize("step", [1, -1])
def test_an_edit_inside_a_removed_span_is_dropped(tmp_path: Path, step: int) -> None:
    """In either order of the two parts in the plan."""
    texts = [
        FIRST_MAIL,
        (
            f"To: Cy 219-09-9999 <{CY}>, 457-55-5462 Bob <{BOB}>, 219-09-9999\nX-From: 219-09-9999"
            f" <{ANN}>\n\n457-55-5462"
        ),
    ]
    pq.write_table(pa.table({"text": texts}), tmp_path / "in.parquet")
    parts = [("header_dedup", "EMAIL_ADDRESS"), ("redact", "US_SSN")][::step]
    edits = "".join(f'[[edit]]\nuse = "{use}"\nkinds = ["{kind}"]\n' for use, kind in parts)
    (tmp_path / "mine.toml").write_text('[find]\nkinds = ["EMAIL_ADDRESS", "US_SSN"]\n' + edits)
    run_with_settings(
        [tmp_path / "in.parquet"],
        tmp_path / "out",
        str(tmp_path / "mine.toml"),
        None,
        Settings(seed=1, workers=1),
    )
    _, text = pq.read_table(tmp_path / "out" / "data")["text"].to_pylist()
    assert text == f"To: Cy [US_SSN] <{CY}>, [US_SSN]\n\n[US_SSN]"


def test_a_later_editor_sees_the_remaining_text(tmp_path: Path) -> None:
    """A telephone number in a removed line no longer counts as the first occurrence."""
    texts = [FIRST_MAIL, f"To: Bob 713-555-0123 <{BOB}>\n\ncall 713-555-0123, or 713-555-0123"]
    pq.write_table(pa.table({"text": texts}), tmp_path / "in.parquet")
    (tmp_path / "mine.toml").write_text(
        '[find]\nkinds = ["EMAIL_ADDRESS", "PHONE_NUMBER"]\n[[edit]]\nuse = "header_dedup"\nkinds ='
        ' ["EMAIL_ADDRESS"]\n[[edit]]\nuse = "rmft"\nkinds = ["PHONE_NUMBER"]\n'
    )
    summary = run_with_settings(
        [tmp_path / "in.parquet"],
        tmp_path / "out",
        str(tmp_path / "mine.toml"),
        None,
        Settings(seed=1, workers=1),
    )
    _, text = pq.read_table(tmp_path / "out" / "data")["text"].to_pylist()
    assert re.fullmatch(r"\ncall 713-555-0123, or (?!713-555-0123)[0-9-]{12}", text)
    assert summary.by_kind["PHONE_NUMBER"].kept == 1


def test_each_row_group_of_removals_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For ascending batches with arbitrary bounds: the rows between the bounds, and no row group is
    read from the file twice."""
    numbers = np.repeat(np.arange(0, 60, 2), 2)
    columns = dict.fromkeys(header_dedup._REMOVAL_COLUMNS, numbers)
    pq.write_table(pa.table(columns), tmp_path / "removed_occurrences.parquet", row_group_size=16)
    removals, groups_read = (
        header_dedup._RemovalTable(tmp_path / "removed_occurrences.parquet"),
        list[int](),
    )
    read_row_group = removals._read_row_group
    monkeypatch.setattr(
        removals,
        "_read_row_group",
        lambda group: groups_read.append(group) or read_row_group(group),
    )
    for first in range(0, 70, 7):
        rows = removals.between(first, first + 6)
        assert rows["doc_no"].to_list() == [
            number for number in numbers.tolist() if first <= number <= first + 6
        ]
    assert groups_read == [0, 1, 2, 3]
    assert (
        removals.between(0, -1).height == 0
        and removals.between(0, -1).columns == header_dedup._REMOVAL_COLUMNS
    )
