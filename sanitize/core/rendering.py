"""How a result is shown: a table for people, CSV for spreadsheets, JSON for programs, Parquet bytes; and text that cannot play tricks."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import shutil
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sanitize.errors import UsageError, nearest

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = ("table", "csv", "json", "parquet")
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """A text with white space as blanks and every other control character spelled out, such as U+202E."""
    return _UNSEEN.sub(lambda match: " " if match[0] in "\t\n\r" else f"U+{ord(match[0]):04X}", text)


def render(table: pa.Table, format: str = "table", *, width: int | None = None, most: int = 1000) -> str | bytes:
    """A result for people (`table`: its first `most` rows), spreadsheets (`csv`), programs (`json`: an array of row objects), or as
    Parquet bytes (`parquet`)."""
    if format not in FORMATS:
        raise UsageError(f"--format {format}; {nearest(format, FORMATS)}")
    if format == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        sink = pa.BufferOutputStream()
        pq.write_table(table.replace_schema_metadata(None), sink, use_dictionary=False, write_statistics=False, store_schema=False)
        return bytes(sink.getvalue().to_pybytes())
    if format == "json":
        rows = [dict(zip(table.column_names, row, strict=True)) for row in _rows(table)]
        return json.dumps(rows, default=_spoken, allow_nan=False) + "\n"
    if format == "csv":
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([_guarded(name) for name in table.column_names])
        writer.writerows([_guarded(_cell(value)) if not isinstance(value, int | float) else value for value in row] for row in _rows(table))
        return out.getvalue()
    return _drawn(table, width, most)


def _drawn(table: pa.Table, width: int | None, most: int) -> str:
    import pyarrow as pa
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for field in table.schema:
        number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)
        drawn.add_column(Text(visible(field.name)), justify="right" if number else "left", overflow="fold")
    for row in _rows(table.slice(0, most)):
        drawn.add_row(*(Text("" if value is None else visible(_cell(value))) for value in row))
    out = io.StringIO()
    console = Console(file=out, width=width or shutil.get_terminal_size((120, 24)).columns, color_system=None, highlight=False)
    console.print(drawn)
    more = ""
    if table.num_rows > most:
        more = f"more than these {most:,} rows; --format csv shows them all\n"
    elif not table.num_rows:
        more = "no rows\n"
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n" + more


def _rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Rows as JSON knows them: a NaN is a null, a whole decimal an integer. By position, so that two columns of one name do no harm."""
    columns = [column.to_pylist() for column in table.columns]
    for row in zip(*columns, strict=True):
        yield tuple(_known(value) for value in row)


def _known(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)  # DuckDB's sums are of 128 bits, which Arrow knows as decimals
    return value


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list | dict):
        return json.dumps(value, default=_spoken, ensure_ascii=False)
    return str(_spoken(value))


def _spoken(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _guarded(text: str) -> str:
    return "'" + text if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text  # a spreadsheet would run it as a formula
