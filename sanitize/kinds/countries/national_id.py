"""Common code of the national identifiers: `make_national_id` builds the `Kind`, and functions
compute the usual check digits.

A national identifier is a number in groups, with check characters at its end, and often a label
before it. A number with a strong check, or written in the groups of its country, is found by
itself. A number whose check a tenth of all numbers of its length would pass is found as bare digits
only after its label (`NHS number: 9434765919`). The label also takes precedence over other kinds,
since the match that begins first wins: without it, a number written like a telephone number is a
telephone number.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import polars as pl

from sanitize.array_types import I64, U8, Mask
from sanitize.core.keys import Draws
from sanitize.kinds.kind import (
    BLANKS,
    BOUNDARY,
    HYPHENS,
    Kind,
    LabelledForm,
    draw_indices,
    from_byte_matrix,
    to_byte_matrix,
    widen_separators,
)

# after all kinds that are searched in every plan: a national identifier must not match telephone
# numbers and dates
DEFAULT_RANK = 80
# before CREDIT_CARD, whose pattern matches 13 to 19 digits: for numbers that contain a date of
# birth and a check digit
STRONG_CHECK_RANK = 44
# between a label and its number: a word for number, whose it is (`NIF da senhora Costa`), and a
# verb or signs. Longer alternatives come first, since the label is also matched without the number
# behind it
_LABEL_GAP = (
    "(?:[ -]?(?:[Nn]umber|NUMBER|[Nn]ummer|[Nn]umero|[Nn]o[.]|[Nn]o|NO|[Nn]r[.]?|[Nn]um[.]?|ID|[Ii]d|n°|nº|№))?(?:"  # noqa: E501
    " (?:of|for|von|der|des|van|du|de|del|della|di|da|do)(?: [^ 0-9\\n]+){1,5})?(?: lautet| est|"
    " ist| es| is| é| è| to|は|が|[ \\t:：#=-]){1,3}"
)
# Verhoeff's multiplication in the dihedral group of order ten, and his permutation
_VERHOEFF_PRODUCTS = np.array(
    [
        [
            (
                (a + b) % 5
                if a < 5 and b < 5
                else (a + b - 5) % 5 + 5
                if a < 5
                else (a - b) % 5 + 5
                if b < 5
                else (a - b) % 5
            )
            for b in range(10)
        ]
        for a in range(10)
    ]
)
_VERHOEFF_PERMUTATION = np.array([1, 5, 7, 6, 2, 8, 3, 0, 9, 4])
# rounds in which surrogates that fail the check are drawn again; three rounds are enough for most
_MAX_ROUNDS = 400


def label_pattern(names: Iterable[str]) -> str:
    """A regular expression for the label of a number: each of `names` as given, in lower case and
    in upper case, with a word boundary before it if it is ASCII. Dots are escaped, other special
    characters are not."""
    names = sorted(names, key=len, reverse=True)  # the first that fits is cut off
    forms = dict.fromkeys(form for name in names for form in (name, name.lower(), name.upper()))
    return (
        "(?:"
        + "|".join(
            (BOUNDARY if form.isascii() else "") + form.replace(".", "[.]") for form in forms
        )
        + ")"
    )


def character_values(rows: U8) -> I64:
    """The check-digit value of each ASCII byte of a matrix with one number per row: digits 0 to 9,
    upper-case letters 10 to 35."""
    value = rows.astype(np.int64)
    return np.where(value >= 65, value - 55, value - 48)


def weighted_sum(rows: U8, weights: Sequence[int]) -> I64:
    """The weighted sum of the first characters of each row, one for each of `weights`."""
    total: I64 = character_values(rows[:, : len(weights)]) @ np.array(weights, np.int64)
    return total


def passes_luhn(rows: U8) -> Mask:
    """True where the digits pass the Luhn check (ISO/IEC 7812)."""
    value = character_values(rows)
    second = (rows.shape[1] - np.arange(rows.shape[1])) % 2 == 0
    good: Mask = np.where(second, 2 * value - 9 * (value > 4), value).sum(axis=1) % 10 == 0
    return good


def passes_verhoeff(rows: U8) -> Mask:
    """True where the last digit is Verhoeff's check digit (J. Verhoeff, Error Detecting Decimal
    Codes, 1969)."""
    value = character_values(rows)
    state, turned = np.zeros(len(rows), np.int64), np.arange(10)
    for column in range(value.shape[1] - 1, -1, -1):
        state = _VERHOEFF_PRODUCTS[state, turned[value[:, column]]]
        turned = _VERHOEFF_PERMUTATION[turned]
    good: Mask = state == 0
    return good


def passes_mod11_10(rows: U8) -> Mask:
    """True where the last digit is the check digit of ISO 7064 MOD 11,10."""
    value = character_values(rows)
    product = np.full(len(rows), 10, np.int64)
    for column in range(value.shape[1] - 1):
        total = (value[:, column] + product) % 10
        product = 2 * np.where(total == 0, 10, total) % 11
    good: Mask = (11 - product) % 10 == value[:, -1]
    return good


def passes_mod97(rows: U8) -> Mask:
    """True where digits and upper-case letters (10 to 35), read as one number, pass ISO 7064 MOD
    97-10 (remainder 1)."""
    rest = np.zeros(len(rows), np.int64)
    for value in character_values(rows).T:
        rest = np.where(value > 9, rest * 100 + value, rest * 10 + value) % 97
    good: Mask = rest == 1
    return good


def is_date(year: I64, month: I64, day: I64) -> Mask:
    """True where year, month and day are a date of the Gregorian calendar."""
    days = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
    known = (month >= 1) & (month <= 12)
    last = days[np.where(known, month, 0)] + (
        (month == 2) & (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    )
    good: Mask = known & (day >= 1) & (day <= last)
    return good


def two_digits(rows: U8, position: int) -> I64:
    """The two-digit number at a position of each row."""
    pair: I64 = (
        (rows[:, position].astype(np.int64) - 48) * 10 + rows[:, position + 1].astype(np.int64) - 48
    )
    return pair


def make_national_id(
    *,
    name: str,
    about: str,
    country: str,
    bare_pattern: str,
    is_valid: Callable[[U8], Mask],
    alphabets: Sequence[bytes],
    check_length: int,
    first_bytes: bytes,
    hits: tuple[tuple[str, ...], ...],
    near_misses: tuple[str, ...],
    labels: Sequence[str] = (),
    further_labels: Sequence[str] = (),
    labelled_pattern: str | None = None,
    reserved: Sequence[bytes] | None = None,
    separators: bytes = b" ./-",
    draw_characters: Callable[[U8, Draws], U8] | None = None,
    rank: int = DEFAULT_RANK,
    phase: int = 2,
    shorten: Callable[[pl.Series], pl.Series] | None = None,
) -> Kind:
    """The `Kind` of a national identifier; `first_bytes`, `hits` and `near_misses` are those of
    `Kind`.

    bare_pattern, labelled_pattern   What is found without a label; what is found in addition after
                                     the label. Default of the second: the
               first.
    labels     The words for the label, see `label_pattern`; `further_labels` name a value too, but
               are no part of `pattern`. NATIONAL_ID is found behind all of them.
    is_valid   True where the characters of a normalised form are such a number: check characters,
               dates, ranges.
    alphabets  The characters that surrogates may have at each position of the normalised form;
    their number is its length. Surrogates are
               drawn from them, or from `draw_characters`; the last `check_length` characters are
               then set so that `is_valid` is true.
    reserved   The same as `alphabets`, for numbers that are assigned to no one; used for surrogates
               with `reserved`.
    phase      3 where a telephone number may have the same shape and should take precedence (see
               `Kind.phase`).
    separators Bytes between the groups, which are removed in the normalised form; `shorten` then
    computes it from the rest.
    """
    width = len(alphabets)
    known = labelled_pattern if labelled_pattern is not None else bare_pattern
    # without a label, wide gaps are not allowed: they would join the number and what follows it on
    # the line
    if separators:
        bare_pattern, known = (
            widen_separators(bare_pattern, allow_repeated=False),
            widen_separators(known),
        )
    gaps = separators.decode().replace("-", "") + BLANKS + HYPHENS

    def normalise(values: pl.Series) -> pl.Series:
        plain = values.str.replace_all(f"[{gaps}]", "") if separators else values
        plain = plain.str.to_uppercase()
        return plain if shorten is None else shorten(plain)

    def check(values: pl.Series) -> pl.Series:
        plain = normalise(values)
        rows = to_byte_matrix(plain, width)[:, :width]
        good = (plain.str.len_bytes() == width).to_numpy() & is_valid(rows)
        return pl.select(
            pl.when(pl.Series(~good, dtype=pl.Boolean)).then(pl.lit("checksum"))
        ).to_series()

    def make_surrogates(values: pl.Series, draws: Draws, public: bool) -> pl.Series:
        """Numbers that the kind's own check accepts, in the groups of the value; dates in them are
        redrawn too."""
        out = np.zeros((len(values), width), np.uint8)
        tables = [
            np.frombuffer(one, np.uint8)
            for one in (reserved if public and reserved is not None else alphabets)
        ]
        pending = np.arange(len(values))
        for attempt in range(_MAX_ROUNDS):
            row_draws = draws.take(pending).nested_attempt(attempt, _MAX_ROUNDS)
            drawn = out[pending]
            for place, table in enumerate(tables):
                drawn[:, place] = table[draw_indices(row_draws, place, len(table))]
            if draw_characters is not None:
                drawn = draw_characters(drawn, row_draws)
            drawn, good = _fit_check_characters(
                drawn, is_valid, tables[width - check_length :] if check_length else []
            )
            out[pending] = drawn
            pending = pending[~good]
            if not len(pending):
                break
        return _fill_characters(values, out, separators)

    pattern = rf"{BOUNDARY}(?:{bare_pattern}){BOUNDARY}"
    prefix_pattern = None
    if labels:
        prefix_pattern = widen_separators(
            rf"{label_pattern(labels)}{_LABEL_GAP}", allow_repeated=False
        )
        pattern += rf"|{prefix_pattern}(?:{known}|{bare_pattern}){BOUNDARY}"
    return Kind(
        name=name,
        about=about,
        category="identifier",
        country=country,
        pattern=pattern,
        check=check,
        normalise=normalise,
        make_surrogates=make_surrogates,
        prefix_pattern=prefix_pattern,
        phase=phase,
        digit_lines_only=True,
        rank=rank,
        first_bytes=first_bytes + _first_bytes(labels),
        labelled_forms=(
            LabelledForm(
                labels=tuple(word.lower() for word in (*labels, *further_labels)),
                pattern=f"{known}|{bare_pattern}",
                check=lambda values: check(values).is_null(),
            ),
        ),
        hits=hits,
        near_misses=near_misses,
    )


def _first_bytes(labels: Sequence[str]) -> bytes:
    """The bytes that begin the labels in both letter cases."""
    return bytes({form.encode()[0] for one in labels for form in (one, one.lower(), one.upper())})


def _fit_check_characters(
    rows: U8, is_valid: Callable[[U8], Mask], tables: Sequence[U8]
) -> tuple[U8, Mask]:
    """The rows with their last characters (one from each of `tables`) set so that they are valid
    where possible, and which rows are."""
    good = is_valid(rows) if not tables else np.zeros(len(rows), np.bool_)
    for ending in itertools.product(*(table.tolist() for table in tables)) if tables else ():
        rest = np.flatnonzero(~good)
        if not len(rest):
            break
        tried = rows[rest]
        tried[:, rows.shape[1] - len(ending) :] = ending
        fits = is_valid(tried)
        rows[rest[fits]] = tried[fits]
        good[rest[fits]] = True
    return rows, good


def _fill_characters(values: pl.Series, characters: U8, separators: bytes) -> pl.Series:
    """The values with their characters replaced by `characters`, aligned at the right; separators
    stay."""
    rows = to_byte_matrix(values)
    # bytes beyond ASCII in a number are separators between its groups
    place = (rows != 0) & (rows < 128) & ~np.isin(rows, list(separators))
    at = characters.shape[1] - place.sum(axis=1)[:, None] + np.cumsum(place, axis=1) - 1
    put = place & (at >= 0)
    rows[put] = np.take_along_axis(characters, np.maximum(at, 0), axis=1)[put]
    return from_byte_matrix(rows, values.name)
