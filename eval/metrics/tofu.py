"""What a model still knows of questions and answers, and whether those it was to forget look as if it had never seen them: TOFU.

Each set is JSON lines with `question`, `answer`, `perturbed_answer` (a list of wrong ones) and, where there is one, `paraphrased_answer`; a
file or a folder. A question stands before its answer as training puts it there in rows of one document (`question`, line end, `answer`, and
nothing before them but what the tokenizer adds), the end-of-text token behind it is scored too. The formulas are in `../forgetting.py`.

`retrained` names the run that never saw the forget set; forget quality compares each checkpoint with its last. `again`, a second such run
under another seed, is the noise floor: no unlearned model can be expected to come nearer than that.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, PrivateAttr

from sanitize.errors import InputRefused, UsageError, nearest

from ..language_model import Model
from ..metric import Figure, Ground, Metric, Row, Rows, by_epoch
from ..run_folder import Checkpoint, Run
from ..unlearning_metrics import SETS, Answers, compared, model_utility, utilities
from .task import rouge


@dataclass(frozen=True, repr=False)
class Question:
    """A question with its answer, a paraphrase of it, and wrong ones."""

    question: str
    answer: str
    paraphrase: str
    wrong: tuple[str, ...]


class Tofu(Metric):
    """Which sets are asked, how many questions of each at most, and which runs are compared with."""

    retain: Path
    forget: Path
    real_authors: Path | None = None
    world_facts: Path | None = None
    retrained: str
    again: str | None = None
    most: int = Field(default=300, ge=1)  # TOFU evaluates 300 of the retain set
    new_tokens: int = Field(default=150, ge=1)
    batch: int = Field(default=32, ge=1)

    _sets: dict[str, list[Question]] = PrivateAttr(default_factory=dict)

    def open(self, ground: Ground) -> None:
        """Read the sets; InputRefused for one that lacks a field."""
        for name in SETS:
            if (path := getattr(self, name)) is not None:
                self._sets[name] = read_questions(path, self.most)

    def at(self, run: Run, checkpoint: Checkpoint, model: Model) -> dict[str, Any]:
        """The utilities of each set, model utility, and ln R of every question of the forget set, in its order."""
        answers = {name: answered(model, questions, new_tokens=self.new_tokens, batch=self.batch) for name, questions in self._sets.items()}
        told = {name: utilities(name, one) for name, one in answers.items()}
        return {
            "model_utility": model_utility(told),
            "sets": told,
            "questions": {name: len(questions) for name, questions in self._sets.items()},
            "log_r": [float(value) for value in answers["forget"].log_r],
        }

    def over(self, rows: Rows) -> dict[str, Any]:
        """Forget quality and distances to the retrained run, checkpoint by checkpoint and at the last, of every other run."""
        for name in (self.retrained, self.again):
            if name is not None and name not in rows:
                raise UsageError(f"tofu: there is no run {name!r}; {nearest(name, rows)}")
        target = _log_r(rows[self.retrained][-1])
        told: dict[str, Any] = {}
        for name, each in rows.items():
            if name != self.retrained:
                found = [asdict(compared(_log_r(row), target)) for row in each]
                told[name] = {"each": found, "final": found[-1], "model_utility": each[-1]["tofu"]["model_utility"]}
                told[name]["is_noise_floor"] = name == self.again
        told[self.retrained] = {"model_utility": rows[self.retrained][-1]["tofu"]["model_utility"]}
        return told

    def figures(self, rows: Rows, over: Any) -> list[Figure]:
        """Model utility over the epochs, and forget quality (its decimal logarithm)."""
        drawn = [by_epoch(rows, lambda row: row["tofu"]["model_utility"], "Model utility", "harmonic mean")]
        quality = {
            name: [{**row, "quality": found["forget_quality"]} for row, found in zip(rows[name], told["each"], strict=True)]
            for name, told in over.items()
            if "each" in told
        }
        drawn.append(by_epoch(quality, lambda row: float(np.log10(max(row["quality"], 1e-30))), "Forget quality", "log10 of the p-value"))
        return drawn


def _log_r(row: Row) -> Any:
    return np.array(row["tofu"]["log_r"], np.float64)


def read_questions(path: str | Path, most: int | None = None) -> list[Question]:
    """The questions of a JSON lines file, or of all such files in a folder, the first `most` of them."""
    place = Path(path)
    files = sorted(place.glob("*.jsonl")) if place.is_dir() else [place]
    found: list[Question] = []
    for file in files:
        try:
            lines = file.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{file}: cannot be read ({type(error).__name__}); expected questions as JSON lines") from None
        for number, line in enumerate(lines, 1):
            if line.strip():
                found.append(_question(line, f"{file}, line {number}"))
    if not found:
        raise InputRefused(f"{place}: holds no questions; expected JSON lines with question, answer and perturbed_answer")
    return found[:most]


def _question(line: str, where: str) -> Question:
    try:
        row = json.loads(line)
        wrong = row["perturbed_answer"]
        told = (row["question"], row["answer"], row.get("paraphrased_answer") or row["answer"], tuple(wrong))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputRefused(f"{where}: expected an object with question, answer and perturbed_answer (a list)") from None
    if isinstance(wrong, str) or not wrong or not all(isinstance(text, str) and text for text in (*told[:3], *told[3])):
        raise InputRefused(f"{where}: question, answers and wrong answers are texts that are not empty")
    return Question(*told)


def answered(model: Model, questions: Sequence[Question], *, new_tokens: int = 150, batch: int = 32) -> Answers:
    """Losses of the answers, paraphrases and wrong answers of some questions, and ROUGE-L recall of what the model says (greedy)."""
    if len({len(one.wrong) for one in questions}) != 1:
        raise InputRefused("questions of one set have different numbers of wrong answers; expected the same for each")
    heads = [one.question + "\n" for one in questions]
    prompts = model.encode(heads)
    lead, end = model.lead, [model.eos if model.eos is not None else model.pad]
    texts = [[one.answer, one.paraphrase, *one.wrong] for one in questions]
    wide = len(texts[0])
    tails = model.encode([text for row in texts for text in row])
    sequences = [lead + prompts[number // wide] + tail + end for number, tail in enumerate(tails)]
    losses = model.token_losses(sequences, batch=batch)
    means = np.array([float(loss[-len(tail) - 1 :].astype(np.float64).mean()) for loss, tail in zip(losses, tails, strict=True)])
    means = means.reshape(len(questions), wide)
    rows = [lead + prompt for prompt in prompts]
    room = model.context - max(map(len, rows))
    said = model.decode(model.generate(rows, new_tokens=max(1, min(new_tokens, room)), batch=batch))
    recall = [rouge(text, one.answer).recall for text, one in zip(said, questions, strict=True)]
    return Answers(answer=means[:, 0], paraphrase=means[:, 1], wrong=means[:, 2:], recall=np.array(recall, np.float64))
