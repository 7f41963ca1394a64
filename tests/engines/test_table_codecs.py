"""The tables that an engine reads have a codec that every engine reads: Spark refuses some LZ4
pages that Polars and DuckDB write."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import sanitize
from sanitize.engines.local import LocalEngine

PLAN = """
about = "every stage that writes tables"
[find]
kinds = ["default", "PERSON"]
finders = ["patterns", "names", "known"]
[[drop]]
use = "exact_dup"
[[drop]]
use = "near_dup"
[[edit]]
use = "header_dedup"
[[edit]]
use = "rmft"
kinds = ["contact", "IP_ADDRESS", "PERSON"]
[[edit]]
use = "redact"
kinds = ["*"]
"""
MAIL = (
    "From: Ann Roe <ann.roe@example.com>\nTo: bob.mann@example.com\nSubject: Hi\n\nCall Bob Mann,"
    " 713-555-0123, ann%2Eroe%40example.com\n"
)


def list_codecs(path: Path) -> set[str]:
    metadata = pq.read_metadata(path)
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    return {
        group.column(number).compression
        for group in groups
        for number in range(metadata.num_columns)
    }


def test_no_table_that_an_engine_reads_or_that_stays_is_lz4(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: dict[str, set[str]] = {}
    open_session = LocalEngine._open_session

    def check_tables(self: LocalEngine, tables: Mapping[str, Sequence[Path]]) -> Any:
        for name, paths in tables.items():
            read.setdefault(name, set()).update(*map(list_codecs, paths))
        return open_session(self, tables)

    monkeypatch.setattr(LocalEngine, "_open_session", check_tables)
    rows = [
        {"text": MAIL},
        {"text": MAIL},
        {"text": MAIL + "more"},
        {"text": "bob.mann@example.com"},
    ]
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "known.csv").write_text("kind,value\nPERSON,Ann Roe\n")
    (tmp_path / "plan.toml").write_text(PLAN)
    sanitize.run(
        [source],
        tmp_path / "out",
        plan=tmp_path / "plan.toml",
        seed=1,
        workers=1,
        known=tmp_path / "known.csv",
    )
    assert {"occurrences", "value_counts", "shard_outcomes"} <= read.keys()
    assert {
        name: codecs
        for name, codecs in read.items()
        if any(codec.startswith("LZ4") for codec in codecs)
    } == {}
    tables = list(tmp_path.rglob("*.parquet"))
    assert len(tables) > 5 and not any(
        codec.startswith("LZ4") for path in tables for codec in list_codecs(path)
    )
