"""The vault: the key and the raw values. It lies inside WORK, belongs to its owner alone, and never leaves."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from sanitize.core.keys import Key
from sanitize.errors import UsageError


def private(folder: Path) -> Path:
    """A folder of mode 0700, made if it is not there."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        owner = folder.stat().st_uid
    except (FileExistsError, NotADirectoryError, PermissionError) as error:
        raise UsageError(f"{folder}: cannot be made a private folder ({type(error).__name__}); take another place for it") from None
    if hasattr(os, "geteuid") and owner != os.geteuid():
        raise UsageError(f"{folder}: belongs to another user, who could read what is put there; take another place for it")
    return folder


OF_RUN, OF_STREAM = "tasks", "seen"  # folders that only the WORK of a run has, and only the state of a stream
_WHOSE = {OF_RUN: "the private folder of a run; take another --state", OF_STREAM: "the state of a stream; take another --work"}


def private_folder(work: Path) -> None:
    """Refuse what is not the WORK of a run."""
    stream = (work / OF_STREAM).is_dir()
    if stream or not (work / "vault").is_dir():
        told = "the state of a stream, which keeps no tables" if stream else "not the private folder of a run"
        raise UsageError(f"{work}: {told}; expected the WORK of `sanitize run` or `find`, such as clean.private")


def open_work(work: Path, never: str = OF_STREAM) -> None:
    """Make WORK: private, ignored by git, with its vault. A folder that holds something else is refused, untouched, and so is one that
    holds `never`: what a run and a stream remember of one input does not go together."""
    if work.is_dir():
        names = {entry.name for entry in work.iterdir()}
        if never in names and "vault" in names:
            raise UsageError(f"{work}: is {_WHOSE[never]}, or leave it out")
        begun = names <= {".gitignore", "vault", "run.lock"} and _ignore(work) in (None, "", "*\n")  # stopped, or not so far yet
        if not begun and not {".gitignore", "vault"} <= names:
            raise UsageError(
                f"{work}: holds files that are not of a run; as the private folder (--work) take a new one, or that of an earlier run"
            )
    private(work)
    _plain(work / "vault")
    _plain(work / ".gitignore")
    if _ignore(work) != "*\n":
        (work / ".gitignore").write_text("*\n", "ascii")
    private(work / "vault")


def _plain(path: Path) -> None:
    """Refuse a link where WORK has a file or folder of its own: it would lead raw values elsewhere."""
    if path.is_symlink():
        raise UsageError(f"{path}: is a link; a private folder holds none. Take the link away, or take another folder")


def _ignore(work: Path) -> str | None:
    try:
        return (work / ".gitignore").read_text("utf-8")
    except (OSError, ValueError):
        return None


def tidy(work: Path) -> None:
    """Take away what a stopped run left half done in WORK: attempts, spilled tables, files that were not renamed. The lock is held."""
    shutil.rmtree(work / "spill", ignore_errors=True)
    for left in work.rglob("*.tmp"):
        left.unlink(missing_ok=True)


@contextlib.contextmanager
def umask(mode: int) -> Iterator[int]:
    """New files and folders of this process, and of those it starts, lack the bits of `mode`; gives the mask that was in force before."""
    before = os.umask(mode)
    try:
        yield before
    finally:
        os.umask(before)


def key_of(work: Path, *, key_file: Path | None = None, seed: int | None = None) -> Key:
    """The key of a run: of `--key FILE`, of `--seed N`, else the vault's own, made when it is not there."""
    if key_file is not None and seed is not None:
        raise UsageError("--key and --seed exclude each other: a seed makes a public key; take one of them")
    if seed is not None:
        return Key.from_seed(seed)
    if key_file is not None:
        return Key.read(key_file)
    folder = private(work / "vault" / "key")
    path = folder / "key"
    if not path.exists():
        Key.generate().write(path)
    return Key.read(path)


def apart(inputs: Sequence[Path | str], out: Path | None, work: Path | None) -> None:
    """Refuse folders that lie inside each other, or inside the private folder of another run."""
    places = [(Path(path), "the input") for path in inputs if "://" not in str(path)]
    roots = [(root, name) for root, name in ((out, "OUT (-o)"), (work, "WORK")) if root is not None]
    for root, name in roots:
        mine = root.resolve()
        for other, other_name in [*places, *((r, n) for r, n in roots if n != name)]:
            theirs = other.resolve()
            if mine == theirs or (theirs.is_dir() and mine.is_relative_to(theirs)) or theirs.is_relative_to(mine):
                raise UsageError(f"{name} {root} and {other_name} {other} lie inside each other; take a folder beside it")
        for above in mine.parents:
            if (above / "vault").is_dir() and _ignore(above) == "*\n":
                raise UsageError(f"{name} {root} lies in {above}, the private folder of another run; take a folder beside it")
