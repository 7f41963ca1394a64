"""Candidate pairs of near-duplicates by `near_dup`, datasketch and rensa, from texts in memory,
with shingles of five words and the same bands.

Imports neither sanitize nor the other tools: a process has some of them.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

PERMUTATIONS, SHINGLE = 128, 5
Texts = Sequence[pa.Array]  # batches of large_string


def read_texts(source: Path, limit: int | None = None) -> list[pa.Array]:
    """Batches of the texts of a corpus, at most `limit` documents."""
    batches: list[pa.Array] = []
    for path in sorted(source.glob("*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(10_000, columns=["text"], use_threads=False):
            left = len(batch) if limit is None else min(len(batch), limit - sum(map(len, batches)))
            if left > 0:
                batches.append(batch.column(0).slice(0, left).cast(pa.large_string()))
    return batches


def count_mb(texts: Texts) -> float:
    """MB of text."""
    return sum(int(pc.sum(pc.binary_length(batch)).as_py()) for batch in texts) / 1e6


def _iter_shingles(texts: Texts) -> Iterator[list[str]]:
    for batch in texts:
        for text in batch.to_pylist():
            words = re.findall(r"[a-z0-9\u0080-\U0010ffff]+", text.lower())
            ends = range(SHINGLE, max(SHINGLE, len(words)) + 1)
            yield [" ".join(words[end - SHINGLE : end]) for end in ends]


def count_pairs(texts: Texts, bands: int, rows: int) -> int:
    """Pairs of `near_dup`: signatures, bands as a table, and pairs by DuckDB."""
    import numpy as np
    import polars as pl

    from sanitize.core.part_protocols import TextBatch
    from sanitize.droppers.near_dup import BAND_SCHEMA, NearDup
    from sanitize.engines.local import LocalEngine
    from sanitize.storage import queries
    from sanitize.storage.parquet_files import open_table_writer

    part = NearDup(use="near_dup", bands=bands, rows=rows)
    query, first = queries.get_query("near_dup_pairs"), 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with open_table_writer(folder / "bands.parquet", BAND_SCHEMA) as out:
            for batch in texts:
                docs = np.arange(first, first + len(batch))
                first += len(batch)
                cells = np.zeros(len(docs), np.int32)
                out.write_table(
                    part.run_pass("bands", TextBatch(docs, cells, batch, pl.DataFrame()))
                )
        engine = LocalEngine(workers=1, spill=folder / "spill")
        pairs = folder / "pairs.parquet"
        engine.sql(query.sql, {"bands": [folder / "bands.parquet"]}, pairs, **query.bind())
        return int(pq.read_metadata(pairs).num_rows)


def count_pairs_by_datasketch(texts: Texts, bands: int, rows: int) -> int:
    """Pairs that datasketch would compare, document by document."""
    from datasketch import MinHash, MinHashLSH

    index = MinHashLSH(num_perm=PERMUTATIONS, params=(bands, rows))
    first, pairs = MinHash(num_perm=PERMUTATIONS), 0
    for number, shingles in enumerate(_iter_shingles(texts)):
        signature = first.copy()
        signature.update_batch([shingle.encode() for shingle in shingles])
        pairs += len(index.query(signature))
        index.insert(number, signature)
    return pairs


def count_pairs_by_rensa(texts: Texts, bands: int, rows: int) -> int:
    """The same with rensa, whose index uses bands x rows permutations."""
    from rensa import RMinHash, RMinHashLSH

    index, pairs = RMinHashLSH(0.8, bands * rows, bands), 0
    for number, shingles in enumerate(_iter_shingles(texts)):
        signature = RMinHash(bands * rows, 1)
        signature.update(shingles)
        pairs += len(index.query(signature))
        index.insert(number, signature)
    return pairs


METHODS: Mapping[str, Callable[[Texts, int, int], int]] = {
    "near_dup": count_pairs,
    "datasketch": count_pairs_by_datasketch,
    "rensa": count_pairs_by_rensa,
}
