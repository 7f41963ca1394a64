"""Who is to be forgotten: values, names and users that `sanitize subject --erase` wrote down, and every later run in this WORK honours.

One JSON file an erasure, in the vault. Values and users stand there by their keyed numbers alone; names as they are, since they must be
looked for again in texts that nobody has seen yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from sanitize.core.arrow_buffers import I64
from sanitize.core.keys import Key, siphash
from sanitize.errors import OutputBroken, UsageError
from sanitize.storage import vault
from sanitize.storage.corpus import read_json, write_json


@dataclass(frozen=True, repr=False)
class Erased:
    """What nobody may keep: `values` (value_ids, ascending), `names` (as `mentions.normalised` gives them), `users` (as `users_of` gives
    them; their documents go), and how many erasures wrote them down. They are only ever added to."""

    values: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    users: tuple[int, ...] = ()
    erasures: int = 0

    @property
    def told(self) -> dict[str, int]:
        """What a manifest says of it."""
        return {"erasures": self.erasures, "values": len(self.values), "names": len(self.names), "users": len(self.users)}

    def covers(self, other: Erased) -> bool:
        """True where all of `other` is to be forgotten already."""
        return set(other.values) <= set(self.values) and set(other.names) <= set(self.names) and set(other.users) <= set(self.users)


def users_of(ids: pa.LargeStringArray, key: Key) -> I64:
    """A keyed number for each user id."""
    return siphash(ids, key.subkey("erased/user")).astype(np.int64)


def read(work: Path, key: Key | None = None, erasures: int | None = None) -> Erased:
    """What was erased in WORK so far, or by its first `erasures`.

    UsageError where that was written under another key than `key`, by which no value would be known again."""
    values: set[int] = set()
    names: set[str] = set()
    users: set[int] = set()
    files = _files(work)[:erasures]
    for path in files:
        found = read_json(path)
        if found is None or not {"key_id", "values", "names", "users"} <= found.keys():
            raise OutputBroken(f"{path}: not readable, so that nobody knows who is to be forgotten; restore it from a copy")
        if key is not None and found["key_id"] != key.id:
            raise UsageError(
                f"{work}: holds erasures that were made with another key (sanitize subject --erase), which this one could not honour; "
                "use the key or seed of that time, or another --work"
            )
        values |= set(found["values"])
        names |= set(found["names"])
        users |= set(found["users"])
    return Erased(tuple(sorted(values)), tuple(sorted(names)), tuple(sorted(users)), len(files))


def write(work: Path, key: Key, person: Erased, date: str) -> None:
    """Write one erasure down. WORK's lock is held."""
    folder = vault.private(work / "vault" / "tombstones")
    found = {"key_id": key.id, "date": date, "values": person.values, "names": person.names, "users": person.users}
    write_json(folder / f"{len(_files(work)):05d}.json", found)


def _files(work: Path) -> list[Path]:
    return sorted((work / "vault" / "tombstones").glob("*.json"))
