"""The table `documents`: the input files of an index as one table, each document with its
number."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sanitize.storage.corpus import DocumentFile
from sanitize.storage.views.sql_text import (
    SqlView,
    make_sql_names,
    quote_name,
    read_parquet_expression,
)


def documents_view(documents: Sequence[DocumentFile]) -> SqlView:
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
