"""The page of peers: what each rewriter is handed, what is counted, and that a tool that is not there is said to be missing."""

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import peers
from sanitize.plans.plan import load_plan


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    texts = ["Write to anna@example.com.", "Nothing here.", "Or to ben@example.org, from 192.0.2.7."]
    for no in range(2):
        pq.write_table(pa.table({"user_id": ["a", "b", "c"], "text": texts}), folder / f"part-{no}.parquet")
    return folder


@pytest.mark.parametrize(("job", "kinds"), [("addresses", 1), ("all kinds", 7)])
def test_floor_replaces_what_its_patterns_find(corpus: Path, job: str, kinds: int) -> None:
    clean, named = peers.plain_re(job)
    assert len(named) == kinds
    assert clean(["Write to anna@example.com."]) == ["Write to [EMAIL_ADDRESS]."]
    found = peers.rewrite("re", job, corpus, megabytes=1)
    assert (found["documents"], found["changed"]) == (6, pytest.approx(2 / 3))


@pytest.mark.parametrize("name", ["re", "plain copy"])
def test_no_more_documents_than_asked_for(corpus: Path, name: str) -> None:
    assert peers.rewrite(name, "addresses", corpus, megabytes=0.00001)["documents"] == 3


def test_plan_of_addresses_alone_is_a_plan(tmp_path: Path) -> None:
    assert load_plan(str(peers.write_plan("addresses", tmp_path)), []).find.kinds == ("EMAIL_ADDRESS",)
    assert len(load_plan(str(peers.write_plan("all kinds", tmp_path)), []).find.kinds) > 5


def test_tool_that_is_not_there_is_said_to_be_missing(corpus: Path) -> None:
    said = peers.run_worker(sys.executable, "--worker", "rewrite", "scrubadub", str(corpus), "1", "addresses")
    assert said == "not installed (scrubadub)"
