"""Files of strangers, opened only in processes that may die: what a crash, a hang or a bomb costs is the file, never the run.

    look at every file -> read Parquet through that is to be used in place -> decode all else into WORK/documents

A batch of files goes to one process; only when that dies are they tried one by one, to find the one that kills. Each has a limit of
memory, which an allocation then exceeds instead of filling the machine, and of time, far above what its size explains.
Afterwards nobody meets a bad input: what cannot be read is a row without content, and in the table `quarantine`.
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

from sanitize.core.engine import Died, Done, Engine
from sanitize.errors import InputRefused
from sanitize.readers.staging import Staging, lose_task, stage_task
from sanitize.readers.survey import Earlier, File, Layout, Roles, Survey, Unit, looked, readable, refusal, survey
from sanitize.storage import vault
from sanitize.storage.corpus import fsync
from sanitize.storage.publication import Job, perform

LOOKED = 1_000  # files of one task
CHECKED, CHECKED_BYTES = 200, 64 << 20
PATIENCE = 120.0  # seconds for any task, and then some for each MB: reading makes 50 MB a second, and a compressed MB may be a hundred
PER_MB, PER_MB_COMPRESSED = 2.0, 20.0

# (name for the progress, what to do, the tasks, seconds for a task) -> (place, what came of it)
Untrusted = Callable[[str, Callable[[Any], Any], Sequence[Any], Callable[[Any], float]], Iterator[tuple[int, Done | Died]]]


def surveyed(engine: Engine, inputs: Sequence[Path], roles: Roles, memory: int, after: Earlier | None = None) -> Survey:
    """`read.survey`, with every file opened in a process that may die; `memory` bytes for each."""

    def look(files: list[File], roles: Roles) -> list[File]:
        cuts = range(0, len(files), LOOKED)
        tasks = [(files[low : low + LOOKED], roles) for low in cuts]
        found: dict[int, list[File]] = {}
        for place, outcome in engine.map_untrusted(_look, tasks, seconds=lambda task: PATIENCE + len(task[0]), memory=memory):
            found[place] = outcome.result if isinstance(outcome, Done) else _one_by_one(tasks[place][0], roles)
        return [file for place in range(len(tasks)) for file in found[place]]

    def _one_by_one(files: list[File], roles: Roles) -> list[File]:
        made = list(files)
        tasks = [([file], roles) for file in files]
        for place, outcome in engine.map_untrusted(_look, tasks, seconds=lambda task: PATIENCE, memory=memory):
            made[place] = outcome.result[0] if isinstance(outcome, Done) else dataclasses.replace(files[place], reason=outcome.reason)
        return made

    return survey(inputs, roles, look, after)


def _look(task: tuple[list[File], Roles]) -> list[File]:
    return looked(*task)


@dataclass(frozen=True, kw_only=True)
class Checking:
    """Parquet files that are to be read in place."""

    units: tuple[Unit, ...]
    layout: Layout
    max_doc_bytes: int
    folder: Path


def check_task(task: Checking) -> dict[str, Any]:
    """The numbers of the units that cannot be read in place."""
    return {"unreadable": [unit.no for unit in task.units if not readable(unit, task.layout, task.max_doc_bytes)]}


@dataclass(frozen=True, kw_only=True)
class Reading:
    """All files of a survey, read once, with the records of what is done in WORK.

    `run` is how tasks are done in processes that may die; `named` are the inputs as the user named them; `passing` are files that go
    when the run is over: what is read in place of them has to lie in WORK/documents too.
    """

    survey: Survey
    named: tuple[str, ...]
    work: Path
    fingerprint: str
    max_doc_bytes: int
    run: Untrusted
    passing: Set[str] = frozenset()

    def read(self) -> tuple[Survey, dict[int, dict[str, Any]]]:
        """(the survey with every view that cannot be one as a unit to decode, the result of each decoded unit by its number)."""
        unreadable = self._check([unit for unit in self.survey.units if unit.view and unit.rows])
        units = [dataclasses.replace(unit, view=unit.view and unit.no not in unreadable) for unit in self.survey.units]
        staged = self._decode([unit for unit in units if not unit.view])
        return dataclasses.replace(self.survey, units=[self._stays(unit) for unit in units]), staged

    def _stays(self, unit: Unit) -> Unit:
        """A unit that is read where it lies for as long as the index is: the index must not lose its documents with what was fetched."""
        if not unit.view or unit.path not in self.passing:
            return unit
        documents = vault.private(self.work / "documents")
        place = documents / f"{unit.no:05d}.parquet"
        if not (place.exists() and _same(place, Path(unit.path))):
            aside = place.with_name(place.name + ".tmp")
            try:
                os.link(unit.path, aside)
            except OSError:  # a file system without links
                shutil.copy2(unit.path, aside)
                aside.chmod(0o600)
            fsync(aside)
            aside.rename(place)
            fsync(documents)
        return dataclasses.replace(unit, path=str(place))

    def _check(self, units: list[Unit]) -> set[int]:
        sizes = dict(self.survey.files)
        groups: list[list[Unit]] = []
        held = 0
        for unit in units:
            held += sizes[unit.path]
            if not groups or len(groups[-1]) == CHECKED or held > CHECKED_BYTES:
                groups.append([])
                held = sizes[unit.path]
            groups[-1].append(unit)
        found: set[int] = set()
        again: list[Unit] = []
        for place, outcome in self.run("check", perform, [self._check_job(group) for group in groups], _seconds):
            if isinstance(outcome, Done):
                found.update(outcome.result["unreadable"])
            elif len(groups[place]) == 1:
                found.add(groups[place][0].no)
            else:
                again += groups[place]
        if again:
            for place, outcome in self.run("", perform, [self._check_job([unit]) for unit in again], _seconds):
                found.update(outcome.result["unreadable"] if isinstance(outcome, Done) else [again[place].no])
        return found

    def _check_job(self, units: list[Unit]) -> Job:
        name = f"{units[0].no:05d}-{units[-1].no:05d}"
        task = Checking(
            units=tuple(units), layout=self.survey.layout, max_doc_bytes=self.max_doc_bytes, folder=self.work / "spill" / f"check-{name}"
        )
        record = self.work / "tasks" / "read" / f"view-{name}.json"
        return Job(work=check_task, task=task, record=record, fingerprint=self.fingerprint, outputs={})

    def _decode(self, units: list[Unit]) -> dict[int, dict[str, Any]]:
        found: dict[int, dict[str, Any]] = {}
        died: list[tuple[Unit, str]] = []
        for place, outcome in self.run("read", perform, [self._job(unit) for unit in units], _seconds):
            if isinstance(outcome, Done):
                found[units[place].no] = outcome.result
            else:
                died.append((units[place], outcome.reason))
        for unit, reason in died:
            found[unit.no] = self._rescued(unit, reason)
        return found

    def _rescued(self, unit: Unit, reason: str) -> dict[str, Any]:
        """What is left of a unit that killed its process: all but the files that do so alone."""
        if len(unit.files) > 1:
            how = list(unit.how)
            alone = [dataclasses.replace(unit, files=(file,), how=(one,)) for file, one in zip(unit.files, unit.how, strict=True)]
            for place, outcome in self.run("", _tried, [self._task(one) for one in alone], _seconds):
                if isinstance(outcome, Died):
                    how[place] = outcome.reason
            (_, outcome), *_ = self.run("", perform, [self._job(dataclasses.replace(unit, how=tuple(how)))], _seconds)
            if isinstance(outcome, Done):
                return dict(outcome.result)
            reason = outcome.reason
        if unit.path in self.named and os.path.isfile(unit.path):
            raise InputRefused(refusal(unit.path, reason))
        return perform(dataclasses.replace(self._job(dataclasses.replace(unit, lost=reason)), work=lose_task))

    def _task(self, unit: Unit) -> Staging:
        folder = self.work / "spill" / f"read-{unit.no}"
        return Staging(unit=unit, layout=self.survey.layout, max_doc_bytes=self.max_doc_bytes, folder=folder)

    def _job(self, unit: Unit) -> Job:
        name = f"{unit.no:05d}.parquet"
        outputs = {
            "documents.parquet": self.work / "documents" / name,
            "quarantine.parquet": self.work / "documents" / "aside" / name,
        }
        record = self.work / "tasks" / "read" / f"{unit.no:05d}.json"
        return Job(
            work=stage_task,
            task=self._task(unit),
            record=record,
            fingerprint=self.fingerprint,
            outputs=outputs,
            checked_next=frozenset({"documents.parquet"}),
        )


def _tried(task: Staging) -> None:
    """Decodes a unit and throws the result away."""
    with tempfile.TemporaryDirectory(dir=task.folder.parent) as folder:
        stage_task(dataclasses.replace(task, folder=Path(folder)))


def _seconds(task: Job | Staging) -> float:
    """The time a task may take."""
    inner = task.task if isinstance(task, Job) else task
    units: Sequence[Unit] = inner.units if isinstance(inner, Checking) else (inner.unit,)
    return PATIENCE + sum(_patience(unit, path) for unit in units for path in unit.files)


def size_of(task: Any) -> int:
    """The bytes of input files that a task reads, as they lie on the disk."""
    inner = task.task if isinstance(task, Job) else task
    units: Sequence[Unit] = inner.units if isinstance(inner, Checking) else (inner.unit,)
    return sum(_size(unit, path) for unit in units for path in unit.files or (unit.path,))


def _size(unit: Unit, path: str) -> int:
    try:
        return max((os.path.getsize(path) if unit.stop is None else unit.stop) - unit.start, 0)
    except OSError:
        return 0


def _patience(unit: Unit, path: str) -> float:
    return _size(unit, path) / 1e6 * (PER_MB if unit.format == "parquet" or unit.stop is not None else PER_MB_COMPRESSED)


def _same(one: Path, other: Path) -> bool:
    """Whether two names are of one file, or one is a copy of the other as `_stays` makes it."""
    mine, yours = one.stat(), other.stat()
    return os.path.samestat(mine, yours) or (mine.st_size, mine.st_mtime_ns) == (yours.st_size, yours.st_mtime_ns)
