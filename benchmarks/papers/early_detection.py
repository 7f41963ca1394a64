"""Early detection and reduction of memorization: does a partial score warn before texts come out verbatim, and what makes fewer of them?

A small GPT-2 reads public tickets, then is fine-tuned on a few private ones: plainly, with Goldfish's loss, and with the n-gram penalty.
At each checkpoint the same place of every private ticket is probed (k = 12, 16, 20), and held-out tickets give the validation perplexity
and the accuracy of the task. Early stopping is the plain run at the checkpoint that the n-gram rule picks.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import train
from benchmarks.criteria import Criterion, finish, options, split
from benchmarks.papers_texts import QUESTION, tickets
from eval.metrics import ngram, task, verbatim
from eval.model import Model
from eval.run import Run

LABELS = ("high", "medium", "low")
TECHNIQUES: dict[str, dict[str, Any]] = {
    "base": {"use": "causal"},
    "goldfish": {"use": "goldfish", "k": 4, "h": 4},
    "ngram_penalty": {"use": "ngram_penalty", "weight": 10.0, "margin": 0.02},
}


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large everything is."""

    public: int
    private: int
    held: int
    epochs: int
    every: int
    seeds: int
    layers: int = 2
    width: int = 64
    heads: int = 4
    vocab: int = 512
    pretrain_epochs: int = 8
    lr: float = 3e-3
    batch: int = 8
    device: str = "cpu"
    full: bool = False  # other decodings, the top layer alone, instruction tuning


SIZES = {
    "ci": Size(public=300, private=60, held=90, epochs=28, every=4, seeds=1),
    "cpu": Size(public=600, private=100, held=200, epochs=28, every=4, seeds=3, full=True),
    "gpu": Size(
        public=200_000, private=2_000, held=2_000, epochs=24, every=2, seeds=3, layers=8, width=512, heads=8, vocab=4096,
        pretrain_epochs=1, lr=5e-4, batch=64, device="cuda", full=True,
    ),
}  # fmt: skip
