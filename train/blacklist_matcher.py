"""A blacklist of words and n-grams, and where it protects the words of texts. Written by `sanitize run --plan blacklist` into the vault.

Columns `ngram` (lower-cased words joined by one space), `n`, `users`, `reason` (direct, indirect). Nothing of it is ever told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.errors import InputRefused, nearest

Mask = npt.NDArray[np.bool_]
REASONS = ("direct", "indirect")


class Blacklist:
    """Entries as tuples of words. An entry protects all its words wherever they stand in a row, and nothing else."""

    def __init__(self, entries: Iterable[tuple[str, ...]]) -> None:
        self._words: dict[str, int] = {}
        # a trie: an edge leads from a state by a word to a state; the root is 0
        edges: dict[tuple[int, int], int] = {}
        ends: set[int] = set()
        self._long = self._count = 0
        for entry in entries:
            state = 0
            for word in entry:
                number = self._words.setdefault(word, len(self._words))
                state = edges.setdefault((state, number), len(edges) + 1)
            ends.add(state)
            self._long, self._count = max(self._long, len(entry)), self._count + 1
        # the edges as one sorted array of state * words + word
        keys = np.array([state * len(self._words) + word for state, word in edges], np.int64)
        order = np.argsort(keys)
        self._keys, self._targets = keys[order], np.fromiter(edges.values(), np.int64, len(edges))[order]
        self._ends = np.zeros(len(edges) + 1, bool)
        self._ends[list(ends)] = True

    @classmethod
    def read(cls, path: str | Path, reasons: Collection[str] = REASONS) -> Blacklist:
        """The entries of these reasons in a Parquet file, or in all of a folder; InputRefused where there is no such table."""
        place = Path(path)
        files = sorted(place.glob("*.parquet")) if place.is_dir() else [place]
        if not files or not place.exists():
            raise InputRefused(f"{place}: no Parquet file; expected the blacklist of a run, such as WORK/runs/HASH/vault/blacklist")
        entries: list[tuple[str, ...]] = []
        for file in files:
            try:
                table = pq.read_table(file, partitioning=None)
            except (pa.ArrowException, OSError) as error:
                raise InputRefused(f"{file}: cannot be read as Parquet ({type(error).__name__})") from None
            for column in ("ngram", "reason"):
                if column not in table.column_names:
                    raise InputRefused(f"{file}: there is no column {column!r}; {nearest(column, table.column_names)}")
            table = table.filter(pc.is_in(table.column("reason").cast(pa.string()), pa.array(sorted(reasons), pa.string())))
            entries += [tuple(ngram.split(" ")) for ngram in table.column("ngram").to_pylist() if ngram]
        return cls(entries)

    def __len__(self) -> int:
        return self._count

    def protected(self, texts: Sequence[Sequence[str]]) -> list[Mask]:
        """For each text, which of its words (lower-cased, in order) an entry protects."""
        lengths = [len(words) for words in texts]
        flat = np.array([self._words.get(word, -1) for words in texts for word in words], np.int64)
        inside = np.zeros(len(flat), bool)
        if self._count and len(flat):
            stops = np.repeat(np.cumsum(lengths), lengths)
            self._match(flat, stops, inside)
        return np.split(inside, np.cumsum(lengths)[:-1]) if lengths else []

    def _match(self, flat: npt.NDArray[np.int64], stops: npt.NDArray[np.int64], inside: Mask) -> None:
        """Walk the trie from all places at once, one word further each round."""
        marks = np.zeros(len(flat) + 1, np.int64)  # +1 where a protected run begins, -1 where it is over
        at = np.flatnonzero(flat >= 0)
        state = np.zeros(len(at), np.int64)
        for depth in range(self._long):
            fits = at + depth < stops[at]
            at, state = at[fits], state[fits]
            word = flat[at + depth]
            wanted = np.where(word >= 0, state * len(self._words) + word, -1)
            found = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
            hit = self._keys[found] == wanted
            at, state = at[hit], self._targets[found[hit]]
            over = at[self._ends[state]]
            np.add.at(marks, over, 1)
            np.add.at(marks, over + depth + 1, -1)
        inside |= np.cumsum(marks)[:-1] > 0


def reasons_of(value: str) -> tuple[str, ...]:
    """The reasons that a setting names: `both`, `direct` or `indirect`."""
    return REASONS if value == "both" else (value,)
