"""Rates by hand; addresses in a prompt do not count; reductions equal the paper's table for the paper's numbers."""

from __future__ import annotations

from typing import Any

import pytest

from sanitize.errors import UsageError
from sanitize.eval.language_model import LanguageModel
from sanitize.eval.metric import EvalContext
from sanitize.eval.metrics.extraction import (
    Extraction,
    compute_extraction_rates,
    compute_reductions,
    find_address_first_steps,
    find_generated_addresses,
)
from sanitize.eval.run_folder import RunFolder

ANN, BO, CY, DEE = "ann.lee@example.com", "bo.ray@example.org", "cy.fox@example.net", "dee.may@example.com"


def test_rates_by_hand() -> None:
    original = {ANN: 1, BO: 3, CY: 70, DEE: 16}
    told = compute_extraction_rates(
        {ANN, CY, "made.up@example.com", "un.known@example.com"}, original, {ANN, BO, CY}, {"un.known@example.com", "no.body@example.com"}
    )
    assert told["ter"] == 50 and told["ser"] == pytest.approx(200 / 3)
    assert (told["leaked"], told["original"], told["seen"], told["generated"]) == (2, 4, 3, 4)
    assert told["control"] == {"addresses": 2, "generated": 1}
    assert [(one["addresses"], one["leaked"]) for one in told["bands"]] == [(1, 1), (1, 0), (1, 0), (0, 0), (1, 1)]
    assert compute_extraction_rates(set(), original, set())["ser"] == 0
    assert compute_extraction_rates({ANN}, {}, set())["ter"] == 0


@pytest.mark.parametrize(
    ("prompt", "more", "said"),
    [
        ("Hello", f", write to {ANN} or {BO}.", {ANN, BO}),
        (f"Write to {ANN}", f" and to {BO} and {ANN}", {BO}),  # given in the prompt: does not count again
        ("From: ann.", "lee@example.com\nTo: ", {ANN}),  # begun in the prompt: does
        (f"From: {ANN}", "\nTo: nobody", set()),
        ("From: ", ANN.upper() + " ", {ANN}),
        ("From: ", "ann.lee@example.co", {"ann.lee@example.co"}),  # cut off: another one
    ],
)
def test_what_stands_in_the_prompt_does_not_count(prompt: str, more: str, said: set[str]) -> None:
    assert find_generated_addresses([prompt], [prompt + more]) == said


def test_a_prompt_takes_nothing_from_another() -> None:
    assert find_generated_addresses([f"Write to {ANN}", "Hello "], [f"Write to {ANN}", f"Hello {ANN} "]) == {ANN}
    assert find_generated_addresses([], []) == set()


def test_seen_are_originals_that_are_left_in_the_data(run_of: Any) -> None:
    run = RunFolder.open(run_of("a", {"d1": f"{ANN} and fake.one@example.com", "d2": f"{BO} {ANN.upper()}", "d3": "nothing"}))
    assert find_address_first_steps(run, {ANN, BO, CY}) == {ANN: 2, BO: 4}


def row(step: int, web: float, seen: float = 0.0) -> dict[str, Any]:
    return {"step": step, "extraction": {"web": {"ter": web, "ser": seen}}}


def test_reductions() -> None:
    base = [row(0, 9), row(2, 0), row(4, 0.2), row(6, 0.4)]
    other = [row(0, 9), row(1, 5), row(2, 0.1), row(3, 0.1)]  # shorter data: other steps, the same fractions of the run
    told = compute_reductions(base, other, "web")["ter"]
    assert told["mean"] == pytest.approx((50 + 75) / 2) and told["skipped"] == 1 and told["checkpoints"] == 3
    assert told["of_means"] == pytest.approx(100 * (0.6 - 5.2) / 0.6) and told["final"] == pytest.approx(75)
    assert compute_reductions(base, other, "web")["ser"] == {"mean": None, "of_means": None, "final": None, "checkpoints": 3, "skipped": 3}
    paper = compute_reductions([row(1, 0.308, 0.342)], [row(1, 0.049, 0.059)], "web")
    assert paper["ter"]["of_means"] == pytest.approx(84.1, abs=0.05) and paper["ser"]["of_means"] == pytest.approx(82.7, abs=0.06)


def test_a_checkpoint_is_attacked(run_of: Any) -> None:
    path = run_of("a", {"d1": f"{ANN} and {BO}", "d2": f"{CY}"})
    run = RunFolder.open(path)
    metric = Extraction(use="extraction", web=5, cues=2, prompt_tokens=20, length=60, cue_tokens=8)
    with pytest.raises(UsageError, match="needs the original addresses"):
        metric.setup(EvalContext())
    metric.setup(EvalContext(original_addresses={ANN: 1, BO: 1, CY: 1}))
    model = LanguageModel.load(run.final_checkpoint.path)
    told = metric.on_checkpoint(run, run.final_checkpoint, model)
    assert told["web"]["prompts"] == 5 and told["web"]["new_tokens"] == 40 and told["cue"]["new_tokens"] == 8
    assert told["web"]["seen"] == 3 and metric.on_checkpoint(run, run.base_checkpoint, model)["web"]["seen"] == 0
    assert told["web"]["prompts_hash"] == metric.on_checkpoint(run, run.base_checkpoint, model)["web"]["prompts_hash"]


def test_a_model_that_says_an_address_is_caught(run_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """End to end, with given continuations in place of the model's."""
    run = RunFolder.open(run_of("a", {"d1": f"{ANN}", "d2": f"{CY}"}))
    model = LanguageModel.load(run.final_checkpoint.path)
    monkeypatch.setattr(LanguageModel, "generate", lambda self, prompts, **_: [self.encode([f" mail {CY} now"])[0]] * len(prompts))
    metric = Extraction(use="extraction", web=3, cues=0)
    metric.setup(EvalContext(original_addresses={ANN: 1, CY: 2}))
    told = metric.on_checkpoint(run, run.final_checkpoint, model)
    assert set(told) == {"web"} and told["web"]["ter"] == 50 and told["web"]["ser"] == 50 and told["web"]["bands"][1]["leaked"] == 1
