"""The measurement of a GPU runs at a tiny size on the CPU, and says so where there is no GPU."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import bench_gpu

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
    bench_gpu.main()
    result: dict[str, Any] = json.loads((tmp_path / "results" / "gpu.json").read_text())
    assert result["machine"]["gpu"] is None and result["settings"]["layers"] == 2
    assert result["loop_of_trainer"] > 0 and set(result["loop"]) == {
        "bf16",
        "float32",
        "bf16_gradient_checkpointing",
    }
    assert 0 < result["precision"]["largest_relative_loss_difference_of_bf16"] < 0.02
    assert set(result["private"]) == {"rows_1", "rows_4"} and all(
        part["tokens_per_s"] > 0 for part in result["private"].values()
    )
