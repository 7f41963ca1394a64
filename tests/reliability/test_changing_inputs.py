"""An input that another program changes during a run: nothing is published, and a later run reads
what is there then."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sanitize
from sanitize.errors import InputRefused
from sanitize.pipeline.indexing import index_reuse
from sanitize.pipeline.indexing.index_state import IndexInputs


def write_lines(path: Path, first: int, end: int) -> None:
    rows = [
        {"doc_id": f"r{number}", "text": f"Mail bob.ray{number}@example.org now."}
        for number in range(first, end)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def grow(path: Path) -> None:
    write_lines(path, 10, 29)


def shrink(path: Path) -> None:
    write_lines(path, 10, 12)


def remove(path: Path) -> None:
    path.unlink()


def edit_in_place(path: Path) -> None:
    """Another text of the same size, and the old time of modification, as some editors and copies
    leave it."""
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    path.write_text(path.read_text().replace("bob.ray", "bob.rax"))
    os.utime(path, ns=times)


@pytest.mark.parametrize(
    ("owner", "name", "is_after", "change"),
    [
        (IndexInputs, "hash_file", False, grow),  # between survey and hash
        (IndexInputs, "hash_file", False, shrink),
        (IndexInputs, "hash_file", False, remove),
        (IndexInputs, "hash_inputs", True, remove),  # between hash and reading
        (IndexInputs, "hash_inputs", True, edit_in_place),
        (index_reuse, "check_inputs_unchanged", False, edit_in_place),
    ],
)
def test_changes_between_the_steps_of_a_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    name: str,
    is_after: bool,
    change: Callable[[Path], None],
) -> None:
    (tmp_path / "in").mkdir()
    write_lines(tmp_path / "in" / "a.jsonl", 0, 6)
    write_lines(path := tmp_path / "in" / "b.jsonl", 6, 12)
    content = path.read_bytes()
    original, pending = getattr(owner, name), [change]

    def call_and_change(*arguments: Any) -> Any:
        result = original(*arguments) if is_after else None
        if pending:
            pending.pop()(path)
        return result if is_after else original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, call_and_change)
        with pytest.raises(
            InputRefused,
            match="file .*of the input changed while it was being read; nothing was published",
        ):
            sanitize.run([tmp_path / "in"], tmp_path / "out", plan="redact", seed=1, workers=1)
    assert not (tmp_path / "out").exists()
    path.write_bytes(content)
    sanitize.run([tmp_path / "in"], tmp_path / "out", plan="redact", seed=1, workers=1)
    corpus = sanitize.Corpus.open(tmp_path / "out")
    assert corpus.table().num_rows == 12
    assert corpus.manifest["inputs"][1]["sha256"] == hashlib.sha256(content).hexdigest()
    assert corpus.manifest["inputs"][1]["bytes"] == len(content)
