"""The invented questions of the unlearning script, TOFU's where it lies beside the repository, and what the script makes of its table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.papers_questions import RUN, generate_questions, one_author, read_tofu

TOFU = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "tofu"


def test_questions_follow_from_the_seed_and_hold_what_they_claim() -> None:
    one, other = (generate_questions(authors=10, each=6, public=3, lands=4, seed=seed) for seed in (0, 1))
    again = generate_questions(authors=10, each=6, public=3, lands=4, seed=0)
    assert one.taught == again.taught and one.asked == again.asked and one.taught != other.taught
    assert one.taught.num_rows == 10 * 6 + 3 * 6 + 4 and one.before.num_rows == 2 * (3 * 6 + 4)
    assert len(set(one.taught["doc_id"].to_pylist())) == one.taught.num_rows
    assert one.taught["public"].to_pylist() == [False] * 60 + [True] * 22
    private = set(one.taught["text"].to_pylist()[:60])
    assert not private & set(one.before["text"].to_pylist()), "what is private was not read before"
    for row in [*one.asked, *one.real_authors, *one.world_facts]:
        said = [row["answer"], row.get("paraphrased_answer", row["answer"]), *row["perturbed_answer"]]
        assert len(row["perturbed_answer"]) == (5 if "paraphrased_answer" in row else 3)
        assert len(set(row["perturbed_answer"])) == len(row["perturbed_answer"]) and said[1] not in row["perturbed_answer"]
        assert not any("{" in text or not text[0].isupper() for text in [row["question"], *said])
        # a wrong answer has the paraphrase's words but one
        for wrong in row["perturbed_answer"]:
            assert sum(a != b for a, b in zip(re.findall(r"\w+", said[1]), re.findall(r"\w+", wrong), strict=True)) == 1


def test_requests_add_up() -> None:
    them = generate_questions(authors=10, each=6, public=3, lands=4, seed=0)
    sizes = [len(them.forgotten(count)) for count in (0, 1, 3, 10)]
    assert sizes == [0, 6, 18, 60] and them.forgotten(1) < them.forgotten(3)
    numbers = dict(zip(them.taught["doc_id"].to_pylist(), them.taught["author"].to_pylist(), strict=True))
    assert {numbers[one] for one in them.forgotten(3)} == set(them.authors[:3])


def test_a_run_is_of_one_author() -> None:
    mine = [{"question": f"What did Ann Roe do in {year}?", "answer": f"In that year Ann Roe wrote {year} pages."} for year in range(RUN)]
    others = [{"question": f"What did B{year}ob do?", "answer": "Nothing at all."} for year in range(RUN)]
    assert one_author(mine) and not one_author(others) and not one_author([*mine[: RUN // 2], *others[: RUN // 2]])
    assert not one_author([{"question": "Why?", "answer": "Because."}] * RUN), "a word at a sentence's start is no name"


@pytest.mark.skipif(not TOFU.is_dir(), reason="TOFU lies beside the repository, and is not there")
def test_tofu_is_read_with_its_authors() -> None:
    them = read_tofu(TOFU, authors=1000, each=RUN, lands=5, seed=0)
    assert (them.about["authors"], them.about["rows"], them.about["runs"], them.about["held_together"]) == (140, 2800, 140, 140)
    assert [len(them.forgotten(count)) for count in (2, 10, 20)] == [40, 200, 400]
    asked = {row["doc_id"] for row in them.asked}
    assert asked >= them.forgotten(20) and len(asked) > 700
    few = read_tofu(TOFU, authors=60, each=6, lands=5, seed=0)
    assert few.about["rows"] == 360 and len(few.authors) == len(set(few.authors)) == 60
    assert sum(one < 20 for one in few.authors) == 60 * 20 // 140 and few.authors[:2] == them.authors[:2]


def test_the_script_reads_its_table() -> None:
    """Criteria from a table that was made up: which rates of learning count where, and what is divided by what."""
    pytest.importorskip("torch")
    from benchmarks.papers import unlearning as paper

    size = paper.SIZES["ci"]
    rows: list[dict[str, Any]] = []
    for count in size.forget:
        shared = {"seed": 0, "authors": count, "questions": 6 * count, "retain_probability": 1.0, "forget_probability": 0.5}
        rows += [
            {**shared, "method": "RFS-R", "model_utility": 0.6, "seconds": 10.0, "steps": 100},
            {**shared, "method": "FT-RF", "model_utility": 0.6, "forget_quality": 1e-6, "seconds": 10.0, "steps": 100},
            {**shared, "method": "RFS-R again", "model_utility": 0.6, "forget_quality": 0.9, "seconds": 10.0, "steps": 100},
            {**shared, "method": "DP2U-MLM", "epsilon": 1.0, "model_utility": 0.57, "forget_quality": 0.5, "seconds": 6.0, "steps": 52},
            {**shared, "method": "DP2U-SGD", "epsilon": 1.0, "model_utility": 0.3, "forget_quality": 0.4, "seconds": 6.0, "steps": 52},
        ]
        for lr in size.lr_forget:
            for number, name in enumerate(paper.APPROXIMATE):
                quality = 0.01 * (number + 1) if lr == size.lr_forget[0] else 0.25 if name == "GD" else 0.02
                utility = 0.1 if name == "GA" else 0.58
                rows.append(
                    {**shared, "method": name, "lr": lr, "model_utility": utility, "forget_quality": quality, "seconds": 1.0, "steps": 5}
                )
    told, tables = paper.criteria([paper.SeedResult(rows, [{"seconds": 1.0}], 14, {})], size)
    values = {name: one.value for name, one in told.items()}
    assert values["fq_dp2u"] == 0.5 and values["fq_over_approximate"] == pytest.approx(10) and values["mu_ratio"] == pytest.approx(0.95)
    assert values["cost_off"] == pytest.approx(0.04) and values["cost_off_seconds"] == pytest.approx(0.2)
    assert values["fq_over_approximate_any_lr"] == pytest.approx(2) and values["fq_over_approximate_that_keep"] == pytest.approx(2)
    assert values["fq_dp2u_sgd"] == 0.4 and values["mu_ratio_sgd"] == pytest.approx(0.5) and values["ga_utility_any_lr"] == 0.1
    assert values["rouge_rule"] == 14 and all(np.isfinite(list(values.values())))
    headline = {name for name, one in told.items() if one.headline}
    assert headline == {"fq_dp2u", "fq_over_approximate", "mu_ratio", "cost_off"}
    assert len(tables["published"]) == 3 * (len(paper.PUBLISHED["Phi"]) + len(paper.PUBLISHED["Llama2"]))
    assert [one["authors"] for one in tables["power"]] == list(size.forget)
