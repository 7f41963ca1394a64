"""Spark gives the results of the local engine: every table, and OUT byte for byte. One session per
file; needs Java and pyspark."""

from __future__ import annotations

import hashlib
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.plan_runs import CORPORA, read_texts
from sanitize.cli.generated_mails import generate_mails, write_mbox
from sanitize.core.engine import TaskResult, WorkerDied
from sanitize.engines import spark, spark_session
from sanitize.engines.local import LocalEngine
from sanitize.errors import InputRefused, UsageError
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.settings import Settings
from sanitize.storage import queries

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytest.importorskip("sqlglot", reason="sqlglot is not installed")
JAVA = int((spark_session.find_java_version() or "0").split(".")[0] or 0)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        JAVA < spark_session.MIN_JAVA_VERSION,
        reason=f"Spark 4 requires Java {spark_session.MIN_JAVA_VERSION}, which is not installed",
    ),
    pytest.mark.xdist_group("spark"),
]
ROOT = Path(__file__).resolve().parents[2]
REAL_DATA = ROOT.parent / "shared" / "data"
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # for a Java process of about a minute

# All droppers and all editors with statements, except mechanisms with a ledger. A statement takes
# Spark a second or two: the fast form leaves out the droppers that compare texts and the blacklist.
PLAN = """
about = "All that counts."
leave = ["URL", "IP_ADDRESS"]
[find]
kinds = ["EMAIL_ADDRESS", "PHONE_NUMBER", "IP_ADDRESS", "CREDIT_CARD", "IBAN_CODE", "US_SSN", "URL"]
[[drop]]
use = "exact_dup"
[[drop]]
use = "near_dup"
[[drop]]
use = "sequence_dup"
[[drop]]
use = "repeated_pii"
kinds = ["IBAN_CODE"]
[[edit]]
use = "header_dedup"
kinds = ["EMAIL_ADDRESS"]
[[edit]]
use = "rmft"
kinds = ["PHONE_NUMBER"]
keep = 2
[[edit]]
use = "pseudonymize"
kinds = ["CREDIT_CARD", "IBAN_CODE"]
[[edit]]
use = "redact"
kinds = ["US_SSN"]
[blacklist]
k = 3
n = 2
direct = true
"""
SLOW_PARTS = (
    '[[drop]]\nuse = "near_dup"\n',
    '[[drop]]\nuse = "sequence_dup"\n',
    PLAN[PLAN.index("[blacklist]") :],
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A local session with the engine's settings; code generation is off, which is faster for a few
    rows."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("JAVA_TOOL_OPTIONS", JAVA_OPTIONS)
        local_session, is_owner = spark_session.open_session(
            2, tmp_path_factory.mktemp("session"), "1GB", "local[2]", None
        )
    assert is_owner and spark_session.open_session(
        2, tmp_path_factory.mktemp("other"), "1GB", None, None
    ) == (local_session, False)
    local_session.conf.set("spark.sql.codegen.wholeStage", "false")
    local_session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    yield local_session
    local_session.stop()


@pytest.fixture(scope="module")
def engine_once(
    session: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[spark.SparkEngine]:
    """One engine for all tests: a new one probes the workers, which is a Spark job of its own."""
    spark_engine = spark.SparkEngine(workers=2, spill=tmp_path_factory.mktemp("engine") / "spill")
    yield spark_engine
    spark_engine.close()


@pytest.fixture
def engine(engine_once: spark.SparkEngine) -> Iterator[spark.SparkEngine]:
    yield engine_once
    assert list(engine_once.spill.iterdir()) == []  # no stage left files


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Mails in two formats, some of them twice: one is read in place, the other decoded."""
    folder = tmp_path_factory.mktemp("corpus")
    mails = generate_mails(90, 3)
    pq.write_table(pa.concat_tables([mails.slice(0, 50), mails.slice(0, 5)]), folder / "a.parquet")
    write_mbox(mails.slice(45), folder / "b.mbox")
    return [folder / "a.parquet", folder / "b.mbox"]


def hash_files(folder: Path) -> dict[str, str]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
    }


def read_tables(work: Path) -> dict[str, tuple[list[str], list[dict[str, Any]]]]:
    """Every table of a WORK by its path: types and rows, in their order."""
    tables_by_path = {}
    for path in sorted(work.rglob("*.parquet")):
        table = pq.read_table(path, partitioning=None)
        tables_by_path[path.relative_to(work).as_posix()] = (
            [f"{field.name} {field.type}" for field in table.schema],
            table.to_pylist(),
        )
    return tables_by_path


def settings(**more: Any) -> Settings:
    return Settings(**{"seed": 1, "rows_per_shard": 40, "workers": 1, **more})


def run_both_engines(inputs: list[Path], folder: Path, omitted_parts: tuple[str, ...]) -> int:
    """Runs a plan with each engine into folder/ENGINE/out: outputs and tables must be equal.
    Returns how many documents were dropped."""
    plan = PLAN
    for part in omitted_parts:
        assert part in plan
        plan = plan.replace(part, "")
    (folder / "all.toml").write_text(plan)
    results = {}
    for engine in ("local", "spark"):
        out = folder / engine / "out"
        summary = run_with_settings(
            inputs, out, str(folder / "all.toml"), settings=settings(engine=engine)
        )
        results[engine] = (
            hash_files(out),
            read_tables(folder / engine / "out.private"),
            summary.documents_dropped,
        )
    local, remote = results["local"], results["spark"]
    assert local[0] == remote[0] and local[2] == remote[2]
    assert list(local[1]) == list(remote[1])
    for name in local[1]:
        assert local[1][name] == remote[1][name], name
    return local[2]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "omitted_parts", [SLOW_PARTS, pytest.param((), marks=pytest.mark.soak)], ids=["some", "all"]
)
def test_a_spark_run_equals_a_local_run(
    session: Any, corpus: list[Path], tmp_path: Path, omitted_parts: tuple[str, ...]
) -> None:
    assert run_both_engines(corpus, tmp_path, omitted_parts) >= 10
    work = tmp_path / "spark" / "out.private"
    # a shard in shards/ is a hard link to the published one and has its mode
    private = [path for path in work.rglob("*") if path.parent.name != "shards"]
    assert [
        path.relative_to(work) for path in private if stat.S_IMODE(path.stat().st_mode) & 0o077
    ] == []
    assert not (work / "spill").exists()
    # the local engine accepts the output
    second_summary = run_with_settings(
        corpus, tmp_path / "spark" / "out", str(tmp_path / "all.toml"), settings=settings()
    )
    assert not second_summary.changed


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not REAL_DATA.is_dir(), reason=f"{REAL_DATA} is not there")
@pytest.mark.parametrize("name", CORPORA)
def test_real_corpora_by_spark_equal_those_of_a_local_run(
    session: Any, tmp_path: Path, name: str
) -> None:
    """Tables of real corpora have page encodings that those of a few invented mails have not."""
    read_texts(REAL_DATA, name, 400).write_parquet(tmp_path / "in.parquet")
    run_both_engines([tmp_path / "in.parquet"], tmp_path, SLOW_PARTS)


# statements and rows that the run above does not cover: nulls, no rows, letters whose order differs
# between bytes and collations
WORDS = ["b", "a", "B", "é", "\U0001f600", "", "z", "\uffff", "a\n", "1e5", "NULL"]
KINDS = pa.table({"kind": ["PERSON", "URL"]})
STATEMENTS: list[tuple[str, dict[str, pa.Table], dict[str, object]]] = [
    (
        "distinct_values_of_kinds",
        {
            "value_spellings": pa.table(
                {
                    "value_id": pa.array([no % 4 for no in range(22)], pa.int64()),
                    "kind": pa.array(["PERSON", "URL", "OTHER"] * 7 + ["URL"]).dictionary_encode(),
                    "value": WORDS * 2,
                    "normalised": pa.array([None, "x", None, "é"] * 5 + [None, "Z"], pa.string()),
                }
            ),
            "chosen_kinds": KINDS,
        },
        {},
    ),
    (
        "first_occurrences_from_counts",
        {
            "value_counts": pa.table(
                {
                    "value_id": pa.array([3, 1, 2], pa.int64()),
                    "kind": ["PERSON", "OTHER", "URL"],
                    "first_doc_no": pa.array([7, 0, 7], pa.int64()),
                    "first_cell": pa.array([1, 0, 0], pa.int32()),
                    "first_start": pa.array([1 << 40, 0, 5], pa.int64()),
                }
            ),
            "chosen_kinds": KINDS,
        },
        {},
    ),
    (
        "ledger_summary",
        {
            "ledger": pa.table(
                {
                    "part": ["dp_mlm", "dp_mlm", "other"],
                    "privacy_unit": ["word", "word", "document"],
                    "doc_no": pa.array([1, 1, 2], pa.int64()),
                    "unit_count": pa.array([3, 4, 1], pa.int64()),
                    "epsilon_per_unit": [0.1, 0.1, 2.5],
                }
            )
        },
        {},
    ),
    (
        "value_ngrams",
        {"direct_ngrams": pa.table({"ngram": WORDS, "n": pa.array([1, 2] * 5 + [1], pa.int32())})},
        {},
    ),
    (
        "repeated_items",
        {
            "items": pa.table(
                {"group_no": pa.array([], pa.int64()), "item_id": pa.array([], pa.int64())}
            )
        },
        {},
    ),
    (
        "ngram_user_counts",
        {
            "ngram_users": pa.table(
                {
                    "ngram_id": pa.array([1, 1, 1, 2, 2, 3, 4, 4], pa.int64()),
                    "user_hash": pa.array([5, 6, 7, 5, 5, None, 9, None], pa.int64()),
                }
            )
        },
        {"k": 3},
    ),
]


@pytest.mark.parametrize(
    ("name", "input_tables", "parameters"), STATEMENTS, ids=[name for name, *_ in STATEMENTS]
)
def test_a_spark_statement_equals_duckdb(
    engine: spark.SparkEngine,
    tmp_path: Path,
    name: str,
    input_tables: dict[str, pa.Table],
    parameters: dict[str, object],
) -> None:
    folder = tmp_path / "odd = {a,b} [c]* ?"  # special characters in a path are literal
    folder.mkdir()
    table_files: dict[str, list[Path]] = {}
    for table, rows in input_tables.items():
        half = rows.num_rows // 2
        table_files[table] = [folder / f"{table}-{no}.parquet" for no in range(2)]
        pq.write_table(rows.slice(0, half), table_files[table][0])
        pq.write_table(rows.slice(half), table_files[table][1])
    text = queries.get_query(name).sql
    local_engine = LocalEngine(workers=1, spill=tmp_path / "local")
    local_engine.sql(text, table_files, tmp_path / "here.parquet", **parameters)
    local_engine.close()
    engine.sql(text, table_files, tmp_path / "there.parquet", **parameters)
    duckdb_result, spark_result = (
        pq.read_table(tmp_path / f"{file_stem}.parquet", partitioning=None)
        for file_stem in ("here", "there")
    )
    assert (
        duckdb_result.to_pylist() == spark_result.to_pylist()
        and duckdb_result.schema.types == spark_result.schema.types
    )
    assert duckdb_result.num_rows or name == "repeated_items"
    column = next(iter(duckdb_result.column_names))
    assert engine.scalar(text, table_files, **parameters) == (
        duckdb_result.column(column)[0].as_py() if duckdb_result.num_rows else None
    )


# ---- tasks: these functions run in Spark's workers, which import this file from its folder ----


def _dies_once(marker: Path) -> int:
    if not marker.exists():
        marker.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def _mark_and_run(task: tuple[int, Path]) -> int:
    number, folder = task
    (folder / str(number)).write_text("")
    if number == 1:
        raise InputRefused("the second task")
    time.sleep(0.2)
    return number


def _run_faulty(fault: str) -> str:
    if fault == "crashes":
        os.kill(os.getpid(), signal.SIGSEGV)
    if fault == "hangs":
        time.sleep(60)
    if fault == "swells":
        bytearray(1 << 34)
    return fault


@pytest.fixture
def this_module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """This file as a module that workers can import as well."""
    import importlib

    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return importlib.import_module(Path(__file__).stem)


def test_a_task_is_retried_and_an_error_stops_the_stage(
    engine: spark.SparkEngine, this_module: Any, tmp_path: Path
) -> None:
    markers = [tmp_path / f"mark-{no}" for no in range(3)]
    markers[0].write_text("")
    results = list(engine.map_shards(this_module._dies_once, markers))
    assert sorted(result.task_no for result in results) == [0, 1, 2] and os.getpid() not in {
        result.result for result in results
    }
    assert all(result.peak_rss_mb > 10 for result in results)
    (tmp_path / "begun").mkdir()
    with pytest.raises(InputRefused, match="the second task"):
        list(
            engine.map_shards(
                this_module._mark_and_run, [(number, tmp_path / "begun") for number in range(60)]
            )
        )
    assert len(list((tmp_path / "begun").iterdir())) < 60


@pytest.mark.timeout(900)
def test_untrusted_tasks_crash_only_their_process(
    engine: spark.SparkEngine, this_module: Any
) -> None:
    tasks = ["crashes", "well", "hangs", "swells"]
    outcomes = dict(
        engine.map_untrusted(
            this_module._run_faulty,
            tasks,
            time_limit=lambda fault: 1.0 if fault == "hangs" else 60.0,
            memory_bytes=1 << 30,
        )
    )
    reasons = [
        outcome.reason if isinstance(outcome, WorkerDied) else outcome.result
        for outcome in (outcomes[task_no] for task_no in range(4))
    ]
    assert reasons == ["crashed", "well", "timed_out", "memory"] and isinstance(
        outcomes[1], TaskResult
    )


def test_workers_with_other_versions_are_refused(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions_here = spark._package_versions()
    for other_versions, message in (
        ({"polars": "0.0"}, "a worker has polars .*, 0.0 runs here"),
        ({"nothing": "1"}, "a worker has no nothing"),
    ):
        monkeypatch.setattr(
            spark,
            "_package_versions",
            lambda other_versions=other_versions: {**versions_here, **other_versions},
        )
        with pytest.raises(UsageError, match=f"{message}.*Install the same versions"):
            spark.SparkEngine(workers=2, spill=tmp_path / "spill")
    assert session.range(3).count() == 3  # the session of the caller is still open


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_run_survives_the_loss_of_a_cluster_worker(corpus: list[Path], tmp_path: Path) -> None:
    """A master and two workers on loopback; one is killed with all its processes while a stage
    runs."""
    import pyspark

    environment = {
        **os.environ,
        "SPARK_HOME": os.path.dirname(pyspark.__file__),
        "SPARK_LOCAL_DIRS": str(tmp_path / "local"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JAVA_TOOL_OPTIONS": JAVA_OPTIONS,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    deploy = [
        os.path.join(environment["SPARK_HOME"], "bin", "spark-class"),
        "org.apache.spark.deploy.",
    ]

    def start(service: str, *options: str) -> subprocess.Popen[bytes]:
        command = [
            deploy[0],
            f"{deploy[1]}{service}",
            "--host",
            "127.0.0.1",
            "--webui-port",
            "0",
            *options,
        ]
        with (tmp_path / f"{service.replace('.', '-')}.log").open("ab") as log:
            return subprocess.Popen(
                command,
                env=environment,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    mails = generate_mails(4_000, 5)
    pq.write_table(mails, tmp_path / "in.parquet")
    arguments = [
        "run",
        tmp_path / "in.parquet",
        "--plan",
        "rmft",
        "--seed",
        "1",
        "--rows-per-shard",
        "100",
        "--json",
    ]
    command_line = [sys.executable, "-m", "sanitize", *map(str, arguments)]
    subprocess.run(
        [*command_line, "-o", str(tmp_path / "here")], cwd=ROOT, check=True, capture_output=True
    )
    daemons = [start("master.Master", "--port", "17077")]
    try:
        worker = (
            "worker.Worker",
            "--cores",
            "1",
            "--memory",
            "1g",
            "--work-dir",
            str(tmp_path / "work"),
            "spark://127.0.0.1:17077",
        )
        daemons += [start(*worker) for _ in range(2)]
        time.sleep(20)
        environment["PYSPARK_SUBMIT_ARGS"] = (
            "--conf spark.driver.host=127.0.0.1 --conf spark.driver.bindAddress=127.0.0.1 --conf"
            " spark.executor.memory=512m pyspark-shell"
        )
        process = subprocess.Popen(
            [
                *command_line,
                "-o",
                str(tmp_path / "there"),
                "--engine",
                "spark",
                "--master",
                "spark://127.0.0.1:17077",
            ],
            env=environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        records = tmp_path / "there.private" / "tasks" / "detect"
        deadline = time.monotonic() + 600
        while (
            len(list(records.glob("*.json"))) < 5
            and process.poll() is None
            and time.monotonic() < deadline
        ):
            time.sleep(0.05)
        finished_tasks = len(list(records.glob("*.json")))
        assert process.poll() is None, process.communicate()
        os.killpg(daemons[1].pid, signal.SIGKILL)
        _, stderr = process.communicate(timeout=900)
        assert process.returncode == 0, stderr
        assert 5 <= finished_tasks < 40, finished_tasks
        print(f"killed with {finished_tasks} of 40 tasks done")
    finally:
        for daemon in daemons:
            os.killpg(daemon.pid, signal.SIGKILL)
            daemon.wait()
    assert hash_files(tmp_path / "here") == hash_files(tmp_path / "there")
    local_tables, cluster_tables = (
        read_tables(tmp_path / "here.private"),
        read_tables(tmp_path / "there.private"),
    )
    assert local_tables == cluster_tables
