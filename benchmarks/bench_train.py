"""Measures the cost of training beyond the model itself, as ratios in CPU-seconds of one process
and one thread.

    python -m benchmarks.bench_train                      benchmarks/results/train.json
    python -m benchmarks.bench_train --mb 1 --repeat 1 --results /tmp/x     a smoke run

Plain and penalised steps take turns, on the same rows and weights, at the sizes of recipes
`early_detection` and `ngram_penalty` (two layers, width 64, 64 tokens, batches of 8). The stream is
measured from shards to batches: tokens made once, and batches made of them, against what a step of
recipe `rmft` (two layers, width 64, 128 tokens) takes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from benchmarks import corpora, runner
from sanitize.train.batches import BatchPlan, BatchStream
from sanitize.train.model import build_model, require_torch
from sanitize.train.objectives.objective import TrainContext
from sanitize.train.processes import SingleProcess
from sanitize.train.recipe import Recipe
from sanitize.train.recipe_data import (
    get_tokenizer,
    make_batch_plan,
    make_rows,
    read_recipe_documents,
)
from sanitize.train.trainer import Trainer, build_adamw

AIMS = {"penalty_step_of_plain_step": 1.5, "stream_of_model": 10.0}
STEPS = 60


class TrainingBench:
    """A recipe on shards, ready to make steps: rows, model, objective."""

    def __init__(self, name: str, source: Path, *changes: str) -> None:
        require_torch()
        data = f"data.path={json.dumps(str(source))}"
        self.recipe = Recipe.load(
            name, [data, f"run.max_steps={STEPS}", "run.device=cpu", *changes]
        )
        self.data = read_recipe_documents(self.recipe, str(source))
        self.objective = self.recipe.build_objective()
        tokenizer = get_tokenizer(self.recipe, self.data)
        model, context = build_model(
            self.recipe.model, head=self.objective.HEAD, tokenizer=tokenizer, seed=0
        )
        tokenizing, self.rows = runner.measure_call(
            lambda: make_rows(self.data, self.recipe, self.objective, tokenizer, context)
        )
        self.plan = make_batch_plan(self.recipe, self.rows)
        stage = TrainContext(
            rows=self.rows,
            tokenizer=tokenizer,
            model=model,
            device=torch.device("cpu"),
            seed=0,
            batch_size=self.recipe.run.batch,
        )
        opening, _ = runner.measure_call(lambda: self.objective.setup(stage))
        self.tokenise_cpu_s, self.open_cpu_s = tokenizing.cpu_s, opening.cpu_s
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
        steps = map(self.plan.get_step_rows, range(self.plan.step_count))
        self.tokens = int(sum(self.rows.lengths[rows].sum() for rows in steps))

    def read_epoch(self) -> None:
        """An epoch's batches, including their collation."""
        batch = self.recipe.run.batch
        plan = BatchPlan(row_count=len(self.rows), batch_size=batch, seed=0, epochs=1)
        for rows in BatchStream(self.rows, plan):
            self.objective.collate(rows, training=True)


def measure_corpus(source: Path, repeat: int) -> dict[str, Any]:
    """All measurements, in one process; medians of rounds that take turns."""
    torch.set_num_threads(1)
    plain, penalised, small = (
        TrainingBench(name, source) for name in ("early_detection", "ngram_penalty", "rmft")
    )
    tokens = int(small.rows.lengths.sum())
    methods = {
        "plain": (plain.loop.train, plain.plan.step_count),
        "penalised": (penalised.loop.train, penalised.plan.step_count),
        "model": (small.loop.train, small.tokens),
        "stream": (small.read_epoch, tokens),
    }
    runner.measure_in_turn(methods, 1)  # the first round pays for pages and imports
    rates, _ = runner.measure_in_turn(methods, repeat)
    return {
        "documents": len(small.data),
        "tokens": tokens,
        "steps_a_round": STEPS,
        "plain_step_ms": 1e3 / rates["plain"],
        "penalty_step_ms": 1e3 / rates["penalised"],
        "penalty_step_of_plain_step": rates["plain"] / rates["penalised"],
        # once a run, before its first step: log-probabilities of the frozen reference for every
        # token
        "reference_pass_of_plain_epoch": (
            penalised.open_cpu_s * rates["plain"] / plain.plan.steps_per_epoch
        ),
        "model_tokens_per_cpu_s": rates["model"],
        "stream_tokens_per_cpu_s": rates["stream"],
        "stream_of_model": rates["stream"] / rates["model"],
        # from texts in memory: tokenizing, once a run, and one epoch of batches
        "tokens_made_per_cpu_s": tokens / small.tokenise_cpu_s,
        "first_epoch_of_model": (
            1 / rates["model"] / (1 / rates["stream"] + small.tokenise_cpu_s / tokens)
        ),
    }


def main() -> None:
    options = runner.build_parser(__doc__, mb=2, repeat=5, dir=runner.SCRATCH).parse_args()
    result = runner.start_result(repeat=options.repeat, aims=AIMS)
    # more than 4 MB change nothing in the ratios
    source = Path(corpora.build("dense", min(options.mb, 4), options.dir)["path"])
    result["train"] = runner.run_in_subprocess(
        measure_corpus, source, options.repeat, TOKENIZERS_PARALLELISM="false"
    )
    runner.save_result(options.results, "train", result)
    runner.print_aims(result["train"], AIMS)


if __name__ == "__main__":
    main()
