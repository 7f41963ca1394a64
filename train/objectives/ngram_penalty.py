"""Next-token prediction with a penalty on n-grams that have become much more likely than before
training (Slack and Al Moubayed, Early Detection and Reduction of Memorization).

    L = L_LM + lambda * mean over windows g of max(0, p(g) - p0(g) - tau)^2,
    p(g) = product of p(w_i | all before it in the row)

The reference p0 is the model before its first step, or a checkpoint; it is frozen, so its
log-probabilities are computed once for every token of every row and stored (4 bytes a token).
Sizes, lambda and tau are not in the paper: 4 to 6 as in its score, 10 and 0.02 as measured on small
models. With the mean over windows the penalty is at most (1 - tau)^2, whatever the length of a row;
`reduction = "sum"` is the paper's sum over windows, added to a sum over tokens. Only windows with p
near 1 are affected: the gradient is zero below p0 + tau.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, PrivateAttr

from sanitize.errors import UsageError

from ..batches import TokenBatch
from .causal import Causal
from .objective import IGNORE_INDEX, BatchArrays, TrainContext

if TYPE_CHECKING:
    import torch


class NgramPenalty(Causal):
    """`lam` is lambda; with 0 the loss equals `Causal` bit for bit. `reference`: checkpoint folder
    (default: the model before training)."""

    SUPPORTS_DOCUMENT_ATTENTION: ClassVar[bool] = False  # n-grams of a packed row cross documents
    PATH_SETTINGS: ClassVar[tuple[str, ...]] = ("reference",)

    sizes: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=(4, 5, 6), min_length=1)
    lam: float = Field(default=10.0, ge=0)
    tau: float = Field(default=0.02, ge=0, le=1)
    reduction: Literal["mean", "sum"] = "mean"
    reference: str = ""
    # log p0 of each token in its row; 0 for the first of a row
    _reference_log_probs: npt.NDArray[np.float32] | None = PrivateAttr(default=None)

    def setup(self, context: TrainContext) -> None:
        """Compute the reference's log-probability of every token of every row."""
        if not self.lam:
            return
        model = context.model
        if self.reference:
            from ..model import load_model

            model = load_model(self.reference, self.HEAD).to(context.device)
            if (
                model.get_input_embeddings().weight.shape[0]
                != context.model.get_input_embeddings().weight.shape[0]
            ):
                raise UsageError(
                    "objective.reference: has another vocabulary size than the model; use a"
                    " checkpoint with the same tokenizer"
                )
        self._reference_log_probs = self.compute_token_log_probs(model, context)

    def compute_token_log_probs(self, model: Any, context: TrainContext) -> npt.NDArray[np.float32]:
        """Return log p of each token of `context.rows` given all before it in its row, flat like
        `TokenRows.token_ids`."""
        import torch

        found = np.zeros(len(context.rows.token_ids), np.float32)
        training = model.training
        model.eval()
        # batches of rows of similar length have little padding
        by_length = np.argsort(context.rows.lengths, kind="stable")
        with torch.no_grad():
            for first in range(0, len(by_length), context.batch_size):
                batch = context.rows.make_batch(by_length[first : first + context.batch_size], 0)
                ids = torch.from_numpy(batch.token_ids.astype(np.int64)).to(context.device)
                mask = torch.from_numpy(batch.attention_mask.astype(np.int64)).to(context.device)
                with context.autocast():
                    logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
                nll = torch.nn.functional.cross_entropy(
                    logits[:, :-1].float().flatten(0, 1), ids[:, 1:].flatten(), reduction="none"
                )
                targets = batch.attention_mask[:, 1:]
                found[batch.token_positions[:, 1:][targets]] = (
                    -nll.view(ids.shape[0], -1).cpu().numpy()[targets]
                )
        model.train(training)
        return found

    def collate(self, batch: TokenBatch, *, training: bool) -> BatchArrays:
        """Return the inputs of `Causal`, in training with `reference`: log p0 of each label."""
        shown = super().collate(batch, training=training)
        if self._reference_log_probs is not None and training:
            reference = np.zeros(batch.token_ids.shape, np.float32)
            reference[:, :-1] = self._reference_log_probs[batch.token_positions[:, 1:]]
            shown["reference"] = reference
        return shown

    def loss_counts(self, inputs: BatchArrays) -> dict[str, float]:
        """Return the number of targets, and of windows that consist of targets only."""
        counts = super().loss_counts(inputs)
        if "reference" in inputs:
            is_target = inputs["labels"] != IGNORE_INDEX
            windows = sum(float(_is_full_window(is_target, size).sum()) for size in self.sizes)
            counts["penalty"] = counts["loss"] if self.reduction == "sum" else windows
        return counts

    def loss_weights(self) -> dict[str, float]:
        """Return lambda as the weight of the penalty."""
        return {"penalty": self.lam}

    def loss_sums(
        self, model: Any, inputs: Mapping[str, torch.Tensor], *, training: bool
    ) -> dict[str, torch.Tensor]:
        """Return the cross entropy summed over the targets, and the squared excess summed over the
        windows."""
        import torch

        if "reference" not in inputs:
            return super().loss_sums(model, inputs, training=training)
        labels = inputs["labels"]
        logits = self.compute_logits(model, inputs)
        nll = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE_INDEX, reduction="none"
        )
        excess = self.sum_squared_excess(
            -nll.view(labels.shape), inputs["reference"], labels != IGNORE_INDEX
        )
        return {"loss": nll.sum(), "penalty": excess}

    def sum_squared_excess(
        self, log_probs: torch.Tensor, reference_log_probs: torch.Tensor, is_target: torch.Tensor
    ) -> torch.Tensor:
        """Return the sum over all windows of max(0, p - p0 - tau)^2, from log-probabilities [rows,
        tokens] and the mask of targets.

        Uses differences of cumulative sums in float64: one subtraction per window.
        """
        import torch

        zero = torch.zeros(log_probs.shape[0], 1, dtype=torch.float64, device=log_probs.device)
        sums = [
            torch.cat([zero, torch.where(is_target, values, 0).double().cumsum(1)], 1)
            for values in (log_probs, reference_log_probs)
        ]
        non_target_sums = torch.cat([zero.long(), (~is_target).cumsum(1)], 1)
        # 0, but connected to the graph: rows shorter than every size get a zero gradient
        total = 0.0 * log_probs.double().sum()
        for size in self.sizes:
            if size > log_probs.shape[1]:
                continue
            p, p0 = ((values[:, size:] - values[:, :-size]).exp() for values in sums)
            is_full_window = non_target_sums[:, size:] == non_target_sums[:, :-size]
            total = (
                total
                + torch.where(is_full_window, (p - p0 - self.tau).clamp(min=0) ** 2, 0.0).sum()
            )
        return total


def _is_full_window(is_target: npt.NDArray[np.bool_], size: int) -> npt.NDArray[np.bool_]:
    """Return which windows of this size [rows, windows] consist of targets only."""
    non_target_sums = np.pad(np.cumsum(~is_target, axis=1), ((0, 0), (1, 0)))
    found: npt.NDArray[np.bool_] = (
        non_target_sums[:, size:] == non_target_sums[:, :-size]
        if size <= is_target.shape[1]
        else np.zeros((len(is_target), 0), bool)
    )
    return found
