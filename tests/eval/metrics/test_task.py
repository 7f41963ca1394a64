"""Scores of answers against hand counts, and ROUGE against published values."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.errors import UsageError
from sanitize.eval.metric import EvalContext, load_metric
from sanitize.eval.metrics import task

GOLDEN = Path(__file__).resolve().parents[4] / "shared" / "golden" / "tofu_rouge_pairs.json"
WORDS = st.lists(st.sampled_from("ab cd ef running runs".split()), max_size=8).map(" ".join)


@pytest.mark.skipif(not GOLDEN.is_file(), reason="the golden pairs of ../shared are not available")
def test_rouge_recalls_equal_the_public_evaluation() -> None:
    pairs = json.loads(GOLDEN.read_text("utf-8"))["pairs"]
    assert len(pairs) == 40
    for number, pair in enumerate(pairs):
        for rouge_type in ("rouge1", "rougeL"):
            recall = task.rouge(pair["generated"], pair["reference"], rouge_type=rouge_type).recall
            assert recall == pytest.approx(pair[f"{rouge_type}_recall"], abs=1e-12), (
                f"pair {number}, {rouge_type}"
            )


@given(WORDS, WORDS)
def test_rouge_is_symmetric_bounded_and_one_for_equal_texts(first: str, second: str) -> None:
    for rouge_type in ("rouge1", "rouge2", "rougeL"):
        forward, backward = (
            task.rouge(first, second, rouge_type=rouge_type),
            task.rouge(second, first, rouge_type=rouge_type),
        )
        assert (forward.recall, forward.precision) == (backward.precision, backward.recall)
        assert 0 <= forward.recall <= 1 and 0 <= forward.fmeasure <= 1
    assert task.rouge(first, first).fmeasure == (1.0 if first else 0.0)
    assert task.rouge(first, second).recall <= task.rouge(first, second, rouge_type="rouge1").recall


def test_rouge_by_hand() -> None:
    generated, reference = "the cat sat on the mat", "the cat was on a mat"
    assert task.rouge(generated, reference, rouge_type="rouge1").recall == pytest.approx(4 / 6)
    assert task.rouge(generated, reference, rouge_type="rouge2").precision == pytest.approx(1 / 5)
    assert task.rouge(generated, reference).recall == pytest.approx(4 / 6)
    assert task.rouge("Running, quickly!", "runs quick", rouge_type="rouge1").recall == 0.5
    assert task.rouge("running", "runs", rouge_type="rouge1").recall == 1.0
    assert task.rouge("", "words").fmeasure == 0.0 and task.rouge("words", "").fmeasure == 0.0
    assert task.rouge_means(["a b", ""], ["a b", "a"], "rouge1")[1] == 0.5
    assert task.rouge_means([], [], "rouge1") == (0.0, 0.0)
    # recall 1 and precision 1/4, and the reverse: the mean of the F measures .4 and .4, not the F
    # measure of the means, .625
    assert task.rouge_means(["a b c d", "a"], ["a", "a b c d"], "rouge1") == pytest.approx(
        (0.4, 0.625)
    )


def test_labels_accuracy_and_f1() -> None:
    labels = task.TASK_TEMPLATES["sst5"].labels
    assert task.find_label(" It is Very Negative, not neutral.", labels) == "very negative"
    assert (
        task.find_label("notable", ("no", "yes")) == ""
        and task.find_label("No.", ("no", "yes")) == "no"
    )
    true, predicted = ["a", "a", "b", "c"], ["a", "b", "b", "b"]
    assert task.accuracy(predicted, true) == 0.5
    # a: 2 * 1 / 3, b: 2 * 1 / 4, c: 0
    assert task.f1(predicted, true) == pytest.approx((2 / 3 + 1 / 2 + 0) / 3)
    assert task.f1(predicted, true, average="micro") == 0.5
    assert task.f1(predicted, true, positive="b") == 0.5
    assert task.accuracy([], []) == task.f1([], []) == task.f1([], [], positive="a") == 0.0


def test_answers_by_squads_rule() -> None:
    assert task.exact_match(["The  Answer!", "x"], [["answer"], ["y", "z"]]) == 0.5
    assert task.exact_match([""], [[]]) == 1.0 and task.exact_match(["x"], [[]]) == 0.0
    assert task.token_f1(["a big red dog"], [["red dog", "cat"]]) == pytest.approx(2 * 2 / 5)
    assert task.token_f1(["", "x"], [[], []]) == 0.5
    assert task.exact_match([], []) == task.token_f1([], []) == 0.0


def test_answers_that_are_no_labels_are_refused(tmp_path: Path) -> None:
    """Numbers or other words would count as wrong whatever the model says; nested columns are of no
    template."""
    rows = [
        {"premise": "a", "hypothesis": "b", "answer": answer, "more": ["x"]}
        for answer in ("Yes", "yes", "0")
    ]
    columns = dict.fromkeys(rows[0], pl.String) | {"more": pl.List(pl.String)}
    for chosen, message in (
        (rows[:1], None),
        (rows[:2], "1 of 2 answers"),
        (rows[2:], "1 of 1 answers"),
        ([], "no examples"),
    ):
        pl.DataFrame(chosen, schema=columns).write_parquet(tmp_path / "rows.parquet")
        metric = load_metric(
            {"use": "task", "examples": str(tmp_path / "rows.parquet"), "template": "rte"}
        )
        with pytest.raises(UsageError, match=message) if message else contextlib.nullcontext():
            metric.setup(EvalContext())


@pytest.mark.parametrize("name", sorted(task.TASK_TEMPLATES))
def test_templates_with_and_without_the_instruction(name: str) -> None:
    template = task.TASK_TEMPLATES[name]
    fields = dict.fromkeys(
        "sentence q1 q2 premise hypothesis context question a b c d abstract document instruction"
        " input task".split(),
        "FILLED",
    )
    instructed, plain = (
        template.format_input(fields),
        template.format_input(fields, instruction=False),
    )
    assert (
        "FILLED" in instructed and set(plain.split()) == {"FILLED"} and len(instructed) > len(plain)
    )
    with pytest.raises(ValueError, match="has a field"):
        template.format_input({})
