"""Goldfish loss: next-token prediction without a pseudo-random 1/k of the targets, the same ones in
every copy of a passage.

Hans et al. 2024, following their published code: a hash of the h token ids that end at a target
selects one of a table of uniform numbers; the target is left out if that number is below 1/k. The
same passage thus loses the same tokens in every document and epoch. Table and masks are computed on
the CPU, since generators differ between devices.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from ..batches import TokenBatch, splitmix64
from .causal import Causal
from .objective import IGNORE_INDEX, BatchArrays

TABLE_SIZE, TABLE_SEED = 1_000_003, 2_971_215_073  # from the published code


class Goldfish(Causal):
    """Goldfish loss. `k`: one in k targets is left out; `h`: length of the hashed window; `hash`:
    splitmix64, or the published product.

    The product (`compat`) overflows, and any id 0 in the window sends it to one bucket; it exists
    for comparisons. The first h - 1 tokens of a row are never left out. h = 4 is meant for texts of
    up to a few hundred tokens; the paper's configurations for long ones use 13.
    """

    k: int = Field(default=4, ge=2)
    h: int = Field(default=4, ge=1, le=64)
    hash: Literal["mixed", "compat"] = "mixed"
    includes_target: bool = (
        True  # as in the published code; the paper's text hashes the h tokens before the target
    )

    def collate(self, batch: TokenBatch, *, training: bool) -> BatchArrays:
        """Return the inputs of `Causal`; in training, targets that are left out have no label. A
        validation loss has all targets."""
        shown = super().collate(batch, training=training)
        if training:
            # labels[:, t] is the token at t + 1
            shown["labels"][:, :-1][self.find_dropped_targets(batch.token_ids)[:, 1:]] = (
                IGNORE_INDEX
            )
        return shown

    def find_dropped_targets(self, token_ids: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        """Return which tokens [rows, tokens] are left out as targets."""
        out = np.zeros(token_ids.shape, bool)
        # distance from the end of the window to the target
        shift = 0 if self.includes_target else 1
        first = self.h - 1 + shift  # the first target with a full window
        count = token_ids.shape[1] - first
        if count <= 0:
            return out
        lanes = [token_ids[:, at : at + count].astype(np.int64) for at in range(self.h)]
        if self.hash == "mixed":
            index = (splitmix64(*[lane + 1 for lane in lanes]) % np.uint64(TABLE_SIZE)).astype(
                np.int64
            )
        else:
            product = np.ones_like(lanes[0])
            with np.errstate(over="ignore"):
                for lane in lanes:
                    product = product * lane  # overflows like torch's int64
            index = product % TABLE_SIZE
        out[:, first:] = _hash_table()[index] < 1 / self.k
        return out


@lru_cache(maxsize=1)
def _hash_table() -> npt.NDArray[np.float32]:
    import torch

    found: npt.NDArray[np.float32] = torch.rand(
        TABLE_SIZE, generator=torch.Generator("cpu").manual_seed(TABLE_SEED)
    ).numpy()
    return found
