"""The invented records of the script on recollection, and the pooled results of several seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from benchmarks.papers_records import records
from sanitize.eval import recollect_and_rank as rr
from sanitize.eval.recollect_and_rank import AttackSettings, MaskedRecords
from sanitize.eval.texts_and_prompts import find_values


def test_records_depend_on_seed_and_name() -> None:
    assert records(20, seed=1, name="a").equals(records(20, seed=1, name="a"))
    other_records = [records(20, seed=2, name="a"), records(20, seed=1, name="b")]
    texts = set(records(20, seed=1, name="a")["text"].to_pylist())
    assert len(texts) == 20 and all(
        texts.isdisjoint(table["text"].to_pylist()) for table in other_records
    )


def test_every_record_contains_a_value_of_each_kind() -> None:
    texts = records(200, seed=3, name="a")["text"].to_pylist()
    values_found = find_values(texts)
    kinds = values_found.group_by("text_no").agg(pl.col("kind").unique().sort(), pl.len())
    assert kinds.height == 200 and all(
        row == ["EMAIL_ADDRESS", "IP_ADDRESS", "PHONE_NUMBER"] for row in kinds["kind"].to_list()
    )
    assert set(kinds["len"].unique()) == {3, 4}  # a third of them repeat one value
    assert 0.2 < (kinds["len"] == 4).mean() < 0.5  # type: ignore[operator]
    # three adjacent values, with at most a word or a comma between them: only the first one has a
    # context of its own
    row = values_found.sort("text_no", "start").with_columns(
        previous_end=pl.col("end").shift(1).over("text_no"),
        position=pl.int_range(pl.len()).over("text_no"),
    )
    gaps = row.filter(pl.col("position").is_in([1, 2])).select(
        gap=pl.col("start") - pl.col("previous_end")
    )["gap"]
    assert gaps.max() <= len(" and ") and row.filter(pl.col("position") == 0)["start"].min() >= len(
        "Record: "
    )  # type: ignore[operator]
    # reserved ranges only, and few values that two records share
    values = values_found.unique(["text_no", "value"])
    assert (
        values.filter(pl.col("kind") == "PHONE_NUMBER")["value"]
        .str.contains(r"\A[2-9][0-9]{2}-555-01[0-9]{2}\z")
        .all()
    )
    assert (
        values.filter(pl.col("kind") == "EMAIL_ADDRESS")["value"]
        .str.contains(r"@example[.](com|org|net)\z")
        .all()
    )
    assert (
        values.filter(pl.col("kind") == "IP_ADDRESS")["value"]
        .str.contains(r"\A(192[.]0[.]2|198[.]51[.]100|203[.]0[.]113)[.]")
        .all()
    )
    assert values["value"].n_unique() > 0.85 * values.height


def test_results_of_seeds_are_pooled() -> None:
    pytest.importorskip("torch")
    from benchmarks.papers.recollect_rank import AttackResult

    masked_records = MaskedRecords.from_texts(["[A-1] x", "[A-1]"], [{"[A-1]": ["yes"]}] * 2)
    candidates = pl.DataFrame(
        {
            "key": [0, 0],
            "place": [0, 1],
            "candidate": ["no", "yes"],
            "query": [0, 2],
            "votes": [1, 3],
        },
        schema=dict(rr.CANDIDATE_SCHEMA),
    )
    losses = {
        "key": [0, 0],
        "place": [0, 1],
        "votes": [1, 3],
        "victim": [1.0, 2.0],
        "reference": [1.0, 8.0],
        "whole": [1.0, 2.0],
    }
    result = AttackResult(
        masked_records.keys, rr.judge_candidates(masked_records, candidates), pl.DataFrame(losses)
    )
    combined = AttackResult.concatenate([result, result])
    assert combined.keys["key"].to_list() == [0, 1, 2, 3] and combined.worth["key"].to_list() == [
        0,
        0,
        2,
        2,
    ]
    assert combined.top1("ratio") == result.top1("ratio") == 0.5 and combined.top1("partial") == 0
    assert combined.top1("votes") == 0.5
    assert (combined.recall(2), combined.recall(3)) == (0, 0.5)


def test_recollection_is_compared_by_records() -> None:
    pytest.importorskip("torch")
    from benchmarks.papers import recollect_rank as paper

    # records of two keys; R.R. gives the first key of 30 of them, P2P of 10, and no attack any
    # other
    count = 40
    record = np.repeat(np.arange(count), 2)
    first = np.arange(2 * count) % 2 == 0

    def gives(records: int) -> Any:
        return first & (record < records)

    criteria = (*paper.rr.CRITERIA, *paper.rr.VOTE_CRITERIA)
    hits = {name: gives(30) for name in criteria} | {name: gives(0) for name in ("direct", "tab")}
    hits |= {
        "recall": gives(36),
        "recall_quarter": gives(12),
        "p2p": gives(10),
        "p2p_votes": gives(10),
        "p2p_recall": gives(18),
    }
    seed = paper.KeyHits(record, hits)
    values = paper.compute_values([seed])
    assert values["top1_ratio"] == pytest.approx(3.0) and values["recall_ratio"] == pytest.approx(
        2.0
    )
    assert values["recall_grows"] == pytest.approx(24 / 80) and values[
        "recall_over_top1"
    ] == pytest.approx(6 / 80)
    drawn = seed.draw(np.random.default_rng(0))
    assert len(drawn.record) == 80 and (np.bincount(drawn.record) % 2 == 0).all(), (
        "the keys of a record are drawn together"
    )
    found = paper.compute_intervals([seed])
    assert (
        found["top1_ratio"].events == 40
        and 1.0 < found["top1_ratio"].low < 1.5 < 3.0 < found["top1_ratio"].high < 10
    )
    assert found["partial_vs_vanilla"].low == found["partial_vs_vanilla"].high == 0
    nothing = paper.KeyHits(
        record, hits | {name: gives(0) for name in ("p2p", "p2p_votes", "p2p_recall")}
    )
    unbounded = paper.compute_intervals([nothing])["top1_ratio"]  # the floor of one key is no bound
    assert (
        paper.compute_values([nothing])["top1_ratio"] == pytest.approx(30.0)
        and unbounded.high == 80.0
        and unbounded.low < 10
    )
    assert "and the seeds" in paper.compute_intervals([seed, nothing])["top1_ratio"].method


def test_direct_prompts_equal_the_training_texts() -> None:
    """The training prompt ends with a line feed and the answer begins with the label, as in the
    attack."""
    from benchmarks.papers.recollect_rank import DIRECT, WHOLE

    attack = AttackSettings(whole_prompt=WHOLE, direct_prompt=DIRECT)
    assert (
        rr._fill_prompt(attack.direct_prompt, "T", "[A-1]") == "Masked T\n" + "[A-1]:"
        and rr._fill_prompt(attack.whole_prompt, "T") == "Masked T\n"
    )
