"""The blacklist is what a slow reading in plain Python makes: every word and n-gram, every user, however the work is cut."""

from __future__ import annotations

import tempfile
import unicodedata
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

from sanitize import degrees, tables
from sanitize.degrees import Degrees, Places
from sanitize.errors import UsageError
from sanitize.indexing import Settings
from sanitize.plan import load_plan
from sanitize.run import run
from sanitize.spans import Buffers
from sanitize.words import spoken

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
    """What fewer than k users said, unless a shorter part of it is listed itself; every text with its user."""
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
    """The words that the found values touch."""
    found: Listed = set()
    for path in sorted((work / "tables" / "occurrences").glob("*.parquet")):
        for row in pq.read_table(path, columns=["doc_no", "cell", "start", "stop"]).to_pylist():
            if row["doc_no"] in gone:
                continue
            words = slow_words(cells[row["doc_no"], row["cell"]])
            mine = [word for word, first, last in words if first < row["stop"] and last > row["start"]]
            if mine:
                found.add((" ".join(mine), len(mine), None, "direct"))
    return found


# ------------------------------------------------------------------------------------------------------------------------- fast ones


def listed(work: Path, summary: dict[str, Any]) -> Listed:
    """The table `blacklist` of a run, which has the schema, the order and the key that it says."""
    table = pq.read_table(work / "runs" / summary["plan_hash"] / "vault" / "blacklist" / "00000.parquet")
    assert table.schema.equals(tables.BLACKLIST.schema)
    rows = [tuple(row.values()) for row in table.to_pylist()]
    assert rows == sorted(rows, key=lambda row: (row[1], row[0].encode(), row[3])) and len(set(rows)) == len(rows)
    told = summary["blacklist"]["listed"]
    assert told["direct"] == sum(row[3] == "direct" for row in rows)
    for size, many in told["indirect"].items():
        assert many == sum(row[1] == int(size) and row[3] == "indirect" for row in rows)
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
EXAMPLES = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


@given(st.lists(st.text(st.sampled_from(sorted(set(LETTERS))), max_size=20) | TEXTS, max_size=6))
@settings(max_examples=300, deadline=None)
def test_words_are_those_of_a_slow_reading(texts: list[str]) -> None:
    buffers = Buffers.of(pa.array(texts, pa.large_string()))
    words = spoken(buffers)
    found = [word for text in texts for word, _, _ in slow_words(text)]
    assert words.spelled(buffers, np.arange(len(words.hashes))).to_pylist() == found
    assert words.text_no.tolist() == [number for number, text in enumerate(texts) for _ in slow_words(text)]
    places = [(len(text[:first].encode()), len(text[:last].encode())) for text in texts for _, first, last in slow_words(text)]
    base = buffers.offsets[words.text_no]
    assert list(zip((words.start - base).tolist(), (words.stop - base).tolist(), strict=True)) == places
    # one hash for one word, however it is written
    assert len(set(zip(found, words.hashes.tolist(), strict=True))) == len(set(found)) == len(set(words.hashes.tolist()))


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 7)), max_size=400), st.integers(2, 5), st.booleans())
@settings(max_examples=200, deadline=None)
def test_degrees_are_those_of_sets(pairs: list[tuple[int, int]], k: int, far: bool) -> None:
    # numbers whose slots are neighbours, or all over
    spread = 0x9E3779B97F4A7C15 if not far else 1
    numbers = np.array([number * pow(spread, -1, 1 << 64) % (1 << 64) for number, _ in pairs], np.uint64)
    came: list[tuple[int, int]] = []
    counted = Degrees(k, lambda grams, users: came.extend(zip(grams.tolist(), users.tolist(), strict=True)))
    half = len(pairs) // 2
    for part in (slice(0, half), slice(half, None)):
        new = counted.add(numbers[part], np.array([user for _, user in pairs[part]], np.int32))
        fresh = set(numbers[part].tolist()) - set(numbers[: half if part.start else 0].tolist())
        assert set(numbers[part][new].tolist()) == fresh
    counted.done()
    wanted: dict[int, set[int]] = {}
    for number, (_, user) in zip(numbers.tolist(), pairs, strict=True):
        wanted.setdefault(number, set()).add(user)
    assert len(came) == len(set(came))
    assert set(came) == {(number, user) for number, who in wanted.items() for user in (who if len(who) < k else {-1})}


def test_degrees_grow_and_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """More numbers than slots at first, and then more than there may be: nothing is lost, and pairs that came out apart fit together."""
    rng = np.random.default_rng(1)
    numbers = rng.integers(1, 1 << 40, 300_000).astype(np.uint64)
    numbers = np.concatenate([numbers, numbers])
    users = rng.integers(0, 3, len(numbers)).astype(np.int32)
    wanted = pl.DataFrame({"number": numbers, "user": users}).unique().sort("number", "user")
    for most, parts in ((384 << 20, 1), (1 << 20, 5)):
        came: list[pl.DataFrame] = []
        counted = Degrees(4, lambda grams, who: came.append(pl.DataFrame({"number": grams, "user": who})), most)  # noqa: B023
        counted.add(numbers, users)
        counted.done()
        assert len(came) >= parts
        assert pl.concat(came).unique().sort("number", "user").equals(wanted)
    places = Places(np.unique(numbers))
    assert np.array_equal(places.of(numbers), np.searchsorted(np.unique(numbers), numbers))
    assert (places.of(np.array([0, 1 << 41, 7 << 50], np.uint64)) == -1).all() and degrees._FIRST > 2 * degrees._BLOCK


# ---------------------------------------------------------------------------------------------------------------------- whole corpora

ROWS = st.lists(
    st.fixed_dictionaries({"user_id": USERS, "text": TEXTS | st.none(), "more": st.lists(TEXTS, max_size=2)}), min_size=1, max_size=12
)


@given(ROWS, st.integers(1, 4), st.integers(1, 3), st.integers(2, 9))
@EXAMPLES
def test_a_corpus_gives_what_a_slow_reading_gives(rows: list[dict[str, Any]], k: int, n: int, size: int) -> None:
    """Several texts a document, nested ones too; null texts; users that are nobody; tasks of any size."""
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
