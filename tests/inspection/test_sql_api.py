"""Queries on a private folder from Python: the same results as from the commands, masked without `reveal`."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import polars as pl
import pytest

import sanitize
from sanitize.errors import UsageError
from sanitize.plans.settings import Settings

TEXTS = ["First bob.lee@example.com and 212-555-0123.", "Then bob.lee@example.com, ann.roe@example.org.", "Again bob.lee@example.com."]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("asked")
    pl.DataFrame({"text": TEXTS}).write_parquet(base / "in.parquet")
    sanitize.run(base / "in.parquet", base / "out", settings=Settings(seed=1, workers=1))
    return base / "out.private"


def test_top(work: Path) -> None:
    found = sanitize.top(work, limit=2)
    assert found.columns[:3] == ["rank", "kind", "value"] and found["occurrences"].to_list()[0] == 3
    assert "bob.lee" not in str(found) and "bob.lee" not in repr(found)
    assert sanitize.top(str(work), "PHONE_NUMBER")["kind"].to_list() == ["PHONE_NUMBER"]
    assert sanitize.top(work, reveal=True)["value"][0] == "bob.lee@example.com"
    assert sanitize.top(work, by="documents")["documents"].to_list() == [3, 1, 1]
    assert sanitize.top(work, by="users").height == 0  # these texts have no users
    for wrong in ({"kind": "EMAIL_ADRESS"}, {"name": "occurrences_by_section", "kind": "EMAIL_ADRESS"}):
        with pytest.raises(sanitize.SanitizeError, match="EMAIL_ADDRESS"):
            (sanitize.sql if "name" in wrong else sanitize.top)(work, **wrong)
    with pytest.raises(sanitize.SanitizeError, match="one of occurrences, documents"):
        sanitize.top(work, by="size")


def test_sql(work: Path) -> None:
    found = sanitize.sql(work, "SELECT kind, count(*) AS times FROM occurrences GROUP BY kind ORDER BY times DESC")
    assert found.rows() == [("EMAIL_ADDRESS", 4), ("PHONE_NUMBER", 1)]
    assert sanitize.sql(work, name="top_values", limit=1).height == 1
    assert sanitize.sql(work, "SELECT part FROM parts ORDER BY part_no", run="rmft")["part"].to_list() == ["rmft", "redact"]
    assert sanitize.sql(work, "SELECT text FROM documents WHERE doc_no = 0")["text"][0] != TEXTS[0]
    assert sanitize.sql(work, "SELECT text FROM documents WHERE doc_no = 0", reveal=True)["text"][0] == TEXTS[0]


@pytest.mark.parametrize(
    ("query", "name"), [(None, None), ("SELECT 1", "top_values"), ("DROP TABLE occurrences", None), (None, "top_valuse")]
)
def test_a_wrong_question(work: Path, query: str | None, name: str | None) -> None:
    with pytest.raises(UsageError):
        sanitize.sql(work, query, name=name)


def test_documents_are_empty_where_the_input_has_gone(work: Path, tmp_path: Path) -> None:
    shutil.copytree(work.parent, tmp_path / "all")
    (work.parent / "in.parquet").rename(tmp_path / "in.parquet")
    try:
        assert sanitize.sql(work, "SELECT count(*) FROM documents").item() == 0
        assert sanitize.sql(work, "SELECT count(*) FROM occurrences").item() == 5
    finally:
        (tmp_path / "in.parquet").rename(work.parent / "in.parquet")


def test_status(work: Path, tmp_path: Path) -> None:
    found = sanitize.status(work)
    assert found["indexed"] and found["documents"] == 3 and found["lock_holder"] is None
    assert [run["plan"] for run in found["runs"]] == ["rmft"]
    for ask in (sanitize.status, sanitize.top, lambda folder: sanitize.sql(folder, "SELECT 1")):
        with pytest.raises(UsageError, match="not the private folder"):
            ask(tmp_path)


def test_verify(work: Path) -> None:
    assert sanitize.verify(work.parent / "out")["leaks"] == 0


def test_an_empty_answer_says_why(work: Path, tmp_path: Path) -> None:
    from sanitize.inspection.sql_api import explain_empty_result
    from sanitize.storage.queries import get_query

    for name, said in (
        ("blacklist_coverage", "blacklist of run .* has no .blacklist."),
        ("ledger_summary", "ledger of run .* spends privacy"),
        ("duplicate_groups", "drops of run .* has no ..drop.. part"),
    ):
        assert sanitize.sql(work, name=name).height == 0
        assert re.search(said, explain_empty_result(work, get_query(name).tables) or "")
    assert explain_empty_result(work, {"edits", "occurrences"}) is None
    sanitize.find(work.parent / "in.parquet", work=tmp_path / "found", settings=Settings(seed=1, workers=1))
    assert "nothing was run yet" in (explain_empty_result(tmp_path / "found", {"drops"}) or "")
