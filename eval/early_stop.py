"""Early-stopping hook for `sanitize-train`: stops when the model has learned its training texts.

Named in a recipe as `early_stop = "sanitize.eval.early_stop.has_learned_texts"` in `[run]`, or as
`until` in `[base]`, where it chooses the number of epochs (DP2Unlearning, section 5.4: the first
with a ROUGE-L of about 1). The hook is given a checkpoint's folder, the live model and the
tokenizer; the training data is named in the run's recipe.json.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from .language_model import LanguageModel
from .metrics.task import rouge
from .trained_documents import read_trained_documents

RECALL_THRESHOLD = 0.99  # the paper's "near-perfect"
SAMPLE_SIZE = 64  # texts that are tested, evenly spaced over the data


class CheckpointEvent(Protocol):
    """What a training run gives a hook at a checkpoint."""

    path: Path
    model: Any
    tokenizer: Any


def has_learned_texts(event: CheckpointEvent) -> bool:
    """Return whether the model reproduces its training texts: mean ROUGE-L recall of
    `RECALL_THRESHOLD` or more."""
    return mean_recall(event) >= RECALL_THRESHOLD


def mean_recall(event: CheckpointEvent, sample_size: int = SAMPLE_SIZE) -> float:
    """Return the mean ROUGE-L recall of greedy continuations of the training texts, 0 to 1.

    Continued are prompts, compared with the answers, or without prompts the first half of each text
    (by tokens), compared with the second.
    """
    documents = read_trained_documents(
        event.path.parent.parent / "recipe.json", seen_only=True
    ).subsample(sample_size)
    # not `LanguageModel.from_loaded`, which freezes the model: training continues
    model = LanguageModel(
        event.model.eval(), event.tokenizer, True, str(next(event.model.parameters()).device)
    )
    prompts, wanted, leading_ids = [], [], model.leading_ids
    for head, tail in zip(
        model.encode(documents.prompts), model.encode(documents.texts), strict=True
    ):
        cut = 0 if head else len(tail) // 2
        prompts.append([*leading_ids, *head, *tail[:cut]])
        wanted.append(tail[cut:])
    max_new_tokens = model.context_length - max(map(len, prompts))
    continuations = model.decode(
        model.generate(
            prompts,
            new_tokens=max(1, min(max_new_tokens, max(map(len, wanted)))),
            batch=SAMPLE_SIZE,
        )
    )
    recalls = [
        rouge(continuation, expected).recall
        for continuation, expected in zip(continuations, model.decode(wanted), strict=True)
    ]
    return float(sum(recalls)) / len(recalls)
