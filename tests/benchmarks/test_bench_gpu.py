"""The measurement of a GPU runs at a tiny size on the CPU, and says so where there is no GPU."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import bench_gpu
from sanitize.train.model import build_model, train_tokenizer
from sanitize.train.recipe import LoraSettings, ModelSettings

torch.set_num_threads(1)


def test_no_gpu_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["bench_gpu", "--results", str(tmp_path)])
    bench_gpu.main()
    assert capsys.readouterr().out.startswith("no GPU: nothing measured") and not list(
        tmp_path.iterdir()
    )


@pytest.mark.slow
def test_a_smoke_run_on_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All parts but the one that starts processes, which has a test of its own
    (tests/train/test_processes.py)."""
    pytest.importorskip("accelerate")
    texts = [
        f"From: ada@example.com\n\nDear Bob, plan {number} is ready for you."
        for number in range(60)
    ]
    (tmp_path / "mails.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    sizes = (
        "--layers 2 --width 32 --heads 2 --context 16 --vocab 300 --batch 4 --steps 6 --no-compile"
    )
    parts = "--parts loop,trainer,precision,private"
    paths = [
        "--data",
        str(tmp_path / "mails.jsonl"),
        "--results",
        str(tmp_path / "results"),
        "--device",
        "cpu",
    ]
    monkeypatch.setattr(sys, "argv", ["bench_gpu", *sizes.split(), *parts.split(), *paths])
    monkeypatch.setattr(bench_gpu, "find_peak_flops", lambda device: 1e12)
    bench_gpu.main()
    result: dict[str, Any] = json.loads((tmp_path / "results" / "gpu.json").read_text())
    assert result["machine"]["gpu"] is None and result["settings"]["layers"] == 2
    assert result["loop_of_trainer"] > 0 and set(result["loop"]) == {
        "bf16",
        "float32",
        "bf16_gradient_checkpointing",
    }
    assert all(0 < one["mfu"] < 1 for one in result["loop"].values())
    assert 0 < result["precision"]["largest_relative_loss_difference_of_bf16"] < 0.02
    assert set(result["private"]) == {"rows_1", "rows_4"} and all(
        part["tokens_per_s"] > 0 for part in result["private"].values()
    )


def test_flops_of_a_token() -> None:
    """GPT-2 of 2 layers: 12 width^2 weights each, and the tied head; tables of positions multiply
    nothing."""
    tokenizer = train_tokenizer(["Dear Ada"], vocab_size=300, context_length=16)
    settings = ModelSettings(arch="gpt2", layers=2, width=32, heads=2, context=16)
    model, _ = build_model(settings, head="causal", tokenizer=tokenizer, seed=0)
    matrices, attention = 2 * 12 * 32**2 + len(tokenizer) * 32, 12 * 2 * 32 * 16
    assert bench_gpu.count_flops_per_token(model, 16) == 6 * matrices + attention
    masked, _ = build_model(
        settings.model_copy(update={"arch": "bert"}), head="masked", tokenizer=tokenizer, seed=0
    )
    # one more matrix of the head; the decoder is tied to the table of words
    assert bench_gpu.count_flops_per_token(masked, 16) == 6 * (matrices + 32**2) + attention
    pytest.importorskip("peft")
    adapted, _ = build_model(
        settings, head="causal", tokenizer=tokenizer, seed=0, lora=LoraSettings(rank=2)
    )
    adapter = 2 * 2 * (32 + 96 + 32 + 32 + 32 + 128 + 128 + 32)
    assert bench_gpu.count_flops_per_token(adapted, 16) == 4 * matrices + 6 * adapter + attention


@pytest.mark.parametrize(
    ("name", "peak"),
    [("NVIDIA H100 80GB HBM3", 989e12), ("NVIDIA H100 PCIe", 756e12), ("Other", None)],
)
def test_peaks_by_name(monkeypatch: pytest.MonkeyPatch, name: str, peak: float | None) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    assert bench_gpu.find_peak_flops("cuda") == peak
    assert bench_gpu.find_peak_flops("cpu") is None
