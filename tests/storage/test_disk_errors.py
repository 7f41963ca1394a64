"""Messages about a disk that fails."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from sanitize.storage.disk_errors import make_disk_error


@pytest.mark.parametrize(
    ("code", "inodes", "cause"),
    [
        (errno.ENOSPC, (1000, 5), "3 MB are free there. Free some disk space"),
        (
            errno.ENOSPC,
            (1000, 0),
            "no file can be created there: the file system has no inodes left. Delete files",
        ),
        # a file system without a limit of inodes, such as btrfs
        (errno.ENOSPC, (0, 0), "3 MB are free there"),
        (errno.EIO, (1000, 0), "3 MB are free there"),
    ],
)
def test_a_full_disk_and_one_without_inodes(
    code: int, inodes: tuple[int, int], cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = SimpleNamespace(
        f_files=inodes[0], f_favail=inodes[1], f_bavail=3 << 10, f_frsize=1 << 10
    )
    monkeypatch.setattr(os, "statvfs", lambda path: space)
    error = make_disk_error(Path("/no such folder"), code)
    assert f"failed ({errno.errorcode[code]}), {cause}" in str(error) and str(error).endswith(
        "run the same command again to resume"
    )
    assert error.is_disk_error
