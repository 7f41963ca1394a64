"""Matches in a rewritten batch: what is swept, what is a leak, and where a span begins in code
points."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sanitize.array_types import I64, Mask
from sanitize.core.span_table import CellSpans
from sanitize.core.text_cells import LeafPath
from sanitize.kinds.kind import all_kinds
from sanitize.storage.corpus import flatten_cells
from sanitize.verification.attribution import Attribution
from sanitize.verification.batch_check import (
    CellMatches,
    classify_matches,
    find_code_points,
)
from sanitize.verification.search_terms import ALL_FORMS

EXACT, ENCODED, DIGITS = (ALL_FORMS.index(form) for form in ("exact", "base64", "digits"))


def make_matches(
    rows: list[tuple[int, ...]],
    encoded: Sequence[int] = (),
    digits: Sequence[int] = (),
    uncertain: Sequence[int] = (),
) -> CellMatches:
    """Matches of (doc_no, cell, start, end, leaf_no, kind, value_id), of which some are of
    `encoded` values, some of `digits`, and some `uncertain`."""
    doc_no, cell, start, end, leaf_no, kind, value_id = np.array(rows, np.int64).T
    is_encoded, is_digits, is_uncertain = (
        np.isin(np.arange(len(rows)), list(selected)) for selected in (encoded, digits, uncertain)
    )
    form = np.select([is_encoded, is_digits], [ENCODED, DIGITS], EXACT).astype(np.uint8)
    spans = make_spans(doc_no, cell, start, end, kind, value_id)
    return spans.extend(CellMatches, leaf_no=leaf_no, form=form, is_certain=~is_uncertain)


def make_spans(doc_no: I64, cell: I64, start: I64, end: I64, kind: I64, value_id: I64) -> CellSpans:
    return CellSpans(
        doc_no=doc_no,
        cell=cell.astype(np.int32),
        start_byte=start,
        end_byte=end,
        kind=kind.astype(np.int32),
        value_id=value_id,
    )


def attribute(
    matches: CellMatches,
    whole: Sequence[int] = (),
    inside: Sequence[int] = (),
    kind: int = -1,
    atomic: Sequence[int] = (),
) -> Attribution:
    """An attribution of matches outside any edit, but for the `whole` replacements of values of
    `kind`, those `inside` one, and those in an `atomic` value."""
    in_replacement, is_whole, no_match, in_atomic = (
        np.isin(np.arange(len(matches)), list(rows)) for rows in (inside, whole, (), atomic)
    )
    edits = pl.DataFrame({"kind": pl.Series([(*all_kinds(), "MENTION")[kind]] * len(matches))})
    edit_row = np.where(is_whole, np.arange(len(matches)), -1)
    return Attribution(
        in_replacement,
        in_atomic,
        is_whole,
        no_match,
        edits,
        edit_row,
        matches.start_byte,
        matches.end_byte,
    )


def list_spans(spans: CellSpans) -> list[tuple[int, ...]]:
    columns = (
        spans.doc_no,
        spans.cell,
        spans.start_byte,
        spans.end_byte,
        spans.kind,
        spans.value_id,
    )
    return list(zip(*(column.tolist() for column in columns), strict=True))


def is_never_later(value_ids: I64, edits: pl.DataFrame, /) -> Mask:
    return np.zeros(len(value_ids), np.bool_)


def test_sweep_takes_the_longest_spans_and_one_value_of_each() -> None:
    matches = make_matches(
        [
            (2, 0, 5, 9, 0, 1, 70),
            (1, 0, 5, 9, 0, 3, 71),
            (1, 0, 5, 9, 0, 1, 72),  # the same place: the lower kind
            (1, 0, 6, 9, 0, 0, 73),  # inside
            (1, 0, 8, 12, 0, 0, 74),  # crosses
            (1, 1, 6, 9, 0, 0, 75),  # another cell
        ]
    )
    found = classify_matches(matches, attribute(matches), is_never_later)
    assert list_spans(found.to_sweep) == [
        (1, 0, 5, 9, 1, 72),
        (1, 0, 8, 12, 0, 74),
        (1, 1, 6, 9, 0, 75),
        (2, 0, 5, 9, 1, 70),
    ]
    assert found.sweepable.total() == 6 and not len(found.leaks) and not found.inconclusive


def test_the_first_kind_and_value_in_one_place_is_swept() -> None:
    for rows in (
        [(1, 0, 5, 9, 0, 2, 70), (1, 0, 5, 9, 0, 0, 71)],
        [(1, 0, 5, 9, 0, 0, 72), (1, 0, 5, 9, 0, 0, 71)],
    ):
        for ordered in (rows, rows[::-1]):
            matches = make_matches([*ordered])
            assert list_spans(
                classify_matches(matches, attribute(matches), is_never_later).to_sweep
            ) == [(1, 0, 5, 9, 0, 71)]


def test_whole_replacements_are_leaks_unless_the_value_occurs_later() -> None:
    matches = make_matches([(1, 0, 0, 4, 0, 0, 70), (2, 0, 0, 4, 0, 0, 71), (3, 0, 0, 4, 0, 0, 72)])

    def find_drawn_before(value_ids: I64, edits: pl.DataFrame, /) -> Mask:
        is_later: Mask = value_ids == 71
        return is_later

    found = classify_matches(
        matches, attribute(matches, whole=[0, 1], inside=[2]), find_drawn_before
    )
    assert found.leaks.value_id.tolist() == [70]
    assert len(found.to_sweep) == 0 and not found.inconclusive


def test_an_encoded_value_inside_a_replacement_is_swept() -> None:
    """The value as it is written may be there by chance."""
    matches = make_matches([(1, 0, 0, 4, 0, 0, 70), (2, 0, 0, 4, 0, 0, 70)], encoded=[1])
    found = classify_matches(matches, attribute(matches, inside=[0, 1]), is_never_later)
    assert list_spans(found.to_sweep) == [(2, 0, 0, 4, 0, 70)] and not len(found.leaks)


def test_matches_that_are_not_certain_are_counted_outside_of_replacements() -> None:
    """Not inside a value that the plan leaves whole, and not where a replacement explains them."""
    matches = make_matches(
        [(doc_no, 0, 0, 4, 0, 3, 70) for doc_no in range(6)],
        encoded=[1, 5],
        uncertain=[0, 1, 2, 3, 4, 5],
    )
    found = classify_matches(
        matches, attribute(matches, whole=[2], inside=[3, 5], atomic=[4]), is_never_later
    )
    assert (len(found.to_sweep), len(found.leaks)) == (0, 0)
    assert found.inconclusive == {(3, EXACT): 1, (3, ENCODED): 2}


def test_digits_of_a_whole_surrogate_are_a_leak_unless_it_is_of_another_kind() -> None:
    """A surrogate of another kind was not compared with values of this one; a label or a rewritten
    word (-1) was not drawn."""
    matches = make_matches(
        [(doc_no, 0, 0, 4, 0, 3, 70 + doc_no) for doc_no in range(3)], digits=[1, 2]
    )
    for kind, leaks in ((-1, [0, 1]), (3, [0, 1]), (2, [0])):
        attribution = attribute(matches, whole=[0, 1, 2], kind=kind)
        found = classify_matches(matches, attribution, lambda ids, edits: ids == 72)
        assert (len(found.to_sweep), found.leaks.doc_no.tolist()) == (0, leaks)


TEXT = st.none() | st.text(st.sampled_from("aé€😀 \n"), max_size=6)


@given(st.lists(st.tuples(TEXT, st.lists(TEXT, max_size=3)), min_size=1, max_size=5), st.data())
def test_code_points_of_spans_in_any_cell(
    rows: list[tuple[str | None, list[str | None]]], data: st.DataObject
) -> None:
    large_string = pa.large_string()
    columns = {
        "doc_no": pa.array([10 + 2 * row for row in range(len(rows))]),
        "text": pa.array([text for text, _ in rows], large_string),
        "more": pa.array([texts for _, texts in rows], pa.large_list(large_string)),
    }
    table = pa.table(columns)
    cells = [
        (10 + 2 * row, number, text or "")
        for row, (text, texts) in enumerate(rows)
        for number, text in enumerate([text, *texts])
    ]
    wanted, expected = [], []
    for doc_no, cell, text in data.draw(st.lists(st.sampled_from(cells), max_size=6)):
        first, last = sorted(
            data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text))))
        )
        wanted.append((doc_no, cell, len(text[:first].encode()), len(text[:last].encode()), 0, 0))
        expected.append((first, last))
    spans = make_spans(*np.array(wanted, np.int64).reshape(-1, 6).T)
    leaves = [LeafPath("text"), LeafPath("more", ("[]",))]
    batches = [
        (np.asarray(part.column("doc_no"), np.int64), flatten_cells(part.combine_chunks(), leaves))
        for part in (table[:2], table[2:])
    ]
    start, end = find_code_points(spans, [batch for batch in batches if len(batch[0])])
    assert list(zip(start.tolist(), end.tolist(), strict=True)) == expected


def test_a_text_is_not_copied_for_each_of_its_spans() -> None:
    text, count = "é John " * 20_000, 20_000
    table = pa.table({"doc_no": [7], "text": pa.array([text], pa.large_string())})
    start = np.arange(count) * 8 + 3  # in bytes: `é` has two
    places = np.zeros(count, np.int64)
    spans = make_spans(places + 7, places, start, start + 4, places, places)
    columns = flatten_cells(table, [LeafPath("text")])
    default = pa.default_memory_pool()
    counted = pa.proxy_memory_pool(default)
    pa.set_memory_pool(counted)
    try:
        first, last = find_code_points(spans, [(np.array([7]), columns)])
    finally:
        pa.set_memory_pool(default)
    assert [text[a:b] for a, b in zip(first.tolist(), last.tolist(), strict=True)] == [
        "John"
    ] * count
    assert counted.max_memory() < 4 * len(text.encode())
