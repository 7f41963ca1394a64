"""Runs the tasks of a stage on the engine of a command, measures what each stage costs, and reports
progress."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, overload

from sanitize.core.engine import Engine, TaskResult, WorkerDied
from sanitize.core.progress import ProgressCallback, ProgressUpdate, ignore_progress
from sanitize.engines.worker_process import peak_rss_mb
from sanitize.storage.disk_errors import translate_disk_errors
from sanitize.storage.task_records import Job, run_job

R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class StageCost:
    """CPU-seconds, seconds and the memory of the largest process (MB) of one stage."""

    cpu_s: float = 0.0
    wall_s: float = 0.0
    peak_rss_mb: float = 0.0


@dataclass
class StageCosts:
    """The costs of each stage: CPU seconds over all processes, wall seconds, and the peak memory of
    one process."""

    costs: dict[str, StageCost] = field(default_factory=dict)
    progress: ProgressCallback = ignore_progress
    # for each open stage, CPU and wall seconds of the stages inside it
    _nested_costs: list[list[float]] = field(default_factory=lambda: [[0.0, 0.0]])

    @contextlib.contextmanager
    def measure(self, name: str) -> Iterator[dict[str, float]]:
        """Adds the costs of the block to a stage; a stage inside another one is not counted
        twice."""
        cpu, wall = time.process_time(), time.monotonic()
        cost = {"cpu_s": 0.0, "peak_rss_mb": 0.0}
        self._nested_costs.append([0.0, 0.0])
        self.progress(ProgressUpdate(stage=name))
        try:
            yield cost
        finally:
            self.progress(ProgressUpdate(stage=name, tasks_done=1))
            spent = (time.process_time() - cpu, time.monotonic() - wall)
            nested = self._nested_costs.pop()
            self._nested_costs[-1] = [
                total + seconds
                for total, seconds in zip(self._nested_costs[-1], spent, strict=True)
            ]
        before = self.costs.get(name, StageCost())
        self.costs[name] = StageCost(
            cpu_s=round(before.cpu_s + cost["cpu_s"] + spent[0] - nested[0], 3),
            wall_s=round(before.wall_s + spent[1] - nested[1], 3),
            peak_rss_mb=round(max(cost["peak_rss_mb"], peak_rss_mb(), before.peak_rss_mb), 1),
        )


@dataclass(frozen=True)
class FolderTask:
    """A task that has only a folder, for jobs that run in the main process."""

    folder: Path


class TaskRunner:
    """Runs tasks on `engine`, which the command may exchange before its first stage."""

    def __init__(self, engine: Engine, workspace: Path, progress: ProgressCallback) -> None:
        """`workspace` is the folder that an error of the disk names."""
        self.engine, self.workspace, self.progress = engine, workspace, progress
        self.costs = StageCosts(progress=progress)
        # text bytes of each task, by its first doc_no; empty until they are known
        self._text_bytes: dict[int, int] = {}

    @contextlib.contextmanager
    def measure(self, stage: str) -> Iterator[dict[str, float]]:
        """Add the costs of the block to `stage`; an error of the disk in it becomes a ResourceError
        that names the workspace."""
        with self.costs.measure(stage) as cost, translate_disk_errors(self.workspace):
            yield cost

    @overload
    def run(self, stage: str, tasks: Sequence[Job[R]]) -> list[R]: ...

    @overload
    def run(self, stage: str, tasks: Sequence[Any], function: Callable[[Any], R]) -> list[R]: ...

    def run(
        self, stage: str, tasks: Sequence[Any], function: Callable[[Any], Any] = run_job
    ) -> list[Any]:
        """Run `function` on every task; returns the results in the order of `tasks`. Tasks are
        jobs, unless `function` is given."""
        results: list[Any] = [None] * len(tasks)
        with self.costs.measure(stage) as cost:
            ranges = [_get_doc_range(task) for task in tasks]
            text_bytes = (
                self._text_bytes if all(low in self._text_bytes for low, _ in ranges) else {}
            )
            progress = ProgressUpdate(
                stage=stage,
                total_tasks=len(tasks),
                total_documents=sum(high - low for low, high in ranges),
                total_bytes=sum(text_bytes.get(low, 0) for low, _ in ranges),
            )
            self.progress(progress)
            runs_in_process = self.engine.runs_in_process(len(tasks))
            for number, finished in enumerate(self.engine.map_shards(function, tasks)):
                results[finished.task_no] = finished.result
                cost["cpu_s"] += 0.0 if runs_in_process else finished.cpu_s
                cost["peak_rss_mb"] = max(cost["peak_rss_mb"], finished.peak_rss_mb)
                low, high = ranges[finished.task_no]
                counts_occurrences = stage in ("detect", "second_round")
                progress = replace(
                    progress,
                    tasks_done=number + 1,
                    documents=progress.documents + high - low,
                    bytes=progress.bytes
                    + (text_bytes.get(low, 0) or getattr(finished.result, "text_bytes", 0)),
                    occurrences=progress.occurrences
                    + (sum(finished.result.by_kind.values()) if counts_occurrences else 0),
                    peak_rss_mb=cost["peak_rss_mb"],
                )
                self.progress(progress)
        return results

    def run_untrusted(
        self,
        stage: str,
        function: Callable[[Any], Any],
        tasks: Sequence[Any],
        time_limit: Callable[[Any], float],
        *,
        memory_bytes: int,
        task_bytes: Callable[[Any], int],
    ) -> Iterator[tuple[int, TaskResult | WorkerDied]]:
        """Run tasks that may kill their worker (they parse input files), under limits of time and
        memory; yields the number of each task and its result as it ends. `stage` is the stage in
        progress updates, empty for none; the costs are those of "read"."""
        with self.costs.measure("read") as cost:
            sizes = [task_bytes(task) for task in tasks]
            progress = ProgressUpdate(stage=stage, total_tasks=len(tasks), total_bytes=sum(sizes))
            if stage and tasks:
                self.progress(progress)
            outcomes = self.engine.map_untrusted(
                function, tasks, time_limit=time_limit, memory_bytes=memory_bytes
            )
            for number, (task_no, outcome) in enumerate(outcomes):
                if isinstance(outcome, TaskResult):
                    cost["cpu_s"] += outcome.cpu_s
                    cost["peak_rss_mb"] = max(cost["peak_rss_mb"], outcome.peak_rss_mb)
                    progress = replace(
                        progress,
                        documents=progress.documents + getattr(outcome.result, "rows", 0),
                        peak_rss_mb=cost["peak_rss_mb"],
                    )
                progress = replace(
                    progress, tasks_done=number + 1, bytes=progress.bytes + sizes[task_no]
                )
                if stage:
                    self.progress(progress)
                yield task_no, outcome

    def set_text_bytes(
        self, task_ranges: Sequence[tuple[int, int]], text_bytes: Sequence[int]
    ) -> None:
        """Set the text bytes of each task, so that later stages can report progress in bytes."""
        self._text_bytes = {
            low: size for (low, _), size in zip(task_ranges, text_bytes, strict=True)
        }


def _get_doc_range(task: Any) -> tuple[int, int]:
    """The documents of a task as (first doc_no, last + 1); (0, 0) if it has none."""
    inner = task.task if isinstance(task, Job) else task
    return getattr(inner, "first_doc_no", 0), getattr(inner, "end_doc_no", 0)
