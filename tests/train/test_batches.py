"""Rows, plans and streams: every token once, any place found again, ranks and workers together are one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.errors import InputRefused, UsageError
from train.batches import Batch, Plan, Rows, Stream, first_steps, lay, mixed, order
from train.tokenization import Tokens

PAD, END, BEGIN = 999, 900, 901
GOLDEN = [1, 7, 2, 6, 5, 4, 0, 3]


def tokens(sizes: list[int]) -> Tokens:
    """Documents of so many tokens; token number n of the corpus has id n."""
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    total = int(offsets[-1])
    return Tokens(
        ids=np.arange(total, dtype=np.int32),
        offsets=offsets,
        keep=np.arange(total) % 5 != 0,
        units=np.arange(total, dtype=np.int32) // 2,
        allowed=np.arange(total) % 3 != 0,
        doc_ids=pa.array([f"d{number}" for number in range(len(sizes))], pa.large_string()),
    )


def rows(sizes: list[int], **options: Any) -> Rows:
    return lay(tokens(sizes), **{"layout": "packed", "context": 8, "seed": 1, "pad_id": PAD, "suffix": (END,), **options})


def text_of(batch: Batch) -> list[list[int]]:
    return [one[mask].tolist() for one, mask in zip(batch.ids, batch.mask, strict=True)]


SIZES = st.lists(st.integers(0, 30), min_size=1, max_size=12).filter(any)


@given(SIZES, st.sampled_from(["packed", "document"]), st.integers(3, 9), st.integers(0, 3))
def test_every_token_is_in_one_row(sizes: list[int], layout: str, context: int, seed: int) -> None:
    found = rows(sizes, layout=layout, context=context, seed=seed)
    assert found.lengths.min() >= 1 and found.lengths.max() <= context
    own = found.ids < END
    assert sorted(found.ids[own].tolist()) == list(range(sum(sizes)))
    assert (found.ids == END).sum() == sum(size > 0 for size in sizes), "one end a document"
    # what belongs to a token went with it
    of = tokens(sizes)
    at = found.ids[own]
    assert of.keep is not None and of.allowed is not None and of.units is not None
    assert found.units is not None and found.allowed is not None
    assert (
        (found.keep[own] == of.keep[at]).all() and (found.allowed[own] == of.allowed[at]).all() and (found.units[own] == of.units[at]).all()
    )
    assert (found.doc[own] == np.searchsorted(of.offsets, at, side="right") - 1).all()
    assert found.keep[~own].all() and not found.allowed[~own].any(), "an end is learned, but is no word"


@given(SIZES, st.integers(4, 9))
def test_documents_keep_their_order_inside(sizes: list[int], context: int) -> None:
    found = rows(sizes, layout="document", context=context, prefix=(BEGIN,))
    texts = text_of(found.batch(np.arange(len(found)), 0))
    whole: dict[int, list[int]] = {}
    for text, doc in zip(texts, found.doc[found.starts[:-1]].tolist(), strict=True):
        whole.setdefault(doc, []).extend(text)
    first = np.concatenate([[0], np.cumsum(sizes)])
    for number, size in enumerate(sizes):
        if size:
            assert whole[number] == [BEGIN, *range(first[number], first[number] + size), END]


def test_special_tokens_around_each_piece_and_cutting() -> None:
    options = {"layout": "document", "context": 5, "prefix": (BEGIN,), "every_piece": True}
    split = rows([7], **options)
    assert text_of(split.batch(np.arange(len(split)), 0)) == [[BEGIN, 0, 1, 2, END], [BEGIN, 3, 4, 5, END], [BEGIN, 6, END]]
    cut = rows([7, 2], overlong="cut", **options)
    assert text_of(cut.batch(np.arange(len(cut)), 0)) == [[BEGIN, 0, 1, 2, END], [BEGIN, 7, 8, END]]


def test_a_batch_is_padded_to_its_longest_row() -> None:
    found = rows([3, 1], layout="document")
    batch = found.batch(np.array([1, 0]), 0)
    assert batch.ids.tolist() == [[3, END, PAD, PAD], [0, 1, 2, END]]
    assert batch.mask.tolist() == [[True, True, False, False], [True] * 4]
    assert not batch.keep[0, 2:].any() and batch.units is not None and (batch.units[0, 2:] == -1).all()


def test_rows_without_room_or_tokens_are_told() -> None:
    with pytest.raises(UsageError, match="no room"):
        rows([5], layout="document", context=2, prefix=(BEGIN,))
    with pytest.raises(InputRefused, match="no tokens"):
        rows([0, 0])


def test_order_is_a_pure_function() -> None:
    """The golden numbers stand for all machines: whoever changes them changes every run."""
    assert order(8, seed=1, epoch=0).tolist() == GOLDEN
    assert order(8, seed=1, epoch=1).tolist() != GOLDEN and order(8, seed=2, epoch=0).tolist() != GOLDEN
    assert int(mixed(1, 2)) != int(mixed(2, 1))
    many = order(10_000, seed=3, epoch=0)
    assert sorted(many.tolist()) == list(range(10_000))
    assert abs(np.corrcoef(many, np.arange(10_000))[0, 1]) < 0.05


@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 3), st.integers(1, 4), st.integers(1, 3))
def test_shares_partition_a_step(count: int, batch: int, epochs: int, ranks: int, pieces: int) -> None:
    plan = Plan(rows=count, batch=batch, seed=5, epochs=epochs)
    for epoch in range(epochs):
        first = epoch * plan.steps_per_epoch
        steps = [plan.step(step) for step in range(first, first + plan.steps_per_epoch)]
        assert sorted(np.concatenate(steps).tolist()) == list(range(count)), "an epoch holds every row once"
    for step in range(plan.steps):
        shared = [share for rank in range(ranks) for share in plan.share(step, rank=rank, ranks=ranks, pieces=pieces)]
        assert len(shared) == ranks * pieces
        assert sorted(np.concatenate(shared).tolist()) == sorted(plan.step(step).tolist())


@pytest.mark.parametrize(
    ("every", "expected"), [(0.1, list(range(1, 31))), (0.5, [5, 10, 15, 20, 25, 30]), (1.0, [10, 20, 30]), (0, [30]), (0.04, None)]
)
def test_marks(every: float, expected: list[int] | None) -> None:
    plan = Plan(rows=80, batch=8, seed=0, epochs=3)
    marks = plan.marks(every)
    assert marks == (expected if expected is not None else list(range(1, 31))), "never two at a step, and one at the end"
    assert Plan(rows=80, batch=8, seed=0, epochs=3, max_steps=13).marks(0.5) == [5, 10, 13]


@given(SIZES, st.integers(1, 4), st.sampled_from(["packed", "document"]))
def test_first_steps_are_those_of_a_walk(sizes: list[int], batch: int, layout: str) -> None:
    found = rows(sizes, layout=layout, context=5)
    plan = Plan(rows=len(found), batch=batch, seed=2, epochs=2)
    walked: dict[str, int] = {}
    for step in range(plan.steps):
        for doc in np.concatenate([found.doc[found.starts[row] : found.starts[row + 1]] for row in plan.step(step)]):
            walked.setdefault(f"d{doc}", step + 1)
    table = first_steps(found, plan)
    assert dict(zip(table.column("doc_id").to_pylist(), table.column("first_step").to_pylist(), strict=True)) == walked
    assert len(walked) == sum(size > 0 for size in sizes)
    some = first_steps(found, plan, steps=1)
    assert set(some.column("doc_id").to_pylist()) == {name for name, step in walked.items() if step == 1}


def test_an_id_of_several_documents_is_one() -> None:
    found = rows([3, 3, 3], layout="document")
    shared = Rows(**{**vars(found), "doc_ids": pa.array(["a", "b", "a"], pa.large_string())})
    table = first_steps(shared, Plan(rows=3, batch=1, seed=0, epochs=1))
    assert table.column("doc_id").to_pylist() in (["a", "b"], ["b", "a"])


def seen(stream: Stream) -> list[list[int]]:
    return [batch.numbers.tolist() for batch in stream]


@pytest.mark.parametrize(("ranks", "workers"), [(1, 1), (2, 1), (1, 3), (3, 2)])
def test_ranks_and_workers_share_a_stream(ranks: int, workers: int) -> None:
    found = rows([9] * 12)
    plan = Plan(rows=len(found), batch=4, seed=1, epochs=2)
    whole = [sorted(step) for step in seen(Stream(found, plan))]
    parts: dict[int, list[int]] = {}
    for rank in range(ranks):
        for worker in range(workers):
            stream = Stream(found, plan, rank=rank, ranks=ranks, worker=worker, workers=workers)
            for batch in stream:
                parts.setdefault(stream.position - 1, []).extend(batch.numbers.tolist())
    assert [sorted(parts[step]) for step in range(plan.steps)] == whole


@given(st.integers(0, 12))
def test_a_stream_goes_on_anywhere(stop: int) -> None:
    found = rows([9] * 12)
    plan = Plan(rows=len(found), batch=4, seed=1, epochs=3)
    first, whole = Stream(found, plan), seen(Stream(found, plan))
    walk = iter(first)
    begun = [next(walk).numbers.tolist() for _ in range(stop)]
    other = Stream(found, plan)
    other.load_state_dict(first.state_dict())
    assert begun + seen(other) == whole


def test_a_state_of_another_stream_is_refused() -> None:
    found = rows([9] * 12)
    state = Stream(found, Plan(rows=len(found), batch=4, seed=1, epochs=1)).state_dict()
    with pytest.raises(UsageError, match="batch, seed differ"):
        Stream(found, Plan(rows=len(found), batch=5, seed=2, epochs=1)).load_state_dict(state)


@pytest.mark.parametrize("workers", [0, 2])
def test_torch_loaders_give_the_stream(workers: int) -> None:
    from torch.utils.data import DataLoader

    found = rows([9] * 6, layout="document", context=16)
    plan = Plan(rows=len(found), batch=2, seed=1, epochs=1)
    items = list(DataLoader(Stream(found, plan).torch(), batch_size=None, num_workers=workers))
    assert [item["position"] for item in items] == [1, 2, 3]
    assert [one for item in items for ids in item["doc_ids"] for one in ids] == [f"d{row}" for row in order(6, seed=1, epoch=0)]
    expected = found.batch(plan.step(0), 0)
    assert items[0]["input_ids"].tolist() == expected.ids.tolist()
    assert (items[0]["labels"].numpy() == np.where(expected.keep, expected.ids, -100)).all()
    again = Stream(found, plan).torch()
    again.load_state_dict({**again.state_dict(), "position": items[0]["position"]})
    assert [item["position"] for item in again] == [2, 3]
