"""Tombstones: stored erasure requests (`sanitize subject --erase`) with values, names and users
that every later run in WORK removes.

One JSON file per erasure, in the vault. Values, mailboxes and users are stored as keyed hashes
only; names are stored as text, because later runs must search for them in new texts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sanitize.array_types import I64
from sanitize.core.keys import Key, siphash
from sanitize.errors import OutputBroken, UsageError
from sanitize.storage import private_folder
from sanitize.storage.files import read_json, write_json


@dataclass(frozen=True, repr=False)
class Tombstones:
    """Everything that must be erased: `value_ids` (ascending), `names` (normalised), `user_hashes`
    (from `hash_user_ids`; the documents of these users are removed), `mailbox_hashes` (from
    `hash_mailboxes`; addresses that equal one apart from a plus tag are erased too), the kinds of
    the values, and the number of erasures. Longer addresses that contain an erased one are erased
    as well (text/erased_addresses.py). Entries are only ever added."""

    value_ids: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    user_hashes: tuple[int, ...] = ()
    erasure_count: int = 0
    mailbox_hashes: tuple[int, ...] = ()
    kinds: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """The counts that a manifest states: erasures, values, names and users."""
        return {
            "erasures": self.erasure_count,
            "values": len(self.value_ids),
            "names": len(self.names),
            "users": len(self.user_hashes),
        }

    def covers(self, other: Tombstones) -> bool:
        """True if these tombstones contain all values, names, users and mailboxes of `other`."""
        return (
            set(other.value_ids) <= set(self.value_ids)
            and set(other.names) <= set(self.names)
            and set(other.user_hashes) <= set(self.user_hashes)
            and set(other.mailbox_hashes) <= set(self.mailbox_hashes)
        )


def hash_user_ids(user_ids: pa.LargeStringArray, key: Key) -> I64:
    """A keyed 64-bit hash for each user id."""
    return siphash(user_ids, key.subkey("erased/user")).astype(np.int64)


def hash_mailboxes(mailboxes: pa.LargeStringArray, key: Key) -> I64:
    """A keyed 64-bit hash for each mailbox: an address in lower case, without its plus tag."""
    return siphash(mailboxes, key.subkey("erased/mailbox")).astype(np.int64)


def read(work: Path, key: Key | None = None, erasures: int | None = None) -> Tombstones:
    """The tombstones of all erasures in WORK, or of the first `erasures`.

    Raises UsageError if they were written with another key than `key`, which would not recognise
    any value, and OutputBroken for a file that is missing, cannot be read, or is not as it was
    written.
    """
    values: set[int] = set()
    names: set[str] = set()
    users: set[int] = set()
    mailboxes: set[int] = set()
    kinds: set[str] = set()
    files = _tombstone_files(work)[:erasures]
    expected_names = [
        f"{number:05d}.json"
        for number in range(len(files) if erasures is None else max(erasures, len(files)))
    ]
    if missing := sorted({*expected_names} - {path.name for path in files}):
        path = work / private_folder.VAULT_FOLDER / "tombstones" / missing[0]
        raise OutputBroken(
            f"{path}: is missing, so a stored erasure request is not known; restore the file from a"
            " backup"
        )
    for path in files:
        tombstone = None if path.is_symlink() else read_json(path)
        if (
            tombstone is None
            or not {"key_id", "values", "names", "users"} <= tombstone.keys()
            or not _is_unchanged(tombstone)
        ):
            raise OutputBroken(
                f"{path}: not readable, so the stored erasure requests are not known; restore the"
                " file from a backup"
            )
        if key is not None and tombstone["key_id"] != key.id:
            raise UsageError(
                f"{work}: contains erasures that were made with another key (sanitize subject"
                " --erase); this key cannot apply them; use the key or seed of those erasures, or"
                " another --work"
            )
        values |= set(tombstone["values"])
        names |= set(tombstone["names"])
        users |= set(tombstone["users"])
        mailboxes |= set(tombstone.get("mailboxes", ()))  # one of an earlier version has none
        kinds |= set(tombstone.get("kinds", ()))
    return Tombstones(
        value_ids=tuple(sorted(values)),
        names=tuple(sorted(names)),
        user_hashes=tuple(sorted(users)),
        erasure_count=len(files),
        mailbox_hashes=tuple(sorted(mailboxes)),
        kinds=tuple(sorted(kinds)),
    )


def write(work: Path, key: Key, erasure: Tombstones, date: str) -> None:
    """Stores one erasure as a new file. The caller holds the lock of WORK."""
    folder = private_folder.make_private_folder(work / private_folder.VAULT_FOLDER / "tombstones")
    tombstone = {
        "key_id": key.id,
        "date": date,
        "values": erasure.value_ids,
        "mailboxes": erasure.mailbox_hashes,
        "names": erasure.names,
        "users": erasure.user_hashes,
        "kinds": erasure.kinds,
    }
    write_json(
        folder / f"{len(_tombstone_files(work)):05d}.json",
        {**tombstone, "sha256": _hash_tombstone(tombstone)},
    )


def _hash_tombstone(tombstone: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(tombstone, sort_keys=True).encode()).hexdigest()


def _is_unchanged(tombstone: Mapping[str, Any]) -> bool:
    """False if the content does not have the hash that was written with it; one of an earlier
    version has no hash."""
    content = {name: value for name, value in tombstone.items() if name != "sha256"}
    return "sha256" not in tombstone or tombstone["sha256"] == _hash_tombstone(content)


def _tombstone_files(work: Path) -> list[Path]:
    return sorted((work / private_folder.VAULT_FOLDER / "tombstones").glob("*.json"))
