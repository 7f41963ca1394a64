"""The user-word blacklist: words and n-grams that fewer than `k` users wrote, and found values; a
model must not learn them.

Users and n-grams form a bipartite graph; an n-gram with a degree (number of users) below k is an
indirect identifier (privacy-preserving masked language modeling, section 3). Degrees are counted
size by size: an n-gram that contains a shorter listed one is protected with it and is neither
counted nor listed, so memory is bounded by the number of frequent n-grams. Words are the tokens of
`tokenizer.tokenize_unicode`; n-grams do not cross the end of a text. A found value is a direct
identifier: the sequence of words that it overlaps in its text becomes one entry. All documents
without a user count as one user together, so that they cannot make each other's words frequent;
dropped and quarantined documents do not count.

A word is identified by a 64-bit hash, an n-gram by two positions in the lists of frequent n-grams:
that of its first n - 1 words and that of its last word. The texts are read once, in tasks. Where
n-grams are wanted each task also writes its words as numbers, which the passes for larger sizes
read. The word tables of several tasks are combined in SQL. N-gram tables are sorted, so they are
merged, one row group of each task at a time, while the list is written.
"""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.array_types import I32, I64, U64
from sanitize.core.arrow_buffers import TextBuffers, iter_text_ranges, to_large_string
from sanitize.core.command_results import BlacklistCounts, ListedNgrams
from sanitize.core.intervals import expand_ranges
from sanitize.core.keys import Key, siphash
from sanitize.core.text_cells import LeafPath
from sanitize.engines.task_runner import FolderTask
from sanitize.errors import UsageError
from sanitize.plans.plan import BlacklistSettings
from sanitize.stages.corpus_pass import (
    CorpusContext,
    iter_texts,
    load_occurrences,
    occurrences_in_cells,
)
from sanitize.storage import queries, table_schemas
from sanitize.storage.corpus import Documents
from sanitize.storage.files import file_sha256
from sanitize.storage.parquet_files import open_table_writer, read_table
from sanitize.storage.private_folder import TASKS_FOLDER
from sanitize.storage.task_records import Job, hash_json, run_job
from sanitize.text.tokenizer import (
    NonAsciiRunCache,
    UnicodeTokens,
    find_overlapping_words,
    tokenize_unicode,
)
from sanitize.text.user_counts import IdIndex, SortedUserCounter, UserCounter, merge_user_counts

NO_USER_MESSAGE = (
    "[blacklist]: no document has a user; name the column with the user of each document with"
    " --user-column"
)
GRAM_USERS_SCHEMA = pa.schema(
    [
        # a word: its hash; an n-gram: its number, see `_GramCodec`
        pa.field("ngram_id", pa.int64()),
        # keyed hash of one of its users; null: it has k users or more
        pa.field("user_hash", pa.int64()),
    ]
)
# the words of each text in order, each as its row in the table of words + 1, or 0 for a word of an
# erased value; before the words of a text its user, as -1 - number
WORD_SEQUENCE_SCHEMA = pa.schema([pa.field("word", pa.int32())])
SPELLING_SCHEMA = pa.schema([pa.field("ngram_id", pa.int64()), pa.field("word", pa.large_string())])
FREQUENT_SCHEMA = pa.schema([pa.field("ngram_id", pa.int64())])
DIRECT_SCHEMA = pa.schema([pa.field("ngram", pa.large_string()), pa.field("n", pa.int32())])
_TASK_LAYOUT_VERSION = (
    2  # of the files that tasks write: raise it when they change, so that old ones are not reused
)
_MAX_PENDING_TABLES = 500  # small tables in memory before they are merged into one
_BLOCK_ROWS = 1 << 18  # rows of the list that are written at a time
_MAX_MERGED_PARTS = (
    16  # sorted parts merged at once, 15 MB of memory each; more are combined in SQL
)


@dataclass(frozen=True, kw_only=True)
class GramUsersTask:
    """One range of documents: count its words by user, or its n-grams of one size (from
    `word_files`)."""

    first_doc_no: int
    end_doc_no: int
    documents: Documents
    leaves: tuple[LeafPath, ...]
    gram_size: int
    k: int
    larger_sizes_follow: bool  # larger sizes follow, and read the words that this task writes
    key: Key
    # output of the task over words: word sequences, and spellings
    word_files: tuple[Path, Path] | None
    smaller_frequent_files: tuple[Path, ...]  # the frequent n-grams of each smaller size
    excluded_doc_files: tuple[Path, ...]  # files with the `doc_no` of removed documents
    occurrences_file: Path
    direct_kinds: tuple[str, ...]  # kinds whose values are direct identifiers
    erased_value_ids: tuple[int, ...]  # values of erased persons: their words count for no user
    mention_files: tuple[Path, ...]  # where erased persons are mentioned
    folder: Path

    @property
    def description(self) -> str:
        """The task in words, for an error."""
        return self.documents.describe_range(self.first_doc_no, self.end_doc_no)


@dataclass(frozen=True, kw_only=True)
class GramUserCounts:
    """What `gram_users_task` counted. The task of words gives the words that it read, and the
    documents. That of n-grams gives `partition_sizes`: `ngram_users.parquet` is sorted in parts
    that have no pair in common, and each part has so many row groups (None: it is not sorted)."""

    words: int = 0
    documents: int = 0
    documents_without_user: int = 0
    partition_sizes: Sequence[int] | None = None


def gram_users_task(task: GramUsersTask) -> GramUserCounts:
    """Count the words or n-grams of a range by user.

    Writes `ngram_users.parquet`: pairs of n-gram and user. For words also `word_spellings.parquet`,
    `direct_ngrams.parquet` (found values) and, where larger sizes follow, `word_sequences.parquet`.
    """
    with _open_number_writer(task.folder / "ngram_users.parquet", GRAM_USERS_SCHEMA) as out:
        user_of, hashes = _number_users(task)

        def write(grams: U64, users: I32) -> None:
            column = pa.array(
                hashes[np.maximum(users, 0)] if len(hashes) else np.empty(0, np.int64),
                mask=users < 0,
            )
            out.write_table(
                pa.table([pa.array(grams.view(np.int64)), column], schema=GRAM_USERS_SCHEMA),
                row_group_size=max(1, len(grams)),
            )

        if task.word_files is None:
            return _count_word_users(task, user_of, hashes, write)
        parts = _count_gram_users(task, task.word_files, len(hashes), write)
        return GramUserCounts(partition_sizes=parts)


def _count_word_users(
    task: GramUsersTask, user_by_doc: I32, user_hashes: I64, write_pairs: Callable[[U64, I32], None]
) -> GramUserCounts:
    """`gram_users_task` for words: write their users, spellings, found values and word sequences;
    returns the counts."""
    occurrences = load_occurrences(
        task.occurrences_file if task.direct_kinds else None, task.direct_kinds
    )
    erased_spans = _load_erased_spans(task)
    word_spellings, direct_ngrams, is_counted = (
        [SPELLING_SCHEMA.empty_table()],
        [DIRECT_SCHEMA.empty_table()],
        np.zeros(task.end_doc_no - task.first_doc_no, np.bool_),
    )
    word_count, non_ascii_cache = 0, NonAsciiRunCache()
    user_counter = UserCounter(task.k, write_pairs) if task.k > 1 else None
    with contextlib.ExitStack() as files:
        sequence_out = (
            files.enter_context(
                _open_number_writer(task.folder / "word_sequences.parquet", WORD_SEQUENCE_SCHEMA)
            )
            if task.larger_sizes_follow
            else None
        )
        for docs, cells, texts in _split_batches(
            iter_texts(
                task.documents,
                task.leaves,
                task.first_doc_no,
                task.end_doc_no,
                task.excluded_doc_files,
            )
        ):
            buffers = TextBuffers.from_array(texts)
            words = tokenize_unicode(buffers, non_ascii_cache)
            if erased_spans.height:
                words.hashes[
                    _touched_words(buffers, words, occurrences_in_cells(erased_spans, docs, cells))[
                        0
                    ]
                ] = 0
            rows, word_text_no, word_hash = (
                np.arange(len(words.hashes)),
                words.text_no,
                words.hashes,
            )
            if not word_hash.all():
                rows = np.flatnonzero(word_hash)
                word_text_no, word_hash = word_text_no[rows], word_hash[rows]
            word_count += len(rows)
            is_counted[docs - task.first_doc_no] = True
            if user_counter is not None:
                users = user_by_doc[docs - task.first_doc_no]
                position, new = user_counter.add(word_hash, users[word_text_no])
                word_spellings.append(
                    pa.table(
                        [
                            words.hashes[rows[new]].view(np.int64),
                            words.lowercase_texts(buffers, rows[new]),
                        ],
                        schema=SPELLING_SCHEMA,
                    )
                )
                if sequence_out is not None:
                    # texts "ann lee", "bo" of users 0, 1; their words have positions 4, 7, 2
                    # -> [-1, 5, 8, -2, 3]: before each text -1 - user, a word as position + 1
                    numbers = np.zeros(len(words.hashes) + len(users), np.int32)
                    numbers[rows + words.text_no[rows] + 1] = position + 1
                    numbers[
                        np.searchsorted(words.text_no, np.arange(len(users)))
                        + np.arange(len(users))
                    ] = -1 - users
                    sequence_out.write_table(
                        pa.table([numbers], schema=WORD_SEQUENCE_SCHEMA),
                        row_group_size=max(1, len(numbers)),
                    )
            if task.direct_kinds:
                direct_ngrams.append(
                    _find_direct_grams(
                        buffers, words, occurrences_in_cells(occurrences, docs, cells)
                    )
                )
            if len(direct_ngrams) > _MAX_PENDING_TABLES:
                direct_ngrams = [_unique_rows(direct_ngrams, "ngram")]
    if user_counter is not None:
        user_counter.flush()
    for name, table in (
        ("word_spellings", pa.concat_tables(word_spellings)),
        ("direct_ngrams", _unique_rows(direct_ngrams, "ngram")),
    ):
        with open_table_writer(task.folder / f"{name}.parquet", table.schema) as file:
            file.write_table(table)
    # the last number is that of documents without a user
    no_user = len(user_hashes) - 1 if len(user_hashes) else -1
    return GramUserCounts(
        words=word_count,
        documents=int(is_counted.sum()),
        documents_without_user=int((user_by_doc[is_counted] == no_user).sum()),
    )


def _count_gram_users(
    task: GramUsersTask,
    word_files: tuple[Path, Path],
    user_count: int,
    write_pairs: Callable[[U64, I32], None],
) -> list[int] | None:
    """`gram_users_task` for n-grams of two words or more; returns their parts."""
    codec = _GramCodec.load(task.smaller_frequent_files)
    words_table = read_table(word_files[1], columns=["ngram_id"])
    word_hashes = np.asarray(words_table.column("ngram_id"), np.int64).view(np.uint64)
    # position among the frequent words, or -1
    word_positions = np.append(
        np.int32(-1), IdIndex(codec.frequent_by_size[0]).positions_of(word_hashes)
    )
    head_indexes = [IdIndex(frequent) for frequent in codec.frequent_by_size[1:]]
    bits = codec.bit_count(task.gram_size)
    # sort packed (number, user) pairs where they fit into 64 bits, else count in a hash table
    user_counter = (
        SortedUserCounter(task.k, bits, user_count, write_pairs)
        if SortedUserCounter.can_pack(bits, user_count)
        else UserCounter(task.k, write_pairs)
    )
    with pq.ParquetFile(word_files[0], pre_buffer=False) as file:
        for group in range(file.num_row_groups):
            words = np.asarray(
                file.read_row_group(group, use_threads=False).column("word"), np.int32
            )
            # words [-1, 5, 8, -2, 3] -> text_starts [0, 3], user [0, 0, 0, 1, 1]; of size 2 one
            # n-gram (5, 8) begins at 1, and its user is user[1]
            text_starts = np.flatnonzero(words < 0)
            user = np.repeat(-1 - words[text_starts], np.diff(np.append(text_starts, len(words))))
            tail_positions = head_positions = word_positions[np.maximum(words, 0)]
            for size in range(2, task.gram_size + 1):
                # both sub-n-grams are frequent, and all words are in one text (the user between two
                # texts has no position)
                gram_starts = np.flatnonzero((head_positions[:-1] >= 0) & (head_positions[1:] >= 0))
                grams = codec.encode(
                    head_positions[gram_starts], tail_positions[gram_starts + size - 1]
                )
                if size < task.gram_size:
                    head_positions = np.full(len(words), -1, np.int32)
                    head_positions[gram_starts] = head_indexes[size - 2].positions_of(grams)
            user_counter.add(grams, user[gram_starts])
    user_counter.flush()
    return user_counter.blocks_per_run


@dataclass(frozen=True)
class _GramCodec:
    """Encodes n-grams of one size as numbers, from the frequent n-grams of all smaller sizes (their
    numbers, in order of position)."""

    frequent_by_size: tuple[U64, ...]

    @classmethod
    def load(cls, files: Sequence[Path]) -> _GramCodec:
        """Read the tables of frequent n-grams, one file per size."""
        tables_ = (read_table(path, columns=["ngram_id"]) for path in files)
        return cls(
            tuple(
                np.asarray(table.column("ngram_id"), np.int64).view(np.uint64) for table in tables_
            )
        )

    @property
    def _tail_bits(self) -> int:
        return len(self.frequent_by_size[0]).bit_length()

    def bit_count(self, size: int) -> int:
        """How many bits a number of an n-gram of that size has."""
        return max(1, len(self.frequent_by_size[size - 2])).bit_length() + self._tail_bits

    def encode(self, head: I32, tail: I32) -> U64:
        """The numbers of n-grams, from the positions of their first n - 1 words and of their last
        word; never zero."""
        return (head.astype(np.int64) << self._tail_bits | tail + 1).view(np.uint64)

    def spell(self, numbers: I64, size: int, words: pl.Series) -> pl.Series:
        """The texts of n-grams of size 2 or 3, from their numbers and the frequent words."""
        positions = [*self._decode(numbers)]
        if size == 3:
            positions[:1] = self._decode(self.frequent_by_size[1].view(np.int64)[positions[0]])
        columns = pl.DataFrame(
            {
                str(column_no): words.gather(column_positions)
                for column_no, column_positions in enumerate(positions)
            }
        )
        return columns.select(pl.concat_str(pl.all(), separator=" ")).to_series()

    def _decode(self, numbers: I64) -> tuple[I64, I64]:
        """The two positions that `encode` packed into each number."""
        return numbers >> self._tail_bits, (numbers & ((1 << self._tail_bits) - 1)) - 1


def _open_number_writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """A Parquet writer for a table of numbers: the first column delta-encoded, users
    dictionary-encoded. Ascending numbers take less space and time than compressed."""
    return pq.ParquetWriter(
        path,
        schema,
        compression="none",
        use_dictionary=schema.names[1:],
        column_encoding={schema.names[0]: "DELTA_BINARY_PACKED"},
        write_statistics=False,
        write_page_checksum=True,
    )


def _load_erased_spans(task: GramUsersTask) -> pl.DataFrame:
    """Occurrences of erased values and mentions of erased persons in the range, sorted."""
    columns = load_occurrences(None, ()).columns
    files = [*([task.occurrences_file] if task.erased_value_ids else ()), *task.mention_files]
    frames = [pl.DataFrame(read_table(path, columns=columns)) for path in files]
    if not frames:
        return load_occurrences(None, ())
    erased_ids = pl.Series(task.erased_value_ids, dtype=pl.Int64)
    frames[0] = (
        frames[0].filter(pl.col("value_id").is_in(erased_ids.implode()))
        if task.erased_value_ids
        else frames[0]
    )
    return pl.concat(frames).sort("doc_no", "cell", "start")


def _split_batches(
    batches: Iterable[tuple[I64, I32, pa.LargeStringArray]],
) -> Iterator[tuple[I64, I32, pa.LargeStringArray]]:
    """Split batches of texts into smaller ones."""
    for docs, cells, texts in batches:
        for low, high in iter_text_ranges(TextBuffers.from_array(texts).offsets):
            yield docs[low:high], cells[low:high], texts.slice(low, high - low)


def _number_users(task: GramUsersTask) -> tuple[I32, I64]:
    """A number for the user of every document of the range, and the keyed hash of each number. The
    last number means 'no user'."""
    hashed = [np.empty(0, np.uint64)]
    for table in task.documents.read(task.first_doc_no, task.end_doc_no, ["user_id"]):
        encoded = (
            table.column("user_id").combine_chunks().cast(pa.large_string()).dictionary_encode()
        )
        hashes = siphash(
            encoded.dictionary.cast(pa.large_binary()), task.key.subkey("user")
        ) >> np.uint64(1) | np.uint64(1)
        hashed.append(
            np.append(hashes, np.uint64(0))[np.asarray(encoded.indices.fill_null(-1), np.int64)]
        )
    # descending, so that hash zero (no user) is last
    distinct, number = np.unique(
        ~np.append(np.concatenate(hashed), np.uint64(0)), return_inverse=True
    )
    return number[:-1].astype(np.int32), (~distinct).view(np.int64)


def _find_direct_grams(
    buffers: TextBuffers, words: UnicodeTokens, occurrences: pl.DataFrame
) -> pa.Table:
    """One row of `direct_ngrams.parquet` per occurrence: the words that it overlaps. Skips those
    without words or with an erased word."""
    touched, edges = _touched_words(buffers, words, occurrences)
    rows, inverse = np.unique(touched, return_inverse=True)
    text = words.lowercase_texts(buffers, rows).cast(pa.string()).take(pa.array(inverse))
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(edges, pa.int32()), text), " ")
    is_complete = (
        np.logical_and.reduceat(words.hashes[touched] != 0, edges[:-1])
        if len(touched)
        else np.empty(0, np.bool_)
    )
    return pa.table(
        [joined.cast(pa.large_string()), np.diff(edges).astype(np.int32)], schema=DIRECT_SCHEMA
    ).filter(pa.array(is_complete))


def _touched_words(
    buffers: TextBuffers, words: UnicodeTokens, occurrences: pl.DataFrame
) -> tuple[I64, I64]:
    """The words that occurrences overlap, one occurrence after the other, and the offsets of each
    that overlaps any."""
    base = buffers.offsets[occurrences["text_no"].to_numpy()]
    first, end = find_overlapping_words(
        words,
        base + occurrences["start_byte"].to_numpy(),
        base + occurrences["end_byte"].to_numpy(),
    )
    first, end = first[end > first], end[end > first]
    return expand_ranges(first, end), np.concatenate([[0], np.cumsum(end - first)]).astype(np.int64)


def _unique_rows(tables: Sequence[pa.Table], key: str) -> pa.Table:
    """Concatenate tables; keep one row per key, ascending."""
    frame = pl.DataFrame(pa.concat_tables(tables)).unique(key).sort(key)
    return frame.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(tables[0].schema)


@dataclass(frozen=True, kw_only=True)
class _CountContext:
    """Settings and inputs of one blacklist, shared by all its tasks."""

    settings: BlacklistSettings
    corpus: CorpusContext
    direct_kinds: tuple[str, ...]
    key: Key
    erased_value_ids: tuple[int, ...]
    mention_files: Sequence[Path]
    temp_folder: Path
    fingerprint: str

    def table_files(self, name: str, size: int) -> list[Path]:
        """The files of a table of the counting tasks of one size, one for each task."""
        folder = self.temp_folder / f"{name}-{size}"
        return [folder / f"{no:05d}.parquet" for no in range(len(self.corpus.ranges))]


def build_blacklist(
    settings: BlacklistSettings,
    corpus: CorpusContext,
    *,
    kinds: Sequence[str],
    key: Key,
    out: Path,
    erased_value_ids: tuple[int, ...] = (),
    mention_files: Sequence[Path] = (),
) -> BlacklistCounts:
    """Write the table `blacklist` to `out`, unless it is up to date.

    `kinds` are those whose values are direct identifiers. Words in erased values
    (`erased_value_ids`) and in mentions (`mention_files`, one file per task) count for no user.
    Raises UsageError where no document has a user.
    """
    temp_folder = corpus.folder.parent / "blacklist"

    context = _CountContext(
        settings=settings,
        corpus=corpus,
        direct_kinds=tuple(kinds) if settings.direct else (),
        key=key,
        erased_value_ids=erased_value_ids,
        mention_files=mention_files,
        temp_folder=temp_folder,
        fingerprint=hash_json(
            _TASK_LAYOUT_VERSION,
            corpus.fingerprint,
            erased_value_ids,
            [file_sha256(path) for path in (*corpus.excluded_doc_files, *mention_files)],
        ),
    )

    def run(task: FolderTask) -> BlacklistCounts:
        if settings.k > 1 and not _has_user(corpus.documents):
            raise UsageError(NO_USER_MESSAGE)
        return _write_blacklist(context, task.folder / "blacklist.parquet")

    task = FolderTask(corpus.spill / "blacklist")
    counts = run_job(
        Job(
            function=run,
            result_type=BlacklistCounts,
            task=task,
            record_path=corpus.folder.parent / TASKS_FOLDER / "blacklist.json",
            fingerprint=context.fingerprint,
            outputs={"blacklist.parquet": out},
        )
    )
    shutil.rmtree(temp_folder, ignore_errors=True)  # files of the single sizes
    return counts


def _has_user(documents: Documents) -> bool:
    """True where some document has a user."""
    tables_ = documents.read(0, documents.count, ["user_id"])
    return any(table.column("user_id").null_count < table.num_rows for table in tables_)


def _write_blacklist(context: _CountContext, out: Path) -> BlacklistCounts:
    """Count size by size and write the table to `out`."""
    settings, temp_folder, run_sql = (
        context.settings,
        context.temp_folder,
        context.corpus.engine.sql,
    )
    temp_folder.mkdir(parents=True, exist_ok=True)
    word_counts = _run_count_tasks(context, 1, ())
    direct_file = temp_folder / "value_ngrams.parquet"
    run_sql(
        queries.get_query("value_ngrams").sql,
        {"direct_ngrams": context.table_files("direct_ngrams", 1)},
        direct_file,
    )
    direct_grams = pl.DataFrame(read_table(direct_file))
    sizes = range(1, settings.n + 1) if settings.k > 1 else range(0)  # with k = 1 nothing is rare
    frequent: list[Path] = []
    with open_table_writer(out, table_schemas.BLACKLIST.schema) as file:
        blacklist_writer = _BlacklistWriter(file)
        for size in sizes:
            of_size = direct_grams.filter(pl.col("n") == size)
            blacklist_writer.write(of_size["ngram"], of_size["n"].to_numpy(), None, "direct")
            frequent.append(temp_folder / f"frequent-{size}.parquet")
            with _open_number_writer(frequent[-1], FREQUENT_SCHEMA) as frequent_writer:
                if size == 1:
                    frequent_words = _list_rare_words(context, blacklist_writer, frequent_writer)
                else:
                    _list_rare_ngrams(
                        context,
                        size,
                        _SmallerGrams(tuple(frequent[:-1]), frequent_words),
                        blacklist_writer,
                        frequent_writer,
                    )
        longer = direct_grams.filter(pl.col("n") > len(sizes))
        blacklist_writer.write(longer["ngram"], longer["n"].to_numpy(), None, "direct")
    return BlacklistCounts(
        **settings.model_dump(),
        columns=list(dict.fromkeys(leaf.column for leaf in context.corpus.leaves)),
        documents=sum(counts.documents for counts in word_counts),
        documents_without_user=sum(counts.documents_without_user for counts in word_counts),
        words=sum(counts.words for counts in word_counts),
        listed=[
            ListedNgrams(n=size, reason=reason, ngrams=times)
            for (size, reason), times in sorted(blacklist_writer.listed_count.items())
        ],
    )


class _BlacklistWriter:
    """Writes rows of the blacklist and counts them by size and reason."""

    def __init__(self, file: pq.ParquetWriter) -> None:
        self._file, self.listed_count = file, Counter[tuple[int, str]]()

    def write(self, ngrams: pl.Series, sizes: I32, users: I64 | None, reason: str) -> None:
        """Append rows; direct identifiers have no user counts (None)."""
        for size, times in zip(*np.unique(sizes, return_counts=True), strict=True):
            self.listed_count[int(size), reason] += int(times)
        counts = pa.nulls(len(sizes), pa.int64()) if users is None else pa.array(users)
        reasons = pa.array([reason], pa.string()).take(pa.array(np.zeros(len(sizes), np.int64)))
        self._file.write_table(
            pa.table(
                [to_large_string(ngrams), sizes, counts, reasons],
                schema=table_schemas.BLACKLIST.schema,
            )
        )


def _list_rare_words(
    context: _CountContext,
    blacklist_writer: _BlacklistWriter,
    frequent_writer: pq.ParquetWriter,
) -> pl.Series:
    """Size 1: list the rare words and write the hashes of frequent ones; returns the spellings of
    the frequent ones, in the same order."""
    temp_folder, k, run_sql = context.temp_folder, context.settings.k, context.corpus.engine.sql
    user_counts_file, words_file = (
        temp_folder / "ngram_user_counts-1.parquet",
        temp_folder / "words.parquet",
    )
    run_sql(
        queries.get_query("ngram_user_counts").sql,
        {"ngram_users": context.table_files("ngram_users", 1)},
        user_counts_file,
        k=k,
    )
    sources = {
        "ngram_user_counts": [user_counts_file],
        "word_spellings": context.table_files("word_spellings", 1),
    }
    run_sql(queries.get_query("word_user_counts").sql, sources, words_file)
    blacklist_writer.listed_count[1, "indirect"] = 0
    frequent = [pl.Series(dtype=pl.String)]
    with pq.ParquetFile(words_file, pre_buffer=False) as file:
        for batch in file.iter_batches(_BLOCK_ROWS, use_threads=False):
            rows = pl.DataFrame(batch)
            rare, frequent_rows = (
                rows.filter(pl.col("users") < k),
                rows.filter(pl.col("users") == k),
            )
            blacklist_writer.write(
                rare["word"], np.ones(len(rare), np.int32), rare["users"].to_numpy(), "indirect"
            )
            frequent_writer.write_table(
                pa.table([frequent_rows["ngram_id"].to_arrow()], schema=FREQUENT_SCHEMA)
            )
            frequent.append(frequent_rows["word"])
    return pl.concat(frequent)


@dataclass(frozen=True)
class _SmallerGrams:
    """Results of the sizes below one: files of their frequent n-grams, and spellings of the
    frequent words."""

    frequent_files: tuple[Path, ...]
    frequent_words: pl.Series


def _list_rare_ngrams(
    context: _CountContext,
    size: int,
    smaller: _SmallerGrams,
    blacklist_writer: _BlacklistWriter,
    frequent_writer: pq.ParquetWriter,
) -> None:
    """Size 2 or more: list the rare n-grams, and write the numbers of frequent ones where a larger
    size follows."""
    gram_counts = _run_count_tasks(context, size, smaller.frequent_files)
    k, codec = context.settings.k, _GramCodec.load(smaller.frequent_files)
    blacklist_writer.listed_count[size, "indirect"] = 0

    def iter_rare() -> Iterator[tuple[I64, I64]]:
        for numbers, users in _iter_user_counts(
            context,
            size,
            [counts.partition_sizes for counts in gram_counts],
            context.table_files("ngram_users", size),
        ):
            is_frequent = users == k
            if size < context.settings.n:
                frequent_writer.write_table(
                    pa.table([numbers[is_frequent]], schema=FREQUENT_SCHEMA)
                )
            yield numbers[~is_frequent], users[~is_frequent]

    for numbers, users in _rechunk(iter_rare()):
        blacklist_writer.write(
            codec.spell(numbers, size, smaller.frequent_words),
            np.full(len(numbers), size, np.int32),
            users,
            "indirect",
        )


def _iter_user_counts(
    context: _CountContext,
    size: int,
    parts_by_file: Sequence[Sequence[int] | None],
    gram_user_files: Sequence[Path],
) -> Iterator[tuple[I64, I64]]:
    """Yields the n-grams of all tasks, ascending, and their numbers of users, up to k."""
    sorted_files = [
        (path, parts)
        for path, parts in zip(gram_user_files, parts_by_file, strict=True)
        if parts is not None
    ]
    if (
        len(sorted_files) == len(gram_user_files)
        and sum(len(parts) for _, parts in sorted_files) <= _MAX_MERGED_PARTS
    ):
        yield from merge_user_counts(
            [
                _iter_sorted_part(path, sum(parts[:no]), groups)
                for path, parts in sorted_files
                for no, groups in enumerate(parts)
            ],
            context.settings.k,
        )
        return
    user_counts_file = context.temp_folder / f"ngram_user_counts-{size}.parquet"
    context.corpus.engine.sql(
        queries.get_query("ngram_user_counts").sql,
        {"ngram_users": gram_user_files},
        user_counts_file,
        k=context.settings.k,
    )
    with pq.ParquetFile(user_counts_file, pre_buffer=False) as file:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, use_threads=False)
            yield (
                np.asarray(table.column("ngram_id"), np.int64),
                np.asarray(table.column("users"), np.int64),
            )


def _iter_sorted_part(
    gram_users_file: Path, first_group: int, group_count: int
) -> Iterator[tuple[I64, I64]]:
    """Yields the n-grams of a sorted part with their users, -1 for an n-gram that has k users."""
    with pq.ParquetFile(gram_users_file, pre_buffer=False) as file:
        for group in range(first_group, first_group + group_count):
            table = file.read_row_group(group, use_threads=False)
            yield (
                np.asarray(table.column("ngram_id"), np.int64),
                np.asarray(table.column("user_hash").fill_null(-1), np.int64),
            )


def _rechunk(columns: Iterable[tuple[I64, I64]]) -> Iterator[tuple[I64, I64]]:
    """The same rows in blocks of `_BLOCK_ROWS`, the last one shorter, so that the row groups of the
    list do not depend on the tasks."""
    pending, pending_rows = list[tuple[I64, I64]](), 0
    for block in columns:
        pending.append(block)
        pending_rows += len(block[0])
        if pending_rows < _BLOCK_ROWS:
            continue
        numbers, users = (np.concatenate(column) for column in zip(*pending, strict=True))
        pending_rows %= _BLOCK_ROWS
        for low in range(0, len(numbers) - pending_rows, _BLOCK_ROWS):
            yield numbers[low : low + _BLOCK_ROWS], users[low : low + _BLOCK_ROWS]
        pending = [(numbers[len(numbers) - pending_rows :], users[len(numbers) - pending_rows :])]
    if pending_rows:
        numbers, users = (np.concatenate(column) for column in zip(*pending, strict=True))
        yield numbers, users


def _run_count_tasks(
    context: _CountContext,
    size: int,
    smaller_frequent_files: tuple[Path, ...],
) -> Sequence[GramUserCounts]:
    """Run the counting tasks of one size; returns the result of each."""
    corpus = context.corpus
    larger_sizes_follow = size == 1 and min(context.settings.n, context.settings.k) > 1
    names: tuple[str, ...] = ("ngram_users",)
    if size == 1:
        names += (
            "word_spellings",
            "direct_ngrams",
            *(("word_sequences",) if larger_sizes_follow else ()),
        )
    files = {name: context.table_files(name, size) for name in names}
    sequence_files, spelling_files = (
        context.table_files(name, 1) for name in ("word_sequences", "word_spellings")
    )
    jobs = []
    for no, (first, last) in enumerate(corpus.ranges):
        task = GramUsersTask(
            first_doc_no=first,
            end_doc_no=last,
            documents=corpus.documents,
            leaves=corpus.leaves,
            gram_size=size,
            k=context.settings.k,
            larger_sizes_follow=larger_sizes_follow,
            word_files=(sequence_files[no], spelling_files[no]) if size > 1 else None,
            key=context.key,
            smaller_frequent_files=smaller_frequent_files,
            excluded_doc_files=corpus.excluded_doc_files,
            occurrences_file=corpus.occurrence_files[no],
            direct_kinds=context.direct_kinds,
            erased_value_ids=context.erased_value_ids,
            mention_files=tuple(context.mention_files[no : no + 1]),
            folder=corpus.spill / f"blacklist-{size}-{no}",
        )
        outputs = {f"{name}.parquet": paths[no] for name, paths in files.items()}
        # the smaller sizes need no entry: they follow from the inputs of the fingerprint
        record = context.temp_folder / "tasks" / f"{size}-{no:05d}.json"
        jobs.append(
            Job(
                function=gram_users_task,
                result_type=GramUserCounts,
                task=task,
                record_path=record,
                fingerprint=context.fingerprint,
                outputs=outputs,
            )
        )
    return corpus.run_jobs("blacklist", jobs)
