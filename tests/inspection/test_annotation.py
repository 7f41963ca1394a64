"""Samples to label, scores from labels, and estimates without labels, on invented texts."""

from __future__ import annotations

import json
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
from sanitize.inspection.annotation import (
    effective_size,
    estimate_missed,
    read_sample,
    sample_for_labels,
    score_labels,
)
from sanitize.inspection.capture_recapture import (
    LowerBound,
    capture_histories,
    chao_lower_bound,
    chapman_estimate,
    estimate_total,
    loglinear_estimate,
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
    line = (
        f"EMAIL_ADDRESS 1.00 ({low:.2f} to {high:.2f}), PERSON 0.00 (0.00 to"
        f" {(scores.kinds['PERSON'].recall_interval or ())[1]:.2f}); 95 %, 4 labelled rows, scored"
        " on 2023-11-14"
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
    assert estimate.estimate == pytest.approx(
        DOCUMENTS_WITH_VALUES
    ) and estimate.missed_by_both == pytest.approx(0.0)
    assert (
        result.one_finder_only == ["PHONE_NUMBER"]
        and result.estimates["PHONE_NUMBER"].estimate is None
    )
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
    half_width = 1.959963984540054 * (21 * 16 * 10 * 5 / (11**2 * 12)) ** 0.5
    assert estimate.interval == pytest.approx(
        [max(25, 21 * 16 / 11 - 1 - half_width), 21 * 16 / 11 - 1 + half_width]
    )
    assert chapman_estimate(0, 4, 0).estimate is None


@given(st.integers(1, 400), st.integers(1, 400), st.data())
@settings(max_examples=60, deadline=None)
def test_estimate_is_never_below_the_found_count(
    first: int, second: int, data: st.DataObject
) -> None:
    both = data.draw(st.integers(0, min(first, second)))
    estimate = chapman_estimate(first, second, both)
    assert estimate.missed_by_both >= 0
    assert first + second - both <= estimate.interval[0] <= estimate.interval[1]


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


def test_chao_bound_equals_a_manual_calculation() -> None:
    # Chao 1987: S + (t - 1) / t * f1^2 / (2 f2)
    assert chao_lower_bound(100, 30, 20, 3).missed_at_least == pytest.approx(2 / 3 * 30**2 / 40)
    assert chao_lower_bound(10, 6, 0, 2).missed_at_least == pytest.approx(1 / 2 * 6 * 5 / 2)
    low, high = chao_lower_bound(100, 30, 20, 3).lower_bound_interval
    assert 100 < low < 115 < high
    assert chao_lower_bound(7, 0, 7, 3) == LowerBound(
        lower_bound=7, lower_bound_interval=[7, 7], missed_at_least=0
    )


def test_a_log_linear_model_recovers_what_it_assumes() -> None:
    """Tables generated by the model itself: 10,000 entities, three finders; the first two agree
    more than by chance."""
    cells = [(a, b, c) for a in (1, 0) for b in (1, 0) for c in (1, 0)]
    for extra, dependent in ((0.0, []), (1.5, [[0, 1]])):
        weights = np.array(
            [np.exp(0.4 * a + 0.2 * b - 0.3 * c + extra * a * b) for a, b, c in cells]
        )
        counts = 10_000 * weights / weights.sum()
        result = loglinear_estimate(counts[:-1])  # type: ignore[arg-type]
        assert result.loglinear == pytest.approx(10_000, rel=1e-4)
        assert result.dependent_pairs == dependent
        assert result.loglinear_interval[0] < 10_000 < result.loglinear_interval[1]
    # drawn tables: the interval has the noise of the unseen cell, too
    rng, weights = (
        np.random.default_rng(1),
        np.array([np.exp(0.8 * a + 0.4 * b - 0.2 * c) for a, b, c in cells]),
    )
    intervals = [
        loglinear_estimate(rng.multinomial(500, weights / weights.sum())[:-1]).loglinear_interval
        for _ in range(200)
    ]
    assert 0.85 <= np.mean([low <= 500 <= high for low, high in intervals]) <= 0.99
    # Chapman's estimate assumes independence: it is too low for two finders that agree
    first, second, both = (
        counts[[number for number, cell in enumerate(cells) if test(cell)]].sum()
        for test in (lambda cell: cell[0], lambda cell: cell[1], lambda cell: cell[0] and cell[1])
    )
    assert chapman_estimate(int(first), int(second), int(both)).estimate < 9_500


def test_kinds_that_few_lists_found() -> None:
    assert estimate_total({0b001: 5}, 3).lower_bound is None
    # the second list found none: it is ignored for this kind
    estimate = estimate_total({0b001: 5, 0b100: 3, 0b101: 4}, 3)
    assert estimate.lower_bound == pytest.approx(12 + 1 / 2 * 64 / 8) and estimate.loglinear is None
    assert estimate_total({}, 3).found == 0
    assert estimate_total({0b111: 4}, 3).loglinear is None


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
    assert (
        estimate.lower_bound >= DOCUMENTS_WITH_VALUES
        and estimate.found_once == DOCUMENTS_WITH_VALUES - found_counts[0]
    )
    assert result.one_finder_only == ["PHONE_NUMBER"] and "alike" in result.assumption
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
        and "at least" in output.output
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
    assert "only one index has any PHONE_NUMBER" in estimate.output
    for result in (
        score_labels(workspace, tmp_path / "s"),
        estimate_missed(workspace, second_index),
    ):
        assert "example.com" not in repr(result) and "sanitize label" in repr(result)
