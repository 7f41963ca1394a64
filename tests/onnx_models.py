"""Writes small token classifiers as ONNX files, byte by byte (the format is a Protocol Buffer),
with a tokenizer and a config: the logits of a token are a row of a table. No package is needed to
write them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

FLOAT, INT64 = 1, 7  # element types of ONNX


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _node(operator: str, inputs: Sequence[str], outputs: Sequence[str]) -> bytes:
    return _field(
        1,
        b"".join(
            [
                *(_field(1, name) for name in inputs),
                *(_field(2, name) for name in outputs),
                _field(4, operator),
            ]
        ),
    )


def _value(name: str, element_type: int, shape: Sequence[int | str]) -> bytes:
    sizes = b"".join(
        _field(1, _field(1, size) if isinstance(size, int) else _field(2, size)) for size in shape
    )
    return _field(1, name) + _field(2, _field(1, _field(1, element_type) + _field(2, sizes)))


def write_onnx_tagger(
    folder: Path,
    labels: Sequence[str],
    label_by_word: Mapping[str, str],
    *,
    quantised: bool = False,
    opset: int = 17,
    shape: Sequence[int | str] = ("batch", "tokens"),
    certainty: float = 6.0,
) -> Path:
    """Writes a model that gives each word of `label_by_word` its label and any other word the first
    label, with logits of plus and minus `certainty`. With `quantised`, the logits are rounded in
    steps that depend on all of the batch, as a model with dynamic quantisation does."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    vocabulary = {
        word: number
        for number, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *label_by_word])
    }
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    table = np.full((len(vocabulary), len(labels)), -certainty, np.float32)
    table[:, 0] = certainty
    for word, label in label_by_word.items():
        table[vocabulary[word]] = np.where(
            np.arange(len(labels)) == list(labels).index(label), certainty, -certainty
        )
    # logits that a step of quantisation changes
    rare = np.arange(len(vocabulary)) * np.float32(0.013)
    table[:, 0] += rare
    nodes = [_node("Gather", ["table", "input_ids"], ["found" if quantised else "logits"])]
    if quantised:
        nodes += [
            _node("DynamicQuantizeLinear", ["found"], ["rounded", "scale", "zero"]),
            _node("DequantizeLinear", ["rounded", "scale", "zero"], ["logits"]),
        ]
    tensor = (
        b"".join(_field(1, size) for size in table.shape)
        + _field(2, FLOAT)
        + _field(8, "table")
        + _field(9, table.tobytes())
    )
    inputs = [_field(11, _value(name, INT64, shape)) for name in ("input_ids", "attention_mask")]
    output = _field(12, _value("logits", FLOAT, [*shape, len(labels)]))
    graph = b"".join([*nodes, _field(2, "tagger"), _field(5, tensor), *inputs, output])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(
        _field(1, 8) + _field(7, graph) + _field(8, _field(2, opset))
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "id2label": dict(enumerate(labels)),
        "max_position_embeddings": 64,
        "pad_token_id": 0,
        "model_type": "bert",
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder
