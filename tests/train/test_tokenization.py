"""Documents as tokens: what may be in a loss, and which word a token belongs to."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.core.arrow_buffers import TextBuffers
from sanitize.errors import InputRefused, UsageError
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.settings import Settings
from sanitize.text.tokenizer import tokenize_unicode
from sanitize.train.corpus_reader import DocumentTable, read_documents
from sanitize.train.model import train_tokenizer
from sanitize.train.recipe_data import find_labels
from sanitize.train.tokenization import (
    NO_WORD,
    TokenizedDocuments,
    _assign_word_ids,
    _overlaps_any_span,
    fold_words,
    split_words,
    split_words_with_spans,
    tokenize_documents,
)

TEXTS = [
    "Dear Ada, call 555-0100 now!",
    "ada.stokes@example.com wrote",
    "",
    "na\u00efve e\u0301tude \u4e2d\u6587, 12ab",
]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return train_tokenizer(TEXTS * 3, vocab_size=290, context_length=32)


def make_documents(texts: list[str], **columns: Any) -> DocumentTable:
    ids = pa.array([str(number) for number in range(len(texts))], pa.large_string())
    return DocumentTable(
        pa.table({"text": pa.array(texts, pa.large_string()), "doc_id": ids, **columns}), Path(), ()
    )


def decode_tokens(tokens: TokenizedDocuments, mask: Any, tokenizer: Any) -> list[str]:
    """The text of the chosen tokens of each document."""
    spans = list(zip(tokens.offsets[:-1], tokens.offsets[1:], strict=True))
    return [
        tokenizer.decode(tokens.token_ids[first:last][mask[first:last]]) for first, last in spans
    ]


def test_tokens_are_the_texts(tokenizer: Any) -> None:
    tokens = tokenize_documents(make_documents(TEXTS), tokenizer)
    assert decode_tokens(tokens, np.ones(len(tokens.token_ids), bool), tokenizer) == TEXTS
    assert tokens.loss_mask is None and tokens.word_ids is None


SPAN = pa.list_(pa.struct([("start", pa.int64()), ("end", pa.int64()), ("kind", pa.string())]))


def test_tokens_inside_spans_are_left_out(tokenizer: Any) -> None:
    spans = [[(15, 23)], [(0, 22)], [], None]
    column = pa.array(
        [
            None if row is None else [{"start": a, "end": b, "kind": "X"} for a, b in row]
            for row in spans
        ],
        SPAN,
    )
    tokens = tokenize_documents(
        make_documents(TEXTS, pii_spans=column), tokenizer, leave_out_pii=True
    )
    assert tokens.loss_mask is not None
    kept = decode_tokens(tokens, tokens.loss_mask, tokenizer)
    assert [text.replace(" ", "") for text in kept] == [
        "DearAda,callnow!",
        "wrote",
        "",
        TEXTS[3].replace(" ", ""),
    ]


def test_spans_of_other_text_cells_are_ignored(tokenizer: Any) -> None:
    kind = pa.list_(pa.struct([("cell", pa.int32()), ("start", pa.int64()), ("end", pa.int64())]))
    column = pa.array(
        [[{"cell": 1, "start": 0, "end": 4}, {"cell": 0, "start": 5, "end": 8}]], kind
    )
    tokens = tokenize_documents(
        make_documents(TEXTS[:1], pii_spans=column), tokenizer, leave_out_pii=True
    )
    assert [
        text.replace(" ", "") for text in decode_tokens(tokens, tokens.loss_mask, tokenizer)
    ] == ["Dear,call555-0100now!"]


def test_a_word_that_overlaps_a_span_is_left_out_completely(tokenizer: Any) -> None:
    """The span ends within a word; no part of the word may be masked, the words next to it may."""
    text = "call Adams now Adams"
    column = pa.array([[{"start": 5, "end": 8, "kind": "X"}]], SPAN)
    tokens = tokenize_documents(
        make_documents([text], pii_spans=column),
        tokenizer,
        leave_out_pii=True,
        select_maskable_words=lambda texts: [np.ones(len(words), bool) for words in texts],
    )
    assert tokens.is_maskable is not None and tokens.word_ids is not None
    maskable_words = {
        tokenizer.decode(tokens.token_ids[tokens.word_ids == unit]).strip(): None
        for unit in np.unique(tokens.word_ids[tokens.is_maskable])
    }
    assert list(maskable_words) == ["call", "now", "Adams"]
    assert len(np.unique(tokens.word_ids[tokens.is_maskable])) == 3, (
        "the second Adams is outside the span"
    )


def test_spans_are_read_from_the_index_of_an_unedited_run(tmp_path: Path) -> None:
    texts = ["Write to ada@example.org, Ada.", "no value", "é ada@example.org and 713-555-0123"]
    pq.write_table(pa.table({"text": texts}), tmp_path / "in.parquet")
    work = tmp_path / "work"
    run_with_settings(
        [tmp_path / "in.parquet"], tmp_path / "out", "baseline", work, Settings(seed=1, workers=1)
    )
    documents = read_documents(tmp_path / "out").with_pii_spans(work)
    spans = [
        [text[span["start"] : span["end"]] for span in row]
        for text, row in zip(
            documents.texts(), documents.table["pii_spans"].to_pylist(), strict=True
        )
    ]
    assert spans == [["ada@example.org"], [], ["ada@example.org", "713-555-0123"]]
    with pytest.raises(UsageError, match="not the private folder"):
        read_documents(tmp_path / "out").with_pii_spans(tmp_path)
    with pytest.raises(UsageError, match="published"):
        read_documents(tmp_path / "in.parquet").with_pii_spans(work)
    # a manifest may come from anywhere: it does not choose the folder that is read
    shutil.copytree(tmp_path / "out", tmp_path / "copy")
    manifest = json.loads((tmp_path / "copy" / "manifest.json").read_text())
    shutil.copytree(work / "runs" / manifest["run_hash"], tmp_path / "elsewhere")
    manifest["run_hash"] = "../../elsewhere"
    (tmp_path / "copy" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UsageError, match="not the private folder"):
        read_documents(tmp_path / "copy").with_pii_spans(work)
    run_with_settings(
        [tmp_path / "in.parquet"],
        tmp_path / "edited",
        "surrogates",
        work,
        Settings(seed=1, workers=1),
    )
    with pytest.raises(UsageError, match="of the originals"):
        read_documents(tmp_path / "edited").with_pii_spans(work)


def test_prompts_precede_the_text_and_may_be_left_out(tokenizer: Any) -> None:
    prompt = pa.array(["call Ada:\n", "", "x\n", "now\n"], pa.large_string())
    tokens = tokenize_documents(make_documents(TEXTS, prompt=prompt), tokenizer, answers_only=True)
    assert tokens.loss_mask is not None
    assert decode_tokens(tokens, tokens.loss_mask, tokenizer) == TEXTS
    with_prompts = decode_tokens(tokens, np.ones(len(tokens.token_ids), bool), tokenizer)
    assert with_prompts == [
        head + text for head, text in zip(prompt.to_pylist(), TEXTS, strict=True)
    ]


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 6)), max_size=6),
    st.lists(st.integers(1, 4), min_size=1, max_size=10),
)
def test_overlap_equals_the_reference(spans: list[tuple[int, int]], lengths: list[int]) -> None:
    bounds = np.array([(start, start + size) for start, size in spans], np.int64).reshape(-1, 2)
    stops = np.cumsum(lengths)
    token_spans = np.stack([stops - lengths, stops], axis=1)
    expected = [
        any(a < stop and b > start for start, stop in bounds.tolist())
        for a, b in token_spans.tolist()
    ]
    assert _overlaps_any_span(token_spans, bounds).tolist() == expected


def test_words_are_runs_of_letters_marks_and_numbers() -> None:
    assert split_words(["Dear ADA-Lou: 12ab, e\u0301tude_\u4e2d\u6587 \u00b2"])[0] == [
        "dear",
        "ada",
        "lou",
        "12ab",
        "\u00e9tude",
        "\u4e2d\u6587",
        "\u00b2",
    ]


# letters of Unicode versions that libraries know differently, accents as characters of their own,
# letters with several lower cases
@given(
    st.lists(
        st.text(
            alphabet="aB1 -.\u0301\u00e9\u00c9\u0130\u03a3\u03c2\u1ad0\u88f0\U00032000\U00016100",
            max_size=12,
        ),
        max_size=4,
    )
)
def test_words_are_those_of_the_blacklist(texts: list[str]) -> None:
    """Two words are the same for training if and only if the blacklist counts them as one."""
    buffers = TextBuffers.from_array(pa.array(texts, pa.large_string()))
    counted = tokenize_unicode(buffers)
    split = split_words(texts)
    assert [len(words) for words in split] == np.bincount(
        counted.text_no, minlength=len(texts)
    ).tolist()
    pairs = set(
        zip([word for words in split for word in words], counted.hashes.tolist(), strict=True)
    )
    assert len({word for word, _ in pairs}) == len({number for _, number in pairs}) == len(pairs)
    for text, (words, spans) in zip(texts, split_words_with_spans(texts), strict=True):
        assert (
            fold_words(
                pl.Series([text[start:end] for start, end in spans.tolist()], dtype=pl.String)
            ).to_list()
            == words
        )


@pytest.mark.slow
@given(
    st.lists(
        st.text(alphabet="ab1 -.\u0301\u4e2d\n\U0001f600", max_size=25), min_size=1, max_size=4
    )
)
def test_every_word_is_a_unit_of_its_tokens(tokenizer: Any, texts: list[str]) -> None:
    tokens = tokenize_documents(
        make_documents(texts),
        tokenizer,
        select_maskable_words=lambda word_lists: [
            np.array(["a" in word for word in words], bool) for words in word_lists
        ],
    )
    assert tokens.word_ids is not None and tokens.is_maskable is not None
    for number, text in enumerate(texts):
        first, last = tokens.offsets[number : number + 2]
        units, allowed = tokens.word_ids[first:last], tokens.is_maskable[first:last]
        decoded = [
            tokenizer.decode(tokens.token_ids[first:last][units == unit])
            for unit in dict.fromkeys(units[units != NO_WORD].tolist())
        ]
        # the text of a unit has punctuation only if a token covers a word and punctuation
        assert [
            word for text_of_unit in decoded for word in split_words([text_of_unit])[0]
        ] == split_words([text])[0]
        assert not allowed[units == NO_WORD].any()
        for unit in set(units[units != NO_WORD].tolist()):
            (is_allowed,) = set(allowed[units == unit].tolist())
            assert is_allowed == all(
                "a" in word
                for word in split_words(
                    [tokenizer.decode(tokens.token_ids[first:last][units == unit])]
                )[0]
            )


def test_words_of_one_token_are_one_unit() -> None:
    # the second token overlaps two words
    token_spans = np.array([(0, 3), (3, 9), (9, 10), (10, 12)])
    bounds = np.array([(0, 4), (5, 7), (8, 9), (10, 12)])
    units, is_maskable = _assign_word_ids(token_spans, bounds, np.array([True, False, True, True]))
    assert units.tolist() == [0, 0, -1, 1]
    assert is_maskable.tolist() == [False, False, False, True]


def test_units_are_numbered_over_the_corpus(tokenizer: Any) -> None:
    tokens = tokenize_documents(
        make_documents(["a b", "a b"]),
        tokenizer,
        select_maskable_words=lambda word_lists: [
            np.ones(len(words), bool) for words in word_lists
        ],
    )
    assert tokens.word_ids is not None
    assert len(set(tokens.word_ids.tolist()) - {NO_WORD}) == 4


ROWS = [
    {"doc_id": f"m{number}", "text": f"text {number}", "label": number % 2, "more": None}
    for number in range(5)
]


def test_ids_and_texts_that_look_like_dates_stay_as_written(tmp_path: Path) -> None:
    rows = [{"doc_id": f"2001-05-0{day}", "text": f"2001-05-0{day}T10:00:00Z"} for day in (1, 2)]
    (tmp_path / "days.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    documents = read_documents(tmp_path / "days.jsonl")
    assert documents.table.select(["doc_id", "text"]).to_pylist() == rows
    turns = [
        {
            "messages": [
                {"role": "user", "content": row["text"]},
                {"role": "assistant", "content": row["doc_id"]},
            ]
        }
        for row in rows
    ]
    (tmp_path / "turns.jsonl").write_text("".join(json.dumps(row) + "\n" for row in turns))
    assert "2001-05-02T10:00:00Z" in read_documents(tmp_path / "turns.jsonl").texts()[1]


@pytest.mark.parametrize("form", ["parquet", "jsonl", "jsonl.gz", "arrow", "datasets"])
def test_shard_folders_of_all_formats_are_read(tmp_path: Path, form: str) -> None:
    import gzip

    folder = tmp_path / "shards"
    folder.mkdir()
    lines = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    table = pa.Table.from_pylist(ROWS)
    if form == "parquet":
        (
            pq.write_table(table.slice(0, 2), folder / "a.parquet"),
            pq.write_table(table.slice(2), folder / "b.parquet"),
        )
    elif form == "arrow":
        with (
            pa.OSFile(str(folder / "a.arrow"), "wb") as file,
            pa.ipc.new_stream(file, table.schema) as out,
        ):
            out.write_table(table)
    elif form == "datasets":
        import datasets

        datasets.disable_progress_bars()
        datasets.Dataset.from_list(ROWS).save_to_disk(str(folder / "set"))
    else:
        (folder / f"a.{form}").write_bytes(gzip.compress(lines) if form.endswith("gz") else lines)
    documents = read_documents(folder, label_column="label")
    assert documents.table.column("doc_id").to_pylist() == [row["doc_id"] for row in ROWS]
    assert documents.texts() == [row["text"] for row in ROWS]
    assert documents.table.column("label").to_pylist() == ["0", "1", "0", "1", "0"]
    assert sum(shard["rows"] for shard in documents.shards) == 5


def test_missing_ids_and_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "one", "instruction": "say"}\n{"text": null, "instruction": ""}\n')
    documents = read_documents(path, prompt_columns=["instruction"])
    assert documents.table.column("doc_id").to_pylist() == ["0", "1"]
    assert documents.texts() == ["say\none", ""]
    with pytest.raises(UsageError, match="did you mean text"):
        read_documents(path, text_column="txt")
    with pytest.raises(UsageError, match="pii_spans"):
        read_documents(path, with_pii_spans=True)
    path.write_text('{"text": "one"}\n{"text": 1}\n')
    with pytest.raises(InputRefused, match="cannot be read") as caught:
        read_documents(path)
    assert "one" not in str(caught.value)
    (tmp_path / "b.parquet").write_bytes(b"nothing")
    with pytest.raises(InputRefused, match="cannot be read"):
        read_documents(tmp_path / "b.parquet")
    pq.write_table(pa.table({"text": [1, 2]}), tmp_path / "b.parquet")
    with pytest.raises(InputRefused, match="expected strings"):
        read_documents(tmp_path / "b.parquet")
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "b.parquet")
    with pytest.raises(InputRefused, match="no documents"):
        read_documents(tmp_path / "b.parquet")


@pytest.mark.parametrize(
    ("spans", "words"),
    [
        ([[{"start": 5, "end": 2}], []], "1 spans that are none"),
        ([[{"start": -5, "end": 2}], [{"start": 0, "end": 1}]], "1 spans that are none"),
        ([[{"start": None, "end": 2}, {"start": 1, "end": None}]] * 2, "4 spans that are none"),
        ([[None, {"start": 1, "end": 2}], []], "1 spans that are none"),
        ([[None], []], "expected lists of spans"),
        ([[{"start": float("nan"), "end": float("inf")}], []], "expected lists of spans"),
        ([[{"start": "1", "end": "2"}], []], "expected lists of spans"),
        ([[{"begin": 1, "end": 2}], []], "expected lists of spans"),
        (["1-2", ""], "expected lists of spans"),
        ([[1, 2], []], "expected lists of spans"),
        ([[{"start": 0, "end": 0}], [{"start": 1, "end": 10**6}]], None),
        ([[], []], None),
        ([None, []], None),
    ],
)
def test_damaged_spans_are_refused(tmp_path: Path, spans: list[Any], words: str | None) -> None:
    """They would leave nothing out of a loss, without a word."""
    pq.write_table(pa.table({"text": ["a b", "c d"], "pii_spans": spans}), tmp_path / "a.parquet")
    if words is None:
        assert len(read_documents(tmp_path / "a.parquet", with_pii_spans=True)) == 2
    else:
        with pytest.raises(InputRefused, match=words):
            read_documents(tmp_path / "a.parquet", with_pii_spans=True)


def test_not_a_number_is_a_missing_id_user_or_label(tmp_path: Path) -> None:
    """pandas writes missing ones of numbers as NaN, which is not the name of one document or
    person."""
    numbers = [float("nan"), 7.0, float("nan")]
    columns = {"doc_id": numbers, "user_id": numbers, "label": numbers}
    pq.write_table(pa.table({"text": ["a", "b", "c"], **columns}), tmp_path / "a.parquet")
    documents = read_documents(tmp_path / "a.parquet", user_column="user_id", label_column="label")
    assert documents.doc_ids.to_pylist() == ["0", "7", "2"]
    assert documents.table["user"].to_pylist() == [None, "7", None]
    with pytest.raises(InputRefused, match="2 documents have no label"):
        find_labels(documents)
