"""The named queries of `sql/`, bound and checked, and a DuckDB connection that may look at a WORK folder and do nothing else.

A `.sql` file holds one statement in the portable subset, under a header that says what it is. `connect` shows every table of WORK
as a view (`views.py`): text columns are masked by shape before a query sees them, unless they are asked for with `reveal`; only the files
behind the views can be opened, nothing can be written, and the settings are locked. What it costs: the views are read when they are asked,
so only a query's result is held. Running queries for the pipeline is left to the engines; they take `Query.text` and `Query.bind`.
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

from sanitize.core.rendering import visible
from sanitize.errors import InputRefused, OutputBroken, ResourceError, SanitizeError, UsageError, nearest
from sanitize.storage.views import ASKED, DocumentFile, View, create, glob_escaped, quote_literal, run_named, views_of

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

Value = int | float | bool | str

# -------------------------------------------------------------------------------------------------------------------- named queries


@dataclass(frozen=True)
class Parameter:
    """A scalar that a query takes by `$name`. Its type is that of its default; one without default is required."""

    name: str
    type: str  # number | decimal | truth | text
    default: Value | None
    choices: tuple[Value, ...] = ()  # where only a few values make sense; the first is the default

    def convert(self, given: object, query: str) -> Value:
        """A given value, or its spelling on the command line, in the parameter's type."""
        value = self._typed(given)
        if value is not None and value in (self.choices or (value,)):
            return value
        wanted = {"number": "a whole number, 0 or more", "decimal": "a number", "truth": "true or false"}.get(self.type, "a text")
        if self.choices:
            wanted = f"one of {', '.join(map(str, self.choices))}"
        raise UsageError(f"query {query}: {self.name} = {given!r:.40}; expected {wanted}, such as --set {self.name}={self.example}")

    def _typed(self, given: object) -> Value | None:
        try:
            if self.type == "number":
                number = int(given) if isinstance(given, str) else given
                return number if type(number) is int and 0 <= number < 1 << 63 else None
            if self.type == "decimal":
                decimal = float(given) if isinstance(given, str | int) else given
                return decimal if type(decimal) is float and math.isfinite(decimal) else None
            if self.type == "truth":
                truth = {"true": True, "false": False}.get(given.lower()) if isinstance(given, str) else given
                return truth if type(truth) is bool else None
        except ValueError:
            return None
        return given if isinstance(given, str) else None

    @property
    def example(self) -> str:
        """A value as it is typed on the command line."""
        value = {"number": 2, "decimal": 0.5, "truth": True, "text": "all"}[self.type] if self.default is None else self.default
        return str(value).lower() if isinstance(value, bool) else str(value)

    @property
    def spelled(self) -> str:
        """What it may be: its default, all its choices with the default first, or its type."""
        return f"({self.type})" if self.default is None else "|".join(map(str, self.choices)) or self.example


@dataclass(frozen=True)
class Query:
    """A named query: what it does, the tables it reads, the columns it gives, the parameters it takes, and its statement."""

    name: str
    does: str
    reads: tuple[str, ...]
    gives: tuple[str, ...]
    takes: tuple[Parameter, ...]
    text: str
    columns: Mapping[str, tuple[str, ...]]  # of the tables that exist only while a plan runs

    def bind(self, given: Mapping[str, object] | None = None) -> dict[str, Value]:
        """All parameters of the query, typed: those given, else their defaults. Strings are converted."""
        given = given or {}
        known = {parameter.name: parameter for parameter in self.takes}
        for name in given:
            if name not in known:
                raise UsageError(f"query {self.name} takes no {name!r}; {nearest(name, known)}")
        bound: dict[str, Value] = {}
        for name, parameter in known.items():
            if name in given:
                bound[name] = parameter.convert(given[name], self.name)
            elif parameter.default is not None:
                bound[name] = parameter.default
            else:
                raise UsageError(f"query {self.name} needs {name}, which has no default. Give it: --set {name}={parameter.example}")
        return bound

    @property
    def askable(self) -> bool:
        """False for what only the pipeline runs, over tables that exist while it does."""
        from sanitize.storage.table_schemas import ALL

        return set(self.reads) <= {*ALL, "documents", "partial_counts"}

    @property
    def signature(self) -> str:
        """Its parameters in one line, such as `kind=all limit=20`."""
        return " ".join(f"{p.name}={p.spelled}" for p in self.takes)


def settings(pairs: Sequence[str]) -> dict[str, str]:
    """The `--set k=3` arguments of the command line as a mapping of strings."""
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
def queries() -> Mapping[str, Query]:
    """All queries of `sql/` by name, in order of name."""
    here = Path(__file__).resolve().parent
    folder = here / "sql" if (here / "sql").is_dir() else here.parents[1] / "sql"  # inside the wheel, or beside the package
    files = sorted(folder.glob("*.sql"))
    assert files, "sql/ is missing"
    return {file.stem: parse(file.read_text("utf-8"), file.stem) for file in files}


def query(name: str) -> Query:
    """The query of that name; a wrong name lists what can be asked and the nearest."""
    found = queries().get(name)
    if found is None:
        raise UsageError(f"there is no query {name!r:.60}; {nearest(name, [one.name for one in queries().values() if one.askable])}")
    return found


_ONE = r"(?:'[^']*'|true|false|-?\d+\.\d+|-?\d+)"
_LITERAL = re.compile(rf"\$(\w+)(?:\s*=\s*({_ONE}(?:\s*\|\s*{_ONE})*)|\s+(number|decimal|truth|text))")
_TABLE = re.compile(r"(\w+)(?:\s*\(([^)]*)\))?")


def parse(source: str, name: str) -> Query:
    """A query from the text of its file. A wrong header is our own mistake, so it is asserted."""
    head: dict[str, str] = {}
    body: list[str] = []
    key = ""
    for line in source.splitlines():
        match = re.match(r"-- (name|does|reads|gives|takes): (.*)", line) if not body else None
        if match:
            key = match[1]
            assert key not in head, f"{name}.sql: {key} stands twice"
            head[key] = match[2].strip()
        elif line.startswith("--") and not body:
            head[key] += " " + line[2:].strip()
        elif line.strip() or body:
            body.append(line)
    assert list(head) == ["name", "does", "reads", "gives", "takes"], f"{name}.sql: name, does, reads, gives, takes, in this order"
    assert head["name"] == name, f"{name}.sql: its name is {head['name']}"
    tables = {match[1]: tuple(part.strip() for part in match[2].split(",")) if match[2] else () for match in _TABLE.finditer(head["reads"])}
    takes = () if head["takes"] == "nothing" else tuple(_parameter(match) for match in _LITERAL.finditer(head["takes"]))
    assert head["takes"] == "nothing" or len(takes) == head["takes"].count("$"), f"{name}.sql: a parameter cannot be read"
    text = "\n".join(body).strip()
    assert ";" not in text, f"{name}.sql: one statement, without a semicolon"
    gives = tuple(part.strip() for part in head["gives"].split(","))
    columns = {table: listed for table, listed in tables.items() if listed}
    return Query(name, head["does"], tuple(tables), gives, takes, text, columns)


def _parameter(match: re.Match[str]) -> Parameter:
    name, default, kind = match.groups()
    if default is None:
        return Parameter(name, kind, None)
    choices = tuple(_literal(one) for one in re.findall(_ONE, default))
    kind = {str: "text", bool: "truth", float: "decimal", int: "number"}[type(choices[0])]
    return Parameter(name, kind, choices[0], choices if len(choices) > 1 else ())


def _literal(text: str) -> Value:
    if text.startswith("'"):
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    return float(text) if "." in text else int(text)


def connect(
    work: Path,
    *,
    reveal: bool = False,
    memory_limit: str | None = None,
    run: str | None = None,
    documents: Sequence[DocumentFile] = (),
) -> duckdb.DuckDBPyConnection:
    """A fresh DuckDB in memory with every table of WORK as a view, and no way to anything else.

    Tables that are not there yet are empty. `run` says whose edits, drops and ledger are shown (`views.run_named`), by default those of
    the latest run. Statements of strangers go through `ask`: it alone refuses the ways around a masked view.
    """
    import duckdb

    work = work.resolve()
    connection = duckdb.connect(":memory:")
    try:
        views = _views(connection, work, run, documents)
        for statement in create(connection, views, reveal=reveal):
            connection.execute(statement)
        allowed = sorted({name for view in views for file in view.files for name in (file, glob_escaped(file))})
        connection.execute(f"SET temp_directory = {quote_literal(str(work / 'spill'))}")
        connection.execute(f"SET allowed_paths = [{', '.join(map(quote_literal, allowed))}]")
        if memory_limit is not None:
            _set_memory(connection, memory_limit)
        for setting, value in _LOCKS.items():
            connection.execute(f"SET {setting} = {value}")
    except BaseException:
        connection.close()
        raise
    return connection


def _views(connection: duckdb.DuckDBPyConnection, work: Path, run: str | None, documents: Sequence[DocumentFile]) -> list[View]:
    if not work.is_dir():
        raise UsageError(f"{work}: there is no such WORK folder. Make one: sanitize find INPUT --work {work}")
    asked = {name: query(name).text for name in ASKED}
    return views_of(connection, work, run=run_named(work, run), documents=documents, asked=asked)


# In this order: external access goes before the lock, and nothing changes after it.
_LOCKS = {
    "python_enable_replacements": "false",  # else a table name may stand for a Python variable
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "enable_external_access": "false",
    "lock_configuration": "true",
}


def init_sql(work: Path, *, reveal: bool = False, run: str | None = None, documents: Sequence[DocumentFile] = ()) -> str:
    """CREATE VIEW statements over all tables of WORK, for DuckDB, dbt or a notebook; masked like `connect` unless `reveal`."""
    import duckdb

    made = []
    with duckdb.connect(":memory:") as connection:
        for statement in create(connection, _views(connection, work.resolve(), run, documents), reveal=reveal):
            connection.execute(statement)
            made.append(f"{statement};\n")
    return "".join(made)


def _set_memory(connection: duckdb.DuckDBPyConnection, limit: str) -> None:
    import duckdb

    try:
        connection.execute(f"SET memory_limit = {quote_literal(limit)}")
    except duckdb.Error:
        raise UsageError(f"--memory-limit {limit[:40]}: expected a size, such as 4GB or 512MB") from None


# --------------------------------------------------------------------------------------------------------------------------- asking


def ask(
    connection: duckdb.DuckDBPyConnection, statement: str | Query, params: Mapping[str, object] | None = None, *, most: int | None = None
) -> pa.Table:
    """The result of one SELECT (DESCRIBE, SUMMARIZE and SHOW TABLES are SELECTs too) or of a named query; at most its first `most` rows.

    Refused: more than one statement, anything that writes, attaches or sets, and tables and table functions beyond the views, since
    a file that is read directly is not masked. Errors about the statement are passed on; errors that may quote data are not.
    """
    import duckdb

    views = {row[0].lower() for row in connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()}
    if isinstance(statement, Query):
        if missing := [table for table in statement.reads if table not in views]:
            raise UsageError(
                f"query {statement.name} reads {', '.join(missing)}, which exists only while a plan runs: it is a step of the pipeline. "
                "`sanitize sql WORK --list` says what can be asked"
            )
        params, text = statement.bind(params), statement.text
    else:
        text = statement
        _allow(connection, text, views)
    try:
        relation = connection.sql(text, params=dict(params) if params else None)
        return _fetched(connection, relation if most is None else relation.limit(most))
    except duckdb.Error as error:
        raise _cleaned(error) from None


def _fetched(connection: duckdb.DuckDBPyConnection, relation: duckdb.DuckDBPyRelation) -> pa.Table:
    """The rows of a relation, computed in a thread beside this one: DuckDB by itself does not always see that it is told to stop."""
    with ThreadPoolExecutor(1) as pool:
        computing = pool.submit(relation.to_arrow_table)
        try:
            while not wait([computing], 0.1).done:  # looked up from now and then: a signal may reach another thread first
                pass
        except BaseException:  # ctrl-C, a signal, or a time limit
            while not computing.done():  # what has not begun yet does not hear it
                connection.interrupt()
                wait([computing], 0.05)
            raise
        return computing.result()


_TABLE_FUNCTIONS = frozenset({"unnest", "range", "generate_series"})
_CATALOGUE = frozenset({"duckdb_tables", "duckdb_views", "duckdb_columns", "duckdb_functions", "duckdb_types", "duckdb_keywords"})
_ONE_SELECT = "only one SELECT, DESCRIBE, SUMMARIZE or SHOW TABLES at a time is answered; nothing here writes, attaches or sets"


def _allow(connection: duckdb.DuckDBPyConnection, text: str, views: set[str]) -> None:
    """Refuse all but one SELECT over the views. The statement is judged by DuckDB's own parse of it, not by its letters."""
    import duckdb

    try:
        statements = duckdb.extract_statements(text)
        tree = json.loads(connection.execute("SELECT json_serialize_sql(CAST(? AS VARCHAR))", [text]).fetchall()[0][0])
    except duckdb.Error as error:
        raise _cleaned(error) from None
    except (UnicodeError, ValueError):
        raise UsageError("the statement is not valid text") from None
    if len(statements) != 1 or tree.get("error"):
        if tree.get("error_type") == "parser":
            raise UsageError(f"SQL: {visible(str(tree.get('error_message')))}")
        raise UsageError(f"refused: {_ONE_SELECT}")
    nodes = list(_nodes(tree))
    # names made by WITH; one that could also name a file is not believed, since outside its scope it would open that file
    named = {name.lower() for node in nodes if "cte_map" in node for name in _with_names(node) if re.fullmatch(r"\w+", name)}
    for node in nodes:
        if node.get("type") == "BASE_TABLE":
            schema, table = str(node.get("schema_name", "")).lower(), str(node.get("table_name", "")).lower()
            own = schema in ("", "main") and str(node.get("catalog_name", "")).lower() in ("", "memory")
            if schema != "information_schema" and not (own and table in views | named | _CATALOGUE):
                raise UsageError(f"there is no table {visible(table)[:60]!r} here; {nearest(table, views)}")
        elif node.get("type") == "TABLE_FUNCTION":
            function = str((node.get("function") or {}).get("function_name", "")).lower()
            if function not in _TABLE_FUNCTIONS | _CATALOGUE:
                raise UsageError(
                    f"refused: {visible(function)[:60]}() reads past the tables of WORK; ask the tables themselves: SHOW TABLES"
                )
        special = node.get("type") == "SHOW_REF" and not node.get("query") and node.get("table_name") != '"tables"'
        if special or node.get("type") in ("COLUMN_DATA", "BOUND_TABLE_REF"):
            raise UsageError(f"refused: {_ONE_SELECT}")


def _with_names(node: dict[str, Any]) -> list[str]:
    return [str(entry["key"]) for entry in node["cte_map"]["map"]]


def _nodes(tree: object) -> Iterator[dict[str, Any]]:
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            yield node
            pending.extend(node.values())
        elif isinstance(node, list):
            pending.extend(node)


def _cleaned(error: duckdb.Error) -> SanitizeError:
    """What may be said about a DuckDB error: the message where it speaks of the statement, a fixed text where it may quote data."""
    import duckdb

    if isinstance(error, duckdb.OutOfMemoryException):
        return ResourceError("the query needs more memory than the limit; raise --memory-limit, or narrow the query")
    if isinstance(error, duckdb.PermissionException):
        return UsageError("refused: a query reads the tables of WORK and nothing else")
    if isinstance(error, duckdb.ParserException | duckdb.BinderException | duckdb.CatalogException | duckdb.SyntaxException):
        return UsageError(f"SQL: {visible(str(error).split(chr(10) + chr(10))[0])}")
    if "Invalid string encoding found in Parquet file" in str(error):
        return InputRefused("documents: a text of the input is not UTF-8 (it is in quarantine); what reads all texts stops at it")
    if isinstance(error, duckdb.ConversionException):
        return UsageError("SQL: a value cannot be converted to the wanted type; TRY_CAST gives null instead")
    if isinstance(error, duckdb.OutOfRangeException):
        return UsageError("SQL: a number is out of range")
    if isinstance(error, duckdb.IOException):
        return OutputBroken("a table file of WORK cannot be read, or the spill folder not be written; run `sanitize find` again")
    return UsageError(f"SQL: the statement cannot be carried out ({type(error).__name__})")
