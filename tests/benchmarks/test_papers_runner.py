"""A script of a paper runs again when what decides its output has changed, or has not passed."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import papers_runner

COUNTING = "import pathlib, sys; pathlib.Path(sys.argv[0] + '.runs').open('a').write('x')\n"


@pytest.fixture()
def root(tmp_path: Path) -> Path:
    for path, text in {
        "benchmarks/papers/one.py": COUNTING + "print('one of one')\n",
        "benchmarks/papers/two.py": COUNTING + "sys.exit('two has failed')\n",
        "benchmarks/results/one.json": "{}",
        "sanitize/part.py": "",
        "sql/query.sql": "SELECT 1",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def count_runs(root: Path) -> list[int]:
    # the scripts' own records are not code: they would be a change
    paths = [root / "benchmarks" / "papers" / f"{name}.py.runs" for name in ("one", "two")]
    return [len(path.read_text()) for path in paths]


def test_an_unchanged_script_that_passed_is_not_run_again(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert papers_runner.main(root) == papers_runner.main(root) == 1
    assert count_runs(root) == [1, 2]
    out = capsys.readouterr().out
    assert out.count("one of one") == 2 and out.count("unchanged since") == 1
    assert out.count("two has failed") == 2


@pytest.mark.parametrize(
    ("path", "runs"),
    [
        ("sanitize/part.py", 2),
        ("sql/query.sql", 2),
        ("benchmarks/papers/one.py", 2),
        ("benchmarks/papers/two.py", 1),
        ("benchmarks/results/one.json", 1),
        ("sanitize/part.cpython-311.so", 1),
    ],
)
def test_a_change_of_code_runs_a_script_again(root: Path, path: str, runs: int) -> None:
    papers_runner.main(root)
    with (root / path).open("a") as file:
        file.write("\n")
    papers_runner.main(root)
    assert count_runs(root)[0] == runs


def test_another_library_runs_a_script_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    papers_runner.main(root)
    monkeypatch.setattr(papers_runner.importlib.metadata, "distributions", list)
    papers_runner.main(root)
    assert count_runs(root)[0] == 2
