"""The pre-commit hook and the GitHub Action: their definitions are valid, and their commands and
scripts do what the page says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sanitize.kinds.kind import CATEGORIES, builtin_kinds

yaml = pytest.importorskip("yaml", reason="comes with the packages of the documentation site")

ROOT = Path(__file__).resolve().parents[2]
ANN = "ann.roe@example.com"
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
INSTALL, SEARCH = ACTION["runs"]["steps"]
PAGE = (ROOT / "docs" / "how_to" / "ci.md").read_text("utf-8")


@pytest.fixture()
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "with space").mkdir()
    (tmp_path / "with space" / "a.txt").write_text(f"one\n{ANN}\n")
    (tmp_path / "b.txt").write_text("nothing\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_hook_stops_a_commit_with_an_address(
    folder: Path, console: Callable[..., tuple[int, str, str]]
) -> None:
    (hook,) = HOOKS
    assert hook["id"] in PAGE and set(hook) <= {
        "id",
        "name",
        "description",
        "entry",
        "args",
        "language",
        "types",
        "require_serial",
    }
    program, *entry = shlex.split(hook["entry"])
    assert program == "sanitize" and hook["language"] == "python"
    code, out, err = console(*entry, *hook["args"], "b.txt", "with space/a.txt")
    assert code == 10 and "with space/a.txt" in out and ANN not in out + err
    assert console(*entry, *hook["args"], "b.txt")[0] == 0


def run_step(step: dict[str, Any], folder: Path, **inputs: str) -> tuple[int, str, str]:
    """Run the script of a step as a runner does: bash with the step's environment, in which inputs
    were replaced by their values."""
    values = (
        {name: str(one["default"]) for name, one in ACTION["inputs"].items()}
        | {"python": sys.executable}
        | inputs
    )
    environment = {
        **os.environ,
        "GITHUB_OUTPUT": str(folder.parent / "output"),
        "PIP_DRY_RUN": "1",
        "PIP_NO_DEPS": "1",
    }
    environment |= {"PYTHONPATH": str(ROOT), "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1"}
    for name, expression in step["env"].items():
        field = re.fullmatch(r"\$\{\{ (inputs|github)\.([\w-]+) \}\}", expression)
        assert field is not None
        environment[name] = (
            values[field[2]] if field[1] == "inputs" else {"action_path": str(ROOT)}[field[2]]
        )
    command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]]
    result = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    return result.returncode, result.stdout, result.stderr


def test_scripts_of_the_action_get_inputs_as_variables_only() -> None:
    assert ACTION["runs"]["using"] == "composite"
    for step in (INSTALL, SEARCH):
        assert step["shell"] == "bash" and "${{" not in step["run"]
        assert set(re.findall(r"\$\{?(INPUT_\w+|ACTION_PATH)", step["run"])) == set(step["env"])
        # no variable without quotes, no substitution
        assert re.findall(r'(?<!["\w=])\$\w+|\$\(', step["run"]) == []
        assert "-m " not in step["run"].replace("-P -m ", "")
    used = {
        expression
        for step in (INSTALL, SEARCH)
        for expression in re.findall(r"inputs\.([\w-]+)", str(step["env"]))
    }
    assert used == set(ACTION["inputs"]) and all(
        one["description"] for one in ACTION["inputs"].values()
    )
    for name in ACTION["inputs"]:
        assert f"`{name}`" in PAGE
    for kinds in (ACTION["inputs"]["fail-on"]["default"], HOOKS[0]["args"][0].partition("=")[2]):
        assert set(kinds.split(",")) <= {*CATEGORIES, *builtin_kinds()}


@pytest.mark.slow
def test_the_action_searches_and_reports_its_exit_code(folder: Path) -> None:
    (folder / "typing.py").write_text("raise SystemExit('code of the searched folder')\n")
    (folder / "sanitize.toml").write_text('plan = "blacklist"\n')  # the inputs of the action win
    code, out, err = run_step(SEARCH, folder, paths="b.txt\nwith space\n", **{"fail-on": "contact"})
    assert code == 10 and out.splitlines()[-1].split() == [
        "with",
        "space/a.txt",
        "EMAIL_ADDRESS",
        "1",
        "2",
    ], out + err
    assert ANN not in out + err and "sanitize.toml" not in err
    assert (folder.parent / "output").read_text() == "exit-code=10\n"
    code, out, err = run_step(SEARCH, folder, paths="b.txt")
    assert code == 0 and "was found in 1 file (plan redact)" in out, out + err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({"paths": "$(touch pwned)\n`touch pwned`\n; touch pwned\n--reveal"}, 3),
        ({"fail-on": "contact' --reveal; touch pwned '", "paths": "b.txt"}, 2),
        ({"plan": "rmft --reveal; touch pwned", "paths": "b.txt"}, 2),
        ({"paths": ""}, 2),
    ],
)
def test_inputs_are_never_code_or_options(
    inputs: dict[str, str], expected: int, folder: Path
) -> None:
    code, out, err = run_step(SEARCH, folder, **inputs)
    assert code == expected and not list(folder.rglob("pwned")) and err.count("error: ") == 1, (
        out + err
    )


@pytest.mark.slow
def test_the_action_installs_its_own_revision_or_what_is_named(folder: Path) -> None:
    assert run_step(INSTALL, folder, install="")[:2] == (0, "")
    code, out, err = run_step(INSTALL, folder)
    assert code == 0, out + err
    code, out, err = run_step(INSTALL, folder, install="corpus-nothing; touch pwned")
    assert code != 0 and not list(folder.rglob("pwned"))
