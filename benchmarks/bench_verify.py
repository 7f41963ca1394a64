"""Measures the leak check (fast, full in rows, full in rows and files): MB of text per CPU-second,
and peak memory, by number of values.

    python -m benchmarks.bench_verify --values 1000000 10000000 --mb 200 --memory-limit 250MB 1GB

A corpus of invented mail is sanitized once; then a vault of N invented values is written beside it,
with a hundred leaks in the shards, and both checks search for all of them with one worker, as a run
does: with search terms prepared in parts that fit the limit. Memory is the largest of any process.
"""

from __future__ import annotations

import base64
import itertools
import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import runner
from sanitize.cli.generated_mails import generate_mails
from sanitize.core.text_cells import LeafPath
from sanitize.engines.local import LocalEngine
from sanitize.engines.memory_limits import parse_memory_limit
from sanitize.kinds.kind import list_kinds
from sanitize.storage import table_schemas
from sanitize.storage.corpus import DocumentFile, Documents
from sanitize.storage.parquet_files import open_table_writer, open_text_writer
from sanitize.verification.published.file_check import check_files
from sanitize.verification.search_terms import write_terms
from sanitize.verification.shard_check import verify_task
from sanitize.verification.shard_reading import VerifyTask

_FILE = 50_000  # values of one file of the vault
_LEAKS = 100


def address(number: int) -> str:
    """One invented address."""
    return f"person{number}.of{number % 997}@house{number % 10_007}.example.com"


def write_vault(folder: Path, values: int, identity: str = "") -> None:
    """Write a vault of invented addresses, as `find` would; if `identity` is set, it is the prefix
    of each normalised value."""
    folder.mkdir(parents=True)
    schema = table_schemas.VALUE_SPELLINGS.schema
    for first in range(0, values, _FILE):
        numbers = range(first, min(first + _FILE, values))
        texts = [address(number) for number in numbers]
        normalised = [identity + text for text in texts] if identity else [None] * len(texts)
        ids = [number * 7 + 1 for number in numbers]
        kinds = pa.array(["EMAIL_ADDRESS"] * len(texts)).dictionary_encode()
        columns = zip((ids, kinds, texts, normalised), schema, strict=True)
        arrays = [pa.array(column).cast(field.type) for column, field in columns]
        with open_table_writer(folder / f"{first:010d}.parquet", schema) as out:
            out.write_table(pa.table(arrays, schema=schema))


def write_shard(path: Path, mb: int, values: int, identity: str = "") -> int:
    """One shard of invented mail with a hundred leaks in it, a third of them in base64; returns its
    bytes of text."""
    size, seed, schema = 0, 0, pa.schema([("text", pa.large_string())])
    with open_text_writer(path, schema) as out:
        while size < mb * 1e6:
            texts = generate_mails(5_000, seed)["text"].to_pylist()
            for number in range(_LEAKS if seed == 0 else 0):
                leak = identity + address(number * values // _LEAKS)
                coded = base64.b64encode(leak.encode()).decode()
                texts[number * 3] += f" {coded if number % 3 == 0 else leak} "
            out.write_table(pa.table([texts], schema=schema), row_group_size=5_000)
            size += sum(len(text.encode()) for text in texts)
            seed += 1
    return size


def run_check(root: Path, mode: str, limit: str) -> dict[str, Any]:
    """Run one check; called in a separate process."""
    paths = sorted((root / "vault").iterdir())
    rows = pq.read_metadata(root / "shard.parquet").num_rows
    schema = pa.schema([("text", pa.large_string())])
    for name, columns in _TABLES.items():
        pq.write_table(columns.empty_table(), root / f"{name}.parquet")
    pq.write_table(pa.table({"doc_no": pa.array(range(rows), pa.int64())}), root / "rows.parquet")
    source = DocumentFile(
        path=str(root / "shard.parquet"), rows=rows, first_doc_no=0, columns={"text": "text"}
    )
    task = VerifyTask(
        shard_no=0,
        first_doc_no=0,
        end_doc_no=rows,
        shard_path=root / "shard.parquet",
        terms=(root / "terms",),
        check_mode="fast" if mode == "fast" else "full",
        values=paths[0],
        kept_originals=root / "kept.parquet",
        edits=root / "edits.parquet",
        occurrences=root / "occurrences.parquet",
        atomic_kinds=(),
        row_doc_nos=root / "rows.parquet",
        documents=Documents(files=(source,), schema=schema, main_leaf=LeafPath("text")),
        leaves=(LeafPath("text"),),
        sweep_path=root / "sweep.parquet",
    )
    list_kinds()

    def write_own_terms() -> None:
        memory = parse_memory_limit(limit)
        write_terms(paths, ["EMAIL_ADDRESS"], root / "terms", memory, check_mode=task.check_mode)

    def check() -> int:
        result = verify_task(task)
        if mode == "full":
            check_files(
                LocalEngine(workers=1, spill=root),
                [(task, "shard.parquet")],
                [],
                task.terms,
                checked_bytes=[result.plain_bytes],
            )
        return result.swept

    writing, _ = runner.measure_call(write_own_terms)
    checking, found = runner.measure_call(check)
    return {
        "cpu_s": round(writing.cpu_s + checking.cpu_s, 2),
        "wall_s": round(writing.wall_s + checking.wall_s, 2),
        "forms_cpu_s": round(writing.cpu_s, 2),
        "found": found,
        "passes": len(list((root / "terms").glob("pass-*"))),
        "memory_limit": limit,
        "peak_rss_mb": round(checking.peak_rss_mb, 1),
    }


_TABLES = {
    "kept": pa.schema(
        [
            ("doc_no", pa.int64()),
            ("cell", pa.int32()),
            ("start_byte", pa.int64()),
            ("end_byte", pa.int64()),
            ("value_id", pa.int64()),
        ]
    ),
    "edits": table_schemas.EDITS.schema,
    "occurrences": table_schemas.OCCURRENCES.schema,
}


def measure_check(
    folder: Path, values: int, mb: int, mode: str = "full", limit: str = "1GB"
) -> dict[str, Any]:
    """One measurement: the result of `run_check`, with the rate per pass."""
    identity = "id." if mode == "rows" else ""
    write_vault(folder / "vault", values, identity)
    text_bytes = write_shard(folder / "shard.parquet", mb, values, identity)
    result = runner.run_in_subprocess(run_check, folder, mode, limit)
    check_cpu_s = max(result["cpu_s"] - result["forms_cpu_s"], 1e-9)
    # the fast check searches the text as it is, without base64
    planted = _LEAKS - -(-_LEAKS // 3) if mode == "fast" else _LEAKS
    return {
        "mode": mode,
        "values": values,
        "text_mb": round(text_bytes / 1e6, 1),
        "planted": planted,
        **result,
        "mb_per_cpu_s": round(text_bytes / 1e6 / check_cpu_s, 1),
        "mb_per_cpu_s_and_pass": round(text_bytes / 1e6 * result["passes"] / check_cpu_s, 1),
    }


def main() -> None:
    parser = runner.build_parser(__doc__, mb=50)
    parser.add_argument(
        "--values",
        type=int,
        nargs="+",
        default=[100_000, 1_000_000],
        help="numbers of removed values",
    )
    parser.add_argument(
        "--memory-limit", nargs="+", default=["1GB"], help="memory of the search terms"
    )
    options = parser.parse_args()
    result = runner.start_result(rows=[])
    for values, limit, mode in itertools.product(
        options.values, options.memory_limit, ("fast", "rows", "full")
    ):
        with tempfile.TemporaryDirectory() as folder:
            row = measure_check(Path(folder), values, options.mb, mode, limit)
        print(json.dumps(row), flush=True)
        assert row["found"] == row["planted"], "a planted leak was not found"
        result["rows"].append(row)
    runner.save_result(options.results, "verify", result)


if __name__ == "__main__":
    main()
