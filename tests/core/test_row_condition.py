"""Row conditions: their results, and syntax errors for everything else."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.core.row_condition import parse_condition
from sanitize.errors import PlanError

TABLE = pa.table(
    {
        "public": pa.array([True, False, None, False]),
        "year": pa.array([2001, 2002, None, 1999], pa.int32()),
        "share": pa.array([0.5, None, 2.0, -1.0]),
        "source": pa.array(["list", "it's", None, "or"], pa.large_string()),
    }
)

CASES = {
    "public = false": [1, 3],
    "public != false": [0],
    "PUBLIC_IS_NOT_THIS is null": None,
    "year >= 2001": [0, 1],
    "year < 2001.5": [0, 3],
    "share > -1.5 and share < 1": [0, 3],
    "source = 'it''s'": [1],
    "source in ('list', 'or')": [0, 3],
    "source is null": [2],
    "source is not null and public = false": [1, 3],
    "year = 1999 or public = true and share = 0.5": [0, 3],
    "year=2001 or year = 2002 or source is null": [0, 1, 2],
    "source >= 'm'": [3],
}


@pytest.mark.parametrize("text", CASES)
def test_condition_selects_rows(text: str) -> None:
    expected = CASES[text]
    condition = parse_condition(text)
    if expected is None:
        with pytest.raises(PlanError, match="no column PUBLIC_IS_NOT_THIS"):
            condition.validate(TABLE.schema)
        return
    condition.validate(TABLE.schema)
    assert condition.mask(TABLE).nonzero()[0].tolist() == expected


INVALID = [
    "", "public", "public = ", "= false", "public = false and", "public = false; drop table x", "public == false", "public = maybe",
    "source = \"list\"", "source = 'list", "source like 'a%'", "(public = false)", "year in ()", "year in (1", "year in 1", "year = 1 2",
    "year = 1 -- x", "read_csv('x') = 1", "year = 1 or or year = 2", "year is", "year = 1e3", "year + 1 = 2", "not public = true",
]  # fmt: skip


@pytest.mark.parametrize("text", INVALID)
def test_invalid_conditions_are_refused(text: str) -> None:
    with pytest.raises(PlanError, match="where: syntax error at character"):
        parse_condition(text)


@pytest.mark.parametrize("text", ["public = 1", "year = 'x'", "year = true", "source = 3", "source in ('a', 3)"])
def test_values_of_another_type_are_refused(text: str) -> None:
    with pytest.raises(PlanError, match="compare it with"):
        parse_condition(text).validate(TABLE.schema)


@given(st.text(alphabet="ab=<>!'(), \n12.-;\"\\%ornd\0é", max_size=30))
def test_any_text_is_a_condition_or_an_error(text: str) -> None:
    try:
        condition = parse_condition(text)
    except PlanError:
        return
    assert condition.columns
