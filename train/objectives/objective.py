"""What an objective is: from rows of tokens to what a model is shown, and from its output to sums that are minimised.

An objective is a pydantic model: its fields are its settings in `[objective]`, and unknown ones are refused. The loop divides each *sum* by
its *weight*, taken over all pieces and processes of a step; so a step is the same however it is cut.
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

    from ..batches import Batch, Rows

IGNORED = -100  # the label of a token that is in no loss, as torch's cross entropy knows it
Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, repr=False)
class Stage:
    """What an objective finds when the curtain rises: the rows that are trained on, the tokenizer, the model before its first step."""

    rows: Rows
    tokenizer: Any
    model: Any
    device: Any
    seed: int
    batch: int
    context: int = 0  # tokens that a row may have
    others: Rows | None = None  # of documents that are not trained on themselves (`Objective.trained_on`)
    labels: Sequence[str] = ()
    precision: Callable[[], Any] = nullcontext  # a context for forward passes


class Objective(BaseModel):
    """The base: what every objective declares and answers. A subclass sets `HEAD` and gives at least `shown`."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    HEAD: ClassVar[Literal["causal", "masked", "classify"]] = "causal"  # which head the model needs
    SEPARABLE: ClassVar[bool] = True  # false where the loss of a row hangs on other rows: then there is no private step
    FORGETS: ClassVar[bool] = False  # true where it changes what a trained model knows of some documents
    WORDS: ClassVar[bool] = False  # true where it asks for the words of the texts
    VERSION: ClassVar[int] = 1  # raised when the same settings give other weights

    use: str

    def paths(self) -> Mapping[str, str]:
        """Settings that are paths: they count in a recipe by the hash of what they hold."""
        return {}

    def trained_on(self, doc_ids: pa.Array) -> npt.NDArray[np.bool_] | None:
        """Which documents the plan goes over, where these are not all; `open` is given the rows of the others."""
        return None

    def rewritten(self, texts: Sequence[str]) -> Sequence[str]:
        """The texts as they are to be learned, before tokens are made of them."""
        return texts

    def words(self, texts: Sequence[Sequence[str]]) -> list[npt.NDArray[np.bool_]]:
        """For each text's words (lower-cased, in order) which of them may be asked for. Called where `WORDS` is true."""
        return [np.ones(len(words), bool) for words in texts]

    def open(self, stage: Stage) -> None:
        """Called once before the first step (and again on resume): caches, tables, frozen models."""

    def shown(self, batch: Batch, *, training: bool) -> Arrays:
        """What the model is shown of these rows: `input_ids`, `attention_mask`, `labels` and what the loss wants; pure in (batch, epoch).

        With `training` false, what a validation loss is taken over.
        """
        raise NotImplementedError

    def weights(self, shown: Arrays) -> dict[str, float]:
        """How many terms each sum has, by name. `loss` is always there."""
        return {"loss": float((shown["labels"] != IGNORED).sum())}

    def factors(self) -> dict[str, float]:
        """What each mean counts in what is minimised; a name that is missing counts once."""
        return {}

    def sums(self, model: Any, shown: Mapping[str, torch.Tensor], *, training: bool) -> dict[str, torch.Tensor]:
        """The sums, by the names of `weights`: here cross entropy over the labels that are not ignored."""
        import torch

        logits = model(input_ids=shown["input_ids"], attention_mask=shown["attention_mask"]).logits
        total = torch.nn.functional.cross_entropy(
            logits.float().flatten(0, -2), shown["labels"].flatten(), ignore_index=IGNORED, reduction="sum"
        )
        return {"loss": total}
