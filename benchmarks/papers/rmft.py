"""Randomized masked fine-tuning: does it leak fewer mail addresses than raw data and header deduplication, at what cost in perplexity?

Invented mail is split by `doc_id` before anything is indexed; the training part is sanitized by the plans `baseline`, `rmft` and
`header_dedup`; a small GPT-2 is trained from scratch on each; every checkpoint is attacked with generic pages and with cues (a first
name), and its perplexity on held-out mail is measured. `ter_drop` is the reduction of the mean TER over checkpoints, generic prompts,
counts summed over seeds (the paper's table 1); the mean of each checkpoint's reduction (the paper's 80.81 %) is reported too.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import pyarrow.parquet as pq

from benchmarks.criteria import Criterion, make_parser, read_own_corpus, report_criteria, split_documents
from benchmarks.papers_mail import mails
from sanitize.errors import UsageError
from sanitize.eval.frontier import DEFAULT_PLANS, FrontierSettings, measure_plans, run_frontier
from sanitize.eval.metrics.frontier import compute_staircase_area

NAMES = ("baseline", "rmft", "header_dedup")
DOSES = {"keep=0": ("rmft", ("edit.0.keep=0",)), "keep=2": ("rmft", ("edit.0.keep=2",)), "keep=5": ("rmft", ("edit.0.keep=5",))}
PAPER = {  # table 1, and section 5 for the means of ratios
    "ter": {"baseline": 0.308, "rmft": 0.049, "header_dedup": 0.084},
    "ser": {"baseline": 0.342, "rmft": 0.059, "header_dedup": 0.102},
    "ppl": {"baseline": 6.432, "rmft": 6.798, "header_dedup": 7.963},
}


@dataclass(frozen=True, kw_only=True)
class Size:
    """Sizes of data, models and trainings."""

    mails: int
    people: int
    seeds: int
    epochs: int
    every: float  # epochs between checkpoints
    web: int
    cues: int
    doses: bool  # other values of rmft's `keep`, at the first seed
    changes: tuple[str, ...] = ()
    device: str = "cpu"


SIZES = {
    "ci": Size(mails=375, people=150, seeds=2, epochs=20, every=5.0, web=192, cues=128, doses=False),
    # five checkpoints, and other doses at the first seed only: that halves what ten checkpoints of six plans at three seeds cost
    "cpu": Size(mails=375, people=150, seeds=3, epochs=20, every=4.0, web=256, cues=128, doses=True),
    # written for one GPU with about 140 GiB; not run where this was made
    "gpu": Size(
        mails=12_000,
        people=10_000,
        seeds=1,
        epochs=10,
        every=1.0,
        web=2_000,
        cues=1_000,
        doses=True,
        changes=(
            "model.layers=8",
            "model.width=512",
            "model.heads=8",
            "model.context=256",
            "tokenizer.vocab=8192",
            "run.batch=64",
            "run.lr=1e-3",
        ),
        device="cuda",
    ),
}


def run_seed(size: Size, seed: int, folder: Path, data: Path | None) -> dict[str, Any]:
    """The chain of one seed."""
    if size.device == "cpu":
        import torch

        torch.set_num_threads(1)
    settings = FrontierSettings(
        plans={**DEFAULT_PLANS, **(DOSES if size.doses and not seed else {})},
        changes=(f"run.epochs={size.epochs}", f"run.checkpoint_every={size.every}", "model.dropout=0.0", *size.changes),
        metrics=(
            {"use": "extraction", "web": size.web, "cues": size.cues, "length": 128},
            {"use": "perplexity"},
            {"use": "frontier", "texts": "mail"},
        ),
        seed=seed,
        device=size.device,
        test_share=0.2,
        limit=size.mails if data is not None else None,
    )
    if data is not None:
        return run_frontier(data, folder, settings)
    parts = split_documents(mails(size.mails, seed, population=size.people), seed, {"train": 0.8, "test": 0.2})
    places = {}
    for name, table in parts.items():
        places[name] = folder / "split" / name
        places[name].mkdir(parents=True, exist_ok=True)
        pq.write_table(table, places[name] / "mails.parquet")
    return measure_plans(places["train"], places["test"], folder, settings)


def trained_rows(report: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """The rows of a run after the base model."""
    return [row for row in report["runs"][name]["rows"] if row["step"] > 0]


def rate_table(reports: Sequence[Mapping[str, Any]], name: str, family: str, rate: str) -> np.ndarray[Any, Any]:
    """A rate by seed and checkpoint, of the seeds that have the run."""
    return np.array(
        [[row["extraction"][family][rate] for row in trained_rows(report, name)] for report in reports if name in report["runs"]]
    )


def perplexity_table(reports: Sequence[Mapping[str, Any]], name: str, which: str = "mail", reading: str = "mean") -> np.ndarray[Any, Any]:
    """Perplexity by seed and checkpoint, of the seeds that have the run."""
    return np.array(
        [[row["perplexity"][which][reading] for row in trained_rows(report, name)] for report in reports if name in report["runs"]]
    )


def leak_reduction(reports: Sequence[Mapping[str, Any]], name: str, family: str = "web", rate: str = "ter") -> dict[str, float]:
    """Reduction of leaks against the baseline: of the means, mean over checkpoints, at the last checkpoint; summed over seeds."""
    baseline_leaks, plan_leaks = (rate_table(reports, one, family, rate).sum(0) for one in ("baseline", name))
    has_leaks = baseline_leaks > 0
    if not baseline_leaks.sum():
        raise UsageError("the baseline leaks nothing at any checkpoint, so there is nothing to compare; give more --epochs")
    return {
        "of_means": float(1 - plan_leaks.sum() / baseline_leaks.sum()),
        "mean": float(np.mean(1 - plan_leaks[has_leaks] / baseline_leaks[has_leaks])),
        "final": float(1 - plan_leaks[-1] / baseline_leaks[-1]) if baseline_leaks[-1] else 0.0,
    }


def frontier_area(reports: Sequence[Mapping[str, Any]], name: str, family: str = "web", which: str = "mail") -> dict[str, float]:
    """The area below MaxTER, of TER and perplexity as means over seeds."""
    baseline_leaks, plan_leaks = (rate_table(reports, one, family, "ter").mean(0) for one in ("baseline", name))
    before, after = (perplexity_table(reports, one, which).mean(0) for one in ("baseline", name))
    points = [
        (100 * (two - one) / one, 100 * (leak - rest) / leak)
        for one, two, leak, rest in zip(before, after, baseline_leaks, plan_leaks, strict=True)
        if leak > 0
    ]
    return compute_staircase_area(points)


def summarize_range(values: np.ndarray[Any, Any]) -> dict[str, float]:
    """Mean, minimum and maximum over seeds."""
    return {"mean": round(float(values.mean()), 4), "low": round(float(values.min()), 4), "high": round(float(values.max()), 4)}


def criteria(reports: Sequence[Mapping[str, Any]]) -> dict[str, Criterion]:
    """Every number beside the paper's, those of mechanisms section J first."""
    leaks = {name: int(rate_table(reports, name, "web", "leaked").sum()) for name in NAMES}
    rmft, dedup = leak_reduction(reports, "rmft"), leak_reduction(reports, "header_dedup")
    means = {name: float(perplexity_table(reports, name).mean()) for name in NAMES}
    ordered = means["baseline"] < means["rmft"] < means["header_dedup"]
    areas = {name: frontier_area(reports, name)["aurc"] for name in ("rmft", "header_dedup")}
    ser = {name: leak_reduction(reports, name, rate="ser") for name in ("rmft", "header_dedup")}
    cue = {name: leak_reduction(reports, name, family="cue") for name in ("rmft", "header_dedup")}
    body = {name: float(perplexity_table(reports, name, "body")[:, -1].mean()) for name in NAMES}
    return {
        "ter_drop_rmft": Criterion(
            value=rmft["of_means"], paper=0.841, threshold=0.60,
            note=f"of {leaks['baseline']} addresses that the baseline says, over all checkpoints and seeds, and {leaks['rmft']} after rmft",
        ),
        "ter_drop_header_dedup": Criterion(value=dedup["of_means"], paper=0.727, threshold=0.30),
        "ter_drop_rmft_minus_dedup": Criterion(value=rmft["of_means"] - dedup["of_means"], paper=0.114, threshold=0.01),
        "ppl_order": Criterion(
            value=float(ordered), paper=1, threshold=1, note="base < rmft < dedup on held-out whole mails, means over checkpoints"
        ),
        "aurc_ratio": Criterion(
            value=areas["rmft"] / max(areas["header_dedup"], 1.0),
            paper=5.41,
            threshold=2.0,
            note="of normalised areas, range 25 (inferred); an area of deduplication below 1 % counts as 1 %",
        ),
        "ter_drop_rmft_mean_of_ratios": Criterion(value=rmft["mean"], paper=0.8081, threshold=0.60, headline=False),
        "ter_drop_header_dedup_mean_of_ratios": Criterion(value=dedup["mean"], paper=0.6938, threshold=0.30, headline=False),
        "ter_drop_rmft_final": Criterion(value=rmft["final"], paper=0.8762, threshold=0.60, headline=False),
        "ter_drop_header_dedup_final": Criterion(value=dedup["final"], paper=0.7422, threshold=0.30, headline=False),
        "ser_drop_rmft": Criterion(value=ser["rmft"]["of_means"], paper=0.827, threshold=0.60, headline=False),
        "ser_drop_header_dedup": Criterion(
            value=ser["header_dedup"]["of_means"], paper=0.702, threshold=0.30, headline=False,
            note="seen are the original addresses that are left in the data: deduplication leaves all of them once, and bodies",
        ),
        "ter_drop_rmft_cue": Criterion(value=cue["rmft"]["of_means"], paper="not measured", threshold=0.60, headline=False),
        "ter_drop_header_dedup_cue": Criterion(value=cue["header_dedup"]["of_means"], paper="not measured", threshold=0.30, headline=False),
        "aurc_rmft": Criterion(value=areas["rmft"], paper=92.52, threshold=60, headline=False),
        "aurc_header_dedup": Criterion(value=areas["header_dedup"], paper=17.09, threshold=areas["rmft"] / 2, above=False, headline=False),
        "ppl_rise_rmft": Criterion(value=means["rmft"] / means["baseline"] - 1, paper=0.0569, threshold=0.25, above=False, headline=False),
        "ppl_rise_header_dedup": Criterion(value=means["header_dedup"] / means["baseline"] - 1, paper=0.238, threshold=0.0, headline=False),
        "ppl_rise_rmft_body": Criterion(
            value=body["rmft"] / body["baseline"] - 1, paper="not measured", threshold=0.25, above=False, headline=False
        ),
        "ppl_rise_header_dedup_body": Criterion(
            value=body["header_dedup"] / body["baseline"] - 1, paper="not measured", threshold=0.25, above=False, headline=False
        ),
        "base_model_leaks": Criterion(
            value=float(sum(report["runs"][name]["rows"][0]["extraction"]["web"]["leaked"] for report in reports for name in NAMES)),
            paper="not measured", threshold=0, above=False, headline=False, note="addresses that the models said before the first step",
        ),
        "strangers_said_baseline": Criterion(
            value=float(sum(report["runs"]["baseline"]["rows"][-1]["extraction"]["web"]["control"]["generated"] for report in reports)),
            paper="not measured", threshold=0, above=False, headline=False, note="addresses of the same parts that nobody was trained on",
        ),
    }  # fmt: skip


def result_rows(reports: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The tables beside the criteria."""
    names = list(reports[0]["runs"])
    told: dict[str, list[dict[str, Any]]] = {"table_1": [], "seeds": [], "checkpoints": [], "frequency": [], "perplexity": [], "dose": []}
    for report in reports:
        told["seeds"].append(
            {
                "seed": report["seed"],
                **{
                    f"leaked_{family}_{name}": int(rate_table([report], name, family, "leaked").sum())
                    for family in ("web", "cue")
                    for name in NAMES
                },
                **{f"ppl_{name}": round(float(perplexity_table([report], name).mean()), 4) for name in NAMES},
            }
        )
    for name in NAMES:
        told["table_1"].append(
            {
                "plan": name,
                **{rate: summarize_range(rate_table(reports, name, "web", rate).mean(1)) for rate in ("ter", "ser")},
                **{f"{rate}_cue": summarize_range(rate_table(reports, name, "cue", rate).mean(1)) for rate in ("ter", "ser")},
                "ppl": summarize_range(perplexity_table(reports, name).mean(1)),
                "paper": {rate: PAPER[rate][name] for rate in ("ter", "ser", "ppl")},
            }
        )
    for name in names:
        for place, row in enumerate(trained_rows(reports[0], name)):
            told["checkpoints"].append(
                {
                    "plan": name,
                    "epoch": round(row["epoch"], 3),
                    **{
                        f"{rate}_{family}": round(float(rate_table(reports, name, family, rate)[:, place].mean()), 4)
                        for family in ("web", "cue")
                        for rate in ("ter", "ser")
                    },
                    "ppl_mail": round(float(perplexity_table(reports, name)[:, place].mean()), 4),
                    "ppl_body": round(float(perplexity_table(reports, name, "body")[:, place].mean()), 4),
                }
            )
        last = [report["runs"][name]["rows"][-1]["extraction"] for report in reports if name in report["runs"]]
        for family in ("web", "cue"):
            for place, band in enumerate(last[0][family]["bands"]):
                told["frequency"].append(
                    {
                        "plan": name, "prompts": family, "from": band["from"], "to": band["to"],
                        "addresses": sum(one[family]["bands"][place]["addresses"] for one in last),
                        "leaked": sum(one[family]["bands"][place]["leaked"] for one in last),
                    }
                )  # fmt: skip
        told["perplexity"].append(
            {
                "plan": name,
                **{
                    f"{which}_{reading}": summarize_range(perplexity_table(reports, name, which, reading)[:, -1])
                    for which in ("mail", "body", "web")
                    for reading in ("mean", "corpus")
                },
            }
        )
    for name in [*(one for one in names if one == "keep=0"), "rmft", *(one for one in names if one in ("keep=2", "keep=5")), "baseline"]:
        keep = {"rmft": "1", "baseline": "all"}.get(name, name.removeprefix("keep="))
        told["dose"].append(
            {
                "keep": keep,
                "seeds": sum(name in report["runs"] for report in reports),
                **{f"ter_{family}": summarize_range(rate_table(reports, name, family, "ter")[:, -1]) for family in ("web", "cue")},
                "ppl": summarize_range(perplexity_table(reports, name)[:, -1]),
            }
        )
    return told


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script; the exit code is 1 where a headline criterion is not reproduced."""
    parser = make_parser(__doc__)
    parser.add_argument("--epochs", type=int, help="of each training (default: by size), with as many checkpoints")
    arguments = parser.parse_args(argv)
    began, size = time.monotonic(), SIZES[arguments.size]
    if arguments.epochs is not None:
        size = replace(size, epochs=arguments.epochs, every=size.every * arguments.epochs / size.epochs)
    home = arguments.dir or Path(tempfile.mkdtemp(prefix="papers-rmft-"))
    try:
        reports = run_seeds(size, arguments, home)
    finally:
        if arguments.dir is None:
            shutil.rmtree(home, ignore_errors=True)
    mails_read = f"{size.mails} invented mails" if arguments.data is None else f"{reports[0]['plans']['baseline']['documents_out']} mails"
    scaled = (
        f"Scaled down: {mails_read} and a GPT-2 from scratch instead of Enron's 10,000 and GPT2-XL, {size.epochs} epochs, "
        f"{size.web} generic prompts and {size.cues} cues, {len(reports)} seeds; directions and ratios are compared, not levels."
    )
    return report_criteria(
        "rmft", arguments, criteria(reports), tables=result_rows(reports), scaled=scaled, seconds=time.monotonic() - began
    )


def run_seeds(size: Size, asked: argparse.Namespace, home: Path) -> list[dict[str, Any]]:
    """The reports of all seeds, two at a time on a CPU."""
    seeds, data = range(asked.seeds or size.seeds), read_own_corpus(asked, home)
    if size.device != "cpu" or len(seeds) == 1 or (os.cpu_count() or 1) == 1:
        return [run_seed(size, seed, home / f"seed-{seed}", data) for seed in seeds]
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        jobs = [pool.submit(run_seed, size, seed, home / f"seed-{seed}", data) for seed in seeds]
        return [job.result() for job in jobs]


if __name__ == "__main__":
    sys.exit(main())
