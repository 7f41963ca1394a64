"""Values that the name of their field, or a key before them, says to be of a kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sanitize
from sanitize.core.part_protocols import FieldNames, TextColumn
from sanitize.finders.fields import Fields
from tests.support import read_rows, write_json_lines

LABELLED = ("BANK_ACCOUNT", "PASSPORT_NUMBER", "INSURANCE_NUMBER", "RECORD_NUMBER")
OPT_IN = ("USER_NAME", "DATE_TIME", "AGE", *LABELLED)
_NO_SPANS = pl.DataFrame(
    schema={
        "text_no": pl.Int64,
        "start_byte": pl.Int64,
        "end_byte": pl.Int64,
        "kind": pl.String,
        "value_id": pl.Int64,
    }
)


def find(
    texts: list[str],
    /,
    names: str | list[str] = "text",
    *,
    opt_in: tuple[str, ...] = OPT_IN,
    **settings: Any,
) -> list[list[tuple[str, str]]]:
    """For each text what is found in it: (kind, value)."""
    fields = FieldNames.from_columns([names], [len(texts)])
    column = TextColumn(
        pa.array(texts, pa.large_string()), _NO_SPANS, fields=fields, opt_in_kinds=opt_in
    )
    finder = Fields(use="fields", **settings)
    finder.open(None, None)  # type: ignore[arg-type]
    spans = finder.find_spans(column)
    found: list[list[tuple[str, str]]] = [[] for _ in texts]
    for text_no, start, end, kind in zip(
        spans.text_no, spans.start_byte, spans.end_byte, spans.kind_no, strict=True
    ):
        value = texts[text_no].encode()[start:end].decode()
        found[text_no].append((spans.kind_names[kind], value))
    return found


# the name of a field, a cell, and the kind that it is; None: not found
FIELDS = [
    ("phone", "3125550178", "PHONE_NUMBER"),
    ("contactPhone", "+1 312 555 0178 ext. 12", "PHONE_NUMBER"),
    ("mobile_no", "5550178", "PHONE_NUMBER"),
    ("phone", "iPhone 12", None),
    ("phone", "Call me at 3125550178 after six, please.", None),
    ("phone_count", "3125550178", None),
    ("ssn", "456789012", "US_SSN"),
    ("customerSSN", "456-78-9012", "US_SSN"),
    ("ssn", "not given", None),
    ("password", "hunter2secret", "SECRET"),
    ("password", "changeme", None),
    ("Authorization", "Bearer 4f9a2c7b1e", "SECRET"),
    ("session_token", "4f9a2c7b1e", "SECRET"),
    ("token", "4f9a2c7b1e", "SECRET"),
    ("token", "kestrel", None),
    ("api_key", "${API_KEY}", None),
    ("token", "hunter2secret", None),
    ("iban", "GB29NWBK60161331926819", "IBAN_CODE"),
    ("account_number", "000123456789", "BANK_ACCOUNT"),
    ("account_number", "none", None),
    ("mac", "001122aabbcc", "MAC_ADDRESS"),
    ("date_of_birth", "19850514", "DATE_TIME"),
    ("mrn", "00412-8841", "RECORD_NUMBER"),
    ("caseNo", "2024-CV-7893", "RECORD_NUMBER"),
    ("case", "2024-CV-7893", None),
    ("insurance_number", "AB-1234567", "INSURANCE_NUMBER"),
    ("passport_no", "K1234567", "PASSPORT_NUMBER"),
    ("passport_no", "2024-05-14", None),
    ("age", "34", "AGE"),
    ("author", "Zyq Blorbax", "PERSON"),
    ("author", "Blorbax, Zyq", "PERSON"),
    ("author", "jdoe77", "USER_NAME"),
    ("author", "assistant", None),
    ("author", "The editors of this page and many others who helped", None),
    ("username", "quinnv85", "USER_NAME"),
    ("username", "admin", None),
    ("name", "Zyq Blorbax", "PERSON"),
    ("name", "get_weather", None),
    ("name", "Price List", None),
    ("name", "USB-C Cable 2m", None),
    ("from", "human", None),
    ("user", "jdoe77", "USER_NAME"),
    ("user", "What is the capital of France?", None),
    ("quoted_user", "quinnvale", "USER_NAME"),
    ("active_user", "true", None),
    ("manager", "Zyq Blorbax", "PERSON"),
    ("manager", "npm", None),
    ("payee", "Zyq Mart Store", None),
    ("Phone (home)", "5550178", "PHONE_NUMBER"),
    ("city", "Springfield", "LOCATION"),
    ("text", "3125550178", None),
    ("電話番号", "3125550178", "PHONE_NUMBER"),
]


@pytest.mark.parametrize(("name", "cell", "kind"), FIELDS)
def test_fields(name: str, cell: str, kind: str | None) -> None:
    assert find([cell], name) == [[(kind, cell)] if kind else []]
    assert find([f" {cell}\n"], name) == [[(kind, cell)] if kind else []]


KEYS = [
    ("phone_number: 3125550178", "PHONE_NUMBER", "3125550178"),
    ("contactPhone=3125550178&x=1", "PHONE_NUMBER", "3125550178"),
    ("<mobileNo>3125550178</mobileNo>", "PHONE_NUMBER", "3125550178"),
    ('<ns:phone type="home">3125550178<', "PHONE_NUMBER", "3125550178"),
    ('phone="3125550178" x', "PHONE_NUMBER", "3125550178"),
    ("**Phone:** 3125550178", "PHONE_NUMBER", "3125550178"),
    ("phone: 3125550178 is mine", "PHONE_NUMBER", "3125550178"),
    ("(fax: 312-555-0178)", "PHONE_NUMBER", "312-555-0178"),
    ("Ihre Telefonnummer: 3125550178.", "PHONE_NUMBER", "3125550178"),
    ('"ssn_last": null, "customer_ssn": "456789012"', "US_SSN", "456789012"),
    (r"{\"ssn\": \"456789012\"}", "US_SSN", "456789012"),
    ("'ssn' => '456789012'", "US_SSN", "456789012"),
    ('"birthDate":"19850514"', "DATE_TIME", "19850514"),
    ("user_name: quinnv85", "USER_NAME", "quinnv85"),
    ('"screen_name":"quinnv85"', "USER_NAME", "quinnv85"),
    ("last_name=Blorbax", "PERSON", "Blorbax"),
    ("Author: Zyq Blorbax <zyq@example.com>", "PERSON", "Zyq Blorbax"),
    ("nachname: Blorbäx; ort: x", "PERSON", "Blorbäx"),
    ('"name": "Zyq Blorbax"', "PERSON", "Zyq Blorbax"),
    ("<name>Zyq Blorbax</name>", "PERSON", "Zyq Blorbax"),
    ("account number: 000123456789 and more", "BANK_ACCOUNT", "000123456789"),
]


@pytest.mark.parametrize(("text", "kind", "value"), KEYS)
def test_keys_in_texts(text: str, kind: str, value: str) -> None:
    assert find([text]) == [[(kind, value)]]
    assert find([f"é before\n{text}\nand after"]) == [[(kind, value)]]
    assert find([text], texts=False) == [[]]


@pytest.mark.parametrize(
    "text",
    [
        "name: nginx-deployment",
        "owner: root",
        "author = Author(name)",
        "def f(author: str, owner: Owner = None):",
        "cell: 100000",
        "mobile: yes, phone: iPhone 12",
        "login: please enter your name",
        "password: hunter2secret",  # the finder patterns finds secrets in texts
        "city: Springfield",
        "from: human",
        "user: What is this?",
        "phone:",
        "phone: ",
        "the phone number is 3125550178",
        "3125550178 phone: no",
        "<phone>",
    ],
)
def test_keys_that_lead_to_no_value(text: str) -> None:
    assert find([text, "3125550178 Zyq Blorbax"]) == [[], []]


def test_opt_in_kinds_are_found_where_the_plan_names_them() -> None:
    texts = ["user_name: quinnv85", "date_of_birth: 19850514"]
    assert find(texts, opt_in=()) == [[], []]
    assert find(texts, opt_in=("DATE_TIME",)) == [[], [("DATE_TIME", "19850514")]]
    birth = ("DATE_TIME", "DATE_OF_BIRTH")
    assert find(texts, opt_in=birth) == [[], [("DATE_OF_BIRTH", "19850514")]]
    assert find(["jdoe77"], "author", opt_in=()) == [[]]


def test_a_value_that_patterns_found_is_not_found_again() -> None:
    text = "phone: 312-555-0178 and fax: 3125550179"
    known = pl.DataFrame(
        {
            "text_no": [0],
            "start_byte": [7],
            "end_byte": [19],
            "kind": ["PHONE_NUMBER"],
            "value_id": [1],
        }
    )
    column = TextColumn(pa.array([text], pa.large_string()), known)
    spans = Fields(use="fields").find_spans(column)
    assert [text[spans.start_byte[0] : spans.end_byte[0]]] == ["3125550179"]


TEXTS = st.lists(
    st.lists(
        st.sampled_from(
            [
                "phone",
                "author",
                ": ",
                "=",
                '"',
                "3125550178",
                "Zyq Blorbax",
                "é",
                "\n",
                "<name>",
                "<",
            ]
        ),
        max_size=8,
    ).map("".join),
    max_size=6,
)


@given(TEXTS, st.sampled_from(["phone", "author", "text"]))
def test_each_text_is_searched_by_itself(texts: list[str], name: str) -> None:
    assert find(texts, name) == [find([text], name)[0] for text in texts]
    spans = find(texts, [name] * len(texts))
    assert spans == find(texts, name)


def test_names_of_columns_are_joined() -> None:
    fields = FieldNames.from_columns(["a", ("b", "a"), "c"], [2, 2, 0])
    assert [fields.names[no] for no in fields.name_no] == ["a", "a", "b", "a"]
    assert fields.name_no.dtype == np.int32


ROWS = [
    {
        "text": f"note {number}",
        "phone": f"312555{number:04d}",
        "password": f"Vx7-kite-{number}",
        "info": {"ssn": f"45678{1000 + number}", "owner": {"full_name": f"Zyq Blorb{letter}x"}},
    }
    for number, letter in enumerate("abcdef")
]
CALLS = [
    {
        "messages": [
            {"role": "user", "content": "Please look it up.", "tool_calls": None},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {
                        "type": "function",
                        "function": {
                            "name": "find",
                            "arguments": json.dumps(
                                {"ssn": 456781000 + number, "to": ["x"], "phones": ["3125550178"]}
                            ),
                        },
                    }
                ],
            },
        ]
    }
    for number in range(3)
]


@pytest.mark.parametrize("rows", [ROWS, CALLS], ids=["fields", "calls"])
def test_a_run_and_a_stream_find_fields_and_keys_inside_json(
    rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    """By the names of columns, of nested fields and of keys, in a run, a stream of records and one
    of tables."""
    path = write_json_lines(tmp_path / "in.jsonl", rows)
    sanitize.run(path, tmp_path / "out", plan="redact", seed=1)
    clean = [{name: row[name] for name in rows[0]} for row in read_rows(tmp_path / "out" / "data")]
    tables = sanitize.stream(pa.Table.from_pylist(rows), plan="redact", seed=1)
    assert list(sanitize.stream(rows, plan="redact", seed=1, batch=2)) == clean
    assert pa.Table.from_batches(tables).to_pylist() == clean
    for row in clean:
        if rows is ROWS:
            assert (row["phone"], row["password"]) == ("[PHONE_NUMBER]", "[SECRET]")
            assert row["info"] == {"ssn": "[US_SSN]", "owner": {"full_name": "[PERSON]"}}
        else:
            (call,) = row["messages"][1]["tool_calls"]
            assert json.loads(call["function"]["arguments"]) == {
                "ssn": "[US_SSN]",
                "to": ["x"],
                "phones": ["[PHONE_NUMBER]"],
            }


NUMBER_ROWS: list[dict[str, Any]] = [
    {
        "text": f"note {number}",
        "ssn": 456781000 + number if number != 2 else None,
        "phone": float(3125550000 + number) if number != 3 else None,
        "count": 4567810 + number,
        "info": {"ssn": 523451000 + number, "n": 1, "phones": [3125551000 + number, 7]},
    }
    for number in range(6)
]


def test_numbers_keep_their_type(tmp_path: Path) -> None:
    """A null where a label would be, another number where a plan draws one; in columns, fields and
    lists, in runs and streams."""
    table = pa.Table.from_pylist(NUMBER_ROWS)
    pq.write_table(table, tmp_path / "in.parquet")
    lines = write_json_lines(tmp_path / "in.jsonl", NUMBER_ROWS)
    names = [*NUMBER_ROWS[0]]
    for plan in ("redact", "surrogates"):
        results = []
        for number, source in enumerate((tmp_path / "in.parquet", lines)):
            out = tmp_path / f"{plan}{number}"
            result = sanitize.run(source, out, plan=plan, seed=1)
            assert {one.name: one.taken_for for one in result.columns}["ssn"] == "US_SSN"
            assert sanitize.verify(out, work=f"{out}.private").leaks == 0
            clean = pa.concat_tables(pq.read_table(file) for file in (out / "data").iterdir())
            assert clean.schema.field("ssn").type == pa.int64()
            assert clean.schema.field("info").type.field("ssn").type == pa.int64()
            results.append(clean.select(names).to_pylist())
        streamed = list(sanitize.stream(NUMBER_ROWS, plan=plan, seed=1, batch=2))
        tables = list(sanitize.stream(table, plan=plan, seed=1))
        assert results[0] == results[1] == streamed
        assert pa.Table.from_batches(tables).to_pylist() == results[0]
        for source_row, row in zip(NUMBER_ROWS, results[0], strict=True):
            assert (row["text"], row["count"]) == (source_row["text"], source_row["count"])
            before, found = (
                [one["ssn"], one["phone"], one["info"]["ssn"], *one["info"]["phones"]]
                for one in (source_row, row)
            )
            assert (row["info"]["n"], found.pop(), before.pop()) == (1, 7, 7)
            for old, new in zip(before, found, strict=True):
                if plan == "redact" or old is None:
                    assert new is None
                else:
                    assert new not in (old, None) and type(new) is type(old)
