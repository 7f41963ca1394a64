"""Finder `ner`: names, places and other entities by a token classification model (BERT, RoBERTa and relatives) in a local folder.

The model processes every text completely: in one piece if it fits the window, otherwise in overlapping windows. **The seam rule**: the
labels of a token come from the window in which it is farthest from an edge, so the seam is in the middle of an overlap, and spans are
decoded from the tokens of the whole text as if there were no windows. A span may be longer than an overlap.

From tokens to spans: a token's probability of a kind is the sum over all labels of that kind (`B-PER` and `I-PER`); a word has the kind
with the highest average over its tokens; consecutive words of one kind are one span, unless a label begins or ends a span between them.
BIO, BILOU (BIOES) and plain labels are supported. The score of a span is the mean, or the minimum (`least`), of the scores of its words,
rounded to a thousandth.

**The result of a text depends on that text only.** Windows are padded to a length, and batched in a shape, that depend on their own length
only; so neither order, nor batches, nor the number of workers change the result (bit for bit on a CPU with one thread, as a test checks;
another processor or library may differ in the last bits, which the rounding mostly hides).

Costs: a forward pass over all texts, and the hash of the folder once per process. No code of the folder is run, only safetensors are read,
and nothing is downloaded.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
from pydantic import Field, PrivateAttr

from sanitize.array_types import F32, F64, I64
from sanitize.core.arrow_buffers import TextBuffers, code_points_to_bytes
from sanitize.core.keys import Key
from sanitize.core.part_protocols import Finder, FoundSpans, TextColumn
from sanitize.errors import MissingExtra, PlanError, suggest_names
from sanitize.text.label_aliases import map_labels_to_kinds, trim_spans
from sanitize.text.masked_lm import hash_model_folder, use_one_torch_thread

_LIBRARIES = ("torch", "transformers", "tokenizers")
_EXPECTED_MODEL = "expected a folder of Hugging Face layout with a token-classification model in safetensors and its fast tokenizer"
_CPU_BATCH_TOKENS, _GPU_BATCH_TOKENS = 128, 16_384  # per batch: a larger batch is faster on a GPU, but not on a CPU
_PAD_MULTIPLE = 16  # windows are padded to a multiple of this
_TEXTS_PER_CALL = 256  # texts that are tokenized at once: bounds the memory of their offsets
_DEFAULT_MAX_TOKENS = 512  # tokens of a window, unless the model's maximum is lower
_BEGIN_PREFIXES, _END_PREFIXES = "BUS", "LEUS"  # prefixes of labels that begin a span, and that end one


class Ner(Finder):
    """Settings: `model` (a folder), `labels` (the model's label = our kind, "" for a label that is not personal data), `score` (mean or
    least of the words of a span), `window` (tokens of a window including special tokens; 0: the model's maximum, 512 at most), `overlap`
    (tokens that two windows share), `batch_tokens` (per batch; 0: by device), `device`."""

    needs: ClassVar[str] = "a model"
    model: str = ""
    model_sha256: str = ""
    versions: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    score: Literal["mean", "least"] = "mean"
    window: int = Field(default=0, ge=0, le=1 << 20)
    overlap: int = Field(default=64, ge=0, le=1 << 16)
    batch_tokens: int = Field(default=0, ge=0, le=1 << 24)
    device: Literal["cpu", "cuda"] = "cpu"
    _tagger: Tagger | None = PrivateAttr(default=None)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the model's labels; empty (any kind) if the config of the folder cannot be read or a label has no kind."""
        names = read_label_names(Path(self.model) / "config.json")
        try:
            return (
                tuple(dict.fromkeys(kind for kind in map_labels_to_kinds(names, self.labels, "labels").values() if kind)) if names else ()
            )
        except PlanError:
            return ()  # `validate_settings` reports it

    def resolve_settings(self) -> Self:
        """Returns these settings with the model's hash and the libraries' versions, so that another model means another index."""
        if not self.model or not Path(self.model).is_dir():
            return self
        known = hash_model_folder(Path(self.model))
        if self.model_sha256 not in ("", known):
            raise PlanError(f"ner: model = {self.model!r} is not the model that the plan was made with (model_sha256)")
        return self.model_copy(update={"model_sha256": known, "versions": describe_versions(_LIBRARIES)})

    def validate_settings(self) -> None:
        """Checks that a model is named and exists, that its labels are mapped to kinds, and that the libraries are installed."""
        if not self.model:
            raise PlanError('ner has no model; name a model folder on this machine: {use = "ner", model = "PATH"}. Nothing is downloaded')
        folder = Path(self.model)
        if not folder.is_dir():
            raise PlanError(
                f"ner: model = {self.model!r}: there is no such folder on this machine, and nothing is downloaded; {_EXPECTED_MODEL}"
            )
        names = read_label_names(folder / "config.json")
        if not names:
            raise PlanError(f"ner: model = {self.model!r}: its config.json names no labels (id2label); {_EXPECTED_MODEL}")
        map_labels_to_kinds(names, self.labels, f"ner: model = {self.model!r}: labels")
        unknown = set(self.labels) - set(names)
        if unknown:
            raise PlanError(
                f"ner: labels names {sorted(unknown)[0]}, which the model does not have; {suggest_names(sorted(unknown)[0], names)}"
            )
        for package in ("torch", "transformers"):
            if importlib.util.find_spec(package) is None:
                raise MissingExtra(package, "learn")

    def open(self, key: Key, first_round_file: Path | None) -> None:
        """Loads the model, once per process."""
        self._tagger = _load_tagger(self.model, self.model_sha256, self.device, self.window, self.overlap, self.batch_tokens)

    def find_spans(self, column: TextColumn) -> FoundSpans:
        """Returns the spans that the model tags in a column of texts."""
        assert self._tagger is not None
        tagger = self._tagger
        kind_by_label = map_labels_to_kinds(tagger.label_names, self.labels, "labels")
        kinds = tuple(dict.fromkeys(kind for kind in kind_by_label.values() if kind))
        label_kinds = np.array(
            [kinds.index(kind) + 1 if (kind := kind_by_label.get(name, "")) else 0 for name in tagger.label_names], np.int64
        )
        found = [_decode_spans(tokens, tagger, label_kinds, len(kinds), self.score) for tokens in tagger.tag_texts(column.texts)]
        if not found:
            return FoundSpans.empty()
        text_no, start, stop, kind_no = (np.concatenate([spans[column_no] for spans in found]) for column_no in range(4))
        scores = np.concatenate([spans[4] for spans in found])
        buffers = TextBuffers.from_array(column.texts)
        start, stop = code_points_to_bytes(buffers, text_no, start, stop)
        return trim_spans(buffers, text_no, start, stop, (kind_no - 1).astype(np.int32), kinds, scores.astype(np.float32))


def describe_versions(packages: Sequence[str]) -> str:
    """Returns the versions of packages as one string, part of an index's fingerprint; packages that are not installed are left out."""
    found = []
    for package in packages:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


def read_label_names(config: Path) -> list[str]:
    """Returns the labels of a model without prefixes, each once, without the "outside" label; empty if the config cannot be read."""
    from sanitize.storage.files import read_json

    try:
        id2label = (read_json(config) or {}).get("id2label")
    except (OSError, ValueError):
        return []
    labels = id2label.values() if isinstance(id2label, Mapping) else ()
    return [name for name in dict.fromkeys(_split_label(str(label))[1] for label in labels) if name]


def _split_label(label: str) -> tuple[str, str]:
    """Splits a label into its prefix (one letter or empty) and its name: `B-PER` is (B, PER), `PER` is ("", PER), `O` is ("", "")."""
    if label.upper() in ("O", "OUTSIDE", "OTHER"):
        return "", ""
    if len(label) > 2 and (label[0] in "BILUES" and label[1] == "-" or label[:2] in ("B_", "I_")):
        return label[0], label[2:]
    return "", label


class TaggedTokens:
    """The tokens of some texts: number of the text, number of the word, start and end (code points), and probabilities by label."""

    def __init__(self, text_no: I64, word: I64, start: I64, end: I64, probabilities: F32) -> None:
        self.text_no, self.word, self.start, self.end, self.probabilities = text_no, word, start, end, probabilities


class Tagger:
    """A token classifier with its tokenizer. `label_names` has the name of every label without prefix, `label_prefixes` its prefix."""

    def __init__(self, folder: Path, device: str, window: int, overlap: int, batch_tokens: int) -> None:
        """Opens a model folder. Raises MissingExtra without torch or transformers, PlanError if it has no token classifier."""
        try:
            import torch
            import transformers
        except ImportError as error:
            raise MissingExtra(str(error.name), "learn") from None
        if device != "cpu" and not torch.cuda.is_available():
            raise PlanError(f"ner: device = {device!r}: there is no such device on this machine; use cpu")
        transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        load_options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        try:
            self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder, **load_options)
            model: Any = transformers.AutoModelForTokenClassification.from_pretrained(
                folder, use_safetensors=True, dtype=torch.float32, **load_options
            )
        except (OSError, ValueError, KeyError, ImportError) as error:
            raise PlanError(f"ner: model = {str(folder)!r}: cannot be opened ({type(error).__name__}); {_EXPECTED_MODEL}") from None
        if not self.tokenizer.is_fast:
            raise PlanError(f"ner: model = {str(folder)!r}: its tokenizer is not a fast tokenizer, which gives offsets; {_EXPECTED_MODEL}")
        self.torch, self.device = torch, device
        self.model = model.to(device).eval()
        labels = [_split_label(str(model.config.id2label[label_no])) for label_no in range(int(model.config.num_labels))]
        self.label_prefixes, self.label_names = [prefix for prefix, _ in labels], [name for _, name in labels]
        self.opening_ids, self.closing_ids = self._read_text_template(folder)
        self.pad_token_id = int(self.tokenizer.pad_token_id or 0)
        longest = self._max_tokens(model.config)
        self.window_tokens = (window or min(longest, _DEFAULT_MAX_TOKENS)) - len(self.opening_ids) - len(self.closing_ids)
        self.overlap = overlap
        if window > longest:
            raise PlanError(f"ner: window = {window}: the model accepts at most {longest} tokens; use a smaller window")
        if self.window_tokens <= 2 * overlap:
            raise PlanError(
                f"ner: overlap = {overlap} does not fit into windows of {self.window_tokens} tokens; expected less than half of that. "
                "Make overlap smaller"
            )
        self.batch_tokens = batch_tokens or (_CPU_BATCH_TOKENS if device == "cpu" else _GPU_BATCH_TOKENS)

    def _read_text_template(self, folder: Path) -> tuple[list[int], list[int]]:
        """Returns the special tokens before and after a text."""
        encoded = self.tokenizer("a", return_special_tokens_mask=True)
        text_positions = np.flatnonzero(np.array(encoded["special_tokens_mask"]) == 0)
        if not len(text_positions):
            raise PlanError(f"ner: model = {str(folder)!r}: its tokenizer returns no token for a letter; {_EXPECTED_MODEL}")
        return list(encoded["input_ids"][: text_positions[0]]), list(encoded["input_ids"][text_positions[-1] + 1 :])

    def _max_tokens(self, config: Any) -> int:
        """Returns the maximum number of tokens of the model's input."""
        learned = int(getattr(config, "max_position_embeddings", 0) or _DEFAULT_MAX_TOKENS)
        if config.model_type in ("roberta", "xlm-roberta", "camembert"):  # positions start after the padding's
            learned -= int(config.pad_token_id or 0) + 1
        return min(learned, int(self.tokenizer.model_max_length))

    def tag_texts(self, texts: pa.LargeStringArray) -> Iterator[TaggedTokens]:
        """Yields the tokens of all texts with their probabilities, `_TEXTS_PER_CALL` texts at a time. A loop over texts, as a model runs on
        each."""
        for at in range(0, len(texts), _TEXTS_PER_CALL):
            batch = texts.slice(at, _TEXTS_PER_CALL).to_pylist()
            encoded = self.tokenizer(batch, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
            sizes = np.array([len(ids) for ids in encoded["input_ids"]], np.int64)
            if not sizes.sum():
                continue
            offsets = np.array([place for value in encoded["offset_mapping"] for place in value], np.int64).reshape(-1, 2)
            words = [encoded.word_ids(no) for no in range(len(batch))]
            word = np.array([-1 if value is None else value for text_values in words for value in text_values], np.int64)
            ids = np.array([value for text_values in encoded["input_ids"] for value in text_values], np.int64)
            text_no = np.repeat(np.arange(len(batch)), sizes)
            probabilities = self._compute_probabilities(ids, sizes)
            yield TaggedTokens(text_no + at, word, offsets[:, 0], offsets[:, 1], probabilities)

    def _compute_probabilities(self, ids: I64, token_counts: I64) -> F32:
        """Returns the label probabilities of every token, each from the window in which it is farthest from an edge.

        `ids` are the tokens of all texts, one text after the other; `token_counts` their number per text. Shape: (tokens, labels)."""
        out = np.empty((len(ids), len(self.label_names)), np.float32)
        first = np.cumsum(token_counts) - token_counts
        windows: list[tuple[int, int, int, int]] = []  # per window: its tokens, and the tokens that it labels
        for base, size in zip(first.tolist(), token_counts.tolist(), strict=True):
            windows += [(base + low, base + high, base + begin, base + end) for low, high, begin, end in self.split_into_windows(size)]
        lengths = np.array([high - low for low, high, _, _ in windows], np.int64)
        padded = -(-(lengths + len(self.opening_ids) + len(self.closing_ids)) // _PAD_MULTIPLE) * _PAD_MULTIPLE
        torch, opening_count = self.torch, len(self.opening_ids)
        with torch.inference_mode(), use_one_torch_thread(torch):
            for shape in np.unique(padded).tolist():
                same_shape = np.flatnonzero(padded == shape)
                rows = max(1, self.batch_tokens // shape)
                for batch_start in range(0, len(same_shape), rows):
                    batch = same_shape[batch_start : batch_start + rows]
                    input_ids = np.full((rows, shape), self.pad_token_id, np.int64)
                    attention_mask = np.zeros((rows, shape), np.int64)
                    for line in range(rows):  # a short batch is filled with its first window: same shape
                        low, high, _, _ = windows[int(batch[line if line < len(batch) else 0])]
                        token_ids = [*self.opening_ids, *ids[low:high].tolist(), *self.closing_ids]
                        input_ids[line, : len(token_ids)], attention_mask[line, : len(token_ids)] = token_ids, 1
                    inputs = {
                        name: torch.as_tensor(value, device=self.device)
                        for name, value in _build_model_inputs(input_ids, attention_mask).items()
                    }
                    probabilities = self.model(**inputs).logits.float().softmax(-1).cpu().numpy()
                    for line, window_no in enumerate(batch.tolist()):
                        low, _, begin, end = windows[window_no]
                        out[begin:end] = probabilities[line, opening_count + begin - low : opening_count + end - low]
        return out

    def split_into_windows(self, token_count: int) -> list[tuple[int, int, int, int]]:
        """Splits a text of `token_count` tokens into windows: (start, end) of each, then (start, end) of the tokens it labels."""
        if token_count <= self.window_tokens:
            return [(0, token_count, 0, token_count)] if token_count else []
        lows = [*range(0, token_count - self.window_tokens, self.window_tokens - self.overlap), token_count - self.window_tokens]
        highs = [low + self.window_tokens for low in lows]
        seams = [0, *((low + high) // 2 for low, high in zip(lows[1:], highs[:-1], strict=True)), token_count]
        return list(zip(lows, highs, seams[:-1], seams[1:], strict=True))


def _build_model_inputs(ids: I64, attention_mask: I64) -> dict[str, I64]:
    return {"input_ids": ids, "attention_mask": attention_mask}


@functools.lru_cache(maxsize=2)
def _load_tagger(folder: str, sha256: str, device: str, window: int, overlap: int, batch_tokens: int) -> Tagger:
    if hash_model_folder(Path(folder)) != sha256:
        raise PlanError(
            f"ner: {folder}: the model is not the one that the plan was made with (sha256); use a folder that no other program writes to"
        )
    return Tagger(Path(folder), device, window, overlap, batch_tokens)


def _decode_spans(
    tokens: TaggedTokens, tagger: Tagger, label_kinds: I64, kind_count: int, score_mode: str
) -> tuple[I64, I64, I64, I64, F64]:
    """Returns number of the text, start and end code point, kind (from 1) and score of every span; `label_kinds` is the kind of each label,
    0 for none."""
    # the probability of each token for each kind, and for a span of that kind that begins or ends there
    mass = np.zeros((len(tokens.text_no), kind_count + 1), np.float64)
    begins, ends = np.zeros_like(mass), np.zeros_like(mass)
    for label, (kind, prefix) in enumerate(zip(label_kinds.tolist(), tagger.label_prefixes, strict=True)):
        mass[:, kind] += tokens.probabilities[:, label]
        if prefix and prefix in _BEGIN_PREFIXES:
            begins[:, kind] += tokens.probabilities[:, label]
        if prefix and prefix in _END_PREFIXES:
            ends[:, kind] += tokens.probabilities[:, label]
    # words: a token without a word number is a word of its own
    is_word_start = np.append(True, (np.diff(tokens.text_no) != 0) | (np.diff(tokens.word) != 0) | (tokens.word[1:] < 0))
    first = np.flatnonzero(is_word_start)
    last = np.append(first[1:], len(is_word_start)) - 1
    mean_mass = np.add.reduceat(mass, first, axis=0) / (last - first + 1)[:, None]
    kind = mean_mass.argmax(axis=1)
    word_scores = np.take_along_axis(mean_mass, kind[:, None], 1)[:, 0]
    if score_mode == "least":
        word_scores = np.take_along_axis(np.minimum.reduceat(mass, first, axis=0), kind[:, None], 1)[:, 0]
    # spans: consecutive words of one kind, unless the first token of a word begins a span, or the last token of the word before ends one
    text_no = tokens.text_no[first]
    opens = begins[first, kind] * 2 > mass[first, kind]
    closes = ends[last, kind] * 2 > mass[last, kind]
    is_span_start = np.append(True, (np.diff(kind) != 0) | (np.diff(text_no) != 0) | opens[1:] | closes[:-1])
    first_word = np.flatnonzero(is_span_start)
    last_word = np.append(first_word[1:], len(is_span_start)) - 1
    scores = (
        np.minimum.reduceat(word_scores, first_word)
        if score_mode == "least"
        else np.add.reduceat(word_scores, first_word) / (last_word - first_word + 1)
    )
    has_kind = np.flatnonzero(kind[first_word] > 0)
    first_word, last_word = first_word[has_kind], last_word[has_kind]
    rounded = np.round(np.clip(scores[has_kind], 0, 1), 3)
    return text_no[first_word], tokens.start[first[first_word]], tokens.end[last[last_word]], kind[first_word], rounded


__all__ = ["Ner", "Tagger", "read_label_names", "describe_versions"]
