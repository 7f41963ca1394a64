"""IPv4 and IPv6 addresses, without port or prefix length.

Four dotted numbers are as often a version, a section or the middle of an OID: the pattern takes further groups along so that the
check can refuse them (`groups`), numbers that are all below ten are a `version`, and loopback, netmasks and the null addresses say
nothing about anyone (`reserved`). Identity: no leading zeros; IPv6 in the form of RFC 5952.
"""

from __future__ import annotations

import ipaddress

import numpy as np
import polars as pl

from sanitize.keyed import Draws
from sanitize.kinds.kind import BOUND, WORD, Kind, digits, drawn, grid, ungrid

_HEX = "[0-9A-Fa-f]{1,4}"
_V4 = rf"{BOUND}[0-9]{{1,3}}(?:[.][0-9]{{1,3}}){{3}}(?:[.][0-9]+)*{BOUND}"
_TAIL = "(?:[.][0-9]{1,3}){3}"  # ::ffff:192.0.2.1
_V6 = (
    rf"{BOUND}(?:{_HEX}:){{7,}}{_HEX}{BOUND}|"  # more than eight are a fingerprint, refused by the check
    rf"{BOUND}{_HEX}(?:(?::{_HEX})*::{_HEX}(?::{_HEX})*(?:{_TAIL})?{BOUND}|(?::{_HEX})+::)|"
    rf"::{_HEX}(?:(?::{_HEX})+(?:{_TAIL})?|{_TAIL}){BOUND}"
)
_FIRST = {  # public first octets by their number of digits: no private, loopback, link-local, test or multicast network begins so
    1: np.arange(1, 10),
    2: np.setdiff1d(np.arange(11, 100), [10]),
    3: np.setdiff1d(np.arange(100, 224), [100, 127, 169, 172, 192, 198, 203]),
}
_TEST = np.array(["192.0.2.", "198.51.100.", "203.0.113."], object)  # RFC 5737


def _check(values: pl.Series) -> pl.Series:
    octets = pl.col("value").str.split(".").list.eval(pl.element().cast(pl.Int64, strict=False))
    six = values.str.contains(":", literal=True)
    four = (
        pl.when(octets.list.len() != 4)
        .then(pl.lit("groups"))
        .when(octets.list.contains(None) | (octets.list.max() > 255))
        .then(pl.lit("range"))
        .when(octets.list.first().is_in([127, 255]) | (octets.list.max() == 0))
        .then(pl.lit("reserved"))
        .when(octets.list.max() <= 9)
        .then(pl.lit("version"))
    )
    reasons = pl.DataFrame({"value": values}).select(four).to_series()
    # ipaddress has no columnar form; distinct IPv6 values are few
    return reasons.scatter(six.arg_true(), [_why_not(value) for value in values.filter(six)])


def _why_not(value: str) -> str | None:
    try:
        address = ipaddress.IPv6Address(value)
    except ValueError:
        return "groups"
    if address.is_loopback or address.is_unspecified:
        return "reserved"
    if sum(map(bool, value.split(":"))) < 2:
        return "groups"
    return None if any(character.isdigit() for character in value) else "word"  # `add::bad` is a program's


def _normalise(values: pl.Series) -> pl.Series:
    six = values.str.contains(":", literal=True)
    plain = values.str.replace_all(r"(?-u:\b)0+([0-9])", "$1")
    return plain.scatter(six.arg_true(), [_canonical(value) for value in values.filter(six)])


def _canonical(value: str) -> str:
    try:
        return str(ipaddress.IPv6Address(value))
    except ValueError:
        return value.lower()


def _fake(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Another address of the same kind: private stays private, public public, with a first octet of the same width; the other
    octets are free, else a document with many addresses of one short form would run out. IPv6 keeps its groups, their widths and
    letter case, and the leading digits that say what network it is. `reserved`: RFC 5737 (768 addresses in all), 2001:db8::/32.
    """
    six = values.str.contains(":", literal=True)
    made = _fake_four(values, draws, reserved)
    rows = six.arg_true().to_numpy().astype(np.intp)
    return made.scatter(rows, _fake_six(values.gather(rows), draws.rows(rows), reserved)) if len(rows) else made


def _fake_four(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    octet = [drawn(draws, lane, 256) for lane in range(4)]
    last = 1 + drawn(draws, 3, 254)
    if reserved:
        return pl.Series(values.name, _TEST[drawn(draws, 4, 3)], pl.String) + pl.Series(octet[3]).cast(pl.String)
    numbers = pl.DataFrame({"value": _normalise(values)}).select(
        width=pl.col("value").str.extract(r"\A([0-9]*)").str.len_bytes().clip(1, 3),
        ten=pl.col("value").str.contains(r"\A10[.]"),
        mid=pl.col("value").str.contains(r"\A172[.](?:1[6-9]|2[0-9]|3[01])[.]"),
        home=pl.col("value").str.contains(r"\A192[.]168[.]"),
    )
    width = numbers["width"].to_numpy()
    first = np.empty(len(values), np.int64)
    for size, choice in _FIRST.items():
        some = np.flatnonzero(width == size)
        first[some] = choice[drawn(draws.rows(some), 0, len(choice))]
    ten, mid, home = (numbers[name].to_numpy() for name in ("ten", "mid", "home"))
    first = np.select([ten, mid, home], [10, 172, 192], first)
    second = np.select([mid, home], [16 + octet[1] // 16, 168], octet[1])
    # a last octet above nine passes the check whatever the others are
    last = np.where((first < 10) & (second < 10) & (octet[2] < 10) & (last < 10), last + 10, last)
    columns = [pl.Series(str(at), column).cast(pl.String) for at, column in enumerate((first, second, octet[2], last))]
    return pl.DataFrame(columns).select(pl.concat_str(pl.all(), separator=".").alias(values.name)).to_series()


def _fake_six(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    hexed = "0123456789abcdef"
    if reserved:
        groups = [pl.Series(drawn(draws, lane, 0xFFFF)) for lane in range(3)]
        return pl.Series(values.name, [f"2001:db8::{a:x}:{b:x}:{c:x}" for a, b, c in zip(*groups, strict=True)], pl.String)
    rows = grid(values.str.replace(r"[0-9]+(?:[.][0-9]+){3}\z", ""))
    table = np.frombuffer((hexed + hexed.upper()).encode(), np.uint8)
    upper = ((rows >= 65) & (rows <= 70)).any(axis=1)
    digit = digits(rows) | ((rows | 32 >= 97) & (rows | 32 <= 102))
    # a first group of four: its first digit says global, local or multicast; after an f the second one does
    colon = ord(":")
    four = digit[:, :4].all(axis=1) & (rows[:, 4] == colon) if rows.shape[1] > 4 else np.zeros(len(rows), bool)
    digit[:, 0] &= ~four
    if rows.shape[1] > 1:
        digit[:, 1] &= ~(four & (rows[:, 0] | 32 == ord("f")))
    out = rows.copy()
    for column in range(rows.shape[1]):
        nibble = drawn(draws, 16 + column, 16) + 16 * upper
        out[:, column] = np.where(digit[:, column], table[nibble], rows[:, column])
    # never a word: the last drawn digit is decimal where no other is
    wordy = np.flatnonzero(~digits(out).any(axis=1) & digit.any(axis=1))
    at = rows.shape[1] - 1 - np.argmax(digit[wordy, ::-1], axis=1)
    out[wordy, at] = 49 + drawn(draws.rows(wordy), 15, 9)
    tail = values.str.extract(r"([0-9]+(?:[.][0-9]+){3})\z")
    inner = _fake_four(tail.fill_null("192.0.2.1"), draws, False)
    return ungrid(out, values.name) + pl.select(pl.when(tail.is_null()).then(pl.lit("")).otherwise(inner)).to_series()


KIND = Kind(
    name="IP_ADDRESS",
    about="an IPv4 or IPv6 address",
    pattern=rf"{_V4}|{_V6}",
    check=_check,
    normalise=_normalise,
    fake=_fake,
    not_before=WORD + b".-",
    not_after=WORD + b"-",
    rank=40,
)
