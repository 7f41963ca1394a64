"""IPv4 and IPv6 addresses, without port or prefix length.

Four dotted numbers are as often a version, a section or the middle of an OID: the pattern takes further groups along so that the
check can refuse them (`groups`), and the word before them where it says what they are (`version 12.1.0.3`); numbers that are all
below ten are a `version` too. Eight pairs of hexadecimal digits are the fingerprint of a key (`groups`). Loopback, netmasks and the null
addresses say nothing about anyone (`reserved`). Identity: no leading zeros; IPv6 in the form of RFC 5952.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from sanitize.core.keys import Draws
from sanitize.kinds.kind import BOUND, WORD, Kind, digits, drawn, grid, ungrid

_HEX = "[0-9A-Fa-f]{1,4}"
# what stands before a number that is no address; `v` and its like without a blank are no boundary, so they need no rule
_NAMED = (
    "(?:[Vv]ersion|VERSION|[Vv]er[.]|[Ss]ection|SECTION|[Ss]ec[.]|§|[Cc]hapter|"
    "[Cc]lause|[Pp]aragraph|[Rr]elease|[Bb]uild|[Ff]irmware|[Rr]evision|OID|[Oo]id)"
)
_V4 = rf"(?:{_NAMED}[ :=]{{1,2}})?{BOUND}[0-9]{{1,3}}(?:[.][0-9]{{1,3}}){{3}}(?:[.][0-9]+)*{BOUND}"
_TAIL = "(?:[.][0-9]{1,3}){3}"  # ::ffff:192.0.2.1
_V6 = (
    rf"{BOUND}(?:{_HEX}:){{7,}}{_HEX}{BOUND}|"  # more than eight are a fingerprint, refused by the check
    rf"{BOUND}{_HEX}(?:(?::{_HEX})*::{_HEX}(?::{_HEX})*(?:{_TAIL})?{BOUND}|(?::{_HEX})+::)|"
    rf"::{_HEX}(?:(?::{_HEX})+(?:{_TAIL})?|{_TAIL}){BOUND}"
)
# IPv6 as RFC 5952 writes it, of the usual forms: eight groups that are not zero, or up to six with one `::` between them
_GROUP = "[1-9a-f][0-9a-f]{0,3}"
_CANONICAL = (
    rf"\A(?:{_GROUP}(?::{_GROUP}){{7}}|"
    + "|".join(rf"{_GROUP}(?::{_GROUP}){{{before}}}::{_GROUP}(?::{_GROUP}){{0,{4 - before}}}" for before in range(5))
    + r")\z"
)
_PADDED = r"(?:\A|[.])0[0-9]"
_FIRST = {  # public first octets by their number of digits: no private, loopback, link-local, test or multicast network begins so
    1: np.arange(1, 10),
    2: np.setdiff1d(np.arange(11, 100), [10]),
    3: np.setdiff1d(np.arange(100, 224), [100, 127, 169, 172, 192, 198, 203]),
}
_TEST = np.array(["192.0.2.", "198.51.100.", "203.0.113."], object)  # RFC 5737


def _accepts(candidates: pl.DataFrame) -> pl.Series:
    """All that match but French telephone numbers, `01.99.00.12.34`."""
    value = pl.col("value")
    return candidates.select(value.str.contains(rf"\A(?:{_V4}|{_V6})\z") & ~value.str.contains(r"\A0[1-9](?:[.][0-9]{2}){4}\z")).to_series()


def _check(values: pl.Series) -> pl.Series:
    octets = pl.col("value").str.split(".").list.eval(pl.element().cast(pl.Int64, strict=False))
    named = values.str.contains("[^0-9A-Fa-f:.]")
    six = values.str.contains(":", literal=True) & ~named
    four = (
        pl.when(named)
        .then(pl.lit("version"))
        .when(octets.list.len() != 4)
        .then(pl.lit("groups"))
        .when(octets.list.contains(None) | (octets.list.max() > 255))
        .then(pl.lit("range"))
        .when(octets.list.first().is_in([127, 255]) | (octets.list.max() == 0))
        .then(pl.lit("reserved"))
        .when(octets.list.max() <= 9)
        .then(pl.lit("version"))
    )
    reasons = pl.DataFrame({"value": values}).select(four).to_series()
    # ipaddress has no columnar form: it is asked about unusual forms only
    pairs = values.str.contains(r"\A[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){7}\z")  # a network's first group has four digits
    asked = six & ~pairs & ~(values.str.contains(_CANONICAL) & values.str.contains("[0-9]"))
    usual = (six & ~asked & ~pairs).arg_true()
    reasons = reasons.scatter(usual, pl.Series([None] * len(usual), dtype=pl.String))  # pairs have no four groups between dots
    return reasons.scatter(asked.arg_true(), [_why_not(value) for value in values.filter(asked)])


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
    odd = (values.str.contains(":", literal=True) & ~values.str.contains(_CANONICAL)) | values.str.contains(_PADDED)
    if not odd.any():
        return values
    # ipaddress has no columnar form; values that are not in their normal form are few
    return values.clone().scatter(odd.arg_true(), [_canonical(value) for value in values.filter(odd)])  # scatter works in place


def _canonical(value: str) -> str:
    if ":" not in value:
        return ".".join(part.lstrip("0") or "0" for part in value.split("."))
    try:
        return str(ipaddress.IPv6Address(value))
    except ValueError:
        return value.lower()


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def networks(entries: Iterable[str]) -> list[Network]:
    """The networks among the entries of a list, in CIDR notation (RFC 4632, RFC 4291); bits beyond the prefix do not count. Raises
    ValueError for what has a `/` and is none."""
    return [ipaddress.ip_network(entry.strip(), strict=False) for entry in entries if "/" in entry]


def within(forms: pl.Series, known: Sequence[Network]) -> pl.Series:
    """Which addresses, in their identity form, lie in one of some networks."""
    four = forms.str.extract_groups(r"\A([0-9]+)[.]([0-9]+)[.]([0-9]+)[.]([0-9]+)\z").struct.unnest().cast(pl.Int64)
    number = four.select(pl.fold(pl.lit(0, pl.Int64), lambda whole, octet: whole * 256 + octet, pl.all())).to_series()
    found = pl.Series([False] * len(forms), dtype=pl.Boolean)
    sixes = [network for network in known if network.version == 6]
    for network in known:
        if network.version == 4:
            found |= number.is_between(int(network.network_address), int(network.broadcast_address)).fill_null(False)
    rows = number.is_null().arg_true()
    # ipaddress has no columnar form; distinct addresses of the sixth version are few
    held = [any(ipaddress.IPv6Address(form) in network for network in sixes) for form in forms.gather(rows)] if sixes else []
    return found.scatter(rows, held) if held else found


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
    bits = draws.u64(1)
    second, third, last = (((bits >> np.uint64(16 * place)) & np.uint64(255)).astype(np.int64) for place in range(3))
    if reserved:
        return pl.Series(values.name, _TEST[drawn(draws, 4, 3)], pl.String) + pl.Series(last).cast(pl.String)
    own = values.str.extract_groups(r"\A0*([0-9]{1,3})[.]0*([0-9]{1,3})[.]").struct.unnest().cast(pl.Int64)
    one, two = (own.to_series(place).fill_null(0).to_numpy() for place in range(2))
    first = np.empty(len(values), np.int64)
    for size, choice in _FIRST.items():
        some = np.flatnonzero(1 + (one > 9) + (one > 99) == size)
        first[some] = choice[drawn(draws.rows(some), 0, len(choice))]
    ten, mid, home = one == 10, (one == 172) & (two >= 16) & (two <= 31), (one == 192) & (two == 168)
    first = np.select([ten, mid, home], [10, 172, 192], first)
    second = np.select([mid, home], [16 + second // 16, 168], second)
    last = 1 + last % 254
    # a last octet above nine passes the check whatever the others are
    last = np.where((first < 10) & (second < 10) & (third < 10) & (last < 10), last + 10, last)
    columns = [pl.Series(str(at), column).cast(pl.String) for at, column in enumerate((first, second, third, last))]
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
        if column % 16 == 0:
            bits = draws.u64(16 + column // 16)
        nibble = ((bits >> np.uint64(4 * (column % 16))) & np.uint64(15)).astype(np.int64) + 16 * upper
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
    accepts=_accepts,
    check=_check,
    normalise=_normalise,
    fake=_fake,
    not_before=WORD + b".-",
    not_after=WORD + b"-",
    turn=2,
    numeric=True,
    rank=40,
)
