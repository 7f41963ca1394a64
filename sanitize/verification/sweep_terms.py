"""Search terms of the sweep in a run with full verification: the passes of the full check, and the additional forms to sweep.

The additional forms are identity forms, digits, and those digests of values that occur in texts. A word of hexadecimal digits inside a
kept original, or inside an atomic value that the plan leaves, is not swept. Costs one pass over the texts, and the digests of all values
if any such word occurs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core.arrow_buffers import fill_null_texts
from sanitize.core.engine import Engine
from sanitize.storage.corpus import flatten_cells
from sanitize.text.decodings import find_digests
from sanitize.text.literal_search import prepare_terms
from sanitize.verification.attribution import VerifyTask, read_shard_batches, within_kept_or_atomic
from sanitize.verification.value_forms import TERM_SCHEMA, SearchTerms, write_passes, write_sweep_terms

_WORD_SCHEMA = pa.schema([("word", pa.string())])


@dataclass(frozen=True)
class DigestTask:
    """One shard, and the file for its words that may be digests and are outside kept originals and atomic values."""

    shard_task: VerifyTask
    words_path: Path
    temp_path: Path | None = None  # where an attempt writes `words_path` before it is renamed

    def for_attempt(self, folder: Path) -> DigestTask:
        """The task for one of several concurrent attempts: with a temp path in `folder`."""
        return replace(self, temp_path=folder / "words.parquet")


def prepare_sweep_terms(
    engine: Engine,
    shards: Sequence[VerifyTask],
    values: Sequence[Path],
    edited_kinds: Sequence[str],
    include_ids: Sequence[int],
    exclude_ids: Sequence[int],
    spill: Path,
    memory_bytes: int,
) -> tuple[list[Path], tuple[Path, ...]]:
    """Write the passes over the removed values (see `write_passes`) and the prepared files for `VerifyTask.sweep_terms` to `spill`."""
    passes, _ = write_passes(values, edited_kinds, spill / "passes", memory_bytes, include_ids, exclude_ids)
    term_files = write_sweep_terms(values, edited_kinds, spill / "sweep_terms", include_ids, exclude_ids)
    digest_file = write_digest_terms(engine, shards, passes, spill / "digest_terms")
    return passes, tuple(prepare_terms(path, path.with_suffix(""), memory_bytes) for path in (*term_files, digest_file))


def write_digest_terms(engine: Engine, shards: Sequence[VerifyTask], passes: Sequence[Path], folder: Path) -> Path:
    """Write the digests of values of the passes that occur in texts of the shards, as a file for `prepare_terms`; returns it.

    Temporary files are written to `folder`, too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tasks = [DigestTask(shard, folder / f"{shard.shard_no:06d}.parquet") for shard in shards]
    word_files = [tasks[done.task_no].words_path for done in engine.map_shards(collect_digest_words, tasks) if done.result]
    kind_and_value_by_word: dict[str, tuple[int, int]] = {}
    for done in engine.map_shards(
        match_digest_words, [(pass_folder, tuple(sorted(word_files))) for pass_folder in passes] if word_files else []
    ):
        kind_and_value_by_word.update(done.result)
    words = sorted(kind_and_value_by_word)
    columns = [words, [kind_and_value_by_word[word][0] for word in words], [kind_and_value_by_word[word][1] for word in words]]
    table = pa.table([pa.array(column, field.type) for column, field in zip(columns, TERM_SCHEMA, strict=True)], schema=TERM_SCHEMA)
    pq.write_table(table, folder / "digests.parquet", row_group_size=max(1, len(words)))
    return folder / "digests.parquet"


def collect_digest_words(task: DigestTask) -> int:
    """Write the distinct words of one shard that may be digests to its file; returns how many."""
    shard, digest_words = task.shard_task, set[str]()
    kept = pl.DataFrame(pq.read_table(shard.kept_originals, partitioning=None))
    for table, doc_no in read_shard_batches(shard):
        for column in flatten_cells(table, [leaf for leaf in shard.leaves if leaf.column in table.column_names]):
            texts = fill_null_texts(column.flat.texts)
            words, *spans = find_digests(texts)
            if words:
                is_allowed = within_kept_or_atomic(shard, kept, doc_no[column.flat.rows], column.cell.astype(np.int64), *spans)
                digest_words.update(np.array(words, object)[~is_allowed])
    pq.write_table(
        pa.table([pa.array(sorted(digest_words), pa.string())], schema=_WORD_SCHEMA), task.temp_path or task.words_path, compression="lz4"
    )
    if task.temp_path:
        task.temp_path.rename(task.words_path)
    return len(digest_words)


def match_digest_words(task: tuple[Path, tuple[Path, ...]]) -> dict[str, tuple[int, int]]:
    """The words that are digests of values of one pass, with number of the kind and `value_id`."""
    pass_folder, files = task
    words = pl.concat([pl.DataFrame(pq.read_table(path, partitioning=None))["word"] for path in files]).unique()
    return SearchTerms.read(pass_folder).match_digests(words)
