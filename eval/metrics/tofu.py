"""TOFU: what a model still knows of questions and answers, and how close it is to a model that
never saw the forgotten ones.

Each set is JSON lines with `question`, `answer`, `perturbed_answer` (a list of wrong ones) and
optionally `paraphrased_answer`; a file or a folder. Inputs are formatted as in training with one
document per row (`question`, line end, `answer`, and before them only what the tokenizer adds); the
end-of-text token after the answer is scored too. The formulas are in `../unlearning_metrics.py`.

`retrained` names the run that never saw the forget set; forget quality compares each checkpoint
with its last one. `again`, a second such run with another seed, is the noise floor: no unlearned
model can be expected to be closer than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, PrivateAttr

from sanitize.errors import InputRefused, UsageError, suggest_names
from sanitize.storage.files import parse_json, read_regular_file

from ..language_model import LanguageModel
from ..metric import EvalContext, Figure, Metric, MetricRow, MetricRows, make_epoch_figure
from ..run_folder import Checkpoint, RunFolder
from ..unlearning_metrics import (
    QUESTION_SETS,
    AnswerLosses,
    compare_models,
    compute_utilities,
    model_utility,
)
from .task import rouge


@dataclass(frozen=True, repr=False)
class Question:
    """A question with its answer, a paraphrase of it, and wrong ones."""

    question: str
    answer: str
    paraphrase: str
    perturbed: tuple[str, ...]


class Tofu(Metric):
    """Settings: the question sets, the maximum number of questions of each, and the runs to compare
    with."""

    retain: Path
    forget: Path
    real_authors: Path | None = None
    world_facts: Path | None = None
    retrained: str
    again: str | None = None
    most: int = Field(default=300, ge=1)  # TOFU evaluates 300 of the retain set
    new_tokens: int = Field(default=150, ge=1)
    batch: int = Field(default=32, ge=1)

    _question_sets: dict[str, list[Question]] = PrivateAttr(default_factory=dict)

    def setup(self, context: EvalContext) -> None:
        """Read the sets; InputRefused for one that lacks a field."""
        for name in QUESTION_SETS:
            if (path := getattr(self, name)) is not None:
                self._question_sets[name] = read_questions(path, self.most)

    def depends_on_run(self, checkpoint: Checkpoint) -> bool:
        """False: the questions are those of the suite."""
        return False

    def on_checkpoint(
        self, run: RunFolder, checkpoint: Checkpoint, model: LanguageModel
    ) -> dict[str, Any]:
        """Return the utilities of each set, the model utility, and ln R of every question of the
        forget set, in order."""
        answers = {
            name: answer_questions(model, questions, new_tokens=self.new_tokens, batch=self.batch)
            for name, questions in self._question_sets.items()
        }
        utilities = {name: compute_utilities(name, one) for name, one in answers.items()}
        return {
            "model_utility": model_utility(utilities),
            "sets": utilities,
            "questions": {name: len(questions) for name, questions in self._question_sets.items()},
            "log_r": [float(value) for value in answers["forget"].log_r],
        }

    def aggregate(self, rows: MetricRows) -> dict[str, Any]:
        """Return forget quality and distances to the retrained run for every other run, at each
        checkpoint and at the last."""
        for name in (self.retrained, self.again):
            if name is not None and name not in rows:
                raise UsageError(f"tofu: there is no run {name!r}; {suggest_names(name, rows)}")
        target = _read_log_r(rows[self.retrained][-1])
        results: dict[str, Any] = {}
        for name, run_rows in rows.items():
            if name != self.retrained:
                found = [asdict(compare_models(_read_log_r(row), target)) for row in run_rows]
                results[name] = {
                    "each": found,
                    "final": found[-1],
                    "model_utility": run_rows[-1]["tofu"]["model_utility"],
                }
                results[name]["is_noise_floor"] = name == self.again
        results[self.retrained] = {
            "model_utility": rows[self.retrained][-1]["tofu"]["model_utility"]
        }
        return results

    def build_figures(self, rows: MetricRows, aggregated: Any) -> list[Figure]:
        """Return figures of model utility and of forget quality (decimal logarithm) over the
        epochs."""
        drawn = [
            make_epoch_figure(
                rows, lambda row: row["tofu"]["model_utility"], "Model utility", "harmonic mean"
            )
        ]
        quality = {
            name: [
                {**row, "quality": found["forget_quality"]}
                for row, found in zip(rows[name], result["each"], strict=True)
            ]
            for name, result in aggregated.items()
            if "each" in result
        }
        drawn.append(
            make_epoch_figure(
                quality,
                lambda row: float(np.log10(max(row["quality"], 1e-30))),
                "Forget quality",
                "log10 of the p-value",
            )
        )
        return drawn


def _read_log_r(row: MetricRow) -> Any:
    return np.array(row["tofu"]["log_r"], np.float64)


def read_questions(path: str | Path, most: int | None = None) -> list[Question]:
    """Read the questions of a JSON lines file, or of all such files in a folder; the first `most`
    of them."""
    source = Path(path)
    files = sorted(source.glob("*.jsonl")) if source.is_dir() else [source]
    found: list[Question] = []
    for file in files:
        try:
            # not `splitlines`: JSON strings may have other line ends as they are
            lines = read_regular_file(file).decode().split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"{file}: cannot be read ({type(error).__name__}); expected questions as JSON lines"
            ) from None
        for number, line in enumerate(lines, 1):
            if line.strip():
                found.append(_parse_question(line, f"{file}, line {number}"))
    if not found:
        raise InputRefused(
            f"{source}: holds no questions; expected JSON lines with question, answer and"
            " perturbed_answer"
        )
    return found[:most]


def _parse_question(line: str, where: str) -> Question:
    try:
        row = parse_json(line)
        wrong = row["perturbed_answer"]
        fields = (
            row["question"],
            row["answer"],
            row.get("paraphrased_answer") or row["answer"],
            tuple(wrong),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputRefused(
            f"{where}: expected an object with question, answer and perturbed_answer (a list)"
        ) from None
    if (
        isinstance(wrong, str)
        or not wrong
        or not all(isinstance(text, str) and text for text in (*fields[:3], *fields[3]))
    ):
        raise InputRefused(
            f"{where}: question, answers and wrong answers must be strings that are not empty"
        )
    return Question(*fields)


def answer_questions(
    model: LanguageModel, questions: Sequence[Question], *, new_tokens: int = 150, batch: int = 32
) -> AnswerLosses:
    """Compute the losses of answers, paraphrases and wrong answers, and the ROUGE-L recall of the
    model's greedy answers."""
    if len({len(one.perturbed) for one in questions}) != 1:
        raise InputRefused(
            "questions of one set have different numbers of wrong answers; expected the same for"
            " each"
        )
    heads = [one.question + "\n" for one in questions]
    prompts = model.encode(heads)
    lead, end = model.leading_ids, [model.eos_id if model.eos_id is not None else model.pad_id]
    texts = [[one.answer, one.paraphrase, *one.perturbed] for one in questions]
    texts_per_question = len(texts[0])
    tails = model.encode([text for row in texts for text in row])
    sequences = [
        lead + prompts[number // texts_per_question] + tail + end
        for number, tail in enumerate(tails)
    ]
    losses = model.token_losses(sequences, batch=batch)
    means = np.array(
        [
            float(loss[-len(tail) - 1 :].astype(np.float64).mean())
            for loss, tail in zip(losses, tails, strict=True)
        ]
    )
    means = means.reshape(len(questions), texts_per_question)
    rows = [lead + prompt for prompt in prompts]
    free_tokens = model.context_length - max(map(len, rows))
    generated = model.decode(
        model.generate(rows, new_tokens=max(1, min(new_tokens, free_tokens)), batch=batch)
    )
    recall = [
        rouge(text, one.answer).recall for text, one in zip(generated, questions, strict=True)
    ]
    return AnswerLosses(
        answer=means[:, 0],
        paraphrase=means[:, 1],
        perturbed=means[:, 2:],
        rouge_recall=np.array(recall, np.float64),
    )
