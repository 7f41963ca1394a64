"""Mailboxes of addresses, and which values of a vault are erased by them. A mailbox is the
normalised address without its plus tag; addresses with the same mailbox are those of one person.

These links follow from the addresses alone, so that they hold for values which a later run finds
first; links by display names need a corpus.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import polars as pl

from sanitize.core.arrow_buffers import to_large_string
from sanitize.core.keys import Key, compute_value_ids
from sanitize.storage.tombstones import Tombstones
from sanitize.text.erased_addresses import (
    ADDRESS_KIND,
    list_erased_addresses,
    list_inner_addresses,
    read_addresses,
    remove_plus_tags,
)

VERSION = 3  # raise it when other values are found to be erased


def read_address_parts(value_files: Sequence[Path]) -> pl.DataFrame:
    """The addresses in vault files: columns `value_id`, `local` (the part before the @, in lower
    case) and `mailbox`."""
    frames = []
    for path in value_files:  # one file per task, with distinct values, not documents
        table = read_addresses(path)
        local = table["address"].str.to_lowercase().str.extract(r"\A([^@]+)@")
        frames.append(
            table.select(
                "value_id",
                local.alias("local"),
                remove_plus_tags(table["address"]).alias("mailbox"),
            )
        )
    return pl.concat(frames).drop_nulls().unique()


def find_erased_values(
    value_files: Sequence[Path], erased: Tombstones, key: Key
) -> tuple[int, ...]:
    """The ids of all erased values, ascending: those of the tombstones, and the addresses in the
    vault that differ from an erased one by a plus tag, or contain one."""
    found = set(erased.value_ids)
    for path in value_files:
        table = read_addresses(path)
        found |= set(
            table["value_id"].gather(list_erased_addresses(table["address"], erased, key)["row"])
        )
    return tuple(sorted(found))


def find_inner_ids(value_files: Sequence[Path], value_ids: Collection[int], key: Key) -> set[int]:
    """The ids of what some addresses of the vault contain, as values of their own."""
    found: set[int] = set()
    for path in value_files:
        inner = to_large_string(
            list_inner_addresses(read_addresses(path, value_ids)["address"])["address"]
        )
        found |= set(compute_value_ids(inner, ADDRESS_KIND, key).tolist())
    return found
