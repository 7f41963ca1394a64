"""What national identifiers have in common: a number in groups, check characters at its end, and a word before it that says what it is.

A number with a strong check, or in the groups of its country, is found by itself; one that a tenth of all numbers of its length would
pass is found in a row of bare digits only behind its name (`NHS number: 9434765919`). The name before it also decides against other
kinds, since a match that begins earlier wins: without it, a number written like a telephone number is one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from sanitize.core.keys import Draws
from sanitize.kinds.kind import BLANKS, BOUND, HYPHENS, I64, U8, Kind, drawn, grid, loosened, ungrid

Bools = npt.NDArray[np.bool_]
DIGITS = b"0123456789"
LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
# after all kinds that are looked for everywhere: a national number takes no telephone number and no date of others
RANK = 80
STRONG = 44  # before CREDIT_CARD, whose pattern takes 13 to 19 digits: for numbers that hold a date of birth and a check digit besides
_GAP = (
    "(?:[ -]?(?:[Nn]umber|NUMBER|[Nn]ummer|[Nn]umero|[Nn]o[.]|[Nn]o|NO|[Nn]r[.]?|[Nn]um[.]?|"
    "ID|[Ii]d|n°|nº|№))?(?: is| est| ist|[ \\t:：#=-]){1,3}"
)
# Verhoeff's multiplication in the dihedral group of ten, and the powers of his permutation
_TIMES = np.array(
    [
        [(a + b) % 5 if a < 5 and b < 5 else (a + b - 5) % 5 + 5 if a < 5 else (a - b) % 5 + 5 if b < 5 else (a - b) % 5 for b in range(10)]
        for a in range(10)
    ]
)
_STEP = np.array([1, 5, 7, 6, 2, 8, 3, 0, 9, 4])
_ROUNDS = 400  # of drawing a fake again whose check does not fit; three rounds do for most


def words(*names: str) -> str:
    """Names as people write them: as given, in small and in capital letters."""
    forms = dict.fromkeys(form for name in names for form in (name, name.lower(), name.upper()))
    return "(?:" + "|".join((BOUND if form.isascii() else "") + form.replace(".", "[.]") for form in forms) + ")"


def values_of(rows: U8) -> I64:
    """Digits as 0 to 9, capital letters as 10 to 35."""
    value = rows.astype(np.int64)
    return np.where(value >= 65, value - 55, value - 48)


def weighted(rows: U8, weights: Sequence[int]) -> I64:
    """The sum of the first digits, each by its weight."""
    total: I64 = values_of(rows[:, : len(weights)]) @ np.array(weights, np.int64)
    return total


def luhn(rows: U8) -> Bools:
    """True where the digits pass the check of ISO/IEC 7812."""
    value = values_of(rows)
    second = (rows.shape[1] - np.arange(rows.shape[1])) % 2 == 0
    good: Bools = np.where(second, 2 * value - 9 * (value > 4), value).sum(axis=1) % 10 == 0
    return good


def verhoeff(rows: U8) -> Bools:
    """True where the last digit is Verhoeff's check digit (J. Verhoeff, Error Detecting Decimal Codes, 1969)."""
    value = values_of(rows)
    state, turned = np.zeros(len(rows), np.int64), np.arange(10)
    for column in range(value.shape[1] - 1, -1, -1):
        state = _TIMES[state, turned[value[:, column]]]
        turned = _STEP[turned]
    good: Bools = state == 0
    return good


def mod11_10(rows: U8) -> Bools:
    """True where the last digit is the check digit of ISO 7064 MOD 11,10."""
    value = values_of(rows)
    product = np.full(len(rows), 10, np.int64)
    for column in range(value.shape[1] - 1):
        total = (value[:, column] + product) % 10
        product = 2 * np.where(total == 0, 10, total) % 11
    good: Bools = (11 - product) % 10 == value[:, -1]
    return good


def mod97(rows: U8) -> Bools:
    """True where digits and capital letters (10 to 35) make a number whose remainder is that of ISO 7064 MOD 97-10."""
    rest = np.zeros(len(rows), np.int64)
    for value in values_of(rows).T:
        rest = np.where(value > 9, rest * 100 + value, rest * 10 + value) % 97
    good: Bools = rest == 1
    return good


def is_date(year: I64, month: I64, day: I64) -> Bools:
    """True where the three are a day of the calendar."""
    days = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
    known = (month >= 1) & (month <= 12)
    last = days[np.where(known, month, 0)] + ((month == 2) & (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0)))
    good: Bools = known & (day >= 1) & (day <= last)
    return good


def two(rows: U8, at: int) -> I64:
    """The number that two digits make."""
    pair: I64 = (rows[:, at].astype(np.int64) - 48) * 10 + rows[:, at + 1].astype(np.int64) - 48
    return pair


def number(
    *,
    name: str,
    about: str,
    country: str,
    alone: str,
    sound: Callable[[U8], Bools],
    alphabets: Sequence[bytes],
    tail: int,
    named: str | None = None,
    behind: str | None = None,
    reserved: Sequence[bytes] | None = None,
    separators: bytes = b" ./-",
    make: Callable[[U8, Draws], U8] | None = None,
    rank: int = RANK,
    turn: int = 2,
    shorten: Callable[[pl.Series], pl.Series] | None = None,
) -> Kind:
    """A national identifier.

    alone      What is found by itself; `behind`: what is found besides, behind one of the words `named`.
    sound      True where the characters of an identity form are such a number: check characters, dates, ranges.
    alphabets  What may stand in each place of the identity form; its length is theirs. A fake is drawn from them, or by `make`; the last
               `tail` places are then set so that it is sound. `reserved`: the same for numbers given to nobody.
    turn       3 where a telephone number may have the same shape, and should be taken for one (see `Kind.turn`).
    separators Bytes between the groups, which the identity form leaves out; `shorten` makes the identity form of what is then left.
    """
    width = len(alphabets)
    known = behind if behind is not None else alone
    if separators:  # by itself it has no wide gaps: these lead to the next thing of a line
        alone, known = loosened(alone, twice=False), loosened(known)
    gaps = separators.decode().replace("-", "") + BLANKS + HYPHENS

    def normalise(values: pl.Series) -> pl.Series:
        plain = values.str.replace_all(f"[{gaps}]", "") if separators else values
        plain = plain.str.to_uppercase()
        return plain if shorten is None else shorten(plain)

    def check(values: pl.Series) -> pl.Series:
        plain = normalise(values)
        rows = grid(plain, width)[:, :width]
        good = (plain.str.len_bytes() == width).to_numpy() & sound(rows)
        return pl.select(pl.when(pl.Series(~good, dtype=pl.Boolean)).then(pl.lit("checksum"))).to_series()

    def fake(values: pl.Series, draws: Draws, public: bool) -> pl.Series:
        """Another number that its own check accepts, in the groups of the value; dates in it are drawn anew as well."""
        out = np.zeros((len(values), width), np.uint8)
        tables = [np.frombuffer(one, np.uint8) for one in (reserved if public and reserved is not None else alphabets)]
        pending = np.arange(len(values))
        for attempt in range(_ROUNDS):
            mine = draws.rows(pending).within(attempt, _ROUNDS)
            made = out[pending]
            for place, table in enumerate(tables):
                made[:, place] = table[drawn(mine, place, len(table))]
            if make is not None:
                made = make(made, mine)
            made, good = _fitted(made, sound, tables[width - tail :] if tail else [])
            out[pending] = made
            pending = pending[~good]
            if not len(pending):
                break
        return _laid(values, out, separators)

    pattern = rf"{BOUND}(?:{alone}){BOUND}"
    lead = None
    if named is not None:
        lead = loosened(rf"{named}{_GAP}", twice=False)
        pattern += rf"|{lead}(?:{known}|{alone}){BOUND}"
    return Kind(
        name=name,
        about=about,
        country=country,
        pattern=pattern,
        check=check,
        normalise=normalise,
        fake=fake,
        lead=lead,
        turn=turn,
        numeric=True,
        rank=rank,
    )


def _fitted(rows: U8, sound: Callable[[U8], Bools], tables: Sequence[U8]) -> tuple[U8, Bools]:
    """The rows with their last places set so that they are sound, as far as that can be, and which are."""
    good = sound(rows) if not tables else np.zeros(len(rows), np.bool_)
    for ending in itertools.product(*(table.tolist() for table in tables)) if tables else ():
        rest = np.flatnonzero(~good)
        if not len(rest):
            break
        tried = rows[rest]
        tried[:, rows.shape[1] - len(ending) :] = ending
        fits = sound(tried)
        rows[rest[fits]] = tried[fits]
        good[rest[fits]] = True
    return rows, good


def _laid(values: pl.Series, made: U8, separators: bytes) -> pl.Series:
    """Characters put into the values from the right, past their separators."""
    rows = grid(values)
    # what a number holds beyond ASCII stands between its groups
    place = (rows != 0) & (rows < 128) & ~np.isin(rows, list(separators))
    at = made.shape[1] - place.sum(axis=1)[:, None] + np.cumsum(place, axis=1) - 1
    put = place & (at >= 0)
    rows[put] = np.take_along_axis(made, np.maximum(at, 0), axis=1)[put]
    return ungrid(rows, values.name)
