"""What an index was made of, batch by batch, and which of the files at hand are new to it (`run --append`).

The first batch is that of the run that made the index; each append adds one. A file is known by its bytes, not by its name, so that the
whole folder may be given, or the new files alone. A batch is closed once something made of it was published; until then it is open, and
the same command goes on with it.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from sanitize.core.keys import Key
from sanitize.errors import InputRefused, UsageError
from sanitize.storage.publication import hashed

# the tables of the index with one file for each range of documents
_OF_RANGES = (
    *(f"tables/{name}" for name in ("occurrences", "partial_counts", "ids", "skipped")),
    *(f"rounds/{name}" for name in ("occurrences", "partial_counts", "skipped", "links")),
    *("vault/values", "vault/rounds/values", "quarantine/find", "tasks/find", "tasks/known"),
)
_TELLING = 256  # bytes: shorter files begin alike by chance
_MANY = 16  # folders: what lay in more of them, under one name, tells none of them
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
    files = {path: file for batch in closed for path, file in zip(batch.paths, batch.files, strict=False)}
    place = {path: sha256 for path, (_, sha256) in files.items()}
    there = Counter(sha256 for _, _, sha256 in given)
    for no, (path, _, sha256) in enumerate(given):
        before = place.get(place_of(path, key), sha256)
        if before != sha256 and not there[before]:
            raise UsageError(
                f"file {no + 1} of the input: was read by an earlier run and has changed since; --append takes files that are new. Put it "
                "back as it was, and what is new into a file of its own; or run over all files with --replace, without --append"
            )
    roots = {place_of(folder, key) for folder in folders}
    here = {place_of(path, key) for path, _, _ in given}
    gone = [path for path, before in place.items() if path not in here and not there[before] and roots.intersection(_above(path))]
    if gone:
        raise UsageError(
            f"the input: {len(gone):,} files that an earlier run has read are gone from the folder that is given; put them back, or give "
            "the new files alone. To take their documents out, run over what is left with --replace, without --append"
        )
    _same_folder_elsewhere(given, folders, files, key)
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


def _same_folder_elsewhere(
    given: Sequence[tuple[str, int, str]], folders: Sequence[str], place: Mapping[str, tuple[int, str]], key: Key
) -> None:
    """UsageError where files stand in a folder that is an earlier one, moved or copied (it has what `_Alike.tells` of it), and one of them
    is another than it was, or one is gone while others are new. All places are looked at once, however many files are alike."""
    there, known = {sha256 for _, _, sha256 in given}, {sha256 for _, sha256 in place.values()}
    roots = {place_of(folder, key) for folder in folders}
    inside: dict[str, dict[str, int]] = {}  # of each folder: the files by their ways from there
    for no, (path, _, _) in enumerate(given):
        lies = place_of(path, key)
        root = next((above for above in reversed(_above(lies)) if above in roots), lies.rpartition("/")[0])
        inside.setdefault(root, {})[lies[len(root) :]] = no
    new = {root: {way: no for way, no in files.items() if given[no][2] not in known} for root, files in inside.items()}
    asked: dict[tuple[str, str], list[str]] = {}  # the folders in which these bytes lie on this way, and did not lie before
    for root, files in inside.items():
        for way, no in files.items() if new[root] else ():
            if root + way not in place:
                asked.setdefault((way, given[no][2]), []).append(root)
    lay: dict[tuple[str, str], list[str]] = {}  # and those in which they lay so then
    for before, (_, sha256) in place.items():
        for other in _above(before):
            if (before[len(other) :], sha256) in asked:
                lay.setdefault((before[len(other) :], sha256), []).append(other)
    alike: dict[tuple[str, str], _Alike] = {}  # by the folder now and then
    for (way, sha256), then in lay.items():
        if len(then) > _MANY:
            continue
        for root, other in itertools.product(asked[way, sha256], then):
            path, size, _ = given[inside[root][way]]
            alike.setdefault((root, other), _Alike()).add(size, _ending(path))
    held: dict[str, dict[str, tuple[int, str]]] = {other: {} for _, other in alike}  # what lay in a folder then, by its way
    for before, file in place.items():
        for other in _above(before):
            if other in held:
                held[other][before[len(other) :]] = file
    for (root, other), one in alike.items():
        earlier = sum(size for size, _ in held[other].values())
        if not any(one.tells(earlier, _ending(given[no][0])) for no in new[root].values()):
            continue
        for way, no in new[root].items():
            if way in held[other] and held[other][way][1] not in there:
                raise UsageError(
                    f"file {no + 1} of the input: {one.files:,} files beside it were read by an earlier run in a folder at another place, "
                    "and so was another file with its name; --append takes files that are new. If the folder was moved and the file has "
                    "changed since, put it back as it was, and what is new into a file of its own; if it is another folder, give its new "
                    "files alone; or run over all files with --replace, without --append"
                )
        gone = [way for way, (_, sha256) in held[other].items() if way not in inside[root] and sha256 not in there]
        if gone and root in roots:
            raise UsageError(
                f"the input: {len(gone):,} files that an earlier run has read at another place are gone from the folder that is given, and "
                "may be the new ones in it; put them back, or give the new files alone. To take their documents out, run over what "
                "is left with --replace, without --append"
            )


@dataclass
class _Alike:
    """What a folder that is given has of an earlier one: the same bytes under the same name inside."""

    files: int = 0
    size: int = 0
    endings: set[str] = field(default_factory=set)  # of the larger ones

    def add(self, size: int, ending: str) -> None:
        self.files += 1
        self.size += size
        self.endings |= {ending} if size >= _TELLING else set()

    def tells(self, earlier: int, ending: str) -> bool:
        """Whether it may be that folder, moved, where a new file has this ending: at least half of the bytes that lay there, or a file of
        the same sort. A page beside the data that is the same every month says nothing."""
        return 2 * self.size >= earlier > 0 or ending in self.endings


def _above(place: str) -> list[str]:
    """The folders that a place lies in, one inside the other."""
    return [place[:at] for at, letter in enumerate(place) if letter == "/" and at]


def _ending(path: str) -> str:
    """What sort of file it is, by its name."""
    return os.path.basename(path).lower().partition(".")[2]


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
