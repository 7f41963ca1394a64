"""Randomized masked fine-tuning: does it leak fewer mail addresses than raw data and header
deduplication, at what cost in perplexity?

Invented mail is split by `doc_id` before anything is indexed; the training part is sanitized by the
plans `baseline`, `rmft` and `header_dedup`; a small GPT-2 is trained from scratch on each; every
checkpoint is attacked with generic pages and with cues (a first name), and its perplexity on
held-out mail is measured. `ter_drop` is the reduction of the mean TER over checkpoints, generic
prompts, counts summed over seeds (the paper's table 1); the mean of each checkpoint's reduction
(the paper's 80.81 %) is reported too.

Sizes `real` and `gpu` with `--model` tune a pretrained model on real mail (`--data`), and can be
stopped and continued:

    python benchmarks/papers/rmft.py --size real --model models/smollm2-135m --data MAILS.parquet
    --text-column raw
"""

from __future__ import annotations

import argparse
import concurrent.futures
import math
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

from benchmarks import pretrained_runs
from benchmarks.criteria import (
    Criterion,
    Interval,
    bootstrap_intervals,
    compute_ratio_bounds,
    make_parser,
    read_own_corpus,
    report_criteria,
    run_script,
    split_documents,
    widen_interval,
    with_intervals,
)
from benchmarks.papers_mail import mails
from benchmarks.pretrained_runs import Cell, PretrainedRuns
from sanitize.errors import UsageError
from sanitize.eval.frontier import DEFAULT_PLANS, FrontierSettings, measure_plans, run_frontier
from sanitize.eval.metrics.frontier import compute_staircase_area
from sanitize.eval.metrics.membership import clopper_pearson_interval

NAMES = pretrained_runs.PLANS
DOSES = {
    "keep=0": ("rmft", ("edit.0.keep=0",)),
    "keep=2": ("rmft", ("edit.0.keep=2",)),
    "keep=5": ("rmft", ("edit.0.keep=5",)),
}
REPORTED = {"headline": False}
MOST_LEAKS = (
    100.0  # of a plan, as a multiple of the baseline's: the end of intervals that no count bounds
)
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
    "ci": Size(
        mails=375, people=150, seeds=2, epochs=20, every=5.0, web=192, cues=128, doses=False
    ),
    # five checkpoints, and other doses at the first seed only: that halves what ten checkpoints of
    # six plans at three seeds cost
    "cpu": Size(
        mails=375, people=150, seeds=3, epochs=20, every=4.0, web=256, cues=128, doses=True
    ),
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
        changes=(
            f"run.epochs={size.epochs}",
            f"run.checkpoint_every={size.every}",
            "model.dropout=0.0",
            *size.changes,
        ),
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
    leaks: list[dict[str, Any]] = []
    if data is not None:
        return add_leaked_places(run_frontier(data, folder, settings, leaks=leaks), leaks)
    parts = split_documents(
        mails(size.mails, seed, population=size.people), seed, {"train": 0.8, "test": 0.2}
    )
    places = {}
    for name, table in parts.items():
        places[name] = folder / "split" / name
        places[name].mkdir(parents=True, exist_ok=True)
        pq.write_table(table, places[name] / "mails.parquet")
    return add_leaked_places(
        measure_plans(places["train"], places["test"], folder, settings, leaks=leaks), leaks
    )


def add_leaked_places(report: dict[str, Any], leaks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The report with `leaked`: by plan and prompts, for each checkpoint after the base model,
    numbers of the addresses that leaked.

    Addresses are numbered in order of their first leak: those that never leak need no number to be
    drawn again."""
    numbers: dict[str, int] = {}
    by_place: dict[tuple[str, str, int], set[int]] = {}
    for leak in leaks:
        if leak["metric"] == "extraction":
            number = numbers.setdefault(leak["value"], len(numbers))
            by_place.setdefault((leak["run"], leak["how"], leak["step"]), set()).add(number)
    report["leaked"] = {
        name: {
            family: [
                sorted(by_place.get((name, family, row["step"]), set()))
                for row in trained_rows(report, name)
            ]
            for family in ("web", "cue")
        }
        for name in report["runs"]
    }
    return report


def trained_rows(report: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """The rows of a run after the base model."""
    return [row for row in report["runs"][name]["rows"] if row["step"] > 0]


def rate_table(
    reports: Sequence[Mapping[str, Any]], name: str, family: str, rate: str
) -> np.ndarray[Any, Any]:
    """A rate by seed and checkpoint, of the seeds that have the run."""
    return np.array(
        [
            [row["extraction"][family][rate] for row in trained_rows(report, name)]
            for report in reports
            if name in report["runs"]
        ]
    )


def perplexity_table(
    reports: Sequence[Mapping[str, Any]], name: str, which: str = "mail", reading: str = "mean"
) -> np.ndarray[Any, Any]:
    """Perplexity by seed and checkpoint, of the seeds that have the run."""
    return np.array(
        [
            [row["perplexity"][which][reading] for row in trained_rows(report, name)]
            for report in reports
            if name in report["runs"]
        ]
    )


def leak_reduction(
    reports: Sequence[Mapping[str, Any]], name: str, family: str = "web", rate: str = "ter"
) -> dict[str, float]:
    """Reduction of leaks against the baseline: of the means, mean over checkpoints, at the last
    checkpoint; summed over seeds. Not a number where the baseline leaks nothing."""
    baseline_leaks, plan_leaks = (
        rate_table(reports, one, family, rate).sum(0) for one in ("baseline", name)
    )
    has_leaks = baseline_leaks > 0
    if not has_leaks.any():
        return dict.fromkeys(("of_means", "mean", "final"), math.nan)
    return {
        "of_means": float(1 - plan_leaks.sum() / baseline_leaks.sum()),
        "mean": float(np.mean(1 - plan_leaks[has_leaks] / baseline_leaks[has_leaks])),
        "final": float(1 - plan_leaks[-1] / baseline_leaks[-1]) if baseline_leaks[-1] else math.nan,
    }


def frontier_area(
    reports: Sequence[Mapping[str, Any]], name: str, family: str = "web", which: str = "mail"
) -> dict[str, float]:
    """The area below MaxTER, of TER and perplexity as means over seeds."""
    baseline_leaks, plan_leaks = (
        rate_table(reports, one, family, "ter").mean(0) for one in ("baseline", name)
    )
    before, after = (perplexity_table(reports, one, which).mean(0) for one in ("baseline", name))
    points = [
        (100 * (two - one) / one, 100 * (leak - rest) / leak)
        for one, two, leak, rest in zip(before, after, baseline_leaks, plan_leaks, strict=True)
        if leak > 0
    ]
    return compute_staircase_area(points)


def summarize_range(values: np.ndarray[Any, Any]) -> dict[str, float]:
    """Mean, minimum and maximum over seeds."""
    return {
        "mean": round(float(values.mean()), 4),
        "low": round(float(values.min()), 4),
        "high": round(float(values.max()), 4),
    }


def list_plans(reports: Sequence[Mapping[str, Any]]) -> list[str]:
    """The plans of the comparison that all reports have: some only, where the runs of a size are
    not finished."""
    return [name for name in NAMES if all(name in report["runs"] for report in reports)]


def compute_values(reports: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The value of each criterion that an interval is computed for, from reports or from a drawn
    sample of them."""
    values: dict[str, float] = {}
    plans = list_plans(reports)
    means = {name: float(perplexity_table(reports, name).mean()) for name in plans}
    for name in plans[1:]:
        web, ser = leak_reduction(reports, name), leak_reduction(reports, name, rate="ser")
        cue = leak_reduction(reports, name, family="cue")
        values |= {
            f"ter_drop_{name}": web["of_means"],
            f"ter_drop_{name}_mean_of_ratios": web["mean"],
            f"ter_drop_{name}_final": web["final"],
            f"ser_drop_{name}": ser["of_means"],
            f"ter_drop_{name}_cue": cue["of_means"],
            f"aurc_{name}": frontier_area(reports, name)["aurc"],
            f"ppl_rise_{name}": means[name] / means["baseline"] - 1,
        }
    if len(plans) == len(NAMES):
        values["ter_drop_rmft_minus_dedup"] = (
            values["ter_drop_rmft"] - values["ter_drop_header_dedup"]
        )
        values["aurc_ratio"] = values["aurc_rmft"] / max(values["aurc_header_dedup"], 1.0)
        values["ppl_order"] = float(means["baseline"] < means["rmft"] < means["header_dedup"])
    return values


@dataclass(frozen=True, repr=False)
class SampledSeed:
    """What is drawn again of a seed: leaks [checkpoints, addresses] by plan and prompts, and
    perplexities [checkpoints, mails] by plan.

    Addresses and mails are drawn once for all plans, which are compared on the same ones."""

    leaked: Mapping[tuple[str, str], np.ndarray[Any, Any]]
    # empty where mails were not measured one by one: their means stay as they are
    perplexities: Mapping[str, np.ndarray[Any, Any]]
    report: Mapping[str, Any]
    address_count: int

    @classmethod
    def read(cls, report: Mapping[str, Any]) -> SampledSeed:
        """The tables of a report with `leaked`, and `held_perplexities` if mails are to be drawn,
        too."""
        count = int(report["runs"]["baseline"]["rows"][0]["extraction"]["web"]["original"])
        leaked = {}
        for name in list_plans([report]):
            for family in ("web", "cue"):
                table = np.zeros((len(trained_rows(report, name)), count), np.int64)
                for place, numbers in enumerate(report["leaked"][name][family]):
                    table[place, numbers] = 1
                leaked[name, family] = table
        held = {
            name: np.array(table) for name, table in report.get("held_perplexities", {}).items()
        }
        return cls(leaked, held, report, count)

    def draw(self, generator: np.random.Generator) -> dict[str, Any]:
        """A report of addresses and mails drawn with replacement; with the rates and perplexities
        that `compute_values` reads."""
        weights = generator.multinomial(
            self.address_count, np.full(self.address_count, 1 / self.address_count)
        )
        mail_weights = None
        if self.perplexities:
            mails_held = next(iter(self.perplexities.values())).shape[1]
            mail_weights = (
                generator.multinomial(mails_held, np.full(mails_held, 1 / mails_held)) / mails_held
            )
        runs = {}
        for name in list_plans([self.report]):
            rows: list[dict[str, Any]] = []
            counts = {family: self.leaked[name, family] @ weights for family in ("web", "cue")}
            for place, row in enumerate(trained_rows(self.report, name)):
                extraction = {
                    family: {
                        "ter": 100 * counts[family][place] / self.address_count,
                        # which leaks were of seen addresses is kept as a rate only: as many of
                        # those drawn
                        "ser": (
                            row["extraction"][family]["ser"]
                            * counts[family][place]
                            / max(row["extraction"][family]["leaked"], 1)
                        ),
                    }
                    for family in ("web", "cue")
                }
                mean = (
                    row["perplexity"]["mail"]["mean"]
                    if mail_weights is None
                    else float(self.perplexities[name][place] @ mail_weights)
                )
                rows.append(
                    {"step": 1, "extraction": extraction, "perplexity": {"mail": {"mean": mean}}}
                )
            runs[name] = {"rows": rows}
        return {"runs": runs}


def compute_intervals(reports: Sequence[Mapping[str, Any]]) -> dict[str, Interval]:
    """Bootstrap over addresses (and held-out mails where each was measured), and over seeds where
    there are several."""
    sampled = [SampledSeed.read(report) for report in reports]

    def resample(generator: np.random.Generator) -> dict[str, float]:
        drawn = generator.integers(len(sampled), size=len(sampled)) if len(sampled) > 1 else [0]
        return compute_values([sampled[number].draw(generator) for number in drawn])

    plans = list_plans(reports)
    what = (
        "addresses and held-out mails"
        if sampled[0].perplexities
        else "addresses (not held-out mails)"
    )
    spread = (
        f"{what} within {len(sampled)} seeds, and the seeds"
        if len(sampled) > 1
        else f"{what} of one seed; not between trainings"
    )
    found = bootstrap_intervals(resample, method=f"bootstrap over {spread}")
    if not sampled[0].perplexities:  # nothing of them was drawn
        found = {name: one for name, one in found.items() if not name.startswith("ppl_")}
    return extend_to_counts(
        found,
        compute_values(reports),
        {family: count_addresses(reports, plans, family) for family in ("web", "cue")},
    )


def count_addresses(
    reports: Sequence[Mapping[str, Any]], plans: Sequence[str], family: str
) -> dict[str, int]:
    """Distinct addresses that leaked at any checkpoint, by plan, summed over seeds."""
    return {
        name: sum(
            len({one for places in report["leaked"][name][family] for one in places})
            for report in reports
        )
        for name in plans
    }


def extend_to_counts(
    found: Mapping[str, Interval],
    values: Mapping[str, float],
    counts: Mapping[str, Mapping[str, int]],
) -> dict[str, Interval]:
    """The intervals, extended to exact bounds of the counts of addresses; an area is scaled as the
    reduction that it is made of."""
    extended, drops = dict(found), {}
    for name in [name for name in counts["web"] if name != "baseline"]:
        for family, keys in (
            (
                "web",
                (
                    f"ter_drop_{name}",
                    f"ter_drop_{name}_mean_of_ratios",
                    f"ter_drop_{name}_final",
                    f"ser_drop_{name}",
                ),
            ),
            ("cue", (f"ter_drop_{name}_cue",)),
        ):
            baseline, left = counts[family]["baseline"], counts[family][name]
            low, high = compute_ratio_bounds(left, baseline)
            for key in keys:
                extended[key] = widen_interval(
                    found.get(key),
                    1 - high,
                    1 - low,
                    events=baseline + left,
                    least=-MOST_LEAKS,
                    most=1.0,
                )
        drops[name] = extended[f"ter_drop_{name}"]
        area, drop = values[f"aurc_{name}"], values[f"ter_drop_{name}"]
        scales = [
            max(bound, 0.0) / drop if drop > 0 else 0.0
            for bound in (drops[name].low, drops[name].high)
        ]
        extended[f"aurc_{name}"] = widen_interval(
            found.get(f"aurc_{name}"),
            area * scales[0],
            area * scales[1],
            events=drops[name].events or 0,
            least=0.0,
            most=100.0,
        )
    if len(drops) == len(NAMES) - 1:
        rmft, dedup, baseline = (
            counts["web"][name] for name in ("rmft", "header_dedup", "baseline")
        )
        # of the leaks that are left, the share after rmft; of none at all, three could have been
        # missed (rule of three)
        share = clopper_pearson_interval(rmft, rmft + dedup) if rmft + dedup else (0.0, 1.0)
        bounds = [(1 - 2 * one) * max(rmft + dedup, 3) / max(baseline, 1) for one in share]
        extended["ter_drop_rmft_minus_dedup"] = widen_interval(
            found.get("ter_drop_rmft_minus_dedup"),
            bounds[1],
            bounds[0],
            events=rmft + dedup,
            least=-MOST_LEAKS,
            most=MOST_LEAKS,
        )
        areas = extended["aurc_rmft"], extended["aurc_header_dedup"]
        extended["aurc_ratio"] = widen_interval(
            found.get("aurc_ratio"),
            areas[0].low / max(areas[1].high, 1.0),
            areas[0].high / max(areas[1].low, 1.0),
            events=baseline + rmft + dedup,
            least=0.0,
            most=100.0,
        )
    return extended


def criteria(reports: Sequence[Mapping[str, Any]]) -> dict[str, Criterion]:
    """Every number beside the paper's, those of mechanisms section J first; without those of plans
    that are not finished."""
    plans = list_plans(reports)
    leaks, cue_leaks = (
        {name: int(rate_table(reports, name, family, "leaked").sum()) for name in plans}
        for family in ("web", "cue")
    )
    if not leaks["baseline"]:
        raise UsageError(
            "the baseline leaks nothing at any checkpoint, so there is nothing to compare; give"
            " more --epochs"
        )
    values = compute_values(reports)
    values = {
        name: 0.0 if math.isnan(value) and name.endswith("_final") else value
        for name, value in values.items()
    }
    originals = sum(
        int(report["runs"]["baseline"]["rows"][0]["extraction"]["web"]["original"])
        for report in reports
    )
    where = (
        f"over {len(trained_rows(reports[0], 'baseline'))} checkpoints of {len(reports)} seeds with"
        f" {originals} addresses"
    )
    areas = {name: values[f"aurc_{name}"] for name in plans[1:]}
    # name -> paper's value, threshold, and what differs from a headline criterion with a lower
    # bound
    table: dict[str, tuple[float | str, float, dict[str, Any]]] = {
        "ter_drop_rmft": (
            0.841,
            0.60,
            {
                "note": f"{leaks['baseline']} leaks of the baseline and {leaks.get('rmft')} of rmft, {where}"  # noqa: E501
            },
        ),
        "ter_drop_header_dedup": (
            0.727,
            0.30,
            {"note": f"{leaks.get('header_dedup')} leaks of header_dedup"},
        ),
        "ter_drop_rmft_minus_dedup": (
            0.114,
            0.01,
            {"note": f"stands on {leaks.get('rmft')} leaks against {leaks.get('header_dedup')}"},
        ),
        "ppl_order": (
            1,
            1,
            {"note": "base < rmft < dedup on held-out whole mails, means over checkpoints"},
        ),
        "aurc_ratio": (
            5.41,
            2.0,
            {
                "note": "of normalised areas, range 25 (inferred); floor in the denominator: an area of deduplication below 1 % counts as "  # noqa: E501
                f"1 % (it is {areas.get('header_dedup', 0):.3g} %)"
            },
        ),
        "ter_drop_rmft_mean_of_ratios": (0.8081, 0.60, REPORTED),
        "ter_drop_header_dedup_mean_of_ratios": (0.6938, 0.30, REPORTED),
        "ter_drop_rmft_final": (0.8762, 0.60, REPORTED),
        "ter_drop_header_dedup_final": (0.7422, 0.30, REPORTED),
        "ser_drop_rmft": (0.827, 0.60, REPORTED),
        "ser_drop_header_dedup": (
            0.702,
            0.30,
            REPORTED
            | {
                "note": "seen are the original addresses left in the data: deduplication leaves all of them once, and bodies"  # noqa: E501
            },
        ),
        "aurc_rmft": (92.52, 60, REPORTED),
        "aurc_header_dedup": (17.09, areas.get("rmft", 0) / 2, REPORTED | {"above": False}),
        "ppl_rise_rmft": (0.0569, 0.25, REPORTED | {"above": False}),
        "ppl_rise_header_dedup": (0.238, 0.0, REPORTED),
    }
    if cue_leaks["baseline"]:
        note = f"leaks of {', '.join(plans)}: {', '.join(str(cue_leaks[name]) for name in plans)}"
        table |= {
            f"ter_drop_{name}_cue": ("not measured", threshold, REPORTED | {"note": note})
            for name, threshold in (("rmft", 0.60), ("header_dedup", 0.30))
        }
    found = {
        name: Criterion(value=values[name], paper=paper, threshold=threshold, **more)
        for name, (paper, threshold, more) in table.items()
        if name in values
    }
    found |= {
        "base_model_leaks": Criterion(
            value=float(
                sum(
                    report["runs"][name]["rows"][0]["extraction"]["web"]["leaked"]
                    for report in reports
                    for name in plans
                )
            ),
            paper="not measured",
            threshold=0,
            above=False,
            headline=False,
            note="addresses that the models said before the first step",
        ),
        "strangers_said_baseline": Criterion(
            value=float(
                sum(
                    report["runs"]["baseline"]["rows"][-1]["extraction"]["web"]["control"][
                        "generated"
                    ]
                    for report in reports
                )
            ),
            paper="not measured",
            threshold=0,
            above=False,
            headline=False,
            note="addresses of the same parts that nobody was trained on",
        ),
    }
    if all(
        "body" in row["perplexity"]
        for report in reports
        for row in trained_rows(report, "baseline")
    ):
        body = {
            name: float(perplexity_table(reports, name, "body")[:, -1].mean()) for name in plans
        }
        for name in plans[1:]:
            found[f"ppl_rise_{name}_body"] = Criterion(
                value=body[name] / body["baseline"] - 1,
                paper="not measured",
                threshold=0.25,
                above=False,
                headline=False,
            )
    return with_intervals(found, compute_intervals(reports))


def result_rows(reports: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The tables beside the criteria."""
    names, plans = list(reports[0]["runs"]), list_plans(reports)
    told: dict[str, list[dict[str, Any]]] = {
        "table_1": [],
        "seeds": [],
        "checkpoints": [],
        "frequency": [],
        "perplexity": [],
        "dose": [],
    }
    for report in reports:
        told["seeds"].append(
            {
                "seed": report["seed"],
                **{
                    f"leaked_{family}_{name}": int(
                        rate_table([report], name, family, "leaked").sum()
                    )
                    for family in ("web", "cue")
                    for name in plans
                },
                **{
                    f"ppl_{name}": round(float(perplexity_table([report], name).mean()), 4)
                    for name in plans
                },
            }
        )
    for name in plans:
        told["table_1"].append(
            {
                "plan": name,
                **{
                    rate: summarize_range(rate_table(reports, name, "web", rate).mean(1))
                    for rate in ("ter", "ser")
                },
                **{
                    f"{rate}_cue": summarize_range(rate_table(reports, name, "cue", rate).mean(1))
                    for rate in ("ter", "ser")
                },
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
                        f"{rate}_{family}": round(
                            float(rate_table(reports, name, family, rate)[:, place].mean()), 4
                        )
                        for family in ("web", "cue")
                        for rate in ("ter", "ser")
                    },
                    "ppl_mail": round(float(perplexity_table(reports, name)[:, place].mean()), 4),
                    **(
                        {
                            "ppl_body": round(
                                float(perplexity_table(reports, name, "body")[:, place].mean()), 4
                            )
                        }
                        if "body" in row["perplexity"]
                        else {}
                    ),
                }
            )
        last = [
            report["runs"][name]["rows"][-1]["extraction"]
            for report in reports
            if name in report["runs"]
        ]
        for family in ("web", "cue"):
            for place, band in enumerate(last[0][family]["bands"]):
                told["frequency"].append(
                    {
                        "plan": name,
                        "prompts": family,
                        "from": band["from"],
                        "to": band["to"],
                        "addresses": sum(one[family]["bands"][place]["addresses"] for one in last),
                        "leaked": sum(one[family]["bands"][place]["leaked"] for one in last),
                    }
                )
        told["perplexity"].append(
            {
                "plan": name,
                **{
                    f"{which}_{reading}": summarize_range(
                        perplexity_table(reports, name, which, reading)[:, -1]
                    )
                    for which in trained_rows(reports[0], name)[0]["perplexity"]
                    for reading in ("mean", "corpus")
                },
            }
        )
    for name in [
        *(one for one in names if one == "keep=0"),
        "rmft",
        *(one for one in names if one in ("keep=2", "keep=5")),
        "baseline",
    ]:
        keep = {"rmft": "1", "baseline": "all"}.get(name, name.removeprefix("keep="))
        told["dose"].append(
            {
                "keep": keep,
                "seeds": sum(name in report["runs"] for report in reports),
                **{
                    f"ter_{family}": summarize_range(
                        rate_table(reports, name, family, "ter")[:, -1]
                    )
                    for family in ("web", "cue")
                },
                "ppl": summarize_range(perplexity_table(reports, name)[:, -1]),
            }
        )
    return told


def read_cells(runs: PretrainedRuns, seed: int, lr: float) -> dict[str, Any]:
    """The finished cells of a seed and a rate as a report of `measure_plans`, with what is drawn
    again for intervals."""
    report: dict[str, Any] = {"seed": seed, "runs": {}, "leaked": {}, "held_perplexities": {}}
    for name in NAMES:
        result = runs.result(Cell(seed, lr, name))
        if result is None:
            continue
        rows = []
        for row in result["rows"]:
            each = compute_mail_perplexities(row)
            corpus = math.exp(sum(row["held_loss"]) / sum(row["held_tokens"]))
            rows.append(
                {**row, "perplexity": {"mail": {"mean": float(each.mean()), "corpus": corpus}}}
            )
            if row["step"] > 0:
                report["held_perplexities"].setdefault(name, []).append(each)
        report["runs"][name] = {"rows": rows}
        report["leaked"][name] = {
            family: [row["leaked"][family] for row in rows if row["step"] > 0]
            for family in ("web", "cue")
        }
    return report


def epoch_rows(
    runs: PretrainedRuns, seeds: Sequence[int], lr: float, *, is_first_rate: bool = True
) -> list[dict[str, Any]]:
    """Leaks, loss and perplexity of every measured epoch of every plan and seed; the untrained
    model, which no rate changes, is epoch 0 of the baseline at the first rate."""
    return [
        {
            "seed": seed,
            "lr": lr,
            "plan": name,
            "epoch": round(row["epoch"], 3),
            **{
                f"leaked_{family}": row["extraction"][family]["leaked"] for family in ("web", "cue")
            },
            "addresses": row["extraction"]["web"]["original"],
            "strangers_web": row["extraction"]["web"]["control"]["generated"],
            "ppl_mail": round(compute_mail_perplexities(row).mean(), 4),
            "train_loss": row["train_loss"],
        }
        for seed in seeds
        for name in NAMES
        for row in runs.measured_rows(Cell(seed, lr, name))
        if row["step"] > 0 or (name == "baseline" and is_first_rate)
    ]


def compute_mail_perplexities(row: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """The perplexity of each held-out mail at a measured checkpoint."""
    each: np.ndarray[Any, Any] = np.exp(np.array(row["held_loss"]) / np.array(row["held_tokens"]))
    return each


def report_pretrained(arguments: argparse.Namespace, began: float) -> int:
    """Compute the cells of a pretrained model that the options name, and report what is finished;
    at least measured epochs."""
    runs = pretrained_runs.open_runs(arguments)
    lrs = tuple(arguments.lr or runs.size.lrs)
    seeds = pretrained_runs.compute_cells(runs, arguments, NAMES, lrs)
    tables: dict[str, list[dict[str, Any]]] = {"epochs": []}
    size, found = runs.size, dict[str, Criterion]()
    every_seed = range(1, (arguments.seeds or size.seeds) + 1)
    for lr in lrs:
        tables["epochs"] += epoch_rows(runs, every_seed, lr, is_first_rate=lr == lrs[0])
        reports = [
            read_cells(runs, seed, lr)
            for seed in seeds
            if runs.result(Cell(seed, lr, "baseline")) is not None
        ]
        if lr == lrs[0] and reports:
            found = criteria(reports)
            tables |= {name: rows for name, rows in result_rows(reports).items() if name != "dose"}
        elif reports:
            tables.setdefault("other_rates", []).extend(
                {
                    "lr": lr,
                    "seeds": [report["seed"] for report in reports],
                    "criterion": name,
                    **one.describe(),
                }
                for name, one in criteria(reports).items()
                if one.headline
            )
    planned = [Cell(seed, lr, name) for lr in lrs for name in NAMES for seed in every_seed]
    layers = "all layers" if size.top_layers is None else f"the top {size.top_layers} layers"
    if not tables["epochs"]:
        raise UsageError(
            f"{runs.root}: nothing was measured yet; give the same command without --only-report"
        )
    scaled = (
        f"{arguments.model.name}, {layers} trained at {lrs[0]:g} (named before the runs),"
        f" {size.epochs} epochs, {size.batch} rows of {size.context} tokens; {size.mails} mails a"
        f" seed, of which {size.test_share:.0%} are held out, {size.web} generic prompts and"
        f" {size.cues} cues; seed"
        f" {' '.join(map(str, seeds)) or 'of the table epochs'}{pretrained_runs.describe_devices(runs, planned)}{pretrained_runs.describe_missing(runs, planned)}."  # noqa: E501
        " The paper tunes GPT2-XL on 10,000 mails."
    )
    return report_criteria(
        "rmft", arguments, found, tables=tables, scaled=scaled, seconds=time.monotonic() - began
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script; the exit code is 1 where a headline criterion is not reproduced."""
    parser = make_parser(__doc__)
    parser.add_argument(
        "--epochs", type=int, help="of each training (default: by size), with as many checkpoints"
    )
    pretrained_runs.add_options(parser)
    arguments = parser.parse_args(argv)
    began = time.monotonic()
    if arguments.model is not None or arguments.size == "real":
        return report_pretrained(arguments, began)
    size = SIZES[arguments.size]
    if arguments.epochs is not None:
        size = replace(
            size, epochs=arguments.epochs, every=size.every * arguments.epochs / size.epochs
        )
    home = arguments.dir or Path(tempfile.mkdtemp(prefix="papers-rmft-"))
    try:
        reports = run_seeds(size, arguments, home)
    finally:
        if arguments.dir is None:
            shutil.rmtree(home, ignore_errors=True)
    mails_read = (
        f"{size.mails} invented mails"
        if arguments.data is None
        else f"{reports[0]['plans']['baseline']['documents_out']} mails"
    )
    scaled = (
        f"Scaled down: {mails_read} and a GPT-2 from scratch instead of Enron's 10,000 and GPT2-XL,"
        f" {size.epochs} epochs, {size.web} generic prompts and {size.cues} cues, {len(reports)}"
        " seeds; directions and ratios are compared, not levels."
    )
    return report_criteria(
        "rmft",
        arguments,
        criteria(reports),
        tables=result_rows(reports),
        scaled=scaled,
        seconds=time.monotonic() - began,
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
    run_script(main)
