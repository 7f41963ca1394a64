"""Parts that read texts before anything is edited, and the whole corpus as they may ask it: looks at its tasks, SQL over what they saw.

A look is one pass over the texts of the documents that earlier parts left; each task leaves a table and a record, so that it is not done
twice. Droppers run here, one after the other; their rows make the table `drops`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.core.engine import Engine
from sanitize.core.parts import Dropper, Part, Sight
from sanitize.core.text_cells import Leaf
from sanitize.storage import queries
from sanitize.storage import table_schemas as tables
from sanitize.storage.corpus import Documents, cells_of, sha256, table_writer
from sanitize.storage.publication import Job, hashed

I64 = npt.NDArray[np.int64]
_OF_OCCURRENCES = ["doc_no", "cell", "start", "start_byte", "stop_byte", "value_id"]


@dataclass(frozen=True, kw_only=True)
class LookTask:
    """One range of documents for a part to look at."""

    part: Part
    name: str
    kinds: tuple[str, ...]
    first: int
    last: int
    documents: Documents
    leaves: tuple[Leaf, ...]
    occurrences: Path | None
    gone: tuple[Path, ...]  # files with the `doc_no` of documents that are not there any more
    of: Path | None  # a file with the only `doc_no` to be looked at
    folder: Path


def look_task(task: LookTask) -> dict[str, Any]:
    """Write `<name>.parquet` in the task's folder: what the part sees in the range. Returns its rows."""
    found = occurrences_of(task.occurrences, task.kinds)
    schema = task.part.looks[task.name]
    rows = 0
    with table_writer(task.folder / f"{task.name}.parquet", schema) as out:
        for docs, cells, texts in texts_of(task.documents, task.leaves, task.first, task.last, task.gone, task.of):
            made = task.part.look(task.name, Sight(docs, cells, texts, here(found, docs, cells)))
            if made.num_rows:
                out.write_table(made.cast(schema))
                rows += made.num_rows
    return {"rows": rows}


def texts_of(
    documents: Documents, leaves: Sequence[Leaf], first: int, last: int, gone: Sequence[Path], of: Path | None = None
) -> Iterator[tuple[I64, npt.NDArray[np.int32], pa.LargeStringArray]]:
    """The texts of a range of documents, without nulls, leaf by leaf: document, cell and text of each. Without those whose `doc_no` stands
    in the files `gone`; with `of` only those that stand there."""
    between = [("doc_no", ">=", first), ("doc_no", "<", last)]

    def numbers(path: Path) -> I64:
        return np.asarray(pq.read_table(path, columns=["doc_no"], filters=between, partitioning=None).column("doc_no"), np.int64)

    away = np.concatenate([np.empty(0, np.int64), *(numbers(path) for path in gone)])
    wanted = np.unique(numbers(of)) if of is not None else None
    if wanted is not None:
        first, last = (int(wanted[0]), int(wanted[-1]) + 1) if len(wanted) else (0, 0)
    for table in documents.read(first, last, [*dict.fromkeys(leaf.column for leaf in leaves)]):
        there = ~np.isin(np.asarray(table.column("doc_no"), np.int64), away)
        if wanted is not None:
            there &= np.isin(np.asarray(table.column("doc_no"), np.int64), wanted)
        table = (table if there.all() else table.filter(pa.array(there))).combine_chunks()
        if not table.num_rows:
            continue
        doc_no = np.asarray(table.column("doc_no"), np.int64)
        for column in cells_of(table, list(leaves)):
            texts, places = column.flat.texts, np.arange(len(column.flat.texts))
            if texts.null_count:
                places = np.flatnonzero(np.asarray(pc.is_valid(texts)))
                texts = texts.take(pa.array(places))
            yield doc_no[column.flat.rows[places]], column.cells[places], texts


def occurrences_of(path: Path | None, kinds: Sequence[str]) -> pl.DataFrame:
    """The occurrences of some kinds in one task's file, in order."""
    if path is None:
        return pl.DataFrame(schema=dict.fromkeys(_OF_OCCURRENCES, pl.Int64))
    table = pq.read_table(path, columns=[*_OF_OCCURRENCES, "kind"], partitioning=None)
    mine = pc.is_in(table.column("kind").cast(pa.string()), value_set=pa.array(kinds, pa.string()))
    return pl.DataFrame(table.filter(mine).select(_OF_OCCURRENCES))


def here(found: pl.DataFrame, docs: I64, cells: npt.NDArray[np.int32]) -> pl.DataFrame:
    """The occurrences in some cells, with `text_no`: which of the cells."""
    if not found.height or not len(docs):
        return found.head(0).with_columns(text_no=pl.lit(0, pl.Int64))
    low, high = np.searchsorted(found["doc_no"].to_numpy(), [docs[0], docs[-1] + 1])
    near = found[int(low) : int(high)]
    which = pl.DataFrame({"doc_no": docs, "cell": cells}).with_row_index("text_no")
    which = which.with_columns(pl.col("text_no").cast(pl.Int64), pl.col("cell").cast(near.schema["cell"]))
    return near.join(which, on=["doc_no", "cell"], how="inner", maintain_order="left")


@dataclass(frozen=True, kw_only=True)
class Ground:
    """A corpus with what it takes to look at it and to count over it, and what earlier parts left of it (`part.Whole`)."""

    engine: Engine
    map: Callable[[str, Sequence[Job]], Sequence[Any]]  # a stage and its jobs
    documents: Documents
    leaves: tuple[Leaf, ...]
    ranges: Sequence[tuple[int, int]]
    occurrences: Sequence[Path]  # one file a task
    folder: Path
    spill: Path
    fingerprint: str
    gone: tuple[Path, ...]  # files with the `doc_no` of documents that are not there any more, ascending
    left: Sequence[Path] = ()  # the occurrences that earlier parts left
    part: Part | None = None
    place: str = ""
    kinds: tuple[str, ...] = ()

    def for_part(self, part: Part, place: str, kinds: Sequence[str], left: Sequence[Path]) -> Ground:
        """The corpus for one part: `place` is the name of its folder, `left` the occurrences that it may see."""
        return replace(self, part=part, place=place, kinds=tuple(kinds), left=left)

    def look(self, name: str, of: Path | None = None) -> list[Path]:
        """The table `name` of the part, one file a task."""
        part = self.part
        assert part is not None and name in part.looks
        main = self.documents.main
        leaves = tuple(leaf for leaf in self.leaves if part.cells == "all" or leaf == main)
        depends = [part.model_dump(mode="json"), name, *(sha256(path) for path in (*self.gone, *((of,) if of is not None else ())))]
        fingerprint = hashed(self.fingerprint, depends)
        jobs, files = [], []
        for no, (first, last) in enumerate(self.ranges):
            task = LookTask(
                part=part,
                name=name,
                kinds=self.kinds,
                first=first,
                last=last,
                documents=self.documents,
                leaves=leaves,
                occurrences=self.occurrences[no] if self.kinds else None,
                gone=self.gone,
                of=of,
                folder=self.spill / f"look-{self.place}-{name}-{no}",
            )
            files.append(self.folder / self.place / name / f"{no:05d}.parquet")
            record = self.folder.parent / "tasks" / f"look-{self.place}-{name}-{no:05d}.json"
            jobs.append(Job(work=look_task, task=task, record=record, fingerprint=fingerprint, outputs={f"{name}.parquet": files[-1]}))
        self.map("look", jobs)
        return files

    def ask(self, query: str, tables: Mapping[str, Sequence[Path]], **parameters: object) -> Path:
        """The result of a query that the part needs."""
        assert self.part is not None and query in self.part.needs
        chosen = pa.table({"kind": pa.array(sorted(self.kinds), pa.string())})
        there = {"occurrences_left": self.left, "chosen_kinds": [self.write("chosen_kinds", chosen)], **tables}
        one = queries.query(query)
        out = self._file(query)
        self.engine.sql(one.text, {name: there[name] for name in one.reads}, out, **one.bind(parameters))
        return out

    def write(self, name: str, table: pa.Table) -> Path:
        """A small table as a file."""
        pq.write_table(table, self._file(name))
        return self._file(name)

    def _file(self, name: str) -> Path:
        (self.folder / self.place).mkdir(parents=True, exist_ok=True)
        return self.folder / self.place / f"{name}.parquet"


def drop(ground: Ground, droppers: Sequence[Dropper], out: Path) -> tuple[Path, ...]:
    """The table `drops`: one file in `out` for each dropper, in their order. Each sees only what those before it left."""
    made: list[Path] = []
    out.mkdir(parents=True, exist_ok=True)
    for number, dropper in enumerate(droppers):
        now = replace(ground, gone=(*ground.gone, *made))
        left = list(ground.occurrences)
        if dropper.counted and made:
            left = [without(now.engine, left, made, now.folder / f"drop-{number}-left.parquet")]
        gone, kept = dropper.gather(now.for_part(dropper, f"drop-{number}", dropper.counted, left))
        path = out / f"{number:05d}.parquet"
        words = [pa.array([text] * len(gone), pa.string()) for text in (dropper.use, dropper.reason)]
        with table_writer(path, tables.DROPS.schema) as file:
            file.write_table(pa.table([pa.array(gone), words[0].dictionary_encode(), words[1], pa.array(kept)], schema=tables.DROPS.schema))
        made.append(path)
    return tuple(made)


def without(engine: Engine, occurrences: Sequence[Path], drops: Sequence[Path], out: Path) -> Path:
    """The occurrences that do not stand in a dropped document."""
    out.parent.mkdir(parents=True, exist_ok=True)
    nothing = out.with_name(f"{out.stem}-claims.parquet")
    claims = pa.schema([("doc_no", pa.int64()), ("cell", pa.int32()), ("start_byte", pa.int64()), ("stop_byte", pa.int64())])
    pq.write_table(claims.empty_table(), nothing)
    if not drops:
        drops = [out.with_name(f"{out.stem}-drops.parquet")]
        pq.write_table(tables.DROPS.schema.empty_table(), drops[0])
    text = queries.query("left_after_claims").text
    engine.sql(text, {"occurrences": occurrences, "claimed": [nothing], "drops": drops}, out)
    return out
