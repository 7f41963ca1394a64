"""Edges of the components of addresses against a regular expression."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sanitize.kernels import address_components

ALNUM = rb"A-Za-z0-9\x80-\xff"
PATTERN = re.compile(rb"(?s)([^" + ALNUM + rb"]*)([" + ALNUM + rb"]*)([^" + ALNUM + rb"]*)(.*)\Z")
HOST = re.compile(rb"(?s)(.*?)(?:(\.)([A-Za-z\x80-\xff][" + ALNUM + rb"-]*))?\Z")


def reference_components(address: bytes) -> tuple[bytes, ...]:
    """lead, first, sep, last, at, domain, dot, tld."""
    at = address.rfind(b"@")
    local, sign, host = (address, b"", b"") if at < 0 else (address[:at], b"@", address[at + 1 :])
    if local.endswith(b'"'):
        local, sign = local[:-1], b'"' + sign
    match = PATTERN.match(local)
    assert match
    name = HOST.match(host)
    assert name
    return (*match.groups(), sign, name[1], name[2] or b"", name[3] or b"")


@given(st.lists(st.text('ab9@."-_ (é', max_size=16)), st.integers(0, 2))
def test_components_are_those_of_the_expression(texts: list[str], skipped: int) -> None:
    addresses = [text.encode() for text in texts]
    data = np.frombuffer(b"".join(addresses), np.uint8)
    offsets = (
        np.cumsum([0, *map(len, addresses)])[skipped:]
        if len(addresses) >= skipped
        else np.zeros(1, np.int64)
    )
    edges, unusual = np.empty((len(offsets) - 1, 9), np.int64), np.empty(len(offsets) - 1, np.uint8)
    address_components.locate(data, offsets, edges, unusual)
    for address, row, mark in zip(
        addresses[skipped:], edges.tolist(), unusual.tolist(), strict=True
    ):
        cut = tuple(data[low:high].tobytes() for low, high in zip(row[:-1], row[1:], strict=True))
        assert cut == reference_components(address)
        assert mark == (b"@" not in address or any(byte in address for byte in b" ([{<\\"))
