"""Unpredictable random numbers for privacy mechanisms: SHAKE-256 over a secret key and a position.

Sampling, noise and dropout of a private run are functions of (key, purpose, step); there is no
generator with a state. A run that was killed repeats a step with the same noise (`noise`, by keys
from here), and no two steps share noise.

The key would allow anybody to subtract the noise: during a run it is in RUN/noise.key, readable by
its owner only, and it is deleted when train.json is written. torch's own generators use 32 bits of
a seed on a CPU, too few for a secret; they are seeded from here only for draws that need not be
secret by themselves (dropout).
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sanitize.errors import OutputBroken, UsageError

KEY_BYTES = 32


class KeyedRandom:
    """Random numbers by lane, such as `("noise", step, name)`; the same key and lane give the same
    numbers."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __repr__(self) -> str:
        return "KeyedRandom()"  # never the key

    def draw_bits(self, count: int, *lane: str | int) -> npt.NDArray[np.uint64]:
        """Return `count` integers of 64 random bits."""
        lane_bytes = json.dumps(lane).encode()
        return np.frombuffer(hashlib.shake_256(self._key + lane_bytes).digest(8 * count), "<u8")

    def draw_uniform(self, count: int, *lane: str | int) -> npt.NDArray[np.float64]:
        """Return `count` numbers in the open interval (0, 1), in steps of 2**-52."""
        found: npt.NDArray[np.float64] = (
            (self.draw_bits(count, *lane) >> np.uint64(12)).astype(np.float64) + 0.5
        ) * 2.0**-52
        return found

    def derive_key(self, *lane: str | int) -> bytes:
        """Return a secret key of 32 bytes for another generator."""
        return self.draw_bits(KEY_BYTES // 8, *lane).tobytes()

    def derive_seed(self, *lane: str | int) -> int:
        """Return a seed of 63 bits for another generator."""
        return int(self.draw_bits(1, *lane)[0] >> np.uint64(1))


def make_insecure_random(seed: int) -> KeyedRandom:
    """Return random numbers that anybody who knows the seed can reproduce: for tests, never for a
    claim of privacy."""
    return KeyedRandom(hashlib.blake2b(f"insecure {seed}".encode(), digest_size=KEY_BYTES).digest())


def load_or_create_random(key_path: Path, *, has_started: bool) -> KeyedRandom:
    """Return the random numbers of a run: of a run that `has_started` (has a recipe.json) from the
    key in `key_path`, else from a new key of the operating system that is written there, in place
    of one that no step has used.

    Raises UsageError if the key of a run that has started is missing, since new noise on the same
    steps would spend privacy twice, and OutputBroken if it is damaged.
    """
    if has_started:
        if not key_path.is_file():
            raise UsageError(
                f"{key_path}: the key of this private run is missing; its steps cannot be repeated."
                " Choose another folder"
            )
        try:
            key = bytes.fromhex(key_path.read_text("ascii"))
        except (OSError, ValueError) as error:
            raise OutputBroken(
                f"{key_path}: cannot be read ({type(error).__name__}); remove the run folder to"
                " start again"
            ) from None
        if len(key) != KEY_BYTES:
            raise OutputBroken(f"{key_path}: is incomplete; remove the run folder to start again")
        return KeyedRandom(key)
    key = os.urandom(KEY_BYTES)
    temp_path = key_path.with_name(key_path.name + ".tmp")
    temp_path.unlink(missing_ok=True)
    with os.fdopen(os.open(temp_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(key.hex())
        file.flush()
        os.fsync(file.fileno())
    temp_path.rename(key_path)
    return KeyedRandom(key)
