"""Shards as JSON Lines and as MDS: the same rows, the same bytes in every run, checked and
published like Parquet shards."""

from __future__ import annotations

import datetime
import decimal
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sanitize.errors import LeakFound, OutputBroken, UsageError
from sanitize.inspection.reproduction import replay
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.settings import Settings
from sanitize.storage import formats
from sanitize.storage.corpus import Corpus
from sanitize.storage.files import file_sha256
from sanitize.storage.formats import jsonl_zst, mds
from sanitize.storage.parquet_files import open_text_writer
from sanitize.train.corpus_reader import read_documents
from sanitize.verification.published.output_check import verify

FORMAT_MODULES = (jsonl_zst, mds)
PERSON_TYPE = pa.struct([("who", pa.large_string()), ("at", pa.timestamp("ms"))])
SCHEMA = pa.schema(
    [
        ("doc_id", pa.large_string()),
        ("text", pa.large_string()),
        ("whole", pa.int64()),
        ("large", pa.uint64()),
        ("small", pa.int8()),
        ("real", pa.float64()),
        ("less", pa.float32()),
        ("yes", pa.bool_()),
        ("tags", pa.large_list(pa.large_string())),
        ("nested", pa.large_list(PERSON_TYPE)),
        ("one", PERSON_TYPE),
        ("when", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("span", pa.duration("s")),
        ("price", pa.decimal128(10, 2)),
        ("none", pa.null()),
    ]
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SPECIAL_TEXTS = [
    "",
    "\0",
    "\x7f\x01",
    '"\\/',
    "\u2028\u2029\x85",
    "a\nb\r\nc\r",
    "é 😀 e\u0301 \ufeff",
    "</script>",
    "{}",
    "null",
    "﷽" * 3,
]
PEOPLE = st.none() | st.fixed_dictionaries(
    {
        "who": st.none() | TEXTS,
        "at": st.none()
        | st.datetimes(datetime.datetime(1900, 1, 1)).map(lambda at: at.replace(microsecond=0)),
    }
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "doc_id": TEXTS,
            "text": st.none() | TEXTS | st.sampled_from(SPECIAL_TEXTS),
            "whole": st.none() | st.integers(-(2**63), 2**63 - 1),
            "large": st.none() | st.integers(0, 2**64 - 1),
            "small": st.integers(-128, 127),
            "real": st.none() | st.floats(allow_nan=False, allow_infinity=False),
            "less": st.floats(width=32, allow_nan=False, allow_infinity=False),
            "yes": st.none() | st.booleans(),
            "tags": st.none() | st.lists(st.none() | TEXTS, max_size=3),
            "nested": st.none() | st.lists(PEOPLE, max_size=2),
            "one": PEOPLE,
            "when": st.none()
            | st.datetimes(datetime.datetime(1900, 1, 1), timezones=st.just(datetime.UTC)),
            "day": st.none() | st.dates(datetime.date(1, 1, 1)),
            "span": st.none()
            | st.integers(-(10**6), 10**6).map(lambda seconds: datetime.timedelta(seconds=seconds)),
            "price": st.none()
            | st.integers(-(10**9), 10**9).map(lambda cents: decimal.Decimal(cents) / 100),
            "none": st.none(),
        }
    ),
    max_size=6,
)


def write_parquet_shard(
    path: Path, rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA
) -> pa.Table:
    """A Parquet shard as sanitize writes it, and its rows in the types of these formats."""
    table = pa.Table.from_pylist(rows, schema)
    with open_text_writer(path, schema) as out:
        out.write_table(table)
    return pa.table(
        [column.cast(formats.packed_type(column.type)) for column in table.columns],
        names=schema.names,
    )


@pytest.mark.parametrize("format_module", FORMAT_MODULES, ids=lambda module: module.NAME)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS)
def test_packing_keeps_every_row(
    format_module: Any, tmp_path: Path, rows: list[dict[str, Any]]
) -> None:
    packed_rows = write_parquet_shard(tmp_path / "shard.parquet", rows)
    out = tmp_path / f"shard{format_module.SUFFIX}"
    format_module.pack(tmp_path / "shard.parquet", out)
    batches = [batch.to_pylist() for batch in format_module.read_batches(out, packed_rows.schema)]
    assert [row for batch in batches for row in batch] == packed_rows.to_pylist()
    packed_bytes = out.read_bytes()
    format_module.pack(tmp_path / "shard.parquet", out)
    assert out.read_bytes() == packed_bytes


@pytest.mark.parametrize("format_module", FORMAT_MODULES, ids=lambda module: module.NAME)
def test_packed_bytes_do_not_depend_on_row_groups(format_module: Any, tmp_path: Path) -> None:
    schema = pa.schema([("text", pa.large_string()), ("n", pa.int64())])
    table = pa.table(
        {"text": [f"text {no} " * (no % 50) for no in range(900)], "n": range(900)}, schema
    )
    packed_bytes = []
    for size in (900, 7):
        with open_text_writer(tmp_path / "shard.parquet", schema) as out:
            out.write_table(table, row_group_size=size)
        format_module.pack(tmp_path / "shard.parquet", tmp_path / f"{size}{format_module.SUFFIX}")
        packed_bytes.append((tmp_path / f"{size}{format_module.SUFFIX}").read_bytes())
    assert packed_bytes[0] == packed_bytes[1]


def test_lines_longer_than_a_block_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = pa.schema([("text", pa.large_string())])
    packed_rows = write_parquet_shard(
        tmp_path / "shard.parquet",
        [{"text": "x" * size} for size in (10, 5_000, 3, 700, 0)],
        schema,
    )
    jsonl_zst.pack(tmp_path / "shard.parquet", tmp_path / "shard.jsonl.zst")
    monkeypatch.setattr(jsonl_zst, "BLOCK", 256)
    batches = list(jsonl_zst.read_batches(tmp_path / "shard.jsonl.zst", schema))
    assert (
        len(batches) > 2
        and [row for batch in batches for row in batch.to_pylist()] == packed_rows.to_pylist()
    )


def test_nan_and_infinity_become_null_in_json(tmp_path: Path) -> None:
    schema = pa.schema([("real", pa.float64())])
    write_parquet_shard(
        tmp_path / "shard.parquet",
        [{"real": float("nan")}, {"real": float("inf")}, {"real": 0.5}],
        schema,
    )
    jsonl_zst.pack(tmp_path / "shard.parquet", tmp_path / "shard.jsonl.zst")
    assert (
        pa.input_stream(str(tmp_path / "shard.jsonl.zst"), compression="zstd").read()
        == b'{"real":null}\n{"real":null}\n{"real":0.5}\n'
    )


def test_mds_file_has_the_documented_layout(tmp_path: Path) -> None:
    """As MDSWriter of mosaicml-streaming 0.13 writes and StreamingDataset reads it: offsets,
    header, sizes before the values."""
    schema = pa.schema(
        [("text", pa.large_string()), ("n", pa.int32()), ("user_id", pa.large_string())]
    )
    write_parquet_shard(
        tmp_path / "shard.parquet",
        [{"text": "é", "n": 7, "user_id": None}, {"text": "ab", "n": -1, "user_id": "x"}],
        schema,
    )
    mds.pack(tmp_path / "shard.parquet", tmp_path / "shard.mds")
    raw = (tmp_path / "shard.mds").read_bytes()
    count, *offsets = struct.unpack_from("<4I", raw)
    header = json.loads(raw[16 : offsets[0]])
    assert (count, offsets[-1]) == (2, len(raw))
    assert header["column_names"] == ["n", "text", "user_id"] and header["column_sizes"] == [
        4,
        None,
        None,
    ]
    assert header["column_encodings"] == ["int32", "str", "json"] and (
        header["format"],
        header["version"],
    ) == ("mds", 2)
    sample = struct.pack("<2I", 2, 4) + np.int32(7).tobytes() + "é".encode() + b"null"
    assert raw[offsets[0] : offsets[1]] == sample
    index = json.loads(
        mds.sidecar_files([("train.mds", tmp_path / "shard.mds")])["data/index.json"]
    )
    (index_entry,) = index["shards"]
    assert index["version"] == 2 and index_entry["raw_data"] == {
        "basename": "train.mds",
        "bytes": len(raw),
        "hashes": {},
    }
    assert (
        index_entry["samples"] == 2
        and index_entry["zip_data"] is None
        and {name: index_entry[name] for name in header} == header
    )


def test_a_shard_too_large_for_mds_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_parquet_shard(
        tmp_path / "shard.parquet",
        [{"text": "x" * 5_000}],
        pa.schema([("text", pa.large_string())]),
    )
    monkeypatch.setattr(mds, "_MAX_OFFSET", 5_000)
    with pytest.raises(UsageError, match="--rows-per-shard"):
        mds.pack(tmp_path / "shard.parquet", tmp_path / "shard.mds")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shard.parquet"]


@pytest.mark.parametrize("format_module", FORMAT_MODULES, ids=lambda module: module.NAME)
def test_a_damaged_shard_is_reported_without_its_text(format_module: Any, tmp_path: Path) -> None:
    schema = pa.schema([("text", pa.large_string())])
    write_parquet_shard(
        tmp_path / "shard.parquet", [{"text": f"canary {no}"} for no in range(100)], schema
    )
    out = tmp_path / f"shard{format_module.SUFFIX}"
    format_module.pack(tmp_path / "shard.parquet", out)
    valid_bytes = out.read_bytes()
    for raw in (
        valid_bytes[: len(valid_bytes) // 2],
        valid_bytes[:-1],
        b"",
        b"\x28\xb5\x2f\xfd",
        valid_bytes[:40] + b"\xff\xff" + valid_bytes[42:],
    ):
        out.write_bytes(raw)
        with pytest.raises(OutputBroken) as error:
            rows = [
                row
                for batch in format_module.read_batches(out, schema)
                for row in batch.to_pylist()
            ]
            assert rows != [{"text": f"canary {no}"} for no in range(100)]
            raise OutputBroken("")  # other rows: the check counts and compares them
        assert "canary" not in str(error.value)


def test_unsupported_columns_and_formats_are_refused_by_name() -> None:
    with pytest.raises(UsageError, match="column raw contains bytes.*--drop raw"):
        formats.check_schema(
            "mds",
            pa.schema([("text", pa.large_string()), ("raw", pa.large_list(pa.large_binary()))]),
        )
    formats.check_schema("parquet", pa.schema([("raw", pa.large_binary())]))
    with pytest.raises(
        UsageError,
        match=r"--format jsonl: did you mean jsonl\.zst\? Known: jsonl\.zst, mds, parquet\.",
    ):
        Settings(format="jsonl")


# ---- whole runs ----


def write_mails(path: Path) -> Path:
    rows = 60
    table = {
        "text": [
            f'mail {no} to ann{no % 9}@example.com\ncall 212-555-01{no:02d} \u2028 é "q"'
            for no in range(rows)
        ],
        "subject": [None if no % 5 == 0 else f"Re: bob{no}@example.com" for no in range(rows)],
        "user_id": [f"u{no % 4}" for no in range(rows)],
        "when": [datetime.datetime(2020, 1, 1) + datetime.timedelta(days=no) for no in range(rows)],
    }
    pq.write_table(pa.table(table), path)
    return path


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same corpus in each format, from one WORK."""
    folder = tmp_path_factory.mktemp("made")
    write_mails(folder / "in.parquet")
    for name in formats.list_formats():
        run_with_settings(
            folder / "in.parquet",
            folder / name,
            "rmft",
            folder / "work",
            Settings(seed=1, workers=1, rows_per_shard=25, format=name),
        )
    return folder


@pytest.mark.parametrize("name", ["jsonl.zst", "mds"])
def test_a_corpus_is_the_same_in_each_format(name: str, corpora: Path) -> None:
    parquet_corpus, packed_corpus = Corpus.open(corpora / "parquet"), Corpus.open(corpora / name)
    packed_corpus.check()
    assert [shard.path.name for shard in packed_corpus.shards] == [
        f"train-{no:05d}-of-00003.{name}" for no in range(3)
    ]
    parquet_table, packed_table = parquet_corpus.table(), packed_corpus.table()
    for column in parquet_table.column_names:
        texts = (
            parquet_table.column(column)
            .cast(formats.packed_type(parquet_table.column(column).type))
            .to_pylist()
        )
        assert packed_table.column(column).to_pylist() == texts
    assert (
        packed_corpus.manifest["settings"]["format"] == name
        and "format" not in parquet_corpus.manifest["settings"]
    )
    assert packed_corpus.manifest["run_hash"] == parquet_corpus.manifest["run_hash"]
    assert (
        read_documents(corpora / name).table.column("text").to_pylist()
        == parquet_table.column("text").to_pylist()
    )
    card = (corpora / name / "README.md").read_text()
    assert ("configs:" in card) == (name != "mds") and ("StreamingDataset" in card) == (
        name == "mds"
    )


@pytest.mark.parametrize("name", ["parquet", "jsonl.zst", "mds"])
def test_an_unknown_column_of_a_corpus_is_refused_in_words(name: str, corpora: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no column txet; did you mean text\? Known: "):
        Corpus.open(corpora / name).table(["doc_id", "txet"])
    assert Corpus.open(corpora / name).table(["doc_id"]).column_names == ["doc_id"]


def test_datasets_loads_the_json_lines_corpus(corpora: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    dataset = datasets.load_dataset(
        str(corpora / "jsonl.zst"), split="train", cache_dir=str(tmp_path)
    )
    assert dataset["text"][:] == Corpus.open(corpora / "parquet").table().column("text").to_pylist()


@pytest.mark.parametrize("name", ["jsonl.zst", "mds"])
def test_the_leak_check_reads_packed_shards(name: str, corpora: Path, tmp_path: Path) -> None:
    """Both leak checks find a value inserted into a packed shard (with a matching manifest), in the
    texts and in another column."""
    for column in ("text", "when"):
        out, work = tmp_path / column, corpora / "work"
        for source in (corpora / name).rglob("*"):
            if source.is_file():
                target = out / source.relative_to(corpora / name)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(source.read_bytes())
        corpus = Corpus.open(out)
        path = corpus.shards[1].path
        rows = corpus.shards[1].read().to_pylist()
        rows[3][column] = (
            f"{rows[3][column]} ann0@example.com"  # its first occurrence is in shard 0
        )
        schema = pa.schema(
            [
                (field_name, pa.large_string())
                for field_name in ("doc_id", "user_id", "text", "subject", "when")
            ]
        )
        write_parquet_shard(tmp_path / "new.parquet", rows, schema)
        formats.get_format(name).pack(tmp_path / "new.parquet", path)
        manifest = json.loads((out / "manifest.json").read_text())
        manifest["shards"][1]["sha256"] = file_sha256(path)
        (out / "manifest.json").write_text(json.dumps(manifest))
        for mode in ("fast", "full"):
            with pytest.raises(LeakFound):
                verify(out, work=work, mode=mode, workers=1)
    for mode in ("fast", "full"):
        assert verify(corpora / name, work=corpora / "work", mode=mode, workers=1).leaks == 0


def test_the_mds_index_file_is_checked(corpora: Path, tmp_path: Path) -> None:
    index = corpora / "mds" / "data" / "index.json"
    before = index.read_text()
    try:
        index.write_text(before.replace("mds", "MDS"))
        with pytest.raises(OutputBroken, match=r"index\.json"):
            Corpus.open(corpora / "mds").check()
    finally:
        index.write_text(before)


def test_sidecar_files_of_manifest_format_1_are_read(corpora: Path) -> None:
    """In format 1 the key was `beside`; a corpus with it is still opened, checked and read."""
    path = corpora / "mds" / "manifest.json"
    before = path.read_text()
    manifest = json.loads(before)
    manifest |= {"format": 1, "beside": manifest.pop("sidecar_files")}
    try:
        path.write_text(json.dumps(manifest))
        corpus = Corpus.open(corpora / "mds")
        corpus.check()
        assert corpus.sidecar_files.keys() == {"data/index.json"} and corpus.table().num_rows > 0
    finally:
        path.write_text(before)


def test_another_format_needs_replace_and_is_otherwise_unchanged(corpora: Path) -> None:
    mds_settings = Settings(seed=1, workers=1, rows_per_shard=25, format="mds")
    with pytest.raises(UsageError, match=r"another format.*--replace"):
        run_with_settings(
            corpora / "in.parquet", corpora / "jsonl.zst", "rmft", corpora / "work", mds_settings
        )
    assert not run_with_settings(
        corpora / "in.parquet", corpora / "mds", "rmft", corpora / "work", mds_settings
    ).changed


def test_a_replay_gives_the_same_json_lines(corpora: Path, tmp_path: Path) -> None:
    result = replay(
        corpora / "jsonl.zst",
        corpora / "in.parquet",
        tmp_path / "again",
        work=tmp_path / "work",
        workers=1,
    )
    assert result.same and [path.name for path in sorted((tmp_path / "again" / "data").iterdir())][
        0
    ].endswith(".jsonl.zst")


def test_a_binary_column_is_refused_before_the_run_reads(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"text": ["x"], "raw": pa.array([b"x"], pa.binary())}), tmp_path / "in.parquet"
    )

    with pytest.raises(UsageError, match="column raw contains bytes"):
        run_with_settings(
            tmp_path / "in.parquet",
            tmp_path / "out",
            "rmft",
            tmp_path / "work",
            Settings(seed=1, workers=1, format="jsonl.zst", keep=["raw"]),
        )
