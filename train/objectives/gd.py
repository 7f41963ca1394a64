"""Unlearning by gradient difference: ascent on the documents to forget, descent on a random
retained document for each row.

L = -NLL(forget) + NLL(other)      (TOFU, section 4.1; both are means over tokens)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..unlearning_losses import UnlearningObjective, count_targets, select_prefixed, sequence_nll
from .objective import BatchArrays

if TYPE_CHECKING:
    from typing import Any

    import torch


class Gd(UnlearningObjective):
    """Gradient difference. Loss terms: `loss` (documents to forget) and `retain` (retained
    documents)."""

    def loss_counts(self, inputs: BatchArrays) -> dict[str, float]:
        """Return the number of targets of both terms."""
        return {
            "loss": count_targets(inputs),
            **({"retain": count_targets(inputs, "other_")} if "other_labels" in inputs else {}),
        }

    def loss_weights(self) -> dict[str, float]:
        """Return weight -1 for `loss` and 1 for `retain`."""
        return {"loss": -1.0, "retain": 1.0}

    def loss_sums(
        self, model: Any, inputs: Mapping[str, torch.Tensor], *, training: bool
    ) -> dict[str, torch.Tensor]:
        """Return the cross entropy summed over targets: `loss` of the documents to forget and, if
        the batch has retain rows, `retain`."""
        found = {"loss": sequence_nll(self.compute_logits(model, inputs), inputs["labels"]).sum()}
        other = select_prefixed(inputs, "other_")
        if other:
            found["retain"] = sequence_nll(self.compute_logits(model, other), other["labels"]).sum()
        return found
