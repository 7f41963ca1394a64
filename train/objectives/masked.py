"""Masked language modelling (MLM) of whole words: masks 15 % of the words of a row, drawn in each
epoch, and predicts all their tokens.

A word is a longest run of letters, marks and numbers; punctuation is never masked. Which words are
drawn follows from (seed, epoch, word).
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, PrivateAttr

from sanitize.errors import UsageError

from ..batches import TokenBatch, splitmix64
from .objective import IGNORE_INDEX, BatchArrays, Objective, TrainContext

LANE_SELECT, LANE_REPLACE, LANE_RANDOM_TOKEN = 11, 12, 13  # lanes of `splitmix64`


class Masked(Objective):
    """Whole-word MLM. `share`: fraction of the maskable words that is masked, at least one per row;
    `replace`: what replaces them.

    `mask`: always the mask token (PPMLM paper, section 5.1). `bert`: 80 % the mask token, 10 %
    random tokens, 10 % the word unchanged.
    """

    HEAD: ClassVar[Literal["causal", "masked", "classify"]] = "masked"
    NEEDS_WORDS: ClassVar[bool] = True

    share: float = Field(default=0.15, gt=0, le=1)
    replace: Literal["mask", "bert"] = "mask"
    _mask_id: int = PrivateAttr(default=-1)
    _special_ids: frozenset[int] = PrivateAttr(default=frozenset())
    _vocab_size: int = PrivateAttr(default=0)
    _seed: int = PrivateAttr(default=0)

    def setup(self, context: TrainContext) -> None:
        """Read special tokens and vocabulary size of the tokenizer; UsageError if it has no mask
        token."""
        if context.tokenizer.mask_token_id is None:
            raise UsageError(
                f"objective {self.use}: the tokenizer has no mask token; expected the tokenizer of"
                " a masked model"
            )
        self._mask_id, self._seed = context.tokenizer.mask_token_id, context.seed
        self._special_ids, self._vocab_size = (
            frozenset(context.tokenizer.all_special_ids),
            len(context.tokenizer),
        )

    def select_masked_tokens(self, batch: TokenBatch) -> npt.NDArray[np.bool_]:
        """Return which tokens [rows, tokens] are masked in this epoch: those of whole words that
        may be masked."""
        assert batch.word_ids is not None and batch.is_maskable is not None, "rows with words"
        eligible = batch.is_maskable & batch.loss_mask
        # one random number per word: the words with the smallest numbers are masked
        draw = splitmix64(self._seed, LANE_SELECT, batch.epoch, batch.word_ids)
        max_draw = np.iinfo(np.uint64).max
        is_word_start = eligible.copy()
        is_word_start[:, 1:] &= batch.word_ids[:, 1:] != batch.word_ids[:, :-1]
        count = is_word_start.sum(axis=1)
        masked_count = np.where(count > 0, np.maximum(np.rint(self.share * count), 1), 0).astype(
            np.int64
        )
        ranked = np.sort(np.where(is_word_start, draw, max_draw), axis=1)
        threshold = ranked[np.arange(len(ranked)), np.maximum(masked_count - 1, 0)]
        found: npt.NDArray[np.bool_] = (
            eligible & (masked_count > 0)[:, None] & (draw <= threshold[:, None])
        )
        return found

    def collate(self, batch: TokenBatch, *, training: bool) -> BatchArrays:
        """Return token ids with the drawn words replaced; labels are their original tokens."""
        masked = self.select_masked_tokens(batch)
        ids: npt.NDArray[Any] = np.where(masked, self._mask_id, batch.token_ids)
        if self.replace == "bert":
            assert batch.word_ids is not None
            change = (
                splitmix64(self._seed, LANE_REPLACE, batch.epoch, batch.word_ids).astype(np.float64)
                / 2**64
            )
            random_tokens = splitmix64(
                self._seed, LANE_RANDOM_TOKEN, batch.epoch, batch.token_positions
            ) % np.uint64(self._vocab_size)
            replaceable = masked & ~np.isin(random_tokens, list(self._special_ids))
            ids = np.where(
                replaceable & (change >= 0.8) & (change < 0.9), random_tokens.astype(np.int64), ids
            )
            ids = np.where(masked & (change >= 0.9), batch.token_ids, ids)
        return {
            "input_ids": ids.astype(np.int64),
            "attention_mask": batch.attention_mask.astype(np.int64),
            "labels": np.where(masked, batch.token_ids, IGNORE_INDEX).astype(np.int64),
        }
