"""The questions of the unlearning script (invented, and TOFU's if available), and the criteria that
the script computes from its table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.papers_questions import RUN, generate_questions, one_author, read_tofu

TOFU = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "tofu"


def test_generated_questions_are_deterministic_and_well_formed() -> None:
    first, other_seed = (
        generate_questions(authors=10, each=6, public=3, lands=4, seed=seed) for seed in (0, 1)
    )
    repeated = generate_questions(authors=10, each=6, public=3, lands=4, seed=0)
    assert (
        first.taught == repeated.taught
        and first.asked == repeated.asked
        and first.taught != other_seed.taught
    )
    assert first.taught.num_rows == 10 * 6 + 3 * 6 + 4 and first.before.num_rows == 2 * (3 * 6 + 4)
    assert len(set(first.taught["doc_id"].to_pylist())) == first.taught.num_rows
    assert first.taught["public"].to_pylist() == [False] * 60 + [True] * 22
    private = set(first.taught["text"].to_pylist()[:60])
    assert not private & set(first.before["text"].to_pylist()), (
        "private texts are not in the pretraining data"
    )
    for row in [*first.asked, *first.real_authors, *first.world_facts]:
        answers = [
            row["answer"],
            row.get("paraphrased_answer", row["answer"]),
            *row["perturbed_answer"],
        ]
        assert len(row["perturbed_answer"]) == (5 if "paraphrased_answer" in row else 3)
        assert (
            len(set(row["perturbed_answer"])) == len(row["perturbed_answer"])
            and answers[1] not in row["perturbed_answer"]
        )
        assert not any("{" in text or not text[0].isupper() for text in [row["question"], *answers])
        # a wrong answer differs from the paraphrase in one word
        for wrong_answer in row["perturbed_answer"]:
            assert (
                sum(
                    a != b
                    for a, b in zip(
                        re.findall(r"\w+", answers[1]),
                        re.findall(r"\w+", wrong_answer),
                        strict=True,
                    )
                )
                == 1
            )


def test_requests_accumulate() -> None:
    questions = generate_questions(authors=10, each=6, public=3, lands=4, seed=0)
    sizes = [len(questions.forgotten(count)) for count in (0, 1, 3, 10)]
    assert sizes == [0, 6, 18, 60] and questions.forgotten(1) < questions.forgotten(3)
    numbers = dict(
        zip(
            questions.taught["doc_id"].to_pylist(),
            questions.taught["author"].to_pylist(),
            strict=True,
        )
    )
    assert {numbers[doc_id] for doc_id in questions.forgotten(3)} == set(questions.authors[:3])


def test_blocks_of_one_author_are_recognised() -> None:
    of_one_author = [
        {
            "question": f"What did Ann Roe do in {year}?",
            "answer": f"In that year Ann Roe wrote {year} pages.",
        }
        for year in range(RUN)
    ]
    several_authors = [
        {"question": f"What did B{year}ob do?", "answer": "Nothing at all."} for year in range(RUN)
    ]
    half_and_half = [*of_one_author[: RUN // 2], *several_authors[: RUN // 2]]
    assert (
        one_author(of_one_author)
        and not one_author(several_authors)
        and not one_author(half_and_half)
    )
    assert not one_author([{"question": "Why?", "answer": "Because."}] * RUN), (
        "a capitalised word at the start of a sentence is no name"
    )


@pytest.mark.skipif(not TOFU.is_dir(), reason="TOFU is not available beside the repository")
def test_tofu_is_read_with_its_authors() -> None:
    questions = read_tofu(TOFU, authors=1000, each=RUN, lands=5, seed=0)
    assert (
        questions.about["authors"],
        questions.about["rows"],
        questions.about["runs"],
        questions.about["held_together"],
    ) == (
        140,
        2800,
        140,
        140,
    )
    assert [len(questions.forgotten(count)) for count in (2, 10, 20)] == [40, 200, 400]
    asked_doc_ids = {row["doc_id"] for row in questions.asked}
    assert asked_doc_ids >= questions.forgotten(20) and len(asked_doc_ids) > 700
    sample = read_tofu(TOFU, authors=60, each=6, lands=5, seed=0)
    assert sample.about["rows"] == 360 and len(sample.authors) == len(set(sample.authors)) == 60
    assert (
        sum(author < 20 for author in sample.authors) == 60 * 20 // 140
        and sample.authors[:2] == questions.authors[:2]
    )


def test_criteria_of_the_unlearning_script() -> None:
    """Criteria from an invented table: which learning rates count for which criterion, and which
    values are divided."""
    pytest.importorskip("torch")
    from benchmarks.papers import unlearning as paper

    size = paper.SIZES["ci"]
    rows: list[dict[str, Any]] = []
    for count in size.forget:
        shared = {
            "seed": 0,
            "authors": count,
            "questions": 6 * count,
            "retain_probability": 1.0,
            "forget_probability": 0.5,
        }
        rows += [
            {**shared, "method": "RFS-R", "model_utility": 0.6, "seconds": 10.0, "steps": 100},
            {
                **shared,
                "method": "FT-RF",
                "model_utility": 0.6,
                "forget_quality": 1e-6,
                "seconds": 10.0,
                "steps": 100,
            },
            {
                **shared,
                "method": "RFS-R again",
                "model_utility": 0.6,
                "forget_quality": 0.9,
                "seconds": 10.0,
                "steps": 100,
            },
            {
                **shared,
                "method": "DP2U-MLM",
                "epsilon": 1.0,
                "model_utility": 0.57,
                "forget_quality": 0.5,
                "seconds": 6.0,
                "steps": 52,
            },
            {
                **shared,
                "method": "DP2U-SGD",
                "epsilon": 1.0,
                "model_utility": 0.3,
                "forget_quality": 0.4,
                "seconds": 6.0,
                "steps": 52,
            },
        ]
        for lr in size.lr_forget:
            for number, name in enumerate(paper.APPROXIMATE):
                quality = (
                    0.01 * (number + 1)
                    if lr == size.lr_forget[0]
                    else 0.25
                    if name == "GD"
                    else 0.02
                )
                utility = 0.1 if name == "GA" else 0.58
                rows.append(
                    {
                        **shared,
                        "method": name,
                        "lr": lr,
                        "model_utility": utility,
                        "forget_quality": quality,
                        "seconds": 1.0,
                        "steps": 5,
                    }
                )
    criteria, tables = paper.criteria([paper.SeedResult(rows, [{"seconds": 1.0}], 14, {})], size)
    values = {name: criterion.value for name, criterion in criteria.items()}
    assert (
        values["fq_dp2u"] == 0.5
        and values["fq_over_approximate"] == pytest.approx(10)
        and values["mu_ratio"] == pytest.approx(0.95)
    )
    assert values["cost_off"] == pytest.approx(0.04) and values[
        "cost_off_seconds"
    ] == pytest.approx(0.2)
    assert values["fq_over_approximate_any_lr"] == pytest.approx(2) and values[
        "fq_over_approximate_that_keep"
    ] == pytest.approx(2)
    assert (
        values["fq_dp2u_sgd"] == 0.4
        and values["mu_ratio_sgd"] == pytest.approx(0.5)
        and values["ga_utility_any_lr"] == 0.1
    )
    assert values["rouge_rule"] == 14 and all(np.isfinite(list(values.values())))
    headline = {name for name, criterion in criteria.items() if criterion.headline}
    assert headline == {"fq_dp2u", "fq_over_approximate", "mu_ratio", "cost_off"}
    assert len(tables["published"]) == 3 * (
        len(paper.PUBLISHED["Phi"]) + len(paper.PUBLISHED["Llama2"])
    )
    assert [row["authors"] for row in tables["power"]] == list(size.forget)
