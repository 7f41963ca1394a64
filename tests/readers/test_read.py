"""Surveys and staging: which files count, their order, the standard form, and which records are
quarantined with which reason."""

from __future__ import annotations

import base64
import ctypes
import gzip
import os
import pickle
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sanitize
import sanitize.readers.csv
import sanitize.readers.jsonl
import sanitize.readers.mail
import sanitize.readers.parquet
from sanitize.core.text_cells import list_text_leaves
from sanitize.errors import InputRefused, UsageError
from sanitize.readers.standard_form import standardize_batch
from sanitize.readers.survey import (
    REASONS,
    Roles,
    Survey,
    find_faults,
    parse_mail,
    stage_unit,
    survey_inputs,
)
from tests.support import to_json_lines

LIMIT = 1 << 20
MAIL = b"From: Ann Lee <ann@example.com>\nSubject: %s\n\nCall 555-0100.\n"
ROW = {"text": "Call Ann", "n": 1}


def write_file(path: Path, content: bytes | pa.Table) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        pq.write_table(content, path)
    return path


def stage_survey(
    survey: Survey, out: Path, limit: int = LIMIT
) -> tuple[list[dict[str, Any]], list[tuple[int, str, str, str]]]:
    """All documents of a survey, and (position in the corpus, file name, location, reason) of each
    quarantined record."""
    rows: list[dict[str, Any]] = []
    quarantine: list[tuple[int, str, str, str]] = []
    out.mkdir(exist_ok=True)
    for unit in survey.units:
        unit, layout = pickle.loads(pickle.dumps((unit, survey.layout)))
        result = stage_unit(
            unit, layout, out / f"{unit.no}.parquet", out / f"{unit.no}.aside.parquet", limit
        )
        table, unit_quarantine = (
            pq.read_table(out / f"{unit.no}.parquet"),
            pq.read_table(out / f"{unit.no}.aside.parquet").to_pylist(),
        )
        assert (
            table.num_rows == result.rows
            and len(unit_quarantine) == result.quarantined
            and unit.rows in (None, result.rows)
        )
        quarantine += [
            (
                len(rows) + record["row"],
                os.path.basename(record["source"]),
                record["location"],
                record["reason"],
            )
            for record in unit_quarantine
        ]
        rows += table.cast(survey.schema).to_pylist()
    assert all(reason in REASONS for *_, reason in quarantine)
    assert all(set(rows[row].values()) == {None} for row, *_ in quarantine)
    assert not list(out.glob("*.part"))
    return rows, quarantine


DEFAULT_ROLES = Roles()


def read_path(
    path: Path, roles: Roles = DEFAULT_ROLES, limit: int = LIMIT
) -> tuple[list[dict[str, Any]], list[tuple[int, str, str, str]]]:
    return stage_survey(survey_inputs([path], roles), path.parent / "staged", limit)


# --- formats --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "a.jsonl",
        "a.ndjson",
        "a.jsonl.gz",
        "a.jsonl.zst",
        "a.json",
        "a.txt.gz",
        "a.parquet",
        "a.pq",
        "noname",
    ],
)
def test_every_container_gives_the_same_rows(tmp_path: Path, name: str) -> None:
    rows = [
        {"doc_id": "x", "user_id": 7, "text": "Ünn\0 😀", "tags": ["a"]},
        {"doc_id": "y", "user_id": 8, "text": None, "tags": []},
    ]
    content: bytes | pa.Table = to_json_lines(rows)
    if name.endswith(".gz"):
        content = gzip.compress(to_json_lines(rows))
    elif name.endswith(".zst"):
        content = pa.compress(to_json_lines(rows), codec="zstd", asbytes=True)
    elif name.endswith((".parquet", ".pq")):
        content = pa.Table.from_pylist(rows)
    found_rows, quarantine = read_path(write_file(tmp_path / name, content))
    assert found_rows == [dict(row, user_id=str(row["user_id"])) for row in rows]
    assert quarantine == []


def test_mail_containers_give_the_same_mails(tmp_path: Path) -> None:
    raws = [MAIL % b"one", MAIL % b"two", MAIL % b"three"]
    write_file(
        tmp_path / "a.mbox",
        b"\n".join(b"From ann@example.com Mon Jan  5 10:00:00 2026\n" + raw for raw in raws),
    )
    write_file(tmp_path / "b.parquet", pa.table({"raw": raws}))
    for number, raw in enumerate(raws):
        write_file(tmp_path / "tree" / "inbox" / f"{number}_", raw)
        write_file(tmp_path / "maildir" / "cur" / f"1767600000.{number}.host:2,S", raw)
        write_file(tmp_path / "eml" / f"{number}.eml", raw)
    write_file(tmp_path / "maildir" / "tmp" / "half", b"half a mail")
    write_file(tmp_path / "maildir" / "dovecot-uidlist", b"3 V1 N4")
    (tmp_path / "maildir" / "new").mkdir()
    expected = [
        {"doc_id": None, "user_id": "ann@example.com", "text": raw.decode()} for raw in raws
    ]
    for name in ("a.mbox", "tree", "maildir", "eml"):
        assert read_path(tmp_path / name) == (expected, []), name
    assert read_path(tmp_path / "b.parquet", Roles(text=("raw",))) == (expected, [])
    assert survey_inputs([tmp_path / "maildir"], Roles()).ignored == [
        str(tmp_path / "maildir" / "dovecot-uidlist")
    ]
    assert survey_inputs([tmp_path / "tree"], Roles()).units[0].rows == 3


def test_a_mail_with_an_envelope_line_in_a_tree(tmp_path: Path) -> None:
    write_file(
        tmp_path / "t" / "1", b"From ann@example.com Mon Jan  5 10:00:00 2026\n" + MAIL % b"a"
    )
    write_file(tmp_path / "t" / "2", MAIL % b"b")
    survey = survey_inputs([tmp_path / "t"], Roles())
    assert [(unit.format, unit.file_formats, unit.rows) for unit in survey.units] == [
        ("mail", ("mbox", "mail"), None)
    ]
    assert [row["text"] for row in stage_survey(survey, tmp_path / "out")[0]] == [
        (MAIL % b"a").decode(),
        (MAIL % b"b").decode(),
    ]


def test_units_of_large_files_cover_every_record_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for reader in (sanitize.readers.jsonl, sanitize.readers.mail, sanitize.readers.parquet):
        monkeypatch.setattr(reader, "UNIT_BYTES", 1_000)
    monkeypatch.setattr(sanitize.readers.survey, "SMALL_MBOX_BYTES", 100)
    texts = ["x" * (number % 90) + str(number) for number in range(300)]
    write_file(tmp_path / "a.jsonl", b"\n".join(to_json_lines([{"text": text}]) for text in texts))
    raws = [b"From: a@example.com\n\n" + text.encode() + b"\n" for text in texts]
    write_file(tmp_path / "a.mbox", b"\n".join(b"From a Mon 10:00\n" + raw for raw in raws))
    pq.write_table(pa.table({"raw": raws}), tmp_path / "a.parquet", row_group_size=20)
    for name, roles in (
        ("a.jsonl", Roles()),
        ("a.mbox", Roles()),
        ("a.parquet", Roles(text=("raw",))),
    ):
        survey = survey_inputs([tmp_path / name], roles)
        assert len(survey.units) > 3, name
        rows, quarantine = stage_survey(survey, tmp_path / "out")
        assert [
            row["text"].removeprefix("From: a@example.com\n\n").rstrip("\n") for row in rows
        ] == texts, name
        assert not quarantine


def test_staged_files_have_places_as_metadata_and_no_statistics(tmp_path: Path) -> None:
    table = pa.table(
        {"text": pa.array(["Ann Lee"] * 12_000).dictionary_encode()}
    ).replace_schema_metadata({"k": "Ann"})
    survey = survey_inputs([write_file(tmp_path / "a.parquet", table)], Roles())
    stage_unit(survey.units[0], survey, tmp_path / "o", tmp_path / "q", LIMIT)
    metadata = pq.read_metadata(tmp_path / "o")
    assert [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)] == [
        5_000,
        5_000,
        2_000,
    ]
    assert metadata.metadata.keys() == {b"sanitize.sources"}
    assert metadata.row_group(0).column(2).statistics is None
    assert "DICTIONARY" not in str(metadata.row_group(0).column(2).encodings)
    large_survey = survey_inputs(
        [write_file(tmp_path / "b.parquet", pa.table({"text": ["x" * 1_000_000] * 40}))], Roles()
    )
    stage_unit(large_survey.units[0], large_survey.layout, tmp_path / "o", tmp_path / "q", LIMIT)
    metadata = pq.read_metadata(tmp_path / "o")
    assert (
        max(metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)) <= 16
    )


# --- columns --------------------------------------------------------------------------------------

CHATS = [
    {
        "messages": [{"role": "user", "content": "I am Ann"}, {"role": "bot", "content": "Hi"}],
        "text": "t",
    },
    {"messages": [], "text": "u"},
]


@pytest.mark.parametrize(
    ("rows", "roles", "names", "first"),
    [
        ([ROW], Roles(), ["doc_id", "user_id", "text", "n"], {"text": "Call Ann", "n": 1}),
        (
            [{"a": "A", "b": "B"}],
            Roles(text=("b", "a")),
            ["doc_id", "user_id", "b", "a"],
            {"b": "B", "a": "A"},
        ),
        (
            [{"b": "B", "text": "T", "text_": "U"}],
            Roles(text=("b",)),
            ["doc_id", "user_id", "b", "text", "text_"],
            {"b": "B", "text": "T"},
        ),
        (
            [{"text": "T", "doc_no": 3}],
            Roles(),
            ["doc_id", "user_id", "text", "doc_no_"],
            {"doc_no_": 3},
        ),
        (
            [{"text": "T", "who": 5, "key": "k"}],
            Roles(user="who", id="key"),
            ["doc_id", "user_id", "text"],
            {"user_id": "5", "doc_id": "k"},
        ),
        (
            [{"text": "T", "user_id": "u", "who": "w"}],
            Roles(user="who"),
            ["doc_id", "user_id", "text", "user_id_"],
            {"user_id": "w", "user_id_": "u"},
        ),
        (
            CHATS,
            Roles(text=("messages[].content",)),
            ["doc_id", "user_id", "messages", "text"],
            CHATS[0],
        ),
        (
            CHATS,
            Roles(text=("text", "messages[].role")),
            ["doc_id", "user_id", "text", "messages"],
            CHATS[0],
        ),
    ],
)
@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_standard_form(
    tmp_path: Path,
    suffix: str,
    rows: list[dict[str, Any]],
    roles: Roles,
    names: list[str],
    first: dict[str, Any],
) -> None:
    path = write_file(
        tmp_path / f"a.{suffix}",
        to_json_lines(rows) if suffix == "jsonl" else pa.Table.from_pylist(rows),
    )
    survey = survey_inputs([path], roles)
    assert survey.schema.names == names
    assert survey.layout.main_path in map(str, list_text_leaves(survey.schema))
    documents, quarantine = stage_survey(survey, tmp_path / "out")
    assert list(documents[0]) == names and {name: documents[0][name] for name in first} == first
    assert len(documents) == len(rows) and not quarantine
    for unit in survey.units:
        assert unit.in_place == (suffix == "parquet")
        if unit.in_place:
            batch = pq.read_table(path).combine_chunks().to_batches()[0]
            assert (
                standardize_batch(batch, unit.column_mapping, survey.schema).to_pylist()
                == documents
            )


def test_binary_columns_are_mails(tmp_path: Path) -> None:
    table = pa.table(
        {
            "raw": [MAIL % b"a", None, b"x" * 600],
            "h_from": ["h1", "h2", "h3"],
            "also": [MAIL % b"b"] * 3,
        }
    )
    path = write_file(tmp_path / "a.parquet", table)
    rows, quarantine = read_path(path, Roles(text=("raw", "also")), 500)
    assert rows[:2] == [
        {
            "doc_id": None,
            "user_id": "ann@example.com",
            "text": (MAIL % b"a").decode(),
            "h_from": "h1",
            "also": (MAIL % b"b").decode(),
        },
        {
            "doc_id": None,
            "user_id": None,
            "text": None,
            "h_from": "h2",
            "also": (MAIL % b"b").decode(),
        },
    ]
    assert quarantine == [(2, "a.parquet", "row 2", "too_large")]
    survey = survey_inputs([path], Roles(text=("raw",), user="h_from"))
    assert (
        survey.schema.names == ["doc_id", "user_id", "text", "also"]
        and not survey.units[0].in_place
    )
    assert [row["user_id"] for row in stage_survey(survey, tmp_path / "out")[0]] == [
        "h1",
        "h2",
        "h3",
    ]


def test_columns_of_several_inputs_are_merged(tmp_path: Path) -> None:
    a = write_file(
        tmp_path / "a.parquet",
        pa.table({"text": ["A"], "x": pa.array([None], pa.null()), "y": [1.5]}),
    )
    b = write_file(tmp_path / "b.parquet", pa.table({"z": ["zed"], "x": [3], "text": ["B"]}))
    c = write_file(tmp_path / "c.mbox", b"From a Mon 10:00\n" + MAIL % b"c")
    survey = survey_inputs([b, c, a], Roles())
    assert survey.schema == pa.schema(
        [("doc_id", pa.large_string()), ("user_id", pa.large_string()), ("text", pa.large_string())]
        + [("z", pa.large_string()), ("x", pa.int64()), ("y", pa.float64())]
    )
    rows, _ = stage_survey(survey, tmp_path / "out")
    assert [(row["text"], row["x"], row["y"], row["z"]) for row in rows] == [
        ("B", 3, None, "zed"),
        ((MAIL % b"c").decode(), None, None, None),
        ("A", None, 1.5, None),
    ]


def test_json_types_are_widened_and_kept_as_text_where_mixed(tmp_path: Path) -> None:
    first = write_file(
        tmp_path / "1.jsonl",
        to_json_lines([{"text": "a", "n": 1, "m": 1, "o": {}, "e": [], "z": None, "s": {"k": 1}}]),
    )
    second = write_file(
        tmp_path / "2.jsonl",
        to_json_lines(
            [
                {
                    "text": "b",
                    "n": 2.5,
                    "m": [True, "ä\n"],
                    "o": {"p": 1},
                    "e": ["t"],
                    "s": {"l": "v"},
                }
            ]
        ),
    )
    rows, quarantine = stage_survey(survey_inputs([first, second], Roles()), tmp_path / "out")
    assert not quarantine
    assert rows[0] == dict.fromkeys(("doc_id", "user_id", "z")) | {
        "text": "a",
        "n": 1.0,
        "m": "1",
        "o": {"p": None},
        "e": [],
        "s": {"k": 1, "l": None},
    }
    assert (rows[1]["n"], rows[1]["m"], rows[1]["e"], rows[1]["s"]) == (
        2.5,
        '[true, "ä\\n"]',
        ["t"],
        {"k": None, "l": "v"},
    )


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "roles", "error", "message"),
    [
        (
            "a.parquet",
            b"PAR0 this is none",
            Roles(),
            InputRefused,
            "its content does not match its suffix .parquet",
        ),
        ("a.parquet", b"PAR1 cut", Roles(), InputRefused, "it ends too early"),
        ("a.parquet", b"PAR1\0\0\0\0PAR1", Roles(), InputRefused, "cannot read it"),
        ("a.parquet", b"PARE\0\0\0\0PARE", Roles(), InputRefused, "it is encrypted"),
        (
            "a.jsonl",
            b"\0\1\2\3",
            Roles(),
            InputRefused,
            "its content does not match its suffix .jsonl",
        ),
        ("a.jsonl", b"not json\nneither\n", Roles(), InputRefused, "it is not valid JSON"),
        ("a.jsonl.gz", b"\x1f\x8b\x08cut", Roles(), InputRefused, "it ends too early"),
        ("a.jsonl", b"", Roles(), InputRefused, "it has no bytes"),
        ("a.mbox", MAIL, Roles(), InputRefused, "its content does not match its suffix .mbox"),
        (
            "a.eml",
            b"no header\n",
            Roles(),
            InputRefused,
            "its content does not match its suffix .eml",
        ),
        (
            "a.dat",
            b"<text>Call Ann\x01</text>\n",
            Roles(),
            InputRefused,
            "its format is not known. Parquet, Arrow, CSV",
        ),
        (
            "a.jsonl",
            to_json_lines([{"texts": "Call Ann"}]),
            Roles(text=("txts",)),
            UsageError,
            (
                "there is no column txts; did you mean texts? Known: texts. Name the column with"
                " --text-column 'texts'."
            ),
        ),
        (
            "a.jsonl",
            to_json_lines([{"size": 1}]),
            Roles(),
            UsageError,
            "there is no column text; known: size. Name the column with --text-column NAME.",
        ),
        (
            "a.jsonl",
            to_json_lines(CHATS),
            Roles(text=("messages[].contents",)),
            UsageError,
            "did you mean messages[].content?",
        ),
        ("a.jsonl", to_json_lines([ROW]), Roles(text=("n",)), UsageError, "column n is int64"),
        (
            "a.jsonl",
            to_json_lines([{"said": ["Call Ann"]}]),
            Roles(text=("said",)),
            UsageError,
            "or of mails as bytes. Its texts are said[].",
        ),
        (
            "a.jsonl",
            to_json_lines([ROW]),
            Roles(text=("text", "subject")),
            UsageError,
            "there is no column subject",
        ),
        (
            "a.jsonl",
            to_json_lines([ROW]),
            Roles(user="who"),
            UsageError,
            "Name the column with --user-column NAME",
        ),
        (
            "a.jsonl",
            to_json_lines([ROW]),
            Roles(id="key"),
            UsageError,
            "Name the column with --id-column NAME",
        ),
        (
            "a.jsonl",
            to_json_lines(CHATS),
            Roles(user="messages"),
            UsageError,
            "--user-column takes a column of strings or numbers",
        ),
        (
            "a.jsonl",
            to_json_lines([{"messages": []}]),
            Roles(text=("messages[].content",)),
            UsageError,
            "messages[].content",
        ),
    ],
)
def test_named_files_are_refused(
    tmp_path: Path, name: str, content: bytes, roles: Roles, error: type[Exception], message: str
) -> None:
    path = write_file(tmp_path / name, content)
    with pytest.raises(error) as caught:
        survey_inputs([path], roles)
    assert message in str(caught.value)
    assert "Call Ann" not in str(caught.value)


SUFFIXES = ["log", "md", "html", "py", "ipynb", "vcf", "ics", "xml", "srt"]


def list_formats(folder: Path, roles: Roles = Roles()) -> dict[str, str]:  # noqa: B008 - frozen
    """How each file of a folder is read, or why it is not."""
    found = {}
    for unit in survey_inputs([folder], roles).units:
        formats = unit.file_formats or (unit.format,) * len(unit.files)
        found |= dict(zip(map(os.path.basename, unit.files), formats, strict=True))
    return found


@pytest.mark.parametrize("name", [*(f"a.{suffix}" for suffix in SUFFIXES), "Makefile"])
def test_a_named_file_of_plain_text_is_a_text(tmp_path: Path, name: str) -> None:
    content = "\x1b[1mna\xefve\x1b[0m\tcall Ann\r\n\x0c".encode()
    (unit,) = survey_inputs([write_file(tmp_path / name, content)], Roles()).units
    assert unit.format == "text" and unit.quarantine_reason == ""
    for other in (b"\x89PNG\r\n\x1a\n\0", b"%PDF-1.7\n"):
        path = write_file(tmp_path / f"x{name}", other)
        for roles in (Roles(), Roles(read_as="text")):
            with pytest.raises(InputRefused, match="its (format is not known|content does not)"):
                survey_inputs([path], roles)


@pytest.mark.parametrize(
    ("suffix", "head"),
    [
        ("vcf", b"BEGIN:VCARD\nVERSION:3.0\nFN:Ann Roe\nEMAIL:ann@example.org\n"),
        ("ipynb", b'{"cells": [], "metadata": {}}\n'),
        ("ics", b"BEGIN:VCALENDAR\nVERSION:2.0\n"),
        ("md", b"From: Ann Roe <ann@example.org>\nTo: bo@example.org\nSubject: a\n\nHello\n"),
    ],
)
def test_markup_and_code_are_texts_whatever_they_begin_with(
    tmp_path: Path, suffix: str, head: bytes
) -> None:
    (unit,) = survey_inputs([write_file(tmp_path / f"a.{suffix}", head)], Roles()).units
    assert unit.format == "text"


@pytest.mark.parametrize(
    ("beside", "roles", "expected"),
    [
        ("b.txt", Roles(), {"a.log": "text", "Makefile": "unknown_format", "b.txt": "text"}),
        ("b.jsonl", Roles(), {"a.log": "unknown_format", "Makefile": "unknown_format"}),
        ("b.eml", Roles(), {"a.log": "unknown_format", "Makefile": "unknown_format"}),
        ("b.jsonl", Roles(include=("*.log", "M*")), {"a.log": "text", "Makefile": "text"}),
        ("b.jsonl", Roles(include=("sub/*",)), {"c.md": "text"}),
        ("b.txt", Roles(read_as="text", include=("[ab].*",)), {"a.log": "text", "b.txt": "text"}),
        ("b.jsonl", Roles(read_as="text"), {"a.log": "text", "Makefile": "text"}),
    ],
)
def test_texts_of_a_folder(
    tmp_path: Path, beside: str, roles: Roles, expected: dict[str, str]
) -> None:
    """Logs, markup and code beside tables and mails may describe them: they are read by name."""
    for name in ("a.log", "Makefile", "sub/c.md"):
        write_file(tmp_path / "f" / name, b"Call Ann.\n")
    contents = {"b.txt": b"A\n", "b.jsonl": b'{"text": "A"}\n', "b.eml": MAIL}
    write_file(tmp_path / "f" / beside, contents[beside])
    found = list_formats(tmp_path / "f", roles)
    assert {name: one for name, one in found.items() if name in expected} == expected
    if roles.include:
        assert set(found) == set(expected)


def test_patterns_without_a_file_are_refused(tmp_path: Path) -> None:
    write_file(tmp_path / "f" / "a.txt", b"A")
    with pytest.raises(InputRefused, match=r"--include \*.md \*.rst: matches no file"):
        survey_inputs([tmp_path / "f"], Roles(include=("*.md", "*.rst")))


def test_missing_inputs_and_conflicting_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match="there is no such file or folder"):
        survey_inputs([tmp_path / "none"], Roles())
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputRefused, match=r"nothing in this folder can be read \(0 files\)"):
        survey_inputs([tmp_path / "empty"], Roles())
    write_file(tmp_path / "junk" / "a.bin", b"\0\1")
    with pytest.raises(InputRefused, match=r"nothing in this folder can be read \(1 files\)"):
        survey_inputs([tmp_path / "junk"], Roles())
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputRefused, match="it is a pipe"):
        survey_inputs([tmp_path / "pipe"], Roles())
    a = write_file(tmp_path / "a.parquet", pa.table({"text": ["A"], "n": [1]}))
    b = write_file(tmp_path / "b.parquet", pa.table({"text": ["B"], "n": ["1"]}))
    with pytest.raises(
        InputRefused, match=r"column n: int64 in .*a\.parquet, but large_string in .*b\.parquet"
    ):
        survey_inputs([a, b], Roles())
    chats, mbox = (
        write_file(tmp_path / "c.jsonl", to_json_lines(CHATS)),
        write_file(tmp_path / "d.mbox", b"From a Mon 10:00\n" + MAIL),
    )
    with pytest.raises(UsageError, match="one corpus has its main text in one column"):
        survey_inputs([chats, mbox], Roles(text=("messages[].content",)))


# --- folders --------------------------------------------------------------------------------------


def test_corpus_order_is_bytewise_by_path_and_names_are_not_glob_patterns(tmp_path: Path) -> None:
    names = [
        "B.jsonl",
        "a b.jsonl",
        "a*.jsonl",
        "a.jsonl",
        "a/z.jsonl",
        "a[1].jsonl",
        "a1.jsonl",
        "user=eve/p.jsonl",
        "ä.jsonl",
        "\udcff.jsonl",
    ]
    for name in reversed(names):
        write_file(
            tmp_path / "in" / name,
            to_json_lines([{"text": name.encode("utf-8", "surrogateescape").hex()}]),
        )
    survey = survey_inputs([tmp_path / "in"], Roles())
    rows, _ = stage_survey(survey, tmp_path / "out")
    assert [bytes.fromhex(row["text"]) for row in rows] == sorted(
        os.fsencode(name) for name in names
    )
    given_order = survey_inputs([tmp_path / "in" / "a.jsonl", tmp_path / "in" / "a"], Roles())
    assert [os.path.basename(unit.path) for unit in given_order.units] == ["a.jsonl", "z.jsonl"]
    assert [unit.no for unit in survey.units] == list(range(len(names)))


def test_files_of_a_folder_that_are_read(tmp_path: Path) -> None:
    folder, outside = tmp_path / "in", write_file(tmp_path / "outside.jsonl", to_json_lines([ROW]))
    pq.write_table(pa.table({"text": ["P"], "n": [1]}), write_file(folder / "e.parquet", b""))
    for name, content in {
        "a.jsonl": to_json_lines([ROW]),
        "b.bin": b"\0\1\2",
        "c.parquet": b"PAR1 but then nothing",
        "d.jsonl": b"",
        "f.eml": MAIL % b"f",
        "g": b"From a Mon 10:00\n" + MAIL % b"g",
        "h.mbox": b"no envelope line",
        "h2.json": b'{"settings": 1}\n',
        ".hidden.jsonl": to_json_lines([ROW]),
        ".Sent/cur/1": MAIL % b"sent",
        ".git/config": b"[core]",
        "_SUCCESS": b"",
        "z/README.md": b"# about",
    }.items():
        write_file(folder / name, content)
    (folder / "i.jsonl").symlink_to(outside)
    (folder / "j.jsonl").symlink_to("a.jsonl")
    (folder / "k").symlink_to(folder)
    (folder / "l").symlink_to("nowhere")
    os.mkfifo(folder / "m")
    survey = survey_inputs([folder], Roles())
    rows, quarantine = stage_survey(survey, tmp_path / "out")
    texts = [
        "sent",
        "Call Ann",
        None,
        None,
        None,
        "P",
        "f",
        "g",
        None,
        None,
        None,
        "Call Ann",
        None,
        None,
        None,
        None,
    ]
    assert [
        row["text"]
        and (
            row["text"]
            if "Subject" not in row["text"]
            else row["text"].split("Subject: ")[1].split("\n")[0]
        )
        for row in rows
    ] == texts
    assert [(name, location, reason) for _, name, location, reason in quarantine] == [
        ("b.bin", "file", "unknown_format"),
        ("c.parquet", "file", "truncated"),
        ("d.jsonl", "file", "empty_file"),
        ("h.mbox", "file", "unknown_format"),
        ("h2.json", "file", "no_text"),
        ("i.jsonl", "file", "symlink"),
        ("k", "file", "symlink"),
        ("l", "file", "symlink"),
        ("m", "file", "not_a_file"),
        ("README.md", "file", "unknown_format"),
    ]
    assert [os.path.basename(path) for path, _ in survey.unreadable] == [
        name for _, name, _, _ in quarantine
    ]
    assert {os.path.basename(path) for path in survey.ignored} == {
        ".hidden.jsonl",
        "config",
        "_SUCCESS",
    }
    assert all(size == os.path.getsize(path) for path, size in survey.files)
    assert len(survey.files) == len(rows) - 4  # links and the pipe have no bytes


def test_small_files_share_a_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sanitize.readers.survey, "MAX_UNIT_FILES", 10)
    for number in range(25):
        write_file(tmp_path / "in" / f"{number:02d}", MAIL % b"%d" % number)
    assert [len(unit.files) for unit in survey_inputs([tmp_path / "in"], Roles()).units] == [
        10,
        10,
        5,
    ]


# --- quarantined records --------------------------------------------------------------------------


def test_invalid_lines_are_quarantined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sanitize.readers.jsonl, "SAMPLE_LINES", 1)
    valid = {"text": "a", "n": 1, "s": {"k": 1}, "note": "x"}
    content = b"\xef\xbb\xbf" + to_json_lines(
        [
            valid,
            b"\r\n",
            b"{broken\n",
            b'["text"]\n',
            {"n": 1},
            dict(valid, text=3),
            dict(valid, n="one"),
            dict(valid, n=10**30),
            dict(valid, s={"k": 1, "new": "Ann"}),
            dict(valid, more="Ann"),
            b'{"text": "\xff"}\n',
            {"text": "half \ud83d"},
            b'{"text": "' + b"x" * 3_000 + b'"}\n',
            dict(valid, note={"deep": ["ü"]}),
            b"[" * 2_000 + b"\n",
            b'{"text": "last", "n": null}',
        ]
    )
    rows, quarantine = read_path(write_file(tmp_path / "a.jsonl", content), limit=2_000 + 100)
    assert [(location, reason) for *_, location, reason in quarantine] == [
        ("line 3", "not_json"),
        ("line 4", "not_an_object"),
        ("line 5", "no_text"),
        ("line 6", "wrong_type"),
        ("line 7", "wrong_type"),
        ("line 8", "wrong_type"),
        ("line 9", "new_column"),
        ("line 10", "new_column"),
        ("line 11", "not_utf8"),
        ("line 12", "not_utf8"),
        ("line 13", "too_large"),
        ("line 15", "too_deep"),
    ]
    assert [row["text"] for row in rows if row["text"]] == ["a", "a", "last"]
    assert [row["note"] for row in rows if row["text"]] == ["x", '{"deep": ["ü"]}', None]
    assert len(rows) == 15


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_records_before_a_truncation_are_read(tmp_path: Path, codec: str) -> None:
    texts = [os.urandom(200).hex() for _ in range(500)]
    complete = (
        pa.compress(to_json_lines([{"text": text} for text in texts]), codec=codec, asbytes=True)
        if codec == "zstd"
        else None
    )
    complete = complete or gzip.compress(to_json_lines([{"text": text} for text in texts]))
    mbox = gzip.compress(
        b"\n".join(b"From a Mon 10:00\n\n" + text.encode() + b"\n" for text in texts)
    )
    rows, quarantine = read_path(write_file(tmp_path / "a.jsonl", complete[:-20]))
    assert [row["text"] for row in rows[:-1]] == texts[: len(rows) - 1] and len(rows) > (
        490 if codec == "gzip" else 1
    )
    assert quarantine == [(len(rows) - 1, "a.jsonl", f"after line {len(rows) - 1}", "truncated")]
    rows, quarantine = read_path(write_file(tmp_path / "b.mbox", mbox[: len(mbox) // 2]))
    assert [row["text"].strip() for row in rows[:-1]] == texts[: len(rows) - 1] and len(rows) > 240
    assert quarantine == [(len(rows) - 1, "b.mbox", f"after mail {len(rows) - 1}", "truncated")]


def test_invalid_mails_are_quarantined(tmp_path: Path) -> None:
    large_mail = b"From: a@example.com\n\n" + b"x" * 2_000
    write_file(tmp_path / "in" / "a.eml", large_mail)
    write_file(tmp_path / "in" / "b.eml", b"")
    mbox = (
        b"From a Mon 10:00\n"
        + MAIL % b"one"
        + b"\nFrom b Mon 10:00\n"
        + large_mail
        + b"\n\nFrom c Mon 10:00\n"
        + MAIL % b"two"
    )
    write_file(tmp_path / "in" / "c.mbox", mbox)
    rows, quarantine = read_path(tmp_path / "in", limit=1_000)
    assert [(name, location, reason) for _, name, location, reason in quarantine] == [
        ("a.eml", "file", "too_large"),
        ("b.eml", "file", "empty_file"),
        ("c.mbox", f"mail 2 at byte {mbox.index(b'From b')}", "too_large"),
    ]
    assert [row["text"] is None for row in rows] == [True, True, False, True, False]


def test_invalid_rows_of_parquet_are_quarantined(tmp_path: Path) -> None:
    raw = pa.array([b"fine", b"\xff\xfe", b"x" * 2_000, None, b"fine too"])
    invalid = pa.StringArray.from_buffers(5, *raw.buffers()[1:], raw.buffers()[0], raw.null_count)
    nested = pa.ListArray.from_arrays(pa.array([0, 1, 1, 1, 1, 1], pa.int32()), invalid.slice(1, 1))
    path = write_file(tmp_path / "a.parquet", pa.table({"text": invalid, "tags": nested}))
    survey = survey_inputs([path], Roles())
    assert survey.units[0].in_place
    rows, quarantine = stage_survey(survey, tmp_path / "out", 1_000)
    assert [row["text"] for row in rows] == [None, None, None, None, "fine too"]
    assert [(location, reason) for *_, location, reason in quarantine] == [
        ("row 0", "not_utf8"),
        ("row 1", "not_utf8"),
        ("row 2", "too_large"),
    ]
    batch = pq.read_table(path).combine_chunks().to_batches()[0]
    assert find_faults(
        standardize_batch(batch, survey.units[0].column_mapping, survey.schema), 1_000
    ) == {
        0: "not_utf8",
        1: "not_utf8",
        2: "too_large",
    }


def test_damaged_parquet_keeps_its_row_count(tmp_path: Path) -> None:
    raws = [MAIL % os.urandom(30).hex().encode() for _ in range(200)]
    pq.write_table(
        pa.table({"raw": raws}), tmp_path / "a.parquet", row_group_size=50, write_page_checksum=True
    )
    content = (tmp_path / "a.parquet").read_bytes()
    for offset in range(50, 2_000, 150):
        write_file(
            tmp_path / "b.parquet",
            content[:offset] + bytes([content[offset] ^ 4]) + content[offset + 1 :],
        )
        rows, quarantine = read_path(tmp_path / "b.parquet", Roles(text=("raw",)))
        assert [row["text"] for row in rows if row["text"]] == [
            raw.decode() for raw in raws[-len(rows) + len(quarantine) :]
        ]
        assert len(rows) == 200 and {reason for *_, reason in quarantine} <= {"unreadable"}
    survey = survey_inputs([tmp_path / "a.parquet"], Roles(text=("raw",)))
    (tmp_path / "a.parquet").unlink()
    assert len(stage_survey(survey, tmp_path / "out")[1]) == 200


# --- real corpora ---------------------------------------------------------------------------------

SHARED = Path(__file__).parents[3] / "shared" / "data"
needs_corpora = pytest.mark.skipif(not SHARED.is_dir(), reason="the real corpora are missing")
RAW_ROLES = Roles(text=("raw",))


@needs_corpora
def test_real_formats_agree(tmp_path: Path) -> None:
    parquet, quarantine = stage_survey(
        survey_inputs([SHARED / "formats/enron200.parquet"], Roles()), tmp_path / "a"
    )
    assert len(parquet) == 200 and not quarantine
    for name in ("jsonl", "jsonl.gz"):
        assert stage_survey(
            survey_inputs([SHARED / f"formats/enron200.{name}"], Roles()), tmp_path / "b"
        ) == (parquet, []), name
    mbox, quarantine = stage_survey(
        survey_inputs([SHARED / "formats/enron200.mbox"], Roles()), tmp_path / "c"
    )
    # The text column holds mails as they were sent; an mbox ends every mail with a line end.
    expected = [parse_mail(row["text"].encode())[0].rstrip("\n") for row in parquet]
    assert [row["text"].rstrip("\n") for row in mbox] == expected and not quarantine


@needs_corpora
@pytest.mark.parametrize(
    ("name", "roles", "count"),
    [
        ("mail/enron.parquet", RAW_ROLES, 8586),
        ("mail/linux-man.parquet", RAW_ROLES, 4000),
        ("mail/spamassassin.parquet", RAW_ROLES, 3249),
        ("users/newsgroups20.parquet", Roles(text=("raw",), user="h_from"), 5000),
        ("mail/linux-man-sample.mbox", Roles(), 500),
        ("users/synthpai_authors.jsonl", Roles(text=("comments[]",)), 200),
        ("pii/lifebench_users1-6.jsonl", Roles(), 1151),
        (
            "tofu/retain_perturbed.jsonl",
            Roles(text=("question", "answer", "perturbed_answer[]")),
            400,
        ),
    ],
)
def test_real_corpora_are_read_completely(
    tmp_path: Path, name: str, roles: Roles, count: int
) -> None:
    rows, quarantine = stage_survey(
        survey_inputs([SHARED / name], roles), tmp_path / "out", 32 << 20
    )
    assert len(rows) == count and not quarantine


@needs_corpora
def test_mail_tree_equals_its_table(tmp_path: Path) -> None:
    tree, _ = stage_survey(
        survey_inputs([SHARED / "mail/enron_maildir_arora-h"], Roles()), tmp_path / "a"
    )
    table, _ = stage_survey(
        survey_inputs([SHARED / "mail/enron.parquet"], RAW_ROLES), tmp_path / "b"
    )
    expected = sorted(
        (row for row in table if row["custodian"] == "arora-h"),
        key=lambda row: row["source_path"].encode(),
    )
    assert len(tree) == 654
    assert [(row["text"], row["user_id"]) for row in tree] == [
        (row["text"], row["user_id"]) for row in expected
    ]


@pytest.mark.slow
@needs_corpora
def test_stress_files_are_read(tmp_path: Path) -> None:
    survey = survey_inputs([SHARED / "stress/fixtures", SHARED / "stress/synthetic"], Roles())
    rows, quarantine = stage_survey(survey, tmp_path / "out")
    file_count = sum(
        len(names)
        for folder in ("fixtures", "synthetic")
        for _, _, names in os.walk(SHARED / "stress" / folder)
    )
    assert len(survey.files) == file_count and not survey.ignored
    assert len(rows) > 50_000 and len(quarantine) < 80
    multi_record_files = [
        path for path, _ in survey.files if path.endswith((".mbox", ".jsonl", ".gz"))
    ]
    assert len(rows) >= file_count - len(multi_record_files) + 50_000


@pytest.mark.parametrize(("rows", "fits"), [(10, True), (100, False)])
def test_row_groups_are_read_in_place_if_they_fit_in_memory_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, fits: bool
) -> None:
    """A dictionary page holds the text once: the footer says 50 KB a row group, which decodes to
    500 KB or 5 MB."""
    monkeypatch.setattr(sanitize.readers.parquet, "MAX_IN_PLACE_GROUP_BYTES", 1_000_000)
    pq.write_table(
        pa.table({"text": ["x" * 50_000] * 100}), tmp_path / "a.parquet", row_group_size=rows
    )
    (unit,) = (survey := survey_inputs([tmp_path / "a.parquet"], DEFAULT_ROLES)).units
    assert unit.in_place
    assert sanitize.readers.parquet.is_readable_in_place(unit, survey.layout, LIMIT) is fits


def test_header_line_of_100000_columns(tmp_path: Path) -> None:
    """Columns without a name are numbered; 8 MB of names in one line, where more than 1 MB was no
    header."""
    count = 50_000
    named = [f"{number:0160d}" for number in range(count)]
    (tmp_path / "wide.csv").write_text(
        ",".join(["text", "column_3", *named, *[""] * count]) + "\nhi\n"
    )
    columns = sanitize.readers.csv.survey_file(
        str(tmp_path / "wide.csv"), "csv", Roles(), 1 << 25
    ).schema.names
    assert (
        columns[:2] == ["text", "column_3"]
        and columns[-1] == f"column_{2 * count + 2}"
        and len(set(columns)) == 2 * count + 2
    )


# compressed: three rows with the fields `repeated binary text (String)`, `repeated int64 n` and
# `optional binary id (String)`, texts in a dictionary. pyarrow reads such fields, and writes lists
LISTS_WITHOUT_ANNOTATION = (
    "c-m!B!AiqG5S?to8cGkfbe1lLvIo0ZNJ?9brylfHp@-tdn-JrIg*2@(YES(Jzrj!OBRqTX;Ac1+<DnRmH!$<wo3}"
    "|87guBSaEH4&`Uq`+006FwWocBoR!N=@Gh@!pHd$>lGfdYjhvr)gw}%92l4WW#ilaD=qtW<uf`AHDhz)EZM{eC1J"
    "#M?gBj$bqQD!&`?Y=#VSK)#6hPr1jx2_bkhrKyTY)s2asu&hhvg%+bq~YFL?lAY5lyV+Jmp`WWW|bfZZ1%mbSDJ0"
    "vhj~zWQ^U#afOXmOu5Jr113A?YU{l7xTk=<gAR6M+p<BN>+8=}z4UpM`wWv(Rjnv$en)&2m)t>BgkhFl5zQ{$czn"
    "#kfp;Ao;nlmEvn*6tlVi28+Qk44D)gSEt9xl1mV1?q{6<qsN;6!bb;^E1ZQM%bgNl~m{)Uzobm+M?j&W5AmSWbiL"
    "JKG}$^!gU`6Z`-hqecP"
)


@pytest.mark.parametrize("text_column", ["text[]", "id"])
def test_parquet_lists_without_annotation(text_column: str, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(zlib.decompress(base64.b85decode(LISTS_WITHOUT_ANNOTATION)))
    assert "repeated binary field_id=-1 text (String)" in str(pq.ParquetFile(path).schema)
    sanitize.run(path, tmp_path / "out", text_column=text_column, seed=1, workers=1)
    rows = sanitize.Corpus.open(tmp_path / "out").table(["text", "n", "id"]).to_pylist()
    assert rows == [
        {"text": ["Write to [EMAIL_ADDRESS]", "x"], "n": [1], "id": "a"},
        {"text": [], "n": [2, 3], "id": "b"},
        {"text": ["b", "call [PHONE_NUMBER]"], "n": [], "id": "c"},
    ]


def import_type(arrow_format: bytes) -> pa.DataType:
    """A type that pyarrow reads, and has no class for."""

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def release(address: int) -> None:
        ctypes.memset(address + 7 * 8, 0, 8)

    schema = (
        ctypes.c_void_p * 9
    )()  # of the C data interface: format, name, .., flags, .., release
    texts = [ctypes.c_char_p(arrow_format), ctypes.c_char_p(b"")]
    schema[0], schema[1] = (ctypes.cast(text, ctypes.c_void_p).value for text in texts)
    schema[3], schema[7] = 2, ctypes.cast(release, ctypes.c_void_p).value
    return pa.DataType._import_from_c(ctypes.addressof(schema))


@pytest.mark.parametrize("is_nested", [False, True])
@pytest.mark.parametrize("interval", [b"tiM", b"tiD", b"tin"])
def test_arrow_intervals_are_quarantined(interval: bytes, is_nested: bool, tmp_path: Path) -> None:
    data_type = import_type(interval)
    if is_nested:
        data_type = pa.struct([("list", pa.list_(data_type))])
    schema = pa.schema([("text", pa.string()), ("interval", data_type)])
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "b.jsonl").write_text('{"text": "b"}')
    with pa.ipc.new_stream(str(tmp_path / "in" / "a.arrow"), schema):
        pass
    result = sanitize.run(
        tmp_path / "in", tmp_path / "out", seed=1, workers=1, max_quarantine="100%"
    )
    assert dict(result.quarantine) == {"unknown_column_type": 1} and result.documents_out == 1
    with pytest.raises(InputRefused, match="a column that Parquet cannot store: .* an interval"):
        sanitize.run(tmp_path / "in" / "a.arrow", tmp_path / "other")
