"""Unlearning by gradient ascent, with a KL divergence that keeps the model close to its reference
on retained documents.

    L = -NLL(forget) + mean over positions of KL(p_oracle || p)      (TOFU, section 4.1)

The oracle is the model before the first step, frozen. Positions are all tokens, prompts included.
`quirk = "dp2u"` reproduces the published code of DP2Unlearning: both sides of the divergence come
from the live model, so that it is 0 without a gradient, and KL equals GA.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import PrivateAttr

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


class Kl(UnlearningObjective):
    """Gradient ascent with KL. Loss terms: `loss` (documents to forget) and `kl` (retained
    documents)."""

    quirk: Literal["", "dp2u"] = ""
    _reference_model: Any = PrivateAttr(default=None)

    def setup(self, context: TrainContext) -> None:
        """Copy the model before the first step as the reference; not needed with the quirk."""
        super().setup(context)
        self._reference_model = None if self.quirk else copy_frozen(context.model)

    def loss_counts(self, inputs: BatchArrays) -> dict[str, float]:
        """Return the number of targets, and of token positions of the retained documents."""
        return {
            "loss": count_targets(inputs),
            **(
                {"kl": float(inputs["other_attention_mask"].sum())}
                if "other_labels" in inputs
                else {}
            ),
        }

    def loss_weights(self) -> dict[str, float]:
        """Return weight -1 for `loss` and 1 for `kl`."""
        return {"loss": -1.0, "kl": 1.0}

    def loss_sums(
        self, model: Any, inputs: Mapping[str, torch.Tensor], *, training: bool
    ) -> dict[str, torch.Tensor]:
        """Return the cross entropy summed over targets, and the divergence summed over
        positions."""
        import torch

        found = {"loss": sequence_nll(self.compute_logits(model, inputs), inputs["labels"]).sum()}
        other = select_prefixed(inputs, "other_")
        if other:
            log_probs = self.compute_logits(model, other).log_softmax(-1)
            if self.quirk:
                reference_log_probs = log_probs
            else:
                with torch.no_grad():
                    reference_log_probs = self.compute_logits(
                        self._reference_model, other
                    ).log_softmax(-1)
            divergence = torch.nn.functional.kl_div(
                log_probs, reference_log_probs, log_target=True, reduction="none"
            ).sum(-1)
            found["kl"] = torch.where(other["attention_mask"] > 0, divergence, 0.0).sum()
        return found
