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

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import corpora, near_duplicates, runner
from sanitize.core.arrow_buffers import TextBuffers, splice
from sanitize.core.keys import Key
from sanitize.core.part_protocols import Aggregates, EditBatch, TextBatch
from sanitize.droppers.near_dup import choose_bands
from sanitize.editors.header_dedup import HeaderDedup
from sanitize.engines.worker_process import tune_malloc
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings

AIMS = {
    "header_dedup_of_plain_copy": 2.0,
    "header_dedup_by_line_of_plain_copy": 2.0,
    "minhash_of_datasketch": 10.0,
    "words_of_polars": 4.0,
    "ngrams_of_polars": 3.0,
}
WORD = r"[\p{L}\p{M}\p{N}]+"


class HeaderDedupBench:
    """Input of header deduplication in memory: batches of texts with their addresses, and the
    aggregates of one run."""

    def __init__(self, source: Path, folder: Path, scope: str) -> None:
        plan = load_plan("header_dedup", [f"edit.0.scope={scope}"])
        settings = Settings(seed=1, workers=1, verify="off")
        work = folder / "work"
        self.summary = run_with_settings([source], folder / "out", plan, work, settings)
        removals = "corpus_passes/edit-0/header_removals.parquet"
        self.counts = Aggregates(
            {"removed_occurrences": work / "runs" / self.summary.run_hash / removals}
        )
        self.part = HeaderDedup.model_validate({"use": "header_dedup", "scope": scope})
        columns = ["doc_no", "cell", "start", "end", "start_byte", "end_byte", "value_id", "kind"]
        files = corpora.list_shards(work / "tables" / "occurrences")
        addresses = (
            pl.concat([pl.read_parquet(file, columns=columns) for file in files])
            .with_columns(pl.col("kind").cast(pl.String))
            .filter(pl.col("kind") == "EMAIL_ADDRESS")
        )
        numbers = addresses["doc_no"].to_numpy()
        texts = near_duplicates.read_texts(source)
        self.text_mb, first = near_duplicates.count_mb(texts), 0
        self.batches: list[tuple[TextBatch, pl.DataFrame]] = []
        for batch in texts:
            docs = np.arange(first, first + len(batch))
            low, high = np.searchsorted(numbers, [first, first + len(batch)])
            own = addresses[int(low) : int(high)]
            numbered = own.with_columns(text_no=pl.col("doc_no") - first)
            cells = np.zeros(len(docs), np.int32)
            self.batches.append((TextBatch(docs, cells, batch, numbered), own))
            first += len(batch)

    def edit(self) -> int:
        """Finds lines and entries of every address, selects and removes spans; returns the number
        of spans removed."""
        self.part.open(Key.from_seed(1), self.counts)
        removed_count = 0
        no_ids = pa.array([], pa.string()).dictionary_encode()
        for text_batch, occurrences in self.batches:
            self.part.run_pass("header_occurrences", text_batch)
            edits = self.part.edit_occurrences(EditBatch(occurrences=occurrences, doc_ids=no_ids))
            assert edits.byte_spans is not None
            buffers = TextBuffers.from_array(text_batch.texts)
            base = buffers.offsets[text_batch.occurrences["text_no"].to_numpy()[edits.rows]]
            starts, stops = base + edits.byte_spans[0], base + edits.byte_spans[1]
            order = np.argsort(starts, kind="stable")
            splice(buffers, starts[order], stops[order], edits.replacement)
            removed_count += len(edits.rows)
        return removed_count


def add_near_duplicates(batches: list[pa.Array]) -> list[pa.Array]:
    """The texts, and every twentieth again with three words appended: near-duplicate pairs."""
    suffix, separator = (pa.scalar(text, pa.large_string()) for text in ("\nSent once more\n", ""))
    return [
        pa.concat_arrays([texts, pc.binary_join_element_wise(texts[::20], suffix, separator)])
        for texts in batches
    ]


def measure_blacklist(source: Path, n: int, repeat: int, folder: Path) -> dict[str, Any]:
    """The stage `blacklist` of runs with n-grams of up to n words: median CPU-seconds, the peak
    memory of the process, and its counts."""
    plan = load_plan("blacklist", [f"blacklist.n={n}", "blacklist.direct=false"])
    settings = Settings(seed=1, workers=1, verify="off")
    rounds = []
    for _ in range(repeat):
        for left in ("out", "work/runs"):  # keeps the index
            shutil.rmtree(folder / left, ignore_errors=True)
        summary = run_with_settings([source], folder / "out", plan, folder / "work", settings)
        stage, counts = summary.stages["blacklist"], summary.to_dict()["blacklist"]
        rounds.append({"cpu_s": stage.cpu_s, "peak_rss_mb": stage.peak_rss_mb})
    counted = {name: counts[name] for name in ("documents", "words", "listed")}
    return {**runner.take_medians(rounds, "cpu_s"), **counted}


def measure_polars(source: Path, n: int, repeat: int) -> dict[str, Any]:
    """The same lists by Polars, and words or n-grams of fewer than two users by size."""
    tune_malloc()

    def count_rare_ngrams() -> list[int]:
        words = (
            pl.scan_parquet(source / "*.parquet")
            .select("user_id", word=pl.col("text").str.to_lowercase().str.extract_all(WORD))
            .with_row_index("doc")
            .collect()
            .explode("word")
        )
        rare_counts = []
        for size in range(1, n + 1):
            # an n-gram does not cross the end of a document
            row = [
                pl.when(pl.col("doc").shift(-at) == pl.col("doc")).then(pl.col("word").shift(-at))
                for at in range(size)
            ]
            ngram = pl.concat_str(row, separator=" ") if size > 1 else pl.col("word")
            pairs = words.select("user_id", ngram=ngram).drop_nulls("ngram").unique()
            rare_counts.append(pairs.group_by("ngram").len().filter(pl.col("len") < 2).height)
        return rare_counts

    rounds = [runner.measure_call(count_rare_ngrams) for _ in range(repeat)]
    cost, listed = rounds[-1]
    return {
        **runner.take_medians([{"cpu_s": cost.cpu_s} for cost, _ in rounds], "cpu_s"),
        "peak_rss_mb": round(cost.peak_rss_mb, 1),
        "listed": listed,
    }


def measure_corpus(source: Path, repeat: int, few: int, scratch: Path) -> dict[str, Any]:
    """All measurements of one corpus, in one process; medians of alternating rounds."""
    tune_malloc()  # as in a worker
    headers, by_line = (
        HeaderDedupBench(source, scratch / scope, scope) for scope in ("address", "line")
    )
    texts, few_texts = (
        add_near_duplicates(near_duplicates.read_texts(source, limit)) for limit in (None, few)
    )
    bands, rows = choose_bands(0.8, near_duplicates.PERMUTATIONS)
    mb, texts_mb, few_mb = headers.text_mb, *map(near_duplicates.count_mb, (texts, few_texts))

    headers.edit(), by_line.edit()  # a warm-up round: memory pages and imports
    rates, outputs = runner.measure_in_turn(
        {
            "plain_copy": (lambda: corpora.copy_shards(corpora.list_shards(source), scratch), mb),
            "header_dedup": (headers.edit, mb),
            "header_dedup_by_line": (by_line.edit, mb),
            "minhash": (lambda: near_duplicates.count_pairs(texts, bands, rows), texts_mb),
            "datasketch": (
                lambda: near_duplicates.count_pairs_by_datasketch(few_texts, bands, rows),
                few_mb,
            ),
        },
        repeat,
    )
    stages, emails = headers.summary.stages, headers.summary.by_kind["EMAIL_ADDRESS"]
    passes = ("corpus_pass", "aggregate", "rewrite")
    whole = sum(stages[name].cpu_s for name in passes if name in stages)
    return {
        "text_mb": mb,
        "documents": headers.summary.documents_in,
        "addresses": emails.occurrences,
        "addresses_removed": emails.replaced,
        "spans_removed": outputs["header_dedup"],
        "bands": bands,
        "rows": rows,
        "candidate_pairs": outputs["minhash"],
        "minhash_text_mb": texts_mb,
        "datasketch_text_mb": few_mb,
        "datasketch_pairs": outputs["datasketch"],
        "mb_per_cpu_s": rates,
        "header_dedup_of_plain_copy": rates["header_dedup"] / rates["plain_copy"],
        "header_dedup_by_line_of_plain_copy": rates["header_dedup_by_line"] / rates["plain_copy"],
        "minhash_of_datasketch": rates["minhash"] / rates["datasketch"],
        # reading, tables, SQL and writing along with it: corpus_pass + aggregate + rewrite of the
        # run, against the copy
        "whole_pass_of_plain_copy": mb / whole / rates["plain_copy"],
    }


def main() -> None:
    parser = runner.build_parser(__doc__, mb=100, repeat=3, dir=runner.SCRATCH)
    parser.add_argument(
        "--few", type=int, default=3_000, help="documents for datasketch, one by one"
    )
    options = parser.parse_args()
    result = runner.start_result(repeat=options.repeat, aims=AIMS, corpora={})
    for name in corpora.BYTES_PER_MAIL:
        source = Path(corpora.build(name, options.mb, options.dir)["path"])
        with tempfile.TemporaryDirectory(dir=options.dir) as folder:
            figures = runner.run_in_subprocess(
                measure_corpus, source, options.repeat, options.few, Path(folder)
            )
        for what, n in (("words", 1), ("ngrams", 3)):
            with tempfile.TemporaryDirectory(dir=options.dir) as folder:
                blacklist = runner.run_in_subprocess(
                    measure_blacklist, source, n, options.repeat, Path(folder)
                )
            polars = runner.run_in_subprocess(measure_polars, source, n, options.repeat)
            figures[what] = {"blacklist": blacklist, "polars": polars}
            figures[f"{what}_of_polars"] = polars["cpu_s"] / blacklist["cpu_s"]
        result["corpora"][name] = figures
        runner.print_aims(figures, AIMS)
    runner.save_result(options.results, "reduce", result)


if __name__ == "__main__":
    main()
