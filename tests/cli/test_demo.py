"""`sanitize demo` prints what its run did, prints the same the second time, and overwrites no files
of the user."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sanitize.cli.demo import run_demo
from sanitize.errors import UsageError
from sanitize.pipeline.run_results import RunResult
from sanitize.verification.published.output_check import verify


@pytest.fixture(scope="module")
def demo_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunResult, str]:
    folder, lines = tmp_path_factory.mktemp("demo") / "demo", []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder.parent)  # as `make demo`, by a relative path
        summary = run_demo(Path("demo"), 300, lines.append)
    return folder, summary, "\n".join(lines)


def test_the_demo_is_a_complete_run(demo_run: tuple[Path, RunResult, str]) -> None:
    folder, summary, _ = demo_run
    assert summary.changed and summary.leaks == 0 and summary.publishable
    assert summary.documents_in == summary.documents_out == 300
    assert summary.key == "seed"
    assert (folder / "clean" / "report.html").is_file() and list(
        (folder / "clean" / "data").glob("*.parquet")
    )
    assert (folder / "mails.mbox").is_file()
    assert verify(folder / "clean", work=folder / "clean.private").leaks == 0


def test_the_shown_address_occurs_in_the_shards(demo_run: tuple[Path, RunResult, str]) -> None:
    folder, _, text = demo_run
    address = re.search(r"ONE ADDRESS, (\S+)", text)
    assert address
    rows = re.findall(r"^  ([\d,]+) +(\S+) +(\S+@\S+)  +(all|its)", text, re.MULTILINE)
    assert len(rows) == 6 and [row[3] for row in rows] == ["all"] + ["its"] * 5
    assert rows[0][2] == address[1] and address[1] not in [row[2] for row in rows[1:]]
    texts = pq.read_table(folder / "clean" / "data").column("text").to_pylist()
    for mail, _, value, _ in rows:
        assert value in texts[int(mail.replace(",", "")) - 1]


def test_three_pairs_differ_in_their_value_only(demo_run: tuple[Path, RunResult, str]) -> None:
    pairs = re.findall(r"^  - (.*)\n  \+ (.*)$", demo_run[2], re.MULTILINE)
    assert len(pairs) == 3
    after = "\n".join(pq.read_table(demo_run[0] / "clean" / "data").column("text").to_pylist())
    for old, new in pairs:
        assert old != new and new in after and old[:4] == new[:4]


def test_frequent_values_are_masked(demo_run: tuple[Path, RunResult, str]) -> None:
    top = demo_run[2].partition("THE FIVE MOST FREQUENT")[2].partition("WHAT BECAME")[0]
    assert "--reveal" in top and len(re.findall(r"^  [1-5] ", top, re.MULTILINE)) == 5
    assert not re.search(r"[a-z0-9]{3,}\.(example|org|net)\b", top)


def test_a_repeated_demo_changes_nothing_and_prints_the_same(
    demo_run: tuple[Path, RunResult, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _, text = demo_run
    monkeypatch.chdir(folder.parent)
    lines: list[str] = []
    assert run_demo(Path("demo"), 300, lines.append).changed is False
    heading = r"WHAT WAS FOUND \(.*\)"
    assert re.sub(heading, "", "\n".join(lines)) == re.sub(heading, "", text)


@pytest.mark.slow
def test_another_size_replaces_the_demo(tmp_path: Path) -> None:
    assert run_demo(tmp_path / "demo", 10, lambda _: None).documents_in == 10
    assert run_demo(tmp_path / "demo", 20, lambda _: None).documents_in == 20


def test_files_of_the_user_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mails.mbox").write_text("mine")
    with pytest.raises(UsageError, match="use another --dir"):
        run_demo(tmp_path, 10, lambda _: None)
    with pytest.raises(UsageError, match="use another --dir"):
        run_demo(tmp_path / "mails.mbox", 10, lambda _: None)
    assert (tmp_path / "mails.mbox").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["mails.mbox"]
