"""Recollect and Rank: does a model that repeats a masked text reproduce the masked values, and does
ranking by losses select them?

A small base model is trained on public generated texts only: to copy, to repeat a masked text
without its labels, and to do so with texts that it has memorized. Victims are tuned from it on a
few private records (plain text, never a masked pair), beside some of the public ones, since a model
this small forgets its training, unlike a large one. The records are masked by `redact` with
numbered labels, and attacked: by R.R. with all criteria, and by earlier attacks. Controls are
records that no model was trained on, and the base as victim. b and the temperature are chosen on
public texts alone, on which the base was trained like a victim on its records. Other victims are
tuned on records sanitized by a plan, or with another loss. A record has three consecutive values:
`by_place` reports which of them are found.

Sizes `real` and `gpu` with `--model` teach a pretrained model on public pairs of a masked text and
the text, and tune the victim from it. With `--dir` every training and attack is kept there, so that
the same command continues:

    python benchmarks/papers/recollect_rank.py --size real --model models/smollm2-135m --dir
    papers.private/recollect
"""

from __future__ import annotations

import argparse
import functools
import math
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

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
from benchmarks.papers_records import records
from sanitize import train
from sanitize.errors import InputRefused, UsageError
from sanitize.eval import recollect_and_rank as rr
from sanitize.eval.language_model import LanguageModel
from sanitize.eval.leak_statistics import share_with_interval
from sanitize.eval.metrics import reconstruction as metric
from sanitize.eval.recollect_and_rank import AttackSettings, MaskedRecords
from sanitize.eval.run_folder import RunFolder
from sanitize.eval.texts_and_prompts import read_texts
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.train.corpus_reader import read_documents
from sanitize.train.model import train_tokenizer

WHOLE, DIRECT = "Masked {text}\n", "Masked {text}\n{key}:"
CAUSAL = {"use": "causal"}
# name -> plan, objective; all are tuned from the same base, on the same records
VICTIMS: dict[str, tuple[str, dict[str, Any]]] = {
    "baseline": ("baseline", CAUSAL),
    "rmft": ("rmft", CAUSAL),
    "surrogates": ("surrogates", CAUSAL),
    "goldfish": ("baseline", {"use": "goldfish", "k": 4, "h": 4}),
    "ngram_penalty": ("baseline", {"use": "ngram_penalty", "lam": 10.0, "tau": 0.02}),
}
SMALL = (
    "; a model this small says most values when it repeats a text, "
    "but hardly tells them apart by the few words of a segment, which is what ranks"
)
# the paper's, and one for models whose words are less certain than those of one ten thousand times
# as large
TEMPERATURES = (
    1.2,
    0.8,
)
FEW = 8  # rows per step when texts are to be memorized: that depends on the number of steps
LAYOUTS = 6  # one of this many prompts is DirectPrompt's, the others repeat


@dataclass(frozen=True, kw_only=True)
class Size:
    """Sizes of data, models and trainings."""

    public: int  # texts that the base is trained to repeat, each once
    copies: int  # lists of words that it learns to copy first
    known: int  # public texts that it memorizes, and repeats from their masked form
    shadow: int  # public texts that it only memorizes, like a victim its records
    private: int
    exposures: int  # how often a victim reads each private record
    seeds: int
    victims: tuple[str, ...]  # attacked beside the baseline, at the first seed
    queries: int = 40
    layers: int = 2
    width: int = 64
    heads: int = 2
    vocab: int = 1024
    context: int = 160
    lr: float = 5e-3
    device: str = "cpu"
    # rows of a step; logits of a vocabulary of 49,152 take 150 MB for four rows of 192 tokens, and
    # as much twice again
    batch: int = 16
    few: int = FEW  # the same when texts are to be memorized
    top_layers: int | None = None  # layers that are trained, from the top; None: all
    untrained: int | None = None  # records of the controls; None: as many as private ones
    # how often the base reads a known text in its masked form and as text, and how often a victim
    # does so beside its records
    known_lessons: int = 10
    known_texts: int = 45
    replayed_lessons: int = 5
    replayed_texts: int = 10
    replayed_pairs: int = 2  # public pairs beside each known text


# with `--model`: texts that teach to repeat, each once, and records that are read a few times.
# About 340 keys: three values a record
PRETRAINED_SIZES = {
    "real": Size(
        public=400,
        copies=0,
        known=24,
        shadow=24,
        private=100,
        exposures=6,
        seeds=3,
        victims=(),
        context=192,
        lr=2e-4,
        batch=4,
        few=4,
        top_layers=10,
        untrained=24,
        known_lessons=2,
        known_texts=6,
        replayed_lessons=1,
        replayed_texts=2,
        replayed_pairs=4,
    ),
    "gpu": Size(
        public=4_000,
        copies=0,
        known=400,
        shadow=200,
        private=1_000,
        exposures=6,
        seeds=3,
        victims=("rmft", "surrogates", "goldfish"),
        context=512,
        lr=2e-5,
        untrained=200,
        known_lessons=2,
        known_texts=6,
        replayed_lessons=1,
        replayed_texts=2,
        replayed_pairs=4,
        device="cuda",
    ),
}
SIZES = {
    "ci": Size(
        public=9_000,
        copies=9_000,
        known=40,
        shadow=24,
        private=24,
        exposures=90,
        seeds=2,
        victims=("surrogates", "goldfish"),
    ),
    "cpu": Size(
        public=12_000,
        copies=12_000,
        known=48,
        shadow=32,
        private=32,
        exposures=90,
        seeds=3,
        victims=("rmft", "surrogates", "goldfish", "ngram_penalty"),
    ),
    # written for one GPU with about 140 GiB; not run where this was made
    "gpu": Size(
        public=400_000,
        copies=100_000,
        known=4_000,
        shadow=1_000,
        private=2_000,
        exposures=60,
        seeds=1,
        layers=8,
        width=512,
        heads=8,
        vocab=4096,
        context=256,
        lr=5e-4,
        device="cuda",
        victims=("rmft", "surrogates", "goldfish", "ngram_penalty"),
    ),
}


@dataclass(frozen=True, repr=False)
class MaskedCorpus:
    """A set of texts: raw, and masked with the values of their labels; a text without a label is
    not in `records`."""

    raw: Path
    masked: Path
    work: Path

    @classmethod
    def create(cls, folder: Path, table: pa.Table, seed: int) -> MaskedCorpus:
        """Write the texts, and mask them by `redact` with numbered labels."""
        created = cls(folder / "raw", folder / "masked", folder / "work")
        if (created.masked / "manifest.json").is_file():
            return created
        created.raw.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, created.raw / "texts.parquet")
        plan = load_plan("redact", ("edit.0.label=numbered",))
        run_with_settings(
            [created.raw],
            created.masked,
            plan,
            created.work,
            Settings(seed=seed, workers=1, replace=True),
        )
        return created

    @property
    def records(self) -> MaskedRecords:
        """The masked records to attack."""
        return MaskedRecords.read(self.masked, self.work)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Each text in its masked form and as it is."""
        return list(zip(read_texts(self.masked).texts, read_texts(self.raw).texts, strict=True))


def build_corpus(
    size: Size, seed: int, data: Path | None, names: Mapping[str, int]
) -> dict[str, pa.Table]:
    """Texts by name: generated, or drawn from the user's own by `doc_id`, those that fit twice into
    the model's context."""
    if data is None:
        return {name: records(count, seed=seed, name=name) for name, count in names.items()}
    table = read_documents(data).table.select(["doc_id", "text"])
    table = table.filter(
        pa.array([0 < len(text) < 2 * size.context for text in table["text"].to_pylist()])
    )
    shares = {name: 1 / len(names) for name in names}
    return {
        name: one.slice(0, names[name])
        for name, one in split_documents(table, seed, shares).items()
    }


def write_lessons(folder: Path, rows: Sequence[tuple[str, str]]) -> Path:
    """Prompts and answers as a folder of documents."""
    folder.mkdir(parents=True, exist_ok=True)
    prompts, texts = zip(*rows, strict=True)
    table = pa.table(
        {
            "doc_id": [str(number) for number in range(len(rows))],
            "prompt": list(prompts),
            "text": list(texts),
        }
    )
    pq.write_table(table, folder / "lessons.parquet")
    return folder


def tune_model(
    out: Path,
    data: Path,
    start: Path,
    size: Size,
    seed: int,
    lr: float,
    objective: Mapping[str, Any] = CAUSAL,
    batch: int | None = None,
) -> Path:
    """One pass over lessons, from a checkpoint; the final one."""
    recipe = {
        "data": {
            "path": str(data),
            "layout": "document",
            "overlong": "cut",
            "prompt_columns": ["prompt"],
            "answers_only": True,
        },
        "model": {
            "path": str(start),
            "context": size.context,
            **({"top_layers": size.top_layers} if size.top_layers else {}),
        },
        "objective": dict(objective),
        "run": {
            "seed": seed,
            "epochs": 1,
            "batch": batch or size.batch,
            "lr": lr,
            "checkpoint_every": 0,
            "device": size.device,
            "schedule": "linear",
            "warmup": 0.05,
        },
    }
    train.fit(recipe, out)
    return RunFolder.open(out).final_checkpoint.path


def write_untrained_model(folder: Path, texts: Sequence[str], size: Size) -> Path:
    """A GPT-NeoX with random weights and a tokenizer of the public texts, as a local checkpoint."""
    import torch
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    tokenizer = train_tokenizer(texts, vocab_size=size.vocab, context_length=size.context)
    torch.manual_seed(0)
    config = GPTNeoXConfig(
        # the published 0.02 is for models twenty times as wide; with it a model this narrow does
        # not learn to copy
        initializer_range=size.width**-0.5,
        vocab_size=len(tokenizer),
        hidden_size=size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=4 * size.width,
        max_position_embeddings=size.context,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        use_parallel_residual=False,
        # one matrix for input and output embeddings: copying then needs no mapping between two,
        # learned word by word
        tie_word_embeddings=True,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "partial_rotary_factor": 1.0,
        },
    )
    GPTNeoXForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@dataclass(frozen=True, repr=False)
class BaseModels:
    """The public models: `taught` to repeat, and `final`, which has also memorized some public
    texts; those of them that it was never trained to repeat (`shadow`), and training rows of the
    others (`replay`)."""

    taught: Path
    final: Path
    shadow: MaskedCorpus
    replay: list[tuple[str, str]]


def train_to_copy(folder: Path, size: Size, pairs: Sequence[tuple[str, str]]) -> Path:
    """A model from scratch that copies lists of words."""
    start = write_untrained_model(
        folder / "untrained", [text for pair in pairs[:4_000] for text in pair], size
    )
    draws = np.random.default_rng(0)
    words = sorted(
        {word for _, text in pairs[:1_000] for word in text.split(" ") if word.isalpha()}
    )
    lists = [
        " ".join(words[place] for place in draws.integers(len(words), size=draws.integers(3, 13)))
        for _ in range(size.copies)
    ]
    # what the texts begin with, so that lists look like them
    first_word = pairs[0][1].partition(" ")[0]
    lists = [f"{first_word} {one}" for one in lists]
    return tune_model(
        folder / "copying",
        write_lessons(folder / "lists", [(f"Masked {one}", one) for one in lists]),
        start,
        size,
        0,
        size.lr,
    )


def train_base_models(
    folder: Path, size: Size, data: Path | None, pretrained: Path | None
) -> BaseModels:
    """Train a model on public texts: lists of words (a pretrained one needs none), masked texts,
    and texts to memorize."""
    tables = build_corpus(
        size, 0, data, {"public": size.public, "known": size.known, "shadow": size.shadow}
    )
    public, known, shadow = (
        MaskedCorpus.create(folder / name, table, 0) for name, table in tables.items()
    )
    pairs = public.pairs
    start = pretrained or train_to_copy(folder, size, pairs)
    found, answers = public.records, {}
    for text_no, label, truths in found.keys.select("text_no", "label", "truths").iter_rows():
        answers.setdefault(found.texts[text_no], []).append((label, truths[0]))
    rows = []
    for number, (masked, text) in enumerate(pairs):
        label_values = answers.get(masked)
        if number % LAYOUTS == 0 and label_values:
            label, value = label_values[number % len(label_values)]
            rows.append((f"Masked {rr.find_sentences_around(masked, label)}", f"{label}: {value}"))
        else:
            rows.append(("" if number % LAYOUTS == 1 else f"Masked {masked}", text))
    taught = tune_model(
        folder / "taught", write_lessons(folder / "pairs", rows), start, size, 0, size.lr
    )
    known_lessons = [(f"Masked {masked}", text) for masked, text in known.pairs]
    known_texts = [("", text) for _, text in known_lessons]
    shadow_texts = [("", text) for _, text in shadow.pairs]
    memorized_rows = (
        known_lessons * size.known_lessons
        + (known_texts + shadow_texts) * size.known_texts
        + rows[: size.known * 8]
    )
    final = tune_model(
        folder / "final",
        write_lessons(folder / "heart", memorized_rows),
        taught,
        size,
        0,
        size.lr,
        batch=size.few,
    )
    replayed = (
        known_lessons * size.replayed_lessons
        + known_texts * size.replayed_texts
        + rows[: size.known * size.replayed_pairs]
    )
    return BaseModels(taught, final, shadow, replayed)


def load_or_compute(file: Path, compute: Callable[[], pl.DataFrame]) -> pl.DataFrame:
    """The table in a file, computed and written if it is not there."""
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        compute().write_parquet(file.with_suffix(".tmp"))
        file.with_suffix(".tmp").rename(file)
    return pl.read_parquet(file)


@dataclass(frozen=True, repr=False)
class AttackResult:
    """Tables of one attack: keys, candidates with their correctness, losses."""

    keys: pl.DataFrame
    worth: pl.DataFrame
    losses: pl.DataFrame

    @classmethod
    def run(
        cls,
        folder: Path,
        victim: LanguageModel,
        reference: LanguageModel,
        found: MaskedRecords,
        attack: AttackSettings,
    ) -> AttackResult:
        """Recollect, and score all candidates; each step is kept in `folder`, which is private."""
        candidates = load_or_compute(
            folder / "candidates.parquet", lambda: rr.recollect_candidates(victim, found, attack)
        )
        losses = load_or_compute(
            folder / "losses.parquet",
            lambda: rr.compute_candidate_losses(victim, reference, found, candidates, attack),
        )
        return cls(found.keys, rr.judge_candidates(found, candidates), losses)

    @classmethod
    def concatenate(cls, results: Sequence[AttackResult]) -> AttackResult:
        """The attacks of several seeds as one; keys are numbered through."""
        first = np.cumsum([0, *(one.keys.height for one in results)])
        parts = []
        for name in ("keys", "worth", "losses"):
            tables = [
                getattr(one, name).with_columns(pl.col("key") + int(add))
                for one, add in zip(results, first, strict=False)
            ]
            parts.append(pl.concat(tables))
        return cls(*parts)

    def top1(self, criterion: str, b: float = 1.0) -> float:
        """Accuracy of the first candidate."""
        return rr.answer_accuracy(
            rr.select_answers(self.keys, self.worth, rr.rank_candidates(self.losses, criterion, b))
        )

    def top1s(self, b: float) -> dict[str, float]:
        """The same by each criterion, those of the paper first."""
        return {name: self.top1(name, b) for name in (*rr.CRITERIA, *rr.VOTE_CRITERIA)}

    def recall(self, queries: int) -> float:
        """The share of keys whose value was generated in the first `queries` queries."""
        return rr.recall_after_queries(self.keys, self.worth, queries)


@dataclass(frozen=True, repr=False)
class SeedResult:
    """Results of one seed: by victim, of the controls, and of the earlier attacks on the
    baseline."""

    victims: dict[str, AttackResult]
    strangers: AttackResult
    as_victim: AttackResult
    before: pl.DataFrame  # by key, of `metric.run_baselines_by_key`

    @property
    def accuracies(self) -> dict[str, float]:
        """The earlier attacks: the share of keys that each gives."""
        return {name: float(np.mean(self.before[name].to_numpy())) for name in metric.BASELINES}


def run_seed(
    folder: Path,
    size: Size,
    seed: int,
    data: Path | None,
    public: BaseModels,
    attack: AttackSettings,
    names: Sequence[str],
) -> SeedResult:
    """Tune and attack the victims of one set of private records."""
    tables = build_corpus(
        size, seed + 1, data, {"private": size.private, "strangers": size.untrained or size.private}
    )
    private, strangers = (
        MaskedCorpus.create(folder / name, table, seed) for name, table in tables.items()
    )
    found, reference = private.records, LanguageModel.load(public.final, size.device)
    victims: dict[str, AttackResult] = {}
    before, strangers_result = None, None
    for name in names:
        plan, objective = VICTIMS[name]
        shards = folder / "plans" / plan
        if not (shards / "manifest.json").is_file():
            settings = Settings(seed=seed, workers=1, replace=True)
            run_with_settings(
                [private.raw], shards, load_plan(plan), folder / "plans.private", settings
            )
        rows = [("", text) for text in read_texts(shards).texts] * size.exposures + public.replay
        path = tune_model(
            folder / "runs" / name,
            write_lessons(folder / "lessons" / name, rows),
            public.final,
            size,
            seed,
            0.8 * size.lr,
            objective,
            size.few,
        )
        victim = LanguageModel.load(path, size.device)
        attacks = folder / "attacks" / name
        victims[name] = AttackResult.run(attacks, victim, reference, found, attack)
        if name == "baseline":
            before = load_or_compute(
                attacks / "before.parquet",
                functools.partial(metric.run_baselines_by_key, victim, found, attack),
            )
            strangers_result = AttackResult.run(
                folder / "attacks" / "strangers", victim, reference, strangers.records, attack
            )
    assert strangers_result is not None and before is not None, "the baseline is among the victims"
    attacked = (
        found
        if size.untrained is None
        else MaskedCorpus.create(
            folder / "as_victim", tables["private"].slice(0, size.untrained), seed
        ).records
    )
    as_victim = AttackResult.run(
        folder / "attacks" / "reference", reference, reference, attacked, attack
    )
    return SeedResult(victims, strangers_result, as_victim, before)


@dataclass(frozen=True, repr=False)
class KeyHits:
    """Which keys of a seed each criterion and attack gives, [keys], and the record of each key."""

    record: np.ndarray[Any, Any]
    hits: Mapping[str, np.ndarray[Any, Any]]

    @classmethod
    def of(cls, seed: SeedResult, attack: AttackSettings) -> KeyHits:
        """The hits of R.R. by each criterion and after all and a quarter of the queries, and those
        of the earlier attacks."""
        one, hits = seed.victims["baseline"], {}
        for name in (*rr.CRITERIA, *rr.VOTE_CRITERIA):
            hits[name] = rr.select_answers(
                one.keys, one.worth, rr.rank_candidates(one.losses, name, attack.b)
            )["hit"].to_numpy()
        for name, queries in (
            ("recall", attack.queries),
            ("recall_quarter", max(1, attack.queries // 4)),
        ):
            right = one.worth.filter(pl.col("hit") & (pl.col("query") < queries))["key"].unique()
            hits[name] = one.keys["key"].is_in(right.to_list()).to_numpy()
        return cls(
            one.keys["text_no"].to_numpy(),
            hits | {name: seed.before[name].to_numpy() for name in metric.BASELINES},
        )

    def draw(self, generator: np.random.Generator) -> KeyHits:
        """The keys of as many records, drawn with replacement."""
        keys_of = [np.flatnonzero(self.record == record) for record in np.unique(self.record)]
        rows = np.concatenate(
            [keys_of[number] for number in generator.integers(len(keys_of), size=len(keys_of))]
        )
        return KeyHits(self.record[rows], {name: hit[rows] for name, hit in self.hits.items()})


def compute_values(seeds: Sequence[KeyHits]) -> dict[str, float]:
    """The value of each criterion that compares attacks, keys of all seeds counted together."""
    share = {
        name: float(np.concatenate([seed.hits[name] for seed in seeds]).mean())
        for name in seeds[0].hits
    }
    least = 1 / sum(len(seed.record) for seed in seeds)  # one key: a floor for denominators
    best = max(share[name] for name in ("direct", "tab", "p2p"))
    best_with_votes = max(best, share["p2p_votes"], least)
    return {
        "top1_ratio": share["biased"] / max(best, least),
        "top1_ratio_votes": share["votes"] / best_with_votes,
        "top1_ratio_votes_subtract": share["votes_subtract"] / best_with_votes,
        "partial_vs_vanilla": share["partial"] - share["vanilla"],
        "recall_grows": share["recall"] - share["recall_quarter"],
        "recall_over_top1": share["recall"] - share["biased"],
        "recall_ratio": share["recall"] / max(share["p2p_recall"], least),
        "biased_vs_best": share["biased"] - max(share["partial"], share["ratio"]),
        "subtract_vs_partial": share["subtract"] - share["partial"],
    }


def compute_intervals(seeds: Sequence[KeyHits]) -> dict[str, Interval]:
    """Bootstrap over records (their keys are found together), and over seeds where there are
    several."""

    def resample(generator: np.random.Generator) -> dict[str, float]:
        drawn = generator.integers(len(seeds), size=len(seeds)) if len(seeds) > 1 else [0]
        return compute_values([seeds[number].draw(generator) for number in drawn])

    right = {name: sum(int(seed.hits[name].sum()) for seed in seeds) for name in seeds[0].hits}
    best = max(("direct", "tab", "p2p"), key=right.__getitem__)
    events = {
        "partial_vs_vanilla": right["partial"] + right["vanilla"],
        "recall_grows": right["recall"],
        "recall_over_top1": right["recall"],
        "biased_vs_best": right["biased"] + right["partial"],
        "subtract_vs_partial": right["subtract"] + right["partial"],
    }
    spread = (
        f"records within {len(seeds)} seeds, and the seeds"
        if len(seeds) > 1
        else "records of one seed; not between trainings"
    )
    found = bootstrap_intervals(resample, method=f"bootstrap over {spread}", events=events)
    keys = float(sum(len(seed.record) for seed in seeds))
    best_with_votes = max(right[best], right["p2p_votes"])
    for name, given, before in (
        ("top1_ratio", "biased", right[best]),
        ("top1_ratio_votes", "votes", best_with_votes),
        ("top1_ratio_votes_subtract", "votes_subtract", best_with_votes),
        ("recall_ratio", "recall", right["p2p_recall"]),
    ):
        low, high = compute_ratio_bounds(right[given], before)
        found[name] = widen_interval(
            found.get(name), low, high, events=right[given] + before, least=0.0, most=keys
        )
    return found


def share_interval(result: AttackResult, value: float) -> Interval:
    """Wilson's interval of a share of keys."""
    right = round(value * result.keys.height)
    share = share_with_interval(right, result.keys.height)
    return Interval(
        low=share["low"],
        high=share["high"],
        events=right,
        method=f"Wilson's interval of {result.keys.height} keys",
    )


def criteria(
    seeds: Sequence[SeedResult], attack: AttackSettings, size: str
) -> dict[str, Criterion]:
    """The paper's comparisons over all seeds, keys counted together."""
    baseline = AttackResult.concatenate([seed.victims["baseline"] for seed in seeds])
    hits = [KeyHits.of(seed, attack) for seed in seeds]
    values = compute_values(hits)
    weight = [seed.victims["baseline"].keys.height for seed in seeds]
    before = {
        name: float(np.average([seed.accuracies[name] for seed in seeds], weights=weight))
        for name in metric.BASELINES
    }
    top1 = baseline.top1s(attack.b)
    strangers, as_victim = (
        AttackResult.concatenate([getattr(seed, name) for seed in seeds])
        for name in ("strangers", "as_victim")
    )
    # the attack is behind there; `ci`, which must pass, reports it only, and `cpu` fails by it
    small = size in ("ci", "cpu")
    guessed = {
        "top1_strangers": strangers.top1("biased", attack.b),
        "top1_reference_as_victim": as_victim.top1("partial"),
    }
    found = {
        "top1_ratio": Criterion(
            value=values["top1_ratio"],
            paper=2.1,
            threshold=1.5,
            headline=size != "ci",
            note=f"the paper's main claim; over the best attack before it (direct {before['direct']:.3f}, TAB {before['tab']:.3f}, P2P "  # noqa: E501
            f"{before['p2p']:.3f}; floor in the denominator: one key){SMALL if small else ''}",
        ),
        "top1_ratio_votes": Criterion(
            value=values["top1_ratio_votes"],
            paper="not measured",
            threshold=1.5,
            headline=False,
            note="not the paper's criterion: the candidate that most queries said; over the best attack before it, where P2P may go by "  # noqa: E501
            f"votes as well ({before['p2p_votes']:.2f})",
        ),
        "top1_ratio_votes_subtract": Criterion(
            value=values["top1_ratio_votes_subtract"],
            paper="not measured",
            threshold=1.5,
            headline=False,
            note="not the paper's criterion: ln(votes) and the calibrated loss together; over the same",  # noqa: E501
        ),
        "partial_vs_vanilla": Criterion(
            value=values["partial_vs_vanilla"],
            paper=0.0070,
            threshold=-0.01,
            # there one value is more than the threshold, and the processor decides about it
            headline=size != "ci",
        ),
        "recall_grows": Criterion(
            value=values["recall_grows"],
            paper="grows up to 50 queries",
            threshold=0.02,
            note="recall of all queries less that of the first quarter of them",
        ),
        "recall_over_top1": Criterion(
            value=values["recall_over_top1"], paper="always", threshold=0.0
        ),
        "recall_ratio": Criterion(
            value=values["recall_ratio"],
            paper="above TAB's",
            threshold=1.0,
            headline=False,
            note="values that R.R. says at all, over those that 64 continuations of the true prefix say",  # noqa: E501
        ),
        "biased_vs_best": Criterion(
            value=values["biased_vs_best"],
            paper=0.0025,
            threshold=-0.01,
            headline=False,
            note="b is chosen on public texts that the base knows; records of two dozen people are no other model to calibrate by",  # noqa: E501
        ),
        "subtract_vs_partial": Criterion(
            value=values["subtract_vs_partial"],
            paper=-0.0746,
            threshold=0.0,
            above=False,
            headline=False,
            note="where victims are tuned beside public texts, these are candidates too, and only the reference tells them apart",  # noqa: E501
        ),
        "top1_strangers": Criterion(
            value=guessed["top1_strangers"],
            paper="not measured",
            threshold=0.02,
            above=False,
            headline=False,
            interval=share_interval(strangers, guessed["top1_strangers"]),
            note="records that nobody was trained on: what is right there was guessed",
        ),
        "top1_reference_as_victim": Criterion(
            value=guessed["top1_reference_as_victim"],
            paper="not measured",
            threshold=0.02,
            above=False,
            headline=False,
            interval=share_interval(as_victim, guessed["top1_reference_as_victim"]),
        ),
    }
    if not top1["biased"]:
        raise UsageError(
            "R.R. gives no value of the baseline back, so there is nothing to compare; the victims"
            " need more exposures"
        )
    first = seeds[0].victims["baseline"].top1("biased", attack.b)
    for name in seeds[0].victims:
        if name != "baseline":
            found[f"top1_left_{name}"] = Criterion(
                value=seeds[0].victims[name].top1("biased", attack.b) / first if first else 0.0,
                paper="not measured",
                threshold=0.5,
                above=False,
                headline=False,
                note="of the baseline's top-1 accuracy at the first seed",
            )
    return with_intervals(found, compute_intervals(hits))


def result_tables(
    seeds: Sequence[SeedResult], attack: AttackSettings, curve: Sequence[tuple[float, float]]
) -> dict[str, list[dict[str, Any]]]:
    """The tables reported with the criteria."""
    baseline = AttackResult.concatenate([seed.victims["baseline"] for seed in seeds])
    summary = metric.summarize_attack(baseline.keys, baseline.worth, baseline.losses, attack)
    attacked = {
        name: [seed.victims[name] for seed in seeds if name in seed.victims]
        for name in seeds[0].victims
    }
    attacked |= {
        "strangers": [seed.strangers for seed in seeds],
        "reference as victim": [seed.as_victim for seed in seeds],
    }
    rows = []
    for name, several in attacked.items():
        one = AttackResult.concatenate(several)
        rows.append(
            {
                "victim": name,
                "keys": one.keys.height,
                "recall": one.recall(attack.queries),
                **one.top1s(attack.b),
            }
        )
    return {
        "victims": rows,
        "baselines": [{"seed": number, **seed.accuracies} for number, seed in enumerate(seeds)],
        "chosen": [
            {"b": None if math.isinf(attack.b) else attack.b, "temperature": attack.temperature}
        ],
        "by_place": place_rows(seeds, attack),
        "b_on_public": metric.tabulate_by_b(curve),
        **{
            name: summary[name]
            for name in (
                "by_b",
                "by_kind",
                "by_words",
                "by_occurrences",
                "recall_by_queries",
                "recall_at",
            )
        },
    }


def place_rows(seeds: Sequence[SeedResult], attack: AttackSettings) -> list[dict[str, Any]]:
    """Right answers by the place of a value among those of its record: attacks that continue a
    prefix have only the first one's."""
    found = []
    for seed in seeds:
        baseline = seed.victims["baseline"]
        answers = rr.select_answers(
            baseline.keys, baseline.worth, rr.rank_candidates(baseline.losses, "biased", attack.b)
        )
        found.append(answers.with_columns(place=pl.int_range(pl.len()).over("text_no")))
    rows = (
        pl.concat(found)
        .group_by("place")
        .agg(keys=pl.len(), right=pl.col("hit").sum())
        .sort("place")
    )
    return rows.to_dicts()


def choose_size(arguments: argparse.Namespace) -> Size:
    """The sizes of the options; UsageError or InputRefused for a model without its size, or a size
    without its model."""
    if arguments.model is None:
        if arguments.size == "real":
            raise UsageError(
                "--size real needs a pretrained causal model: --model PATH; `make model` writes one"
                " to models/smollm2-135m"
            )
        return SIZES[arguments.size]
    if arguments.size not in PRETRAINED_SIZES:
        raise UsageError(
            f"--model with --size {arguments.size}: expected --size {' or '.join(PRETRAINED_SIZES)}"
        )
    if not (arguments.model / "config.json").is_file():
        raise InputRefused(
            f"--model {arguments.model}: no model in Hugging Face layout; `make model` writes one"
            " to models/smollm2-135m"
        )
    size = PRETRAINED_SIZES[arguments.size]
    # own texts, such as mails, are longer than the invented records
    return size if arguments.data is None else replace(size, context=2 * size.context)


def main(argv: Sequence[str] | None = None) -> int:
    """Run all seeds of a size and print the criteria."""
    arguments = make_parser(
        __doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    ).parse_args(argv)
    size, began = choose_size(arguments), time.perf_counter()
    import torch

    if size.device == "cpu":
        torch.set_num_threads(1)  # two threads on two busy cores slow each other down
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(arguments.dir or scratch)
        data = read_own_corpus(arguments, folder)
        public = train_base_models(folder / "base", size, data, arguments.model)
        attack = AttackSettings(
            queries=size.queries,
            new_tokens=size.context // 2 - 8,
            whole_prompt=WHOLE,
            direct_prompt=DIRECT,
            empty_prompt="",
        )
        # the shadow: the base before and after it learned the known texts; all of it is public
        shadow, before = (
            LanguageModel.load(public.final, size.device),
            LanguageModel.load(public.taught, size.device),
        )

        def compute_curve(heat: float) -> pl.DataFrame:
            pairs = metric.compute_b_curve(
                shadow, before, public.shadow.records, rr.replace_settings(attack, temperature=heat)
            )
            return pl.DataFrame(pairs, schema={"b": pl.Float64, "share": pl.Float64}, orient="row")

        curves = {
            heat: (
                load_or_compute(
                    folder / "attacks" / f"shadow-{heat:g}.parquet",
                    functools.partial(compute_curve, heat),
                ).rows()
            )
            for heat in TEMPERATURES
        }
        # the paper's, where both are as good
        heat = max(curves, key=lambda heat: max(share for _, share in curves[heat]))
        curve = curves[heat]
        attack = rr.replace_settings(attack, temperature=heat, b=rr.choose_best_b(curve))
        seeds = [
            run_seed(
                folder / f"seed-{seed}",
                size,
                seed,
                data,
                public,
                attack,
                ("baseline", *(size.victims if not seed else ())),
            )
            for seed in range(arguments.seeds or size.seeds)
        ]
    model = (
        f"{size.layers} layers of width {size.width} from scratch"
        if arguments.model is None
        else arguments.model.name
    )
    scaled = (
        f"{model}, taught on {size.public} {'invented' if data is None else 'own'} public texts;"
        f" {size.private} private records a seed, read {size.exposures} times, {len(seeds)}"
        f" seed{'s' if len(seeds) > 1 else ''}. The paper attacks models of 3 to 8 billion"
        " parameters, tuned on 4,000 texts for 3 epochs."
        + (
            " The seconds are those of the last call: trainings and attacks of earlier ones were"
            " kept."
            if arguments.dir
            else ""
        )
    )
    return report_criteria(
        "recollect_rank",
        arguments,
        criteria(seeds, attack, arguments.size),
        tables=result_tables(seeds, attack, curve),
        scaled=scaled,
        seconds=time.perf_counter() - began,
    )


if __name__ == "__main__":
    run_script(main)
