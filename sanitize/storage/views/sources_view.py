"""The table `sources`: the input file of each document, and its position in it."""

from __future__ import annotations

from collections.abc import Sequence

from sanitize.errors import printable_path
from sanitize.storage import table_schemas
from sanitize.storage.corpus import DocumentFile
from sanitize.storage.records.lineage import SOURCES_KEY
from sanitize.storage.views.sql_text import SqlView, empty_select, list_files, quote_literal

# as `SourceRuns.to_json` writes them
_STORED_TYPES = '{"sources":["VARCHAR"],"words":["VARCHAR"],"runs":[["BIGINT"]]}'


def sources_view(files: Sequence[DocumentFile]) -> SqlView:
    """The places of all documents. Runs of neighbouring records become rows when a query reads
    them; of files that are read in place nothing is opened."""
    parts = []
    in_place = [
        f"({file.first_doc_no}, {file.rows}, {quote_literal(printable_path(file.source))})"
        for file in files
        if file.source
    ]
    if in_place:
        parts.append(
            "SELECT first_doc_no + i AS doc_no, source, 'row ' || i AS location FROM (VALUES"  # noqa: S608 - literals are quoted
            f" {', '.join(in_place)}) AS file(first_doc_no, rows, source), unnest(range(rows)) AS"
            " position(i)"
        )
    staged = {file.path: file.first_doc_no for file in files if not file.source}
    if staged:
        starts = ", ".join(f"({quote_literal(path)}, {no})" for path, no in staged.items())
        parts.append(
            "SELECT first_doc_no + run[1] + i AS doc_no, stored.sources[run[3] + 1] AS source,"  # noqa: S608 - literals are quoted
            " stored.words[run[4] + 1] || CASE WHEN run[5] < 0 THEN '' ELSE ' ' || (run[5] + i) END"
            f" AS location FROM (SELECT file_name, from_json(decode(value), '{_STORED_TYPES}') AS"
            f" stored FROM parquet_kv_metadata({list_files(list(staged))}) WHERE key ="
            f" '{SOURCES_KEY}') AS files JOIN (VALUES {starts}) AS file(path, first_doc_no) ON path"
            " = file_name, unnest(stored.runs) AS runs(run), unnest(range(run[2])) AS position(i)"
        )
    select = " UNION ALL ".join(parts) or empty_select(table_schemas.SOURCES.schema)
    return SqlView("sources", select, tuple(staged))
