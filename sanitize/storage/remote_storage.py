"""URLs: what they may say, and the storage behind them, through fsspec, with every trouble as one clear error.

A call that fails for a reason that may pass is tried again; then it is a `ResourceError`, which the same command resumes from. Messages
say the kind of trouble and the place without what may be secret in it (user, query); what a library says is never passed on, it may
quote a credential.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

from sanitize.errors import InputRefused, MissingExtra, ResourceError, SanitizeError, UsageError, nearest
from sanitize.storage.disk_errors import no_url

T = TypeVar("T")

TRIES = 3
PAUSE = 0.5  # seconds before the second try; twice as long before the third
BLOCK = 8 << 20
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_PACKAGES = {
    **dict.fromkeys(("s3", "s3a"), "s3fs"),
    **dict.fromkeys(("gs", "gcs"), "gcsfs"),
    **dict.fromkeys(("az", "abfs", "abfss", "adl"), "adlfs"),
    **dict.fromkeys(("http", "https"), "aiohttp"),
}
_LOGIN = {
    "s3fs": "the AWS_* variables, ~/.aws or the role of the machine",
    "gcsfs": "GOOGLE_APPLICATION_CREDENTIALS or `gcloud auth application-default login`",
    "adlfs": "the AZURE_STORAGE_* variables",
}
# what libraries raise where nobody is logged in; their modules are not loaded before they are needed
_NO_LOGIN = {"NoCredentialsError", "PartialCredentialsError", "TokenRetrievalError", "DefaultCredentialsError", "ClientAuthenticationError"}
_STATE = ("ETag", "etag", "generation", "VersionId"), ("LastModified", "last_modified", "updated", "mtime", "modified", "created")


def is_url(place: object) -> bool:
    """True for `s3://...` and its like; a path never is."""
    return isinstance(place, str) and _URL.match(place) is not None


def local_path(place: str | Path) -> Path:
    """The path that somebody named; UsageError where it is a URL, which as a path would be a folder called `s3:`."""
    if is_url(place):
        raise UsageError(
            f"{shown(str(place))}: is a URL, and a place on this machine is expected here; INPUT and OUT of `sanitize run` may be URLs, "
            "and OUT of `sanitize verify`"
        )
    return no_url(place)


def shown(url: str) -> str:
    """A URL as it may be printed and stored: without user, password, query and fragment (a container of Azure stays)."""
    parts = urlsplit(url)
    host = parts.netloc
    if "@" in host:
        user, _, behind = host.rpartition("@")
        host = f"{user}@{behind}" if parts.scheme.lower() in ("abfs", "abfss") and ":" not in user else behind
    return urlunsplit((parts.scheme.lower(), host, parts.path, "", ""))


def checked(url: str) -> str:
    """The URL, or UsageError where it holds a password or chains file systems."""
    parts = urlsplit(url)
    secret = parts.password is not None or ("@" in parts.netloc and parts.scheme.lower() in ("s3", "s3a", "gs", "gcs"))
    if secret:
        raise UsageError(
            f"{shown(url)}: the URL holds credentials, which end in shell histories and process lists; take them out and use "
            f"{_LOGIN.get(_PACKAGES.get(parts.scheme.lower(), ''), 'the settings of the storage’s own tools')}"
        )
    if "::" in url:
        raise UsageError(f"{shown(url)}: chained file systems (::) are not read; name the files themselves")
    return url


class Missing(Exception):
    """There is no such object."""


@dataclass(frozen=True, kw_only=True)
class Object:
    """An object of a storage: its path there, its bytes (None where the storage does not say) and what changes when it is written anew."""

    path: str
    size: int | None
    state: Mapping[str, str]


class Storage:
    """One storage and a place in it. `output` decides whose mistake a refusal is."""

    def __init__(self, url: str, *, output: bool = False) -> None:
        self.url, self.shown, self._output = checked(url), shown(url), output
        self.scheme = urlsplit(url).scheme.lower()
        try:
            from fsspec.asyn import AsyncFileSystem
            from fsspec.core import url_to_fs
            from fsspec.registry import available_protocols
        except ImportError:
            raise MissingExtra("fsspec", "remote") from None
        package = _PACKAGES.get(self.scheme, "")
        try:
            # no instance and no listing of before: what is there now counts
            self.fs, path = url_to_fs(url, skip_instance_cache=True, use_listings_cache=False)
        except ImportError:
            if package:
                raise MissingExtra(package, "remote") from None
            raise UsageError(f"{self.shown}: what fsspec needs for {self.scheme}:// is not installed; see its documentation") from None
        except ValueError:
            known = [*_PACKAGES, "file", "memory"]
            if self.scheme in available_protocols():
                raise UsageError(f"{self.shown}: is not a URL that {self.scheme}:// can have") from None
            raise UsageError(f"{self.shown}: there is no storage {self.scheme}://; {nearest(self.scheme, known)}") from None
        except Exception as error:
            raise self._trouble(error) from None
        self.path = str(path).rstrip("/")
        self.objects = isinstance(self.fs, AsyncFileSystem)  # has no folders, and a write is seen whole or not at all

    def at(self, *parts: str) -> str:
        """A path below the place."""
        return "/".join([self.path, *parts])

    # ---- what is there ----

    def info(self, path: str) -> dict[str, Any]:
        """What the storage says of an object or folder; Missing where there is none."""

        def ask() -> dict[str, Any]:
            self.fs.invalidate_cache()
            return dict(self.fs.info(path))

        return self.tried(ask)

    def object(self, path: str) -> Object:
        """An object; Missing where there is none, or a folder."""
        said = self.info(path)
        if said.get("type") == "directory":
            raise Missing
        return _object(path, said)

    def files(self, path: str) -> list[Object]:
        """All objects below a path, bytewise by path; marks of folders are none. A listing may lag: `object` says how each is now."""

        def ask() -> dict[str, Any]:
            self.fs.invalidate_cache()
            return dict(self.fs.find(path, detail=True))

        try:
            found = self.tried(ask)
        except Missing:
            return []
        inside = path.rstrip("/") + "/"
        objects = [_object(name, said) for name, said in found.items() if said.get("type") != "directory" and not name.endswith("/")]
        return sorted((one for one in objects if one.path.startswith(inside)), key=lambda one: one.path.encode("utf-8", "surrogatepass"))

    def matching(self, pattern: str) -> list[str]:
        """The paths of objects and folders that a pattern names, bytewise."""

        def ask() -> list[str]:
            self.fs.invalidate_cache()
            return [str(path) for path in self.fs.glob(pattern)]

        try:
            return sorted(self.tried(ask), key=lambda path: path.encode("utf-8", "surrogatepass"))
        except Missing:
            return []

    # ---- reading ----

    def read(self, path: str) -> bytes:
        """The bytes of a small object; Missing where there is none."""
        return self.tried(lambda: bytes(self.fs.cat_file(path)))

    def get(self, one: Object, to: Path) -> None:
        """An object as a local file, with as many bytes as it was said to have."""

        def fetch() -> None:
            to.unlink(missing_ok=True)
            self.fs.get_file(one.path, str(to))
            if one.size is not None and to.stat().st_size != one.size:
                raise EOFError

        self.tried(fetch)

    def digest(self, path: str) -> str:
        """The sha256 of an object, read through."""

        def ask() -> str:
            total = hashlib.sha256()
            with self.fs.open(path, "rb", block_size=BLOCK, cache_type="readahead") as file:
                while part := file.read(BLOCK):
                    total.update(part)
            return total.hexdigest()

        return self.tried(ask)

    # ---- writing ----

    def put(self, file: Path, path: str, sha256: str) -> None:
        """A local file as an object, unless it is there; looked at again: its size, and its checksum or else all its bytes."""
        if self._same(file, path, sha256):
            return

        def send() -> None:
            self._folder(path)
            self.fs.put_file(str(file), path)
            if not self._same(file, path, sha256):
                raise EOFError

        self.tried(send)

    def copy(self, source: str, path: str) -> None:
        """An object as another, without it coming here; nothing where that fails, as `put` then brings it."""
        with contextlib.suppress(Exception):
            self._folder(path)
            self.fs.cp_file(source, path)

    def _same(self, file: Path, path: str, sha256: str) -> bool:
        try:
            said = self.info(path)
            if said.get("type") == "directory" or said.get("size") != file.stat().st_size:
                return False
            with file.open("rb") as stream:
                known = hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
            if str(said.get("ETag", "")).strip('"').lower() == known:  # S3's tag of an object in one part; else it says nothing
                return True
            return self.digest(path) == sha256
        except Missing:
            return False

    def create(self, path: str, data: bytes) -> bool:
        """Write an object that is not there yet; False where somebody else's is. Atomic where the storage has a conditional put."""

        def send() -> bool:
            self._folder(path)
            try:
                self.fs.pipe_file(path, data, mode="create")
            except FileExistsError:
                return self.read(path) == data  # an answer that was lost on its way
            if self.read(path) != data:
                self.fs.rm(path)
                raise EOFError
            return True

        return self.tried(send)

    def write(self, path: str, data: bytes) -> None:
        """Write a small object, in place of one that is there; seen whole or not at all."""

        def send() -> None:
            self._folder(path)
            aside = path if self.objects else f"{path}.tmp"
            self.fs.pipe_file(aside, data)
            if self.read(aside) != data:
                raise EOFError
            if not self.objects:
                self.fs.mv(aside, path)

        self.tried(send)

    def remove(self, path: str) -> None:
        """Take an object or a folder away; nothing where it is gone."""

        def take() -> None:
            self.fs.rm(path, recursive=True)

        try:
            self.info(path)
            self.tried(take)
        except Missing:
            pass

    def _folder(self, path: str) -> None:
        if not self.objects:
            self.fs.makedirs(path.rpartition("/")[0], exist_ok=True)

    # ---- trouble ----

    def tried(self, call: Callable[[], T]) -> T:
        """What a call gives, tried again where its failure may pass."""
        for again in range(TRIES):
            try:
                return call()
            except (SanitizeError, Missing, MemoryError):
                raise
            except FileNotFoundError:
                raise Missing from None
            except Exception as error:
                final = isinstance(error, PermissionError) or type(error).__name__ in _NO_LOGIN or _status(error) in (401, 403)
                if final or again == TRIES - 1:
                    raise self._trouble(error) from None
            time.sleep(PAUSE * 2**again)
        raise AssertionError("a last try ends in a return or a raise")

    def _trouble(self, error: Exception) -> SanitizeError:
        kind = type(error).__name__
        login = _LOGIN.get(_PACKAGES.get(self.scheme, ""), "the settings of the storage's own tools")
        if kind in _NO_LOGIN:
            return UsageError(f"{self.shown}: nobody is logged in to {self.scheme}:// ({kind}); use {login}")
        if isinstance(error, PermissionError) or _status(error) in (401, 403):
            refused: type[SanitizeError] = UsageError if self._output else InputRefused
            what = "written" if self._output else "read"
            return refused(f"{self.shown}: may not be {what} by who is logged in ({kind}); ask for access, or log in with {login}")
        return ResourceError(
            f"{self.shown}: the storage failed {TRIES} times ({kind}); what is done is kept. Run the same command again to go on"
        )


def _status(error: Exception) -> int | None:
    """The HTTP status behind an error, where it has one."""
    found = getattr(error, "status", None) or getattr(error, "status_code", None) or getattr(error, "code", None)
    return int(found) if isinstance(found, int) or (isinstance(found, str) and found.isdecimal()) else None


def _object(path: str, said: Mapping[str, Any]) -> Object:
    for names in _STATE:  # a tag of the content says more than a time
        state = {name: str(said[name]) for name in names if said.get(name) is not None}
        if state:
            break
    size = said.get("size")
    return Object(path=path, size=None if size is None else int(size), state=state)
