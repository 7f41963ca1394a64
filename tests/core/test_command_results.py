"""Summary tables of results in a notebook and at a prompt are small, escaped, well-formed, and
contain no value."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import re
import xml.etree.ElementTree as Xml
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sanitize
from sanitize.cli.doctor import DoctorResult, EnvironmentCheck
from sanitize.core.command_results import CommandResult
from sanitize.core.table_rendering import SummaryTable, escape_controls
from sanitize.inspection.preview import explain_with_settings
from sanitize.pipeline.run import index_with_settings, run_with_settings
from sanitize.pipeline.run_results import RunResult
from sanitize.plans.plan import Plan, load_plan
from sanitize.plans.settings import Settings

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "\u202egnp.exe",
    "a\nb\x1b[31m",
    "&amp;<b>",
]
CANARIES = [f"canary{number:04d}.quill@example.com" for number in range(9)]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results of all functions of the public API; all texts, ids and users are canaries, the
    folder and columns have odd names."""
    folder = tmp_path_factory.mktemp("notebook") / "<b>&'deep'"
    folder.mkdir()
    texts = [
        f"From: {address}\nTo: {CANARIES[0]}\n\nCall {address} secretword{number} or +1"
        f" 555-010-{4000 + number}."
        for number, address in enumerate(CANARIES)
    ]
    columns = {
        "text": texts,
        "doc_id": [f"canary-id-{n}" for n in range(9)],
        "user_id": [f"canary-user-{n}" for n in range(9)],
    }
    pq.write_table(pa.table(columns | {"<i>\u202e": list(range(9))}), folder / "in.parquet")
    settings = Settings(seed=1, workers=1)
    out = folder / "out"
    results: dict[str, Any] = {
        "explain": explain_with_settings([folder / "in.parquet"], load_plan("rmft"), settings),
        "run": run_with_settings(folder / "in.parquet", out, settings=settings, plan="rmft"),
    }
    work = Path(results["run"].work)
    results |= {
        "again": run_with_settings(folder / "in.parquet", out, settings=settings, plan="rmft"),
        "find": index_with_settings([folder / "in.parquet"], work, settings, plan="rmft"),
        "verify": sanitize.verify(out),
        "replay": sanitize.replay(out, folder / "in.parquet", folder / "replayed", workers=1),
        "status": sanitize.status(work),
        "report": sanitize.report(out),
        "subject": sanitize.subject(work, [CANARIES[0]], seed=1, workers=1),
        "corpus": sanitize.Corpus.open(out),
        "plan": load_plan("rmft", ['drop=[{use="exact_dup"}]']),
        "kind": sanitize.list_kinds()["URL"],
        "settings": settings,
        "top": sanitize.top(work),
        "sql": sanitize.sql(work, "SELECT * FROM documents"),
        "values": sanitize.sql(work, "SELECT * FROM value_spellings"),
    }
    return results


def test_results_show_no_value(results: dict[str, Any]) -> None:
    for name, result in results.items():
        for text in (repr(result), str(result), getattr(result, "_repr_html_", str)()):
            assert not re.search(r"canary|quill|secretword|555-010", text), name
            assert len(text) < 20_000, name
    # with reveal, the canaries are shown
    assert "canary" in json.dumps(sanitize.top(results["run"].work, reveal=True).to_dicts())


def test_missing_requirements_of_a_plan_are_shown(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": [f"write to {CANARIES[0]}"]}), tmp_path / "in.parquet")
    explanation = explain_with_settings(
        [tmp_path / "in.parquet"], load_plan("dp_mlm"), Settings(seed=1, workers=1)
    )
    (missing,) = explanation.missing_requirements
    assert f"missing   {missing}" in repr(explanation) and "model" in missing
    assert missing in "".join(Xml.fromstring(explanation._repr_html_()).itertext())


def test_unused_settings_of_a_plan_are_shown(tmp_path: Path) -> None:
    """A notebook shows the same as `sanitize explain` at a prompt."""
    pq.write_table(pa.table({"text": [f"write to {CANARIES[0]}"]}), tmp_path / "in.parquet")
    plan = load_plan(
        "redact",
        [
            'edit=[{use="redact",kinds=["EMAIL_ADDRESS"]},{use="rmft",kinds=["EMAIL_ADDRESS"]}]',
            'find.kinds=["EMAIL_ADDRESS"]',
        ],
    )
    explanation = explain_with_settings(
        [tmp_path / "in.parquet"], plan, Settings(seed=1, workers=1)
    )
    (note,) = explanation.notes
    assert re.search(rf"^  note +{re.escape(note)}$", repr(explanation), re.MULTILINE)
    assert note in "".join(Xml.fromstring(explanation._repr_html_()).itertext())


def test_html_is_well_formed_and_escaped(results: dict[str, Any]) -> None:
    html_results = {
        name: result
        for name, result in results.items()
        if isinstance(result, CommandResult | sanitize.Corpus | Plan)
    }
    assert len(html_results) == 11
    for name, result in html_results.items():
        element = Xml.fromstring(result._repr_html_())  # well-formed
        assert {child.tag for child in element.iter()} <= {
            "div",
            "p",
            "b",
            "table",
            "thead",
            "tbody",
            "tr",
            "th",
            "td",
        }, name
        assert {key for child in element.iter() for key in child.attrib} <= {"style"}, name
        text = "".join(element.itertext())
        assert "\u202e" not in text and "\x1b" not in text
    assert "<b>&'deep'" in "".join(Xml.fromstring(results["run"]._repr_html_()).itertext())
    assert "<i>U+202E: keep" in "".join(Xml.fromstring(results["corpus"]._repr_html_()).itertext())
    for name in ("top", "sql", "values"):  # Polars renders these
        assert isinstance(results[name], pl.DataFrame) and "<i>" not in results[name]._repr_html_()


def test_repr_of_a_run_shows_its_counts(results: dict[str, Any]) -> None:
    lines = [f"  {' '.join(line.split())}" for line in repr(results["run"]).splitlines()]
    assert lines[0].strip().startswith("sanitize run: ") and lines[0].endswith("out, plan rmft")
    assert lines[1] == "  documents 9 in = 9 out + 0 dropped + 0 in quarantine"
    assert (
        lines[2] == "  verdict no removed value is left; other values that were found stay by plan"
    )
    assert [
        line
        for line in lines
        if re.fullmatch(
            r"  check full: 0 of \d+ removed values found in 24 forms outside \d+ kept"
            r" originals; \d+ are only kept",
            line,
        )
    ]
    assert (
        any(line.startswith("  recall not measured: what the finders missed") for line in lines)
        and "  key from a seed: replacements can be guessed, no privacy claim" in lines
    )
    table = [line.split() for line in lines if line.split()[0] == "EMAIL_ADDRESS"]
    assert table == [["EMAIL_ADDRESS", "27", "9", "9", "18", "0"]]
    assert "was complete already" in repr(results["again"]) and "was complete already" not in repr(
        results["run"]
    )
    assert "EMAIL_ADDRESS  27" in re.sub(" +", "  ", repr(results["find"]))
    assert repr(results["kind"]) == "Kind(URL: a web or FTP address)"
    assert re.fullmatch(r"Corpus\(.*out: 9 documents in 1 shard\)", repr(results["corpus"]))
    plan = repr(results["plan"])
    assert (
        plan == str(results["plan"])
        and plan.startswith("Plan(rmft: find EMAIL_ADDRESS, ")
        and "drop exact_dup; edit rmft, redact" in plan
    )
    assert (
        "reveal" not in repr(results["verify"])
        and "0 of" in repr(results["verify"])
        and "same" in repr(results["replay"])
    )


def test_results_are_frozen_and_comparable(results: dict[str, Any]) -> None:
    result = results["run"]
    for copied in (copy.copy(result), copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
        assert copied == result and repr(copied) == repr(result)
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.leaks = 1


def test_results_as_json_data(results: dict[str, Any]) -> None:
    """The data is plain JSON, and gives the same result again."""
    commands = {
        name: result for name, result in results.items() if isinstance(result, CommandResult)
    }
    assert len(commands) == 9
    for name, result in commands.items():
        data = result.to_dict()
        assert json.loads(json.dumps(data)) == data, name
        assert type(result).from_dict(data) == result, name
    data = results["run"].to_dict()
    assert (
        data["by_kind"]["EMAIL_ADDRESS"]["occurrences"] == 27
        and "blacklist" not in data
        and data["leaks"] == 0
    )


def test_json_data_with_an_unknown_key_is_refused(results: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^RunResult\.more: unexpected") as refused:
        RunResult.from_dict({**results["run"].to_dict(), "more": CANARIES[0]})
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_escaped(name: str) -> None:
    table = SummaryTable(
        title=name, facts=[(name, name)], header=(name, name), rows=[(name, 1234567), (None, 2)]
    )
    element = Xml.fromstring(table.to_html())
    texts = [child.text for child in element.iter() if child.text]
    assert texts.count(escape_controls(name)) == 6 and "1,234,567" in texts
    assert "<script" not in table.to_html() and "<img" not in table.to_html()
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", table.to_text())
    plan = load_plan("rmft").model_copy(update={"name": name, "about": name})
    assert Xml.fromstring(plan._repr_html_()).tag == "div" and not re.search(
        "[\x00-\x1f\u202e]", repr(plan)
    )


def test_long_tables_are_truncated() -> None:
    table = SummaryTable(
        title="t",
        header=("kind", "n"),
        rows=[(f"KIND_{number}", number) for number in range(1_000)],
    )
    assert (
        "and 960 more" in table.to_text()
        and "and 960 more" in table.to_html()
        and len(table.to_html()) < 10_000
    )
    assert "KIND_39" in table.to_text() and "KIND_40" not in table.to_text()
    assert (
        SummaryTable(title="empty").to_text() == "empty"
        and Xml.fromstring(SummaryTable(title="empty").to_html()).tag == "div"
    )


def test_doctor_shows_its_checks() -> None:
    checks = [
        EnvironmentCheck("python", "ok", "3.12"),
        EnvironmentCheck("space", "fail", "1 MB", "make room", 7),
    ]
    doctor_result = DoctorResult(ok=False, exit_code=7, checks=checks, folder=".", seconds=1.0)
    assert (
        repr(doctor_result).splitlines()[0] == "sanitize doctor: something fails"
        and "make room" in doctor_result._repr_html_()
    )
    assert doctor_result.to_dict()["checks"][1] == {
        "name": "space",
        "status": "fail",
        "detail": "1 MB",
        "action": "make room",
    }


def test_every_result_is_shown_as_its_table() -> None:
    """Also where it is a dataclass of a base class with another `repr`, which would show fields."""
    results = [getattr(sanitize, name) for name in sanitize.__all__ if name.endswith("Result")]
    assert len(results) >= 10
    for result in results:
        assert result.__repr__ is CommandResult.__repr__, result
