"""The table of occurrences that the stage detection writes."""

import json
from pathlib import Path

import pyarrow.parquet as pq

import sanitize


def test_occurrences_are_in_corpus_order_when_columns_are_searched_together(tmp_path: Path) -> None:
    """Small columns are searched as one; first occurrences and draws need the order of documents,
    cells and positions."""
    rows = [
        {
            "text": f"Write to ann{number}@example.com",
            "subject": f"bob{number}@example.org",
            "notes": ["cleo@example.com", "192.0.2.7"],
        }
        for number in range(4)
    ]
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    sanitize.run(source, tmp_path / "out", seed=1, workers=1)
    (table,) = (tmp_path / "out.private" / "tables" / "occurrences").glob("*.parquet")
    places = [
        tuple(row.values())
        for row in pq.read_table(table, columns=["doc_no", "cell", "start"]).to_pylist()
    ]
    assert len(places) == 16
    assert places == sorted(places)
