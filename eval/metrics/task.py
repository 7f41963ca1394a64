"""How well a model does the task it was tuned for: accuracy, F1, exact match, ROUGE, and the prompts of the tasks.

Exact match and token F1 are those of SQuAD (lower case, punctuation and articles taken out, the best of several references); ROUGE-1, -2
and -L are those of `rouge_score` with its stemmer (`../stem.py`). The templates are those of Slack and Al Moubayed, appendix A: `prompt`
holds the instruction (instruction tuning), `plain` is the same input without it (domain adaptation). Alpaca's measure in the paper is a
preference of GPT-4, which nothing here stands in for; its template has ROUGE instead, and says so by its name.

Pure functions of strings; scores are shares in 0..1, and 0.0 for nothing at all.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import polars as pl
from pydantic import Field, PrivateAttr

from sanitize.errors import OutputBroken, UsageError, nearest

from ..language_model import Model
from ..metric import Figure, Ground, Metric, Rows, by_epoch
from ..porter_stemmer import stem
from ..run_folder import Checkpoint, Run

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_WORDS = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True, kw_only=True)
class Template:
    """How an example becomes a text: with the instruction, without it, and how the answer is judged."""

    prompt: str
    plain: str
    metrics: tuple[str, ...]
    labels: tuple[str, ...] = ()

    def text(self, fields: Mapping[str, str], *, instruction: bool = True) -> str:
        """The input of an example; the answer follows after a blank. ValueError for a field that is missing."""
        try:
            return (self.prompt if instruction else self.plain).format_map(fields)
        except KeyError as missing:
            raise ValueError(f"the template has a field {missing}; the example has {', '.join(sorted(fields)) or 'none'}") from None


TEMPLATES: Mapping[str, Template] = {
    "sst5": Template(
        prompt="Sentence: {sentence} - What is the sentiment?",
        plain="{sentence}",
        metrics=("accuracy",),
        labels=("very negative", "negative", "neutral", "positive", "very positive"),
    ),
    "qqp": Template(prompt="Q1: {q1}\nQ2: {q2} - Duplicate? Yes/No.", plain="{q1}\n{q2}", metrics=("accuracy", "f1"), labels=("Yes", "No")),
    "rte": Template(
        prompt="Premise: {premise} Hypothesis: {hypothesis} - Entailed? Yes/No.",
        plain="{premise} {hypothesis}",
        metrics=("accuracy",),
        labels=("Yes", "No"),
    ),
    "wanli": Template(
        prompt="Premise: {premise}, Hypothesis: {hypothesis}, Label: entail / neutral / contradict.",
        plain="{premise} {hypothesis}",
        metrics=("accuracy",),
        labels=("entail", "neutral", "contradict"),
    ),
    "squad_v2": Template(
        prompt="Context: {context} Question: {question} Answer:", plain="{context} {question}", metrics=("exact_match", "token_f1")
    ),
    "hellaswag": Template(
        prompt="Story: {context} A: {a} B: {b} C: {c} D: {d} Which ending (A-D) is most plausible?",
        plain="{context} {a} {b} {c} {d}",
        metrics=("accuracy",),
        labels=("A", "B", "C", "D"),
    ),
    "pubmed_qa": Template(
        prompt="Abstract: {abstract} Question: {question} Answer (yes/no/maybe):",
        plain="{abstract} {question}",
        metrics=("accuracy",),
        labels=("yes", "no", "maybe"),
    ),
    "xsum": Template(
        prompt="Article: {document}\nWrite a one-sentence summary:", plain="{document}", metrics=("rouge1", "rouge2", "rougeL")
    ),
    "cnn_dailymail": Template(
        prompt="Article: {document} Summarize concisely:", plain="{document}", metrics=("rouge1", "rouge2", "rougeL")
    ),
    "alpaca": Template(prompt="Instruction: {instruction}, Input: {input}, Response:", plain="{input}", metrics=("rougeL",)),
    "flan_v2": Template(
        prompt="Instruction: {task} Input: {input} Answer:", plain="{input}", metrics=("exact_match", "token_f1", "rougeL")
    ),
}


class Task(Metric):
    """Settings of a task: examples in Parquet or JSON lines, with a column for each field of the template and one for the answer."""

    examples: Path
    template: str
    answer_column: str = "answer"
    instruction: bool = True  # with the instruction, or the plain input
    new_tokens: int = Field(default=20, ge=1)
    batch: int = Field(default=64, ge=1)

    _prompts: list[str] = PrivateAttr(default_factory=list)
    _answers: list[str] = PrivateAttr(default_factory=list)

    def open(self, ground: Ground) -> None:
        """Read the examples; UsageError for an unknown template, a missing file or a missing column."""
        if self.template not in TEMPLATES:
            raise UsageError(f"task.template = {self.template!r}: {nearest(self.template, TEMPLATES)}")
        if not self.examples.is_file():
            raise UsageError(
                f"{self.examples}: no such file; expected Parquet or JSON lines with the template's fields and {self.answer_column}"
            )
        try:
            if self.examples.suffix == ".jsonl":
                frame = pl.read_ndjson(self.examples.read_bytes())
            else:
                frame = pl.read_parquet(self.examples, glob=False)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise OutputBroken(f"{self.examples}: cannot be read as Parquet or JSON lines ({type(error).__name__})") from None
        if self.answer_column not in frame.columns:
            raise UsageError(f"{self.examples}: no column {self.answer_column}; it has {', '.join(sorted(frame.columns))}")
        rows = frame.with_columns(pl.all().cast(pl.String).fill_null("")).to_dicts()
        template = TEMPLATES[self.template]
        self._answers = [row[self.answer_column] for row in rows]
        try:
            self._prompts = [template.text(row, instruction=self.instruction) for row in rows]
        except ValueError as error:
            raise UsageError(f"{self.examples}: {error}") from None

    def at(self, run: Run, checkpoint: Checkpoint, model: Model) -> dict[str, Any]:
        """The template's measures, and how many examples there are."""
        said = model.decode(model.generate(model.encode(self._prompts), new_tokens=self.new_tokens, batch=self.batch))
        return {"examples": len(said), **scored(said, self._answers, TEMPLATES[self.template])}

    def figures(self, rows: Rows, over: Mapping[str, Any]) -> list[Figure]:
        """The template's first measure over epochs."""
        first = TEMPLATES[self.template].metrics[0]
        return [by_epoch(rows, lambda row: row.get(self.use, {}).get(first), f"Task {self.template}", first)]


def scored(said: Sequence[str], answers: Sequence[str], template: Template) -> dict[str, float]:
    """The measures of a template over generated answers; where it has labels, the label that each names first is its answer."""
    found: dict[str, float] = {}
    predicted = [label_in(one, template.labels) for one in said] if template.labels else list(said)
    for name in template.metrics:
        if name == "accuracy":
            found[name] = accuracy(predicted, answers)
        elif name == "f1":
            found[name] = f1(predicted, answers)
        elif name == "exact_match":
            found[name] = exact_match(said, [[one] for one in answers])
        elif name == "token_f1":
            found[name] = token_f1(said, [[one] for one in answers])
        else:
            mean = rouge_mean(said, answers, which=name)  # type: ignore[arg-type]
            found |= {name: mean.f, f"{name}_recall": mean.recall}
    return found


def label_in(generated: str, labels: Sequence[str]) -> str:
    """The label that a generated answer names first, as a word of its own; of several at one place the longest; "" for none."""
    found = []
    for label in labels:
        at = re.search(rf"(?<!\w){re.escape(label)}(?!\w)", generated, re.IGNORECASE)
        if at:
            found.append((at.start(), -len(label), label))
    return min(found)[2] if found else ""


def accuracy(predicted: Sequence[str], true: Sequence[str]) -> float:
    """The share of predictions that are right."""
    assert len(predicted) == len(true), "one prediction for each true label"
    return sum(a == b for a, b in zip(predicted, true, strict=True)) / len(true) if true else 0.0


def f1(
    predicted: Sequence[str], true: Sequence[str], *, average: Literal["macro", "micro"] | None = "macro", positive: str | None = None
) -> float:
    """F1: the mean over the labels that occur as true or predicted (`macro`), over all decisions (`micro`), or of `positive` alone."""
    assert len(predicted) == len(true), "one prediction for each true label"
    hits = Counter(a for a, b in zip(predicted, true, strict=True) if a == b)
    said, there = Counter(predicted), Counter(true)
    if positive is not None:
        return _harmonic(hits[positive], said[positive], there[positive])
    if average == "micro":
        return _harmonic(hits.total(), said.total(), there.total())
    labels = sorted(set(said) | set(there))
    return sum(_harmonic(hits[label], said[label], there[label]) for label in labels) / len(labels) if labels else 0.0


def _harmonic(hits: float, said: float, there: float) -> float:
    """F1 of so many hits among so many said and so many that are there; 0.0 where there is neither."""
    return 2 * hits / (said + there) if said + there else 0.0


def _plain(answer: str) -> list[str]:
    """An answer's words by SQuAD's rule: lower case, no punctuation, no articles."""
    return _ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split()


def exact_match(predicted: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """The share of answers that equal one of their references, by SQuAD's rule; no reference stands for "no answer"."""
    assert len(predicted) == len(references), "a list of references for each answer"
    right = sum(any(_plain(answer) == _plain(one) for one in (known or [""])) for answer, known in zip(predicted, references, strict=True))
    return right / len(predicted) if predicted else 0.0


def token_f1(predicted: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """The mean F1 of the words of each answer and its best reference, by SQuAD's rule: two empty answers agree."""
    assert len(predicted) == len(references), "a list of references for each answer"

    def one(answer: str, reference: str) -> float:
        said, there = Counter(_plain(answer)), Counter(_plain(reference))
        if not said or not there:
            return float(said == there)
        return _harmonic((said & there).total(), said.total(), there.total())

    best = [max(one(answer, reference) for reference in (known or [""])) for answer, known in zip(predicted, references, strict=True)]
    return sum(best) / len(best) if best else 0.0


@dataclass(frozen=True, kw_only=True)
class Rouge:
    """Recall, precision and their harmonic mean."""

    recall: float
    precision: float

    @property
    def f(self) -> float:
        """The harmonic mean; 0.0 where both are."""
        total = self.recall + self.precision
        return 2 * self.recall * self.precision / total if total else 0.0


def rouge(generated: str, reference: str, *, which: Literal["rouge1", "rouge2", "rougeL"] = "rougeL", stemmer: bool = True) -> Rouge:
    """ROUGE of one text against one reference, as `rouge_score` gives it: words of a-z and 0-9, those longer than three letters stemmed."""
    said, there = _tokens(generated, stemmer), _tokens(reference, stemmer)
    if which == "rougeL":
        hits, of_said, of_there = _longest_common(said, there), len(said), len(there)
    else:
        size = int(which.removeprefix("rouge"))
        first, second = (Counter(zip(*(words[at:] for at in range(size)), strict=False)) for words in (said, there))
        hits, of_said, of_there = (first & second).total(), first.total(), second.total()
    return Rouge(recall=hits / of_there if of_there else 0.0, precision=hits / of_said if of_said else 0.0)


def rouge_mean(generated: Sequence[str], references: Sequence[str], *, which: Literal["rouge1", "rouge2", "rougeL"] = "rougeL") -> Rouge:
    """The mean recall and precision over texts."""
    assert len(generated) == len(references), "one reference for each text"
    each = [rouge(said, there, which=which) for said, there in zip(generated, references, strict=True)]
    if not each:
        return Rouge(recall=0.0, precision=0.0)
    return Rouge(recall=sum(one.recall for one in each) / len(each), precision=sum(one.precision for one in each) / len(each))


def _tokens(text: str, stemmer: bool) -> list[str]:
    words: list[str] = _WORDS.findall(text.lower())
    return [stem(word) if len(word) > 3 else word for word in words] if stemmer else words


def _longest_common(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest common subsequence."""
    row = [0] * (len(second) + 1)
    for word in first:
        before = 0  # the cell to the upper left
        for at, other in enumerate(second, 1):
            above = row[at]
            row[at] = before + 1 if word == other else max(above, row[at - 1])
            before = above
    return row[-1]
