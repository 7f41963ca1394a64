"""Drops every document with the same text as an earlier one, ignoring white space (or all but
words); the first one is kept.

The text of a document is its main text; with `body_only`, the text of a mail without its header
block. A document without text to compare is kept. Two texts are the same if their 128-bit BLAKE2b
digests are equal. One pass over the texts, at about 200 MB per CPU-second.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa

from sanitize.array_types import I64
from sanitize.core.part_protocols import CorpusView, Dropper, TextBatch
from sanitize.storage.parquet_files import read_table
from sanitize.text.mail_headers import extract_bodies
from sanitize.text.tokenizer import FOLDED_WORD_BYTES

_TO_WORDS = bytes(byte or 32 for byte in FOLDED_WORD_BYTES)
DIGEST_SCHEMA = pa.schema([("doc_no", pa.int64()), ("high", pa.int64()), ("low", pa.int64())])


class ExactDup(Dropper):
    """Settings: `same` is `bytes`, `spaces` (a run of white space counts as one blank, none at the
    ends) or `words` (letters and digits only, ASCII case ignored); `body_only` ignores mail
    headers."""

    same: Literal["bytes", "spaces", "words"] = "spaces"
    body_only: bool = False
    reason: ClassVar[str] = "same text"
    required_aggregates: ClassVar[tuple[str, ...]] = ("exact_dup_links",)
    pass_schemas: ClassVar[Mapping[str, pa.Schema]] = {"digests": DIGEST_SCHEMA}

    def run_pass(self, pass_name: str, text_batch: TextBatch) -> pa.Table:
        """The digest of every document that has a text, as a table of `DIGEST_SCHEMA` (two 64-bit
        halves)."""
        texts = extract_bodies(text_batch.texts) if self.body_only else text_batch.texts
        digests, rows = [], []
        # a loop over documents: there is no columnar 128-bit hash, and hashing a kilobyte takes
        # longer than one loop step
        for row, text in enumerate(texts.cast(pa.large_binary())):
            raw = memoryview(text.as_buffer())
            if self.same != "bytes":
                plain = bytes(raw)
                raw = memoryview(
                    b" ".join(
                        (plain.translate(_TO_WORDS) if self.same == "words" else plain).split()
                    )
                )
            if len(raw):
                digests.append(hashlib.blake2b(raw, digest_size=16).digest())
                rows.append(row)
        numbers = np.frombuffer(b"".join(digests), "<i8").reshape(-1, 2)
        return pa.table(
            [text_batch.doc_no[rows], numbers[:, 0].copy(), numbers[:, 1].copy()],
            schema=DIGEST_SCHEMA,
        )

    def select_drops(self, corpus: CorpusView) -> tuple[I64, I64]:
        """Every document with the digest of an earlier one, and the first document with that digest
        (two arrays of doc_no)."""
        links = read_table(
            corpus.run_query("exact_dup_links", {"digests": corpus.run_corpus_pass("digests")}),
        )
        return np.asarray(links.column("doc_no"), np.int64), np.asarray(
            links.column("kept_doc_no"), np.int64
        )
