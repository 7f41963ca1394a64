"""The limit of work per document: a document in which the finders match more than
`--max-doc-matches` is quarantined by run, append and stream, whatever the batches and workers
are."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import sanitize
from sanitize.plans.plan import Plan, load_plan
from sanitize.plans.settings import Settings
from sanitize.storage.corpus import Corpus
from tests.support import write_json_lines

LIMIT = 20
SEED = 3
CUSTOM_PLAN = """
about = "x"
[find]
kinds = ["EMAIL_ADDRESS", "TICKET"]
[[kind]]
name = "TICKET"
pattern = 'TK-\\d+'
[[edit]]
use = "redact"
kinds = ["EMAIL_ADDRESS", "TICKET"]
"""


def addresses(count: int, name: str) -> str:
    return " ".join(f"{name}{number}@example.com" for number in range(count))


def build_rows() -> list[dict[str, Any]]:
    """Five documents; `many`, `both` and `header` are over the limit. `both` is so only with its
    two texts together."""
    header = (
        f"From: x@example.com\nTo: {addresses(LIMIT + 1, 'to').replace(' ', ', ')}\nSubject:"
        " hi\n\nbody\n"
    )
    return [
        {"doc_id": "plain", "text": "write to ann.roe@example.com", "note": ""},
        {"doc_id": "many", "text": addresses(LIMIT + 1, "many"), "note": "one"},
        {
            "doc_id": "both",
            "text": addresses(LIMIT - 5, "first"),
            "note": addresses(LIMIT - 5, "second"),
        },
        {"doc_id": "limit", "text": addresses(LIMIT, "limit"), "note": "one"},
        {"doc_id": "header", "text": header, "note": ""},
    ]


OVER = {"many", "both", "header"}


def run_rows(path: Path, out: Path, plan: Plan | str = "surrogates", **settings: Any) -> Any:
    return sanitize.run(
        [path],
        out,
        plan=plan,
        seed=SEED,
        max_quarantine=1.0,
        **{"workers": 1, "max_doc_matches": LIMIT, **settings},
    )


def read_output(out: Path) -> dict[str, str]:
    return {
        row["doc_id"]: row["text"]
        for shard in Corpus.open(out).shards
        for row in shard.read().to_pylist()
    }


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "rows_per_shard"), [(1, 100), (2, 1)])
def test_a_run_quarantines_documents_with_too_many_matches(
    tmp_path: Path, workers: int, rows_per_shard: int
) -> None:
    source = write_json_lines(tmp_path / "in.jsonl", build_rows())
    result = run_rows(source, tmp_path / "out", workers=workers, rows_per_shard=rows_per_shard)
    assert result.quarantine == {"too_many_matches": 3} and result.documents_in == 5
    texts = read_output(tmp_path / "out")
    assert texts.keys() == {"plain", "limit"}
    rows = [
        row
        for path in (tmp_path / "out.private/quarantine/detect").glob("*")
        for row in pq.read_table(path).to_pylist()
    ]
    assert {(row["doc_no"], row["reason"]) for row in rows} == {
        (number, "too_many_matches") for number in (1, 2, 4)
    }
    assert sanitize.verify(tmp_path / "out").leaks == 0


def test_the_documents_within_the_limit_are_those_of_a_run_without_the_others(
    tmp_path: Path,
) -> None:
    """Also values of a document over the limit are not known to the rest of the corpus."""
    rows = build_rows()
    for name, part in (("all", rows), ("rest", [row for row in rows if row["doc_id"] not in OVER])):
        run_rows(write_json_lines(tmp_path / f"{name}.jsonl", part), tmp_path / name)
    assert read_output(tmp_path / "all") == read_output(tmp_path / "rest")


@pytest.mark.slow
def test_an_append_quarantines_as_a_run_does(tmp_path: Path) -> None:
    rows = build_rows()
    (tmp_path / "in").mkdir()
    write_json_lines(tmp_path / "in" / "a.jsonl", rows[:2])
    run_rows(tmp_path / "in", tmp_path / "out")
    write_json_lines(tmp_path / "in" / "b.jsonl", rows[2:])
    result = run_rows(tmp_path / "in", tmp_path / "out", append=True)
    assert result.quarantine == {"too_many_matches": 3}
    assert read_output(tmp_path / "out").keys() == {"plain", "limit"}
    assert sanitize.verify(tmp_path / "out").leaks == 0


@pytest.mark.slow
@pytest.mark.parametrize(("batch", "workers"), [(100, 1), (2, 2)])
def test_a_stream_quarantines_the_same_documents(tmp_path: Path, batch: int, workers: int) -> None:
    from sanitize.pipeline.streaming.stream import run_stream

    source = write_json_lines(tmp_path / "in.jsonl", build_rows())
    settings = Settings(
        seed=SEED, batch=batch, workers=workers, max_doc_matches=LIMIT, max_quarantine=1.0
    )
    run_stream([source], tmp_path / "out.jsonl", load_plan("redact"), tmp_path / "state", settings)
    kept = [
        json.loads(line)["doc_id"] for line in (tmp_path / "out.jsonl").read_text().splitlines()
    ]
    assert kept == ["plain", "limit"]
    entries = [
        json.loads(line)
        for line in (tmp_path / "state/quarantine/records.jsonl").read_text().splitlines()
    ]
    assert [(entry["record"], entry["reason"]) for entry in entries] == [
        (n, "too_many_matches") for n in (1, 2, 4)
    ]
    assert json.loads(entries[0]["raw"])["doc_id"] == "many"


def test_matches_that_no_kind_accepts_count_too(tmp_path: Path) -> None:
    """Work is what is limited: card numbers with a wrong check digit are matched and then
    rejected."""
    text = " ".join(f"4111 1111 1111 {number:04d}" for number in range(2_000, 2_000 + 10 * LIMIT))
    source = write_json_lines(
        tmp_path / "in.jsonl", [{"doc_id": "cards", "text": text}, {"doc_id": "plain", "text": "x"}]
    )
    result = run_rows(source, tmp_path / "out")
    assert result.quarantine == {"too_many_matches": 1}


def test_matches_of_custom_kinds_count_too(tmp_path: Path) -> None:
    text = " ".join(f"TK-{number}" for number in range(LIMIT + 1))
    source = write_json_lines(
        tmp_path / "in.jsonl",
        [{"doc_id": "tickets", "text": text}, {"doc_id": "plain", "text": "TK-1"}],
    )
    (tmp_path / "plan.toml").write_text(CUSTOM_PLAN)
    result = run_rows(source, tmp_path / "out", tmp_path / "plan.toml")
    assert result.quarantine == {"too_many_matches": 1}


@pytest.mark.slow
def test_work_grows_with_the_matches_and_not_faster(tmp_path: Path) -> None:
    """One header with ten times the addresses takes about ten times the time of a run; with a
    square it would take a hundred times."""
    seconds = []
    for count in (2_000, 20_000):
        text = (
            f"From: x@example.com\nTo: {addresses(count, 'to').replace(' ', ', ')}\nSubject:"
            " hi\n\nbody\n"
        )
        source = write_json_lines(tmp_path / f"{count}.jsonl", [{"doc_id": "header", "text": text}])
        began = time.process_time()
        run_rows(source, tmp_path / f"out{count}", max_doc_matches=10**6)
        seconds.append(time.process_time() - began)
    assert seconds[1] < 20 * seconds[0]


def test_many_columns_are_searched_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The patterns run once for a batch of small columns, and find in each what they find in it
    alone."""
    from sanitize.finders.patterns import PatternFinder

    names = [f"c{number}" for number in range(40)]
    rows = [
        {"doc_id": str(no), "text": "x", **{name: f"{name}-{no}@example.com" for name in names}}
        for no in range(3)
    ]
    source = write_json_lines(tmp_path / "in.jsonl", rows)
    calls = []
    run = PatternFinder.run
    monkeypatch.setattr(
        PatternFinder, "run", lambda self, texts: calls.append(len(texts)) or run(self, texts)
    )
    run_rows(source, tmp_path / "out", max_doc_matches=1_000)
    assert max(calls) == 3 * 41  # all cells of the batch at once
    occurrences = pq.read_table(tmp_path / "out.private/tables/occurrences").to_pylist()
    assert {(row["doc_no"], row["cell"]) for row in occurrences} == {
        (no, cell) for no in range(3) for cell in range(1, 41)
    }
    (shard,) = Corpus.open(tmp_path / "out").shards
    inputs = {value for row in rows for value in row.values() if "@" in value}
    assert not inputs & {value for row in shard.read().to_pylist() for value in row.values()}
