"""Readers for CSV, JSON arrays, plain text, Arrow, and folders of `datasets`."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import random
import time
import tracemalloc
from pathlib import Path
from typing import Any

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

SHARED = Path(__file__).parents[3] / "shared" / "data"
real = pytest.mark.skipif(not SHARED.is_dir(), reason="the real corpora are not beside this repository")
LIMIT = 1 << 20
MAIL = b"From: Ann Lee <ann@example.com>\nSubject: %s\n\nCall 555-0100.\n"
Aside = list[tuple[int, str, str, str]]


def lines(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def write(path: Path, content: bytes | pa.Table) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        pq.write_table(content, path)
    return path


def staged(found: Survey, out: Path, limit: int = LIMIT) -> tuple[list[dict[str, Any]], Aside]:
    """All documents of a survey, and (position in the corpus, file name, location, reason) of each quarantined record."""
    rows: list[dict[str, Any]] = []
    aside: Aside = []
    out.mkdir(exist_ok=True)
    for unit in found.units:
        made = stage_unit(unit, found.layout, out / "one", out / "aside", limit)
        table, set_aside = pq.read_table(out / "one"), pq.read_table(out / "aside").to_pylist()
        assert table.num_rows == made.rows and len(set_aside) == made.quarantined and unit.rows in (None, made.rows)
        aside += [(len(rows) + one["row"], os.path.basename(one["source"]), one["location"], one["reason"]) for one in set_aside]
        rows += table.cast(found.schema).to_pylist()
    assert all(reason in REASONS for *_, reason in aside)
    assert all(set(rows[row].values()) == {None} for row, *_ in aside)
    return rows, aside


def read(path: Path, roles: Roles | None = None, limit: int = LIMIT) -> tuple[list[dict[str, Any]], Aside]:
    return staged(survey_inputs([path], roles or Roles()), path.parent / "staged", limit)


# mails of invented people, with all that containers stumble over
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


def delimited(separator: str, rows: list[dict[str, Any]] = ROWS, **how: Any) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), delimiter=separator, **how)
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def arrow(table: pa.Table, *, file: bool = False, size: int = 3, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    make = pa.ipc.new_file if file else pa.ipc.new_stream
    with make(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as out:
        out.write_table(table, max_chunksize=size)
    return bytes(sink.getvalue().to_pybytes())


TABLE = pa.Table.from_pylist(ROWS)
CONTAINERS: dict[str, bytes | pa.Table] = {
    "a.parquet": TABLE,
    "a.jsonl": lines(ROWS),
    "a.json": json.dumps(ROWS).encode(),
    "pretty.json": b"\xef\xbb\xbf" + json.dumps(ROWS, indent=1, ensure_ascii=False).encode(),
    "lines.json": lines(ROWS),
    "array": json.dumps(ROWS, indent=4).encode(),
    "a.json.gz": gzip.compress(json.dumps(ROWS).encode()),
    "a.csv": delimited(","),
    "unix.csv": delimited(",", lineterminator="\n"),
    "all-quoted.csv": b"\xef\xbb\xbf" + delimited(",", quoting=csv.QUOTE_ALL),
    "semicolon.csv": delimited(";"),
    "bar.csv": delimited("|"),
    "a.tsv": delimited("\t"),
    "a.tab": delimited("\t"),
    "a.csv.gz": gzip.compress(delimited(",")),
    "a.csv.zst": pa.compress(delimited(","), codec="zstd", asbytes=True),
    "stream.arrow": arrow(TABLE),
    "stream": arrow(TABLE),
    "file.arrow": arrow(TABLE, file=True),
    "lz4.feather": arrow(TABLE, file=True, compression="lz4"),
    "dictionary.arrow": arrow(TABLE.set_column(1, "sender", TABLE["sender"].dictionary_encode())),
    "a.arrow.gz": gzip.compress(arrow(TABLE)),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_the_same_mails_in_every_container(tmp_path: Path, name: str) -> None:
    roles = Roles(user="sender", id="id")
    found, aside = read(write(tmp_path / name, CONTAINERS[name]), roles)
    assert aside == []
    expected = [{"doc_id": row["id"], "user_id": row["sender"], "text": row["text"], "note": row["note"]} for row in ROWS]
    assert found == expected


def test_they_make_one_corpus(tmp_path: Path) -> None:
    """A folder with all formats: one schema, with numbers as text in CSV and as numbers in JSON."""
    write(tmp_path / "in" / "1.csv", b"text,n\na,1\n")
    write(tmp_path / "in" / "2.json", b'[{"text": "b", "n": 2}]')
    write(tmp_path / "in" / "3.arrow", arrow(pa.table({"text": ["c"]})))
    write(tmp_path / "in" / "4.txt", b"d")
    write(tmp_path / "in" / "5.eml", MAIL % b"e")
    rows, aside = read(tmp_path / "in")
    assert [(row["text"], row["n"]) for row in rows[:4]] == [("a", "1"), ("b", "2"), ("c", None), ("d", None)]
    assert rows[4]["text"] == (MAIL % b"e").decode() and not aside


# --- CSV --------------------------------------------------------------------------------------------------------------------------

# what stands behind the first line -> (the texts that come out, what is set aside: line and reason)
CSV: dict[str, tuple[bytes, list[str | None], list[tuple[str, str]]]] = {
    "good": (b"a,1\nb,2\n", ["a", "b"], []),
    "no end": (b"a,1\nb,2", ["a", "b"], []),
    "blank lines": (b"\na,1\r\n\r\n\nb,2\n\n", ["a", "b"], []),
    "an empty text": (b",1\n", [""], []),
    "several lines": (b'"a\n\nb ""c""",1\nd,2\n', ['a\n\nb "c"', "d"], []),
    "too few, too many": (b"a\nb,2\nc,3,4\nd,5\n", ["b", "d"], [("line 2", "wrong_cells"), ("line 4", "wrong_cells")]),
    "a quote inside": (b'5" disk,1\n6" disk,2\nc,"x\ny"\nb,2\n', ['5" disk', '6" disk', "c", "b"], []),
    "a quote inside, and several lines": (
        b'5" disk,"x\ny"\nb,2\n', ["b"], [("line 2", "not_csv"), ("line 3", "wrong_cells")],
    ),
    "one never closed": (b'"a,1\nb,2\nc,3\n', ["b", "c"], [("line 2", "not_csv")]),
    "one never closed, closed by a later one": (b'"a,1\nb,"2"\n"c\nd",3\n', ["b", "c\nd"], [("line 2", "not_csv")]),
    "text behind a quote": (b'"a"b,1\nc,2\n', ["c"], [("line 2", "not_csv")]),
    "not UTF-8": (b"a,1\n\xff,2\nc,3\n", ["a", "c"], [("line 3", "not_utf8")]),
    "too large": (b"a,1\n" + b"x" * 3_000 + b",2\nb,3\n", ["a", "b"], [("line 3", "too_large")]),
    "too large, several lines": (
        b'a,1\n"' + b"x\n" * 1_500 + b'""\n",2\nb,3\n', ["a", "b"], [("line 3", "too_large")],
    ),
    "never closed, and long": (b'"a,1\n' + b"b,2\n" * 1_000, ["b"] * 1_000, [("line 2", "not_csv")]),
    "never closed, long, closed by a later one": (
        b'"a,1\n' + b"b,2\n" * 1_000 + b'c,"3"\n', ["b"] * 1_000 + ["c"], [("line 2", "not_csv")],
    ),
    "NUL": (b"a\0b,1\n", ["a\0b"], []),
}  # fmt: skip


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", CSV)
def test_no_record_of_a_csv_is_lost(tmp_path: Path, name: str, packed: bool) -> None:
    content, texts, bad = CSV[name]
    raw = b"text,n\n" + content
    path = write(tmp_path / ("a.csv.gz" if packed else "a.csv"), gzip.compress(raw) if packed else raw)
    rows, aside = read(path, limit=2_000)
    assert [row["text"] for number, row in enumerate(rows) if number not in {at for at, *_ in aside}] == texts
    assert [(place, reason) for *_, place, reason in aside] == bad


def test_a_csv_is_cut_anywhere(tmp_path: Path) -> None:
    """Records do not depend on the chunks in which a file is read; for a valid file they equal those of Python's own parser."""
    random.seed(3)
    pieces = ['"', '""', ",", "\n", "\r\n", "a", "bc", " ", "ü", '","', '"\n"', '"x\ny"']
    for trial in range(300):
        raw = "".join(random.choices(pieces, k=random.randint(1, 40))).encode()
        path = write(tmp_path / "a.csv", raw)
        made = []
        for chunk in (1, 2, 5, 1 << 20):
            with open_stream(str(path)) as stream:
                made.append(list(iter_records(stream, str(path), ",", 30, chunk)))
        assert made[0] == made[1] == made[2] == made[3], trial
    rows = [["".join(random.choices('ab",\n\r ü', k=random.randint(0, 9))) for _ in range(3)] for _ in range(300)]
    out = io.StringIO()
    csv.writer(out).writerows([["text", "b", "c"], *rows])
    found, aside = read(write(tmp_path / "b.csv", out.getvalue().encode()))
    assert [[row["text"], row["b"] or "", row["c"] or ""] for row in found] == rows and not aside


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
def test_first_lines(tmp_path: Path, name: str, raw: bytes, names: list[str]) -> None:
    found = survey_inputs([write(tmp_path / name, raw)], Roles())
    assert found.schema.names[3:] == names
    assert [row["text"] for row in staged(found, tmp_path / "out")[0]] == ["a"]


def test_the_time_of_a_hostile_csv(tmp_path: Path) -> None:
    """Thousands of quotes that are never closed: no line is read repeatedly."""
    for content in (b'"a,1\nb,2\n' * 40_000, b'"' * 400_000, b'5" d,1\n' * 60_000 + b'"', b'a,"' * 100_000, b'"\n' * 200_001):
        path = write(tmp_path / "a.csv", b"text,n\n" + content)
        began = time.process_time()
        read(path, limit=50_000)
        assert time.process_time() - began < 5


# --- JSON arrays ------------------------------------------------------------------------------------------------------------------

ARRAYS: dict[str, tuple[bytes, list[str], list[tuple[str, str]]]] = {
    "empty elements": (b'[{"text": "a"}, , {"text": "b"},]', ["a", "b"], [("element 2", "not_json")]),
    "other things": (b'[{"text": "a"}, 3, "s", null, [1], {"n": 1}, {"text": "b"}]', ["a", "b"],
                     [(f"element {n}", "not_an_object") for n in (2, 3, 4, 5)] + [("element 6", "no_text")]),
    "a broken one": (b'[{"text": "a"}, {"text": x}, {"text": "two\nlines"}, {"text": "b"}]', ["a", "b"],
                     [("element 2", "not_json"), ("element 3", "not_json")]),
    "too large": (b'[{"text": "a"}, {"text": "' + b"x" * 5_000 + b'"}, {"text": "b"}]', ["a", "b"], [("element 2", "too_large")]),
    "not UTF-8": (b'[{"text": "a"}, {"text": "\xff"}, {"text": "\\ud83d"}, {"text": "b"}]', ["a", "b"],
                  [("element 2", "not_utf8"), ("element 3", "not_utf8")]),
    "cut": (b'[{"text": "a"}, {"text": "b"}, {"text": "c', ["a", "b"], [("after element 2", "truncated")]),
    "cut between": (b'[{"text": "a"}, {"text": "b"}', ["a", "b"], [("after element 2", "truncated")]),
    "a bracket too few": (b'[{"text": "a"}, {"text": "b", {"text": "c"}, {"text": "d"}]', ["a"],
                          [("element 2", "not_json"), ("after element 2", "truncated")]),
    "a bracket too many": (b'[{"text": "a"}}, {"text": "b"}]', ["b"], [("element 1", "not_json")]),
    "something behind": (b'[{"text": "a"}] [{"text": "b"}]', ["a"], [("element 2", "not_json")]),
    "deep": (b'[{"text": "a"}, {"text": ' + b"[" * 900 + b"]" * 900 + b'}, {"text": "b"}]', ["a", "b"], [("element 2", "wrong_type")]),
}  # fmt: skip


@pytest.mark.parametrize("name", ARRAYS)
def test_no_element_of_an_array_is_lost(tmp_path: Path, name: str) -> None:
    content, texts, bad = ARRAYS[name]
    rows, aside = read(write(tmp_path / "a.json", content), limit=2_000)
    assert [row["text"] for number, row in enumerate(rows) if number not in {at for at, *_ in aside}] == texts
    assert [(place, reason) for *_, place, reason in aside] == bad


def test_an_array_is_cut_anywhere_and_a_large_element_is_not_held() -> None:
    raw = json.dumps([{"a": '"]}\\'}, {"b": "x" * 500}, [["]"]], {"c": {"d": [1, "\\"]}}]).encode()
    for chunk in (1, 2, 5, 1 << 18):
        found = list(iter_elements(io.BufferedReader(io.BytesIO(raw)), limit=60, chunk_bytes=chunk))
        assert [one and json.loads(one) for *_, one in found] == [{"a": '"]}\\'}, None, [["]"]], {"c": {"d": [1, "\\"]}}], chunk
        assert [raw[at : at + 1] for _, at, _ in found] == [b"{", b"{", b"[", b"{"]

    class Endless(io.RawIOBase):
        """An element that never ends."""

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            buffer[:] = b"[" * len(buffer) if not self.asked else b"x" * len(buffer)
            self.asked += 1
            if self.asked > 200:
                raise MemoryError  # nothing was given up before
            return len(buffer)

        asked = 0

    tracemalloc.start()
    with pytest.raises(MemoryError):
        list(iter_elements(io.BufferedReader(Endless(), 1 << 16), limit=1_000, chunk_bytes=1 << 16))
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()


def test_a_csv_and_an_array_that_break_off(tmp_path: Path) -> None:
    """The break is inside a text of many lines, which are not records."""
    whole = gzip.compress(b'text,n\na,1\nb,2\n"' + b"one,line\n" * 20_000 + b'",3\n', 0)
    rows, aside = read(write(tmp_path / "a.csv.gz", whole[: len(whole) // 2]))
    assert [row["text"] for row in rows] == ["a", "b", None]
    assert [(place, reason) for *_, place, reason in aside] == [("after line 3", "truncated")]
    whole = gzip.compress(json.dumps([{"text": "a"}, {"text": "b"}, {"text": "x, " * 50_000}]).encode(), 0)
    rows, aside = read(write(tmp_path / "a.json.gz", whole[: len(whole) // 2]))
    assert [row["text"] for row in rows] == ["a", "b", None]
    assert [(place, reason) for *_, place, reason in aside] == [("after element 2", "truncated")]


# --- plain text -------------------------------------------------------------------------------------------------------------------

TEXT = "Dear Ann,\r\n \ncall 212-555-0100\nor write.\n\n\n  indented\n\t\nlast"
SPLIT = {
    "file": [TEXT],
    "lines": ["Dear Ann,", "call 212-555-0100", "or write.", "  indented", "last"],
    "paragraphs": ["Dear Ann,", "call 212-555-0100\nor write.", "  indented", "last"],
}


@pytest.mark.parametrize("size", [1, 1 << 20])
@pytest.mark.parametrize("split", SPLIT)
@pytest.mark.parametrize("name", ["a.txt", "a.text", "a.txt.gz"])
def test_text_is_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split: str, name: str, size: int) -> None:
    monkeypatch.setattr(sanitize.readers.survey, "SMALL_MBOX_BYTES", size)
    monkeypatch.setattr(sanitize.readers.text, "UNIT_BYTES", 7)
    raw = b"\xef\xbb\xbf" + TEXT.encode()
    write(tmp_path / "in" / name, gzip.compress(raw) if name.endswith("gz") else raw)
    write(tmp_path / "in" / "b.txt", b"b\n")
    found = survey_inputs([tmp_path / "in"], Roles(split=split))
    assert (found.units[0].rows is None) == (split != "file") and len(found.units[0].files) == (1 if split != "file" and size == 1 else 2)
    rows, aside = staged(found, tmp_path / "out")
    assert [row["text"] for row in rows] == [*SPLIT[split], "b\n" if split == "file" else "b"] and not aside


def test_what_a_txt_is(tmp_path: Path) -> None:
    for name, content in {
        "a.txt": b"From now on, all is well.\nFrom here too.\n",
        "b.txt": b"From ann@example.com Mon Jan  5 10:00:00 2026\n" + MAIL % b"b",
        "c.txt": MAIL % b"c",
        "d.txt": lines([{"text": "d"}]),
        "e.txt": b"{curly} text",
        "f.txt": b"[{curly}] text",
        "g.txt": b"Gr\xfc\xdfe \x80",
        "h.txt": b"\0\1",
        "i.txt": b"%PDF-1.4 text",
        "j.txt": b"",
        "k.txt": b"x" * (LIMIT + 1),
        "l.md": b"# no text by name\n",
    }.items():
        write(tmp_path / "in" / name, content)
    rows, aside = read(tmp_path / "in")
    texts = ["From now on, all is well.\nFrom here too.\n", (MAIL % b"b").decode(), (MAIL % b"c").decode(), "d", "{curly} text"]
    assert [row["text"] for row in rows[:5]] == texts and rows[6]["text"] == "Grüße €"
    assert [(name, reason) for _, name, _, reason in aside] == [
        ("f.txt", "not_json"),
        ("h.txt", "unknown_format"),
        ("i.txt", "unknown_format"),
        ("j.txt", "empty_file"),
        ("k.txt", "too_large"),
        ("l.md", "unknown_format"),
    ]


def test_large_paragraphs_and_lines(tmp_path: Path) -> None:
    raw = b"a\n" + b"x" * 3_000 + b"\nb\n\n" + b"y" * 3_000 + b"\n\nc\n"
    path = write(tmp_path / "a.txt", raw)
    rows, aside = read(path, Roles(split="paragraphs"), 2_000)
    assert [row["text"] for row in rows] == [None, None, "c"]
    assert [(place, reason) for *_, place, reason in aside] == [("line 1", "too_large"), ("line 5", "too_large")]
    rows, aside = read(path, Roles(split="lines"), 2_000)
    assert [row["text"] for row in rows] == ["a", None, "b", None, "c"]
    rows, _ = read(write(tmp_path / "b.txt", b"From now on,\nall is well.\n"), Roles(split="lines"))
    assert [row["text"] for row in rows] == ["From now on,", "all is well."]
    with pytest.raises(UsageError, match="--split words: known: file, lines, paragraphs"):
        Roles(split="words")


# --- Arrow, datasets --------------------------------------------------------------------------------------------------------------


def test_bad_arrow(tmp_path: Path) -> None:
    whole = arrow(pa.table({"text": [f"text {number}" * 50 for number in range(90)]}), size=10)
    rows, aside = read(write(tmp_path / "a.arrow", whole[: len(whole) // 2]))
    assert [row["text"] for row in rows[:-1]] == [f"text {number}" * 50 for number in range(len(rows) - 1)]
    assert len(rows) > 30 and aside == [(len(rows) - 1, "a.arrow", f"after row {len(rows) - 1}", "truncated")]
    raw = pa.array([b"fine", b"\xff\xfe", b"x" * 2_000, b"fine too"])
    wrong = pa.StringArray.from_buffers(4, *raw.buffers()[1:])
    rows, aside = read(write(tmp_path / "b.arrow", arrow(pa.table({"text": wrong}))), limit=1_000)
    assert [row["text"] for row in rows] == ["fine", None, None, "fine too"]
    assert [(place, reason) for *_, place, reason in aside] == [("row 1", "not_utf8"), ("row 2", "too_large")]
    # a name that is no text
    whole = arrow(pa.table({"text": ["a"], "nnnn": ["b"]})).replace(b"nnnn", b"nn\xff\xfe")
    with pytest.raises(InputRefused, match="cannot read it"):
        survey_inputs([write(tmp_path / "n.arrow", whole)], Roles())
    # an offset that points out of the file
    one = arrow(pa.table({"text": ["aaaa", "bbbb", "cccc"]}))
    at = one.index(b"\x04\0\0\0\x08\0\0\0\x0c\0\0\0")
    rows, aside = read(write(tmp_path / "c.arrow", one[:at] + b"\x04\0\0\0\xff\xff\xff\x7f\x0c\0\0\0" + one[at + 12 :]))
    assert [row["text"] for row in rows] == ["aaaa", None, None]
    assert {reason for *_, reason in aside} == {"unreadable"}
    two = arrow(pa.table({"text": ["a", "x" * 2_000, "b", "y" * 2_000]}), size=1)
    assert [place for *_, place, _ in read(write(tmp_path / "d.arrow", two), limit=1_000)[1]] == ["row 1", "row 3"]


def test_binary_columns_of_arrow_are_mails(tmp_path: Path) -> None:
    table = pa.table({"raw": [MAIL % b"a", MAIL % b"b"]})
    rows, aside = read(write(tmp_path / "a.arrow", arrow(table)), Roles(text=("raw",)))
    assert [(row["text"], row["user_id"]) for row in rows] == [((MAIL % one).decode(), "ann@example.com") for one in (b"a", b"b")]
    assert not aside


def test_a_folder_of_datasets(tmp_path: Path) -> None:
    import datasets

    texts = [f"Call 212-555-01{number:02d}." for number in range(10)]
    whole = datasets.Dataset.from_dict({"text": texts, "n": list(range(10))})
    whole.save_to_disk(tmp_path / "one", num_shards=2)
    datasets.DatasetDict(train=whole.select(range(6)), test=whole.select(range(6, 10))).save_to_disk(tmp_path / "dict")
    hub = tmp_path / "hub"
    write(hub / "README.md", b"---\nconfigs:\n- config_name: default\n---\n# About\n")
    write(hub / ".gitattributes", b"*.parquet filter=lfs\n")
    (hub / "data").mkdir()
    whole.to_parquet(hub / "data" / "train-00000-of-00001.parquet")
    for name, expected in (("one", texts), ("dict", texts[6:] + texts[:6]), ("hub", texts)):
        found = survey_inputs([tmp_path / name], Roles())
        rows, aside = staged(found, tmp_path / "out")
        assert ([row["text"] for row in rows], aside, found.unreadable) == (expected, [], []), name
        assert {type(row["n"]) for row in rows} == {int}
        assert [unit.in_place for unit in found.units] == [name == "hub"] * len(found.units)
    # the same names elsewhere are data, or set aside
    write(tmp_path / "other" / "state.json", lines([{"text": "Ohio"}]))
    write(tmp_path / "other" / "README.md", b"# About")
    rows, aside = read(tmp_path / "other")
    assert [row["text"] for row in rows] == [None, "Ohio"] and [reason for *_, reason in aside] == ["unknown_format"]


# --- refusals ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "roles", "said"),
    [
        ("a.csv", b"Call Ann,1\nCall Bob,2\n", Roles(), "its first line does not name each of its columns once"),
        ("a.csv", b"text,text\na,b\n", Roles(), "each of its columns once"),
        ("a.csv", b"text,n\na,b\n", Roles(text=("body",)), "set by --text-column"),
        ("a.csv", b"PK\3\4\0\0Call Ann", Roles(), "its content does not match its suffix .csv"),
        ("a.csv", b"text,n\ra,1\r", Roles(), "lines end with LF or CRLF"),
        ("a.csv", b"body,n\na,1\n", Roles(), "Name the main text's column with --text-column NAME, or put a line of names first"),
        (
            "a.csv",
            "text,n\nCall Ann,1\n".encode("utf-16"),
            Roles(),
            "its content does not match its suffix .csv (it is in UTF-16; expected UTF-8)",
        ),
        ("a.csv", b"text\0,n\nCall Ann,1\n", Roles(), "(it holds NUL bytes, which do not occur in text)"),
        ("a.csv", "text,n\nCall Ann,1\n".encode("utf-16-le"), Roles(), "(it holds NUL bytes, which do not occur in text)"),
        ("a.txt", "Call\nAnn\n".encode("utf-16-le"), Roles(), "(it holds NUL bytes, which do not occur in text)"),
        ("a.txt", b"\x89PNG\r\n\x1a\n\0\0Call Ann", Roles(), "its content does not match its suffix .txt"),
        (
            "a.jsonl",
            '{"text": "Call Ann"}\n'.encode("utf-16-be"),
            Roles(),
            "its content does not match its suffix .jsonl (it holds NUL bytes",
        ),
        ("a.parquet", b"\0Call Ann", Roles(), "its content does not match its suffix .parquet. "),
        ("a.tsv", b"", Roles(), "it has no bytes"),
        ("a.csv.gz", gzip.compress(b"text" * 9_000, mtime=0)[:-30], Roles(), "it ends too early"),
        ("a.json", b'{\n "text": "Call Ann"\n}', Roles(), "its content does not match its suffix .json"),
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
def test_named_files_are_refused(tmp_path: Path, name: str, content: bytes, roles: Roles, said: str) -> None:
    with pytest.raises(InputRefused) as caught:
        survey_inputs([write(tmp_path / name, content)], roles)
    assert said in str(caught.value)
    assert "Ann" not in str(caught.value)


# --- what is no text and may be one, what has no records and is none the worse ----------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "texts", "bad"),
    [
        ("a.txt", b"Call\nAnn\0Roe\n", ["Call\nAnn\0Roe\n"], []),
        ("a.jsonl", b'{"text": "a"}\n\0\0\0\n{"text": "b"}\n', ["a", None, "b"], ["not_json"]),
        ("a.json", b'[{"text": "a"}, {"text": "x\0"}, {"text": "b"}]', ["a", None, "b"], ["not_json"]),
    ],
)
def test_a_nul_costs_itself(tmp_path: Path, name: str, content: bytes, texts: list[str], bad: list[str]) -> None:
    rows, aside = read(write(tmp_path / name, content))
    assert [row["text"] for row in rows] == texts and [reason for *_, reason in aside] == bad


@pytest.mark.parametrize("content", [b"[]", b" [\n] \n"])
@pytest.mark.parametrize("roles", [Roles(), Roles(text=("said[].text",), user="who", id="no")])
def test_an_array_without_elements_has_no_records(tmp_path: Path, content: bytes, roles: Roles) -> None:
    """A file without records takes the columns of the other files."""
    write(tmp_path / "in" / "a.json", content)
    record = {"text": "hi", "said": [{"text": "hi"}], "who": 7, "no": "x"}
    write(tmp_path / "in" / "b.jsonl", json.dumps(record).encode() + b"\n")
    both, alone = survey_inputs([tmp_path / "in"], roles), survey_inputs([tmp_path / "in" / "b.jsonl"], roles)
    assert (both.unreadable, both.schema, len(both.units)) == ([], alone.schema, 2)
    staged = [stage_unit(unit, both, tmp_path / f"{unit.no}.parquet", tmp_path / f"{unit.no}.q", 1_000) for unit in both.units]
    assert [(one.rows, one.quarantined) for one in staged] == [(0, 0), (1, 0)]
    assert survey_inputs([tmp_path / "in" / "a.json"], Roles()).unreadable == []


# --- real corpora -----------------------------------------------------------------------------------------------------------------


@real
def test_the_eight_containers(tmp_path: Path) -> None:
    """Six hold the whole raw mails; the mbox the same mails, each ended by a line end; the text file their bodies in one text."""
    at = SHARED / "formats"
    first, aside = staged(survey_inputs([at / "enron200.parquet"], Roles()), tmp_path / "a")
    assert len(first) == 200 and not aside
    for name in ("csv", "json", "jsonl", "jsonl.gz", "tsv"):
        assert staged(survey_inputs([at / f"enron200.{name}"], Roles()), tmp_path / "b") == (first, []), name
    mbox, aside = staged(survey_inputs([at / "enron200.mbox"], Roles()), tmp_path / "c")
    assert [row["text"].rstrip("\n") for row in mbox] == [parse_mail(row["text"].encode())[0].rstrip("\n") for row in first] and not aside
    ((text,), aside) = staged(survey_inputs([at / "enron200.txt"], Roles()), tmp_path / "d")
    assert text["text"] == "\n\n".join(row["text"].partition("\n\n")[2] for row in first) and not aside
    paragraphs, _ = staged(survey_inputs([at / "enron200.txt"], Roles(split="paragraphs")), tmp_path / "e")
    assert [p["text"] for p in paragraphs] == [part for part in text_paragraphs(text["text"]) if part]


def text_paragraphs(text: str) -> list[str]:
    """The paragraphs of a text, by a simple reference implementation."""
    held: list[list[str]] = [[]]
    for line in text.split("\n"):
        if line.strip():
            held[-1].append(line)
        else:
            held.append([])
    return ["\n".join(one) for one in held]
