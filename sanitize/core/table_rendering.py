"""Renders tables: a result as text, CSV, JSON or Parquet bytes; a summary (title, facts, small
table) as text and notebook HTML.

Control characters, HTML and spreadsheet formulas are escaped.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from html import escape
from typing import TYPE_CHECKING, Any

from sanitize.errors import UsageError, suggest_names

if TYPE_CHECKING:
    import pyarrow as pa

TABLE_FORMATS = ("table", "csv", "json", "parquet")
_MAX_ROWS = 40  # rows of a summary table that are displayed
_CONTROL_CHARACTERS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)


def escape_controls(text: str) -> str:
    """The text with tabs and line breaks as spaces and every other control character as its code
    point, such as U+202E."""
    return _CONTROL_CHARACTERS.sub(
        lambda match: " " if match[0] in "\t\n\r" else f"U+{ord(match[0]):04X}", text
    )


def render_table(
    table: pa.Table, format: str = "table", *, width: int | None = None, max_rows: int = 1000
) -> str | bytes:
    """A table as text for people (`table`: its first `max_rows` rows), `csv`, `json` (an array of
    row objects) or bytes (`parquet`).

    `width` is the width of the text table in columns (default: the terminal). Raises UsageError for
    an unknown format, and for what the format cannot hold.
    """
    if format not in TABLE_FORMATS:
        raise UsageError(f"--format {format}: {suggest_names(format, TABLE_FORMATS)}")
    if format == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        require_plain_types(table)
        sink = pa.BufferOutputStream()
        pq.write_table(
            table.replace_schema_metadata(None),
            sink,
            use_dictionary=False,
            write_statistics=False,
            store_schema=False,
        )
        return bytes(sink.getvalue().to_pybytes())
    if format == "json":
        require_distinct_names(table)
        rows = [dict(zip(table.column_names, row, strict=True)) for row in _iter_rows(table)]
        return json.dumps(rows, default=_to_text, allow_nan=False) + "\n"
    if format == "csv":
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([escape_formula(name) for name in table.column_names])
        writer.writerows(
            [
                escape_formula(_cell_text(value)) if not isinstance(value, int | float) else value
                for value in row
            ]
            for row in _iter_rows(table)
        )
        return out.getvalue()
    return _draw_table(table, width, max_rows)


def require_distinct_names(table: pa.Table) -> None:
    """Raise UsageError if two columns have one name: an object of JSON or a frame would lose one of
    them."""
    for name in table.column_names:
        if table.column_names.count(name) > 1:
            raise UsageError(
                f"two columns of the result are called {escape_controls(name)[:60]!r}; give each a"
                " name of its own (AS)"
            )


def require_plain_types(table: pa.Table) -> None:
    """Raise UsageError for a column of intervals or unions, which neither Parquet nor Polars
    has."""
    for field in table.schema:
        if _has_type_of_sql(field.type):
            raise UsageError(
                f"column {escape_controls(field.name)[:60]!r} has an interval or a union; CAST it"
                " to VARCHAR"
            )


def _has_type_of_sql(kind: pa.DataType) -> bool:
    import pyarrow as pa

    children = [kind.field(number).type for number in range(kind.num_fields)]
    return (
        pa.types.is_interval(kind)
        or pa.types.is_union(kind)
        or any(map(_has_type_of_sql, children))
    )


def _draw_table(table: pa.Table, width: int | None, max_rows: int) -> str:
    import pyarrow as pa
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for field in table.schema:
        number = (
            pa.types.is_integer(field.type)
            or pa.types.is_floating(field.type)
            or pa.types.is_decimal(field.type)
        )
        drawn.add_column(
            Text(escape_controls(field.name)),
            justify="right" if number else "left",
            overflow="fold",
        )
    for row in _iter_rows(table.slice(0, max_rows)):
        drawn.add_row(
            *(Text("" if value is None else escape_controls(_cell_text(value))) for value in row)
        )
    out = io.StringIO()
    console = Console(
        file=out,
        width=width or shutil.get_terminal_size((120, 24)).columns,
        color_system=None,
        highlight=False,
    )
    console.print(drawn)
    more = ""
    if table.num_rows > max_rows:
        more = f"only the first {max_rows:,} rows are shown; --format csv writes all of them\n"
    elif not table.num_rows:
        more = "no rows\n"
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n" + more


def _iter_rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Yields rows with JSON types: a NaN becomes null, a whole decimal an integer. Rows are tuples,
    since two columns may have one name."""
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            columns.append(column.to_pylist())
        except (OverflowError, ValueError):
            raise UsageError(
                f"column {escape_controls(name)[:60]!r} has a date outside of the years 1 to 9999;"
                " CAST it to VARCHAR"
            ) from None
    for row in zip(*columns, strict=True):
        yield tuple(_to_json_value(value) for value in row)


def _to_json_value(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)  # sums in DuckDB have 128 bits and arrive in Arrow as decimals
    return value


def _cell_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list | dict):
        return json.dumps(value, default=_to_text, ensure_ascii=False)
    return str(_to_text(value))


def _to_text(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def escape_formula(text: str) -> str:
    """The text with a `'` before it if a spreadsheet would execute it as a formula."""
    return "'" + text if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


@dataclass(frozen=True, kw_only=True)
class SummaryTable:
    """A title, facts as (name, text), and a table of counts with a header."""

    title: str
    facts: Sequence[tuple[str, str]] = ()
    header: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()

    def to_text(self) -> str:
        """The table as aligned plain text lines, for a prompt."""
        name_width = max((len(name) for name, _ in self.facts), default=0)
        lines = [
            escape_controls(self.title),
            *(escape_controls(f"  {name:<{name_width}}  {text}") for name, text in self.facts),
        ]
        if self.rows:
            cells = [
                [_format_cell(name) for name in self.header],
                *([_format_cell(value) for value in row] for row in self.rows[:_MAX_ROWS]),
            ]
            widths = [max(len(row[column]) for row in cells) for column in range(len(self.header))]
            is_number = [isinstance(value, int) for value in self.rows[0]]
            for row in cells:
                padded = (
                    cell.rjust(width) if right else cell.ljust(width)
                    for cell, width, right in zip(row, widths, is_number, strict=True)
                )
                lines.append(("  " + "  ".join(padded)).rstrip())
        return "\n".join([*lines, *self._omitted_rows_note()])

    def to_html(self) -> str:
        """The table as HTML, for a notebook: no script, no style except alignment, every text
        escaped."""
        parts = [f"<div><p><b>{_escape_cell(self.title)}</b></p>"]
        if self.facts:
            rows = "".join(
                f'<tr><th style="text-align:left">{_escape_cell(name)}</th>{_html_cell(text)}</tr>'
                for name, text in self.facts
            )
            parts.append(f"<table>{rows}</table>")
        if self.rows:
            head = "".join(
                f'<th style="text-align:left">{_escape_cell(name)}</th>' for name in self.header
            )
            body = "".join(
                f"<tr>{''.join(_html_cell(value) for value in row)}</tr>"
                for row in self.rows[:_MAX_ROWS]
            )
            parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
        return "".join(
            [
                *parts,
                *(f"<p>{_escape_cell(line.strip())}</p>" for line in self._omitted_rows_note()),
                "</div>",
            ]
        )

    def _omitted_rows_note(self) -> list[str]:
        return [f"  and {len(self.rows) - _MAX_ROWS:,} more"] if len(self.rows) > _MAX_ROWS else []


def _format_cell(value: object) -> str:
    return (
        f"{value:,}"
        if isinstance(value, int)
        else escape_controls("" if value is None else str(value))
    )


def _escape_cell(value: object) -> str:
    return escape(_format_cell(value))


def _html_cell(value: object) -> str:
    side = "right" if isinstance(value, int) else "left"
    return f'<td style="text-align:{side}">{_escape_cell(value)}</td>'
