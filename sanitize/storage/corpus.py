"""Corpus and Shard (a published output, as trainers read it) and Documents (input files read by
document number and text cell).

Uses only pyarrow, because train/ and eval/ import this module.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.array_types import I64
from sanitize.core.table_rendering import SummaryTable, escape_controls
from sanitize.core.text_cells import (
    FlatTexts,
    LeafPath,
    PathArrays,
    Policies,
    flatten_leaf,
    list_text_leaves,
    to_canonical_type,
)
from sanitize.errors import (
    InputRefused,
    OutputBroken,
    UsageError,
    printable_path,
    suggest_names,
)
from sanitize.storage import formats, parquet_files
from sanitize.storage.disk_errors import avoid_url_syntax
from sanitize.storage.files import file_sha256, parse_json, read_regular_file
from sanitize.storage.records.lineage import (
    SOURCES_KEY,
    Place,
    SourceRun,
    find_place,
    parse_runs,
)

BATCH_ROWS = 10_000
BATCH_BYTES = 32 << 20
GROUP_BYTES = 256 << 10  # columns with less text in a batch are searched together
_MAX_READ_GAP = (
    2_000  # documents that `read_selected` reads and leaves out, rather than begin to read again
)
MANIFEST_VERSION = 2  # `format` in manifest.json; raise it when a key changes
# the fields of manifest.json (format 2) that the program reads: a type, `[shape]` for a list,
# `{...}` for an object; `?` marks a field that may be missing, and a tuple with None a field that
# may be null
_MANIFEST_SHAPE: dict[str, Any] = {
    "plan": {"name": str, "edit": [{"avoid?": str}], "leave": [str], "kind?": [dict]},
    "plan_hash": str,
    "run_hash": str,
    "settings": {
        "verify": str,
        "roles": dict,
        "erased?": ({"erasures": int}, None),
        "format?": str,
    },
    "shards": [{"path": str, "rows": int, "sha256": str, "split?": str}],
    # "?": none with --verify off
    "summary": {"verify": {"values_checked?": int, "ambiguous_values?": int, "kinds?": [str]}},
    "columns": [{"name": str, "policy": str}],
    "inputs": [{"number": int, "bytes": int, "sha256": str}],
    "increments?": [{"input_count": int, "shard_count": int}],
    "sidecar_files?": dict,
    "description?": dict,
    "features?": dict,
    "tool": dict,
}
_SHARD_SHAPE: dict[str, Any] = {"shards": _MANIFEST_SHAPE["shards"]}  # what every format has
_TYPE_NAMES = {dict: "an object", list: "a list", str: "a text", int: "an integer"}
# version 1 has other names for the same; its shards can be read
_READABLE_MANIFEST_VERSIONS = (1, MANIFEST_VERSION)


@dataclass(frozen=True, kw_only=True)
class DocumentFile:
    """A Parquet file that holds documents: an input read in place, or one decoded into
    WORK/documents."""

    path: str
    rows: int
    first_doc_no: int
    # standard name -> name in the file; a standard column that is not listed is null
    columns: Mapping[str, str]
    bytes: int = 0
    split: str = ""  # that it belongs to; "" where the corpus has none
    source: str = ""  # the input file, where it is read in place; a staged file names those it has

    def source_runs(self) -> list[SourceRun]:
        """Where its rows come from."""
        if self.source:
            source = printable_path(self.source)
            return [SourceRun(row=0, rows=self.rows, source=source, word="row", number=0)]
        return parse_runs(pq.read_metadata(self.path).metadata[SOURCES_KEY.encode()])

    def is_available(self) -> bool:
        """True if the file can still be read and has the expected number of rows and the expected
        columns."""
        try:
            metadata = pq.read_metadata(self.path)
        except (OSError, pa.ArrowException):
            return False
        return metadata.num_rows == self.rows and set(self.columns.values()) <= set(
            metadata.schema.to_arrow_schema().names
        )


@dataclass(frozen=True, kw_only=True)
class Documents:
    """All documents of a corpus by `doc_no`: files in corpus order, the schema in standard form
    (without `doc_no`), the main text leaf."""

    files: tuple[DocumentFile, ...]
    schema: pa.Schema
    main_leaf: LeafPath

    @property
    def count(self) -> int:
        """The number of documents, including quarantined ones."""
        return self.files[-1].first_doc_no + self.files[-1].rows if self.files else 0

    def find_places(self, doc_nos: Collection[int]) -> dict[int, Place]:
        """The input file and the position in it of some documents; opens only files of WORK."""
        places: dict[int, Place] = {}
        for file in self.files:
            rows = [
                doc_no - file.first_doc_no
                for doc_no in doc_nos
                if file.first_doc_no <= doc_no < file.first_doc_no + file.rows
            ]
            if not rows:
                continue
            runs = file.source_runs()
            places |= {file.first_doc_no + row: find_place(runs, row) for row in rows}
        return places

    def describe_range(self, first_doc_no: int, end_doc_no: int) -> str:
        """Describes documents `first_doc_no` to `end_doc_no` - 1 for messages: the range and its
        first three files."""
        files = [
            source.path
            for source in self.files
            if source.first_doc_no < end_doc_no and first_doc_no < source.first_doc_no + source.rows
        ]
        more = f" and {len(files) - 3} more" if len(files) > 3 else ""
        return f"documents {first_doc_no} to {end_doc_no - 1} in {', '.join(files[:3])}{more}"

    def read(
        self, first_doc_no: int, end_doc_no: int, columns: list[str] | None = None
    ) -> Iterator[pa.Table]:
        """Yields documents `first_doc_no` to `end_doc_no` - 1 as tables of limited size, with
        `doc_no`; strings are large_string."""
        names = self.schema.names if columns is None else columns
        for source in self.files:
            low, high = (
                max(first_doc_no, source.first_doc_no),
                min(end_doc_no, source.first_doc_no + source.rows),
            )
            if low < high:
                yield from self._read(
                    source, low - source.first_doc_no, high - source.first_doc_no, names
                )

    def read_selected(self, doc_nos: I64, columns: list[str]) -> Iterator[pa.Table]:
        """Yields the documents with these numbers, which are sorted; those at most 2,000 apart are
        read together."""
        for group in (
            np.split(doc_nos, np.flatnonzero(np.diff(doc_nos) > _MAX_READ_GAP) + 1)
            if len(doc_nos)
            else ()
        ):
            for table in self.read(int(group[0]), int(group[-1]) + 1, columns):
                selected = table.filter(
                    pc.is_in(table.column("doc_no"), value_set=pa.array(group))
                ).combine_chunks()
                if selected.num_rows:
                    yield selected

    def read_texts(self, leaves: Sequence[LeafPath], doc_nos: I64) -> dict[tuple[int, int], str]:
        """The texts of the documents with these numbers, which are sorted, by (doc_no, cell)."""
        texts: dict[tuple[int, int], str] = {}
        for table in self.read_selected(doc_nos, [*dict.fromkeys(leaf.column for leaf in leaves)]):
            numbers = table.column("doc_no").to_pylist()
            for column in flatten_cells(table, leaves):
                for row, cell, text in zip(
                    column.flat.rows, column.cell, column.flat.texts, strict=True
                ):
                    texts[numbers[row], int(cell)] = text.as_py() or ""
        return texts

    def _read(
        self, file: DocumentFile, first_row: int, end_row: int, names: list[str]
    ) -> Iterator[pa.Table]:
        try:
            metadata = pq.read_metadata(file.path)
            starts = parquet_files.row_group_starts(metadata)
            groups = [
                g
                for g in range(len(starts) - 1)
                if starts[g] < end_row and starts[g + 1] > first_row
            ]
            wanted = [file.columns[name] for name in names if name in file.columns]
            at = int(starts[groups[0]]) if groups else end_row
            # trusted: files that sanitize did not write were read completely and checked when they
            # were read as input (sanitize/readers)
            batches = parquet_files.read_bounded_batches(
                file.path,
                metadata,
                groups,
                columns=wanted,
                max_rows=BATCH_ROWS,
                max_bytes=BATCH_BYTES,
                is_trusted=True,
            )
            for batch, _ in batches:
                low, high = max(first_row, at), min(end_row, at + batch.num_rows)
                if low < high:
                    yield self._to_standard_form(
                        file, batch.slice(low - at, high - low), low + file.first_doc_no, names
                    )
                at += batch.num_rows
            if at < end_row:
                raise OSError("fewer rows than the footer states")
        except (pa.ArrowException, OSError) as error:
            raise InputRefused(
                f"{file.path}: cannot be read as Parquet any more ({type(error).__name__}); it may"
                " be damaged or have changed since the run began. Restore the file, or run the"
                " same command again to read the new one"
            ) from None

    def _to_standard_form(
        self, file: DocumentFile, batch: pa.RecordBatch, doc_no: int, names: list[str]
    ) -> pa.Table:
        columns = {"doc_no": pa.array(np.arange(doc_no, doc_no + batch.num_rows), pa.int64())}
        kinds = dict(zip(self.schema.names, self.schema.types, strict=True))
        arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
        for name in names:
            file_column = file.columns.get(name)
            kind = kinds[name]
            column = (
                pa.nulls(batch.num_rows, kind)
                if file_column is None
                else to_canonical_type(arrays[file_column])
            )
            columns[name] = column if column.type == kind else column.cast(kind)
        if "doc_id" in columns and columns["doc_id"].null_count:
            # a document without an id is identified by its number
            columns["doc_id"] = pc.coalesce(
                columns["doc_id"], columns["doc_no"].cast(pa.large_string())
            )
        return pa.table(columns)

    def to_json(self, work: Path) -> dict[str, Any]:
        """A description from which `from_json` restores the same documents, even after the WORK
        folder was moved, alone or together with the input."""
        work_path = os.path.abspath(work)
        sources = []
        for source in self.files:
            path_from_work = os.path.relpath(source.path, work_path)
            is_in_work = not path_from_work.startswith(os.pardir)
            paths = {"path": path_from_work} if is_in_work else {"path_from_work": path_from_work}
            sources.append(asdict(source) | paths)
        return {
            "sources": sources,
            "schema": base64.b64encode(self.schema.serialize().to_pybytes()).decode(),
            "main": [self.main_leaf.column, *self.main_leaf.steps],
        }

    @classmethod
    def from_json(cls, description: Mapping[str, Any], work: Path) -> Documents:
        """The documents that `to_json` described, with paths relative to this WORK."""
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(description["schema"])))
        column, *steps = description["main"]
        work_path = os.path.abspath(work)
        sources = []
        for source in map(dict, description["sources"]):
            moved = os.path.normpath(
                os.path.join(work_path, source.pop("path_from_work", os.devnull))
            )
            path = os.path.join(work_path, source["path"])
            sources.append(
                DocumentFile(
                    **{
                        **source,
                        "path": (
                            moved if os.path.isfile(moved) and not os.path.exists(path) else path
                        ),
                    }
                )
            )
        return cls(files=tuple(sources), schema=schema, main_leaf=LeafPath(column, tuple(steps)))


@dataclass(frozen=True, repr=False)
class CellColumn:
    """The text cells of one leaf in a batch: their texts, and the row and cell number of each."""

    leaf: LeafPath
    flat: FlatTexts
    cell: np.ndarray[Any, np.dtype[np.int32]]

    @property
    def field_names(self) -> str | tuple[str, ...]:
        """The name of the field that the texts fill; of texts inside JSON the key of each."""
        return self.leaf.name if self.flat.keys is None else self.flat.keys


@dataclass(frozen=True, repr=False)
class CellGroup:
    """The text cells of one or several leaves in a batch, which are searched together: their texts,
    and of each the row, the cell number and the index of its leaf among all leaves."""

    texts: pa.LargeStringArray
    rows: I64
    cell: np.ndarray[Any, np.dtype[np.int32]]
    leaf_no: I64


def group_cells(columns: Sequence[CellColumn]) -> Iterator[CellGroup]:
    """The cells of consecutive columns, joined while they have at most `GROUP_BYTES` of text; a
    larger column is a group by itself.

    What costs time for each column, such as the call of a regular expression, is paid once for many
    small ones."""
    for (low, high), texts in join_small_columns([column.flat.texts for column in columns]):
        part = columns[low:high]
        yield CellGroup(
            texts=texts,
            rows=np.concatenate([column.flat.rows for column in part]),
            cell=np.concatenate([column.cell for column in part]),
            leaf_no=np.repeat(np.arange(low, high), [len(column.cell) for column in part]),
        )


def join_small_columns(
    columns: Sequence[pa.LargeStringArray],
) -> Iterator[tuple[tuple[int, int], pa.LargeStringArray]]:
    """Yields ranges of consecutive columns of texts as `group_cells` joins them, each with its
    texts."""
    for low, high in parquet_files.split_rows(
        np.array([column.nbytes for column in columns], np.int64), GROUP_BYTES
    ):
        yield (low, high), columns[low] if high == low + 1 else pa.concat_arrays(columns[low:high])


def cell_leaves(schema: pa.Schema, main: LeafPath, policies: Policies) -> list[LeafPath]:
    """The leaves that are text cells: the main text first, then those that are sanitized, in schema
    order."""
    others = (leaf for leaf in list_text_leaves(schema) if leaf != main)
    return [main, *(leaf for leaf in others if policies.at(leaf) == "sanitize")]


def flatten_cells(table: pa.Table, leaves: Sequence[LeafPath]) -> list[CellColumn]:
    """The text cells of a batch, one `CellColumn` per leaf; cells of a document are numbered in the
    order of `leaves`."""
    base = np.zeros(table.num_rows, np.int32)
    cell_columns = []
    path_arrays: dict[str, PathArrays] = {}
    for leaf in leaves:
        column = table.column(leaf.column)
        array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        flat = flatten_leaf(array, leaf, path_arrays.setdefault(leaf.column, {}))
        cell_columns.append(CellColumn(leaf, flat, base[flat.rows] + flat.positions))
        base += (
            np.bincount(flat.rows, minlength=table.num_rows).astype(np.int32) if leaf.steps else 1
        )
    return cell_columns


def with_run_hash(record: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest, or the record of a publication, with `run_hash`, which names the folder of the
    run in WORK: the hash of plan, input and options, which earlier versions called `plan_hash`."""
    return {**({"run_hash": record["plan_hash"]} if "plan_hash" in record else {}), **record}


@dataclass(frozen=True)
class Shard:
    """One published shard: path, number of rows and SHA-256."""

    path: Path
    rows: int
    sha256: str
    split: str = ""  # "" where the corpus has no splits

    def read(self, columns: list[str] | None = None) -> pa.Table:
        """The shard as a table. For formats other than Parquet the column types are inferred from
        the values. Raises UsageError for an unknown column."""
        if (packed := formats.find_packed_format(self.path)) is not None:
            batches = [pa.Table.from_batches([batch]) for batch in packed.read_batches(self.path)]
            table = (
                pa.concat_tables(batches, promote_options="permissive") if batches else pa.table({})
            )
            _require_columns(self.path, columns, table.schema)
            return table if columns is None else table.select(columns)
        if columns is not None:
            _require_columns(self.path, columns, pq.read_schema(self.path))
        return pq.read_table(
            self.path, columns=columns, page_checksum_verification=True, partitioning=None
        )


@dataclass(frozen=True)
class Corpus:
    """A published folder: its manifest and its shards in order."""

    path: Path
    manifest: Mapping[str, Any]

    def __repr__(self) -> str:
        shards = self.manifest["shards"]
        documents = sum(shard["rows"] for shard in shards)
        return (
            f"Corpus({escape_controls(str(self.path))}: {documents:,} documents in"
            f" {_format_shard_count(shards)})"
        )

    def _repr_html_(self) -> str:
        manifest, shards = self.manifest, self.manifest["shards"]
        facts = [
            (
                "documents",
                f"{sum(shard['rows'] for shard in shards):,} in {_format_shard_count(shards)}",
            ),
            (
                "plan",
                (
                    f"{manifest.get('summary', {}).get('plan_name', '')}"
                    f" {manifest.get('plan_hash', '')}"
                ),
            ),
            (
                "publish",
                (
                    "publishable according to its plan"
                    if manifest.get("publishable")
                    else "keep private"
                ),
            ),
            (
                "columns",
                ", ".join(
                    f"{column['name']}: {column['policy']}"
                    for column in manifest.get("columns", ())
                ),
            ),
        ]
        rows = [(shard["path"], shard["rows"], shard["sha256"][:12]) for shard in shards]
        return SummaryTable(
            title=f"Corpus in {self.path}",
            facts=facts,
            header=("shard", "rows", "sha256"),
            rows=rows,
        ).to_html()

    @classmethod
    def open(cls, path: str | Path) -> Corpus:
        """Opens a folder that `sanitize run` published.

        Raises OutputBroken without a readable manifest whose fields have the right types,
        UsageError for a URL or a manifest of a newer version. Fields other than the shards may be
        missing; see `require_all_fields`.
        """
        if "://" in str(path):
            raise UsageError(
                "expected a folder on this machine, got a URL; docs/how_to/remote.md describes how"
                " to load a corpus at a URL"
            )
        folder = avoid_url_syntax(path)
        try:
            manifest = parse_json(read_regular_file(folder / "manifest.json"))
        except (OSError, ValueError) as error:
            raise OutputBroken(
                f"{folder}: no readable manifest.json ({type(error).__name__}); expected a folder"
                " that `sanitize run` published"
            ) from None
        if problem := _find_wrong_field(manifest, _SHARD_SHAPE):
            raise OutputBroken(
                f"{folder}: manifest.json: {problem}; expected the file that `sanitize run`"
                " published"
            )
        corpus = cls(folder, with_run_hash(manifest))
        if corpus.manifest_version not in _READABLE_MANIFEST_VERSIONS:
            raise UsageError(
                f"{folder}: its manifest.json has format {corpus.manifest_version}, and this"
                f" program reads formats {' and '.join(map(str, _READABLE_MANIFEST_VERSIONS))}."
                " Update corpus-sanitize, or use the version that wrote it"
            )
        corpus.require_all_fields(allow_missing=True)
        return corpus

    @property
    def manifest_version(self) -> object:
        """The version of the keys in manifest.json (`format`)."""
        return self.manifest.get("format", MANIFEST_VERSION)

    def require_all_fields(self, *, allow_missing: bool = False) -> None:
        """Raises OutputBroken if the manifest, in the current format, lacks a field (unless
        `allow_missing`) or has one of another type."""
        if self.manifest_version == MANIFEST_VERSION and (
            problem := _find_wrong_field(self.manifest, _MANIFEST_SHAPE, allow_missing)
        ):
            raise OutputBroken(
                f"{self.path}: manifest.json: {problem}; expected the file that `sanitize run`"
                " published"
            )

    def require_current_manifest(self) -> None:
        """Raises UsageError, with the command that publishes the corpus again, if an earlier
        version wrote manifest.json. Its shards can still be read."""
        if self.manifest_version != MANIFEST_VERSION:
            raise UsageError(
                f"{self.path}: its manifest.json has format {self.manifest_version}, and this"
                f" command reads format {MANIFEST_VERSION}. Publish the corpus again from the"
                f" inputs and settings of that run: sanitize run INPUT... -o {self.path} --replace."
                " Training and evaluation can read its shards as they are"
            )
        self.require_all_fields()

    @property
    def shards(self) -> list[Shard]:
        """The shards in corpus order."""
        entries = self.manifest["shards"]
        return [
            Shard(self.path / entry["path"], entry["rows"], entry["sha256"], entry.get("split", ""))
            for entry in entries
        ]

    @property
    def splits(self) -> dict[str, int]:
        """The number of documents of each split, in corpus order; empty where the corpus has no
        splits."""
        counts: dict[str, int] = {}
        for shard in self.shards:
            if shard.split:
                counts[shard.split] = counts.get(shard.split, 0) + shard.rows
        return counts

    def list_shards(self, split: str | None = None) -> list[Shard]:
        """The shards of one split, or all of them. Raises UsageError for an unknown split."""
        if split is not None and split not in self.splits:
            advice = (
                suggest_names(split, list(self.splits))
                if self.splits
                else "the corpus has no splits; leave it out"
            )
            raise UsageError(f"{self.path}: there is no split {split}; {advice}")
        return [shard for shard in self.shards if split is None or shard.split == split]

    @property
    def sidecar_files(self) -> Mapping[str, str]:
        """Additional files of the shard format in the data folder (such as an MDS index) ->
        SHA-256; empty for most formats."""
        return dict(
            self.manifest.get(
                "sidecar_files" if self.manifest_version == MANIFEST_VERSION else "beside", {}
            )
        )

    def check(self) -> None:
        """Raises OutputBroken for a file in data/ that is missing, not in the manifest, or changed
        since it was published."""
        expected = {shard.path.name: shard for shard in self.shards}
        present = (
            {entry.name for entry in (self.path / "data").iterdir()}
            if (self.path / "data").is_dir()
            else set()
        )
        sidecars = {Path(name).name: sha256 for name, sha256 in self.sidecar_files.items()}
        if foreign := present - expected.keys() - sidecars.keys():
            # not by name, which may be a value
            count = (
                f"{len(foreign)} {'file that is' if len(foreign) == 1 else 'files that are'} not in"
                " the manifest"
            )
            raise OutputBroken(
                f"{self.path}/data: holds {count}; remove it, or run again with --replace"
            )
        for name, shard in expected.items():
            if name not in present:
                raise OutputBroken(f"{self.path}/data: {name} is missing; run again with --replace")
            if file_sha256(shard.path) != shard.sha256:
                raise OutputBroken(
                    f"{shard.path}: not the file that was published (sha256 differs); run again"
                    " with --replace"
                )
        for name, sha256 in sidecars.items():
            if name not in present or file_sha256(self.path / "data" / name) != sha256:
                raise OutputBroken(
                    f"{self.path}/data: {name} is missing or not the file that was published; run"
                    " again with --replace"
                )

    def table(self, columns: list[str] | None = None, split: str | None = None) -> pa.Table:
        """All shards as one table, or those of one split, in corpus order. Raises UsageError for an
        unknown column or split."""
        return pa.concat_tables([shard.read(columns) for shard in self.list_shards(split)])


def _find_wrong_field(
    value: Any, shape: Any, allow_missing: bool = False, place: str = ""
) -> str | None:
    """The first field of a JSON value that has not the shape of `_MANIFEST_SHAPE`, with what was
    expected; None if there is none."""
    if isinstance(shape, tuple):
        if value is None:
            return None
        shape = shape[0]
    expected_type: Any = shape if isinstance(shape, type) else type(shape)
    if not isinstance(value, expected_type) or isinstance(value, bool):
        found = _TYPE_NAMES.get(type(value), "a number, true, false or null")
        return f"{place or 'its content'} is {found}, not {_TYPE_NAMES[expected_type]}"
    parts: list[tuple[str, Any, Any]] = []
    if isinstance(shape, list):
        parts = [(f"{place}[{number}]", one, shape[0]) for number, one in enumerate(value)]
    elif isinstance(shape, dict):
        fields = {name.removesuffix("?"): field_shape for name, field_shape in shape.items()}
        places = {name: f"{place}.{name}" if place else name for name in fields}
        if missing := [
            name for name in fields if name in shape and name not in value and not allow_missing
        ]:
            return f"{places[missing[0]]} is missing"
        parts = [(places[name], value[name], fields[name]) for name in fields if name in value]
    return next(
        (
            problem
            for part in parts
            if (problem := _find_wrong_field(part[1], part[2], allow_missing, part[0]))
        ),
        None,
    )


def _require_columns(path: Path, columns: Sequence[str] | None, schema: pa.Schema) -> None:
    """Raises UsageError for a column that the schema does not have."""
    for name in columns or ():
        if name not in schema.names and name.partition(".")[0] not in schema.names:
            # `a.b`: a field of a struct
            raise UsageError(
                f"{path}: there is no column {name}; {suggest_names(name, schema.names)}"
            )


def _format_shard_count(shards: Sequence[object]) -> str:
    return f"{len(shards):,} {'shard' if len(shards) == 1 else 'shards'}"
