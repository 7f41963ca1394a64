"""One corpus, one output: for any division into files, shards and batches, any format, any number
of workers and threads, killed or not, in a run or in a stream. Each corpus goes through each
driver, and is compared with one run over one file by one worker. Everybody in it is invented.

`tests/pipeline/test_invariants.py` draws corpora for the division into files and batches,
`test_crash.py` ends a run at each failpoint; Spark and remote storage are compared in
`tests/engines` and `tests/storage`.
"""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sanitize
from sanitize.cli.generated_mails import generate_mails
from sanitize.editors import rmft
from sanitize.plans.plan import load_plan
from sanitize.reporting import outcomes
from sanitize.storage import corpus as storage_corpus
from sanitize.verification import batch_check
from tests.editors.test_pseudonymize import ALL
from tests.pipeline.test_invariants import build_forty_documents, to_table
from tests.support import read_files, read_rows

ROOT = Path(__file__).resolve().parents[2]
ROWS_PER_SHARD = 16
TABLES_OF_RUN = ("edits", "kept", "vault/labels", "sweep")


@dataclass(frozen=True)
class CorpusCase:
    """Documents, and what is done with them."""

    make_table: Callable[[], pa.Table]
    plan: str
    changes: tuple[str, ...] = ()
    policies: dict[str, Any] = field(default_factory=dict)
    looks_ahead: bool = True  # a document's result depends on later documents

    def run(self, inputs: Path, out: Path, **settings: Any) -> None:
        options = {"seed": 7, "workers": 1, "rows_per_shard": ROWS_PER_SHARD, **settings}
        sanitize.run(
            inputs, out, plan=load_plan(self.plan, self.changes), **options, **self.policies
        )


def make_mails() -> pa.Table:
    return generate_mails(48, 5)


def make_records_of_people() -> pa.Table:
    people = ["Maria Kowalski", "Peter Lindqvist", "hschmidt69", "zyq_otter"]
    texts = [f"{one} met {other}" for one in people for other in people]
    return pa.table({"text": texts * 2, "whom": people * 8})


def make_lists_of_values() -> pa.Table:
    texts = [
        " , ".join(ALL[(no * 7 + step * step) % len(ALL)] for step in range(6)) for no in range(32)
    ]
    return pa.table({"doc_id": [f"d{no}" for no in range(len(texts))], "text": texts})


CORPORA = {
    "mails": CorpusCase(make_mails, "rmft"),
    "mails, in two rounds": CorpusCase(make_mails, "names"),
    "nested records": CorpusCase(
        lambda: to_table(build_forty_documents()),
        "redact",
        ("edit.0.label=numbered",),
        looks_ahead=False,
    ),
    "names in a column": CorpusCase(make_records_of_people, "surrogates", (), {"drop": "whom"}),
    "pseudonyms": CorpusCase(make_lists_of_values, "pseudonymize", ('edit.0.scope="corpus"',)),
}


# ---- drivers: each returns the folder of its output ----


def write_files(table: pa.Table, folder: Path, files: int, row_group_size: int) -> Path:
    """Write the documents as a number of Parquet files in one folder, in order."""
    folder.mkdir(parents=True)
    for no in range(files):
        start, end = len(table) * no // files, len(table) * (no + 1) // files
        part = table.slice(start, end - start)
        pq.write_table(part, folder / f"{no:02d}.parquet", row_group_size=row_group_size)
    return folder


def run_three_files(case: CorpusCase, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in small row groups and batches, computed in small slices."""
    for module, name, rows in (
        (storage_corpus, "BATCH_ROWS", 11),
        (rmft, "_DRAWN_AT_ONCE", 5),
        (batch_check, "_MATCHES_AT_ONCE", 5),
        (outcomes, "_ROWS_AT_ONCE", 5),
    ):
        assert getattr(module, name) > 1000
        monkeypatch.setattr(module, name, rows)
    case.run(write_files(case.make_table(), folder / "in", 3, 5), folder / "out")


def run_formats(case: CorpusCase, folder: Path, _monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of each format in one folder; of nested records those of JSON and Arrow."""
    table = case.make_table()
    rows = table.to_pylist()
    cuts = [len(rows) * no // 4 for no in range(5)]
    parts = [rows[start:end] for start, end in zip(cuts, cuts[1:], strict=False)]
    source = folder / "in"
    source.mkdir()
    (source / "0.jsonl").write_text("".join(json.dumps(row) + "\n" for row in parts[0]), "utf-8")
    (source / "1.json").write_text(json.dumps(parts[1], indent=1), "utf-8")
    with pa.ipc.new_stream(source / "2.arrow", table.schema) as stream:
        stream.write_table(table.slice(cuts[2], cuts[3] - cuts[2]), max_chunksize=3)
    with (source / "3.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, table.schema.names)
        writer.writeheader()
        writer.writerows(parts[3])
    case.run(source, folder / "out")


def run_other_shards(case: CorpusCase, folder: Path, _monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_files(case.make_table(), folder / "in", 1, 1000)
    case.run(source, folder / "out", rows_per_shard=37)


def run_two_workers(case: CorpusCase, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By two workers of several threads, over the files of the reference."""
    for name in ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "ARROW_IO_THREADS"):
        monkeypatch.setenv(name, "4")
    source = write_files(case.make_table(), folder / "in", 1, 1000)
    case.run(source, folder / "out", workers=2)


def run_killed(case: CorpusCase, folder: Path, _monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed with its two workers while they rewrite, and resumed by one."""
    source = write_files(case.make_table(), folder / "in", 1, 1000)
    code = f"""
import os, signal
import sanitize
from sanitize.plans.plan import load_plan

def kill(update):
    if update.stage == "rewrite" and update.tasks_done:
        os.killpg(0, signal.SIGKILL)

if __name__ == "__main__":
    sanitize.run({str(source)!r}, {str(folder / "out")!r}, plan=load_plan({case.plan!r}, {case.changes!r}),
        seed=7, workers=2, rows_per_shard={ROWS_PER_SHARD}, progress=kill, **{case.policies!r})
"""  # noqa: E501
    (folder / "killed.py").write_text(code, "utf-8")
    killed = subprocess.run(
        [sys.executable, str(folder / "killed.py")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        timeout=600,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()[-2000:]
    assert not (folder / "out").exists()
    case.run(source, folder / "out")


def stream_records(case: CorpusCase, folder: Path, _monkeypatch: pytest.MonkeyPatch) -> None:
    records = case.make_table().to_pylist()
    plan = load_plan(case.plan, case.changes)
    clean = list(sanitize.stream(records, plan=plan, seed=7, batch=9, **case.policies))
    (folder / "out" / "data").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(clean), folder / "out" / "data" / "0.parquet")


def read_all(out: Path) -> object:
    """Every published file, also card, report and manifest."""
    return read_files(out)


def read_shards(out: Path) -> object:
    """The bytes of the shards, the tables behind them, and the summary."""
    work = out.with_name("out.private")
    (run_folder,) = (work / "runs").iterdir()
    tables = {name: read_rows(run_folder / name) for name in TABLES_OF_RUN}
    tables["occurrences"] = read_rows(work / "tables" / "occurrences")
    shards = {name: raw for name, raw in read_files(out).items() if name.startswith("data/")}
    summary = json.loads((out / "manifest.json").read_text())["summary"]
    del summary["run_hash"]  # also depends on the input files
    return shards, tables, summary


def read_documents(out: Path) -> object:
    return read_rows(out / "data")


# driver, and what of its output has to be the same
DRIVERS: dict[str, tuple[Callable[..., None], Callable[[Path], object]]] = {
    "three files": (run_three_files, read_shards),
    "a file of each format": (run_formats, read_shards),
    "other shards": (run_other_shards, read_documents),
    "two workers": (run_two_workers, read_all),
    "killed and resumed": (run_killed, read_all),
    "a stream": (stream_records, read_documents),
}


# new processes take seconds: these drivers have some of the corpora, `make soak` has all
CORPORA_BY_DRIVER = {
    "two workers": ("mails, in two rounds", "names in a column"),
    "killed and resumed": ("nested records", "pseudonyms"),
}


def list_cells() -> Iterator[Any]:
    """Yields each corpus with each driver that can read it."""
    for name, case in CORPORA.items():
        for driver in DRIVERS:
            if driver == "a stream" and case.looks_ahead:
                continue
            if driver == "a file of each format" and name == "nested records":
                continue  # CSV has no nested records and no numbers
            is_soak = name not in CORPORA_BY_DRIVER.get(driver, CORPORA)
            yield pytest.param(name, driver, marks=pytest.mark.soak if is_soak else ())


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The output of one run of a corpus over one file by one worker."""
    outputs: dict[str, Path] = {}

    def run_once(corpus: str) -> Path:
        if corpus not in outputs:
            folder = tmp_path_factory.mktemp("reference")
            case = CORPORA[corpus]
            case.run(write_files(case.make_table(), folder / "in", 1, 1000), folder / "out")
            outputs[corpus] = folder / "out"
        return outputs[corpus]

    return run_once


@pytest.mark.slow
@pytest.mark.parametrize(("corpus", "driver"), [*list_cells()])
def test_each_driver_gives_the_same_output(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reference: Callable[[str], Path],
    corpus: str,
    driver: str,
) -> None:
    expected = reference(corpus)
    run_driver, read_output = DRIVERS[driver]
    run_driver(CORPORA[corpus], tmp_path, monkeypatch)
    monkeypatch.undo()
    found = read_output(tmp_path / "out")
    assert found == read_output(expected)
    assert len(list((expected / "data").iterdir())) > 1  # the division of work has a meaning
    summary = json.loads((expected / "manifest.json").read_text())["summary"]
    assert summary["verify"]["swept"] or corpus != "names in a column"  # shards are swept, too
