"""JSON, plain or compressed: one object a line, or one array of objects. Types come from a sample; what does not fit them is set aside.

Of an array one object is held at a time, whatever its size. A large file of lines is cut for several workers, an array is not: only who
reads it from its start knows what stands in quotes.

A further column whose values are not all of one type is text: strings as they stand, everything else as JSON.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from io import BufferedReader
from typing import Any

import pyarrow as pa

from sanitize.core import text_cells
from sanitize.readers.byte_streams import MARK, Break, begins_as_text, codec, guarded, opened
from sanitize.readers.json_array import elements
from sanitize.readers.staging_writer import Records, Writer
from sanitize.readers.standard_form import TEXT, faults, leaf_of
from sanitize.readers.survey_types import Layout, Look, Roles, Unit, Unreadable

FORMATS = {"jsonl": (".jsonl", ".ndjson", ".jsonlines"), "json": (".json",)}
SAMPLE = 1_000  # lines from the start of a file that tell its columns
SPOTS, SPOT = 16, 64  # and lines at places spread over it, where it can be entered anywhere: files are often sorted by origin
LONGEST = 32 << 20  # of a line in the sample
SAMPLED = 64 << 20  # bytes of the sample from one spot
PIECE = 64 << 20  # bytes of a file one worker takes


def recognise(head: bytes) -> str | None:
    """`json` where an array of objects begins; `jsonl` where the first line is a JSON object, or begins like one and is longer than what is
    looked at."""
    if re.match(rb"\s*\[\s*[{\]]", head):
        return "json"
    line, end, _ = head.lstrip().partition(b"\n")
    if not line.startswith(b"{"):
        return None
    if not end and len(head) >= 1 << 16:
        return "jsonl" if re.match(rb'\{\s*"', line) else None
    return "jsonl" if isinstance(_parsed(line)[0], dict) else None


def accepts(head: bytes, format: str) -> str:
    """Lines may be any text, each speaks for itself; what is called `.json` may be lines or an array."""
    return (recognise(head) or "") if format == "json" else format if begins_as_text(head) else ""


def look(path: str, format: str, roles: Roles) -> Look:
    """The columns of a sample of lines, and the units."""
    size, plain = os.path.getsize(path), codec(path) is None and format == "jsonl"
    cuts = list(range(0, size, PIECE)) if plain and size > 2 * PIECE else [0]
    values: dict[str, list[Any]] = {}
    broken, empty = False, True
    with opened(path) as stream:
        try:
            for at in [0, *((size * spot // SPOTS for spot in range(1, SPOTS)) if plain and size > 1 << 20 else ())]:
                seen = 0
                begun = elements(stream, limit=LONGEST) if format == "json" else lines(stream, start=at, limit=LONGEST)
                for number, (*_, line) in enumerate(begun):
                    empty, seen = False, seen + len(line or b"")
                    record = _parsed(line)[0] if line is not None else None
                    if isinstance(record, dict):
                        for key, value in record.items():
                            values.setdefault(key, []).append(value)
                    if number + 1 >= (SPOT if at else SAMPLE) or seen > SAMPLED:
                        break
        except Break:
            broken = True
    if empty and not broken:  # an array without elements: no records, and so of any columns
        values = {name: [] for name in (*(re.split(r"[.\[]", name)[0] for name in roles.text), roles.user, roles.id) if name}
    elif not values:
        raise Unreadable("truncated" if broken else "not_json")
    schema = pa.schema([(key, _kind(column) if column else pa.null()) for key, column in values.items()])
    pieces = [
        Unit(no=0, path=path, format=format, files=(path,), start=start, stop=stop)
        for start, stop in zip(cuts, [*cuts[1:], None], strict=True)
    ]
    return Look(schema=schema, soft=True, pieces=tuple(pieces))


def _kind(values: list[Any]) -> pa.DataType:
    """The type of a column; text where there is no single one."""
    if all(type(value) is str for value in values):
        return TEXT
    try:
        return text_cells.plain_type(pa.array(values).type)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return TEXT


def lines(stream: BufferedReader, *, start: int = 0, stop: int | None = None, limit: int) -> Iterator[tuple[int, int, bytes | None]]:
    """(number from 1, byte where it begins, the line without its end) for every line that begins in start..stop and is not blank.

    The line is None where it is over the limit.
    """
    at, number = start, 0
    if start:
        stream.seek(start - 1)
        at += _skipped(stream) - 1
    while stop is None or at < stop:
        line = stream.readline(limit + 2)
        if not line:
            return
        begin, at, number = at, at + len(line), number + 1
        if not line.endswith(b"\n") and len(line) > limit:
            at += _skipped(stream)
            yield number, begin, None
        else:
            line = (line.removeprefix(MARK) if not begin else line).rstrip(b"\r\n")
            if not line.isspace() and line:
                yield number, begin, line


def _skipped(stream: BufferedReader) -> int:
    """How many bytes the rest of this line has; afterwards the stream stands behind it."""
    count = 0
    while part := stream.readline(1 << 20):
        count += len(part)
        if part.endswith(b"\n"):
            break
    return count


def _parsed(line: bytes) -> tuple[Any, str]:
    """(what the line says, "") or (None, the reason why it says nothing)."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return None, "not_utf8"
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None, "not_json"
    except MemoryError:
        return None, "memory"
    if not isinstance(record, dict):
        return None, "not_an_object"
    if "\\ud" in text or "\\uD" in text:
        try:  # half a surrogate pair, which JSON can escape and no text can hold
            json.dumps(record, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return None, "not_utf8"
    return record, ""


def stage(unit: Unit, layout: Layout, writer: Writer, max_doc_bytes: int) -> None:
    """All lines or elements of a unit; blank lines are none."""

    def begun(stream: BufferedReader) -> Iterator[tuple[int, int, bytes | None]]:
        if unit.format == "json":
            return elements(stream, limit=max_doc_bytes)
        return lines(stream, start=unit.start, stop=unit.stop, limit=max_doc_bytes)

    word = "element" if unit.format == "json" else "line"
    names = dict(unit.columns)
    main = next((source for source, standard in unit.columns if standard == layout.main), "")

    def build(rows: list[dict[str, Any] | None]) -> tuple[pa.RecordBatch, dict[int, str]]:
        return _batch(rows, unit, layout, max_doc_bytes)

    records: Records[dict[str, Any]] = Records(writer, build)
    number = 0
    for found, reason in guarded(unit.path, begun):
        if found is None:
            records.put(None, unit.path, f"after {word} {number}", reason)
            continue
        number, at, line = found
        place = f"line at byte {at}" if unit.start else f"{word} {number}"
        if unit.lost:
            records.put(None, unit.path, place, unit.lost)
            continue
        record, reason = _parsed(line) if line is not None else (None, "too_large")
        if record is not None:
            reason = "no_text" if main not in record else "" if record.keys() <= names.keys() else "new_column"
        records.put(None if reason else record, unit.path, place, reason, len(line or b""))
    records.flush()


def _batch(rows: list[dict[str, Any] | None], unit: Unit, layout: Layout, limit: int) -> tuple[pa.RecordBatch, dict[int, str]]:
    """Records in standard form, and those that do not fit it."""
    found: dict[int, str] = {}
    sources = {standard: source for source, standard in unit.columns}
    texts = {leaf.column for name in layout.roles.text if (leaf := leaf_of(name, layout.schema)) and not leaf.steps} | {layout.main}
    arrays = []
    for field in layout.schema:
        source = sources.get(field.name)
        if source is None:
            arrays.append(pa.nulls(len(rows), field.type))
            continue
        column = [row and row.get(source) for row in rows]
        if field.type == TEXT and field.name not in texts:
            nested_too = field.name not in ("doc_id", "user_id")
            for row, value in enumerate(column):
                if value is not None and type(value) is not str:
                    if nested_too or not isinstance(value, dict | list):
                        column[row] = json.dumps(value, ensure_ascii=False)
                    else:
                        column[row], found[row] = None, "wrong_type"
        elif pa.types.is_nested(field.type):
            for row, value in enumerate(column):
                if not _known(value, field.type):
                    column[row], found[row] = None, "new_column"
        arrays.append(_array(column, field.type, found))
    batch = pa.RecordBatch.from_arrays(arrays, schema=layout.schema)
    return batch, faults(batch, limit) | found


def _known(value: Any, kind: pa.DataType) -> bool:
    """Whether every key inside a value has its place in the type: Arrow would drop the others without a word."""
    if isinstance(value, dict) and pa.types.is_struct(kind):
        return all(kind.get_field_index(key) >= 0 and _known(inner, kind.field(key).type) for key, inner in value.items())
    if isinstance(value, list) and text_cells.is_list(kind) and pa.types.is_nested(kind.value_type):
        return all(_known(inner, kind.value_type) for inner in value)
    return True


def _array(column: list[Any], kind: pa.DataType, found: dict[int, str]) -> pa.Array:
    """The values as one array; those that do not fit are null and found."""
    try:
        return pa.array(column, kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        pass
    for row, value in enumerate(column):
        try:
            pa.array([value], kind)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            column[row], found[row] = None, "wrong_type"
    return pa.array(column, kind)
