"""The reason of a quarantined record names its fault: size, depth, decompression, time. All people
are invented."""

from __future__ import annotations

import dataclasses
import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.core.engine import TaskResult
from sanitize.engines.task_runner import FolderTask
from sanitize.engines.worker_process import borrow_worker, run_on_workers
from sanitize.errors import InputRefused
from sanitize.readers import byte_streams, jsonl, sandbox
from sanitize.readers.byte_streams import BombStream, open_stream
from sanitize.readers.jsonl import MAX_DEPTH
from sanitize.readers.sandbox import InPlaceCheckTask
from sanitize.readers.survey import Roles, Survey, stage_unit, survey_inputs

SAMPLE_LIMIT = 10_000
LARGE, SMALL = {"text": "x" * 3 * SAMPLE_LIMIT}, {"text": "Write to ann.roe@example.com"}
COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda raw: raw,
    ".gz": gzip.compress,
    ".zst": lambda raw: pa.compress(raw, "zstd", asbytes=True),
}


def write_records(folder: Path, suffix: str, *texts: str) -> Path:
    """A JSON file with these records, as lines or as an array, compressed by its suffix."""
    folder.mkdir(parents=True, exist_ok=True)
    name, _, compression = suffix.partition("+")
    body = "\n".join(texts) + "\n" if name == ".jsonl" else f"[{', '.join(texts)}]"
    path = folder / f"in{name}{compression}"
    path.write_bytes(COMPRESSIONS[compression](body.encode()))
    return path


def read_reasons(survey: Survey, folder: Path, max_doc_bytes: int) -> tuple[int, list[str]]:
    """The number of records, and the reasons of those that are quarantined."""
    rows, reasons = 0, []
    folder.mkdir(exist_ok=True)
    for unit in survey.units:
        rows += stage_unit(
            unit, survey, folder / "documents.parquet", folder / "faults.parquet", max_doc_bytes
        ).rows
        reasons += pq.read_table(folder / "faults.parquet").column("reason").to_pylist()
    return rows, reasons


SUFFIXES = [".jsonl", ".jsonl+.gz", ".jsonl+.zst", ".json", ".json+.gz"]


@pytest.fixture(autouse=True)
def small_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "MAX_SAMPLE_LINE_BYTES", SAMPLE_LIMIT)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_records_that_are_all_too_large_are_called_so(suffix: str, tmp_path: Path) -> None:
    only_large = write_records(tmp_path / "in", suffix, json.dumps(LARGE), json.dumps(LARGE))
    with pytest.raises(
        InputRefused, match="it is larger than --max-doc-bytes. Raise --max-doc-bytes"
    ):
        survey_inputs([only_large], Roles(), max_doc_bytes=SAMPLE_LIMIT)
    assert read_reasons(
        survey_inputs([only_large], Roles(), max_doc_bytes=1 << 20), tmp_path / "out", 1 << 20
    ) == (2, [])
    (tmp_path / "in" / "b.txt").write_text("a b\n")
    in_folder = survey_inputs([tmp_path / "in"], Roles(), max_doc_bytes=SAMPLE_LIMIT)
    # the file is one record
    assert read_reasons(in_folder, tmp_path / "out", SAMPLE_LIMIT) == (2, ["too_large"])
    mixed = write_records(
        tmp_path / "mixed", suffix, json.dumps(SMALL), json.dumps(LARGE), json.dumps(SMALL)
    )
    survey = survey_inputs([mixed], Roles(), max_doc_bytes=SAMPLE_LIMIT)
    assert read_reasons(survey, tmp_path / "out", SAMPLE_LIMIT) == (3, ["too_large"])


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_depth_has_a_fixed_limit(suffix: str, opening: str, closing: str, tmp_path: Path) -> None:
    def nest(depth: int) -> str:
        """A record whose brackets are `depth` deep, the record's own included."""
        return f'{{"text": "hello", "more": {opening * (depth - 1)}1{closing * (depth - 1)}}}'

    texts = [
        json.dumps(SMALL | {"more": "[" * 1_000}),
        nest(MAX_DEPTH),
        nest(MAX_DEPTH + 1),
        nest(1_000),
        nest(90_000),
    ]
    path = write_records(tmp_path / "in", suffix, *texts)
    survey = survey_inputs([path], Roles(), max_doc_bytes=1 << 20)
    assert read_reasons(survey, tmp_path / "out", 1 << 20) == (5, ["too_deep"] * 3)
    only_deep = write_records(tmp_path / "deep", suffix, nest(1_000))
    with pytest.raises(
        InputRefused, match="its brackets are nested more than 200 deep, or its lists"
    ):
        survey_inputs([only_deep], Roles(), max_doc_bytes=1 << 20)


@pytest.mark.parametrize(("depth", "is_nested"), [(25, True), (35, False), (MAX_DEPTH - 1, False)])
def test_columns_that_parquet_cannot_nest_become_text(
    depth: int, is_nested: bool, tmp_path: Path
) -> None:
    """A list takes two levels of a Parquet schema, and Arrow cannot read back more than 64."""
    path = write_records(
        tmp_path / "in", ".jsonl", f'{{"text": "hello", "more": {"[" * depth}"x"{"]" * depth}}}'
    )
    survey = survey_inputs([path], Roles())
    (unit,) = survey.units
    stage_unit(unit, survey, tmp_path / "documents.parquet", tmp_path / "faults.parquet", 1 << 20)
    more = pq.read_table(tmp_path / "documents.parquet").column("more")
    assert pa.types.is_nested(more.type) is is_nested and more.null_count == 0
    if depth > 60:
        return  # Arrow cannot write such a file
    column_type: pa.DataType = pa.string()
    for _ in range(depth):
        column_type = pa.list_(column_type)
    schema = pa.schema([("text", pa.string()), ("more", column_type)])
    with pa.ipc.new_stream(str(tmp_path / "in.arrow"), schema) as out:
        out.write(pa.record_batch([["hello"], [None]], schema=schema))
    if is_nested:
        assert survey_inputs([tmp_path / "in.arrow"], Roles()).units
    else:
        with pytest.raises(InputRefused, match="or its lists more than 30"):
            survey_inputs([tmp_path / "in.arrow"], Roles())


@pytest.mark.parametrize("text", ["{", '{"text": 1', "[1]", '"x"', '{"text": "a"} x'])
def test_what_is_no_record_is_no_json(text: str) -> None:
    assert jsonl._parse_object(text.encode())[1] in ("not_json", "not_an_object")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_repeated_key_is_a_loss_only_with_another_value(suffix: str, tmp_path: Path) -> None:
    """Of several values of a key, `json.loads` keeps the last."""
    records = [
        '{"text": "a", "text": "b"}',
        '{"text": "c", "m": [{"k": 1, "k": 1}]}',
        '{"text": "d", "m": [{"k": 1, "k": 2}]}',
        '{"text": "e: \\"text\\": \\"f\\""}',
    ]
    path = write_records(tmp_path / "in", suffix, *records)
    survey = survey_inputs([path], Roles())
    assert read_reasons(survey, tmp_path / "out", 1 << 20) == (4, ["repeated_key"] * 2)


def test_a_stream_that_unpacks_far_beyond_its_size_is_a_bomb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (json.dumps(SMALL) + "\n") * 20_000
    path = tmp_path / "in.jsonl.zst"
    path.write_bytes(pa.compress(lines.encode(), "zstd", asbytes=True))
    survey = survey_inputs([path], Roles())
    assert read_reasons(survey, tmp_path / "out", 1 << 20) == (20_000, [])
    monkeypatch.setattr(byte_streams, "FREE_DECOMPRESSED_BYTES", 1 << 18)
    monkeypatch.setattr(byte_streams, "MAX_COMPRESSION_RATIO", 10)
    rows, reasons = read_reasons(survey, tmp_path / "out", 1 << 20)
    assert reasons == ["bomb"] and 0 < rows < 20_000
    with pytest.raises(BombStream), open_stream(str(path)) as stream:
        while stream.read1(1 << 16):
            pass


def write_slowly(task: FolderTask) -> str:
    """Takes three times its time limit, and writes all the time."""
    task.folder.mkdir()
    for number in range(15):
        (task.folder / str(number)).write_text("x")
        time.sleep(0.2)
    return "done"


def hang_after_writing(task: FolderTask) -> None:
    task.folder.mkdir()
    (task.folder / "1").write_text("x")
    time.sleep(60)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "expected"), [(write_slowly, "done"), (hang_after_writing, "timed_out")]
)
def test_only_a_reader_that_writes_nothing_is_ended(
    function: Callable[[FolderTask], object], expected: str, tmp_path: Path
) -> None:
    with borrow_worker() as worker:
        ((_, outcome),) = run_on_workers(
            worker, function, [FolderTask(tmp_path / "task")], time_limit=lambda task: 1.0
        )
    assert (outcome.result if isinstance(outcome, TaskResult) else outcome.reason) == expected


def test_the_time_for_a_parquet_file_follows_from_its_rows(tmp_path: Path) -> None:
    """Sixty million equal rows take 100 KB, and two minutes to check."""
    pq.write_table(pa.table({"text": ["hello"] * 1_000}), tmp_path / "in.parquet")
    survey = survey_inputs([tmp_path / "in.parquet"], Roles())
    (unit,) = survey.units
    many = dataclasses.replace(unit, rows=60_000_000)
    task = InPlaceCheckTask(
        units=(many,), layout=survey.layout, max_doc_bytes=1 << 20, folder=tmp_path
    )
    seconds = sandbox._time_limit(task)  # type: ignore[arg-type]
    assert seconds > 1_500
