"""The plan of a command that names none: `redact`, or that of the output or stream that it
continues."""

from __future__ import annotations

import inspect
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import sanitize
from sanitize.errors import OutputBroken, UsageError
from sanitize.plans.default_plan import choose_run_plan
from sanitize.plans.plan import Plan, load_plan
from tests.support import write_json_lines

ANN, BOB = "ann.lee@example.com", "bob.roe@example.org"
TEXT = f"Write to {ANN}, or {ANN}, or {ANN}."
RMFT_KEEPING_TWO = ("--plan", "rmft", "--set", "edit.0.keep=2")


@pytest.fixture()
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_json_lines(tmp_path / "a.jsonl", [{"text": TEXT}])
    write_json_lines(tmp_path / "b.jsonl", [{"text": TEXT.replace(ANN, BOB)}])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def count_kept(out: str, address: str = ANN) -> int:
    texts = sanitize.Corpus.open(out).table(["text"]).column("text").to_pylist()
    return sum(text.count(address) for text in texts)


def test_every_function_and_command_has_the_safe_default() -> None:
    assert load_plan().name == "redact"
    defaults = {}
    for name in sanitize.__all__:
        function = getattr(sanitize, name)
        if callable(function) and not inspect.isclass(function):
            parameter = inspect.signature(function).parameters.get("plan")
            if parameter is not None:
                defaults[name] = parameter.default
    assert defaults.pop("run") is None and defaults.pop("stream") is None
    assert defaults.pop("diff") is None  # a published output has its plan
    assert len(defaults) > 3 and set(defaults.values()) <= {"redact", inspect.Parameter.empty}
    action = (Path(__file__).parents[2] / "action.yml").read_text()
    assert "default: redact" in action and "rmft" not in action


def test_a_run_without_a_plan_redacts(folder: Path) -> None:
    result = sanitize.run("a.jsonl", "out", workers=1)
    assert result.plan_name == "redact" and count_kept("out") == 0


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        (("a.jsonl", "-o", "out"), 2),  # nothing to do
        (("a.jsonl", "b.jsonl", "-o", "out", "--append"), 2),
        (("b.jsonl", "-o", "out", "--replace"), 2),
        (("b.jsonl", "-o", "out", "--replace", "--set", "edit.0.keep=1"), 1),
        (("b.jsonl", "-o", "out", "--replace", "--plan", "redact"), 0),
        (("b.jsonl", "-o", "other"), 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_run_continues_with_the_plan_of_its_output(
    command: tuple[str, ...], kept: int, folder: Path, console: Any
) -> None:
    assert console("run", "a.jsonl", "-o", "out", "-q", "--seed", "1", *RMFT_KEEPING_TWO)[0] == 0
    code, out, err = console("run", *command, "--seed", "1", "--workers", "1")
    assert code == 0, err
    shown = {0: "redact", 1: "rmft", 2: "rmft, with changes"}[kept]
    assert f"plan            {shown}\n" in out or "nothing to do" in out
    target = command[command.index("-o") + 1]
    last_address = BOB if "b.jsonl" in command else ANN
    assert count_kept(target, last_address) == kept


@pytest.mark.parametrize("plan", ["rmft", "own"])
def test_an_output_without_its_private_folder(plan: str, folder: Path) -> None:
    chosen = load_plan("rmft") if plan == "rmft" else load_plan("rmft").with_(keep=2)
    sanitize.run("a.jsonl", "out", plan=chosen, workers=1)
    shutil.rmtree("out.private")
    if plan == "rmft":
        assert sanitize.run("a.jsonl", "out", replace=True, workers=1).plan_name == "rmft"
        return
    with pytest.raises(UsageError, match="was written with a plan that is neither a shipped one"):
        sanitize.run("a.jsonl", "out", replace=True, workers=1)
    assert count_kept("out") == 2


def test_the_run_hash_of_a_manifest_is_no_path(folder: Path) -> None:
    """A manifest may come from anywhere; its plan must not be read from beside it."""
    sanitize.run("a.jsonl", "out", plan="redact", workers=1)
    keep_all = load_plan("rmft").with_(keep=9).resolved_settings()
    for run_hash in ("../../out/evil", str(folder / "out" / "evil"), "evil", 7, None):
        (folder / "out" / "evil").mkdir(exist_ok=True)
        (folder / "out" / "evil" / "plan.json").write_text(json.dumps(keep_all))
        (folder / "out.private" / "runs" / "evil").mkdir(exist_ok=True)
        (folder / "out.private" / "runs" / "evil" / "plan.json").write_text(json.dumps(keep_all))
        path = folder / "out" / "manifest.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "run_hash": run_hash}))
        assert choose_run_plan(None, "out", None).hash() == load_plan("redact").hash()


def test_another_finder_is_added_to_a_shipped_plan_only(folder: Path) -> None:
    """Its kinds are decided by groups, which the settings of a saved plan no longer have."""
    pytest.importorskip("presidio_analyzer")
    sanitize.run("a.jsonl", "out", plan="redact", workers=1)
    continued = choose_run_plan(None, "out", None, (), ("presidio",))
    assert continued.hash() == load_plan("redact", (), ("presidio",)).hash()
    sanitize.run("a.jsonl", "own", plan=load_plan("redact").with_(publishable=False), workers=1)
    with pytest.raises(UsageError, match="name the plan, too"):
        choose_run_plan(None, "own", None, (), ("presidio",))
    assert choose_run_plan(None, "own", None, (), ("patterns",)).publishable is False


def test_a_damaged_plan_is_reported(folder: Path) -> None:
    result = sanitize.run("a.jsonl", "out", plan="redact", workers=1)
    path = folder / "out.private" / "runs" / result.run_hash / "plan.json"
    for damage in ({"find": []}, {"find": {"finders": None}}, {"edit": [1]}):
        saved = json.loads(path.read_text())
        path.write_text(json.dumps({**saved, **damage}))
        with pytest.raises(OutputBroken, match="is damaged, or one of another version"):
            choose_run_plan(None, "out", None)


def test_a_stream_continues_with_the_plan_of_its_state(folder: Path) -> None:
    def emit(text: str, **options: Any) -> str:
        (row,) = sanitize.stream([{"text": text}], seed=1, workers=1, **options)
        return str(row["text"])

    assert emit(TEXT) == emit(TEXT, state="new") == TEXT.replace(ANN, "[EMAIL_ADDRESS]")
    two = Plan.load("rmft").with_(keep=2)
    assert emit(TEXT, state="old", plan=two).count(ANN) == 2
    assert emit(TEXT.replace(ANN, BOB), state="old").count(BOB) == 2
    with pytest.raises(UsageError, match="another plan"):
        emit(TEXT, state="old", plan="redact")


def test_a_state_of_an_earlier_version_has_the_earlier_default(folder: Path) -> None:
    list(sanitize.stream([{"text": TEXT}], state="state", plan="rmft", seed=1, workers=1))
    path = folder / "state" / "state.json"
    saved = json.loads(path.read_text())
    assert saved.pop("plan")["name"] == "rmft"
    path.write_text(json.dumps(saved))
    (row,) = sanitize.stream([{"text": f"{BOB} {BOB}"}], state="state", seed=1, workers=1)
    assert row["text"].count(BOB) == 1
    assert json.loads(path.read_text())["plan"]["name"] == "rmft"
