"""DuckDB views over the tables of WORK: their files, empty views for tables that do not exist yet,
and masks for their texts.

A table that no stage has written yet is empty, with the columns of `table_schemas.py`. Some views
are computed from others when a query uses them: `users` and `value_users` (statements of `sql/`),
`sources` (the metadata of staged documents),
`ngrams` (the words of all texts) and `parts` (the plan of the selected run). `users` and `ngrams`
read raw texts: they count first and are masked afterwards, so that masks do not merge different
words or ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sanitize.core.text_cells import LIST_STEP, NUMBER_STEP, LeafPath, get_field_name
from sanitize.errors import OutputBroken
from sanitize.storage import table_schemas
from sanitize.storage.corpus import DocumentFile
from sanitize.storage.private_folder import (
    QUARANTINE_FOLDER,
    TABLES_FOLDER,
    VALUES_FOLDER,
    VAULT_FOLDER,
    SavedIndex,
)
from sanitize.storage.runs.run_folders import (
    RUN_TABLE_FOLDERS,
    SavedRun,
    list_folders,
    list_parquet_files,
)
from sanitize.storage.views.documents_view import documents_view
from sanitize.storage.views.masks import UNMASKED_COLUMNS, mask_column
from sanitize.storage.views.ngrams_view import ngrams_select
from sanitize.storage.views.sources_view import sources_view
from sanitize.storage.views.sql_text import (
    SqlView,
    empty_select,
    make_sql_names,
    quote_literal,
    quote_name,
    read_parquet_expression,
)

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

# table -> query of sql/ that computes it on demand, over the raw tables
COMPUTED_TABLES = {"users": "document_users", "value_users": "value_users"}


def build_views(
    connection: duckdb.DuckDBPyConnection,
    work: Path,
    *,
    run: SavedRun | None,
    documents: Sequence[DocumentFile],
    computed_queries: Mapping[str, str],
) -> list[SqlView]:
    """Every table of WORK, in an order in which the views can be created. `connection` is used to
    get the types of columns.

    `run` is the selected run (`find_run`); `computed_queries` has the statements of
    `COMPUTED_TABLES`.
    """
    folders = {folder.name: folder for folder in list_folders(work / TABLES_FOLDER)} | {
        "value_spellings": work / VALUES_FOLDER,
        "quarantine": work / QUARANTINE_FOLDER,
    }
    if run is not None:
        folders |= {folder.name: folder for folder in list_folders(run.folder / VAULT_FOLDER)}
        folders |= {name: run.folder / subfolder for name, subfolder in RUN_TABLE_FOLDERS.items()}
    files = {name: tuple(list_parquet_files(folder)) for name, folder in folders.items()}
    found = {
        name: SqlView(name, f"FROM {read_parquet_expression(paths)}", paths)
        for name, paths in sorted(files.items())
        if paths
    }
    found["documents"] = documents_view(documents)
    index = SavedIndex.read(work)
    found["sources"] = sources_view(index.documents.files if index else ())
    found["parts"] = _parts_view(run)
    # over the raw rows of the documents, even if the view of that name is masked
    users = (
        f'WITH "documents" AS ({found["documents"].select}) SELECT * FROM'  # noqa: S608
        f" ({computed_queries['users']})"
    )
    found.setdefault("users", SqlView("users", users))
    names = make_sql_names(documents[0].columns if documents else ())
    leaves = [(names.get(column, column), steps) for column, steps in _indexed_leaves(work)]
    computed = {
        "value_users": computed_queries["value_users"],
        "ngrams": ngrams_select(connection, found, leaves),
    }
    absent = [
        name for name in table_schemas.ALL_TABLES if name not in found and name not in computed
    ]
    found |= {
        name: SqlView(name, empty_select(table_schemas.ALL_TABLES[name].schema)) for name in absent
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
            unmasked = frozenset[str]() if view.name == "documents" else UNMASKED_COLUMNS
            select_list = (
                (
                    quote_name(name)
                    if name in unmasked
                    else f"{mask_column(view.name, name, kind)} AS {quote_name(name)}"
                )
                for name, kind in columns
            )
            select = f"SELECT {', '.join(select_list)} FROM ({view.select})"  # noqa: S608 - names are quoted
        yield f"CREATE OR REPLACE VIEW {quote_name(view.name)} AS {select}"


def _parts_view(run: SavedRun | None) -> SqlView:
    """The parts of the plan of a run, in order: droppers, then editors. Two parts of one name count
    as one, as in `edits` and `drops`."""
    parts = dict.fromkeys(run.parts if run else ())
    if not parts:
        return SqlView("parts", empty_select(table_schemas.PARTS.schema))
    rows = ", ".join(
        f"({number}, {quote_literal(stage)}, {quote_literal(part)})"
        for number, (stage, part) in enumerate(parts)
    )
    return SqlView(
        "parts",
        f"SELECT CAST(part_no AS INTEGER) AS part_no, stage, part FROM (VALUES {rows}) AS"  # noqa: S608
        " listed(part_no, stage, part)",
    )


def _indexed_leaves(work: Path) -> list[tuple[str, list[int | None]]]:
    """The leaves of texts that the index lists: column, then the path in it by positions."""
    index = SavedIndex.read(work)
    if index is None:
        return [("text", [])]
    texts = [leaf.stored for leaf in index.leaves if leaf.steps[-1:] != (NUMBER_STEP,)]
    return [(leaf.column, _list_positions(leaf, index.documents.schema)) for leaf in texts]


def _list_positions(leaf: LeafPath, schema: pa.Schema) -> list[int | None]:
    """The position of each field of a path in its struct; None for the elements of a list."""
    positions: list[int | None] = []
    data_type = schema.field(leaf.column).type
    for step in leaf.steps:
        if step == LIST_STEP:
            positions.append(None)
            data_type = data_type.value_type
        else:
            positions.append(data_type.get_field_index(get_field_name(step)))
            data_type = data_type.field(positions[-1]).type
    return positions
