"""What a document's text depends on with an id column: `surrogates` and `redact` replace what the
finders find in it in the same way for any other documents; only places that the sweep of the leak
check removes depend on them."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path

import pytest

import sanitize
from sanitize.storage.corpus import Corpus

# spellings of one value: found by a finder alone, and found only if the corpus contains the value
# in the first form
PLAIN = (
    "ann.roe@example.com",
    "713-555-0123",
    "/O=EXAMPLE/OU=NA/CN=RECIPIENTS/CN=AROE4711",
    "192.0.2.7",
)
ONLY_SWEPT = tuple(base64.b64encode(f"it is {value} here".encode()).decode() for value in PLAIN)
WORDS = ("please", "call", "or", "write to", "Reply by Friday.", "see")


def build_rows(seed: int) -> list[dict[str, str]]:
    """Documents in which each value occurs plain in some and only in an unfound spelling in
    others."""
    draws = random.Random(seed)
    rows = []
    for number in range(14):
        pieces = [draws.choice(WORDS) for _ in range(3)]
        for plain, other in zip(PLAIN, ONLY_SWEPT, strict=True):
            if draws.random() < 0.5:
                pieces.append(draws.choice((plain, other)))
        draws.shuffle(pieces)
        rows.append({"doc_id": f"d{number}", "text": " ".join(pieces)})
    return rows


def run_rows(
    folder: Path, name: str, rows: list[dict[str, str]], plan: str
) -> tuple[dict[str, str], set[str]]:
    """The texts of the output, and the ids of the documents in which something was swept."""
    source = folder / f"{name}.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    sanitize.run([source], folder / name, plan=plan, seed=5, workers=1, id_column="doc_id")
    swept = (
        sanitize.sql(folder / f"{name}.private", "SELECT DISTINCT doc_no FROM swept")
        .to_series()
        .to_list()
    )
    texts = {
        row["doc_id"]: row["text"]
        for shard in Corpus.open(folder / name).shards
        for row in shard.read().to_pylist()
    }
    return texts, {rows[doc_no]["doc_id"] for doc_no in swept}


@pytest.mark.slow
@pytest.mark.parametrize(("plan", "seed"), [("redact", 1), ("surrogates", 2), ("redact", 3)])
def test_only_swept_places_depend_on_other_documents(tmp_path: Path, plan: str, seed: int) -> None:
    rows = build_rows(seed)
    some = random.Random(seed).sample(rows, 3)
    all_texts, swept_in_all = run_rows(tmp_path, "all", rows, plan)
    some_texts, swept_in_some = run_rows(tmp_path, "some", some, plan)
    reversed_texts, _ = run_rows(tmp_path, "reversed", rows[::-1], plan)
    # the order of documents is of no influence, for swept places neither
    assert reversed_texts == all_texts
    unswept = some_texts.keys() - swept_in_all - swept_in_some
    assert {doc_id: some_texts[doc_id] for doc_id in unswept} == {
        doc_id: all_texts[doc_id] for doc_id in unswept
    }
    assert swept_in_all, "nothing was swept: this tests half of the promise"


def test_a_spelling_that_no_finder_finds_is_removed_where_the_corpus_has_its_value(
    tmp_path: Path,
) -> None:
    alone = [{"doc_id": "d0", "text": f"write to {ONLY_SWEPT[0]} today"}]
    texts, _ = run_rows(tmp_path, "alone", alone, "redact")
    with_plain, swept = run_rows(
        tmp_path, "both", [*alone, {"doc_id": "d1", "text": PLAIN[0]}], "redact"
    )
    assert texts["d0"] == alone[0]["text"]
    assert swept == {"d0"} and ONLY_SWEPT[0] not in with_plain["d0"]
    assert with_plain["d0"].startswith("write to ") and with_plain["d0"].endswith(" today")
