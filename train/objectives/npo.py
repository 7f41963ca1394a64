"""Unlearning by negative preference optimisation: makes the answers of the documents to forget less
likely relative to a reference model, by a loss that levels off once they are unlikely.

    L = mean over rows of -(2 / beta) log sigmoid(-beta (log p(answer) - log p0(answer)))
        + retain NLL(other)

p0 is the model before the first step, frozen; log-probabilities are sums over a sequence, NLL is a
mean over tokens (Zhang et al. 2024, Negative Preference Optimization, equation 3; `retain` is the
term of section 4, NPO+RT). The gradient is that of gradient ascent times a weight that begins at 1
and falls towards 0 as an answer becomes unlikely, and so is the damage to the model's language.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import Field, PrivateAttr

from ..unlearning_losses import (
    UnlearningObjective,
    copy_frozen,
    count_targets,
    select_prefixed,
    sequence_nll,
)
from .objective import BatchArrays, TrainContext

if TYPE_CHECKING:
    import torch


class Npo(UnlearningObjective):
    """NPO loss. `beta` is .1 as in the paper; `retain` is the weight of the retained documents, 0
    for none."""

    beta: float = Field(default=0.1, gt=0)
    retain: float = Field(default=1.0, ge=0)
    _reference_model: Any = PrivateAttr(default=None)

    def setup(self, context: TrainContext) -> None:
        """Copy the model before the first step as the reference."""
        super().setup(context)
        self._reference_model = copy_frozen(context.model)

    def loss_counts(self, inputs: BatchArrays) -> dict[str, float]:
        """Return the number of rows, and of targets of the retained documents; for a validation
        loss, of targets."""
        if "other_labels" not in inputs:
            return super().loss_counts(inputs)
        return {
            "loss": float(len(inputs["labels"])),
            "retain": count_targets(inputs, "other_"),
        }

    def loss_weights(self) -> dict[str, float]:
        """Return the weight of the retained documents."""
        return {"retain": self.retain}

    def loss_sums(
        self, model: Any, inputs: Mapping[str, torch.Tensor], *, training: bool
    ) -> dict[str, torch.Tensor]:
        """Return the preference loss summed over rows, and the cross entropy of the retained
        documents summed over targets."""
        import torch

        other = select_prefixed(inputs, "other_")
        if not other:
            return super().loss_sums(model, inputs, training=training)
        with torch.no_grad():
            reference_nll = sequence_nll(
                self.compute_logits(self._reference_model, inputs), inputs["labels"]
            )
        margin = sequence_nll(self.compute_logits(model, inputs), inputs["labels"]) - reference_nll
        return {
            "loss": -2 / self.beta * torch.nn.functional.logsigmoid(self.beta * margin).sum(),
            "retain": sequence_nll(self.compute_logits(model, other), other["labels"]).sum(),
        }
