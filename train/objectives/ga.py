"""Unlearning by gradient ascent: makes the tokens of the documents to forget less likely.

L = -NLL(forget)      (TOFU, section 4.1). The loss has no lower bound: after a few epochs too many
                      the model's language collapses.
"""

from __future__ import annotations

from ..unlearning_losses import UnlearningObjective


class Ga(UnlearningObjective):
    """The loss of `Causal` with the sign inverted."""

    @property
    def uses_retain_rows(self) -> bool:
        """Always false."""
        return False

    def loss_weights(self) -> dict[str, float]:
        """Return weight -1 for `loss`."""
        return {"loss": -1.0}
