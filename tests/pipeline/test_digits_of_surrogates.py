"""The digits of a surrogate may be those of a removed value: a coincidence, if the surrogate is of
another kind; else a leak."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import sanitize
from sanitize.errors import LeakFound
from sanitize.verification.published.output_check import verify

# the digits of +1 432-555-0185 and of 432-555-0185, with other separators
ROWS = [
    "from 192.0.2.7, call +1 432-555-0185",
    "from 192.0.2.8, call 432-555-0185",
    "from 192.0.2.9",
]
SURROGATES = ["143.255.50.185", "43.255.50.185"]
EDITOR = f"""
import numpy as np
import pyarrow as pa
from sanitize.core.part_protocols import Editor, OccurrenceEdits

class Fixed(Editor):
    kinds: tuple[str, ...]

    def edit_occurrences(self, batch):
        count = batch.occurrences.height
        texts = [{SURROGATES}[row % {len(SURROGATES)}] for row in range(count)]
        return OccurrenceEdits(np.arange(count), pa.array(texts, pa.large_string()))
"""


def run(folder: Path, kind: str) -> sanitize.RunResult:
    """A run that replaces values of `kind` by the surrogates, and telephone numbers and addresses
    of hosts otherwise by a label."""
    (folder / "own_editors").mkdir()
    (folder / "own_editors" / "fixed.py").write_text(EDITOR)
    (folder / "in.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in ROWS))
    other = {"IP_ADDRESS": "PHONE_NUMBER", "PHONE_NUMBER": "IP_ADDRESS"}[kind]
    (folder / "plan.toml").write_text(
        '[find]\nkinds = ["IP_ADDRESS", "PHONE_NUMBER"]\n[[edit]]\nuse ='
        f' "own_editors.fixed"\nkinds = ["{kind}"]\n[[edit]]\nuse = "redact"\nkinds = ["{other}"]\n'
    )
    return sanitize.run(
        [folder / "in.jsonl"], folder / "out", plan=folder / "plan.toml", seed=1, workers=1
    )


def test_digits_of_a_surrogate_of_another_kind_are_a_coincidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    result = run(tmp_path, "IP_ADDRESS")
    texts = pl.read_parquet(tmp_path / "out" / "data" / "*.parquet")["text"].to_list()
    assert texts == [
        "from 143.255.50.185, call [PHONE_NUMBER]",
        "from 43.255.50.185, call [PHONE_NUMBER]",
        "from 143.255.50.185",
    ]
    assert (
        result.leaks == 0
        and result.verify.swept == 0
        and verify(tmp_path / "out", workers=1).leaks == 0
    )


def test_digits_of_a_surrogate_of_the_same_kind_are_a_leak(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(LeakFound, match=r"column text \(a replacement\): \d PHONE_NUMBER"):
        run(tmp_path, "PHONE_NUMBER")
    assert not (tmp_path / "out").exists()
