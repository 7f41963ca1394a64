"""The unlearning losses: `ga`, `gd`, `kl`, `idk` (Maini et al. 2024, TOFU, section 4.1), `dpo`
(Rafailov et al. 2023) and `npo` (Zhang et al. 2024).

The rows of a run are those of the documents to forget, so an epoch is one pass over them. Each row
is paired with a row of the other (retained) documents, drawn in each epoch from (seed, epoch, row),
where the loss reads one. p0, the reference, is the model before the first step: frozen, without
dropout. NLL is a mean over tokens, log p a sum over a sequence. Validation losses are those of
`causal`. None of these losses proves anything: `sanitize-train unlearn --method dp2unlearning`
retrains from a base model that never saw the texts.

`quirk = "dp2u"` reproduces what the published code of DP2Unlearning computes.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field, PrivateAttr

from sanitize.errors import UsageError

from ..batches import BatchPlan, TokenRows, splitmix64
from ..corpus_reader import read_lines, select_listed_documents
from .causal import Causal
from .objective import IGNORE_INDEX, BatchArrays, TrainContext

if TYPE_CHECKING:
    import torch

    from ..batches import TokenBatch

Tensors = Mapping[str, "torch.Tensor"]
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
    _reference_model: Any = PrivateAttr(default=None)

    @property
    def reads_retained(self) -> bool:
        """Whether the loss reads rows of the retained documents."""
        return True

    @property
    def reads_reference(self) -> bool:
        """Whether the loss needs the model before the first step."""
        return False

    def count_terms(self, inputs: BatchArrays) -> dict[str, float]:
        """Return `loss_counts` of a training batch: here of the targets."""
        return {"loss": count_targets(inputs)}

    def sum_terms(self, model: Any, inputs: Tensors) -> dict[str, torch.Tensor]:
        """Return `loss_sums` of a training batch: here the cross entropy of the targets."""
        return {"loss": self.compute_nll(model, inputs).sum()}

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
        """Store the rows of the retained documents and the seed; copy the reference model."""
        self._retain_rows, self._seed = context.retain_rows, context.seed
        if self.reads_reference:
            self._reference_model = copy.deepcopy(context.model).eval().requires_grad_(False)

    def draw_retain_rows(
        self, row_numbers: npt.NDArray[np.int64], epoch: int
    ) -> npt.NDArray[np.int64]:
        """Return the numbers of the retained rows that these rows are paired with in this epoch."""
        assert self._retain_rows is not None, "opened with other documents"
        drawn = splitmix64(self._seed, LANE_RETAIN, epoch, row_numbers)
        return (drawn % np.uint64(len(self._retain_rows))).astype(np.int64)

    def compute_retain_first_steps(self, batch_plan: BatchPlan) -> npt.NDArray[np.int64]:
        """Return the step (from 1) in which each retained row is used for the first time; the
        largest int64 if it never is."""
        assert self._retain_rows is not None, "opened with other documents"
        found = np.full(len(self._retain_rows), np.iinfo(np.int64).max)
        for step in range(batch_plan.step_count - 1, -1, -1) if self.reads_retained else ():
            rows, epoch = batch_plan.get_step_rows(step), batch_plan.epoch_of_step(step)
            found[self.draw_retain_rows(rows, epoch)] = step + 1
        return found

    def collate(self, batch: TokenBatch, *, training: bool) -> BatchArrays:
        """Return the inputs of `Causal`; in training also those of the paired retained rows, as
        `other_input_ids` and so on."""
        inputs = super().collate(batch, training=training)
        if training and self.reads_retained:
            assert self._retain_rows is not None, "opened with other documents"
            numbers = self.draw_retain_rows(batch.row_numbers, batch.epoch)
            other = super().collate(
                self._retain_rows.make_batch(numbers, batch.epoch), training=training
            )
            inputs |= {f"other_{name}": value for name, value in other.items()}
        # which tells a training batch from one of a validation
        return {**inputs, "row_numbers": batch.row_numbers} if training else inputs

    def loss_counts(self, inputs: BatchArrays) -> dict[str, float]:
        """Return the counts of this loss; for a validation batch those of `Causal`."""
        return self.count_terms(inputs) if "row_numbers" in inputs else super().loss_counts(inputs)

    def loss_sums(
        self, model: Any, inputs: Mapping[str, torch.Tensor], *, training: bool
    ) -> dict[str, torch.Tensor]:
        """Return the sums of this loss; for a validation batch those of `Causal`."""
        if training:
            return self.sum_terms(model, inputs)
        return super().loss_sums(model, inputs, training=training)

    def compute_nll(self, model: Any, inputs: Tensors, prefix: str = "") -> torch.Tensor:
        """Return the negative log-likelihood of the rows, of their retained rows (`other_`) or of
        their refusals (`refused_`): summed over the targets of each, [rows]."""
        import torch

        part = select_prefixed(inputs, prefix)
        found = torch.nn.functional.cross_entropy(
            self.compute_logits(model, part).flatten(0, 1),
            part["labels"].flatten(),
            ignore_index=IGNORE_INDEX,
            reduction="none",
        )
        return found.view(part["labels"].shape).sum(1)


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
        inputs = super().collate(batch, training=training)
        return {**inputs, **self.collate_refusals(batch)} if training else inputs


class Ga(UnlearningObjective):
    """Unlearning by gradient ascent: makes the tokens of the documents to forget less likely.

    L = -NLL(forget). The loss has no lower bound: after a few epochs too many the model's language
    collapses.
    """

    @property
    def reads_retained(self) -> bool:
        """Always false."""
        return False

    def loss_weights(self) -> dict[str, float]:
        """Return weight -1 for `loss`."""
        return {"loss": -1.0}


class Gd(UnlearningObjective):
    """Unlearning by gradient difference: ascent on the documents to forget, descent on a random
    retained document for each row.

    L = -NLL(forget) + NLL(other). Loss terms: `loss` and `retain`.
    """

    def loss_weights(self) -> dict[str, float]:
        """Return weight -1 for `loss` and 1 for `retain`."""
        return {"loss": -1.0, "retain": 1.0}

    def count_terms(self, inputs: BatchArrays) -> dict[str, float]:
        """Return the number of targets of both terms."""
        return {**super().count_terms(inputs), "retain": count_targets(inputs, "other_")}

    def sum_terms(self, model: Any, inputs: Tensors) -> dict[str, torch.Tensor]:
        """Return the cross entropies."""
        forgotten = super().sum_terms(model, inputs)
        return {**forgotten, "retain": self.compute_nll(model, inputs, "other_").sum()}


class Kl(UnlearningObjective):
    """Unlearning by gradient ascent, with a KL divergence that keeps the model close to its
    reference on retained documents.

    L = -NLL(forget) + mean over positions of KL(p0 || p), prompts included. Loss terms: `loss` and
    `kl`. With the quirk both sides of the divergence are the live model: it is 0 without a
    gradient, and KL equals GA.
    """

    quirk: Literal["", "dp2u"] = ""

    @property
    def reads_reference(self) -> bool:
        """False with the quirk."""
        return not self.quirk

    def loss_weights(self) -> dict[str, float]:
        """Return weight -1 for `loss` and 1 for `kl`."""
        return {"loss": -1.0, "kl": 1.0}

    def count_terms(self, inputs: BatchArrays) -> dict[str, float]:
        """Return the number of targets, and of token positions of the retained documents."""
        positions = float(inputs["other_attention_mask"].sum())
        return {**super().count_terms(inputs), "kl": positions}

    def sum_terms(self, model: Any, inputs: Tensors) -> dict[str, torch.Tensor]:
        """Return the cross entropy, and the divergence summed over positions."""
        import torch

        forgotten, other = super().sum_terms(model, inputs), select_prefixed(inputs, "other_")
        log_probs = self.compute_logits(model, other).log_softmax(-1)
        reference_log_probs = log_probs
        if not self.quirk:
            with torch.no_grad():
                reference_log_probs = self.compute_logits(self._reference_model, other).log_softmax(
                    -1
                )
        divergence = torch.nn.functional.kl_div(
            log_probs, reference_log_probs, log_target=True, reduction="none"
        ).sum(-1)
        return {**forgotten, "kl": torch.where(other["attention_mask"] > 0, divergence, 0.0).sum()}


class Idk(RefusalObjective):
    """Unlearning by preference optimisation: trains a refusal in place of the answer, together with
    a random retained document.

    L = mean over the tokens of both of NLL(refusal | prompt), NLL(other) (TOFU's "idk"). If there
    are prompts, `data.answers_only` must be set.
    """

    def count_terms(self, inputs: BatchArrays) -> dict[str, float]:
        """Return the number of targets of refusals and retained documents together."""
        return {"loss": count_targets(inputs, "refused_") + count_targets(inputs, "other_")}

    def sum_terms(self, model: Any, inputs: Tensors) -> dict[str, torch.Tensor]:
        """Return the cross entropy, summed over both."""
        refused, other = (
            self.compute_nll(model, inputs, prefix).sum() for prefix in ("refused_", "other_")
        )
        return {"loss": refused + other}


class Dpo(RefusalObjective):
    """Unlearning by direct preference optimisation: trains the model to prefer a refusal to the
    answer, relative to a reference model.

    L = mean over rows of -log sigmoid(beta ((log p(refusal) - log p(answer)) - (log p0(refusal) -
    log p0(answer)))), equation 7 of Rafailov et al. `beta` is .1 as in TOFU. The quirk has the
    opposite sign, the live model as its reference, which cancels, and a retained document in place
    of the answer, L = -log sigmoid(beta (NLL(refusal) - NLL(other))): refusals become less likely.
    """

    beta: float = Field(default=0.1, gt=0)
    quirk: Literal["", "dp2u"] = ""

    @property
    def reads_retained(self) -> bool:
        """True with the quirk only."""
        return bool(self.quirk)

    @property
    def reads_reference(self) -> bool:
        """False with the quirk."""
        return not self.quirk

    def count_terms(self, inputs: BatchArrays) -> dict[str, float]:
        """Return the number of rows."""
        return {"loss": float(len(inputs["labels"]))}

    def sum_terms(self, model: Any, inputs: Tensors) -> dict[str, torch.Tensor]:
        """Return the loss, summed over rows."""
        import torch

        def log_ratio(scored_model: Any, first: str, second: str) -> torch.Tensor:
            return self.compute_nll(scored_model, inputs, first) - self.compute_nll(
                scored_model, inputs, second
            )

        if self.quirk:
            margin = log_ratio(model, "refused_", "other_")
        else:
            with torch.no_grad():
                reference_log_ratio = log_ratio(self._reference_model, "", "refused_")
            margin = log_ratio(model, "", "refused_") - reference_log_ratio
        return {"loss": -torch.nn.functional.logsigmoid(self.beta * margin).sum()}


class Npo(UnlearningObjective):
    """Unlearning by negative preference optimisation: makes the answers of the documents to forget
    less likely relative to a reference model, by a loss that levels off once they are unlikely.

    L = mean over rows of -(2 / beta) log sigmoid(-beta (log p(answer) - log p0(answer))) + retain
    NLL(other), equation 3 and section 4 (NPO+RT) of Zhang et al. The gradient is that of gradient
    ascent times a weight that begins at 1 and falls towards 0 as an answer becomes unlikely. `beta`
    is .1 as in the paper; with `retain` = 0 no retained documents are read.
    """

    beta: float = Field(default=0.1, gt=0)
    retain: float = Field(default=1.0, ge=0)

    @property
    def reads_retained(self) -> bool:
        """Whether the retained documents have a weight."""
        return self.retain > 0

    @property
    def reads_reference(self) -> bool:
        """Always true."""
        return True

    def loss_weights(self) -> dict[str, float]:
        """Return the weight of the retained documents."""
        return {"retain": self.retain}

    def count_terms(self, inputs: BatchArrays) -> dict[str, float]:
        """Return the number of rows, and of targets of the retained documents."""
        kept = {"retain": count_targets(inputs, "other_")} if self.reads_retained else {}
        return {"loss": float(len(inputs["labels"])), **kept}

    def sum_terms(self, model: Any, inputs: Tensors) -> dict[str, torch.Tensor]:
        """Return the preference loss summed over rows, and the cross entropy of the retained
        documents summed over targets."""
        import torch

        with torch.no_grad():
            reference_nll = self.compute_nll(self._reference_model, inputs)
        margin = self.beta * (self.compute_nll(model, inputs) - reference_nll)
        found = {"loss": -2 / self.beta * torch.nn.functional.logsigmoid(margin).sum()}
        if self.reads_retained:
            found["retain"] = self.compute_nll(model, inputs, "other_").sum()
        return found


def select_prefixed(inputs: Tensors, prefix: str) -> dict[str, torch.Tensor]:
    """Return the inputs whose names have the prefix, without it."""
    return {
        name.removeprefix(prefix): value
        for name, value in inputs.items()
        if name.startswith(prefix)
    }


def count_targets(inputs: BatchArrays, prefix: str = "") -> float:
    """Return the number of target tokens."""
    return float((inputs[f"{prefix}labels"] != IGNORE_INDEX).sum())
