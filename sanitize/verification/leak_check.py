"""The leak check: looks again at what was made, and is the only room that may say "leak".

Independent of the rooms that made it: it imports nothing from find/, drop/ or edit/ and uses none of their patterns. It takes the
values that had to go and looks for their very bytes in every string of every output column, in the forms `exact`, `case-folded` (ASCII
without regard to case) and `NFKC` (each character in its Unicode compatibility form). A match counts where the kind's boundary rule
allows one; one inside an original that was kept on purpose, or strictly inside a replacement, belongs to that.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.core.arrow_buffers import Buffers, code_points, filled
from sanitize.core.display import Told
from sanitize.core.engine import Done, Engine, bytes_of
from sanitize.core.progress import Progress, Step, silent
from sanitize.core.text_cells import Leaf, flatten, leaves
from sanitize.engines.local import Local
from sanitize.errors import LeakFound, OutputBroken, SanitizeError, UsageError, nearest
from sanitize.kinds.custom_kind import customs_of
from sanitize.kinds.kind import bringing, every_kind
from sanitize.storage import remote_output, table_schemas, tombstones, vault
from sanitize.storage.corpus import Corpus, Documents, cells_of, read_json, write_rows
from sanitize.storage.remote_storage import is_url, shown
from sanitize.storage.views import ids_left_alone
from sanitize.text import name_search
from sanitize.text.decodings import Spans, views
from sanitize.text.literal_search import FORMS, Flagged, Matches, ready
from sanitize.verification.attribution import VerifyTask as VerifyTask
from sanitize.verification.attribution import batches, comes_later, inside_kept, owned
from sanitize.verification.full_check import Finding, full
from sanitize.verification.value_forms import tells, write_passes

I64 = npt.NDArray[np.int64]
_SMALL = 16 << 20  # bytes of shards that are looked at sooner than workers have begun
_PAGES = ("README.md", "report.html", "manifest.json")
VERSION = 3  # raise it when what is swept or what is a leak changes
# what is left to do where the full check finds what cannot be swept
NO_SWEEP = (
    "What stands in a text is swept, in whatever writing; a kept column can be cleaned (--sanitize COLUMN) or left out (--drop COLUMN), "
    "and what stays in a text can be listed as it is written there with --known FILE; --verify fast looks for fewer forms, and would "
    "publish it"
)


def verify_task(task: VerifyTask) -> dict[str, Any]:
    """Look at one shard. Returns rows, text bytes, kept originals seen and missing, `swept` (left over in a text, written to
    `task.sweep` as occurrences), and `leaks`: what cannot be swept, as (column, kind, doc_no) without any value."""
    parts = Flagged.parts(task.flagged)
    names = parts[0].names
    kept = pl.DataFrame(pq.read_table(task.kept, partitioning=None))
    kept_doc = kept["doc_no"].to_numpy()
    # originals whose values are too common to be looked for cannot be seen again
    unseen = np.isin(kept["value_id"].to_numpy(), parts[0].spared)
    residual: list[_Residual] = []
    leaks: list[tuple[str, str, int]] = []
    rows = text_bytes = seen = 0
    for table, doc_no in batches(task):
        rows += table.num_rows
        low, high = np.searchsorted(kept_doc, [doc_no[0], doc_no[-1] + 1])
        here = kept[int(low) : int(high)]
        counted = here.filter(~pl.Series(unseen[int(low) : int(high)])) if unseen.any() else None
        which = [leaf for leaf in task.leaves if leaf.column in table.column_names]
        for column in cells_of(table, which):
            texts = filled(column.flat.texts)
            text_bytes += len(Buffers.of(texts).data)
            for flagged, seen_at, exact in (*_looked_for(parts, texts), *_further(task, parts, texts)):
                docs, cells = doc_no[column.flat.rows[seen_at.text_no]], column.cells[seen_at.text_no]
                inside, hits = inside_kept(here, docs, cells, seen_at.start, seen_at.stop)
                if counted is not None:
                    _, hits = inside_kept(counted, docs, cells, seen_at.start, seen_at.stop)
                seen += hits if exact else 0
                if not inside.all():
                    rest = np.flatnonzero(~inside)
                    form = seen_at.form[rest]
                    value = (flagged.kind[form].astype(np.int64), flagged.value_id[form])
                    span = (seen_at.start[rest], seen_at.stop[rest])
                    residual.append(_Residual(docs[rest], cells[rest].astype(np.int64), *span, *value, str(column.leaf)))
        for leaf in leaves(table.schema):
            if leaf not in which:
                texts = filled(flatten(table.column(leaf.column).chunk(0), leaf).texts)
                text_bytes += len(Buffers.of(texts).data)
                for flagged, seen_at, _ in _looked_for(parts, texts):
                    leaks += [(str(leaf), names[flagged.kind[form]], -1) for form in seen_at.form]
        leaks += _mentioned(table, task.names)
        for name, texts in _other_texts(table):
            leaks += [(name, names[flagged.kind[form]], -1) for flagged in parts for form in flagged.find(texts).form]
    swept, more = _sorted_out(task, residual, names) if residual else ([], [])
    leaks += more
    count = _write_sweep(task, swept, names)
    return {
        "rows": rows,
        "text_bytes": text_bytes,
        "kept_seen": seen,
        "kept_planned": kept.height - int(unseen.sum()),
        "swept": count,
        "leaks": leaks,
    }


def _looked_for(parts: Sequence[Flagged], texts: pa.LargeStringArray) -> Iterator[tuple[Flagged, Matches, bool]]:
    """The matches of each part in a column, where there are any: as the texts stand, and in compatibility form (then False)."""
    for flagged in parts:
        for seen_at, exact in ((flagged.find(texts), True), (flagged.find_compatible(texts), False)):
            if len(seen_at.form):
                yield flagged, seen_at, exact


def _further(task: VerifyTask, parts: Sequence[Flagged], texts: pa.LargeStringArray) -> Iterator[tuple[Flagged, Matches, bool]]:
    """The same of the forms that only a full check looks for: a value's identity form and its digests, all that is encoded in the text,
    and the digits of a number whatever separates them, where they are all of a row or stand there unbroken."""
    if not task.further:
        return
    identity, digits, digests = task.further
    for flagged in (*Flagged.parts(identity), *Flagged.parts(digests)):
        if len((seen_at := flagged.find(texts)).form):
            yield flagged, seen_at, False
    plain = (*parts, *Flagged.parts(identity))
    wide = max(int(flagged.about[1]) for flagged in plain)
    for view in views(texts, wide + 4):
        number = view.form == "digits"
        for flagged in Flagged.parts(digits) if number else plain:
            seen = flagged.find(view.pieces, bounded=False)
            if not len(seen.form):
                continue
            at = view.original(seen.text_no, seen.start, seen.stop)
            good = at.touched if number else at.touched & flagged.bounded(view.pieces, seen) & tells(flagged, seen.form, view.form)
            if good.any():
                yield flagged, Matches(at.text_no[good], *_to_characters(texts, at, good), seen.form[good]), False


def _to_characters(texts: pa.LargeStringArray, at: Spans, which: npt.NDArray[np.bool_]) -> tuple[I64, I64]:
    """Spans in their texts, widened where they cut a character: what is decoded may begin anywhere."""
    buffers = Buffers.of(texts)
    base = buffers.offsets[at.text_no[which]]
    edges = []
    for edge, step in ((base + at.start[which], -1), (base + at.stop[which], 1)):
        while (inside := (edge < len(buffers.data)) & ((buffers.data[np.minimum(edge, len(buffers.data) - 1)] & 0xC0) == 0x80)).any():
            edge = edge + step * inside
        edges.append(edge - base)
    return edges[0], edges[1]


def _mentioned(table: pa.Table, names: Sequence[str]) -> list[tuple[str, str, int]]:
    """One entry for each mention in any text of a batch."""
    found: list[tuple[str, str, int]] = []
    for leaf in leaves(table.schema) if names else ():
        texts = flatten(table.column(leaf.column).chunk(0), leaf).texts
        found += [(str(leaf), name_search.KIND, -1)] * name_search.count(texts, names)
    return found


def _other_texts(table: pa.Table) -> Iterator[tuple[str, pa.LargeStringArray]]:
    """What is no string and can hold one all the same: the names of columns and fields, and columns of bytes."""
    yield "(column names)", pa.array([str(leaf) for leaf in leaves(table.schema)] + table.column_names, pa.large_string())
    for field in table.schema:
        if pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type) or pa.types.is_fixed_size_binary(field.type):
            raw = table.column(field.name).chunk(0).cast(pa.large_binary()).fill_null(b"")
            _, offsets, data = raw.buffers()  # the matcher compares bytes, whatever they spell
            yield field.name, pa.LargeStringArray.from_buffers(len(raw), offsets, data, None, 0, raw.offset)


# document, cell, first and last + 1 byte of the input text, number of the kind, value_id
_Swept = tuple[int, int, int, int, int, int]


@dataclass(frozen=True)
class _Residual:
    """Matches that no kept original holds, in output bytes."""

    doc_no: I64
    cell: I64
    start: I64
    stop: I64
    kind: I64
    value_id: I64
    column: str


def _sorted_out(task: VerifyTask, residual: list[_Residual], names: Sequence[str]) -> tuple[list[_Swept], list[tuple[str, str, int]]]:
    """What can be swept, in bytes of the input text, and what is a leak: a match that is all of a replacement.

    A match strictly inside a replacement, or strictly inside an opaque value that the plan leaves, belongs to that.
    """
    doc_no, cell, start, stop, kind, value_id = (
        np.concatenate([getattr(one, name) for one in residual]) for name in ("doc_no", "cell", "start", "stop", "kind", "value_id")
    )
    column = np.repeat([one.column for one in residual], [len(one.kind) for one in residual])
    whose = owned(task.edits, task.occurrences, task.opaque, doc_no, cell, start, stop)
    whole = np.flatnonzero(whose.whole)
    whole = whole[~comes_later(task, value_id[whole], doc_no[whole])]
    leaks = [(str(column[row]), names[kind[row]], int(doc_no[row])) for row in whole]
    rest = np.flatnonzero(~whose.inside_edit & ~whose.inside_opaque & ~whose.whole)
    parts = (doc_no[rest], cell[rest], whose.first[rest], whose.last[rest], kind[rest], value_id[rest])
    return list(zip(*(part.tolist() for part in parts), strict=True)), leaks


def _write_sweep(task: VerifyTask, swept: list[_Swept], names: Sequence[str]) -> int:
    """Write what is left over as occurrences of the input text; the longest of two that begin together stays."""
    swept = sorted(set(swept), key=lambda entry: (entry[0], entry[1], entry[2], -entry[3], entry[4], entry[5]))
    rows = []
    wanted = {entry[0] for entry in swept}
    texts: dict[tuple[int, int], str] = {}
    if wanted:
        columns = [*dict.fromkeys(leaf.column for leaf in task.leaves)]
        for table in task.documents.read(min(wanted), max(wanted) + 1, columns):
            table = table.filter(pc.is_in(table.column("doc_no"), value_set=pa.array(sorted(wanted)))).combine_chunks()
            numbers = np.asarray(table.column("doc_no"), np.int64)
            for column in cells_of(table, list(task.leaves)) if table.num_rows else []:
                for row, cell, text in zip(column.flat.rows, column.cells, column.flat.texts, strict=True):
                    texts[int(numbers[row]), int(cell)] = text.as_py() or ""
    done = (-1, -1, -1)
    for doc_no, cell, start, stop, number, value_id in swept:
        if (doc_no, cell) == done[:2] and stop <= done[2]:
            continue
        done = (doc_no, cell, stop)
        one = Buffers.of(pa.array([texts[doc_no, cell]], pa.large_string()))
        (points,) = code_points(one, np.zeros(2, np.int64), np.array([start, stop]))
        rows.append(
            (doc_no, cell, int(points[0]), int(points[1]), start, stop, names[number], value_id, table_schemas.SWEEP, 1.0, None, None)
        )
    write_rows(task.aside or task.sweep, table_schemas.OCCURRENCES.schema, rows)
    if task.aside:
        task.aside.rename(task.sweep)
    return len(rows)


def opaque_of(leave: Sequence[str]) -> tuple[str, ...]:
    """Of the kinds that a plan leaves, those that are one token whatever they seem to hold."""
    return tuple(name for name in leave if every_kind()[name].opaque)


def scan(flagged: Path, texts: dict[str, str]) -> list[tuple[str, str]]:
    """Which of some texts (card, report, manifest) hold a flagged value: (name, kind), without the value."""
    parts = Flagged.parts(flagged)
    found = []
    for name, text in texts.items():
        for one, seen_at, _ in _looked_for(parts, pa.array([text], pa.large_string())):
            found += [(name, one.names[one.kind[form]]) for form in np.unique(seen_at.form)]
    return found


class _Telling(Local):
    """The local engine, which tells how far it is."""

    def __init__(self, progress: Progress, *, workers: int, spill: Path) -> None:
        super().__init__(workers=workers, spill=spill)
        self._progress = progress

    def map_shards(self, work: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Done]:
        peak = 0.0
        if tasks:
            self._progress(Step(stage="verify", total=len(tasks)))
        for number, done in enumerate(super().map_shards(work, tasks)):
            peak = max(peak, done.peak_rss_mb)
            self._progress(Step(stage="verify", done=number + 1, total=len(tasks), peak_rss_mb=peak))
            yield done


def check(
    out: Path | str,
    work: Path | str | None = None,
    *,
    mode: str = "full",
    workers: int | None = None,
    memory_limit: str = "1GB",
    progress: Progress = silent,
) -> dict[str, Any]:
    """Look at a published OUT again: every shard is what the manifest says, and holds nothing that had to go.

    `fast` looks at every string of every column, and at the pages, in the forms of the run's own check; `full` at every byte of every
    file and everything decoded from them, in all forms. What is looked for is parted so that it fits `memory_limit`. Returns
    `values_checked`, `forms`, `ambiguous` (places of values that are too short or too common to tell, by kind), and for `full` `looked`
    (bytes by place) and `passes`.

    Raises OutputBroken (a broken or foreign shard), LeakFound (its `findings` say where), or UsageError where WORK is not the one OUT
    was made in.
    """
    if mode not in ("fast", "full"):
        raise UsageError(f"--verify {mode}: {nearest(mode, ('fast', 'full'))}")
    memory = bytes_of(memory_limit)
    if not is_url(out):
        return Told("verify", _checked(Path(out), remote_output.here(work, out), mode, workers, memory, progress))
    work, named = remote_output.local(work, str(out)), shown(str(out))
    if not (work / "index.json").is_file():
        raise UsageError(f"{work}: does not hold the run that made {named}; name its folder with --work")
    with (
        vault.umask(0o077),
        tempfile.TemporaryDirectory(dir=vault.private(work / "spill"), prefix="published-") as folder,
        remote_output.Prefix(str(out)).fetched(Path(folder)) as there,
    ):
        try:
            found = _checked(there, work, mode, workers, memory, progress)
        except SanitizeError as error:
            error.args = (str(error).replace(folder, named),)
            raise
    with contextlib.suppress(OSError):
        (work / "spill").rmdir()
    return Told("verify", {**found, "out": named})


def _checked(out: Path, work: Path, mode: str, workers: int | None, memory: int, progress: Progress) -> dict[str, Any]:
    """`check` of a local folder."""
    corpus = Corpus.open(out)
    corpus.check()
    with bringing(customs_of(corpus.manifest["plan"])):
        return _looked(corpus, work, mode, workers, memory, progress)


def _looked(corpus: Corpus, work: Path, mode: str, workers: int | None, memory: int, progress: Progress) -> dict[str, Any]:
    """The same of a corpus whose shards are what the manifest says."""
    out, described = corpus.path, read_json(work / "index.json")
    folder = work / "runs" / str(corpus.manifest["plan_hash"])
    if corpus.manifest["settings"]["verify"] == "off":
        raise UsageError(f"{out}: was made with --verify off, so there is nothing to hold it against; run again without, and --replace")
    if described is None or not (folder / "counts" / "flagged.parquet").is_file():
        raise UsageError(f"{work}: does not hold the run that made {out}; name its folder with --work (default: {out}.private)")
    (work / "spill").mkdir(mode=0o700, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=work / "spill", prefix="verify-") as spill:
            tasks = list(_tasks_of(corpus, work, folder, described, Path(spill)))
            small = sum(task.shard.stat().st_size for task in tasks) < _SMALL
            engine = _Telling(progress, workers=workers or (1 if small else os.cpu_count() or 1), spill=Path(spill))
            try:
                look = _fully if mode == "full" else _quickly
                found = look(engine, corpus, tasks, work, Path(spill), memory)
            finally:
                engine.close()
    finally:
        with contextlib.suppress(OSError):
            (work / "spill").rmdir()
    lost = found.pop("kept_planned") - found.pop("kept_seen")
    findings = found.pop("findings")
    if findings or lost:
        raise leak(
            str(out),
            findings,
            f"{lost} kept originals are not where they were left; " if lost else "",
            f"do not publish it. {mend(finding.place for finding in findings)}",
        )
    return {"leaks": 0, "mode": mode, "shards": len(tasks), **found, "out": str(out), "work": str(work)}


def leak(where: str, findings: Sequence[Finding], more: str, advice: str) -> LeakFound:
    """The error that names the places of leaks, the first few of them one by one."""
    times = sum(finding.times for finding in findings)
    shown = "; ".join(str(finding) for finding in findings[:5]) + (
        f"; and {len(findings) - 5} more kinds of places" if findings[5:] else ""
    )
    said = f"{times} places hold a value that had to go ({shown}); " if findings else ""
    error = LeakFound(f"{where}: {said}{more}{advice}")
    error.findings = [dataclasses.asdict(finding) for finding in findings]
    return error


def mend(places: Iterable[str]) -> str:
    """What can be done about values in these places: columns, or the names of columns."""
    named = ["column names" in place or "column whose name" in place for place in places]
    said = ["Rename the column whose name is a value, in the input"] if any(named) else []
    if not all(named) or not named:
        said.append(
            "A kept column can be cleaned (--sanitize COLUMN) or left out (--drop COLUMN); what a finder missed in a text can be listed "
            "with --known FILE. Then run again"
        )
    return ". ".join(said)


def judge(seen: Sequence[Mapping[str, Any]], second: set[int]) -> None:
    """Raise for what must not be published, of what `verify_task` says of all shards: LeakFound, or OutputBroken where an original that
    was to be kept is not there. What is left over in a text counts in those of the `second` look."""
    leaks = [one for result in seen for one in result["leaks"]]
    left = sum(result["swept"] for no, result in enumerate(seen) if no in second)
    if leaks or left:
        columns: dict[tuple[str, str], int] = {}
        for column, kind, _ in leaks:
            columns[column, kind] = columns.get((column, kind), 0) + 1
        shown = {column: column.strip("()") if column[0] == "(" else f"column {column}" for column, _ in columns}
        named = (f"{shown[column]}: {times} {kind}" for (column, kind), times in sorted(columns.items()))
        where = "; ".join(named) or f"{left} in the texts"
        raise LeakFound(f"values that had to go are still there ({where}); nothing was published. {mend(name for name, _ in columns)}")
    for no, result in enumerate(seen):
        if result["kept_seen"] != result["kept_planned"]:
            raise OutputBroken(
                f"shard {no}: {result['kept_planned']} originals were to be kept and {result['kept_seen']} are there; "
                "this is a bug of ours. Nothing was published"
            )


def _tasks_of(corpus: Corpus, work: Path, folder: Path, described: Mapping[str, Any], spill: Path) -> Iterator[VerifyTask]:
    """The shards of a published corpus, each with the tables that say what was kept and replaced in it."""
    documents = Documents.from_json(described["documents"], work)
    gone = _erased(corpus, work)
    # of another plan, or of an append that was not published, the index may hold more
    ranges = described["ranges"][: len(corpus.shards)]
    ordered = any(part.get("avoid") == "seen" for part in corpus.manifest["plan"]["edit"])
    earlier = len(ranges) - corpus.manifest.get("batches", [{"shards": len(ranges)}])[-1]["shards"]
    for no, (shard, (low, high)) in enumerate(zip(corpus.shards, ranges, strict=True)):
        name = f"{no:05d}.parquet"
        yield VerifyTask(
            no=no,
            first=low,
            last=high,
            shard=shard.path,
            flagged=folder / "counts" / "flagged.parquet",
            kept=folder / "kept" / name,
            edits=folder / "edits" / name,
            occurrences=work / "tables" / "occurrences" / name,
            opaque=opaque_of(corpus.manifest["plan"]["leave"]),
            rows=folder / "rows" / name,
            documents=documents,
            leaves=tuple(Leaf(column, tuple(steps)) for column, *steps in described["leaves"]),
            sweep=spill / name,
            names=gone.names,
            columns=tuple(one["name"] for one in corpus.manifest["columns"] if one["policy"] != "drop"),
            later=work / "tables" / "value_counts" / "all.parquet" if ordered or no < earlier else None,
        )


def _erased(corpus: Corpus, work: Path) -> tombstones.Erased:
    """Who had to be forgotten when OUT was made; what was erased since then is not there yet."""
    return tombstones.read(work, erasures=corpus.manifest["settings"].get("erased", {}).get("erasures", 0))


def _quickly(engine: Engine, corpus: Corpus, tasks: Sequence[VerifyTask], work: Path, spill: Path, memory: int) -> dict[str, Any]:
    """The check of `run`, again."""
    if tasks:
        sought = ready(tasks[0].flagged, spill / "sought", memory)
        tasks = [dataclasses.replace(task, flagged=sought) for task in tasks]
    results = [done.result for done in engine.map_shards(verify_task, tasks)]
    texts = {}
    for page in (*_PAGES, *corpus.beside):
        try:
            texts[page] = (corpus.path / page).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise OutputBroken(f"{corpus.path}: {page} cannot be read ({type(error).__name__}); run again with --replace") from None
    seen: Counter[tuple[str, str, str, str]] = Counter()
    for result in results:
        seen.update(("data", f"column {column}", kind, "fast") for column, kind, _ in result["leaks"])
        if result["swept"]:
            seen["data", "texts", "values", "fast"] += result["swept"]
    if tasks:
        seen.update((page, "text", kind, "fast") for page, kind in scan(tasks[0].flagged, texts))
    return {
        "findings": [Finding(*where, times) for where, times in sorted(seen.items())],
        "values_checked": corpus.manifest["summary"]["verify"]["values_checked"],
        "forms": list(FORMS),
        "ambiguous": {},
        **{name: sum(result[name] for result in results) for name in ("rows", "kept_seen", "kept_planned")},
    }


def _fully(engine: Engine, corpus: Corpus, tasks: Sequence[VerifyTask], work: Path, spill: Path, memory: int) -> dict[str, Any]:
    """Every file of the folder, in all forms."""
    out = corpus.path
    missing = [page for page in (*_PAGES, *corpus.beside) if not (out / page).is_file()]
    if missing:
        raise OutputBroken(f"{out}: {missing[0]} is missing; run again with --replace")
    going, gone = corpus.manifest["summary"]["verify"]["kinds"], _erased(corpus, work)
    alone = ids_left_alone(work / "runs" / str(corpus.manifest["plan_hash"]) / "counts")
    values = sorted((work / "vault" / "values").glob("*.parquet"))[: len(tasks)]
    passes, distinct = write_passes(values, going, spill / "passes", memory, also=gone.values, alone=alone)
    shards = [(task, task.shard.relative_to(out).as_posix()) for task in tasks]
    ours = {task.shard for task in tasks}
    others = [(path, path.relative_to(out).as_posix()) for path in sorted(out.rglob("*")) if path.is_file() and path not in ours]
    found = full(engine, shards, others, passes, spill, (*_PAGES, *corpus.beside), gone.names)
    return {"values_checked": distinct, **found}
