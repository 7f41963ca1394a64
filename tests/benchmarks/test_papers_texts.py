"""The invented texts of the papers' scripts depend on their seed and have the stated contents;
criteria that the scripts compute."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.papers_texts import PRIORITY, QUESTION, make_words, notes, tickets


def test_tickets_depend_on_seed_and_name() -> None:
    table = tickets(50, seed=3, name="private")
    assert table == tickets(50, seed=3, name="private") and table.slice(0, 20) == tickets(
        20, seed=3, name="private"
    )
    other_texts = {
        *tickets(50, seed=4, name="private")["text"].to_pylist(),
        *tickets(50, seed=3, name="public")["text"].to_pylist(),
    }
    assert not other_texts & set(table["text"].to_pylist())
    for text, label in zip(table["text"].to_pylist(), table["label"].to_pylist(), strict=True):
        before, _, label_text = text.rpartition(QUESTION)
        assert label_text.strip() == label
        assert [
            name
            for name, states in PRIORITY.items()
            if before.endswith(tuple(f" {state}." for state in states))
        ] == [label]
        assert "{" not in text


def test_coined_words_occur_in_the_notes_of_one_person() -> None:
    table = notes(30, each=3, seed=1)
    assert table.num_rows == 90 and len(set(table["doc_id"].to_pylist())) == 90
    coined_words = make_words(90, seed=1)
    texts = dict(enumerate(table["text"].to_pylist()))
    for person in range(30):
        for word in coined_words[3 * person : 3 * person + 3]:
            persons = {
                row // 3
                for row, text in texts.items()
                if word in text.lower().replace(".", " ").replace(",", " ").split()
            }
            assert persons == {person}
    assert all("@example.org" in text and "-555-01" in text for text in texts.values())
    # a later first person continues the same sequence
    assert notes(10, each=3, seed=1, first=20) == table.slice(60, 30)


def test_criteria_of_the_early_detection_script(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    from benchmarks.papers import early_detection as paper

    def make_result(final: float, task: float) -> paper.RunMeasurements:
        share = np.array([0.0, final / 2, final])
        memorized = (np.arange(20) < 20 * share[:, None])[:, None].repeat(3, axis=1)
        # the score of a text is 60 one checkpoint before it is memorized, and 10 before that
        scores = np.where(
            np.concatenate([memorized[1:], memorized[-1:]]), np.where(memorized, 100.0, 60.0), 10.0
        )
        return paper.RunMeasurements(
            [0.0, 1.0, 2.0], memorized, scores, [3.0, 2.0, 4.0], [0.5, 0.8, task], np.arange(20)
        )

    results = {
        "base": make_result(0.8, 0.8),
        "goldfish": make_result(0.2, 0.6),
        "ngram_penalty": make_result(0.4, 0.76),
    }
    private = pa.table({"text": ["text"] * 20, "label": ["high"] * 20})
    monkeypatch.setattr(paper, "PRECURSOR_RESAMPLES", 40)
    categories = paper.categorize_probed(private, results["base"])
    criteria, tables = paper.criteria([paper.SeedResult(results, categories, {"private": 20}, [])])
    assert criteria["goldfish_mem"].value == pytest.approx(0.25) and criteria[
        "ngram_penalty_mem"
    ].value == pytest.approx(0.5)
    assert criteria["score_precedes"].value == pytest.approx(6.0)
    # the score is 30 at the first checkpoint already
    assert criteria["early_stop_mem"].value == 0.0
    assert criteria["eval_gap_goldfish"].value == pytest.approx(0.25) and criteria[
        "eval_gap_ngram_penalty"
    ].value == pytest.approx(0.05)
    assert criteria["memorizes_before_optimum"].value == 0.0
    # 16 of 20 texts come out of the plain run, 4 of Goldfish's: a ratio of .5 is not excluded, one
    # of .9 is
    goldfish = criteria["goldfish_mem"].interval
    assert (
        goldfish is not None
        and goldfish.events == 20
        and 0.0 <= goldfish.low < 0.25 < goldfish.high < 0.9
    )
    assert criteria["eval_gap_goldfish"].interval is None, "held-out texts are not drawn again"
    # a size whose trainings are not finished
    part = {"base": results["base"], "ngram_penalty": results["ngram_penalty"]}
    unfinished, _ = paper.criteria([paper.SeedResult(part, categories, {"private": 20}, [])])
    assert unfinished.keys() == {name for name in criteria if "goldfish" not in name}
    assert {row["technique"] for row in tables["techniques"]} == set(results)
    assert tables["categories"] == [
        {
            "category": "high",
            "samples": 20,
            "mem_early": 40.0,
            "mem_high_partial": 80.0,
            "mem_all": 80.0,
        }
    ]


def test_criteria_of_the_ppmlm_script() -> None:
    pytest.importorskip("torch")
    from benchmarks.papers import ppmlm as paper

    privacy_by_scheme = {
        "base": 0.99,
        "MLM": 0.8,
        "MLMA": 0.9,
        "DPPMLM": 0.85,
        "IPPMLM": 0.95,
        "PPMLM": 1.0,
        "DP": 0.99,
    }
    rows = []
    for scheme, value in privacy_by_scheme.items():
        for epoch, privacy in ((9.0, (1 + value) / 2), (36.0, value)):
            row = {
                "seed": 0,
                "scheme": scheme,
                "epoch": epoch,
                "privacy": privacy,
                "privacy_net": privacy,
                "own_all": 0.5,
                "own_eligible": 0.6,
            }
            rows.append(row | {"held_all": 0.4, "held_eligible": 0.2 if scheme == "DP" else 0.5})
    graph = {
        "words": 10,
        "people": 3,
        "occurrences": 100,
        "documents": 5,
        "words_listed": 0.9,
        "occurrences_listed": 0.4,
    }
    larger = graph | {"documents": 50, "words_listed": 0.55, "occurrences_listed": 0.03}
    scores = {
        scheme: ([3.0, 2.0, 1.0], [0.0, 0.0, 1.0] if scheme == "MLM" else [1.0, 2.0, 3.0])
        for scheme in privacy_by_scheme
    }
    criteria, tables = paper.criteria(
        [paper.SeedResult(rows, scores, {"graph": [graph, larger], "grid": []})]
    )
    values = {name: criterion.value for name, criterion in criteria.items()}
    assert values["privacy_ppmlm"] == 1.0 and values["privacy_gap_mlm"] == pytest.approx(0.2)
    assert values["mlma_between"] == pytest.approx(0.1) and values[
        "privacy_falls_mlm"
    ] == pytest.approx(0.1)
    assert values["utility_gap"] == 0.0 and values["utility_loss_dp"] == pytest.approx(0.3)
    assert (values["words_listed"], values["occurrences_listed"]) == (0.55, 0.03), (
        "of the largest corpus that was read"
    )
    assert values["mia_auc_mlm"] == pytest.approx(8.5 / 9) and values["mia_auc_ppmlm"] == 0.5
    assert all(np.isfinite(list(values.values()))) and len(tables["schemes"]) == len(rows)
    assert {name for name, criterion in criteria.items() if criterion.headline} == {
        "privacy_ppmlm",
        "privacy_gap_mlm",
        "mlma_between",
        "utility_gap",
    }
