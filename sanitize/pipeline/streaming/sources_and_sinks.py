"""Sources and sinks of a stream: reads JSON lines, files, folders and iterables; writes JSON lines
and Parquet.

A source yields batches (`record_batches.py`) of at most 10,000 records and about 16 MB, smaller
ones when it pauses, so that a record does not wait for the next. A sink reports when the state may
be committed, and returns its own position, which is stored in the state so that a later command can
resume.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import json
import os
import select
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core.table_rendering import escape_controls
from sanitize.core.text_cells import canonical_type, to_canonical_type
from sanitize.errors import InputRefused, OutputBroken, ResourceError, UsageError
from sanitize.pipeline.streaming.record_batches import (
    ArrowBatch,
    DictBatch,
    QuarantineEntry,
    Row,
    StreamBatch,
)
from sanitize.pipeline.streaming.stream_state import SinkPosition
from sanitize.readers.byte_streams import (
    UTF8_BOM,
    TruncatedStream,
    detect_compression,
    open_stream,
    read_guarded,
)
from sanitize.readers.encodings import decode_with_guess
from sanitize.readers.jsonl import RepeatedKey, iter_lines, load_json
from sanitize.readers.mail import iter_mails
from sanitize.readers.standard_form import is_binary
from sanitize.readers.survey import REASONS, InputUnit, Roles, parse_mail, survey_inputs
from sanitize.storage import parquet_files
from sanitize.storage.disk_errors import get_disk_errno, refuse_unwritable_path
from sanitize.storage.files import fsync
from sanitize.storage.parquet_files import check_parquet_file, open_text_writer
from sanitize.storage.records.lineage import position_in_part
from sanitize.storage.records.record_shapes import canonical_schema, encode_turns, find_json_columns

# formats that are read as a whole, not record by record
WHOLE_FILE_FORMATS = (
    "csv",
    "tsv",
    "json",
    "arrow",
    "text",
)
MAX_BATCH_RECORDS, MAX_BATCH_BYTES = 10_000, 16 << 20
FLUSH_AFTER_SECONDS = 0.2  # without a new line, after which the records read so far are processed
_TAIL_BYTES = 4096  # of an output, by which a state recognises it
MAX_FILE_ROWS, MAX_FILE_BYTES = 50_000, 256 << 20  # of one Parquet file
_READ_BYTES = 1 << 20


class _BatchBuilder:
    """Collects single records into batches."""

    def __init__(self, max_records: int) -> None:
        self._max_records, self._rows, self._quarantined, self._size = (
            max_records,
            list[Row | None](),
            dict[int, QuarantineEntry](),
            0,
        )

    def put(
        self, record: Row | None, size: int, quarantine_entry: QuarantineEntry | None = None
    ) -> StreamBatch | None:
        """Add a record, or the reason why it cannot be read; returns a batch once one is full."""
        if quarantine_entry is not None:
            self._quarantined[len(self._rows)] = quarantine_entry
        self._rows.append(record)
        self._size += size
        return (
            self.flush()
            if len(self._rows) >= self._max_records or self._size >= MAX_BATCH_BYTES
            else None
        )

    def flush(self) -> StreamBatch | None:
        """The records collected so far as a batch; None if there are none."""
        batch = DictBatch(self._rows, self._quarantined) if self._rows else None
        self._rows, self._quarantined, self._size = [], {}, 0
        return batch


def parse_json_line(line: bytes) -> tuple[Row | None, str]:
    """(the JSON object in a line, "") or (None, the reason why there is none)."""
    try:
        record = load_json(line)
    except UnicodeDecodeError:
        return None, "not_utf8"
    except RepeatedKey:
        return None, "repeated_key"
    except (ValueError, RecursionError):
        return None, "not_json"
    return (record, "") if isinstance(record, dict) else (None, "not_an_object")


def _decode_line(line: bytes, text_field: str) -> tuple[Row | None, str]:
    """(the record of a line of text, "") or (None, the reason why there is none)."""
    text = decode_with_guess(line)
    return (None, "unknown_encoding") if text is None else ({text_field: text}, "")


def _decode_with_escapes(line: bytes) -> str:
    return line.decode("utf-8", "backslashreplace")


def read_descriptor(
    descriptor: int,
    max_doc_bytes: int,
    max_records: int = MAX_BATCH_RECORDS,
    flush_after_seconds: float = FLUSH_AFTER_SECONDS,
    text_field: str | None = None,
) -> Iterator[StreamBatch]:
    """Batches of JSON lines from an open file descriptor, such as standard input, as they arrive.

    With `text_field` each line, also an empty one, is the text of a record with this field alone;
    the encoding of one that is not UTF-8 is guessed from it, as in text files."""
    builder, line_no, incomplete, is_cut = _BatchBuilder(max_records), 0, b"", False

    def add_line(line: bytes) -> StreamBatch | None:
        nonlocal line_no, is_cut
        line_no += 1
        too_large, is_cut = is_cut or len(line) > max_doc_bytes, False
        if not line.strip() and text_field is None:
            return None
        if too_large:
            record, reason = None, "too_large"
        else:
            record, reason = (
                parse_json_line(line)
                if text_field is None
                else _decode_line(line.removeprefix(UTF8_BOM) if line_no == 1 else line, text_field)
            )
        entry = (
            QuarantineEntry(
                reason, f"line {line_no}", "" if too_large else _decode_with_escapes(line)
            )
            if reason
            else None
        )
        return builder.put(record, len(line), entry)

    while True:
        if not select.select([descriptor], [], [], flush_after_seconds)[0]:
            if (batch := builder.flush()) is not None:
                yield batch
            select.select([descriptor], [], [])
        block = os.read(descriptor, _READ_BYTES)
        if not block:
            break
        *lines, incomplete = (incomplete + block).split(b"\n")
        for line in lines:
            if (batch := add_line(line)) is not None:
                yield batch
        if len(incomplete) > max_doc_bytes:
            # the rest of an over-long line is not kept in memory
            incomplete, is_cut = (incomplete[:1], True)
    has_last_line = incomplete.strip() if text_field is None else incomplete
    if has_last_line and (batch := add_line(incomplete)) is not None:
        yield batch
    if (batch := builder.flush()) is not None:
        yield batch


def read_iterable(
    source: Iterable[Any], max_records: int = MAX_BATCH_RECORDS
) -> Iterator[StreamBatch]:
    """Batches from an iterable of dictionaries, Arrow record batches or Arrow tables."""
    builder = _BatchBuilder(max_records)
    for item in source:
        if isinstance(item, Mapping):
            size = sum(len(value) for value in item.values() if isinstance(value, str))
            batch = builder.put(dict(item), size)
        elif isinstance(item, pa.RecordBatch | pa.Table):
            if (batch := builder.flush()) is not None:
                yield batch
            yield from _split_table(
                item if isinstance(item, pa.Table) else pa.Table.from_batches([item]),
                max_records,
            )
            batch = None
        else:
            raise UsageError(
                "a stream takes dictionaries, Arrow record batches or Arrow tables; the source"
                f" yielded a {type(item).__name__}"
            )
        if batch is not None:
            yield batch
    if (batch := builder.flush()) is not None:
        yield batch


def _split_table(table: pa.Table, max_records: int) -> Iterator[StreamBatch]:
    for batch in table.combine_chunks().to_batches():
        for low, high in parquet_files.split_rows(
            parquet_files.row_text_bytes(batch), MAX_BATCH_BYTES, max_records
        ):
            yield ArrowBatch(pa.Table.from_batches([batch.slice(low, high - low)]))


@dataclass(frozen=True, repr=False)
class PathSource:
    """A file or folder that was surveyed: its files in order, what they hold, and its records.

    `column_names` has the columns of each file, or None if each record may have others (JSON
    lines). `notes` says what was left unread; it is complete when all of `batches` are read."""

    path: Path
    files: Sequence[Path]
    splits: Set[str]
    column_names: Sequence[Set[str] | None]
    batches: Iterator[StreamBatch]
    notes: Sequence[str]


def survey_path(
    path: Path, roles: Roles, max_doc_bytes: int, max_records: int = MAX_BATCH_RECORDS
) -> PathSource:
    """A file or folder as a source of records, in corpus order. Mails have the columns `user_id`
    and `text`; others keep their names.

    Raises InputRefused for files that cannot be read at all now, not when the first record is
    requested."""
    survey = survey_inputs([path], roles, max_doc_bytes=max_doc_bytes)
    column_names: list[set[str] | None] = []
    for unit in survey.units:
        unsupported_format = (
            unit.format
            if unit.format in WHOLE_FILE_FORMATS
            else "text"
            if "text" in unit.file_formats
            else ""
        )
        if unsupported_format:
            raise InputRefused(
                f"{escape_controls(unit.path)}: is {unsupported_format}; a stream reads Parquet,"
                " JSON lines and mails; use `sanitize run`"
            )
        if unit.format == "parquet" and not unit.quarantine_reason:
            schema, main = canonical_schema(pq.read_schema(unit.path)), roles.text[0]
            if main in schema.names and is_binary(schema.field(main).type):
                raise InputRefused(
                    f"{escape_controls(unit.path)}: column {main} holds bytes; a stream reads"
                    " strings. Use `sanitize run` for mails"
                )
        mail_columns = {"user_id", "text"}
        column_names.append(
            None
            if unit.format == "jsonl"
            else {name for name, _ in unit.column_mapping} or mail_columns
        )
    notes: list[str] = []
    return PathSource(
        path=path,
        files=list(
            dict.fromkeys(
                Path(file) for unit in survey.units for file in unit.files or (unit.path,)
            )
        ),
        splits={unit.split for unit in survey.units if unit.split},
        column_names=column_names,
        batches=_read_units(survey.units, max_doc_bytes, max_records, notes),
        notes=notes,
    )


def _read_units(
    units: Sequence[InputUnit], max_doc_bytes: int, max_records: int, notes: list[str]
) -> Iterator[StreamBatch]:
    builder = _BatchBuilder(max_records)
    for unit in units:
        if unit.format == "parquet":
            if (batch := builder.flush()) is not None:
                yield batch
            yield from _read_parquet(unit, max_records)
        else:
            for record, size, quarantine_entry in (
                _read_json_lines(unit, max_doc_bytes, notes if unit is units[-1] else None)
                if unit.format == "jsonl"
                else _read_mails(unit, max_doc_bytes)
            ):
                if (batch := builder.put(record, size, quarantine_entry)) is not None:
                    yield batch
    if (batch := builder.flush()) is not None:
        yield batch


_ReadRecord = tuple[Row | None, int, QuarantineEntry | None]


def _read_json_lines(
    unit: InputUnit, max_doc_bytes: int, notes: list[str] | None
) -> Iterator[_ReadRecord]:
    """The records of the lines of a unit. With `notes`, its file may be growing: an incomplete last
    line is left unread, with a note."""
    line_no = 0

    def iter_unit(stream: BufferedReader) -> Iterator[tuple[int, int, bytes | None]]:
        return iter_lines(
            stream, start=unit.start, end=unit.end, limit=max_doc_bytes, keep_ends=True
        )

    for item, reason in read_guarded(unit.path, iter_unit):
        if item is None:
            place = position_in_part(unit.start, f"after line {line_no}")
            yield None, 0, QuarantineEntry(reason, place)
            continue
        line_no, _, ended_line = item
        line = None if ended_line is None else ended_line.rstrip(b"\r\n")
        place = position_in_part(unit.start, f"line {line_no}")
        record, reason = (
            (None, unit.quarantine_reason or "too_large")
            if line is None or unit.quarantine_reason
            else parse_json_line(line)
        )
        is_cut = (
            ended_line is not None
            and not ended_line.endswith(b"\n")
            and reason in ("not_json", "not_utf8")
        )
        if notes is not None and is_cut and detect_compression(unit.path) is None:
            notes.append(
                f"{escape_controls(unit.path)}: the last line has no end and is no JSON. It was not"
                " read; the same command reads it once it is complete. If it is, end it with a"
                " line break"
            )
            return
        yield (
            record,
            len(line or b""),
            QuarantineEntry(reason, place, _decode_with_escapes(line or b"")) if reason else None,
        )


def _read_mails(unit: InputUnit, max_doc_bytes: int) -> Iterator[_ReadRecord]:
    for path, format_name in zip(
        unit.files, unit.file_formats or (unit.format,) * len(unit.files), strict=True
    ):
        if format_name == "mbox":
            for item, reason in read_guarded(
                path,
                lambda stream: iter_mails(
                    stream, start_byte=unit.start, end_byte=unit.end, limit=max_doc_bytes
                ),
            ):
                start_byte, raw = item or (0, None)
                yield _parse_mail(raw, reason or "too_large", f"mail at byte {start_byte}")
        elif format_name == "mail":
            try:
                with open_stream(path) as stream:
                    raw = stream.read(max_doc_bytes + 1)
                yield _parse_mail(
                    raw if 0 < len(raw) <= max_doc_bytes else None,
                    "too_large" if raw else "empty_file",
                    "file",
                )
            except (TruncatedStream, OSError) as error:
                yield _parse_mail(
                    None,
                    error.reason if isinstance(error, TruncatedStream) else "unreadable",
                    "file",
                )
        else:
            yield _parse_mail(None, format_name, "file")


def _parse_mail(raw: bytes | None, reason: str, place: str) -> _ReadRecord:
    if raw is None:
        return None, 0, QuarantineEntry(reason, place)
    text, user = parse_mail(raw)
    return {"user_id": user, "text": text}, len(raw), None


def _read_parquet(unit: InputUnit, max_records: int) -> Iterator[StreamBatch]:
    """Batches of the rows of a Parquet unit. Rows that cannot be decoded are quarantined, as many
    as the footer counts."""
    rows_left, reason = int(unit.rows or 0), unit.quarantine_reason
    tables: list[pa.Table] = []
    if not reason:
        try:
            metadata = pq.read_metadata(unit.path)
            count = size = 0
            for batch, sizes in parquet_files.read_bounded_batches(
                unit.path,
                metadata,
                unit.row_groups,
                max_rows=max_records,
                max_bytes=MAX_BATCH_BYTES,
            ):
                if tables and (
                    count + batch.num_rows > max_records
                    or size + int(sizes.sum()) > MAX_BATCH_BYTES
                ):
                    rows_left -= count
                    yield ArrowBatch(pa.concat_tables(tables).combine_chunks())
                    tables, count, size = [], 0, 0
                columns = [
                    to_canonical_type(
                        column.storage if isinstance(column, pa.ExtensionArray) else column
                    )
                    for column in batch.columns
                ]
                tables.append(pa.table(columns, names=batch.schema.names))
                count, size = count + batch.num_rows, size + int(sizes.sum())
        except (pa.ArrowException, OSError):
            reason = "unreadable"
        if tables:
            rows_left -= count
            yield ArrowBatch(pa.concat_tables(tables).combine_chunks())
    for low in range(0, rows_left, MAX_BATCH_RECORDS):
        count = min(MAX_BATCH_RECORDS, rows_left - low)
        place = [f"row {(unit.rows or 0) - rows_left + low + row}" for row in range(count)]
        yield DictBatch(
            [None] * count,
            {row: QuarantineEntry(reason or "unreadable", place[row]) for row in range(count)},
        )


def skip_records(batches: Iterable[StreamBatch], count: int) -> Iterator[StreamBatch]:
    """The batches without the first `count` records."""
    for batch in batches:
        if count >= len(batch):
            count -= len(batch)
        elif count:
            quarantined = {
                row - count: entry for row, entry in batch.quarantined.items() if row >= count
            }
            if isinstance(batch, DictBatch):
                yield DictBatch(batch.rows[count:], quarantined)
            else:
                yield ArrowBatch(batch.table.slice(count))  # type: ignore[attr-defined]
            count = 0
        else:
            yield batch


class Sink(Protocol):
    """Receives the records of a stream."""

    def put(self, batch: StreamBatch) -> None:
        """Write the records of a batch, in order."""

    def is_ready_to_commit(self) -> bool:
        """True if the records received so far may be acknowledged now."""

    def commit(self) -> SinkPosition:
        """Make all received records durable; returns the position from which a new sink for the
        same place resumes."""


def encode_json_lines(batch: StreamBatch) -> bytes:
    """Records as JSON lines."""
    rows = batch.rows if isinstance(batch, DictBatch) else batch.table.to_pylist()  # type: ignore[attr-defined]
    # a loop over records: JSON objects have no columnar form
    return b"".join(
        [
            json.dumps(row, ensure_ascii=False, default=_to_json_value).encode() + b"\n"
            for row in rows
        ]
    )


def _to_json_value(value: Any) -> Any:
    """A value without a JSON form: times as ISO 8601, bytes in hexadecimal, everything else as
    `str`."""
    return (
        value.isoformat()
        if hasattr(value, "isoformat")
        else value.hex()
        if isinstance(value, bytes)
        else str(value)
    )


class JsonLinesStreamSink:
    """Writes JSON lines to an open stream, such as standard output; records are acknowledged after
    they are written."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def put(self, batch: StreamBatch) -> None:
        """See `Sink`."""
        with _stdout_errors():
            self._stream.write(encode_json_lines(batch))

    def is_ready_to_commit(self) -> bool:
        """See `Sink`."""
        return True

    def commit(self) -> SinkPosition:
        """See `Sink`."""
        with _stdout_errors():
            self._stream.flush()
        return SinkPosition()


@contextlib.contextmanager
def _stdout_errors() -> Iterator[None]:
    """Report disk errors as those of standard output, not of one of our folders."""
    try:
        yield
    except OSError as error:
        if (code := get_disk_errno(error)) is None:
            raise
        raise ResourceError(
            f"standard output: a write failed ({errno.errorcode[code]}). Free space where it is"
            " written, and send the records after the acknowledged position again"
        ) from None


class JsonLinesFileSink:
    """Appends JSON lines to a file. Lines that were written and not acknowledged are truncated when
    the file is opened again, which happens at the first `put`."""

    def __init__(self, path: Path, position: SinkPosition | None) -> None:
        self._path, self._is_ours = path, position is not None
        position = position or SinkPosition()
        self._acknowledged_bytes = position.bytes
        size = path.stat().st_size if path.exists() else 0
        if size < self._acknowledged_bytes:
            raise OutputBroken(
                f"{path}: has {size:,} bytes, expected {self._acknowledged_bytes:,}; restore the"
                " file, or use a new -o and --state"
            )
        if size and not self._is_ours:
            raise _build_foreign_output_error(path)
        if self._acknowledged_bytes and position.tail not in (
            None,
            _hash_tail(path, self._acknowledged_bytes),
        ):
            raise _build_other_content_error(path)

    @functools.cached_property
    def _file(self) -> IO[bytes]:
        with refuse_unwritable_path(self._path, "use another -o"):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            try:
                file, is_new = self._path.open("x+b"), True
            except FileExistsError:
                file, is_new = self._path.open("r+b"), False
        if not is_new and file.seek(0, os.SEEK_END) and not self._is_ours:
            # created while waiting for the first record
            raise _build_foreign_output_error(self._path)
        file.truncate(self._acknowledged_bytes)
        file.seek(self._acknowledged_bytes)
        return file

    def put(self, batch: StreamBatch) -> None:
        """See `Sink`."""
        self._file.write(encode_json_lines(batch))

    def is_ready_to_commit(self) -> bool:
        """See `Sink`."""
        return True

    def commit(self) -> SinkPosition:
        """See `Sink`."""
        self._file.flush()
        os.fsync(self._file.fileno())
        written = self._file.tell()
        tail = _hash_tail(self._path, written) if written else None
        return SinkPosition(bytes=written, tail=tail)


def _hash_tail(path: Path, end: int) -> str:
    """A hash of the last bytes of a file before `end`, by which a state recognises its output: what
    follows them is deleted."""
    with path.open("rb") as file:
        file.seek(max(end - _TAIL_BYTES, 0))
        return hashlib.sha256(file.read(min(end, _TAIL_BYTES))).hexdigest()


def _build_other_content_error(path: Path) -> OutputBroken:
    return OutputBroken(
        f"{path}: is not what this state wrote there: it was exchanged, or another state wrote it;"
        " restore it, or use a new -o and --state"
    )


def _build_foreign_output_error(path: Path) -> UsageError:
    return UsageError(
        f"{path}: already exists and does not belong to this state; use another -o, or move it away"
    )


class ParquetFolderSink:
    """Writes a folder of Parquet files (`part-00000.parquet`, ...) with many batches each; records
    are acknowledged when their file is complete. The folder is not touched before the first file is
    complete."""

    def __init__(
        self, path: Path, position: SinkPosition | None, max_file_rows: int = MAX_FILE_ROWS
    ) -> None:
        self._path, self._max_file_rows, self._is_ours = path, max_file_rows, position is not None
        position = position or SinkPosition()
        self._file_count = position.parts
        if path.exists() and not path.is_dir():
            raise UsageError(f"{path}: already exists and is not a folder; use another -o")
        self._column_types = dict(position.columns)
        names = self._list_files()
        missing = [
            name
            for number in range(self._file_count)
            if (name := _build_file_name(number)) not in names
        ]
        if missing:
            raise OutputBroken(
                f"{path}: {missing[0]} is missing; restore it, or use a new -o and --state"
            )
        self._tail = position.tail  # of the last complete file
        if self._file_count and self._tail not in (None, self._hash_last_file()):
            raise _build_other_content_error(path)
        self._tables: list[pa.Table] = []
        self._row_count = self._byte_count = 0
        self._is_prepared = False

    def _hash_last_file(self) -> str:
        last = self._path / _build_file_name(self._file_count - 1)
        return _hash_tail(last, last.stat().st_size)

    def _list_files(self) -> set[str]:
        """The names of the files in the folder; UsageError if it does not belong to this state."""
        names = {file.name for file in self._path.iterdir()} if self._path.is_dir() else set()
        if not self._is_ours and any(not file_name.startswith(".part-") for file_name in names):
            raise UsageError(
                f"{self._path}: holds files and does not belong to this state; use another -o, or"
                " move it away"
            )
        return names

    def _prepare(self) -> None:
        """Create the folder, and delete what was not acknowledged: partial files, and complete ones
        after the last acknowledged one."""
        with refuse_unwritable_path(self._path, "use another -o"):
            self._path.mkdir(parents=True, exist_ok=True)
            if not os.access(self._path, os.W_OK):
                raise PermissionError(errno.EACCES, "not writable")
        for name in self._list_files():
            # the folder may have been created while waiting for the first record
            if (name.startswith(".part-") and name.endswith(".tmp")) or (
                name.startswith("part-") and name >= _build_file_name(self._file_count)
            ):
                (self._path / name).unlink()
        self._is_prepared = self._is_ours = True

    def put(self, batch: StreamBatch) -> None:
        """See `Sink`."""
        table = batch.table if isinstance(batch, ArrowBatch) else records_to_table(batch.rows)  # type: ignore[attr-defined]
        self._tables.append(table)
        self._row_count += table.num_rows
        self._byte_count += table.nbytes

    def is_ready_to_commit(self) -> bool:
        """See `Sink`."""
        return self._row_count >= self._max_file_rows or self._byte_count >= MAX_FILE_BYTES

    def commit(self) -> SinkPosition:
        """See `Sink`."""
        if not self._is_prepared:
            self._prepare()
        if self._row_count:
            joined = pa.concat_tables(self._tables, promote_options="permissive")
            names = dict.fromkeys([*self._column_types, *joined.column_names])
            columns = {name: self._cast_column(name, joined) for name in names}
            table = pa.table(columns)
            temp_path = self._path / f".{_build_file_name(self._file_count)}.tmp"
            with open_text_writer(temp_path, table.schema) as writer:
                writer.write_table(table, row_group_size=parquet_files.ROW_GROUP_ROWS)
            check_parquet_file(temp_path)
            fsync(temp_path)
            temp_path.rename(self._path / _build_file_name(self._file_count))
            fsync(self._path)
            self._file_count += 1
            self._tail = self._hash_last_file()
            self._column_types = {field.name: str(field.type) for field in table.schema}
            self._tables, self._row_count, self._byte_count = [], 0, 0
        return SinkPosition(
            parts=self._file_count, columns=[*self._column_types.items()], tail=self._tail
        )

    def _cast_column(self, name: str, table: pa.Table) -> pa.Array:
        """A column in its type in earlier files; nulls without a type become strings. Raises
        InputRefused for another type."""
        if name not in table.column_names:
            column: pa.Array = pa.nulls(table.num_rows)
        else:
            column = table.column(name).combine_chunks()
        expected_type = self._column_types.get(name)
        if pa.types.is_null(column.type):
            column = (
                column.cast(pa.large_string())
                if expected_type is None
                else _cast_nulls(column, expected_type)
            )
        if expected_type is not None and str(column.type) != expected_type:
            raise InputRefused(
                f"{self._path}: column {name} was {expected_type} in earlier files and is"
                f" {column.type} now; a column has one type. Use -o FILE.jsonl and a new --state"
            )
        return column


def _cast_nulls(column: pa.Array, type_name: str) -> pa.Array:
    """A column of nulls cast to a type given by name; unchanged if the type has no such name."""
    kind = {"large_string": pa.large_string(), "double": pa.float64()}.get(type_name)
    if kind is None:
        try:
            kind = pa.type_for_alias(type_name)
        except ValueError:
            return column
    return column.cast(kind)


def _build_file_name(number: int) -> str:
    return f"part-{number:05d}.parquet"


def records_to_table(rows: Sequence[Row | None]) -> pa.Table:
    """Records as columns. Turns without a common type become lists of JSON, as in a run; another
    column with values of several types becomes text: strings unchanged, everything else as JSON."""
    names = dict.fromkeys(name for row in rows for name in row or ())
    values_by_name = {name: [row and row.get(name) for row in rows] for name in names}
    json_turns = find_json_columns(values_by_name)
    columns = {}
    for name, values in values_by_name.items():
        if name in json_turns:
            columns[name] = pa.array(
                [encode_turns(turns) for turns in values], pa.large_list(pa.large_string())
            )
            continue
        try:
            array = pa.array(values)
            columns[name] = array.cast(canonical_type(array.type))
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            texts = [
                (
                    value
                    if value is None or isinstance(value, str)
                    else json.dumps(value, ensure_ascii=False)
                )
                for value in values
            ]
            columns[name] = pa.array(texts, pa.large_string())
    return pa.table(columns)


def describe_reason(reason: str) -> str:
    """A quarantine reason in words."""
    return REASONS.get(reason, "it still contained a value that must be removed")
