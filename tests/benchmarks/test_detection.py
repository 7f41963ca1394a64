"""What the detection benchmark counts, on invented records whose scores are known by hand. All
people in them are invented."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import detection, runner

TEXT = "Call 713-555-0123 or (713) 555-0124. Ann Lee, ann@example.com"
PHONE, OTHER_PHONE, MAIL = (
    (5, 17, "PHONE_NUMBER"),
    (21, 35, "PHONE_NUMBER"),
    (46, 61, "EMAIL_ADDRESS"),
)


def write_records(
    folder: Path,
    *records: tuple[str, list[tuple[int, int, str]]],
    name: str = "presidio_synth_x.jsonl",
) -> Path:
    lines = [
        json.dumps(
            {
                "text": text,
                "spans": [
                    {"start": start, "end": stop, "label": label} for start, stop, label in spans
                ],
            }
        )
        for text, spans in records
    ]
    (folder / name).write_text("\n".join(lines) + "\n", "utf-8")
    return folder


@pytest.mark.parametrize(
    ("text", "span", "expected"),
    [
        # the bracket of an area code is trimmed on both sides
        ("see (713) 555-0124.", (4, 19), (5, 18)),
        ("<ann@example.com>", (0, 17), (1, 16)),
        ("a  - \n b", (1, 7), None),
        ("ann", (0, 3), (0, 3)),
    ],
)
def test_edges_are_trimmed(
    text: str, span: tuple[int, int], expected: tuple[int, int] | None
) -> None:
    assert detection.trim_spans(text, [(*span, "URL")]) == (
        {(*expected, "URL")} if expected else set()
    )


def test_counts_of_one_record() -> None:
    labelled = {(0, 5, "URL"), (10, 20, "URL"), (30, 35, "URL")}
    # exact; inside a label; touching two labels
    found = {(0, 5, "URL"), (12, 20, "URL"), (20, 30, "URL")}
    assert detection.count_matches(labelled, found) == (3, 3, 1, 2, 2)
    assert detection.count_matches(set(), found) == (0, 3, 0, 0, 0)


def test_wilson_equals_the_published_interval() -> None:
    low, high = detection.wilson(81, 263) or (0, 0)  # Newcombe 1998, table I, method 4
    assert (round(low, 4), round(high, 4)) == (0.2535, 0.3682)
    assert [round(edge, 4) for edge in detection.wilson(0, 20) or ()] == [0.0, 0.2005]
    assert detection.wilson(0, 0) is None


def test_f2_weights_recall_four_times() -> None:
    assert detection.f2(10, 10, 10) == 1.0
    precision, recall = 6 / 8, 6 / 12
    assert detection.f2(12, 8, 6) == pytest.approx(
        5 * precision * recall / (4 * precision + recall)
    )
    assert detection.f2(0, 0, 0) == 0.0


def test_labels_of_incomplete_kinds_and_unknown_files_are_left_out(tmp_path: Path) -> None:
    write_records(
        tmp_path,
        (TEXT, [(5, 17, "PHONE"), (46, 61, "EMAIL"), (37, 44, "OTHER")]),
        name="lifebench_x.jsonl",
    )
    write_records(tmp_path, (TEXT, []), name="unknown.jsonl")
    assert detection.read_sets(tmp_path) == {"lifebench_x": [(TEXT, [PHONE])]}


def test_scores_are_pooled_over_sets_that_label_the_kind(tmp_path: Path) -> None:
    write_records(tmp_path, (TEXT, [PHONE, OTHER_PHONE, MAIL]), ("nothing", []))
    # lifebench labels no dates: dates found there are not counted
    write_records(
        tmp_path, ("on 2001-05-04, 713-555-0125", [(15, 27, "PHONE")]), name="lifebench_x.jsonl"
    )
    sets = detection.read_sets(tmp_path)
    found: list[list[detection.Span]] = [
        [(3, 13, "DATE_TIME")],
        [(5, 17, "PHONE_NUMBER"), (22, 35, "PHONE_NUMBER"), (47, 61, "EMAIL_ADDRESS")],
        [(0, 7, "PERSON")],
    ]
    scores = detection.score_sets(sets, found)
    phone = scores["PHONE_NUMBER"]
    assert (phone["pooled"]["labels"], phone["pooled"]["finds"], phone["pooled"]["hits"]) == (
        3,
        2,
        2,
    )
    assert set(phone["sets"]) == {"lifebench_x", "presidio_synth_x"}
    assert (
        scores["EMAIL_ADDRESS"]["pooled"]["hits"] == 0
        and scores["EMAIL_ADDRESS"]["pooled"]["overlap_f2"] == 1.0
    )
    assert scores["DATE_TIME"]["pooled"]["finds"] == 0
    assert scores["PERSON"]["pooled"]["precision"] == 0.0


def test_an_interval_contains_the_score() -> None:
    right, wrong = detection.MatchCounts(1, 1, 1, 1, 1), detection.MatchCounts(1, 1, 0, 0, 0)
    score = detection.score([right] * 30 + [wrong] * 10)
    assert score["f2"] == pytest.approx(0.75)
    assert score["f2_interval"][0] < 0.75 < score["f2_interval"][1]
    assert score["recall_interval"][0] < 0.75 < score["recall_interval"][1]


def test_every_label_is_a_known_kind_and_complete_sets_have_labels() -> None:
    for name, labels in detection.LABELS.items():
        assert set(labels.values()) <= set(detection.KINDS)
        assert set(detection.COMPLETE[name]) <= set(labels.values())


def test_the_benchmark_runs_from_end_to_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One finder of ours, one peer that is not installed and patterns of the standard library; the
    output contains no text."""
    write_records(tmp_path, (TEXT, [PHONE, OTHER_PHONE, MAIL]))
    results = tmp_path / "results"
    detection.main(
        [
            "--data",
            str(tmp_path),
            "--finders",
            "sanitize;plain patterns;scrubadub",
            "--results",
            str(results),
        ]
    )
    result = json.loads((results / "detection.json").read_text("utf-8"))
    for kind in ("PHONE_NUMBER", "EMAIL_ADDRESS"):
        assert result["finders"]["sanitize"]["scores"][kind]["pooled"]["f2"] == 1.0
    assert result["finders"]["sanitize"]["cost"]["cpu_s"] >= 0
    if "scores" not in result["finders"]["scrubadub"]:
        assert result["finders"]["scrubadub"]["missing"].startswith("not installed")
    output = capsys.readouterr()
    printed = (
        output.out + output.err + "".join(path.read_text("utf-8") for path in results.iterdir())
    )
    assert "555-01" not in printed and "ann@" not in printed
    assert "| PHONE_NUMBER |" in output.out


@pytest.mark.parametrize("folder", ["nowhere", "."])
def test_missing_data_is_reported(tmp_path: Path, folder: str) -> None:
    with pytest.raises(SystemExit, match="--data DIR|holds no set of presidio_synth"):
        detection.main(["--data", str(tmp_path / folder)])


def test_the_tables_have_intervals_and_the_rate_of_presidio() -> None:
    result = json.loads((runner.RESULTS / "detection.json").read_text("utf-8"))
    tables = detection.render_tables(result)
    assert "| sanitize | precision (95 %) | recall (95 %) | F2 (95 %) | overlapping F2 |" in tables
    assert f"{result['times_presidio']:.0f} times the rate of Presidio" in tables


def test_an_unknown_finder_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="presidio; presidio, en_core_web_sm; scrubadub"):
        detection.main(["--data", str(write_records(tmp_path, (TEXT, []))), "--finders", "presido"])


def test_peers_are_imported_in_their_own_process_only() -> None:
    code = (
        "import sys, benchmarks.detection; print({'presidio_analyzer', 'scrubadub', 'datatrove'} &"
        " set(sys.modules) or 'none')"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "none\n"
    )
