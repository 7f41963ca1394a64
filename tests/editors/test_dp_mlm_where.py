"""The conditions of `where` in dp_mlm: the rows that they select, and errors for everything that is
no condition."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.editors.dp_mlm import RowCondition
from sanitize.errors import PlanError

TABLE = pa.table(
    {
        "public": pa.array([True, False, None, False]),
        "year": pa.array([2001, 2002, None, 1999], pa.int32()),
        "share": pa.array([0.5, None, 2.0, -1.0]),
        "source": pa.array(["list", "it's", None, "or"], pa.large_string()),
        "from": pa.array(["ann", "bob", None, "ann"]).dictionary_encode(),
        "half share": pa.array([0.1, 0.5, None, float("nan")], pa.float32()),
        "tags": pa.array([["a"], [], None, ["b"]]),
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
    "from = 'ann'": [0, 3],
    "SOURCE IN ('list')": None,
    "(public = false or public is null) and not source = 'or'": [1],
    "public": [0],
    "not public": [1, 3],
    "year between 2000 and 2001": [0],
    "year not in (2001, 2002)": [3],
    "year <> 1999.0": [0, 1],
    "year = 2.001e3": [0],
    "source like 'l%t' or source not like '%s%'": [0, 3],
    '"half share" >= 0.5': [1, 3],  # NaN is the greatest number
    '"half share" = 0.1': [],  # the nearest 32-bit number is another one
    'source = "from"': [],
    "tags is null": [2],
}


@pytest.mark.parametrize("text", CASES)
def test_condition_selects_rows(text: str) -> None:
    expected = CASES[text]
    condition = RowCondition.parse(text)
    if expected is None:
        with pytest.raises(PlanError, match="no column (PUBLIC_IS_NOT_THIS|SOURCE)"):
            condition.validate(TABLE.schema)
        return
    condition.validate(TABLE.schema)
    assert condition.mask(TABLE).nonzero()[0].tolist() == expected


INVALID = [
    "",
    "public = ",
    "= false",
    "public = false and",
    "public = false; drop table x",
    "public = false archived",
    "public = false 'archived'",
    "source = 'list",
    "year in ()",
    "year in (1",
    "year in 1",
    "year = 1 2",
    "year = 1 -- x",
    "year = 1 /* x */",
    "1 = 1",
    "true",
    "year = 1 or or year = 2",
    "year is",
    "year + 1 = 2",
    "year = 1) or (year = 2",
    "year = null",
    "year in (null, 1)",
    "year = 0x10",
    "source = $$list$$",
    "tags[1] = 'a'",
    "source.length = 3",
    "year::text = '1'",
    "source ~ 'a+'",
    "* = 1",
    "year = :year",
    "((((",
    "year = 123456789012345678901234567890123456789012345.5",
    "not " * 90 + "public",
    "(" * 200 + "public" + ")" * 200,
]
# what a condition must not do: read a file, ask for the time, draw a number, run another query,
# aggregate
CALLS = [
    "read_csv('x') = 1",
    "read_parquet ('x') is null",
    "now() > year",
    "random() < 0.5",
    "uuid() = source",
    "lower(source) = 'x'",
    "\"lower\"(source) = 'x'",
    "sum(year) > 1",
    "count(*) > 1",
    "cast(year as text) = '1'",
    "year in (select year from t)",
    "exists (select 1)",
    "case when public then public end",
    "row_number() over (order by year) = 1",
    "columns('.*') = 1",
]


@pytest.mark.parametrize("text", [*INVALID, *CALLS])
def test_invalid_conditions_are_refused(text: str) -> None:
    with pytest.raises(PlanError, match="where: syntax error"):
        RowCondition.parse(text)


@pytest.mark.parametrize(
    "text", ["current_date = '2026-01-01'", "current_timestamp is null", "user = 'x'"]
)
def test_the_words_of_sql_are_columns(text: str) -> None:
    with pytest.raises(PlanError, match="there is no column"):
        RowCondition.parse(text).validate(TABLE.schema)


def test_a_long_condition_is_refused() -> None:
    with pytest.raises(PlanError, match="at most 100. Use `in"):
        RowCondition.parse(" or ".join(["year = 1"] * 200))
    for chain in (" = public", " is null"):
        with pytest.raises(PlanError, match="102 comparisons; expected at most 101. Use `in"):
            RowCondition.parse("public" + chain * 102)
        RowCondition.parse("public" + chain * 101).validate(TABLE.schema)
    many = RowCondition.parse(f"year in ({', '.join(map(str, range(1000, 2002)))})")
    assert many.mask(TABLE).tolist() == [True, False, False, True]


@pytest.mark.parametrize(
    "text",
    [
        "public = 1",
        "public = 'true'",
        "year = 'x'",
        "year = true",
        "year is true",
        "source = 3",
        "source in (1, 3)",
        "source = year",
        "year = 1 or source = 3",
        "year like 'x'",
    ],
)
def test_values_of_another_type_are_refused(text: str) -> None:
    with pytest.raises(PlanError, match="compare it with"):
        RowCondition.parse(text).validate(TABLE.schema)


@pytest.mark.parametrize(
    "text",
    [
        "tags = 'a'",
        "sent > '2026-01-01'",
        "sent = 20260101",
        "sent between '2026-01-01' and '2026-02-01'",
    ],
)
def test_a_column_that_cannot_be_compared_is_named_with_what_to_do(text: str) -> None:
    table = TABLE.append_column("sent", pa.nulls(len(TABLE), pa.date32()))
    column = text.split()[0]
    with pytest.raises(
        PlanError,
        match=(
            rf"where: column {column} holds \S+, which cannot be compared; test it by `is null` or"
            r" `is not null`, or"
        ),
    ):
        RowCondition.parse(text).validate(table.schema)
    RowCondition.parse(f"{column} is not null").validate(table.schema)


@pytest.mark.parametrize(
    "text", ["year", "source", "not source", "not year is null and not year", "year -1"]
)
def test_columns_that_are_no_conditions_are_refused(text: str) -> None:
    with pytest.raises(PlanError, match="not a condition on columns of these types"):
        RowCondition.parse(text).validate(TABLE.schema)


@given(st.text(alphabet="ab=<>!'(), \n12.-;\"\\%ornd\0é", max_size=30))
def test_any_text_is_a_condition_or_an_error(text: str) -> None:
    try:
        condition = RowCondition.parse(text)
    except PlanError:
        return
    assert condition.columns
