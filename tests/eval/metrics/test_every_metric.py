"""Every metric measures one checkpoint: numbers and nothing else. A new file in eval/metrics/ gets
its settings here."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from sanitize.eval.language_model import LanguageModel
from sanitize.eval.metric import EvalContext, Metric, list_metrics, load_metric
from sanitize.eval.run_folder import RunFolder
from sanitize.eval.texts_and_prompts import TextSet
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings

ANN, BO = "ann.lee@example.com", "bo.ray@example.org"
TEXTS = {"a": f"Ann: {ANN}, Lyme", "b": f"Bo: {BO}, Ely"}
CONTEXT = EvalContext(
    seed=1,
    baseline="raw",
    text_sets={"mine": TextSet(tuple(TEXTS), tuple(TEXTS.values()))},
    original_addresses={ANN: 2, BO: 1},
)
# metrics that measure nothing at a checkpoint: they combine what others measured
ONLY_AGGREGATES = {"frontier"}
MASKED_MODELS = {"identifiers", "membership"}  # metrics of masked models


def write_blacklist(folder: Path) -> Path:
    rows = {
        "ngram": ["ann", "lyme"],
        "n": [1, 1],
        "users": [1, 1],
        "reason": ["direct", "indirect"],
    }
    pl.DataFrame(rows).write_parquet(folder / "blacklist.parquet")
    return folder / "blacklist.parquet"


def write_user_texts(folder: Path, name: str, text: str) -> Path:
    pl.DataFrame({"user_id": ["u", "v"], "text": [text, text]}).write_parquet(folder / name)
    return folder / name


def write_lines(folder: Path, name: str, row: dict[str, Any]) -> Path:
    (folder / name).write_text(json.dumps(row) + "\n")
    return folder / name


def write_masked_corpus(folder: Path) -> dict[str, Path]:
    pl.DataFrame({"doc_id": list(TEXTS), "text": list(TEXTS.values())}).write_parquet(
        folder / "raw.parquet"
    )
    plan = load_plan("redact", ("edit.0.label=numbered",))
    run_with_settings(
        [folder / "raw.parquet"],
        folder / "masked",
        plan,
        folder / "work",
        Settings(seed=1, workers=1),
    )
    return {"masked": folder / "masked", "work": folder / "work"}


QUESTION = {
    "question": "Who?",
    "answer": "Ann.",
    "paraphrased_answer": "It is Ann.",
    "perturbed_answer": ["Bo.", "Cy."],
}
# the smallest settings with which each metric measures something; `folder` is for its files
SETTINGS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "extraction": lambda folder: {
        "web": 2,
        "cues": 2,
        "prompt_tokens": 8,
        "length": 16,
        "cue_tokens": 4,
    },
    "frontier": lambda folder: {},
    "identifiers": lambda folder: {"blacklist": write_blacklist(folder), "folds": 2},
    "membership": lambda folder: {
        "blacklist": write_blacklist(folder),
        "folds": 2,
        "members": write_user_texts(folder, "members.parquet", "Ann saw Lyme"),
        "non_members": write_user_texts(folder, "others.parquet", "Bo saw Ely"),
    },
    "ngram": lambda folder: {"k": 8, "suffix": 8},
    "perplexity": lambda folder: {},
    "reconstruction": lambda folder: {
        **write_masked_corpus(folder),
        "queries": 2,
        "p2p_queries": 1,
        "new_tokens": 4,
        "whole_prompt": "{text}>",
        "direct_prompt": "{key}{text}",
        "key_prompt": "{text}{key}",
        "empty_prompt": ">",
    },
    "task": lambda folder: {
        "examples": write_lines(
            folder, "examples.jsonl", {"sentence": "Rain.", "answer": "negative"}
        ),
        "template": "sst5",
        "instruction": False,
        "new_tokens": 4,
    },
    "tofu": lambda folder: {
        "retain": write_lines(folder, "retain.jsonl", QUESTION),
        "forget": write_lines(folder, "forget.jsonl", QUESTION),
        "retrained": "raw",
        "new_tokens": 4,
    },
    "verbatim": lambda folder: {"ks": [8], "suffix": 8},
}


def list_leaves(result: Any) -> list[Any]:
    if isinstance(result, dict):
        return [leaf for entry in result.values() for leaf in list_leaves(entry)]
    return (
        [leaf for entry in result for leaf in list_leaves(entry)]
        if isinstance(result, list)
        else [result]
    )


@pytest.fixture
def make_run(write_run: Any, bert: Any) -> Callable[[bool], RunFolder]:
    """A function that writes a run with two checkpoints of random weights, of a causal or a masked
    model."""

    def make(masked: bool) -> RunFolder:
        run = RunFolder.open(write_run("raw", TEXTS))
        for checkpoint in run.checkpoints if masked else ():
            (checkpoint.path / "model.safetensors").unlink()
            copy.deepcopy(bert).save_pretrained(checkpoint.path)
        return RunFolder.open(run.path)

    return make


@pytest.mark.parametrize("name", list_metrics())
def test_a_metric_measures_a_checkpoint(
    name: str, make_run: Callable[[bool], RunFolder], tmp_path: Path
) -> None:
    assert name in SETTINGS, (
        f"add the smallest settings of the metric {name} to SETTINGS of {Path(__file__).name}"
    )
    metric = load_metric({"use": name, **SETTINGS[name](tmp_path)})
    metric.setup(CONTEXT)
    run = make_run(name in MASKED_MODELS)
    result = metric.on_checkpoint(
        run, run.final_checkpoint, LanguageModel.load(run.final_checkpoint.path)
    )
    if name in ONLY_AGGREGATES:
        assert (
            type(metric).on_checkpoint is Metric.on_checkpoint
            and type(metric).aggregate is not Metric.aggregate
        )
        return
    numbers = [leaf for leaf in list_leaves(result) if isinstance(leaf, int | float)]
    assert numbers, f"{name}: on_checkpoint has to return what it measured"
    assert all(math.isfinite(number) for number in numbers)
    text = json.dumps(result, allow_nan=False)  # one JSON object, for the report
    assert not any(value in text.lower() for value in (ANN, BO, "lyme", "ely", "ann:")), (
        f"{name}: its result has a text of the data"
    )


@pytest.mark.parametrize("name", sorted({*list_metrics()} - ONLY_AGGREGATES - MASKED_MODELS))
def test_texts_and_prompts_begin_as_in_training(
    name: str, make_run: Callable[[bool], RunFolder], tmp_path: Path
) -> None:
    """With a tokenizer that adds a token before every text, everything that a metric lets the model
    read begins with it."""
    from tokenizers.processors import TemplateProcessing

    run = make_run(False)
    model = LanguageModel.load(run.final_checkpoint.path)
    begin = "<|mask|>"  # any token that no text has
    begin_id = model.tokenizer.convert_tokens_to_ids(begin)
    model.tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{begin} $A", special_tokens=[(begin, begin_id)]
    )
    assert model.leading_ids == [begin_id]
    first_ids: list[int] = []

    def record_first_ids(module: Any, arguments: Any, options: dict[str, Any]) -> None:
        cache, ids, mask = (
            options.get("past_key_values"),
            options["input_ids"],
            options.get("attention_mask"),
        )
        if cache is None or not cache.get_seq_length():
            starts = (
                ids[:, :1] * 0 if mask is None else mask[:, : ids.shape[1]].argmax(1, keepdim=True)
            )
            first_ids.extend(ids.gather(1, starts)[:, 0].tolist())

    model.model.register_forward_pre_hook(record_first_ids, with_kwargs=True)
    metric = load_metric({"use": name, **SETTINGS[name](tmp_path)})
    metric.setup(CONTEXT)
    metric.on_checkpoint(run, run.final_checkpoint, model)
    assert {*first_ids} == {begin_id}
