"""`redact`: the finders and editors of a plan on texts and frames in memory. No file is left
behind.

texts or frame -> the same, rewritten     the batch processor of a stream, with its leak check
"""

from __future__ import annotations

import os
import tempfile
import typing
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

import polars as pl
import pyarrow as pa

from sanitize.core.text_cells import (
    canonical_type,
    column_of_path,
    iterate_paths,
    list_number_leaves,
    list_text_leaves,
)
from sanitize.core.verdict import describe_inconclusive
from sanitize.errors import (
    InputRefused,
    LeakFound,
    PlanError,
    UsageError,
    printable_path,
    suggest_columns,
)
from sanitize.kinds.field_names import is_searched
from sanitize.pipeline.data_objects import (
    check_frame,
    check_table,
    replace_enums,
    restore_type,
    rewrite_datasets,
    run_on_object,
)
from sanitize.pipeline.input_objects import (
    TEXTS,
    list_paths,
    read_object,
    read_texts,
    restore_records,
    restore_sequence,
)
from sanitize.pipeline.streaming.record_batches import ArrowBatch, DictBatch, Row
from sanitize.pipeline.streaming.sources_and_sinks import (
    describe_reason,
    read_iterable,
    records_to_table,
)
from sanitize.pipeline.streaming.stream import StreamProcessor, to_stream_plan
from sanitize.pipeline.streaming.stream_result import StreamResult
from sanitize.plans.plan import Plan
from sanitize.plans.python_api import RedactOptions, name_data_object, public_function
from sanitize.plans.settings import Settings, settings_of
from sanitize.readers.standard_form import find_leaf, is_binary, with_shape
from sanitize.storage.records.record_shapes import canonical_schema
from sanitize.storage.remote_storage import require_local_path

if TYPE_CHECKING:
    from sanitize.pipeline.run_results import RunResult


# --------------------------------------------------------------------------------------- redact


@public_function("redact")
def redact(
    texts: Any, /, *, plan: Plan | Path | str = "redact", **options: Unpack[RedactOptions]
) -> Any:
    """What was given, with its texts rewritten by a plan: a text, list, tuple or Series for the
    same, a frame for a frame, and for a path the rewritten contents of the file.

    texts    A text; a list, tuple, Polars or pandas Series of texts (None stays None); or a Polars
             frame (a lazy one is collected), a pandas DataFrame, an Arrow table, a Dataset or a
             DatasetDict, whose splits are one corpus. Of a frame the text columns are chosen as in
             a run, or by `text_column`; other columns and the order stay. Categories that no row
             has are rewritten, too. Columns of bytes are not searched; a warning names them.
             Another one counts inconclusive matches, which stay. Of more than 10,000 rows or 16 MiB
             of texts each such part is checked for its own values; `sanitize.run` checks all for
             all. A `Path`, or a list of them, is read as by `sanitize redact`, which can do
             folders, too: out come the contents of each file in its own format, decompressed: a
             `str` (without byte order mark), or `bytes` of Parquet and Arrow. Options of columns
             apply to tables and records in files. A warning says what could not be kept. No file
             is written. A `str` is a text, never a path.
    plan     The name of a shipped plan, the path of a TOML file, or a `Plan`. The texts are the
             whole corpus: what `rmft` keeps and `pseudonymize` replaces consistently is counted
             over them.
    options  Columns of a frame as in `run` (`text_column`, `keep`, `drop`, ...); `seed` or `key`
    for the same result each time. Without
             them each call has a random key of its own.

    Each text is checked for values that the plan removes, and so are numbers and the names of
    columns. Raises LeakFound if one cannot be removed, PlanError for a plan that drops documents or
    has a blacklist, InputRefused for a path that cannot be read, and UsageError for a folder and
    anything that is neither texts, a frame, nor paths.

    >>> import sanitize
    >>> sanitize.redact(["Write to ann.lee@example.com", None])
    ['Write to [EMAIL_ADDRESS]', None]
    """
    settings, chosen = settings_of("redact", options), Plan.load(plan)
    if name_data_object(texts):
        given_object = read_object("redact", texts)
        return given_object.restore(_redact_object(given_object.data, chosen, settings))
    if paths := list_paths("redact", texts):
        contents = _redact_files(paths, chosen, settings)
        return restore_sequence(contents, texts) if isinstance(texts, list | tuple) else contents[0]
    given = next((name for name in options if name not in ("seed", "key")), None)
    if given is not None:
        raise UsageError(
            f"redact: {given} names columns of a frame, and texts is a {type(texts).__name__};"
            " leave it out"
        )
    is_enum = isinstance(texts, pl.Series) and texts.dtype == pl.Enum
    column = texts if is_enum else read_texts("redact", texts, f"{TEXTS}, or a frame")
    if type(texts).__module__.partition(".")[0] == "pandas" and hasattr(texts, "to_frame"):
        given_object = read_object("redact", texts.to_frame("text"))
        clean = given_object.restore(_redact_frame(given_object.data, chosen, settings))
        return clean["text"].rename(texts.name)
    clean_texts = _redact_frame(pl.DataFrame({"text": column}), chosen, settings)["text"]
    if isinstance(texts, str):
        return clean_texts[0]
    if isinstance(texts, pl.Series):
        clean_texts = clean_texts if is_enum else _cast_texts(clean_texts, texts)
        return clean_texts.alias(texts.name)
    if isinstance(texts, list | tuple):
        return restore_sequence(clean_texts.to_list(), texts)
    return (
        clean_texts.to_arrow().cast(texts.type)
        if isinstance(texts, pa.Array | pa.ChunkedArray)
        else clean_texts
    )


def _redact_files(paths: Sequence[str], plan: Plan, settings: Settings) -> list[str | bytes]:
    """The rewritten contents of each file. Warns of what was not kept, and of inconclusive matches;
    raises UsageError for a folder."""
    from sanitize.inspection.file_redaction import redact_files  # most calls are given texts

    for path in paths:
        if os.path.isdir(path):
            raise UsageError(
                f"redact: {printable_path(path)}: is a folder; expected the Path of a file. Use"
                " `sanitize redact FOLDER -o OUT`, or sanitize.run(path, out) for a corpus"
            )
    redaction = redact_files(paths, plan, settings)
    for note in redaction.notes:
        warnings.warn(f"redact: {note}", stacklevel=4)
    for result in redaction.results:
        _warn_of_inconclusive(result, stacklevel=5)
    data_by_name = {one.name: one.data for one in redaction.files}  # of equal paths once
    return [data_by_name[str(require_local_path(path))] for path in paths]


def _redact_object(data: Any, plan: Plan, settings: Settings) -> Any:
    """Data of `read_object` with its texts rewritten."""
    if isinstance(data, pl.LazyFrame):
        return _redact_frame(data.collect(), plan, settings).lazy()
    if isinstance(data, pl.DataFrame):
        return _redact_frame(data, plan, settings)
    if isinstance(data, pa.Table):
        return _redact_table(data, plan, settings)
    return rewrite_datasets("redact", data, lambda table: _redact_table(table, plan, settings))


def _redact_table(table: pa.Table, plan: Plan, settings: Settings) -> pa.Table:
    """An Arrow table with its texts rewritten, in the types that its columns had. Raises UsageError
    for a column of a type that cannot be searched."""
    check_table("redact", table.schema)
    try:
        frame = _read_frame(table)
    except (
        pl.exceptions.PolarsError,
        pa.ArrowException,
        NotImplementedError,
        TypeError,
        ValueError,
    ) as error:
        raise UsageError(
            "redact: the table has a column of a type that cannot be searched"
            f" ({type(error).__name__}); drop or cast it"
        ) from None
    return restore_types(_redact_frame(frame, plan, settings).to_arrow(), table)


def restore_types(clean: pa.Table, given: pa.Table) -> pa.Table:
    """A rewritten table with the types that its columns had; codes for numbers are strings."""
    columns = dict[str, pa.ChunkedArray]()
    for name, column in zip(clean.column_names, clean.columns, strict=True):
        data_type = given.schema.field(name).type
        is_coded = pa.types.is_primitive(data_type) and not pa.types.is_primitive(column.type)
        columns[name] = (
            given.column(name)
            if pa.types.is_null(data_type)
            else restore_type(column, pa.string() if is_coded else data_type)
        )
    return pa.table(columns)


def _redact_frame(frame: pl.DataFrame, plan: Plan, settings: Settings) -> pl.DataFrame:
    """The frame with the texts of its text columns rewritten, and without the columns that the
    settings drop."""
    roles = with_shape(settings.columns.roles, canonical_schema(frame.clear().to_arrow().schema))
    if roles.shape is not None:
        conversations: pl.DataFrame
        conversations, run_result = _rewrite_by_run(frame, plan, settings)
        _warn_of_inconclusive(run_result)
        return conversations
    if roles.is_chosen:
        settings = replace(settings, text_column=roles.text)
    texts = {column_of_path(path): "text-column" for path in settings.text_column}
    options = {**texts, **settings.columns.option_by_column}
    schema = frame.clear().to_arrow().schema
    paths = {str(path) for path, _ in iterate_paths(schema)}
    for name, option in options.items():
        if name not in {*frame.columns, *paths}:
            advice = (
                " Name the column of the texts with --text-column."
                if option == "text-column"
                else ""
            )
            raise UsageError(
                f"--{option} {name}: there is no such column;"
                f" {suggest_columns(name, {*frame.columns, *paths})}{advice}"
            )
    main, dropped = (
        column_of_path(settings.text_column[0]),
        [
            name
            for name, policy in settings.policies.items()
            if policy == "drop" and name in frame.columns
        ],
    )
    if main in dropped:
        raise UsageError(
            f"--drop {main}: it is the main text, which is always sanitized; name another column"
            " with --text-column"
        )
    rest = frame.drop(dropped)
    check_frame("redact", rest.schema)
    if unsearched := [
        name for name, dtype in rest.schema.items() if dtype == pl.Binary and name != main
    ]:
        warnings.warn(
            "redact: columns of bytes are returned without being searched:"
            f" {', '.join(unsearched)}",
            stacklevel=5,
        )
    frame = pl.concat([frame, *_list_unused_categories(frame)], how="diagonal")
    if not frame.height:
        return rest
    strings = frame.with_columns(pl.col(pl.Categorical, pl.Enum, pl.Null).cast(pl.String)).to_arrow(
        compat_level=pl.CompatLevel.oldest()
    )
    for path in settings.text_column:
        leaf = find_leaf(path, strings.schema)
        if leaf not in list_text_leaves(strings.schema) and not is_binary(
            strings.schema.field(column_of_path(path)).type
        ):
            raise UsageError(
                f"--text-column {path}: the frame has no texts there, but"
                f" {frame[column_of_path(path)].dtype}; name another column"
            )
    table, result = rewrite_records(
        strings, plan, settings, "redact: the text at position {}".format
    )
    clean = _read_frame(table)
    _warn_of_inconclusive(result)
    schema = clean.clear().to_arrow().schema
    searched_types = partial(is_searched, opt_in_kinds=plan.detection_spec.opt_in_kinds)
    leaves = [*list_text_leaves(schema), *list_number_leaves(schema, searched_types)]
    searched = {leaf.column for leaf in leaves}
    # also columns without texts in which a part is left out
    searched |= {path.column for path, _ in iterate_paths(schema) if str(path) in settings.policies}
    return rest.with_columns(
        _cast_texts(clean[name], frame[name]).head(rest.height).alias(name)
        for name in rest.columns
        if name in searched
    )


def _warn_of_inconclusive(result: StreamResult | RunResult, stacklevel: int = 6) -> None:
    counted = result if isinstance(result, StreamResult) else result.verify
    if counts := getattr(counted, "inconclusive", None):  # `verify` is a word if it was off
        warnings.warn(f"redact: {describe_inconclusive(counts)}, which stay", stacklevel=stacklevel)


def _list_unused_categories(frame: pl.DataFrame) -> list[pl.DataFrame]:
    """The categories of enumerations that no row has, as rows of their columns: these are texts,
    too, and the caller wants them back."""
    unused = []
    for column in frame.select(pl.col(pl.Enum)):
        categories = typing.cast(pl.Enum, column.dtype).categories
        is_used = categories.is_in(column.cast(pl.String).unique().implode())
        unused.append(categories.filter(~is_used).cast(column.dtype).to_frame(column.name))
    return unused


def _cast_texts(clean: pl.Series, given: pl.Series) -> pl.Series:
    """Rewritten texts in the type that they had, and codes for numbers as strings; an Enum has what
    its categories became, in their order."""
    if isinstance(given.dtype, pl.Enum):
        became = pl.DataFrame({"old": given.to_physical(), "new": clean}).drop_nulls()
        categories = became.sort("old", maintain_order=True)["new"].unique(maintain_order=True)
        return clean.cast(pl.Enum(categories))
    is_coded = given.dtype.is_numeric() and clean.dtype == pl.String
    if is_coded or given.dtype == pl.Null:
        return clean.cast(pl.String)
    return clean.cast(replace_enums(given.dtype))


def _holds_text(value: object) -> bool:
    """True for a text, and for a mapping or sequence that holds one."""
    parts = (
        value.values()
        if isinstance(value, Mapping)
        else value
        if isinstance(value, list | tuple)
        else ()
    )
    return isinstance(value, str) or any(map(_holds_text, parts))


# records as dictionaries, or as one table
Records: TypeAlias = list[Row] | pa.Table


def rewrite_records(
    records: Records,
    plan: Plan,
    settings: Settings,
    describe: Callable[[int], str],
) -> tuple[Any, StreamResult | RunResult]:
    """The records rewritten, as rows or a table as given, and the counts: by the batch processor of
    a stream, where each batch is edited by what was seen before it, or by a run, for plans that
    need all texts before the first is edited. `describe` names a record by its position.

    Raises InputRefused for a record that cannot be processed, LeakFound for one in which a value
    that the plan removes cannot be removed, and PlanError for a plan that drops documents."""
    try:
        stream_plan = to_stream_plan(plan)
    except PlanError:
        if plan.droppers or plan.blacklist is not None:
            raise
        if isinstance(records, pa.Table):
            return _rewrite_by_run(records, plan, settings)
        table = records_to_table(records)
        clean, result = _rewrite_by_run(table, plan, settings)
        return restore_records(clean, table, records), result
    return _rewrite_by_stream(records, stream_plan, settings, describe)


def _rewrite_by_stream(
    records: Records,
    plan: Plan,
    settings: Settings,
    describe: Callable[[int], str],
) -> tuple[Any, StreamResult]:
    is_table, position = isinstance(records, pa.Table), 0
    tables: list[pa.Table] = []
    rows: list[Row] = []
    with StreamProcessor(plan, None, settings, reader="redact") as processor:
        for step in processor.process(read_iterable([records] if is_table else records)):
            if step.source_batch.quarantined:
                row, entry = min(step.source_batch.quarantined.items())
                where = describe(position + row)
                if names := step.result.leaking_names:
                    columns = records.column_names if isinstance(records, pa.Table) else []
                    numbers = [number for number, name in enumerate(columns) if name in names]
                    place = f"column {numbers[0]} (from 0)" if numbers else "a field"
                    raise LeakFound(
                        f"redact: the name of {place} holds a value that the plan removes; rename"
                        " it, or drop the column"
                    )
                if entry.reason == "leak":
                    raise LeakFound(
                        f"{where} still holds a value that the plan removes, in a replacement, or"
                        " beside it in a column that is kept or of numbers; --drop COLUMN leaves"
                        " such a column out"
                    )
                raise InputRefused(f"{where} cannot be processed: {describe_reason(entry.reason)}")
            position += len(step.source_batch)
            if isinstance(step.clean_batch, ArrowBatch):
                tables.append(step.clean_batch.table)
            elif isinstance(step.clean_batch, DictBatch):
                rows += [row for row in step.clean_batch.rows if row is not None]
            processor.add_result(step)
        processor.require_text_column()
        result = processor.summary()
    return pa.concat_tables(tables) if is_table else rows, result


def _read_frame(table: pa.Table) -> pl.DataFrame:
    """The table with the names of its columns, also an empty one."""
    return pl.DataFrame({name: pl.Series(table.column(name)) for name in table.column_names})


def _rewrite_by_run(data: Any, plan: Plan, settings: Settings) -> tuple[Any, RunResult]:
    """The table or frame rewritten by a run in a temporary folder, which is deleted; a run knows
    the roles of conversations, and has all texts before the first is edited."""
    from sanitize.pipeline.run import run_with_settings  # most calls need no run

    results: list[RunResult] = []
    with tempfile.TemporaryDirectory(prefix="sanitize-redact-") as folder:

        def run(inputs: Path, out: Path | str) -> RunResult:
            run_settings = replace(settings, workers=1, max_quarantine=1.0)
            result = run_with_settings(inputs, out, plan, Path(folder) / "work", run_settings)
            if result.quarantined:
                reasons = ", ".join(
                    f"{count} {describe_reason(reason)}"
                    for reason, count in result.quarantine.items()
                )
                raise InputRefused(
                    f"redact: {result.quarantined} texts cannot be processed ({reasons})"
                )
            results.append(result)
            return result

        clean = run_on_object(data, None, run, settings.columns.option_by_column)
    return clean, results[0]


@public_function("redact")
def redact_batch(
    batch: Any, /, *, plan: Plan | Path | str = "redact", **options: Unpack[RedactOptions]
) -> dict[str, list[Any]]:
    """A batch of a Dataset rewritten: `dataset.map(sanitize.redact_batch, batched=True,
    fn_kwargs={"plan": "redact"})`.

    batch    Column -> values, as `datasets` passes it.
    plan     A plan that decides on each value alone: one that keeps first occurrences would keep
             them in every batch, and is refused; use `sanitize.run(dataset)`.
    options  As in `redact`. A plan with surrogates or pseudonyms needs `seed` or `key`, so that all
    batches and processes have one key.

    Columns without texts, and of bytes, are returned as they are. Raises what `redact` raises.

    >>> import sanitize
    >>> sanitize.redact_batch({"text": ["Write to ann.lee@example.com", "no"], "label": [0, 1]})
    {'text': ['Write to [EMAIL_ADDRESS]', 'no'], 'label': [0, 1]}
    """
    if not isinstance(batch, Mapping):
        raise UsageError(
            f"redact_batch: batch is of type {type(batch).__name__}; expected column -> values. Use"
            " dataset.map(..., batched=True)"
        )
    chosen = Plan.load(plan)
    for number, editor in enumerate(chosen.editors):
        if editor.keep:
            raise PlanError(
                f"plan {chosen.name}: edit[{number}].keep = {editor.keep} counts over the whole"
                " corpus, and each batch would keep its own; use sanitize.run(dataset), or a plan"
                " with keep = 0"
            )
        if editor.consistent_kinds and options.get("seed") is None and options.get("key") is None:
            raise UsageError(
                f"redact_batch: edit[{number}].use = {editor.use!r} of plan {chosen.name} gives"
                " equal values equal replacements, and without --key FILE or --seed N each batch"
                " has a key of its own; give one of them"
            )
    arrays, texts = dict[str, pa.Array](), set[str]()
    for name, values in batch.items():
        try:
            array = pa.array(values)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            if any(map(_holds_text, values)):
                raise UsageError(
                    f"redact_batch: column {name} holds texts and values of other types; expected"
                    " one type in a column"
                ) from None
            continue  # objects such as decoded images have no texts
        if list_text_leaves(pa.schema([(name, canonical_type(array.type))])) or name in (
            options.get("text_column") or ()
        ):
            texts.add(name)
        if name in texts or _holds_numbers(array.type):
            arrays[name] = array
    clean = redact(pa.table(arrays), plan=chosen, **options) if texts else pa.table(arrays)
    dropped = set(arrays) - set(clean.column_names)
    return {
        name: clean.column(name).to_pylist() if name in texts else list(values)
        for name, values in batch.items()
        if name not in dropped
    }


def _holds_numbers(data_type: pa.DataType) -> bool:
    """True for integers, floats, and types with some inside."""
    parts = [data_type.field(number).type for number in range(data_type.num_fields)]
    return (
        pa.types.is_integer(data_type)
        or pa.types.is_floating(data_type)
        or any(map(_holds_numbers, parts))
    )
