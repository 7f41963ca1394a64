"""Every number that summary, card, report and `verify --json` print, counted again from the
published shards and the private folder, on corpora of different shapes and for different plans. A
number at a place for which there is no recount fails the test. Times, memory and the coordinates of
curves are not counted again."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import sanitize
from sanitize.storage.files import file_sha256
from sanitize.storage.publication import read_mac_key, write_checksums
from tests.reporting.corpus_recount import (
    CORPORA,
    MAIL,
    Published,
    Recount,
    mask_text,
    publish_corpus,
)
from tests.reporting.label_recount import find_scoring_date
from tests.reporting.place_recounts import RECOUNTS, find_recount, is_shown
from tests.reporting.printed_places import (
    MASKED_SAMPLES,
    Place,
    find_card_places,
    find_report_places,
    find_summary_places,
)

# measured, and not counted: times and memory
MEASURED = {"seconds", "mb_per_s", "cpu_s", "wall_s", "peak_rss_mb"}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recount]:
    return {name: Recount(publish_corpus(name, tmp_path_factory.mktemp(name))) for name in CORPORA}


@pytest.fixture(params=CORPORA)
def recount(request: pytest.FixtureRequest, outputs: dict[str, Recount]) -> Recount:
    return outputs[request.param]


@pytest.fixture
def published(recount: Recount) -> Published:
    return recount.published


# ---- JSON ----


def list_numbers(value: object, path: str = "") -> Iterator[tuple[str, float]]:
    """Yields every number in JSON data with its path."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from list_numbers(one, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from list_numbers(one, f"{path}[{number}]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value


def flatten(counts: Mapping[str, Any]) -> dict[str, float]:
    return dict(list_numbers(dict(counts)))


def test_numbers_of_the_summary(published: Published, recount: Recount) -> None:
    dropped = Counter((row["part"], row["reason"]) for row in recount.drops)
    counted = {
        "documents_in": recount.documents_in,
        "documents_out": recount.rows,
        "documents_dropped": len(recount.dropped),
        "dropped": [{"documents": times} for _, times in sorted(dropped.items())],
        "quarantined": len(recount.quarantined),
        "quarantine": dict(Counter(row["reason"] for row in recount.quarantined)),
        "occurrences": len(recount.found),
        "kept_originals": recount.sum_kinds("kept"),
        "replaced": recount.sum_kinds("replaced"),
        "by_kind": recount.by_kind,
        "erased": 0,
        "leaks": 0,
        "verify": {
            **recount.searched_values,
            "swept": len(recount.swept),
            "files": recount.checked_files,
            "ambiguous_values": 0,
        },
        "canaries": recount.canaries,
        "text_bytes": sum(len(text.encode()) for text in recount.new_texts),
        "kept_values": [{"values": count} for count in recount.kept_cells.values()],
        "blacklist": recount.blacklist,
        "editor_reports": (
            [{"by_field": recount.removals_by_field}] if recount.removals_by_field else []
        ),
        "measured": recount.measured,
        "splits": (
            {name: counts["rows"] for name, counts in recount.splits.items()}
            if len(recount.splits) > 1
            else {}
        ),
        "appended": recount.appended,
    }
    assert recount.documents_in == published.records
    assert {
        path: number
        for path, number in list_numbers(published.summary)
        if path.split(".")[-1] not in MEASURED
    } == pytest.approx(flatten(counted), rel=1e-6)
    if recount.measured is not None:
        assert published.summary["measured"]["date"] == find_scoring_date()
        assert published.verified["measured"] == published.summary["measured"]
    # the stages have times and memory only, each of them
    for cost in published.summary["stages"].values():
        assert {*cost} <= MEASURED


def test_kept_originals_are_in_the_shards_and_removed_values_are_not(
    published: Published, recount: Recount
) -> None:
    """Read in the published texts, without the tables of edits."""
    kept_ids = {row["value_id"] for row in recount.kept}
    column_ids = {row["value_id"] for row in recount.column_values}
    removed = [
        row["value"]
        for row in recount.values
        if row["value_id"] not in kept_ids
        and (row["kind"] in recount.checked_kinds or row["value_id"] in column_ids)
    ]
    text = "\n".join(recount.strings)
    assert bool(removed) == bool(recount.searched_values["values_removed"])
    assert not [value for value in removed if value in text]
    spellings = Counter[str]()
    for row in recount.values:
        if row["value_id"] in kept_ids:
            spellings[row["value"]] = text.count(row["value"])
    assert len(recount.kept) == recount.checked_originals
    # each at least once; a kept value may be a part of another one
    assert sum(spellings.values()) >= len(recount.kept)


def test_numbers_of_verify(published: Published, recount: Recount) -> None:
    counted = flatten(
        {
            **recount.searched_values,
            "leaks": 0,
            "shards": len(recount.shards),
            "rows": recount.rows,
            "kept_originals": recount.checked_originals,
            "ambiguous_values": 0,
            "measured": recount.measured,
            "passes": 1,  # so few terms fit in one
            "bytes_searched": {
                "other files": sum(path.stat().st_size for path in recount.other_files),
                "rows": sum(len(text.encode()) for text in recount.strings),
            },
        }
    )
    printed = dict(list_numbers(published.verified))
    # bytes of Parquet beside the texts: no more than the shards have, compressed and not
    beside = printed.pop("bytes_searched.pages") + printed.pop("bytes_searched.raw bytes")
    sizes = [
        (path.stat().st_size, pq.read_metadata(path).row_group(0).total_byte_size)
        for path in recount.shards
    ]
    assert 0 < beside < sum(map(sum, sizes))
    assert printed == pytest.approx(counted, rel=1e-6)


# ---- pages ----


def list_places(published: Published) -> list[Place]:
    return [
        *find_summary_places(str(published.result).replace(str(published.out), "OUT")),
        *find_card_places((published.out / "README.md").read_text()),
        *find_report_places((published.out / "report.html").read_text()),
    ]


def test_numbers_of_the_pages(published: Published, recount: Recount) -> None:
    """Each number in the text of the summary, in the card and in the report."""
    wrong, seen = [], set[str]()
    for place in list_places(published):
        for clause, numbers in place.clauses():
            counted = find_recount(recount, clause)
            seen.add(clause)
            if counted is None or not all(
                is_shown(*pair) for pair in zip(numbers, counted, strict=True)
            ):
                wrong.append((clause, numbers, counted))
    assert not wrong, "\n".join(map(str, wrong))
    for kind in recount.kinds:
        assert f"report / Outcomes by kind / {kind} / occurrences / #" in seen
        assert f"card / What was done / {kind} / replaced / #" in seen


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ("1,204 of 9 found; 3 stay", [("# of # found", ["1,204", "9"]), ("# stay", ["3"])]),
        (
            "62% of 22.9 KB, at 2026-11-29.",
            [("# of #", ["62%", "22.9 KB"]), ("at #", ["2026-11-29"])],
        ),
        ("7records", [("7records", [])]),
        ("in base64, UTF-16 and data/train-00000-of-00002.parquet", []),
    ],
)
def test_numbers_of_a_text(text: str, clauses: list[tuple[str, list[str]]]) -> None:
    """A word that holds a digit and is no known name is a place too, and has no recount."""
    place = Place(("card", "Limits"), text)
    assert [*place.clauses()] == [
        (f"card / Limits / {clause}", numbers) for clause, numbers in clauses
    ]


def test_every_recount_has_a_place(outputs: dict[str, Recount]) -> None:
    clauses = {
        clause
        for recount in outputs.values()
        for place in list_places(recount.published)
        for clause, _ in place.clauses()
    }
    unused = [
        pattern
        for pattern in RECOUNTS
        if not any(re.fullmatch(pattern, clause) for clause in clauses)
    ]
    assert not unused, unused


def test_masked_samples_are_texts_of_the_corpus(published: Published, recount: Recount) -> None:
    samples = [
        place
        for place in find_report_places((published.out / "report.html").read_text())
        if MASKED_SAMPLES in place.path and len(place.path) > 2
    ]
    assert samples
    before, after = recount.shapes
    for place in samples:
        if place.path[-1] != "kind":
            assert mask_text(place.text) in (after if place.path[-1] == "after" else before)


def test_the_hash_of_a_plan_is_the_same_for_every_input(tmp_path: Path) -> None:
    """`run_hash` is not, and names the folder of the run."""
    hashes = []
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text(f"{MAIL} {name}")
        result = sanitize.run(tmp_path / f"{name}.txt", tmp_path / name, plan="rmft", seed=1)
        assert (tmp_path / f"{name}.private" / "runs" / result.run_hash / "plan.json").is_file()
        manifest = json.loads((tmp_path / name / "manifest.json").read_text())
        assert (manifest["plan_hash"], manifest["run_hash"]) == (result.plan_hash, result.run_hash)
        hashes.append((result.plan_hash, result.run_hash))
    assert hashes[0][0] == hashes[1][0] and hashes[0][1] != hashes[1][1]
    other = sanitize.run(tmp_path / "a.txt", tmp_path / "c", plan="redact", seed=1)
    assert other.plan_hash != hashes[0][0]


def test_an_output_of_an_earlier_version_can_be_read(tmp_path: Path) -> None:
    """Its `plan_hash` is what is `run_hash` now, and its check does not count removed values."""
    (tmp_path / "a.txt").write_text(MAIL)
    out, work = tmp_path / "out", tmp_path / "out.private"
    result = sanitize.run(tmp_path / "a.txt", out, plan="rmft", seed=1, workers=1)

    manifest = json.loads((out / "manifest.json").read_text())
    for record in (manifest, manifest["summary"]):
        record["plan_hash"] = record.pop("run_hash")
    del manifest["summary"]["verify"]["values_removed"]
    (out / "manifest.json").write_text(json.dumps(manifest))
    (record_path,) = (work / "published").glob("*.json")
    command = json.loads(record_path.read_text())
    command["plan_hash"] = command.pop("run_hash")
    command["manifest_sha256"] = [file_sha256(out / "manifest.json")]
    record_path.write_text(json.dumps(command))
    mac_key = read_mac_key(work / "runs" / result.run_hash)
    assert mac_key is not None
    names = [
        path.relative_to(out).as_posix()
        for path in out.rglob("*")
        if path.is_file() and path.name != "SHA256SUMS"
    ]
    write_checksums(out, {name: file_sha256(out / name) for name in names}, mac_key)

    verified = sanitize.verify(out, workers=1)
    assert (verified.leaks, verified.values_removed) == (0, result.verify.values_removed)
    assert not sanitize.run(tmp_path / "a.txt", out, plan="rmft", seed=1, workers=1).changed
    sanitize.report(out, to=tmp_path / "again.html")
    assert "values found in 24 forms outside of" in (tmp_path / "again.html").read_text()
    assert not sanitize.run(tmp_path / "a.txt", out, seed=1, workers=1).changed  # its plan
