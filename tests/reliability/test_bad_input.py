"""Bad input of every kind through the whole command: no crash, no hang, no later record lost, every
record accounted for by reason."""

from __future__ import annotations

import gzip
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.cli import main
from sanitize.engines import worker_process
from sanitize.errors import InputRefused, QuarantineExceeded
from sanitize.pipeline.run import run_with_settings
from sanitize.pipeline.run_results import RunResult
from sanitize.plans.settings import Settings
from sanitize.readers import sandbox
from sanitize.readers.survey import REASONS
from tests.support import read_texts

MAIL = b"From: Ann Lee <ann@example.com>\nSubject: %s\n\nCall 212-555-0100.\n"
GOOD = pa.table({"text": [f"Good {number}, call 212-555-0100." for number in range(3)]})
MAX_DOC_BYTES = 100_000


def to_parquet(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return bytes(sink.getvalue().to_pybytes())


def to_arrow_stream(table: pa.Table, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)
    ) as out:
        out.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def to_jsonl(*rows: Any) -> bytes:
    return b"".join(
        row if isinstance(row, bytes) else json.dumps(row).encode() + b"\n" for row in rows
    )


def table_of_bytes(raws: list[bytes]) -> pa.Table:
    offsets = [sum(map(len, raws[:number])) for number in range(len(raws) + 1)]
    return pa.table(
        {
            "text": pa.StringArray.from_buffers(
                len(raws),
                pa.py_buffer(pa.array(offsets, pa.int32()).buffers()[1]),
                pa.py_buffer(b"".join(raws)),
            )
        }
    )


def flip_bit(raw: bytes, index: int, bit: int = 2) -> bytes:
    return raw[:index] + bytes([raw[index] ^ 1 << bit]) + raw[index + 1 :]


VALID_PARQUET = to_parquet(GOOD, write_page_checksum=True, compression="zstd", use_dictionary=False)
UNCOMPRESSED_PARQUET = to_parquet(
    GOOD, write_page_checksum=True, compression="none", use_dictionary=False
)
TWO_JSON_LINES = to_jsonl({"text": "Good"}, {"text": "also"})
LONG_TEXT = "x" * 600_000  # six times what a document may have
JSON_LINES_WITH_LONG_TEXT = to_jsonl({"text": "a"}, {"text": LONG_TEXT * 10}, {"text": "b"})

# file -> (its bytes, the texts in the output, quarantined records by reason)
BAD_FILES: dict[str, tuple[bytes, list[str | None], dict[str, int]]] = {
    "cut.parquet": (VALID_PARQUET[:-30], [], {"truncated": 1}),
    "cut-early.parquet": (VALID_PARQUET[:3], [], {"unknown_format": 1}),
    "flipped-page.parquet": (
        flip_bit(UNCOMPRESSED_PARQUET, UNCOMPRESSED_PARQUET.index(b"Good 1")),
        [],
        {"unreadable": 3},
    ),
    "flipped-magic.parquet": (flip_bit(VALID_PARQUET, 1), [], {"unknown_format": 1}),
    "no-footer.parquet": (VALID_PARQUET[:-8] + b"\xff\xff\xff\x7fPAR1", [], {"unreadable": 1}),
    "encrypted.parquet": (b"PARE" + bytes(60) + b"PARE", [], {"encrypted": 1}),
    "empty.parquet": (b"", [], {"empty_file": 1}),
    "empty.jsonl": (b"", [], {"empty_file": 1}),
    "empty.eml": (b"", [], {"empty_file": 1}),
    "no-rows.parquet": (to_parquet(pa.table({"text": pa.array([], pa.string())})), [], {}),
    "no-groups.parquet": (to_parquet(GOOD.schema.empty_table(), row_group_size=1), [], {}),
    "another-column.parquet": (to_parquet(pa.table({"body": ["a", "b"]})), [], {"no_text": 2}),
    "another-column.jsonl": (
        to_jsonl({"body": "a"}, {"body": "b"}, b"{broken\n"),
        [],
        {"no_text": 3},
    ),
    "numbers.parquet": (to_parquet(pa.table({"text": [1, 2, 3]})), [], {"wrong_schema": 3}),
    "lists.parquet": (to_parquet(pa.table({"text": [["a"], ["b", "c"]]})), [], {"wrong_schema": 2}),
    "twice.parquet": (
        to_parquet(pa.table([["a"], ["b"]], names=["text", "text"])),
        [],
        {"unreadable": 1},
    ),
    "odd-name.parquet": (
        to_parquet(pa.table({"text": ["a"], "nnnn": ["b"]}), store_schema=False).replace(
            b"nnnn", b"nn\xff\xfe"
        ),
        [],
        {"unreadable": 1},
    ),
    "types.parquet": (
        to_parquet(pa.table({"text": ["a", "b"], "n": ["one", "two"]})),
        [],
        {"wrong_schema": 2},
    ),
    "nested.parquet": (
        to_parquet(pa.table({"text": ["a"], "deep": [[{"x": [{"y": "b"}]}]]})),
        ["a"],
        {},
    ),
    "nulls.parquet": (to_parquet(pa.table({"text": [None, "", "a"]})), [None, "", "a"], {}),
    "bytes.parquet": (
        to_parquet(table_of_bytes([b"fine", b"\xff\xfe", b"\xed\xa0\xbd", b"last"])),
        ["fine", "last"],
        {"not_utf8": 2},
    ),
    "large.parquet": (
        to_parquet(pa.table({"text": ["a", "x" * (MAX_DOC_BYTES + 1), "b"]})),
        ["a", "b"],
        {"too_large": 1},
    ),
    "bomb.parquet": (
        to_parquet(pa.table({"text": ["a", *[LONG_TEXT] * 40, "b"]}), compression="zstd"),
        ["a", "b"],
        {"too_large": 40},
    ),
    "bomb-nested.parquet": (
        to_parquet(
            pa.table({"text": ["a", "b"], "tags": [["x"], [LONG_TEXT] * 20]}), compression="zstd"
        ),
        ["a"],
        {"too_large": 1},
    ),
    "bomb.jsonl.gz": (gzip.compress(JSON_LINES_WITH_LONG_TEXT), ["a", "b"], {"too_large": 1}),
    "bomb.jsonl.zst": (
        pa.compress(JSON_LINES_WITH_LONG_TEXT, "zstd", asbytes=True),
        ["a", "b"],
        {"too_large": 1},
    ),
    "one-line.jsonl": (b'{"text": "' + b"x" * 2_000_000, [], {"not_json": 1}),
    "deep.jsonl": (
        to_jsonl({"text": "a"}, b'{"text": ' + b"[" * 50_000 + b"\n", {"text": "b"}),
        ["a", "b"],
        {"too_deep": 1},
    ),
    "wide-number.jsonl": (
        to_jsonl({"text": "a"}, b'{"text": "b", "n": ' + b"9" * 5_000 + b"}\n", {"text": "c"}),
        ["a", "c"],
        {"not_json": 1},
    ),
    "bytes.jsonl": (
        to_jsonl({"text": "a"}, b'{"text": "\xff"}\n', b'{"text": "\\ud83d"}\n', {"text": "b"}),
        ["a", "b"],
        {"not_utf8": 2},
    ),
    "bom-and-nul.jsonl": (
        b"\xef\xbb\xbf" + to_jsonl({"text": "a\0b"}, {"text": "\ufeffc"}),
        ["a\0b", "\ufeffc"],
        {},
    ),
    "nul-bytes.jsonl": (to_jsonl({"text": "a"}, b"\0\0\n"), ["a"], {"not_json": 1}),
    "bare-cr.jsonl": (b'{"text": "a"}\r{"text": "b"}\r', [], {"not_json": 1}),
    "utf16.jsonl": (
        "\ufeff".encode("utf-16-le") + '{"text": "a"}\n'.encode("utf-16-le"),
        [],
        {"unknown_format": 1},
    ),
    "not-gzip.jsonl.gz": (TWO_JSON_LINES, ["Good", "also"], {}),
    "cut.jsonl.gz": (
        gzip.compress(to_jsonl(*({"text": f"{number}"} for number in range(9))), 0)[:-60],
        [],
        {},
    ),
    "not.json": (b'{\n "text": "a"\n}', [], {"unknown_format": 1}),
    "no-text.json": (b'[{"body": "a"}, {"body": "b"}]', [], {"no_text": 1}),
    "array.json": (
        b'[{"text": "a"}, {"text": x}, 3, {"text": "b"}] ]',
        ["a", "b"],
        {"not_json": 2, "not_an_object": 1},
    ),
    "cut.json": (b'[{"text": "a"}, {"text": "b"}, {"te', ["a", "b"], {"truncated": 1}),
    "bomb.json.gz": (
        gzip.compress(
            b'[{"text": "a"},{"text": "' + LONG_TEXT.encode() * 10 + b'"},{"text": "b"}]'
        ),
        ["a", "b"],
        {"too_large": 1},
    ),
    "good.csv": (b'text,m\n"a\nb",1\n', ["a\nb"], {}),
    "broken.csv": (
        b'text,m\n"a,1\nb\nc,2,3\n\xff,4\nd,5\n',
        ["d"],
        {"not_csv": 1, "wrong_cells": 2, "not_utf8": 1},
    ),
    "no-header.csv": (b"Ann,212-555-0100\nBob,212-555-0101\n", [], {"no_header": 1}),
    "nul.csv": (b"text,m\n\0,1\n", ["\0"], {}),
    "bare-cr.csv": (b"text,m\ra,1\r", [], {"no_header": 1}),
    "bomb.csv.gz": (
        gzip.compress(b'text,m\na,1\n"' + LONG_TEXT.encode() * 10 + b'\n",2\nb,3\n'),
        ["a", "b"],
        {"too_large": 1},
    ),
    "line-bomb.csv.gz": (
        gzip.compress(b"text,m\na,1\n" + LONG_TEXT.encode() * 10 + b",2\nb,3\n"),
        ["a", "b"],
        {"too_large": 1},
    ),
    "good.tsv": (b"text\tm\na, b\t1\n", ["a, b"], {}),
    "text.txt": (b"Some text.\n", ["Some text.\n"], {}),
    "nul.txt": (b"Some\0text", [], {"unknown_format": 1}),
    "large.txt": (b"x" * (MAX_DOC_BYTES + 1), [], {"too_large": 1}),
    "bomb.txt.gz": (gzip.compress(b"x" * 6_000_000), [], {"too_large": 1}),
    "stream.arrow": (to_arrow_stream(pa.table({"text": ["a", "b"]})), ["a", "b"], {}),
    "cut.arrow": (
        to_arrow_stream(pa.table({"text": ["a", "b"] * 2_000}))[:-900],
        [],
        {"truncated": 1},
    ),
    "bomb.arrow": (
        to_arrow_stream(pa.table({"text": ["a", *[LONG_TEXT] * 40, "b"]}), "zstd"),
        ["a", "b"],
        {"too_large": 40},
    ),
    "lies.arrow": (b"\xff\xff\xff\xff\xff\xff\xff\x7f" + bytes(50), [], {"memory": 1}),
    "bare-cr.eml": (MAIL.replace(b"\n", b"\r") % b"r", [(MAIL % b"r").decode()], {}),
    "nul-and-8bit.eml": (
        MAIL % b"\0\xe9",
        ["From: Ann Lee <ann@example.com>\nSubject: \0é\n\nCall 212-555-0100.\n"],
        {},
    ),
    "bom.eml": (b"\xef\xbb\xbf" + MAIL % b"b", [(MAIL % b"b").decode()], {}),
    "large.eml": (MAIL % b"l" + b"x" * MAX_DOC_BYTES, [], {"too_large": 1}),
    "a'b; DROP TABLE x--.jsonl": (TWO_JSON_LINES, ["Good", "also"], {}),
    'a"*[1]?{b}$$%s.jsonl': (TWO_JSON_LINES, ["Good", "also"], {}),
    "a\nb\\c.parquet": (VALID_PARQUET, GOOD["text"].to_pylist(), {}),
    "~ #%20\t..jsonl": (TWO_JSON_LINES, ["Good", "also"], {}),
    "\udcff\udcfe.jsonl": (TWO_JSON_LINES, ["Good", "also"], {}),
}


def make_settings(**more: Any) -> Settings:
    return Settings(seed=1, workers=1, max_doc_bytes=MAX_DOC_BYTES, max_quarantine=1.0, **more)


def read_quarantine(folder: Path) -> list[dict[str, Any]]:
    files = sorted((folder / "out.private" / "quarantine").rglob("*.parquet"))
    return [row for file in files for row in pq.read_table(file, partitioning=None).to_pylist()]


def write_file(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@dataclass(frozen=True)
class BadFilesRun:
    """A run over all bad files: its folder, its result, and what it wrote."""

    folder: Path
    summary: RunResult
    texts: list[str | None]
    quarantine: list[dict[str, Any]]


@pytest.fixture(scope="module")
def run_over_bad_files(tmp_path_factory: pytest.TempPathFactory) -> BadFilesRun:
    """Every bad file between two good ones, in one folder, in one run that changes nothing."""
    folder = tmp_path_factory.mktemp("bad")
    write_file(folder / "in" / "!first.parquet", to_parquet(GOOD.append_column("n", [[1, 2, 3]])))
    write_file(folder / "in" / "\U0010ffffzlast.jsonl", to_jsonl({"text": "the last", "n": 1}))
    for name, (content, _, _) in BAD_FILES.items():
        write_file(folder / "in" / name, content)
    summary = run_with_settings(
        [folder / "in"], folder / "out", "baseline", settings=make_settings()
    )
    return BadFilesRun(folder, summary, read_texts(folder / "out"), read_quarantine(folder))


@pytest.mark.slow
def test_every_record_is_accounted_for(run_over_bad_files: BadFilesRun) -> None:
    summary, texts = run_over_bad_files.summary, run_over_bad_files.texts
    quarantine = run_over_bad_files.quarantine
    assert summary.documents_in == summary.documents_out + summary.quarantined
    assert summary.quarantine == Counter(row["reason"] for row in quarantine)
    assert texts[:3] == GOOD["text"].to_pylist() and "the last" in texts
    assert len({row["doc_no"] for row in quarantine}) == len(quarantine) == summary.quarantined
    assert all(row["reason"] in REASONS for row in quarantine)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [name for name in BAD_FILES if name != "cut.jsonl.gz"],
    ids=lambda name: name.encode("ascii", "backslashreplace").decode(),
)
def test_good_records_of_a_bad_file_are_kept_and_bad_ones_quarantined(
    run_over_bad_files: BadFilesRun, name: str
) -> None:
    _, expected_texts, expected_reasons = BAD_FILES[name]
    path = os.fsencode(str(run_over_bad_files.folder / "in" / name))
    displayed_path = path.decode("utf-8", "backslashreplace")
    quarantine = run_over_bad_files.quarantine
    assert (
        Counter(row["reason"] for row in quarantine if row["source"] == displayed_path)
        == expected_reasons
    )
    assert [text for text in expected_texts if text not in run_over_bad_files.texts] == []


def test_records_before_a_broken_stream_end_are_kept(tmp_path: Path) -> None:
    write_file(tmp_path / "in" / "cut.jsonl.gz", BAD_FILES["cut.jsonl.gz"][0])
    run_with_settings([tmp_path / "in"], tmp_path / "out", "baseline", settings=make_settings())
    assert (
        read_texts(tmp_path / "out")
        == [str(number) for number in range(len(read_texts(tmp_path / "out")))]
        and len(read_texts(tmp_path / "out")) > 3
    )
    assert [row["reason"] for row in read_quarantine(tmp_path)] == ["truncated"]


@pytest.mark.parametrize(
    "name", ["cut.parquet", "empty.jsonl", "no-footer.parquet", "encrypted.parquet", "utf16.jsonl"]
)
def test_a_bad_file_that_is_named_is_refused(tmp_path: Path, name: str) -> None:
    write_file(tmp_path / name, BAD_FILES[name][0])
    with pytest.raises(
        InputRefused, match="repair the file or leave it out|convert the file or name another"
    ):
        run_with_settings(
            [tmp_path / name], tmp_path / "out", settings=make_settings(), plan="rmft"
        )
    assert not (tmp_path / "out").exists() and not (tmp_path / "out.private").exists()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"strict": True}, "--strict allows none"),
        ({"max_quarantine": 0.2}, "--max-quarantine allows 20%"),
    ],
)
def test_quarantine_limit_stops_the_run(
    tmp_path: Path, option: dict[str, Any], message: str
) -> None:
    for number in range(4):
        write_file(tmp_path / "in" / f"{number}.eml", MAIL % b"a" if number else b"")
    with pytest.raises(
        QuarantineExceeded, match=rf"1 of 4 records were quarantined \(1 empty_file\); {message}"
    ):
        run_with_settings(
            [tmp_path / "in"], tmp_path / "out", settings=Settings(workers=1, **option), plan="rmft"
        )
    assert not (tmp_path / "out").exists()
    assert (
        run_with_settings(
            [tmp_path / "in"],
            tmp_path / "out",
            settings=Settings(workers=1, max_quarantine=0.25),
            plan="rmft",
        ).quarantined
        == 1
    )


def test_an_unreadable_file_counts_as_one_record_and_by_its_bytes(tmp_path: Path) -> None:
    """The number of its records is unknown; docs/reference/input.md says so, because the
    quarantined share is inexact then."""
    for number in range(19):
        write_file(tmp_path / "in" / f"{number:02}.eml", MAIL % b"a" * 500)
    write_file(
        tmp_path / "in" / "large.parquet", to_parquet(pa.table({"text": ["x"] * 1_000}))[:-30]
    )
    summary = run_with_settings(
        [tmp_path / "in"], tmp_path / "out", settings=Settings(workers=1), plan="rmft"
    )
    assert (summary.documents_in, summary.quarantine) == (20, {"truncated": 1})
    with pytest.raises(QuarantineExceeded, match="1 of 20 records were quarantined"):
        run_with_settings(
            [tmp_path / "in"],
            tmp_path / "strict",
            settings=Settings(workers=1, strict=True),
            plan="rmft",
        )


def test_missing_column_is_reported_when_no_file_has_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(tmp_path / "in" / "a.parquet", to_parquet(pa.table({"size": [1]})))
    write_file(tmp_path / "in" / "b.jsonl", to_jsonl({"size": 2}))
    monkeypatch.setattr(
        sys, "argv", ["sanitize", "run", str(tmp_path / "in"), "-o", str(tmp_path / "out")]
    )
    with pytest.raises(SystemExit) as exit_error:
        main.main()
    assert (
        exit_error.value.code == 2
        and "there is no column text; known: size. Name the column with --text-column NAME."
        in capsys.readouterr().err
    )


def test_repeated_and_missing_ids_are_accepted(tmp_path: Path) -> None:
    rows = [
        {"doc_id": doc_id, "text": f"call 212-555-01{number:02}"}
        for number, doc_id in enumerate(["a", "a", None, "", "a"])
    ]
    write_file(tmp_path / "in.jsonl", to_jsonl(*rows))
    summary = run_with_settings(
        [tmp_path / "in.jsonl"], tmp_path / "out", "baseline", settings=make_settings()
    )
    assert (
        summary.documents_out == 5 and "1 ids belong to more than one document" in summary.notes[0]
    )
    assert pq.read_table(tmp_path / "out" / "data" / "train-00000-of-00001.parquet")[
        "doc_id"
    ].to_pylist() == ["a", "a", "2", "", "a"]


def test_every_reason_is_explained() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "input.md").read_text("utf-8")
    assert [
        reason for reason, words in REASONS.items() if f"| `{reason}` | {words} |" not in page
    ] == []


# ---- flipped bits ----


@pytest.mark.slow
@pytest.mark.parametrize("flips", [60, pytest.param(500, marks=pytest.mark.soak)])
@pytest.mark.parametrize("checksums", [True, False])
def test_damaged_parquet_loses_no_row_and_with_checksums_changes_none(
    tmp_path: Path, checksums: bool, flips: int
) -> None:
    expected_texts = [
        f"Document {number} of this file. {'word ' * (number % 7)}" for number in range(40)
    ]
    table = pa.table(
        {"text": expected_texts, "n": list(range(40)), "tags": [["a", "b"], [], None, ["c"]] * 10}
    )
    raw = to_parquet(table, row_group_size=20, write_page_checksum=checksums, compression="zstd")
    rng = random.Random(7)
    write_file(tmp_path / "in" / "!first.parquet", raw)
    for number in range(flips):
        write_file(
            tmp_path / "in" / f"{number:03}.parquet",
            flip_bit(raw, rng.randrange(len(raw)), rng.randrange(8)),
        )
    for number in range(1, 25):
        write_file(tmp_path / "in" / f"cut{number:02}.parquet", raw[: len(raw) * number // 25])
    summary = run_with_settings(
        [tmp_path / "in"], tmp_path / "out", "baseline", settings=make_settings()
    )
    unreadable_sources = {
        row["source"] for row in read_quarantine(tmp_path) if row["location"] == "file"
    }
    assert summary.documents_in == summary.documents_out + summary.quarantined
    assert summary.documents_in == 40 * (25 + flips - len(unreadable_sources)) + len(
        unreadable_sources
    )
    if checksums:
        assert set(read_texts(tmp_path / "out")) <= set(expected_texts)
    assert read_texts(tmp_path / "out")[:40] == expected_texts


# ---- files that kill the reader process ----

FAULT_MODULE = """
import ctypes, os, sys, time
import pyarrow.parquet as pq
read, opened = pq.read_metadata, pq.ParquetFile.__init__

def kill(path):
    name = os.path.basename(str(path))
    if "crash" in name: ctypes.string_at(0)
    if "hang" in name: time.sleep(600)
    if "fill" in name: bytearray(1 << 40)

def __init__(self, source, *more, **options):
    if {early} or options.get("read_dictionary") is not None: kill(source)
    opened(self, source, *more, **options)

pq.ParquetFile.__init__ = __init__
"""


@pytest.fixture()
def install_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[bool], None]]:
    """Child processes in which the Parquet library crashes on files with certain names, when it
    surveys them or only when it reads their rows."""

    def install(early: bool) -> None:
        write_file(
            tmp_path / "site" / "sitecustomize.py",
            FAULT_MODULE.replace("{early}", str(early)).encode(),
        )
        monkeypatch.setenv(
            "PYTHONPATH", os.pathsep.join([str(tmp_path / "site"), *filter(None, sys.path)])
        )
        # on a busy machine a child process needs part of it for its imports
        monkeypatch.setattr(sandbox, "BASE_TIME_LIMIT_S", 10.0)
        while worker_process._idle_workers:
            worker_process._idle_workers.pop().kill()

    yield install
    while worker_process._idle_workers:
        worker_process._idle_workers.pop().kill()


# a hanging file takes its full time limit: one case here, one for each stage in the soak tests
@pytest.mark.slow
@pytest.mark.parametrize(
    ("early", "workers", "hangs"),
    [(True, 2, True), (False, 1, False), pytest.param(False, 2, True, marks=pytest.mark.soak)],
    ids=["survey-2", "read-1", "read-2-hangs"],
)
def test_a_file_that_kills_its_reader_is_quarantined_alone(
    tmp_path: Path, install_faults: Callable[[bool], None], early: bool, workers: int, hangs: bool
) -> None:
    install_faults(early)
    for name in ("a", "b-crash", "c", *(["d-hang"] if hangs else []), "e-fill", "f"):
        write_file(
            tmp_path / "in" / f"{name}.parquet",
            to_parquet(pa.table({"text": [f"{name} 1", f"{name} 2"]})),
        )
    write_file(tmp_path / "in" / "g.jsonl", TWO_JSON_LINES)
    summary = run_with_settings(
        [tmp_path / "in"],
        tmp_path / "out",
        "baseline",
        settings=Settings(workers=workers, max_quarantine=1.0),
    )
    # the number of rows is unknown in a file that cannot be surveyed
    records_per_file = 1 if early else 2
    reasons = ("crashed", "memory", *(["timed_out"] if hangs else []))
    assert Counter(row["reason"] for row in read_quarantine(tmp_path)) == dict.fromkeys(
        reasons, records_per_file
    )
    assert read_texts(tmp_path / "out") == [
        "a 1",
        "a 2",
        "c 1",
        "c 2",
        "f 1",
        "f 2",
        "Good",
        "also",
    ]
    assert summary.documents_in == 8 + len(reasons) * records_per_file


@pytest.mark.parametrize(
    ("name", "message", "early"),
    [
        ("crash", "crashed", True),
        ("crash", "crashed", False),
        pytest.param("hang", "takes far longer", True, marks=pytest.mark.soak),
        ("fill", "takes more memory", True),
    ],
)
def test_a_named_file_that_kills_its_reader_is_refused(
    tmp_path: Path, install_faults: Callable[[bool], None], early: bool, name: str, message: str
) -> None:
    install_faults(early)
    path = write_file(tmp_path / f"{name}.parquet", VALID_PARQUET)
    with pytest.raises(
        InputRefused, match=rf"{name}\.parquet: .*{message}.*repair the file or leave it out"
    ):
        run_with_settings([path], tmp_path / "out", settings=make_settings(), plan="rmft")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_mail_that_kills_its_reader_is_quarantined_alone(
    tmp_path: Path, install_faults: Callable[[bool], None]
) -> None:
    install_faults(True)
    site = tmp_path / "site" / "sitecustomize.py"
    site.write_text(
        "import os\nimport sanitize.readers.mail as m\ntext = m.parse_mail\n"
        "m.parse_mail = lambda raw: os._exit(9) if b'KILL' in raw else text(raw)\n"
    )
    for number in range(30):
        write_file(
            tmp_path / "in" / f"{number:02}.eml",
            MAIL % (b"KILL" if number in (7, 19) else b"%d" % number),
        )
    summary = run_with_settings(
        [tmp_path / "in"], tmp_path / "out", "baseline", settings=make_settings()
    )
    assert [
        (os.path.basename(row["source"]), row["reason"]) for row in read_quarantine(tmp_path)
    ] == [
        ("07.eml", "crashed"),
        ("19.eml", "crashed"),
    ]
    assert summary.documents_out == 28 == len(read_texts(tmp_path / "out"))


# ---- the stress set ----

STRESS = Path(__file__).parents[3] / "shared" / "data" / "stress"
needs_stress_set = pytest.mark.skipif(
    not STRESS.is_dir(), reason="the stress set is not next to this repository"
)
RECORDS = {"broken.jsonl": 7, "many_tiny_records.jsonl": 50_000}


@pytest.mark.slow
@needs_stress_set
def test_stress_set_is_processed_in_one_run(tmp_path: Path) -> None:
    """745 malformed and hostile files, and a list of them: one command accepts them all, and
    reports what it quarantined."""
    summary = run_with_settings(
        [STRESS], tmp_path / "out", settings=Settings(workers=1), plan="rmft"
    )
    listed_files = [
        json.loads(line)["file"] for line in (STRESS / "MANIFEST.jsonl").read_text().splitlines()
    ]
    assert summary.documents_in == summary.documents_out + summary.quarantined
    sources = Counter(os.path.relpath(row["source"], STRESS) for row in read_quarantine(tmp_path))
    assert sources["MANIFEST.jsonl"] == len(listed_files) == 745  # a list of files has no text
    single_document_files = [
        name for name in listed_files if not name.endswith((".mbox", ".jsonl", ".gz"))
    ]
    assert summary.documents_in >= len(single_document_files) + 50_000
    assert set(sources) <= {*listed_files, "MANIFEST.jsonl", "README.md", "SHA256SUMS"}
    assert summary.leaks == 0 and summary.quarantine == Counter(
        row["reason"] for row in read_quarantine(tmp_path)
    )
