"""Searches the files of a corpus for removed values: names, pages and bytes of shards beyond their rows, and whole other files.

What `shard_check` has found in the rows of a shard is not looked at again: matches in its pages and bytes are leaks where they are more
than those in the rows (a dictionary entry that no row uses, a key of the footer). Names of erased persons are a leak wherever they occur.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.array_types import I32, I64, Mask
from sanitize.core.arrow_buffers import TextBuffers, fill_null_texts, slice_spans
from sanitize.core.engine import Engine
from sanitize.core.text_cells import PathArrays, flatten_leaf, is_text_type, list_text_leaves
from sanitize.kinds.kind import all_kinds
from sanitize.storage.files import attempt_file
from sanitize.storage.formats import find_packed_format
from sanitize.storage.parquet_files import TABLE_CODEC, TABLE_CODEC_LEVEL
from sanitize.text import name_search
from sanitize.text.decodings.coded_runs import find_coded_runs, find_digests
from sanitize.verification.attribution import VerifyTask, read_shard_batches, read_shard_schema
from sanitize.verification.column_texts import list_binary_texts, list_texts_in_bytes
from sanitize.verification.findings import Findings, LeakFinding
from sanitize.verification.parquet_pages import (
    FilePiece,
    RowOnlyColumns,
    as_single_text,
    count_context_bytes,
    find_row_only_columns,
    read_bytes_outside_pages,
    read_pages,
    read_pieces,
)
from sanitize.verification.search_terms import ALL_FORMS, SearchTerms, match_digest_words
from sanitize.verification.shard_check import count_mentions, describe_columns
from sanitize.verification.value_matches import ValueMatches, describe_forms, find_value_matches

_DIGITS = ALL_FORMS.index("digits")
_SHORT_PIECE_BYTES = 64
_MIN_CONCLUSIVE_BYTES = 8  # a match of so many bytes does not occur by chance in binary data
_MIN_CONCLUSIVE_DIGITS = 9
_Source = Callable[[], Iterator[tuple[str, FilePiece]]]  # pieces of a file, each with the name of its column


@dataclass(frozen=True, kw_only=True)
class FileCheckTask:
    """One file: a shard (then with `shard_task`), any other file of the corpus, or an empty folder."""

    file: Path
    name: str  # the name in the corpus folder; searched, too
    reported_name: str  # the name in findings: that of a foreign file may be a value
    terms: tuple[Path, ...]
    forms: tuple[str, ...]
    digest_words_path: Path  # words that may be digests are written here
    shard_task: VerifyTask | None = None
    erased_names: tuple[str, ...] = ()  # names of erased persons
    checked_bytes: Mapping[str, int] = field(default_factory=dict)  # see `check_files`
    temp_path: Path | None = None  # where an attempt writes `digest_words_path` before it is renamed

    def for_attempt(self, folder: Path) -> FileCheckTask:
        """The task for one of several concurrent attempts: with a temp path in `folder`."""
        return replace(self, temp_path=folder / "digests.parquet")


@dataclass(frozen=True)
class FilesChecked:
    """What the search of files found: leaks, inconclusive matches by kind and form, and the bytes searched, by location."""

    findings: Sequence[LeakFinding]
    inconclusive: Mapping[tuple[str, str], int]
    bytes_searched: Mapping[str, int]


def check_files(
    engine: Engine,
    shards: Sequence[tuple[VerifyTask, str]],
    files: Sequence[tuple[Path, str]],
    terms: tuple[Path, ...],
    scratch_folder: Path,
    *,
    forms: Sequence[str] = ALL_FORMS,
    own_files: Sequence[str] = (),
    erased_names: Sequence[str] = (),
    checked_bytes: Sequence[Mapping[str, int]] = (),
    file_sizes: Mapping[str, int] | None = None,
    empty_folders: Sequence[tuple[Path, str]] = (),
) -> FilesChecked:
    """Search shards (each with its name, and checked by `verify_task`) and other files for the values of `terms`.

    Temporary files are written below `scratch_folder`. Files that are not in `own_files` are not reported by name. `erased_names` are
    searched as mentions, also in decoded text. `checked_bytes`: the `plain_bytes` of each shard; the pages of columns that hold no more
    than these are not read again. `file_sizes` has the sizes of files by their SHA-256: that of a file longer than every value is not the
    digest of one. Of `empty_folders` the names are searched.
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
            terms=terms,
            forms=tuple(forms),
            digest_words_path=words_folder / f"{no:06d}.parquet",
            shard_task=task,
            erased_names=tuple(erased_names),
            checked_bytes=checked_by_path.get(file, {}),
        )
        for no, (file, name, task) in enumerate(all_files)
    ]
    leaks: Counter[tuple[str, str, str, str]] = Counter()
    inconclusive: Counter[tuple[str, str]] = Counter()
    bytes_searched: Counter[str] = Counter()
    for done in engine.map_shards(check_file, tasks):
        found, file_bytes = done.result
        leaks.update({(tasks[done.task_no].reported_name, *where): times for where, times in found.leaks.items()})
        inconclusive.update(found.inconclusive)
        bytes_searched.update(file_bytes)
    leaks.update(_count_digest_leaks(engine, terms, tuple(sorted(words_folder.iterdir())), file_sizes or {}))
    findings = [LeakFinding(*where, times) for where, times in sorted(leaks.items())]
    return FilesChecked(findings, dict(sorted(inconclusive.items())), dict(sorted(bytes_searched.items())))


def check_file(task: FileCheckTask) -> tuple[Findings, Counter[str]]:
    """Check one file; returns what was found in it, never a value, and the bytes searched, by location."""
    search = _FileSearch(task, SearchTerms.open(task.terms))
    # a name that is no UTF-8 is searched with its other bytes replaced
    name = pa.array([os.fsencode(task.name).decode("utf-8", "replace")], pa.large_string())
    search.add_all("file name", name)
    if task.shard_task is not None:
        search.check_shard(task.shard_task)
    elif not task.file.is_dir():
        search.check_other_file()
    search.write_digest_words()
    return search.findings, search.bytes_searched


def _count_digest_leaks(
    engine: Engine, terms: tuple[Path, ...], word_files: tuple[Path, ...], file_sizes: Mapping[str, int]
) -> Counter[tuple[str, str, str, str]]:
    """The words in some files that are a digest of a value, by file, location, kind and form."""
    leaks: Counter[tuple[str, str, str, str]] = Counter()
    if not word_files:
        return leaks
    max_text_bytes = max((one.max_length for one in SearchTerms.open(terms)), default=0) + len("+")  # a number has a plus
    no_digests = [sha256 for sha256, size in file_sizes.items() if size > max_text_bytes]
    passes = [path for folder in terms for path in sorted(folder.glob("pass-*"))]
    kinds: dict[str, tuple[int, int]] = {}
    for done in engine.map_shards(match_digest_words, [(path, word_files) for path in passes]):
        kinds.update(done.result)
    for word in no_digests:
        kinds.pop(word, None)
    names = list(all_kinds())
    for path in word_files if kinds else ():
        table = pq.read_table(path, partitioning=None)
        wanted = pa.array(list(kinds), table.schema.field("word").type)
        for row in table.filter(pc.is_in(table.column("word"), wanted)).to_pylist():
            leaks[row["file"], row["place"], names[kinds[row["word"]][0]], "digest"] += row["times"]
    return leaks


@dataclass(frozen=True, repr=False)
class _PieceTexts:
    """Texts in a piece of a file, the offset of each in the piece, and the forms to search in them."""

    piece: FilePiece
    texts: pa.LargeStringArray
    starts: I64
    forms: tuple[str, ...]

    def belongs_to_piece(self, text_no: I64, start: I64) -> Mask:
        """True where an occurrence with this first byte belongs to the piece, and not to the one before or after it."""
        offset = self.starts[text_no] + start
        is_inside: Mask = (offset >= self.piece.start) & (offset < self.piece.end)
        return is_inside

    def list_seen_texts(self) -> pa.LargeStringArray:
        """What of the texts was in the piece before, too."""
        buffers = TextBuffers.from_array(self.texts)
        seen = np.clip(self.piece.seen - self.starts, 0, buffers.lengths)
        return slice_spans(buffers, buffers.offsets[:-1], buffers.offsets[:-1] + seen)


@dataclass(frozen=True, repr=False)
class _Counts:
    """How often terms occur, whatever adjoins them: arrays by pass and form, with the number of the last column in which each occurred;
    and words that may be digests."""

    times: dict[tuple[int, int], I32] = field(default_factory=dict)
    column_numbers: dict[tuple[int, int], I32] = field(default_factory=dict)
    digest_words: Counter[str] = field(default_factory=Counter)

    def add(self, pass_no: int, terms: SearchTerms, matches: ValueMatches, column_number: int = 0) -> None:
        if not len(matches):
            return
        key = pass_no, int(matches.form[0])
        size = len(terms.digits if key[1] == _DIGITS else terms.plain)
        np.add.at(self.times.setdefault(key, np.zeros(size, np.int32)), matches.term, 1)
        self.column_numbers.setdefault(key, np.zeros(size, np.int32))[matches.term] = column_number


@dataclass(frozen=True, repr=False)
class _FileSearch:
    """The search of one file, and what was found so far."""

    task: FileCheckTask
    passes: tuple[SearchTerms, ...]
    findings: Findings = field(default_factory=Findings)
    bytes_searched: Counter[str] = field(default_factory=Counter)
    digest_words: Counter[tuple[str, str]] = field(default_factory=Counter)  # by word and location

    def find(self, texts: pa.LargeStringArray, forms: Sequence[str]) -> Iterator[tuple[int, SearchTerms, ValueMatches]]:
        """Yields the matches of each pass in some texts."""
        for number, terms in enumerate(self.passes):
            for matches in find_value_matches(terms, texts, forms):
                yield number, terms, matches

    def add_all(self, location: str, texts: pa.LargeStringArray) -> None:
        """Add what is found in a few texts in all forms."""
        for _, terms, matches in self.find(texts, self.task.forms):
            self.findings.add(location, terms, matches, texts)
        self._count_mentions(location, texts, self.task.forms)
        self.digest_words.update((word, location) for word in self._find_digests(texts, None))

    def check_other_file(self) -> None:
        """Check a file that is no shard: as one text where it is UTF-8, else its readable stretches."""
        for piece in self._read_pieces(self.task.file):
            self.bytes_searched["other files"] += piece.end - piece.start
            is_text = _is_utf8(piece)
            location = "text" if is_text else "bytes"
            for part in [self._as_one_text(piece)] if is_text else self._list_texts(piece):
                for _, terms, matches in self._find_in_piece(part, location):
                    self.findings.add(location, terms, matches, part.texts)
                self.digest_words.update((word, location) for word in self._find_digests(part.texts, part))

    def _find_in_piece(self, part: _PieceTexts, location: str) -> Iterator[tuple[int, SearchTerms, ValueMatches]]:
        """Yields the matches that belong to a piece, and counts the names of erased persons in it."""
        seen = part.list_seen_texts() if self.task.erased_names and part.piece.seen else None
        self._count_mentions(location, part.texts, part.forms, seen)
        for number, terms, matches in self.find(part.texts, part.forms):
            yield number, terms, matches.take(part.belongs_to_piece(matches.text_no, matches.start))

    def _count_mentions(
        self, location: str, texts: pa.LargeStringArray, forms: Sequence[str], seen: pa.LargeStringArray | None = None
    ) -> None:
        """Count names of erased persons, without those in `seen`; each one is a leak."""
        counts = count_mentions(texts, self.task.erased_names, forms)
        if seen is not None:
            counts -= count_mentions(seen, self.task.erased_names, forms)
        for form, times in counts.items():
            self.findings.leaks[location, name_search.PERSON, form] += times

    def _find_digests(self, texts: pa.LargeStringArray, part: _PieceTexts | None) -> list[str]:
        """The words that may be digests, and belong to the piece."""
        if "digest" not in (self.task.forms if part is None else part.forms):
            return []
        words, text_no, start, _ = find_digests(texts, find_coded_runs(texts))
        return words if part is None or not words else [*itertools.compress(words, part.belongs_to_piece(text_no, start))]

    def _read_pieces(self, path: Path) -> Iterator[FilePiece]:
        return read_pieces(path, count_context_bytes(max((terms.max_length for terms in self.passes), default=0)))

    def _as_one_text(self, piece: FilePiece) -> _PieceTexts:
        return _PieceTexts(piece, as_single_text(piece.data), np.zeros(1, np.int64), self.task.forms)

    def _list_texts(self, piece: FilePiece) -> Iterator[_PieceTexts]:
        """Yields the texts in a piece."""
        for texts, starts, only_forms in list_texts_in_bytes(piece.data):
            forms = tuple(form for form in only_forms or ALL_FORMS if form in self.task.forms)
            if forms:
                yield _PieceTexts(piece, texts, starts, forms)

    # ---- a shard ----

    def check_shard(self, task: VerifyTask) -> None:
        """Compare the decompressed pages of a shard, and its bytes, with the rows."""
        locations = describe_columns(task, self.passes, self.task.forms)
        schema = read_shard_schema(task)
        is_parquet = find_packed_format(task.shard_path) is None
        row_only = find_row_only_columns(task.shard_path, self.task.checked_bytes) if is_parquet else RowOnlyColumns()
        text_columns = {leaf.column for leaf in task.leaves}
        self.bytes_searched["rows"] += sum(self.task.checked_bytes.values())
        # the bytes of columns whose pages hold their rows and nothing else are not compared
        skips_texts = is_parquet and bool(self.task.checked_bytes) and text_columns <= row_only.names
        # a column of lists or structs may have numbers and bytes beside its texts
        skipped = {name for name in schema.names if skips_texts and name in text_columns and is_text_type(schema.field(name).type)}
        rows, page_rows = _Counts(), _Counts()  # of all columns, and of those whose pages may hold more than the rows
        self._count_rows(task, [name for name in schema.names if name not in skipped] if skips_texts else None, row_only, rows, page_rows)
        if is_parquet:
            pages = partial(read_pages, task.shard_path, row_only)
            page_pieces: _Source = lambda: ((column, FilePiece.whole(data)) for column, data in pages())  # noqa: E731
            self._add_surplus("a page of", page_pieces, page_rows, locations)
        outside_pages = partial(read_bytes_outside_pages, task.shard_path)
        pieces = (lambda: map(FilePiece.whole, outside_pages())) if skips_texts else partial(self._read_pieces, task.shard_path)
        self._add_surplus("raw bytes", lambda: (("", piece) for piece in pieces()), rows, locations)

    def _count_rows(
        self, task: VerifyTask, columns: Sequence[str] | None, row_only: RowOnlyColumns, rows: _Counts, page_rows: _Counts
    ) -> None:
        """Count the matches in the rows of a shard; of a Parquet file those of the given columns."""
        for table, _ in read_shard_batches(task, columns):
            for name, texts, forms in _list_row_texts(table):
                counted = (rows,) if name in row_only.names else (rows, page_rows)
                searched = [form for form in forms or ALL_FORMS if form in self.task.forms]
                for number, terms, matches in self.find(texts, searched):
                    for counts in counted:
                        counts.add(number, terms, matches)
                if forms is None:
                    words = self._find_digests(texts, None)
                    for counts in counted:
                        counts.digest_words.update(words)

    def _add_surplus(self, location: str, source: _Source, rows: _Counts, locations: Mapping[str, str]) -> None:
        """Add what the bytes of a source (pages, or the file) contain more often than the rows do."""
        is_other_format = find_packed_format(self.task.file) is not None
        columns: list[str] = []
        found, words = _Counts(), Counter[tuple[str, str]]()
        without_finds = set[bytes]()  # short pieces: the pages of many columns are the same few bytes of levels

        def describe(column: str) -> str:
            return f"{location} {locations.get(column, column)}" if column else location

        for column, piece in source():
            if not columns or columns[-1] != column:
                columns.append(column)
            self.bytes_searched["raw bytes" if location == "raw bytes" else "pages"] += piece.end - piece.start
            content = piece.data[: _SHORT_PIECE_BYTES + 1].tobytes()
            if content in without_finds:
                continue
            mention_count, match_count = self.findings.leaks.total(), 0
            for part in self._list_texts(piece):
                for number, terms, matches in self._find_in_piece(part, describe(column)):
                    match_count += len(matches)
                    # a file in another format holds only rows, and matches across adjacent rows are possible in other forms
                    if not is_other_format or not len(matches) or ALL_FORMS[matches.form[0]] == "exact":
                        found.add(number, terms, matches, len(columns) - 1)
                part_words = self._find_digests(part.texts, part)
                found.digest_words.update(part_words)
                words.update((word, describe(column)) for word in part_words)
                match_count += len(part_words)
            if len(content) <= _SHORT_PIECE_BYTES and not match_count and mention_count == self.findings.leaks.total():
                without_finds.add(content)
        for (pass_no, form), found_times in found.times.items():
            surplus = found_times - rows.times.get((pass_no, form), np.zeros(1, np.int32))
            terms, numbers = self.passes[pass_no], found.column_numbers[pass_no, form]
            surplus_terms = np.flatnonzero(surplus > 0)
            spellings = self._find_spellings(source, terms, surplus_terms) if ALL_FORMS[form] == "exact" and len(surplus_terms) else {}
            for row in surplus_terms.tolist():
                matcher = terms.digits if form == _DIGITS else terms.plain
                kind = matcher.kind_names[matcher.kind[row]]
                reported = " or ".join(sorted(spellings.get(row, {ALL_FORMS[form]})))
                if form == _DIGITS:
                    is_conclusive = matcher.lengths[row] >= _MIN_CONCLUSIVE_DIGITS
                else:
                    is_conclusive = not terms.is_short[row] and matcher.lengths[row] >= _MIN_CONCLUSIVE_BYTES
                if is_conclusive:
                    self.findings.leaks[describe(columns[numbers[row]]), kind, reported] += int(surplus[row])
                else:
                    self.findings.inconclusive[kind, reported] += int(surplus[row])
        for (word, full_location), times in words.items():
            if found.digest_words[word] > rows.digest_words[word]:
                self.digest_words[word, full_location] += times

    def _find_spellings(self, source: _Source, terms: SearchTerms, wanted: I64) -> dict[int, set[str]]:
        """The reported forms of some terms, by a second pass over the bytes that runs only where there is a surplus."""
        spellings: dict[int, set[str]] = {}
        for _, piece in source():
            for part in self._list_texts(piece):
                for matches in find_value_matches(terms, part.texts, [form for form in part.forms if form == "exact"]):
                    matches = matches.take(np.isin(matches.term, wanted))
                    for row, number in zip(matches.term.tolist(), describe_forms(terms, matches, part.texts).tolist(), strict=True):
                        spellings.setdefault(row, set()).add(ALL_FORMS[number])
        return spellings

    def write_digest_words(self) -> None:
        """Write the words that may be digests; those of all files are compared with the values at once."""
        if self.digest_words:
            rows = [
                {"word": word, "place": location, "file": self.task.reported_name, "times": count}
                for (word, location), count in self.digest_words.items()
            ]
            with attempt_file(self.task.digest_words_path, self.task.temp_path) as path:
                pq.write_table(pa.Table.from_pylist(rows), path, compression=TABLE_CODEC, compression_level=TABLE_CODEC_LEVEL)


def _list_row_texts(table: pa.Table) -> Iterator[tuple[str, pa.LargeStringArray, tuple[str, ...] | None]]:
    """Yields the texts and bytes in the columns of a table: name of the column, texts, and forms to search in them (None: all)."""
    arrays: defaultdict[str, PathArrays] = defaultdict(dict)  # parts of nested columns, each taken once
    for leaf in list_text_leaves(table.schema):
        yield leaf.column, fill_null_texts(flatten_leaf(table.column(leaf.column).chunk(0), leaf, arrays[leaf.column]).texts), None
    for name in table.column_names:
        for texts, forms in list_binary_texts(table.column(name).chunk(0)):
            yield name, texts, forms


def _is_utf8(piece: FilePiece) -> bool:
    try:
        piece.data.tobytes().decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
