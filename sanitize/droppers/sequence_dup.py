"""Drops every document that shares a run of `min_tokens` words with an earlier, kept document.

A token is a word (`sanitize/text/tokenizer.py`): letters and digits, ASCII case ignored; characters
between words do not count. The first document with a run is kept, and a document is dropped only
because of a kept one, so that every run still occurs once.

Two passes. The first computes a few hashes of each document, selected so that two documents with a
common run of `min_tokens` words share at least one (winnowing; Schleimer, Wilkerson, Aiken, SIGMOD
2003). The second computes all runs of the documents that share a hash, as 64-bit hashes. Source of
the default of 400: Lee et al., ACL 2022, as interpreted by RMFT (arXiv 2512.03310).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa
from pydantic import Field

from sanitize.array_types import I64, U64
from sanitize.core.arrow_buffers import TextBuffers
from sanitize.core.duplicate_groups import find_repeating_groups
from sanitize.core.part_protocols import CorpusView, Dropper, TextBatch
from sanitize.text.mail_headers import extract_bodies
from sanitize.text.tokenizer import (
    WordHashes,
    hash_ngrams,
    hash_word_ranges,
    hash_words,
    locate_ngrams,
)

ITEM_SCHEMA = pa.schema([("group_no", pa.int64()), ("item_id", pa.int64())])


class SequenceDup(Dropper):
    """Settings: `min_tokens`, the length of a run in words; `body_only` ignores mail headers."""

    VERSION: ClassVar[int] = 2
    min_tokens: int = Field(default=400, ge=2)
    body_only: bool = False
    reason: ClassVar[str] = "same run of words"
    required_aggregates: ClassVar[tuple[str, ...]] = ("repeated_items", "groups_sharing_items")
    pass_schemas: ClassVar[Mapping[str, pa.Schema]] = {
        "fingerprints": ITEM_SCHEMA,
        "ngrams": ITEM_SCHEMA,
    }

    def run_pass(self, pass_name: str, text_batch: TextBatch) -> pa.Table:
        """The winnowed hashes of every document (pass `fingerprints`), or the hashes of all its
        runs (pass `ngrams`)."""
        buffers = TextBuffers.from_array(
            extract_bodies(text_batch.texts) if self.body_only else text_batch.texts
        )
        found = hash_words(buffers)
        if pass_name == "ngrams":
            hashes, first = hash_ngrams(found, self.min_tokens)
        else:
            hashes, first = _winnow(found, self.min_tokens)
        docs = np.repeat(text_batch.doc_no, np.diff(first))
        order = np.lexsort((hashes, docs))
        docs, hashes = docs[order], hashes[order]
        new = np.append(True, (np.diff(docs) != 0) | (hashes[1:] != hashes[:-1]))[: len(docs)]
        return pa.table([docs[new], hashes[new].view(np.int64)], schema=ITEM_SCHEMA)

    def select_drops(self, corpus: CorpusView) -> tuple[I64, I64]:
        """Every document that shares a run with an earlier, kept document, and that document (two
        arrays of doc_no)."""
        candidates = corpus.run_query(
            "groups_sharing_items", {"items": corpus.run_corpus_pass("fingerprints")}
        )
        return find_repeating_groups(
            corpus.run_query(
                "repeated_items", {"items": corpus.run_corpus_pass("ngrams", candidates)}
            )
        )


def _winnow(tokens: WordHashes, size: int) -> tuple[U64, I64]:
    """For every window of `size` consecutive words, the smallest hash of a run of half as many
    words; and the offsets of the texts."""
    inner = max(1, size // 2)
    starts, first = locate_ngrams(tokens, size)
    if not len(starts):
        return np.empty(0, np.uint64), first
    # the hash of the short run that begins at every word; a run across the end of a text is in no
    # window below
    count = len(tokens.hashes)
    at = np.arange(count)
    short = hash_word_ranges(tokens, at, np.minimum(at + inner, count))
    # sliding-window minimum, by doubling the window
    wide, window = 1, size - inner + 1
    smallest = short
    while 2 * wide <= window:
        smallest = np.minimum(smallest[:-wide], smallest[wide:])
        wide *= 2
    rest = window - wide
    if rest:
        smallest = np.minimum(smallest[:-rest], smallest[rest:])
    return smallest[starts], first
