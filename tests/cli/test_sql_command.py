"""`sanitize sql` and `sanitize top` through the console script: the list, one query, the shell.
Errors are one line without data."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.pipeline.run import run_with_settings
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.storage import queries as q
from sanitize.storage import table_schemas

ANN, BOB = "ann.roe@example.org", "bob.lee@example.com"
TEXTS = [f"{ANN} wrote to {BOB}", f"{BOB} again, call 212-555-0123", f"{ANN} and {BOB}"]
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A WORK with two runs; that of `redact` is the later one."""
    folder = tmp_path_factory.mktemp("shell")
    pq.write_table(pa.table({"text": TEXTS, "user_id": ["u", "v", "u"]}), folder / "in.parquet")
    for age, plan in enumerate(("surrogates", "redact")):
        run_with_settings(
            [folder / "in.parquet"],
            folder / plan,
            load_plan(plan),
            folder / "work",
            Settings(seed=1, workers=1),
        )
        newest = max(
            (folder / "work" / "runs").glob("*/plan.json"), key=lambda path: path.stat().st_mtime_ns
        )
        os.utime(newest, (age + 1e9, age + 1e9) if plan == "redact" else (age + 1e8, age + 1e8))
    return folder / "work"


@pytest.fixture()
def sanitize(work: Path, monkeypatch: pytest.MonkeyPatch, console: Command) -> Command:
    """The console script in this process, in the folder above WORK: exit code, stdout, stderr."""
    monkeypatch.chdir(work.parent)
    monkeypatch.setenv("COLUMNS", "120")

    def command(*arguments: object) -> tuple[int, str, str]:
        code, out, err = console(*arguments)
        assert (
            not [value for value in (ANN, BOB, "ann.", "bob.", "555-0123") if value in out + err]
            or "--reveal" in arguments
        )
        return code, out, err

    return command


def type_lines(monkeypatch: pytest.MonkeyPatch, *lines: str | type[BaseException]) -> None:
    """Replaces the keyboard input by lines; an exception is a key such as ctrl-C."""
    remaining = iter(lines)

    def read_line(_prompt: str) -> str:
        line = next(remaining, EOFError)
        if isinstance(line, str):
            return line
        raise line

    monkeypatch.setattr("builtins.input", read_line)


# ---- the list and one query ----


def test_the_list_has_all_user_queries_and_parameters(sanitize: Command) -> None:
    code, out, _ = sanitize("sql", "work", "--list")
    assert code == 0 and max(map(len, out.splitlines())) <= 120
    listed = json.loads(sanitize("sql", "work", "--list", "--json")[1])
    assert {row["name"]: row["params"] for row in listed}[
        "top_values"
    ] == "kind=all by=occurrences|documents limit=20"
    assert {row["name"] for row in listed} == {
        name for name, query in q.load_queries().items() if query.is_user_query
    }
    # these run over tables that exist only while a plan runs
    assert not {"first_occurrences", "claimed_spans"} & {row["name"] for row in listed}


def test_a_named_query_takes_its_parameters(sanitize: Command) -> None:
    assert json.loads(
        sanitize(
            "sql",
            "work",
            "--name",
            "top_values",
            "--set",
            "limit=1",
            "--set",
            "kind=PHONE_NUMBER",
            "--json",
        )[1]
    ) == [
        {
            "rank": 1,
            "kind": "PHONE_NUMBER",
            "value": "999-999-9999",
            "occurrences": 1,
            "documents": 1,
        }
    ]
    first = {
        by: json.loads(sanitize("top", "work", "--by", by, "--json")[1])[0]
        for by in ("occurrences", "documents", "users")
    }
    assert (
        first["users"] | {"users": 2} == first["users"]
        and first["documents"] == first["occurrences"]
    )
    assert BOB in sanitize("top", "work", "--by", "users", "--reveal")[1]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (
            ["--name", "top_values", "--set", "k=3"],
            ["query top_values has no parameter 'k'", "known: by, kind, limit"],
        ),
        (["--name", "top_values", "--set", "limit=many"], ["limit = 'many'", "whole number"]),
        (
            ["--name", "top_values", "--set", "by=users"],
            ["by = 'users'", "known: documents, occurrences."],
        ),
        (["--name", "ngrams_by_n", "--set", "n=4"], ["n = '4'", "known: 1, 2, 3."]),
        (
            ["--name", "occurrences_by_section", "--set", "kind=EMAIL"],
            ["EMAIL", "did you mean EMAIL_ADDRESS?"],
        ),
        (["--name", "first_occurrences"], ["remaining_occurrences", "only while a plan runs"]),
        (["--name", "frequency"], ["no query 'frequency'", "did you mean"]),
        (["--set", "limit=3"], ["--set", "--name"]),
        (["SELECT 1", "--name", "top_values"], ["a query and --name exclude each other"]),
        (["--list", "--init"], ["--list and --init exclude each other"]),
        (["--name", "top_values", "--run", "rmft"], ["no run 'rmft'", "surrogates", "redact"]),
        (["--name", "top_values", "--memory-limit", "much"], ["--memory-limit much"]),
        (["--name", "top_values", "--format", "xls"], ["--format xls", "known: csv"]),
        (["SELECT value FROM occurrences"], ["value"]),
    ],
)
def test_a_mistake_is_one_error_line(
    arguments: list[str], parts: list[str], sanitize: Command
) -> None:
    code, out, err = sanitize("sql", "work", *arguments)
    (line,) = err.splitlines()
    assert code == 2 and out == "" and line.startswith("error: ")
    assert all(part in line for part in parts), line


def test_a_missing_parameter_is_reported(
    sanitize: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = (
        "-- name: mine\n-- description: It.\n-- tables: value_counts\n-- columns: n\n-- params: $k"
        " number\n"
    )
    source = head + "SELECT count(*) AS n FROM value_counts WHERE occurrences = $k"
    query_by_name = q.load_queries()
    monkeypatch.setattr(
        q, "load_queries", lambda: {**query_by_name, "mine": q.parse_query(source, "mine")}
    )
    assert (
        "query mine needs the parameter k, which has no default. Set it: --set k=2"
        in sanitize("sql", "work", "--name", "mine")[2]
    )
    assert json.loads(sanitize("sql", "work", "--name", "mine", "--set", "k=3", "--json")[1]) == [
        {"n": 1}
    ]


def test_the_latest_run_is_named_among_several(sanitize: Command) -> None:
    parts = {}
    for arguments in ([], ["--run", "surrogates"], ["--run", "redact"]):
        _, out, err = sanitize("sql", "work", "--name", "edits_by_part", "--json", *arguments)
        parts[" ".join(arguments)] = {row["part"] for row in json.loads(out)}
        assert (
            "note: drops, edits of run" in err and "(plan redact), the latest of 2" in err
        ) is not arguments, err
    assert parts == {"": {"redact"}, "--run surrogates": {"rmft"}, "--run redact": {"redact"}}
    assert sanitize("sql", "work", "--name", "kind_counts")[2] == ""
    assert "note: edits of run" in sanitize("sql", "work", "SELECT count(*) FROM edits")[2]


def test_tables_are_truncated_with_a_note_and_csv_is_not(sanitize: Command) -> None:
    _, out, _ = sanitize("sql", "work", "SELECT range AS n FROM range(5000)")
    assert (
        out.splitlines()[-1].startswith("only the first 1,000 rows")
        and len(out.splitlines()) == 1003
    )
    assert (
        len(
            sanitize("sql", "work", "SELECT range AS n FROM range(5000)", "--format", "csv")[
                1
            ].splitlines()
        )
        == 5001
    )
    assert sanitize("sql", "work", "--name", "duplicate_groups")[1].splitlines()[-1] == "no rows"


# ---- the shell ----


def test_the_shell_runs_commands_and_queries(
    sanitize: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    type_lines(
        monkeypatch,
        ".tables",
        ".columns edits",
        "\\d value_counts",
        ".queries",
        ".run top_values limit=1 kind=PHONE_NUMBER",
        ".help",
        "SELECT kind,",
        "  count(*) AS places",
        "FROM occurrences GROUP BY kind ORDER BY kind;",
        ";",
        "SHOW TABLES;",
        "DESCRIBE edits;",
        ".quit",
        "SELECT 'never asked';",
    )
    code, out, err = sanitize("sql", "work")
    assert code == 0 and "error" not in err and "never asked" not in out
    assert "Texts are masked; edits, drops and ledger of run" in err
    assert all(
        name in out
        for name in (
            *table_schemas.ALL_TABLES,
            "documents",
            table_schemas.EDITS.column_descriptions["replacement"],
            "rank_frequency",
        )
    )
    assert (
        "999-999-9999" in out
        and "EMAIL_ADDRESS        5" in out
        and "first_doc_no" in out
        and ".run NAME" in out
    )
    assert max(map(len, out.splitlines())) <= 120


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (".tabels", "there is no command '.tabels'"),
        (".columns edit", "there is no table 'edit'"),
        (".columns", "expected .tables"),
        (".run", "expected .tables"),
        (".run top_valuse", "did you mean top_values"),
        (".run top_values k=1", "has no parameter 'k'"),
        (".run top_values limit", "expected NAME=VALUE"),
        (".run top_values kind=PHONE", "did you mean PHONE_NUMBER"),
        (".run top_values 'limit=1", "quotation"),
        (".run first_occurrences", "only while a plan runs"),
        ("SELEC 1;", "syntax error"),
        ("SELECT CAST(value AS BIGINT) FROM value_spellings;", "cannot be converted"),
        ("SELECT error(value) FROM value_spellings;", "InvalidInputException"),
        ("DROP VIEW edits;", "refused"),
        ("ATTACH 'x.db';", "refused"),
        ("COPY edits TO 'x.csv';", "refused"),
        ("SELECT * FROM 'in.parquet';", "there is no table"),
        ("SELECT 1; SELECT 2;", "refused"),
    ],
)
def test_a_mistake_in_the_shell_is_one_line_and_the_next_query_runs(
    line: str, part: str, sanitize: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    type_lines(monkeypatch, line, "SELECT 'still ' || 'here' AS x;")
    code, out, err = sanitize("sql", "work")
    _, error = err.splitlines()
    assert code == 0 and "still here" in out
    assert error.startswith("error: ") and part in error, error


def test_a_last_statement_without_semicolon_runs(
    sanitize: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    type_lines(monkeypatch, "SELECT 'wh' || 'ole' AS x", "LIMIT 1")
    monkeypatch.setattr("sys.stdin", io.StringIO())
    code, out, _ = sanitize("sql", "work")
    assert code == 0 and "whole" in out


def test_shell_errors_quote_no_raw_values(
    sanitize: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for line in (
        "SELECT CAST(value AS BIGINT) FROM value_spellings;",
        "SELECT error(value) FROM value_spellings;",
        "SELECT CAST(text AS DATE) FROM documents;",
    ):
        type_lines(monkeypatch, line)
        _, out, err = sanitize("sql", "work", "--reveal")
        assert "RAW values are shown" in err and "error: SQL" in err
        assert not [value for value in (ANN, BOB, "ann.", "bob.") if value in out + err]


def test_ctrl_c_cancels_the_line_and_keeps_the_shell(
    sanitize: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    type_lines(monkeypatch, "SELECT 'half", KeyboardInterrupt, "SELECT 'wh' || 'ole' AS x;")
    code, out, err = sanitize("sql", "work")
    assert code == 0 and "whole" in out and "half" not in out + err

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    type_lines(monkeypatch, "SELECT 1;", ".tables")
    monkeypatch.setattr(q, "run_query", interrupt)
    code, out, err = sanitize("sql", "work")
    assert code == 0 and "stopped" in err and "occurrences" in out
