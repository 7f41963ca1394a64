"""The statements of `sql/` in Spark's words: DuckDB's portable subset through sqlglot.

Only the dialect changes here. What the two engines understand differently without an error (an order inside a list, hashes, rounding casts,
regular expressions, counting from 0) is kept out of the statements that the pipeline runs; tests/engines/test_spark_dialect.py holds them
to it.
"""

from __future__ import annotations

from functools import lru_cache

from sanitize.errors import MissingExtra


@lru_cache(maxsize=256)
def spark(statement: str) -> str:
    """A statement for Spark 4: every name quoted, `$name` as `:name`, NULLs where DuckDB puts them."""
    try:
        import sqlglot
    except ImportError:
        raise MissingExtra("sqlglot", "spark") from None
    return sqlglot.parse_one(statement, read="duckdb").sql("spark", identify=True, comments=False, pretty=True)
