"""Texts to search in what is no text: columns of numbers and of bytes, and pieces of files."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.array_types import I64, U8
from sanitize.core.arrow_buffers import TextBuffers, slice_spans
from sanitize.text.decodings import ENCODED_FORMS
from sanitize.verification.parquet_pages import as_single_text, find_readable_spans

# forms that are searched in all bytes; the others are searched in stretches that are text
_FORMS_OF_BYTES = tuple(form for form in ("UTF-16", "UTF-32") if form in ENCODED_FORMS)


def list_texts_in_bytes(
    data: U8,
) -> Iterator[tuple[pa.LargeStringArray, I64, tuple[str, ...] | None]]:
    """Yields texts in some bytes, the offset of each, and the forms to search in them (None: all):
    the stretches that are text, and all bytes as one text for UTF-16."""
    if len(data):
        starts, ends = find_readable_spans(data)
        if len(starts):
            yield (
                slice_spans(TextBuffers.from_array(as_single_text(data)), starts, ends),
                starts,
                None,
            )
        yield as_single_text(data), np.zeros(1, np.int64), _FORMS_OF_BYTES


def list_binary_texts(
    column: pa.Array,
) -> Iterator[tuple[pa.LargeStringArray, tuple[str, ...] | None]]:
    """Yields the texts in a column of bytes, as `list_texts_in_bytes`; its values are joined with
    three zero bytes between them."""
    for leaf in _list_leaves(column, _is_bytes):
        data = np.frombuffer(
            b"\0\0\0".join(value for value in leaf.to_pylist() if value is not None), np.uint8
        )
        for texts, _, forms in list_texts_in_bytes(data):
            yield texts, forms


def list_number_texts(column: pa.Array) -> Iterator[pa.LargeStringArray]:
    """Yields the numbers of a column, written in digits; of floats those without a fraction."""
    for numbers in _list_leaves(column, _is_number):
        if pa.types.is_floating(numbers.type):
            floats = numbers.cast(pa.float64())
            is_whole = pc.and_(pc.equal(pc.floor(floats), floats), pc.less(pc.abs(floats), 2.0**63))
            numbers = floats.filter(pc.fill_null(is_whole, False)).cast(pa.int64())
        yield numbers.cast(pa.string()).cast(pa.large_string()).fill_null("")


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _list_leaves(array: pa.Array, is_wanted: Callable[[pa.DataType], bool]) -> Iterator[pa.Array]:
    """Yields the arrays of a wanted type in an array of lists and structs."""
    if pa.types.is_large_list(array.type):
        yield from _list_leaves(array.flatten(), is_wanted)
    elif pa.types.is_struct(array.type):
        for part in array.flatten():
            yield from _list_leaves(part, is_wanted)
    elif is_wanted(array.type):
        yield array
