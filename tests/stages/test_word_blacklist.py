"""The word blacklist against a slow reference in plain Python: every word and n-gram, every user, however the work is split into tasks."""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sanitize.cli.demo import generate_mails
from sanitize.core import user_counts
from sanitize.core.arrow_buffers import TextBuffers
from sanitize.core.user_counts import IdIndex, SortedUserCounter, UserCounter, merge_user_counts
from sanitize.engines.local import LocalEngine
from sanitize.errors import UsageError
from sanitize.inspection.sql_api import sql
from sanitize.pipeline.erasure.subject import subject
from sanitize.pipeline.run import run
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.readers.staging import Columns
from sanitize.readers.survey import Roles
from sanitize.stages import word_blacklist
from sanitize.storage import table_schemas
from sanitize.text.tokenizer import tokenize_unicode

Listed = set[tuple[str, int, int | None, str]]
User = str | None

# ------------------------------------------------------------------------------------------------------------------- a slow reading


def slow_words(text: str) -> list[tuple[str, int, int]]:
    """The words of a text with their code points."""
    found, begin = [], None
    for place, letter in enumerate(text + "\0"):
        inside = unicodedata.category(letter)[0] in "LMN"
        if inside and begin is None:
            begin = place
        elif not inside and begin is not None:
            found.append((text[begin:place].lower(), begin, place))
            begin = None
    return found


def slow_indirect(spoken: Iterable[tuple[User, Sequence[str]]], k: int, n: int) -> Listed:
    """N-grams that fewer than k users wrote, unless a shorter part is listed itself; every text with its user."""
    users: dict[tuple[str, ...], set[User]] = {}
    for user, texts in spoken:
        for text in texts:
            words = [word for word, _, _ in slow_words(text)]
            for size in range(1, n + 1):
                for at in range(len(words) - size + 1):
                    users.setdefault(tuple(words[at : at + size]), set()).add(user)

    def rare(gram: tuple[str, ...]) -> bool:
        return len(users[gram]) < k

    def parts(gram: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        return (gram[low:high] for low in range(len(gram)) for high in range(low + 1, len(gram) + 1) if high - low < len(gram))

    return {
        (" ".join(gram), len(gram), len(who), "indirect") for gram, who in users.items() if rare(gram) and not any(map(rare, parts(gram)))
    }


def slow_direct(cells: dict[tuple[int, int], str], work: Path, gone: Iterable[int] = ()) -> Listed:
    """The words that the found values overlap."""
    found: Listed = set()
    for path in sorted((work / "tables" / "occurrences").glob("*.parquet")):
        for row in pq.read_table(path, columns=["doc_no", "cell", "start", "end"]).to_pylist():
            if row["doc_no"] in gone:
                continue
            words = slow_words(cells[row["doc_no"], row["cell"]])
            mine = [word for word, first, last in words if first < row["end"] and last > row["start"]]
            if mine:
                found.add((" ".join(mine), len(mine), None, "direct"))
    return found


# ------------------------------------------------------------------------------------------------------------------------- fast ones


def listed(work: Path, summary: dict[str, Any]) -> Listed:
    """The table `blacklist` of a run; asserts its schema, order and key."""
    table = pq.read_table(work / "runs" / summary["plan_hash"] / "vault" / "blacklist" / "00000.parquet")
    assert table.schema.equals(table_schemas.BLACKLIST.schema)
    rows = [tuple(row.values()) for row in table.to_pylist()]
    assert rows == sorted(rows, key=lambda row: (row[1], row[3], row[0].encode())) and len(set(rows)) == len(rows)
    told = {(one["n"], one["reason"]): one["ngrams"] for one in summary["blacklist"]["listed"]}
    assert {where: times for where, times in told.items() if times} == Counter((row[1], row[3]) for row in rows)
    return {(row[0], row[1], row[2], row[3]) for row in rows}


def made(folder: Path, inputs: Sequence[Path], k: int, n: int, *changes: str, **more: Any) -> tuple[Listed, dict[str, Any]]:
    """The blacklist of a corpus, and the summary."""
    plan = load_plan("blacklist", [f"blacklist.k={k}", f"blacklist.n={n}", *changes])
    told = Settings(**({"seed": 1, "workers": 1, "verify": "off"} | more))
    summary = run(inputs, folder / "out", plan, folder / "work", told)
    return listed(folder / "work", summary), summary


LETTERS = "aAbBéÉßẞıİKſΣσςа́Жж一中ひが٣²½ⅣǅʰΩk\u0301\u0308\u094d\u200dक् .,-'@_\n\u00a0\u2028😀\0\x01\x02"
WORDS = st.sampled_from(
    ["the", "The", "a", "of", "Étude", "étude", "ΟΔΟΣ", "İstanbul", "x1", "一中", "don't", "bob@example.com", "555-0100"]
)
TEXTS = st.one_of(
    st.lists(WORDS, max_size=8).map(" ".join),
    st.text(st.sampled_from(sorted(set(LETTERS))), max_size=12),
    st.text(st.characters(exclude_categories=("Cs", "Cn", "Co"), max_codepoint=0x2FFF), max_size=8),
)
USERS = st.sampled_from([None, "", "u1", "u2", "ü3", "u4"])
EXAMPLES = settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))


@given(st.lists(st.text(st.sampled_from(sorted(set(LETTERS))), max_size=20) | TEXTS, max_size=6))
@settings(max_examples=300, deadline=None)
def test_words_are_those_of_a_slow_reading(texts: list[str]) -> None:
    buffers = TextBuffers.from_array(pa.array(texts, pa.large_string()))
    words = tokenize_unicode(buffers)
    found = [word for text in texts for word, _, _ in slow_words(text)]
    assert words.lowercase_texts(buffers, np.arange(len(words.hashes))).to_pylist() == found
    assert words.text_no.tolist() == [number for number, text in enumerate(texts) for _ in slow_words(text)]
    places = [(len(text[:first].encode()), len(text[:last].encode())) for text in texts for _, first, last in slow_words(text)]
    base = buffers.offsets[words.text_no]
    assert list(zip((words.start - base).tolist(), (words.end - base).tolist(), strict=True)) == places
    # one hash for one word, however it is written
    assert len(set(zip(found, words.hashes.tolist(), strict=True))) == len(set(found)) == len(set(words.hashes.tolist()))


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 7)), max_size=400), st.integers(2, 5), st.booleans())
@settings(max_examples=200, deadline=None)
def test_degrees_are_those_of_sets(pairs: list[tuple[int, int]], k: int, far: bool) -> None:
    # numbers whose slots are neighbours, or all over
    spread = 0x9E3779B97F4A7C15 if not far else 1
    numbers = np.array([number * pow(spread, -1, 1 << 64) % (1 << 64) for number, _ in pairs], np.uint64)
    came: list[tuple[int, int]] = []
    counted = UserCounter(k, lambda grams, users: came.extend(zip(grams.tolist(), users.tolist(), strict=True)))
    half = len(pairs) // 2
    for part in (slice(0, half), slice(half, None)):
        place, new = counted.add(numbers[part], np.array([user for _, user in pairs[part]], np.int32))
        fresh = set(numbers[part].tolist()) - set(numbers[: half if part.start else 0].tolist())
        assert set(numbers[part][new].tolist()) == fresh and len(new) == len(fresh)
        came_first = list(dict.fromkeys(numbers.tolist()))
        assert place.tolist() == [came_first.index(number) for number in numbers[part].tolist()]
    counted.flush()
    wanted: dict[int, set[int]] = {}
    for number, (_, user) in zip(numbers.tolist(), pairs, strict=True):
        wanted.setdefault(number, set()).add(user)
    assert len(came) == len(set(came))
    assert set(came) == {(number, user) for number, who in wanted.items() for user in (who if len(who) < k else {-1})}


def test_degrees_grow_and_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """First more numbers than slots, then more than the limit: nothing is lost, and pairs that were emitted separately can be combined."""
    rng = np.random.default_rng(1)
    numbers = rng.integers(1, 1 << 40, 300_000).astype(np.uint64)
    numbers = np.concatenate([numbers, numbers])
    users = rng.integers(0, 3, len(numbers)).astype(np.int32)
    wanted = pl.DataFrame({"number": numbers, "user": users}).unique().sort("number", "user")
    for most, parts in ((384 << 20, 1), (1 << 20, 5)):
        came: list[pl.DataFrame] = []
        counted = UserCounter(4, lambda grams, who: came.append(pl.DataFrame({"number": grams, "user": who})), most)  # noqa: B023
        counted.add(numbers, users)
        counted.flush()
        assert len(came) >= parts
        assert pl.concat(came).unique().sort("number", "user").equals(wanted)
    places = IdIndex(np.unique(numbers))
    assert np.array_equal(places.positions_of(numbers), np.searchsorted(np.unique(numbers), numbers))
    assert (
        places.positions_of(np.array([0, 1 << 41, 7 << 50], np.uint64)) == -1
    ).all() and user_counts._INITIAL_SLOTS > 2 * user_counts._BLOCK


@given(
    st.lists(st.tuples(st.integers(0, 3) | st.integers(0, 40), st.integers(0, 6)), max_size=400),
    st.integers(2, 5),
    st.integers(2, 40),
    st.integers(1, 9),
    st.sampled_from([0, 50]),
)
@settings(max_examples=200, deadline=None)
def test_pairs_are_those_of_sets(pairs: list[tuple[int, int]], k: int, most: int, out: int, far: int) -> None:
    """With any number of sorts, every part has the users of each number, ascending by number, and no call splits them."""
    numbers = np.array([number << far for number, _ in pairs], np.uint64)
    users = np.array([user for _, user in pairs], np.int32)
    calls: list[tuple[int, list[tuple[int, int]]]] = []
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_EMIT_PAIRS", "_BLOCK", "_INITIAL_PAIRS"):
            patch.setattr(user_counts, name, out)

        def write(grams: Any, who: Any) -> None:
            calls.append((len(counted.blocks_per_run), list(zip(grams.tolist(), who.tolist(), strict=True))))

        counted = SortedUserCounter(k, 6 + far, 7, write, most)
        for at in range(0, len(pairs), 7):
            counted.add(numbers[at : at + 7], users[at : at + 7])
        counted.flush()
    wanted: dict[int, set[int]] = {}
    for number, user in zip(numbers.tolist(), users.tolist(), strict=True):
        wanted.setdefault(number, set()).add(user)
    for (part, one), (next_part, two) in itertools.pairwise(calls):
        assert part < next_part or one[-1][0] < two[0][0]
    came = [pair for _, call in calls for pair in call]
    assert sum(counted.blocks_per_run) == len(calls)
    if len(counted.blocks_per_run) == 1:
        assert came == sorted((number, user) for number, who in wanted.items() for user in (who if len(who) < k else {-1}))
    # combined: a number with k users has them in one part, or distinct users in several
    for number, who in wanted.items():
        said = {user for other, user in came if other == number}
        assert said == who if -1 not in said else len(who) >= k


@given(st.lists(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), max_size=60), max_size=5), st.integers(2, 4), st.integers(1, 9))
@settings(max_examples=200, deadline=None)
def test_merged_parts_are_those_of_sets(parts: list[list[tuple[int, int]]], k: int, size: int) -> None:
    """For any blocks of the parts, each number is returned once, with its count of users in all parts, up to k."""
    wanted: dict[int, set[int]] = {}
    came: list[list[tuple[Any, Any]]] = []
    for pairs in parts:
        mine: dict[int, set[int]] = {}
        for number, user in pairs:
            mine.setdefault(number, set()).add(user)
            wanted.setdefault(number, set()).add(user)
        rows = [[(number, user) for user in (who if len(who) < k else {-1})] for number, who in sorted(mine.items())]
        blocks = [[row for several in rows[low : low + size] for row in several] for low in range(0, len(rows), size)]
        came.append([tuple(np.array(column, np.int64) for column in zip(*block, strict=True)) for block in blocks])  # type: ignore[misc]
    told = [
        pair
        for numbers, users in merge_user_counts([iter(part) for part in came], k)
        for pair in zip(numbers.tolist(), users.tolist(), strict=True)
    ]
    assert told == [(number, min(len(who), k)) for number, who in sorted(wanted.items())]


def test_users_in_several_blocks_are_no_more_than_k(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_EMIT_PAIRS", "_BLOCK"):
        monkeypatch.setattr(user_counts, name, 2)
    came: list[tuple[int, int]] = []
    counted = SortedUserCounter(2, 6, 7, lambda grams, who: came.extend(zip(grams.tolist(), who.tolist(), strict=True)))
    counted.add(np.array([5, 5, 5, 5, 6], np.uint64), np.array([1, 2, 3, 4, 0], np.int32))
    counted.flush()
    assert came == [(5, -1), (6, 0)]


def test_what_does_not_fit_is_counted_in_a_table() -> None:
    assert (
        SortedUserCounter.can_pack(47, 1 << 17) and not SortedUserCounter.can_pack(48, (1 << 16) + 1) and SortedUserCounter.can_pack(64, 1)
    )


# ---------------------------------------------------------------------------------------------------------------------- whole corpora

ROWS = st.lists(
    st.fixed_dictionaries({"user_id": USERS, "text": TEXTS | st.none(), "more": st.lists(TEXTS, max_size=2)}), min_size=1, max_size=24
)


@given(ROWS, st.integers(1, 4), st.integers(1, 3), st.integers(2, 9))
@EXAMPLES
def test_a_corpus_gives_what_a_slow_reading_gives(rows: list[dict[str, Any]], k: int, n: int, size: int) -> None:
    """Several texts per document, nested ones too; null texts; documents without users; tasks of any size."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        nested = [{"user_id": row["user_id"], "text": row["text"], "m": [{"say": one} for one in row["more"]]} for row in rows]
        schema = pa.schema([("user_id", pa.string()), ("text", pa.string()), ("m", pa.list_(pa.struct([("say", pa.string())])))])
        pq.write_table(pa.Table.from_pylist(nested, schema), here / "in.parquet")
        if k > 1 and all(row["user_id"] is None for row in rows):
            with pytest.raises(UsageError, match="--user-column"):
                made(here, [here / "in.parquet"], k, n)
            return
        found, summary = made(here, [here / "in.parquet"], k, n, rows_per_shard=size)
        cells = {(no, 0): row["text"] or "" for no, row in enumerate(rows)}
        cells |= {(no, place): text for no, row in enumerate(rows) for place, text in enumerate(row["more"], 1)}
        spoken_ = [(row["user_id"], [row["text"] or "", *row["more"]]) for row in rows]
        assert found == slow_indirect(spoken_, k, n) | slow_direct(cells, here / "work")
        assert summary["blacklist"]["words"] == sum(len(slow_words(text)) for _, texts in spoken_ for text in texts)
        assert not (here / "work" / "runs" / summary["plan_hash"] / "blacklist").exists()


# ------------------------------------------------------------------------------------------------------- how a run makes it, and keeps it


@pytest.fixture(scope="module")
def mails_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """160 invented mails of a few persons."""
    folder = tmp_path_factory.mktemp("mails")
    pq.write_table(generate_mails(160, 5), folder / "in.parquet", row_group_size=50)
    return folder / "in.parquet"


@pytest.fixture(scope="module")
def undisturbed(mails_in: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[str, Any]]:
    """The list of three words at most, as bytes, and the summary."""
    folder = tmp_path_factory.mktemp("whole")
    _, summary = made(folder, [mails_in], 2, 3, rows_per_shard=40)
    return table_of(folder, summary), summary


def table_of(folder: Path, summary: dict[str, Any]) -> bytes:
    return (folder / "work" / "runs" / summary["plan_hash"] / "vault" / "blacklist" / "00000.parquet").read_bytes()


def test_it_is_that_of_a_slow_reading_of_mails(mails_in: Path, undisturbed: tuple[bytes, dict[str, Any]]) -> None:
    rows = pq.read_table(mails_in).to_pylist()
    _, summary = undisturbed
    for size in (1, 2, 3):
        slow = {row for row in slow_indirect([(row["user_id"], [row["text"]]) for row in rows], 2, 3) if row[1] == size}
        (told,) = (one["ngrams"] for one in summary["blacklist"]["listed"] if (one["n"], one["reason"]) == (size, "indirect"))
        assert told == len(slow) > 50


@pytest.mark.parametrize(("files", "size", "workers"), [(1, 1000, 1), (3, 7, 1), (2, 40, 2)])
def test_any_files_shards_and_workers(
    mails_in: Path, undisturbed: tuple[bytes, dict[str, Any]], tmp_path: Path, files: int, size: int, workers: int
) -> None:
    whole = pq.read_table(mails_in)
    for no in range(files):
        low, high = len(whole) * no // files, len(whole) * (no + 1) // files
        pq.write_table(whole.slice(low, high - low), tmp_path / f"in{no}.parquet")
    inputs = [tmp_path / f"in{no}.parquet" for no in range(files)]
    _, summary = made(tmp_path, inputs, 2, 3, rows_per_shard=size, workers=workers)
    assert table_of(tmp_path, summary) == undisturbed[0]
    assert summary["blacklist"] == undisturbed[1]["blacklist"]


@pytest.mark.parametrize("what", ["many parts", "numbers too long"])
def test_parts_and_long_numbers_change_nothing(
    mails_in: Path, undisturbed: tuple[bytes, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The output of one task in several parts, and n-grams whose numbers are counted in a hash table."""
    told: list[Any] = []

    class Few(SortedUserCounter):
        def __init__(self, *of: Any) -> None:
            super().__init__(*of, max_pairs=500)
            told.append(self)

    class Long(UserCounter):
        def __init__(self, *of: Any) -> None:
            super().__init__(*of)
            told.append(self)

    monkeypatch.setattr(word_blacklist, *(("SortedUserCounter", Few) if what == "many parts" else ("UserCounter", Long)))
    if what != "many parts":
        monkeypatch.setattr(SortedUserCounter, "can_pack", staticmethod(lambda item_bits, user_count: False))
    _, summary = made(tmp_path, [mails_in], 2, 3)
    assert table_of(tmp_path, summary) == undisturbed[0]
    assert all(len(one.blocks_per_run) > 1 for one in told) if what == "many parts" else len(told) == 3


def test_many_tasks_are_put_together_by_a_statement(
    mails_in: Path, undisturbed: tuple[bytes, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One task more than are merged at once gives the same list."""
    asked: list[str] = []
    ask = LocalEngine.sql

    def sql(self: LocalEngine, query: str, tables: Any, out: Path, **more: Any) -> None:
        asked.append(out.name)
        ask(self, query, tables, out, **more)

    monkeypatch.setattr(LocalEngine, "sql", sql)
    for most, statements in ((4, []), (3, ["degrees-2.parquet", "degrees-3.parquet"])):
        monkeypatch.setattr(word_blacklist, "_MAX_MERGED_PARTS", most)
        _, summary = made(tmp_path / str(most), [mails_in], 2, 3, rows_per_shard=40)
        assert table_of(tmp_path / str(most), summary) == undisturbed[0]
        assert [name for name in asked if name in ("degrees-2.parquet", "degrees-3.parquet")] == statements


def test_row_groups_have_one_length(
    mails_in: Path, undisturbed: tuple[bytes, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the n-grams arrive, all row groups except the last have the same size."""
    monkeypatch.setattr(word_blacklist, "_BLOCK_ROWS", 37)
    monkeypatch.setattr(user_counts, "_EMIT_PAIRS", 5)
    _, summary = made(tmp_path, [mails_in], 2, 3, rows_per_shard=40)
    file = pq.ParquetFile(pa.BufferReader(table_of(tmp_path, summary)))
    groups = [file.read_row_group(at, columns=["n", "reason"]).to_pylist() for at in range(file.num_row_groups)]
    sizes = [len(group) for group in groups if {"n": 3, "reason": "indirect"} in group]
    assert len(sizes) > 2 and set(sizes[:-1]) == {37} and sizes[-1] <= 37
    assert file.read().equals(pq.read_table(pa.BufferReader(undisturbed[0])))


@pytest.mark.parametrize("where", ["before a task", "after a task", "in a query"])
def test_a_stopped_count_goes_on(
    mails_in: Path, undisturbed: tuple[bytes, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    seen: list[tuple[int, int]] = []
    real, ask = word_blacklist.gram_users_task, LocalEngine.sql

    def stopped(task: Any) -> Any:
        seen.append((task.gram_size, task.first_doc_no))
        if where != "in a query" and len(seen) == 6:
            if where == "after a task":
                real(task)
            raise KeyboardInterrupt
        return real(task)

    def broken(self: LocalEngine, query: str, tables: Any, out: Path, **more: Any) -> None:
        ask(self, query, tables, out, **more)
        if where == "in a query" and out.name == "words.parquet":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(word_blacklist, "gram_users_task", stopped)
        patch.setattr(LocalEngine, "sql", broken)
        with pytest.raises(KeyboardInterrupt):
            made(tmp_path, [mails_in], 2, 3, rows_per_shard=40)
    assert not (tmp_path / "out").exists()
    again: list[tuple[int, int]] = []
    with monkeypatch.context() as patch:
        patch.setattr(word_blacklist, "gram_users_task", lambda task: again.append((task.gram_size, task.first_doc_no)) or real(task))
        _, summary = made(tmp_path, [mails_in], 2, 3, rows_per_shard=40)
    assert table_of(tmp_path, summary) == undisturbed[0]
    # finished tasks are not repeated
    done = seen[:-1] if where != "in a query" else seen
    assert not set(done) & set(again) and len(set(done) | set(again)) == 12
    # once all is done nothing is repeated; a lost list is written again
    shutil.rmtree(tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setattr(word_blacklist, "gram_users_task", lambda task: pytest.fail("counted again"))
        made(tmp_path, [mails_in], 2, 3, rows_per_shard=40)
    (tmp_path / "work" / "runs" / summary["plan_hash"] / "vault" / "blacklist" / "00000.parquet").unlink()
    shutil.rmtree(tmp_path / "out")
    made(tmp_path, [mails_in], 2, 3, rows_per_shard=40)
    assert table_of(tmp_path, summary) == undisturbed[0]


DROPS = """
publishable = false
leave = ["EMAIL_ADDRESS"]
[find]
kinds = ["EMAIL_ADDRESS"]
[[drop]]
use = "exact_dup"
[blacklist]
k = 2
"""


def test_a_dropped_document_does_not_count(tmp_path: Path) -> None:
    """Neither the words nor the values of a dropped document are counted, nor those of a quarantined one."""
    texts = ["red apples", "red apples", "green pears of bob@example.com", "green pears of bob@example.com", "blue " * 90_000]
    pq.write_table(pa.table({"text": texts, "who": [1, 2, 3, 4, 5]}), tmp_path / "in.parquet")
    (tmp_path / "mine.toml").write_text(DROPS)
    columns = Columns(roles=Roles(user="who"))
    told = Settings(seed=1, workers=1, verify="off", columns=columns, max_doc_bytes=300_000, max_quarantine=0.5)
    summary = run([tmp_path / "in.parquet"], tmp_path / "out", load_plan(str(tmp_path / "mine.toml")), tmp_path / "work", told)
    gone = summary["documents_dropped"]
    assert (gone, summary["quarantined"]) == (2, 1)
    words = {row[0] for row in listed(tmp_path / "work", summary)}
    assert words == {"red", "apples", "green", "pears", "of", "bob", "example", "com", "bob example com"}
    assert summary["blacklist"]["documents"] == 2 and summary["blacklist"]["words"] == 8


def test_any_column_is_the_user(tmp_path: Path) -> None:
    """User columns of numbers, of texts, and a mail's From, which is always available."""
    texts = ["one two", "two three", "three one"]
    pq.write_table(pa.table({"text": texts, "a": [7, 7, 8], "b": ["x", "y", "y"]}), tmp_path / "in.parquet")
    for user, rare in (("a", {"two", "x"}), ("b", {"three"})):  # where b is no user, it is a text
        folder = tmp_path / user
        found, _ = made(folder, [tmp_path / "in.parquet"], 2, 1, columns=Columns(roles=Roles(user=user)))
        assert {row[0] for row in found} == rare
    senders = ["ann@example.com", "bob@example.com", "ann@example.com"]
    box = "".join(f"From x Sat Nov 21 00:00:00 2026\nFrom: {who}\n\n{text}\n\n" for who, text in zip(senders, texts, strict=True))
    (tmp_path / "in.mbox").write_text(box)
    found, _ = made(tmp_path / "mbox", [tmp_path / "in.mbox"], 2, 1, "blacklist.direct=false")
    assert {row[0] for row in found} == {"ann", "bob", "one"}


def test_a_column_that_is_dropped_does_not_count(tmp_path: Path) -> None:
    """The summary names the columns that were counted."""
    columns = {"text": ["plum", "plum"], "user_id": ["ann", "bob"], "note": ["fig date", "fig"], "title": ["plum quince", "plum"]}
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    for policies, rare, counted in (
        ({}, {"date", "quince"}, ["text", "note", "title"]),
        ({"note": "drop"}, {"quince"}, ["text", "title"]),
        ({"note": "drop", "title": "drop"}, set(), ["text"]),
    ):
        folder = tmp_path / str(len(policies))
        found, summary = made(folder, [tmp_path / "in.parquet"], 2, 1, columns=Columns(policies=policies))
        assert {row[0] for row in found} == rare and summary["blacklist"]["columns"] == counted


def test_nobody_vouches_for_nobody(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["plum", "plum", "fig", "fig"], "user_id": [None, None, None, "ann"]}), tmp_path / "in.parquet")
    found, summary = made(tmp_path, [tmp_path / "in.parquet"], 2, 1)
    assert found == {("plum", 1, 1, "indirect")}
    assert summary["blacklist"]["documents_without_user"] == 3


def test_no_word_is_published(tmp_path: Path) -> None:
    """Counts go into manifest, card and report; a word that one person uses stays in the vault, and so does a value."""
    texts = [f"quincunx{no} is said by quincunx{no}@example.com" for no in range(20)]
    pq.write_table(pa.table({"text": texts, "user_id": [f"u{no}" for no in range(20)]}), tmp_path / "in.parquet")
    summary = run([tmp_path / "in.parquet"], tmp_path / "out", "blacklist", tmp_path / "work", Settings(seed=1, workers=1))
    assert summary["blacklist"]["listed"] == [{"n": 1, "reason": "indirect", "ngrams": 20}, {"n": 3, "reason": "direct", "ngrams": 20}]
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["summary"]["blacklist"] == summary["blacklist"] and manifest["plan"]["blacklist"] == {"k": 2, "n": 1, "direct": True}
    assert not manifest["publishable"]
    for path in (tmp_path / "out").glob("*.*"):
        assert "quincunx" not in path.read_text()
    # the shards are the input's
    assert pq.read_table(next((tmp_path / "out" / "data").iterdir())).column("text").to_pylist() == texts
    # the table is there for a look, masked; its coverage too
    asked = sql(tmp_path / "work", "SELECT * FROM blacklist ORDER BY n, ngram")
    assert asked.height == 40 and set(asked["ngram"]) == {"aaaa9", "aaaa99", "aaaa9 aaaa aaa", "aaaa99 aaaa aaa"}
    assert "quincunx0" in sql(tmp_path / "work", "SELECT * FROM blacklist", reveal=True)["ngram"].to_list()
    covered = sql(tmp_path / "work", name="blacklist_coverage").to_dicts()
    assert [(row["n"], row["reason"], row["distinct_ngrams"], row["occurrences"]) for row in covered] == [(1, "indirect", 20, 40)]


def test_who_is_to_be_forgotten_is_on_no_list(tmp_path: Path) -> None:
    """Values, names and documents of an erased person: their words count for no user."""
    rows = [
        ("ann", "plain words of Quill Ostrich at quill@example.com"),
        ("bob", "plain words of bob@example.org"),
        ("quill", "plain plums and nothing else"),
    ]
    pq.write_table(pa.table({"text": [text for _, text in rows], "user_id": [who for who, _ in rows]}), tmp_path / "in.parquet")
    told = Settings(seed=1, workers=1)
    summary = run([tmp_path / "in.parquet"], tmp_path / "out", load_plan("blacklist", ["blacklist.n=2"]), tmp_path / "work", told)
    before = {row[0] for row in listed(tmp_path / "work", summary)}
    assert {"quill", "ostrich", "plums", "quill example com"} <= before
    subject(tmp_path / "work", ["quill@example.com", "Quill Ostrich", "user:quill"], erase=True, seed=1, workers=1)
    again = json.loads((tmp_path / "out" / "manifest.json").read_text())["summary"]
    assert again["plan_hash"] == summary["plan_hash"] and again["blacklist"]["documents"] == 2
    after = {row[0] for row in listed(tmp_path / "work", again)}
    # `plain`, `words` and `of` are written by both; no n-gram spans a removed word
    assert after == {"at", "bob", "example", "org", "bob example org"}


DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def real(name: str) -> list[tuple[User, str]]:
    """Texts of a public corpus that is not part of the repository, each with its user."""
    path = DATA / name
    if not path.exists():
        pytest.skip("the shared corpora are not here")
    if path.suffix == ".parquet":
        rows = pq.read_table(path, columns=["h_from", "raw"])
        rows = rows.take(list(range(0, len(rows), max(1, len(rows) // 200)))).to_pylist()
        return [(row["h_from"], row["raw"].decode("latin-1")) for row in rows]
    found: list[tuple[User, str]] = []
    for row in map(json.loads, path.read_text("utf-8").splitlines()[:100]):
        if "comments" in row:
            found += [(row["author"], json.dumps(comment, ensure_ascii=False)) for comment in row["comments"]]
        else:
            found.append((json.dumps(row["personality"], sort_keys=True), row["response"]))
    return found


@pytest.mark.parametrize(
    "name", ["users/newsgroups20.parquet", "users/synthpai_authors.jsonl", "users/llmprivacy_synthetic.jsonl", "mail/enron.parquet"]
)
def test_on_real_texts_the_list_is_that_of_a_slow_reading(name: str, tmp_path: Path) -> None:
    texts = real(name)
    pq.write_table(pa.table({"user_id": [user for user, _ in texts], "text": [text for _, text in texts]}), tmp_path / "in.parquet")
    found, summary = made(tmp_path, [tmp_path / "in.parquet"], 2, 3, "blacklist.direct=false", rows_per_shard=len(texts) // 2)
    expected = slow_indirect(((user, [text]) for user, text in texts), 2, 3)
    assert summary["blacklist"]["documents"] == len(texts)
    # a difference is counted, not shown: it would be words of people
    assert (len(found - expected), len(expected - found)) == (0, 0)
    assert min(Counter(row[1] for row in found)[size] for size in (1, 2, 3)) > 100  # each size is asked for something
