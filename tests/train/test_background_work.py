"""Threads beside the training loop keep the order, hand errors on, and change no byte of a run."""

from __future__ import annotations

import hashlib
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from sanitize import train
from sanitize.train import checkpoint
from sanitize.train.background_work import BackgroundWriter, Prefetcher
from sanitize.train.objectives.causal import Causal


def count_threads(name: str) -> int:
    return sum(thread.name == name for thread in threading.enumerate())


def hash_files(run: Path) -> dict[str, str]:
    """The hashes of all files of checkpoints, by path."""
    files = sorted(file for file in (run / "checkpoints").rglob("*") if file.is_file())
    return {str(file.relative_to(run)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def test_files_are_written_in_order_and_nothing_after_an_error() -> None:
    done: list[int] = []

    def fail() -> None:
        raise OSError("full")

    with BackgroundWriter() as writer:
        for number in range(5):
            writer.submit(lambda number=number: (time.sleep(0.01), done.append(number)))  # type: ignore[misc]
        writer.wait()
        assert done == [0, 1, 2, 3, 4]
    with pytest.raises(OSError, match="full"), BackgroundWriter() as writer:
        writer.submit(fail)
        try:
            for number in range(5, 9):
                writer.submit(lambda number=number: done.append(number))  # type: ignore[misc]
        finally:
            with pytest.raises(OSError, match="full"):
                writer.wait()
    assert done == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="of the loop"), BackgroundWriter() as writer:
        writer.submit(lambda: (time.sleep(0.05), done.append(9)))
        raise ValueError("of the loop")
    assert done[-1] == 9, "what was submitted is written before the block ends"
    time.sleep(0.05)
    assert not count_threads("writer of checkpoints")


def test_batches_are_prepared_in_order_and_a_few_ahead() -> None:
    prepared: list[int] = []

    def prepare(number: int) -> int:
        if number == 8:
            raise KeyError("batch 8")
        prepared.append(number)
        return number * number

    with Prefetcher(prepare, 2, 20, ahead=2) as prefetcher:
        time.sleep(0.3)
        assert prepared == [2, 3, 4], "two that wait, and one in hand"
        assert [prefetcher.get(number) for number in range(2, 8)] == [4, 9, 16, 25, 36, 49]
        with pytest.raises(KeyError, match="batch 8"):
            prefetcher.get(8)
    assert prepared == list(range(2, 8)) and not count_threads("prefetch of batches")
    with pytest.raises(ValueError, match="of the loop"), Prefetcher(abs, 0, 100, ahead=1):
        raise ValueError("of the loop")
    assert not count_threads("prefetch of batches")


def test_training_goes_on_while_a_checkpoint_is_written(corpus: Any, recipe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first checkpoint is renamed only once the second step has begun: its files are those of a run that waits for each write."""
    settings = recipe(corpus(), run={"state_every": 1})
    train.fit({**settings, "run": {**settings["run"], "background_save": False}}, tmp_path / "waiting")
    steps, second_step, order = [0], threading.Event(), list[str]()
    commit_folder, loss_sums, write_json = checkpoint._commit_folder, Causal.loss_sums, train.training_run.write_json

    def commit_late(temporary: Path, path: Path) -> None:
        assert path.name != "step-000000" or second_step.wait(60), "training waits for the file"
        if path.parent.name == "checkpoints" and path.name == "step-000008":
            time.sleep(0.3)
        commit_folder(temporary, path)
        order.append(f"{path.parent.name}/{path.name}")

    def count_steps(self: Causal, *arguments: Any, **options: Any) -> Any:
        steps[0] += 1
        if steps[0] == 2:  # the second step: the first state waits in the queue
            second_step.set()
        return loss_sums(self, *arguments, **options)

    monkeypatch.setattr(checkpoint, "_commit_folder", commit_late)
    monkeypatch.setattr(Causal, "loss_sums", count_steps)
    monkeypatch.setattr(train.training_run, "write_json", lambda path, content: (order.append(path.name), write_json(path, content)))
    result = train.fit(settings, tmp_path / "run")
    assert hash_files(tmp_path / "run") == hash_files(tmp_path / "waiting")
    assert order[:2] == ["recipe.json", "checkpoints/step-000000"]
    assert order[-3:] == [f"checkpoints/{result.final}", f"state/{result.final}", "train.json"], "the run ends when all is on disk"
    assert not count_threads("prefetch of batches")


def test_an_error_in_a_batch_is_that_of_the_run(corpus: Any, recipe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collate, calls = Causal.collate, [0]

    def fail_late(self: Causal, batch: Any, *, training: bool) -> Any:
        calls[0] += 1
        if calls[0] == 4:
            raise LookupError("in the thread")
        return collate(self, batch, training=training)

    monkeypatch.setattr(Causal, "collate", fail_late)
    with pytest.raises(LookupError, match="in the thread"):
        train.fit(recipe(corpus()), tmp_path / "run")
    assert not count_threads("prefetch of batches")
    log = (tmp_path / "run" / "log.jsonl").read_text().splitlines()
    assert len(log) == 3, "the steps before it were made"
