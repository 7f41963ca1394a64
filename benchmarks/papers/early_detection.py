"""Early detection and reduction of memorization: does a partial score predict verbatim memorization, and which techniques reduce it?

A small model with rotary positions, as the paper's have, reads public tickets and is then fine-tuned on a few private ones: plainly, with
Goldfish's loss, and with the n-gram penalty. At each checkpoint the same place of every private ticket is probed (k = 12, 16, 20), and
held-out tickets give the validation perplexity and the accuracy of the task. Early stopping: the plain run at the checkpoint where the
n-gram rule stops it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.criteria import Criterion, make_parser, read_own_corpus, report_criteria, split_documents
from benchmarks.papers_texts import QUESTION, tickets
from sanitize import train
from sanitize.errors import UsageError
from sanitize.eval.language_model import LanguageModel
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
    # the texts of `ci`, a seed and three measurements more: twice the texts would not end in ten minutes on a busy machine
    "cpu": Size(public=300, private=100, held=120, epochs=28, every=2, sparse=7, seeds=3, full=True),
    "gpu": Size(
        public=100_000, private=2_000, held=1_000, epochs=24, every=2, sparse=6, seeds=3, layers=8, width=512, heads=8, vocab=2048,
        pretrain_epochs=1, lr=5e-4, batch=64, device="cuda", full=True,
    ),
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class RunMeasurements:
    """Measurements of a run, by checkpoint. `memorized` and `scores` are [checkpoints, ks, private texts]."""

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


def build_corpus(folder: Path, size: Size, seed: int, data: Path | None) -> dict[str, pa.Table]:
    """Public, private and held-out texts, generated or split from the user's own by `doc_id`; written as shards."""
    if data is None:
        tables = {name: tickets(getattr(size, name), seed=seed, name=name) for name in ("public", "private", "held")}
    else:
        table = read_documents(data).table.select(["doc_id", "text"])
        tables = split_documents(table, seed, {"public": 0.5, "private": 0.2, "held": 0.3})
        tables = {name: one.slice(0, getattr(size, name)) for name, one in tables.items()}
    for name, one in tables.items():
        (folder / name).mkdir(parents=True)
        pq.write_table(one, folder / name / "texts.parquet")
    return tables


def write_untrained_model(folder: Path, texts: Sequence[str], size: Size, seed: int) -> Path:
    """A GPT-NeoX (Pythia's architecture) with random weights and a tokenizer of the public texts, as a local checkpoint."""
    import torch
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    tokenizer = train_tokenizer(texts, vocab_size=size.vocab, context_length=size.context)
    torch.manual_seed(seed)
    config = GPTNeoXConfig(
        vocab_size=len(tokenizer), hidden_size=size.width, num_hidden_layers=size.layers, num_attention_heads=size.heads,
        intermediate_size=4 * size.width, max_position_embeddings=size.context, bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
        # rotary positions on all dimensions of a head: Pythia's quarter would be four dimensions of heads this narrow
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 1.0},
    )  # fmt: skip
    GPTNeoXForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_recipe(
    shards: Path, start: Path, objective: dict[str, Any], size: Size, seed: int, *, epochs: int, every: float, **more: Any
) -> dict[str, Any]:
    """A recipe for `train.fit`; `more` is of its `[data]` and `[model]`."""
    return {
        "data": {"path": str(shards), "layout": "document", "overlong": "cut", **more.get("data", {})},
        "model": {"path": str(start), "context": size.context, **more.get("model", {})},
        "objective": objective,
        "run": {
            "seed": seed, "epochs": epochs, "batch": size.batch, "lr": size.lr, "checkpoint_every": every, "device": size.device,
            "schedule": "linear" if every == 0 else "constant",
        },
    }  # fmt: skip


def encode_texts(model: LanguageModel, texts: Sequence[str]) -> list[list[int]]:
    """The tokens of texts that are trained on: long ones are cut (`recipe`), and the last place is for the end-of-text token."""
    return [row[: model.context_length - 1] for row in model.encode(texts)]


def measure_run(run: RunFolder, tables: dict[str, pa.Table], size: Size, seed: int, *, prompt: bool = False) -> RunMeasurements:
    """Probe every checkpoint of a run: the private texts for memorization, the held-out ones for perplexity and task."""
    texts, ids = tables["private"]["text"].to_pylist(), tables["private"]["doc_id"].to_pylist()
    held = tables["held"]["text"].to_pylist()
    labels = tables["held"]["label"].to_pylist() if "label" in tables["held"].column_names else None
    questions = [text[: text.rindex(QUESTION) + len(QUESTION)] for text in held] if labels else []
    if prompt and labels:
        questions = [f"{prompt_text}\n{text}" for prompt_text, text in zip(tables["held"]["prompt"].to_pylist(), questions, strict=True)]
    memorized, scores, perplexity, task_results = [], [], [], []
    for checkpoint in run.checkpoints:
        model = LanguageModel.load(checkpoint.path, size.device)
        probe_points = verbatim.choose_probe_points(encode_texts(model, texts), ids, seed=seed)
        continuations = [verbatim.generate_continuations(model, probe_points, k) for k in verbatim.PREFIX_LENGTHS]
        memorized.append(np.stack([verbatim.is_memorized(one, probe_points.suffix_tokens) for one in continuations]))
        scores.append(np.stack([ngram.ngram_scores(one, probe_points.suffix_tokens) for one in continuations]))
        losses = np.concatenate(model.token_losses([row[: model.context_length] for row in model.encode(held)]))
        perplexity.append(float(np.exp(losses.mean())))
        if labels:
            answers = model.decode(model.generate(model.encode(questions), new_tokens=3))
            task_results.append(task.accuracy([task.find_label(answer, LABELS) for answer in answers], labels))
        else:  # a user's texts have no task: the geometric mean of the probability of the right token is used instead
            task_results.append(1 / perplexity[-1])
    return RunMeasurements(
        [one.epoch for one in run.checkpoints], np.stack(memorized), np.stack(scores), perplexity, task_results, probe_points.text_numbers
    )


@dataclass(frozen=True, repr=False)
class SeedResult:
    """Measurements of all runs of one seed, and those that only the larger sizes make."""

    measurements: dict[str, RunMeasurements]
    tables: dict[str, pa.Table]
    decodings: list[dict[str, Any]]


def run_seed(folder: Path, size: Size, seed: int, data: Path | None) -> SeedResult:
    """Pre-train, fine-tune with each technique, and measure each checkpoint."""
    tables = build_corpus(folder, size, seed, data)
    untrained_model = write_untrained_model(folder / "untrained", tables["public"]["text"].to_pylist(), size, seed)
    train.fit(
        make_recipe(folder / "public", untrained_model, {"use": "causal"}, size, seed, epochs=size.pretrain_epochs, every=0),
        folder / "pretrained",
    )
    start = RunFolder.open(folder / "pretrained").final_checkpoint.path

    def train_technique(name: str, objective: dict[str, Any], **more: Any) -> RunFolder:
        every = size.every if name == "base" else size.sparse
        run_recipe = make_recipe(folder / "private", start, objective, size, seed, epochs=size.epochs, every=every, **more)
        train.fit(run_recipe, folder / name)
        return RunFolder.open(folder / name)

    runs = {name: train_technique(name, objective) for name, objective in TECHNIQUES.items()}
    measurements = {name: measure_run(run, tables, size, seed) for name, run in runs.items()}
    decodings: list[dict[str, Any]] = []
    if size.full:
        measurements["top_layer"] = measure_run(
            train_technique("top_layer", TECHNIQUES["base"], model={"top_layers": 1}), tables, size, seed
        )
        if "prompt" in tables["private"].column_names:
            data_settings = {"prompt_columns": ("prompt",), "prompts": "include"}
            measurements["instruction"] = measure_run(
                train_technique("instruction", TECHNIQUES["base"], data=data_settings), tables, size, seed, prompt=True
            )
        model = LanguageModel.load(runs["base"].final_checkpoint.path, size.device)
        probe_points = verbatim.choose_probe_points(
            encode_texts(model, tables["private"]["text"].to_pylist()), tables["private"]["doc_id"].to_pylist(), seed=seed
        )
        for match in ("exact", "contains"):
            rows = verbatim.tabulate_memorization(model, probe_points, modes=("greedy", "beam", "sample"), match=match, seed=seed)
            decodings += [{"seed": seed, "match": match, **row} for row in rows]
    return SeedResult(measurements, tables, decodings)


def criteria(seeds: Sequence[SeedResult]) -> tuple[dict[str, Criterion], dict[str, list[dict[str, Any]]]]:
    """The paper's comparisons over all seeds, and the tables they are read from. Ratios are ratios of means."""
    base = [seed.measurements["base"] for seed in seeds]
    epochs = base[0].epochs
    stops = [ngram.stop_by_ngram(one.score) for one in base]
    final = float(np.mean([one.mem[-1] for one in base]))
    score = float(np.mean([one.score[-1] for one in base]))
    if not final:
        raise UsageError("the plain run has memorized nothing, so there is nothing to reduce; give more --epochs or fewer --documents")
    mem = {name: float(np.mean([seed.measurements[name].mem[-1] for seed in seeds])) for name in TECHNIQUES}
    mem["early_stop"] = float(np.mean([one.mem[stop.evaluation] for one, stop in zip(base, stops, strict=True)]))
    best = [max(one.task) for one in base]
    gap = {
        name: float(np.mean([1 - seed.measurements[name].task[-1] / top for seed, top in zip(seeds, best, strict=True)]))
        for name in TECHNIQUES
    }
    gap["early_stop"] = float(np.mean([1 - one.task[stop.evaluation] / top for one, stop, top in zip(base, stops, best, strict=True)]))
    # texts of all seeds side by side, one table a k
    before = [
        {"k": k, **row}
        for which, k in enumerate(verbatim.PREFIX_LENGTHS)
        for row in ngram.tabulate_precursors(
            np.concatenate([one.scores[:, which] for one in base], axis=1),
            np.concatenate([one.memorized[:, which] for one in base], axis=1),
            epochs=epochs,
        )
    ]
    found = {
        "score_precedes": Criterion(
            value=ngram.precursor_ratio(before), paper="higher at most epochs", threshold=2.0,
            note="median score one evaluation before, over that of texts not memorized by then; weighted by how many come out"
        ),
        "score_precedes_never": Criterion(
            value=ngram.precursor_ratio(before, against="never"), paper="higher at most epochs", threshold=2.0, headline=False,
            note="the same over that of texts that never come out, the paper's dashed line",
        ),
        "early_stop_mem": Criterion(
            value=mem["early_stop"] / final, paper=0.45, threshold=0.6, above=False,
            note=f"at the end the plain run says {final:.1f} % of the texts, and scores {score:.0f}; below 20 it is never stopped",
        ),
        "ngram_penalty_mem": Criterion(value=mem["ngram_penalty"] / final, paper=0.30, threshold=0.45, above=False),
        "goldfish_mem": Criterion(value=mem["goldfish"] / final, paper=0.33, threshold=0.5, above=False),
    }  # fmt: skip
    # table 2, means over models: the gap to the best result of the plain run, in points of a result around 60
    for name, paper in (("early_stop", 0.078), ("ngram_penalty", 0.05), ("goldfish", 0.052)):
        found[f"eval_gap_{name}"] = Criterion(
            value=gap[name],
            paper=paper,
            threshold=0.10,
            above=False,
            headline=False,
            note="share of the plain run's best task result that is lost",
        )
    first = [int(np.argmax([mem > 0 for mem in one.mem])) for one in base]
    low = [ngram.stop_by_validation(one.perplexity).evaluation for one in base]
    found["memorizes_before_optimum"] = Criterion(
        value=float(np.mean([a < b for a, b in zip(first, low, strict=True)])), paper="in all models", threshold=1.0, headline=False,
        note="share of seeds whose first text comes out before validation perplexity is best; a model this small overfits at once",
    )  # fmt: skip
    rows = {"techniques": technique_rows(seeds), "precursor": before, "selectors": selector_rows(base), "decoding": decoding_rows(seeds)}
    rows["categories"] = ngram.tabulate_categories(
        [one for seed in seeds for one in categories(seed)], np.concatenate([one.scores[:, -1] for one in base], axis=1),
        np.concatenate([one.memorized[:, -1] for one in base], axis=1),
    )  # fmt: skip
    return found, rows


def technique_rows(seeds: Sequence[SeedResult]) -> list[dict[str, Any]]:
    """Mem %, score, perplexity and task by technique and epoch: the mean over the seeds, and the range of Mem %."""
    rows = []
    for name in seeds[0].measurements:
        every = [seed.measurements[name] for seed in seeds]
        for at, epoch in enumerate(every[0].epochs):
            mem = [one.mem[at] for one in every]
            row = {"technique": name, "epoch": epoch, "mem": float(np.mean(mem)), "mem_low": min(mem), "mem_high": max(mem)}
            row |= {
                f"mem_k{k}": 100 * float(np.mean([one.memorized[at, which].mean() for one in every]))
                for which, k in enumerate(verbatim.PREFIX_LENGTHS)
            }
            row |= {
                "score": float(np.mean([one.score[at] for one in every])),
                "perplexity": float(np.mean([one.perplexity[at] for one in every])),
            }
            rows.append({**row, "task": float(np.mean([one.task[at] for one in every]))})
    return rows


def selector_rows(base: Sequence[RunMeasurements]) -> list[dict[str, Any]]:
    """Where each rule stops the plain run, and the memorization there; thresholds of the n-gram rule besides 20."""
    rows: list[dict[str, Any]] = []
    for number, one in enumerate(base):
        measured = {"epoch": one.epochs, "mem": one.mem, "perplexity": one.perplexity, "task": one.task}
        picked = (ngram.stop_by_ngram(one.score), ngram.stop_by_validation(one.perplexity), ngram.stop_by_task(one.task))
        rows += [
            {
                "rule": stop.rule,
                "evaluation": stop.evaluation,
                **{name: each[stop.evaluation] for name, each in measured.items()},
                "seed": number,
            }
            for stop in picked
        ]
        rows += [{"rule": f"n-gram {row['threshold']:g}", **row, "seed": number} for row in ngram.tabulate_thresholds(one.score, measured)]
    return rows


def decoding_rows(seeds: Sequence[SeedResult]) -> list[dict[str, Any]]:
    """Memorization with the other decodings; empty at the smallest size."""
    return [row for seed in seeds for row in seed.decodings]


def categories(seed: SeedResult) -> list[str]:
    """The category of each private text that was probed: a ticket's label, or one assigned by rules on the text."""
    private = seed.tables["private"].take(pa.array(seed.measurements["base"].probed))
    return list(private["label"].to_pylist()) if "label" in private.column_names else ngram.categorize_texts(private["text"].to_pylist())


def main(argv: Sequence[str] | None = None) -> int:
    """Run all seeds of a size and print the criteria."""
    parser = make_parser(__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--epochs", type=int, help="over the private texts (default: by size); real ones take more to be learned by heart")
    arguments = parser.parse_args(argv)
    size, began = SIZES[arguments.size], time.perf_counter()
    if arguments.epochs is not None:  # as many checkpoints as before
        factor = arguments.epochs / size.epochs
        size = replace(size, epochs=arguments.epochs, every=max(1, round(size.every * factor)), sparse=max(1, round(size.sparse * factor)))
    import torch

    if size.device == "cpu":
        torch.set_num_threads(1)  # two threads on two busy cores slow each other down
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(arguments.dir or scratch)
        data = read_own_corpus(arguments, folder)
        seeds = [run_seed(folder / f"seed-{seed}", size, seed, data) for seed in range(arguments.seeds or size.seeds)]
        found, tables = criteria(seeds)
    text_counts = {name: one.num_rows for name, one in seeds[0].tables.items()}
    scaled = (
        f"{size.layers} layers of width {size.width} from scratch on {text_counts['public']}{'' if data else ' invented'} public texts, "
        f"{text_counts['private']} private ones, {size.epochs} epochs, {len(seeds)} seeds; the paper tunes models of 1.4 to 70 billion "
        "parameters on 5,000 samples for 8 epochs."
    )
    return report_criteria("early_detection", arguments, found, tables=tables, scaled=scaled, seconds=time.perf_counter() - began)


if __name__ == "__main__":
    sys.exit(main())
