"""Telephone numbers: North American ones as they are written there, with an extension, and any number that says its country by `+`.

Numbers without a country code from elsewhere are not taken: their digits alone do not tell them from other numbers. Where the
numbers of a country have one usual length, the pattern stops there, so that `+33 1 70 18 99 00 12 rue` ends with the number.
Identity: E.164 (`+` and digits, a trunk `(0)` left out), with `x` and the extension behind.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from sanitize.keyed import Draws
from sanitize.kinds.kind import BOUND, I64, Kind, digits, drawn, first_in, grid, joined, parted, reshaped, table_of, ungrid

_TAIL = table_of(b",ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")  # an extension begins with one of these
_GAP = "[ .()/-]{0,2}"
_EXTENSION = r"(?:,? {0,2}(?:[Xx]|[Ee][Xx][Tt](?:[.]|ension)?)[ .:]{0,2}[0-9]{1,6})?"
_AMERICA = rf"(?:(?:[+]|{BOUND})1[ .-]{{0,2}})?(?:[(][0-9]{{3}}[)][ .-]{{0,2}}|{BOUND}[0-9]{{3}}[ ./-])[0-9]{{3}}[ .-][0-9]{{4}}"
_USUAL = {  # digits after the country code (ITU-T E.164 national plans; others fall to the general form)
    8: "45|47|65|852|372|371",
    9: "27|31|32|33|34|41|48|61|351|353|380|966|971|972",
    10: "1|7|20|30|40|44|52|54|57|63|81|90|91|92|98",
    11: "55|86",
}
_ABROAD = "|".join(
    [rf"(?:{codes}){_GAP}(?:[(]0[)]{_GAP})?[0-9](?:{_GAP}[0-9]){{{size - 1}}}{_EXTENSION}{BOUND}" for size, codes in _USUAL.items()]
    + [rf"[1-9][0-9](?:{_GAP}[0-9]){{6,13}}{_EXTENSION}{BOUND}"]
)


def _check(values: pl.Series) -> pl.Series:
    """`range` for area or exchange codes North America does not have, `impossible` for lengths a country does not have."""
    number = _normalise(values)
    if number.str.contains("x", literal=True).any():
        number = number.str.replace(r"x.*\z", "")
    america = number.str.starts_with("+1")
    reasons = pl.select(pl.when(america & ~number.str.contains(r"\A[+]1[2-9][0-9]{2}[2-9][0-9]{6}\z")).then(pl.lit("range"))).to_series()
    return reasons.scatter((~america).arg_true(), [None if _code(value)[1] else "impossible" for value in number.filter(~america)])


def _code(number: str) -> tuple[int, bool]:
    """The length of the country code, and whether the number can be one. libphonenumber has no columnar form.

    It knows today's plans only: eight national digits pass for any country, since plans grow (+225 and +229 had eight, now ten).
    """
    import phonenumbers

    try:
        parsed = phonenumbers.parse(number, None)
    except phonenumbers.NumberParseException:
        return 1, False
    why = phonenumbers.is_possible_number_with_reason(parsed)
    short = why in (phonenumbers.ValidationResult.TOO_SHORT, phonenumbers.ValidationResult.INVALID_LENGTH)
    known = phonenumbers.is_possible_number(parsed) or (short and len(phonenumbers.national_significant_number(parsed)) >= 8)
    return len(str(parsed.country_code)), known


def _normalise(values: pl.Series) -> pl.Series:
    flat, offsets = joined(values)
    starts, stops = offsets[:-1], offsets[1:]
    row = np.repeat(np.arange(len(values)), np.diff(offsets))
    ends = first_in(_TAIL[flat], starts, stops)
    keep = digits(flat) & (np.arange(len(flat)) < ends[row])
    trunk = np.flatnonzero((flat[:-2] == ord("(")) & (flat[1:-1] == ord("0")) & (flat[2:] == ord(")"))) + 1
    trunk = trunk[row[trunk - 1] == row[trunk + 1]]
    keep[trunk[np.append(True, np.diff(row[trunk]) > 0)[: len(trunk)]]] = False
    digit = np.flatnonzero(keep)
    count = np.bincount(row[digit], minlength=len(values))
    plus = np.append(flat, np.uint8(0))[starts] == ord("+")
    lead = 1 + (~plus & (count == 10))
    edges = np.concatenate([[0], np.cumsum(count + lead)])
    out = np.full(int(edges[-1]), ord("+"), np.uint8)
    out[edges[:-1][lead == 2] + 1] = ord("1")
    out[np.arange(len(digit)) + np.cumsum(lead)[row[digit]]] = flat[digit]
    number = parted(out, edges, values.name)
    tailed = np.flatnonzero(ends < stops)
    if len(tailed):
        extension = pl.lit("x") + pl.col("value").str.extract(r"[Xx][A-Za-z]*[ .:]*([0-9]+)\z")
        tails = pl.DataFrame({"value": values.gather(tailed)}).select(extension.fill_null("")).to_series()
        number = number.scatter(tailed, number.gather(tailed) + tails)
    return number


def _fake(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Country code, separators and the place of an extension stay, the digits are drawn anew. `reserved`: 555-0100 to 0199 of a
    drawn area; other countries have no such range in common.
    """
    number = _normalise(values)
    america = number.str.starts_with("+1")
    kept = (
        (values.str.starts_with("1") | values.str.starts_with("+1")).to_numpy().astype(np.int64)
    )  # a leading 1 is the country code, bare numbers have none
    abroad = np.flatnonzero(~america.to_numpy())
    if len(abroad):
        plain = number.gather(abroad).str.replace(r"x.*\z", "")
        codes = {value: _code(value)[0] for value in plain.unique()}
        kept[abroad] = [codes[value] for value in plain]
    out = _american(_redrawn(values, draws, kept), draws, kept, america.to_numpy(), reserved)
    # a drawn leading digit can read as a trunk prefix: such rows keep more and more of their own
    for more in range(1, 5) if len(abroad) else ():
        bad = abroad[_check(out.gather(abroad)).is_not_null().to_numpy()]
        out = out.scatter(bad, _redrawn(values.gather(bad), draws.rows(bad), kept[bad] + more))
    return out.alias(values.name)


def _redrawn(values: pl.Series, draws: Draws, kept: I64) -> pl.Series:
    """All digits drawn anew but the first `kept` and a trunk `(0)`."""
    rows = grid(values)
    keep = ~digits(rows) | (np.cumsum(digits(rows), axis=1) <= kept[:, None])
    keep[:, 1:-1] |= (rows[:, :-2] == ord("(")) & (rows[:, 1:-1] == ord("0")) & (rows[:, 2:] == ord(")"))
    return reshaped(values, draws, keep[rows != 0], first_lane=8)


def _american(values: pl.Series, draws: Draws, kept: I64, america: npt.NDArray[np.bool_], reserved: bool) -> pl.Series:
    """North American rows with an area and an exchange that can be; 555 is left to `reserved`."""
    rows = grid(values)
    place = np.where(digits(rows) & america[:, None], np.cumsum(digits(rows), axis=1) - 1 - kept[:, None], -1)

    def put(at: int, digit: I64 | int, where: npt.NDArray[np.bool_] = america) -> None:
        spot = (place == at) & where[:, None]
        rows[spot] = np.broadcast_to(np.reshape(48 + digit, (-1, 1)), rows.shape)[spot]

    put(0, 2 + drawn(draws, 0, 8))
    put(3, 2 + drawn(draws, 1, 8))
    fives = ((place >= 3) & (place <= 5) & (rows == ord("5"))).sum(axis=1) == 3
    put(4, drawn(draws, 2, 5), fives)
    for at, digit in enumerate((5, 5, 5, 0, 1)) if reserved else ():
        put(3 + at, digit)
    return ungrid(rows)


KIND = Kind(
    name="PHONE_NUMBER",
    about="a telephone number of North America, or with a country code",
    pattern=rf"{_AMERICA}{_EXTENSION}{BOUND}|[+](?:{_ABROAD})",
    check=_check,
    normalise=_normalise,
    fake=_fake,
    rank=60,
)
