"""Reads a blacklist of words and n-grams and finds the words of texts that it protects.

`sanitize run --plan blacklist` writes the blacklist into the vault. Columns: `ngram` (lower-cased
words joined by one space), `n`, `users`, `reason` (direct, indirect). Its entries are never logged
or reported.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.errors import InputRefused, UsageError, suggest_names
from sanitize.storage.private_folder import find_blacklist

from .tokenization import fold_words

Mask = npt.NDArray[np.bool_]
REASONS = ("direct", "indirect")


class BlacklistMatcher:
    """A trie of blacklist entries (tuples of folded words). An entry protects its words where they
    occur in a row, and nothing else."""

    def __init__(self, entries: Iterable[tuple[str, ...]]) -> None:
        self._word_ids: dict[str, int] = {}
        # trie: (state, word id) -> next state; the root is state 0
        edges: dict[tuple[int, int], int] = {}
        ends: set[int] = set()
        self._longest_entry = self._entry_count = 0
        for entry in entries:
            state = 0
            for word in entry:
                number = self._word_ids.setdefault(word, len(self._word_ids))
                state = edges.setdefault((state, number), len(edges) + 1)
            ends.add(state)
            self._longest_entry, self._entry_count = (
                max(self._longest_entry, len(entry)),
                self._entry_count + 1,
            )
        # all edges as one sorted array of keys state * word_count + word id
        keys = np.array([state * len(self._word_ids) + word for state, word in edges], np.int64)
        order = np.argsort(keys)
        self._edge_keys, self._edge_targets = (
            keys[order],
            np.fromiter(edges.values(), np.int64, len(edges))[order],
        )
        self._is_final_state = np.zeros(len(edges) + 1, bool)
        self._is_final_state[list(ends)] = True

    @classmethod
    def read(cls, path: str | Path, reasons: Collection[str] = REASONS) -> BlacklistMatcher:
        """Read the entries with these reasons from what `find_blacklist` takes; InputRefused if
        there is no such table."""
        source = find_blacklist(path)
        files = sorted(source.glob("*.parquet")) if source.is_dir() else [source]
        entries: list[tuple[str, ...]] = []
        for file in files:
            try:
                table = pq.read_table(file, partitioning=None)
            except (pa.ArrowException, OSError) as error:
                raise InputRefused(
                    f"{file}: cannot be read as Parquet ({type(error).__name__})"
                ) from None
            for column in ("ngram", "reason"):
                if column not in table.column_names:
                    raise InputRefused(
                        f"{file}: there is no column {column!r};"
                        f" {suggest_names(column, table.column_names)}"
                    )
            table = table.filter(
                pc.is_in(
                    table.column("reason").cast(pa.string()), pa.array(sorted(reasons), pa.string())
                )
            )
            # counted by their NFC form, listed in the spelling of one document
            ngrams = fold_words(pl.Series(table.column("ngram").cast(pa.large_string())))
            entries += [tuple(ngram.split(" ")) for ngram in ngrams if ngram]
        return cls(entries)

    def __len__(self) -> int:
        return self._entry_count

    def find_protected_words(self, texts: Sequence[Sequence[str]]) -> list[Mask]:
        """Return for each text which of its words (folded, in order) are protected by an entry."""
        lengths = [len(words) for words in texts]
        word_ids = np.array(
            [self._word_ids.get(word, -1) for words in texts for word in words], np.int64
        )
        is_protected = np.zeros(len(word_ids), bool)
        if self._entry_count and len(word_ids):
            text_ends = np.repeat(np.cumsum(lengths), lengths)
            self._mark_matches(word_ids, text_ends, is_protected)
        return np.split(is_protected, np.cumsum(lengths)[:-1]) if lengths else []

    def _mark_matches(
        self, word_ids: npt.NDArray[np.int64], text_ends: npt.NDArray[np.int64], is_protected: Mask
    ) -> None:
        """Walk the trie from all word positions at once, one word further per iteration, and set
        `is_protected`."""
        # +1 where a match starts, -1 where it ends
        match_deltas = np.zeros(len(word_ids) + 1, np.int64)
        positions = np.flatnonzero(word_ids >= 0)
        state = np.zeros(len(positions), np.int64)
        for depth in range(self._longest_entry):
            in_text = positions + depth < text_ends[positions]
            positions, state = positions[in_text], state[in_text]
            word = word_ids[positions + depth]
            wanted_keys = np.where(word >= 0, state * len(self._word_ids) + word, -1)
            found = np.minimum(
                np.searchsorted(self._edge_keys, wanted_keys), len(self._edge_keys) - 1
            )
            hit = self._edge_keys[found] == wanted_keys
            positions, state = positions[hit], self._edge_targets[found[hit]]
            matched = positions[self._is_final_state[state]]
            np.add.at(match_deltas, matched, 1)
            np.add.at(match_deltas, matched + depth + 1, -1)
        is_protected |= np.cumsum(match_deltas)[:-1] > 0


def require_blacklist(path: str, use: str) -> str:
    """Return the file or folder of the blacklist that an objective is given; UsageError if it is
    given none."""
    if not path:
        raise UsageError(
            f"objective.blacklist is not set; {use} expects the private folder WORK of `sanitize"
            " run --plan blacklist`. Without one, objective masked masks any word"
        )
    return str(find_blacklist(path))


def expand_reasons(setting: str) -> tuple[str, ...]:
    """Return the reasons that a setting (`both`, `direct` or `indirect`) selects."""
    return REASONS if setting == "both" else (setting,)
