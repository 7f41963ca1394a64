"""Near duplicates against brute force: signatures by their definition and by datasketch, links by the exact Jaccard of all pairs."""

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

from sanitize.droppers.near_dup import NearDup, choose_bands, minhash_signatures, permutation_coefficients
from sanitize.errors import MissingExtra, PlanError
from sanitize.pipeline.run import run
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.readers.staging import Columns
from sanitize.readers.survey import Roles

MAIL = Path(__file__).resolve().parents[3] / "shared" / "data" / "mail"
PLAN = '[find]\nkinds = ["EMAIL_ADDRESS"]\n[[drop]]\nuse = "near_dup"\n{}\n[[edit]]\nuse = "redact"\nkinds = ["EMAIL_ADDRESS"]\n'

# ---- signatures ------------------------------------------------------------------------------------------------------------------


def slow_signature(hashes: Sequence[int], num_perm: int) -> list[int]:
    """MinHash as datasketch 2 defines it, number by number."""

    def spread(number: int) -> int:
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
            number ^= number >> shift
            number = number * factor % (1 << 32)
        return number ^ number >> 16

    a, b = (column.tolist() for column in permutation_coefficients(num_perm))
    return [min((a[at] * spread(number) + b[at]) % (1 << 32) for number in hashes) for at in range(num_perm)]


SETS = st.lists(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=30), min_size=1, max_size=6)


def flat(sets: Sequence[Sequence[int]]) -> tuple[Any, Any]:
    hashes = np.array([number for one in sets for number in one], np.uint32)
    return hashes, np.cumsum([0, *map(len, sets)]).astype(np.int64)


@settings(max_examples=60, deadline=None)
@given(sets=SETS, num_perm=st.integers(1, 40))
def test_signatures_are_those_of_the_definition(sets: list[list[int]], num_perm: int) -> None:
    assert minhash_signatures(*flat(sets), num_perm).tolist() == [slow_signature(one, num_perm) for one in sets]


def test_signatures_across_blocks() -> None:
    sets = [random.Random(at).sample(range(2**32), size) for at, size in enumerate((70_000, 1, 65_535, 40, 9_000))]
    assert minhash_signatures(*flat(sets), 4).tolist() == [slow_signature(one, 4) for one in sets]


def test_a_signature_of_datasketch_written_down() -> None:
    """datasketch 2.0.0: MinHash(num_perm=8, hashfunc=int), updated with these numbers."""
    expected = [404119057, 594951281, 398343854, 274675658, 1328930451, 448870289, 2519654638, 172414575]
    assert minhash_signatures(*flat([[1, 2, 3, 4_294_967_295, 1_234_567_890]]), 8).tolist() == [expected]


@pytest.mark.parametrize("num_perm", [1, 16, 128, 256])
def test_signatures_are_those_of_datasketch(num_perm: int) -> None:
    datasketch = pytest.importorskip("datasketch", reason="comes with the extra `dedup`")
    sets = [random.Random(at).sample(range(2**32), 1 + 37 * at) for at in range(12)]
    for one, ours in zip(sets, minhash_signatures(*flat(sets), num_perm), strict=True):
        theirs = datasketch.MinHash(num_perm=num_perm, hashfunc=int)
        theirs.update_batch(one)
        assert ours.tolist() == theirs.hashvalues.tolist()


# ---- settings --------------------------------------------------------------------------------------------------------------------


def plan(folder: Path, part: str) -> Any:
    (folder / "mine.toml").write_text(PLAN.format(part))
    return load_plan(str(folder / "mine.toml"))


def test_bands_are_asked_of_datasketch(tmp_path: Path) -> None:
    pytest.importorskip("datasketch", reason="comes with the extra `dedup`")
    (dropper,) = plan(tmp_path, "").droppers
    assert (dropper.threshold, dropper.num_perm, dropper.shingle, dropper.n) == (0.8, 128, "words", 5)
    assert (dropper.bands, dropper.rows) == (14, 9) == choose_bands(0.8, 128)
    assert plan(tmp_path, "").resolved_settings()["drop"][0]["bands"] == 14
    with pytest.raises(PlanError, match="threshold = 1.0 is too high"):
        plan(tmp_path, "threshold = 1.0")


def test_without_datasketch_bands_must_be_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasketch", None)
    with pytest.raises(MissingExtra, match="datasketch is not installed; install it with: pip install 'corpus-sanitize\\[dedup\\]'"):
        plan(tmp_path, "")
    (dropper,) = plan(tmp_path, "bands = 20\nrows = 5").droppers
    assert (dropper.bands, dropper.rows) == (20, 5)


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("bands = 4", "bands and rows belong together"),
        ("bands = 20\nrows = 7", "more than num_perm"),
        ("threshold = 0", "more than 0"),
        ("shingle = 'letters'", "drop[0].shingle"),
        ("theshold = 0.5", "Did you mean threshold?"),
    ],
)
def test_a_wrong_setting(tmp_path: Path, part: str, said: str) -> None:
    with pytest.raises(PlanError, match=re.escape(said)):
        plan(tmp_path, part)


# ---- links -----------------------------------------------------------------------------------------------------------------------


def shingles(text: str, n: int) -> frozenset[tuple[str, ...]]:
    row = re.findall(r"[a-z0-9\u0080-\U0010ffff]+", re.sub("[A-Z]", lambda match: match[0].lower(), text))
    return frozenset(tuple(row[at : at + n]) for at in range(max(1, len(row) - n + 1))) if row else frozenset()


def similar(texts: Sequence[str], n: int, threshold: float) -> dict[tuple[int, int], float]:
    """All pairs (later, earlier) at the threshold or above, by brute force."""
    sets = [shingles(text, n) for text in texts]
    found = {}
    for earlier, later in itertools.combinations([at for at, one in enumerate(sets) if one], 2):
        common = len(sets[earlier] & sets[later])
        if common and common >= threshold * (len(sets[earlier]) + len(sets[later]) - common):
            found[later, earlier] = common / (len(sets[earlier]) + len(sets[later]) - common)
    return found


def linked(folder: Path) -> set[tuple[int, int]]:
    (file,) = folder.glob("runs/*/corpus_passes/drop-0/near_dup_links.parquet")
    return {(row["doc_no"], row["earlier_doc_no"]) for row in pq.read_table(file).to_pylist()}


def dropped(folder: Path) -> dict[int, int]:
    (file,) = folder.glob("runs/*/drops/00000.parquet")
    rows = pq.read_table(file).to_pylist()
    assert {(row["part"], row["reason"]) for row in rows} <= {("near_dup", "similar text")}
    return {row["doc_no"]: row["kept_doc_no"] for row in rows}


def firsts_of(pairs: Sequence[tuple[int, int]]) -> dict[int, int]:
    root: dict[int, int] = {}
    for later, earlier in pairs:
        one, other = (root.get(number, number) for number in (later, earlier))
        root |= {number: min(one, other) for number in [*root, later, earlier] if root.get(number, number) in (one, other)}
    return {number: first for number, first in root.items() if number != first}


def mutated(count: int, seed: int, vocabulary: int = 400) -> list[str]:
    """Texts of 60 words; most are an earlier one with a few words changed."""
    draw = random.Random(seed)
    words = [f"w{at}" for at in range(vocabulary)]
    rows: list[list[str]] = []
    for _ in range(count):
        row = list(draw.choice(rows)) if rows and draw.random() < 0.7 else draw.choices(words, k=60)
        for _ in range(draw.choice([0, 0, 1, 1, 2, 3])):
            row[draw.randrange(len(row))] = draw.choice(words)
        rows.append(row)
    return [" ".join(row) for row in rows]


def ran(folder: Path, texts: Sequence[str | None], part: str, **more: Any) -> dict[str, Any]:
    pq.write_table(pa.table({"text": pa.array(texts, pa.string())}), folder / "in.parquet", row_group_size=50)
    return run([folder / "in.parquet"], folder / "out", plan(folder, part), folder / "work", Settings(seed=1, workers=1, **more))


@pytest.mark.parametrize(("threshold", "bands", "rows"), [(0.8, 14, 9), (0.5, 32, 4)])
def test_precision_and_recall_are_those_that_are_promised(tmp_path: Path, threshold: float, bands: int, rows: int) -> None:
    texts = mutated(260, seed=int(100 * threshold))
    summary = ran(tmp_path, texts, f"threshold = {threshold}\nbands = {bands}\nrows = {rows}\nn = 3")
    true, found = similar(texts, 3, threshold), linked(tmp_path / "work")
    # a copy meets only the first of its kind, which speaks for it
    alone = {later for later, earlier in true if shingles(texts[later], 3) == shingles(texts[earlier], 3)}
    true = {pair: share for pair, share in true.items() if not set(pair) & alone}
    assert found <= set(similar(texts, 3, threshold))  # precision 1: every link was counted exactly
    meets = {pair: 1 - (1 - share**rows) ** bands for pair, share in true.items()}
    expected, spread = sum(meets.values()), sum(p * (1 - p) for p in meets.values()) ** 0.5
    assert len(true) > 100 and abs(len(found & set(true)) - expected) <= 4 * max(spread, 1) + 0.02 * expected
    close = {pair for pair, share in true.items() if share >= (1 + threshold) / 2}
    assert len(found & close) >= 0.97 * len(close)
    gone = dropped(tmp_path / "work")
    assert len(gone) >= 0.95 * len(firsts_of(sorted(similar(texts, 3, threshold))))
    assert gone == firsts_of(sorted(found))
    assert summary["documents_dropped"] == len(gone) and summary["documents_out"] == 260 - len(gone)


def test_of_many_alike_the_first_stays(tmp_path: Path) -> None:
    """One bucket with far more documents than are compared with each other."""
    base = mutated(1, seed=5)[0].split()
    texts = ["something else entirely stands here today", *(" ".join([*base, f"number {at}"]) for at in range(200)), None, "", "--- ..."]
    texts += [" ".join(base) + " number 7"] * 50
    ran(tmp_path, texts, "bands = 9\nrows = 13")
    assert dropped(tmp_path / "work") == dict.fromkeys([*range(2, 201), *range(204, 254)], 1)


@pytest.mark.parametrize("rows_per_shard", [7, 1000])
def test_the_same_for_any_sharding(tmp_path: Path, rows_per_shard: int) -> None:
    texts = mutated(60, seed=9)
    ran(tmp_path, texts, "bands = 25\nrows = 5\nthreshold = 0.5", rows_per_shard=rows_per_shard)
    got = dropped(tmp_path / "work")
    assert got == firsts_of(sorted(linked(tmp_path / "work"))) and len(got) > 20
    out = [text for file in sorted((tmp_path / "out" / "data").iterdir()) for text in pq.read_table(file)["text"].to_pylist()]
    assert out == [text for at, text in enumerate(texts) if at not in got]


def test_short_texts_and_scripts_without_blanks(tmp_path: Path) -> None:
    texts = ["yes please", "Yes, please!", "yes", "今天天气很好我们去公园吧", "今天天气很好我们去公园呢", "完全不同的一句话在这里"]
    ran(tmp_path, texts, "bands = 40\nrows = 3\nthreshold = 0.5")
    assert dropped(tmp_path / "work") == {1: 0, 4: 3}  # a character of such a script is a word
    (tmp_path / "two").mkdir()
    ran(tmp_path / "two", texts, 'bands = 40\nrows = 3\nthreshold = 0.5\nshingle = "characters"')
    assert dropped(tmp_path / "two" / "work") == {4: 3}


def test_header_blocks_can_be_left_out(tmp_path: Path) -> None:
    body = mutated(1, seed=2)[0]
    texts = [f"From: {name}\nSubject: {name} {name} {name} {name} {name}\n\n{body}" for name in ("ann", "bob")]
    for only, gone in ((False, {}), (True, {1: 0})):
        (tmp_path / str(only)).mkdir()
        ran(tmp_path / str(only), texts, f"bands = 9\nrows = 13\nthreshold = 0.95\nbody_only = {str(only).lower()}")
        assert dropped(tmp_path / str(only) / "work") == gone


def test_real_mail_against_exact_jaccard(tmp_path: Path) -> None:
    source = MAIL / "enron.parquet"
    if not source.exists():
        pytest.skip("the shared corpora are not here")
    table = pq.read_table(source, columns=["raw"])
    pq.write_table(table.slice(table.num_rows - 400), tmp_path / "in.parquet")
    told = Settings(seed=1, workers=1, columns=Columns(roles=Roles(text=("raw",))))
    run([tmp_path / "in.parquet"], tmp_path / "out", plan(tmp_path, "bands = 14\nrows = 9\nbody_only = true"), tmp_path / "work", told)
    (read,) = (tmp_path / "work" / "documents").glob("*.parquet")
    texts = [text.partition("\n\n")[2] for text in pq.read_table(read, columns=["text"])["text"].to_pylist()]
    true, found = similar(texts, 5, 0.8), linked(tmp_path / "work")
    assert found <= set(true)
    gone, wanted = dropped(tmp_path / "work"), firsts_of(sorted(true))
    assert gone == firsts_of(sorted(found)) and set(gone) <= set(wanted)
    assert len(wanted) > 30 and len(gone) >= 0.95 * len(wanted)


def test_a_look_is_a_pure_function_of_what_it_sees() -> None:
    """Batch boundaries do not matter: two batches give the same rows as one."""
    import polars as pl

    from sanitize.core.part_protocols import TextBatch

    part = NearDup(use="near_dup", bands=4, rows=2, num_perm=8, n=2)
    texts = pa.array([*mutated(6, seed=1), "", "one"], pa.large_string())

    def rows(low: int, high: int, name: str) -> list[tuple[Any, ...]]:
        numbers = np.arange(low, high)
        seen = part.run_pass(name, TextBatch(numbers, np.zeros(len(numbers), np.int32), texts[low:high], pl.DataFrame()))
        return [tuple(row.values()) for row in seen.to_pylist()]

    for name in ("bands", "shingles"):
        assert sorted(rows(0, 8, name)) == sorted(rows(0, 3, name) + rows(3, 8, name))
