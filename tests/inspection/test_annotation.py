"""Samples to label, scores from labels, and estimates without labels, on invented texts."""

from __future__ import annotations

import json
import math
import stat
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import sanitize
from sanitize.cli.main import app
from sanitize.errors import UsageError
from sanitize.inspection import capture_recapture
from sanitize.inspection.annotation import (
    effective_size,
    estimate_missed,
    read_sample,
    sample_for_labels,
    score_labels,
)
from sanitize.inspection.capture_recapture import (
    capture_histories,
    chapman_estimate,
    estimate_total,
)
from sanitize.pipeline.run import index_with_settings
from sanitize.plans.settings import Settings
from sanitize.reporting.confidence_intervals import wilson_interval

DOCUMENTS_WITHOUT_VALUES, DOCUMENTS_WITH_VALUES = 60, 90


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The index of a corpus; half of its documents have no occurrence, some of them are long."""
    base = tmp_path_factory.mktemp("label")
    texts = [f"word{number} " * 500 for number in range(DOCUMENTS_WITHOUT_VALUES)]
    texts += [
        f"Hello é {number}, write to person{number}@example.com or call"
        f" 713-555-01{number % 100:02d}."
        for number in range(DOCUMENTS_WITH_VALUES)
    ]
    pq.write_table(pa.table({"text": texts}), base / "in.parquet")
    index_with_settings(
        [base / "in.parquet"], base / "work", Settings(seed=1, workers=1, rows_per_shard=40)
    )
    return base / "work"


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_sample_has_finds_of_every_kind_and_passages_with_and_without_finds(
    workspace: Path, tmp_path: Path
) -> None:
    result = sample_for_labels(workspace, n=80, out=tmp_path / "a.jsonl")
    rows = read_rows(tmp_path / "a.jsonl")
    assert result.rows == len(rows) == 80
    assert result.strata == {
        "EMAIL_ADDRESS": 20,
        "PHONE_NUMBER": 20,
        "documents with finds": 20,
        "documents without finds": 20,
    }
    assert stat.S_IMODE((tmp_path / "a.jsonl").stat().st_mode) == 0o600
    for row in rows:
        if row["ask"] == "find":
            assert row["right"] is None
            assert row["value"].startswith("person" if row["kind"] == "EMAIL_ADDRESS" else "713-")
            assert row["before"].endswith(
                "write to " if row["kind"] == "EMAIL_ADDRESS" else "or call "
            )
        else:
            assert row["missed"] is None and 0 < len(row["text"]) <= 1500
            assert (row["stratum"] == "documents with finds") == bool(row["found"])
            assert all(
                row["text"][find["start"] : find["end"]] == find["value"] for find in row["found"]
            )
    # the weights of the passages add up to the length of the texts
    weighted_length = sum(
        row["weight"] * len(row["text"])
        for row in rows
        if row["stratum"] == "documents without finds"
    )
    assert weighted_length == pytest.approx(
        sum(len(f"word{number} " * 500) for number in range(DOCUMENTS_WITHOUT_VALUES)), rel=0.01
    )


@pytest.mark.parametrize("n", [1, 2, 3, 5, 7, 81])
def test_sample_has_the_requested_rows_and_reports_empty_strata(
    workspace: Path, tmp_path: Path, n: int
) -> None:
    result = sample_for_labels(workspace, n=n, out=tmp_path / "a.jsonl")
    assert result.rows == len(read_rows(tmp_path / "a.jsonl")) == sum(result.strata.values()) == n
    assert len(result.strata) == min(n, 4) and len(result.empty_strata) == max(0, 4 - n)
    output = CliRunner().invoke(
        app, ["label", str(workspace), "--n", str(n), "--out", str(tmp_path / "b.jsonl")]
    )
    assert output.exit_code == 0 and ("more strata than rows" in output.output) == (n < 4)


def test_sample_of_a_small_corpus_is_as_large_as_possible(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"text": ["", "", "", "nothing", "ann@example.com and bob@example.com", ""]}),
        tmp_path / "in.parquet",
    )
    index_with_settings([tmp_path / "in.parquet"], tmp_path / "work", Settings(seed=1, workers=1))
    for n, rows in ((1, 1), (3, 3), (4, 4), (9, 4)):
        assert sample_for_labels(tmp_path / "work", n=n, out=tmp_path / f"{n}.jsonl").rows == rows
    with pytest.raises(UsageError, match="at least"):
        sample_for_labels(tmp_path / "work", n=0)


def test_the_same_seed_draws_the_same_sample(workspace: Path, tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        sample_for_labels(workspace, n=40, out=tmp_path / name, seed=seed)
    first, same_seed, other_seed = ((tmp_path / name).read_bytes() for name in "abc")
    assert first == same_seed != other_seed


def test_sample_is_written_to_the_workspace_and_never_overwritten(workspace: Path) -> None:
    result = sample_for_labels(workspace, n=4)
    assert result.file == str(workspace / "labels" / "sample.jsonl")
    assert stat.S_IMODE((workspace / "labels").stat().st_mode) == 0o700
    with pytest.raises(UsageError, match="may hold labels"):
        sample_for_labels(workspace, n=4)


def write_labels(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def find_row(kind: str, right: bool | None) -> dict[str, Any]:
    return {"ask": "find", "kind": kind, "right": right}


def passage_row(
    weight: float, found: list[str], missed: list[str] | None, wrong: tuple[int, ...] = ()
) -> dict[str, Any]:
    missed_rows = None if missed is None else [{"kind": kind} for kind in missed]
    return {
        "ask": "passage",
        "weight": weight,
        "found": [{"kind": kind} for kind in found],
        "missed": missed_rows,
        "wrong": list(wrong),
    }


def test_scores_equal_a_manual_calculation(workspace: Path, tmp_path: Path) -> None:
    rows = [find_row("URL", True)] * 8 + [find_row("URL", False)] * 2 + [find_row("URL", None)]
    rows += [
        passage_row(1.0, ["URL"] * 3 + ["IBAN_CODE"], ["URL"], wrong=(0,)),
        passage_row(4.0, ["URL"], []),
        passage_row(9.0, ["URL"], None),
    ]
    result = score_labels(workspace, write_labels(tmp_path / "x", rows))
    url = result.kinds["URL"]
    assert (url.judged, url.right, url.precision, url.precision_interval) == (
        10,
        8,
        0.8,
        wilson_interval(0.8, 10),
    )
    assert (url.found, url.missed) == (3, 1)
    assert url.recall == pytest.approx(6 / 7)
    # right finds weigh 1 + 1 + 4, the missed one 1: the effective sample size of independent spans
    # is 7^2 / (1 + 1 + 16 + 1), less than that of the two documents, whose residuals are 2 - 3 *
    # 6/7 and 4 - 4 * 6/7
    assert (6 / 7) * (1 / 7) / (2 * ((2 - 18 / 7) ** 2 + (4 / 7) ** 2) / 49) > 49 / 19
    assert url.recall_interval == pytest.approx(wilson_interval(6 / 7, 49 / 19))
    assert result.kinds["IBAN_CODE"].recall == 1.0 and result.kinds["IBAN_CODE"].precision is None
    assert (result.rows, result.unlabelled_rows) == (14, 2)


def test_the_interval_of_a_recall_covers_clustered_misses() -> None:
    """Documents of five spans that are all found or all missed, and such in which each span has its
    own luck."""
    rng, covered = np.random.default_rng(5), {"clustered": 0, "independent": 0}
    documents, weights = np.repeat(np.arange(60), 5), np.ones(300)
    for _ in range(300):
        for name, hits in (
            ("clustered", np.repeat(rng.random(60) < 0.8, 5)),
            ("independent", rng.random(300) < 0.8),
        ):
            low, high = wilson_interval(hits.mean(), effective_size(documents, weights, hits)) or (
                0.0,
                1.0,
            )
            covered[name] += low <= 0.8 <= high
    assert all(0.92 <= count / 300 <= 0.99 for count in covered.values()), covered
    assert effective_size(documents, weights, np.ones(300, np.bool_)) == 60


def test_scores_are_in_card_report_and_verify(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With interval and date, until other finders rebuild the index; without labels the command
    that measures recall is there."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")  # 2023-11-14
    out, work = tmp_path / "out", tmp_path / "out.private"
    pq.write_table(
        pa.table({"text": ["to bob.moor@example.com", "or eve.moor@example.com"]}),
        tmp_path / "in.parquet",
    )

    def run(plan: str, **more: Any) -> Any:
        return sanitize.run(tmp_path / "in.parquet", out, plan=plan, seed=1, workers=1, **more)

    def verify_json() -> Any:
        return json.loads(
            CliRunner().invoke(app, ["verify", str(out), "--json"]).stdout.strip().splitlines()[-1]
        )

    assert "`sanitize label WORK` measures it" in run("redact").verdict[-1].text
    assert "sanitize label WORK" in (out / "README.md").read_text()
    found = verify_json()
    assert (found["measured"], found["measure_recall_with"]) == (None, f"sanitize label {work}")

    sample_for_labels(work, n=4)
    rows = read_sample(work / "labels" / "sample.jsonl")
    labelled = [
        row | ({"right": True} if row["ask"] == "find" else {"missed": [{"kind": "PERSON"}]})
        for row in rows
    ]
    scores = score_labels(work, write_labels(tmp_path / "labelled", labelled))
    low, high = scores.kinds["EMAIL_ADDRESS"].recall_interval or ()
    _, missed_high = scores.kinds["PERSON"].recall_interval or ()
    line = (
        f"EMAIL_ADDRESS 1.00 ({math.floor(100 * low) / 100:.2f} to {high:.2f}), PERSON 0.00 (0.00"
        f" to {math.ceil(100 * missed_high) / 100:.2f}); 95 %, 4 labelled rows, scored on"
        " 2023-11-14"
    )
    assert verify_json()["measured"] == {
        "date": "2023-11-14",
        "labelled_rows": 4,
        "kinds": scores.to_dict()["kinds"],
    }
    sanitize.report(out, to=tmp_path / "again.html")
    assert line in (tmp_path / "again.html").read_text() and line not in (
        (out / "report.html").read_text()
    )
    shard = out / "data" / "train-00000-of-00001.parquet"
    bytes_before = shard.read_bytes()
    again = run("redact")  # only the pages change
    assert again.changed and again.verdict[-1].text == line and shard.read_bytes() == bytes_before
    for page in ("README.md", "report.html"):
        text = (out / page).read_text()
        assert line in text and "sanitize label WORK" not in text
    assert not run("redact").changed and verify_json()["measured"]["labelled_rows"] == 4
    # labels of other finders say nothing about these
    assert run("rmft", replace=True).measured is None and verify_json()["measured"] is None


def test_a_drawn_sample_can_be_scored(workspace: Path, tmp_path: Path) -> None:
    sample_for_labels(workspace, n=60, out=tmp_path / "drawn")
    rows = [
        row | ({"right": True} if row["ask"] == "find" else {"missed": []})
        for row in read_rows(tmp_path / "drawn")
    ]
    result = score_labels(workspace, write_labels(tmp_path / "done", rows))
    assert result.unlabelled_rows == 0
    assert {kind: (scores.precision, scores.recall) for kind, scores in result.kinds.items()} == {
        "EMAIL_ADDRESS": (1.0, 1.0),
        "PHONE_NUMBER": (1.0, 1.0),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("secretword\n", "line 1: expected the JSON Lines"),
        ('{"ask": "find", "kind": "URL"}\n', "line 1"),
        ('\n{"ask": "find", "kind": "URL", "right": "secretword"}\n', "line 2"),
        ('{"ask": "find", "kind": "secretword", "right": true}\n', "no such kind"),
        ('{"ask": "find", "kind": "URI", "right": true}\n', "did you mean URL"),
        ('{"ask": "passage", "weight": 0, "found": [], "missed": []}\n', "line 1"),
        ('{"ask": "passage", "weight": 1, "found": [], "missed": "secretword"}\n', "line 1"),
        ('{"ask": "find", "kind": ["secretword"], "right": true}\n', "line 1"),
        *(
            (
                json.dumps(
                    {"ask": "passage", "weight": 1, "found": [{"kind": "URL"}], "missed": []}
                    | change
                )
                + "\n",
                "line 1",
            )
            for change in (
                {"found": [5]},
                {"found": [{}]},
                {"found": [{"kind": ["secretword"]}]},
                {"missed": [5]},
                {"missed": [["secretword"]]},
                {"missed": [{"secretword": "URL"}]},
                {"wrong": 5},
                {"wrong": "0"},
                {"wrong": [1]},
                {"wrong": [-1]},
                {"wrong": [["secretword"]]},
                {"doc_no": "secretword"},
                {"doc_no": 2**70},
                {"weight": float("inf")},
                {"weight": True},
            )
        ),
    ],
)
def test_invalid_line_is_named_and_not_quoted(
    workspace: Path, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "bad").write_text(text, "utf-8")
    with pytest.raises(UsageError, match=message) as caught:
        score_labels(workspace, tmp_path / "bad")
    assert "secretword" not in str(caught.value)


def test_texts_with_other_line_separators_can_be_labelled(tmp_path: Path) -> None:
    """JSON leaves U+0085, U+2028 and U+2029 as they are; they end no line of JSON Lines."""
    pq.write_table(
        pa.table({"text": ["ann@example.com\u2028\u0085\u2029\x0b\x1e then"]}),
        tmp_path / "in.parquet",
    )
    index_with_settings([tmp_path / "in.parquet"], tmp_path / "work", Settings(seed=1, workers=1))
    file = sample_for_labels(tmp_path / "work", n=2).file
    assert (
        score_labels(tmp_path / "work", file).unlabelled_rows == len(read_sample(Path(file))) == 2
    )


@pytest.mark.parametrize(
    ("ask", "change"),
    [
        ("find", {"start": "secretword"}),
        ("find", {"end": 10**6}),
        ("find", {"before": None}),
        ("find", {"right": False, "right_span": 5}),
        ("find", {"right": False, "right_span": {"start": 0, "end": 10**6}}),
        ("passage", {"text": 5}),
        ("passage", {"found": [{"kind": "URL"}]}),
        ("passage", {"found": [{"kind": "URL", "start": 5, "end": 4}]}),
        ("passage", {"added": [{"kind": "URL", "start": -5, "end": 4}]}),
    ],
)
def test_rows_that_cannot_be_shown_are_refused(
    workspace: Path, tmp_path: Path, ask: str, change: dict[str, Any]
) -> None:
    sample_for_labels(workspace, n=4, out=tmp_path / "a.jsonl")
    row = next(row for row in read_rows(tmp_path / "a.jsonl") if row["ask"] == ask)
    (tmp_path / "good").write_text("\ufeff" + json.dumps(row), "utf-8")
    assert len(read_sample(tmp_path / "good")) == 1
    (tmp_path / "bad").write_text(json.dumps(row | change), "utf-8")
    with pytest.raises(UsageError, match="row 1 lacks something") as caught:
        read_sample(tmp_path / "bad")
    assert "secretword" not in str(caught.value)


def test_invalid_workspaces_and_files_are_refused(workspace: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not the private folder"):
        sample_for_labels(tmp_path)
    with pytest.raises(UsageError, match="cannot be read"):
        score_labels(workspace, tmp_path / "nowhere")


# --------------------------------------------------------------------------- without any labels


def copy_index_with_share(workspace: Path, folder: Path, keep: float, finder: str) -> Path:
    """A copy of an index as another finder might have built it: a share of the addresses, each one
    character longer, and no numbers."""
    import shutil

    shutil.copytree(workspace, folder)
    for path in sorted((folder / "tables" / "occurrences").glob("*.parquet")):
        rows = pl.read_parquet(path).with_columns(pl.col("kind", "finder").cast(pl.String))
        rows = rows.filter(pl.col("kind") == "EMAIL_ADDRESS", pl.col("doc_no") % 100 < 100 * keep)
        rows.with_columns(finder=pl.lit(finder), end=pl.col("end") + 1).write_parquet(path)
    return folder


def test_two_indexes_estimate_what_both_missed(workspace: Path, tmp_path: Path) -> None:
    second_index = copy_index_with_share(workspace, tmp_path / "other", 0.8, "ner")
    result = estimate_missed(workspace, second_index)
    estimate = result.estimates["EMAIL_ADDRESS"]
    second_count = sum(
        number % 100 < 80
        for number in range(
            DOCUMENTS_WITHOUT_VALUES, DOCUMENTS_WITHOUT_VALUES + DOCUMENTS_WITH_VALUES
        )
    )
    assert (estimate.first, estimate.second, estimate.both) == (
        DOCUMENTS_WITH_VALUES,
        second_count,
        second_count,
    )
    # the first found all that the second found: that says nothing of what both missed
    assert estimate.estimate is None and result.list_obstacles() == [
        ("no estimate of EMAIL_ADDRESS", estimate.no_estimate),
        ("no estimate of PHONE_NUMBER", "only one index has any"),
    ]
    assert "independently" in result.assumption
    with pytest.raises(UsageError, match="the same finders"):
        estimate_missed(workspace, workspace)


def test_indexes_of_two_corpora_are_refused(workspace: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["ann@example.com"]}), tmp_path / "in.parquet")
    index_with_settings([tmp_path / "in.parquet"], tmp_path / "work", Settings(seed=1, workers=1))
    with pytest.raises(UsageError, match="other documents"):
        estimate_missed(workspace, tmp_path / "work")


def test_chapman_estimate_equals_a_manual_calculation() -> None:
    estimate = chapman_estimate(20, 15, 10)
    assert estimate.estimate == pytest.approx(21 * 16 / 11 - 1)
    assert estimate.missed_by_both == pytest.approx(21 * 16 / 11 - 1 - 25)


@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        ((0, 4, 0), "only one index"),
        ((0, 0, 0), "only one index"),
        ((1000, 1, 1), "index 1 found everything that index 2 found"),
        ((9, 90, 9), "index 2 found everything that index 1 found"),
        ((50, 60, 9), "fewer than 10"),
    ],
)
def test_two_indexes_that_estimate_nothing_say_why(
    counts: tuple[int, int, int], reason: str
) -> None:
    estimate = chapman_estimate(*counts)
    assert estimate.estimate is None and estimate.missed_by_both is None
    assert reason in str(estimate.no_estimate)


@pytest.mark.parametrize("counts", [(4, 4, 5), (4, 4, -1), (4, 4, float("nan"))])
def test_impossible_counts_are_refused(counts: tuple[int, int, int]) -> None:
    with pytest.raises(AssertionError):
        chapman_estimate(*counts)


SPAN_COLUMNS = ["doc_no", "cell", "start", "end"]


def span_table(*rows: tuple[int, int, int]) -> pl.DataFrame:
    return pl.DataFrame(
        [(doc_no, 0, start, stop) for doc_no, start, stop in rows],
        schema=dict.fromkeys(SPAN_COLUMNS, pl.Int64),
        orient="row",
    )


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        ([[], [], []], {}),
        # an adjacent span is another entity
        ([[(0, 1, 5)], [(0, 3, 9)], [(0, 9, 12)]], {0b011: 1, 0b100: 1}),
        # split by one list, one entity for all
        ([[(0, 1, 5)], [(1, 1, 5)], [(0, 2, 3), (0, 3, 4)]], {0b101: 1, 0b010: 1}),
        ([[(0, 1, 9), (0, 2, 3)], [(0, 8, 12)], [(0, 5, 6)]], {0b111: 1}),
    ],
)
def test_capture_histories(
    lists: list[list[tuple[int, int, int]]], expected: dict[int, int]
) -> None:
    assert capture_histories([span_table(*rows) for rows in lists]) == expected


CELLS = [0b001, 0b010, 0b100, 0b110, 0b101, 0b011, 0b111]


def test_a_log_linear_model_recovers_what_it_assumes() -> None:
    """Tables generated by the model itself: three finders, any two of which agree more, or less,
    than by chance."""
    for extra in ((0.0, 0.0, 0.0), (1.5, 0.0, 0.0), (1.2, -0.8, 0.5)):
        histories = {
            bits: np.exp(
                sum((0.4, 0.2, -0.3)[number] for number in range(3) if bits >> number & 1)
                + sum(
                    extra[number]
                    for number, pair in enumerate((0b011, 0b101, 0b110))
                    if bits & pair == pair
                )
            )
            for bits in [0, *CELLS]
        }
        whole = sum(histories.values())
        counts = {bits: round(1_000_000 * histories[bits] / whole) for bits in CELLS}
        result = estimate_total(counts, 3)
        assert result.estimate == pytest.approx(1_000_000, rel=1e-4)
        assert result.interval[0] < 1_000_000 < result.interval[1]
        assert result.missed_by_all == pytest.approx(result.estimate - result.found)


@given(st.lists(st.integers(10, 3_000), min_size=7, max_size=7))
@settings(max_examples=60, deadline=None)
def test_an_interval_is_not_below_the_found_and_has_the_estimate(cells: list[int]) -> None:
    result = estimate_total(dict(zip(CELLS, cells, strict=True)), 3)
    if result.no_estimate:
        assert "easily" in result.no_estimate and result.interval is None
    else:
        low, high = result.interval
        assert sum(cells) == result.found <= low <= result.estimate < high + 1


def test_the_test_of_the_model_is_fishers_for_two_lists() -> None:
    """With one cell of either kind more, of 1, the table has the same distribution as Fisher's:
    the tail that an interval inverts equals the sum over the hypergeometric distribution."""
    for missed, only_first, only_second, both in ((9, 4, 6, 3), (0, 5, 2, 8), (40, 12, 20, 7)):
        margin, column = only_first + both, only_second + both
        whole = missed + margin + only_second
        weights = [
            math.comb(margin, number) * math.comb(whole - margin, column - number)
            if number <= margin and number <= column and column - number <= whole - margin
            else 0
            for number in range(whole + 1)
        ]
        expected = (sum(weights[:both]) + weights[both] / 2) / sum(weights)
        tail = capture_recapture.lower_tail(
            np.array([only_first, only_second], np.float64), np.array([both, missed], np.float64)
        )
        assert tail == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("histories", "count", "reason"),
    [
        ({}, 3, "only one index"),
        ({0b001: 5}, 3, "only one index"),
        ({0b111: 40}, 3, "index 2 found everything that index 1 found"),
        ({0b001: 50, 0b100: 30, 0b101: 40}, 3, "2 indexes have any"),
        # the third found nothing that the first had not found
        (
            {0b001: 90, 0b010: 80, 0b011: 70, 0b101: 60, 0b111: 50},
            3,
            "index 1 found everything that index 3 found",
        ),
        (dict(zip(CELLS, [50, 50, 50, 9, 50, 50, 50], strict=True)), 3, "fewer than 10"),
        (dict(zip(CELLS, [99, 99, 99, 33, 33, 33, 200], strict=True)), 3, "all three find"),
        (dict.fromkeys(range(1, 16), 20), 4, "4 indexes have any"),
    ],
)
def test_three_indexes_that_estimate_nothing_say_why(
    histories: dict[int, int], count: int, reason: str
) -> None:
    estimate = estimate_total(histories, count)
    assert estimate.estimate is None and estimate.interval is None
    assert reason in str(estimate.no_estimate) and estimate.found == sum(histories.values())


def test_three_indexes_estimate_what_all_missed(workspace: Path, tmp_path: Path) -> None:
    other_indexes = [
        copy_index_with_share(workspace, tmp_path / name, share, name)
        for name, share in (("ner", 0.8), ("presidio", 0.5))
    ]
    result = estimate_missed(workspace, other_indexes)
    estimate = result.estimates["EMAIL_ADDRESS"]
    found_counts = [
        sum(
            number % 100 < percent
            for number in range(
                DOCUMENTS_WITHOUT_VALUES, DOCUMENTS_WITHOUT_VALUES + DOCUMENTS_WITH_VALUES
            )
        )
        for percent in (80, 50)
    ]
    assert (
        estimate.found_by_list == [DOCUMENTS_WITH_VALUES, *found_counts]
        and estimate.found == DOCUMENTS_WITH_VALUES
    )
    assert "index 1 found everything that index 2 found" in str(estimate.no_estimate)
    assert result.estimates["PHONE_NUMBER"].no_estimate == "only one index has any"
    assert "alike" in result.assumption
    command = [
        "label",
        str(workspace),
        "--against",
        str(other_indexes[0]),
        "--against",
        str(other_indexes[1]),
    ]
    output = CliRunner().invoke(app, command)
    assert (
        output.exit_code == 0
        and "no estimate of EMAIL_ADDRESS: index 1 found everything" in output.output
        and "index 3  presidio" in output.output
    )
    with pytest.raises(UsageError, match="the same finders"):
        estimate_missed(workspace, [other_indexes[0], other_indexes[0]])


# ---------------------------------------------------------------------------------- the command


def test_command_prints_no_text(workspace: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    drawn = runner.invoke(app, ["label", str(workspace), "--n", "20", "--out", str(tmp_path / "s")])
    assert (
        drawn.exit_code == 0
        and "documents without finds" in drawn.output
        and "example.com" not in drawn.output
    )
    scores = runner.invoke(app, ["label", str(workspace), "--score", str(tmp_path / "s"), "--json"])
    assert json.loads(scores.output)["unlabelled_rows"] == 20
    second_index = copy_index_with_share(workspace, tmp_path / "other", 0.5, "ner")
    estimate = runner.invoke(app, ["label", str(workspace), "--against", str(second_index)])
    assert "no estimate of PHONE_NUMBER: only one index has any" in estimate.output
    for result in (
        score_labels(workspace, tmp_path / "s"),
        estimate_missed(workspace, second_index),
    ):
        assert "example.com" not in repr(result) and "sanitize label" in repr(result)
