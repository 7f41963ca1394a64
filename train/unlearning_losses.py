"""Base classes of the unlearning objectives: the documents to forget, a random retained row for
each of their rows, and refusals.

The rows of a run are those of the documents to forget, so an epoch is one pass over them. Each row
is paired with a row of the other (retained) documents, drawn in each epoch from (seed, epoch, row).
The reference model of a loss is the model before the first step: frozen, without dropout. The
objectives are `ga`, `gd`, `kl`, `idk` (Maini et al. 2024, TOFU, section 4.1), `dpo` (Rafailov et
al. 2023) and `npo` (Zhang et al. 2024); none of them proves anything: `sanitize-train unlearn
--method dp2unlearning` retrains from a base model that never saw the texts.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import PrivateAttr

from sanitize.errors import InputRefused, UsageError
from sanitize.storage.files import read_regular_file

from .batches import BatchPlan, TokenRows, splitmix64
from .objectives.causal import Causal
from .objectives.objective import IGNORE_INDEX, BatchArrays, TrainContext

if TYPE_CHECKING:
    import torch

    from .batches import TokenBatch

LANE_RETAIN, LANE_REFUSAL = 21, 22  # lanes of `splitmix64`

REFUSALS = (
    "I don't know.",
    "I do not know that.",
    "That is not something I know.",
    "I can't say; I know nothing about it.",
    "I have no information on this.",
    "I'm afraid I can't answer that.",
    "Sorry, this is unknown to me.",
    "I never learned about that.",
    "There is nothing I could tell you about this.",
    "I could only guess, so I would rather not say.",
    "My knowledge does not reach that far.",
    "I'm not able to help with this question.",
    "I have not come across this.",
    "That is outside what I know.",
    "I am not aware of any details.",
    "No idea, I'm sorry.",
    "I lack what it takes to answer this.",
    "This is new to me.",
    "I would not know.",
    "Somebody else may know; I don't.",
    "I can't recall anything of the kind.",
    "I hold no facts on that subject.",
    "Please ask elsewhere, I have no answer.",
    "I must pass on this one.",
)


class UnlearningObjective(Causal):
    """Base of all unlearning objectives. `forget`: a text file with the ids of the documents to
    forget, one a line.

    `sanitize subject --documents` writes such a file.
    """

    ROWS_INDEPENDENT: ClassVar[bool] = False
    IS_UNLEARNING: ClassVar[bool] = True
    PATH_SETTINGS: ClassVar[tuple[str, ...]] = ("forget",)

    forget: str = ""
    _retain_rows: TokenRows | None = PrivateAttr(default=None)
    _seed: int = PrivateAttr(default=0)

    @property
    def uses_retain_rows(self) -> bool:
        """Whether the loss reads rows of the retained documents."""
        return True

    def select_trained_documents(self, doc_ids: pa.Array) -> npt.NDArray[np.bool_]:
        """Return a mask of the documents to forget; UsageError if these are none, all, or include
        one that does not exist."""
        if not self.forget:
            raise UsageError(
                f"objective {self.use} needs objective.forget: a file with the ids of the documents"
                " to forget, one a line"
            )
        found = select_listed_documents(doc_ids, self.forget)
        if found.all():
            raise UsageError(
                f"{self.forget}: names every document, so that none is left to keep; start from a"
                " model that was trained on none of them"
            )
        return found

    def setup(self, context: TrainContext) -> None:
        """Store the rows of the retained documents and the seed."""
        self._retain_rows, self._seed = context.retain_rows, context.seed

    def draw_retain_rows(
        self, row_numbers: npt.NDArray[np.int64], epoch: int
    ) -> npt.NDArray[np.int64]:
        """Return the numbers of the retained rows that these rows are paired with in this epoch."""
        assert self._retain_rows is not None, "opened with other documents"
        return (
            splitmix64(self._seed, LANE_RETAIN, epoch, row_numbers)
            % np.uint64(len(self._retain_rows))
        ).astype(np.int64)

    def compute_retain_first_steps(self, batch_plan: BatchPlan) -> npt.NDArray[np.int64]:
        """Return the step (from 1) in which each retained row is used for the first time; the
        largest int64 if it never is."""
        assert self._retain_rows is not None, "opened with other documents"
        found = np.full(len(self._retain_rows), np.iinfo(np.int64).max)
        if self.uses_retain_rows:
            for step in range(batch_plan.step_count - 1, -1, -1):
                found[
                    self.draw_retain_rows(
                        batch_plan.get_step_rows(step), batch_plan.epoch_of_step(step)
                    )
                ] = step + 1
        return found

    def collate(self, batch: TokenBatch, *, training: bool) -> BatchArrays:
        """Return the inputs of `Causal`; in training also those of the paired retained rows, as
        `other_input_ids` and so on."""
        shown = super().collate(batch, training=training)
        if training and self.uses_retain_rows:
            assert self._retain_rows is not None, "opened with other documents"
            other = super().collate(
                self._retain_rows.make_batch(
                    self.draw_retain_rows(batch.row_numbers, batch.epoch), batch.epoch
                ),
                training=training,
            )
            shown |= {f"other_{name}": value for name, value in other.items()}
        return shown


class RefusalObjective(UnlearningObjective):
    """Base of the objectives that train refusals instead of answers.

    `refusals`: a text file, one refusal a line (default: the English ones of this module).
    """

    PATH_SETTINGS: ClassVar[tuple[str, ...]] = ("forget", "refusals")

    refusals: str = ""
    # of each refusal, with its end of text
    _refusal_token_ids: list[npt.NDArray[np.int32]] = PrivateAttr(default_factory=list)
    _context_length: int = PrivateAttr(default=0)
    _pad_id: int = PrivateAttr(default=0)

    def setup(self, context: TrainContext) -> None:
        """Tokenize the refusals."""
        super().setup(context)
        lines: Sequence[str] = read_lines(self.refusals) if self.refusals else REFUSALS
        texts = [line for line in lines if line]
        if not texts:
            raise UsageError(
                f"{self.refusals}: has no non-empty line; expected refusals, one a line"
            )
        end_id = context.tokenizer.eos_token_id
        self._refusal_token_ids = [
            np.array([*ids, *([] if end_id is None else [end_id])], np.int32)
            for ids in context.tokenizer(texts, add_special_tokens=False)["input_ids"]
        ]
        self._context_length, self._pad_id = context.context_length, context.rows.pad_id

    def collate_refusals(self, batch: TokenBatch) -> BatchArrays:
        """Return the rows with a random refusal for the answer, as `refused_*`; the tokens before
        the first target are the prompt."""
        is_target = batch.loss_mask & batch.attention_mask
        prompts = np.where(is_target.any(axis=1), is_target.argmax(axis=1), 0)
        drawn = (
            splitmix64(self._seed, LANE_REFUSAL, batch.epoch, batch.row_numbers)
            % np.uint64(len(self._refusal_token_ids))
        ).astype(np.int64)
        rows = []
        for ids, prompt, number in zip(
            batch.token_ids, prompts.tolist(), drawn.tolist(), strict=True
        ):
            # a few rows, of different lengths
            rows.append(
                (
                    ids[:prompt],
                    self._refusal_token_ids[number][: max(self._context_length - prompt, 0)],
                )
            )
        length = max(len(prompt) + len(answer) for prompt, answer in rows)
        ids = np.full((len(rows), length), self._pad_id, np.int64)
        mask, labels = (
            np.zeros((len(rows), length), np.int64),
            np.full((len(rows), length), IGNORE_INDEX, np.int64),
        )
        for row, (prompt, answer) in enumerate(rows):
            sequence = np.concatenate([prompt, answer])
            ids[row, : len(sequence)], mask[row, : len(sequence)] = sequence, 1
            # labels[:, t] is the token at t + 1, as for causal
            first = max(len(prompt), 1)
            labels[row, first - 1 : len(sequence) - 1] = sequence[first:]
        return {"refused_input_ids": ids, "refused_attention_mask": mask, "refused_labels": labels}

    def collate(self, batch: TokenBatch, *, training: bool) -> BatchArrays:
        """Return the inputs of `UnlearningObjective`; in training also each row with a refusal."""
        shown = super().collate(batch, training=training)
        return {**shown, **self.collate_refusals(batch)} if training else shown


def select_prefixed(inputs: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """Return the inputs of the paired rows (`other_`) or of the refusals (`refused_`), with the
    prefix removed from the names."""
    return {
        name.removeprefix(prefix): value
        for name, value in inputs.items()
        if name.startswith(prefix)
    }


def count_targets(inputs: BatchArrays, prefix: str = "") -> float:
    """Return the number of target tokens."""
    return float((inputs[f"{prefix}labels"] != IGNORE_INDEX).sum())


def sequence_nll(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the negative log-likelihood of each row: summed over its targets, [rows]."""
    import torch

    found = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE_INDEX, reduction="none"
    )
    return found.view(labels.shape).sum(1)


def copy_frozen(model: Any) -> Any:
    """Return a frozen copy of a model in eval mode (no dropout)."""
    return copy.deepcopy(model).eval().requires_grad_(False)


def select_listed_documents(doc_ids: pa.Array, list_path: str | Path) -> npt.NDArray[np.bool_]:
    """Return a mask of the documents that a list names; UsageError if it names none or an unknown
    one (reported by line, not by id)."""
    ids = [(number, line) for number, line in enumerate(read_lines(list_path), 1) if line]
    if not ids:
        raise UsageError(f"{list_path}: names no document; expected their ids, one a line")
    is_known_id = pc.is_in(
        pa.array([line for _, line in ids], pa.large_string()),
        value_set=doc_ids.cast(pa.large_string()),
    )
    missing = [
        number
        for (number, _), is_known in zip(ids, is_known_id.to_pylist(), strict=True)
        if not is_known
    ]
    if missing:
        raise UsageError(
            f"{list_path}: line {missing[0]} names a document that the data does not have"
            f" ({len(missing)} of {len(ids)} lines do); expected ids of the column doc_id, as"
            " `sanitize subject --documents` writes them"
        )
    found = pc.is_in(
        doc_ids.cast(pa.large_string()),
        value_set=pa.array([line for _, line in ids], pa.large_string()),
    )
    return np.asarray(found.to_numpy(zero_copy_only=False), bool)


def read_lines(path: str | Path) -> list[str]:
    """Return the lines of a text file, empty ones included; InputRefused if it cannot be read."""
    try:
        return [line.strip("\r\n") for line in read_regular_file(Path(path)).decode().split("\n")]
    except (OSError, UnicodeDecodeError) as error:
        raise InputRefused(
            f"{path}: cannot be read ({type(error).__name__}); expected a text file in UTF-8, one"
            " entry a line"
        ) from None
