"""The occurrences of the summary and those of SQL: what the finders found, and what the leak check
swept, each under its name."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import sanitize
from sanitize.cli.console import format_kind_counts

ROWS = [
    "bob.mann@example.com and ｂｏｂ.mann@example.com",
    "bob.mann@example.com",
    f"sent as {base64.b64encode(b'write to bob.mann@example.com').decode()}",
    "ann.roe@example.com, 192.0.2.7",
]


def test_found_and_swept_occurrences_add_up_to_those_of_the_summary(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in ROWS))
    result = sanitize.run([source], tmp_path / "out", plan="surrogates", seed=1, workers=1)
    assert result.verify.swept > 0, "nothing was swept: this tests nothing"
    assert sum(counts.swept for counts in result.by_kind.values()) == result.verify.swept
    rows = sanitize.sql(tmp_path / "out.private", name="occurrences_by_finder").rows()
    found = {(kind, finder): occurrences for kind, finder, occurrences, _ in rows}
    for kind, counts in result.by_kind.items():
        assert found.get((kind, "sweep"), 0) == counts.swept
        assert (
            sum(times for (name, _), times in found.items() if name == kind) == counts.occurrences
        )
    assert format_kind_counts(result.by_kind).splitlines()[0].endswith("swept")
