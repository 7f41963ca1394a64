"""The index of a corpus in WORK: files read, every occurrence found and counted, or what is there used as it is.

    read -> find -> count

Where a finder needs what was found in the whole corpus (`known`), find has two rounds, and what it knows is gathered in between.

Tasks are fixed ranges of `doc_no`; each leaves files and a record, so that the same command goes on where it was stopped.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.core import failpoints
from sanitize.core.engine import Died, Done
from sanitize.core.progress import Step
from sanitize.engines import spark, spark_session
from sanitize.engines.local import Local
from sanitize.errors import InputRefused, QuarantineExceeded, ResourceError, SanitizeError, UsageError, unforeseen
from sanitize.kinds.kind import bringing
from sanitize.pipeline import index_increments
from sanitize.pipeline.index_state import Described, state_of
from sanitize.plans.detection_spec import Sought
from sanitize.plans.settings import Settings as Settings
from sanitize.plans.settings import Stages as Stages
from sanitize.readers import remote_input
from sanitize.readers.sandbox import Reading, size_of, surveyed
from sanitize.readers.staging import documents_of
from sanitize.readers.survey import Sample, sampled
from sanitize.stages import aggregates as counts
from sanitize.stages import detection, second_round_input
from sanitize.storage import queries, table_schemas, vault
from sanitize.storage.corpus import Documents, read_json, sha256, write_rows
from sanitize.storage.disk_errors import code_of, disk_trouble, failed
from sanitize.storage.locks import locked, out_locked
from sanitize.storage.publication import Job, mend, perform
from sanitize.storage.views import glob_escaped, quote_literal

# bytes that a run takes in WORK and OUT for each byte of an input, measured on mail, logs and prose; packed ones unfold on the way
_TAKES, _TAKES_PACKED = 1.0, 4.0


@dataclass(frozen=True)
class Aside:
    """A task without anything but its folder, for what the hall does itself."""

    folder: Path


class Indexing(Described):
    """One command at work in one WORK folder. Holds the lock from `with` to its end."""

    def __init__(
        self,
        inputs: Sequence[Path | str],
        work: Path,
        settings: Settings,
        sought: Sought = Sought(),  # noqa: B008 - frozen
    ) -> None:
        """`sought` is a plan's: an index that was made with another is made again."""
        super().__init__(inputs, work, settings, sought)
        self._sizes: dict[int, int] = {}  # bytes of text of each range of documents, by its first one, once they are known
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Indexing:
        self._fresh = not self.work.exists()
        try:
            with disk_trouble(self.work.parent):
                self._begin()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.__exit__(kind, error, trace)
        told: BaseException | None = error
        if isinstance(error, Exception) and (code := code_of(error)) is not None:
            told = failed(self.work, code)  # outside of any task
        if isinstance(told, ResourceError) and told.disk and hasattr(self, "survey"):
            told = told.needing(self._needed())
        elif isinstance(told, Exception) and not isinstance(told, SanitizeError):
            told = unforeseen(told)
        if told is not None and told is not error:
            raise told from None

    def _leave(self, kind: type[BaseException] | None, *_: object) -> None:
        """Take WORK away again where nothing was done yet that a second try could use; its lock is still held."""
        if kind is not None and self._fresh and not any((self.work / name).exists() for name in ("index.json", "fetched")):
            shutil.rmtree(self.work, ignore_errors=True)

    def _end(self) -> None:
        """Nothing half done stays: asked only of the one who holds WORK, once nobody works there any more."""
        self.engine.close()
        vault.tidy(self.work)

    def _look(self) -> None:
        """Survey the inputs, and take what lies there for what is to be read."""
        with self.stages.measure("read"), self.fetched.telling():
            self._survey(surveyed(self.engine, self.inputs, self.settings.columns.roles, self.settings.reading_bytes))

    def _begin(self) -> None:
        if self.settings.append and not (self.work / "index.json").is_file():
            raise UsageError(f"{self.work}: holds no index that could be added to; run the same command without --append first")
        self._stack.enter_context(bringing(self.sought.customs))
        for finder in self.sought.finders:
            finder.fits()
        self.listed  # noqa: B018 - a list that cannot be read stops here
        settings = self.settings
        about: dict[str, Any] = {
            "workers": settings.workers or os.cpu_count() or 1,
            "spill": self.work / "spill",
            "memory_limit": settings.memory_limit,
        }
        self.umask = self._stack.enter_context(vault.umask(0o077))  # of the workers too
        if settings.engine == "spark":
            spark_session.fits(settings.master, settings.remote)
        self.engine = Local(**about)
        self._stack.callback(self.engine.close)
        # the inputs are looked at before anything is written: a mistake leaves nothing behind
        closed = index_increments.closed_of(read_json(self.work / "index.json") or {}) if settings.append else ()
        self.fetched = remote_input.listed(self.named_inputs, self.work, len(closed))
        self.inputs = self.fetched.paths
        if not self.fetched.remote and not self.settings.append:
            self._look()
        quote_literal(glob_escaped(str(self.work.resolve())))  # a name that DuckDB cannot be told is refused now
        vault.open_work(self.work)
        self._stack.enter_context(locked(self.work))
        self._stack.push(self._leave)
        self._stack.callback(self._end)
        failpoints.at("work:made")
        vault.tidy(self.work)
        if settings.engine == "spark":  # until here nothing was written that another machine could see
            self.engine = spark.Spark(**about, master=settings.master, remote=settings.remote)
        if self.fetched.remote:
            with self.stages.measure("fetch"), disk_trouble(self.work):
                self.fetched.stand({known for batch in closed for _, known in batch.files})
                self.fetched.fetch(self.settings.progress)
            self.inputs = self.fetched.paths
            if not self.settings.append:
                self._look()
        self.key = vault.key_of(self.work, key_file=self.settings.key_file, seed=self.settings.seed)
        if self.settings.append:
            with disk_trouble(self.work):
                self._behind()
        if self.settings.sample < 1:
            self.survey = sampled(self.survey, Sample(self.settings.sample, self.key.subkey("sample")))
            self.notes.append(f"this is a sample of {self.settings.sample:.3g} of the documents (--sample)")

    def done(self) -> None:
        """A run is over: what was fetched for it goes."""
        self.fetched.take_away({path: known for path, (_, known) in self._known.items()})

    def hold(self, out: Path) -> None:
        """Hold OUT's name too, to the end: of two runs towards one OUT the second stops here, whatever its WORK."""
        with disk_trouble(out.parent):
            with vault.umask(self.umask):
                out.parent.mkdir(parents=True, exist_ok=True)
            self._stack.enter_context(out_locked(out))
            mend(out)

    def find(self) -> dict[str, Any]:
        """Make the index, or use the one that is there; returns its counts."""
        before = self._renew()
        with disk_trouble(self.work):
            staged = self._read()
        with self.stages.measure("read"), disk_trouble(self.work):
            self.documents = self._documents(staged)
            aside = self._staged_aside()
        size, first = self.settings.rows_per_shard, self._before.count if self.closed else 0
        cut = range(first, self.documents.count, size)
        self.ranges = [*(self._ranges if self.closed else ()), *((low, min(low + size, self.documents.count)) for low in cut)]
        reused = bool(before.get("complete")) and before.get("fingerprint") == self.fingerprint
        self._describe(complete=reused)
        failpoints.at("find:described")
        results = self.map("find", [self._find_job(no, low, high, aside) for no, (low, high) in enumerate(self.ranges)])
        self.notes += second_round_input.placed(self.sought.finders, results, len(aside))
        if self.rounds:
            results = self._second_round(results, aside)
        self._sizes = {low: result["text_bytes"] for (low, _), result in zip(self.ranges, results, strict=True)}
        self.value_counts = self.work / "tables" / "value_counts" / "all.parquet"
        with self.stages.measure("count"), disk_trouble(self.work):
            perform(self._count_job())
            self.by_position = self._ids_repeat()
        self.at_rest()
        self._describe(complete=True)
        failpoints.at("find:done")
        self.quarantine = self._quarantine()
        self._limit_quarantine()
        by_kind, documents_by_kind = (_added(result[name] for result in results) for name in ("by_kind", "documents_by_kind"))
        return {
            "documents_in": self.documents.count,
            "quarantined": self.quarantine.num_rows,
            "occurrences": sum(by_kind.values()),
            "by_kind": by_kind,
            "documents_by_kind": documents_by_kind,
            "text_bytes": sum(result["text_bytes"] for result in results[len(self._ranges) :]),  # of what is read now
            "changed": not reused,
            "work": str(self.work),
            "key": "seed" if self.key.public else "secret",
            "notes": self.notes,
            "stages": self.stages.found,
        }

    def _documents(self, staged: Mapping[int, Mapping[str, Any]]) -> Documents:
        """All documents: those of the closed batches, and those that are read now."""
        if not self.closed:
            return documents_of(self.survey, staged, self.work)
        sources = documents_of(self.survey, staged, self.work).sources if self.survey.files else ()
        behind = (replace(one, first_doc_no=one.first_doc_no + self._before.count) for one in sources)
        return replace(self._before, sources=(*self._before.sources, *behind))

    def _count_job(self) -> Job:
        def work(task: Aside) -> dict[str, Any]:
            counts.value_counts(self.engine, self.files("tables", "partial_counts"), task.folder / "value_counts.parquet")
            return {}

        return Job(
            work=work,
            task=Aside(self.work / "spill" / "count"),
            record=self.work / "tasks" / "count" / "value_counts.json",
            fingerprint=self.record_of("count", queries.query("value_counts").text),
            outputs={"value_counts.parquet": self.value_counts},
        )

    def _ids_repeat(self) -> bool:
        """True where two documents share an id: draws then hang on their position, or they would share their variants too."""
        if not any("doc_id" in source.columns for source in self.documents.sources):
            return False
        found = vault.private(self.work / "spill") / "repeated_ids.parquet"
        self.engine.sql(queries.query("repeated_ids").text, {"ids": self.files("tables", "ids")}, found)
        repeated = pq.read_metadata(found).num_rows
        if repeated:
            self.notes.append(
                f"{repeated:,} ids stand for more than one document; draws hang on a document's position in the corpus instead"
            )
        return bool(repeated)

    def _read(self) -> dict[int, dict[str, Any]]:
        """Read all files through; decode what is not used in place. Returns the result of each decoded unit."""
        reading = Reading(
            survey=self.survey,
            named=tuple(map(str, self.inputs)),
            work=self.work,
            fingerprint=self.record_of("read", str(self.survey.schema), *self._sample),
            max_doc_bytes=self.settings.max_doc_bytes,
            run=self._untrusted,
            passing=frozenset(str(path) for root in self.fetched.remote for _, path in root.files),
        )
        self.survey, staged = reading.read()
        return staged

    def _untrusted(
        self, stage: str, work: Callable[[Any], Any], tasks: Sequence[Any], seconds: Callable[[Any], float]
    ) -> Iterator[tuple[int, Done | Died]]:
        with self.stages.measure("read") as cost:
            sizes = [size_of(task) for task in tasks]
            step = Step(stage=stage, total=len(tasks), of_bytes=sum(sizes))
            if stage and tasks:
                self.settings.progress(step)
            outcomes = self.engine.map_untrusted(work, tasks, seconds=seconds, memory=self.settings.reading_bytes)
            for number, (place, outcome) in enumerate(outcomes):
                if isinstance(outcome, Done):
                    cost["cpu_s"] += outcome.cpu_s
                    cost["peak_rss_mb"] = max(cost["peak_rss_mb"], outcome.peak_rss_mb)
                    rows = outcome.result.get("rows", 0) if isinstance(outcome.result, dict) else 0
                    step = replace(step, documents=step.documents + rows, peak_rss_mb=cost["peak_rss_mb"])
                step = replace(step, done=number + 1, bytes=step.bytes + sizes[place])
                if stage:
                    self.settings.progress(step)
                yield place, outcome

    def _find_job(self, no: int, low: int, high: int, aside: list[int]) -> Job:
        """The first round of one range; where there is a second, what that one writes anew is put aside for it."""
        name = f"{no:05d}.parquet"
        first = "rounds" if self.rounds else "tables"
        outputs = {
            "occurrences.parquet": self.work / first / "occurrences" / name,
            "partial_counts.parquet": self.work / first / "partial_counts" / name,
            "ids.parquet": self.work / "tables" / "ids" / name,
            "skipped.parquet": self.work / first / "skipped" / name,
            "values.parquet": self.work / "vault" / ("rounds/values" if self.rounds else "values") / name,
            "quarantine.parquet": self.work / "quarantine" / "find" / name,
        }
        if self.rounds:
            outputs["links.parquet"] = self.work / "rounds" / "links" / name
        return Job(
            work=detection.find_task,
            task=self._find_task(no, low, high, aside, f"find-{no}"),
            record=self.work / "tasks" / "find" / f"{no:05d}.json",
            fingerprint=self.record_of("find", batch=self.batch_of(no)),
            outputs=outputs,
            standing=self.batch_of(no) < len(self.closed),
        )

    def _find_task(self, no: int, low: int, high: int, aside: Sequence[int], spill: str) -> detection.FindTask:
        return detection.FindTask(
            no=no,
            first=low,
            last=high,
            documents=self.documents,
            leaves=self.leaves,
            key=self.key,
            max_doc_bytes=self.settings.max_doc_bytes,
            checked=tuple(name for name, policy in self.policies.items() if policy != "drop"),
            set_aside=tuple(row for row in aside if low <= row < high),
            folder=self.work / "spill" / spill,
            sought=self.sought,
        )

    def _second_round(self, results: Sequence[dict[str, Any]], aside: list[int]) -> list[dict[str, Any]]:
        """Gather what the first round found, and look again with it; returns what both rounds tell of each task."""
        more = f"-{len(self.batches):04d}" if len(self.batches) > 1 else ""
        forms, entities = self.work / "vault" / "rounds" / f"forms{more}.parquet", self.work / "rounds" / f"entities{more}.parquet"
        gather = second_round_input.GatherTask(
            occurrences=tuple(self.files("rounds", "occurrences")),
            values=tuple(self.files("vault", "rounds", "values")),
            links=tuple(self.files("rounds", "links")),
            listed=self.settings.known,
            key=self.key,
            folder=self.work / "spill" / "gather",
        )
        with self.stages.measure("known"), disk_trouble(self.work):
            perform(
                Job(
                    work=second_round_input.gather_task,
                    task=gather,
                    record=self.work / "tasks" / "known" / f"gathered{more}.json",
                    fingerprint=self.record_of("known"),
                    outputs={"entities.parquet": entities, "forms.parquet": forms},
                    standing=len(self.closed) == len(self.batches),
                )
            )
        failpoints.at("find:gathered")
        jobs = []
        for no, (low, high) in enumerate(self.ranges):
            name = f"{no:05d}.parquet"
            before = detection.FirstRound(
                occurrences=gather.occurrences[no],
                values=gather.values[no],
                skipped=self.work / "rounds" / "skipped" / name,
                entities=entities,
                gathered=forms,
            )
            found = pq.read_table(self.work / "quarantine" / "find" / name, columns=["doc_no"], partitioning=None)
            task = self._find_task(no, low, high, sorted({*aside, *found.column("doc_no").to_pylist()}), f"known-{no}")
            outputs = {
                "occurrences.parquet": self.work / "tables" / "occurrences" / name,
                "partial_counts.parquet": self.work / "tables" / "partial_counts" / name,
                "skipped.parquet": self.work / "tables" / "skipped" / name,
                "values.parquet": self.work / "vault" / "values" / name,
            }
            jobs.append(
                Job(
                    work=detection.known_task,
                    task=replace(task, before=before),
                    record=self.work / "tasks" / "known" / f"{no:05d}.json",
                    fingerprint=self.record_of("known", batch=self.batch_of(no)),
                    outputs=outputs,
                    standing=self.batch_of(no) < len(self.closed),
                )
            )
        return [{**first, **second} for first, second in zip(results, self.map("known", jobs), strict=True)]

    def _staged_aside(self) -> list[int]:
        """The documents that staging could not read, written as part of the table `quarantine`, one file a batch."""
        rows: list[tuple[Any, ...]] = []
        sources = self.documents.sources
        for unit, source in zip(self.survey.units, sources[len(sources) - len(self.survey.units) :], strict=True):
            if not unit.view:
                aside = pq.read_table(self.work / "documents" / "aside" / f"{unit.no:05d}.parquet", partitioning=None)
                rows += [(source.first_doc_no + one["row"], one["source"], one["place"], one["reason"]) for one in aside.to_pylist()]

        def work(task: Aside) -> dict[str, Any]:
            write_rows(task.folder / "quarantine.parquet", table_schemas.QUARANTINE.schema, rows)
            return {}

        if len(self.batches) > len(self.closed):
            perform(
                Job(
                    work=work,
                    task=Aside(self.work / "spill" / "aside"),
                    record=self.work / "tasks" / "read" / (f"aside-{len(self.batches):04d}.json" if self.closed else "aside.json"),
                    fingerprint=self.record_of("read", table_schemas.VERSION, rows),
                    outputs={"quarantine.parquet": self._read_aside()[-1]},
                )
            )
        aside = [pq.read_table(path, columns=["doc_no"], partitioning=None) for path in self._read_aside()]
        return [int(no) for no in pa.concat_tables(aside).column("doc_no").to_pylist()]

    def _read_aside(self) -> list[Path]:
        return [self.work / "quarantine" / "read" / f"{no:05d}.parquet" for no in range(len(self.batches))]

    def _quarantine(self) -> pa.Table:
        files = [*self._read_aside(), *self.files("quarantine", "find")]
        return pa.concat_tables([pq.read_table(file, partitioning=None) for file in files]).sort_by("doc_no")

    def _limit_quarantine(self) -> None:
        quarantine, total = self.quarantine, max(self.documents.count, 1)
        if self.closed:  # of what is new: a bad night does not hide behind the good ones before it
            total = max(self.documents.count - self._before.count, 1)
            quarantine = quarantine.filter(pc.greater_equal(quarantine.column("doc_no"), self._before.count))
        found = quarantine.num_rows
        limit = 0.0 if self.settings.strict else self.settings.max_quarantine
        if found > limit * total:
            reasons = ", ".join(f"{entry['counts']} {entry['values']}" for entry in quarantine.column("reason").value_counts().to_pylist())
            option = "--strict allows none" if self.settings.strict else f"--max-quarantine allows {limit:.0%}"
            raise QuarantineExceeded(
                f"{found} of {total} records were set aside ({reasons}); {option}. "
                f"Where they are: sanitize sql {self.work} --name quarantine_by_reason"
            )

    def map(self, stage: str, tasks: Sequence[Any], measured: Callable[[Any], dict[str, Any]] = perform) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = [{}] * len(tasks)
        with self.stages.measure(stage) as cost:
            ranges = [_range_of(task) for task in tasks]
            known = self._sizes if all(low in self._sizes for low, _ in ranges) else {}
            step = Step(
                stage=stage,
                total=len(tasks),
                of_documents=sum(high - low for low, high in ranges),
                of_bytes=sum(known.get(low, 0) for low, _ in ranges),
            )
            self.settings.progress(step)
            inside = self.engine.inside(len(tasks))
            for number, done in enumerate(self.engine.map_shards(measured, tasks)):
                results[done.place] = done.result
                cost["cpu_s"] += 0.0 if inside else done.cpu_s
                cost["peak_rss_mb"] = max(cost["peak_rss_mb"], done.peak_rss_mb)
                low, high = ranges[done.place]
                step = replace(
                    step,
                    done=number + 1,
                    documents=step.documents + high - low,
                    bytes=step.bytes + (known.get(low, 0) or _told(done.result, "text_bytes")),
                    occurrences=step.occurrences + (sum(done.result["by_kind"].values()) if stage in ("find", "known") else 0),
                    peak_rss_mb=cost["peak_rss_mb"],
                )
                self.settings.progress(step)
        return results

    def at_rest(self) -> None:
        """Refuse inputs that changed while they were being read, and forget what was read of them."""
        for no, (path, _) in enumerate(self.survey.files):
            if state_of(path) != self._known[path][0] and (not Path(path).is_file() or sha256(Path(path)) != self.input_hashes[no]):
                if self.closed:
                    self._take_back()
                for name in () if self.closed else ("index.json", "tasks", "runs"):
                    (self.work / name).unlink() if (self.work / name).is_file() else shutil.rmtree(self.work / name, ignore_errors=True)
                raise InputRefused(
                    f"file {no + 1} of the input changed while it was being read; nothing was published. "
                    "Run the same command again when nobody writes there"
                )
        self.fetched.still()

    def _needed(self) -> int:
        """About how many bytes a run over this input takes in WORK and OUT together."""
        return sum(int(size * (_TAKES_PACKED if _packed(path) else _TAKES)) for path, size in self.survey.files)


def _range_of(task: Any) -> tuple[int, int]:
    """The documents of a task: (first, last + 1); (0, 0) where it is of none."""
    inner = task.task if isinstance(task, Job) else task
    return getattr(inner, "first", 0), getattr(inner, "last", 0)


def _told(result: object, name: str) -> int:
    return int(result.get(name, 0)) if isinstance(result, Mapping) else 0


def _packed(path: str) -> bool:
    return path.endswith((".parquet", ".gz", ".zst"))


def _added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(sorted(total.items()))
