"""The command: one line per error, one object with --json, and torch is imported only when needed."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sanitize.train.cli
from sanitize import train
from sanitize.train.recipe import Recipe

ROOT = Path(__file__).resolve().parents[2]


HERE = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def process(*arguments: object, code: int = 0) -> tuple[str, str]:
    """The command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "sanitize.train.cli", *map(str, arguments)],
        cwd=ROOT,
        env=HERE,
        timeout=120,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout, done.stderr


def sanitize_train(*arguments: object, code: int = 0) -> tuple[str, str]:
    """The console script in this process, which has torch already."""
    out, err, ended = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["sanitize-train", *map(str, arguments)])
        try:
            sanitize.train.cli.main()
        except SystemExit as end:
            ended = int(str(end.code or 0))
    assert ended == code, out.getvalue() + err.getvalue()
    return out.getvalue(), err.getvalue()


@pytest.fixture
def small(tmp_path: Path, corpus: Any, recipe: Any) -> list[object]:
    """Arguments of a tiny run."""
    lines = []
    for section, settings in recipe(corpus()).items():
        lines.append(f"[{section}]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    (tmp_path / "small.toml").write_text("\n".join(lines))
    return [tmp_path / "small.toml", "--out", tmp_path / "run", "--set", "run.epochs=1"]


def test_a_run_and_the_same_again(small: list[object], tmp_path: Path) -> None:
    printed, said = process(*small, "--json")
    result = json.loads(printed)
    assert result["changed"] and result["final"] == "step-000005" and "30 documents" in said
    assert json.loads(sanitize_train("run", *small, "--json")[0]) == {**result, "changed": False}
    _, said = sanitize_train(*small, "--set", "run.lr=1", code=2)
    assert said.startswith("error: ") and "another recipe" in said and said.count("\n") == 1
    assert "Dear" not in said and "@" not in said


def test_errors_are_one_line(tmp_path: Path) -> None:
    for arguments, word in (
        (("rmf", "--out", tmp_path), "Did you mean rmft"),
        (("rmft", "--out", tmp_path / "run"), "data.path is not set"),
        (("rmft", "--out", tmp_path / "run", "--set", "run.epoch=1"), "Did you mean epochs"),
    ):
        _, said = sanitize_train(*arguments, code=2)
        assert word in said and said.count("\n") == 1
    sanitize_train("rmft", "--out", tmp_path / "run", "--data", tmp_path / "missing", code=3)


def test_list() -> None:
    found = json.loads(sanitize_train("list", "--json")[0])
    assert "rmft" in found["recipes"] and "goldfish" in found["objectives"]
    printed, _ = sanitize_train("list")
    assert "  ppmlm " in printed


def test_help_and_import_are_light() -> None:
    code = "import sys, train; print([name for name in ('torch', 'transformers', 'pyarrow', 'numpy') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, env=HERE)
    assert done.stdout.strip() == "[]"
    code = "import sys; sys.modules['torch'] = None; sys.argv = ['sanitize-train', 'LIST']; from sanitize.train.cli import main; main()"
    for word in ("--help", "list"):
        done = subprocess.run(
            [sys.executable, "-c", code.replace("LIST", word)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            env=HERE,
        )
        assert done.returncode == 0, done.stderr


def test_without_torch_the_extra_is_named(small: list[object], tmp_path: Path) -> None:
    code = "import sys; sys.modules['torch'] = None; from sanitize.train.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, small)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=HERE,
    )
    assert done.returncode == 8 and "corpus-sanitize[learn]" in done.stderr


def test_killed_by_signals_and_gone_on(small: list[object], tmp_path: Path) -> None:
    """Real signals from outside in the middle of a run, the second in the resumed run."""
    more = [*small, "--set", "run.epochs=8", "--set", "run.checkpoint_every=2", "--set", "run.state_every=1"]
    for number in (signal.SIGTERM, signal.SIGKILL):
        words = [sys.executable, "-m", "sanitize.train.cli", *map(str, more)]
        running = subprocess.Popen(words, cwd=ROOT, env=HERE, stderr=subprocess.PIPE, text=True)
        assert running.stderr is not None
        for line in running.stderr:
            if line.startswith("step"):
                break
        running.send_signal(number)
        said = running.stderr.read()
        running.wait()
        running.stderr.close()
        assert running.returncode == (143 if number == signal.SIGTERM else -9) and "Traceback" not in said
        assert not (tmp_path / "run" / "train.json").exists()
    printed, said = process(*more, "--json")
    assert "resumed after step" in said
    changes = [str(one) for one in more[4::2]]
    train.fit(Recipe.load(str(more[0]), changes), tmp_path / "whole")
    final = json.loads(printed)["final"]
    ours, theirs = (tmp_path / name / "checkpoints" / final / "model.safetensors" for name in ("run", "whole"))
    assert ours.read_bytes() == theirs.read_bytes()


def test_two_processes_make_the_steps_of_one(small: list[object], tmp_path: Path) -> None:
    """accelerate and torch's DistributedDataParallel on the CPU; dropout off, so that only the order of sums differs."""
    pytest.importorskip("accelerate")
    import torch
    from safetensors.torch import load_file

    arguments = [*small, "--set", "model.dropout=0.0", "--set", "run.accumulate=2", "--set", "run.batch=7"]
    train.fit(Recipe.load(str(small[0]), [str(one) for one in arguments[4::2]]), tmp_path / "run")
    several = [str(tmp_path / "two") if one == tmp_path / "run" else str(one) for one in arguments]
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "sanitize.train.cli", *several]
    done = subprocess.run(launch, cwd=ROOT, env=HERE, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    one, two = (json.loads((tmp_path / name / "train.json").read_text()) for name in ("run", "two"))
    assert one["checkpoints"] == two["checkpoints"] and one["tokens"] == two["tokens"]
    ours, theirs = (load_file(tmp_path / name / "checkpoints" / one["final"] / "model.safetensors") for name in ("run", "two"))
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-4) for name in ours)
    logs = [(tmp_path / name / "log.jsonl").read_text().splitlines() for name in ("run", "two")]
    for here, there in zip(*logs, strict=True):
        assert abs(json.loads(here)["loss"] - json.loads(there)["loss"]) < 1e-4
