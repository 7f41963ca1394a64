"""The values that models gave away, as a private list: what a report counts, for the one person who must act on it.

Masked as everywhere (`j***@e***.com`, else the shape of a value), unless they are asked for. A table of `suite`, `run`, `step`, `metric`,
`how` (the kind of prompt), `kind`, `value` and `occurrences` (in the original data), in that order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from sanitize.errors import UsageError
from sanitize.storage.corpus import fsync
from sanitize.storage.vault import umask
from sanitize.storage.views import masked

COLUMNS: Mapping[str, Any] = {
    "suite": pl.String, "run": pl.String, "step": pl.Int64, "metric": pl.String, "how": pl.String, "kind": pl.String, "value": pl.String,
    "occurrences": pl.Int64,
}  # fmt: skip


def place(file: Path, out: Path) -> Path:
    """Where the list goes; UsageError for another ending than .csv and .parquet, and inside the report's folder, which people hand on."""
    if file.suffix not in (".csv", ".parquet"):
        raise UsageError(f"--leaked {file}: expected a file that ends in .csv or .parquet")
    if file.resolve().is_relative_to(out.resolve()):
        raise UsageError(f"--leaked {file}: lies inside {out}, which holds numbers only and may be handed on; take a private place")
    return file


def write(leaks: Sequence[Mapping[str, Any]], file: Path, *, reveal: bool = False) -> int:
    """Write the list, which its owner alone can read (mode 0600), and give how many rows it has. `reveal`: values as they are."""
    table = pl.DataFrame(list(leaks), schema=dict(COLUMNS), orient="row").sort("suite", "run", "step", "metric", "how", "kind", "value")
    if not reveal:
        table = table.with_columns(value=masked(table["value"], table["kind"]))
    with umask(0o077):
        file.parent.mkdir(parents=True, exist_ok=True)
        aside = file.with_name(f".{file.name}.tmp")
        aside.unlink(missing_ok=True)
        try:
            table.write_parquet(aside) if file.suffix == ".parquet" else table.write_csv(aside)
            fsync(aside)
            aside.rename(file)
        finally:
            aside.unlink(missing_ok=True)
    return table.height
