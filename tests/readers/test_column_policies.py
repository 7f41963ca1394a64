"""Columns: which policy each has by options and types."""

from __future__ import annotations

import pyarrow as pa
import pytest

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
    for people in ((), ("author",)):
        found = resolve_column_policies(SCHEMA, "text", columns, people_columns=people)
        assert found["author"] == policy


def test_columns_of_people_become_codes() -> None:
    policies = resolve_column_policies(SCHEMA, "text", Columns(), people_columns=("author", "text"))
    assert policies == {
        "doc_id": "keep",
        "user_id": "pseudonymize",
        "text": "sanitize",
        "author": "pseudonymize",
    }
