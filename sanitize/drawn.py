"""The stores that parts of variants are drawn from: names, domains and endings, of the corpus itself or curated ones, each in the letter
case of what it stands for; and one part of many values as it is drawn (edit/rmft.py puts the parts together).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.keyed import pick
from sanitize.spans import arrow

I64 = npt.NDArray[np.int64]
_SCARCE = 2  # a corpus store with fewer entries is filled up from the curated one


@dataclass(frozen=True, repr=False)
class Store:
    """The entries of one store, and the same in three letter cases one after the other: lower, UPPER, Title.

    One that grows begins with what was seen, in order of appearance, `since` which document; each draws from what it has seen by then.
    """

    entries: pa.Array
    cased: pa.Array
    since: I64 | None = None
    mixed: bool = False
    same: I64 | None = None  # of each entry of one that grows: where its text stands first

    @classmethod
    def of(cls, entries: pa.Array) -> Store:
        series = pl.Series(entries)
        return cls(entries, pa.concat_arrays([entries, arrow(series.str.to_uppercase()), arrow(series.str.to_titlecase())]))

    @classmethod
    def grown(cls, seen: pa.Array, since: I64, curated: pa.Array, mixed: bool) -> Store:
        """What was seen before the curated entries."""
        both = cls.of(pa.concat_arrays([seen, curated]))
        return cls(both.entries, both.cased, since, mixed, np.asarray(pc.index_in(both.entries, both.entries), np.int64))

    def pick(self, bits: npt.NDArray[np.uint64], docs: I64) -> I64:
        """An entry for each draw in a document."""
        if self.since is None:
            return pick(bits, len(self.entries))
        seen, there = len(self.since), np.searchsorted(self.since, docs, side="right")
        more = len(self.entries) - seen
        if self.mixed:
            drawn = pick(bits, (there + more).astype(np.uint64))
            return np.where(drawn < there, drawn, seen + drawn - there)
        return np.where(there >= _SCARCE, pick(bits, there.astype(np.uint64)), seen + pick(bits, more))


@dataclass(frozen=True, repr=False)
class DrawnPart:
    """One part of the distinct values of a batch, and where its variants come from: own texts, then the store in three letter cases."""

    texts: pa.Array  # own distinct texts, then the store's
    own: int
    store: Store
    case: I64  # of each own text: 0 lower (and mixed), 1 upper, 2 title
    place: I64  # of each own text in the store, -1 where it is not there

    @classmethod
    def of(cls, own: pl.Series, store: Store) -> DrawnPart:
        lower, case = own, np.zeros(len(own), np.int64)
        cased = own.str.contains("[^\\x00-@\\[-\\x7f]").arg_true()  # anything but ASCII without capitals
        if len(cased):
            some = own.gather(cased)
            small, upper, title = some.str.to_lowercase(), some.str.to_uppercase(), some.str.to_titlecase()
            case[cased.to_numpy()] = np.where((some == upper) & (some != small), 1, np.where((some == title) & (some != small), 2, 0))
            lower = own.clone().scatter(cased, small)
        place = pc.fill_null(pc.index_in(arrow(lower), store.entries), -1)
        return cls(pa.concat_arrays([arrow(own), store.cased]), len(own), store, case, np.asarray(place, np.int64))

    def draw(
        self, of: I64, docs: I64, bits: npt.NDArray[np.uint64], stays: npt.NDArray[np.bool_]
    ) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
        """The part of each occurrence: its own where it stays, else from the store in its letter case; and whether it is another."""
        drawn = self.store.pick(bits, docs)
        index = np.where(stays, of, self.own + len(self.store.entries) * self.case[of] + drawn)
        found = drawn if self.store.same is None else self.store.same[drawn]
        return self.texts.take(pa.array(index)), stays | (found != self.place[of])


def entries_of(part: str, corpus: pa.Array, source: str) -> pa.Array:
    """The sorted entries of one store."""
    if source == "corpus" and len(corpus) >= _SCARCE:
        entries = corpus
    elif source == "curated":
        entries = pa.array(curated(part), pa.large_string())
    else:
        entries = pc.unique(pa.concat_arrays([corpus, pa.array(curated(part), pa.large_string())]))
    return entries.take(pc.sort_indices(entries))


@functools.cache
def curated_store(part: str) -> Store:
    """The sorted entries of a curated store."""
    return Store.of(entries_of(part, pa.array([], pa.large_string()), "curated"))


@functools.cache
def curated(part: str) -> list[str]:
    """Names from Faker's US lists, and domains under names that are reserved (RFC 2606), in lower case."""
    from faker.providers.person.en_US import Provider

    firsts = sorted({name.lower() for name in Provider.first_names if name.isascii() and name.isalpha()})
    lasts = sorted({name.lower() for name in Provider.last_names if name.isascii() and name.isalpha()})
    if part in ("first", "local"):
        return firsts
    if part == "last":
        return lasts
    if part == "tld":
        return ["com", "edu", "example", "info", "net", "org"]
    return lasts if part == "domain" else ["example.com", "example.net", "example.org", *(f"{name}.example" for name in lasts)]
