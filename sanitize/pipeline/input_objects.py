"""Data in memory that functions of the public API take, as columns, and back in the type that was
given.

    texts                                            -> read_texts  -> a column of strings
    paths                                            -> list_paths  -> names of files
    Polars, pandas, Arrow, records, Dataset(Dict)    -> read_object -> Polars, Arrow, Dataset(Dict)

pandas and `datasets` are imported only where an object of theirs is given.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from sanitize.errors import InputRefused, UsageError, printable_path
from sanitize.kinds.field_names import says_number
from sanitize.plans.python_api import RECORDS, name_data_object

TEXTS = "a text, or a list or Series of texts; None is allowed in it"


@dataclass(frozen=True, repr=False)
class InputObject:
    """Data as a Polars frame (also lazy), an Arrow table, a Dataset or a DatasetDict, and the
    function that gives rows in such a type back in the type of the caller."""

    data: Any
    restore: Callable[[Any], Any]


def read_object(function: str, given: Any) -> InputObject:
    """The rows of data in memory, for which `name_data_object` has a name. Raises UsageError, which
    names the function, for columns that Arrow cannot hold."""
    kind = name_data_object(given)
    if kind == "pandas":
        frame = _read_pandas(function, given)
        return InputObject(frame, lambda clean: _restore_pandas(given, frame, clean))
    if kind == RECORDS:
        table = _read_records(function, given)
        return InputObject(
            table, lambda clean: restore_sequence(restore_records(clean, table, given), given)
        )
    if kind == "Table" and len(set(given.column_names)) < given.num_columns:
        raise UsageError(f"{function}: two columns have the same name; rename one of them")
    return InputObject(given, lambda clean: clean)


def refuse_lineage(function: str, has_lineage: bool) -> None:
    """Raises UsageError for `lineage` with data in memory."""
    if has_lineage:
        raise UsageError(
            f"{function}: --lineage has no effect on data in memory, whose rows come from no file;"
            " leave it out, or give files"
        )


def list_paths(function: str, given: object) -> list[str]:
    """The names of the files and folders that a Path, or a list or tuple of them, stands for; none
    for anything else. Raises UsageError for paths among other values, and InputRefused for a path
    that does not exist."""
    paths = list(given) if isinstance(given, list | tuple) else [given]
    if not paths or not isinstance(paths[0], Path):
        return []
    names: list[str] = []
    for position, path in enumerate(paths):
        if not isinstance(path, Path):
            raise UsageError(
                f"{function}: texts[{position}] is of type {type(path).__name__}; expected a Path"
                " like the first"
            )
        if not os.path.lexists(path):
            raise InputRefused(
                f"{function}: {printable_path(str(path))}: there is no such file or folder; check"
                " the path"
            )
        # as an argument of a command, "-" is standard input
        names.append(str(path.absolute() if str(path) == "-" else path))
    return names


def read_texts(function: str, texts: Any, expected: str = TEXTS) -> pl.Series:
    """The texts as a column of strings. Raises UsageError for anything else; the message never
    quotes a text."""
    if isinstance(texts, str):
        texts = [texts]
    if isinstance(texts, pl.DataFrame | pl.LazyFrame | pa.Table) or hasattr(texts, "columns"):
        raise UsageError(
            f"{function}: texts is a {type(texts).__name__}; expected {TEXTS}. Give one column,"
            ' such as frame["text"]'
        )
    if isinstance(texts, Sequence) and not isinstance(texts, bytes | bytearray):
        for position, text in enumerate(texts):
            if text is not None and not isinstance(text, str):
                raise UsageError(
                    f"{function}: texts[{position}] is of type {type(text).__name__}; expected a"
                    " text or None"
                )
        try:
            return pl.Series("text", list(texts), dtype=pl.String)
        except (UnicodeEncodeError, pl.exceptions.PolarsError):
            raise _build_surrogate_error(function) from None
    is_column = (
        isinstance(texts, pl.Series)
        or hasattr(texts, "__arrow_c_array__")
        or hasattr(texts, "__arrow_c_stream__")
    )
    try:
        column = (
            texts
            if isinstance(texts, pl.Series)
            else pl.Series(texts)
            if is_column or hasattr(texts, "to_numpy")
            else None
        )
    except UnicodeEncodeError:
        raise _build_surrogate_error(function) from None
    except (pa.ArrowException, pl.exceptions.PolarsError, TypeError, ValueError):
        raise UsageError(
            f"{function}: texts is a {type(texts).__name__} that holds values of several types, or"
            f" of a type that Arrow does not have; expected {expected}"
        ) from None
    if column is None or not (
        column.dtype in (pl.String, pl.Categorical, pl.Null) or isinstance(column.dtype, pl.Enum)
    ):
        found = (
            type(texts).__name__ if column is None else f"{type(texts).__name__} of {column.dtype}"
        )
        raise UsageError(f"{function}: texts is of type {found}; expected {expected}")
    return column.cast(pl.String).alias("text")


def _build_surrogate_error(function: str, place: str = "a text") -> UsageError:
    return UsageError(
        f"{function}: {place} holds a lone surrogate, which is no Unicode character; replace it"
    )


def restore_sequence(values: list[Any], given: Sequence[Any]) -> Any:
    """The values as the list or tuple that was given; as a plain tuple for a named one, whose type
    takes its values one by one."""
    if isinstance(given, tuple):
        return tuple(values)
    return type(given)(values)  # type: ignore[call-arg]


def restore_records(clean: pa.Table, table: pa.Table, given: Sequence[Any]) -> list[Any]:
    """The rows of a table, which was `table` before it was rewritten, as the records that they
    were, if none is missing; else as records with all fields."""
    rows = clean.to_pylist()
    if len(rows) != len(given):
        return list(rows)
    return [_restore_value(*one) for one in zip(rows, table.to_pylist(), given, strict=True)]


def _restore_value(clean: Any, stored: Any, given: Any) -> Any:
    """A value of a table in the form that it had: without fields that it lacks, and values of
    columns of several types, which were stored as JSON, as they were; what is no JSON any more,
    such as a label for a number, as a text."""
    if isinstance(given, dict) and isinstance(clean, dict):
        return {
            name: _restore_value(clean[name], stored[name], value)
            for name, value in given.items()
            if name in clean
        }
    if isinstance(given, list) and isinstance(clean, list):
        return [_restore_value(*one) for one in zip(clean, stored, given, strict=True)]
    is_json = isinstance(stored, str) and not isinstance(given, str | None)
    if is_json and isinstance(clean, str):
        try:
            return json.loads(clean)
        except ValueError:
            return clean
    return clean


def _read_records(function: str, records: Sequence[Any]) -> pa.Table:
    """The table of records. Raises UsageError for what is no dictionary, names of fields that are
    no texts, and values that neither Arrow nor JSON holds."""
    from sanitize.pipeline.streaming.sources_and_sinks import records_to_table

    for position, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise UsageError(
                f"{function}: record {position} (from 0) is of type {type(record).__name__};"
                " expected a dictionary like the first"
            )
        if unnamed := [name for name in record if not isinstance(name, str)]:
            raise UsageError(
                f"{function}: record {position} (from 0) has a field whose name is of type"
                f" {type(unnamed[0]).__name__}; expected a text"
            )
    try:
        return records_to_table(records)
    except UnicodeEncodeError:
        raise _build_surrogate_error(function, "a text or the name of a field") from None
    except TypeError:
        raise UsageError(
            f"{function}: the records have a column of values of several types, of which one has no"
            " form in JSON, such as a date; expected one type in a column"
        ) from None


def _read_pandas(function: str, frame: Any) -> pl.DataFrame:
    """The columns of a pandas DataFrame, and levels of its index that hold numbers.

    Raises UsageError for a column that holds values of several types, for two columns whose names
    are the same as texts (1 and "1"), and for an index of texts.
    """
    names = list(map(str, frame.columns))
    if len(set(names)) < len(names):
        second = next(at for at, name in enumerate(names) if name in names[:at])
        raise UsageError(
            f"{function}: columns {names.index(names[second])} and {second} (from 0) of the frame"
            " have the same name as a text; rename one of them"
        )
    for level in range(frame.index.nlevels):
        values = frame.index.get_level_values(level)
        if values.dtype.kind not in "biufmM" or says_number(str(values.name)):
            raise UsageError(
                f"{function}: the index of the frame holds texts or values of a kind, which are not"
                " rewritten there; make it a column: frame.reset_index()"
            )
    columns = dict[str, Any]()
    for level in range(frame.index.nlevels):
        values = frame.index.get_level_values(level)
        if values.dtype.kind in "iuf" and type(values).__name__ != "RangeIndex":
            # searched as a column of numbers
            name = f"index {level}"
            while name in names:
                name += "_"
            columns[name] = pl.Series(values.to_numpy())
    for name in frame.columns:
        try:
            read: Any = pl.from_pandas(frame[name], nan_to_null=True)
            if isinstance(read.dtype, pl.Categorical):
                read = read.cast(pl.Enum(frame[name].cat.categories.to_list()))
            columns[str(name)] = read
        except (
            pa.ArrowException,
            pl.exceptions.PolarsError,
            TypeError,
            ValueError,
            AttributeError,
            UnicodeError,
        ):
            raise UsageError(
                f"{function}: column {name} holds values of several types, or of a type that"
                " Arrow does not have; expected one type in a column"
            ) from None
    return pl.DataFrame(columns)


def _restore_pandas(frame: Any, read: pl.DataFrame, clean: pl.DataFrame) -> Any:
    """Rewritten rows as a pandas DataFrame with the types and the index of the one that was given,
    also in nested columns and categories; where rows are missing, with a new index. Its `attrs` are
    left out, which are not searched."""
    result = frame[[name for name in frame.columns if str(name) in clean.columns]].copy()
    is_whole = clean.height == len(frame)
    if not is_whole:  # a run may drop rows
        result = result.iloc[: clean.height].reset_index(drop=True)
    result.attrs.clear()
    for name in result.columns:
        column, given = clean[str(name)], frame[name]
        if isinstance(column.dtype, pl.Enum):
            categories = type(given.cat.categories)(
                column.dtype.categories.to_list(), dtype=given.cat.categories.dtype
            )
            result[name] = type(given)(column.to_list(), index=result.index, dtype=object).astype(
                type(given.dtype)(categories, ordered=given.cat.ordered)
            )
        elif not is_whole or not column.equals(read[str(name)]):
            is_coded = column.dtype == pl.String and read[str(name)].dtype != pl.String
            # an integer of NumPy has no null
            is_nullable = column.null_count() and given.dtype.kind in "iu"
            result[name] = type(given)(
                column.to_list(),
                index=result.index,
                dtype=object if is_coded else "Int64" if is_nullable else given.dtype,
            )
        if hasattr(given.dtype, "categories") and says_number(str(name)):
            result[name] = result[name].cat.remove_unused_categories()  # which are not searched
    return result
