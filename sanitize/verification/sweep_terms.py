"""The forms of removed values that only a full check searches in texts, and that its sweep removes: identity forms, the digits of numbers,
those digests of values that occur in texts, and values encoded in the text.

A word of hexadecimal digits inside a kept original, or inside an atomic value that the plan leaves, is not swept. A run prepares the terms
of all removed values as files, which costs one pass over the texts, and the digests of all values if any such word occurs; a stream builds
those of each batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.array_types import I64, Mask
from sanitize.core.arrow_buffers import TextBuffers, fill_null_texts
from sanitize.core.engine import Engine
from sanitize.storage.corpus import flatten_cells
from sanitize.text.decodings import EncodedSpans, find_digests, iter_decodings
from sanitize.text.literal_search import LiteralMatcher, LiteralMatches, prepare_terms
from sanitize.verification.attribution import VerifyTask, read_shard_batches, within_kept_or_atomic
from sanitize.verification.value_forms import (
    TERM_SCHEMA,
    SearchTerms,
    build_sweep_terms,
    is_conclusive,
    match_value_digests,
    write_passes,
    write_sweep_terms,
)

_WORD_SCHEMA = pa.schema([("word", pa.string())])


@dataclass(frozen=True, repr=False)
class SweepTerms:
    """Matchers for the identity forms of values, for the digits of numbers, and for digests of values."""

    identity: tuple[LiteralMatcher, ...]
    digits: tuple[LiteralMatcher, ...]
    digests: tuple[LiteralMatcher, ...]

    @classmethod
    def open(cls, paths: Sequence[Path]) -> SweepTerms:
        """The terms that `prepare_sweep_terms` prepared."""
        return cls(*(LiteralMatcher.open_partitions(path) for path in paths))

    @classmethod
    def from_values(cls, values: pl.DataFrame) -> SweepTerms:
        """The terms of a few values: columns value_id, kind (a name), value, normalised. Without digests: see `with_digests`."""
        identity, digits = build_sweep_terms(values)
        return cls(_build_matchers(identity), _build_matchers(digits), ())

    def with_digests(self, texts: Sequence[pa.LargeStringArray], values: pl.DataFrame) -> SweepTerms:
        """The terms with the digests of these values that occur in some texts."""
        words = {word for column in texts for word in find_digests(column)[0]}
        found = match_value_digests(values, pl.Series(sorted(words), dtype=pl.String)) if words else {}
        return replace(self, digests=_build_matchers(_build_digest_table(found)))

    def find(
        self, texts: pa.LargeStringArray, spelling_matchers: Sequence[LiteralMatcher]
    ) -> Iterator[tuple[LiteralMatcher, LiteralMatches, Mask]]:
        """Yields the matches in a column, and whether each is conclusive. `spelling_matchers` are searched in decoded text only.

        The digits of a number match with any separators, where they are a whole sequence of digits or unbroken.
        """
        for matcher in (*self.identity, *self.digests):
            if len((matches := matcher.find(texts)).term):
                yield matcher, matches, np.ones(len(matches.term), np.bool_)
        plain_matchers = (*spelling_matchers, *self.identity)
        max_length = max((int(matcher.term_stats[1]) for matcher in plain_matchers), default=0)
        for view in iter_decodings(texts, max_length + 4):
            is_digits = view.form == "digits"
            for matcher in self.digits if is_digits else plain_matchers:
                piece_matches = matcher.find(view.pieces, check_boundaries=False)
                if not len(piece_matches.term):
                    continue
                encoded = view.find_encoded_spans(piece_matches.text_no, piece_matches.start, piece_matches.end)
                is_valid = (
                    encoded.is_encoded if is_digits else encoded.is_encoded & matcher.has_valid_boundaries(view.pieces, piece_matches)
                )
                if is_valid.any():
                    terms = piece_matches.term[is_valid]
                    matches = LiteralMatches(encoded.text_no[is_valid], *_widen_to_characters(texts, encoded, is_valid), terms)
                    yield matcher, matches, is_conclusive(matcher, terms, view.form)


def _build_matchers(terms: pa.Table) -> tuple[LiteralMatcher, ...]:
    """A matcher for a table of `TERM_SCHEMA`, or none if it is empty."""
    if not terms.num_rows:
        return ()
    form, kind, value_id = (terms.column(name).combine_chunks() for name in TERM_SCHEMA.names)
    return (LiteralMatcher(form, np.asarray(kind, np.int32), np.asarray(value_id, np.int64)),)


def _widen_to_characters(texts: pa.LargeStringArray, spans: EncodedSpans, selected: Mask) -> tuple[I64, I64]:
    """Start and end of the selected spans, widened to whole characters: decoded bytes may begin inside a character."""
    buffers = TextBuffers.from_array(texts)
    base = buffers.offsets[spans.text_no[selected]]
    edges = []
    for edge, step in ((base + spans.start[selected], -1), (base + spans.end[selected], 1)):
        while (inside := (edge < len(buffers.data)) & ((buffers.data[np.minimum(edge, len(buffers.data) - 1)] & 0xC0) == 0x80)).any():
            edge = edge + step * inside
        edges.append(edge - base)
    return edges[0], edges[1]


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
    table = _build_digest_table(kind_and_value_by_word)
    pq.write_table(table, folder / "digests.parquet", row_group_size=max(1, table.num_rows))
    return folder / "digests.parquet"


def _build_digest_table(kind_and_value_by_word: Mapping[str, tuple[int, int]]) -> pa.Table:
    """Digests with number of the kind and `value_id`, as a table of `TERM_SCHEMA`."""
    words = sorted(kind_and_value_by_word)
    columns = [words, [kind_and_value_by_word[word][0] for word in words], [kind_and_value_by_word[word][1] for word in words]]
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, TERM_SCHEMA, strict=True)], schema=TERM_SCHEMA)


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
