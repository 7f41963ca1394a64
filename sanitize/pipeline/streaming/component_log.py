"""The parts of the values that a stream has seen, to draw variants from: each once, in order of appearance, in one file that only grows.

A line a part: kind, part, document, text. What stands behind the length that the state says was never acknowledged, and goes. A store
stops growing at 65,536 entries, which is room enough to draw from, so that memory has a bound however long the stream is.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from sanitize.kinds.kind import kind as kind_named
from sanitize.stages.aggregates import LONGEST, NAMELIKE

I64 = npt.NDArray[np.int64]
ENTRIES = 1 << 16


class Stores:
    """The part stores of a stream."""

    def __init__(self, path: Path, length: int) -> None:
        self._path = path
        self._texts: dict[tuple[str, str], dict[str, int]] = {}  # text -> document, in order of appearance
        self._fresh: list[tuple[str, str, int, str]] = []
        if not path.exists():
            path.touch(mode=0o600)
        with path.open("r+b") as file:
            file.truncate(length)
            for line in file:
                kind, part, doc_no, text = json.loads(line)
                self._texts.setdefault((kind, part), {})[text] = doc_no

    def offer(self, kind: str, normalised: pa.LargeStringArray, doc_no: I64) -> None:
        """Take in the parts of values in order of appearance, each with its document. Counts with `commit`, `forget` takes it back."""
        split = kind_named(kind).split
        if split is None or not len(normalised):
            return
        parts = split(pl.Series(normalised))
        alone = parts["last"] == ""
        host = parts.select(pl.concat_str("domain", "dot", "tld")).to_series()
        columns = {"first": parts["first"], "local": parts["first"], "last": parts["last"], "domain": parts["domain"], "tld": parts["tld"]}
        for part, column in {**columns, "host": host}.items():
            lower = column.str.to_lowercase()
            wanted = lower.str.contains(NAMELIKE[part]) & (lower.str.len_bytes() <= LONGEST)
            if part in ("first", "local"):
                wanted &= alone if part == "local" else ~alone
            frame = pl.DataFrame({"text": lower, "doc_no": doc_no}).filter(wanted).unique("text", keep="first", maintain_order=True)
            known = self._texts.setdefault((kind, part), {})
            # a loop over distinct parts, most of which are known: a dictionary is what answers that
            for text, number in frame.iter_rows():
                if text not in known and len(known) < ENTRIES:
                    known[text] = number
                    self._fresh.append((kind, part, number, text))

    def forget(self) -> None:
        """Take back what was offered since the last `keep`."""
        for kind, part, _, text in self._fresh[self._kept :]:
            del self._texts[kind, part][text]
        del self._fresh[self._kept :]

    _kept = 0

    def keep(self) -> None:
        """What was offered stands."""
        self._kept = len(self._fresh)

    def of(self, kind: str, part: str) -> tuple[pa.LargeStringArray, I64]:
        """The entries of one store in order of appearance, and the document that brought each."""
        found = self._texts.get((kind, part), {})
        return pa.array(list(found), pa.large_string()), np.fromiter(found.values(), np.int64, len(found))

    def commit(self) -> int:
        """Bring what stands to the disk; the length by which it is opened again."""
        with self._path.open("ab") as file:
            # no part that could not stand in a variant is ever here, so that a line is plain text
            file.write(b"".join(json.dumps(one).encode() + b"\n" for one in self._fresh))
            file.flush()
            os.fsync(file.fileno())
            self._fresh, self._kept = [], 0
            return file.tell()
