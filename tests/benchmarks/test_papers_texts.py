"""The invented texts of the papers' scripts: they follow from their seed and hold what they claim; and what the scripts make of arrays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.papers_texts import PRIORITY, QUESTION, make_words, notes, tickets


def test_tickets_follow_from_seed_and_name() -> None:
    one = tickets(50, seed=3, name="private")
    assert one == tickets(50, seed=3, name="private") and one.slice(0, 20) == tickets(20, seed=3, name="private")
    others = {*tickets(50, seed=4, name="private")["text"].to_pylist(), *tickets(50, seed=3, name="public")["text"].to_pylist()}
    assert not others & set(one["text"].to_pylist())
    for text, label in zip(one["text"].to_pylist(), one["label"].to_pylist(), strict=True):
        before, _, answer = text.rpartition(QUESTION)
        assert answer.strip() == label
        assert [name for name, states in PRIORITY.items() if before.endswith(tuple(f" {state}." for state in states))] == [label]
        assert "{" not in text


def test_what_is_a_persons_own_stands_in_nobody_elses_notes() -> None:
    table = notes(30, each=3, seed=1)
    assert table.num_rows == 90 and len(set(table["doc_id"].to_pylist())) == 90
    own = make_words(90, seed=1)
    texts = dict(enumerate(table["text"].to_pylist()))
    for person in range(30):
        for word in own[3 * person : 3 * person + 3]:
            holders = {row // 3 for row, text in texts.items() if word in text.lower().replace(".", " ").replace(",", " ").split()}
            assert holders == {person}
    assert all("@example.org" in text and "-555-01" in text for text in texts.values())
    # further people begin where these end, and share nothing of their own
    assert notes(10, each=3, seed=1, first=20) == table.slice(60, 30)


def test_early_detection_reads_its_tables() -> None:
    pytest.importorskip("torch")
    from benchmarks.papers import early_detection as paper

    def looked(final: float, task: float) -> paper.RunMeasurements:
        share = np.array([0.0, final / 2, final])
        memorized = (np.arange(20) < 20 * share[:, None])[:, None].repeat(3, axis=1)
        # a text's score is 60 before it comes out, and 10 until then
        scores = np.where(np.concatenate([memorized[1:], memorized[-1:]]), np.where(memorized, 100.0, 60.0), 10.0)
        return paper.RunMeasurements([0.0, 1.0, 2.0], memorized, scores, [3.0, 2.0, 4.0], [0.5, 0.8, task], np.arange(20))

    each = {"base": looked(0.8, 0.8), "goldfish": looked(0.2, 0.6), "ngram_penalty": looked(0.4, 0.76)}
    private = pa.table({"text": ["text"] * 20, "label": ["high"] * 20})
    told, tables = paper.criteria([paper.SeedResult(each, {"private": private}, [])])
    assert told["goldfish_mem"].value == pytest.approx(0.25) and told["ngram_penalty_mem"].value == pytest.approx(0.5)
    assert told["score_precedes"].value == pytest.approx(6.0)
    assert told["early_stop_mem"].value == 0.0  # the score is 30 at the first look already
    assert told["eval_gap_goldfish"].value == pytest.approx(0.25) and told["eval_gap_ngram_penalty"].value == pytest.approx(0.05)
    assert told["memorizes_before_optimum"].value == 0.0
    assert {row["technique"] for row in tables["techniques"]} == set(each)
    assert tables["categories"] == [{"category": "high", "samples": 20, "mem_early": 40.0, "mem_high_partial": 80.0, "mem_all": 80.0}]


def test_ppmlm_reads_its_tables() -> None:
    pytest.importorskip("torch")
    from benchmarks.papers import ppmlm as paper

    said = {"base": 0.99, "MLM": 0.8, "MLMA": 0.9, "DPPMLM": 0.85, "IPPMLM": 0.95, "PPMLM": 1.0, "DP": 0.99}
    rows = []
    for scheme, value in said.items():
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
    graph = {"words": 10, "people": 3, "occurrences": 100, "documents": 5, "words_listed": 0.9, "occurrences_listed": 0.4}
    larger = graph | {"documents": 50, "words_listed": 0.55, "occurrences_listed": 0.03}
    scores = {scheme: ([3.0, 2.0, 1.0], [0.0, 0.0, 1.0] if scheme == "MLM" else [1.0, 2.0, 3.0]) for scheme in said}
    told, tables = paper.criteria([paper.SeedResult(rows, scores, {"graph": [graph, larger], "grid": []})])
    values = {name: one.value for name, one in told.items()}
    assert values["privacy_ppmlm"] == 1.0 and values["privacy_gap_mlm"] == pytest.approx(0.2)
    assert values["mlma_between"] == pytest.approx(0.1) and values["privacy_falls_mlm"] == pytest.approx(0.1)
    assert values["utility_gap"] == 0.0 and values["utility_loss_dp"] == pytest.approx(0.3)
    assert (values["words_listed"], values["occurrences_listed"]) == (0.55, 0.03), "of the largest corpus that was read"
    assert values["mia_auc_mlm"] == pytest.approx(8.5 / 9) and values["mia_auc_ppmlm"] == 0.5
    assert all(np.isfinite(list(values.values()))) and len(tables["schemes"]) == len(rows)
    assert {name for name, one in told.items() if one.headline} == {"privacy_ppmlm", "privacy_gap_mlm", "mlma_between", "utility_gap"}
