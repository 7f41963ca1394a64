"""Document classification with a head on the model: the downstream task of the PPMLM paper (Boutet
et al., Towards the Anonymization of Masked Language Modeling), section 5.1.

The paper freezes all but the last layer and the head (`model.top_layers = 1`) and trains 6 epochs;
the rate rises to 2e-5 over the first tenth of the steps and falls linearly (recipe `classify`). The
label is a column of the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from .objective import IGNORE_INDEX, BatchArrays, Objective

if TYPE_CHECKING:
    import torch

    from ..batches import TokenBatch


class Classify(Objective):
    """Cross entropy over the labels of rows; a document that is split into several rows counts once
    per row."""

    HEAD: ClassVar[Literal["causal", "masked", "classify"]] = "classify"

    def collate(self, batch: TokenBatch, *, training: bool) -> BatchArrays:
        """Return token ids unchanged, and one label per row."""
        assert batch.labels is not None, "rows with labels"
        return {
            "input_ids": batch.token_ids.astype(np.int64),
            "attention_mask": batch.attention_mask.astype(np.int64),
            "labels": batch.labels.copy(),
        }

    def loss_sums(
        self, model: Any, inputs: Mapping[str, torch.Tensor], *, training: bool
    ) -> dict[str, torch.Tensor]:
        """Return the cross entropy, summed over the rows."""
        import torch

        logits = model(
            input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]
        ).logits.float()
        return {
            "loss": torch.nn.functional.cross_entropy(
                logits, inputs["labels"], ignore_index=IGNORE_INDEX, reduction="sum"
            )
        }
