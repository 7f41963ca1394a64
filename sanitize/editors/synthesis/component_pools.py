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

from sanitize.core.arrow_buffers import arrow
from sanitize.core.keys import pick

I64 = npt.NDArray[np.int64]
_SCARCE = 2  # a corpus store with fewer entries is filled up from the curated one


@dataclass(frozen=True, repr=False)
class Store:
    """The entries of one store, in lower case.

    One that grows begins with what was seen, in order of appearance, `since` which document; each draws from what it has seen by then.
    """

    entries: pa.Array
    since: I64 | None = None
    mixed: bool = False

    @classmethod
    def grown(cls, seen: pa.Array, since: I64, curated: pa.Array, mixed: bool) -> Store:
        """What was seen before the curated entries."""
        return cls(pa.concat_arrays([seen, curated]), since, mixed)

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
    """One part of the distinct values of a batch, and the store that its variants come from."""

    texts: pa.Array  # own distinct texts
    lower: pa.Array  # the same in lower case
    case: I64  # of each: 0 lower (and mixed), 1 upper, 2 title
    store: Store

    @classmethod
    def of(cls, own: pl.Series, store: Store) -> DrawnPart:
        lower, case = own, np.zeros(len(own), np.int64)
        cased = own.str.contains("[^\\x00-@\\[-\\x7f]").arg_true()  # anything but ASCII without capitals
        if len(cased):
            some = own.gather(cased)
            small, upper, title = some.str.to_lowercase(), some.str.to_uppercase(), some.str.to_titlecase()
            case[cased.to_numpy()] = np.where((some == upper) & (some != small), 1, np.where((some == title) & (some != small), 2, 0))
            lower = own.clone().scatter(cased, small)
        return cls(arrow(own), arrow(lower), case, store)

    def draw(
        self, of: I64, docs: I64, bits: npt.NDArray[np.uint64], stays: npt.NDArray[np.bool_]
    ) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
        """The part of each occurrence: its own where it stays, else from the store in its letter case; and whether it is another."""
        goes = np.flatnonzero(~stays)
        fresh = self.store.entries.take(pa.array(self.store.pick(bits, docs)[goes]))
        other = np.ones(len(of), np.bool_)
        other[goes] = pc.not_equal(fresh, self.lower.take(pa.array(of[goes])))
        case = self.case[of[goes]]
        for number in (1, 2) if case.any() else ():
            some = pl.Series(fresh.filter(pa.array(case == number))).str
            fresh = pc.replace_with_mask(
                fresh, pa.array(case == number), arrow(some.to_uppercase() if number == 1 else some.to_titlecase())
            )
        if len(goes) == len(of):
            return fresh, other
        index = of.copy()
        index[goes] = len(self.texts) + np.arange(len(goes))
        return pa.concat_arrays([self.texts, fresh]).take(pa.array(index)), other


def entries_of(part: str, corpus: pa.Array, source: str) -> pa.Array:
    """The sorted entries of one store."""
    if source == "corpus" and len(corpus) >= _SCARCE:
        entries = corpus
    elif source == "curated":
        entries = pa.array(curated(part), pa.large_string())
    else:
        entries = pc.unique(pa.concat_arrays([corpus, pa.array(curated(part), pa.large_string())]))
    return entries.take(pc.sort_indices(entries))


def more(bits: npt.NDArray[np.uint64], late: int | I64) -> pa.LargeStringArray:
    """What makes texts longer that nothing new is drawn for any more: a digit each at first, one more each further time, nine at most."""
    return pa.array(pick(bits, 10 ** np.minimum(np.asarray(late, np.uint64), np.uint64(9))).astype(str), pa.large_string())


@functools.cache
def curated_store(part: str) -> Store:
    """The sorted entries of a curated store."""
    return Store(entries_of(part, pa.array([], pa.large_string()), "curated"))


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
