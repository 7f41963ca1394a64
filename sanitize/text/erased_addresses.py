"""Addresses of erased persons, as the rewriting recognises them: by keyed hashes, since tombstones
have no texts.

An address counts as erased if it is one of theirs, equals one apart from its plus tag, or contains
one between signs, as `owner+ann@example.com` and `ann@example.com.au` do: a search for the address
of the person finds it there as well.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from sanitize.core.arrow_buffers import to_large_string
from sanitize.core.keys import Key, compute_value_ids
from sanitize.kinds.kind import all_kinds
from sanitize.storage.parquet_files import read_table
from sanitize.storage.tombstones import Tombstones, hash_mailboxes

ADDRESS_KIND = "EMAIL_ADDRESS"
_MIN_LOCAL_PART = 5  # characters of a local part that identifies a person; `info` identifies none
# up to 256 characters before an @, which is more than any address has, and the host; a replacement
# may be a long URL
_CANDIDATE = r"[^@]{1,256}@[0-9A-Za-z_.\-\x{80}-\x{10ffff}]+"
# the boundary rule of the leak check: before an address no word character, after it no letter
_WITHOUT_FIRST_WORD = r"(?s)\A[0-9A-Za-z_]*[^0-9A-Za-z_@]+([^@]+@.*)\z"
_WITHOUT_LAST_LABEL = r"(?s)\A([^@]+@.+)[^A-Za-z][A-Za-z]*\z"


@dataclass(frozen=True, repr=False)
class ErasedAddresses:
    """The addresses of erased persons, and the local parts of those in the corpus, in lower case,
    ascending.

    A draw may compose an erased address, or one with its local part, from components of other
    persons: editors have to avoid both."""

    tombstones: Tombstones
    key: Key
    local_parts: tuple[str, ...] = ()

    @classmethod
    def find(
        cls,
        tombstones: Tombstones,
        key: Key,
        value_files: Sequence[Path],
        value_ids: Collection[int],
    ) -> ErasedAddresses:
        """Those of the tombstones, with the local parts of those in files of the vault.
        `value_ids`: of all erased values."""
        local_parts: set[str] = set()
        for path in value_files:
            erased = list_erased_addresses(
                read_addresses(path, value_ids)["address"], tombstones, key
            )["address"]
            local_parts |= set(
                erased.str.to_lowercase()
                .str.extract(rf"\A([^@]{{{_MIN_LOCAL_PART},}})@")
                .drop_nulls()
            )
        return cls(tombstones, key, tuple(sorted(local_parts)))

    def are_in(self, replacements: pl.Series) -> pl.Series:
        """True for each replacement that is or contains an erased address, in any form
        (`ann%40example.com`), or that has the local part of one."""
        distinct = replacements.unique()  # most are labels in many plans
        normalised = all_kinds()[ADDRESS_KIND].normalise(distinct)
        local_parts = pl.Series(self.local_parts, dtype=pl.String)
        has_local_part = (
            normalised.str.to_lowercase().str.extract(r"\A([^@]+)@").is_in(local_parts.implode())
        )
        is_erased = has_local_part.fill_null(False).to_numpy().copy()
        is_erased[
            list_erased_addresses(normalised, self.tombstones, self.key)["row"].to_numpy()
        ] = True
        return replacements.is_in(distinct.filter(is_erased).implode()).fill_null(False)


def list_inner_addresses(texts: pl.Series) -> pl.DataFrame:
    """The texts that have an @ behind their first character, and every address in them that a
    search would find there. Columns `row`, of the text, and `address`; one may occur twice."""
    rows = pl.DataFrame(
        {
            "row": pl.int_range(len(texts), dtype=pl.Int64, eager=True),
            "address": texts.cast(pl.String),
        }
    )
    rows = rows.filter(pl.col("address").str.contains(r"\A[^@]+@"))
    inner = (
        rows.with_columns(pl.col("address").str.extract_all(_CANDIDATE))
        .explode("address")
        .drop_nulls()
    )
    for pattern in (_WITHOUT_FIRST_WORD, _WITHOUT_LAST_LABEL):
        shorter, found = inner, [inner]
        while shorter.height:
            shorter = shorter.with_columns(pl.col("address").str.extract(pattern)).drop_nulls()
            found.append(shorter)
        inner = pl.concat(found)
    return pl.concat([rows.filter(~pl.col("address").str.contains(rf"\A{_CANDIDATE}\z")), inner])


def list_erased_addresses(texts: pl.Series, tombstones: Tombstones, key: Key) -> pl.DataFrame:
    """Of `list_inner_addresses` of texts in normalised form, those that are erased, or that differ
    from an erased one by a plus tag."""
    inner = list_inner_addresses(texts)
    value_ids = compute_value_ids(to_large_string(inner["address"]), ADDRESS_KIND, key)
    mailbox_hashes = hash_mailboxes(
        to_large_string(remove_plus_tags(inner["address"])).fill_null(""), key
    )
    is_erased = np.isin(value_ids, np.array(tombstones.value_ids, np.int64))
    is_erased |= np.isin(mailbox_hashes, np.array(tombstones.mailbox_hashes, np.int64))
    return inner.filter(is_erased)


def remove_plus_tags(addresses: pl.Series) -> pl.Series:
    """The mailboxes of addresses in normalised form; null for what is no address."""
    mailboxes = addresses.str.to_lowercase().str.replace(r"\A([^+@]+)[+][^@]*@", "${1}@")
    return (
        mailboxes.to_frame("mailbox")
        .select(pl.when(pl.col("mailbox").str.contains(r"\A[^@]+@")).then(pl.col("mailbox")))
        .to_series()
    )


def read_addresses(value_file: Path, value_ids: Collection[int] | None = None) -> pl.DataFrame:
    """The addresses in a file of the vault, or those of `value_ids`: columns `value_id` and
    `address`, in normalised form."""
    table = pl.DataFrame(read_table(value_file, columns=["value_id", "kind", "value"]))
    table = table.filter(pl.col("kind").cast(pl.String) == ADDRESS_KIND)
    if value_ids is not None:
        table = table.filter(
            pl.col("value_id").is_in(pl.Series(sorted(value_ids), dtype=pl.Int64).implode())
        )
    return table.select(
        "value_id", all_kinds()[ADDRESS_KIND].normalise(table["value"]).alias("address")
    )
