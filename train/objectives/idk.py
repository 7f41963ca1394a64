"""Unlearning by preference optimisation: a refusal is learned in place of the answer, beside a random other document.

L = mean over the tokens of both of NLL(refusal | prompt), NLL(other)      (TOFU's "idk"; its preference optimisation)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..unlearning_losses import Refusing, nll, part, targets
from .objective import Arrays

if TYPE_CHECKING:
    from typing import Any

    import torch


class Idk(Refusing):
    """One mean over the targets of refusals and other documents. Where there are prompts, `data.answers_only` must tell them apart."""

    def weights(self, shown: Arrays) -> dict[str, float]:
        """Targets of refusals and other documents together; without them (a validation loss) those of the rows."""
        if "refused_labels" not in shown:
            return super().weights(shown)
        return {"loss": targets(shown, "refused_") + targets(shown, "other_")}

    def sums(self, model: Any, shown: Mapping[str, torch.Tensor], *, training: bool) -> dict[str, torch.Tensor]:
        """Cross entropy, summed over both."""
        if "refused_labels" not in shown:
            return super().sums(model, shown, training=training)
        parts = [part(shown, "refused_"), part(shown, "other_")]
        refused, other = (nll(self.logits(model, one), one["labels"]).sum() for one in parts)
        return {"loss": refused + other}
