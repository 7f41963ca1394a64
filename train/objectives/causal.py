"""The next token: cross entropy over all tokens but the first of a row. What fine-tuning a language model is by default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from .objective import IGNORED, Arrays, Objective

if TYPE_CHECKING:
    import torch

    from ..batches import Batch


class Causal(Objective):
    """Labels are the row's own tokens, one to the left; padding and what is left out of losses have none."""

    HEAD: ClassVar[Literal["causal", "masked", "classify"]] = "causal"

    def shown(self, batch: Batch, *, training: bool) -> Arrays:
        """`labels[:, t]` is the token after `t`, so that position t of the logits answers to position t of the labels."""
        labels = np.full(batch.ids.shape, IGNORED, np.int64)
        labels[:, :-1] = np.where(batch.keep[:, 1:], batch.ids[:, 1:], IGNORED)
        return {"input_ids": batch.ids.astype(np.int64), "attention_mask": batch.mask.astype(np.int64), "labels": labels}

    def logits(self, model: Any, shown: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The model's answers in float32, one for each position."""
        found: torch.Tensor = model(input_ids=shown["input_ids"], attention_mask=shown["attention_mask"], use_cache=False).logits.float()
        return found

    def sums(self, model: Any, shown: Mapping[str, torch.Tensor], *, training: bool) -> dict[str, torch.Tensor]:
        """Cross entropy, summed over the targets."""
        import torch

        logits = self.logits(model, shown)
        return {
            "loss": torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), shown["labels"].flatten(), ignore_index=IGNORED, reduction="sum"
            )
        }
