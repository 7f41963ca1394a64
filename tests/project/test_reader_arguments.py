"""What readers of files are told. A path is a name: none takes one with `[`, `*` or `?` in it for a pattern, or finds columns in the names
of its folders. And memory does not grow with a file: `pre_buffer` would hold all row groups that are asked for, packed, until the last."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# what has to be said to each of them; what cannot be told takes bytes or an open file instead of a path
SAID = {
    "pl.read_parquet": "glob",
    "pl.scan_parquet": "glob",
    "pl.read_csv": "glob",
    "pl.scan_csv": "glob",
    "pq.read_table": "partitioning",
    "pq.ParquetFile": "pre_buffer",
}
OPENED = ("pl.read_ndjson", "pl.scan_ndjson", "pl.read_parquet_schema", "pl.read_ipc")
FILES = sorted(path for package in ("sanitize", "eval", "train") for path in (ROOT / package).rglob("*.py"))


def not_told(source: str) -> list[str]:
    """The calls in a source that may take a path for more than a name, or a file for less than it is."""
    found = []
    for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
        name = ast.unparse(call.func)
        told = {one.arg: ast.unparse(one.value) for one in call.keywords}
        wanted = SAID.get(name)
        if wanted and told.get(wanted) not in ("False", "None"):
            found.append(f"line {call.lineno}: {name} without {wanted}={'None' if wanted == 'partitioning' else 'False'}")
        opened = call.args and isinstance(call.args[0], ast.Call) and ast.unparse(call.args[0].func).endswith(("read_bytes", "open"))
        if name in OPENED and not opened:
            found.append(f"line {call.lineno}: {name} of a path")
    return found


def test_every_reader_is_given_its_argument() -> None:
    assert {path.relative_to(ROOT).as_posix(): found for path in FILES if (found := not_told(path.read_text("utf-8")))} == {}


@pytest.mark.parametrize(
    "source",
    [
        "pl.read_parquet(path)",
        "pl.read_parquet(path, glob=True)",
        "pl.read_csv(path, columns=['a'])",
        "pq.read_table(path, columns=['a'])",
        "pl.read_ndjson(path)",
        "pl.read_parquet_schema(path)",
        "pq.ParquetFile(path, memory_map=True)",
    ],
)
def test_what_this_finds(source: str) -> None:
    assert len(not_told(source)) == 1
