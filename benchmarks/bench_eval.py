"""How much faster continuations come in batches: tokens per CPU-second of one thread, batched against one prompt at a time.

    python -m benchmarks.bench_eval                    benchmarks/results/eval.json

A GPT-2 of two layers (width 64) with random weights continues prompts of fifty tokens by 128, greedily and without an end, as
`eval.model.Model.generate` does for the attacks; `of_transformers` compares with `generate` of transformers on the same batches.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import statistics
from pathlib import Path
from typing import Any

from benchmarks.bench import ONE_THREAD, machine
from benchmarks.bench_reduce import cpu_s

AIMS = {"batched_of_unbatched": 20.0}
PROMPT, NEW, VOCABULARY = 50, 128, 1024


def rates(batch: int, few: int, repeat: int) -> dict[str, Any]:
    """Tokens per CPU-second of each way, the best of some rounds that take turns."""
    import numpy as np
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    from eval.model import Model, learn

    learn()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=VOCABULARY, n_positions=256, n_embd=64, n_layer=2, n_head=4, initializer_range=0.25, bos_token_id=0, eos_token_id=0
    )
    plain = GPT2LMHeadModel(config).eval()
    tokenizer: Any = type("Words", (), {"eos_token_id": 0, "pad_token_id": 1, "__len__": lambda self: VOCABULARY})()
    model = Model.of(plain, tokenizer)
    prompts = np.random.default_rng(0).integers(2, VOCABULARY, size=(batch, PROMPT)).tolist()

    def together() -> Any:
        return model.generate(prompts, new_tokens=NEW, batch=batch, stop_at_eos=False)

    def alone() -> Any:
        return model.generate(prompts[:few], new_tokens=NEW, batch=1, stop_at_eos=False)

    def theirs() -> Any:
        ids = torch.tensor(prompts)
        told = plain.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW, do_sample=False, eos_token_id=None, pad_token_id=1
        )
        return told[:, PROMPT:].tolist()

    ways = {"batched": (together, batch), "unbatched": (alone, few), "transformers": (theirs, batch)}
    spent: dict[str, list[float]] = {name: [] for name in ways}
    made: dict[str, Any] = {}
    for _ in range(repeat):
        for name, (work, _) in ways.items():
            seconds, made[name] = cpu_s(work)
            spent[name].append(seconds)
    assert made["batched"] == made["transformers"], "both ways must give the same tokens"
    assert made["unbatched"] == made["batched"][:few], "a batch must change nothing"
    told = {name: count * NEW / statistics.median(spent[name]) for name, (_, count) in ways.items()}
    return {
        "batch": batch,
        "prompt_tokens": PROMPT,
        "new_tokens": NEW,
        "tokens_per_cpu_s": told,
        "batched_of_unbatched": told["batched"] / told["unbatched"],
        "batched_of_transformers": told["batched"] / told["transformers"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mb", type=int, default=100, help="taken for the sake of `make bench`; nothing here depends on it")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--few", type=int, default=8, help="prompts that are continued one by one")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    os.environ.update(ONE_THREAD)  # before anything that reads it is imported
    about = machine()
    about["versions"] |= {name: importlib.metadata.version(name) for name in ("torch", "transformers")}
    result = {"date": datetime.date.today().isoformat(), "machine": about, "repeat": options.repeat, "aims": AIMS}
    result |= rates(options.batch, options.few, options.repeat)
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "eval.json").write_text(json.dumps(result, indent=1) + "\n")
    for what, aim in AIMS.items():
        print(f"{what} {result[what]:.1f} (aim {aim:g})")


if __name__ == "__main__":
    main()
