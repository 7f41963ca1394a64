"""Brazil: CPF of persons and CNPJ of companies, which a person may be (its characters may be letters since July 2026), each with two
check digits modulo 11."""

from __future__ import annotations

import numpy as np

from sanitize.kinds.countries.national_id import DIGITS, Bools, number, words
from sanitize.kinds.kind import I64, U8


def _digit(rows: U8, weights: tuple[int, ...]) -> I64:
    rest: I64 = (rows[:, : len(weights)].astype(np.int64) - 48) @ np.array(weights, np.int64) % 11  # letters count on from 17
    return np.where(rest < 2, 0, 11 - rest)


def _sound(rows: U8, first: tuple[int, ...], second: tuple[int, ...]) -> Bools:
    last = rows[:, -2:].astype(np.int64) - 48
    good: Bools = (_digit(rows, first) == last[:, 0]) & (_digit(rows, second) == last[:, 1]) & (rows != rows[:, :1]).any(axis=1)
    return good


def _cpf(rows: U8) -> Bools:
    return _sound(rows, tuple(range(10, 1, -1)), tuple(range(11, 1, -1)))


def _cnpj(rows: U8) -> Bools:
    return _sound(rows, (5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2), (6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2))


KINDS = (
    number(
        name="BR_CPF",
        about="a Brazilian number of a person (CPF)",
        country="BR",
        alone="[0-9]{3}[.][0-9]{3}[.][0-9]{3}-[0-9]{2}",
        behind="[0-9]{9}-?[0-9]{2}",
        named=words("CPF"),
        sound=_cpf,
        alphabets=[DIGITS] * 11,
        tail=2,
    ),
    number(
        name="BR_CNPJ",
        about="a Brazilian number of a company (CNPJ)",
        country="BR",
        alone="[0-9A-Z]{2}[.][0-9A-Z]{3}[.][0-9A-Z]{3}/[0-9A-Z]{4}-[0-9]{2}",
        behind="[0-9A-Z]{12}-?[0-9]{2}",
        named=words("CNPJ"),
        sound=_cnpj,
        alphabets=[*[DIGITS] * 8, b"0", b"0", b"0", b"123456789", DIGITS, DIGITS],
        tail=2,
    ),
)
