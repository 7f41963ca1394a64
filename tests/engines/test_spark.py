"""Spark gives the results of the local engine: every table, and OUT byte for byte. One session a file; skipped without Java or pyspark."""

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

from sanitize.cli.demo import generate_mails, write_mbox
from sanitize.core.engine import TaskResult, WorkerDied
from sanitize.engines import spark, spark_session
from sanitize.engines.local import LocalEngine
from sanitize.errors import InputRefused, UsageError
from sanitize.pipeline.run import run
from sanitize.plans.settings import Settings
from sanitize.storage import queries

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytest.importorskip("sqlglot", reason="sqlglot is not installed")
JAVA = int((spark_session.find_java_version() or "0").split(".")[0] or 0)
pytestmark = [
    pytest.mark.skipif(
        JAVA < spark_session.MIN_JAVA_VERSION, reason=f"Spark 4 requires Java {spark_session.MIN_JAVA_VERSION}, which is not here"
    ),
    pytest.mark.xdist_group("spark"),
]
ROOT = Path(__file__).resolve().parents[2]
LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # of a Java that lives for a minute

# all droppers and all editors that count: every statement but those of a mechanism with a ledger. A statement takes Spark a second or two:
# the fast form does without the droppers that compare texts and without the blacklist.
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
TEXTS = ('[[drop]]\nuse = "near_dup"\n', '[[drop]]\nuse = "sequence_dup"\n', PLAN[PLAN.index("[blacklist]") :])


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A local session with the engine's settings; code generation is off, which is faster for a few rows."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("JAVA_TOOL_OPTIONS", LIGHT)
        made, mine = spark_session.open_session(2, tmp_path_factory.mktemp("session"), "1GB", "local[2]", None)
    assert mine and spark_session.open_session(2, tmp_path_factory.mktemp("other"), "1GB", None, None) == (made, False)
    made.conf.set("spark.sql.codegen.wholeStage", "false")
    made.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    yield made
    made.stop()


@pytest.fixture
def engine(session: Any, tmp_path: Path) -> Iterator[spark.SparkEngine]:
    one = spark.SparkEngine(workers=2, spill=tmp_path / "spill")
    yield one
    one.close()
    assert list((tmp_path / "spill").iterdir()) == []  # nothing is left of any stage


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Mails in two formats, some of them twice: one is read in place, the other decoded."""
    folder = tmp_path_factory.mktemp("corpus")
    made = generate_mails(90, 3)
    pq.write_table(pa.concat_tables([made.slice(0, 50), made.slice(0, 5)]), folder / "a.parquet")
    write_mbox(made.slice(45), folder / "b.mbox")
    return [folder / "a.parquet", folder / "b.mbox"]


def files(folder: Path) -> dict[str, str]:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def tables(work: Path) -> dict[str, tuple[list[str], list[dict[str, Any]]]]:
    """Every table of a WORK by its path: types and rows, in their order."""
    found = {}
    for path in sorted(work.rglob("*.parquet")):
        table = pq.read_table(path, partitioning=None)
        found[path.relative_to(work).as_posix()] = ([f"{field.name} {field.type}" for field in table.schema], table.to_pylist())
    return found


def settings(**more: Any) -> Settings:
    return Settings(**{"seed": 1, "rows_per_shard": 40, "workers": 1, **more})


@pytest.mark.timeout(900)
@pytest.mark.parametrize("left_out", [TEXTS, pytest.param((), marks=pytest.mark.soak)], ids=["some", "all"])
def test_a_run_makes_what_this_machine_makes(session: Any, corpus: list[Path], tmp_path: Path, left_out: tuple[str, ...]) -> None:
    plan = PLAN
    for part in left_out:
        assert part in plan
        plan = plan.replace(part, "")
    (tmp_path / "all.toml").write_text(plan)
    made = {}
    for engine in ("local", "spark"):
        out = tmp_path / engine / "out"
        summary = run(corpus, out, str(tmp_path / "all.toml"), settings=settings(engine=engine))
        made[engine] = files(out), tables(tmp_path / engine / "out.private"), summary["documents_dropped"]
    one, other = made["local"], made["spark"]
    assert one[0] == other[0] and one[2] == other[2] >= 10
    assert list(one[1]) == list(other[1])
    for name in one[1]:
        assert one[1][name] == other[1][name], name
    work = tmp_path / "spark" / "out.private"
    # a shard in shards/ is, as a link, the one that was published, with the mode of that
    private = [path for path in work.rglob("*") if path.parent.name != "shards"]
    assert [path.relative_to(work) for path in private if stat.S_IMODE(path.stat().st_mode) & 0o077] == []
    assert not (work / "spill").exists()
    again = run(corpus, tmp_path / "spark" / "out", str(tmp_path / "all.toml"), settings=settings())  # the other engine takes it as its own
    assert not again["changed"]


# what the run above does not ask, or not with such rows: nulls, no rows, letters that sort otherwise by other rules than bytes
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
    ("value_ngrams", {"direct_ngrams": pa.table({"ngram": WORDS, "n": pa.array([1, 2] * 5 + [1], pa.int32())})}, {}),
    ("repeated_items", {"items": pa.table({"group_no": pa.array([], pa.int64()), "item_id": pa.array([], pa.int64())})}, {}),
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


@pytest.mark.parametrize(("name", "given", "parameters"), STATEMENTS, ids=[name for name, *_ in STATEMENTS])
def test_a_statement_gives_what_duckdb_gives(
    engine: spark.SparkEngine, tmp_path: Path, name: str, given: dict[str, pa.Table], parameters: dict[str, object]
) -> None:
    folder = tmp_path / "odd = {a,b} [c]* ?"  # a name is only a name
    folder.mkdir()
    there: dict[str, list[Path]] = {}
    for table, rows in given.items():
        half = rows.num_rows // 2
        there[table] = [folder / f"{table}-{no}.parquet" for no in range(2)]
        pq.write_table(rows.slice(0, half), there[table][0])
        pq.write_table(rows.slice(half), there[table][1])
    text = queries.get_query(name).sql
    here = LocalEngine(workers=1, spill=tmp_path / "local")
    here.sql(text, there, tmp_path / "here.parquet", **parameters)
    here.close()
    engine.sql(text, there, tmp_path / "there.parquet", **parameters)
    one, other = (pq.read_table(tmp_path / f"{place}.parquet", partitioning=None) for place in ("here", "there"))
    assert one.to_pylist() == other.to_pylist() and one.schema.types == other.schema.types
    assert one.num_rows or name == "repeated_items"
    column = next(iter(one.column_names))
    assert engine.scalar(text, there, **parameters) == (one.column(column)[0].as_py() if one.num_rows else None)


# ---- tasks: these functions run in Spark's workers, which find this file by its folder ----


def _dies_once(mark: Path) -> int:
    if not mark.exists():
        mark.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def _at(task: tuple[int, Path]) -> int:
    number, folder = task
    (folder / str(number)).write_text("")
    if number == 1:
        raise InputRefused("the second task")
    time.sleep(0.2)
    return number


def _ill(how: str) -> str:
    if how == "crashes":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "hangs":
        time.sleep(60)
    if how == "swells":
        bytearray(1 << 34)
    return how


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> Any:
    """This file as a module that workers can import as well."""
    import importlib

    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return importlib.import_module(Path(__file__).stem)


def test_a_task_is_tried_again_and_its_error_stops_the_rest(engine: spark.SparkEngine, reached: Any, tmp_path: Path) -> None:
    marks = [tmp_path / f"mark-{no}" for no in range(3)]
    marks[0].write_text("")
    done = list(engine.map_shards(reached._dies_once, marks))
    assert sorted(one.task_no for one in done) == [0, 1, 2] and os.getpid() not in {one.result for one in done}
    assert all(one.peak_rss_mb > 10 for one in done)
    (tmp_path / "begun").mkdir()
    with pytest.raises(InputRefused, match="the second task"):
        list(engine.map_shards(reached._at, [(number, tmp_path / "begun") for number in range(60)]))
    assert len(list((tmp_path / "begun").iterdir())) < 60


@pytest.mark.timeout(900)
def test_strangers_files_cost_a_child(engine: spark.SparkEngine, reached: Any) -> None:
    tasks = ["crashes", "well", "hangs", "swells"]
    found = dict(engine.map_untrusted(reached._ill, tasks, time_limit=lambda how: 1.0 if how == "hangs" else 60.0, memory_bytes=1 << 30))
    told = [one.reason if isinstance(one, WorkerDied) else one.result for one in (found[place] for place in range(4))]
    assert told == ["crashed", "well", "timed_out", "memory"] and isinstance(found[1], TaskResult)


def test_workers_that_cannot_do_the_work_are_refused(session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = spark._package_versions()
    for wrong, message in (({"polars": "0.0"}, "a worker has polars .*, 0.0 runs here"), ({"nothing": "1"}, "a worker has no nothing")):
        monkeypatch.setattr(spark, "_package_versions", lambda wrong=wrong: {**here, **wrong})
        with pytest.raises(UsageError, match=f"{message}.*Install the same versions"):
            spark.SparkEngine(workers=2, spill=tmp_path / "spill")
    assert session.range(3).count() == 3  # somebody else's session is left alone


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_cluster_loses_a_worker(corpus: list[Path], tmp_path: Path) -> None:
    """A master and two workers on loopback; one is killed with all its processes while a stage runs."""
    import pyspark

    environment = {
        **os.environ,
        "SPARK_HOME": os.path.dirname(pyspark.__file__),
        "SPARK_LOCAL_DIRS": str(tmp_path / "local"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JAVA_TOOL_OPTIONS": LIGHT,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    deploy = [os.path.join(environment["SPARK_HOME"], "bin", "spark-class"), "org.apache.spark.deploy."]

    def start(what: str, *words: str) -> subprocess.Popen[bytes]:
        command = [deploy[0], f"{deploy[1]}{what}", "--host", "127.0.0.1", "--webui-port", "0", *words]
        with (tmp_path / f"{what.replace('.', '-')}.log").open("ab") as log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)

    made = generate_mails(4_000, 5)
    pq.write_table(made, tmp_path / "in.parquet")
    told = ["run", tmp_path / "in.parquet", "--plan", "rmft", "--seed", "1", "--rows-per-shard", "100", "--json"]
    words = [sys.executable, "-m", "sanitize", *map(str, told)]
    subprocess.run([*words, "-o", str(tmp_path / "here")], cwd=ROOT, check=True, capture_output=True)
    running = [start("master.Master", "--port", "17077")]
    try:
        worker = ("worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / "work"), "spark://127.0.0.1:17077")
        running += [start(*worker) for _ in range(2)]
        time.sleep(20)
        environment["PYSPARK_SUBMIT_ARGS"] = (
            "--conf spark.driver.host=127.0.0.1 --conf spark.driver.bindAddress=127.0.0.1 --conf spark.executor.memory=512m pyspark-shell"
        )
        run_ = subprocess.Popen(
            [*words, "-o", str(tmp_path / "there"), "--engine", "spark", "--master", "spark://127.0.0.1:17077"],
            env=environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        records = tmp_path / "there.private" / "tasks" / "detect"
        until = time.monotonic() + 600
        while len(list(records.glob("*.json"))) < 5 and run_.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        at = len(list(records.glob("*.json")))
        assert run_.poll() is None, run_.communicate()
        os.killpg(running[1].pid, signal.SIGKILL)
        _, said = run_.communicate(timeout=900)
        assert run_.returncode == 0, said
        assert 5 <= at < 40, at
        print(f"killed with {at} of 40 tasks done")
    finally:
        for one in running:
            os.killpg(one.pid, signal.SIGKILL)
            one.wait()
    assert files(tmp_path / "here") == files(tmp_path / "there")
    here, there = tables(tmp_path / "here.private"), tables(tmp_path / "there.private")
    assert here == there
