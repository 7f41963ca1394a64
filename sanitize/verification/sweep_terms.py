"""The forms of removed values that only a full check searches in texts, and that its sweep removes: identity forms, the digits of numbers,
those digests of values that occur in texts, and values encoded in the text.

A word of hexadecimal digits inside a kept original, or inside an atomic value that the plan leaves, is not swept. A run prepares the terms
of all removed values as files, without digests; if words that may be digests occur in the texts, it computes those of all values, and
checks the shards again if any occurs. A stream builds the terms of each batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.array_types import I64, Mask
from sanitize.core.arrow_buffers import TextBuffers
from sanitize.core.engine import Engine
from sanitize.storage.files import attempt_file
from sanitize.storage.parquet_files import TABLE_CODEC, TABLE_CODEC_LEVEL, write_table_rows
from sanitize.text.decodings import iter_decodings
from sanitize.text.decodings.coded_runs import CodedRuns, find_digests
from sanitize.text.decodings.decoded_pieces import EncodedSpans
from sanitize.text.literal_search import LiteralMatcher, LiteralMatches, prepare_terms
from sanitize.verification.attribution import VerifyTask, within_kept_or_atomic
from sanitize.verification.value_forms import (
    SWEEP_FILES,
    TERM_SCHEMA,
    SearchTerms,
    build_sweep_terms,
    is_conclusive,
    match_value_digests,
    write_passes,
)

_WORD_SCHEMA = pa.schema([("word", pa.string())])


@dataclass(frozen=True, repr=False)
class SweepTerms:
    """Matchers for the identity forms of values, for the digits of numbers, and for digests of values."""

    identity: tuple[LiteralMatcher, ...]
    digits: tuple[LiteralMatcher, ...]
    digests: tuple[LiteralMatcher, ...] = ()

    @classmethod
    def open(cls, paths: Sequence[Path]) -> SweepTerms:
        """The terms that `prepare_sweep_terms` prepared, and those of `prepare_digest_terms` if there are any."""
        return cls(*(LiteralMatcher.open_partitions(path) for path in paths))

    @classmethod
    def from_values(cls, values: pl.DataFrame) -> SweepTerms:
        """The terms of a few values: columns value_id, kind (a name), value, normalised. Without digests: see `with_digests`."""
        identity, digits = build_sweep_terms(values)
        return cls(_build_matchers(identity), _build_matchers(digits))

    def with_digests(self, columns: Sequence[pa.LargeStringArray], runs: Sequence[CodedRuns | None], values: pl.DataFrame) -> SweepTerms:
        """The terms with the digests of these values that occur in some columns. `runs` are those of the columns, if they are known."""
        words = {word for texts, column_runs in zip(columns, runs, strict=True) for word in find_digests(texts, column_runs)[0]}
        found = match_value_digests(values, pl.Series(sorted(words), dtype=pl.String)) if words else {}
        return replace(self, digests=_build_matchers(_build_digest_table(found)))

    def find(
        self, texts: pa.LargeStringArray, spelling_matchers: Sequence[LiteralMatcher], runs: CodedRuns | None = None
    ) -> Iterator[tuple[LiteralMatcher, LiteralMatches, Mask, str]]:
        """Yields the matches in a column, whether each is conclusive, and their form; identity forms are searched as "exact".
        `spelling_matchers` are searched in decoded text only.

        The digits of a number match with any separators, where they are a whole sequence of digits or unbroken. `runs`: of the column.
        """
        for matcher, form in [(one, "exact") for one in self.identity] + [(one, "digest") for one in self.digests]:
            if len((matches := matcher.find(texts)).term):
                yield matcher, matches, np.ones(len(matches.term), np.bool_), form
        plain_matchers = (*spelling_matchers, *self.identity)
        max_length = max((int(matcher.term_stats[1]) for matcher in plain_matchers), default=0)
        blank_pairs = np.logical_or.reduce([matcher.blank_pairs for matcher in plain_matchers], initial=False)
        for view in iter_decodings(texts, max_length + 4, runs=runs, blank_pairs=blank_pairs):
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
                    yield matcher, matches, is_conclusive(matcher, terms, view.form), view.form


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


@dataclass(repr=False)
class DigestWords:
    """The words of a shard that may be digests, and where they are."""

    words: list[str] = field(default_factory=list)
    spans: list[tuple[I64, I64, I64, I64]] = field(default_factory=list)  # document, cell, start and end byte

    def add(self, texts: pa.LargeStringArray, runs: CodedRuns, doc_no: I64, cell: npt.NDArray[np.integer[Any]]) -> None:
        """Add those in a column of text cells, each of which is in a document."""
        words, text_no, start, end = find_digests(texts, runs)
        if words:
            self.words += words
            self.spans.append((doc_no[text_no], cell[text_no].astype(np.int64), start, end))

    def write(self, task: VerifyTask, kept: pl.DataFrame) -> int:
        """Write the distinct words outside kept originals and atomic values to `task.digest_words_path`; returns how many."""
        assert task.digest_words_path is not None
        if not self.words:
            return 0
        doc_no, cell, start, end = (np.concatenate(column) for column in zip(*self.spans, strict=True))
        is_allowed = within_kept_or_atomic(task, kept, doc_no, cell, np.arange(len(doc_no)), start, end)
        words = sorted(set(np.array(self.words, object)[~is_allowed]))
        temp_path = task.temp_folder / "digest_words.parquet" if task.temp_folder else None
        with attempt_file(task.digest_words_path, temp_path) as path:
            write_table_rows(path, _WORD_SCHEMA, [(word,) for word in words])
        return len(words)


def prepare_sweep_terms(
    values: Sequence[Path],
    edited_kinds: Sequence[str],
    include_ids: Sequence[int],
    exclude_ids: Sequence[int],
    spill: Path,
    memory_bytes: int,
) -> tuple[list[Path], tuple[Path, ...]]:
    """Write the passes over the removed values (see `write_passes`) and the prepared files for `VerifyTask.sweep_terms` to `spill`."""
    folder = spill / "sweep_terms"
    passes, _ = write_passes(values, edited_kinds, spill / "passes", memory_bytes, include_ids, exclude_ids, folder)
    return passes, tuple(prepare_terms(folder / name, (folder / name).with_suffix(""), memory_bytes) for name in SWEEP_FILES)


def prepare_digest_terms(
    engine: Engine, word_files: Sequence[Path], passes: Sequence[Path], folder: Path, memory_bytes: int
) -> tuple[Path, ...]:
    """Write the digests of values of the passes that are among some words to `folder`; returns the file as one more of
    `VerifyTask.sweep_terms`, or nothing if there are none."""
    kind_and_value_by_word: dict[str, tuple[int, int]] = {}
    for done in engine.map_shards(match_digest_words, [(pass_folder, tuple(word_files)) for pass_folder in passes]):
        kind_and_value_by_word.update(done.result)
    if not kind_and_value_by_word:
        return ()
    table = _build_digest_table(kind_and_value_by_word)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "digests.parquet"
    pq.write_table(table, path, row_group_size=max(1, table.num_rows), compression=TABLE_CODEC, compression_level=TABLE_CODEC_LEVEL)
    return (prepare_terms(path, path.with_suffix(""), memory_bytes),)


def _build_digest_table(kind_and_value_by_word: Mapping[str, tuple[int, int]]) -> pa.Table:
    """Digests with number of the kind and `value_id`, as a table of `TERM_SCHEMA`."""
    words = sorted(kind_and_value_by_word)
    columns = [words, [kind_and_value_by_word[word][0] for word in words], [kind_and_value_by_word[word][1] for word in words]]
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, TERM_SCHEMA, strict=True)], schema=TERM_SCHEMA)


def match_digest_words(task: tuple[Path, tuple[Path, ...]]) -> dict[str, tuple[int, int]]:
    """The words that are digests of values of one pass, with number of the kind and `value_id`."""
    pass_folder, files = task
    words = pl.concat([pl.DataFrame(pq.read_table(path, partitioning=None))["word"] for path in files]).unique()
    return SearchTerms.read(pass_folder).match_digests(words)
