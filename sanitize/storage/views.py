"""The tables of WORK as views for DuckDB: where each lies, what stands in for one that is not there, and how its texts are masked.

A table that no room has written yet is empty, with the columns that `tables.py` gives it. Some views are made from others when they are
asked: `users` and `value_users` (two statements of `sql/`), `ngrams` (the words of all texts) and `parts` (the plan of the shown run).
Those two that need raw texts inside count first and are masked afterwards, so that masks do not make one word of many.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sanitize.core.rendering import visible
from sanitize.errors import InputRefused, OutputBroken, UsageError, nearest
from sanitize.storage import table_schemas

if TYPE_CHECKING:
    import duckdb
    import polars as pl
    import pyarrow as pa
    from duckdb.sqltypes import DuckDBPyType


class DocumentFile(Protocol):
    """A Parquet file that holds documents, as `sanitize.storage.corpus.Source` describes it."""

    @property
    def path(self) -> str: ...
    @property
    def first_doc_no(self) -> int: ...
    @property
    def columns(self) -> Mapping[str, str]: ...


@dataclass(frozen=True)
class View:
    """One view: its name, the SELECT that gives it raw, and the files that it reads."""

    name: str
    select: str
    files: tuple[str, ...] = ()


# what a run of a plan writes below its own folder; everything else is of the index, which all runs share
OF_RUN = {
    "edits": "edits",
    "swept": "sweep",
    "drops": "drops",
    "ledger": "ledger",
    "labels": "vault/labels",
    "blacklist": "vault/blacklist",
}
LEFT_ALONE = "left_alone.parquet"  # among a run's counts: the values of which nothing was taken
ASKED = ("users", "value_users")  # made when asked, by the statement of that name in sql/, over the raw tables


def views_of(
    connection: duckdb.DuckDBPyConnection, work: Path, *, run: Path | None, documents: Sequence[DocumentFile], asked: Mapping[str, str]
) -> list[View]:
    """Every table of WORK, in an order in which each view can be created. `connection` only tells the types of columns.

    `run` is the folder of the run that is shown (`run_named`), `asked` the statements of `ASKED`.
    """
    folders = {folder.name: folder for folder in _folders(work / "tables")} | {
        "values": work / "vault" / "values",
        "quarantine": work / "quarantine",
    }
    if run is not None:
        folders |= {folder.name: folder for folder in _folders(run / "vault")}
        folders |= {name: run / place for name, place in OF_RUN.items()}
    files = {name: tuple(_parquet(folder)) for name, folder in folders.items()}
    found = {name: View(name, f"FROM {_read(paths)}", paths) for name, paths in sorted(files.items()) if paths}
    found["documents"] = _documents(documents)
    found["parts"] = _parts(run)
    found |= {name: View(name, _over(asked[name], found, "documents")) for name in ("users",) if name not in found}
    made = {"value_users": asked["value_users"], "ngrams": _ngrams(connection, found, _texts(work))}
    absent = [name for name in table_schemas.ALL if name not in found and name not in made]
    found |= {name: View(name, _empty(table_schemas.ALL[name].schema)) for name in absent}
    found |= {name: View(name, select) for name, select in made.items() if name not in found}
    return list(found.values())


def create(connection: duckdb.DuckDBPyConnection, views: Sequence[View], *, reveal: bool) -> Iterator[str]:
    """A CREATE VIEW for each view, its text columns masked unless `reveal`. Each is to be carried out before the next is asked for."""
    import duckdb

    for view in views:
        try:
            relation = connection.sql(view.select)
            columns = list(zip(relation.columns, relation.types, strict=True))
        except duckdb.Error:
            raise OutputBroken(f"table {view.name} of WORK cannot be read as Parquet; run `sanitize find` again to make it anew") from None
        select = view.select
        if not reveal:
            plain = frozenset[str]() if view.name == "documents" else _PLAIN  # an id may be an address
            listed = (
                quote_name(name) if name in plain else f"{_masked_column(view.name, name, kind)} AS {quote_name(name)}"
                for name, kind in columns
            )
            select = f"SELECT {', '.join(listed)} FROM ({view.select})"  # noqa: S608 - names are quoted
        yield f"CREATE OR REPLACE VIEW {quote_name(view.name)} AS {select}"


# ----------------------------------------------------------------------------------------------------------------------------- runs


def runs(work: Path) -> list[tuple[Path, str]]:
    """The runs of WORK, the latest last: folder (named by its plan's hash) and name of the plan."""
    found = []
    for folder in _folders(work / "runs"):
        plan = folder / "plan.json"
        if plan.is_file():
            found.append((plan.stat().st_mtime_ns, folder.name, folder, str(_json(plan).get("name", ""))))
    return [(folder, name) for _, _, folder, name in sorted(found)]


def run_named(work: Path, name: str | None) -> Path | None:
    """The folder of a run: of that plan hash, or of the only one that begins so, or the latest of that plan; else the latest of all.

    None where nothing was run yet and none is named. UsageError for a name that is none of these, or fits two hashes.
    """
    known = runs(work)
    if name is None:
        return known[-1][0] if known else None
    if of_plan := [folder for folder, plan in known if plan == name]:
        return of_plan[-1]
    fitting = [folder for folder, _ in known if name and folder.name.startswith(name)]
    if len(fitting) == 1 or (fitting and fitting[0].name == name):
        return fitting[0]
    if fitting:
        raise UsageError(f"{work}: {len(fitting)} runs begin with {name}; give more of the hash: {', '.join(f.name for f in fitting)}")
    raise UsageError(f"{work}: there is no run {name[:60]!r}; {nearest(name, [*(f.name for f, _ in known), *(p for _, p in known if p)])}")


def rows_of_run(run: Path, table: str) -> int:
    """How many rows a run left in one of its tables."""
    import pyarrow.parquet as pq

    return sum(int(pq.read_metadata(path).num_rows) for path in _parquet(run / OF_RUN[table]))


def ids_left_alone(counts: Path) -> tuple[int, ...]:
    """The values that a run left alone, from its folder of counts."""
    import pyarrow.parquet as pq

    path = counts / LEFT_ALONE
    return tuple(pq.read_table(path, columns=["value_id"], partitioning=None).column(0).to_pylist()) if path.exists() else ()


def _parts(run: Path | None) -> View:
    """The parts of the run's plan, in their order: droppers, then editors. Two of one name count as one, as in `edits` and `drops`."""
    plan = _json(run / "plan.json") if run is not None else {}
    listed: dict[tuple[str, str], int] = {}
    for room in ("drop", "edit"):
        for part in plan.get(room) or ():
            listed.setdefault((room, str(part.get("use", ""))), len(listed))
    if not listed:
        return View("parts", _empty(table_schemas.PARTS.schema))
    rows = ", ".join(f"({number}, {quote_literal(room)}, {quote_literal(part)})" for (room, part), number in listed.items())
    return View("parts", f"SELECT CAST(part_no AS INTEGER) AS part_no, room, part FROM (VALUES {rows}) AS listed(part_no, room, part)")  # noqa: S608


# ------------------------------------------------------------------------------------------------------------------------ documents


def _documents(documents: Sequence[DocumentFile]) -> View:
    """The documents by number; the three roles are columns wherever the files lack them, and ids are texts as in the standard form."""
    roles = ["doc_id", "user_id"] if documents else ["doc_id", "user_id", "text"]
    nothing = ", ".join(["CAST(NULL AS BIGINT) AS doc_no", *(f"CAST(NULL AS VARCHAR) AS {name}" for name in roles)])
    parts = [f"SELECT {nothing} WHERE false"]
    paths = tuple(str(Path(file.path).resolve()) for file in documents)
    for path, file in zip(paths, documents, strict=True):
        number = f"{int(file.first_doc_no)} + file_row_number AS doc_no"
        others = (f"{quote_name(column)} AS {quote_name(name)}" for name, column in file.columns.items() if name != "doc_no")
        read = _read((path,), ", file_row_number = true")
        parts.append(f"SELECT {', '.join([number, *others])} FROM {read}")  # noqa: S608 - names are quoted
    return View("documents", " UNION ALL BY NAME ".join(parts), paths)


def _texts(work: Path) -> list[tuple[str, ...]]:
    """The texts of a document as the index names them: column, then steps into it."""
    listed = _json(work / "index.json").get("leaves") or [["text"]]
    return [tuple(str(step) for step in leaf) for leaf in listed]


def _over(statement: str, views: Mapping[str, View], *names: str) -> str:
    """A statement whose tables of these names are the raw ones, also where the views of that name are masked."""
    inside = ", ".join(f"{quote_name(name)} AS ({views[name].select})" for name in names)
    return f"WITH {inside} SELECT * FROM ({statement})"  # noqa: S608


# ---------------------------------------------------------------------------------------------------------------------------- words

SIZES = 3  # n-grams of one to three words
# A word is a run of letters, marks and digits, in lower case; everything else parts words. N-grams do not reach over a text's end.
# Lower case is Unicode's of the word by itself, as in the blacklist: DuckDB's `lower` knows neither the sigma that ends a word nor the dot
# that an I with a dot leaves behind. Regular expressions and lists are outside the portable subset, so this stands here and not in sql/.
_SIGMA = r"([\p{Lu}\p{Ll}\p{Lt}]\p{M}*)Σ(\p{M}*(?:$|[^\p{Lu}\p{Ll}\p{Lt}\p{M}]))"
_ENDED = f"CASE WHEN contains(said, 'Σ') THEN regexp_replace(said, '{_SIGMA}', '\\1ς\\2', 'g') ELSE said END"
_WORDS = rf"regexp_extract_all(lower(replace({_ENDED}, 'İ', 'i' || chr(775))), '[\p{{L}}\p{{M}}\p{{N}}]+')"


def _ngrams(connection: duckdb.DuckDBPyConnection, views: Mapping[str, View], texts: Sequence[Sequence[str]]) -> str:
    """The table `ngrams` of the raw documents. Reads all texts whenever it is asked; a filter on `n` leaves the other sizes alone."""
    import duckdb

    try:
        relation = connection.sql(views["documents"].select)
    except duckdb.Error:  # `create` says which file it is
        return _empty(table_schemas.NGRAMS.schema)
    kinds = dict(zip(relation.columns, relation.types, strict=True))
    columns = [_text_at(quote_name(leaf[0]), kinds[leaf[0]], leaf[1:]) for leaf in texts if leaf[0] in kinds]
    spoken = [
        f"SELECT doc_no, {_WORDS} AS words FROM "  # noqa: S608 - names are quoted
        f"(SELECT doc_no, CAST({f'unnest({text})' if many else text} AS VARCHAR) AS said FROM documents)"
        for text, many in columns
    ]
    if not views["documents"].files or not spoken:
        return _empty(table_schemas.NGRAMS.schema)
    sizes = []
    for n in range(1, SIZES + 1):
        letters = [f"w{place}" for place in range(n)]
        unnested = ", ".join(f"unnest(words[{place + 1}:]) AS {letter}" for place, letter in enumerate(letters))
        sizes.append(
            f"SELECT CAST({n} AS INTEGER) AS n, ngram, count(user_no) AS users, CAST(sum(times) AS BIGINT) AS occurrences FROM ("  # noqa: S608
            f"SELECT concat_ws(' ', {', '.join(letters)}) AS ngram, user_no, count(*) AS times FROM ("
            f"SELECT user_no, {unnested} FROM spoken LEFT JOIN users USING (doc_no)"
            f") WHERE {letters[-1]} IS NOT NULL GROUP BY ngram, user_no) GROUP BY ngram"
        )
    listed = views["blacklist"].select if "blacklist" in views else _empty(table_schemas.BLACKLIST.schema)
    return (
        f"WITH documents AS ({views['documents'].select}), "  # noqa: S608
        f"spoken AS NOT MATERIALIZED ({' UNION ALL '.join(spoken)}), "
        f"blacklisted AS (SELECT ngram, n, min(reason) AS reason FROM ({listed}) GROUP BY ngram, n) "
        f"SELECT g.n, g.ngram, g.users, g.occurrences, b.reason FROM ({' UNION ALL '.join(sizes)}) AS g "
        "LEFT JOIN blacklisted AS b ON b.ngram = g.ngram AND b.n = g.n"
    )


def _text_at(column: str, kind: Any, steps: Sequence[str], depth: int = 0) -> tuple[str, bool]:
    """SQL for the texts of a column at the end of these steps, and whether it is a list of them."""
    if not steps:
        return column, False
    name = kind.id.lower()
    if steps[0] == "[]":
        if name == "map":  # the standard form of a map is a list of its entries
            inside = dict(kind.children)
            text = f"map_{steps[1]}s({column})"
            return _listed(text, inside[steps[1]], steps[2:], depth)
        return _listed(column, kind.children[0][1], steps[1:], depth)
    inside = dict(kind.children)
    return _text_at(f"struct_extract({column}, {quote_literal(steps[0])})", inside[steps[0]], steps[1:], depth)


def _listed(column: str, kind: Any, steps: Sequence[str], depth: int) -> tuple[str, bool]:
    text, many = _text_at(f"y{depth}", kind, steps, depth + 1)
    each = column if text == f"y{depth}" else f"list_transform({column}, lambda y{depth}: {text})"
    return (f"flatten({each})" if many else each), True


# ------------------------------------------------------------------------------------------------------------- files and statements


def _folders(parent: Path) -> list[Path]:
    if not parent.is_dir():
        return []
    return sorted(path for path in parent.iterdir() if path.is_dir() and not path.is_symlink() and not path.name.startswith("."))


def _parquet(folder: Path) -> Iterator[str]:
    """All Parquet files under a folder, in order of path; unfinished ones carry another ending."""
    for place, below, names in os.walk(folder):
        below.sort()
        for path in (Path(place, name) for name in sorted(names) if name.endswith(".parquet") and not name.startswith(".")):
            if path.is_symlink():
                raise OutputBroken(f"{path}: is a link, and WORK holds none; take it away")
            yield str(path.resolve())


def _json(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def _empty(schema: pa.Schema) -> str:
    names = {"int64": "BIGINT", "int32": "INTEGER", "float": "REAL", "double": "DOUBLE"}
    columns = (f"CAST(NULL AS {names.get(str(field.type), 'VARCHAR')}) AS {quote_name(field.name)}" for field in schema)
    return f"SELECT {', '.join(columns)} WHERE false"


def _read(files: Sequence[str], more: str = "") -> str:
    listed = ", ".join(quote_literal(glob_escaped(file)) for file in files)
    return f"read_parquet([{listed}], hive_partitioning = false{more})"


def glob_escaped(path: str) -> str:
    """A path as a glob pattern that means this path alone."""
    escaped = glob.escape(path)
    if escaped != path and "\\" in path:  # a pattern with a backslash is cut in two there, and nothing escapes that
        raise InputRefused(f"{visible(path)[:200]}: a name with a backslash and one of * ? [ cannot be read. Rename it")
    return escaped


def quote_literal(text: str) -> str:
    """A text as an SQL literal. The one place where a name becomes part of a statement, with `quote_name`."""
    return "'" + _speakable(text).replace("'", "''") + "'"


def quote_name(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + _speakable(name).replace('"', '""') + '"'


def _speakable(text: str) -> str:
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise InputRefused(f"{visible(text)[:200]}: a name with NUL or with bytes that are not UTF-8 cannot be read. Rename it")
    return text


# ---------------------------------------------------------------------------------------------------------------------------- masks

# Letters become A or a, digits 9, every other character outside printable ASCII ?, and a run is never longer than 4: what is left
# is the shape of a text. One list for DuckDB and Polars, whose regular expressions agree on all of it.
_SHAPE = (
    (r"[\p{Lu}\p{Lt}]", "A"),
    (r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", "a"),
    (r"\p{N}", "9"),
    (r"[^\x20-\x7E]", "?"),
    ("A{5,}", "AAAA"),
    ("a{5,}", "aaaa"),
    ("9{5,}", "9999"),
)
_ADDRESS = r"^([A-Za-z0-9])[^@]*@([A-Za-z0-9])[^@]*\.([A-Za-z]{2,6}|example)$"  # j***@e***.com; a longer last label could be a name


def shape_expression(column: str) -> str:
    """SQL for the shape of a text: `Jane Doe, 555-0100` gives `Aaaa Aaa, 999-9999`. `column` is an SQL expression."""
    for pattern, letter in _SHAPE:
        column = f"regexp_replace({column}, {quote_literal(pattern)}, '{letter}', 'g')"
    return column


def mask_expression(column: str, kind: str | None = None) -> str:
    """SQL for a masked value: its shape, or `j***@e***.com` where the SQL expression `kind` says EMAIL_ADDRESS."""
    shape = shape_expression(column)
    if kind is None:
        return shape
    pattern = quote_literal(_ADDRESS)
    address = rf"regexp_replace({column}, {pattern}, '\1***@\2***.\3')"
    return f"CASE WHEN {kind} = 'EMAIL_ADDRESS' AND regexp_matches({column}, {pattern}) THEN {address} ELSE {shape} END"


def masked(texts: pl.Series, kinds: pl.Series | None = None) -> pl.Series:
    """The same masks on a Polars column: shapes, and `j***@e***.com` where `kinds` says EMAIL_ADDRESS."""
    import polars as pl

    text = shape = pl.col("text")
    for pattern, letter in _SHAPE:
        shape = shape.str.replace_all(pattern, letter)
    frame = pl.DataFrame({"text": texts.cast(pl.String)})
    if kinds is not None:
        frame = frame.with_columns(kinds.cast(pl.String).alias("kind"))
        address = text.str.replace(_ADDRESS, "${1}***@${2}***.${3}")
        shape = pl.when((pl.col("kind") == "EMAIL_ADDRESS") & text.str.contains(_ADDRESS)).then(address).otherwise(shape)
    return frame.select(shape.alias(texts.name)).to_series()


# Text columns that hold no text of the corpus. Every other text column is masked, also of tables this file has never heard of.
_PLAIN = frozenset({"kind", "finder", "section", "part", "reason", "source", "place", "unit", "room"})


# A label in the place of a value says its kind and a number, and nothing of the value: it is what one looks for in these tables.
_SHOWN_LABEL = quote_literal(r"^\[[A-Z][A-Z0-9_]*(-[0-9]+)?\]$")


def _masked_column(table: str, name: str, kind: DuckDBPyType) -> str:
    if table == "values" and name in ("value", "normalised"):
        return mask_expression(quote_name(name), "kind")
    if (table, name) in (("labels", "label"), ("edits", "replacement")):
        column = quote_name(name)
        return f"CASE WHEN regexp_matches({column}, {_SHOWN_LABEL}) THEN {column} ELSE {mask_expression(column)} END"
    return _masked_type(quote_name(name), kind)


_NUMBERS = frozenset({"boolean", "float", "double", "decimal"}) | {
    f"{sign}{size}" for sign in ("", "u") for size in ("tinyint", "smallint", "integer", "bigint", "hugeint")
}
_TIMES = frozenset({"date", "time", "interval", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"}) | {
    "time with time zone",
    "timestamp with time zone",
}


def _masked_type(column: str, kind: Any, depth: int = 0) -> str:
    name = kind.id.lower()
    if name in _NUMBERS | _TIMES:
        return column
    if name in ("varchar", "enum"):
        return mask_expression(column if name == "varchar" else f"CAST({column} AS VARCHAR)")
    if name == "list":
        return f"list_transform({column}, lambda x{depth}: {_masked_type(f'x{depth}', kind.children[0][1], depth + 1)})"
    if name == "struct":
        inside = (f"{quote_name(n)} := {_masked_type(f'struct_extract({column}, {quote_literal(n)})', t, depth)}" for n, t in kind.children)
        return f"CASE WHEN {column} IS NULL THEN NULL ELSE struct_pack({', '.join(inside)}) END"
    return f"CAST(CASE WHEN {column} IS NULL THEN NULL ELSE '?' END AS VARCHAR)"  # bytes, maps, unions and what is still to come
