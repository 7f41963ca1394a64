"""The private folder WORK and its vault (key and raw values): creation with private permissions,
checks of paths, the key of a run.

The vault is a folder inside WORK, readable by its owner only. Nothing of it may be published.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sanitize.core.command_results import ColumnPolicy, from_json
from sanitize.core.keys import Key
from sanitize.core.text_cells import LeafPath
from sanitize.errors import InputRefused, OutputBroken, UsageError
from sanitize.storage import table_schemas
from sanitize.storage.corpus import Documents
from sanitize.storage.disk_errors import DISK_ERRNOS, explain_access_error, refuse_unwritable_path
from sanitize.storage.files import read_json, read_saved_json, write_json
from sanitize.storage.locks import share_workspace
from sanitize.storage.task_records import hash_json

if TYPE_CHECKING:
    import polars as pl


def make_private_folder(folder: Path) -> Path:
    """Creates a folder of mode 0700, or sets that mode. Raises UsageError if it cannot, or if
    another user owns the folder."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        owner = folder.stat().st_uid
    except OSError as error:
        if error.errno in DISK_ERRNOS and error.errno != errno.EROFS:
            raise
        raise UsageError(
            f"{folder}: cannot be made a private folder: {explain_access_error(folder, error)}; use"
            " another path"
        ) from None
    if hasattr(os, "geteuid") and owner != os.geteuid():
        raise UsageError(
            f"{folder}: belongs to another user, who could read the files in it; use another path"
        )
    return folder


# files and folders of WORK. Those of the index, which all runs share:
INDEX_FILE = "index.json"
TABLES_FOLDER = "tables"
OCCURRENCES_FOLDER = "tables/occurrences"
SKIPPED_FOLDER = "tables/skipped"  # how many candidates were rejected, and why
VALUE_COUNTS_FILE = "tables/value_counts/all.parquet"
QUARANTINE_FOLDER = "quarantine"
DOCUMENTS_FOLDER = "documents"  # inputs that are not read in place
FETCHED_FOLDER = "fetched"  # inputs from URLs
FIRST_ROUND_FOLDER = "first_round"  # what finders of two rounds found first
TASKS_FOLDER = "tasks"  # records of finished tasks; also in the folder of a run
VAULT_FOLDER = "vault"  # also in the folder of a run
VALUES_FOLDER = "vault/values"
# of runs and commands:
RUNS_FOLDER = "runs"  # each named by its run hash
PUBLISHED_FOLDER = "published"
RECEIPTS_FOLDER = "receipts"  # of erasures
REMOTE_FOLDER = "remote"  # what is known of outputs at URLs
LABEL_SAMPLE_FILE = "labels/sample.jsonl"
LABEL_SCORES_FILE = Path("labels/scores.json")
SPILL_FOLDER = "spill"  # temporary files

# subfolders that exist only in the WORK of a run, and only in the state folder of a stream
RUN_ONLY_FOLDER, STREAM_ONLY_FOLDER = (TASKS_FOLDER, "value_log")
_VERSION_1_STREAM_FOLDER = "seen"  # the value log in the state folders of streams of version 1
_FOLDER_OWNERS = {
    RUN_ONLY_FOLDER: "the private folder of a run; use another --state",
    STREAM_ONLY_FOLDER: "the state of a stream; use another --work",
}
# folders of earlier versions of the tables that have another name now; they are deleted with the
# index
OBSOLETE_PATHS = ("tasks/find", "tasks/known", "rounds", "vault/rounds", "documents/aside")


def _is_stream_state(folder: Path) -> bool:
    """True if a folder is the state of a stream, of this version or of version 1."""
    return any((folder / name).is_dir() for name in (STREAM_ONLY_FOLDER, _VERSION_1_STREAM_FOLDER))


def require_run_workspace(work: Path) -> SavedIndex | None:
    """The index of WORK, if it has one. Raises UsageError if a folder is not the WORK of a run, and
    OutputBroken if its tables are not complete."""
    is_stream = _is_stream_state(work)
    if is_stream or not (work / VAULT_FOLDER).is_dir():
        problem = (
            "the state of a stream, which keeps no tables"
            if is_stream
            else "not the private folder of a run"
        )
        raise UsageError(
            f"{work}: {problem}; expected the WORK of `sanitize run` or `sanitize index`, such as"
            " clean.private"
        )
    index = SavedIndex.read(work)
    if index is not None and index.complete:
        _require_index_tables(work, len(index.task_ranges))
    return index


def _require_index_tables(work: Path, task_count: int) -> None:
    """Raises OutputBroken if WORK lacks a file of the tables that each task of its index wrote: it
    would count as an empty one."""
    expected = {f"{task_no:05d}.parquet" for task_no in range(task_count)}
    for folder in (
        work / OCCURRENCES_FOLDER,
        work / SKIPPED_FOLDER,
        work / VALUES_FOLDER,
    ):
        missing = expected.difference(os.listdir(folder) if folder.is_dir() else ())
        if missing:
            more = f" and {len(missing) - 1:,} more files" if len(missing) > 1 else ""
            raise OutputBroken(
                f"{folder}: lacks {min(missing)}{more}, which the index wrote. Rebuild it from the"
                f" inputs and settings of that run: sanitize index INPUT... --work {work}"
            )


def find_blacklist(path: str | Path) -> Path:
    """Returns the file or folder of Parquet files with the blacklist of a run, given by itself or
    by the private folder WORK.

    Raises InputRefused if there is none, and if runs of several plans left one each.
    """
    source = Path(path)
    runs = sorted(source.glob(f"{RUNS_FOLDER}/*/{VAULT_FOLDER}/blacklist"))
    if len(runs) > 1:
        raise InputRefused(f"{source}: {len(runs)} runs have a blacklist; name one, as {runs[-1]}")
    found = runs[0] if runs else source
    if not (found.is_file() or any(found.glob("*.parquet"))):
        raise InputRefused(
            f"{source}: no blacklist; expected the private folder WORK of `sanitize run --plan"
            " blacklist`"
        )
    return found


@contextlib.contextmanager
def report_broken_tables(work: Path) -> Iterator[None]:
    """Context reading tables of WORK: a file that is damaged or gone becomes an OutputBroken."""
    import polars as pl
    import pyarrow as pa

    from sanitize.storage.parquet_files import broken_table_error

    try:
        yield
    except (pl.exceptions.PolarsError, pa.ArrowInvalid, FileNotFoundError) as error:
        raise broken_table_error(work, error) from None


def read_frames(work: Path, folder: Path, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Columns of a table of WORK, a frame for each file in its folder (a path that begins with
    WORK); categories as texts. Raises OutputBroken for a file that cannot be read."""
    import polars as pl

    for path in sorted(folder.rglob("*.parquet")):
        with report_broken_tables(work):
            frame = pl.read_parquet(path, columns=list(columns), glob=False)
        yield frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))


def read_rows(work: Path, folder: Path, columns: Sequence[str]) -> pl.DataFrame:
    """All rows of a small table of WORK, as `read_frames` reads them; an empty frame of these
    columns without a file."""
    import polars as pl

    frames = list(read_frames(work, folder, columns))
    return pl.concat(frames) if frames else pl.DataFrame(schema=dict.fromkeys(columns, pl.Int64))


# keys of index.json before version 3 of the tables, by which an index is compared with a command
_OBSOLETE_KEYS = {
    "looked_for": "detection_settings",
    "inputs": "inputs_hash",
    "files": "input_files",
    "batches": "increments",
}
# keys of index.json that its readers rely on, and the types of their values
_INDEX_KEYS = {
    "complete": bool,
    "detection_settings": dict,
    "documents": dict,
    "documents.schema": str,
    "documents.main": list,
    "documents.sources": list,
    "fingerprint": str,
    "increments": list,
    "inputs_hash": str,
    "key_id": str,
    "leaf_paths": list,
    "task_ranges": list,
}


def _list_missing_keys(index_json: Mapping[str, Any]) -> list[str]:
    """The keys that an index (the content of index.json) of this version lacks, or that have a
    value of another type."""
    documents = index_json.get("documents")
    inner = documents if isinstance(documents, dict) else {}
    values = {**index_json, **{f"documents.{key}": value for key, value in inner.items()}}
    return [key for key, kind in _INDEX_KEYS.items() if not isinstance(values.get(key), kind)]


@dataclass(frozen=True, kw_only=True)
class IndexIncrement:
    """The files that one command added: (bytes, sha256) and hashed path of each, in corpus order;
    the numbers of survey units, documents and tasks that they make; the split of each unit, empty
    where there are none; and whether an output with them was published."""

    files: tuple[tuple[int, str], ...]
    path_hashes: tuple[str, ...]
    unit_count: int = 0
    document_count: int = 0
    task_count: int = 0
    published: bool = False
    splits: tuple[str, ...] = ()

    def hash_inputs(self, roles: object) -> str:
        """A hash of the files' bytes, their order, splits and the column roles; independent of
        their paths."""
        return hash_json(
            [sha256 for _, sha256 in self.files],
            str(roles),
            *([self.splits] if self.splits else []),
        )


@dataclass(frozen=True, kw_only=True)
class IndexOrigin:
    """What an index was built from, as far as its index.json says so: that of a version of the
    tables which this program does not read is only compared, and built again."""

    schema_version: int = 1
    fingerprint: str | None = None
    complete: bool = False
    key_id: str | None = None
    detection_settings: Mapping[str, Any] | None = None
    inputs_hash: str | None = None
    sample: float = 1.0
    input_files: Sequence[Sequence[Any]] = ()
    increments: Sequence[Any] = ()

    @property
    def is_outdated(self) -> bool:
        """True if the index has other tables than this version reads."""
        return self.schema_version != table_schemas.VERSION

    @classmethod
    def read(cls, work: Path) -> IndexOrigin | None:
        """The origin of the index of WORK; None if it has none, or a damaged one."""
        index_json = read_json(work / INDEX_FILE)
        if not index_json:
            return None
        if index_json.get("schema_version") == table_schemas.VERSION:
            if _list_missing_keys(index_json):
                return None
        else:
            index_json = {_OBSOLETE_KEYS.get(key, key): one for key, one in index_json.items()}
        names = {one.name for one in fields(cls)}
        return cls(
            **{key: one for key, one in index_json.items() if key in names and one is not None}
        )


@dataclass(frozen=True, kw_only=True)
class SavedIndex:
    """index.json of WORK: what its index holds, and what it was built from. `complete` is False
    while tasks are still to be resumed."""

    fingerprint: str
    complete: bool
    key_id: str
    detection_settings: Mapping[str, Any]
    inputs_hash: str
    sample: float
    input_files: Sequence[Sequence[Any]]  # size and sha256 of each
    increments: tuple[IndexIncrement, ...]
    documents: Documents
    leaves: tuple[LeafPath, ...]
    decided_columns: tuple[ColumnPolicy, ...]  # those that counts over the rows decided
    features: Mapping[str, Any]
    task_ranges: tuple[tuple[int, int], ...]  # first doc_no and last + 1 of each task

    @property
    def closed_increments(self) -> tuple[IndexIncrement, ...]:
        """The increments that an append adds to. An append that was not published is open; the
        first increment always counts as closed, as nothing precedes it."""
        is_open = len(self.increments) > 1 and not self.increments[-1].published
        return self.increments[:-1] if is_open else self.increments

    @classmethod
    def read(cls, work: Path) -> SavedIndex | None:
        """The index of WORK; None if it has none. Raises UsageError, with the command that rebuilds
        it, for an index of another version of the tables, and OutputBroken for a damaged one."""
        remedy = (
            "Rebuild the index from the inputs and settings of that run: sanitize index INPUT..."
            f" --work {work}"
        )
        index_json = read_saved_json(work / INDEX_FILE, remedy)
        if index_json is None:
            return None
        if index_json and index_json.get("schema_version") != table_schemas.VERSION:
            raise UsageError(
                f"{work}: its index has version {index_json.get('schema_version', 1)} of the"
                f" tables, and this program reads version {table_schemas.VERSION}. Rebuild it from"
                f" the inputs and settings of that run: sanitize index INPUT... --work {work}. The"
                " key, the erasure requests and the labels of earlier outputs are kept"
            )
        missing = _list_missing_keys(index_json)
        if not missing:
            with contextlib.suppress(LookupError, TypeError, ValueError, AttributeError):
                return cls._parse(index_json, work)
        reason = f"it lacks {', '.join(missing)}" if missing else "an entry of it has another form"
        raise OutputBroken(f"{work / INDEX_FILE}: is damaged: {reason}. {remedy}")

    @classmethod
    def _parse(cls, index_json: Mapping[str, Any], work: Path) -> SavedIndex:
        names = ("fingerprint", "complete", "key_id", "detection_settings", "inputs_hash")
        return cls(
            **{name: index_json[name] for name in names},
            sample=index_json.get("sample", 1.0),
            input_files=index_json.get("input_files", []),
            increments=tuple(from_json(IndexIncrement, one) for one in index_json["increments"]),
            documents=Documents.from_json(index_json["documents"], work),
            leaves=tuple(
                LeafPath(column, tuple(steps)) for column, *steps in index_json["leaf_paths"]
            ),
            decided_columns=tuple(
                from_json(ColumnPolicy, one) for one in index_json.get("decided_columns", [])
            ),
            features=index_json.get("features", {}),
            task_ranges=tuple((low, high) for low, high in index_json["task_ranges"]),
        )

    @classmethod
    def read_complete(cls, work: Path) -> SavedIndex:
        """The index of WORK. Also raises UsageError if there is none, or one that is not
        complete."""
        index = cls.read(work)
        if index is None or not index.complete:
            raise UsageError(
                f"{work}: has no complete index; build it with `sanitize index INPUT... --work"
                f" {work}`, or run the command that builds it to its end"
            )
        return index

    def write(self, work: Path) -> None:
        """Write index.json of WORK."""
        index_json = {
            "schema_version": table_schemas.VERSION,
            **{one.name: getattr(self, one.name) for one in fields(self)},
            "increments": [asdict(increment) for increment in self.increments],
            "decided_columns": [asdict(column) for column in self.decided_columns],
            "documents": self.documents.to_json(work),
            "leaf_paths": [[leaf.column, *leaf.steps] for leaf in self.leaves],
        }
        del index_json["leaves"]
        write_json(work / INDEX_FILE, index_json, indent=None)


def open_workspace(work: Path, forbidden_folder: str = STREAM_ONLY_FOLDER) -> None:
    """Creates WORK, or opens an existing one: private, ignored by git, with its vault.

    Raises UsageError, without a change, for a folder with other files, and for one that contains
    `forbidden_folder`: the state of a run and of a stream must not share a folder.
    """
    if work.is_dir():
        names = {entry.name for entry in work.iterdir()}
        is_forbidden = (
            _is_stream_state(work)
            if forbidden_folder == STREAM_ONLY_FOLDER
            else forbidden_folder in names
        )
        if is_forbidden and "vault" in names:
            raise UsageError(f"{work}: is {_FOLDER_OWNERS[forbidden_folder]}, or leave it out")
        # created by a run that stopped early, or is just starting
        is_new = names <= {".gitignore", "vault", "run.lock"} and _read_gitignore(work) in (
            None,
            "",
            "*\n",
        )
        if not is_new and not {".gitignore", "vault"} <= names:
            raise UsageError(
                f"{work}: contains files that no run wrote; as the private folder (--work) use a"
                " new one, or that of an earlier run"
            )
    make_private_folder(work)
    _refuse_link(work / VAULT_FOLDER)
    _refuse_link(work / ".gitignore")
    if _read_gitignore(work) != "*\n":
        (work / ".gitignore").write_text("*\n", "ascii")
    make_private_folder(work / VAULT_FOLDER)


def _refuse_link(path: Path) -> None:
    """Raises UsageError for a symbolic link: raw values would be written elsewhere."""
    if path.is_symlink():
        raise UsageError(
            f"{path}: is a link; a private folder must not contain links. Remove the link, or use"
            " another folder"
        )


def _read_gitignore(work: Path) -> str | None:
    try:
        return (work / ".gitignore").read_text("utf-8")
    except (OSError, ValueError):
        return None


def remove_leftovers(work: Path) -> None:
    """Removes leftovers of an interrupted run from WORK: attempts, spilled tables, temporary files.
    The caller holds the lock."""
    shutil.rmtree(work / SPILL_FOLDER, ignore_errors=True)
    for leftover in work.rglob("*.tmp"):
        leftover.unlink(missing_ok=True)


@contextlib.contextmanager
def read_workspace(work: Path, name: str) -> Iterator[Path]:
    """Keeps runs away from WORK while a command reads its tables; yields a temporary folder in it,
    whose name begins with `name`.

    Raises Locked if a run is at work there, and UsageError if WORK cannot be written.
    """
    with contextlib.ExitStack() as stack:
        with refuse_unwritable_path(
            work, "the command writes temporary files there; change the permissions"
        ):
            stack.enter_context(share_workspace(work))
            if not os.access(work, os.W_OK):
                raise PermissionError(errno.EACCES, "not writable")
            stack.callback(_remove_empty_folder, work / SPILL_FOLDER)
            folder = _make_temporary_folder(work, name)
        yield Path(stack.enter_context(folder))


def _make_temporary_folder(work: Path, name: str) -> tempfile.TemporaryDirectory[str]:
    while True:
        spill = make_private_folder(work / SPILL_FOLDER)
        with contextlib.suppress(FileNotFoundError):
            # another reader has just removed the empty folder
            return tempfile.TemporaryDirectory(dir=spill, prefix=f"{name}-")


def _remove_empty_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


@contextlib.contextmanager
def set_umask(mode: int) -> Iterator[int]:
    """Context that sets the umask of this process and of processes that it starts; yields the
    previous umask, which is restored."""
    before = os.umask(mode)
    try:
        yield before
    finally:
        os.umask(before)


def load_key(work: Path, *, key_file: Path | None = None, seed: int | None = None) -> Key:
    """The key of a run: from `--key FILE`, from `--seed N`, else the key in the vault, which is
    generated if it does not exist."""
    if key_file is not None and seed is not None:
        raise UsageError(
            "--key and --seed exclude each other: a seed makes a public key; use one of them"
        )
    if seed is not None:
        return Key.from_seed(seed)
    if key_file is not None:
        return Key.read(key_file)
    folder = make_private_folder(work / VAULT_FOLDER / "key")
    path = folder / "key"
    if not path.exists():
        Key.generate().write(path)
    return Key.read(path)


def check_paths_disjoint(inputs: Sequence[Path | str], out: Path | None, work: Path | None) -> None:
    """Raises UsageError if inputs, OUT and WORK are inside each other, or OUT or WORK is inside the
    private folder of another run."""
    input_paths = [(Path(path), "the input") for path in inputs if "://" not in str(path)]
    roots = [(root, name) for root, name in ((out, "OUT (-o)"), (work, "WORK")) if root is not None]
    for root, name in roots:
        root_path = root.resolve()
        for other, other_name in [*input_paths, *((r, n) for r, n in roots if n != name)]:
            other_path = other.resolve()
            if (
                root_path == other_path
                or (os.path.isdir(other_path) and root_path.is_relative_to(other_path))
                or other_path.is_relative_to(root_path)
            ):
                raise UsageError(
                    f"{name} {root} and {other_name} {other} lie inside each other; use a folder"
                    " beside it"
                )
        for parent in root_path.parents:
            if os.path.isdir(parent / VAULT_FOLDER) and _read_gitignore(parent) == "*\n":
                raise UsageError(
                    f"{name} {root} is inside {parent}, the private folder of another run; use a"
                    " folder beside it"
                )
