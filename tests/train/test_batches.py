"""Rows, plans and streams: every token once, resumable at any position, ranks and workers together
equal one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.errors import InputRefused, UsageError
from sanitize.train.batches import (
    BatchPlan,
    BatchStream,
    TokenBatch,
    TokenRows,
    compute_first_steps,
    draw_permutation,
    pack_rows,
    splitmix64,
)
from sanitize.train.tokenization import TokenizedDocuments

PAD, END, BEGIN = 999, 900, 901
GOLDEN = [1, 7, 2, 6, 5, 4, 0, 3]


def make_tokens(sizes: list[int]) -> TokenizedDocuments:
    """Documents with these numbers of tokens; token number n of the corpus has id n."""
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    total = int(offsets[-1])
    return TokenizedDocuments(
        token_ids=np.arange(total, dtype=np.int32),
        offsets=offsets,
        loss_mask=np.arange(total) % 5 != 0,
        word_ids=np.arange(total, dtype=np.int32) // 2,
        is_maskable=np.arange(total) % 3 != 0,
        doc_ids=pa.array([f"d{number}" for number in range(len(sizes))], pa.large_string()),
    )


def make_rows(sizes: list[int], **options: Any) -> TokenRows:
    return pack_rows(
        make_tokens(sizes),
        **{
            "layout": "packed",
            "context_length": 8,
            "seed": 1,
            "pad_id": PAD,
            "suffix": (END,),
            **options,
        },
    )


def list_row_tokens(batch: TokenBatch) -> list[list[int]]:
    return [
        row_tokens[mask].tolist()
        for row_tokens, mask in zip(batch.token_ids, batch.attention_mask, strict=True)
    ]


SIZES = st.lists(st.integers(0, 30), min_size=1, max_size=12).filter(any)


@given(SIZES, st.sampled_from(["packed", "document"]), st.integers(3, 9), st.integers(0, 3))
def test_every_token_is_in_one_row(sizes: list[int], layout: str, context: int, seed: int) -> None:
    packed = make_rows(sizes, layout=layout, context_length=context, seed=seed)
    assert packed.lengths.min() >= 1 and packed.lengths.max() <= context
    is_document_token = packed.token_ids < END
    assert sorted(packed.token_ids[is_document_token].tolist()) == list(range(sum(sizes)))
    assert (packed.token_ids == END).sum() == sum(size > 0 for size in sizes), (
        "one end token per document"
    )
    # the masks and word ids of a token move with it
    documents = make_tokens(sizes)
    token_numbers = packed.token_ids[is_document_token]
    assert (
        documents.loss_mask is not None
        and documents.is_maskable is not None
        and documents.word_ids is not None
    )
    assert packed.word_ids is not None and packed.is_maskable is not None
    assert (
        (packed.loss_mask[is_document_token] == documents.loss_mask[token_numbers]).all()
        and (packed.is_maskable[is_document_token] == documents.is_maskable[token_numbers]).all()
        and (packed.word_ids[is_document_token] == documents.word_ids[token_numbers]).all()
    )
    assert (
        packed.doc_numbers[is_document_token]
        == np.searchsorted(documents.offsets, token_numbers, side="right") - 1
    ).all()
    assert (
        packed.loss_mask[~is_document_token].all()
        and not packed.is_maskable[~is_document_token].any()
    ), "an end token is in the loss, but is no word"


@given(SIZES, st.integers(4, 9))
def test_documents_keep_their_order_inside(sizes: list[int], context: int) -> None:
    packed = make_rows(sizes, layout="document", context_length=context, prefix=(BEGIN,))
    texts = list_row_tokens(packed.make_batch(np.arange(len(packed)), 0))
    tokens_by_document: dict[int, list[int]] = {}
    for text, doc in zip(texts, packed.doc_numbers[packed.row_starts[:-1]].tolist(), strict=True):
        tokens_by_document.setdefault(doc, []).extend(text)
    first = np.concatenate([[0], np.cumsum(sizes)])
    for number, size in enumerate(sizes):
        if size:
            assert tokens_by_document[number] == [
                BEGIN,
                *range(first[number], first[number] + size),
                END,
            ]


def test_special_tokens_around_each_piece_and_cutting() -> None:
    options = {
        "layout": "document",
        "context_length": 5,
        "prefix": (BEGIN,),
        "specials_per_piece": True,
    }
    split = make_rows([7], **options)
    assert list_row_tokens(split.make_batch(np.arange(len(split)), 0)) == [
        [BEGIN, 0, 1, 2, END],
        [BEGIN, 3, 4, 5, END],
        [BEGIN, 6, END],
    ]
    cut = make_rows([7, 2], overlong="cut", **options)
    assert list_row_tokens(cut.make_batch(np.arange(len(cut)), 0)) == [
        [BEGIN, 0, 1, 2, END],
        [BEGIN, 7, 8, END],
    ]


def test_a_batch_is_padded_to_its_longest_row() -> None:
    packed = make_rows([3, 1], layout="document")
    batch = packed.make_batch(np.array([1, 0]), 0)
    assert batch.token_ids.tolist() == [[3, END, PAD, PAD], [0, 1, 2, END]]
    assert batch.attention_mask.tolist() == [[True, True, False, False], [True] * 4]
    assert (
        not batch.loss_mask[0, 2:].any()
        and batch.word_ids is not None
        and (batch.word_ids[0, 2:] == -1).all()
    )


def test_rows_without_space_or_tokens_are_refused() -> None:
    with pytest.raises(UsageError, match="no space"):
        make_rows([5], layout="document", context_length=2, prefix=(BEGIN,))
    with pytest.raises(InputRefused, match="no tokens"):
        make_rows([0, 0])


def test_order_is_a_pure_function() -> None:
    """Frozen values for all machines: a change alters the results of every run."""
    assert draw_permutation(8, seed=1, epoch=0).tolist() == GOLDEN
    assert (
        draw_permutation(8, seed=1, epoch=1).tolist() != GOLDEN
        and draw_permutation(8, seed=2, epoch=0).tolist() != GOLDEN
    )
    assert int(splitmix64(1, 2)) != int(splitmix64(2, 1))
    permutation = draw_permutation(10_000, seed=3, epoch=0)
    assert sorted(permutation.tolist()) == list(range(10_000))
    assert abs(np.corrcoef(permutation, np.arange(10_000))[0, 1]) < 0.05


@given(
    st.integers(1, 40), st.integers(1, 9), st.integers(1, 3), st.integers(1, 4), st.integers(1, 3)
)
def test_shares_partition_a_step(
    count: int, batch: int, epochs: int, ranks: int, pieces: int
) -> None:
    plan = BatchPlan(row_count=count, batch_size=batch, seed=5, epochs=epochs)
    for epoch in range(epochs):
        first = epoch * plan.steps_per_epoch
        steps = [plan.get_step_rows(step) for step in range(first, first + plan.steps_per_epoch)]
        assert sorted(np.concatenate(steps).tolist()) == list(range(count)), (
            "an epoch contains every row once"
        )
    for step in range(plan.step_count):
        shared = [
            share
            for rank in range(ranks)
            for share in plan.get_micro_batches(
                step, rank=rank, world_size=ranks, n_micro_batches=pieces
            )
        ]
        assert len(shared) == ranks * pieces
        assert sorted(np.concatenate(shared).tolist()) == sorted(plan.get_step_rows(step).tolist())


@pytest.mark.parametrize(
    ("every", "expected"),
    [
        (0.1, list(range(1, 31))),
        (0.5, [5, 10, 15, 20, 25, 30]),
        (1.0, [10, 20, 30]),
        (0, [30]),
        (0.04, None),
    ],
)
def test_checkpoint_steps(every: float, expected: list[int] | None) -> None:
    plan = BatchPlan(row_count=80, batch_size=8, seed=0, epochs=3)
    steps = plan.checkpoint_steps(every)
    assert steps == (expected if expected is not None else list(range(1, 31))), (
        "never two at a step, and one at the end"
    )
    assert BatchPlan(row_count=80, batch_size=8, seed=0, epochs=3, max_steps=13).checkpoint_steps(
        0.5
    ) == [5, 10, 13]


@given(SIZES, st.integers(1, 4), st.sampled_from(["packed", "document"]))
def test_first_steps_equal_the_reference(sizes: list[int], batch: int, layout: str) -> None:
    packed = make_rows(sizes, layout=layout, context_length=5)
    plan = BatchPlan(row_count=len(packed), batch_size=batch, seed=2, epochs=2)
    expected: dict[str, int] = {}
    for step in range(plan.step_count):
        for doc in np.concatenate(
            [
                packed.doc_numbers[packed.row_starts[row] : packed.row_starts[row + 1]]
                for row in plan.get_step_rows(step)
            ]
        ):
            expected.setdefault(f"d{doc}", step + 1)
    table = compute_first_steps(packed, plan)
    assert (
        dict(
            zip(
                table.column("doc_id").to_pylist(),
                table.column("first_step").to_pylist(),
                strict=True,
            )
        )
        == expected
    )
    assert len(expected) == sum(size > 0 for size in sizes)
    first_step_only = compute_first_steps(packed, plan, max_step=1)
    assert set(first_step_only.column("doc_id").to_pylist()) == {
        name for name, step in expected.items() if step == 1
    }


def test_documents_with_equal_ids_count_once() -> None:
    packed = make_rows([3, 3, 3], layout="document")
    shared = TokenRows(**{**vars(packed), "doc_ids": pa.array(["a", "b", "a"], pa.large_string())})
    table = compute_first_steps(shared, BatchPlan(row_count=3, batch_size=1, seed=0, epochs=1))
    assert table.column("doc_id").to_pylist() in (["a", "b"], ["b", "a"])


def list_row_numbers(stream: BatchStream) -> list[list[int]]:
    return [batch.row_numbers.tolist() for batch in stream]


@pytest.mark.parametrize(("ranks", "workers"), [(1, 1), (2, 1), (1, 3), (3, 2)])
def test_ranks_and_workers_share_a_stream(ranks: int, workers: int) -> None:
    packed = make_rows([9] * 12)
    plan = BatchPlan(row_count=len(packed), batch_size=4, seed=1, epochs=2)
    expected = [sorted(step) for step in list_row_numbers(BatchStream(packed, plan))]
    parts: dict[int, list[int]] = {}
    for rank in range(ranks):
        for worker in range(workers):
            stream = BatchStream(
                packed, plan, rank=rank, world_size=ranks, worker_index=worker, worker_count=workers
            )
            for batch in stream:
                parts.setdefault(stream.position - 1, []).extend(batch.row_numbers.tolist())
    assert [sorted(parts[step]) for step in range(plan.step_count)] == expected


@given(st.integers(0, 12))
def test_a_stream_resumes_at_any_position(stop: int) -> None:
    packed = make_rows([9] * 12)
    plan = BatchPlan(row_count=len(packed), batch_size=4, seed=1, epochs=3)
    first, expected = BatchStream(packed, plan), list_row_numbers(BatchStream(packed, plan))
    batches = iter(first)
    first_batches = [next(batches).row_numbers.tolist() for _ in range(stop)]
    resumed = BatchStream(packed, plan)
    resumed.load_state_dict(first.state_dict())
    assert first_batches + list_row_numbers(resumed) == expected


def test_a_state_of_another_stream_is_refused() -> None:
    packed = make_rows([9] * 12)
    state = BatchStream(
        packed, BatchPlan(row_count=len(packed), batch_size=4, seed=1, epochs=1)
    ).state_dict()
    with pytest.raises(UsageError, match="batch, seed differ"):
        BatchStream(
            packed, BatchPlan(row_count=len(packed), batch_size=5, seed=2, epochs=1)
        ).load_state_dict(state)


@pytest.mark.parametrize("workers", [0, 2])
def test_torch_loaders_give_the_stream(workers: int) -> None:
    from torch.utils.data import DataLoader

    packed = make_rows([9] * 6, layout="document", context_length=16)
    plan = BatchPlan(row_count=len(packed), batch_size=2, seed=1, epochs=1)
    items = list(
        DataLoader(
            BatchStream(packed, plan).to_torch_dataset(), batch_size=None, num_workers=workers
        )
    )
    assert [item["position"] for item in items] == [1, 2, 3]
    assert [doc_id for item in items for ids in item["doc_ids"] for doc_id in ids] == [
        f"d{row}" for row in draw_permutation(6, seed=1, epoch=0)
    ]
    expected = packed.make_batch(plan.get_step_rows(0), 0)
    assert items[0]["input_ids"].tolist() == expected.token_ids.tolist()
    assert (
        items[0]["labels"].numpy() == np.where(expected.loss_mask, expected.token_ids, -100)
    ).all()
    dataset = BatchStream(packed, plan).to_torch_dataset()
    dataset.load_state_dict({**dataset.state_dict(), "position": items[0]["position"]})
    assert [item["position"] for item in dataset] == [2, 3]
