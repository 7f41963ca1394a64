"""Mailboxes of addresses: the normalised address without its plus tag. Addresses with the same mailbox are those of one person.

This link follows from the addresses alone, so that it holds for values which a later run finds first; links by display names need a corpus.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core.keys import Key
from sanitize.kinds.kind import all_kinds
from sanitize.storage.tombstones import Tombstones, hash_mailboxes

ADDRESS_KIND = "EMAIL_ADDRESS"


def remove_plus_tags(addresses: pl.Series) -> pl.Series:
    """The mailboxes of addresses in normalised form; null for what is no address."""
    mailboxes = addresses.str.to_lowercase().str.replace(r"\A([^+@]+)[+][^@]*@", "${1}@")
    return mailboxes.to_frame("mailbox").select(pl.when(pl.col("mailbox").str.contains(r"\A[^@]+@")).then(pl.col("mailbox"))).to_series()


def read_address_parts(value_files: Sequence[Path]) -> pl.DataFrame:
    """The addresses in vault files: columns `value_id`, `local` (the part before the @, in lower case) and `mailbox`."""
    normalise = all_kinds()[ADDRESS_KIND].normalise
    frames = []
    for path in value_files:  # one file per task, with distinct values, not documents
        table = pl.DataFrame(pq.read_table(path, columns=["value_id", "kind", "value"], partitioning=None))
        table = table.filter(pl.col("kind").cast(pl.String) == ADDRESS_KIND)
        addresses = normalise(table["value"])
        local = addresses.str.to_lowercase().str.extract(r"\A([^@]+)@")
        frames.append(table.select("value_id", local.alias("local"), remove_plus_tags(addresses).alias("mailbox")))
    return pl.concat(frames).drop_nulls().unique()


def find_erased_values(value_files: Sequence[Path], erased: Tombstones, key: Key) -> tuple[int, ...]:
    """The ids of all erased values, ascending: those of the tombstones, and the addresses in the vault that differ from an erased one by a
    plus tag."""
    parts = read_address_parts(value_files)
    hashes = hash_mailboxes(pa.array(parts["mailbox"].to_list(), pa.large_string()), key)
    variants = parts["value_id"].to_numpy()[np.isin(hashes, np.array(erased.mailbox_hashes, np.int64))]
    return tuple(sorted({*erased.value_ids, *variants.tolist()}))
