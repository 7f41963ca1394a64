"""To what a match in an output cell belongs, compared with a loop over the edits of its cell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from sanitize.core.span_table import CellSpans
from sanitize.kinds.kind import all_kinds
from sanitize.verification.attribution import DrawTimes, attribute_matches

KINDS = ("EMAIL_ADDRESS", "IP_ADDRESS", "PHONE_NUMBER", "MENTION")  # the last one is no kind
# of each cell: the gap before an edit, the bytes that it replaces, those that take their place, and
# its kind
CELLS = st.dictionaries(
    st.tuples(st.integers(0, 4), st.integers(0, 1)),
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 3), st.sampled_from(KINDS)),
        max_size=4,
    ),
    min_size=1,
    max_size=4,
)


@given(
    CELLS, st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12), st.integers(1, 4)), max_size=8)
)
def test_whole_replacements_and_their_kinds(
    cells: dict[tuple[int, int], list[tuple[int, int, int, str]]],
    wanted: list[tuple[int, int, int]],
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
    no_occurrences = pl.DataFrame(
        schema={name: schema[name] for name in schema if name != "replacement"}
    )
    cell_ids = sorted(cells)
    matches = [
        (*cell_ids[number % len(cell_ids)], start, start + length)
        for number, start, length in wanted
    ] + sorted(places)
    doc_no, cell_no, start, end = np.array(matches, np.int64).reshape(-1, 4).T
    spans = CellSpans(
        doc_no=doc_no,
        cell=cell_no.astype(np.int32),
        start_byte=start,
        end_byte=end,
        kind=np.zeros(len(matches), np.int32),
        value_id=np.zeros(len(matches), np.int64),
    )
    found = attribute_matches(pl.DataFrame(edits, schema, orient="row"), no_occurrences, (), spans)
    kinds = [places.get(match) for match in matches]
    assert found.whole_replacement.tolist() == [kind is not None for kind in kinds]
    rows = found.edit_row[found.edit_row >= 0]
    assert found.edits["kind"].gather(rows).to_list() == [
        kind for kind in kinds if kind is not None
    ]
    is_other = [kind in names and kind != "PHONE_NUMBER" for kind in kinds]
    assert (
        found.is_surrogate_of_other_kind(
            np.full(len(matches), names.index("PHONE_NUMBER"))
        ).tolist()
        == is_other
    )


def test_replacements_that_were_drawn_before_a_value_was_known(tmp_path: Path) -> None:
    """Values 1, 2, 3 first occur in documents 1, 4 and 6; increments begin at 0 and 5."""
    counts = pa.table({"value_id": [1, 2, 3], "first_doc_no": [1, 4, 6]})
    pq.write_table(counts, tmp_path / "value_counts.parquet")
    spans = {"doc_no": [2, 7, 7], "cell": [0, 0, 1], "start_byte": [3, 0, 5], "end_byte": [9, 4, 8]}
    edits = pl.DataFrame({**spans, "part": ["pseudonymize", "pseudonymize", "rmft"]})
    # the second edit replaces value 1, the third one value 2; the first is of a sweep
    occurrences = pl.DataFrame(spans).with_columns(value_id=pl.Series([9, 1, 2]))[1:]
    # value, edit, known only later with two increments, with one, and with sequential parts
    cases = [
        (3, 0, True, False, True),
        (2, 0, False, False, False),
        (3, 1, True, False, True),
        (2, 1, False, False, False),
        (3, 2, True, False, False),
    ]
    value_ids = np.array([value for value, *_ in cases])
    rows = edits[[row for _, row, *_ in cases]]
    for column, settings in enumerate(
        [
            {"increment_starts": (0, 5)},
            {},
            {"increment_starts": (0, 5), "sequential_parts": ("rmft",)},
        ]
    ):
        draws = DrawTimes(value_counts=tmp_path / "value_counts.parquet", **settings)
        assert draws.find_drawn_before(value_ids, rows, occurrences).tolist() == [
            case[2 + column] for case in cases
        ]
    sequential = DrawTimes(
        value_counts=tmp_path / "value_counts.parquet", sequential_parts=("pseudonymize",)
    )
    assert sequential.find_drawn_before(np.array([2, 1]), edits[[0, 0]], occurrences).tolist() == [
        True,
        False,
    ]
