"""The occurrences that one run works on: all of the index, or those that find.allow, find.deny and
find.min_score of the plan select."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from sanitize.engines.task_runner import TaskRunner
from sanitize.pipeline.indexing.index_state import IndexState
from sanitize.plans.plan import SelectionRules
from sanitize.stages import aggregates, selection
from sanitize.storage.task_records import Job
from sanitize.storage.views import find_unselected_values


class OccurrenceSelection:
    """The occurrences of an index that a plan's rules select, stored in the folder of its run;
    without rules, all of the index."""

    def __init__(
        self, index: IndexState, tasks: TaskRunner, folder: Path, rules: SelectionRules
    ) -> None:
        self.index, self.tasks, self.folder, self.rules = index, tasks, folder, rules

    @property
    def occurrence_files(self) -> list[Path]:
        """The files of the table `occurrences`, one per task."""
        return (
            self._task_files("occurrences")
            if self.rules
            else self.index.task_files("tables", "occurrences")
        )

    @property
    def skipped_files(self) -> list[Path]:
        """The files of the table `skipped`: candidates that finders refused, that the plan allows,
        or whose score is too low."""
        return self.index.task_files("tables", "skipped") + (
            self._task_files("skipped") if self.rules else []
        )

    @property
    def excluded_value_ids(self) -> tuple[int, ...]:
        """Ids of values without a selected occurrence; the leak check does not search for them."""
        value_files = self.index.task_files("vault", "values")
        return find_unselected_values(
            value_files, self._task_files("value_ids") if self.rules else ()
        )

    def select(self, create_job: Callable[..., Job], erased_value_ids: tuple[int, ...]) -> None:
        """Run the selection: leave out occurrences that the plan allows or whose score is too low,
        except those of `erased_value_ids`."""
        if not self.rules:
            return
        values_files, jobs = self.index.task_files("vault", "values"), []
        for no, (occurrences_file, values_file) in enumerate(
            zip(self.index.task_files("tables", "occurrences"), values_files, strict=True)
        ):
            task = selection.SelectionTask(
                occurrences_file=occurrences_file,
                values_file=values_file,
                rules=self.rules,
                erased_value_ids=erased_value_ids,
                folder=self.index.workspace / "spill" / f"select-{no}",
            )
            outputs = {
                f"{name}.parquet": self._task_files(name)[no]
                for name in ("occurrences", "skipped", "value_ids")
            }
            jobs.append(
                create_job(
                    f"select-{no:05d}", selection.selection_task, task, outputs, erased_value_ids
                )
            )
        self.tasks.run("select", jobs)

    def count_remaining_kinds(
        self, remaining_files: Sequence[Path]
    ) -> dict[str, dict[str, int]] | None:
        """Counts by kind of the selected occurrences in the remaining documents: those in
        `remaining_files`, or all if it is empty, as nothing was dropped. None if then the plan has
        no rules either."""
        if not (remaining_files or self.rules):
            return None
        with self.tasks.measure("aggregate"):
            counts_file = self.folder / "counts" / "remaining_kind_counts.parquet"
            counts_file.parent.mkdir(exist_ok=True)
            return aggregates.count_remaining_kinds(
                self.tasks.engine, remaining_files or self.occurrence_files, counts_file
            )

    def _task_files(self, name: str) -> list[Path]:
        return [
            self.folder / "selected" / name / f"{no:05d}.parquet"
            for no in range(len(self.index.task_ranges))
        ]
