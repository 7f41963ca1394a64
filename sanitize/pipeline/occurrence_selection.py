"""The occurrences that one run works on: those of the index, or where its plan allows, denies or asks for a score, those that it takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sanitize.pipeline.index_build import Indexing
from sanitize.plans.plan import Rules
from sanitize.stages import aggregates, selection
from sanitize.storage.disk_errors import disk_trouble
from sanitize.storage.publication import Job
from sanitize.storage.views import ids_left_alone


class Taken:
    """What a plan's rules leave of an index, in the folder of its run; with no rules, the index itself."""

    def __init__(self, index: Indexing, folder: Path, rules: Rules) -> None:
        self.index, self.folder, self.rules = index, folder, rules

    @property
    def occurrences(self) -> list[Path]:
        """The files of the table `occurrences`, one a task."""
        return self._files("occurrences") if self.rules else self.index.files("tables", "occurrences")

    @property
    def skipped(self) -> list[Path]:
        """The files of the table `skipped`: what finders refused, and what was allowed or not sure enough."""
        return self.index.files("tables", "skipped") + (self._files("skipped") if self.rules else [])

    @property
    def alone(self) -> tuple[int, ...]:
        """The values of which nothing is taken: the leak check does not look for them."""
        return ids_left_alone(self.folder / "counts")

    def choose(self, job: Callable[..., Job], erased: tuple[int, ...]) -> None:
        """Leave out what the plan allows, and what is not sure enough for it; nothing of what is to be erased."""
        if not self.rules:
            return
        values, jobs = self.index.files("vault", "values"), []
        for no, (occurrences, spelled) in enumerate(zip(self.index.files("tables", "occurrences"), values, strict=True)):
            task = selection.ChooseTask(
                occurrences=occurrences,
                values=spelled,
                rules=self.rules,
                erased=erased,
                folder=self.index.work / "spill" / f"choose-{no}",
            )
            outputs = {f"{name}.parquet": self._files(name)[no] for name in ("occurrences", "skipped", "ids")}
            jobs.append(job(f"choose-{no:05d}", selection.choose_task, task, outputs, erased))
        self.index.map("choose", jobs)
        with disk_trouble(self.index.work):
            selection.left_alone(values, self._files("ids"), self.folder / "counts")

    def kinds_left(self, dropped: bool) -> dict[str, dict[str, int]] | None:
        """Counts by kind of what is taken, where that is less than the index holds, and in the documents that remain, where some went."""
        if not (dropped or self.rules):
            return None
        with self.index.stages.measure("count"), disk_trouble(self.index.work):
            remaining = [self.folder / "counts" / "left.parquet"] if dropped else self.occurrences
            return aggregates.kinds_left(self.index.engine, remaining, self.folder / "counts" / "kinds_left.parquet")

    def _files(self, name: str) -> list[Path]:
        return [self.folder / "chosen" / name / f"{no:05d}.parquet" for no in range(len(self.index.ranges))]
