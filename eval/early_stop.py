"""When a training has learned its texts: a hook for `sanitize-train`, named in a recipe as `early_stop = "eval.early_stop.learned"` in
`[run]`, or as `until` in `[base]`, where it chooses the number of epochs (DP2Unlearning, section 5.4: the first with a ROUGE-L of about 1).

The training hands over a moment: a checkpoint's folder, the live model, the tokenizer. What it is trained on stands in the run's
recipe.json.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from .language_model import Model
from .metrics.task import rouge
from .training_texts import taught

ENOUGH = 0.99  # the paper's "near-perfect"
MOST = 64  # texts that are asked for, spread evenly over the data


class Moment(Protocol):
    """What a training hands over at a checkpoint."""

    path: Path
    model: Any
    tokenizer: Any


def learned(moment: Moment) -> bool:
    """True where the model says its own training texts: mean ROUGE-L recall of `ENOUGH` or more."""
    return recalled(moment) >= ENOUGH


def recalled(moment: Moment, most: int = MOST) -> float:
    """The mean ROUGE-L recall of greedy continuations of the training texts, 0 to 1: of each answer after its prompt, or, without prompts,
    of the second half of each text after the first (by tokens)."""
    them = taught(moment.path.parent.parent / "recipe.json").spread(most)
    # not `Model.of`: that freezes the model, which is still to learn
    model = Model(moment.model.eval(), moment.tokenizer, True, str(next(moment.model.parameters()).device))
    prompts, wanted = [], []
    for head, tail in zip(model.encode(them.prompts), model.encode(them.texts), strict=True):
        cut = 0 if head else len(tail) // 2
        prompts.append([*model.lead, *head, *tail[:cut]])
        wanted.append(tail[cut:])
    room = model.context - max(map(len, prompts))
    said = model.decode(model.generate(prompts, new_tokens=max(1, min(room, max(map(len, wanted)))), batch=MOST))
    found = [rouge(one, other).recall for one, other in zip(said, model.decode(wanted), strict=True)]
    return sum(found) / len(found)
