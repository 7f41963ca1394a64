"""`sanitize demo` prints what its run really did, prints the same the second time, and overwrites no files of others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sanitize.cli.demo import run_demo
from sanitize.errors import UsageError
from sanitize.verification.leak_check import verify


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], str]:
    folder, said = tmp_path_factory.mktemp("demo") / "demo", []
    summary = run_demo(folder, 300, said.append)
    return folder, summary, "\n".join(said)


def test_it_is_a_real_run(told: tuple[Path, dict[str, Any], str]) -> None:
    folder, summary, _ = told
    assert summary["changed"] and summary["leaks"] == 0 and summary["publishable"]
    assert summary["documents_in"] == summary["documents_out"] == 300
    assert summary["key"] == "seed"
    assert Path(summary["report"]).is_file() and list(Path(summary["shards"]).glob("*.parquet")) and Path(summary["mails"]).is_file()
    assert verify(folder / "clean", folder / "clean.private")["leaks"] == 0


def test_one_address_is_told_as_it_stands_in_the_shards(told: tuple[Path, dict[str, Any], str]) -> None:
    _, summary, text = told
    address = re.search(r"ONE ADDRESS, (\S+)", text)
    assert address
    rows = re.findall(r"^  ([\d,]+) +(\S+) +(\S+@\S+)  +(all|its)", text, re.MULTILINE)
    assert len(rows) == 6 and [row[3] for row in rows] == ["all"] + ["its"] * 5
    assert rows[0][2] == address[1] and address[1] not in [row[2] for row in rows[1:]]
    texts = pq.read_table(summary["shards"]).column("text").to_pylist()
    for mail, _, value, _ in rows:
        assert value in texts[int(mail.replace(",", "")) - 1]


def test_three_pairs_differ_in_their_value_only(told: tuple[Path, dict[str, Any], str]) -> None:
    pairs = re.findall(r"^  - (.*)\n  \+ (.*)$", told[2], re.MULTILINE)
    assert len(pairs) == 3
    after = "\n".join(pq.read_table(told[1]["shards"]).column("text").to_pylist())
    for old, new in pairs:
        assert old != new and new in after and old[:4] == new[:4]


def test_frequent_values_are_masked(told: tuple[Path, dict[str, Any], str]) -> None:
    top = told[2].partition("THE FIVE MOST FREQUENT")[2].partition("WHAT BECAME")[0]
    assert "--reveal" in top and len(re.findall(r"^  [1-5] ", top, re.MULTILINE)) == 5
    assert not re.search(r"[a-z0-9]{3,}\.(example|org|net)\b", top)


def test_the_same_again_changes_nothing_and_tells_the_same(told: tuple[Path, dict[str, Any], str]) -> None:
    folder, _, text = told
    said: list[str] = []
    assert run_demo(folder, 300, said.append)["changed"] is False
    found = r"WHAT WAS FOUND \(.*\)"
    assert re.sub(found, "", "\n".join(said)) == re.sub(found, "", text)


def test_another_size_takes_its_place(tmp_path: Path) -> None:
    assert run_demo(tmp_path / "demo", 10, lambda _: None)["documents_in"] == 10
    assert run_demo(tmp_path / "demo", 20, lambda _: None)["documents_in"] == 20


def test_nothing_of_others_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "mails.mbox").write_text("mine")
    with pytest.raises(UsageError, match="use another --dir"):
        run_demo(tmp_path, 10, lambda _: None)
    with pytest.raises(UsageError, match="use another --dir"):
        run_demo(tmp_path / "mails.mbox", 10, lambda _: None)
    assert (tmp_path / "mails.mbox").read_text() == "mine"
    assert [place.name for place in tmp_path.iterdir()] == ["mails.mbox"]
