"""Remote storage at a URL, through fsspec: list, read, upload and remove objects, with retries and
clear errors; checks of URLs.

A call that fails for a reason that may be temporary is tried again, up to `MAX_TRIES` times; then
`RemoteUnavailable` is raised, and the same command can resume. Messages contain the type of the
error and the URL without its possibly secret pieces (user, query). The message of a library is
never passed on, because it may quote a credential.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

from sanitize.errors import (
    InputRefused,
    MissingExtra,
    RemoteUnavailable,
    SanitizeError,
    UsageError,
    suggest_names,
)
from sanitize.storage.disk_errors import avoid_url_syntax, make_disk_error

T = TypeVar("T")

MAX_TRIES = 3
RETRY_SECONDS = 0.5  # seconds before the second try; twice as long before the third
BLOCK_BYTES = 8 << 20
_WRITE_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_PACKAGES = {
    **dict.fromkeys(("s3", "s3a"), "s3fs"),
    **dict.fromkeys(("gs", "gcs"), "gcsfs"),
    **dict.fromkeys(("az", "abfs", "abfss", "adl"), "adlfs"),
    **dict.fromkeys(("http", "https"), "aiohttp"),
}
_LOGIN_HINTS = {
    "s3fs": "the AWS_* variables, ~/.aws or the role of the machine",
    "gcsfs": "GOOGLE_APPLICATION_CREDENTIALS or `gcloud auth application-default login`",
    "adlfs": "the AZURE_STORAGE_* variables",
}
# names of exceptions for missing credentials; compared by name, because these libraries are
# imported lazily
_NO_LOGIN_ERRORS = {
    "NoCredentialsError",
    "PartialCredentialsError",
    "TokenRetrievalError",
    "DefaultCredentialsError",
    "ClientAuthenticationError",
}
_STATE_KEYS = (
    ("ETag", "etag", "generation", "VersionId"),
    ("LastModified", "last_modified", "updated", "mtime", "modified", "created"),
)


def is_url(location: object) -> bool:
    """True for a URL such as `s3://...`; False for a path."""
    return isinstance(location, str) and _URL.match(location) is not None


def require_local_path(location: str | Path) -> Path:
    """The path of a location. Raises UsageError for a URL, which as a path would become a folder
    called `s3:`."""
    if is_url(location):
        raise UsageError(
            f"{redact_url(str(location))}: is a URL; expected a path on this machine. INPUT and OUT"
            " of `sanitize run` may be URLs, and OUT of `sanitize verify`"
        )
    return avoid_url_syntax(location)


def redact_url(url: str) -> str:
    """The URL without user, password, query and fragment, so that it can be printed and stored (an
    Azure container is kept)."""
    parts = urlsplit(url)
    host = parts.netloc
    if "@" in host:
        user, _, host_name = host.rpartition("@")
        host = (
            f"{user}@{host_name}"
            if parts.scheme.lower() in ("abfs", "abfss") and ":" not in user
            else host_name
        )
    return urlunsplit((parts.scheme.lower(), host, parts.path, "", ""))


def check_url(url: str) -> str:
    """Returns the URL. Raises UsageError if it contains a password or chains file systems."""
    parts = urlsplit(url)
    has_credentials = parts.password is not None or (
        "@" in parts.netloc and parts.scheme.lower() in ("s3", "s3a", "gs", "gcs")
    )
    if has_credentials:
        raise UsageError(
            f"{redact_url(url)}: the URL contains credentials, which end up in shell histories and"
            " process lists; remove them and use "
            f"{_LOGIN_HINTS.get(_PACKAGES.get(parts.scheme.lower(), ''), 'the settings of the storage’s own tools')}"  # noqa: E501
        )
    if "::" in url:
        raise UsageError(
            f"{redact_url(url)}: chained file systems (::) are not supported; name the files"
            " themselves"
        )
    return url


class ObjectMissing(Exception):
    """The object does not exist in the storage."""


@dataclass(frozen=True, kw_only=True)
class RemoteObject:
    """An object of a storage: path, size in bytes (None if unknown), and tags that change when it
    is written again (ETag, time)."""

    path: str
    size: int | None
    version_tags: Mapping[str, str]


class RemoteStorage:
    """One storage and a path in it. `is_output` decides whether denied access is raised as
    UsageError or InputRefused."""

    def __init__(self, url: str, *, is_output: bool = False) -> None:
        self.url, self.redacted_url, self._is_output = check_url(url), redact_url(url), is_output
        self.scheme = urlsplit(url).scheme.lower()
        if self.scheme == "hf":
            name = "/".join(urlsplit(url).path.strip("/").split("/")[:2]) or "OWNER/NAME"
            raise UsageError(
                f"{self.redacted_url}: is a dataset of the hub, which is not read or written"
                f" directly. Bring its files with `hf download --repo-type dataset {name}"
                " --local-dir FOLDER` and give FOLDER; upload OUT with `hf upload`"
            )
        try:
            from fsspec.asyn import AsyncFileSystem
            from fsspec.core import url_to_fs
            from fsspec.registry import available_protocols
        except ImportError:
            raise MissingExtra("fsspec", "remote") from None
        package = _PACKAGES.get(self.scheme, "")
        try:
            # no cached instance and no cached listing: the present state counts
            self.fs, path = url_to_fs(url, skip_instance_cache=True, use_listings_cache=False)
        except ImportError:
            if package:
                raise MissingExtra(package, "remote") from None
            raise UsageError(
                f"{self.redacted_url}: the package that fsspec needs for {self.scheme}:// is not"
                " installed; see the documentation of fsspec"
            ) from None
        except ValueError:
            known = [*_PACKAGES, "file", "memory"]
            if self.scheme in available_protocols():
                raise UsageError(
                    f"{self.redacted_url}: is not a valid URL for {self.scheme}://"
                ) from None
            raise UsageError(
                f"{self.redacted_url}: unknown storage {self.scheme}://;"
                f" {suggest_names(self.scheme, known)}"
            ) from None
        except Exception as error:
            raise self._to_error(error) from None
        self.path = str(path).rstrip("/")
        # has no folders, and writes are atomic
        self.is_object_store = isinstance(self.fs, AsyncFileSystem)

    def join_path(self, *parts: str) -> str:
        """A path below the path of this storage."""
        return "/".join([self.path, *parts])

    # ---- listing ----

    def info(self, path: str) -> dict[str, Any]:
        """The storage's description of an object or folder. Raises ObjectMissing if it does not
        exist."""

        return dict(self._ask(lambda: self.fs.info(path)))

    def stat_object(self, path: str) -> RemoteObject:
        """The present state of an object. Raises ObjectMissing if it does not exist or is a
        folder."""
        info = self.info(path)
        if info.get("type") == "directory":
            raise ObjectMissing
        return _make_object(path, info)

    def list_objects(self, path: str) -> list[RemoteObject]:
        """All objects below a path, sorted by the bytes of their paths, without folder markers.

        A listing may be out of date; `stat_object` returns the present state of an object.
        """

        try:
            found = self._ask(lambda: self.fs.find(path, detail=True))
        except ObjectMissing:
            return []
        prefix = path.rstrip("/") + "/"
        objects = [
            _make_object(name, info)
            for name, info in found.items()
            if info.get("type") != "directory" and not name.endswith("/")
        ]
        below = (
            remote_object for remote_object in objects if remote_object.path.startswith(prefix)
        )
        return sorted(
            below, key=lambda remote_object: remote_object.path.encode("utf-8", "surrogatepass")
        )

    def glob(self, pattern: str) -> list[str]:
        """The paths of objects and folders that match a glob pattern, sorted by their bytes."""

        try:
            found = [str(path) for path in self._ask(lambda: self.fs.glob(pattern))]
        except ObjectMissing:
            return []
        return sorted(found, key=lambda path: path.encode("utf-8", "surrogatepass"))

    # ---- reading ----

    def read(self, path: str) -> bytes:
        """The bytes of a small object. Raises ObjectMissing if it does not exist."""
        return self.call_with_retries(lambda: bytes(self.fs.cat_file(path)))

    def download(self, remote_object: RemoteObject, target: Path) -> None:
        """Downloads an object to a local file, and checks that it has the size that was listed."""

        def fetch() -> None:
            target.unlink(missing_ok=True)
            try:
                self.fs.get_file(remote_object.path, str(target))
            except OSError as error:
                if error.errno in _WRITE_ERRNOS:  # the local disk is full, not the storage at fault
                    raise make_disk_error(target.parent, error.errno) from None
                raise
            if remote_object.size is not None and target.stat().st_size != remote_object.size:
                raise EOFError

        self.call_with_retries(fetch)

    def compute_sha256(self, path: str) -> str:
        """The SHA-256 of an object, which is read completely."""

        def ask() -> str:
            total = hashlib.sha256()
            with self.fs.open(path, "rb", block_size=BLOCK_BYTES, cache_type="readahead") as file:
                while part := file.read(BLOCK_BYTES):
                    total.update(part)
            return total.hexdigest()

        return self.call_with_retries(ask)

    # ---- writing ----

    def upload(self, file: Path, path: str, sha256: str) -> None:
        """Uploads a local file unless the same object exists; then checks its size, and its ETag or
        else its SHA-256."""
        if self._is_same(file, path, sha256):
            return

        def send() -> None:
            self._ensure_folder(path)
            self.fs.put_file(str(file), path)
            if not self._is_same(file, path, sha256):
                raise EOFError

        self.call_with_retries(send)

    def copy(self, source: str, path: str) -> None:
        """Copies an object within the storage. Failures are ignored, since `upload` then sends the
        file."""
        with contextlib.suppress(Exception):
            self._ensure_folder(path)
            self.fs.cp_file(source, path)

    def _is_same(self, file: Path, path: str, sha256: str) -> bool:
        try:
            info = self.info(path)
            if info.get("type") == "directory" or info.get("size") != file.stat().st_size:
                return False
            with file.open("rb") as stream:
                md5 = hashlib.file_digest(
                    stream, lambda: hashlib.md5(usedforsecurity=False)
                ).hexdigest()
            if str(info.get("ETag", "")).strip('"').lower() == md5:
                # the ETag of S3 is the MD5 of objects uploaded in one part
                return True
            return self.compute_sha256(path) == sha256
        except ObjectMissing:
            return False

    def create(self, path: str, data: bytes) -> bool:
        """Writes an object if it does not exist; returns False if another object exists. Atomic if
        the storage has a conditional put."""

        def send() -> bool:
            self._ensure_folder(path)
            try:
                self.fs.pipe_file(path, data, mode="create")
            except FileExistsError:
                # True if an earlier try succeeded but its response was lost
                return self.read(path) == data
            if self.read(path) != data:
                self.fs.rm(path)
                raise EOFError
            return True

        return self.call_with_retries(send)

    def write(self, path: str, data: bytes) -> None:
        """Writes or replaces a small object atomically: readers see the old or the new bytes."""

        def send() -> None:
            self._ensure_folder(path)
            temp_path = path if self.is_object_store else f"{path}.tmp"
            self.fs.pipe_file(temp_path, data)
            if self.read(temp_path) != data:
                raise EOFError
            if not self.is_object_store:
                self.fs.mv(temp_path, path)

        self.call_with_retries(send)

    def remove(self, path: str) -> None:
        """Removes an object or a folder, if it exists."""

        def take() -> None:
            self.fs.rm(path, recursive=True)

        try:
            self.info(path)
            self.call_with_retries(take)
        except ObjectMissing:
            pass

    def _ensure_folder(self, path: str) -> None:
        if not self.is_object_store:
            self.fs.makedirs(path.rpartition("/")[0], exist_ok=True)

    # ---- retries and errors ----

    def _ask(self, call: Callable[[], Any]) -> Any:
        """The answer of the storage itself, not of a listing that was cached."""

        def ask() -> Any:
            self.fs.invalidate_cache()
            return call()

        return self.call_with_retries(ask)

    def call_with_retries(self, call: Callable[[], T]) -> T:
        """The result of a call, which is tried again if its failure may be temporary.

        Raises ObjectMissing for a missing object, without a further try, and a `SanitizeError` for
        the last failure.
        """
        for attempt in range(MAX_TRIES):
            try:
                return call()
            except (SanitizeError, ObjectMissing, MemoryError):
                raise
            except FileNotFoundError:
                raise ObjectMissing from None
            except Exception as error:
                final = (
                    isinstance(error, PermissionError)
                    or type(error).__name__ in _NO_LOGIN_ERRORS
                    or _http_status(error) in (401, 403)
                )
                if final or attempt == MAX_TRIES - 1:
                    raise self._to_error(error) from None
            time.sleep(RETRY_SECONDS * 2**attempt)
        raise AssertionError("the last try either returns or raises")

    def _to_error(self, error: Exception) -> SanitizeError:
        kind = type(error).__name__
        login = _LOGIN_HINTS.get(
            _PACKAGES.get(self.scheme, ""), "the settings of the storage's own tools"
        )
        if kind in _NO_LOGIN_ERRORS:
            return UsageError(
                f"{self.redacted_url}: no credentials for {self.scheme}:// were found ({kind}); use"
                f" {login}"
            )
        if isinstance(error, PermissionError) or _http_status(error) in (401, 403):
            error_type: type[SanitizeError] = UsageError if self._is_output else InputRefused
            action = "write" if self._is_output else "read"
            return error_type(
                f"{self.redacted_url}: the present credentials may not {action} it ({kind}); ask"
                f" for access, or log in with {login}"
            )
        return RemoteUnavailable(
            f"{self.redacted_url}: the storage failed {MAX_TRIES} times ({kind}); finished work is"
            " kept. Run the same command again to resume"
        )


def _http_status(error: Exception) -> int | None:
    """The HTTP status of an error, or None."""
    status = (
        getattr(error, "status", None)
        or getattr(error, "status_code", None)
        or getattr(error, "code", None)
    )
    return (
        int(status)
        if isinstance(status, int) or (isinstance(status, str) and status.isdecimal())
        else None
    )


def _make_object(path: str, info: Mapping[str, Any]) -> RemoteObject:
    for names in _STATE_KEYS:  # prefer a tag of the content to a time
        state = {name: str(info[name]) for name in names if info.get(name) is not None}
        if state:
            break
    size = info.get("size")
    return RemoteObject(path=path, size=None if size is None else int(size), version_tags=state)
