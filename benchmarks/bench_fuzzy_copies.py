"""Measures how much a small model learns of an address from its RMFT variants, which keep one part
of it: how many exact copies one variant is worth.

    python -m benchmarks.bench_fuzzy_copies       benchmarks/results/fuzzy_copies.{json,md}
    python -m benchmarks.bench_fuzzy_copies --repeat 1 --results /tmp/x      one seed

Invented addresses stand 1 to 16 times in a corpus of invented pages, always after words of their
own, in one of three ways: `exact` as they are; `rmft` as the plan `rmft` publishes them (the first
occurrence stays, later ones keep one part); `once` with other invented addresses for all later
occurrences. One model of two layers is trained on all pages together, so that the three differ in
nothing else, and asked for the address after the words: `advantage` is the log-probability of the
true address above the mean of that of 64 decoys, which are recombined from the parts of other
addresses of the corpus, so that only what the model ties to the words counts; `rank` is the share
of decoys that are less likely (0.5 is chance).

`copies` is the number of exact copies that gives the same gain over one occurrence, by linear
interpolation over log2 of the number in `exact`, beyond both ends too. The gain is that over the
addresses of the same way that occur once: their parts are as frequent in the corpus, which matters
since variants are made of the parts of other addresses. One variant is worth (copies - 1) / (n - 1)
exact copies, the measure of Shilov et al. 2024 (The Mosaic Memory of Large Language Models), and
what an unrelated address in its place (`once`) is worth is subtracted. Intervals are the middle
95 % of 1,000 bootstraps of addresses and seeds.
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

    counts = [count for _ in CORPORA for count in COUNTS for _ in range(EACH)]
    parts = [(word(2), word(3), f"{word(2)}-{word(2)}.example") for _ in counts]
    decoys = []
    for number in range(len(parts)):
        others = np.delete(np.arange(len(parts)), number)
        drawn = rng.choice(others, size=(DECOYS, 3))
        decoys.append(
            [join_parts(*(parts[row][at] for at, row in enumerate(rows))) for rows in drawn]
        )
    return Addresses(
        [f"The desk of {word(3).title()} {word(3).title()} answers at" for _ in counts],
        [join_parts(*one) for one in parts],
        counts,
        decoys,
    )


def join_parts(first: str, last: str, domain: str) -> str:
    """An address of three parts, as RMFT divides it."""
    return f"{first}.{last}@{domain}"


def list_rows(kind: str) -> range:
    """The numbers of the addresses that stand in the corpus in this way."""
    each = len(COUNTS) * EACH
    return range(CORPORA.index(kind) * each, (CORPORA.index(kind) + 1) * each)


def write_pages(addresses: Addresses, kind: str, folder: Path, seed: int) -> Path:
    """The pages with the addresses of one way, before they are published."""
    unrelated = invent_addresses(seed + 1_000).decoys
    lines = [
        f"{addresses.cues[row]} {unrelated[row][number] if number and kind == 'once' else addresses.values[row]}."  # noqa: E501
        for row in list_rows(kind)
        for number in range(addresses.counts[row])
    ]
    pages = make_web_prompts(len(lines), seed * len(CORPORA) + CORPORA.index(kind))
    texts = [f"{page[:160]}\n{line}\n" for page, line in zip(pages, lines, strict=True)]
    numbers = range(len(texts))
    frame = pl.DataFrame({"doc_id": [f"{kind}-{number:05d}" for number in numbers], "text": texts})
    folder.mkdir()
    path = folder / f"{kind}.parquet"
    frame.sample(fraction=1, shuffle=True, seed=seed).write_parquet(path)
    return path


def publish_corpus(addresses: Addresses, folder: Path, seed: int) -> Path:
    """All pages, those of `rmft` as that plan publishes them, in random order."""
    frames = []
    for kind in CORPORA:
        source, published = (
            write_pages(addresses, kind, folder / kind, seed),
            folder / f"{kind}-out",
        )
        plan = "rmft" if kind == "rmft" else "baseline"
        sanitize.run([source], published, plan=plan, seed=seed, workers=1)
        frames.append(sanitize.Corpus.open(published).table().select(["doc_id", "text"]))
    path = folder / "all.parquet"
    table = pl.DataFrame(pl.concat([pl.DataFrame(pl.from_arrow(one)) for one in frames]))
    table.sample(fraction=1, shuffle=True, seed=seed).write_parquet(path)
    return path


def measure_seed(seed: int) -> dict[str, tuple[F64, F64]]:
    """Train on a corpus of this seed; advantages and ranks of its addresses, by the way in which
    they stand there."""
    addresses = invent_addresses(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result = train.fit(
            {
                "name": "copies",
                "data": {
                    "path": str(publish_corpus(addresses, folder, seed)),
                    "layout": "document",
                    "overlong": "cut",
                },
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
            folder / "run",
        )
        model = LanguageModel.load(folder / "run" / "checkpoints" / str(result.final))
    scores = score_addresses(model, addresses)
    advantages = scores[:, 0] - scores[:, 1:].mean(axis=1)
    ranks = (scores[:, 1:] < scores[:, :1]).mean(axis=1)
    return {kind: (advantages[list_rows(kind)], ranks[list_rows(kind)]) for kind in CORPORA}


def score_addresses(model: LanguageModel, addresses: Addresses) -> F64:
    """The log-probability of each address after its cue, and of its decoys, [addresses, 1 +
    decoys]. Cue and address are one text, as in the pages."""
    rows, starts = [], []
    for cue, value, decoys in zip(addresses.cues, addresses.values, addresses.decoys, strict=True):
        head = model.encode([cue])[0]
        for row in model.encode([f"{cue} {one}" for one in (value, *decoys)]):
            assert row[: len(head)] == head, "a token joins the cue and the address"
            rows.append([*model.leading_ids, *row])
            starts.append(len(model.leading_ids) + len(head) - 1)
    losses = model.token_losses(rows)
    scores = [-one[start:].sum() for one, start in zip(losses, starts, strict=True)]
    return np.array(scores, np.float64).reshape(len(addresses.values), 1 + DECOYS)


def find_exact_copies(gains: Sequence[float], exact: Sequence[float]) -> list[float]:
    """The number of exact copies with the same gain; the curve of exact copies is made
    non-decreasing first, and goes on beyond its ends with the slope of its whole."""
    curve, levels = np.maximum.accumulate(exact), np.log2(COUNTS)
    slope = (levels[-1] - levels[0]) / max(curve[-1] - curve[0], 1e-9)
    # np.interp needs rising points; of equal ones the first counts
    rising = [0, *(at for at in range(1, len(curve)) if curve[at] > curve[at - 1])]
    asked = np.asarray(gains, np.float64)
    found = np.interp(asked, curve[rising], levels[rising])
    found += np.minimum(asked - curve[0], 0) * slope + np.maximum(asked - curve[-1], 0) * slope
    return [float(one) for one in np.exp2(found)]


def average_by_count(values: F64) -> list[float]:
    """Means over [seeds, addresses] for each count."""
    return [float(one) for one in values.reshape(len(values), len(COUNTS), -1).mean(axis=(0, 2))]


def summarize(advantages: Mapping[str, F64], ranks: Mapping[str, F64]) -> list[dict[str, Any]]:
    """One row for each count of more than one copy: means by corpus, and what a variant is worth
    with its interval. Arrays are [seeds, addresses]."""

    def measure_worth(chosen: Mapping[str, F64]) -> F64:
        means = {name: np.array(average_by_count(one)) for name, one in chosen.items()}
        gains = {name: one - one[0] for name, one in means.items()}
        variants, unrelated = (
            np.array(find_exact_copies(gains[name], gains["exact"])) for name in ("rmft", "once")
        )
        counts = np.array(COUNTS)
        return np.asarray((variants - unrelated)[1:] / (counts[1:] - 1), np.float64)

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
        f"{result['date']}, seeds {', '.join(map(str, result['seeds']))}; {EACH} addresses of each"
        " count and seed.",
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


def main() -> None:
    options = runner.build_parser(__doc__, repeat=4).parse_args()
    seeds = list(range(options.repeat))
    by_seed = [runner.run_in_subprocess(measure_seed, seed) for seed in seeds]
    advantages, ranks = (
        {name: np.array([one[name][part] for one in by_seed]) for name in CORPORA}
        for part in (0, 1)
    )
    result = runner.start_result("torch", "transformers", seeds=seeds, epochs=EPOCHS)
    result["rows"] = summarize(advantages, ranks)
    runner.save_result(options.results, "fuzzy_copies", result, format_page(result))


if __name__ == "__main__":
    main()
