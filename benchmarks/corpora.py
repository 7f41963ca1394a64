"""Seeded corpora of invented mail as Parquet shards, made once and kept outside the repository.

Row groups of 10,000 mails, zstd level 1: typical of published corpora. 500 MB take about 15 seconds
of CPU each.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import runner
from sanitize.cli.generated_mails import MAIL_SCHEMA, generate_mail_batches

# measured over 50,000 mails; only decides how many mails make so many MB
BYTES_PER_MAIL = {"dense": 1_831, "sparse": 1_870}
GROUP = 10_000
FILES = 8
SETTINGS: dict[str, Any] = {"compression": "zstd", "compression_level": 1}


def build(name: str, mb: int, root: Path) -> dict[str, Any]:
    """The corpus `name` (dense or sparse) of about `mb` MB of text, made if it is not there: its
    path, mails and bytes of text."""
    return build_count(name, max(1, round(mb * 1e6 / BYTES_PER_MAIL[name])), root)


def build_count(name: str, mails: int, root: Path) -> dict[str, Any]:
    """The corpus `name` with a given number of mails. It is made in another process: the peak
    memory of a process includes that of its parent at its start."""
    record = root / f"{name}-{mails}-{FILES}-0.json"
    if not record.exists():
        about = runner.run_in_subprocess(_write_corpus, record.with_suffix(""), name, mails)
        record.write_text(json.dumps(about))
    return dict(json.loads(record.read_text()))


def _write_corpus(folder: Path, name: str, mails: int) -> dict[str, Any]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    groups = -(-mails // GROUP)
    files = min(FILES, groups)
    text_bytes, batches = 0, generate_mail_batches(mails, 0, dense=name == "dense")
    written = _iter_groups(batches)
    for shard in range(files):
        # the groups of a shard: 10 groups in 8 files -> 2 1 1 1 2 1 1 1
        first, end = (-(-number * groups // files) for number in (shard, shard + 1))
        with pq.ParquetWriter(folder / f"part-{shard:04d}.parquet", MAIL_SCHEMA, **SETTINGS) as out:
            for _ in range(first, end):
                group = next(written)
                text_bytes += group["text"].nbytes - 8 * (len(group) + group["text"].num_chunks)
                out.write_table(group, row_group_size=GROUP)
    return {
        "path": str(folder),
        "mails": mails,
        "text_mb": text_bytes / 1e6,
        "parquet_mb": sum(file.stat().st_size for file in folder.iterdir()) / 1e6,
        "files": files,
        "seed": 0,
    }


def _iter_groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Tables of 10,000 mails; the last one has the rest."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) >= GROUP:
            yield pa.Table.from_batches(waiting, MAIL_SCHEMA)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting, MAIL_SCHEMA)


def list_shards(source: str | Path) -> list[Path]:
    """The shards of a corpus in their order."""
    return sorted(Path(source).glob("*.parquet"))


def copy_shards(shards: Iterable[Path], folder: Path) -> None:
    """Read and write every row group with one thread."""
    for path in shards:
        shard = pq.ParquetFile(path)
        with pq.ParquetWriter(folder / path.name, shard.schema_arrow, **SETTINGS) as out:
            for group in range(shard.num_row_groups):
                out.write_table(shard.read_row_group(group, use_threads=False))


def measure_copy(source: str) -> runner.Cost:
    """What a plain copy of all shards costs."""
    pa.set_cpu_count(1)
    shards = list_shards(source)
    with tempfile.TemporaryDirectory(dir=Path(source).parent) as folder:
        # not timed: the first pages from the system cost 0.3 s, which would make the floor look
        # slower
        copy_shards(shards[:1], Path(folder))
        return runner.measure_call(lambda: copy_shards(shards, Path(folder)))[0]
