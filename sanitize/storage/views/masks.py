"""Masks: a text becomes its shape, and a mail address keeps its first letters. The same masks as
SQL for DuckDB and as expressions for Polars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sanitize.storage.views.sql_text import make_sql_names, quote_literal, quote_name

if TYPE_CHECKING:
    import polars as pl
    from duckdb.sqltypes import DuckDBPyType

# The shape of a text: letters become A or a, digits 9, other characters outside printable ASCII ?,
# and runs are cut to length 4. One list for DuckDB and Polars; their regular expressions agree on
# these patterns.
_SHAPE_PATTERNS = (
    (r"[\p{Lu}\p{Lt}]", "A"),
    (r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", "a"),
    (r"\p{N}", "9"),
    (r"[^\x20-\x7E]", "?"),
    ("A{5,}", "AAAA"),
    ("a{5,}", "aaaa"),
    ("9{5,}", "9999"),
)
# j***@e***.com; a longer last label could be a name
_EMAIL_PATTERN = r"^([A-Za-z0-9])[^@]*@([A-Za-z0-9])[^@]*\.([A-Za-z]{2,6}|example)$"


def shape_expression(column: str) -> str:
    """SQL for the shape of a text: `Jane Doe, 555-0100` becomes `Aaaa Aaa, 999-9999`. `column` is
    an SQL expression."""
    for pattern, letter in _SHAPE_PATTERNS:
        column = f"regexp_replace({column}, {quote_literal(pattern)}, '{letter}', 'g')"
    return column


def mask_expression(column: str, kind: str | None = None) -> str:
    """SQL for a masked value: its shape, or `j***@e***.com` if the SQL expression `kind` is
    EMAIL_ADDRESS."""
    shape = shape_expression(column)
    if kind is None:
        return shape
    pattern = quote_literal(_EMAIL_PATTERN)
    address = rf"regexp_replace({column}, {pattern}, '\1***@\2***.\3')"
    return (
        f"CASE WHEN {kind} = 'EMAIL_ADDRESS' AND regexp_matches({column}, {pattern}) THEN {address}"
        f" ELSE {shape} END"
    )


def mask_texts(texts: pl.Series, kinds: pl.Series | None = None) -> pl.Series:
    """The same masks on a Polars column: shapes, and `j***@e***.com` where `kinds` is
    EMAIL_ADDRESS."""
    import polars as pl

    text = shape = pl.col("text")
    for pattern, letter in _SHAPE_PATTERNS:
        shape = shape.str.replace_all(pattern, letter)
    frame = pl.DataFrame({"text": texts.cast(pl.String)})
    if kinds is not None:
        frame = frame.with_columns(kinds.cast(pl.String).alias("kind"))
        address = text.str.replace(_EMAIL_PATTERN, "${1}***@${2}***.${3}")
        shape = (
            pl.when((pl.col("kind") == "EMAIL_ADDRESS") & text.str.contains(_EMAIL_PATTERN))
            .then(address)
            .otherwise(shape)
        )
    return frame.select(shape.alias(texts.name)).to_series()


# A label contains a kind and a number, nothing of the value, and users search tables for it: it is
# not masked.
_LABEL_PATTERN = r"\A\[[A-Z][A-Z0-9_]*(?:-[0-9]+)?\]\z"


def mask_replacements(texts: pl.Series, kinds: pl.Series | None = None) -> pl.Series:
    """The masks of replacements: labels such as `[EMAIL_ADDRESS]` and `[EMAIL_ADDRESS-1]` as they
    are, all others as `mask_texts` does."""
    import polars as pl

    masked = mask_texts(texts, kinds)
    return pl.select(
        pl.when(texts.str.contains(_LABEL_PATTERN)).then(texts).otherwise(masked).alias(texts.name)
    ).to_series()


# Text columns that contain no text of the corpus. Every other text column is masked, including
# those of unknown tables.
UNMASKED_COLUMNS = frozenset(
    {"kind", "finder", "section", "part", "reason", "source", "location", "privacy_unit", "stage"}
)


def mask_column(table: str, name: str, column_type: DuckDBPyType) -> str:
    if table in ("value_spellings", "column_values") and name in ("value", "normalised"):
        return mask_expression(quote_name(name), "kind")
    if (table, name) in (("labels", "label"), ("edits", "replacement")):
        column = quote_name(name)
        return (
            f"CASE WHEN regexp_matches({column}, {quote_literal(_LABEL_PATTERN)}) THEN {column}"
            f" ELSE {mask_expression(column)} END"
        )
    return _mask_by_type(quote_name(name), column_type)


_NUMBER_TYPES = frozenset({"boolean", "float", "double", "decimal"}) | {
    f"{sign}{size}"
    for sign in ("", "u")
    for size in ("tinyint", "smallint", "integer", "bigint", "hugeint")
}
_TIME_TYPES = frozenset(
    {"date", "time", "interval", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"}
) | {
    "time with time zone",
    "timestamp with time zone",
}


def _mask_by_type(column: str, column_type: Any, depth: int = 0) -> str:
    name = column_type.id.lower()
    if name in _NUMBER_TYPES | _TIME_TYPES:
        return column
    if name in ("varchar", "enum"):
        return mask_expression(column if name == "varchar" else f"CAST({column} AS VARCHAR)")
    if name == "list":
        return (
            f"list_transform({column}, lambda x{depth}:"
            f" {_mask_by_type(f'x{depth}', column_type.children[0][1], depth + 1)})"
        )
    if name == "struct":
        names = make_sql_names(n for n, _ in column_type.children)
        fields = (
            f"{quote_name(names[n])} :="
            f" {_mask_by_type(f'struct_extract_at({column}, {position})', t, depth)}"
            for position, (n, t) in enumerate(column_type.children, 1)
        )
        return f"CASE WHEN {column} IS NULL THEN NULL ELSE struct_pack({', '.join(fields)}) END"
    # bytes, maps, unions and unknown types
    return f"CAST(CASE WHEN {column} IS NULL THEN NULL ELSE '?' END AS VARCHAR)"
