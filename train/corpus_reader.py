"""Reads a folder of shards as one table of documents, with hashes that identify the documents.

A folder that `sanitize run` published is checked against its manifest, file by file; any other
folder or file of Parquet, JSON lines or Arrow (as `datasets` saves it) is read as it is. The texts
of all documents are in memory once, until they are tokenized.
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

from sanitize.core.text_cells import column_of_path
from sanitize.errors import InputRefused, UsageError, suggest_names
from sanitize.storage.corpus import Corpus, Shard
from sanitize.storage.files import (
    file_sha256,
    read_regular_file,
    require_shallow_lines,
    stat_file,
)
from sanitize.storage.records.conversations import ChatTemplate, list_turns, read_mixed_lines
from sanitize.storage.records.record_shapes import RecordShape, recognize_table
from sanitize.storage.records.splits import TRAIN, select_split
from sanitize.storage.runs.run_folders import is_run_hash

TURNS = "turns"  # the column with the turns of conversations, as JSON
_SPANS_TYPE = pa.list_(pa.struct([("start", pa.int64()), ("end", pa.int64())]))
_EMPTY_STRING, _NEWLINE = pa.scalar("", pa.large_string()), pa.scalar("\n", pa.large_string())
SUFFIXES = (".parquet", ".jsonl", ".jsonl.gz", ".jsonl.zst", ".mds", ".arrow")


@dataclass(frozen=True, repr=False)
class DocumentTable:
    """Documents in corpus order: `text`, `doc_id` (strings, no nulls), and `label`, `user`,
    `prompt`, `pii_spans` if requested."""

    table: pa.Table
    path: Path
    shards: tuple[dict[str, Any], ...]  # name, rows and sha256 of each file, in order

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def texts(self) -> list[str]:
        """Return the texts as Python strings, each after its prompt if there are prompts."""
        column = self.table.column("text")
        if "prompt" in self.table.column_names:
            column = pc.binary_join_element_wise(self.table.column("prompt"), column, _EMPTY_STRING)
        return list(column.to_pylist())

    def describe(self) -> dict[str, Any]:
        """Return path, counts and hashes of these documents, as written to RUN/recipe.json."""
        description = {
            "path": str(self.path),
            "documents": len(self),
            "sha256": self.shards_sha256,
            "ids_sha256": self.ids_sha256,
        }
        return {**description, "shards": list(self.shards)}

    def filter_rows(self, row_mask: npt.NDArray[np.bool_]) -> DocumentTable:
        """Return the documents where the mask [documents] is true, in order."""
        return replace(self, table=self.table.filter(pa.array(row_mask)))

    def with_pii_spans(self, workspace: str | Path) -> DocumentTable:
        """Return these documents with a column `pii_spans`, read from the index of the run that
        published them.

        `workspace` is the private folder of that run. Raises UsageError if it belongs to another
        run, or if the run edited texts: spans of the originals are wrong for edited texts.
        """
        if not (self.path / "manifest.json").is_file():
            raise UsageError(
                f"{self.path}: data.spans_from needs a folder that `sanitize run` published; give"
                " pii_spans as a column instead"
            )
        run_hash = Corpus.open(self.path).manifest.get("run_hash")
        run = Path(workspace) / "runs" / str(run_hash)
        row_files, edit_files = (
            sorted((run / name).glob("*.parquet")) if is_run_hash(run_hash) else []
            for name in ("rows", "edits")
        )
        occurrence_files = sorted((Path(workspace) / "tables" / "occurrences").glob("*.parquet"))
        numbers = (
            pa.concat_tables(
                [pq.read_table(file, columns=["doc_no"], partitioning=None) for file in row_files]
            )
            if row_files
            else None
        )
        if numbers is None or not occurrence_files or numbers.num_rows != len(self):
            raise UsageError(
                f"{workspace}: is not the private folder of the run that published {self.path}"
                " (OUT.private, or --work)"
            )
        if sum(pq.read_metadata(file).num_rows for file in edit_files):
            raise UsageError(
                f"{workspace}: that run edited the texts, and its spans are of the originals; use"
                " the plan blacklist or baseline"
            )
        spans = pa.concat_tables(
            [
                pq.read_table(file, columns=["doc_no", "cell", "start", "end"], partitioning=None)
                for file in occurrence_files
            ]
        )
        spans = spans.filter(pc.equal(spans["cell"], 0)).sort_by(
            [("doc_no", "ascending"), ("start", "ascending")]
        )
        # both arrays of document numbers ascend: the spans of document i are rows low[i]:high[i]
        span_docs, own_docs = spans["doc_no"].to_numpy(), numbers["doc_no"].to_numpy()
        low, high = (
            np.searchsorted(span_docs, own_docs, side="left"),
            np.searchsorted(span_docs, own_docs, side="right"),
        )
        offsets = np.concatenate([[0], np.cumsum(high - low)])
        at = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - low, high - low)
        inner = pa.StructArray.from_arrays(
            [pa.array(spans[name].to_numpy()[at], pa.int64()) for name in ("start", "end")],
            ["start", "end"],
        )
        column = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), inner)
        return replace(self, table=self.table.append_column("pii_spans", column))

    @property
    def has_turns(self) -> bool:
        """True for conversations; `text` has them with one line for each turn."""
        return TURNS in self.table.column_names

    def with_template(self, template: ChatTemplate, *, with_spans: bool) -> DocumentTable:
        """Return the conversations as texts by a chat template, with the spans of what the
        assistant says (`loss_spans`) if requested."""
        conversations = [json.loads(turns) for turns in self.table.column(TURNS).to_pylist()]
        table = self.table.drop_columns(["text"])
        if not with_spans:
            texts = [template.render(turns) for turns in conversations]
            return replace(
                self, table=table.append_column("text", pa.array(texts, pa.large_string()))
            )
        rendered = [template.render_with_spans(turns) for turns in conversations]
        spans = [[{"start": start, "end": end} for start, end in found] for _, found in rendered]
        table = table.append_column(
            "text", pa.array([text for text, _ in rendered], pa.large_string())
        )
        return replace(self, table=table.append_column("loss_spans", pa.array(spans, _SPANS_TYPE)))

    @property
    def doc_ids(self) -> pa.Array:
        """Return the id of each document."""
        column = self.table.column("doc_id").combine_chunks()
        return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column

    @property
    def ids_sha256(self) -> str:
        """Return one hash of the sorted distinct ids: a corpus and its rewritten copy have the same
        one."""
        ids = sorted(pc.unique(self.table.column("doc_id")).to_pylist())
        return hashlib.sha256(json.dumps(ids).encode()).hexdigest()

    @property
    def shards_sha256(self) -> str:
        """Return one hash of the hashes of all files, in order; file names are not part of it."""
        return hashlib.sha256(
            json.dumps([shard["sha256"] for shard in self.shards]).encode()
        ).hexdigest()


def read_documents(
    path: str | Path,
    *,
    text_column: str = "text",
    id_column: str = "doc_id",
    label_column: str | None = None,
    user_column: str | None = None,
    prompt_columns: Sequence[str] = (),
    with_pii_spans: bool = False,
    split: str = TRAIN,
) -> DocumentTable:
    """Read the documents of a folder or file, with the named columns.

    A missing id becomes the row number as text; single shards may lack `pii_spans`. Where there is
    no column `text` and none is named, chat and instruction data is read as conversations
    (`has_turns`). Of data with splits, one is read. Raises InputRefused if there is nothing to read
    or a file cannot be read, OutputBroken if a published folder is incomplete, UsageError if a
    column or split is missing.
    """
    source = Path(path)
    published = (source / "manifest.json").is_file()
    if published:
        corpus = Corpus.open(source)
        shards_read = corpus.list_shards(split if corpus.splits else None)
        states = [stat_file(shard.path) for shard in shards_read]
        corpus.check()
        files = [(shard.path, shard.sha256) for shard in shards_read]
    else:
        found = _find_files(source, split)
        states = [stat_file(file) for file in found]
        files = [(file, file_sha256(file)) for file in found]
    text_column = _main_text_column(corpus, text_column) if published else text_column
    tables, shards = [], []
    for file, digest in files:
        table = read_table(file)
        shards.append({"name": file.name, "rows": table.num_rows, "sha256": digest})
        reads_turns = (
            text_column == "text" and "text" not in table.column_names and not prompt_columns
        )
        if reads_turns and (shape := recognize_table(table)) is not None:
            table = _with_conversations(table, shape)
        column_names = {
            "text": text_column,
            "doc_id": id_column,
            "label": label_column,
            "user": user_column,
            "pii_spans": "pii_spans" if with_pii_spans else None,
        }
        for column in (
            text_column,
            *prompt_columns,
            *(one for one in (label_column, user_column) if one),
        ):
            if column not in table.column_names:
                raise UsageError(
                    f"{file}: there is no column {column!r};"
                    f" {suggest_names(column, table.column_names)}"
                )
        columns: dict[str, Any] = {
            name: _to_strings(table.column(column), name, file)
            for name, column in column_names.items()
            if column and column in table.column_names
        }
        if TURNS in table.column_names:
            columns[TURNS] = table.column(TURNS)
        if prompt_columns:
            columns["prompt"] = _join_prompts(
                [_to_strings(table.column(column), "prompt", file) for column in prompt_columns]
            )
        tables.append(pa.table(columns))
    if [stat_file(file) for file, _ in files] != states:
        raise InputRefused(
            f"{source}: changed while it was being read; run the same command again when no program"
            " writes to it"
        )
    if with_pii_spans and tables and not any("pii_spans" in table.column_names for table in tables):
        raise UsageError(
            f"{source}: data.leave_out_pii needs the column pii_spans, and no shard has it; nothing"
            " would be left out"
        )
    if not tables or not sum(table.num_rows for table in tables):
        raise InputRefused(f"{source}: holds no documents; expected shards with at least one row")
    merged = pa.concat_tables(tables, promote_options="permissive").combine_chunks()
    numbers = pa.array(range(merged.num_rows), pa.int64()).cast(pa.large_string())
    ids = (
        pc.coalesce(merged.column("doc_id"), numbers)
        if "doc_id" in merged.column_names
        else pa.chunked_array([numbers])
    )
    merged = merged.drop_columns(["doc_id"]) if "doc_id" in merged.column_names else merged
    return DocumentTable(merged.append_column("doc_id", ids), source.resolve(), tuple(shards))


def _main_text_column(corpus: Corpus, text_column: str) -> str:
    """The column named, or the main text of the run that published the corpus, if the default is
    not a column of it."""
    names = [
        column["name"]
        for column in corpus.manifest.get("columns", ())
        if column["policy"] != "drop"
    ]
    given = corpus.manifest.get("settings", {}).get("roles", {}).get("text") or ("text",)
    return (
        given[0]
        if text_column == "text" and "text" not in names and given[0] in names
        else text_column
    )


def _with_conversations(table: pa.Table, shape: RecordShape) -> pa.Table:
    """Add the columns `text`, each conversation with one line for each turn, and TURNS, the turns
    as JSON."""
    columns = [name for name in table.column_names if name in map(column_of_path, shape.texts)]
    template = ChatTemplate()
    turns = [list_turns(record, shape) for record in table.select(columns).to_pylist()]
    texts = pa.array([template.render(conversation) for conversation in turns], pa.large_string())
    encoded = pa.array(
        [json.dumps(conversation, ensure_ascii=False) for conversation in turns], pa.large_string()
    )
    return table.append_column("text", texts).append_column(TURNS, encoded)


def _find_files(path: Path, split: str) -> list[Path]:
    if path.is_file():
        if not path.name.endswith(SUFFIXES):
            raise InputRefused(f"{path}: expected {', '.join(SUFFIXES)}, or a folder of such files")
        return [path]
    if not path.is_dir():
        raise InputRefused(
            f"{path}: there is no such folder or file; expected shards, such as a folder that"
            " `sanitize run` published"
        )
    # corpus order: by path, compared as bytes
    found = sorted(
        (file for file in path.rglob("*") if file.name.endswith(SUFFIXES) and file.is_file()),
        key=lambda file: str(file).encode(),
    )
    found = select_split(path, found, split)
    if not found:
        raise InputRefused(
            f"{path}: no manifest.json and no {', '.join(SUFFIXES)} inside; expected a folder of"
            " shards"
        )
    return found


def read_table(file: Path) -> pa.Table:
    """Return the table in a file of documents, with all its columns; InputRefused if it cannot be
    read."""
    try:
        if file.name.endswith((".parquet", ".jsonl.zst", ".mds")):
            return Shard(file, 0, "").read()
        if file.name.endswith(".arrow"):
            with pa.memory_map(str(file)) as source:
                try:
                    return pa.ipc.open_stream(source).read_all()
                except pa.ArrowInvalid:
                    return pa.ipc.open_file(source).read_all()
        with pa.input_stream(str(file)) as source:  # unpacks .gz by its name
            data = require_shallow_lines(source.read())
        try:
            return _read_json_lines(data) if data.strip() else pa.table({})
        except pa.ArrowInvalid:
            return read_mixed_lines(data)
    except (pa.ArrowException, OSError, EOFError, ValueError, RecursionError) as error:
        raise InputRefused(
            f"{file}: cannot be read ({type(error).__name__}); expected {', '.join(SUFFIXES)}"
        ) from None


def _read_json_lines(data: bytes) -> pa.Table:
    """Return JSON lines as a table; Arrow reads a column of strings that all look like times as
    times, which become strings again."""
    # a block must hold a whole line; one block per file needs no more memory than the texts do
    options = pyarrow.json.ReadOptions(
        use_threads=False, block_size=min(max(len(data), 1 << 20), (1 << 31) - 1)
    )
    table = pyarrow.json.read_json(pa.BufferReader(data), read_options=options)
    schema = pa.schema([(field.name, _replace_times(field.type)) for field in table.schema])
    if schema.equals(table.schema):
        return table
    parsing = pyarrow.json.ParseOptions(explicit_schema=schema)
    return pyarrow.json.read_json(
        pa.BufferReader(data), read_options=options, parse_options=parsing
    )


def _replace_times(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_replace_times(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _replace_times(field.type)) for field in kind])
    return pa.string() if pa.types.is_timestamp(kind) else kind


def _to_strings(column: pa.ChunkedArray, name: str, file: Path) -> pa.ChunkedArray:
    """Cast a column to large_string; ids and labels may be numbers. Nulls become "", except in ids,
    users and labels."""
    if name == "pii_spans":
        _check_spans(column, file)
        return column
    if pa.types.is_floating(column.type):  # as pandas writes what is missing
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    strings = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    if not strings and (
        name in ("text", "prompt")
        or pa.types.is_nested(column.type)
        or pa.types.is_binary(column.type)
    ):
        raise InputRefused(f"{file}: the {name} column holds {column.type}; expected strings")
    column = column.cast(pa.large_string())
    return column if name in ("doc_id", "user", "label") else pc.fill_null(column, "")


def _check_spans(column: pa.ChunkedArray, file: Path) -> None:
    """Raise InputRefused unless a column has lists of spans: damaged ones would leave nothing out
    of a loss."""
    kind = column.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if pa.types.is_null(kind) or (is_list and not len(pc.list_flatten(column))):
        return
    names = ("start", "end")
    if not (is_list and pa.types.is_struct(kind.value_type)) or not all(
        kind.value_type.get_field_index(name) >= 0
        and pa.types.is_integer(kind.value_type.field(name).type)
        for name in names
    ):
        raise InputRefused(
            f"{file}: the column pii_spans holds {kind}; expected lists of spans with integers"
            " `start` and `end`"
        )
    spans = pc.list_flatten(column)
    start, end = (pc.struct_field(spans, name) for name in names)
    is_good = pc.and_(pc.greater_equal(start, 0), pc.less_equal(start, end))
    if count := len(spans) - (pc.sum(is_good).as_py() or 0):
        raise InputRefused(
            f"{file}: the column pii_spans has {count} spans that are none; expected integers"
            " 0 <= start <= end in each"
        )


def _join_prompts(columns: list[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Join prompt columns to one text: the non-empty ones, each followed by a line end."""
    parts = [
        pc.if_else(
            pc.equal(column, _EMPTY_STRING),
            _EMPTY_STRING,
            pc.binary_join_element_wise(column, _EMPTY_STRING, _NEWLINE),
        )
        for column in columns
    ]
    return pc.binary_join_element_wise(*parts, _EMPTY_STRING) if len(parts) > 1 else parts[0]


def select_listed_documents(doc_ids: pa.Array, list_path: str | Path) -> npt.NDArray[np.bool_]:
    """Return a mask of the documents that a list names; UsageError if it names none or an unknown
    one (reported by line, not by id)."""
    ids = [(number, line) for number, line in enumerate(read_lines(list_path), 1) if line]
    if not ids:
        raise UsageError(f"{list_path}: names no document; expected their ids, one a line")
    is_known_id = pc.is_in(
        pa.array([line for _, line in ids], pa.large_string()),
        value_set=doc_ids.cast(pa.large_string()),
    )
    missing = [
        number
        for (number, _), is_known in zip(ids, is_known_id.to_pylist(), strict=True)
        if not is_known
    ]
    if missing:
        raise UsageError(
            f"{list_path}: line {missing[0]} names a document that the data does not have"
            f" ({len(missing)} of {len(ids)} lines do); expected ids of the column doc_id, as"
            " `sanitize subject --documents` writes them"
        )
    found = pc.is_in(
        doc_ids.cast(pa.large_string()),
        value_set=pa.array([line for _, line in ids], pa.large_string()),
    )
    return np.asarray(found.to_numpy(zero_copy_only=False), bool)


def read_lines(path: str | Path) -> list[str]:
    """Return the lines of a text file, empty ones included; InputRefused if it cannot be read."""
    try:
        return [line.strip("\r\n") for line in read_regular_file(Path(path)).decode().split("\n")]
    except (OSError, UnicodeDecodeError) as error:
        raise InputRefused(
            f"{path}: cannot be read ({type(error).__name__}); expected a text file in UTF-8, one"
            " entry a line"
        ) from None
