"""The pipeline's statements in Spark SQL: golden translations, and no construct that the engines
evaluate differently."""

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
# queries of `sanitize subject`, which always run locally
LOCAL_QUERIES = {"subject_sections", "subject_documents", "subject_values", "subject_edits"}
# functions with equal results in both engines for the data of these tables; the engine casts INT to
# BIGINT where they differ
PORTABLE_FUNCTIONS = set(
    "count sum min max arg_min exists coalesce row_number dense_rank round length substring cast"
    " case if".split()
)


def find_pipeline_queries() -> Iterator[str]:
    """The names of the queries that the sources use: in a call, or in `required_aggregates` of a
    part. User queries are left out."""
    known = set(load_queries())
    for path in sorted((ROOT / "sanitize").rglob("*.py")):
        if (
            path.relative_to(ROOT / "sanitize")
            .as_posix()
            .startswith(("cli/", "inspection/sql_api.py"))
        ):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                function_name = (
                    node.func.attr
                    if isinstance(node.func, ast.Attribute)
                    else getattr(node.func, "id", "")
                )
                if function_name in ("get_query", "run_query", "run_named_query", "_query"):
                    queries = [one.value for one in node.keywords if one.arg == "query"]
                    yield from (
                        node_value.value
                        for node_value in [*node.args[:1], *queries]
                        if isinstance(node_value, ast.Constant) and node_value.value in known
                    )
            if (
                isinstance(node, ast.AnnAssign)
                and getattr(node.target, "id", "") == "required_aggregates"
                and isinstance(node.value, ast.Tuple)
            ):
                yield from (
                    node_value.value
                    for node_value in node.value.elts
                    if isinstance(node_value, ast.Constant) and node_value.value in known
                )


PIPELINE = sorted(set(find_pipeline_queries()) - LOCAL_QUERIES)


def read_golden() -> dict[str, str]:
    parts = re.split(r"^-- (\w+)\n", GOLDEN.read_text("utf-8"), flags=re.MULTILINE)[1:]
    return {name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}


def test_golden_file_has_all_pipeline_queries() -> None:
    assert len(PIPELINE) > 20 and {
        "value_counts",
        "near_dup_pairs",
        "header_removals",
        "outcomes",
        "remaining_occurrences",
    } <= set(PIPELINE)
    assert list(read_golden()) == PIPELINE


@pytest.mark.parametrize("name", PIPELINE)
def test_translations_equal_the_golden_file(name: str) -> None:
    """An intended difference is written to spark.sql after review."""
    assert to_spark_sql(load_queries()[name].sql) == read_golden()[name]


@pytest.mark.parametrize("name", PIPELINE)
def test_statements_are_in_the_portable_subset(name: str) -> None:
    assert find_problems(load_queries()[name].sql) == []


def find_problems(statement: str) -> list[str]:
    """Constructs that the engines would evaluate differently."""
    tree, problems = sqlglot.parse_one(statement, read="duckdb"), []
    if not tree.args.get("order"):
        problems.append("the rows have no order")
    for node in tree.walk():
        function_name = (
            node.sql_name().lower()
            if isinstance(node, exp.Func) and not isinstance(node, exp.Connector)
            else ""
        )
        if isinstance(node, exp.Anonymous) or (
            function_name and function_name not in PORTABLE_FUNCTIONS
        ):
            problems.append(f"function {getattr(node, 'name', '') or function_name}")
        exact = (exp.DataType.Type.BIGINT, exp.DataType.Type.DOUBLE)
        if (
            isinstance(node, exp.Cast)
            and not isinstance(node.this, exp.Null)
            and node.to.this not in exact
        ):
            problems.append("a cast that rounds or cuts")
        if isinstance(node, exp.Div) and not isinstance(node.this, exp.Cast):
            problems.append("a division of whole numbers")
        if isinstance(
            node, exp.Limit | exp.Offset | exp.Bracket | exp.Array | exp.Star
        ) and not isinstance(node.parent, exp.Count):
            problems.append(type(node).__name__)
        if isinstance(node, exp.Sum) and not isinstance(
            node.find_ancestor(exp.Cast, exp.Select), exp.Cast
        ):
            problems.append("a sum that is wider in one of them")
    return problems


@pytest.mark.parametrize(
    ("statement", "problem"),
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
def test_portability_check_finds_problems(statement: str, problem: str) -> None:
    assert any(problem in found_problem for found_problem in find_problems(statement)), (
        find_problems(statement)
    )


def test_names_parameters_and_nulls() -> None:
    assert (
        to_spark_sql('SELECT "values"."order" FROM "values" WHERE a <= $most ORDER BY a').split()
        == (
            "SELECT `values`.`order` FROM `values` WHERE `a` <= :most ORDER BY `a` NULLS LAST"
        ).split()
    )
