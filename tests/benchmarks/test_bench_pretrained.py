"""The measurement on a pretrained model runs at a tiny size: both sides give the same losses and
tokens, or it fails."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import polars as pl
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks import bench_pretrained
from sanitize.cli.generated_mails import generate_mails
from sanitize.train.model import train_tokenizer

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of two layers with random weights, and its tokenizer."""
    folder = tmp_path_factory.mktemp("pretrained") / "model"
    tokenizer = train_tokenizer(
        generate_mails(20, 1)["text"].to_pylist(), vocab_size=300, context_length=512
    )
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=512,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_a_smoke_run(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pl.DataFrame({"text": generate_mails(80, 2)["text"].to_pylist()}).write_parquet(
        tmp_path / "part-0000.parquet"
    )
    monkeypatch.setattr(
        "benchmarks.runner.run_in_subprocess", lambda work, *arguments, **_: work(*arguments)
    )
    monkeypatch.setattr("benchmarks.corpora.build", lambda *_: {"path": str(tmp_path)})
    paths = ["--model", str(model), "--dir", str(tmp_path), "--results", str(tmp_path / "results")]
    monkeypatch.setattr(sys, "argv", ["bench_pretrained", "--repeat", "1", *paths])
    bench_pretrained.main()
    result = json.loads((tmp_path / "results" / "pretrained.json").read_text())
    assert (
        all(result[name] > 0 for name in bench_pretrained.AIMS)
        and 0 <= result["loss_difference"] < 1e-4
    )
    monkeypatch.setattr(sys, "argv", ["bench_pretrained", "--model", str(tmp_path)])
    with pytest.raises(SystemExit) as caught:
        bench_pretrained.main()
    assert caught.value.code == 8
