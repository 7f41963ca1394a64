"""Where the records of a stream come from, and where they go: lines, files, folders and iterables in; lines and Parquet out.

A feed gives lots (`lots.py`) of at most 10,000 records and about 16 MB, smaller ones where its source pauses, so that a record does not
wait for the next. A sink says when the state may be written down, and what of itself has to stand there so that it can go on.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import select
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core.rendering import visible
from sanitize.core.text_cells import plain, plain_type
from sanitize.errors import InputRefused, OutputBroken, ResourceError, UsageError
from sanitize.pipeline.streaming.records import Columns, Fault, Lot, Records, Row
from sanitize.readers.byte_streams import Break, guarded, opened
from sanitize.readers.jsonl import lines
from sanitize.readers.mail import mails
from sanitize.readers.standard_form import is_binary, plain_schema
from sanitize.readers.survey import REASONS, Roles, Unit, mail_text, survey
from sanitize.storage import row_groups
from sanitize.storage.corpus import fsync, reopened, writer
from sanitize.storage.disk_errors import code_of

WHOLE = ("csv", "tsv", "json", "arrow", "text")  # what is read as a whole, and not record by record
ROWS, BYTES = 10_000, 16 << 20
PAUSE = 0.2  # seconds without a new line after which the records that are there go on their way
PART_ROWS, PART_BYTES = 50_000, 256 << 20  # of one Parquet file
_READ = 1 << 20


class _Batcher:
    """Records one by one, made lots."""

    def __init__(self, rows: int) -> None:
        self._most, self._rows, self._bad, self._size = rows, list[Row | None](), dict[int, Fault](), 0

    def put(self, record: Row | None, size: int, fault: Fault | None = None) -> Lot | None:
        """One record, or why there is none; a lot where one is full."""
        if fault is not None:
            self._bad[len(self._rows)] = fault
        self._rows.append(record)
        self._size += size
        return self.flush() if len(self._rows) >= self._most or self._size >= BYTES else None

    def flush(self) -> Lot | None:
        """What is there."""
        lot = Records(self._rows, self._bad) if self._rows else None
        self._rows, self._bad, self._size = [], {}, 0
        return lot


def parsed(line: bytes) -> tuple[Row | None, str]:
    """(the object that a line says, "") or (None, the reason why it says none)."""
    try:
        record = json.loads(line)
    except UnicodeDecodeError:
        return None, "not_utf8"
    except (ValueError, RecursionError):
        return None, "not_json"
    return (record, "") if isinstance(record, dict) else (None, "not_an_object")


def _raw(line: bytes) -> str:
    return line.decode("utf-8", "backslashreplace")


def from_descriptor(number: int, limit: int, rows: int = ROWS, pause: float = PAUSE) -> Iterator[Lot]:
    """JSON lines from an open file, such as standard input, as they arrive."""
    batch, line_no, rest, cut = _Batcher(rows), 0, b"", False

    def one(line: bytes) -> Lot | None:
        nonlocal line_no, cut
        line_no += 1
        too_large, cut = cut or len(line) > limit, False
        if not line.strip():
            return None
        record, reason = (None, "too_large") if too_large else parsed(line)
        fault = Fault(reason, f"line {line_no}", "" if too_large else _raw(line)) if reason else None
        return batch.put(record, len(line), fault)

    while True:
        if not select.select([number], [], [], pause)[0]:
            if (lot := batch.flush()) is not None:
                yield lot
            select.select([number], [], [])
        part = os.read(number, _READ)
        if not part:
            break
        *whole, rest = (rest + part).split(b"\n")
        for line in whole:
            if (lot := one(line)) is not None:
                yield lot
        if len(rest) > limit:
            rest, cut = rest[:1], True  # the rest of an endless line is not held
    if rest.strip() and (lot := one(rest)) is not None:
        yield lot
    if (lot := batch.flush()) is not None:
        yield lot


def from_iterable(source: Iterable[Any], rows: int = ROWS) -> Iterator[Lot]:
    """Dictionaries, or Arrow record batches and tables."""
    batch = _Batcher(rows)
    for item in source:
        if isinstance(item, Mapping):
            size = sum(len(value) for value in item.values() if isinstance(value, str))
            lot = batch.put(dict(item), size)
        elif isinstance(item, pa.RecordBatch | pa.Table):
            if (lot := batch.flush()) is not None:
                yield lot
            yield from _cut(pa.table(item) if isinstance(item, pa.Table) else pa.Table.from_batches([item]), rows)
            lot = None
        else:
            raise UsageError(f"a stream takes dictionaries, or Arrow record batches and tables; this one gave a {type(item).__name__}")
        if lot is not None:
            yield lot
    if (lot := batch.flush()) is not None:
        yield lot


def _cut(table: pa.Table, rows: int) -> Iterator[Lot]:
    for batch in table.combine_chunks().to_batches():
        for low, high in row_groups.cut(row_groups.text_bytes(batch), BYTES, rows):
            yield Columns(pa.Table.from_batches([batch.slice(low, high - low)]))


def from_paths(
    inputs: Sequence[Path], roles: Roles, limit: int, rows: int = ROWS, names: list[set[str] | None] | None = None
) -> Iterator[Lot]:
    """The records of files and folders in corpus order. Mails have `user_id` and `text`; columns keep the names they have. `names` gets
    those of each file, or None where any record may have others (JSON lines).

    What cannot be read at all is refused now, not when the first record is asked for."""
    said = survey(inputs, roles)
    for unit in said.units:
        other = unit.format if unit.format in WHOLE else "text" if "text" in unit.how else ""
        if other:
            raise InputRefused(f"{visible(unit.path)}: is {other}, and a stream reads Parquet, JSON lines and mails; use `sanitize run`")
        if unit.format == "parquet" and not unit.lost:
            schema, main = plain_schema(pq.read_schema(unit.path)), roles.text[0]
            if main in schema.names and is_binary(schema.field(main).type):
                raise InputRefused(
                    f"{visible(unit.path)}: column {main} holds bytes; a stream reads strings, `sanitize run` mails in bytes"
                )
        if names is not None:
            mails = {"user_id", "text"}
            names.append(None if unit.format == "jsonl" else {name for name, _ in unit.columns} or mails)
    return _from_units(said.units, limit, rows)


def _from_units(units: Sequence[Unit], limit: int, rows: int) -> Iterator[Lot]:
    batch = _Batcher(rows)
    for unit in units:
        if unit.format == "parquet":
            if (lot := batch.flush()) is not None:
                yield lot
            yield from _parquet(unit, rows)
        else:
            for record, size, fault in _lines(unit, limit) if unit.format == "jsonl" else _mails(unit, limit):
                if (lot := batch.put(record, size, fault)) is not None:
                    yield lot
    if (lot := batch.flush()) is not None:
        yield lot


_One = tuple[Row | None, int, Fault | None]


def _lines(unit: Unit, limit: int) -> Iterator[_One]:
    number = 0
    for found, reason in guarded(unit.path, lambda stream: lines(stream, start=unit.start, stop=unit.stop, limit=limit)):
        if found is None:
            yield None, 0, Fault(reason, f"after line {number}")
            continue
        number, at, line = found
        place = f"line at byte {at}" if unit.start else f"line {number}"
        record, reason = (None, unit.lost or "too_large") if line is None or unit.lost else parsed(line)
        yield record, len(line or b""), Fault(reason, place, _raw(line or b"")) if reason else None


def _mails(unit: Unit, limit: int) -> Iterator[_One]:
    for path, how in zip(unit.files, unit.how or (unit.format,) * len(unit.files), strict=True):
        if how == "mbox":
            for found, reason in guarded(path, lambda stream: mails(stream, start=unit.start, stop=unit.stop, limit=limit)):
                at, raw = found or (0, None)
                yield _mail(raw, reason or "too_large", f"mail at byte {at}")
        elif how == "mail":
            try:
                with opened(path) as stream:
                    raw = stream.read(limit + 1)
                yield _mail(raw if 0 < len(raw) <= limit else None, "too_large" if raw else "empty_file", "file")
            except (Break, OSError) as error:
                yield _mail(None, "truncated" if isinstance(error, Break) else "unreadable", "file")
        else:
            yield _mail(None, how, "file")


def _mail(raw: bytes | None, reason: str, place: str) -> _One:
    if raw is None:
        return None, 0, Fault(reason, place)
    text, user = mail_text(raw)
    return {"user_id": user, "text": text}, len(raw), None


def _parquet(unit: Unit, rows: int) -> Iterator[Lot]:
    """The rows of a unit; those that cannot be decoded are set aside, as many as its footer counts."""
    left, reason = int(unit.rows or 0), unit.lost
    held: list[pa.Table] = []
    if not reason:
        try:
            metadata = pq.read_metadata(unit.path)
            count = size = 0
            for batch, sizes in row_groups.batches(unit.path, metadata, unit.groups, rows=rows, bytes=BYTES):
                if held and (count + batch.num_rows > rows or size + int(sizes.sum()) > BYTES):
                    left -= count
                    yield Columns(pa.concat_tables(held).combine_chunks())
                    held, count, size = [], 0, 0
                columns = [plain(column.storage if isinstance(column, pa.ExtensionArray) else column) for column in batch.columns]
                held.append(pa.table(columns, names=batch.schema.names))
                count, size = count + batch.num_rows, size + int(sizes.sum())
        except (pa.ArrowException, OSError):
            reason = "unreadable"
        if held:
            left -= count
            yield Columns(pa.concat_tables(held).combine_chunks())
    for low in range(0, left, ROWS):
        count = min(ROWS, left - low)
        place = [f"row {(unit.rows or 0) - left + low + row}" for row in range(count)]
        yield Records([None] * count, {row: Fault(reason or "unreadable", place[row]) for row in range(count)})


def after(lots: Iterable[Lot], records: int) -> Iterator[Lot]:
    """The lots without so many records at the beginning."""
    for lot in lots:
        if records >= len(lot):
            records -= len(lot)
        elif records:
            bad = {row - records: fault for row, fault in lot.bad.items() if row >= records}
            yield Records(lot.rows[records:], bad) if isinstance(lot, Records) else Columns(lot.table.slice(records))  # type: ignore[attr-defined]
            records = 0
        else:
            yield lot


class Sink(Protocol):
    """Where the records of a stream go."""

    def put(self, lot: Lot) -> None:
        """Take the records of a lot, in order."""

    def ready(self) -> bool:
        """Whether what was taken can now be acknowledged."""

    def settle(self) -> dict[str, Any]:
        """All that was taken is where it belongs, and on the disk; what a sink of the same place has to be told to go on from here."""


def json_lines(lot: Lot) -> bytes:
    """Records as JSON lines."""
    rows = lot.rows if isinstance(lot, Records) else lot.table.to_pylist()  # type: ignore[attr-defined]
    # a loop over records: JSON objects have no columnar form
    return b"".join([json.dumps(row, ensure_ascii=False, default=_told).encode() + b"\n" for row in rows])


def _told(value: Any) -> Any:
    """What JSON has no form for: times as ISO 8601, bytes in hexadecimal, all else as it is printed."""
    return value.isoformat() if hasattr(value, "isoformat") else value.hex() if isinstance(value, bytes) else str(value)


class Lines:
    """JSON lines into an open stream, such as standard output: written, then acknowledged."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def put(self, lot: Lot) -> None:
        """See `Sink`."""
        with _outward():
            self._stream.write(json_lines(lot))

    def ready(self) -> bool:
        """See `Sink`."""
        return True

    def settle(self) -> dict[str, Any]:
        """See `Sink`."""
        with _outward():
            self._stream.flush()
        return {}


@contextlib.contextmanager
def _outward() -> Iterator[None]:
    """What fails here fails where standard output leads, and not in a folder of ours."""
    try:
        yield
    except OSError as error:
        if (code := code_of(error)) is None:
            raise
        raise ResourceError(
            f"standard output: a write failed ({errno.errorcode[code]}). Make room where it leads, and send again what follows the "
            "acknowledged position"
        ) from None


class LinesFile:
    """JSON lines at the end of a file. What was written and not acknowledged is cut off when it is opened again, with the first that it
    takes."""

    def __init__(self, path: Path, said: Mapping[str, Any]) -> None:
        self._path, self._known, self._ours = path, int(said.get("bytes", 0)), bool(said)
        there = path.stat().st_size if path.exists() else 0
        if there < self._known:
            raise OutputBroken(
                f"{path}: has {there:,} bytes, and {self._known:,} were written; put the file back, or take a new -o and --state"
            )
        if there and not said:
            raise _anothers(path)

    @functools.cached_property
    def _file(self) -> IO[bytes]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        try:
            file = self._path.open("x+b")
        except FileExistsError:
            file = self._path.open("r+b")
            if file.seek(0, os.SEEK_END) and not self._ours:  # it came while the first record was waited for
                raise _anothers(self._path) from None
        file.truncate(self._known)
        file.seek(self._known)
        return file

    def put(self, lot: Lot) -> None:
        """See `Sink`."""
        self._file.write(json_lines(lot))

    def ready(self) -> bool:
        """See `Sink`."""
        return True

    def settle(self) -> dict[str, Any]:
        """See `Sink`."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return {"bytes": self._file.tell()}


def _anothers(path: Path) -> UsageError:
    return UsageError(f"{path}: is there already and not of this state; take another -o, or move it away")


class Folder:
    """Parquet files of many lots each, `part-00000.parquet` and so on; acknowledged when a file is whole. Nothing is touched there before
    the first one is."""

    def __init__(self, path: Path, said: Mapping[str, Any], rows: int = PART_ROWS) -> None:
        self._path, self._most, self._number, self._ours = path, rows, int(said.get("parts", 0)), bool(said)
        if path.exists() and not path.is_dir():
            raise UsageError(f"{path}: is there already and no folder; take another -o")
        self._columns: dict[str, str] = dict(said.get("columns", ()))  # pairs: what is written down as an object loses its order
        there = self._there()
        missing = [name for number in range(self._number) if (name := _part(number)) not in there]
        if missing:
            raise OutputBroken(f"{path}: {missing[0]} is missing; put it back, or take a new -o and --state")
        self._lots: list[pa.Table] = []
        self._rows = self._bytes = 0
        self._begun = False

    def _there(self) -> set[str]:
        """The names of what is in the folder, which is ours."""
        there = {file.name for file in self._path.iterdir()} if self._path.is_dir() else set()
        if not self._ours and any(not name.startswith(".part-") for name in there):
            raise UsageError(f"{self._path}: holds files and is not of this state; take another -o, or move it away")
        return there

    def _begin(self) -> None:
        """Make the folder, and take away what was not acknowledged: files half made, and whole ones behind the last that counts."""
        self._path.mkdir(parents=True, exist_ok=True)
        for name in self._there():  # it may have come while the first record was waited for
            if (name.startswith(".part-") and name.endswith(".tmp")) or (name.startswith("part-") and name >= _part(self._number)):
                (self._path / name).unlink()
        self._begun = self._ours = True

    def put(self, lot: Lot) -> None:
        """See `Sink`."""
        table = lot.table if isinstance(lot, Columns) else _table(lot.rows)  # type: ignore[attr-defined]
        self._lots.append(table)
        self._rows += table.num_rows
        self._bytes += table.nbytes

    def ready(self) -> bool:
        """See `Sink`."""
        return self._rows >= self._most or self._bytes >= PART_BYTES

    def settle(self) -> dict[str, Any]:
        """See `Sink`."""
        if not self._begun:
            self._begin()
        if self._rows:
            joined = pa.concat_tables(self._lots, promote_options="permissive")
            names = dict.fromkeys([*self._columns, *joined.column_names])
            columns = {name: self._column(name, joined) for name in names}
            table = pa.table(columns)
            aside = self._path / f".{_part(self._number)}.tmp"
            with writer(aside, table.schema) as out:
                out.write_table(table, row_group_size=row_groups.ROW_GROUP)
            reopened(aside)
            fsync(aside)
            aside.rename(self._path / _part(self._number))
            fsync(self._path)
            self._number += 1
            self._columns = {field.name: str(field.type) for field in table.schema}
            self._lots, self._rows, self._bytes = [], 0, 0
        return {"parts": self._number, "columns": [*self._columns.items()]}

    def _column(self, name: str, table: pa.Table) -> pa.Array:
        """A column in the type that it had in earlier files; strings where it has none yet."""
        if name not in table.column_names:
            column: pa.Array = pa.nulls(table.num_rows)
        else:
            column = table.column(name).combine_chunks()
        wanted = self._columns.get(name)
        if pa.types.is_null(column.type):
            column = column.cast(pa.large_string()) if wanted is None else _nulls(column, wanted)
        if wanted is not None and str(column.type) != wanted:
            raise InputRefused(
                f"{self._path}: column {name} was {wanted} in earlier files and is {column.type} now; a column has one type. "
                "Take -o FILE.jsonl and a new --state"
            )
        return column


def _nulls(column: pa.Array, wanted: str) -> pa.Array:
    """A column of nulls in a type by its name, where it is a simple one."""
    kind = {"large_string": pa.large_string(), "double": pa.float64()}.get(wanted)
    if kind is None:
        try:
            kind = pa.type_for_alias(wanted)
        except ValueError:
            return column
    return column.cast(kind)


def _part(number: int) -> str:
    return f"part-{number:05d}.parquet"


def _table(rows: Sequence[Row | None]) -> pa.Table:
    """Records as columns; one whose values are not all of one type is text, strings as they stand and everything else as JSON."""
    names = dict.fromkeys(name for row in rows for name in row or ())
    columns = {}
    for name in names:
        values = [row and row.get(name) for row in rows]
        try:
            array = pa.array(values)
            columns[name] = array.cast(plain_type(array.type))
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            texts = [value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in values]
            columns[name] = pa.array(texts, pa.large_string())
    return pa.table(columns)


def told(reason: str) -> str:
    """A reason in words."""
    return REASONS.get(reason, "a value that had to go was still in it")
