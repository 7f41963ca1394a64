"""Memory is bounded by the batch, the largest document and the distinct values, not by the
corpus."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.storage import parquet_files
from sanitize.storage.parquet_files import (
    open_text_writer,
    read_bounded_batches,
    row_text_bytes,
    split_rows,
)

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="peak memory is reported in kilobytes only on Linux"
)
BASE_MB = 420  # MB of a process with all libraries loaded and one batch: the documented constant


def run(folder: Path, *more: object) -> tuple[dict[str, Any], float]:
    """The summary of `sanitize run in -o out`, and the largest resident size of any of its
    processes in MB."""
    arguments = [
        sys.executable,
        "-m",
        "sanitize",
        "run",
        "in",
        "-o",
        "out",
        "--replace",
        "--plan",
        "rmft",
        "--json",
        "--seed",
        "1",
        *map(str, more),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, env=environment)
    assert process.returncode == 0, process.stderr
    summary = json.loads(process.stdout)
    return summary, summary["peak_rss_mb"]


def write_corpus(path: Path, documents: int) -> None:
    """Documents of about 3 KB, with the same 1,000 values for any number of documents."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(path, pa.schema([("text", pa.string())])) as out:
        for start in range(0, documents, 1_000):
            rows = range(start, min(start + 1_000, documents))
            texts = [
                f"Mail {no} to user{no % 1_000}@example.com. {'The quick brown fox. ' * 140}"
                for no in rows
            ]
            out.write_table(pa.table({"text": texts}))


@pytest.mark.slow
def test_memory_does_not_grow_with_ten_times_the_corpus(tmp_path: Path) -> None:
    peaks = []
    for documents in (2_000, 20_000):
        write_corpus(tmp_path / str(documents) / "in" / "a.parquet", documents)
        summary, peak = run(tmp_path / str(documents), "--workers", 1, "--rows-per-shard", 5_000)
        assert summary["documents_out"] == documents
        peaks.append(peak)
    assert peaks[1] <= peaks[0] * 1.05 + 60 and max(peaks) < BASE_MB


SOAK_NAMES = [pytest.param(name, marks=pytest.mark.soak) for name in ("a.csv.gz", "a.txt.gz")]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.json.gz", "a.arrow", *SOAK_NAMES])
def test_memory_does_not_grow_with_files_without_row_groups(tmp_path: Path, name: str) -> None:
    """A JSON array, a CSV, a text of paragraphs and an Arrow stream of 60 MB; at most one batch of
    each is in memory."""
    texts = [
        f"Mail {no} to user{no % 1_000}@example.com.\n{'The quick brown fox. ' * 140}"
        for no in range(20_000)
    ]
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / name
    if name == "a.arrow":
        with pa.ipc.new_stream(path, pa.schema([("text", pa.string())])) as stream:
            stream.write_table(pa.table({"text": texts}), max_chunksize=1_000)
    else:
        content_by_name = {
            "a.json.gz": json.dumps([{"text": text} for text in texts]),
            "a.csv.gz": "text\n" + "".join(f'"{text}"\n' for text in texts),
            "a.txt.gz": "\n\n".join(texts),
        }[name]
        path.write_bytes(gzip.compress(content_by_name.encode(), 1))
    summary, peak = run(
        tmp_path,
        "--workers",
        1,
        "--rows-per-shard",
        5_000,
        "--documents",
        "paragraphs",
        "--verify",
        "off",
    )
    assert summary["documents_out"] == 20_000 and summary["quarantined"] == 0
    assert peak < BASE_MB


@pytest.mark.soak
def test_memory_does_not_grow_with_a_hundred_times_the_corpus(tmp_path: Path) -> None:
    peaks = []
    for documents in (40_000, 400_000):
        write_corpus(tmp_path / str(documents) / "in" / "a.parquet", documents)
        peaks.append(run(tmp_path / str(documents), "--workers", 2)[1])
    assert peaks[1] <= peaks[0] * 1.05 + 30


@pytest.mark.soak
def test_memory_of_a_million_distinct_values_is_bounded(tmp_path: Path) -> None:
    """The values of a corpus are in memory once for each task and once for the checks: about 0.5 KB
    per value (docs/reference/input.md)."""
    (tmp_path / "in").mkdir()
    texts = [
        f"Write to first{no}.last{no}@host{no % 1_000}.example.com." for no in range(1_000_000)
    ]
    pq.write_table(pa.table({"text": texts}), tmp_path / "in" / "a.parquet", row_group_size=10_000)
    summary, peak = run(tmp_path, "--workers", 2)
    assert summary["by_kind"]["EMAIL_ADDRESS"]["values"] == 1_000_000
    assert peak < BASE_MB + 1_000_000 * 0.001


LARGE_TEXT_BYTES = 100_000_000


def write_parquet_bomb(path: Path) -> None:
    path.parent.mkdir()
    pq.write_table(
        pa.table({"text": ["small", *["x" * LARGE_TEXT_BYTES] * 6, "small too"]}),
        path,
        compression="zstd",
    )
    assert path.stat().st_size < 25_000


def write_gzip_bomb(path: Path) -> None:
    path.write_bytes(
        gzip.compress(
            json.dumps({"text": "small"}).encode()
            + b"\n"
            + b'{"text": "'
            + b"x" * (2 * LARGE_TEXT_BYTES)
            + b'"}\n'
            + b'{"text": "small too"}\n',
            1,
        )
    )


def write_long_line(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b'{"text": "small"}\n{"text": "')
        for _ in range(2):
            file.write(b"x" * LARGE_TEXT_BYTES)
        file.write(b'"}\n{"text": "small too"}\n')


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "write_bomb", "too_large_count", "max_peak"),
    [
        ("a.jsonl.gz", write_gzip_bomb, 1, BASE_MB + 4 * 32),
        ("a.jsonl", write_long_line, 1, BASE_MB + 4 * 32),
    ],
)
def test_a_bomb_is_refused_before_memory_is_spent(
    tmp_path: Path, name: str, write_bomb: Any, too_large_count: int, max_peak: float
) -> None:
    (tmp_path / "in").mkdir()
    write_bomb(tmp_path / "in" / name)
    summary, peak = run(tmp_path, "--workers", 1, "--max-quarantine", "100%")
    assert summary["quarantine"] == {"too_large": too_large_count} and summary["documents_out"] == 2
    assert peak < max_peak, peak


@pytest.mark.slow
def test_a_parquet_bomb_is_refused_by_its_footer(tmp_path: Path) -> None:
    """A file of under 25 KB that decompresses to 600 MB; the other files of the folder are read."""
    write_parquet_bomb(tmp_path / "in" / "a.parquet")
    write_corpus(tmp_path / "in" / "b.parquet", 50)
    # a sixth of the bytes of the folder
    summary, peak = run(tmp_path, "--workers", 1, "--max-quarantine", "20%")
    assert summary["quarantine"] == {"bomb": 1} and summary["documents_out"] == 50
    assert peak < BASE_MB


def test_batches_are_bounded_by_decompressed_bytes(tmp_path: Path) -> None:
    """Neither a dictionary page, nor consecutive row groups, make a batch larger than allowed."""
    texts = ["x" * 900_000] * 50 + ["y"] * 50
    for options in (
        {"row_group_size": 3},
        {"row_group_size": 100},
        {"row_group_size": 100, "use_dictionary": False},
    ):
        pq.write_table(
            pa.table({"text": texts, "tags": [["a", None], None] * 50}),
            tmp_path / "a.parquet",
            **options,
        )  # type: ignore[arg-type]
        meta = pq.read_metadata(tmp_path / "a.parquet")
        batches = list(
            read_bounded_batches(
                str(tmp_path / "a.parquet"),
                meta,
                range(meta.num_row_groups),
                max_rows=1_000,
                max_bytes=2_000_000,
            )
        )
        assert all(int(sizes.sum()) <= 2_000_000 for _, sizes in batches)
        assert [text for batch, _ in batches for text in batch.column("text").to_pylist()] == texts
        assert [int(size) for _, sizes in batches for size in sizes] == [900_001, 900_000] * 25 + [
            2,
            1,
        ] * 25


def test_a_reference_past_a_dictionary_is_an_error() -> None:
    batch = pa.RecordBatch.from_arrays(
        [pa.DictionaryArray.from_arrays(pa.array([0, 5], pa.int32()), pa.array(["a"]), safe=False)],
        ["text"],
    )
    with pytest.raises(pa.ArrowInvalid):
        row_text_bytes(batch)


def test_output_row_groups_are_bounded_and_do_not_depend_on_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_files, "ROW_GROUP_ROWS", 7)
    monkeypatch.setattr(parquet_files, "ROW_GROUP_BYTES", 50)
    texts = pa.table(
        {
            "text": pa.array(
                ["x" * (number * 13 % 31) for number in range(60)] + ["y" * 80, ""],
                pa.large_string(),
            )
        }
    )

    def write_and_count_rows(sizes: Iterable[int]) -> list[int]:
        with open_text_writer(tmp_path / "a.parquet", texts.schema) as out:
            writer, start = parquet_files.RowGroupWriter(out), 0
            for size in sizes:
                writer.add(texts.slice(start, size))
                start += size
            writer.flush()
        meta = pq.read_metadata(tmp_path / "a.parquet")
        assert pq.read_table(tmp_path / "a.parquet").cast(texts.schema).equals(texts)
        return [meta.row_group(number).num_rows for number in range(meta.num_row_groups)]

    lengths = np.array([len(text) for text in texts["text"].to_pylist()])
    expected = [high - low for low, high in split_rows(lengths, 50, 7)]
    assert (
        write_and_count_rows([62])
        == write_and_count_rows([1] * 62)
        == write_and_count_rows([30, 2, 30])
        == expected
        and max(expected) <= 7
        and 1 in expected
    )
