"""All commands through the console script: output, exit codes; a mistake prints one error line and
leaves no files."""

from __future__ import annotations

import contextlib
import gzip
import importlib
import io
import json
import os
import stat
import subprocess
import sys
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sanitize.cli import main
from sanitize.cli.console import format_facts, format_table, print_json, print_text
from sanitize.cli.doctor import doctor
from sanitize.cli.options import local_path
from sanitize.errors import LeakFound, UsageError
from sanitize.inspection import preview
from sanitize.kinds.kind import builtin_kinds
from sanitize.pipeline.run import index_with_settings, run_with_settings
from sanitize.pipeline.streaming.stream import stream
from sanitize.plans.settings import Settings
from sanitize.reporting.report_data import report
from sanitize.storage import private_folder
from sanitize.storage.corpus import Corpus

BOB, ANN, PHONE = "bob.lee@example.com", "ann.roe@example.org", "212-555-0123"
LINES = [f"First {BOB} and {PHONE}.", f"Then {BOB}, {ANN}.", f"Again {BOB} or {PHONE}; {ANN} too."]


@dataclass(frozen=True)
class CommandOutput:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one line on stdout."""
        assert self.code == 0, self.err
        assert self.out.endswith("\n") and self.out.count("\n") == 1
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one line on stderr."""
        (line,) = self.err.splitlines()
        assert line.startswith("error: ") and self.out == ""
        return line


Command = Callable[..., CommandOutput]


@pytest.fixture()
def sanitize(console: Callable[..., tuple[int, str, str]]) -> Command:
    """The console script, in this process."""

    def command(*arguments: object) -> CommandOutput:
        output = CommandOutput(*console(*arguments))
        assert "Traceback" not in output.err
        return output

    return command


def write_input(folder: Path) -> None:
    table = pa.table({"text": LINES, "subject": ["a", "b", "c"], "n": [1, 2, 3]})
    pq.write_table(table, folder / "in.parquet")


def publish_input(folder: Path) -> None:
    write_input(folder)
    with contextlib.chdir(folder):
        result = CliRunner().invoke(main.app, ["run", "in.parquet", "-o", "out", "--plan", "rmft"])
    assert result.exit_code == 0, result.output


@pytest.fixture()
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an input, as the working folder."""
    monkeypatch.chdir(tmp_path)
    write_input(tmp_path)
    return tmp_path


@pytest.fixture()
def published_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copy_prepared: Any) -> Path:
    """A folder with an input and the output of a run over it, as the working folder."""
    monkeypatch.chdir(tmp_path)
    return Path(copy_prepared(publish_input, tmp_path))


def read_tree(folder: Path) -> dict[str, bytes | None]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


# ---- bad input ----


def write_text_as_parquet(folder: Path) -> None:
    (folder / "bad.parquet").write_text("this is no Parquet\n" * 40)


def write_binary_as_jsonl(folder: Path) -> None:
    (folder / "bad.jsonl").write_bytes(bytes(range(256)) * 8)


def write_text_as_gzip(folder: Path) -> None:
    (folder / "bad.jsonl.gz").write_text('{"text": "plain"}\n')


def write_plan(folder: Path, text: str) -> None:
    (folder / "mine.toml").write_text(text)


def write_key(folder: Path, mode: int = 0o600, text: str = "ab" * 32) -> None:
    (folder / "key").write_text(text + "\n")
    (folder / "key").chmod(mode)


def write_foreign_output(folder: Path) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "thesis.txt").write_text("mine")


def write_nested_input(folder: Path) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "in.jsonl").write_text(json.dumps({"text": LINES[0]}) + "\n")


def write_other_workspace(folder: Path) -> None:
    private_folder.open_workspace(folder / "other.private")


def write_bad_records(folder: Path) -> None:
    good = json.dumps({"text": LINES[0]}).encode() + b"\n"
    (folder / "in.jsonl").write_bytes(good * 3 + b'{"text": "\xff"}\n')


def write_nothing(folder: Path) -> None:
    pass


RUN = "run in.parquet -o out"
FIND = '[find]\nkinds = ["EMAIL_ADDRESS"]\n'
EDIT = '[[edit]]\nuse = "redact"\nkinds = ["EMAIL_ADDRESS"]\n'
# name of the mistake: preparation, command, exit code, and words of the error line
MISTAKES: dict[str, tuple[Callable[[Path], object], str, int, list[str]]] = {
    "a missing path": (
        write_nothing,
        "run nowhere.mbox -o out",
        3,
        ["nowhere.mbox", "no such file or folder"],
    ),
    "a missing path beside a good one": (
        write_nothing,
        "run in.parquet nowhere -o out",
        3,
        ["nowhere", "no such file or folder"],
    ),
    "an empty folder": (
        lambda folder: (folder / "empty").mkdir(),
        "run empty -o out",
        3,
        ["empty", "nothing in this folder can be read"],
    ),
    "an empty file": (
        lambda folder: (folder / "none.jsonl").touch(),
        "run none.jsonl -o out",
        3,
        ["none.jsonl", "no bytes"],
    ),
    "text in .parquet": (
        write_text_as_parquet,
        "run bad.parquet -o out",
        3,
        ["bad.parquet", ".parquet", "Parquet, Arrow, CSV"],
    ),
    "bytes in .jsonl": (write_binary_as_jsonl, "run bad.jsonl -o out", 3, ["bad.jsonl", ".jsonl"]),
    # bug: WORK is left behind (also by a foreign OUT, and by an OUT that is a file)
    "no document": (
        lambda f: pq.write_table(pa.table({"text": pa.array([], pa.string())}), f / "none.parquet"),
        "run none.parquet -o out",
        3,
        ["no record"],
    ),
    "a text column that is not there": (
        write_nothing,
        f"{RUN} --text-column txet",
        2,
        ["txet", "subject, text", "text?"],
    ),
    "a user column that is not there": (write_nothing, f"{RUN} --user-column form", 2, ["form"]),
    "an id column that is not there": (write_nothing, f"{RUN} --id-column nn", 2, ["nn"]),
    "a text column of numbers": (write_nothing, f"{RUN} --text-column n", 2, ["n ", "string"]),
    "unknown --documents": (
        write_nothing,
        f"{RUN} --documents line",
        2,
        ["--documents line", "did you mean lines?"],
    ),
    "an unknown --keep": (
        write_nothing,
        f"{RUN} --keep subjekt",
        2,
        ["--keep subjekt", "did you mean subject?"],
    ),
    "an unknown --drop": (
        write_nothing,
        f"{RUN} --drop subjekt",
        2,
        ["--drop subjekt", "did you mean subject?"],
    ),
    "--keep of the text": (write_nothing, f"{RUN} --keep text", 2, ["--keep text", "main text"]),
    "--sanitize of numbers": (
        write_nothing,
        f"{RUN} --sanitize n",
        2,
        ["--sanitize n", "holds no text"],
    ),
    "two policies": (
        write_nothing,
        f"{RUN} --keep subject --drop subject",
        2,
        ["subject", "--keep", "--drop"],
    ),
    "an unknown plan": (
        write_nothing,
        f"{RUN} --plan rmtf",
        2,
        [
            "rmtf",
            (
                "baseline, blacklist, dp_mlm, header_dedup, mask_words, names, pseudonymize,"
                " redact, rmft, strict, surrogates"
            ),
            "did you mean rmft?",
        ],
    ),
    "a blacklist without users": (
        write_nothing,
        "run in.parquet -o out --plan blacklist",
        2,
        ["[blacklist]", "--user-column"],
    ),
    "a plan with an unknown key": (
        lambda f: write_plan(f, "leve = []\n" + FIND + EDIT),
        f"{RUN} --plan mine.toml",
        2,
        ["mine.toml: leve", "did you mean leave?"],
    ),
    "a plan with an unknown setting": (
        lambda f: write_plan(f, FIND + EDIT + 'lable = "fixed"\n'),
        f"{RUN} --plan mine.toml",
        2,
        ["edit[0].lable", "did you mean label?"],
    ),
    "a plan with an unknown kind": (
        lambda f: write_plan(f, FIND.replace("ADD", "AD") + EDIT),
        f"{RUN} --plan mine.toml",
        2,
        ["EMAIL_ADRESS", "EMAIL_ADDRESS"],
    ),
    "a plan with an undecided kind": (
        lambda f: write_plan(f, FIND.replace('"]', '", "URL"]') + EDIT),
        f"{RUN} --plan mine.toml",
        2,
        ["URL is found", "leave"],
    ),
    "a plan that is no TOML": (
        lambda f: write_plan(f, "[find"),
        f"{RUN} --plan mine.toml",
        2,
        ["mine.toml", "not TOML"],
    ),
    "a --set without a value": (
        write_nothing,
        f"{RUN} --set edit.0.keep",
        2,
        ["--set edit.0.keep", "KEY=VALUE"],
    ),
    "a --set of an unknown key": (
        write_nothing,
        f"{RUN} --set edit.0.kep=2",
        2,
        ["edit[0].kep", "did you mean keep?"],
    ),
    "a --set out of range": (
        write_nothing,
        f"{RUN} --set edit.9.keep=2",
        2,
        ["edit.9.keep", "no entry 9"],
    ),
    "OUT inside the input": (
        write_nested_input,
        "run data -o data/out",
        2,
        ["data/out", "inside each other", "beside"],
    ),
    "the input inside OUT": (
        write_nested_input,
        "run data/in.jsonl -o data",
        2,
        ["data", "inside each other"],
    ),
    "OUT is the input": (write_nested_input, "run data -o data", 2, ["data", "inside each other"]),
    "WORK inside OUT": (
        write_nothing,
        f"{RUN} --work out/private",
        2,
        ["out/private", "inside each other"],
    ),
    "OUT inside WORK": (
        write_nothing,
        "run in.parquet -o work/out --work work",
        2,
        ["inside each other"],
    ),
    "OUT inside another run's private folder": (
        write_other_workspace,
        "run in.parquet -o other.private/out",
        2,
        ["other.private", "another run", "beside"],
    ),
    "WORK inside another run's private folder": (
        write_other_workspace,
        f"{RUN} --work other.private/vault/mine",
        2,
        ["other.private", "another run"],
    ),
    "WORK inside the input": (
        write_nested_input,
        "run data -o out --work data/work",
        2,
        ["data/work", "inside each other"],
    ),
    "the index inside the input": (
        write_nested_input,
        "index data --work data/work",
        2,
        ["data/work", "inside each other"],
    ),
    "a foreign OUT": (write_foreign_output, RUN, 2, ["out", "was not written by sanitize"]),
    "a foreign OUT with --replace": (
        write_foreign_output,
        f"{RUN} --replace",
        2,
        ["out", "was not written by sanitize"],
    ),
    "OUT is a file": (
        lambda f: (f / "out").write_text("mine"),
        RUN,
        2,
        ["out", "was not written by sanitize"],
    ),
    # bug: a bare FileExistsError, exit 1
    "WORK is a file": (lambda f: (f / "out.private").write_text("mine"), RUN, 2, ["out.private"]),
    # bug: a bare NotADirectoryError, exit 1
    "OUT below a file": (
        lambda f: (f / "note").write_text("mine"),
        "run in.parquet -o note/out",
        2,
        ["note"],
    ),
    "no key": (write_nothing, f"{RUN} --key nokey", 2, ["nokey", "64 hexadecimal digits"]),
    "a key that others read": (
        lambda f: write_key(f, 0o644),
        f"{RUN} --key key",
        2,
        ["key", "0644", "chmod 600"],
    ),
    "a key that is no key": (
        lambda f: write_key(f, text="not a key"),
        f"{RUN} --key key",
        2,
        ["not a key", "64 hexadecimal digits"],
    ),
    "a key that is short": (
        lambda f: write_key(f, text="ab" * 31),
        f"{RUN} --key key",
        2,
        ["not a key", "64 hexadecimal digits"],
    ),
    "a key and a seed": (write_key, f"{RUN} --key key --seed 1", 2, ["--key and --seed"]),
    "--max-quarantine of words": (
        write_nothing,
        f"{RUN} --max-quarantine lots",
        2,
        ["--max-quarantine lots", "10% or 0.1"],
    ),
    "--max-quarantine above all": (
        write_nothing,
        f"{RUN} --max-quarantine 150%",
        2,
        ["--max-quarantine 150%"],
    ),
    "--max-quarantine below none": (
        write_nothing,
        f"{RUN} --max-quarantine -1",
        2,
        ["--max-quarantine -1"],
    ),
    "--max-doc-bytes of words": (
        write_nothing,
        f"{RUN} --max-doc-bytes large",
        2,
        ["--max-doc-bytes large", "32MB or 100000000"],
    ),
    "--max-doc-bytes of nothing": (
        write_nothing,
        f"{RUN} --max-doc-bytes 0",
        2,
        ["--max-doc-bytes 0"],
    ),
    "--max-doc-bytes too large": (
        write_nothing,
        f"{RUN} --max-doc-bytes 1GB",
        2,
        ["--max-doc-bytes 1GB", "512 MB at most"],
    ),
    "--max-doc-bytes of a share": (
        write_nothing,
        f"{RUN} --max-doc-bytes 10%",
        2,
        ["--max-doc-bytes 10%"],
    ),
    "--max-quarantine of nan": (
        write_nothing,
        f"{RUN} --max-quarantine nan",
        2,
        ["--max-quarantine nan"],
    ),
    "an unknown --verify": (write_nothing, f"{RUN} --verify ful", 2, ["--verify ful", "fast"]),
    # bug: exit 7 and "if the disk is not full, this is a bug", once everything was found
    "no memory limit": (write_nothing, f"{RUN} --memory-limit lots", 2, ["lots"]),
    "--strict": (
        write_bad_records,
        "run in.jsonl -o out --strict",
        5,
        ["1 of 4", "not_utf8", "--strict"],
    ),
    "above --max-quarantine": (
        write_bad_records,
        "run in.jsonl -o out",
        5,
        ["1 of 4", "not_utf8", "10%"],
    ),
    "index above --max-quarantine": (
        write_bad_records,
        "index in.jsonl --work work",
        5,
        ["1 of 4", "not_utf8"],
    ),
    "stream of a URL": (
        write_nothing,
        "stream memory://mails/in.jsonl",
        2,
        ["memory://mails/in.jsonl", "sanitize run"],
    ),
    "explain of a missing path": (write_nothing, "explain nowhere", 3, ["nowhere", "no such file"]),
    "explain of an unknown plan": (write_nothing, "explain in.parquet --plan rmtf", 2, ["rmft"]),
    "top of no WORK": (write_nothing, "top nowhere", 2, ["nowhere", "private"]),
    "sql of no WORK": (write_nothing, "sql nowhere 'SELECT 1'", 2, ["nowhere"]),
    "status of no WORK": (write_nothing, "status nowhere", 2, ["nowhere"]),
    "verify of no OUT": (write_nothing, "verify nowhere", 3, ["nowhere", "manifest.json"]),
    "list of nothing": (write_nothing, "list kindz", 2, ["kindz", "did you mean kinds?"]),
}


def split_command(command: str) -> list[str]:
    import shlex

    return shlex.split(command)


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_error_line_and_leaves_no_files(
    working_folder: Path, sanitize: Command, case: str
) -> None:
    prepare, command, code, expected_parts = MISTAKES[case]
    prepare(working_folder)
    before = read_tree(working_folder)
    output = sanitize(*split_command(command))
    assert (output.code, output.out) == (code, ""), output.err
    assert [part for part in expected_parts if part not in output.err] == [], output.err
    if code != 5:
        assert output.error
        assert read_tree(working_folder) == before
    else:  # quarantined records are kept, so that they can be listed
        assert output.err.splitlines()[-1].startswith("error: ")
        assert not (working_folder / "out").exists() and not list(working_folder.glob(".out*"))
    assert not [value for value in (BOB, ANN, PHONE) if value in output.err]


@pytest.mark.parametrize("case", ["a missing path", "an unknown plan", "a foreign OUT", "no key"])
def test_with_json_a_mistake_prints_nothing_on_stdout(
    working_folder: Path, sanitize: Command, case: str
) -> None:
    prepare, command, code, _ = MISTAKES[case]
    prepare(working_folder)
    output = sanitize(*split_command(command), "--json")
    assert output.code == code and output.error


@pytest.mark.parametrize(
    "command",
    [
        "run in.parquet",
        "run -o out",
        "index in.parquet",
        "explain",
        "top",
        "verify",
        "nonsense",
        "run in.parquet -o out --nonsense",
        f"{RUN} --workers 0",
        f"{RUN} --seed x",
    ],
)
def test_a_wrong_command_line_is_exit_2(
    working_folder: Path, sanitize: Command, command: str
) -> None:
    before = read_tree(working_folder)
    output = sanitize(*split_command(command))
    assert output.code == 2 and output.out == "" and "rror" in output.err
    assert read_tree(working_folder) == before


def test_a_bad_file_in_a_folder_is_quarantined(working_folder: Path, sanitize: Command) -> None:
    write_nested_input(working_folder)
    (working_folder / "data" / "bad.parquet").write_text("no")
    (working_folder / "data" / "bad.jsonl.gz").write_bytes(gzip.compress(b"\x00\x01"))
    summary = sanitize(
        "run", "data", "-o", "out", "--max-quarantine", "90%", "--json", "--plan", "rmft"
    ).json
    assert (summary["documents_in"], summary["documents_out"], summary["quarantined"]) == (3, 1, 2)


def test_quarantined_records_can_be_listed(working_folder: Path, sanitize: Command) -> None:
    write_bad_records(working_folder)
    output = sanitize("run", "in.jsonl", "-o", "out", "--plan", "rmft")
    hint = output.err.splitlines()[-1].partition("To see where they are: sanitize ")[2]
    rows = json.loads(sanitize(*split_command(hint), "--format", "json").out)
    assert [row["reason"] for row in rows] == ["not_utf8"]
    assert (
        sanitize(
            "run", "in.jsonl", "-o", "out", "--max-quarantine", "25%", "--json", "--plan", "rmft"
        ).json["quarantined"]
        == 1
    )


def test_a_locked_workspace_names_the_holding_process(
    working_folder: Path, sanitize: Command
) -> None:
    sanitize("index", "in.parquet", "--work", "out.private", "--plan", "rmft")
    script = "import sys, pathlib\nfrom sanitize.storage.locks import lock_workspace\n"
    script += (
        "with lock_workspace(pathlib.Path('out.private')):\n print('held', flush=True)\n"
        " sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=working_folder,
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        before = read_tree(working_folder)
        output = sanitize("run", "in.parquet", "-o", "out", "--plan", "rmft")
        assert output.code == 6 and f"process {holder.pid} " in output.error
        assert sanitize("status", "out.private", "--json").json["lock_holder"]["pid"] == holder.pid
        assert read_tree(working_folder) == before
    finally:
        assert holder.stdin is not None
        holder.stdin.close()
        holder.wait(10)
    assert (
        sanitize("run", "in.parquet", "-o", "out", "--json", "--plan", "rmft").json["changed"]
        is True
    )
    assert sanitize("status", "out.private", "--json").json["lock_holder"] is None


# ---- run ----

SUMMARY_KEYS = {
    *(
        "documents_in documents_out documents_dropped quarantined occurrences kept_originals"
        " replaced by_kind leaks seconds mb_per_s"
    ).split(),
    *("peak_rss_mb changed out work run_hash").split(),
}


def test_run_prints_all_summary_keys(working_folder: Path, sanitize: Command) -> None:
    output = sanitize("run", "in.parquet", "-o", "out", "--json", "--plan", "rmft")
    summary = output.json
    assert set(summary) >= SUMMARY_KEYS
    assert (
        summary["documents_in"]
        == summary["documents_out"] + summary["documents_dropped"] + summary["quarantined"]
        == 3
    )
    assert (
        summary["occurrences"],
        summary["kept_originals"],
        summary["replaced"],
        summary["leaks"],
    ) == (7, 3, 4, 0)
    kinds = summary["by_kind"]
    assert {
        kind: (counts["occurrences"], counts["values"], counts["kept"], counts["replaced"])
        for kind, counts in kinds.items()
    } == {
        "EMAIL_ADDRESS": (5, 2, 2, 3),
        "PHONE_NUMBER": (2, 1, 1, 1),
    }
    assert (summary["out"], summary["work"], summary["changed"]) == ("out", "out.private", True)
    assert summary["seconds"] > 0 and summary["peak_rss_mb"] > 0
    manifest = json.loads((working_folder / "out" / "manifest.json").read_text())
    assert {
        name: manifest["summary"][name] for name in ("documents_in", "by_kind", "leaks", "run_hash")
    } == {name: summary[name] for name in ("documents_in", "by_kind", "leaks", "run_hash")}
    assert output.err  # progress


def test_the_same_command_again_changes_nothing(working_folder: Path, sanitize: Command) -> None:
    first = sanitize("run", "in.parquet", "-o", "out", "--json", "--plan", "rmft").json
    before = read_tree(working_folder)
    second = sanitize("run", "in.parquet", "-o", "out", "--json", "--plan", "rmft").json
    assert second["changed"] is False and {
        name: second[name] for name in ("by_kind", "run_hash", "out")
    } == {name: first[name] for name in ("by_kind", "run_hash", "out")}
    # bug: keys of `run --json` were missing where nothing changed
    assert set(second) >= SUMMARY_KEYS
    assert {name: raw for name, raw in read_tree(working_folder).items() if "lock" not in name} == {
        name: raw for name, raw in before.items() if "lock" not in name
    }
    text_output = sanitize("run", "in.parquet", "-o", "out", "--plan", "rmft")
    assert text_output.code == 0 and "nothing to do" in text_output.out


def test_another_plan_needs_replace(published_folder: Path, sanitize: Command) -> None:
    before = read_tree(published_folder / "out")
    output = sanitize("run", "in.parquet", "-o", "out", "--plan", "redact")
    assert output.code == 2 and "--replace" in output.error
    assert read_tree(published_folder / "out") == before
    assert not list(published_folder.glob(".out*"))
    summary = sanitize(
        "run", "in.parquet", "-o", "out", "--plan", "redact", "--replace", "--json"
    ).json
    assert summary["changed"] is True and summary["plan_name"] == "redact"
    assert (
        "[EMAIL_ADDRESS]"
        in pq.read_table(published_folder / "out" / "data").column("text")[0].as_py()
    )
    assert sorted(path.name for path in published_folder.iterdir()) == [
        "in.parquet",
        "out",
        "out.private",
    ]
    assert sanitize("verify", "out", "--json").json["leaks"] == 0


def test_a_damaged_output_is_reported_and_replaced(
    published_folder: Path, sanitize: Command
) -> None:
    shard = published_folder / "out" / "data" / "train-00000-of-00001.parquet"
    raw = shard.read_bytes()
    shard.unlink()
    shard.write_bytes(raw[:-1] + b"x")
    output = sanitize("run", "in.parquet", "-o", "out", "--plan", "rmft")
    assert output.code == 3 and "--replace" in output.error
    assert (
        sanitize("run", "in.parquet", "-o", "out", "--replace", "--json", "--plan", "rmft").json[
            "changed"
        ]
        is True
    )
    assert shard.read_bytes() == raw


def read_times(folder: Path) -> dict[str, int]:
    return {
        path.relative_to(folder).as_posix(): path.stat().st_mtime_ns
        for path in folder.rglob("*")
        if path.is_file()
    }


INDEX = ("tables/", "vault/values", "tasks/detect", "quarantine")


def read_index_state(work: Path) -> dict[str, Any]:
    """The files of the index with their modification times; index.json with its content."""
    state: dict[str, Any] = {
        name: time
        for name, time in read_times(work).items()
        if name.startswith(INDEX) and "quarantine/read" not in name
    }
    return {**state, "index.json": json.loads((work / "index.json").read_text())}


def test_a_second_plan_uses_the_index(working_folder: Path, sanitize: Command) -> None:
    sanitize("run", "in.parquet", "-o", "one", "--work", "work", "--plan", "rmft")
    before = read_index_state(working_folder / "work")
    assert len(before) > 5
    summary = sanitize(
        "run", "in.parquet", "-o", "two", "--work", "work", "--plan", "mask_words", "--json"
    ).json
    assert read_index_state(working_folder / "work") == before and summary["notes"] == []
    assert len(sanitize("status", "work", "--json").json["runs"]) == 2
    assert (
        sanitize("verify", "one", "--work", "work").code
        == sanitize("verify", "two", "--work", "work").code
        == 0
    )


def test_find_then_run_uses_the_index(working_folder: Path, sanitize: Command) -> None:
    result = sanitize("index", "in.parquet", "--work", "work", "--json", "--plan", "rmft").json
    assert (result["documents_in"], result["occurrences"], result["changed"]) == (3, 7, True)
    assert result["by_kind"] == {"EMAIL_ADDRESS": 5, "PHONE_NUMBER": 2}
    before = read_index_state(working_folder / "work")
    assert (
        sanitize("index", "in.parquet", "--work", "work", "--json", "--plan", "rmft").json[
            "changed"
        ]
        is False
    )
    sanitize("run", "in.parquet", "-o", "out", "--work", "work", "--plan", "rmft")
    assert read_index_state(working_folder / "work") == before and len(before) > 5
    assert sorted(path.name for path in working_folder.iterdir()) == ["in.parquet", "out", "work"]


def test_another_key_rebuilds_the_index_with_a_note(
    working_folder: Path, sanitize: Command
) -> None:
    sanitize("run", "in.parquet", "-o", "one", "--work", "work", "--plan", "rmft")
    before = read_index_state(working_folder / "work")
    output = sanitize(
        "run",
        "in.parquet",
        "-o",
        "two",
        "--work",
        "work",
        "--seed",
        "1",
        "--json",
        "--plan",
        "rmft",
    )
    assert "another key" in " ".join(output.json["notes"])
    after = read_index_state(working_folder / "work")
    assert after.keys() == before.keys()
    assert not [name for name in before if after[name] == before[name]]
    text_output = sanitize(
        "run", "in.parquet", "-o", "three", "--work", "work", "--seed", "2", "--plan", "rmft"
    )
    assert "another key" in text_output.out + text_output.err


def test_another_input_is_refused_with_hints(working_folder: Path, sanitize: Command) -> None:
    sanitize("index", "in.parquet", "--work", "work", "--seed", "1", "--plan", "rmft")
    old, before = (working_folder / "in.parquet").read_bytes(), read_times(working_folder / "work")
    pq.write_table(pa.table({"text": [f"only {ANN}"]}), "in.parquet")
    new = (working_folder / "in.parquet").stat().st_size
    for arguments in (["index", "in.parquet"], ["run", "in.parquet", "-o", "out"]):
        output = sanitize(*arguments, "--work", "work", "--seed", "1")
        assert (
            output.code == 2
            and f"1 of 1 files changed: file 1, {len(old):,} bytes, now {new:,}" in output.error
        )
        assert all(
            hint in output.error for hint in ("Restore the input", "--replace", "another --work")
        )
        # the lock file is not part of the state
        assert {
            name: time
            for name, time in read_times(working_folder / "work").items()
            if name != "run.lock"
        } == {name: time for name, time in before.items() if name != "run.lock"}
    # hint 1: with the old input restored, its index is still valid
    (working_folder / "in.parquet").write_bytes(old)
    assert (
        sanitize(
            "index", "in.parquet", "--work", "work", "--seed", "1", "--json", "--plan", "rmft"
        ).json["changed"]
        is False
    )
    # hint 2: --replace builds a new index
    pq.write_table(pa.table({"text": [f"only {ANN}"]}), "in.parquet")
    result = sanitize(
        "index",
        "in.parquet",
        "--work",
        "work",
        "--seed",
        "1",
        "--replace",
        "--json",
        "--plan",
        "rmft",
    ).json
    assert (result["documents_in"], result["occurrences"]) == (
        1,
        1,
    ) and "another input" in " ".join(result["notes"])
    summary = sanitize(
        "run",
        "in.parquet",
        "-o",
        "out",
        "--work",
        "work",
        "--seed",
        "1",
        "--json",
        "--plan",
        "rmft",
    ).json
    assert (summary["documents_in"], summary["occurrences"]) == (1, 1)
    # hint 3: another workspace
    (working_folder / "in.parquet").write_bytes(old)
    assert (
        sanitize(
            "index", "in.parquet", "--work", "other", "--seed", "1", "--json", "--plan", "rmft"
        ).json["documents_in"]
        == 3
    )


def test_a_key_file_is_used_and_not_copied(working_folder: Path, sanitize: Command) -> None:
    write_key(working_folder)
    summary = sanitize(
        "run", "in.parquet", "-o", "one", "--key", "key", "--json", "--plan", "rmft"
    ).json
    sanitize("run", "in.parquet", "-o", "two", "--key", "key", "--json", "--plan", "rmft")
    assert (
        summary["key"] == "secret"
        and not (working_folder / "one.private" / "vault" / "key").exists()
    )
    shard = "data/train-00000-of-00001.parquet"
    assert (working_folder / "one" / shard).read_bytes() == (
        working_folder / "two" / shard
    ).read_bytes()
    texts = [
        path.read_bytes()
        for path in working_folder.rglob("*")
        if path.is_file() and path.name != "key"
    ]
    assert not [raw for raw in texts if b"ab" * 32 in raw or bytes.fromhex("ab" * 32) in raw]


def test_a_seed_is_reported(working_folder: Path, sanitize: Command) -> None:
    output = sanitize("run", "in.parquet", "-o", "out", "--seed", "7", "--plan", "rmft")
    assert "can be guessed" in output.out and "no privacy claim" in output.out
    manifest = json.loads((working_folder / "out" / "manifest.json").read_text())
    assert manifest["key"]["kind"] == "seed" and "can be guessed" in manifest["key"]["note"]


def test_without_verify_it_is_not_publishable(working_folder: Path, sanitize: Command) -> None:
    summary = sanitize(
        "run", "in.parquet", "-o", "out", "--verify", "off", "--json", "--plan", "rmft"
    ).json
    assert summary["publishable"] is False and summary["leaks"] is None
    assert (
        json.loads((working_folder / "out" / "manifest.json").read_text())["publishable"] is False
    )
    # the same command with verify is another run
    assert sanitize("run", "in.parquet", "-o", "out", "--plan", "rmft").code == 2
    assert (
        sanitize("run", "in.parquet", "-o", "out", "--replace", "--json", "--plan", "rmft").json[
            "publishable"
        ]
        is True
    )


def test_a_blacklist_without_any_user_is_refused(working_folder: Path, sanitize: Command) -> None:
    """Users may occur after the lines from which columns are guessed; only after reading all
    records is it known that there are none."""
    (working_folder / "in.jsonl").write_text('{"text": "one", "user_id": null}\n{"text": "two"}\n')
    refused = sanitize("run", "in.jsonl", "-o", "out", "--plan", "blacklist")
    assert (
        refused.code == 2
        and "--user-column" in refused.err.splitlines()[-1]
        and not (working_folder / "out").exists()
    )
    # words of values need no user
    assert (
        sanitize("run", "in.jsonl", "-o", "out", "--plan", "mask_words", "--json").json[
            "blacklist"
        ]["documents_without_user"]
        == 2
    )
    assert (
        "listed"
        not in sanitize("explain", "in.jsonl", "--plan", "baseline", "--json").json["sample"]
    )
    assert "values in 2 documents" in sanitize("explain", "in.jsonl", "--plan", "mask_words").out
    (working_folder / "in.jsonl").write_text(
        '{"text": "one", "who": 1}\n{"text": "one", "who": 2}\n{"text": "two", "who": 2}\n'
    )
    output = sanitize(
        "run",
        "in.jsonl",
        "-o",
        "out2",
        "--plan",
        "blacklist",
        "--user-column",
        "who",
        "--verify",
        "off",
    )
    assert (
        "blacklist       0 values and 1 n-grams of fewer than 2 users in 3 documents; the list is"
        " in the vault" in output.err + output.out
    )


def test_the_baseline_is_not_publishable_and_changes_nothing(
    working_folder: Path, sanitize: Command
) -> None:
    summary = sanitize("run", "in.parquet", "-o", "out", "--plan", "baseline", "--json").json
    assert summary["publishable"] is False and (summary["replaced"], summary["occurrences"]) == (
        0,
        7,
    )
    assert pq.read_table(working_folder / "out" / "data").column("text").to_pylist() == LINES


def test_policies_of_columns(working_folder: Path, sanitize: Command) -> None:
    pq.write_table(
        pa.table(
            {
                "text": LINES,
                "user": [BOB] * 3,
                "note": ["x"] * 3,
                "more": [ANN] * 3,
                "raw": [b"x"] * 3,
            }
        ),
        "in.parquet",
    )
    summary = sanitize(
        "run",
        "in.parquet",
        "-o",
        "out",
        "--user-column",
        "user",
        "--keep",
        "note",
        "--drop",
        "more",
        "--json",
        "--plan",
        "rmft",
    ).json
    policies = {column["name"]: column["policy"] for column in summary["columns"]}
    assert policies == {
        "doc_id": "keep",
        "user_id": "pseudonymize",
        "text": "sanitize",
        "note": "keep",
        "more": "drop",
        "raw": "drop",
    }
    table = pq.read_table(working_folder / "out" / "data")
    assert set(table.schema.names) == {"doc_id", "user_id", "text", "note"}
    (user,) = set(table.column("user_id").to_pylist())
    assert user and "@" not in user


def test_text_output_of_run(working_folder: Path, sanitize: Command) -> None:
    output = sanitize("run", "in.parquet", "-o", "out", "--plan", "rmft")
    assert output.code == 0
    for expected_text in (
        "3 documents in = 3 out + 0 dropped + 0 in quarantine",
        "EMAIL_ADDRESS",
        "0 of",
        "out/data",
        "out.private",
        "sanitize top",
    ):
        assert expected_text in output.out
    assert not [value for value in (BOB, ANN, PHONE) if value in output.out + output.err]


def test_the_preview_writes_nothing(working_folder: Path, sanitize: Command) -> None:
    before = read_tree(working_folder)
    result = sanitize("explain", "in.parquet", "--json", "--plan", "rmft").json
    assert result["sample"]["occurrences"] == 7 and read_tree(working_folder) == before


# ---- the other commands ----


@pytest.fixture(scope="module")
def finished_run_once(tmp_path_factory: pytest.TempPathFactory, copy_prepared: Any) -> Path:
    return Path(copy_prepared(publish_input, tmp_path_factory.mktemp("run")))


@pytest.fixture()
def finished_run(finished_run_once: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same for commands that only read, without a copy for each test."""
    monkeypatch.chdir(finished_run_once)
    return finished_run_once


def test_the_console_script(finished_run: Path) -> None:
    command = [
        Path(sys.executable).parent / "sanitize",
        "verify",
        "out",
        "--workers",
        "1",
        "--json",
    ]
    result = subprocess.run(command, cwd=finished_run, capture_output=True, text=True)
    assert (result.returncode, result.stdout.count("\n"), json.loads(result.stdout)["leaks"]) == (
        0,
        1,
        0,
    )


def test_python_m_sanitize(finished_run: Path, sanitize: Command) -> None:
    command = [sys.executable, "-m", "sanitize", "verify", "nowhere"]
    result = subprocess.run(command, cwd=finished_run, capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (3, "", 1)
    assert sanitize("status", "out.private", "--json").json["documents"] == 3
    assert sanitize("--version").out.strip().count(".") == 2


@pytest.mark.parametrize(("end", "unbuffered"), [("head -1", ""), ("true", "1")])
def test_a_closed_pipe_is_no_error(finished_run: Path, end: str, unbuffered: str) -> None:
    command = (
        f"{sys.executable} -m sanitize sql out.private 'SELECT * FROM range(200000)' --format csv |"
        f" {end}"
    )
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    result = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=finished_run,
        capture_output=True,
        text=True,
        env=environment,
    )
    assert (result.returncode, result.stderr, result.stdout.count("\n")) == (0, "", end != "true")


def test_a_line_break_begins_no_line_of_a_summary_or_table() -> None:
    assert format_facts([("columns", "keep: x\nverdict   safe")]) == [
        "columns         keep: x verdict   safe"
    ]
    assert format_table(("kind", "value"), [("PERSON", "Ann\nRoe\x1b")]).splitlines()[2:] == [
        "PERSON  Ann RoeU+001B"
    ]


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-8"])
def test_any_text_can_be_written_to_any_standard_output(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its encoding lacks is escaped; a line of JSON stays JSON."""
    text = "é ─ 語 😀 \udcff"
    written = io.BytesIO()
    with io.TextIOWrapper(written, encoding=encoding, write_through=True) as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        main._escape_unencodable_output()
        print_text(text)
        print_json({"x": text})
        line, as_json = written.getvalue().decode(encoding).splitlines()
        monkeypatch.undo()
    assert json.loads(as_json) == {"x": text}
    assert (line == text.replace("\udcff", "U+DCFF")) == (encoding == "utf-8")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_full_standard_output_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n')
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "sanitize", "stream", "in.jsonl", "--seed", "1", "-q"]
        result = subprocess.run(
            command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert result.returncode == 7 and result.stderr.startswith(
        "error: standard output: a write failed (ENOSPC)"
    ), result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_lost_answer_is_an_error_of_standard_output(finished_run: Path) -> None:
    with open("/dev/full", "wb") as full:
        command = [
            sys.executable,
            "-m",
            "sanitize",
            "sql",
            "out.private",
            "SELECT 1",
            "--format",
            "parquet",
        ]
        result = subprocess.run(
            command, cwd=finished_run, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert result.returncode == 7 and result.stderr.startswith(
        "error: standard output: a write failed (ENOSPC)"
    ), result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", pytest.param("1", marks=pytest.mark.soak)])
def test_records_lost_in_a_closed_pipe_are_not_acknowledged(
    tmp_path: Path, unbuffered: str
) -> None:
    (tmp_path / "in.jsonl").write_text(
        "".join(json.dumps({"text": f"{no} " * 200}) + "\n" for no in range(2_000))
    )
    command = f"{sys.executable} -m sanitize stream in.jsonl --seed 1 --state state | head -1"
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    result = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=environment,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert not (tmp_path / "state" / "state.json").exists()


@pytest.mark.parametrize(
    ("command", "code"), [("run nothere.jsonl -o out", 3), ("stream in.jsonl", 2)]
)
def test_an_error_where_standard_output_is_closed(tmp_path: Path, command: str, code: int) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n')
    result = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m sanitize {command} >&-"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert (
        result.returncode == code
        and result.stderr.startswith("error: ")
        and result.stderr.count("\n") == 1
    ), result.stderr


def test_another_broken_pipe_is_an_error(tmp_path: Path) -> None:
    script = (
        "import sanitize.cli.main as cli\ndef app():\n    raise BrokenPipeError(32, 'Ann"
        " Roe')\ncli.app = app\ncli.main()\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert (
        result.returncode == 1
        and result.stderr.startswith("error: ")
        and "Ann" not in result.stderr
    )


COMMANDS_WITH_URLS = [
    "index in.jsonl --work s3://pail/work",
    "run in.jsonl -o out --work s3://pail/work",
    "replay out/manifest.json in.jsonl -o s3://pail/out",
    "replay out/manifest.json in.jsonl -o again --work s3://pail/work",
    "stream in.jsonl -o s3://pail/out",
    "stream in.jsonl --state s3://pail/state",
    "stream s3://pail/in.jsonl",
    "demo --dir s3://pail/demo --mails 10",
    "doctor --dir s3://pail",
    "report s3://pail/out",
    "report out --to s3://pail/page.html",
    "report out --figures s3://pail/figures",
    "report out --work s3://pail/work",
    "top s3://pail/work",
    "sql s3://pail/work --list",
    "status s3://pail/work",
    "label s3://pail/work",
    "label out.private --out s3://pail/sample.jsonl",
    "label out.private --score s3://pail/sample.jsonl",
    "label out.private --against s3://pail/work",
    "subject out.private --match s3://pail/who.txt",
    "subject out.private --match who.txt --documents s3://pail/ids.txt",
    "explain in.jsonl --forecast s3://pail/curves.json",
    "run in.jsonl -o other --key s3://pail/key",
    "run in.jsonl -o other --known s3://pail/known.csv",
    "replay s3://pail/manifest.json in.jsonl -o other",
]


def test_urls_are_refused_where_a_local_path_is_expected(
    tmp_path: Path, sanitize: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n')
    sanitize("run", "in.jsonl", "-o", "out", "--seed", "1", "-q", "--plan", "rmft")
    before = sorted(tmp_path.rglob("*"))
    for command in COMMANDS_WITH_URLS:
        output = sanitize(*command.split())
        assert output.code == 2 and "s3://pail" in output.error, command
        assert sorted(tmp_path.rglob("*")) == before, command


def test_every_option_that_is_a_path_refuses_a_url() -> None:
    option_count, unchecked = 0, []
    for command_name in main.COMMANDS:
        command = importlib.import_module(f"sanitize.cli.commands.{command_name}").command
        for option, hint in typing.get_type_hints(command, include_extras=True).items():
            if "pathlib" in str(hint):
                option_count += 1
                unchecked += (
                    [f"{command_name} {option}"]
                    if hint.__metadata__[0].parser is not local_path
                    else []
                )
    assert option_count > 20 and unchecked == [], (
        "give it parser=local_path, or take a string and check is_url"
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda url: report("out", to=f"{url}/page.html"),
        lambda url: report("out", figures=url),
        lambda url: list(stream([{"text": "a"}], state=url)),
        doctor,
        Corpus.open,
    ],
)
def test_urls_are_refused_by_functions_that_expect_a_local_path(
    finished_run: Path, call: Callable[[str], object]
) -> None:
    before = sorted(finished_run.rglob("*"))
    with pytest.raises(UsageError, match="on this machine"):
        call("s3://pail/there")
    assert sorted(finished_run.rglob("*")) == before


@pytest.mark.parametrize("listing", ["kinds", "finders", "droppers", "editors", "plans", "engines"])
def test_list(sanitize: Command, listing: str) -> None:
    rows = sanitize("list", listing, "--json").json
    names = (
        {"name", "about", "category", "searched_when"} if listing == "kinds" else {"name", "about"}
    )
    assert [set(row) - {"model"} for row in rows] == [names] * len(rows) and (
        rows or listing == "droppers"
    )
    assert all(row["about"] for row in rows)
    text_output = sanitize("list", listing)
    assert text_output.code == 0 and all(row["name"] in text_output.out for row in rows)


def test_list_reports_when_each_kind_is_searched(sanitize: Command) -> None:
    searched_when = {
        row["name"]: row["searched_when"] for row in sanitize("list", "kinds", "--json").json
    }
    assert searched_when.keys() == builtin_kinds().keys()
    assert (searched_when["EMAIL_ADDRESS"], searched_when["PERSON"]) == (
        "always",
        "by other finders than patterns",
    )
    assert (searched_when["DATE_TIME"], searched_when["UK_NHS"]) == (
        "where find.kinds names it",
        "where find.countries names GB",
    )


def test_status(finished_run: Path, sanitize: Command) -> None:
    status = sanitize("status", finished_run / "out.private", "--json").json
    assert (status["indexed"], status["documents"], status["tasks"], status["lock_holder"]) == (
        True,
        3,
        1,
        None,
    )
    assert [(run_row["plan"], run_row["tasks_done"]) for run_row in status["runs"]] == [("rmft", 1)]
    assert "rmft" in sanitize("status", finished_run / "out.private").out


def test_verify(finished_run: Path, sanitize: Command) -> None:
    result = sanitize("verify", finished_run / "out", "--json").json
    assert (
        result["leaks"],
        result["shards"],
        result["rows"],
        result["mode"],
        len(result["forms"]),
    ) == (0, 1, 3, "full", 24)
    text_output = sanitize("verify", finished_run / "out", "--workers", "1").out
    assert (
        f"0 of {result['values_removed']} removed values found in 24 forms outside"
        f" {result['kept_originals']} kept originals:"
        in text_output
        and "MB of raw bytes" in text_output
    )
    fast = sanitize("verify", finished_run / "out", "--verify", "fast", "--json").json
    of_run = json.loads((finished_run / "out" / "manifest.json").read_text())["summary"]["verify"]
    assert [
        {one[name] for one in (result, fast, of_run)}
        for name in ("values_checked", "values_removed", "ambiguous_values")
    ] == [
        {result["values_checked"]},
        {result["values_removed"]},
        {result["ambiguous_values"]},
    ]
    assert (fast["leaks"], fast["mode"], fast["forms"]) == (
        0,
        "fast",
        ["exact", "case-folded", "NFKC"],
    )
    assert sanitize("verify", finished_run / "out", "--verify", "deep").code == 2


def test_the_workspace_can_be_queried_from_another_folder(
    finished_run: Path, tmp_path: Path, sanitize: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # bug: WORK stored inputs as they were typed, so that relative paths were looked for in the
    # current folder
    assert sanitize("top", finished_run / "out.private", "--json").code == 0
    assert (
        sanitize(
            "sql", finished_run / "out.private", "SELECT count(*) FROM documents", "--json"
        ).code
        == 0
    )
    assert sanitize("verify", finished_run / "out").code == 0


def test_the_workspace_can_be_queried_without_the_input(
    published_folder: Path, sanitize: Command
) -> None:
    (published_folder / "in.parquet").unlink()
    # bug: without the input no table could be queried, although only `documents` needs it
    assert len(json.loads(sanitize("top", "out.private", "--json").out)) == 3
    assert sanitize("verify", "out").code == 0


@pytest.mark.slow
def test_top_is_masked_without_reveal(finished_run: Path, sanitize: Command) -> None:
    for format_options in ([], ["--json"], ["--format", "csv"], ["--format", "json"]):
        masked, revealed = (
            sanitize("top", finished_run / "out.private", *format_options, *reveal_option).out
            for reveal_option in ([], ["--reveal"])
        )
        assert masked and not [
            value for value in (BOB, ANN, PHONE, "lee", "roe") if value in masked
        ]
        assert BOB in revealed and PHONE in revealed
    rows = json.loads(sanitize("top", finished_run / "out.private", "--json").out)
    assert [(row["kind"], row["occurrences"]) for row in rows][0] == ("EMAIL_ADDRESS", 3)
    assert (
        len(
            json.loads(
                sanitize(
                    "top", finished_run / "out.private", "--kind", "PHONE_NUMBER", "--json"
                ).out
            )
        )
        == 1
    )
    assert (
        len(json.loads(sanitize("top", finished_run / "out.private", "--limit", "1", "--json").out))
        == 1
    )
    assert (
        "did you mean EMAIL_ADDRESS?"
        in sanitize("top", finished_run / "out.private", "--kind", "EMAIL").error
    )


def test_sql_is_masked_without_reveal(finished_run: Path, sanitize: Command) -> None:
    work = finished_run / "out.private"
    for query in (
        "SELECT value FROM value_spellings",
        "SELECT upper(value) AS v FROM value_spellings",
        "SELECT * FROM documents",
        "SELECT * FROM edits",
    ):
        masked = sanitize("sql", work, query, "--json")
        assert masked.code == 0, masked.err
        assert not [value for value in (BOB, ANN, PHONE, BOB.upper()) if value in masked.out]
    assert (
        BOB in sanitize("sql", work, "SELECT value FROM value_spellings", "--reveal", "--json").out
    )
    rows = json.loads(
        sanitize(
            "sql",
            work,
            "SELECT kind, sum(occurrences) AS n FROM value_counts GROUP BY 1 ORDER BY 1",
            "--json",
        ).out
    )
    assert rows == [{"kind": "EMAIL_ADDRESS", "n": 5}, {"kind": "PHONE_NUMBER", "n": 2}]


@pytest.mark.slow
def test_sql_by_name_and_list(finished_run: Path, sanitize: Command) -> None:
    work = finished_run / "out.private"
    listed = sanitize("sql", work, "--list", "--json").json
    assert {"top_values", "rank_frequency"} <= {row["name"] for row in listed} and all(
        row["description"] for row in listed
    )
    for row in listed[::3]:  # storage/test_queries_on_runs.py runs all
        output = sanitize("sql", work, "--name", row["name"], "--json")
        if output.code:  # queries that a run binds to tables of its own
            assert output.code == 2 and output.error
        else:
            assert isinstance(json.loads(output.out), list)
            assert not [value for value in (BOB, ANN, PHONE) if value in output.out]
    assert "CREATE" in sanitize("sql", work, "--init").out
    assert "did you mean top_values?" in sanitize("sql", work, "--name", "top_valeus").error


@pytest.mark.parametrize(
    "query",
    [
        "DROP VIEW occurrences",
        "SELECT * FROM read_csv('/etc/passwd')",
        "COPY (SELECT 1) TO 'x.csv'",
        "SELECT nothing FROM occurrences",
        "SELEC 1",
        "SELECT 1; SELECT 2",
        "INSTALL httpfs",
        "SET memory_limit='1GB'",
    ],
)
def test_refused_sql_is_one_error_line(
    finished_run: Path, sanitize: Command, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.chdir(finished_run)
    output = sanitize("sql", "out.private", query)
    assert output.code == 2 and output.error
    assert not (finished_run / "x.csv").exists()


def test_sql_shell(finished_run: Path, sanitize: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = iter(
        [
            "SELECT kind",
            "FROM value_counts ORDER BY 1;",
            "SELECT nothing;",
            "SELECT value FROM value_spellings;",
        ]
    )

    def ask(_prompt: str) -> str:
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", ask)
    output = sanitize("sql", finished_run / "out.private")
    assert output.code == 0 and "EMAIL_ADDRESS" in output.out and "error: " in output.err
    assert not [value for value in (BOB, ANN, PHONE) if value in output.out + output.err]


def test_explain(working_folder: Path, sanitize: Command) -> None:
    before = read_tree(working_folder)
    result = sanitize("explain", "in.parquet", "--json", "--plan", "rmft").json
    assert (result["documents"], result["sampled_documents"], result["sample"]["occurrences"]) == (
        3,
        3,
        7,
    )
    assert result["examples"] and {"kind", "before", "after"} == set(result["examples"][0])
    output = sanitize("explain", "in.parquet", "--plan", "surrogates", "--text-column", "text")
    assert output.code == 0 and "surrogates" in output.out and "CPU-seconds" in output.out
    for text in (json.dumps(result), output.out, output.err):
        assert not [value for value in (BOB, ANN, PHONE) if value in text]
    assert read_tree(working_folder) == before


def test_explain_of_standard_input_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, console: Callable[..., tuple[int, str, str]]
) -> None:
    """Its copy lies in a folder that only its owner can read, and is deleted."""
    seen: list[tuple[Path, int]] = []

    def explain(inputs: list[str], *arguments: Any, **options: Any) -> Any:
        copy = Path(inputs[0])
        seen.append((copy, stat.S_IMODE(copy.parent.stat().st_mode)))
        return explain_with_settings(inputs, *arguments, **options)

    explain_with_settings = preview.explain_with_settings
    monkeypatch.setattr(preview, "explain_with_settings", explain)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"to ann.roe@example.org")))
    code, out, _ = console("explain", "-")
    assert code == 0 and "The text and its sample were in a temporary folder, now deleted" in out
    [(copy, mode)] = seen
    assert mode == 0o700 and not copy.parent.exists()


def test_explain_of_a_plan_without_its_model(working_folder: Path, sanitize: Command) -> None:
    output = sanitize("explain", "in.parquet", "--plan", "dp_mlm")
    assert (
        output.code == 0
        and "--set edit.0.model=PATH" in output.out
        and "EMAIL_ADDRESS" in output.out
    )
    result = sanitize("explain", "in.parquet", "--plan", "dp_mlm", "--json").json
    assert (
        len(result["missing_requirements"]) == 1
        and result["sample"]["occurrences"] == 7
        and result["examples"] == []
    )


@pytest.mark.slow
def test_demo(working_folder: Path, sanitize: Command) -> None:
    output = sanitize("demo", "--mails", "60", "--json")
    assert output.json["leaks"] == 0 and output.json["documents_in"] == 60
    assert sanitize("verify", Path(output.json["out"])).code == 0
    text_output = sanitize("demo", "--mails", "60", "--dir", "again")
    assert text_output.code == 0 and (working_folder / "again").is_dir()


COMMAND_NAMES = [
    "run",
    "index",
    "explain",
    "top",
    "sql",
    "verify",
    "report",
    "replay",
    "demo",
    "list",
    "status",
]


def test_help_lists_all_commands(sanitize: Command) -> None:
    output = sanitize("--help")
    assert output.code == 0 and not [
        command_name for command_name in COMMAND_NAMES if command_name not in output.out
    ]
    assert sanitize().code in (0, 2)


@pytest.mark.parametrize("command_name", COMMAND_NAMES)
def test_every_command_has_help(sanitize: Command, command_name: str) -> None:
    output = sanitize(command_name, "--help")
    assert output.code == 0 and output.err == "" and "--json" in output.out


@pytest.mark.parametrize("command_name", COMMAND_NAMES)
def test_every_option_has_a_help_text(command_name: str) -> None:
    from typer.main import get_command

    command = get_command(main.app).commands[command_name]  # type: ignore[attr-defined]
    assert command.help
    assert [
        option.name
        for option in command.params
        if option.name != "help" and not getattr(option, "help", None)
    ] == []


def test_progress_is_plain_lines_without_a_terminal(
    finished_run: Path, sanitize: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "1")
    output = sanitize("index", "in.parquet", "--work", "again", "--plan", "rmft")
    assert (
        output.code == 0
        and "detect" in output.err
        and "\x1b" not in output.err + output.out
        and "\r" not in output.err
    )


def test_a_folder_of_the_user_is_never_used_as_workspace(tmp_path: Path) -> None:
    """Neither as WORK, nor beside OUT under a name like those of sanitize."""
    (tmp_path / "in.jsonl").write_text('{"text": "write to bob@example.com"}\n')
    (tmp_path / "mine" / "documents").mkdir(parents=True)
    (tmp_path / "mine" / "documents" / "thesis.tex").write_text("mine")
    (tmp_path / "mine" / "index.json").write_text('{"name": "site"}')
    before = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))
    with pytest.raises(UsageError, match="no run wrote"):
        index_with_settings([tmp_path / "in.jsonl"], tmp_path / "mine", plan="rmft")
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*")) == before
    for name in ("clean.old", "clean.tmp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine").write_text("mine")
    for seed in (1, 2):
        run_with_settings(
            tmp_path / "in.jsonl",
            tmp_path / "clean",
            settings=Settings(seed=seed, workers=1, replace=True),
            plan="rmft",
        )
    assert all(
        (tmp_path / name / "mine").read_text() == "mine" for name in ("clean.old", "clean.tmp")
    )


def test_documents_with_equal_ids_have_different_draws(tmp_path: Path) -> None:
    """Draws depend on the id; if two documents share it, on their position, and the run notes
    it."""
    lines = [
        json.dumps({"doc_id": "same", "text": "write to bob.mann@example.com"}) for _ in range(40)
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    summary = run_with_settings(
        tmp_path / "in.jsonl", tmp_path / "clean", settings=Settings(seed=1, workers=1), plan="rmft"
    )
    texts = pq.read_table(tmp_path / "clean" / "data").column("text").to_pylist()
    assert len(set(texts)) > 35 and any("belong to more than one" in note for note in summary.notes)


def test_addresses_of_persons_are_not_message_ids(tmp_path: Path) -> None:
    mail = (
        "From: Anna <anna_12_04_1985_nyc7@example.com>\nIn-Reply-To: Message from Bob Lee"
        " <bob.lee@example.com> of today\n\nhello\n"
    )
    (tmp_path / "in.jsonl").write_text(
        json.dumps({"text": mail}) + "\n" + json.dumps({"text": mail}) + "\n"
    )
    summary = run_with_settings(
        tmp_path / "in.jsonl", tmp_path / "clean", settings=Settings(seed=1, workers=1), plan="rmft"
    )
    assert {kind: entry.occurrences for kind, entry in summary.by_kind.items()} == {
        "EMAIL_ADDRESS": 4
    }


def test_kept_binary_columns_are_leak_checked(tmp_path: Path) -> None:
    table = pa.table(
        {
            "text": ["write to bob.mann@example.com"] * 2,
            "raw": pa.array([b"", b"\xffbob.mann@example.com"], pa.binary()),
        }
    )
    pq.write_table(table, tmp_path / "in.parquet")
    settings = Settings(seed=1, workers=1, keep=["raw"])
    with pytest.raises(LeakFound, match="column raw: 1 EMAIL_ADDRESS"):
        run_with_settings(
            tmp_path / "in.parquet", tmp_path / "clean", settings=settings, plan="rmft"
        )


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("200000000", 200_000_000), ("32MB", 32 << 20), ("1.5KB", 1536), ("512MB", 1 << 29)],
)
def test_document_sizes_are_parsed(text: str, size: int) -> None:
    assert Settings(max_doc_bytes=text).max_doc_bytes == size
