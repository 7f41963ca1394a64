"""Opens a Spark session: checks what it needs first, with one clear error for each thing that is
missing.

A session on this machine alone listens on loopback, serves no web UI, writes no log (it might quote
values) and spills into WORK. The settings of a cluster are left to the user: the engine sets only
those that change results.
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

from sanitize.engines.memory_limits import parse_memory_limit
from sanitize.errors import MissingExtra, RemoteUnavailable, UsageError

# Java that Spark 4 needs; the first Spark version with all calls used here
MIN_JAVA_VERSION, MIN_SPARK_VERSION = (17, 4)
# seconds to wait for a session or its first workers (a cluster may have to start them), and for a
# port
SESSION_TIMEOUT_S, CONNECT_TIMEOUT_S = 300.0, 10.0


def validate_environment(master: str | None, remote: str | None) -> None:
    """Raises an error before anything starts: UsageError or MissingExtra where pyspark or Java is
    missing or too old, RemoteUnavailable where an address gives no answer."""
    if master and remote:
        raise UsageError(
            "--master and --remote exclude each other: --master starts Spark's driver here,"
            " --remote uses a Connect server"
        )
    try:
        import pyspark
        import sqlglot  # noqa: F401
    except ImportError as error:
        raise MissingExtra(error.name or "pyspark", "spark") from None
    if _major_version(pyspark.__version__) < MIN_SPARK_VERSION:
        raise UsageError(
            f"--engine spark: pyspark {pyspark.__version__} is installed, {MIN_SPARK_VERSION} or"
            " newer is required. pip install --upgrade 'corpus-sanitize[spark]'"
        )
    remote = _connect_address(master, remote)
    if remote:
        for module, package in (
            ("grpc", "grpcio"),
            ("grpc_status", "grpcio-status"),
            ("zstandard", "zstandard"),
        ):
            if importlib.util.find_spec(module) is None:
                raise MissingExtra(package, "spark")
        if not remote.startswith("sc://"):
            raise UsageError(
                f"--remote {remote}: expected the address of a Spark Connect server, such as"
                " sc://host:15002"
            )
        _require_listener(remote, 15002, "--remote", "a Spark Connect server")
        return
    if master and not re.fullmatch(r"local(\[.*\])?|(spark|k8s)://.+|yarn", master):
        raise UsageError(
            f"--master {master}: expected local[N], spark://host:7077, k8s://https://host:port or"
            " yarn"
        )
    if master and master.startswith("spark://"):
        _require_listener(master.split(",")[0], 7077, "--master", "a Spark master")
    if "PYSPARK_GATEWAY_PORT" in os.environ or find_active_session() is not None:
        return  # a driver runs already
    java_version = find_java_version()
    if java_version is None or _major_version(java_version) < MIN_JAVA_VERSION:
        java_state = (
            "there is no Java"
            if java_version is None
            else f"Java {java_version or 'of an unknown version'} is installed"
        )
        raise UsageError(
            f"--engine spark: {java_state}, Spark 4 requires {MIN_JAVA_VERSION} or newer. Install"
            " openjdk-17-jre-headless, or set JAVA_HOME"
        )


def find_java_version() -> str | None:
    """The version of the Java that Spark would start; "" where it is unknown, None where there is
    no Java."""
    home = os.environ.get("JAVA_HOME")
    command = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if command is None:
        return None
    try:
        process = subprocess.run(  # noqa: S603
            [command, "-version"],
            capture_output=True,
            text=True,
            timeout=20,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    match = re.search(r'version "([0-9][0-9._]*)', process.stderr + process.stdout)
    return match[1] if match else ""


def _connect_address(master: str | None, remote: str | None) -> str | None:
    """The address of the Connect server, from the option or the environment; None without one."""
    return remote or (None if master else os.environ.get("SPARK_REMOTE"))


def _require_listener(address: str, default_port: int, option: str, server_name: str) -> None:
    """Raises RemoteUnavailable if nothing listens at an address, UsageError if it is none; Spark
    itself would retry for minutes."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port or default_port
        with socket.create_connection((host, port), CONNECT_TIMEOUT_S):
            return
    except (OSError, ValueError) as error:
        error_name = type(error).__name__
        error_type = RemoteUnavailable if isinstance(error, OSError) else UsageError
    raise error_type(
        f"{option} {address.split(';')[0]}: no answer ({error_name}); start {server_name} there, or"
        " give its host and port"
    )


def _major_version(version: str) -> int:
    found = re.match(r"[0-9]+", version)
    return int(found[0]) if found else 0


def find_active_session() -> Any:
    """The Spark session of this process, or None."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        # a session started in another thread is active only there; Spark keeps it in this attribute
        session = getattr(SparkSession, "_instantiatedSession", None)
        if session is not None and getattr(session.sparkContext, "_jsc", None) is None:
            return None  # it was stopped
    return session


def open_session(
    workers: int, spill: Path, memory_limit: str, master: str | None, remote: str | None
) -> tuple[Any, bool]:
    """(a session, whether it was created here). Raises UsageError where none can be had."""
    from pyspark.sql import SparkSession

    active = find_active_session()
    if active is not None:
        if master or remote:
            raise UsageError(
                "--engine spark: this process has a Spark session already; leave --master and"
                " --remote out to use it"
            )
        return active, False
    builder, remote = SparkSession.builder.appName("sanitize"), _connect_address(master, remote)
    if remote:
        builder = builder.remote(remote)
    else:
        submitted = "PYSPARK_GATEWAY_PORT" in os.environ
        master = master or (None if submitted else f"local[{workers}]")
        settings = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
        if master and master.startswith("local"):
            os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
            # four attempts a task, Spark's default on clusters
            master = re.sub(
                r"\A(local\[[0-9*]+)\]\Z", r"\1,4]", "local[1]" if master == "local" else master
            )
            settings |= _local_settings(workers, spill, memory_limit)
        elif not submitted:
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if master:
            builder = builder.master(master)
        for name, value in settings.items():
            builder = builder.config(name, value)
    future: Future[Any] = Future()

    def start() -> None:  # not in the main thread, where Spark would install signal handlers
        try:
            future.set_result(builder.getOrCreate())
        except BaseException as error:
            future.set_exception(error)

    # pandas is not used here
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    with _silence_stderr():
        threading.Thread(target=start, daemon=True).start()
        try:
            session = future.result(SESSION_TIMEOUT_S)
            version = str(session.version)
        except Exception as error:
            # the rest may hold a token
            address = (remote or master or "the cluster of the environment").split(";")[0]
            raise UsageError(
                f"--engine spark: cannot open a session on {address} ({type(error).__name__});"
                f" check that it runs, that it is Spark {MIN_SPARK_VERSION} or newer, and that its"
                " Java is supported (sanitize doctor)"
            ) from None
    if _major_version(version) < MIN_SPARK_VERSION:
        session.stop()
        raise UsageError(
            f"--engine spark: its server is Spark {version}, {MIN_SPARK_VERSION} or newer is"
            " required"
        )
    return session, True


def _local_settings(workers: int, spill: Path, memory_limit: str) -> dict[str, str]:
    """The settings of a session on this machine alone: loopback, no web UI, no logs, and all spill
    files in WORK."""
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.driver.memory": f"{max(parse_memory_limit(memory_limit) >> 20, 1024)}m",
        "spark.driver.extraJavaOptions": "-XX:-UsePerfData",
        "spark.local.dir": str(spill.resolve()),
        "spark.sql.warehouse.dir": str(spill.resolve() / "warehouse"),
        "spark.sql.shuffle.partitions": str(workers),
        "spark.sql.artifact.isolation.enabled": "false",
    }


@contextlib.contextmanager
def _silence_stderr() -> Iterator[None]:
    """Discards what the process writes to stderr in the block: a starting Java prints messages, and
    its later log might quote values."""
    sys.stderr.flush()
    saved_fd, null_fd = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null_fd, 2)
        yield
    finally:
        os.dup2(saved_fd, 2)
        os.close(saved_fd)
        os.close(null_fd)


def is_local_session(session: Any) -> bool:
    """True where the workers are processes of this machine, with the same interpreter and file
    system."""
    return not type(session).__module__.startswith("pyspark.sql.connect") and session_master(
        session
    ).startswith("local")


def session_master(session: Any) -> str:
    """The master of a session, or `the cluster` where it does not give one."""
    return str(session.conf.get("spark.master", "the cluster"))
