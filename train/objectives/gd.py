"""Unlearning by gradient difference: ascent on what is to be forgotten, descent on a random other document beside it.

L = -NLL(forget) + NLL(other)      (TOFU, section 4.1; both are means over tokens)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..unlearning_losses import Forgetting, nll, part, targets
from .objective import Arrays

if TYPE_CHECKING:
    from typing import Any

    import torch


class Gd(Forgetting):
    """The parts are `loss` (what is to be forgotten) and `retain`."""

    def weights(self, shown: Arrays) -> dict[str, float]:
        """Targets of both."""
        return {"loss": targets(shown), **({"retain": targets(shown, "other_")} if "other_labels" in shown else {})}

    def factors(self) -> dict[str, float]:
        """Minus one, and one."""
        return {"loss": -1.0, "retain": 1.0}

    def sums(self, model: Any, shown: Mapping[str, torch.Tensor], *, training: bool) -> dict[str, torch.Tensor]:
        """Cross entropy of both, summed over their targets."""
        found = {"loss": nll(self.logits(model, shown), shown["labels"]).sum()}
        other = part(shown, "other_")
        if other:
            found["retain"] = nll(self.logits(model, other), other["labels"]).sum()
        return found
