"""Drops every document that shares a run of `min_tokens` words with an earlier one that stays.

A token is a word (`sanitize/text/tokenizer.py`): letters and digits, without regard to ASCII case; what stands between words does not
matter. The
first document with a run keeps it, and a document goes only for the sake of one that stays, so that every run is still there once.

Two passes. The first leaves few fingerprints of each document, chosen so that two documents with a common run of `min_tokens` words have
at least one in common (winnowing; Schleimer, Wilkerson, Aiken, SIGMOD 2003). The second takes all runs of the documents that met, as
64-bit hashes. Source of the default of 400: Lee et al., ACL 2022, as RMFT (arXiv 2512.03310) reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from sanitize.core.arrow_buffers import Buffers
from sanitize.core.duplicate_groups import that_repeat
from sanitize.core.parts import Dropper, Sight, Whole
from sanitize.text.mail_headers import bodies
from sanitize.text.tokenizer import Words, run_places, spans_of, words

I64 = npt.NDArray[np.int64]
THINGS = pa.schema([("group_no", pa.int64()), ("thing_id", pa.int64())])


class SequenceDup(Dropper):
    """Settings: `min_tokens`; `body_only` leaves mail headers out."""

    VERSION: ClassVar[int] = 2
    min_tokens: int = Field(default=400, ge=2)
    body_only: bool = False
    reason: ClassVar[str] = "same run of words"
    needs: ClassVar[tuple[str, ...]] = ("repeated_things", "groups_that_share")
    looks: ClassVar[Mapping[str, pa.Schema]] = {"fingerprints": THINGS, "runs": THINGS}

    def look(self, name: str, sight: Sight) -> pa.Table:
        """The winnowed fingerprints of every document, or all its runs."""
        buffers = Buffers.of(bodies(sight.texts) if self.body_only else sight.texts)
        found = words(buffers)
        if name == "runs":
            hashes, first = spans_of(found, *run_places(found, self.min_tokens))
        else:
            hashes, first = _winnowed(found, self.min_tokens)
        docs = np.repeat(sight.doc_no, np.diff(first))
        order = np.lexsort((hashes, docs))
        docs, hashes = docs[order], hashes[order]
        new = np.append(True, (np.diff(docs) != 0) | (hashes[1:] != hashes[:-1]))[: len(docs)]
        return pa.table([docs[new], hashes[new].view(np.int64)], schema=THINGS)

    def gather(self, whole: Whole) -> tuple[I64, I64]:
        """Every document that shares a run with an earlier one that stays, and that one."""
        met = whole.ask("groups_that_share", {"things": whole.look("fingerprints")})
        return that_repeat(whole.ask("repeated_things", {"things": whole.look("runs", met)}))


def _winnowed(found: Words, size: int) -> tuple[npt.NDArray[np.uint64], I64]:
    """Of every `size` consecutive words the smallest hash of a run of half of them, and where each text's begin."""
    inner = max(1, size // 2)
    starts, _, first = run_places(found, size)
    if not len(starts):
        return np.empty(0, np.uint64), first
    # the hash of the short run from every word on; one that runs over a text's end is no part of a window below
    count = len(found.hashes)
    at = np.arange(count)
    short, _ = spans_of(found, at, np.minimum(at + inner, count), first)
    # the minimum over a window, by doubling it
    wide, window = 1, size - inner + 1
    smallest = short
    while 2 * wide <= window:
        smallest = np.minimum(smallest[:-wide], smallest[wide:])
        wide *= 2
    rest = window - wide
    if rest:
        smallest = np.minimum(smallest[:-rest], smallest[rest:])
    return smallest[starts], first
