"""Unlearning by preference optimisation: trains a refusal in place of the answer, together with a
random retained document.

L = mean over the tokens of both of NLL(refusal | prompt), NLL(other)   (TOFU's "idk")
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..unlearning_losses import RefusalObjective, count_targets, select_prefixed, sequence_nll
from .objective import BatchArrays

if TYPE_CHECKING:
    from typing import Any

    import torch


class Idk(RefusalObjective):
    """One mean over the targets of refusals and retained documents. If there are prompts,
    `data.answers_only` must be set."""

    def loss_counts(self, inputs: BatchArrays) -> dict[str, float]:
        """Return the number of targets of refusals and retained documents together; for a
        validation loss those of the rows."""
        if "refused_labels" not in inputs:
            return super().loss_counts(inputs)
        return {"loss": count_targets(inputs, "refused_") + count_targets(inputs, "other_")}

    def loss_sums(
        self, model: Any, inputs: Mapping[str, torch.Tensor], *, training: bool
    ) -> dict[str, torch.Tensor]:
        """Return the cross entropy, summed over both."""
        if "refused_labels" not in inputs:
            return super().loss_sums(model, inputs, training=training)
        parts = [select_prefixed(inputs, "refused_"), select_prefixed(inputs, "other_")]
        refused, other = (
            sequence_nll(self.compute_logits(model, part), part["labels"]).sum() for part in parts
        )
        return {"loss": refused + other}
