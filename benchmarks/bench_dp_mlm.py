"""What a word drawn by a masked language model costs: batched, with the head at the mask alone, against one forward a token.

    python -m benchmarks.bench_dp_mlm                                        benchmarks/results/dp_mlm.json
    python -m benchmarks.bench_dp_mlm --words 64 --repeat 1 --results /tmp/x   a smoke run
    python -m benchmarks.bench_dp_mlm --device cuda                          tokens a second where a GPU is at hand

Both ways have the same model (BERT, two layers, width 128, invented weights), rows (pairs of 64 tokens on either side) and mechanism, at
vocabularies of 1,000 and 30,000; one thread. The slow way is how the published code goes: one forward for each token, logits of the whole
vocabulary at all positions, then the draw.
"""

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

from benchmarks.bench import ONE_THREAD, machine

AIMS = {"1000": 2.0, "30000": 5.0}
EPSILON = 50.0


def model_in(folder: Path, size: int) -> Path:
    """A BERT of this vocabulary, with weights that nobody trained."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

    from sanitize.core.exponential_mechanism import ClipBounds

    torch.manual_seed(0)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {word: number for number, word in enumerate([*special, *(f"w{number}" for number in range(size - len(special)))])}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=160, **names).save_pretrained(folder)
    sizes = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512}
    BertForMaskedLM(BertConfig(vocab_size=size, max_position_embeddings=160, **sizes)).save_pretrained(folder)
    ClipBounds(-2.0, 2.0, "invented constants", "public").write(folder)
    return folder


def one_by_one(model: Any, rows: Any, at: Any, bounds: Any) -> list[int]:
    """A forward for each row, with the head at every position."""
    import torch

    from sanitize.core.exponential_mechanism import draw_candidates

    found = []
    with torch.inference_mode():
        for number, row in enumerate(rows):
            ids, types, place = model._encode_pair(row)
            given = {"input_ids": torch.tensor([ids], device=model.device), "token_type_ids": torch.tensor([types], device=model.device)}
            logits = model.model(**given).logits[0, place, model.candidate_ids].float().cpu().numpy()
            found.append(int(draw_candidates(logits[None], at[number : number + 1], bounds=bounds, epsilon=EPSILON)[0]))
    return found


def batched(model: Any, rows: Any, at: Any, bounds: Any, batch: int) -> list[int]:
    """The way of the editor."""
    from sanitize.core.exponential_mechanism import draw_candidates

    found = np.empty(len(rows), np.int64)
    for some, logits in model.compute_logits(rows, batch):
        found[some] = draw_candidates(logits, at[some], bounds=bounds, epsilon=EPSILON)
    return [int(number) for number in found]


def measured(size: int, words: int, repeat: int, device: str, batch: int) -> dict[str, Any]:
    """Tokens a second of both ways, taken in turn; that they draw the same words is part of it."""
    import torch

    from sanitize.core.exponential_mechanism import ClipBounds, uniform_from_bits
    from sanitize.core.keys import Draws, Key
    from sanitize.text.masked_lm import MaskedModel

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        model, bounds = MaskedModel(model_in(Path(folder), size), device), ClipBounds.read(Path(folder))
    draws = Draws.from_words(Key.from_seed(1).subkey("bench"), np.arange(words, dtype=np.uint64))
    at = uniform_from_bits(draws.u64(0), draws.u64(1))
    said = [f"w{number * 7919 % (size - 5)}" for number in range(words)]
    text = " ".join(said)
    edges = np.cumsum([0, *(len(word) + 1 for word in said)])
    rows = model.build_inputs([text], [(0, int(start), int(start) + len(word)) for start, word in zip(edges[:-1], said, strict=True)], 64)
    rates: dict[str, list[float]] = {"one_by_one": [], "batched": []}
    same = 0
    for _ in range(repeat + 1):  # the first round warms up, and is not counted
        drawn = {}
        for name, work in (("one_by_one", one_by_one), ("batched", batched)):
            before, wall = time.process_time(), time.perf_counter()
            drawn[name] = work(model, rows, at, bounds, *([batch] if name == "batched" else []))
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, default=256)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--batch", type=int, default=16, help="rows of a forward pass; the editor's default")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    told = parser.parse_args()
    os.environ.update(ONE_THREAD)
    found = {str(size): measured(size, told.words, told.repeat, told.device, told.batch) for size in (1000, 30_000)}
    result = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "words": told.words,
        "batch": told.batch,
        "device": told.device,
        "found": found,
        "aims": AIMS,
        "met": {size: found[size]["times"] >= aim for size, aim in AIMS.items()},
    }
    told.results.mkdir(parents=True, exist_ok=True)
    (told.results / "dp_mlm.json").write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    print(json.dumps(result["found"], indent=2))


if __name__ == "__main__":
    main()
