"""The word blacklist compared with a reference in plain Python: every word and n-gram, every user,
for any split of the work."""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
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

from sanitize.cli.generated_mails import generate_mails
from sanitize.core.arrow_buffers import TextBuffers
from sanitize.engines.local import LocalEngine
from sanitize.errors import UsageError
from sanitize.inspection.sql_api import sql
from sanitize.pipeline.erasure.subject_request import subject
from sanitize.pipeline.run import index_with_settings, run_with_settings
from sanitize.pipeline.run_results import RunResult
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.stages import word_blacklist
from sanitize.storage import table_schemas
from sanitize.text import user_counts
from sanitize.text.tokenizer import tokenize_unicode
from sanitize.text.user_counts import IdIndex, SortedUserCounter, UserCounter, merge_user_counts
from tests.support import reference_words

Blacklist = set[tuple[str, int, int | None, str]]
User = str | None

# -------------------------------------------------------------------------------- the reference


def reference_indirect(
    texts_of_users: Iterable[tuple[User, Sequence[str]]], k: int, n: int
) -> Blacklist:
    """N-grams that fewer than k users wrote, unless a shorter part is listed itself; every text
    with its user."""
    users: dict[tuple[str, ...], set[User]] = {}
    for user, texts in texts_of_users:
        for text in texts:
            words = [word for word, _, _ in reference_words(text)]
            for size in range(1, n + 1):
                for index in range(len(words) - size + 1):
                    users.setdefault(tuple(words[index : index + size]), set()).add(user)

    def is_rare(ngram: tuple[str, ...]) -> bool:
        return len(users[ngram]) < k

    def shorter_parts(ngram: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        return (
            ngram[start:end]
            for start in range(len(ngram))
            for end in range(start + 1, len(ngram) + 1)
            if end - start < len(ngram)
        )

    return {
        (" ".join(ngram), len(ngram), len(users_of_ngram), "indirect")
        for ngram, users_of_ngram in users.items()
        if is_rare(ngram) and not any(map(is_rare, shorter_parts(ngram)))
    }


def reference_direct(
    cells: dict[tuple[int, int], str], work: Path, dropped: Iterable[int] = ()
) -> Blacklist:
    """The words that the found values overlap."""
    identifiers: Blacklist = set()
    for path in sorted((work / "tables" / "occurrences").glob("*.parquet")):
        for row in pq.read_table(path, columns=["doc_no", "cell", "start", "end"]).to_pylist():
            if row["doc_no"] in dropped:
                continue
            words = reference_words(cells[row["doc_no"], row["cell"]])
            overlapped = [
                word for word, start, end in words if start < row["end"] and end > row["start"]
            ]
            if overlapped:
                identifiers.add((" ".join(overlapped), len(overlapped), None, "direct"))
    return identifiers


# ------------------------------------------------------------------- words, counters and merges


def read_blacklist(work: Path, summary: RunResult) -> Blacklist:
    """The table `blacklist` of a run; asserts its schema, order and key."""
    table = pq.read_table(
        work / "runs" / summary.run_hash / "vault" / "blacklist" / "00000.parquet"
    )
    assert table.schema.equals(table_schemas.BLACKLIST.schema)
    rows = [tuple(row.values()) for row in table.to_pylist()]
    assert rows == sorted(rows, key=lambda row: (row[1], row[3], row[0].encode())) and len(
        set(rows)
    ) == len(rows)
    counts_by_size = {(entry.n, entry.reason): entry.ngrams for entry in summary.blacklist.listed}
    assert {key: count for key, count in counts_by_size.items() if count} == Counter(
        (row[1], row[3]) for row in rows
    )
    return {(row[0], row[1], row[2], row[3]) for row in rows}


def run_blacklist(
    folder: Path, inputs: Sequence[Path], k: int, n: int, *changes: str, **more: Any
) -> tuple[Blacklist, RunResult]:
    """The blacklist of a corpus, and the summary."""
    plan = load_plan("blacklist", [f"blacklist.k={k}", f"blacklist.n={n}", *changes])
    run_settings = Settings(**({"seed": 1, "workers": 1, "verify": "off"} | more))
    summary = run_with_settings(inputs, folder / "out", plan, folder / "work", run_settings)
    return read_blacklist(folder / "work", summary), summary


LETTERS = (
    "aAbBéÉßẞıİKſΣσςа́Жж一中ひが٣²½ⅣǅʰΩk\u0301\u0308\u094d\u200dक् .,-'@_\n\u00a0\u2028😀\0\x01\x02"
)
WORDS = st.sampled_from(
    [
        "the",
        "The",
        "a",
        "of",
        "Étude",
        "étude",
        "ΟΔΟΣ",
        "İstanbul",
        "x1",
        "一中",
        "don't",
        "bob@example.com",
        "555-0100",
    ]
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
def test_words_equal_the_reference(texts: list[str]) -> None:
    buffers = TextBuffers.from_array(pa.array(texts, pa.large_string()))
    words = tokenize_unicode(buffers)
    expected_words = [word for text in texts for word, _, _ in reference_words(text)]
    assert (
        words.lowercase_texts(buffers, np.arange(len(words.hashes))).to_pylist() == expected_words
    )
    assert words.text_no.tolist() == [
        number for number, text in enumerate(texts) for _ in reference_words(text)
    ]
    expected_spans = [
        (len(text[:start].encode()), len(text[:end].encode()))
        for text in texts
        for _, start, end in reference_words(text)
    ]
    base = buffers.offsets[words.text_no]
    assert (
        list(zip((words.start - base).tolist(), (words.end - base).tolist(), strict=True))
        == expected_spans
    )
    # one hash for one word, however it is written
    assert (
        len(set(zip(expected_words, words.hashes.tolist(), strict=True)))
        == len(set(expected_words))
        == len(set(words.hashes.tolist()))
    )


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 7)), max_size=400),
    st.integers(2, 5),
    st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_user_counts_equal_sets(pairs: list[tuple[int, int]], k: int, is_spread: bool) -> None:
    # numbers whose slots are adjacent, or spread over the table
    spread = 0x9E3779B97F4A7C15 if not is_spread else 1
    numbers = np.array(
        [number * pow(spread, -1, 1 << 64) % (1 << 64) for number, _ in pairs], np.uint64
    )
    emitted: list[tuple[int, int]] = []
    counter = UserCounter(
        k, lambda grams, users: emitted.extend(zip(grams.tolist(), users.tolist(), strict=True))
    )
    half = len(pairs) // 2
    for part in (slice(0, half), slice(half, None)):
        position, new_rows = counter.add(
            numbers[part], np.array([user for _, user in pairs[part]], np.int32)
        )
        expected_new = set(numbers[part].tolist()) - set(
            numbers[: half if part.start else 0].tolist()
        )
        assert set(numbers[part][new_rows].tolist()) == expected_new and len(new_rows) == len(
            expected_new
        )
        order_of_first_occurrence = list(dict.fromkeys(numbers.tolist()))
        assert position.tolist() == [
            order_of_first_occurrence.index(number) for number in numbers[part].tolist()
        ]
    counter.flush()
    expected: dict[int, set[int]] = {}
    for number, (_, user) in zip(numbers.tolist(), pairs, strict=True):
        expected.setdefault(number, set()).add(user)
    assert len(emitted) == len(set(emitted))
    assert set(emitted) == {
        (number, user)
        for number, expected_users in expected.items()
        for user in (expected_users if len(expected_users) < k else {-1})
    }


@pytest.mark.slow
def test_user_counter_grows_and_flushes_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """First more numbers than slots, then more than the limit: nothing is lost, and pairs that were
    emitted separately can be combined."""
    rng = np.random.default_rng(1)
    numbers = rng.integers(1, 1 << 40, 300_000).astype(np.uint64)
    numbers = np.concatenate([numbers, numbers])
    users = rng.integers(0, 3, len(numbers)).astype(np.int32)
    expected = pl.DataFrame({"number": numbers, "user": users}).unique().sort("number", "user")
    for max_bytes, min_parts in ((384 << 20, 1), (1 << 20, 5)):
        emitted: list[pl.DataFrame] = []
        counter = UserCounter(
            4,
            lambda grams, ids: emitted.append(pl.DataFrame({"number": grams, "user": ids})),  # noqa: B023
            max_bytes,
        )
        counter.add(numbers, users)
        counter.flush()
        assert len(emitted) >= min_parts
        assert pl.concat(emitted).unique().sort("number", "user").equals(expected)
    index = IdIndex(np.unique(numbers))
    assert np.array_equal(index.positions_of(numbers), np.searchsorted(np.unique(numbers), numbers))
    assert (
        index.positions_of(np.array([0, 1 << 41, 7 << 50], np.uint64)) == -1
    ).all() and user_counts._INITIAL_SLOTS > 2 * user_counts._BLOCK


@given(
    st.lists(st.tuples(st.integers(0, 3) | st.integers(0, 40), st.integers(0, 6)), max_size=400),
    st.integers(2, 5),
    st.integers(2, 40),
    st.integers(1, 9),
    st.sampled_from([0, 50]),
)
@settings(max_examples=200, deadline=None)
def test_sorted_user_counts_equal_sets(
    pairs: list[tuple[int, int]], k: int, max_pairs: int, emit_pairs: int, shift: int
) -> None:
    """With any number of sorts, every part has the users of each number, ascending by number, and
    no call splits them."""
    numbers = np.array([number << shift for number, _ in pairs], np.uint64)
    users = np.array([user for _, user in pairs], np.int32)
    calls: list[tuple[int, list[tuple[int, int]]]] = []
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_EMIT_PAIRS", "_BLOCK", "_INITIAL_PAIRS"):
            patch.setattr(user_counts, name, emit_pairs)

        def write(grams: Any, users_written: Any) -> None:
            calls.append(
                (
                    len(counter.blocks_per_run),
                    list(zip(grams.tolist(), users_written.tolist(), strict=True)),
                )
            )

        counter = SortedUserCounter(k, 6 + shift, 7, write, max_pairs)
        for index in range(0, len(pairs), 7):
            counter.add(numbers[index : index + 7], users[index : index + 7])
        counter.flush()
    expected: dict[int, set[int]] = {}
    for number, user in zip(numbers.tolist(), users.tolist(), strict=True):
        expected.setdefault(number, set()).add(user)
    for (part, first_call), (next_part, second_call) in itertools.pairwise(calls):
        assert part < next_part or first_call[-1][0] < second_call[0][0]
    emitted = [pair for _, call in calls for pair in call]
    assert sum(counter.blocks_per_run) == len(calls)
    if len(counter.blocks_per_run) == 1:
        assert emitted == sorted(
            (number, user)
            for number, expected_users in expected.items()
            for user in (expected_users if len(expected_users) < k else {-1})
        )
    # combined: a number with k users is marked in one part, or has distinct users in several
    for number, expected_users in expected.items():
        emitted_users = {user for other_number, user in emitted if other_number == number}
        assert (
            emitted_users == expected_users if -1 not in emitted_users else len(expected_users) >= k
        )


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), max_size=60), max_size=5),
    st.integers(2, 4),
    st.integers(1, 9),
)
@settings(max_examples=200, deadline=None)
def test_merged_user_counts_equal_sets(
    parts: list[list[tuple[int, int]]], k: int, size: int
) -> None:
    """For any blocks of the parts, each number is returned once, with its count of users in all
    parts, up to k."""
    expected: dict[int, set[int]] = {}
    encoded_parts: list[list[tuple[Any, Any]]] = []
    for pairs in parts:
        users_of_part: dict[int, set[int]] = {}
        for number, user in pairs:
            users_of_part.setdefault(number, set()).add(user)
            expected.setdefault(number, set()).add(user)
        rows = [
            [(number, user) for user in (expected_users if len(expected_users) < k else {-1})]
            for number, expected_users in sorted(users_of_part.items())
        ]
        blocks = [
            [row for group in rows[start : start + size] for row in group]
            for start in range(0, len(rows), size)
        ]
        encoded_parts.append(
            [
                tuple(np.array(column, np.int64) for column in zip(*block, strict=True))
                for block in blocks
            ]
        )  # type: ignore[misc]
    merged = [
        pair
        for numbers, users in merge_user_counts([iter(part) for part in encoded_parts], k)
        for pair in zip(numbers.tolist(), users.tolist(), strict=True)
    ]
    assert merged == [
        (number, min(len(expected_users), k)) for number, expected_users in sorted(expected.items())
    ]


def test_users_in_several_blocks_are_limited_to_k(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_EMIT_PAIRS", "_BLOCK"):
        monkeypatch.setattr(user_counts, name, 2)
    emitted: list[tuple[int, int]] = []
    counter = SortedUserCounter(
        2,
        6,
        7,
        lambda grams, users: emitted.extend(zip(grams.tolist(), users.tolist(), strict=True)),
    )
    counter.add(np.array([5, 5, 5, 5, 6], np.uint64), np.array([1, 2, 3, 4, 0], np.int32))
    counter.flush()
    assert emitted == [(5, -1), (6, 0)]


def test_can_pack_depends_on_bits_and_users() -> None:
    assert (
        SortedUserCounter.can_pack(47, 1 << 17)
        and not SortedUserCounter.can_pack(48, (1 << 16) + 1)
        and SortedUserCounter.can_pack(64, 1)
    )


# -------------------------------------------------------------------------------- whole corpora

ROWS = st.lists(
    st.fixed_dictionaries(
        {"user_id": USERS, "text": TEXTS | st.none(), "more": st.lists(TEXTS, max_size=2)}
    ),
    min_size=1,
    max_size=24,
)


@pytest.mark.slow
@given(ROWS, st.integers(1, 4), st.integers(1, 3), st.integers(2, 9))
@EXAMPLES
def test_blacklist_of_a_corpus_equals_the_reference(
    rows: list[dict[str, Any]], k: int, n: int, size: int
) -> None:
    """Several texts per document, nested ones too; null texts; documents without users; tasks of
    any size."""
    with tempfile.TemporaryDirectory() as folder:
        folder_path = Path(folder)
        nested = [
            {
                "user_id": row["user_id"],
                "text": row["text"],
                "m": [{"say": text} for text in row["more"]],
            }
            for row in rows
        ]
        schema = pa.schema(
            [
                ("user_id", pa.string()),
                ("text", pa.string()),
                ("m", pa.list_(pa.struct([("say", pa.string())]))),
            ]
        )
        pq.write_table(pa.Table.from_pylist(nested, schema), folder_path / "in.parquet")
        if k > 1 and all(row["user_id"] is None for row in rows):
            with pytest.raises(UsageError, match="--user-column"):
                run_blacklist(folder_path, [folder_path / "in.parquet"], k, n)
            return
        blacklist, summary = run_blacklist(
            folder_path, [folder_path / "in.parquet"], k, n, rows_per_shard=size
        )
        cells = {(no, 0): row["text"] or "" for no, row in enumerate(rows)}
        cells |= {
            (no, cell): text
            for no, row in enumerate(rows)
            for cell, text in enumerate(row["more"], 1)
        }
        texts_with_users = [(row["user_id"], [row["text"] or "", *row["more"]]) for row in rows]
        assert blacklist == reference_indirect(texts_with_users, k, n) | reference_direct(
            cells, folder_path / "work"
        )
        assert summary.blacklist.words == sum(
            len(reference_words(text)) for _, texts in texts_with_users for text in texts
        )
        assert not (folder_path / "work" / "runs" / summary.run_hash / "blacklist").exists()


# ----------------------------------------------------------------------- the blacklist of a run


@pytest.fixture(scope="module")
def mails_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """160 invented mails of a few persons."""
    folder = tmp_path_factory.mktemp("mails")
    pq.write_table(generate_mails(160, 5), folder / "in.parquet", row_group_size=50)
    return folder / "in.parquet"


@pytest.fixture(scope="module")
def undisturbed(
    mails_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[bytes, RunResult]:
    """The list of three words at most, as bytes, and the summary."""
    folder = tmp_path_factory.mktemp("whole")
    _, summary = run_blacklist(folder, [mails_file], 2, 3, rows_per_shard=40)
    return read_blacklist_bytes(folder, summary), summary


@pytest.fixture(scope="module")
def index_folder(mails_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose WORK has the index of these mails, in four tasks."""
    folder = tmp_path_factory.mktemp("index")
    run_settings = Settings(seed=1, workers=1, rows_per_shard=40)
    index_with_settings([mails_file], folder / "work", run_settings, "blacklist")
    return folder


@pytest.fixture
def indexed_path(index_folder: Path, tmp_path: Path) -> Path:
    """A new folder with a copy of the index."""
    shutil.copytree(index_folder / "work", tmp_path / "work")
    return tmp_path


def read_blacklist_bytes(folder: Path, summary: RunResult) -> bytes:
    return (
        folder / "work" / "runs" / summary.run_hash / "vault" / "blacklist" / "00000.parquet"
    ).read_bytes()


@pytest.mark.slow
def test_counts_of_mails_equal_the_reference(
    mails_file: Path, undisturbed: tuple[bytes, RunResult]
) -> None:
    rows = pq.read_table(mails_file).to_pylist()
    _, summary = undisturbed
    for size in (1, 2, 3):
        expected = {
            row
            for row in reference_indirect([(row["user_id"], [row["text"]]) for row in rows], 2, 3)
            if row[1] == size
        }
        (ngram_count,) = (
            entry.ngrams
            for entry in summary.blacklist.listed
            if (entry.n, entry.reason) == (size, "indirect")
        )
        assert ngram_count == len(expected) > 50


@pytest.mark.slow
@pytest.mark.parametrize(("files", "size", "workers"), [(1, 1000, 1), (3, 33, 1), (2, 40, 2)])
def test_blacklist_does_not_depend_on_files_shards_and_workers(
    mails_file: Path,
    undisturbed: tuple[bytes, RunResult],
    tmp_path: Path,
    files: int,
    size: int,
    workers: int,
) -> None:
    all_mails = pq.read_table(mails_file)
    for no in range(files):
        start, end = len(all_mails) * no // files, len(all_mails) * (no + 1) // files
        pq.write_table(all_mails.slice(start, end - start), tmp_path / f"in{no}.parquet")
    inputs = [tmp_path / f"in{no}.parquet" for no in range(files)]
    _, summary = run_blacklist(tmp_path, inputs, 2, 3, rows_per_shard=size, workers=workers)
    assert read_blacklist_bytes(tmp_path, summary) == undisturbed[0]
    assert summary.blacklist == undisturbed[1].blacklist


@pytest.mark.parametrize("case", ["many parts", "numbers too long"])
def test_parts_and_hash_tables_give_the_same_blacklist(
    mails_file: Path,
    undisturbed: tuple[bytes, RunResult],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    case: str,
) -> None:
    """The output of one task in several parts, and n-grams whose numbers are counted in a hash
    table."""
    counters: list[Any] = []

    class SmallCounter(SortedUserCounter):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, max_pairs=500)
            counters.append(self)

    class TableCounter(UserCounter):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            counters.append(self)

    monkeypatch.setattr(
        word_blacklist,
        *(
            ("SortedUserCounter", SmallCounter)
            if case == "many parts"
            else ("UserCounter", TableCounter)
        ),
    )
    if case != "many parts":
        monkeypatch.setattr(
            SortedUserCounter, "can_pack", staticmethod(lambda item_bits, user_count: False)
        )
    _, summary = run_blacklist(tmp_path, [mails_file], 2, 3)
    assert read_blacklist_bytes(tmp_path, summary) == undisturbed[0]
    assert (
        all(len(counter.blocks_per_run) > 1 for counter in counters)
        if case == "many parts"
        else len(counters) == 3
    )


@pytest.mark.slow
def test_many_tasks_are_merged_by_a_query(
    mails_file: Path,
    undisturbed: tuple[bytes, RunResult],
    index_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One task more than are merged at once gives the same list."""
    output_names: list[str] = []
    run_sql = LocalEngine.sql

    def run_and_record(self: LocalEngine, query: str, tables: Any, out: Path, **more: Any) -> None:
        output_names.append(out.name)
        run_sql(self, query, tables, out, **more)

    monkeypatch.setattr(LocalEngine, "sql", run_and_record)
    for max_parts, statements in (
        (4, []),
        (3, ["ngram_user_counts-2.parquet", "ngram_user_counts-3.parquet"]),
    ):
        shutil.copytree(index_folder / "work", tmp_path / str(max_parts) / "work")
        monkeypatch.setattr(word_blacklist, "_MAX_MERGED_PARTS", max_parts)
        _, summary = run_blacklist(tmp_path / str(max_parts), [mails_file], 2, 3, rows_per_shard=40)
        assert read_blacklist_bytes(tmp_path / str(max_parts), summary) == undisturbed[0]
        assert [
            name
            for name in output_names
            if name in ("ngram_user_counts-2.parquet", "ngram_user_counts-3.parquet")
        ] == statements


@pytest.mark.slow
def test_row_groups_have_equal_sizes(
    mails_file: Path,
    undisturbed: tuple[bytes, RunResult],
    indexed_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In any order of the n-grams, all row groups except the last have the same size."""
    monkeypatch.setattr(word_blacklist, "_BLOCK_ROWS", 300)
    monkeypatch.setattr(user_counts, "_EMIT_PAIRS", 70)
    _, summary = run_blacklist(indexed_path, [mails_file], 2, 3, rows_per_shard=40)
    file = pq.ParquetFile(pa.BufferReader(read_blacklist_bytes(indexed_path, summary)))
    groups = [
        file.read_row_group(index, columns=["n", "reason"]).to_pylist()
        for index in range(file.num_row_groups)
    ]
    sizes = [len(group) for group in groups if {"n": 3, "reason": "indirect"} in group]
    assert len(sizes) > 2 and set(sizes[:-1]) == {300} and sizes[-1] <= 300
    assert file.read().equals(pq.read_table(pa.BufferReader(undisturbed[0])))


@pytest.mark.slow
@pytest.mark.parametrize("interruption", ["before a task", "after a task", "in a query"])
def test_an_interrupted_count_resumes(
    mails_file: Path,
    undisturbed: tuple[bytes, RunResult],
    indexed_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    interruption: str,
) -> None:
    started_tasks: list[tuple[int, int]] = []
    count_task, run_sql = word_blacklist.gram_users_task, LocalEngine.sql

    def count_until_interrupted(task: Any) -> Any:
        started_tasks.append((task.gram_size, task.first_doc_no))
        if interruption != "in a query" and len(started_tasks) == 6:
            if interruption == "after a task":
                count_task(task)
            raise KeyboardInterrupt
        return count_task(task)

    def query_until_interrupted(
        self: LocalEngine, query: str, tables: Any, out: Path, **more: Any
    ) -> None:
        run_sql(self, query, tables, out, **more)
        if interruption == "in a query" and out.name == "words.parquet":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(word_blacklist, "gram_users_task", count_until_interrupted)
        patch.setattr(LocalEngine, "sql", query_until_interrupted)
        with pytest.raises(KeyboardInterrupt):
            run_blacklist(indexed_path, [mails_file], 2, 3, rows_per_shard=40)
    assert not (indexed_path / "out").exists()
    repeated_tasks: list[tuple[int, int]] = []
    with monkeypatch.context() as patch:
        patch.setattr(
            word_blacklist,
            "gram_users_task",
            lambda task: (
                repeated_tasks.append((task.gram_size, task.first_doc_no)) or count_task(task)
            ),
        )
        _, summary = run_blacklist(indexed_path, [mails_file], 2, 3, rows_per_shard=40)
    assert read_blacklist_bytes(indexed_path, summary) == undisturbed[0]
    # finished tasks are not repeated
    finished_tasks = started_tasks[:-1] if interruption != "in a query" else started_tasks
    assert (
        not set(finished_tasks) & set(repeated_tasks)
        and len(set(finished_tasks) | set(repeated_tasks)) == 12
    )
    # after a finished run nothing is repeated; a deleted list is written again
    shutil.rmtree(indexed_path / "out")
    with monkeypatch.context() as patch:
        patch.setattr(word_blacklist, "gram_users_task", lambda task: pytest.fail("counted again"))
        run_blacklist(indexed_path, [mails_file], 2, 3, rows_per_shard=40)
    (
        indexed_path / "work" / "runs" / summary.run_hash / "vault" / "blacklist" / "00000.parquet"
    ).unlink()
    shutil.rmtree(indexed_path / "out")
    run_blacklist(indexed_path, [mails_file], 2, 3, rows_per_shard=40)
    assert read_blacklist_bytes(indexed_path, summary) == undisturbed[0]


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


def test_dropped_documents_are_not_counted(tmp_path: Path) -> None:
    """Neither the words nor the values of a dropped document are counted, nor those of a
    quarantined one."""
    texts = [
        "red apples",
        "red apples",
        "green pears of bob@example.com",
        "green pears of bob@example.com",
        "blue " * 90_000,
    ]
    pq.write_table(pa.table({"text": texts, "who": [1, 2, 3, 4, 5]}), tmp_path / "in.parquet")
    (tmp_path / "mine.toml").write_text(DROPS)
    columns = {"user_column": "who"}
    run_settings = Settings(
        seed=1, workers=1, verify="off", **columns, max_doc_bytes=300_000, max_quarantine=0.5
    )
    summary = run_with_settings(
        [tmp_path / "in.parquet"],
        tmp_path / "out",
        load_plan(str(tmp_path / "mine.toml")),
        tmp_path / "work",
        run_settings,
    )
    dropped_count = summary.documents_dropped
    assert (dropped_count, summary.quarantined) == (2, 1)
    words = {row[0] for row in read_blacklist(tmp_path / "work", summary)}
    assert words == {
        "red",
        "apples",
        "green",
        "pears",
        "of",
        "bob",
        "example",
        "com",
        "bob example com",
    }
    assert summary.blacklist.documents == 2 and summary.blacklist.words == 8


def test_any_column_can_be_the_user(tmp_path: Path) -> None:
    """User columns of numbers, of texts, and a mail's From, which is always available."""
    texts = ["one two", "two three", "three one"]
    pq.write_table(
        pa.table({"text": texts, "a": [7, 7, 8], "b": ["x", "y", "y"]}), tmp_path / "in.parquet"
    )
    for user, expected in (
        ("a", {"two", "x"}),
        ("b", {"three"}),
    ):
        # without the role of the user, column b is a text
        folder = tmp_path / user
        blacklist, _ = run_blacklist(folder, [tmp_path / "in.parquet"], 2, 1, user_column=user)
        assert {row[0] for row in blacklist} == expected
    senders = ["ann@example.com", "bob@example.com", "ann@example.com"]
    mbox_text = "".join(
        f"From x Sat Nov 21 00:00:00 2026\nFrom: {sender}\n\n{text}\n\n"
        for sender, text in zip(senders, texts, strict=True)
    )
    (tmp_path / "in.mbox").write_text(mbox_text)
    blacklist, _ = run_blacklist(
        tmp_path / "mbox", [tmp_path / "in.mbox"], 2, 1, "blacklist.direct=false"
    )
    assert {row[0] for row in blacklist} == {"ann", "bob", "one"}


def test_dropped_columns_are_not_counted(tmp_path: Path) -> None:
    """The summary names the columns that were counted."""
    columns = {
        "text": ["plum", "plum"],
        "user_id": ["ann", "bob"],
        "note": ["fig date", "fig"],
        "title": ["plum quince", "plum"],
    }
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    for policies, expected, counted_columns in (
        ({}, {"date", "quince"}, ["text", "note", "title"]),
        ({"note": "drop"}, {"quince"}, ["text", "title"]),
        ({"note": "drop", "title": "drop"}, set(), ["text"]),
    ):
        folder = tmp_path / str(len(policies))
        blacklist, summary = run_blacklist(
            folder, [tmp_path / "in.parquet"], 2, 1, drop=list(policies)
        )
        assert {
            row[0] for row in blacklist
        } == expected and summary.blacklist.columns == counted_columns


def test_documents_without_user_count_as_no_user(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"text": ["plum", "plum", "fig", "fig"], "user_id": [None, None, None, "ann"]}),
        tmp_path / "in.parquet",
    )
    blacklist, summary = run_blacklist(tmp_path, [tmp_path / "in.parquet"], 2, 1)
    assert blacklist == {("plum", 1, 1, "indirect")}
    assert summary.blacklist.documents_without_user == 3


def test_published_files_have_no_listed_word(tmp_path: Path) -> None:
    """Counts go into manifest, card and report; a word that one person uses stays in the vault, and
    so does a value."""
    texts = [f"quincunx{no} is said by quincunx{no}@example.com" for no in range(20)]
    pq.write_table(
        pa.table({"text": texts, "user_id": [f"u{no}" for no in range(20)]}),
        tmp_path / "in.parquet",
    )
    summary = run_with_settings(
        [tmp_path / "in.parquet"],
        tmp_path / "out",
        "blacklist",
        tmp_path / "work",
        Settings(seed=1, workers=1),
    )
    assert summary.to_dict()["blacklist"]["listed"] == [
        {"n": 1, "reason": "indirect", "ngrams": 20},
        {"n": 3, "reason": "direct", "ngrams": 20},
    ]
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["summary"]["blacklist"] == summary.to_dict()["blacklist"]
    assert manifest["plan"]["blacklist"] == {
        "k": 2,
        "n": 1,
        "direct": True,
    }
    assert not manifest["publishable"]
    for path in (tmp_path / "out").glob("*.*"):
        assert "quincunx" not in path.read_text()
    # the texts are unchanged
    assert (
        pq.read_table(next((tmp_path / "out" / "data").iterdir())).column("text").to_pylist()
        == texts
    )
    # the table can be queried, masked; its coverage too
    masked_rows = sql(tmp_path / "work", "SELECT * FROM blacklist ORDER BY n, ngram")
    assert masked_rows.height == 40 and set(masked_rows["ngram"]) == {
        "aaaa9",
        "aaaa99",
        "aaaa9 aaaa aaa",
        "aaaa99 aaaa aaa",
    }
    assert (
        "quincunx0"
        in sql(tmp_path / "work", "SELECT * FROM blacklist", reveal=True)["ngram"].to_list()
    )
    coverage = sql(tmp_path / "work", name="blacklist_coverage").to_dicts()
    assert [
        (row["n"], row["reason"], row["distinct_ngrams"], row["occurrences"]) for row in coverage
    ] == [(1, "indirect", 20, 40)]


def test_words_of_an_erased_person_are_not_listed(tmp_path: Path) -> None:
    """Values, names and documents of an erased person: their words count for no user."""
    rows = [
        ("ann", "plain words of Quill Ostrich at quill@example.com"),
        ("bob", "plain words of bob@example.org"),
        ("quill", "plain plums and nothing else"),
    ]
    pq.write_table(
        pa.table({"text": [text for _, text in rows], "user_id": [user for user, _ in rows]}),
        tmp_path / "in.parquet",
    )
    run_settings = Settings(seed=1, workers=1)
    summary = run_with_settings(
        [tmp_path / "in.parquet"],
        tmp_path / "out",
        load_plan("blacklist", ["blacklist.n=2"]),
        tmp_path / "work",
        run_settings,
    )
    words_before = {row[0] for row in read_blacklist(tmp_path / "work", summary)}
    assert {"quill", "ostrich", "plums", "quill example com"} <= words_before
    subject(
        tmp_path / "work",
        ["quill@example.com", "Quill Ostrich", "user:quill"],
        erase=True,
        seed=1,
        workers=1,
    )
    plan = load_plan("blacklist", ["blacklist.n=2"])
    new_summary = run_with_settings(
        [tmp_path / "in.parquet"], tmp_path / "out", plan, tmp_path / "work", run_settings
    )
    assert (
        not new_summary.changed
        and new_summary.run_hash == summary.run_hash
        and new_summary.blacklist.documents == 2
    )
    words_after = {row[0] for row in read_blacklist(tmp_path / "work", new_summary)}
    # `plain`, `words` and `of` are written by both; no n-gram spans a removed word
    assert words_after == {"at", "bob", "example", "org", "bob example org"}


DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def read_shared_corpus(name: str) -> list[tuple[User, str]]:
    """Texts of a public corpus that is not part of the repository, each with its user."""
    path = DATA / name
    if not path.exists():
        pytest.skip("the shared corpora are not available")
    if path.suffix == ".parquet":
        rows = pq.read_table(path, columns=["h_from", "raw"])
        rows = rows.take(list(range(0, len(rows), max(1, len(rows) // 200)))).to_pylist()
        return [(row["h_from"], row["raw"].decode("latin-1")) for row in rows]
    texts: list[tuple[User, str]] = []
    for row in map(json.loads, path.read_text("utf-8").splitlines()[:100]):
        if "comments" in row:
            texts += [
                (row["author"], json.dumps(comment, ensure_ascii=False))
                for comment in row["comments"]
            ]
        else:
            texts.append((json.dumps(row["personality"], sort_keys=True), row["response"]))
    return texts


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "users/newsgroups20.parquet",
        "users/synthpai_authors.jsonl",
        "users/llmprivacy_synthetic.jsonl",
        "mail/enron.parquet",
    ],
)
def test_blacklist_of_real_texts_equals_the_reference(name: str, tmp_path: Path) -> None:
    texts = read_shared_corpus(name)
    pq.write_table(
        pa.table({"user_id": [user for user, _ in texts], "text": [text for _, text in texts]}),
        tmp_path / "in.parquet",
    )
    blacklist, summary = run_blacklist(
        tmp_path,
        [tmp_path / "in.parquet"],
        2,
        3,
        "blacklist.direct=false",
        rows_per_shard=len(texts) // 2,
    )
    expected = reference_indirect(((user, [text]) for user, text in texts), 2, 3)
    assert summary.blacklist.documents == len(texts)
    # a difference is counted, not shown: it would be words of people
    assert (len(blacklist - expected), len(expected - blacklist)) == (0, 0)
    # each size occurs often
    assert min(Counter(row[1] for row in blacklist)[size] for size in (1, 2, 3)) > 100
