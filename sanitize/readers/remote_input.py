"""Inputs at URLs, fetched into WORK: WORK/fetched/<batch>-<number>/<name>, one folder for each URL (or for each match of a pattern).

From there they are read like any other input, so the same bytes make the same index wherever they lay. Each file is a task with a record:
what is whole and unchanged at its place is not fetched again. `still` asks the storage whether it is as it was listed. Once a run is over
they are taken away; what is kept is how the storage told each object and its sha256, so that an append need not fetch it again.
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
from typing import Any
from urllib.parse import urlsplit

from sanitize.core.progress import Progress, Step, silent
from sanitize.errors import InputRefused, UsageError
from sanitize.storage import vault
from sanitize.storage.corpus import read_json, write_json
from sanitize.storage.publication import Job, hashed, perform
from sanitize.storage.remote_storage import Missing, Object, Storage, is_url, local_path, shown

_TOLD = "tasks/fetched.json"  # of objects that were read: what told each, its bytes and sha256
AT_ONCE = 8  # files on their way: a storage answers slowly and to many
_MAGIC = frozenset("*?[")
_AGAIN = "run the same command again when nobody writes there"


@dataclass(frozen=True)
class Fetching:
    """One object to be fetched into the folder of its task."""

    storage: Storage
    object: Object
    folder: Path

    @property
    def told(self) -> str:
        return self.storage.shown


def fetch_task(task: Fetching) -> dict[str, Any]:
    """Writes `file`; raises InputRefused where the object is no more what the listing said."""
    try:
        task.storage.get(task.object, task.folder / "file")
        if task.storage.object(task.object.path) != task.object:
            raise Missing
    except Missing:
        raise InputRefused(f"{task.storage.shown}: an object changed or went away between being listed and being read; {_AGAIN}") from None
    return {"bytes": (task.folder / "file").stat().st_size}


@dataclass(frozen=True)
class Root:
    """One input: a local path, or a URL with its objects and where each goes below WORK/fetched."""

    name: str  # as it is told
    path: Path  # where it is read
    storage: Storage | None = None
    files: tuple[tuple[Object, Path], ...] = ()

    def place(self, path: str) -> str:
        """Where an object lies, or a folder of them: the same however it was named."""
        assert self.storage is not None
        return f"{self.storage.scheme}://{urlsplit(self.storage.shown).netloc}/{path}"

    @property
    def folder(self) -> str | None:
        """The place of a URL that is a folder; None of an object."""
        one, path = self.files[0]
        below = len(path.parts) - len(self.path.parts)
        return self.place(one.path.rsplit("/", below)[0]) if below else None

    def state(self, one: Object) -> str | None:
        """What tells an object from all others, and from itself once it is written anew; None where the storage says nothing of that."""
        return hashed(self.place(one.path), one.size, dict(one.state)) if one.state else None


@dataclass
class Inputs:
    """What the user named, in order. Made by `listed`, which writes nothing. `standing` are objects that an index has read and that are as
    they were then, by place: their bytes and sha256; they are not fetched."""

    work: Path
    batch: int = 0
    roots: list[Root] = field(default_factory=list)
    standing: dict[str, tuple[int, str]] = field(default_factory=dict)

    @property
    def paths(self) -> list[Path]:
        """What is read."""
        return [root.path for root in self.roots if root.storage is None or any(self._is_new(root, one) for one, _ in root.files)]

    @property
    def folders(self) -> list[str]:
        """The places of what was named and is a folder."""
        local = [str(root.path) for root in self.roots if root.storage is None and root.path.is_dir()]
        return local + [root.folder for root in self.remote if root.folder is not None]

    @functools.cached_property
    def _places(self) -> dict[str, str]:
        return {str(path): root.place(one.path) for root in self.remote for one, path in root.files}

    def place(self, path: str) -> str:
        """Where a file that is read lies for its owner: its path, or its URL."""
        return self._places.get(path, path)

    def _is_new(self, root: Root, one: Object) -> bool:
        return root.place(one.path) not in self.standing

    @property
    def names(self) -> list[str]:
        """The inputs as a command can name them again: absolute paths, and URLs without what may be secret in them."""
        return list(dict.fromkeys(root.name for root in self.roots))

    @property
    def remote(self) -> list[Root]:
        return [root for root in self.roots if root.storage is not None]

    def stand(self, known: Set[str]) -> None:
        """Leave out what an index has read, whose sha256 are `known`, and what is as it was then."""
        told = read_json(self.work / _TOLD) or {}
        for root in self.remote:
            for one, _ in root.files:
                size, sha256 = told.get(root.state(one) or "", (0, ""))
                if sha256 in known:
                    self.standing[root.place(one.path)] = size, sha256

    def fetch(self, progress: Progress = silent) -> None:
        """Bring every object here that is not, and take away what no root has any more. WORK's lock is held."""
        folder = vault.private(self.work / "fetched")
        wanted = {path for root in self.remote for one, path in root.files if self._is_new(root, one)}
        # what earlier batches read in place stays as long as they are not published
        for path in sorted((path for top in folder.glob(f"{self.batch}-*") for path in (top, *top.rglob("*"))), reverse=True):
            if path.is_dir():
                if not any(path.iterdir()):
                    path.rmdir()
            elif path not in wanted:
                path.unlink()
        jobs: list[Job] = []
        sizes: list[int] = []
        for root in self.remote:
            assert root.storage is not None
            for one, path in root.files:
                if not self._is_new(root, one):
                    continue
                no = len(jobs)
                # without anything that tells a change, an object is fetched each time
                state = root.state(one) or os.urandom(16).hex()
                jobs.append(
                    Job(
                        work=fetch_task,
                        task=Fetching(root.storage, one, self.work / "spill" / f"fetch-{no}"),
                        record=self.work / "tasks" / "fetch" / f"{no:05d}.json",
                        fingerprint=state,
                        outputs={"file": path},
                    )
                )
                sizes.append(one.size or 0)
        step = Step(stage="fetch", total=len(jobs), of_bytes=sum(sizes))
        progress(step)
        with ThreadPoolExecutor(AT_ONCE, "fetch") as pool:
            running = [pool.submit(perform, job) for job in jobs]
            try:
                for number, done in enumerate(running):
                    done.result()
                    step = replace(step, done=number + 1, bytes=step.bytes + sizes[number])
                    progress(step)
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    def still(self) -> None:
        """InputRefused where an object is not what was listed."""
        every = [(root.storage, one) for root in self.remote for one, _ in root.files]
        for number, (now, (_, one)) in enumerate(zip(_asked(every), every, strict=True), 1):
            if now != one:
                raise InputRefused(f"file {number} of the input changed while it was being read; nothing was published; {_AGAIN}")

    def take_away(self, sha256: Mapping[str, str]) -> None:
        """What was fetched is needed no more; `sha256` of what was read of it, by path, is remembered."""
        if self.remote:
            told = read_json(self.work / _TOLD) or {}
            for root in self.remote:
                for one, path in root.files:
                    if (state := root.state(one)) is not None and str(path) in sha256:
                        told[state] = path.stat().st_size, sha256[str(path)]
            with vault.umask(0o077):
                write_json(self.work / _TOLD, told)
        shutil.rmtree(self.work / "fetched", ignore_errors=True)
        shutil.rmtree(self.work / "tasks" / "fetch", ignore_errors=True)

    @contextlib.contextmanager
    def telling(self) -> Iterator[None]:
        """Errors from within name URLs in place of where they were fetched to."""
        try:
            yield
        except (InputRefused, UsageError) as error:
            said = str(error)
            for root in self.remote:
                said = said.replace(str(root.path), root.name)
            error.args = (said,)
            raise error from None


def listed(inputs: Sequence[str | Path], work: Path, batch: int = 0) -> Inputs:
    """The inputs with what lies behind each URL now; nothing is written. `batch`: how many the index has that they are added to."""
    found = Inputs(work, batch)
    for given in inputs:
        if not is_url(given):
            found.roots.append(Root(os.path.abspath(given), local_path(given)))
            continue
        storage = Storage(str(given))
        for path in _matches(storage):
            folder = work / "fetched" / f"{batch}-{len(found.roots):05d}"
            name = path.rpartition("/")[2]
            name = name if _is_name(name) else "data"
            try:
                files: tuple[tuple[Object, Path], ...] = ((storage.object(path), folder / name),)
            except Missing:
                below = _below(storage, path)
                if not below:
                    raise InputRefused(f"{storage.shown}: there is no such file or folder, or nothing is in it. Check the URL.") from None
                # each is asked itself: what a listing says may be old, and says it in other words
                now = _asked([(storage, one) for one, _ in below])
                if None in now:
                    raise InputRefused(f"{storage.shown}: {now.count(None)} listed objects are not there; {_AGAIN}") from None
                files = tuple((one, folder / name / rel) for one, (_, rel) in zip(now, below, strict=True) if one is not None)
            found.roots.append(Root(shown(str(given)), folder / name, storage, files))
    return found


def _asked(objects: Sequence[tuple[Storage | None, Object]]) -> list[Object | None]:
    """Objects as they are now; None for one that is gone."""

    def ask(place: tuple[Storage | None, Object]) -> Object | None:
        storage, one = place
        assert storage is not None
        try:
            return storage.object(one.path)
        except Missing:
            return None

    with ThreadPoolExecutor(AT_ONCE, "ask") as pool:
        return list(pool.map(ask, objects))


def _matches(storage: Storage) -> list[str]:
    """The paths that a URL names: itself, or what its pattern matches."""
    if not _MAGIC & set(storage.path):
        return [storage.path]
    try:
        storage.info(storage.path)
        return [storage.path]
    except Missing:
        found = storage.matching(storage.path)
    if not found:
        raise InputRefused(f"{storage.shown}: nothing matches this pattern. Check the URL, and that the shell left it alone (quote it).")
    return [path.rstrip("/") for path in found]


def _below(storage: Storage, path: str) -> list[tuple[Object, str]]:
    """The objects below a path with their relative names; refused where one can be no file."""
    prefix = len(path.rstrip("/")) + 1
    found = [(one, one.path[prefix:]) for one in storage.files(path)]
    names = {rel for _, rel in found}
    folders = {rel.rsplit("/", depth)[0] for _, rel in found for depth in range(1, rel.count("/") + 1)}
    bad = sum(not all(map(_is_name, rel.split("/"))) for rel in names) + len(names & folders)
    if bad:
        raise InputRefused(
            f"{storage.shown}: {bad} objects have names that no file can have (an empty part, . or .., or one that is also a folder); "
            "rename them, or name the others with a pattern"
        )
    return found


def _is_name(part: str) -> bool:
    return part not in ("", ".", "..") and not set("/\0") & set(part) and len(part.encode("utf-8", "surrogatepass")) <= 255
