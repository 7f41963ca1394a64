"""Reader for CSV and TSV, plain or compressed.

The header line holds the column names; a record is one line or, in quotes, several (RFC 4180).
Every cell is text; an empty cell is null, in the main text the empty text. Blank lines are not
records. The separator is the one among comma, semicolon, tab and bar with which the header line
names the main text's column. A column without a name is called `column_N`.

Why not `pyarrow.csv` or DuckDB: both report which line has too many cells, but after a quote that
is never closed they lose the rest of a block or of the file. Here a record ends at the first line
end with an even number of quotes before it. Where the strict parser of the standard library rejects
such a record, its first line alone is tried; if that is no record either, the line is quarantined
and reading continues with the next one. 120 MB/s on mail.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import BufferedReader

import pyarrow as pa

from sanitize.readers.byte_streams import (
    UTF8_BOM,
    TruncatedStream,
    looks_like_text,
    open_stream,
    read_guarded,
)
from sanitize.readers.staging_writer import RecordBatcher, StagingWriter
from sanitize.readers.standard_form import TEXT_TYPE, find_faults, is_header
from sanitize.readers.survey_types import (
    FileSurvey,
    InputUnit,
    Roles,
    StagingLayout,
    UnreadableFile,
)
from sanitize.storage.records.record_shapes import recognize_shape

FORMATS = {"csv": (".csv",), "tsv": (".tsv", ".tab")}
SEPARATORS = {"csv": ",;\t|", "tsv": "\t,;|"}
MAX_HEADER_BYTES = 1 << 24  # bytes of a header line: 100,000 columns with names of 160 bytes
CHUNK_BYTES = 1 << 20
_MAX_CELL_CHARS = (1 << 31) - 1  # the parser's own limit, 128 KiB, is below many mails


def detect_format(head: bytes) -> str | None:
    """None: CSV is not recognised by its content, since prose has commas too."""
    return None


def confirm_format(head: bytes, format: str) -> str:
    """The format where the first bytes may be text, else ""; the header line is checked by the
    survey."""
    return format if looks_like_text(head) else ""


def survey_file(path: str, format: str, roles: Roles, max_doc_bytes: int) -> FileSurvey:
    """The columns of the header line. One unit: whether a position is inside quotes is known only
    when the file is read from its start."""
    names = _read_header(path, format, roles.text[0])[1]
    unit = InputUnit(no=0, path=path, format=format, files=(path,))
    return FileSurvey(schema=_text_schema(names), is_inferred=True, units=(unit,))


def _read_header(path: str, format: str, main_column: str) -> tuple[str, list[str]]:
    """(separator, column names) of a file. Raises UnreadableFile where no separator gives a header
    with the main text's column, with those of a shape (record_shapes.py), or with names as most
    tables have them."""
    for separator in SEPARATORS[format]:
        with open_stream(path) as stream:
            try:
                _, record = next(iter_records(stream, path, separator, MAX_HEADER_BYTES), (0, b""))
            except TruncatedStream:
                raise UnreadableFile("truncated") from None
        cells = _parse_cells(record, separator)[0] if record is not None else None
        if cells and (
            main_column in cells
            or (
                main_column == "text"
                and (recognize_shape(_text_schema(cells)) or (len(cells) > 1 and is_header(cells)))
            )
        ):
            break
    else:
        raise UnreadableFile("no_header")
    names = [cell.strip() for cell in cells]
    taken = set(names)
    for number, name in enumerate(names):
        if not name:
            name = f"column_{number + 1}"
            while name in taken:
                name += "_"
            names[number] = name
            taken.add(name)
    if len(set(names)) < len(names) or any("\r" in name for name in names):
        # a file whose lines end in a bare CR is one line here
        raise UnreadableFile("no_header")
    return separator, names


def _text_schema(names: list[str]) -> pa.Schema:
    return pa.schema([(name, TEXT_TYPE) for name in dict.fromkeys(names)])


def stage_unit(
    unit: InputUnit, layout: StagingLayout, writer: StagingWriter, max_doc_bytes: int
) -> None:
    """Stages all records behind the header line."""
    separator, names = _read_header(unit.path, unit.format, layout.roles.text[0])
    cell_count, text_columns = len(names), {"text", *layout.roles.text}
    column_numbers = {name: column_number for column_number, name in enumerate(names)}
    sources = {standard: column_numbers.get(source) for source, standard in unit.column_mapping}

    def build(rows: list[list[str] | None]) -> tuple[pa.RecordBatch, dict[int, str]]:
        null_row: list[str | None] = [None] * cell_count
        columns = list(zip(*(row or null_row for row in rows), strict=True)) or [()] * cell_count
        arrays = []
        for field in layout.schema:
            column_number = sources.get(field.name)
            if column_number is None:
                arrays.append(pa.nulls(len(rows), field.type))
            elif field.name in text_columns:
                arrays.append(pa.array(columns[column_number], TEXT_TYPE))
            else:
                arrays.append(
                    pa.array([cell or None for cell in columns[column_number]], TEXT_TYPE)
                )
        batch = pa.RecordBatch.from_arrays(arrays, schema=layout.schema)
        return batch, find_faults(batch, max_doc_bytes)

    records: RecordBatcher[list[str]] = RecordBatcher(writer, build)
    # a loop over records: no columnar parser continues after a broken quote
    number, is_header = 0, True
    for item, reason in read_guarded(
        unit.path, lambda stream: iter_records(stream, unit.path, separator, max_doc_bytes)
    ):
        if item is None:
            records.add(None, unit.path, f"after line {number}", reason)
            continue
        number, record = item
        if is_header:
            is_header = False
            continue
        cells, reason = (None, "too_large") if record is None else _parse_cells(record, separator)
        if cells is not None and len(cells) != cell_count:
            cells, reason = None, "wrong_cells"
        if unit.quarantine_reason:
            cells, reason = None, unit.quarantine_reason
        records.add(cells, unit.path, f"line {number}", reason, len(record or b""))
    records.flush()


def _parse_cells(record: bytes, separator: str) -> tuple[list[str] | None, str]:
    """(the cells of a record, "") or (None, the reason why it cannot be parsed)."""
    try:
        text = record.decode()
    except UnicodeDecodeError:
        return None, "not_utf8"
    if '"' not in text:
        return text.split(separator), ""
    csv.field_size_limit(_MAX_CELL_CHARS)
    try:
        found = list(csv.reader([text], delimiter=separator, strict=True))
    except csv.Error:
        return None, "not_csv"
    return (found[0], "") if len(found) == 1 else (None, "not_csv")


def iter_records(
    stream: BufferedReader, path: str, separator: str, limit: int, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[tuple[int, bytes | None]]:
    """(number of its first line from 1, the record without its line end) for every record that is
    not blank; None for one over the limit.

    Holds one record and one chunk at most. Lines after a quote that is never closed are yielded one
    by one. Raises TruncatedStream at a break.
    """
    source = _RecordBuffer(stream, path, chunk_bytes)
    line = 1
    while (line_end := source.find_line_end(0, limit)) >= 0:
        record_end = line_end
        if line_end <= limit and source.count_quotes(0, line_end) % 2:
            record_end = source.find_record_end(line_end, limit)
        if line_end <= limit and 0 <= record_end <= limit:
            record = source.bytes_before(record_end)
            if record_end > line_end and _parse_cells(record, separator)[1] == "not_csv":
                record, record_end = source.bytes_before(line_end), line_end
        elif line_end <= limit and not _parse_cells(source.bytes_before(line_end), separator)[1]:
            # a quote inside a cell without quotes
            record, record_end = (source.bytes_before(line_end), line_end)
        elif source.broken is not None:
            break  # the record is cut by the break
        else:
            record, record_end = None, source.find_oversized_record_end(separator.encode())
            if record_end < 0 and line_end <= limit:
                # the quote is never closed: take its line alone
                record, record_end = (source.bytes_before(line_end), line_end)
        if record is None or record:
            yield line, record
        line += source.advance_past_line(
            record_end if record_end >= 0 else source.find_oversized_line_end()
        )
    if source.broken is not None:
        raise source.broken


class _RecordBuffer:
    """A buffer over a stream that reads chunks on demand. All positions count from the start of the
    current record."""

    def __init__(self, stream: BufferedReader, path: str, chunk_bytes: int) -> None:
        self._stream, self._path, self._chunk_bytes = stream, path, chunk_bytes
        # `_buffer_offset`: the byte of the file where the buffer begins
        self._buffer, self._buffer_offset = (bytearray(), 0)
        self._record_start = 0  # where the current record begins in the buffer
        self._at_eof = False
        self.broken: TruncatedStream | None = None
        self._fill()
        if self._buffer.startswith(UTF8_BOM):
            self._record_start = len(UTF8_BOM)

    def _fill(self) -> bool:
        """Reads one chunk more; False at the end of the stream."""
        if self._at_eof:
            return False
        try:
            # not `read`: it loses what it has read when it meets a break
            chunk = self._stream.read1(self._chunk_bytes)
        except TruncatedStream as error:
            chunk, self.broken = b"", error
        if self._record_start > self._chunk_bytes:
            del self._buffer[: self._record_start]
            self._buffer_offset, self._record_start = self._buffer_offset + self._record_start, 0
        self._buffer += chunk
        self._at_eof = not chunk
        return not self._at_eof

    def find_line_end(self, start: int, limit: int) -> int:
        """The end of the line that holds byte `start`, without its line end; a position above the
        limit where the line is longer than that; -1 after the last line, and in a line that is cut
        by a break.
        """
        searched = start
        while (newline := self._buffer.find(b"\n", self._record_start + searched)) < 0:
            searched = len(self._buffer) - self._record_start
            if searched > limit:
                return searched
            if not self._fill():
                return searched if searched > start and self.broken is None else -1
        return newline - self._record_start

    def count_quotes(self, start: int, end: int) -> int:
        """The number of quotes in start..end."""
        return self._buffer.count(b'"', self._record_start + start, self._record_start + end)

    def find_record_end(self, line_end: int, limit: int) -> int:
        """The first line end after `line_end` with an even number of quotes before it; -1 if there
        is none within the limit."""
        while line_end <= limit:
            quote = self._buffer.find(b'"', self._record_start + line_end) - self._record_start
            if quote < line_end:
                line_end = len(self._buffer) - self._record_start
                if not self._fill():
                    return -1
                continue
            line_end = self.find_line_end(quote, limit)
            if line_end < 0 or (line_end <= limit and self.count_quotes(quote, line_end) % 2):
                return line_end
        return -1

    def find_oversized_record_end(self, separator: bytes) -> int:
        """The end of a record that is too large to be held, if all of its quotes are balanced; -1
        if one is not.

        It is searched on a second stream of the same file, so that reading can continue on this
        one.
        """
        separator_byte = ord(separator)
        with open_stream(self._path) as stream:
            bytes_to_skip = self._buffer_offset + self._record_start
            if stream.seekable():
                bytes_to_skip -= stream.seek(bytes_to_skip)
            while bytes_to_skip and (chunk := stream.read1(min(bytes_to_skip, self._chunk_bytes))):
                bytes_to_skip -= len(chunk)
            chunk_offset, in_quotes, at_cell_start = (
                self._buffer_offset + self._record_start,
                False,
                True,
            )
            chunk = b""
            while True:
                # the last byte of a chunk is examined with the next chunk: a quote may be the first
                # of two
                try:
                    next_chunk = stream.read1(self._chunk_bytes)
                except TruncatedStream:
                    return -1
                chunk, position = chunk + next_chunk, 0
                stop = len(chunk) - 1 if next_chunk else len(chunk)
                while position < stop:
                    if in_quotes:
                        quote = chunk.find(b'"', position, stop)
                        if quote < 0:
                            position = stop
                        elif chunk[quote + 1 : quote + 2] == b'"':
                            position = quote + 2
                        elif quote + 1 < len(chunk) and chunk[quote + 1] not in (
                            separator_byte,
                            10,
                            13,
                        ):
                            return -1
                        else:
                            position, in_quotes = quote + 1, False
                    elif at_cell_start and chunk[position] == 34:
                        position, in_quotes, at_cell_start = position + 1, True, False
                    else:
                        next_line_end, next_separator = (
                            chunk.find(b"\n", position, stop),
                            chunk.find(separator, position, stop),
                        )
                        if next_line_end >= 0 and not 0 <= next_separator < next_line_end:
                            return (
                                chunk_offset
                                + next_line_end
                                - self._buffer_offset
                                - self._record_start
                            )
                        position, at_cell_start = (
                            (next_separator + 1, True) if next_separator >= 0 else (stop, False)
                        )
                chunk_offset, chunk = chunk_offset + position, chunk[position:]
                if not next_chunk:
                    return (
                        -1 if in_quotes else chunk_offset - self._buffer_offset - self._record_start
                    )

    def find_oversized_line_end(self) -> int:
        """The end of a line that is too large to be held."""
        with open_stream(self._path) as stream:
            position = bytes_to_skip = self._buffer_offset + self._record_start
            if stream.seekable():
                bytes_to_skip -= stream.seek(bytes_to_skip)
            while bytes_to_skip and (chunk := stream.read1(min(bytes_to_skip, self._chunk_bytes))):
                bytes_to_skip -= len(chunk)
            try:
                while chunk := stream.readline(self._chunk_bytes):
                    position += len(chunk)
                    if chunk.endswith(b"\n"):
                        return position - 1 - self._buffer_offset - self._record_start
            except TruncatedStream:
                pass
            return position - self._buffer_offset - self._record_start

    def bytes_before(self, end: int) -> bytes:
        """The bytes of the record before `end`, without the CR of a line end."""
        return bytes(self._buffer[self._record_start : self._record_start + end]).removesuffix(
            b"\r"
        )

    def advance_past_line(self, line_end: int) -> int:
        """Moves the start of the record behind the line end at `line_end`; returns the number of
        lines passed."""
        lines = 0
        while (available := len(self._buffer) - self._record_start) <= line_end:
            lines += self._buffer.count(b"\n", self._record_start)
            self._buffer_offset, line_end = (
                self._buffer_offset + len(self._buffer),
                line_end - available,
            )
            self._buffer.clear()
            self._record_start = 0
            if not self._fill():
                return lines
        lines += self._buffer.count(b"\n", self._record_start, self._record_start + line_end + 1)
        self._record_start += line_end + 1
        return lines
