"""Batches of stream records (dictionaries, or Arrow tables), and their texts as columns of text
cells.

`StreamBatch.extract_texts` takes the texts out of a batch, `rewrite` puts the edited ones in their
place; everything else stays unchanged. The numbers of a record's cells do not depend on later
records: the main text comes first, then the fields in the order in which they first appeared in the
stream; a field that has its first text only after it appeared comes after all others. Of a list
only the elements that exist count; of the turns of a conversation each counts, with or without a
content. For records that all have the same fields this is the order of a run over the same files.
"""

from __future__ import annotations

import bisect
import datetime
import decimal
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.array_types import I64
from sanitize.core.arrow_buffers import numbers_to_arrow
from sanitize.core.keys import Key, pseudonymize_column
from sanitize.core.text_cells import (
    JSON_STEP,
    LIST_STEP,
    NUMBER_STEP,
    LeafPath,
    Policies,
    flatten_leaf,
    get_step,
    is_number_type,
    is_text_type,
    is_whole_number,
    iterate_leaf,
    iterate_paths,
    join_names,
    list_keyed_strings,
    list_number_leaves,
    list_text_leaves,
    parse_path,
    replace_leaf,
    rewrite_parts,
    to_canonical_type,
    write_number,
)
from sanitize.errors import InputRefused, suggest_columns
from sanitize.kinds.field_names import is_searched, names_people, says_number
from sanitize.pipeline.indexing.column_value_finder import ValueLeaf, list_cells
from sanitize.pipeline.indexing.kept_columns import (
    describe_value_leaf,
    kept_leaves,
    select_value_leaves,
)
from sanitize.pipeline.streaming.stream_state import TextField
from sanitize.readers import jsonl
from sanitize.readers.column_policies import check_path_policy, check_type
from sanitize.readers.standard_form import find_faults, find_leaf, is_binary, null_out_rows
from sanitize.readers.survey import Roles
from sanitize.storage.corpus import CellColumn
from sanitize.storage.records.record_shapes import (
    canonical_schema,
    encode_turns,
    find_record_fault,
    find_shape_faults,
    list_json_columns,
    mark_sniffed_turns,
)

TEXT = pa.large_string()
NOTHING = object()  # in the place of a value without any part that was asked for
Row = dict[str, Any]
Steps = tuple[str, ...]
_LAST_RANK = 1 << 40
_MIN_SEARCHED_NUMBER = 1_000_000  # as the leak check: fewer than seven digits identify no person


@dataclass(frozen=True)
class QuarantineEntry:
    """Why a record is quarantined: a key of `readers.survey.REASONS`, or `leak`; its place in the
    input, and its content (`raw`)."""

    reason: str
    place: str = ""
    raw: str = ""


# no space and no @
_PLAUSIBLE_NAME = re.compile(r"[^\W\d][\w.-]{0,39}((\[\])?\.[^\W\d][\w.-]{0,39})?")


@dataclass
class StreamLayout:
    """Column roles, the policies that differ from the defaults (by column, or by a path inside
    one), and all fields that had texts, in cell order."""

    roles: Roles
    policies: Mapping[str, str]
    text_fields: list[TextField] = field(default_factory=list)
    seen_columns: list[str] = field(default_factory=list)
    # what an error names as the place: the stream, or the function of the Python API
    reader: str = "the stream"
    opt_in_kinds: tuple[str, ...] = ()  # those that the plan looks for

    def __post_init__(self) -> None:
        main = self.roles.text[0]
        self.main_column, *steps = main.replace("[]", ".[]").split(".")
        self.main_path = LeafPath(self.main_column, tuple(steps))
        if self.roles.shape is not None:
            self.main_path = self.roles.shape.select_cells([self.main_path])[0]
        if not self.text_fields:
            self.text_fields.append(TextField(-1, self.main_path))
        paths = {parse_path(name): policy for name, policy in self.policies.items()}
        policies = Policies(
            {path.column: paths.get(LeafPath(path.column), "sanitize") for path in paths},
            {path: policy for path, policy in paths.items() if path.steps},
        )
        for path in paths:
            check_path_policy(path, policies, self.main_path, self.roles)
        # names of columns may have dots and brackets, too: every beginning may be a column
        self._divided_columns = {one for name in self.policies for one in _list_beginnings(name)}
        self._people_columns: dict[str, bool] = {}  # whether a column surely names people
        self.column_names: set[str] = set()  # of records as dictionaries, of any policy
        self._known_paths = {one.path for one in self.text_fields}
        self._column_numbers = {column: number for number, column in enumerate(self.seen_columns)}

    @property
    def id_column(self) -> str:
        """The column whose ids determine the draws."""
        return self.roles.id or "doc_id"

    @property
    def user_column(self) -> str:
        """The column with the author of a record."""
        return self.roles.user or "user_id"

    def get_policy(self, column: str, value: object = "") -> str:
        """The column policy: sanitize, keep, pseudonymize or drop. A text in a column whose name
        surely names people becomes a code; lists and objects there are searched, as `value` is
        one."""
        if column == self.main_column:  # also if it is the id or user column
            return "sanitize"
        if column in self.policies:
            return self.policies[column]
        if column in (self.id_column, self.user_column):
            return "keep" if column == self.id_column else "pseudonymize"
        if column not in self._people_columns:  # asked for each column of each record
            self._people_columns[column] = names_people(column, surely=True)
        is_person = isinstance(value, str | None) and self._people_columns[column]
        return "pseudonymize" if is_person else "sanitize"

    def policy_at(self, path: LeafPath) -> str:
        """The policy of what is at a path: that of its column, or of the longest part of the path
        that has one of its own."""
        for length in range(len(path.steps), 0, -1) if self.is_divided(path.column) else ():
            if policy := self._get_part_policy(LeafPath(path.column, path.steps[:length]), ""):
                return policy
        return self.get_policy(path.column)

    def _get_part_policy(self, path: LeafPath, default: str) -> str:
        """The policy that an option gives a part of a column: not one that names a column."""
        name = str(path)
        is_part = path.steps and name not in self.column_names
        return self.policies.get(name, default) if is_part else default

    def is_divided(self, column: str) -> bool:
        """Whether parts of a column may have policies of their own."""
        return column in self._divided_columns

    def select(self, column: str, value: Any, *policies: str) -> Any:
        """The parts of a value of a column that have one of these policies; `NOTHING` where it has
        none."""
        policy = self.get_policy(column, value)
        if column not in self._divided_columns:
            return value if policy in policies else NOTHING
        return self._select_parts(LeafPath(column), value, policy, policies)

    def _select_parts(
        self, path: LeafPath, value: Any, policy: str, policies: tuple[str, ...]
    ) -> Any:
        policy = self._get_part_policy(path, policy)
        if isinstance(value, list):
            parts = [
                self._select_parts(one, each, policy, policies) for one, each in _enter(path, value)
            ]
            return [one for one in parts if one is not NOTHING]
        if isinstance(value, dict):
            fields = [
                self._select_parts(one, each, policy, policies) for one, each in _enter(path, value)
            ]
            return {
                name: one for name, one in zip(value, fields, strict=True) if one is not NOTHING
            }
        return value if policy in policies else NOTHING

    def rewrite_parts(self, path: LeafPath, value: Any, encode: Callable[[Any, str], Any]) -> Any:
        """The value with its dropped parts as nulls, and its pseudonymized ones as
        `encode(part, path)` gives them."""
        policy = self._get_part_policy(path, "")
        if policy in ("drop", "pseudonymize"):
            return None if policy == "drop" else encode(value, str(path))
        if not isinstance(value, list | dict):
            return value
        parts = [self.rewrite_parts(one, each, encode) for one, each in _enter(path, value)]
        return parts if isinstance(value, list) else dict(zip(value, parts, strict=True))

    def is_searched(self, name: str, value: Any) -> bool:
        """Whether a number or a date in a field of this name is searched."""
        if write_number(value) is None:
            return False
        data_type = pa.date32() if isinstance(value, datetime.date) else pa.int64()
        return is_searched(name, data_type, self.opt_in_kinds)

    def is_searched_type(self, path: LeafPath, data_type: pa.DataType) -> bool:
        """Whether the numbers or dates at a path are searched."""
        whole = pa.schema([pa.field(path.name, data_type)])
        searched = partial(is_searched, opt_in_kinds=self.opt_in_kinds)
        return bool(list_number_leaves(whole, searched))

    def add_column(self, column: str) -> bool:
        """Register a column; returns True if it is new."""
        if column in self._column_numbers:
            return False
        self._column_numbers[column] = len(self.seen_columns)
        self.seen_columns.append(column)
        return True

    def fills_missing(self, path: LeafPath) -> bool:
        """Whether each turn counts as a cell of this field, as in a run: the contents of
        conversations, which come first."""
        is_main_text = path == self.main_path
        return self.roles.shape is not None and is_main_text and JSON_STEP not in path.steps

    def add_text_field(self, path: LeafPath, is_new_column: bool) -> None:
        """Register a field that has texts, unless they are roles; of one with JSON the strings
        inside are its texts. `is_new_column`: its column first appeared in this record or table."""
        if (shape := self.roles.shape) is not None:
            cells = shape.select_cells([path])
            if not cells:
                return
            path = cells[0]
        if path not in self._known_paths:
            self._known_paths.add(path)
            # a list field and a field of a new column shift no existing cell, so they may be
            # inserted; any other field is appended
            is_inserted = is_new_column or _is_list(path.steps)
            rank = self._column_numbers[path.column] if is_inserted else _LAST_RANK
            bisect.insort_right(self.text_fields, TextField(rank, path), key=lambda one: one.rank)


@dataclass(frozen=True)
class FieldCells:
    """Where the texts of a field (`path` in the records) are in the table of a batch: `leaf`. Its
    column is the whole column of the records if `is_whole`, else it has these texts alone."""

    path: LeafPath
    leaf: LeafPath
    is_whole: bool = False
    keys: tuple[str, ...] = ()  # of texts inside JSON that have a column of their own

    @classmethod
    def apart(cls, field_no: int, path: LeafPath) -> FieldCells:
        """A column of the texts of one field: texts, or lists of them."""
        return cls(
            path, LeafPath(f"texts {field_no}", (LIST_STEP,) if _is_list(path.steps) else ())
        )

    def list_names(self, column: CellColumn) -> str | tuple[str, ...]:
        """The name of the field that the texts of `column` fill; inside JSON the key of each."""
        return column.flat.keys or self.keys or self.path.name


@dataclass(frozen=True, repr=False)
class TextColumns:
    """The texts of a batch: a table with `doc_no`, `doc_id` and columns that hold the cells of
    `fields`; for each of its rows the row of the batch (`record_rows`); texts of kept columns and
    numbers of all columns in digits, which are only checked, with their rows; the names of columns
    and fields; and the cells of columns that are pseudonymized or dropped."""

    table: pa.Table
    record_rows: I64
    fields: tuple[FieldCells, ...]
    kept_texts: list[tuple[pa.LargeStringArray, I64]]
    field_names: list[str]
    value_cells: list[tuple[ValueLeaf, pa.LargeStringArray, I64]]

    @property
    def leaves(self) -> tuple[LeafPath, ...]:
        """The paths of the cells in the table."""
        return tuple(one.leaf for one in self.fields)


class StreamBatch(Protocol):
    """Consecutive records of a stream."""

    quarantined: dict[int, QuarantineEntry]

    def __len__(self) -> int:
        """The number of records, including those that could not be read."""

    def extract_texts(
        self, layout: StreamLayout, first_doc_no: int, max_doc_bytes: int
    ) -> TextColumns:
        """The texts of the records that are not quarantined; the first record of the batch has the
        number `first_doc_no`. Quarantines records without a valid main text, and those with more
        than `max_doc_bytes` bytes of text."""

    def rewrite(
        self,
        text_columns: TextColumns,
        table: pa.Table,
        edited_rows: I64,
        layout: StreamLayout,
        key: Key,
    ) -> StreamBatch:
        """The records of `text_columns` with the texts of `table`, which differ in `edited_rows`;
        pseudonymizes and drops columns."""

    def has_any_field(self, row: int, names: Set[str]) -> bool:
        """True if the record may have a field with one of these names."""

    def has_column(self, name: str) -> bool:
        """True if a record has a column of that name."""

    def infer_schema(self) -> pa.Schema:
        """The columns of the records that could be read, with their types."""

    def iterate_field_names(self, main_column: str) -> Iterator[str]:
        """Names of columns, and of fields of the main column and of lists of objects, for error
        messages: plausible names only, each once. Keys of other objects may be personal data."""

    def encode_record(self, row: int) -> str:
        """A record as JSON."""


class DictBatch:
    """Records as dictionaries."""

    def __init__(
        self, rows: list[Row | None], quarantined: dict[int, QuarantineEntry] | None = None
    ) -> None:
        self.rows, self.quarantined = rows, quarantined or {}
        # of conversations without a common type, `extract_texts` holds the turns as JSON in `rows`
        self._given_rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def extract_texts(
        self, layout: StreamLayout, first_doc_no: int, max_doc_bytes: int
    ) -> TextColumns:
        """See `StreamBatch`."""
        if layout.roles.shape is not None:
            self._encode_turns(layout.roles.shape.json_turns)
        names: set[str] = set()
        flat_columns = {
            one.path.column for one in layout.text_fields if not one.path.steps
        }.intersection(layout.seen_columns)
        # a loop over records: JSON objects have no columnar form
        for row, record in enumerate(self.rows):
            if record is None or row in self.quarantined:
                continue
            if layout.main_column not in record and not layout.roles.is_chosen:
                self._quarantine(row, "no_text")
                continue
            if not layout.main_path.steps and not isinstance(
                record.get(layout.main_column), str | None
            ):
                self._quarantine(row, "wrong_type")
                continue
            if layout.roles.shape is not None and (
                reason := find_record_fault(record, layout.roles.shape)
            ):
                self._quarantine(row, reason)
                continue
            names.update(record)
            layout.column_names.update(record)
            for column, value in record.items():
                value = layout.select(column, value, "sanitize")
                if value is NOTHING:
                    continue
                is_new = column not in flat_columns and layout.add_column(column)
                if isinstance(value, dict | list) or write_number(value) is not None:
                    for steps in _find_cell_paths(value, (), names, layout.is_searched, column):
                        layout.add_text_field(LeafPath(column, steps), is_new)
                elif column not in flat_columns and (
                    isinstance(value, str) or (is_new and value is None)
                ):
                    flat_columns.add(column)
                    layout.add_text_field(LeafPath(column), is_new)
        good_rows = [row for row in range(len(self.rows)) if row not in self.quarantined]
        while True:
            try:
                text_columns = self._build_text_columns(
                    layout, first_doc_no, good_rows, sorted(names)
                )
                break
            except UnicodeEncodeError:  # an unpaired UTF-16 surrogate, which UTF-8 cannot encode
                good_rows = [row for row in good_rows if self._quarantine_unless_utf8(row)]
        table = text_columns.table.drop_columns(["doc_no"])
        faults = (
            find_faults(table.combine_chunks().to_batches()[0], max_doc_bytes) if good_rows else {}
        )
        for row, reason in faults.items():
            self._quarantine(good_rows[row], reason)
        return (
            self._build_text_columns(
                layout,
                first_doc_no,
                [row for row in good_rows if row not in self.quarantined],
                sorted(names),
            )
            if faults
            else text_columns
        )

    def _encode_turns(self, columns: Sequence[str]) -> None:
        """Hold the turns of these columns as JSON, as a run does."""
        if columns:
            self.rows = list(self.rows)
        for row, record in enumerate(self.rows):
            for column in columns:
                if record is not None and column in record:
                    try:
                        self.rows[row] = record = {**record, column: encode_turns(record[column])}
                    except (TypeError, ValueError) as error:
                        self._quarantine(
                            row, "wrong_type" if isinstance(error, TypeError) else "not_json"
                        )
                        break

    def _decode_turns(self, row: int, record: Row, columns: Sequence[str]) -> Row:
        """A rewritten record with turns in the form in which they were given."""
        given_record, encoded_record = self._given_rows[row] or {}, self.rows[row] or {}
        decoded = dict(record)
        for column in columns:
            if isinstance(turns := record.get(column), list):
                pairs = zip(turns, given_record[column], encoded_record[column], strict=True)
                decoded[column] = [
                    (
                        given
                        if text == encoded
                        else text
                        if isinstance(given, str)
                        else json.loads(text)
                    )
                    for text, given, encoded in pairs
                ]
        return decoded

    def _quarantine_unless_utf8(self, row: int) -> bool:
        try:
            json.dumps(self.rows[row], ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError:
            self._quarantine(row, "not_utf8")
            return False
        return True

    def _quarantine(self, row: int, reason: str) -> None:
        self.quarantined[row] = QuarantineEntry(reason, raw=self.encode_record(row))

    def encode_record(self, row: int) -> str:
        """See `StreamBatch`."""
        return json.dumps(self._given_rows[row], ensure_ascii=True, default=str)

    def _build_text_columns(
        self, layout: StreamLayout, first_doc_no: int, good_rows: list[int], field_names: list[str]
    ) -> TextColumns:
        records = [record for row in good_rows if (record := self.rows[row]) is not None]
        rows = np.array(good_rows, np.int64)
        columns: dict[str, pa.Array] = {"doc_no": pa.array(first_doc_no + rows)}
        columns["doc_id"] = pa.array(
            [
                _get_doc_id(record.get(layout.id_column), first_doc_no + row)
                for record, row in zip(records, good_rows, strict=True)
            ],
            TEXT,
        )
        fields = [
            FieldCells.apart(number, one.path) for number, one in enumerate(layout.text_fields)
        ]
        for number, one in enumerate(fields):
            values, steps = [record.get(one.path.column) for record in records], one.path.steps
            if steps[-1:] == (JSON_STEP,):
                strings = [
                    [
                        keyed
                        for text in iterate_leaf(value, steps[:-1])
                        if isinstance(text, str)
                        for keyed in list_keyed_strings(text, one.path.name)
                    ]
                    for value in values
                ]
                columns[one.leaf.column] = pa.array(
                    [[text for _, text in found] for found in strings], pa.large_list(TEXT)
                )
                fields[number] = replace(
                    one, keys=tuple(key for found in strings for key, _ in found)
                )
            elif one.leaf.steps:
                fill = layout.fills_missing(one.path)
                lists = [
                    [
                        text
                        for text in iterate_leaf(value, steps, fill_missing=fill)
                        if text is None or isinstance(text, str)
                    ]
                    for value in values
                ]
                columns[one.leaf.column] = pa.array(lists, pa.large_list(TEXT))
            else:
                if steps:
                    values = [next(iterate_leaf(value, steps), None) for value in values]
                columns[one.leaf.column] = pa.array(
                    [text if isinstance(text, str) else None for text in values], TEXT
                )
        kept: list[tuple[pa.LargeStringArray, I64]] = []
        for column in field_names:
            for iterate, policies in (
                (_iterate_strings, ("keep",)),
                (_iterate_numbers, ("keep", "sanitize")),
            ):
                found = [
                    (row, text)
                    for row, record in enumerate(records)
                    if (value := layout.select(column, record.get(column), *policies))
                    is not NOTHING
                    for text in iterate(value, column)
                ]
                if found:
                    text_rows, texts = zip(*found, strict=True)
                    kept.append((pa.array(texts, TEXT), rows[[*text_rows]]))
        value_cells = _list_value_cells(records, field_names, layout)
        return TextColumns(
            pa.table(columns),
            rows,
            tuple(fields),
            kept,
            field_names,
            value_cells,
        )

    def rewrite(
        self,
        text_columns: TextColumns,
        table: pa.Table,
        edited_rows: I64,
        layout: StreamLayout,
        key: Key,
    ) -> DictBatch:
        """See `StreamBatch`."""
        rows: list[Row | None] = [self.rows[row] for row in text_columns.record_rows.tolist()]
        dropped = [name for name in text_columns.field_names if layout.get_policy(name) == "drop"]
        changed: dict[int, Row] = {}

        def copy_of_row(row: int) -> Row:
            if row not in changed:
                changed[row] = dict(rows[row] or {})
            return changed[row]

        edited = table.take(pa.array(edited_rows))
        for one in text_columns.fields:
            column, steps = one.path.column, one.path.steps
            texts = edited.column(one.leaf.column).to_pylist()
            for row, text in zip(edited_rows.tolist(), texts, strict=True):
                record_copy = copy_of_row(row)
                if not steps:
                    if isinstance(record_copy.get(column), str):
                        record_copy[column] = text
                elif column in record_copy:
                    new_texts = iter(text if isinstance(text, list) else [text])
                    fill = layout.fills_missing(one.path)
                    record_copy[column] = replace_leaf(
                        record_copy[column], steps, new_texts, fill_missing=fill
                    )
        for name in text_columns.field_names:
            # as in a run, a pseudonym is made of the text of a value: of the digits of a number, of
            # the JSON of a nested value
            rows_and_values = [
                (row, value)
                for row, record in enumerate(rows)
                if record is not None
                and (value := record.get(name)) is not None
                and layout.get_policy(name, value) == "pseudonymize"
            ]
            if not rows_and_values:
                continue
            column = "user_id" if name == layout.user_column else name
            pseudonyms = pseudonymize_column(
                pa.array([_to_text(value) for _, value in rows_and_values], TEXT), column, key
            ).to_pylist()
            for (row, _), pseudonym in zip(rows_and_values, pseudonyms, strict=True):
                copy_of_row(row)[name] = pseudonym
        encode = partial(_pseudonymize_value, key=key)
        for name in filter(layout.is_divided, text_columns.field_names):
            for row, record in enumerate(rows):
                if record is not None and name in record:
                    record_copy = copy_of_row(row)
                    record_copy[name] = layout.rewrite_parts(
                        LeafPath(name), record_copy[name], encode
                    )
        for name in dropped:
            for row, record in enumerate(rows):
                if record is not None and name in record:
                    copy_of_row(row).pop(name)
        rewritten = [changed.get(row, record) for row, record in enumerate(rows)]
        if layout.roles.shape is not None and (columns := layout.roles.shape.json_turns):
            numbered = zip(text_columns.record_rows.tolist(), rewritten, strict=True)
            rewritten = [
                record and self._decode_turns(row, record, columns) for row, record in numbered
            ]
        return DictBatch(rewritten)

    def has_any_field(self, row: int, names: Set[str]) -> bool:
        """See `StreamBatch`."""
        found: set[str] = set()
        for _ in _find_cell_paths(self.rows[row], (), found, lambda *_: False):
            pass
        return bool(found & names)

    def has_column(self, name: str) -> bool:
        """See `StreamBatch`."""
        columns = _list_beginnings(name)
        return any(
            record is not None
            and (
                name in record
                or any(_has_path(LeafPath(one), record.get(one), name) for one in columns)
            )
            for record in self.rows
        )

    def infer_schema(self) -> pa.Schema:
        """See `StreamBatch`."""
        values: dict[str, list[Any]] = {}
        for record in self.rows:
            for name, value in (record or {}).items():
                values.setdefault(str(name), []).append(value)
        return jsonl.infer_schema(values)

    def iterate_field_names(self, main_column: str) -> Iterator[str]:
        """See `StreamBatch`."""
        reported: set[str] = set()
        for record in self.rows:
            for column, value in (record or {}).items():
                is_object_list = isinstance(value, list) and value and isinstance(value[0], dict)
                inner = (
                    value[0]
                    if is_object_list
                    else value
                    if column == main_column and isinstance(value, dict)
                    else {}
                )
                fields = (f"{column}{'[]' if is_object_list else ''}.{name}" for name in inner)
                new_names = [
                    candidate
                    for candidate in (str(column), *fields)
                    if candidate not in reported and _PLAUSIBLE_NAME.fullmatch(candidate)
                ]
                reported.update(new_names)
                yield from new_names


class ArrowBatch:
    """Records as an Arrow table."""

    def __init__(
        self, table: pa.Table, quarantined: dict[int, QuarantineEntry] | None = None
    ) -> None:
        self.table, self.quarantined = table, quarantined or {}

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def _get_policy(self, layout: StreamLayout, column: str) -> str:
        """As `StreamLayout.get_policy`; a binary column without a policy of its own is dropped, as
        in a run."""
        data_type = self.table.schema.field(column).type
        policy = layout.get_policy(column, "" if is_text_type(data_type) else ())
        is_binary_column = is_binary(data_type)
        return "drop" if is_binary_column and column not in layout.policies else policy

    def _list_policies(self, layout: StreamLayout) -> Policies:
        """The policies of the columns of the table, and of parts of them."""
        by_path, asked = dict[LeafPath, str](), layout.policies
        schema = canonical_schema(self.table.schema)
        for path, data_type in iterate_paths(schema) if asked else ():
            name = str(path)
            if path.steps and name in asked and name not in schema.names:
                is_searched = layout.is_searched_type(path, data_type)
                check_type(path, asked[name], data_type, is_searched=is_searched)
                by_path[path] = asked[name]
        return Policies(
            {name: self._get_policy(layout, name) for name in self.table.column_names}, by_path
        )

    def extract_texts(
        self, layout: StreamLayout, first_doc_no: int, max_doc_bytes: int
    ) -> TextColumns:
        """See `StreamBatch`."""
        policies = self._list_policies(layout)
        canonical = pa.table(
            {
                name: to_canonical_type(_combine_chunks(self.table.column(name)))
                for name in self.table.column_names
            }
        )
        main = find_leaf(layout.roles.text[0], canonical.schema)
        for option, name in (
            ("text-column", layout.main_column),
            ("id-column", layout.roles.id),
            ("user-column", layout.roles.user),
        ):
            if name is not None and name not in canonical.column_names:
                suggestion = suggest_columns(name, canonical.column_names)
                raise InputRefused(
                    f"{layout.reader}: there is no column {name}; {suggestion} Name the column with"
                    f" --{option} NAME."
                )
        if main is None or main not in list_text_leaves(canonical.schema):
            advice = (
                "--text-column needs a column of strings (mails in bytes: `sanitize run` reads"
                " them)"
            )
            raise InputRefused(
                f"{layout.reader}: column {layout.main_column} holds no text; {advice}"
            )
        new_columns: set[str] = set()
        json_columns = list_json_columns(canonical_schema(self.table.schema))
        number_leaves = list_number_leaves(
            canonical.schema, partial(is_searched, opt_in_kinds=layout.opt_in_kinds)
        )
        for leaf in (*list_text_leaves(canonical.schema), *number_leaves):
            if policies.at(leaf) == "sanitize":
                new_columns |= {leaf.column} if layout.add_column(leaf.column) else set()
                is_json = (
                    leaf.column in json_columns
                    and leaf.steps in ((), (LIST_STEP,))
                    and leaf.column != layout.main_column
                )
                layout.add_text_field(
                    LeafPath(leaf.column, (*leaf.steps, JSON_STEP)) if is_json else leaf,
                    leaf.column in new_columns,
                )
        has_ids = layout.id_column in canonical.column_names and not pa.types.is_nested(
            canonical.schema.field(layout.id_column).type
        )
        numbers = numbers_to_arrow(np.arange(first_doc_no, first_doc_no + len(self)))
        ids = numbers.cast(TEXT)
        columns = {
            "doc_no": numbers,
            "doc_id": (
                pc.coalesce(_combine_chunks(canonical.column(layout.id_column)).cast(TEXT), ids)
                if has_ids
                else ids
            ),
        }
        fields, text_leaves = [], set(list_text_leaves(canonical.schema))
        for number, path in enumerate(one.path for one in layout.text_fields):
            if path in number_leaves or path.stored in text_leaves:
                leaf = LeafPath(f"column {path.column}", path.steps)
                columns[leaf.column] = _combine_chunks(canonical.column(path.column))
                fields.append(FieldCells(path, leaf, is_whole=True))
            else:
                fields.append(absent := FieldCells.apart(number, path))
                null_type = pa.large_list(TEXT) if absent.leaf.steps else TEXT
                columns[absent.leaf.column] = pa.nulls(len(self), null_type)
        table = pa.table(columns)
        faults = (
            find_faults(table.drop_columns(["doc_no"]).to_batches()[0], max_doc_bytes)
            if len(self)
            else {}
        )
        if len(self) and (shape := layout.roles.shape) is not None:
            # strings that are not UTF-8 cannot be read
            faults = (
                find_shape_faults(null_out_rows(canonical.to_batches()[0], faults), shape) | faults
            )
        for row, reason in faults.items():
            self.quarantined.setdefault(row, QuarantineEntry(reason, raw=self.encode_record(row)))
        rows = np.setdiff1d(np.arange(len(self)), np.array(list(self.quarantined), np.int64))
        if len(rows) < len(self):
            table, canonical = (
                data.take(pa.array(rows)).combine_chunks() for data in (table, canonical)
            )
        kept = []
        for kept_leaf in kept_leaves(canonical.schema, policies):
            found = flatten_leaf(_combine_chunks(canonical.column(kept_leaf.column)), kept_leaf)
            kept.append((found.texts.fill_null(""), rows[found.rows]))
        for name, policy in policies.by_column.items():
            if policy == "keep" and is_binary(canonical.schema.field(name).type):
                column = _combine_chunks(canonical.column(name))
                raw = column.cast(pa.large_binary()).fill_null(b"")
                # the matcher compares bytes, valid UTF-8 or not
                _, offsets, data = raw.buffers()
                texts = pa.LargeStringArray.from_buffers(
                    len(raw), offsets, data, None, 0, raw.offset
                )
                kept.append((texts, rows))
            if policy in ("keep", "sanitize"):
                column = _combine_chunks(canonical.column(name))
                output = rewrite_parts(column, name, policies, lambda texts, _: texts)
                kept += _list_number_texts(output, rows, name)
        names = policies.list_columns("sanitize", "keep", "pseudonymize")
        names += [
            name
            for leaf in list_text_leaves(canonical.schema)
            if policies.by_column[leaf.column] != "drop"
            for name in leaf.field_names
        ]
        value_cells = [
            (one, cells.texts, cells.rows)
            for one in select_value_leaves(
                canonical.schema, policies, (layout.id_column, layout.user_column)
            )
            for cells in (list_cells(_combine_chunks(canonical.column(one.leaf.column)), one.leaf),)
        ]
        return TextColumns(table, rows, tuple(fields), kept, names, value_cells)

    def rewrite(
        self,
        text_columns: TextColumns,
        table: pa.Table,
        edited_rows: I64,
        layout: StreamLayout,
        key: Key,
    ) -> ArrowBatch:
        """See `StreamBatch`."""
        rewritten = (
            self.table
            if len(text_columns.record_rows) == len(self)
            else self.table.take(pa.array(text_columns.record_rows))
        )
        whole_columns = {
            one.path.column: one.leaf.column for one in text_columns.fields if one.is_whole
        }
        policies, encode = self._list_policies(layout), partial(pseudonymize_column, key=key)
        divided = {path.column for path in policies.by_path}
        for name, policy in policies.by_column.items():
            position = rewritten.column_names.index(name)
            if policy == "drop":
                rewritten = rewritten.remove_column(position)
            elif policy == "pseudonymize":
                data_type = rewritten.schema.field(name).type
                # as in a run, numbers of users are texts
                is_number = name == layout.user_column and (
                    pa.types.is_integer(data_type) or pa.types.is_floating(data_type)
                )
                if not (is_number or is_text_type(data_type)):
                    raise InputRefused(
                        f"--pseudonymize {name}: it is not a plain string column; use --sanitize,"
                        " --keep or --drop"
                    )
                column = "user_id" if name == layout.user_column else name
                rewritten = rewritten.set_column(
                    position,
                    name,
                    pseudonymize_column(
                        to_canonical_type(_combine_chunks(rewritten.column(name))), column, key
                    ),
                )
            elif name in whole_columns or name != layout.id_column or name in divided:
                column = (
                    table.column(whole_columns[name])
                    if name in whole_columns
                    else to_canonical_type(_combine_chunks(rewritten.column(name)))
                )
                if name in divided:
                    column = rewrite_parts(_combine_chunks(column), name, policies, encode)
                rewritten = rewritten.set_column(position, name, column)
        return ArrowBatch(rewritten.replace_schema_metadata(None))

    def encode_record(self, row: int) -> str:
        """See `StreamBatch`."""
        try:
            return json.dumps(self.table.slice(row, 1).to_pylist()[0], default=repr)
        except UnicodeDecodeError:
            return json.dumps(
                {
                    name: repr(self.table.column(name).slice(row, 1).cast(pa.large_binary()))
                    for name in self._list_string_columns()
                }
            )

    def _list_string_columns(self) -> list[str]:
        return [
            name
            for name in self.table.column_names
            if is_text_type(self.table.schema.field(name).type)
        ]

    def has_any_field(self, row: int, names: Set[str]) -> bool:
        """See `StreamBatch`."""
        return True

    def has_column(self, name: str) -> bool:
        """See `StreamBatch`."""
        schema = canonical_schema(self.table.schema)
        return any(str(path) == name for path, _ in iterate_paths(schema))

    def infer_schema(self) -> pa.Schema:
        """See `StreamBatch`."""
        return mark_sniffed_turns(canonical_schema(self.table.schema), self.table.select)

    def iterate_field_names(self, main_column: str) -> Iterator[str]:
        """See `StreamBatch`."""
        return filter(_PLAUSIBLE_NAME.fullmatch, self.table.column_names)


def _is_list(steps: Steps) -> bool:
    """Whether a record may have several texts at the end of a path."""
    return LIST_STEP in steps or JSON_STEP in steps


def _combine_chunks(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _list_number_texts(
    column: pa.Array, rows: I64, *names: str
) -> Iterator[tuple[pa.LargeStringArray, I64]]:
    """The long numbers in a column and in its lists and structs, in digits, each with its row; of
    floats those without a fraction. Not those that are cells, by the `names` of the column and of
    their field."""
    if pa.types.is_large_list(column.type):
        yield from _list_number_texts(
            column.flatten(), rows[np.asarray(pc.list_parent_indices(column))], *names
        )
    elif pa.types.is_struct(column.type):
        for field, part in zip(column.type, column.flatten(), strict=True):
            yield from _list_number_texts(part, rows, *names[-1:], field.name)
    elif is_number_type(column.type) and not says_number(join_names(*names)):
        floats = column.cast(pa.float64(), safe=False)  # of any width and sign
        is_searched = pc.greater_equal(pc.abs(floats), _MIN_SEARCHED_NUMBER)
        if is_float := pa.types.is_floating(column.type):
            column = floats
            is_searched = pc.and_(
                is_searched,
                pc.and_(pc.equal(pc.floor(floats), floats), pc.less(pc.abs(floats), 2.0**63)),
            )
        is_searched = pc.fill_null(is_searched, False)
        numbers = column.filter(is_searched)
        texts = (numbers.cast(pa.int64()) if is_float else numbers).cast(pa.string()).cast(TEXT)
        if len(texts):
            yield texts, rows[np.asarray(is_searched)]


def _get_doc_id(value: Any, doc_no: int) -> str:
    """The document id that determines the draws of a record: its number if it has no id, or a
    nested one."""
    return str(doc_no) if value is None or isinstance(value, dict | list) else _to_text(value)


def _list_beginnings(name: str) -> list[str]:
    """The names of columns that a path may begin with."""
    return [name[: match.start()] for match in re.finditer(r"\.|\[", name)]


def _has_path(path: LeafPath, value: Any, name: str) -> bool:
    """Whether there is something at a path, which is inside `path`, in a value."""
    if path.steps and str(path) == name:
        return True
    return isinstance(value, list | dict) and any(
        _has_path(one, each, name) for one, each in _enter(path, value)
    )


def _enter(path: LeafPath, value: list[Any] | Row) -> Iterator[tuple[LeafPath, Any]]:
    """What is inside a list or an object, each with its path."""
    if isinstance(value, list):
        inner = LeafPath(path.column, (*path.steps, LIST_STEP))
        yield from ((inner, one) for one in value)
    else:
        for name, one in value.items():
            yield LeafPath(path.column, (*path.steps, get_step(str(name)))), one


def _pseudonymize_value(value: Any, path: str, key: Key) -> Any:
    """The pseudonym of a part of a value, as a run has it."""
    if value is None:
        return None
    return pseudonymize_column(pa.array([_to_text(value)], TEXT), path, key)[0].as_py()


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _find_cell_paths(
    value: Any,
    steps: Steps,
    field_names: set[str],
    is_searched: Callable[[str, Any], bool],
    *names: str,
) -> Iterator[Steps]:
    """The steps to every string or null inside a value, and to every number and date that is
    searched (`is_searched` of the name of its field, and the value); adds the names of fields on
    the way to `field_names`. `names`: those of the column and of the field that the value fills."""
    if value is None or isinstance(value, str):
        yield steps
    elif isinstance(value, list):
        for inner in value:
            yield from _find_cell_paths(
                inner, (*steps, LIST_STEP), field_names, is_searched, *names
            )
    elif isinstance(value, dict):
        field_names.update(value)
        for name, inner in value.items():
            yield from _find_cell_paths(
                inner, (*steps, get_step(name)), field_names, is_searched, *names[-1:], name
            )
    elif names and is_searched(join_names(*names), value):
        yield (*steps, NUMBER_STEP)


def _list_value_cells(
    records: Sequence[Row], columns: Sequence[str], layout: StreamLayout
) -> list[tuple[ValueLeaf, pa.LargeStringArray, I64]]:
    """The strings and integers of columns that are pseudonymized or dropped, by their path, and the
    row of each."""
    cells_by_leaf: dict[tuple[LeafPath, bool], list[tuple[str, int]]] = {}
    for column in columns:
        for row, record in enumerate(records):
            content = layout.select(column, record.get(column), "pseudonymize", "drop")
            if content is NOTHING:
                continue
            for steps, value in _iterate_cells(content, ()):
                cells_by_leaf.setdefault(
                    (LeafPath(column, steps), not isinstance(value, str)), []
                ).append((str(value), row))
    value_cells = []
    for (leaf, is_number), cells in cells_by_leaf.items():
        is_role = leaf.column in (layout.id_column, layout.user_column)
        value_leaf = describe_value_leaf(
            leaf, layout.policy_at(leaf), is_role=is_role, is_number=is_number
        )
        if value_leaf is not None:
            texts, rows = zip(*cells, strict=True)
            value_cells.append((value_leaf, pa.array(texts, TEXT), np.array(rows, np.int64)))
    return value_cells


def _iterate_cells(value: Any, steps: Steps) -> Iterator[tuple[Steps, str | int]]:
    """Every string and whole number inside a value, with the steps to it."""
    if isinstance(value, str):
        yield steps, value
    elif is_whole_number(value):
        yield steps, int(value)
    elif isinstance(value, list):
        for inner in value:
            yield from _iterate_cells(inner, (*steps, LIST_STEP))
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _iterate_cells(inner, (*steps, get_step(str(name))))


def _iterate_numbers(value: Any, *names: str) -> Iterator[str]:
    """Every long number inside a value, in digits; of floats those without a fraction. Not those
    that are cells, by the `names` of the column and of their field."""
    if isinstance(value, int | float | decimal.Decimal):
        is_whole = math.isfinite(value) and value == value // 1
        is_long = is_whole and abs(int(value)) >= _MIN_SEARCHED_NUMBER
        if is_long and not says_number(join_names(*names)):
            yield str(int(value))
    elif isinstance(value, list):
        for inner in value:
            yield from _iterate_numbers(inner, *names)
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _iterate_numbers(inner, *names[-1:], name)


def _iterate_strings(value: Any, _name: str = "") -> Iterator[str]:
    """Every string inside a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _iterate_strings(inner)
