"""Earlier names of shipped plans: understood for one release wherever a plan is given, with one
note, and in what an earlier release wrote, without one."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sanitize
from sanitize.plans.plan import Plan, load_plan
from sanitize.plans.shipped_plans import EARLIER_NAMES, RenamedPlanWarning, plan_names
from tests.support import write_json_lines

OLD, NEW = "erase", "surrogates"
ANN, BOB = "ann.lee@example.com", "bob.roe@example.org"
NOTE = "the plan erase is called surrogates now; use the new name"


@pytest.fixture()
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_json_lines(tmp_path / "a.jsonl", [{"text": f"Write to {ANN}."}])
    write_json_lines(tmp_path / "b.jsonl", [{"text": f"Write to {BOB}."}])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read_published_plan(out: str) -> str:
    return str(sanitize.Corpus.open(out).manifest["plan"]["name"])


def test_earlier_names_mean_shipped_plans_and_are_listed_nowhere(console: Any) -> None:
    assert EARLIER_NAMES == {OLD: NEW}
    assert set(EARLIER_NAMES.values()) <= set(plan_names())
    assert not set(EARLIER_NAMES) & set(plan_names())
    listed = []
    for part in ("plans", "papers"):
        code, out, _ = console("list", part, "--json")
        assert code == 0
        listed += [row["name"] for row in json.loads(out)]
    assert sorted(listed) == plan_names()
    with pytest.raises(sanitize.PlanError) as refused:
        load_plan("no such plan")
    assert OLD not in str(refused.value).split()


PYTHON_CALLS: dict[str, Callable[[str], object]] = {
    "load_plan": load_plan,
    "Plan.load": Plan.load,
    "Plan.load with changes": lambda plan: Plan.load(plan, ["edit.0.stores=corpus"]),
    "redact": lambda plan: sanitize.redact([f"Write to {ANN}."], plan=plan, seed=1),
    "redact_batch": lambda plan: sanitize.redact_batch({"text": [ANN]}, plan=plan, seed=1),
    "detect": lambda plan: sanitize.detect([f"Write to {ANN}."], plan=plan).to_dicts(),
    "stream": lambda plan: list(sanitize.stream([{"text": ANN}], plan=plan, seed=1)),
    "index": lambda plan: (
        sanitize.index("a.jsonl", f"{plan}.private", plan=plan, workers=1).by_kind
    ),
    "run": lambda plan: (
        sanitize.run("a.jsonl", f"{plan}.out", plan=plan, seed=1, workers=1).run_hash
    ),
}


@pytest.mark.parametrize("name", PYTHON_CALLS)
def test_a_function_takes_the_earlier_name_with_one_warning(name: str, folder: Path) -> None:
    with pytest.warns(RenamedPlanWarning, match=NOTE) as caught:
        found = PYTHON_CALLS[name](OLD)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = PYTHON_CALLS[name](NEW)
    assert repr(found) == repr(expected)


# a command, the variable or the line of sanitize.toml that names the plan, and what it prints
COMMANDS: list[tuple[tuple[str, ...], str, str, str]] = [
    (("run", "a.jsonl", "-o", "out", "--plan", OLD), "", "", f"plan            {NEW}\n"),
    (("run", "a.jsonl", "-o", "out"), OLD, "", f"plan            {NEW}\n"),
    (("run", "a.jsonl", "-o", "out"), "", OLD, f"plan            {NEW}\n"),
    (("run", "a.jsonl", "-o", "out", "--plan", OLD, "--json"), "", "", f'"plan_name": "{NEW}"'),
    (("stream", "a.jsonl", "-o", "o.jsonl", "--plan", OLD), "", "", ""),
    (("index", "a.jsonl", "--work", "w", "--plan", OLD), "", "", ""),
    (("explain", "a.jsonl", "--plan", OLD), "", "", f"{NEW}: "),
    (("detect", "a.jsonl", "--plan", OLD), "", "", "EMAIL_ADDRESS"),
    (("plan", "show", OLD), "", "", f"{NEW}: "),
    (("plan", "test", OLD), "", "", f"plan {NEW} has no custom kinds"),
    (("plan", "init", "own.toml", "--from", OLD), "", "", f"a copy of plan {NEW}"),
]


@pytest.mark.parametrize(("command", "variable", "in_file", "printed"), COMMANDS)
def test_a_command_takes_the_earlier_name_with_one_note(
    command: tuple[str, ...],
    variable: str,
    in_file: str,
    printed: str,
    folder: Path,
    console: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SANITIZE_PLAN", variable)
    if in_file:
        (folder / "sanitize.toml").write_text(f'plan = "{in_file}"\n')
    code, out, err = console(*command)
    assert code == 0, err
    assert printed in out and NOTE not in out
    assert err.count(f"note: {NOTE}") == 1 == err.count(NOTE)
    if command[0] == "run":
        assert read_published_plan("out") == NEW


@pytest.mark.parametrize("plan", [OLD, NEW, None])
@pytest.mark.parametrize("option", ["--append", "--replace"])
def test_an_output_of_the_earlier_name_is_continued(
    plan: str | None, option: str, folder: Path, console: Any
) -> None:
    first = ("run", "a.jsonl", "-o", "out", "--seed", "1", "--plan", NEW)
    assert console(*first)[0] == 0
    for path in (folder / "out" / "manifest.json", *(folder / "out.private").rglob("*.json")):
        rename_saved_plan(path)
    assert read_published_plan("out") == OLD
    shards = [path.read_bytes() for path in sorted((folder / "out" / "data").iterdir())]
    inputs = ("a.jsonl", "b.jsonl") if option == "--append" else ("b.jsonl",)
    given = ("--plan", plan) if plan else ()
    code, _, err = console("run", "a.jsonl", "b.jsonl", "-o", "out", "--seed", "1", *given)
    assert code == 2 and "use --append to add the new files" in err
    code, out, err = console("run", *inputs, "-o", "out", "--seed", "1", *given, option)
    assert code == 0, err
    assert f"plan            {NEW}" in out and read_published_plan("out") == NEW
    assert (NOTE in err) == (plan == OLD)
    if option == "--append":
        after = [path.read_bytes() for path in sorted((folder / "out" / "data").iterdir())]
        assert after[0] == shards[0] and len(after) == 2


def rename_saved_plan(path: Path) -> None:
    """Writes what an earlier release wrote: the plan under its earlier name and `about`."""
    saved = json.loads(path.read_text())
    for settings in (saved, saved.get("plan") if isinstance(saved, dict) else None):
        if isinstance(settings, dict) and settings.get("name") == NEW:
            settings |= {"name": OLD, "about": "As an earlier release said it."}
    path.write_text(json.dumps(saved))


@pytest.mark.parametrize("plan", [OLD, NEW, None])
def test_a_stream_of_the_earlier_name_is_continued(
    plan: str | None, folder: Path, console: Any
) -> None:
    command = ("stream", "a.jsonl", "-o", "o.jsonl", "--state", "s", "--seed", "1")
    assert console(*command, "--plan", NEW)[0] == 0
    rename_saved_plan(folder / "s" / "state.json")
    write_json_lines(folder / "a.jsonl", [{"text": f"Write to {one}."} for one in (ANN, BOB)])
    code, _, err = console(*command, *(("--plan", plan) if plan else ()))
    assert code == 0, err
    assert (NOTE in err) == (plan == OLD)
    lines = (folder / "o.jsonl").read_text().splitlines()
    assert len(lines) == 2 and not any(one in line for one in (ANN, BOB) for line in lines)
    assert json.loads((folder / "s" / "state.json").read_text())["plan"]["name"] == NEW


def test_a_plan_of_ones_own_keeps_the_name_of_its_file(folder: Path, console: Any) -> None:
    own = folder / f"{OLD}.toml"
    own.write_text(
        '[find]\nkinds = ["EMAIL_ADDRESS"]\n[[edit]]\nuse = "redact"\nkinds = ["EMAIL_ADDRESS"]\n'
    )
    run = ("-o", "out", "--seed", "1")
    assert console("run", "a.jsonl", *run, "--plan", own.name)[0] == 0
    code, out, err = console("run", "a.jsonl", "b.jsonl", *run, "--append")
    assert code == 0 and NOTE not in err, err
    assert read_published_plan("out") == OLD and f"plan            {OLD}\n" in out
