"""Documents as tokens: one flat int32 array for the whole corpus, where each document begins, and what may be in a loss.

Tokens are made in batches by the tokenizer's own threads and kept as arrays: 4 bytes a token, and 5 more where words are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .documents import Documents

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
BATCH = 1_000  # texts that are with the tokenizer at once
NO_WORD = -1

WORD = r"[\p{L}\p{M}\p{N}]+"  # as the blacklist counts words: a longest run of letters, marks and numbers, lower-cased


@dataclass(frozen=True, repr=False)
class Tokens:
    """Tokens of documents, without special ones. `offsets[d]:offsets[d + 1]` are those of document d."""

    ids: I32
    offsets: I64
    keep: Mask | None  # false for a token that no loss may ask for: prompts, pii_spans
    units: I32 | None  # the word a token belongs to, numbered over the corpus; NO_WORD between words
    allowed: Mask | None  # a token of a word that may be asked for
    doc_ids: pa.Array
    labels: I64 | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def labelled(self, labels: I64) -> Tokens:
        """The same, with a label for each document."""
        return replace(self, labels=labels)


def tokenise(
    documents: Documents,
    tokenizer: Any,
    *,
    answers_only: bool = False,
    leave_out_pii: bool = False,
    words: Callable[[Sequence[Sequence[str]]], list[Mask]] | None = None,
    rewritten: Callable[[Sequence[str]], Sequence[str]] | None = None,
) -> Tokens:
    """The tokens of all documents. `words` says of each text's words which may be asked for; `rewritten` changes texts beforehand.

    A prompt column, where the documents have one, stands before the text; with `answers_only` its tokens are in no loss.
    """
    backend = tokenizer.backend_tokenizer
    table = documents.table
    spans = table.column("pii_spans").combine_chunks() if leave_out_pii and "pii_spans" in table.column_names else None
    prompts = table.column("prompt").to_pylist() if "prompt" in table.column_names else None
    ids: list[I32] = []
    counts: list[int] = []
    keeps: list[Mask] = []
    units: list[I32] = []
    allowed: list[Mask] = []
    numbered = 0
    placed = spans is not None or words is not None or (prompts is not None and answers_only)
    for first in range(0, len(documents), BATCH):
        texts: Sequence[str] = table.column("text").slice(first, BATCH).to_pylist()
        if rewritten is not None:
            texts = rewritten(texts)
        heads = prompts[first : first + BATCH] if prompts is not None else None
        if heads is not None:
            texts = [head + text for head, text in zip(heads, texts, strict=True)]
        found = (backend.encode_batch if placed else backend.encode_batch_fast)(list(texts), add_special_tokens=False)
        ids += [np.array(one.ids, np.int32) for one in found]
        counts += [len(one.ids) for one in found]
        if not placed:
            continue
        # documents one by one: offsets come as lists of pairs, one a text
        here = [np.array(one.offsets, np.int64).reshape(-1, 2) for one in found]
        lengths = [len(head) for head in heads] if heads is not None else [0] * len(here)
        for number, places in enumerate(here):
            keep = np.ones(len(places), bool)
            if heads is not None and answers_only:
                keep &= places[:, 1] > lengths[number]
            if spans is not None:
                keep &= ~_inside(places, _spans(spans, first + number) + lengths[number])
            keeps.append(keep)
        if words is not None:
            of_texts = [placed_words(text) for text in texts]
            may = words([names for names, _ in of_texts])
            for number, (places, (_, bounds), good) in enumerate(zip(here, of_texts, may, strict=True)):
                if spans is not None:  # a word is left out whole
                    good = good & ~_inside(bounds, _spans(spans, first + number) + lengths[number])
                unit, fine = _units(places, bounds, good)
                units.append(np.where(unit == NO_WORD, NO_WORD, unit + numbered).astype(np.int32))
                numbered += len(bounds)
                allowed.append(fine)
    return Tokens(
        ids=np.concatenate(ids) if ids else np.empty(0, np.int32),
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        keep=np.concatenate(keeps) if keeps else None,
        units=np.concatenate(units) if words is not None else None,
        allowed=np.concatenate(allowed) if words is not None else None,
        doc_ids=table.column("doc_id").combine_chunks(),
    )


@lru_cache(maxsize=1)
def _pattern() -> Any:
    import regex  # comes with transformers

    return regex.compile(WORD)


def words_of(text: str) -> list[str]:
    """The words of a text as the blacklist counts them: longest runs of letters, marks and numbers, lower-cased."""
    return [word.lower() for word in _pattern().findall(text)]


def placed_words(text: str) -> tuple[list[str], I64]:
    """The same words, and the code points [words, 2] where each begins and ends."""
    found = [(match.group().lower(), match.start(), match.end()) for match in _pattern().finditer(text)]
    return [word for word, _, _ in found], np.array([(start, stop) for _, start, stop in found], np.int64).reshape(-1, 2)


def _spans(column: Any, row: int) -> I64:
    """The spans of the main text of a document, as code points [spans, 2]."""
    value = column[row].values
    if value is None or not len(value):
        return np.empty((0, 2), np.int64)
    found = np.stack([value.field(name).to_numpy(zero_copy_only=False) for name in ("start", "stop")], axis=1).astype(np.int64)
    if value.type.get_field_index("cell") >= 0:  # of several texts of a document the first one is learned
        found = found[value.field("cell").to_numpy(zero_copy_only=False) == 0]
    return found


def _inside(places: I64, spans: I64) -> Mask:
    """Which half-open `places` share a character with one of the `spans` (these may overlap)."""
    if not len(spans):
        return np.zeros(len(places), bool)
    spans = spans[np.argsort(spans[:, 0], kind="stable")]
    reach = np.maximum.accumulate(spans[:, 1])
    last = np.searchsorted(spans[:, 0], places[:, 1], side="left") - 1  # the last span that begins before the place ends
    inside: Mask = (last >= 0) & (reach[np.maximum(last, 0)] > places[:, 0])
    return inside


def _units(places: I64, bounds: I64, good: Mask) -> tuple[I32, Mask]:
    """The unit of each token, and whether it may be asked for. Words that share a token are one unit, good only if all of them are."""
    unit = np.full(len(places), NO_WORD, np.int32)
    fine = np.zeros(len(places), bool)
    if not len(bounds) or not len(places):
        return unit, fine
    first = np.searchsorted(bounds[:, 1], places[:, 0], side="right")  # the first word that ends after the token begins
    last = np.searchsorted(bounds[:, 0], places[:, 1], side="left") - 1  # the last word that begins before the token ends
    touched = first <= last
    # a token over several words ties each of them to the next
    tied = np.zeros(len(bounds) + 1, np.int64)
    over = touched & (last > first)
    np.add.at(tied, first[over] + 1, 1)
    np.add.at(tied, last[over] + 1, -1)
    group = np.cumsum(np.cumsum(tied)[: len(bounds)] == 0) - 1
    right = np.ones(int(group[-1]) + 1, bool)
    np.logical_and.at(right, group, good)
    unit[touched] = group[first[touched]]
    fine[touched] = right[unit[touched]]
    return unit, fine
