"""`sanitize plan`: show, init and test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sanitize.cli import main
from sanitize.plans.plan import load_plan
from sanitize.plans.shipped_plans import plan_names


def run_plan_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object
) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.argv", ["sanitize", "plan", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main.main()
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def test_show(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run_plan_command(monkeypatch, capsys, "show", "rmft")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert code == 0 and lines[0].startswith("rmft: The plan of the RMFT paper")
    assert "person not looked for - - everything" in lines
    assert "resource MESSAGE_ID, URL left as it is - every occurrence" in lines
    assert any(
        line.startswith(
            "not looked for names of people (PERSON); account on a machine (USER_AT_HOST)"
        )
        for line in lines
    )
    assert any(
        line.startswith("looked for") and "; mail address (EMAIL_ADDRESS); " in line
        for line in lines
    )
    assert lines[-1] == "publish publishable"
    assert "not publishable" in run_plan_command(monkeypatch, capsys, "show", "baseline")[1]


def test_show_as_json_is_the_description(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run_plan_command(
        monkeypatch, capsys, "show", "names", "--set", "edit.0.keep=2", "--json"
    )
    described = json.loads(out)
    assert described == json.loads(
        json.dumps(load_plan("names", ["edit.0.keep=2"]).describe().to_dict())
    )
    assert described["categories"][0]["looked_for"][0]["stays"].startswith(
        "the first 2 occurrences"
    )


@pytest.mark.parametrize("name", plan_names())
def test_init_writes_the_plan_with_comments(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.toml"
    code, out, _ = run_plan_command(monkeypatch, capsys, "init", path, "--from", name)
    assert code == 0 and f"sanitize explain FILE --plan {path}" in out
    assert load_plan(str(path)).hash() == load_plan(name).hash()
    text = path.read_text("utf-8")
    assert (
        "# what is looked for" in text
        and "`sanitize plan show mine.toml`" in text
        and "EMP-[0-9]{6}" in text
    )
    code, _, err = run_plan_command(monkeypatch, capsys, "init", path)
    assert (code, path.read_text("utf-8")) == (2, text) and "exists already" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["shwo", "rmft"], "plan shwo: did you mean show? Known: init, show, test."),
        (["show", "rmtf"], "rmtf: neither a shipped plan nor a file"),
        (["test", "rmft", "text.txt"], "plan: got unexpected extra argument"),
        (
            ["init", "x.toml", "--from", "redakt"],
            "--from redakt: there is no such shipped plan; did you mean redact? Known: ",
        ),
        (["init", "no/folder/x.toml"], "cannot be written"),
        (["show", "rmft", "--set", 'edit.0.kinds=["contacts"]'], "there is no kind 'contacts'"),
        (["show", "rmft", "--set", 'find.kinds=["persons"]'], "there is no kind 'persons'"),
        (
            ["show", "rmft", "--set", "edit.1.kinds=[]"],
            "is found, but no editor names it or its category",
        ),
    ],
)
def test_wrong_arguments_are_one_sentence(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run_plan_command(monkeypatch, capsys, *arguments)
    assert code in (2, 3) and not out and message in err and len(err.strip().splitlines()) == 1
