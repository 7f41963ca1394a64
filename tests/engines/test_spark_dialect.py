"""The pipeline's statements in Spark SQL: golden translations, and no construct that the engines evaluate differently."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sanitize.storage.queries import load_queries

sqlglot = pytest.importorskip("sqlglot", reason="sqlglot is not installed")
exp = sqlglot.exp

from sanitize.engines.spark_dialect import to_spark_sql  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).with_name("spark.sql")
# what only `sanitize subject` asks, on the machine where it runs
LOCAL = {"subject_sections", "subject_documents", "subject_values", "subject_edits"}
# functions that give the same in both for all that our tables hold; where one says BIGINT and the other INT, the engine casts
SAME = set("count sum min max arg_min exists coalesce row_number dense_rank round length substring cast case if".split())


def pipeline() -> Iterator[str]:
    """The names of the queries that the sources use: in a call, or in the needs of a part. Queries for people are left out."""
    known = set(load_queries())
    for path in sorted((ROOT / "sanitize").rglob("*.py")):
        if path.relative_to(ROOT / "sanitize").as_posix().startswith(("cli/", "inspection/sql_api.py")):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if called in ("get_query", "run_query", "run_named_query"):
                    yield from (one.value for one in node.args[:1] if isinstance(one, ast.Constant) and one.value in known)
            if (
                isinstance(node, ast.AnnAssign)
                and getattr(node.target, "id", "") == "required_aggregates"
                and isinstance(node.value, ast.Tuple)
            ):
                yield from (one.value for one in node.value.elts if isinstance(one, ast.Constant) and one.value in known)


PIPELINE = sorted(set(pipeline()) - LOCAL)


def golden() -> dict[str, str]:
    parts = re.split(r"^-- (\w+)\n", GOLDEN.read_text("utf-8"), flags=re.MULTILINE)[1:]
    return {name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}


def test_the_golden_file_holds_what_the_pipeline_runs() -> None:
    assert len(PIPELINE) > 20 and {"value_counts", "near_dup_pairs", "header_removals", "outcomes", "remaining_occurrences"} <= set(
        PIPELINE
    )
    assert list(golden()) == PIPELINE


@pytest.mark.parametrize("name", PIPELINE)
def test_translations_are_golden(name: str) -> None:
    """An intended difference is written to spark.sql after review."""
    assert to_spark_sql(load_queries()[name].sql) == golden()[name]


@pytest.mark.parametrize("name", PIPELINE)
def test_statements_are_in_the_portable_subset(name: str) -> None:
    assert complaints(load_queries()[name].sql) == []


def complaints(statement: str) -> list[str]:
    """Constructs that the engines would evaluate differently."""
    tree, found = sqlglot.parse_one(statement, read="duckdb"), []
    if not tree.args.get("order"):
        found.append("the rows have no order")
    for node in tree.walk():
        called = node.sql_name().lower() if isinstance(node, exp.Func) and not isinstance(node, exp.Connector) else ""
        if isinstance(node, exp.Anonymous) or (called and called not in SAME):
            found.append(f"function {getattr(node, 'name', '') or called}")
        exact = (exp.DataType.Type.BIGINT, exp.DataType.Type.DOUBLE)
        if isinstance(node, exp.Cast) and not isinstance(node.this, exp.Null) and node.to.this not in exact:
            found.append("a cast that rounds or cuts")
        if isinstance(node, exp.Div) and not isinstance(node.this, exp.Cast):
            found.append("a division of whole numbers")
        if isinstance(node, exp.Limit | exp.Offset | exp.Bracket | exp.Array | exp.Star) and not isinstance(node.parent, exp.Count):
            found.append(type(node).__name__)
        if isinstance(node, exp.Sum) and not isinstance(node.find_ancestor(exp.Cast, exp.Select), exp.Cast):
            found.append("a sum that is wider in one of them")
    return found


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        ("SELECT a FROM t", "no order"),
        ("SELECT list(a ORDER BY a) AS a FROM t ORDER BY a", "function"),
        ("SELECT hash(a) AS a FROM t ORDER BY a", "function hash"),
        ("SELECT CAST(a AS INTEGER) AS a FROM t ORDER BY a", "cast"),
        ("SELECT regexp_matches(a, 'x') AS a FROM t ORDER BY a", "function"),
        ("SELECT a[1] AS a FROM t ORDER BY a", "Bracket"),
        ("SELECT a FROM t ORDER BY a LIMIT 3", "Limit"),
        ("SELECT a / b AS a FROM t ORDER BY a", "division"),
        ("SELECT sum(a) AS a FROM t ORDER BY a", "sum"),
        ("SELECT any_value(a) AS a FROM t ORDER BY a", "function"),
        ("SELECT * FROM t ORDER BY a", "Star"),
    ],
)
def test_the_lint_sees(statement: str, complaint: str) -> None:
    assert any(complaint in one for one in complaints(statement)), complaints(statement)


def test_names_parameters_and_nulls() -> None:
    assert to_spark_sql('SELECT "values"."order" FROM "values" WHERE a <= $most ORDER BY a').split() == (
        "SELECT `values`.`order` FROM `values` WHERE `a` <= :most ORDER BY `a` NULLS LAST".split()
    )
