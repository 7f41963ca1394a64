"""Which addresses count as those of an erased person: their own, plus tags of them, and addresses
that contain one. All are invented."""

from __future__ import annotations

import re
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
from sanitize.text.erased_addresses import ADDRESS_KIND, ErasedAddresses, list_inner_addresses

KEY = Key.from_seed(5)
ANN = "ann@example.com"
LONG_ANN = "ann.roe@example.com"


def erase(*addresses: str) -> Tombstones:
    """Tombstones of some addresses, as an erasure stores them."""
    array = pa.array(addresses, pa.large_string())
    hashes = tombstones.hash_mailboxes(array, KEY)
    return Tombstones(
        tuple(sorted(compute_value_ids(array, ADDRESS_KIND, KEY).tolist())),
        mailbox_hashes=tuple(sorted(hashes.tolist())),
    )


def write_vault(folder: Path, addresses: list[str]) -> Path:
    ids = compute_value_ids(pa.array(addresses, pa.large_string()), ADDRESS_KIND, KEY)
    table = pa.table({"value_id": ids, "kind": [ADDRESS_KIND] * len(addresses), "value": addresses})
    pq.write_table(table, folder / "values.parquet")
    return folder / "values.parquet"


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        ("ann@h", ["ann@h"]),
        ("owner+ann@h", ["owner+ann@h", "ann@h"]),
        ("a.b-c+d@h", ["a.b-c+d@h", "b-c+d@h", "c+d@h", "d@h"]),
        ("x--ann@h", ["x--ann@h", "ann@h"]),
        ("x_ann@h", ["x_ann@h"]),  # one word: a search for `ann@` by words does not find it
        ("x=ann@h", ["x=ann@h", "ann@h"]),
        ("+@h", ["+@h"]),
        ("x+@h", ["x+@h"]),
        (ANN, [ANN, "ann@example"]),
        ("ann@example.com.au", ["ann@example.com.au", ANN, "ann@example"]),
        # `ann@h` is found before a digit too, but not before a letter
        ("ann@h-2b_x", ["ann@h-2b_x", "ann@h-2b", "ann@h-", "ann@h"]),
        ("x.ann@h.au", ["x.ann@h.au", "ann@h.au", "x.ann@h", "ann@h"]),
        ("ann@x@h", ["ann@x@h", "ann@x"]),
        ("a+b@h\nx", ["a+b@h\nx", "a+b@h", "b@h"]),
        (
            "http://h/?a=x@h&b=ann@h/p",
            [
                "http://h/?a=x@h&b=ann@h/p",
                "http://h/?a=x@h",
                "h/?a=x@h",
                "a=x@h",
                "x@h",
                "&b=ann@h",
                "b=ann@h",
                "ann@h",
            ],
        ),
        ("[EMAIL_ADDRESS]", []),
        ("555-0100", []),
        ("@example.com", []),
        ("", []),
    ],
)
def test_addresses_inside_an_address(text: str, inner: list[str]) -> None:
    found = list_inner_addresses(pl.Series(["555-0100", text]))
    assert sorted(found["address"].to_list()) == sorted(inner)
    assert set(found["row"]) <= {1}


@given(st.lists(st.text(alphabet="aB1_.+-=@é", max_size=12), max_size=6))
def test_inner_addresses_are_what_a_search_finds(texts: list[str]) -> None:
    """Between signs as the boundary rule of the leak check has it: before it no word character,
    after it no letter."""
    found = list_inner_addresses(pl.Series(texts, dtype=pl.String))
    for row, address in found.rows():
        pattern = (
            rf"(?a:(?<!\w)){re.escape(address)}(?![A-Za-z])"
            if re.match(r"(?a:\w)", address)
            else re.escape(address)
        )
        assert re.search(pattern, texts[row]) and address.index("@") > 0
    assert {row for row, _ in found.rows()} == {
        row for row, text in enumerate(texts) if text.find("@") > 0
    }


def test_a_long_replacement_has_few_inner_addresses() -> None:
    """A URL may have an @ behind thousands of signs."""
    found = list_inner_addresses(
        pl.Series(
            [f"http://example.org/{'a/' * 50_000}@example.com/{'b/' * 50_000}", "a/" * 200 + ANN]
        )
    )
    assert found.height < 1000 and ANN in found["address"]


@pytest.mark.parametrize(
    ("replacement", "is_erased"),
    [
        (ANN, True),
        ("Ann@EXAMPLE.com", True),
        ("ann+news@example.com", True),
        ("owner+ann@example.com", True),
        ("owner.Ann@example.com", True),
        ("owner-ann+news@example.com", True),
        ("ann@example.com.au", True),
        ("owner-ann@example.com.au", True),
        ("ann@example.community", False),
        ("owner%2Bann%40example.com", True),  # a variant has the form of its original
        ("owner-ann=example.com", True),
        ("ann at example dot com", True),
        ("ann.roe%40other.example", True),
        ("http://example.org/?a=bob@example.org&b=ann@example.com", True),
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
def test_replacements_that_have_an_erased_address(
    replacement: str, is_erased: bool, tmp_path: Path
) -> None:
    vault = write_vault(tmp_path, [ANN, LONG_ANN, "bob.day@example.org"])
    erased = erase(ANN, LONG_ANN)
    addresses = ErasedAddresses.find(erased, KEY, [vault], find_erased_values([vault], erased, KEY))
    assert addresses.local_parts == ("ann.roe",)
    assert addresses.are_in(pl.Series(["bob.day@other.example", replacement])).to_list() == [
        False,
        is_erased,
    ]


def test_addresses_of_the_vault_that_contain_an_erased_one(tmp_path: Path) -> None:
    """Also where the erased address itself is not in the vault, since the finders read the longer
    one."""
    addresses = [
        "owner+ann@example.com",
        "mary.ann@example.com",
        "joann@example.com",
        "ann@example.org",
        "ann+x@example.com",
        "ann@example.com.au",
    ]
    vault = write_vault(tmp_path, addresses)
    ids = compute_value_ids(
        pa.array([*addresses, ANN], pa.large_string()), ADDRESS_KIND, KEY
    ).tolist()
    assert find_erased_values([vault], erase(ANN), KEY) == tuple(
        sorted(ids[row] for row in (0, 1, 4, 5, 6))
    )
    assert find_erased_values([vault], Tombstones(value_ids=(ids[6],)), KEY) == tuple(
        sorted(ids[row] for row in (0, 1, 5, 6))
    )
