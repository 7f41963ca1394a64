"""Allow lists, deny lists and minimum scores of a plan: applied to the index, counted, and respected by the leak check."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from sanitize.errors import PlanError
from sanitize.kinds import ip_address
from sanitize.pipeline.run import run
from sanitize.pipeline.streaming.stream import to_stream_plan
from sanitize.plans.plan import Plan, load_plan
from sanitize.plans.settings import Settings
from sanitize.stages.selection import build_list_pattern
from sanitize.verification.leak_check import verify

TEXTS = [
    "Ann@Example.com and bob@sub.example.com, eve@example.org",
    "again ann@example.com, ceo@example.com, eve@example.org",
    "EVE@example.org (212-555-0123) ann@example.com",
]


@pytest.mark.parametrize(
    ("kind", "entries", "yes", "no"),
    [
        ("EMAIL_ADDRESS", ["*@example.com"], ["a@example.com"], ["a@sub.example.com", "a@example.com.org"]),
        ("EMAIL_ADDRESS", ["@example.com"], ["a@example.com", "a@b.example.com"], ["a@badexample.com", "a@example.org"]),
        ("EMAIL_ADDRESS", ["Ann@EXAMPLE.com"], ["ann@example.com"], ["joann@example.com", "ann@example.company"]),
        ("EMAIL_ADDRESS", ["a?b@*"], ["a.b@x.org"], ["ab@x.org"]),
        ("IP_ADDRESS", ["192.0.2.*"], ["192.0.2.7"], ["19210.2.7"]),
        ("PERSON", ["Roe, Ann"], ["ann roe"], ["ann roehm"]),
    ],
)
def test_what_an_entry_names(kind: str, entries: list[str], yes: list[str], no: list[str]) -> None:
    pattern = re.compile(build_list_pattern(kind, entries).replace(r"\z", r"\Z"))
    assert [form for form in (*yes, *no) if pattern.search(form)] == yes


@pytest.mark.parametrize(
    ("entries", "held"),
    [
        (["10.0.0.0/8"], ["10.1.2.3", "10.255.255.255"]),
        (["10.1.2.3/8"], ["10.1.2.3", "10.255.255.255"]),  # bits beyond the prefix
        (["192.0.2.7/32", "2001:db8::/32"], ["192.0.2.7", "2001:db8::1", "2001:db8:ffff::9"]),
        (["::/0"], ["2001:db8::1", "2001:db8:ffff::9", "2001:db9::1", "::ffff:10.1.2.3"]),
        ([" 11.0.0.0/8 ", "10.0.0.7"], ["11.0.0.1"]),  # an entry without a prefix is no network
        ([], []),
    ],
)
def test_which_addresses_lie_in_a_network(entries: list[str], held: list[str]) -> None:
    forms = ["10.1.2.3", "10.255.255.255", "11.0.0.1", "192.0.2.7", "2001:db8::1", "2001:db8:ffff::9", "2001:db9::1", "::ffff:10.1.2.3"]
    column = pl.Series(forms)
    assert column.filter(ip_address.is_in_networks(column, ip_address.parse_networks(entries))).to_list() == held


def test_a_network_is_allowed_but_for_what_is_denied(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(json.dumps({"text": "10.1.2.30 and 10.1.2.40 and 93.184.216.34 and 2001:db8::7"}) + "\n")
    rules = plan(allow={"IP_ADDRESS": ["10.0.0.0/8", "2001:db8::/32"]}, deny={"IP_ADDRESS": ["10.1.2.40/32"]})
    summary = run(tmp_path / "in.jsonl", tmp_path / "out", rules, settings=Settings(seed=1, workers=1))
    (made,) = texts(tmp_path / "out")
    assert summary["by_kind"]["IP_ADDRESS"]["skipped"] == {"allowed": 2} and summary["leaks"] == 0
    assert made.startswith("10.1.2.30 and ") and made.endswith(" and 2001:db8::7")
    assert "10.1.2.40" not in made and "93.184.216.34" not in made


@pytest.mark.parametrize("entry", ["10.0.0.0/33", "10.0.0/8", "ten/8", "2001:db8::/129"])
def test_a_network_that_is_none_is_refused(entry: str) -> None:
    expected = r"find.allow.IP_ADDRESS: an entry with `/` is not a network; expected a network such as 10.0.0.0/8"
    with pytest.raises(PlanError, match=expected) as refused:
        plan(allow={"IP_ADDRESS": [entry]})
    assert entry not in str(refused.value)


def plan(**rules: Any) -> Plan:
    said = [f"find.{what}={{{', '.join(f'{kind} = {json.dumps(value)}' for kind, value in by.items())}}}" for what, by in rules.items()]
    return load_plan("rmft", ["edit.0.keep=0", "edit.0.anchors=[]", *said])


def corpus(folder: Path) -> Path:
    (folder / "in.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    return folder / "in.jsonl"


def texts(out: Path) -> list[str]:
    return [row["text"] for path in sorted((out / "data").iterdir()) for row in pq.read_table(path).to_pylist()]


@pytest.mark.parametrize("mode", ["fast", "full"])
def test_what_is_allowed_stays_and_is_counted(tmp_path: Path, mode: str) -> None:
    told = Settings(seed=1, workers=1, rows_per_shard=2, verify=mode)
    allowing = plan(allow={"EMAIL_ADDRESS": ["@example.com"]}, deny={"EMAIL_ADDRESS": ["CEO@*"]})
    summary = run(corpus(tmp_path), tmp_path / "out", allowing, settings=told)
    told_of = summary["by_kind"]["EMAIL_ADDRESS"]
    assert (summary["leaks"], told_of["occurrences"], told_of["values"], told_of["skipped"]) == (0, 4, 2, {"allowed": 4})
    made = texts(tmp_path / "out")
    assert all("ann@example.com" in text.lower() for text in made)
    assert made[0].startswith("Ann@Example.com and bob@sub.example.com, ")
    assert not any(word in text.lower() for text in made for word in ("eve@example.org", "ceo@example.com", "555-0123"))
    assert verify(tmp_path / "out", mode=mode)["leaks"] == 0


def test_a_changed_list_reads_no_text_again(tmp_path: Path) -> None:
    told = Settings(seed=1, workers=1)
    source = corpus(tmp_path)
    run(source, tmp_path / "plain", plan(), tmp_path / "work", told)
    files = sorted((tmp_path / "work" / "tables").rglob("*.parquet"))
    before = [path.stat().st_ino for path in files]
    summary = run(source, tmp_path / "out", plan(allow={"EMAIL_ADDRESS": ["eve@example.org"]}), tmp_path / "work", told)
    assert [path.stat().st_ino for path in files] == before
    assert summary["notes"] == [] and [text.lower().count("eve@example.org") for text in texts(tmp_path / "out")] == [1, 1, 1]
    assert "eve@" not in "".join(texts(tmp_path / "plain")).lower()


def test_the_first_of_what_is_taken_is_kept(tmp_path: Path) -> None:
    keeping = load_plan("rmft", ['find.allow={EMAIL_ADDRESS = ["ann@example.com"]}'])
    summary = run(corpus(tmp_path), tmp_path / "out", keeping, settings=Settings(seed=1, workers=1))
    assert summary["kept_originals"] == 4 and summary["leaks"] == 0  # bob, eve, ceo and the number
    made = "\n".join(texts(tmp_path / "out")).lower()
    assert [made.count(f"{who}@") >= times for who, times in (("ann", 3), ("bob", 1), ("eve", 1), ("ceo", 1))] == [True] * 4


def test_a_least_score(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(json.dumps({"text": "Petra went out. From Hans Fischer to Mr. Blorb"}) + "\n")
    told = Settings(seed=1, workers=1)
    found = run(tmp_path / "in.jsonl", tmp_path / "all", load_plan("names", ["edit.0.keep=0"]), settings=told)["by_kind"]["PERSON"]
    assert (found["occurrences"], found["skipped"]) == (3, {})
    sure = load_plan("names", ["edit.0.keep=0", "find.min_score={PERSON = 0.75}", 'find.deny={PERSON = ["blorb"]}'])
    summary = run(tmp_path / "in.jsonl", tmp_path / "sure", sure, settings=told)
    assert (summary["by_kind"]["PERSON"]["occurrences"], summary["by_kind"]["PERSON"]["skipped"]) == (2, {"score": 1})
    assert texts(tmp_path / "sure")[0].startswith("Petra went out. From ") and "Hans" not in texts(tmp_path / "sure")[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ('find.allow={EMAIL_ADRESS = ["x"]}', "find.allow: there is no kind 'EMAIL_ADRESS'.*Did you mean EMAIL_ADDRESS"),
        ('find.deny={PERSON = ["x"]}', "find.deny names PERSON, which is not in find.kinds"),
        ("find.allow={EMAIL_ADDRESS = []}", "find.allow.EMAIL_ADDRESS is empty, or lists an empty value"),
        ("find.min_score={EMAIL_ADDRESS = 2}", "find.min_score.EMAIL_ADDRESS: expected 1.0 or less"),
        ("find.alow={}", "unknown key.*allow"),
    ],
)
def test_what_is_wrong_is_refused(change: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        load_plan("rmft", [change])


def test_a_stream_has_no_index_to_choose_from() -> None:
    to_stream_plan(plan())
    with pytest.raises(PlanError, match="find.allow, find.deny and find.min_score select from an index"):
        to_stream_plan(plan(deny={"EMAIL_ADDRESS": ["ceo@example.com"]}))
