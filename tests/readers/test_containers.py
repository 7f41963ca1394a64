"""Readers for CSV, JSON arrays, plain text, Arrow, and folders of `datasets`."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import random
import struct
import time
import tracemalloc
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sanitize.readers.csv
import sanitize.readers.text
from sanitize.errors import InputRefused, UsageError
from sanitize.readers.byte_streams import open_stream
from sanitize.readers.csv import iter_records
from sanitize.readers.json_array import iter_elements
from sanitize.readers.survey import REASONS, Roles, Survey, parse_mail, stage_unit, survey_inputs
from tests.support import to_json_lines

SHARED = Path(__file__).parents[3] / "shared" / "data"
needs_corpora = pytest.mark.skipif(not SHARED.is_dir(), reason="the real corpora are missing")
LIMIT = 1 << 20
MAIL = b"From: Ann Lee <ann@example.com>\nSubject: %s\n\nCall 555-0100.\n"
Quarantine = list[tuple[int, str, str, str]]


def write_file(path: Path, content: bytes | pa.Table) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        pq.write_table(content, path)
    return path


def stage_survey(
    survey: Survey, out: Path, limit: int = LIMIT
) -> tuple[list[dict[str, Any]], Quarantine]:
    """All documents of a survey, and (position in the corpus, file name, location, reason) of each
    quarantined record."""
    rows: list[dict[str, Any]] = []
    quarantine: Quarantine = []
    out.mkdir(exist_ok=True)
    for unit in survey.units:
        result = stage_unit(unit, survey.layout, out / "one", out / "aside", limit)
        table, unit_quarantine = (
            pq.read_table(out / "one"),
            pq.read_table(out / "aside").to_pylist(),
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
    return rows, quarantine


def read_path(
    path: Path, roles: Roles | None = None, limit: int = LIMIT
) -> tuple[list[dict[str, Any]], Quarantine]:
    return stage_survey(survey_inputs([path], roles or Roles()), path.parent / "staged", limit)


# mails of invented people, with characters that are special in some container
ROWS: list[dict[str, Any]] = [
    {
        "id": f"m{number}",
        "sender": f"ann{number}@example.com",
        "note": note,
        "text": f"From: ann{number}@example.com\nSubject: {note}\n\nDear Bob,\n\n{body}\n-- \nAnn",
    }
    for number, (note, body) in enumerate(
        [
            ("plain", "Call 212-555-0100."),
            ('a "quote", and a comma', 'She said: "no".\n"Quoted" line\n""twice""'),
            ("tab\there; there|bar", "a,b;c\td|e"),
            (None, "]}, [{ \\ \\n \\u0040 / [1, 2]"),
            ("ünï 😀", "naïve café\u2028line\u00a0no-break\x85"),
            ("=1+1", "\n\n\nblank lines\n\n\n\nend\n"),
            ("cr", "old\rmac\r\nand dos"),
        ]
    )
]


def to_csv(separator: str, rows: list[dict[str, Any]] = ROWS, **options: Any) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), delimiter=separator, **options)
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def to_arrow(
    table: pa.Table, *, file: bool = False, size: int = 3, compression: str | None = None
) -> bytes:
    sink = pa.BufferOutputStream()
    make = pa.ipc.new_file if file else pa.ipc.new_stream
    with make(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as out:
        out.write_table(table, max_chunksize=size)
    return bytes(sink.getvalue().to_pybytes())


TABLE = pa.Table.from_pylist(ROWS)
CONTAINERS: dict[str, bytes | pa.Table] = {
    "a.parquet": TABLE,
    "a.jsonl": to_json_lines(ROWS),
    "a.json": json.dumps(ROWS).encode(),
    "pretty.json": b"\xef\xbb\xbf" + json.dumps(ROWS, indent=1, ensure_ascii=False).encode(),
    "lines.json": to_json_lines(ROWS),
    "array": json.dumps(ROWS, indent=4).encode(),
    "a.json.gz": gzip.compress(json.dumps(ROWS).encode()),
    "a.csv": to_csv(","),
    "unix.csv": to_csv(",", lineterminator="\n"),
    "all-quoted.csv": b"\xef\xbb\xbf" + to_csv(",", quoting=csv.QUOTE_ALL),
    "semicolon.csv": to_csv(";"),
    "bar.csv": to_csv("|"),
    "a.tsv": to_csv("\t"),
    "a.tab": to_csv("\t"),
    "a.csv.gz": gzip.compress(to_csv(",")),
    "a.csv.zst": pa.compress(to_csv(","), codec="zstd", asbytes=True),
    "stream.arrow": to_arrow(TABLE),
    "stream": to_arrow(TABLE),
    "file.arrow": to_arrow(TABLE, file=True),
    "lz4.feather": to_arrow(TABLE, file=True, compression="lz4"),
    "dictionary.arrow": to_arrow(
        TABLE.set_column(1, "sender", TABLE["sender"].dictionary_encode())
    ),
    "a.arrow.gz": gzip.compress(to_arrow(TABLE)),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_the_same_mails_in_every_container(tmp_path: Path, name: str) -> None:
    roles = Roles(user="sender", id="id")
    rows, quarantine = read_path(write_file(tmp_path / name, CONTAINERS[name]), roles)
    assert quarantine == []
    expected = [
        {"doc_id": row["id"], "user_id": row["sender"], "text": row["text"], "note": row["note"]}
        for row in ROWS
    ]
    assert rows == expected


def test_all_formats_in_one_corpus(tmp_path: Path) -> None:
    """A folder with all formats: one schema, with numbers as text in CSV and as numbers in JSON."""
    write_file(tmp_path / "in" / "1.csv", b"text,n\na,1\n")
    write_file(tmp_path / "in" / "2.json", b'[{"text": "b", "n": 2}]')
    write_file(tmp_path / "in" / "3.arrow", to_arrow(pa.table({"text": ["c"]})))
    write_file(tmp_path / "in" / "4.txt", b"d")
    write_file(tmp_path / "in" / "5.eml", MAIL % b"e")
    rows, quarantine = read_path(tmp_path / "in")
    assert [(row["text"], row["n"]) for row in rows[:4]] == [
        ("a", "1"),
        ("b", "2"),
        ("c", None),
        ("d", None),
    ]
    assert rows[4]["text"] == (MAIL % b"e").decode() and not quarantine


# --- CSV ------------------------------------------------------------------------------------------

# bytes after the first line, the expected texts, and the expected quarantine: line and reason
CSV_CASES: dict[str, tuple[bytes, list[str | None], list[tuple[str, str]]]] = {
    "good": (b"a,1\nb,2\n", ["a", "b"], []),
    "no end": (b"a,1\nb,2", ["a", "b"], []),
    "blank lines": (b"\na,1\r\n\r\n\nb,2\n\n", ["a", "b"], []),
    "an empty text": (b",1\n", [""], []),
    "several lines": (b'"a\n\nb ""c""",1\nd,2\n', ['a\n\nb "c"', "d"], []),
    "too few, too many": (
        b"a\nb,2\nc,3,4\nd,5\n",
        ["b", "d"],
        [("line 2", "wrong_cells"), ("line 4", "wrong_cells")],
    ),
    "a quote inside": (
        b'5" disk,1\n6" disk,2\nc,"x\ny"\nb,2\n',
        ['5" disk', '6" disk', "c", "b"],
        [],
    ),
    "a quote inside, and several lines": (
        b'5" disk,"x\ny"\nb,2\n',
        ["b"],
        [("line 2", "not_csv"), ("line 3", "wrong_cells")],
    ),
    "an unclosed quote": (b'"a,1\nb,2\nc,3\n', ["b", "c"], [("line 2", "not_csv")]),
    "a quote closed by a later one": (
        b'"a,1\nb,"2"\n"c\nd",3\n',
        ["b", "c\nd"],
        [("line 2", "not_csv")],
    ),
    "text after a quote": (b'"a"b,1\nc,2\n', ["c"], [("line 2", "not_csv")]),
    "not UTF-8": (b"a,1\n\xff,2\nc,3\n", ["a", "c"], [("line 3", "not_utf8")]),
    "too large": (b"a,1\n" + b"x" * 3_000 + b",2\nb,3\n", ["a", "b"], [("line 3", "too_large")]),
    "too large, several lines": (
        b'a,1\n"' + b"x\n" * 1_500 + b'""\n",2\nb,3\n',
        ["a", "b"],
        [("line 3", "too_large")],
    ),
    "a long unclosed quote": (b'"a,1\n' + b"b,2\n" * 1_000, ["b"] * 1_000, [("line 2", "not_csv")]),
    "a long quote closed by a later one": (
        b'"a,1\n' + b"b,2\n" * 1_000 + b'c,"3"\n',
        ["b"] * 1_000 + ["c"],
        [("line 2", "not_csv")],
    ),
    "NUL": (b"a\0b,1\n", ["a\0b"], []),
}


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("name", CSV_CASES)
def test_no_record_of_a_csv_is_lost(tmp_path: Path, name: str, compressed: bool) -> None:
    content, texts, expected_quarantine = CSV_CASES[name]
    raw = b"text,n\n" + content
    path = write_file(
        tmp_path / ("a.csv.gz" if compressed else "a.csv"),
        gzip.compress(raw) if compressed else raw,
    )
    rows, quarantine = read_path(path, limit=2_000)
    assert [
        row["text"]
        for number, row in enumerate(rows)
        if number not in {position for position, *_ in quarantine}
    ] == texts
    assert [(location, reason) for *_, location, reason in quarantine] == expected_quarantine


def test_csv_records_do_not_depend_on_chunks(tmp_path: Path) -> None:
    """Records do not depend on the chunks in which a file is read; for a valid file they equal
    those of Python's own parser."""
    random.seed(3)
    pieces = ['"', '""', ",", "\n", "\r\n", "a", "bc", " ", "ü", '","', '"\n"', '"x\ny"']
    for trial in range(300):
        raw = "".join(random.choices(pieces, k=random.randint(1, 40))).encode()
        path = write_file(tmp_path / "a.csv", raw)
        results = []
        for chunk in (1, 2, 5, 1 << 20):
            with open_stream(str(path)) as stream:
                results.append(list(iter_records(stream, str(path), ",", 30, chunk)))
        assert results[0] == results[1] == results[2] == results[3], trial
    rows = [
        ["".join(random.choices('ab",\n\r ü', k=random.randint(0, 9))) for _ in range(3)]
        for _ in range(300)
    ]
    out = io.StringIO()
    csv.writer(out).writerows([["text", "b", "c"], *rows])
    found_rows, quarantine = read_path(write_file(tmp_path / "b.csv", out.getvalue().encode()))
    assert [
        [row["text"], row["b"] or "", row["c"] or ""] for row in found_rows
    ] == rows and not quarantine


@pytest.mark.parametrize(
    ("name", "raw", "names"),
    [
        ("a.csv", b",text,\n0,a,b\n", ["column_1", "column_3"]),
        ("a.csv", b"column_1,text,\n0,a,b\n", ["column_1", "column_3"]),
        ("a.csv", b" n ,text\n0,a\n", ["n"]),
        ("a.csv", b'"the ""n""",text\n0,a\n', ['the "n"']),
        ("a.csv", b"text\na\n", []),
        ("a.tsv", b"text;n\na;b\n", ["n"]),
    ],
)
def test_column_names_of_first_lines(
    tmp_path: Path, name: str, raw: bytes, names: list[str]
) -> None:
    survey = survey_inputs([write_file(tmp_path / name, raw)], Roles())
    assert survey.schema.names[3:] == names
    assert [row["text"] for row in stage_survey(survey, tmp_path / "out")[0]] == ["a"]


@pytest.mark.slow
def test_hostile_csv_takes_linear_time(tmp_path: Path) -> None:
    """Thousands of quotes that are never closed: no line is read repeatedly."""
    for content in (
        b'"a,1\nb,2\n' * 40_000,
        b'"' * 400_000,
        b'5" d,1\n' * 60_000 + b'"',
        b'a,"' * 100_000,
        b'"\n' * 200_001,
    ):
        path = write_file(tmp_path / "a.csv", b"text,n\n" + content)
        start_time = time.process_time()
        read_path(path, limit=50_000)
        assert time.process_time() - start_time < 5


# --- JSON arrays ----------------------------------------------------------------------------------

ARRAY_CASES: dict[str, tuple[bytes, list[str], list[tuple[str, str]]]] = {
    "empty elements": (
        b'[{"text": "a"}, , {"text": "b"},]',
        ["a", "b"],
        [("element 2", "not_json")],
    ),
    "elements that are not objects": (
        b'[{"text": "a"}, 3, "s", null, [1], {"n": 1}, {"text": "b"}]',
        ["a", "b"],
        [(f"element {n}", "not_an_object") for n in (2, 3, 4, 5)] + [("element 6", "no_text")],
    ),
    "an invalid element": (
        b'[{"text": "a"}, {"text": x}, {"text": "two\nlines"}, {"text": "b"}]',
        ["a", "b"],
        [("element 2", "not_json"), ("element 3", "not_json")],
    ),
    "too large": (
        b'[{"text": "a"}, {"text": "' + b"x" * 5_000 + b'"}, {"text": "b"}]',
        ["a", "b"],
        [("element 2", "too_large")],
    ),
    "not UTF-8": (
        b'[{"text": "a"}, {"text": "\xff"}, {"text": "\\ud83d"}, {"text": "b"}]',
        ["a", "b"],
        [("element 2", "not_utf8"), ("element 3", "not_utf8")],
    ),
    "truncated element": (
        b'[{"text": "a"}, {"text": "b"}, {"text": "c',
        ["a", "b"],
        [("after element 2", "truncated")],
    ),
    "truncated between elements": (
        b'[{"text": "a"}, {"text": "b"}',
        ["a", "b"],
        [("after element 2", "truncated")],
    ),
    "a missing bracket": (
        b'[{"text": "a"}, {"text": "b", {"text": "c"}, {"text": "d"}]',
        ["a"],
        [("element 2", "not_json"), ("after element 2", "truncated")],
    ),
    "an extra bracket": (b'[{"text": "a"}}, {"text": "b"}]', ["b"], [("element 1", "not_json")]),
    "text after the array": (
        b'[{"text": "a"}] [{"text": "b"}]',
        ["a"],
        [("element 2", "not_json")],
    ),
    "deep": (
        b'[{"text": "a"}, {"text": ' + b"[" * 900 + b"]" * 900 + b'}, {"text": "b"}]',
        ["a", "b"],
        [("element 2", "too_deep")],
    ),
}


@pytest.mark.parametrize("name", ARRAY_CASES)
def test_no_element_of_an_array_is_lost(tmp_path: Path, name: str) -> None:
    content, texts, expected_quarantine = ARRAY_CASES[name]
    rows, quarantine = read_path(write_file(tmp_path / "a.json", content), limit=2_000)
    assert [
        row["text"]
        for number, row in enumerate(rows)
        if number not in {position for position, *_ in quarantine}
    ] == texts
    assert [(location, reason) for *_, location, reason in quarantine] == expected_quarantine


@pytest.mark.slow
def test_array_elements_do_not_depend_on_chunks_and_large_ones_are_not_buffered() -> None:
    raw = json.dumps([{"a": '"]}\\'}, {"b": "x" * 500}, [["]"]], {"c": {"d": [1, "\\"]}}]).encode()
    for chunk in (1, 2, 5, 1 << 18):
        elements = list(
            iter_elements(io.BufferedReader(io.BytesIO(raw)), limit=60, chunk_bytes=chunk)
        )
        assert [element and json.loads(element) for *_, element in elements] == [
            {"a": '"]}\\'},
            None,
            [["]"]],
            {"c": {"d": [1, "\\"]}},
        ], chunk
        assert [raw[offset : offset + 1] for _, offset, _ in elements] == [b"{", b"{", b"[", b"{"]

    class Endless(io.RawIOBase):
        """An element without an end."""

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            buffer[:] = b"[" * len(buffer) if not self.call_count else b"x" * len(buffer)
            self.call_count += 1
            if self.call_count > 200:
                raise MemoryError  # the reader did not stop earlier
            return len(buffer)

        call_count = 0

    tracemalloc.start()
    with pytest.raises(MemoryError):
        list(iter_elements(io.BufferedReader(Endless(), 1 << 16), limit=1_000, chunk_bytes=1 << 16))
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()


def test_truncated_csv_and_array(tmp_path: Path) -> None:
    """The break is inside a text of many lines, which are not records."""
    complete = gzip.compress(b'text,n\na,1\nb,2\n"' + b"one,line\n" * 20_000 + b'",3\n', 0)
    rows, quarantine = read_path(write_file(tmp_path / "a.csv.gz", complete[: len(complete) // 2]))
    assert [row["text"] for row in rows] == ["a", "b", None]
    assert [(location, reason) for *_, location, reason in quarantine] == [
        ("after line 3", "truncated")
    ]
    complete = gzip.compress(
        json.dumps([{"text": "a"}, {"text": "b"}, {"text": "x, " * 50_000}]).encode(), 0
    )
    rows, quarantine = read_path(write_file(tmp_path / "a.json.gz", complete[: len(complete) // 2]))
    assert [row["text"] for row in rows] == ["a", "b", None]
    assert [(location, reason) for *_, location, reason in quarantine] == [
        ("after element 2", "truncated")
    ]


# --- plain text -----------------------------------------------------------------------------------

TEXT = "Dear Ann,\r\n \ncall 212-555-0100\nor write.\n\n\n  indented\n\t\nlast"
TEXTS_BY_SPLIT = {
    "file": [TEXT],
    "lines": ["Dear Ann,", "call 212-555-0100", "or write.", "  indented", "last"],
    "paragraphs": ["Dear Ann,", "call 212-555-0100\nor write.", "  indented", "last"],
}


@pytest.mark.parametrize("size", [1, 1 << 20])
@pytest.mark.parametrize("split", TEXTS_BY_SPLIT)
@pytest.mark.parametrize("name", ["a.txt", "a.text", "a.txt.gz"])
def test_text_is_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split: str, name: str, size: int
) -> None:
    monkeypatch.setattr(sanitize.readers.survey, "SMALL_MBOX_BYTES", size)
    monkeypatch.setattr(sanitize.readers.text, "UNIT_BYTES", 7)
    raw = b"\xef\xbb\xbf" + TEXT.encode()
    write_file(tmp_path / "in" / name, gzip.compress(raw) if name.endswith("gz") else raw)
    write_file(tmp_path / "in" / "b.txt", b"b\n")
    survey = survey_inputs([tmp_path / "in"], Roles(documents=split))
    assert (survey.units[0].rows is None) == (split != "file") and len(survey.units[0].files) == (
        1 if split != "file" and size == 1 else 2
    )
    rows, quarantine = stage_survey(survey, tmp_path / "out")
    assert [row["text"] for row in rows] == [
        *TEXTS_BY_SPLIT[split],
        "b\n" if split == "file" else "b",
    ] and not quarantine


def test_formats_of_txt_files(tmp_path: Path) -> None:
    for name, content in {
        "a.txt": b"From now on, all is well.\nFrom here too.\n",
        "b.txt": b"From ann@example.com Mon Jan  5 10:00:00 2026\n" + MAIL % b"b",
        "c.txt": MAIL % b"c",
        "d.txt": to_json_lines([{"text": "d"}]),
        "e.txt": b"{curly} text",
        "f.txt": b"[{curly}] text",
        "g.txt": b"Gr\xfc\xdfe \x80",
        "h.txt": b"\0\1",
        "i.txt": b"%PDF-1.4 text",
        "j.txt": b"",
        "k.txt": b"x" * (LIMIT + 1),
        "l.md": b"# no text by name\n",
    }.items():
        write_file(tmp_path / "in" / name, content)
    rows, quarantine = read_path(tmp_path / "in")
    texts = [
        "From now on, all is well.\nFrom here too.\n",
        (MAIL % b"b").decode(),
        (MAIL % b"c").decode(),
        "d",
        "{curly} text",
    ]
    assert [row["text"] for row in rows[:5]] == texts and rows[6]["text"] == "Grüße €"
    assert [(name, reason) for _, name, _, reason in quarantine] == [
        ("f.txt", "not_json"),
        ("h.txt", "unknown_format"),
        ("i.txt", "unknown_format"),
        ("j.txt", "empty_file"),
        ("k.txt", "too_large"),
        ("l.md", "unknown_format"),
    ]


def test_large_paragraphs_and_lines(tmp_path: Path) -> None:
    raw = b"a\n" + b"x" * 3_000 + b"\nb\n\n" + b"y" * 3_000 + b"\n\nc\n"
    path = write_file(tmp_path / "a.txt", raw)
    rows, quarantine = read_path(path, Roles(documents="paragraphs"), 2_000)
    assert [row["text"] for row in rows] == [None, None, "c"]
    assert [(location, reason) for *_, location, reason in quarantine] == [
        ("line 1", "too_large"),
        ("line 5", "too_large"),
    ]
    rows, quarantine = read_path(path, Roles(documents="lines"), 2_000)
    assert [row["text"] for row in rows] == ["a", None, "b", None, "c"]
    rows, _ = read_path(
        write_file(tmp_path / "b.txt", b"From now on,\nall is well.\n"), Roles(documents="lines")
    )
    assert [row["text"] for row in rows] == ["From now on,", "all is well."]
    with pytest.raises(UsageError, match="--documents words: known: file, lines, paragraphs"):
        Roles(documents="words")


# --- Arrow, datasets ------------------------------------------------------------------------------


def test_damaged_arrow_files(tmp_path: Path) -> None:
    complete = to_arrow(
        pa.table({"text": [f"text {number}" * 50 for number in range(90)]}), size=10
    )
    rows, quarantine = read_path(write_file(tmp_path / "a.arrow", complete[: len(complete) // 2]))
    assert [row["text"] for row in rows[:-1]] == [
        f"text {number}" * 50 for number in range(len(rows) - 1)
    ]
    assert len(rows) > 30 and quarantine == [
        (len(rows) - 1, "a.arrow", f"after row {len(rows) - 1}", "truncated")
    ]
    raw = pa.array([b"fine", b"\xff\xfe", b"x" * 2_000, b"fine too"])
    invalid = pa.StringArray.from_buffers(4, *raw.buffers()[1:])
    rows, quarantine = read_path(
        write_file(tmp_path / "b.arrow", to_arrow(pa.table({"text": invalid}))), limit=1_000
    )
    assert [row["text"] for row in rows] == ["fine", None, None, "fine too"]
    assert [(location, reason) for *_, location, reason in quarantine] == [
        ("row 1", "not_utf8"),
        ("row 2", "too_large"),
    ]
    # a column name that is not UTF-8
    complete = to_arrow(pa.table({"text": ["a"], "nnnn": ["b"]})).replace(b"nnnn", b"nn\xff\xfe")
    with pytest.raises(InputRefused, match="cannot read it"):
        survey_inputs([write_file(tmp_path / "n.arrow", complete)], Roles())
    # an offset beyond the end of the file
    stream = to_arrow(pa.table({"text": ["aaaa", "bbbb", "cccc"]}))
    offset = stream.index(b"\x04\0\0\0\x08\0\0\0\x0c\0\0\0")
    rows, quarantine = read_path(
        write_file(
            tmp_path / "c.arrow",
            stream[:offset] + b"\x04\0\0\0\xff\xff\xff\x7f\x0c\0\0\0" + stream[offset + 12 :],
        )
    )
    assert [row["text"] for row in rows] == ["aaaa", None, None]
    assert {reason for *_, reason in quarantine} == {"unreadable"}
    # a number of nulls that the rows have not
    counts, wrong_counts = (struct.pack("<qq", 3, null_count) for null_count in (1, 9))
    stream = to_arrow(pa.table({"text": ["a", "b", None]}))
    assert stream.count(counts) == 1
    rows, quarantine = read_path(
        write_file(tmp_path / "e.arrow", stream.replace(counts, wrong_counts))
    )
    assert [row["text"] for row in rows] == [None] * 3 and [
        reason for *_, reason in quarantine
    ] == ["unreadable"] * 3
    two_large = to_arrow(pa.table({"text": ["a", "x" * 2_000, "b", "y" * 2_000]}), size=1)
    assert [
        location
        for *_, location, _ in read_path(write_file(tmp_path / "d.arrow", two_large), limit=1_000)[
            1
        ]
    ] == ["row 1", "row 3"]


UNION = pa.UnionArray.from_sparse(
    pa.array([0, 1], pa.int8()), [pa.array(["a", "b"]), pa.array([1, 2])]
)


@pytest.mark.parametrize(
    "column",
    [
        UNION,
        pa.StructArray.from_arrays([UNION], ["u"]),
        pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), pa.array(["a", "b"])),
        pa.array([pa.MonthDayNano([1, 2, 3]), None]),
        pa.array([["a"], ["b"]], pa.list_view(pa.string())),
    ],
)
def test_arrow_types_that_parquet_lacks_have_a_reason(tmp_path: Path, column: pa.Array) -> None:
    write_file(tmp_path / "in" / "a.arrow", to_arrow(pa.table({"text": ["a", "b"], "c": column})))
    write_file(tmp_path / "in" / "b.jsonl", b'{"text": "fine"}\n')
    survey = survey_inputs([tmp_path / "in"], Roles())
    assert survey.unreadable == [(str(tmp_path / "in" / "a.arrow"), "unknown_column_type")]


def test_binary_columns_of_arrow_are_mails(tmp_path: Path) -> None:
    table = pa.table({"raw": [MAIL % b"a", MAIL % b"b"]})
    rows, quarantine = read_path(
        write_file(tmp_path / "a.arrow", to_arrow(table)), Roles(text=("raw",))
    )
    assert [(row["text"], row["user_id"]) for row in rows] == [
        ((MAIL % subject).decode(), "ann@example.com") for subject in (b"a", b"b")
    ]
    assert not quarantine


def test_a_folder_of_datasets(tmp_path: Path) -> None:
    import datasets

    texts = [f"Call 212-555-01{number:02d}." for number in range(10)]
    dataset = datasets.Dataset.from_dict({"text": texts, "n": list(range(10))})
    dataset.save_to_disk(tmp_path / "one", num_shards=2)
    datasets.DatasetDict(
        train=dataset.select(range(6)), test=dataset.select(range(6, 10))
    ).save_to_disk(tmp_path / "dict")
    hub = tmp_path / "hub"
    write_file(hub / "README.md", b"---\nconfigs:\n- config_name: default\n---\n# About\n")
    write_file(hub / ".gitattributes", b"*.parquet filter=lfs\n")
    (hub / "data").mkdir()
    dataset.to_parquet(hub / "data" / "train-00000-of-00001.parquet")
    for name, expected in (("one", texts), ("dict", texts), ("hub", texts)):  # train before test
        survey = survey_inputs([tmp_path / name], Roles())
        rows, quarantine = stage_survey(survey, tmp_path / "out")
        assert ([row["text"] for row in rows], quarantine, survey.unreadable) == (
            expected,
            [],
            [],
        ), name
        assert {type(row["n"]) for row in rows} == {int}
        assert [unit.in_place for unit in survey.units] == [name == "hub"] * len(survey.units)
    # in other folders, the same names are data or quarantined
    write_file(tmp_path / "other" / "state.json", to_json_lines([{"text": "Ohio"}]))
    write_file(tmp_path / "other" / "README.md", b"# About")
    rows, quarantine = read_path(tmp_path / "other")
    assert [row["text"] for row in rows] == [None, "Ohio"] and [
        reason for *_, reason in quarantine
    ] == ["unknown_format"]


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "roles", "message"),
    [
        (
            "a.csv",
            b"Call Ann,1\nCall Bob,2\n",
            Roles(),
            "its first line does not name each of its columns once",
        ),
        ("a.csv", b"text,text\na,b\n", Roles(), "each of its columns once"),
        ("a.csv", b"text,n\na,b\n", Roles(text=("body",)), "set by --text-column"),
        ("a.csv", b"PK\3\4\0\0Call Ann", Roles(), "its content does not match its suffix .csv"),
        ("a.csv", b"text,n\ra,1\r", Roles(), "lines end with LF or CRLF"),
        (
            "a.csv",
            b"hue,n\na,1\n",
            Roles(),
            "Name the main text's column with --text-column NAME, or put a line of names first",
        ),
        (
            "a.csv",
            "text,n\nCall Ann,1\n".encode("utf-16"),
            Roles(),
            "its content does not match its suffix .csv (it is in UTF-16; expected UTF-8)",
        ),
        (
            "a.csv",
            b"text\0,n\nCall Ann,1\n",
            Roles(),
            "(it holds NUL bytes, which do not occur in text)",
        ),
        (
            "a.csv",
            "text,n\nCall Ann,1\n".encode("utf-16-le"),
            Roles(),
            "(it holds NUL bytes, which do not occur in text)",
        ),
        (
            "a.txt",
            "Call\nAnn\n".encode("utf-16-le"),
            Roles(),
            "(it holds NUL bytes, which do not occur in text)",
        ),
        (
            "a.txt",
            b"\x89PNG\r\n\x1a\n\0\0Call Ann",
            Roles(),
            "its content does not match its suffix .txt",
        ),
        (
            "a.jsonl",
            '{"text": "Call Ann"}\n'.encode("utf-16-be"),
            Roles(),
            "its content does not match its suffix .jsonl (it holds NUL bytes",
        ),
        ("a.parquet", b"\0Call Ann", Roles(), "its content does not match its suffix .parquet. "),
        ("a.tsv", b"", Roles(), "it has no bytes"),
        ("a.csv.gz", gzip.compress(b"text" * 9_000, mtime=0)[:-30], Roles(), "it ends too early"),
        (
            "a.json",
            b'{\n "text": "Call Ann"\n}',
            Roles(),
            "its content does not match its suffix .json",
        ),
        ("a.json", b"[1, 2]", Roles(), "its content does not match its suffix .json"),
        ("a.json", b"[] []", Roles(), "it is not valid JSON"),
        ("a.json", b'[{"text": "Call Ann', Roles(), "it ends too early"),
        ("a.json", b"[", Roles(), "its content does not match its suffix .json"),
        ("a.txt", b"\x89PNG\0Call Ann", Roles(), "its content does not match its suffix .txt"),
        ("a.arrow", b"Call Ann", Roles(), "its content does not match its suffix .arrow"),
        ("a.arrow", b"\xff\xff\xff\xff\xff\xff\xff\x7fCall Ann", Roles(), "cannot read it"),
        ("a.arrow", b"ARROW1\0\0", Roles(), "cannot read it"),
    ],
)
def test_named_files_are_refused(
    tmp_path: Path, name: str, content: bytes, roles: Roles, message: str
) -> None:
    with pytest.raises(InputRefused) as caught:
        survey_inputs([write_file(tmp_path / name, content)], roles)
    assert message in str(caught.value)
    assert "Ann" not in str(caught.value)


# --- NUL bytes, and files without records ---------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "texts", "expected_quarantine"),
    [
        ("a.txt", b"Call\nAnn\0Roe\n", ["Call\nAnn\0Roe\n"], []),
        ("a.jsonl", b'{"text": "a"}\n\0\0\0\n{"text": "b"}\n', ["a", None, "b"], ["not_json"]),
        (
            "a.json",
            b'[{"text": "a"}, {"text": "x\0"}, {"text": "b"}]',
            ["a", None, "b"],
            ["not_json"],
        ),
    ],
)
def test_nul_affects_only_its_record(
    tmp_path: Path, name: str, content: bytes, texts: list[str], expected_quarantine: list[str]
) -> None:
    rows, quarantine = read_path(write_file(tmp_path / name, content))
    assert [row["text"] for row in rows] == texts and [
        reason for *_, reason in quarantine
    ] == expected_quarantine


@pytest.mark.parametrize("content", [b"[]", b" [\n] \n"])
@pytest.mark.parametrize("roles", [Roles(), Roles(text=("said[].text",), user="who", id="no")])
def test_an_array_without_elements_has_no_records(
    tmp_path: Path, content: bytes, roles: Roles
) -> None:
    """A file without records takes the columns of the other files."""
    write_file(tmp_path / "in" / "a.json", content)
    record = {"text": "hi", "said": [{"text": "hi"}], "who": 7, "no": "x"}
    write_file(tmp_path / "in" / "b.jsonl", json.dumps(record).encode() + b"\n")
    survey, jsonl_survey = (
        survey_inputs([tmp_path / "in"], roles),
        survey_inputs([tmp_path / "in" / "b.jsonl"], roles),
    )
    assert (survey.unreadable, survey.schema, len(survey.units)) == ([], jsonl_survey.schema, 2)
    results = [
        stage_unit(unit, survey, tmp_path / f"{unit.no}.parquet", tmp_path / f"{unit.no}.q", 1_000)
        for unit in survey.units
    ]
    assert [(result.rows, result.quarantined) for result in results] == [(0, 0), (1, 0)]
    assert survey_inputs([tmp_path / "in" / "a.json"], Roles()).unreadable == []


# --- real corpora ---------------------------------------------------------------------------------


@needs_corpora
def test_real_mails_in_eight_containers(tmp_path: Path) -> None:
    """Six hold the whole raw mails; the mbox the same mails, each ended by a line end; the text
    file their bodies in one text."""
    folder = SHARED / "formats"
    first, quarantine = stage_survey(
        survey_inputs([folder / "enron200.parquet"], Roles()), tmp_path / "a"
    )
    assert len(first) == 200 and not quarantine
    for name in ("csv", "json", "jsonl", "jsonl.gz", "tsv"):
        assert stage_survey(
            survey_inputs([folder / f"enron200.{name}"], Roles()), tmp_path / "b"
        ) == (first, []), name
    mbox, quarantine = stage_survey(
        survey_inputs([folder / "enron200.mbox"], Roles()), tmp_path / "c"
    )
    assert [row["text"].rstrip("\n") for row in mbox] == [
        parse_mail(row["text"].encode())[0].rstrip("\n") for row in first
    ] and not quarantine
    (text,), quarantine = stage_survey(
        survey_inputs([folder / "enron200.txt"], Roles()), tmp_path / "d"
    )
    assert (
        text["text"] == "\n\n".join(row["text"].partition("\n\n")[2] for row in first)
        and not quarantine
    )
    paragraphs, _ = stage_survey(
        survey_inputs([folder / "enron200.txt"], Roles(documents="paragraphs")), tmp_path / "e"
    )
    assert [p["text"] for p in paragraphs] == [
        part for part in text_paragraphs(text["text"]) if part
    ]


def text_paragraphs(text: str) -> list[str]:
    """The paragraphs of a text, by a simple reference implementation."""
    paragraphs: list[list[str]] = [[]]
    for line in text.split("\n"):
        if line.strip():
            paragraphs[-1].append(line)
        else:
            paragraphs.append([])
    return ["\n".join(lines) for lines in paragraphs]


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_arrow_files_of_polars_are_read(tmp_path: Path, compression: str) -> None:
    """They have no schema at their start, only in the footer."""
    pl.DataFrame({"text": ["Call Ann", None], "n": [1, 2]}).write_ipc(
        tmp_path / "a.arrow", compression=compression
    )  # type: ignore[arg-type]
    rows, quarantine = read_path(tmp_path / "a.arrow", Roles())
    assert [(row["text"], row["n"]) for row in rows] == [
        ("Call Ann", 1),
        (None, 2),
    ] and not quarantine
    content = (tmp_path / "a.arrow").read_bytes()
    (tmp_path / "b.arrow").write_bytes(content[: len(content) // 2])
    with pytest.raises(InputRefused):
        survey_inputs([tmp_path / "b.arrow"], Roles())
