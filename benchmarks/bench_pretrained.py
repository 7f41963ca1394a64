"""Measures training, scoring and generation on a pretrained model beside plain code of PyTorch and
transformers, in tokens per CPU-second.

    make model && python -m benchmarks.bench_pretrained   benchmarks/results/pretrained.json
    python -m benchmarks.bench_pretrained --model MODEL --repeat 1 --results /tmp/x

One thread, float32, invented mails; medians of rounds that take turns. The plain code is what a
script has that uses the library alone:

- training: a loop of forward, backward, clipping, AdamW over the same batches, from the same
  weights;
- scoring: a forward pass and the cross entropy of each batch; with rows of one length, and with
  mails in the order in which they come, padded to the longest of their batch;
- generation: `generate` of transformers, for the same batch, for one prompt at a time, and for 40
  sampled continuations of a prompt.

Both sides must give the same losses and the same tokens (of sampled ones, the same number). The
exit code is 8 where the model is missing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from transformers import AutoModelForCausalLM

from benchmarks import corpora, runner
from benchmarks.bench_eval import generate_by_transformers
from benchmarks.bench_train import TrainingBench
from benchmarks.pretrained_model import DEFAULT_FOLDER
from sanitize.eval.language_model import LanguageModel

AIMS = {
    "train_of_plain": 0.95,
    "score_rows_of_plain": 0.95,
    "score_mails_of_plain": 0.95,
    "generate_of_transformers": 0.95,
    "generate_of_one_by_one": 2.0,
    "queries_of_transformers": 2.0,
}
CONTEXT, BATCH, STEPS = 256, 2, 3  # of training
SCORED_ROWS, SCORE_BATCH = 24, 8
PROMPTS, FEW, PROMPT_TOKENS, NEW_TOKENS = 32, 4, 50, 32
MASKED_TEXTS, TEXT_TOKENS, QUERIES, QUERY_TOKENS = 2, 150, 40, 16  # as in Recollect and Rank


def measure_training(path: Path, source: Path, repeat: int) -> dict[str, Any]:
    """Tokens per CPU-second of `Trainer` and of a plain loop over the same batches."""
    torch.set_num_threads(1)
    bench = TrainingBench(
        "finetune",
        source,
        f"model.path={json.dumps(str(path))}",
        f"model.context={CONTEXT}",
        f"run.batch={BATCH}",
        f"run.max_steps={STEPS}",
        "run.schedule=constant",
        "run.warmup=0.0",
    )
    settings = bench.recipe.run
    plain = AutoModelForCausalLM.from_pretrained(
        path, dtype=torch.float32, local_files_only=True
    ).train()
    optimizer = torch.optim.AdamW(
        plain.parameters(),
        lr=settings.lr,
        betas=settings.betas,
        eps=settings.epsilon,
        weight_decay=0.0,
    )
    batches = []
    for step in range(STEPS):
        batch = bench.rows.make_batch(bench.plan.get_step_rows(step), 0)
        ids = torch.from_numpy(batch.token_ids.astype("int64"))
        batches.append(
            {"input_ids": ids, "labels": ids.masked_fill(~torch.from_numpy(batch.loss_mask), -100)}
        )

    def train_plain() -> None:
        for batch in batches:
            plain(**batch).loss.backward()
            torch.nn.utils.clip_grad_norm_(plain.parameters(), settings.clip)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    methods = {"trainer": (bench.loop.train, bench.tokens), "plain": (train_plain, bench.tokens)}
    runner.measure_in_turn(methods, 1)  # the first round pays for pages
    token_rates, _ = runner.measure_in_turn(methods, repeat)
    with torch.inference_mode():
        losses = [float(model(**batches[0]).loss) for model in (bench.loop.model, plain)]
    assert abs(losses[0] - losses[1]) < 1e-3, f"both loops must train alike: losses {losses}"
    return {
        "parameters": sum(parameter.numel() for parameter in plain.parameters()),
        "train_tokens_per_cpu_s": token_rates,
        "train_of_plain": token_rates["trainer"] / token_rates["plain"],
        "loss_difference": abs(losses[0] - losses[1]),
    }


def read_tokens(model: Any, source: Path, count: int, longest: int) -> list[list[int]]:
    """Return the first `count` texts of a corpus as tokens, each cut to `longest`."""
    texts = pl.scan_parquet(source / "*.parquet").select("text").head(count).collect()["text"]
    return [row[:longest] for row in model.encode(texts.to_list())]


def measure_scoring(model: Any, source: Path, repeat: int) -> dict[str, Any]:
    """Tokens per CPU-second of `token_losses` and of a plain forward pass with cross entropy."""

    def score_plainly(rows: Sequence[list[int]]) -> list[Any]:
        losses = []
        for first in range(0, len(rows), SCORE_BATCH):
            batch = rows[first : first + SCORE_BATCH]
            width = max(map(len, batch))
            ids = torch.tensor([row + [model.pad_id] * (width - len(row)) for row in batch])
            mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in batch])
            with torch.inference_mode():
                logits = model.model(input_ids=ids, attention_mask=mask).logits[:, :-1]
                found = torch.nn.functional.cross_entropy(
                    logits.transpose(1, 2), ids[:, 1:], reduction="none"
                )
            losses += [loss[: len(row) - 1].numpy() for row, loss in zip(batch, found, strict=True)]
        return losses

    mails = read_tokens(model, source, SCORED_ROWS, CONTEXT)
    joined = [
        token for row in read_tokens(model, source, 40 * SCORED_ROWS, CONTEXT) for token in row
    ]
    packed = [joined[CONTEXT * number : CONTEXT * (number + 1)] for number in range(SCORED_ROWS)]
    result: dict[str, Any] = {"score_tokens_per_cpu_s": {}}
    for name, rows in (("rows", packed), ("mails", mails)):
        tokens = sum(map(len, rows))
        methods = {
            "ours": (partial(model.token_losses, rows, batch=SCORE_BATCH), tokens),
            "plain": (partial(score_plainly, rows), tokens),
        }
        token_rates, outputs = runner.measure_in_turn(methods, repeat)
        assert all(
            np.allclose(*pair, atol=1e-3)
            for pair in zip(outputs["ours"], outputs["plain"], strict=True)
        ), "losses differ"
        result["score_tokens_per_cpu_s"][name] = token_rates
        result[f"score_{name}_of_plain"] = token_rates["ours"] / token_rates["plain"]
    return result


def measure_generation(model: Any, source: Path, repeat: int) -> dict[str, Any]:
    """New tokens per CPU-second: a batch of prompts, one prompt at a time, and 40 sampled
    continuations of each masked text."""
    rows = [row for row in read_tokens(model, source, 400, TEXT_TOKENS) if len(row) == TEXT_TOKENS]
    prompts, texts = [row[:PROMPT_TOKENS] for row in rows[:PROMPTS]], rows[:MASKED_TEXTS]
    assert len(prompts) == PROMPTS

    def generate_ours() -> Any:
        return model.generate(prompts, new_tokens=NEW_TOKENS, batch=PROMPTS, stop_at_eos=False)

    generate_theirs = partial(generate_by_transformers, model.model, pad_id=model.pad_id)

    def generate_one_by_one() -> Any:
        return [
            generate_theirs([prompt], NEW_TOKENS, do_sample=False)[0] for prompt in prompts[:FEW]
        ]

    def query_ours() -> Any:
        queries = [text for text in texts for _ in range(QUERIES)]
        return model.generate(
            queries,
            new_tokens=QUERY_TOKENS,
            batch=len(queries),
            mode="sample",
            top_k=40,
            stop_at_eos=False,
        )

    def query_theirs() -> Any:
        return generate_theirs(
            texts, QUERY_TOKENS, do_sample=True, top_k=40, num_return_sequences=QUERIES
        )

    token_rates, outputs = runner.measure_in_turn(
        {
            "batch": (generate_ours, PROMPTS * NEW_TOKENS),
            "batch_of_transformers": (
                lambda: generate_theirs(prompts, NEW_TOKENS, do_sample=False),
                PROMPTS * NEW_TOKENS,
            ),
            "one_by_one_of_transformers": (generate_one_by_one, FEW * NEW_TOKENS),
            "queries": (query_ours, MASKED_TEXTS * QUERIES * QUERY_TOKENS),
            "queries_of_transformers": (query_theirs, MASKED_TEXTS * QUERIES * QUERY_TOKENS),
        },
        repeat,
    )
    assert outputs["batch"] == outputs["batch_of_transformers"], (
        "both methods must give the same tokens"
    )
    assert outputs["one_by_one_of_transformers"] == outputs["batch"][:FEW], (
        "a batch must change nothing"
    )
    for name in ("queries", "queries_of_transformers"):
        assert {len(row) for row in outputs[name]} == {QUERY_TOKENS} and len(
            outputs[name]
        ) == MASKED_TEXTS * QUERIES
    return {
        "generated_tokens_per_cpu_s": token_rates,
        "generate_of_transformers": token_rates["batch"] / token_rates["batch_of_transformers"],
        "generate_of_one_by_one": token_rates["batch"] / token_rates["one_by_one_of_transformers"],
        "queries_of_transformers": token_rates["queries"] / token_rates["queries_of_transformers"],
    }


def measure_evaluation(path: Path, source: Path, repeat: int) -> dict[str, Any]:
    """Scoring and generation, with one loaded model."""
    torch.set_num_threads(1)
    model = LanguageModel.load(path, "cpu")
    return measure_scoring(model, source, repeat) | measure_generation(model, source, repeat)


def main() -> None:
    parser = runner.build_parser(__doc__, repeat=3, dir=runner.SCRATCH)
    parser.add_argument(
        "--model",
        type=Path,
        default=DEFAULT_FOLDER,
        help="a causal model, as `make model` writes it",
    )
    options = parser.parse_args()
    if not (options.model / "config.json").is_file():
        print(
            f"{options.model}: no model; expected a folder that `make model` writes, or --model"
            " MODEL",
            file=sys.stderr,
        )
        raise SystemExit(8)
    source = Path(corpora.build("dense", 2, options.dir)["path"])
    result = runner.start_result("torch", "transformers", repeat=options.repeat, aims=AIMS)
    for measure in (measure_training, measure_evaluation):
        result |= runner.run_in_subprocess(
            measure, options.model.resolve(), source, options.repeat, TOKENIZERS_PARALLELISM="false"
        )
    runner.save_result(options.results, "pretrained", result)
    runner.print_aims(result, AIMS)


if __name__ == "__main__":
    main()
