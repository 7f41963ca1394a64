"""Named queries of `sql/` (parsing, parameters) and a read-only DuckDB connection to the tables of
a WORK folder for SQL of users.

A `.sql` file holds one statement in the portable SQL subset, under a header that describes it.
`open_connection` offers every table of WORK as a view (`views/`): text columns are masked by
shape before a query reads them, unless `reveal` is set; only the files behind the views can be
opened, nothing can be written, and the settings are locked. Cost: a view is read when a query uses
it, so only the result of a query is held in memory. The pipeline runs its queries through the
engines, which use `Query.sql` and `Query.bind`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sanitize.core.table_rendering import escape_controls
from sanitize.errors import (
    InputRefused,
    OutputBroken,
    ResourceError,
    SanitizeError,
    UsageError,
    suggest_names,
)
from sanitize.storage.corpus import DocumentFile
from sanitize.storage.runs.run_folders import find_run
from sanitize.storage.views.sql_text import SqlView, quote_literal
from sanitize.storage.views.workspace_views import (
    COMPUTED_TABLES,
    build_views,
    create_view_statements,
)

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

ParameterValue = int | float | bool | str

# -------------------------------------------------------------------------------- named queries


@dataclass(frozen=True)
class QueryParameter:
    """A scalar parameter `$name` of a query. Its type is that of its default; a parameter without
    default is required."""

    name: str
    type: str  # number | decimal | truth | text
    default: ParameterValue | None
    # allowed values, if they are limited; the first is the default
    choices: tuple[ParameterValue, ...] = ()

    def convert(self, raw: object, query_name: str) -> ParameterValue:
        """Converts a value, or its text on the command line, to the type of the parameter. Raises
        UsageError if it does not fit."""
        value = self._convert_type(raw)
        if value is not None and value in (self.choices or (value,)):
            return value
        if self.choices:
            raise UsageError(
                f"query {query_name}: {self.name} = {raw!r:.40}:"
                f" {suggest_names(str(raw), map(str, self.choices))}"
            )
        expected = {
            "number": "a whole number, 0 or more",
            "decimal": "a number",
            "truth": "true or false",
        }.get(self.type, "a text")
        raise UsageError(
            f"query {query_name}: {self.name} = {raw!r:.40}; expected {expected}, such as --set"
            f" {self.name}={self.example}"
        )

    def _convert_type(self, raw: object) -> ParameterValue | None:
        try:
            if self.type == "number":
                number = int(raw) if isinstance(raw, str) else raw
                return number if type(number) is int and 0 <= number < 1 << 63 else None
            if self.type == "decimal":
                decimal = float(raw) if isinstance(raw, str | int) else raw
                return decimal if type(decimal) is float and math.isfinite(decimal) else None
            if self.type == "truth":
                truth = (
                    {"true": True, "false": False}.get(raw.lower()) if isinstance(raw, str) else raw
                )
                return truth if type(truth) is bool else None
        except ValueError:
            return None
        return raw if isinstance(raw, str) else None

    @property
    def example(self) -> str:
        """An example value as it is typed on the command line."""
        value = (
            {"number": 2, "decimal": 0.5, "truth": True, "text": "all"}[self.type]
            if self.default is None
            else self.default
        )
        return str(value).lower() if isinstance(value, bool) else str(value)

    @property
    def usage(self) -> str:
        """What the parameter accepts, for help texts: its choices with the default first, else its
        default, else its type."""
        return (
            f"({self.type})"
            if self.default is None
            else "|".join(map(str, self.choices)) or self.example
        )


@dataclass(frozen=True)
class Query:
    """A named query: description, tables that it reads, output columns, parameters, and its SQL
    statement."""

    name: str
    description: str
    tables: tuple[str, ...]
    output_columns: tuple[str, ...]
    parameters: tuple[QueryParameter, ...]
    sql: str
    # columns of those tables for which the header lists them: tables that exist only while a plan
    # runs
    table_columns: Mapping[str, tuple[str, ...]]

    def bind(self, given: Mapping[str, object] | None = None) -> dict[str, ParameterValue]:
        """All parameters of the query with typed values: the given ones, converted, else the
        defaults.

        Raises UsageError for an unknown parameter, a missing required one or a value of a wrong
        type.
        """
        given = given or {}
        known = {parameter.name: parameter for parameter in self.parameters}
        for name in given:
            if name not in known:
                raise UsageError(
                    f"query {self.name} has no parameter {name!r}; {suggest_names(name, known)}"
                )
        bound: dict[str, ParameterValue] = {}
        for name, parameter in known.items():
            if name in given:
                bound[name] = parameter.convert(given[name], self.name)
            elif parameter.default is not None:
                bound[name] = parameter.default
            else:
                raise UsageError(
                    f"query {self.name} needs the parameter {name}, which has no default. Set it:"
                    f" --set {name}={parameter.example}"
                )
        return bound

    @property
    def is_user_query(self) -> bool:
        """False for queries that only the pipeline runs, because they read tables that exist only
        during a run."""
        from sanitize.storage.table_schemas import ALL_TABLES

        return set(self.tables) <= {*ALL_TABLES, "documents", "partial_counts"}

    @property
    def signature(self) -> str:
        """The parameters in one line, such as `kind=all limit=20`."""
        return " ".join(f"{p.name}={p.usage}" for p in self.parameters)


def parse_set_options(pairs: Sequence[str]) -> dict[str, str]:
    """The `--set NAME=VALUE` options of the command line as a mapping of strings."""
    given: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--set {pair[:40]}: expected NAME=VALUE, such as --set limit=50")
        if name.strip() in given:
            raise UsageError(f"--set {name.strip()} is given twice; give it once")
        given[name.strip()] = value
    return given


@cache
def load_queries() -> Mapping[str, Query]:
    """All queries of `sql/`, by name, sorted."""
    package = Path(__file__).resolve().parent
    # in a wheel, or in a checkout
    folder = package / "sql" if (package / "sql").is_dir() else package.parents[1] / "sql"
    files = sorted(folder.glob("*.sql"))
    assert files, "sql/ is missing"
    return {file.stem: parse_query(file.read_text("utf-8"), file.stem) for file in files}


def get_query(name: str) -> Query:
    """The query of that name. Raises UsageError with all user queries and the most similar name for
    an unknown one."""
    query = load_queries().get(name)
    if query is None:
        user_queries = [known.name for known in load_queries().values() if known.is_user_query]
        raise UsageError(f"there is no query {name!r:.60}; {suggest_names(name, user_queries)}")
    return query


_LITERAL_PATTERN = r"(?:'[^']*'|true|false|-?\d+\.\d+|-?\d+)"
_PARAMETER_PATTERN = re.compile(
    rf"\$(\w+)(?:\s*=\s*({_LITERAL_PATTERN}(?:\s*\|\s*{_LITERAL_PATTERN})*)|\s+(number|decimal|truth|text))"
)
_TABLE_PATTERN = re.compile(r"(\w+)(?:\s*\(([^)]*)\))?")


def parse_query(source: str, name: str) -> Query:
    """Parses the text of a .sql file. A wrong header is an error in sanitize itself and fails an
    assertion."""
    header: dict[str, str] = {}
    body: list[str] = []
    key = ""
    for line in source.splitlines():
        match = (
            re.match(r"-- (name|description|tables|columns|params): (.*)", line)
            if not body
            else None
        )
        if match:
            key = match[1]
            assert key not in header, f"{name}.sql: header field {key} occurs twice"
            header[key] = match[2].strip()
        elif line.startswith("--") and not body:
            header[key] += " " + line[2:].strip()
        elif line.strip() or body:
            body.append(line)
    assert list(header) == ["name", "description", "tables", "columns", "params"], (
        f"{name}.sql: expected the header fields name, description, tables, columns, params, in"
        " this order"
    )
    assert header["name"] == name, f"{name}.sql: its header says name: {header['name']}"
    tables = {
        match[1]: tuple(part.strip() for part in match[2].split(",")) if match[2] else ()
        for match in _TABLE_PATTERN.finditer(header["tables"])
    }
    listed = header["params"]
    parameters = (
        ()
        if listed == "none"
        else tuple(_parse_parameter(match) for match in _PARAMETER_PATTERN.finditer(listed))
    )
    assert listed == "none" or len(parameters) == listed.count("$"), (
        f"{name}.sql: a parameter cannot be parsed"
    )
    text = "\n".join(body).strip()
    assert ";" not in text, f"{name}.sql: expected one statement without a semicolon"
    output_columns = tuple(part.strip() for part in header["columns"].split(","))
    table_columns = {table: columns for table, columns in tables.items() if columns}
    return Query(
        name, header["description"], tuple(tables), output_columns, parameters, text, table_columns
    )


def _parse_parameter(match: re.Match[str]) -> QueryParameter:
    name, default, kind = match.groups()
    if default is None:
        return QueryParameter(name, kind, None)
    choices = tuple(_parse_literal(one) for one in re.findall(_LITERAL_PATTERN, default))
    kind = {str: "text", bool: "truth", float: "decimal", int: "number"}[type(choices[0])]
    return QueryParameter(name, kind, choices[0], choices if len(choices) > 1 else ())


def _parse_literal(text: str) -> ParameterValue:
    if text.startswith("'"):
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    return float(text) if "." in text else int(text)


def open_connection(
    work: Path,
    *,
    reveal: bool = False,
    memory_limit: str | None = None,
    run: str | None = None,
    documents: Sequence[DocumentFile] = (),
) -> duckdb.DuckDBPyConnection:
    """A new in-memory DuckDB connection with every table of WORK as a view, and no access to
    anything else.

    Tables that do not exist yet are empty. `run` selects the run of which edits, drops and ledger
    are shown (`run_folders.find_run`), by default the latest. Untrusted statements must be run by
    `run_query`: only it refuses the ways to read a table without its mask.
    """
    import duckdb

    work = work.resolve()
    connection = duckdb.connect(":memory:")
    try:
        views = _workspace_views(connection, work, run, documents)
        for statement in create_view_statements(connection, views, reveal=reveal):
            connection.execute(statement)
        allowed = sorted({file for view in views for file in view.files})
        connection.execute(f"SET temp_directory = {quote_literal(str(work / 'spill'))}")
        connection.execute(f"SET allowed_paths = [{', '.join(map(quote_literal, allowed))}]")
        if memory_limit is not None:
            _set_memory_limit(connection, memory_limit)
        for setting, value in _LOCKED_SETTINGS.items():
            connection.execute(f"SET {setting} = {value}")
    except BaseException:
        connection.close()
        raise
    return connection


def _workspace_views(
    connection: duckdb.DuckDBPyConnection,
    work: Path,
    run: str | None,
    documents: Sequence[DocumentFile],
) -> list[SqlView]:
    if not work.is_dir():
        raise UsageError(
            f"{work}: there is no such WORK folder. Create one: sanitize index INPUT --work {work}"
        )
    computed_queries = {table: get_query(name).sql for table, name in COMPUTED_TABLES.items()}
    return build_views(
        connection,
        work,
        run=find_run(work, run),
        documents=documents,
        computed_queries=computed_queries,
    )


# In this order: external access is disabled before the configuration is locked; nothing can be
# changed after that.
_LOCKED_SETTINGS = {
    # otherwise a table name could refer to a Python variable
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "enable_external_access": "false",
    "lock_configuration": "true",
}


def create_views_sql(
    work: Path,
    *,
    reveal: bool = False,
    run: str | None = None,
    documents: Sequence[DocumentFile] = (),
) -> str:
    """CREATE VIEW statements over all tables of WORK, for DuckDB, dbt or a notebook; masked as in
    `open_connection` unless `reveal`."""
    import duckdb

    statements = []
    with duckdb.connect(":memory:") as connection:
        for statement in create_view_statements(
            connection, _workspace_views(connection, work.resolve(), run, documents), reveal=reveal
        ):
            connection.execute(statement)
            statements.append(f"{statement};\n")
    return "".join(statements)


def _set_memory_limit(connection: duckdb.DuckDBPyConnection, limit: str) -> None:
    import duckdb

    try:
        connection.execute(f"SET memory_limit = {quote_literal(limit)}")
    except duckdb.Error:
        raise UsageError(
            f"--memory-limit {limit[:40]}: expected a size, such as 4GB or 512MB"
        ) from None


# ------------------------------------------------------------------------------ running queries


def run_query(
    connection: duckdb.DuckDBPyConnection,
    statement: str | Query,
    params: Mapping[str, object] | None = None,
    *,
    max_rows: int | None = None,
) -> pa.Table:
    """The result of one SELECT (DESCRIBE, SUMMARIZE and SHOW TABLES count as SELECT) or of a named
    query; at most `max_rows` rows.

    Raises UsageError for more than one statement, for anything that writes, attaches or sets, and
    for tables and table functions other than the views, since a file that is read directly is not
    masked. DuckDB's messages about the statement are passed on; messages that may quote data are
    replaced.
    """
    import duckdb

    views = {
        row[0].lower()
        for row in connection.execute(
            "SELECT view_name FROM duckdb_views() WHERE NOT internal"
        ).fetchall()
    }
    if isinstance(statement, Query):
        if missing := [table for table in statement.tables if table not in views]:
            raise UsageError(
                f"query {statement.name} reads {', '.join(missing)}, which exists only while a plan"
                " runs: it is a step of the pipeline. `sanitize sql WORK --list` lists the queries"
                " that can be run"
            )
        params, text = statement.bind(params), statement.sql
    else:
        text = statement
        _check_allowed(connection, text, views)
    try:
        relation = connection.sql(text, params=dict(params) if params else None)
        return _fetch_interruptible(
            connection, relation if max_rows is None else relation.limit(max_rows)
        )
    except duckdb.Error as error:
        raise _safe_error(error) from None


def _fetch_interruptible(
    connection: duckdb.DuckDBPyConnection, relation: duckdb.DuckDBPyRelation
) -> pa.Table:
    """The rows of a relation, computed in a second thread, so that Ctrl-C and signals interrupt
    DuckDB reliably."""
    with ThreadPoolExecutor(1) as pool:
        computing = pool.submit(relation.to_arrow_table)
        try:
            while not wait([computing], 0.1).done:
                # with a timeout, so that this thread wakes up for signals that were delivered to
                # another thread
                pass
        except BaseException:  # Ctrl-C, a signal, or a time limit
            while not computing.done():
                # repeated: an interrupt before the query has started has no effect
                connection.interrupt()
                wait([computing], 0.05)
            raise
        return computing.result()


_ALLOWED_TABLE_FUNCTIONS = frozenset({"unnest", "range", "generate_series"})
_ALLOWED_CATALOG_FUNCTIONS = frozenset(
    {
        "duckdb_tables",
        "duckdb_views",
        "duckdb_columns",
        "duckdb_functions",
        "duckdb_types",
        "duckdb_keywords",
    }
)
_ONE_SELECT = (
    "expected a single SELECT, DESCRIBE, SUMMARIZE or SHOW TABLES; statements that write, attach or"
    " set are not allowed"
)


def _check_allowed(connection: duckdb.DuckDBPyConnection, text: str, views: set[str]) -> None:
    """Raises UsageError unless the text is one SELECT over the views. Checks DuckDB's parse tree of
    the statement, not its text."""
    import duckdb

    try:
        statements = duckdb.extract_statements(text)
        tree = json.loads(
            connection.execute("SELECT json_serialize_sql(CAST(? AS VARCHAR))", [text]).fetchall()[
                0
            ][0]
        )
    except duckdb.Error as error:
        raise _safe_error(error) from None
    # lone surrogates, which bytes that are not UTF-8 become on the command line
    except (
        UnicodeError,
        ValueError,
        TypeError,
    ):
        raise UsageError("the statement is not valid text") from None
    if len(statements) != 1 or tree.get("error"):
        if tree.get("error_type") == "parser":
            raise UsageError(f"SQL: {escape_controls(str(tree.get('error_message')))}")
        raise UsageError(f"refused: {_ONE_SELECT}")
    nodes = list(_iter_nodes(tree))
    # Names defined by WITH. Only plain words count: a name that could also be a file name would,
    # outside its scope, open that file.
    cte_names = {
        name.lower()
        for node in nodes
        if "cte_map" in node
        for name in _cte_names(node)
        if re.fullmatch(r"\w+", name)
    }
    for node in nodes:
        if node.get("type") == "BASE_TABLE":
            schema, table = (
                str(node.get("schema_name", "")).lower(),
                str(node.get("table_name", "")).lower(),
            )
            in_main = schema in ("", "main") and str(node.get("catalog_name", "")).lower() in (
                "",
                "memory",
            )
            if schema != "information_schema" and not (
                in_main and table in views | cte_names | _ALLOWED_CATALOG_FUNCTIONS
            ):
                raise UsageError(
                    f"there is no table {escape_controls(table)[:60]!r} here;"
                    f" {suggest_names(table, views)}"
                )
        elif node.get("type") == "TABLE_FUNCTION":
            function = str((node.get("function") or {}).get("function_name", "")).lower()
            if function not in _ALLOWED_TABLE_FUNCTIONS | _ALLOWED_CATALOG_FUNCTIONS:
                raise UsageError(
                    f"refused: {escape_controls(function)[:60]}() does not read the tables of WORK;"
                    " query one of these: SHOW TABLES"
                )
        is_other_show = (
            node.get("type") == "SHOW_REF"
            and not node.get("query")
            and node.get("table_name") != '"tables"'
        )
        if is_other_show or node.get("type") in ("COLUMN_DATA", "BOUND_TABLE_REF"):
            raise UsageError(f"refused: {_ONE_SELECT}")


def _cte_names(node: dict[str, Any]) -> list[str]:
    return [str(entry["key"]) for entry in node["cte_map"]["map"]]


def _iter_nodes(tree: object) -> Iterator[dict[str, Any]]:
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            yield node
            pending.extend(node.values())
        elif isinstance(node, list):
            pending.extend(node)


def _safe_error(error: duckdb.Error) -> SanitizeError:
    """The error to raise for a DuckDB error: its own message if that is about the statement, a
    fixed text if it may quote data."""
    import duckdb

    if isinstance(error, duckdb.OutOfMemoryException):
        return ResourceError(
            "the query needs more memory than the limit; raise --memory-limit, or narrow the query"
        )
    if isinstance(error, duckdb.PermissionException):
        return UsageError("refused: a query may read the tables of WORK and nothing else")
    if isinstance(
        error,
        duckdb.ParserException
        | duckdb.BinderException
        | duckdb.CatalogException
        | duckdb.SyntaxException,
    ):
        return UsageError(f"SQL: {escape_controls(str(error).split(chr(10) + chr(10))[0])}")
    if "Invalid string encoding found in Parquet file" in str(error):
        return InputRefused(
            "documents: a text of the input is not valid UTF-8 (it is quarantined); a query that"
            " reads all texts cannot run"
        )
    if isinstance(error, duckdb.ConversionException):
        return UsageError(
            "SQL: a value cannot be converted to the requested type; use TRY_CAST to get null"
            " instead"
        )
    if isinstance(error, duckdb.OutOfRangeException):
        return UsageError("SQL: a number is out of range")
    if isinstance(error, duckdb.IOException):
        return OutputBroken(
            "a table file of WORK cannot be read, or the spill folder cannot be written; run"
            " `sanitize index` again"
        )
    return UsageError(f"SQL: the statement failed ({type(error).__name__})")
