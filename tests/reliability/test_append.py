"""An append that is killed leaves OUT as it was, and the same command then ends with the bytes of
an undisturbed append."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from sanitize.pipeline.run import run_with_settings
from sanitize.pipeline.run_results import RunResult
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.storage.corpus import Corpus

SETTINGS = {"seed": 1, "workers": 1, "rows_per_shard": 25}


def run_rmft(harness: Any, out: Path, inputs: list[Path], **more: Any) -> RunResult:
    return run_with_settings(inputs, out, load_plan("rmft"), None, Settings(**{**SETTINGS, **more}))


@pytest.mark.soak
def test_append_resumes_after_kills_with_identical_bytes(
    harness: Any, tmp_path_factory: Any, hash_tree: Any
) -> None:
    first, second = harness.inputs
    undisturbed = tmp_path_factory.mktemp("undisturbed") / "out"
    run_rmft(harness, undisturbed, [first])
    old = hash_tree(undisturbed)
    run_rmft(harness, undisturbed, [first, second], append=True)
    run_rmft(harness, harness.out, [first])
    assert hash_tree(harness.out) == old
    harness.options = ["--seed", 1, "--rows-per-shard", 25, "--append"]
    # finished tasks are not repeated, so a resume reaches a failpoint less often than the run
    # before
    for failpoint in (
        "task:file_renamed:3",
        "detect:index_complete:1",
        "publish:folder_complete:1",
    ):
        with harness.watch_output():
            result = harness.run_command(SANITIZE_CRASH_AT=failpoint)
        assert (result.code, result.out) == (137, ""), failpoint
        assert hash_tree(harness.out) == old, failpoint
        Corpus.open(harness.out).check()
        harness.check_no_canaries()
    summary = run_rmft(harness, harness.out, [second], append=True)
    assert summary.changed and summary.to_dict()["appended"] == {
        "files": 1,
        "documents": 22,
        "shards": 1,
    }
    assert hash_tree(harness.out) == hash_tree(undisturbed)
    harness.check_files()


@pytest.mark.soak
@pytest.mark.new_interpreter
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(4))
def test_append_resumes_after_kills_at_random_moments(
    harness: Any, tmp_path_factory: Any, hash_tree: Any, record_property: Any, part: int
) -> None:
    """25 kills (SOAK_KILLS / 12), up to three in a row; each append then ends with the bytes of an
    undisturbed one."""
    first, second = harness.inputs
    undisturbed = tmp_path_factory.mktemp("undisturbed") / "out"
    run_rmft(harness, undisturbed, [first])
    old = hash_tree(undisturbed)
    run_rmft(harness, undisturbed, [first, second], append=True)
    new = hash_tree(undisturbed)
    run_rmft(harness, harness.out, [first])
    # the output and its workspace before the append
    published = tmp_path_factory.mktemp("published")
    for name in ("out", "out.private"):
        shutil.copytree(harness.folder / name, published / name)
    harness.options = ["--seed", 1, "--rows-per-shard", 25, "--append"]
    rng, kills, duration = random.Random(part), 0, 0.0
    while kills < int(os.environ.get("SOAK_KILLS", "300")) // 12:
        for name in ("out", "out.private"):
            shutil.rmtree(harness.folder / name)
            shutil.copytree(published / name, harness.folder / name)
        if not duration:
            start_time = time.monotonic()
            assert harness.run_command().code == 0 and hash_tree(harness.out) == new
            duration = time.monotonic() - start_time
            continue
        with harness.watch_output():
            for _ in range(rng.randint(1, 3)):
                process = harness.start()
                time.sleep(rng.uniform(duration / 3, duration * 1.1))
                os.killpg(process.pid, signal.SIGKILL)
                result = harness.wait_for_end(process)
                kills += result.code == -signal.SIGKILL
                assert hash_tree(harness.out) in (old, new)
                Corpus.open(harness.out).check()
                harness.check_no_canaries()
        run_rmft(harness, harness.out, [first, second], append=True)
        assert hash_tree(harness.out) == new
        harness.check_files()
    record_property("kills", kills)
