"""SQL for names, texts, files and empty tables; a view as a name and a SELECT."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sanitize.core.table_rendering import escape_controls
from sanitize.errors import InputRefused

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class SqlView:
    """One view: its name, the SELECT for its unmasked rows, and the files that it reads."""

    name: str
    select: str
    files: tuple[str, ...] = ()


def empty_select(schema: pa.Schema) -> str:
    """SQL for a table of this schema without rows."""
    names = {"int64": "BIGINT", "int32": "INTEGER", "float": "REAL", "double": "DOUBLE"}
    columns = (
        f"CAST(NULL AS {names.get(str(field.type), 'VARCHAR')}) AS {quote_name(field.name)}"
        for field in schema
    )
    return f"SELECT {', '.join(columns)} WHERE false"


_PATTERN_CHARACTERS = frozenset("*?[")


def read_parquet_expression(files: Sequence[str], options: str = "") -> str:
    """SQL for the rows of these Parquet files. Each name is read literally: DuckDB takes a text for
    a pattern, and lists its folder, but not the field `filename` of a struct."""
    return f"read_parquet({list_files(files)}, hive_partitioning = false{options})"


def list_files(files: Sequence[str]) -> str:
    """SQL for a list of files whose names are read literally."""
    listed = [quote_literal(file) for file in files]
    if any(_PATTERN_CHARACTERS & set(file) for file in files):
        listed = [f"{{'filename': {literal}}}" for literal in listed]
    return f"[{', '.join(listed)}]"


def is_encodable(text: str) -> bool:
    """True if a text can be part of an SQL statement, as the path of a file that it reads."""
    return not ("\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text))


def quote_literal(text: str) -> str:
    """A text as an SQL literal. Together with `quote_name` the only place where a name becomes part
    of a statement."""
    return "'" + check_encodable(text).replace("'", "''") + "'"


def quote_name(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + check_encodable(name).replace('"', '""') + '"'


def check_encodable(text: str) -> str:
    """The text; raises InputRefused if it cannot be part of an SQL statement."""
    if not is_encodable(text):
        raise InputRefused(
            f"{escape_controls(text)[:200]}: a name with NUL or with bytes that are not UTF-8"
            " cannot be read. Rename it"
        )
    return text


def make_sql_names(names: Iterable[str]) -> dict[str, str]:
    """The names of columns in SQL, which does not distinguish case and has no empty names: `Text`
    beside `text` is `Text_1`, and an empty name is `column`. Names in lower case stay."""
    used, sql_names = set[str](), dict[str, str]()
    for name in sorted(names, key=lambda name: name != name.lower()):
        candidates = itertools.chain(
            [name or "column"], (f"{name or 'column'}_{number}" for number in itertools.count(1))
        )
        sql_names[name] = next(one for one in candidates if one.casefold() not in used)
        used.add(sql_names[name].casefold())
    return sql_names
