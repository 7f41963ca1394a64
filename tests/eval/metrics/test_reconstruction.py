"""Recollect and Rank as a metric: its settings, its results at a checkpoint, and that no table contains a value or a NaN."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import sanitize
from sanitize.errors import UsageError
from sanitize.eval.language_model import LanguageModel
from sanitize.eval.metric import EvalContext, load_metric
from sanitize.eval.metrics.reconstruction import Reconstruction, compute_b_curve, tabulate_by_b
from sanitize.eval.recollect_and_rank import AttackSettings, MaskedRecords
from sanitize.eval.run_folder import RunFolder
from sanitize.eval.suite import Suite, evaluate

ANN, BO, CY = "ann.lee@example.com", "bo.ray@example.org", "cy.fox@example.net"
TEXTS = {"a": f"alpha {ANN}", "b": f"beta {BO} end"}
PROMPTS = {"whole_prompt": "{text}>", "direct_prompt": "{key}{text}", "empty_prompt": "", "key_prompt": "{text}{key}"}


def masked(folder: Path, texts: dict[str, str]) -> dict[str, Path]:
    """The settings that name masked texts and their labels."""
    (folder / "raw").mkdir(parents=True)
    pl.DataFrame({"doc_id": list(texts), "text": list(texts.values())}).write_parquet(folder / "raw" / "a.parquet")
    plan = sanitize.load_plan("redact", ("edit.0.label=numbered",))
    sanitize.run([folder / "raw"], folder / "masked", plan, folder / "work", sanitize.Settings(seed=1, workers=1))
    return {"masked": folder / "masked", "work": folder / "work"}


@pytest.fixture
def speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that answers every prompt with the address of its text, and with another one before."""
    said = {"alpha": f"{CY} {ANN}", "beta": f"{BO} {CY}"}

    def generate(self: LanguageModel, prompts: list[list[int]], **_: Any) -> list[list[int]]:
        return self.encode([said["alpha" if "alpha" in prompt else "beta"] for prompt in self.decode(prompts)])

    monkeypatch.setattr(LanguageModel, "generate", generate)
    monkeypatch.setattr(LanguageModel, "context_length", property(lambda self: 4096))


def numbers(told: Any) -> list[float]:
    """Every number in a report."""
    if isinstance(told, dict):
        return [number for one in told.values() for number in numbers(one)]
    if isinstance(told, list):
        return [number for one in told for number in numbers(one)]
    return [float(told)] if isinstance(told, int | float) else []


def test_a_checkpoint_is_attacked(run_of: Any, tmp_path: Path, speaks: None) -> None:
    run = RunFolder.open(run_of("victim", TEXTS))
    places = {name: str(place) for name, place in masked(tmp_path / "m", TEXTS).items()}
    others = masked(tmp_path / "u", {"z": f"alpha {BO}"})
    settings = {**places, "untrained": others["masked"], "untrained_work": others["work"], "queries": 3, "p2p_queries": 2, **PROMPTS}
    one = load_metric({"use": "reconstruction", "finders": ["patterns", "names"], **settings})
    one.setup(EvalContext(seed=1))
    seen: list[str] = []
    sees = one._value_finder  # type: ignore[attr-defined]
    one._value_finder = lambda texts: seen.extend(texts) or sees(texts)  # type: ignore[attr-defined,func-returns-value]
    assert sees(["my name is Ann Larsson"])["kind"].to_list() == ["PERSON"]
    told = one.on_checkpoint(run, run.final_checkpoint, LanguageModel.load(run.final_checkpoint.path))
    assert len(seen) == 3 * 2 + 3 * 1 + 2 + 2 + 2 * 2  # answers about trained and other texts, and to the attacks before it
    trained = told["trained"]
    assert (trained["keys"], trained["texts"], trained["candidates"], trained["keys_without_candidates"]) == (2, 2, 4, 0)
    assert trained["recall"] == 1.0 and trained["recall_at"][-1] == {"first": 10, "recall": 1.0}
    assert [row["queries"] for row in trained["recall_by_queries"]] == [1, 2, 3]
    assert trained["by_kind"][0]["keys"] == 2 and trained["by_words"] == [
        {"from": 0, "to": 49, "keys": 2, "correct": round(2 * trained["top1"])}
    ]
    assert set(trained["criteria"]) == {"vanilla", "partial", "subtract", "ratio", "biased"}  # the paper's, and no others
    assert set(trained["other_criteria"]) == {"votes", "votes_subtract"}
    assert trained["by_b"][-1]["b"] is None and trained["by_b"][-1]["top1"] == trained["criteria"]["partial"]["top1"]
    assert trained["by_b"][0]["top1"] == trained["criteria"]["ratio"]["top1"]
    assert told["untrained"]["keys"] == 1 and told["untrained"]["recall"] == 0.0
    assert told["baselines"] == {
        "direct": 1.0,
        "tab": 1.0,
        "p2p": pytest.approx(told["baselines"]["p2p"]),
        "p2p_recall": 1.0,
        "p2p_votes": told["baselines"]["p2p_votes"],
    }
    report = json.dumps(told)
    assert not any(value in report for value in (ANN, BO, CY, "alpha")) and all(map(math.isfinite, numbers(told)))


def test_votes_may_rank_and_are_nobodys_headline(run_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of three answers contain the true address, the first another one: votes find it for all losses. The default is the paper's."""
    turns = {"alpha": [CY, ANN, ANN], "beta": [CY, BO, BO]}

    def generate(self: LanguageModel, prompts: list[list[int]], **_: Any) -> list[list[int]]:
        words = ["alpha" if "alpha" in prompt else "beta" for prompt in self.decode(prompts)]
        return self.encode([turns[word][words[:number].count(word) % 3] for number, word in enumerate(words)])

    monkeypatch.setattr(LanguageModel, "generate", generate)
    monkeypatch.setattr(LanguageModel, "context_length", property(lambda self: 4096))
    run, places = RunFolder.open(run_of("victim", TEXTS)), masked(tmp_path / "m", TEXTS)
    told = {}
    for criterion in ({}, {"criterion": "votes"}):
        one = load_metric({"use": "reconstruction", **places, "queries": 3, "p2p_queries": 3, **criterion, **PROMPTS})
        one.setup(EvalContext())
        told[criterion.get("criterion", "")] = one.on_checkpoint(run, run.final_checkpoint, LanguageModel.load(run.final_checkpoint.path))
    plain, voted = told[""]["trained"], told["votes"]["trained"]
    assert voted["top1"] == 1.0 == plain["other_criteria"]["votes"]["top1"] == told[""]["baselines"]["p2p_votes"]
    assert plain["top1"] == plain["criteria"]["biased"]["top1"] and plain["criteria"] == voted["criteria"]
    assert Reconstruction(use="reconstruction", **places).criterion == "biased"


def test_the_reference_as_victim_tells_nothing_apart(run_of: Any, tmp_path: Path, speaks: None) -> None:
    """At step 0 all ratios are equal, so that the first generated candidate is the answer."""
    run = RunFolder.open(run_of("victim", TEXTS))
    one = load_metric({"use": "reconstruction", **masked(tmp_path / "m", TEXTS), "queries": 1, "baselines": False, **PROMPTS})
    one.setup(EvalContext())
    told = one.on_checkpoint(run, run.base_checkpoint, LanguageModel.load(run.base_checkpoint.path))
    assert told["trained"]["criteria"]["ratio"]["top1"] == 0.5 == told["trained"]["criteria"]["subtract"]["top1"]
    assert "baselines" not in told and "untrained" not in told


def test_nothing_said_is_wrong_and_no_nan(run_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LanguageModel, "generate", lambda self, prompts, **_: [[] for _ in prompts])
    monkeypatch.setattr(LanguageModel, "context_length", property(lambda self: 4096))
    run = RunFolder.open(run_of("victim", TEXTS))
    one = load_metric({"use": "reconstruction", **masked(tmp_path / "m", TEXTS), **PROMPTS})
    one.setup(EvalContext())
    told = one.on_checkpoint(run, run.final_checkpoint, LanguageModel.load(run.final_checkpoint.path))
    assert told["trained"]["top1"] == 0 == told["trained"]["recall"] and told["trained"]["keys_without_candidates"] == 2
    assert all(row["ratio"] is None for row in told["trained"]["by_b"]) and all(map(math.isfinite, numbers(told)))
    assert set(told["baselines"].values()) == {0.0}


def test_b_is_chosen_on_a_shadow(run_of: Any, tmp_path: Path, speaks: None) -> None:
    run, shadow = RunFolder.open(run_of("victim", TEXTS)), run_of("shadow", TEXTS)
    places = masked(tmp_path / "m", TEXTS)
    settings = {"use": "reconstruction", **places, "queries": 2, "baselines": False, **PROMPTS}
    one = load_metric({**settings, "shadow": {"run": shadow, **places}})
    one.setup(EvalContext())
    told = one.on_checkpoint(run, run.final_checkpoint, LanguageModel.load(run.final_checkpoint.path))
    records = MaskedRecords.read(places["masked"], places["work"])
    curve = compute_b_curve(
        LanguageModel.load(RunFolder.open(shadow).final_checkpoint.path),
        LanguageModel.load(run.base_checkpoint.path),
        records,
        AttackSettings(queries=2, **PROMPTS),
    )  # type: ignore[arg-type]
    assert told["shadow"]["accuracy_by_b"] == tabulate_by_b(curve)
    top = max(share for _, share in curve)
    assert dict(curve)[math.inf if told["b"] is None else told["b"]] == top


def test_it_is_a_metric_of_a_suite(run_of: Any, tmp_path: Path, speaks: None) -> None:
    places = masked(tmp_path / "m", TEXTS)
    suite = Suite.from_table(
        {
            "runs": {"victim": str(run_of("victim", TEXTS))},
            "checkpoints": "final",
            "metric": [{"use": "reconstruction", **{name: str(place) for name, place in places.items()}, "queries": 2, **PROMPTS}],
        }
    )
    report = evaluate(suite)
    rows = report["runs"]["victim"]["rows"]
    assert [row["step"] for row in rows] == [0, 4] and all(row["reconstruction"]["trained"]["recall"] == 1.0 for row in rows)
    assert [figure["title"] for figure in report["figures"]] == [
        "Masked values that are recovered", "Values that were generated at all", "Accuracy by b, over that of b = 0",
    ]  # fmt: skip
    assert report["figures"][1]["series"][0][1] == [(1, 100.0), (2, 100.0)]
    json.dumps(report, allow_nan=False)


def test_settings_that_do_not_fit(tmp_path: Path) -> None:
    places = masked(tmp_path / "m", TEXTS)
    for wrong, what in (({"criterion": "best"}, "criterion"), ({"querys": 3}, "queries"), ({"b": -1}, "b")):
        with pytest.raises(UsageError, match=what):
            load_metric({"use": "reconstruction", **places, **wrong})
    with pytest.raises(UsageError, match="belong together"):
        load_metric({"use": "reconstruction", **places, "untrained": tmp_path}).setup(EvalContext())
    assert isinstance(load_metric({"use": "reconstruction", **places}), Reconstruction)
