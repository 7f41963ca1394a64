"""A folder of shards as one table of documents, and what says which documents these were.

A folder that `sanitize run` published is checked against its manifest, file by file; any other folder or file of Parquet, JSON lines or
Arrow (as `datasets` saves it) is taken as it is. The texts of all documents are in memory once, until tokens are made of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
import pyarrow.parquet as pq

from sanitize.errors import InputRefused, UsageError, nearest
from sanitize.storage.corpus import Corpus, Shard, sha256

_NOTHING, _LINE_END = pa.scalar("", pa.large_string()), pa.scalar("\n", pa.large_string())
SUFFIXES = (".parquet", ".jsonl", ".jsonl.gz", ".jsonl.zst", ".mds", ".arrow")


@dataclass(frozen=True, repr=False)
class Documents:
    """Documents in corpus order: `text`, `doc_id` (strings, no nulls), and `label`, `user`, `prompt`, `pii_spans` where asked for."""

    table: pa.Table
    path: Path
    shards: tuple[dict[str, Any], ...]  # name, rows and sha256 of each file, in order

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def texts(self) -> list[str]:
        """The texts as Python strings, each behind its prompt where there are prompts."""
        column = self.table.column("text")
        if "prompt" in self.table.column_names:
            column = pc.binary_join_element_wise(self.table.column("prompt"), column, _NOTHING)
        return list(column.to_pylist())

    def told(self) -> dict[str, Any]:
        """What RUN/recipe.json says of this data."""
        told = {"path": str(self.path), "documents": len(self), "sha256": self.sha256, "ids_sha256": self.ids_sha256}
        return {**told, "shards": list(self.shards)}

    def only(self, which: npt.NDArray[np.bool_]) -> Documents:
        """Some of these documents, in order."""
        return replace(self, table=self.table.filter(pa.array(which)))

    def spanned(self, work: str | Path) -> Documents:
        """The same with `pii_spans` from the index of the run that published them, whose private folder is `work`.

        UsageError where the folder is not that run's, or the run changed the texts: places in the originals say nothing of these then.
        """
        if not (self.path / "manifest.json").is_file():
            raise UsageError(
                f"{self.path}: data.spans_from needs a folder that `sanitize run` published; give pii_spans as a column instead"
            )
        run = Path(work) / "runs" / str(Corpus.open(self.path).manifest.get("plan_hash"))
        rows, edits = (sorted((run / name).glob("*.parquet")) for name in ("rows", "edits"))
        found = sorted((Path(work) / "tables" / "occurrences").glob("*.parquet"))
        numbers = pa.concat_tables([pq.read_table(file, columns=["doc_no"], partitioning=None) for file in rows]) if rows else None
        if numbers is None or not found or numbers.num_rows != len(self):
            raise UsageError(f"{work}: is not the private folder of the run that published {self.path} (OUT.private, or --work)")
        if sum(pq.read_metadata(file).num_rows for file in edits):
            raise UsageError(f"{work}: that run edited the texts, and its spans are of the originals; use the plan blacklist or baseline")
        spans = pa.concat_tables([pq.read_table(file, columns=["doc_no", "cell", "start", "stop"], partitioning=None) for file in found])
        spans = spans.filter(pc.equal(spans["cell"], 0)).sort_by([("doc_no", "ascending"), ("start", "ascending")])
        of, mine = spans["doc_no"].to_numpy(), numbers["doc_no"].to_numpy()
        low, high = np.searchsorted(of, mine, side="left"), np.searchsorted(of, mine, side="right")
        offsets = np.concatenate([[0], np.cumsum(high - low)])
        at = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - low, high - low)
        inner = pa.StructArray.from_arrays(
            [pa.array(spans[name].to_numpy()[at], pa.int64()) for name in ("start", "stop")], ["start", "stop"]
        )
        column = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), inner)
        return replace(self, table=self.table.append_column("pii_spans", column))

    @property
    def doc_ids(self) -> pa.Array:
        """The id of each document."""
        column = self.table.column("doc_id").combine_chunks()
        return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column

    @property
    def ids_sha256(self) -> str:
        """One hash over the distinct ids, whatever their order: the same for a corpus and for what was rewritten of it."""
        ids = sorted(pc.unique(self.table.column("doc_id")).to_pylist())
        return hashlib.sha256(json.dumps(ids).encode()).hexdigest()

    @property
    def sha256(self) -> str:
        """One hash over the hashes of all files, in order; names do not count."""
        return hashlib.sha256(json.dumps([shard["sha256"] for shard in self.shards]).encode()).hexdigest()


def read(
    path: str | Path,
    *,
    text: str = "text",
    doc_id: str = "doc_id",
    label: str | None = None,
    user: str | None = None,
    prompts: Sequence[str] = (),
    pii_spans: bool = False,
) -> Documents:
    """The documents of a folder or file. Columns by name; a missing id is the row's number as text, `pii_spans` may be absent.

    Raises InputRefused where there is nothing to read or a file cannot be read, OutputBroken where a published folder is not whole,
    UsageError where a column is missing.
    """
    place = Path(path)
    published = (place / "manifest.json").is_file()
    if published:
        corpus = Corpus.open(place)
        corpus.check()
        files = [(shard.path, shard.sha256) for shard in corpus.shards]
    else:
        files = [(file, sha256(file)) for file in _files(place)]
    tables, shards = [], []
    for file, digest in files:
        table = _table(file)
        shards.append({"name": file.name, "rows": table.num_rows, "sha256": digest})
        wanted = {"text": text, "doc_id": doc_id, "label": label, "user": user, "pii_spans": "pii_spans" if pii_spans else None}
        for column in (text, *prompts, *(one for one in (label, user) if one)):
            if column not in table.column_names:
                raise UsageError(f"{file}: there is no column {column!r}; {nearest(column, table.column_names)}")
        columns: dict[str, Any] = {
            name: _plain(table.column(column), name, file) for name, column in wanted.items() if column and column in table.column_names
        }
        if prompts:
            columns["prompt"] = _prompt([_plain(table.column(column), "prompt", file) for column in prompts])
        tables.append(pa.table(columns))
    if pii_spans and tables and not any("pii_spans" in table.column_names for table in tables):
        raise UsageError(f"{place}: data.leave_out_pii needs the column pii_spans, and no shard has it; nothing would be left out")
    if not tables or not sum(table.num_rows for table in tables):
        raise InputRefused(f"{place}: holds no documents; expected shards with at least one row")
    whole = pa.concat_tables(tables, promote_options="permissive").combine_chunks()
    numbers = pa.array(range(whole.num_rows), pa.int64()).cast(pa.large_string())
    ids = pc.coalesce(whole.column("doc_id"), numbers) if "doc_id" in whole.column_names else pa.chunked_array([numbers])
    whole = whole.drop_columns(["doc_id"]) if "doc_id" in whole.column_names else whole
    return Documents(whole.append_column("doc_id", ids), place.resolve(), tuple(shards))


def _files(place: Path) -> list[Path]:
    if place.is_file():
        if not place.name.endswith(SUFFIXES):
            raise InputRefused(f"{place}: expected {', '.join(SUFFIXES)}, or a folder of such files")
        return [place]
    if not place.is_dir():
        raise InputRefused(f"{place}: there is no such folder or file; expected shards, such as a folder that `sanitize run` published")
    # bytewise by path, as the corpus order is everywhere in this house
    found = sorted(
        (file for file in place.rglob("*") if file.name.endswith(SUFFIXES) and file.is_file()), key=lambda file: str(file).encode()
    )
    if not found:
        raise InputRefused(f"{place}: no manifest.json and no {', '.join(SUFFIXES)} inside; expected a folder of shards")
    return found


def _table(file: Path) -> pa.Table:
    try:
        if file.name.endswith(".parquet"):
            return pq.read_table(file, page_checksum_verification=True, partitioning=None)
        if file.name.endswith((".jsonl.zst", ".mds")):
            return Shard(file, 0, "").read()
        if file.name.endswith(".arrow"):
            with pa.memory_map(str(file)) as source:
                try:
                    return pa.ipc.open_stream(source).read_all()
                except pa.ArrowInvalid:
                    return pa.ipc.open_file(source).read_all()
        with pa.input_stream(str(file)) as source:  # unpacks .gz by its name
            data = source.read()
        # a block must hold a whole line; one block for a file costs memory that the texts need anyway
        options = pyarrow.json.ReadOptions(use_threads=False, block_size=min(max(len(data), 1 << 20), (1 << 31) - 1))
        return pyarrow.json.read_json(pa.BufferReader(data), read_options=options) if data.strip() else pa.table({})
    except (pa.ArrowException, OSError, EOFError) as error:
        raise InputRefused(f"{file}: cannot be read ({type(error).__name__}); expected {', '.join(SUFFIXES)}") from None


def _plain(column: pa.ChunkedArray, name: str, file: Path) -> pa.ChunkedArray:
    """A column in the type that this room uses; numbers as ids or labels become texts."""
    if name == "pii_spans":
        return column
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    strings = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    if not strings and (name in ("text", "prompt") or pa.types.is_nested(column.type) or pa.types.is_binary(column.type)):
        raise InputRefused(f"{file}: the {name} column holds {column.type}; expected strings")
    column = column.cast(pa.large_string())
    return column if name in ("doc_id", "user") else pc.fill_null(column, "")


def _prompt(columns: list[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Prompt columns as one text that ends in a line end: those that are not empty, a line end after each."""
    parts = [
        pc.if_else(pc.equal(column, _NOTHING), _NOTHING, pc.binary_join_element_wise(column, _NOTHING, _LINE_END)) for column in columns
    ]
    return pc.binary_join_element_wise(*parts, _NOTHING) if len(parts) > 1 else parts[0]
