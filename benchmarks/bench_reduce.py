"""Measures header deduplication, near-duplicate search and blacklists, as ratios in CPU-seconds of
one process and one thread.

    python -m benchmarks.bench_reduce                    benchmarks/results/reduce.json
    python -m benchmarks.bench_reduce --mb 10 --repeat 1 --results /tmp/x      a smoke run

Header deduplication is measured in its own edit work: finding the header lines and entries of every
address, selecting the spans to remove, and splicing the texts, over texts and occurrences in
memory; the plain copy reads and writes the same shards (zstd level 1). The whole pass, with its
reading and its tables, is reported too. MinHash with LSH is measured from texts to candidate pairs,
against datasketch document by document (`MinHash.update_batch`, then `MinHashLSH.query` and
`insert`) on the first documents of the same corpus, which have the same words and the same bands;
every twentieth text occurs twice, the second time with three words more. The blacklist (k = 2) is
measured as the stage of a run, from shards to its table, with all that it reads, writes and checks;
Polars splits the same shards into words, joins them to n-grams, and counts distinct users by
`explode`, `unique` and `group_by`. Its lists are longer: they include n-grams that contain a listed
shorter one.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import corpora
from benchmarks.bench import ONE_THREAD, build_in_subprocess, describe_machine
from sanitize.pipeline.run import run_with_settings

AIMS = {
    "header_dedup_of_plain_copy": 2.0,
    "header_dedup_by_line_of_plain_copy": 2.0,
    "minhash_of_datasketch": 10.0,
    "words_of_polars": 4.0,
    "ngrams_of_polars": 3.0,
}
WORD = r"[\p{L}\p{M}\p{N}]+"


def measure_cpu_s(work: Callable[[], Any]) -> tuple[float, Any]:
    """The CPU-seconds of this process, and the result."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    result = work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, result


def measure_in_turn(
    methods: Mapping[str, tuple[Callable[[], Any], int]], repeat: int
) -> tuple[dict[str, float], dict[str, Any]]:
    """The rate of each method in units per CPU-second (medians of rounds that take turns), and its
    last output. A method is a call, and the units that it processes, such as tokens."""
    spent: dict[str, list[float]] = {name: [] for name in methods}
    outputs: dict[str, Any] = {}
    for _ in range(repeat):
        for name, (work, _) in methods.items():
            seconds, outputs[name] = measure_cpu_s(work)
            spent[name].append(seconds)
    return {
        name: units / statistics.median(spent[name]) for name, (_, units) in methods.items()
    }, outputs


def plain_copy(source: Path, target: Path) -> None:
    """Read and write every row group."""
    import pyarrow.parquet as pq

    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for path in sorted(source.glob("*.parquet")):
        shard = pq.ParquetFile(path)
        with pq.ParquetWriter(
            target / path.name, shard.schema_arrow, compression="zstd", compression_level=1
        ) as out:
            for group in range(shard.num_row_groups):
                out.write_table(shard.read_row_group(group, use_threads=False))


class HeaderDedupBench:
    """Input of header deduplication in memory: batches of texts with their addresses, and the
    aggregates of one run."""

    def __init__(self, source: Path, folder: Path, scope: str) -> None:
        import numpy as np
        import polars as pl
        import pyarrow as pa
        import pyarrow.parquet as pq

        from sanitize.core.part_protocols import Aggregates, TextBatch
        from sanitize.editors.header_dedup import HeaderDedup
        from sanitize.plans.plan import load_plan
        from sanitize.plans.settings import Settings

        settings = Settings(seed=1, workers=1, verify="off")
        began = time.process_time()
        self.summary = run_with_settings(
            [source],
            folder / "out",
            load_plan("header_dedup", [f"edit.0.scope={scope}"]),
            folder / "work",
            settings,
        )
        self.run_cpu_s = time.process_time() - began
        pass_folder = folder / "work" / "runs" / self.summary.plan_hash / "corpus_passes"
        self.part = HeaderDedup.model_validate({"use": "header_dedup", "scope": scope})
        self.counts = Aggregates(
            {"removed_occurrences": pass_folder / "edit-0" / "header_removals.parquet"}
        )
        columns = ["doc_no", "cell", "start", "end", "start_byte", "end_byte", "value_id", "kind"]
        files = sorted((folder / "work" / "tables" / "occurrences").glob("*.parquet"))
        table = pa.concat_tables([pq.read_table(file, columns=columns) for file in files])
        addresses = (
            pl.DataFrame(table)
            .with_columns(pl.col("kind").cast(pl.String))
            .filter(pl.col("kind") == "EMAIL_ADDRESS")
        )
        numbers = addresses["doc_no"].to_numpy()
        self.batches: list[tuple[TextBatch, pl.DataFrame]] = []
        self.text_bytes, first = 0, 0
        for path in sorted(source.glob("*.parquet")):
            for batch in pq.ParquetFile(path).iter_batches(
                10_000, columns=["text"], use_threads=False
            ):
                texts = batch.column(0).cast(pa.large_string())
                docs = np.arange(first, first + len(texts))
                first += len(texts)
                low, high = np.searchsorted(numbers, [docs[0], docs[-1] + 1])
                batch_addresses = addresses[int(low) : int(high)]
                numbered_addresses = batch_addresses.with_columns(
                    text_no=pl.col("doc_no") - int(docs[0])
                )
                self.batches.append(
                    (
                        TextBatch(docs, np.zeros(len(docs), np.int32), texts, numbered_addresses),
                        batch_addresses,
                    )
                )
                self.text_bytes += texts.nbytes - 8 * (len(texts) + 1)

    def edit(self) -> int:
        """Finds lines and entries of every address, selects and removes spans; returns the number
        of spans removed."""
        import numpy as np
        import pyarrow as pa

        from sanitize.core.arrow_buffers import TextBuffers, splice
        from sanitize.core.keys import Key
        from sanitize.core.part_protocols import EditBatch

        self.part.open(Key.from_seed(1), self.counts)
        removed_count = 0
        for text_batch, occurrences in self.batches:
            self.part.run_pass("header_occurrences", text_batch)
            batch = EditBatch(
                occurrences=occurrences, doc_ids=pa.array([], pa.string()).dictionary_encode()
            )
            edits = self.part.edit_occurrences(batch)
            assert edits.byte_spans is not None
            buffers = TextBuffers.from_array(text_batch.texts)
            base = buffers.offsets[text_batch.occurrences["text_no"].to_numpy()[edits.rows]]
            starts, stops = base + edits.byte_spans[0], base + edits.byte_spans[1]
            order = np.argsort(starts, kind="stable")
            splice(buffers, starts[order], stops[order], edits.replacement)
            removed_count += len(edits.rows)
        return removed_count


def read_text_batches(source: Path, limit: int | None = None) -> list[Any]:
    """Batches of texts, at most `limit` documents."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    batches: list[Any] = []
    for path in sorted(source.glob("*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(10_000, columns=["text"], use_threads=False):
            left = len(batch) if limit is None else min(len(batch), limit - sum(map(len, batches)))
            if left > 0:
                batches.append(batch.column(0).slice(0, left).cast(pa.large_string()))
    return batches


def count_text_mb(batches: list[Any]) -> float:
    """MB of text, without the offsets."""
    return sum(int(texts.nbytes) - 8 * (len(texts) + 1) for texts in batches) / 1e6


def add_near_duplicates(batches: list[Any]) -> list[Any]:
    """The texts, and every twentieth again with three words appended: near-duplicate pairs."""
    import pyarrow as pa
    import pyarrow.compute as pc

    suffix, separator = (
        pa.scalar("\nSent once more\n", pa.large_string()),
        pa.scalar("", pa.large_string()),
    )
    copies = [texts.take(pa.array(range(0, len(texts), 20))) for texts in batches]
    return [
        pa.concat_arrays([texts, pc.binary_join_element_wise(batch_copies, suffix, separator)])
        for texts, batch_copies in zip(batches, copies, strict=True)
    ]


def count_near_duplicate_pairs(batches: list[Any], bands: int, rows: int, folder: Path) -> int:
    """Signatures, bands as a table, and candidate pairs by DuckDB."""
    import numpy as np
    import polars as pl
    import pyarrow.parquet as pq

    from sanitize.core.part_protocols import TextBatch
    from sanitize.droppers.near_dup import BAND_SCHEMA, NearDup
    from sanitize.engines.local import LocalEngine
    from sanitize.storage import queries
    from sanitize.storage.parquet_files import open_table_writer

    part = NearDup(use="near_dup", bands=bands, rows=rows)
    first = 0
    with open_table_writer(folder / "bands.parquet", BAND_SCHEMA) as out:
        for texts in batches:
            docs = np.arange(first, first + len(texts))
            first += len(texts)
            out.write_table(
                part.run_pass(
                    "bands", TextBatch(docs, np.zeros(len(docs), np.int32), texts, pl.DataFrame())
                )
            )
    engine = LocalEngine(workers=1, spill=folder / "spill")
    one = queries.get_query("near_dup_pairs")
    engine.sql(
        one.sql, {"bands": [folder / "bands.parquet"]}, folder / "pairs.parquet", **one.bind()
    )
    return int(pq.read_metadata(folder / "pairs.parquet").num_rows)


def count_pairs_with_datasketch(batches: list[Any], bands: int, rows: int) -> int:
    """The same by datasketch, one document at a time; the number of pairs that it would compare."""
    from datasketch import MinHash, MinHashLSH

    index = MinHashLSH(num_perm=128, params=(bands, rows))
    first = MinHash(num_perm=128)
    pairs = number = 0
    for texts in batches:
        for text in texts.to_pylist():
            words = re.findall(r"[a-z0-9\u0080-\U0010ffff]+", text.lower())
            one = first.copy()
            one.update_batch(
                [" ".join(words[at : at + 5]).encode() for at in range(max(1, len(words) - 4))]
            )
            pairs += len(index.query(one))
            index.insert(number, one)
            number += 1
    return pairs


def measure_blacklist(source: Path, n: int, repeat: int, folder: Path) -> dict[str, Any]:
    """The stage `blacklist` of runs with n-grams of up to n words: median CPU-seconds, the peak
    memory of the process, and its counts."""
    from sanitize.plans.plan import load_plan
    from sanitize.plans.settings import Settings

    plan = load_plan("blacklist", [f"blacklist.n={n}", "blacklist.direct=false"])
    spent, peak_rss_mb, counts = [], 0.0, None
    for _ in range(repeat):
        for left in ("out", "work/runs"):  # keeps the index
            shutil.rmtree(folder / left, ignore_errors=True)
        summary = run_with_settings(
            [source],
            folder / "out",
            plan,
            folder / "work",
            Settings(seed=1, workers=1, verify="off"),
        )
        spent.append(summary.stages["blacklist"].cpu_s)
        peak_rss_mb, counts = (
            summary.stages["blacklist"].peak_rss_mb,
            summary.to_dict()["blacklist"],
        )
    shutil.rmtree(folder)
    return {
        "cpu_s": statistics.median(spent),
        "peak_rss_mb": peak_rss_mb,
        **{name: counts[name] for name in ("documents", "words", "listed") if counts},
    }


def measure_polars(source: Path, n: int, repeat: int) -> dict[str, Any]:
    """The same lists by Polars, and words or n-grams of fewer than two users by size."""
    import polars as pl

    from sanitize.engines.worker_process import tune_malloc

    tune_malloc()

    def count_rare_ngrams() -> list[int]:
        frame = pl.concat(
            [
                pl.read_parquet(path, columns=["user_id", "text"])
                for path in sorted(source.glob("*.parquet"))
            ]
        )
        words = (
            frame.select("user_id", word=pl.col("text").str.to_lowercase().str.extract_all(WORD))
            .with_row_index("doc")
            .explode("word")
        )
        rare_counts = []
        for size in range(1, n + 1):
            # an n-gram does not cross the end of a document
            row = [
                pl.when(pl.col("doc").shift(-at) == pl.col("doc")).then(pl.col("word").shift(-at))
                for at in range(size)
            ]
            grams = (
                words.select("user_id", ngram=pl.concat_str(row, separator=" ")).drop_nulls("ngram")
                if size > 1
                else words
            )
            pairs = (
                grams.rename({"word": "ngram"} if size == 1 else {})
                .select("user_id", "ngram")
                .unique()
            )
            rare_counts.append(pairs.group_by("ngram").len().filter(pl.col("len") < 2).height)
        return rare_counts

    rounds = [measure_cpu_s(count_rare_ngrams) for _ in range(repeat)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "cpu_s": statistics.median(spent for spent, _ in rounds),
        "peak_rss_mb": round(peak, 1),
        "listed": rounds[0][1],
    }


def measure_corpus(source: Path, repeat: int, few: int, scratch: Path) -> dict[str, Any]:
    """All measurements of one corpus, in one process; medians of alternating rounds."""
    from sanitize.engines.worker_process import tune_malloc

    tune_malloc()  # as in a worker
    scratch.mkdir(parents=True)
    headers, by_line = (
        HeaderDedupBench(source, scratch / "address", "address"),
        HeaderDedupBench(source, scratch / "line", "line"),
    )
    batches, small = (
        add_near_duplicates(read_text_batches(source)),
        add_near_duplicates(read_text_batches(source, few)),
    )
    small_mb, near_mb = count_text_mb(small), count_text_mb(batches)
    mb = headers.text_bytes / 1e6
    from sanitize.droppers.near_dup import choose_bands

    bands, rows = choose_bands(0.8, 128)
    rounds: dict[str, list[float]] = {
        name: []
        for name in ("plain_copy", "header_dedup", "header_dedup_by_line", "minhash", "datasketch")
    }
    removed_count = pairs = datasketch_pairs = 0
    headers.edit(), by_line.edit()  # a warm-up round: memory pages and imports
    for _ in range(repeat):
        rounds["plain_copy"].append(
            measure_cpu_s(lambda: plain_copy(source, scratch / "copy"))[0] / mb
        )
        spent, removed_count = measure_cpu_s(headers.edit)
        rounds["header_dedup"].append(spent / mb)
        rounds["header_dedup_by_line"].append(measure_cpu_s(by_line.edit)[0] / mb)
        spent, pairs = measure_cpu_s(
            lambda: count_near_duplicate_pairs(batches, bands, rows, scratch)
        )
        rounds["minhash"].append(spent / near_mb)
        spent, datasketch_pairs = measure_cpu_s(
            lambda: count_pairs_with_datasketch(small, bands, rows)
        )
        rounds["datasketch"].append(spent / small_mb)
    rates = {name: 1 / statistics.median(spent) for name, spent in rounds.items()}
    stages = headers.summary.stages
    whole = sum(
        stages[name].cpu_s for name in ("corpus_pass", "aggregate", "rewrite") if name in stages
    )
    return {
        "text_mb": mb,
        "documents": headers.summary.documents_in,
        "addresses": headers.summary.by_kind["EMAIL_ADDRESS"].occurrences,
        "addresses_removed": headers.summary.by_kind["EMAIL_ADDRESS"].replaced,
        "spans_removed": removed_count,
        "bands": bands,
        "rows": rows,
        "candidate_pairs": pairs,
        "minhash_text_mb": near_mb,
        "datasketch_text_mb": small_mb,
        "datasketch_pairs": datasketch_pairs,
        "mb_per_cpu_s": rates,
        "header_dedup_of_plain_copy": rates["header_dedup"] / rates["plain_copy"],
        "header_dedup_by_line_of_plain_copy": rates["header_dedup_by_line"] / rates["plain_copy"],
        "minhash_of_datasketch": rates["minhash"] / rates["datasketch"],
        # reading, tables, SQL and writing along with it: corpus_pass + aggregate + rewrite of the
        # run, against the copy
        "whole_pass_of_plain_copy": mb / whole / rates["plain_copy"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=int, default=100, help="MB of text in each corpus")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument(
        "--few", type=int, default=3_000, help="documents for datasketch, one by one"
    )
    parser.add_argument(
        "--dir",
        type=Path,
        default=corpora.corpora_folder(),
        help="folder of corpora and scratch copies",
    )
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    os.environ.update(ONE_THREAD)  # before anything that reads it is imported
    options.dir.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=options.dir))
    result: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "machine": describe_machine(),
        "repeat": options.repeat,
        "aims": AIMS,
    }
    try:
        result["corpora"] = {}
        for name in corpora.BYTES_PER_MAIL:
            about = build_in_subprocess(corpora.build, name, options.mb, options.dir)
            one = build_in_subprocess(
                measure_corpus, Path(about["path"]), options.repeat, options.few, scratch / name
            )
            for what, n in (("words", 1), ("ngrams", 3)):
                blacklist_result = build_in_subprocess(
                    measure_blacklist,
                    Path(about["path"]),
                    n,
                    options.repeat,
                    scratch / f"{name}-{n}",
                )
                polars_result = build_in_subprocess(
                    measure_polars, Path(about["path"]), n, options.repeat
                )
                one |= {
                    what: {"blacklist": blacklist_result, "polars": polars_result},
                    f"{what}_of_polars": polars_result["cpu_s"] / blacklist_result["cpu_s"],
                }
            result["corpora"][name] = one
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "reduce.json").write_text(json.dumps(result, indent=1) + "\n")
    for name, one in result["corpora"].items():
        for what, aim in AIMS.items():
            print(f"{name}: {what} {one[what]:.2f} (aim {aim:g})")


if __name__ == "__main__":
    main()
