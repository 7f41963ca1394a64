"""The audit with models whose answers are known, and its counts against slow references."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.errors import OutputBroken, UsageError
from sanitize.eval.metrics import identifiers

tokenizers = pytest.importorskip("tokenizers")
transformers = pytest.importorskip("transformers")

TEXTS = [
    "Ada Example, born in Lyme, plays the oboe; the oboe is old.",
    "Bob Sample (room 12) was seen by Ada Example: no fjord, no Cafe\u0301!",
    "",
    "Straße 5, naïve 日本 x",
]
IDS = ["a", "b", "c", "d"]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    inner = tokenizers.Tokenizer(tokenizers.models.BPE())
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>", "<|mask|>"],
        show_progress=False,
    )
    inner.train_from_iterator(TEXTS, trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|endoftext|>", mask_token="<|mask|>")


class Known:
    """A model with given answers, by default the true tokens. It records its inputs."""

    def __init__(self, tokenizer: Any, answer: Any = None, context: int = 512) -> None:
        self.tokenizer, self.answer, self.context_length = (
            tokenizer,
            answer or (lambda row, places: [row[place] for place in places]),
            context,
        )
        self.asked: list[tuple[list[int], list[int]]] = []

    def fill_masks(self, sequences: Sequence[Sequence[int]], masked: Sequence[Sequence[int]]) -> list[list[int]]:
        self.asked += [(list(row), list(places)) for row, places in zip(sequences, masked, strict=True)]
        assert all(len(row) <= self.context_length for row in sequences)
        return [self.answer(row, places) for row, places in zip(sequences, masked, strict=True)]


def test_words_are_runs_of_letters_marks_and_numbers() -> None:
    words = identifiers.tokenize_words(TEXTS)
    assert words.filter(pl.col("doc") == 1)["word"].to_list() == "bob sample room 12 was seen by ada example no fjord no cafe\u0301".split()
    assert words.filter(pl.col("doc") == 3)["word"].to_list() == ["straße", "5", "naïve", "日本", "x"]
    for doc, _, word, start, stop in words.iter_rows():
        assert TEXTS[doc][start:stop].lower() == word


@pytest.mark.parametrize("folds", [1, 2, 7, 100])
@pytest.mark.parametrize("context", [12, 20, 512])
def test_every_word_is_hidden_once_and_whole(tokenizer: Any, folds: int, context: int) -> None:
    model = Known(tokenizer, context=context)
    table = identifiers.predict_hidden_words(model, TEXTS, IDS, folds=folds)
    expected = identifiers.tokenize_words(TEXTS)
    assert table.select("doc", "place", "word").rows() == expected.select("doc", "place", "word").rows()
    assert table["right"].all() and table.filter(pl.col("predicted") != pl.concat_list("word")).height == 0
    assert all(places for _, places in model.asked)
    if context == 512:
        assert len(model.asked) <= folds * 3
        # every token of a word is hidden in exactly one fill of its text
        for text in TEXTS:
            told = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
            hidden = Counter(place for row, places in model.asked if row == told["input_ids"] for place in places)
            inside = {
                at
                for at, (first, last) in enumerate(told["offset_mapping"])
                for _, start, stop in identifiers.tokenize_words([text]).select("word", "start", "end").iter_rows()
                if first < stop and last > start
            }
            assert hidden == Counter(dict.fromkeys(inside, 1))


def test_folds_hang_on_doc_id_and_seed_alone(tokenizer: Any) -> None:
    model, turned = Known(tokenizer), Known(tokenizer)
    identifiers.predict_hidden_words(model, TEXTS, IDS, folds=3)
    identifiers.predict_hidden_words(turned, TEXTS[::-1], IDS[::-1], folds=3)
    assert sorted(model.asked) == sorted(turned.asked)
    other = Known(tokenizer)
    identifiers.predict_hidden_words(other, TEXTS, IDS, folds=3, seed=1)
    assert sorted(other.asked) != sorted(model.asked)
    with pytest.raises(UsageError, match="folds = 0"):
        identifiers.predict_hidden_words(model, TEXTS, IDS, folds=0)


def test_a_word_too_long_for_the_context_is_left_out(tokenizer: Any) -> None:
    model = Known(tokenizer, context=6)
    table = identifiers.predict_hidden_words(model, ["oboe zqxjkvbwpyzqxjkvbwpy oboe"], ["a"])
    assert table["word"].to_list() == ["oboe", "oboe"] and table["right"].all()


def test_special_tokens_stand_around_each_piece() -> None:
    inner = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({"[CLS]": 0, "[SEP]": 1, "[UNK]": 2, "[MASK]": 3, "a": 4, "oboe": 5}, unk_token="[UNK]")
    )
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    inner.post_processor = tokenizers.processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 0), ("[SEP]", 1)])
    model = Known(transformers.PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]", mask_token="[MASK]"), context=5)
    table = identifiers.predict_hidden_words(model, ["oboe a oboe a"], ["x"], folds=1)
    assert table["right"].to_list() == [True] * 4
    assert model.asked == [([0, 5, 4, 5, 1], [1, 2, 3]), ([0, 4, 1], [1])]


def test_a_wrong_answer_counts_wherever_it_is_said(tokenizer: Any) -> None:
    oboe = tokenizer(" oboe", add_special_tokens=False)["input_ids"]
    model = Known(tokenizer, lambda row, places: [oboe[number % len(oboe)] for number in range(len(places))])
    table = identifiers.predict_hidden_words(model, TEXTS[1:2], ["b"], folds=100)
    if len(oboe) == 1:
        assert identifiers.count_identifiers(table, {"oboe", "fjord"})["oboe"] > 0
    nothing = Known(tokenizer, lambda row, places: [tokenizer(",", add_special_tokens=False)["input_ids"][0]] * len(places))
    table = identifiers.predict_hidden_words(nothing, TEXTS[:1], ["a"])
    assert table["predicted"].list.len().sum() == 0 and not table["right"].any()
    assert identifiers.count_identifiers(table, {"oboe"}) == Counter()


def frame(*texts: str, predicted: Sequence[str] | None = None, right: bool = True) -> pl.DataFrame:
    """A table of an audit: words by blank, and what was predicted for each ("-" for nothing, "a+b" for two words)."""
    told = predicted or texts
    rows = [
        (doc, place, word, right, [] if said == "-" else said.split("+"))
        for doc, (text, says) in enumerate(zip(texts, told, strict=True))
        for place, (word, said) in enumerate(zip(text.split(), says.split(), strict=True))
    ]
    return pl.DataFrame(rows, schema={**identifiers.WORD_SCHEMA, "right": pl.Boolean, "predicted": pl.List(pl.String)}, orient="row")


def test_what_is_said_word_for_word() -> None:
    table = frame("a b c", "b c a", predicted=["x y+z -", "y x y"])
    assert identifiers.count_identifiers(table, {"x", "y", "z", "w"}) == {"x": 2, "y": 3, "z": 1}
    assert identifiers.count_identifiers(table, {"x y", "y z", "z y", "x y z"}) == {"x y": 2, "y z": 1, "x y z": 1}
    assert identifiers.count_identifiers(table, {"b c", "a", "c b"}, column="word") == {"b c": 2, "a": 2}
    assert identifiers.count_identifiers(table, []) == Counter()


GRAMS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=3).map(" ".join)


@given(st.lists(st.lists(st.sampled_from("abcd"), max_size=8), max_size=4), st.sets(GRAMS, max_size=6))
def test_counts_and_cover_are_those_of_a_slow_reading(docs: list[list[str]], listed: set[str]) -> None:
    table = frame(*(" ".join(doc) for doc in docs))
    counted: Counter[str] = Counter()
    inside = []
    for doc in docs:
        hit = [False] * len(doc)
        for gram in listed:
            parts = gram.split()
            for at in range(len(doc) - len(parts) + 1):
                if doc[at : at + len(parts)] == parts:
                    counted[gram] += 1
                    hit[at : at + len(parts)] = [True] * len(parts)
        inside += hit
    assert identifiers.count_identifiers(table, listed, column="word") == counted
    assert identifiers.mark_covered_words(table, listed).to_list() == inside


def test_privacy_gross_and_net() -> None:
    result = identifiers.compute_privacy(["a", "b", "elsewhere"], ["a", "b", "c", "d"], base_leaked=["b", "d"])
    assert (result.gross, result.net) == (0.5, 0.75)
    assert identifiers.compute_privacy([], ["a"]).gross == 1.0 and identifiers.compute_privacy([], ["a"]).net is None
    empty = identifiers.compute_privacy(["a"], [], base_leaked=[])
    assert (empty.gross, empty.net) == (1.0, 1.0)


def test_accuracy_on_eligible_and_on_all_words() -> None:
    table = frame("a b c d").with_columns(pl.Series("right", [True, False, True, False]))
    assert identifiers.compute_word_accuracy(table, {"b", "x"}) == {"eligible": pytest.approx(2 / 3), "all": 0.5}
    assert identifiers.compute_word_accuracy(table, {"c d"}) == {"eligible": 0.5, "all": 0.5}
    assert identifiers.compute_word_accuracy(table, {"a", "b", "c", "d"}) == {"eligible": 0.0, "all": 0.5}
    assert identifiers.compute_word_accuracy(frame(), []) == {"eligible": 0.0, "all": 0.0}


def test_regurgitation_by_frequency() -> None:
    rows = identifiers.count_leaks_by_frequency({"a": 4, "d": 1}, {"a": 1, "b": 1, "c": 4, "d": 70}, bands=(1, 2, 5))
    assert rows == [
        {"from": 1, "to": 1, "identifiers": 2, "leaked": 1, "predictions": 4, "predictions_per_identifier": 2.0},
        {"from": 2, "to": 4, "identifiers": 1, "leaked": 0, "predictions": 0, "predictions_per_identifier": 0.0},
        {"from": 5, "to": None, "identifiers": 1, "leaked": 1, "predictions": 1, "predictions_per_identifier": 1.0},
    ]
    assert identifiers.count_leaks_by_frequency({}, {}) == []


def test_whose_identifiers_stand_where() -> None:
    own = identifiers.find_own_identifiers(TEXTS, ["ada", "bob", "eve", "ada"], {"fjord", "the oboe", "naïve", "absent"})
    assert own == {"ada": {"the oboe", "naïve"}, "bob": {"fjord"}, "eve": set()}


def test_a_blacklist_is_read_by_path(tmp_path: Path) -> None:
    rows = {
        "ngram": ["oboe", "ada example", "ada example"],
        "n": [1, 2, 2],
        "users": [1, None, 1],
        "reason": ["indirect", "direct", "indirect"],
    }
    (tmp_path / "blacklist").mkdir()
    pq.write_table(pa.table(rows), tmp_path / "blacklist" / "part-0.parquet")
    black = identifiers.IdentifierSets.read(tmp_path / "blacklist")
    assert black.direct == {"ada example"} and black.indirect == {"oboe", "ada example"} and len(black.combined) == 2
    assert "oboe" not in repr(black)
    assert identifiers.IdentifierSets.read(tmp_path / "blacklist" / "part-0.parquet").combined == black.combined
    pq.write_table(pa.table(rows).slice(0, 0), tmp_path / "empty.parquet")
    assert identifiers.IdentifierSets.read(tmp_path / "empty.parquet").combined == frozenset()
    with pytest.raises(UsageError, match="--plan blacklist"):
        identifiers.IdentifierSets.read(tmp_path / "none")
    (tmp_path / "broken.parquet").write_bytes(b"not parquet")
    with pytest.raises(OutputBroken, match="Run the plan again"):
        identifiers.IdentifierSets.read(tmp_path / "broken.parquet")
