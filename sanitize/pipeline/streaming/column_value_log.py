"""Values of the columns that a stream pseudonymizes or drops: known values, searched in the texts
of their batch and of all later ones.

They are stored in clear in the private folder, one JSON line each: kind, id, value, normalised
form. Lines after the length in the state were never acknowledged and are truncated. Memory is that
of the distinct values. The search terms are in levels of which each has at least eight times the
values of the next, so that a value is indexed a few times only, however long the stream is.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from sanitize.core.span_table import VALUE_SCHEMA
from sanitize.kinds.kind import all_kinds
from sanitize.storage.files import parse_json
from sanitize.verification.search_terms import SearchTerms

_LEVEL_FACTOR = 8


@dataclass(frozen=True, repr=False)
class _Level:
    """Some values and their search terms."""

    values: pl.DataFrame  # columns of `VALUE_SCHEMA`
    terms: SearchTerms


class ColumnValueLog:
    """The values of columns that a stream has seen, in memory and in their file."""

    def __init__(self, path: Path, acknowledged_bytes: int, *, check_mode: str) -> None:
        self._path, self._check_mode = path, check_mode
        self._known: set[tuple[int, str]] = set()
        self._pending: list[tuple[str, int, str, str]] = []
        self._levels: list[_Level] = []
        if not path.exists():
            path.touch(mode=0o600)
        numbers = {name: number for number, name in enumerate(all_kinds())}
        with path.open("r+b") as file:
            file.truncate(acknowledged_bytes)
            rows = [parse_json(line) for line in file]
        self.add(
            pl.DataFrame(
                [(value_id, numbers[kind], *texts) for kind, value_id, *texts in rows],
                VALUE_SCHEMA,
                orient="row",
            )
        )
        self._pending = []

    def add(self, values: pl.DataFrame) -> None:
        """Add the values of a batch (columns of `VALUE_SCHEMA`); `commit` writes those that are
        new.
        """
        is_new = []
        # a loop over distinct values of a batch, most of which are known
        for key in values.select("value_id", "value").iter_rows():
            is_new.append(key not in self._known)
            self._known.add(key)
        values = values.filter(pl.Series(is_new, dtype=pl.Boolean)).select(list(VALUE_SCHEMA))
        names = list(all_kinds())
        self._pending += [
            (names[kind], *others)
            for kind, *others in values.select(
                "kind", "value_id", "value", "normalised"
            ).iter_rows()
        ]
        while (
            values.height
            and self._levels
            and self._levels[-1].values.height < _LEVEL_FACTOR * values.height
        ):
            values = pl.concat([self._levels.pop().values, values])
        terms = SearchTerms.from_values(_name_kinds(values), self._check_mode)
        if terms is not None:
            self._levels.append(_Level(values, terms))

    @property
    def terms(self) -> tuple[SearchTerms, ...]:
        """The search terms of all values."""
        return tuple(level.terms for level in self._levels)

    def commit(self) -> int:
        """Append the new values to the file (fsync); returns its length, which the state stores."""
        with self._path.open("ab") as file:
            file.write(b"".join(json.dumps(entry).encode() + b"\n" for entry in self._pending))
            file.flush()
            os.fsync(file.fileno())
            self._pending = []
            return file.tell()


def _name_kinds(values: pl.DataFrame) -> pl.DataFrame:
    """The values with the name of their kind in the place of its number."""
    names = np.array(list(all_kinds()), object)
    return values.with_columns(kind=pl.Series(names[values["kind"].to_numpy()], dtype=pl.String))
