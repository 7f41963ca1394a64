"""Requirements of Spark: each missing one gives an error with its remedy. Also: two attempts at one task."""

from __future__ import annotations

import dataclasses
import json
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from sanitize.cli.main import app
from sanitize.core.engine import TaskResult, WorkerDied
from sanitize.engines import spark, spark_session
from sanitize.errors import InputRefused, MissingExtra, UsageError
from sanitize.pipeline import manifest
from sanitize.plans.settings import Settings
from sanitize.storage.task_records import Job, load_record, run_job

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")


@pytest.fixture
def closed() -> int:
    """A port that is closed."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_what_is_missing_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, closed: int) -> None:
    monkeypatch.setattr(spark_session, "find_active_session", lambda: None)
    monkeypatch.setattr(spark_session, "find_java_version", lambda: "17.0.1")
    for name in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    spark_session.validate_environment(None, None)
    spark_session.validate_environment("local[2]", None)
    for master, remote, message in (
        ("local", "sc://host", "exclude each other"),
        ("loc[2]", None, r"--master loc\[2\]: expected local\[N\], spark://"),
        (None, "http://host:1", "expected the address of a Spark Connect server, such as sc://"),
        (
            None,
            f"sc://127.0.0.1:{closed}/;token=secret",
            rf"--remote sc://127.0.0.1:{closed}/: no answer .*start a Spark Connect",
        ),
        (f"spark://127.0.0.1:{closed}", None, "no answer .*start a Spark master"),
        (None, "sc://127.0.0.1:port", "no answer"),
    ):
        with pytest.raises(UsageError, match=message) as raised:
            spark_session.validate_environment(master, remote)
        assert "secret" not in str(raised.value)
    monkeypatch.setenv("SPARK_REMOTE", f"sc://127.0.0.1:{closed}")
    with pytest.raises(UsageError, match="no answer"):
        spark_session.validate_environment(None, None)
    spark_session.validate_environment("local[2]", None)  # what is said counts more than the environment
    monkeypatch.delenv("SPARK_REMOTE")
    for version, message in (
        (None, "there is no Java, .*openjdk-17"),
        ("", "of an unknown version"),
        ("11.0.2", "Java 11.0.2 is installed"),
    ):
        monkeypatch.setattr(spark_session, "find_java_version", lambda version=version: version)
        with pytest.raises(UsageError, match=f"{message}.*set JAVA_HOME"):
            spark_session.validate_environment(None, None)
    monkeypatch.setattr(pyspark, "__version__", "3.5.1")
    with pytest.raises(UsageError, match="pyspark 3.5.1 is installed, 4 or newer.*pip install --upgrade"):
        spark_session.validate_environment(None, None)
    monkeypatch.setattr(spark_session.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(pyspark, "__version__", "4.3.0")
    with pytest.raises(MissingExtra, match=r"grpcio is not installed.*corpus-sanitize\[spark\]"):
        spark_session.validate_environment(None, "sc://host:1")


def test_the_command_tells_it_before_anything_is_written(tmp_path: Path, closed: int) -> None:
    (tmp_path / "in.txt").write_text("nobody")
    out = str(tmp_path / "out")
    for words, message in (
        (["--engine", "sparc"], "Did you mean spark?"),
        (["--master", "local[2]"], "use them with --engine spark"),
        (["--engine", "spark", "--remote", f"sc://127.0.0.1:{closed}"], "no answer"),
    ):
        done = CliRunner().invoke(app, ["run", str(tmp_path / "in.txt"), "-o", out, *words])
        assert isinstance(done.exception, UsageError) and message in str(done.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def test_settings_of_a_run_do_not_name_its_engine() -> None:
    """What is published, or needed to reproduce it, is the same for every engine; an address may hold a token."""
    told = Settings(seed=1, engine="spark", remote="sc://host:1/;token=secret").to_json()
    assert told == Settings(seed=1).to_json() and "secret" not in json.dumps(told)


def test_a_probe_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "seen").write_text("")
    rows = [pa.RecordBatch.from_pydict({"id": [0, 1]})]

    def said(seen: Path, versions: dict[str, str]) -> str:
        (batch,) = spark._make_probe(str(seen), versions, [])(rows)
        assert batch.column(0)[0] == batch.column(0)[1]
        return str(batch.column(0)[0].as_py())

    here = spark._package_versions()
    assert here == manifest.get_library_versions()  # what decides what comes out is named in both
    assert said(tmp_path / "seen", here) == ""
    assert "does not see WORK" in said(tmp_path / "elsewhere", here)
    assert said(tmp_path / "seen", {**here, "duckdb": "1.0"}).startswith("a worker has duckdb ")
    assert "no other-package" in said(tmp_path / "seen", {"other-package": "1"})


# ---- attempts ----


@dataclass(frozen=True)
class Task:
    folder: Path
    text: str = "made"


def _make(task: Task) -> dict[str, Any]:
    (task.folder / "a.txt").write_text(task.text)
    (task.folder / "b.txt").write_text(task.text)
    return {"made": task.text}


def job(here: Path, work: Any = _make) -> Job:
    outputs = {name: here / "out" / name for name in ("a.txt", "b.txt")}
    return Job(function=work, task=Task(here / "spill"), record_path=here / "tasks" / "one.json", fingerprint="f", outputs=outputs)


def test_attempts_do_not_meet(tmp_path: Path) -> None:
    """A second attempt does the whole job while the first is in the middle of it; then the first continues."""
    (tmp_path / "stage" / "1").mkdir(parents=True)
    (tmp_path / "stage" / "2").mkdir()

    def slow(task: Task) -> dict[str, Any]:
        (task.folder / "a.txt").write_text("half")
        assert run_job(job(tmp_path).for_attempt(tmp_path / "stage" / "2")) == {"made": "made"}
        assert task.folder.is_dir()
        return _make(task)

    assert run_job(job(tmp_path, slow).for_attempt(tmp_path / "stage" / "1")) == {"made": "made"}
    assert load_record(job(tmp_path).record_path, "f") == {"made": "made"}
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["a.txt", "b.txt", "one.json"]


@pytest.mark.parametrize("when", ["work", "record"])
def test_a_straggler_puts_nothing_in_place(tmp_path: Path, when: str) -> None:
    """A late attempt: its stage is over, and its output was written again by another plan."""
    (tmp_path / "stage" / "1").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "tasks").mkdir()
    files = [tmp_path / "out" / "a.txt", tmp_path / "out" / "b.txt", tmp_path / "tasks" / "one.json"]

    def late(task: Task) -> dict[str, Any]:
        made = _make(task)
        (tmp_path / "stage").rename(tmp_path / "over")
        if when == "work":
            shutil.rmtree(tmp_path / "over")
        for path in files:
            path.write_text("newer")
        return made

    with pytest.raises(FileNotFoundError):
        run_job(job(tmp_path, late).for_attempt(tmp_path / "stage" / "1"))
    assert [path.read_text() for path in files] == ["newer"] * 3


def _answers(task: str) -> str:
    if task == "refused":
        raise InputRefused("the second task")
    return task


def test_a_worker_leaves_its_answer_and_nothing_else(tmp_path: Path) -> None:
    stage = tmp_path / "stage"
    for name in ("answers", "attempts"):
        (stage / name).mkdir(parents=True)
    spark._write_tasks(stage, _answers, ["well", "refused"], None)
    for place in (1, 0, 0):  # one of them twice
        spark.run_attempt(str(stage), place)
    done = spark._read_outcome(stage, 0)
    assert isinstance(done, TaskResult) and done.result == "well"
    with pytest.raises(InputRefused, match="the second task"):
        spark._read_outcome(stage, 1)
    assert list((stage / "attempts").iterdir()) == []
    assert {path.stat().st_mode & 0o077 for path in (stage / "answers").iterdir()} == {0}
    stage.rename(tmp_path / "over")
    spark.run_attempt(str(stage), 0)  # too late: nothing happens
    assert not stage.exists()


def test_sparks_errors_quote_nothing() -> None:
    from pyspark.errors import PySparkException

    for said, ours in (
        ("[CAST_INVALID_INPUT] The value 'ann@example.com' of the type", "Spark failed"),
        ("Job aborted: Python worker exited unexpectedly (crashed) ann@example.com", "a Spark worker died several times"),
        ("ModuleNotFoundError: No module named 'sanitize' ann@example.com", "install the version that runs here on every worker"),
        ("[PYTHON_VERSION_MISMATCH] ann@example.com", "set PYSPARK_PYTHON"),
        ("No space left on device ann@example.com", "ran out of memory or disk"),
    ):
        told = str(spark._translate_error(PySparkException(said)))
        assert ours in told and "ann" not in told
    assert dataclasses.is_dataclass(TaskResult) and isinstance(spark._translate_error(WorkerDied("crashed")), WorkerDied)
