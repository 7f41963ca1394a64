"""DuckDB views over the tables of WORK: their files, empty views for tables that do not exist yet,
and masks for their texts.

A table that no stage has written yet is empty, with the columns of `table_schemas.py`. Some views
are computed from others when a query uses them: `users` and `value_users` (statements of `sql/`),
`ngrams` (the words of all texts) and `parts` (the plan of the selected run). `users` and `ngrams`
read raw texts: they count first and are masked afterwards, so that masks do not merge different
words or ids.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sanitize.core.table_rendering import escape_controls
from sanitize.core.text_cells import JSON_STEP
from sanitize.errors import InputRefused, OutputBroken, UsageError, suggest_names
from sanitize.storage import table_schemas
from sanitize.storage.files import parse_json, read_regular_file

if TYPE_CHECKING:
    import duckdb
    import polars as pl
    import pyarrow as pa
    from duckdb.sqltypes import DuckDBPyType


class DocumentFileLike(Protocol):
    """A Parquet file that holds documents, as `sanitize.storage.corpus.DocumentFile` describes
    it."""

    @property
    def path(self) -> str: ...
    @property
    def first_doc_no(self) -> int: ...
    @property
    def columns(self) -> Mapping[str, str]: ...


@dataclass(frozen=True)
class SqlView:
    """One view: its name, the SELECT for its unmasked rows, and the files that it reads."""

    name: str
    select: str
    files: tuple[str, ...] = ()


# tables that a run writes below its own folder; all other tables belong to the index, which all
# runs share
RUN_TABLE_FOLDERS = {
    "edits": "edits",
    "swept": "sweep",
    "drops": "drops",
    "ledger": "ledger",
    "labels": "vault/labels",
    "blacklist": "vault/blacklist",
}
SELECTED_IDS_FOLDER = (  # in the folder of a run, where its plan does not select all occurrences
    "selected/value_ids"
)
# in the folder of a run: the values of erased persons, where there are tombstones of values
ERASED_VALUES_FILE = "erasure/values.parquet"
# in the folder of a run: values of columns that the output does not hold in clear
COLUMN_VALUES_FOLDER = "vault/column_values"
# table -> query of sql/ that computes it on demand, over the raw tables
COMPUTED_TABLES = {"users": "document_users", "value_users": "value_users"}


def build_views(
    connection: duckdb.DuckDBPyConnection,
    work: Path,
    *,
    run: Path | None,
    documents: Sequence[DocumentFileLike],
    computed_queries: Mapping[str, str],
) -> list[SqlView]:
    """Every table of WORK, in an order in which the views can be created. `connection` is used to
    get the types of columns.

    `run` is the folder of the selected run (`find_run`); `computed_queries` has the statements of
    `COMPUTED_TABLES`.
    """
    folders = {folder.name: folder for folder in _list_folders(work / "tables")} | {
        "value_spellings": work / "vault" / "values",
        "quarantine": work / "quarantine",
    }
    if run is not None:
        folders |= {folder.name: folder for folder in _list_folders(run / "vault")}
        folders |= {name: run / subfolder for name, subfolder in RUN_TABLE_FOLDERS.items()}
    files = {name: tuple(_list_parquet_files(folder)) for name, folder in folders.items()}
    found = {
        name: SqlView(name, f"FROM {read_parquet_expression(paths)}", paths)
        for name, paths in sorted(files.items())
        if paths
    }
    found["documents"] = _documents_view(documents)
    found["parts"] = _parts_view(run)
    found |= {
        name: SqlView(name, _with_raw_tables(computed_queries[name], found, "documents"))
        for name in ("users",)
        if name not in found
    }
    names = make_sql_names(documents[0].columns if documents else ())
    leaves = [(names.get(column, column), *steps) for column, *steps in _indexed_leaves(work)]
    computed = {
        "value_users": computed_queries["value_users"],
        "ngrams": _ngrams_select(connection, found, leaves),
    }
    absent = [
        name for name in table_schemas.ALL_TABLES if name not in found and name not in computed
    ]
    found |= {
        name: SqlView(name, _empty_select(table_schemas.ALL_TABLES[name].schema)) for name in absent
    }
    found |= {name: SqlView(name, select) for name, select in computed.items() if name not in found}
    return list(found.values())


def create_view_statements(
    connection: duckdb.DuckDBPyConnection, views: Sequence[SqlView], *, reveal: bool
) -> Iterator[str]:
    """Yields a CREATE VIEW for each view, with masked text columns unless `reveal`. Execute each
    statement before taking the next."""
    import duckdb

    for view in views:
        try:
            relation = connection.sql(view.select)
            columns = list(zip(relation.columns, relation.types, strict=True))
        except duckdb.Error:
            rebuild = "run `sanitize index` again"
            if view.name in RUN_TABLE_FOLDERS:
                # a run whose output is there and complete does not write them again
                rebuild = "move the output of the run away, and run it again,"
            raise OutputBroken(
                f"table {view.name} of WORK cannot be read as Parquet; {rebuild} to rebuild it"
            ) from None
        select = view.select
        if not reveal:
            # documents: an id may be an address
            unmasked = frozenset[str]() if view.name == "documents" else _UNMASKED_COLUMNS
            select_list = (
                (
                    quote_name(name)
                    if name in unmasked
                    else f"{_mask_column(view.name, name, kind)} AS {quote_name(name)}"
                )
                for name, kind in columns
            )
            select = f"SELECT {', '.join(select_list)} FROM ({view.select})"  # noqa: S608 - names are quoted
        yield f"CREATE OR REPLACE VIEW {quote_name(view.name)} AS {select}"


# ----------------------------------------------------------------------------------------- runs


def list_runs(work: Path) -> list[tuple[Path, str]]:
    """The runs of WORK, the latest last: (folder, named by the hash of its plan; name of the
    plan)."""
    runs = []
    for folder in _list_folders(work / "runs"):
        plan = folder / "plan.json"
        if plan.is_file():
            runs.append(
                (
                    plan.stat().st_mtime_ns,
                    folder.name,
                    folder,
                    str(_read_json_object(plan).get("name", "")),
                )
            )
    return [(folder, name) for _, _, folder, name in sorted(runs)]


def find_run(work: Path, name: str | None) -> Path | None:
    """The folder of the run that `name` selects: a plan name (its latest run), a plan hash, or a
    unique prefix of one.

    Without a name the latest run, or None if there is no run yet. Raises UsageError for an unknown
    name or an ambiguous prefix.
    """
    known = list_runs(work)
    if name is None:
        return known[-1][0] if known else None
    if runs_of_plan := [folder for folder, plan in known if plan == name]:
        return runs_of_plan[-1]
    matching = [folder for folder, _ in known if name and folder.name.startswith(name)]
    if len(matching) == 1 or (matching and matching[0].name == name):
        return matching[0]
    if matching:
        raise UsageError(
            f"{work}: {len(matching)} runs begin with {name}; give more of the hash:"
            f" {', '.join(f.name for f in matching)}"
        )
    raise UsageError(
        f"{work}: there is no run {name[:60]!r};"
        f" {suggest_names(name, [*(f.name for f, _ in known), *(p for _, p in known if p)])}"
    )


def count_run_rows(run: Path, table: str) -> int:
    """The number of rows in one of the tables of a run."""
    import pyarrow.parquet as pq

    return sum(
        int(pq.read_metadata(path).num_rows)
        for path in _list_parquet_files(run / RUN_TABLE_FOLDERS[table])
    )


def list_selected_ids(run_folder: Path, shard_count: int) -> list[Path]:
    """The files of a run with the ids of the values of which an occurrence was selected, of its
    first shards; none where its plan selects all."""
    files = sorted((run_folder / SELECTED_IDS_FOLDER).glob("*.parquet"))
    return [path for path in files if int(path.stem) < shard_count]


def find_unselected_values(
    value_files: Sequence[Path], selected_files: Sequence[Path]
) -> tuple[int, ...]:
    """The ids of the values in files of the vault that are in none of the files of
    `list_selected_ids`: the leak check does not search for them. None without such files."""
    return (
        tuple(sorted({*read_value_ids(value_files)} - {*read_value_ids(selected_files)}))
        if selected_files
        else ()
    )


def read_erased_values(run_folder: Path) -> tuple[int, ...]:
    """The ids of the values of erased persons that a run has found; only where there are tombstones
    of values."""
    import pyarrow.parquet as pq

    return tuple(
        pq.read_table(run_folder / ERASED_VALUES_FILE, partitioning=None).column(0).to_pylist()
    )


def list_column_values(run_folder: Path, shard_count: int) -> list[Path]:
    """The files of a run with values of columns, one for each of its increments, of which the first
    `shard_count` shards are part."""
    return [
        path
        for path in sorted((run_folder / COLUMN_VALUES_FOLDER).glob("*.parquet"))
        if int(path.stem) < shard_count
    ]


def read_value_ids(files: Sequence[Path]) -> tuple[int, ...]:
    """The distinct ids in some files of values, ascending."""
    import numpy as np
    import pyarrow.parquet as pq

    columns = [
        np.asarray(pq.read_table(path, columns=["value_id"], partitioning=None).column(0), np.int64)
        for path in files
    ]
    return tuple(np.unique(np.concatenate([np.empty(0, np.int64), *columns])).tolist())


def _parts_view(run: Path | None) -> SqlView:
    """The parts of the plan of a run, in order: droppers, then editors. Two parts of one name count
    as one, as in `edits` and `drops`."""
    plan = _read_json_object(run / "plan.json") if run is not None else {}
    listed: dict[tuple[str, str], int] = {}
    for stage in ("drop", "edit"):
        for part in plan.get(stage) or ():
            listed.setdefault((stage, str(part.get("use", ""))), len(listed))
    if not listed:
        return SqlView("parts", _empty_select(table_schemas.PARTS.schema))
    rows = ", ".join(
        f"({number}, {quote_literal(stage)}, {quote_literal(part)})"
        for (stage, part), number in listed.items()
    )
    return SqlView(
        "parts",
        f"SELECT CAST(part_no AS INTEGER) AS part_no, stage, part FROM (VALUES {rows}) AS"  # noqa: S608
        " listed(part_no, stage, part)",
    )


# ------------------------------------------------------------------------------------ documents


def _documents_view(documents: Sequence[DocumentFileLike]) -> SqlView:
    """The documents by number. Columns of roles that the files lack are null; ids are texts, as in
    the standard form."""
    roles = ["doc_id", "user_id"] if documents else ["doc_id", "user_id", "text"]
    null_columns = ", ".join(
        ["CAST(NULL AS BIGINT) AS doc_no", *(f"CAST(NULL AS VARCHAR) AS {name}" for name in roles)]
    )
    parts = [f"SELECT {null_columns} WHERE false"]
    paths = tuple(str(Path(file.path).resolve()) for file in documents)
    for path, file in zip(paths, documents, strict=True):
        number = f"{int(file.first_doc_no)} + file_row_number AS doc_no"
        read, sql_names = (
            read_parquet_expression((path,), ", file_row_number = true"),
            make_sql_names(file.columns),
        )
        columns = {column: quote_name(column) for column in file.columns.values()}
        if make_sql_names(columns) != {column: column for column in columns}:
            # then they are selected by their position
            import pyarrow.parquet as pq

            columns = {
                column: f"c{position}" for position, column in enumerate(pq.read_schema(path).names)
            }
            read += f" AS file ({', '.join(columns.values())})"
        others = (
            f"{columns[column]} AS {quote_name(sql_names[name])}"
            for name, column in file.columns.items()
            if name != "doc_no"
        )
        parts.append(f"SELECT {', '.join([number, *others])} FROM {read}")  # noqa: S608 - names are quoted
    return SqlView("documents", " UNION ALL BY NAME ".join(parts), paths)


def make_sql_names(names: Iterable[str]) -> dict[str, str]:
    """The names of columns in SQL, which does not distinguish case and has no empty names: `Text`
    beside `text` is `Text_1`, and an empty name is `column`. Names in lower case stay."""
    used, sql_names = set[str](), dict[str, str]()
    for name in sorted(names, key=lambda name: name != name.lower()):
        candidates = itertools.chain(
            [name or "column"], (f"{name or 'column'}_{number}" for number in itertools.count(1))
        )
        sql_names[name] = next(one for one in candidates if one.casefold() not in used)
        used.add(sql_names[name].casefold())
    return sql_names


def _indexed_leaves(work: Path) -> list[tuple[str, ...]]:
    """The text leaves that the index lists: column, then the steps of the path in it."""
    listed = _read_json_object(work / "index.json").get("leaf_paths") or [["text"]]
    return [tuple(str(step) for step in leaf if step != JSON_STEP) for leaf in listed]


def _with_raw_tables(statement: str, views: Mapping[str, SqlView], *names: str) -> str:
    """The statement with the named tables bound to their raw rows, even if the views of these names
    are masked."""
    raw_tables = ", ".join(f"{quote_name(name)} AS ({views[name].select})" for name in names)
    return f"WITH {raw_tables} SELECT * FROM ({statement})"  # noqa: S608


# ---------------------------------------------------------------------------------------- words

MAX_NGRAM_SIZE = 3  # n-grams of one to three words
# A word is a run of letters, marks and digits, in lower case; everything else separates words.
# N-grams do not cross the end of a text. Lower case is that of Unicode for the isolated word, as in
# the blacklist: DuckDB's `lower` handles neither the final sigma nor the combining dot of a lowered
# I with dot. Regular expressions and lists are outside the portable SQL subset, so this is here and
# not in sql/.
_FINAL_SIGMA = r"([\p{Lu}\p{Ll}\p{Lt}]\p{M}*)Σ(\p{M}*(?:$|[^\p{Lu}\p{Ll}\p{Lt}\p{M}]))"
_WITH_FINAL_SIGMA = (
    f"CASE WHEN contains(cell_text, 'Σ') THEN regexp_replace(cell_text, '{_FINAL_SIGMA}',"
    " '\\1ς\\2', 'g') ELSE cell_text END"
)
_WORDS_EXPRESSION = (
    rf"regexp_extract_all(lower(replace({_WITH_FINAL_SIGMA}, 'İ', 'i' || chr(775))),"
    r" '[\p{L}\p{M}\p{N}]+')"
)


def _ngrams_select(
    connection: duckdb.DuckDBPyConnection,
    views: Mapping[str, SqlView],
    leaves: Sequence[Sequence[str]],
) -> str:
    """SQL for the table `ngrams` over the raw documents. Each query reads all texts; a filter on
    `n` skips the other sizes."""
    import duckdb

    try:
        relation = connection.sql(views["documents"].select)
    except duckdb.Error:  # `create_view_statements` reports which table cannot be read
        return _empty_select(table_schemas.NGRAMS.schema)
    kinds = dict(zip(relation.columns, relation.types, strict=True))
    columns = [
        _text_expression(quote_name(leaf[0]), kinds[leaf[0]], leaf[1:])
        for leaf in leaves
        if leaf[0] in kinds
    ]
    word_queries = [
        f"SELECT doc_no, {_WORDS_EXPRESSION} AS words FROM "  # noqa: S608 - names are quoted
        f"(SELECT doc_no, CAST({f'unnest({text})' if is_list else text} AS VARCHAR) AS cell_text"
        " FROM documents)"
        for text, is_list in columns
    ]
    if not views["documents"].files or not word_queries:
        return _empty_select(table_schemas.NGRAMS.schema)
    sizes = []
    for n in range(1, MAX_NGRAM_SIZE + 1):
        word_columns = [f"w{offset}" for offset in range(n)]
        unnested = ", ".join(
            f"unnest(words[{offset + 1}:]) AS {column}"
            for offset, column in enumerate(word_columns)
        )
        sizes.append(
            f"SELECT CAST({n} AS INTEGER) AS n, ngram, count(user_no) AS users, CAST(sum(occurrences) AS BIGINT) AS occurrences FROM ("  # noqa: E501, S608
            f"SELECT concat_ws(' ', {', '.join(word_columns)}) AS ngram, user_no, count(*) AS"
            " occurrences FROM ("
            f"SELECT user_no, {unnested} FROM document_words LEFT JOIN users USING (doc_no)"
            f") WHERE {word_columns[-1]} IS NOT NULL GROUP BY ngram, user_no) GROUP BY ngram"
        )
    listed = (
        views["blacklist"].select
        if "blacklist" in views
        else _empty_select(table_schemas.BLACKLIST.schema)
    )
    return (
        f"WITH documents AS ({views['documents'].select}), "  # noqa: S608
        f"document_words AS NOT MATERIALIZED ({' UNION ALL '.join(word_queries)}), "
        f"blacklisted AS (SELECT ngram, n, min(reason) AS reason FROM ({listed}) GROUP BY"
        " ngram, n) "
        f"SELECT g.n, g.ngram, g.users, g.occurrences, b.reason FROM ({' UNION ALL '.join(sizes)})"
        " AS g "
        "LEFT JOIN blacklisted AS b ON b.ngram = g.ngram AND b.n = g.n"
    )


def _text_expression(
    column: str, column_type: Any, steps: Sequence[str], depth: int = 0
) -> tuple[str, bool]:
    """SQL for the texts of a column at the end of a path of steps, and True if the expression is a
    list of texts."""
    if not steps:
        return column, False
    name = column_type.id.lower()
    if steps[0] == "[]":
        if name == "map":  # in the standard form a map is a list of its entries
            children = dict(column_type.children)
            text = f"map_{steps[1]}s({column})"
            return _list_expression(text, children[steps[1]], steps[2:], depth)
        return _list_expression(column, column_type.children[0][1], steps[1:], depth)
    children = dict(column_type.children)
    return _text_expression(
        f"struct_extract({column}, {quote_literal(steps[0])})", children[steps[0]], steps[1:], depth
    )


def _list_expression(
    column: str, element_type: Any, steps: Sequence[str], depth: int
) -> tuple[str, bool]:
    text, is_list = _text_expression(f"y{depth}", element_type, steps, depth + 1)
    elements = (
        column if text == f"y{depth}" else f"list_transform({column}, lambda y{depth}: {text})"
    )
    return (f"flatten({elements})" if is_list else elements), True


# ------------------------------------------------------------------------- files and statements


def _list_folders(parent: Path) -> list[Path]:
    if not parent.is_dir():
        return []
    return sorted(
        path
        for path in parent.iterdir()
        if path.is_dir() and not path.is_symlink() and not path.name.startswith(".")
    )


def _list_parquet_files(folder: Path) -> Iterator[str]:
    """Yields all Parquet files below a folder, sorted by path. Unfinished files have another
    suffix. Raises OutputBroken for a link."""
    for directory, subfolders, names in os.walk(folder):
        subfolders.sort()
        for path in (
            Path(directory, name)
            for name in sorted(names)
            if name.endswith(".parquet") and not name.startswith(".")
        ):
            if path.is_symlink():
                raise OutputBroken(f"{path}: is a link; WORK must not contain links. Remove it")
            yield str(path.resolve())


def _read_json_object(path: Path) -> dict[str, Any]:
    try:
        return dict(parse_json(read_regular_file(path)))
    except (OSError, ValueError, TypeError):
        return {}


def _empty_select(schema: pa.Schema) -> str:
    names = {"int64": "BIGINT", "int32": "INTEGER", "float": "REAL", "double": "DOUBLE"}
    columns = (
        f"CAST(NULL AS {names.get(str(field.type), 'VARCHAR')}) AS {quote_name(field.name)}"
        for field in schema
    )
    return f"SELECT {', '.join(columns)} WHERE false"


_PATTERN_CHARACTERS = frozenset("*?[")


def read_parquet_expression(files: Sequence[str], options: str = "") -> str:
    """SQL for the rows of these Parquet files. Each name is read literally: DuckDB takes a text for
    a pattern, and lists its folder, but not the field `filename` of a struct."""
    listed = [quote_literal(file) for file in files]
    if any(_PATTERN_CHARACTERS & set(file) for file in files):
        listed = [f"{{'filename': {literal}}}" for literal in listed]
    return f"read_parquet([{', '.join(listed)}], hive_partitioning = false{options})"


def is_encodable(text: str) -> bool:
    """True if a text can be part of an SQL statement, as the path of a file that it reads."""
    try:
        check_encodable(text)
    except InputRefused:
        return False
    return True


def quote_literal(text: str) -> str:
    """A text as an SQL literal. Together with `quote_name` the only place where a name becomes part
    of a statement."""
    return "'" + check_encodable(text).replace("'", "''") + "'"


def quote_name(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + check_encodable(name).replace('"', '""') + '"'


def check_encodable(text: str) -> str:
    """The text; raises InputRefused if it cannot be part of an SQL statement."""
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise InputRefused(
            f"{escape_controls(text)[:200]}: a name with NUL or with bytes that are not UTF-8"
            " cannot be read. Rename it"
        )
    return text


# ---------------------------------------------------------------------------------------- masks

# The shape of a text: letters become A or a, digits 9, other characters outside printable ASCII ?,
# and runs are cut to length 4. One list for DuckDB and Polars; their regular expressions agree on
# these patterns.
_SHAPE_PATTERNS = (
    (r"[\p{Lu}\p{Lt}]", "A"),
    (r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", "a"),
    (r"\p{N}", "9"),
    (r"[^\x20-\x7E]", "?"),
    ("A{5,}", "AAAA"),
    ("a{5,}", "aaaa"),
    ("9{5,}", "9999"),
)
# j***@e***.com; a longer last label could be a name
_EMAIL_PATTERN = r"^([A-Za-z0-9])[^@]*@([A-Za-z0-9])[^@]*\.([A-Za-z]{2,6}|example)$"


def shape_expression(column: str) -> str:
    """SQL for the shape of a text: `Jane Doe, 555-0100` becomes `Aaaa Aaa, 999-9999`. `column` is
    an SQL expression."""
    for pattern, letter in _SHAPE_PATTERNS:
        column = f"regexp_replace({column}, {quote_literal(pattern)}, '{letter}', 'g')"
    return column


def mask_expression(column: str, kind: str | None = None) -> str:
    """SQL for a masked value: its shape, or `j***@e***.com` if the SQL expression `kind` is
    EMAIL_ADDRESS."""
    shape = shape_expression(column)
    if kind is None:
        return shape
    pattern = quote_literal(_EMAIL_PATTERN)
    address = rf"regexp_replace({column}, {pattern}, '\1***@\2***.\3')"
    return (
        f"CASE WHEN {kind} = 'EMAIL_ADDRESS' AND regexp_matches({column}, {pattern}) THEN {address}"
        f" ELSE {shape} END"
    )


def mask_texts(texts: pl.Series, kinds: pl.Series | None = None) -> pl.Series:
    """The same masks on a Polars column: shapes, and `j***@e***.com` where `kinds` is
    EMAIL_ADDRESS."""
    import polars as pl

    text = shape = pl.col("text")
    for pattern, letter in _SHAPE_PATTERNS:
        shape = shape.str.replace_all(pattern, letter)
    frame = pl.DataFrame({"text": texts.cast(pl.String)})
    if kinds is not None:
        frame = frame.with_columns(kinds.cast(pl.String).alias("kind"))
        address = text.str.replace(_EMAIL_PATTERN, "${1}***@${2}***.${3}")
        shape = (
            pl.when((pl.col("kind") == "EMAIL_ADDRESS") & text.str.contains(_EMAIL_PATTERN))
            .then(address)
            .otherwise(shape)
        )
    return frame.select(shape.alias(texts.name)).to_series()


# A label contains a kind and a number, nothing of the value, and users search tables for it: it is
# not masked.
_LABEL_PATTERN = r"\A\[[A-Z][A-Z0-9_]*(?:-[0-9]+)?\]\z"


def mask_replacements(texts: pl.Series, kinds: pl.Series | None = None) -> pl.Series:
    """The masks of replacements: labels such as `[EMAIL_ADDRESS]` and `[EMAIL_ADDRESS-1]` as they
    are, all others as `mask_texts` does."""
    import polars as pl

    masked = mask_texts(texts, kinds)
    return pl.select(
        pl.when(texts.str.contains(_LABEL_PATTERN)).then(texts).otherwise(masked).alias(texts.name)
    ).to_series()


# Text columns that contain no text of the corpus. Every other text column is masked, including
# those of unknown tables.
_UNMASKED_COLUMNS = frozenset(
    {"kind", "finder", "section", "part", "reason", "source", "location", "privacy_unit", "stage"}
)


def _mask_column(table: str, name: str, column_type: DuckDBPyType) -> str:
    if table in ("value_spellings", "column_values") and name in ("value", "normalised"):
        return mask_expression(quote_name(name), "kind")
    if (table, name) in (("labels", "label"), ("edits", "replacement")):
        column = quote_name(name)
        return (
            f"CASE WHEN regexp_matches({column}, {quote_literal(_LABEL_PATTERN)}) THEN {column}"
            f" ELSE {mask_expression(column)} END"
        )
    return _mask_by_type(quote_name(name), column_type)


_NUMBER_TYPES = frozenset({"boolean", "float", "double", "decimal"}) | {
    f"{sign}{size}"
    for sign in ("", "u")
    for size in ("tinyint", "smallint", "integer", "bigint", "hugeint")
}
_TIME_TYPES = frozenset(
    {"date", "time", "interval", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"}
) | {
    "time with time zone",
    "timestamp with time zone",
}


def _mask_by_type(column: str, column_type: Any, depth: int = 0) -> str:
    name = column_type.id.lower()
    if name in _NUMBER_TYPES | _TIME_TYPES:
        return column
    if name in ("varchar", "enum"):
        return mask_expression(column if name == "varchar" else f"CAST({column} AS VARCHAR)")
    if name == "list":
        return (
            f"list_transform({column}, lambda x{depth}:"
            f" {_mask_by_type(f'x{depth}', column_type.children[0][1], depth + 1)})"
        )
    if name == "struct":
        fields = (
            f"{quote_name(n)} :="
            f" {_mask_by_type(f'struct_extract({column}, {quote_literal(n)})', t, depth)}"
            for n, t in column_type.children
        )
        return f"CASE WHEN {column} IS NULL THEN NULL ELSE struct_pack({', '.join(fields)}) END"
    # bytes, maps, unions and unknown types
    return f"CAST(CASE WHEN {column} IS NULL THEN NULL ELSE '?' END AS VARCHAR)"
