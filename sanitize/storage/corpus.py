"""Corpus, Shard, Manifest: sanitized shards as a trainer sees them, and documents by their number as the rooms see them.

pyarrow only: this is the door for train/ and eval/. One writer for the whole house, with settings that leave nothing behind: plain
strings, no dictionary, no statistics, no foreign metadata, checksums on every page.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.core import failpoints
from sanitize.core.display import Sheet
from sanitize.core.rendering import visible
from sanitize.core.text_cells import Flat, Leaf, flatten, leaves, plain
from sanitize.errors import InputRefused, OutputBroken, UsageError
from sanitize.storage import formats, row_groups
from sanitize.storage.disk_errors import no_url

BATCH_ROWS = 10_000
BATCH_BYTES = 32 << 20


@dataclass(frozen=True, kw_only=True)
class Source:
    """A Parquet file that holds documents: an input read in place, or one decoded into WORK/documents."""

    path: str
    rows: int
    first_doc_no: int
    columns: Mapping[str, str]  # standard name -> name in the file; a standard name that is missing here is null
    bytes: int = 0

    def is_there(self) -> bool:
        """True where the file can be read and has its rows and columns still."""
        try:
            metadata = pq.read_metadata(self.path)
        except (OSError, pa.ArrowException):
            return False
        return metadata.num_rows == self.rows and set(self.columns.values()) <= set(metadata.schema.to_arrow_schema().names)


@dataclass(frozen=True, kw_only=True)
class Documents:
    """All documents of a corpus by `doc_no`: sources in corpus order, and the schema in standard form (without `doc_no`)."""

    sources: tuple[Source, ...]
    schema: pa.Schema
    main: Leaf

    @property
    def count(self) -> int:
        """How many documents there are, quarantined ones included."""
        return self.sources[-1].first_doc_no + self.sources[-1].rows if self.sources else 0

    def told(self, first: int, last: int) -> str:
        """Documents `first` to `last` - 1 in words, with the first files they lie in."""
        files = [source.path for source in self.sources if source.first_doc_no < last and first < source.first_doc_no + source.rows]
        return f"documents {first} to {last - 1} in {', '.join(files[:3])}{f' and {len(files) - 3} more' if len(files) > 3 else ''}"

    def read(self, first: int, last: int, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """Documents `first` to `last` - 1 as tables with `doc_no`, cut by documents and by bytes; strings are plain large_string."""
        names = self.schema.names if columns is None else columns
        for source in self.sources:
            low, high = max(first, source.first_doc_no), min(last, source.first_doc_no + source.rows)
            if low < high:
                yield from self._read(source, low - source.first_doc_no, high - source.first_doc_no, names)

    def _read(self, source: Source, first: int, last: int, names: list[str]) -> Iterator[pa.Table]:
        try:
            metadata = pq.read_metadata(source.path)
            starts = row_groups.starts(metadata)
            groups = [g for g in range(len(starts) - 1) if starts[g] < last and starts[g + 1] > first]
            wanted = [source.columns[name] for name in names if name in source.columns]
            at = int(starts[groups[0]]) if groups else last
            # what was not written here was read through when it came in (`read.parquet.readable`)
            some = row_groups.batches(source.path, metadata, groups, columns=wanted, rows=BATCH_ROWS, bytes=BATCH_BYTES, known=True)
            for batch, _ in some:
                low, high = max(first, at), min(last, at + batch.num_rows)
                if low < high:
                    yield self._standard(source, batch.slice(low - at, high - low), low + source.first_doc_no, names)
                at += batch.num_rows
            if at < last:
                raise OSError("fewer rows than the footer says")
        except (pa.ArrowException, OSError) as error:
            raise InputRefused(
                f"{source.path}: cannot be read as Parquet any more ({type(error).__name__}); "
                "it may be damaged, or changed since the run began"
            ) from None

    def _standard(self, source: Source, batch: pa.RecordBatch, doc_no: int, names: list[str]) -> pa.Table:
        columns = {"doc_no": pa.array(np.arange(doc_no, doc_no + batch.num_rows), pa.int64())}
        for name in names:
            there = source.columns.get(name)
            kind = self.schema.field(name).type
            column = pa.nulls(batch.num_rows, kind) if there is None else plain(batch.column(there))
            columns[name] = column if column.type == kind else column.cast(kind)
        if "doc_id" in columns and columns["doc_id"].null_count:
            # a document without an id is known by its number
            columns["doc_id"] = pc.coalesce(columns["doc_id"], columns["doc_no"].cast(pa.large_string()))
        return pa.table(columns)

    def to_json(self, work: Path) -> dict[str, Any]:
        """A description that `from_json` turns back into the same documents, also once WORK was moved as a whole."""
        inside = os.path.abspath(work) + os.sep
        return {
            "sources": [asdict(source) | {"path": source.path.removeprefix(inside)} for source in self.sources],
            "schema": base64.b64encode(self.schema.serialize().to_pybytes()).decode(),
            "main": [self.main.column, *self.main.steps],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], work: Path) -> Documents:
        """Documents as `to_json` described them in this WORK."""
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(value["schema"])))
        column, *steps = value["main"]
        inside = os.path.abspath(work)
        sources = tuple(Source(**{**source, "path": os.path.join(inside, source["path"])}) for source in value["sources"])
        return cls(sources=sources, schema=schema, main=Leaf(column, tuple(steps)))


@dataclass(frozen=True, repr=False)
class CellColumn:
    """The cells of one leaf in a batch: their texts, the row and the cell number of each."""

    leaf: Leaf
    flat: Flat
    cells: np.ndarray[Any, np.dtype[np.int32]]


def cell_leaves(schema: pa.Schema, main: Leaf, exclude: frozenset[str] = frozenset()) -> list[Leaf]:
    """The leaves that are cells, the main text first, then in schema order; `exclude` names columns that are none."""
    return [main, *(leaf for leaf in leaves(schema) if leaf != main and leaf.column not in exclude)]


def cells_of(table: pa.Table, which: list[Leaf]) -> list[CellColumn]:
    """The cells of a batch, leaf by leaf, numbered per document as the leaves follow each other."""
    base = np.zeros(table.num_rows, np.int32)
    found = []
    for leaf in which:
        column = table.column(leaf.column)
        flat = flatten(column.chunk(0) if column.num_chunks == 1 else column.combine_chunks(), leaf)
        found.append(CellColumn(leaf, flat, base[flat.rows] + flat.places))
        base += np.bincount(flat.rows, minlength=table.num_rows).astype(np.int32)
    return found


def writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """The one Parquet writer for text: zstd level 1, page checksums, and nothing that could hold a removed value.

    Arrow's copy of the schema goes along only for types that Parquet itself would not give back (durations, time zones); it holds names
    and types, and for the plain types of this house nothing else.
    """
    special = any(pa.types.is_duration(field.type) or (pa.types.is_timestamp(field.type) and field.type.tz) for field in schema)
    return pq.ParquetWriter(
        path,
        schema.remove_metadata(),
        compression="zstd",
        compression_level=1,
        use_dictionary=False,
        write_statistics=False,
        store_schema=special,
        write_page_checksum=True,
        write_page_index=False,
    )


def table_writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """A writer for the tables of WORK: fast to write, statistics on `doc_no` so that ranges are found again."""
    coded = [field.name for field in schema if pa.types.is_dictionary(field.type) or field.name in ("score", "entity_id")]
    return pq.ParquetWriter(
        path,
        schema,
        compression="lz4",
        use_dictionary=coded,
        write_statistics=["doc_no"] if "doc_no" in schema.names else False,
        write_page_checksum=True,
    )


def write_rows(path: Path, schema: pa.Schema, rows: Sequence[Sequence[Any]]) -> None:
    """A small table of WORK, from rows."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)]
    with table_writer(path, schema) as out:
        out.write_table(pa.table(arrays, schema=schema))


def reopened(path: Path, *, pages: bool = True) -> None:
    """Open a file that was just written again; OutputBroken unless its footer and (with `pages`) every page with its checksum is whole."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True, pre_buffer=False) as file:
            expected = file.metadata.num_rows
            rows = sum(batch.num_rows for batch in file.iter_batches(BATCH_ROWS, use_threads=False)) if pages else expected
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise OutputBroken(f"{path}: not readable after it was written ({type(error).__name__}); the disk may be failing") from None
    if rows != expected:
        raise OutputBroken(f"{path}: holds {rows} rows where its footer says {expected}; the disk may be failing")


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree_sha256(path: Path) -> str:
    """The sha256 over all files below a folder, names and bytes; of a file, that of its bytes."""
    total = hashlib.sha256()
    for one in [path] if path.is_file() else sorted(path.rglob("*")):
        if one.is_file():
            total.update(f"{one.relative_to(path)}\0{sha256(one)}\n".encode())
    return total.hexdigest()


def fsync(path: Path) -> None:
    """Ask the system to bring a file or a folder to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(path: Path, value: object, aside: Path | None = None) -> None:
    """Write JSON by the house's dance: aside (beside it, or the file that is given), to the disk, renamed, the folder to the disk."""
    aside = aside or path.with_name(path.name + ".tmp")
    try:
        with aside.open("w", encoding="utf-8") as file:
            json.dump(value, file, sort_keys=True, ensure_ascii=False, indent=1, default=str)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        failpoints.at("json:aside")
        aside.rename(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    fsync(path.parent)


def write_lines(path: Path, lines: Iterable[str], *, over: bool) -> None:
    """Write private lines of text by the same dance: the file is there whole, or not at all. FileExistsError where one is there already,
    unless it may be written `over`."""
    aside = path.with_name(path.name + ".tmp")
    try:
        handle = os.open(aside, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0), 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        failpoints.at("lines:aside")
        if over:
            aside.rename(path)
        else:
            os.link(aside, path)
            aside.unlink()
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    fsync(path.parent)


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file; None where there is none, or it is no JSON object."""
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None


@dataclass(frozen=True)
class Shard:
    """One sanitized Parquet file."""

    path: Path
    rows: int
    sha256: str

    def read(self, columns: list[str] | None = None) -> pa.Table:
        """The shard as a table; of one that is no Parquet the types follow from the values."""
        if (packed := formats.by_suffix(self.path)) is not None:
            batches = [pa.Table.from_batches([batch]) for batch in packed.batches(self.path)]
            table = pa.concat_tables(batches, promote_options="permissive") if batches else pa.table({})
            return table if columns is None else table.select(columns)
        return pq.read_table(self.path, columns=columns, page_checksum_verification=True, partitioning=None)


@dataclass(frozen=True)
class Corpus:
    """A published folder: its manifest and its shards in order."""

    path: Path
    manifest: Mapping[str, Any]

    def __repr__(self) -> str:
        shards = self.manifest["shards"]
        return f"Corpus({visible(str(self.path))}: {sum(one['rows'] for one in shards):,} documents in {_shards(shards)})"

    def _repr_html_(self) -> str:
        said, shards = self.manifest, self.manifest["shards"]
        facts = [
            ("documents", f"{sum(one['rows'] for one in shards):,} in {_shards(shards)}"),
            ("plan", f"{said.get('summary', {}).get('plan_name', '')} {said.get('plan_hash', '')}"),
            ("publish", "publishable by its plan" if said.get("publishable") else "keep private"),
            ("columns", ", ".join(f"{one['name']}: {one['policy']}" for one in said.get("columns", ()))),
        ]
        rows = [(one["path"], one["rows"], one["sha256"][:12]) for one in shards]
        return Sheet(title=f"Corpus in {self.path}", facts=facts, head=("shard", "rows", "sha256"), rows=rows).html()

    @classmethod
    def open(cls, path: str | Path) -> Corpus:
        """The corpus in a folder that `sanitize run` published; OutputBroken where there is no readable manifest."""
        if "://" in str(path):
            raise UsageError("a corpus is opened in a folder on this machine, and no URL; docs/remote.md says how to load what lies at one")
        folder = no_url(path)
        try:
            manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
            manifest["shards"]
        except (OSError, ValueError, KeyError) as error:
            raise OutputBroken(
                f"{folder}: no readable manifest.json ({type(error).__name__}); expected a folder that `sanitize run` published"
            ) from None
        return cls(folder, manifest)

    @property
    def shards(self) -> list[Shard]:
        """The shards in corpus order."""
        return [Shard(self.path / entry["path"], entry["rows"], entry["sha256"]) for entry in self.manifest["shards"]]

    @property
    def beside(self) -> Mapping[str, str]:
        """What stands beside the shards because of their format, with the sha256 of each: nothing for most."""
        return dict(self.manifest.get("beside", {}))

    def check(self) -> None:
        """Raise OutputBroken for a shard that is missing, foreign or changed since it was published."""
        expected = {shard.path.name: shard for shard in self.shards}
        there = {entry.name for entry in (self.path / "data").iterdir()} if (self.path / "data").is_dir() else set()
        beside = {Path(name).name: known for name, known in self.beside.items()}
        for name in sorted(there - expected.keys() - beside.keys()):
            raise OutputBroken(f"{self.path}/data: {name} is not in the manifest; take it away, or run again with --replace")
        for name, shard in expected.items():
            if name not in there:
                raise OutputBroken(f"{self.path}/data: {name} is missing; run again with --replace")
            if sha256(shard.path) != shard.sha256:
                raise OutputBroken(f"{shard.path}: not the file that was published (sha256 differs); run again with --replace")
        for name, known in beside.items():
            if name not in there or sha256(self.path / "data" / name) != known:
                raise OutputBroken(f"{self.path}/data: {name} is missing or not the file that was published; run again with --replace")

    def table(self, columns: list[str] | None = None) -> pa.Table:
        """All shards as one table, in corpus order."""
        return pa.concat_tables([shard.read(columns) for shard in self.shards])


def _shards(shards: Sequence[object]) -> str:
    return f"{len(shards):,} {'shard' if len(shards) == 1 else 'shards'}"


def text_bytes(table: pa.Table) -> int:
    """The UTF-8 bytes of all strings of a table."""
    total = 0
    for leaf in leaves(table.schema):
        column = table.column(leaf.column)
        for chunk in column.chunks:
            total += pc.sum(pc.binary_length(flatten(plain(chunk), leaf).texts)).as_py() or 0
    return total
