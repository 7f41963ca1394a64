"""Early detection and reduction of memorization: does a partial score predict verbatim
memorization, and which techniques reduce it?

A small model with rotary positions, as the paper's have, reads public tickets and is then
fine-tuned on a few private ones: plainly, with Goldfish's loss, and with the n-gram penalty. At
each checkpoint the same place of every private ticket is probed (k = 12, 16, 20), and held-out
tickets give the validation perplexity and the accuracy of the task. Early stopping: the plain run
at the checkpoint where the n-gram rule stops it.

Sizes `real` and `gpu` with `--model` use a pretrained model on real mail, and the trainings of
`rmft.py` on the raw mails:

    python benchmarks/papers/early_detection.py --size real --model models/smollm2-135m --data
    MAILS.parquet --text-column raw
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import pyarrow as pa
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
from benchmarks.papers_texts import QUESTION, tickets
from benchmarks.pretrained_runs import Cell, PretrainedRuns
from sanitize import train
from sanitize.errors import UsageError
from sanitize.eval.language_model import LanguageModel
from sanitize.eval.leak_statistics import share_with_interval
from sanitize.eval.metrics import ngram, task, verbatim
from sanitize.eval.run_folder import RunFolder
from sanitize.train.corpus_reader import read_documents
from sanitize.train.model import train_tokenizer

LABELS = ("high", "medium", "low")
TECHNIQUES: dict[str, dict[str, Any]] = {
    "base": {"use": "causal"},
    "goldfish": {"use": "goldfish", "k": 4, "h": 4},
    "ngram_penalty": {"use": "ngram_penalty", "lam": 10.0, "tau": 0.02},
}

# name of a run here -> its cell of `pretrained_runs`
CELLS = {
    "base": "baseline",
    "goldfish": "goldfish",
    "ngram_penalty": "ngram_penalty",
    "top_layer": "top_layers",
}
# at which a pretrained model overfits later, so that memorization can come before the best
# perplexity
LOWER_RATES = (1e-4,)
PRECURSOR_RESAMPLES = 400  # each draw makes the precursor tables again: 15 ms


@dataclass(frozen=True, kw_only=True)
class Size:
    """Sizes of data, models and trainings."""

    public: int
    private: int
    held: int
    epochs: int
    every: int  # epochs between checkpoints of the plain run
    sparse: int  # of the others
    seeds: int
    layers: int = 2
    width: int = 64
    heads: int = 4
    vocab: int = 512
    context: int = 128
    pretrain_epochs: int = 10
    lr: float = 3e-3
    batch: int = 8
    device: str = "cpu"
    full: bool = False  # other decodings, the top layer alone, instruction tuning


SIZES = {
    "ci": Size(public=300, private=80, held=90, epochs=28, every=2, sparse=7, seeds=2),
    # the texts of `ci`, a seed and three measurements more: twice the texts would not end in ten
    # minutes on a busy machine
    "cpu": Size(
        public=300, private=100, held=120, epochs=28, every=2, sparse=7, seeds=3, full=True
    ),
    "gpu": Size(
        public=100_000,
        private=2_000,
        held=1_000,
        epochs=24,
        every=2,
        sparse=6,
        seeds=3,
        layers=8,
        width=512,
        heads=8,
        vocab=2048,
        pretrain_epochs=1,
        lr=5e-4,
        batch=64,
        device="cuda",
        full=True,
    ),
}


@dataclass(frozen=True, repr=False)
class RunMeasurements:
    """Measurements of a run, by checkpoint. `memorized` and `scores` are [checkpoints, ks, private
    texts]."""

    epochs: list[float]
    memorized: Any
    scores: Any
    perplexity: list[float]
    task: list[float]
    probed: Any  # numbers of the private texts that are long enough

    @property
    def mem(self) -> list[float]:
        """Mem %, the mean over the ks."""
        return [100 * float(one.mean()) for one in self.memorized]

    @property
    def score(self) -> list[float]:
        """The mean n-gram score, over the ks too."""
        return [ngram.mean_score(one) for one in self.scores]

    def take(self, texts: Any) -> RunMeasurements:
        """The same run, measured on these texts, which may repeat."""
        return replace(self, memorized=self.memorized[:, :, texts], scores=self.scores[:, :, texts])


def build_corpus(folder: Path, size: Size, seed: int, data: Path | None) -> dict[str, pa.Table]:
    """Public, private and held-out texts, generated or split from the user's own by `doc_id`;
    written as shards."""
    if data is None:
        tables = {
            name: tickets(getattr(size, name), seed=seed, name=name)
            for name in ("public", "private", "held")
        }
    else:
        table = read_documents(data).table.select(["doc_id", "text"])
        tables = split_documents(table, seed, {"public": 0.5, "private": 0.2, "held": 0.3})
        tables = {name: one.slice(0, getattr(size, name)) for name, one in tables.items()}
    for name, one in tables.items():
        (folder / name).mkdir(parents=True)
        pq.write_table(one, folder / name / "texts.parquet")
    return tables


def write_untrained_model(folder: Path, texts: Sequence[str], size: Size, seed: int) -> Path:
    """A GPT-NeoX (Pythia's architecture) with random weights and a tokenizer of the public texts,
    as a local checkpoint."""
    import torch
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    tokenizer = train_tokenizer(texts, vocab_size=size.vocab, context_length=size.context)
    torch.manual_seed(seed)
    config = GPTNeoXConfig(
        vocab_size=len(tokenizer),
        hidden_size=size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=4 * size.width,
        max_position_embeddings=size.context,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        # rotary positions on all dimensions of a head: Pythia's quarter would be four dimensions of
        # heads this narrow
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "partial_rotary_factor": 1.0,
        },
    )
    GPTNeoXForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_recipe(
    shards: Path,
    start: Path,
    objective: dict[str, Any],
    size: Size,
    seed: int,
    *,
    epochs: int,
    every: float,
    **more: Any,
) -> dict[str, Any]:
    """A recipe for `train.fit`; `more` is of its `[data]` and `[model]`."""
    return {
        "data": {
            "path": str(shards),
            "layout": "document",
            "overlong": "cut",
            **more.get("data", {}),
        },
        "model": {"path": str(start), "context": size.context, **more.get("model", {})},
        "objective": objective,
        "run": {
            "seed": seed,
            "epochs": epochs,
            "batch": size.batch,
            "lr": size.lr,
            "checkpoint_every": every,
            "device": size.device,
            "schedule": "linear" if every == 0 else "constant",
        },
    }


def encode_texts(model: LanguageModel, texts: Sequence[str]) -> list[list[int]]:
    """The tokens of texts that are trained on: long ones are cut (`recipe`), and the last place is
    for the end-of-text token."""
    return [row[: model.context_length - 1] for row in model.encode(texts)]


def measure_run(
    run: RunFolder, tables: dict[str, pa.Table], size: Size, seed: int, *, prompt: bool = False
) -> RunMeasurements:
    """Probe every checkpoint of a run: the private texts for memorization, the held-out ones for
    perplexity and task."""
    texts, ids = tables["private"]["text"].to_pylist(), tables["private"]["doc_id"].to_pylist()
    held = tables["held"]["text"].to_pylist()
    labels = tables["held"]["label"].to_pylist() if "label" in tables["held"].column_names else None
    questions = [text[: text.rindex(QUESTION) + len(QUESTION)] for text in held] if labels else []
    if prompt and labels:
        questions = [
            f"{prompt_text}\n{text}"
            for prompt_text, text in zip(
                tables["held"]["prompt"].to_pylist(), questions, strict=True
            )
        ]
    memorized, scores, perplexity, task_results = [], [], [], []
    for checkpoint in run.checkpoints:
        model = LanguageModel.load(checkpoint.path, size.device)
        probe_points = verbatim.choose_probe_points(encode_texts(model, texts), ids, seed=seed)
        continuations = [
            verbatim.generate_continuations(model, probe_points, k) for k in verbatim.PREFIX_LENGTHS
        ]
        memorized.append(
            np.stack(
                [verbatim.is_memorized(one, probe_points.suffix_tokens) for one in continuations]
            )
        )
        scores.append(
            np.stack([ngram.ngram_scores(one, probe_points.suffix_tokens) for one in continuations])
        )
        losses = np.concatenate(
            model.token_losses([row[: model.context_length] for row in model.encode(held)])
        )
        perplexity.append(float(np.exp(losses.mean())))
        if labels:
            answers = model.decode(model.generate(model.encode(questions), new_tokens=3))
            task_results.append(
                task.accuracy([task.find_label(answer, LABELS) for answer in answers], labels)
            )
        else:
            # a user's texts have no task: the geometric mean of the probability of the right token
            # is used instead
            task_results.append(1 / perplexity[-1])
    return RunMeasurements(
        [one.epoch for one in run.checkpoints],
        np.stack(memorized),
        np.stack(scores),
        perplexity,
        task_results,
        probe_points.text_numbers,
    )


@dataclass(frozen=True, repr=False)
class SeedResult:
    """Measurements of all runs of one seed, and those that only the larger sizes make."""

    measurements: dict[str, RunMeasurements]
    categories: list[str]  # of each probed text
    text_counts: Mapping[str, int]
    decodings: list[dict[str, Any]]


def run_seed(folder: Path, size: Size, seed: int, data: Path | None) -> SeedResult:
    """Pre-train, fine-tune with each technique, and measure each checkpoint."""
    tables = build_corpus(folder, size, seed, data)
    untrained_model = write_untrained_model(
        folder / "untrained", tables["public"]["text"].to_pylist(), size, seed
    )
    train.fit(
        make_recipe(
            folder / "public",
            untrained_model,
            {"use": "causal"},
            size,
            seed,
            epochs=size.pretrain_epochs,
            every=0,
        ),
        folder / "pretrained",
    )
    start = RunFolder.open(folder / "pretrained").final_checkpoint.path

    def train_technique(name: str, objective: dict[str, Any], **more: Any) -> RunFolder:
        every = size.every if name == "base" else size.sparse
        run_recipe = make_recipe(
            folder / "private",
            start,
            objective,
            size,
            seed,
            epochs=size.epochs,
            every=every,
            **more,
        )
        train.fit(run_recipe, folder / name)
        return RunFolder.open(folder / name)

    runs = {name: train_technique(name, objective) for name, objective in TECHNIQUES.items()}
    measurements = {name: measure_run(run, tables, size, seed) for name, run in runs.items()}
    decodings: list[dict[str, Any]] = []
    if size.full:
        measurements["top_layer"] = measure_run(
            train_technique("top_layer", TECHNIQUES["base"], model={"top_layers": 1}),
            tables,
            size,
            seed,
        )
        if "prompt" in tables["private"].column_names:
            data_settings = {"prompt_columns": ("prompt",), "prompts": "include"}
            measurements["instruction"] = measure_run(
                train_technique("instruction", TECHNIQUES["base"], data=data_settings),
                tables,
                size,
                seed,
                prompt=True,
            )
        model = LanguageModel.load(runs["base"].final_checkpoint.path, size.device)
        probe_points = verbatim.choose_probe_points(
            encode_texts(model, tables["private"]["text"].to_pylist()),
            tables["private"]["doc_id"].to_pylist(),
            seed=seed,
        )
        for match in ("exact", "contains"):
            rows = verbatim.tabulate_memorization(
                model, probe_points, modes=("greedy", "beam", "sample"), match=match, seed=seed
            )
            decodings += [{"seed": seed, "match": match, **row} for row in rows]
    text_counts = {name: one.num_rows for name, one in tables.items()}
    return SeedResult(
        measurements,
        categorize_probed(tables["private"], measurements["base"]),
        text_counts,
        decodings,
    )


def tabulate_precursors(base: Sequence[RunMeasurements]) -> list[dict[str, Any]]:
    """Scores before memorization, texts of all seeds side by side, one table a k."""
    return [
        {"k": k, **row}
        for which, k in enumerate(verbatim.PREFIX_LENGTHS)
        for row in ngram.tabulate_precursors(
            np.concatenate([one.scores[:, which] for one in base], axis=1),
            np.concatenate([one.memorized[:, which] for one in base], axis=1),
            epochs=base[0].epochs,
        )
    ]


def list_techniques(seeds: Sequence[Mapping[str, RunMeasurements]]) -> list[str]:
    """The techniques that all seeds have: some only, where the runs of a size are not finished."""
    return [name for name in TECHNIQUES if all(name in seed for seed in seeds)]


def compute_values(seeds: Sequence[Mapping[str, RunMeasurements]]) -> dict[str, float]:
    """The value of each criterion over all seeds; ratios are ratios of means, not a number where
    the plain run has memorized nothing."""
    base = [seed["base"] for seed in seeds]
    stops = [ngram.stop_by_ngram(one.score) for one in base]
    final = float(np.mean([one.mem[-1] for one in base]))
    techniques = list_techniques(seeds)
    mem = {name: float(np.mean([seed[name].mem[-1] for seed in seeds])) for name in techniques}
    mem["early_stop"] = float(
        np.mean([one.mem[stop.evaluation] for one, stop in zip(base, stops, strict=True)])
    )
    best = [max(one.task) for one in base]
    gap = {
        name: float(
            np.mean([1 - seed[name].task[-1] / top for seed, top in zip(seeds, best, strict=True)])
        )
        for name in techniques
    }
    gap["early_stop"] = float(
        np.mean(
            [
                1 - one.task[stop.evaluation] / top
                for one, stop, top in zip(base, stops, best, strict=True)
            ]
        )
    )
    before = tabulate_precursors(base)
    values = {
        "score_precedes": ngram.precursor_ratio(before),
        "score_precedes_never": ngram.precursor_ratio(before, against="never"),
        **{f"{name}_mem": mem[name] / final if final else math.nan for name in mem},
        **{f"eval_gap_{name}": value for name, value in gap.items()},
    }
    first = [int(np.argmax([one_mem > 0 for one_mem in one.mem])) for one in base]
    low = [ngram.stop_by_validation(one.perplexity).evaluation for one in base]
    # a run that memorizes nothing does not do so before its optimum
    early = [any(one.mem) and a < b for one, a, b in zip(base, first, low, strict=True)]
    return {**values, "memorizes_before_optimum": float(np.mean(early))}


def compute_intervals(seeds: Sequence[Mapping[str, RunMeasurements]]) -> dict[str, Interval]:
    """Bootstrap over the probed texts, the same ones of every run of a seed, and over seeds where
    there are several."""
    counts = [len(seed["base"].probed) for seed in seeds]

    def resample(generator: np.random.Generator) -> dict[str, float]:
        drawn = generator.integers(len(seeds), size=len(seeds)) if len(seeds) > 1 else [0]
        texts = [generator.integers(counts[number], size=counts[number]) for number in drawn]
        return compute_values(
            [
                {name: seeds[number][name].take(rows) for name in list_techniques(seeds)}
                for number, rows in zip(drawn, texts, strict=True)
            ]
        )

    def memorized(name: str) -> int:  # texts that are memorized at the end, for any k
        return sum(int(seed[name].memorized[-1].any(0).sum()) for seed in seeds)

    newly = sum(int(seed["base"].memorized.any((0, 1)).sum()) for seed in seeds)
    events = {f"{name}_mem": memorized("base") + memorized(name) for name in list_techniques(seeds)}
    events |= {
        "early_stop_mem": memorized("base"),
        "score_precedes": newly,
        "score_precedes_never": newly,
    }
    spread = "probed texts of one seed; not between trainings"
    if len(seeds) > 1:
        spread = f"probed texts within {len(seeds)} seeds, and the seeds"
    found = bootstrap_intervals(
        resample, method=f"bootstrap over {spread}", events=events, resamples=PRECURSOR_RESAMPLES
    )
    # held-out texts are not drawn again
    found = {name: one for name, one in found.items() if name in events}
    for name in list_techniques(seeds)[1:]:
        low, high = compute_ratio_bounds(memorized(name), memorized("base"))
        found[f"{name}_mem"] = widen_interval(
            found.get(f"{name}_mem"), low, high, events=events[f"{name}_mem"], least=0.0, most=100.0
        )
    stopped = [ngram.stop_by_ngram(seed["base"].score).evaluation for seed in seeds]
    left = sum(
        int(seed["base"].memorized[stop].any(0).sum())
        for seed, stop in zip(seeds, stopped, strict=True)
    )
    low, high = compute_ratio_bounds(left, memorized("base"))
    found["early_stop_mem"] = widen_interval(
        found.get("early_stop_mem"),
        low,
        high,
        events=left + memorized("base"),
        least=0.0,
        most=100.0,
    )
    early = round(compute_values(seeds)["memorizes_before_optimum"] * len(seeds))
    share = share_with_interval(early, len(seeds))
    found["memorizes_before_optimum"] = Interval(
        low=share["low"],
        high=share["high"],
        events=len(seeds),
        method=f"Wilson's interval of {len(seeds)} trainings",
    )
    return found


def criteria(
    seeds: Sequence[SeedResult],
) -> tuple[dict[str, Criterion], dict[str, list[dict[str, Any]]]]:
    """The paper's comparisons over all seeds, and the tables they are read from."""
    base = [seed.measurements["base"] for seed in seeds]
    values = compute_values([seed.measurements for seed in seeds])
    final, score = (
        float(np.mean([getattr(one, what)[-1] for one in base])) for what in ("mem", "score")
    )
    if not final:
        raise UsageError(
            "the plain run has memorized nothing, so there is nothing to reduce; give more --epochs"
            " or fewer --documents"
        )
    found = {
        "score_precedes": Criterion(
            value=values["score_precedes"],
            paper="higher at most epochs",
            threshold=2.0,
            note="median score one evaluation before, over that of texts not memorized by then; weighted by how many come out",  # noqa: E501
        ),
        "score_precedes_never": Criterion(
            value=values["score_precedes_never"],
            paper="higher at most epochs",
            threshold=2.0,
            headline=False,
            note="the same over that of texts that never come out, the paper's dashed line",
        ),
        "early_stop_mem": Criterion(
            value=values["early_stop_mem"],
            paper=0.45,
            threshold=0.6,
            above=False,
            note=f"at the end the plain run says {final:.1f} % of the texts, and scores {score:.0f}; below 20 it is never stopped",  # noqa: E501
        ),
    }
    for name, paper_value, threshold in (("ngram_penalty", 0.30, 0.45), ("goldfish", 0.33, 0.5)):
        if f"{name}_mem" in values:
            found[f"{name}_mem"] = Criterion(
                value=values[f"{name}_mem"], paper=paper_value, threshold=threshold, above=False
            )
    # table 2, means over models: the gap to the best result of the plain run, in points of a result
    # around 60
    for name, paper in (("early_stop", 0.078), ("ngram_penalty", 0.05), ("goldfish", 0.052)):
        if f"eval_gap_{name}" not in values:
            continue
        found[f"eval_gap_{name}"] = Criterion(
            value=values[f"eval_gap_{name}"],
            paper=paper,
            threshold=0.10,
            above=False,
            headline=False,
            note="share of the plain run's best task result that is lost",
        )
    found["memorizes_before_optimum"] = Criterion(
        value=values["memorizes_before_optimum"],
        paper="in all models",
        threshold=1.0,
        headline=False,
        note="share of seeds whose first text comes out before validation perplexity is best; a model that is small for its data, or a "  # noqa: E501
        "high learning rate, overfits at once",
    )
    rows = {
        "techniques": technique_rows(seeds),
        "precursor": tabulate_precursors(base),
        "selectors": selector_rows(base),
        "decoding": decoding_rows(seeds),
    }
    rows["categories"] = ngram.tabulate_categories(
        [one for seed in seeds for one in seed.categories],
        np.concatenate([one.scores[:, -1] for one in base], axis=1),
        np.concatenate([one.memorized[:, -1] for one in base], axis=1),
    )
    return with_intervals(found, compute_intervals([seed.measurements for seed in seeds])), rows


def technique_rows(seeds: Sequence[SeedResult]) -> list[dict[str, Any]]:
    """Mem %, score, perplexity and task by technique and epoch: the mean over the seeds, and the
    range of Mem %."""
    rows = []
    for name in seeds[0].measurements:
        every = [seed.measurements[name] for seed in seeds]
        for at, epoch in enumerate(every[0].epochs):
            mem = [one.mem[at] for one in every]
            row = {
                "technique": name,
                "epoch": epoch,
                "mem": float(np.mean(mem)),
                "mem_low": min(mem),
                "mem_high": max(mem),
            }
            row |= {
                f"mem_k{k}": (
                    100 * float(np.mean([one.memorized[at, which].mean() for one in every]))
                )
                for which, k in enumerate(verbatim.PREFIX_LENGTHS)
            }
            row |= {
                "score": float(np.mean([one.score[at] for one in every])),
                "perplexity": float(np.mean([one.perplexity[at] for one in every])),
            }
            rows.append({**row, "task": float(np.mean([one.task[at] for one in every]))})
    return rows


def selector_rows(base: Sequence[RunMeasurements]) -> list[dict[str, Any]]:
    """Where each rule stops the plain run, and the memorization there; thresholds of the n-gram
    rule besides 20."""
    rows: list[dict[str, Any]] = []
    for number, one in enumerate(base):
        measured = {
            "epoch": one.epochs,
            "mem": one.mem,
            "perplexity": one.perplexity,
            "task": one.task,
        }
        picked = (
            ngram.stop_by_ngram(one.score),
            ngram.stop_by_validation(one.perplexity),
            ngram.stop_by_task(one.task),
        )
        rows += [
            {
                "rule": stop.rule,
                "evaluation": stop.evaluation,
                **{name: each[stop.evaluation] for name, each in measured.items()},
                "seed": number,
            }
            for stop in picked
        ]
        rows += [
            {"rule": f"n-gram {row['threshold']:g}", **row, "seed": number}
            for row in ngram.tabulate_thresholds(one.score, measured)
        ]
    return rows


def decoding_rows(seeds: Sequence[SeedResult]) -> list[dict[str, Any]]:
    """Memorization with the other decodings; empty at the smallest size."""
    return [row for seed in seeds for row in seed.decodings]


def categorize_probed(private: pa.Table, base: RunMeasurements) -> list[str]:
    """The category of each private text that was probed: a ticket's label, or one assigned by rules
    on the text."""
    probed = private.take(pa.array(base.probed))
    return (
        list(probed["label"].to_pylist())
        if "label" in probed.column_names
        else ngram.categorize_texts(probed["text"].to_pylist())
    )


def read_measurements(result: Mapping[str, Any]) -> RunMeasurements:
    """The measurements of a finished cell. Mails have no task: the geometric mean of the
    probability of the right token is used instead."""
    rows = result["rows"]
    perplexity = [math.exp(sum(row["held_loss"]) / sum(row["held_tokens"])) for row in rows]
    return RunMeasurements(
        epochs=[row["epoch"] for row in rows],
        memorized=np.array([row["memorized"] for row in rows], bool),
        scores=np.array([row["scores"] for row in rows], np.float64),
        perplexity=perplexity,
        task=[1 / one for one in perplexity],
        probed=np.array(rows[-1]["probed"]),
    )


def read_seed(runs: PretrainedRuns, seed: int, lr: float) -> SeedResult:
    """The finished cells of a seed."""
    results = {one: runs.result(Cell(seed, lr, one)) for one in CELLS.values()}
    measurements = {
        name: read_measurements(result)
        for name, cell in CELLS.items()
        if (result := results[cell]) is not None
    }
    base = results["baseline"]
    assert base is not None, "only seeds whose plain run is finished are read"
    return SeedResult(
        measurements,
        base["rows"][-1]["categories"],
        {"private": len(base["rows"][-1]["probed"])},
        [],
    )


def report_pretrained(arguments: argparse.Namespace, began: float) -> int:
    """Compute the cells of a pretrained model that the options name, and report the seeds of which
    all are finished."""
    runs = pretrained_runs.open_runs(arguments)
    lrs = tuple(arguments.lr or (runs.size.lrs[0], *LOWER_RATES))
    seeds = pretrained_runs.compute_cells(
        runs, arguments, [*CELLS.values()], lrs, others=("baseline",)
    )
    if not seeds:
        raise UsageError(
            f"{runs.root}: the plain run at {lrs[0]:g} is not finished for any seed; give the same"
            " command without --only-report"
        )
    found, tables = criteria([read_seed(runs, seed, lrs[0]) for seed in seeds])
    tables["other_rates"] = [
        {
            "lr": lr,
            "seed": seed,
            "epoch": epoch,
            "mem": mem,
            "score": score,
            "perplexity": perplexity,
        }
        for lr in lrs[1:]
        for seed in range(1, runs.size.seeds + 1)
        if (result := runs.result(Cell(seed, lr, "baseline"))) is not None
        for one in [read_measurements(result)]
        for epoch, mem, score, perplexity in zip(
            one.epochs, one.mem, one.score, one.perplexity, strict=True
        )
    ]
    numbers = range(1, (arguments.seeds or runs.size.seeds) + 1)
    planned = [Cell(seed, lrs[0], name) for name in CELLS.values() for seed in numbers]
    planned += [Cell(seed, lr, "baseline") for lr in lrs[1:] for seed in numbers]
    scaled = (
        f"{arguments.model.name} tuned on the raw mails of rmft at {lrs[0]:g}, {runs.size.epochs}"
        f" epochs, {runs.size.probes} mails probed; seed"
        f" {' '.join(map(str, seeds))}{pretrained_runs.describe_devices(runs, planned)}{pretrained_runs.describe_missing(runs, planned)}."  # noqa: E501
        " The paper tunes models of 1.4 to 70 billion parameters on 5,000 samples for 8 epochs."
    )
    return report_criteria(
        "early_detection",
        arguments,
        found,
        tables=tables,
        scaled=scaled,
        seconds=time.perf_counter() - began,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run all seeds of a size and print the criteria."""
    parser = make_parser(__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument(
        "--epochs",
        type=int,
        help=(
            "over the private texts (default: by size); real ones take more to be learned by heart"
        ),
    )
    pretrained_runs.add_options(parser)
    arguments = parser.parse_args(argv)
    began = time.perf_counter()
    if arguments.model is not None or arguments.size == "real":
        return report_pretrained(arguments, began)
    size = SIZES[arguments.size]
    if arguments.epochs is not None:  # as many checkpoints as before
        factor = arguments.epochs / size.epochs
        size = replace(
            size,
            epochs=arguments.epochs,
            every=max(1, round(size.every * factor)),
            sparse=max(1, round(size.sparse * factor)),
        )
    import torch

    if size.device == "cpu":
        torch.set_num_threads(1)  # two threads on two busy cores slow each other down
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(arguments.dir or scratch)
        data = read_own_corpus(arguments, folder)
        seeds = [
            run_seed(folder / f"seed-{seed}", size, seed, data)
            for seed in range(arguments.seeds or size.seeds)
        ]
        found, tables = criteria(seeds)
    text_counts = seeds[0].text_counts
    scaled = (
        f"{size.layers} layers of width {size.width} from scratch on"
        f" {text_counts['public']}{'' if data else ' invented'} public texts,"
        f" {text_counts['private']} private ones, {size.epochs} epochs, {len(seeds)} seeds; the"
        " paper tunes models of 1.4 to 70 billion parameters on 5,000 samples for 8 epochs."
    )
    return report_criteria(
        "early_detection",
        arguments,
        found,
        tables=tables,
        scaled=scaled,
        seconds=time.perf_counter() - began,
    )


if __name__ == "__main__":
    run_script(main)
