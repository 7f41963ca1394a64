"""Publishes a finished corpus as OUT with one rename: it is built in a staging folder beside OUT,
verified, its manifest and SHA256SUMS are written last, then it is swapped with OUT.

SHA256SUMS has the SHA-256 of every file in OUT, and a MAC over these lines. `sha256sum -c
SHA256SUMS` compares the files with the plain hashes, which detect accidents only: who edits a file
can write its hash too. The last line, a comment to sha256sum, has the MAC: a keyed BLAKE2b under a
subkey of the run's key, which is kept in the run's folder in WORK. The file lies in OUT, so it is
published, moved and uploaded with the files that it covers.
"""

from __future__ import annotations

import ctypes
import hashlib
import hmac
import json
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sanitize.core import failpoints
from sanitize.core.keys import Key
from sanitize.errors import LeakFound, OutputBroken
from sanitize.storage.disk_errors import translate_disk_errors
from sanitize.storage.files import (
    file_sha256,
    fsync,
    read_regular_file,
    write_json,
    write_private_lines,
)
from sanitize.storage.private_folder import VAULT_FOLDER, make_private_folder

CHECKSUMS_NAME = "SHA256SUMS"
MAC_KEY_FILE = f"{VAULT_FOLDER}/published_key"  # in the folder of a run
_MAC_PREFIX = "# MAC under the key of the private folder (BLAKE2b): "


def publish_corpus(
    out: Path,
    *,
    shards: Sequence[tuple[Path, str]],
    shards_per_increment: Sequence[int] = (),
    splits: Sequence[str] = (),
    text_files: Mapping[str, str],
    manifest: Mapping[str, Any],
    find_leaks: Callable[[dict[str, str]], Sequence[tuple[str, str]]],
    mac_key: bytes,
    before_swap: Callable[[str], object] = lambda manifest_sha256: None,
) -> None:
    """Builds a corpus in a staging folder beside OUT and swaps it in: shards (source, SHA-256),
    then text files, manifest and SHA256SUMS.

    `find_leaks` gets the text files and the manifest by name and returns (file name, kind) for each
    removed value in them; LeakFound is raised if there is any. `mac_key` is that of SHA256SUMS
    (`write_mac_key`). `splits` has the split of each shard, `shards_per_increment` the number of
    shards of each increment, if there are several.

    The caller holds the lock of OUT (locks.py), so no other run builds there. `before_swap` is
    called just before the swap with the SHA-256 of manifest.json, and raises if OUT must not be
    replaced.
    """
    folder, _ = _staging_paths(out)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with translate_disk_errors(out.parent):
            suffix = "".join(shards[0][0].suffixes) if shards else ".parquet"
            named_shards = [
                (*shard, name)
                for shard, name in zip(
                    shards,
                    shard_names(shards_per_increment or [len(shards)], suffix, splits),
                    strict=True,
                )
            ]
            _build(folder, named_shards, text_files, manifest, find_leaks, mac_key)
            before_swap(file_sha256(folder / "manifest.json"))
            swap_folders(folder, out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def recover_output(out: Path) -> None:
    """Recovers from an interrupted publication: restores OUT if the swap did not finish, and
    removes the staging folders.

    The caller holds the lock of OUT.
    """
    new, old = _staging_paths(out)
    if old.exists() and not out.exists():
        old.rename(out)
        fsync(out.parent)
    for leftover in (new, old):
        shutil.rmtree(leftover, ignore_errors=True)


def _staging_paths(out: Path) -> tuple[Path, Path]:
    """The two reserved paths beside OUT: where the new output is built, and where the old one is
    moved during a swap."""
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
    # a hard link has the private mode of its source in WORK; published files get the mode that the
    # umask gives to new files
    mode = (folder / "data").stat().st_mode & 0o666
    for source, expected_sha256, name in shards:
        target = folder / "data" / name
        try:
            os.link(source, target)
        except OSError:  # WORK is on another file system
            shutil.copyfile(source, target)
        target.chmod(mode)
        if file_sha256(target) != expected_sha256:
            raise OutputBroken(
                f"{source}: does not match its record (sha256 differs); the disk may be failing."
                " Run the same command again"
            )
        fsync(target)
        failpoints.hit("publish:shard_linked")
    leaks = find_leaks(
        {**text_files, "manifest.json": json.dumps(manifest, ensure_ascii=False, default=str)}
    )
    if leaks:
        name, kind = leaks[0]
        raise LeakFound(
            f"{name} would contain a removed {kind} value, and {len(leaks) - 1} more; nothing was"
            " published"
        )
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


def shard_name(
    number: int, count: int, increment: int = 1, suffix: str = ".parquet", split: str = ""
) -> str:
    """The file name of an output shard, in the form that `datasets` expects; shards of appended
    increments have a prefix such as b0002-."""
    return f"{split or 'train'}-{f'b{increment:04d}-' if increment > 1 else ''}{number:05d}-of-{count:05d}{suffix}"  # noqa: E501


def shard_names(
    shards_per_increment: Sequence[int], suffix: str = ".parquet", splits: Sequence[str] = ()
) -> list[str]:
    """The file names of all shards, given the number of shards of each increment and the split of
    each shard (empty: there is one split). Within a split their sorted order is corpus order.
    """
    names: list[str] = []
    for increment, count in enumerate(shards_per_increment, 1):
        own_splits = splits[len(names) : len(names) + count] if splits else [""] * count
        counts, numbers = Counter(own_splits), Counter[str]()
        for split in own_splits:
            names.append(shard_name(numbers[split], counts[split], increment, suffix, split))
            numbers[split] += 1
    return names


def swap_folders(new: Path, out: Path) -> None:
    """Replaces the folder `out` by `new` with one rename, atomically where the system can exchange
    folders; deletes the old folder."""
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
    """Exchanges two folders atomically (renameat2 of Linux with RENAME_EXCHANGE); returns False if
    the system cannot."""
    if sys.platform != "linux":
        return False
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    return bool(rename(-100, os.fsencode(first), -100, os.fsencode(second), 2) == 0)


# ---- SHA256SUMS ----


def write_mac_key(run_folder: Path, key: Key) -> bytes:
    """Stores the subkey for the MAC in the run's folder in WORK, which `verify` reads without the
    run's key; returns it."""
    mac_key = key.subkey("published")
    make_private_folder(run_folder / VAULT_FOLDER)
    path = run_folder / MAC_KEY_FILE
    if read_mac_key(run_folder) != mac_key:
        write_private_lines(path, [mac_key.hex() + "\n"], overwrite=True)
    return mac_key


def read_mac_key(run_folder: Path) -> bytes | None:
    """The subkey for the MAC in the run's folder; None if it is missing or damaged."""
    try:
        text = read_regular_file(run_folder / MAC_KEY_FILE).decode("ascii")
    except (OSError, ValueError):
        return None
    # `fromhex` also reads blanks
    return bytes.fromhex(text) if re.fullmatch(r"[0-9a-f]{32}\n", text) else None


def write_checksums(folder: Path, sha256_by_name: Mapping[str, str], mac_key: bytes) -> None:
    """Writes SHA256SUMS for files of a published folder, by their names relative to it, and syncs
    it to disk."""
    lines = "".join(f"{sha256}  {name}\n" for name, sha256 in sorted(sha256_by_name.items()))
    (folder / CHECKSUMS_NAME).write_text(
        f"{lines}{_MAC_PREFIX}{_compute_mac(lines, mac_key)}\n", "utf-8"
    )
    fsync(folder / CHECKSUMS_NAME)


def require_published_manifest(folder: Path, mac_key: bytes | None) -> None:
    """Raises OutputBroken for a manifest.json, or a SHA256SUMS, that is not the one that the run
    wrote."""
    if changes := find_changed_files(folder, mac_key, only=("manifest.json",)):
        raise OutputBroken(f"{folder}: {changes[0]}; run again with --replace")


def find_changed_files(
    folder: Path, mac_key: bytes | None = None, only: Sequence[str] | None = None
) -> list[str]:
    """What differs from the published files (or from those in `only`), one clause per file; with
    `mac_key` also whether the run wrote SHA256SUMS."""
    try:
        lines, separator, mac = (
            read_regular_file(folder / CHECKSUMS_NAME).decode("utf-8").rpartition(_MAC_PREFIX)
        )
        expected = {
            name: sha256
            for sha256, _, name in (line.partition("  ") for line in lines.splitlines())
        }
    except (OSError, UnicodeDecodeError) as error:
        problem = "is missing" if isinstance(error, FileNotFoundError) else "cannot be read"
        return [f"{CHECKSUMS_NAME} {problem}, so the other files cannot be compared"]
    if not separator or (
        mac_key is not None
        and not hmac.compare_digest(mac.strip().encode(), _compute_mac(lines, mac_key).encode())
    ):
        return [
            f"{CHECKSUMS_NAME} is not the file that was published (its MAC differs), so the other"
            " files cannot be compared"
        ]
    changes = []
    for name, sha256 in expected.items():
        try:
            if (only is None or name in only) and file_sha256(folder / name) != sha256:
                changes.append(f"{name} is not the file that was published (sha256 differs)")
        except OSError as error:
            changes.append(
                f"{name}"
                f" {'is missing' if isinstance(error, FileNotFoundError) else 'cannot be read'}"
            )
    return changes


def _compute_mac(lines: str, mac_key: bytes) -> str:
    return hashlib.blake2b(lines.encode(), key=mac_key, digest_size=32).hexdigest()
