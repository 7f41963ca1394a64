"""Wallet addresses: published test vectors, addresses with one wrong letter, and surrogates with
valid check sums."""

from __future__ import annotations

import polars as pl
import pytest

from sanitize.kinds.kind import get_kind
from tests.support import make_draws

CRYPTO = get_kind("CRYPTO")
VALID = [
    "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",  # of the genesis block
    "1111111111111111111114oLvT2",  # without an owner
    "3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy",
    "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",  # BIP 173
    "BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4",
    "tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sl5k7",
    "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0",  # BIP 350
    "ltc1qw508d6qejxtdg4y5r3zarvary0c5xw7kgmn4n9",
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",  # EIP 55
    "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
    "0x52908400098527886E0F7030069857D2E4169EE7",
    "0xde709f2102306220921060314715629080e2fb77",
]


@pytest.mark.parametrize("value", VALID)
def test_published_addresses_pass_and_fail_with_one_letter_changed(value: str) -> None:
    assert CRYPTO.check is not None
    assert CRYPTO.check(pl.Series([value])).to_list() == [None]
    if value[:2] == "0x" and value[2:] == value[2:].lower():
        return  # without a check sum
    changed_position = len(value) - 5
    wrong = (
        value[:changed_position]
        + next(
            letter
            for letter in "QqPp3zA"
            if letter.isupper() == value[changed_position].isupper()
            and letter != value[changed_position]
        )
        + value[changed_position + 1 :]
    )
    if value[:2] == "0x":
        changed_position = max(
            position for position, letter in enumerate(value) if letter.isalpha()
        )
        wrong = (
            value[:changed_position]
            + value[changed_position].swapcase()
            + value[changed_position + 1 :]
        )
    assert CRYPTO.check(pl.Series([wrong])).to_list() == ["checksum"]


def test_valid_and_invalid_addresses_in_one_column() -> None:
    assert CRYPTO.check is not None
    column = pl.Series(VALID + [value[:-1] for value in VALID[:8]])
    assert CRYPTO.check(column).to_list() == [None] * len(VALID) + ["checksum"] * 8
    assert CRYPTO.check(pl.Series(["0x" + "0" * 40])).to_list() == ["zero"]
    # a fingerprint has this form
    assert CRYPTO.check(pl.Series(["0x5AAEB6053F3E94C9B9A09F33669435E7EF1BEAED"])).to_list() == [
        "checksum"
    ]


@pytest.mark.parametrize("value", VALID)
def test_surrogates_pass_the_check_and_keep_the_form(value: str) -> None:
    assert CRYPTO.check is not None
    surrogates = CRYPTO.make_surrogates(pl.Series("v", [value] * 60), make_draws(60), False)
    assert CRYPTO.check(surrogates).is_null().all() and surrogates.n_unique() == 60
    sizes = surrogates.str.len_bytes()
    if value[0] in "13":
        assert sizes.is_between(26, 35).all() and surrogates.str.starts_with(value[0]).all()
    else:
        assert (sizes == len(value)).all() and surrogates.str.starts_with(
            value[:4] if value[0] != "0" else "0x"
        ).all()
    small, large = value[4:] == value[4:].lower(), value[4:] == value[4:].upper()
    if value[0] not in "13":
        assert all((surrogate[4:] == surrogate[4:].lower()) == small for surrogate in surrogates)
    if value[0] in "BL":
        assert large and all(surrogate == surrogate.upper() for surrogate in surrogates)


def test_mixed_networks_in_one_column() -> None:
    assert CRYPTO.check is not None
    values = pl.Series("v", VALID * 5)
    assert (
        CRYPTO.check(CRYPTO.make_surrogates(values, make_draws(len(values)), False)).is_null().all()
    )
