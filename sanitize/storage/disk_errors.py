"""Translates disk and memory failures into `ResourceError`: which folder, what failed, how many MB are free, what to do.

Also `avoid_url_syntax`: makes a path that Arrow and Polars do not mistake for a URL.
"""

from __future__ import annotations

import contextlib
import errno
import re
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

from sanitize.errors import ResourceError

DISK_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE, errno.EROFS, errno.ENOMEM, errno.ENOLCK)
# for libraries that hide the errno but quote its text; no other part of a message is inspected or reported
_ERRNO_BY_MESSAGE = {
    "No space left on device": errno.ENOSPC,
    "Disk quota exceeded": errno.EDQUOT,
    "File too large": errno.EFBIG,
    "Input/output error": errno.EIO,
    "Too many open files": errno.EMFILE,
    "Read-only file system": errno.EROFS,
    "Cannot allocate memory": errno.ENOMEM,
    "cannot allocate memory": errno.ENOMEM,
    "failed to map segment from shared object": errno.ENOMEM,  # a library that does not fit into the address space
    "can't start new thread": errno.ENOMEM,
    "Resource temporarily unavailable": errno.ENOMEM,
    "memory allocation of": errno.ENOMEM,
    "out of memory": errno.ENOMEM,
    "Out of Memory": errno.ENOMEM,
}
# of address space: below that the libraries do not load, or abort. Measured: a run of six mails needs 1.9 GB, most of it never touched
MIN_ADDRESS_SPACE = 2_000_000_000

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def avoid_url_syntax(path: str | Path) -> Path:
    """The path, made absolute if it looks like a URL: Arrow and Polars take `mails:10/x` for one, unless it begins at the root."""
    return Path(path).absolute() if _SCHEME.match(str(path)) else Path(path)


@contextlib.contextmanager
def translate_disk_errors(folder: Path) -> Iterator[None]:
    """Context that turns disk errors (`DISK_ERRNOS`: a full disk, a failed read or write, too many open files) into a ResourceError that
    names `folder`, and a MemoryError into one that advises fewer workers. Other exceptions pass unchanged."""
    try:
        yield
    except MemoryError:
        raise ResourceError("not enough memory for a batch; use fewer --workers, or a smaller --max-doc-bytes") from None
    except BaseException as error:  # a panic of Polars is no Exception
        code = get_disk_errno(error)
        if code is None:
            raise
        raise make_disk_error(folder, code) from None


def require_address_space() -> None:
    """Raises ResourceError where the address space of this process is limited (`ulimit -v`) so that the libraries cannot be loaded."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit not in (resource.RLIM_INFINITY, -1) and limit < MIN_ADDRESS_SPACE:
        raise ResourceError(
            f"the address space is limited to {limit // 1_000_000:,} MB (ulimit -v); expected at least {MIN_ADDRESS_SPACE // 1_000_000:,} "
            "MB, most of which is reserved and not used. Raise the limit; memory itself is limited by --memory-limit, or by a control group"
        )


def get_disk_errno(error: BaseException) -> int | None:
    """The errno of an exception if it is one of `DISK_ERRNOS`; else None."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno if error.errno in DISK_ERRNOS else None
    if isinstance(error, MemoryError):
        return errno.ENOMEM
    if type(error).__module__.split(".")[0] in ("builtins", "duckdb", "_duckdb", "polars", "pyarrow", "pyo3_runtime"):
        message = str(error)
        return next((code for text, code in _ERRNO_BY_MESSAGE.items() if text in message), None)
    return None


def make_disk_error(folder: Path, error_number: int) -> ResourceError:
    """The `ResourceError` for a disk operation that failed below `folder`, with the free space there."""
    if error_number == errno.ENOMEM:
        return ResourceError(
            "not enough memory, or address space (ulimit -v); use fewer --workers or a smaller --max-doc-bytes, or raise the limit, then "
            "run the same command again to resume"
        )
    operation = "a write" if error_number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS) else "reading or writing"
    existing = next((path for path in (folder, *folder.parents) if path.exists()), Path("/"))
    error = ResourceError(
        f"{folder}: {operation} failed ({errno.errorcode[error_number]}), {shutil.disk_usage(existing).free >> 20:,} MB are free there. "
        "Free some disk space, then run the same command again to resume"
    )
    error.is_disk_error = True
    return error
