"""Recollect and Rank by hand: where segments end, which tokens the losses cover, the criteria, and
undefined cases."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.errors import OutputBroken, PlanError, UsageError
from sanitize.eval import recollect_and_rank as rr
from sanitize.eval.language_model import LanguageModel
from sanitize.eval.metrics.reconstruction import run_attack, run_baselines
from sanitize.eval.recollect_and_rank import AttackSettings, MaskedRecords
from sanitize.eval.texts_and_prompts import find_values
from sanitize.eval.value_finder import make_value_finder
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings

ANN, BO, CY = "ann.lee@example.com", "bo.ray@example.org", "cy.fox@example.net"
LOSS = st.floats(1e-3, 50, allow_nan=False)


@pytest.fixture(scope="module")
def model(gpt2: Any, tokenizer: Any) -> LanguageModel:
    return LanguageModel.from_loaded(gpt2, tokenizer)


# ---- segments ----


@pytest.mark.parametrize(
    ("text", "label", "reach", "expected"),
    [
        ("Ann is [P-1].", "[P-1]", 300, [("Ann is ", ".")]),
        ("Ann is [P-1]", "[P-1]", 300, [("Ann is ", "")]),  # the label ends the text
        (
            "[P-1] is in",
            "[P-1]",
            300,
            [("", " is in")],
        ),  # no later label: the last character is kept
        ("[P-1]", "[P-1]", 300, [("", "")]),
        (
            "a [P-1] b [Q-1] c [P-1] d",
            "[P-1]",
            300,
            [("a ", " b"), ("c ", " d")],
        ),  # the outer ends are stripped
        ("a [P-1][Q-1] b", "[Q-1]", 300, [("", " b")]),
        (
            "abcdef [P-1] ghijkl",
            "[P-1]",
            3,
            [("ef ", " gh")],
        ),  # reach cuts on both sides, also where no label follows
        (
            "see [1] and [P-1] or [2]",
            "[P-1]",
            300,
            [("see [1] and ", " or [2]")],
        ),  # brackets that are no label do not end a segment
        (
            "[DATE_TIME-1] [DATE_TIME-12]",
            "[DATE_TIME-1]",
            300,
            [("", "")],
        ),  # a label is not a prefix of another
    ],
)
def test_segments(text: str, label: str, reach: int, expected: list[tuple[str, str]]) -> None:
    assert rr.cut_segments(text, label, reach) == expected


@given(
    st.lists(
        st.sampled_from(["[A-1]", "[A-2]", "[B_C-1]", " x ", ".", " é", "[", "]"]), max_size=12
    ),
    st.integers(0, 9),
)
def test_a_segment_holds_one_label(parts: list[str], reach: int) -> None:
    text = "".join(parts)
    for label in ("[A-1]", "[A-2]", "[B_C-1]"):
        segments = rr.cut_segments(text, label, reach)
        assert len(segments) == text.count(label)
        for before, after in segments:
            assert (
                before + label + after in text
                and not rr.LABEL_PATTERN.search(before)
                and not rr.LABEL_PATTERN.search(after)
            )
            assert len(before) <= reach and len(after) <= reach


@pytest.mark.parametrize(
    ("text", "label", "kept"),
    [
        ("One. Two [P-1]. Three. Four.", "[P-1]", "One. Two [P-1]. Three."),
        # a neighbour with another label is left out
        ("One [Q-1]. Two [P-1]. Three.", "[P-1]", "Two [P-1]. Three."),
        (
            "Two [P-1] and [Q-1]! Three. Four [P-1]?",
            "[P-1]",
            "Two [P-1] and [Q-1]! Three. Four [P-1]?",
        ),
        ("[P-1]", "[P-1]", "[P-1]"),
    ],
)
def test_sentences_around_a_label(text: str, label: str, kept: str) -> None:
    assert rr.find_sentences_around(text, label) == kept


# ---- records ----


def test_records_are_read_from_a_run_and_its_vault(tmp_path: Path) -> None:
    texts = [f"Ask {ANN} or {BO}. {ANN.upper()} knows.", "nothing here", f"{CY} has 212-555-0142."]
    (tmp_path / "raw").mkdir()
    pl.DataFrame({"doc_id": ["a", "b", "c"], "text": texts}).write_parquet(
        tmp_path / "raw" / "a.parquet"
    )
    settings = Settings(seed=1, workers=1)
    numbered = load_plan("redact", ("edit.0.label=numbered",))
    run_with_settings(
        [tmp_path / "raw"], tmp_path / "masked", numbered, tmp_path / "work", settings
    )
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
    assert (
        MaskedRecords.read(
            tmp_path / "masked", tmp_path / "work", kinds=["PHONE_NUMBER"]
        ).keys.height
        == 1
    )
    assert (
        MaskedRecords.read(tmp_path / "masked", tmp_path / "work", most=1).texts
        == records.texts[:1]
    )
    with pytest.raises(UsageError, match="EMAIL_ADDRESS"):
        MaskedRecords.read(tmp_path / "masked", tmp_path / "work", kinds=["EMAIL_ADRESS"])
    run_with_settings(
        [tmp_path / "raw"], tmp_path / "fixed", load_plan("redact"), tmp_path / "work", settings
    )
    with pytest.raises(UsageError, match="numbered"):
        MaskedRecords.read(tmp_path / "fixed", tmp_path / "work")
    with pytest.raises(UsageError, match="private folder"):
        MaskedRecords.read(tmp_path / "masked", tmp_path)
    for file in (tmp_path / "work" / "runs").glob("*/rows/*.parquet"):
        file.unlink()
    with pytest.raises(OutputBroken, match="run the plan again"):
        MaskedRecords.read(tmp_path / "masked", tmp_path / "work")


# ---- candidates ----


def replace_generation(
    monkeypatch: pytest.MonkeyPatch, completions: dict[str, list[str]]
) -> list[tuple[int, dict[str, Any]]]:
    """Replace the model's completions: the completions of the word that a prompt contains, in turn.
    Returns the list of calls."""
    calls: list[tuple[int, dict[str, Any]]] = []

    def generate(self: LanguageModel, prompts: list[list[int]], **options: Any) -> list[list[int]]:
        calls.append((len(prompts), options))
        next_completion: dict[str, int] = {}
        generated = []
        for prompt in self.decode(prompts):
            word = next(word for word in completions if word in prompt)
            generated.append(
                completions[word][next_completion.get(word, 0) % len(completions[word])]
            )
            next_completion[word] = next_completion.get(word, 0) + 1
        return self.encode(generated)

    monkeypatch.setattr(LanguageModel, "generate", generate)
    monkeypatch.setattr(LanguageModel, "context_length", property(lambda self: 4096))
    return calls


RECORDS = MaskedRecords.from_texts(
    [
        "alpha [EMAIL_ADDRESS-1] and [EMAIL_ADDRESS-2]. [PHONE_NUMBER-1] too [EMAIL_ADDRESS-1].",
        "beta [EMAIL_ADDRESS-1]",
        "gamma [PERSON-1]",
    ],
    [
        {
            "[EMAIL_ADDRESS-1]": [ANN],
            "[EMAIL_ADDRESS-2]": [BO],
            "[PHONE_NUMBER-1]": ["212-555-0142"],
        },
        {"[EMAIL_ADDRESS-1]": [CY], "[EMAIL_ADDRESS-9]": ["is not there"]},
        {"[PERSON-1]": ["Di"]},
    ],
)


def test_candidates_are_values_that_the_finder_reports(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    completions = {
        "alpha": [
            f"alpha {BO} and {ANN}.",
            f"alpha {ANN} 212-555-0142 [EMAIL_ADDRESS-2]",
            "nothing",
        ],
        "beta": [f"{ANN.upper()} or {ANN}", f"<|{CY}|>", "x" * 60 + "@example.com"],
        "gamma": ["today"],
    }
    calls = replace_generation(monkeypatch, completions)
    candidates = rr.recollect_candidates(model, RECORDS, AttackSettings(queries=3, longest=50))
    assert (
        calls[0][0] == 9 and calls[0][1]["temperature"] == 1.2 and calls[0][1]["mode"] == "sample"
    )
    candidates_by_key = {
        key: rows.select("candidate", "query").rows()
        for (key,), rows in candidates.partition_by("key", as_dict=True).items()
    }
    both_candidates = [(BO, 0), (ANN, 0)]
    # all keys of a text and a kind share the candidates of its completions
    assert candidates_by_key[0] == both_candidates and candidates_by_key[1] == both_candidates
    assert candidates_by_key[2] == [("212-555-0142", 1)]
    # spellings are distinguished, the longest address is left out
    assert candidates_by_key[3] == [(ANN.upper(), 0), (ANN, 0), (CY, 1)]
    assert 4 not in candidates_by_key  # no value of its kind was generated
    assert candidates["place"].to_list() == [0, 1, 0, 1, 0, 0, 1, 2]
    votes = candidates.filter(pl.col("key").is_in([0, 3])).select("key", "votes").rows()
    assert votes == [
        (0, 1),
        (0, 2),
        (3, 1),
        (3, 1),
        (3, 1),
    ]  # two of three completions contain ANN; spellings are counted separately


def test_a_query_has_one_vote(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_generation(
        monkeypatch, {"beta": [f"{ANN} {ANN} {ANN}", f"{BO}", f"{BO} {ANN}", f"{BO}"]}
    )
    records = MaskedRecords.from_texts(["beta [EMAIL_ADDRESS-1]"], [{"[EMAIL_ADDRESS-1]": [BO]}])
    candidates = rr.recollect_candidates(model, records, AttackSettings(queries=4))
    assert candidates.select("candidate", "query", "votes").rows() == [(ANN, 0, 2), (BO, 1, 3)]
    losses = rr.compute_candidate_losses(model, model, records, candidates, AttackSettings())
    assert losses["votes"].to_list() == [2, 3]
    assert (
        rr.answer_accuracy(
            rr.select_answers(
                records.keys,
                rr.judge_candidates(records, candidates),
                rr.rank_candidates(losses, "votes"),
            )
        )
        == 1
    )


def test_custom_finders_and_labels_as_values(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_generation(monkeypatch, {"gamma": ["Today", "Di [PERSON-1]"]})

    def finder(texts: Any) -> pl.DataFrame:
        rows = [
            (number, 0, len(text), "PERSON", text.split(" ")[0])
            for number, text in enumerate(texts)
        ]
        rows += [
            (number, 3, len(text), "PERSON", "[PERSON-1]")
            for number, text in enumerate(texts)
            if "[" in text
        ]
        return pl.DataFrame(rows, schema=["text_no", "start", "end", "kind", "value"], orient="row")

    records = MaskedRecords.from_texts(["gamma [PERSON-1]"], [{"[PERSON-1]": ["Di"]}])
    assert rr.recollect_candidates(model, records, AttackSettings(queries=2), finder)[
        "candidate"
    ].to_list() == ["Di"]


GENERATED_TEXTS = [
    "Dear Ann Larsson, ü say bo.ray@example.com. Regards, John Smith",
    "",
    "From: Mary Jones <mj@example.net>\nTo: x@example.org\n\nHi",
]


def test_value_finders_of_named_finders() -> None:
    def find_with(*finders: Any) -> list[tuple[Any, ...]]:
        values = make_value_finder(finders)(GENERATED_TEXTS)
        for text_no, start, stop, _, value in values.rows():
            assert GENERATED_TEXTS[text_no][start:stop] == value
        return values.select("text_no", "kind", "value").rows()

    mails = [
        (0, "EMAIL_ADDRESS", "bo.ray@example.com"),
        (2, "EMAIL_ADDRESS", "mj@example.net"),
        (2, "EMAIL_ADDRESS", "x@example.org"),
    ]
    persons = [
        (0, "PERSON", "Ann Larsson"),
        (0, "PERSON", "John Smith"),
        (2, "PERSON", "Mary Jones"),
    ]
    assert (
        find_with("patterns")
        == mails
        == find_values(GENERATED_TEXTS).select("text_no", "kind", "value").rows()
    )
    # names runs after patterns, whose values count only if it is named
    assert find_with("names") == persons
    assert find_with({"use": "names", "prose": False}) == persons[2:]
    assert sorted(find_with("patterns", "names")) == sorted(mails + persons)
    assert make_value_finder(["names"])([]).height == 0


@pytest.mark.parametrize(
    ("finders", "error", "message"),
    [
        ([], UsageError, "is empty"),
        (["nmes"], PlanError, r"finders\[0\]\.use = 'nmes'.*did you mean names"),
        (
            ["patterns", {"use": "names", "prosy": True}],
            PlanError,
            r"finders\[1\]\.prosy: unknown key",
        ),
        (["known"], UsageError, "documents of a corpus"),
        ([{"use": "spans", "path": "x.csv"}], UsageError, "documents of a corpus"),
    ],
)
def test_invalid_finders_are_refused(
    finders: list[Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make_value_finder(finders)


def test_the_metric_uses_the_named_finders(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the text before the label is the word, for the baselines too
    replace_generation(monkeypatch, {"gamma": ["my name is Ann Larsson"]})
    records = MaskedRecords.from_texts(["gamma [PERSON-1]"], [{"[PERSON-1]": ["Ann Larsson"]}])
    attack = AttackSettings(queries=2)
    assert run_attack(model, model, records, attack)["recall"] == 0  # patterns finds no names
    results = run_attack(model, model, records, attack, value_finder=make_value_finder(["names"]))
    assert results["recall"] == results["top1"] == 1
    baselines = run_baselines(
        model, records, attack, queries=2, value_finder=make_value_finder(["names"])
    )
    assert baselines == {"direct": 1, "tab": 1, "p2p": 1, "p2p_recall": 1, "p2p_votes": 1}


def test_one_prompt_for_each_key(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = replace_generation(
        monkeypatch,
        {
            "<[EMAIL_ADDRESS-1]>": [ANN],
            "<[EMAIL_ADDRESS-2]>": [BO],
            "<[PHONE_NUMBER-1]>": [""],
            "<[PERSON-1]>": [CY],
        },
    )
    candidates = rr.recollect_candidates(
        model, RECORDS, AttackSettings(layout="key", queries=2, key_prompt="{text} <{key}>")
    )
    assert calls[0][0] == 10
    assert candidates.select("key", "candidate").rows() == [(0, ANN), (1, BO), (3, ANN)]


def test_a_text_longer_than_the_context_is_skipped(model: LanguageModel) -> None:
    records = MaskedRecords.from_texts(
        ["word " * 20 + "[EMAIL_ADDRESS-1]", "[EMAIL_ADDRESS-1]"],
        [{"[EMAIL_ADDRESS-1]": [ANN]}] * 2,
    )
    candidates = rr.recollect_candidates(
        model, records, AttackSettings(queries=2, whole_prompt="{text}")
    )
    assert 0 not in candidates["key"].to_list()
    assert (
        rr.recollect_candidates(
            model, MaskedRecords.from_texts([], []), AttackSettings(whole_prompt="{text}")
        ).height
        == 0
    )


def test_chat_prompts_need_a_template(model: LanguageModel) -> None:
    with pytest.raises(UsageError, match="chat template"):
        rr.recollect_candidates(model, RECORDS, AttackSettings(chat=True))


def test_chat_prompts_are_wrapped(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        model.tokenizer,
        "chat_template",
        "{% for one in messages %}<<{{ one.content }}>>{% endfor %}",
    )
    calls = replace_generation(monkeypatch, {"<<alpha": [ANN], "<<beta": [BO], "<<gamma": [CY]})
    rr.recollect_candidates(
        model, RECORDS, AttackSettings(queries=1, chat=True, whole_prompt="{text}")
    )
    assert calls[0][0] == 3


def test_prompts_of_the_baselines(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rr._label_prefixes(RECORDS) == [["alpha", "too"], ["and"], ["."], ["beta"], ["gamma"]]
    long_record = MaskedRecords.from_texts(
        [" ".join(map(str, range(30))) + " [A-1] [B-1]"], [{"[A-1]": ["x"], "[B-1]": ["y"]}]
    )
    assert rr._label_prefixes(long_record) == [[" ".join(map(str, range(10, 30)))], [""]]
    calls = replace_generation(
        monkeypatch,
        {
            "alpha": [ANN],
            "too": [BO],
            "and": [f"{CY} {BO}"],
            ".": ["212-555-0142"],
            "beta": [""],
            "gamma": [""],
        },
    )
    tab = rr.tab_candidates(model, RECORDS, AttackSettings())
    assert (
        calls[0][0] == 5
        and calls[0][1]["top_k"] == 40
        and calls[0][1]["top_p"] is None
        and calls[0][1]["new_tokens"] == 16
    )
    assert tab.select("key", "candidate").rows() == [
        (0, ANN),
        (1, CY),
        (1, BO),
        (2, "212-555-0142"),
    ]
    p2p = rr.p2p_candidates(model, RECORDS, AttackSettings(), queries=4)
    assert calls[1][0] == 20
    # its occurrences in turn
    assert p2p.filter(pl.col("key") == 0).select("candidate", "query").rows() == [(ANN, 0), (BO, 1)]
    direct = rr.direct_prompt_candidates(
        model, RECORDS, AttackSettings(direct_prompt="{text} = {key}")
    )
    assert calls[2][0] == 5 and calls[2][1]["temperature"] == 1.0
    # a wrong kind is no candidate
    assert direct.select("key", "candidate").rows() == [(0, ANN), (1, ANN)]


def test_invalid_attack_settings_are_refused() -> None:
    for invalid in ({"queries": 0}, {"b": -1.0}, {"b": math.nan}, {"reach": -1}):
        with pytest.raises(UsageError, match="needs"):
            AttackSettings(**invalid)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"has no \{key\}"):
        AttackSettings(key_prompt="{text}")


# ---- losses and criteria ----


def compute_reference_losses(
    model: LanguageModel, before: str, candidate: str, after: str
) -> tuple[float, float]:
    """The two mean losses of a segment, byte by byte: the tokenizer of these tests has one token
    per byte."""
    ids = [model.tokenizer.bos_token_id, *model.encode([before + candidate + after])[0]]
    (row,) = model.token_losses([ids])
    first = len(before.encode())
    return float(row[first:].mean()), float(row.mean())


def test_losses_cover_the_candidate_and_the_text_after_it(model: LanguageModel) -> None:
    cases = [
        ("ab ", "cd", " ef"),
        ("", "cd", ""),
        ("é ", "ü", "."),
        ("x" * 70 + " ", "y", " z"),
        ("ab ", "c", ""),
    ]
    partial, complete = rr.compute_segment_losses(model, *map(list, zip(*cases, strict=True)))
    for number, case in enumerate(cases):
        assert (partial[number], complete[number]) == pytest.approx(
            compute_reference_losses(model, *case), rel=1e-5
        )
    assert [len(losses) for losses in rr.compute_segment_losses(model, [], [], [])] == [0, 0]


def test_a_segment_that_begins_with_its_label_scores_the_first_token(model: LanguageModel) -> None:
    partial, complete = rr.compute_segment_losses(model, ["", ""], ["a", ""], ["", ""])
    assert np.isfinite(partial[0]) and partial[0] == complete[0]
    assert np.isinf(partial[1]) and np.isinf(complete[1])  # no token is scored


def test_losses_table(model: LanguageModel, gpt2: Any, tokenizer: Any) -> None:
    rows = {
        "key": [0, 0, 3],
        "place": [0, 1, 0],
        "candidate": [ANN, BO, CY],
        "query": [0, 0, 0],
        "votes": [1, 2, 1],
    }
    candidates = pl.DataFrame(rows, schema=dict(rr.CANDIDATE_SCHEMA))
    losses = rr.compute_candidate_losses(model, model, RECORDS, candidates, AttackSettings())
    assert losses.select("key", "place").rows() == [
        (0, 0),
        (0, 0),
        (0, 1),
        (0, 1),
        (3, 0),
    ]  # two occurrences of the label, and one in the other text
    assert (losses["victim"] == losses["reference"]).all()
    assert losses["victim"][4] == pytest.approx(
        compute_reference_losses(model, "beta ", CY, "")[0], rel=1e-5
    )
    assert (
        rr.compute_candidate_losses(model, None, RECORDS, candidates, AttackSettings())[
            "reference"
        ].to_list()
        == [0.0] * 5
    )


@given(LOSS, LOSS, LOSS, LOSS, st.floats(1e-6, 100))
def test_theorem_3_1(v1: float, v2: float, r1: float, r2: float, b: float) -> None:
    """The candidate with the lower loss and the lower ratio has the lower score for every b; cases
    within rounding are skipped."""
    if v1 < v2 and v1 / r1 < v2 / r2:
        first, second = rr.biased_score(np.array([v1, v2]), np.array([r1, r2]), b)
        assert first <= second
        if v2 - v1 > 1e-9 * v2 and v2 / r2 - v1 / r1 > 1e-9 * v2 / r2:
            assert first < second


@given(
    st.lists(
        st.tuples(LOSS, LOSS), min_size=2, max_size=8, unique_by=lambda pair: round(pair[0], 2)
    )
)
def test_a_large_b_is_the_order_of_the_victims_loss(pairs: list[tuple[float, float]]) -> None:
    victim, reference = np.array(pairs).T
    assert np.array_equal(np.argsort(rr.biased_score(victim, reference, 1e9)), np.argsort(victim))
    assert np.array_equal(rr.biased_score(victim, reference, math.inf), victim)


def test_criteria_by_hand() -> None:
    losses = pl.DataFrame(
        {
            "victim": [1.0, 3.0, math.inf],
            "reference": [2.0, 0.0, math.inf],
            "whole": [5.0, 6.0, math.inf],
        }
    )
    assert rr.score_segments(losses, "vanilla").tolist() == [5, 6, math.inf]
    assert rr.score_segments(losses, "partial").tolist() == [1, 3, math.inf]
    assert rr.score_segments(losses, "subtract").tolist() == [-1, 3, math.inf]
    # a reference loss of 0 becomes 1e-6
    assert rr.score_segments(losses, "ratio") == pytest.approx([-0.5, 3e6 - 1, math.inf], rel=1e-5)
    assert rr.score_segments(losses, "biased", 2.0) == pytest.approx(
        [(1 - 2 - 2) / (2 + 2), (3 - 0 - 2) / (0 + 2), math.inf]
    )
    for name, suggestion in (("vanila", "vanilla"), ("vote", "votes")):
        with pytest.raises(UsageError, match=suggestion):
            rr.score_segments(losses, name)
    with pytest.raises(UsageError, match="b = -1"):
        rr.biased_score(np.ones(1), np.ones(1), -1)


def test_sums_over_segments_and_ties() -> None:
    losses = pl.DataFrame(
        {
            "key": [0, 0, 0, 0, 0, 1],
            "place": [0, 0, 1, 1, 2, 0],
            "votes": [1, 1, 1, 1, 1, 1],
            "victim": [1.0, 4.0, 2.0, 2.0, 5.0, 1.0],
            "reference": [1.0] * 6,
            "whole": [1.0] * 6,
        }
    )
    assert rr.rank_candidates(losses, "partial").rows() == [
        (0, 1, 0),
        (0, 0, 1),
        (0, 2, 2),
        (1, 0, 0),
    ]  # 4 < 5 = 5: the first generated wins
    assert rr.rank_candidates(losses.head(0), "biased").height == 0


def build_loss_table(rows: list[tuple[int, int, int, float, float]]) -> pl.DataFrame:
    """A table of losses from key, place, votes, victim and reference; a row for each segment."""
    losses = pl.DataFrame(
        rows, schema=["key", "place", "votes", "victim", "reference"], orient="row"
    )
    return losses.with_columns(whole=pl.col("victim")).cast(pl.Schema(rr.LOSS_SCHEMA))


# (place, votes, victim, reference), a row for each segment; the order of places by `votes` and by
# `votes_subtract`
VOTE_CASES = {
    "more queries come first, whatever the loss": ([(0, 1, 0.1, 9), (1, 2, 9, 9)], [1, 0], [0, 1]),
    "the victim's loss decides ties, not the reference": (
        [(0, 2, 3, 9), (1, 2, 2, 2)],
        [1, 0],
        [0, 1],
    ),
    "then the first generated": ([(0, 2, 2, 2), (1, 2, 2, 2)], [0, 1], [0, 1]),
    "votes count once, losses in each segment": (
        [(0, 3, 2, 2), (0, 3, 2, 2), (1, 2, 2, 2.3), (1, 2, 2, 2.3)],
        [0, 1],
        [1, 0],
    ),
    "ln 2 is worth 0.69 of loss": ([(0, 1, 1, 1.68), (1, 2, 1, 1)], [1, 0], [1, 0]),
    "ln 2 is worth no more": ([(0, 1, 1, 1.7), (1, 2, 1, 1)], [1, 0], [0, 1]),
    "a candidate without a score is last among ties": (
        [(0, 2, math.inf, 1), (1, 2, 9, 1), (2, 1, 1, 1)],
        [1, 0, 2],
        [2, 1, 0],
    ),
}


@pytest.mark.parametrize("case", VOTE_CASES)
def test_ranks_by_votes(case: str) -> None:
    rows, votes, votes_subtract = VOTE_CASES[case]
    losses = build_loss_table(
        [(0, place, times, victim, reference) for place, times, victim, reference in rows]
    )
    for criterion, order in (("votes", votes), ("votes_subtract", votes_subtract)):
        ranked = rr.rank_candidates(losses, criterion)
        assert ranked["place"].to_list() == order and ranked["rank"].to_list() == list(
            range(len(order))
        )


@given(st.lists(st.tuples(LOSS, LOSS, st.integers(1, 40)), min_size=1, max_size=6))
def test_vote_criteria_equal_the_reference(rows: list[tuple[float, float, int]]) -> None:
    losses = build_loss_table(
        [
            (0, place, votes, victim, reference)
            for place, (victim, reference, votes) in enumerate(rows)
        ]
    )
    places = range(len(rows))
    assert rr.rank_candidates(losses, "votes")["place"].to_list() == sorted(
        places, key=lambda place: (-rows[place][2], rows[place][0], place)
    )
    scores = {
        place: victim - reference - math.log(votes)
        for place, (victim, reference, votes) in enumerate(rows)
    }
    order = [scores[place] for place in rr.rank_candidates(losses, "votes_subtract")["place"]]
    assert order == pytest.approx(sorted(order))  # rounding may swap equal scores
    for (
        criterion,
        plain,
    ) in rr.VOTE_CRITERIA.items():  # with equal votes the order is that of the plain criterion
        equal_votes = losses.with_columns(votes=pl.lit(3, pl.Int64))
        if len({round(score, 6) for score in rr.score_segments(losses, plain)}) == len(rows):
            assert rr.rank_candidates(equal_votes, criterion).equals(
                rr.rank_candidates(equal_votes, plain)
            )


# ---- success ----


@pytest.mark.parametrize(
    ("candidate", "truths", "hit", "exact", "f1"),
    [
        (ANN.upper(), [ANN], True, True, 1.0),
        (
            f"mail {ANN}",
            [ANN],
            True,
            False,
            2 * 4 / 9,
        ),  # the candidate may contain the value, but not the reverse
        ("ann.lee@example", [ANN], False, False, 2 * 3 / 7),
        ("Bo", [ANN, "bo"], True, True, 1.0),
        ("--", ["-"], True, False, 0.0),
        ("a a b", ["a b b"], False, False, 4 / 6),
    ],
)
def test_judged_candidates(
    candidate: str, truths: list[str], hit: bool, exact: bool, f1: float
) -> None:
    assert rr._judge_candidate(candidate, truths) == (hit, exact, pytest.approx(f1))


def test_rates_by_hand() -> None:
    keys = RECORDS.keys
    candidates = pl.DataFrame(
        {
            "key": [0, 0, 1, 3],
            "place": [0, 1, 0, 0],
            "candidate": [BO, ANN, ANN, CY],
            "query": [0, 4, 1, 2],
            "votes": [1, 2, 1, 1],
        },
        schema=dict(rr.CANDIDATE_SCHEMA),
    )
    worth = rr.judge_candidates(RECORDS, candidates)
    losses = pl.DataFrame(
        {
            "key": [0, 0, 1, 3],
            "place": [0, 1, 0, 0],
            "votes": [1, 2, 1, 1],
            "victim": [1.0, 2, 1, 1],
            "reference": [1.0, 9, 1, 1],
            "whole": [1.0] * 4,
        }
    )
    plain, calibrated = rr.rank_candidates(losses, "partial"), rr.rank_candidates(losses, "ratio")
    # two keys have no candidates, and are wrong
    assert rr.answer_accuracy(rr.select_answers(keys, worth, plain)) == 1 / 5
    assert rr.answer_accuracy(rr.select_answers(keys, worth, calibrated)) == 2 / 5
    assert [rr.recall_at_rank(keys, worth, plain, most) for most in (1, 2, None)] == [
        1 / 5,
        2 / 5,
        2 / 5,
    ]
    assert [rr.recall_after_queries(keys, worth, queries) for queries in (1, 3, 5)] == [
        0,
        1 / 5,
        2 / 5,
    ]
    assert rr.count_by_band(
        rr.select_answers(keys, worth, calibrated), "times", rr.OCCURRENCE_BANDS
    ) == [
        {"from": 1, "to": 1, "keys": 4, "correct": 1},
        {"from": 2, "to": 2, "keys": 1, "correct": 1},
    ]
    curve = rr.accuracy_by_b(keys, worth, losses, (0.0, 1.0, 100.0, math.inf))
    assert [share for _, share in curve] == [2 / 5, 2 / 5, 1 / 5, 1 / 5] and rr.choose_best_b(
        curve
    ) == 1.0


def test_records_without_labels() -> None:
    records = MaskedRecords.from_texts(["no label", ""], [{}, {}])
    worth = rr.judge_candidates(records, pl.DataFrame(schema=dict(rr.CANDIDATE_SCHEMA)))
    order = rr.rank_candidates(
        pl.DataFrame(schema=dict(rr.LOSS_SCHEMA)),
        "biased",
    )
    assert (
        rr.answer_accuracy(rr.select_answers(records.keys, worth, order))
        == 0
        == rr.recall_at_rank(records.keys, worth, order)
        == rr.recall_after_queries(records.keys, worth, 9)
    )
    assert rr.choose_best_b([]) == 1.0
