"""Intermediate columns are computed in slices of rows: how many changes neither bytes nor
counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sanitize
from sanitize.editors import rmft
from sanitize.reporting import outcomes
from sanitize.storage.files import file_sha256
from sanitize.verification import batch_check

CONSTANTS = [
    (rmft, "_DRAWN_AT_ONCE"),
    (batch_check, "_MATCHES_AT_ONCE"),
    (outcomes, "_ROWS_AT_ONCE"),
]
TEXTS = [
    f"From: ann{n % 3}@example.com, call 713-555-01{n % 4}{n % 5}, id713-555-01{n % 4}{n % 5}x"
    f" [ann{n % 2}@example.com]"
    for n in range(12)
]


@pytest.mark.parametrize(("plan", "size"), [("rmft", 1), ("erase", 5)])
def test_slices_of_any_size_give_the_same_output(
    plan: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    results = []
    for rows in (None, size):
        for module, name in CONSTANTS if rows else ():
            assert getattr(module, name) > 1000
        for module, name in CONSTANTS if rows else ():
            monkeypatch.setattr(module, name, rows)
        out = tmp_path / f"out{rows}"
        found = sanitize.run(tmp_path / "in.jsonl", out, plan=plan, seed=1, workers=1)
        monkeypatch.undo()
        shards = [file_sha256(path) for path in sorted((out / "data").iterdir())]
        results.append((shards, found.by_kind, found.verify.swept, dict(found.verify.inconclusive)))
    assert results[0] == results[1] and results[0][2] > 0
