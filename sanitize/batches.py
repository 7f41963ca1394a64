"""What an index was made of, batch by batch, and which of the files at hand are new to it (`run --append`).

The first batch is that of the run that made the index; each append adds one. A file is known by its bytes, not by its name, so that the
whole folder may be given, or the new files alone. A batch is closed once something made of it was published; until then it is open, and
the same command goes on with it.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from sanitize.errors import InputRefused, UsageError
from sanitize.keyed import Key
from sanitize.publish import hashed

# the tables of the index with one file for each range of documents
_OF_RANGES = (
    *(f"tables/{name}" for name in ("occurrences", "partial_counts", "ids", "skipped")),
    *(f"rounds/{name}" for name in ("occurrences", "partial_counts", "skipped", "links")),
    *("vault/values", "vault/rounds/values", "quarantine/find", "tasks/find", "tasks/known"),
)
_TELLING = 256  # bytes: shorter files begin alike by chance
_BLOCK = 1 << 20
_OF_UNITS = ("documents", "documents/aside", "tasks/read")


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Files that came together: bytes, sha256 and place of each in corpus order; how many pieces a reader makes of them, and how many
    documents and ranges of documents these are."""

    files: tuple[tuple[int, str], ...]
    paths: tuple[str, ...]
    units: int = 0
    documents: int = 0
    ranges: int = 0
    published: bool = False

    def inputs_hash(self, roles: object) -> str:
        """One hash of the files' bytes, their order and the roles of their columns; where they lie does not matter."""
        return hashed([known for _, known in self.files], str(roles))

    def to_json(self) -> dict[str, Any]:
        """What `batches_of` makes the same batch of."""
        return asdict(self)


def batches_of(described: Mapping[str, Any]) -> tuple[Batch, ...]:
    """The batches of an index, as index.json describes it."""
    told = described.get("batches")
    if told is None:  # of a version that knew one only
        told = [
            {
                "files": described["files"],
                "paths": (),
                "units": len(described["documents"]["sources"]),
                "documents": sum(source["rows"] for source in described["documents"]["sources"]),
                "ranges": len(described["ranges"]),
            }
        ]
    return tuple(
        Batch(**{**one, "files": tuple((size, known) for size, known in one["files"]), "paths": tuple(one["paths"])}) for one in told
    )


def closed_of(described: Mapping[str, Any]) -> tuple[Batch, ...]:
    """The batches that something published was made of. An append that was not published is open; the first batch never is, as there is
    nothing before it."""
    there = batches_of(described) if described else ()
    return there if len(there) < 2 or there[-1].published else there[:-1]


def place_of(path: str, key: Key) -> str:
    """Where a file lies, whatever folder one looks from: each name on the way as a keyed hash, since names may be a person's."""
    whole = path if "://" in path else os.path.abspath(path)
    return "/".join(_hidden(os.fsencode(name), key.subkey("place")) for name in whole.split("/"))


@functools.lru_cache(maxsize=1 << 16)
def _hidden(name: bytes, key: bytes) -> str:
    return hashlib.blake2b(name, key=key, digest_size=8).hexdigest()


def new_among(given: Sequence[tuple[str, int, str]], folders: Sequence[str], closed: Sequence[Batch], key: Key) -> tuple[list[int], int]:
    """Which of the given files (path, bytes, sha256) no closed batch has, and how many of the others lie elsewhere now.

    UsageError for a file that a batch has read and that is another one now, and for one that is gone from a folder that was given: what
    was published of it would be there twice, or without anything behind it.
    """
    known = Counter(file[1] for batch in closed for file in batch.files)
    place = {path: file[1] for batch in closed for path, file in zip(batch.paths, batch.files, strict=False)}
    there = Counter(sha256 for _, _, sha256 in given)
    for no, (path, _, sha256) in enumerate(given):
        before = place.get(place_of(path, key), sha256)
        if before != sha256 and not there[before]:
            raise UsageError(
                f"file {no + 1} of the input: was read by an earlier run and has changed since; --append takes files that are new. Put it "
                "back as it was, and what is new into a file of its own; or run over all files with --replace, without --append"
            )
    roots = [place_of(folder, key) + "/" for folder in folders]
    here = {place_of(path, key) for path, _, _ in given}
    gone = [
        path for path, before in place.items() if path not in here and not there[before] and any(path.startswith(root) for root in roots)
    ]
    if gone:
        raise UsageError(
            f"the input: {len(gone):,} files that an earlier run has read are gone from the folder that is given; put them back, or give "
            "the new files alone. To take their documents out, run over what is left with --replace, without --append"
        )
    _same_folder_elsewhere(given, folders, place, key)
    # one that lies where it lay comes first: of two equal files the other may be new
    order = sorted(range(len(given)), key=lambda no: place.get(place_of(given[no][0], key)) != given[no][2])
    new, moved = [], 0
    for no in order:
        path, _, sha256 = given[no]
        if known[sha256]:
            known[sha256] -= 1
            moved += bool(place) and place_of(path, key) not in place
        else:
            new.append(no)
    return sorted(new), moved


def _same_folder_elsewhere(given: Sequence[tuple[str, int, str]], folders: Sequence[str], place: Mapping[str, str], key: Key) -> None:
    """UsageError where files stand in a folder that is an earlier one, moved or copied (it has a file of it, with the same name inside),
    and one of them is another than it was, or one is gone while others are new."""
    there, known = {sha256 for _, _, sha256 in given}, set(place.values())
    lay: dict[str, list[str]] = {}
    for before, sha256 in place.items():
        lay.setdefault(sha256, []).append(before)
    roots = sorted((place_of(folder, key) for folder in folders), key=len, reverse=True)
    inside: dict[str, list[tuple[int, str, str]]] = {}  # of each folder: number of the file, its way from there, sha256
    for no, (path, _, sha256) in enumerate(given):
        lies = place_of(path, key)
        root = next((root for root in roots if lies.startswith(root + "/")), lies.rpartition("/")[0])
        inside.setdefault(root, []).append((no, lies[len(root) :], sha256))
    for root, files in inside.items():
        # where the folder lay before: of files that lie elsewhere now
        moved = [(way, lay.get(sha256, ())) for _, way, sha256 in files if root + way not in place]
        others = {before.removesuffix(way) for way, some in moved for before in some if before.endswith(way)}
        if not others:
            continue
        for no, way, sha256 in files:
            if sha256 not in known and any(place.get(other + way, sha256) not in {sha256, *there} for other in others):
                raise UsageError(
                    f"file {no + 1} of the input: the folder that it is in was read by an earlier run at another place, and the file has "
                    "changed since; --append takes files that are new. Put it back as it was, and what is new into a file of its own; if "
                    "it is another file with the same name, give it alone; or run over all files with --replace, without --append"
                )
        ways = {way for _, way, _ in files}
        gone = [
            before
            for before, sha256 in place.items()
            if sha256 not in there and any(before.startswith(other + "/") and before[len(other) :] not in ways for other in others)
        ]
        if gone and root in roots and any(sha256 not in known for _, _, sha256 in files):
            raise UsageError(
                f"the input: {len(gone):,} files that an earlier run has read at another place are gone from the folder that is given, and "
                "may be the new ones in it; put them back, or give the new files alone. To take their documents out, run over what "
                "is left with --replace, without --append"
            )


def has_grown(path: str, size: int, earlier: Mapping[int, Set[str]]) -> bool:
    """True where a file begins with all bytes of an earlier one, of which the bytes and sha256 are given: what that one had would be there
    twice. Not asked of what is short, or the head of a table."""
    total, at, lines = hashlib.sha256(), 0, 0
    with open(path, "rb") as file:
        for stop in sorted(known for known in earlier if _TELLING <= known < size):
            while at < stop:
                block = file.read(min(_BLOCK, stop - at))
                if not block:
                    return False
                total.update(block)
                at, lines = at + len(block), lines + block.count(b"\n")
            if total.copy().hexdigest() in earlier[stop] and (lines > 1 or not path.lower().endswith((".csv", ".tsv"))):
                return True
    return False


def opened(new: Sequence[tuple[int, str]], last: Batch | None, *, replace: bool) -> bool:
    """Whether the batch that was begun and not published, if there is one, is to be begun anew. UsageError where some of its files are not
    given and it would be lost."""
    if last is None or list(last.files) == list(new):
        return False
    missing = Counter(known for _, known in last.files) - Counter(known for _, known in new)
    if missing and not replace:
        raise UsageError(
            f"the input: an append of {len(last.files):,} files was begun and is not published, and {missing.total():,} of them are not "
            "given now; give them as well (with more, if you like), or use --replace to take that append back"
        )
    return True


def same_columns(before: pa.Schema, now: pa.Schema) -> None:
    """InputRefused for columns that the documents of earlier batches do not have: their shards are written."""
    new = [field.name for field in now if field.name not in before.names]
    if new or now != before:
        what = f"bring {len(new):,} columns ({', '.join(new[:5])})" if new else "have columns of other types"
        raise InputRefused(
            f"the new files {what} that the earlier ones do not have, and shards of one corpus have the same columns; convert them, or run "
            "over all files with --replace, without --append"
        )


def take_back(work: Path, ranges: int, units: int, batches: int) -> None:
    """Take away what was written in WORK of documents and pieces from these numbers on: a batch that was begun and does not count."""
    for folders, first in ((_OF_RANGES, ranges), (_OF_UNITS, units), (("quarantine/read",), batches)):
        for folder in folders:
            _cut(work / folder, first)
    for run in (work / "runs").glob("*"):
        for below in [path for path in run.rglob("*") if path.is_dir()]:
            _cut(below, ranges)
    for folder in ("tasks/count", "tables/value_counts"):  # of all documents: counted again by the next run
        shutil.rmtree(work / folder, ignore_errors=True)


def _cut(folder: Path, first: int) -> None:
    """Take away the numbered files of a folder from a number on."""
    for path in folder.glob("*"):
        number = path.stem.rpartition("-")[2]
        if path.is_file() and len(number) == 5 and number.isdigit() and int(number) >= first:
            path.unlink()
