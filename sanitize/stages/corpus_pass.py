"""Corpus passes: parts that read all texts before anything is edited, and the SQL queries they run
over the results.

A corpus pass reads the texts of the documents that earlier parts left, once. Each task writes a
table and a record, so that a resumed run does not repeat it. Droppers run here, one after the
other; their rows make the table `drops`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.array_types import I32, I64
from sanitize.core.engine import Engine
from sanitize.core.part_protocols import Dropper, Part, TextBatch
from sanitize.core.text_cells import LeafPath
from sanitize.storage import queries, table_schemas
from sanitize.storage.corpus import Documents, flatten_cells
from sanitize.storage.files import file_sha256
from sanitize.storage.parquet_files import open_table_writer, read_table
from sanitize.storage.private_folder import TASKS_FOLDER
from sanitize.storage.task_records import Job, hash_json

_OCCURRENCE_COLUMNS = ["doc_no", "cell", "start", "start_byte", "end_byte", "value_id"]


@dataclass(frozen=True, kw_only=True)
class CorpusPassTask:
    """One range of documents of a corpus pass of one part."""

    part: Part
    pass_name: str
    kinds: tuple[str, ...]
    first_doc_no: int
    end_doc_no: int
    documents: Documents
    leaves: tuple[LeafPath, ...]
    occurrences_file: Path | None
    excluded_doc_files: tuple[Path, ...]  # files with the `doc_no` of removed documents
    only_documents: Path | None  # a file with the `doc_no` to read; None: all
    folder: Path


def corpus_pass_task(task: CorpusPassTask) -> None:
    """Write `<pass_name>.parquet` to the task's folder: the rows that the part returns for the
    range."""
    occurrences = load_occurrences(task.occurrences_file, task.kinds)
    schema = task.part.pass_schemas[task.pass_name]
    with open_table_writer(task.folder / f"{task.pass_name}.parquet", schema) as out:
        for docs, cells, texts in iter_texts(
            task.documents,
            task.leaves,
            task.first_doc_no,
            task.end_doc_no,
            task.excluded_doc_files,
            task.only_documents,
        ):
            result = task.part.run_pass(
                task.pass_name,
                TextBatch(docs, cells, texts, occurrences_in_cells(occurrences, docs, cells)),
            )
            if result.num_rows:
                out.write_table(result.cast(schema))


def iter_texts(
    documents: Documents,
    leaves: Sequence[LeafPath],
    first_doc_no: int,
    end_doc_no: int,
    excluded_doc_files: Sequence[Path],
    only_documents: Path | None = None,
) -> Iterator[tuple[I64, I32, pa.LargeStringArray]]:
    """Yields the texts of a range of documents, leaf by leaf: `doc_no`, cell and text of each; null
    texts are left out.

    Documents listed in `excluded_doc_files` are skipped; with `only_documents` all others than
    those listed there are skipped too. These files have a column `doc_no`.
    """
    in_range = (pc.field("doc_no") >= first_doc_no) & (pc.field("doc_no") < end_doc_no)

    def read_doc_nos(path: Path) -> I64:
        return np.asarray(
            read_table(path, columns=["doc_no"], filters=in_range).column("doc_no"), np.int64
        )

    excluded = np.concatenate(
        [np.empty(0, np.int64), *(read_doc_nos(path) for path in excluded_doc_files)]
    )
    wanted = np.unique(read_doc_nos(only_documents)) if only_documents is not None else None
    if wanted is not None:
        first_doc_no, end_doc_no = (int(wanted[0]), int(wanted[-1]) + 1) if len(wanted) else (0, 0)
    for table in documents.read(
        first_doc_no, end_doc_no, [*dict.fromkeys(leaf.column for leaf in leaves)]
    ):
        is_included = ~np.isin(np.asarray(table.column("doc_no"), np.int64), excluded)
        if wanted is not None:
            is_included &= np.isin(np.asarray(table.column("doc_no"), np.int64), wanted)
        table = (
            table if is_included.all() else table.filter(pa.array(is_included))
        ).combine_chunks()
        if not table.num_rows:
            continue
        doc_no = np.asarray(table.column("doc_no"), np.int64)
        for column in flatten_cells(table, leaves):
            texts, positions = column.flat.texts, np.arange(len(column.flat.texts))
            if texts.null_count:
                positions = np.flatnonzero(np.asarray(pc.is_valid(texts)))
                texts = texts.take(pa.array(positions))
            yield doc_no[column.flat.rows[positions]], column.cell[positions], texts


def load_occurrences(path: Path | None, kinds: Sequence[str]) -> pl.DataFrame:
    """The occurrences of some kinds in one task's file, in file order; no rows where `path` is
    None."""
    if path is None:
        return pl.DataFrame(schema=dict.fromkeys(_OCCURRENCE_COLUMNS, pl.Int64))
    table = read_table(path, columns=[*_OCCURRENCE_COLUMNS, "kind"])
    is_wanted = pc.is_in(
        table.column("kind").cast(pa.string()), value_set=pa.array(kinds, pa.string())
    )
    return pl.DataFrame(table.filter(is_wanted).select(_OCCURRENCE_COLUMNS))


def occurrences_in_cells(occurrences: pl.DataFrame, doc_nos: I64, cells: I32) -> pl.DataFrame:
    """The occurrences in the given cells, with a column `text_no`: the index of the cell in
    `cells`. `doc_nos` ascend."""
    if not occurrences.height or not len(doc_nos):
        return occurrences.head(0).with_columns(text_no=pl.lit(0, pl.Int64))
    low, high = np.searchsorted(occurrences["doc_no"].to_numpy(), [doc_nos[0], doc_nos[-1] + 1])
    candidates = occurrences[int(low) : int(high)]
    text_nos = pl.DataFrame({"doc_no": doc_nos, "cell": cells}).with_row_index("text_no")
    text_nos = text_nos.with_columns(
        pl.col("text_no").cast(pl.Int64), pl.col("cell").cast(candidates.schema["cell"])
    )
    return candidates.join(text_nos, on=["doc_no", "cell"], how="inner", maintain_order="left")


@dataclass(frozen=True, kw_only=True)
class CorpusContext:
    """A corpus as one part may read and query it: what earlier parts left of it (`CorpusView` of
    core/part_protocols.py)."""

    engine: Engine
    run_jobs: Callable[[str, Sequence[Job[Any]]], Sequence[Any]]  # a stage and its jobs
    documents: Documents
    leaves: tuple[LeafPath, ...]
    ranges: Sequence[tuple[int, int]]
    occurrence_files: Sequence[Path]  # one file a task
    folder: Path
    spill: Path
    fingerprint: str
    excluded_doc_files: tuple[Path, ...]  # files with the `doc_no` of removed documents, ascending
    remaining_files: Sequence[Path] = ()  # the occurrences that earlier parts left
    part: Part | None = None
    part_folder: str = ""
    kinds: tuple[str, ...] = ()

    def for_part(
        self, part: Part, part_folder: str, kinds: Sequence[str], remaining_files: Sequence[Path]
    ) -> CorpusContext:
        """The corpus for one part: `part_folder` is the name of its folder, `remaining_files` the
        occurrences that it may read."""
        return replace(
            self,
            part=part,
            part_folder=part_folder,
            kinds=tuple(kinds),
            remaining_files=remaining_files,
        )

    def run_corpus_pass(self, pass_name: str, only_documents: Path | None = None) -> list[Path]:
        """Run the pass `pass_name` of the part; returns its table, one file per task. Tasks whose
        record matches are not repeated."""
        part = self.part
        assert part is not None and pass_name in part.pass_schemas
        main = self.documents.main_leaf
        leaves = tuple(leaf for leaf in self.leaves if part.cell_scope == "all" or leaf == main)
        depends = [
            part.model_dump(mode="json"),
            pass_name,
            *(
                file_sha256(path)
                for path in (
                    *self.excluded_doc_files,
                    *((only_documents,) if only_documents is not None else ()),
                )
            ),
        ]
        fingerprint = hash_json(self.fingerprint, depends)
        jobs, files = [], []
        for no, (first, last) in enumerate(self.ranges):
            task = CorpusPassTask(
                part=part,
                pass_name=pass_name,
                kinds=self.kinds,
                first_doc_no=first,
                end_doc_no=last,
                documents=self.documents,
                leaves=leaves,
                occurrences_file=self.occurrence_files[no] if self.kinds else None,
                excluded_doc_files=self.excluded_doc_files,
                only_documents=only_documents,
                folder=self.spill / f"pass-{self.part_folder}-{pass_name}-{no}",
            )
            files.append(self.folder / self.part_folder / pass_name / f"{no:05d}.parquet")
            record = (
                self.folder.parent
                / TASKS_FOLDER
                / f"pass-{self.part_folder}-{pass_name}-{no:05d}.json"
            )
            jobs.append(
                Job(
                    function=corpus_pass_task,
                    task=task,
                    record_path=record,
                    fingerprint=fingerprint,
                    outputs={f"{pass_name}.parquet": files[-1]},
                )
            )
        self.run_jobs("corpus_pass", jobs)
        return files

    def run_query(
        self, query_name: str, tables: Mapping[str, Sequence[Path]], **parameters: object
    ) -> Path:
        """Run one of the queries in the part's `required_aggregates`; returns the file of its
        result."""
        assert self.part is not None and query_name in self.part.required_aggregates
        chosen = pa.table({"kind": pa.array(sorted(self.kinds), pa.string())})
        available = {
            "remaining_occurrences": self.remaining_files,
            "chosen_kinds": [self.write_table("chosen_kinds", chosen)],
            **tables,
        }
        query = queries.get_query(query_name)
        out = self._table_path(query_name)
        self.engine.sql(
            query.sql,
            {name: available[name] for name in query.tables},
            out,
            **query.bind(parameters),
        )
        return out

    def write_table(self, table_name: str, table: pa.Table) -> Path:
        """Write a small table into the part's folder; returns the file."""
        pq.write_table(table, self._table_path(table_name))
        return self._table_path(table_name)

    def _table_path(self, name: str) -> Path:
        (self.folder / self.part_folder).mkdir(parents=True, exist_ok=True)
        return self.folder / self.part_folder / f"{name}.parquet"


def run_droppers(corpus: CorpusContext, droppers: Sequence[Dropper], out: Path) -> tuple[Path, ...]:
    """Run the droppers and write the table `drops`: one file in `out` per dropper, in plan order.
    Each reads what earlier ones left."""
    drop_files: list[Path] = []
    out.mkdir(parents=True, exist_ok=True)
    for number, dropper in enumerate(droppers):
        context = replace(corpus, excluded_doc_files=(*corpus.excluded_doc_files, *drop_files))
        remaining = list(corpus.occurrence_files)
        if dropper.occurrence_kinds and drop_files:
            remaining = [
                exclude_dropped(
                    context.engine,
                    remaining,
                    drop_files,
                    context.folder / f"drop-{number}-remaining_occurrences.parquet",
                )
            ]
        dropped, kept = dropper.select_drops(
            context.for_part(dropper, f"drop-{number}", dropper.occurrence_kinds, remaining)
        )
        path = out / f"{number:05d}.parquet"
        labels = [
            pa.array([text] * len(dropped), pa.string()) for text in (dropper.use, dropper.reason)
        ]
        with open_table_writer(path, table_schemas.DROPS.schema) as file:
            file.write_table(
                pa.table(
                    [pa.array(dropped), labels[0].dictionary_encode(), labels[1], pa.array(kept)],
                    schema=table_schemas.DROPS.schema,
                )
            )
        drop_files.append(path)
    return tuple(drop_files)


def exclude_dropped(
    engine: Engine, occurrences: Sequence[Path], drops: Sequence[Path], out: Path
) -> Path:
    """Write the occurrences outside dropped documents to `out`; returns `out`."""
    out.parent.mkdir(parents=True, exist_ok=True)
    no_claims_file = out.with_name(f"{out.stem}-claims.parquet")
    claims = pa.schema(
        [
            ("doc_no", pa.int64()),
            ("cell", pa.int32()),
            ("start_byte", pa.int64()),
            ("end_byte", pa.int64()),
        ]
    )
    pq.write_table(claims.empty_table(), no_claims_file)
    if not drops:
        drops = [out.with_name(f"{out.stem}-drops.parquet")]
        pq.write_table(table_schemas.DROPS.schema.empty_table(), drops[0])
    text = queries.get_query("remaining_occurrences").sql
    engine.sql(
        text, {"occurrences": occurrences, "claimed_spans": [no_claims_file], "drops": drops}, out
    )
    return out
