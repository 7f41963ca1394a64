"""Next-token prediction: cross entropy over all tokens but the first of a row. The default for fine-tuning a language model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from .objective import IGNORE_INDEX, BatchArrays, Objective

if TYPE_CHECKING:
    import torch

    from ..batches import TokenBatch


class Causal(Objective):
    """Next-token cross entropy. Labels are the row's tokens shifted left by one; padding and tokens left out of losses have no label."""

    HEAD: ClassVar[Literal["causal", "masked", "classify"]] = "causal"

    def collate(self, batch: TokenBatch, *, training: bool) -> BatchArrays:
        """Return inputs with `labels[:, t]` = the token after t, so that position t of the logits predicts position t of the labels."""
        labels = np.full(batch.token_ids.shape, IGNORE_INDEX, np.int64)
        labels[:, :-1] = np.where(batch.loss_mask[:, 1:], batch.token_ids[:, 1:], IGNORE_INDEX)
        return {"input_ids": batch.token_ids.astype(np.int64), "attention_mask": batch.attention_mask.astype(np.int64), "labels": labels}

    def compute_logits(self, model: Any, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return the model's logits in float32, [rows, tokens, vocabulary]."""
        found: torch.Tensor = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], use_cache=False).logits.float()
        return found

    def loss_sums(self, model: Any, inputs: Mapping[str, torch.Tensor], *, training: bool) -> dict[str, torch.Tensor]:
        """Return the cross entropy, summed over the targets."""
        import torch

        logits = self.compute_logits(model, inputs)
        return {
            "loss": torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), inputs["labels"].flatten(), ignore_index=IGNORE_INDEX, reduction="sum"
            )
        }
