"""Every document leads to its input file and its position in it: in SQL, `top`, `subject` and
`diff`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sanitize
from sanitize.errors import UsageError
from sanitize.readers import jsonl, mail, text
from sanitize.readers.survey import Roles, stage_unit, survey_inputs
from sanitize.storage.records import lineage
from sanitize.storage.records.lineage import Place, SourceRuns, find_place, parse_runs

MAIL = "From a@example.org Thu Jan  1 00:00:00 1970\nSubject: x\n\nWrite to ann.roe@example.org\n\n"
PLACES = st.builds(
    lambda source, word, number: Place(source, f"{word} {number}" if number else word),
    st.sampled_from(["a", "b/c d 1"]),
    st.sampled_from(["row", "line", "file", "line at byte", "part at byte 9, line", "after line"]),
    st.integers(0, 3),
)


@given(st.lists(PLACES, max_size=40))
def test_runs_give_every_place_back(places: list[Place]) -> None:
    runs = SourceRuns()
    for place in places:
        runs.add(place)
    parsed = parse_runs(runs.to_json().encode())
    assert [find_place(parsed, row) for row in range(len(places))] == places
    assert sum(run.rows for run in parsed) == len(places)


@pytest.mark.parametrize(
    "location", ["row {}", "mail {} at byte 7{}", "part at byte 64, mail {} at byte 7{}"]
)
def test_neighbouring_records_are_one_run(location: str) -> None:
    runs = SourceRuns()
    for row in [*range(1_000), *range(2_000, 2_500)]:
        runs.add(Place("a", location.format(row, row)))
    assert [run.rows for run in parse_runs(runs.to_json().encode())] == [1_000, 500]


def test_metadata_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the limit, rows are counted from the last exact position."""
    monkeypatch.setattr(lineage, "MAX_RUNS", 3)
    runs = SourceRuns()
    places = [Place("a", f"line {row}") for row in (1, 2, 5, 9, 10, 20, *range(30, 900, 2))]
    for place in [*places, *(Place("b", f"line {row}") for row in (1, 4, 5))]:
        runs.add(place)
    parsed = parse_runs(runs.to_json().encode())
    found = [find_place(parsed, row) for row in range(len(places) + 3)]
    assert len(parsed) == 5 and found[:5] == places[:5]
    assert found[5:-3] == [
        Place("a", f"after line 10, record {number}") for number in range(1, len(places) - 4)
    ]
    assert found[-3:] == [Place("b", f"record {number}") for number in (1, 2, 3)]


@pytest.mark.parametrize("suffix", ["jsonl", "txt", "mbox"])
def test_parts_of_a_large_file_are_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    """Each part counts its records, so that they are one run."""
    reader = {"jsonl": jsonl, "txt": text, "mbox": mail}[suffix]
    monkeypatch.setattr(reader, "UNIT_BYTES", 1_000)
    monkeypatch.setattr(sanitize.readers.survey, "SMALL_MBOX_BYTES", 1)
    record = {
        "jsonl": '{{"text": "text {}"}}\n',
        "txt": "text {}\n",
        "mbox": f"{MAIL}text {{}}\n\n",
    }
    path = tmp_path / f"a.{suffix}"
    path.write_text("".join(record[suffix].format(number) for number in range(600)))
    survey = survey_inputs([path], Roles(documents="lines" if suffix == "txt" else "file"))
    assert len(survey.units) > 5
    texts: list[str] = []
    for unit in survey.units:
        staged = tmp_path / f"{unit.no}.parquet"
        stage_unit(unit, survey.layout, staged, tmp_path / f"{unit.no}.aside.parquet", 1_000)
        runs = parse_runs(pq.read_metadata(staged).metadata[lineage.SOURCES_KEY.encode()])
        word = "mail" if suffix == "mbox" else "line"
        expected = f"part at byte {unit.start}, {word}" if unit.start else word
        assert [(run.word, run.number) for run in runs] == [(expected, 1)]
        texts += pq.read_table(staged)["text"].to_pylist()
    assert [one.split()[-1] for one in texts] == [str(number) for number in range(600)]


def write_inputs(folder: Path) -> None:
    """Files of most containers; each text says where it is."""
    folder.mkdir()
    rows = [{"text": f"row {row} of d.parquet"} for row in range(3)]
    pq.write_table(pa.Table.from_pylist(rows), folder / "d.parquet")
    table = pa.table({"text": [f"row {row} of e.arrow" for row in range(2)]})
    with pa.ipc.new_file(folder / "e.arrow", table.schema) as writer:
        writer.write_table(table)
    lines = ['{"text": "line 1 of a.jsonl"}', "", "no JSON", '{"text": "line 4 of a.jsonl"}', ""]
    (folder / "a.jsonl").write_bytes("\n".join(lines).encode())
    (folder / "b.csv").write_text('text\n"line 2 of b.csv"\n\n"line 4\nof b.csv"\n')
    (folder / "c.txt.gz").write_bytes(gzip.compress(b"file of c.txt.gz"))
    (folder / "f.txt").write_bytes(b"file of f.txt")


def read_sources(work: Path) -> list[tuple[int, str, str]]:
    frame = sanitize.sql(work, "SELECT doc_no, source, location FROM sources ORDER BY doc_no")
    return [(doc_no, Path(source).name, place) for doc_no, source, place in frame.rows()]


@pytest.mark.parametrize("sample", [1.0, 0.5])
def test_every_document_has_its_file_and_position(tmp_path: Path, sample: float) -> None:
    write_inputs(tmp_path / "in")
    options = {"seed": 1, "max_quarantine": "100%"}
    sanitize.run(tmp_path / "in", tmp_path / "out", plan="redact", sample=sample, **options)
    work = tmp_path / "out.private"
    found = read_sources(work)
    texts = dict(sanitize.sql(work, "SELECT doc_no, text FROM documents", reveal=True).rows())
    assert [doc_no for doc_no, _, _ in found] == sorted(texts)
    stated = {no: f"{place} of {name}" for no, name, place in found if texts[no] is not None}
    assert stated == {no: text.replace("\n", " ") for no, text in texts.items() if text is not None}
    quarantined = sanitize.sql(work, "SELECT doc_no, source, location FROM quarantine").rows()
    sources = sanitize.sql(work, "SELECT doc_no, source, location FROM sources").rows()
    assert set(quarantined) <= set(sources)
    assert sample < 1 or (len(found) == 12 and len(quarantined) == 1)


def test_added_files_have_places_of_their_own(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"{number}.jsonl").write_text(f'{{"text": "a{number}"}}\n{{"text": "b"}}\n')
    for number in (1, 2):
        sanitize.run(tmp_path / f"{number}.jsonl", tmp_path / "out", append=number == 2, seed=1)
    expected = [(1, "line 1"), (1, "line 2"), (2, "line 1"), (2, "line 2")]
    assert read_sources(tmp_path / "out.private") == [
        (no, f"{file}.jsonl", place) for no, (file, place) in enumerate(expected)
    ]


def test_commands_show_where_documents_come_from(tmp_path: Path) -> None:
    (tmp_path / "in [x]*").mkdir()
    (tmp_path / "in [x]*" / "ann's.mbox").write_text(MAIL + MAIL.replace("ann.roe", "bo.fey"))
    work, out = tmp_path / "out.private", tmp_path / "out"
    sanitize.run(tmp_path / "in [x]*", out, plan="redact", seed=1)
    source = str(tmp_path / "in [x]*" / "ann's.mbox")
    top = sanitize.top(work, kind="EMAIL_ADDRESS", sources=True, reveal=True)
    assert set(top.select("value", "source", "location").rows()) == {
        ("ann.roe@example.org", source, "mail 1"),
        ("bo.fey@example.org", source, "mail 2"),
    }
    subject = sanitize.subject(work, ["bo.fey@example.org"])
    assert [(one.doc_no, one.source, one.location) for one in subject.places] == [
        (1, source, "mail 2")
    ]
    shown = sanitize.diff(out, reveal=True).documents
    assert [(one.source, one.location) for one in shown] == [
        (source, "mail 1"),
        (source, "mail 2"),
    ]
    # a page of the diff may be given away where it shows no more than OUT
    masked = sanitize.diff(out)
    assert {(one.source, one.location) for one in masked.documents} == {("", "")}
    assert "ann's" not in json.dumps(masked.to_dict()) and isinstance(top, pl.DataFrame)
    with pytest.raises(UsageError, match="sources is not shown with by = users"):
        sanitize.top(work, by="users", sources=True)


@pytest.mark.parametrize("append", [False, True])
def test_the_output_has_the_place_on_request(tmp_path: Path, append: bool) -> None:
    """Searched like text: a folder that is named after an address."""
    folder = tmp_path / "in" / "ann.roe@example.org"
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("hello")
    (tmp_path / "b.jsonl").write_text('{"text": "A"}\nno JSON\n{"text": "B"}\n')
    pq.write_table(pa.table({"text": ["C"]}), tmp_path / "c.parquet")
    inputs = [tmp_path / "in", tmp_path / "b.jsonl", tmp_path / "c.parquet"]
    options = {"plan": "redact", "seed": 1, "max_quarantine": "100%"}
    if append:
        for number, path in enumerate(inputs):
            sanitize.run(path, tmp_path / "out", lineage=True, append=number > 0, **options)
    else:
        sanitize.run(inputs, tmp_path / "out", lineage=True, **options)
    rows = sanitize.Corpus.open(tmp_path / "out").table().to_pylist()
    assert [(row["source_file"], row["source_position"], row["text"]) for row in rows] == [
        ("[EMAIL_ADDRESS]/a.txt", "file", "hello"),
        ("b.jsonl", "line 1", "A"),
        ("b.jsonl", "line 3", "B"),
        ("c.parquet", "row 0", "C"),
    ]
    assert sanitize.verify(tmp_path / "out").leaks == 0


def test_lineage_does_not_replace_a_column(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "A", "source_file": "x"}\n')
    with pytest.raises(UsageError, match="the input has one; rename it"):
        sanitize.run(tmp_path / "a.jsonl", tmp_path / "out", lineage=True)
    sanitize.run(tmp_path / "a.jsonl", tmp_path / "out", seed=1)
    assert sanitize.Corpus.open(tmp_path / "out").table()["source_file"].to_pylist() == ["x"]


def test_a_preview_reads_what_a_run_reads(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("mail\nann.roe@example.org\n")
    (tmp_path / "in" / "b.bin").write_bytes(b"\0")
    options = {"read_as": "text", "include": "*.csv", "lineage": True}
    preview = sanitize.explain(tmp_path / "in", plan="redact", **options)
    assert (preview.files, preview.unreadable_files) == (1, 0)
    assert preview.sample.occurrences == 1


@pytest.mark.parametrize("function", ["run", "explain"])
def test_data_in_memory_has_no_lineage(function: str) -> None:
    with pytest.raises(UsageError, match="lineage=True has no effect on data in memory, whose"):
        getattr(sanitize, function)([{"text": "hello"}], plan="redact", lineage=True)
