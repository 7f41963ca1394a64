"""Text cells of a document: lists the string leaves of a schema, flattens each into a column of
texts, and writes texts back.

A *leaf* is a path to strings inside a column: `text`, `tags[]`, `messages[].content`,
`call.arguments{}` (the strings inside JSON). Cell 0 of a document is its main text; the other
leaves follow in schema order, the elements of a nested leaf one after the other. Uses Arrow only;
finding a leaf copies no text.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.array_types import I32, I64

LIST_STEP = "[]"
JSON_STEP = "{}"  # the last step of a leaf: the strings inside a string of JSON
NUMBER_STEP = "#"  # the last step of a leaf: a whole number, or a date, as a text
_RESERVED_STEPS = (LIST_STEP, JSON_STEP, NUMBER_STEP)
_MIN_NUMBER_LENGTH = (
    7  # no kind has a value of fewer digits in a row that a number alone would show
)
_MAX_WHOLE_FLOAT = 1 << 53  # beyond, a float does not have all digits of an integer
_LITERAL = re.compile(r'"(?:[^"\\]++|\\.)*+"|-?[0-9][0-9.eE+-]*+', re.DOTALL)


@dataclass(frozen=True)
class LeafPath:
    """A path to strings: the column, then `[]` for every list and a name for every struct field on
    the way down (`get_step`); at last `{}` for the strings inside JSON, or `#` for numbers and
    dates, which are searched as texts."""

    column: str
    steps: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.column + "".join(
            step if step in (LIST_STEP, JSON_STEP) else f".{step}"
            for step in self.steps
            if step != NUMBER_STEP
        )

    @property
    def field_names(self) -> list[str]:
        """The names of the struct fields on the way down."""
        return [get_field_name(step) for step in self.steps if step not in _RESERVED_STEPS]

    @property
    def name(self) -> str:
        """The name of the column; of a field inside one its name behind that of what it is in, such
        as `user.name`, which says more than `name`."""
        return join_names(*[self.column, *self.field_names][-2:])

    @property
    def stored(self) -> LeafPath:
        """The path to what is stored: of a leaf inside JSON the JSON, of one of digits the
        number."""
        is_part = self.steps[-1:] in ((JSON_STEP,), (NUMBER_STEP,))
        return LeafPath(self.column, self.steps[:-1]) if is_part else self


def join_names(outer: str, name: str = "") -> str:
    """The name of a field behind that of the field or column that it is in.

    >>> join_names("phone"), join_names("phone", "number")
    ('phone', 'phone.number')
    """
    return f"{outer}.{name}" if name else outer


def get_step(field_name: str) -> str:
    r"""The step into a struct field: its name. `[]`, `{}` and `#` are steps of their own: fields
    with these names, and with such a name behind backslashes, get one backslash more.

    >>> get_step("author"), get_step("[]"), get_field_name(get_step("[]"))
    ('author', '\\[]', '[]')
    """
    is_reserved = field_name.lstrip("\\") in _RESERVED_STEPS
    return f"\\{field_name}" if is_reserved else field_name


def get_field_name(step: str) -> str:
    """The name of the struct field that a step of `get_step` leads into."""
    return step[1:] if step.lstrip("\\") in _RESERVED_STEPS else step


def column_of_path(path: str) -> str:
    """The column of a leaf path such as `messages[].content`."""
    return path.partition("[")[0].partition(".")[0]


def parse_path(path: str) -> LeafPath:
    """The path of a text such as `messages[].content`; one with other brackets is a column.

    >>> parse_path("meta.refs[].by").steps, parse_path("a[0]").steps
    (('refs', '[]', 'by'), ())
    """
    match = re.fullmatch(r"([^.\[\]]+)((?:\[\]|\.[^.\[\]]+)+)", path)
    if match is None:
        return LeafPath(path)
    return LeafPath(match[1], tuple(re.findall(r"\[\]|[^.\[\]]+", match[2])))


@dataclass(frozen=True)
class Policies:
    """What is done with each column (`sanitize`, `keep`, `pseudonymize` or `drop`), and with the
    parts of columns for which something else was asked."""

    by_column: Mapping[str, str]
    by_path: Mapping[LeafPath, str] = field(default_factory=dict)

    def at(self, path: LeafPath) -> str:
        """The policy of what is at a path: that of the longest part of the path that has one."""
        for length in range(len(path.steps), 0, -1) if self.by_path else ():
            if policy := self.by_path.get(LeafPath(path.column, path.steps[:length])):
                return policy
        return self.by_column[path.column]

    def with_columns(self, by_column: Mapping[str, str]) -> Policies:
        """The same with other policies of some columns."""
        return replace(self, by_column={**self.by_column, **by_column})

    def list_columns(self, *policies: str) -> list[str]:
        """The columns that have one of these policies, in the order of the schema."""
        return [name for name, policy in self.by_column.items() if policy in policies]


def is_text_type(data_type: pa.DataType) -> bool:
    """True for every Arrow type that holds strings, including dictionaries of strings."""
    if pa.types.is_dictionary(data_type):
        return is_text_type(data_type.value_type)
    return bool(
        pa.types.is_string(data_type)
        or pa.types.is_large_string(data_type)
        or pa.types.is_string_view(data_type)
    )


def is_list_type(data_type: pa.DataType) -> bool:
    """True for lists with offsets (list and large_list; maps are lists of entries)."""
    return bool(
        pa.types.is_list(data_type)
        or pa.types.is_large_list(data_type)
        or pa.types.is_map(data_type)
    )


def list_text_leaves(schema: pa.Schema) -> list[LeafPath]:
    """The paths of all strings in a schema, in schema order, also inside structs, lists and maps.
    Fixed-size lists and list views are not entered: convert the types with `to_canonical_type`
    first."""
    return [path for path, data_type in iterate_paths(schema) if is_text_type(data_type)]


def list_number_leaves(
    schema: pa.Schema, is_searched: Callable[[str, pa.DataType], bool]
) -> list[LeafPath]:
    """The paths to the texts of all numbers and dates in a schema that are searched, by the name of
    their column or field and their type, in schema order."""
    return [
        LeafPath(path.column, (*path.steps, NUMBER_STEP))
        for path, data_type in iterate_paths(schema)
        if (is_number_type(data_type) or is_date_type(data_type))
        and is_searched(path.name, data_type)
    ]


def is_date_type(data_type: pa.DataType) -> bool:
    """True for dates and timestamps."""
    return bool(pa.types.is_date(data_type) or pa.types.is_timestamp(data_type))


def is_number_type(data_type: pa.DataType) -> bool:
    """True for integers, floats and decimals."""
    return bool(
        pa.types.is_integer(data_type)
        or pa.types.is_floating(data_type)
        or pa.types.is_decimal(data_type)
    )


def iterate_paths(schema: pa.Schema) -> Iterator[tuple[LeafPath, pa.DataType]]:
    """The paths of all columns and of all that is inside them, with their types, in schema order
    and outer ones first."""
    for column in schema:
        yield from _iterate_inner_paths(LeafPath(column.name), column.type)


def _iterate_inner_paths(
    path: LeafPath, data_type: pa.DataType
) -> Iterator[tuple[LeafPath, pa.DataType]]:
    yield path, data_type
    inner: list[tuple[str, pa.DataType]] = []
    if pa.types.is_map(data_type):
        entry = pa.struct([("key", data_type.key_type), ("value", data_type.item_type)])
        inner = [(LIST_STEP, entry)]
    elif is_list_type(data_type):
        inner = [(LIST_STEP, data_type.value_type)]
    elif pa.types.is_struct(data_type):
        inner = [(get_step(one.name), one.type) for one in data_type]
    for step, inner_type in inner:
        yield from _iterate_inner_paths(LeafPath(path.column, (*path.steps, step)), inner_type)


def canonical_type(data_type: pa.DataType) -> pa.DataType:
    """The Arrow type that sanitize uses for a column: large_string without dictionary, large lists,
    structs; other types unchanged."""
    if isinstance(data_type, pa.BaseExtensionType):
        # strings of an extension type, such as JSON, are searched like others
        return canonical_type(data_type.storage_type)
    if pa.types.is_dictionary(data_type):
        return canonical_type(data_type.value_type)
    if is_text_type(data_type):
        return pa.large_string()
    if pa.types.is_binary_view(data_type):
        return pa.large_binary()
    if pa.types.is_map(data_type):
        return pa.large_list(
            pa.struct(
                [
                    ("key", canonical_type(data_type.key_type)),
                    ("value", canonical_type(data_type.item_type)),
                ]
            )
        )
    if (
        is_list_type(data_type)
        or pa.types.is_fixed_size_list(data_type)
        or pa.types.is_list_view(data_type)
        or pa.types.is_large_list_view(data_type)
    ):
        return pa.large_list(canonical_type(data_type.value_type))
    if pa.types.is_struct(data_type):
        return pa.struct([pa.field(one.name, canonical_type(one.type)) for one in data_type])
    return data_type


def to_canonical_type(array: pa.Array) -> pa.Array:
    """An array cast to `canonical_type` of its type, so that `flatten_leaf` can enter it; returned
    unchanged if it has that type already. Unions and run-end-encoded arrays are not converted."""
    if isinstance(array, pa.LargeStringArray):
        return array
    if isinstance(array, pa.StringArray) and len(array):
        # the most frequent cast: of many columns with few rows, that of Arrow takes ten times as
        # long
        validity, offsets, data = array.buffers()
        wide = np.frombuffer(offsets, np.int32, len(array) + array.offset + 1).astype(np.int64)
        buffers = [validity, pa.py_buffer(wide), data]
        return pa.Array.from_buffers(pa.large_string(), len(array), buffers, -1, array.offset)
    target_type = canonical_type(array.type)
    if array.type == target_type:
        return array
    if pa.types.is_map(array.type):
        array = array.cast(
            pa.list_(pa.struct([("key", array.type.key_type), ("value", array.type.item_type)]))
        )
    if pa.types.is_dictionary(array.type):
        # Arrow does not decode a dictionary of string views
        return to_canonical_type(array.dictionary).take(array.indices)
    try:
        return array.cast(target_type)
    except pa.ArrowNotImplementedError:  # for the same reason, of a dictionary inside
        if pa.types.is_struct(array.type):
            parts = [to_canonical_type(part) for part in map(array.field, range(len(target_type)))]
            return pa.StructArray.from_arrays(parts, fields=list(target_type), mask=array.is_null())
        if not is_list_type(array.type):
            raise
        offsets = pa.array(np.asarray(array.offsets, np.int64))
        return pa.LargeListArray.from_arrays(
            offsets, to_canonical_type(array.values), type=target_type, mask=array.is_null()
        )


@dataclass(frozen=True, repr=False)
class FlatTexts:
    """The strings of one leaf of a batch as a flat column: `texts` (large_string, unchunked), the
    row of each, and its index in the row; of a leaf inside JSON also the key of each (see
    `list_keyed_strings`)."""

    texts: pa.Array
    rows: I64
    positions: I32
    keys: tuple[str, ...] | None = None


# by the first steps of a path: the array that they lead to, and the row of each of its elements
PathArrays = dict[tuple[str, ...], tuple[pa.Array, I64]]


def flatten_leaf(
    column: pa.Array, leaf: LeafPath, path_arrays: PathArrays | None = None
) -> FlatTexts:
    """The strings of one leaf of an unchunked column of canonical type; null strings stay as nulls.
    With one `path_arrays` for all leaves of a column, each of its structs is taken apart once."""
    path_arrays = {} if path_arrays is None else path_arrays
    rows: I64 = np.arange(len(column), dtype=np.int64)
    array, keys = column, None
    for number, step in enumerate(leaf.steps):
        path = leaf.steps[: number + 1]
        if path in path_arrays:
            array, rows = path_arrays[path]
        elif step == LIST_STEP:
            lengths = np.asarray(pc.fill_null(pc.list_value_length(array), 0), np.int64)
            rows = np.repeat(rows, lengths)
            array = array.flatten()
            path_arrays[path] = array, rows
        elif step == JSON_STEP:
            strings = [list_keyed_strings(text, leaf.name) for text in array.to_pylist()]
            rows = np.repeat(rows, [len(found) for found in strings])
            array = pa.array([text for found in strings for _, text in found], pa.large_string())
            keys = tuple(key for found in strings for key, _ in found)
        elif step == NUMBER_STEP:
            array = write_numbers(array)
        else:
            if array.type.get_field_index(get_field_name(step)) < 0:
                raise pa.ArrowInvalid("a struct has no field of this name, or several")
            # every call of Arrow on a struct, such as `struct_field` or `is_valid`, takes time for
            # each of its fields
            for field, values in zip(array.type, array.flatten(), strict=True):
                path_arrays[(*path[:-1], get_step(field.name))] = values, rows
            array, rows = path_arrays[path]
    if not leaf.steps:
        return FlatTexts(array, rows, np.zeros(len(rows), np.int32))
    firsts = np.searchsorted(rows, np.arange(len(column), dtype=np.int64))
    return FlatTexts(array, rows, (np.arange(len(rows)) - firsts[rows]).astype(np.int32), keys)


def replace_leaf_texts(column: pa.Array, texts: Mapping[LeafPath, pa.Array]) -> pa.Array:
    """The column with the strings of some of its leaves replaced by `texts` (same length and order
    as `flatten_leaf` returned). One pass over its fields, however many leaves."""
    return _rebuild(column, {leaf.steps: replaced for leaf, replaced in texts.items()})


def rewrite_parts(
    column: pa.Array, column_name: str, policies: Policies, encode: Callable[..., pa.Array]
) -> pa.Array:
    """The column with the texts of pseudonymized parts replaced by `encode(texts, path)`, and all
    in dropped parts by nulls."""
    parts = dict[LeafPath, pa.Array]()
    for path, policy in policies.by_path.items():
        if path.column == column_name and policy in ("pseudonymize", "drop"):
            part = flatten_leaf(column, path).texts
            is_dropped = policy == "drop"
            parts[path] = pa.nulls(len(part), part.type) if is_dropped else encode(part, str(path))
    return replace_leaf_texts(column, parts) if parts else column


def _rebuild(array: pa.Array, texts: Mapping[tuple[str, ...], pa.Array]) -> pa.Array:
    # Not nested in `replace_leaf_texts`: a recursive closure would keep the texts alive in a
    # reference cycle.
    if () in texts:
        return texts[()]
    by_step: dict[str, dict[tuple[str, ...], pa.Array]] = {}
    for (step, *rest), replaced in texts.items():
        by_step.setdefault(step, {})[tuple(rest)] = replaced
    if JSON_STEP in by_step:
        strings = iter(by_step[JSON_STEP][()].to_pylist())
        rewritten = [
            replace_strings(text, [next(strings) for _ in list_strings(text)])
            for text in array.to_pylist()
        ]
        return pa.array(rewritten, pa.large_string())
    if NUMBER_STEP in by_step:
        return _from_digits(by_step[NUMBER_STEP][()], array)
    mask = array.is_null() if array.null_count else None
    if LIST_STEP in by_step:
        lengths = np.asarray(pc.fill_null(pc.list_value_length(array), 0), np.int64)
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int64())
        return pa.LargeListArray.from_arrays(
            offsets, _rebuild(array.flatten(), by_step[LIST_STEP]), mask=mask
        )
    fields: list[Any] = list(array.type)
    parts = [
        _rebuild(part, by_step[step]) if (step := get_step(field.name)) in by_step else part
        for field, part in zip(fields, array.flatten(), strict=True)
    ]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=mask)


def write_numbers(numbers: pa.Array) -> pa.LargeStringArray:
    """Whole numbers as their digits, and dates; null for other numbers."""
    if pa.types.is_decimal(numbers.type):
        digits = pc.replace_substring_regex(numbers.cast(pa.string()), r"\.0*$", "")
        is_whole = pc.match_substring_regex(digits, r"^-?[0-9]+$")
        return pc.if_else(is_whole, digits, None).cast(pa.large_string())
    if pa.types.is_floating(numbers.type):
        floats = numbers.cast(pa.float64())
        is_whole = pc.and_(
            pc.equal(pc.floor(floats), floats), pc.less(pc.abs(floats), float(_MAX_WHOLE_FLOAT))
        )
        numbers = pc.if_else(pc.fill_null(is_whole, False), floats, None).cast(pa.int64())
    return numbers.cast(pa.string()).cast(pa.large_string())


def _from_digits(texts: pa.LargeStringArray, numbers: pa.Array) -> pa.Array:
    """The numbers, with those whose digits differ from `texts` replaced: by the number that the
    text is, or by a null where it is none of that type. A date is replaced by a null."""
    digits = write_numbers(numbers)
    is_kept = pc.or_(
        pc.fill_null(pc.equal(digits, texts), False), pc.and_(digits.is_null(), texts.is_null())
    )
    if is_date_type(numbers.type):
        return pc.if_else(is_kept, numbers, pa.scalar(None, numbers.type))
    replaced = pl.Series(pc.if_else(is_kept, None, texts), dtype=pl.String)
    target_type = pl.Series(numbers.slice(0, 0)).dtype
    is_whole = replaced.str.contains(r"\A[0-9]{1,18}\z")
    new = (
        replaced.set(~is_whole.fill_null(False), None)
        .cast(pl.Int64)
        .cast(target_type, strict=False)
    )
    return pc.if_else(is_kept, numbers, new.to_arrow().cast(numbers.type))


# ---- leaves of Python values ----


def iterate_leaf(
    value: Any, steps: tuple[str, ...], *, fill_missing: bool = False
) -> Iterator[Any]:
    """The values at the end of a path of steps inside a Python value: one, or one for every element
    of the lists on the way. None where the path does not exist; with `fill_missing` a None for
    every missing field, as `flatten_leaf` has a null for it.

    >>> turns = [{"content": "Hi", "call": '{"to": "Ann"}'}, {}]
    >>> list(iterate_leaf(turns, ("[]", "content"), fill_missing=True)), list(
    ...     iterate_leaf(turns, ("[]", "call", "{}"))
    ... )
    (['Hi', None], ['to', 'Ann'])
    """
    if not steps:
        yield value
    elif steps[0] == LIST_STEP:
        for inner in value if isinstance(value, list) else ():
            yield from iterate_leaf(inner, steps[1:], fill_missing=fill_missing)
    elif steps[0] == JSON_STEP:
        yield from list_strings(value) if isinstance(value, str) else ()
    elif steps[0] == NUMBER_STEP:
        if (text := write_number(value)) is not None:
            yield text
    elif isinstance(value, dict) and (name := get_field_name(steps[0])) in value:
        yield from iterate_leaf(value[name], steps[1:], fill_missing=fill_missing)
    elif fill_missing and not {*_RESERVED_STEPS} & set(steps):
        yield None


def replace_leaf(
    value: Any, steps: tuple[str, ...], texts: Iterator[str | None], *, fill_missing: bool = False
) -> Any:
    """A copy of the value with the strings at the end of a path replaced, in the order of
    `iterate_leaf`."""
    if not steps:
        return next(texts) if value is None or isinstance(value, str) else value
    if steps[0] == LIST_STEP:
        return (
            [replace_leaf(one, steps[1:], texts, fill_missing=fill_missing) for one in value]
            if isinstance(value, list)
            else value
        )
    if steps[0] == JSON_STEP:
        return (
            replace_strings(value, [next(texts) for _ in list_strings(value)])
            if isinstance(value, str)
            else value
        )
    if steps[0] == NUMBER_STEP:
        given = write_number(value)
        if given is None or (text := next(texts)) == given:
            return value
        is_new_number = is_whole_number(value) and text and text.isascii() and text.isdigit()
        return type(value)(text) if is_new_number else None
    if isinstance(value, dict) and (name := get_field_name(steps[0])) in value:
        return {
            **value,
            name: replace_leaf(value[name], steps[1:], texts, fill_missing=fill_missing),
        }
    if fill_missing and not {*_RESERVED_STEPS} & set(steps):
        next(texts)
    return value


def write_number(value: Any) -> str | None:
    """The text by which a whole number or a date is searched; None for other values."""
    if is_whole_number(value):
        return str(int(value))
    return str(value) if isinstance(value, datetime.date) else None


def is_whole_number(value: Any) -> bool:
    """True for integers, and for floats and decimals without a fraction that have all digits of
    one."""
    if isinstance(value, float | decimal.Decimal):
        return math.isfinite(value) and abs(float(value)) < _MAX_WHOLE_FLOAT and value == int(value)
    return isinstance(value, int) and not isinstance(value, bool)


# ---- strings inside JSON ----
#
# Tool calls hold their arguments as JSON in a string. Searched as it is, such a text has escapes
# where its values have characters (`\n`, `\u00e9`), and a replacement could break its syntax. Long
# numbers count as strings: one that is replaced becomes a string. Arguments that are JSON in a
# string inside a turn are entered. The words that chat formats have around their data are not
# listed: no finder takes them for a value, and an editor that rewrites words would break the
# format.

# what chat formats call the parties of a conversation, in lower case
CHAT_ROLES = frozenset(
    "system developer user assistant tool function human gpt chatgpt bard bing claude model bot ai"
    " agent chatbot prompter observation environment context critic ipython tools function_call"
    " function_response tool_call tool_calls tool_response tool_result instruction input"
    " output".split()
)
_CHAT_FIELDS = frozenset(
    "role from content value type text name id index function tool_calls tool_call_id function_call"
    " arguments parameters image image_url url audio input_audio video file refusal reasoning"
    " reasoning_content thinking weight train".split()
)
_ROLE_WORDS = CHAT_ROLES - {"claude", "bard", "bing"}  # without names that people have, too
_NAMED_FIELDS = {
    "role": _ROLE_WORDS,
    "from": _ROLE_WORDS,
    "type": _CHAT_FIELDS | {"object", "string", "input_text", "output_text"},
}
_COLON = re.compile(r"\s*:")


def is_valid_json(text: str) -> bool:
    """True for a JSON text whose strings can be written as UTF-8; blank texts count, because they
    hold nothing."""
    if not text.strip():
        return True
    try:
        json.dumps(json.loads(text), ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return True


def list_strings(text: str | None) -> list[str]:
    """The strings of a JSON text in order, keys too, and its long numbers; without the words of
    chat formats. A text that is not valid JSON counts as one string.

    >>> list_strings('{"to": "Ann\\\\nRoe", "call": 2055550142, "n": 3}')
    ['to', 'Ann\\nRoe', 'call', '2055550142', 'n']
    """
    return [string for _, string in list_keyed_strings(text)]


def list_keyed_strings(text: str | None, name: str = "") -> list[tuple[str, str]]:
    """The strings of `list_strings`, each behind the key that it is the value of, or an element of
    whose list it is; "" for a key itself, and `name` for a text that is no JSON.

    >>> list_keyed_strings('{"to": ["Ann", "Bo"], "ssn": 123456789}')
    [('', 'to'), ('to', 'Ann'), ('to', 'Bo'), ('', 'ssn'), ('ssn', '123456789')]
    """
    if not text or not text.strip():
        return []
    if not is_valid_json(text):
        return [(name, text)]
    return [
        keyed
        for _, _, key, value, inner in _iterate_literals(text)
        for keyed in ([(key, value)] if inner is None else inner)
    ]


def replace_strings(text: str | None, strings: list[str | None]) -> str | None:
    """The JSON text with its strings replaced by `strings`, as many as `list_strings` returned;
    unchanged ones keep their bytes.

    >>> arguments = '{"to": "Ann", "call": 2055550142}'
    >>> replace_strings(arguments, ["to", 'A "B"', "call", "[PHONE_NUMBER]"])
    '{"to": "A \\\\"B\\\\"", "call": "[PHONE_NUMBER]"}'
    """
    if not text or not text.strip():
        return text
    if not is_valid_json(text):
        return strings[0]
    parts, position, rest = [], 0, iter(strings)
    for start, end, _, value, inner in _iterate_literals(text):
        replacement = (
            next(rest) if inner is None else replace_strings(value, [next(rest) for _ in inner])
        )
        if replacement != value:
            parts += [text[position:start], json.dumps(replacement, ensure_ascii=text.isascii())]
            position = end
    return "".join([*parts, text[position:]])


def _iterate_literals(
    text: str,
) -> Iterator[tuple[int, int, str, str, list[tuple[str, str]] | None]]:
    """(start, end, key, value, None) of each string and each long number of a valid JSON text,
    without the words of chat formats; for arguments that hold an object or a list as JSON, the
    strings inside in place of None."""
    key = ""
    for literal in _LITERAL.finditer(text):
        token = literal[0]
        if token[0] != '"':
            if len(token) >= _MIN_NUMBER_LENGTH:
                yield literal.start(), literal.end(), key, token, None
            continue
        value = json.loads(token)
        is_key = _COLON.match(text, literal.end()) is not None
        if is_key:
            key = value
            if value in _CHAT_FIELDS:
                continue
        elif value.lower() in _NAMED_FIELDS.get(key, ()):
            continue
        is_json = key == "arguments" and value.lstrip()[:1] in ("{", "[") and is_valid_json(value)
        inner = list_keyed_strings(value) if is_json else None
        yield literal.start(), literal.end(), "" if is_key else key, value, inner
