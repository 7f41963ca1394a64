"""The command: one line per error, one object with --json, and torch is imported only when
needed."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import sanitize.train.cli
from sanitize import train
from sanitize.train import stop_signals
from sanitize.train.recipe import Recipe

ROOT = Path(__file__).resolve().parents[2]


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def sanitize_train(
    *arguments: object, code: int = 0, err: io.StringIO | None = None
) -> tuple[str, str]:
    """Runs the console script in this process, where torch is already imported."""
    out, err, exit_code = io.StringIO(), err or io.StringIO(), 0
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(sys, "argv", ["sanitize-train", *map(str, arguments)])
        try:
            sanitize.train.cli.main()
        except SystemExit as end:
            exit_code = int(str(end.code or 0))
    assert exit_code == code, out.getvalue() + err.getvalue()
    return out.getvalue(), err.getvalue()


@pytest.fixture
def tiny_run(tmp_path: Path, corpus: Any, recipe: Any) -> list[object]:
    """Arguments of a tiny run."""
    lines = []
    for section, settings in recipe(corpus()).items():
        lines.append(f"[{section}]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    (tmp_path / "small.toml").write_text("\n".join(lines))
    return [tmp_path / "small.toml", "--out", tmp_path / "run", "--set", "run.epochs=1"]


def test_a_repeated_command_changes_nothing(tiny_run: list[object], tmp_path: Path) -> None:
    stdout, stderr = sanitize_train(*tiny_run, "--json")
    result = json.loads(stdout)
    assert result["changed"] and result["final"] == "step-000005" and "30 documents" in stderr
    assert json.loads(sanitize_train("run", *tiny_run, "--json")[0]) == {**result, "changed": False}
    _, stderr = sanitize_train(*tiny_run, "--set", "run.lr=1", code=2)
    assert stderr.startswith("error: ") and "another recipe" in stderr and stderr.count("\n") == 1
    assert "Dear" not in stderr and "@" not in stderr


def test_errors_are_one_line(tmp_path: Path) -> None:
    for arguments, word in (
        (("rmf", "--out", tmp_path), "did you mean rmft"),
        (("rmft", "--out", tmp_path / "run"), "data.path is not set"),
        (("rmft", "--out", tmp_path / "run", "--set", "run.epoch=1"), "did you mean epochs"),
    ):
        _, stderr = sanitize_train(*arguments, code=2)
        assert word in stderr and stderr.count("\n") == 1
    sanitize_train("rmft", "--out", tmp_path / "run", "--data", tmp_path / "missing", code=3)


def test_list_of_recipes_and_objectives() -> None:
    listed = json.loads(sanitize_train("list", "--json")[0])
    assert "rmft" in listed["recipes"] and "goldfish" in listed["objectives"]
    stdout, _ = sanitize_train("list")
    assert "  ppmlm " in stdout


def test_help_and_import_load_no_heavy_packages() -> None:
    code = """
import sys, train
print([name for name in ("torch", "transformers", "pyarrow", "numpy") if name in sys.modules])
sys.modules["torch"] = None
from sanitize.train.cli import main
for word in ("--help", "list"):
    sys.argv = ["sanitize-train", word]
    try:
        main()
    except SystemExit as end:
        assert not end.code, word
"""
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, env=ENVIRONMENT
    )
    assert result.returncode == 0, result.stderr
    assert (
        result.stdout.startswith("[]\n")
        and "Usage: " in result.stdout
        and "  ppmlm " in result.stdout
    )


def test_without_torch_the_extra_is_named(tiny_run: list[object], tmp_path: Path) -> None:
    code = "import sys; sys.modules['torch'] = None; from sanitize.train.cli import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", code, *map(str, tiny_run)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
    )
    assert result.returncode == 8 and "corpus-sanitize[learn]" in result.stderr


class StderrThatTerminates(io.StringIO):
    """Sends SIGTERM to this process when the first step is reported."""

    def write(self, text: str) -> int:
        if text.startswith("step"):
            os.kill(os.getpid(), signal.SIGTERM)
        return super().write(text)


@pytest.mark.slow
def test_resume_after_signals_gives_identical_weights(
    tiny_run: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL to a process, SIGTERM to the run that resumes it (in this process, because each new
    one imports torch for seconds)."""
    monkeypatch.setattr(stop_signals, "end_process", sys.exit)
    arguments = [
        *tiny_run,
        "--set",
        "run.epochs=8",
        "--set",
        "run.checkpoint_every=2",
        "--set",
        "run.state_every=1",
    ]
    command = [sys.executable, "-m", "sanitize.train.cli", *map(str, arguments)]
    process = subprocess.Popen(
        command, cwd=ROOT, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("step"):
            break
    process.kill()
    stderr = process.stderr.read()
    process.wait()
    process.stderr.close()
    assert process.returncode == -9 and "Traceback" not in stderr
    assert not (tmp_path / "run" / "train.json").exists()
    _, stderr = sanitize_train(*arguments, code=143, err=StderrThatTerminates())
    assert (
        "resumed after step" in stderr
        and "stopped; run the same command again" in stderr
        and "Traceback" not in stderr
    )
    assert not (tmp_path / "run" / "train.json").exists()
    stdout, stderr = sanitize_train(*arguments, "--json")
    assert "resumed after step" in stderr
    changes = [str(argument) for argument in arguments[4::2]]
    train.fit(Recipe.load(str(arguments[0]), changes), tmp_path / "expected")
    final = json.loads(stdout)["final"]
    resumed, expected = (
        tmp_path / name / "checkpoints" / final / "model.safetensors"
        for name in ("run", "expected")
    )
    assert resumed.read_bytes() == expected.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_signal_ends_training_within_a_second(
    tiny_run: list[object], number: signal.Signals
) -> None:
    arguments = [*tiny_run, "--set", "run.epochs=500", "--set", "run.checkpoint_every=1"]
    command = [sys.executable, "-m", "sanitize.train.cli", *map(str, arguments)]
    process = subprocess.Popen(
        command, cwd=ROOT, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("step"):
            break
    began = time.monotonic()
    process.send_signal(number)
    stderr = process.stderr.read()
    assert (
        process.wait() == 128 + number
        and "stopped; run the same command again" in stderr
        and "Traceback" not in stderr
    )
    # four seconds for a busy machine
    assert time.monotonic() - began < stop_signals.GRACE_SECONDS + 4
    process.stderr.close()
