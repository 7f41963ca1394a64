"""Recollect and Rank by hand: where segments end, which tokens the losses cover, the criteria, and undefined cases."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sanitize
from sanitize.errors import OutputBroken, PlanError, UsageError
from sanitize.eval import recollect_and_rank as rr
from sanitize.eval.language_model import LanguageModel
from sanitize.eval.metrics.reconstruction import run_attack, run_baselines
from sanitize.eval.probe_inputs import find_values
from sanitize.eval.recollect_and_rank import AttackSettings, MaskedRecords
from sanitize.eval.value_finder import make_value_finder

ANN, BO, CY = "ann.lee@example.com", "bo.ray@example.org", "cy.fox@example.net"
LOSS = st.floats(1e-3, 50, allow_nan=False)


@pytest.fixture(scope="module")
def model(gpt2: Any, tokenizer: Any) -> LanguageModel:
    return LanguageModel.from_loaded(gpt2, tokenizer)


# ---- segments ----


@pytest.mark.parametrize(
    ("text", "label", "reach", "found"),
    [
        ("Ann is [P-1].", "[P-1]", 300, [("Ann is ", ".")]),
        ("Ann is [P-1]", "[P-1]", 300, [("Ann is ", "")]),  # the label ends the text: nothing is lost, and nothing is left open
        ("[P-1] is in", "[P-1]", 300, [("", " is in")]),  # no later label: the last character stays
        ("[P-1]", "[P-1]", 300, [("", "")]),
        ("a [P-1] b [Q-1] c [P-1] d", "[P-1]", 300, [("a ", " b"), ("c ", " d")]),  # the outer ends are stripped
        ("a [P-1][Q-1] b", "[Q-1]", 300, [("", " b")]),
        ("abcdef [P-1] ghijkl", "[P-1]", 3, [("ef ", " gh")]),  # reach cuts on both sides, also where no label follows
        ("see [1] and [P-1] or [2]", "[P-1]", 300, [("see [1] and ", " or [2]")]),  # brackets that are no label cut nothing
        ("[DATE_TIME-1] [DATE_TIME-12]", "[DATE_TIME-1]", 300, [("", "")]),  # one label is not the beginning of another
    ],
)
def test_segments(text: str, label: str, reach: int, found: list[tuple[str, str]]) -> None:
    assert rr.cut_segments(text, label, reach) == found


@given(st.lists(st.sampled_from(["[A-1]", "[A-2]", "[B_C-1]", " x ", ".", " é", "[", "]"]), max_size=12), st.integers(0, 9))
def test_a_segment_holds_one_label(parts: list[str], reach: int) -> None:
    text = "".join(parts)
    for label in ("[A-1]", "[A-2]", "[B_C-1]"):
        cut = rr.cut_segments(text, label, reach)
        assert len(cut) == text.count(label)
        for before, after in cut:
            assert before + label + after in text and not rr.LABEL_PATTERN.search(before) and not rr.LABEL_PATTERN.search(after)
            assert len(before) <= reach and len(after) <= reach


@pytest.mark.parametrize(
    ("text", "label", "kept"),
    [
        ("One. Two [P-1]. Three. Four.", "[P-1]", "One. Two [P-1]. Three."),
        ("One [Q-1]. Two [P-1]. Three.", "[P-1]", "Two [P-1]. Three."),  # a neighbour that holds another label stays out
        ("Two [P-1] and [Q-1]! Three. Four [P-1]?", "[P-1]", "Two [P-1] and [Q-1]! Three. Four [P-1]?"),
        ("[P-1]", "[P-1]", "[P-1]"),
    ],
)
def test_sentences_around_a_label(text: str, label: str, kept: str) -> None:
    assert rr.find_sentences_around(text, label) == kept


# ---- records ----


def test_records_are_read_from_a_run_and_its_vault(tmp_path: Path) -> None:
    texts = [f"Ask {ANN} or {BO}. {ANN.upper()} knows.", "nothing here", f"{CY} has 212-555-0142."]
    (tmp_path / "raw").mkdir()
    pl.DataFrame({"doc_id": ["a", "b", "c"], "text": texts}).write_parquet(tmp_path / "raw" / "a.parquet")
    settings = sanitize.Settings(seed=1, workers=1)
    numbered = sanitize.load_plan("redact", ("edit.0.label=numbered",))
    sanitize.run([tmp_path / "raw"], tmp_path / "masked", numbered, tmp_path / "work", settings)
    records = MaskedRecords.read(tmp_path / "masked", tmp_path / "work")
    assert records.texts == (
        "Ask [EMAIL_ADDRESS-1] or [EMAIL_ADDRESS-2]. [EMAIL_ADDRESS-1] knows.",
        "[EMAIL_ADDRESS-1] has [PHONE_NUMBER-1].",
    )
    rows = records.keys.select("text_no", "label", "kind", "truths", "times").rows()
    assert rows == [
        (0, "[EMAIL_ADDRESS-1]", "EMAIL_ADDRESS", [ANN.upper(), ANN], 2),
        (0, "[EMAIL_ADDRESS-2]", "EMAIL_ADDRESS", [BO], 1),
        (1, "[EMAIL_ADDRESS-1]", "EMAIL_ADDRESS", [CY], 1),
        (1, "[PHONE_NUMBER-1]", "PHONE_NUMBER", ["212-555-0142"], 1),
    ]
    assert MaskedRecords.read(tmp_path / "masked", tmp_path / "work", kinds=["PHONE_NUMBER"]).keys.height == 1
    assert MaskedRecords.read(tmp_path / "masked", tmp_path / "work", most=1).texts == records.texts[:1]
    with pytest.raises(UsageError, match="EMAIL_ADDRESS"):
        MaskedRecords.read(tmp_path / "masked", tmp_path / "work", kinds=["EMAIL_ADRESS"])
    sanitize.run([tmp_path / "raw"], tmp_path / "fixed", sanitize.load_plan("redact"), tmp_path / "work", settings)
    with pytest.raises(UsageError, match="numbered"):
        MaskedRecords.read(tmp_path / "fixed", tmp_path / "work")
    with pytest.raises(UsageError, match="private folder"):
        MaskedRecords.read(tmp_path / "masked", tmp_path)
    for file in (tmp_path / "work" / "runs").glob("*/rows/*.parquet"):
        file.unlink()
    with pytest.raises(OutputBroken, match="run the plan again"):
        MaskedRecords.read(tmp_path / "masked", tmp_path / "work")


# ---- candidates ----


def mouth(monkeypatch: pytest.MonkeyPatch, says: dict[str, list[str]]) -> list[tuple[int, dict[str, Any]]]:
    """Replace the model's completions: for a prompt that contains a word, one after another. Returns the list of prompts."""
    asked: list[tuple[int, dict[str, Any]]] = []

    def generate(self: LanguageModel, prompts: list[list[int]], **how: Any) -> list[list[int]]:
        asked.append((len(prompts), how))
        turn: dict[str, int] = {}
        said = []
        for prompt in self.decode(prompts):
            word = next(word for word in says if word in prompt)
            said.append(says[word][turn.get(word, 0) % len(says[word])])
            turn[word] = turn.get(word, 0) + 1
        return self.encode(said)

    monkeypatch.setattr(LanguageModel, "generate", generate)
    monkeypatch.setattr(LanguageModel, "context_length", property(lambda self: 4096))
    return asked


RECORDS = MaskedRecords.from_texts(
    [
        "alpha [EMAIL_ADDRESS-1] and [EMAIL_ADDRESS-2]. [PHONE_NUMBER-1] too [EMAIL_ADDRESS-1].",
        "beta [EMAIL_ADDRESS-1]",
        "gamma [PERSON-1]",
    ],
    [
        {"[EMAIL_ADDRESS-1]": [ANN], "[EMAIL_ADDRESS-2]": [BO], "[PHONE_NUMBER-1]": ["212-555-0142"]},
        {"[EMAIL_ADDRESS-1]": [CY], "[EMAIL_ADDRESS-9]": ["is not there"]},
        {"[PERSON-1]": ["Di"]},
    ],
)


def test_candidates_are_what_a_finder_sees(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    says = {
        "alpha": [f"alpha {BO} and {ANN}.", f"alpha {ANN} 212-555-0142 [EMAIL_ADDRESS-2]", "nothing"],
        "beta": [f"{ANN.upper()} or {ANN}", f"<|{CY}|>", "x" * 60 + "@example.com"],
        "gamma": ["today"],
    }
    asked = mouth(monkeypatch, says)
    found = rr.recollect_candidates(model, RECORDS, AttackSettings(queries=3, longest=50))
    assert asked[0][0] == 9 and asked[0][1]["temperature"] == 1.2 and asked[0][1]["mode"] == "sample"
    told = {key: some.select("candidate", "query").rows() for (key,), some in found.partition_by("key", as_dict=True).items()}
    both = [(BO, 0), (ANN, 0)]
    assert told[0] == both and told[1] == both  # all keys of a text and a kind share the candidates of its completions
    assert told[2] == [("212-555-0142", 1)]
    assert told[3] == [(ANN.upper(), 0), (ANN, 0), (CY, 1)]  # spellings are told apart, the longest address is left out
    assert 4 not in told  # nothing of its kind was said
    assert found["place"].to_list() == [0, 1, 0, 1, 0, 0, 1, 2]
    votes = found.filter(pl.col("key").is_in([0, 3])).select("key", "votes").rows()
    assert votes == [(0, 1), (0, 2), (3, 1), (3, 1), (3, 1)]  # ANN was said by two of three; spellings are counted apart


def test_a_query_has_one_vote(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    mouth(monkeypatch, {"beta": [f"{ANN} {ANN} {ANN}", f"{BO}", f"{BO} {ANN}", f"{BO}"]})
    only = MaskedRecords.from_texts(["beta [EMAIL_ADDRESS-1]"], [{"[EMAIL_ADDRESS-1]": [BO]}])
    found = rr.recollect_candidates(model, only, AttackSettings(queries=4))
    assert found.select("candidate", "query", "votes").rows() == [(ANN, 0, 2), (BO, 1, 3)]
    told = rr.compute_candidate_losses(model, model, only, found, AttackSettings())
    assert told["votes"].to_list() == [2, 3]
    assert rr.answer_accuracy(rr.select_answers(only.keys, rr.judge_candidates(only, found), rr.rank_candidates(told, "votes"))) == 1


def test_finders_of_ones_own_and_words_that_are_no_values(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    mouth(monkeypatch, {"gamma": ["Today", "Di [PERSON-1]"]})

    def finder(texts: Any) -> pl.DataFrame:
        rows = [(number, 0, len(text), "PERSON", text.split(" ")[0]) for number, text in enumerate(texts)]
        rows += [(number, 3, len(text), "PERSON", "[PERSON-1]") for number, text in enumerate(texts) if "[" in text]
        return pl.DataFrame(rows, schema=["text_no", "start", "end", "kind", "value"], orient="row")

    only = MaskedRecords.from_texts(["gamma [PERSON-1]"], [{"[PERSON-1]": ["Di"]}])
    assert rr.recollect_candidates(model, only, AttackSettings(queries=2), finder)["candidate"].to_list() == ["Di"]


SPOKEN = [
    "Dear Ann Larsson, ü say bo.ray@example.com. Regards, John Smith",
    "",
    "From: Mary Jones <mj@example.net>\nTo: x@example.org\n\nHi",
]


def test_any_finders_see_values() -> None:
    def seen(*finders: Any) -> list[tuple[Any, ...]]:
        found = make_value_finder(finders)(SPOKEN)
        for text_no, start, stop, _, value in found.rows():
            assert SPOKEN[text_no][start:stop] == value
        return found.select("text_no", "kind", "value").rows()

    mails = [(0, "EMAIL_ADDRESS", "bo.ray@example.com"), (2, "EMAIL_ADDRESS", "mj@example.net"), (2, "EMAIL_ADDRESS", "x@example.org")]
    people = [(0, "PERSON", "Ann Larsson"), (0, "PERSON", "John Smith"), (2, "PERSON", "Mary Jones")]
    assert seen("patterns") == mails == find_values(SPOKEN).select("text_no", "kind", "value").rows()
    assert seen("names") == people  # patterns shows it the addresses, and counts only where it is named
    assert seen({"use": "names", "prose": False}) == people[2:]
    assert sorted(seen("patterns", "names")) == sorted(mails + people)
    assert make_value_finder(["names"])([]).height == 0


@pytest.mark.parametrize(
    ("finders", "error", "word"),
    [
        ([], UsageError, "is empty"),
        (["nmes"], PlanError, r"finders\[0\]\.use = 'nmes'.*Did you mean names"),
        (["patterns", {"use": "names", "prosy": True}], PlanError, r"finders\[1\]\.prosy: unknown key"),
        (["known"], UsageError, "documents of a corpus"),
        ([{"use": "spans", "path": "x.csv"}], UsageError, "documents of a corpus"),
    ],
)
def test_finders_that_cannot_see_answers(finders: list[Any], error: type[Exception], word: str) -> None:
    with pytest.raises(error, match=word):
        make_value_finder(finders)


def test_the_metric_asks_the_finders_that_it_names(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    mouth(monkeypatch, {"gamma": ["my name is Ann Larsson"]})  # what stands before the label is the word, for the baselines too
    only = MaskedRecords.from_texts(["gamma [PERSON-1]"], [{"[PERSON-1]": ["Ann Larsson"]}])
    attack = AttackSettings(queries=2)
    assert run_attack(model, model, only, attack)["recall"] == 0  # patterns knows no names
    told = run_attack(model, model, only, attack, value_finder=make_value_finder(["names"]))
    assert told["recall"] == told["top1"] == 1
    before = run_baselines(model, only, attack, queries=2, value_finder=make_value_finder(["names"]))
    assert before == {"direct": 1, "tab": 1, "p2p": 1, "p2p_recall": 1, "p2p_votes": 1}


def test_one_prompt_for_each_key(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = mouth(
        monkeypatch, {"<[EMAIL_ADDRESS-1]>": [ANN], "<[EMAIL_ADDRESS-2]>": [BO], "<[PHONE_NUMBER-1]>": [""], "<[PERSON-1]>": [CY]}
    )
    found = rr.recollect_candidates(model, RECORDS, AttackSettings(layout="key", queries=2, key_prompt="{text} <{key}>"))
    assert asked[0][0] == 10
    assert found.select("key", "candidate").rows() == [(0, ANN), (1, BO), (3, ANN)]


def test_a_text_that_cannot_be_repeated_is_not_asked(model: LanguageModel) -> None:
    long = MaskedRecords.from_texts(["word " * 20 + "[EMAIL_ADDRESS-1]", "[EMAIL_ADDRESS-1]"], [{"[EMAIL_ADDRESS-1]": [ANN]}] * 2)
    found = rr.recollect_candidates(model, long, AttackSettings(queries=2, whole_prompt="{text}"))
    assert 0 not in found["key"].to_list()
    assert rr.recollect_candidates(model, MaskedRecords.from_texts([], []), AttackSettings(whole_prompt="{text}")).height == 0


def test_chat_prompts_need_a_template(model: LanguageModel) -> None:
    with pytest.raises(UsageError, match="chat template"):
        rr.recollect_candidates(model, RECORDS, AttackSettings(chat=True))


def test_chat_prompts_are_wrapped(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model.tokenizer, "chat_template", "{% for one in messages %}<<{{ one.content }}>>{% endfor %}")
    asked = mouth(monkeypatch, {"<<alpha": [ANN], "<<beta": [BO], "<<gamma": [CY]})
    rr.recollect_candidates(model, RECORDS, AttackSettings(queries=1, chat=True, whole_prompt="{text}"))
    assert asked[0][0] == 3


def test_baselines_ask_what_the_papers_ask(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rr._label_prefixes(RECORDS) == [["alpha", "too"], ["and"], ["."], ["beta"], ["gamma"]]
    many = MaskedRecords.from_texts([" ".join(map(str, range(30))) + " [A-1] [B-1]"], [{"[A-1]": ["x"], "[B-1]": ["y"]}])
    assert rr._label_prefixes(many) == [[" ".join(map(str, range(10, 30)))], [""]]
    asked = mouth(monkeypatch, {"alpha": [ANN], "too": [BO], "and": [f"{CY} {BO}"], ".": ["212-555-0142"], "beta": [""], "gamma": [""]})
    tab = rr.tab_candidates(model, RECORDS, AttackSettings())
    assert asked[0][0] == 5 and asked[0][1]["top_k"] == 40 and asked[0][1]["top_p"] is None and asked[0][1]["new_tokens"] == 16
    assert tab.select("key", "candidate").rows() == [(0, ANN), (1, CY), (1, BO), (2, "212-555-0142")]
    many_said = rr.p2p_candidates(model, RECORDS, AttackSettings(), queries=4)
    assert asked[1][0] == 20
    assert many_said.filter(pl.col("key") == 0).select("candidate", "query").rows() == [(ANN, 0), (BO, 1)]  # its places in turn
    direct = rr.direct_prompt_candidates(model, RECORDS, AttackSettings(direct_prompt="{text} = {key}"))
    assert asked[2][0] == 5 and asked[2][1]["temperature"] == 1.0
    assert direct.select("key", "candidate").rows() == [(0, ANN), (1, ANN)]  # a wrong kind is no candidate


def test_what_cannot_be_asked() -> None:
    for wrong in ({"queries": 0}, {"b": -1.0}, {"b": math.nan}, {"reach": -1}):
        with pytest.raises(UsageError, match="needs"):
            AttackSettings(**wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"has no \{key\}"):
        AttackSettings(key_prompt="{text}")


# ---- losses and criteria ----


def one_by_one(model: LanguageModel, before: str, candidate: str, after: str) -> tuple[float, float]:
    """The two mean losses of a segment, byte by byte: the tokenizer of these tests has one token per byte."""
    ids = [model.tokenizer.bos_token_id, *model.encode([before + candidate + after])[0]]
    (row,) = model.token_losses([ids])
    first = len(before.encode())
    return float(row[first:].mean()), float(row.mean())


def test_losses_are_of_the_candidate_and_what_follows(model: LanguageModel) -> None:
    cases = [("ab ", "cd", " ef"), ("", "cd", ""), ("é ", "ü", "."), ("x" * 70 + " ", "y", " z"), ("ab ", "c", "")]
    partial, whole = rr.compute_segment_losses(model, *map(list, zip(*cases, strict=True)))
    for number, case in enumerate(cases):
        assert (partial[number], whole[number]) == pytest.approx(one_by_one(model, *case), rel=1e-5)
    assert [len(one) for one in rr.compute_segment_losses(model, [], [], [])] == [0, 0]


def test_a_segment_that_begins_with_its_label_scores_the_first_token(model: LanguageModel) -> None:
    partial, whole = rr.compute_segment_losses(model, ["", ""], ["a", ""], ["", ""])
    assert np.isfinite(partial[0]) and partial[0] == whole[0]
    assert np.isinf(partial[1]) and np.isinf(whole[1])  # no token is scored


def test_losses_table(model: LanguageModel, gpt2: Any, tokenizer: Any) -> None:
    told = {"key": [0, 0, 3], "place": [0, 1, 0], "candidate": [ANN, BO, CY], "query": [0, 0, 0], "votes": [1, 2, 1]}
    found = pl.DataFrame(told, schema=dict(rr.CANDIDATE_SCHEMA))
    told = rr.compute_candidate_losses(model, model, RECORDS, found, AttackSettings())
    assert told.select("key", "place").rows() == [(0, 0), (0, 0), (0, 1), (0, 1), (3, 0)]  # two places of the label, one of the other text
    assert (told["victim"] == told["reference"]).all()
    assert told["victim"][4] == pytest.approx(one_by_one(model, "beta ", CY, "")[0], rel=1e-5)
    assert rr.compute_candidate_losses(model, None, RECORDS, found, AttackSettings())["reference"].to_list() == [0.0] * 5


@given(LOSS, LOSS, LOSS, LOSS, st.floats(1e-6, 100))
def test_theorem_3_1(v1: float, v2: float, r1: float, r2: float, b: float) -> None:
    """The candidate with the lower loss and the lower ratio has the lower score for every b; cases within rounding are skipped."""
    if v1 < v2 and v1 / r1 < v2 / r2:
        one, other = rr.biased_score(np.array([v1, v2]), np.array([r1, r2]), b)
        assert one <= other
        if v2 - v1 > 1e-9 * v2 and v2 / r2 - v1 / r1 > 1e-9 * v2 / r2:
            assert one < other


@given(st.lists(st.tuples(LOSS, LOSS), min_size=2, max_size=8, unique_by=lambda pair: round(pair[0], 2)))
def test_a_large_b_is_the_order_of_the_victims_loss(pairs: list[tuple[float, float]]) -> None:
    victim, reference = np.array(pairs).T
    assert np.array_equal(np.argsort(rr.biased_score(victim, reference, 1e9)), np.argsort(victim))
    assert np.array_equal(rr.biased_score(victim, reference, math.inf), victim)


def test_criteria_by_hand() -> None:
    told = pl.DataFrame({"victim": [1.0, 3.0, math.inf], "reference": [2.0, 0.0, math.inf], "whole": [5.0, 6.0, math.inf]})
    assert rr.score_segments(told, "vanilla").tolist() == [5, 6, math.inf]
    assert rr.score_segments(told, "partial").tolist() == [1, 3, math.inf]
    assert rr.score_segments(told, "subtract").tolist() == [-1, 3, math.inf]
    assert rr.score_segments(told, "ratio") == pytest.approx(
        [-0.5, 3e6 - 1, math.inf], rel=1e-5
    )  # a reference that is sure divides by 1e-6
    assert rr.score_segments(told, "biased", 2.0) == pytest.approx([(1 - 2 - 2) / (2 + 2), (3 - 0 - 2) / (0 + 2), math.inf])
    for wrong, meant in (("vanila", "vanilla"), ("vote", "votes")):
        with pytest.raises(UsageError, match=meant):
            rr.score_segments(told, wrong)
    with pytest.raises(UsageError, match="b = -1"):
        rr.biased_score(np.ones(1), np.ones(1), -1)


def test_sums_over_segments_and_ties() -> None:
    told = pl.DataFrame(
        {
            "key": [0, 0, 0, 0, 0, 1],
            "place": [0, 0, 1, 1, 2, 0],
            "votes": [1, 1, 1, 1, 1, 1],
            "victim": [1.0, 4.0, 2.0, 2.0, 5.0, 1.0],
            "reference": [1.0] * 6,
            "whole": [1.0] * 6,
        }
    )
    assert rr.rank_candidates(told, "partial").rows() == [(0, 1, 0), (0, 0, 1), (0, 2, 2), (1, 0, 0)]  # 4 < 5 = 5: the first said wins
    assert rr.rank_candidates(told.head(0), "biased").height == 0


def by_votes(rows: list[tuple[int, int, int, float, float]]) -> pl.DataFrame:
    """A table of losses from key, place, votes, victim and reference; a row for each segment."""
    told = pl.DataFrame(rows, schema=["key", "place", "votes", "victim", "reference"], orient="row")
    return told.with_columns(whole=pl.col("victim")).cast(pl.Schema(rr.LOSS_SCHEMA))


# (place, votes, victim, reference), a row for each segment; the order of places by `votes` and by `votes_subtract`
VOTED = {
    "more queries come first, whatever the loss": ([(0, 1, 0.1, 9), (1, 2, 9, 9)], [1, 0], [0, 1]),
    "the victim's loss tells equals apart, not the reference": ([(0, 2, 3, 9), (1, 2, 2, 2)], [1, 0], [0, 1]),
    "then the first said": ([(0, 2, 2, 2), (1, 2, 2, 2)], [0, 1], [0, 1]),
    "votes count once, losses in each segment": ([(0, 3, 2, 2), (0, 3, 2, 2), (1, 2, 2, 2.3), (1, 2, 2, 2.3)], [0, 1], [1, 0]),
    "ln 2 is worth 0.69 of loss": ([(0, 1, 1, 1.68), (1, 2, 1, 1)], [1, 0], [1, 0]),
    "and no more": ([(0, 1, 1, 1.7), (1, 2, 1, 1)], [1, 0], [0, 1]),
    "what cannot be scored is last of its equals": ([(0, 2, math.inf, 1), (1, 2, 9, 1), (2, 1, 1, 1)], [1, 0, 2], [2, 1, 0]),
}


@pytest.mark.parametrize("case", VOTED)
def test_votes(case: str) -> None:
    rows, votes, together = VOTED[case]
    told = by_votes([(0, place, times, victim, reference) for place, times, victim, reference in rows])
    for criterion, order in (("votes", votes), ("votes_subtract", together)):
        found = rr.rank_candidates(told, criterion)
        assert found["place"].to_list() == order and found["rank"].to_list() == list(range(len(order)))


@given(st.lists(st.tuples(LOSS, LOSS, st.integers(1, 40)), min_size=1, max_size=6))
def test_votes_are_those_of_a_slow_reading(rows: list[tuple[float, float, int]]) -> None:
    told = by_votes([(0, place, votes, victim, reference) for place, (victim, reference, votes) in enumerate(rows)])
    places = range(len(rows))
    assert rr.rank_candidates(told, "votes")["place"].to_list() == sorted(
        places, key=lambda place: (-rows[place][2], rows[place][0], place)
    )
    scores = {place: victim - reference - math.log(votes) for place, (victim, reference, votes) in enumerate(rows)}
    order = [scores[place] for place in rr.rank_candidates(told, "votes_subtract")["place"]]
    assert order == pytest.approx(sorted(order))  # equal to the last bit or not: rounding may turn them round
    for criterion, plain in rr.VOTE_CRITERIA.items():  # where all were said as often, votes say nothing
        same = told.with_columns(votes=pl.lit(3, pl.Int64))
        if len({round(score, 6) for score in rr.score_segments(told, plain)}) == len(rows):
            assert rr.rank_candidates(same, criterion).equals(rr.rank_candidates(same, plain))


# ---- success ----


@pytest.mark.parametrize(
    ("candidate", "truths", "hit", "exact", "f1"),
    [
        (ANN.upper(), [ANN], True, True, 1.0),
        (f"mail {ANN}", [ANN], True, False, 2 * 4 / 9),  # a part is enough; not the other way round
        ("ann.lee@example", [ANN], False, False, 2 * 3 / 7),
        ("Bo", [ANN, "bo"], True, True, 1.0),
        ("--", ["-"], True, False, 0.0),
        ("a a b", ["a b b"], False, False, 4 / 6),
    ],
)
def test_worth(candidate: str, truths: list[str], hit: bool, exact: bool, f1: float) -> None:
    assert rr._judge_candidate(candidate, truths) == (hit, exact, pytest.approx(f1))


def test_rates_by_hand() -> None:
    keys = RECORDS.keys
    found = pl.DataFrame(
        {"key": [0, 0, 1, 3], "place": [0, 1, 0, 0], "candidate": [BO, ANN, ANN, CY], "query": [0, 4, 1, 2], "votes": [1, 2, 1, 1]},
        schema=dict(rr.CANDIDATE_SCHEMA),
    )
    worth = rr.judge_candidates(RECORDS, found)
    told = pl.DataFrame(
        {"key": [0, 0, 1, 3], "place": [0, 1, 0, 0], "votes": [1, 2, 1, 1], "victim": [1.0, 2, 1, 1], "reference": [1.0, 9, 1, 1],
         "whole": [1.0] * 4}
    )  # fmt: skip
    plain, calibrated = rr.rank_candidates(told, "partial"), rr.rank_candidates(told, "ratio")
    assert rr.answer_accuracy(rr.select_answers(keys, worth, plain)) == 1 / 5  # two keys have no candidates, and are wrong
    assert rr.answer_accuracy(rr.select_answers(keys, worth, calibrated)) == 2 / 5
    assert [rr.recall_at_rank(keys, worth, plain, most) for most in (1, 2, None)] == [1 / 5, 2 / 5, 2 / 5]
    assert [rr.recall_after_queries(keys, worth, queries) for queries in (1, 3, 5)] == [0, 1 / 5, 2 / 5]
    assert rr.count_by_band(rr.select_answers(keys, worth, calibrated), "times", rr.OCCURRENCE_BANDS) == [
        {"from": 1, "to": 1, "keys": 4, "correct": 1}, {"from": 2, "to": 2, "keys": 1, "correct": 1}
    ]  # fmt: skip
    curve = rr.accuracy_by_b(keys, worth, told, (0.0, 1.0, 100.0, math.inf))
    assert [share for _, share in curve] == [2 / 5, 2 / 5, 1 / 5, 1 / 5] and rr.choose_best_b(curve) == 1.0


def test_nothing_to_attack() -> None:
    none = MaskedRecords.from_texts(["no label", ""], [{}, {}])
    worth = rr.judge_candidates(none, pl.DataFrame(schema=dict(rr.CANDIDATE_SCHEMA)))
    order = rr.rank_candidates(
        pl.DataFrame(schema=dict(rr.LOSS_SCHEMA)),
        "biased",
    )
    assert (
        rr.answer_accuracy(rr.select_answers(none.keys, worth, order))
        == 0
        == rr.recall_at_rank(none.keys, worth, order)
        == rr.recall_after_queries(none.keys, worth, 9)
    )
    assert rr.choose_best_b([]) == 1.0
