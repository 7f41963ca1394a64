"""Writes the leaked values behind the counts of a report as a private list, for the person who must
act on them.

Values are masked (`j***@e***.com`, else the shape of a value) unless the caller asks for them as
they are. Columns: `suite`, `run`, `step`, `metric`, `how` (the kind of prompt), `kind`, `value` and
`occurrences` (in the original data), in that order. In a CSV file, a `'` is before what a
spreadsheet would execute as a formula; a Parquet file has each value as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from sanitize.core.table_rendering import escape_formula
from sanitize.errors import UsageError
from sanitize.storage.files import fsync
from sanitize.storage.private_folder import set_umask
from sanitize.storage.views.masks import mask_texts

LEAK_COLUMNS: Mapping[str, Any] = {
    "suite": pl.String,
    "run": pl.String,
    "step": pl.Int64,
    "metric": pl.String,
    "how": pl.String,
    "kind": pl.String,
    "value": pl.String,
    "occurrences": pl.Int64,
}


def check_leak_path(file: Path, report_folder: Path) -> Path:
    """Return the path of the list; UsageError if it does not end in .csv or .parquet, or is inside
    the report's folder, which is shared."""
    if file.suffix not in (".csv", ".parquet"):
        raise UsageError(f"--leaked {file}: expected a file that ends in .csv or .parquet")
    if file.is_dir():
        raise UsageError(f"--leaked {file}: is a folder; expected a file")
    if file.resolve().is_relative_to(report_folder.resolve()):
        raise UsageError(
            f"--leaked {file}: is inside {report_folder}, which holds numbers only and may be"
            " shared; choose a private folder"
        )
    return file


def write_leak_list(leaks: Sequence[Mapping[str, Any]], file: Path, *, reveal: bool = False) -> int:
    """Write the list, readable by its owner only (mode 0600), and return its number of rows.
    `reveal`: do not mask the values."""
    table = pl.DataFrame(list(leaks), schema=dict(LEAK_COLUMNS), orient="row").sort(
        "suite", "run", "step", "metric", "how", "kind", "value"
    )
    if not reveal:
        table = table.with_columns(value=mask_texts(table["value"], table["kind"]))
    with set_umask(0o077):
        file.parent.mkdir(parents=True, exist_ok=True)
        temp_path = file.with_name(f".{file.name}.tmp")
        temp_path.unlink(missing_ok=True)
        try:
            (
                table.write_parquet(temp_path)
                if file.suffix == ".parquet"
                else table.with_columns(
                    pl.col(pl.String).map_elements(escape_formula, return_dtype=pl.String)
                ).write_csv(temp_path)
            )
            fsync(temp_path)
            temp_path.rename(file)
        finally:
            temp_path.unlink(missing_ok=True)
    return table.height
