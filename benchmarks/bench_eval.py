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

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from benchmarks import runner
from sanitize.eval.language_model import LanguageModel
from sanitize.eval.recollect_and_rank import (
    AttackSettings,
    MaskedRecords,
    compute_candidate_losses,
    compute_segment_losses,
    cut_segments,
)
from sanitize.train.model import require_torch, train_tokenizer

AIMS = {"batched_of_unbatched": 20.0, "ranked_together_of_one_by_one": 5.0}
PROMPT, NEW, VOCABULARY = 50, 128, 1024


def build_random_model(vocab_size: int, seed: int, **settings: Any) -> Any:
    """A GPT-2 of two layers with random weights."""
    require_torch()
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=vocab_size,
        n_positions=256,
        n_embd=64,
        n_layer=2,
        n_head=4,
        initializer_range=0.25,
        **settings,
    )
    return GPT2LMHeadModel(config).eval()


def generate_by_transformers(
    model: Any, prompts: Sequence[list[int]], new_tokens: int, pad_id: int, **settings: Any
) -> list[list[int]]:
    """Continuations of equally long prompts by `generate` of transformers, without an end of
    text."""
    ids = torch.tensor(prompts)
    output = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=new_tokens,
        min_new_tokens=new_tokens,
        eos_token_id=None,
        pad_token_id=pad_id,
        **settings,
    )
    continuations: list[list[int]] = output[:, ids.shape[1] :].tolist()
    return continuations


def measure_generation(batch: int, few: int, repeat: int) -> dict[str, Any]:
    """Tokens per CPU-second of each method, medians of alternating rounds."""
    plain = build_random_model(VOCABULARY, 0, bos_token_id=0, eos_token_id=0)
    tokenizer: Any = type(
        "Words", (), {"eos_token_id": 0, "pad_token_id": 1, "__len__": lambda self: VOCABULARY}
    )()
    model = LanguageModel.from_loaded(plain, tokenizer)
    prompts = np.random.default_rng(0).integers(2, VOCABULARY, size=(batch, PROMPT)).tolist()

    def generate(prompts: list[list[int]], rows: int) -> Any:
        return model.generate(prompts, new_tokens=NEW, batch=rows, stop_at_eos=False)

    methods = {
        "batched": (lambda: generate(prompts, batch), batch * NEW),
        "unbatched": (lambda: generate(prompts[:few], 1), few * NEW),
        "transformers": (
            lambda: generate_by_transformers(plain, prompts, NEW, 1, do_sample=False),
            batch * NEW,
        ),
    }
    token_rates, outputs = runner.measure_in_turn(methods, repeat)
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
        schema=["key", "place", "candidate", "query", "votes"],
        orient="row",
    )
    tokenizer = train_tokenizer([*masked, *words], vocab_size=VOCABULARY, context_length=256)
    victim, reference = (
        LanguageModel.from_loaded(build_random_model(len(tokenizer), seed), tokenizer)
        for seed in (0, 1)
    )
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
        losses = compute_candidate_losses(
            victim, reference, records, candidate_rows, AttackSettings()
        )
        return losses.select("victim", "reference").to_numpy()

    def rank_one_by_one() -> Any:
        return [
            [
                compute_segment_losses(model, *([part] for part in row), batch=1)[0][0]
                for model in (victim, reference)
            ]
            for row in rows
        ]

    segment_rates, outputs = runner.measure_in_turn(
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
    # `make bench` gives one --mb to all benchmarks; here it has no effect
    parser = runner.build_parser(__doc__, mb=100, repeat=3)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--few", type=int, default=8, help="prompts that are continued one by one")
    parser.add_argument(
        "--texts", type=int, default=40, help="masked texts whose candidates are ranked"
    )
    parser.add_argument("--candidates", type=int, default=12, help="of each label")
    options = parser.parse_args()
    result = runner.start_result("torch", "transformers", repeat=options.repeat, aims=AIMS)
    for measure, sizes in (
        (measure_generation, (options.batch, options.few)),
        (measure_ranking, (options.texts, options.candidates)),
    ):
        result |= runner.run_in_subprocess(measure, *sizes, options.repeat)
    runner.save_result(options.results, "eval", result)
    runner.print_aims(result, AIMS)


if __name__ == "__main__":
    main()
