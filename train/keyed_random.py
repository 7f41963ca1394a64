"""Random numbers that nobody can foretell: SHAKE-256 over a secret key and a place, for what a privacy guarantee rests on.

Sampling, noise and dropout of a private run hang on (key, purpose, step) and on no generator with a state. So a run that was killed makes
the same step again with the same noise, and never two steps with one. Whoever has the key can take the noise away: while a run lasts it
lies in RUN/noise.key, readable by its owner only, and it is deleted when train.json is written. torch's own generators take 32 bits of a
seed on a CPU, which is no secret; they get their seeds from here only where a draw need not be secret by itself (dropout).
Costs about 5 seconds for 100 million normal numbers.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sanitize.errors import OutputBroken, UsageError

BYTES = 32
BLOCK = 1 << 20  # numbers that are drawn at once


class Draws:
    """Numbers by place, such as `("noise", step, name)`; the same key and place give the same numbers."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __repr__(self) -> str:
        return "Draws()"  # never the key

    def bits(self, count: int, *place: str | int) -> npt.NDArray[np.uint64]:
        """So many integers of 64 random bits."""
        said = json.dumps(place).encode()
        return np.frombuffer(hashlib.shake_256(self._key + said).digest(8 * count), "<u8")

    def uniform(self, count: int, *place: str | int) -> npt.NDArray[np.float64]:
        """So many numbers in (0, 1), neither end among them, in steps of 2**-53."""
        found: npt.NDArray[np.float64] = ((self.bits(count, *place) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        return found

    def normal(self, count: int, *place: str | int) -> npt.NDArray[np.float32]:
        """So many standard normal numbers, by Box and Muller in float64; none is beyond 8.7, which one in 10**17 would be."""
        out = np.empty(count, np.float32)
        for block, first in enumerate(range(0, count, BLOCK)):
            here = min(BLOCK, count - first)
            half = -(-here // 2)
            drawn = self.uniform(2 * half, *place, block)
            radius, angle = np.sqrt(-2 * np.log(drawn[:half])), 2 * np.pi * drawn[half:]
            out[first : first + here] = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:here]
        return out

    def seed(self, *place: str | int) -> int:
        """A seed of 63 bits, for draws that other code makes."""
        return int(self.bits(1, *place)[0] >> np.uint64(1))


def insecure(seed: int) -> Draws:
    """Draws that anybody can make again who knows the seed: for tests, never for a claim of privacy."""
    return Draws(hashlib.blake2b(f"insecure {seed}".encode(), digest_size=BYTES).digest())


def secret(path: Path, *, begun: bool) -> Draws:
    """The draws of a run: by the key in `path`, or by a fresh one of the operating system, which is written there.

    `begun`: the run has made steps. Then a key that is missing is a UsageError, since other noise on the same steps would spend twice.
    """
    if path.is_file():
        try:
            key = bytes.fromhex(path.read_text("ascii"))
        except (OSError, ValueError) as error:
            raise OutputBroken(f"{path}: cannot be read ({type(error).__name__}); take the run folder away to start anew") from None
        if len(key) != BYTES:
            raise OutputBroken(f"{path}: is not whole; take the run folder away to start anew")
        return Draws(key)
    if begun:
        raise UsageError(f"{path}: the key of this private run is gone; its steps cannot be made again. Choose another folder")
    key = os.urandom(BYTES)
    aside = path.with_name(path.name + ".tmp")
    aside.unlink(missing_ok=True)
    with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(key.hex())
        file.flush()
        os.fsync(file.fileno())
    aside.rename(path)
    return Draws(key)
