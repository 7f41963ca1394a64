"""Measures how much a small model learns of an address from its RMFT variants, which keep one part
of it: how many exact copies one variant is worth.

    python -m benchmarks.bench_fuzzy_copies       benchmarks/results/fuzzy_copies.{json,md}
    python -m benchmarks.bench_fuzzy_copies --repeat 1 --results /tmp/x      one seed

Invented addresses stand 1 to 16 times in a corpus of invented pages, always after the same words.
Three corpora are trained on: `exact` has all copies; `rmft` is what the plan `rmft` publishes of it
(the first occurrence stays, later ones keep one part); in `once` all later occurrences are other
invented addresses. A model of two layers is trained on each, and asked for the address after the
words: `advantage` is the log-probability of the true address above the mean of that of 64 decoys,
which are recombined from the parts of other addresses of the corpus, so that only what the model
ties to the words counts; `rank` is the share of decoys that are less likely (0.5 is chance).

`copies` is the number of exact copies that gives the same advantage, by linear interpolation over
log2 of the number in `exact`. One variant is worth (copies - 1) / (n - 1) exact copies, which is
the measure of Shilov et al. 2024 (The Mosaic Memory of Large Language Models); `once` is its zero.
Intervals are the middle 95 % of 1,000 bootstraps of addresses and seeds.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import sanitize
from benchmarks import runner
from sanitize import train
from sanitize.array_types import F64
from sanitize.eval.language_model import LanguageModel
from sanitize.eval.texts_and_prompts import make_web_prompts

COUNTS = (1, 2, 4, 8, 16)
EACH = 24  # addresses of each count
EPOCHS = 16
DECOYS, BOOTSTRAPS = 64, 1_000
CORPORA = ("exact", "rmft", "once")
MODEL = {"arch": "gpt2", "layers": 2, "width": 128, "heads": 4, "context": 128, "dropout": 0.0}
_SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]


@dataclass(frozen=True, repr=False)
class Addresses:
    """Invented addresses, the words that they stand after, how often they occur, and decoys."""

    cues: list[str]
    values: list[str]
    counts: list[int]
    decoys: list[list[str]]


def invent_addresses(seed: int) -> Addresses:
    """Addresses of four random words; nothing of one follows from its cue."""
    rng = np.random.default_rng([seed, 31])

    def word(syllables: int) -> str:
        return "".join(_SYLLABLES[one] for one in rng.integers(len(_SYLLABLES), size=syllables))

    counts = [count for count in COUNTS for _ in range(EACH)]
    parts = [(word(2), word(3), f"{word(2)}-{word(2)}.example") for _ in counts]
    decoys = []
    for number in range(len(parts)):
        others = np.delete(np.arange(len(parts)), number)
        drawn = rng.choice(others, size=(DECOYS, 3))
        decoys.append(
            [join_parts(*(parts[row][at] for at, row in enumerate(rows))) for rows in drawn]
        )
    return Addresses(
        [f"The desk of {word(3).title()} {word(3).title()} answers at " for _ in counts],
        [join_parts(*one) for one in parts],
        counts,
        decoys,
    )


def join_parts(first: str, last: str, domain: str) -> str:
    """An address of three parts, as RMFT divides it."""
    return f"{first}.{last}@{domain}"


def write_corpus(folder: Path, addresses: Addresses, seed: int, *, once: bool) -> Path:
    """Pages in random order; with `once`, later occurrences are other invented addresses."""
    rng = np.random.default_rng([seed, 32])
    unrelated = invent_addresses(seed + 1_000).decoys
    rows = [
        f"{cue}{value if not number or not once else unrelated[row][number]}."
        for row, (cue, value, count) in enumerate(
            zip(addresses.cues, addresses.values, addresses.counts, strict=True)
        )
        for number in range(count)
    ]
    pages = make_web_prompts(len(rows), seed)
    texts = [f"{page[:160]}\n{row}\n" for page, row in zip(pages, rows, strict=True)]
    order = rng.permutation(len(texts))
    frame = pl.DataFrame(
        {"doc_id": [f"{n:05d}" for n in range(len(texts))], "text": [texts[n] for n in order]}
    )
    folder.mkdir()
    frame.write_parquet(folder / "pages.parquet")
    return folder / "pages.parquet"


def measure_corpus(kind: str, addresses: Addresses, folder: Path, seed: int) -> tuple[F64, F64]:
    """Train on one of the corpora; the advantage and the rank of each address."""
    source = write_corpus(folder / kind, addresses, seed, once=kind == "once")
    published = folder / f"{kind}-published"
    plan = "rmft" if kind == "rmft" else "baseline"
    sanitize.run([source], published, plan=plan, seed=seed, workers=1)
    result = train.fit(
        {
            "name": f"copies-{kind}",
            "data": {"path": str(published), "layout": "document", "overlong": "cut"},
            "model": MODEL,
            "tokenizer": {"vocab": 512},
            "run": {
                "epochs": EPOCHS,
                "batch": 16,
                "lr": 2e-3,
                "checkpoint_every": 0.0,
                "seed": seed,
                "device": "cpu",
            },
        },
        folder / f"{kind}-run",
    )
    model = LanguageModel.load(folder / f"{kind}-run" / "checkpoints" / str(result.final))
    rows, starts = [], []
    for cue, value, decoys in zip(addresses.cues, addresses.values, addresses.decoys, strict=True):
        head = [*model.leading_ids, *model.encode([cue])[0]]
        for tail in model.encode([value, *decoys]):
            rows.append([*head, *tail])
            starts.append(len(head) - 1)
    losses = model.token_losses(rows)
    scores = np.array([-one[start:].sum() for one, start in zip(losses, starts, strict=True)])
    scores = scores.reshape(len(addresses.values), 1 + DECOYS)
    decoys_scores = scores[:, 1:]
    ranks = (decoys_scores < scores[:, :1]).mean(axis=1)
    return scores[:, 0] - decoys_scores.mean(axis=1), ranks


def find_exact_copies(advantages: Sequence[float], exact: Sequence[float]) -> list[float]:
    """The number of exact copies with the same advantage, between 1 and the largest count; the
    curve of exact copies is made non-decreasing first."""
    curve = np.maximum.accumulate(exact)
    # np.interp needs rising points; of equal ones the first counts
    rising = [0, *(at for at in range(1, len(curve)) if curve[at] > curve[at - 1])]
    found = np.interp(advantages, curve[rising], np.log2(COUNTS)[rising])
    return [float(one) for one in np.exp2(found)]


def average_by_count(values: F64) -> list[float]:
    """Means over [seeds, addresses] for each count."""
    return [float(one) for one in values.reshape(len(values), len(COUNTS), -1).mean(axis=(0, 2))]


def summarize(advantages: Mapping[str, F64], ranks: Mapping[str, F64]) -> list[dict[str, Any]]:
    """One row for each count of more than one copy: means by corpus, and what a variant is worth
    with its interval. Arrays are [seeds, addresses]."""

    def measure_worth(chosen: Mapping[str, F64]) -> F64:
        curves = {name: average_by_count(one) for name, one in chosen.items()}
        copies = np.array(find_exact_copies(curves["rmft"], curves["exact"]))
        counts = np.array(COUNTS)
        return np.asarray((copies[1:] - 1) / (counts[1:] - 1), np.float64)

    rng = np.random.default_rng(33)
    seeds = len(advantages["exact"])
    drawn = []
    for _ in range(BOOTSTRAPS):
        rows = rng.integers(seeds, size=seeds)
        columns = np.concatenate(
            [at * EACH + rng.integers(EACH, size=EACH) for at in range(len(COUNTS))]
        )
        drawn.append(
            measure_worth({name: one[np.ix_(rows, columns)] for name, one in advantages.items()})
        )
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    worth = measure_worth(advantages)
    means = {name: average_by_count(one) for name, one in advantages.items()}
    shares = {name: average_by_count(one) for name, one in ranks.items()}
    return [
        {
            "count": count,
            **{f"advantage_{name}": means[name][at] for name in CORPORA},
            **{f"rank_{name}": shares[name][at] for name in CORPORA},
            **(
                {"worth": worth[at - 1], "worth_low": low[at - 1], "worth_high": high[at - 1]}
                if at
                else {}
            ),
        }
        for at, count in enumerate(COUNTS)
    ]


def format_page(result: Mapping[str, Any]) -> str:
    """The table for readers."""
    lines = [
        "# What a variant is worth",
        "",
        f"{result['date']}, {result['seeds']} seeds, {EACH} addresses of each count and seed.",
        "",
        "Share of 64 decoys that the model finds less likely than the address (.5 is chance), and"
        " the number of exact copies that one variant is worth.",
        "",
        "| copies | exact | `rmft` | once | worth of a variant | 95 % |",
        "|--:|--:|--:|--:|--:|--:|",
    ]
    for row in result["rows"]:
        shares = " | ".join(f"{row[f'rank_{name}']:.2f}" for name in CORPORA)
        worth = (
            f"{row['worth']:.2f} | {row['worth_low']:.2f} to {row['worth_high']:.2f}"
            if "worth" in row
            else " | "
        )
        lines.append(f"| {row['count']} | {shares} | {worth} |")
    return "\n".join(lines) + "\n"


def measure_seed(seed: int) -> dict[str, tuple[F64, F64]]:
    """Advantages and ranks of all addresses of a seed, by corpus."""
    addresses = invent_addresses(seed)
    with tempfile.TemporaryDirectory() as folder:
        return {name: measure_corpus(name, addresses, Path(folder), seed) for name in CORPORA}


def main() -> None:
    options = runner.build_parser(__doc__, repeat=4).parse_args()
    by_seed = [runner.run_in_subprocess(measure_seed, seed) for seed in range(options.repeat)]
    advantages, ranks = (
        {name: np.array([one[name][part] for one in by_seed]) for name in CORPORA}
        for part in (0, 1)
    )
    result = runner.start_result("torch", "transformers", seeds=options.repeat, epochs=EPOCHS)
    result["rows"] = summarize(advantages, ranks)
    runner.save_result(options.results, "fuzzy_copies", result, format_page(result))


if __name__ == "__main__":
    main()
