"""A shard that is rewritten after a sweep may get replacements that hold a removed value: it is
swept again, up to a limit."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path

import polars as pl
import pytest

import sanitize
from sanitize.errors import LeakFound
from sanitize.pipeline import shard_checking
from sanitize.pipeline.shard_checking import MAX_SWEEPS
from sanitize.verification.published.output_check import verify

BOB = "bob.mann@example.com"
ENCODED = base64.b64encode(f"write to {BOB}".encode()).decode()
ROWS = [
    f"{BOB} and ann.roe@example.com",
    f"sent as {ENCODED} to cyd.lee@example.com",
    "ben.day@example.com",
]
# an editor that writes an encoded value into replacements as soon as something was swept: once for
# each value, or always
EDITOR = f"""
import numpy as np
import polars as pl
from sanitize.core.arrow_buffers import to_large_string
from sanitize.core.part_protocols import Editor, OccurrenceEdits

class Encoding(Editor):
    kinds: tuple[str, ...] = ("EMAIL_ADDRESS",)
    ends: bool = True

    def edit_occurrences(self, batch):
        frame = batch.occurrences
        label = pl.when(pl.lit(frame["swept"].any()) & ((pl.col("swept") == False) | pl.lit(not self.ends)))
        labels = frame.select(label.then(pl.lit("id={ENCODED}")).otherwise(pl.lit("[MAIL]")).alias("label"))["label"]
        return OccurrenceEdits(np.arange(frame.height), to_large_string(labels))
"""  # noqa: E501


def run(folder: Path, ends: bool, rows_per_shard: int = 100) -> sanitize.RunResult:
    (folder / "own_editors").mkdir(exist_ok=True)
    (folder / "own_editors" / "encoding.py").write_text(EDITOR)
    (folder / "in.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in ROWS))
    (folder / "plan.toml").write_text(
        '[find]\nkinds = ["EMAIL_ADDRESS"]\n[[edit]]\nuse = "own_editors.encoding"\nends ='
        f" {str(ends).lower()}\n"
    )
    return sanitize.run(
        [folder / "in.jsonl"],
        folder / "out",
        plan=folder / "plan.toml",
        seed=1,
        workers=1,
        rows_per_shard=rows_per_shard,
        replace=True,
    )


def test_what_a_rewritten_shard_holds_is_swept_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    result = run(tmp_path, ends=True)
    texts = pl.read_parquet(tmp_path / "out" / "data" / "*.parquet")["text"].to_list()
    assert not any(ENCODED[:20] in text or "@" in text for text in texts)
    assert result.leaks == 0 and verify(tmp_path / "out", workers=1).leaks == 0
    # the encoded one of the input, and the four addresses of the shard
    assert result.verify.swept == 5
    assert sum(counts.swept for counts in result.by_kind.values()) == result.verify.swept
    rows = sanitize.sql(tmp_path / "out.private", name="occurrences_by_finder").rows()
    assert sum(times for _, finder, times, _ in rows if finder == "sweep") == result.verify.swept
    hashes = [path.read_bytes() for path in sorted((tmp_path / "out" / "data").iterdir())]
    shutil.rmtree(tmp_path / "out")  # the same run, computed again from what is in WORK
    run(tmp_path, ends=True)
    assert hashes == [path.read_bytes() for path in sorted((tmp_path / "out" / "data").iterdir())]


def test_only_shards_with_something_left_are_rewritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    assert run(tmp_path, ends=True, rows_per_shard=1).verify.swept == 2  # of the second shard


def test_sweeps_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    sweeps = []
    original = shard_checking.rewrite_swept_shards
    monkeypatch.setattr(
        shard_checking,
        "rewrite_swept_shards",
        lambda *inputs: (sweeps.append(list(inputs[-1])), original(*inputs))[1],
    )
    with pytest.raises(LeakFound, match="removed values still occur in the output"):
        run(tmp_path, ends=False)
    assert sweeps == [[0]] * MAX_SWEEPS and not (tmp_path / "out").exists()
