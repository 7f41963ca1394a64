"""Results of finished tasks are reused exactly as long as everything they depend on is the same,
stage by stage."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sanitize.editors.redact import Redact
from sanitize.editors.rmft import Rmft
from sanitize.errors import InputRefused, UsageError
from sanitize.pipeline import canaries, run_state, shard_checking
from sanitize.pipeline.indexing import index_state
from sanitize.pipeline.run import run_with_settings
from sanitize.pipeline.run_results import RunResult
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.readers import staging
from sanitize.readers.sandbox import SandboxedReader
from sanitize.readers.survey import InputUnit
from sanitize.stages import detection, rewriting
from sanitize.storage import table_schemas
from sanitize.storage.task_records import load_record

STAGE_TASKS = {
    "find": (detection, "find_task"),
    "apply": (rewriting, "rewrite_task"),
    "verify": (shard_checking, "verify_task"),
}


@pytest.fixture()
def task_counts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How often the tasks of each stage ran."""
    counts: Counter[str] = Counter()
    for name, (module, task) in STAGE_TASKS.items():
        original_task = getattr(module, task)

        def count_and_run(
            task_input: Any, name: str = name, original_task: Callable[[Any], Any] = original_task
        ) -> Any:
            counts[name] += 1
            return original_task(task_input)

        monkeypatch.setattr(module, task, count_and_run)
    check_canaries = canaries.check_canaries

    def check_without_counting(*arguments: Any) -> dict[str, Any]:
        counts_before = Counter(counts)
        result = check_canaries(*arguments)
        counts.clear()
        counts.update(counts_before)  # the canary check runs the stages with documents of its own
        return result

    monkeypatch.setattr(canaries, "check_canaries", check_without_counting)
    stage_units = SandboxedReader._stage_units

    def count_and_stage(self: SandboxedReader, units: list[InputUnit]) -> dict[int, dict[str, Any]]:
        # the reader runs in another process: it stages the units without a matching record
        counts.update(
            "read"
            for job in map(self._staging_job, units)
            if load_record(job.record_path, job.fingerprint) is None
        )
        return stage_units(self, units)

    monkeypatch.setattr(SandboxedReader, "_stage_units", count_and_stage)
    yield counts


def run_rmft(harness: Any, **more: Any) -> RunResult:
    settings = {"seed": 1, "workers": 1, "rows_per_shard": 25, "replace": True, **more}
    return run_with_settings(
        harness.inputs, harness.out, load_plan("rmft"), None, Settings(**settings)
    )


def set_library_version(name: str) -> Callable[[pytest.MonkeyPatch], None]:
    """A library with another version."""
    versions = {**index_state.get_library_versions(), name: "0.0.1"}
    return lambda patch: patch.setattr(index_state, "get_library_versions", lambda: versions)


def bump_version(module: Any, name: str = "VERSION") -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(module, name, getattr(module, name) + 1)


# for 44 documents in shards of 25, half of them staged
ALL_TASKS = {
    "read": 1,
    "find": 2,
    "apply": 2,
    "verify": 2,
}
PLAN_TASKS = {"apply": 2, "verify": 2}
DETECT_AND_PLAN_TASKS = {"find": 2, **PLAN_TASKS}
Change = tuple[str, Callable[[pytest.MonkeyPatch], None], dict[str, Any], dict[str, int]]
# applied in order on the same WORK; each is compared with the one before
PLAN_CHANGES: list[Change] = [
    ("nothing", lambda patch: None, {}, {"verify": 2}),  # the leak check always runs again
    ("an editor", bump_version(Rmft), {}, PLAN_TASKS),
    ("another editor", bump_version(Redact), {}, PLAN_TASKS),
    ("apply", bump_version(rewriting), {}, PLAN_TASKS),
    ("verify", bump_version(run_state, "LEAK_CHECK_VERSION"), {}, PLAN_TASKS),
    ("no verify", lambda patch: None, {"verify": "off"}, {}),
    ("polars", set_library_version("polars"), {}, PLAN_TASKS),
]
INDEX_CHANGES: list[Change] = [
    ("the finders", bump_version(detection), {}, DETECT_AND_PLAN_TASKS),
    ("the tables", bump_version(table_schemas), {}, DETECT_AND_PLAN_TASKS),
    ("the key", lambda patch: None, {"seed": 2}, DETECT_AND_PLAN_TASKS),
    ("the shards", lambda patch: None, {"rows_per_shard": 22}, DETECT_AND_PLAN_TASKS),
    ("the limit of a document", lambda patch: None, {"max_doc_bytes": 1 << 20}, ALL_TASKS),
    ("the readers", bump_version(staging), {}, ALL_TASKS),
    ("phonenumbers", set_library_version("phonenumbers"), {}, ALL_TASKS),
    ("sanitize", set_library_version("corpus-sanitize"), {}, ALL_TASKS),
]


@pytest.mark.slow
@pytest.mark.parametrize("changes", [PLAN_CHANGES, INDEX_CHANGES], ids=["plan", "index"])
def test_a_change_repeats_only_dependent_tasks(
    harness: Any, task_counts: Counter[str], monkeypatch: pytest.MonkeyPatch, changes: list[Change]
) -> None:
    harness.rerun()
    assert task_counts == ALL_TASKS
    for name, change, settings, expected in changes:
        shutil.rmtree(harness.out)  # as if the run had been stopped just before publication
        task_counts.clear()
        with monkeypatch.context() as patch:
            change(patch)
            run_rmft(harness, **settings)
        assert task_counts == expected, name
        harness.check_files()


DAMAGED_FILES = {
    "tables/occurrences/00001.parquet": "find",
    "vault/values/00000.parquet": "find",
    "tables/value_counts/all.parquet": "",
    "documents/00000.parquet": "read",
    "runs/*/shards/00001.parquet": "apply",
    "runs/*/edits/00001.parquet": "apply",
    "runs/*/counts/0-first_occurrences.parquet": "",
}


@pytest.mark.slow
def test_damaged_files_are_rebuilt(harness: Any, task_counts: Counter[str]) -> None:
    harness.rerun()
    for pattern, stage in DAMAGED_FILES.items():
        shutil.rmtree(harness.out)
        task_counts.clear()
        (path,) = harness.work.glob(pattern)
        raw = bytearray(path.read_bytes())
        raw[len(raw) // 3] ^= 1
        path.write_bytes(raw)
        harness.rerun()
        assert task_counts == {"verify": 2} | ({stage: 1} if stage else {}), pattern


def test_changed_input_is_reported_without_file_names(
    harness: Any, task_counts: Counter[str]
) -> None:
    harness.rerun()
    task_counts.clear()
    shutil.rmtree(harness.out)
    inputs, texts = list(harness.inputs), harness.inputs[0].read_bytes()
    for change, expected_message in (
        (
            lambda: harness.inputs[0].write_bytes(texts.replace(b"wrote", b"wrotE", 1)),
            "1 of 2 files changed: file 1, ",
        ),
        (lambda: harness.inputs.pop(), "2 files, now 1, 1 of them missing or changed, 0 new"),
        (lambda: harness.inputs.reverse(), "the same files, in another order"),
    ):
        change()
        with pytest.raises(UsageError) as caught:
            run_rmft(harness, replace=False)
        message = str(caught.value)
        assert expected_message in message and all(
            option in message for option in ("Restore the input", "--replace", "another --work")
        )
        assert "in.a" not in message and not task_counts  # a file's name may be a person's
        harness.inputs[:] = inputs
        inputs[0].write_bytes(texts)
    harness.rerun()
    assert task_counts == {"verify": 2}
    task_counts.clear()
    inputs[0].write_bytes(texts.replace(b"wrote", b"wrotE", 1))
    with pytest.raises(
        UsageError, match="was made from another input .1 of 2 files changed: file 1, "
    ):
        run_rmft(harness, replace=False)
    summary = run_rmft(harness)
    assert (
        "another input (1 of 2 files changed" in " ".join(summary.notes)
        and task_counts == ALL_TASKS
    )


@pytest.mark.slow
def test_an_input_that_changes_during_a_run_is_refused(
    harness: Any, task_counts: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checked at the end of detection and again just before OUT is swapped; what was read of the
    input is deleted."""
    harness.place_old_output()
    texts = harness.inputs[0].read_bytes()
    for module, name in ((detection, "find_task"), (shard_checking, "verify_task")):
        original_task = getattr(module, name)

        def change_input_and_run(
            task: Any, original_task: Callable[[Any], Any] = original_task
        ) -> Any:
            harness.inputs[0].write_bytes(texts + b'{"text": "canary late"}\n')
            return original_task(task)

        with monkeypatch.context() as patch:
            patch.setattr(module, name, change_input_and_run)
            with pytest.raises(
                InputRefused,
                match="file 1 of the input changed while it was being read; nothing was published",
            ):
                run_rmft(harness)
        assert (
            harness.output_state() == "old"
            and not (harness.work / "index.json").exists()
            and not (harness.work / "tasks").exists()
        )
        harness.inputs[0].write_bytes(texts)
    task_counts.clear()
    harness.rerun()
    assert task_counts == ALL_TASKS
    # a new modification time with the same content does not stop the run
    shutil.rmtree(harness.out)
    with monkeypatch.context() as patch:
        original_task = shard_checking.verify_task
        patch.setattr(
            shard_checking,
            "verify_task",
            lambda task: (os.utime(harness.inputs[0]), original_task(task))[1],
        )
        harness.rerun()


def test_leftovers_of_a_killed_run_are_deleted(harness: Any) -> None:
    harness.rerun()
    shutil.rmtree(harness.out)
    for leftover in (
        "tasks/detect/00009.json.tmp",
        "index.json.tmp",
        "spill/detect-1/half.parquet",
        "spill/duckdb_temp_storage.tmp",
    ):
        (harness.work / leftover).parent.mkdir(parents=True, exist_ok=True)
        (harness.work / leftover).write_text("canary")
    harness.rerun()  # checks that WORK has only known files


def test_records_hold_no_text(harness: Any) -> None:
    harness.rerun()
    records = sorted(harness.work.rglob("tasks/**/*.json"))
    assert len(records) == 1 + 1 + 1 + 2 + 2 + 2 + 1 + 2 + 2 + 2
    for path in records:
        record = json.loads(path.read_text())
        assert set(record) == {"fingerprint", "files", "result"} and (
            record["files"]
            or path.name.startswith("check-")
            or path.parent.name in ("columns", "column_cells")
        )
        assert all(
            (path.parent / file).resolve().is_relative_to(harness.work.resolve())
            for file in record["files"]
        )
        assert not any(Path(file).is_absolute() for file in record["files"]) and all(
            len(file_hash) == 64 for file_hash in record["files"].values()
        )
    harness.check_no_canaries()
