"""The index of a corpus in WORK: files read, every occurrence found and counted, or what is there used as it is.

    read -> find -> count

Where a finder needs what was found in the whole corpus (`known`), find has two rounds, and what it knows is gathered in between.

Tasks are fixed ranges of `doc_no`; each leaves files and a record, so that the same command goes on where it was stopped.
"""

from __future__ import annotations

import contextlib
import functools
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
import pyarrow.parquet as pq

from sanitize import corpus, counts, crash, gathered, index, queries, tables, vault
from sanitize.cells import Leaf
from sanitize.corpus import documents_of, leaf_named, policies_for
from sanitize.disk import code_of, disk_trouble, failed
from sanitize.engines.engine import Died, Done
from sanitize.engines.local import Local
from sanitize.errors import InputRefused, QuarantineExceeded, ResourceError, SanitizeError, UsageError, unforeseen
from sanitize.find.known import read_list
from sanitize.keyed import Key
from sanitize.kinds.kind import bringing
from sanitize.lock import locked, out_locked
from sanitize.manifest import versions
from sanitize.progress import Step
from sanitize.publish import Job, hashed, mend, perform
from sanitize.read import Sample, Survey, sampled
from sanitize.reading import Reading, size_of, surveyed
from sanitize.settings import Settings as Settings
from sanitize.settings import Stages as Stages
from sanitize.shards import Documents, cell_leaves, read_json, sha256, write_json, write_rows
from sanitize.sought import Sought
from sanitize.views import glob_escaped, quote_literal

# bytes that a run takes in WORK and OUT for each byte of an input, measured on mail, logs and prose; packed ones unfold on the way
_TAKES, _TAKES_PACKED = 1.0, 4.0


@dataclass(frozen=True)
class Aside:
    """A task without anything but its folder, for what the hall does itself."""

    folder: Path


class Indexing:
    """One command at work in one WORK folder. Holds the lock from `with` to its end."""

    def __init__(
        self,
        inputs: Sequence[Path | str],
        work: Path,
        settings: Settings,
        sought: Sought = Sought(),  # noqa: B008 - frozen
    ) -> None:
        """`sought` is a plan's: an index that was made with another is made again."""
        self.inputs, self.work, self.settings, self.sought = [Path(path) for path in inputs], work, settings, sought
        self.stages = Stages(progress=settings.progress)
        self._sizes: dict[int, int] = {}  # bytes of text of each range of documents, by its first one, once they are known
        self.notes: list[str] = []
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
        if kind is not None and self._fresh and not (self.work / "index.json").exists():
            shutil.rmtree(self.work, ignore_errors=True)

    def _end(self) -> None:
        """Nothing half done stays: asked only of the one who holds WORK, once nobody works there any more."""
        self.engine.close()
        vault.tidy(self.work)

    def _begin(self) -> None:
        self._stack.enter_context(bringing(self.sought.customs))
        for finder in self.sought.finders:
            finder.fits()
        self.listed  # noqa: B018 - a list that cannot be read stops here
        workers = self.settings.workers or os.cpu_count() or 1
        self.umask = self._stack.enter_context(vault.umask(0o077))  # of the workers too
        self.engine = Local(workers=workers, spill=self.work / "spill", memory_limit=self.settings.memory_limit)
        self._stack.callback(self.engine.close)
        # the inputs are looked at before anything is written: a mistake leaves nothing behind
        with self.stages.measure("read"):
            self.survey: Survey = surveyed(self.engine, self.inputs, self.settings.columns.roles, self.settings.reading_bytes)
            self.policies = policies_for(self.survey.schema, self.survey.layout.main, self.settings.columns)
        quote_literal(glob_escaped(str(self.work.resolve())))  # a name that DuckDB cannot be told is refused now
        vault.open_work(self.work)
        self._stack.enter_context(locked(self.work))
        self._stack.push(self._leave)
        self._stack.callback(self._end)
        crash.at("work:made")
        vault.tidy(self.work)
        self.key: Key = vault.key_of(self.work, key_file=self.settings.key_file, seed=self.settings.seed)
        if self.settings.sample < 1:
            self.survey = sampled(self.survey, Sample(self.settings.sample, self.key.subkey("sample")))
            self.notes.append(f"this is a sample of {self.settings.sample:.3g} of the documents (--sample)")

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
            self.documents: Documents = documents_of(self.survey, staged, self.work)
            aside = self._staged_aside()
        size = self.settings.rows_per_shard
        self.ranges = [(low, min(low + size, self.documents.count)) for low in range(0, self.documents.count, size)]
        reused = bool(before.get("complete"))
        self._describe(complete=reused)
        crash.at("find:described")
        results = self.map("find", [self._find_job(no, low, high, aside) for no, (low, high) in enumerate(self.ranges)])
        if self.rounds:
            results = self._second_round(results, aside)
        self._sizes = {low: result["text_bytes"] for (low, _), result in zip(self.ranges, results, strict=True)}
        self.value_counts = self.work / "tables" / "value_counts" / "all.parquet"
        with self.stages.measure("count"), disk_trouble(self.work):
            perform(self._count_job())
            self.by_position = self._ids_repeat()
        self.at_rest()
        self._describe(complete=True)
        crash.at("find:done")
        self.quarantine = self._quarantine()
        self._limit_quarantine()
        by_kind, documents_by_kind = (_added(result[name] for result in results) for name in ("by_kind", "documents_by_kind"))
        return {
            "documents_in": self.documents.count,
            "quarantined": self.quarantine.num_rows,
            "occurrences": sum(by_kind.values()),
            "by_kind": by_kind,
            "documents_by_kind": documents_by_kind,
            "text_bytes": sum(result["text_bytes"] for result in results),
            "changed": not reused,
            "work": str(self.work),
            "key": "seed" if self.key.public else "secret",
            "notes": self.notes,
            "stages": self.stages.found,
        }

    @functools.cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """The cells of a document."""
        excluded = frozenset(name for name, policy in self.policies.items() if policy != "sanitize")
        main = leaf_named(self.survey.layout.leaf, self.survey.schema)
        return tuple(cell_leaves(self.survey.schema, main, excluded))

    @property
    def rounds(self) -> bool:
        """True where some finder needs what was found in the whole corpus."""
        return any(finder.second for finder in self.sought.finders)

    @functools.cached_property
    def listed(self) -> str | None:
        """A hash of the user's list, read and checked; None where there is none."""
        return hashed(read_list(self.settings.known).rows()) if self.settings.known else None

    @functools.cached_property
    def looked_for(self) -> dict[str, Any]:
        """What decides what is found, beside the input and the key: finders with their settings, countries, own kinds, the user's list."""
        # the list is known by a keyed hash: index.json says nothing of it
        told = hashed(self.listed, self.key.subkey("known").hex()) if self.listed else None
        return {**self.sought.told(), "known": told}

    @functools.cached_property
    def fingerprint(self) -> str:
        """Everything that decides what the index holds, as this house declares it: inputs, key, settings and the versions of the rooms."""
        settings = self.settings
        return hashed(
            "find",
            self.inputs_hash(),
            self.key.id,
            (tables.VERSION, corpus.VERSION, index.VERSION),
            index.kinds_hash(),
            (settings.rows_per_shard, settings.max_doc_bytes),
            [str(leaf) for leaf in self.leaves],
            self.looked_for,
            *self._sample,
        )

    @property
    def _sample(self) -> list[object]:
        """What a sample hangs on, where this is one."""
        return [self.settings.sample, self.key.id] if self.settings.sample < 1 else []

    def record_of(self, room: str, *more: object) -> str:
        """The fingerprint of a room's records: what the room depends on, and the libraries at work in it."""
        there = versions()
        if room in ("read", "find", "known"):  # what is read and found follows from these two; the others decide only how it is written
            there = {name: there[name] for name in ("corpus-sanitize", "phonenumbers") if name in there}
        if room == "read":
            return hashed(room, there, self.inputs_hash(), corpus.VERSION, self.settings.max_doc_bytes, *more)
        return hashed(room, there, self.fingerprint, *more)

    def _renew(self) -> dict[str, Any]:
        """What WORK says of its index, if it is the one we need; one of another key or setting goes, and the user is told.

        One of another input goes only with `--replace`: it may have taken hours, and the input may be a mistake.
        """
        before = read_json(self.work / "index.json") or {}
        if not before or before.get("fingerprint") == self.fingerprint:
            return before
        same_input = before.get("inputs") == self.inputs_hash()
        same_documents = same_input and before.get("sample", 1.0) == self.settings.sample
        if not same_input and not self.settings.replace:
            raise UsageError(
                f"{self.work}: holds the index of another input ({self.difference(before.get('files') or [])}); nothing was touched. "
                "Put the input back as it was to go on with that index; or use --replace to make the index, and what was made of it, anew; "
                "or take another --work to keep both"
            )
        why = (
            f"another input ({self.difference(before.get('files') or [])})"
            if not same_input
            else "another key"
            if before.get("key_id") != self.key.id
            else index.otherwise(before["looked_for"], self.looked_for)
            if before.get("looked_for", self.looked_for) != self.looked_for
            else "other settings, or by another version"
        )
        self.notes.append(f"the index in {self.work} was made with {why}; it is made again, and what was made of it goes")
        (self.work / "index.json").unlink()
        for name in (
            "tables",
            "runs",
            "tasks/find",
            "tasks/known",
            "rounds",
            "vault/values",
            "vault/rounds",
            "quarantine",
            *(() if same_documents else ("documents", "tasks")),
        ):
            shutil.rmtree(self.work / name, ignore_errors=True)
        return {}

    @property
    def input_files(self) -> list[list[Any]]:
        """Size and sha256 of every input file, in corpus order."""
        return [[size, known] for (_, size), known in zip(self.survey.files, self.input_hashes, strict=True)]

    def difference(self, was: list[list[Any]]) -> str:
        """How the input differs from another one (its `input_files`), in numbers; a file's name may be a person's."""
        now = self.input_files
        if not was:
            return "it does not say of which"
        common, gone, new = (Counter(known for _, known in files) for files in (was, was, now))
        common &= new
        if not (gone - common) and not (new - common):
            return "the same files" + (", in another order" if was != now else ", with other roles of columns")
        said = [f"{len(was):,} files, now {len(now):,}"]
        if len(was) == len(now):
            changed = [no for no, (one, other) in enumerate(zip(was, now, strict=True)) if one[1] != other[1]]
            places = [f"file {no + 1}, {was[no][0]:,} bytes, now {now[no][0]:,}" for no in changed[:3]]
            said = [f"{len(changed):,} of {len(was):,} files changed: {'; '.join(places)}{'; ...' if len(changed) > 3 else ''}"]
        else:
            said.append(f"{(gone - common).total():,} of them gone or changed, {(new - common).total():,} new")
        return ", ".join(said)

    def _describe(self, *, complete: bool) -> None:
        """Write down what the index is of; while it is not complete, its tasks are resumed."""
        write_json(
            self.work / "index.json",
            {
                "fingerprint": self.fingerprint,
                "complete": complete,
                "key_id": self.key.id,
                "looked_for": self.looked_for,
                "inputs": self.inputs_hash(),
                "sample": self.settings.sample,
                "files": self.input_files,
                "documents": self.documents.to_json(),
                "leaves": [[leaf.column, *leaf.steps] for leaf in self.leaves],
                "policies": self.policies,
                "ranges": self.ranges,
            },
        )

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

    def files(self, *place: str) -> list[Path]:
        """The files of a table of WORK, one a task."""
        return [self.work.joinpath(*place, f"{no:05d}.parquet") for no in range(len(self.ranges))]

    def _read(self) -> dict[int, dict[str, Any]]:
        """Read all files through; decode what is not used in place. Returns the result of each decoded unit."""
        reading = Reading(
            survey=self.survey,
            named=tuple(map(str, self.inputs)),
            work=self.work,
            fingerprint=self.record_of("read", str(self.survey.schema), *self._sample),
            max_doc_bytes=self.settings.max_doc_bytes,
            run=self._untrusted,
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
            work=index.find_task,
            task=self._find_task(no, low, high, aside, f"find-{no}"),
            record=self.work / "tasks" / "find" / f"{no:05d}.json",
            fingerprint=self.record_of("find"),
            outputs=outputs,
        )

    def _find_task(self, no: int, low: int, high: int, aside: Sequence[int], spill: str) -> index.FindTask:
        return index.FindTask(
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
        forms, entities = self.work / "vault" / "rounds" / "forms.parquet", self.work / "rounds" / "entities.parquet"
        gather = gathered.GatherTask(
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
                    work=gathered.gather_task,
                    task=gather,
                    record=self.work / "tasks" / "known" / "gathered.json",
                    fingerprint=self.record_of("known"),
                    outputs={"entities.parquet": entities, "forms.parquet": forms},
                )
            )
        crash.at("find:gathered")
        jobs = []
        for no, (low, high) in enumerate(self.ranges):
            name = f"{no:05d}.parquet"
            before = index.FirstRound(
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
                    work=index.known_task,
                    task=replace(task, before=before),
                    record=self.work / "tasks" / "known" / f"{no:05d}.json",
                    fingerprint=self.record_of("known"),
                    outputs=outputs,
                )
            )
        return [{**first, **second} for first, second in zip(results, self.map("known", jobs), strict=True)]

    def _staged_aside(self) -> list[int]:
        """The documents that staging could not read, written as part of the table `quarantine`."""
        rows: list[tuple[Any, ...]] = []
        for unit, source in zip(self.survey.units, self.documents.sources, strict=True):
            if not unit.view:
                aside = pq.read_table(self.work / "documents" / "aside" / f"{unit.no:05d}.parquet", partitioning=None)
                rows += [(source.first_doc_no + one["row"], one["source"], one["place"], one["reason"]) for one in aside.to_pylist()]

        def work(task: Aside) -> dict[str, Any]:
            write_rows(task.folder / "quarantine.parquet", tables.QUARANTINE.schema, rows)
            return {}

        perform(
            Job(
                work=work,
                task=Aside(self.work / "spill" / "aside"),
                record=self.work / "tasks" / "read" / "aside.json",
                fingerprint=self.record_of("read", tables.VERSION, rows),
                outputs={"quarantine.parquet": self.work / "quarantine" / "read" / "00000.parquet"},
            )
        )
        return [row[0] for row in rows]

    def _quarantine(self) -> pa.Table:
        files = [self.work / "quarantine" / "read" / "00000.parquet", *self.files("quarantine", "find")]
        return pa.concat_tables([pq.read_table(file, partitioning=None) for file in files]).sort_by("doc_no")

    def _limit_quarantine(self) -> None:
        found, total = self.quarantine.num_rows, max(self.documents.count, 1)
        limit = 0.0 if self.settings.strict else self.settings.max_quarantine
        if found > limit * total:
            reasons = ", ".join(
                f"{entry['counts']} {entry['values']}" for entry in self.quarantine.column("reason").value_counts().to_pylist()
            )
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
            inside = self.engine.workers == 1 or len(tasks) <= 1
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

    @functools.cached_property
    def input_hashes(self) -> list[str]:
        """The sha256 of every input file, in corpus order."""
        self._seen = [_state(path) for path, _ in self.survey.files]
        return [sha256(Path(path)) for path, _ in self.survey.files]

    def inputs_hash(self) -> str:
        """One hash of the inputs' bytes, their order and the roles of their columns; where they lie does not matter."""
        return hashed(self.input_hashes, str(self.survey.roles))

    def at_rest(self) -> None:
        """Refuse inputs that changed while they were being read, and forget what was read of them."""
        for no, (path, _) in enumerate(self.survey.files):
            if _state(path) != self._seen[no] and (not Path(path).is_file() or sha256(Path(path)) != self.input_hashes[no]):
                for name in ("index.json", "tasks", "runs"):
                    (self.work / name).unlink() if (self.work / name).is_file() else shutil.rmtree(self.work / name, ignore_errors=True)
                raise InputRefused(
                    f"file {no + 1} of the input changed while it was being read; nothing was published. "
                    "Run the same command again when nobody writes there"
                )

    def _needed(self) -> int:
        """About how many bytes a run over this input takes in WORK and OUT together."""
        return sum(int(size * (_TAKES_PACKED if _packed(path) else _TAKES)) for path, size in self.survey.files)


def _state(path: str) -> tuple[int, int] | None:
    """What changes when somebody writes to a file: its size and time; None where it is gone."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


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
