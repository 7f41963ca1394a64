"""The finder `spans`: spans found by another tool. All people in them are invented."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.core.arrow_buffers import TextBuffers, bytes_to_code_points, code_points_to_bytes
from sanitize.core.keys import Key
from sanitize.core.part_protocols import TextColumn
from sanitize.errors import InputRefused, PlanError, SanitizeError
from sanitize.finders.spans import Spans
from sanitize.pipeline.run import run_with_settings
from sanitize.pipeline.run_results import RunResult
from sanitize.plans.settings import Settings
from tests.support import to_json_lines

TEXTS = ["Zoë Roe wrote to Ben.", "", "\U0001f600 Ann Poe, 12 Elm Lane", "a b"]
IDS = ["m-1", "m-2", "m-3", "m-4"]
NO_SPANS = pl.DataFrame(
    schema={
        "text_no": pl.Int64,
        "start_byte": pl.Int64,
        "end_byte": pl.Int64,
        "kind": pl.String,
        "value_id": pl.Int64,
    }
)
EXPECTED = [
    (0, "Zoë Roe", "PERSON"),
    (0, "Ben", "PERSON"),
    (2, "Ann Poe", "PERSON"),
    (2, "Elm Lane", "LOCATION"),
]
SPAN_ROWS = [
    ("m-1", 0, 0, 7, "PERSON"),
    ("m-1", 0, 17, 20, "PERSON"),
    ("m-3", 2, 2, 9, "PERSON"),
    ("m-3", 2, 14, 22, "LOCATION"),
]


def presidio_results(doc_no: int) -> list[dict[str, Any]]:
    return [
        {"entity_type": kind, "start": start, "end": stop, "score": 0.75}
        for _, no, start, stop, kind in SPAN_ROWS
        if no == doc_no
    ]


OWN_ROWS = [
    {"doc_id": doc_id, "start": start, "end": stop, "kind": kind}
    for doc_id, _, start, stop, kind in SPAN_ROWS
]
DOLMA = [
    {
        "id": "m-1",
        "attributes": {
            "t__t__PERSON": [[0, 7, 1.0], [17, 20, 0.5]],
            "t__t__doc_count": [[0, 21, 2.0]],
        },
    },
    {"id": "m-3", "attributes": {"t__t__PERSON": [[2, 9, 1.0]], "t__t__LOCATION": [[14, 22, 1.0]]}},
]
ROWS_BY_DOC_NO = [
    {"doc_no": no, "start": start, "end": stop, "kind": kind, "score": 0.5}
    for _, no, start, stop, kind in SPAN_ROWS
]
FILES: dict[str, bytes] = {
    "own.jsonl": to_json_lines(OWN_ROWS),
    "number.jsonl": to_json_lines(ROWS_BY_DOC_NO),
    "own.csv": (
        b"doc_id,start,stop,kind,score\n"
        + b"".join(f"{d},{a},{b},{k},0.25\n".encode() for d, _, a, b, k in SPAN_ROWS)
    ),
    "dolma.jsonl.gz": gzip.compress(to_json_lines(DOLMA)),
    "array.json": json.dumps([presidio_results(no) for no in range(4)], indent=1).encode(),
    "line.json": json.dumps([presidio_results(no) for no in range(4)]).encode(),
    "lines.jsonl": to_json_lines([presidio_results(no) for no in range(4)]),
    "objects.jsonl": to_json_lines(
        [{"doc_id": f"m-{no + 1}", "results": presidio_results(no)} for no in range(4)]
    ),
}


def open_finder(path: Path, **settings: Any) -> Spans:
    finder = Spans(use="spans", path=str(path), **settings).resolve_settings()
    finder.validate_settings()
    finder.open(Key.from_seed(1), None)
    return finder


def build_column(texts: list[str] = TEXTS, first: int = 0) -> TextColumn:
    numbers = pl.Series(range(first, first + len(texts)), dtype=pl.Int64).to_numpy()
    ids = pa.array(IDS[first : first + len(texts)], pa.large_string())
    return TextColumn(
        pa.array(texts, pa.large_string()), NO_SPANS, numbers, ids, numbers.astype("int32") * 0
    )


def find_values(finder: Spans, column: TextColumn) -> list[tuple[int, str, str]]:
    found = finder.find_spans(column)
    texts = column.texts.to_pylist()
    rows = zip(found.text_no, found.start_byte, found.end_byte, found.kind_no, strict=True)
    return [
        (int(no), texts[no].encode()[start:stop].decode(), found.kind_names[kind])
        for no, start, stop, kind in rows
    ]


@pytest.mark.parametrize("name", FILES)
def test_layouts(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    finder = open_finder(tmp_path / name)
    assert find_values(finder, build_column()) == EXPECTED
    # each batch matches its share of the spans, and all batches together the whole file
    parts = [build_column(TEXTS[:1]), build_column(TEXTS[1:], 1)]
    assert [found for part in parts for found in find_values(finder, part)] == EXPECTED[:2] + [
        (no - 1, *rest) for no, *rest in EXPECTED[2:]
    ]
    assert sum(finder.find_spans(part).matched_count for part in parts) == 4
    assert finder.check_matched(4, 0) == ()


def test_bytes_and_parquet(tmp_path: Path) -> None:
    rows = [("m-1", 0, 8, "PERSON"), ("m-3", 5, 12, "PERSON")]
    pl.DataFrame(rows, schema=["doc_id", "start", "end", "kind"], orient="row").write_parquet(
        tmp_path / "s.parquet"
    )
    assert find_values(open_finder(tmp_path / "s.parquet", unit="bytes"), build_column()) == [
        EXPECTED[0],
        EXPECTED[2],
    ]


@given(
    st.lists(st.text(alphabet="aé\u20ac\U0001f600 ", max_size=8), min_size=1, max_size=5), st.data()
)
def test_code_points_to_bytes_round_trip(texts: list[str], data: st.DataObject) -> None:
    buffers = TextBuffers.from_array(pa.array(texts, pa.large_string()))
    rows = [
        (no, data.draw(st.integers(0, len(text))))
        for no, text in enumerate(texts)
        for _ in range(2)
    ]
    text_no, positions = (
        pl.Series(column, dtype=pl.Int64).to_numpy() for column in zip(*rows, strict=True)
    )
    (byte_positions,) = code_points_to_bytes(buffers, text_no, positions)
    assert byte_positions.tolist() == [len(texts[no][:number].encode()) for no, number in rows]
    assert (
        bytes_to_code_points(buffers, text_no, buffers.offsets[text_no] + byte_positions)[
            0
        ].tolist()
        == positions.tolist()
    )


@pytest.mark.parametrize(
    ("span", "unit", "message"),
    [
        (
            ("m-1", 15, 22),
            "code_points",
            (
                "1 of 2 spans in one batch of documents end beyond their text; the first is span 1"
                " of the file, for document 0"
            ),
        ),
        (("m-1", 3, 7), "bytes", "inside a character"),
        (("m-2", 0, 1), "code_points", "end beyond"),
    ],
)
def test_offsets_outside_the_text_are_refused(
    tmp_path: Path, span: tuple[str, int, int], unit: str, message: str
) -> None:
    doc_id, start, stop = span
    rows = [("m-1", 0, 2, "PERSON"), (doc_id, start, stop, "PERSON")]
    pl.DataFrame(rows, schema=["doc_id", "start", "end", "kind"], orient="row").write_ndjson(
        tmp_path / "s.jsonl"
    )
    with pytest.raises(InputRefused) as caught:
        open_finder(tmp_path / "s.jsonl", unit=unit).find_spans(build_column())
    assert message in str(caught.value)
    assert "Roe" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.jsonl", None, "there is no such file"),
        ("a.csv", b"doc_id,start,kind\nm-1,1,PERSON\n", "lacks the column end"),
        ("a.csv", b"start,stop,kind\n1,2,PERSON\n", "lacks the column doc_id"),
        (
            "a.csv",
            b"doc_id,start,stop,kind\nm-1,4,4,PERSON\n",
            "1 of 1 spans are invalid; the first is span 0",
        ),
        ("a.csv", b"doc_id,start,stop,kind\nm-1,x,4,PERSON\n", "cannot be read as own"),
        ("a.csv", b"doc_id,start,stop,kind,score\nm-1,1,4,PERSON,7\n", "a score from 0 to 1"),
        (
            "a.csv",
            b"doc_id,doc_no,start,stop,kind\nm-1,1,1,4,PERSON\n",
            "may contradict each other",
        ),
        (
            "a.csv",
            b"doc_id,start,stop,kind\nm-1,1,4,QUUX\nm-1,1,4,Xanthippe\n",
            "no kind is given for QUUX, 1 labels in small letters",
        ),
        (
            "a.jsonl",
            b'{"doc_id": "m-1", "start": 0.5, "end": 4, "kind": "PERSON"}\n',
            "numbers that are not integers",
        ),
        ("a.json", b'[[{"entity_type": "PERSON"}]]', "cannot be read as presidio"),
        (
            "a.jsonl",
            b'{"id": 1, "attributes": {"a__b__PERSON": [[1]]}}\n',
            "cannot be read as dolma",
        ),
        ("a.parquet", b"PAR1", "cannot be read as own"),
    ],
)
def test_invalid_files_are_refused(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(SanitizeError) as caught:
        open_finder(tmp_path / name)
    assert message in str(caught.value)
    assert "Xanthippe" not in str(caught.value)


def test_changed_file_changes_the_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_bytes(FILES["own.jsonl"])
    finder = open_finder(tmp_path / "s.jsonl")
    (tmp_path / "s.jsonl").write_bytes(FILES["number.jsonl"])
    assert Spans(use="spans", path=finder.path).resolve_settings().sha256 != finder.sha256
    with pytest.raises(PlanError, match="sha256"):
        Spans(use="spans", path=finder.path, sha256=finder.sha256).resolve_settings()


PLAN = """
[find]
kinds = ["EMAIL_ADDRESS", "PERSON", "LOCATION"]
finders = ["patterns", {{ use = "spans", path = "{path}"{options} }}]
[[edit]]
use = "redact"
kinds = ["EMAIL_ADDRESS", "PERSON", "LOCATION"]
"""


def run_plan(folder: Path, rows: list[Any], options: str = "") -> tuple[list[str], RunResult]:
    pq.write_table(
        pa.table({"text": TEXTS, "doc_id": IDS, "title": ["Poe", "", "by Ann Poe", ""]}),
        folder / "in.parquet",
    )
    (folder / "s.jsonl").write_bytes(to_json_lines(rows))
    (folder / "plan.toml").write_text(PLAN.format(path=folder / "s.jsonl", options=options))
    settings = Settings(seed=1, rows_per_shard=2, workers=1)
    result = run_with_settings(
        folder / "in.parquet", folder / "out", str(folder / "plan.toml"), settings=settings
    )
    tables = [pq.read_table(path) for path in sorted((folder / "out" / "data").iterdir())]
    return [
        text for table in tables for name in ("text", "title") for text in table[name].to_pylist()
    ], result


def test_a_plan_with_spans(tmp_path: Path) -> None:
    rows = [*OWN_ROWS, {"doc_id": "m-3", "cell": 1, "start": 3, "end": 10, "kind": "PERSON"}]
    texts, result = run_plan(tmp_path, [{"cell": 0, **row} for row in rows])
    assert (
        texts[0] == "[PERSON-1] wrote to [PERSON-2]." or texts[0] == "[PERSON] wrote to [PERSON]."
    )
    assert "Ann Poe" not in " ".join(texts) and "Elm Lane" not in " ".join(texts)
    assert result.by_kind["PERSON"].replaced == 4


def test_spans_of_unknown_documents_stop_the_run_unless_subset_is_set(tmp_path: Path) -> None:
    rows = [*OWN_ROWS, {"doc_id": "m-9", "start": 0, "end": 1, "kind": "PERSON"}]
    with pytest.raises(
        InputRefused,
        match=(
            "1 of 5 spans name documents or cells that are not in the corpus; nothing was published"
        ),
    ):
        run_plan(tmp_path, rows)
    assert not (tmp_path / "out").exists()
    _, result = run_plan(tmp_path, rows, ", subset = true")
    assert any("1 of 5 spans name documents" in note for note in result.notes)
