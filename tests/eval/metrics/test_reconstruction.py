"""Recollect and Rank as a metric: its settings, its results at a checkpoint, and that no table
contains a value or a NaN."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from sanitize.errors import UsageError
from sanitize.eval.language_model import LanguageModel
from sanitize.eval.metric import EvalContext, load_metric
from sanitize.eval.metrics.reconstruction import Reconstruction, compute_b_curve, tabulate_by_b
from sanitize.eval.recollect_and_rank import AttackSettings, MaskedRecords
from sanitize.eval.run_folder import RunFolder
from sanitize.eval.suite import Suite, evaluate
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings

ANN, BO, CY = "ann.lee@example.com", "bo.ray@example.org", "cy.fox@example.net"
TEXTS = {"a": f"alpha {ANN}", "b": f"beta {BO} end"}
PROMPTS = {
    "whole_prompt": "{text}>",
    "direct_prompt": "{key}{text}",
    "empty_prompt": "",
    "key_prompt": "{text}{key}",
}


def write_masked_corpus(folder: Path, texts: dict[str, str]) -> dict[str, Path]:
    """The settings that name masked texts and their labels."""
    (folder / "raw").mkdir(parents=True)
    pl.DataFrame({"doc_id": list(texts), "text": list(texts.values())}).write_parquet(
        folder / "raw" / "a.parquet"
    )
    plan = load_plan("redact", ("edit.0.label=numbered",))
    run_with_settings(
        [folder / "raw"], folder / "masked", plan, folder / "work", Settings(seed=1, workers=1)
    )
    return {"masked": folder / "masked", "work": folder / "work"}


@pytest.fixture
def fixed_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that answers every prompt with the address of its text, preceded by another
    address."""
    answers = {"alpha": f"{CY} {ANN}", "beta": f"{BO} {CY}"}

    def generate(self: LanguageModel, prompts: list[list[int]], **_: Any) -> list[list[int]]:
        return self.encode(
            [answers["alpha" if "alpha" in prompt else "beta"] for prompt in self.decode(prompts)]
        )

    monkeypatch.setattr(LanguageModel, "generate", generate)
    monkeypatch.setattr(LanguageModel, "context_length", property(lambda self: 4096))


def collect_numbers(report: Any) -> list[float]:
    """Every number in a report."""
    if isinstance(report, dict):
        return [number for item in report.values() for number in collect_numbers(item)]
    if isinstance(report, list):
        return [number for item in report for number in collect_numbers(item)]
    return [float(report)] if isinstance(report, int | float) else []


@pytest.mark.slow
def test_reconstruction_attack_on_a_checkpoint(
    write_run: Any, tmp_path: Path, fixed_answers: None
) -> None:
    run = RunFolder.open(write_run("victim", TEXTS))
    corpus_settings = {
        name: str(path) for name, path in write_masked_corpus(tmp_path / "m", TEXTS).items()
    }
    other_corpus = write_masked_corpus(tmp_path / "u", {"z": f"alpha {BO}"})
    settings = {
        **corpus_settings,
        "untrained": other_corpus["masked"],
        "untrained_work": other_corpus["work"],
        "queries": 3,
        "p2p_queries": 2,
        **PROMPTS,
    }
    metric = load_metric({"use": "reconstruction", "finders": ["patterns", "names"], **settings})
    metric.setup(EvalContext(seed=1))
    texts_searched: list[str] = []
    find_values = metric._value_finder  # type: ignore[attr-defined]
    metric._value_finder = lambda texts: texts_searched.extend(texts) or find_values(texts)  # type: ignore[attr-defined,func-returns-value]
    assert find_values(["my name is Ann Larsson"])["kind"].to_list() == ["PERSON"]
    result = metric.on_checkpoint(
        run, run.final_checkpoint, LanguageModel.load(run.final_checkpoint.path)
    )
    # generations for trained and other texts, and for the earlier attacks
    assert len(texts_searched) == 3 * 2 + 3 * 1 + 2 + 2 + 2 * 2
    trained = result["trained"]
    assert (
        trained["keys"],
        trained["texts"],
        trained["candidates"],
        trained["keys_without_candidates"],
    ) == (2, 2, 4, 0)
    assert trained["recall"] == 1.0 and trained["recall_at"][-1] == {"first": 10, "recall": 1.0}
    assert [row["queries"] for row in trained["recall_by_queries"]] == [1, 2, 3]
    assert trained["by_kind"][0]["keys"] == 2 and trained["by_words"] == [
        {"from": 0, "to": 49, "keys": 2, "correct": round(2 * trained["top1"])}
    ]
    # only the paper's
    assert set(trained["criteria"]) == {
        "vanilla",
        "partial",
        "subtract",
        "ratio",
        "biased",
    }
    assert set(trained["other_criteria"]) == {"votes", "votes_subtract"}
    assert (
        trained["by_b"][-1]["b"] is None
        and trained["by_b"][-1]["top1"] == trained["criteria"]["partial"]["top1"]
    )
    assert trained["by_b"][0]["top1"] == trained["criteria"]["ratio"]["top1"]
    assert result["untrained"]["keys"] == 1 and result["untrained"]["recall"] == 0.0
    assert result["baselines"] == {
        "direct": 1.0,
        "tab": 1.0,
        "p2p": pytest.approx(result["baselines"]["p2p"]),
        "p2p_recall": 1.0,
        "p2p_votes": result["baselines"]["p2p_votes"],
    }
    report = json.dumps(result)
    assert not any(value in report for value in (ANN, BO, CY, "alpha")) and all(
        map(math.isfinite, collect_numbers(result))
    )


def test_votes_rank_only_when_chosen(
    write_run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of three answers contain the true address, the first contains another one: votes find it.
    The default is the paper's."""
    answers = {"alpha": [CY, ANN, ANN], "beta": [CY, BO, BO]}

    def generate(self: LanguageModel, prompts: list[list[int]], **_: Any) -> list[list[int]]:
        words = ["alpha" if "alpha" in prompt else "beta" for prompt in self.decode(prompts)]
        return self.encode(
            [answers[word][words[:number].count(word) % 3] for number, word in enumerate(words)]
        )

    monkeypatch.setattr(LanguageModel, "generate", generate)
    monkeypatch.setattr(LanguageModel, "context_length", property(lambda self: 4096))
    run, corpus_settings = (
        RunFolder.open(write_run("victim", TEXTS)),
        write_masked_corpus(tmp_path / "m", TEXTS),
    )
    results = {}
    for criterion in ({}, {"criterion": "votes"}):
        metric = load_metric(
            {
                "use": "reconstruction",
                **corpus_settings,
                "queries": 3,
                "p2p_queries": 3,
                **criterion,
                **PROMPTS,
            }
        )
        metric.setup(EvalContext())
        results[criterion.get("criterion", "")] = metric.on_checkpoint(
            run, run.final_checkpoint, LanguageModel.load(run.final_checkpoint.path)
        )
    plain, voted = results[""]["trained"], results["votes"]["trained"]
    assert (
        voted["top1"]
        == 1.0
        == plain["other_criteria"]["votes"]["top1"]
        == results[""]["baselines"]["p2p_votes"]
    )
    assert (
        plain["top1"] == plain["criteria"]["biased"]["top1"]
        and plain["criteria"] == voted["criteria"]
    )
    assert Reconstruction(use="reconstruction", **corpus_settings).criterion == "biased"


def test_the_reference_model_as_victim_gives_equal_ratios(
    write_run: Any, tmp_path: Path, fixed_answers: None
) -> None:
    """At step 0 all ratios are equal, so that the first generated candidate is the answer."""
    run = RunFolder.open(write_run("victim", TEXTS))
    metric = load_metric(
        {
            "use": "reconstruction",
            **write_masked_corpus(tmp_path / "m", TEXTS),
            "queries": 1,
            "baselines": False,
            **PROMPTS,
        }
    )
    metric.setup(EvalContext())
    result = metric.on_checkpoint(
        run, run.base_checkpoint, LanguageModel.load(run.base_checkpoint.path)
    )
    assert (
        result["trained"]["criteria"]["ratio"]["top1"]
        == 0.5
        == result["trained"]["criteria"]["subtract"]["top1"]
    )
    assert "baselines" not in result and "untrained" not in result


def test_empty_generations_count_as_wrong_without_nan(
    write_run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LanguageModel, "generate", lambda self, prompts, **_: [[] for _ in prompts])
    monkeypatch.setattr(LanguageModel, "context_length", property(lambda self: 4096))
    run = RunFolder.open(write_run("victim", TEXTS))
    metric = load_metric(
        {"use": "reconstruction", **write_masked_corpus(tmp_path / "m", TEXTS), **PROMPTS}
    )
    metric.setup(EvalContext())
    result = metric.on_checkpoint(
        run, run.final_checkpoint, LanguageModel.load(run.final_checkpoint.path)
    )
    assert (
        result["trained"]["top1"] == 0 == result["trained"]["recall"]
        and result["trained"]["keys_without_candidates"] == 2
    )
    assert all(row["ratio"] is None for row in result["trained"]["by_b"]) and all(
        map(math.isfinite, collect_numbers(result))
    )
    assert set(result["baselines"].values()) == {0.0}


def test_b_is_chosen_on_a_shadow_model(write_run: Any, tmp_path: Path, fixed_answers: None) -> None:
    run, shadow = RunFolder.open(write_run("victim", TEXTS)), write_run("shadow", TEXTS)
    corpus_settings = write_masked_corpus(tmp_path / "m", TEXTS)
    settings = {
        "use": "reconstruction",
        **corpus_settings,
        "queries": 2,
        "baselines": False,
        **PROMPTS,
    }
    metric = load_metric({**settings, "shadow": {"run": shadow, **corpus_settings}})
    metric.setup(EvalContext())
    result = metric.on_checkpoint(
        run, run.final_checkpoint, LanguageModel.load(run.final_checkpoint.path)
    )
    records = MaskedRecords.read(corpus_settings["masked"], corpus_settings["work"])
    curve = compute_b_curve(
        LanguageModel.load(RunFolder.open(shadow).final_checkpoint.path),
        LanguageModel.load(run.base_checkpoint.path),
        records,
        AttackSettings(queries=2, **PROMPTS),
    )  # type: ignore[arg-type]
    assert result["shadow"]["accuracy_by_b"] == tabulate_by_b(curve)
    top = max(share for _, share in curve)
    assert dict(curve)[math.inf if result["b"] is None else result["b"]] == top


@pytest.mark.slow
def test_reconstruction_in_a_suite(write_run: Any, tmp_path: Path, fixed_answers: None) -> None:
    corpus_settings = write_masked_corpus(tmp_path / "m", TEXTS)
    suite = Suite.from_table(
        {
            "runs": {"victim": str(write_run("victim", TEXTS))},
            "checkpoints": "final",
            "metric": [
                {
                    "use": "reconstruction",
                    **{name: str(path) for name, path in corpus_settings.items()},
                    "queries": 2,
                    **PROMPTS,
                }
            ],
        }
    )
    report = evaluate(suite)
    rows = report["runs"]["victim"]["rows"]
    assert [row["step"] for row in rows] == [0, 4] and all(
        row["reconstruction"]["trained"]["recall"] == 1.0 for row in rows
    )
    assert [figure["title"] for figure in report["figures"]] == [
        "Masked values that are recovered",
        "Values that were generated at all",
        "Accuracy by b, over that of b = 0",
    ]
    assert report["figures"][1]["series"][0][1] == [(1, 100.0), (2, 100.0)]
    json.dumps(report, allow_nan=False)


def test_invalid_settings_are_refused(tmp_path: Path) -> None:
    corpus_settings = write_masked_corpus(tmp_path / "m", TEXTS)
    for invalid, message in (
        ({"criterion": "best"}, "criterion"),
        ({"querys": 3}, "queries"),
        ({"b": -1}, "b"),
    ):
        with pytest.raises(UsageError, match=message):
            load_metric({"use": "reconstruction", **corpus_settings, **invalid})
    with pytest.raises(UsageError, match="belong together"):
        load_metric({"use": "reconstruction", **corpus_settings, "untrained": tmp_path}).setup(
            EvalContext()
        )
    assert isinstance(load_metric({"use": "reconstruction", **corpus_settings}), Reconstruction)
