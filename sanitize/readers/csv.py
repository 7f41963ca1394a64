"""CSV and TSV, plain or compressed: a first line that names the columns, one record a line or, in quotes, over several (RFC 4180).

Every cell is text; an empty one is null, in the main text the empty text. Blank lines are no records. The separator is the one among
comma, semicolon, tab and bar with which the first line names the main text. A column without a name is called `column_N`.

Not `pyarrow.csv` or DuckDB: both say which line has too many cells, but of a quote that is never closed they lose the rest of a block, or
of the file. Here a record ends at the first line end with an even number of quotes before it. What the standard library's parser, strict,
does not take is tried as one line; if it is none either, that line is set aside, and reading goes on with the next. 120 MB/s on mail.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import BufferedReader

import pyarrow as pa

from sanitize.readers.byte_streams import MARK, Break, begins_as_text, guarded, opened
from sanitize.readers.staging_writer import Records, Writer
from sanitize.readers.standard_form import TEXT, faults
from sanitize.readers.survey_types import Layout, Look, Roles, Unit, Unreadable

FORMATS = {"csv": (".csv",), "tsv": (".tsv", ".tab")}
SEPARATORS = {"csv": ",;\t|", "tsv": "\t,;|"}
LONGEST = 1 << 20  # bytes of a first line
CHUNK = 1 << 20
_CELL = (1 << 31) - 1  # the parser's own limit, 128 KiB, is below many mails


def recognise(head: bytes) -> str | None:
    """Never by its content: prose has commas too."""
    return None


def accepts(head: bytes, format: str) -> str:
    """The format, for anything that may be text: what the first line is shows later."""
    return format if begins_as_text(head) else ""


def look(path: str, format: str, roles: Roles) -> Look:
    """The columns of the first line. One unit: only who reads a file from its start knows what stands in quotes."""
    names = _header(path, format, roles.text[0])[1]
    unit = Unit(no=0, path=path, format=format, files=(path,))
    return Look(schema=pa.schema([(name, TEXT) for name in names]), soft=True, pieces=(unit,))


def _header(path: str, format: str, main: str) -> tuple[str, list[str]]:
    """(separator, names of the columns) of a file."""
    for separator in SEPARATORS[format]:
        with opened(path) as stream:
            try:
                _, record = next(records(stream, path, separator, LONGEST), (0, b""))
            except Break:
                raise Unreadable("truncated") from None
        cells = _cells(record, separator)[0] if record is not None else None
        if cells and main in cells:
            break
    else:
        raise Unreadable("no_header")
    names = [cell.strip() for cell in cells]
    for number, name in enumerate(names):
        if not name:
            name = f"column_{number + 1}"
            while name in names:
                name += "_"
            names[number] = name
    if len(set(names)) < len(names) or any("\r" in name for name in names):  # lines may end in a bare CR: that is one line
        raise Unreadable("no_header")
    return separator, names


def stage(unit: Unit, layout: Layout, writer: Writer, max_doc_bytes: int) -> None:
    """All records behind the first line."""
    separator, names = _header(unit.path, unit.format, layout.roles.text[0])
    wide, texts = len(names), {"text", *layout.roles.text}
    place_of = {name: place for place, name in enumerate(names)}
    sources = {standard: place_of.get(source) for source, standard in unit.columns}

    def build(rows: list[list[str] | None]) -> tuple[pa.RecordBatch, dict[int, str]]:
        nothing: list[str | None] = [None] * wide
        columns = list(zip(*(row or nothing for row in rows), strict=True)) or [()] * wide
        arrays = []
        for field in layout.schema:
            place = sources.get(field.name)
            if place is None:
                arrays.append(pa.nulls(len(rows), field.type))
            elif field.name in texts:
                arrays.append(pa.array(columns[place], TEXT))
            else:
                arrays.append(pa.array([cell or None for cell in columns[place]], TEXT))
        batch = pa.RecordBatch.from_arrays(arrays, schema=layout.schema)
        return batch, faults(batch, max_doc_bytes)

    kept: Records[list[str]] = Records(writer, build)
    # a loop over records: quotes have no columnar parser that goes on behind a broken one
    number, first = 0, True
    for found, reason in guarded(unit.path, lambda stream: records(stream, unit.path, separator, max_doc_bytes)):
        if found is None:
            kept.put(None, unit.path, f"after line {number}", reason)
            continue
        number, record = found
        if first:
            first = False
            continue
        cells, reason = (None, "too_large") if record is None else _cells(record, separator)
        if cells is not None and len(cells) != wide:
            cells, reason = None, "wrong_cells"
        if unit.lost:
            cells, reason = None, unit.lost
        kept.put(cells, unit.path, f"line {number}", reason, len(record or b""))
    kept.flush()


def _cells(record: bytes, separator: str) -> tuple[list[str] | None, str]:
    """(the cells of a record, "") or (None, the reason why it has none)."""
    try:
        text = record.decode()
    except UnicodeDecodeError:
        return None, "not_utf8"
    if '"' not in text:
        return text.split(separator), ""
    csv.field_size_limit(_CELL)
    try:
        found = list(csv.reader([text], delimiter=separator, strict=True))
    except csv.Error:
        return None, "not_csv"
    return (found[0], "") if len(found) == 1 else (None, "not_csv")


def records(stream: BufferedReader, path: str, separator: str, limit: int, chunk: int = CHUNK) -> Iterator[tuple[int, bytes | None]]:
    """(number of its first line from 1, the record without its line end) for every record that is not blank; None for one over the limit.

    Holds one record and one chunk at most. What quotes nobody closes it gives line by line.
    """
    source = _Source(stream, path, chunk)
    line = 1
    while (end := source.line_end(0, limit)) >= 0:
        stop = end
        if end <= limit and source.count(0, end) % 2:
            stop = source.record_end(end, limit)
        if end <= limit and 0 <= stop <= limit:
            record = source.take(stop)
            if stop > end and _cells(record, separator)[1] == "not_csv":
                record, stop = source.take(end), end
        elif end <= limit and not _cells(source.take(end), separator)[1]:
            record, stop = source.take(end), end  # a quote inside a cell without quotes
        elif source.broken:
            break  # a record that the break cuts
        else:
            record, stop = None, source.far_end(separator.encode())
            if stop < 0 and end <= limit:
                record, stop = source.take(end), end  # nobody closes the quote: its line alone
        if record is None or record:
            yield line, record
        line += source.skip(stop if stop >= 0 else source.far_line())
    if source.broken:
        raise Break


class _Source:
    """Bytes from a place on, of which as many are held as are asked for; every place counts from the start of what is held."""

    def __init__(self, stream: BufferedReader, path: str, chunk: int) -> None:
        self._stream, self._path, self._chunk = stream, path, chunk
        self._held, self._at = bytearray(), 0  # `_at`: where in the file what is held begins
        self._from = 0  # where in what is held the record begins
        self.broken = self._end = False
        self._fill()
        if self._held.startswith(MARK):
            self._from = len(MARK)

    def _fill(self) -> bool:
        """Hold one chunk more, if there is one."""
        if self._end:
            return False
        try:
            part = self._stream.read1(self._chunk)  # what `read` has when it meets a break is lost
        except Break:
            part, self.broken = b"", True
        if self._from > self._chunk:
            del self._held[: self._from]
            self._at, self._from = self._at + self._from, 0
        self._held += part
        self._end = not part
        return not self._end

    def line_end(self, start: int, limit: int) -> int:
        """Where the line of the byte `start` ends, without its line end; something above the limit where it does not end before that;
        -1 behind the last line, and in one that a break cuts."""
        seen = start
        while (at := self._held.find(b"\n", self._from + seen)) < 0:
            seen = len(self._held) - self._from
            if seen > limit:
                return seen
            if not self._fill():
                return seen if seen > start and not self.broken else -1
        return at - self._from

    def count(self, start: int, stop: int) -> int:
        """The quotes in a range."""
        return self._held.count(b'"', self._from + start, self._from + stop)

    def record_end(self, end: int, limit: int) -> int:
        """The first line end behind `end` with an even number of quotes before it; -1 where there is none within the limit."""
        while end <= limit:
            quote = self._held.find(b'"', self._from + end) - self._from
            if quote < end:
                end = len(self._held) - self._from
                if not self._fill():
                    return -1
                continue
            end = self.line_end(quote, limit)
            if end < 0 or (end <= limit and self.count(quote, end) % 2):
                return end
        return -1

    def far_end(self, separator: bytes) -> int:
        """The end of a record too large to be held, if each of its quotes is closed as it should be; -1 where one is not.

        It is looked for on a stream of its own, so that reading can go on here.
        """
        mark = ord(separator)
        with opened(self._path) as stream:
            left = self._at + self._from
            if stream.seekable():
                left -= stream.seek(left)
            while left and (part := stream.read1(min(left, self._chunk))):
                left -= len(part)
            at, quoted, begins = self._at + self._from, False, True  # `begins`: a cell begins here
            part = b""
            while True:
                # the last byte of a part waits for the next one: a quote may be half of two
                try:
                    more = stream.read1(self._chunk)
                except Break:
                    return -1
                part, place = part + more, 0
                stop = len(part) - 1 if more else len(part)
                while place < stop:
                    if quoted:
                        quote = part.find(b'"', place, stop)
                        if quote < 0:
                            place = stop
                        elif part[quote + 1 : quote + 2] == b'"':
                            place = quote + 2
                        elif quote + 1 < len(part) and part[quote + 1] not in (mark, 10, 13):
                            return -1
                        else:
                            place, quoted = quote + 1, False
                    elif begins and part[place] == 34:
                        place, quoted, begins = place + 1, True, False
                    else:
                        line, cell = part.find(b"\n", place, stop), part.find(separator, place, stop)
                        if line >= 0 and not 0 <= cell < line:
                            return at + line - self._at - self._from
                        place, begins = (cell + 1, True) if cell >= 0 else (stop, False)
                at, part = at + place, part[place:]
                if not more:
                    return -1 if quoted else at - self._at - self._from

    def far_line(self) -> int:
        """Where a line ends that is too large to be held."""
        with opened(self._path) as stream:
            at = left = self._at + self._from
            if stream.seekable():
                left -= stream.seek(left)
            while left and (part := stream.read1(min(left, self._chunk))):
                left -= len(part)
            try:
                while part := stream.readline(self._chunk):
                    at += len(part)
                    if part.endswith(b"\n"):
                        return at - 1 - self._at - self._from
            except Break:
                pass
            return at - self._at - self._from

    def take(self, stop: int) -> bytes:
        """What stands before `stop`, without the CR of a line end."""
        return bytes(self._held[self._from : self._from + stop]).removesuffix(b"\r")

    def skip(self, stop: int) -> int:
        """Go on behind the line end at `stop`; returns how many lines that were."""
        lines = 0
        while (there := len(self._held) - self._from) <= stop:
            lines += self._held.count(b"\n", self._from)
            self._at, stop = self._at + len(self._held), stop - there
            self._held.clear()
            self._from = 0
            if not self._fill():
                return lines
        lines += self._held.count(b"\n", self._from, self._from + stop + 1)
        self._from += stop + 1
        return lines
