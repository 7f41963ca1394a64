"""Measures drawing words by a masked language model: batched, with the head at the mask alone,
against one forward pass per token.

    python -m benchmarks.bench_dp_mlm                                        benchmarks/results/dp_mlm.json
    python -m benchmarks.bench_dp_mlm --words 64 --repeat 1 --results /tmp/x   a smoke run
    python -m benchmarks.bench_dp_mlm --device cuda                          tokens a second on a GPU

Both methods use the same model (BERT, two layers, width 128, random weights), rows (pairs of 64
tokens on either side) and mechanism, at vocabularies of 1,000 and 30,000; one thread. The slow
method is that of the published code: one forward pass for each token, logits of the whole
vocabulary at all positions, then the draw.
"""  # noqa: E501

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench import ONE_THREAD, describe_machine

AIMS = {"1000": 2.0, "30000": 5.0}
EPSILON = 50.0


def write_random_model(folder: Path, size: int) -> Path:
    """Write a BERT with this vocabulary and random weights."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

    from sanitize.core.exponential_mechanism import ClipBounds

    torch.manual_seed(0)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {
        word: number
        for number, word in enumerate(
            [*special, *(f"w{number}" for number in range(size - len(special)))]
        )
    }
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=160, **names
    ).save_pretrained(folder)
    sizes = {
        "hidden_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 512,
    }
    BertForMaskedLM(
        BertConfig(vocab_size=size, max_position_embeddings=160, **sizes)
    ).save_pretrained(folder)
    ClipBounds(-2.0, 2.0, "invented constants", "public").write(folder)
    return folder


def draw_one_by_one(model: Any, rows: Any, uniform_bits: Any, bounds: Any) -> list[int]:
    """Draw with one forward pass per row, with the head at every position."""
    import torch

    from sanitize.core.exponential_mechanism import draw_candidates

    drawn = []
    with torch.inference_mode():
        for number, row in enumerate(rows):
            ids, types, place = model._encode_pair(row)
            inputs = {
                "input_ids": torch.tensor([ids], device=model.device),
                "token_type_ids": torch.tensor([types], device=model.device),
            }
            logits = (
                model.model(**inputs).logits[0, place, model.candidate_ids].float().cpu().numpy()
            )
            drawn.append(
                int(
                    draw_candidates(
                        logits[None],
                        uniform_bits[number : number + 1],
                        bounds=bounds,
                        epsilon=EPSILON,
                    )[0]
                )
            )
    return drawn


def draw_batched(model: Any, rows: Any, uniform_bits: Any, bounds: Any, batch: int) -> list[int]:
    """Draw in batches, as the editor does."""
    from sanitize.core.exponential_mechanism import draw_candidates

    drawn = np.empty(len(rows), np.int64)
    for row_numbers, logits in model.compute_logits(rows, batch):
        drawn[row_numbers] = draw_candidates(
            logits, uniform_bits[row_numbers], bounds=bounds, epsilon=EPSILON
        )
    return [int(number) for number in drawn]


def compare_methods(size: int, words: int, repeat: int, device: str, batch: int) -> dict[str, Any]:
    """Tokens a second of both methods, in alternating rounds, and how many words both draw
    equally."""
    import torch

    from sanitize.core.exponential_mechanism import ClipBounds, uniform_from_bits
    from sanitize.core.keys import Draws, Key
    from sanitize.text.masked_lm import MaskedModel

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        model, bounds = (
            MaskedModel(write_random_model(Path(folder), size), device),
            ClipBounds.read(Path(folder)),
        )
    draws = Draws.from_words(Key.from_seed(1).subkey("bench"), np.arange(words, dtype=np.uint64))
    uniform_bits = uniform_from_bits(draws.u64(0), draws.u64(1))
    vocabulary_words = [f"w{number * 7919 % (size - 5)}" for number in range(words)]
    text = " ".join(vocabulary_words)
    edges = np.cumsum([0, *(len(word) + 1 for word in vocabulary_words)])
    rows = model.build_inputs(
        [text],
        [
            (0, int(start), int(start) + len(word))
            for start, word in zip(edges[:-1], vocabulary_words, strict=True)
        ],
        64,
    )
    rates: dict[str, list[float]] = {"one_by_one": [], "batched": []}
    same = 0
    for _ in range(repeat + 1):  # the first round warms up, and is not counted
        drawn = {}
        for name, work in (("one_by_one", draw_one_by_one), ("batched", draw_batched)):
            before, wall = time.process_time(), time.perf_counter()
            drawn[name] = work(
                model, rows, uniform_bits, bounds, *([batch] if name == "batched" else [])
            )
            spent = time.perf_counter() - wall if device != "cpu" else time.process_time() - before
            rates[name].append(words / spent)
        same = sum(x == y for x, y in zip(*drawn.values(), strict=True))
    slow, fast = (statistics.median(rates[name][1:]) for name in ("one_by_one", "batched"))
    return {
        "vocabulary": size,
        "tokens_per_s": round(fast, 1),
        "one_by_one_tokens_per_s": round(slow, 1),
        "times": round(fast / slow, 2),
        "same_words": same,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--words", type=int, default=256)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument(
        "--batch", type=int, default=16, help="rows of a forward pass; the editor's default"
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    os.environ.update(ONE_THREAD)
    results = {
        str(size): compare_methods(
            size, options.words, options.repeat, options.device, options.batch
        )
        for size in (1000, 30_000)
    }
    result = {
        "date": datetime.date.today().isoformat(),
        "machine": describe_machine(),
        "words": options.words,
        "batch": options.batch,
        "device": options.device,
        "found": results,
        "aims": AIMS,
        "met": {size: results[size]["times"] >= aim for size, aim in AIMS.items()},
    }
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "dp_mlm.json").write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    print(json.dumps(result["found"], indent=2))


if __name__ == "__main__":
    main()
