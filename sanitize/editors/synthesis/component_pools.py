"""Component pools: names, domains and top-level domains that variants are drawn from, of the corpus
itself or curated lists.

`ComponentPool` holds the entries; `VariantDrawer` keeps some components of values and draws the
others, each in the letter case of the one that it replaces.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.array_types import I64, U8, U64, Mask
from sanitize.core.arrow_buffers import TextBuffers
from sanitize.core.keys import draw_index
from sanitize.kernels import component_variants
from sanitize.kinds.kind import COMPONENT_COLUMNS, unflatten_strings

_MIN_POOL_SIZE = 2  # a corpus pool with fewer entries is filled up with the curated ones
# a set of components is a number with a bit for each
COMPONENTS = (
    "first",
    "last",
    "domain",
    "tld",
)
_POOLS = (*COMPONENTS, "local")  # `local`: of `first` in values without `last`
_NOT_ASCII = 3  # a letter case that the kernel does not know


@dataclass(frozen=True, repr=False)
class ComponentPool:
    """The entries of one pool, in lower case and in ASCII.

    A growing pool (`first_doc_no` is set) begins with the entries seen in the corpus, in order of
    appearance; `first_doc_no` is the document of each. A document draws from the entries seen up to
    it: where these are too few, from the curated entries instead, and with `mixed` from both.
    """

    entries: pa.LargeStringArray
    first_doc_no: I64 | None = None
    mixed: bool = False

    @classmethod
    def from_seen(
        cls, seen: pa.Array, first_doc_no: I64, curated: pa.Array, mixed: bool
    ) -> ComponentPool:
        """A growing pool: the entries seen in the corpus, followed by the curated entries."""
        return cls(pa.concat_arrays([seen, curated]), first_doc_no, mixed)


class PoolTable:
    """The pools of all components in one table, as `kernels/component_variants.py` reads them."""

    def __init__(self, pools: Mapping[str, ComponentPool]) -> None:
        """`pools` has those of `first`, `last`, `domain`, `tld` and `local`; a component whose pool
        is missing is never drawn."""
        entries = [
            pools[name].entries if name in pools else pa.array([], pa.large_string())
            for name in _POOLS
        ]
        self.texts = TextBuffers.from_array(pa.concat_arrays(entries))
        self.first_doc_no = np.zeros(len(self.texts.offsets) - 1, np.int64)
        self.bounds = np.zeros((len(_POOLS), 6), np.int64)
        end = 0
        for number, name in enumerate(_POOLS):
            start, end = end, end + len(entries[number])
            seen_end, mixed = end, False
            if name in pools and (first_doc_no := pools[name].first_doc_no) is not None:
                seen_end, mixed = start + len(first_doc_no), pools[name].mixed
                self.first_doc_no[start:seen_end] = first_doc_no
            is_growing = name in pools and pools[name].first_doc_no is not None
            self.bounds[number] = start, seen_end, end, is_growing, mixed, _MIN_POOL_SIZE


class VariantDrawer:
    """Draws variants of some values with components from pools."""

    def __init__(self, values: TextBuffers, edges: I64, pools: PoolTable) -> None:
        """`edges` are those of `Kind.locate_components`; an empty component is drawn as well,
        unless it is kept."""
        self._values, self._edges, self._pools = values, edges, pools
        self._letter_cases = np.empty((len(edges), len(COMPONENTS)), np.uint8)
        component_variants.find_letter_cases(values.data, edges, self._letter_cases)
        for number, name in enumerate(COMPONENTS):
            rows = np.flatnonzero(self._letter_cases[:, number] == _NOT_ASCII)
            if len(rows):
                edge = COMPONENT_COLUMNS.index(name)
                self._letter_cases[rows, number] = _find_letter_cases(
                    values.data, edges[rows, edge], edges[rows, edge + 1]
                )

    def draw(
        self,
        value_no: I64,
        doc_no: I64,
        kept: U8,
        bits: npt.NDArray[np.uint32],
        extensions: I64 | None = None,
    ) -> tuple[pa.LargeStringArray, Mask]:
        """A variant of value `value_no` for each draw, and whether all its drawn components differ
        from those of the value.

        `kept` has a bit for each of `COMPONENTS` that is kept; `bits` has 32 random bits for each
        (one row for each draw). `extensions` are numbers that are added to a component that is not
        kept; -1: none.
        """
        edges, texts = self._edges, self._pools.texts
        extensions = np.full(len(value_no), -1) if extensions is None else extensions
        offsets, is_new = np.empty(len(value_no) + 1, np.int64), np.empty(len(value_no), np.bool_)
        needed, out = (
            int((edges[value_no, -1] - edges[value_no, 0]).sum()) + 32 * len(value_no),
            np.empty(0, np.uint8),
        )
        while needed > len(out):
            # a second time where many drawn components are longer than those of the values
            out = np.empty(needed, np.uint8)
            needed = component_variants.draw(
                self._values.data,
                edges,
                self._letter_cases,
                value_no,
                doc_no,
                kept,
                bits,
                extensions,
                self._pools.bounds,
                texts.data,
                texts.offsets,
                self._pools.first_doc_no,
                out,
                offsets,
                is_new.view(np.uint8),
            )
        return pa.LargeStringArray.from_buffers(
            len(value_no), pa.py_buffer(offsets), pa.py_buffer(out)
        ), is_new


def _find_letter_cases(data: U8, starts: I64, ends: I64) -> U8:
    """The letter case of each text, by the rules of Unicode: 0 lower or mixed, 1 upper, 2 title."""
    sizes = ends - starts
    texts = unflatten_strings(
        np.concatenate([data[start:end] for start, end in zip(starts, ends, strict=True)]),
        np.concatenate([[0], np.cumsum(sizes)]),
    )
    is_cased = texts != texts.str.to_lowercase()
    is_upper, is_title = (
        is_cased & (texts == texts.str.to_uppercase()),
        is_cased & (texts == texts.str.to_titlecase()),
    )
    return np.where(is_upper, 1, np.where(is_title, 2, 0)).astype(np.uint8)


def build_pool_entries(component: str, corpus_entries: pa.Array, source: str) -> pa.Array:
    """The sorted entries of one pool; `source` is `corpus`, `curated` or `mixed`."""
    if source == "corpus" and len(corpus_entries) >= _MIN_POOL_SIZE:
        entries = corpus_entries
    elif source == "curated":
        entries = pa.array(curated_entries(component), pa.large_string())
    else:
        entries = pc.unique(
            pa.concat_arrays(
                [corpus_entries, pa.array(curated_entries(component), pa.large_string())]
            )
        )
    return entries.take(pc.sort_indices(entries))


def draw_extension(bits: U64, extra_attempts: int | I64) -> I64:
    """Numbers that are appended to surrogates once the pools are exhausted. The n-th attempt after
    that draws a number of at most n digits, and of nine at most."""
    return draw_index(bits, 10 ** np.minimum(np.asarray(extra_attempts, np.uint64), np.uint64(9)))


@functools.cache
def curated_pool(component: str) -> ComponentPool:
    """The curated pool of a component."""
    return ComponentPool(build_pool_entries(component, pa.array([], pa.large_string()), "curated"))


@functools.cache
def curated_entries(component: str) -> list[str]:
    """The curated entries of a component, in lower case: first names for `first` and `local`, last
    names for `last` and `domain` (from Faker's US lists), and for `host` names under reserved ones
    (RFC 2606)."""
    from faker.providers.person.en_US import Provider

    firsts = sorted(
        {name.lower() for name in Provider.first_names if name.isascii() and name.isalpha()}
    )
    lasts = sorted(
        {name.lower() for name in Provider.last_names if name.isascii() and name.isalpha()}
    )
    if component in ("first", "local"):
        return firsts
    if component == "last":
        return lasts
    if component == "tld":
        return ["com", "edu", "example", "info", "net", "org"]
    return (
        lasts
        if component == "domain"
        else ["example.com", "example.net", "example.org", *(f"{name}.example" for name in lasts)]
    )
