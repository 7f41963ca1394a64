"""Checks of text files: which are searched, in which encodings and lines, and what `--fail-on`
takes. All people are invented."""

from __future__ import annotations

import codecs
import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.errors import InputRefused, UsageError
from sanitize.inspection import text_file_check
from sanitize.inspection.text_file_check import find_in_files, resolve_fail_kinds
from sanitize.inspection.text_files import list_text_files
from sanitize.plans.plan import Plan, load_plan

ANN, BOB, PHONE = "ann.roe@example.com", "bob@example.org", "212-555-0123"
MAIL = "EMAIL_ADDRESS"
RMFT = load_plan("rmft")
Console = Callable[..., tuple[int, str, str]]


def find(path: Path, *kinds: str, plan: Plan = RMFT) -> list[tuple[str, int, list[int]]]:
    return [
        (one.kind, one.occurrences, one.lines)
        for one in find_in_files([str(path)], plan, kinds or (MAIL,)).found
    ]


ENCODED: dict[str, bytes] = {
    "UTF-8": f"é\n{ANN}\n".encode(),
    "with a byte order mark": codecs.BOM_UTF8 + f"é\n{ANN}\n".encode(),
    "UTF-16": f"é\n{ANN}\n".encode("utf-16"),
    "UTF-16, big-endian": codecs.BOM_UTF16_BE + f"é\n{ANN}\n".encode("utf-16-be"),
    "UTF-32": f"é\n{ANN}\n".encode("utf-32"),
    "Latin-1": f"é\n{ANN}\n".encode("latin-1"),
    "CR LF": f"é\r\n{ANN}\r\n".encode(),
    "no last line end": f"é\n{ANN}".encode(),
    "compressed": gzip.compress(f"é\n{ANN}\n".encode()),
}


@pytest.mark.parametrize("encoding", ENCODED)
def test_a_value_is_found_in_its_line_in_any_encoding(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(ENCODED[encoding])
    assert find(tmp_path / "a.txt") == [(MAIL, 1, [2])]


def test_a_line_that_is_longer_than_a_piece_is_searched_at_every_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_file_check, "_PIECE_BYTES", 100)
    monkeypatch.setattr(text_file_check, "_OVERLAP", 80)
    monkeypatch.setattr(text_file_check, "_FIRST_BYTES", 10)
    for shift in range(0, 60, 13):
        (tmp_path / "a.txt").write_text(
            "\n" + " " * shift + f'"{ANN}", "number {PHONE}", ' * 12 + f"\n{BOB}"
        )
        assert find(tmp_path / "a.txt", MAIL, "PHONE_NUMBER") == [
            (MAIL, 13, [2, 3]),
            ("PHONE_NUMBER", 12, [2]),
        ], shift


def test_files_without_text_are_listed(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(b"\x1f\x8b\x08\x00\x00\x00")
    (tmp_path / "empty").touch()
    search = find_in_files([*list_text_files([str(tmp_path)])], RMFT, [MAIL])
    assert (search.found, search.files, search.without_text) == ([], 2, [str(tmp_path / "a.gz")])


@pytest.mark.slow
@given(
    lines=st.lists(
        st.sampled_from(["", "é", "plain text", ANN, f"{ANN} {BOB}", "\r", "😀" * 5, "x" * 40]),
        max_size=30,
    )
)
def test_pieces_of_a_file_change_nothing(
    lines: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("pieces") / "a.txt"
    path.write_text("\n".join(lines), "utf-8", newline="")
    numbers = [number for number, line in enumerate(lines, 1) for _ in range(line.count("@"))]
    expected = [(MAIL, len(numbers), sorted(set(numbers)))] if numbers else []
    with pytest.MonkeyPatch.context() as patch:
        for piece_bytes, first_bytes in ((1 << 20, 8192), (64, 3), (50, 70)):
            patch.setattr(text_file_check, "_PIECE_BYTES", piece_bytes)
            patch.setattr(text_file_check, "_FIRST_BYTES", first_bytes)
            assert find(path) == expected


def test_a_folder_is_searched_without_links_and_version_control(tmp_path: Path) -> None:
    for name in ("b/c.txt", "a.txt", ".env", ".git/config", "b/.hg/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(ANN)
    (tmp_path / "b" / "link").symlink_to("../a.txt")
    (tmp_path / "loop").symlink_to(".")
    os.mkfifo(tmp_path / "fifo")
    names = [
        str(Path(file).relative_to(tmp_path))
        for file in list_text_files([str(tmp_path), str(tmp_path / "a.txt")])
    ]
    assert names == [".env", "a.txt", "b/c.txt"]


@pytest.mark.parametrize(
    ("name", "words"),
    [("nowhere", "argument 1 is no file or folder"), ("empty", "this folder has no files")],
)
def test_a_path_without_files_is_refused(name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputRefused, match=words):
        list_text_files([str(tmp_path / name)])


@pytest.mark.parametrize(
    ("include", "expected"),
    [
        ([], ["a.log", "b/c.py", "b/d.md"]),
        (["*.py", "a.*"], ["a.log", "b/c.py"]),
        (["b/*"], ["b/c.py", "b/d.md"]),
        (["d.md"], ["b/d.md"]),
    ],
)
def test_patterns_choose_the_files_of_folders(
    include: list[str], expected: list[str], tmp_path: Path, console: Console
) -> None:
    """The same for `detect` and `redact`; a file that is named counts in any case."""
    for name in ("in/a.log", "in/b/c.py", "in/b/d.md", "e.html"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(ANN)
    named = [str(tmp_path / "in"), str(tmp_path / "e.html")]
    assert list(list_text_files(named, include).values()) == [*expected, "e.html"]
    options = [word for pattern in include for word in ("--include", pattern)]
    code, out, _ = console("detect", *named, *options, "--json")
    files = [json.loads(line)["file"] for line in out.splitlines()]
    assert code == 0 and [Path(file).name for file in files] == [
        Path(place).name for place in [*expected, "e.html"]
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("in", "--include", "*.x"), 3, "--include *.x: matches no file"),
        (("in/a.log", "--as", "csv"), 2, "detect reads every file as text"),
        (("in/a.log", "--as", "text"), 0, "EMAIL_ADDRESS"),
    ],
)
def test_options_of_inputs(
    arguments: tuple[str, ...],
    code: int,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    console: Console,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.log").write_text(ANN)
    found_code, out, err = console("detect", *arguments)
    assert found_code == code and words in (err if code else out)


FAIL_KINDS: list[tuple[str, list[str], list[str] | str]] = [
    # (plan, entries, kinds or words of the error)
    ("rmft", [MAIL], [MAIL]),
    ("rmft", ["contact"], [MAIL, "PHONE_NUMBER"]),
    ("rmft", [MAIL, "contact", "US_SSN"], [MAIL, "PHONE_NUMBER", "US_SSN"]),
    ("rmft", ["*"], list(RMFT.find.kinds)),
    ("redact", ["person"], ["PERSON"]),
    (
        "rmft",
        ["contacts"],
        "--fail-on contacts: there is no such kind or category; did you mean contact",
    ),
    (
        "rmft",
        ["PERSON"],
        "plan rmft does not look for it; these do: .*--plan redact, .*--plan surrogates",
    ),
    ("rmft", ["UK_NHS"], "write a plan with it in find.kinds and GB in find.countries"),
    ("rmft", ["organization"], "plan rmft does not look for it"),
    ("rmft", [], "--fail-on: names no kind; expected"),
]


@pytest.mark.parametrize(("plan", "entries", "expected"), FAIL_KINDS)
def test_kinds_that_fail(plan: str, entries: list[str], expected: list[str] | str) -> None:
    if isinstance(expected, list):
        assert sorted(resolve_fail_kinds(entries, load_plan(plan))) == sorted(expected)
    else:
        with pytest.raises(UsageError, match=expected):
            resolve_fail_kinds(entries, load_plan(plan))


def test_own_kinds_and_allowed_values(tmp_path: Path) -> None:
    kind = 'find.kinds=["EMAIL_ADDRESS", "STAFF_ID"]'
    own = 'kind=[{name="STAFF_ID", pattern="S-[0-9]{5}", category="identifier"}]'
    changes = [
        kind,
        own,
        'edit=[{use="redact", kinds=["*"]}]',
        "leave=[]",
        f'find.allow={{EMAIL_ADDRESS=["{BOB}"]}}',
    ]
    plan = load_plan("redact", changes)
    (tmp_path / "a.txt").write_text(f"{BOB}\nS-12345 {ANN}\n")
    assert resolve_fail_kinds(["identifier"], plan) == ["STAFF_ID"]
    assert find(tmp_path / "a.txt", MAIL, "STAFF_ID", plan=plan) == [
        (MAIL, 1, [2]),
        ("STAFF_ID", 1, [2]),
    ]


# ---- the command ----


@pytest.fixture()
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.txt").write_text(f"one\n{ANN}, {BOB}\n{PHONE}\n{ANN}\n{ANN}\n")
    (tmp_path / "sub" / "b.txt").write_text("nobody\n")
    (tmp_path / "sub" / "c.bin").write_bytes(b"\0\xff")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_check_that_fails_prints_counts_and_lines_and_no_values(
    folder: Path, console: Console
) -> None:
    code, out, err = console("detect", "a.txt", "sub", "--fail-on", "US_SSN,contact")
    assert code == 10 and not [value for value in (ANN, BOB, PHONE) if value in out + err]
    assert [line.split() for line in out.splitlines()[2:]] == [
        ["a.txt", MAIL, "4", "2,", "4-5"],
        ["a.txt", "PHONE_NUMBER", "1", "3"],
    ]
    assert "note: not searched, no text: sub/c.bin\n" in err
    assert err.endswith(
        "error: found 4 EMAIL_ADDRESS, 1 PHONE_NUMBER in 1 of 2 files; remove or replace these"
        " values, or list those that may stay in find.allow of a plan\n"
    )
    code, out, err = console("detect", "a.txt", "--fail-on", "PHONE_NUMBER", "--json")
    assert code == 10 and json.loads(out) == {
        "file": "a.txt",
        "kind": "PHONE_NUMBER",
        "occurrences": 1,
        "lines": [3],
    }


def test_a_check_that_passes_says_what_was_searched_for(folder: Path, console: Console) -> None:
    assert console("detect", "sub/b.txt", "--fail-on", "contact") == (
        0,
        "none of EMAIL_ADDRESS, PHONE_NUMBER was found in 1 file (plan redact)\n",
        "",
    )
    assert console("detect", "a.txt", "--fail-on", "US_SSN", "--fail-on", "URL", "--json") == (
        0,
        "",
        "",
    )


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("a.txt", "--fail-on", "MAIL"), 2, "there is no such kind or category"),
        (("a.txt", "--fail-on", "contact", "--reveal"), 2, "--reveal has no effect with --fail-on"),
        (("a.txt", "--fail-on", "contact", "--lines"), 2, "--lines has no effect with --fail-on"),
        (("a.txt", "nowhere", "--fail-on", "contact"), 3, "argument 2 is no file or folder"),
        (("s3://pail/a.txt", "--fail-on", "contact"), 2, "is a URL"),
        (("sub/c.bin",), 3, "it holds no text"),
    ],
)
def test_a_check_that_cannot_be_made_is_refused(
    arguments: tuple[str, ...], code: int, words: str, folder: Path, console: Console
) -> None:
    found_code, out, err = console("detect", *arguments)
    assert (found_code, out) == (code, "") and words in err


def test_occurrences_of_several_files_are_listed_with_their_file(
    folder: Path, console: Console
) -> None:
    code, out, err = console("detect", "a.txt", "sub", "--lines", "--plan", "rmft")
    assert (
        code == 0
        and ANN not in out
        and out.splitlines()[0].split()
        == ["file", "line", "kind", "start", "end", "value", "score"]
    )
    assert [line.split()[:3] for line in out.splitlines()[2:]] == [
        ["a.txt", line, kind]
        for line, kind in (
            ("2", MAIL),
            ("2", MAIL),
            ("3", "PHONE_NUMBER"),
            ("4", MAIL),
            ("5", MAIL),
        )
    ]
    assert err == "note: not searched, no text: sub/c.bin\n"
    rows = [
        json.loads(line)
        for line in console(
            "detect", "a.txt", "a.txt", "sub/b.txt", "--lines", "--json", "--plan", "rmft"
        )[1].splitlines()
    ]
    assert [(row["file"], row["line"]) for row in rows] == [
        ("a.txt", line) for line in (2, 2, 3, 4, 5)
    ]
    # c.bin has no text
    assert console("detect", "sub")[1] == "nothing of plan redact was found in 1 file\n"
    rows = [
        json.loads(line)
        for line in console("detect", "a.txt", "sub/b.txt", "--json", "--reveal")[1].splitlines()
    ]
    assert rows[0] | {"score": 1} == {
        "file": "a.txt",
        "text_index": 0,
        "kind": MAIL,
        "start": 4,
        "end": 23,
        "value": ANN,
        "score": 1,
    }
