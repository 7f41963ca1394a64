"""Translates the statements of `sql/` from DuckDB's dialect to Spark SQL, with sqlglot.

Only the dialect changes here. Constructs that both engines accept but evaluate differently (an
order inside a list, hashes, rounding casts, regular expressions, counting from 0) are not used in
the statements of the pipeline; tests/engines/test_spark_dialect.py checks this.
"""

from __future__ import annotations

from functools import lru_cache

from sanitize.errors import MissingExtra


@lru_cache(maxsize=256)
def to_spark_sql(statement: str) -> str:
    """A statement for Spark 4: every name quoted, `$name` as `:name`, NULLs ordered as in DuckDB.
    Raises MissingExtra without sqlglot."""
    try:
        import sqlglot
    except ImportError:
        raise MissingExtra("sqlglot", "spark") from None
    return sqlglot.parse_one(statement, read="duckdb").sql(
        "spark", identify=True, comments=False, pretty=True
    )
