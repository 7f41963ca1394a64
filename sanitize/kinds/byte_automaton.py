"""Deterministic automata of simple regular expressions over bytes, as tables for compiled loops.

An expression is read into a nondeterministic automaton (Thompson, CACM 1968), which the subset
construction makes deterministic (Rabin and Scott, 1959). Both are done once per expression, in
about 10 microseconds for each state.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sanitize.array_types import I16, I64, Mask

_ALL_BYTES = (1 << 256) - 1
# from the state after a part of an expression to the state before it
_Fragment = Callable[[int], int]
_QUANTIFIER = re.compile(r"[?*+]|\{(\d+)(,?)(\d*)\}")


@dataclass(frozen=True, repr=False)
class ByteAutomaton:
    """`next_state` has a row for each state, a column for each byte. State 0 refuses whatever
    follows; state 1 is the initial one."""

    next_state: I16
    is_final: Mask


@functools.cache
def build_automaton(pattern: str) -> ByteAutomaton:
    """The automaton that accepts what `pattern` matches from end to end.

    A pattern has ASCII characters, classes, groups (`(?:...)`), `|`, and the quantifiers `?`, `*`,
    `+`, `{m}`, `{m,}` and `{m,n}`. A dot is any byte. ValueError for anything else.
    """
    expression = _Expression(pattern)
    final = expression.add_state(0, 0)
    initial = expression.parse()(final)
    first_bytes, byte_class = _classify_bytes({mask for mask, _ in expression.steps})
    closures = [expression.closure(state) for state in range(len(expression.steps))]
    # a set of states is an integer with a bit for each; for each byte class, the states that accept
    # it
    accepting = [
        sum(1 << state for state, (mask, _) in enumerate(expression.steps) if mask >> byte & 1)
        for byte in first_bytes
    ]
    numbers, rows = {0: 0, closures[initial]: 1}, list[list[int]]()
    for states in (pending := list(numbers)):
        row = []
        for members in accepting:
            after, rest = 0, states & members
            while rest:
                lowest = rest & -rest
                after |= closures[expression.steps[lowest.bit_length() - 1][1]]
                rest ^= lowest
            if after not in numbers:
                numbers[after] = len(numbers)
                pending.append(after)
            row.append(numbers[after])
        rows.append(row)
    return ByteAutomaton(
        np.array(rows, np.int16)[:, byte_class],
        np.array([states >> final & 1 for states in numbers], np.bool_),
    )


def _classify_bytes(masks: set[int]) -> tuple[list[int], I64]:
    """Classes of bytes that the same masks hold: a byte of each class, and the class of each of the
    256 bytes."""
    rows = np.frombuffer(b"".join(mask.to_bytes(32, "little") for mask in masks), np.uint8)
    # a row for each mask, a column for each byte
    holds = np.unpackbits(rows.reshape(-1, 32), axis=1, bitorder="little")
    _, first, byte_class = np.unique(holds, axis=1, return_index=True, return_inverse=True)
    return first.tolist(), byte_class.ravel()


class _Expression:
    """The nondeterministic automaton of an expression, as it is read. A state accepts the bytes of
    a mask and goes on to one other, or it has no mask and goes on to several without a byte."""

    def __init__(self, pattern: str) -> None:
        if not pattern.isascii():
            raise ValueError(f"{pattern!r}: expected ASCII only")
        self.pattern, self.position = pattern, 0
        self.steps: list[tuple[int, int]] = []
        self.splits: dict[int, list[int]] = {}

    def add_state(self, mask: int, after: int) -> int:
        self.steps.append((mask, after))
        return len(self.steps) - 1

    def closure(self, state: int) -> int:
        """The states that are reached from one without a byte, itself included."""
        reached, open_states = 0, [state]
        while open_states:
            one = open_states.pop()
            if not reached >> one & 1:
                reached |= 1 << one
                open_states += self.splits.get(one, ())
        return reached

    def parse(self) -> _Fragment:
        whole = self._parse_alternatives()
        if self.position < len(self.pattern):
            raise ValueError(
                f"{self.pattern!r}: unexpected {self.pattern[self.position]!r} at {self.position}"
            )
        return whole

    def _parse_alternatives(self) -> _Fragment:
        alternatives = [self._parse_sequence()]
        while self._skip("|"):
            alternatives.append(self._parse_sequence())
        return (
            alternatives[0]
            if len(alternatives) == 1
            else lambda after: self._split([one(after) for one in alternatives])
        )

    def _parse_sequence(self) -> _Fragment:
        parts = list[_Fragment]()
        while self.position < len(self.pattern) and self.pattern[self.position] not in "|)":
            parts.append(self._parse_item())
        return lambda after: functools.reduce(
            lambda state, part: part(state), reversed(parts), after
        )

    def _parse_item(self) -> _Fragment:
        if self._skip("(?:"):
            item = self._parse_alternatives()
            if not self._skip(")"):
                raise ValueError(f"{self.pattern!r}: expected `)` at {self.position}")
        else:
            mask = self._parse_bytes()
            item = functools.partial(self.add_state, mask)
        quantifier = _QUANTIFIER.match(self.pattern, self.position)
        if quantifier is None:
            return item
        self.position = quantifier.end()
        if quantifier[1] is None:
            low, high = {"?": (0, 1), "*": (0, None), "+": (1, None)}[quantifier[0]]
        else:
            low = int(quantifier[1])
            high = int(quantifier[3]) if quantifier[3] else None if quantifier[2] else low
        return lambda after: self._repeat(item, low, high, after)

    def _parse_bytes(self) -> int:
        """A character, an escaped one, a class or a dot, as a mask of 256 bits."""
        character = self._next()
        if character == ".":
            return _ALL_BYTES
        if character in "()?*+{}^$]":
            raise ValueError(f"{self.pattern!r}: unexpected {character!r} at {self.position - 1}")
        if character != "[":
            return 1 << ord(self._next() if character == "\\" else character)
        negated, mask = self._skip("^"), 0
        while (character := self._next()) != "]":
            first = ord(self._next() if character == "\\" else character)
            last = first
            if (
                self.pattern[self.position : self.position + 1] == "-"
                and self.pattern[self.position + 1 : self.position + 2] != "]"
            ):
                self.position += 1
                last = ord(self._next())
            mask |= (1 << last + 1) - (1 << first)
        return _ALL_BYTES ^ mask if negated else mask

    def _repeat(self, item: _Fragment, low: int, high: int | None, after: int) -> int:
        state = after
        if high is None:
            state = self._split([after])
            self.splits[state].append(item(state))
        for _ in range((high or low) - low):
            state = self._split([item(state), after])
        for _ in range(low):
            state = item(state)
        return state

    def _split(self, targets: list[int]) -> int:
        state = self.add_state(0, 0)
        self.splits[state] = targets
        return state

    def _next(self) -> str:
        if self.position >= len(self.pattern):
            raise ValueError(f"{self.pattern!r}: ends too early")
        self.position += 1
        return self.pattern[self.position - 1]

    def _skip(self, text: str) -> bool:
        if not self.pattern.startswith(text, self.position):
            return False
        self.position += len(text)
        return True
