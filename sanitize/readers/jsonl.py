"""Reader for JSON, plain or compressed: one object a line, or one array of objects.

Types are inferred from a sample; records that do not fit them are quarantined. A further column
whose values are not all of one type becomes text: strings unchanged, all other values as JSON.

Of an array one object is held at a time, whatever the array's size. A large file of lines is cut
into units for several workers. An array is not: whether a position is inside quotes is known only
when the file is read from its start.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from io import BufferedReader
from typing import Any

import pyarrow as pa

from sanitize.core import text_cells
from sanitize.readers.byte_streams import (
    UTF8_BOM,
    TruncatedStream,
    detect_compression,
    looks_like_text,
    open_stream,
    read_guarded,
)
from sanitize.readers.json_array import iter_elements
from sanitize.readers.staging_writer import RecordBatcher, StagingWriter
from sanitize.readers.standard_form import (
    MAX_NESTING_LEVELS,
    TEXT_TYPE,
    find_faults,
    find_leaf,
    nesting_levels,
)
from sanitize.readers.survey_types import (
    FileSurvey,
    InputUnit,
    Roles,
    StagingLayout,
    UnreadableFile,
)
from sanitize.storage.records.lineage import position_in_part
from sanitize.storage.records.record_shapes import (
    encode_turns,
    find_json_columns,
    mark_json_columns,
    select_turns,
)

FORMATS = {"jsonl": (".jsonl", ".ndjson", ".jsonlines"), "json": (".json",)}
SAMPLE_LINES = 1_000  # lines at the start of a file that are sampled for its columns
# lines sampled at positions spread over a file of lines that is not compressed: files are often
# sorted by origin
SAMPLE_SPOTS, LINES_PER_SPOT = 16, 64
MAX_SAMPLE_LINE_BYTES = 32 << 20  # longest line of the sample, or --max-doc-bytes if that is more
MAX_SPOT_BYTES = 64 << 20  # bytes of the sample from one position
UNIT_BYTES = 64 << 20  # bytes of a file in one unit
# deepest nesting of a record. A fixed number: where Python's own limit is met depends on its
# version and on the calls above
MAX_DEPTH = 200
_STRINGS_OF_JSON = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_BRACKETS_OF_JSON = re.compile(r"[\[\]{}]")


def detect_format(head: bytes) -> str | None:
    """`json` where an array of objects begins; `jsonl` where the first line is a JSON object, or
    begins like one and is longer than `head`; else None.
    """
    if re.match(rb"\s*\[\s*[{\]]", head):
        return "json"
    line, end, _ = head.lstrip().partition(b"\n")
    if not line.startswith(b"{"):
        return None
    if not end and len(head) >= 1 << 16:
        return "jsonl" if re.match(rb'\{\s*"', line) else None
    return "jsonl" if isinstance(_parse_object(line)[0], dict) else None


def confirm_format(head: bytes, format: str) -> str:
    """The format, or "" where the first bytes contradict it. Lines may hold any text, since each is
    checked on its own; a `.json` may be lines or an array.
    """
    return (
        (detect_format(head) or "") if format == "json" else format if looks_like_text(head) else ""
    )


def survey_file(path: str, format: str, roles: Roles, max_doc_bytes: int) -> FileSurvey:
    """The columns of a sample of records, and the units. Raises UnreadableFile."""
    size, is_seekable = (
        os.path.getsize(path),
        detect_compression(path) is None and format == "jsonl",
    )
    cuts = list(range(0, size, UNIT_BYTES)) if is_seekable and size > 2 * UNIT_BYTES else [0]
    values: dict[str, list[Any]] = {}
    sample_limit = max(MAX_SAMPLE_LINE_BYTES, max_doc_bytes)
    is_truncated, is_empty = False, True
    reasons: set[str] = set()  # of the sampled records that cannot be read
    with open_stream(path) as stream:
        try:
            for start_byte in [
                0,
                *(
                    (size * n // SAMPLE_SPOTS for n in range(1, SAMPLE_SPOTS))
                    if is_seekable and size > 1 << 20
                    else ()
                ),
            ]:
                byte_count = 0
                records = (
                    iter_elements(stream, limit=sample_limit)
                    if format == "json"
                    else iter_lines(stream, start=start_byte, limit=sample_limit)
                )
                for number, (*_, record_bytes) in enumerate(records):
                    is_empty, byte_count = False, byte_count + len(record_bytes or b"")
                    record, reason = (
                        _parse_object(record_bytes)
                        if record_bytes is not None
                        else (None, "too_large")
                    )
                    reasons.add(reason)
                    if isinstance(record, dict):
                        for key, value in record.items():
                            values.setdefault(key, []).append(value)
                    if (
                        number + 1 >= (LINES_PER_SPOT if start_byte else SAMPLE_LINES)
                        or byte_count > MAX_SPOT_BYTES
                    ):
                        break
        except TruncatedStream:
            is_truncated = True
    if is_empty and not is_truncated:
        # an array without elements fits any columns: take those of the roles
        values = {
            name: []
            for name in (
                *(re.split(r"[.\[]", name)[0] for name in roles.text),
                roles.user,
                roles.id,
            )
            if name
        }
    elif not values:
        # of records that cannot be read for several reasons, the file is not what its name says
        raise UnreadableFile(
            "truncated"
            if is_truncated
            else reasons.pop()
            if len(reasons) == 1 and "" not in reasons
            else "not_json"
        )
    schema = infer_schema(values)
    pieces = [
        InputUnit(no=0, path=path, format=format, files=(path,), start=start, end=stop)
        for start, stop in zip(cuts, [*cuts[1:], None], strict=True)
    ]
    return FileSurvey(schema=schema, is_inferred=True, units=tuple(pieces))


def infer_schema(values: Mapping[str, list[Any]]) -> pa.Schema:
    """The columns of sampled records, from the values that each has; turns without a common type
    are marked as JSON."""
    values = {name: select_turns(name, column) for name, column in values.items()}
    json_turns = find_json_columns(values)
    types = {
        name: pa.null() if name in json_turns or not column else _infer_type(column)
        for name, column in values.items()
    }
    # a text for values of several types has those that are no texts as JSON
    mixed = [
        name
        for name, data_type in types.items()
        if data_type == TEXT_TYPE and not all(isinstance(one, str | None) for one in values[name])
    ]
    return mark_json_columns(pa.schema(list(types.items())), [*json_turns, *mixed])


def _infer_type(values: list[Any]) -> pa.DataType:
    """The type of a column's values; text where they have no common type."""
    if all(type(value) is str for value in values):
        return TEXT_TYPE
    try:
        inferred = text_cells.canonical_type(pa.array(values).type)
        return TEXT_TYPE if nesting_levels(inferred) > MAX_NESTING_LEVELS else inferred
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return TEXT_TYPE


def iter_lines(
    stream: BufferedReader,
    *,
    start: int = 0,
    end: int | None = None,
    limit: int,
    keep_ends: bool = False,
) -> Iterator[tuple[int, int, bytes | None]]:
    """(number from 1, byte where it begins, the line) for every line that begins in start..end and
    is not blank.

    The line is without its end, unless `keep_ends`, and None where it is over the limit.
    """
    position, number = start, 0
    if start:
        stream.seek(start - 1)
        position += _skip_line(stream) - 1
    while end is None or position < end:
        line = stream.readline(limit + 2)
        if not line:
            return
        line_start, position, number = position, position + len(line), number + 1
        if not line.endswith(b"\n") and len(line) > limit:
            position += _skip_line(stream)
            yield number, line_start, None
        else:
            line = line.removeprefix(UTF8_BOM) if not line_start else line
            content = line.rstrip(b"\r\n")
            if not content.isspace() and content:
                yield number, line_start, line if keep_ends else content


def _skip_line(stream: BufferedReader) -> int:
    """Reads to the end of the current line; returns the number of bytes read."""
    count = 0
    while chunk := stream.readline(1 << 20):
        count += len(chunk)
        if chunk.endswith(b"\n"):
            break
    return count


def _parse_object(line: bytes) -> tuple[Any, str]:
    """(the object of a line, "") or (None, the reason why it cannot be read)."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return None, "not_utf8"
    if _is_too_deep(text):
        return None, "too_deep"
    try:
        record = load_json(text)
    except RepeatedKey:
        return None, "repeated_key"
    except (ValueError, RecursionError):
        return None, "not_json"
    except MemoryError:
        return None, "memory"
    if not isinstance(record, dict):
        return None, "not_an_object"
    if "\\ud" in text or "\\uD" in text:
        try:  # an unpaired surrogate: JSON can escape it, UTF-8 text cannot hold it
            json.dumps(record, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return None, "not_utf8"
    return record, ""


class RepeatedKey(ValueError):
    """An object of a JSON text has one key with two values."""


def load_json(text: str | bytes) -> Any:
    """The value of a JSON text. Raises RepeatedKey where `json.loads` would keep the last of
    several values of a key, and what that raises."""
    return json.loads(text, object_pairs_hook=_build_object)


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs) and any(record[key] != value for key, value in pairs):
        raise RepeatedKey
    return record


def _is_too_deep(text: str) -> bool:
    """True if brackets of a record are nested deeper than `MAX_DEPTH`."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    depth = 0
    for bracket in _BRACKETS_OF_JSON.findall(_STRINGS_OF_JSON.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > MAX_DEPTH:
            return True
    return False


def stage_unit(
    unit: InputUnit, layout: StagingLayout, writer: StagingWriter, max_doc_bytes: int
) -> None:
    """Stages all lines or elements of a unit; blank lines are skipped."""

    def iter_unit(stream: BufferedReader) -> Iterator[tuple[int, int, bytes | None]]:
        if unit.format == "json":
            return iter_elements(stream, limit=max_doc_bytes)
        return iter_lines(stream, start=unit.start, end=unit.end, limit=max_doc_bytes)

    record_word = "element" if unit.format == "json" else "line"
    names = dict(unit.column_mapping)
    main_source = next(
        (source for source, standard in unit.column_mapping if standard == layout.main_column), ""
    )

    def build(rows: list[dict[str, Any] | None]) -> tuple[pa.RecordBatch, dict[int, str]]:
        return _build_batch(rows, unit, layout, max_doc_bytes)

    records: RecordBatcher[dict[str, Any]] = RecordBatcher(writer, build)
    number = 0
    for item, reason in read_guarded(unit.path, iter_unit):
        if item is None:
            location = position_in_part(unit.start, f"after {record_word} {number}")
            records.add(None, unit.path, location, reason)
            continue
        number, _, line = item
        location = position_in_part(unit.start, f"{record_word} {number}")
        if unit.quarantine_reason:
            records.add(None, unit.path, location, unit.quarantine_reason)
            continue
        record, reason = _parse_object(line) if line is not None else (None, "too_large")
        if record is not None:
            reason = (
                "no_text"
                if main_source not in record and not layout.roles.is_chosen
                else ""
                if record.keys() <= names.keys()
                else "new_column"
            )
        records.add(None if reason else record, unit.path, location, reason, len(line or b""))
    records.flush()


def _build_batch(
    rows: list[dict[str, Any] | None], unit: InputUnit, layout: StagingLayout, limit: int
) -> tuple[pa.RecordBatch, dict[int, str]]:
    """(records in standard form, row -> reason for those that do not fit)."""
    faults: dict[int, str] = {}
    sources = {standard: source for source, standard in unit.column_mapping}
    text_columns = {
        leaf.column
        for name in layout.roles.text
        if (leaf := find_leaf(name, layout.schema)) and not leaf.steps
    } | {layout.main_column}
    arrays = []
    for field in layout.schema:
        source = sources.get(field.name)
        if source is None:
            arrays.append(pa.nulls(len(rows), field.type))
            continue
        column = [row and row.get(source) for row in rows]
        if field.name in layout.json_columns and text_cells.is_list_type(field.type):
            for row, value in enumerate(column):
                try:
                    column[row] = encode_turns(value)
                # Python reads NaN and infinity, which are not JSON
                except (
                    TypeError,
                    ValueError,
                ) as error:
                    column[row], faults[row] = (
                        None,
                        "wrong_type" if isinstance(error, TypeError) else "not_json",
                    )
        if field.type == TEXT_TYPE and field.name not in text_columns:
            accepts_nested = field.name not in ("doc_id", "user_id")
            for row, value in enumerate(column):
                if value is not None and type(value) is not str:
                    if accepts_nested or not isinstance(value, dict | list):
                        column[row] = json.dumps(value, ensure_ascii=False)
                    else:
                        column[row], faults[row] = None, "wrong_type"
        elif pa.types.is_nested(field.type):
            for row, value in enumerate(column):
                if not _fits_type(value, field.type):
                    column[row], faults[row] = None, "new_column"
        arrays.append(_build_array(column, field.type, faults))
    batch = pa.RecordBatch.from_arrays(arrays, schema=layout.schema)
    return batch, find_faults(batch, limit, layout.roles.shape) | faults


def _fits_type(value: Any, data_type: pa.DataType) -> bool:
    """True if every key inside a value exists in the type. Arrow would drop the other keys
    silently."""
    if isinstance(value, dict) and pa.types.is_struct(data_type):
        return all(
            data_type.get_field_index(key) >= 0 and _fits_type(inner, data_type.field(key).type)
            for key, inner in value.items()
        )
    if (
        isinstance(value, list)
        and text_cells.is_list_type(data_type)
        and pa.types.is_nested(data_type.value_type)
    ):
        return all(_fits_type(inner, data_type.value_type) for inner in value)
    return True


def _build_array(column: list[Any], data_type: pa.DataType, faults: dict[int, str]) -> pa.Array:
    """The values as one array; values that do not fit the type become null and are added to
    `faults`."""
    try:
        return pa.array(column, data_type)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        pass
    for row, value in enumerate(column):
        try:
            pa.array([value], data_type)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            column[row], faults[row] = None, "wrong_type"
    return pa.array(column, data_type)
