"""Near duplicates against brute force: signatures by their definition and by datasketch, links by
the exact Jaccard of all pairs."""

from __future__ import annotations

import itertools
import random
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanitize.droppers.near_dup import (
    NearDup,
    choose_bands,
    minhash_signatures,
    permutation_coefficients,
)
from sanitize.errors import MissingExtra, PlanError
from sanitize.pipeline.run import run_with_settings
from sanitize.pipeline.run_results import RunResult
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings

MAIL = Path(__file__).resolve().parents[3] / "shared" / "data" / "mail"
PLAN = (
    '[find]\nkinds = ["EMAIL_ADDRESS"]\n[[drop]]\nuse = "near_dup"\n{}\n[[edit]]\nuse ='
    ' "redact"\nkinds = ["EMAIL_ADDRESS"]\n'
)

# ---- signatures ----------------------------------------------------------------------------------


def reference_signature(hashes: Sequence[int], num_perm: int) -> list[int]:
    """MinHash as datasketch 2 defines it, number by number."""

    def mix_bits(number: int) -> int:
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
            number ^= number >> shift
            number = number * factor % (1 << 32)
        return number ^ number >> 16

    a, b = (column.tolist() for column in permutation_coefficients(num_perm))
    return [
        min((a[index] * mix_bits(number) + b[index]) % (1 << 32) for number in hashes)
        for index in range(num_perm)
    ]


SETS = st.lists(
    st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=30), min_size=1, max_size=6
)


def flatten_sets(sets: Sequence[Sequence[int]]) -> tuple[Any, Any]:
    hashes = np.array([number for set_hashes in sets for number in set_hashes], np.uint32)
    return hashes, np.cumsum([0, *map(len, sets)]).astype(np.int64)


@settings(max_examples=60, deadline=None)
@given(sets=SETS, num_perm=st.integers(1, 40))
def test_signatures_equal_the_definition(sets: list[list[int]], num_perm: int) -> None:
    assert minhash_signatures(*flatten_sets(sets), num_perm).tolist() == [
        reference_signature(hashes, num_perm) for hashes in sets
    ]


def test_signatures_of_sets_larger_than_a_block() -> None:
    sets = [
        random.Random(index).sample(range(2**32), size)
        for index, size in enumerate((70_000, 1, 65_535, 40, 9_000))
    ]
    assert minhash_signatures(*flatten_sets(sets), 4).tolist() == [
        reference_signature(hashes, 4) for hashes in sets
    ]


def test_recorded_signature_of_datasketch() -> None:
    """datasketch 2.0.0: MinHash(num_perm=8, hashfunc=int), updated with these numbers."""
    expected = [
        404119057,
        594951281,
        398343854,
        274675658,
        1328930451,
        448870289,
        2519654638,
        172414575,
    ]
    assert minhash_signatures(
        *flatten_sets([[1, 2, 3, 4_294_967_295, 1_234_567_890]]), 8
    ).tolist() == [expected]


@pytest.mark.parametrize("num_perm", [1, 16, 128, 256])
def test_signatures_equal_datasketch(num_perm: int) -> None:
    datasketch = pytest.importorskip("datasketch", reason="comes with the extra `dedup`")
    sets = [random.Random(index).sample(range(2**32), 1 + 37 * index) for index in range(12)]
    for hashes, signature in zip(
        sets, minhash_signatures(*flatten_sets(sets), num_perm), strict=True
    ):
        expected = datasketch.MinHash(num_perm=num_perm, hashfunc=int)
        expected.update_batch(hashes)
        assert signature.tolist() == expected.hashvalues.tolist()


# ---- settings ------------------------------------------------------------------------------------


def write_plan(folder: Path, part: str) -> Any:
    (folder / "mine.toml").write_text(PLAN.format(part))
    return load_plan(str(folder / "mine.toml"))


def test_bands_are_computed_by_datasketch(tmp_path: Path) -> None:
    pytest.importorskip("datasketch", reason="comes with the extra `dedup`")
    (dropper,) = write_plan(tmp_path, "").droppers
    assert (dropper.threshold, dropper.num_perm, dropper.shingle, dropper.n) == (
        0.8,
        128,
        "words",
        5,
    )
    assert (dropper.bands, dropper.rows) == (14, 9) == choose_bands(0.8, 128)
    assert write_plan(tmp_path, "").resolved_settings()["drop"][0]["bands"] == 14
    with pytest.raises(PlanError, match="threshold = 1.0 is too high"):
        write_plan(tmp_path, "threshold = 1.0")


def test_without_datasketch_bands_are_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "datasketch", None)
    with pytest.raises(
        MissingExtra,
        match=(
            "datasketch is not installed; install it with: pip install 'corpus-sanitize\\[dedup\\]'"
        ),
    ):
        write_plan(tmp_path, "")
    (dropper,) = write_plan(tmp_path, "bands = 20\nrows = 5").droppers
    assert (dropper.bands, dropper.rows) == (20, 5)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("bands = 4", "bands and rows belong together"),
        ("bands = 20\nrows = 7", "more than num_perm"),
        ("threshold = 0", "more than 0"),
        ("shingle = 'letters'", "drop[0].shingle"),
        ("theshold = 0.5", "did you mean threshold?"),
    ],
)
def test_invalid_settings_are_refused(tmp_path: Path, part: str, message: str) -> None:
    with pytest.raises(PlanError, match=re.escape(message)):
        write_plan(tmp_path, part)


# ---- links ---------------------------------------------------------------------------------------


def shingles(text: str, n: int) -> frozenset[tuple[str, ...]]:
    words = re.findall(
        r"[a-z0-9\u0080-\U0010ffff]+", re.sub("[A-Z]", lambda match: match[0].lower(), text)
    )
    return (
        frozenset(tuple(words[index : index + n]) for index in range(max(1, len(words) - n + 1)))
        if words
        else frozenset()
    )


def find_similar_pairs(
    texts: Sequence[str], n: int, threshold: float
) -> dict[tuple[int, int], float]:
    """All pairs (later, earlier) at the threshold or above, by brute force."""
    sets = [shingles(text, n) for text in texts]
    pairs = {}
    for earlier, later in itertools.combinations(
        [index for index, shingle_set in enumerate(sets) if shingle_set], 2
    ):
        common = len(sets[earlier] & sets[later])
        if common and common >= threshold * (len(sets[earlier]) + len(sets[later]) - common):
            pairs[later, earlier] = common / (len(sets[earlier]) + len(sets[later]) - common)
    return pairs


def read_links(folder: Path) -> set[tuple[int, int]]:
    (file,) = folder.glob("runs/*/corpus_passes/drop-0/near_dup_links.parquet")
    return {(row["doc_no"], row["earlier_doc_no"]) for row in pq.read_table(file).to_pylist()}


def read_drops(folder: Path) -> dict[int, int]:
    (file,) = folder.glob("runs/*/drops/00000.parquet")
    rows = pq.read_table(file).to_pylist()
    assert {(row["part"], row["reason"]) for row in rows} <= {("near_dup", "similar text")}
    return {row["doc_no"]: row["kept_doc_no"] for row in rows}


def first_of_each_group(pairs: Sequence[tuple[int, int]]) -> dict[int, int]:
    root: dict[int, int] = {}
    for later, earlier in pairs:
        later_root, earlier_root = (root.get(number, number) for number in (later, earlier))
        root |= {
            number: min(later_root, earlier_root)
            for number in [*root, later, earlier]
            if root.get(number, number) in (later_root, earlier_root)
        }
    return {number: first for number, first in root.items() if number != first}


def build_similar_texts(count: int, seed: int, vocabulary: int = 400) -> list[str]:
    """Texts of 60 words; most are an earlier one with a few words changed."""
    draw = random.Random(seed)
    vocabulary_words = [f"w{index}" for index in range(vocabulary)]
    rows: list[list[str]] = []
    for _ in range(count):
        row = (
            list(draw.choice(rows))
            if rows and draw.random() < 0.7
            else draw.choices(vocabulary_words, k=60)
        )
        for _ in range(draw.choice([0, 0, 1, 1, 2, 3])):
            row[draw.randrange(len(row))] = draw.choice(vocabulary_words)
        rows.append(row)
    return [" ".join(row) for row in rows]


def run_plan(folder: Path, texts: Sequence[str | None], part: str, **options: Any) -> RunResult:
    pq.write_table(
        pa.table({"text": pa.array(texts, pa.string())}), folder / "in.parquet", row_group_size=50
    )
    return run_with_settings(
        [folder / "in.parquet"],
        folder / "out",
        write_plan(folder, part),
        folder / "work",
        Settings(seed=1, workers=1, **options),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("threshold", "bands", "rows"), [(0.8, 14, 9), (0.5, 32, 4)])
def test_precision_and_recall_of_links(
    tmp_path: Path, threshold: float, bands: int, rows: int
) -> None:
    texts = build_similar_texts(260, seed=int(100 * threshold))
    summary = run_plan(
        tmp_path, texts, f"threshold = {threshold}\nbands = {bands}\nrows = {rows}\nn = 3"
    )
    true, links = find_similar_pairs(texts, 3, threshold), read_links(tmp_path / "work")
    # an exact copy is compared only as the first of its copies
    exact_copies = {
        later for later, earlier in true if shingles(texts[later], 3) == shingles(texts[earlier], 3)
    }
    true = {pair: share for pair, share in true.items() if not set(pair) & exact_copies}
    # precision 1: every link was counted exactly
    assert links <= set(find_similar_pairs(texts, 3, threshold))
    probabilities = {pair: 1 - (1 - share**rows) ** bands for pair, share in true.items()}
    expected, spread = (
        sum(probabilities.values()),
        sum(p * (1 - p) for p in probabilities.values()) ** 0.5,
    )
    assert (
        len(true) > 100
        and abs(len(links & set(true)) - expected) <= 4 * max(spread, 1) + 0.02 * expected
    )
    close = {pair for pair, share in true.items() if share >= (1 + threshold) / 2}
    assert len(links & close) >= 0.97 * len(close)
    drops = read_drops(tmp_path / "work")
    assert len(drops) >= 0.95 * len(
        first_of_each_group(sorted(find_similar_pairs(texts, 3, threshold)))
    )
    assert drops == first_of_each_group(sorted(links))
    assert summary.documents_dropped == len(drops) and summary.documents_out == 260 - len(drops)


def test_first_of_many_similar_documents_is_kept(tmp_path: Path) -> None:
    """One bucket with far more documents than are compared with each other."""
    base = build_similar_texts(1, seed=5)[0].split()
    texts = [
        "something else entirely stands here today",
        *(" ".join([*base, f"number {index}"]) for index in range(200)),
        None,
        "",
        "--- ...",
    ]
    texts += [" ".join(base) + " number 7"] * 50
    run_plan(tmp_path, texts, "bands = 9\nrows = 13")
    assert read_drops(tmp_path / "work") == dict.fromkeys([*range(2, 201), *range(204, 254)], 1)


@pytest.mark.slow
@pytest.mark.parametrize("rows_per_shard", [7, 1000])
def test_drops_do_not_depend_on_sharding(tmp_path: Path, rows_per_shard: int) -> None:
    texts = build_similar_texts(60, seed=9)
    run_plan(
        tmp_path, texts, "bands = 25\nrows = 5\nthreshold = 0.5", rows_per_shard=rows_per_shard
    )
    drops = read_drops(tmp_path / "work")
    assert drops == first_of_each_group(sorted(read_links(tmp_path / "work"))) and len(drops) > 20
    out = [
        text
        for file in sorted((tmp_path / "out" / "data").iterdir())
        for text in pq.read_table(file)["text"].to_pylist()
    ]
    assert out == [text for index, text in enumerate(texts) if index not in drops]


def test_short_texts_and_scripts_without_blanks(tmp_path: Path) -> None:
    texts = [
        "yes please",
        "Yes, please!",
        "yes",
        "今天天气很好我们去公园吧",
        "今天天气很好我们去公园呢",
        "完全不同的一句话在这里",
    ]
    run_plan(tmp_path, texts, "bands = 40\nrows = 3\nthreshold = 0.5")
    assert read_drops(tmp_path / "work") == {1: 0, 4: 3}  # a character of such a script is a word
    (tmp_path / "two").mkdir()
    run_plan(
        tmp_path / "two", texts, 'bands = 40\nrows = 3\nthreshold = 0.5\nshingle = "characters"'
    )
    assert read_drops(tmp_path / "two" / "work") == {4: 3}


@pytest.mark.slow
def test_body_only_ignores_header_blocks(tmp_path: Path) -> None:
    body = build_similar_texts(1, seed=2)[0]
    texts = [
        f"From: {name}\nSubject: {name} {name} {name} {name} {name}\n\n{body}"
        for name in ("ann", "bob")
    ]
    for body_only, expected in ((False, {}), (True, {1: 0})):
        (tmp_path / str(body_only)).mkdir()
        run_plan(
            tmp_path / str(body_only),
            texts,
            f"bands = 9\nrows = 13\nthreshold = 0.95\nbody_only = {str(body_only).lower()}",
        )
        assert read_drops(tmp_path / str(body_only) / "work") == expected


@pytest.mark.slow
def test_real_mail_against_exact_jaccard(tmp_path: Path) -> None:
    source = MAIL / "enron.parquet"
    if not source.exists():
        pytest.skip("the shared corpora are missing")
    table = pq.read_table(source, columns=["raw"])
    pq.write_table(table.slice(table.num_rows - 400), tmp_path / "in.parquet")
    settings = Settings(seed=1, workers=1, text_column=("raw",))
    run_with_settings(
        [tmp_path / "in.parquet"],
        tmp_path / "out",
        write_plan(tmp_path, "bands = 14\nrows = 9\nbody_only = true"),
        tmp_path / "work",
        settings,
    )
    (read,) = (tmp_path / "work" / "documents").glob("*.parquet")
    texts = [
        text.partition("\n\n")[2]
        for text in pq.read_table(read, columns=["text"])["text"].to_pylist()
    ]
    true, links = find_similar_pairs(texts, 5, 0.8), read_links(tmp_path / "work")
    assert links <= set(true)
    drops, expected = read_drops(tmp_path / "work"), first_of_each_group(sorted(true))
    assert drops == first_of_each_group(sorted(links)) and set(drops) <= set(expected)
    assert len(expected) > 30 and len(drops) >= 0.95 * len(expected)


def test_corpus_pass_does_not_depend_on_batch_boundaries() -> None:
    """Batch boundaries do not matter: two batches give the same rows as one."""
    import polars as pl

    from sanitize.core.part_protocols import TextBatch

    dropper = NearDup(use="near_dup", bands=4, rows=2, num_perm=8, n=2)
    texts = pa.array([*build_similar_texts(6, seed=1), "", "one"], pa.large_string())

    def rows(low: int, high: int, name: str) -> list[tuple[Any, ...]]:
        numbers = np.arange(low, high)
        table = dropper.run_pass(
            name,
            TextBatch(numbers, np.zeros(len(numbers), np.int32), texts[low:high], pl.DataFrame()),
        )
        return [tuple(row.values()) for row in table.to_pylist()]

    for name in ("bands", "shingles"):
        assert sorted(rows(0, 8, name)) == sorted(rows(0, 3, name) + rows(3, 8, name))
