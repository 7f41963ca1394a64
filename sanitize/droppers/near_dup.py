"""Drops every document that is nearly the same as an earlier one: candidates by MinHash and LSH
bands, compared by Jaccard similarity.

A document is the set of its shingles, runs of `n` words (or characters). Documents that agree in
one band of their signatures are candidates and are compared by the exact Jaccard similarity of
their sets; those at `threshold` or above are linked. The first document of every connected
component of links is kept. A document without words is kept; one with fewer than `n` words is a
single shingle.

Signatures are those of datasketch 2 (`MinHash(num_perm, seed=1)`, scheme affine32) over 32-bit
hashes of the shingles, computed for whole columns. datasketch's `MinHashLSH(threshold, num_perm)`
chooses the number of bands and of rows in each, unless the plan sets `bands` and `rows`. Two
documents of similarity s become candidates with a probability of 1 - (1 - s^rows)^bands. A false
candidate costs only a comparison, a missed one is not dropped, so false positives and false
negatives are weighted 1 to 9.

In a band value that very many documents share, each is compared with the first and with the 32
before it, so the work stays linear. Two passes over the texts, the second over the candidates only.
Source: Broder 1997; Leskovec, Rajaraman, Ullman, Mining of Massive Datasets, chapter 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from sanitize.array_types import I64, U32, U64
from sanitize.core.arrow_buffers import TextBuffers, iter_text_ranges
from sanitize.core.duplicate_groups import connected_components
from sanitize.core.part_protocols import CorpusView, Dropper, TextBatch
from sanitize.errors import MissingExtra, PlanError
from sanitize.storage.parquet_files import read_table
from sanitize.text.mail_headers import extract_bodies
from sanitize.text.tokenizer import hash_ngrams, hash_words, mix_bits

BAND_SCHEMA = pa.schema([("doc_no", pa.int64()), ("band", pa.int32()), ("hash", pa.int64())])
SHINGLE_SCHEMA = pa.schema([("doc_no", pa.int64()), ("shingle", pa.int64())])
_BLOCK_SIZE = (
    65_536  # shingles processed together: one permutation of them then fits the second-level cache
)
_ERROR_WEIGHTS = (0.1, 0.9)  # weights of false positives and false negatives
WHOLE_SIGNATURE = -1  # band number of the whole signature


class NearDup(Dropper):
    """Drops all but the first of documents that are alike. Settings: `threshold` (Jaccard
    similarity, 0 to 1), `num_perm` (numbers in a signature), `shingle` (`words` or `characters`)
    and its length `n`; `bands` and `rows`, both or neither; `body_only` ignores mail headers."""

    VERSION: ClassVar[int] = 2
    threshold: float = Field(default=0.8, gt=0, le=1)
    num_perm: int = Field(default=128, ge=1, le=4096)
    shingle: Literal["words", "characters"] = "words"
    n: int = Field(default=5, ge=1)
    bands: int | None = Field(default=None, ge=1)
    rows: int | None = Field(default=None, ge=1)
    body_only: bool = False
    reason: ClassVar[str] = "similar text"
    required_aggregates: ClassVar[tuple[str, ...]] = (
        "near_dup_pairs",
        "near_dup_candidates",
        "near_dup_links",
    )
    pass_schemas: ClassVar[Mapping[str, pa.Schema]] = {
        "bands": BAND_SCHEMA,
        "shingles": SHINGLE_SCHEMA,
    }

    @model_validator(mode="after")
    def _check_bands(self) -> NearDup:
        if (self.bands is None) != (self.rows is None):
            raise ValueError("bands and rows belong together: set both, or neither")
        if self.bands and self.rows and self.bands * self.rows > self.num_perm:
            raise ValueError(
                "bands * rows is more than num_perm, the length of a signature; use fewer bands or"
                " rows, or a larger num_perm"
            )
        return self

    def run_pass(self, pass_name: str, text_batch: TextBatch) -> pa.Table:
        """The band hashes of every document's signature (pass `bands`), or every document's
        distinct shingles (pass `shingles`)."""
        buffers = TextBuffers.from_array(
            extract_bodies(text_batch.texts) if self.body_only else text_batch.texts
        )
        parts = (
            (text_batch.doc_no[low:high], *self._shingles(buffers.slice(low, high)))
            for low, high in iter_text_ranges(buffers.offsets)
        )
        if pass_name == "shingles":
            return pa.concat_tables(
                [SHINGLE_SCHEMA.empty_table(), *(_distinct_shingles(*part) for part in parts)]
            )
        assert self.bands is not None and self.rows is not None
        docs, signatures = [np.empty(0, np.int64)], [np.empty((0, self.num_perm), np.uint32)]
        for doc_no, hashes, first in parts:
            nonempty = np.flatnonzero(np.diff(first))
            docs.append(doc_no[nonempty])
            signatures.append(
                minhash_signatures(
                    (hashes >> np.uint64(32)).astype(np.uint32),
                    first[np.append(nonempty, len(doc_no))],
                    self.num_perm,
                )
            )
        doc_nos, signature_matrix = (
            np.concatenate(docs),
            np.asfortranarray(np.concatenate(signatures)),
        )
        columns = [_hash_rows(signature_matrix)] + [
            _hash_rows(signature_matrix[:, at * self.rows : (at + 1) * self.rows])
            for at in range(self.bands)
        ]
        band = np.repeat(np.arange(WHOLE_SIGNATURE, self.bands, dtype=np.int32), len(doc_nos))
        return pa.table(
            [np.tile(doc_nos, self.bands + 1), band, np.concatenate(columns).view(np.int64)],
            schema=BAND_SCHEMA,
        )

    def _shingles(self, buffers: TextBuffers) -> tuple[U64, I64]:
        return hash_ngrams(
            hash_words(buffers, by_character=self.shingle == "characters"), self.n, keep_short=True
        )

    def select_drops(self, corpus: CorpusView) -> tuple[I64, I64]:
        """Every document that is linked with earlier ones, and the first document of its component
        (two arrays of doc_no)."""
        pairs = corpus.run_query("near_dup_pairs", {"bands": corpus.run_corpus_pass("bands")})
        candidates = corpus.run_query("near_dup_candidates", {"pairs": [pairs]})
        links = corpus.run_query(
            "near_dup_links",
            {"pairs": [pairs], "shingles": corpus.run_corpus_pass("shingles", candidates)},
            threshold=float(self.threshold),
        )
        table = read_table(links)
        return connected_components(
            np.asarray(table.column("doc_no"), np.int64),
            np.asarray(table.column("earlier_doc_no"), np.int64),
        )

    def resolve_settings(self) -> NearDup:
        """These settings with `bands` and `rows`, chosen by datasketch where the plan does not set
        them."""
        if self.bands is not None:
            return self
        bands, rows = choose_bands(self.threshold, self.num_perm)
        return self.model_copy(update={"bands": bands, "rows": rows})


def choose_bands(threshold: float, num_perm: int) -> tuple[int, int]:
    """The numbers of bands and of rows in each that datasketch chooses for a threshold. Raises
    MissingExtra without datasketch, PlanError where the threshold is too high."""
    try:
        from datasketch import MinHashLSH
    except ImportError:
        raise MissingExtra("datasketch", "dedup") from None
    try:
        found: Any = MinHashLSH(threshold=threshold, num_perm=num_perm, weights=_ERROR_WEIGHTS)
    except ValueError:
        raise PlanError(
            f"near_dup: threshold = {threshold} is too high for num_perm = {num_perm}: datasketch"
            " would choose a single band, which misses too many pairs. Use a lower threshold, a"
            " larger num_perm, your own bands and rows, or exact_dup"
        ) from None
    return int(found.b), int(found.r)


def permutation_coefficients(num_perm: int) -> tuple[U32, U32]:
    """The factors and summands of datasketch's permutations (scheme affine32, seed 1): h -> a * h +
    b modulo 2^32, a odd."""
    draws = np.random.RandomState(1)
    a = draws.randint(0, 1 << 31, num_perm, dtype=np.uint32) * np.uint32(2) + np.uint32(1)
    return a, draws.randint(0, 1 << 32, num_perm, dtype=np.uint32)


def minhash_signatures(hashes: U32, offsets: I64, num_perm: int) -> U32:
    """The MinHash signatures of sets of 32-bit hashes, shape [sets, num_perm]. Set i is
    hashes[offsets[i]:offsets[i + 1]] and not empty."""
    factors, summands = permutation_coefficients(num_perm)
    out = np.empty((len(offsets) - 1, num_perm), np.uint32)
    # datasketch mixes the input once (the finalizer of MurmurHash3 for 32 bits)
    mixed = hashes ^ (hashes >> np.uint32(16))
    mixed *= np.uint32(0x85EBCA6B)
    mixed ^= mixed >> np.uint32(13)
    mixed *= np.uint32(0xC2B2AE35)
    mixed ^= mixed >> np.uint32(16)
    low = 0
    while low < len(offsets) - 1:
        # as many whole sets as fit in a block, at least one
        high = max(
            low + 1, int(np.searchsorted(offsets, offsets[low] + _BLOCK_SIZE, side="right")) - 1
        )
        block, begins = mixed[offsets[low] : offsets[high]], offsets[low:high] - offsets[low]
        permuted = np.empty_like(block)
        for number in range(num_perm):
            np.multiply(block, factors[number], out=permuted)
            np.add(permuted, summands[number], out=permuted)
            out[low:high, number] = np.minimum.reduceat(permuted, begins)
        low = high
    return out


def _distinct_shingles(doc_no: I64, hashes: U64, offsets: I64) -> pa.Table:
    """The distinct shingles of each document, as a table of `SHINGLE_SCHEMA`."""
    docs = np.repeat(doc_no, np.diff(offsets))
    order = np.lexsort((hashes, docs))
    docs, hashes = docs[order], hashes[order]
    new = np.append(True, (np.diff(docs) != 0) | (hashes[1:] != hashes[:-1]))[: len(docs)]
    return pa.table([docs[new], hashes[new].view(np.int64)], schema=SHINGLE_SCHEMA)


def _hash_rows(rows: U32) -> U64:
    """A 64-bit hash of each row."""
    hashes = np.full(len(rows), rows.shape[1], np.uint64)
    for column in range(rows.shape[1]):
        hashes = mix_bits(hashes ^ rows[:, column].astype(np.uint64)) + np.uint64(column)
    return hashes
