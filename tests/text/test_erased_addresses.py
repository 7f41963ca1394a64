"""Which addresses count as those of an erased person: their own, plus tags of them, and addresses that end with one. All are invented."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.core.keys import Key, compute_value_ids
from sanitize.pipeline.erasure.mailboxes import find_erased_values
from sanitize.storage import tombstones
from sanitize.storage.tombstones import Tombstones
from sanitize.text.erased_addresses import ADDRESS_KIND, ErasedAddresses, list_address_ends

KEY = Key.from_seed(5)
ANN = "ann@example.com"
LONG_ANN = "ann.roe@example.com"


def erase(*addresses: str) -> Tombstones:
    """Tombstones of some addresses, as an erasure stores them."""
    array = pa.array(addresses, pa.large_string())
    hashes = tombstones.hash_mailboxes(array, KEY)
    return Tombstones(tuple(sorted(compute_value_ids(array, ADDRESS_KIND, KEY).tolist())), mailbox_hashes=tuple(sorted(hashes.tolist())))


def write_vault(folder: Path, addresses: list[str]) -> Path:
    ids = compute_value_ids(pa.array(addresses, pa.large_string()), ADDRESS_KIND, KEY)
    table = pa.table({"value_id": ids, "kind": [ADDRESS_KIND] * len(addresses), "value": addresses})
    pq.write_table(table, folder / "values.parquet")
    return folder / "values.parquet"


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        (ANN, [ANN]),
        ("owner+ann@example.com", ["owner+ann@example.com", ANN]),
        ("a.b-c+d@h.example", ["a.b-c+d@h.example", "b-c+d@h.example", "c+d@h.example", "d@h.example"]),
        ("x--ann@example.com", ["x--ann@example.com", ANN]),
        ("x_ann@example.com", ["x_ann@example.com"]),  # one word: a search for `ann@` by words does not find it
        ("x=ann@example.com", ["x=ann@example.com", ANN]),
        ("+@example.com", ["+@example.com"]),
        ("x+@example.com", ["x+@example.com"]),
        ("ann@x@example.com", ["ann@x@example.com"]),
        ("a+b@h\n.example", ["a+b@h\n.example", "b@h\n.example"]),
        ("[EMAIL_ADDRESS]", []),
        ("555-0100", []),
        ("@example.com", []),
        ("", []),
    ],
)
def test_ends_of_an_address(text: str, ends: list[str]) -> None:
    found = list_address_ends(pl.Series(["555-0100", text]))
    assert found["end"].to_list() == ends
    assert set(found["row"]) <= {1}


@given(st.lists(st.text(alphabet="aB1_.+-=@é", max_size=12), max_size=6))
def test_every_end_is_an_address_and_a_suffix(texts: list[str]) -> None:
    found = list_address_ends(pl.Series(texts, dtype=pl.String))
    for row, end in found.rows():
        assert texts[row].endswith(end) and end.index("@") > 0
        before = texts[row][: len(texts[row]) - len(end)]
        assert before == "" or not (before[-1].isascii() and (before[-1].isalnum() or before[-1] == "_"))
    assert {row for row, _ in found.rows()} == {row for row, text in enumerate(texts) if text.find("@") > 0}


@pytest.mark.parametrize(
    ("replacement", "is_erased"),
    [
        (ANN, True),
        ("Ann@EXAMPLE.com", True),
        ("ann+news@example.com", True),
        ("owner+ann@example.com", True),
        ("owner.Ann@example.com", True),
        ("owner-ann+news@example.com", True),
        ("ann@example.org", False),  # `ann` is too short to stand for a person
        ("joann@example.com", False),
        ("ann@sub.example.com", False),
        (LONG_ANN, True),
        ("ann.roe@other.example", True),  # the local part of an erased address
        ("owner+ann.roe@other.example", False),
        ("roe@example.com", False),
        ("[EMAIL_ADDRESS]", False),
        ("", False),
    ],
)
def test_replacements_that_have_an_erased_address(replacement: str, is_erased: bool, tmp_path: Path) -> None:
    vault = write_vault(tmp_path, [ANN, LONG_ANN, "bob.day@example.org"])
    addresses = ErasedAddresses.find(erase(ANN, LONG_ANN), KEY, [vault])
    assert addresses.local_parts == ("ann.roe",)
    assert addresses.are_in(pl.Series(["bob.day@other.example", replacement])).to_list() == [False, is_erased]


def test_addresses_of_the_vault_that_end_with_an_erased_one(tmp_path: Path) -> None:
    """Also where the erased address itself is not in the vault, since the finders read the longer one."""
    addresses = ["owner+ann@example.com", "mary.ann@example.com", "joann@example.com", "ann@example.org", "ann+x@example.com"]
    vault = write_vault(tmp_path, addresses)
    ids = compute_value_ids(pa.array([*addresses, ANN], pa.large_string()), ADDRESS_KIND, KEY).tolist()
    assert find_erased_values([vault], erase(ANN), KEY) == tuple(sorted(ids[row] for row in (0, 1, 4, 5)))
    assert find_erased_values([vault], Tombstones(value_ids=(ids[5],)), KEY) == tuple(sorted(ids[row] for row in (0, 1, 5)))
