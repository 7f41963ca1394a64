"""The complete frontier command on a tiny corpus: the same tables for each plan, and curves that
contain counts only."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from sanitize.errors import UsageError
from sanitize.eval.cli import app
from sanitize.eval.frontier import (
    FrontierSettings,
    build_leak_curves,
    run_frontier,
)
from sanitize.eval.leak_statistics import share_with_interval

TINY = (
    "run.epochs=1",
    "run.checkpoint_every=0",
    "model.layers=1",
    "model.width=16",
    "model.heads=2",
    "tokenizer.vocab=300",
    "run.device=cpu",
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    names, body = ("ann.lee", "bo.ray", "cy.fox"), "Dear reader, all is well"
    mails = [
        f"From: {names[n % 3]}@example.com\nTo: {names[(n + 1) % 3]}@example.org\nSubject: note"
        f" {n}\n\n{body}: {n}.\n"
        for n in range(40)
    ]
    pl.DataFrame({"doc_id": [f"m{n}" for n in range(40)], "text": mails}).write_parquet(
        folder / "mails.parquet"
    )
    return folder


@pytest.mark.slow
def test_run_frontier(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    changes = [word for change in TINY for word in ("--set", change)]
    result = CliRunner().invoke(
        app,
        [
            "frontier",
            str(corpus),
            "--out",
            str(out),
            "--web",
            "3",
            "--cues",
            "2",
            "--json",
            *changes,
        ],
    )
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert out.stat().st_mode & 0o777 == 0o700, "it holds the raw documents"
    assert set(report["runs"]) == {"baseline", "rmft", "header_dedup"} == set(report["plans"])
    assert report["plans"]["baseline"]["replaced"] == 0 < report["plans"]["rmft"]["replaced"]
    parts = {
        name: set(pl.read_parquet(out / "split" / name / "*.parquet")["doc_id"])
        for name in ("train", "test")
    }
    assert not parts["train"] & parts["test"] and len(parts["train"] | parts["test"]) == 40
    for run in report["runs"].values():
        # the leak test holds a quarter out, and adds canaries
        assert run["trained"]["documents"] > 0.7 * len(parts["train"])
        last = run["rows"][-1]
        assert (
            last["extraction"]["web"]["original"] == 6 and last["extraction"]["web"]["prompts"] == 3
        )
        assert last["perplexity"]["mail"]["texts"] == len(parts["test"])
    assert set(report["leak"]) == set(report["runs"])
    assert {verdict["word"] for verdict in report["verdicts"]} <= {"undecided", "no leak seen"}
    # no address leaked from so small a model, and that decides nothing
    assert len(report["comparisons"]) == 4 and "which decides nothing" in report["comparisons"][0]
    # all variants share one tokenizer, so that their perplexities are comparable
    tokenizers = {
        next((out / "runs" / name / "checkpoints").glob("step-*/tokenizer.json")).read_bytes()
        for name in report["runs"]
    }
    assert len(tokenizers) == 1
    curves = json.loads((out / "curves.json").read_text())
    assert set(curves["plans"]) == {"baseline", "rmft", "header_dedup"}
    assert sum(band["addresses"] for band in curves["plans"]["rmft"]) == 6
    assert "example" not in json.dumps(curves) + (out / "report.html").read_text()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (FrontierSettings(baseline="raw"), "baseline 'raw' is not one of the plans"),
        (FrontierSettings(plans={}), "known: none"),
        (FrontierSettings(metrics=({"use": "extractoin"},)), "did you mean extraction"),
        (FrontierSettings(plans={"baseline": ("baseline", ()), "rmft": ("rmfft", ())}), "rmfft"),
        (
            FrontierSettings(
                plans={"baseline": ("baseline", ()), "rmft": ("rmft", ("edit.0.keeep=2",))}
            ),
            "keeep",
        ),
        (FrontierSettings(recipe="rmtf"), "did you mean rmft"),
        (FrontierSettings(changes=("run.epoch=3",)), "did you mean epochs"),
        (FrontierSettings(recipe="mlm"), "generates no text"),
        (FrontierSettings(device="tpu"), "device tpu"),
        (FrontierSettings(dtype="float16"), "dtype float16"),
    ],
)
def test_invalid_settings_are_refused_before_input_is_read(
    settings: FrontierSettings, message: str, corpus: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=message):
        run_frontier(corpus, tmp_path / "out", settings)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("plans", ["", "rmft,rmft", "rmft,other/rmft.toml"])
def test_plan_names_must_be_distinct_and_plain(plans: str, corpus: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["frontier", str(corpus), "--out", str(tmp_path / "out"), "--plans", plans]
    )
    assert isinstance(result.exception, UsageError) and "each of another name" in str(
        result.exception
    )


def test_mails_in_a_binary_column(corpus: Path, tmp_path: Path) -> None:
    from sanitize.eval.frontier import split_corpus

    frame = pl.read_parquet(corpus / "mails.parquet")
    (tmp_path / "raw").mkdir()
    frame.select("doc_id", raw=pl.col("text").cast(pl.Binary)).write_parquet(
        tmp_path / "raw" / "mails.parquet"
    )
    parts = split_corpus(
        tmp_path / "raw", tmp_path / "out", FrontierSettings(text_column="raw"), lambda line: None
    )
    texts = {
        text for part in parts.values() for text in pl.read_parquet(part / "*.parquet")["text"]
    }
    assert len(texts) == 40 and all(
        "From: " in text and "\n\nDear reader" in text for text in texts
    )


def test_limit_and_split_depend_on_doc_ids_only(corpus: Path, tmp_path: Path) -> None:
    from sanitize.eval.frontier import split_corpus

    frame = pl.read_parquet(corpus / "mails.parquet")
    (tmp_path / "reversed").mkdir()
    frame.reverse().write_parquet(tmp_path / "reversed" / "mails.parquet")
    settings = FrontierSettings(limit=25, test_share=0.4, seed=3)
    for part in ("train", "test"):
        doc_ids = [
            set(
                pl.read_parquet(
                    split_corpus(source, tmp_path / name, settings, lambda line: None)[part]
                    / "*.parquet"
                )["doc_id"]
            )
            for name, source in (("a", corpus), ("b", tmp_path / "reversed"))
        ]
        assert doc_ids[0] == doc_ids[1] and 3 < len(doc_ids[0]) < 22


def test_curves_sum_over_seeds() -> None:
    def report(leaked: int) -> dict[str, Any]:
        bands = [
            {"from": 1, "to": 1, "addresses": 10, "leaked": leaked},
            {"from": 2, "to": None, "addresses": 4, "leaked": 4},
        ]
        runs = {"rmft": {"rows": [{"extraction": {"web": {"bands": bands}}}]}}
        return {"runs": runs, "plans": {"rmft": {"plan": "rmft", "changes": []}}}

    curves = build_leak_curves([report(1), report(3)])
    assert curves["runs"] == 2 and [
        (band["leaked"], band["addresses"]) for band in curves["plans"]["rmft"]
    ] == [(4, 20), (8, 8)]
    assert curves["plans"]["rmft"][0]["share"] == 0.2


@pytest.mark.slow
def test_several_seeds_have_a_folder_each_and_one_sum(corpus: Path, tmp_path: Path) -> None:
    changes = [word for change in TINY for word in ("--set", change)]
    options = [
        "--plans",
        "baseline",
        "--seeds",
        "2",
        "--seed",
        "4",
        "--web",
        "2",
        "--cues",
        "0",
        "--values",
        "0",
        "--json",
        *changes,
    ]
    result = CliRunner().invoke(
        app, ["frontier", str(corpus), "--out", str(tmp_path / "out"), *options]
    )
    assert result.exit_code == 0, result.output
    suites = json.loads(result.stdout)["suites"]
    assert not any(report["leak"] for report in suites), "without values there is no leak test"
    names = [report["name"] for report in suites]
    assert [name.rpartition("-")[2] for name in names] == ["4", "5"] and {"seed-4", "seed-5"} <= {
        *map(str, os.listdir(tmp_path / "out"))
    }
    curves = json.loads((tmp_path / "out" / "curves.json").read_text())
    assert curves["runs"] == 2 and curves["plans"]["baseline"]


def test_wilson_interval() -> None:
    interval = share_with_interval(15, 148)
    # Newcombe 1998, table I, method 4
    assert (round(interval["low"], 4), round(interval["high"], 4)) == (0.0598, 0.1644)
    assert share_with_interval(0, 0) == {"share": None, "low": 0.0, "high": 1.0}
    assert (
        share_with_interval(8, 8)["high"] == 1
        and share_with_interval(0, 8)["low"] == 0
        and 0 < share_with_interval(0, 8)["high"] < 1
    )


def test_options_for_columns_reach_both_runs(corpus: Path, tmp_path: Path) -> None:
    from sanitize.eval.frontier import _select_policies, split_corpus

    frame = pl.read_parquet(corpus / "mails.parquet")
    people = [f"writer {n}" for n in range(40)]
    (tmp_path / "raw").mkdir()
    frame.with_columns(signed=pl.Series(people), note=pl.Series(people)).write_parquet(
        tmp_path / "raw" / "mails.parquet"
    )
    columns = {"pseudonymize": ["signed"], "drop": ["note"]}
    settings = FrontierSettings(columns=columns)
    parts = split_corpus(tmp_path / "raw", tmp_path / "out", settings, lambda line: None)
    split = pl.read_parquet(parts["train"] / "*.parquet")
    assert "note" not in split.columns and not set(split["signed"]) & set(people)
    assert _select_policies(columns, parts["train"]) == {"pseudonymize": ["signed"]}
