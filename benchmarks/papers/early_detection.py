"""Early detection and reduction of memorization: does a partial score warn before texts come out verbatim, and what makes fewer of them?

A small model with rotary positions, as the paper's have, reads public tickets and is then fine-tuned on a few private ones: plainly, with
Goldfish's loss, and with the n-gram penalty. At each checkpoint the same place of every private ticket is probed (k = 12, 16, 20), and
held-out tickets give the validation perplexity and the accuracy of the task. Early stopping: the plain run where the n-gram rule stops it.
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

from benchmarks.criteria import Criterion, finish, options, own, split
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
    """How large everything is."""

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
class Looked:
    """What was measured of a run, checkpoint by checkpoint. `memorized` and `scores` are [checkpoints, ks, private texts]."""

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


def corpus(folder: Path, size: Size, seed: int, data: Path | None) -> dict[str, pa.Table]:
    """Public, private and held-out texts, generated or split from the user's own by `doc_id`; written as shards."""
    if data is None:
        tables = {name: tickets(getattr(size, name), seed=seed, name=name) for name in ("public", "private", "held")}
    else:
        table = read_documents(data).table.select(["doc_id", "text"])
        tables = split(table, seed, {"public": 0.5, "private": 0.2, "held": 0.3})
        tables = {name: one.slice(0, getattr(size, name)) for name, one in tables.items()}
    for name, one in tables.items():
        (folder / name).mkdir(parents=True)
        pq.write_table(one, folder / name / "texts.parquet")
    return tables


def untrained(folder: Path, texts: Sequence[str], size: Size, seed: int) -> Path:
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
        # all of a head turns with the place: with Pythia's quarter of it, heads this narrow have four numbers that do
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 1.0},
    )  # fmt: skip
    GPTNeoXForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def recipe(
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


def read_of(model: LanguageModel, texts: Sequence[str]) -> list[list[int]]:
    """The tokens of texts that are trained on: long ones are cut (`recipe`), and the end of text takes the last place."""
    return [row[: model.context_length - 1] for row in model.encode(texts)]


def look(run: RunFolder, tables: dict[str, pa.Table], size: Size, seed: int, *, prompt: bool = False) -> Looked:
    """Probe every checkpoint of a run: the private texts for what is said again, the held-out ones for perplexity and task."""
    texts, ids = tables["private"]["text"].to_pylist(), tables["private"]["doc_id"].to_pylist()
    held = tables["held"]["text"].to_pylist()
    labels = tables["held"]["label"].to_pylist() if "label" in tables["held"].column_names else None
    asked = [text[: text.rindex(QUESTION) + len(QUESTION)] for text in held] if labels else []
    if prompt and labels:
        asked = [f"{told}\n{text}" for told, text in zip(tables["held"]["prompt"].to_pylist(), asked, strict=True)]
    memorized, scores, perplexity, results = [], [], [], []
    for checkpoint in run.checkpoints:
        model = LanguageModel.load(checkpoint.path, size.device)
        where = verbatim.choose_probe_points(read_of(model, texts), ids, seed=seed)
        said = [verbatim.generate_continuations(model, where, k) for k in verbatim.PREFIX_LENGTHS]
        memorized.append(np.stack([verbatim.is_memorized(one, where.suffix_tokens) for one in said]))
        scores.append(np.stack([ngram.ngram_scores(one, where.suffix_tokens) for one in said]))
        losses = np.concatenate(model.token_losses([row[: model.context_length] for row in model.encode(held)]))
        perplexity.append(float(np.exp(losses.mean())))
        if labels:
            answers = model.decode(model.generate(model.encode(asked), new_tokens=3))
            results.append(task.accuracy([task.find_label(answer, LABELS) for answer in answers], labels))
        else:  # texts of one's own have no task: how probable the right token is, on geometric average, stands in for it
            results.append(1 / perplexity[-1])
    return Looked([one.epoch for one in run.checkpoints], np.stack(memorized), np.stack(scores), perplexity, results, where.text_numbers)


@dataclass(frozen=True, repr=False)
class Seed:
    """All runs of one seed, looked at, and what only the larger sizes measure."""

    looked: dict[str, Looked]
    tables: dict[str, pa.Table]
    further: list[dict[str, Any]]


def one_seed(folder: Path, size: Size, seed: int, data: Path | None) -> Seed:
    """Pre-train, fine-tune with each technique, and look at each checkpoint."""
    tables = corpus(folder, size, seed, data)
    raw = untrained(folder / "untrained", tables["public"]["text"].to_pylist(), size, seed)
    train.fit(recipe(folder / "public", raw, {"use": "causal"}, size, seed, epochs=size.pretrain_epochs, every=0), folder / "pretrained")
    start = RunFolder.open(folder / "pretrained").final_checkpoint.path

    def tuned(name: str, objective: dict[str, Any], **more: Any) -> RunFolder:
        every = size.every if name == "base" else size.sparse
        told = recipe(folder / "private", start, objective, size, seed, epochs=size.epochs, every=every, **more)
        train.fit(told, folder / name)
        return RunFolder.open(folder / name)

    runs = {name: tuned(name, objective) for name, objective in TECHNIQUES.items()}
    looked = {name: look(run, tables, size, seed) for name, run in runs.items()}
    further: list[dict[str, Any]] = []
    if size.full:
        looked["top_layer"] = look(tuned("top_layer", TECHNIQUES["base"], model={"top_layers": 1}), tables, size, seed)
        if "prompt" in tables["private"].column_names:
            told = {"prompt_columns": ("prompt",), "prompts": "include"}
            looked["instruction"] = look(tuned("instruction", TECHNIQUES["base"], data=told), tables, size, seed, prompt=True)
        model = LanguageModel.load(runs["base"].final_checkpoint.path, size.device)
        where = verbatim.choose_probe_points(
            read_of(model, tables["private"]["text"].to_pylist()), tables["private"]["doc_id"].to_pylist(), seed=seed
        )
        for match in ("exact", "contains"):
            rows = verbatim.tabulate_memorization(model, where, modes=("greedy", "beam", "sample"), match=match, seed=seed)
            further += [{"seed": seed, "match": match, **row} for row in rows]
    return Seed(looked, tables, further)


def criteria(seeds: Sequence[Seed]) -> tuple[dict[str, Criterion], dict[str, list[dict[str, Any]]]]:
    """The paper's comparisons over all seeds, and the tables they are read from. Ratios are ratios of means."""
    base = [seed.looked["base"] for seed in seeds]
    epochs = base[0].epochs
    stops = [ngram.stop_by_ngram(one.score) for one in base]
    final = float(np.mean([one.mem[-1] for one in base]))
    score = float(np.mean([one.score[-1] for one in base]))
    if not final:
        raise UsageError("the plain run has memorized nothing, so there is nothing to reduce; give more --epochs or fewer --documents")
    mem = {name: float(np.mean([seed.looked[name].mem[-1] for seed in seeds])) for name in TECHNIQUES}
    mem["early_stop"] = float(np.mean([one.mem[stop.evaluation] for one, stop in zip(base, stops, strict=True)]))
    best = [max(one.task) for one in base]
    gap = {
        name: float(np.mean([1 - seed.looked[name].task[-1] / top for seed, top in zip(seeds, best, strict=True)])) for name in TECHNIQUES
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
    told = {
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
        told[f"eval_gap_{name}"] = Criterion(
            value=gap[name],
            paper=paper,
            threshold=0.10,
            above=False,
            headline=False,
            note="share of the plain run's best task result that is lost",
        )
    first = [int(np.argmax([mem > 0 for mem in one.mem])) for one in base]
    low = [ngram.stop_by_validation(one.perplexity).evaluation for one in base]
    told["memorizes_before_optimum"] = Criterion(
        value=float(np.mean([a < b for a, b in zip(first, low, strict=True)])), paper="in all models", threshold=1.0, headline=False,
        note="share of seeds whose first text comes out before validation perplexity is best; a model this small overfits at once",
    )  # fmt: skip
    rows = {"techniques": technique_rows(seeds), "precursor": before, "selectors": selector_rows(base), "decoding": decoding_rows(seeds)}
    rows["categories"] = ngram.tabulate_categories(
        [one for seed in seeds for one in categories(seed)], np.concatenate([one.scores[:, -1] for one in base], axis=1),
        np.concatenate([one.memorized[:, -1] for one in base], axis=1),
    )  # fmt: skip
    return told, rows


def technique_rows(seeds: Sequence[Seed]) -> list[dict[str, Any]]:
    """Mem %, score, perplexity and task by technique and epoch: the mean over the seeds, and the range of Mem %."""
    rows = []
    for name in seeds[0].looked:
        every = [seed.looked[name] for seed in seeds]
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


def selector_rows(base: Sequence[Looked]) -> list[dict[str, Any]]:
    """Where each rule stops the plain run, and what it has memorized there; thresholds of the n-gram rule besides 20."""
    rows: list[dict[str, Any]] = []
    for number, one in enumerate(base):
        measured = {"epoch": one.epochs, "mem": one.mem, "perplexity": one.perplexity, "task": one.task}
        picked = (ngram.stop_by_ngram(one.score), ngram.stop_by_validation(one.perplexity), ngram.stop_by_task(one.task))
        rows += [
            {"rule": stop.rule, "at": stop.evaluation, **{name: each[stop.evaluation] for name, each in measured.items()}, "seed": number}
            for stop in picked
        ]
        rows += [{"rule": f"n-gram {row['threshold']:g}", **row, "seed": number} for row in ngram.tabulate_thresholds(one.score, measured)]
    return rows


def decoding_rows(seeds: Sequence[Seed]) -> list[dict[str, Any]]:
    """What the other decodings say; empty at the smallest size."""
    return [row for seed in seeds for row in seed.further]


def categories(seed: Seed) -> list[str]:
    """The category of each private text that was probed: a ticket's label, or what the text looks like."""
    private = seed.tables["private"].take(pa.array(seed.looked["base"].probed))
    return list(private["label"].to_pylist()) if "label" in private.column_names else ngram.categorize_texts(private["text"].to_pylist())


def main(argv: Sequence[str] | None = None) -> int:
    """Run all seeds of a size and print the criteria."""
    parser = options(__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--epochs", type=int, help="over the private texts (default: by size); real ones take more to be learned by heart")
    asked = parser.parse_args(argv)
    size, began = SIZES[asked.size], time.perf_counter()
    if asked.epochs is not None:  # as many checkpoints as before
        longer = asked.epochs / size.epochs
        size = replace(size, epochs=asked.epochs, every=max(1, round(size.every * longer)), sparse=max(1, round(size.sparse * longer)))
    import torch

    if size.device == "cpu":
        torch.set_num_threads(1)  # two threads on two busy cores wait for each other
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(asked.dir or scratch)
        data = own(asked, folder)
        seeds = [one_seed(folder / f"seed-{seed}", size, seed, data) for seed in range(asked.seeds or size.seeds)]
        told, tables = criteria(seeds)
    there = {name: one.num_rows for name, one in seeds[0].tables.items()}
    scaled = (
        f"{size.layers} layers of width {size.width} from scratch on {there['public']}{'' if data else ' invented'} public texts, "
        f"{there['private']} private ones, {size.epochs} epochs, {len(seeds)} seeds; the paper tunes models of 1.4 to 70 billion "
        "parameters on 5,000 samples for 8 epochs."
    )
    return finish("early_detection", asked, told, tables=tables, scaled=scaled, seconds=time.perf_counter() - began)


if __name__ == "__main__":
    sys.exit(main())
