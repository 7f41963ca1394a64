"""Unlearning by direct preference optimisation: a refusal is preferred to the answer, against the model as it was.

    L = mean over rows of -log sigmoid(beta ((log p(refusal) - log p(answer)) - (log p0(refusal) - log p0(answer))))

p0 is the model before the first step, frozen; log-probabilities are sums over a sequence (Rafailov et al. 2023, equation 7). `quirk =
"dp2u"` is what the published code of DP2Unlearning comes down to: its sign is turned, its reference is the live model and cancels, and the
other document stands where the answer should, L = -log sigmoid(beta (NLL(refusal) - NLL(other))): refusals become less likely.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, PrivateAttr

from ..unlearning_losses import Refusing, nll, oracle, part
from .objective import Arrays, Stage

if TYPE_CHECKING:
    import torch


class Dpo(Refusing):
    """`beta` is .1 as in TOFU. Other documents are read by the quirk only."""

    beta: float = Field(default=0.1, gt=0)
    quirk: Literal["", "dp2u"] = ""
    _oracle: Any = PrivateAttr(default=None)

    @property
    def beside(self) -> bool:
        """The quirk alone reads other documents."""
        return bool(self.quirk)

    def open(self, stage: Stage) -> None:
        """Keep the model as it is now."""
        super().open(stage)
        self._oracle = None if self.quirk else oracle(stage.model)

    def weights(self, shown: Arrays) -> dict[str, float]:
        """Rows; for a validation loss, targets."""
        return {"loss": float(len(shown["labels"]))} if "refused_labels" in shown else super().weights(shown)

    def sums(self, model: Any, shown: Mapping[str, torch.Tensor], *, training: bool) -> dict[str, torch.Tensor]:
        """The loss summed over rows."""
        import torch

        if "refused_labels" not in shown:
            return super().sums(model, shown, training=training)
        refused = part(shown, "refused_")
        if self.quirk:
            other = part(shown, "other_")
            margin = nll(self.logits(model, refused), refused["labels"]) - nll(self.logits(model, other), other["labels"])
        else:

            def preferred(one: Any) -> torch.Tensor:
                return nll(self.logits(one, shown), shown["labels"]) - nll(self.logits(one, refused), refused["labels"])

            with torch.no_grad():
                before = preferred(self._oracle)
            margin = preferred(model) - before
        return {"loss": -torch.nn.functional.logsigmoid(self.beta * margin).sum()}
