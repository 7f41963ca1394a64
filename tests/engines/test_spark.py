"""Spark makes what this machine makes: every table, and OUT byte for byte. One session for the file; skipped without Java or pyspark."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.demo import mails, write_mbox
from sanitize.engines import spark
from sanitize.indexing import Settings
from sanitize.run import run

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytest.importorskip("sqlglot", reason="sqlglot is not installed")
pytestmark = [
    pytest.mark.skipif(int((spark.java() or "0").split(".")[0] or 0) < spark.JAVA, reason="Spark 4 asks for Java 17, which is not here"),
    pytest.mark.xdist_group("spark"),
]
ROOT = Path(__file__).resolve().parents[2]

# all droppers and all editors that count: every statement but those of a mechanism with a ledger
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


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session of this machine, as the engine makes it."""
    spill = tmp_path_factory.mktemp("session")
    made, mine = spark._session(2, spill, "1GB", "local[2]", None)
    assert mine
    yield made
    made.stop()


@pytest.fixture
def engine(session: Any, tmp_path: Path) -> Iterator[spark.Spark]:
    one = spark.Spark(workers=2, spill=tmp_path / "spill")
    yield one
    one.close()
    assert list((tmp_path / "spill").iterdir()) == []


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Mails in two forms, some of them twice: one is read in place, the other decoded."""
    folder = tmp_path_factory.mktemp("corpus")
    made = mails(90, 3)
    pq.write_table(pa.concat_tables([made.slice(0, 50), made.slice(0, 5)]), folder / "a.parquet")
    write_mbox(made.slice(45), folder / "b.mbox")
    return [folder / "a.parquet", folder / "b.mbox"]


def files(folder: Path) -> dict[str, str]:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def tables(work: Path) -> dict[str, tuple[list[str], list[dict[str, Any]]]]:
    """Every table of a WORK by its place: types and rows, in their order."""
    found = {}
    for path in sorted(work.rglob("*.parquet")):
        table = pq.read_table(path, partitioning=None)
        found[path.relative_to(work).as_posix()] = ([f"{field.name} {field.type}" for field in table.schema], table.to_pylist())
    return found


def settings(**more: Any) -> Settings:
    return Settings(**{"seed": 1, "rows_per_shard": 40, "workers": 1, **more})


@pytest.mark.parametrize("plan", ["rmft", "all"])
def test_a_run_makes_what_this_machine_makes(session: Any, corpus: list[Path], tmp_path: Path, plan: str) -> None:
    if plan == "all":
        (tmp_path / "all.toml").write_text(PLAN)
        plan = str(tmp_path / "all.toml")
    here = run(corpus, tmp_path / "here" / "out", plan, settings=settings())
    there = run(corpus, tmp_path / "there" / "out", plan, settings=settings(engine="spark"))
    assert files(tmp_path / "here" / "out") == files(tmp_path / "there" / "out")
    one, other = tables(tmp_path / "here" / "out.private"), tables(tmp_path / "there" / "out.private")
    assert list(one) == list(other)
    for name in one:
        assert one[name] == other[name], name
    print(len(one), "tables", here["seconds"], there["seconds"])
