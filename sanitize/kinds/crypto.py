"""Addresses of the Bitcoin and Ethereum networks, by their check sums: base58check (`1...`, `3...`), bech32 and bech32m (`bc1...`,
`ltc1...`, `tb1...`), and `0x` with forty hexadecimal digits.

An Ethereum address carries a check sum in its letter case (EIP-55); one that is all small carries none, and is taken as it is. One in
capitals must fit: the fingerprints of PGP keys are written so. Identity: base58 as written, the others in small letters.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import polars as pl

from sanitize.core.keys import Draws
from sanitize.kinds.kind import BOUND, I64, Kind, drawn, grid, ungrid

_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"  # BIP 173
_FACTORS = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
_ENDS = (1, 0x2BC830A3)  # of bech32 and bech32m (BIP 350)
_ETHER = r"\A0[xX]"
_SEGWIT = r"\A(?i:bc|tb|ltc)1"


def _check(values: pl.Series) -> pl.Series:
    """`checksum` for one that does not fit, `zero` for the address of nobody."""
    ether, segwit = values.str.contains(_ETHER).to_numpy(), values.str.contains(_SEGWIT).to_numpy()
    good = np.zeros(len(values), np.bool_)
    rows = np.flatnonzero(segwit)
    if len(rows):
        good[rows] = np.isin(_polymod(values.gather(rows).str.to_lowercase()), _ENDS)
    # loops over distinct candidates: neither SHA-256 nor Keccak has a columnar implementation
    rows = np.flatnonzero(ether)
    good[rows] = [_cased(value[2:]) for value in values.gather(rows)]
    rows = np.flatnonzero(~ether & ~segwit)
    good[rows] = [_decoded58(value) is not None for value in values.gather(rows)]
    return pl.select(
        pl.when(pl.Series(~good, dtype=pl.Boolean)).then(pl.lit("checksum")).when(values.str.contains(r"\A0[xX]0{38}")).then(pl.lit("zero"))
    ).to_series()


def _normalise(values: pl.Series) -> pl.Series:
    rows = values.str.contains(rf"{_ETHER}|{_SEGWIT}").arg_true()
    return values.clone().scatter(rows, values.gather(rows).str.to_lowercase()) if len(rows) else values


def _fake(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Another address of the same network and form, with a check sum that fits; base58 may be a character or two longer or
    shorter. No range is reserved."""
    out = values.clone()
    segwit, ether = values.str.contains(_SEGWIT).to_numpy(), values.str.contains(_ETHER).to_numpy()
    for rows, make in ((segwit, _fake_segwit), (ether, _fake_ether), (~segwit & ~ether, _fake58)):
        some = np.flatnonzero(rows)
        if len(some):
            out = out.scatter(some, make(values.gather(some), draws.rows(some)))
    return out


def _fake_segwit(values: pl.Series, draws: Draws) -> pl.Series:
    rows = grid(values)
    upper = (rows[:, 0] < 97)[:, None]
    rows = np.where((rows >= 65) & (rows <= 90), rows + 32, rows).astype(np.uint8)
    first = np.argmax(rows == ord("1"), axis=1) + 1  # no letter of a network is a digit
    place = np.arange(rows.shape[1]) - first[:, None]
    size = (rows != 0).sum(axis=1) - first
    body = (place > 0) & (place < (size - 6)[:, None])  # the first character is the version, which decides the check sum
    table = np.frombuffer(_BECH32.encode(), np.uint8)
    for column in np.flatnonzero(body.any(axis=0)).tolist():
        rows[:, column] = np.where(body[:, column], table[drawn(draws, column, 32)], rows[:, column])
    at = first[:, None] + (size - 6)[:, None] + np.arange(6)
    version = rows[np.arange(len(rows)), first]
    np.put_along_axis(rows, at, np.uint8(ord("q")), axis=1)
    end = np.where(version == ord("q"), _ENDS[0], _ENDS[1])
    rest = _polymod(ungrid(rows)) ^ end
    np.put_along_axis(rows, at, table[(rest[:, None] >> (5 * (5 - np.arange(6)))) & 31], axis=1)
    rows = np.where(upper & (rows >= 97), rows - 32, rows).astype(np.uint8)
    return ungrid(rows, values.name)


def _fake_ether(values: pl.Series, draws: Draws) -> pl.Series:
    hexed = np.frombuffer(b"0123456789abcdef", np.uint8)
    rows = grid(values)
    out = rows.copy()
    for column in range(2, 42):
        out[:, column] = hexed[drawn(draws, column, 16)]
    # one letter at least: a case must show
    plain = ~(out[:, 2:] >= 97).any(axis=1)
    out[plain, 41] = hexed[10 + drawn(draws, 1, 6)][plain]
    texts = ungrid(out, values.name).to_list()
    capital = values.str.contains("[A-F]").to_list()
    # a loop over the values: Keccak has no columnar implementation
    return pl.Series(values.name, [_eip55(text) if large else text for text, large in zip(texts, capital, strict=True)])


def _fake58(values: pl.Series, draws: Draws) -> pl.Series:
    payload = np.column_stack([drawn(draws, lane, 256) for lane in range(20)]).astype(np.uint8)
    # a loop over the values: numbers of 200 bits and SHA-256 have no columnar form
    made = [_encoded58(bytes([5 if value[0] == "3" else 0]) + row.tobytes()) for value, row in zip(values, payload, strict=True)]
    return pl.Series(values.name, made)


def _decoded58(text: str) -> bytes | None:
    """The 21 bytes of a base58check address of Bitcoin, or None where the check sum does not fit."""
    number = 0
    for letter in text:
        number = number * 58 + _BASE58.index(letter)
    if number >= 1 << 200:
        return None
    raw = number.to_bytes(25, "big")
    sound = _twice(raw[:-4]) == raw[-4:] and raw[0] in (0, 5) and len(text) - len(text.lstrip("1")) == len(raw) - len(raw.lstrip(b"\0"))
    return raw[:-4] if sound else None


def _encoded58(payload: bytes) -> str:
    raw = payload + _twice(payload)
    number, out = int.from_bytes(raw, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        out = _BASE58[digit] + out
    return "1" * (len(raw) - len(raw.lstrip(b"\0"))) + out


def _twice(raw: bytes) -> bytes:
    return hashlib.sha256(hashlib.sha256(raw).digest()).digest()[:4]


def _polymod(values: pl.Series) -> I64:
    """The check sum of BIP 173 over the network's letters and the data of every value, in small letters."""
    rows = grid(values)
    first = np.argmax(rows == ord("1"), axis=1)
    table = np.full(256, -1, np.int64)
    table[list(_BECH32.encode())] = np.arange(32)
    sums = np.ones(len(rows), np.int64)

    def step(sums: I64, value: npt.NDArray[np.int64]) -> I64:
        top = sums >> 25
        sums = (sums & 0x1FFFFFF) << 5 ^ value
        for bit, factor in enumerate(_FACTORS):
            sums ^= np.where((top >> bit) & 1, factor, 0)
        return sums

    name = [np.where(first > at, rows[:, at].astype(np.int64), 0) for at in range(int(first.max(initial=0)))]
    for half in [part >> 5 for part in name] + [np.zeros(len(rows), np.int64)] + [part & 31 for part in name]:
        sums = np.where(first >= len(name), step(sums, half), sums)
    if (first < len(name)).any():  # networks with names of another length: each by itself
        short = np.flatnonzero(first < len(name))
        sums[short] = _polymod(values.gather(short))
    for column in range(rows.shape[1]):
        some = (column > first) & (rows[:, column] != 0) & (first >= len(name))
        sums = np.where(some, step(sums, table[rows[:, column]]), sums)
    return sums


def _cased(digits: str) -> bool:
    """True where the letter case of forty hexadecimal digits is that of EIP-55, or all are small."""
    return digits == digits.lower() or _eip55("0x" + digits.lower())[2:] == digits


def _eip55(address: str) -> str:
    """The address `0x...` in the letter case of EIP-55."""
    digits = address[2:].lower()
    marks = _keccak256(digits.encode()).hex()
    return "0x" + "".join(letter.upper() if int(mark, 16) >= 8 else letter for letter, mark in zip(digits, marks, strict=False))


def _keccak256(data: bytes) -> bytes:
    """Keccak-256 as Ethereum uses it: SHA-3 before its padding was changed, which `hashlib` does not have. For less than 136 bytes."""
    block = bytearray(data + b"\x01" + bytes(135 - len(data)))
    block[135] |= 0x80
    state = [int.from_bytes(block[8 * at : 8 * at + 8], "little") if at < 17 else 0 for at in range(25)]
    mask, lfsr = (1 << 64) - 1, 1
    for _ in range(24):
        columns = [state[x] ^ state[x + 5] ^ state[x + 10] ^ state[x + 15] ^ state[x + 20] for x in range(5)]
        for x in range(5):
            turned = columns[(x + 1) % 5]
            spread = columns[(x - 1) % 5] ^ ((turned << 1 | turned >> 63) & mask)
            for y in range(0, 25, 5):
                state[x + y] ^= spread
        x, y, current = 1, 0, state[1]
        for turn in range(24):
            x, y = y, (2 * x + 3 * y) % 5
            by = (turn + 1) * (turn + 2) // 2 % 64
            current, state[x + 5 * y] = state[x + 5 * y], (current << by | current >> (64 - by)) & mask
        for y in range(0, 25, 5):
            row = state[y : y + 5]
            for x in range(5):
                state[x + y] = row[x] ^ (~row[(x + 1) % 5] & mask & row[(x + 2) % 5])
        for bit in range(7):
            if lfsr & 1:
                state[0] ^= 1 << ((1 << bit) - 1)
            lfsr = (lfsr << 1) ^ (0x171 if lfsr & 0x80 else 0)
    return b"".join(word.to_bytes(8, "little") for word in state[:4])


KIND = Kind(
    name="CRYPTO",
    about="an address of the Bitcoin or Ethereum network",
    pattern=(
        rf"{BOUND}(?:[13][1-9A-HJ-NP-Za-km-z]{{25,34}}|(?:bc|tb|ltc)1[02-9ac-hj-np-z]{{8,87}}|(?:BC|TB|LTC)1[02-9AC-HJ-NP-Z]{{8,87}}|"
        rf"0[xX][0-9A-Fa-f]{{40}}){BOUND}"
    ),
    check=_check,
    normalise=_normalise,
    fake=_fake,
    turn=2,
    numeric=True,
    rank=35,
)
