"""Next-token prediction: cross entropy over all tokens but the first of a row. The default for
fine-tuning a language model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from .objective import IGNORE_INDEX, BatchArrays, Objective

if TYPE_CHECKING:
    import torch

    from ..batches import TokenBatch


class Causal(Objective):
    """Next-token cross entropy. Labels are the row's tokens shifted left by one; padding and tokens
    left out of losses have no label."""

    SUPPORTS_DOCUMENT_ATTENTION: ClassVar[bool] = True
    HEAD: ClassVar[Literal["causal", "masked", "classify"]] = "causal"

    def collate(self, batch: TokenBatch, *, training: bool) -> BatchArrays:
        """Return inputs with `labels[:, t]` = the token after t, so that position t of the logits
        predicts position t of the labels."""
        labels = np.full(batch.token_ids.shape, IGNORE_INDEX, np.int64)
        labels[:, :-1] = np.where(batch.loss_mask[:, 1:], batch.token_ids[:, 1:], IGNORE_INDEX)
        inputs = {
            "input_ids": batch.token_ids.astype(np.int64),
            "attention_mask": batch.attention_mask.astype(np.int64),
            "labels": labels,
        }
        if batch.document_starts is None:
            return inputs
        # the last token of a document does not predict the first one of the next
        labels[:, :-1][batch.document_starts[:, 1:] != batch.document_starts[:, :-1]] = IGNORE_INDEX
        return {**inputs, **isolate_documents(batch)}

    def compute_logits(self, model: Any, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return the model's logits in float32, [rows, tokens, vocabulary]."""
        import torch

        positions = {"position_ids": inputs["position_ids"]} if "position_ids" in inputs else {}
        mask = inputs["attention_mask"]
        if mask.ndim == 4:
            # one entry for each pair of tokens; models take it as numbers that are added to the
            # scores
            weight = next(model.parameters())
            mask = (~mask.bool()).to(weight.dtype) * torch.finfo(weight.dtype).min
        found: torch.Tensor = model(
            input_ids=inputs["input_ids"], attention_mask=mask, use_cache=False, **positions
        ).logits.float()
        return found

    def loss_sums(
        self, model: Any, inputs: Mapping[str, torch.Tensor], *, training: bool
    ) -> dict[str, torch.Tensor]:
        """Return the cross entropy, summed over the targets."""
        import torch

        logits = self.compute_logits(model, inputs)
        return {
            "loss": torch.nn.functional.cross_entropy(
                logits.flatten(0, 1),
                inputs["labels"].flatten(),
                ignore_index=IGNORE_INDEX,
                reduction="sum",
            )
        }


def isolate_documents(batch: TokenBatch) -> BatchArrays:
    """Return the inputs with which a token of a packed row attends to the tokens before it in its
    own document only: `attention_mask` [rows, 1, tokens, tokens] and `position_ids`, which begin at
    0 in each document.
    """
    starts = batch.document_starts
    assert starts is not None
    columns = np.arange(starts.shape[1])
    is_same = (
        (starts[:, :, None] == starts[:, None, :])
        & (columns[:, None] >= columns)
        & batch.attention_mask[:, None, :]
    )
    is_same[:, columns, columns] = (
        True  # a token of the padding attends to itself, so that its scores are finite
    )
    return {
        "attention_mask": is_same[:, None].astype(np.int64),
        "position_ids": np.maximum(columns - starts, 0).astype(np.int64),
    }
