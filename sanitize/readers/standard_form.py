"""The standard form of documents: `doc_id`, `user_id`, the main text under its own name, then the
other columns.

All columns have the plain types of `core.text_cells`. A column that has a role is not repeated. A
further column whose name is reserved in the standard form (`doc_no`, `doc_id`, `user_id`, that of
the main text) gets `_` appended, as often as necessary. Pure functions on schemas and batches; no
file is opened here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from sanitize.core import text_cells
from sanitize.errors import InputRefused, UsageError, printable_path, shell_quote, suggest_columns
from sanitize.readers.survey_types import Roles
from sanitize.storage.parquet_files import count_row_bytes
from sanitize.storage.records.record_shapes import (
    RecordShape,
    find_shape_faults,
    list_json_columns,
    recognize_shape,
)

TEXT_TYPE = pa.large_string()
ColumnMapping = tuple[tuple[str, str], ...]
_RESERVED_NAMES = ("doc_no", "doc_id", "user_id")
# of a column in Parquet, where a list takes two; Arrow cannot read back a footer with more than 64
MAX_NESTING_LEVELS = 60


# names of main texts, the likeliest first
_TEXT_NAMES = (
    "text content body message comment review description notes note question prompt answer"
    " response summary abstract transcript details msg log title subject"
).split()
_NO_TEXT_NAME = re.compile(
    r"(name|user|author|owner|sender|recipient|^from|^to|mail|email|phone|mobile|fax|address|street"
    r"|city|zip|ssn|iban|password|code|status|type|kind|level)$"
)
# words in names of columns of tables that have no such column
_HEADER_WORDS = (
    "id uuid name firstname lastname first last full given family middle email mail phone mobile"
    " number no code address street city country zip date of birth time timestamp at created"
    " updated url ip user username author type status category label level price amount total"
    " quantity age gender"
).split()


def nesting_levels(data_type: pa.DataType) -> int:
    """The levels of a type in a Parquet schema: two for a list, one for a struct and for a plain
    value. Iterative: a type may be deep."""
    deepest, pending = 0, [(data_type, 1)]
    while pending:
        inner, level = pending.pop()
        deepest = max(deepest, level)
        step = 1 if pa.types.is_struct(inner) else 2
        pending += [(inner.field(number).type, level + step) for number in range(inner.num_fields)]
    return deepest


# of intervals, pyarrow can read these two from a file, and nothing else
_INTERVALS_WITHOUT_CLASS = (pa.lib.Type_INTERVAL_MONTHS, pa.lib.Type_INTERVAL_DAY_TIME)
_UNKNOWN_TYPES = (
    lambda data_type: data_type.id in _INTERVALS_WITHOUT_CLASS,
    pa.types.is_union,
    pa.types.is_interval,
    pa.types.is_run_end_encoded,
    # Arrow's cast of a view to a list loses rows
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)


def has_unknown_type(data_type: pa.DataType) -> bool:
    """True for types that Parquet cannot store, and for those that contain one. Iterative: a type
    may be deep."""
    pending = [data_type]
    while pending:
        inner = pending.pop()
        if any(is_type(inner) for is_type in _UNKNOWN_TYPES):
            return True
        pending += [inner.field(number).type for number in range(inner.num_fields)]
    return False


def find_leaf(path: str, schema: pa.Schema) -> text_cells.LeafPath | None:
    """The leaf that a path names in a schema, or None: a column of exactly that name first, else
    column, `[]` and field names."""
    if path in schema.names:
        return text_cells.LeafPath(path)
    parsed = text_cells.parse_path(path)
    return parsed if parsed.steps and parsed.column in schema.names else None


def type_at_leaf(leaf: text_cells.LeafPath, schema: pa.Schema) -> pa.DataType | None:
    """The type at a leaf; the null type where the column or a step is null; None where the path
    does not exist."""
    data_type = schema.field(leaf.column).type
    for step in leaf.steps:
        if pa.types.is_null(data_type):
            return data_type
        if step == text_cells.LIST_STEP:
            data_type = data_type.value_type if text_cells.is_list_type(data_type) else None
        else:
            data_type = (
                data_type.field(name).type
                if pa.types.is_struct(data_type)
                and data_type.get_field_index(name := text_cells.get_field_name(step)) >= 0
                else None
            )
        if data_type is None:
            return None
    return data_type


def is_binary(data_type: pa.DataType) -> bool:
    """True for the types that can hold the bytes of a whole mail."""
    return bool(pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type))


def main_text_column(roles: Roles, schema: pa.Schema) -> str:
    """The main text's column in standard form: its own name; `text` where it is made from mails,
    where that name is reserved, and where the file has no such column."""
    leaf = find_leaf(roles.text[0], schema)
    if leaf is None or leaf.column in _RESERVED_NAMES or is_binary(schema.field(leaf.column).type):
        return "text"
    return leaf.column


def list_text_candidates(schema: pa.Schema, roles: Roles) -> list[str]:
    """The texts of a file that can be its main text: all but ids, users and paths, by the names of
    their columns."""
    others = {roles.id, roles.user, "doc_id", "user_id"}
    no_text = re.compile(r"(^|[^a-z])(u?u?id|guid|path|url|date|lang|role)$")
    texts = [str(leaf) for leaf in text_cells.list_text_leaves(schema)]
    return [text for text in texts if text not in others and not no_text.search(text.lower())]


def map_columns(schema: pa.Schema, roles: Roles, path: str) -> ColumnMapping:
    """(column in the file, column in standard form) for every column of a file, in its order.
    Raises UsageError for wrong column roles."""
    paths = [
        *schema.names,
        *(str(leaf) for leaf in text_cells.list_text_leaves(schema) if leaf.steps),
    ]
    mapping: list[tuple[str, str]] = []

    def missing_column(option: str, name: str) -> UsageError:
        column = text_cells.column_of_path(name)
        if option == "text-column" and column in list_json_columns(schema):
            place = column if text_cells.is_text_type(schema.field(column).type) else f"{column}[]"
            return UsageError(
                f"{printable_path(path)}: there is no {name}: what {column} holds has no common"
                f" type and is kept as JSON. Use --text-column {shell_quote(place)}. To add such"
                " records to a corpus whose records have that path, run all files together with"
                " --replace."
            )
        candidates = list_text_candidates(schema, roles) if option == "text-column" else []
        value = shell_quote(candidates[0]) if len(candidates) == 1 else "NAME"
        known = paths if option == "text-column" else schema.names  # a role is a whole column
        return UsageError(
            f"{printable_path(path)}: there is no column {name}; {suggest_columns(name, known)}"
            f" Name the column with --{option} {value}."
        )

    for number, name in enumerate(roles.text):
        leaf = find_leaf(name, schema)
        data_type = type_at_leaf(leaf, schema) if leaf else None
        if leaf is None or data_type is None:
            raise missing_column("text-column", name)
        if not (
            text_cells.is_text_type(data_type)
            or pa.types.is_null(data_type)
            or (is_binary(data_type) and not leaf.steps)
        ):
            nested_texts = [text for text in paths if text.startswith((f"{name}[", f"{name}."))]
            hint = f" Its texts are {', '.join(nested_texts[:4])}." if nested_texts else ""
            raise UsageError(
                f"{printable_path(path)}: column {name} is {data_type}; "
                f"--text-column takes a column of strings, or of mails as bytes.{hint}"
            )
        if number == 0:
            mapping.append((leaf.column, main_text_column(roles, schema)))
    main = mapping[0][1]
    for option, given, standard in (
        ("user-column", roles.user, "user_id"),
        ("id-column", roles.id, "doc_id"),
    ):
        name = given or standard
        if name in schema.names:
            data_type = schema.field(name).type
            if pa.types.is_nested(data_type) or is_binary(data_type):
                raise UsageError(
                    f"{printable_path(path)}: column {name} is {data_type}; --{option} takes a"
                    " column of strings or numbers."
                )
            mapping.append((name, standard))
        elif given:
            raise missing_column(option, given)
    mapped, used_names = {source for source, _ in mapping}, {*_RESERVED_NAMES, main, *schema.names}
    for name in schema.names:
        if name not in mapped:
            standard = name
            if name in (*_RESERVED_NAMES, main):
                while standard in used_names:
                    standard += "_"
                used_names.add(standard)
            mapping.append((name, standard))
    order = {name: number for number, name in enumerate(schema.names)}
    return tuple(sorted(mapping, key=lambda pair: order[pair[0]]))


def standard_fields(schema: pa.Schema, mapping: ColumnMapping, roles: Roles) -> list[pa.Field]:
    """A file's columns in standard form, the three roles first; a text role with bytes becomes
    text."""
    # `schema.names` builds a list each time, and there may be many columns
    source_types = {field.name: field.type for field in schema}
    types = {
        standard: source_types[source] for source, standard in mapping if source in source_types
    }
    text_columns = {
        leaf.column for name in roles.text if (leaf := find_leaf(name, schema)) and not leaf.steps
    }
    types |= {standard: TEXT_TYPE for source, standard in mapping if source in text_columns}
    main = main_text_column(roles, schema)
    types |= {"doc_id": TEXT_TYPE, "user_id": TEXT_TYPE}
    if main == "text":  # also made from mails; a list of texts stays one
        types.setdefault("text", TEXT_TYPE)
    order = dict.fromkeys(("doc_id", "user_id", main, *types))
    return [pa.field(name, types[name]) for name in order]


def _merge_types(first: pa.DataType, second: pa.DataType, is_inferred: bool) -> pa.DataType | None:
    """A type for both: equal ones, or one that fills nulls of the other; inferred types are also
    widened. None where there is none."""
    if first == second:
        return first
    try:
        merged = pa.unify_schemas(
            [pa.schema([("a", first)]), pa.schema([("a", second)])],
            promote_options="permissive" if is_inferred else "default",
        )
        return text_cells.canonical_type(merged.field("a").type)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return TEXT_TYPE if is_inferred else None


def _finalize_type(data_type: pa.DataType) -> pa.DataType:
    """An inferred type with text in place of null types; text for the whole column where an object
    has no keys."""

    def has_empty_struct(inner: pa.DataType) -> bool:
        if pa.types.is_struct(inner):
            return not inner.num_fields or any(has_empty_struct(field.type) for field in inner)
        return text_cells.is_list_type(inner) and has_empty_struct(inner.value_type)

    def fill_nulls(inner: pa.DataType) -> pa.DataType:
        if pa.types.is_struct(inner):
            return pa.struct([(field.name, fill_nulls(field.type)) for field in inner])
        if text_cells.is_list_type(inner):
            return pa.large_list(fill_nulls(inner.value_type))
        return TEXT_TYPE if pa.types.is_null(inner) else inner

    return TEXT_TYPE if has_empty_struct(data_type) else fill_nulls(data_type)


class CorpusSchema:
    """The columns of a corpus: those of its files in standard form, by name, in order of first
    appearance."""

    def __init__(self) -> None:
        self._columns: dict[str, tuple[pa.DataType, bool, str]] = {}
        self._main_column = ""

    def add_file(self, path: str, columns: list[pa.Field], is_inferred: bool) -> None:
        """Adds the columns of a file. `is_inferred`: their types come from a sample. Raises
        InputRefused or UsageError where they conflict with earlier files.
        """
        main, columns_by_name = columns[2].name, dict(self._columns)
        if self._main_column and main != self._main_column:
            raise UsageError(
                f"{printable_path(path)}: its main text is {main}, that of earlier inputs is"
                f" {self._main_column}; one corpus has its main text in one column. Run these"
                " inputs separately."
            )
        for field in columns:
            earlier_type, was_inferred, earlier_path = columns_by_name.get(
                field.name, (pa.null(), True, path)
            )
            merged = _merge_types(earlier_type, field.type, is_inferred and was_inferred)
            if merged is None:
                raise InputRefused(
                    f"column {field.name}: {earlier_type} in {printable_path(earlier_path)}, but"
                    f" {field.type} in {printable_path(path)}; a column has one type in a corpus."
                    " Convert one of them, or run these inputs separately."
                )
            is_fixed = merged != earlier_type or not is_inferred
            columns_by_name[field.name] = (
                merged,
                was_inferred and is_inferred,
                path if is_fixed and not pa.types.is_null(field.type) else earlier_path,
            )
        self._main_column, self._columns = main, columns_by_name

    @property
    def schema(self) -> pa.Schema:
        """The columns of all files."""
        return pa.schema(
            [
                pa.field(name, _finalize_type(data_type) if is_inferred else data_type)
                for name, (data_type, is_inferred, _) in self._columns.items()
            ]
        )


def standardize_batch(
    batch: pa.RecordBatch, mapping: ColumnMapping, schema: pa.Schema
) -> pa.RecordBatch:
    """A batch of a file in standard form. Columns that the file lacks are null."""
    sources = {name: source for source, name in mapping}
    arrays = []
    for field in schema:
        if field.name not in sources:
            arrays.append(pa.nulls(batch.num_rows, field.type))
            continue
        array = batch.column(batch.schema.get_field_index(sources[field.name]))
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        array = text_cells.to_canonical_type(array)
        arrays.append(array if array.type == field.type else array.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def with_shape(roles: Roles, schema: pa.Schema) -> Roles:
    """The roles with the texts of the shape of these columns, or else with the main text that
    `choose_text` chooses, if the user named no text and there is no column `text`."""
    if roles.text != Roles().text or "text" in schema.names:
        return roles
    if (shape := recognize_shape(schema)) is not None:
        return replace(roles, text=shape.texts, shape=shape)
    chosen = choose_text(schema, roles)
    return replace(roles, text=(chosen,), is_chosen=True) if chosen else roles


def describe_chosen_text(main_text: object) -> str:
    """The note on a main text that `choose_text` chose."""
    return (
        f"the main text is {main_text}, since no column is called text; --text-column names another"
    )


def choose_text(schema: pa.Schema, roles: Roles) -> str | None:
    """The main text of a file without a column `text`: the column that is called like one, else
    the first column of strings that is not called like an id, a person or an address, else the
    first one; of columns without strings a text inside one. None where there is no text."""
    candidates = list_text_candidates(schema, roles)
    if not candidates:
        return None
    columns = [one for one in candidates if one in schema.names]
    by_name = {one.lower(): one for one in reversed(columns)}
    named = next((by_name[name] for name in _TEXT_NAMES if name in by_name), None)
    others = (one for one in columns if not _NO_TEXT_NAME.search(one.lower()))
    return named or next(others, (columns or candidates)[0])


def is_header(cells: list[str]) -> bool:
    """Whether the first record of a table has names of columns: different ones that begin with a
    letter, a third of which are names that many tables have."""
    names = [name for cell in cells if (name := cell.strip())]
    known = sum(map(_is_usual_name, names))
    is_name = re.compile(r"[^\W\d][^@\r\n]{0,60}")
    return (
        len({*names}) == len(names)
        and all(map(is_name.fullmatch, names))
        and (known > 0 and len(names) <= 3 * known)
    )


def _is_usual_name(name: str) -> bool:
    """Whether many tables have a column of this name: `email`, `customer_id`, `Zip Code`."""
    words = re.split(r"[\W_]+|(?<=[a-z])(?=[A-Z])", name)
    is_known = [word.lower() in _HEADER_WORDS or word.lower() in _TEXT_NAMES for word in words]
    return all(is_known) if " " in name else is_known[-1]


def find_faults(
    batch: pa.RecordBatch, max_doc_bytes: int, shape: RecordShape | None = None
) -> dict[int, str]:
    """Row -> reason for the rows that must be quarantined: strings that are not UTF-8, more than
    `max_doc_bytes` of text, or records that do not have the shape of the corpus."""
    reason_by_row: dict[int, str] = {}
    sizes = np.zeros(batch.num_rows, np.int64)
    path_arrays: dict[str, text_cells.PathArrays] = {}
    for leaf in text_cells.list_text_leaves(batch.schema):
        column = batch.column(batch.schema.get_field_index(leaf.column))
        flat = text_cells.flatten_leaf(column, leaf, path_arrays.setdefault(leaf.column, {}))
        lengths = count_row_bytes(flat.texts)
        sizes += (
            np.bincount(flat.rows, lengths, batch.num_rows).astype(np.int64)
            if leaf.steps
            else lengths
        )
        try:
            flat.texts.validate(full=True)
        except pa.ArrowInvalid:
            for row, value in zip(
                flat.rows.tolist(), flat.texts.cast(pa.large_binary()), strict=True
            ):
                try:
                    (value.as_py() or b"").decode()
                except UnicodeDecodeError:
                    reason_by_row[row] = "not_utf8"
    if shape is not None and not reason_by_row:
        reason_by_row = find_shape_faults(batch, shape)
    elif shape is not None:  # strings that are not UTF-8 cannot be read
        reason_by_row = (
            find_shape_faults(null_out_rows(batch, reason_by_row), shape) | reason_by_row
        )
    return reason_by_row | dict.fromkeys(
        np.flatnonzero(sizes > max_doc_bytes).tolist(), "too_large"
    )


def null_out_rows(batch: pa.RecordBatch, rows: Iterable[int]) -> pa.RecordBatch:
    """The batch with all cells of these rows null."""
    is_nulled = np.zeros(batch.num_rows, bool)
    is_nulled[list(rows)] = True
    if not is_nulled.any():
        return batch
    row_numbers = pa.array(np.arange(batch.num_rows), mask=is_nulled)
    return batch.take(row_numbers)
