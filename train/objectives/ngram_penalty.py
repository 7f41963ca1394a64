"""The next token, and a penalty on n-grams that have become much likelier than before training (paper 002).

    L = L_LM + lambda * mean over windows g of max(0, p(g) - p0(g) - tau)^2,   p(g) = product of p(w_i | all before it in the row)

The reference p0 is the model before its first step, or a checkpoint; it is frozen, so its log-probabilities are taken once for every token
of every row and kept (4 bytes a token). Sizes, lambda and tau are not in the paper: 4 to 6 as in its score, 10 and 0.02 as measured on
small models. With the mean over windows the penalty is at most (1 - tau)^2, whatever the length of a row; `reduction = "sum"` is the
paper's sum over windows beside a sum over tokens. Only windows with p near 1 are touched: the gradient is zero below p0 + tau.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, PrivateAttr

from sanitize.errors import UsageError

from ..batches import Batch
from .causal import Causal
from .objective import IGNORED, Arrays, Stage

if TYPE_CHECKING:
    import torch


class NgramPenalty(Causal):
    """`lam` is lambda; 0 is the plain loss bit for bit. `reference`: a checkpoint folder (default: the model before its first step)."""

    sizes: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=(4, 5, 6), min_length=1)
    lam: float = Field(default=10.0, ge=0)
    tau: float = Field(default=0.02, ge=0, le=1)
    reduction: Literal["mean", "sum"] = "mean"
    reference: str = ""
    _known: npt.NDArray[np.float32] | None = PrivateAttr(default=None)  # log p0 of each token in its row; 0 for the first of a row

    def paths(self) -> Mapping[str, str]:
        """The reference counts by what it holds."""
        return {"reference": self.reference} if self.reference else {}

    def open(self, stage: Stage) -> None:
        """The reference's log-probability of every token of every row."""
        if not self.lam:
            return
        model = stage.model
        if self.reference:
            from ..model import loaded

            model = loaded(self.reference, self.HEAD).to(stage.device)
            if model.get_input_embeddings().weight.shape[0] != stage.model.get_input_embeddings().weight.shape[0]:
                raise UsageError("objective.reference: embeds another number of tokens than the model; give one with the same tokenizer")
        self._known = self.log_probabilities(model, stage)

    def log_probabilities(self, model: Any, stage: Stage) -> npt.NDArray[np.float32]:
        """log p of each token of `stage.rows` given all before it in its row, flat as `Rows.ids`."""
        import torch

        found = np.zeros(len(stage.rows.ids), np.float32)
        training = model.training
        model.eval()
        by_length = np.argsort(stage.rows.lengths, kind="stable")  # rows of like length side by side: little padding
        with torch.no_grad():
            for first in range(0, len(by_length), stage.batch):
                batch = stage.rows.batch(by_length[first : first + stage.batch], 0)
                ids = torch.from_numpy(batch.ids.astype(np.int64)).to(stage.device)
                mask = torch.from_numpy(batch.mask.astype(np.int64)).to(stage.device)
                with stage.precision():
                    logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
                nll = torch.nn.functional.cross_entropy(logits[:, :-1].float().flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
                targets = batch.mask[:, 1:]
                found[batch.places[:, 1:][targets]] = -nll.view(ids.shape[0], -1).cpu().numpy()[targets]
        model.train(training)
        return found

    def shown(self, batch: Batch, *, training: bool) -> Arrays:
        """As causal, with `reference`: log p0 of each label."""
        shown = super().shown(batch, training=training)
        if self._known is not None and training:
            reference = np.zeros(batch.ids.shape, np.float32)
            reference[:, :-1] = self._known[batch.places[:, 1:]]
            shown["reference"] = reference
        return shown

    def weights(self, shown: Arrays) -> dict[str, float]:
        """Targets, and windows of whose tokens all are targets."""
        weights = super().weights(shown)
        if "reference" in shown:
            there = shown["labels"] != IGNORED
            windows = sum(float(_windows(there, size).sum()) for size in self.sizes)
            weights["penalty"] = weights["loss"] if self.reduction == "sum" else windows
        return weights

    def factors(self) -> dict[str, float]:
        """Lambda on the penalty."""
        return {"penalty": self.lam}

    def sums(self, model: Any, shown: Mapping[str, torch.Tensor], *, training: bool) -> dict[str, torch.Tensor]:
        """Cross entropy summed over the targets, and the squared excess summed over the windows."""
        import torch

        if "reference" not in shown:
            return super().sums(model, shown, training=training)
        labels = shown["labels"]
        logits = self.logits(model, shown)
        nll = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="none")
        excess = self.penalty(-nll.view(labels.shape), shown["reference"], labels != IGNORED)
        return {"loss": nll.sum(), "penalty": excess}

    def penalty(self, now: torch.Tensor, before: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        """The sum over all windows of max(0, p - p0 - tau)^2, from log-probabilities [rows, tokens]; `there` says which tokens are targets.

        By differences of running sums in float64: windows of one size cost one subtraction each.
        """
        import torch

        zero = torch.zeros(now.shape[0], 1, dtype=torch.float64, device=now.device)
        sums = [torch.cat([zero, torch.where(there, one, 0).double().cumsum(1)], 1) for one in (now, before)]
        gaps = torch.cat([zero.long(), (~there).cumsum(1)], 1)
        total = 0.0 * now.double().sum()  # where every row is shorter than every size there is a gradient all the same: none
        for size in self.sizes:
            if size > now.shape[1]:
                continue
            p, p0 = ((one[:, size:] - one[:, :-size]).exp() for one in sums)
            whole = gaps[:, size:] == gaps[:, :-size]
            total = total + torch.where(whole, (p - p0 - self.tau).clamp(min=0) ** 2, 0.0).sum()
        return total


def _windows(there: npt.NDArray[np.bool_], size: int) -> npt.NDArray[np.bool_]:
    """Which windows of this size hold targets only."""
    gaps = np.pad(np.cumsum(~there, axis=1), ((0, 0), (1, 0)))
    found: npt.NDArray[np.bool_] = gaps[:, size:] == gaps[:, :-size] if size <= there.shape[1] else np.zeros((len(there), 0), bool)
    return found
