"""To what a match in an output cell belongs, compared with a loop over the edits of its cell."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from sanitize.kinds.kind import all_kinds
from sanitize.verification.attribution import attribute_matches

KINDS = ("EMAIL_ADDRESS", "IP_ADDRESS", "PHONE_NUMBER", "MENTION")  # the last one is no kind
# of each cell: the gap before an edit, the bytes that it replaces, those that take their place, and its kind
CELLS = st.dictionaries(
    st.tuples(st.integers(0, 4), st.integers(0, 1)),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 3), st.sampled_from(KINDS)), max_size=4),
    min_size=1,
    max_size=4,
)


@given(CELLS, st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12), st.integers(1, 4)), max_size=8))
def test_whole_replacements_and_their_kinds(
    cells: dict[tuple[int, int], list[tuple[int, int, int, str]]], wanted: list[tuple[int, int, int]]
) -> None:
    edits, places = [], {}
    for cell, rows in sorted(cells.items()):
        end = output_end = 0
        for gap, replaced, size, kind in rows:
            start, end = end + gap, end + gap + replaced
            output_end += gap + size
            edits.append((*cell, start, end, "x" * size, kind))
            if size:  # a match has at least one byte
                places[*cell, output_end - size, output_end] = kind
    names = list(all_kinds())
    schema = {
        "doc_no": pl.Int64,
        "cell": pl.Int32,
        "start_byte": pl.Int64,
        "end_byte": pl.Int64,
        "replacement": pl.String,
        "kind": pl.String,
    }
    no_occurrences = pl.DataFrame(schema={name: schema[name] for name in schema if name != "replacement"})
    cell_ids = sorted(cells)
    matches = [(*cell_ids[number % len(cell_ids)], start, start + length) for number, start, length in wanted] + sorted(places)
    columns = [np.array(column, np.int64) for column in zip(*matches, strict=True)] if matches else [np.empty(0, np.int64)] * 4
    found = attribute_matches(pl.DataFrame(edits, schema, orient="row"), no_occurrences, (), *columns)
    kinds = [places.get(match) for match in matches]
    assert found.whole_replacement.tolist() == [kind is not None for kind in kinds]
    rows = found.edit_row[found.edit_row >= 0]
    assert found.edits["kind"].gather(rows).to_list() == [kind for kind in kinds if kind is not None]
    is_other = [kind in names and kind != "PHONE_NUMBER" for kind in kinds]
    assert found.is_surrogate_of_other_kind(np.full(len(matches), names.index("PHONE_NUMBER"))).tolist() == is_other
