"""The metrics in a suite: numbers for every checkpoint and nothing else, and clear errors for
missing settings."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.errors import InputRefused, UsageError
from sanitize.eval.language_model import LanguageModel
from sanitize.eval.metric import EvalContext, list_metrics, load_metric
from sanitize.eval.metrics import membership, task, verbatim
from sanitize.eval.run_folder import RunFolder
from sanitize.eval.suite import measure_runs
from sanitize.eval.texts_and_prompts import TextSet
from tests.support import collect_numbers

TEXTS = {
    f"d{number}": f"Ann{number} met Bob in Lyme, then Cy{number} sang; {'la ' * number}end."
    for number in range(5)
}


@pytest.fixture
def causal_runs(write_run: Any) -> dict[str, RunFolder]:
    return {
        name: RunFolder.open(write_run(name, TEXTS, steps=(0, 2, 4))) for name in ("raw", "other")
    }


@pytest.fixture
def masked_run(bert: Any, tokenizer: Any, write_run: Any) -> RunFolder:
    """A run whose checkpoints are masked models of random weights."""
    run = RunFolder.open(write_run("masked", TEXTS))
    for checkpoint in run.checkpoints:
        (checkpoint.path / "model.safetensors").unlink()
        model_copy = copy.deepcopy(bert)
        model_copy.save_pretrained(checkpoint.path)
    return RunFolder.open(run.path)


@pytest.fixture
def blacklist(tmp_path: Path) -> Path:
    rows = {
        "ngram": ["ann0", "cy1", "bob in"],
        "n": [1, 1, 2],
        "users": [1, 1, None],
        "reason": ["indirect", "indirect", "direct"],
    }
    pq.write_table(pa.table(rows), tmp_path / "blacklist.parquet")
    return tmp_path / "blacklist.parquet"


def test_all_metrics_are_listed() -> None:
    assert {"verbatim", "ngram", "identifiers", "membership", "task"} <= set(list_metrics())


def test_verbatim_and_ngram_in_a_suite(causal_runs: dict[str, RunFolder]) -> None:
    metrics = [
        load_metric({"use": "verbatim", "ks": [4, 8], "suffix": 8, "modes": ["greedy", "sample"]}),
        load_metric({"use": "ngram", "k": 8, "suffix": 8}),
    ]
    report = measure_runs(causal_runs, metrics, EvalContext(seed=1))
    json.dumps(report, allow_nan=False)
    assert all(math.isfinite(number) for number in collect_numbers(report))
    rows = report["runs"]["raw"]["rows"]
    assert [row["verbatim"]["probed_texts"] for row in rows] == [5, 5, 5]
    assert set(rows[0]["verbatim"]) == {
        "probed_texts",
        "too_short_texts",
        "greedy",
        "sample",
    } and set(rows[0]["verbatim"]["greedy"]) == {
        "mem_4",
        "mem_8",
        "mem",
    }
    assert [stop["rule"] for stop in report["aggregates"]["ngram"]["raw"]["stopping_points"]] == [
        "n-gram 20"
    ]
    assert len(report["aggregates"]["ngram"]["other"]["precursors"]) == 2
    assert {figure["metric"] for figure in report["figures"]} == {"verbatim", "ngram"}
    # all texts name two people
    assert [
        (row["category"], row["samples"])
        for row in report["aggregates"]["ngram"]["raw"]["categories"]
    ] == [("prose", 5)]
    with pytest.raises(UsageError, match="no set 'mail'"):
        load_metric({"use": "verbatim", "texts": "mail"}).setup(EvalContext())


@pytest.mark.parametrize(
    ("layout", "overlong", "longest"),
    [("document", "cut", 23), ("document", "split", 60), ("packed", "cut", 60)],
)
def test_texts_are_probed_in_their_trained_part(
    write_run: Any, layout: str, overlong: str, longest: int
) -> None:
    folder = write_run("cut", {"long": "abcdefghij" * 6, "short": "abc"})
    recipe = json.loads((folder / "recipe.json").read_text())
    recipe["recipe"] = {"data": {"layout": layout, "overlong": overlong}, "model": {"context": 24}}
    (folder / "recipe.json").write_text(json.dumps(recipe))
    run = RunFolder.open(folder)
    rows = verbatim.encode_trained_part(
        run, LanguageModel.load(run.final_checkpoint.path), ["abcdefghij" * 6, "abc"]
    )
    assert [len(row) for row in rows] == [longest, 3]


def test_figures_and_stopping_points_of_ngram(
    causal_runs: dict[str, RunFolder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "examples.jsonl").write_text('{"sentence": "It rained.", "answer": "negative"}\n')
    metrics = [
        load_metric({"use": "ngram", "k": 8, "suffix": 8, "texts": "mine"}),
        load_metric(
            {
                "use": "task",
                "examples": tmp_path / "examples.jsonl",
                "template": "sst5",
                "new_tokens": 12,
            }
        ),
    ]
    texts = TextSet(
        ("a", "b", "c"),
        (
            "Ann Lee met Bo Ray in Lyme.",
            "what did they say there?",
            "the sea was calm and very blue",
        ),
    )
    tokens = LanguageModel.load(causal_runs["raw"].final_checkpoint.path).encode(texts.texts)
    probe_points = verbatim.choose_probe_points(tokens, texts.doc_ids, ks=(8,), suffix_length=8)
    suffix_by_prefix = {
        tuple(before): list(suffix)
        for before, suffix in zip(
            probe_points.prefix_tokens.tolist(), probe_points.suffix_tokens.tolist(), strict=True
        )
    }
    calls = {"now": 0}

    def generate(self: LanguageModel, prompts: Any, **_: Any) -> list[list[int]]:
        """Step 0: no suffix. Step 2: half of one suffix, and the right answer. Step 4: all
        suffixes, and no answer."""
        if len(prompts) == 1:
            return [self.encode([" negative." if calls["now"] == 2 else " so"])[0]]
        calls["now"] += 1
        empty, half = [0] * 8, [[0, 0, *suffix_by_prefix[tuple(prompt)][2:]] for prompt in prompts]
        return [
            [empty] * 3,
            [half[0], empty, empty],
            [suffix_by_prefix[tuple(prompt)] for prompt in prompts],
        ][calls["now"] - 1]

    monkeypatch.setattr(LanguageModel, "generate", generate)
    report = measure_runs(
        {"raw": causal_runs["raw"]}, metrics, EvalContext(text_sets={"mine": texts})
    )
    aggregate = report["aggregates"]["ngram"]["raw"]
    assert aggregate["newly_memorized"] == [0, 0, 3]
    assert [(stop["rule"], stop["epoch"]) for stop in aggregate["stopping_points"]] == [
        ("n-gram 20", 0.5),
        ("best task", 0.5),
    ]
    assert [row["category"] for row in aggregate["categories"]] == ["entity", "prose", "question"]
    assert [row["mem_all"] for row in aggregate["categories"]] == [100.0] * 3
    figures = {
        figure["title"]: dict(figure["series"])
        for figure in report["figures"]
        if figure["metric"] == "ngram"
    }
    assert figures["Texts memorized for the first time"] == {"raw": [(0.0, 0), (0.5, 0), (1.0, 3)]}
    assert figures["Median score one checkpoint before"]["raw: memorized next"] == [(0.5, 0.0)]


def test_continuations_do_not_depend_on_the_batch_and_memorization_is_measured(
    causal_runs: dict[str, RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = LanguageModel.load(causal_runs["raw"].final_checkpoint.path)
    probe_points = verbatim.choose_probe_points(
        model.encode(list(TEXTS.values())), list(TEXTS), ks=(4, 8), suffix_length=8
    )
    for mode in ("greedy", "beam", "sample"):
        expected = verbatim.generate_continuations(model, probe_points, 8, mode=mode, batch=64)
        assert (
            verbatim.generate_continuations(model, probe_points, 8, mode=mode, batch=2) == expected
        ).all()
    suffix_by_prefix = {
        tuple(before): list(suffix)
        for before, suffix in zip(
            probe_points.prefix_tokens.tolist(), probe_points.suffix_tokens.tolist(), strict=True
        )
    }
    monkeypatch.setattr(
        LanguageModel,
        "generate",
        lambda self, prompts, **_: [
            suffix_by_prefix.get(tuple(prompt), [0] * 8) for prompt in prompts
        ],
    )
    rows = verbatim.tabulate_memorization(model, probe_points, ks=(4, 8))
    assert [(row["k"], row["mem"]) for row in rows] == [(4, 0.0), (8, 100.0), (None, 50.0)]


def test_identifiers_in_a_suite(
    masked_run: RunFolder, blacklist: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metric = load_metric({"use": "identifiers", "blacklist": str(blacklist), "folds": 3})
    # the trained model predicts the true words, the base model predicts commas
    loaded_checkpoint = {"now": False}
    load, fill = LanguageModel.load, LanguageModel.fill_masks

    def load_and_record(checkpoint: Any, *arguments: Any, **options: Any) -> LanguageModel:
        loaded_checkpoint["now"] = str(checkpoint).endswith("000004")
        return load(checkpoint, *arguments, **options)

    def fill_known_words(
        self: LanguageModel, sequences: Any, positions: Any, **options: Any
    ) -> Any:
        assert fill(self, sequences[:1], positions[:1])
        comma = self.encode([","])[0][0]
        return [
            [row[position] if loaded_checkpoint["now"] else comma for position in row_positions]
            for row, row_positions in zip(sequences, positions, strict=True)
        ]

    monkeypatch.setattr(LanguageModel, "load", staticmethod(load_and_record))
    monkeypatch.setattr(LanguageModel, "fill_masks", fill_known_words)
    report = measure_runs({"masked": masked_run}, [metric], EvalContext())
    json.dumps(report, allow_nan=False)
    before, after = (row["identifiers"] for row in report["runs"]["masked"]["rows"])
    assert (before["privacy"], before["leaked"], before["right_all"]) == (1.0, 0, 0.0)
    assert (
        after["privacy"],
        after["identifiers"],
        after["leaked_direct"],
        after["leaked_indirect"],
    ) == (0.0, 3, 1, 2)
    points = {figure["title"]: dict(figure["series"]) for figure in report["figures"]}[
        "Utility and privacy at each checkpoint"
    ]
    assert points == {"masked": [(0.0, 1.0), (1.0, 0.0)]}
    assert after["privacy_net"] == 0.0 and after["right_all"] == after["right_eligible"] == 1.0
    assert after["by_frequency"][0] == {
        "from": 1,
        "to": 1,
        "identifiers": 2,
        "leaked": 2,
        "predictions": 2,
        "predictions_per_identifier": 1.0,
    }
    assert "ann0" not in json.dumps(report)


def test_membership_in_a_suite(masked_run: RunFolder, blacklist: Path, tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "doc_id": ["m0", "m1", "m2"],
            "user_id": ["u", "v", None],
            "text": [TEXTS["d0"], None, "nobody's"],
        }
    )
    frame.write_parquet(tmp_path / "members.parquet")
    (tmp_path / "others").mkdir()
    frame.drop("doc_id").head(2).with_columns(text=pl.lit("Cy1 again")).write_parquet(
        tmp_path / "others" / "a.parquet"
    )
    settings = {
        "use": "membership",
        "members": tmp_path / "members.parquet",
        "non_members": tmp_path / "others",
        "blacklist": str(blacklist),
    }
    report = measure_runs({"masked": masked_run}, [load_metric(settings)], EvalContext())
    row = report["runs"]["masked"]["rows"][-1]["membership"]
    assert (row["members"], row["non_members"]) == (2, 2) and 0 <= row["auc"] <= 1
    series = {figure["title"]: dict(figure["series"]) for figure in report["figures"]}[
        "ROC at the last checkpoint"
    ]
    assert series["masked"] == row["curve"] and series["chance"] == [(0.0, 0.0), (1.0, 1.0)]
    assert row["curve"][0] == [0.0, 0.0] and row["curve"][-1] == [1.0, 1.0]
    steps = np.array(row["curve"])
    assert np.trapezoid(steps[:, 1], steps[:, 0]) == row["auc"]
    assert membership.read_user_texts(tmp_path / "members.parquet")["text"].to_list() == [
        TEXTS["d0"],
        "",
    ]
    frame.with_columns(user_id=pl.lit(None, pl.String)).write_parquet(tmp_path / "nobody.parquet")
    nobody = load_metric({**settings, "non_members": tmp_path / "nobody.parquet"})
    with pytest.raises(UsageError, match="membership.non_members.*at least one person"):
        nobody.setup(EvalContext())
    with pytest.raises(UsageError, match="no column 'who'"):
        membership.read_user_texts(tmp_path / "members.parquet", user_column="who")
    with pytest.raises(InputRefused, match="no such folder or file"):
        membership.read_user_texts(tmp_path / "nothing")
    (tmp_path / "broken.parquet").write_bytes(b"no table")
    with pytest.raises(InputRefused, match="cannot be read"):
        membership.read_user_texts(tmp_path / "broken.parquet")


def test_a_task_in_a_suite(
    causal_runs: dict[str, RunFolder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "examples.jsonl").write_text(
        '{"sentence": "It rained.", "answer": "negative"}\n{"sentence": "Sun!", "answer":'
        ' "positive"}\n'
    )
    metric = load_metric(
        {
            "use": "task",
            "examples": tmp_path / "examples.jsonl",
            "template": "sst5",
            "new_tokens": 12,
        }
    )
    prompts_seen: list[str] = []

    def generate(self: LanguageModel, prompts: Any, **_: Any) -> list[list[int]]:
        prompts_seen.extend(self.decode(prompts))
        return [self.encode([" negative, I"])[0]] * len(prompts)

    monkeypatch.setattr(LanguageModel, "generate", generate)
    report = measure_runs({"raw": causal_runs["raw"]}, [metric], EvalContext())
    assert report["runs"]["raw"]["rows"][0]["task"] == {"examples": 2, "accuracy": 0.5}
    assert prompts_seen[0] == "Sentence: It rained. - What is the sentiment?"
    for settings, message in (
        ({"template": "sst6"}, "sst5"),
        ({"examples": tmp_path / "none.jsonl"}, "no such file"),
        ({"answer_column": "label"}, "no column label"),
        ({"template": "qqp"}, "has a field"),
    ):
        with pytest.raises(UsageError, match=message):
            load_metric(
                {
                    "use": "task",
                    "examples": tmp_path / "examples.jsonl",
                    "template": "sst5",
                    **settings,
                }
            ).setup(EvalContext())


def test_scores_of_each_kind_of_template() -> None:
    assert task.score_answers(["Yes it is", "No"], ["Yes", "Yes"], task.TASK_TEMPLATES["qqp"]) == {
        "accuracy": 0.5,
        "f1": pytest.approx(1 / 3),
    }
    assert task.score_answers(["the cat"], ["cat"], task.TASK_TEMPLATES["squad_v2"]) == {
        "exact_match": 1.0,
        "token_f1": 1.0,
    }
    assert set(task.score_answers(["a b"], ["a"], task.TASK_TEMPLATES["xsum"])) == {
        f"{rouge_type}{suffix}"
        for rouge_type in ("rouge1", "rouge2", "rougeL")
        for suffix in ("", "_recall")
    }
