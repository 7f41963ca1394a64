"""Payment card numbers: 13 to 19 digits in one piece, in fours, or as American Express and Diners write them (4-6-5, 4-6-4), between
blanks or hyphens of any sort, or dots.

A fifth group is taken only behind hyphens: after blanks it is more often the security code, and the card would fail its check sum
with it. Identity: the digits.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from sanitize.core.keys import Draws
from sanitize.kinds.kind import APART, BOUND, I64, U8, Kind, digits, grid, loosened, reshaped, ungrid

_ISSUERS = (  # first and last four digits, and lengths in use (ISO/IEC 7812 ranges as the networks publish them)
    (1800, 1800, (15,)),  # JCB
    (2131, 2131, (15,)),
    (2200, 2204, (16, 17, 18, 19)),  # Mir
    (2221, 2720, (16,)),  # Mastercard
    (3000, 3059, (14, 16)),  # Diners
    (3095, 3095, (14, 16)),
    (3400, 3499, (15,)),  # American Express
    (3500, 3599, (16, 17, 18, 19)),  # JCB; of its neighbours, nobody else's
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
_LENGTHS = np.zeros(10_000, np.uint32)  # bit n of entry p: numbers that begin with p may have n digits
for _low, _high, _sizes in _ISSUERS:
    _LENGTHS[_low : _high + 1] |= np.uint32(sum(1 << size for size in _sizes))
_TESTS = (  # the six digits that open the test cards of the networks; later ones win
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


def _check(values: pl.Series) -> pl.Series:
    rows = grid(_normalise(values))
    sizes = (rows != 0).sum(axis=1)
    same = (np.where(rows == 0, rows[:, :1], rows) == rows[:, :1]).all(axis=1)
    known = (_LENGTHS[_prefix(rows)] >> sizes.astype(np.uint32)) & 1
    sound = _luhn(rows) == 0
    return pl.select(
        pl.when(pl.Series(~sound, dtype=pl.Boolean))
        .then(pl.lit("luhn"))
        .when(pl.Series(known == 0, dtype=pl.Boolean) | pl.Series(same, dtype=pl.Boolean))
        .then(pl.lit("issuer"))
    ).to_series()


def _prefix(rows: U8) -> I64:
    prefix: I64 = np.clip(rows[:, :4].astype(np.int64) - 48, 0, 9) @ np.array([1000, 100, 10, 1])
    return prefix


def _luhn(rows: U8) -> I64:
    """The Luhn sum modulo ten of every row of digits, counted from its last digit."""
    filled = rows != 0
    value = np.where(filled, rows.astype(np.int64) - 48, 0)
    second = (filled.sum(axis=1)[:, None] - np.arange(rows.shape[1])) % 2 == 0
    value = np.where(second, 2 * value - 9 * (value > 4), value)
    total: I64 = value.sum(axis=1) % 10
    return total


def _normalise(values: pl.Series) -> pl.Series:
    return values.str.replace_all("[^0-9]", "")


def _fake(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Same network, length and separators, digits drawn anew, a check digit that fits. Visa keeps its first digit, the others four:
    they name the network. `reserved` opens with the six digits of the network's published test cards."""
    rows = grid(values)
    is_digit = digits(rows)
    place = np.cumsum(is_digit, axis=1) - 1
    kept = np.where(rows[:, 0] == ord("4"), 1, 4)[:, None]
    out = grid(reshaped(values, draws, (place < kept)[rows != 0]))
    if reserved:
        plain = _normalise(values)
        for begin, test in _TESTS:
            some = plain.str.contains(rf"\A(?:{begin})").to_numpy()[:, None]
            for at, byte in enumerate(test.encode()):
                out[some & is_digit & (place == at)] = byte
    last = is_digit & (place == is_digit.sum(axis=1)[:, None] - 1)
    out[last] = 48
    check = 48 + (-_luhn(grid(_normalise(ungrid(out))))) % 10
    out[last] = check[last.any(axis=1)]  # a spelling in other digits than ours has none to be drawn
    return ungrid(out, values.name)


KIND = Kind(
    name="CREDIT_CARD",
    about="a payment card number",
    # a fifth group is behind plain hyphens, and gaps are wide where all are: else what stands beside a card would spoil its check sum
    pattern=rf"{BOUND}(?:[2-6][0-9]{{3}}(?:-[0-9]{{4}}){{3}}-[0-9]{{1,3}}|"
    + loosened(
        "[2-6][0-9]{12,18}|1800[0-9]{11}|(?:5[0678]|6[37])[0-9]{10}|[2-6][0-9]{3}(?:-[0-9]{4}){3}|"
        "[2-6][0-9]{3}(?:[ -][0-9]{4}){2}[ -][0-9]{1,4}|3[0-9]{3}[ -][0-9]{6}[ -][0-9]{4,5}",
        twice=False,
    )
    + rf"|[2-6][0-9]{{3}}(?:{APART}[0-9]{{4}}){{3}}|3[0-9]{{3}}{APART}[0-9]{{6}}{APART}[0-9]{{4,5}}"
    + rf"|[2-6][0-9]{{3}}(?:[.][0-9]{{4}}){{3}}|3[0-9]{{3}}[.][0-9]{{6}}[.][0-9]{{4,5}}){BOUND}",
    check=_check,
    normalise=_normalise,
    fake=_fake,
    turn=2,
    numeric=True,
    rank=45,
)
