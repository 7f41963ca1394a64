"""The invented records of the script on recollection, and what the script makes of the attacks of several seeds."""

from __future__ import annotations

import polars as pl
import pytest

from benchmarks.papers_records import records
from sanitize.eval import recollect_and_rank as rr
from sanitize.eval.probe_inputs import find_values
from sanitize.eval.recollect_and_rank import AttackSettings, MaskedRecords


def test_records_follow_from_their_seed() -> None:
    assert records(20, seed=1, name="a").equals(records(20, seed=1, name="a"))
    others = [records(20, seed=2, name="a"), records(20, seed=1, name="b")]
    mine = set(records(20, seed=1, name="a")["text"].to_pylist())
    assert len(mine) == 20 and all(mine.isdisjoint(other["text"].to_pylist()) for other in others)


def test_every_record_holds_a_value_of_each_kind() -> None:
    texts = records(200, seed=3, name="a")["text"].to_pylist()
    found = find_values(texts)
    kinds = found.group_by("text_no").agg(pl.col("kind").unique().sort(), pl.len())
    assert kinds.height == 200 and all(row == ["EMAIL_ADDRESS", "IP_ADDRESS", "PHONE_NUMBER"] for row in kinds["kind"].to_list())
    assert set(kinds["len"].unique()) == {3, 4}  # a third of them say one value twice
    assert 0.2 < (kinds["len"] == 4).mean() < 0.5  # type: ignore[operator]
    # three in a row, with no more than a word or a comma between them: who continues what stands before knows the first one's context only
    row = found.sort("text_no", "start").with_columns(
        behind=pl.col("end").shift(1).over("text_no"), at=pl.int_range(pl.len()).over("text_no")
    )
    gaps = row.filter(pl.col("at").is_in([1, 2])).select(gap=pl.col("start") - pl.col("behind"))["gap"]
    assert gaps.max() <= len(" and ") and row.filter(pl.col("at") == 0)["start"].min() >= len("Record: ")  # type: ignore[operator]
    # reserved ranges only, and hardly a value that two records share
    values = found.unique(["text_no", "value"])
    assert values.filter(pl.col("kind") == "PHONE_NUMBER")["value"].str.contains(r"\A[2-9][0-9]{2}-555-01[0-9]{2}\z").all()
    assert values.filter(pl.col("kind") == "EMAIL_ADDRESS")["value"].str.contains(r"@example[.](com|org|net)\z").all()
    assert values.filter(pl.col("kind") == "IP_ADDRESS")["value"].str.contains(r"\A(192[.]0[.]2|198[.]51[.]100|203[.]0[.]113)[.]").all()
    assert values["value"].n_unique() > 0.85 * values.height


def test_seeds_are_counted_together() -> None:
    pytest.importorskip("torch")
    from benchmarks.papers.recollect_rank import AttackResult

    one = MaskedRecords.from_texts(["[A-1] x", "[A-1]"], [{"[A-1]": ["yes"]}] * 2)
    said = pl.DataFrame(
        {"key": [0, 0], "place": [0, 1], "candidate": ["no", "yes"], "query": [0, 2], "votes": [1, 3]}, schema=dict(rr.CANDIDATE_SCHEMA)
    )
    numbers = {"key": [0, 0], "place": [0, 1], "votes": [1, 3], "victim": [1.0, 2.0], "reference": [1.0, 8.0], "whole": [1.0, 2.0]}
    told = AttackResult(one.keys, rr.judge_candidates(one, said), pl.DataFrame(numbers))
    both = AttackResult.concatenate([told, told])
    assert both.keys["key"].to_list() == [0, 1, 2, 3] and both.worth["key"].to_list() == [0, 0, 2, 2]
    assert both.top1("ratio") == told.top1("ratio") == 0.5 and both.top1("partial") == 0
    assert both.top1("votes") == 0.5
    assert (both.recall(2), both.recall(3)) == (0, 0.5)


def test_a_direct_answer_is_asked_as_it_was_taught() -> None:
    """The lesson's prompt gets a line end, the answer begins with the label: together what the attack asks."""
    from benchmarks.papers.recollect_rank import DIRECT, WHOLE

    attack = AttackSettings(whole_prompt=WHOLE, direct_prompt=DIRECT)
    assert (
        rr._fill_prompt(attack.direct_prompt, "T", "[A-1]") == "Masked T\n" + "[A-1]:"
        and rr._fill_prompt(attack.whole_prompt, "T") == "Masked T\n"
    )
