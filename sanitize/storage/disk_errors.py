"""What can go wrong with a disk, as one clear error: which folder, what failed, how much room there is and how much is needed; and paths
that nobody takes for something else."""

from __future__ import annotations

import contextlib
import errno
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from sanitize.errors import ResourceError

CODES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE, errno.EROFS, errno.ENOMEM, errno.ENOLCK)
# a library that hides the number of an error still says its text; nothing else of a message is looked at or passed on
_SAID = {
    "No space left on device": errno.ENOSPC,
    "Disk quota exceeded": errno.EDQUOT,
    "File too large": errno.EFBIG,
    "Input/output error": errno.EIO,
    "Too many open files": errno.EMFILE,
    "Read-only file system": errno.EROFS,
    "Cannot allocate memory": errno.ENOMEM,
}

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def no_url(path: str | Path) -> Path:
    """A path as Arrow and Polars read it, too: they take `mails:10/x` for a URL, unless it begins at the root."""
    return Path(path).absolute() if _SCHEME.match(str(path)) else Path(path)


@contextlib.contextmanager
def disk_trouble(where: Path) -> Iterator[None]:
    """Turn a full disk, a failing write or too little memory into one `ResourceError` about the folder `where`."""
    try:
        yield
    except MemoryError:
        raise ResourceError("not enough memory for a batch; use fewer --workers, or a smaller --max-doc-bytes") from None
    except Exception as error:
        code = code_of(error)
        if code is None:
            raise
        raise failed(where, code) from None


def code_of(error: BaseException) -> int | None:
    """The number of the system's error behind an exception, where it is one of a disk; else None."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno if error.errno in CODES else None
    if type(error).__module__.split(".")[0] in ("builtins", "duckdb", "_duckdb", "polars", "pyarrow"):
        said = str(error)
        return next((code for text, code in _SAID.items() if text in said), None)
    return None


def failed(where: Path, code: int) -> ResourceError:
    """The error for a write that failed below `where`."""
    what = "a write" if code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS) else "reading or writing"
    there = next((one for one in (where, *where.parents) if one.exists()), Path("/"))
    error = ResourceError(
        f"{where}: {what} failed ({errno.errorcode[code]}), {shutil.disk_usage(there).free >> 20:,} MB are free there. "
        "Make room, then run the same command again to go on"
    )
    error.disk = True
    return error
