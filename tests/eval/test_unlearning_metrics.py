"""TOFU's scores against the published logs, and against plain references."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.eval.unlearning_metrics import (
    AnswerLosses,
    compare_models,
    compute_utilities,
    model_utility,
    smallest_detectable_distance,
)

GOLDEN = Path(__file__).resolve().parents[2].parent / "shared" / "golden"
needs_golden_numbers = pytest.mark.skipif(
    not GOLDEN.exists(), reason="the golden numbers of TOFU beside the repository are not available"
)
pytest.importorskip("scipy", reason="comes with the extra `learn`")


def read_golden(name: str) -> dict[str, Any]:
    path = GOLDEN / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


EXPECTED = read_golden("tofu_expected")
STATISTICS = read_golden("tofu_forget_stat").get("s", {})
INPUTS = read_golden("tofu_mu_inputs").get("models", {})
TABLE4 = sorted(
    key
    for key, row in EXPECTED.get("table4", {}).items()
    if row["reproducible_from_logs"] and key in STATISTICS
)
LOGGED = {
    "retain": ("Prob. Retain", "ROUGE Retain", "Truth Ratio Retain"),
    "real_authors": ("Prob. Real Authors", "ROUGE Real Authors", "Truth Ratio Real Authors"),
    "world_facts": ("Prob. Real World", "ROUGE Real World", "Truth Ratio Real World"),
    "forget": ("Prob. Forget", "ROUGE Forget", "Truth Ratio Forget"),
}


@needs_golden_numbers
@pytest.mark.parametrize("model", sorted(INPUTS))
def test_utilities_of_the_public_logs(model: str) -> None:
    utilities = {}
    for name, logged in LOGGED.items():
        rows = INPUTS[model][name if name != "world_facts" else "real_world"]
        answers = AnswerLosses(
            answer=np.array(rows["avg_gt_loss"]),
            paraphrase=np.array(rows.get("avg_paraphrased_loss", rows["avg_gt_loss"])),
            perturbed=np.array(rows["average_perturb_loss"]),
            rouge_recall=np.array(rows["rougeL_recall"]),
        )
        utilities[name] = compute_utilities(name, answers)
        expected = [EXPECTED["table3"][model]["log"][key] for key in logged]
        # inputs have seven digits
        assert [
            utilities[name][key] for key in ("probability", "rouge", "truth_ratio")
        ] == pytest.approx(expected, abs=2e-7)
    assert model_utility(utilities) == pytest.approx(
        EXPECTED["table3"][model]["log"]["Model Utility"], abs=1e-7
    )


@needs_golden_numbers
@pytest.mark.parametrize("run", sorted(STATISTICS))
def test_forget_quality_of_the_public_logs(run: str) -> None:
    model, share, _ = run.split("|")
    result = compare_models(
        np.array(STATISTICS[run]), np.array(STATISTICS[f"{model}|{share}|RFS-R"])
    )
    assert result.forget_quality == pytest.approx(
        EXPECTED["table3"][run]["log"]["Forget Quality"], rel=1e-6, abs=1e-9
    )


@needs_golden_numbers
@pytest.mark.parametrize("run", TABLE4)
def test_distances_of_the_public_logs(run: str) -> None:
    model, share, _ = run.split("|")
    result = compare_models(
        np.array(STATISTICS[run]), np.array(STATISTICS[f"{model}|{share}|RFS-R"])
    )
    published = EXPECTED["table4"][run]["published_table4"]
    assert [result.jsd_paired, result.wasserstein, result.entropy_difference] == pytest.approx(
        [published["JSD"], published["W"], published["dH"]], abs=6e-5
    )


def test_a_model_against_itself() -> None:
    values = np.linspace(-2, 3, 40)
    result = compare_models(values, values)
    assert (result.forget_quality, result.statistic) == (1.0, 0.0)
    assert (
        result.jsd_paired
        == result.jsd_histogram
        == result.wasserstein
        == result.entropy_difference
        == 0.0
    )


def test_only_the_paired_distance_depends_on_the_pairing() -> None:
    first, second = np.linspace(-1, 1, 50), np.linspace(-0.5, 2, 50)
    result, shuffled = compare_models(first, second), compare_models(first, second[::-1])
    # it is not a distance of distributions
    assert result.jsd_paired != pytest.approx(shuffled.jsd_paired)
    assert result.jsd_histogram == shuffled.jsd_histogram and result.wasserstein == pytest.approx(
        shuffled.wasserstein
    )
    assert result.forget_quality == shuffled.forget_quality


def test_a_collapsed_model_has_a_forget_quality_and_no_distances() -> None:
    result = compare_models(np.full(40, 800.0), np.linspace(-1, 1, 40))
    assert (
        result.forget_quality < 1e-9
        and result.jsd_paired is None
        and result.wasserstein is None
        and result.entropy_difference is None
    )
    answers = AnswerLosses(
        answer=np.full(3, 900.0),
        paraphrase=np.full(3, 900.0),
        perturbed=np.full((3, 5), 10.0),
        rouge_recall=np.zeros(3),
    )
    utilities = {name: compute_utilities(name, answers) for name in LOGGED}
    assert (
        all(np.isfinite(value) for row in utilities.values() for value in row.values())
        and model_utility(utilities) == 0.0
    )


def test_utilities_by_hand() -> None:
    answers = AnswerLosses(
        answer=np.log([2.0, 4.0]),
        paraphrase=np.log([2.0, 8.0]),
        perturbed=np.log([[8.0, 2.0], [4.0, 1.0]]),
        rouge_recall=np.array([1.0, 0.5]),
    )
    # R = P(paraphrase) / geometric mean: (1/2) / (1/4) = 2 and (1/8) / (1/2) = 1/4
    assert np.exp(answers.log_r) == pytest.approx([2.0, 0.25])
    assert compute_utilities("retain", answers) == pytest.approx(
        {"probability": 0.375, "rouge": 0.75, "truth_ratio": 0.25}
    )
    assert compute_utilities("forget", answers)["truth_ratio"] == pytest.approx(0.375)
    # P(answer) / all: (1/2) / (1/2 + 1/8 + 1/2) and (1/4) / (1/4 + 1/4 + 1)
    assert compute_utilities("world_facts", answers)["probability"] == pytest.approx(
        ((1 / 2) / (9 / 8) + (1 / 4) / (3 / 2)) / 2
    )


@pytest.mark.parametrize(("size", "least"), [(40, 0.325), (200, 0.14)])
def test_smallest_detectable_distance(size: int, least: float) -> None:
    assert smallest_detectable_distance(size) == pytest.approx(least)


@pytest.mark.parametrize("difference", [0.0, 5e-324, 1e-16])
def test_values_that_differ_by_rounding_are_in_one_bin(difference: float) -> None:
    found = compare_models(
        np.array([1.0, 1.0 + difference]) - 1.0 * (difference == 5e-324),
        np.full(2, 1.0 * (difference != 5e-324)),
    )
    assert found.jsd_histogram == 0.0


@given(st.lists(st.floats(-20, 20), min_size=2, max_size=30), st.data())
def test_scores_are_within_their_bounds(values: list[float], data: st.DataObject) -> None:
    second = data.draw(st.lists(st.floats(-20, 20), min_size=len(values), max_size=len(values)))
    result = compare_models(np.array(values), np.array(second))
    assert 0 <= result.forget_quality <= 1 and 0 <= result.jsd_histogram <= np.log(2) + 1e-12
    assert result.jsd_paired is not None and 0 <= result.jsd_paired <= np.log(2) + 1e-12


@pytest.mark.parametrize(
    ("first", "second"), [([1.0], [1.0, 2.0]), ([], []), ([float("nan")], [1.0])]
)
def test_invalid_comparisons_are_refused(first: list[float], second: list[float]) -> None:
    with pytest.raises(ValueError, match=r"expected the same questions|not a number"):
        compare_models(np.array(first), np.array(second))
