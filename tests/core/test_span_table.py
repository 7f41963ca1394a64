"""The span table: what selecting, joining and splitting do to spans, values and counts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.core.span_table import SpanTable, ValueTable

TEXTS = ["añ bo", "", "bo 中 añ", "xyz"]


def make_values(*spellings: str) -> ValueTable:
    """One kind for each first letter; the id of a value is that of its small letters."""
    texts = pa.array(spellings, pa.large_string())
    ids = [int.from_bytes(text.lower().encode()[:4]) for text in spellings]
    kinds = np.array([ord(text[0].lower()) % 7 for text in spellings], np.int32)
    lower = pa.array([text.lower() for text in spellings], pa.large_string())
    return ValueTable(np.array(ids, np.int64), kinds, texts, lower)


def make_table(
    words: list[str], section: str = "body", texts: list[str] | None = None, finder: int = 0
) -> SpanTable:
    """The places of some words in the texts, in order."""
    values = sorted(set(words))
    rows = sorted(
        (no, start, start + len(word.encode()), values.index(word))
        for no, text in enumerate(texts or TEXTS)
        for word in values
        for start in [text.encode().find(word.encode())]
        if start >= 0
    )
    text_no, start, end, value_no = np.array(rows, np.int64).reshape(-1, 4).T
    return SpanTable(
        text_no=text_no,
        start_byte=start,
        end_byte=end,
        value_no=value_no,
        section_no=np.zeros(len(rows), np.int32),
        finder=np.full(len(rows), finder, np.int32),
        score=np.ones(len(rows), np.float32),
        values=make_values(*values),
        section_names=(section,),
        skipped={(1, "check"): len(rows)},
        match_counts=np.bincount(text_no, minlength=len(texts or TEXTS)),
    )


def list_spans(table: SpanTable, texts: list[str]) -> list[tuple[int, str, str, str]]:
    """Text, spelling by the bytes, spelling by the values, and section of each span."""
    columns = (table.text_no, table.start_byte, table.end_byte, table.value_no, table.section_no)
    return [
        (no, texts[no].encode()[low:high].decode(), table.values.value[value].as_py(), section)
        for no, low, high, value, section in zip(*(c.tolist() for c in columns), strict=True)
        for section in [table.section_names[section]]
    ]


def test_joined_tables_keep_their_values_and_sections() -> None:
    first, second = make_table(["bo"]), make_table(["añ", "xyz"], "to", finder=1)
    joined = SpanTable.join([first, second])
    assert list_spans(joined, TEXTS) == [*list_spans(first, TEXTS), *list_spans(second, TEXTS)]
    assert all(spelled == value for _, spelled, value, _ in list_spans(joined, TEXTS))
    assert joined.finder.tolist() == [0, 0, 1, 1, 1] and joined.skipped == {(1, "check"): 5}
    assert joined.match_counts.tolist() == [2, 0, 2, 1]
    assert joined.kind.tolist() == [*first.kind.tolist(), *second.kind.tolist()]
    assert joined.value_id.tolist() == [*first.value_id.tolist(), *second.value_id.tolist()]


def test_code_points_are_those_of_the_text() -> None:
    table = make_table(["bo", "añ"])
    start, end = table.find_code_points(pa.array(TEXTS, pa.large_string()))
    spelled = [TEXTS[no][low:high] for no, low, high in zip(table.text_no, start, end, strict=True)]
    assert spelled == [spelled for _, spelled, _, _ in list_spans(table, TEXTS)]


def test_values_without_spans_are_left_out() -> None:
    table = make_table(["bo", "añ", "xyz"])
    part = table.take(table.text_no == 3).take_used_values()
    assert part.values.value.to_pylist() == ["xyz"] and part.value_no.tolist() == [0]
    assert table.take_used_values() is table
    assert SpanTable.no_spans(3).take_used_values().values.value.to_pylist() == []


@given(st.lists(st.integers(0, 3), min_size=1, max_size=5), st.data())
def test_parts_of_a_column_have_its_spans(sizes: list[int], data: st.DataObject) -> None:
    words = ["bo", "añ", "xyz"]
    texts = data.draw(st.lists(st.sampled_from(TEXTS), min_size=sum(sizes), max_size=sum(sizes)))
    table = make_table(words, texts=texts) if texts else SpanTable.no_spans(0)
    parts, low = table.split(sizes), 0
    for part, size in zip(parts, sizes, strict=True):
        own = texts[low : low + size]
        expected = list_spans(make_table(words, texts=own), own) if own else []
        assert list_spans(part, own) == expected
        assert len(part.match_counts) == size
        low += size
    assert [part.skipped for part in parts[1:]] == [{}] * (len(parts) - 1)


@pytest.mark.parametrize("column", ["value", "normalised"])
def test_no_value_is_in_the_repr(column: str) -> None:
    table = make_table(["xyz"])
    assert getattr(table.values, column).to_pylist() == ["xyz"]
    assert "xyz" not in repr(table) + repr(table.values)
