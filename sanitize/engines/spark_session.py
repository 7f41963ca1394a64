"""A Spark session: what must be there, how it is begun, and one clear error for each thing that is missing.

A session of this machine alone listens on loopback, shows no pages, writes no log (it might quote values) and spills into WORK. Settings of
a cluster are the user's: only what changes results is set, by the engine.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sanitize.core.engine import bytes_of
from sanitize.errors import MissingExtra, UsageError

JAVA, LEAST = 17, 4  # what Spark 4 runs on, and the first version with all calls that are made here
START, ANSWER = 300.0, 10.0  # seconds for a session or its first workers (a cluster may have to bring them up), and for a port


def fits(master: str | None, remote: str | None) -> None:
    """Refuse what cannot work here, before anything is begun: no pyspark or Java, one that is too old, an address that does not answer."""
    if master and remote:
        raise UsageError("--master and --remote exclude each other: one starts Spark's driver here, the other asks a Connect server")
    try:
        import pyspark
        import sqlglot  # noqa: F401
    except ImportError as error:
        raise MissingExtra(error.name or "pyspark", "spark") from None
    if _leading(pyspark.__version__) < LEAST:
        raise UsageError(
            f"--engine spark: pyspark {pyspark.__version__} is installed, {LEAST} or newer is asked for. "
            "pip install --upgrade 'corpus-sanitize[spark]'"
        )
    remote = _remote(master, remote)
    if remote:
        for module, package in (("grpc", "grpcio"), ("grpc_status", "grpcio-status"), ("zstandard", "zstandard")):
            if importlib.util.find_spec(module) is None:
                raise MissingExtra(package, "spark")
        if not remote.startswith("sc://"):
            raise UsageError(f"--remote {remote}: expected the address of a Spark Connect server, such as sc://host:15002")
        _knock(remote, 15002, "--remote", "a Spark Connect server")
        return
    if master and not re.fullmatch(r"local(\[.*\])?|(spark|k8s)://.+|yarn", master):
        raise UsageError(f"--master {master}: expected local[N], spark://host:7077, k8s://https://host:port or yarn")
    if master and master.startswith("spark://"):
        _knock(master.split(",")[0], 7077, "--master", "a Spark master")
    if "PYSPARK_GATEWAY_PORT" in os.environ or active() is not None:
        return  # there is a driver already
    found = java()
    if found is None or _leading(found) < JAVA:
        there = "there is no Java here" if found is None else f"Java {found or 'of an unknown version'} is here"
        raise UsageError(f"--engine spark: {there}, Spark 4 asks for {JAVA} or newer. Install openjdk-17-jre-headless, or set JAVA_HOME")


def java() -> str | None:
    """The version of the Java that Spark would start; "" where it does not tell, None where there is none."""
    home = os.environ.get("JAVA_HOME")
    command = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if command is None:
        return None
    try:
        done = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r'version "([0-9][0-9._]*)', done.stderr + done.stdout)
    return found[1] if found else ""


def _remote(master: str | None, remote: str | None) -> str | None:
    """The Connect server that is asked for, by the option or by the environment."""
    return remote or (None if master else os.environ.get("SPARK_REMOTE"))


def _knock(address: str, port: int, option: str, what: str) -> None:
    """Refuse an address at which nobody listens; Spark itself would try for minutes."""
    try:
        parts = urlsplit(address)
        host, at = parts.hostname or "", parts.port or port
        with socket.create_connection((host, at), ANSWER):
            return
    except (OSError, ValueError) as error:
        why = type(error).__name__
    raise UsageError(f"{option} {address.split(';')[0]}: nobody answers there ({why}); start {what} there, or give its host and port")


def _leading(version: str) -> int:
    found = re.match(r"[0-9]+", version)
    return int(found[0]) if found else 0


def active() -> Any:
    """The session of this process, where there is one."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    found = SparkSession.getActiveSession()
    if found is None:  # one that was begun in another thread is active there alone; Spark remembers it as its own
        found = getattr(SparkSession, "_instantiatedSession", None)
        if found is not None and getattr(found.sparkContext, "_jsc", None) is None:
            return None  # it was stopped
    return found


def begin(workers: int, spill: Path, memory_limit: str, master: str | None, remote: str | None) -> tuple[Any, bool]:
    """(a session, whether it was made here)."""
    from pyspark.sql import SparkSession

    there = active()
    if there is not None:
        if master or remote:
            raise UsageError("--engine spark: this process has a Spark session already; leave --master and --remote out to use it")
        return there, False
    builder, remote = SparkSession.builder.appName("sanitize"), _remote(master, remote)
    if remote:
        builder = builder.remote(remote)
    else:
        submitted = "PYSPARK_GATEWAY_PORT" in os.environ
        master = master or (None if submitted else f"local[{workers}]")
        settings = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
        if master and master.startswith("local"):
            os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
            master = re.sub(r"\A(local\[[0-9*]+)\]\Z", r"\1,4]", "local[1]" if master == "local" else master)  # four tries, as elsewhere
            settings |= _of_one_machine(workers, spill, memory_limit)
        elif not submitted:
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if master:
            builder = builder.master(master)
        for name, value in settings.items():
            builder = builder.config(name, value)
    made: Future[Any] = Future()

    def start() -> None:  # not in the main thread, where Spark would take the signals
        try:
            made.set_result(builder.getOrCreate())
        except BaseException as error:
            made.set_exception(error)

    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")  # none of it is used here
    with _unheard():
        threading.Thread(target=start, daemon=True).start()
        try:
            session = made.result(START)
            version = str(session.version)
        except Exception as error:
            place = (remote or master or "the cluster of the environment").split(";")[0]  # a token may follow
            raise UsageError(
                f"--engine spark: no session of {place} ({type(error).__name__}); see that it runs, is Spark {LEAST} or newer, "
                "and that its Java is fit (sanitize doctor)"
            ) from None
    if _leading(version) < LEAST:
        session.stop()
        raise UsageError(f"--engine spark: its server is Spark {version}, {LEAST} or newer is asked for")
    return session, True


def _of_one_machine(workers: int, spill: Path, memory_limit: str) -> dict[str, str]:
    """What a session of this machine alone is told: loopback, no pages, no logs, and all that it spills in WORK."""
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.driver.memory": f"{max(bytes_of(memory_limit) >> 20, 1024)}m",
        "spark.driver.extraJavaOptions": "-XX:-UsePerfData",
        "spark.local.dir": str(spill.resolve()),
        "spark.sql.warehouse.dir": str(spill.resolve() / "warehouse"),
        "spark.sql.shuffle.partitions": str(workers),
        "spark.sql.artifact.isolation.enabled": "false",
    }


@contextlib.contextmanager
def _unheard() -> Iterator[None]:
    """What is started in the block says nothing on the terminal: a Java that begins does, and later its log might quote values."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def is_local(session: Any) -> bool:
    """True where the workers are processes of this machine, with our interpreter and file system."""
    return not type(session).__module__.startswith("pyspark.sql.connect") and where(session).startswith("local")


def where(session: Any) -> str:
    """The master of a session, as far as it tells."""
    return str(session.conf.get("spark.master", "the cluster"))
