"""Allow lists, deny lists and minimum scores of a plan: applied to the index, counted, and
respected by the leak check."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from sanitize.errors import OutputBroken, PlanError
from sanitize.kinds import ip_address
from sanitize.pipeline.occurrence_selection import build_list_pattern
from sanitize.pipeline.run import run_with_settings
from sanitize.pipeline.streaming.stream import to_stream_plan
from sanitize.plans.plan import Plan, load_plan
from sanitize.plans.settings import Settings
from sanitize.verification.published.output_check import verify
from tests.support import read_texts

TEXTS = [
    "Ann@Example.com and bob@sub.example.com, eve@example.org",
    "again ann@example.com, ceo@example.com, eve@example.org",
    "EVE@example.org (212-555-0123) ann@example.com",
]


@pytest.mark.parametrize(
    ("kind", "entries", "matching", "other_forms"),
    [
        (
            "EMAIL_ADDRESS",
            ["*@example.com"],
            ["a@example.com"],
            ["a@sub.example.com", "a@example.com.org"],
        ),
        (
            "EMAIL_ADDRESS",
            ["@example.com"],
            ["a@example.com", "a@b.example.com"],
            ["a@badexample.com", "a@example.org"],
        ),
        (
            "EMAIL_ADDRESS",
            ["Ann@EXAMPLE.com"],
            ["ann@example.com"],
            ["joann@example.com", "ann@example.company"],
        ),
        ("EMAIL_ADDRESS", ["a?b@*"], ["a.b@x.org"], ["ab@x.org"]),
        ("IP_ADDRESS", ["192.0.2.*"], ["192.0.2.7"], ["19210.2.7"]),
        ("PERSON", ["Roe, Ann"], ["ann roe"], ["ann roehm"]),
    ],
)
def test_list_entries_match_values(
    kind: str, entries: list[str], matching: list[str], other_forms: list[str]
) -> None:
    pattern = re.compile(build_list_pattern(kind, entries).replace(r"\z", r"\Z"))
    assert [form for form in (*matching, *other_forms) if pattern.search(form)] == matching


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (["10.0.0.0/8"], ["10.1.2.3", "10.255.255.255"]),
        (["10.1.2.3/8"], ["10.1.2.3", "10.255.255.255"]),  # bits beyond the prefix
        (["192.0.2.7/32", "2001:db8::/32"], ["192.0.2.7", "2001:db8::1", "2001:db8:ffff::9"]),
        (["::/0"], ["2001:db8::1", "2001:db8:ffff::9", "2001:db9::1", "::ffff:10.1.2.3"]),
        ([" 11.0.0.0/8 ", "10.0.0.7"], ["11.0.0.1"]),  # an entry without a prefix is no network
        ([], []),
    ],
)
def test_addresses_in_networks(entries: list[str], expected: list[str]) -> None:
    forms = [
        "10.1.2.3",
        "10.255.255.255",
        "11.0.0.1",
        "192.0.2.7",
        "2001:db8::1",
        "2001:db8:ffff::9",
        "2001:db9::1",
        "::ffff:10.1.2.3",
    ]
    column = pl.Series(forms)
    assert (
        column.filter(
            ip_address.is_in_networks(column, ip_address.parse_networks(entries))
        ).to_list()
        == expected
    )


def test_denied_addresses_in_an_allowed_network_are_removed(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(
        json.dumps({"text": "10.1.2.30 and 10.1.2.40 and 93.184.216.34 and 2001:db8::7"}) + "\n"
    )
    rules = make_plan(
        allow={"IP_ADDRESS": ["10.0.0.0/8", "2001:db8::/32"]}, deny={"IP_ADDRESS": ["10.1.2.40/32"]}
    )
    summary = run_with_settings(
        tmp_path / "in.jsonl", tmp_path / "out", rules, settings=Settings(seed=1, workers=1)
    )
    (output_text,) = read_texts(tmp_path / "out")
    assert summary.by_kind["IP_ADDRESS"].skipped == {"allowed": 2} and summary.leaks == 0
    assert output_text.startswith("10.1.2.30 and ") and output_text.endswith(" and 2001:db8::7")
    assert "10.1.2.40" not in output_text and "93.184.216.34" not in output_text


@pytest.mark.parametrize("entry", ["10.0.0.0/33", "10.0.0/8", "ten/8", "2001:db8::/129"])
def test_an_invalid_network_is_refused(entry: str) -> None:
    expected = (
        r"find.allow.IP_ADDRESS: an entry with `/` is not a network; expected a network such as"
        r" 10.0.0.0/8"
    )
    with pytest.raises(PlanError, match=expected) as refused:
        make_plan(allow={"IP_ADDRESS": [entry]})
    assert entry not in str(refused.value)


def make_plan(**rules: Any) -> Plan:
    changes = [
        f"find.{setting}={{{', '.join(f'{kind} = {json.dumps(value)}' for kind, value in entries_by_kind.items())}}}"  # noqa: E501
        for setting, entries_by_kind in rules.items()
    ]
    return load_plan("rmft", ["edit.0.keep=0", "edit.0.anchors=[]", *changes])


def write_corpus(folder: Path) -> Path:
    (folder / "in.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    return folder / "in.jsonl"


@pytest.mark.parametrize("mode", ["fast", "full"])
def test_allowed_values_stay_and_are_counted(tmp_path: Path, mode: str) -> None:
    settings = Settings(seed=1, workers=1, rows_per_shard=2, verify=mode)
    allowing_plan = make_plan(
        allow={"EMAIL_ADDRESS": ["@example.com"]}, deny={"EMAIL_ADDRESS": ["CEO@*"]}
    )
    summary = run_with_settings(
        write_corpus(tmp_path), tmp_path / "out", allowing_plan, settings=settings
    )
    kind_summary = summary.by_kind["EMAIL_ADDRESS"]
    assert (summary.leaks, kind_summary.occurrences, kind_summary.values, kind_summary.skipped) == (
        0,
        4,
        2,
        {"allowed": 4},
    )
    output_texts = read_texts(tmp_path / "out")
    assert all("ann@example.com" in text.lower() for text in output_texts)
    assert output_texts[0].startswith("Ann@Example.com and bob@sub.example.com, ")
    assert not any(
        word in text.lower()
        for text in output_texts
        for word in ("eve@example.org", "ceo@example.com", "555-0123")
    )
    assert verify(tmp_path / "out", mode=mode).leaks == 0
    # who says that a value was never selected hides it from the check
    (selected_file,) = tmp_path.glob("out.private/runs/*/selected/value_ids/00000.parquet")
    table = pq.read_table(selected_file)
    pq.write_table(table.slice(0, table.num_rows - 1), selected_file)
    with pytest.raises(
        OutputBroken,
        match=r"selected/value_ids/00000\.parquet is not the file that the run wrote",
    ):
        verify(tmp_path / "out", mode=mode)


@pytest.mark.slow
def test_a_changed_list_does_not_rebuild_the_index(tmp_path: Path) -> None:
    settings = Settings(seed=1, workers=1)
    source = write_corpus(tmp_path)
    run_with_settings(source, tmp_path / "plain", make_plan(), tmp_path / "work", settings)
    files = sorted((tmp_path / "work" / "tables").rglob("*.parquet"))
    inodes_before = [path.stat().st_ino for path in files]
    summary = run_with_settings(
        source,
        tmp_path / "out",
        make_plan(allow={"EMAIL_ADDRESS": ["eve@example.org"]}),
        tmp_path / "work",
        settings,
    )
    assert [path.stat().st_ino for path in files] == inodes_before
    assert summary.notes == [] and [
        text.lower().count("eve@example.org") for text in read_texts(tmp_path / "out")
    ] == [1, 1, 1]
    assert "eve@" not in "".join(read_texts(tmp_path / "plain")).lower()


def test_first_occurrences_of_selected_values_are_kept(tmp_path: Path) -> None:
    keeping_plan = load_plan("rmft", ['find.allow={EMAIL_ADDRESS = ["ann@example.com"]}'])
    summary = run_with_settings(
        write_corpus(tmp_path), tmp_path / "out", keeping_plan, settings=Settings(seed=1, workers=1)
    )
    assert summary.kept_originals == 4 and summary.leaks == 0  # bob, eve, ceo and the number
    output_text = "\n".join(read_texts(tmp_path / "out")).lower()
    assert [
        output_text.count(f"{name}@") >= minimum
        for name, minimum in (("ann", 3), ("bob", 1), ("eve", 1), ("ceo", 1))
    ] == [True] * 4


@pytest.mark.slow
def test_minimum_score_skips_occurrences(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(
        json.dumps({"text": "Petra went out. From Hans Fischer to Mr. Blorb"}) + "\n"
    )
    settings = Settings(seed=1, workers=1)
    unfiltered = run_with_settings(
        tmp_path / "in.jsonl",
        tmp_path / "all",
        load_plan("names", ["edit.0.keep=0"]),
        settings=settings,
    ).by_kind["PERSON"]
    assert (unfiltered.occurrences, unfiltered.skipped) == (3, {})
    filtering_plan = load_plan(
        "names",
        ["edit.0.keep=0", "find.min_score={PERSON = 0.75}", 'find.deny={PERSON = ["blorb"]}'],
    )
    summary = run_with_settings(
        tmp_path / "in.jsonl", tmp_path / "sure", filtering_plan, settings=settings
    )
    assert (summary.by_kind["PERSON"].occurrences, summary.by_kind["PERSON"].skipped) == (
        2,
        {"score": 1},
    )
    assert (
        read_texts(tmp_path / "sure")[0].startswith("Petra went out. From ")
        and "Hans" not in read_texts(tmp_path / "sure")[0]
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            'find.allow={EMAIL_ADRESS = ["x"]}',
            "find.allow: a key is not the name of a kind; .*did you mean EMAIL_ADDRESS",
        ),
        ('find.deny={PERSON = ["x"]}', "find.deny names PERSON, which is not in find.kinds"),
        (
            "find.allow={EMAIL_ADDRESS = []}",
            "find.allow.EMAIL_ADDRESS is empty, or lists an empty value",
        ),
        (
            "find.min_score={EMAIL_ADDRESS = 2}",
            "find.min_score.EMAIL_ADDRESS: expected 1.0 or less",
        ),
        ("find.alow={}", "unknown key.*allow"),
    ],
)
def test_invalid_lists_and_scores_are_refused(change: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        load_plan("rmft", [change])


def test_a_stream_refuses_lists_and_scores() -> None:
    to_stream_plan(make_plan())
    with pytest.raises(
        PlanError, match="find.allow, find.deny and find.min_score select from an index"
    ):
        to_stream_plan(make_plan(deny={"EMAIL_ADDRESS": ["ceo@example.com"]}))
