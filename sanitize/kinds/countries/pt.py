"""Portugal: tax numbers (NIF; check modulo 11) and document numbers of citizen cards (eight digits,
their check digit, two characters of the version, and a check digit over all of them: Luhn with
letters as 10 to 35; Agência para a Modernização Administrativa, "Validação de número de documento
do cartão de cidadão")."""

from __future__ import annotations

import numpy as np

from sanitize.array_types import U8, Mask
from sanitize.kinds.countries.national_id import (
    STRONG_CHECK_RANK,
    character_values,
    make_national_id,
    passes_luhn,
    weighted_sum,
)
from sanitize.kinds.kind import CAPITALS, DIGITS


def _is_nif(rows: U8) -> Mask:
    rest = weighted_sum(rows, (9, 8, 7, 6, 5, 4, 3, 2)) % 11
    good: Mask = (np.where(rest < 2, 0, 11 - rest) == character_values(rows)[:, 8]) & (
        rows != rows[:, :1]
    ).any(axis=1)
    return good


def _is_card(rows: U8) -> Mask:
    # the ninth digit belongs to the number of the person: 9 to 2 weighted, as for identity cards
    rest = weighted_sum(rows, (9, 8, 7, 6, 5, 4, 3, 2)) % 11
    good: Mask = passes_luhn(rows) & (
        np.where(rest < 2, 0, 11 - rest) == character_values(rows)[:, 8]
    )
    return good


KINDS = (
    make_national_id(
        name="PT_NIF",
        about="a Portuguese tax number",
        country="PT",
        # in groups without a label only where it is no part of a telephone number: these begin with
        # 2 and 9, with the country with 351
        bare_pattern="1[0-9]{2} [0-9]{3} [0-9]{3}",
        labelled_pattern=(
            "[1-35-9][0-9]{8}|45[0-9]{7}|[1-35-9][0-9]{2}[ .][0-9]{3}[ .][0-9]{3}|45[0-9]["
            " .][0-9]{3}[ .][0-9]{3}"
        ),
        labels=(
            "NIF",
            "NIPC",
            "Contribuinte",
            "Número de contribuinte",
            "Identificação fiscal",
        ),
        is_valid=_is_nif,
        alphabets=[b"1", *[DIGITS] * 8],
        check_length=1,
        first_bytes=b"1CINcin",
        hits=(
            ("NIF: 123456789", "123456789"),
            ("número de contribuinte 123.456.789", "123.456.789"),
            ("123 456 789", "123 456 789"),
        ),
        near_misses=(
            "NIF: 123456788",
            "123456789",
            "123 456 788",
        ),
    ),
    make_national_id(
        name="PT_CITIZEN_CARD",
        about="a document number of a Portuguese citizen card",
        country="PT",
        bare_pattern="[0-9]{8} ?[0-9] ?[A-Z][A-Z0-9][0-9]",
        further_labels=("Cartão de cidadão",),
        is_valid=_is_card,
        alphabets=[b"123", *[DIGITS] * 8, CAPITALS, CAPITALS, DIGITS],
        check_length=1,
        rank=STRONG_CHECK_RANK,
        first_bytes=DIGITS,
        hits=(("12345678 9 ZZ1", "12345678 9 ZZ1"),),
        near_misses=("12345678 9 ZZ2",),
    ),
)
