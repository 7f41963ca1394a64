"""SHA256SUMS of a published folder: the SHA-256 of every file in it, and a MAC over these lines.

`sha256sum -c SHA256SUMS` compares the files with the plain hashes, which detect accidents only: who edits a file can write its hash too.
The last line, a comment to sha256sum, has the MAC: a keyed BLAKE2b under a subkey of the run's key, which is kept in the run's folder in
WORK. The file lies in OUT, so it is published, moved and uploaded with the files that it covers.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from pathlib import Path

from sanitize.core.keys import Key
from sanitize.storage.files import file_sha256, fsync, write_private_lines
from sanitize.storage.private_folder import make_private_folder

CHECKSUMS_NAME = "SHA256SUMS"
_MAC_PREFIX = "# MAC under the key of the private folder (BLAKE2b): "


def write_mac_key(run_folder: Path, key: Key) -> bytes:
    """Stores the subkey for the MAC in the run's folder in WORK, which `verify` reads without the run's key; returns it."""
    mac_key = key.subkey("published")
    path = make_private_folder(run_folder / "vault") / "published_key"
    if read_mac_key(run_folder) != mac_key:
        write_private_lines(path, [mac_key.hex() + "\n"], overwrite=True)
    return mac_key


def read_mac_key(run_folder: Path) -> bytes | None:
    """The subkey for the MAC in the run's folder; None if it is missing or damaged."""
    try:
        mac_key = bytes.fromhex((run_folder / "vault" / "published_key").read_text("ascii"))
    except (OSError, ValueError):
        return None
    return mac_key if len(mac_key) == 16 else None


def write_checksums(folder: Path, sha256_by_name: Mapping[str, str], mac_key: bytes) -> None:
    """Writes SHA256SUMS for files of a published folder, by their names relative to it, and syncs it to disk."""
    lines = "".join(f"{sha256}  {name}\n" for name, sha256 in sorted(sha256_by_name.items()))
    (folder / CHECKSUMS_NAME).write_text(f"{lines}{_MAC_PREFIX}{_compute_mac(lines, mac_key)}\n", "utf-8")
    fsync(folder / CHECKSUMS_NAME)


def find_changed_files(folder: Path, mac_key: bytes | None = None) -> list[str]:
    """What differs from the published files, one clause per file; with `mac_key` also whether the run wrote SHA256SUMS."""
    try:
        lines, separator, mac = (folder / CHECKSUMS_NAME).read_text("utf-8").rpartition(_MAC_PREFIX)
        expected = {name: sha256 for sha256, _, name in (line.partition("  ") for line in lines.splitlines())}
    except (OSError, UnicodeDecodeError) as error:
        problem = "is missing" if isinstance(error, FileNotFoundError) else "cannot be read"
        return [f"{CHECKSUMS_NAME} {problem}, so the other files cannot be compared"]
    if not separator or (mac_key is not None and not hmac.compare_digest(mac.strip().encode(), _compute_mac(lines, mac_key).encode())):
        return [f"{CHECKSUMS_NAME} is not the file that was published (its MAC differs), so the other files cannot be compared"]
    changes = []
    for name, sha256 in expected.items():
        try:
            if file_sha256(folder / name) != sha256:
                changes.append(f"{name} is not the file that was published (sha256 differs)")
        except OSError as error:
            changes.append(f"{name} {'is missing' if isinstance(error, FileNotFoundError) else 'cannot be read'}")
    return changes


def _compute_mac(lines: str, mac_key: bytes) -> str:
    return hashlib.blake2b(lines.encode(), key=mac_key, digest_size=32).hexdigest()
