"""Publishes a finished corpus as OUT with one rename: it is built in a staging folder beside OUT, verified, its manifest and SHA256SUMS are
written last, then it is swapped with OUT.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sanitize.core import failpoints
from sanitize.errors import LeakFound, OutputBroken
from sanitize.storage.checksums import write_checksums
from sanitize.storage.disk_errors import translate_disk_errors
from sanitize.storage.files import file_sha256, fsync, write_json


def publish_corpus(
    out: Path,
    *,
    shards: Sequence[tuple[Path, str]],
    shards_per_increment: Sequence[int] = (),
    text_files: Mapping[str, str],
    manifest: Mapping[str, Any],
    find_leaks: Callable[[dict[str, str]], Sequence[tuple[str, str]]],
    mac_key: bytes,
    before_swap: Callable[[], object] = lambda: None,
) -> None:
    """Builds a corpus in a staging folder beside OUT and swaps it in: shards (source, SHA-256), then text files, manifest and SHA256SUMS.

    `find_leaks` gets the text files and the manifest by name and returns (file name, kind) for each removed value in them; LeakFound is
    raised if there is any. `mac_key` is that of SHA256SUMS (checksums.py). `shards_per_increment` has the number of shards of each
    increment, if there are several.

    The caller holds the lock of OUT (locks.py), so no other run builds there. `before_swap` is called just before the swap and raises if
    OUT must not be replaced.
    """
    folder, _ = _staging_paths(out)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with translate_disk_errors(out.parent):
            suffix = "".join(shards[0][0].suffixes) if shards else ".parquet"
            named_shards = [
                (*shard, name) for shard, name in zip(shards, shard_names(shards_per_increment or [len(shards)], suffix), strict=True)
            ]
            _build(folder, named_shards, text_files, manifest, find_leaks, mac_key)
            before_swap()
            swap_folders(folder, out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def recover_output(out: Path) -> None:
    """Recovers from an interrupted publication: restores OUT if the swap did not finish, and removes the staging folders.

    The caller holds the lock of OUT.
    """
    new, old = _staging_paths(out)
    if old.exists() and not out.exists():
        old.rename(out)
        fsync(out.parent)
    for leftover in (new, old):
        shutil.rmtree(leftover, ignore_errors=True)


def _staging_paths(out: Path) -> tuple[Path, Path]:
    """The two reserved paths beside OUT: where the new output is built, and where the old one is moved during a swap."""
    return out.with_name(f".{out.name}.sanitize-new"), out.with_name(f".{out.name}.sanitize-old")


def _build(
    folder: Path,
    shards: Sequence[tuple[Path, str, str]],
    text_files: Mapping[str, str],
    manifest: Mapping[str, Any],
    find_leaks: Callable[[dict[str, str]], Sequence[tuple[str, str]]],
    mac_key: bytes,
) -> None:
    """Writes a complete corpus to `folder`, synced to disk. Raises LeakFound or OutputBroken."""
    (folder / "data").mkdir(parents=True)
    # a hard link has the private mode of its source in WORK; published files get the mode that the umask gives to new files
    mode = (folder / "data").stat().st_mode & 0o666
    for source, expected_sha256, name in shards:
        target = folder / "data" / name
        try:
            os.link(source, target)
        except OSError:  # WORK is on another file system
            shutil.copyfile(source, target)
        target.chmod(mode)
        if file_sha256(target) != expected_sha256:
            raise OutputBroken(f"{source}: does not match its record (sha256 differs); the disk may be failing. Run the same command again")
        fsync(target)
        failpoints.hit("publish:shard_linked")
    leaks = find_leaks({**text_files, "manifest.json": json.dumps(manifest, ensure_ascii=False, default=str)})
    if leaks:
        name, kind = leaks[0]
        raise LeakFound(f"{name} would contain a removed {kind} value, and {len(leaks) - 1} more; nothing was published")
    for name, text in text_files.items():
        (folder / name).write_text(text, "utf-8")
        fsync(folder / name)
        failpoints.hit("publish:page_written")
    fsync(folder / "data")
    write_json(folder / "manifest.json", manifest)
    sha256_by_name = {f"data/{name}": sha256 for _, sha256, name in shards}
    sha256_by_name |= {name: file_sha256(folder / name) for name in (*text_files, "manifest.json")}
    write_checksums(folder, sha256_by_name, mac_key)
    fsync(folder)
    failpoints.hit("publish:folder_complete")


def shard_name(number: int, count: int, increment: int = 1, suffix: str = ".parquet") -> str:
    """The file name of an output shard, in the form that `datasets` expects; shards of appended increments have a prefix such as b0002-."""
    return f"train-{f'b{increment:04d}-' if increment > 1 else ''}{number:05d}-of-{count:05d}{suffix}"


def shard_names(shards_per_increment: Sequence[int], suffix: str = ".parquet") -> list[str]:
    """The file names of all shards, given the number of shards of each increment; their sorted order is corpus order."""
    return [
        shard_name(number, count, increment, suffix) for increment, count in enumerate(shards_per_increment, 1) for number in range(count)
    ]


def swap_folders(new: Path, out: Path) -> None:
    """Replaces the folder `out` by `new` with one rename, atomically where the system can exchange folders; deletes the old folder."""
    _, old = _staging_paths(out)
    if not out.exists():
        new.rename(out)
    elif _exchange(new, out):
        pass  # the old OUT now has the name `new`
    else:
        # no atomic exchange on this system: move the old folder away first
        shutil.rmtree(old, ignore_errors=True)
        out.rename(old)
        failpoints.hit("swap:old_moved")
        new.rename(out)
    failpoints.hit("swap:complete")
    fsync(out.parent)
    shutil.rmtree(new, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)  # also what an interruption between the two renames left


def _exchange(first: Path, second: Path) -> bool:
    """Exchanges two folders atomically (renameat2 of Linux with RENAME_EXCHANGE); returns False if the system cannot."""
    if sys.platform != "linux":
        return False
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    return bool(rename(-100, os.fsencode(first), -100, os.fsencode(second), 2) == 0)
