"""Recognizes a file or folder that a stream has read before: its acknowledged records are skipped
by number, so they must be the same ones.

Of a file the size and a hash of its first and last bytes are stored, of a folder the names and
sizes of its files. A change in the middle of a large file that keeps its size is not seen.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sanitize.errors import InputRefused

_EDGE_BYTES = 1 << 16  # hashed at both ends of a file


def describe_source(source: Path, files: Sequence[Path]) -> dict[str, Any]:
    """Return what identifies a source: `size` and `edges` of a file, or of a folder `files`,
    `listing` and the `size` of its last file."""
    if source.is_file():
        size = source.stat().st_size
        return {"size": size, "edges": _hash_edges(source, size)}
    return {
        "files": len(files),
        "listing": _hash_listing(source, files),
        "size": files[-1].stat().st_size if files else 0,
    }


def check_source(source: Path, files: Sequence[Path], earlier: Mapping[str, Any]) -> None:
    """Raise InputRefused unless a source begins with what it held when it was described as
    `earlier`; a missing entry is not compared."""
    size = int(earlier.get("size") or 0)
    if source.is_file():
        if source.stat().st_size < size:
            raise InputRefused(
                f"{source}: is shorter than when it was read; restore it, or give the new file"
                " another name"
            )
        if "edges" in earlier and _hash_edges(source, size) != earlier["edges"]:
            raise InputRefused(
                f"{source}: does not begin with what was read from it; restore it, or give the new"
                " file another name"
            )
    elif "listing" in earlier:
        count = int(earlier["files"])
        known = files[:count]
        if (
            len(known) < count
            or _hash_listing(source, known) != earlier["listing"]
            or (known and known[-1].stat().st_size < size)
        ):
            raise InputRefused(
                f"{source}: does not begin with the files ({count:,}) that were read from it. New"
                " files are expected after them, in the order of names, and only the last one may"
                " grow; restore them, or give the new files on their own"
            )


def _hash_edges(path: Path, size: int) -> str:
    """Return a hash of the first and the last bytes of the first `size` bytes of a file."""
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        digest.update(file.read(min(size, _EDGE_BYTES)))
        file.seek(max(size - _EDGE_BYTES, 0))
        digest.update(file.read(min(size, _EDGE_BYTES)))
    return digest.hexdigest()


def _hash_listing(folder: Path, files: Sequence[Path]) -> str:
    """Return a hash of the names of files, and of the sizes of all but the last."""
    digest = hashlib.blake2b(digest_size=16)
    for number, file in enumerate(files):
        size = file.stat().st_size if number < len(files) - 1 else -1
        digest.update(
            os.path.relpath(file, folder).encode(errors="surrogateescape")
            + b"\0"
            + str(size).encode()
            + b"\n"
        )
    return digest.hexdigest()
