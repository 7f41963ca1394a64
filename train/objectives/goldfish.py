"""The next token, but for a pseudo-random 1/k of the targets, the same in every copy of a passage (goldfish loss).

Hans et al. 2024, as their published code has it: a hash of the h token ids that end at a target looks up a table of uniform numbers, and
the target is left out where the number is below 1/k. So the same passage loses the same tokens in every document and every epoch. The table
is built on the CPU (generators differ between devices) and masks are made there.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from ..batches import Batch, mixed
from .causal import Causal
from .objective import IGNORED, Arrays

TABLE, SEED = 1_000_003, 2_971_215_073  # the published code's


class Goldfish(Causal):
    """`k`: one in k targets is left out; `h`: how many tokens decide; `hash`: our own mixing, or the published product of ids.

    The product rule (`compat`) wraps around, and any id 0 in the window sends it to one bucket; it is there to compare. The first h - 1
    tokens of a row are never left out. h = 4 is meant for texts of up to a few hundred tokens; their configurations for long ones use 13.
    """

    k: int = Field(default=4, ge=2)
    h: int = Field(default=4, ge=1, le=64)
    hash: Literal["mixed", "compat"] = "mixed"
    includes_target: bool = True  # as in the published code; the paper's text hashes the h tokens before the target

    def shown(self, batch: Batch, *, training: bool) -> Arrays:
        """As causal; while training, left-out targets have no label. A validation loss is over all targets."""
        shown = super().shown(batch, training=training)
        if training:
            # labels[:, t] is the token at t + 1
            shown["labels"][:, :-1][self.dropped(batch.ids)[:, 1:]] = IGNORED
        return shown

    def dropped(self, ids: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        """Which tokens [rows, tokens] are left out as targets."""
        out = np.zeros(ids.shape, bool)
        shift = 0 if self.includes_target else 1  # the window ends so many tokens before the target
        first = self.h - 1 + shift  # the first target with a whole window
        count = ids.shape[1] - first
        if count <= 0:
            return out
        lanes = [ids[:, at : at + count].astype(np.int64) for at in range(self.h)]
        if self.hash == "mixed":
            index = (mixed(*[lane + 1 for lane in lanes]) % np.uint64(TABLE)).astype(np.int64)
        else:
            product = np.ones_like(lanes[0])
            with np.errstate(over="ignore"):
                for lane in lanes:
                    product = product * lane  # wraps as torch's int64 does
            index = product % TABLE
        out[:, first:] = _table()[index] < 1 / self.k
        return out


@lru_cache(maxsize=1)
def _table() -> npt.NDArray[np.float32]:
    import torch

    found: npt.NDArray[np.float32] = torch.rand(TABLE, generator=torch.Generator("cpu").manual_seed(SEED)).numpy()
    return found
