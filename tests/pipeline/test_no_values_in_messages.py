"""No message contains a value: in this corpus every token is a canary, and no canary may appear
outside WORK, whichever command runs and however it fails."""

from __future__ import annotations

import errno
import importlib
import json
import operator
import re
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.cli import main
from sanitize.core import keys
from sanitize.core.keys import Key
from sanitize.core.part_protocols import Aggregates, EditBatch
from sanitize.engines.local import LocalEngine
from sanitize.errors import SanitizeError
from sanitize.finders.patterns import PatternFinder
from sanitize.pipeline import shard_checking
from sanitize.pipeline.indexing.index_build import IndexBuilder
from sanitize.pipeline.run import index_with_settings, run_with_settings
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.reporting.html_report import EditSample
from sanitize.stages import detection, rewriting
from sanitize.storage import files, publication, queries, task_records
from sanitize.verification.findings import Findings
from sanitize.verification.search_terms import SearchTerms, write_terms
from sanitize.verification.value_matches import find_value_matches
from tests.support import CANARY, find_canaries

REMOVED_VALUE = re.compile(r"canary\d+@|646-555-01", re.IGNORECASE)
Command = Callable[..., tuple[int, str]]
sandbox = importlib.import_module("sanitize.readers.sandbox")


def build_row(number: int) -> dict[str, Any]:
    address = f"canary{number:04d}@canaryhost{number:04d}.example.com"
    return {
        "text": (
            f"Canaryword{number:04d} wrote {address}\ncall 646-555-01{number:02d}"
            f" canarytail{number:04d}"
        ),
        "subject": f"Canarysubject{number:04d} canary{number + 5000:04d}@example.com",
        "user_id": f"canary{number + 7000:04d}@example.com",
        "n": number,
    }


@pytest.fixture()
def corpus_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.jsonl").write_text(
        "".join(json.dumps(build_row(number)) + "\n" for number in range(24))
    )
    return tmp_path


@pytest.fixture()
def sanitize(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Command]:
    """Runs the console script in this process; returns its exit code and all output on stdout and
    stderr, including that of workers."""
    sigterm_handler = signal.getsignal(signal.SIGTERM)

    def run_command(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["sanitize", *map(str, arguments)])
        capfd.readouterr()
        try:
            main.main()
            exit_code: Any = 0
        except SystemExit as exit_request:
            exit_code = exit_request.code
        captured = capfd.readouterr()
        return int(exit_code or 0), captured.out + captured.err

    yield run_command
    signal.signal(signal.SIGTERM, sigterm_handler)


def check_files(folder: Path) -> None:
    """Checks that no canary occurs outside WORK and the input, nor in JSON and log files of
    WORK."""
    for path in folder.rglob("*"):
        path_parts = path.relative_to(folder).parts
        if not path.is_file() or path_parts[0].startswith("in.") or path.suffix == ".parquet":
            continue
        if any(
            part.endswith(".private") or part == "work" for part in path_parts
        ) and path.suffix not in (".json", ".jsonl", ".log"):
            continue
        content = path.read_bytes().decode("latin-1")
        assert find_canaries(content) == [], path


def check_output(result: tuple[int, str], exit_code: int = 0) -> None:
    assert result[0] == exit_code, result[1]
    assert find_canaries(result[1]) == []


# ---- commands that succeed ----


@pytest.mark.slow
@pytest.mark.parametrize(
    "plan", ["rmft", "surrogates", "redact", "pseudonymize", "baseline", "blacklist", "mask_words"]
)
def test_a_run_prints_no_value(corpus_folder: Path, sanitize: Command, plan: str) -> None:
    options = ["--plan", plan, "--rows-per-shard", 12, "--workers", 1]
    check_output(
        sanitize("run", "in.jsonl", "-o", "out0", *options[:-1], 2 if plan == "rmft" else 1)
    )
    # nothing changed: the summary is printed again
    check_output(sanitize("run", "in.jsonl", "-o", "out0", *options, "--json"))
    if plan == "rmft":  # and for a new output
        check_output(sanitize("run", "in.jsonl", "-o", "out1", *options, "--json"))
    check_files(corpus_folder)
    table = pa.concat_tables(
        [pq.read_table(file) for file in sorted((corpus_folder / "out0" / "data").iterdir())]
    )
    if plan in ("surrogates", "redact", "pseudonymize", "mask_words"):
        assert not REMOVED_VALUE.search(json.dumps(table.to_pylist()))
    if plan != "baseline":
        assert not CANARY.search(json.dumps(table.column("user_id").to_pylist()))


@pytest.mark.slow
def test_no_command_prints_a_value(corpus_folder: Path, sanitize: Command) -> None:
    check_output(sanitize("index", "in.jsonl", "--work", "out.private", "--plan", "rmft"))
    check_output(sanitize("run", "in.jsonl", "-o", "out", "--plan", "rmft"))
    for arguments in (
        *(
            ["top", "out.private"],
            ["top", "out.private", "--json"],
            ["top", "out.private", "--format", "csv"],
        ),
        *(
            ["status", "out.private"],
            ["status", "out.private", "--json"],
            ["verify", "out"],
            ["verify", "out", "--json"],
        ),
        *(
            ["explain", "in.jsonl"],
            ["explain", "in.jsonl", "--json"],
            ["explain", "in.jsonl", "--plan", "surrogates"],
        ),
        *(
            ["sql", "out.private", "--list"],
            ["sql", "out.private", "--init"],
        ),
        *(
            ["sql", "out.private", f"SELECT * FROM {table}"]
            for table in ("occurrences", "documents", "edits", "value_counts", "value_spellings")
        ),
        *(
            ["sql", "out.private", "SELECT min(text) FROM documents"],
            ["sql", "out.private", "SELECT md5(value) FROM value_spellings LIMIT 0"],
        ),
        *(["list", topic] for topic in ("kinds", "plans", "editors")),
    ):
        check_output(sanitize(*arguments))
    # storage/test_queries_on_runs.py runs all queries
    by_user = {
        is_user: [
            query.name
            for query in queries.load_queries().values()
            if query.is_user_query is is_user
        ]
        for is_user in (True, False)
    }
    for name in ["top_values", *by_user[True][:3], *by_user[False][:3]]:
        assert find_canaries(sanitize("sql", "out.private", "--name", name)[1]) == []
    check_files(corpus_folder)


def test_quarantined_records_are_not_quoted(corpus_folder: Path, sanitize: Command) -> None:
    good_line = json.dumps(build_row(1)).encode() + b"\n"
    bad_lines = [
        b'{"text": "canary0001 \xff"}\n',
        b'{"text": "canary0002\n',
        b'["canary0003"]\n',
        b'{"text": {"canary0004": 1}}\n',
        b'{"text": "canary \\ud800"}\n',
    ]
    (corpus_folder / "in.jsonl").write_bytes(
        b"".join(good_line + bad_line for bad_line in bad_lines)
    )
    result = sanitize("run", "in.jsonl", "-o", "out", "--max-quarantine", "90%", "--plan", "rmft")
    check_output(result)
    assert "not_utf8" in result[1]
    check_output(sanitize("run", "in.jsonl", "-o", "out2", "--plan", "rmft"), 5)
    check_output(sanitize("run", "in.jsonl", "-o", "out3", "--strict", "--plan", "rmft"), 5)
    check_output(sanitize("sql", "out.private", "SELECT reason, location FROM quarantine"))
    check_files(corpus_folder)


def test_file_names_are_not_printed(corpus_folder: Path, sanitize: Command) -> None:
    folder = corpus_folder / "in.folder"
    folder.mkdir()
    (folder / "canary0001@example.com.eml").write_text(
        "From: canary0001@example.com\nSubject: Canaryword0001\n\ncanary0002@example.com\n"
    )
    (folder / "canary0003@example.com.parquet").write_text("broken canary0003")
    (folder / "canary0004.jsonl").write_text(json.dumps(build_row(4)) + "\n")
    for plan in ("rmft", "redact"):
        check_output(
            sanitize(
                "run",
                "in.folder",
                "-o",
                plan,
                "--plan",
                plan,
                "--max-quarantine",
                "90%",
                "--work",
                "work",
            )
        )
    check_output(sanitize("run", "in.folder", "-o", "none", "--plan", "rmft"), 5)
    assert (corpus_folder / "work").exists()
    check_files(corpus_folder)


def test_a_key_is_never_printed(corpus_folder: Path, sanitize: Command) -> None:
    secret = "ca" * 31 + "fe"
    (corpus_folder / "in.key").write_text(secret)
    (corpus_folder / "in.key").chmod(0o600)
    result = sanitize("run", "in.jsonl", "-o", "out", "--key", "in.key", "--json", "--plan", "rmft")
    check_output(result)
    assert secret not in result[1]
    for path in corpus_folder.rglob("*"):
        if path.is_file() and path.name != "in.key":
            assert (
                secret.encode() not in path.read_bytes()
                and bytes.fromhex(secret) not in path.read_bytes()
            )


# ---- commands that fail ----


def write_damaged_parquet(folder: Path, change: Callable[[bytearray], None]) -> None:
    table = pa.table({"text": [build_row(number)["text"] * 50 for number in range(24)]})
    pq.write_table(table, folder / "in.parquet", compression="none", use_dictionary=False)
    raw = bytearray((folder / "in.parquet").read_bytes())
    change(raw)
    (folder / "in.parquet").write_bytes(raw)


def truncate(raw: bytearray) -> None:
    del raw[len(raw) // 2 :]


def insert_invalid_utf8(raw: bytearray) -> None:
    position = raw.index(b"Canaryword0003")
    raw[position] = 0xFF


def overwrite_page(raw: bytearray) -> None:
    raw[4:40] = b"canary" * 6


def overwrite_footer(raw: bytearray) -> None:
    raw[-60:-20] = b"canary00" * 5


@pytest.mark.parametrize(
    "change", [truncate, insert_invalid_utf8, overwrite_page, overwrite_footer]
)
def test_a_damaged_input_is_not_quoted(
    corpus_folder: Path, sanitize: Command, change: Callable[[bytearray], None]
) -> None:
    write_damaged_parquet(corpus_folder, change)
    code, output = sanitize("run", "in.parquet", "-o", "out", "--workers", 1, "--plan", "rmft")
    # bug: an invalid page may end in "bug: ...", because its error is not caught
    assert code in (0, 3, 5), output
    assert find_canaries(output) == []
    check_files(corpus_folder)


TASKS = {
    "read": (sandbox, "stage_task"),
    "find": (detection, "find_task"),
    "apply": (rewriting, "rewrite_task"),
    "verify": (shard_checking, "verify_task"),
}


@pytest.mark.parametrize(
    ("stage", "workers"),
    [
        *((stage, 1) for stage in TASKS),
        # reading has an engine function of its own; the other stages are reported as "find" is
        *(("read", 2), ("find", 2)),
        *(pytest.param(stage, 2, marks=pytest.mark.soak) for stage in ("apply", "verify")),
    ],
)
def test_a_bug_in_a_worker_is_not_quoted(
    corpus_folder: Path,
    sanitize: Command,
    monkeypatch: pytest.MonkeyPatch,
    stage: str,
    workers: int,
) -> None:
    module, name = TASKS[stage]
    # an AttributeError whose message contains the canary, in this process or in a worker
    monkeypatch.setattr(module, name, operator.attrgetter("canary0001"))
    if workers == 2:
        (corpus_folder / "in.b.jsonl").write_text(json.dumps(build_row(30)) + "\n")
    result = sanitize(
        "run",
        "in.jsonl",
        *(["in.b.jsonl"] if workers == 2 else []),
        "-o",
        "out",
        "--workers",
        workers,
        "--rows-per-shard",
        12,
    )
    check_output(result, 1)
    assert "bug: AttributeError" in result[1] and "Traceback" not in result[1]
    assert not (corpus_folder / "out").exists()
    check_files(corpus_folder)


def raise_disk_full(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, "canary0001@example.com", "canary0002.txt")


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (task_records, "fsync"),
        (task_records, "file_sha256"),
        (publication, "swap_folders"),
        (files, "fsync"),
        (publication, "fsync"),
        (publication, "write_json"),
    ],
)
def test_a_full_disk_is_reported_in_one_line(
    corpus_folder: Path, sanitize: Command, monkeypatch: pytest.MonkeyPatch, module: Any, name: str
) -> None:
    monkeypatch.setattr(module, name, raise_disk_full)
    # bug: if the disk is full before the first task (when WORK and its lock are created), the
    # OSError is not translated: exit code 1
    result = sanitize("run", "in.jsonl", "-o", "out", "--workers", 1, "--plan", "rmft")
    check_output(result, 7)
    assert "ENOSPC" in result[1] and result[1].count("error: ") == 1
    assert not (corpus_folder / "out").exists()
    check_files(corpus_folder)


def test_a_full_disk_at_publication_leaves_the_old_output(
    corpus_folder: Path, sanitize: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    sanitize("run", "in.jsonl", "-o", "out", "--plan", "rmft")
    before = (corpus_folder / "out" / "manifest.json").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(publication, "swap_folders", raise_disk_full)
        # a plan with the same finders: another one would rebuild the index that `verify` reads
        check_output(
            sanitize(
                "run",
                "in.jsonl",
                "-o",
                "out",
                "--set",
                "edit.0.keep=0",
                "--replace",
                "--plan",
                "rmft",
            ),
            7,
        )
    assert (corpus_folder / "out" / "manifest.json").read_bytes() == before
    check_output(sanitize("verify", "out"))


def test_an_error_of_duckdb_is_not_quoted(
    corpus_folder: Path, sanitize: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_query = SimpleNamespace(
        sql="SELECT CAST('canary0001@example.com' AS INTEGER) AS value_id"
    )
    monkeypatch.setattr(queries, "get_query", lambda name: failing_query)
    check_output(sanitize("run", "in.jsonl", "-o", "out", "--workers", 1, "--plan", "rmft"), 7)
    check_files(corpus_folder)


@pytest.mark.parametrize("reveal", [False, True])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT CAST(value AS INTEGER) FROM value_spellings",
        "SELECT error(value) FROM value_spellings",
        "SELECT CAST(text AS DATE) FROM documents",
        "SELECT strptime(text, '%Y') FROM documents",
        "SELECT list_extract([1], value) FROM value_spellings",
        "SELECT * FROM documents WHERE n = text",
    ],
)
def test_a_query_that_fails_on_a_value_does_not_quote_it(
    finished_run: Path, sanitize: Command, monkeypatch: pytest.MonkeyPatch, query: str, reveal: bool
) -> None:
    monkeypatch.chdir(finished_run)
    code, output = sanitize("sql", "out.private", query, *(["--reveal"] if reveal else []))
    assert code in (2, 3, 7), output
    assert find_canaries(output) == []


def test_an_invalid_utf8_text_is_not_quoted_by_the_sql_command(
    corpus_folder: Path, sanitize: Command
) -> None:
    """The error message of DuckDB contains the text."""
    write_damaged_parquet(corpus_folder, insert_invalid_utf8)
    check_output(sanitize("run", "in.parquet", "-o", "out", "--workers", 1, "--plan", "rmft"))
    for query in (
        "SELECT upper(text) FROM documents",
        "SELECT max(length(text)) FROM documents",
        "SELECT text FROM documents",
    ):
        code, output = sanitize("sql", "out.private", query, "--reveal")
        assert code in (0, 2, 3, 7)
        assert code == 0 or find_canaries(output) == [], output


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished_run")
    (folder / "in.jsonl").write_text(
        "".join(json.dumps(build_row(number)) + "\n" for number in range(24))
    )
    run_with_settings(
        [folder / "in.jsonl"], folder / "out", load_plan("rmft"), None, Settings(seed=1, workers=1)
    )
    return folder


PERCENT_ENCODED = {code: f"%{code:02x}" for code in range(ord("!"), ord("~") + 1)}


# before detection
@pytest.mark.parametrize(
    ("spelling", "sentence"),
    [
        (
            {},
            (
                "values that the plan removes are in columns that the output keeps (column doc_id:"
                " 5 EMAIL_ADDRESS"
            ),
        ),
        # found by the leak check only
        (
            PERCENT_ENCODED,
            "removed values still occur in the output (column doc_id: 4 EMAIL_ADDRESS",
        ),
    ],
)
def test_a_leak_is_not_quoted(
    corpus_folder: Path, sanitize: Command, spelling: dict[int, str], sentence: str
) -> None:
    (corpus_folder / "in.jsonl").write_text(
        "".join(
            json.dumps(
                build_row(number) | {"doc_id": build_row(number + 1)["subject"].translate(spelling)}
            )
            + "\n"
            for number in range(5)
        )
    )
    result = sanitize("run", "in.jsonl", "-o", "out", "--plan", "redact", "--keep", "doc_id")
    check_output(result, 4)
    assert sentence in result[1] and not (corpus_folder / "out").exists()
    check_files(corpus_folder)


def test_a_damaged_output_is_not_quoted(corpus_folder: Path, sanitize: Command) -> None:
    check_output(sanitize("run", "in.jsonl", "-o", "out", "--plan", "redact"))
    (corpus_folder / "out" / "README.md").write_text("canary0003@canaryhost0003.example.com")
    code, output = sanitize("verify", "out")
    assert code == 4 and find_canaries(output) == []
    shard = corpus_folder / "out" / "data" / "train-00000-of-00001.parquet"
    shard.unlink()
    shard.write_text("canary0003@canaryhost0003.example.com")
    check_output(sanitize("verify", "out"), 3)


def raise_error_with_value(*_: Any) -> Any:
    raise KeyError("canary0001@example.com", "canaryword0001")


def collect_error_text(error: BaseException) -> str:
    """All text of a traceback, a log of it, and its exception chain, without the source lines."""
    texts, chained_error = [], error
    while chained_error is not None:
        texts += [str(chained_error), repr(chained_error), repr(chained_error.args)]
        if chained_error.__suppress_context__ and chained_error.__cause__ is None:
            break
        chained_error = chained_error.__cause__ or chained_error.__context__  # type: ignore[assignment]
    return "\n".join(texts) + "".join(traceback.format_exception_only(error))


def test_exception_chains_contain_no_value(
    corpus_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Python caller sees the exception with its chain: exceptions of the packages must cut the
    chain."""
    failing_calls: list[Callable[[], Any]] = []
    write_damaged_parquet(corpus_folder, truncate)
    failing_calls.append(
        lambda: index_with_settings(
            [Path("in.parquet")], Path("w1"), Settings(workers=1), plan="rmft"
        )
    )
    (corpus_folder / "in.bad.jsonl").write_bytes(b'{"text": "canary0001 \xff"}\n')
    failing_calls.append(
        lambda: index_with_settings(
            [Path("in.bad.jsonl")], Path("w2"), Settings(workers=1, strict=True), plan="rmft"
        )
    )
    failing_query = SimpleNamespace(
        sql="SELECT CAST('canary0001@example.com' AS INTEGER) AS value_id"
    )

    def run_failing_query() -> None:
        LocalEngine(workers=1, spill=corpus_folder / "spill").sql(
            failing_query.sql, {}, corpus_folder / "x.parquet"
        )

    failing_calls.append(run_failing_query)

    def fail_with_disk_error() -> None:
        with publication.translate_disk_errors(corpus_folder):
            raise_disk_full()

    failing_calls.append(fail_with_disk_error)
    (corpus_folder / "in.key").write_text("canary0001")
    (corpus_folder / "in.key").chmod(0o600)
    failing_calls.append(lambda: Key.read(Path("in.key")))
    # a bug, or an unforeseen error of a library
    monkeypatch.setattr(detection, "find_task", raise_error_with_value)
    failing_calls += [
        lambda: run_with_settings(
            [Path("in.jsonl")], Path("o1"), settings=Settings(workers=1), plan="rmft"
        ),
        lambda: index_with_settings(["in.jsonl"], "w3", plan="rmft"),
    ]
    for failing_call in failing_calls:
        with pytest.raises(SanitizeError) as caught:
            failing_call()
        assert find_canaries(collect_error_text(caught.value)) == []


# ---- reprs ----


def test_a_key_shows_no_secret() -> None:
    key = Key(b"canary00" * 4)
    for text in (repr(key), str(key), f"{key}", repr([key]), repr({"key": key}), key.id):
        assert "canary" not in text and key.secret.hex() not in text
    assert "canary" not in repr(keys.Key.from_seed(1)) and Key.from_seed(
        1
    ).secret.hex() not in repr(Key.from_seed(1))


def test_reprs_show_no_value(finished_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(finished_run)
    import polars as pl

    run_settings = Settings(seed=1, workers=1)
    with IndexBuilder([Path("in.jsonl")], Path("out.private"), run_settings) as builder:
        found = builder.build()
        texts = pa.array([build_row(number)["text"] for number in range(3)], pa.large_string())
        occurrences = PatternFinder(Key.from_seed(1)).run(texts)
        batch = EditBatch(
            occurrences=pl.DataFrame({"value": ["canary0001@example.com"], "kept": [True]}),
            doc_ids=pa.array(["canary0001"]).dictionary_encode(),
        )
        objects = [
            run_settings,
            builder,
            builder.inputs,
            found,
            found.counts,
            load_plan("rmft"),
            found.documents,
            found.leaves,
            Aggregates({}),
            builder.tasks.engine,
            found.key,
        ]
        vault = sorted(Path("out.private/vault/values").glob("*.parquet"))
        write_terms(vault, ["EMAIL_ADDRESS"], Path("terms"))
        (terms,) = SearchTerms.open([Path("terms")])
        assert len(terms.plain)
        findings = Findings()
        (matches,) = find_value_matches(terms, texts, ["exact"])
        findings.add("text", terms, matches, texts)
        assert findings.leaks
        objects += [terms, terms.plain, matches, findings]
        for shown_object in objects:
            assert find_canaries(repr(shown_object) + str(shown_object)) == [], type(shown_object)
        # dataclasses that contain a table must not print its values
        assert [
            type(table).__name__
            for table in (batch, occurrences, occurrences.values)
            if find_canaries(repr(table))
        ] == []


def test_repr_of_an_edit_sample_shows_no_value() -> None:
    # the fields of the dataclass are raw values
    assert (
        find_canaries(
            repr(
                EditSample(
                    kind="EMAIL_ADDRESS",
                    original="canary0001@example.com",
                    replacement="x",
                    text_before="canaryword",
                    text_after="canaryword",
                )
            )
        )
        == []
    )
