"""Which documents a condition on their columns names: a small grammar of comparisons, read by hand and never run as code.

    where = "public = false"        where = "year >= 2001 and list != 'announce'"        where = "source in ('a', 'b') or user_id is null"

A comparison is `COLUMN OP VALUE` with = != < <= > >=, `COLUMN in (VALUE, ...)`, `COLUMN is null` or `COLUMN is not null`; a value is a
number, true, false or text in single quotes ('' is one quote). `and` binds closer than `or`; there are no brackets around conditions. A
null fits no comparison but `is null`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.errors import PlanError, nearest

Value = bool | int | float | str
_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>-?\d+(?:\.\d+)?(?![\w.]))|(?P<op><=|>=|!=|=|<|>|\(|\)|,)|(?P<name>[A-Za-z_]\w*))"
)
_COMPARE = {"=": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}
_EXPECTED = "expected comparisons such as public = false, joined by and / or"


@dataclass(frozen=True)
class Comparison:
    """One comparison of a column: `op` is one of = != < <= > >= in null, and `not null`."""

    column: str
    op: str
    values: tuple[Value, ...]

    def of(self, table: pa.Table) -> npt.NDArray[np.bool_]:
        """True for every row that fits."""
        column = table.column(self.column)
        if self.op in ("null", "not null"):
            return np.asarray(column.is_null() if self.op == "null" else column.is_valid())
        found = np.zeros(table.num_rows, np.bool_)
        for value in self.values:
            compare = _COMPARE["=" if self.op == "in" else self.op]
            found |= np.asarray(pc.fill_null(compare(column, _like(value, column.type, self.column)), False))
        return found


@dataclass(frozen=True)
class Condition:
    """Alternatives of comparisons that hold together."""

    any_of: tuple[tuple[Comparison, ...], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it names, each once."""
        return tuple(dict.fromkeys(one.column for all_of in self.any_of for one in all_of))

    def of(self, table: pa.Table) -> npt.NDArray[np.bool_]:
        """True for every row that fits."""
        found = np.logical_or.reduce([np.logical_and.reduce([one.of(table) for one in all_of]) for all_of in self.any_of])
        return np.asarray(found, np.bool_)

    def check(self, schema: pa.Schema) -> None:
        """Raises PlanError for a column that is not there, or that cannot be compared with its value."""
        for all_of in self.any_of:
            for one in all_of:
                if one.column not in schema.names:
                    raise PlanError(f"where: there is no column {one.column}; {nearest(one.column, schema.names)}")
                for value in one.values:
                    _like(value, schema.field(one.column).type, one.column)


def parse(text: str) -> Condition:
    """The condition that the text says. Raises PlanError, with the place, for anything else."""
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str, int]] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            found = _TOKEN.match(text, at)
            if found is None or found.lastgroup is None:
                raise PlanError(f"where: not understood at character {at}; {_EXPECTED}")
            self.tokens.append((found.lastgroup, found[found.lastgroup], found.start(found.lastgroup)))
            at = found.end()
        self.tokens.append(("end", "", end))
        self.at = 0

    def read(self) -> Condition:
        alternatives, together = [], [self._comparison()]
        while self.tokens[self.at][0] != "end":
            if self._word("and"):
                together.append(self._comparison())
            elif self._word("or"):
                alternatives.append(tuple(together))
                together = [self._comparison()]
            else:
                raise self._wrong()
        return Condition((*alternatives, tuple(together)))

    def _comparison(self) -> Comparison:
        kind, column, _ = self.tokens[self.at]
        if kind != "name":
            raise self._wrong()
        self.at += 1
        if self._word("is"):
            empty = not self._word("not")
            if not self._word("null"):
                raise self._wrong()
            return Comparison(column, "null" if empty else "not null", ())
        if self._word("in"):
            self._sign("(")
            values = [self._value()]
            while self.tokens[self.at][1] == "," and self.tokens[self.at][0] == "op":
                self.at += 1
                values.append(self._value())
            self._sign(")")
            return Comparison(column, "in", tuple(values))
        kind, op, _ = self.tokens[self.at]
        if kind != "op" or op not in _COMPARE:
            raise self._wrong()
        self.at += 1
        return Comparison(column, op, (self._value(),))

    def _value(self) -> Value:
        kind, said, _ = self.tokens[self.at]
        self.at += 1
        if kind == "text":
            return said[1:-1].replace("''", "'")
        if kind == "number":
            return float(said) if "." in said else int(said)
        if kind == "name" and said.lower() in ("true", "false"):
            return said.lower() == "true"
        self.at -= 1
        raise self._wrong()

    def _word(self, word: str) -> bool:
        kind, said, _ = self.tokens[self.at]
        there = kind == "name" and said.lower() == word
        self.at += there
        return there

    def _sign(self, sign: str) -> None:
        kind, said, _ = self.tokens[self.at]
        if kind != "op" or said != sign:
            raise self._wrong()
        self.at += 1

    def _wrong(self) -> PlanError:
        return PlanError(f"where: not understood at character {self.tokens[self.at][2]}; {_EXPECTED}")


def _like(value: Value, kind: pa.DataType, column: str) -> pa.Scalar:
    """The value as a scalar that a column of this type can be compared with."""
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    fits = pa.types.is_boolean(kind) if isinstance(value, bool) else text if isinstance(value, str) else number
    if not fits:
        wanted = "true or false" if pa.types.is_boolean(kind) else "a number" if number else "text in single quotes" if text else "is null"
        raise PlanError(f"where: column {column} holds {kind}; compare it with {wanted}")
    return pa.scalar(value)
