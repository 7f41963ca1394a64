"""An OUT at a URL: versions of a corpus that are uploaded first and then published by one write of
the manifest, without a rename.

    OUT/versions/<hash>/...   a complete corpus, as in a local OUT; the folder name is a hash of its
                              files
    OUT/manifest.json         written last, in one put: the manifest, with `version` and paths into
                              that version

Readers start at OUT/manifest.json and see either the complete old version or the complete new one.
A run first builds the corpus in WORK/remote, all checks included. An interrupted upload leaves
objects that nothing refers to; the next upload uses or removes them. The object OUT/sanitize.lock
marks the run that is publishing; on a storage without conditional put the lock is advisory only.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sanitize.errors import Locked, OutputBroken, UsageError
from sanitize.storage import private_folder
from sanitize.storage.corpus import Corpus, with_run_hash
from sanitize.storage.files import file_sha256, parse_json
from sanitize.storage.remote_storage import (
    ObjectMissing,
    RemoteStorage,
    is_url,
    redact_url,
    require_local_path,
)
from sanitize.storage.task_records import hash_json

LOCK_NAME, MANIFEST_NAME, VERSIONS_FOLDER = "sanitize.lock", "manifest.json", "versions"


def require_workspace(work: object, out: str) -> Path:
    """The WORK folder for a remote OUT. Raises UsageError if it is not given, or is a URL."""
    if work is None:
        raise UsageError(
            f"{redact_url(out)}: OUT is a URL, so the private folder must be named too (--work DIR,"
            " on this machine): it contains original values, and nothing private is written beside"
            " a remote OUT"
        )
    return workspace_path(work)


def workspace_path(work: object, out: object = None) -> Path:
    """WORK as a path, by default OUT with .private appended. Raises UsageError for a URL."""
    work = work or f"{Path(str(out))}.private"
    if is_url(work):
        raise UsageError(
            f"{redact_url(str(work))}: WORK contains the key and original values, and needs the"
            " locks and permissions of a file system; use a folder on this machine (--work DIR)"
        )
    return require_local_path(str(work))


def check_urls_disjoint(inputs: Sequence[Path | str], out: str) -> None:
    """Raises UsageError if OUT is inside an input URL or contains one: the next run would read the
    output of this one."""
    out_prefix = redact_url(out).rstrip("/") + "/"
    for location in inputs:
        if is_url(location):
            # of a glob pattern the folders before the first pattern
            input_prefix = (
                re.split(r"[^/]*[*?\[]", redact_url(str(location)), maxsplit=1)[0].rstrip("/") + "/"
            )
            if out_prefix.startswith(input_prefix) or input_prefix.startswith(out_prefix):
                raise UsageError(
                    f"OUT (-o) {redact_url(out)} and the input {redact_url(str(location))} lie"
                    " inside each other; use a location beside it"
                )


def mirror_path(work: Path, out: str) -> Path:
    """The folder in WORK in which the corpus of a remote OUT is built."""
    return work / private_folder.REMOTE_FOLDER / hash_json(redact_url(out))[:16]


class RemoteOutput:
    """A remote OUT: read, lock, publish and download. All writes must be inside `with
    output.hold_lock(work):`."""

    def __init__(self, url: str) -> None:
        self.storage = RemoteStorage(url.rstrip("/"), is_output=True)
        self.redacted_url = self.storage.redacted_url
        self._manifest_bytes: bytes | None = None
        self._lock_token = b""

    def read_manifest(self) -> dict[str, Any] | None:
        """The present OUT/manifest.json; None if it does not exist. Raises UsageError if sanitize
        did not write it."""
        try:
            raw = self.storage.read(self.storage.join_path(MANIFEST_NAME))
        except ObjectMissing:
            self._manifest_bytes = None
            return None
        self._manifest_bytes = raw
        try:
            manifest = dict(parse_json(raw))
            hashes = [file["sha256"] for file in manifest["files"].values()]
            if not all(isinstance(word, str) for word in [manifest["version"], *hashes]):
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UsageError(
                f"{self.redacted_url}: has a manifest.json that sanitize did not write there; use"
                " another -o"
            ) from None
        return manifest

    @contextlib.contextmanager
    def hold_lock(self, work: Path) -> Iterator[None]:
        """Holds the lock of OUT. A lock that an earlier run of this WORK left is taken over: the
        caller holds WORK's lock, so it has ended.

        Raises `Locked` if a run with another WORK holds it.
        """
        owner_file = (
            private_folder.make_private_folder(work / private_folder.REMOTE_FOLDER) / "owner"
        )
        if not owner_file.exists():
            owner_file.write_text(os.urandom(16).hex(), "ascii")
        owner, lock = hash_json(owner_file.read_text("ascii")), self.storage.join_path(LOCK_NAME)
        self._lock_token = json.dumps(
            {"owner": owner, "run": os.urandom(8).hex(), "since": int(time.time())}
        ).encode()
        if not self.storage.create(lock, self._lock_token):
            try:
                holder = parse_json(self.storage.read(lock))
            except (ObjectMissing, ValueError):
                holder = {}
            holder = holder if isinstance(holder, dict) else {}
            if holder.get("owner") != owner:
                since = holder.get("since")
                age = (
                    f"{max(0, int(time.time()) - since)} s"
                    if isinstance(since, int)
                    else "some time"
                )
                raise Locked(
                    f"{self.redacted_url}: another run has been publishing here for {age}; wait"
                    f" until it ends, or, if it has ended, remove the object {LOCK_NAME}"
                )
            self.storage.write(lock, self._lock_token)
        try:
            yield
        finally:
            with contextlib.suppress(Exception):
                # a lock that cannot be removed is reported by the next run
                if self.storage.read(lock) == self._lock_token:
                    self.storage.remove(lock)

    def check_replaceable(self, run_hash: str, replace: bool) -> None:
        """Raises UsageError, before any work is done, if OUT contains something else that may not
        be replaced."""
        manifest = self.read_manifest()
        if manifest is None:
            # objects that sanitize did not write
            others = [
                found
                for found in self.storage.list_objects(self.storage.path)
                if not self._is_own_object(found.path)
            ]
            if others:
                raise UsageError(
                    f"{self.redacted_url}: contains {len(others)} objects that sanitize did not"
                    " write; use another -o, or move them"
                )
        elif with_run_hash(manifest).get("run_hash") != run_hash and not replace:
            raise UsageError(
                f"{self.redacted_url}: was made from another input, by another plan, or with other"
                " settings; use --replace to replace it when the new output is complete, or use"
                " another -o"
            )

    def _is_own_object(self, path: str) -> bool:
        return path[len(self.storage.path) + 1 :].startswith(
            (f"{VERSIONS_FOLDER}/", LOCK_NAME, f"{MANIFEST_NAME}.tmp")
        )

    def publish(
        self, folder: Path, *, keep_versions: bool, before_switch: Callable[[], object]
    ) -> bool:
        """Uploads a corpus and makes it the present version; returns False if it was the present
        version already.

        `before_switch` is called just before the manifest is written, and may raise.
        `keep_versions` keeps older complete versions.
        """
        version, files = _name_version(folder)
        previous = self.read_manifest()
        same = (
            previous is not None and previous["version"] == version and previous["files"] == files
        )
        published_paths = (  # SHA-256 -> path of a file of the previous version
            {
                file["sha256"]: self.storage.join_path(VERSIONS_FOLDER, previous["version"], name)
                for name, file in previous["files"].items()
            }
            if previous
            else {}
        )
        # the manifest of the version is uploaded last: a version that has one is complete
        for name in sorted(files, key=lambda name: (name == MANIFEST_NAME, name)):
            if not same and files[name]["sha256"] in published_paths:
                # unchanged by an append or an erasure: copied within the storage
                self.storage.copy(
                    published_paths[files[name]["sha256"]],
                    self.storage.join_path(VERSIONS_FOLDER, version, name),
                )
            self.storage.upload(
                folder / name,
                self.storage.join_path(VERSIONS_FOLDER, version, name),
                files[name]["sha256"],
            )
        if not same:
            manifest = _top_manifest(Corpus.open(folder).manifest, version, files)
            self._switch_version(
                json.dumps(manifest, sort_keys=True, ensure_ascii=False, indent=1).encode() + b"\n",
                before_switch,
            )
        self._remove_stale_versions(version, keep_versions)
        return not same

    def _switch_version(self, data: bytes, before_switch: Callable[[], object]) -> None:
        """Writes OUT/manifest.json. Raises `Locked` if it changed since it was read, or if the lock
        is lost."""
        before_switch()
        seen, lock = self._manifest_bytes, self.storage.join_path(LOCK_NAME)
        self.read_manifest()
        try:
            holds_lock = self.storage.read(lock) == self._lock_token
        except ObjectMissing:
            holds_lock = False
        if self._manifest_bytes != seen or not holds_lock:
            raise Locked(
                f"{self.redacted_url}: another run published here meanwhile; nothing was changed."
                " Run the same command again"
            )
        # the first manifest is created only if none exists, in one conditional put where the
        # storage has it
        if seen is not None or not self.storage.is_object_store:
            self.storage.write(self.storage.join_path(MANIFEST_NAME), data)
        elif not self.storage.create(self.storage.join_path(MANIFEST_NAME), data):
            raise Locked(
                f"{self.redacted_url}: another run published here meanwhile; nothing was changed."
                " Run the same command again"
            )

    def _remove_stale_versions(self, version: str, keep_versions: bool) -> None:
        """Removes versions that nothing refers to: all others, or with `keep_versions` only those
        that never became complete."""
        base = self.storage.join_path(VERSIONS_FOLDER) + "/"
        files_by_version: dict[str, set[str]] = {}
        for found in self.storage.list_objects(self.storage.join_path(VERSIONS_FOLDER)):
            name, _, rest = found.path[len(base) :].partition("/")
            files_by_version.setdefault(name, set()).add(rest)
        for name, files in files_by_version.items():
            if name != version and not (keep_versions and MANIFEST_NAME in files):
                self.storage.remove(base + name)

    @contextlib.contextmanager
    def download_corpus(self, folder: Path) -> Iterator[Path]:
        """Downloads the published corpus into `folder` and yields it. Raises OutputBroken if an
        object does not match the manifest."""
        manifest = self.read_manifest()
        if manifest is None:
            raise OutputBroken(
                f"{self.redacted_url}: no manifest.json; expected a location that `sanitize run`"
                " published to"
            )
        base = self.storage.join_path(VERSIONS_FOLDER, manifest["version"])
        listed = {found.path[len(base) + 1 :] for found in self.storage.list_objects(base)}
        for name in sorted(listed - manifest["files"].keys()):
            number = sorted(listed).index(name) + 1
            raise OutputBroken(
                f"{self.redacted_url}: object {number} of version {manifest['version']} is not in"
                " the manifest; remove it"
            )
        for name, known in manifest["files"].items():
            target = folder / name
            if not target.resolve().is_relative_to(folder.resolve()):
                raise OutputBroken(
                    f"{self.redacted_url}: the manifest names a file outside its version; run again"
                    " with --replace"
                )
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                self.storage.download(self.storage.stat_object(f"{base}/{name}"), target)
            except ObjectMissing:
                raise OutputBroken(
                    f"{self.redacted_url}: {name} of version {manifest['version']} is missing; run"
                    " again with --replace"
                ) from None
            if file_sha256(target) != known["sha256"]:
                raise OutputBroken(
                    f"{self.redacted_url}: {name} is not the file that was published (sha256"
                    " differs); run again with --replace"
                )
        if manifest != _top_manifest(
            Corpus.open(folder).manifest, manifest["version"], manifest["files"]
        ):
            raise OutputBroken(
                f"{self.redacted_url}: manifest.json differs from that of its version; run again"
                " with --replace"
            )
        yield folder


def _name_version(folder: Path) -> tuple[str, dict[str, dict[str, Any]]]:
    """The version name of a corpus (a hash of its files), and its files: relative path -> size and
    SHA-256."""
    files = {
        path.relative_to(folder).as_posix(): {
            "bytes": path.stat().st_size,
            "sha256": file_sha256(path),
        }
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    return hash_json(files)[:16], files


def _top_manifest(
    manifest: Mapping[str, Any], version: str, files: Mapping[str, Any]
) -> dict[str, Any]:
    """OUT/manifest.json: the manifest of the version, with paths relative to OUT, `version` and
    `files`."""
    prefix = f"{VERSIONS_FOLDER}/{version}/"
    top = {**manifest, "version": version, "files": dict(files)}
    top["shards"] = [{**shard, "path": prefix + shard["path"]} for shard in manifest["shards"]]
    if "sidecar_files" in manifest:
        top["sidecar_files"] = {
            prefix + name: sha256 for name, sha256 in manifest["sidecar_files"].items()
        }
    return top
