"""Masked words: complete words, the configured share, drawn in each epoch, and never a word that a
blacklist protects."""

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
TEXTS = st.lists(
    st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join), min_size=1, max_size=5
).filter(any)
ENTRIES = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(tuple), max_size=6)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return train_tokenizer([" ".join(WORDS)], vocab_size=270, context_length=64)


def write_blacklist(path: Path, entries: list[tuple[tuple[str, ...], str]]) -> Path:
    """A blacklist as `sanitize run` writes it: a folder of Parquet files."""
    path.mkdir(parents=True, exist_ok=True)
    columns = {
        "ngram": pa.array([" ".join(entry) for entry, _ in entries], pa.string()),
        "n": pa.array([len(entry) for entry, _ in entries], pa.int64()),
        "users": pa.array([None if reason == "direct" else 1 for _, reason in entries], pa.int64()),
        "reason": pa.array([reason for _, reason in entries], pa.string()),
    }
    pq.write_table(pa.table(columns), path / "part-0.parquet")
    return path


def make_rows(texts: list[str], tokenizer: Any, objective: Objective, **options: Any) -> TokenRows:
    ids = pa.array([str(number) for number in range(len(texts))], pa.large_string())
    documents = DocumentTable(
        pa.table({"text": pa.array(texts, pa.large_string()), "doc_id": ids}), Path(), ()
    )
    tokens = tokenize_documents(
        documents,
        tokenizer,
        select_maskable_words=objective.select_maskable_words,
        rewrite_texts=objective.rewrite_texts,
    )
    return pack_rows(
        tokens,
        **{
            "layout": "document",
            "context_length": 16,
            "seed": 0,
            "pad_id": tokenizer.pad_token_id,
            **options,
        },
    )


def set_up_objective(
    settings: dict[str, Any], tokenizer: Any, texts: list[str], seed: int = 0, **options: Any
) -> tuple[Objective, TokenRows]:
    objective = objectives.load_objective(settings, "recipe: objective")
    rows = make_rows(texts, tokenizer, objective, **options)
    objective.setup(
        TrainContext(
            rows=rows, tokenizer=tokenizer, model=None, device=None, seed=seed, batch_size=8
        )
    )
    return objective, rows


def get_target_mask(objective: Objective, rows: TokenRows, epoch: int = 0) -> np.ndarray[Any, Any]:
    batch = rows.make_batch(np.arange(len(rows)), epoch)
    return np.asarray(objective.collate(batch, training=True)["labels"] != IGNORE_INDEX)


@given(TEXTS, st.floats(0.05, 1.0), st.integers(0, 3))
def test_complete_words_are_masked_at_the_configured_share(
    tokenizer: Any, texts: list[str], share: float, epoch: int
) -> None:
    objective, rows = set_up_objective({"use": "masked", "share": share}, tokenizer, texts)
    batch = rows.make_batch(np.arange(len(rows)), epoch)
    collated = objective.collate(batch, training=True)
    is_masked = collated["labels"] != IGNORE_INDEX
    assert batch.word_ids is not None
    assert (collated["input_ids"][is_masked] == tokenizer.mask_token_id).all() and (
        collated["labels"][is_masked] == batch.token_ids[is_masked]
    ).all()
    assert (collated["input_ids"][~is_masked] == batch.token_ids[~is_masked]).all()
    for row in range(len(rows)):
        words = set(batch.word_ids[row].tolist()) - {NO_WORD}
        chosen = {unit for unit in words if is_masked[row][batch.word_ids[row] == unit].any()}
        assert all(is_masked[row][batch.word_ids[row] == unit].all() for unit in chosen), (
            "all tokens of a chosen word are masked"
        )
        assert len(chosen) == (max(1, round(share * len(words))) if words else 0)
        assert not is_masked[row][batch.word_ids[row] == NO_WORD].any()


def test_each_epoch_chooses_other_words_and_all_words_are_reached(tokenizer: Any) -> None:
    objective, rows = set_up_objective(
        {"use": "masked"}, tokenizer, [" ".join(WORDS * 4)] * 3, context_length=64
    )
    first, second = get_target_mask(objective, rows, 0), get_target_mask(objective, rows, 1)
    assert (first == get_target_mask(objective, rows, 0)).all() and not (first == second).all()
    assert not (first[0] == first[1]).all(), "copies of a text are masked differently"
    masked_once = np.zeros_like(first)
    for epoch in range(60):
        masked_once |= get_target_mask(objective, rows, epoch)
    batch = rows.make_batch(np.arange(len(rows)), 0)
    assert (masked_once == (batch.word_ids != NO_WORD)).all()
    reseeded, _ = set_up_objective(
        {"use": "masked"}, tokenizer, [" ".join(WORDS * 4)] * 3, seed=1, context_length=64
    )
    assert not (get_target_mask(reseeded, rows, 0) == first).all()


def test_the_choice_does_not_depend_on_the_batch(tokenizer: Any) -> None:
    objective, rows = set_up_objective(
        {"use": "masked"}, tokenizer, [" ".join(WORDS[: 3 + number]) for number in range(6)]
    )
    batch_labels = objective.collate(rows.make_batch(np.arange(len(rows)), 2), training=True)[
        "labels"
    ]
    for row in range(len(rows)):
        row_labels = objective.collate(rows.make_batch(np.array([row]), 2), training=True)[
            "labels"
        ][0]
        assert (batch_labels[row][: len(row_labels)] == row_labels).all()


def test_replacement_shares_of_bert(tokenizer: Any) -> None:
    objective, rows = set_up_objective(
        {"use": "masked", "share": 1.0, "replace": "bert"},
        tokenizer,
        [" ".join(WORDS * 30)] * 20,
        context_length=64,
    )
    batch = rows.make_batch(np.arange(len(rows)), 0)
    collated = objective.collate(batch, training=True)
    is_target, ids = collated["labels"] != IGNORE_INDEX, collated["input_ids"]
    masked, kept = (
        (ids[is_target] == tokenizer.mask_token_id).mean(),
        (ids[is_target] == batch.token_ids[is_target]).mean(),
    )
    assert 0.77 < masked < 0.83 and 0.08 < kept < 0.13 and 0.07 < 1 - masked - kept < 0.13
    assert (collated["labels"][is_target] == batch.token_ids[is_target]).all()
    assert not np.isin(
        ids[is_target & (ids != batch.token_ids) & (ids != tokenizer.mask_token_id)],
        tokenizer.all_special_ids,
    ).any()


def reference_protected(words: list[str], entries: list[tuple[str, ...]]) -> set[int]:
    """The positions of words that an entry protects, by a brute-force search."""
    protected = set()
    for entry in entries:
        for first in range(len(words) - len(entry) + 1):
            if tuple(words[first : first + len(entry)]) == entry:
                protected.update(range(first, first + len(entry)))
    return protected


@pytest.mark.slow
@given(texts=TEXTS, entries=ENTRIES, epoch=st.integers(0, 20))
def test_blacklisted_words_are_never_masked(
    tmp_path_factory: pytest.TempPathFactory,
    tokenizer: Any,
    texts: list[str],
    entries: list[tuple[str, ...]],
    epoch: int,
) -> None:
    """Checked by the words of the labels, with a reference that is independent of the objective."""
    path = write_blacklist(
        tmp_path_factory.mktemp("list"), [(entry, "direct") for entry in entries]
    )
    objective, rows = set_up_objective(
        {"use": "ppmlm", "blacklist": str(path), "share": 1.0}, tokenizer, texts, context_length=400
    )
    batch = rows.make_batch(np.arange(len(rows)), epoch)
    is_masked = objective.collate(batch, training=True)["labels"] != IGNORE_INDEX
    assert batch.word_ids is not None
    for row, text in enumerate(text for text in texts if text):
        words = split_words([text])[0]
        units = list(
            dict.fromkeys(unit for unit in batch.word_ids[row].tolist() if unit != NO_WORD)
        )
        chosen = {
            number
            for number, unit in enumerate(units)
            if is_masked[row][batch.word_ids[row] == unit].any()
        }
        assert chosen == set(range(len(words))) - reference_protected(words, entries)


@given(TEXTS, ENTRIES)
def test_protected_words_equal_the_reference(
    texts: list[str], entries: list[tuple[str, ...]]
) -> None:
    word_lists = split_words(texts)
    for words, protected in zip(
        word_lists, BlacklistMatcher(entries).find_protected_words(word_lists), strict=True
    ):
        assert set(np.flatnonzero(protected).tolist()) == reference_protected(words, entries)


def test_other_spellings_of_an_entry_are_protected(tmp_path: Path) -> None:
    """An accent is a character of its own or not: the blacklist counts both as one word, and lists
    the spelling of one document."""
    path = write_blacklist(
        tmp_path / "list", [(("zo\u00eb",), "indirect"), (("rene\u0301", "e"), "direct")]
    )
    texts = ["Zoe\u0308 wrote to Ren\u00e9 E.", "ZO\u00cb wrote to Rene\u0301 E."]
    expected = [[True, False, False, True, True]] * 2
    assert [
        found.tolist()
        for found in BlacklistMatcher.read(path).find_protected_words(split_words(texts))
    ] == expected


def test_reasons_select_the_protected_words(tmp_path: Path, tokenizer: Any) -> None:
    path = write_blacklist(
        tmp_path / "list",
        [(("ada",), "direct"), (("report",), "indirect"), (("the", "mail"), "indirect")],
    )
    text = "ada report the mail the plan"

    def list_maskable_words(reasons: str, direct: str = "type") -> list[str]:
        settings = {"use": "ppmlm", "blacklist": str(path), "reasons": reasons, "direct": direct}
        objective, _ = set_up_objective(settings, tokenizer, [text])
        (mask,) = objective.select_maskable_words([split_words([text])[0]])
        return [
            word
            for word, is_maskable in zip(split_words([text])[0], mask, strict=True)
            if is_maskable
        ]

    assert list_maskable_words("both") == ["the", "plan"]
    assert list_maskable_words("direct") == ["report", "the", "mail", "the", "plan"]
    assert list_maskable_words("indirect") == ["ada", "the", "plan"]
    # direct identifiers are then protected at their occurrences only, which this list does not have
    assert (
        list_maskable_words("both", "occurrence") == list_maskable_words("indirect")
        and list_maskable_words("direct", "occurrence") == split_words([text])[0]
    )


def test_an_empty_blacklist_is_plain_masking(tmp_path: Path, tokenizer: Any) -> None:
    path = write_blacklist(tmp_path / "list", [])
    texts = [" ".join(WORDS * 3)]
    ppmlm, rows = set_up_objective({"use": "ppmlm", "blacklist": str(path)}, tokenizer, texts)
    masked, _ = set_up_objective({"use": "masked"}, tokenizer, texts)
    assert all(
        (get_target_mask(ppmlm, rows, epoch) == get_target_mask(masked, rows, epoch)).all()
        for epoch in range(5)
    )


def test_a_blacklist_of_all_words_gives_no_targets(tmp_path: Path, tokenizer: Any) -> None:
    path = write_blacklist(tmp_path / "list", [((word,), "direct") for word in WORDS])
    objective, rows = set_up_objective(
        {"use": "ppmlm", "blacklist": str(path)}, tokenizer, [" ".join(WORDS)]
    )
    assert not get_target_mask(objective, rows).any()


def test_invalid_blacklists_are_refused(tmp_path: Path, tokenizer: Any) -> None:
    for use in ("ppmlm", "mlma"):  # without one, both would train as `masked` does
        with pytest.raises(UsageError, match="objective.blacklist is not set"):
            set_up_objective({"use": use}, tokenizer, ["ada"])
        with pytest.raises(UsageError, match="objective.blacklist is not set"):
            objectives.load_objective({"use": use}, "recipe: objective").input_paths()
    with pytest.raises(InputRefused, match="no blacklist"):
        set_up_objective({"use": "ppmlm", "blacklist": str(tmp_path)}, tokenizer, ["ada"])
    pq.write_table(pa.table({"word": ["ada"]}), tmp_path / "a.parquet")
    with pytest.raises(InputRefused, match="no column 'ngram'"):
        set_up_objective({"use": "ppmlm", "blacklist": str(tmp_path)}, tokenizer, ["ada"])
    (tmp_path / "a.parquet").write_bytes(b"nothing")
    with pytest.raises(InputRefused, match="cannot be read"):
        set_up_objective({"use": "ppmlm", "blacklist": str(tmp_path)}, tokenizer, ["ada"])


def test_a_blacklist_is_found_in_the_private_folder_of_its_run(
    tmp_path: Path, tokenizer: Any
) -> None:
    first = write_blacklist(
        tmp_path / "work" / "runs" / "aa" / "vault" / "blacklist", [(("ada",), "direct")]
    )
    (tmp_path / "work" / "readme.txt").touch()
    for use in ("ppmlm", "mlma"):
        objective = objectives.load_objective(
            {"use": use, "blacklist": str(tmp_path / "work")}, "recipe: objective"
        )
        assert objective.input_paths() == {"blacklist": str(first)}, (
            "what is hashed is the list, not the private folder"
        )
    objective, rows = set_up_objective(
        {"use": "mlma", "blacklist": str(tmp_path / "work")},
        tokenizer,
        ["Dear Ada"],
        context_length=64,
    )
    assert tokenizer.decode(rows.token_ids) == "Dear X"
    write_blacklist(
        tmp_path / "work" / "runs" / "bb" / "vault" / "blacklist", [(("bob",), "direct")]
    )
    with pytest.raises(InputRefused, match="2 runs have a blacklist; name one"):
        objective.input_paths()


def test_mlma_replaces_direct_identifiers_by_x(tmp_path: Path, tokenizer: Any) -> None:
    path = write_blacklist(
        tmp_path / "list",
        [(("ada", "stokes"), "direct"), (("eve",), "direct"), (("plan",), "indirect")],
    )
    objective, rows = set_up_objective(
        {"use": "mlma", "blacklist": str(path)},
        tokenizer,
        ["Dear Ada Stokes, Eve has the plan, Ada."],
        context_length=64,
    )
    assert tokenizer.decode(rows.token_ids) == "Dear X X, X has the plan, Ada."
    nothing = write_blacklist(tmp_path / "nothing", [(("plan",), "indirect")])
    plain, rows = set_up_objective(
        {"use": "mlma", "blacklist": str(nothing)},
        tokenizer,
        ["Dear Ada Stokes"],
        context_length=64,
    )
    assert tokenizer.decode(rows.token_ids) == "Dear Ada Stokes"
    masked_once = np.zeros_like(get_target_mask(plain, rows))
    for epoch in range(30):
        masked_once |= get_target_mask(plain, rows, epoch)
    assert masked_once.all() or (rows.word_ids == NO_WORD).any()


def test_a_tokenizer_without_a_mask_is_refused(tokenizer: Any) -> None:
    import copy

    tokenizer_without_mask = copy.deepcopy(tokenizer)
    tokenizer_without_mask.mask_token = None
    with pytest.raises(UsageError, match="no mask token"):
        set_up_objective({"use": "masked"}, tokenizer_without_mask, ["ada"])
