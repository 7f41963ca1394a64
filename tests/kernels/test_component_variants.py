"""Variants of values with components against a loop over Python's strings."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sanitize.core.arrow_buffers import TextBuffers
from sanitize.editors.synthesis.component_pools import (
    COMPONENTS,
    ComponentPool,
    PoolTable,
    VariantDrawer,
)
from sanitize.kinds.kind import COMPONENT_COLUMNS

PART = st.text("abAB1-", max_size=5) | st.sampled_from(
    ["ann", "ANN", "Ann", "example.com", "Example.Com", "ÉVE", "Éve"]
)
VALUE = st.tuples(
    *(PART if name in COMPONENTS else st.sampled_from(["", "."]) for name in COMPONENT_COLUMNS)
).map(lambda parts: dict(zip(COMPONENT_COLUMNS, parts, strict=True)))
BITS = st.integers(0, (1 << 32) - 1)
DRAW = st.tuples(
    st.integers(0, 50),
    st.integers(0, 5),
    st.integers(0, 15),
    st.tuples(*[BITS] * 4),
    st.sampled_from([-1, 0, 7, 120]),
)
ENTRIES = st.lists(
    st.sampled_from(["ann", "bob", "cleo.lee", "d1e", "example.com"]), min_size=1, max_size=4
)


@st.composite
def pools(draw: st.DrawFn) -> dict[str, tuple[list[str], list[int] | None, list[str], bool]]:
    """By name: the entries of the corpus, the documents of a growing pool, the curated entries,
    whether it is mixed."""
    made = {}
    for name in (*COMPONENTS, "local"):
        seen, curated = draw(ENTRIES), draw(ENTRIES)
        doc_no = (
            sorted(draw(st.lists(st.integers(0, 5), min_size=len(seen), max_size=len(seen))))
            if draw(st.booleans())
            else None
        )
        made[name] = seen, doc_no, curated if doc_no is not None else [], draw(st.booleans())
    return made


def pick(pool: tuple[list[str], list[int] | None, list[str], bool], doc_no: int, bits: int) -> str:
    seen, doc_nos, curated, mixed = pool
    if doc_nos is None:
        choices = seen
    else:
        visible = [entry for entry, first in zip(seen, doc_nos, strict=True) if first <= doc_no]
        choices = visible + curated if mixed else visible if len(visible) >= 2 else curated
    return choices[bits * len(choices) >> 32]


def in_case_of(drawn: str, own: str) -> str:
    title = "".join(
        a.upper() if not before.isalpha() else a.lower()
        for a, before in zip(own, " " + own, strict=False)
    )
    if own == own.lower():
        return drawn
    if own == own.upper():
        return drawn.upper()
    return pl.Series([drawn]).str.to_titlecase()[0] if own == title else drawn


def reference_variant(
    value: dict[str, str],
    pools: dict,
    doc_no: int,
    kept: int,
    bits: tuple[int, ...],
    extension: int,
) -> tuple[str, bool]:
    new, is_new = dict(value), True
    for number, name in enumerate(COMPONENTS):
        if not kept >> number & 1:
            drawn = pick(
                pools["local" if name == "first" and not value["last"] else name],
                doc_no,
                bits[number],
            )
            is_new &= drawn != value[name].lower()
            new[name] = in_case_of(drawn, value[name])
    if extension >= 0:
        if value["last"] and not kept & 2:
            new["last"] += str(extension)
        elif not value["last"] and kept & 1:
            new["domain"] = f"x{extension}." + new["domain"]
        else:
            new["first"] += str(extension)
    return "".join(new.values()), is_new


@given(st.lists(VALUE, min_size=1, max_size=6), pools(), st.lists(DRAW, max_size=8))
def test_variants_are_those_of_the_loop(
    values: list[dict[str, str]], pools: dict, draws: list
) -> None:
    texts = pa.array(["".join(value.values()) for value in values], pa.large_string())
    sizes = np.array(
        [[len(part.encode()) for part in value.values()] for value in values], np.int64
    )
    edges = np.concatenate([np.zeros((len(values), 1), np.int64), np.cumsum(sizes, axis=1)], axis=1)
    edges += (np.cumsum(sizes.sum(axis=1)) - sizes.sum(axis=1))[:, None]
    table = PoolTable(
        {
            name: ComponentPool(
                pa.array(seen + curated, pa.large_string()),
                None if docs is None else np.array(docs, np.int64),
                mixed,
            )
            for name, (seen, docs, curated, mixed) in pools.items()
        }
    )
    value_no = [number % len(values) for number, *_ in draws]
    drawn, is_new = VariantDrawer(
        TextBuffers.from_array(texts), np.ascontiguousarray(edges), table
    ).draw(
        np.array(value_no, np.int64),
        np.array([doc_no for _, doc_no, *_ in draws], np.int64),
        np.array([kept for _, _, kept, *_ in draws], np.uint8),
        np.array([bits for *_, bits, _ in draws], np.uint32).reshape(-1, 4),
        np.array([extension for *_, extension in draws], np.int64),
    )
    expected = [
        reference_variant(values[no], pools, *draw[1:])
        for no, draw in zip(value_no, draws, strict=True)
    ]
    assert list(zip(drawn.to_pylist(), is_new.tolist(), strict=True)) == expected
