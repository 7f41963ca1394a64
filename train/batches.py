"""Packs tokens into rows and orders rows into batches.

The order is a pure function of (seed, epoch): the rows of any step of any run can be computed
without training. `TokenRows` holds the rows; `BatchPlan` gives the rows of each optimizer step;
`BatchStream` iterates over a plan, for one process or one worker of many, and can resume at any
position. Which documents a checkpoint has seen follows from the plan (`compute_first_steps`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sanitize.errors import InputRefused, UsageError

from .tokenization import I32, I64, NO_WORD, Mask, TokenizedDocuments

U64 = npt.NDArray[np.uint64]


def splitmix64(*lanes: int | npt.NDArray[Any]) -> U64:
    """Return 64 pseudo-random bits for each combination of `lanes` (integers and arrays that
    broadcast): splitmix64, lane after lane.

    The only source of randomness outside private runs: no generator with a state, the same on every
    machine and for every batch size.
    """
    with np.errstate(over="ignore"):
        state = np.zeros((), np.uint64)
        for lane in lanes:
            value = (
                np.uint64(lane & (2**64 - 1)) if isinstance(lane, int) else lane.astype(np.uint64)
            )
            state = (state ^ value) + np.uint64(0x9E3779B97F4A7C15)
            state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state = state ^ (state >> np.uint64(31))
    return np.asarray(state, np.uint64)


# one lane per use, so that no two uses share random bits
LANE_ORDER, LANE_PACKING, LANE_LIMIT = (1, 2, 3)


def draw_permutation(count: int, *, seed: int, epoch: int, lane: int = LANE_ORDER) -> I64:
    """Return a permutation of the numbers below `count`: the order of this epoch."""
    found: I64 = np.argsort(splitmix64(seed, lane, epoch, np.arange(count)), kind="stable").astype(
        np.int64
    )
    return found


@dataclass(frozen=True, repr=False)
class TokenBatch:
    """A batch of rows, padded on the right; arrays are [rows, tokens].

    `attention_mask` is true for tokens and false for padding; `loss_mask` is true for tokens that
    may be in a loss.
    """

    row_numbers: I64
    epoch: int
    token_ids: I32
    attention_mask: Mask
    loss_mask: Mask
    # index of each token in `TokenRows.token_ids`; for padding that of the row's last token
    token_positions: I64
    word_ids: I32 | None = None
    is_maskable: Mask | None = None
    labels: I64 | None = None
    document_starts: I64 | None = (
        None  # the column where the document of each token begins, if documents are kept apart
    )


@dataclass(frozen=True, repr=False)
class TokenRows:
    """All rows of a corpus, concatenated in flat arrays with one entry per token. `doc_numbers` is
    the document of each token."""

    token_ids: I32
    row_starts: I64  # row r is row_starts[r]:row_starts[r + 1]
    doc_numbers: I32
    loss_mask: Mask
    word_ids: I32 | None
    is_maskable: Mask | None
    doc_labels: I64 | None  # one per document, not per token
    doc_ids: pa.Array
    pad_id: int
    isolates_documents: bool = False  # tokens attend to their own document only

    def __len__(self) -> int:
        return len(self.row_starts) - 1

    @property
    def lengths(self) -> I64:
        """Number of tokens of each row."""
        return np.diff(self.row_starts)

    def make_batch(self, row_numbers: I64, epoch: int) -> TokenBatch:
        """Return these rows as a batch, padded to the longest of them."""
        lengths = self.row_starts[row_numbers + 1] - self.row_starts[row_numbers]
        columns = np.arange(int(lengths.max(initial=1)))
        mask = columns < lengths[:, None]
        positions = self.row_starts[row_numbers][:, None] + np.minimum(
            columns, lengths[:, None] - 1
        )
        return TokenBatch(
            row_numbers=row_numbers,
            epoch=epoch,
            token_ids=np.where(mask, self.token_ids[positions], self.pad_id).astype(np.int32),
            attention_mask=mask,
            loss_mask=mask & self.loss_mask[positions],
            token_positions=positions,
            word_ids=(
                None if self.word_ids is None else np.where(mask, self.word_ids[positions], NO_WORD)
            ),
            is_maskable=None if self.is_maskable is None else mask & self.is_maskable[positions],
            document_starts=(
                self._find_document_starts(row_numbers, positions)
                if self.isolates_documents
                else None
            ),
            labels=(
                None
                if self.doc_labels is None
                else self.doc_labels[self.doc_numbers[self.row_starts[row_numbers]]]
            ),
        )

    def _find_document_starts(self, row_numbers: I64, positions: I64) -> I64:
        """Return the column of the first token of each token's document in its row, [rows,
        tokens]."""
        docs = self.doc_numbers[positions]
        is_start = np.ones(docs.shape, bool)
        is_start[:, 1:] = docs[:, 1:] != docs[:, :-1]
        found: I64 = np.maximum.accumulate(np.where(is_start, np.arange(docs.shape[1]), 0), axis=1)
        return found

    def list_row_document_pairs(self) -> tuple[I64, I32]:
        """Return all pairs (row, document with tokens in it) as two arrays; once for each
        contiguous run of tokens."""
        row = np.repeat(np.arange(len(self)), self.lengths)
        is_run_start = np.ones(len(row), bool)
        is_run_start[1:] = (row[1:] != row[:-1]) | (self.doc_numbers[1:] != self.doc_numbers[:-1])
        return row[is_run_start], self.doc_numbers[is_run_start]


def pack_rows(
    tokens: TokenizedDocuments,
    *,
    layout: Literal["packed", "document"],
    context_length: int,
    seed: int,
    pad_id: int,
    prefix: tuple[int, ...] = (),
    suffix: tuple[int, ...] = (),
    specials_per_piece: bool = False,
    overlong: Literal["split", "cut"] = "split",
    isolates_documents: bool = False,
) -> TokenRows:
    """Pack tokens into rows of at most `context_length`. `prefix` and `suffix` are the special
    tokens around a document.

    `packed`: documents in an order drawn once, concatenated, cut every `context_length` tokens; the
    packing is the same in all epochs, so that values cached per token stay valid. `document`: rows
    of one document each; a long one is split (with `specials_per_piece`, special tokens are added
    around each piece, else only at the two ends of the document) or cut.
    """
    sizes = np.diff(tokens.offsets)
    documents = np.flatnonzero(sizes)  # documents without tokens are in no row
    if layout == "packed":
        documents = documents[
            draw_permutation(len(documents), seed=seed, epoch=0, lane=LANE_PACKING)
        ]
        first, length = tokens.offsets[documents], sizes[documents]
        head = tail = np.ones(len(documents), bool)
    else:
        text_capacity = context_length - len(prefix) - len(suffix)
        if text_capacity < 1:
            raise UsageError(
                f"model.context = {context_length} leaves no space for text beside the special"
                " tokens; raise it"
            )
        pieces = (
            np.ones(len(documents), np.int64)
            if overlong == "cut"
            else -(-sizes[documents] // text_capacity)
        )
        piece_index = np.arange(int(pieces.sum())) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        documents = np.repeat(documents, pieces)
        first = tokens.offsets[documents] + piece_index * text_capacity
        length = np.minimum(sizes[documents] - piece_index * text_capacity, text_capacity)
        head = (piece_index == 0) | specials_per_piece
        tail = (piece_index * text_capacity + length == sizes[documents]) | specials_per_piece
    if not len(documents):
        raise InputRefused("the documents have no tokens at all; expected texts that are not empty")
    before, after = head * len(prefix), tail * len(suffix)
    piece_lengths = before + length + after
    start = np.concatenate([[0], np.cumsum(piece_lengths)]).astype(np.int64)
    total = int(start[-1])
    # index of each token in `tokens`, -1 for special tokens
    source = np.full(total, -1, np.int64)
    inner = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
    source[np.repeat(start[:-1] + before, length) + inner] = np.repeat(first, length) + inner
    ids = np.where(source >= 0, tokens.token_ids[source], 0).astype(np.int32)
    for nth_special, special_id in enumerate(prefix):
        ids[start[:-1][head] + nth_special] = special_id
    for nth_special, special_id in enumerate(suffix):
        ids[(start[1:] - len(suffix))[tail] + nth_special] = special_id
    is_text_token = source >= 0
    return TokenRows(
        token_ids=ids,
        row_starts=(
            np.append(np.arange(0, total, context_length), total).astype(np.int64)
            if layout == "packed"
            else start
        ),
        doc_numbers=np.repeat(documents, piece_lengths).astype(np.int32),
        loss_mask=(
            np.ones(total, bool)
            if tokens.loss_mask is None
            else np.where(is_text_token, tokens.loss_mask[source], True)
        ),
        word_ids=(
            None
            if tokens.word_ids is None
            else np.where(is_text_token, tokens.word_ids[source], NO_WORD).astype(np.int32)
        ),
        is_maskable=(
            None if tokens.is_maskable is None else is_text_token & tokens.is_maskable[source]
        ),
        doc_labels=tokens.doc_labels,
        doc_ids=tokens.doc_ids,
        pad_id=pad_id,
        isolates_documents=isolates_documents and layout == "packed",
    )


@dataclass(frozen=True)
class BatchPlan:
    """Assigns rows to optimizer steps. Steps count from 0; a batch does not cross the end of an
    epoch, where the last one is shorter."""

    row_count: int
    batch_size: int
    seed: int
    epochs: int
    max_steps: int | None = None

    @property
    def steps_per_epoch(self) -> int:
        """Number of optimizer steps of one epoch."""
        return -(-self.row_count // self.batch_size)

    @property
    def step_count(self) -> int:
        """Number of optimizer steps of the run."""
        return min(self.steps_per_epoch * self.epochs, self.max_steps or 2**62)

    def epoch_of_step(self, step: int) -> int:
        """Return the epoch, from 0, that a step belongs to."""
        return step // self.steps_per_epoch

    def get_step_rows(self, step: int) -> I64:
        """Return the row numbers of a step."""
        at = step % self.steps_per_epoch * self.batch_size
        return _cached_permutation(self.row_count, self.seed, self.epoch_of_step(step))[
            at : at + self.batch_size
        ]

    def get_micro_batches(
        self, step: int, *, rank: int = 0, world_size: int = 1, n_micro_batches: int = 1
    ) -> list[I64]:
        """Return the row numbers of one process in a step, split into `n_micro_batches`; some are
        empty if there are few rows."""
        return list(np.array_split(self.get_step_rows(step)[rank::world_size], n_micro_batches))

    def compute_first_step_by_row(self) -> I64:
        """Return the step (from 1) in which each row is used for the first time."""
        found = np.empty(self.row_count, np.int64)
        found[draw_permutation(self.row_count, seed=self.seed, epoch=0)] = (
            np.arange(self.row_count) // self.batch_size + 1
        )
        return found

    def checkpoint_steps(self, every_epochs: float) -> list[int]:
        """Return the numbers of steps after which a checkpoint is written: every `every_epochs`
        epochs (0: never), and at the end."""
        count = (
            int(self.step_count / self.steps_per_epoch / every_epochs + 1e-9) if every_epochs else 0
        )
        found = {
            max(1, round(number * every_epochs * self.steps_per_epoch))
            for number in range(1, count + 1)
        }
        return sorted({step for step in found if step < self.step_count} | {self.step_count})


# the epoch of the step, and the next one, whose batches are prepared ahead in another thread
@functools.lru_cache(maxsize=2)
def _cached_permutation(row_count: int, seed: int, epoch: int) -> I64:
    """Return the row order of an epoch."""
    return draw_permutation(row_count, seed=seed, epoch=epoch)


def compute_first_steps(
    rows: TokenRows, batch_plan: BatchPlan, max_step: int | None = None
) -> pa.Table:
    """Return a table `doc_id`, `first_step`: the step (from 1) in which a document is used for the
    first time, up to `max_step`.

    Computed from the plan alone. Documents that are not reached, or have no tokens, are left out.
    """
    max_step = batch_plan.step_count if max_step is None else max_step
    return aggregate_first_steps(rows, batch_plan.compute_first_step_by_row(), max_step)


def aggregate_first_steps(rows: TokenRows, first_step_by_row: I64, max_step: int) -> pa.Table:
    """Return the table of `compute_first_steps` from the step (from 1) in which each row is used
    for the first time."""
    row, doc = rows.list_row_document_pairs()
    first = np.full(len(rows.doc_ids), np.iinfo(np.int64).max)
    np.minimum.at(first, doc, first_step_by_row[row])
    seen = np.flatnonzero(first <= max_step)
    table = pa.table(
        {"doc_id": rows.doc_ids.take(pa.array(seen)).cast(pa.string()), "first_step": first[seen]}
    )
    return merge_first_steps(table)


def merge_first_steps(*tables: pa.Table) -> pa.Table:
    """Merge tables of `aggregate_first_steps`; documents with the same id count as one."""
    table = (
        pa.concat_tables(tables)
        .group_by("doc_id")
        .aggregate([("first_step", "min")])
        .rename_columns(["doc_id", "first_step"])
    )
    return table.sort_by([("first_step", "ascending"), ("doc_id", "ascending")])


class BatchStream:
    """Iterates over the batches of a plan, for one of `world_size` processes and one of
    `worker_count` workers; resumable by `state_dict`.

    A position is a step of the plan. Worker w yields the positions p with p % worker_count == w: a
    loader that reads its workers in turn then yields the same order as one worker. All ranks and
    workers together yield every row of an epoch exactly once.
    """

    def __init__(
        self,
        rows: TokenRows,
        batch_plan: BatchPlan,
        *,
        rank: int = 0,
        world_size: int = 1,
        worker_index: int = 0,
        worker_count: int = 1,
    ) -> None:
        assert len(rows) == batch_plan.row_count, "a plan of these rows"
        self.rows, self.batch_plan = rows, batch_plan
        self.rank, self.world_size, self.worker_index, self.worker_count = (
            rank,
            world_size,
            worker_index,
            worker_count,
        )
        self.position = 0  # the next step to yield

    def __iter__(self) -> Iterator[TokenBatch]:
        while self.position < self.batch_plan.step_count:
            step = self.position
            self.position += (
                1  # before the yield: a state saved while a batch is being used counts it as done
            )
            if step % self.worker_count != self.worker_index:
                continue
            (numbers,) = self.batch_plan.get_micro_batches(
                step, rank=self.rank, world_size=self.world_size
            )
            if len(numbers):
                yield self.rows.make_batch(numbers, self.batch_plan.epoch_of_step(step))

    def state_dict(self) -> dict[str, Any]:
        """Return the position and the fingerprint of the stream, as plain numbers."""
        return {"position": self.position, **self._fingerprint()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue at the position of a saved state; UsageError if that stream had other rows or
        another order."""
        saved = {key: state.get(key) for key in self._fingerprint()}
        if saved != self._fingerprint():
            wrong = sorted(key for key, value in self._fingerprint().items() if saved[key] != value)
            raise UsageError(
                f"the state belongs to another stream: {', '.join(wrong)} differ; start again, or"
                " use the data and settings of that stream"
            )
        self.position = int(state["position"])

    def _fingerprint(self) -> dict[str, Any]:
        return {
            "rows": self.batch_plan.row_count,
            "batch": self.batch_plan.batch_size,
            "seed": self.batch_plan.seed,
            "tokens": len(self.rows.token_ids),
        }

    def to_torch_dataset(self) -> Any:
        """Return the stream as a torch `IterableDataset` of dictionaries, for other trainers
        (`DataLoader(..., batch_size=None)`).

        Each item has `input_ids`, `attention_mask`, `labels` (tokens that may be in a loss, -100
        elsewhere, not shifted, as Hugging Face models expect them), `doc_ids`, a list for each row,
        and `position`. With several workers each iterates over its own copy of the stream; resume
        from the position of the last item: `load_state_dict({**state_dict(), "position":
        position})`.
        """
        return make_torch_dataset(self)

    def get_doc_ids(self, row_numbers: I64) -> list[list[str]]:
        """Return the ids of the documents in each of these rows, in order of occurrence."""
        found = []
        for number in row_numbers:  # a few rows
            doc = self.rows.doc_numbers[
                self.rows.row_starts[number] : self.rows.row_starts[number + 1]
            ]
            distinct = doc[np.sort(np.unique(doc, return_index=True)[1])]
            found.append(self.rows.doc_ids.take(pa.array(distinct)).to_pylist())
        return found


def make_torch_dataset(stream: BatchStream) -> Any:
    """Build the dataset of `BatchStream.to_torch_dataset`; a module-level function, so that worker
    processes can unpickle it."""
    import torch

    class Dataset(torch.utils.data.IterableDataset[dict[str, Any]]):
        def __reduce__(self) -> tuple[Any, ...]:
            return make_torch_dataset, (stream,)

        def __iter__(self) -> Iterator[dict[str, Any]]:
            info = torch.utils.data.get_worker_info()
            if info is not None:
                stream.worker_index, stream.worker_count = info.id, info.num_workers
            for batch in stream:
                yield {
                    "input_ids": torch.from_numpy(batch.token_ids.astype(np.int64)),
                    "attention_mask": torch.from_numpy(batch.attention_mask.astype(np.int64)),
                    "labels": torch.from_numpy(
                        np.where(batch.loss_mask, batch.token_ids, -100).astype(np.int64)
                    ),
                    "doc_ids": stream.get_doc_ids(batch.row_numbers),
                    "position": stream.position,
                }

        def state_dict(self) -> dict[str, Any]:
            return stream.state_dict()

        def load_state_dict(self, state: Mapping[str, Any]) -> None:
            stream.load_state_dict(state)

    return Dataset()
