"""Labels the tokens of texts: tokenizes them, cuts long ones into overlapping windows, and runs the
model on batches of windows.

**The seam rule**: the labels of a token come from the window in which it is farthest from an edge,
so the seam is in the middle of an overlap.

**The result of a text depends on that text only.** Windows are padded to a length, and batched in a
shape, that depend on their own length only, and a batch that is not full is filled with copies; so
neither order, nor batches, nor the number of workers change the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sanitize.array_types import F32, I64
from sanitize.errors import PlanError
from sanitize.text.token_classification.classifiers import open_classifier
from sanitize.text.token_classification.model_files import (
    EXPECTED_MODEL,
    ModelFiles,
    split_field_name,
)

# texts that are tokenized at once: bounds the memory of their offsets
_TEXTS_PER_CALL, _CHARACTERS_PER_CALL = (256, 1 << 18)
_DEFAULT_MAX_TOKENS = 512  # tokens of a window, unless the model's maximum is lower


@dataclass(frozen=True, repr=False)
class TaggedTokens:
    """The tokens of some texts: number of the text, number of the word, start and end (code
    points), and probabilities by label."""

    text_no: I64
    word: I64
    start: I64
    end: I64
    probabilities: F32


class Tagger:
    """A token classifier with its tokenizer. `label_names` has the name of every label without
    prefix, `label_prefixes` its prefix."""

    def __init__(
        self, files: ModelFiles, device: str, window: int, overlap: int, batch_tokens: int
    ) -> None:
        """Opens a model. Raises MissingExtra for a missing library, PlanError for files that are no
        token classifier."""
        self.classifier = open_classifier(files, device, batch_tokens)
        self.tokenizer: Any = self.classifier.tokenizer
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        labels = [split_field_name(label) for label in self.classifier.labels]
        self.label_prefixes, self.label_names = (
            [prefix for prefix, _ in labels],
            [name for _, name in labels],
        )
        self.opening_ids, self.closing_ids = self._read_text_template(files)
        longest = self.classifier.max_tokens
        self.window_tokens = (
            (window or min(longest, _DEFAULT_MAX_TOKENS))
            - len(self.opening_ids)
            - len(self.closing_ids)
        )
        self.overlap = overlap
        if window > longest:
            raise PlanError(
                f"ner: window = {window}: the model accepts at most {longest} tokens; use a smaller"
                " window"
            )
        if self.window_tokens <= 2 * overlap:
            raise PlanError(
                f"ner: overlap = {overlap} does not fit into windows of {self.window_tokens}"
                " tokens; expected less than half of that. Make overlap smaller"
            )

    def _read_text_template(self, files: ModelFiles) -> tuple[list[int], list[int]]:
        """Returns the special tokens before and after a text."""
        encoded = self.tokenizer.encode("a")
        text_positions = np.flatnonzero(np.array(encoded.special_tokens_mask) == 0)
        if not len(text_positions):
            raise PlanError(
                f"ner: model = {str(files.folder)!r}: its tokenizer returns no token for a letter;"
                f" {EXPECTED_MODEL}"
            )
        return list(encoded.ids[: text_positions[0]]), list(encoded.ids[text_positions[-1] + 1 :])

    def tag_texts(self, texts: Sequence[str]) -> Iterator[TaggedTokens]:
        """Yields the tokens of all texts with their probabilities, some texts at a time. A loop
        over texts, as a model runs on each."""
        for low, high in _iter_calls(texts):
            encodings = self.tokenizer.encode_batch(list(texts[low:high]), add_special_tokens=False)
            sizes = np.array([len(encoding.ids) for encoding in encodings], np.int64)
            if not sizes.sum():
                continue
            ids = np.concatenate([np.array(encoding.ids, np.int64) for encoding in encodings])
            offsets = np.concatenate(
                [np.array(encoding.offsets, np.int64).reshape(-1, 2) for encoding in encodings]
            )
            words = [
                -1 if word is None else word for encoding in encodings for word in encoding.word_ids
            ]
            text_no = np.repeat(np.arange(low, high), sizes)
            probabilities = self._compute_probabilities(ids, sizes)
            yield TaggedTokens(
                text_no, np.array(words, np.int64), offsets[:, 0], offsets[:, 1], probabilities
            )

    def _compute_probabilities(self, ids: I64, token_counts: I64) -> F32:
        """Returns the label probabilities of every token, each from the window in which it is
        farthest from an edge.

        `ids` are the tokens of all texts, one text after the other; `token_counts` their number per
        text. Shape: (tokens, labels)."""
        out = np.empty((len(ids), len(self.label_names)), np.float32)
        first = np.cumsum(token_counts) - token_counts
        # per window: its tokens, and the tokens that it labels
        windows: list[tuple[int, int, int, int]] = []
        for base, size in zip(first.tolist(), token_counts.tolist(), strict=True):
            windows += [
                (base + low, base + high, base + begin, base + end)
                for low, high, begin, end in self.split_into_windows(size)
            ]
        lengths = np.array([high - low for low, high, _, _ in windows], np.int64)
        padded = self.classifier.pad(lengths + len(self.opening_ids) + len(self.closing_ids))
        opening_count = len(self.opening_ids)
        for length in np.unique(padded).tolist():
            same_length = np.flatnonzero(padded == length)
            rows = self.classifier.count_rows(length)
            for batch_start in range(0, len(same_length), rows):
                batch = same_length[batch_start : batch_start + rows]
                input_ids = np.full((rows, length), self.classifier.pad_token_id, np.int64)
                attention_mask = np.zeros((rows, length), np.int64)
                for line in range(rows):
                    # a short batch is filled with its first window: same shape
                    low, high, _, _ = windows[int(batch[line if line < len(batch) else 0])]
                    token_ids = [*self.opening_ids, *ids[low:high].tolist(), *self.closing_ids]
                    input_ids[line, : len(token_ids)], attention_mask[line, : len(token_ids)] = (
                        token_ids,
                        1,
                    )
                probabilities = self.classifier.compute_probabilities(input_ids, attention_mask)
                for line, window_no in enumerate(batch.tolist()):
                    low, _, begin, end = windows[window_no]
                    out[begin:end] = probabilities[
                        line, opening_count + begin - low : opening_count + end - low
                    ]
        return out

    def split_into_windows(self, token_count: int) -> list[tuple[int, int, int, int]]:
        """Splits a text of `token_count` tokens into windows: (start, end) of each, then (start,
        end) of the tokens it labels."""
        if token_count <= self.window_tokens:
            return [(0, token_count, 0, token_count)] if token_count else []
        lows = [
            *range(0, token_count - self.window_tokens, self.window_tokens - self.overlap),
            token_count - self.window_tokens,
        ]
        highs = [low + self.window_tokens for low in lows]
        seams = [
            0,
            *((low + high) // 2 for low, high in zip(lows[1:], highs[:-1], strict=True)),
            token_count,
        ]
        return list(zip(lows, highs, seams[:-1], seams[1:], strict=True))


def _iter_calls(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yields ranges of texts that are tokenized at once."""
    low = size = 0
    for number, text in enumerate(texts):
        if number > low and (
            number - low >= _TEXTS_PER_CALL or size + len(text) > _CHARACTERS_PER_CALL
        ):
            yield low, number
            low, size = number, 0
        size += len(text)
    if low < len(texts):
        yield low, len(texts)
