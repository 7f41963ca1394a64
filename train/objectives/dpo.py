"""Unlearning by direct preference optimisation: trains the model to prefer a refusal to the answer,
relative to a reference model.

    L = mean over rows of -log sigmoid(beta ((log p(refusal) - log p(answer)) - (log p0(refusal) -
    log p0(answer))))

p0 is the model before the first step, frozen; log-probabilities are sums over a sequence (Rafailov
et al. 2023, equation 7). `quirk = "dp2u"` reproduces what the published code of DP2Unlearning
computes: its sign is inverted, its reference is the live model and cancels, and a retained document
is used in place of the answer, L = -log sigmoid(beta (NLL(refusal) - NLL(other))): refusals become
less likely.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, PrivateAttr

from ..unlearning_losses import RefusalObjective, copy_frozen, select_prefixed, sequence_nll
from .objective import BatchArrays, TrainContext

if TYPE_CHECKING:
    import torch


class Dpo(RefusalObjective):
    """DPO loss. `beta` is .1 as in TOFU. Retained documents are read with the quirk only."""

    beta: float = Field(default=0.1, gt=0)
    quirk: Literal["", "dp2u"] = ""
    _reference_model: Any = PrivateAttr(default=None)

    @property
    def uses_retain_rows(self) -> bool:
        """True with the quirk only."""
        return bool(self.quirk)

    def setup(self, context: TrainContext) -> None:
        """Copy the model before the first step as the reference; not needed with the quirk."""
        super().setup(context)
        self._reference_model = None if self.quirk else copy_frozen(context.model)

    def loss_counts(self, inputs: BatchArrays) -> dict[str, float]:
        """Return the number of rows; for a validation loss, of targets."""
        return (
            {"loss": float(len(inputs["labels"]))}
            if "refused_labels" in inputs
            else super().loss_counts(inputs)
        )

    def loss_sums(
        self, model: Any, inputs: Mapping[str, torch.Tensor], *, training: bool
    ) -> dict[str, torch.Tensor]:
        """Return the loss, summed over rows."""
        import torch

        if "refused_labels" not in inputs:
            return super().loss_sums(model, inputs, training=training)
        refused = select_prefixed(inputs, "refused_")
        if self.quirk:
            other = select_prefixed(inputs, "other_")
            margin = sequence_nll(
                self.compute_logits(model, refused), refused["labels"]
            ) - sequence_nll(self.compute_logits(model, other), other["labels"])
        else:

            def refusal_log_ratio(scored_model: Any) -> torch.Tensor:
                return sequence_nll(
                    self.compute_logits(scored_model, inputs), inputs["labels"]
                ) - sequence_nll(self.compute_logits(scored_model, refused), refused["labels"])

            with torch.no_grad():
                reference_log_ratio = refusal_log_ratio(self._reference_model)
            margin = refusal_log_ratio(model) - reference_log_ratio
        return {"loss": -torch.nn.functional.logsigmoid(self.beta * margin).sum()}
