"""Every number that card and report print of the privacy ledger, counted again from the ledger of
the private folder and from the input."""

from __future__ import annotations

import json
import math
import statistics
import unicodedata
from collections import Counter
from pathlib import Path

import duckdb
import pytest

import sanitize
from sanitize.plans.plan import load_plan
from tests.masked_models import write_bert
from tests.reporting.corpus_recount import write_mails_of_users
from tests.reporting.printed_places import find_card_places, find_report_places

EPSILON, BOUND = 20, 2.0


LEDGER = "Privacy ledger"


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Input, output, and the ledger in the private folder."""
    folder = tmp_path_factory.mktemp("ledger")
    path, _ = write_mails_of_users(folder)
    model = write_bert(folder / "model")
    plan = load_plan("dp_mlm", [f'edit.0.model="{model}"', f"edit.0.epsilon={EPSILON}.0"])
    result = sanitize.run(path, folder / "out", plan=plan, seed=1, workers=1)
    return path, folder / "out", folder / "out.private" / "runs" / result.run_hash / "ledger"


def find_ledger_numbers(out: Path) -> dict[str, list[str]]:
    """By the clause of a page below the heading of the ledger, or beside it on the report: its
    numbers as they are printed."""
    places = [
        *find_card_places((out / "README.md").read_text()),
        *find_report_places((out / "report.html").read_text()),
    ]
    return {
        clause: numbers
        for place in places
        for clause, numbers in place.clauses()
        if LEDGER in place.path or " / epsilon " in clause or "in the document with" in clause
    }


def test_numbers_of_the_privacy_ledger(output: tuple[Path, Path, Path]) -> None:
    path, out, ledger = output
    rows = duckdb.sql(
        f"SELECT doc_no, sum(unit_count)::BIGINT, max(epsilon_per_unit), min(epsilon_per_unit)"
        f" FROM '{ledger}/*.parquet' GROUP BY doc_no ORDER BY doc_no"
    ).fetchall()
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [doc_no for doc_no, *_ in rows] == list(range(len(records)))
    assert {one for _, _, *epsilons in rows for one in epsilons} == {EPSILON}
    units = [count for _, count, *_ in rows]
    by_user: Counter[str] = Counter()
    for record, count in zip(records, units, strict=True):
        by_user[record["user_id"]] += EPSILON * count
    most, half, total = max(units), statistics.median_low(units), sum(units)
    document = f"{EPSILON * most:,}"
    model = json.loads((out / "manifest.json").read_text())["plan"]["edit"][0]["model_sha256"]
    sentences = {
        "epsilon # per token x # tokens = # per document at most (half of the documents: # tokens"
        " or fewer": [str(EPSILON), f"{most:,}", document, f"{half:,}"],
        "#): in practice no protection at document level": [f"{EPSILON * half:,}"],
        "All documents of one user add up to # at most": [f"{max(by_user.values()):,}"],
        "clipped to -2.0 to # (invented constants)": [str(BOUND)],
        "model #": [model[:16]],
    }
    report = f"report / {LEDGER} / dp_mlm"
    assert find_ledger_numbers(out) == {
        **{f"card / {LEDGER} / {clause}": numbers for clause, numbers in sentences.items()},
        **{f"{report} / {clause}": numbers for clause, numbers in sentences.items()},
        f"{report} / A small epsilon protects well: at # the probabilities differ by up to #"
        " times": ["1", f"{math.e:.1f}"],
        f"{report} / at # by up to # times": ["10", f"{round(math.exp(10), -3):,.0f}"],
        f"{report} / documents / #": [str(len(records))],
        f"{report} / units / #": [f"{total:,}"],
        f"{report} / epsilon of a unit / #": [f"{EPSILON:.1f}"],
        f"{report} / of a document, mean / #": [f"{EPSILON * total / len(records):,.1f}"],
        f"{report} / of a document, maximum / #": [f"{EPSILON * most:,.1f}"],
        "report / epsilon # for each token": [f"{EPSILON:.1f}"],
        "report / # in the document with the most": [f"{EPSILON * most:,.1f}"],
    }


def test_each_word_of_a_text_is_a_unit(output: tuple[Path, Path, Path]) -> None:
    """A word: letters, marks and digits without another sign between them."""
    path, _, ledger = output
    counts = duckdb.sql(
        f"SELECT sum(unit_count)::BIGINT FROM '{ledger}/*.parquet' GROUP BY doc_no ORDER BY doc_no"
    ).fetchall()
    texts = [json.loads(line)["text"] for line in path.read_text().splitlines()]
    words = [
        "".join(sign if unicodedata.category(sign)[0] in "LMN" else " " for sign in text).split()
        for text in texts
    ]
    assert [count for (count,) in counts] == [len(one) for one in words]
