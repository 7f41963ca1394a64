"""Listed words become `X`: what the blacklist of the plan names goes out of the texts, wherever it stands.

An n-gram of the list takes all its words at each place where they stand in a row, in any letter case; what stands between words stays.
With `reasons = ["direct"]` only values that were found are masked, which is the baseline MLMA of privacy-preserving masked language
modeling (section 4); a word of such a value goes wherever the whole value is said, in other places too. With `indirect` the words of few
users go as well.

`kinds` are those whose values are promised to be gone, and the leak check holds them to it: each occurrence goes as a whole, with every
word that it touches, also where the list does not have it. No check but the tests of this part says that listed words are gone. Cost: the
texts are taken apart once more.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import Field, PrivateAttr, model_validator

from sanitize.core.arrow_buffers import Buffers, arrow, cut_nested
from sanitize.core.keys import Key
from sanitize.core.parts import Counts, Editor, Policy, Rewrites, Sight
from sanitize.core.user_counts import Places
from sanitize.text.tokenizer import SPOKEN, Spoken, Words, spans_of, spoken, touched

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]


class MaskWords(Editor):
    """Settings: `reasons` (`direct`, `indirect`), `mask` (what stands there instead of a word), and `kinds`, which go with `direct`."""

    kinds: tuple[str, ...] = ()
    keep: Literal[0] = 0
    reasons: tuple[Literal["direct", "indirect"], ...] = Field(default=("direct",), min_length=1)
    mask: str = Field(default="X", min_length=1, max_length=32)
    needs: ClassVar[tuple[str, ...]] = ("blacklist",)
    reads: ClassVar[Literal["occurrences", "texts"]] = "texts"
    _singles: Places = PrivateAttr()
    _rows: dict[int, tuple[Places, Places]] = PrivateAttr()

    @model_validator(mode="after")
    def _promise(self) -> MaskWords:
        if self.kinds and "direct" not in self.reasons:
            raise ValueError('kinds are promised to be gone, which takes the reason "direct"; add it, or leave kinds out')
        return self

    @property
    def policy(self) -> Policy:
        """Values of its kinds are gone; without kinds, words are masked and nothing is promised."""
        return "erase" if self.kinds else "ledger"

    def open(self, key: Key, counts: Counts) -> None:
        """Take in the list: single words, and for each size of a longer n-gram its first words and all of it."""
        listed = pq.read_table(counts.tables["blacklist"], columns=["ngram", "reason"], partitioning=None)
        listed = listed.filter(pc.is_in(listed.column("reason"), value_set=pa.array(self.reasons, listed.schema.field("reason").type)))
        words = spoken(Buffers.of(pc.unique(listed.column("ngram").cast(pa.large_string())).sort()))
        first = np.searchsorted(words.text_no, np.arange(int(words.text_no[-1]) + 2 if len(words.text_no) else 1))
        sizes = np.diff(first)
        self._singles = Places(np.unique(words.hashes[first[:-1][sizes == 1]]))
        self._rows = {}
        for size in np.unique(sizes[sizes > 1]).tolist():
            begins = first[:-1][sizes == size]
            self._rows[size] = (Places(np.unique(words.hashes[begins])), Places(np.unique(_whole(words, begins, begins + size))))

    def rewrite(self, sight: Sight) -> Rewrites:
        """A mask for every word of an occurrence, in one span, and for every listed word elsewhere."""
        buffers = Buffers.of(sight.texts)
        words = spoken(buffers)
        listed = self.listed(words)
        # longest first of those that begin together, as `cut_nested` wants them
        found = sight.occurrences.with_row_index("row").sort("text_no", "start_byte", "stop_byte", descending=[False, False, True])
        text_no, row = found["text_no"].to_numpy(), found["row"].to_numpy().astype(np.int64)
        base = buffers.offsets[text_no]
        start, stop = base + found["start_byte"].to_numpy(), base + found["stop_byte"].to_numpy()
        first, after = touched(words, start, stop)
        some = np.flatnonzero(after > first)
        start[some] = np.minimum(start[some], words.start[first[some]])
        stop[some] = np.maximum(stop[some], words.stop[after[some] - 1])
        order = np.lexsort((-stop, start))
        row, text_no, base, start, stop = (column[order] for column in (row, text_no, base, start, stop))
        whole = pl.Series(cut_nested(buffers, start, stop)).str.replace_all(SPOKEN, self.mask.replace("$", "$$"))
        bare = np.ones(len(row), np.bool_)
        bare[np.flatnonzero((after > first)[order])] = False
        whole = pl.DataFrame({"text": whole, "bare": bare}).select(pl.when("bare").then(pl.lit(self.mask)).otherwise("text").alias("text"))[
            "text"
        ]
        inside = np.zeros(len(listed) + 1, np.int64)
        np.add.at(inside, first[some], 1)
        np.add.at(inside, after[some], -1)
        alone = np.flatnonzero(listed & (np.cumsum(inside)[:-1] == 0))
        shift = buffers.offsets[words.text_no[alone]]
        return Rewrites(
            text_no=np.concatenate([text_no, words.text_no[alone]]).astype(np.int64),
            start=np.concatenate([start - base, words.start[alone] - shift]),
            stop=np.concatenate([stop - base, words.stop[alone] - shift]),
            replacement=pa.concat_arrays(
                [arrow(whole), pa.array([self.mask], pa.large_string()).take(pa.array(np.zeros(len(alone), np.int64)))]
            ),
            occurrence=np.concatenate([row, np.full(len(alone), -1, np.int64)]),
        )

    def listed(self, words: Spoken) -> npt.NDArray[np.bool_]:
        """True for every word that the list names, alone or in a row."""
        listed: npt.NDArray[np.bool_] = self._singles.of(words.hashes) >= 0
        begins: list[I64] = [np.empty(0, np.int64)]
        ends: list[I64] = [np.empty(0, np.int64)]
        for size, (firsts, _) in self._rows.items():
            at = np.flatnonzero(firsts.of(words.hashes[: max(0, len(words.hashes) - size + 1)]) >= 0)
            at = at[words.text_no[at] == words.text_no[at + size - 1]]
            begins.append(at)
            ends.append(at + size)
        begin, end = np.concatenate(begins), np.concatenate(ends)
        if len(begin):
            whole = _whole(words, begin, end)
            there = np.zeros(len(begin), np.bool_)
            for size, (_, known) in self._rows.items():
                mine = np.flatnonzero(end - begin == size)
                there[mine] = known.of(whole[mine]) >= 0
            inside = np.zeros(len(listed) + 1, np.int64)
            np.add.at(inside, begin[there], 1)
            np.add.at(inside, end[there], -1)
            listed |= np.cumsum(inside)[:-1] > 0
        return listed


def _whole(words: Spoken, begins: I64, ends: I64) -> U64:
    """The hash of each row of words."""
    return spans_of(Words(words.hashes, np.empty(0, np.int64)), begins, ends, begins)[0]
