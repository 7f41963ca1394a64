"""Measures metrics at checkpoints: in this process, or in one worker process for each of several
devices.

A measurement, one metric at one checkpoint, is the unit of work. A worker goes on with the
checkpoint whose model it has loaded, takes another one that no worker has begun, and at last helps
with what is left. With fewer measurements than devices a worker has several devices, which share
the batches of a metric. Results are the same in any number of workers, since metrics carry over
between checkpoints only what `save_state` returns.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from sanitize.core.engine import WorkerDied
from sanitize.engines.worker_process import WorkerProcess
from sanitize.errors import ResourceError

from .evaluation_progress import EvaluationProgress
from .language_model import BatchControl, LanguageModel
from .measurement_records import Measurement
from .metric import EvalContext, Metric
from .run_folder import Checkpoint, RunFolder


@dataclass(frozen=True, repr=False)
class MeasurementTask:
    """One metric, by number, at one checkpoint; `record_name` is where the result goes."""

    run_name: str
    run: RunFolder
    checkpoint: Checkpoint
    metric_no: int
    record_name: str = ""


@dataclass(repr=False)
class CheckpointMeasurer:
    """Measures metrics (which are set up) at checkpoints; the model of the last checkpoint stays
    loaded."""

    metrics: Sequence[Metric]
    device: str
    dtype: str
    with_leaks: bool
    control: BatchControl = field(default_factory=BatchControl)
    _loaded: tuple[Path, LanguageModel] | None = None

    def measure(self, task: MeasurementTask) -> Measurement:
        """Return what a metric measures at a checkpoint, as from a record."""
        path = task.checkpoint.path
        if self._loaded is None or self._loaded[0] != path:
            self._loaded = None  # two models may not fit into memory
            self._loaded = (
                path,
                LanguageModel.load(path, self.device, self.dtype, control=self.control),
            )
        metric = self.metrics[task.metric_no]
        measured = metric.on_checkpoint(task.run, task.checkpoint, self._loaded[1])
        # NaN and infinity are no JSON
        result = json.loads(json.dumps(measured), parse_constant=lambda name: None)
        leaks = [leak._asdict() for leak in metric.list_leaked_values()] if self.with_leaks else []
        return Measurement(result=result, state=metric.save_state(), leaks=leaks)


# ---- several devices ----


@dataclass(frozen=True, repr=False)
class _WorkerSetup:
    metrics: Sequence[Metric]  # not set up
    context: EvalContext
    device: str
    dtype: str
    with_leaks: bool
    thread_count: int


@dataclass(frozen=True, repr=False)
class _WorkerResult:
    measurement: Measurement
    seconds: float
    notes: list[str]


def measure_on_devices(
    devices: Sequence[str],
    metrics: Sequence[Metric],
    context: EvalContext,
    tasks: Sequence[MeasurementTask],
    *,
    dtype: str,
    with_leaks: bool,
    progress: EvaluationProgress,
) -> Iterator[tuple[MeasurementTask, Measurement]]:
    """Yield each task with its measurement, in the order in which they end; `metrics` are not set
    up.

    An error in a worker is raised here, and ends the others. ResourceError for a worker that dies.
    """
    import torch

    setup = _WorkerSetup(metrics, context, "", dtype, with_leaks, torch.get_num_threads())
    waiting = list(tasks)
    worker_count = min(len(devices), max(len(tasks), 1))
    # with few tasks a model is on several devices
    used = [",".join(devices[number::worker_count]) for number in range(worker_count)]
    # several processes on the same devices have numbers
    device_by_name = {
        device if used.count(device) == 1 else f"{device} #{number}": device
        for number, device in enumerate(used, 1)
    }
    workers = {name: WorkerProcess() for name in device_by_name}
    current: dict[str, MeasurementTask | None] = dict.fromkeys(workers)
    loaded: dict[str, Path] = {}
    idle: list[str] = []
    try:
        for worker in workers.values():
            worker.start()  # all, before the first one is waited for
        for name, worker in workers.items():
            _send(worker, name, _set_up_worker, replace(setup, device=device_by_name[name]))
        while True:
            while idle and waiting:
                name = idle.pop(0)
                task = _choose_task(waiting, loaded.get(name), set(loaded.values()))
                waiting.remove(task)
                if loaded.get(name) != task.checkpoint.path:
                    progress.note(
                        f"{name}: {task.run_name}, {task.checkpoint.name} ({progress.describe()})"
                    )
                loaded[name], current[name] = task.checkpoint.path, task
                _send(workers[name], name, _measure, task)
            busy = [name for name in workers if name not in idle]
            if not busy:
                return
            ready = wait(
                [
                    connection
                    for name in busy
                    if (connection := workers[name].connection) is not None
                ],
                timeout=1.0,
            )
            for name in [name for name in busy if workers[name].connection in ready]:
                outcome = _receive(workers[name], name)
                finished, current[name] = current[name], None
                idle.append(name)
                if finished is not None:
                    for note in outcome.notes:
                        progress.note(note)
                    progress.end(metrics[finished.metric_no].use, outcome.seconds)
                    yield finished, outcome.measurement
            progress.beat()
    finally:
        for worker in workers.values():
            worker.kill()


def _choose_task(
    waiting: Sequence[MeasurementTask], loaded: Path | None, begun: set[Path]
) -> MeasurementTask:
    """Return the next task of a worker: of the checkpoint it has loaded, else of one that no worker
    has begun, else any."""
    of_loaded = [task for task in waiting if task.checkpoint.path == loaded]
    not_begun = [task for task in waiting if task.checkpoint.path not in begun]
    return (of_loaded or not_begun or list(waiting))[0]


def _send(worker: WorkerProcess, device: str, function: Callable[[Any], Any], task: Any) -> None:
    try:
        worker.send(function, 0, task)
    except WorkerDied as died:
        raise _describe_death(device, died) from None


def _receive(worker: WorkerProcess, device: str) -> Any:
    try:
        return worker.receive().result
    except WorkerDied as died:
        raise _describe_death(device, died) from None


def _describe_death(device: str, died: WorkerDied) -> ResourceError:
    reason = "ran out of memory" if died.reason == "memory" else "ended"
    return ResourceError(
        f"the process of device {device} {reason}; run the same command again to continue with what"
        " is not measured yet"
    )


# ---- inside a worker ----

_measurer: CheckpointMeasurer | None = None
_notes: list[str] = []


def _set_up_worker(setup: _WorkerSetup) -> None:
    """Prepare this process for `_measure`."""
    global _measurer
    import torch

    torch.set_num_threads(setup.thread_count)
    for metric in setup.metrics:
        metric.setup(setup.context)
    _measurer = CheckpointMeasurer(
        setup.metrics,
        setup.device,
        setup.dtype,
        setup.with_leaks,
        BatchControl(on_note=_notes.append),
    )


def _measure(task: MeasurementTask) -> _WorkerResult:
    """Measure one metric at one checkpoint in this process."""
    assert _measurer is not None, "set up before"
    started = time.monotonic()
    measurement = _measurer.measure(task)
    notes = list(_notes)
    _notes.clear()
    return _WorkerResult(measurement, time.monotonic() - started, notes)
