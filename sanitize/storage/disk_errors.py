"""Translates disk and memory failures into `ResourceError`: which folder, what failed, how many MB
are free, what to do; and paths that cannot be written into `UsageError`: which path, why, what to
do.

Also `avoid_url_syntax`: makes a path that Arrow and Polars do not mistake for a URL.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import resource
from collections.abc import Iterator
from pathlib import Path

from sanitize.errors import ResourceError, UsageError

DISK_ERRNOS = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
    errno.EROFS,
    errno.ENOMEM,
    errno.ENOLCK,
)
# for libraries that hide the errno but quote its text; no other part of a message is inspected or
# reported
_ERRNO_BY_MESSAGE = {
    "No space left on device": errno.ENOSPC,
    "Disk quota exceeded": errno.EDQUOT,
    "File too large": errno.EFBIG,
    "Input/output error": errno.EIO,
    "Too many open files": errno.EMFILE,
    "Read-only file system": errno.EROFS,
    "Cannot allocate memory": errno.ENOMEM,
    "cannot allocate memory": errno.ENOMEM,
    # a library that does not fit into the address space
    "failed to map segment from shared object": errno.ENOMEM,
    "can't start new thread": errno.ENOMEM,
    "Resource temporarily unavailable": errno.ENOMEM,
    "memory allocation of": errno.ENOMEM,
    "out of memory": errno.ENOMEM,
    "Out of Memory": errno.ENOMEM,
}
# of address space: below that the libraries do not load, or abort. Measured: a run of six mails
# needs 1.9 GB, most of it never touched
MIN_ADDRESS_SPACE = 2_000_000_000

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def avoid_url_syntax(path: str | Path) -> Path:
    """The path, made absolute if it looks like a URL: Arrow and Polars take `mails:10/x` for one,
    unless it begins at the root."""
    return Path(path).absolute() if _SCHEME.match(str(path)) else Path(path)


@contextlib.contextmanager
def translate_disk_errors(folder: Path) -> Iterator[None]:
    """Context that turns disk errors (`DISK_ERRNOS`: a full disk, a failed read or write, too many
    open files) into a ResourceError that names `folder`, a MemoryError into one that advises fewer
    workers, and a missing permission into a UsageError. Other exceptions pass unchanged."""
    try:
        yield
    except MemoryError:
        raise ResourceError(
            "not enough memory for a batch; use fewer --workers, or a smaller --max-doc-bytes"
        ) from None
    except PermissionError as error:
        path = Path(error.filename) if isinstance(error.filename, str) else folder
        raise UsageError(
            f"{path}: {explain_access_error(path, error)}; use another path, or change the"
            " permissions"
        ) from None
    except BaseException as error:  # a panic of Polars is no Exception
        code = get_disk_errno(error)
        if code is None:
            raise
        raise make_disk_error(folder, code) from None


@contextlib.contextmanager
def refuse_unwritable_path(path: Path, advice: str = "use another path") -> Iterator[None]:
    """Context that creates or opens a file or folder which the user named: an error of the path
    becomes a UsageError that says why it cannot be written. Errors of the disk (`DISK_ERRNOS`)
    pass, but for a read-only file system."""
    try:
        yield
    except OSError as error:
        if error.errno in DISK_ERRNOS and error.errno != errno.EROFS:
            raise
        raise UsageError(
            f"{path}: cannot be written: {explain_access_error(path, error)}; {advice}"
        ) from None


def explain_access_error(path: Path, error: OSError) -> str:
    """Why a path cannot be written, in words: a missing or read-only folder, missing permission, a
    file where a folder is expected."""
    existing = next(
        (one for one in (path, *path.absolute().parents) if os.path.lexists(one)), Path("/")
    )
    with contextlib.suppress(ValueError):
        existing = (
            existing.relative_to(Path.cwd())
            if existing.is_absolute() and not path.is_absolute()
            else existing
        )
    place = "the current folder" if existing == Path() else str(existing)
    match error.errno:
        case errno.EACCES | errno.EPERM if (
            existing == path and path.is_dir() and os.access(path, os.W_OK | os.X_OK)
        ):
            return (
                "no permission to write in"
                f" {path.absolute().parent if path.parent == Path() else path.parent}"
            )
        case errno.EACCES | errno.EPERM if existing == path:
            return (
                "no permission to write it"
                if path.is_file()
                else "no permission to write in this folder"
            )
        case errno.EACCES | errno.EPERM:
            return f"no permission to write in {place}"
        case errno.EROFS:
            return f"{place} is on a file system that is mounted read-only"
        case errno.ENOENT if existing.is_dir() and path.absolute().parent != existing.absolute():
            return f"there is no folder {path.parent}, and it cannot be created in {place}"
        case errno.ENOENT:
            return f"nothing can be created in {place}"
        case errno.ENOTDIR | errno.EEXIST if not existing.is_dir():
            return f"{place} is a file, not a folder"
        case errno.EISDIR:
            return "it is a folder; expected the name of a file"
        case errno.ENAMETOOLONG:
            return "the name is too long"
    return type(error).__name__


def require_address_space() -> None:
    """Raises ResourceError where the address space of this process is limited (`ulimit -v`) so that
    the libraries cannot be loaded."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit not in (resource.RLIM_INFINITY, -1) and limit < MIN_ADDRESS_SPACE:
        raise ResourceError(
            f"the address space is limited to {limit // 1_000_000:,} MB (ulimit -v); expected at"
            f" least {MIN_ADDRESS_SPACE // 1_000_000:,} MB, most of which is reserved and not used."
            " Raise the limit; memory itself is limited by --memory-limit, or by a control group"
        )


def get_disk_errno(error: BaseException) -> int | None:
    """The errno of an exception if it is one of `DISK_ERRNOS`; else None."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno if error.errno in DISK_ERRNOS else None
    if isinstance(error, MemoryError):
        return errno.ENOMEM
    if type(error).__module__.split(".")[0] in (
        "builtins",
        "duckdb",
        "_duckdb",
        "polars",
        "pyarrow",
        "pyo3_runtime",
    ):
        message = str(error)
        return next((code for text, code in _ERRNO_BY_MESSAGE.items() if text in message), None)
    return None


def make_disk_error(folder: Path, error_number: int) -> ResourceError:
    """The `ResourceError` for a disk operation that failed below `folder`, with the free space
    there."""
    if error_number == errno.ENOMEM:
        return ResourceError(
            "not enough memory, or address space (ulimit -v); use fewer --workers or a smaller"
            " --max-doc-bytes, or raise the limit, then run the same command again to resume"
        )
    operation = (
        "a write"
        if error_number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        else "reading or writing"
    )
    existing = next((path for path in (folder, *folder.parents) if path.exists()), Path("/"))
    if error_number == errno.EROFS:
        read_only = ResourceError(
            f"{folder}: a write failed (EROFS): the file system is mounted read-only. Mount it for"
            " writing, or use another path, then run the same command again to resume"
        )
        read_only.is_disk_error = True
        return read_only
    space = os.statvfs(existing)
    if error_number == errno.ENOSPC and space.f_files and not space.f_favail:
        cause = (
            "no file can be created there: the file system has no inodes left. Delete files, or use"
            " another file system"
        )
    else:
        cause = f"{space.f_bavail * space.f_frsize >> 20:,} MB are free there. Free some disk space"
    error = ResourceError(
        f"{folder}: {operation} failed ({errno.errorcode[error_number]}), {cause}, then run the"
        " same command again to resume"
    )
    error.is_disk_error = True
    return error
