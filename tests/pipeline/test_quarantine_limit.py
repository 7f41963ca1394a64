"""`--max-quarantine` counts files that are quarantined whole by their bytes, before detection, and
says what ends the problem."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sanitize
from sanitize.errors import QuarantineExceeded

PDF = b"%PDF-1.4 \0" + bytes(range(256)) * 20
MAIL = b"From: Ann <ann@example.com>\nSubject: hi\n\nHello.\n"
LINE = json.dumps({"text": "hello, all"}).encode() + b"\n"


def write(folder: Path, **files: bytes) -> None:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_bytes(content)


def texts(count: int, size: int = 20) -> dict[str, bytes]:
    return {f"t{number:02}__txt": b"x" * size for number in range(count)}


def write_parquet(folder: Path, rows: int, cut: int) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(
        pa.table({"text": [f"row {number}" * 5 for number in range(rows)]}),
        folder / "a.parquet",
        compression="none",
    )
    raw = (folder / "a.parquet").read_bytes()
    (folder / "b.parquet").write_bytes(raw[: len(raw) - cut])


# what is in the folder, options -> sentence of the error, "" where it runs
CASES: dict[str, tuple[Callable[[Path], object], dict[str, Any], str]] = {
    "one large unreadable file among many small": (
        lambda folder: write(folder, x__pdf=PDF, **texts(20)),
        {},
        r"1 of 21 records were quarantined \(1 unknown_format\), 1 file \(\.pdf\) as a whole: 93%"
        r" of the bytes; "
        "max_quarantine allows 10%",
    ),
    "one small unreadable file": (
        lambda folder: write(folder, x__pdf=PDF[:20], **texts(20)),
        {},
        "",
    ),
    "one large unreadable file is allowed": (
        lambda folder: write(folder, x__pdf=PDF, **texts(20)),
        {"max_quarantine": "93%"},
        "",
    ),
    "and just not": (
        lambda folder: write(folder, x__pdf=PDF, **texts(20)),
        {"max_quarantine": "92%"},
        "93% of the bytes",
    ),
    "nothing is allowed": (
        lambda folder: write(folder, x__pdf=PDF[:20], **texts(20)),
        {"strict": True},
        "strict=True allows none",
    ),
    "an unreadable table": (
        lambda folder: write_parquet(folder, 500, 30),
        {},
        r"1 file \(\.parquet\) as a whole: 50% of the bytes",
    ),
    "a suffix that may be a name is not shown": (
        lambda folder: write(folder, x__lee=PDF, **texts(20)),
        {},
        r"1 file as a whole: 93% of the bytes.*such as FOLDER/\*\.txt",
    ),
    "a mail is one record, whatever its size": (
        lambda folder: write(
            folder,
            big__eml=MAIL + b"x" * 9_000,
            **{f"m{number:02}__eml": MAIL for number in range(20)},
        ),
        {"max_doc_bytes": 5_000},
        "",
    ),
    "a text is one record": (
        lambda folder: write(folder, big__txt=b"\xff\xfe" * 5_000, **texts(20)),
        {},
        "",
    ),
    "bad lines of a readable file are records": (
        lambda folder: write(folder, a__jsonl=LINE * 95 + b"{\n" * 5),
        {},
        "",
    ),
    "records without the main text": (
        lambda folder: write(folder, a__jsonl=LINE * 5, b__jsonl=b'{"content": "hello"}\n' * 5),
        {},
        (
            r"5 of 10 records were quarantined \(5 no_text\).*Give only files that have the main"
            r" text, or name its column \(text_column"
        ),
    ),
    "lines and files add up": (
        lambda folder: write(folder, a__jsonl=LINE * 95 + b"{\n" * 6, x__pdf=PDF[: 23 * 6]),
        {},
        r"7 of 102 records were quarantined .*1 file \(\.pdf\) as a whole: 6% of the bytes",
    ),
    "bad lines alone": (
        lambda folder: write(folder, a__jsonl=LINE * 5 + b"{\n" * 5),
        {},
        r"5 of 10 records were quarantined \(5 not_json\); max_quarantine allows 10%",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_was_lost_decides_whether_the_run_stops(tmp_path: Path, case: str) -> None:
    build, options, sentence = CASES[case]
    build(tmp_path / "in")
    if not sentence:
        result = sanitize.run(
            tmp_path / "in", tmp_path / "out", plan="redact", workers=1, **options
        )
        assert result.documents_in == result.documents_out + result.quarantined
        return
    with pytest.raises(QuarantineExceeded) as caught:
        sanitize.run(tmp_path / "in", tmp_path / "out", plan="redact", workers=1, **options)
    assert re.search(sentence, str(caught.value)), str(caught.value)
    assert not (tmp_path / "out").exists() and "lee" not in str(caught.value)
    # it stopped before detection
    assert not list((tmp_path / "out.private").glob("tasks/detect/*"))


@pytest.mark.parametrize("way_out", ["other inputs", "another limit", "not strict", "the query"])
def test_each_way_out_ends_the_problem(tmp_path: Path, way_out: str) -> None:
    write(tmp_path / "in", x__pdf=PDF, **texts(20))
    options: dict[str, Any] = {"plan": "redact", "workers": 1}
    with pytest.raises(QuarantineExceeded) as caught:
        sanitize.run(tmp_path / "in", tmp_path / "out", strict=way_out == "not strict", **options)
    message = str(caught.value)
    if way_out == "other inputs":
        (pattern,) = re.findall(r"such as FOLDER/(\S+),", message)
        result = sanitize.run(
            sorted((tmp_path / "in").glob(pattern)),
            tmp_path / "out",
            replace="replace=True" in message,
            **options,
        )
        assert (result.documents_out, result.quarantined) == (20, 0)
    elif way_out == "the query":
        assert "quarantine_by_reason" in message
        assert sanitize.sql(tmp_path / "out.private", "SELECT reason FROM quarantine")[
            "reason"
        ].to_list() == ["unknown_format"]
    else:
        limit: dict[str, Any] = (
            {"max_quarantine": 1.0}
            if way_out == "not strict"
            else {"max_quarantine": re.findall(r'max_quarantine="(\d+%)"', message)[0]}
        )
        assert way_out != "not strict" or "leave out strict" in message
        assert sanitize.run(tmp_path / "in", tmp_path / "out", **options, **limit).quarantined == 1


def test_an_append_counts_its_own_files(tmp_path: Path) -> None:
    write(tmp_path / "in", **texts(20, size=5_000))
    options: dict[str, Any] = {"plan": "redact", "workers": 1}
    sanitize.run(tmp_path / "in", tmp_path / "out", **options)
    write(tmp_path / "in", x__pdf=PDF, u__txt=b"hello", v__txt=b"hello")
    with pytest.raises(
        QuarantineExceeded, match="1 of 3 records were quarantined.*as a whole: 100% of the bytes"
    ):
        sanitize.run(tmp_path / "in", tmp_path / "out", append=True, **options)
