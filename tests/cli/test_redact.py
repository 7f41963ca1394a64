"""`sanitize redact`: texts and files of every format in, the same formats out."""

from __future__ import annotations

import gzip
import io
import json
import mailbox
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.inspection.file_redaction import redact_files, redact_text
from sanitize.plans.plan import Plan
from sanitize.plans.settings import Settings

Console = Callable[..., tuple[int, str, str]]
MAIL, TEL = "ann.lee@example.com", "205-555-0142"
FORMATS = {
    "text": ("a.log", f"to {MAIL}\r\nand\n", "to [EMAIL_ADDRESS]\r\nand\n"),
    "text with a byte order mark": ("a.md", f"\ufeff# {MAIL}", "\ufeff# [EMAIL_ADDRESS]"),
    "an empty text": ("a.txt", "", ""),
    "one JSON object": (
        "a.json",
        f'{{\n  "mail": "{MAIL}", "n": 1.50\n}}\n',
        '{\n  "mail": "[EMAIL_ADDRESS]", "n": 1.50\n}\n',
    ),
    "JSON lines with other fields": (
        "a.jsonl",
        f'{{"body": "to {MAIL}", "n": 2}}\n\n{{"n": 3, "more": ["{TEL}", null]}}\n',
        '{"body": "to [EMAIL_ADDRESS]", "n": 2}\n{"n": 3, "more": ["[PHONE_NUMBER]", null]}\n',
    ),
    "a JSON array": (
        "a.json",
        f'[{{"text": "é {MAIL}"}}, {{"text": null}}]',
        '[\n  {\n    "text": "é [EMAIL_ADDRESS]"\n  },\n  {\n    "text": null\n  }\n]\n',
    ),
    "CSV": (
        "a.csv",
        f'no;mail;note\r\n007;{MAIL};"a ""b""; {TEL}"\r\n8;;\r\n',
        'no;mail;note\r\n007;[EMAIL_ADDRESS];"a ""b""; [PHONE_NUMBER]"\r\n8;;\r\n',
    ),
    "TSV": ("a.tsv", f"no\ttext\n1\t{MAIL}, x\n", "no\ttext\n1\t[EMAIL_ADDRESS], x\n"),
    "a mail": (
        "a.eml",
        "Subject: =?utf-8?q?caf=C3=A9?=\nContent-Type: text/plain; charset=utf-8\n"
        f"Content-Transfer-Encoding: quoted-printable\n\nto {MAIL.replace('@', '=40')}\n",
        "Subject: café\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n"
        "Content-Transfer-Encoding: 8bit\n\nto [EMAIL_ADDRESS]\n",
    ),
}


@pytest.mark.parametrize("case", FORMATS)
def test_a_file_comes_out_in_its_format(case: str, tmp_path: Path, console: Console) -> None:
    name, given, expected = FORMATS[case]
    (tmp_path / name).write_bytes(given.encode())
    code, _, notes = console("redact", tmp_path / name, "-o", tmp_path / "out")
    assert (code, (tmp_path / "out").read_bytes().decode()) == (0, expected), notes
    assert MAIL not in notes and TEL not in notes


def test_tables_keep_their_types(tmp_path: Path) -> None:
    table = pa.table(
        {
            "text": pa.array([MAIL, None], pa.string()),
            "label": pa.array(["a", "b"]).dictionary_encode(),
            "tags": pa.array([[TEL], []], pa.list_(pa.string())),
            "n": pa.array([1, 2], pa.int8()),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table)
    redaction = redact_files(
        [str(tmp_path / "a.parquet"), str(tmp_path / "a.arrow")], Plan.load("redact"), Settings()
    )
    parquet, arrow = redaction.files
    for found in (
        pq.read_table(io.BytesIO(parquet.content)),
        pa.ipc.open_file(arrow.content).read_all(),
    ):
        assert found.schema == table.schema
        assert found.to_pylist() == [
            {"text": "[EMAIL_ADDRESS]", "label": "a", "tags": ["[PHONE_NUMBER]"], "n": 1},
            {"text": None, "label": "b", "tags": [], "n": 2},
        ]
    assert redaction.replaced == {"EMAIL_ADDRESS": 2, "PHONE_NUMBER": 2}


def test_a_mailbox_can_be_read_again(tmp_path: Path) -> None:
    mails = [
        f"From {MAIL} Mon Jan  4 10:00:00 2021\nFrom: {MAIL}\nSubject: one\n\n"
        f">From here: {TEL}\n\n",
        "From x@y.example Mon Jan  4 11:00:00 2021\nSubject: two\n\nnothing\n",
    ]
    (tmp_path / "a.mbox").write_text("".join(mails))
    (clean,) = redact_files([str(tmp_path / "a.mbox")], Plan.load("redact"), Settings()).files
    (tmp_path / "b.mbox").write_bytes(clean.content)
    found = [
        (one["from"], one["subject"], one.get_payload())
        for one in mailbox.mbox(tmp_path / "b.mbox")
    ]
    assert found == [
        ("[EMAIL_ADDRESS]", "one", ">From here: [PHONE_NUMBER]\n"),
        (None, "two", "nothing\n"),
    ]
    assert MAIL.encode() not in clean.content


def test_files_of_a_folder_are_one_corpus_and_keep_their_places(
    tmp_path: Path, console: Console
) -> None:
    folder = tmp_path / "in"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.log").write_text(f"{MAIL}\n")
    (folder / "sub" / "b.py").write_text(f"# {MAIL}\n")
    (folder / "sub" / "c.txt.gz").write_bytes(gzip.compress(f"{MAIL}".encode()))
    arguments = ("redact", folder, "-o", tmp_path / "out", "--plan", "pseudonymize", "--seed", 1)
    code, out, _ = console(*arguments)
    texts = {
        str(path.relative_to(tmp_path / "out")): path.read_bytes()
        for path in (tmp_path / "out").rglob("*.*")
    }
    assert (code, out, {*texts}) == (0, "", {"a.log", "sub/b.py", "sub/c.txt.gz"})
    pseudonym = texts["a.log"].strip()
    assert texts["sub/b.py"] == b"# " + pseudonym + b"\n" and MAIL.encode() != pseudonym
    assert gzip.decompress(texts["sub/c.txt.gz"]) == pseudonym
    code, out, _ = console("redact", folder, "--include", "*.py", "-o", tmp_path / "some", "-q")
    assert [path.name for path in (tmp_path / "some").rglob("*.*")] == ["b.py"]


def test_nothing_private_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (temp := tmp_path / "temp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temp))
    (tmp_path / "a.txt").write_text(MAIL)
    redact_files([str(tmp_path / "a.txt")], Plan.load("redact"), Settings())
    assert redact_text(f"to {MAIL}", Plan.load("redact"), Settings())[0] == "to [EMAIL_ADDRESS]"
    assert [*temp.iterdir()] == []


def test_texts_and_standard_input(
    tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, notes = console("redact", "--text", f"Write to {MAIL}")
    assert (code, out) == (0, "Write to [EMAIL_ADDRESS]\n")
    assert "1 EMAIL_ADDRESS (plan redact)" in notes and "not looked for" in notes
    for given, expected in (
        (f"x {MAIL}", "x [EMAIL_ADDRESS]"),
        (f'{{"text": "{MAIL}"}}\n', '{"text": "[EMAIL_ADDRESS]"}\n'),
    ):
        standard_input = io.TextIOWrapper(io.BytesIO(given.encode()))
        monkeypatch.setattr("sys.stdin", standard_input)
        code, out, notes = console("redact", "-", "-q")
        assert (code, out, notes) == (0, expected, "")


REFUSED: dict[str, tuple[list[str], int, str]] = {
    "a text in the place of a file": ([f"mail {MAIL}"], 3, "argument 1 is no file or folder; give"),
    "nothing": ([], 2, "expected files"),
    "an input as the output": (["a.txt", "-o", "a.txt"], 2, "is one of the inputs"),
    "the folder of the inputs": (["a.txt", "-o", "."], 2, "is one of the inputs"),
    "a folder to standard output": (["b"], 2, "files need a folder: -o FOLDER"),
    "two files with one name": (["a.txt", "b/a.txt", "-o", "o"], 2, "have one name in OUT"),
    "an unknown format": (["a.txt", "--as", "tex"], 2, "did you mean text"),
    "broken JSON": (["a.txt", "--as", "jsonl"], 3, "line 1 cannot be read: it is not valid JSON"),
    "JSON that ends early": (["cut.jsonl"], 3, "line 2 cannot be read: it is not valid JSON"),
    "uneven CSV": (["uneven.csv"], 3, "different numbers of cells"),
    "no text": (["no.bin"], 3, "holds no text"),
    "no Parquet": (["a.txt", "--as", "parquet"], 3, "cannot read it"),
    "a pattern without a file": ([".", "--include", "*.x", "-o", "o"], 3, "matches no file"),
    "a plan that drops": (["a.txt", "--plan", "drop.toml"], 2, "whole corpus"),
    "a removed value in a kept column": (["a.jsonl", "--keep", "k"], 4, "still holds a value"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_done_is_one_line_without_values(
    case: str, tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b").mkdir()
    for name in ("a.txt", "b/a.txt"):
        Path(name).write_text(MAIL)
    Path("no.bin").write_bytes(b"\x00\x01\xff" * 9)
    Path("uneven.csv").write_text(f"text,b\n{MAIL}\n")
    Path("cut.jsonl").write_text(f'{{"text": "{MAIL}"}}\n{{"text": "{MAIL}')
    Path("a.jsonl").write_text(json.dumps({"text": MAIL, "k": MAIL}))
    Path("drop.toml").write_text(
        '[find]\nkinds = ["default"]\n[[drop]]\nuse = "exact_dup"\n'
        '[[edit]]\nuse = "redact"\nkinds=["*"]\n'
    )
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    arguments, code, message = REFUSED[case]
    found, out, error = console("redact", *arguments)
    assert (found, out, error.count("\n")) == (code, "", 1) and message in error
    assert MAIL not in error
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_file_is_replaced_at_once(tmp_path: Path, console: Console) -> None:
    (tmp_path / "a.txt").write_text(MAIL)
    (tmp_path / "out.txt").write_text("old")
    os.link(tmp_path / "out.txt", tmp_path / "linked")
    assert console("redact", tmp_path / "a.txt", "-o", tmp_path / "out.txt", "-q")[0] == 0
    assert (tmp_path / "out.txt").read_text() == "[EMAIL_ADDRESS]"
    assert (tmp_path / "linked").read_text() == "old"


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1252", "a café by the sea"),
        ("koi8-r", "Завтра утром мы поедем на поезде в другой город, и дети будут рады."),
    ],
)
def test_a_text_that_is_not_utf8_is_decoded_as_in_a_run(
    encoding: str, text: str, tmp_path: Path, console: Console
) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(f"{text} {MAIL}\n".encode(encoding))
    code, out, err = console("redact", str(path), "--seed", "1")
    assert (code, out) == (0, f"{text} [EMAIL_ADDRESS]\n"), err
    assert "its encoding was guessed" in err


def test_bytes_of_no_encoding_are_refused(tmp_path: Path, console: Console) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"\x81\x8d\x8f\x90\x9d\xff\xfe\x81" * 40)
    code, out, err = console("redact", str(path), "--seed", "1")
    assert (code, out) == (3, "") and "not valid Unicode" in err


def _run_command(arguments: list[str], folder: Path, **options: Any) -> Any:
    """A command in a process of its own, in a folder."""
    command = [sys.executable, "-m", "sanitize", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, timeout=120, **options)


def test_without_home_folder_and_terminal_a_text_is_redacted(tmp_path: Path) -> None:
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("HOME", "TERM") and not name.startswith("XDG_")
    }
    for more in ({}, {"HOME": str(tmp_path / "none")}):
        done = _run_command(
            ["redact", "-"], tmp_path, env=environment | more, input=f"to {MAIL}\n".encode()
        )
        assert (done.returncode, done.stdout) == (0, b"to [EMAIL_ADDRESS]\n"), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_closed_pipe_ends_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(f"to {MAIL}\n" * 20_000)
    command = [sys.executable, "-m", "sanitize", "redact", "a.log"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
    assert b"Traceback" not in errors and MAIL.encode() not in errors


BAD_FILES = {
    "JSON lines that end in mid-record": ("a.jsonl", f'{{"text": "a"}}\n{{"text": "{MAIL}'),
    "JSON lines, then CSV": ("a.jsonl", f'{{"text": "a"}}\ntext,who\nb,{MAIL}\n'),
    "CSV, then JSON lines": ("a.csv", f'text,who\na,{MAIL}\n{{"text": "{MAIL}"}}\n'),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_broken_file_is_refused_and_nothing_is_written(
    case: str, tmp_path: Path, console: Console
) -> None:
    name, content = BAD_FILES[case]
    (tmp_path / name).write_text(content)
    code, out, err = console("redact", str(tmp_path / name), "-o", str(tmp_path / "out"))
    assert (code, out) == (3, "") and MAIL not in err
    assert not (tmp_path / "out").exists()


def test_a_text_given_as_a_path_is_not_repeated(console: Console) -> None:
    code, out, err = console("redact", f"to {MAIL}")
    assert (code, out) == (3, "") and "--text" in err and MAIL not in err
