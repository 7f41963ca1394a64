"""Tokens a second and MFU by hand, and the lines about a run."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sanitize import train
from sanitize.train import trainer
from sanitize.train.model import build_model, train_tokenizer
from sanitize.train.recipe import LoraSettings, ModelSettings
from sanitize.train.throughput import (
    Throughput,
    count_flops_per_token,
    find_peak_flops,
    format_duration,
)

torch.set_num_threads(1)


def test_flops_of_a_token() -> None:
    """GPT-2 of 2 layers: 12 width^2 weights each, and the tied head; tables of positions multiply
    nothing."""
    tokenizer = train_tokenizer(["Dear Ada"], vocab_size=300, context_length=16)
    settings = ModelSettings(arch="gpt2", layers=2, width=32, heads=2, context=16)
    model, _ = build_model(settings, head="causal", tokenizer=tokenizer, seed=0)
    matrices, attention = 2 * 12 * 32**2 + len(tokenizer) * 32, 12 * 2 * 32 * 16
    assert count_flops_per_token(model, 16) == 6 * matrices + attention
    frozen, _ = build_model(
        settings.model_copy(update={"top_layers": 1}), head="causal", tokenizer=tokenizer, seed=0
    )
    assert count_flops_per_token(frozen, 16) is None
    masked, _ = build_model(
        settings.model_copy(update={"arch": "bert"}), head="masked", tokenizer=tokenizer, seed=0
    )
    # one more matrix of the head; the decoder is tied to the table of words
    assert count_flops_per_token(masked, 16) == 6 * (matrices + 32**2) + attention
    pytest.importorskip("peft")
    adapted, _ = build_model(
        settings, head="causal", tokenizer=tokenizer, seed=0, lora=LoraSettings(rank=2)
    )
    adapter = 2 * 2 * (32 + 96 + 32 + 32 + 32 + 128 + 128 + 32)
    assert count_flops_per_token(adapted, 16) == 4 * matrices + 6 * adapter + attention


def test_rates_leave_out_checkpoints() -> None:
    now = [0.0]
    found = Throughput(flops_per_token=10.0, peak_flops=1000.0, clock=lambda: now[0])
    found.add(300)
    now[0] = 5.0
    found.exclude(2.0)
    assert found.read() == {"tokens_per_s": 100.0, "mfu": 1.0}
    found.add(10)
    now[0] = 6.0
    assert found.read() == {"tokens_per_s": 10.0, "mfu": 0.1}
    unknown = Throughput(flops_per_token=10.0, clock=lambda: now[0])
    now[0] = 7.0
    assert unknown.read() == {"tokens_per_s": 0.0}


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA A10G", 70e12),
        ("Other", None),
    ],
)
def test_peaks_by_name(monkeypatch: pytest.MonkeyPatch, name: str, peak: float | None) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    assert (
        find_peak_flops(SimpleNamespace(type="cuda")) == peak
        and find_peak_flops(torch.device("cpu")) is None
    )


def test_durations() -> None:
    assert [format_duration(seconds) for seconds in (4.4, 89, 91, 5000, 9000)] == [
        "4 s",
        "89 s",
        "2 min",
        "83 min",
        "2.5 h",
    ]


def test_lines_about_a_run(
    corpus: Any, recipe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line every so many seconds between checkpoints, and the same numbers in the log."""
    monkeypatch.setattr(trainer, "HEARTBEAT_S", 0.0)
    monkeypatch.setattr(trainer, "find_peak_flops", lambda device: 1e9)
    lines: list[str] = []
    train.fit(
        recipe(corpus(), run={"epochs": 1, "log_every": 2, "checkpoint_every": 0}),
        tmp_path / "run",
        progress=lines.append,
    )
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert all(entry["tokens_per_s"] > 0 and 0 < entry["mfu"] < 100 for entry in log)
    found = [line for line in lines if "tokens/s" in line]
    assert len(found) == len(log) - 1 == 2, "the last one is that of the checkpoint"
    first = log[0]
    assert found[0].startswith(
        f"step 2 of 5, epoch 0.40: loss {first['loss']:.4f}, {first['tokens_per_s']:,.0f} tokens/s,"
        f" {first['mfu']:.0%} of"
    )
    assert found[0].endswith("s left") and found[-1].startswith("step 4 of 5")
