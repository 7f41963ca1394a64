"""Tokenizes documents: one flat int32 array of tokens for the corpus, the offset of each document,
and masks of what may be in a loss.

Tokenization runs in batches in the tokenizer's own threads. Memory: 4 bytes per token, and 5 more
if the objective needs words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from .corpus_reader import DocumentTable

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
BATCH_SIZE = 1_000  # texts per call of the tokenizer
NO_WORD = -1

# same words as in the blacklist, split and folded by the same library: longest runs of letters,
# marks and numbers, in lower case and NFC
WORD_PATTERN = r"[\p{L}\p{M}\p{N}]+"


@dataclass(frozen=True, repr=False)
class TokenizedDocuments:
    """Tokens of documents, without special tokens. Those of document d are `offsets[d]:offsets[d +
    1]`."""

    token_ids: I32
    offsets: I64
    loss_mask: Mask | None  # false for tokens that must not be in a loss: prompts, pii_spans
    word_ids: I32 | None  # the word of each token, numbered over the corpus; NO_WORD between words
    is_maskable: Mask | None  # true for tokens of words that may be masked
    doc_ids: pa.Array
    doc_labels: I64 | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def with_labels(self, labels: I64) -> TokenizedDocuments:
        """Return the same tokens with one label per document."""
        return replace(self, doc_labels=labels)


def tokenize_documents(
    documents: DocumentTable,
    tokenizer: Any,
    *,
    answers_only: bool = False,
    leave_out_pii: bool = False,
    select_maskable_words: Callable[[Sequence[Sequence[str]]], list[Mask]] | None = None,
    rewrite_texts: Callable[[Sequence[str]], Sequence[str]] | None = None,
) -> TokenizedDocuments:
    """Tokenize all documents. A prompt, if the documents have one, comes before the text; with
    `answers_only` it is in no loss, and of conversations only `loss_spans` are.

    `leave_out_pii` leaves tokens that overlap `pii_spans` out of losses; `select_maskable_words`
    returns which words of each text may be masked; `rewrite_texts` changes texts beforehand.
    """
    backend = tokenizer.backend_tokenizer
    table = documents.table
    spans = (
        table.column("pii_spans").combine_chunks()
        if leave_out_pii and "pii_spans" in table.column_names
        else None
    )
    prompts = table.column("prompt").to_pylist() if "prompt" in table.column_names else None
    ids: list[I32] = []
    counts: list[int] = []
    loss_masks: list[Mask] = []
    word_ids: list[I32] = []
    maskable: list[Mask] = []
    word_count = 0
    answers = (
        table.column("loss_spans").combine_chunks()
        if answers_only and "loss_spans" in table.column_names
        else None
    )
    needs_offsets = (
        spans is not None
        or answers is not None
        or select_maskable_words is not None
        or (prompts is not None and answers_only)
    )
    for first in range(0, len(documents), BATCH_SIZE):
        texts: Sequence[str] = table.column("text").slice(first, BATCH_SIZE).to_pylist()
        if rewrite_texts is not None:
            texts = rewrite_texts(texts)
        prompt_batch = prompts[first : first + BATCH_SIZE] if prompts is not None else None
        if prompt_batch is not None:
            texts = [head + text for head, text in zip(prompt_batch, texts, strict=True)]
        encodings = (backend.encode_batch if needs_offsets else backend.encode_batch_fast)(
            list(texts), add_special_tokens=False
        )
        ids += [np.array(encoding.ids, np.int32) for encoding in encodings]
        counts += [len(encoding.ids) for encoding in encodings]
        if not needs_offsets:
            continue
        # per document, since the tokenizer returns offsets as a list of pairs per text
        token_spans = [
            np.array(encoding.offsets, np.int64).reshape(-1, 2) for encoding in encodings
        ]
        prompt_lengths = (
            [len(head) for head in prompt_batch]
            if prompt_batch is not None
            else [0] * len(token_spans)
        )
        for number, spans_of_text in enumerate(token_spans):
            in_loss = np.ones(len(spans_of_text), bool)
            if prompt_batch is not None and answers_only:
                in_loss &= spans_of_text[:, 1] > prompt_lengths[number]
            if answers is not None:
                in_loss &= _overlaps_any_span(
                    spans_of_text, _pii_spans_of_row(answers, first + number)
                )
            if spans is not None:
                in_loss &= ~_overlaps_any_span(
                    spans_of_text, _pii_spans_of_row(spans, first + number) + prompt_lengths[number]
                )
            loss_masks.append(in_loss)
        if select_maskable_words is not None:
            words_of_texts = split_words_with_spans(texts)
            maskable_words = select_maskable_words([names for names, _ in words_of_texts])
            for number, (spans_of_text, (_, bounds), is_maskable_word) in enumerate(
                zip(token_spans, words_of_texts, maskable_words, strict=True)
            ):
                if spans is not None:  # a word that overlaps a span is left out completely
                    is_maskable_word = is_maskable_word & ~_overlaps_any_span(
                        bounds, _pii_spans_of_row(spans, first + number) + prompt_lengths[number]
                    )
                text_word_ids, text_maskable = _assign_word_ids(
                    spans_of_text, bounds, is_maskable_word
                )
                word_ids.append(
                    np.where(text_word_ids == NO_WORD, NO_WORD, text_word_ids + word_count).astype(
                        np.int32
                    )
                )
                word_count += len(bounds)
                maskable.append(text_maskable)
    return TokenizedDocuments(
        token_ids=np.concatenate(ids) if ids else np.empty(0, np.int32),
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        loss_mask=np.concatenate(loss_masks) if loss_masks else None,
        word_ids=np.concatenate(word_ids) if select_maskable_words is not None else None,
        is_maskable=np.concatenate(maskable) if select_maskable_words is not None else None,
        doc_ids=table.column("doc_id").combine_chunks(),
    )


def fold_words(words: pl.Series) -> pl.Series:
    """Return words in the form in which they are compared with the blacklist: lower case, then NFC
    (a letter and an accent are one)."""
    return words.str.to_lowercase().str.normalize("NFC")


def split_words(texts: Sequence[str]) -> list[list[str]]:
    """Return the words of each text as the blacklist counts them: longest runs of letters, marks
    and numbers, folded."""
    return [words for words, _ in split_words_with_spans(texts)]


def split_words_with_spans(texts: Sequence[str]) -> list[tuple[list[str], I64]]:
    """Return for each text the words of `split_words` and their spans [words, 2] in code points."""
    found = pl.Series(texts, dtype=pl.String).str.extract_all(WORD_PATTERN)
    folded = fold_words(found.explode().drop_nulls()).to_list()  # an empty list may become a null
    split, first = [], 0
    for text, words in zip(texts, found.to_list(), strict=True):
        spans, end = [], 0
        for word in words:
            # between two words there are no word characters: the first occurrence is the word
            start = text.index(word, end)
            end = start + len(word)
            spans.append((start, end))
        split.append((folded[first : first + len(words)], np.array(spans, np.int64).reshape(-1, 2)))
        first += len(words)
    return split


def _pii_spans_of_row(column: Any, row: int) -> I64:
    """Return the spans in the main text of a document, [spans, 2] in code points."""
    value = column[row].values
    if value is None or not len(value):
        return np.empty((0, 2), np.int64)
    found = np.stack(
        [value.field(name).to_numpy(zero_copy_only=False) for name in ("start", "end")], axis=1
    ).astype(np.int64)
    if value.type.get_field_index("cell") >= 0:  # only the main text (cell 0) is trained on
        found = found[value.field("cell").to_numpy(zero_copy_only=False) == 0]
    return found


def _overlaps_any_span(token_spans: I64, pii_spans: I64) -> Mask:
    """Return which half-open `token_spans` share a character with one of `pii_spans` (which may
    overlap each other)."""
    if not len(pii_spans):
        return np.zeros(len(token_spans), bool)
    pii_spans = pii_spans[np.argsort(pii_spans[:, 0], kind="stable")]
    max_end = np.maximum.accumulate(pii_spans[:, 1])  # largest end of this span and all before it
    # the last span that starts before the token ends
    last = np.searchsorted(pii_spans[:, 0], token_spans[:, 1], side="left") - 1
    overlaps: Mask = (last >= 0) & (max_end[np.maximum(last, 0)] > token_spans[:, 0])
    return overlaps


def _assign_word_ids(token_spans: I64, word_spans: I64, is_maskable_word: Mask) -> tuple[I32, Mask]:
    """Return the word id of each token and whether it may be masked.

    Words that share a token are merged to one, which may be masked only if all of them may.
    """
    word_ids = np.full(len(token_spans), NO_WORD, np.int32)
    is_maskable = np.zeros(len(token_spans), bool)
    if not len(word_spans) or not len(token_spans):
        return word_ids, is_maskable
    # the first word that ends after the token begins
    first = np.searchsorted(word_spans[:, 1], token_spans[:, 0], side="right")
    # the last word that begins before the token ends
    last = np.searchsorted(word_spans[:, 0], token_spans[:, 1], side="left") - 1
    in_word = first <= last
    # a token over several words joins each of them to the next one
    joined_to_previous = np.zeros(len(word_spans) + 1, np.int64)
    spans_words = in_word & (last > first)
    np.add.at(joined_to_previous, first[spans_words] + 1, 1)
    np.add.at(joined_to_previous, last[spans_words] + 1, -1)
    group = np.cumsum(np.cumsum(joined_to_previous)[: len(word_spans)] == 0) - 1
    group_is_maskable = np.ones(int(group[-1]) + 1, bool)
    np.logical_and.at(group_is_maskable, group, is_maskable_word)
    word_ids[in_word] = group[first[in_word]]
    is_maskable[in_word] = group_is_maskable[word_ids[in_word]]
    return word_ids, is_maskable
