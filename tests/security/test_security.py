"""Attacks by a hostile file, name or query: network access, SQL statements, links, terminal
sequences, keys and slow patterns."""

from __future__ import annotations

import ast
import inspect
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sanitize.cli import main as cli_main
from sanitize.errors import OutputBroken, UsageError
from sanitize.kinds.kind import list_kinds
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.settings import Settings
from sanitize.storage import private_folder, queries

ROOT = Path(__file__).resolve().parents[2]
TEXTS = [f"Mail bob{number}@example.com or 212-555-01{number:02}." for number in range(12)]


def make_environment(site_folder: Path | None) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*([str(site_folder)] if site_folder else []), *sys.path]),
    }


def run_command(
    folder: Path, *arguments: object, site: Path | None = None
) -> subprocess.CompletedProcess[str]:
    command_line = [sys.executable, "-m", "sanitize", *map(str, arguments)]
    return subprocess.run(
        command_line, cwd=folder, capture_output=True, text=True, env=make_environment(site)
    )


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("finished_run")
    pq.write_table(pa.table({"text": TEXTS}), base / "in.parquet")
    run_with_settings([base / "in.parquet"], base / "out", settings=Settings(workers=1))
    return base


# ---- the network ----

AUDIT_HOOK = """
import os, sys
def record_event(event, arguments):
    if event.startswith("socket.") and event not in ("socket.__new__",):
        with open({events_path!r}, "a") as file:
            file.write(event + " " + str(os.getpid()) + "\\n")
sys.addaudithook(record_event)
with open({processes_path!r}, "a") as file:
    file.write(str(os.getpid()) + "\\n")
"""
COMMAND_SEQUENCE = """
import sys
from sanitize.cli import main
if __name__ == "__main__":
    for arguments in {commands!r}:
        sys.argv = ["sanitize", *arguments]
        try:
            main.main()
        except SystemExit as exit_request:
            assert not exit_request.code, arguments
"""


@pytest.mark.slow
def test_commands_open_no_network_connection(tmp_path: Path) -> None:
    events_path, processes_path, site = (
        tmp_path / "events",
        tmp_path / "processes",
        tmp_path / "site",
    )
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        AUDIT_HOOK.format(events_path=str(events_path), processes_path=str(processes_path))
    )
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    commands = (
        ("run", "in.jsonl", "-o", "out", "--workers", "2", "--rows-per-shard", "4"),
        ("index", "in.jsonl", "--work", "work"),
        ("verify", "out"),
        ("sql", "out.private", "--name", "top_values"),
        ("explain", "in.jsonl"),
        ("demo", "--mails", "20"),
    )
    result = subprocess.run(
        [sys.executable, "-c", COMMAND_SEQUENCE.format(commands=commands)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=make_environment(site),
    )
    assert result.returncode == 0, result.stderr
    assert not events_path.exists()
    # the hook was active in the commands, a reader and two workers
    assert len(set(processes_path.read_text().split())) >= 1 + 3
    subprocess.run(
        [sys.executable, "-c", "import socket; socket.socket().connect_ex(('127.0.0.1', 9))"],
        env={**os.environ, "PYTHONPATH": str(site)},
        check=True,
    )
    assert events_path.read_text().startswith("socket.connect ")  # the hook records connections


# ---- statements ----

REFUSED_QUERIES = [
    "COPY value_counts TO 'x.csv'",
    "COPY (SELECT 1) TO 'out.private/tables/x.parquet'",
    "ATTACH 'a.db'",
    "EXPORT DATABASE 'x'",
    "FROM read_csv('/etc/passwd')",
    "FROM read_blob('/etc/passwd')",
    "FROM 'out/data/train-00000-of-00001.parquet'",
    "FROM 'out.private/vault/values/00000.parquet'",
    "FROM 'out.private/tables/../vault/values/00000.parquet'",
    "FROM sniff_csv('/etc/passwd')",
    "FROM parquet_kv_metadata('out.private/vault/values/00000.parquet')",
    "FROM glob('/*')",
    "INSTALL httpfs",
    "LOAD httpfs",
    "PRAGMA version",
    "CALL pragma_version()",
    "SET enable_external_access = true",
    "RESET lock_configuration",
    "SELECT getenv('HOME')",
    "SELECT 1; SELECT 2",
    "DROP VIEW value_counts",
    "VACUUM",
    "CHECKPOINT",
    "FROM duckdb_settings()",
    "FROM duckdb_secrets()",
]


@pytest.mark.parametrize("query", REFUSED_QUERIES)
def test_a_query_can_read_only_the_tables(
    finished_run: Path, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(finished_run)
    before = sorted(path for path in finished_run.rglob("*"))
    with (
        queries.open_connection(finished_run / "out.private") as database,
        pytest.raises(UsageError) as caught,
    ):
        queries.run_query(database, query)
    assert caught.value.exit_code == 2 and "\n" not in str(caught.value)
    assert sorted(path for path in finished_run.rglob("*")) == before


def test_links_in_work_are_not_followed(finished_run: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"secret": ["far away"]}), tmp_path / "secret.parquet")
    link = finished_run / "out.private" / "tables" / "occurrences" / "link.parquet"
    link.symlink_to(tmp_path / "secret.parquet")
    with pytest.raises(OutputBroken, match="is a link"):
        queries.open_connection(finished_run / "out.private")
    link.unlink()
    folder = finished_run / "out.private" / "tables" / "elsewhere"
    folder.symlink_to(tmp_path)
    with (
        queries.open_connection(finished_run / "out.private") as database,
        pytest.raises(UsageError, match="there is no table"),
    ):
        queries.run_query(database, "FROM elsewhere")
    folder.unlink()


UNUSUAL_NAMES = st.text(
    st.sampled_from("ab'\";-\n\t$*?[]{}%~#\\ é\u202e()=,."), min_size=1, max_size=12
).filter(lambda name: name.strip(".") and name[0] != "-")


@pytest.mark.slow
@given(UNUSUAL_NAMES, UNUSUAL_NAMES, UNUSUAL_NAMES)
@example("x' OR 1=1; --", 'q"; DROP TABLE t; --', "$$a$$")
@example("a*", "[!b]?", "{c,d}")
@example(";", "?\\", ";")
@example("back\\slash", "new\nline", "\\")
@settings(
    max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_names_of_inputs_folders_and_columns_are_taken_literally(
    tmp_path_factory: pytest.TempPathFactory, file_suffix: str, work_suffix: str, out_suffix: str
) -> None:
    base = tmp_path_factory.mktemp("names")
    (base / "in").mkdir()
    table = pa.table(
        {
            "text": TEXTS,
            **{
                name: ["x"] * len(TEXTS)
                for name in {file_suffix, work_suffix, out_suffix} - {"text", "user_id", "doc_id"}
            },
        }
    )
    pq.write_table(table, base / "in" / ("n" + file_suffix + ".parquet"))
    work = base / ("w" + work_suffix)
    summary = run_with_settings(
        [base / "in"],
        base / ("o" + out_suffix),
        "redact",
        work=work,
        settings=Settings(workers=1),
    )
    assert summary.documents_out == len(TEXTS) and summary.leaks == 0
    assert [path.name for path in (base / ("o" + out_suffix) / "data").iterdir()] == [
        "train-00000-of-00001.parquet"
    ]
    with queries.open_connection(work) as database:
        assert queries.run_query(
            database, "SELECT count(*) AS n FROM value_counts"
        ).to_pylist() == [{"n": 24}]


def test_only_three_modules_connect_to_duckdb() -> None:
    """Only these modules connect to DuckDB. They insert values into statements with `quote_literal`
    or `quote_name`."""
    connecting_files = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "sanitize").rglob("*.py")
        if "duckdb.connect" in path.read_text("utf-8")
    }
    assert connecting_files <= {
        "sanitize/storage/queries.py",
        "sanitize/engines/local.py",
        "sanitize/engines/spark.py",
    }
    assert 'replace("\'"' not in (ROOT / "sanitize" / "engines" / "local.py").read_text("utf-8")


# ---- keys and hashes ----


def test_the_key_is_readable_by_its_owner_only(finished_run: Path, tmp_path: Path) -> None:
    key = finished_run / "out.private" / "vault" / "key" / "key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    for folder in (key.parent, key.parent.parent, finished_run / "out.private"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for mode in (0o640, 0o604, 0o620, 0o601):
        (tmp_path / "key").write_text("ab" * 32)
        (tmp_path / "key").chmod(mode)
        with pytest.raises(UsageError, match="readable by other users.*chmod 600"):
            private_folder.load_key(finished_run / "out.private", key_file=tmp_path / "key")


def test_a_crash_leaves_no_image_of_memory(tmp_path: Path) -> None:
    """Neither the command nor its workers write a core file, which would hold raw values and the
    key."""
    program = (
        "import resource, subprocess, sys\nresource.setrlimit(resource.RLIMIT_CORE,"
        " (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)\nfrom sanitize.cli import"
        " main\nmain.disable_core_dumps()\nchild = [sys.executable, '-c', 'import resource;"
        " print(resource.getrlimit(resource.RLIMIT_CORE)[0])']\nprint(resource.getrlimit(resource.RLIMIT_CORE)[0],"  # noqa: E501
        " subprocess.run(child, capture_output=True, text=True).stdout)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=make_environment(None),
    )
    assert result.stdout.split() == ["0", "0"], result.stderr
    assert "disable_core_dumps()" in inspect.getsource(cli_main.main)


def test_a_work_folder_with_links_is_refused(tmp_path: Path) -> None:
    for name in ("vault", ".gitignore"):
        work = tmp_path / f"work of {name.strip('.')}"
        work.mkdir()
        (tmp_path / "elsewhere").mkdir(exist_ok=True)
        (work / name).symlink_to(tmp_path / "elsewhere")
        with pytest.raises(UsageError):
            private_folder.open_workspace(work)
        assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_work_folder_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(UsageError, match="belongs to another user"):
        private_folder.make_private_folder(tmp_path / "work")


def test_hashes_are_keyed_or_of_files() -> None:
    """No digest of a value without the key: blake2b of settings (plans, fingerprints) or with
    `key=`, and digests of files."""
    for path in sorted((ROOT / "sanitize").rglob("*.py")):
        source = path.read_text("utf-8")
        for node in ast.walk(ast.parse(source)) if "hashlib" in source else ():
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and getattr(node.func.value, "id", "") == "hashlib"
            ):
                # the ETag of an object in S3 is its MD5
                is_not_for_security = any(
                    keyword.arg == "usedforsecurity" for keyword in node.keywords
                )
                assert (
                    node.func.attr in ("blake2b", "sha256", "file_digest") or is_not_for_security
                ), f"{path}:{node.lineno}"
                # the digests of exact_dup stay in WORK, which holds the texts themselves; those of
                # crypto are checksums of its values
                if path.parent.name in (
                    "finders",
                    "editors",
                    "droppers",
                    "kinds",
                ) and path.name not in ("exact_dup.py", "crypto.py"):
                    assert any(keyword.arg == "key" for keyword in node.keywords), (
                        f"{path}:{node.lineno}"
                    )


def test_another_key_gives_other_value_ids(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": TEXTS}), tmp_path / "in.parquet")
    value_ids = []
    for seed in (1, 2):
        run_with_settings(
            [tmp_path / "in.parquet"],
            tmp_path / f"out{seed}",
            settings=Settings(seed=seed, workers=1),
        )
        value_ids.append(
            set(
                pq.read_table(
                    tmp_path / f"out{seed}.private" / "tables" / "value_counts" / "all.parquet"
                )["value_id"].to_pylist()
            )
        )
    assert len(value_ids[0]) == len(value_ids[1]) == 24 and not value_ids[0] & value_ids[1]


# ---- names, links and terminals ----


@pytest.mark.slow
def test_control_characters_in_names_are_escaped_on_the_terminal(tmp_path: Path) -> None:
    name = "a\x1b]0;gone\x07\u202e\x9b31m.parquet"
    (tmp_path / name).write_bytes(b"PAR1")
    result = run_command(tmp_path, "run", name, "-o", "out")
    assert result.returncode == 3 and "aU+001B]0;goneU+0007U+202EU+009B31m.parquet" in result.stderr
    pq.write_table(pa.table({"text": TEXTS, "b\x1b[2J": TEXTS}), tmp_path / "in.parquet")
    result = run_command(tmp_path, "run", "in.parquet", "-o", "out\x1b[2J")
    assert result.returncode == 0 and "U+001B[2J" in result.stdout
    assert not {
        character
        for character in result.stdout + result.stderr
        if ord(character) < 32 or 127 <= ord(character) < 160
    } - {"\n"}


def test_links_out_of_the_input_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    for relative_path in ("far/away.jsonl", "in/here.jsonl"):
        (tmp_path / relative_path).parent.mkdir(exist_ok=True)
        (tmp_path / relative_path).write_text(
            json.dumps({"text": f"this is {relative_path}"}) + "\n"
        )
    (tmp_path / "in" / "out.jsonl").symlink_to(tmp_path / "far" / "away.jsonl")
    (tmp_path / "in" / "up.jsonl").symlink_to("../far/away.jsonl")
    (tmp_path / "in" / "folder").symlink_to(tmp_path / "far")
    summary = run_with_settings(
        [tmp_path / "in"], tmp_path / "out", settings=Settings(workers=1, max_quarantine=1.0)
    )
    assert summary.quarantine == {"symlink": 3} and summary.documents_out == 1


# ---- patterns ----


@pytest.mark.parametrize("name", sorted(list_kinds()))
def test_patterns_take_linear_time(name: str) -> None:
    """Patterns run in an engine without backtracking (the Rust crate regex, in Polars), which
    refuses look-around and back references."""
    kind = list_kinds()[name]
    long_texts = pl.Series(
        [
            letter * 300_000
            for letter in ("a", "1", "a.", "1-", "a@", ":", "ff:", "<a@a", "http://a", "(")
        ]
    )
    assert long_texts.str.contains(kind.pattern, strict=True).len() == len(long_texts)
    with pytest.raises(pl.exceptions.ComputeError):
        pl.Series(["a"]).str.contains(r"(?=a)", strict=True)


def test_finders_use_no_backtracking_engine() -> None:
    for path in [
        *(ROOT / "sanitize" / "finders").glob("*.py"),
        *(ROOT / "sanitize" / "kinds").glob("*.py"),
    ]:
        imported = {
            alias.name
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        # the recognizers of Presidio use `regex`, under a time limit that quarantines the document;
        # the other files parse patterns and plans with `re`, never a text
        assert not imported & {"re", "regex"} or path.name in (
            "presidio.py",
            "known.py",  # the 18 bytes before a match
            "field_names.py",  # names of fields, of 80 characters at most
            "byte_automaton.py",
            "custom_kind.py",
            "labelled_forms.py",
            "phone_number.py",  # numbers, with the formats of their countries
            "labelled_secrets.py",
            "secret.py",
            "street_address.py",
            "pattern_check.py",
            "kind.py",
        ), path.name
