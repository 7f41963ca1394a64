"""The scores of TOFU: model utility on questions and answers, and how similar two models are on the
questions to be forgotten.

All scores are computed from mean losses per token, for each question: of the answer, of its
paraphrase, and of several wrong (perturbed) answers.

    probability   P = exp(-loss)                                      of questions about the world:
                  P(answer) / sum of P over all answers
    R             P(paraphrase) / geometric mean of P(wrong answers)  the statistic that forget
                  quality compares; the truth ratio is 1 / R
    truth ratio   mean min(R, 1/R) on the forget set, mean max(0, 1 - 1/R) elsewhere
    model utility harmonic mean of probability, ROUGE-L recall and truth ratio on the retain,
    authors and world sets forget quality  p-value of the exact two-sided Kolmogorov-Smirnov test on
    R of the unlearned and of the retrained model

Source: TOFU (Maini et al., 2024) as its code computes it, and DP2Unlearning, section 4, as its logs
do: the geometric mean, R and not 1/R. R is stored as its logarithm, since R of a collapsed model
overflows; the test depends on ranks only, which the logarithm preserves.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sanitize.array_types import F64
from sanitize.errors import MissingExtra

QUESTION_SETS = ("retain", "real_authors", "world_facts", "forget")
_MULTIPLE_CHOICE_SETS = ("real_authors", "world_facts")
_HISTOGRAM_BINS = 30
_LEAST_RANGE = 1e-12  # of values that differ by more than rounding, relative to them


@dataclass(frozen=True, kw_only=True, repr=False)
class AnswerLosses:
    """Mean losses per token of one set of questions, [questions], those of wrong answers
    [questions, wrong], and ROUGE-L recalls."""

    answer: F64
    paraphrase: F64
    perturbed: F64
    rouge_recall: F64

    def __post_init__(self) -> None:
        sizes = {
            len(self.answer),
            len(self.paraphrase),
            len(self.perturbed),
            len(self.rouge_recall),
        }
        assert len(sizes) == 1 and self.perturbed.ndim == 2, "a row for each question"
        if any(
            np.isnan(column).any()
            for column in (self.answer, self.paraphrase, self.perturbed, self.rouge_recall)
        ):
            raise ValueError(
                "a loss is not a number: the model is broken, and its utility is undefined"
            )

    @property
    def log_r(self) -> F64:
        """The ln R of each question, [questions]."""
        return np.asarray(self.perturbed.mean(axis=1) - self.paraphrase, np.float64)


def compute_utilities(set_name: str, answers: AnswerLosses) -> dict[str, float]:
    """Return the three utilities of one set (a name of `QUESTION_SETS`), each 0 to 1: probability,
    rouge and truth_ratio."""
    with np.errstate(over="ignore"):
        ratio = np.exp(-answers.log_r)  # the truth ratio of each question, 1 / R
    if set_name in _MULTIPLE_CHOICE_SETS:
        # softmax of the negative losses, shifted to avoid overflow
        losses = np.column_stack([answers.answer, answers.perturbed])
        shares = np.exp(-(losses - losses.min(axis=1, keepdims=True)))
        probability = float((shares[:, 0] / shares.sum(axis=1)).mean())
    else:
        probability = float(np.exp(-answers.answer).mean())
    truth = float(
        (
            np.exp(-np.abs(answers.log_r)) if set_name == "forget" else np.maximum(0.0, 1.0 - ratio)
        ).mean()
    )
    return {
        "probability": probability,
        "rouge": float(answers.rouge_recall.mean()),
        "truth_ratio": truth,
    }


def model_utility(sets: Mapping[str, Mapping[str, float]]) -> float:
    """Return the harmonic mean of the utilities of all sets but the forget set; 0 if one of them is
    0."""
    numbers = [value for name, each in sets.items() if name != "forget" for value in each.values()]
    return (
        len(numbers) / sum(1 / value for value in numbers) if numbers and min(numbers) > 0 else 0.0
    )


@dataclass(frozen=True, kw_only=True)
class ForgetComparison:
    """Two models on the same questions. `forget_quality` is a p-value: a high one means that no
    difference was shown with `questions`.

    `statistic` is the largest distance of the two distributions, `detectable` the smallest one that
    the test would reject at 5 %. `jsd_paired` and `entropy_difference` follow DP2Unlearning's table
    4: the R of all questions as one distribution over questions, in nats. They depend on the
    pairing of the questions and are not distances between the distributions of R; `jsd_histogram`
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


def compare_models(unlearned: F64, retrained: F64) -> ForgetComparison:
    """Compare two models by the ln R of the same questions in the same order; ValueError for
    different numbers of questions or NaN."""
    if len(unlearned) != len(retrained) or not len(unlearned):
        raise ValueError(
            f"{len(unlearned)} and {len(retrained)} questions; expected the same questions of both"
            " models, and at least one"
        )
    if np.isnan(unlearned).any() or np.isnan(retrained).any():
        raise ValueError("ln R is not a number: one of the models is broken")
    stats = import_scipy_stats()
    pvalue, statistic = _kolmogorov_smirnov(unlearned, retrained)
    with np.errstate(over="ignore"):
        unlearned_r, retrained_r = np.exp(unlearned), np.exp(retrained)
    finite = bool(np.isfinite(unlearned_r).all() and np.isfinite(retrained_r).all())
    both = np.concatenate([unlearned, retrained])
    low, high = both.min(), both.max()
    if high - low < _LEAST_RANGE * max(1.0, abs(low)):
        low, high = low - 0.5, high + 0.5
    edges = np.histogram_bin_edges(both, bins=_HISTOGRAM_BINS, range=(low, high))
    return ForgetComparison(
        forget_quality=pvalue,
        statistic=statistic,
        questions=len(unlearned),
        detectable=smallest_detectable_distance(len(unlearned)),
        jsd_paired=_jensen_shannon(unlearned_r, retrained_r) if finite else None,
        jsd_histogram=_jensen_shannon(
            np.histogram(unlearned, edges)[0].astype(np.float64),
            np.histogram(retrained, edges)[0].astype(np.float64),
        ),
        wasserstein=float(stats.wasserstein_distance(unlearned_r, retrained_r)) if finite else None,
        entropy_difference=abs(_entropy(unlearned_r) - _entropy(retrained_r)) if finite else None,
    )


def smallest_detectable_distance(question_count: int, level: float = 0.05) -> float:
    """Return the smallest distance of two empirical distributions of `question_count` points each
    that the exact test rejects at `level`.

    A forget quality above `level` only means that the distance was smaller than this.
    """
    for steps in range(1, question_count + 1):
        # two samples at distance steps / question_count
        first = np.arange(question_count, dtype=np.float64)
        if _kolmogorov_smirnov(first, first + steps)[0] < level:
            return steps / question_count
    return 1.0


def _kolmogorov_smirnov(one: F64, other: F64) -> tuple[float, float]:
    """Return the p-value of the exact two-sided test and its statistic."""
    with warnings.catch_warnings():
        # if the two hardly overlap, the exact count underflows and scipy returns the asymptotic
        # p-value: both are practically 0
        warnings.simplefilter("ignore", RuntimeWarning)
        test = import_scipy_stats().ks_2samp(one, other, alternative="two-sided", method="auto")
    return float(test.pvalue), float(test.statistic)


def _jensen_shannon(one: F64, other: F64) -> float:
    """Return the Jensen-Shannon divergence of two vectors of weights, in nats."""
    p, q = one / one.sum(), other / other.sum()
    return max(0.0, _entropy((p + q) / 2) - (_entropy(p) + _entropy(q)) / 2)


def _entropy(weights: F64) -> float:
    """Return the entropy of a vector of weights, in nats."""
    p = weights[weights > 0] / weights.sum()
    return float(-(p * np.log(p)).sum())


def import_scipy_stats() -> Any:
    """Return scipy.stats; MissingExtra without scipy."""
    try:
        import scipy.stats
    except ImportError:
        raise MissingExtra("scipy", "learn") from None
    return scipy.stats
