"""What `detect` and `redact` are given, as columns of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from sanitize.errors import UsageError

TEXTS = "a text, or a list or Series of texts; None is allowed in it"


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
            raise UsageError(
                f"{function}: a text holds a lone surrogate, which is no Unicode character;"
                " replace it"
            ) from None
    is_column = (
        isinstance(texts, pl.Series)
        or hasattr(texts, "__arrow_c_array__")
        or hasattr(texts, "__arrow_c_stream__")
    )
    column = (
        texts
        if isinstance(texts, pl.Series)
        else pl.Series(texts)
        if is_column or hasattr(texts, "to_numpy")
        else None
    )
    if column is None or not (
        column.dtype in (pl.String, pl.Categorical, pl.Null) or isinstance(column.dtype, pl.Enum)
    ):
        found = (
            type(texts).__name__ if column is None else f"{type(texts).__name__} of {column.dtype}"
        )
        raise UsageError(f"{function}: texts is of type {found}; expected {expected}")
    return column.cast(pl.String).alias("text")
