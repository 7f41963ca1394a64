"""What unlearning objectives share: which documents are to be forgotten, and a random other one beside each of them.

A run's rows are those of the documents to forget, so an epoch is a pass over them; beside each row stands one of the other documents, drawn
anew in each epoch from (seed, epoch, row). The model before the first step is the *oracle* where a loss asks for one: frozen, without
dropout. The objectives are `ga`, `gd`, `kl`, `idk` and `dpo` (Maini et al. 2024, TOFU, section 4.1, and Rafailov et al. 2023); none of them
proves anything: `sanitize-train unlearn --method dp2unlearning` retrains from a base model that never saw the texts.
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

from .batches import Plan, Rows, mixed
from .objectives.causal import Causal
from .objectives.objective import IGNORED, Arrays, Stage

if TYPE_CHECKING:
    import torch

    from .batches import Batch

BESIDE, REFUSAL = 21, 22  # lanes of `mixed`

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


class Forgetting(Causal):
    """`forget`: a text file with the ids of the documents to forget, one a line, as `sanitize subject --documents` writes it."""

    SEPARABLE: ClassVar[bool] = False
    FORGETS: ClassVar[bool] = True

    forget: str = ""
    _others: Rows | None = PrivateAttr(default=None)
    _seed: int = PrivateAttr(default=0)

    @property
    def beside(self) -> bool:
        """Whether the loss reads the other documents."""
        return True

    def paths(self) -> Mapping[str, str]:
        """The list counts by what it holds."""
        return {"forget": self.forget} if self.forget else {}

    def trained_on(self, doc_ids: pa.Array) -> npt.NDArray[np.bool_]:
        """Which documents are to be forgotten; UsageError where there are none, all, or one that does not exist."""
        if not self.forget:
            raise UsageError(f"objective {self.use} needs objective.forget: a file with ids of documents, one a line")
        found = named(doc_ids, self.forget)
        if found.all():
            raise UsageError(f"{self.forget}: names every document, so that none is left to keep; start from a model that saw none of them")
        return found

    def open(self, stage: Stage) -> None:
        """Keep the other documents' rows."""
        self._others, self._seed = stage.others, stage.seed

    def partners(self, numbers: npt.NDArray[np.int64], epoch: int) -> npt.NDArray[np.int64]:
        """The rows of other documents that stand beside these rows in this epoch."""
        assert self._others is not None, "opened with other documents"
        return (mixed(self._seed, BESIDE, epoch, numbers) % np.uint64(len(self._others))).astype(np.int64)

    def beside_steps(self, plan: Plan) -> npt.NDArray[np.int64]:
        """After which step (from 1) each row of the other documents had been shown for the first time."""
        assert self._others is not None, "opened with other documents"
        found = np.full(len(self._others), np.iinfo(np.int64).max)
        if self.beside:
            for step in range(plan.steps - 1, -1, -1):
                found[self.partners(plan.step(step), plan.epoch_of(step))] = step + 1
        return found

    def shown(self, batch: Batch, *, training: bool) -> Arrays:
        """As causal; while training, also the row beside each, as `other_input_ids` and so on."""
        shown = super().shown(batch, training=training)
        if training and self.beside:
            assert self._others is not None, "opened with other documents"
            other = super().shown(self._others.batch(self.partners(batch.numbers, batch.epoch), batch.epoch), training=training)
            shown |= {f"other_{name}": value for name, value in other.items()}
        return shown


class Refusing(Forgetting):
    """A forgetting in which refusals stand for answers. `refusals`: a text file, one a line (default: English ones of this package)."""

    refusals: str = ""
    _ids: list[npt.NDArray[np.int32]] = PrivateAttr(default_factory=list)  # of each refusal, with its end of text
    _context: int = PrivateAttr(default=0)
    _pad: int = PrivateAttr(default=0)

    def paths(self) -> Mapping[str, str]:
        """Both lists count by what they hold."""
        return {**super().paths(), **({"refusals": self.refusals} if self.refusals else {})}

    def open(self, stage: Stage) -> None:
        """Make tokens of the refusals."""
        super().open(stage)
        said: Sequence[str] = lines(self.refusals) if self.refusals else REFUSALS
        texts = [line for line in said if line]
        if not texts:
            raise UsageError(f"{self.refusals}: holds no line; expected refusals, one a line")
        end = stage.tokenizer.eos_token_id
        self._ids = [
            np.array([*ids, *([] if end is None else [end])], np.int32)
            for ids in stage.tokenizer(texts, add_special_tokens=False)["input_ids"]
        ]
        self._context, self._pad = stage.context, stage.rows.pad_id

    def refused(self, batch: Batch) -> Arrays:
        """The rows with a random refusal in place of the answer: what stands before the first token of a loss (the prompt) stays."""
        kept = batch.keep & batch.mask
        prompts = np.where(kept.any(axis=1), kept.argmax(axis=1), 0)
        drawn = (mixed(self._seed, REFUSAL, batch.epoch, batch.numbers) % np.uint64(len(self._ids))).astype(np.int64)
        rows = []
        for ids, prompt, number in zip(batch.ids, prompts.tolist(), drawn.tolist(), strict=True):  # a few rows, of different lengths
            rows.append((ids[:prompt], self._ids[number][: max(self._context - prompt, 0)]))
        length = max(len(prompt) + len(answer) for prompt, answer in rows)
        ids = np.full((len(rows), length), self._pad, np.int64)
        mask, labels = np.zeros((len(rows), length), np.int64), np.full((len(rows), length), IGNORED, np.int64)
        for row, (prompt, answer) in enumerate(rows):
            whole = np.concatenate([prompt, answer])
            ids[row, : len(whole)], mask[row, : len(whole)] = whole, 1
            # labels[:, t] is the token at t + 1, as for causal
            first = max(len(prompt), 1)
            labels[row, first - 1 : len(whole) - 1] = whole[first:]
        return {"refused_input_ids": ids, "refused_attention_mask": mask, "refused_labels": labels}

    def shown(self, batch: Batch, *, training: bool) -> Arrays:
        """As every forgetting; while training, also each row with its refusal."""
        shown = super().shown(batch, training=training)
        return {**shown, **self.refused(batch)} if training else shown


def part(shown: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """What is shown of the rows beside (`other_`) or of the refusals (`refused_`), by plain names."""
    return {name.removeprefix(prefix): value for name, value in shown.items() if name.startswith(prefix)}


def targets(shown: Arrays, prefix: str = "") -> float:
    """How many tokens are asked for."""
    return float((shown[f"{prefix}labels"] != IGNORED).sum())


def nll(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Minus the log-probability of each row's targets together, [rows]."""
    import torch

    found = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="none")
    return found.view(labels.shape).sum(1)


def oracle(model: Any) -> Any:
    """A frozen copy of a model, without dropout."""
    return copy.deepcopy(model).eval().requires_grad_(False)


def named(doc_ids: pa.Array, path: str | Path) -> npt.NDArray[np.bool_]:
    """Which of these documents a list names; UsageError where it names none, or one that is not among them (by line, not by id)."""
    ids = [(number, line) for number, line in enumerate(lines(path), 1) if line]
    if not ids:
        raise UsageError(f"{path}: names no document; expected their ids, one a line")
    there = pc.is_in(pa.array([line for _, line in ids], pa.large_string()), value_set=doc_ids.cast(pa.large_string()))
    missing = [number for (number, _), known in zip(ids, there.to_pylist(), strict=True) if not known]
    if missing:
        raise UsageError(
            f"{path}: line {missing[0]} names a document that the data does not have ({len(missing)} of {len(ids)} lines do); "
            "expected ids of the column doc_id, as `sanitize subject --documents` writes them"
        )
    found = pc.is_in(doc_ids.cast(pa.large_string()), value_set=pa.array([line for _, line in ids], pa.large_string()))
    return np.asarray(found.to_numpy(zero_copy_only=False), bool)


def lines(path: str | Path) -> list[str]:
    """The lines of a text file, empty ones too; InputRefused where it cannot be read."""
    try:
        return [line.strip("\r\n") for line in Path(path).read_text("utf-8").split("\n")]
    except (OSError, UnicodeDecodeError) as error:
        raise InputRefused(f"{path}: cannot be read ({type(error).__name__}); expected a text file in UTF-8, one entry a line") from None
