"""The table `ngrams`: the words of all documents, counted when a query reads the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sanitize.storage import table_schemas
from sanitize.storage.views.sql_text import SqlView, empty_select, quote_name

if TYPE_CHECKING:
    import duckdb

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


def ngrams_select(
    connection: duckdb.DuckDBPyConnection,
    views: Mapping[str, SqlView],
    leaves: Sequence[tuple[str, Sequence[int | None]]],
) -> str:
    """SQL for the table `ngrams` over the raw documents. Each query reads all texts; a filter on
    `n` skips the other sizes. A leaf is a column and the path in it: the position of a field in its
    struct, or None for the elements of a list."""
    import duckdb

    try:
        relation = connection.sql(views["documents"].select)
    except duckdb.Error:  # `create_view_statements` reports which table cannot be read
        return empty_select(table_schemas.NGRAMS.schema)
    kinds = dict(zip(relation.columns, relation.types, strict=True))
    columns = [
        _text_expression(quote_name(column), kinds[column], steps)
        for column, steps in leaves
        if column in kinds
    ]
    word_queries = [
        f"SELECT doc_no, {_WORDS_EXPRESSION} AS words FROM "  # noqa: S608 - names are quoted
        f"(SELECT doc_no, CAST({f'unnest({text})' if is_list else text} AS VARCHAR) AS cell_text"
        " FROM documents)"
        for text, is_list in columns
    ]
    if not views["documents"].files or not word_queries:
        return empty_select(table_schemas.NGRAMS.schema)
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
        else empty_select(table_schemas.BLACKLIST.schema)
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
    column: str, column_type: Any, steps: Sequence[int | None], depth: int = 0
) -> tuple[str, bool]:
    """SQL for the texts of a column at the end of a path, and True if the expression is a list of
    texts. Fields are taken by position: DuckDB renames those whose names differ by case alone, and
    cannot take one with an empty name."""
    if not steps:
        return column, False
    children, position = column_type.children, steps[0]
    if position is not None:
        field = f"struct_extract_at({column}, {position + 1})"
        return _text_expression(field, children[position][1], steps[1:], depth)
    entry = steps[1] if column_type.id.lower() == "map" else None
    if entry is not None:  # in the standard form a map is a list of its entries
        name, entry_type = children[entry]
        return _list_expression(f"map_{name}s({column})", entry_type, steps[2:], depth)
    return _list_expression(column, children[0][1], steps[1:], depth)


def _list_expression(
    column: str, element_type: Any, steps: Sequence[int | None], depth: int
) -> tuple[str, bool]:
    text, is_list = _text_expression(f"y{depth}", element_type, steps, depth + 1)
    elements = (
        column if text == f"y{depth}" else f"list_transform({column}, lambda y{depth}: {text})"
    )
    return (f"flatten({elements})" if is_list else elements), True
