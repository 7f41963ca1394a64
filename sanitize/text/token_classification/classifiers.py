"""Runs a token classification model on batches of token numbers: by torch from safetensors, or by
onnxruntime from an ONNX file.

Both compute with one thread, so that sums are always taken in the same order. A model with dynamic
quantisation takes the range of its numbers from the whole batch: it gets one window at a time
(`rows` is 1), so that the result of a window does not depend on its neighbours.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from sanitize.array_types import F32, I64
from sanitize.errors import MissingExtra, PlanError
from sanitize.storage.files import read_json
from sanitize.storage.model_folders import describe_impossible_layers
from sanitize.text.masked_lm import use_one_torch_thread
from sanitize.text.token_classification.model_files import EXPECTED_MODEL, ModelFiles, read_labels

TORCH_LIBRARIES = ("torch", "transformers", "tokenizers")
ONNX_LIBRARIES = ("onnxruntime", "tokenizers")
# per batch: a larger batch is faster on a GPU, but not on a CPU
_CPU_BATCH_TOKENS, _GPU_BATCH_TOKENS = (128, 16_384)
_ONNX_BATCH_TOKENS = 256
_TORCH_PAD_MULTIPLE, _ONNX_PAD_MULTIPLE = 16, 8  # windows are padded to a multiple of this
# begins the names of operators that compute a range from their whole input
_DYNAMIC_QUANTISATION = b"DynamicQuantize"
_ONNX_INPUTS = ("input_ids", "attention_mask", "token_type_ids", "position_ids")


class Classifier(Protocol):
    """A model. `labels` are those of its config; `max_tokens` is its longest input; a window of n
    tokens is padded to `pad(n)` tokens, and computed in batches of `count_rows(pad(n))` rows."""

    labels: Sequence[str]
    max_tokens: int

    def pad(self, lengths: I64) -> I64: ...
    def count_rows(self, length: int) -> int: ...
    def compute_probabilities(self, ids: I64, attention_mask: I64) -> F32:
        """Probabilities of all labels, of shape (rows, tokens, labels)."""


def require_libraries(files: ModelFiles) -> None:
    """Raises MissingExtra if a library that the model needs is not installed."""
    libraries, extra = (
        (("torch", "transformers"), "learn") if files.onnx_file is None else (ONNX_LIBRARIES, "ner")
    )
    for package in libraries:
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(package, extra)


class TorchClassifier:
    """A model in Hugging Face layout, by torch and transformers. Only safetensors are read, and no
    code of the folder is run."""

    def __init__(self, files: ModelFiles, device: str, batch_tokens: int) -> None:
        """Raises MissingExtra without torch or transformers, PlanError if the folder has no token
        classifier."""
        try:
            import torch
            import transformers
        except ImportError as error:
            raise MissingExtra(str(error.name), "learn") from None
        if device != "cpu" and not torch.cuda.is_available():
            raise PlanError(
                f"ner: device = {device!r}: there is no such device on this machine; use cpu"
            )
        transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        folder = files.folder
        if problem := describe_impossible_layers(folder):
            raise PlanError(f"ner: model = {str(folder)!r}: {problem}")
        try:
            tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder, **options)
            model: Any = transformers.AutoModelForTokenClassification.from_pretrained(
                folder, use_safetensors=True, dtype=torch.float32, **options
            )
        except (OSError, ValueError, KeyError, ImportError) as error:
            raise PlanError(
                f"ner: model = {str(folder)!r}: cannot be opened ({type(error).__name__});"
                f" {EXPECTED_MODEL}"
            ) from None
        if not tokenizer.is_fast:
            raise PlanError(
                f"ner: model = {str(folder)!r}: its tokenizer is not a fast tokenizer, which gives"
                f" offsets; {EXPECTED_MODEL}"
            )
        self.torch, self.device = torch, device
        self.tokenizer: Any = tokenizer.backend_tokenizer
        self.model = model.to(device).eval()
        self.labels = [
            str(model.config.id2label[number]) for number in range(int(model.config.num_labels))
        ]
        learned = count_positions(model.config.to_dict())
        self.max_tokens = (
            min(learned, int(tokenizer.model_max_length))
            if learned
            else int(tokenizer.model_max_length)
        )
        self.pad_token_id = int(tokenizer.pad_token_id or 0)
        self._batch_tokens = batch_tokens or (
            _CPU_BATCH_TOKENS if device == "cpu" else _GPU_BATCH_TOKENS
        )

    def pad(self, lengths: I64) -> I64:
        return -(-lengths // _TORCH_PAD_MULTIPLE) * _TORCH_PAD_MULTIPLE

    def count_rows(self, length: int) -> int:
        return max(1, self._batch_tokens // length)

    def compute_probabilities(self, ids: I64, attention_mask: I64) -> F32:
        torch = self.torch
        inputs = {"input_ids": ids, "attention_mask": attention_mask}
        with torch.inference_mode(), use_one_torch_thread(torch):
            tensors = {
                name: torch.as_tensor(value, device=self.device) for name, value in inputs.items()
            }
            probabilities: F32 = self.model(**tensors).logits.float().softmax(-1).cpu().numpy()
        return probabilities


class OnnxClassifier:
    """A model in an ONNX file, by onnxruntime."""

    def __init__(self, files: ModelFiles, device: str, batch_tokens: int) -> None:
        """Raises MissingExtra without onnxruntime or tokenizers, PlanError for a file that cannot
        be opened or is no token classifier."""
        try:
            import onnxruntime
            import tokenizers
        except ImportError as error:
            raise MissingExtra(str(error.name), "ner") from None
        assert files.onnx_file is not None
        path = files.onnx_file
        provider = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}[device]
        if provider not in onnxruntime.get_available_providers():
            raise PlanError(
                f"ner: device = {device!r}: onnxruntime has no {provider} on this machine; install"
                " onnxruntime-gpu, or use cpu"
            )
        self.labels = read_labels(files.config)
        config = read_json(files.config) or {}
        self.tokenizer: Any = _open_tokenizer(files, tokenizers)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.use_deterministic_compute = True
        options.log_severity_level = 4  # its messages may quote paths; errors are raised
        try:
            self._session: Any = onnxruntime.InferenceSession(
                str(path), options, providers=[provider]
            )
            graph_bytes = path.read_bytes()
        except Exception as error:  # onnxruntime's errors have no common class
            raise PlanError(
                f"ner: {path}: {_explain_onnx_error(error, onnxruntime.__version__)}"
            ) from None
        self._input_types = {
            node.name: np.int32 if "int32" in node.type else np.int64
            for node in self._session.get_inputs()
        }
        unknown = [name for name in self._input_types if name not in _ONNX_INPUTS]
        output = next(
            (node for node in self._session.get_outputs() if node.name == "logits"),
            self._session.get_outputs()[0],
        )
        if unknown or "input_ids" not in self._input_types or len(output.shape) != 3:
            raise PlanError(
                f"ner: {path}: its inputs or outputs are not those of a token classifier;"
                f" {EXPECTED_MODEL}"
            )
        if isinstance(output.shape[2], int) and output.shape[2] != len(self.labels):
            counts = (
                f"computes {output.shape[2]} labels, and {files.config} names {len(self.labels)}"
            )
            raise PlanError(f"ner: {path}: {counts}; use the config.json of this model")
        self._output = output.name
        rows, tokens = next(
            node.shape for node in self._session.get_inputs() if node.name == "input_ids"
        )
        self._fixed_rows, self._fixed_tokens = (
            size if isinstance(size, int) else 0 for size in (rows, tokens)
        )
        if not self._fixed_rows and _DYNAMIC_QUANTISATION in graph_bytes:
            self._fixed_rows = 1
        learned, limit = count_positions(config), _read_tokenizer_limit(files)
        self.max_tokens = self._fixed_tokens or min(
            size for size in (learned, limit, 1 << 30) if size
        )
        self.pad_token_id = int(config.get("pad_token_id") or 0)
        self._batch_tokens = batch_tokens or (
            _ONNX_BATCH_TOKENS if device == "cpu" else _GPU_BATCH_TOKENS
        )

    def pad(self, lengths: I64) -> I64:
        if self._fixed_tokens:
            return np.full(len(lengths), self._fixed_tokens, np.int64)
        return np.minimum(-(-lengths // _ONNX_PAD_MULTIPLE) * _ONNX_PAD_MULTIPLE, self.max_tokens)

    def count_rows(self, length: int) -> int:
        return self._fixed_rows or max(1, self._batch_tokens // length)

    def compute_probabilities(self, ids: I64, attention_mask: I64) -> F32:
        values = {
            "input_ids": ids,
            "attention_mask": attention_mask,
            "token_type_ids": np.zeros_like(ids),
            "position_ids": np.broadcast_to(np.arange(ids.shape[1]), ids.shape),
        }
        logits = self._session.run(
            [self._output],
            {name: values[name].astype(type_) for name, type_ in self._input_types.items()},
        )[0]
        logits = np.asarray(logits, np.float32)
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        probabilities: F32 = weights / weights.sum(axis=-1, keepdims=True)
        return probabilities


def open_classifier(
    files: ModelFiles, device: str, batch_tokens: int
) -> TorchClassifier | OnnxClassifier:
    """Returns the model of these files, loaded."""
    return (TorchClassifier if files.onnx_file is None else OnnxClassifier)(
        files, device, batch_tokens
    )


def count_positions(config: dict[str, Any]) -> int:
    """Returns the number of tokens that a model has positions for, special tokens included; 0 if
    its config states none."""
    learned = int(config.get("max_position_embeddings") or 0)
    if learned and config.get("model_type") in (
        "roberta",
        "xlm-roberta",
        "camembert",
    ):
        # positions start after the padding's
        learned -= int(config.get("pad_token_id") or 0) + 1
    return learned


def _read_tokenizer_limit(files: ModelFiles) -> int:
    try:
        return int(
            (read_json(files.folder / "tokenizer_config.json") or {}).get("model_max_length") or 0
        )
    except (OSError, ValueError, TypeError, AttributeError):
        return 0


def _open_tokenizer(files: ModelFiles, tokenizers: Any) -> Any:
    path = files.folder / "tokenizer.json"
    if not path.is_file():
        raise PlanError(f"ner: {path}: there is no such file; {EXPECTED_MODEL}")
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises plain Exceptions
        raise PlanError(
            f"ner: {path}: cannot be read as a tokenizer ({type(error).__name__}); copy the file of"
            " the model again"
        ) from None


def _explain_onnx_error(error: Exception, version: str) -> str:
    """What a failure to open an ONNX file means, and what to do; the runtime's own message is not
    quoted."""
    words = str(error).lower()
    if (
        "opset" in words
        or "ir version" in words
        or "ir_version" in words
        or "not a registered" in words
        or "not implemented" in words
    ):
        return (
            f"needs operators that onnxruntime {version} does not have; install a newer"
            " onnxruntime, or export the model for an older opset"
        )
    if "external" in words or "no such file" in words or "cannot get file size" in words:
        return "the file with its weights is missing beside it; copy all files of the model"
    return (
        f"cannot be opened ({type(error).__name__}): truncated, or not an ONNX file; copy the file"
        " of the model again"
    )
