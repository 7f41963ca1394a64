"""The user-word blacklist: words and n-grams that fewer than `k` users wrote, and the values found: what a training must not say.

Users and n-grams are a bipartite graph, and an n-gram of a degree below k is an indirect identifier (privacy-preserving masked language
modeling, section 3). Degrees are counted level by level: an n-gram that holds a listed shorter one is protected with it, and is neither
counted nor listed, which bounds memory by what is frequent. Words are those of `words.spoken`; n-grams do not reach over the end of a
text. A value that was found is a direct identifier: the words that it touches in its text, in a row, as one entry. Documents without a
user count as one user together, so that they cannot vouch for each other; a document that was dropped or set aside does not count.

A word is known by 64 bits, an n-gram by the place of its first words and of its last one among the frequent ones. The texts are read
once, in tasks; where n-grams are wanted each task leaves its words as numbers, which larger sizes go through. A statement puts together
what several tasks saw of words. N-grams they leave in order, so that these are merged, a row group of each task at a time, while the list
is written.
"""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.core.arrow_buffers import Buffers, arrow, pieces, within
from sanitize.core.keys import Key, siphash
from sanitize.core.text_cells import Leaf
from sanitize.core.user_counts import Degrees, Pairs, Places, merged
from sanitize.errors import UsageError
from sanitize.plans.plan import Blacklist
from sanitize.stages.corpus_pass import Ground, here, occurrences_of, texts_of
from sanitize.storage import queries, table_schemas
from sanitize.storage.corpus import Documents, sha256, table_writer
from sanitize.storage.publication import Job, hashed, perform
from sanitize.text.tokenizer import Apart, Spoken, spoken, touched

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
NO_USER = "[blacklist]: no document says who wrote it; name the column that does with --user-column"
SEEN = pa.schema(
    [
        pa.field("gram", pa.int64()),  # a word's hash; else the place of the first words among the frequent ones, and of the last: `_Grams`
        pa.field("user_hash", pa.int64()),  # keyed hash of one of its users; null: it has k of them
    ]
)
# the words of each text in order, by their place in the table of words + 1, with 0 for one that nobody said; before them the user of the
# text, as -1 - number
SAID = pa.schema([pa.field("word", pa.int32())])
SPELLED = pa.schema([pa.field("gram", pa.int64()), pa.field("word", pa.large_string())])
FREQUENT = pa.schema([pa.field("gram", pa.int64())])
DIRECT = pa.schema([pa.field("ngram", pa.large_string()), pa.field("n", pa.int32())])
_LAYOUT = 2  # of what tasks leave: what a version with another one left is done again
_WAITING = 500  # small tables that wait to be one
_BLOCK = 1 << 18  # rows of the list at a time
_MERGED = 16  # parts at once, each with 15 MB in memory; more are put together by the statement


@dataclass(frozen=True, kw_only=True)
class SeenTask:
    """One range of documents whose words are counted by user, or whose n-grams of one size, from the words that were `said`."""

    first: int
    last: int
    documents: Documents
    leaves: tuple[Leaf, ...]
    size: int
    k: int
    more: bool  # larger sizes follow
    key: Key
    said: tuple[Path, Path] | None  # of the task over words: what was said, and what the words are
    smaller: tuple[Path, ...]  # the frequent n-grams of each smaller size
    gone: tuple[Path, ...]  # files with the `doc_no` of documents that are not there
    occurrences: Path
    kinds: tuple[str, ...]  # those whose values are direct identifiers
    erased: tuple[int, ...]  # values of people who are to be forgotten: nobody said their words
    mentions: tuple[Path, ...]  # where such people are named
    folder: Path

    @property
    def told(self) -> str:
        """The task in words, for an error."""
        return self.documents.told(self.first, self.last)


def seen_task(task: SeenTask) -> dict[str, Any]:
    """Write `seen.parquet`, the words or n-grams of the range with their users, in `parts` that each have their own users of a number: how
    many row groups each has in which numbers ascend, or null where they do not. With words also `spelled.parquet`, what they are,
    `direct.parquet`, the values found, and with `more` to come `said.parquet`. Returns how many words were read, and how many documents
    have no user."""
    with _numbers(task.folder / "seen.parquet", SEEN) as out:
        user_of, hashes = _users(task)

        def write(grams: U64, users: I32) -> None:
            column = pa.array(hashes[np.maximum(users, 0)] if len(hashes) else np.empty(0, np.int64), mask=users < 0)
            out.write_table(pa.table([pa.array(grams.view(np.int64)), column], schema=SEEN), row_group_size=max(1, len(grams)))

        if task.said is None:
            return _words_seen(task, user_of, hashes, write)
        return {"parts": _grams_seen(task, task.said, len(hashes), write)}


def _words_seen(task: SeenTask, user_of: I32, hashes: I64, write: Callable[[U64, I32], None]) -> dict[str, Any]:
    """What `seen_task` does with words, and returns."""
    found = occurrences_of(task.occurrences if task.kinds else None, task.kinds)
    unsaid = _unsaid(task)
    spelled, direct, counted = [SPELLED.empty_table()], [DIRECT.empty_table()], np.zeros(task.last - task.first, np.bool_)
    read, apart = 0, Apart()
    degrees = Degrees(task.k, write) if task.k > 1 else None
    with contextlib.ExitStack() as files:
        said = files.enter_context(_numbers(task.folder / "said.parquet", SAID)) if task.more else None
        for docs, cells, texts in _pieces(texts_of(task.documents, task.leaves, task.first, task.last, task.gone)):
            buffers = Buffers.of(texts)
            words = spoken(buffers, apart)
            if unsaid.height:
                words.hashes[_touching(buffers, words, here(unsaid, docs, cells))[0]] = 0
            rows, said_by, hashed_as = np.arange(len(words.hashes)), words.text_no, words.hashes
            if not hashed_as.all():
                rows = np.flatnonzero(hashed_as)
                said_by, hashed_as = said_by[rows], hashed_as[rows]
            read += len(rows)
            counted[docs - task.first] = True
            if degrees is not None:
                users = user_of[docs - task.first]
                place, new = degrees.add(hashed_as, users[said_by])
                spelled.append(pa.table([words.hashes[rows[new]].view(np.int64), words.spelled(buffers, rows[new])], schema=SPELLED))
                if said is not None:
                    numbers = np.zeros(len(words.hashes) + len(users), np.int32)
                    numbers[rows + words.text_no[rows] + 1] = place + 1
                    numbers[np.searchsorted(words.text_no, np.arange(len(users))) + np.arange(len(users))] = -1 - users
                    said.write_table(pa.table([numbers], schema=SAID), row_group_size=max(1, len(numbers)))
            if task.kinds:
                direct.append(_direct(buffers, words, here(found, docs, cells)))
            if len(direct) > _WAITING:
                direct = [_once(direct, "ngram")]
    if degrees is not None:
        degrees.done()
    for name, table in (("spelled", pa.concat_tables(spelled)), ("direct", _once(direct, "ngram"))):
        with table_writer(task.folder / f"{name}.parquet", table.schema) as file:
            file.write_table(table)
    none = len(hashes) - 1 if len(hashes) else -1  # the last number is nobody's
    return {"words": read, "documents": int(counted.sum()), "without_user": int((user_of[counted] == none).sum())}


def _grams_seen(task: SeenTask, said: tuple[Path, Path], users: int, write: Callable[[U64, I32], None]) -> list[int] | None:
    """What `seen_task` does with n-grams of two words or more; returns their parts."""
    sizes = _Grams.of(task.smaller)
    spelled = np.asarray(pq.read_table(said[1], columns=["gram"], partitioning=None).column("gram"), np.int64).view(np.uint64)
    known = np.append(np.int32(-1), Places(sizes.frequent[0]).of(spelled))  # the place of each word
    heads = [Places(frequent) for frequent in sizes.frequent[1:]]
    bits = sizes.bits(task.size)
    # a number that does not fit beside a user is counted in a table
    counted = Pairs(task.k, bits, users, write) if Pairs.fits(bits, users) else Degrees(task.k, write)
    with pq.ParquetFile(said[0], pre_buffer=False) as file:
        for group in range(file.num_row_groups):
            words = np.asarray(file.read_row_group(group, use_threads=False).column("word"), np.int32)
            texts = np.flatnonzero(words < 0)
            user = np.repeat(-1 - words[texts], np.diff(np.append(texts, len(words))))
            single = head = known[np.maximum(words, 0)]
            for size in range(2, task.size + 1):
                # both that it is made of are frequent, and its words stand in one text
                begins = np.flatnonzero((head[:-1] >= 0) & (head[1:] >= 0))
                grams = sizes.number(head[begins], single[begins + size - 1])
                if size < task.size:
                    head = np.full(len(words), -1, np.int32)
                    head[begins] = heads[size - 2].of(grams)
            counted.add(grams, user[begins])
    counted.done()
    return counted.parts


@dataclass(frozen=True)
class _Grams:
    """The frequent n-grams of the sizes below one, as their numbers, each size in the order that gives them their places."""

    frequent: tuple[U64, ...]

    @classmethod
    def of(cls, files: Sequence[Path]) -> _Grams:
        """Those in the tables of each size."""
        tables_ = (pq.read_table(path, columns=["gram"], partitioning=None) for path in files)
        return cls(tuple(np.asarray(table.column("gram"), np.int64).view(np.uint64) for table in tables_))

    @property
    def _tail(self) -> int:
        return len(self.frequent[0]).bit_length()

    def bits(self, size: int) -> int:
        """How many bits a number of that size has."""
        return max(1, len(self.frequent[size - 2])).bit_length() + self._tail

    def number(self, head: I32, last: I32) -> U64:
        """The number of n-grams by the places of their first words and of their last one; none is zero."""
        return (head.astype(np.int64) << self._tail | last + 1).view(np.uint64)

    def spelled(self, numbers: I64, size: int, words: pl.Series) -> pl.Series:
        """The n-grams of a size, from their numbers and the frequent words."""
        places = [*self._parts(numbers)]
        if size == 3:
            places[:1] = self._parts(self.frequent[1].view(np.int64)[places[0]])
        spelled = pl.DataFrame({str(place): words.gather(column) for place, column in enumerate(places)})
        return spelled.select(pl.concat_str(pl.all(), separator=" ")).to_series()

    def _parts(self, numbers: I64) -> tuple[I64, I64]:
        """The places that a number is made of."""
        return numbers >> self._tail, (numbers & ((1 << self._tail) - 1)) - 1


def _numbers(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """A writer for a table of numbers, the first column as differences, users as places in a dictionary: what ascends takes less room and
    time than with lz4."""
    return pq.ParquetWriter(
        path,
        schema,
        compression="none",
        use_dictionary=schema.names[1:],
        column_encoding={schema.names[0]: "DELTA_BINARY_PACKED"},
        write_statistics=False,
        write_page_checksum=True,
    )


def _unsaid(task: SeenTask) -> pl.DataFrame:
    """Where something stands that is to be forgotten."""
    columns = occurrences_of(None, ()).columns
    files = [*([task.occurrences] if task.erased else ()), *task.mentions]
    read = [pl.DataFrame(pq.read_table(path, columns=columns, partitioning=None)) for path in files]
    if not read:
        return occurrences_of(None, ())
    gone = pl.Series(task.erased, dtype=pl.Int64)
    read[0] = read[0].filter(pl.col("value_id").is_in(gone.implode())) if task.erased else read[0]
    return pl.concat(read).sort("doc_no", "cell", "start")


def _pieces(sights: Iterable[tuple[I64, I32, pa.LargeStringArray]]) -> Iterator[tuple[I64, I32, pa.LargeStringArray]]:
    """The same texts, a few at a time."""
    for docs, cells, texts in sights:
        for low, high in pieces(Buffers.of(texts).offsets):
            yield docs[low:high], cells[low:high], texts.slice(low, high - low)


def _users(task: SeenTask) -> tuple[I32, I64]:
    """A number for the user of every document of the range, and the keyed hash of each number; the last one stands for nobody."""
    hashed = [np.empty(0, np.uint64)]
    for table in task.documents.read(task.first, task.last, ["user_id"]):
        encoded = table.column("user_id").combine_chunks().cast(pa.large_string()).dictionary_encode()
        known = siphash(encoded.dictionary.cast(pa.large_binary()), task.key.subkey("user")) >> np.uint64(1) | np.uint64(1)
        hashed.append(np.append(known, np.uint64(0))[np.asarray(encoded.indices.fill_null(-1), np.int64)])
    # descending, so that nobody, whose hash is zero, is the last
    distinct, number = np.unique(~np.append(np.concatenate(hashed), np.uint64(0)), return_inverse=True)
    return number[:-1].astype(np.int32), (~distinct).view(np.int64)


def _direct(buffers: Buffers, words: Spoken, found: pl.DataFrame) -> pa.Table:
    """The words that each occurrence touches, in a row, as far as it touches any."""
    at, edges = _touching(buffers, words, found)
    rows, back = np.unique(at, return_inverse=True)
    text = words.spelled(buffers, rows).cast(pa.string()).take(pa.array(back))
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(edges, pa.int32()), text), " ")
    said = np.logical_and.reduceat(words.hashes[at] != 0, edges[:-1]) if len(at) else np.empty(0, np.bool_)
    return pa.table([joined.cast(pa.large_string()), np.diff(edges).astype(np.int32)], schema=DIRECT).filter(pa.array(said))


def _touching(buffers: Buffers, words: Spoken, found: pl.DataFrame) -> tuple[I64, I64]:
    """The words that occurrences touch, one occurrence after the other, and where those of each that touches any begin."""
    base = buffers.offsets[found["text_no"].to_numpy()]
    first, after = touched(words, base + found["start_byte"].to_numpy(), base + found["stop_byte"].to_numpy())
    first, after = first[after > first], after[after > first]
    return within(first, after), np.concatenate([[0], np.cumsum(after - first)]).astype(np.int64)


def _once(made: Sequence[pa.Table], key: str) -> pa.Table:
    """One row of each key, ascending."""
    frame = pl.DataFrame(pa.concat_tables(made)).unique(key).sort(key)
    return frame.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(made[0].schema)


@dataclass(frozen=True, kw_only=True)
class _Count:
    """What is counted, and over what."""

    settings: Blacklist
    ground: Ground
    kinds: tuple[str, ...]
    key: Key
    erased: tuple[int, ...]
    mentions: Sequence[Path]
    aside: Path
    fingerprint: str


def blacklist(
    settings: Blacklist,
    ground: Ground,
    *,
    kinds: Sequence[str],
    key: Key,
    out: Path,
    erased: tuple[int, ...] = (),
    mentions: Sequence[Path] = (),
) -> dict[str, Any]:
    """Make the table `blacklist` at `out`, unless it is there; returns the settings, the columns, documents (and those without a user) and
    words it was counted over, and how many n-grams it lists by size and reason. `kinds` are those whose values are direct identifiers;
    values that are `erased`, and names at their `mentions` (one file a task), are not said by anybody.

    UsageError where no document has a user.
    """
    aside = ground.folder.parent / "blacklist"

    count = _Count(
        settings=settings,
        ground=ground,
        kinds=tuple(kinds) if settings.direct else (),
        key=key,
        erased=erased,
        mentions=mentions,
        aside=aside,
        fingerprint=hashed(_LAYOUT, ground.fingerprint, erased, [sha256(path) for path in (*ground.gone, *mentions)]),
    )

    def work(task: _Aside) -> dict[str, Any]:
        if settings.k > 1 and not _anybody(ground.documents):
            raise UsageError(NO_USER)
        return _counted(count, task.folder / "blacklist.parquet")

    task = _Aside(ground.spill / "blacklist")
    made = perform(
        Job(
            work=work,
            task=task,
            record=ground.folder.parent / "tasks" / "blacklist.json",
            fingerprint=count.fingerprint,
            outputs={"blacklist.parquet": out},
        )
    )
    shutil.rmtree(aside, ignore_errors=True)  # what the levels left
    return made


@dataclass(frozen=True)
class _Aside:
    """A task without anything but its folder."""

    folder: Path


def _anybody(documents: Documents) -> bool:
    """True where some document has a user."""
    tables_ = documents.read(0, documents.count, ["user_id"])
    return any(table.column("user_id").null_count < table.num_rows for table in tables_)


def _counted(count: _Count, out: Path) -> dict[str, Any]:
    """Level after level, and the table."""
    settings, aside, ask = count.settings, count.aside, count.ground.engine.sql
    aside.mkdir(parents=True, exist_ok=True)
    results, first = _seen(count, 1, ())
    direct = aside / "direct.parquet"
    ask(queries.query("blacklist_direct").text, {"direct": first["direct"]}, direct)
    found = pl.DataFrame(pq.read_table(direct, partitioning=None))
    sizes = range(1, settings.n + 1) if settings.k > 1 else range(0)  # nothing has fewer than one user
    frequent: list[Path] = []
    with table_writer(out, table_schemas.BLACKLIST.schema) as file:
        listed = _List(file)
        for size in sizes:
            mine = found.filter(pl.col("n") == size)
            listed.write(mine["ngram"], mine["n"].to_numpy(), None, "direct")
            frequent.append(aside / f"frequent-{size}.parquet")
            with _numbers(frequent[-1], FREQUENT) as kept:
                if size == 1:
                    words = _words(count, first, listed, kept)
                else:
                    _ngrams(count, size, _Smaller(tuple(frequent[:-1]), words, first), listed, kept)
        rest = found.filter(pl.col("n") > len(sizes))
        listed.write(rest["ngram"], rest["n"].to_numpy(), None, "direct")
    return {
        **settings.model_dump(),
        "columns": list(dict.fromkeys(leaf.column for leaf in count.ground.leaves)),
        **{name: sum(one[name] for one in results) for name in ("documents", "without_user", "words")},
        "listed": [{"n": size, "reason": reason, "ngrams": times} for (size, reason), times in sorted(listed.times.items())],
    }


class _List:
    """The table as it comes to be written, and how many rows it has by size and reason."""

    def __init__(self, file: pq.ParquetWriter) -> None:
        self._file, self.times = file, Counter[tuple[int, str]]()

    def write(self, ngrams: pl.Series, sizes: I32, users: I64 | None, reason: str) -> None:
        """Some rows more; direct identifiers have no users."""
        for size, times in zip(*np.unique(sizes, return_counts=True), strict=True):
            self.times[int(size), reason] += int(times)
        counts = pa.nulls(len(sizes), pa.int64()) if users is None else pa.array(users)
        reasons = pa.array([reason], pa.string()).take(pa.array(np.zeros(len(sizes), np.int64)))
        self._file.write_table(pa.table([arrow(ngrams), sizes, counts, reasons], schema=table_schemas.BLACKLIST.schema))


def _words(count: _Count, seen: Mapping[str, Sequence[Path]], listed: _List, kept: pq.ParquetWriter) -> pl.Series:
    """Size one: rare words are listed, and the hashes of frequent ones kept; returns these as they are spelled, in the same order."""
    aside, k, ask = count.aside, count.settings.k, count.ground.engine.sql
    degrees, words = aside / "degrees-1.parquet", aside / "words.parquet"
    ask(queries.query("blacklist_degrees").text, {"seen": seen["seen"]}, degrees, k=k)
    ask(queries.query("blacklist_words").text, {"degrees": [degrees], "spelled": seen["spelled"]}, words)
    listed.times[1, "indirect"] = 0
    frequent = [pl.Series(dtype=pl.String)]
    with pq.ParquetFile(words, pre_buffer=False) as file:
        for batch in file.iter_batches(_BLOCK, use_threads=False):
            rows = pl.DataFrame(batch)
            few, often = rows.filter(pl.col("users") < k), rows.filter(pl.col("users") == k)
            listed.write(few["word"], np.ones(len(few), np.int32), few["users"].to_numpy(), "indirect")
            kept.write_table(pa.table([often["gram"].to_arrow()], schema=FREQUENT))
            frequent.append(often["word"])
    return pl.concat(frequent)


@dataclass(frozen=True)
class _Smaller:
    """What is known of the sizes below one: the tables of their frequent n-grams, how the words among them are spelled, and what the tasks
    left of words."""

    frequent: tuple[Path, ...]
    words: pl.Series
    seen: Mapping[str, Sequence[Path]]


def _ngrams(count: _Count, size: int, smaller: _Smaller, listed: _List, kept: pq.ParquetWriter) -> None:
    """A larger size: its rare n-grams are listed, and the numbers of frequent ones kept where larger ones follow."""
    made, files = _seen(count, size, smaller.frequent, smaller.seen)
    k, grams = count.settings.k, _Grams.of(smaller.frequent)
    listed.times[size, "indirect"] = 0

    def few() -> Iterator[tuple[I64, I64]]:
        for numbers, users in _degrees(count, size, [one["parts"] for one in made], files["seen"]):
            often = users == k
            if size < count.settings.n:
                kept.write_table(pa.table([numbers[often]], schema=FREQUENT))
            yield numbers[~often], users[~often]

    for numbers, users in _blocks(few()):
        listed.write(grams.spelled(numbers, size, smaller.words), np.full(len(numbers), size, np.int32), users, "indirect")


def _degrees(count: _Count, size: int, parts: Sequence[Sequence[int] | None], seen: Sequence[Path]) -> Iterator[tuple[I64, I64]]:
    """The n-grams that tasks saw, ascending, and how many users they have, up to k."""
    ordered = [(path, of) for path, of in zip(seen, parts, strict=True) if of is not None]
    if len(ordered) == len(seen) and sum(len(of) for _, of in ordered) <= _MERGED:
        yield from merged([_part(path, sum(of[:no]), groups) for path, of in ordered for no, groups in enumerate(of)], count.settings.k)
        return
    degrees = count.aside / f"degrees-{size}.parquet"
    count.ground.engine.sql(queries.query("blacklist_degrees").text, {"seen": seen}, degrees, k=count.settings.k)
    with pq.ParquetFile(degrees, pre_buffer=False) as file:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, use_threads=False)
            yield np.asarray(table.column("gram"), np.int64), np.asarray(table.column("users"), np.int64)


def _part(seen: Path, first: int, groups: int) -> Iterator[tuple[I64, I64]]:
    """The n-grams of a part with their users, -1 for one that has k of them."""
    with pq.ParquetFile(seen, pre_buffer=False) as file:
        for group in range(first, first + groups):
            table = file.read_row_group(group, use_threads=False)
            yield np.asarray(table.column("gram"), np.int64), np.asarray(table.column("user_hash").fill_null(-1), np.int64)


def _blocks(found: Iterable[tuple[I64, I64]]) -> Iterator[tuple[I64, I64]]:
    """The same columns in blocks of one length but for the last: the row groups of the list do not hang on what tasks saw."""
    held, many = list[tuple[I64, I64]](), 0
    for one in found:
        held.append(one)
        many += len(one[0])
        if many < _BLOCK:
            continue
        numbers, users = (np.concatenate(column) for column in zip(*held, strict=True))
        many %= _BLOCK
        for low in range(0, len(numbers) - many, _BLOCK):
            yield numbers[low : low + _BLOCK], users[low : low + _BLOCK]
        held = [(numbers[len(numbers) - many :], users[len(numbers) - many :])]
    if many:
        numbers, users = (np.concatenate(column) for column in zip(*held, strict=True))
        yield numbers, users


def _seen(
    count: _Count, size: int, smaller: tuple[Path, ...], words: Mapping[str, Sequence[Path]] | None = None
) -> tuple[Sequence[dict[str, Any]], dict[str, list[Path]]]:
    """What the tasks return of one size, and their tables; `words` are those of the first."""
    ground = count.ground
    more = size == 1 and min(count.settings.n, count.settings.k) > 1
    names = ("seen",) if size > 1 else ("seen", "spelled", "direct", *(("said",) if more else ()))
    files: dict[str, list[Path]] = {name: [] for name in names}
    jobs = []
    for no, (first, last) in enumerate(ground.ranges):
        task = SeenTask(
            first=first,
            last=last,
            documents=ground.documents,
            leaves=ground.leaves,
            size=size,
            k=count.settings.k,
            more=more,
            said=(words["said"][no], words["spelled"][no]) if words else None,
            key=count.key,
            smaller=smaller,
            gone=ground.gone,
            occurrences=ground.occurrences[no],
            kinds=count.kinds,
            erased=count.erased,
            mentions=tuple(count.mentions[no : no + 1]),
            folder=ground.spill / f"blacklist-{size}-{no}",
        )
        outputs = {f"{name}.parquet": count.aside / f"{name}-{size}" / f"{no:05d}.parquet" for name in names}
        for name in names:
            files[name].append(outputs[f"{name}.parquet"])
        # the smaller sizes follow from what the fingerprint says
        record = count.aside / "tasks" / f"{size}-{no:05d}.json"
        jobs.append(Job(work=seen_task, task=task, record=record, fingerprint=count.fingerprint, outputs=outputs))
    return ground.map("blacklist", jobs), files
