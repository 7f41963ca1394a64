"""The numbers of TOFU: what a model still knows of questions and answers, and how alike two models are on those that were to be forgotten.

Everything comes from mean losses per token, one a question: of the answer, of its paraphrase, and of several wrong (perturbed) answers.

    probability   P = exp(-loss)                                      of questions about the world: P(answer) / sum of P over all answers
    R             P(paraphrase) / geometric mean of P(wrong answers)  the statistic that forget quality compares; the truth ratio is 1 / R
    truth ratio   mean min(R, 1/R) on the forget set, mean max(0, 1 - 1/R) elsewhere
    model utility harmonic mean of probability, ROUGE-L recall and truth ratio on the retain, authors and world sets
    forget quality  p-value of the exact two-sided Kolmogorov-Smirnov test on R of the unlearned and of the retrained model

Source: TOFU (Maini et al., 2024) as its code computes it, and DP2Unlearning, section 4, as its logs do: the geometric mean, R and not 1/R.
R is kept as its logarithm, since R of a collapsed model overflows; the test looks at ranks, which the logarithm keeps.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sanitize.errors import MissingExtra

F64 = npt.NDArray[np.float64]
SETS = ("retain", "real_authors", "world_facts", "forget")
_WORLD = ("real_authors", "world_facts")
_BINS = 30


@dataclass(frozen=True, kw_only=True, repr=False)
class Answers:
    """Mean losses per token of one set of questions, [questions], those of wrong answers [questions, wrong], and ROUGE-L recalls."""

    answer: F64
    paraphrase: F64
    wrong: F64
    recall: F64

    def __post_init__(self) -> None:
        sizes = {len(self.answer), len(self.paraphrase), len(self.wrong), len(self.recall)}
        assert len(sizes) == 1 and self.wrong.ndim == 2, "a row for each question"
        if any(np.isnan(column).any() for column in (self.answer, self.paraphrase, self.wrong, self.recall)):
            raise ValueError("a loss is not a number: the model is broken, and no utility can be told of it")

    @property
    def log_r(self) -> F64:
        """ln R of each question."""
        return np.asarray(self.wrong.mean(axis=1) - self.paraphrase, np.float64)


def utilities(name: str, answers: Answers) -> dict[str, float]:
    """The three utilities of one set (`name` of `SETS`), each 0 to 1: probability, rouge and truth_ratio."""
    with np.errstate(over="ignore"):
        ratio = np.exp(-answers.log_r)  # the truth ratio of each question, 1 / R
    if name in _WORLD:
        # softmax of the negative losses, which does not overflow
        losses = np.column_stack([answers.answer, answers.wrong])
        shares = np.exp(-(losses - losses.min(axis=1, keepdims=True)))
        probability = float((shares[:, 0] / shares.sum(axis=1)).mean())
    else:
        probability = float(np.exp(-answers.answer).mean())
    truth = float((np.exp(-np.abs(answers.log_r)) if name == "forget" else np.maximum(0.0, 1.0 - ratio)).mean())
    return {"probability": probability, "rouge": float(answers.recall.mean()), "truth_ratio": truth}


def model_utility(sets: Mapping[str, Mapping[str, float]]) -> float:
    """The harmonic mean of the utilities of all sets but the forget set; 0 where one of them is."""
    numbers = [value for name, each in sets.items() if name != "forget" for value in each.values()]
    return len(numbers) / sum(1 / value for value in numbers) if numbers and min(numbers) > 0 else 0.0


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Two models on the same questions. `forget_quality` is a p-value: a high one says that no difference was shown with so many
    `questions` (`statistic` is the largest distance of the two distributions, `detectable` the least one that would be shown at 5 %).

    `jsd_paired` and `entropy_difference` are as DP2Unlearning's table 4 has them: the R of all questions as one distribution over
    questions, in nats. They depend on the pairing of the questions, and are no distance between the distributions of R; `jsd_histogram`
    is one (30 common bins of ln R). None where an R overflows.
    """

    forget_quality: float
    statistic: float
    questions: int
    detectable: float
    jsd_paired: float | None
    jsd_histogram: float
    wasserstein: float | None
    entropy_difference: float | None


def compared(unlearned: F64, retrained: F64) -> Compared:
    """How alike two models are, from ln R of the same questions in the same order."""
    if len(unlearned) != len(retrained) or not len(unlearned):
        raise ValueError(f"{len(unlearned)} and {len(retrained)} questions; expected the same questions of both models, and at least one")
    if np.isnan(unlearned).any() or np.isnan(retrained).any():
        raise ValueError("ln R is not a number: one of the models is broken")
    stats = _stats()
    pvalue, statistic = _kolmogorov_smirnov(unlearned, retrained)
    with np.errstate(over="ignore"):
        one, other = np.exp(unlearned), np.exp(retrained)
    finite = bool(np.isfinite(one).all() and np.isfinite(other).all())
    edges = np.histogram_bin_edges(np.concatenate([unlearned, retrained]), bins=_BINS)
    return Compared(
        forget_quality=pvalue,
        statistic=statistic,
        questions=len(unlearned),
        detectable=detectable(len(unlearned)),
        jsd_paired=_jsd(one, other) if finite else None,
        jsd_histogram=_jsd(np.histogram(unlearned, edges)[0].astype(np.float64), np.histogram(retrained, edges)[0].astype(np.float64)),
        wasserstein=float(stats.wasserstein_distance(one, other)) if finite else None,
        entropy_difference=abs(_entropy(one) - _entropy(other)) if finite else None,
    )


def detectable(questions: int, level: float = 0.05) -> float:
    """The least distance of two empirical distributions of so many questions each at which the exact test rejects at `level`.

    A forget quality above `level` means no more than that the distance was smaller than this."""
    for steps in range(1, questions + 1):
        # two samples that are `steps` / `questions` apart
        first = np.arange(questions, dtype=np.float64)
        if _kolmogorov_smirnov(first, first + steps)[0] < level:
            return steps / questions
    return 1.0


def _kolmogorov_smirnov(one: F64, other: F64) -> tuple[float, float]:
    """The p-value of the exact two-sided test, and its statistic."""
    with warnings.catch_warnings():
        # where the two hardly overlap the exact count underflows, and scipy takes the asymptotic p-value: both are nought for any purpose
        warnings.simplefilter("ignore", RuntimeWarning)
        test = _stats().ks_2samp(one, other, alternative="two-sided", method="auto")
    return float(test.pvalue), float(test.statistic)


def _jsd(one: F64, other: F64) -> float:
    """The Jensen-Shannon divergence of two vectors of weights, in nats."""
    p, q = one / one.sum(), other / other.sum()
    return max(0.0, _entropy((p + q) / 2) - (_entropy(p) + _entropy(q)) / 2)


def _entropy(weights: F64) -> float:
    """The entropy of a vector of weights, in nats."""
    p = weights[weights > 0] / weights.sum()
    return float(-(p * np.log(p)).sum())


def _stats() -> Any:
    try:
        import scipy.stats
    except ImportError:
        raise MissingExtra("forget quality", "learn") from None
    return scipy.stats
