"""Addresses of erased persons, as the rewriting recognises them: by keyed hashes, since tombstones have no texts.

An address counts as erased if it is one of theirs, equals one apart from its plus tag, or ends with one after a sign, as
`owner+ann@example.com` does: a search for the address of the person finds it there as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from sanitize.array_types import Mask
from sanitize.core.arrow_buffers import to_large_string
from sanitize.core.keys import Key, compute_value_ids
from sanitize.kinds.kind import all_kinds
from sanitize.storage.tombstones import Tombstones, hash_mailboxes

ADDRESS_KIND = "EMAIL_ADDRESS"
_MIN_LOCAL_PART = 5  # characters of a local part that identifies a person; `info` identifies none


@dataclass(frozen=True, repr=False)
class ErasedAddresses:
    """The addresses of erased persons, and the local parts of those in the corpus, in lower case, ascending.

    A draw may compose an erased address, or one with its local part, from components of other persons: editors have to avoid both."""

    tombstones: Tombstones
    key: Key
    local_parts: tuple[str, ...] = ()

    @classmethod
    def find(cls, tombstones: Tombstones, key: Key, value_files: Sequence[Path]) -> ErasedAddresses:
        """Those of the tombstones, with the local parts of the erased addresses in files of the vault."""
        local_parts: set[str] = set()
        for path in value_files:
            ends = list_address_ends(read_addresses(path)["address"])
            erased_ends = ends.filter(are_erased(ends["end"], tombstones, key))
            local_parts |= set(erased_ends["end"].str.to_lowercase().str.extract(rf"\A([^@]{{{_MIN_LOCAL_PART},}})@").drop_nulls())
        return cls(tombstones, key, tuple(sorted(local_parts)))

    def are_in(self, replacements: pl.Series) -> pl.Series:
        """True for each replacement that is or ends with an erased address, or that has the local part of one."""
        has_local_part = replacements.str.to_lowercase().str.extract(r"\A([^@]+)@").is_in(pl.Series(self.local_parts).implode())
        ends = list_address_ends(replacements)
        is_erased = np.zeros(len(replacements), np.bool_)
        is_erased[ends["row"].filter(are_erased(ends["end"], self.tombstones, self.key)).to_numpy()] = True
        return has_local_part.fill_null(False) | pl.Series(is_erased)


def list_address_ends(texts: pl.Series) -> pl.DataFrame:
    """The texts that are addresses, and the ends of these after a sign in the local part. Columns `row`, of the text, and `end`."""
    rows = pl.DataFrame({"row": pl.int_range(len(texts), dtype=pl.Int64, eager=True), "end": texts.cast(pl.String)})
    rows = rows.filter(pl.col("end").str.contains(r"\A[^@]+@"))
    found = [rows]
    while rows.height:  # one word of the local parts less
        rows = rows.with_columns(pl.col("end").str.extract(r"(?s)\A[0-9A-Za-z_]*[^0-9A-Za-z_@]+([^@]+@.*)\z")).drop_nulls()
        found.append(rows)
    return pl.concat(found)


def are_erased(addresses: pl.Series, tombstones: Tombstones, key: Key) -> Mask:
    """True for each address that is erased itself, or differs from an erased one by a plus tag."""
    normalised = all_kinds()[ADDRESS_KIND].normalise(addresses)
    value_ids = compute_value_ids(to_large_string(normalised), ADDRESS_KIND, key)
    mailbox_hashes = hash_mailboxes(to_large_string(remove_plus_tags(normalised)).fill_null(""), key)
    found: Mask = np.isin(value_ids, np.array(tombstones.value_ids, np.int64))
    found |= np.isin(mailbox_hashes, np.array(tombstones.mailbox_hashes, np.int64))
    return found


def remove_plus_tags(addresses: pl.Series) -> pl.Series:
    """The mailboxes of addresses in normalised form; null for what is no address."""
    mailboxes = addresses.str.to_lowercase().str.replace(r"\A([^+@]+)[+][^@]*@", "${1}@")
    return mailboxes.to_frame("mailbox").select(pl.when(pl.col("mailbox").str.contains(r"\A[^@]+@")).then(pl.col("mailbox"))).to_series()


def read_addresses(value_file: Path) -> pl.DataFrame:
    """The addresses in a file of the vault: columns `value_id` and `address`, in normalised form."""
    table = pl.DataFrame(pq.read_table(value_file, columns=["value_id", "kind", "value"], partitioning=None))
    table = table.filter(pl.col("kind").cast(pl.String) == ADDRESS_KIND)
    return table.select("value_id", all_kinds()[ADDRESS_KIND].normalise(table["value"]).alias("address"))
