"""Unlearning by ascent, while the model stays near to what it was on other documents.

    L = -NLL(forget) + mean over positions of KL(p_oracle || p)      (TOFU, section 4.1)

The oracle is the model before the first step, frozen. Positions are all that hold a token, prompts too. `quirk = "dp2u"` is the published
code of DP2Unlearning: both sides of the divergence come from the live model, so that it is 0 and has no gradient, and KL is GA.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import PrivateAttr

from ..unlearning_losses import Forgetting, nll, oracle, part, targets
from .objective import Arrays, Stage

if TYPE_CHECKING:
    import torch


class Kl(Forgetting):
    """The parts are `loss` (what is to be forgotten) and `kl`."""

    quirk: Literal["", "dp2u"] = ""
    _oracle: Any = PrivateAttr(default=None)

    def open(self, stage: Stage) -> None:
        """Keep the model as it is now."""
        super().open(stage)
        self._oracle = None if self.quirk else oracle(stage.model)

    def weights(self, shown: Arrays) -> dict[str, float]:
        """Targets, and positions of the other documents."""
        return {"loss": targets(shown), **({"kl": float(shown["other_attention_mask"].sum())} if "other_labels" in shown else {})}

    def factors(self) -> dict[str, float]:
        """Minus one, and one."""
        return {"loss": -1.0, "kl": 1.0}

    def sums(self, model: Any, shown: Mapping[str, torch.Tensor], *, training: bool) -> dict[str, torch.Tensor]:
        """Cross entropy summed over targets, divergence summed over positions."""
        import torch

        found = {"loss": nll(self.logits(model, shown), shown["labels"]).sum()}
        other = part(shown, "other_")
        if other:
            now = self.logits(model, other).log_softmax(-1)
            if self.quirk:
                before = now
            else:
                with torch.no_grad():
                    before = self.logits(self._oracle, other).log_softmax(-1)
            apart = torch.nn.functional.kl_div(now, before, log_target=True, reduction="none").sum(-1)
            found["kl"] = torch.where(other["attention_mask"] > 0, apart, 0.0).sum()
        return found
