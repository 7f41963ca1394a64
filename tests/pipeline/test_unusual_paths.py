"""Folders may have any name: INPUT, OUT, WORK and the state of a stream may have names that look
like a pattern, a URL or a partition."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.core.keys import Key
from sanitize.engines.local import LocalEngine
from sanitize.errors import InputRefused, PlanError, SanitizeError, UsageError
from sanitize.finders.known import read_known_list
from sanitize.inspection.text_files import list_text_files
from sanitize.kinds.custom_kind import CustomKind, resolve_custom_kinds
from sanitize.pipeline.erasure.subject_match import SubjectMatch
from sanitize.storage.private_folder import SavedIndex
from sanitize.storage.views.sql_text import read_parquet_expression

ANN, BOB, EVE = "ann.roe@example.com", "bob.lee@example.com", "eve.fox@example.com"
HAZARDS = ["a [b] *c?", "mails:10/k=v", "{a,b}"]
# all in one path
NAMES = [
    "mails:10/a [b] *c?/{a,b}/k=v",
    *(pytest.param(name, marks=pytest.mark.soak) for name in HAZARDS),
]
Command = Callable[..., str]


@pytest.fixture(params=NAMES)
def corpus_folder(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A folder with an unusual name, as a relative path, that holds a mailbox, a Parquet file and a
    JSON Lines file."""
    monkeypatch.chdir(tmp_path)
    folder = Path(request.param)
    folder.mkdir(parents=True)
    texts = [
        f"Ask {ANN} or {BOB}.",
        f"{BOB} said no, {ANN} yes.",
        f"From {ANN}: call 212-555-0123.",
    ]
    pq.write_table(
        pa.table({"doc_id": ["1", "2", "3"], "text": pa.array(texts, pa.large_string())}),
        str((folder / "one.parquet").resolve()),
    )
    (folder / "two.jsonl").write_text(
        json.dumps({"doc_id": "4", "text": f"And {ANN} and {EVE}."}) + "\n"
    )
    (folder / "mails.mbox").write_text(
        f"From x Mon May 14 16:39:00 2001\nFrom: {ANN}\nTo: {BOB}\n\nHello {EVE}.\n\n"
    )
    (folder / "who.txt").write_text(f"{ANN}\n")
    return folder


@pytest.fixture()
def sanitize(console: Callable[..., tuple[int, str, str]]) -> Command:
    def run_command(*arguments: object) -> str:
        code, out, err = console(*arguments)
        assert not code, err
        return out

    return run_command


def texts(folder: Path) -> str:
    return "\n".join(
        str(pq.read_table(path.resolve(), partitioning=None).column("text").to_pylist())
        for path in sorted((folder / "data").iterdir())
    )


@pytest.mark.slow
def test_commands_on_one_corpus(corpus_folder: Path, sanitize: Command) -> None:
    out, work, seed = corpus_folder / "out", corpus_folder / "out.private", ("--seed", "1", "-q")
    run_arguments = (
        "run",
        corpus_folder / "one.parquet",
        "-o",
        out,
        "--plan",
        "pseudonymize",
        *seed,
    )
    sanitize("explain", corpus_folder / "one.parquet", "--plan", "pseudonymize")
    sanitize(*run_arguments)
    assert json.loads(sanitize(*run_arguments, "--json"))["changed"] is False
    sanitize(
        "run", corpus_folder / "two.jsonl", "-o", out, "--plan", "pseudonymize", "--append", *seed
    )
    sanitize(
        "run", corpus_folder / "mails.mbox", "-o", out, "--plan", "pseudonymize", "--append", *seed
    )
    assert "EMAIL_ADDRESS" in sanitize("top", work) and "EMAIL_ADDRESS" in sanitize(
        "sql", work, "--name", "single_occurrence_values"
    )
    sanitize("sql", work, "--init")
    sanitize(
        "sql",
        work,
        "SELECT count(*) FROM documents JOIN edits USING (doc_no) JOIN occurrences USING (doc_no)",
    )
    sanitize("status", work)
    sanitize("label", work, "--n", "4")
    sanitize("report", out)
    sanitize("verify", out)
    found = json.loads(
        sanitize("subject", work, "--match", corpus_folder / "who.txt", "--seed", "1", "--json")
    )
    assert found["documents"] == 5
    erasure = json.loads(
        sanitize(
            "subject",
            work,
            "--match",
            corpus_folder / "who.txt",
            "--erase",
            "--seed",
            "1",
            "--json",
        )
    )
    assert (
        erasure["erased"]["outputs"][0]["leaks"] == 0
        and erasure["erased"]["outputs"][0]["occurrences_erased"] >= 5
    )
    assert not any(address in texts(out) for address in (ANN, BOB, EVE))
    sanitize("verify", out)


@pytest.mark.slow
def test_names_dedup_blacklist_and_replay(corpus_folder: Path, sanitize: Command) -> None:
    inputs = [corpus_folder / name for name in ("one.parquet", "two.jsonl", "mails.mbox")]
    sanitize(
        "index", *inputs, "--work", corpus_folder / "work", "--plan", "names", "--seed", "1", "-q"
    )
    sanitize(
        "run",
        *inputs,
        "-o",
        corpus_folder / "names",
        "--work",
        corpus_folder / "work",
        "--plan",
        "names",
        "--seed",
        "1",
        "-q",
    )
    sanitize(
        "run",
        *inputs,
        "-o",
        corpus_folder / "fewer",
        "--work",
        corpus_folder / "work",
        "--seed",
        "1",
        "--set",
        'drop=[{use="exact_dup"}]',
        "-q",
    )
    sanitize(
        "run",
        *inputs,
        "-o",
        corpus_folder / "listed",
        "--work",
        corpus_folder / "work",
        "--seed",
        "1",
        "--plan",
        "blacklist",
        "-q",
    )
    replay_result = json.loads(
        sanitize(
            "replay",
            corpus_folder / "names" / "manifest.json",
            *inputs,
            "-o",
            corpus_folder / "again",
            "--json",
        )
    )
    assert replay_result["same"] is True


@pytest.mark.parametrize("out", ["made.jsonl", "made"])
def test_stream_resumes_with_more_inputs(corpus_folder: Path, sanitize: Command, out: str) -> None:
    inputs = [corpus_folder / name for name in ("one.parquet", "two.jsonl", "mails.mbox")]
    for acknowledged in (0, 1, 1):
        arguments = (
            "stream",
            *inputs[: 3 - (acknowledged == 0)],
            "-o",
            corpus_folder / out,
            "--state",
            corpus_folder / "state",
            "--seed",
            "1",
            "--json",
        )
        summary = json.loads(sanitize(*arguments))
    assert summary["position"] == 5 and not summary["changed"]


def test_demo_command(corpus_folder: Path, sanitize: Command) -> None:
    assert "WHAT BECAME OF ONE ADDRESS" in sanitize(
        "demo", "--dir", corpus_folder / "demo", "--mails", "200"
    )


# a file, and a file beside it that the name of the first would match as a pattern
PATTERN_NAMES = [
    ("*.parquet", "b.parquet"),
    ("c?.parquet", "cc.parquet"),
    ("d[ef].parquet", "de.parquet"),
]


@pytest.fixture()
def files_named_as_patterns(tmp_path: Path) -> list[Path]:
    """Files whose column `n` is 1, in a folder that is named as a partition, beside files whose
    column is 2."""
    folder = tmp_path / "k=v"
    folder.mkdir()
    for names in PATTERN_NAMES:
        for number, name in enumerate(names, 1):
            pq.write_table(pa.table({"n": [number]}), str(folder / name))
    return [folder / name for name, _ in PATTERN_NAMES]


def test_statements_of_an_engine_read_paths_literally(
    files_named_as_patterns: list[Path], tmp_path: Path
) -> None:
    engine = LocalEngine(workers=1, spill=tmp_path / "spill")
    engine.sql("SELECT * FROM t", {"t": files_named_as_patterns}, tmp_path / "out.parquet")
    engine.close()
    assert pq.read_table(tmp_path / "out.parquet", partitioning=None).to_pydict() == {
        "n": [1, 1, 1]
    }


def test_views_read_paths_literally(files_named_as_patterns: list[Path]) -> None:
    source = read_parquet_expression([str(path) for path in files_named_as_patterns])
    with duckdb.connect() as connection:
        result = connection.execute(f"SELECT * FROM {source}")
        assert [column[0] for column in result.description] == ["n"] and result.fetchall() == [
            (1,)
        ] * 3


FILE_NAMES = [
    "bs\\s[1]",
    "\\*",
    "a\\b?c",
    "back\\slash",
    "b[1]",
    "it's",
    'say "x"',
    "new\nline",
    "k=v $$",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", FILE_NAMES)
def test_a_file_of_any_name_is_published_and_queried(
    name: str, tmp_path: Path, sanitize: Command
) -> None:
    """What a run has read, every query on its workspace reads too: SQL, named queries, the search
    for a person and an erasure."""
    path = tmp_path / f"{name}.parquet"
    with path.open("wb") as file:
        pq.write_table(pa.table({"text": [f"Ask {ANN}, or {BOB}.", f"{ANN} said no."]}), file)
    (tmp_path / "b1.parquet").write_bytes(b"what a pattern would read")
    (tmp_path / "who.txt").write_text(f"{ANN}\n")
    out, work = tmp_path / "out", tmp_path / "out.private"
    sanitize("run", path, "-o", out, "--plan", "rmft", "--seed", "1", "-q")
    rows = json.loads(
        sanitize(
            "sql",
            work,
            "select count(*) as n, sum(length(text)) > 50 as has_text from documents",
            "--json",
        )
    )
    assert rows == [{"n": 2, "has_text": True}]
    assert (
        json.loads(sanitize("sql", work, "--name", "top_values", "--json"))[0]["occurrences"] == 2
    )
    sanitize("subject", work, "--match", tmp_path / "who.txt", "--erase", "--workers", "1")
    assert ANN not in texts(out)


def test_files_whose_names_are_patterns_are_read_beside_each_other(
    tmp_path: Path, sanitize: Command
) -> None:
    """DuckDB lists the folder of a pattern, and fails at a name in it that begins with a
    backslash."""
    names = ["\\*", "b[1]", "c?", "{d,e}", "\\", "f g", "it's", 'say "x"', "\\h[1]*\\k?"]
    folder = tmp_path / "\\in [1]*"
    folder.mkdir()
    (tmp_path / "in 1").mkdir()
    for name in names:
        with (folder / f"{name}.parquet").open("wb") as file:
            pq.write_table(pa.table({"text": [f"{name}: ask {ANN}."]}), file)
    for decoy in ("a", "b1", "cc", "d", "e"):
        (tmp_path / f"{decoy}.parquet").write_bytes(b"what a pattern would read")
    work = folder / "out[1].private"
    inputs = [folder / f"{name}.parquet" for name in names]
    sanitize("run", *inputs, "-o", folder / "out[1]", "--work", work, "--seed", "1", "-q")
    rows = json.loads(sanitize("sql", work, "select text from documents", "--json", "--reveal"))
    assert sorted(row["text"] for row in rows) == sorted(f"{name}: ask {ANN}." for name in names)
    index = SavedIndex.read_complete(work)
    assert [Path(file.path) for file in index.documents.files] == inputs  # none was copied


def test_a_list_that_is_a_pipe_or_a_device_is_refused(tmp_path: Path) -> None:
    """A reader would wait for the writer of a pipe, and a device may have no end."""
    pipe = tmp_path / "list.csv"
    os.mkfifo(pipe, 0o600)
    key = Key.from_seed(1)
    definition = CustomKind(name="STAFF_ID", words_file=pipe.name)
    readers: list[tuple[type[SanitizeError], Callable[[Path], object]]] = [
        (UsageError, read_known_list),
        (UsageError, lambda path: SubjectMatch.read(path, key)),
        (UsageError, Key.read),
        (
            PlanError,
            lambda path: resolve_custom_kinds(
                [definition.model_copy(update={"words_file": str(path)})], "plan", tmp_path
            ),
        ),
    ]
    for error, read in readers:
        for path in (pipe, Path("/dev/zero")):
            with pytest.raises(error, match="not a regular file"):
                read(path)
    with pytest.raises(InputRefused, match="is a device"):
        list_text_files(["/dev/zero"])
    assert list(list_text_files([str(pipe)])) == [str(pipe)]
