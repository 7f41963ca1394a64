"""Columns: which policy each has, and that a column that names people is decided on before anything
is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import sanitize
from sanitize.cli import main
from sanitize.errors import UsageError
from sanitize.readers.column_policies import Columns, names_people, resolve_column_policies

PERSON_COLUMNS = [
    *(
        "author",
        "Author",
        "sender",
        "from",
        "From",
        "to",
        "cc",
        "username",
        "user",
        "user_name",
        "name",
        "full_name",
        "firstName",
    ),
    *(
        "last-name",
        "surname",
        "post_author",
        "mail.sender",
        "created_by",
        "patient",
        "display name",
        "screenName",
        "speaker",
        "login",
    ),
    *("owner", "repo_owner", "assignee", "custodian", "realname", "screenname", "nick", "writer"),
]
OTHER_COLUMNS = [
    *(
        "text",
        "title",
        "subject",
        "file_name",
        "model_name",
        "dataset_name",
        "user_agent",
        "from_date",
        "n_authors_found",
        "source",
        "url",
    ),
    *(
        "role",
        "tokens",
        "language",
        "nameplate",
        "fromage",
        "usernames_count",
        "author_bio",
        "owner_type",
    ),
]


@pytest.mark.parametrize("name", PERSON_COLUMNS)
def test_columns_that_name_people(name: str) -> None:
    assert names_people(name)


@pytest.mark.parametrize("name", OTHER_COLUMNS)
def test_columns_that_do_not(name: str) -> None:
    assert not names_people(name)


SCHEMA = pa.schema(
    [
        ("doc_id", pa.large_string()),
        ("user_id", pa.large_string()),
        ("text", pa.large_string()),
        ("author", pa.large_string()),
    ]
)


@pytest.mark.parametrize("policy", ["sanitize", "keep", "pseudonymize", "drop"])
def test_each_way_out(policy: str) -> None:
    assert (
        resolve_column_policies(SCHEMA, "text", Columns(policies={"author": policy}))["author"]
        == policy
    )


TYPES: dict[str, tuple[pa.DataType, bool]] = {
    "text": (pa.large_string(), True),
    "list of texts": (pa.large_list(pa.large_string()), True),
    "number": (pa.int64(), False),
    "fields of an object": (pa.struct([("from", pa.large_string())]), False),
    # {"from": "human"} of chats
    "fields of a list of objects": (pa.large_list(pa.struct([("from", pa.large_string())])), False),
}


@pytest.mark.parametrize("case", TYPES)
def test_only_columns_of_texts_name_people(case: str) -> None:
    data_type, is_refused = TYPES[case]
    schema = pa.schema(
        [
            ("text", pa.large_string()),
            ("author" if is_refused or case == "number" else "turns", data_type),
        ]
    )
    if is_refused:
        with pytest.raises(UsageError, match="column author names people"):
            resolve_column_policies(schema, "text", Columns())
    else:
        resolve_column_policies(schema, "text", Columns())


ROW = {"text": "Dear Zyqwert, hello", "author": "ann quist", "Sender": "zyq77", "lines": 3}
MESSAGE = (
    "columns author, Sender name people, and no option says what becomes of each: give"
    " --pseudonymize 'author' (a keyed code for each value), --drop 'author', --sanitize 'author'"
    " (searched like any text: a user name alone is not found) or, if no cell of it holds what the"
    " plan removes, --keep 'author'; the same for Sender"
)


def test_a_run_stops_before_detection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pl.DataFrame([ROW]).write_parquet(tmp_path / "in.parquet")
    monkeypatch.chdir(tmp_path)
    for arguments in (
        ["run", "in.parquet", "-o", "out"],
        ["index", "in.parquet", "--work", "work"],
        ["explain", "in.parquet"],
    ):
        monkeypatch.setattr(
            "sys.argv",
            ["sanitize", *arguments, *([] if arguments[0] == "explain" else ["--workers", "1"])],
        )
        with pytest.raises(SystemExit) as ended:
            main.main()
        assert ended.value.code == 2
        assert capsys.readouterr().err.strip().splitlines()[-1] == f"error: {MESSAGE}"
    assert not (tmp_path / "out").exists() and not list(tmp_path.glob("*/tables/occurrences/*"))


CALLS: dict[str, Any] = {
    "run": lambda folder, **columns: sanitize.run(
        folder / "in.parquet", folder / "out", workers=1, **columns
    ),
    "redact": lambda folder, **columns: sanitize.redact(pl.DataFrame([ROW]), **columns),
    "stream of dictionaries": lambda folder, **columns: list(sanitize.stream([ROW], **columns)),
    "stream of tables": lambda folder, **columns: list(
        sanitize.stream([pa.Table.from_pylist([ROW])], **columns)
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_python_errors_name_arguments_and_no_value(case: str, tmp_path: Path) -> None:
    pl.DataFrame([ROW]).write_parquet(tmp_path / "in.parquet")
    with pytest.raises(UsageError) as caught:
        CALLS[case](tmp_path)
    message = str(caught.value)
    assert (
        "columns author, Sender name people" in message
        and "pseudonymize='author'" in message
        and "drop='author'" in message
    )
    assert "--" not in message and "zyq77" not in message and "quist" not in message
    CALLS[case](tmp_path, drop="author", keep="Sender")


def test_the_column_of_the_user_is_decided_on() -> None:
    (record,) = sanitize.stream(
        [{"text": "hello", "author": "zyq77"}], user_column="author", seed=1
    )
    assert "zyq77" not in record.values() and set(record) == {"text", "author"}


def test_the_first_records_of_a_stream_decide() -> None:
    records = [{"text": "hello"}, {"text": "hello", "author": "zyq77"}]
    assert len(list(sanitize.stream(records, seed=1, batch=1))) == 2
