"""OUT at a URL: published without a rename.

    OUT/versions/<hash>/...   a whole corpus, as a local OUT has it, under a name that follows from its bytes
    OUT/manifest.json         written last, in one put: the manifest, with `version` and paths into it

Readers go through OUT/manifest.json and see the whole old version or the whole new one. A run makes the corpus in WORK/remote first, all
checks included; a stopped upload leaves objects that nothing refers to, which the next one uses or takes away. While one run publishes,
OUT/sanitize.storage.locks is its; where the storage has no conditional put, the lock is advice.
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
from sanitize.storage import vault
from sanitize.storage.corpus import Corpus, sha256
from sanitize.storage.publication import hashed
from sanitize.storage.remote_storage import Missing, Storage, is_url, local_path, shown

LOCK, MANIFEST, VERSIONS = "sanitize.storage.locks", "manifest.json", "versions"


def local(work: object, out: str) -> Path:
    """WORK for a remote OUT: named, and a local folder."""
    if work is None:
        raise UsageError(
            f"{shown(out)}: OUT is a URL, so name the private folder too (--work DIR, on this machine): "
            "original values lie there, and nothing private is put beside a remote OUT"
        )
    return here(work)


def here(work: object, out: object = None) -> Path:
    """WORK as a path, by default the private folder beside OUT; UsageError for a URL."""
    work = work or f"{Path(str(out))}.private"
    if is_url(work):
        raise UsageError(
            f"{shown(str(work))}: WORK holds the key and original values, and its locks and permissions are those of a file system; "
            "take a folder on this machine (--work DIR)"
        )
    return local_path(str(work))


def apart(inputs: Sequence[Path | str], out: str) -> None:
    """Refuse an OUT that an input at a URL lies in, or that lies in one: the next run would read what this one made."""
    mine = shown(out).rstrip("/") + "/"
    for one in inputs:
        if is_url(one):
            theirs = re.split(r"[^/]*[*?\[]", shown(str(one)), maxsplit=1)[0].rstrip("/") + "/"
            if mine.startswith(theirs) or theirs.startswith(mine):
                raise UsageError(f"OUT (-o) {shown(out)} and the input {shown(str(one))} lie inside each other; take a place beside it")


def mirror(work: Path, out: str) -> Path:
    """Where the corpus of a remote OUT stands in WORK."""
    return work / "remote" / hashed(shown(out))[:16]


class Prefix:
    """A remote OUT. `with prefix.held(work):` for all that writes."""

    def __init__(self, url: str) -> None:
        self.storage = Storage(url.rstrip("/"), output=True)
        self.shown = self.storage.shown
        self._before: bytes | None = None
        self._token = b""

    def pointer(self) -> dict[str, Any] | None:
        """OUT/manifest.json as it is now; None where there is none. UsageError where it is not ours."""
        try:
            raw = self.storage.read(self.storage.at(MANIFEST))
        except Missing:
            self._before = None
            return None
        self._before = raw
        try:
            said = dict(json.loads(raw))
            hashes = [one["sha256"] for one in said["files"].values()]
            if not all(isinstance(word, str) for word in [said["version"], *hashes]):
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UsageError(f"{self.shown}: has a manifest.json that sanitize did not write there; take another -o") from None
        return said

    @contextlib.contextmanager
    def held(self, work: Path) -> Iterator[None]:
        """OUT's lock. One that an earlier run of this WORK left is taken over: WORK's own lock is held, so that run is over."""
        mine = vault.private(work / "remote") / "owner"
        if not mine.exists():
            mine.write_text(os.urandom(16).hex(), "ascii")
        owner, lock = hashed(mine.read_text("ascii")), self.storage.at(LOCK)
        self._token = json.dumps({"owner": owner, "run": os.urandom(8).hex(), "since": int(time.time())}).encode()
        if not self.storage.create(lock, self._token):
            try:
                said = json.loads(self.storage.read(lock))
            except (Missing, ValueError):
                said = {}
            said = said if isinstance(said, dict) else {}
            if said.get("owner") != owner:
                since = said.get("since")
                age = f"{max(0, int(time.time()) - since)} s" if isinstance(since, int) else "some time"
                raise Locked(
                    f"{self.shown}: another run has been publishing here for {age}; wait for it, or, if it is over, "
                    f"take away the object {LOCK}"
                )
            self.storage.write(lock, self._token)
        try:
            yield
        finally:
            with contextlib.suppress(Exception):  # what is left is told to the next run
                if self.storage.read(lock) == self._token:
                    self.storage.remove(lock)

    def may_hold(self, plan_hash: str, replace: bool) -> None:
        """UsageError where something else stands there, before any work is done."""
        said = self.pointer()
        if said is None:
            # an object that is not ours, or a mark of a folder that is
            others = [one for one in self.storage.files(self.storage.path) if not self._ours(one.path)]
            if others:
                raise UsageError(f"{self.shown}: holds {len(others)} objects and was not made by sanitize; take another -o, or move them")
        elif said.get("plan_hash") != plan_hash and not replace:
            raise UsageError(
                f"{self.shown}: was made of another input, by another plan, or with other settings; "
                "use --replace to put the new one in its place when that is whole, or take another -o"
            )

    def _ours(self, path: str) -> bool:
        return path[len(self.storage.path) + 1 :].startswith((f"{VERSIONS}/", LOCK, f"{MANIFEST}.tmp"))

    def publish(self, folder: Path, *, keep: bool, still: Callable[[], object]) -> bool:
        """Upload a corpus and point at it; False where it stood there already. `still` is asked just before the last put."""
        version, files = _version(folder)
        before = self.pointer()
        same = before is not None and before["version"] == version and before["files"] == files
        stood = (
            {one["sha256"]: self.storage.at(VERSIONS, before["version"], name) for name, one in before["files"].items()} if before else {}
        )
        # a corpus's own manifest comes last: a version that has one is whole
        for name in sorted(files, key=lambda name: (name == MANIFEST, name)):
            if not same and files[name]["sha256"] in stood:  # what an append or an erasure left alone is copied over there
                self.storage.copy(stood[files[name]["sha256"]], self.storage.at(VERSIONS, version, name))
            self.storage.put(folder / name, self.storage.at(VERSIONS, version, name), files[name]["sha256"])
        if not same:
            said = _pointing(Corpus.open(folder).manifest, version, files)
            self._switch(json.dumps(said, sort_keys=True, ensure_ascii=False, indent=1).encode() + b"\n", still)
        self._clear(version, keep)
        return not same

    def _switch(self, data: bytes, still: Callable[[], object]) -> None:
        still()
        seen, lock = self._before, self.storage.at(LOCK)
        self.pointer()
        try:
            mine = self.storage.read(lock) == self._token
        except Missing:
            mine = False
        if self._before != seen or not mine:
            raise Locked(f"{self.shown}: another run published here meanwhile; nothing was changed. Run the same command again")
        # the first one only where there is none, as far as the storage can say so in one step
        if seen is not None or not self.storage.objects:
            self.storage.write(self.storage.at(MANIFEST), data)
        elif not self.storage.create(self.storage.at(MANIFEST), data):
            raise Locked(f"{self.shown}: another run published here meanwhile; nothing was changed. Run the same command again")

    def _clear(self, version: str, keep: bool) -> None:
        """Take away what nothing refers to: other versions, or with `keep` only those that never became whole."""
        base = self.storage.at(VERSIONS) + "/"
        there: dict[str, set[str]] = {}
        for one in self.storage.files(self.storage.at(VERSIONS)):
            name, _, rest = one.path[len(base) :].partition("/")
            there.setdefault(name, set()).add(rest)
        for name, files in there.items():
            if name != version and not (keep and MANIFEST in files):
                self.storage.remove(base + name)

    @contextlib.contextmanager
    def fetched(self, folder: Path) -> Iterator[Path]:
        """The published corpus as a local folder for a look at it; OutputBroken where an object is not what the manifest says."""
        said = self.pointer()
        if said is None:
            raise OutputBroken(f"{self.shown}: no manifest.json; expected a place that `sanitize run` published to")
        base = self.storage.at(VERSIONS, said["version"])
        listed = {one.path[len(base) + 1 :] for one in self.storage.files(base)}
        for name in sorted(listed - said["files"].keys()):
            number = sorted(listed).index(name) + 1
            raise OutputBroken(f"{self.shown}: object {number} of version {said['version']} is not in the manifest; take it away")
        for name, known in said["files"].items():
            to = folder / name
            if not to.resolve().is_relative_to(folder.resolve()):
                raise OutputBroken(f"{self.shown}: the manifest names a file outside of its version")
            to.parent.mkdir(parents=True, exist_ok=True)
            try:
                self.storage.get(self.storage.object(f"{base}/{name}"), to)
            except Missing:
                raise OutputBroken(f"{self.shown}: {name} of version {said['version']} is missing; run again with --replace") from None
            if sha256(to) != known["sha256"]:
                raise OutputBroken(f"{self.shown}: {name} is not the file that was published (sha256 differs); run again with --replace")
        if said.get("shards") != _pointing(Corpus.open(folder).manifest, said["version"], said["files"])["shards"]:
            raise OutputBroken(f"{self.shown}: manifest.json names other shards than its version; run again with --replace")
        yield folder


def _version(folder: Path) -> tuple[str, dict[str, dict[str, Any]]]:
    """The name of a corpus, which follows from its bytes, and its files."""
    files = {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": sha256(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    return hashed(files)[:16], files


def _pointing(manifest: Mapping[str, Any], version: str, files: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest at the top: that of the version, with paths from there."""
    inside = f"{VERSIONS}/{version}/"
    said = {**manifest, "version": version, "files": dict(files)}
    said["shards"] = [{**one, "path": inside + one["path"]} for one in manifest["shards"]]
    if "beside" in manifest:
        said["beside"] = {inside + name: known for name, known in manifest["beside"].items()}
    return said
