"""Searches the files of a corpus for removed values: names, pages and bytes of shards beyond their
rows, and whole other files.

What `shard_check` has found in the rows of a shard is not looked at again: matches in its pages and
bytes are leaks where they are more than those in the rows (a dictionary entry that no row uses, a
key of the footer). Names of erased persons are a leak wherever they occur.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from sanitize.array_types import I32, I64, Mask
from sanitize.core.arrow_buffers import TextBuffers, fill_null_texts, slice_spans
from sanitize.core.engine import Engine
from sanitize.core.text_cells import PathArrays, flatten_leaf, is_text_type, list_text_leaves
from sanitize.storage.formats import find_packed_format
from sanitize.text import name_search
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
from sanitize.verification.search_terms import ALL_FORMS, SearchTerms
from sanitize.verification.shard_check import count_mentions, describe_columns
from sanitize.verification.shard_reading import VerifyTask, read_shard_batches, read_shard_schema
from sanitize.verification.value_matches import ValueMatches, describe_forms, find_value_matches

_DIGITS, _DIGEST = ALL_FORMS.index("digits"), ALL_FORMS.index("digest")
_SHORT_PIECE_BYTES = 64
_MIN_CONCLUSIVE_BYTES = 8  # a match of so many bytes does not occur by chance in binary data
_MIN_CONCLUSIVE_DIGITS = 9
_WRITTEN_FORMS = [ALL_FORMS.index(form) for form in ("exact", "case-folded", "identity")]


@dataclass(frozen=True, kw_only=True)
class FileCheckTask:
    """One file: a shard (then with `shard_task`), any other file of the corpus, or an empty
    folder."""

    file: Path
    name: str  # the name in the corpus folder; searched, too
    reported_name: str  # the name in findings: that of a foreign file may be a value
    terms: tuple[Path, ...]
    forms: tuple[str, ...]
    shard_task: VerifyTask | None = None
    erased_names: tuple[str, ...] = ()  # names of erased persons
    checked_bytes: Mapping[str, int] = field(default_factory=dict)  # see `check_files`
    other_digests: frozenset[str] = frozenset()  # words that are the digest of no value


@dataclass(frozen=True)
class FilesChecked:
    """What the search of files found: leaks, inconclusive matches by kind and form, and the bytes
    searched, by location."""

    findings: Sequence[LeakFinding]
    inconclusive: Mapping[tuple[str, str], int]
    bytes_searched: Mapping[str, int]


def check_files(
    engine: Engine,
    shards: Sequence[tuple[VerifyTask, str]],
    files: Sequence[tuple[Path, str]],
    terms: tuple[Path, ...],
    *,
    forms: Sequence[str] = ALL_FORMS,
    own_files: Sequence[str] = (),
    erased_names: Sequence[str] = (),
    checked_bytes: Sequence[Mapping[str, int]] = (),
    file_sizes: Mapping[str, int] | None = None,
    empty_folders: Sequence[tuple[Path, str]] = (),
) -> FilesChecked:
    """Search shards (each with its name, and checked by `verify_task`) and other files for the
    values of `terms`.

    Files that are not in `own_files` are not reported by name. `erased_names` are searched as
    mentions, also in decoded text. `checked_bytes`: the `plain_bytes` of each shard; the pages of
    columns that hold no more than these are not read again. `file_sizes` has the sizes of files by
    their SHA-256: that of a file longer than every value is not the digest of one. Of
    `empty_folders` the names are searched.
    """
    # a number has a plus
    max_text_bytes = max((one.max_length for one in SearchTerms.open(terms)), default=0) + len("+")
    other_digests = frozenset(
        sha256 for sha256, size in (file_sizes or {}).items() if size > max_text_bytes
    )
    all_files: list[tuple[Path, str, VerifyTask | None]] = [
        (task.shard_path, name, task) for task, name in shards
    ]
    all_files += [(path, name, None) for path, name in files]
    own_names = {name: name for name in (*own_files, *(name for _, name in shards))}
    checked_by_path = {
        task.shard_path: plain_bytes
        for (task, _), plain_bytes in zip(shards, checked_bytes, strict=False)
    }
    foreign = [name for _, name, _ in all_files if name not in own_names]
    reported_names = own_names | {
        name: f"foreign file {number}" for number, name in enumerate(foreign, 1)
    }
    reported_names |= {
        name: f"foreign folder {number}" for number, (_, name) in enumerate(empty_folders, 1)
    }
    all_files += [(path, name, None) for path, name in empty_folders]
    tasks = [
        FileCheckTask(
            file=file,
            name=name,
            reported_name=reported_names[name],
            terms=terms,
            forms=tuple(forms),
            shard_task=task,
            erased_names=tuple(erased_names),
            checked_bytes=checked_by_path.get(file, {}),
            other_digests=other_digests,
        )
        for file, name, task in all_files
    ]
    leaks: Counter[tuple[str, str, str, str]] = Counter()
    inconclusive: Counter[tuple[str, str]] = Counter()
    bytes_searched: Counter[str] = Counter()
    for done in engine.map_shards(check_file, tasks):
        found, file_bytes = done.result
        leaks.update(
            {
                (tasks[done.task_no].reported_name, *where): times
                for where, times in found.leaks.items()
            }
        )
        inconclusive.update(found.inconclusive)
        bytes_searched.update(file_bytes)
    findings = [LeakFinding(*where, times) for where, times in sorted(leaks.items())]
    return FilesChecked(
        findings, dict(sorted(inconclusive.items())), dict(sorted(bytes_searched.items()))
    )


def check_file(task: FileCheckTask) -> tuple[Findings, Counter[str]]:
    """Check one file; returns what was found in it, never a value, and the bytes searched, by
    location."""
    search = _FileSearch(task, SearchTerms.open(task.terms))
    # a name that is no UTF-8 is searched with its other bytes replaced
    name = pa.array([os.fsencode(task.name).decode("utf-8", "replace")], pa.large_string())
    search.add_all("file name", name)
    if task.shard_task is not None:
        search.check_shard(task.shard_task)
    elif not task.file.is_dir():
        search.check_other_file()
    return search.findings, search.bytes_searched


@dataclass(frozen=True, repr=False)
class _PieceTexts:
    """Texts in a piece of a file, the offset of each in the piece, and the forms to search in
    them."""

    piece: FilePiece
    texts: pa.LargeStringArray
    starts: I64
    forms: tuple[str, ...]

    def belongs_to_piece(self, text_no: I64, start: I64) -> Mask:
        """True where an occurrence with this first byte belongs to the piece, and not to the one
        before or after it."""
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
    """How often terms occur, whatever adjoins them: arrays by pass and form, with the number of the
    last column in which each occurred."""

    times: dict[tuple[int, int], I32] = field(default_factory=dict)
    column_numbers: dict[tuple[int, int], I32] = field(default_factory=dict)

    def add(
        self, pass_no: int, terms: SearchTerms, matches: ValueMatches, column_number: int = 0
    ) -> None:
        size = len(terms.plain) + len(terms.digits)
        for form in np.unique(matches.form).tolist():
            key, rows = (pass_no, form), matches.term[matches.form == form]
            np.add.at(self.times.setdefault(key, np.zeros(size, np.int32)), rows, 1)
            self.column_numbers.setdefault(key, np.zeros(size, np.int32))[rows] = column_number


@dataclass(frozen=True, repr=False)
class _FileSearch:
    """The search of one file, and what was found so far."""

    task: FileCheckTask
    passes: tuple[SearchTerms, ...]
    findings: Findings = field(default_factory=Findings)
    bytes_searched: Counter[str] = field(default_factory=Counter)

    def find(
        self, texts: pa.LargeStringArray, forms: Sequence[str]
    ) -> Iterator[tuple[int, SearchTerms, ValueMatches]]:
        """Yields the matches of each pass in some texts, in the forms in which they are
        reported."""
        for number, terms in enumerate(self.passes):
            for matches in find_value_matches(
                terms, texts, forms, other_digests=self.task.other_digests
            ):
                yield number, terms, replace(matches, form=describe_forms(terms, matches, texts))

    def add_all(self, location: str, texts: pa.LargeStringArray) -> None:
        """Add what is found in a few texts in all forms."""
        for _, terms, matches in self.find(texts, self.task.forms):
            self.findings.add(location, terms, matches, texts)
        self._count_mentions(location, texts, self.task.forms)

    def check_other_file(self) -> None:
        """Check a file that is no shard: as one text where it is UTF-8, else its readable
        stretches."""
        for piece in self._read_pieces(self.task.file):
            self.bytes_searched["other files"] += piece.end - piece.start
            is_text = _is_utf8(piece)
            location = "text" if is_text else "bytes"
            for part in [self._as_one_text(piece)] if is_text else self._list_texts(piece):
                for _, terms, matches in self._find_in_piece(part, location):
                    self.findings.add(location, terms, matches, part.texts)

    def _find_in_piece(
        self, part: _PieceTexts, location: str
    ) -> Iterator[tuple[int, SearchTerms, ValueMatches]]:
        """Yields the matches that belong to a piece, and counts the names of erased persons in
        it."""
        seen = part.list_seen_texts() if self.task.erased_names and part.piece.seen else None
        self._count_mentions(location, part.texts, part.forms, seen)
        for number, terms, matches in self.find(part.texts, part.forms):
            yield number, terms, matches.take(part.belongs_to_piece(matches.text_no, matches.start))

    def _count_mentions(
        self,
        location: str,
        texts: pa.LargeStringArray,
        forms: Sequence[str],
        seen: pa.LargeStringArray | None = None,
    ) -> None:
        """Count names of erased persons, without those in `seen`; each one is a leak."""
        counts = count_mentions(texts, self.task.erased_names, forms)
        if seen is not None:
            counts -= count_mentions(seen, self.task.erased_names, forms)
        for form, times in counts.items():
            self.findings.leaks[location, name_search.PERSON, form] += times

    def _read_pieces(self, path: Path) -> Iterator[FilePiece]:
        return read_pieces(
            path, count_context_bytes(max((terms.max_length for terms in self.passes), default=0))
        )

    def _as_one_text(self, piece: FilePiece) -> _PieceTexts:
        return _PieceTexts(
            piece, as_single_text(piece.data), np.zeros(1, np.int64), self.task.forms
        )

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
        row_only = (
            find_row_only_columns(task.shard_path, self.task.checked_bytes)
            if is_parquet
            else RowOnlyColumns()
        )
        text_columns = {leaf.column for leaf in task.leaves}
        # the bytes of columns whose pages hold their rows and nothing else are not compared
        skips_texts = (
            is_parquet and bool(self.task.checked_bytes) and text_columns <= row_only.names
        )
        # a column of lists or structs may have numbers and bytes beside its texts
        skipped = {
            name
            for name in schema.names
            if skips_texts and name in text_columns and is_text_type(schema.field(name).type)
        }
        # of all columns, and of those whose pages may hold more than the rows
        rows, page_rows = (_Counts(), _Counts())
        self._count_rows(
            task,
            [name for name in schema.names if name not in skipped] if skips_texts else None,
            row_only,
            rows,
            page_rows,
        )
        if is_parquet:
            pages = (
                (column, FilePiece.whole(data))
                for column, data in read_pages(task.shard_path, row_only)
            )
            self._add_surplus("a page of", pages, page_rows, locations)
        path = task.shard_path
        pieces = (
            map(FilePiece.whole, read_bytes_outside_pages(path))
            if skips_texts
            else self._read_pieces(path)
        )
        self._add_surplus("raw bytes", (("", piece) for piece in pieces), rows, locations)

    def _count_rows(
        self,
        task: VerifyTask,
        columns: Sequence[str] | None,
        row_only: RowOnlyColumns,
        rows: _Counts,
        page_rows: _Counts,
    ) -> None:
        """Count the matches in the rows of a shard; of a Parquet file those of the given
        columns."""
        for table, _ in read_shard_batches(task, columns):
            for name, texts, forms in _list_row_texts(table):
                counted = (rows,) if name in row_only.names else (rows, page_rows)
                searched = [form for form in forms or ALL_FORMS if form in self.task.forms]
                for number, terms, matches in self.find(texts, searched):
                    for counts in counted:
                        counts.add(number, terms, matches)

    def _add_surplus(
        self,
        location: str,
        pieces: Iterable[tuple[str, FilePiece]],
        rows: _Counts,
        locations: Mapping[str, str],
    ) -> None:
        """Add what some pieces (of pages, or of the file), each with the name of its column,
        contain more often than the rows do."""
        is_other_format = find_packed_format(self.task.file) is not None
        columns: list[str] = []
        found = _Counts()
        # short pieces: the pages of many columns are the same few bytes of levels
        without_finds = set[bytes]()

        def describe(column: str) -> str:
            return f"{location} {locations.get(column, column)}" if column else location

        for column, piece in pieces:
            if not columns or columns[-1] != column:
                columns.append(column)
            self.bytes_searched["raw bytes" if location == "raw bytes" else "pages"] += (
                piece.end - piece.start
            )
            content = piece.data[: _SHORT_PIECE_BYTES + 1].tobytes()
            if content in without_finds:
                continue
            mention_count, match_count = self.findings.leaks.total(), 0
            for part in self._list_texts(piece):
                for number, terms, matches in self._find_in_piece(part, describe(column)):
                    match_count += len(matches)
                    # a file in another format holds only rows, and matches across adjacent rows are
                    # possible in other forms
                    if is_other_format:
                        matches = matches.take(np.isin(matches.form, _WRITTEN_FORMS))
                    found.add(number, terms, matches, len(columns) - 1)
            if (
                len(content) <= _SHORT_PIECE_BYTES
                and not match_count
                and mention_count == self.findings.leaks.total()
            ):
                without_finds.add(content)
        for (pass_no, form), found_times in found.times.items():
            surplus = found_times - rows.times.get((pass_no, form), np.zeros(1, np.int32))
            terms, numbers = self.passes[pass_no], found.column_numbers[pass_no, form]
            for row in np.flatnonzero(surplus > 0).tolist():
                matcher, own_row = terms.locate(row)
                kind, reported = matcher.kind_names[matcher.kind[own_row]], ALL_FORMS[form]
                if form == _DIGEST:
                    is_conclusive = True
                elif form == _DIGITS:
                    is_conclusive = matcher.lengths[own_row] >= _MIN_CONCLUSIVE_DIGITS
                else:
                    is_conclusive = (
                        not terms.is_short[own_row]
                        and matcher.lengths[own_row] >= _MIN_CONCLUSIVE_BYTES
                    )
                if is_conclusive:
                    self.findings.leaks[describe(columns[numbers[row]]), kind, reported] += int(
                        surplus[row]
                    )
                else:
                    self.findings.inconclusive[kind, reported] += int(surplus[row])


def _list_row_texts(
    table: pa.Table,
) -> Iterator[tuple[str, pa.LargeStringArray, tuple[str, ...] | None]]:
    """Yields the texts and bytes in the columns of a table: name of the column, texts, and forms to
    search in them (None: all)."""
    # parts of nested columns, each taken once
    arrays: defaultdict[str, PathArrays] = defaultdict(dict)
    for leaf in list_text_leaves(table.schema):
        yield (
            leaf.column,
            fill_null_texts(
                flatten_leaf(table.column(leaf.column).chunk(0), leaf, arrays[leaf.column]).texts
            ),
            None,
        )
    for name in table.column_names:
        for texts, forms in list_binary_texts(table.column(name).chunk(0)):
            yield name, texts, forms


def _is_utf8(piece: FilePiece) -> bool:
    try:
        piece.data.tobytes().decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
