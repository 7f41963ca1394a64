"""The privacy ledger against sums computed by hand: per document and user, quantiles, shared draws, prior runs, and its sentences."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.core.part_protocols import Editor
from sanitize.stages.privacy_ledger import (
    CLAIM_OWN_MODEL,
    CLAIM_SEEDED,
    SHARED_DRAWS_SCHEMA,
    WEAK_ABOVE_EPSILON,
    LedgerWriter,
    build_accounts,
    describe_account,
    find_prior_runs,
)
from sanitize.storage import table_schemas

FACTS = {"mechanism": "m", "casing": "model", "own_model": False, "shared": False, "by_document": "documents of the same length"}


class Drawing(Editor):
    """An editor with a privacy unit."""

    privacy_unit: ClassVar[str] = "token"
    facts: dict[str, Any]

    def describe_privacy_cost(self) -> dict[str, Any]:
        return FACTS | self.facts


class Plain(Editor):
    """An editor without a privacy claim."""


def drawing(use: str = "dp_mlm", **told: Any) -> Drawing:
    return Drawing(use=use, kinds=(), facts={"epsilon": 2.0, **told})


def spent(folder: Path, editors: list[Any], draws: list[tuple[int, int, int, int]]) -> tuple[list[Path], list[Path]]:
    """The tables of one task, from (editor, document, column, number of the draw)."""
    folder.mkdir(exist_ok=True)
    with LedgerWriter(editors, folder) as made:
        columns = [np.array([row[at] for row in draws], np.int32 if at == 0 else np.int64) for at in range(4)]
        made.add(*columns)
    return [folder / "ledger.parquet"], [folder / "draws.parquet"]


def account(folder: Path, editors: list[Any], draws: list[tuple[int, int, int, int]], **more: Any) -> list[dict[str, Any]]:
    given: dict[str, Any] = {"is_only_editor": True, "public_key": False, "prior": (), "versions": {"sanitize": "1"}, "users": None}
    return build_accounts(editors, *spent(folder, editors, draws), **given | more)


def users(*pairs: tuple[int, str | None]) -> list[pa.Table]:
    return [
        pa.table({"doc_no": pa.array([no for no, _ in pairs], pa.int64()), "user_id": pa.array([user for _, user in pairs], pa.string())})
    ]


def test_a_document_spends_the_sum_of_its_draws(tmp_path: Path) -> None:
    """Several edits of one draw count as one draw; draws of two columns or of two documents count as two."""
    draws = [(0, 7, 0, 1), (0, 7, 0, 1), (0, 7, 0, 2), (0, 7, 1, 1), (0, 9, 0, 1)]
    (told,) = account(tmp_path / "task", [drawing()], draws)
    rows = pq.read_table(tmp_path / "task" / "ledger.parquet")
    assert rows.schema.equals(table_schemas.LEDGER.schema)
    assert [(row["doc_no"], row["unit_count"], row["epsilon_per_unit"]) for row in rows.to_pylist()] == [(7, 3, 2.0), (9, 1, 2.0)]
    assert pq.read_table(tmp_path / "task" / "draws.parquet").num_rows == 0, "no draw stands for all documents"
    assert (told["documents"], told["unit_count"], told["epsilon_total"]) == (2, 4, 8.0)
    assert told["units_per_document"]["max"] == 3 and told["epsilon_per_document"]["max"] == 6.0
    assert told["claim"] == "token and document" and told["epsilon_per_user"] is None and told["library_versions"] == {"sanitize": "1"}


@pytest.mark.parametrize(
    ("units", "told"),
    [
        ([5], {"p50": 5, "p90": 5, "p99": 5, "max": 5}),
        ([1, 3], {"p50": 1, "p90": 3, "p99": 3, "max": 3}),  # a value that was there, none between two
        (list(range(1, 101)), {"p50": 50, "p90": 90, "p99": 99, "max": 100}),
        ([1] * 99 + [40], {"p50": 1, "p90": 1, "p99": 1, "max": 40}),
    ],
)
def test_percentiles_are_values_that_were_there(units: list[int], told: dict[str, float], tmp_path: Path) -> None:
    draws = [(0, doc_no, 0, number) for doc_no, many in enumerate(units) for number in range(many)]
    (one,) = account(tmp_path / "task", [drawing(epsilon=0.5)], draws)
    assert one["units_per_document"] == told
    assert one["epsilon_per_document"] == {name: value / 2 for name, value in told.items()}


def test_users_add_up_what_their_documents_spent(tmp_path: Path) -> None:
    """Group privacy: m documents of one user spend the sum of theirs, whatever table lists them; documents without a user are in no sum."""
    draws = [(0, doc_no, 0, number) for doc_no, many in enumerate([1, 2, 4, 8]) for number in range(many)]
    who = [*users((0, "u"), (1, "v")), *users((2, "u"), (3, None))]
    (told,) = account(tmp_path / "task", [drawing()], draws, users=who)
    assert told["epsilon_per_user"] == {"p50": 4.0, "p90": 10.0, "p99": 10.0, "max": 10.0}  # v: 2 x 2; u: (1 + 4) x 2
    assert "All documents of one user add up to 10 at most." in told["statements"]
    assert any("m documents with the same content add up: up to m times as much (group privacy)" in said for said in told["statements"])


def test_a_draw_that_stands_for_all_is_counted_once(tmp_path: Path) -> None:
    """The same word in two documents and two tasks: one draw of the corpus; each document spends what it reveals."""
    editors = [drawing(shared=True, by_document="")]
    one, other = (spent(tmp_path / name, editors, rows) for name, rows in
                  (("one", [(0, 0, 0, 11), (0, 0, 1, 11), (0, 0, 0, 12)]), ("other", [(0, 5, 0, 11)])))  # fmt: skip
    told = build_accounts(
        editors, [*one[0], *other[0]], [*one[1], *other[1]], is_only_editor=True, public_key=False, prior=(), versions={}, users=None
    )[0]
    assert (told["unit_count"], told["epsilon_total"]) == (2, 4.0)
    assert told["units_per_document"] == {"p50": 1, "p90": 2, "p99": 2, "max": 2}, "columns share a draw that stands for all"
    assert told["claim"] == "token"
    assert any("drawn once for the whole corpus: 2 draws, epsilon 4 in all" in said for said in told["statements"])
    assert any("not for documents" in said for said in told["statements"])


def test_editors_are_told_apart_and_those_without_a_claim_are_left_out(tmp_path: Path) -> None:
    editors = [Plain(use="redact", kinds=()), drawing("first", epsilon=1.0), drawing("second", epsilon=3.0)]
    draws = [(0, 0, 0, 1), (1, 0, 0, 1), (1, 0, 0, 2), (2, 0, 0, 1), (2, 4, 0, 1)]
    told = account(tmp_path / "task", editors, draws, users=users((0, "u"), (4, "u")))
    assert [(one["part"], one["unit_count"], one["epsilon_total"], one["epsilon_per_user"]["max"]) for one in told] == [
        ("first", 2, 2.0, 2.0),
        ("second", 2, 6.0, 6.0),
    ]
    assert build_accounts([editors[0]], [], [], is_only_editor=True, public_key=False, prior=(), versions={}, users=None) == []
    with LedgerWriter([editors[0]], tmp_path) as nothing:
        nothing.add(np.zeros(1, np.int32), *(np.zeros(1, np.int64) for _ in range(3)))
    assert not (tmp_path / "ledger.parquet").exists()


def test_nothing_is_kept_of_a_task_that_failed(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), LedgerWriter([drawing()], tmp_path) as made:
        made.add(np.zeros(1, np.int32), *(np.zeros(1, np.int64) for _ in range(3)))
        raise RuntimeError
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("told", "more", "claim", "document"),
    [
        ({}, {}, "token and document", True),
        ({}, {"is_only_editor": False}, "token", False),  # other parts edit too
        ({"by_document": ""}, {}, "token", False),  # the data decided where
        ({}, {"public_key": True}, CLAIM_SEEDED, False),
        ({"own_model": True}, {}, CLAIM_OWN_MODEL, False),
        ({"own_model": True}, {"public_key": True}, CLAIM_SEEDED, False),
    ],
)
def test_what_is_claimed(told: dict[str, Any], more: dict[str, Any], claim: str, document: bool, tmp_path: Path) -> None:
    (one,) = account(tmp_path / "task", [drawing(**told)], [(0, 0, 0, 1)], **more)
    assert one["claim"] == claim and ("document" in one["adjacency"]) == document
    assert (f"Claim: {claim}." in one["statements"]) == claim.startswith("none")
    assert any("claim is for each token drawn and not for documents" in said for said in one["statements"]) == (claim == "token")
    assert "by_document" not in one


@pytest.mark.parametrize(("epsilon", "strong"), [(WEAK_ABOVE_EPSILON / 4, False), (WEAK_ABOVE_EPSILON / 4 + 0.1, True)])
def test_plain_words_say_when_there_is_no_protection(epsilon: float, strong: bool, tmp_path: Path) -> None:
    (told,) = account(tmp_path / "task", [drawing(epsilon=epsilon)], [(0, 0, 0, number) for number in range(4)])
    assert f"epsilon {epsilon:g} per token x 4 tokens = {epsilon * 4:,.0f} per document at most" in told["statements"][0]
    assert ("in practice no protection at document level" in told["statements"][0]) == strong


def test_the_sentence_of_the_docs() -> None:
    """Epsilon 10 a token, 400 tokens a document: 4,000."""
    spread = {"p50": 300.0, "p90": 400.0, "p99": 400.0, "max": 400.0}
    told = {
        "unit": "token", "epsilon": 10.0, "claim": "token and document", "documents": 3, "unit_count": 1000, "shared": False,
        "casing": "first",
        "epsilon_total": 10_000.0, "epsilon_per_user": None, "prior_runs": [{"run": "a"}, {"run": "b"}], "units_per_document": spread,
        "epsilon_per_document": {name: 10 * value for name, value in spread.items()},
    }  # fmt: skip
    said = describe_account(told)
    assert said[0] == (
        "epsilon 10 per token x 400 tokens = 4,000 per document at most (half of the documents: 300 tokens or fewer, 3,000): in practice "
        "no protection at document level."
    )
    assert "Whether a word began with a capital letter is kept as it was." in said
    assert said[-1] == "2 other runs over this corpus are known; add what they spent."


def test_nothing_drawn_is_nothing_spent(tmp_path: Path) -> None:
    folder = tmp_path / "task"
    folder.mkdir()
    with LedgerWriter([drawing()], folder):
        pass
    paths = [folder / "ledger.parquet"], [folder / "draws.parquet"]
    (told,) = build_accounts([drawing()], *paths, is_only_editor=True, public_key=False, prior=(), versions={}, users=users((0, "u")))
    assert (told["unit_count"], told["epsilon_total"], told["epsilon_per_document"]) == (0, 0.0, {})
    assert told["statements"] == ["Nothing was drawn; nothing was spent."]


def test_prior_runs_are_those_of_others(tmp_path: Path) -> None:
    """Other finished runs of the folder with draws; for each part the largest epsilon and the sum of its draws."""
    runs = tmp_path / "runs"
    for name, rows in {
        "a": [(0, 0, 0, 1), (0, 3, 0, 1)],
        "own": [(0, 0, 0, 1)],
        "unplanned": [(0, 0, 0, 1)],
        "b": [(0, 0, 0, 1), (1, 0, 0, 1)],
    }.items():
        (runs / name / "ledger").mkdir(parents=True)
        editors = [drawing(epsilon=4.0), drawing("other", epsilon=0.5)]
        path = spent(tmp_path / name, editors, rows)[0][0]
        path.rename(runs / name / "ledger" / "00000.parquet")
        if name != "unplanned":
            (runs / name / "plan.json").write_text("{}")
    (runs / "without").mkdir()
    found = find_prior_runs(runs, "own")
    assert found == [
        {"run": "a", "part": "dp_mlm", "epsilon": 4.0, "unit_count": 2},
        {"run": "b", "part": "dp_mlm", "epsilon": 4.0, "unit_count": 1},
        {"run": "b", "part": "other", "epsilon": 0.5, "unit_count": 1},
    ]
    assert find_prior_runs(tmp_path / "nowhere", "own") == []
    (told, _) = account(tmp_path / "task", [drawing(), drawing("other")], [(0, 0, 0, 1)], prior=found)
    assert told["prior_runs"] == found[:2], "of the same part"


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 4), st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=40))
def test_sums_are_those_of_a_slow_count(tmp_path_factory: pytest.TempPathFactory, draws: list[tuple[int, int, int, int]]) -> None:
    """Distinct (editor, document, column, draw), times epsilon; any split of a task's batches gives the same rows."""
    folder = tmp_path_factory.mktemp("ledger")
    editors = [drawing("first", epsilon=1.5), drawing("second", epsilon=0.25)]
    slow: dict[tuple[int, int], set[tuple[int, int]]] = defaultdict(set)
    for part, doc_no, column, draw in draws:
        slow[part, doc_no].add((column, draw))
    told = account(folder / "task", editors, draws)
    for number, one in enumerate(told):
        mine = {doc_no: len(seen) for (part, doc_no), seen in slow.items() if part == number}
        assert (one["documents"], one["unit_count"]) == (len(mine), sum(mine.values()))
        assert one["epsilon_total"] == pytest.approx(sum(mine.values()) * [1.5, 0.25][number])
        assert one["units_per_document"].get("max", 0) == max(mine.values(), default=0)


def test_tables_are_those_of_the_house(tmp_path: Path) -> None:
    paths, draws = spent(tmp_path / "task", [drawing(shared=True)], [(0, 0, 0, 5)])
    assert pq.read_schema(draws[0]).equals(SHARED_DRAWS_SCHEMA) and pl.read_parquet(draws[0]).rows() == [(0, 5)]
    assert json.dumps(pl.read_parquet(paths[0]).to_dicts()) == json.dumps(
        [{"part": "dp_mlm", "privacy_unit": "token", "doc_no": 0, "unit_count": 1, "epsilon_per_unit": 2.0}]
    )
