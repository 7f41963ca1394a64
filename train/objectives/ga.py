"""Unlearning by gradient ascent: the next token of what is to be forgotten, made less likely.

L = -NLL(forget)      (TOFU, section 4.1). It has no floor: a few epochs too many, and the model speaks no language any more.
"""

from __future__ import annotations

from ..unlearning_losses import Forgetting


class Ga(Forgetting):
    """The mean over the targets, as for causal, with the sign turned."""

    @property
    def beside(self) -> bool:
        """Other documents are not read."""
        return False

    def factors(self) -> dict[str, float]:
        """Minus one."""
        return {"loss": -1.0}
