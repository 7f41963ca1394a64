"""IPv4 and IPv6 addresses, without port or prefix length.

Four dotted numbers are as often a version, a section or the middle of an OID. The pattern also
matches further groups, so that the check can refuse them (`groups`), and a preceding word that says
what the numbers are (`version 12.1.0.3`); four numbers below ten, and numbers with the suffix of a
release or a file (`2.26.0.106.g2183baf0`, `12.1.0.3.tar`) are refused as a `version` too. A first
number below ten with at most one other above 31 (`3.14.1.1`, `003.010.003.000`), and four numbers
of which the first is above ten and none above 31, are an address only where the text says so:
between square brackets beside a host name, a port, a parenthesis or a word such as `from` (not in
`## [1.10.0.0]`), in parentheses after a host name, after a word such as `ip`, `host` or `ping`, and
after `from`, `to`, `by` or `at` only with a port, a prefix length or a bracket behind it. A number
in brackets in a heading of Markdown is a version. Such an address is searched nowhere else, neither
by `known` nor by the leak check. Eight pairs of hexadecimal digits are the fingerprint of a key
(`groups`). Loopback, netmasks and null addresses identify no one (`reserved`). Normalised form: no
leading zeros; IPv6 in the form of RFC 5952.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from sanitize.core.keys import Draws
from sanitize.kinds.kind import (
    ASCII_WORD_CHARS,
    BEYOND_ASCII,
    BOUNDARY,
    DIGITS,
    Kind,
    digit_mask,
    draw_indices,
    from_byte_matrix,
    to_byte_matrix,
)
from sanitize.kinds.plain_forms import PlainForm

_HEX_GROUP = "[0-9A-Fa-f]{1,4}"
# words before a number that is no address; `v` without a blank leaves no word boundary before the
# number, so it needs no rule
_VERSION_LABEL = (
    "(?:[Vv]ersion|VERSION|[Vv]er[.]|[Ss]ection|SECTION|[Ss]ec[.]|§|[Cc]hapter|"
    "[Cc]lause|[Pp]aragraph|[Rr]elease|[Bb]uild|[Ff]irmware|[Rr]evision|OID|[Oo]id)"
)
_HEADING = r"#{2,6} \["
_RELEASE_SUFFIX = (
    "[.](?:g[0-9a-f]{6,12}|rc[0-9]*|(?:alpha|beta|dev|post)[0-9]*|dfsg|(?:el|fc)[0-9]+|"
    "orig|tar|tgz|zip|[bgx]z2?|deb|rpm|jar|whl|exe|dll|so)"
)
_IPV4 = (
    rf"(?:{_VERSION_LABEL}["
    rf" :=(]{{1,3}}[\"']?|{_HEADING})?{BOUNDARY}[0-9]{{1,3}}(?:[.][0-9]{{1,3}}){{3}}(?:[.][0-9]+)*"
    rf"(?:{_RELEASE_SUFFIX})?{BOUNDARY}"
)
_IPV4_TAIL = "(?:[.][0-9]{1,3}){3}"  # ::ffff:192.0.2.1
_IPV6 = (
    # more than eight are a fingerprint, refused by the check
    rf"{BOUNDARY}(?:{_HEX_GROUP}:){{7,}}{_HEX_GROUP}{BOUNDARY}|"
    # more than one `::` is refused by the check
    rf"{BOUNDARY}{_HEX_GROUP}(?:(?::{_HEX_GROUP})*(?:::{_HEX_GROUP}(?::{_HEX_GROUP})*)+(?:{_IPV4_TAIL})?{BOUNDARY}|(?::{_HEX_GROUP})+::)|"
    rf"::{_HEX_GROUP}(?:(?::{_HEX_GROUP})+(?:{_IPV4_TAIL})?|{_IPV4_TAIL}){BOUNDARY}"
)
# IPv6 as RFC 5952 writes it, of the usual forms: eight groups that are not zero, or up to six with
# one `::` between them
_CANONICAL_GROUP = "[1-9a-f][0-9a-f]{0,3}"
_CANONICAL_IPV6 = (
    rf"(?:{_CANONICAL_GROUP}(?::{_CANONICAL_GROUP}){{7}}|"
    + "|".join(
        rf"{_CANONICAL_GROUP}(?::{_CANONICAL_GROUP}){{{before}}}::{_CANONICAL_GROUP}(?::{_CANONICAL_GROUP}){{0,{4 - before}}}"  # noqa: E501
        for before in range(5)
    )
    + ")"
)
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_ADDRESS_CHARACTERS = frozenset("0123456789abcdefABCDEF:.")
_LEADING_ZERO = r"(?:\A|[.])0[0-9]"
# numbers of a version: the first below ten, and at most one of the others above 31
_SMALL = "0*(?:3[01]|[12]?[0-9])"
_SMALL_FIRST = "(?:1[1-9]|2[0-9]|3[01])"
_VERSION_LIKE = (
    rf"\A0*(?:[0-9]"
    rf"(?:[.]{_SMALL}[.]{_SMALL}[.][0-9]+|[.]{_SMALL}[.][0-9]+[.]{_SMALL}|[.][0-9]+[.]{_SMALL}[.]{_SMALL})|"
    rf"{_SMALL_FIRST}(?:[.]{_SMALL}){{3}})\z"
)
# what makes such numbers an address, in lower case
_ADDRESS_WORDS = (
    "ips?|ipv4|addr|address|inet|hosts?|hostname|servers?|nameserver|dns|ping|ssh|telnet|ftp|gateway|gw|router|route|proxy|peer|client|"
    "remote|src|source|dst|dest|destination|connect(?:ed|ing)?|netmask|subnet|network|listen(?:ing)?|bind|allow|deny|permit|trying|dig|"
    "traceroute|nslookup|whois|helo|ehlo|vpn"
)
_ADDRESS_BEFORE = (
    r"(?:[(]\[|[a-z0-9][.][a-z]{2,} ?\[|(?:from|by|via|to|at) \[|"
    rf"://|@\[?|[a-z0-9][.][a-z]{{2,}} \(|(?:from|by) [a-z0-9_-]+ \(|\) \()\z|"
    rf"(?:\A|[^a-z])(?:{_ADDRESS_WORDS})[^a-z0-9]{{1,4}}(?:(?:is|was|of|to|on|from) )?\z"
)
# behind an address in square brackets: a port, a parenthesis, a colon, a host name
_BRACKET_AFTER = r"\A\](?:[:)]| \(?[a-z0-9_-]+[.][a-z])"
_PREPOSITION_BEFORE, _PORT_AFTER = (
    r"(?:\A|[^a-z])(?:from|to|by|at|via) \z",
    r"\A(?::[0-9]| ?[\[(]|/[0-9]| port )",
)
# number of digits -> public first octets: no private, loopback, link-local, test or multicast
# network begins with one
_PUBLIC_FIRST_OCTETS = {
    1: np.arange(1, 10),
    2: np.arange(11, 100),
    3: np.delete(np.arange(100, 224), np.array([100, 127, 169, 172, 192, 198, 203]) - 100),
}
_TEST_NETWORKS = np.array(["192.0.2.", "198.51.100.", "203.0.113."], object)  # RFC 5737


def _accepts(candidates: pl.DataFrame) -> pl.Series:
    """True for all that the pattern matches, except French telephone numbers (`01.99.00.12.34`)."""
    value = pl.col("value")
    return candidates.select(
        value.str.contains(rf"\A(?:{_IPV4}|{_IPV6})\z")
        & ~value.str.contains(r"\A0[1-9](?:[.][0-9]{2}){4}\z")
    ).to_series()


def _check(values: pl.Series) -> pl.Series:
    """`version`, `groups`, `range` or `reserved` for IPv4, `groups`, `reserved` or `word` for IPv6,
    else null."""
    # a loop, since ipaddress has no columnar form; few values are written in no plain form
    return pl.Series([_refusal_reason(value) for value in values], dtype=pl.String)


def _refusal_reason(value: str) -> str | None:
    """Why a candidate is refused; None for an address."""
    if not _ADDRESS_CHARACTERS.issuperset(value):
        return "version"
    if ":" in value:
        return _refusal_reason_six(value)
    groups = value.split(".")
    if len(groups) != 4:
        return "groups"
    octets = [int(group) if group.isdecimal() and len(group) < 10 else 256 for group in groups]
    if max(octets) > 255:
        return "range"
    if octets[0] in (127, 255) or max(octets) == 0:
        return "reserved"
    return "version" if max(octets) <= 9 else None


def _refusal_reason_six(value: str) -> str | None:
    """Why an IPv6 candidate is refused; None for an address."""
    groups = value.split(":")
    try:
        address = ipaddress.IPv6Address(value)
    except ValueError:
        return "groups"
    if address.is_loopback or address.is_unspecified:
        return "reserved"
    if sum(map(bool, groups)) < 2 or [len(group) for group in groups] == [2] * 8:
        # a network's first group has four digits
        return "groups"
    # `add::bad` is a name in source code
    return None if any(character.isdigit() for character in value) else "word"


def _needs_context(values: pl.Series) -> pl.Series:
    return values.str.contains(_VERSION_LIKE)


def _has_context(candidates: pl.DataFrame) -> pl.Series:
    """True where the text around says that the numbers are an address."""
    before, after = pl.col("before").str.to_lowercase(), pl.col("after").str.to_lowercase()
    placed = before.str.contains(_PREPOSITION_BEFORE) & after.str.contains(_PORT_AFTER)
    bracketed = before.str.ends_with("[") & after.str.contains(_BRACKET_AFTER)
    return candidates.select(before.str.contains(_ADDRESS_BEFORE) | placed | bracketed).to_series()


def _is_distinctive(values: pl.DataFrame) -> pl.Series:
    return ~values["normalised"].str.contains(_VERSION_LIKE)


def _normalise(values: pl.Series) -> pl.Series:
    not_canonical = (
        values.str.contains(":", literal=True) & ~values.str.contains(rf"\A{_CANONICAL_IPV6}\z")
    ) | values.str.contains(_LEADING_ZERO)
    if not not_canonical.any():
        return values
    # ipaddress has no columnar form; few values are not in their normalised form
    # scatter works in place
    return values.clone().scatter(
        not_canonical.arg_true(), [_to_canonical(value) for value in values.filter(not_canonical)]
    )


def _to_canonical(value: str) -> str:
    """The normalised form of one address: IPv4 without leading zeros, IPv6 as in RFC 5952."""
    if ":" not in value:
        return ".".join(part.lstrip("0") or "0" for part in value.split("."))
    try:
        return str(ipaddress.IPv6Address(value))
    except ValueError:
        return value.lower()


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def parse_networks(entries: Iterable[str]) -> list[Network]:
    """The networks in a list, those of its entries that contain a `/`, in CIDR notation (RFC 4632,
    RFC 4291); bits beyond the prefix are ignored. Raises ValueError for an invalid one."""
    return [ipaddress.ip_network(entry.strip(), strict=False) for entry in entries if "/" in entry]


def is_in_networks(addresses: pl.Series, networks: Sequence[Network]) -> pl.Series:
    """True for addresses, in their normalised form, that are in one of the networks."""
    octets = (
        addresses.str.extract_groups(r"\A([0-9]+)[.]([0-9]+)[.]([0-9]+)[.]([0-9]+)\z")
        .struct.unnest()
        .cast(pl.Int64)
    )
    number = octets.select(
        pl.fold(pl.lit(0, pl.Int64), lambda whole, octet: whole * 256 + octet, pl.all())
    ).to_series()
    found = pl.Series([False] * len(addresses), dtype=pl.Boolean)
    sixes = [network for network in networks if network.version == 6]
    for network in networks:
        if network.version == 4:
            found |= number.is_between(
                int(network.network_address), int(network.broadcast_address)
            ).fill_null(False)
    rows = number.is_null().arg_true()
    # ipaddress has no columnar form; distinct IPv6 addresses are few
    is_member = (
        [
            any(ipaddress.IPv6Address(form) in network for network in sixes)
            for form in addresses.gather(rows)
        ]
        if sixes
        else []
    )
    return found.scatter(rows, is_member) if is_member else found


def _make_surrogates(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Other addresses of the same type: private stays private, public stays public with a first
    octet of the same width.

    The other octets may have any width, else a document with many addresses of one short form would
    run out of surrogates. IPv6 keeps its groups, their widths and letter case, and the leading
    digits that give the type of network. `reserved`: RFC 5737 (768 addresses in all),
    2001:db8::/32.
    """
    six = values.str.contains(":", literal=True)
    surrogates = _make_ipv4(values, draws, reserved)
    rows = six.arg_true().to_numpy().astype(np.intp)
    return (
        surrogates.scatter(rows, _make_ipv6(values.gather(rows), draws.take(rows), reserved))
        if len(rows)
        else surrogates
    )


def _make_ipv4(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """IPv4 surrogates; rows of `values` that are no IPv4 address get any address."""
    bits = draws.u64(1)
    second, third, last = (
        ((bits >> np.uint64(16 * place)) & np.uint64(255)).astype(np.int64) for place in range(3)
    )
    if reserved:
        return pl.Series(
            values.name, _TEST_NETWORKS[draw_indices(draws, 4, 3)], pl.String
        ) + pl.Series(last).cast(pl.String)
    own_octets = (
        values.str.extract_groups(r"\A0*([0-9]{1,3})[.]0*([0-9]{1,3})[.]")
        .struct.unnest()
        .cast(pl.Int64)
    )
    one, two = (own_octets.to_series(place).fill_null(0).to_numpy() for place in range(2))
    first = np.empty(len(values), np.int64)
    for size, choice in _PUBLIC_FIRST_OCTETS.items():
        rows = np.flatnonzero(1 + (one > 9) + (one > 99) == size)
        first[rows] = choice[draw_indices(draws.take(rows), 0, len(choice))]
    ten, mid, home = (
        one == 10,
        (one == 172) & (two >= 16) & (two <= 31),
        (one == 192) & (two == 168),
    )
    first = np.select([ten, mid, home], [10, 172, 192], first)
    second = np.select([mid, home], [16 + second // 16, 168], second)
    last = 1 + last % 254
    # with two octets above 31, small first octets need no context, with one, those up to 31
    second, third = (np.where(first < 10, 32 + octet * 7 // 8, octet) for octet in (second, third))
    is_small = (first < 32) & (first != 10) & (second < 32) & (third < 32) & (last < 32)
    second = np.where(is_small, second + 32, second)
    columns = [
        pl.Series(str(at), column).cast(pl.String)
        for at, column in enumerate((first, second, third, last))
    ]
    return (
        pl.DataFrame(columns)
        .select(pl.concat_str(pl.all(), separator=".").alias(values.name))
        .to_series()
    )


def _make_ipv6(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """IPv6 surrogates; a trailing IPv4 address is replaced by `_make_ipv4`."""
    hexed = "0123456789abcdef"
    if reserved:
        groups = [pl.Series(draw_indices(draws, lane, 0xFFFF)) for lane in range(3)]
        return pl.Series(
            values.name,
            [f"2001:db8::{a:x}:{b:x}:{c:x}" for a, b, c in zip(*groups, strict=True)],
            pl.String,
        )
    rows = to_byte_matrix(values.str.replace(r"[0-9]+(?:[.][0-9]+){3}\z", ""))
    table = np.frombuffer((hexed + hexed.upper()).encode(), np.uint8)
    upper = ((rows >= 65) & (rows <= 70)).any(axis=1)
    digit = digit_mask(rows) | ((rows | 32 >= 97) & (rows | 32 <= 102))
    # in a first group of four digits, the first digit distinguishes global, local and multicast;
    # after an f, the second digit does
    colon = ord(":")
    four = (
        digit[:, :4].all(axis=1) & (rows[:, 4] == colon)
        if rows.shape[1] > 4
        else np.zeros(len(rows), bool)
    )
    digit[:, 0] &= ~four
    if rows.shape[1] > 1:
        digit[:, 1] &= ~(four & (rows[:, 0] | 32 == ord("f")))
    out = rows.copy()
    for column in range(rows.shape[1]):
        if column % 16 == 0:
            bits = draws.u64(16 + column // 16)
        nibble = ((bits >> np.uint64(4 * (column % 16))) & np.uint64(15)).astype(
            np.int64
        ) + 16 * upper
        out[:, column] = np.where(digit[:, column], table[nibble], rows[:, column])
    # avoid surrogates that are words: the last redrawn digit becomes decimal where no other is
    wordy = np.flatnonzero(~digit_mask(out).any(axis=1) & digit.any(axis=1))
    at = rows.shape[1] - 1 - np.argmax(digit[wordy, ::-1], axis=1)
    out[wordy, at] = 49 + draw_indices(draws.take(wordy), 15, 9)
    tail = values.str.extract(r"([0-9]+(?:[.][0-9]+){3})\z")
    inner = _make_ipv4(tail.fill_null("192.0.2.1"), draws, False)
    return (
        from_byte_matrix(out, values.name)
        + pl.select(pl.when(tail.is_null()).then(pl.lit("")).otherwise(inner)).to_series()
    )


KIND = Kind(
    name="IP_ADDRESS",
    about="an IPv4 or IPv6 address",
    category="network",
    field_names=tuple(
        (
            "ip|ips|ip address|ip addresses|ip addr|ipv4|ipv6|ipv4 address|ipv6 address|"
            "remote ip|remote addr|client ip|server ip|source ip|src ip|dst ip|dest ip|"
            "peer ip|ip adresse|adresse ip|direccion ip|endereco ip|indirizzo ip|"
            "ip adres|adres ip|ip地址|ipアドレス|"
            "x forwarded for|forwarded for|client addr|client address|peer addr|src addr|dst addr"
        ).split("|")
    ),
    aliases=(
        "IP",
        "IPV4",
        "IPV6",
        "IPADDRESS",
    ),
    pattern=rf"{_IPV4}|{_IPV6}",
    accepts=_accepts,
    check=_check,
    needs_context=_needs_context,
    context_rule=_has_context,
    is_distinctive=_is_distinctive,
    normalise=_normalise,
    make_surrogates=_make_surrogates,
    not_preceded_by=ASCII_WORD_CHARS + b".-",
    not_followed_by=ASCII_WORD_CHARS + b"-",
    phase=2,
    digit_lines_only=True,
    plain_forms=(
        PlainForm(
            pattern=rf"[1-9][0-9]{{1,2}}(?:[.]{_OCTET}){{3}}",
            unless=rf"(?:127|25[5-9]|2[6-9][0-9]|[3-9][0-9]{{2}})[.].*|{_SMALL_FIRST}(?:[.]{_SMALL}){{3}}",
        ),
        PlainForm(
            pattern=rf"[1-9](?:[.]{_OCTET}){{3}}",
            unless=rf"[0-9][.](?:{_SMALL}[.]{_SMALL}[.][0-9]+|{_SMALL}[.][0-9]+[.]{_SMALL}|[0-9]+[.]{_SMALL}[.]{_SMALL})",
        ),
        PlainForm(pattern=_CANONICAL_IPV6, unless="[a-f:]+|[0-9a-f]{2}(?::[0-9a-f]{2}){7}"),
    ),
    rank=40,
    first_bytes=DIGITS + b"#:ABCDEFOPRSVabcdefoprsv" + BEYOND_ASCII,
    hits=(
        ("host 203.0.113.77 is up", "203.0.113.77"),
        ("from [93.184.216.34]:25", "93.184.216.34"),
        ("10.1.2.3/24.", "10.1.2.3"),
        ("fe80::1 and 2001:db8:0:0:8:800:200c:417a", "fe80::1", "2001:db8:0:0:8:800:200c:417a"),
        (
            (
                "[3.14.1.1] mx.example.org (3.14.1.2) from unknown (3.14.1.5) ping 3.14.1.3, from"
                " 3.14.1.4:25"
            ),
            "3.14.1.1",
            "3.14.1.2",
            "3.14.1.5",
            "3.14.1.3",
            "3.14.1.4",
        ),
        (
            "from 12.21.7.14:25, host [12.21.7.14] or 10.1.2.3",
            "12.21.7.14",
            "12.21.7.14",
            "10.1.2.3",
        ),
        ("4.35.77.9 and 4.35.1.190", "4.35.77.9", "4.35.1.190"),
        ("::ffff:10.1.2.3 via 2001:db8:1::", "::ffff:10.1.2.3", "2001:db8:1::"),
    ),
    near_misses=(
        "x1234.5.6.7 88.1.2.34567 2.21.7.14-release",
        "std::vector Foo:: ::1 10:20:30 aa:bb:cc:dd:ee",
        "version 12.21.7.14, Section 14.3.2.1, OID 1.3.61.4",
        "256.1.2.3 and 127.0.0.1",
        (
            "UHD 3.14.1.1, UHD_003.010.003.000-0-unknown, Linux 2.6.24.4, libuhd 003.010.003.000,"
            " from 2.6.24.4 to 2.6.25.1"
        ),
        "-- \n2.26.0.106.g2183baf0\n12.26.0.106.rc1 12.26.0.106.tar.gz 2.2.2.39",
        "add::bad, 2001::db8::1, 2001:db8::25de::cade",
        "## [1.10.0.0] - 2026-09-01\n### [40.50.60.70]\n[3.14.1.5] Fixed",
        "VERSION = '10.3.9.3', Version(\"40.50.6.7\")",
    ),
)
