"""Performance on downstream tasks: accuracy, F1, exact match, ROUGE, and the prompt templates of
the tasks.

Exact match and token F1 are those of SQuAD (lower case, punctuation and articles removed, the best
of several references); ROUGE-1, -2 and -L are those of `rouge_score` with its stemmer. The
templates are those of Slack and Al Moubayed, appendix A: `prompt` has the instruction (instruction
tuning), `plain_prompt` is the same input without it (domain adaptation). The paper measures Alpaca
by a preference of GPT-4, for which there is no substitute here; its template uses ROUGE-L, and the
result is named so.

Pure functions of strings; scores are shares in 0..1, and 0.0 for empty inputs.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import polars as pl
from pydantic import Field, PrivateAttr

from sanitize.errors import MissingExtra, UsageError, suggest_names
from sanitize.train.corpus_reader import read_table

from ..language_model import LanguageModel
from ..metric import EvalContext, Figure, Metric, MetricRows, make_epoch_figure
from ..run_folder import Checkpoint, RunFolder

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True, kw_only=True)
class TaskTemplate:
    """How an example is formatted, with and without the instruction, and how answers are scored."""

    prompt: str
    plain_prompt: str
    metrics: tuple[str, ...]
    labels: tuple[str, ...] = ()

    def format_input(self, fields: Mapping[str, str], *, instruction: bool = True) -> str:
        """Return the input of an example; the answer follows after a blank. ValueError for a
        missing field."""
        try:
            return (self.prompt if instruction else self.plain_prompt).format_map(fields)
        except KeyError as missing:
            raise ValueError(
                f"the template has a field {missing}; the example has"
                f" {', '.join(sorted(fields)) or 'none'}"
            ) from None


TASK_TEMPLATES: Mapping[str, TaskTemplate] = {
    "sst5": TaskTemplate(
        prompt="Sentence: {sentence} - What is the sentiment?",
        plain_prompt="{sentence}",
        metrics=("accuracy",),
        labels=("very negative", "negative", "neutral", "positive", "very positive"),
    ),
    "qqp": TaskTemplate(
        prompt="Q1: {q1}\nQ2: {q2} - Duplicate? Yes/No.",
        plain_prompt="{q1}\n{q2}",
        metrics=("accuracy", "f1"),
        labels=("Yes", "No"),
    ),
    "rte": TaskTemplate(
        prompt="Premise: {premise} Hypothesis: {hypothesis} - Entailed? Yes/No.",
        plain_prompt="{premise} {hypothesis}",
        metrics=("accuracy",),
        labels=("Yes", "No"),
    ),
    "wanli": TaskTemplate(
        prompt=(
            "Premise: {premise}, Hypothesis: {hypothesis}, Label: entail / neutral / contradict."
        ),
        plain_prompt="{premise} {hypothesis}",
        metrics=("accuracy",),
        labels=("entail", "neutral", "contradict"),
    ),
    "squad_v2": TaskTemplate(
        prompt="Context: {context} Question: {question} Answer:",
        plain_prompt="{context} {question}",
        metrics=("exact_match", "token_f1"),
    ),
    "hellaswag": TaskTemplate(
        prompt="Story: {context} A: {a} B: {b} C: {c} D: {d} Which ending (A-D) is most plausible?",
        plain_prompt="{context} {a} {b} {c} {d}",
        metrics=("accuracy",),
        labels=("A", "B", "C", "D"),
    ),
    "pubmed_qa": TaskTemplate(
        prompt="Abstract: {abstract} Question: {question} Answer (yes/no/maybe):",
        plain_prompt="{abstract} {question}",
        metrics=("accuracy",),
        labels=("yes", "no", "maybe"),
    ),
    "xsum": TaskTemplate(
        prompt="Article: {document}\nWrite a one-sentence summary:",
        plain_prompt="{document}",
        metrics=("rouge1", "rouge2", "rougeL"),
    ),
    "cnn_dailymail": TaskTemplate(
        prompt="Article: {document} Summarize concisely:",
        plain_prompt="{document}",
        metrics=("rouge1", "rouge2", "rougeL"),
    ),
    "alpaca": TaskTemplate(
        prompt="Instruction: {instruction}, Input: {input}, Response:",
        plain_prompt="{input}",
        metrics=("rougeL",),
    ),
    "flan_v2": TaskTemplate(
        prompt="Instruction: {task} Input: {input} Answer:",
        plain_prompt="{input}",
        metrics=("exact_match", "token_f1", "rougeL"),
    ),
}


class DownstreamTask(Metric):
    """Settings of a task: examples in Parquet or JSON lines, with a column for each field of the
    template and one for the answer."""

    examples: Path
    template: str
    answer_column: str = "answer"
    instruction: bool = True  # with the instruction, or the plain input
    new_tokens: int = Field(default=20, ge=1)
    batch: int = Field(default=64, ge=1)

    _prompts: list[str] = PrivateAttr(default_factory=list)
    _answers: list[str] = PrivateAttr(default_factory=list)

    def setup(self, context: EvalContext) -> None:
        """Read the examples; UsageError for an unknown template, a missing file or column, and
        without a row."""
        if self.template not in TASK_TEMPLATES:
            raise UsageError(
                f"task.template = {self.template!r}: {suggest_names(self.template, TASK_TEMPLATES)}"
            )
        if not self.examples.is_file():
            raise UsageError(
                f"{self.examples}: no such file; expected Parquet or JSON lines with the template's"
                f" fields and {self.answer_column}"
            )
        frame = pl.DataFrame(pl.from_arrow(read_table(self.examples)))
        # a template has texts and numbers
        frame = frame.select(name for name, kind in frame.schema.items() if not kind.is_nested())
        if self.answer_column not in frame.columns:
            raise UsageError(
                f"{self.examples}: no column {self.answer_column}; it has"
                f" {', '.join(sorted(frame.columns))}"
            )
        if frame.is_empty():
            raise UsageError(f"{self.examples}: no examples; expected at least one row")
        rows = frame.with_columns(pl.all().cast(pl.String).fill_null("")).to_dicts()
        template = TASK_TEMPLATES[self.template]
        self._answers = [row[self.answer_column] for row in rows]
        try:
            self._prompts = [
                template.format_input(row, instruction=self.instruction) for row in rows
            ]
        except ValueError as error:
            raise UsageError(f"{self.examples}: {error}") from None
        if template.labels and (
            other_count := sum(answer not in template.labels for answer in self._answers)
        ):
            raise UsageError(
                f"{self.examples}: {other_count} of {len(rows)} answers in {self.answer_column} are"
                f" no label of {self.template}, and would count as wrong whatever the model says;"
                f" expected {', '.join(template.labels)}"
            )

    def depends_on_run(self, checkpoint: Checkpoint) -> bool:
        """False: the examples are those of the suite."""
        return False

    def on_checkpoint(
        self, run: RunFolder, checkpoint: Checkpoint, model: LanguageModel
    ) -> dict[str, Any]:
        """Return the scores of the template's metrics, and the number of examples."""
        prompts = model.with_leading_ids(model.encode(self._prompts))
        generated = model.decode(
            model.generate(prompts, new_tokens=self.new_tokens, batch=self.batch)
        )
        return {
            "examples": len(generated),
            **score_answers(generated, self._answers, TASK_TEMPLATES[self.template]),
        }

    def build_figures(self, rows: MetricRows, aggregated: Mapping[str, Any]) -> list[Figure]:
        """Return a figure of the template's first metric over epochs."""
        first = TASK_TEMPLATES[self.template].metrics[0]
        return [
            make_epoch_figure(
                rows, lambda row: row.get(self.use, {}).get(first), f"Task {self.template}", first
            )
        ]


def score_answers(
    generated: Sequence[str], answers: Sequence[str], template: TaskTemplate
) -> dict[str, float]:
    """Score generated answers by the metrics of a template; if it has labels, an answer counts as
    the label that it names first."""
    found: dict[str, float] = {}
    predicted = (
        [find_label(one, template.labels) for one in generated]
        if template.labels
        else list(generated)
    )
    for name in template.metrics:
        if name == "accuracy":
            found[name] = accuracy(predicted, answers)
        elif name == "f1":
            found[name] = f1(predicted, answers)
        elif name == "exact_match":
            found[name] = exact_match(generated, [[one] for one in answers])
        elif name == "token_f1":
            found[name] = token_f1(generated, [[one] for one in answers])
        else:
            found[name], found[f"{name}_recall"] = rouge_means(generated, answers, name)
    return found


def find_label(generated: str, labels: Sequence[str]) -> str:
    """Return the label that a generated answer names first, as a separate word; the longest of
    several at one position; "" for none."""
    found = []
    for label in labels:
        at = re.search(rf"(?<!\w){re.escape(label)}(?!\w)", generated, re.IGNORECASE)
        if at:
            found.append((at.start(), -len(label), label))
    return min(found)[2] if found else ""


def accuracy(predicted: Sequence[str], true: Sequence[str]) -> float:
    """Return the share of predictions that are right."""
    assert len(predicted) == len(true), "one prediction for each true label"
    return sum(a == b for a, b in zip(predicted, true, strict=True)) / len(true) if true else 0.0


def f1(
    predicted: Sequence[str],
    true: Sequence[str],
    *,
    average: Literal["macro", "micro"] | None = "macro",
    positive: str | None = None,
) -> float:
    """Return F1: the mean over all labels that are true or predicted (`macro`), over all decisions
    (`micro`), or of `positive` alone."""
    assert len(predicted) == len(true), "one prediction for each true label"
    hits = Counter(a for a, b in zip(predicted, true, strict=True) if a == b)
    predicted_counts, true_counts = Counter(predicted), Counter(true)
    if positive is not None:
        return _f1_from_counts(hits[positive], predicted_counts[positive], true_counts[positive])
    if average == "micro":
        return _f1_from_counts(hits.total(), predicted_counts.total(), true_counts.total())
    labels = sorted(set(predicted_counts) | set(true_counts))
    return (
        sum(
            _f1_from_counts(hits[label], predicted_counts[label], true_counts[label])
            for label in labels
        )
        / len(labels)
        if labels
        else 0.0
    )


def _f1_from_counts(hits: float, predicted: float, expected: float) -> float:
    """Return F1 from the counts of hits, predictions and expected items; 0.0 if both totals are
    0."""
    return 2 * hits / (predicted + expected) if predicted + expected else 0.0


def _normalize_answer(answer: str) -> list[str]:
    """Return an answer's words by SQuAD's rule: lower case, no punctuation, no articles."""
    return _ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split()


def exact_match(predicted: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Return the share of answers that equal one of their references, by SQuAD's rule; an empty
    list means "no answer"."""
    assert len(predicted) == len(references), "a list of references for each answer"
    hit_count = sum(
        any(_normalize_answer(answer) == _normalize_answer(one) for one in known or [""])
        for answer, known in zip(predicted, references, strict=True)
    )
    return hit_count / len(predicted) if predicted else 0.0


def token_f1(predicted: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Return the mean F1 over words of each answer and its best reference, by SQuAD's rule; two
    empty answers agree."""
    assert len(predicted) == len(references), "a list of references for each answer"

    def word_f1(answer: str, reference: str) -> float:
        answer_words, reference_words = (
            Counter(_normalize_answer(answer)),
            Counter(_normalize_answer(reference)),
        )
        if not answer_words or not reference_words:
            return float(answer_words == reference_words)
        return _f1_from_counts(
            (answer_words & reference_words).total(), answer_words.total(), reference_words.total()
        )

    best = [
        max(word_f1(answer, reference) for reference in known or [""])
        for answer, known in zip(predicted, references, strict=True)
    ]
    return sum(best) / len(best) if best else 0.0


def rouge(generated: str, reference: str, *, rouge_type: str = "rougeL") -> Any:
    """Return recall, precision and fmeasure of `rouge_score`: words of a-z and 0-9, those longer
    than three letters stemmed.

    `rouge_type` is rouge1, rouge2 or rougeL. Raises MissingExtra without the package.
    """
    return _build_rouge_scorer(rouge_type).score(reference, generated)[rouge_type]


@lru_cache
def _build_rouge_scorer(rouge_type: str) -> Any:
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError:
        raise MissingExtra("rouge-score", "learn") from None
    return RougeScorer([rouge_type], use_stemmer=True)


def rouge_means(
    generated: Sequence[str], references: Sequence[str], rouge_type: str
) -> tuple[float, float]:
    """Return the mean F measure and the mean recall over texts. The former is not the F measure of
    mean recall and precision, which is larger."""
    each = [rouge(*pair, rouge_type=rouge_type) for pair in zip(generated, references, strict=True)]
    return (
        (fmean(one.fmeasure for one in each), fmean(one.recall for one in each))
        if each
        else (0.0, 0.0)
    )
