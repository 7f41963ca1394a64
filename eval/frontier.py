"""The whole chain on a corpus: sanitize it by several plans, train a small model on each, attack them all, and draw the curve.

    corpus -> split by doc_id -> sanitize (one plan each) -> train -> attack at every checkpoint -> MaxTER, AURC

It drives `sanitize`, `train` and the rest of `eval` through their public faces, and is the only file that does. The split comes before
anything is indexed, so that no count of the training part knows of the held-out part. The measured curves (`curves`) are what `sanitize
explain --forecast` reads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import sanitize
import train
from sanitize.errors import UsageError

from .language_model import usable
from .metric import Ground, Metric, metric
from .probe_inputs import read_texts, tables, web_prompts
from .run_folder import Run
from .suite import Say, measured

PLANS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "baseline": ("baseline", ()),
    "rmft": ("rmft", ()),
    "header_dedup": ("header_dedup", ()),
}
CURVES = 1  # version of the curves' JSON
METRICS: tuple[Mapping[str, Any], ...] = (
    {"use": "extraction"},
    {"use": "perplexity"},
    {"use": "frontier", "texts": "mail"},
)


@dataclass(frozen=True, kw_only=True)
class Chain:
    """Settings of one chain: plans by name, the recipe with its changes, the metrics, the seed of all."""

    plans: Mapping[str, tuple[str, tuple[str, ...]]] = field(default_factory=lambda: dict(PLANS))  # name -> plan, changes
    recipe: str = "rmft"
    changes: Sequence[str] = ()
    metrics: Sequence[Mapping[str, Any]] = METRICS
    baseline: str = "baseline"
    seed: int = 0
    device: str = "cpu"
    test: float = 0.1  # share of documents that is held out
    limit: int | None = None  # at most so many documents, drawn by their `doc_id`
    text_column: str = "text"  # of the corpus; a binary column is read as mail


def chain(corpus: str | Path, out: str | Path, settings: Chain | None = None, *, say: Say = lambda line: None) -> dict[str, Any]:
    """The report of the whole chain on a corpus in any form that `sanitize` reads; everything it makes lies in `out`, private.

    The same call again finds what it made and only measures anew. `out/runs/NAME` are the runs, `out/data/NAME` the shards.
    """
    settings = settings or Chain()
    checked(settings)
    folder = Path(out)
    parts = divided(corpus, folder, settings, say)
    return attacked(parts["train"], parts["test"], folder, settings, say=say)


def checked(settings: Chain) -> None:
    """UsageError or InputRefused for what no plan, recipe, metric or machine can do: told before a corpus is read and a model trained."""
    if settings.baseline not in settings.plans:
        named = ", ".join(settings.plans) or "(none are named)"
        raise UsageError(f"the baseline {settings.baseline!r} is none of the plans {named}; add it")
    for plan, changes in settings.plans.values():
        sanitize.load_plan(plan, changes)
    for one in settings.metrics:
        metric(one, "frontier")
    objective = recipe_of(settings, Path("data")).made()
    if objective.HEAD != "causal":
        raise UsageError(f"recipe {settings.recipe} teaches {objective.use}, which continues no text; expected a recipe of a causal model")
    usable(settings.device)


def recipe_of(settings: Chain, data: Path, raw: Path | None = None) -> train.Recipe:
    """The recipe of a plan's run over its shards `data`; the raw texts have the tokenizer of all, or their perplexities do not compare."""
    fixed = [f"data.path={data}", *([f"tokenizer.corpus={raw}"] if raw else []), f"run.seed={settings.seed}"]
    return train.Recipe.of(settings.recipe, [*fixed, f"run.device={settings.device}", *settings.changes])


def divided(corpus: str | Path, folder: Path, settings: Chain, say: Say) -> dict[str, Path]:
    """The corpus as two folders of Parquet, train and test; each document falls by its `doc_id` alone."""
    say("reading the corpus")
    columns = sanitize.Columns()
    columns = replace(columns, roles=replace(columns.roles, text=(settings.text_column,)))
    sanitize.run(
        [corpus],
        folder / "read",
        sanitize.load_plan("baseline"),
        settings=sanitize.Settings(seed=settings.seed, verify="off", replace=True, columns=columns),
    )
    frame = pl.concat(frame for _, frame in tables(folder / "read" / "data"))
    if settings.limit is not None and settings.limit < frame.height:
        frame = frame[np.sort(np.argsort(_draws(frame["doc_id"], settings.seed, b"limit"), kind="stable")[: settings.limit])]
    held = _draws(frame["doc_id"], settings.seed, b"split") < np.uint64(int(settings.test * 2**64))
    if held.all() or not held.any():
        raise UsageError(f"{corpus}: {frame.height} documents cannot be split into training and held-out ones; give more of them")
    found = {}
    for name, rows in (("train", ~held), ("test", held)):
        found[name] = folder / "split" / name
        found[name].mkdir(parents=True, exist_ok=True)
        frame.filter(pl.Series(rows)).write_parquet(found[name] / "documents.parquet")
    return found


def _draws(doc_ids: pl.Series, seed: int, what: bytes) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """A number of 64 bits for each document, from its `doc_id` and the seed alone; another one for each use."""
    key = seed.to_bytes(8, "little")
    told = (hashlib.blake2b(str(doc_id).encode(), digest_size=8, key=key, person=what).digest() for doc_id in doc_ids.to_list())
    return np.frombuffer(b"".join(told), "<u8")  # once a corpus, beside training on it


def attacked(raw: Path, test: Path, folder: Path, settings: Chain, *, say: Say = lambda line: None) -> dict[str, Any]:
    """Sanitize the training part by each plan, train on each, measure all runs; the report, with what each plan changed."""
    metrics: list[Metric] = [metric(one, "frontier") for one in settings.metrics]  # what is asked wrongly is told before hours of training
    runs, summaries = {}, {}
    for name, (plan, changes) in settings.plans.items():
        say(f"{name}: sanitizing")
        summary = sanitize.run(
            [raw],
            folder / "data" / name,
            sanitize.load_plan(plan, changes),
            folder / "work",
            sanitize.Settings(seed=settings.seed, workers=1, replace=True),
        )
        summaries[name] = {
            key: summary[key] for key in ("documents_out", "occurrences", "kept_originals", "replaced", "leaks", "plan_hash")
        }
        say(f"{name}: training")
        train.fit(recipe_of(settings, folder / "data" / name, raw), folder / "runs" / name)
        runs[name] = Run.open(folder / "runs" / name)
    report = measured(runs, metrics, ground(raw, test, settings), name="frontier", device=settings.device, say=say)
    return {
        **report,
        "plans": {name: {"plan": plan, "changes": list(changes), **summaries[name]} for name, (plan, changes) in settings.plans.items()},
    }


def ground(raw: Path, test: Path, settings: Chain) -> Ground:
    """What is measured against: the raw training part's addresses; held-out mail, its bodies, and pages that are no mail."""
    from .probe_inputs import Texts, counted_addresses

    pages = web_prompts(100, settings.seed + 1)
    texts = {
        "mail": read_texts(test),
        "body": read_texts(test, part="body"),
        "web": Texts(tuple(map(str, range(len(pages)))), tuple(pages)),
    }
    return Ground(seed=settings.seed, baseline=settings.baseline, texts=texts, original=counted_addresses(read_texts(raw).texts))


def curves(reports: Sequence[Mapping[str, Any]], family: str = "web") -> dict[str, Any]:
    """What `sanitize explain --forecast` reads: for each plan and band of frequency, how many addresses a final model leaked.

    Several reports (one a seed) are summed. `low` and `high` are Wilson's 95 % interval for the share. Counts only, no value.
    """
    found: dict[str, dict[tuple[int, int | None], list[int]]] = {}
    for report in reports:
        for name, run in report["runs"].items():
            plan = report["plans"][name]["plan"] if not report["plans"][name]["changes"] else name
            for band in run["rows"][-1]["extraction"][family]["bands"]:
                sums = found.setdefault(plan, {}).setdefault((band["from"], band["to"]), [0, 0])
                sums[0] += band["leaked"]
                sums[1] += band["addresses"]
    return {
        "version": CURVES,
        "family": family,
        "runs": len(reports),
        "plans": {
            plan: [
                {"from": low, "to": high, "leaked": leaked, "addresses": there, **share(leaked, there)}
                for (low, high), (leaked, there) in sorted(bands.items(), key=lambda entry: entry[0][0])
            ]
            for plan, bands in found.items()
        },
    }


def share(some: int, of: int) -> dict[str, float]:
    """A share with Wilson's 95 % interval (Wilson 1927): `share`, `low`, `high`; of nothing, 0 and the whole range."""
    if not of:
        return {"share": 0.0, "low": 0.0, "high": 1.0}
    z = 1.959964
    p, wide = some / of, 1 + z * z / of
    middle, half = (p + z * z / (2 * of)) / wide, z * np.sqrt(p * (1 - p) / of + z * z / (4 * of * of)) / wide
    return {"share": p, "low": max(0.0, float(middle - half)), "high": min(1.0, float(middle + half))}
