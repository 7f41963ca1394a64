"""Values in columns that the output keeps, and in names of columns and fields, are decided on
before detection, or stop the run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sanitize
from sanitize.core.text_cells import Policies
from sanitize.errors import LeakFound
from sanitize.pipeline.indexing import kept_columns
from tests.support import write_json_lines

ANN, CARD = "ann.lee@example.com", "4111111111111111"
PLAIN = ["hello", "good morning"]
# 16 digits each; one in ten passes the card's check digit, and few have a card's first digits
NUMBERS = [str(1_234_567_890_123_456 + 7_919 * number) for number in range(1_000)]
Table = dict[str, Any]

# columns, options, sentence of the error under redact and rmft ("" : it runs); None: as under
# redact
# rmft leaves URLs
CASES: dict[str, tuple[Table, dict[str, Any], str, str | None]] = {
    "mail in a kept column": (
        {"text": PLAIN, "note": [ANN, "b"]},
        {"keep": "note"},
        "column note: 1 EMAIL_ADDRESS",
        None,
    ),
    "mail in a sanitized column": ({"text": PLAIN, "note": [ANN, "b"]}, {}, "", None),
    "mail in a pseudonymized column": (
        {"text": PLAIN, "note": [ANN, "b"]},
        {"pseudonymize": "note"},
        "",
        None,
    ),
    "mail in a dropped column": ({"text": PLAIN, "note": [ANN, "b"]}, {"drop": "note"}, "", None),
    "mail in doc_id": (
        {"doc_id": [ANN, "b"], "text": PLAIN},
        {},
        "column doc_id: 1 EMAIL_ADDRESS",
        None,
    ),
    "mail in the column of ids": (
        {"key": [ANN, "b"], "text": PLAIN},
        {"id_column": "key"},
        r"doc_id \(key in the input\): 1 EMAIL",
        None,
    ),
    "mail in the last row": (
        {"doc_id": [*map(str, range(5)), ANN], "text": PLAIN * 3},
        {"rows_per_shard": 2},
        "doc_id: 1 EMAIL",
        None,
    ),
    "mail in a kept list": (
        {"text": PLAIN, "cc": [[ANN, ANN], []]},
        {"keep": "cc"},
        r"column cc\[\]: 2 EMAIL_ADDRESS",
        None,
    ),
    "mail in a kept struct": (
        {"text": PLAIN, "by": [{"who": ANN}] * 2},
        {"keep": "by"},
        r"column by\.who: 2 EMAIL_ADDRESS",
        None,
    ),
    "URL in doc_id": (
        {"doc_id": ["http://example.com/a", "b"], "text": PLAIN},
        {},
        "column doc_id: 1 URL",
        "",
    ),
    "URL in url": (
        {"text": PLAIN, "url": ["http://example.com/a", "b"]},
        {"keep": "url"},
        "",
        None,
    ),
    "URL in a field url": (
        {"text": PLAIN, "meta": [{"sourceURL": "http://example.com/a"}] * 2},
        {"keep": "meta"},
        "",
        None,
    ),
    "URL in a field curl": (
        {"text": PLAIN, "meta": [{"curl": "http://example.com/a"}] * 2},
        {"keep": "meta"},
        "meta.curl: 2 URL",
        "",
    ),
    "mail in url": (
        {"text": PLAIN, "url": [f"http://example.com/?m={ANN}", "b"]},
        {"keep": "url"},
        "column url: 1 EMAIL_ADDRESS",
        None,
    ),
    "IP in ip": ({"text": PLAIN, "clientIp": ["192.0.2.7", "b"]}, {"keep": "clientIp"}, "", None),
    "IP in a column with ip inside a word": (
        {"text": PLAIN, "zip": ["192.0.2.7", "b"]},
        {"keep": "zip"},
        "column zip: 1 IP_ADDRESS",
        None,
    ),
    "IP in the column of ids named ip": (
        {"ip": ["192.0.2.7", "b"], "text": PLAIN},
        {"id_column": "ip"},
        r"doc_id \(ip in the input\): 1 IP_ADD",
        None,
    ),
    "mail in a column name": (
        {"text": PLAIN, ANN: ["a", "b"]},
        {},
        r"\(column names: 1 EMAIL_ADDRESS\).*Rename the column",
        None,
    ),
    "mail in the name of a number": (
        {"text": PLAIN, ANN: [1, 2]},
        {},
        "column names: 1 EMAIL_ADDRESS",
        None,
    ),
    "mail in the name of a dropped column": (
        {"text": PLAIN, ANN: ["a", "b"]},
        {"drop": ANN},
        "",
        None,
    ),
    "mail in a field name": (
        {"text": PLAIN, "s": [{ANN: "a"}] * 2},
        {},
        "names of fields inside column s: 1 EMAIL_ADDRESS",
        None,
    ),
    "mail in both names": (
        {"text": PLAIN, ANN: [{"x": [{ANN: 1}]}] * 2},
        {},
        "column names: 1 .*; names of fields inside such a col",
        None,
    ),
    "numbers": ({"doc_id": NUMBERS, "text": PLAIN * 500}, {}, "", None),
    "cards": ({"doc_id": [CARD, CARD], "text": PLAIN}, {}, "column doc_id: 2 CREDIT_CARD", None),
    "cards among numbers": (
        {"doc_id": [*NUMBERS[:50], *[CARD] * 50], "text": PLAIN * 50},
        {},
        "doc_id: 5[0-9] CREDIT_CARD",
        None,
    ),
    "a uuid with the digits of a card": (
        {
            "doc_id": ["5d41402a-bc4b-4a76-b971-9d911017c592"] * 39
            + ["ab411111-1111-1111-111c-9d911017c592"],
            "text": PLAIN * 20,
        },
        *({}, "", None),
    ),
    "a code with the digits of a card": (
        {
            "doc_id": [f"list-a/{no:016x}" for no in range(39)] + ["list-a/ab4111111111111111"],
            "text": PLAIN * 20,
        },
        *({}, "", None),
    ),
    "a telephone number among numbers": (
        {"doc_id": [*NUMBERS[:39], "212-555-0123"], "text": PLAIN * 20},
        *({}, "column doc_id: 1 PHONE_NUMBER", None),
    ),
    "uuids": (
        {
            "doc_id": ["5d41402a-bc4b-4a76-b971-9d911017c592", "<urn:uuid:5d41402a-bc4b-4a76>"],
            "text": PLAIN,
        },
        {},
        "",
        None,
    ),
}


def run_on(folder: Path, columns: Table, plan: str, **options: Any) -> Any:
    pq.write_table(pa.table(columns), folder / "in.parquet")
    return sanitize.run(
        folder / "in.parquet", folder / "out", plan=plan, workers=1, seed=1, **options
    )


@pytest.mark.parametrize(
    ("case", "plan"),
    [
        *((case, "redact") for case in CASES),
        # rmft decides otherwise on kinds that it leaves, and on others as redact does
        *((case, "rmft") for case, (*_, of_rmft) in CASES.items() if of_rmft is not None),
        *((case, "rmft") for case in ("mail in doc_id", "mail in a sanitized column")),
    ],
)
def test_values_in_kept_columns_and_names_are_decided_on(
    tmp_path: Path, case: str, plan: str
) -> None:
    columns, options, sentence, rmft_sentence = CASES[case]
    if plan == "rmft" and rmft_sentence is not None:
        sentence = rmft_sentence
    if "doc_id" in sentence:
        # ids that no option keeps become codes instead, and the summary says what they hold
        (found,) = re.findall("[0-9]]? ([A-Z_]+)", sentence)
        result = run_on(tmp_path, columns, plan, **options)
        (ids,) = [column for column in result.columns if column.name == "doc_id"]
        assert (ids.policy, ids.taken_for) == ("pseudonymize", "id")
        assert ids.why.startswith(f"holds {found}")
        shards = pq.read_table(tmp_path / "out" / "data")
        assert not {ANN, CARD, "192.0.2.7"} & {*shards["doc_id"].to_pylist()}
        assert sanitize.verify(tmp_path / "out", workers=1).leaks == 0
        options = {**options, "keep": "doc_id", "replace": True}
    if not sentence:
        assert run_on(tmp_path, columns, plan, **options).leaks == 0
        return
    with pytest.raises(LeakFound) as caught:
        run_on(tmp_path, columns, plan, **options)
    assert re.search(sentence, str(caught.value)), str(caught.value)
    assert not [value for value in (ANN, CARD, "192.0.2.7") if value in str(caught.value)]
    if "doc_id" not in sentence:
        assert not (tmp_path / "out").exists()
        # it stopped before detection
        assert not list((tmp_path / "out.private").glob("tasks/detect/*"))


@pytest.mark.parametrize(
    ("way_out", "column"),
    [("drop", "note"), ("pseudonymize", "note"), ("pseudonymize", "doc_id"), ("sanitize", "note")],
)
def test_each_way_out_ends_the_problem(tmp_path: Path, way_out: str, column: str) -> None:
    columns = {"text": PLAIN, column: [ANN, "b"]}
    named = "pseudonymize='doc_id'" if column == "doc_id" else "sanitize='note'"
    with pytest.raises(LeakFound, match=f"{way_out}=(COLUMN|')") as caught:
        run_on(tmp_path, columns, "redact", keep=column)
    assert f"Run again with {named} in place of keep" in str(caught.value)
    run_on(tmp_path, columns, "redact", replace=True, **{way_out: column})
    assert sanitize.verify(tmp_path / "out", workers=1).leaks == 0
    assert ANN not in str(pq.read_table(tmp_path / "out" / "data").to_pydict())


def test_a_renamed_column_may_keep_its_kind(tmp_path: Path) -> None:
    links = ["http://example.com/a", "b"]
    with pytest.raises(LeakFound, match="rename them in the input after what they hold"):
        run_on(tmp_path, {"text": PLAIN, "src": links}, "redact", keep="src")
    run_on(tmp_path, {"text": PLAIN, "url": links}, "redact", keep="url", replace=True)
    assert pq.read_table(tmp_path / "out" / "data")["url"].to_pylist() == links


def test_decisions_are_in_the_manifest(tmp_path: Path) -> None:
    numbers = [*NUMBERS, *("4929000000006", "5500005555555559")]
    columns = {
        "doc_id": numbers,
        "text": ["hello"] * len(numbers),
        "url": [f"http://example.com/{no}" for no in range(len(numbers))],
    }
    run_on(tmp_path, columns, "redact", keep="url")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    decisions = {
        (decision["column"], decision["kind"]): decision
        for decision in manifest["summary"]["kept_values"]
    }
    card = (tmp_path / "out" / "README.md").read_text()
    assert f"{len(numbers):,} occurrences of URL in the kept column url (its name says so)" in card
    assert decisions["url", "URL"] == {
        "column": "url",
        "kind": "URL",
        "values": len(numbers),
        "kept_for": "name",
    }
    assert decisions["doc_id", "CREDIT_CARD"]["kept_for"] == "chance" and len(decisions) == 2


def test_a_plan_that_changes_nothing_decides_nothing(tmp_path: Path) -> None:
    result = run_on(
        tmp_path, {"text": PLAIN, "note": [ANN, "b"], ANN: ["a", "b"]}, "baseline", keep="note"
    )
    assert result.publishable is False
    assert (
        json.loads((tmp_path / "out" / "manifest.json").read_text())["summary"]["kept_values"] == []
    )


def test_columns_are_searched_once_for_all_plans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = {"doc_id": ["http://example.com/a", "b"], "text": PLAIN}
    run_on(tmp_path, columns, "rmft")
    records = {
        path: path.stat().st_mtime_ns
        for path in (tmp_path / "out.private" / "tasks" / "columns").iterdir()
    }
    with pytest.raises(LeakFound, match="column doc_id: 1 URL"):
        # a plan with the finders of rmft
        run_on(tmp_path, columns, "mask_words", replace=True, keep="doc_id")
    assert records and records == {path: path.stat().st_mtime_ns for path in records}
    assert sanitize.verify(tmp_path / "out", workers=1).leaks == 0  # OUT is as it was


def test_an_append_searches_its_own_documents(tmp_path: Path) -> None:
    first, second = tmp_path / "1.parquet", tmp_path / "2.parquet"
    pq.write_table(pa.table({"doc_id": ["a", "b"], "text": PLAIN}), first)
    pq.write_table(pa.table({"doc_id": ["c", ANN], "text": PLAIN}), second)
    sanitize.run(first, tmp_path / "out", plan="redact", workers=1, seed=1)
    first.unlink()
    with pytest.raises(LeakFound, match="column doc_id: 1 EMAIL_ADDRESS"):
        sanitize.run(second, tmp_path / "out", plan="redact", workers=1, seed=1, append=True)


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("url", "URL", True),
        ("source_url", "URL", True),
        ("sourceUrl", "URL", True),
        ("curl", "URL", False),
        ("ip", "IP_ADDRESS", True),
        ("address", "IP_ADDRESS", False),
        ("email", "EMAIL_ADDRESS", True),
        ("address", "EMAIL_ADDRESS", False),
        ("number", "PHONE_NUMBER", False),
        ("us_ssn", "US_SSN", True),
        ("url", "EMAIL_ADDRESS", False),
        ("id", "MESSAGE_ID", False),
    ],
)
def test_names_that_say_a_kind(name: str, kind: str, says: bool) -> None:
    assert kept_columns._says_kind(kept_columns.LeafPath(name), kind) is says


@pytest.mark.parametrize(
    "cells",
    [
        ["Maria Kowalski", "x", "y", "z"],
        ["Annual Report", "New York", "Santa Clara", "Project Plan"],
    ],
)
def test_a_column_of_other_texts_passes(tmp_path: Path, cells: list[str]) -> None:
    pq.write_table(pa.table({"text": ["hello"] * 4, "title": cells}), tmp_path / "in.parquet")
    assert (
        sanitize.run(
            tmp_path / "in.parquet", tmp_path / "out", plan="redact", workers=1
        ).documents_out
        == 4
    )


@pytest.mark.parametrize(
    ("name", "identifies"),
    {
        "customer_id": True,
        "accountNo": True,
        "author_ref": True,
        "ssn": True,
        "phone": True,
        "user_agent": False,
        "thread_id": False,
        "created": False,
        "url": False,
        "category": False,
        "id": False,
    }.items(),
)
def test_names_of_dropped_columns_that_identify_people(name: str, identifies: bool) -> None:
    schema = pa.schema([(name, pa.large_string())])
    (found,) = kept_columns.select_value_leaves(schema, Policies({name: "drop"}))
    assert found.is_identity is identifies
    numbers = kept_columns.select_value_leaves(
        pa.schema([(name, pa.int64())]), Policies({name: "drop"})
    )
    assert len(numbers) == identifies
    assert kept_columns.select_value_leaves(schema, Policies({name: "keep"})) == []
    (pseudonymized,) = kept_columns.select_value_leaves(schema, Policies({name: "pseudonymize"}))
    assert pseudonymized.is_identity


@pytest.mark.parametrize("source", ["run", "stream"])
@pytest.mark.parametrize("name", ["[]", "{}", r"\[]", "a[]", "a.b", "[0]"])
def test_fields_with_the_names_of_steps_are_sanitized(
    name: str, source: str, tmp_path: Path
) -> None:
    address = "ann.roe@example.com"
    row = {
        "text": f"mail {address}",
        "meta": {name: address, "list": [{name: [f"to {address}"]}]},
        name: {"x": address},
    }
    replaced = json.loads(json.dumps(row).replace(address, "[EMAIL_ADDRESS]"))
    if source == "stream":
        assert list(sanitize.stream([row], plan="redact")) == [replaced]
        return
    rows = write_json_lines(tmp_path / "a.jsonl", [row])
    result = sanitize.run(rows, tmp_path / "out", plan="redact", workers=1)
    (written,) = sanitize.Corpus.open(tmp_path / "out").table().to_pylist()
    assert {column: written[column] for column in row} == replaced
    assert sanitize.sql(result.work, "SELECT count(ngram) AS n FROM ngrams")["n"].item()
