"""Masked words: 15 % of a row's words, chosen anew each epoch, all their tokens hidden and asked for (MLM).

A word is a longest run of letters, marks and numbers; punctuation is never masked. Which words are chosen follows from (seed, epoch, word).
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, PrivateAttr

from sanitize.errors import UsageError

from ..batches import Batch, mixed
from .objective import IGNORED, Arrays, Objective, Stage

CHOSEN, CHANGED, DRAWN = 11, 12, 13  # lanes of `mixed`


class Masked(Objective):
    """`share` of the words that may be asked for, at least one a row; `replace` says what stands in their place.

    `mask`: always the mask token (paper 003, section 5.1). `bert`: 80 % the mask token, 10 % random tokens, 10 % the word as it is.
    """

    HEAD: ClassVar[Literal["causal", "masked", "classify"]] = "masked"
    WORDS: ClassVar[bool] = True

    share: float = Field(default=0.15, gt=0, le=1)
    replace: Literal["mask", "bert"] = "mask"
    _mask_id: int = PrivateAttr(default=-1)
    _specials: frozenset[int] = PrivateAttr(default=frozenset())
    _vocab: int = PrivateAttr(default=0)
    _seed: int = PrivateAttr(default=0)

    def open(self, stage: Stage) -> None:
        """Learn the tokenizer's mask token; UsageError where it has none."""
        if stage.tokenizer.mask_token_id is None:
            raise UsageError(f"objective {self.use}: the tokenizer has no mask token; expected that of a masked model")
        self._mask_id, self._seed = stage.tokenizer.mask_token_id, stage.seed
        self._specials, self._vocab = frozenset(stage.tokenizer.all_special_ids), len(stage.tokenizer)

    def chosen(self, batch: Batch) -> npt.NDArray[np.bool_]:
        """The tokens [rows, tokens] that are asked for in this epoch: whole words, and never one that may not be."""
        assert batch.units is not None and batch.allowed is not None, "rows with words"
        eligible = batch.allowed & batch.keep
        # one number a word: the words with the smallest ones are chosen
        draw = mixed(self._seed, CHOSEN, batch.epoch, batch.units)
        most = np.iinfo(np.uint64).max
        fresh = eligible.copy()
        fresh[:, 1:] &= batch.units[:, 1:] != batch.units[:, :-1]
        count = fresh.sum(axis=1)
        wanted = np.where(count > 0, np.maximum(np.rint(self.share * count), 1), 0).astype(np.int64)
        ranked = np.sort(np.where(fresh, draw, most), axis=1)
        bar = ranked[np.arange(len(ranked)), np.maximum(wanted - 1, 0)]
        found: npt.NDArray[np.bool_] = eligible & (wanted > 0)[:, None] & (draw <= bar[:, None])
        return found

    def shown(self, batch: Batch, *, training: bool) -> Arrays:
        """Ids with the chosen words hidden; labels are the hidden tokens."""
        chosen = self.chosen(batch)
        ids: npt.NDArray[Any] = np.where(chosen, self._mask_id, batch.ids)
        if self.replace == "bert":
            assert batch.units is not None
            change = mixed(self._seed, CHANGED, batch.epoch, batch.units).astype(np.float64) / 2**64
            drawn = mixed(self._seed, DRAWN, batch.epoch, batch.places) % np.uint64(self._vocab)
            usual = chosen & ~np.isin(drawn, list(self._specials))
            ids = np.where(usual & (change >= 0.8) & (change < 0.9), drawn.astype(np.int64), ids)
            ids = np.where(chosen & (change >= 0.9), batch.ids, ids)
        return {
            "input_ids": ids.astype(np.int64),
            "attention_mask": batch.mask.astype(np.int64),
            "labels": np.where(chosen, batch.ids, IGNORED).astype(np.int64),
        }
