"""Columns: which policy each has by options and types."""

from __future__ import annotations

import pyarrow as pa
import pytest

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
        assert found["author"] == policy


def test_names_decide_about_all_columns_but_the_main_text() -> None:
    by_name = {"author": "pseudonymize", "text": "pseudonymize"}
    policies = resolve_column_policies(SCHEMA, "text", Columns(), by_name=by_name)
    assert policies == {
        "doc_id": "keep",
        "user_id": "pseudonymize",
        "text": "sanitize",
        "author": "pseudonymize",
    }


def test_numbers_are_searched_where_their_name_says_so() -> None:
    schema = pa.schema([("text", pa.large_string()), ("ssn", pa.int64()), ("n", pa.int64())])
    by_name = {"ssn": "sanitize"}
    policies = resolve_column_policies(schema, "text", Columns(), by_name=by_name)
    assert policies == {"text": "sanitize", "ssn": "sanitize", "n": "keep"}
    with pytest.raises(UsageError, match="--sanitize n: int64 holds no text"):
        resolve_column_policies(
            schema, "text", Columns(policies={"n": "sanitize"}), by_name=by_name
        )
