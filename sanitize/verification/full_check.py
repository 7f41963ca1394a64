"""The full leak check: searches every byte of every file of a corpus, and all text decoded from it, for all forms of every removed value.

Values are split into passes (sanitize/verification/value_forms.py); each pass reads every file once, in worker processes. Matches in
cells are attributed as in the fast check: a match inside a kept original is no leak, in whatever form; others are. Matches in pages and
raw bytes beyond those in the rows (a dictionary entry that no row uses, a key of the footer) are leaks too. Inconclusive forms are counted
separately, as ambiguous. Names of erased persons are a leak wherever they occur; the first pass searches them, also in decoded text.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.array_types import I32, I64, U8, Mask
from sanitize.core.arrow_buffers import TextBuffers, fill_null_texts, slice_spans
from sanitize.core.engine import Engine
from sanitize.core.intervals import flatten_spans, overlaps_any
from sanitize.core.text_cells import flatten_leaf, is_text_type, list_text_leaves
from sanitize.kinds.kind import all_kinds
from sanitize.storage.corpus import flatten_cells
from sanitize.storage.files import attempt_file
from sanitize.storage.formats import find_packed_format
from sanitize.storage.parquet_files import TABLE_CODEC, TABLE_CODEC_LEVEL
from sanitize.text import name_search
from sanitize.text.decodings import ENCODED_FORMS, iter_decodings
from sanitize.text.decodings.coded_runs import CodedRuns, find_coded_runs, find_digests
from sanitize.verification.attribution import (
    VerifyTask,
    attribute_from_files,
    describe_column,
    first_occurs_after,
    read_shard_batches,
    read_shard_schema,
    within_kept_or_atomic,
    within_kept_originals,
)
from sanitize.verification.parquet_pages import (
    FilePiece,
    RowOnlyColumns,
    as_single_text,
    count_context_bytes,
    find_readable_spans,
    find_row_only_columns,
    read_bytes_outside_pages,
    read_pages,
    read_pieces,
)
from sanitize.verification.value_forms import ALL_FORMS, CHANCE_FORMS, MIN_CONCLUSIVE_BYTES, SearchTerms, is_conclusive_length

_PlacePredicate = Callable[[I64, I64, I64], Mask]  # of text number, start byte, end byte


@dataclass(frozen=True)
class LeakFinding:
    """Leaks of one sort: the file, the location in it, the kind and form of the removed values, and the number of matches."""

    file: str
    location: str
    kind: str
    form: str
    count: int

    def __str__(self) -> str:
        return f"{self.file}, {self.location}: {self.count} {self.kind} ({self.form})"


@dataclass(frozen=True, kw_only=True)
class FileCheckTask:
    """One file in one pass: a shard (then with `shard_task`), any other file of the corpus, or an empty folder."""

    file: Path
    name: str  # the name in the corpus folder; searched, too
    reported_name: str  # the name in findings: that of a foreign file may be a value
    terms_path: Path
    digest_words_path: Path | None  # words that may be digests are written here, in the first pass
    shard_task: VerifyTask | None = None
    erased_names: tuple[str, ...] = ()  # names of erased persons; searched in the first pass
    checked_bytes: Mapping[str, int] | None = None  # see `run_full_check`
    temp_path: Path | None = None  # where an attempt writes `digest_words_path` before it is renamed

    def for_attempt(self, folder: Path) -> FileCheckTask:
        """The task for one of several concurrent attempts: with a temp path in `folder`."""
        return replace(self, temp_path=folder / "digests.parquet")


def run_full_check(
    engine: Engine,
    shards: Sequence[tuple[VerifyTask, str]],
    files: Sequence[tuple[Path, str]],
    pass_folders: Sequence[Path],
    scratch_folder: Path,
    own_files: Sequence[str] = (),
    erased_names: Sequence[str] = (),
    checked_bytes: Sequence[Mapping[str, int]] = (),
    file_sizes: Mapping[str, int] | None = None,
    empty_folders: Sequence[tuple[Path, str]] = (),
) -> dict[str, Any]:
    """Search shards (each with its name) and other files for all forms of the values in `pass_folders`.

    Temporary files are written below `scratch_folder`. Files that are not in `own_files` are not reported by name. `erased_names` are
    searched as mentions, also in decoded text. `checked_bytes`: where `verify_task` has searched the texts of the shards in all forms, and
    their files are as they were written, what it read of each (`plain_bytes`); of a Parquet file only the other columns and the bytes
    outside of the rows are searched then. `file_sizes` has the sizes of files by their SHA-256: that of a file longer than every value is
    not the digest of one, and is not compared with those of all values. Of `empty_folders` the names are searched.

    Returns `findings` (leaks), `passes`, `forms`, `ambiguous` (counts by kind), `ambiguous_forms` (by form), `bytes_searched` (by
    location), and for the shards `rows`, `kept_found` and `kept_expected`.
    """
    words_folder = scratch_folder / "digests"
    shutil.rmtree(words_folder, ignore_errors=True)
    words_folder.mkdir(parents=True)
    all_files: list[tuple[Path, str, VerifyTask | None]] = [(task.shard_path, name, task) for task, name in shards]
    all_files += [(path, name, None) for path, name in files]
    own_names = {name: name for name in (*own_files, *(name for _, name in shards))}
    checked_by_path = {task.shard_path: plain_bytes for (task, _), plain_bytes in zip(shards, checked_bytes, strict=False)}
    foreign = [name for _, name, _ in all_files if name not in own_names]
    reported_names = own_names | {name: f"foreign file {number}" for number, name in enumerate(foreign, 1)}
    reported_names |= {name: f"foreign folder {number}" for number, (_, name) in enumerate(empty_folders, 1)}
    all_files += [(path, name, None) for path, name in empty_folders]
    tasks = [
        FileCheckTask(
            file=file,
            name=name,
            reported_name=reported_names[name],
            terms_path=terms_path,
            digest_words_path=None if number else words_folder / f"{no:06d}.parquet",
            shard_task=task,
            erased_names=() if number else tuple(erased_names),
            checked_bytes=checked_by_path.get(file) if not erased_names and find_packed_format(file) is None else None,
        )
        for number, terms_path in enumerate(pass_folders)
        for no, (file, name, task) in enumerate(all_files)
    ]
    found: Counter[tuple[str, str, str, str]] = Counter()
    ambiguous: Counter[str] = Counter()
    ambiguous_forms: Counter[str] = Counter()
    bytes_searched: Counter[str] = Counter()
    shard_counts = dict.fromkeys(("rows", "kept_found", "kept_expected"), 0)
    for done in engine.map_shards(check_file, tasks):
        result = done.result
        found.update(result["findings"])
        for (kind, form), count in result["ambiguous"].items():
            ambiguous[kind] += count
            ambiguous_forms[form] += count
        shard_counts["kept_found"] += result["kept_found"]
        if tasks[done.task_no].digest_words_path is not None:  # count bytes and rows once: every pass reads the same ones
            bytes_searched.update(result["bytes_searched"])
            shard_counts["rows"] += result["rows"]
            shard_counts["kept_expected"] += result["kept_expected"]
    word_files = tuple(sorted(words_folder.iterdir()))
    digest_tasks = [(terms_path, word_files, file_sizes or {}) for terms_path in pass_folders] if word_files else []
    for done in engine.map_shards(count_digest_leaks, digest_tasks):
        found.update(done.result)
    return {
        "findings": [LeakFinding(*finding_key, count) for finding_key, count in sorted(found.items())],
        "passes": len(pass_folders),
        "forms": list(ALL_FORMS),
        "ambiguous": dict(sorted(ambiguous.items())),
        "ambiguous_forms": dict(sorted(ambiguous_forms.items())),
        "bytes_searched": dict(sorted(bytes_searched.items())),
        **shard_counts,
    }


def check_file(task: FileCheckTask) -> dict[str, Any]:
    """Check one file in one pass; returns counts by location, kind and form, never a value."""
    file_check = _FileCheck(task, SearchTerms.read(task.terms_path))
    # a name that is no UTF-8 is searched with its other bytes replaced
    file_check.check_texts("file name", pa.array([os.fsencode(task.name).decode("utf-8", "replace")], pa.large_string()))
    if task.shard_task is not None:
        file_check.check_shard(task.shard_task)
    elif not task.file.is_dir():
        file_check.check_other_file()
    file_check.write_digest_words()
    return {
        "findings": dict(file_check.leaks),
        "ambiguous": dict(file_check.ambiguous),
        "bytes_searched": dict(file_check.bytes_searched),
        **{name: file_check.row_counters[name] for name in ("rows", "kept_found", "kept_expected")},
    }


def count_digest_leaks(task: tuple[Path, tuple[Path, ...], Mapping[str, int]]) -> dict[tuple[str, str, str, str], int]:
    """Count, among the words that may be digests, those that are a digest of a value of one pass. The task has the path of the pass, the
    files of words, and `file_sizes` of `run_full_check`."""
    terms_path, files, file_sizes = task
    terms = SearchTerms.read(terms_path)
    max_text_bytes = terms.max_length + len("+")  # see `match_digests`
    no_digests = pl.Series([sha256 for sha256, size in file_sizes.items() if size > max_text_bytes], dtype=pl.String)
    words_by_file = [pl.Series(pq.read_table(path, columns=["word"], partitioning=None).column("word")) for path in files]
    words = pl.concat(words_by_file).unique()
    kinds = terms.match_digests(words.filter(~words.is_in(no_digests.implode())))
    names, found = list(all_kinds()), Counter[tuple[str, str, str, str]]()
    for path in files if kinds else ():
        table = pq.read_table(path, partitioning=None)
        for row in table.filter(pc.is_in(table.column("word"), pa.array(list(kinds), table.schema.field("word").type))).to_pylist():
            found[row["file"], row["place"], names[kinds[row["word"]][0]], "digest"] += row["times"]
    return dict(found)


@dataclass(frozen=True, repr=False)
class _FormMatches:
    """Matches of search terms in a column, in one form. `bounded`: the kind's boundary rule holds; `conclusive`: the term is not short, and
    not part of a longer sequence of digits."""

    form: str
    text_no: I64
    start: I64
    end: I64
    term: I64
    bounded: Mask
    conclusive: Mask

    def select(self, rows: Mask | npt.NDArray[np.intp]) -> _FormMatches:
        columns = (getattr(self, name)[rows] for name in ("text_no", "start", "end", "term", "bounded", "conclusive"))
        return _FormMatches(self.form, *columns)


class _TermCounts:
    """Counts matches per form and search term, whatever their boundaries; and the last column in which each occurred."""

    def __init__(self) -> None:
        self.by_form: dict[str, I32] = {}
        self.column_numbers: dict[str, I32] = {}

    def add(self, found: _FormMatches, term_count: int, column_number: int = 0) -> None:
        if len(found.term):
            self.by_form.setdefault(found.form, np.zeros(term_count, np.int32))
            np.add.at(self.by_form[found.form], found.term, 1)
            self.column_numbers.setdefault(found.form, np.zeros(term_count, np.int32))[found.term] = column_number


@dataclass(frozen=True, repr=False)
class _PieceTexts:
    """Texts in a piece of a file, the offset of each in the piece, and the forms to search in them (None: all forms)."""

    piece: FilePiece
    texts: pa.LargeStringArray
    starts: I64
    only_forms: tuple[str, ...] | None

    def belongs_to_piece(self, text_no: I64, start: I64) -> Mask:
        """True where an occurrence with this first byte belongs to the piece, and not to the one before or after it."""
        offset = self.starts[text_no] + start
        is_inside: Mask = (offset >= self.piece.start) & (offset < self.piece.end)
        return is_inside

    def list_seen_texts(self) -> pa.LargeStringArray:
        """What of the texts was in the piece before, too."""
        seen = np.clip(self.piece.seen - self.starts, 0, TextBuffers.from_array(self.texts).lengths)
        buffers = TextBuffers.from_array(self.texts)
        return slice_spans(buffers, buffers.offsets[:-1], buffers.offsets[:-1] + seen)


@dataclass(repr=False)
class _Counts:
    """How often search terms and words that may be digests occur, at any location."""

    terms: _TermCounts = field(default_factory=_TermCounts)
    digest_words: Counter[str] = field(default_factory=Counter)


@dataclass
class _FileCheck:
    """State of checking one file in one pass: leaks, ambiguous matches and other counts."""

    task: FileCheckTask
    terms: SearchTerms
    leaks: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    ambiguous: Counter[tuple[str, str]] = field(default_factory=Counter)
    bytes_searched: Counter[str] = field(default_factory=Counter)
    row_counters: Counter[str] = field(default_factory=Counter)
    digest_words: Counter[tuple[str, str]] = field(
        default_factory=Counter
    )  # words that may be digests, by location, outside kept originals
    counted: tuple[_Counts, ...] = ()  # where what is searched at present is counted
    masked_columns: dict[str, int] = field(default_factory=dict)

    def search_piece(self, part: _PieceTexts, location: str) -> Iterator[_FormMatches]:
        """As `search`, for the texts in a piece of a file: only what belongs to the piece."""
        if self.task.erased_names and location:
            self._count_mentions(part.texts, location, part.only_forms, part.list_seen_texts() if part.piece.seen else None)
        for matches in self._search_values(part.texts, location, part.only_forms, part=part):
            yield matches.select(part.belongs_to_piece(matches.text_no, matches.start))

    def search(
        self,
        texts: pa.LargeStringArray,
        location: str,
        only_forms: tuple[str, ...] | None = None,
        is_allowed: _PlacePredicate | None = None,
    ) -> Iterator[_FormMatches]:
        """Yields the matches in a column, form by form: exact, in compatibility form (NFKC), and in every decoding (or only `only_forms`).

        Also counts mentions and collects words that may be digests. `is_allowed`: the spans at which a digest is no leak.
        """
        if self.task.erased_names and location:
            self._count_mentions(texts, location, only_forms)
        yield from self._search_values(texts, location, only_forms, is_allowed)

    def _search_values(
        self,
        texts: pa.LargeStringArray,
        location: str,
        only_forms: tuple[str, ...] | None,
        is_allowed: _PlacePredicate | None = None,
        part: _PieceTexts | None = None,
    ) -> Iterator[_FormMatches]:
        """`search` without mentions. Matches outside of the piece of `part` are yielded too, and its digests are not collected."""
        terms = self.terms
        others: list[_FormMatches] = []
        runs: CodedRuns | None = None
        if only_forms is None:
            if self.task.digest_words_path is not None:
                runs = find_coded_runs(texts)
                self._collect_digest_words(texts, runs, location, is_allowed, part)
            exact = terms.plain.find(texts, check_boundaries=False)
            has_boundaries = terms.plain.has_valid_boundaries(texts, exact)
            others.append(
                _FormMatches("exact", exact.text_no, exact.start, exact.end, exact.term, has_boundaries, ~terms.is_short[exact.term])
            )
            yield others[0]
            nfkc = terms.plain.find_nfkc(texts)
            all_true = np.ones(len(nfkc.term), np.bool_)
            nfkc_matches = _FormMatches("NFKC", nfkc.text_no, nfkc.start, nfkc.end, nfkc.term, all_true, ~terms.is_short[nfkc.term])
            others.append(nfkc_matches)
            yield nfkc_matches
        forms = ENCODED_FORMS if only_forms is None else only_forms
        for view in iter_decodings(texts, terms.max_length + 4, forms, runs, terms.plain.blank_pairs):
            is_digits = view.form == "digits"
            matcher = terms.digits if is_digits else terms.plain
            matches = matcher.find(view.pieces, check_boundaries=False)
            if not len(matches.term):
                continue
            encoded = view.find_encoded_spans(matches.text_no, matches.start, matches.end)
            if is_digits:
                assert encoded.is_whole_word is not None
                is_conclusive = encoded.is_encoded & ~terms.is_short_number[matches.term]
                form_matches = _FormMatches(
                    view.form, encoded.text_no, encoded.start, encoded.end, matches.term, encoded.is_whole_word, is_conclusive
                )
                yield form_matches.select(~_overlaps_any(form_matches, others))
            else:
                is_conclusive = ~terms.is_short[matches.term] & is_conclusive_length(terms.plain.lengths[matches.term], view.form)
                form_matches = _FormMatches(
                    view.form,
                    encoded.text_no,
                    encoded.start,
                    encoded.end,
                    matches.term,
                    matcher.has_valid_boundaries(view.pieces, matches),
                    is_conclusive,
                )
                if view.form == "base64":
                    # a line is decoded alone and with its neighbours: each position counts once
                    order = np.lexsort((~form_matches.bounded, form_matches.start, form_matches.term, form_matches.text_no))
                    is_new = [np.diff(column[order]) != 0 for column in (form_matches.text_no, form_matches.term, form_matches.start)]
                    yield form_matches.select(np.sort(order[np.append(True, np.logical_or.reduce(is_new))]))
                else:
                    others.append(form_matches.select(encoded.is_encoded))
                    yield others[-1]

    def _collect_digest_words(
        self,
        texts: pa.LargeStringArray,
        runs: CodedRuns,
        location: str,
        is_allowed: _PlacePredicate | None,
        part: _PieceTexts | None,
    ) -> None:
        words, text_no, start, stop = find_digests(texts, runs)
        if part is not None and words:
            belongs = part.belongs_to_piece(text_no, start)
            words, text_no, start, stop = [*itertools.compress(words, belongs)], text_no[belongs], start[belongs], stop[belongs]
        is_outside = ~is_allowed(text_no, start, stop) if words and is_allowed is not None else np.ones(len(words), np.bool_)
        for counts in self.counted:
            counts.digest_words.update(words)
        self.digest_words.update((word, location) for word, counts in zip(words, is_outside.tolist(), strict=True) if counts)

    def _count_mentions(
        self,
        texts: pa.LargeStringArray,
        location: str,
        only_forms: tuple[str, ...] | None,
        seen_texts: pa.LargeStringArray | None = None,
    ) -> None:
        """Count names of erased persons, as written and in every decoding, without those in `seen_texts`; each one is a leak."""
        counts = self._count_names(texts, only_forms)
        if seen_texts is not None:
            counts -= self._count_names(seen_texts, only_forms)
        for form, times in counts.items():
            self.leaks[self.task.reported_name, location, name_search.PERSON, form] += times

    def _count_names(self, texts: pa.LargeStringArray, only_forms: tuple[str, ...] | None) -> Counter[str]:
        """The occurrences of names of erased persons, by form."""
        names, counts = self.task.erased_names, Counter[str]()
        if only_forms is None:
            counts["mention"] += name_search.count_names(texts, names)
        for form, times in name_search.count_encoded_names(texts, names, only_forms or ENCODED_FORMS):
            counts[form] += times
        return +counts

    # ---- a shard ----

    def check_shard(self, task: VerifyTask) -> None:
        """Search one shard for all forms: its texts row by row, the decompressed pages of its file, and the bytes of the file."""
        kept = pl.DataFrame(pq.read_table(task.kept_originals, partitioning=None))
        kept_doc = kept["doc_no"].to_numpy()
        self.row_counters["kept_expected"] += kept.height
        schema = read_shard_schema(task)
        self._mask_column_names(schema)
        rows, page_rows = _Counts(), _Counts()  # of all columns, and of those whose pages may hold more than the rows
        is_parquet = find_packed_format(task.shard_path) is None
        row_only = find_row_only_columns(task.shard_path, self.task.checked_bytes or {}) if is_parquet else RowOnlyColumns()
        text_columns = {leaf.column for leaf in task.leaves}
        skips_texts = self.task.checked_bytes is not None and text_columns <= row_only.names
        # a column of lists or structs may have numbers and bytes beside its texts
        skipped_columns = {name for name in schema.names if skips_texts and name in text_columns and is_text_type(schema.field(name).type)}
        read_columns = [name for name in schema.names if name not in skipped_columns] if skips_texts else None
        residual: list[tuple[str, _FormMatches, I64, I64, list[str]]] = []
        for table, doc_no in read_shard_batches(task, read_columns):
            self.row_counters["rows"] += len(doc_no)
            low, high = np.searchsorted(kept_doc, [doc_no[0], doc_no[-1] + 1])
            batch_kept = kept[int(low) : int(high)]
            leaves = [leaf for leaf in task.leaves if leaf.column in table.column_names]
            stored_leaves = {leaf.stored for leaf in leaves}
            for column in flatten_cells(table, leaves) if not skips_texts else ():
                texts = fill_null_texts(column.flat.texts)
                self._count_bytes("rows", texts)
                self.counted = (rows,) if column.leaf.column in row_only.names else (rows, page_rows)
                is_allowed = partial(within_kept_or_atomic, task, batch_kept, doc_no[column.flat.rows], column.cell.astype(np.int64))
                for matches in self.search(texts, self._column_location(str(column.leaf)), is_allowed=is_allowed):
                    self._add_counts(matches)
                    docs, cells = doc_no[column.flat.rows[matches.text_no]], column.cell[matches.text_no].astype(np.int64)
                    in_kept, exact_count = within_kept_originals(batch_kept, docs, cells, matches.start, matches.end)
                    # also without a word boundary: a finder may cut an escape off that stands before a value, such as =09
                    self.row_counters["kept_found"] += exact_count if matches.form == "exact" else 0
                    docs, cells, in_kept = docs[matches.bounded], cells[matches.bounded], in_kept[matches.bounded]
                    matches = matches.select(matches.bounded)
                    if len(matches.term):
                        outside = np.flatnonzero(~in_kept)
                        if len(outside):
                            outside_matches = matches.select(outside)
                            residual.append(
                                (
                                    self._column_location(str(column.leaf)),
                                    outside_matches,
                                    docs[outside],
                                    cells[outside],
                                    self._spelling_forms(outside_matches, texts),
                                )
                            )
            for leaf in list_text_leaves(table.schema):
                if leaf not in stored_leaves:
                    texts = flatten_leaf(table.column(leaf.column).chunk(0), leaf).texts.fill_null("")
                    self._count_bytes("rows", texts)
                    self.counted = (rows,) if leaf.column in row_only.names else (rows, page_rows)
                    self.check_texts(self._column_location(str(leaf)), texts, strict=True)
            for name in table.column_names:
                self.counted = ()
                for numbers in _number_texts(table.column(name).chunk(0)):
                    self.check_texts(self._column_location(name), numbers, only_forms=("digits",), strict=True)
                self.counted = (rows,) if name in row_only.names else (rows, page_rows)
                for raw in _binary_values(table.column(name).chunk(0)):
                    for part in _texts_in_piece(FilePiece.whole(raw)):
                        self.check_texts(self._column_location(name), part.texts, only_forms=part.only_forms, strict=True)
        self.counted = ()
        self._classify_residual(task, residual)
        self._check_collisions(task)
        if is_parquet:
            pages = partial(read_pages, task.shard_path, row_only)
            self._check_surplus("a page of", lambda: ((column, FilePiece.whole(data)) for column, data in pages()), page_rows)
        outside_pages = partial(read_bytes_outside_pages, task.shard_path)
        pieces = (lambda: map(FilePiece.whole, outside_pages())) if skips_texts else partial(self._read_pieces, task.shard_path)
        self._check_surplus("raw bytes", lambda: (("", piece) for piece in pieces()), rows)

    def _mask_column_names(self, schema: pa.Schema) -> None:
        """Check the names of columns; one that contains a value is reported by a number instead of its name."""
        names = pa.array(sorted({str(leaf) for leaf in list_text_leaves(schema)} | set(schema.names)), pa.large_string())
        self.check_texts("column names", names, strict=True)
        value_columns = {int(no) for matches in self.search(names, "column names") for no in matches.text_no}
        self.masked_columns = {str(names[no]): number for number, no in enumerate(sorted(value_columns), 1)}

    def _column_location(self, name: str) -> str:
        """The column as it is reported: never by a name that contains a value."""
        number = next((number for hidden, number in self.masked_columns.items() if name == hidden or name.startswith(f"{hidden}.")), None)
        renamed_columns = self.task.shard_task.renamed_columns if self.task.shard_task is not None else {}
        return describe_column(name, renamed_columns) if number is None else f"column whose name holds a value ({number})"

    def _count_bytes(self, location: str, texts: pa.LargeStringArray) -> None:
        self.bytes_searched[location] += len(TextBuffers.from_array(texts).data)

    def _classify_residual(self, task: VerifyTask, residual: Iterable[tuple[str, _FormMatches, I64, I64, list[str]]]) -> None:
        """Classify matches outside kept originals: part of a replacement or of an atomic value, ambiguous, or a leak."""
        for location, matches, docs, cells, forms in residual:
            attribution = attribute_from_files(task.edits, task.occurrences, task.atomic_kinds, docs, cells, matches.start, matches.end)
            is_explained = attribution.inside_atomic | (attribution.inside_replacement & (matches.form in CHANCE_FORMS))
            matcher = self.terms.digits if matches.form == "digits" else self.terms.plain
            if matches.form == "digits":
                is_explained |= attribution.is_surrogate_of_other_kind(matcher.kind[matches.term].astype(np.int64))
            is_explained[attribution.whole_replacement] |= first_occurs_after(
                task, matcher.value_id[matches.term[attribution.whole_replacement]], docs[attribution.whole_replacement]
            )
            for row in np.flatnonzero(~is_explained).tolist():
                suffix = (
                    " (a replacement)"
                    if attribution.whole_replacement[row]
                    else " (across an edit)"
                    if attribution.across_edit[row]
                    else ""
                )
                is_exact_spelling = matches.form in ("exact", "NFKC") and not self.terms.is_common[matches.term[row]]
                conclusive = bool(matches.conclusive[row]) or is_exact_spelling
                self._add_match(f"{location}{suffix}", matches.form, int(matches.term[row]), forms[row], conclusive)

    def _check_collisions(self, task: VerifyTask) -> None:
        """Count replacements that equal a value of the corpus as leaks."""
        edits = pl.DataFrame(pq.read_table(task.edits, columns=["kind", "replacement", "doc_no"], partitioning=None))
        for name in edits["kind"].cast(pl.String).unique().sort():
            if name not in all_kinds() or all_kinds()[name].ambiguous_text:
                continue  # a mention, which becomes a label, or a kind whose surrogates may equal values
            of_kind = edits.filter(pl.col("kind") == name)
            found = self.terms.find_collisions(name, of_kind["replacement"].unique())
            if not found.height:
                continue  # nearly always
            found = found.join(of_kind.group_by("replacement").agg(pl.col("doc_no").max()), on="replacement")
            is_explained = first_occurs_after(task, found["value_id"].to_numpy(), found["doc_no"].to_numpy())
            if times := found.filter(~pl.Series(is_explained))["form"].n_unique():
                self.leaks[self.task.reported_name, "replacements that are values of the corpus", name, "exact or identity"] += times

    def _check_surplus(self, location: str, source: Callable[[], Iterator[tuple[str, FilePiece]]], rows: _Counts) -> None:
        """Report what the bytes of a source (pages, or the file) contain more often than the rows do."""
        is_other_format = find_packed_format(self.task.file) is not None
        columns: list[str] = []
        outer_words, self.digest_words = self.digest_words, Counter()
        file_counts = _Counts()
        for column, piece in source():
            if not columns or columns[-1] != column:
                columns.append(column)
            self.bytes_searched["raw bytes" if location == "raw bytes" else "pages"] += piece.end - piece.start
            full_location = f"{location} {self._column_location(column)}" if column else location
            self.counted = (file_counts,)
            for part in _texts_in_piece(piece):
                for matches in self.search_piece(part, full_location):
                    # a file in another format holds only rows, and matches across adjacent rows are possible in other forms
                    if not is_other_format or matches.form == "exact":
                        self._add_counts(matches, len(columns) - 1)
            self.counted = ()
        self._add_surplus(location, file_counts.terms, rows.terms, columns, source)
        for (word, full_location), times in self.digest_words.items():
            if file_counts.digest_words[word] > rows.digest_words[word]:
                outer_words[word, full_location] += times
        self.digest_words = outer_words

    def _add_surplus(
        self,
        location: str,
        file_counts: _TermCounts,
        row_counts: _TermCounts,
        columns: list[str],
        source: Callable[[], Iterator[tuple[str, FilePiece]]],
    ) -> None:
        """Report the terms that `file_counts` has more often than `row_counts`; `columns` are the names that its numbers index."""
        for form, times in file_counts.by_form.items():
            surplus = times - row_counts.by_form.get(form, np.zeros(1, np.int32))
            surplus_terms = np.flatnonzero(surplus > 0)
            spellings = self._find_surplus_spellings(source, surplus_terms) if form == "exact" and len(surplus_terms) else {}
            for row in surplus_terms.tolist():
                matcher, is_short = (
                    (self.terms.digits, self.terms.is_short_number) if form == "digits" else (self.terms.plain, self.terms.is_short)
                )
                column = columns[file_counts.column_numbers[form][row]]
                full_location = f"{location} {self._column_location(column)}" if column else location
                conclusive = bool(not is_short[row] and matcher.lengths[row] >= MIN_CONCLUSIVE_BYTES)
                self._add_match(full_location, form, row, " or ".join(sorted(spellings.get(row, {form}))), conclusive, int(surplus[row]))

    def _find_surplus_spellings(self, source: Callable[[], Iterator[tuple[str, FilePiece]]], wanted: I64) -> dict[int, set[str]]:
        """The spellings of surplus terms, by a second pass over the bytes that runs only where there is a surplus."""
        spellings: dict[int, set[str]] = {}
        for _, piece in source():
            for part in _texts_in_piece(piece):
                if part.only_forms is None:
                    matches = next(self.search_piece(part, ""))
                    matches = matches.select(np.isin(matches.term, wanted))
                    for row, name in zip(matches.term.tolist(), self._spelling_forms(matches, part.texts), strict=True):
                        spellings.setdefault(row, set()).add(name)
        return spellings

    def _add_counts(self, found: _FormMatches, column_number: int = 0) -> None:
        for counts in self.counted:
            counts.terms.add(found, len(self.terms.digits if found.form == "digits" else self.terms.plain), column_number)

    # ---- other files, names ----

    def check_other_file(self) -> None:
        """Check a file that is no shard: as one text where it is UTF-8, else its readable stretches."""
        for piece in self._read_pieces(self.task.file):
            self.bytes_searched["other files"] += piece.end - piece.start
            if _is_utf8(piece.data):
                part = _PieceTexts(piece, as_single_text(piece.data), np.zeros(1, np.int64), None)
                self._add_matches("text", self.search_piece(part, "text"), part.texts)
                continue
            for part in _texts_in_piece(piece):
                self._add_matches("bytes", self.search_piece(part, "bytes"), part.texts)

    def _read_pieces(self, path: Path) -> Iterator[FilePiece]:
        return read_pieces(path, count_context_bytes(self.terms.max_length))

    def check_texts(
        self,
        location: str,
        texts: pa.LargeStringArray,
        only_forms: tuple[str, ...] | None = None,
        strict: bool = False,
    ) -> None:
        """Check texts that contain no kept originals. `strict`: short forms with the spelling of a value count as leaks too."""
        self._add_matches(location, self.search(texts, location, only_forms), texts, strict)

    def _add_matches(self, location: str, found: Iterable[_FormMatches], texts: pa.LargeStringArray, strict: bool = False) -> None:
        """Add the leaks and ambiguous matches among matches in texts that contain no kept originals."""
        for matches in found:
            self._add_counts(matches)
            matches = matches.select(matches.bounded)
            forms = self._spelling_forms(matches, texts)
            for row in range(len(matches.term)):
                is_exact_spelling = strict and matches.form in ("exact", "NFKC") and not self.terms.is_common[matches.term[row]]
                conclusive = bool(matches.conclusive[row]) or is_exact_spelling
                self._add_match(location, matches.form, int(matches.term[row]), forms[row], conclusive)

    def _spelling_forms(self, found: _FormMatches, texts: pa.LargeStringArray) -> list[str]:
        """The reported form of each match: a match of the form `exact` is split into `exact`, `identity` and `case-folded`."""
        if found.form != "exact" or not len(found.term):
            return [found.form] * len(found.term)
        buffers = TextBuffers.from_array(texts)
        base = buffers.offsets[found.text_no]
        names = []
        spellings = self.terms.read_spellings(found.term)
        for row, start, stop, spelling in zip(
            found.term.tolist(), (base + found.start).tolist(), (base + found.end).tolist(), spellings, strict=True
        ):
            is_same = buffers.data[start:stop].tobytes() == spelling
            names.append("exact" if is_same else "identity" if self.terms.is_identity[row] else "case-folded")
        return names

    def _add_match(self, location: str, searched_form: str, term: int, reported_form: str, conclusive: bool, count: int = 1) -> None:
        matcher = self.terms.digits if searched_form == "digits" else self.terms.plain
        kind = matcher.kind_names[matcher.kind[term]]
        if conclusive:
            self.leaks[self.task.reported_name, location, kind, reported_form] += count
        elif reported_form != "case-folded" and (matcher is self.terms.digits or not self.terms.is_weak[term]):
            # a short term in other letter case is not counted, and a value that only its context identifies is none
            self.ambiguous[kind, reported_form] += count

    def write_digest_words(self) -> None:
        """Write the words that may be digests; `count_digest_leaks` compares those of all files with the values."""
        if self.digest_words and self.task.digest_words_path is not None:
            rows = [
                {"word": word, "place": location, "file": self.task.reported_name, "times": count}
                for (word, location), count in self.digest_words.items()
            ]
            with attempt_file(self.task.digest_words_path, self.task.temp_path) as path:
                pq.write_table(pa.Table.from_pylist(rows), path, compression=TABLE_CODEC, compression_level=TABLE_CODEC_LEVEL)


def _overlaps_any(found: _FormMatches, others: Sequence[_FormMatches]) -> Mask:
    """True for matches that share bytes with one of `others`."""
    if not others:
        return np.zeros(len(found.term), np.bool_)
    text_no, start, end = (np.concatenate([getattr(other, name) for other in others]) for name in ("text_no", "start", "end"))
    axis, other_axis = flatten_spans((found.text_no, found.start, found.end), (text_no, start, end))
    return overlaps_any(*axis, *other_axis)


def _texts_in_piece(piece: FilePiece) -> Iterator[_PieceTexts]:
    """Yields the readable stretches of a piece for all forms, and all its bytes as one text for UTF-16."""
    if len(piece.data):
        starts, stops = find_readable_spans(piece.data)
        if len(starts):
            yield _PieceTexts(piece, slice_spans(TextBuffers.from_array(as_single_text(piece.data)), starts, stops), starts, None)
        yield _PieceTexts(piece, as_single_text(piece.data), np.zeros(1, np.int64), ("UTF-16",))


def _is_utf8(data: U8) -> bool:
    try:
        data.tobytes().decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _iter_leaf_arrays(array: pa.Array, is_wanted: Callable[[pa.DataType], bool]) -> Iterator[pa.Array]:
    if pa.types.is_large_list(array.type):
        yield from _iter_leaf_arrays(array.flatten(), is_wanted)
    elif pa.types.is_struct(array.type):
        for number in range(array.type.num_fields):
            yield from _iter_leaf_arrays(pc.struct_field(array, number), is_wanted)
    elif is_wanted(array.type):
        yield array


def _number_texts(array: pa.Array) -> Iterator[pa.LargeStringArray]:
    """The numbers of a column, written in digits."""
    for numbers in _iter_leaf_arrays(
        array, lambda kind: bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
    ):
        if pa.types.is_floating(numbers.type):
            floats = numbers.cast(pa.float64())
            floats = floats.filter(pc.fill_null(pc.and_(pc.equal(pc.floor(floats), floats), pc.less(pc.abs(floats), 2.0**63)), False))
            numbers = floats.cast(pa.int64())
        yield numbers.cast(pa.string()).cast(pa.large_string()).fill_null("")


def _binary_values(array: pa.Array) -> Iterator[U8]:
    """The values of a column of bytes, concatenated with three zero bytes between them."""
    for leaf_array in _iter_leaf_arrays(
        array, lambda kind: bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))
    ):
        yield np.frombuffer(b"\0\0\0".join(value for value in leaf_array.to_pylist() if value is not None), np.uint8)
