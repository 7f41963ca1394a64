"""The secret key, keyed hashes of values (`value_id`, pseudonyms) and all random draws: one
pseudo-random function, no state.

The function is SipHash-2-4 (Aumasson, Bernstein: SipHash, a fast short-input PRF, INDOCRYPT 2012),
compiled in `kernels/span_hashes.py` and checked against its published test vectors in tests. Every
purpose has its own subkey, derived from the key by BLAKE2b, so that outputs for one purpose reveal
nothing about another. A draw depends on (key, doc_id, cell, start, lane) and on nothing else: not
on the batch, the shard, the worker or the order of work.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sanitize.array_types import I32, I64, U8, U64, Mask
from sanitize.core import failpoints
from sanitize.errors import UsageError
from sanitize.kernels import span_hashes, value_sets

_FOUR_WORDS = 32 << 56  # SipHash's last block (length byte) of a message of 32 bytes


@dataclass(frozen=True)
class Key:
    """The secret from which `value_id` and all draws are computed. `is_public` marks a key derived
    from a seed: repeatable, not secret."""

    secret: bytes = field(repr=False)
    is_public: bool = False

    @classmethod
    def from_seed(cls, seed: int) -> Key:
        """The public key derived from a seed: the same on every machine, and anybody can compute
        it."""
        return cls(
            hashlib.blake2b(str(seed).encode(), digest_size=32, person=b"sanitize-seed").digest(),
            is_public=True,
        )

    @classmethod
    def generate(cls) -> Key:
        """A new secret key of 32 random bytes from the operating system."""
        return cls(secrets.token_bytes(32))

    @classmethod
    def read(cls, path: Path) -> Key:
        """Reads a key from a file of 64 hexadecimal digits. Raises UsageError if it is unreadable,
        invalid, or readable by other users."""
        try:
            mode = path.stat().st_mode
            if not stat.S_ISREG(mode):
                # a reader of a pipe waits for its writer, and a device may have no end
                raise UsageError(
                    f"{path}: the key is not a regular file; expected a file of 64 hexadecimal"
                    " digits"
                )
            text = path.read_text("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"{path}: the key cannot be read ({type(error).__name__}); expected a file of 64"
                " hexadecimal digits"
            ) from None
        if stat.S_IMODE(mode) & 0o077:
            raise UsageError(
                f"{path}: the key file is readable by other users (mode {stat.S_IMODE(mode):04o})."
                f" Make it private: chmod 600 {path}"
            )
        try:
            secret = bytes.fromhex(text)
        except ValueError:
            secret = b""
        if len(secret) != 32:
            raise UsageError(f"{path}: not a key; expected 64 hexadecimal digits (32 bytes)")
        return cls(secret)

    def write(self, path: Path) -> None:
        """Writes the key to a new file of mode 0600, atomically. Raises FileExistsError rather than
        overwrite a file."""
        temp_path = path.with_name(path.name + ".tmp")
        temp_path.unlink(missing_ok=True)
        handle = os.open(
            temp_path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0), 0o600
        )
        try:
            with os.fdopen(handle, "w", encoding="ascii") as file:
                file.write(self.secret.hex() + "\n")
                file.flush()
                os.fsync(file.fileno())
            failpoints.hit("key:temp_written")
            if path.exists():
                raise FileExistsError(f"{path}: exists already; a key is never overwritten")
            temp_path.rename(path)
        finally:
            temp_path.unlink(missing_ok=True)

    @property
    def id(self) -> str:
        """Eight hexadecimal digits that distinguish keys and reveal nothing about them."""
        return hashlib.blake2b(b"id", key=self.secret, digest_size=4).hexdigest()

    def subkey(self, purpose: str) -> bytes:
        """The 16-byte SipHash key of one purpose, such as `value_id/EMAIL_ADDRESS`."""
        return hashlib.blake2b(purpose.encode(), key=self.secret, digest_size=16).digest()


def siphash(strings: pa.Array, subkey: bytes) -> U64:
    """SipHash-2-4 of every string or binary value in an Arrow column, as uint64. The column must
    not contain nulls (asserted)."""
    if not pa.types.is_large_binary(strings.type):
        strings = strings.cast(pa.large_binary())
    assert strings.null_count == 0
    offsets = (
        np.frombuffer(strings.buffers()[1], np.int64, len(strings) + 1, strings.offset * 8)
        if len(strings)
        else np.zeros(1, np.int64)
    )
    data = strings.buffers()[2]
    text_bytes = (
        np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    )
    return siphash_spans(text_bytes, offsets[:-1], offsets[1:], subkey)


def siphash_spans(data: U8, starts: I64, ends: I64, subkey: bytes) -> U64:
    """SipHash-2-4 of the bytes data[start:end] of each span, as uint64."""
    hashes = np.empty(len(starts), np.uint64)
    span_hashes.hash_texts(data, starts, ends, siphash_state(subkey), hashes)
    return hashes


def compute_value_ids(normalised: pa.Array, kind: str, key: Key) -> I64:
    """The 63-bit `value_id` of every normalised value of one kind, as non-negative int64."""
    return _to_value_ids(siphash(normalised, key.subkey(f"value_id/{kind}")))


def compute_span_value_ids(data: U8, starts: I64, ends: I64, kind: str, key: Key) -> I64:
    """Like `compute_value_ids`, for normalised values that are byte spans."""
    return _to_value_ids(siphash_spans(data, starts, ends, key.subkey(f"value_id/{kind}")))


def _to_value_ids(hashes: U64) -> I64:
    return (hashes >> np.uint64(1)).view(np.int64)


def make_id_table(count: int) -> U64:
    """An empty hash table for `count` ids or hashes: 16 to 32 bytes for each. See
    kernels/value_sets.py."""
    return np.zeros(1 << (2 * count).bit_length(), np.uint64)


@dataclass(frozen=True, repr=False)
class IdSet:
    """A set of value ids or other hashes of 64 bits, of which the lowest bits are uniform."""

    table: U64  # may be a read-only map of a file

    @classmethod
    def of(cls, ids: I64 | U64) -> IdSet:
        """The set of these ids."""
        table = make_id_table(len(ids))
        value_sets.insert(np.ascontiguousarray(ids).view(np.int64), table)
        return cls(table)

    def contains(self, ids: I64 | U64) -> Mask:
        """True for every id of the column that is in the set."""
        found = np.empty(len(ids), np.bool_)
        value_sets.contains(
            np.ascontiguousarray(ids).view(np.int64), self.table, found.view(np.uint8)
        )
        return found


def pseudonymize_column(column: pa.Array, column_name: str, key: Key) -> pa.LargeStringArray:
    """A pseudonym for every text of a column: the first letter of `column_name` (its name in the
    output) and 16 hexadecimal digits.

    The digits are a keyed hash, with a subkey for each column name. Null stays null.
    """
    encoded = column.cast(pa.large_string()).dictionary_encode()
    hashed = siphash(encoded.dictionary, key.subkey(f"pseudonym/{column_name}"))
    return pa.array(
        [f"{column_name[:1]}{number:016x}" for number in hashed.tolist()], pa.large_string()
    ).take(encoded.indices)


class Draws:
    """Random numbers for the occurrences of a batch, each a pure function of (key, purpose, doc_id,
    cell, start, lane).

    `take` selects some occurrences; `with_attempt` switches to an unused set of lanes for another
    attempt, of all occurrences or of each its own number. All arrays are in the order of the
    occurrences. The hash of (purpose, doc_id, cell, start) is computed once and shared by all
    lanes.
    """

    def __init__(self, states: U64, attempt: int | npt.NDArray[np.integer[Any]] = 0) -> None:
        # states of SipHash, one row of four words per occurrence
        self._states, self._attempt = (states, np.asarray(attempt, np.uint64))

    @classmethod
    def for_occurrences(
        cls, key: Key, purpose: str, doc_ids: pa.Array, cells: I32, starts: I64
    ) -> Draws:
        """Draws for occurrences at (`doc_ids`, `cells`, `starts` in code points), one entry per
        occurrence."""
        encoded = doc_ids if pa.types.is_dictionary(doc_ids.type) else doc_ids.dictionary_encode()
        hashed = siphash(encoded.dictionary.cast(pa.large_binary()), key.subkey("doc_id"))
        documents = hashed[np.asarray(encoded.indices)] if len(hashed) else np.empty(0, np.uint64)
        return cls.from_words(
            key.subkey(f"draw/{purpose}"),
            documents,
            cells.astype(np.uint64),
            starts.astype(np.uint64),
        )

    @classmethod
    def from_words(cls, subkey: bytes, *words: U64) -> Draws:
        """Draws under a subkey for occurrences that are identified by columns of 64-bit words, such
        as (document, cell, start)."""
        states = np.tile(siphash_state(subkey), (len(words[0]), 1))
        for word in words:
            span_hashes.absorb_words(states, np.ascontiguousarray(word))
        return cls(states)

    def __len__(self) -> int:
        return len(self._states)

    def take(self, rows: npt.NDArray[np.intp]) -> Draws:
        """The same draws for the occurrences at `rows`."""
        attempt = self._attempt[rows] if self._attempt.ndim else self._attempt
        return Draws(self._states[rows], attempt)

    def with_attempt(self, attempt: int | I64) -> Draws:
        """Independent draws for the same occurrences; attempt 0 is the first."""
        return Draws(self._states, attempt)

    def nested_attempt(self, attempt: int, attempt_limit: int) -> Draws:
        """Draws of attempt number `attempt` (below `attempt_limit`) within the current attempt;
        attempt 0 within attempt 0 is attempt 0."""
        return Draws(self._states, self._attempt * np.uint64(attempt_limit) + np.uint64(attempt))

    def u64(self, lane: int | U64) -> U64:
        """64 uniform bits per occurrence, from one lane for all or one lane each. Lanes 0 to 2^32 -
        1 are independent of each other."""
        lanes = np.atleast_1d((self._attempt << np.uint64(32)) | np.asarray(lane, np.uint64))
        bits = np.empty(len(self), np.uint64)
        span_hashes.finish_lanes(self._states, lanes, _FOUR_WORDS, bits)
        return bits

    def u32_pair(self, lane: int) -> tuple[U64, U64]:
        """Two independent draws of 32 uniform bits for the price of one, for use with
        `draw_index`."""
        bits = self.u64(lane)
        return bits >> np.uint64(32), bits & np.uint64(0xFFFFFFFF)


def draw_index(bits32: U64, size: int | U64) -> I64:
    """Indices below `size`, uniform up to size / 2^32, from 32-bit draws (multiply and shift)."""
    return ((bits32 * np.asarray(size, np.uint64)) >> np.uint64(32)).astype(np.int64)


def siphash_state(subkey: bytes) -> U64:
    """The four words of SipHash's state before the first block."""
    k0, k1 = (int.from_bytes(subkey[at : at + 8], "little") for at in (0, 8))
    return np.array(
        [
            k0 ^ 0x736F6D6570736575,
            k1 ^ 0x646F72616E646F6D,
            k0 ^ 0x6C7967656E657261,
            k1 ^ 0x7465646279746573,
        ],
        np.uint64,
    )
