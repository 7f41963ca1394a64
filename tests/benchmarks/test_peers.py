"""The page of peers: the input of each rewriter, the counts, and that a missing tool is
reported."""

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import peers, runner
from sanitize.plans.plan import load_plan


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    texts = [
        "Write to anna@example.com.",
        "Nothing here.",
        "Or to ben@example.org, from 192.0.2.7.",
    ]
    for no in range(2):
        pq.write_table(
            pa.table({"user_id": ["a", "b", "c"], "text": texts}), folder / f"part-{no}.parquet"
        )
    return folder


@pytest.mark.parametrize(("job", "kinds"), [("addresses", 1), ("all kinds", 7)])
def test_plain_patterns_replace_values(corpus: Path, job: str, kinds: int) -> None:
    clean, named = peers.plain_re(job)
    assert len(named) == kinds
    assert clean(pa.array(["Write to anna@example.com."])).to_pylist() == [
        "Write to [EMAIL_ADDRESS]."
    ]
    result = peers.rewrite("re", job, corpus, megabytes=1)
    assert (result["documents"], result["changed"]) == (6, pytest.approx(2 / 3))


@pytest.mark.parametrize("name", ["re", "plain copy"])
def test_the_number_of_documents_is_limited(corpus: Path, name: str) -> None:
    assert peers.rewrite(name, "addresses", corpus, megabytes=0.00001)["documents"] == 3


def test_generated_plans_are_valid(tmp_path: Path) -> None:
    assert load_plan(str(peers.write_plan("addresses", tmp_path)), []).find.kinds == (
        "EMAIL_ADDRESS",
    )
    assert len(load_plan(str(peers.write_plan("all kinds", tmp_path)), []).find.kinds) > 5


def test_a_missing_tool_is_reported(corpus: Path) -> None:
    arguments = ("--worker", "rewrite", "scrubadub", str(corpus), "1", "addresses")
    message = runner.run_worker(sys.executable, "benchmarks.peers", *arguments)
    assert message == "not installed (scrubadub)"
