"""Measures drawing words by a masked language model: batched, with the head at the mask alone,
against one forward pass per token.

    python -m benchmarks.bench_dp_mlm                     benchmarks/results/dp_mlm.json
    python -m benchmarks.bench_dp_mlm --device cuda       tokens a second on a GPU
    python -m benchmarks.bench_dp_mlm --words 64 --repeat 1 --results /tmp/x     a smoke run

Both methods use the same model (BERT, two layers, width 128, random weights), rows (pairs of 64
tokens on either side) and mechanism, at vocabularies of 1,000 and 30,000; one thread. The slow
method is that of the published code: one forward pass for each token, logits of the whole
vocabulary at all positions, then the draw.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

from benchmarks import runner
from sanitize.core.exponential_mechanism import ClipBounds, draw_candidates, uniform_from_bits
from sanitize.core.keys import Draws, Key
from sanitize.text.masked_lm import MaskedModel

AIMS = {"1000": 2.0, "30000": 5.0}
EPSILON = 50.0


def write_random_model(folder: Path, size: int) -> Path:
    """Write a BERT with this vocabulary and random weights."""
    torch.manual_seed(0)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [*special, *(f"w{number}" for number in range(size - len(special)))]
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {f"{word.strip('[]').lower()}_token": word for word in special}
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=160, **names
    ).save_pretrained(folder)
    config = BertConfig(
        vocab_size=size,
        max_position_embeddings=160,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=512,
    )
    BertForMaskedLM(config).save_pretrained(folder)
    ClipBounds(-2.0, 2.0, "invented constants", "public").write(folder)
    return folder


def compute_logits_one_by_one(model: Any, rows: Any) -> Any:
    """The logits of one forward pass per row, with the head at every position."""
    for number, row in enumerate(rows):
        ids, types, place = model._encode_pair(row)
        inputs = {
            "input_ids": torch.tensor([ids], device=model.device),
            "token_type_ids": torch.tensor([types], device=model.device),
        }
        logits = model.model(**inputs).logits[0, place, model.candidate_ids].float().cpu().numpy()
        yield np.array([number]), logits[None]


def compare_methods(size: int, words: int, repeat: int, device: str, batch: int) -> dict[str, Any]:
    """Tokens a second of both methods, in alternating rounds, and how many words both draw
    equally."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = write_random_model(Path(name), size)
        model, bounds = MaskedModel(folder, device), ClipBounds.read(folder)
    draws = Draws.from_words(Key.from_seed(1).subkey("bench"), np.arange(words, dtype=np.uint64))
    uniform_bits = uniform_from_bits(draws.u64(0), draws.u64(1))
    vocabulary_words = [f"w{number * 7919 % (size - 5)}" for number in range(words)]
    starts = np.cumsum([0, *(len(word) + 1 for word in vocabulary_words)]).tolist()
    spans = [
        (0, start, start + len(word)) for start, word in zip(starts, vocabulary_words, strict=False)
    ]
    rows = model.build_inputs([" ".join(vocabulary_words)], spans, 64)

    def draw_words(logits_by_rows: Any) -> Any:
        drawn = np.empty(words, np.int64)
        with torch.inference_mode():
            for numbers, logits in logits_by_rows:
                drawn[numbers] = draw_candidates(
                    logits, uniform_bits[numbers], bounds=bounds, epsilon=EPSILON
                )
        return drawn

    methods = {
        "one_by_one": (lambda: draw_words(compute_logits_one_by_one(model, rows)), words),
        "batched": (lambda: draw_words(model.compute_logits(rows, batch)), words),
    }
    clock = time.process_time if device == "cpu" else time.perf_counter
    runner.measure_in_turn(methods, 1)  # warms up
    rates, drawn = runner.measure_in_turn(methods, repeat, clock)
    return {
        "vocabulary": size,
        "tokens_per_s": round(rates["batched"], 1),
        "one_by_one_tokens_per_s": round(rates["one_by_one"], 1),
        "times": round(rates["batched"] / rates["one_by_one"], 2),
        "same_words": int((drawn["one_by_one"] == drawn["batched"]).sum()),
    }


def main() -> None:
    parser = runner.build_parser(__doc__, repeat=3)
    parser.add_argument("--words", type=int, default=256)
    parser.add_argument(
        "--batch", type=int, default=16, help="rows of a forward pass; the editor's default"
    )
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    sizes = {"words": options.words, "batch": options.batch, "device": options.device}
    result = runner.start_result(**sizes, found={}, aims=AIMS)
    for size in AIMS:
        result["found"][size] = runner.run_in_subprocess(
            compare_methods, int(size), options.words, options.repeat, options.device, options.batch
        )
    result["met"] = {size: result["found"][size]["times"] >= aim for size, aim in AIMS.items()}
    runner.save_result(options.results, "dp_mlm", result)
    print(json.dumps(result["found"], indent=2))


if __name__ == "__main__":
    main()
