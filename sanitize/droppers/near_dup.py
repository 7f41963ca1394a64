"""Drops every document that is nearly the same as an earlier one: MinHash signatures, LSH bands, and the Jaccard similarity of what meets.

A document is the set of its runs of `n` words (or characters). Documents that agree in one band of their signatures are compared by the
exact Jaccard similarity of their sets; those at `threshold` or above are linked; of every component of links the first document stays.
A document without words stays; one with fewer than `n` is one run.

Signatures are those of datasketch 2 (`MinHash(num_perm, seed=1)`, scheme affine32) over our 32-bit hashes of the runs, computed for
whole columns. How many bands of how many rows is asked of datasketch's `MinHashLSH(threshold, num_perm)`, unless `bands` and `rows` say
it. Two documents of similarity s meet with a probability of 1 - (1 - s^rows)^bands; whoever meets is compared exactly, so that a meeting
in vain costs a comparison and a missed one stays: they are weighed 1 to 9.

In a band where very many meet, each is compared with the first and with the 32 before it, so that the work stays linear. Two passes over
the texts, the second over the documents that met another. Source: Broder 1997; Leskovec, Rajaraman, Ullman, Mining of Massive
Datasets, chapter 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field, model_validator

from sanitize.core.arrow_buffers import Buffers, pieces
from sanitize.core.duplicate_groups import components
from sanitize.core.parts import Dropper, Sight, Whole
from sanitize.errors import MissingExtra, PlanError
from sanitize.text.mail_headers import bodies
from sanitize.text.tokenizer import mixed, runs, words

I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
BANDS = pa.schema([("doc_no", pa.int64()), ("band", pa.int32()), ("hash", pa.int64())])
RUNS = pa.schema([("doc_no", pa.int64()), ("run", pa.int64())])
_BLOCK = 65_536  # runs at a time: one permutation of them then stays in the second-level cache
_WEIGHTS = (0.1, 0.9)  # of false positives and false negatives
WHOLE = -1  # the band of the whole signature


class NearDup(Dropper):
    """Settings: `threshold` (Jaccard, 0 to 1), `num_perm`, `shingle` (`words` or `characters`) and its `n`; `bands` and `rows` together, or
    neither; `body_only` leaves mail headers out."""

    VERSION: ClassVar[int] = 2
    threshold: float = Field(default=0.8, gt=0, le=1)
    num_perm: int = Field(default=128, ge=1, le=4096)
    shingle: Literal["words", "characters"] = "words"
    n: int = Field(default=5, ge=1)
    bands: int | None = Field(default=None, ge=1)
    rows: int | None = Field(default=None, ge=1)
    body_only: bool = False
    reason: ClassVar[str] = "similar text"
    needs: ClassVar[tuple[str, ...]] = ("near_dup_pairs", "near_dup_candidates", "near_dup_links")
    looks: ClassVar[Mapping[str, pa.Schema]] = {"bands": BANDS, "runs": RUNS}

    @model_validator(mode="after")
    def _geometry(self) -> NearDup:
        if (self.bands is None) != (self.rows is None):
            raise ValueError("bands and rows belong together: give both, or neither")
        if self.bands and self.rows and self.bands * self.rows > self.num_perm:
            raise ValueError("bands * rows is more than num_perm; a signature has num_perm numbers")
        return self

    def look(self, name: str, sight: Sight) -> pa.Table:
        """The bands of every document's signature, or every document's distinct runs."""
        buffers = Buffers.of(bodies(sight.texts) if self.body_only else sight.texts)
        parts = ((sight.doc_no[low:high], *self._runs(buffers.part(low, high))) for low, high in pieces(buffers.offsets))
        if name == "runs":
            return pa.concat_tables([RUNS.empty_table(), *(_distinct(*part) for part in parts)])
        assert self.bands is not None and self.rows is not None
        docs, signed = [np.empty(0, np.int64)], [np.empty((0, self.num_perm), np.uint32)]
        for doc_no, hashes, first in parts:
            there = np.flatnonzero(np.diff(first))
            docs.append(doc_no[there])
            signed.append(signatures((hashes >> np.uint64(32)).astype(np.uint32), first[np.append(there, len(doc_no))], self.num_perm))
        number, whole = np.concatenate(docs), np.asfortranarray(np.concatenate(signed))
        columns = [_digest(whole)] + [_digest(whole[:, at * self.rows : (at + 1) * self.rows]) for at in range(self.bands)]
        band = np.repeat(np.arange(WHOLE, self.bands, dtype=np.int32), len(number))
        return pa.table([np.tile(number, self.bands + 1), band, np.concatenate(columns).view(np.int64)], schema=BANDS)

    def _runs(self, buffers: Buffers) -> tuple[U64, I64]:
        return runs(words(buffers, characters=self.shingle == "characters"), self.n, short=True)

    def gather(self, whole: Whole) -> tuple[I64, I64]:
        """Every document that is linked with earlier ones, and the first of its component."""
        pairs = whole.ask("near_dup_pairs", {"bands": whole.look("bands")})
        candidates = whole.ask("near_dup_candidates", {"pairs": [pairs]})
        links = whole.ask("near_dup_links", {"pairs": [pairs], "runs": whole.look("runs", candidates)}, threshold=float(self.threshold))
        table = pq.read_table(links, partitioning=None)
        return components(np.asarray(table.column("doc_no"), np.int64), np.asarray(table.column("earlier_doc_no"), np.int64))

    def settled(self) -> NearDup:
        """The same with `bands` and `rows`, asked of datasketch where the plan does not say them."""
        if self.bands is not None:
            return self
        bands, rows = geometry(self.threshold, self.num_perm)
        return self.model_copy(update={"bands": bands, "rows": rows})


def geometry(threshold: float, num_perm: int) -> tuple[int, int]:
    """How many bands of how many rows find pairs above the threshold best, by datasketch."""
    try:
        from datasketch import MinHashLSH
    except ImportError:
        raise MissingExtra("datasketch", "dedup") from None
    try:
        found: Any = MinHashLSH(threshold=threshold, num_perm=num_perm, weights=_WEIGHTS)
    except ValueError:
        raise PlanError(
            f"near_dup: threshold = {threshold} is too high for num_perm = {num_perm}: one band would be best, which misses too much. "
            "Use a lower threshold, a larger num_perm, bands and rows of your own, or exact_dup"
        ) from None
    return int(found.b), int(found.r)


def permutations(num_perm: int) -> tuple[U32, U32]:
    """The factors and summands of datasketch's permutations (scheme affine32, seed 1): h -> a * h + b modulo 2^32, a odd."""
    draws = np.random.RandomState(1)
    a = draws.randint(0, 1 << 31, num_perm, dtype=np.uint32) * np.uint32(2) + np.uint32(1)
    return a, draws.randint(0, 1 << 32, num_perm, dtype=np.uint32)


def signatures(hashes: U32, first: I64, num_perm: int) -> U32:
    """The MinHash signature of each set of 32-bit hashes, [sets, num_perm]: set i is hashes[first[i]:first[i + 1]], and not empty."""
    factors, summands = permutations(num_perm)
    out = np.empty((len(first) - 1, num_perm), np.uint32)
    # datasketch mixes the input once (the finalizer of MurmurHash3 for 32 bits)
    spread = hashes ^ (hashes >> np.uint32(16))
    spread *= np.uint32(0x85EBCA6B)
    spread ^= spread >> np.uint32(13)
    spread *= np.uint32(0xC2B2AE35)
    spread ^= spread >> np.uint32(16)
    low = 0
    while low < len(first) - 1:
        # whole sets, as many as fill a block
        high = max(low + 1, int(np.searchsorted(first, first[low] + _BLOCK, side="right")) - 1)
        block, begins = spread[first[low] : first[high]], first[low:high] - first[low]
        moved = np.empty_like(block)
        for number in range(num_perm):
            np.multiply(block, factors[number], out=moved)
            np.add(moved, summands[number], out=moved)
            out[low:high, number] = np.minimum.reduceat(moved, begins)
        low = high
    return out


def _distinct(doc_no: I64, hashes: U64, first: I64) -> pa.Table:
    """The runs of each document; one counts once."""
    docs = np.repeat(doc_no, np.diff(first))
    order = np.lexsort((hashes, docs))
    docs, hashes = docs[order], hashes[order]
    new = np.append(True, (np.diff(docs) != 0) | (hashes[1:] != hashes[:-1]))[: len(docs)]
    return pa.table([docs[new], hashes[new].view(np.int64)], schema=RUNS)


def _digest(part: U32) -> U64:
    """A 64-bit hash of each row."""
    found = np.full(len(part), part.shape[1], np.uint64)
    for column in range(part.shape[1]):
        found = mixed(found ^ part[:, column].astype(np.uint64)) + np.uint64(column)
    return found
