"""Measures the cost of training beyond the model itself, as ratios in CPU-seconds of one process
and one thread.

    python -m benchmarks.bench_train                                           benchmarks/results/train.json
    python -m benchmarks.bench_train --mb 1 --repeat 1 --results /tmp/x        a smoke run

Rounds of plain and penalised steps take turns, on the same rows and weights, at the sizes of
recipes `early_detection` and `ngram_penalty` (two layers, width 64, 64 tokens, batches of 8). The
stream is measured from shards to batches: tokens made once, and batches made of them, against what
a step of recipe `rmft` (two layers, width 64, 128 tokens) takes.
"""  # noqa: E501

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import corpora
from benchmarks.bench import ONE_THREAD, build_in_subprocess, describe_machine

AIMS = {"penalty_step_of_plain_step": 1.5, "stream_of_model": 10.0}
STEPS = 60


def measure_cpu_s(work: Callable[[], Any]) -> float:
    """The CPU-seconds of this process."""
    before = time.process_time()
    work()
    return time.process_time() - before


class TrainingBench:
    """A recipe on shards, ready to make steps: rows, model, objective."""

    def __init__(self, name: str, source: Path, *changes: str) -> None:
        import torch

        from sanitize.train.batches import TokenRows
        from sanitize.train.model import build_model, require_torch
        from sanitize.train.objectives.objective import TrainContext
        from sanitize.train.processes import SingleProcess
        from sanitize.train.recipe import Recipe
        from sanitize.train.recipe_data import get_tokenizer, make_batch_plan, read_recipe_documents
        from sanitize.train.trainer import Trainer, build_adamw

        require_torch()
        self.recipe = Recipe.load(
            name,
            [
                f"data.path={json.dumps(str(source))}",
                f"run.max_steps={STEPS}",
                "run.device=cpu",
                *changes,
            ],
        )
        self.data = read_recipe_documents(self.recipe, str(source))
        self.objective, self.tokenizer = (
            self.recipe.build_objective(),
            get_tokenizer(self.recipe, self.data),
        )
        model, self.context = build_model(
            self.recipe.model, head=self.objective.HEAD, tokenizer=self.tokenizer, seed=0
        )
        self.rows: TokenRows
        self.tokenise_cpu_s = measure_cpu_s(self._make_rows)
        self.plan = make_batch_plan(self.recipe, self.rows)
        stage = TrainContext(
            rows=self.rows,
            tokenizer=self.tokenizer,
            model=model,
            device=torch.device("cpu"),
            seed=0,
            batch_size=self.recipe.run.batch,
        )
        self.open_cpu_s = measure_cpu_s(lambda: self.objective.setup(stage))
        self.loop = Trainer(
            model=model,
            wrapped_model=model,
            optimizer=build_adamw(model, self.recipe.run),
            objective=self.objective,
            rows=self.rows,
            batch_plan=self.plan,
            settings=self.recipe.run.model_copy(update={"checkpoint_every": 0.0}),
            processes=SingleProcess("cpu"),
        )
        self.tokens = int(
            sum(
                self.rows.lengths[self.plan.get_step_rows(step)].sum()
                for step in range(self.plan.step_count)
            )
        )

    def _make_rows(self) -> None:
        from sanitize.train.recipe_data import make_rows

        self.rows = make_rows(self.data, self.recipe, self.objective, self.tokenizer, self.context)

    def step_cpu_s(self) -> float:
        """CPU-seconds of a step, over the plan's steps."""
        return measure_cpu_s(self.loop.train) / self.plan.step_count

    def stream_cpu_s(self) -> float:
        """CPU-seconds of an epoch's batches, including their collation, per token."""
        from sanitize.train.batches import BatchPlan, BatchStream

        plan = BatchPlan(
            row_count=len(self.rows), batch_size=self.recipe.run.batch, seed=0, epochs=1
        )
        spent = measure_cpu_s(
            lambda: [
                self.objective.collate(batch, training=True) and None
                for batch in BatchStream(self.rows, plan)
            ]
        )
        return spent / int(self.rows.lengths.sum())


def measure_corpus(source: Path, repeat: int) -> dict[str, Any]:
    """All measurements, in one process; medians of rounds that take turns."""
    import torch

    torch.set_num_threads(1)
    plain, penalised, small = (
        TrainingBench("early_detection", source),
        TrainingBench("ngram_penalty", source),
        TrainingBench("rmft", source),
    )
    for one in (plain, penalised, small):
        one.step_cpu_s()  # the first round pays for pages and imports
    rounds: dict[str, list[float]] = {
        name: [] for name in ("plain", "penalised", "ratio", "model", "stream")
    }
    for _ in range(repeat):
        rounds["plain"].append(plain.step_cpu_s())
        rounds["penalised"].append(penalised.step_cpu_s())
        rounds["ratio"].append(rounds["penalised"][-1] / rounds["plain"][-1])
        rounds["model"].append(small.step_cpu_s() * small.plan.step_count / small.tokens)
        rounds["stream"].append(small.stream_cpu_s())
    median = {name: statistics.median(values) for name, values in rounds.items()}
    total = int(small.rows.lengths.sum())
    return {
        "documents": len(small.data),
        "tokens": total,
        "steps_a_round": STEPS,
        "plain_step_ms": median["plain"] * 1e3,
        "penalty_step_ms": median["penalised"] * 1e3,
        "penalty_step_of_plain_step": median["ratio"],
        # once a run, before its first step: log-probabilities of the frozen reference for every
        # token
        "reference_pass_of_plain_epoch": (
            penalised.open_cpu_s / (median["plain"] * plain.plan.steps_per_epoch)
        ),
        "model_tokens_per_cpu_s": 1 / median["model"],
        "stream_tokens_per_cpu_s": 1 / median["stream"],
        "stream_of_model": median["model"] / median["stream"],
        # from texts in memory: tokenizing, once a run, and one epoch of batches
        "tokens_made_per_cpu_s": total / small.tokenise_cpu_s,
        "first_epoch_of_model": median["model"] / (median["stream"] + small.tokenise_cpu_s / total),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--mb",
        type=int,
        default=2,
        help="MB of text; more than 4 change nothing in the ratios and are not made",
    )
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument(
        "--dir", type=Path, default=corpora.corpora_folder(), help="folder of the corpus"
    )
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    os.environ.update(ONE_THREAD)  # before anything that reads it is imported
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ["OMP_NUM_THREADS"] = "1"
    options.dir.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "machine": describe_machine(),
        "repeat": options.repeat,
        "aims": AIMS,
    }
    about = build_in_subprocess(corpora.build, "dense", min(options.mb, 4), options.dir)
    result["train"] = build_in_subprocess(measure_corpus, Path(about["path"]), options.repeat)
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "train.json").write_text(json.dumps(result, indent=1) + "\n")
    for what, aim in AIMS.items():
        print(
            f"{what} {result['train'][what]:.2f} (aim"
            f" {'at most' if 'penalty' in what else 'at least'} {aim:g})"
        )


if __name__ == "__main__":
    main()
