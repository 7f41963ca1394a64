"""Masked words: whole words, the configured share, drawn in each epoch, and never a word that a blacklist protects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.errors import InputRefused, UsageError
from sanitize.train import objectives
from sanitize.train.batches import TokenRows, pack_rows
from sanitize.train.blacklist_matcher import BlacklistMatcher
from sanitize.train.corpus_reader import DocumentTable
from sanitize.train.model import train_tokenizer
from sanitize.train.objectives.objective import IGNORE_INDEX, Objective, TrainContext
from sanitize.train.tokenization import NO_WORD, split_words, tokenize_documents

WORDS = "ada stokes eve plan report the of mail 12 \u00e9t\u00e9 monday".split()
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join), min_size=1, max_size=5).filter(any)
ENTRIES = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(tuple), max_size=6)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return train_tokenizer([" ".join(WORDS)], vocab_size=270, context_length=64)


def listed(path: Path, entries: list[tuple[tuple[str, ...], str]]) -> Path:
    """A blacklist as `sanitize run` writes it: a folder of Parquet files."""
    path.mkdir(exist_ok=True)
    columns = {
        "ngram": pa.array([" ".join(entry) for entry, _ in entries], pa.string()),
        "n": pa.array([len(entry) for entry, _ in entries], pa.int64()),
        "users": pa.array([None if reason == "direct" else 1 for _, reason in entries], pa.int64()),
        "reason": pa.array([reason for _, reason in entries], pa.string()),
    }
    pq.write_table(pa.table(columns), path / "part-0.parquet")
    return path


def rows_of(texts: list[str], tokenizer: Any, objective: Objective, **options: Any) -> TokenRows:
    ids = pa.array([str(number) for number in range(len(texts))], pa.large_string())
    documents = DocumentTable(pa.table({"text": pa.array(texts, pa.large_string()), "doc_id": ids}), Path(), ())
    tokens = tokenize_documents(
        documents, tokenizer, select_maskable_words=objective.select_maskable_words, rewrite_texts=objective.rewrite_texts
    )
    return pack_rows(tokens, **{"layout": "document", "context_length": 16, "seed": 0, "pad_id": tokenizer.pad_token_id, **options})


def opened(settings: dict[str, Any], tokenizer: Any, texts: list[str], seed: int = 0, **options: Any) -> tuple[Objective, TokenRows]:
    objective = objectives.load_objective(settings, "recipe: objective")
    rows = rows_of(texts, tokenizer, objective, **options)
    objective.setup(TrainContext(rows=rows, tokenizer=tokenizer, model=None, device=None, seed=seed, batch_size=8))
    return objective, rows


def asked(objective: Objective, rows: TokenRows, epoch: int = 0) -> np.ndarray[Any, Any]:
    batch = rows.make_batch(np.arange(len(rows)), epoch)
    return np.asarray(objective.collate(batch, training=True)["labels"] != IGNORE_INDEX)


@given(TEXTS, st.floats(0.05, 1.0), st.integers(0, 3))
def test_whole_words_and_as_many_as_asked_for(tokenizer: Any, texts: list[str], share: float, epoch: int) -> None:
    objective, rows = opened({"use": "masked", "share": share}, tokenizer, texts)
    batch = rows.make_batch(np.arange(len(rows)), epoch)
    shown = objective.collate(batch, training=True)
    hidden = shown["labels"] != IGNORE_INDEX
    assert batch.word_ids is not None
    assert (shown["input_ids"][hidden] == tokenizer.mask_token_id).all() and (shown["labels"][hidden] == batch.token_ids[hidden]).all()
    assert (shown["input_ids"][~hidden] == batch.token_ids[~hidden]).all()
    for row in range(len(rows)):
        words = set(batch.word_ids[row].tolist()) - {NO_WORD}
        chosen = {unit for unit in words if hidden[row][batch.word_ids[row] == unit].any()}
        assert all(hidden[row][batch.word_ids[row] == unit].all() for unit in chosen), "a word is hidden whole"
        assert len(chosen) == (max(1, round(share * len(words))) if words else 0)
        assert not hidden[row][batch.word_ids[row] == NO_WORD].any()


def test_each_epoch_chooses_anew_and_reaches_every_word(tokenizer: Any) -> None:
    objective, rows = opened({"use": "masked"}, tokenizer, [" ".join(WORDS * 4)] * 3, context_length=64)
    first, second = asked(objective, rows, 0), asked(objective, rows, 1)
    assert (first == asked(objective, rows, 0)).all() and not (first == second).all()
    assert not (first[0] == first[1]).all(), "copies of a text are masked each in its own way"
    ever = np.zeros_like(first)
    for epoch in range(60):
        ever |= asked(objective, rows, epoch)
    batch = rows.make_batch(np.arange(len(rows)), 0)
    assert (ever == (batch.word_ids != NO_WORD)).all()
    other, _ = opened({"use": "masked"}, tokenizer, [" ".join(WORDS * 4)] * 3, seed=1, context_length=64)
    assert not (asked(other, rows, 0) == first).all()


def test_the_choice_does_not_hang_on_the_batch(tokenizer: Any) -> None:
    objective, rows = opened({"use": "masked"}, tokenizer, [" ".join(WORDS[: 3 + at]) for at in range(6)])
    together = objective.collate(rows.make_batch(np.arange(len(rows)), 2), training=True)["labels"]
    for row in range(len(rows)):
        alone = objective.collate(rows.make_batch(np.array([row]), 2), training=True)["labels"][0]
        assert (together[row][: len(alone)] == alone).all()


def test_as_bert_had_it(tokenizer: Any) -> None:
    objective, rows = opened({"use": "masked", "share": 1.0, "replace": "bert"}, tokenizer, [" ".join(WORDS * 30)] * 20, context_length=64)
    batch = rows.make_batch(np.arange(len(rows)), 0)
    shown = objective.collate(batch, training=True)
    of, ids = shown["labels"] != IGNORE_INDEX, shown["input_ids"]
    masked, kept = (ids[of] == tokenizer.mask_token_id).mean(), (ids[of] == batch.token_ids[of]).mean()
    assert 0.77 < masked < 0.83 and 0.08 < kept < 0.13 and 0.07 < 1 - masked - kept < 0.13
    assert (shown["labels"][of] == batch.token_ids[of]).all()
    assert not np.isin(ids[of & (ids != batch.token_ids) & (ids != tokenizer.mask_token_id)], tokenizer.all_special_ids).any()


def slowly(words: list[str], entries: list[tuple[str, ...]]) -> set[int]:
    """The positions of words that an entry protects, by a slow reference."""
    found = set()
    for entry in entries:
        for first in range(len(words) - len(entry) + 1):
            if tuple(words[first : first + len(entry)]) == entry:
                found.update(range(first, first + len(entry)))
    return found


@given(texts=TEXTS, entries=ENTRIES, epoch=st.integers(0, 20))
def test_never_a_blacklisted_word(
    tmp_path_factory: pytest.TempPathFactory, tokenizer: Any, texts: list[str], entries: list[tuple[str, ...]], epoch: int
) -> None:
    """Checked by the words of the labels, with a slow reference, independent of the objective."""
    path = listed(tmp_path_factory.mktemp("list"), [(entry, "direct") for entry in entries])
    objective, rows = opened({"use": "ppmlm", "blacklist": str(path), "share": 1.0}, tokenizer, texts, context_length=400)
    batch = rows.make_batch(np.arange(len(rows)), epoch)
    hidden = objective.collate(batch, training=True)["labels"] != IGNORE_INDEX
    assert batch.word_ids is not None
    for row, text in enumerate(text for text in texts if text):
        words = split_words(text)
        units = list(dict.fromkeys(unit for unit in batch.word_ids[row].tolist() if unit != NO_WORD))
        asked_for = {at for at, unit in enumerate(units) if hidden[row][batch.word_ids[row] == unit].any()}
        assert asked_for == set(range(len(words))) - slowly(words, entries)


@given(TEXTS, ENTRIES)
def test_protected_is_what_a_slow_reading_says(texts: list[str], entries: list[tuple[str, ...]]) -> None:
    many = [split_words(text) for text in texts]
    for words, found in zip(many, BlacklistMatcher(entries).find_protected_words(many), strict=True):
        assert set(np.flatnonzero(found).tolist()) == slowly(words, entries)


def test_reasons(tmp_path: Path, tokenizer: Any) -> None:
    path = listed(tmp_path / "list", [(("ada",), "direct"), (("report",), "indirect"), (("the", "mail"), "indirect")])
    text = "ada report the mail the plan"

    def left(reasons: str, direct: str = "type") -> list[str]:
        told = {"use": "ppmlm", "blacklist": str(path), "reasons": reasons, "direct": direct}
        objective, _ = opened(told, tokenizer, [text])
        (fine,) = objective.select_maskable_words([split_words(text)])
        return [word for word, good in zip(split_words(text), fine, strict=True) if good]

    assert left("both") == ["the", "plan"]
    assert left("direct") == ["report", "the", "mail", "the", "plan"]
    assert left("indirect") == ["ada", "the", "plan"]
    # places in the texts protect the direct ones then, wherever else their words stand
    assert left("both", "occurrence") == left("indirect") and left("direct", "occurrence") == split_words(text)


def test_an_empty_blacklist_is_plain_masking(tmp_path: Path, tokenizer: Any) -> None:
    path = listed(tmp_path / "list", [])
    texts = [" ".join(WORDS * 3)]
    ppmlm, rows = opened({"use": "ppmlm", "blacklist": str(path)}, tokenizer, texts)
    masked, _ = opened({"use": "masked"}, tokenizer, texts)
    assert all((asked(ppmlm, rows, epoch) == asked(masked, rows, epoch)).all() for epoch in range(5))


def test_all_words_listed_asks_for_nothing(tmp_path: Path, tokenizer: Any) -> None:
    path = listed(tmp_path / "list", [((word,), "direct") for word in WORDS])
    objective, rows = opened({"use": "ppmlm", "blacklist": str(path)}, tokenizer, [" ".join(WORDS)])
    assert not asked(objective, rows).any()


def test_a_blacklist_that_is_none(tmp_path: Path, tokenizer: Any) -> None:
    with pytest.raises(UsageError, match="objective.blacklist is not set"):
        opened({"use": "ppmlm"}, tokenizer, ["ada"])
    with pytest.raises(InputRefused, match="no Parquet file"):
        opened({"use": "ppmlm", "blacklist": str(tmp_path)}, tokenizer, ["ada"])
    pq.write_table(pa.table({"word": ["ada"]}), tmp_path / "a.parquet")
    with pytest.raises(InputRefused, match="no column 'ngram'"):
        opened({"use": "ppmlm", "blacklist": str(tmp_path)}, tokenizer, ["ada"])
    (tmp_path / "a.parquet").write_bytes(b"nothing")
    with pytest.raises(InputRefused, match="cannot be read"):
        opened({"use": "ppmlm", "blacklist": str(tmp_path)}, tokenizer, ["ada"])


def test_mlma_puts_an_x_for_direct_identifiers(tmp_path: Path, tokenizer: Any) -> None:
    path = listed(tmp_path / "list", [(("ada", "stokes"), "direct"), (("eve",), "direct"), (("plan",), "indirect")])
    objective, rows = opened(
        {"use": "mlma", "blacklist": str(path)}, tokenizer, ["Dear Ada Stokes, Eve has the plan, Ada."], context_length=64
    )
    assert tokenizer.decode(rows.token_ids) == "Dear X X, X has the plan, Ada."
    plain, rows = opened({"use": "mlma"}, tokenizer, ["Dear Ada Stokes"], context_length=64)
    assert tokenizer.decode(rows.token_ids) == "Dear Ada Stokes"
    ever = np.zeros_like(asked(plain, rows))
    for epoch in range(30):
        ever |= asked(plain, rows, epoch)
    assert ever.all() or (rows.word_ids == NO_WORD).any()


def test_a_tokenizer_without_a_mask_is_told(tokenizer: Any) -> None:
    import copy

    bare = copy.deepcopy(tokenizer)
    bare.mask_token = None
    with pytest.raises(UsageError, match="no mask token"):
        opened({"use": "masked"}, bare, ["ada"])
