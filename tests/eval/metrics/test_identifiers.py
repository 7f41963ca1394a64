"""The audit with models whose answers are known, and its counts against plain references."""

from __future__ import annotations

import unicodedata
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

from sanitize.errors import InputRefused, OutputBroken, UsageError
from sanitize.eval.language_model import LanguageModel
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
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<|endoftext|>", mask_token="<|mask|>"
    )


class FakeModel:
    """A model with given predictions, by default the true tokens. It records its inputs."""

    special_ids = LanguageModel.special_ids

    def __init__(self, tokenizer: Any, predict: Any = None, context: int = 512) -> None:
        self.tokenizer, self.predict, self.context_length = (
            tokenizer,
            predict or (lambda row, positions: [row[position] for position in positions]),
            context,
        )
        self.calls: list[tuple[list[int], list[int]]] = []

    def fill_masks(
        self, sequences: Sequence[Sequence[int]], masked: Sequence[Sequence[int]]
    ) -> list[list[int]]:
        self.calls += [
            (list(row), list(positions)) for row, positions in zip(sequences, masked, strict=True)
        ]
        assert all(len(row) <= self.context_length for row in sequences)
        return [
            self.predict(row, positions) for row, positions in zip(sequences, masked, strict=True)
        ]


def test_words_are_runs_of_letters_marks_and_numbers() -> None:
    words = identifiers.tokenize_words(TEXTS)
    assert (
        words.filter(pl.col("doc") == 1)["word"].to_list()
        == "bob sample room 12 was seen by ada example no fjord no caf\u00e9".split()
    )
    assert words.filter(pl.col("doc") == 3)["word"].to_list() == [
        "straße",
        "5",
        "naïve",
        "日本",
        "x",
    ]
    for doc, _, word, start, stop in words.iter_rows():
        assert unicodedata.normalize("NFC", TEXTS[doc][start:stop].lower()) == word


@pytest.mark.parametrize("folds", [1, 2, 7, 100])
@pytest.mark.parametrize("context", [12, 20, 512])
def test_every_word_is_masked_once_and_completely(tokenizer: Any, folds: int, context: int) -> None:
    model = FakeModel(tokenizer, context=context)
    table = identifiers.predict_hidden_words(model, TEXTS, IDS, folds=folds)
    expected = identifiers.tokenize_words(TEXTS)
    assert (
        table.select("doc", "place", "word").rows()
        == expected.select("doc", "place", "word").rows()
    )
    assert (
        table["right"].all()
        and table.filter(pl.col("predicted") != pl.concat_list("word")).height == 0
    )
    assert all(positions for _, positions in model.calls)
    if context == 512:
        assert len(model.calls) <= folds * 3
        # every token of a word is hidden in exactly one fill of its text
        for text in TEXTS:
            encoding = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
            hidden = Counter(
                position
                for row, positions in model.calls
                if row == encoding["input_ids"]
                for position in positions
            )
            inside = {
                index
                for index, (first, last) in enumerate(encoding["offset_mapping"])
                for _, start, stop in identifiers.tokenize_words([text])
                .select("word", "start", "end")
                .iter_rows()
                if first < stop and last > start
            }
            assert hidden == Counter(dict.fromkeys(inside, 1))


def test_folds_depend_on_doc_id_and_seed_only(tokenizer: Any) -> None:
    model, reversed_model = FakeModel(tokenizer), FakeModel(tokenizer)
    identifiers.predict_hidden_words(model, TEXTS, IDS, folds=3)
    identifiers.predict_hidden_words(reversed_model, TEXTS[::-1], IDS[::-1], folds=3)
    assert sorted(model.calls) == sorted(reversed_model.calls)
    reseeded_model = FakeModel(tokenizer)
    identifiers.predict_hidden_words(reseeded_model, TEXTS, IDS, folds=3, seed=1)
    assert sorted(reseeded_model.calls) != sorted(model.calls)
    with pytest.raises(UsageError, match="folds = 0"):
        identifiers.predict_hidden_words(model, TEXTS, IDS, folds=0)


def test_a_word_too_long_for_the_context_is_left_out(tokenizer: Any) -> None:
    model = FakeModel(tokenizer, context=6)
    table = identifiers.predict_hidden_words(model, ["oboe zqxjkvbwpyzqxjkvbwpy oboe"], ["a"])
    assert table["word"].to_list() == ["oboe", "oboe"] and table["right"].all()


def test_special_tokens_surround_each_piece() -> None:
    inner = tokenizers.Tokenizer(
        tokenizers.models.WordLevel(
            {"[CLS]": 0, "[SEP]": 1, "[UNK]": 2, "[MASK]": 3, "a": 4, "oboe": 5}, unk_token="[UNK]"
        )
    )
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    inner.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 0), ("[SEP]", 1)]
    )
    model = FakeModel(
        transformers.PreTrainedTokenizerFast(
            tokenizer_object=inner, unk_token="[UNK]", mask_token="[MASK]"
        ),
        context=5,
    )
    table = identifiers.predict_hidden_words(model, ["oboe a oboe a"], ["x"], folds=1)
    assert table["right"].to_list() == [True] * 4
    assert model.calls == [([0, 5, 4, 5, 1], [1, 2, 3]), ([0, 4, 1], [1])]


def test_a_wrong_prediction_counts_at_every_position(tokenizer: Any) -> None:
    oboe = tokenizer(" oboe", add_special_tokens=False)["input_ids"]
    model = FakeModel(
        tokenizer,
        lambda row, positions: [oboe[number % len(oboe)] for number in range(len(positions))],
    )
    table = identifiers.predict_hidden_words(model, TEXTS[1:2], ["b"], folds=100)
    if len(oboe) == 1:
        assert identifiers.count_identifiers(table, {"oboe", "fjord"})["oboe"] > 0
    empty_model = FakeModel(
        tokenizer,
        lambda row, positions: (
            [tokenizer(",", add_special_tokens=False)["input_ids"][0]] * len(positions)
        ),
    )
    table = identifiers.predict_hidden_words(empty_model, TEXTS[:1], ["a"])
    assert table["predicted"].list.len().sum() == 0 and not table["right"].any()
    assert identifiers.count_identifiers(table, {"oboe"}) == Counter()


def build_audit_table(
    *texts: str, predicted: Sequence[str] | None = None, right: bool = True
) -> pl.DataFrame:
    """A table of an audit: words by blank, and what was predicted for each ("-" for nothing, "a+b"
    for two words)."""
    predictions = predicted or texts
    rows = [
        (doc, position, word, right, [] if prediction == "-" else prediction.split("+"))
        for doc, (text, predicted_text) in enumerate(zip(texts, predictions, strict=True))
        for position, (word, prediction) in enumerate(
            zip(text.split(), predicted_text.split(), strict=True)
        )
    ]
    return pl.DataFrame(
        rows,
        schema={**identifiers.WORD_SCHEMA, "right": pl.Boolean, "predicted": pl.List(pl.String)},
        orient="row",
    )


def test_predicted_identifiers_are_counted() -> None:
    table = build_audit_table("a b c", "b c a", predicted=["x y+z -", "y x y"])
    assert identifiers.count_identifiers(table, {"x", "y", "z", "w"}) == {"x": 2, "y": 3, "z": 1}
    assert identifiers.count_identifiers(table, {"x y", "y z", "z y", "x y z"}) == {
        "x y": 2,
        "y z": 1,
        "x y z": 1,
    }
    assert identifiers.count_identifiers(table, {"b c", "a", "c b"}, column="word") == {
        "b c": 2,
        "a": 2,
    }
    assert identifiers.count_identifiers(table, []) == Counter()


GRAMS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=3).map(" ".join)


@given(
    st.lists(st.lists(st.sampled_from("abcd"), max_size=8), max_size=4), st.sets(GRAMS, max_size=6)
)
def test_counts_and_cover_equal_the_reference(docs: list[list[str]], listed: set[str]) -> None:
    table = build_audit_table(*(" ".join(doc) for doc in docs))
    counted: Counter[str] = Counter()
    covered_words = []
    for doc in docs:
        covered = [False] * len(doc)
        for gram in listed:
            parts = gram.split()
            for start in range(len(doc) - len(parts) + 1):
                if doc[start : start + len(parts)] == parts:
                    counted[gram] += 1
                    covered[start : start + len(parts)] = [True] * len(parts)
        covered_words += covered
    assert identifiers.count_identifiers(table, listed, column="word") == counted
    assert identifiers.mark_covered_words(table, listed).to_list() == covered_words


def test_privacy_gross_and_net() -> None:
    result = identifiers.compute_privacy(
        ["a", "b", "elsewhere"], ["a", "b", "c", "d"], base_leaked=["b", "d"]
    )
    assert (result.gross, result.net) == (0.5, 0.75)
    assert (
        identifiers.compute_privacy([], ["a"]).gross == 1.0
        and identifiers.compute_privacy([], ["a"]).net is None
    )
    empty = identifiers.compute_privacy(["a"], [], base_leaked=[])
    assert (empty.gross, empty.net) == (1.0, 1.0)


def test_accuracy_on_eligible_and_on_all_words() -> None:
    table = build_audit_table("a b c d").with_columns(
        pl.Series("right", [True, False, True, False])
    )
    assert identifiers.compute_word_accuracy(table, {"b", "x"}) == {
        "eligible": pytest.approx(2 / 3),
        "all": 0.5,
    }
    assert identifiers.compute_word_accuracy(table, {"c d"}) == {"eligible": 0.5, "all": 0.5}
    assert identifiers.compute_word_accuracy(table, {"a", "b", "c", "d"}) == {
        "eligible": 0.0,
        "all": 0.5,
    }
    assert identifiers.compute_word_accuracy(build_audit_table(), []) == {
        "eligible": 0.0,
        "all": 0.0,
    }


def test_regurgitation_by_frequency() -> None:
    rows = identifiers.count_leaks_by_frequency(
        {"a": 4, "d": 1}, {"a": 1, "b": 1, "c": 4, "d": 70}, bands=(1, 2, 5)
    )
    assert rows == [
        {
            "from": 1,
            "to": 1,
            "identifiers": 2,
            "leaked": 1,
            "predictions": 4,
            "predictions_per_identifier": 2.0,
        },
        {
            "from": 2,
            "to": 4,
            "identifiers": 1,
            "leaked": 0,
            "predictions": 0,
            "predictions_per_identifier": 0.0,
        },
        {
            "from": 5,
            "to": None,
            "identifiers": 1,
            "leaked": 1,
            "predictions": 1,
            "predictions_per_identifier": 1.0,
        },
    ]
    assert identifiers.count_leaks_by_frequency({}, {}) == []


def test_own_identifiers_of_users() -> None:
    own_identifiers = identifiers.find_own_identifiers(
        TEXTS, ["ada", "bob", "eve", "ada"], {"fjord", "the oboe", "naïve", "absent"}
    )
    assert own_identifiers == {"ada": {"the oboe", "naïve"}, "bob": {"fjord"}, "eve": set()}


def test_a_blacklist_is_read_by_path(tmp_path: Path) -> None:
    rows = {
        "ngram": ["oboe", "ada example", "ada example"],
        "n": [1, 2, 2],
        "users": [1, None, 1],
        "reason": ["indirect", "direct", "indirect"],
    }
    (tmp_path / "blacklist").mkdir()
    pq.write_table(pa.table(rows), tmp_path / "blacklist" / "part-0.parquet")
    sets = identifiers.IdentifierSets.read(tmp_path / "blacklist")
    assert (
        sets.direct == {"ada example"}
        and sets.indirect == {"oboe", "ada example"}
        and len(sets.combined) == 2
    )
    assert "oboe" not in repr(sets)
    assert (
        identifiers.IdentifierSets.read(tmp_path / "blacklist" / "part-0.parquet").combined
        == sets.combined
    )
    pq.write_table(pa.table(rows).slice(0, 0), tmp_path / "empty.parquet")
    assert identifiers.IdentifierSets.read(tmp_path / "empty.parquet").combined == frozenset()
    with pytest.raises(InputRefused, match="--plan blacklist"):
        identifiers.IdentifierSets.read(tmp_path / "none")
    (tmp_path / "broken.parquet").write_bytes(b"not parquet")
    with pytest.raises(OutputBroken, match="Run the plan again"):
        identifiers.IdentifierSets.read(tmp_path / "broken.parquet")


def test_letters_with_separate_accents_are_the_same_word(tmp_path: Path) -> None:
    """Both spellings of an accent count, in texts and in the blacklist, as training folds them."""
    composed, separate = "Ren\u00e9 came", "Rene\u0301 left"
    for spelling in ("ren\u00e9", "rene\u0301"):
        pq.write_table(
            pa.table({"ngram": [spelling], "reason": ["direct"]}), tmp_path / "list.parquet"
        )
        listed = identifiers.IdentifierSets.read(tmp_path / "list.parquet").combined
        words = identifiers.tokenize_words([composed, separate])
        assert identifiers.count_identifiers(words, listed, column="word") == {"ren\u00e9": 2}
        assert identifiers.find_own_identifiers([separate], ["u"], listed) == {"u": {"ren\u00e9"}}
