"""The texts of a document: where the string columns of a table are, as flat columns of cells, and how they are put back.

A *leaf* is a path to strings inside a column: `text`, `tags[]`, `messages[].content`. Cell 0 of a document is its main text; the
other leaves follow in schema order, the elements of a nested leaf one after the other. Pure Arrow; no text is copied to find a leaf.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Leaf:
    """A path to strings: the column, then `[]` for every list and a name for every struct field on the way down."""

    column: str
    steps: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.column + "".join(step if step == "[]" else f".{step}" for step in self.steps)


def is_text(kind: pa.DataType) -> bool:
    """True for every Arrow type that holds strings, dictionaries of strings too."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_list(kind: pa.DataType) -> bool:
    """True for lists with offsets (list and large_list; maps are lists of entries)."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind))


def leaves(schema: pa.Schema) -> list[Leaf]:
    """All leaves of a schema, in schema order."""
    found: list[Leaf] = []

    def walk(kind: pa.DataType, leaf: Leaf) -> None:
        if is_text(kind):
            found.append(leaf)
        elif pa.types.is_map(kind):
            inside = Leaf(leaf.column, (*leaf.steps, "[]"))
            walk(kind.key_type, Leaf(inside.column, (*inside.steps, "key")))
            walk(kind.item_type, Leaf(inside.column, (*inside.steps, "value")))
        elif is_list(kind):
            walk(kind.value_type, Leaf(leaf.column, (*leaf.steps, "[]")))
        elif pa.types.is_struct(kind):
            for field in kind:
                walk(field.type, Leaf(leaf.column, (*leaf.steps, field.name)))

    for field in schema:
        walk(field.type, Leaf(field.name))
    return found


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type in which the house handles a column: strings large and without dictionary, nested types likewise, all else as it is."""
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if is_text(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_map(kind):
        return pa.large_list(pa.struct([("key", plain_type(kind.key_type)), ("value", plain_type(kind.item_type))]))
    if is_list(kind) or pa.types.is_fixed_size_list(kind) or pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return pa.large_list(plain_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, plain_type(field.type)) for field in kind])
    return kind


def plain(array: pa.Array) -> pa.Array:
    """An array in the house's plain type, so that every leaf can be reached; a no-op where it already is."""
    wanted = plain_type(array.type)
    if array.type == wanted:
        return array
    if pa.types.is_map(array.type):
        array = array.cast(pa.list_(pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])))
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array.cast(wanted)


@dataclass(frozen=True, repr=False)
class Flat:
    """The strings of one leaf of a batch, flat: `texts` (large_string, never chunked), the row of each, and its place in the row."""

    texts: pa.Array
    rows: I64
    places: npt.NDArray[np.int32]


def flatten(column: pa.Array, leaf: Leaf) -> Flat:
    """The strings of one leaf of a plain, unchunked column; null strings are there as nulls."""
    rows: I64 = np.arange(len(column), dtype=np.int64)
    array = column
    for step in leaf.steps:
        if step == "[]":
            lengths = np.asarray(pc.fill_null(pc.list_value_length(array), 0), np.int64)
            rows = np.repeat(rows, lengths)
            array = array.flatten()
        else:
            array = pc.struct_field(array, step)
    if not leaf.steps:
        return Flat(array, rows, np.zeros(len(rows), np.int32))
    firsts = np.searchsorted(rows, np.arange(len(column), dtype=np.int64))
    return Flat(array, rows, (np.arange(len(rows)) - firsts[rows]).astype(np.int32))


def replaced(column: pa.Array, leaf: Leaf, texts: pa.Array) -> pa.Array:
    """The column with the strings of one leaf replaced by `texts` (same length and order as `flatten` gave)."""
    return _rebuilt(column, leaf.steps, texts)


def _rebuilt(array: pa.Array, steps: tuple[str, ...], texts: pa.Array) -> pa.Array:
    # a function of its own, not one inside `replaced`: one that calls itself would hold the texts in a circle of references
    if not steps:
        return texts
    mask = array.is_null() if array.null_count else None
    if steps[0] == "[]":
        lengths = np.asarray(pc.fill_null(pc.list_value_length(array), 0), np.int64)
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int64())
        return pa.LargeListArray.from_arrays(offsets, _rebuilt(array.flatten(), steps[1:], texts), mask=mask)
    fields: list[Any] = list(array.type)
    parts = [pc.struct_field(array, field.name) for field in fields]
    parts = [_rebuilt(part, steps[1:], texts) if field.name == steps[0] else part for field, part in zip(fields, parts, strict=True)]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=mask)
