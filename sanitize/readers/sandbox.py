"""Parses untrusted input files in child processes with time and memory limits.

A crash, a hang or a decompression bomb quarantines the file, and does not stop the run:

    survey every file -> check Parquet that can be read in place by reading all of it -> decode all
    other files into WORK/documents

A batch of files is one task; only if its process dies are the files tried one by one, to find the
one that kills it. Each task has a memory limit, so that an allocation fails instead of filling the
machine, and a time limit far above what the size of its files explains. Later stages meet no bad
input: what cannot be read is a row without content, and an entry in the table `quarantine`.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanitize.core.engine import Engine, TaskResult, WorkerDied
from sanitize.errors import InputRefused
from sanitize.readers.staging import StagingTask, quarantine_unit_task, stage_task
from sanitize.readers.survey import (
    IndexedInput,
    InputFile,
    InputUnit,
    Roles,
    StagingLayout,
    StagingResult,
    Survey,
    format_refusal,
    is_readable_in_place,
    survey_files,
    survey_inputs,
)
from sanitize.storage import private_folder
from sanitize.storage.files import fsync
from sanitize.storage.task_records import Job, run_job

FILES_PER_SURVEY_TASK = 1_000  # files of one task
FILES_PER_CHECK_TASK, BYTES_PER_CHECK_TASK = 200, 64 << 20
# seconds for any task, plus seconds for each MB: readers process 50 MB a second, and a compressed
# MB may hold a hundred. While a task writes documents its time begins again, so that only a reader
# that hangs is ended. A few KB of Parquet may hold millions of short rows
BASE_TIME_LIMIT_S = 120.0
TIME_LIMIT_S_PER_MILLION_ROWS = 30.0  # measured: 2.5 s
TIME_LIMIT_S_PER_MB, TIME_LIMIT_S_PER_COMPRESSED_MB = 2.0, 20.0

# (stage name for the progress, function, tasks, seconds allowed for a task) -> (task number, its
# result or WorkerDied)
UntrustedRunner = Callable[
    [str, Callable[[Any], Any], Sequence[Any], Callable[[Any], float]],
    Iterator[tuple[int, TaskResult | WorkerDied]],
]


def survey_in_sandbox(
    engine: Engine,
    inputs: Sequence[Path],
    roles: Roles,
    memory_bytes: int,
    max_doc_bytes: int,
    indexed: IndexedInput | None = None,
) -> Survey:
    """Runs `survey_inputs` with every file opened in a child process that has `memory_bytes` more
    than at rest."""

    def survey_in_batches(
        files: list[InputFile], roles: Roles, max_doc_bytes: int
    ) -> list[InputFile]:
        cuts = range(0, len(files), FILES_PER_SURVEY_TASK)
        tasks = [
            (files[first : first + FILES_PER_SURVEY_TASK], roles, max_doc_bytes) for first in cuts
        ]
        files_by_task: dict[int, list[InputFile]] = {}
        for task_no, outcome in engine.map_untrusted(
            _survey_task,
            tasks,
            time_limit=lambda task: BASE_TIME_LIMIT_S + len(task[0]),
            memory_bytes=memory_bytes,
        ):
            files_by_task[task_no] = (
                outcome.result
                if isinstance(outcome, TaskResult)
                else survey_one_by_one(tasks[task_no][0], roles)
            )
        return [file for task_no in range(len(tasks)) for file in files_by_task[task_no]]

    def survey_one_by_one(files: list[InputFile], roles: Roles) -> list[InputFile]:
        surveyed = list(files)
        tasks = [([file], roles, max_doc_bytes) for file in files]
        for task_no, outcome in engine.map_untrusted(
            _survey_task,
            tasks,
            time_limit=lambda task: BASE_TIME_LIMIT_S,
            memory_bytes=memory_bytes,
        ):
            surveyed[task_no] = (
                outcome.result[0]
                if isinstance(outcome, TaskResult)
                else dataclasses.replace(files[task_no], reason=outcome.reason)
            )
        return surveyed

    return survey_inputs(inputs, roles, survey_in_batches, indexed, max_doc_bytes)


def _survey_task(task: tuple[list[InputFile], Roles, int]) -> list[InputFile]:
    return survey_files(*task)


@dataclass(frozen=True, kw_only=True)
class InPlaceCheckTask:
    """Parquet files that may be read in place, to be checked by reading them."""

    units: tuple[InputUnit, ...]
    layout: StagingLayout
    max_doc_bytes: int
    folder: Path


@dataclass(frozen=True)
class InPlaceCheck:
    """The numbers of the units that cannot be read in place."""

    unreadable: Sequence[int]


def in_place_check_task(task: InPlaceCheckTask) -> InPlaceCheck:
    """Read the units of a task."""
    return InPlaceCheck(
        [
            unit.no
            for unit in task.units
            if not is_readable_in_place(unit, task.layout, task.max_doc_bytes)
        ]
    )


@dataclass(frozen=True, kw_only=True)
class SandboxedReader:
    """Reads all files of a survey once, with a record in WORK for each finished task.

    `run_untrusted` runs tasks in processes that may die. `named_inputs` are the inputs as the user
    named them. `temporary_files` are deleted when the run is over: those that are read in place are
    also kept in WORK/documents.
    """

    survey: Survey
    named_inputs: tuple[str, ...]
    workspace: Path
    fingerprint: str
    max_doc_bytes: int
    run_untrusted: UntrustedRunner
    temporary_files: Set[str] = frozenset()

    def read(self) -> tuple[Survey, dict[int, StagingResult]]:
        """(the survey, where units that cannot be read in place are to be decoded; the result of
        each decoded unit by its number)."""
        unreadable = self._find_unreadable(
            [unit for unit in self.survey.units if unit.in_place and unit.rows]
        )
        units = [
            dataclasses.replace(unit, in_place=unit.in_place and unit.no not in unreadable)
            for unit in self.survey.units
        ]
        staged = self._stage_units([unit for unit in units if not unit.in_place])
        return dataclasses.replace(
            self.survey, units=[self._keep_in_workspace(unit) for unit in units]
        ), staged

    def _keep_in_workspace(self, unit: InputUnit) -> InputUnit:
        """A unit that can be read as long as the index exists: a temporary file that is read in
        place is linked or copied to WORK/documents.
        """
        if not unit.in_place or unit.path not in self.temporary_files:
            return unit
        documents = private_folder.make_private_folder(
            self.workspace / private_folder.DOCUMENTS_FOLDER
        )
        kept_path = documents / f"{unit.no:05d}.parquet"
        if not (kept_path.exists() and _is_same_file(kept_path, Path(unit.path))):
            temp_path = kept_path.with_name(kept_path.name + ".tmp")
            try:
                os.link(unit.path, temp_path)
            except OSError:  # a file system without links
                shutil.copy2(unit.path, temp_path)
                temp_path.chmod(0o600)
            fsync(temp_path)
            temp_path.rename(kept_path)
            fsync(documents)
        return dataclasses.replace(unit, path=str(kept_path))

    def _find_unreadable(self, units: list[InputUnit]) -> set[int]:
        """The numbers of the units that cannot be read in place; units of a task that died are
        checked again one by one."""
        sizes = dict(self.survey.files)
        groups: list[list[InputUnit]] = []
        group_bytes = 0
        for unit in units:
            group_bytes += sizes[unit.path]
            if (
                not groups
                or len(groups[-1]) == FILES_PER_CHECK_TASK
                or group_bytes > BYTES_PER_CHECK_TASK
            ):
                groups.append([])
                group_bytes = sizes[unit.path]
            groups[-1].append(unit)
        unreadable: set[int] = set()
        retried: list[InputUnit] = []
        for task_no, outcome in self.run_untrusted(
            "check", run_job, [self._check_job(group) for group in groups], _time_limit
        ):
            if isinstance(outcome, TaskResult):
                unreadable.update(outcome.result.unreadable)
            elif len(groups[task_no]) == 1:
                unreadable.add(groups[task_no][0].no)
            else:
                retried += groups[task_no]
        if retried:
            for task_no, outcome in self.run_untrusted(
                "", run_job, [self._check_job([unit]) for unit in retried], _time_limit
            ):
                unreadable.update(
                    outcome.result.unreadable
                    if isinstance(outcome, TaskResult)
                    else [retried[task_no].no]
                )
        return unreadable

    def _check_job(self, units: list[InputUnit]) -> Job[InPlaceCheck]:
        name = f"{units[0].no:05d}-{units[-1].no:05d}"
        task = InPlaceCheckTask(
            units=tuple(units),
            layout=self.survey.layout,
            max_doc_bytes=self.max_doc_bytes,
            folder=self.workspace / private_folder.SPILL_FOLDER / f"check-{name}",
        )
        record = self.workspace / private_folder.TASKS_FOLDER / "read" / f"check-{name}.json"
        return Job(
            function=in_place_check_task,
            result_type=InPlaceCheck,
            task=task,
            record_path=record,
            fingerprint=self.fingerprint,
            outputs={},
        )

    def _stage_units(self, units: list[InputUnit]) -> dict[int, StagingResult]:
        """The results of staging, by unit number."""
        result_by_unit: dict[int, StagingResult] = {}
        died: list[tuple[InputUnit, str]] = []
        for task_no, outcome in self.run_untrusted(
            "read", run_job, [self._staging_job(unit) for unit in units], _time_limit
        ):
            if isinstance(outcome, TaskResult):
                result_by_unit[units[task_no].no] = outcome.result
            else:
                died.append((units[task_no], outcome.reason))
        for unit, reason in died:
            result_by_unit[unit.no] = self._rescue_unit(unit, reason)
        return result_by_unit

    def _rescue_unit(self, unit: InputUnit, reason: str) -> StagingResult:
        """Stages a unit whose process died: its files are tried one by one, and those that kill a
        process alone are quarantined. Raises InputRefused where the user named the file.
        """
        if len(unit.files) > 1:
            file_formats = list(unit.file_formats)
            single_file_units = [
                dataclasses.replace(unit, files=(file,), file_formats=(one,))
                for file, one in zip(unit.files, unit.file_formats, strict=True)
            ]
            for file_no, outcome in self.run_untrusted(
                "",
                _stage_and_discard,
                [self._staging_task(one) for one in single_file_units],
                _time_limit,
            ):
                if isinstance(outcome, WorkerDied):
                    file_formats[file_no] = outcome.reason
            (_, outcome), *_ = self.run_untrusted(
                "",
                run_job,
                [self._staging_job(dataclasses.replace(unit, file_formats=tuple(file_formats)))],
                _time_limit,
            )
            if isinstance(outcome, TaskResult):
                rescued: StagingResult = outcome.result
                return rescued
            reason = outcome.reason
        if unit.path in self.named_inputs and os.path.isfile(unit.path):
            raise InputRefused(format_refusal(unit.path, reason))
        return run_job(
            dataclasses.replace(
                self._staging_job(dataclasses.replace(unit, quarantine_reason=reason)),
                function=quarantine_unit_task,
            )
        )

    def _staging_task(self, unit: InputUnit) -> StagingTask:
        folder = self.workspace / private_folder.SPILL_FOLDER / f"read-{unit.no}"
        return StagingTask(
            unit=unit, layout=self.survey.layout, max_doc_bytes=self.max_doc_bytes, folder=folder
        )

    def _staging_job(self, unit: InputUnit) -> Job[StagingResult]:
        name = f"{unit.no:05d}.parquet"
        outputs = {
            "documents.parquet": self.workspace / private_folder.DOCUMENTS_FOLDER / name,
            "quarantine.parquet": self.workspace
            / private_folder.DOCUMENTS_FOLDER
            / "quarantined"
            / name,
        }
        record = self.workspace / private_folder.TASKS_FOLDER / "read" / f"{unit.no:05d}.json"
        return Job(
            function=stage_task,
            result_type=StagingResult,
            task=self._staging_task(unit),
            record_path=record,
            fingerprint=self.fingerprint,
            outputs=outputs,
            checked_by_next_stage=frozenset({"documents.parquet"}),
        )


def _stage_and_discard(task: StagingTask) -> None:
    """Decodes a unit and discards the result, to find out if it kills its process."""
    with tempfile.TemporaryDirectory(dir=task.folder.parent) as folder:
        stage_task(dataclasses.replace(task, folder=Path(folder)))


def _time_limit(task: Job[Any] | StagingTask) -> float:
    """The seconds that a task may take."""
    inner = task.task if isinstance(task, Job) else task
    units: Sequence[InputUnit] = (
        inner.units if isinstance(inner, InPlaceCheckTask) else (inner.unit,)
    )
    return BASE_TIME_LIMIT_S + sum(
        _extra_seconds(unit, path) for unit in units for path in unit.files
    )


def input_bytes_of_task(task: Any) -> int:
    """The bytes on disk of the input files that a task reads."""
    inner = task.task if isinstance(task, Job) else task
    units: Sequence[InputUnit] = (
        inner.units if isinstance(inner, InPlaceCheckTask) else (inner.unit,)
    )
    return sum(_input_bytes(unit, path) for unit in units for path in unit.files or (unit.path,))


def _input_bytes(unit: InputUnit, path: str) -> int:
    try:
        return max((os.path.getsize(path) if unit.end is None else unit.end) - unit.start, 0)
    except OSError:
        return 0


def _extra_seconds(unit: InputUnit, path: str) -> float:
    per_mb = (
        TIME_LIMIT_S_PER_MB
        if unit.format == "parquet" or unit.end is not None
        else TIME_LIMIT_S_PER_COMPRESSED_MB
    )
    return (
        _input_bytes(unit, path) / 1e6 * per_mb
        + (unit.rows or 0) / 1e6 * TIME_LIMIT_S_PER_MILLION_ROWS
    )


def _is_same_file(one: Path, other: Path) -> bool:
    """True if two paths are one file, or one is a copy of the other as `_keep_in_workspace` makes
    it (same size and modification time)."""
    info, other_info = one.stat(), other.stat()
    return os.path.samestat(info, other_info) or (info.st_size, info.st_mtime_ns) == (
        other_info.st_size,
        other_info.st_mtime_ns,
    )
