"""Payment card numbers: 13 to 19 digits unbroken, in groups of four, or grouped as American Express
and Diners do (4-6-5, 4-6-4), with blanks or hyphens of any form, or dots, between the groups.

A fifth group is matched only after hyphens: after blanks it is more often the security code, and
with it the card number would fail its check sum. Fourteen digits and more are also found inside a
word (`scan_4539578763621486.pdf`, `id4539578763621486`), but not in a hexadecimal number of twenty
digits and more. Digits behind a decimal point, four groups in a row of numbers, and the number
after the word for another one (`EAN`, `IMEI`) are no card; twelve and thirteen unbroken digits are
one only beside a word for a card, as those of goods are as frequent. Normalised form: the digits.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from sanitize.array_types import I64, U8
from sanitize.core.keys import Draws
from sanitize.kernels import check_digits
from sanitize.kinds.kind import (
    BLANKS,
    BOUNDARY,
    LETTERS,
    WIDE_GAP,
    WORD_BEFORE,
    Kind,
    digit_mask,
    flatten_strings,
    from_byte_matrix,
    is_in_number_row,
    redraw_characters,
    to_byte_matrix,
    widen_separators,
)

# first and last prefix of four digits, and number lengths in use (ISO/IEC 7812 ranges as the
# networks publish them)
_ISSUER_RANGES = (
    (1800, 1800, (15,)),  # JCB
    (2131, 2131, (15,)),
    (2200, 2204, (16, 17, 18, 19)),  # Mir
    (2221, 2720, (16,)),  # Mastercard
    (3000, 3059, (14, 16)),  # Diners
    (3095, 3095, (14, 16)),
    (3400, 3499, (15,)),  # American Express
    # JCB; the prefixes next to JCB's own belong to no other network
    (3500, 3599, (16, 17, 18, 19)),
    (3600, 3699, (14, 15, 16, 17, 18, 19)),  # Diners
    (3700, 3799, (15,)),
    (3800, 3999, (14, 16)),
    (4000, 4999, (13, 16, 19)),  # Visa
    (5000, 5099, (12, 13, 14, 15, 16, 17, 18, 19)),  # Maestro and others
    (5100, 5599, (16,)),  # Mastercard
    (5600, 5899, (12, 13, 14, 15, 16, 17, 18, 19)),
    (6000, 6999, (13, 14, 15, 16, 17, 18, 19)),  # Maestro, Discover, UnionPay, RuPay
    (6304, 6304, (12, 13, 14, 15, 16, 17, 18, 19)),
    (6759, 6763, (12, 13, 14, 15, 16, 17, 18, 19)),
)
_LENGTHS_BY_PREFIX = [0] * 10_000  # bit n of entry p: numbers that begin with p may have n digits
for _low, _high, _sizes in _ISSUER_RANGES:
    for _prefix in range(_low, _high + 1):
        _LENGTHS_BY_PREFIX[_prefix] |= sum(1 << size for size in _sizes)
# (first digits of a number, first six digits of that network's test cards); later entries take
# precedence
_TEST_CARD_PREFIXES = (
    ("2", "222300"),
    ("3", "305693"),
    ("34|37", "378282"),
    ("35", "356600"),
    ("36", "360072"),
    ("4", "400000"),
    ("5", "555555"),
    ("50|56|57|58", "501800"),
    ("6", "601111"),
)


def _accepts(candidates: pl.DataFrame) -> pl.Series:
    """True for what the pattern matches from end to end, unless it is a hexadecimal number with
    letters or a number of a program (`4111111111111111ULL`)."""
    value = candidates["value"]
    return value.str.contains(
        rf"\A(?:{KIND.pattern}|{KIND.embedded_pattern})\z"
    ) & ~value.str.contains(_HEXADECIMAL)


def _check(values: pl.Series) -> pl.Series:
    """`luhn` for a wrong check digit, `issuer` for a prefix or length that no network uses or for
    equal digits; else null."""
    numbers = _normalise(values)
    remainders = _luhn_remainders(*flatten_strings(numbers)).tolist()
    return pl.Series(
        [
            _refusal_reason(number, remainder)
            for number, remainder in zip(numbers, remainders, strict=True)
        ],
        dtype=pl.String,
    )


def _refusal_reason(number: str, luhn_remainder: int) -> str | None:
    if luhn_remainder:
        return "luhn"
    is_issued = _LENGTHS_BY_PREFIX[int(number[:4] or 0)] >> len(number) & 1
    return None if is_issued and len(set(number)) > 1 else "issuer"


def _luhn_remainders(flat: U8, offsets: I64) -> I64:
    """The Luhn sum modulo ten of every row of digits, as `flatten_strings` returns them."""
    remainders = np.empty(len(offsets) - 1, np.int64)
    check_digits.luhn_remainders(flat, offsets, remainders)
    return remainders


def _needs_context(values: pl.Series) -> pl.Series:
    return values.str.contains(rf"\A[0-9]+\z|[{BLANKS}]")


def _has_context(candidates: pl.DataFrame) -> pl.Series:
    """False for decimals, rows of numbers and numbers with another name; for twelve and thirteen
    digits, True only beside a word for a card."""
    before, spelled = (pl.col(name).str.to_lowercase() for name in ("before", "spelled"))
    value, after = pl.col("value"), pl.col("after")
    is_decimal = before.str.contains(_DECIMAL_POINT) | after.str.contains(r"\A[.][0-9]")
    has_card_word = spelled.str.contains(_CARD_WORDS) | after.str.contains(
        r"(?i)\A.{0,4}(?:exp|cv[vc])"
    )
    is_unsure = value.str.contains(r"\A[0-9]{12,13}\z") | (
        value.str.contains(f"[{BLANKS}]") & is_in_number_row()
    )
    return candidates.select(
        ~(value.str.contains(r"\A[0-9]+\z") & is_decimal)
        & ~before.str.contains(_OTHER_NUMBER)
        & (has_card_word | ~is_unsure)
    ).to_series()


def _normalise(values: pl.Series) -> pl.Series:
    return values.str.replace_all("[^0-9]", "")


def _make_surrogates(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Numbers of the same network, length and separators, with redrawn digits and a valid check
    digit.

    Visa numbers keep their first digit, others their first four, since these identify the network.
    With `reserved`, a number begins with the six digits of the network's published test cards.
    """
    rows = to_byte_matrix(values)
    is_digit = digit_mask(rows)
    digit_no = np.cumsum(is_digit, axis=1) - 1
    kept = np.where(rows[:, 0] == ord("4"), 1, 4)[:, None]
    out = to_byte_matrix(redraw_characters(values, draws, (digit_no < kept)[rows != 0]))
    if reserved:
        plain = _normalise(values)
        for begin, test in _TEST_CARD_PREFIXES:
            is_network = plain.str.contains(rf"\A(?:{begin})").to_numpy()[:, None]
            for at, byte in enumerate(test.encode()):
                out[is_network & is_digit & (digit_no == at)] = byte
    last = is_digit & (digit_no == is_digit.sum(axis=1)[:, None] - 1)
    out[last] = 48
    check = 48 + (-_luhn_remainders(*flatten_strings(_normalise(from_byte_matrix(out))))) % 10
    # rows without ASCII digits (spelled in digits of another script) have no last digit
    out[last] = check[last.any(axis=1)]
    return from_byte_matrix(out, values.name)


# inside a word: not thirteen digits, as those of goods and time stamps have
_EMBEDDED = "(?:[2-6][0-9]{13,18}|1800[0-9]{11}|[2-6][0-9]{3}(?:-[0-9]{4}){3}|3[0-9]{3}-[0-9]{6}-[0-9]{4,5})"  # noqa: E501
_DECIMAL_POINT = r"(?:[0-9]|\A|[\s\[({,;:=<>*/+-])[.]\z"
_CARD_WORDS = (
    "card|kart|kaart|carte|tarjeta|cart[aã]o|carta|kort|kred|debit|visa|master|maestro|amex|"
    "american express|diners|discover|jcb|union ?pay|rupay|payment|"
    r"(?:\A|[^a-z])(?:cc|pan|mir)(?:[^a-z]|\z)|"
    r"карт|卡|カード|카드|บัตร|بطاق|کارت|כרטיס|κάρτ|कार्ड|কার্ড|thẻ"
)
_CARD_WORD_AFTER = r"(?i)\A.{0,4}(?:exp|cv[vc])"
_OTHER_NUMBER = (
    r"(?:ean|gtin|upc|isbn|barcode|imei|imsi|iccid|(?:trace|span)[_-]?id)(?:[ -]?1[34])?"
    r"(?:[ .]{1,2}(?:no|nr|number))?[^a-z0-9]{1,4}\z"
)
_WORD_AFTER = f"(?:_|[A-Za-z]+{BOUNDARY})"
_HEXADECIMAL = (  # cards have nineteen digits at most
    r"(?:\A|_)(?:[0-9a-f]{20,}|[0-9A-F]{20,})(?:_|\z)"
    # ... and an integer with the suffix of its type in a program
    r"|\A[0-9]+(?:[Uu][Ll]{0,2}|[Ll]{1,2}|n)\z"
)
_TWO_SPELLINGS = ("4111 1111 1111 1111", "4111111111111111")  # of an example
KIND = Kind(
    name="CREDIT_CARD",
    about="a payment card number",
    category="financial",
    field_names=tuple(
        (
            "credit card|credit card number|credit card no|card number|card no|card num|"
            "cc number|cc no|cc num|ccn|debit card|debit card number|payment card|"
            "payment card number|kreditkarte|kreditkartennummer|kartennummer|"
            "carte de credit|numero de carte|carte bancaire|numero de carte bancaire|"
            "tarjeta|tarjeta de credito|numero de tarjeta|cartao|cartao de credito|"
            "numero do cartao|carta di credito|numero carta|numero della carta|"
            "creditcard|creditcardnummer|kaartnummer|karta kredytowa|numer karty|信用卡|"
            "信用卡号|信用卡號|卡号|クレジットカード|クレジットカード番号|カード番号|"
            "card pan|primary account number"
        ).split("|")
    ),
    aliases=(
        "CREDITCARDNUMBER",
        "CREDITCARD",
    ),
    # a fifth group only after plain hyphens, and wide gaps only where all gaps are wide: otherwise
    # a number next to the card would be matched with it and fail the check sum
    pattern=rf"{BOUNDARY}(?:[2-6][0-9]{{3}}(?:-[0-9]{{4}}){{3}}-[0-9]{{1,3}}|"
    + widen_separators(
        "[2-6][0-9]{12,18}|1800[0-9]{11}|(?:5[0678]|6[37])[0-9]{10}|[2-6][0-9]{3}(?:-[0-9]{4}){3}|"
        "[2-6][0-9]{3}(?:[ -][0-9]{4}){2}[ -][0-9]{1,4}|3[0-9]{3}[ -][0-9]{6}[ -][0-9]{4,5}",
        allow_repeated=False,
    )
    + rf"|[2-6][0-9]{{3}}(?:{WIDE_GAP}[0-9]{{4}}){{3}}|3[0-9]{{3}}{WIDE_GAP}[0-9]{{6}}{WIDE_GAP}[0-9]{{4,5}}"  # noqa: E501
    + rf"|[2-6][0-9]{{3}}(?:[.][0-9]{{4}}){{3}}|3[0-9]{{3}}[.][0-9]{{6}}[.][0-9]{{4,5}}){BOUNDARY}",
    embedded_pattern=(
        rf"(?:{WORD_BEFORE}[A-Za-z]*|{BOUNDARY}[A-Za-z]+){_EMBEDDED}(?:{BOUNDARY}|{_WORD_AFTER})|"
        # not the decimals of `2.4670000000000001E-2` or `0.4670000000000001f`
        rf"{BOUNDARY}{_EMBEDDED}(?:_|[A-CG-KM-Za-cg-km-z][A-Za-z]*{BOUNDARY})"
    ),
    prefix_pattern=rf"([A-Za-z0-9_]*[A-Za-z_]){_EMBEDDED}(?:_|[A-Za-z]*)\z",
    suffix_pattern="[0-9](_|[A-Za-z]+)",
    accepts=_accepts,
    check=_check,
    needs_context=_needs_context,
    context_rule=_has_context,
    normalise=_normalise,
    make_surrogates=_make_surrogates,
    phase=2,
    digit_lines_only=True,
    rank=45,
    first_bytes=b"123456_" + LETTERS,
    hits=(
        ("paid with 4111 1111 1111 1111 today", "4111 1111 1111 1111"),
        ("card 4111 1111 1111 1111 123", "4111 1111 1111 1111"),
        ("5555-5555-5555-4444, 3782 822463 10005", "5555-5555-5555-4444", "3782 822463 10005"),
        ("6011111111111117 30569309025904", "6011111111111117", "30569309025904"),
        ("4111.1111.1111.1111 or 3782.822463.10005.", "4111.1111.1111.1111", "3782.822463.10005"),
        ("180000000000002 and Maestro 501800000009", "180000000000002", "501800000009"),
        ("scan_4111111111111111.pdf id5555555555554444", "4111111111111111", "5555555555554444"),
        (
            "my_card_4111-1111-1111-1111_2 378282246310005x",
            "4111-1111-1111-1111",
            "378282246310005",
        ),
        ("Visa 4222222222222, номер карты 4222222222222", "4222222222222", "4222222222222"),
        ("3 4111 1111 1111 1111, and 7.\n4111111111111111", *_TWO_SPELLINGS),
    ),
    near_misses=(
        "111 4111 11111",
        "4111 1111 1111 1112",
        "2000 0000 0000 0006",
        "4111\n1111\n1111\n1111",
        "ab4111111111111111cd 0ab4111111111111111 x4111111111111111y0 v1_41111111111111111111",
        "4111111111111111ULL 2.4111111111111111E-2 0.4111111111111111f",
        "img_4006381333931.jpg 2024_4111111111111111",
        "4222222222222, EAN 4111111111111111, IMEI: 378282246310005",
        "[0.4111111111111111, .4111111111111111, 52.4222222222222], 4111111111111111.5",
        "17 4111 1111 1111 1111 90, 1.5 2 4111 1111 1111 1111\n4111 1111 1111 1111 2 3",
    ),
)
