"""Measures the speed-up of attacks by batching, in CPU-seconds of one thread: continuations, and
the ranking of Recollect and Rank.

    python -m benchmarks.bench_eval                    benchmarks/results/eval.json

A GPT-2 of two layers (width 64) with random weights continues prompts of fifty tokens by 128,
greedily and without an end of text, as `sanitize.eval.language_model.LanguageModel.generate` does
for the attacks; `of_transformers` compares with `generate` of transformers on the same batches. The
ranking scores candidates with victim and reference, in every segment of their label: in batches, as
`recollect_and_rank.compute_candidate_losses` does, against one candidate in one segment at a time;
both must give the same losses.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
from pathlib import Path
from typing import Any

from benchmarks.bench import ONE_THREAD, describe_machine
from benchmarks.bench_reduce import measure_in_turn

AIMS = {"batched_of_unbatched": 20.0, "ranked_together_of_one_by_one": 5.0}
PROMPT, NEW, VOCABULARY = 50, 128, 1024


def measure_generation(batch: int, few: int, repeat: int) -> dict[str, Any]:
    """Tokens per CPU-second of each method, medians of alternating rounds."""
    import numpy as np
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    from sanitize.eval.language_model import LanguageModel, import_torch

    import_torch()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=256,
        n_embd=64,
        n_layer=2,
        n_head=4,
        initializer_range=0.25,
        bos_token_id=0,
        eos_token_id=0,
    )
    plain = GPT2LMHeadModel(config).eval()
    tokenizer: Any = type(
        "Words", (), {"eos_token_id": 0, "pad_token_id": 1, "__len__": lambda self: VOCABULARY}
    )()
    model = LanguageModel.from_loaded(plain, tokenizer)
    prompts = np.random.default_rng(0).integers(2, VOCABULARY, size=(batch, PROMPT)).tolist()

    def generate_batched() -> Any:
        return model.generate(prompts, new_tokens=NEW, batch=batch, stop_at_eos=False)

    def generate_single() -> Any:
        return model.generate(prompts[:few], new_tokens=NEW, batch=1, stop_at_eos=False)

    def generate_with_transformers() -> Any:
        ids = torch.tensor(prompts)
        output = plain.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=NEW,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=1,
        )
        return output[:, PROMPT:].tolist()

    methods = {
        "batched": (generate_batched, batch * NEW),
        "unbatched": (generate_single, few * NEW),
        "transformers": (generate_with_transformers, batch * NEW),
    }
    token_rates, outputs = measure_in_turn(methods, repeat)
    assert outputs["batched"] == outputs["transformers"], "both methods must give the same tokens"
    assert outputs["unbatched"] == outputs["batched"][:few], "a batch must change nothing"
    return {
        "batch": batch,
        "prompt_tokens": PROMPT,
        "new_tokens": NEW,
        "tokens_per_cpu_s": token_rates,
        "batched_of_unbatched": token_rates["batched"] / token_rates["unbatched"],
        "batched_of_transformers": token_rates["batched"] / token_rates["transformers"],
    }


def measure_ranking(texts: int, candidates: int, repeat: int) -> dict[str, Any]:
    """Candidates in segments per CPU-second, ranked in batches and one by one."""
    import numpy as np
    import polars as pl
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    from sanitize.eval.language_model import LanguageModel, import_torch
    from sanitize.eval.recollect_and_rank import (
        AttackSettings,
        MaskedRecords,
        compute_candidate_losses,
        compute_segment_losses,
        cut_segments,
    )
    from sanitize.train.model import train_tokenizer

    import_torch()
    torch.set_num_threads(1)
    draws = np.random.default_rng(0)
    words = [
        f"{one}{two}"
        for one in ("ba", "de", "ki", "lo", "mu", "ne", "ra", "su")
        for two in ("na", "ret", "lim", "dor", "vast")
    ]

    def random_words(count: int) -> str:
        return " ".join(words[place] for place in draws.integers(len(words), size=count))

    # two values in two or three places each, as in a mail; thirty to sixty words
    masked = [
        f"{random_words(9)} [PERSON-1] {random_words(12)} [EMAIL_ADDRESS-1] {random_words(8)}"
        f" [PERSON-1] {random_words(7)}" + f" {random_words(5)} [EMAIL_ADDRESS-1]" * (number % 2)
        for number in range(texts)
    ]
    records = MaskedRecords.from_texts(
        masked, [{"[PERSON-1]": ["x"], "[EMAIL_ADDRESS-1]": ["y"]}] * texts
    )
    candidate_rows = pl.DataFrame(
        [
            (key, place, random_words(2), place, 1)
            for key in records.keys["key"]
            for place in range(candidates)
        ],
        schema={
            "key": pl.Int64,
            "place": pl.Int64,
            "candidate": pl.String,
            "query": pl.Int64,
            "votes": pl.Int64,
        },
        orient="row",
    )
    tokenizer = train_tokenizer([*masked, *words], vocab_size=VOCABULARY, context_length=256)
    models = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        config = GPT2Config(
            vocab_size=len(tokenizer),
            n_positions=256,
            n_embd=64,
            n_layer=2,
            n_head=4,
            initializer_range=0.25,
        )
        models.append(LanguageModel.from_loaded(GPT2LMHeadModel(config).eval(), tokenizer))
    segments_by_key = [
        cut_segments(records.texts[text_no], label)
        for text_no, label in records.keys.select("text_no", "label").iter_rows()
    ]
    rows = [
        (before, candidate, after)
        for key, candidate in candidate_rows.select("key", "candidate").iter_rows()
        for before, after in segments_by_key[key]
    ]

    def rank_batched() -> Any:
        return (
            compute_candidate_losses(
                models[0], models[1], records, candidate_rows, AttackSettings()
            )
            .select("victim", "reference")
            .to_numpy()
        )

    def rank_one_by_one() -> Any:
        return np.array(
            [
                [
                    compute_segment_losses(model, *([part] for part in row), batch=1)[0][0]
                    for model in models
                ]
                for row in rows
            ]
        )

    segment_rates, outputs = measure_in_turn(
        {"together": (rank_batched, len(rows)), "one_by_one": (rank_one_by_one, len(rows))}, repeat
    )
    assert np.allclose(outputs["together"], outputs["one_by_one"], atol=1e-4), (
        "a batch must change nothing"
    )
    return {
        "segments": len(rows),
        "segments_per_cpu_s": segment_rates,
        "ranked_together_of_one_by_one": segment_rates["together"] / segment_rates["one_by_one"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mb", type=int, default=100, help="accepted for `make bench`; not used")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--few", type=int, default=8, help="prompts that are continued one by one")
    parser.add_argument(
        "--texts", type=int, default=40, help="masked texts whose candidates are ranked"
    )
    parser.add_argument("--candidates", type=int, default=12, help="of each label")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    os.environ.update(ONE_THREAD)  # before anything that reads it is imported
    about = describe_machine()
    about["versions"] |= {
        name: importlib.metadata.version(name) for name in ("torch", "transformers")
    }
    result = {
        "date": datetime.date.today().isoformat(),
        "machine": about,
        "repeat": options.repeat,
        "aims": AIMS,
    }
    result |= measure_generation(options.batch, options.few, options.repeat)
    result |= measure_ranking(options.texts, options.candidates, options.repeat)
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "eval.json").write_text(json.dumps(result, indent=1) + "\n")
    for what, aim in AIMS.items():
        print(f"{what} {result[what]:.1f} (aim {aim:g})")


if __name__ == "__main__":
    main()
