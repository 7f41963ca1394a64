"""Requirements of Spark: each missing one gives an error with its remedy. Also: two attempts at one
task."""

from __future__ import annotations

import dataclasses
import json
import shutil
import socket
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from sanitize.cli.main import app
from sanitize.core.engine import AttemptableTask, TaskResult, WorkerDied
from sanitize.engines import spark, spark_session
from sanitize.errors import InputRefused, MissingExtra, RemoteUnavailable, UsageError
from sanitize.pipeline import manifest
from sanitize.plans.settings import Settings
from sanitize.reporting.outcomes import OutcomeTask
from sanitize.storage.task_records import Job, load_record, run_job
from sanitize.verification.shard_reading import VerifyTask

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")


@pytest.fixture
def closed_port() -> int:
    """A port that is closed."""
    with socket.socket() as probe_socket:
        probe_socket.bind(("127.0.0.1", 0))
        return int(probe_socket.getsockname()[1])


def test_missing_requirements_are_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, closed_port: int
) -> None:
    monkeypatch.setattr(spark_session, "find_active_session", lambda: None)
    monkeypatch.setattr(spark_session, "find_java_version", lambda: "17.0.1")
    for name in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    spark_session.validate_environment(None, None)
    spark_session.validate_environment("local[2]", None)
    for master, remote, message, *error in (
        ("local", "sc://host", "exclude each other"),
        ("loc[2]", None, r"--master loc\[2\]: expected local\[N\], spark://"),
        (None, "http://host:1", "expected the address of a Spark Connect server, such as sc://"),
        (
            None,
            f"sc://127.0.0.1:{closed_port}/;token=secret",
            rf"--remote sc://127.0.0.1:{closed_port}/: no answer .*start a Spark Connect",
            RemoteUnavailable,
        ),
        (
            f"spark://127.0.0.1:{closed_port}",
            None,
            "no answer .*start a Spark master",
            RemoteUnavailable,
        ),
        (None, "sc://127.0.0.1:port", "no answer"),
    ):
        with pytest.raises(error[0] if error else UsageError, match=message) as raised:
            spark_session.validate_environment(master, remote)
        assert "secret" not in str(raised.value)
    monkeypatch.setenv("SPARK_REMOTE", f"sc://127.0.0.1:{closed_port}")
    with pytest.raises(RemoteUnavailable, match="no answer"):
        spark_session.validate_environment(None, None)
    # an explicit option overrides the environment
    spark_session.validate_environment("local[2]", None)
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
    with pytest.raises(
        UsageError, match="pyspark 3.5.1 is installed, 4 or newer.*pip install --upgrade"
    ):
        spark_session.validate_environment(None, None)
    monkeypatch.setattr(spark_session.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(pyspark, "__version__", "4.3.0")
    with pytest.raises(MissingExtra, match=r"grpcio is not installed.*corpus-sanitize\[spark\]"):
        spark_session.validate_environment(None, "sc://host:1")


def test_the_command_reports_them_before_it_writes(tmp_path: Path, closed_port: int) -> None:
    (tmp_path / "in.txt").write_text("nobody")
    out = str(tmp_path / "out")
    for arguments, message in (
        (["--engine", "sparc"], "did you mean spark?"),
        (["--master", "local[2]"], "use them with --engine spark"),
        (["--engine", "spark", "--remote", f"sc://127.0.0.1:{closed_port}"], "no answer"),
    ):
        result = CliRunner().invoke(app, ["run", str(tmp_path / "in.txt"), "-o", out, *arguments])
        assert isinstance(result.exception, UsageError | RemoteUnavailable) and message in str(
            result.exception
        )
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def test_settings_of_a_run_leave_out_the_engine() -> None:
    """The manifest is the same for every engine; an address may contain a token."""
    settings_json = Settings(seed=1, engine="spark", remote="sc://host:1/;token=secret").to_json()
    assert settings_json == Settings(seed=1).to_json() and "secret" not in json.dumps(settings_json)


def test_worker_probe_reports_problems(tmp_path: Path) -> None:
    (tmp_path / "seen").write_text("")
    rows = [pa.RecordBatch.from_pydict({"id": [0, 1]})]

    def probe(marker: Path, versions: dict[str, str]) -> str:
        (batch,) = spark._make_probe(str(marker), versions, [])(rows)
        assert batch.column(0)[0] == batch.column(0)[1]
        return str(batch.column(0)[0].as_py())

    versions_here = spark._package_versions()
    # both list the libraries that determine the output
    assert versions_here == manifest.get_library_versions()
    assert probe(tmp_path / "seen", versions_here) == ""
    assert "does not see WORK" in probe(tmp_path / "elsewhere", versions_here)
    assert probe(tmp_path / "seen", {**versions_here, "duckdb": "1.0"}).startswith(
        "a worker has duckdb "
    )
    assert "no other-package" in probe(tmp_path / "seen", {"other-package": "1"})


# ---- attempts ----


@dataclass(frozen=True)
class Task:
    folder: Path
    text: str = "made"


@dataclass(frozen=True)
class Made:
    made: str
    folder: str = ""


def _write_outputs(task: Task) -> Made:
    (task.folder / "a.txt").write_text(task.text)
    (task.folder / "b.txt").write_text(task.text)
    return Made(task.text)


def make_job(folder: Path, work: Any = _write_outputs) -> Job[Made]:
    outputs = {name: folder / "out" / name for name in ("a.txt", "b.txt")}
    return Job(
        function=work,
        result_type=Made,
        task=Task(folder / "spill"),
        record_path=folder / "tasks" / "one.json",
        fingerprint="f",
        outputs=outputs,
    )


def test_concurrent_attempts_do_not_interfere(tmp_path: Path) -> None:
    """A second attempt does the whole job while the first is in the middle of it; then the first
    continues."""
    (tmp_path / "stage" / "1").mkdir(parents=True)
    (tmp_path / "stage" / "2").mkdir()

    def work_with_second_attempt(task: Task) -> Made:
        (task.folder / "a.txt").write_text("half")
        assert run_job(make_job(tmp_path).for_attempt(tmp_path / "stage" / "2")) == Made("made")
        assert task.folder.is_dir()
        return _write_outputs(task)

    assert run_job(
        make_job(tmp_path, work_with_second_attempt).for_attempt(tmp_path / "stage" / "1")
    ) == Made("made")
    record = load_record(make_job(tmp_path).record_path, "f", result_type=Made)
    assert record is not None and record.result == Made("made")
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [
        "a.txt",
        "b.txt",
        "one.json",
    ]


@pytest.mark.parametrize("when", ["work", "record"])
def test_a_late_attempt_publishes_nothing(tmp_path: Path, when: str) -> None:
    """A late attempt: its stage is over, and its output was written again by another plan."""
    (tmp_path / "stage" / "1").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "tasks").mkdir()
    files = [
        tmp_path / "out" / "a.txt",
        tmp_path / "out" / "b.txt",
        tmp_path / "tasks" / "one.json",
    ]

    def work_after_the_stage(task: Task) -> Made:
        outputs = _write_outputs(task)
        (tmp_path / "stage").rename(tmp_path / "over")
        if when == "work":
            shutil.rmtree(tmp_path / "over")
        for path in files:
            path.write_text("newer")
        return outputs

    with pytest.raises(FileNotFoundError):
        run_job(make_job(tmp_path, work_after_the_stage).for_attempt(tmp_path / "stage" / "1"))
    assert [path.read_text() for path in files] == ["newer"] * 3


def _return_or_raise(task: str) -> str:
    if task == "refused":
        raise InputRefused("the second task")
    return task


def test_a_worker_leaves_only_its_outcome(tmp_path: Path) -> None:
    stage = tmp_path / "stage"
    for name in ("answers", "attempts"):
        (stage / name).mkdir(parents=True)
    spark._write_tasks(stage, _return_or_raise, ["well", "refused"], None)
    for task_no in (1, 0, 0):  # one task twice
        spark.run_attempt(str(stage), task_no)
    outcome = spark._read_outcome(stage, 0)
    assert isinstance(outcome, TaskResult) and outcome.result == "well"
    with pytest.raises(InputRefused, match="the second task"):
        spark._read_outcome(stage, 1)
    assert list((stage / "attempts").iterdir()) == []
    assert {path.stat().st_mode & 0o077 for path in (stage / "answers").iterdir()} == {0}
    stage.rename(tmp_path / "over")
    spark.run_attempt(str(stage), 0)  # too late: nothing happens
    assert not stage.exists()


def _record_folder(task: Task) -> Made:
    return replace(_write_outputs(task), folder=str(task.folder))


def test_a_job_runs_in_the_folder_of_its_attempt(tmp_path: Path) -> None:
    stage = tmp_path / "stage"
    for name in ("answers", "attempts"):
        (stage / name).mkdir(parents=True)
    spark._write_tasks(stage, run_job, [make_job(tmp_path, _record_folder)], None)
    spark.run_attempt(str(stage), 0)
    outcome = spark._read_outcome(stage, 0)
    assert isinstance(outcome, TaskResult) and Path(outcome.result.folder).is_relative_to(
        stage / "attempts"
    )


@pytest.mark.parametrize("task_class", [Job, VerifyTask, OutcomeTask])
def test_tasks_that_write_files_can_be_attempted_twice(task_class: type) -> None:
    assert issubclass(task_class, AttemptableTask)


def test_spark_errors_are_translated_without_data() -> None:
    from pyspark.errors import PySparkException

    for spark_message, expected_message in (
        ("[CAST_INVALID_INPUT] The value 'ann@example.com' of the type", "Spark failed"),
        (
            "Job aborted: Python worker exited unexpectedly (crashed) ann@example.com",
            "a Spark worker died several times",
        ),
        (
            "ModuleNotFoundError: No module named 'sanitize' ann@example.com",
            "install the version that runs here on every worker",
        ),
        ("[PYTHON_VERSION_MISMATCH] ann@example.com", "set PYSPARK_PYTHON"),
        ("No space left on device ann@example.com", "ran out of memory or disk"),
    ):
        message = str(spark._translate_error(PySparkException(spark_message)))
        assert expected_message in message and "ann" not in message
    assert dataclasses.is_dataclass(TaskResult) and isinstance(
        spark._translate_error(WorkerDied("crashed")), WorkerDied
    )
