"""Columns: which policy each has by options and types."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sanitize.core.text_cells import LeafPath
from sanitize.errors import UsageError
from sanitize.readers.column_policies import Columns, resolve_column_policies

SCHEMA = pa.schema(
    [
        ("doc_id", pa.large_string()),
        ("user_id", pa.large_string()),
        ("text", pa.large_string()),
        ("author", pa.large_string()),
    ]
)


@pytest.mark.parametrize("policy", ["sanitize", "keep", "pseudonymize", "drop"])
def test_an_option_decides(policy: str) -> None:
    columns = Columns(policies={"author": policy})
    for by_name in ({}, {"author": "pseudonymize"}):
        found = resolve_column_policies(SCHEMA, "text", columns, by_name=by_name)
        assert found.by_column["author"] == policy


def test_names_decide_about_all_columns_but_the_main_text() -> None:
    by_name = {"author": "pseudonymize", "text": "pseudonymize"}
    policies = resolve_column_policies(SCHEMA, "text", Columns(), by_name=by_name)
    assert policies.by_column == {
        "doc_id": "keep",
        "user_id": "pseudonymize",
        "text": "sanitize",
        "author": "pseudonymize",
    }


def test_numbers_are_searched_where_their_name_says_so() -> None:
    schema = pa.schema([("text", pa.large_string()), ("ssn", pa.int64()), ("n", pa.int64())])
    by_name = {"ssn": "sanitize"}
    policies = resolve_column_policies(schema, "text", Columns(), by_name=by_name)
    assert policies.by_column == {"text": "sanitize", "ssn": "sanitize", "n": "keep"}
    with pytest.raises(UsageError, match="--sanitize n: int64 holds no text"):
        resolve_column_policies(
            schema, "text", Columns(policies={"n": "sanitize"}), by_name=by_name
        )


NESTED = pa.schema(
    [
        ("text", pa.large_string()),
        (
            "meta",
            pa.struct(
                [
                    (
                        "refs",
                        pa.large_list(pa.struct([("by", pa.large_string()), ("n", pa.int64())])),
                    ),
                    ("note", pa.large_string()),
                ]
            ),
        ),
        ("meta.note", pa.large_string()),
    ]
)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"meta.refs[].by": "keep"}, {"by": "keep", "note": "sanitize"}),
        ({"meta.refs": "drop"}, {"by": "drop", "note": "sanitize"}),
        ({"meta": "keep", "meta.refs": "sanitize"}, {"by": "sanitize", "note": "keep"}),
        ({"meta": "keep", "meta.refs[].by": "pseudonymize"}, {"by": "pseudonymize"}),
        # a column of exactly that name, not the field
        ({"meta.note": "drop"}, {"note": "sanitize", "meta.note": "drop"}),
    ],
)
def test_a_part_of_a_column_has_the_policy_of_the_longest_named_path(
    asked: dict[str, str], expected: dict[str, str]
) -> None:
    policies = resolve_column_policies(NESTED, "text", Columns(policies=asked))
    found = {
        "by": policies.at(LeafPath("meta", ("refs", "[]", "by"))),
        "note": policies.at(LeafPath("meta", ("note",))),
        "meta.note": policies.at(LeafPath("meta.note")),
    }
    assert found == {**found, **expected}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"meta": "drop", "meta.refs": "keep"}, "meta is left out as a whole"),
        ({"meta.refs": "drop", "meta.refs[].by": "keep"}, "meta.refs is left out as a whole"),
        ({"meta.refs[].n": "pseudonymize"}, "int64 is not plain strings"),
        ({"meta.refs": "pseudonymize"}, "is not plain strings"),
        ({"meta.refs[].n": "sanitize"}, "int64 holds no text"),
        ({"meta.ref": "keep"}, "did you mean meta.refs"),
        ({"text": "keep"}, "it is the main text"),
    ],
)
def test_contradicting_policies_of_parts_are_refused(asked: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        resolve_column_policies(NESTED, "text", Columns(policies=asked))
