"""An append that is killed leaves OUT as it was, and the same command then ends with the bytes of an undisturbed append."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sanitize.core.command_results import RunResult
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.storage.corpus import Corpus

SETTINGS = {"seed": 1, "workers": 1, "rows_per_shard": 25}


def run_rmft(harness: Any, out: Path, inputs: list[Path], **more: Any) -> RunResult:
    return run_with_settings(inputs, out, load_plan("rmft"), None, Settings(**{**SETTINGS, **more}))


@pytest.mark.soak
def test_append_resumes_after_kills_with_identical_bytes(harness: Any, tmp_path_factory: Any, hash_tree: Any) -> None:
    first, second = harness.inputs
    undisturbed = tmp_path_factory.mktemp("undisturbed") / "out"
    run_rmft(harness, undisturbed, [first])
    old = hash_tree(undisturbed)
    run_rmft(harness, undisturbed, [first, second], append=True)
    run_rmft(harness, harness.out, [first])
    assert hash_tree(harness.out) == old
    harness.options = ["--seed", 1, "--rows-per-shard", 25, "--append"]
    # finished tasks are not repeated, so a resume reaches a failpoint less often than the run before
    for failpoint in ("task:file_renamed:3", "detect:index_complete:1", "publish:folder_complete:1"):
        with harness.watch_output():
            result = harness.run_command(SANITIZE_CRASH_AT=failpoint)
        assert (result.code, result.out) == (137, ""), failpoint
        assert hash_tree(harness.out) == old, failpoint
        Corpus.open(harness.out).check()
        harness.check_no_canaries()
    summary = run_rmft(harness, harness.out, [second], append=True)
    assert summary.changed and summary.to_dict()["appended"] == {"files": 1, "documents": 30, "shards": 2}
    assert hash_tree(harness.out) == hash_tree(undisturbed)
    harness.check_files()
