"""Matches in a rewritten batch: what is swept, what is a leak, and where a span begins in code points."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sanitize.array_types import I64, Mask
from sanitize.core.text_cells import LeafPath
from sanitize.storage.corpus import flatten_cells
from sanitize.verification.attribution import Attribution
from sanitize.verification.batch_check import ResidualMatches, SweepSpans, classify_matches, find_code_points


def make_matches(rows: list[tuple[int, ...]], encoded: Sequence[int] = (), digits: Sequence[int] = ()) -> ResidualMatches:
    """Matches of (doc_no, cell, start, end, leaf_no, kind, value_id, rank), of which some are of `encoded` values, and some of `digits`."""
    is_encoded, is_digits = (np.isin(np.arange(len(rows)), list(selected)) for selected in (encoded, digits))
    return ResidualMatches(*np.array(rows, np.int64).T, may_be_chance=~is_encoded, is_digits=is_digits)


def attribute(matches: ResidualMatches, whole: Sequence[int] = (), inside: Sequence[int] = (), kind: int = -1) -> Attribution:
    """An attribution of matches outside any edit, but for the `whole` replacements of values of `kind`, and those `inside` one."""
    in_replacement, is_whole, no_match = (np.isin(np.arange(len(matches)), list(rows)) for rows in (inside, whole, ()))
    return Attribution(in_replacement, no_match, is_whole, no_match, np.where(is_whole, kind, -1), matches.start, matches.end)


def list_spans(spans: SweepSpans) -> list[tuple[int, ...]]:
    columns = (spans.doc_no, spans.cell, spans.start_byte, spans.end_byte, spans.kind, spans.value_id)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_sweep_takes_the_longest_spans_and_one_value_of_each() -> None:
    matches = make_matches(
        [
            (2, 0, 5, 9, 0, 1, 70, 0),
            (1, 0, 5, 9, 0, 3, 71, 0),
            (1, 0, 5, 9, 0, 1, 72, 0),  # the same place: the lower kind
            (1, 0, 6, 9, 0, 0, 73, 0),  # inside
            (1, 0, 8, 12, 0, 0, 74, 0),  # crosses
            (1, 1, 6, 9, 0, 0, 75, 0),  # another cell
        ]
    )
    spans, leak_rows = classify_matches(matches, attribute(matches), lambda ids, doc_no: np.zeros(len(ids), np.bool_))
    assert list_spans(spans) == [(1, 0, 5, 9, 1, 72), (1, 0, 8, 12, 0, 74), (1, 1, 6, 9, 0, 75), (2, 0, 5, 9, 1, 70)]
    assert leak_rows.tolist() == []


def test_rank_decides_between_values_in_one_place() -> None:
    matches = make_matches([(1, 0, 5, 9, 0, 0, 70, 4), (1, 0, 5, 9, 0, 2, 71, 3)])
    spans, _ = classify_matches(matches, attribute(matches), lambda ids, doc_no: np.zeros(len(ids), np.bool_))
    assert list_spans(spans) == [(1, 0, 5, 9, 2, 71)]


def test_whole_replacements_are_leaks_unless_the_value_occurs_later() -> None:
    matches = make_matches([(1, 0, 0, 4, 0, 0, 70, 0), (2, 0, 0, 4, 0, 0, 71, 0), (3, 0, 0, 4, 0, 0, 72, 0)])

    def first_occurs_after(value_ids: I64, doc_no: I64, /) -> Mask:
        is_later: Mask = value_ids == 71
        return is_later

    spans, leak_rows = classify_matches(matches, attribute(matches, whole=[0, 1], inside=[2]), first_occurs_after)
    assert leak_rows.tolist() == [0]
    assert len(spans) == 0


def test_an_encoded_value_inside_a_replacement_is_swept() -> None:
    """The value as it is written may be there by chance."""
    matches = make_matches([(1, 0, 0, 4, 0, 0, 70, 0), (2, 0, 0, 4, 0, 0, 70, 0)], encoded=[1])
    spans, leak_rows = classify_matches(matches, attribute(matches, inside=[0, 1]), lambda ids, doc_no: np.zeros(len(ids), np.bool_))
    assert list_spans(spans) == [(2, 0, 0, 4, 0, 70)] and not len(leak_rows)


def test_digits_of_a_whole_surrogate_are_a_leak_unless_it_is_of_another_kind() -> None:
    """A surrogate of another kind was not compared with values of this one; a label or a rewritten word (-1) was not drawn."""
    matches = make_matches([(doc_no, 0, 0, 4, 0, 3, 70 + doc_no, 0) for doc_no in range(3)], digits=[1, 2])
    for kind, leaks in ((-1, [0, 1]), (3, [0, 1]), (2, [0])):
        attribution = attribute(matches, whole=[0, 1, 2], kind=kind)
        spans, leak_rows = classify_matches(matches, attribution, lambda ids, doc_no: ids == 72)
        assert (len(spans), leak_rows.tolist()) == (0, leaks)


TEXT = st.none() | st.text(st.sampled_from("aé€😀 \n"), max_size=6)


@given(st.lists(st.tuples(TEXT, st.lists(TEXT, max_size=3)), min_size=1, max_size=5), st.data())
def test_code_points_of_spans_in_any_cell(rows: list[tuple[str | None, list[str | None]]], data: st.DataObject) -> None:
    large_string = pa.large_string()
    columns = {
        "doc_no": pa.array([10 + 2 * row for row in range(len(rows))]),
        "text": pa.array([text for text, _ in rows], large_string),
        "more": pa.array([texts for _, texts in rows], pa.large_list(large_string)),
    }
    table = pa.table(columns)
    cells = [(10 + 2 * row, number, text or "") for row, (text, texts) in enumerate(rows) for number, text in enumerate([text, *texts])]
    wanted, expected = [], []
    for doc_no, cell, text in data.draw(st.lists(st.sampled_from(cells), max_size=6)):
        first, last = sorted(data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
        wanted.append((doc_no, cell, len(text[:first].encode()), len(text[:last].encode()), 0, 0))
        expected.append((first, last))
    spans = SweepSpans(*np.array(wanted, np.int64).reshape(-1, 6).T)
    leaves = [LeafPath("text"), LeafPath("more", ("[]",))]
    batches = [
        (np.asarray(part.column("doc_no"), np.int64), flatten_cells(part.combine_chunks(), leaves)) for part in (table[:2], table[2:])
    ]
    start, end = find_code_points(spans, [batch for batch in batches if len(batch[0])])
    assert list(zip(start.tolist(), end.tolist(), strict=True)) == expected


def test_a_text_is_not_copied_for_each_of_its_spans() -> None:
    text, count = "é John " * 20_000, 20_000
    table = pa.table({"doc_no": [7], "text": pa.array([text], pa.large_string())})
    start = np.arange(count) * 8 + 3  # in bytes: `é` has two
    places = np.zeros(count, np.int64)
    spans = SweepSpans(places + 7, places, start, start + 4, places, places)
    columns = flatten_cells(table, [LeafPath("text")])
    default = pa.default_memory_pool()
    counted = pa.proxy_memory_pool(default)
    pa.set_memory_pool(counted)
    try:
        first, last = find_code_points(spans, [(np.array([7]), columns)])
    finally:
        pa.set_memory_pool(default)
    assert [text[a:b] for a, b in zip(first.tolist(), last.tolist(), strict=True)] == ["John"] * count
    assert counted.max_memory() < 4 * len(text.encode())
