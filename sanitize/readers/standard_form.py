"""The standard form of documents: `doc_id`, `user_id`, the main text, then the other columns, all in the house's plain types.

A column that plays a role is not repeated. A further column whose name the standard form needs for itself (`doc_no`, `doc_id`,
`user_id`, `text`) gets `_` behind it, as often as it takes. Pure functions on schemas and batches; no file is opened here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.core import text_cells
from sanitize.errors import InputRefused, UsageError, nearest
from sanitize.readers.survey_types import Roles, shown

TEXT = pa.large_string()
Mapping = tuple[tuple[str, str], ...]


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """A file's schema in plain types, without metadata; extension types as what they are stored as."""
    kinds = [field.type.storage_type if isinstance(field.type, pa.BaseExtensionType) else field.type for field in schema]
    return pa.schema([pa.field(name, text_cells.plain_type(kind)) for name, kind in zip(schema.names, kinds, strict=True)])


def leaf_of(path: str, schema: pa.Schema) -> text_cells.Leaf | None:
    """The leaf that a path means in a schema: a column of exactly that name first, else column, `[]` and field names."""
    if path in schema.names:
        return text_cells.Leaf(path)
    match = re.fullmatch(r"([^.\[\]]+)((?:\[\]|\.[^.\[\]]+)+)", path)
    if match is None or match[1] not in schema.names:
        return None
    return text_cells.Leaf(match[1], tuple(re.findall(r"\[\]|[^.\[\]]+", match[2])))


def kind_at(leaf: text_cells.Leaf, schema: pa.Schema) -> pa.DataType | None:
    """The type at a leaf; the null type where a column is null all the way; None where the path leads nowhere."""
    kind = schema.field(leaf.column).type
    for step in leaf.steps:
        if pa.types.is_null(kind):
            return kind
        if step == "[]":
            kind = kind.value_type if text_cells.is_list(kind) else None
        else:
            kind = kind.field(step).type if pa.types.is_struct(kind) and kind.get_field_index(step) >= 0 else None
        if kind is None:
            return None
    return kind


def is_binary(kind: pa.DataType) -> bool:
    """True for the types that hold a whole mail's bytes."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def main_column(roles: Roles, schema: pa.Schema) -> str:
    """The main text's column in standard form: `text`, or the column's own name where it is nested."""
    leaf = leaf_of(roles.text[0], schema)
    return leaf.column if leaf and leaf.steps else "text"


def mapping(schema: pa.Schema, roles: Roles, path: str) -> Mapping:
    """(column in the file, column in standard form) for every column of a file, in its order; wrong names in roles are refused."""
    paths = [*schema.names, *(str(leaf) for leaf in text_cells.leaves(schema) if leaf.steps)]
    pairs: list[tuple[str, str]] = []

    def missing(option: str, name: str) -> UsageError:
        return UsageError(f"{shown(path)}: there is no column {name}; name the column with --{option} NAME. Columns {nearest(name, paths)}")

    for number, name in enumerate(roles.text):
        leaf = leaf_of(name, schema)
        kind = kind_at(leaf, schema) if leaf else None
        if leaf is None or kind is None:
            raise missing("text-column", name)
        if not (text_cells.is_text(kind) or pa.types.is_null(kind) or (is_binary(kind) and not leaf.steps)):
            inside = [text for text in paths if text.startswith((f"{name}[", f"{name}."))]
            hint = f" Its texts are {', '.join(inside[:4])}." if inside else ""
            raise UsageError(
                f"{shown(path)}: column {name} is {kind}; --text-column takes a column of strings, or of mails as bytes.{hint}"
            )
        if number == 0:
            pairs.append((leaf.column, leaf.column if leaf.steps else "text"))
    main = pairs[0][1]
    for option, said, standard in (("user-column", roles.user, "user_id"), ("id-column", roles.id, "doc_id")):
        name = said or standard
        if name in schema.names:
            kind = schema.field(name).type
            if pa.types.is_nested(kind) or is_binary(kind):
                raise UsageError(f"{shown(path)}: column {name} is {kind}; --{option} takes a column of strings or numbers.")
            pairs.append((name, standard))
        elif said:
            raise missing(option, said)
    played, taken = {source for source, _ in pairs}, {"doc_no", "doc_id", "user_id", main, *schema.names}
    for name in schema.names:
        if name not in played:
            standard = name
            if name in ("doc_no", "doc_id", "user_id", main):
                while standard in taken:
                    standard += "_"
                taken.add(standard)
            pairs.append((name, standard))
    order = {name: number for number, name in enumerate(schema.names)}
    return tuple(sorted(pairs, key=lambda pair: order[pair[0]]))


def fields(schema: pa.Schema, pairs: Mapping, roles: Roles) -> list[pa.Field]:
    """A file's columns in standard form, the three roles first; a text role read from bytes is text."""
    kinds = {standard: schema.field(source).type for source, standard in pairs if source in schema.names}
    texts = {leaf.column for name in roles.text if (leaf := leaf_of(name, schema)) and not leaf.steps}
    kinds |= {standard: TEXT for source, standard in pairs if source in texts}
    main = main_column(roles, schema)
    kinds |= {"doc_id": TEXT, "user_id": TEXT} | ({"text": TEXT} if main == "text" else {})
    order = dict.fromkeys(("doc_id", "user_id", main, *kinds))
    return [pa.field(name, kinds[name]) for name in order]


def _merged(first: pa.DataType, second: pa.DataType, soft: bool) -> pa.DataType | None:
    """One type for both: equal, or null somewhere in one; inferred types are widened too. None where there is none."""
    if first == second:
        return first
    try:
        merged = pa.unify_schemas(
            [pa.schema([("a", first)]), pa.schema([("a", second)])], promote_options="permissive" if soft else "default"
        )
        return text_cells.plain_type(merged.field("a").type)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return TEXT if soft else None


def _settled(kind: pa.DataType) -> pa.DataType:
    """An inferred type with text in place of what the sample never showed; text altogether where it has an object without keys."""

    def hollow(kind: pa.DataType) -> bool:
        if pa.types.is_struct(kind):
            return not kind.num_fields or any(hollow(field.type) for field in kind)
        return text_cells.is_list(kind) and hollow(kind.value_type)

    def filled(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_struct(kind):
            return pa.struct([(field.name, filled(field.type)) for field in kind])
        if text_cells.is_list(kind):
            return pa.large_list(filled(kind.value_type))
        return TEXT if pa.types.is_null(kind) else kind

    return TEXT if hollow(kind) else filled(kind)


class Union:
    """The columns of a corpus: those of its files in standard form by name, by first appearance."""

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[pa.DataType, bool, str]] = {}
        self._main = ""

    def add(self, path: str, columns: list[pa.Field], soft: bool) -> None:
        """Takes the columns of a file (`soft`: inferred from a sample). A conflict with earlier ones is refused."""
        main, kinds = columns[2].name, dict(self._kinds)
        if self._main and main != self._main:
            raise UsageError(
                f"{shown(path)}: its main text is {main}, that of earlier inputs is {self._main}; "
                "one corpus has its main text in one column. Run them one by one."
            )
        for field in columns:
            kind, was_soft, where = kinds.get(field.name, (pa.null(), True, path))
            merged = _merged(kind, field.type, soft and was_soft)
            if merged is None:
                raise InputRefused(
                    f"column {field.name}: {kind} in {shown(where)}, but {field.type} in {shown(path)}; "
                    "a column has one type in a corpus. Convert one of them, or run them one by one."
                )
            hard = merged != kind or not soft
            kinds[field.name] = (merged, was_soft and soft, path if hard and not pa.types.is_null(field.type) else where)
        self._main, self._kinds = main, kinds

    @property
    def schema(self) -> pa.Schema:
        """The columns of all files."""
        return pa.schema([pa.field(name, _settled(kind) if soft else kind) for name, (kind, soft, _) in self._kinds.items()])


def standard(batch: pa.RecordBatch, pairs: Mapping, schema: pa.Schema) -> pa.RecordBatch:
    """A batch of a file as it lies there, in standard form. Columns that the file lacks are null."""
    sources = {name: source for source, name in pairs}
    arrays = []
    for field in schema:
        if field.name not in sources:
            arrays.append(pa.nulls(batch.num_rows, field.type))
            continue
        array = batch.column(batch.schema.get_field_index(sources[field.name]))
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        array = text_cells.plain(array)
        arrays.append(array if array.type == field.type else array.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def faults(batch: pa.RecordBatch, max_doc_bytes: int) -> dict[int, str]:
    """Rows of a batch in standard form that must be set aside: strings that are not UTF-8, or too many bytes of them."""
    found: dict[int, str] = {}
    sizes = np.zeros(batch.num_rows, np.int64)
    for leaf in text_cells.leaves(batch.schema):
        flat = text_cells.flatten(batch.column(batch.schema.get_field_index(leaf.column)), leaf)
        lengths = np.asarray(pc.fill_null(pc.binary_length(flat.texts), 0), np.int64)
        sizes += np.bincount(flat.rows, lengths, batch.num_rows).astype(np.int64)
        try:
            flat.texts.validate(full=True)
        except pa.ArrowInvalid:
            for row, value in zip(flat.rows.tolist(), flat.texts.cast(pa.large_binary()), strict=True):
                try:
                    (value.as_py() or b"").decode()
                except UnicodeDecodeError:
                    found[row] = "not_utf8"
    return found | dict.fromkeys(np.flatnonzero(sizes > max_doc_bytes).tolist(), "too_large")


def without(batch: pa.RecordBatch, rows: Iterable[int]) -> pa.RecordBatch:
    """The batch with all cells of these rows null."""
    gone = np.zeros(batch.num_rows, bool)
    gone[list(rows)] = True
    if not gone.any():
        return batch
    take = pa.array(np.arange(batch.num_rows), mask=gone)
    return batch.take(take)
