"""The same plan over a stream that never ends: one pass in corpus order, each batch decided against what was seen before it.

    a lot of records -> texts -> find (ahead, by workers) -> edit, apply, check (batchwise.py) -> out -> acknowledged

What was seen lies in a private state folder: ids of values and variants (seen.py), part stores (stores.py), and the position. A batch is
acknowledged when it is where it belongs and one rename has put the new `state.json` in place; a process that ends at any instant
leaves the state of the last acknowledged batch, and the same records give the same bytes again, whatever the batches are (but for what the
check of a batch sweeps). What a stream cannot know is a value that comes later: see docs/stream.md.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import itertools
import json
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import IO, Any

import pyarrow as pa

from sanitize.core import failpoints
from sanitize.core.arrow_buffers import filled
from sanitize.core.engine import Died
from sanitize.core.keys import Key
from sanitize.engines.worker_process import Child
from sanitize.errors import InputRefused, OutputBroken, PlanError, QuarantineExceeded, ResourceError, UsageError, nearest
from sanitize.finders import patterns
from sanitize.kinds.kind import bringing
from sanitize.pipeline.streaming.batch_processor import Batchwise, Outcome, Past, most_kept
from sanitize.pipeline.streaming.component_log import Stores
from sanitize.pipeline.streaming.records import Columns, Fault, Layout, Lot, Records, Sheaf
from sanitize.pipeline.streaming.sources_and_sinks import (
    PART_ROWS,
    ROWS,
    Folder,
    Lines,
    LinesFile,
    Sink,
    after,
    from_descriptor,
    from_iterable,
    from_paths,
    told,
)
from sanitize.pipeline.streaming.value_log import Seen
from sanitize.plans.detection_spec import Sought
from sanitize.plans.plan import Plan, load_plan
from sanitize.readers.staging import Columns as Roled
from sanitize.stages.scanner import Seeker
from sanitize.storage import vault
from sanitize.storage.corpus import CellColumn, cells_of, fsync, read_json, write_json
from sanitize.storage.disk_errors import disk_trouble
from sanitize.storage.locks import locked
from sanitize.storage.publication import hashed
from sanitize.storage.remote_storage import local_path

VERSION = 1  # raise it when a state of before cannot be gone on with
AHEAD = 2  # lots that each worker has before it
_ENOUGH = 1_000  # records before the share of those set aside says anything
_HELD = 64 << 20  # bytes of them that wait for the first that can be read
_NAMED = 40  # columns that an error lists


def streamed(plan: Plan) -> Plan:
    """The plan as a stream runs it; PlanError for what needs the whole corpus at once."""
    way = "a stream sees one record after the other; use `sanitize run`, or take it out of the plan"
    if plan.droppers:
        raise PlanError(f"plan {plan.name}: drop[0].use = {plan.droppers[0].use!r} compares documents of the whole corpus; {way}")
    if plan.blacklist is not None:
        raise PlanError(f"plan {plan.name}: [blacklist] counts users of the whole corpus; {way}")
    others = [finder.use for finder in plan.finders if finder.use != patterns.NAME]
    if others:
        raise PlanError(f"plan {plan.name}: find.finders: {', '.join(others)} gather from the whole corpus; {way}")
    if plan.find.rules:
        raise PlanError(f"plan {plan.name}: find.allow, find.deny and find.min_score choose from an index; {way}")
    editors = tuple(editor.streamed(f"plan {plan.name}: edit[{number}]") for number, editor in enumerate(plan.editors))
    with bringing(plan.customs):
        for editor in editors:
            editor.fits(None)
    return plan.model_copy(update={"editors": editors})


@dataclass(frozen=True, kw_only=True)
class Options:
    """Everything but the plan and the places that a stream is told."""

    columns: Roled = Roled()
    seed: int | None = None
    key_file: Path | None = None
    workers: int = 1
    rows: int = ROWS  # of a batch, at most
    rows_per_shard: int = PART_ROWS  # of one Parquet file
    max_doc_bytes: int = 32 << 20
    max_quarantine: float = 0.10


@dataclass(frozen=True, repr=False)
class Step:
    """A lot, what it became, and what was found on the way."""

    lot: Lot
    made: Lot
    outcome: Outcome


class Stream:
    """A plan at work on a stream. Holds the state from `with` to its end."""

    def __init__(self, plan: Plan | str, state: Path | str | None, options: Options) -> None:
        self.plan = streamed(load_plan(plan) if isinstance(plan, str) else plan)
        self._sought = self.plan.sought
        self.options, self._state = options, local_path(state) if state is not None else None
        self._stack = contextlib.ExitStack()
        self.documents = self.out = self.swept = 0
        self.by_kind: dict[str, dict[str, int]] = {}
        self.reasons: dict[str, int] = {}
        self._names: dict[str, None] = {}  # columns of records that have no main text, as long as none has one
        self._awaited = options.columns.options  # columns that were named, and that no record had yet
        self._began = time.monotonic()

    def __enter__(self) -> Stream:
        try:
            self._stack.enter_context(bringing(self._sought.customs))
            self._open()
        except BaseException:
            self._stack.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.__exit__(kind, error, trace)

    def _leave(self, kind: type[BaseException] | None, *_: object) -> None:
        """Take a new state away again after a mistake of the user's, as long as nothing was acknowledged; its lock is still held."""
        mistake = kind is not None and issubclass(kind, UsageError | InputRefused)
        if mistake and self._fresh and not (self.state / "state.json").exists():
            shutil.rmtree(self.state, ignore_errors=True)

    def _open(self) -> None:
        _not_forked()
        here = self._state
        if here is None:
            # nothing is to be gone on with: the state goes when the stream ends
            here = Path(tempfile.mkdtemp(prefix="sanitize-stream-"))
            self._stack.callback(shutil.rmtree, here, ignore_errors=True)
        self.state = here
        self._fresh = not here.exists()
        with vault.umask(0o077), disk_trouble(here.parent):
            vault.open_work(here, never=vault.OF_RUN)
            self._stack.enter_context(locked(here))
            self._stack.push(self._leave)
            for left in here.glob("*.tmp"):
                left.unlink()
            self.key: Key = vault.key_of(here, key_file=self.options.key_file, seed=self.options.seed)
            said = read_json(here / "state.json")
            if said is None and (here / "state.json").exists():
                raise OutputBroken(f"{here}/state.json: not readable; take the state from a backup, or a new --state")
            self._said = said or {}
            self._fits()
            self.position = int(self._said.get("records", 0))
            self.sources: dict[str, dict[str, Any]] = dict(self._said.get("sources", {}))
            self.sinks: dict[str, dict[str, Any]] = dict(self._said.get("sinks", {}))
            self.total_aside = int(self._said.get("quarantined", 0))
            places = self._said.get("texts", [])
            self.layout = Layout(
                self.options.columns.roles,
                self.options.columns.policies,
                [(column, tuple(steps)) for _, column, *steps in places],
                [rank for rank, *_ in places],
                list(self._said.get("fields", [])),
            )
            self.seen = Seen(vault.private(here / vault.OF_STREAM), self._said.get("seen", ()), most_kept(self.plan.editors))
            grows = any(getattr(editor, "stores", "curated") != "curated" for editor in self.plan.editors)
            self.stores = Stores(here / "stores.jsonl", int(self._said.get("stores", 0))) if grows else None
            self._aside = vault.private(here / "quarantine") / "records.jsonl"
            self._aside.touch(mode=0o600)
            os.truncate(self._aside, int(self._said.get("aside", 0)))
        self._faults: list[bytes] = []
        self.batchwise = Batchwise(self.plan, self.key, Past(self.seen, self.stores), self.stores, here)

    def _fits(self) -> None:
        """A state is gone on with under the same plan, key and roles only: what was seen means nothing to another."""
        columns = self.options.columns
        told = {
            "version": VERSION,
            "plan": self.plan.hash(),
            "key": self.key.id,
            "columns": hashed([columns.roles.text, columns.roles.user, columns.roles.id], dict(columns.policies)),
        }
        before = {name: self._said.get(name) for name in told}
        differs = [name for name in told if self._said and before[name] != told[name]]
        if differs:
            what = {"version": "version of the state", "plan": "plan", "key": "key", "columns": "roles of columns"}[differs[0]]
            raise UsageError(f"{self.state}: was made with another {what}; go on with that one, or take a new --state")
        self._told = told

    def clean(self, lots: Iterable[Lot]) -> Generator[Step]:
        """The lots without what had to go, in order. Each has to be counted (`count`) before the next one is asked for."""
        for lot, sheaf, columns, founds in self._ahead(lots):
            outcome = self.batchwise.run(sheaf, columns, founds(), lot.holds)
            for doc_no in outcome.gone:
                row = doc_no - self.position
                lot.bad[row] = Fault("leak", raw=lot.raw(row))
            kept = outcome.table
            if len(outcome.gone):
                going = [place for place, row in enumerate(sheaf.rows.tolist()) if row not in lot.bad]
                sheaf = replace(sheaf, table=kept, rows=sheaf.rows[going])
            yield Step(lot, lot.rewritten(sheaf, kept, outcome.edited, self.layout, self.key), outcome)

    def _ahead(self, lots: Iterable[Lot]) -> Iterator[tuple[Lot, Sheaf, Sequence[CellColumn], Callable[[], Sequence[patterns.Found]]]]:
        """Each lot with its texts and what is found in them; workers look at the lots to come, and the order stays."""
        first = self.position
        if self.options.workers <= 1:
            finder = Seeker(self.key, self._sought)
            for lot in lots:
                sheaf, columns, texts = self._texts(lot, first)
                first += len(lot)
                yield lot, sheaf, columns, functools.partial(_each_of, finder, texts)
            return
        crew = _Crew(self.options.workers, self.key, self._sought)
        waiting: deque[tuple[Lot, Sheaf, Sequence[CellColumn], Future[Sequence[patterns.Found]]]] = deque()
        try:
            for lot in lots:
                sheaf, columns, texts = self._texts(lot, first)
                first += len(lot)
                waiting.append((lot, sheaf, columns, crew.submit(texts)))
                if len(waiting) > AHEAD * self.options.workers:
                    *ready, future = waiting.popleft()
                    yield ready[0], ready[1], ready[2], _result(future)  # type: ignore[misc]
            while waiting:
                *ready, future = waiting.popleft()
                yield ready[0], ready[1], ready[2], _result(future)  # type: ignore[misc]
        finally:
            crew.close()

    def _texts(self, lot: Lot, first: int) -> tuple[Sheaf, list[CellColumn], list[pa.LargeStringArray]]:
        sheaf = lot.sheaf(self.layout, first, self.options.max_doc_bytes)
        self._awaited = {name: option for name, option in self._awaited.items() if not lot.has(name)}
        columns = cells_of(sheaf.table, list(sheaf.leaves))
        return sheaf, columns, [filled(one.flat.texts) for one in columns]

    def count(self, step: Step, source: Path | None = None) -> None:
        """A lot is on its way out: what it showed stands before the next one."""
        lot, made, outcome = step.lot, step.made, step.outcome
        for row, fault in sorted(lot.bad.items()):
            self.reasons[fault.reason] = self.reasons.get(fault.reason, 0) + 1
            one = {"record": self.position + row, "place": fault.place, "reason": fault.reason, "raw": fault.raw}
            self._faults.append(json.dumps(one).encode() + b"\n")
        self.seen.add(outcome.seen, outcome.tags)
        if self.stores is not None:
            self.stores.keep()
        self.position += len(lot)
        if source is not None:
            self.sources.setdefault(os.path.abspath(source), {"records": 0})["records"] += len(lot)
        self.documents += len(lot)
        self.total_aside += len(lot.bad)
        self.out += len(made)
        self.swept += outcome.swept
        for kind, counts in outcome.by_kind.items():
            total = self.by_kind.setdefault(kind, dict.fromkeys(counts, 0))
            for name, times in counts.items():
                total[name] += times
        if self.dark:
            self._names |= dict.fromkeys(itertools.islice(lot.named(self.layout.main), _NAMED))
            if self.documents >= _ENOUGH or sum(map(len, self._faults)) > _HELD:
                self.lit()

    @property
    def notes(self) -> list[str]:
        """What was said of columns that no record had: a name that is misspelt leaves a column as it is."""
        told = (f"--{option} {name}: no record had such a column" for name, option in self._awaited.items())
        return list(told) if self.documents else []

    @property
    def dark(self) -> bool:
        """Whether no record so far, of this command or an earlier one, has the main text. Nothing is acknowledged or written then, unless
        all may be set aside."""
        return self.layout.main not in self.layout.columns and self.options.max_quarantine < 1

    def lit(self) -> None:
        """Refuse a stream in which there were records and none has the main text: that is a wrong column, or no JSON lines."""
        if not (self.dark and self.documents):
            return
        count, main = f"{self.documents:,} record{'s' if self.documents > 1 else ''}", self.options.columns.roles.text[0]
        if self._names:
            raise UsageError(
                f"the stream: of its {count} none has a text in a column {main}; name the column with --text-column NAME. "
                f"Columns {nearest(main, [name for name in self._names if name != main][:_NAMED])}"
            )
        reasons = ", ".join(f"{times:,}: {told(reason)}" for reason, times in sorted(self.reasons.items()))
        raise InputRefused(
            f"the stream: of its {count} none can be read ({reasons}). "
            + (
                "--max-quarantine 100% sets all of them aside"
                if self.sources
                else f"Expected JSON lines, one object on each with its text in a column {main} (--text-column NAME names another); "
                "all other formats are read from files"
            )
        )

    def commit(self) -> None:
        """Acknowledge all that `clean` has gone past: the state on the disk says so after one rename."""
        with vault.umask(0o077), disk_trouble(self.state):
            with self._aside.open("ab") as file:
                file.write(b"".join(self._faults))
                file.flush()
                os.fsync(file.fileno())
                aside = file.tell()
            self._faults = []
            stores = self.stores.commit() if self.stores is not None else 0
            seen = self.seen.commit()
            fsync(self.state)
            failpoints.at("stream:written")
            state = {
                **self._told,
                "records": self.position,
                "quarantined": self.total_aside,
                "sources": self.sources,
                "sinks": self.sinks,
                "texts": [[rank, column, *steps] for rank, (column, steps) in zip(self.layout.ranks, self.layout.found, strict=True)],
                "fields": self.layout.columns,
                "seen": seen,
                "stores": stores,
                "aside": aside,
            }
            write_json(self.state / "state.json", state)
            failpoints.at("stream:committed")
            self.seen.tidy()
        self._limit()

    def _limit(self) -> None:
        found, limit = sum(self.reasons.values()), self.options.max_quarantine
        if self.documents >= _ENOUGH and found > limit * self.documents:
            reasons = ", ".join(f"{times} {reason}" for reason, times in sorted(self.reasons.items()))
            raise QuarantineExceeded(
                f"{found} of {self.documents} records were set aside ({reasons}); --max-quarantine allows {limit:.0%}. "
                f"All before them is acknowledged; they lie in {self.state}/quarantine"
            )

    def into(self, lots: Iterable[Lot], sink: Sink, *, source: Path | None = None, place: Path | None = None) -> None:
        """Send the lots through and out. `source` and `place` are remembered, so that the same command goes on with the same file."""
        if source is not None and source.is_file():
            self.sources.setdefault(os.path.abspath(source), {"records": 0})["size"] = source.stat().st_size
        with contextlib.closing(self.clean(lots)) as steps, disk_trouble(Path(place or self.state).parent):
            for step in steps:
                if not self.dark:
                    self._claim(sink, place)
                    sink.put(step.made)
                self.count(step, source)
                if not self.dark and sink.ready():
                    self._settle(sink, place)
            if not self.dark:
                self._claim(sink, place)
                self._settle(sink, place)

    def end(self, sink: Sink, place: Path | None = None) -> None:
        """After the last input: refuse what no record had a text in; an output of no records is one, too."""
        self.lit()
        if self.dark:
            with disk_trouble(Path(place or self.state).parent):
                self._claim(sink, place)
                self._settle(sink, place)

    def _claim(self, sink: Sink, place: Path | None) -> None:
        """The place is ours from now on, whatever is found there after a stop."""
        if place is not None and os.path.abspath(place) not in self.sinks:
            self.sinks[os.path.abspath(place)] = sink.settle()
            self.commit()

    def _settle(self, sink: Sink, place: Path | None) -> None:
        said = sink.settle()
        failpoints.at("stream:emitted")
        if place is not None:
            self.sinks[os.path.abspath(place)] = said
        self.commit()

    def remaining(self, lots: Iterable[Lot], source: Path) -> Iterator[Lot]:
        """The lots of a file or folder that were not acknowledged yet."""
        said = self.sources.get(os.path.abspath(source), {})
        if source.is_file() and source.stat().st_size < int(said.get("size") or 0):
            raise InputRefused(f"{source}: is shorter than when it was read; put it back, or give the new file another name")
        return after(lots, int(said.get("records", 0)))

    def summary(self) -> dict[str, Any]:
        """Counts of this command, and the acknowledged position in the whole stream."""
        seconds = time.monotonic() - self._began
        kinds = {
            kind: {**counts, "replaced": counts["occurrences"] - counts["kept"] - counts["left"]}
            for kind, counts in sorted(self.by_kind.items())
        }
        return {
            "documents_in": self.documents,
            "documents_out": self.out,
            "documents_dropped": 0,
            "quarantined": self.documents - self.out,
            "quarantine": dict(sorted(self.reasons.items())),
            "occurrences": sum(counts["occurrences"] for counts in kinds.values()),
            "kept_originals": sum(counts["kept"] for counts in kinds.values()),
            "replaced": sum(counts["replaced"] for counts in kinds.values()),
            "by_kind": kinds,
            "notes": self.notes,
            "swept": self.swept,
            "leaks": 0,
            "position": self.position,
            "changed": self.documents > 0,
            "seconds": round(seconds, 2),
            "plan_hash": self.plan.hash(),
            "state": str(self._state) if self._state is not None else None,
        }


_first: list[int] = []  # the process in which the first stream was opened


def _not_forked() -> None:
    """UsageError where this would hang after a stream of ours: the threads of Polars do not come along with a fork, and it waits for them
    for good. That others had used it before the fork, nobody tells."""
    _first[:] = _first or [os.getpid()]
    if _first[0] != os.getpid():
        raise UsageError(
            "a stream in a process that was forked from one that had a stream would wait for good; start it otherwise, such as by "
            "DataLoader(..., multiprocessing_context='forkserver'), or take num_workers=0"
        )


class _Crew:
    """Processes that find in lots to come. One thread waits for each of them; they end with the stream, and with this process, however that
    ends."""

    def __init__(self, workers: int, key: Key, sought: Sought) -> None:
        self._for = key.secret, key.public, sought
        self._children = [Child() for _ in range(workers)]
        self._idle: SimpleQueue[Child] = SimpleQueue()
        for child in self._children:
            self._idle.put(child)
        self._threads = ThreadPoolExecutor(workers, "find")

    def submit(self, texts: list[pa.LargeStringArray]) -> Future[Sequence[patterns.Found]]:
        """Find in these texts once one is free."""
        return self._threads.submit(self._found, texts)

    def _found(self, texts: list[pa.LargeStringArray]) -> Sequence[patterns.Found]:
        child = self._idle.get()
        try:
            child.send(_find, 0, (*self._for, texts), mask=0o077)
            found: Sequence[patterns.Found] = child.receive().result
            return found
        finally:
            self._idle.put(child)

    def close(self) -> None:
        """End them at once, whatever they do."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for child in self._children:
            child.stop()
        self._threads.shutdown()
        for child in self._children:
            child.kill()


_finder: list[Seeker] = []  # of a worker, which is of one stream alone
_there = contextlib.ExitStack()  # what it brought, as long as it lives


def _each_of(finder: Seeker, texts: Sequence[pa.LargeStringArray]) -> Sequence[patterns.Found]:
    return [finder.run(one) for one in texts]


def _find(task: tuple[bytes, bool, Sought, list[pa.LargeStringArray]]) -> Sequence[patterns.Found]:
    secret, public, sought, texts = task
    if not _finder:
        _there.enter_context(bringing(sought.customs))
        _finder.append(Seeker(Key(secret, public), sought))
    return _each_of(_finder[0], texts)


def _result(future: Future[Sequence[patterns.Found]]) -> Callable[[], Sequence[patterns.Found]]:
    def ask() -> Sequence[patterns.Found]:
        try:
            return future.result()
        except Died:
            raise ResourceError("a worker died; run the same command again to go on from here, with fewer --workers") from None

    return ask


def stream(
    source: Iterable[Any],
    plan: Plan | str = "rmft",
    *,
    state: Path | str | None = None,
    seed: int | None = None,
    key_file: Path | str | None = None,
    columns: Roled | None = None,
    workers: int = 1,
    again: bool = False,
    rows: int = ROWS,
    max_doc_bytes: int = 32 << 20,
) -> Iterator[Any]:
    """The records of `source` one after the other without what had to go: dictionaries for dictionaries, record batches for Arrow's.

    Up to `rows` records are read before the first comes out, however slowly they come: take few for a source that pauses.

    `state` is a private folder; with it a later call goes on where the last acknowledged batch ended. A batch is acknowledged when the
    record after it is asked for, and at the end. `again`: the source begins at its beginning once more, and what was acknowledged is
    skipped; without it, it begins behind that. Without `state` nothing is remembered, and with neither `seed` nor `key_file` every call
    has a key of its own. Records that cannot be worked on are left out and lie in STATE/quarantine.

    Raises PlanError for a plan that needs the whole corpus, and what `run` raises.
    """
    options = Options(
        columns=columns or Roled(),
        seed=seed,
        key_file=Path(key_file) if key_file is not None else None,
        workers=workers,
        rows=rows,
        max_doc_bytes=max_doc_bytes,
    )
    # now, not when the first record is asked for
    if isinstance(source, str | bytes | Path | Mapping) or not isinstance(source, Iterable):
        raise UsageError(f"a stream takes an iterable of records, and no {type(source).__name__}; files are read by `sanitize stream FILE`")
    checked = streamed(load_plan(plan) if isinstance(plan, str) else plan)
    return _each(source, checked, state, options, again)


def _each(source: Iterable[Any], plan: Plan, state: Path | str | None, options: Options, again: bool) -> Iterator[Any]:
    # what the plan brings is there while a record is made, and not while the caller has it
    inside = contextvars.copy_context()
    records = _records(source, plan, state, options, again)
    try:
        while (record := inside.run(next, records, _END)) is not _END:
            yield record
    finally:
        inside.run(records.close)


_END = object()


def _records(source: Iterable[Any], plan: Plan, state: Path | str | None, options: Options, again: bool) -> Generator[Any]:
    with Stream(plan, state, options) as one:
        lots = from_iterable(source, options.rows)
        with contextlib.closing(one.clean(after(lots, one.position) if again else lots)) as steps:
            for step in steps:
                if isinstance(step.made, Records):
                    yield from step.made.rows
                elif isinstance(step.made, Columns):
                    yield from step.made.table.combine_chunks().to_batches()
                one.count(step)
                if not one.dark:
                    one.commit()
        one.lit()
        for note in one.notes:
            warnings.warn(note, stacklevel=2)


def pipe(
    inputs: Sequence[Path],
    out: Path | None,
    plan: Plan,
    state: Path | None,
    options: Options,
    *,
    stdin: int = 0,
    stdout: IO[bytes] | None = None,
) -> dict[str, Any]:
    """`sanitize stream`: JSON lines from standard input, or files, to standard output, a file of JSON lines, or a folder of Parquet.

    Returns the summary. A file that is named again goes on where it was; what comes on standard input follows what was acknowledged.
    """
    vault.apart(inputs, out, state)
    if out is not None and not out.suffix:  # a file ends with a batch, since nothing else is acknowledged
        options = replace(options, rows=min(options.rows, options.rows_per_shard))
    with Stream(plan, state, options) as one:
        # every input is looked at before anything is written
        names: list[set[str] | None] = []
        feeds = [(path, from_paths([path], options.columns.roles, options.max_doc_bytes, options.rows, names)) for path in inputs]
        known = set().union(*(one for one in names if one is not None))
        for name, option in options.columns.options.items() if names and None not in names else ():
            if name not in known:
                raise UsageError(f"--{option} {name}: there is no such column; {nearest(name, known)}")
        place = os.path.abspath(out) if out is not None else ""
        sink: Sink
        if out is None:
            if stdout is None and sys.stdout is None:
                raise UsageError("the stream: standard output is closed; name a file or a folder with -o")
            sink = Lines(stdout or sys.stdout.buffer)
        elif out.suffix in (".jsonl", ".ndjson"):
            sink = LinesFile(out, one.sinks.get(place, {}))
        elif out.suffix:
            raise UsageError(f"{out}: a stream writes JSON lines (-o FILE.jsonl) or a folder of Parquet files (-o FOLDER, without a dot)")
        else:
            sink = Folder(out, one.sinks.get(place, {}), options.rows_per_shard)
        if not inputs:
            one.into(from_descriptor(stdin, options.max_doc_bytes, options.rows), sink, place=out)
        for path, lots in feeds:
            one.into(one.remaining(lots, path), sink, source=path, place=out)
        one.end(sink, out)
        return one.summary()
