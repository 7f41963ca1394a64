"""Addresses of the Bitcoin and Ethereum networks, validated by their check sums: base58check
(`1...`, `3...`), bech32 and bech32m (`bc1...`, `ltc1...`, `tb1...`), and `0x` with forty
hexadecimal digits.

An Ethereum address has a check sum in its letter case (EIP-55); one in lower case has none, and is
accepted without a check. One in upper case must pass, since fingerprints of PGP keys are written
like that. Normalised form: base58 as written, the others in lower case.
"""

from __future__ import annotations

import hashlib

import numpy as np
import polars as pl

from sanitize.array_types import I64
from sanitize.core.keys import Draws
from sanitize.kinds.kind import (
    BOUNDARY,
    LETTERS,
    WORD_BEFORE,
    Kind,
    draw_indices,
    from_byte_matrix,
    to_byte_matrix,
)

_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"  # BIP 173
_BECH32_GENERATORS = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
_BECH32_CONSTANTS = (1, 0x2BC830A3)  # of bech32 and bech32m (BIP 350)
_ETHEREUM = r"\A0[xX]"
_SEGWIT = r"\A(?i:bc|tb|ltc)1"


def _check(values: pl.Series) -> pl.Series:
    """`checksum` for an address whose check sum is wrong, `zero` for the null address, else
    null."""
    ether, segwit = (
        values.str.contains(_ETHEREUM).to_numpy(),
        values.str.contains(_SEGWIT).to_numpy(),
    )
    good = np.zeros(len(values), np.bool_)
    rows = np.flatnonzero(segwit)
    if len(rows):
        good[rows] = np.isin(
            _bech32_polymod(values.gather(rows).str.to_lowercase()), _BECH32_CONSTANTS
        )
    # loops over distinct candidates: neither SHA-256 nor Keccak has a columnar implementation
    rows = np.flatnonzero(ether)
    good[rows] = [_has_valid_eip55_case(value[2:]) for value in values.gather(rows)]
    rows = np.flatnonzero(~ether & ~segwit)
    good[rows] = [_decode_base58check(value) is not None for value in values.gather(rows)]
    return pl.select(
        pl.when(pl.Series(~good, dtype=pl.Boolean))
        .then(pl.lit("checksum"))
        .when(values.str.contains(r"\A0[xX]0{38}"))
        .then(pl.lit("zero"))
    ).to_series()


def _normalise(values: pl.Series) -> pl.Series:
    rows = values.str.contains(rf"{_ETHEREUM}|{_SEGWIT}").arg_true()
    return (
        values.clone().scatter(rows, values.gather(rows).str.to_lowercase())
        if len(rows)
        else values
    )


def _make_surrogates(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Other addresses of the same network and form, with valid check sums; base58 may be a
    character or two longer or shorter. `reserved` has no effect: no range is reserved."""
    out = values.clone()
    segwit, ether = (
        values.str.contains(_SEGWIT).to_numpy(),
        values.str.contains(_ETHEREUM).to_numpy(),
    )
    for rows, make in (
        (segwit, _make_segwit),
        (ether, _make_ethereum),
        (~segwit & ~ether, _make_base58),
    ):
        row_numbers = np.flatnonzero(rows)
        if len(row_numbers):
            out = out.scatter(
                row_numbers, make(values.gather(row_numbers), draws.take(row_numbers))
            )
    return out


def _make_segwit(values: pl.Series, draws: Draws) -> pl.Series:
    """Bech32 or bech32m addresses of the same network, version, length and letter case."""
    rows = to_byte_matrix(values)
    upper = (rows[:, 0] < 97)[:, None]
    rows = np.where((rows >= 65) & (rows <= 90), rows + 32, rows).astype(np.uint8)
    # network prefixes contain no digit, so the first `1` is the separator
    first = np.argmax(rows == ord("1"), axis=1) + 1
    place = np.arange(rows.shape[1]) - first[:, None]
    size = (rows != 0).sum(axis=1) - first
    # the first character is the version, which determines the check sum
    body = (place > 0) & (place < (size - 6)[:, None])
    table = np.frombuffer(_BECH32.encode(), np.uint8)
    for column in np.flatnonzero(body.any(axis=0)).tolist():
        rows[:, column] = np.where(
            body[:, column], table[draw_indices(draws, column, 32)], rows[:, column]
        )
    check_positions = first[:, None] + (size - 6)[:, None] + np.arange(6)
    version = rows[np.arange(len(rows)), first]
    np.put_along_axis(rows, check_positions, np.uint8(ord("q")), axis=1)
    end = np.where(version == ord("q"), _BECH32_CONSTANTS[0], _BECH32_CONSTANTS[1])
    rest = _bech32_polymod(from_byte_matrix(rows)) ^ end
    np.put_along_axis(
        rows, check_positions, table[(rest[:, None] >> (5 * (5 - np.arange(6)))) & 31], axis=1
    )
    rows = np.where(upper & (rows >= 97), rows - 32, rows).astype(np.uint8)
    return from_byte_matrix(rows, values.name)


def _make_ethereum(values: pl.Series, draws: Draws) -> pl.Series:
    """Ethereum addresses, with an EIP-55 check sum where the original has upper-case letters."""
    hexed = np.frombuffer(b"0123456789abcdef", np.uint8)
    rows = to_byte_matrix(values)
    out = rows.copy()
    for column in range(2, 42):
        out[:, column] = hexed[draw_indices(draws, column, 16)]
    # at least one letter, so that the letter case can carry the check sum
    without_letter = ~(out[:, 2:] >= 97).any(axis=1)
    out[without_letter, 41] = hexed[10 + draw_indices(draws, 1, 6)][without_letter]
    texts = from_byte_matrix(out, values.name).to_list()
    mixed_case = values.str.contains("[A-F]").to_list()
    # a loop over the values: Keccak has no columnar implementation
    return pl.Series(
        values.name,
        [
            _to_eip55_case(text) if is_mixed else text
            for text, is_mixed in zip(texts, mixed_case, strict=True)
        ],
    )


def _make_base58(values: pl.Series, draws: Draws) -> pl.Series:
    """Base58check addresses with the same version byte (0 or 5) and a drawn payload."""
    payload = np.column_stack([draw_indices(draws, lane, 256) for lane in range(20)]).astype(
        np.uint8
    )
    # a loop over the values: numbers of 200 bits and SHA-256 have no columnar form
    addresses = [
        _encode_base58check(bytes([5 if value[0] == "3" else 0]) + row.tobytes())
        for value, row in zip(values, payload, strict=True)
    ]
    return pl.Series(values.name, addresses)


def _decode_base58check(text: str) -> bytes | None:
    """The 21 bytes of a base58check address of Bitcoin, or None where the check sum is wrong."""
    number = 0
    for letter in text:
        number = number * 58 + _BASE58.index(letter)
    if number >= 1 << 200:
        return None
    raw = number.to_bytes(25, "big")
    sound = (
        _base58_checksum(raw[:-4]) == raw[-4:]
        and raw[0] in (0, 5)
        and len(text) - len(text.lstrip("1")) == len(raw) - len(raw.lstrip(b"\0"))
    )
    return raw[:-4] if sound else None


def _encode_base58check(payload: bytes) -> str:
    """The base58check text of a payload (version byte and hash)."""
    raw = payload + _base58_checksum(payload)
    number, out = int.from_bytes(raw, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        out = _BASE58[digit] + out
    return "1" * (len(raw) - len(raw.lstrip(b"\0"))) + out


def _base58_checksum(data: bytes) -> bytes:
    return hashlib.sha256(hashlib.sha256(data).digest()).digest()[:4]


def _bech32_polymod(values: pl.Series) -> I64:
    """The check sum of BIP 173 over the network prefix and the data of every value; values must be
    in lower case."""
    rows = to_byte_matrix(values)
    first = np.argmax(rows == ord("1"), axis=1)
    table = np.full(256, -1, np.int64)
    table[list(_BECH32.encode())] = np.arange(32)
    sums = np.ones(len(rows), np.int64)

    def step(sums: I64, value: I64) -> I64:
        top = sums >> 25
        sums = (sums & 0x1FFFFFF) << 5 ^ value
        for bit, factor in enumerate(_BECH32_GENERATORS):
            sums ^= np.where((top >> bit) & 1, factor, 0)
        return sums

    prefix_columns = [
        np.where(first > at, rows[:, at].astype(np.int64), 0)
        for at in range(int(first.max(initial=0)))
    ]
    for half in (
        [part >> 5 for part in prefix_columns]
        + [np.zeros(len(rows), np.int64)]
        + [part & 31 for part in prefix_columns]
    ):
        sums = np.where(first >= len(prefix_columns), step(sums, half), sums)
    if (first < len(prefix_columns)).any():
        # values with a shorter network prefix are computed separately
        short = np.flatnonzero(first < len(prefix_columns))
        sums[short] = _bech32_polymod(values.gather(short))
    for column in range(rows.shape[1]):
        is_data = (column > first) & (rows[:, column] != 0) & (first >= len(prefix_columns))
        sums = np.where(is_data, step(sums, table[rows[:, column]]), sums)
    return sums


def _has_valid_eip55_case(digits: str) -> bool:
    """True where the letter case of forty hexadecimal digits is that of EIP-55, or all are in lower
    case."""
    return digits == digits.lower() or _to_eip55_case("0x" + digits.lower())[2:] == digits


def _to_eip55_case(address: str) -> str:
    """The address `0x...` in the letter case of EIP-55."""
    digits = address[2:].lower()
    marks = _keccak256(digits.encode()).hex()
    return "0x" + "".join(
        letter.upper() if int(mark, 16) >= 8 else letter
        for letter, mark in zip(digits, marks, strict=False)
    )


def _keccak256(data: bytes) -> bytes:
    """Keccak-256 as Ethereum uses it: SHA-3 before its padding was changed, which `hashlib` does
    not have. For less than 136 bytes."""
    block = bytearray(data + b"\x01" + bytes(135 - len(data)))
    block[135] |= 0x80
    state = [
        int.from_bytes(block[8 * at : 8 * at + 8], "little") if at < 17 else 0 for at in range(25)
    ]
    mask, lfsr = (1 << 64) - 1, 1
    for _ in range(24):
        columns = [
            state[x] ^ state[x + 5] ^ state[x + 10] ^ state[x + 15] ^ state[x + 20]
            for x in range(5)
        ]
        for x in range(5):
            turned = columns[(x + 1) % 5]
            spread = columns[(x - 1) % 5] ^ ((turned << 1 | turned >> 63) & mask)
            for y in range(0, 25, 5):
                state[x + y] ^= spread
        x, y, current = 1, 0, state[1]
        for rotation in range(24):
            x, y = y, (2 * x + 3 * y) % 5
            shift = (rotation + 1) * (rotation + 2) // 2 % 64
            current, state[x + 5 * y] = (
                state[x + 5 * y],
                (current << shift | current >> (64 - shift)) & mask,
            )
        for y in range(0, 25, 5):
            row = state[y : y + 5]
            for x in range(5):
                state[x + y] = row[x] ^ (~row[(x + 1) % 5] & mask & row[(x + 2) % 5])
        for bit in range(7):
            if lfsr & 1:
                state[0] ^= 1 << ((1 << bit) - 1)
            lfsr = (lfsr << 1) ^ (0x171 if lfsr & 0x80 else 0)
    return b"".join(word.to_bytes(8, "little") for word in state[:4])


# addresses of Bitcoin, which have a check sum of 30 bits and more: also found inside a word
# (`wallet_1A1z...`)
_CHECKED = "[13][1-9A-HJ-NP-Za-km-z]{25,34}|(?:bc|tb|ltc)1[02-9ac-hj-np-z]{8,87}|(?:BC|TB|LTC)1[02-9AC-HJ-NP-Z]{8,87}"  # noqa: E501
KIND = Kind(
    name="CRYPTO",
    about="an address of the Bitcoin or Ethereum network",
    category="financial",
    field_names=tuple(
        (
            "wallet|wallet address|btc address|bitcoin address|eth address|"
            "ethereum address|crypto address|bitcoin wallet"
        ).split("|")
    ),
    pattern=rf"{BOUNDARY}(?:{_CHECKED}|0[xX][0-9A-Fa-f]{{40}}){BOUNDARY}",
    embedded_pattern=rf"{WORD_BEFORE}(?:{_CHECKED})(?:{BOUNDARY}|_)|{BOUNDARY}(?:{_CHECKED})_",
    prefix_pattern="([A-Za-z0-9_]*_)[A-Za-z0-9]",
    suffix_pattern="_",
    check=_check,
    normalise=_normalise,
    make_surrogates=_make_surrogates,
    phase=2,
    digit_lines_only=True,
    rank=35,
    first_bytes=b"013_" + LETTERS,
    hits=(
        (
            "sent to 0x52908400098527886e0f7030069857d2e4169ee7",
            "0x52908400098527886e0f7030069857d2e4169ee7",
        ),
        ("to 1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa or", "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"),
        (
            "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
            "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
        ),
        (
            "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
            "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
        ),
        ("wallet_1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa_2", "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"),
    ),
    near_misses=("0x5aAeb6 bc1 1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb",),
)
