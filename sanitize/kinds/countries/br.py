"""Brazil: CPF (persons) and CNPJ (companies, including one-person companies; may contain letters
since July 2026), each with two check digits modulo 11."""

from __future__ import annotations

import numpy as np

from sanitize.array_types import I64, U8, Mask
from sanitize.kinds.countries.national_id import make_national_id
from sanitize.kinds.kind import CAPITALS, DIGITS


def _check_digit(rows: U8, weights: tuple[int, ...]) -> I64:
    # letters count from 17
    rest: I64 = (rows[:, : len(weights)].astype(np.int64) - 48) @ np.array(weights, np.int64) % 11
    return np.where(rest < 2, 0, 11 - rest)


def _is_valid(rows: U8, first_weights: tuple[int, ...], second_weights: tuple[int, ...]) -> Mask:
    last = rows[:, -2:].astype(np.int64) - 48
    good: Mask = (
        (_check_digit(rows, first_weights) == last[:, 0])
        & (_check_digit(rows, second_weights) == last[:, 1])
        & (rows != rows[:, :1]).any(axis=1)
    )
    return good


def _is_cpf(rows: U8) -> Mask:
    return _is_valid(rows, tuple(range(10, 1, -1)), tuple(range(11, 1, -1)))


def _is_cnpj(rows: U8) -> Mask:
    return _is_valid(
        rows, (5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2), (6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2)
    )


KINDS = (
    make_national_id(
        name="BR_CPF",
        about="a Brazilian number of a person (CPF)",
        country="BR",
        bare_pattern="[0-9]{3}[.][0-9]{3}[.][0-9]{3}-[0-9]{2}",
        labelled_pattern="[0-9]{9}-?[0-9]{2}",
        labels=("CPF",),
        is_valid=_is_cpf,
        alphabets=[DIGITS] * 11,
        check_length=2,
        first_bytes=DIGITS + b"Cc",
        hits=(
            ("111.444.777-35", "111.444.777-35"),
            ("CPF 11144477735", "11144477735"),
        ),
        near_misses=(
            "111.444.777-36",
            "111.111.111-11",
        ),
    ),
    make_national_id(
        name="BR_CNPJ",
        about="a Brazilian number of a company (CNPJ)",
        country="BR",
        bare_pattern="[0-9A-Z]{2}[.][0-9A-Z]{3}[.][0-9A-Z]{3}/[0-9A-Z]{4}-[0-9]{2}",
        labelled_pattern="[0-9A-Z]{12}-?[0-9]{2}",
        labels=("CNPJ",),
        is_valid=_is_cnpj,
        alphabets=[*[DIGITS] * 8, b"0", b"0", b"0", b"123456789", DIGITS, DIGITS],
        check_length=2,
        first_bytes=DIGITS + CAPITALS + b"c",
        hits=(
            ("11.222.333/0001-81", "11.222.333/0001-81"),
            ("12.ABC.345/01DE-35", "12.ABC.345/01DE-35"),
        ),
        near_misses=("11.222.333/0001-82",),
    ),
)
