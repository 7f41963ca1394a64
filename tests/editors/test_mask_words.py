"""Every listed word becomes the mask and every other byte is kept: compared with a plain reference
implementation."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sanitize.pipeline.run import run_with_settings
from sanitize.pipeline.run_results import RunResult
from sanitize.plans.plan import Plan, load_plan
from sanitize.plans.settings import Settings
from sanitize.storage.corpus import Corpus
from tests.support import reference_words

KINDS = [
    "EMAIL_ADDRESS",
    "PHONE_NUMBER",
    "IP_ADDRESS",
    "CREDIT_CARD",
    "IBAN_CODE",
    "US_SSN",
    "MESSAGE_ID",
    "URL",
]
DIRECT_AND_INDIRECT = """
[find]
kinds = {kinds}
[[edit]]
use = "mask_words"
kinds = {kinds}
reasons = ["direct", "indirect"]
mask = {mask}
[blacklist]
k = {k}
n = {n}
"""
ONLY_RARE = """
leave = {kinds}
[find]
kinds = {kinds}
[[edit]]
use = "mask_words"
reasons = ["indirect"]
[blacklist]
k = {k}
n = {n}
direct = false
"""


def write_plan(folder: Path, text: str, **changes: Any) -> Plan:
    fields = {"kinds": json.dumps(KINDS), "k": 2, "n": 1, "mask": '"X"'} | changes
    (folder / "plan.toml").write_text(text.format(**fields), "utf-8")
    return load_plan(str(folder / "plan.toml"))


def reference_mask(
    text: str, rows: set[tuple[str, ...]], spans: Sequence[tuple[int, int]], mask: str
) -> str:
    """The text with all words of listed n-grams and of spans masked, and spans without a word as
    one mask."""
    words = reference_words(text)
    masked = {
        index
        for index, (_, first, last) in enumerate(words)
        if any(first < stop and last > start for start, stop in spans)
    }
    for row in rows:
        for index in range(len(words) - len(row) + 1):
            if tuple(word for word, _, _ in words[index : index + len(row)]) == row:
                masked.update(range(index, index + len(row)))
    cuts = [(words[index][1], words[index][2]) for index in masked]
    cuts += [
        (start, stop)
        for start, stop in spans
        if not any(first < stop and last > start for _, first, last in words)
    ]
    for start, stop in sorted(cuts, reverse=True):
        text = text[:start] + mask + text[stop:]
    return text


def run_and_compare(
    folder: Path,
    rows: Sequence[dict[str, Any]],
    plan: Plan,
    mask: str,
    size: int = 50_000,
    **options: Any,
) -> RunResult:
    """Run a plan, and compare every text of OUT with the reference implementation."""
    schema = pa.schema(
        [("user_id", pa.string()), ("text", pa.string()), ("more", pa.list_(pa.string()))]
    )
    pq.write_table(pa.Table.from_pylist(list(rows), schema), folder / "in.parquet")
    summary = run_with_settings(
        [folder / "in.parquet"],
        folder / "out",
        plan,
        folder / "work",
        Settings(seed=1, workers=1, rows_per_shard=size, **options),
    )
    run_folder = folder / "work" / "runs" / summary.run_hash
    table = pq.read_table(run_folder / "vault" / "blacklist" / "00000.parquet")
    reasons = plan.editors[0].reasons
    listed = {
        tuple(row["ngram"].split(" ")) for row in table.to_pylist() if row["reason"] in reasons
    }
    spans: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for path in (
        sorted((folder / "work" / "tables" / "occurrences").glob("*.parquet"))
        if plan.editors[0].kinds
        else ()
    ):
        for row in pq.read_table(path).to_pylist():
            spans.setdefault((row["doc_no"], row["cell"]), []).append((row["start"], row["end"]))
    out = Corpus.open(folder / "out").table().to_pylist()
    assert len(out) == len(rows)
    for no, (before, after) in enumerate(zip(rows, out, strict=True)):
        cells = [before["text"], *(before["more"] or [])]
        got = [after["text"], *(after["more"] or [])]
        expected = [
            None if text is None else reference_mask(text, listed, spans.get((no, cell), ()), mask)
            for cell, text in enumerate(cells)
        ]
        assert got == expected
    return summary


LETTERS = "aBéßΣςж一ひ²\u0301 .,-'\n\u00a0😀\0\x01"
WORDS = st.sampled_from(
    [
        "the",
        "The",
        "ann",
        "bob",
        "Étude",
        "ΟΔΟΣ",
        "don't",
        "bob@example.com",
        "Bob, example: com",
        "ébob@example.com",
        "555-0100",
        "713-555-0123",
        "10.0.0.1",
        "::",
        "http://example.com/ann",
    ]
)
TEXTS = st.lists(WORDS, max_size=8).map(" ".join) | st.text(st.sampled_from(LETTERS), max_size=12)
USERS = st.sampled_from(["u1", "u2", "u3"])
ROWS = st.lists(
    st.fixed_dictionaries(
        {"user_id": USERS, "text": TEXTS | st.none(), "more": st.lists(TEXTS, max_size=2)}
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.slow
@given(
    ROWS,
    st.integers(2, 3),
    st.integers(1, 3),
    st.sampled_from(["X", "$0", "ⅹ_"]),
    st.integers(2, 9),
)
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
def test_direct_and_indirect_words_are_masked(
    rows: list[dict[str, Any]], k: int, n: int, mask: str, size: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run_and_compare(
            folder,
            rows,
            write_plan(folder, DIRECT_AND_INDIRECT, k=k, n=n, mask=json.dumps(mask)),
            mask,
            size,
        )


@given(ROWS, st.integers(2, 3), st.integers(1, 3))
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
def test_only_rare_words_are_masked(rows: list[dict[str, Any]], k: int, n: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run_and_compare(folder, rows, write_plan(folder, ONLY_RARE, k=k, n=n), "X")


def test_found_values_are_masked_without_users(tmp_path: Path) -> None:
    """Only values that were found, wherever they occur, also in documents without users."""
    rows = [
        {
            "user_id": None,
            "text": "Write to Bob.Mann@example.com today",
            "more": ["bob mann, EXAMPLE com"],
        },
        {"user_id": None, "text": "Bob Mann of example is not there", "more": []},
    ]
    summary = run_and_compare(tmp_path, rows, load_plan("mask_words"), "X", verify="full")
    out = Corpus.open(tmp_path / "out").table().to_pylist()
    assert out[0]["text"] == "Write to X.X@X.X today" and out[0]["more"] == ["X X, X X"]
    assert out[1]["text"] == rows[1]["text"]
    assert (
        summary.leaks == 0 and summary.publishable and summary.replaced == summary.occurrences == 1
    )
    assert summary.to_dict()["blacklist"] == {
        "k": 1,
        "n": 1,
        "direct": True,
        "documents": 2,
        "documents_without_user": 2,
        "words": 18,
        "columns": ["text", "more"],
        "listed": [{"n": 4, "reason": "direct", "ngrams": 1}],
        "masked_words": 4,
    }
