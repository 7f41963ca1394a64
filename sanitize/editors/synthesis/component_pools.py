"""Component pools: names, domains and top-level domains that variants are drawn from, of the corpus itself or curated lists.

`ComponentPool` holds the entries; `ComponentDrawer` draws one component for many values, in the letter case of the component it replaces.
editors/rmft.py joins the components.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.array_types import I64, U64, Mask
from sanitize.core.arrow_buffers import to_large_string
from sanitize.core.keys import draw_index

_MIN_POOL_SIZE = 2  # a corpus pool with fewer entries is filled up with the curated ones


@dataclass(frozen=True, repr=False)
class ComponentPool:
    """The entries of one pool, in lower case.

    A growing pool (`first_doc_no` is set) begins with the entries seen in the corpus, in order of appearance; `first_doc_no` is the
    document of each. A document draws from the entries seen up to it. `mixed`: curated entries are drawn as well.
    """

    entries: pa.Array
    first_doc_no: I64 | None = None
    mixed: bool = False

    @classmethod
    def from_seen(cls, seen: pa.Array, first_doc_no: I64, curated: pa.Array, mixed: bool) -> ComponentPool:
        """A growing pool: the entries seen in the corpus, followed by the curated entries."""
        return cls(pa.concat_arrays([seen, curated]), first_doc_no, mixed)

    def pick_entries(self, bits: U64, doc_no: I64) -> I64:
        """The index of an entry for each draw (32 bits) in a document."""
        if self.first_doc_no is None:
            return draw_index(bits, len(self.entries))
        seen, visible = len(self.first_doc_no), np.searchsorted(self.first_doc_no, doc_no, side="right")
        curated_count = len(self.entries) - seen
        if self.mixed:
            drawn = draw_index(bits, (visible + curated_count).astype(np.uint64))
            return np.where(drawn < visible, drawn, seen + drawn - visible)
        return np.where(visible >= _MIN_POOL_SIZE, draw_index(bits, visible.astype(np.uint64)), seen + draw_index(bits, curated_count))


@dataclass(frozen=True, repr=False)
class ComponentDrawer:
    """Draws one component for the distinct values of a batch from a pool."""

    texts: pa.Array  # the component of each distinct value
    lowercase: pa.Array  # the same in lower case
    letter_case: I64  # 0 lower (and mixed), 1 upper, 2 title
    pool: ComponentPool

    @classmethod
    def from_values(cls, values: pl.Series, pool: ComponentPool) -> ComponentDrawer:
        lower, case = values, np.zeros(len(values), np.int64)
        cased = values.str.contains("[^\\x00-@\\[-\\x7f]").arg_true()  # texts with upper-case or non-ASCII letters
        if len(cased):
            cased_values = values.gather(cased)
            small, upper, title = cased_values.str.to_lowercase(), cased_values.str.to_uppercase(), cased_values.str.to_titlecase()
            case[cased.to_numpy()] = np.where(
                (cased_values == upper) & (cased_values != small), 1, np.where((cased_values == title) & (cased_values != small), 2, 0)
            )
            lower = values.clone().scatter(cased, small)
        return cls(to_large_string(values), to_large_string(lower), case, pool)

    def draw(self, value_index: I64, doc_no: I64, bits: U64, keep: Mask) -> tuple[pa.Array, Mask]:
        """The component of each occurrence, and whether it is allowed: its own where `keep` is true, else an entry of the pool in the same
        letter case, which is allowed if it differs from its own."""
        redrawn = np.flatnonzero(~keep)
        drawn = self.pool.entries.take(pa.array(self.pool.pick_entries(bits, doc_no)[redrawn]))
        is_other = np.ones(len(value_index), np.bool_)
        is_other[redrawn] = pc.not_equal(drawn, self.lowercase.take(pa.array(value_index[redrawn])))
        case = self.letter_case[value_index[redrawn]]
        for number in (1, 2) if case.any() else ():
            to_convert = pl.Series(drawn.filter(pa.array(case == number))).str
            drawn = pc.replace_with_mask(
                drawn, pa.array(case == number), to_large_string(to_convert.to_uppercase() if number == 1 else to_convert.to_titlecase())
            )
        if len(redrawn) == len(value_index):
            return drawn, is_other
        index = value_index.copy()
        index[redrawn] = len(self.texts) + np.arange(len(redrawn))
        return pa.concat_arrays([self.texts, drawn]).take(pa.array(index)), is_other


def build_pool_entries(component: str, corpus_entries: pa.Array, source: str) -> pa.Array:
    """The sorted entries of one pool; `source` is `corpus`, `curated` or `mixed`."""
    if source == "corpus" and len(corpus_entries) >= _MIN_POOL_SIZE:
        entries = corpus_entries
    elif source == "curated":
        entries = pa.array(curated_entries(component), pa.large_string())
    else:
        entries = pc.unique(pa.concat_arrays([corpus_entries, pa.array(curated_entries(component), pa.large_string())]))
    return entries.take(pc.sort_indices(entries))


def draw_extra_digits(bits: U64, extra_attempts: int | I64) -> pa.LargeStringArray:
    """Digits that extend surrogates when the pools are exhausted: a number below 10 ** `extra_attempts`, nine digits at most."""
    return pa.array(draw_index(bits, 10 ** np.minimum(np.asarray(extra_attempts, np.uint64), np.uint64(9))).astype(str), pa.large_string())


@functools.cache
def curated_pool(component: str) -> ComponentPool:
    """The curated pool of a component."""
    return ComponentPool(build_pool_entries(component, pa.array([], pa.large_string()), "curated"))


@functools.cache
def curated_entries(component: str) -> list[str]:
    """The curated entries of a component, in lower case: names from Faker's US lists, and domains under reserved names (RFC 2606)."""
    from faker.providers.person.en_US import Provider

    firsts = sorted({name.lower() for name in Provider.first_names if name.isascii() and name.isalpha()})
    lasts = sorted({name.lower() for name in Provider.last_names if name.isascii() and name.isalpha()})
    if component in ("first", "local"):
        return firsts
    if component == "last":
        return lasts
    if component == "tld":
        return ["com", "edu", "example", "info", "net", "org"]
    return lasts if component == "domain" else ["example.com", "example.net", "example.org", *(f"{name}.example" for name in lasts)]
