"""Values of columns that are pseudonymized or dropped leave all texts and nested fields, in runs,
appends and streams, and `verify` searches for them. Everybody is invented."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sanitize
from sanitize.errors import LeakFound
from sanitize.storage.corpus import Corpus
from tests.verification.test_file_check import rewrite_shard

# columns of two documents, their policies, what must leave the texts, and what must stay in them
COLUMNS: dict[str, tuple[dict[str, list[Any]], dict[str, str], list[str], list[str]]] = {
    "user names": (
        {"author": ["hschmidt69", "dark_otter"]},
        {"author": "pseudonymize"},
        ["hschmidt69", "dark_otter"],
        [],
    ),
    "user names by option": (
        {"verfasser": ["hschmidt69", "b"]},
        {"verfasser": "pseudonymize"},
        ["hschmidt69"],
        [],
    ),
    "users": ({"user_id": ["hschmidt69", "u2"]}, {}, ["hschmidt69"], ["u2"]),
    "names": (
        {"author": ["Nela Brindle", "Okonkwo, Adaeze"]},
        {"author": "drop"},
        ["Nela Brindle", "Okonkwo, Adaeze", "Adaeze Okonkwo"],
        [],
    ),
    "names in a column without a telling name": (
        {"whom": ["Maria Kowalski", "Peter Lindqvist"]},
        {"whom": "drop"},
        ["Maria Kowalski", "Peter Lindqvist"],
        [],
    ),
    "addresses": (
        {"sender": ["nela@node07", "Bo Lind <bo@example.com>"]},
        {"sender": "drop"},
        ["nela@node07", "Bo Lind"],
        [],
    ),
    "mails in a column without a telling name": (
        {"ref": ["zyq@example.com", ""]},
        {"ref": "drop"},
        ["zyq@example.com"],
        [],
    ),
    "numbers": (
        {"customer_id": ["48213907", "x"], "memberNo": [5550142, 7]},
        {"customer_id": "drop", "memberNo": "drop"},
        ["48213907", "5550142"],
        [],
    ),
    "a list": (
        {"authors": [["hschmidt69", "Nela Brindle"], None]},
        {"authors": "drop"},
        ["hschmidt69", "Nela Brindle"],
        [],
    ),
    "a struct": (
        {
            "meta": (
                [{"by": {"username": "hschmidt69", "account_id": 48213907}, "topic": "night-owl"}]
                * 2
            )
        },
        {"meta": "drop"},
        ["hschmidt69", "48213907"],
        ["night-owl"],
    ),
    "a struct of people": (
        {"owner": [{"is": "hschmidt69"}, None]},
        {"owner": "drop"},
        ["hschmidt69"],
        [],
    ),
    "categories": (
        {
            "topic": ["sci.med", "Human Resources"],
            "label": ["positive", "label-12"],
            "author": ["page-12", "Sales Team"],
        },
        {"topic": "drop", "label": "drop", "author": "drop"},
        [],
        ["sci.med", "Human Resources", "positive", "label-12", "page-12", "Sales Team"],
    ),
    "free text": (
        {"note": ["we met hschmidt69 there", "write to zyq_otter at once"]},
        {"note": "drop"},
        [],
        ["hschmidt69", "zyq_otter"],
    ),
    "dates and booleans": (
        {
            "author": ["2019-04-01", "true"],
            "created": [1556000000, 1556000001],
            "active": [True, False],
        },
        {"author": "drop", "created": "drop", "active": "drop"},
        [],
        ["2019-04-01", "true", "1556000000"],
    ),
    "kept user names": ({"handle": ["hschmidt69", "b"]}, {"handle": "keep"}, [], ["hschmidt69"]),
}


# The columns decide which values are removed, and the plan decides how: each case runs with one
# plan, and each plan with the cases whose values it treats in its own way.
CASES_AND_PLANS = [(case, "redact") for case in COLUMNS] + [
    (case, plan)
    for plan, cases in {
        "surrogates": ("user names", "a struct"),
        "strict": ("names", "numbers", "dates and booleans"),
        "rmft": ("names", "mails in a column without a telling name", "categories"),
    }.items()
    for case in cases
]


def options_of(policies: dict[str, str]) -> dict[str, Any]:
    names = set(policies.values())
    return {
        "seed": 1,
        "workers": 1,
        **{one: [column for column, policy in policies.items() if policy == one] for one in names},
    }


def build_table(columns: dict[str, list[Any]], words: list[str]) -> pa.Table:
    """Two documents with these columns, whose texts and nested fields have the words."""
    texts = [f"As {word} wrote, so it is." for word in words]
    nested = [{"quote": text, "more": [text]} for text in (" ".join(texts), "none")]
    return pa.table({"text": [" ".join(texts), "Nothing else."], "inner": nested, **columns})


def iterate_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from iterate_texts(inner)


def find_remaining(removed: list[str], texts: str, plan: str) -> list[str]:
    """The values that are still in the texts: under `rmft` of a mail address the first
    occurrence stays.
    """
    return [
        word for word in removed if texts.count(word) > (plan == "rmft" and word.endswith(".com"))
    ]


@pytest.mark.parametrize(("case", "plan"), CASES_AND_PLANS)
def test_values_of_columns_leave_all_texts(tmp_path: Path, case: str, plan: str) -> None:
    columns, policies, removed, staying = COLUMNS[case]
    pq.write_table(build_table(columns, [*removed, *staying]), tmp_path / "in.parquet")
    done = sanitize.run(
        tmp_path / "in.parquet", tmp_path / "out", plan=plan, **options_of(policies)
    )
    rows = Corpus.open(tmp_path / "out").table(["text", "inner"]).to_pylist()
    texts = "\n".join(iterate_texts(rows))
    assert find_remaining(removed, texts, plan) == []
    if plan != "strict" or case != "dates and booleans":
        # which generalizes dates wherever they are
        assert [word for word in staying if texts.count(word) != 3] == []
    assert done.verify.swept >= (3 if case in ("user names", "users", "numbers", "a struct") else 0)
    assert sanitize.verify(tmp_path / "out", workers=1).leaks == 0


@pytest.mark.parametrize(
    ("case", "plan"),
    [
        (case, plan)
        for case, plan in CASES_AND_PLANS
        # a stream has not seen most cells of the column
        if case != "names in a column without a telling name" and plan != "strict"
    ],
)
def test_values_of_columns_leave_the_texts_of_a_stream(case: str, plan: str) -> None:
    columns, policies, removed, staying = COLUMNS[case]
    records = build_table(columns, [*removed, *staying]).to_pylist()
    options = {name: value for name, value in options_of(policies).items() if name != "workers"}
    clean = list(sanitize.stream(records, plan=plan, **options))
    texts = "\n".join(
        iterate_texts([{name: row[name] for name in ("text", "inner")} for row in clean])
    )
    assert find_remaining(removed, texts, plan) == []
    assert [word for word in staying if texts.count(word) != 3] == []
    (batch,) = sanitize.stream([pa.Table.from_pylist(records)], plan=plan, **options)
    assert batch.to_pylist() == clean


def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(
        '{"text": "hschmidt69 wrote to HSchmidt69", "author": "hschmidt69"}\n{"text":'
        ' "aHNjaG1pZHQ2OSB3cm90ZQ==", "author": "b"}\n'
    )
    done = sanitize.run(
        tmp_path / "in.jsonl", tmp_path / "out", plan="redact", pseudonymize="author", workers=1
    )
    table = Corpus.open(tmp_path / "out").table()
    assert table.column("text").to_pylist()[0] == "[USER_NAME] wrote to [USER_NAME]"
    assert "aHNjaG1pZHQ2OSB3" not in table.column("text").to_pylist()[1]  # the same in base64
    assert (
        done.by_kind["USER_NAME"].swept == done.by_kind["USER_NAME"].replaced == 3
        and done.verify.swept == 3
    )
    assert (table.column("author").to_pylist()[0] or "").startswith("a") and "hschmidt" not in str(
        table.column("author")
    )


def test_verify_finds_a_planted_value_of_a_column(tmp_path: Path) -> None:
    pq.write_table(
        build_table({"author": ["hschmidt69", "b"]}, ["hschmidt69"]), tmp_path / "in.parquet"
    )
    sanitize.run(
        tmp_path / "in.parquet", tmp_path / "out", plan="rmft", pseudonymize="author", workers=1
    )

    def plant(table: pa.Table) -> pa.Table:
        texts = pa.array(
            ["hschmidt69 is here", *table.column("text").to_pylist()[1:]], pa.large_string()
        )
        return table.set_column(table.column_names.index("text"), "text", texts)

    rewrite_shard(tmp_path / "out", plant)
    for mode in ("full", "fast"):
        with pytest.raises(LeakFound):
            sanitize.verify(tmp_path / "out", workers=1, mode=mode)


def test_a_kept_original_that_equals_a_user_stays(tmp_path: Path) -> None:
    table = pa.table(
        {
            "text": ["ask ann.lee42@example.com", "or ann.lee42@example.com"],
            "user_id": ["ann.lee42@example.com", "ann.lee42"],
        }
    )
    pq.write_table(table, tmp_path / "in.parquet")
    done = sanitize.run(tmp_path / "in.parquet", tmp_path / "out", plan="rmft", workers=1, seed=1)
    first, second = Corpus.open(tmp_path / "out").table().column("text").to_pylist()
    assert first == "ask ann.lee42@example.com" and "ann.lee42@example.com" not in second
    assert done.kept_originals == 1


def test_values_that_the_plan_leaves_stay(tmp_path: Path) -> None:
    url = "https://example.com/~hschmidt69/x"
    pq.write_table(
        pa.table({"text": [f"see {url}", "x"], "link": [url, "y"]}), tmp_path / "in.parquet"
    )
    sanitize.run(tmp_path / "in.parquet", tmp_path / "rmft", plan="rmft", drop="link", workers=1)
    assert Corpus.open(tmp_path / "rmft").table().column("text").to_pylist() == [f"see {url}", "x"]


@pytest.mark.parametrize("plan", ["redact", "rmft"])
def test_values_of_earlier_increments_stay_known(tmp_path: Path, plan: str) -> None:
    for number, (text, author) in enumerate(
        [("hschmidt69 wrote", "hschmidt69"), ("as hschmidt69 and nela_b wrote", "nela_b")]
    ):
        (tmp_path / f"{number}.jsonl").write_text(
            json.dumps({"text": text, "author": author}) + "\n"
        )
    options: dict[str, Any] = {"plan": plan, "pseudonymize": "author", "workers": 1, "seed": 1}
    sanitize.run(tmp_path / "0.jsonl", tmp_path / "out", **options)
    sanitize.run(
        [tmp_path / "0.jsonl", tmp_path / "1.jsonl"], tmp_path / "out", append=True, **options
    )
    texts = Corpus.open(tmp_path / "out").table().column("text").to_pylist()
    assert texts == ["[USER_NAME] wrote", "as [USER_NAME] and [USER_NAME] wrote"]
    assert sanitize.verify(tmp_path / "out", workers=1).leaks == 0


def test_a_stream_knows_the_values_of_earlier_batches_after_a_restart(tmp_path: Path) -> None:
    records = [
        {"text": "first", "author": "hschmidt69"},
        {"text": "as hschmidt69 and nela_b wrote", "author": "nela_b"},
    ]
    options: dict[str, Any] = {
        "plan": "rmft",
        "pseudonymize": "author",
        "state": tmp_path / "state",
        "batch": 1,
    }
    list(sanitize.stream(records[:1], **options))
    (clean,) = sanitize.stream(records[1:], **options)
    assert clean["text"] == "as [USER_NAME] and [USER_NAME] wrote"
    assert (tmp_path / "state" / "column_values.jsonl").stat().st_mode & 0o077 == 0


def test_files_with_values_are_private(tmp_path: Path) -> None:
    pq.write_table(
        build_table({"author": ["hschmidt69", "b"]}, ["hschmidt69"]), tmp_path / "in.parquet"
    )
    sanitize.run(
        tmp_path / "in.parquet", tmp_path / "out", plan="redact", pseudonymize="author", workers=1
    )
    files = [*(tmp_path / "out.private").glob("runs/*/vault/column_values/*.parquet")]
    assert len(files) == 1 and files[0].stat().st_mode & 0o077 == 0
    assert not any(
        b"hschmidt69" in path.read_bytes()
        for path in (tmp_path / "out").rglob("*")
        if path.is_file()
    )
