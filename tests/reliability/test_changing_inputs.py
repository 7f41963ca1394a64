"""Inputs and private folders that another program changes or moves during a run: nothing is
published, and a later run reads what is there then."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sanitize
from sanitize.core import failpoints
from sanitize.errors import InputRefused, OutputBroken
from sanitize.pipeline.indexing import index_reuse
from sanitize.pipeline.indexing.index_state import IndexInputs
from sanitize.storage.private_folder import read_workspace


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


MOVED = "was moved, replaced or deleted while this command used it"


@pytest.mark.parametrize(
    ("point", "is_replaced"),
    [
        ("workspace:created", False),  # a second WORK would be made, and published from
        ("detect:index_json_written", False),
        ("run:plan_written", True),
    ],
)
def test_a_private_folder_that_is_moved_during_a_run_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, is_replaced: bool
) -> None:
    """Nothing is published, what something else put in its place stays, and the run resumes once
    the folder is back."""
    write_lines(tmp_path / "a.jsonl", 0, 6)
    work, moved = tmp_path / "work", tmp_path / "moved"

    def move_at_point(reached: str) -> None:
        if reached == point:
            work.rename(moved)
            if is_replaced:
                work.mkdir()
                (work / "mine.tmp").write_text("of another program")

    def run() -> None:
        sanitize.run(
            tmp_path / "a.jsonl", tmp_path / "out", work=work, plan="redact", seed=1, workers=1
        )

    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "hit", move_at_point)
        with pytest.raises(OutputBroken, match=f"^{work}: {MOVED}"):
            run()
    assert not (tmp_path / "out").exists()
    assert (work / "mine.tmp").exists() == is_replaced
    shutil.rmtree(work, ignore_errors=True)
    moved.rename(work)
    run()
    assert sanitize.Corpus.open(tmp_path / "out").table().num_rows == 6


def test_a_state_that_is_moved_during_a_stream_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch is not acknowledged in another folder that has taken the place of the state."""
    records = [{"text": f"Mail bob.ray{number}@example.org now."} for number in range(6)]
    state, moved = tmp_path / "state", tmp_path / "moved"
    plain = list(sanitize.stream(records, plan="rmft", state=tmp_path / "other", seed=1))
    taken = []

    def move_state(point: str) -> None:
        if point == "stream:state_written" and len(taken) > 2:
            state.rename(moved)
            (state / "vault").mkdir(parents=True)

    options: Any = {"plan": "rmft", "state": state, "seed": 1, "batch": 2}
    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "hit", move_state)
        with pytest.raises(OutputBroken, match=f"^{state}: {MOVED}"):
            taken += itertools.islice(taken_from := sanitize.stream(records, **options), 3)
            taken += taken_from
    assert not (state / "state.json").exists()
    shutil.rmtree(state)
    moved.rename(state)
    assert list(sanitize.stream(records[2:], **options)) == plain[2:]


def test_tables_that_are_moved_while_they_are_read_are_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_lines(tmp_path / "a.jsonl", 0, 6)
    work = tmp_path / "work"
    sanitize.index(tmp_path / "a.jsonl", work, plan="redact", seed=1, workers=1)
    with pytest.raises(OutputBroken, match=f"^{work}: {MOVED}"), read_workspace(work, "q") as spill:
        work.rename(tmp_path / "moved")
        (spill / "table").touch()
