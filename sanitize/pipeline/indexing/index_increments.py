"""The increments of an index, and which of the given files are new to it (`run --append`).

The first increment holds the files of the run that built the index; each append adds one. A file is
identified by its bytes, not by its name, so that a user may give the whole folder or only the new
files. An increment is closed once an output with it was published; until then it is open, and the
same command resumes it.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from sanitize.core.engine import cached_for_run
from sanitize.core.keys import Key
from sanitize.errors import InputRefused, UsageError
from sanitize.storage.private_folder import (
    DOCUMENTS_FOLDER,
    FIRST_ROUND_FOLDER,
    QUARANTINE_FOLDER,
    RUNS_FOLDER,
    TABLES_FOLDER,
    TASKS_FOLDER,
    VALUE_COUNTS_FILE,
    VALUES_FOLDER,
    VAULT_FOLDER,
    IndexIncrement,
)

# folders of WORK with one file per task
_TASK_FOLDERS = (
    *(
        f"{TABLES_FOLDER}/{name}"
        for name in ("occurrences", "partial_counts", "document_ids", "skipped")
    ),
    *(
        f"{FIRST_ROUND_FOLDER}/{name}"
        for name in ("occurrences", "partial_counts", "skipped", "links")
    ),
    VALUES_FOLDER,
    f"{VAULT_FOLDER}/first_round/values",
    f"{QUARANTINE_FOLDER}/detect",
    f"{TASKS_FOLDER}/detect",
    f"{TASKS_FOLDER}/second_round",
)
_MIN_DISTINCTIVE_BYTES = 256  # shorter files may begin with the same bytes by chance
_MAX_CANDIDATE_FOLDERS = (
    16  # a file that lay in more folders, under one name, does not identify a folder
)
_BLOCK = 1 << 20
_UNIT_FOLDERS = (DOCUMENTS_FOLDER, f"{DOCUMENTS_FOLDER}/quarantined", f"{TASKS_FOLDER}/read")


def hash_path(path: str, key: Key) -> str:
    """The absolute path (or URL) of a file with every component replaced by a keyed hash, as names
    may be personal data."""
    full_path = path if "://" in path else os.path.abspath(path)
    return "/".join(
        _hash_path_component(os.fsencode(name), key.subkey("place"))
        for name in full_path.split("/")
    )


@cached_for_run(1 << 16)
def _hash_path_component(name: bytes, key: bytes) -> str:
    return hashlib.blake2b(name, key=key, digest_size=8).hexdigest()


def select_new_files(
    given_files: Sequence[tuple[str, int, str]],
    given_folders: Sequence[str],
    closed_increments: Sequence[IndexIncrement],
    key: Key,
) -> tuple[list[int], int]:
    """The positions of the given files (path, bytes, sha256) that are in no closed increment, and
    how many of the others have moved.

    Raises UsageError for a file that an earlier increment read and that has changed since, and for
    one that is missing from a given folder: its documents would be in the output twice, or without
    an input file.
    """
    unmatched_counts = Counter(
        file[1] for increment in closed_increments for file in increment.files
    )
    earlier_files = {
        path: file
        for increment in closed_increments
        for path, file in zip(increment.path_hashes, increment.files, strict=False)
    }
    sha256_by_path = {path: sha256 for path, (_, sha256) in earlier_files.items()}
    given_counts = Counter(sha256 for _, _, sha256 in given_files)
    for no, (path, _, sha256) in enumerate(given_files):
        earlier_sha256 = sha256_by_path.get(hash_path(path, key), sha256)
        if earlier_sha256 != sha256 and not given_counts[earlier_sha256]:
            raise UsageError(
                f"file {no + 1} of the input: was read by an earlier run and has changed since;"
                " --append only takes new files. Restore it, and put the new data into a separate"
                " file; or run over all files with --replace, without --append"
            )
    roots = {hash_path(folder, key) for folder in given_folders}
    given_paths = {hash_path(path, key) for path, _, _ in given_files}
    missing = [
        path
        for path, earlier_sha256 in sha256_by_path.items()
        if path not in given_paths
        and not given_counts[earlier_sha256]
        and roots.intersection(_list_parent_paths(path))
    ]
    if missing:
        raise UsageError(
            f"the input: {len(missing):,} files that an earlier run read are missing from the given"
            " folder; restore them, or give only the new files. To remove their documents, run"
            " over the remaining files with --replace, without --append"
        )
    _refuse_changed_moved_folder(given_files, given_folders, earlier_files, key)
    # files at their earlier path come first: of two equal files, the one at another path may be new
    order = sorted(
        range(len(given_files)),
        key=lambda no: sha256_by_path.get(hash_path(given_files[no][0], key)) != given_files[no][2],
    )
    new, moved = [], 0
    for no in order:
        path, _, sha256 = given_files[no]
        if unmatched_counts[sha256]:
            unmatched_counts[sha256] -= 1
            moved += bool(sha256_by_path) and hash_path(path, key) not in sha256_by_path
        else:
            new.append(no)
    return sorted(new), moved


def _refuse_changed_moved_folder(
    given_files: Sequence[tuple[str, int, str]],
    given_folders: Sequence[str],
    earlier_files: Mapping[str, tuple[int, str]],
    key: Key,
) -> None:
    """Raise UsageError if a folder looks like an earlier one that was moved or copied
    (`_FolderOverlap.is_probably_moved`), and one of its files has changed, or one is missing while
    others are new.

    One pass over all paths; the number of equal files does not matter."""
    given_sha256, earlier_sha256 = (
        {sha256 for _, _, sha256 in given_files},
        {sha256 for _, sha256 in earlier_files.values()},
    )
    roots = {hash_path(folder, key) for folder in given_folders}
    # for each given folder, its files by relative path
    files_by_folder: dict[str, dict[str, int]] = {}
    for no, (path, _, _) in enumerate(given_files):
        path_hash = hash_path(path, key)
        root = next(
            (parent for parent in reversed(_list_parent_paths(path_hash)) if parent in roots),
            path_hash.rpartition("/")[0],
        )
        files_by_folder.setdefault(root, {})[path_hash[len(root) :]] = no
    new_files_by_folder = {
        root: {
            relative_path: no
            for relative_path, no in files.items()
            if given_files[no][2] not in earlier_sha256
        }
        for root, files in files_by_folder.items()
    }
    # by (relative path, sha256): folders that have the file now and did not before
    folders_now: dict[tuple[str, str], list[str]] = {}
    for root, files in files_by_folder.items():
        for relative_path, no in files.items() if new_files_by_folder[root] else ():
            if root + relative_path not in earlier_files:
                folders_now.setdefault((relative_path, given_files[no][2]), []).append(root)
    # by (relative path, sha256): folders that had the file before
    folders_before: dict[tuple[str, str], list[str]] = {}
    for earlier_path, (_, sha256) in earlier_files.items():
        for earlier_folder in _list_parent_paths(earlier_path):
            if (earlier_path[len(earlier_folder) :], sha256) in folders_now:
                folders_before.setdefault((earlier_path[len(earlier_folder) :], sha256), []).append(
                    earlier_folder
                )
    overlaps: dict[tuple[str, str], _FolderOverlap] = {}  # by (folder now, folder before)
    for (relative_path, sha256), earlier_folders in folders_before.items():
        if len(earlier_folders) > _MAX_CANDIDATE_FOLDERS:
            continue
        for root, earlier_folder in itertools.product(
            folders_now[relative_path, sha256], earlier_folders
        ):
            path, size, _ = given_files[files_by_folder[root][relative_path]]
            overlaps.setdefault((root, earlier_folder), _FolderOverlap()).add(
                size, _lowercase_suffixes(path)
            )
    # for each earlier folder, its files by relative path
    earlier_files_by_folder: dict[str, dict[str, tuple[int, str]]] = {
        earlier_folder: {} for _, earlier_folder in overlaps
    }
    for earlier_path, file in earlier_files.items():
        for earlier_folder in _list_parent_paths(earlier_path):
            if earlier_folder in earlier_files_by_folder:
                earlier_files_by_folder[earlier_folder][earlier_path[len(earlier_folder) :]] = file
    for (root, earlier_folder), overlap in overlaps.items():
        earlier_bytes = sum(size for size, _ in earlier_files_by_folder[earlier_folder].values())
        if not any(
            overlap.is_probably_moved(earlier_bytes, _lowercase_suffixes(given_files[no][0]))
            for no in new_files_by_folder[root].values()
        ):
            continue
        for relative_path, no in new_files_by_folder[root].items():
            if (
                relative_path in earlier_files_by_folder[earlier_folder]
                and earlier_files_by_folder[earlier_folder][relative_path][1] not in given_sha256
            ):
                raise UsageError(
                    f"file {no + 1} of the input: {overlap.file_count:,} files beside it were read"
                    " by an earlier run in a folder at another path, and so was another file with"
                    " its name; --append only takes new files. If the folder was moved and the"
                    " file has changed since, restore the file, and put the new data into a"
                    " separate file; if it is another folder, give only its new files; or run over"
                    " all files with --replace, without --append"
                )
        missing = [
            relative_path
            for relative_path, (_, sha256) in earlier_files_by_folder[earlier_folder].items()
            if relative_path not in files_by_folder[root] and sha256 not in given_sha256
        ]
        if missing and root in roots:
            raise UsageError(
                f"the input: {len(missing):,} files that an earlier run read at another path are"
                " missing from the given folder, and may be the new ones in it; restore them, or"
                " give only the new files. To remove their documents, run over the remaining files"
                " with --replace, without --append"
            )


@dataclass
class _FolderOverlap:
    """The files that a given folder has in common with an earlier one: same bytes, same relative
    path."""

    file_count: int = 0
    size: int = 0
    # of the files with at least _MIN_DISTINCTIVE_BYTES
    suffixes: set[str] = field(default_factory=set)

    def add(self, size: int, suffix: str) -> None:
        self.file_count += 1
        self.size += size
        self.suffixes |= {suffix} if size >= _MIN_DISTINCTIVE_BYTES else set()

    def is_probably_moved(self, earlier_bytes: int, new_suffix: str) -> bool:
        """True if the given folder may be the earlier one, moved: it has at least half of the bytes
        that lay there, or a common file with the suffix of the new file. A page beside the data
        that is the same every month is not evidence."""
        return 2 * self.size >= earlier_bytes > 0 or new_suffix in self.suffixes


def _list_parent_paths(path_hash: str) -> list[str]:
    """The folders above a hashed path, outermost first."""
    return [path_hash[:at] for at, letter in enumerate(path_hash) if letter == "/" and at]


def _lowercase_suffixes(path: str) -> str:
    """All suffixes of a file name, lower case, without the first dot (`csv.gz`)."""
    return os.path.basename(path).lower().partition(".")[2]


def starts_with_earlier_file(path: str, size: int, earlier: Mapping[int, Set[str]]) -> bool:
    """True if a file begins with all bytes of an earlier one, so that its documents would be in the
    corpus twice.

    `earlier` has the sha256 of earlier files by their size. Files shorter than 256 bytes, and a CSV
    or TSV header line alone, do not count."""
    running_hash, bytes_read, lines = hashlib.sha256(), 0, 0
    with open(path, "rb") as file:
        for earlier_size in sorted(
            file_size for file_size in earlier if _MIN_DISTINCTIVE_BYTES <= file_size < size
        ):
            while bytes_read < earlier_size:
                block = file.read(min(_BLOCK, earlier_size - bytes_read))
                if not block:
                    return False
                running_hash.update(block)
                bytes_read, lines = bytes_read + len(block), lines + block.count(b"\n")
            if running_hash.copy().hexdigest() in earlier[earlier_size] and (
                lines > 1 or not path.lower().endswith((".csv", ".tsv"))
            ):
                return True
    return False


def needs_restart(
    new_files: Sequence[tuple[int, str]], open_increment: IndexIncrement | None, *, replace: bool
) -> bool:
    """True if the open increment, if there is one, has to be started again because the given new
    files differ.

    Raises UsageError if some of its files are not given, so that it would be lost, unless
    `replace`."""
    if open_increment is None or list(open_increment.files) == list(new_files):
        return False
    missing = Counter(sha256 for _, sha256 in open_increment.files) - Counter(
        sha256 for _, sha256 in new_files
    )
    if missing and not replace:
        raise UsageError(
            f"the input: an append of {len(open_increment.files):,} files was started and is not"
            f" published; {missing.total():,} of them are not given now; give them as well (more"
            " files are fine), or use --replace to discard that append"
        )
    return True


def check_same_columns(earlier_schema: pa.Schema, new_schema: pa.Schema) -> None:
    """Raise InputRefused if new documents have other columns than those of earlier increments,
    whose shards are already written."""
    new = [field.name for field in new_schema if field.name not in earlier_schema.names]
    if new or new_schema != earlier_schema:
        difference = (
            f"have {len(new):,} columns ({', '.join(new[:5])})"
            if new
            else "have columns of other types"
        )
        raise InputRefused(
            f"the new files {difference} that the earlier files do not have; all shards of a corpus"
            " have the same columns. Convert the files, or run over all files with --replace,"
            " without --append"
        )


def discard_increment_files(
    workspace: Path, first_task: int, first_unit: int, first_increment: int
) -> None:
    """Delete the files of an increment that was started and not published: those of tasks, units
    and increments from these numbers on."""
    for folders, first in (
        (_TASK_FOLDERS, first_task),
        (_UNIT_FOLDERS, first_unit),
        ((f"{QUARANTINE_FOLDER}/read",), first_increment),
    ):
        for folder in folders:
            _delete_files_from(workspace / folder, first)
    for run_folder in (workspace / RUNS_FOLDER).glob("*"):
        for subfolder in [path for path in run_folder.rglob("*") if path.is_dir()]:
            _delete_files_from(subfolder, first_task)
    for path in (workspace / TASKS_FOLDER / "count", (workspace / VALUE_COUNTS_FILE).parent):
        # they cover all documents; the next run counts again
        shutil.rmtree(path, ignore_errors=True)


def _delete_files_from(folder: Path, first: int) -> None:
    """Delete the files of a folder whose number (five digits at the end of the stem) is `first` or
    higher."""
    for path in folder.glob("*"):
        number = path.stem.rpartition("-")[2]
        if path.is_file() and len(number) == 5 and number.isdigit() and int(number) >= first:
            path.unlink()
