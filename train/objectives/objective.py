"""Base class of objectives: turns rows of tokens into model inputs, and model outputs into loss
sums.

An objective is a pydantic model: its fields are its settings in `[objective]`, and unknown ones are
refused. The trainer divides each loss *sum* by its *count*, both over all micro-batches and
processes of a step; the result does not depend on how the step is split.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    import torch

    from ..batches import TokenBatch, TokenRows

IGNORE_INDEX = -100  # the label of a token that is in no loss, as torch's cross entropy knows it
BatchArrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, repr=False)
class TrainContext:
    """What an objective is given before the first step: the rows that are trained on, the
    tokenizer, the model."""

    rows: TokenRows
    tokenizer: Any
    model: Any
    device: Any
    seed: int
    batch_size: int
    context_length: int = 0  # maximum number of tokens of a row
    retain_rows: TokenRows | None = (
        None  # rows of the documents that `Objective.select_trained_documents` leaves out
    )
    labels: Sequence[str] = ()
    autocast: Callable[[], Any] = nullcontext  # a context for forward passes


class Objective(BaseModel):
    """Base class of all objectives. A subclass sets `HEAD` and implements at least `collate`."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    HEAD: ClassVar[Literal["causal", "masked", "classify"]] = "causal"  # which head the model needs
    ROWS_INDEPENDENT: ClassVar[bool] = (
        True  # false if the loss of a row depends on other rows: then DP-SGD is refused
    )
    IS_UNLEARNING: ClassVar[bool] = False  # true if it makes a trained model forget documents
    SUPPORTS_DOCUMENT_ATTENTION: ClassVar[bool] = (
        False  # true if tokens of a packed row can be kept from attending to other documents
    )
    NEEDS_WORDS: ClassVar[bool] = (
        False  # true if it masks words of the texts (`select_maskable_words`)
    )
    # settings that are paths: a recipe is identified by their contents
    PATH_SETTINGS: ClassVar[tuple[str, ...]] = ()
    VERSION: ClassVar[int] = 1  # incremented when the same settings give other weights

    use: str

    def input_paths(self) -> Mapping[str, str]:
        """Return the paths to read, by the name of the setting; those that are not set are left
        out."""
        return {name: path for name in self.PATH_SETTINGS if (path := getattr(self, name))}

    def select_trained_documents(self, doc_ids: pa.Array) -> npt.NDArray[np.bool_] | None:
        """Return a mask of the documents to train on, None for all; `setup` is given the rows of
        the others as `retain_rows`."""
        return None

    def rewrite_texts(self, texts: Sequence[str]) -> Sequence[str]:
        """Return the texts to train on; called before tokenization."""
        return texts

    def select_maskable_words(self, texts: Sequence[Sequence[str]]) -> list[npt.NDArray[np.bool_]]:
        """Return for each text which of its words (folded, in order) may be masked. Called if
        `NEEDS_WORDS` is true."""
        return [np.ones(len(words), bool) for words in texts]

    def setup(self, context: TrainContext) -> None:
        """Prepare caches, tables and frozen models; called once before the first step, and again on
        resume."""

    def collate(self, batch: TokenBatch, *, training: bool) -> BatchArrays:
        """Return the model inputs of a batch: `input_ids`, `attention_mask`, `labels` and what else
        the loss needs.

        Must be a pure function of the batch and its epoch. With `training` false, the inputs for a
        validation loss.
        """
        raise NotImplementedError

    def loss_counts(self, inputs: BatchArrays) -> dict[str, float]:
        """Return the number of terms of each loss sum, by name. `loss` is always included."""
        return {"loss": float((inputs["labels"] != IGNORE_INDEX).sum())}

    def loss_weights(self) -> dict[str, float]:
        """Return the weight of each mean in the minimised total; a missing name has weight 1."""
        return {}

    def loss_sums(
        self, model: Any, inputs: Mapping[str, torch.Tensor], *, training: bool
    ) -> dict[str, torch.Tensor]:
        """Return the loss sums, by the names of `loss_counts`: here cross entropy over the labels
        that are not ignored."""
        import torch

        logits = model(
            input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]
        ).logits
        total = torch.nn.functional.cross_entropy(
            logits.float().flatten(0, -2),
            inputs["labels"].flatten(),
            ignore_index=IGNORE_INDEX,
            reduction="sum",
        )
        return {"loss": total}
