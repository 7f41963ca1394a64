"""The whole chain on a corpus: sanitizes it by several plans, trains a small model on each, attacks
all, and compares the curves.

    corpus -> split by doc_id -> sanitize (one plan each) -> train -> attack at every checkpoint ->
    MaxTER, AURC

The only file that calls `sanitize`, `train` and the rest of `eval` together, through their public
APIs. The corpus is split before anything is indexed, so that no count of the training part includes
the held-out part. `sanitize explain --forecast` reads the measured curves (`build_leak_curves`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq

import sanitize
from sanitize import train
from sanitize.errors import UsageError, suggest_names
from sanitize.storage.private_folder import make_private_folder

from .leak import (
    LeakSettings,
    attack_run,
    check_training,
    describe_results,
    make_recipe,
    prepare,
    withhold_verdicts,
)
from .leak_statistics import compare_shares
from .measurement_records import remove_records
from .metric import EvalContext, Metric, load_metric
from .run_folder import RunFolder
from .suite import LeakRows, MessageCallback, measure_runs
from .texts_and_prompts import hash_doc_ids, make_web_prompts, read_texts

DEFAULT_PLANS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "baseline": ("baseline", ()),
    "rmft": ("rmft", ()),
    "header_dedup": ("header_dedup", ()),
}
CURVES_VERSION = 2  # version of the curves' JSON
DEFAULT_METRICS: tuple[Mapping[str, Any], ...] = (
    {"use": "extraction"},
    {"use": "perplexity"},
    {"use": "frontier", "texts": "mail"},
)


@dataclass(frozen=True, kw_only=True)
class FrontierSettings:
    """Settings of one chain: plans by name, the recipe with its changes, the metrics, and one seed
    for everything."""

    # name -> plan, changes
    plans: Mapping[str, tuple[str, tuple[str, ...]]] = field(
        default_factory=lambda: dict(DEFAULT_PLANS)
    )
    recipe: str = "rmft"
    changes: Sequence[str] = ()
    metrics: Sequence[Mapping[str, Any]] = DEFAULT_METRICS
    baseline: str = "baseline"
    seed: int = 0
    device: str | None = None
    dtype: str = "float32"  # of the models that are measured
    test_share: float = 0.1  # share of documents that is held out
    limit: int | None = None  # maximum number of documents, drawn by their `doc_id`
    text_column: str = "text"  # of the corpus; a binary column is read as mail
    columns: Mapping[str, Any] = field(default_factory=dict)  # further ones, as in `sanitize.run`
    leak: LeakSettings | None = None  # also test what each final model leaks, of all kinds


def run_frontier(
    corpus: str | Path,
    out: str | Path,
    settings: FrontierSettings | None = None,
    *,
    leaks: LeakRows | None = None,
    progress: MessageCallback = lambda line: None,
) -> dict[str, Any]:
    """Run the whole chain on a corpus in any format that `sanitize` reads; return the report. `out`
    is private; `leaks` as in `evaluate`.

    The same call reuses finished shards and runs and only measures again. `out/runs/NAME` are the
    runs, `out/data/NAME` the shards.
    """
    settings = settings or FrontierSettings()
    check_settings(settings)
    # holds the raw documents, and models that were trained on them
    folder = make_private_folder(Path(out))
    parts = split_corpus(corpus, folder, settings, progress)
    return measure_plans(
        parts["train"], parts["test"], folder, settings, leaks=leaks, progress=progress
    )


def check_settings(settings: FrontierSettings) -> None:
    """Raise UsageError or InputRefused for wrong plans, recipes, metrics or devices, before a
    corpus is read or a model trained."""
    if settings.baseline not in settings.plans:
        known = suggest_names(settings.baseline, settings.plans)
        raise UsageError(
            f"the baseline {settings.baseline!r} is not one of the plans; {known} Add it."
        )
    for plan, changes in settings.plans.values():
        sanitize.Plan.load(plan, changes)
    for metric_settings in settings.metrics:
        load_metric(metric_settings, "frontier")
    check_training(_choose_recipe(settings, Path("data")), settings.device, settings.dtype)


def _choose_recipe(
    settings: FrontierSettings, data: Path, tokenizer_corpus: Path | None = None
) -> train.Recipe:
    """Return the recipe of a plan's run over its shards `data`. All plans share one tokenizer, or
    perplexities could not be compared."""
    return make_recipe(
        settings.recipe,
        settings.changes,
        data,
        seed=settings.seed,
        device=settings.device,
        tokenizer_corpus=tokenizer_corpus,
    )


def split_corpus(
    corpus: str | Path, folder: Path, settings: FrontierSettings, progress: MessageCallback
) -> dict[str, Path]:
    """Split the corpus into two folders of Parquet, train and test; the side of a document depends
    on its `doc_id` and the seed alone."""
    progress("reading the corpus")
    sanitize.run(
        [corpus],
        folder / "read",
        plan="baseline",
        seed=settings.seed,
        verify="off",
        replace=True,
        text_column=settings.text_column,
        **settings.columns,
    )
    # all splits: they are drawn again here
    frame = pl.DataFrame(sanitize.Corpus.open(folder / "read").table())
    if settings.text_column != "text" and settings.text_column in frame.columns:
        # mails are called text already
        frame = frame.drop("text", strict=False).rename({settings.text_column: "text"})
    if settings.limit is not None and settings.limit < frame.height:
        frame = frame[
            np.sort(
                np.argsort(hash_doc_ids(frame["doc_id"], settings.seed, b"limit"), kind="stable")[
                    : settings.limit
                ]
            )
        ]
    is_held_out = hash_doc_ids(frame["doc_id"], settings.seed, b"split") < np.uint64(
        int(settings.test_share * 2**64)
    )
    if is_held_out.all() or not is_held_out.any():
        raise UsageError(
            f"{corpus}: {frame.height} documents cannot be split into training and held-out ones;"
            " give more of them"
        )
    found = {}
    for name, rows in (("train", ~is_held_out), ("test", is_held_out)):
        found[name] = folder / "split" / name
        found[name].mkdir(parents=True, exist_ok=True)
        frame.filter(pl.Series(rows)).write_parquet(found[name] / "documents.parquet")
    return found


def measure_plans(
    train_path: Path,
    test_path: Path,
    folder: Path,
    settings: FrontierSettings,
    *,
    leaks: LeakRows | None = None,
    progress: MessageCallback = lambda line: None,
) -> dict[str, Any]:
    """Sanitize the training part by each plan, train on each, measure all runs; return the report,
    with what each plan changed.

    `leaks` and `progress` as in `evaluate`."""
    # fails on wrong settings before hours of training
    metrics: list[Metric] = [
        load_metric(metric_settings, "frontier") for metric_settings in settings.metrics
    ]
    runs, summaries, materials = {}, {}, {}
    for name, (plan, changes) in settings.plans.items():
        progress(f"{name}: sanitizing")
        loaded, data = sanitize.Plan.load(plan, changes), folder / "data" / name
        summary = sanitize.run(
            [train_path],
            data,
            plan=loaded,
            work=folder / "work",
            seed=settings.seed,
            workers=1,
            replace=True,
            **_select_policies(settings.columns, train_path),
        )
        summaries[name] = {
            key: getattr(summary, key)
            for key in (
                "documents_out",
                "occurrences",
                "kept_originals",
                "replaced",
                "leaks",
                "run_hash",
            )
        }
        if settings.leak is not None:
            materials[name] = prepare(
                data, folder / "work", loaded, folder / "leak" / name, settings.leak, progress
            )
            data = materials[name].path
        progress(f"{name}: training")
        train.fit(
            _choose_recipe(settings, data, train_path), folder / "runs" / name, progress=progress
        )
        runs[name] = RunFolder.open(folder / "runs" / name)
    report = measure_runs(
        runs,
        metrics,
        build_context(train_path, test_path, settings),
        name="frontier",
        device=settings.device,
        dtype=settings.dtype,
        leaks=leaks,
        records=folder / "measured",
        progress=progress,
    )
    remove_records(folder / "measured")
    results = {
        name: attack_run(runs[name], material, settings.leak, progress)
        for name, material in materials.items()
        if settings.leak is not None
    }
    if results:
        withhold_verdicts(results, settings.baseline)
    described = describe_results(results) if results else {}
    return {
        **report,
        **described,
        "leak": results,
        "figures": [*report["figures"], *described.get("figures", ())],
        "comparisons": compare_plans(report, settings.baseline),
        "plans": {
            name: {"plan": plan, "changes": list(changes), **summaries[name]}
            for name, (plan, changes) in settings.plans.items()
        },
    }


def _select_policies(columns: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return the policies of those columns that the Parquet files of a folder still have."""
    given = {
        policy: columns[policy]
        for policy in ("sanitize", "keep", "pseudonymize")
        if columns.get(policy)
    }
    if not given:
        return {}
    names = pq.read_schema(next(path.rglob("*.parquet"))).names
    return {policy: [name for name in listed if name in names] for policy, listed in given.items()}


def compare_plans(report: Mapping[str, Any], baseline: str) -> list[str]:
    """Return a sentence for each plan but the baseline and each kind of prompt: the addresses that
    the final models leaked, and whether the difference decides anything."""
    finals = {name: run["rows"][-1].get("extraction", {}) for name, run in report["runs"].items()}
    sentences = []
    for name, families in finals.items():
        for family, rates in families.items():
            if name == baseline:
                continue
            base = finals[baseline][family]
            found = compare_shares(
                base["leaked"], base["original"], rates["leaked"], rates["original"]
            )
            decides = "" if found.low > 0 or found.high < 0 else ", which decides nothing"
            sentences.append(
                f"{name}, {family} prompts: {rates['leaked']} of {rates['original']} addresses"
                f" leaked, {base['leaked']} with {baseline}; {100 * found.effect:.1f} %"
                f" [{100 * found.low:.1f}, {100 * found.high:.1f}] fewer{decides}"
            )
    return sentences


def build_context(train_path: Path, test_path: Path, settings: FrontierSettings) -> EvalContext:
    """Return what the runs are measured with: addresses of the raw training part; held-out mail,
    its bodies, and generated web pages."""
    from .texts_and_prompts import TextSet, count_addresses

    pages = make_web_prompts(100, settings.seed + 1)
    texts = {
        "mail": read_texts(test_path),
        "body": read_texts(test_path, section="body"),
        "web": TextSet(tuple(map(str, range(len(pages)))), tuple(pages)),
    }
    return EvalContext(
        seed=settings.seed,
        baseline=settings.baseline,
        text_sets=texts,
        original_addresses=count_addresses(read_texts(train_path).texts),
    )


def build_leak_curves(reports: Sequence[Mapping[str, Any]], family: str = "web") -> dict[str, Any]:
    """Return the input of `sanitize explain --forecast`: how many addresses a final model leaked,
    by plan and frequency band.

    Several reports (one per seed) are summed. Counts only, no values.
    """
    found: dict[str, dict[tuple[int, int | None], list[tuple[int, int]]]] = {}
    for report in reports:
        for name, run in report["runs"].items():
            plan = report["plans"][name]["plan"] if not report["plans"][name]["changes"] else name
            for band in run["rows"][-1]["extraction"][family]["bands"]:
                found.setdefault(plan, {}).setdefault((band["from"], band["to"]), []).append(
                    (band["leaked"], band["addresses"])
                )
    return {
        "version": CURVES_VERSION,
        "family": family,
        "runs": len(reports),
        "plans": {
            plan: [
                {
                    "from": low,
                    "to": high,
                    "leaked": leaked,
                    "addresses": address_count,
                    "share": leaked / address_count if address_count else None,
                }
                for (low, high), trainings in sorted(bands.items(), key=lambda entry: entry[0][0])
                for leaked, address_count in [
                    (sum(counts) for counts in zip(*trainings, strict=True))
                ]
            ]
            for plan, bands in found.items()
        },
    }
