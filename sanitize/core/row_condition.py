"""Row conditions: parses and evaluates a small grammar of comparisons that selects documents by their columns. No code is executed.

    where = "public = false"        where = "year >= 2001 and list != 'announce'"        where = "source in ('a', 'b') or user_id is null"

A comparison is `COLUMN OP VALUE` with = != < <= > >=, `COLUMN in (VALUE, ...)`, `COLUMN is null` or `COLUMN is not null`; a value is a
number, true, false or text in single quotes ('' is one quote). `and` has precedence over `or`; there are no parentheses around conditions.
A null satisfies no comparison except `is null`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.errors import PlanError, suggest_names

Operand = bool | int | float | str
_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>-?\d+(?:\.\d+)?(?![\w.]))|(?P<op><=|>=|!=|=|<|>|\(|\)|,)|(?P<name>[A-Za-z_]\w*))"
)
_OPERATORS = {"=": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}
_EXPECTED_SYNTAX = "expected comparisons such as public = false, joined by and / or"


@dataclass(frozen=True)
class Comparison:
    """One comparison of a column: `op` is one of = != < <= > >= in, null, not null."""

    column: str
    op: str
    values: tuple[Operand, ...]

    def mask(self, table: pa.Table) -> npt.NDArray[np.bool_]:
        """True for every row that satisfies the comparison."""
        column = table.column(self.column)
        if self.op in ("null", "not null"):
            return np.asarray(column.is_null() if self.op == "null" else column.is_valid())
        found = np.zeros(table.num_rows, np.bool_)
        for value in self.values:
            compare = _OPERATORS["=" if self.op == "in" else self.op]
            found |= np.asarray(pc.fill_null(compare(column, _comparable_scalar(value, column.type, self.column)), False))
        return found


@dataclass(frozen=True)
class RowCondition:
    """A disjunction of conjunctions of comparisons."""

    alternatives: tuple[tuple[Comparison, ...], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the condition names, each once."""
        return tuple(dict.fromkeys(comparison.column for conjunction in self.alternatives for comparison in conjunction))

    def mask(self, table: pa.Table) -> npt.NDArray[np.bool_]:
        """True for every row that satisfies the condition."""
        conjunctions = [np.logical_and.reduce([one.mask(table) for one in conjunction]) for conjunction in self.alternatives]
        return np.asarray(np.logical_or.reduce(conjunctions), np.bool_)

    def validate(self, schema: pa.Schema) -> None:
        """Raises PlanError for a column that is not in the schema, or that cannot be compared with the given value."""
        for conjunction in self.alternatives:
            for comparison in conjunction:
                if comparison.column not in schema.names:
                    raise PlanError(f"where: there is no column {comparison.column}; {suggest_names(comparison.column, schema.names)}")
                for value in comparison.values:
                    _comparable_scalar(value, schema.field(comparison.column).type, comparison.column)


def parse_condition(text: str) -> RowCondition:
    """Parses a condition. Raises PlanError, with the character position, for anything that is not in the grammar."""
    return _Parser(text).parse()


class _Parser:
    """Recursive descent parser over (token type, text, character position)."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str, int]] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None or match.lastgroup is None:
                raise PlanError(f"where: syntax error at character {at}; {_EXPECTED_SYNTAX}")
            self.tokens.append((match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
            at = match.end()
        self.tokens.append(("end", "", end))
        self.position = 0

    def parse(self) -> RowCondition:
        alternatives, conjunction = [], [self._parse_comparison()]
        while self.tokens[self.position][0] != "end":
            if self._accept_word("and"):
                conjunction.append(self._parse_comparison())
            elif self._accept_word("or"):
                alternatives.append(tuple(conjunction))
                conjunction = [self._parse_comparison()]
            else:
                raise self._syntax_error()
        return RowCondition((*alternatives, tuple(conjunction)))

    def _parse_comparison(self) -> Comparison:
        kind, column, _ = self.tokens[self.position]
        if kind != "name":
            raise self._syntax_error()
        self.position += 1
        if self._accept_word("is"):
            is_null = not self._accept_word("not")
            if not self._accept_word("null"):
                raise self._syntax_error()
            return Comparison(column, "null" if is_null else "not null", ())
        if self._accept_word("in"):
            self._expect_sign("(")
            values = [self._parse_value()]
            while self.tokens[self.position][1] == "," and self.tokens[self.position][0] == "op":
                self.position += 1
                values.append(self._parse_value())
            self._expect_sign(")")
            return Comparison(column, "in", tuple(values))
        kind, op, _ = self.tokens[self.position]
        if kind != "op" or op not in _OPERATORS:
            raise self._syntax_error()
        self.position += 1
        return Comparison(column, op, (self._parse_value(),))

    def _parse_value(self) -> Operand:
        kind, token, _ = self.tokens[self.position]
        self.position += 1
        if kind == "text":
            return token[1:-1].replace("''", "'")
        if kind == "number":
            return float(token) if "." in token else int(token)
        if kind == "name" and token.lower() in ("true", "false"):
            return token.lower() == "true"
        self.position -= 1
        raise self._syntax_error()

    def _accept_word(self, word: str) -> bool:
        kind, token, _ = self.tokens[self.position]
        accepted = kind == "name" and token.lower() == word
        self.position += accepted
        return accepted

    def _expect_sign(self, sign: str) -> None:
        kind, token, _ = self.tokens[self.position]
        if kind != "op" or token != sign:
            raise self._syntax_error()
        self.position += 1

    def _syntax_error(self) -> PlanError:
        return PlanError(f"where: syntax error at character {self.tokens[self.position][2]}; {_EXPECTED_SYNTAX}")


def _comparable_scalar(value: Operand, data_type: pa.DataType, column: str) -> pa.Scalar:
    """The value as an Arrow scalar. Raises PlanError if a column of this type cannot be compared with it."""
    number = pa.types.is_integer(data_type) or pa.types.is_floating(data_type)
    text = pa.types.is_string(data_type) or pa.types.is_large_string(data_type)
    is_comparable = pa.types.is_boolean(data_type) if isinstance(value, bool) else text if isinstance(value, str) else number
    if not is_comparable:
        expected = (
            "true or false" if pa.types.is_boolean(data_type) else "a number" if number else "text in single quotes" if text else "is null"
        )
        raise PlanError(f"where: column {column} holds {data_type}; compare it with {expected}")
    return pa.scalar(value)
