"""A config.json that asks for more layers than the weights can have is refused before anything is
built, by everything that opens a model."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from sanitize.errors import InputRefused, OutputBroken, PlanError, SanitizeError
from sanitize.storage.model_folders import describe_impossible_layers


def write_model(folder: Path, config: object, tensors: int = 3) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    header = json.dumps({"__metadata__": {}} | {f"t{number}": {} for number in range(tensors)})
    for name in ("a.safetensors", "b.safetensors"):
        (folder / name).write_bytes(struct.pack("<Q", len(header)) + header.encode())
    return folder


@pytest.mark.parametrize(
    ("config", "is_refused"),
    [
        ({"n_layer": 10_000_000}, True),
        ({"num_hidden_layers": 4}, True),
        ({"num_hidden_layers": 3}, False),
        ({"num_hidden_layers": None, "n_layers": "many"}, False),
        ({"vocab_size": 9}, False),
        ([1, 2], False),
    ],
)
def test_layers_are_compared_with_the_weights(
    tmp_path: Path, config: object, is_refused: bool
) -> None:
    found = describe_impossible_layers(write_model(tmp_path / "model", config))
    assert ("3 tensors; copy the model again" in found) == is_refused


@pytest.mark.parametrize(
    "content", [b"", b"\x01", struct.pack("<Q", 1 << 62), struct.pack("<Q", 4) + b"{]]}"]
)
def test_weights_that_cannot_be_read_say_nothing(tmp_path: Path, content: bytes) -> None:
    folder = write_model(tmp_path / "model", {"n_layer": 10_000_000})
    (folder / "b.safetensors").write_bytes(content)
    assert describe_impossible_layers(folder) == ""


def test_without_weights_nothing_is_known(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"n_layer": 10000000}')
    assert describe_impossible_layers(tmp_path) == ""


def open_for_training(folder: Path) -> None:
    from sanitize.train.model import load_model

    load_model(folder, "causal")


def open_for_evaluation(folder: Path) -> None:
    from sanitize.eval.language_model import LanguageModel

    LanguageModel.load(folder)


def open_for_masking(folder: Path) -> None:
    from sanitize.text.masked_lm import MaskedModel

    MaskedModel(folder)


def open_for_finding(folder: Path) -> None:
    from sanitize.text.token_classification.classifiers import TorchClassifier
    from sanitize.text.token_classification.model_files import ModelFiles

    TorchClassifier(ModelFiles(folder, None), "cpu", 0)


@pytest.mark.parametrize(
    ("open_model", "error"),
    [
        (open_for_training, InputRefused),
        (open_for_evaluation, OutputBroken),
        (open_for_masking, PlanError),
        (open_for_finding, PlanError),
    ],
)
def test_all_that_open_models_refuse_it(
    tmp_path: Path, open_model: Callable[[Path], None], error: type[SanitizeError]
) -> None:
    pytest.importorskip("transformers", reason="comes with the extra `learn`")
    folder = write_model(tmp_path / "model", {"model_type": "gpt2", "n_layer": 10_000_000})
    with pytest.raises(error, match="config.json has n_layer = 10000000"):
        open_model(folder)
