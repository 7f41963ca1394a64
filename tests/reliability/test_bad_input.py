"""Bad input of every kind through the whole command: no crash, no hang, no later record lost, every record accounted for by reason."""

from __future__ import annotations

import gzip
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.cli import main
from sanitize.engines import worker_process
from sanitize.errors import InputRefused, QuarantineExceeded
from sanitize.pipeline.run import run
from sanitize.plans.settings import Settings
from sanitize.readers import sandbox
from sanitize.readers.survey import REASONS

MAIL = b"From: Ann Lee <ann@example.com>\nSubject: %s\n\nCall 212-555-0100.\n"
GOOD = pa.table({"text": [f"Good {number}, call 212-555-0100." for number in range(3)]})
LIMIT = 100_000


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return bytes(sink.getvalue().to_pybytes())


def stream(table: pa.Table, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as out:
        out.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def lines(*rows: Any) -> bytes:
    return b"".join(row if isinstance(row, bytes) else json.dumps(row).encode() + b"\n" for row in rows)


def broken_utf8(raws: list[bytes]) -> pa.Table:
    offsets = [sum(map(len, raws[:number])) for number in range(len(raws) + 1)]
    return pa.table(
        {
            "text": pa.StringArray.from_buffers(
                len(raws), pa.py_buffer(pa.array(offsets, pa.int32()).buffers()[1]), pa.py_buffer(b"".join(raws))
            )
        }
    )


def flipped(raw: bytes, at: int, bit: int = 2) -> bytes:
    return raw[:at] + bytes([raw[at] ^ 1 << bit]) + raw[at + 1 :]


WHOLE = parquet(GOOD, write_page_checksum=True, compression="zstd", use_dictionary=False)
PLAIN = parquet(GOOD, write_page_checksum=True, compression="none", use_dictionary=False)
TEXT = lines({"text": "Good"}, {"text": "also"})
BOMB = "x" * 3_000_000
BOMBS = lines({"text": "a"}, {"text": BOMB * 10}, {"text": "b"})

# file -> (its bytes, the texts that come out of it, what is set aside of it by reason)
BAD: dict[str, tuple[bytes, list[str | None], dict[str, int]]] = {
    "cut.parquet": (WHOLE[:-30], [], {"truncated": 1}),
    "cut-early.parquet": (WHOLE[:3], [], {"unknown_format": 1}),
    "flipped-page.parquet": (flipped(PLAIN, PLAIN.index(b"Good 1")), [], {"unreadable": 3}),
    "flipped-magic.parquet": (flipped(WHOLE, 1), [], {"unknown_format": 1}),
    "no-footer.parquet": (WHOLE[:-8] + b"\xff\xff\xff\x7fPAR1", [], {"unreadable": 1}),
    "encrypted.parquet": (b"PARE" + bytes(60) + b"PARE", [], {"encrypted": 1}),
    "empty.parquet": (b"", [], {"empty_file": 1}),
    "empty.jsonl": (b"", [], {"empty_file": 1}),
    "empty.eml": (b"", [], {"empty_file": 1}),
    "no-rows.parquet": (parquet(pa.table({"text": pa.array([], pa.string())})), [], {}),
    "no-groups.parquet": (parquet(GOOD.schema.empty_table(), row_group_size=1), [], {}),
    "another-column.parquet": (parquet(pa.table({"body": ["a", "b"]})), [], {"no_text": 2}),
    "another-column.jsonl": (lines({"body": "a"}, {"body": "b"}, b"{broken\n"), [], {"no_text": 3}),
    "numbers.parquet": (parquet(pa.table({"text": [1, 2, 3]})), [], {"wrong_schema": 3}),
    "lists.parquet": (parquet(pa.table({"text": [["a"], ["b", "c"]]})), [], {"wrong_schema": 2}),
    "twice.parquet": (parquet(pa.table([["a"], ["b"]], names=["text", "text"])), [], {"unreadable": 1}),
    "odd-name.parquet": (
        parquet(pa.table({"text": ["a"], "nnnn": ["b"]}), store_schema=False).replace(b"nnnn", b"nn\xff\xfe"), [], {"unreadable": 1},
    ),
    "types.parquet": (parquet(pa.table({"text": ["a", "b"], "n": ["one", "two"]})), [], {"wrong_schema": 2}),
    "nested.parquet": (parquet(pa.table({"text": ["a"], "deep": [[{"x": [{"y": "b"}]}]]})), ["a"], {}),
    "nulls.parquet": (parquet(pa.table({"text": [None, "", "a"]})), [None, "", "a"], {}),
    "bytes.parquet": (parquet(broken_utf8([b"fine", b"\xff\xfe", b"\xed\xa0\xbd", b"last"])), ["fine", "last"], {"not_utf8": 2}),
    "large.parquet": (parquet(pa.table({"text": ["a", "x" * (LIMIT + 1), "b"]})), ["a", "b"], {"too_large": 1}),
    "bomb.parquet": (parquet(pa.table({"text": ["a", *[BOMB] * 40, "b"]}), compression="zstd"), ["a", "b"], {"too_large": 40}),
    "bomb-nested.parquet": (
        parquet(pa.table({"text": ["a", "b"], "tags": [["x"], [BOMB] * 20]}), compression="zstd"), ["a"], {"too_large": 1},
    ),
    "bomb.jsonl.gz": (gzip.compress(BOMBS), ["a", "b"], {"too_large": 1}),
    "bomb.jsonl.zst": (pa.compress(BOMBS, "zstd", asbytes=True), ["a", "b"], {"too_large": 1}),
    "one-line.jsonl": (b'{"text": "' + b"x" * 2_000_000, [], {"not_json": 1}),
    "deep.jsonl": (lines({"text": "a"}, b'{"text": ' + b"[" * 50_000 + b"\n", {"text": "b"}), ["a", "b"], {"not_json": 1}),
    "wide-number.jsonl": (lines({"text": "a"}, b'{"text": "b", "n": ' + b"9" * 5_000 + b"}\n", {"text": "c"}), ["a", "c"], {"not_json": 1}),
    "bytes.jsonl": (lines({"text": "a"}, b'{"text": "\xff"}\n', b'{"text": "\\ud83d"}\n', {"text": "b"}), ["a", "b"], {"not_utf8": 2}),
    "bom-and-nul.jsonl": (b"\xef\xbb\xbf" + lines({"text": "a\0b"}, {"text": "\ufeffc"}), ["a\0b", "\ufeffc"], {}),
    "nul-bytes.jsonl": (lines({"text": "a"}, b"\0\0\n"), ["a"], {"not_json": 1}),
    "bare-cr.jsonl": (b'{"text": "a"}\r{"text": "b"}\r', [], {"not_json": 1}),
    "utf16.jsonl": ("\ufeff".encode("utf-16-le") + '{"text": "a"}\n'.encode("utf-16-le"), [], {"unknown_format": 1}),
    "not-gzip.jsonl.gz": (TEXT, ["Good", "also"], {}),
    "cut.jsonl.gz": (gzip.compress(lines(*({"text": f"{number}"} for number in range(9))), 0)[:-60], [], {}),
    "not.json": (b'{\n "text": "a"\n}', [], {"unknown_format": 1}),
    "no-text.json": (b'[{"body": "a"}, {"body": "b"}]', [], {"no_text": 1}),
    "array.json": (b'[{"text": "a"}, {"text": x}, 3, {"text": "b"}] ]', ["a", "b"], {"not_json": 2, "not_an_object": 1}),
    "cut.json": (b'[{"text": "a"}, {"text": "b"}, {"te', ["a", "b"], {"truncated": 1}),
    "bomb.json.gz": (
        gzip.compress(b'[{"text": "a"},{"text": "' + BOMB.encode() * 10 + b'"},{"text": "b"}]'), ["a", "b"], {"too_large": 1},
    ),
    "good.csv": (b'text,m\n"a\nb",1\n', ["a\nb"], {}),
    "broken.csv": (b'text,m\n"a,1\nb\nc,2,3\n\xff,4\nd,5\n', ["d"], {"not_csv": 1, "wrong_cells": 2, "not_utf8": 1}),
    "no-header.csv": (b"Ann,212-555-0100\nBob,212-555-0101\n", [], {"no_header": 1}),
    "nul.csv": (b"text,m\n\0,1\n", ["\0"], {}),
    "bare-cr.csv": (b"text,m\ra,1\r", [], {"no_header": 1}),
    "bomb.csv.gz": (gzip.compress(b'text,m\na,1\n"' + BOMB.encode() * 10 + b'\n",2\nb,3\n'), ["a", "b"], {"too_large": 1}),
    "line-bomb.csv.gz": (gzip.compress(b"text,m\na,1\n" + BOMB.encode() * 10 + b",2\nb,3\n"), ["a", "b"], {"too_large": 1}),
    "good.tsv": (b"text\tm\na, b\t1\n", ["a, b"], {}),
    "text.txt": (b"Some text.\n", ["Some text.\n"], {}),
    "nul.txt": (b"Some\0text", [], {"unknown_format": 1}),
    "large.txt": (b"x" * (LIMIT + 1), [], {"too_large": 1}),
    "bomb.txt.gz": (gzip.compress(b"x" * 30_000_000), [], {"too_large": 1}),
    "stream.arrow": (stream(pa.table({"text": ["a", "b"]})), ["a", "b"], {}),
    "cut.arrow": (stream(pa.table({"text": ["a", "b"] * 2_000}))[:-900], [], {"truncated": 1}),
    "bomb.arrow": (stream(pa.table({"text": ["a", *[BOMB] * 40, "b"]}), "zstd"), ["a", "b"], {"too_large": 40}),
    "lies.arrow": (b"\xff\xff\xff\xff\xff\xff\xff\x7f" + bytes(50), [], {"memory": 1}),
    "bare-cr.eml": (MAIL.replace(b"\n", b"\r") % b"r", [(MAIL % b"r").decode()], {}),
    "nul-and-8bit.eml": (MAIL % b"\0\xe9", ["From: Ann Lee <ann@example.com>\nSubject: \0é\n\nCall 212-555-0100.\n"], {}),
    "bom.eml": (b"\xef\xbb\xbf" + MAIL % b"b", [(MAIL % b"b").decode()], {}),
    "large.eml": (MAIL % b"l" + b"x" * LIMIT, [], {"too_large": 1}),
    "a'b; DROP TABLE x--.jsonl": (TEXT, ["Good", "also"], {}),
    'a"*[1]?{b}$$%s.jsonl': (TEXT, ["Good", "also"], {}),
    "a\nb\\c.parquet": (WHOLE, GOOD["text"].to_pylist(), {}),
    "~ #%20\t..jsonl": (TEXT, ["Good", "also"], {}),
    "\udcff\udcfe.jsonl": (TEXT, ["Good", "also"], {}),
}  # fmt: skip


def told(**more: Any) -> Settings:
    return Settings(seed=1, workers=1, max_doc_bytes=LIMIT, max_quarantine=1.0, **more)


def aside(base: Path) -> list[dict[str, Any]]:
    files = sorted((base / "out.private" / "quarantine").rglob("*.parquet"))
    return [row for file in files for row in pq.read_table(file, partitioning=None).to_pylist()]


def texts(base: Path) -> list[str | None]:
    return [text for file in sorted((base / "out" / "data").iterdir()) for text in pq.read_table(file)["text"].to_pylist()]


def write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.fixture(scope="module")
def all_at_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Every bad file between two good ones, in one folder, in one run that changes nothing."""
    base = tmp_path_factory.mktemp("bad")
    write(base / "in" / "!first.parquet", parquet(GOOD.append_column("n", [[1, 2, 3]])))
    write(base / "in" / "\U0010ffffzlast.jsonl", lines({"text": "the last", "n": 1}))
    for name, (content, _, _) in BAD.items():
        write(base / "in" / name, content)
    return base, run([base / "in"], base / "out", "baseline", settings=told())


def test_every_record_is_accounted_for(all_at_once: tuple[Path, dict[str, Any]]) -> None:
    base, summary = all_at_once
    assert summary["documents_in"] == summary["documents_out"] + summary["quarantined"]
    assert summary["quarantine"] == Counter(row["reason"] for row in aside(base))
    assert texts(base)[:3] == GOOD["text"].to_pylist() and "the last" in texts(base)
    assert len({row["doc_no"] for row in aside(base)}) == len(aside(base)) == summary["quarantined"]
    assert all(row["reason"] in REASONS for row in aside(base))


@pytest.mark.parametrize(
    "name", [name for name in BAD if name != "cut.jsonl.gz"], ids=lambda name: name.encode("ascii", "backslashreplace").decode()
)
def test_what_comes_out_of_a_bad_file(all_at_once: tuple[Path, dict[str, Any]], name: str) -> None:
    base, _ = all_at_once
    _, good, bad = BAD[name]
    shown = os.fsencode(str(base / "in" / name)).decode("utf-8", "backslashreplace")
    assert Counter(row["reason"] for row in aside(base) if row["source"] == shown) == bad
    assert [text for text in good if text not in texts(base)] == []


def test_what_a_broken_stream_had_is_kept(tmp_path: Path) -> None:
    write(tmp_path / "in" / "cut.jsonl.gz", BAD["cut.jsonl.gz"][0])
    run([tmp_path / "in"], tmp_path / "out", "baseline", settings=told())
    assert texts(tmp_path) == [str(number) for number in range(len(texts(tmp_path)))] and len(texts(tmp_path)) > 3
    assert [row["reason"] for row in aside(tmp_path)] == ["truncated"]


@pytest.mark.parametrize("name", ["cut.parquet", "empty.jsonl", "no-footer.parquet", "encrypted.parquet", "utf16.jsonl"])
def test_a_bad_file_that_is_named_is_refused(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, BAD[name][0])
    with pytest.raises(InputRefused, match="repair the file or leave it out|convert the file or name another"):
        run([tmp_path / name], tmp_path / "out", settings=told())
    assert not (tmp_path / "out").exists() and not (tmp_path / "out.private").exists()


@pytest.mark.parametrize(
    ("option", "said"), [({"strict": True}, "--strict allows none"), ({"max_quarantine": 0.2}, "--max-quarantine allows 20%")]
)
def test_the_limit_of_what_is_set_aside(tmp_path: Path, option: dict[str, Any], said: str) -> None:
    for number in range(4):
        write(tmp_path / "in" / f"{number}.eml", MAIL % b"a" if number else b"")
    with pytest.raises(QuarantineExceeded, match=rf"1 of 4 records were quarantined \(1 empty_file\); {said}"):
        run([tmp_path / "in"], tmp_path / "out", settings=Settings(workers=1, **option))
    assert not (tmp_path / "out").exists()
    assert run([tmp_path / "in"], tmp_path / "out", settings=Settings(workers=1, max_quarantine=0.25))["quarantined"] == 1


def test_a_file_that_nobody_can_look_into_counts_once(tmp_path: Path) -> None:
    """The number of its records is unknown: docs/input.md says so, since a share of the records means little then."""
    for number in range(19):
        write(tmp_path / "in" / f"{number:02}.eml", MAIL % b"a")
    write(tmp_path / "in" / "large.parquet", parquet(pa.table({"text": ["x"] * 1_000}))[:-30])
    summary = run([tmp_path / "in"], tmp_path / "out", settings=Settings(workers=1))
    assert (summary["documents_in"], summary["quarantine"]) == (20, {"truncated": 1})
    with pytest.raises(QuarantineExceeded, match="1 of 20 records were quarantined"):
        run([tmp_path / "in"], tmp_path / "strict", settings=Settings(workers=1, strict=True))


def test_a_folder_in_which_no_file_fits_says_which_column_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "in" / "a.parquet", parquet(pa.table({"body": ["a"]})))
    write(tmp_path / "in" / "b.jsonl", lines({"body": "a"}))
    monkeypatch.setattr(sys, "argv", ["sanitize", "run", str(tmp_path / "in"), "-o", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as end:
        main.main()
    assert (
        end.value.code == 2
        and "there is no column text; name the column with --text-column NAME. Columns known: body" in capsys.readouterr().err
    )


def test_ids_that_repeat_or_are_missing(tmp_path: Path) -> None:
    rows = [{"doc_id": one, "text": f"call 212-555-01{number:02}"} for number, one in enumerate(["a", "a", None, "", "a"])]
    write(tmp_path / "in.jsonl", lines(*rows))
    summary = run([tmp_path / "in.jsonl"], tmp_path / "out", "baseline", settings=told())
    assert summary["documents_out"] == 5 and "1 ids belong to more than one document" in summary["notes"][0]
    assert pq.read_table(tmp_path / "out" / "data" / "train-00000-of-00001.parquet")["doc_id"].to_pylist() == ["a", "a", "2", "", "a"]


def test_every_reason_is_explained() -> None:
    page = (Path(__file__).parents[2] / "docs" / "input.md").read_text("utf-8")
    assert [reason for reason, words in REASONS.items() if f"| `{reason}` | {words} |" not in page] == []


# ---- flipped bits ----


@pytest.mark.parametrize("flips", [60, pytest.param(500, marks=pytest.mark.soak)])
@pytest.mark.parametrize("checksums", [True, False])
def test_flipped_bits_and_cuts_never_lose_a_row_and_with_checksums_never_change_one(tmp_path: Path, checksums: bool, flips: int) -> None:
    whole = [f"Document {number} of this file. {'word ' * (number % 7)}" for number in range(40)]
    table = pa.table({"text": whole, "n": list(range(40)), "tags": [["a", "b"], [], None, ["c"]] * 10})
    raw = parquet(table, row_group_size=20, write_page_checksum=checksums, compression="zstd")
    draw = random.Random(7)
    write(tmp_path / "in" / "!first.parquet", raw)
    for number in range(flips):
        write(tmp_path / "in" / f"{number:03}.parquet", flipped(raw, draw.randrange(len(raw)), draw.randrange(8)))
    for number in range(1, 25):
        write(tmp_path / "in" / f"cut{number:02}.parquet", raw[: len(raw) * number // 25])
    summary = run([tmp_path / "in"], tmp_path / "out", "baseline", settings=told())
    unseen = {row["source"] for row in aside(tmp_path) if row["location"] == "file"}
    assert summary["documents_in"] == summary["documents_out"] + summary["quarantined"]
    assert summary["documents_in"] == 40 * (25 + flips - len(unseen)) + len(unseen)
    if checksums:
        assert set(texts(tmp_path)) <= set(whole)
    assert texts(tmp_path)[:40] == whole


# ---- files that kill ----

KILLS = """
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
def killers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bool], None]]:
    """Child processes in which the Parquet library crashes on files with certain names, when it surveys them or only when it reads their
    rows."""

    def begin(early: bool) -> None:
        write(tmp_path / "site" / "sitecustomize.py", KILLS.replace("{early}", str(early)).encode())
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "site"), *filter(None, sys.path)]))
        monkeypatch.setattr(sandbox, "BASE_TIME_LIMIT_S", 10.0)  # a child that begins on a busy machine needs some of it to import
        while worker_process._idle_workers:
            worker_process._idle_workers.pop().kill()

    yield begin
    while worker_process._idle_workers:
        worker_process._idle_workers.pop().kill()


# the time that a file which hangs is given is waited for: once here, in each place in the long form
@pytest.mark.parametrize(
    ("early", "workers", "hangs"),
    [(True, 2, True), (False, 1, False), pytest.param(False, 2, True, marks=pytest.mark.soak)],
    ids=["looking-2", "reading-1", "reading-2-hangs"],
)
def test_a_file_that_kills_its_reader_costs_itself(
    tmp_path: Path, killers: Callable[[bool], None], early: bool, workers: int, hangs: bool
) -> None:
    killers(early)
    for name in ("a", "b-crash", "c", *(["d-hang"] if hangs else []), "e-fill", "f"):
        write(tmp_path / "in" / f"{name}.parquet", parquet(pa.table({"text": [f"{name} 1", f"{name} 2"]})))
    write(tmp_path / "in" / "g.jsonl", TEXT)
    summary = run([tmp_path / "in"], tmp_path / "out", "baseline", settings=Settings(workers=workers, max_quarantine=1.0))
    each = 1 if early else 2  # nobody knows how many rows a file has that cannot be looked at
    ways = ("crashed", "memory", *(["timed_out"] if hangs else []))
    assert Counter(row["reason"] for row in aside(tmp_path)) == dict.fromkeys(ways, each)
    assert texts(tmp_path) == ["a 1", "a 2", "c 1", "c 2", "f 1", "f 2", "Good", "also"]
    assert summary["documents_in"] == 8 + len(ways) * each


@pytest.mark.parametrize(
    ("name", "said", "early"),
    [
        ("crash", "crashed", True),
        ("crash", "crashed", False),
        pytest.param("hang", "takes far longer", True, marks=pytest.mark.soak),
        ("fill", "takes more memory", True),
    ],
)
def test_a_named_file_that_kills_its_reader_is_refused(
    tmp_path: Path, killers: Callable[[bool], None], early: bool, name: str, said: str
) -> None:
    killers(early)
    monkey = write(tmp_path / f"{name}.parquet", WHOLE)
    with pytest.raises(InputRefused, match=rf"{name}\.parquet: .*{said}.*repair the file or leave it out"):
        run([monkey], tmp_path / "out", settings=told())
    assert not (tmp_path / "out").exists()


def test_a_mail_that_kills_costs_itself(tmp_path: Path, killers: Callable[[bool], None]) -> None:
    killers(True)
    site = tmp_path / "site" / "sitecustomize.py"
    site.write_text(
        "import os\nimport sanitize.readers.mail as m\ntext = m.parse_mail\n"
        "m.parse_mail = lambda raw: os._exit(9) if b'KILL' in raw else text(raw)\n"
    )
    for number in range(30):
        write(tmp_path / "in" / f"{number:02}.eml", MAIL % (b"KILL" if number in (7, 19) else b"%d" % number))
    summary = run([tmp_path / "in"], tmp_path / "out", "baseline", settings=told())
    assert [(os.path.basename(row["source"]), row["reason"]) for row in aside(tmp_path)] == [("07.eml", "crashed"), ("19.eml", "crashed")]
    assert summary["documents_out"] == 28 == len(texts(tmp_path))


# ---- the stress set ----

STRESS = Path(__file__).parents[3] / "shared" / "data" / "stress"
real = pytest.mark.skipif(not STRESS.is_dir(), reason="the stress set is not beside this repository")
RECORDS = {"broken.jsonl": 7, "many_tiny_records.jsonl": 50_000}


@real
def test_the_whole_stress_set(tmp_path: Path) -> None:
    """745 odd and hostile files, and the list of them: one command accepts them all, and reports what it left out."""
    summary = run([STRESS], tmp_path / "out", settings=Settings(workers=2))
    there = [json.loads(line)["file"] for line in (STRESS / "MANIFEST.jsonl").read_text().splitlines()]
    assert summary["documents_in"] == summary["documents_out"] + summary["quarantined"]
    sources = Counter(os.path.relpath(row["source"], STRESS) for row in aside(tmp_path))
    assert sources["MANIFEST.jsonl"] == len(there) == 745  # a list of files has no text
    alone = [name for name in there if not name.endswith((".mbox", ".jsonl", ".gz"))]
    assert summary["documents_in"] >= len(alone) + 50_000
    assert set(sources) <= {*there, "MANIFEST.jsonl", "README.md", "SHA256SUMS"}
    assert summary["leaks"] == 0 and summary["quarantine"] == Counter(row["reason"] for row in aside(tmp_path))
