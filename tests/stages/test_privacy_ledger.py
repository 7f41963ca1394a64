"""The privacy ledger against sums computed by hand: per document and user, quantiles, shared draws,
prior runs, and its sentences."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.core.part_protocols import Editor, PrivacyCost
from sanitize.stages.privacy_ledger import (
    CLAIM_OWN_MODEL,
    CLAIM_SEEDED,
    SHARED_DRAWS_SCHEMA,
    WEAK_ABOVE_EPSILON,
    LedgerWriter,
    PriorRun,
    build_accounts,
    describe_account,
    find_prior_runs,
)
from sanitize.storage import table_schemas

COMMON_FACTS: dict[str, Any] = {
    "mechanism": "m",
    "casing": "model",
    "own_model": False,
    "shared": False,
    "by_document": "documents of the same length",
}


class DrawingEditor(Editor):
    """An editor with a privacy unit."""

    privacy_unit: ClassVar[str] = "token"
    facts: dict[str, Any]

    def describe_privacy_cost(self) -> PrivacyCost:
        return PrivacyCost(**COMMON_FACTS | self.facts)


class PlainEditor(Editor):
    """An editor without a privacy claim."""


def make_editor(use: str = "dp_mlm", **facts: Any) -> DrawingEditor:
    return DrawingEditor(use=use, kinds=(), facts={"epsilon": 2.0, **facts})


def write_ledger(
    folder: Path, editors: list[Any], draws: list[tuple[int, int, int, int]]
) -> tuple[list[Path], list[Path]]:
    """The tables of one task, from (editor, document, column, number of the draw)."""
    folder.mkdir(exist_ok=True)
    with LedgerWriter(editors, folder) as writer:
        columns = [
            np.array([row[index] for row in draws], np.int32 if index == 0 else np.int64)
            for index in range(4)
        ]
        writer.add(*columns)
    return [folder / "ledger.parquet"], [folder / "draws.parquet"]


def make_accounts(
    folder: Path, editors: list[Any], draws: list[tuple[int, int, int, int]], **more: Any
) -> list[dict[str, Any]]:
    defaults: dict[str, Any] = {
        "is_only_editor": True,
        "public_key": False,
        "prior": (),
        "versions": {"sanitize": "1"},
        "users": None,
    }
    return build_accounts(editors, *write_ledger(folder, editors, draws), **defaults | more)


def make_users(*pairs: tuple[int, str | None]) -> list[pa.Table]:
    return [
        pa.table(
            {
                "doc_no": pa.array([no for no, _ in pairs], pa.int64()),
                "user_id": pa.array([user for _, user in pairs], pa.string()),
            }
        )
    ]


def test_a_document_spends_the_sum_of_its_draws(tmp_path: Path) -> None:
    """Several edits of one draw count as one draw; draws of two columns or of two documents count
    as two."""
    draws = [(0, 7, 0, 1), (0, 7, 0, 1), (0, 7, 0, 2), (0, 7, 1, 1), (0, 9, 0, 1)]
    (account,) = make_accounts(tmp_path / "task", [make_editor()], draws)
    rows = pq.read_table(tmp_path / "task" / "ledger.parquet")
    assert rows.schema.equals(table_schemas.LEDGER.schema)
    assert [
        (row["doc_no"], row["unit_count"], row["epsilon_per_unit"]) for row in rows.to_pylist()
    ] == [(7, 3, 2.0), (9, 1, 2.0)]
    assert pq.read_table(tmp_path / "task" / "draws.parquet").num_rows == 0, (
        "no draw is shared by all documents"
    )
    assert (account["documents"], account["unit_count"], account["epsilon_total"]) == (2, 4, 8.0)
    assert (
        account["units_per_document"]["max"] == 3 and account["epsilon_per_document"]["max"] == 6.0
    )
    assert (
        account["claim"] == "token and document"
        and account["epsilon_per_user"] is None
        and account["library_versions"] == {"sanitize": "1"}
    )


@pytest.mark.parametrize(
    ("units", "expected"),
    [
        ([5], {"p50": 5, "p90": 5, "p99": 5, "max": 5}),
        ([1, 3], {"p50": 1, "p90": 3, "p99": 3, "max": 3}),  # an observed value, not interpolated
        (list(range(1, 101)), {"p50": 50, "p90": 90, "p99": 99, "max": 100}),
        ([1] * 99 + [40], {"p50": 1, "p90": 1, "p99": 1, "max": 40}),
    ],
)
def test_percentiles_are_observed_values(
    units: list[int], expected: dict[str, float], tmp_path: Path
) -> None:
    draws = [
        (0, doc_no, 0, number)
        for doc_no, unit_count in enumerate(units)
        for number in range(unit_count)
    ]
    (account,) = make_accounts(tmp_path / "task", [make_editor(epsilon=0.5)], draws)
    assert account["units_per_document"] == expected
    assert account["epsilon_per_document"] == {name: value / 2 for name, value in expected.items()}


def test_epsilon_per_user_is_the_sum_of_their_documents(tmp_path: Path) -> None:
    """Group privacy: m documents of one user spend the sum of theirs, in any table; documents
    without a user are in no sum."""
    draws = [
        (0, doc_no, 0, number)
        for doc_no, unit_count in enumerate([1, 2, 4, 8])
        for number in range(unit_count)
    ]
    user_tables = [*make_users((0, "u"), (1, "v")), *make_users((2, "u"), (3, None))]
    (account,) = make_accounts(tmp_path / "task", [make_editor()], draws, users=user_tables)
    # v: 2 x 2; u: (1 + 4) x 2
    assert account["epsilon_per_user"] == {
        "p50": 4.0,
        "p90": 10.0,
        "p99": 10.0,
        "max": 10.0,
    }
    assert "All documents of one user add up to 10 at most." in account["statements"]
    assert any(
        "m documents with the same content add up: up to m times as much (group privacy)"
        in statement
        for statement in account["statements"]
    )


def test_a_shared_draw_is_counted_once(tmp_path: Path) -> None:
    """The same word in two documents and two tasks: one draw of the corpus; each document spends
    what it reveals."""
    editors = [make_editor(shared=True, by_document="")]
    first_task, second_task = (
        write_ledger(tmp_path / name, editors, rows)
        for name, rows in (
            ("one", [(0, 0, 0, 11), (0, 0, 1, 11), (0, 0, 0, 12)]),
            ("other", [(0, 5, 0, 11)]),
        )
    )
    account = build_accounts(
        editors,
        [*first_task[0], *second_task[0]],
        [*first_task[1], *second_task[1]],
        is_only_editor=True,
        public_key=False,
        prior=(),
        versions={},
        users=None,
    )[0]
    assert (account["unit_count"], account["epsilon_total"]) == (2, 4.0)
    assert account["units_per_document"] == {
        "p50": 1,
        "p90": 2,
        "p99": 2,
        "max": 2,
    }, "columns share a shared draw"
    assert account["claim"] == "token"
    assert any(
        "drawn once for the whole corpus: 2 draws, epsilon 4 in all" in statement
        for statement in account["statements"]
    )
    assert any("not for documents" in statement for statement in account["statements"])


def test_editors_have_separate_accounts_and_none_without_a_claim(tmp_path: Path) -> None:
    editors = [
        PlainEditor(use="redact", kinds=()),
        make_editor("first", epsilon=1.0),
        make_editor("second", epsilon=3.0),
    ]
    draws = [(0, 0, 0, 1), (1, 0, 0, 1), (1, 0, 0, 2), (2, 0, 0, 1), (2, 4, 0, 1)]
    accounts = make_accounts(
        tmp_path / "task", editors, draws, users=make_users((0, "u"), (4, "u"))
    )
    assert [
        (
            entry["part"],
            entry["unit_count"],
            entry["epsilon_total"],
            entry["epsilon_per_user"]["max"],
        )
        for entry in accounts
    ] == [
        ("first", 2, 2.0, 2.0),
        ("second", 2, 6.0, 6.0),
    ]
    assert (
        build_accounts(
            [editors[0]],
            [],
            [],
            is_only_editor=True,
            public_key=False,
            prior=(),
            versions={},
            users=None,
        )
        == []
    )
    with LedgerWriter([editors[0]], tmp_path) as writer:
        writer.add(np.zeros(1, np.int32), *(np.zeros(1, np.int64) for _ in range(3)))
    assert not (tmp_path / "ledger.parquet").exists()


def test_editors_of_one_name_have_separate_accounts(tmp_path: Path) -> None:
    editors = [make_editor(epsilon=1.0), make_editor(epsilon=100.0)]
    prior = [
        PriorRun(run="a", part=part, epsilon=1.0, unit_count=1)
        for part in ("dp_mlm", "dp_mlm[1]", "other")
    ]
    accounts = make_accounts(
        tmp_path / "task",
        editors,
        [(0, 0, 0, 1), (1, 0, 0, 2), (1, 0, 0, 3)],
        users=make_users((0, "u")),
        prior=prior,
    )
    assert [
        (
            entry["part"],
            entry["unit_count"],
            entry["epsilon_total"],
            entry["epsilon_per_user"]["max"],
        )
        for entry in accounts
    ] == [
        ("dp_mlm[0]", 1, 1.0, 1.0),
        ("dp_mlm[1]", 2, 200.0, 200.0),
    ]
    assert [len(entry["prior_runs"]) for entry in accounts] == [2, 2]


def test_a_small_epsilon_is_not_reported_as_zero(tmp_path: Path) -> None:
    (account,) = make_accounts(
        tmp_path / "task",
        [make_editor(epsilon=0.1)],
        [(0, 0, 0, no) for no in range(3)],
        users=make_users((0, "u")),
    )
    assert (
        "= 0.3 per document at most (half of the documents: 3 tokens or fewer, 0.3)"
        in account["statements"][0]
    )
    assert "All documents of one user add up to 0.3 at most." in account["statements"]


def test_a_failed_task_leaves_no_ledger(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), LedgerWriter([make_editor()], tmp_path) as writer:
        writer.add(np.zeros(1, np.int32), *(np.zeros(1, np.int64) for _ in range(3)))
        raise RuntimeError
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("facts", "options", "claim", "has_document_claim"),
    [
        ({}, {}, "token and document", True),
        ({}, {"is_only_editor": False}, "token", False),  # other parts edit too
        ({"by_document": ""}, {}, "token", False),  # the data decided where draws occur
        ({}, {"public_key": True}, CLAIM_SEEDED, False),
        ({"own_model": True}, {}, CLAIM_OWN_MODEL, False),
        ({"own_model": True}, {"public_key": True}, CLAIM_SEEDED, False),
    ],
)
def test_claims_depend_on_facts_and_options(
    facts: dict[str, Any],
    options: dict[str, Any],
    claim: str,
    has_document_claim: bool,
    tmp_path: Path,
) -> None:
    (account,) = make_accounts(tmp_path / "task", [make_editor(**facts)], [(0, 0, 0, 1)], **options)
    assert account["claim"] == claim and ("document" in account["adjacency"]) == has_document_claim
    assert (f"Claim: {claim}." in account["statements"]) == claim.startswith("none")
    assert any(
        "claim is for each token drawn and not for documents" in statement
        for statement in account["statements"]
    ) == (claim == "token")
    assert "by_document" not in account


@pytest.mark.parametrize(
    ("epsilon", "is_weak"), [(WEAK_ABOVE_EPSILON / 4, False), (WEAK_ABOVE_EPSILON / 4 + 0.1, True)]
)
def test_statements_report_missing_protection(
    epsilon: float, is_weak: bool, tmp_path: Path
) -> None:
    (account,) = make_accounts(
        tmp_path / "task",
        [make_editor(epsilon=epsilon)],
        [(0, 0, 0, number) for number in range(4)],
    )
    assert (
        f"epsilon {epsilon:g} per token x 4 tokens = {epsilon * 4:g} per document at most"
        in account["statements"][0]
    )
    assert ("in practice no protection at document level" in account["statements"][0]) == is_weak


def test_statements_equal_the_documentation() -> None:
    """Epsilon 10 a token, 400 tokens a document: 4,000."""
    percentiles = {"p50": 300.0, "p90": 400.0, "p99": 400.0, "max": 400.0}
    account = {
        "unit": "token",
        "epsilon": 10.0,
        "claim": "token and document",
        "documents": 3,
        "unit_count": 1000,
        "shared": False,
        "casing": "first",
        "epsilon_total": 10_000.0,
        "epsilon_per_user": None,
        "prior_runs": [{"run": "a"}, {"run": "b"}],
        "units_per_document": percentiles,
        "epsilon_per_document": {name: 10 * value for name, value in percentiles.items()},
    }
    statements = describe_account(account)
    assert (
        statements[0]
        == "epsilon 10 per token x 400 tokens = 4,000 per document at most (half of the documents:"
        " 300 tokens or fewer, 3,000): in practice no protection at document level."
    )
    assert "Whether a word began with a capital letter is kept as it was." in statements
    assert statements[-1] == "2 other runs over this corpus are known; add what they spent."


def test_no_draws_spend_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "task"
    folder.mkdir()
    with LedgerWriter([make_editor()], folder):
        pass
    paths = [folder / "ledger.parquet"], [folder / "draws.parquet"]
    (account,) = build_accounts(
        [make_editor()],
        *paths,
        is_only_editor=True,
        public_key=False,
        prior=(),
        versions={},
        users=make_users((0, "u")),
    )
    assert (account["unit_count"], account["epsilon_total"], account["epsilon_per_document"]) == (
        0,
        0.0,
        {},
    )
    assert account["statements"] == ["Nothing was drawn; nothing was spent."]


def test_prior_runs_are_other_finished_runs(tmp_path: Path) -> None:
    """Other finished runs of the folder with draws; for each part the largest epsilon and the sum
    of its draws."""
    runs = tmp_path / "runs"
    for name, rows in {
        "a": [(0, 0, 0, 1), (0, 3, 0, 1)],
        "own": [(0, 0, 0, 1)],
        "unplanned": [(0, 0, 0, 1)],
        "b": [(0, 0, 0, 1), (1, 0, 0, 1)],
    }.items():
        (runs / name / "ledger").mkdir(parents=True)
        editors = [make_editor(epsilon=4.0), make_editor("other", epsilon=0.5)]
        path = write_ledger(tmp_path / name, editors, rows)[0][0]
        path.rename(runs / name / "ledger" / "00000.parquet")
        if name != "unplanned":
            (runs / name / "plan.json").write_text("{}")
    (runs / "without").mkdir()
    prior_runs = find_prior_runs(runs, "own")
    assert prior_runs == [
        PriorRun(run="a", part="dp_mlm", epsilon=4.0, unit_count=2),
        PriorRun(run="b", part="dp_mlm", epsilon=4.0, unit_count=1),
        PriorRun(run="b", part="other", epsilon=0.5, unit_count=1),
    ]
    assert find_prior_runs(tmp_path / "nowhere", "own") == []
    (runs / "without" / "plan.json").write_text("{")
    assert find_prior_runs(runs, "own") == prior_runs  # it drew nothing
    (runs / "b" / "plan.json").write_text("{")
    assert find_prior_runs(runs, "own") == prior_runs  # damaged, but what it drew was drawn
    account, _ = make_accounts(
        tmp_path / "task", [make_editor(), make_editor("other")], [(0, 0, 0, 1)], prior=prior_runs
    )
    assert account["prior_runs"] == [asdict(one) for one in prior_runs[:2]], "of the same part"


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 4), st.integers(0, 1), st.integers(0, 3)),
        min_size=1,
        max_size=40,
    )
)
def test_sums_equal_the_reference(
    tmp_path_factory: pytest.TempPathFactory, draws: list[tuple[int, int, int, int]]
) -> None:
    """Distinct (editor, document, column, draw), times epsilon; any split of a task's batches gives
    the same rows."""
    folder = tmp_path_factory.mktemp("ledger")
    editors = [make_editor("first", epsilon=1.5), make_editor("second", epsilon=0.25)]
    reference: dict[tuple[int, int], set[tuple[int, int]]] = defaultdict(set)
    for part, doc_no, column, draw in draws:
        reference[part, doc_no].add((column, draw))
    accounts = make_accounts(folder / "task", editors, draws)
    for number, entry in enumerate(accounts):
        counts = {
            doc_no: len(draws_of_document)
            for (part, doc_no), draws_of_document in reference.items()
            if part == number
        }
        assert (entry["documents"], entry["unit_count"]) == (len(counts), sum(counts.values()))
        assert entry["epsilon_total"] == pytest.approx(sum(counts.values()) * [1.5, 0.25][number])
        assert entry["units_per_document"].get("max", 0) == max(counts.values(), default=0)


def test_ledger_tables_have_the_expected_schema(tmp_path: Path) -> None:
    paths, draws = write_ledger(tmp_path / "task", [make_editor(shared=True)], [(0, 0, 0, 5)])
    assert pq.read_schema(draws[0]).equals(SHARED_DRAWS_SCHEMA) and pl.read_parquet(
        draws[0]
    ).rows() == [(0, 5)]
    assert json.dumps(pl.read_parquet(paths[0]).to_dicts()) == json.dumps(
        [
            {
                "part": "dp_mlm",
                "privacy_unit": "token",
                "doc_no": 0,
                "unit_count": 1,
                "epsilon_per_unit": 2.0,
            }
        ]
    )
