"""Measures training on a GPU: speed, precision, several processes, private steps; writes
benchmarks/results/gpu.json after each part.

    make gpu                                              GPT-2 of 124 M parameters, new weights,
                                                          invented mails
    python -m benchmarks.bench_gpu --model MODEL          a local model instead; measures an
                                                          adapter, too
    python -m benchmarks.bench_gpu --device cpu --layers 2 --width 32 --heads 2 --context 32 \\
        --batch 4 --steps 6                               a smoke run

Without a GPU nothing is measured, and the exit code is 0. Parts: `loop`, tokens a second of
`sanitize-train` in each setting, with MFU and peak memory; `trainer`, those of the Trainer of
transformers with the same model, rows, optimizer and batches, and `loop_of_trainer`, the ratio;
`precision`, losses in bf16 against float32; `processes`, losses of two processes (DDP)
against one; `private`, memory and speed of DP-SGD by rows of a micro-batch. Rates are medians of
the logged ones after the first, which has the warm-up.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

from benchmarks import corpora, runner
from sanitize import train
from sanitize.train.model import build_model, trainable_parameters
from sanitize.train.recipe import Recipe
from sanitize.train.recipe_data import get_tokenizer, read_recipe_documents

AIMS = {
    "loop_of_trainer": 0.95,
    "largest_loss_difference_of_processes": 1e-3,
    "largest_relative_loss_difference_of_bf16": 0.02,
}
LOGS = 6  # logged rates of a run; the first one is left out
# dense bf16 FLOPs a second, from the vendors' data sheets, by a part of the device's name; the
# first that matches
PEAK_FLOPS = (
    ("B200", 2.25e15),
    ("H200", 989e12),
    ("H100 NVL", 835e12),
    ("H100 PCIe", 756e12),
    ("H100", 989e12),
    ("A100", 312e12),
    ("A10G", 70e12),
    ("L40S", 362e12),
    ("L4", 121e12),
    ("RTX 4090", 165.2e12),
)


class GpuBench:
    """The parts of the measurement, with the settings of the command line."""

    def __init__(self, options: argparse.Namespace, data: Path, folder: Path) -> None:
        self.options, self.folder = options, folder
        sizes = {name: getattr(options, name) for name in ("layers", "width", "heads")}
        model = {"path": str(options.model)} if options.model else {"arch": "gpt2", **sizes}
        self.recipe: dict[str, Any] = {
            "data": {"path": str(data)},
            "model": {**model, "context": options.context, "dropout": 0.0},
            "tokenizer": {} if options.model else {"vocab": options.vocab},
            "run": {
                "batch": options.batch,
                "epochs": 1000,
                "max_steps": options.steps,
                "lr": 1e-4,
                "checkpoint_every": 0,
                "log_every": max(1, options.steps // LOGS),
                "device": options.device,
                "precision": "bf16",
            },
        }

    def train(self, name: str, **sections: dict[str, Any]) -> dict[str, Any]:
        """Train in one setting; return rate, MFU, peak memory and the logged losses."""
        recipe = {
            section: {**self.recipe.get(section, {}), **sections.get(section, {})}
            for section in {**self.recipe, **sections}
        }
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        folder = self.folder / name
        train.fit(recipe, folder)
        result = read_log(folder)
        shutil.rmtree(folder)
        return {**result, "mfu": self.compute_mfu(recipe, result["tokens_per_s"])}

    def compute_mfu(self, table: dict[str, Any], tokens_per_s: float) -> float | None:
        """Return the share of the device's peak of a training (model FLOPs utilization), None where
        the peak is not known."""
        peak = find_peak_flops(self.options.device)
        if peak is None:
            return None
        recipe = Recipe.load(table)
        tokenizer = get_tokenizer(recipe, read_recipe_documents(recipe, recipe.data.path))
        model, context = build_model(
            recipe.model, head="causal", tokenizer=tokenizer, seed=0, lora=recipe.lora
        )
        return tokens_per_s * count_flops_per_token(model, context) / peak

    def measure_loop(self) -> dict[str, Any]:
        """Speed in each setting of memory and speed."""
        settings: dict[str, dict[str, Any]] = {
            "bf16": {},
            "float32": {"run": {"precision": "float32"}},
            "bf16_gradient_checkpointing": {"run": {"gradient_checkpointing": True}},
        }
        if not self.options.no_compile:
            settings["bf16_compile"] = {"run": {"compile": True}}
        if self.options.model:
            settings["lora"] = {"lora": {"rank": 16}}
            settings["lora_frozen_bf16"] = {
                "lora": {"rank": 16},
                "model": {"frozen_dtype": "bfloat16"},
            }
        return {name: self.train(name, **sections) for name, sections in settings.items()}

    def measure_trainer(self) -> dict[str, Any]:
        """Speed of the Trainer of transformers on the same rows, in bf16."""
        transformers.utils.logging.disable_progress_bar()
        recipe = Recipe.load(self.recipe)
        rows = train.stream_batches(recipe).rows
        tokenizer = get_tokenizer(recipe, read_recipe_documents(recipe, recipe.data.path))
        model, context = build_model(recipe.model, head="causal", tokenizer=tokenizer, seed=0)
        starts = rows.row_starts[:-1][rows.lengths == context]
        examples = [
            torch.from_numpy(rows.token_ids[start : start + context].astype("int64"))
            for start in starts.tolist()
        ]
        marks: list[float] = []

        class Clock(transformers.TrainerCallback):
            def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
                if state.global_step % recipe.run.log_every == 0:
                    if torch.cuda.is_available():
                        torch.cuda.synchronize()
                    marks.append(time.perf_counter())

        is_gpu = self.options.device == "cuda"
        trainer = transformers.Trainer(
            model=model,
            args=transformers.TrainingArguments(
                output_dir=str(self.folder / "trainer"),
                per_device_train_batch_size=recipe.run.batch,
                max_steps=recipe.run.max_steps,
                learning_rate=recipe.run.lr,
                bf16=True,
                use_cpu=not is_gpu,
                optim="adamw_torch_fused" if is_gpu else "adamw_torch",
                max_grad_norm=recipe.run.clip,
                weight_decay=recipe.run.weight_decay,
                save_strategy="no",
                logging_steps=recipe.run.log_every,
                report_to=[],
                disable_tqdm=True,
            ),
            train_dataset=[{"input_ids": ids, "labels": ids} for ids in examples],
            callbacks=[Clock()],
        )
        trainer.train()
        tokens = recipe.run.log_every * recipe.run.batch * context
        return {
            "tokens_per_s": statistics.median(
                tokens / (after - before) for before, after in zip(marks, marks[1:], strict=False)
            )
        }

    def compare_precisions(self) -> dict[str, Any]:
        """Losses of the same steps in bf16 and float32."""
        losses = [
            self.train(name, run={"precision": name, "lr": 1e-3})["losses"]
            for name in ("bf16", "float32")
        ]
        differences = [abs(first - second) / second for first, second in zip(*losses, strict=True)]
        return {
            "bf16": losses[0],
            "float32": losses[1],
            "largest_relative_loss_difference_of_bf16": max(differences),
        }

    def compare_processes(self) -> dict[str, Any]:
        """Losses of two processes against one, in float32, and the rates of both."""
        run = {"precision": "float32", "batch": self.options.batch - self.options.batch % 2}
        expected = self.train("one", run=run)
        recipe = {**self.recipe, "run": {**self.recipe["run"], **run}}
        (self.folder / "recipe.json").write_text(json.dumps(recipe))
        script = self.folder / "train.py"
        script.write_text(
            "import json, sys\n"
            "from sanitize import train\n"
            "train.fit(json.load(open(sys.argv[1])), sys.argv[2])\n"
        )
        launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        arguments = (script, self.folder / "recipe.json", self.folder / "two")
        subprocess.run(
            [sys.executable, "-m", *launcher, *map(str, arguments)],
            check=True,
            cwd=runner.ROOT,
            env={**os.environ, "PYTHONPATH": str(runner.ROOT), "OMP_NUM_THREADS": "1"},
            stderr=subprocess.DEVNULL,
        )
        two = read_log(self.folder / "two")
        largest = max(
            abs(first - second)
            for first, second in zip(two["losses"], expected["losses"], strict=True)
        )
        return {"one": expected, "two": two, "largest_loss_difference_of_processes": largest}

    def measure_private(self) -> dict[str, Any]:
        """Memory and speed of DP-SGD by the number of rows whose gradients are held at once."""
        privacy = {"sigma": 1.0, "insecure_seed": 0}
        steps = max(2, self.options.steps // 6)
        found = {}
        for rows in sorted({1, self.options.batch // 4 or 1, self.options.batch}):
            run = {"accumulate": self.options.batch // rows, "max_steps": steps, "log_every": 1}
            found[f"rows_{rows}"] = self.train(
                "private", run=run, data={"layout": "document"}, privacy=privacy
            )
        return found


def find_peak_flops(device: str) -> float | None:
    """Return the peak of a device in bf16 FLOPs a second; None if it is not known."""
    name = torch.cuda.get_device_name(0) if device == "cuda" else ""
    return next((peak for part, peak in PEAK_FLOPS if part in name), None)


def count_flops_per_token(model: Any, context: int) -> float:
    """Return the FLOPs of training by a token (Chowdhery et al. 2022, PaLM, appendix B): 6 for each
    weight of a matrix product, 2 forward and 4 backward, and 12 * layers * width * context for
    attention; 4 for each weight below an adapter, which has no gradient. What gradient
    checkpointing computes again is not counted."""
    trained_names = {name for name, _ in trainable_parameters(model)}
    matrices = {
        name: parameter.numel()
        for name, parameter in model.named_parameters()
        if parameter.ndim > 1
    }
    head = model.get_output_embeddings()
    for name, module in model.named_modules():
        # a table that is read by row multiplies nothing, unless it is tied to the head
        if isinstance(module, torch.nn.Embedding) and (
            head is None or head.weight is not module.weight
        ):
            matrices.pop(f"{name}.weight", None)
    trained = sum(count for name, count in matrices.items() if name in trained_names)
    config = model.config
    attention = 12 * config.num_hidden_layers * config.hidden_size * context
    return float(6 * trained + 4 * (sum(matrices.values()) - trained) + attention)


def read_log(folder: Path) -> dict[str, Any]:
    """Return the rate of a run (median of the logged ones after the first), peak memory where
    known, and its losses."""
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    later = log[1:] or log
    return {
        "tokens_per_s": statistics.median(entry["tokens_per_s"] for entry in later),
        "memory_gb": max(entry["memory_gb"] for entry in log) if "memory_gb" in log[0] else None,
        "losses": [round(entry["loss"], 6) for entry in log],
    }


def describe_device(device: str) -> dict[str, Any]:
    """The machine, with its GPU and torch."""
    is_gpu = device == "cuda"
    return {
        **runner.describe_machine(),
        "gpu": torch.cuda.get_device_name(0) if is_gpu else None,
        "gpus": torch.cuda.device_count() if is_gpu else 0,
        "gpu_memory_gb": (
            round(torch.cuda.get_device_properties(0).total_memory / 1e9, 1) if is_gpu else None
        ),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def main() -> None:
    parser = runner.build_parser(__doc__)
    parser.add_argument(
        "--model", type=Path, help="a local model; default: a new GPT-2 of the sizes below"
    )
    sizes = {"layers": 12, "width": 768, "heads": 12, "context": 1024, "vocab": 32768}
    for name, default in {**sizes, "batch": 16, "steps": 60}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument(
        "--parts",
        default="loop,trainer,precision,processes,private",
        help="what is measured, in this order",
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument(
        "--data", type=Path, help="documents to train on; default: 4 MB of invented mails"
    )
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        print("no GPU: nothing measured (--device cpu for a smoke run)")
        return
    data = options.data or Path(corpora.build("dense", 4, runner.SCRATCH)["path"])
    settings = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in vars(options).items()
        if name != "results"
    }
    result = runner.start_result(settings=settings, aims=AIMS)
    result["machine"] = describe_device(options.device)
    with tempfile.TemporaryDirectory() as folder:
        bench = GpuBench(options, data, Path(folder))
        parts: dict[str, Callable[[], dict[str, Any]]] = {
            "loop": bench.measure_loop,
            "trainer": bench.measure_trainer,
            "precision": bench.compare_precisions,
            "processes": bench.compare_processes,
            "private": bench.measure_private,
        }
        for name in options.parts.split(","):
            cost, result[name] = runner.measure_call(parts[name])
            print(f"{name}: {cost.wall_s:.0f} s", flush=True)
            if "loop" in result and "trainer" in result:
                result["loop_of_trainer"] = (
                    result["loop"]["bf16"]["tokens_per_s"] / result["trainer"]["tokens_per_s"]
                )
            runner.save_result(options.results, "gpu", result)


if __name__ == "__main__":
    main()
