"""Mailboxes of addresses, and which values of a vault are erased by them. A mailbox is the normalised address without its plus tag;
addresses with the same mailbox are those of one person.

These links follow from the addresses alone, so that they hold for values which a later run finds first; links by display names need a
corpus.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from sanitize.core.keys import Key
from sanitize.stages.erased_addresses import are_erased, list_inner_addresses, read_addresses, remove_plus_tags
from sanitize.storage.tombstones import Tombstones

VERSION = 3  # raise it when other values are found to be erased


def read_address_parts(value_files: Sequence[Path]) -> pl.DataFrame:
    """The addresses in vault files: columns `value_id`, `local` (the part before the @, in lower case) and `mailbox`."""
    frames = []
    for path in value_files:  # one file per task, with distinct values, not documents
        table = read_addresses(path)
        local = table["address"].str.to_lowercase().str.extract(r"\A([^@]+)@")
        frames.append(table.select("value_id", local.alias("local"), remove_plus_tags(table["address"]).alias("mailbox")))
    return pl.concat(frames).drop_nulls().unique()


def find_erased_values(value_files: Sequence[Path], erased: Tombstones, key: Key) -> tuple[int, ...]:
    """The ids of all erased values, ascending: those of the tombstones, and the addresses in the vault that differ from an erased one by a
    plus tag, or contain one."""
    found = set(erased.value_ids)
    for path in value_files:
        table = read_addresses(path)
        inner = list_inner_addresses(table["address"])
        found |= set(table["value_id"].gather(inner["row"].filter(are_erased(inner["address"], erased, key))))
    return tuple(sorted(found))
