"""Arguments of file readers. A path is a name: no reader may treat `[`, `*` or `?` in it as a
pattern, or read columns from the names of folders. Memory must not grow with a file: `pre_buffer`
would hold all requested row groups, packed, until the last is read."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# the argument that each reader needs; readers without such an argument get bytes or an open file
# instead of a path
REQUIRED_ARGUMENTS = {
    "pl.read_parquet": "glob",
    "pl.scan_parquet": "glob",
    "pl.read_csv": "glob",
    "pl.scan_csv": "glob",
    "pq.read_table": "partitioning",
    "pq.ParquetFile": "pre_buffer",
}
OPEN_FILE_READERS = ("pl.scan_ndjson", "pl.read_parquet_schema", "pl.read_ipc")
FILES = sorted(
    path for package in ("sanitize", "eval", "train") for path in (ROOT / package).rglob("*.py")
)


def find_unsafe_calls(source: str) -> list[str]:
    """The calls in a source that may treat a path as a pattern, or hold more of a file in memory
    than needed."""
    unsafe = []
    for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
        name = ast.unparse(call.func)
        arguments = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        required = REQUIRED_ARGUMENTS.get(name)
        if required and arguments.get(required) not in ("False", "None"):
            unsafe.append(
                f"line {call.lineno}: {name} without"
                f" {required}={'None' if required == 'partitioning' else 'False'}"
            )
        is_opened = (
            call.args
            and isinstance(call.args[0], ast.Call)
            and ast.unparse(call.args[0].func).endswith(("read_bytes", ".read", "open"))
        )
        if name in OPEN_FILE_READERS and not is_opened:
            unsafe.append(f"line {call.lineno}: {name} of a path")
        # it gets bytes, whose brackets are not nested so deeply that it would end the process
        if name == "pl.read_ndjson" and not ast.unparse(call.args[0]).startswith(
            "require_shallow_lines("
        ):
            unsafe.append(f"line {call.lineno}: {name} without require_shallow_lines")
    return unsafe


@pytest.mark.slow
def test_every_reader_call_has_its_argument() -> None:
    assert {
        path.relative_to(ROOT).as_posix(): unsafe
        for path in FILES
        if (unsafe := find_unsafe_calls(path.read_text("utf-8")))
    } == {}


@pytest.mark.parametrize(
    "source",
    [
        "pl.read_parquet(path)",
        "pl.read_parquet(path, glob=True)",
        "pl.read_csv(path, columns=['a'])",
        "pq.read_table(path, columns=['a'])",
        "pl.read_ndjson(path)",
        "pl.read_ndjson(path.read_bytes())",
        "pl.read_parquet_schema(path)",
        "pq.ParquetFile(path, memory_map=True)",
    ],
)
def test_unsafe_calls_are_found(source: str) -> None:
    assert len(find_unsafe_calls(source)) == 1
