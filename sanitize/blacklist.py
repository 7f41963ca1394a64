"""The user-word blacklist: words and n-grams that fewer than `k` users wrote, and the values found: what a training must not say.

Users and n-grams are a bipartite graph, and an n-gram of a degree below k is an indirect identifier (privacy-preserving masked language
modeling, section 3). Degrees are counted level by level: an n-gram that holds a listed shorter one is protected with it, and is neither
counted nor listed, which bounds memory by what is frequent. Words are those of `words.spoken`; n-grams do not reach over the end of a
text. A value that was found is a direct identifier: the words that it touches in its text, in a row, as one entry. Documents without a
user count as one user together, so that they cannot vouch for each other; a document that was dropped or set aside does not count.

A word is known by 64 bits, an n-gram by the place of its first words and of its last one among the frequent ones. Each size is one pass
over the texts in tasks and one statement over what they saw.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
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
from sanitize.degrees import Degrees, Places
from sanitize.errors import UsageError
from sanitize.keyed import Key, siphash
from sanitize.looks import Ground, here, occurrences_of, texts_of
from sanitize.plan import Blacklist
from sanitize.publish import Job, hashed, perform
from sanitize.shards import Documents, table_writer
from sanitize.spans import Buffers, arrow
from sanitize.words import Spoken, spoken, touched

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
NO_USER = "[blacklist]: no document says who wrote it; name the column that does with --user-column"
SEEN = pa.schema(
    [
        pa.field("gram", pa.int64()),  # a word's hash; else the place of the first words among the frequent ones, and that of the last + 1
        pa.field("user_hash", pa.int64()),  # keyed hash of one of its users; null: it has k of them
    ]
)
SPELLED = pa.schema([pa.field("gram", pa.int64()), pa.field("word", pa.large_string())])
DIRECT = pa.schema([pa.field("ngram", pa.large_string()), pa.field("n", pa.int32())])
WHITE = pa.schema([pa.field("number", pa.int64()), pa.field("gram", pa.int64())])
DEGREES = pa.schema([pa.field("gram", pa.int64()), pa.field("users", pa.int64())])
_LAST = np.uint64(32)  # bits of an n-gram's number that are of its last word


@dataclass(frozen=True, kw_only=True)
class SeenTask:
    """One range of documents whose n-grams of one size are counted by user."""

    first: int
    last: int
    documents: Documents
    leaves: tuple[Leaf, ...]
    size: int
    k: int
    key: Key
    white: tuple[Path, ...]  # the n-grams of each smaller size that k users wrote
    gone: tuple[Path, ...]  # files with the `doc_no` of documents that are not there
    occurrences: Path
    kinds: tuple[str, ...]  # those whose values are direct identifiers
    folder: Path

    @property
    def told(self) -> str:
        """The task in words, for an error."""
        return self.documents.told(self.first, self.last)


def seen_task(task: SeenTask) -> dict[str, Any]:
    """Write `seen.parquet`, the n-grams of the range with their users; with single words also `spelled.parquet`, what they are, and
    `direct.parquet`, the values found. Returns how many words were read, and how many documents have no user."""
    user_of, hashes = _users(task)
    places = [Places(_grams(path)) for path in task.white]
    found = occurrences_of(task.occurrences, task.kinds)
    spelled, direct, counted = [SPELLED.empty_table()], [DIRECT.empty_table()], np.zeros(task.last - task.first, np.bool_)
    read = 0
    with table_writer(task.folder / "seen.parquet", SEEN) as out:

        def write(grams: U64, users: I32) -> None:
            column = pa.array(hashes[np.maximum(users, 0)] if len(hashes) else np.empty(0, np.int64), mask=users < 0)
            out.write_table(pa.table([pa.array(grams.view(np.int64)), column], schema=SEEN))

        degrees = Degrees(task.k, write) if task.k > 1 else None
        for docs, cells, texts in texts_of(task.documents, task.leaves, task.first, task.last, task.gone):
            buffers = Buffers.of(texts)
            words = spoken(buffers)
            read += len(words.hashes)
            counted[docs - task.first] = True
            if degrees is not None:
                grams, begins = _grams_of(words, places)
                new = degrees.add(grams, user_of[docs[words.text_no[begins]] - task.first])
                if task.size == 1 and len(new):
                    rows = np.sort(new[np.unique(grams[new], return_index=True)[1]])
                    spelled.append(pa.table([grams[rows].view(np.int64), words.spelled(buffers, rows)], schema=SPELLED))
            if task.size == 1 and task.kinds:
                direct.append(_direct(buffers, words, here(found, docs, cells)))
        if degrees is not None:
            degrees.done()
    if task.size == 1:
        _write_once(pa.concat_tables(spelled), "gram", task.folder / "spelled.parquet")
        _write_once(pa.concat_tables(direct), "ngram", task.folder / "direct.parquet")
    none = len(hashes) - 1 if len(hashes) else -1  # the last number is nobody's
    return {"words": read, "documents": int(counted.sum()), "without_user": int((user_of[counted] == none).sum())}


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


def _grams(white: Path) -> U64:
    """The frequent n-grams of one size, in the order of their places."""
    return np.asarray(pq.read_table(white, columns=["gram"], partitioning=None).column("gram"), np.int64).view(np.uint64)


def _grams_of(words: Spoken, white: Sequence[Places]) -> tuple[U64, I64]:
    """The n-grams whose shorter ones are all frequent, with one word more than `white` has sizes, and the place of the first word of each."""
    grams, begins = np.maximum(words.hashes, np.uint64(1)), np.arange(len(words.hashes))
    single: I64 = np.empty(0, np.int64)  # the place of each word
    for size, known in enumerate(white, 1):
        place = np.full(len(words.hashes), -1, np.int64)
        place[begins] = known.of(grams)
        single = place if size == 1 else single
        # both that it is made of are frequent, and its words stand in one text
        begins = np.flatnonzero((place[:-1] >= 0) & (place[1:] >= 0))
        begins = begins[begins + size < len(words.hashes)]
        begins = begins[words.text_no[begins] == words.text_no[begins + size]]
        grams = (place[begins].view(np.uint64) << _LAST) | (single[begins + size] + 1).view(np.uint64)
    return grams, begins


def _direct(buffers: Buffers, words: Spoken, found: pl.DataFrame) -> pa.Table:
    """The words that each occurrence touches, in a row, as far as it touches any."""
    base = buffers.offsets[found["text_no"].to_numpy()]
    first, after = touched(words, base + found["start_byte"].to_numpy(), base + found["stop_byte"].to_numpy())
    many = after - first
    value = np.repeat(np.arange(len(many)), many)
    at = np.arange(many.sum()) + np.repeat(first - np.concatenate([[0], np.cumsum(many)[:-1]]), many) if len(many) else first
    rows, back = np.unique(at, return_inverse=True)
    text = pl.Series(words.spelled(buffers, rows)).gather(back)
    listed = pl.DataFrame({"value": value, "word": text}).group_by("value", maintain_order=True)
    frame = listed.agg(pl.col("word").str.join(" ").alias("ngram"), pl.len().alias("n")).unique("ngram", maintain_order=True)
    return pa.table([arrow(frame["ngram"]), frame["n"].cast(pl.Int32).to_arrow()], schema=DIRECT)


def _write_once(table: pa.Table, key: str, path: Path) -> None:
    """A table with one row of each key, ascending."""
    frame = pl.DataFrame(table).unique(key).sort(key)
    with table_writer(path, table.schema) as out:
        out.write_table(frame.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(table.schema))


def blacklist(settings: Blacklist, ground: Ground, kinds: Sequence[str], key: Key, out: Path) -> dict[str, Any]:
    """Make the table `blacklist` at `out`, unless it is there; returns the settings, the documents (and those without a user) and words
    it was counted over, and how many n-grams it lists by size and reason. `kinds` are those whose values are direct identifiers.

    UsageError where no document has a user.
    """
    aside = ground.folder.parent / "blacklist"

    def work(task: _Aside) -> dict[str, Any]:
        if settings.k > 1 and not _anybody(ground.documents):
            raise UsageError(NO_USER)
        return _counted(settings, ground, tuple(kinds) if settings.direct else (), key, aside, task.folder / "blacklist.parquet")

    task = _Aside(ground.spill / "blacklist")
    made = perform(
        Job(
            work=work,
            task=task,
            record=ground.folder.parent / "tasks" / "blacklist.json",
            fingerprint=ground.fingerprint,
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


def _counted(settings: Blacklist, ground: Ground, kinds: tuple[str, ...], key: Key, aside: Path, out: Path) -> dict[str, Any]:
    """Level after level, and the table."""
    ask = ground.engine.sql
    aside.mkdir(parents=True, exist_ok=True)
    nothing = {"degrees": aside / "no-degrees.parquet", "white": aside / "no-white.parquet"}
    pq.write_table(DEGREES.empty_table(), nothing["degrees"])
    pq.write_table(WHITE.empty_table(), nothing["white"])
    degrees, white, first = [nothing["degrees"]] * 3, [nothing["white"]] * 2, {}
    told: dict[str, Any] = {}
    for size in range(1, settings.n + 1):
        if size > 1 and settings.k == 1:
            break  # nothing has fewer than one user
        results, files = _seen(settings, ground, size, tuple(white[: size - 1]), kinds, key, aside)
        if size == 1:
            first = files
            told = {name: sum(one[name] for one in results) for name in ("documents", "without_user", "words")}
        degrees[size - 1] = aside / f"degrees-{size}.parquet"
        ask(queries.query("blacklist_degrees").text, {"seen": files["seen"]}, degrees[size - 1], k=settings.k)
        if size < settings.n:
            white[size - 1] = aside / f"white-{size}.parquet"
            ask(queries.query("blacklist_white").text, {"degrees": [degrees[size - 1]]}, white[size - 1], k=settings.k)
    sources = {
        **{f"degrees_{size}": [path] for size, path in enumerate(degrees, 1)},
        **{f"white_{size}": [path] for size, path in enumerate(white, 1)},
        "spelled": first["spelled"],
        "direct": first["direct"],
    }
    ask(queries.query("blacklist_rows").text, sources, aside / "rows.parquet", k=settings.k)
    with pq.ParquetFile(aside / "rows.parquet") as rows, table_writer(out, tables.BLACKLIST.schema) as file:
        for batch in rows.iter_batches(1 << 18, use_threads=False):
            file.write_table(pa.Table.from_batches([batch]).cast(tables.BLACKLIST.schema))
    listed = pl.scan_parquet(out).group_by("n", "reason").agg(ngrams=pl.len()).sort("n", "reason").collect()
    by_size = {reason: dict(listed.filter(reason=reason).select("n", "ngrams").iter_rows()) for reason in ("direct", "indirect")}
    return {
        **settings.model_dump(),
        **told,
        "listed": {
            "direct": sum(by_size["direct"].values()),
            "indirect": {str(size): by_size["indirect"].get(size, 0) for size in range(1, settings.n + 1)},
        },
    }


def _seen(
    settings: Blacklist, ground: Ground, size: int, white: tuple[Path, ...], kinds: tuple[str, ...], key: Key, aside: Path
) -> tuple[Sequence[dict[str, Any]], dict[str, list[Path]]]:
    """What the tasks return of one size, and their tables."""
    names = ("seen", "spelled", "direct") if size == 1 else ("seen",)
    files: dict[str, list[Path]] = {name: [] for name in names}
    jobs = []
    for no, (first, last) in enumerate(ground.ranges):
        task = SeenTask(
            first=first,
            last=last,
            documents=ground.documents,
            leaves=ground.leaves,
            size=size,
            k=settings.k,
            key=key,
            white=white,
            gone=ground.gone,
            occurrences=ground.occurrences[no],
            kinds=kinds if size == 1 else (),
            folder=ground.spill / f"blacklist-{size}-{no}",
        )
        outputs = {f"{name}.parquet": aside / f"{name}-{size}" / f"{no:05d}.parquet" for name in names}
        for name in names:
            files[name].append(outputs[f"{name}.parquet"])
        record = aside / "tasks" / f"{size}-{no:05d}.json"
        fingerprint = hashed(ground.fingerprint, settings.k, size, [pc.sum(pq.read_table(path).column("gram")).as_py() for path in white])
        jobs.append(Job(work=seen_task, task=task, record=record, fingerprint=fingerprint, outputs=outputs))
    return ground.map("blacklist", jobs), files
