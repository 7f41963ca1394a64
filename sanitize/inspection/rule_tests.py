"""The kinds that a plan brings, tried on the examples beside them: what a run would find in each, and why not.

    plan -> for each of its kinds, which examples are not found and which counter-examples are

An example is a text of its own, looked at with all that the plan looks for by patterns and lists; finders that need a model or the whole
corpus are not asked. It must be a value from end to end, or, for a kind with `context`, hold one. Nothing of an example is said again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sanitize.core.display import Told
from sanitize.core.keys import Key
from sanitize.kinds.custom_kind import Custom
from sanitize.kinds.kind import bringing
from sanitize.plans.plan import Plan, load_plan
from sanitize.stages.scanner import Seeker

_WHY = {
    "boundary": "a letter or digit adjoins it; give the kind inside_words = true if it may stand so",
    "context": "no word of its context stands near it",
    "overlap": "another kind has it",
}


def rules(plan: Plan | str) -> dict[str, Any]:
    """Try the kinds of a plan (its file, or a `Plan`). Returns `plan`, `kinds` (kind, examples, counter_examples), `tried`, and `failed`:
    for each text that came out otherwise its kind, the list it stands in, its number there (from 0), and why."""
    plan = load_plan(plan) if isinstance(plan, str) else plan
    failed: list[dict[str, Any]] = []
    with bringing(plan.customs):
        seeker = Seeker(Key.from_seed(0), plan.sought)
        for one in plan.customs:
            failed += [{"kind": one.name, **told} for told in _tried(one, seeker)]
    kinds: list[dict[str, Any]] = [
        {"kind": one.name, "examples": len(one.examples), "counter_examples": len(one.counter_examples), "words": len(one.words)}
        for one in plan.customs
    ]
    tried = sum(one["examples"] + one["counter_examples"] for one in kinds)
    return Told("rules", {"plan": plan.name, "kinds": kinds, "tried": tried, "failed": failed})


def _tried(one: Custom, seeker: Seeker) -> list[dict[str, Any]]:
    """What came out otherwise of the examples of one kind."""
    failed = []
    for name, texts, wanted in (("examples", one.examples, True), ("counter_examples", one.counter_examples, False)):
        for entry, text in enumerate(texts):  # a loop over a handful of texts that somebody wrote by hand
            spans, why = _found(one, text, seeker)
            whole = (0, len(text)) in spans
            if wanted and not spans:
                failed.append({"list": name, "entry": entry, "why": why})
            elif wanted and not whole and not one.context:
                failed.append({"list": name, "entry": entry, "why": f"only {_places(spans)} of {len(text)} are taken"})
            elif not wanted and spans:
                failed.append({"list": name, "entry": entry, "why": f"{_places(spans)} of {len(text)} are taken"})
    return failed


def _found(one: Custom, text: str, seeker: Seeker) -> tuple[list[tuple[int, int]], str]:
    """Where a kind is found in a text, and why nowhere."""
    number = next(no for no, kind in enumerate(seeker.kinds) if kind.name == one.name)
    found = seeker.run(pa.array([text], pa.large_string()))
    mine = np.flatnonzero(found.distinct.kind[found.which] == number)
    reasons = [reason for kind, reason in found.skipped if kind == number]
    why = "nothing in it matches"
    if reasons:
        why = _WHY.get(reasons[0], f"its check ({one.check}) refuses it")
    return [(int(found.start[row]), int(found.stop[row])) for row in mine], why


def _places(spans: Sequence[tuple[int, int]]) -> str:
    return "characters " + " and ".join(f"{low + 1} to {high}" for low, high in spans)
