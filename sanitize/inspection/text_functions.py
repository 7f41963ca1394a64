"""`detect` and `redact`: the finders and editors of a plan on texts and frames in memory. No file
is left behind.

texts -> occurrences                      the finders of a run, both rounds if the plan has them
texts or frame -> the same, rewritten     the batch processor of a stream, with its leak check
"""

from __future__ import annotations

import json
import tempfile
import typing
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, Unpack

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core.arrow_buffers import to_large_string
from sanitize.core.keys import Key
from sanitize.core.text_cells import (
    LeafPath,
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
    suggest_columns,
)
from sanitize.kinds.field_names import is_searched, says_number
from sanitize.kinds.kind import all_kinds, custom_kinds, get_kind
from sanitize.pipeline.data_objects import (
    check_frame,
    check_table,
    replace_enums,
    restore_type,
    rewrite_datasets,
    run_on_object,
)
from sanitize.pipeline.indexing.index_build import IndexBuilder
from sanitize.pipeline.occurrence_selection import find_unselected
from sanitize.pipeline.run import run_with_settings
from sanitize.pipeline.run_results import RunResult
from sanitize.pipeline.streaming.record_batches import ArrowBatch, DictBatch, Row
from sanitize.pipeline.streaming.sources_and_sinks import (
    describe_reason,
    read_iterable,
    records_to_table,
)
from sanitize.pipeline.streaming.stream import StreamProcessor, to_stream_plan
from sanitize.pipeline.streaming.stream_result import StreamResult
from sanitize.plans.plan import DEFAULT_PLAN, Plan, SelectionRules
from sanitize.plans.python_api import RedactOptions, name_data_object, public_function
from sanitize.plans.settings import Settings, settings_of
from sanitize.readers.standard_form import find_leaf, is_binary, with_shape
from sanitize.stages.finder_pass import FinderPass
from sanitize.storage.private_folder import OCCURRENCES_FOLDER, read_frames
from sanitize.storage.records.record_shapes import canonical_schema

DETECT_SCHEMA = {
    "text_index": pl.Int64,
    "kind": pl.String,
    "start": pl.Int64,
    "end": pl.Int64,
    "score": pl.Float32,
}
_BATCH_BYTES, _BATCH_TEXTS = 16 << 20, 10_000  # of texts that are searched together
_TEXTS = "a text, or a list or Series of texts; None is allowed in it"


@public_function()
def detect(
    texts: Any,
    /,
    *,
    plan: Plan | Path | str = DEFAULT_PLAN,
    values: bool = False,
    known: Path | str | None = None,
) -> pl.DataFrame:
    """The occurrences that the finders of a plan report in some texts, as one row each:
    `text_index` (the position of the text, from 0), `kind`, `start`, `end` (code points, half-open:
    the value is `text[start:end]`) and `score` (0 to 1), by position.

    texts   A text, or a list, tuple, Polars Series or Arrow array of texts; None has no rows.
    plan    The name of a shipped plan, the path of a TOML file, or a `Plan`. Finders that need the
            whole corpus take these texts for it.
    values  Adds a column `value`. Without it no value is in the result, so that none reaches a log
    by its `repr`.
    known   A list of known values to find: CSV, TSV or JSON lines with kind and value.

    Occurrences that the plan does not act on (`find.allow`, `find.min_score`) are left out. Raises
    UsageError for anything that is not a text, and PlanError for a plan that is not valid.

    >>> import sanitize
    >>> texts = ["Write to ann.lee@example.com", None, "or call +1 212 555 0123."]
    >>> found = sanitize.detect(texts, values=True)
    >>> found.select("text_index", "start", "end", "value").rows()
    [(0, 9, 28, 'ann.lee@example.com'), (2, 8, 23, '+1 212 555 0123')]
    """
    column = _read_texts("detect", texts)
    chosen = Plan.load(plan).with_known_values(known)
    with custom_kinds(chosen.custom_kinds):
        needs_index = len(column) > 0 and (
            known is not None or any(finder.second_round for finder in chosen.finders)
        )
        found = (
            _detect_by_index(column, chosen, known)
            if needs_index
            else _detect_in_memory(column, chosen)
        )
        found = _select(
            found.sort("text_index", "start", "end", "kind"), column, chosen.find.selection_rules
        )
    return found if values else found.drop("value")


def _select(found: pl.DataFrame, column: pl.Series, rules: SelectionRules) -> pl.DataFrame:
    """The occurrences that the rules of a plan select, with their values."""
    length = pl.col("end") - pl.col("start")
    found = found.with_columns(text=column.gather(found["text_index"])).with_columns(
        value=pl.col("text").str.slice(pl.col("start"), length)
    )
    found = found.drop("text")
    if not rules:
        return found
    values = found.select("kind", "value").unique().with_row_index("value_id")
    by_kind = values.partition_by("kind")
    values = pl.concat([values.clear(), *by_kind]).with_columns(
        normalised=pl.concat(
            [
                pl.Series("normalised", [], pl.String),
                *(
                    get_kind(part["kind"][0]).normalise(part["value"]).alias("normalised")
                    for part in by_kind
                ),
            ]
        )
    )
    is_allowed, is_below_min = find_unselected(
        found.join(values, ["kind", "value"], maintain_order="left"), values, rules
    )
    return found.filter(pl.Series(~is_allowed & ~is_below_min))


def _detect_in_memory(column: pl.Series, plan: Plan) -> pl.DataFrame:
    """The occurrences of the finders of the first round."""
    frames = [pl.DataFrame(schema=DETECT_SCHEMA)]
    kind_names = pl.Series(list(all_kinds()), dtype=pl.String)
    unread: list[int] = []
    with FinderPass(plan.detection_spec, [LeafPath("text", ())], Key.generate()) as finder_pass:
        for low, texts in _split_texts(column):
            doc_nos = pa.array(np.arange(low, low + len(texts)))
            doc_ids = pa.array(
                [str(number) for number in range(low, low + len(texts))], pa.large_string()
            )
            table = pa.table({"doc_no": doc_nos, "doc_id": doc_ids, "text": to_large_string(texts)})
            table, by_group, not_analysed = finder_pass.find_in_batch(table)
            unread += [doc_no for doc_no, _ in not_analysed]
            for group, found in by_group:
                rows = np.asarray(table.column("doc_no"), np.int64)[group.rows[found.text_no]]
                start, end = found.find_code_points(group.texts)
                spans = {"text_index": rows, "start": start, "end": end, "score": found.score}
                frames.append(
                    pl.DataFrame(spans)
                    .with_columns(kind=kind_names.gather(found.kind))
                    .select(list(DETECT_SCHEMA))
                )
    if unread:
        warnings.warn(
            f"{len(unread)} texts could not be analysed by a finder of the plan, and have no rows",
            stacklevel=4,
        )
    return pl.concat(frames)


def _detect_by_index(column: pl.Series, plan: Plan, known: Path | str | None) -> pl.DataFrame:
    """The occurrences of both rounds, from an index in a temporary folder, which is deleted."""
    with tempfile.TemporaryDirectory(prefix="sanitize-detect-") as folder:
        source, work = Path(folder) / "texts.parquet", Path(folder) / "work"
        ids = pl.Series("doc_id", np.arange(len(column))).cast(pl.String)
        pq.write_table(
            pa.table(
                {"doc_id": to_large_string(ids), "text": to_large_string(column.fill_null(""))}
            ),
            source,
        )
        settings = Settings(workers=1, known=known, max_quarantine=1.0)  # type: ignore[arg-type]
        with IndexBuilder([source], work, settings, plan.detection_spec) as builder:
            builder.build()
        columns = ["doc_no", "kind", "start", "end", "score"]
        frames = list(read_frames(work, work / OCCURRENCES_FOLDER, columns))
    found = [frame.rename({"doc_no": "text_index"}).select(list(DETECT_SCHEMA)) for frame in frames]
    return pl.concat([pl.DataFrame(schema=DETECT_SCHEMA), *found])


def _split_texts(column: pl.Series) -> Iterator[tuple[int, pl.Series]]:
    """The texts in batches, each with the position of its first text."""
    sizes = column.str.len_bytes().fill_null(0).to_numpy()
    low, size = 0, 0
    for position, text_bytes in enumerate(sizes.tolist()):
        if position > low and (size + text_bytes > _BATCH_BYTES or position - low >= _BATCH_TEXTS):
            yield low, column[low:position]
            low, size = position, 0
        size += text_bytes
    if low < len(column):
        yield low, column[low:]


def _read_texts(function: str, texts: Any, expected: str = _TEXTS) -> pl.Series:
    """The texts as a column of strings. Raises UsageError for anything else; the message never
    quotes a text."""
    if isinstance(texts, str):
        texts = [texts]
    if isinstance(texts, pl.DataFrame | pl.LazyFrame | pa.Table) or hasattr(texts, "columns"):
        raise UsageError(
            f"{function}: texts is a {type(texts).__name__}; expected {_TEXTS}. Give one column,"
            ' such as frame["text"]'
        )
    if isinstance(texts, Sequence) and not isinstance(texts, bytes | bytearray):
        for position, text in enumerate(texts):
            if text is not None and not isinstance(text, str):
                raise UsageError(
                    f"{function}: texts[{position}] is of type {type(text).__name__}; expected a"
                    " text or None"
                )
        try:
            return pl.Series("text", list(texts), dtype=pl.String)
        except (UnicodeEncodeError, pl.exceptions.PolarsError):
            raise UsageError(
                f"{function}: a text holds a lone surrogate, which is no Unicode character;"
                " replace it"
            ) from None
    is_column = (
        isinstance(texts, pl.Series)
        or hasattr(texts, "__arrow_c_array__")
        or hasattr(texts, "__arrow_c_stream__")
    )
    column = (
        texts
        if isinstance(texts, pl.Series)
        else pl.Series(texts)
        if is_column or hasattr(texts, "to_numpy")
        else None
    )
    if column is None or not (
        column.dtype in (pl.String, pl.Categorical, pl.Null) or isinstance(column.dtype, pl.Enum)
    ):
        found = (
            type(texts).__name__ if column is None else f"{type(texts).__name__} of {column.dtype}"
        )
        raise UsageError(f"{function}: texts is of type {found}; expected {expected}")
    return column.cast(pl.String).alias("text")


# --------------------------------------------------------------------------------------- redact


@public_function("redact")
def redact(
    texts: Any, /, *, plan: Plan | Path | str = "redact", **options: Unpack[RedactOptions]
) -> Any:
    """What was given, with its texts rewritten by a plan: a text, list, tuple or Series for the
    same, a frame for a frame.

    texts    A text; a list, tuple, Polars or pandas Series of texts (None stays None); or a Polars
             frame (a lazy one is collected), a pandas DataFrame, an Arrow table, a Dataset or a
             DatasetDict, whose splits are one corpus. Of a frame the text columns are chosen as in
             a run, or by `text_column`; other columns and the order stay. Categories that no row
             has are rewritten, too. Columns of bytes are not searched; a warning names them.
             Another one counts inconclusive matches, which stay. Of more than 10,000 rows or 16 MiB
             of texts each such part is checked for its own values; `sanitize.run` checks all for
             all.
    plan     The name of a shipped plan, the path of a TOML file, or a `Plan`. The texts are the
             whole corpus: what `rmft` keeps and `pseudonymize` replaces consistently is counted
             over them.
    options  Columns of a frame as in `run` (`text_column`, `keep`, `drop`, ...); `seed` or `key`
    for the same result each time. Without
             them each call has a random key of its own.

    Each text is checked for values that the plan removes, and so are numbers and the names of
    columns. Raises LeakFound if one cannot be removed, PlanError for a plan that drops documents or
    has a blacklist, and UsageError for anything that is neither texts nor a frame.

    >>> import sanitize
    >>> sanitize.redact(["Write to ann.lee@example.com", None])
    ['Write to [EMAIL_ADDRESS]', None]
    """
    settings, chosen = settings_of("redact", options), Plan.load(plan)
    if isinstance(texts, pl.LazyFrame):
        return _redact_frame(texts.collect(), chosen, settings).lazy()
    if isinstance(texts, pl.DataFrame):
        return _redact_frame(texts, chosen, settings)
    if isinstance(texts, pa.Table):
        return _redact_table(texts, chosen, settings)
    if name_data_object(texts) in ("Dataset", "DatasetDict"):
        return rewrite_datasets(
            "redact", texts, lambda table: _redact_table(table, chosen, settings)
        )
    is_pandas = type(texts).__module__.partition(".")[0] == "pandas"
    if is_pandas and hasattr(texts, "columns"):
        return _redact_pandas(texts, chosen, settings)
    given = next((name for name in options if name not in ("seed", "key")), None)
    if given is not None:
        raise UsageError(
            f"redact: {given} names columns of a frame, and texts is a {type(texts).__name__};"
            " leave it out"
        )
    is_enum = isinstance(texts, pl.Series) and texts.dtype == pl.Enum
    column = texts if is_enum else _read_texts("redact", texts, f"{_TEXTS}, or a frame")
    if is_pandas and hasattr(texts, "to_frame"):
        return _redact_pandas(texts.to_frame("text"), chosen, settings)["text"].rename(texts.name)
    clean_texts = _redact_frame(pl.DataFrame({"text": column}), chosen, settings)["text"]
    if isinstance(texts, str):
        return clean_texts[0]
    if isinstance(texts, pl.Series):
        clean_texts = clean_texts if is_enum else _cast_texts(clean_texts, texts)
        return clean_texts.alias(texts.name)
    if isinstance(texts, list | tuple):
        return type(texts)(clean_texts.to_list())
    return (
        clean_texts.to_arrow().cast(texts.type)
        if isinstance(texts, pa.Array | pa.ChunkedArray)
        else clean_texts
    )


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
    """A rewritten table with the types that its columns had."""
    fields = [given.schema.field(name) for name in clean.column_names]
    columns = [
        given.column(one.name)
        if pa.types.is_null(one.type)
        else restore_type(clean.column(one.name), one.type)
        for one in fields
    ]
    return pa.table(columns, [one.name for one in fields])


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


def _warn_of_inconclusive(result: StreamResult | RunResult) -> None:
    counted = result if isinstance(result, StreamResult) else result.verify
    if counts := getattr(counted, "inconclusive", None):  # `verify` is a word if it was off
        warnings.warn(f"redact: {describe_inconclusive(counts)}, which stay", stacklevel=6)


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
    """Rewritten texts in the type that they had; an Enum has what its categories became, in their
    order."""
    if isinstance(given.dtype, pl.Enum):
        became = pl.DataFrame({"old": given.to_physical(), "new": clean}).drop_nulls()
        categories = became.sort("old", maintain_order=True)["new"].unique(maintain_order=True)
        return clean.cast(pl.Enum(categories))
    return clean.cast(pl.String if given.dtype == pl.Null else replace_enums(given.dtype))


def _redact_pandas(frame: Any, plan: Plan, settings: Settings) -> Any:
    """A pandas DataFrame with its texts rewritten, in nested columns and categories too. Its
    `attrs` are left out, which are not searched.

    Raises UsageError for a column that holds values of several types, and for an index of texts.
    """
    for level in range(frame.index.nlevels):
        values = frame.index.get_level_values(level)
        if values.dtype.kind not in "biufmM" or says_number(str(values.name)):
            raise UsageError(
                "redact: the index of the frame holds texts or values of a kind, which are not"
                " rewritten there; make it a column: frame.reset_index()"
            )
    columns = dict[str, Any]()
    for level in range(frame.index.nlevels):
        values = frame.index.get_level_values(level)
        if values.dtype.kind in "iuf" and type(values).__name__ != "RangeIndex":
            # searched as a column of numbers
            name = f"index {level}"
            while name in frame.columns:
                name += "_"
            columns[name] = pl.Series(values.to_numpy())
    for name in frame.columns:
        try:
            read: Any = pl.from_pandas(frame[name], nan_to_null=True)
            if isinstance(read.dtype, pl.Categorical):
                read = read.cast(pl.Enum(frame[name].cat.categories.to_list()))
            columns[str(name)] = read
        except (
            pa.ArrowException,
            pl.exceptions.PolarsError,
            TypeError,
            ValueError,
            AttributeError,
            UnicodeError,
        ):
            raise UsageError(
                f"redact: column {name} holds values of several types, or of a type that Arrow does"
                " not have; expected one type in a column"
            ) from None
    clean = _redact_frame(pl.DataFrame(columns), plan, settings)
    result = frame[[name for name in frame.columns if str(name) in clean.columns]].copy()
    result.attrs.clear()
    for name in result.columns:
        column, given = clean[str(name)], frame[name]
        if isinstance(column.dtype, pl.Enum):
            categories = type(given.cat.categories)(
                column.dtype.categories.to_list(), dtype=given.cat.categories.dtype
            )
            result[name] = type(given)(column.to_list(), index=result.index, dtype=object).astype(
                type(given.dtype)(categories, ordered=given.cat.ordered)
            )
        elif not column.equals(columns[str(name)]):
            # an integer of NumPy has no null
            is_nullable = column.null_count() and given.dtype.kind in "iu"
            result[name] = type(given)(
                column.to_list(),
                index=result.index,
                dtype="Int64" if is_nullable else given.dtype,
            )
        if hasattr(given.dtype, "categories") and says_number(str(name)):
            result[name] = result[name].cat.remove_unused_categories()  # which are not searched
    return result


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
        table, result = _rewrite_by_run(records_to_table(records), plan, settings)
        rows = zip(table.to_pylist(), records, strict=True)
        return [_restore_record(clean, given) for clean, given in rows], result
    return _rewrite_by_stream(records, stream_plan, settings, describe)


def _restore_record(clean: Any, given: Any) -> Any:
    """A record of a table in the form that it had: without fields that it lacks, and values of
    columns of several types, which are JSON in a table, as they were."""
    if isinstance(given, dict) and isinstance(clean, dict):
        return {
            name: _restore_record(clean[name], value)
            for name, value in given.items()
            if name in clean
        }
    if isinstance(given, list) and isinstance(clean, list):
        return [_restore_record(*one) for one in zip(clean, given, strict=True)]
    is_json = isinstance(clean, str) and not isinstance(given, str | None)
    return json.loads(clean) if is_json else clean


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
