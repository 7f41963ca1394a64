"""Fetches inputs at URLs into WORK, from where they are read like any other input.

Each URL, or each match of a pattern, has one folder: WORK/fetched/<increment>-<number>/<name>. The
same bytes give the same index wherever they are stored. Each file is a task with a record: a file
that is complete and unchanged is not fetched again. `check_unchanged` asks the storage whether
every object is still as it was listed. The fetched files are deleted when a run is over; what is
kept is the storage's description of each object and its sha256, so that an append need not fetch it
again.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from sanitize.core.progress import ProgressCallback, ProgressUpdate, ignore_progress
from sanitize.errors import InputRefused, UsageError
from sanitize.storage import private_folder
from sanitize.storage.files import read_json, write_json
from sanitize.storage.remote_storage import (
    ObjectMissing,
    RemoteObject,
    RemoteStorage,
    is_url,
    redact_url,
    require_local_path,
)
from sanitize.storage.task_records import Job, hash_json, run_job

_FETCH_HISTORY_PATH = (  # fingerprint of every object that was read -> its bytes and sha256
    "tasks/fetched.json"
)
MAX_PARALLEL_REQUESTS = 8  # a storage answers slowly, but serves many requests at once
_GLOB_CHARS = frozenset("*?[")
_RETRY_HINT = "run the same command again when nothing writes to that location"


@dataclass(frozen=True)
class FetchTask:
    """One object to be fetched into the folder of its task."""

    storage: RemoteStorage
    object: RemoteObject
    folder: Path

    @property
    def description(self) -> str:
        return self.storage.redacted_url


def fetch_task(task: FetchTask) -> None:
    """Fetches the object to `file`. Raises InputRefused where the object differs from its
    listing."""
    try:
        task.storage.download(task.object, task.folder / "file")
        if task.storage.stat_object(task.object.path) != task.object:
            raise ObjectMissing
    except ObjectMissing:
        raise InputRefused(
            f"{task.storage.redacted_url}: an object changed or was removed between listing and"
            f" reading; {_RETRY_HINT}"
        ) from None


@dataclass(frozen=True)
class InputRoot:
    """One input: a local path, or a URL with its objects and their local paths below
    WORK/fetched."""

    display_name: str  # as it is reported
    local_path: Path  # where it is read from
    storage: RemoteStorage | None = None
    files: tuple[tuple[RemoteObject, Path], ...] = ()

    def location_of(self, object_path: str) -> str:
        """The URL of an object, or of a folder of objects; it does not depend on how the user wrote
        the URL."""
        assert self.storage is not None
        return f"{self.storage.scheme}://{urlsplit(self.storage.redacted_url).netloc}/{object_path}"

    @property
    def folder_location(self) -> str | None:
        """The URL if it is a folder; None if it is an object."""
        first_object, path = self.files[0]
        depth = len(path.parts) - len(self.local_path.parts)
        return self.location_of(first_object.path.rsplit("/", depth)[0]) if depth else None

    def object_fingerprint(self, remote_object: RemoteObject) -> str | None:
        """A hash that identifies an object and its version; None where the storage gives no version
        tags."""
        return (
            hash_json(
                self.location_of(remote_object.path),
                remote_object.size,
                dict(remote_object.version_tags),
            )
            if remote_object.version_tags
            else None
        )


@dataclass
class InputSet:
    """The inputs that the user named, in order. Built by `list_inputs`, which writes nothing.
    `unchanged` holds objects that an index has read and that did not change since, by location:
    their bytes and sha256; they are not fetched.
    """

    workspace: Path
    increment: int = 0
    roots: list[InputRoot] = field(default_factory=list)
    unchanged: dict[str, tuple[int, str]] = field(default_factory=dict)

    @property
    def paths_to_read(self) -> list[Path]:
        """The local paths to read."""
        return [
            root.local_path
            for root in self.roots
            if root.storage is None or any(self._is_new(root, one) for one, _ in root.files)
        ]

    @property
    def folder_locations(self) -> list[str]:
        """The locations of the inputs that are folders."""
        local = [
            str(root.local_path)
            for root in self.roots
            if root.storage is None and root.local_path.is_dir()
        ]
        return local + [
            root.folder_location for root in self.remote_roots if root.folder_location is not None
        ]

    @functools.cached_property
    def _location_by_path(self) -> dict[str, str]:
        return {
            str(path): root.location_of(one.path)
            for root in self.remote_roots
            for one, path in root.files
        }

    def location_of(self, local_path: str) -> str:
        """The original location of a file that is read: its path, or its URL."""
        return self._location_by_path.get(local_path, local_path)

    def _is_new(self, root: InputRoot, remote_object: RemoteObject) -> bool:
        return root.location_of(remote_object.path) not in self.unchanged

    @property
    def display_names(self) -> list[str]:
        """The inputs as a later command can name them: absolute paths, and URLs without their
        secret parts."""
        return list(dict.fromkeys(root.display_name for root in self.roots))

    @property
    def remote_roots(self) -> list[InputRoot]:
        return [root for root in self.roots if root.storage is not None]

    def mark_unchanged(self, known_hashes: Set[str]) -> None:
        """Marks the objects to skip: those that an index has read (their sha256 is in
        `known_hashes`) and that did not change since."""
        fetch_history = read_json(self.workspace / _FETCH_HISTORY_PATH) or {}
        for root in self.remote_roots:
            for remote_object, _ in root.files:
                size, sha256 = fetch_history.get(
                    root.object_fingerprint(remote_object) or "", (0, "")
                )
                if sha256 in known_hashes:
                    self.unchanged[root.location_of(remote_object.path)] = size, sha256

    def fetch(self, progress: ProgressCallback = ignore_progress) -> None:
        """Fetches every object that is not in WORK yet, and deletes files that belong to no input
        any more. The caller holds WORK's lock.
        """
        folder = private_folder.make_private_folder(self.workspace / private_folder.FETCHED_FOLDER)
        wanted = {
            path
            for root in self.remote_roots
            for remote_object, path in root.files
            if self._is_new(root, remote_object)
        }
        # files of earlier increments stay: they are read in place until those increments are
        # published
        for path in sorted(
            (path for top in folder.glob(f"{self.increment}-*") for path in (top, *top.rglob("*"))),
            reverse=True,
        ):
            if path.is_dir():
                if not any(path.iterdir()):
                    path.rmdir()
            elif path not in wanted:
                path.unlink()
        jobs: list[Job[None]] = []
        sizes: list[int] = []
        for root in self.remote_roots:
            assert root.storage is not None
            for remote_object, path in root.files:
                if not self._is_new(root, remote_object):
                    continue
                no = len(jobs)
                # without version tags, an object is fetched each time
                fingerprint = root.object_fingerprint(remote_object) or os.urandom(16).hex()
                jobs.append(
                    Job(
                        function=fetch_task,
                        task=FetchTask(
                            root.storage,
                            remote_object,
                            self.workspace / private_folder.SPILL_FOLDER / f"fetch-{no}",
                        ),
                        record_path=self.workspace
                        / private_folder.TASKS_FOLDER
                        / "fetch"
                        / f"{no:05d}.json",
                        fingerprint=fingerprint,
                        outputs={"file": path},
                    )
                )
                sizes.append(remote_object.size or 0)
        update = ProgressUpdate(stage="fetch", total_tasks=len(jobs), total_bytes=sum(sizes))
        progress(update)
        with ThreadPoolExecutor(MAX_PARALLEL_REQUESTS, "fetch") as pool:
            futures = [pool.submit(run_job, job) for job in jobs]
            try:
                for number, future in enumerate(futures):
                    future.result()
                    update = replace(
                        update, tasks_done=number + 1, bytes=update.bytes + sizes[number]
                    )
                    progress(update)
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    def check_unchanged(self) -> None:
        """Raises InputRefused where an object differs from its listing."""
        listed = [
            (root.storage, remote_object)
            for root in self.remote_roots
            for remote_object, _ in root.files
        ]
        for number, (current, (_, remote_object)) in enumerate(
            zip(_stat_objects(listed), listed, strict=True), 1
        ):
            if current != remote_object:
                raise InputRefused(
                    f"file {number} of the input changed while it was being read; nothing was"
                    f" published; {_RETRY_HINT}"
                )

    def remove_fetched(self, hash_by_path: Mapping[str, str]) -> None:
        """Deletes the fetched files and remembers their sha256; `hash_by_path` has those of the
        files that were read."""
        if self.remote_roots:
            fetch_history = read_json(self.workspace / _FETCH_HISTORY_PATH) or {}
            for root in self.remote_roots:
                for remote_object, path in root.files:
                    if (fingerprint := root.object_fingerprint(remote_object)) is not None and str(
                        path
                    ) in hash_by_path:
                        fetch_history[fingerprint] = path.stat().st_size, hash_by_path[str(path)]
            with private_folder.set_umask(0o077):
                write_json(self.workspace / _FETCH_HISTORY_PATH, fetch_history)
        shutil.rmtree(self.workspace / private_folder.FETCHED_FOLDER, ignore_errors=True)
        shutil.rmtree(self.workspace / private_folder.TASKS_FOLDER / "fetch", ignore_errors=True)

    @contextlib.contextmanager
    def errors_with_urls(self) -> Iterator[None]:
        """Errors raised in the block name URLs instead of the local paths of fetched files."""
        try:
            yield
        except (InputRefused, UsageError) as error:
            message = str(error)
            for root in self.remote_roots:
                message = message.replace(str(root.local_path), root.display_name)
            error.args = (message,)
            raise error from None


def list_inputs(inputs: Sequence[str | Path], workspace: Path, increment: int = 0) -> InputSet:
    """The inputs, with the objects that each URL has now; nothing is written. `increment`: how many
    increments the index has already.
    """
    input_set = InputSet(workspace, increment)
    for given in inputs:
        if not is_url(given):
            input_set.roots.append(InputRoot(os.path.abspath(given), require_local_path(given)))
            continue
        storage = RemoteStorage(str(given))
        for path in _matching_paths(storage):
            folder = (
                workspace
                / private_folder.FETCHED_FOLDER
                / f"{increment}-{len(input_set.roots):05d}"
            )
            name = path.rpartition("/")[2]
            name = name if _is_file_name(name) else "data"
            try:
                files: tuple[tuple[RemoteObject, Path], ...] = (
                    (storage.stat_object(path), folder / name),
                )
            except ObjectMissing:
                objects_below = _list_below(storage, path)
                if not objects_below:
                    raise InputRefused(
                        f"{storage.redacted_url}: there is no such file or folder, or the folder is"
                        " empty. Check the URL."
                    ) from None
                # each object is queried itself: a listing may be outdated, and describes objects in
                # another form
                current = _stat_objects(
                    [(storage, remote_object) for remote_object, _ in objects_below]
                )
                if None in current:
                    raise InputRefused(
                        f"{storage.redacted_url}: {current.count(None)} listed objects are not"
                        f" there; {_RETRY_HINT}"
                    ) from None
                files = tuple(
                    (remote_object, folder / name / relative_path)
                    for remote_object, (_, relative_path) in zip(
                        current, objects_below, strict=True
                    )
                    if remote_object is not None
                )
            input_set.roots.append(InputRoot(redact_url(str(given)), folder / name, storage, files))
    return input_set


def _stat_objects(
    objects: Sequence[tuple[RemoteStorage | None, RemoteObject]],
) -> list[RemoteObject | None]:
    """The objects as they are now; None for one that does not exist any more."""

    def stat_one(entry: tuple[RemoteStorage | None, RemoteObject]) -> RemoteObject | None:
        storage, remote_object = entry
        assert storage is not None
        try:
            return storage.stat_object(remote_object.path)
        except ObjectMissing:
            return None

    with ThreadPoolExecutor(MAX_PARALLEL_REQUESTS, "ask") as pool:
        return list(pool.map(stat_one, objects))


def _matching_paths(storage: RemoteStorage) -> list[str]:
    """The paths that a URL names: itself, or the matches of its pattern. Raises InputRefused where
    nothing matches."""
    if not _GLOB_CHARS & set(storage.path):
        return [storage.path]
    try:
        storage.info(storage.path)
        return [storage.path]
    except ObjectMissing:
        found = storage.glob(storage.path)
    if not found:
        raise InputRefused(
            f"{storage.redacted_url}: nothing matches this pattern. Check the URL, and quote it so"
            " that the shell does not expand it."
        )
    return [path.rstrip("/") for path in found]


def _list_below(storage: RemoteStorage, path: str) -> list[tuple[RemoteObject, str]]:
    """The objects below a path with their relative names. Raises InputRefused where a name cannot
    be a local file name."""
    prefix = len(path.rstrip("/")) + 1
    objects = [
        (remote_object, remote_object.path[prefix:]) for remote_object in storage.list_objects(path)
    ]
    names = {name for _, name in objects}
    folders = {
        name.rsplit("/", depth)[0] for _, name in objects for depth in range(1, name.count("/") + 1)
    }
    bad_count = sum(not all(map(_is_file_name, name.split("/"))) for name in names) + len(
        names & folders
    )
    if bad_count:
        raise InputRefused(
            f"{storage.redacted_url}: {bad_count} objects have names that cannot be file names "
            "(an empty part, . or .., or one that is also a folder); "
            "rename them, or name the others with a pattern"
        )
    return objects


def _is_file_name(name: str) -> bool:
    return (
        name not in ("", ".", "..")
        and not set("/\0") & set(name)
        and len(name.encode("utf-8", "surrogatepass")) <= 255
    )
