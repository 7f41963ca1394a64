"""Runs over objects in memory: a Dataset or DatasetDict of `datasets`, a frame of Polars (also
lazy) or pandas, an Arrow table or a list of records goes in, and the same type comes back.

    object -> Arrow files, one a split -> a run -> OUT -> columns, types and order of the object

The files lie in a temporary folder while the run lasts. They are decoded into the private folder,
so that it does not depend on them. `datasets` is imported only if an object of it is given.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.core.text_cells import is_text_type
from sanitize.errors import SanitizeError, UsageError
from sanitize.pipeline.input_objects import read_object
from sanitize.plans.python_api import name_data_object
from sanitize.readers.standard_form import has_unknown_type, map_columns, with_shape
from sanitize.readers.survey_types import UNKNOWN_TYPES, Roles
from sanitize.storage.corpus import Corpus
from sanitize.storage.records.record_shapes import canonical_schema
from sanitize.storage.records.splits import SPLIT_NAME

if TYPE_CHECKING:
    from sanitize.pipeline.run_results import RunResult

_BATCH_ROWS = 5_000
_SINGLE_SPLIT = ""  # the name of the only table of an object that is no DatasetDict


def run_on_object(
    data: Any,
    out: Path | str | None,
    run: Callable[[Path, Path | str], RunResult],
    named_columns: Collection[str] = (),
) -> Any:
    """The object with its texts sanitized, as the same type. `run` gets the folder of the input and
    OUT, which is temporary without `out`.

    Rows that the plan drops or that are quarantined are missing; a warning tells how many. Columns
    that are dropped are missing, with a warning for those that are not in `named_columns` (whose
    policy the user chose). Pseudonymized columns are strings. What no run reads is missing, too,
    with a warning: the metadata of an Arrow schema, the description of a Dataset. Raises UsageError
    for an object that cannot be written as Arrow data, and what a run raises.
    """
    given = read_object("run", data)
    unread, data = _list_unread_parts(data), given.data
    with write_object("run", data) as (folder, schemas):
        target = folder.parent / "out" if out is None else out
        result = run(folder, target)
        missing = result.documents_dropped + result.quarantined
        if missing:
            reasons = [*(f"{drop.documents:,} dropped by {drop.part}" for drop in result.dropped)]
            reasons += [
                f"{count:,} quarantined: {reason}" for reason, count in result.quarantine.items()
            ]
            warnings.warn(
                f"{missing:,} of {result.documents_in:,} rows are not in the result"
                f" ({', '.join(reasons)})",
                stacklevel=5,
            )
        corpus = Corpus.open(target)
        policies = {column.name: column.policy for column in result.columns}
        splits = corpus.splits
        tables: dict[str, pa.Table] = {}
        for split, schema in schemas.items():
            source_names = _source_names(schema, corpus.manifest["settings"]["roles"], policies)
            table = (
                corpus.table(split=split if splits else None)
                if not splits or split in splits
                else None
            )
            tables[split] = _restore_table(table, schema, source_names, policies)
        names = dict.fromkeys(name for schema in schemas.values() for name in schema.names)
        dropped = [
            name
            for name in names
            if name not in named_columns
            and not any(name in table.schema.names for table in tables.values())
        ]
        if dropped:
            warnings.warn(
                f"not in the result are columns that hold no text: {', '.join(dropped)};"
                " keep=COLUMN keeps one",
                stacklevel=5,
            )
        if unread:
            warnings.warn(
                f"not in the result, since a run does not read it: {', '.join(unread)}",
                stacklevel=5,
            )
        return given.restore(_build_object(data, tables))


@contextmanager
def write_object(function: str, data: Any) -> Iterator[tuple[Path, dict[str, pa.Schema]]]:
    """The folder of the files that hold data of `read_object`, and the schema of each split: a
    temporary one, beside which the caller may write. Errors of the block name the data instead of
    these files."""
    with tempfile.TemporaryDirectory(prefix="sanitize-object-") as name:
        folder = Path(name) / "in"
        folder.mkdir()
        schemas = _write_tables(function, data, folder)
        try:
            yield folder, schemas
        except SanitizeError as error:
            error.args = tuple(_name_object(one, folder, schemas) for one in error.args)
            raise


def _list_unread_parts(data: Any) -> list[str]:
    """The parts of an object beside its rows that hold something: a run does not search them."""
    kind = name_data_object(data)
    if kind == "Table":
        has_metadata = bool(data.schema.metadata) or any(field.metadata for field in data.schema)
        return ["metadata of the schema"] if has_metadata else []
    if kind == "pandas":
        return ["attrs of the frame"] if data.attrs else []
    datasets = [data] if kind == "Dataset" else data.values() if kind == "DatasetDict" else []
    return [
        name
        for name in ("description", "citation", "homepage", "license")
        if any(getattr(one.info, name) for one in datasets)
    ]


# -------------------------------------------------------------------------------------- reading


def _name_object(message: Any, folder: Path, splits: Iterable[str]) -> Any:
    """A message of a run, with the splits or the object in place of the temporary files that hold
    them."""
    if not isinstance(message, str):
        return message
    for split in splits:
        message = message.replace(
            str(_table_path(folder, split)), f"split {split}" if split else "the data"
        )
    return message.replace(str(folder), "the data")


def _write_tables(function: str, data: Any, folder: Path) -> dict[str, pa.Schema]:
    """Writes the tables of an object to files; returns the schema of each."""
    if name_data_object(data) == "LazyFrame":
        # written batch by batch: the frame need not fit into memory
        check_frame(function, data.collect_schema())
        path = _table_path(folder, _SINGLE_SPLIT)
        data.sink_ipc(path, compression="uncompressed", compat_level=pl.CompatLevel.oldest())
        with pa.ipc.open_file(path) as file:
            return {_SINGLE_SPLIT: file.schema}
    return {
        split: _write_table(split, schema, batches, folder)
        for split, (schema, batches) in read_splits(function, data).items()
    }


def check_frame(function: str, schema: Mapping[str, Any]) -> None:
    """Raise UsageError for columns of a Polars frame that have no Arrow type."""
    objects = [name for name, dtype in schema.items() if dtype == pl.Object]
    if objects:
        raise UsageError(
            f"{function}: column {objects[0]} holds Python objects; expected types that Arrow has."
            " Convert or drop it"
        )


def check_table(function: str, schema: pa.Schema) -> None:
    """Raise UsageError for columns of an Arrow table that cannot be read."""
    if names := [field.name for field in schema if has_unknown_type(field.type)]:
        raise UsageError(
            f"{function}: column {names[0]} is of a type that cannot be searched: {UNKNOWN_TYPES};"
            " cast it or leave it out"
        )
    parts = [(field.name, part) for field in schema for part in _list_inner_types(field.type)]
    for name, part in parts:
        if pa.types.is_dictionary(part) and not is_text_type(part.value_type):
            raise UsageError(
                f"{function}: column {name} has a dictionary of {part.value_type} inside a list or"
                " struct, which Arrow cannot write again; cast it to its values"
            )


def _list_inner_types(data_type: pa.DataType) -> list[pa.DataType]:
    """The types inside a type, at any depth."""
    found = [data_type.field(number).type for number in range(data_type.num_fields)]
    for inner in found:  # which grows
        found += [inner.field(number).type for number in range(inner.num_fields)]
    return found


def read_splits(function: str, data: Any) -> dict[str, tuple[pa.Schema, Iterable[pa.RecordBatch]]]:
    """The schema and the record batches of each table of an object; a single one has no name."""
    kind = name_data_object(data)
    if kind == "DatasetDict":
        if not data:
            raise UsageError(f"{function}: the DatasetDict has no splits; expected at least one")
        for split in data:
            if SPLIT_NAME.fullmatch(str(split)) is None:
                raise UsageError(
                    f"{function}: a split of the DatasetDict has no name for a file; expected"
                    " letters, digits, _ and dots. Rename it"
                )
        return {str(split): _read_dataset(dataset) for split, dataset in data.items()}
    if kind == "Dataset":
        return {_SINGLE_SPLIT: _read_dataset(data)}
    if kind == "Table":
        check_table(function, data.schema)
        return {_SINGLE_SPLIT: (data.schema, data.to_batches(max_chunksize=_BATCH_ROWS))}
    check_frame(function, data.schema)
    table = data.to_arrow(compat_level=pl.CompatLevel.oldest())
    return {_SINGLE_SPLIT: (table.schema, table.to_batches(max_chunksize=_BATCH_ROWS))}


def _read_dataset(dataset: Any) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """The rows of a Dataset in its order, with its selection of rows."""
    schema = dataset.features.arrow_schema

    def iterate() -> Iterable[pa.RecordBatch]:
        for table in dataset.with_format("arrow").iter(batch_size=_BATCH_ROWS):
            yield from table.cast(schema).to_batches()

    return schema, iterate()


def _table_path(folder: Path, split: str) -> Path:
    """The file of a table: in the hub's layout if there are splits."""
    return folder / "data" / f"{split}-00000-of-00001.arrow" if split else folder / "rows.arrow"


def _write_table(
    split: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], folder: Path
) -> pa.Schema:
    """Writes the batches to one Arrow file; returns their schema."""
    path = _table_path(folder, split)
    path.parent.mkdir(exist_ok=True)
    with pa.ipc.new_stream(path, schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return schema


# -------------------------------------------------------------------------------------- writing


def _source_names(
    schema: pa.Schema, roles: Mapping[str, Any], policies: Mapping[str, str]
) -> dict[str, str]:
    """The column of OUT for each column of the object that is in it."""
    given = Roles(text=tuple(roles["text"]), user=roles.get("user"), id=roles.get("id"))
    plain = canonical_schema(schema)
    names = dict(map_columns(plain, with_shape(given, plain), "the data"))
    return {
        name: source for name, source in names.items() if policies.get(source, "drop") != "drop"
    }


def _restore_table(
    table: pa.Table | None,
    schema: pa.Schema,
    source_names: Mapping[str, str],
    policies: Mapping[str, str],
) -> pa.Table:
    """The columns of OUT under the names, in the order and in the types that they have in the
    object; no rows where `table` is None."""
    columns, fields = [], []
    for field in schema:
        if field.name not in source_names:
            continue
        source = source_names[field.name]
        data_type = pa.string() if policies[source] == "pseudonymize" else field.type
        column = (
            pa.chunked_array([], data_type)
            if table is None
            else restore_type(table.column(source), data_type)
        )
        columns.append(column)
        fields.append(pa.field(field.name, column.type))
    return pa.table(columns, schema=pa.schema(fields))


def restore_type(column: pa.ChunkedArray, data_type: pa.DataType) -> pa.ChunkedArray:
    """A column as the type that it has in the object."""
    if pa.types.is_dictionary(data_type):
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        return pc.dictionary_encode(column.cast(data_type.value_type)).cast(data_type)
    if isinstance(data_type, pa.BaseExtensionType):
        storage = column.cast(data_type.storage_type)
        return pa.chunked_array(
            [pa.ExtensionArray.from_storage(data_type, chunk) for chunk in storage.chunks],
            data_type,
        )
    if pa.types.is_map(data_type) and not pa.types.is_map(column.type):
        return pa.chunked_array([_to_map(chunk, data_type) for chunk in column.chunks], data_type)
    return column.cast(data_type)


def _to_map(pairs: pa.Array, data_type: pa.MapType) -> pa.Array:
    """Lists of pairs as maps, which Arrow does not cast."""
    entries = pairs.flatten()
    lengths = np.asarray(pc.fill_null(pc.list_value_length(pairs), 0))
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    keys, items = (pc.struct_field(entries, name) for name in ("key", "value"))
    mask = pairs.is_null() if pairs.null_count else None
    return pa.MapArray.from_arrays(
        offsets,
        keys.cast(data_type.key_type),
        items.cast(data_type.item_type),
        type=data_type,
        mask=mask,
    )


def _build_object(data: Any, tables: Mapping[str, pa.Table]) -> Any:
    """An object of the type of `data` from the restored tables."""
    kind = name_data_object(data)
    if kind == "DatasetDict":
        return type(data)(
            {split: _build_dataset(data[split], table) for split, table in tables.items()}
        )
    (table,) = tables.values()
    if kind == "Dataset":
        return _build_dataset(data, table)
    if kind == "Table":
        return table
    dtypes = data.collect_schema() if kind == "LazyFrame" else data.schema
    frame = pl.DataFrame(
        [
            _restore_dtype(pl.Series(name, table.column(name)), dtypes[name])
            for name in table.column_names
        ]
    )
    return frame.lazy() if kind == "LazyFrame" else frame


def _restore_dtype(series: pl.Series, dtype: Any) -> pl.Series:
    """A series in its type before; strings stay strings where an enumeration does not have a
    replacement. An enumeration has only the categories that occur, since others were not searched;
    inside of lists and structs it is one of strings."""
    if isinstance(dtype, pl.Enum):
        used = set(series)
        dtype = pl.Enum([name for name in dtype.categories if name in used])
    try:
        return series.cast(replace_enums(dtype) if dtype.is_nested() else dtype)
    except pl.exceptions.PolarsError:
        return series


def replace_enums(dtype: Any) -> Any:
    """A nested type with strings in place of enumerations."""
    if isinstance(dtype, pl.Enum):
        return pl.String
    if isinstance(dtype, pl.List):
        return pl.List(replace_enums(dtype.inner))
    if isinstance(dtype, pl.Array):
        return pl.Array(replace_enums(dtype.inner), dtype.shape[0])
    if isinstance(dtype, pl.Struct):
        return pl.Struct(
            [pl.Field(field.name, replace_enums(field.dtype)) for field in dtype.fields]
        )
    return dtype


def rewrite_datasets(function: str, data: Any, rewrite: Callable[[pa.Table], pa.Table]) -> Any:
    """A Dataset or DatasetDict with its rows rewritten as one table by `rewrite`, which keeps their
    number and order. Its description is left out, which is not searched. Raises UsageError where
    the splits have different columns."""
    splits = dict(data) if name_data_object(data) == "DatasetDict" else {_SINGLE_SPLIT: data}
    given = {
        split: pa.Table.from_batches(batches, schema)
        for split, (schema, batches) in ((name, _read_dataset(one)) for name, one in splits.items())
    }
    schemas = [table.schema.remove_metadata() for table in given.values()]
    if not schemas or any(schema != schemas[0] for schema in schemas):
        raise UsageError(
            f"{function}: the splits of the DatasetDict are none, or have different columns;"
            f" call {function} for each split"
        )
    clean = rewrite(pa.concat_tables(table.replace_schema_metadata() for table in given.values()))
    built, low = dict[str, Any](), 0
    for split, table in given.items():
        built[split] = _build_dataset(splits[split], clean.slice(low, table.num_rows))
        low += table.num_rows
    return type(data)(built) if name_data_object(data) == "DatasetDict" else built[_SINGLE_SPLIT]


def _build_dataset(dataset: Any, table: pa.Table) -> Any:
    """A Dataset of the table with the features of an earlier one; a pseudonymized column is a
    string."""
    import datasets

    text = datasets.Value("string")
    types = {field.name: field.type for field in dataset.features.arrow_schema}
    features = datasets.Features(
        {
            name: dataset.features[name] if table.schema.field(name).type == types[name] else text
            for name in table.column_names
        }
    )
    info = datasets.DatasetInfo(features=features)
    return datasets.Dataset(
        datasets.table.InMemoryTable(table.cast(features.arrow_schema)),
        info=info,
        split=dataset.split,
    )
