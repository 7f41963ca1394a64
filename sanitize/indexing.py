"""The index of a corpus in WORK: files read, every occurrence found and counted, or what is there used as it is.

    read -> find -> count

Tasks are fixed ranges of `doc_no`; each leaves files and a record, so that the same command goes on where it was stopped.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sanitize import corpus, counts, crash, index, queries, tables, vault
from sanitize.cells import Leaf
from sanitize.corpus import Columns, documents_of, leaf_named, policies_for
from sanitize.disk import code_of, disk_trouble, failed
from sanitize.engines.child import peak_mb
from sanitize.engines.engine import Died, Done
from sanitize.engines.local import Local
from sanitize.errors import InputRefused, QuarantineExceeded, ResourceError, SanitizeError, UsageError, nearest, unforeseen
from sanitize.keyed import Key
from sanitize.kinds.kind import kinds
from sanitize.lock import locked, out_locked
from sanitize.manifest import versions
from sanitize.progress import Progress, Step, silent
from sanitize.publish import Job, hashed, mend, perform
from sanitize.read import Roles, Survey
from sanitize.reading import Reading, size_of, surveyed
from sanitize.shards import Documents, cell_leaves, read_json, sha256, write_json, write_rows
from sanitize.views import glob_escaped, quote_literal

# bytes that a run takes in WORK and OUT for each byte of an input, measured on mail, logs and prose; packed ones unfold on the way
_TAKES, _TAKES_PACKED = 1.0, 4.0


@dataclass(frozen=True)
class Aside:
    """A task without anything but its folder, for what the hall does itself."""

    folder: Path


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything but the plan that a run is told; the defaults are the command's."""

    columns: Columns = field(default_factory=Columns)
    seed: int | None = None
    key_file: Path | None = None
    workers: int | None = None
    memory_limit: str = "1GB"
    rows_per_shard: int = 50_000
    max_doc_bytes: int = 32 << 20
    max_quarantine: float = 0.10
    strict: bool = False
    verify: str = "fast"
    replace: bool = False
    progress: Progress = silent

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[1-9][0-9]*(\.[0-9]+)? ?([KMGT]i?B|%)", self.memory_limit):
            raise UsageError(f"--memory-limit {self.memory_limit}: expected a size such as 500MB or 4GB")
        if self.verify not in ("fast", "full", "off"):
            raise UsageError(f"--verify {self.verify}: {nearest(self.verify, ('fast', 'full', 'off'))}")

    def to_json(self) -> dict[str, Any]:
        """What `from_json` makes the same settings of; `progress` and `replace` are of one command alone."""
        names = ("seed", "memory_limit", "rows_per_shard", "max_doc_bytes", "max_quarantine", "strict", "verify")
        key_file = os.path.abspath(self.key_file) if self.key_file else None
        return {"columns": asdict(self.columns), "key_file": key_file, **{name: getattr(self, name) for name in names}}

    @classmethod
    def from_json(cls, said: Mapping[str, Any], **more: Any) -> Settings:
        """The settings that `to_json` described, with some changed."""
        roles = said["columns"]["roles"]
        columns = Columns(roles=Roles(**{**roles, "text": tuple(roles["text"])}), policies=said["columns"]["policies"])
        key_file = Path(said["key_file"]) if said["key_file"] else None
        return cls(**{**said, "columns": columns, "key_file": key_file, **more})

    @property
    def reading_bytes(self) -> int:
        """The memory that reading one piece of an input may take: the limit, and a few copies of the largest document."""
        said = re.fullmatch(r"([0-9.]+) ?([KMGT%]).*", self.memory_limit)
        power = "KMGT".find(said[2]) + 1 if said else 0
        size = float(said[1]) * 1024**power if said and power else 1 << 30  # DuckDB's alone is a share of the machine
        return int(size) + 8 * self.max_doc_bytes


@dataclass
class Stages:
    """What each stage cost: CPU-seconds over all processes, wall seconds, and the peak memory of one process."""

    found: dict[str, dict[str, float]] = field(default_factory=dict)
    progress: Progress = silent
    _within: list[list[float]] = field(default_factory=lambda: [[0.0, 0.0]])  # CPU and wall seconds of the stages inside each open one

    @contextlib.contextmanager
    def measure(self, name: str) -> Iterator[dict[str, float]]:
        """Add what happens in the block to a stage; a stage inside another one is not counted twice."""
        cpu, wall = time.process_time(), time.monotonic()
        cost = {"cpu_s": 0.0, "peak_rss_mb": 0.0}
        self._within.append([0.0, 0.0])
        self.progress(Step(stage=name))
        try:
            yield cost
        finally:
            self.progress(Step(stage=name, done=1))
            spent = (time.process_time() - cpu, time.monotonic() - wall)
            inside = self._within.pop()
            self._within[-1] = [total + one for total, one in zip(self._within[-1], spent, strict=True)]
        before = self.found.get(name, {"cpu_s": 0.0, "wall_s": 0.0, "peak_rss_mb": 0.0})
        peak = max(cost["peak_rss_mb"], peak_mb(), before["peak_rss_mb"])
        self.found[name] = {
            "cpu_s": round(before["cpu_s"] + cost["cpu_s"] + spent[0] - inside[0], 3),
            "wall_s": round(before["wall_s"] + spent[1] - inside[1], 3),
            "peak_rss_mb": round(peak, 1),
        }


class Indexing:
    """One command at work in one WORK folder. Holds the lock from `with` to its end."""

    def __init__(self, inputs: Sequence[Path | str], work: Path, settings: Settings) -> None:
        self.inputs, self.work, self.settings = [Path(path) for path in inputs], work, settings
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

    @functools.cached_property
    def fingerprint(self) -> str:
        """Everything that decides what the index holds, as this house declares it: inputs, key, settings and the versions of the rooms."""
        settings = self.settings
        return hashed(
            "find",
            self.inputs_hash(),
            self.key.id,
            (tables.VERSION, corpus.VERSION, index.VERSION),
            _kinds_hash(),
            (settings.rows_per_shard, settings.max_doc_bytes),
            [str(leaf) for leaf in self.leaves],
        )

    def record_of(self, room: str, *more: object) -> str:
        """The fingerprint of a room's records: what the room depends on, and the libraries at work in it."""
        there = versions()
        if room in ("read", "find"):  # what is read and found follows from these two; the others decide only how it is written
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
            else "other settings, or by another version"
        )
        self.notes.append(f"the index in {self.work} was made with {why}; it is made again, and what was made of it goes")
        (self.work / "index.json").unlink()
        for name in ("tables", "runs", "tasks/find", "vault/values", "quarantine", *(() if same_input else ("documents", "tasks"))):
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
                "inputs": self.inputs_hash(),
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
            fingerprint=self.record_of("read", str(self.survey.schema)),
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
        name = f"{no:05d}.parquet"
        task = index.FindTask(
            no=no,
            first=low,
            last=high,
            documents=self.documents,
            leaves=self.leaves,
            key=self.key,
            max_doc_bytes=self.settings.max_doc_bytes,
            checked=tuple(name for name, policy in self.policies.items() if policy != "drop"),
            set_aside=tuple(row for row in aside if low <= row < high),
            folder=self.work / "spill" / f"find-{no}",
        )
        outputs = {
            "occurrences.parquet": self.work / "tables" / "occurrences" / name,
            "partial_counts.parquet": self.work / "tables" / "partial_counts" / name,
            "ids.parquet": self.work / "tables" / "ids" / name,
            "skipped.parquet": self.work / "tables" / "skipped" / name,
            "values.parquet": self.work / "vault" / "values" / name,
            "quarantine.parquet": self.work / "quarantine" / "find" / name,
        }
        return Job(
            work=index.find_task,
            task=task,
            record=self.work / "tasks" / "find" / f"{no:05d}.json",
            fingerprint=self.record_of("find"),
            outputs=outputs,
        )

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
                    occurrences=step.occurrences + (sum(done.result["by_kind"].values()) if stage == "find" else 0),
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


def _kinds_hash() -> str:
    text = json.dumps(
        [[kind.name, kind.pattern, kind.turn, kind.rank, kind.not_before.hex(), kind.not_after.hex()] for kind in kinds().values()]
    )
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
