"""A label for each document, by a head on the model: the downstream task of paper 003, section 5.1.

The paper freezes all but the last layer and the head (`model.top_layers = 1`), and trains 6 epochs, up to 2e-5 over the first tenth of the
steps and down in a line; recipe `classify`. The label is a column of the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from .objective import IGNORED, Arrays, Objective

if TYPE_CHECKING:
    import torch

    from ..batches import Batch


class Classify(Objective):
    """Cross entropy over the labels of rows; a document that is split into rows counts once for each."""

    HEAD: ClassVar[Literal["causal", "masked", "classify"]] = "classify"

    def shown(self, batch: Batch, *, training: bool) -> Arrays:
        """Ids as they are; one label a row."""
        assert batch.labels is not None, "rows with labels"
        return {"input_ids": batch.ids.astype(np.int64), "attention_mask": batch.mask.astype(np.int64), "labels": batch.labels.copy()}

    def sums(self, model: Any, shown: Mapping[str, torch.Tensor], *, training: bool) -> dict[str, torch.Tensor]:
        """Cross entropy, summed over the rows."""
        import torch

        logits = model(input_ids=shown["input_ids"], attention_mask=shown["attention_mask"]).logits.float()
        return {"loss": torch.nn.functional.cross_entropy(logits, shown["labels"], ignore_index=IGNORED, reduction="sum")}
