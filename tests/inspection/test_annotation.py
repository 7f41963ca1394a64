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
from sanitize.inspection.annotation import label, wilson_interval
from sanitize.inspection.capture_recapture import capture_histories, chao_lower_bound, chapman_estimate, estimate_total, loglinear_estimate
from sanitize.plans.settings import Settings

PLAIN, DENSE = 60, 90


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The index of a corpus; half of its documents have no occurrence, some of them are long."""
    base = tmp_path_factory.mktemp("label")
    texts = [f"word{number} " * 500 for number in range(PLAIN)]
    texts += [f"Hello é {number}, write to person{number}@example.com or call 713-555-01{number % 100:02d}." for number in range(DENSE)]
    pq.write_table(pa.table({"text": texts}), base / "in.parquet")
    sanitize.find([base / "in.parquet"], base / "work", Settings(seed=1, workers=1, rows_per_shard=40))
    return base / "work"


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_sample_has_finds_of_every_kind_and_passages_of_both_sorts(work: Path, tmp_path: Path) -> None:
    told = label(work, n=80, out=tmp_path / "a.jsonl")
    rows = rows_of(tmp_path / "a.jsonl")
    assert told["rows"] == len(rows) == 80
    assert told["strata"] == {"EMAIL_ADDRESS": 20, "PHONE_NUMBER": 20, "documents with finds": 20, "documents without finds": 20}
    assert stat.S_IMODE((tmp_path / "a.jsonl").stat().st_mode) == 0o600
    for row in rows:
        if row["ask"] == "find":
            assert row["right"] is None
            assert row["value"].startswith("person" if row["kind"] == "EMAIL_ADDRESS" else "713-")
            assert row["before"].endswith("write to " if row["kind"] == "EMAIL_ADDRESS" else "or call ")
        else:
            assert row["missed"] is None and 0 < len(row["text"]) <= 1500
            assert (row["stratum"] == "documents with finds") == bool(row["found"])
            assert all(row["text"][one["start"] : one["end"]] == one["value"] for one in row["found"])
    # each passage stands for its share of the texts
    plain = sum(row["weight"] * len(row["text"]) for row in rows if row["stratum"] == "documents without finds")
    assert plain == pytest.approx(sum(len(f"word{number} " * 500) for number in range(PLAIN)), rel=0.01)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 7, 81])
def test_a_sample_has_the_rows_asked_for_and_names_the_strata_it_lacks(work: Path, tmp_path: Path, n: int) -> None:
    told = label(work, n=n, out=tmp_path / "a.jsonl")
    assert told["rows"] == len(rows_of(tmp_path / "a.jsonl")) == sum(told["strata"].values()) == n
    assert len(told["strata"]) == min(n, 4) and len(told["empty_strata"]) == max(0, 4 - n)
    shown = CliRunner().invoke(app, ["label", str(work), "--n", str(n), "--out", str(tmp_path / "b.jsonl")])
    assert shown.exit_code == 0 and ("more strata than rows" in shown.output) == (n < 4)


def test_a_sample_of_a_small_corpus_with_empty_documents_is_as_large_as_it_can_be(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["", "", "", "nothing", "ann@example.com and bob@example.com", ""]}), tmp_path / "in.parquet")
    sanitize.find([tmp_path / "in.parquet"], tmp_path / "work", Settings(seed=1, workers=1))
    for n, rows in ((1, 1), (3, 3), (4, 4), (9, 4)):
        assert label(tmp_path / "work", n=n, out=tmp_path / f"{n}.jsonl")["rows"] == rows
    with pytest.raises(UsageError, match="at least"):
        label(tmp_path / "work", n=0)


def test_the_same_seed_draws_the_same_sample(work: Path, tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        label(work, n=40, out=tmp_path / name, seed=seed)
    one, two, three = ((tmp_path / name).read_bytes() for name in "abc")
    assert one == two != three


def test_a_sample_lies_in_work_and_is_never_written_over(work: Path) -> None:
    told = label(work, n=4)
    assert told["file"] == str(work / "labels" / "sample.jsonl")
    assert stat.S_IMODE((work / "labels").stat().st_mode) == 0o700
    with pytest.raises(UsageError, match="may hold labels"):
        label(work, n=4)


def labelled(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def find(kind: str, right: bool | None) -> dict[str, Any]:
    return {"ask": "find", "kind": kind, "right": right}


def passage(weight: float, found: list[str], missed: list[str] | None, wrong: tuple[int, ...] = ()) -> dict[str, Any]:
    told = None if missed is None else [{"kind": kind} for kind in missed]
    return {"ask": "passage", "weight": weight, "found": [{"kind": kind} for kind in found], "missed": told, "wrong": list(wrong)}


def test_scores_are_those_by_hand(work: Path, tmp_path: Path) -> None:
    rows = [find("URL", True)] * 8 + [find("URL", False)] * 2 + [find("URL", None)]
    rows += [passage(1.0, ["URL"] * 3 + ["IBAN_CODE"], ["URL"], wrong=(0,)), passage(4.0, ["URL"], []), passage(9.0, ["URL"], None)]
    told = label(work, score=labelled(tmp_path / "x", rows))
    url = told["kinds"]["URL"]
    assert (url["judged"], url["right"], url["precision"], url["precision_interval"]) == (10, 8, 0.8, wilson_interval(0.8, 10))
    # right finds weigh 1 + 1 + 4, the missed one 1; their worth is 7^2 / (1 + 1 + 16 + 1)
    assert (url["found"], url["missed"]) == (3, 1)
    assert url["recall"] == pytest.approx(6 / 7)
    assert url["recall_interval"] == pytest.approx(wilson_interval(6 / 7, 49 / 19))
    assert told["kinds"]["IBAN_CODE"]["recall"] == 1.0 and told["kinds"]["IBAN_CODE"]["precision"] is None
    assert (told["rows"], told["unlabelled_rows"]) == (14, 2)


def test_a_drawn_sample_can_be_scored(work: Path, tmp_path: Path) -> None:
    label(work, n=60, out=tmp_path / "drawn")
    rows = [row | ({"right": True} if row["ask"] == "find" else {"missed": []}) for row in rows_of(tmp_path / "drawn")]
    told = label(work, score=labelled(tmp_path / "done", rows))
    assert told["unlabelled_rows"] == 0
    assert {kind: (one["precision"], one["recall"]) for kind, one in told["kinds"].items()} == {
        "EMAIL_ADDRESS": (1.0, 1.0),
        "PHONE_NUMBER": (1.0, 1.0),
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("secretword\n", "line 1: expected the JSON Lines"),
        ('{"ask": "find", "kind": "URL"}\n', "line 1"),
        ('\n{"ask": "find", "kind": "URL", "right": "secretword"}\n', "line 2"),
        ('{"ask": "find", "kind": "secretword", "right": true}\n', "no such kind"),
        ('{"ask": "find", "kind": "URI", "right": true}\n', "Did you mean URL"),
        ('{"ask": "passage", "weight": 0, "found": [], "missed": []}\n', "line 1"),
        ('{"ask": "passage", "weight": 1, "found": [], "missed": "secretword"}\n', "line 1"),
    ],
)
def test_a_bad_line_is_named_and_not_quoted(work: Path, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "bad").write_text(text, "utf-8")
    with pytest.raises(UsageError, match=said) as caught:
        label(work, score=tmp_path / "bad")
    assert "secretword" not in str(caught.value)


def test_what_is_no_work_or_no_file_is_refused(work: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not the private folder"):
        label(tmp_path)
    with pytest.raises(UsageError, match="cannot be read"):
        label(work, score=tmp_path / "nowhere")
    with pytest.raises(UsageError, match="exclude each other"):
        label(work, score=tmp_path / "x", against=work)


# ---------------------------------------------------------------------------------------------------------------- without any labels


def other_index(work: Path, folder: Path, keep: float, finder: str) -> Path:
    """A copy of an index as another finder might have built it: a share of the addresses, each one character longer, and no numbers."""
    import shutil

    shutil.copytree(work, folder)
    for path in sorted((folder / "tables" / "occurrences").glob("*.parquet")):
        rows = pl.read_parquet(path).with_columns(pl.col("kind", "finder").cast(pl.String))
        rows = rows.filter(pl.col("kind") == "EMAIL_ADDRESS", pl.col("doc_no") % 100 < 100 * keep)
        rows.with_columns(finder=pl.lit(finder), stop=pl.col("end") + 1).write_parquet(path)
    return folder


def test_two_indexes_tell_what_both_missed(work: Path, tmp_path: Path) -> None:
    other = other_index(work, tmp_path / "other", 0.8, "ner")
    told = label(work, against=other)
    mail = told["estimates"]["EMAIL_ADDRESS"]
    there = sum(number % 100 < 80 for number in range(PLAIN, PLAIN + DENSE))
    assert (mail["first"], mail["second"], mail["both"]) == (DENSE, there, there)
    assert mail["estimate"] == pytest.approx(DENSE) and mail["missed_by_both"] == pytest.approx(0.0)
    assert told["one_finder_only"] == ["PHONE_NUMBER"] and told["estimates"]["PHONE_NUMBER"]["estimate"] is None
    assert "independently" in told["assumption"]
    with pytest.raises(UsageError, match="the same finders"):
        label(work, against=work)


def test_indexes_of_two_corpora_are_refused(work: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["ann@example.com"]}), tmp_path / "in.parquet")
    sanitize.find([tmp_path / "in.parquet"], tmp_path / "work", Settings(seed=1, workers=1))
    with pytest.raises(UsageError, match="other documents"):
        label(work, against=tmp_path / "work")


def test_chapmans_estimate_by_hand() -> None:
    one = chapman_estimate(20, 15, 10)
    assert one["estimate"] == pytest.approx(21 * 16 / 11 - 1)
    assert one["missed_by_both"] == pytest.approx(21 * 16 / 11 - 1 - 25)
    half = 1.959963984540054 * (21 * 16 * 10 * 5 / (11**2 * 12)) ** 0.5
    assert one["interval"] == pytest.approx([max(25, 21 * 16 / 11 - 1 - half), 21 * 16 / 11 - 1 + half])
    assert chapman_estimate(0, 4, 0)["estimate"] is None


@given(st.integers(1, 400), st.integers(1, 400), st.data())
@settings(max_examples=60, deadline=None)
def test_an_estimate_is_never_less_than_what_was_found(first: int, second: int, data: st.DataObject) -> None:
    both = data.draw(st.integers(0, min(first, second)))
    one = chapman_estimate(first, second, both)
    assert one["missed_by_both"] >= 0
    assert first + second - both <= one["interval"][0] <= one["interval"][1]


SPAN = ["doc_no", "cell", "start", "end"]


def spans(*rows: tuple[int, int, int]) -> pl.DataFrame:
    return pl.DataFrame([(doc_no, 0, start, stop) for doc_no, start, stop in rows], schema=dict.fromkeys(SPAN, pl.Int64), orient="row")


@pytest.mark.parametrize(
    ("lists", "found"),
    [
        ([[], [], []], {}),
        ([[(0, 1, 5)], [(0, 3, 9)], [(0, 9, 12)]], {0b011: 1, 0b100: 1}),  # a neighbour is another thing
        ([[(0, 1, 5)], [(1, 1, 5)], [(0, 2, 3), (0, 3, 4)]], {0b101: 1, 0b010: 1}),  # cut in two by one, one thing for all
        ([[(0, 1, 9), (0, 2, 3)], [(0, 8, 12)], [(0, 5, 6)]], {0b111: 1}),
    ],
)
def test_what_lists_found_together(lists: list[list[tuple[int, int, int]]], found: dict[int, int]) -> None:
    assert capture_histories([spans(*one) for one in lists]) == found


def test_chaos_bound_by_hand() -> None:
    # Chao 1987: S + (t - 1) / t * f1^2 / (2 f2)
    assert chao_lower_bound(100, 30, 20, 3)["missed_at_least"] == pytest.approx(2 / 3 * 30**2 / 40)
    assert chao_lower_bound(10, 6, 0, 2)["missed_at_least"] == pytest.approx(1 / 2 * 6 * 5 / 2)
    low, high = chao_lower_bound(100, 30, 20, 3)["lower_bound_interval"]
    assert 100 < low < 115 < high
    assert chao_lower_bound(7, 0, 7, 3) == {"lower_bound": 7, "lower_bound_interval": [7, 7], "missed_at_least": 0}


def test_a_log_linear_model_recovers_what_it_assumes() -> None:
    """Tables generated by the model itself: 10,000 things, three finders; the first two agree more than by chance."""
    cells = [(a, b, c) for a in (1, 0) for b in (1, 0) for c in (1, 0)]
    for extra, dependent in ((0.0, []), (1.5, [[0, 1]])):
        weights = np.array([np.exp(0.4 * a + 0.2 * b - 0.3 * c + extra * a * b) for a, b, c in cells])
        counts = 10_000 * weights / weights.sum()
        told = loglinear_estimate(counts[:-1])  # type: ignore[arg-type]
        assert told["loglinear"] == pytest.approx(10_000, rel=1e-4)
        assert told["dependent_pairs"] == dependent
        assert told["loglinear_interval"][0] < 10_000 < told["loglinear_interval"][1]
    # two finders that agree are taken by Chapman for finders that leave nothing over
    first, second, both = (
        counts[[number for number, cell in enumerate(cells) if test(cell)]].sum()
        for test in (lambda cell: cell[0], lambda cell: cell[1], lambda cell: cell[0] and cell[1])
    )
    assert chapman_estimate(int(first), int(second), int(both))["estimate"] < 9_500


def test_kinds_that_few_lists_found() -> None:
    assert estimate_total({0b001: 5}, 3)["lower_bound"] is None
    two = estimate_total({0b001: 5, 0b100: 3, 0b101: 4}, 3)  # the second list found none: it says nothing of the kind
    assert two["lower_bound"] == pytest.approx(12 + 1 / 2 * 64 / 8) and two["loglinear"] is None
    assert estimate_total({}, 3)["found"] == 0
    assert estimate_total({0b111: 4}, 3)["loglinear"] is None


def test_three_indexes_tell_what_all_missed(work: Path, tmp_path: Path) -> None:
    others = [other_index(work, tmp_path / name, share, name) for name, share in (("ner", 0.8), ("presidio", 0.5))]
    told = label(work, against=others)
    mail = told["estimates"]["EMAIL_ADDRESS"]
    share = [sum(number % 100 < part for number in range(PLAIN, PLAIN + DENSE)) for part in (80, 50)]
    assert mail["found_by_list"] == [DENSE, *share] and mail["found"] == DENSE
    assert mail["lower_bound"] >= DENSE and mail["found_once"] == DENSE - share[0]
    assert told["one_finder_only"] == ["PHONE_NUMBER"] and "alike" in told["assumption"]
    command = ["label", str(work), "--against", str(others[0]), "--against", str(others[1])]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0 and "at least" in shown.output and "index 3  presidio" in shown.output
    with pytest.raises(UsageError, match="the same finders"):
        label(work, against=[others[0], others[0]])


# -------------------------------------------------------------------------------------------------------------------------- the verb


def test_the_verb_tells_no_text(work: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    drawn = runner.invoke(app, ["label", str(work), "--n", "20", "--out", str(tmp_path / "s")])
    assert drawn.exit_code == 0 and "documents without finds" in drawn.output and "example.com" not in drawn.output
    scores = runner.invoke(app, ["label", str(work), "--score", str(tmp_path / "s"), "--json"])
    assert json.loads(scores.output)["unlabelled_rows"] == 20
    other = other_index(work, tmp_path / "other", 0.5, "ner")
    estimate = runner.invoke(app, ["label", str(work), "--against", str(other)])
    assert "only one index has any PHONE_NUMBER" in estimate.output
    for answer in (label(work, score=tmp_path / "s"), label(work, against=other)):
        assert "example.com" not in repr(answer) and "sanitize label" in repr(answer)
