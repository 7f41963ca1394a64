"""Replaces the words of the plan's blacklist by a mask such as `X`, wherever they occur.

For an n-gram of the list, all its words are masked at each place where they occur in sequence, in
any letter case; characters between words are kept. With `reasons = ["direct"]` only values that
were found are masked, which is the baseline MLMA of privacy-preserving masked language modeling
(section 4); the words of such a value are masked wherever the whole value occurs, also where no
finder reported it. With `indirect`, words that few users wrote are masked too.

The removal of all values of `kinds` is promised, and the leak check verifies it: each occurrence is
masked as a whole, with every word that it overlaps, even if it is not on the list. Only the tests
of this part check that listed words are removed. Cost: one more tokenization of the texts.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, PrivateAttr, model_validator

from sanitize.array_types import I64, U64, Mask
from sanitize.core.arrow_buffers import TextBuffers, slice_spans, to_large_string
from sanitize.core.intervals import sort_spans
from sanitize.core.keys import Key
from sanitize.core.part_protocols import Aggregates, RemovalPolicy, TextBatch, TextEditor, TextEdits
from sanitize.storage.parquet_files import read_table
from sanitize.text.tokenizer import (
    UNICODE_WORD_PATTERN,
    UnicodeTokens,
    WordHashes,
    find_overlapping_words,
    hash_word_ranges,
    tokenize_unicode,
)
from sanitize.text.user_counts import IdIndex


class MaskWords(TextEditor):
    """Settings: `reasons` (`direct`: found values; `indirect`: words of few users), `mask` (the
    replacement of a word), and `kinds`, whose removal is promised; these need the reason
    `direct`."""

    kinds: tuple[str, ...] = ()
    keep: Literal[0] = 0
    reasons: tuple[Literal["direct", "indirect"], ...] = Field(default=("direct",), min_length=1)
    mask: str = Field(default="X", min_length=1, max_length=32)
    required_aggregates: ClassVar[tuple[str, ...]] = ("blacklist",)
    _single_words: IdIndex = PrivateAttr()
    _ngrams_by_size: dict[int, tuple[IdIndex, IdIndex]] = PrivateAttr()

    @model_validator(mode="after")
    def _check_reasons(self) -> MaskWords:
        if self.kinds and "direct" not in self.reasons:
            raise ValueError(
                'the removal of kinds needs the reason "direct"; add it to reasons, or remove kinds'
            )
        return self

    @property
    def removal_policy(self) -> RemovalPolicy:
        """`erase` if kinds are set: their values are removed. `ledger` without kinds: words are
        masked, and no removal is promised."""
        return "erase" if self.kinds else "ledger"

    @property
    def action(self) -> str:
        """A mask for every word of every occurrence."""
        return (
            "every word of every occurrence masked, and all other places where the same words occur"
            " together"
        )

    @property
    def blacklist_reasons(self) -> tuple[str, ...]:
        """The setting `reasons`."""
        return self.reasons

    def open(self, key: Key, aggregates: Aggregates) -> None:
        """Load the blacklist: hashes of single words, and for each length of longer n-grams, hashes
        of first words and of whole n-grams."""
        listed = read_table(aggregates.tables["blacklist"], columns=["ngram", "reason"])
        listed = listed.filter(
            pc.is_in(
                listed.column("reason"),
                value_set=pa.array(self.reasons, listed.schema.field("reason").type),
            )
        )
        words = tokenize_unicode(
            TextBuffers.from_array(pc.unique(listed.column("ngram").cast(pa.large_string())).sort())
        )
        first = np.searchsorted(
            words.text_no, np.arange(int(words.text_no[-1]) + 2 if len(words.text_no) else 1)
        )
        sizes = np.diff(first)
        self._single_words = IdIndex(np.unique(words.hashes[first[:-1][sizes == 1]]))
        self._ngrams_by_size = {}
        for size in np.unique(sizes[sizes > 1]).tolist():
            begins = first[:-1][sizes == size]
            self._ngrams_by_size[size] = (
                IdIndex(np.unique(words.hashes[begins])),
                IdIndex(np.unique(_hash_ngrams(words, begins, begins + size))),
            )

    def edit_texts(self, text_batch: TextBatch) -> TextEdits:
        """One edit for every occurrence, with a mask for each of its words, and one for every
        listed word elsewhere."""
        buffers = TextBuffers.from_array(text_batch.texts)
        words = tokenize_unicode(buffers)
        listed = self.is_listed(words)
        # of occurrences with the same start, the longest first
        found = text_batch.occurrences.with_row_index("row").sort(
            "text_no", "start_byte", "end_byte", descending=[False, False, True]
        )
        text_no, row = found["text_no"].to_numpy(), found["row"].to_numpy().astype(np.int64)
        base = buffers.offsets[text_no]
        start, end = base + found["start_byte"].to_numpy(), base + found["end_byte"].to_numpy()
        first, after = find_overlapping_words(words, start, end)
        with_words = np.flatnonzero(after > first)
        start[with_words] = np.minimum(start[with_words], words.start[first[with_words]])
        end[with_words] = np.maximum(end[with_words], words.end[after[with_words] - 1])
        order = sort_spans(start, end)
        row, text_no, base, start, end = (
            column[order] for column in (row, text_no, base, start, end)
        )
        masked = pl.Series(slice_spans(buffers, start, end)).str.replace_all(
            UNICODE_WORD_PATTERN, self.mask.replace("$", "$$")
        )
        # an occurrence without a word is replaced by a single mask
        bare = np.ones(len(row), np.bool_)
        bare[np.flatnonzero((after > first)[order])] = False
        masked = pl.DataFrame({"text": masked, "bare": bare}).select(
            pl.when("bare").then(pl.lit(self.mask)).otherwise("text").alias("text")
        )["text"]
        # difference array: its running sum is > 0 for words inside an occurrence
        inside = np.zeros(len(listed) + 1, np.int64)
        np.add.at(inside, first[with_words], 1)
        np.add.at(inside, after[with_words], -1)
        other_words = np.flatnonzero(listed & (np.cumsum(inside)[:-1] == 0))
        text_start = buffers.offsets[words.text_no[other_words]]
        return TextEdits(
            text_no=np.concatenate([text_no, words.text_no[other_words]]).astype(np.int64),
            start_byte=np.concatenate([start - base, words.start[other_words] - text_start]),
            end_byte=np.concatenate([end - base, words.end[other_words] - text_start]),
            replacement=pa.concat_arrays(
                [
                    to_large_string(masked),
                    pa.array([self.mask], pa.large_string()).take(
                        pa.array(np.zeros(len(other_words), np.int64))
                    ),
                ]
            ),
            occurrence_no=np.concatenate([row, np.full(len(other_words), -1, np.int64)]),
        )

    def is_listed(self, words: UnicodeTokens) -> Mask:
        """True for every word that is listed, alone or as part of a listed n-gram."""
        listed: Mask = self._single_words.positions_of(words.hashes) >= 0
        begins: list[I64] = [np.empty(0, np.int64)]
        ends: list[I64] = [np.empty(0, np.int64)]
        for size, (firsts, _) in self._ngrams_by_size.items():
            at = np.flatnonzero(
                firsts.positions_of(words.hashes[: max(0, len(words.hashes) - size + 1)]) >= 0
            )
            at = at[words.text_no[at] == words.text_no[at + size - 1]]
            begins.append(at)
            ends.append(at + size)
        begin, end = np.concatenate(begins), np.concatenate(ends)
        if len(begin):
            hashes = _hash_ngrams(words, begin, end)
            is_match = np.zeros(len(begin), np.bool_)
            for size, (_, known) in self._ngrams_by_size.items():
                same_size = np.flatnonzero(end - begin == size)
                is_match[same_size] = known.positions_of(hashes[same_size]) >= 0
            # difference array: its running sum is > 0 for words inside a listed n-gram
            inside = np.zeros(len(listed) + 1, np.int64)
            np.add.at(inside, begin[is_match], 1)
            np.add.at(inside, end[is_match], -1)
            listed |= np.cumsum(inside)[:-1] > 0
        return listed


def _hash_ngrams(words: UnicodeTokens, starts: I64, ends: I64) -> U64:
    """The hash of each n-gram, given by its range of words."""
    return hash_word_ranges(WordHashes(words.hashes, np.empty(0, np.int64)), starts, ends)
