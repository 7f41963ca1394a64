"""The user-word blacklist: words and n-grams that fewer than `k` users wrote, and the values found: what a training must not say.

Users and n-grams are a bipartite graph, and an n-gram of a degree below k is an indirect identifier (privacy-preserving masked language
modeling, section 3). Degrees are counted level by level: an n-gram that holds a listed shorter one is protected with it, and is neither
counted nor listed, which bounds memory by what is frequent. Words are those of `words.spoken`; n-grams do not reach over the end of a
text. A value that was found is a direct identifier: the words that it touches in its text, in a row, as one entry. Documents without a
user count as one user together, so that they cannot vouch for each other; a document that was dropped or set aside does not count.

A word is known by 64 bits, an n-gram by the place of its first words and of its last one among the frequent ones. The texts are read
once, in tasks; where n-grams are wanted each task leaves its words as numbers, which larger sizes go through. One statement a size puts
together what several tasks saw.
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

from sanitize import queries, tables
from sanitize.cells import Leaf
from sanitize.degrees import Degrees, Pairs, Places
from sanitize.errors import UsageError
from sanitize.keyed import Key, siphash
from sanitize.looks import Ground, here, occurrences_of, texts_of
from sanitize.plan import Blacklist
from sanitize.publish import Job, hashed, perform
from sanitize.shards import Documents, sha256, table_writer
from sanitize.spans import Buffers, arrow, pieces
from sanitize.words import Apart, Spoken, spoken, touched

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
DEGREES = pa.schema([pa.field("gram", pa.int64()), pa.field("users", pa.int64())])
DIRECT = pa.schema([pa.field("ngram", pa.large_string()), pa.field("n", pa.int32())])
_WAITING = 500  # small tables that wait to be one
_BLOCK = 1 << 18  # rows of the list at a time


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
    smaller: tuple[Path, ...]  # the n-grams of each smaller size with their users, up to k
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
    """Write `seen.parquet`, the words or n-grams of the range with their users, in `parts` that each have their own users of a number. With
    words also `spelled.parquet`, what they are, `direct.parquet`, the values found, and with `more` to come `said.parquet`. Returns how
    many words were read, and how many documents have no user."""
    with table_writer(task.folder / "seen.parquet", SEEN) as out:
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
        said = files.enter_context(table_writer(task.folder / "said.parquet", SAID)) if task.more else None
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


def _grams_seen(task: SeenTask, said: tuple[Path, Path], users: int, write: Callable[[U64, I32], None]) -> int:
    """What `seen_task` does with n-grams of two words or more; returns in how many parts they came."""
    sizes = _Grams.of(task.smaller, task.k)
    spelled = np.asarray(pq.read_table(said[1], columns=["gram"], partitioning=None).column("gram"), np.int64).view(np.uint64)
    known = np.append(np.int32(-1), Places(sizes.frequent[0]).of(spelled))  # the place of each word
    heads = [Places(frequent) for frequent in sizes.frequent[1:]]
    bits = sizes.bits(task.size)
    # a number that does not fit beside a user is counted in a table
    counted = Pairs(task.k, bits, users, write) if Pairs.fits(bits, users) else Degrees(task.k, write)
    with pq.ParquetFile(said[0]) as file:
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
    def of(cls, degrees: Sequence[Path], k: int) -> _Grams:
        """Those that k users wrote."""
        return cls(tuple(_frequent(path, k) for path in degrees))

    @property
    def _tail(self) -> int:
        return len(self.frequent[0]).bit_length()

    def bits(self, size: int) -> int:
        """How many bits a number of that size has."""
        return max(1, len(self.frequent[size - 2])).bit_length() + self._tail

    def number(self, head: I32, last: I32) -> U64:
        """The number of n-grams by the places of their first words and of their last one; none is zero."""
        return (head.astype(np.int64) << self._tail | last + 1).view(np.uint64)

    def parts(self, numbers: I64) -> tuple[I64, I64]:
        """The places that a number is made of."""
        return numbers >> self._tail, (numbers & ((1 << self._tail) - 1)) - 1


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


def _frequent(degrees: Path, k: int) -> U64:
    """The numbers of the n-grams of one size that k users wrote, in the order of their file."""
    table = pq.read_table(degrees, columns=["gram", "users"], partitioning=None)
    return np.asarray(table.filter(pc.equal(table.column("users"), k)).column("gram"), np.int64).view(np.uint64)


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
    many = after - first
    first, many = first[many > 0], many[many > 0]
    edges = np.concatenate([[0], np.cumsum(many)]).astype(np.int64)
    return np.arange(edges[-1]) + np.repeat(first - edges[:-1], many), edges


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
        fingerprint=hashed(ground.fingerprint, erased, [sha256(path) for path in (*ground.gone, *mentions)]),
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
    smaller: list[Path] = []
    for size in range(1, settings.n + 1) if settings.k > 1 else ():  # nothing has fewer than one user
        made, files = (results, first) if size == 1 else _seen(count, size, tuple(smaller), first)
        degrees = aside / f"degrees-{size}.parquet"
        if size > 1 and sum(one["parts"] for one in made) <= 1:
            _alone(files["seen"], settings.k, degrees)
        else:
            ask(queries.query("blacklist_degrees").text, {"seen": files["seen"]}, degrees, k=settings.k)
        if size == 1:  # the order of the words becomes that of all n-grams
            words = aside / "words.parquet"
            ask(queries.query("blacklist_words").text, {"degrees": [degrees], "spelled": first["spelled"]}, words)
            degrees = words
        smaller.append(degrees)
    listed = _write(settings.k, direct, smaller, out)
    return {
        **settings.model_dump(),
        "columns": list(dict.fromkeys(leaf.column for leaf in count.ground.leaves)),
        **{name: sum(one[name] for one in results) for name in ("documents", "without_user", "words")},
        "listed": listed,
    }


def _alone(seen: Sequence[Path], k: int, out: Path) -> None:
    """What the statement `blacklist_degrees` makes of n-grams that one task saw in one part: they are in order, and nothing is to be put
    together."""
    with table_writer(out, DEGREES) as file:
        for path in seen:
            with pq.ParquetFile(path) as one:
                for group in range(one.num_row_groups):  # none ends within an n-gram
                    table = one.read_row_group(group, use_threads=False)
                    grams = np.asarray(table.column("gram"), np.int64)
                    first = np.flatnonzero(np.append(True, grams[1:] != grams[:-1])[: len(grams)])
                    full = np.asarray(table.column("user_hash").is_null())[first]
                    users = np.where(full, k, np.diff(np.append(first, len(grams))))
                    file.write_table(pa.table([grams[first], users], schema=DEGREES))


def _write(k: int, direct: Path, sizes: Sequence[Path], out: Path) -> list[dict[str, Any]]:
    """The table, from the n-grams of each size with their users; returns how many it lists by size and reason."""
    found = pl.DataFrame(pq.read_table(direct, partitioning=None))
    listed: Counter[tuple[int, str]] = Counter(dict.fromkeys(((size, "indirect") for size in range(1, len(sizes) + 1)), 0))
    with table_writer(out, tables.BLACKLIST.schema) as file:

        def write(ngrams: pl.Series, n: pl.Series | int, users: pl.Series | None, reason: str) -> None:
            many = len(ngrams)
            sizes = n.to_numpy().astype(np.int32) if isinstance(n, pl.Series) else np.full(many, n, np.int32)
            for size, times in zip(*np.unique(sizes, return_counts=True), strict=True):
                listed[int(size), reason] += int(times)
            counts = pa.nulls(many, pa.int64()) if users is None else users.to_arrow()
            reasons = pa.array([reason], pa.string()).take(pa.array(np.zeros(many, np.int64)))
            file.write_table(pa.table([arrow(ngrams), sizes, counts, reasons], schema=tables.BLACKLIST.schema))

        word, grams = pl.Series([], dtype=pl.String), _Grams.of(sizes[:-1], k)
        for size, path in enumerate(sizes, 1):
            mine = found.filter(pl.col("n") == size)
            write(mine["ngram"], mine["n"], None, "direct")
            with pq.ParquetFile(path) as degrees:
                for batch in degrees.iter_batches(_BLOCK, use_threads=False):
                    rows = pl.DataFrame(batch).filter(pl.col("users") < k)
                    if size == 1:
                        write(rows["word"], 1, rows["users"], "indirect")
                        continue
                    parts = [*grams.parts(rows["gram"].to_numpy())]
                    if size == 3:
                        parts[:1] = grams.parts(grams.frequent[1].view(np.int64)[parts[0]])
                    spelled = pl.DataFrame({str(place): word.gather(part) for place, part in enumerate(parts)})
                    write(spelled.select(pl.concat_str(pl.all(), separator=" ")).to_series(), size, rows["users"], "indirect")
            if size == 1 and len(sizes) > 1:
                table = pl.DataFrame(pq.read_table(path, columns=["word", "users"], partitioning=None))
                word = table.filter(pl.col("users") == k)["word"]
        rest = found.filter(pl.col("n") > len(sizes))
        write(rest["ngram"], rest["n"], None, "direct")
    return [{"n": size, "reason": reason, "ngrams": times} for (size, reason), times in sorted(listed.items())]


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
