"""Rows of tokens and the order they come in: a pure function of (seed, epoch), so any step of any run can be named without training.

`Rows` cuts documents into rows once; `Plan` says which rows make which optimizer step; `Stream` walks along it, for one process or one
worker of many, and can be put back to any place. What a checkpoint has seen follows from the plan (`first_steps`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sanitize.errors import InputRefused, UsageError

from .tokenization import I32, I64, NO_WORD, Mask, Tokens

U64 = npt.NDArray[np.uint64]


def mixed(*lanes: int | npt.NDArray[Any]) -> U64:
    """64 well-mixed bits for each combination of `lanes` (integers and arrays that broadcast): splitmix64, lane after lane.

    The randomness of this package: no generator with a state, the same on every machine and for every batch size.
    """
    with np.errstate(over="ignore"):
        state = np.zeros((), np.uint64)
        for lane in lanes:
            value = np.uint64(lane & (2**64 - 1)) if isinstance(lane, int) else lane.astype(np.uint64)
            state = (state ^ value) + np.uint64(0x9E3779B97F4A7C15)
            state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state = state ^ (state >> np.uint64(31))
    return np.asarray(state, np.uint64)


ORDER, PACKING, DRAW = 1, 2, 3  # lanes, so that no two uses share their bits


def order(count: int, *, seed: int, epoch: int, lane: int = ORDER) -> I64:
    """The numbers below `count` in the order of this epoch."""
    found: I64 = np.argsort(mixed(seed, lane, epoch, np.arange(count)), kind="stable").astype(np.int64)
    return found


@dataclass(frozen=True, repr=False)
class Batch:
    """Some rows side by side, padded on the right. `numbers` are the rows', `mask` is true for tokens, `keep` for those in losses."""

    numbers: I64
    epoch: int
    ids: I32
    mask: Mask
    keep: Mask
    places: I64  # of each token in `Rows.ids`; its row's last token where it is padding
    units: I32 | None = None
    allowed: Mask | None = None
    labels: I64 | None = None


@dataclass(frozen=True, repr=False)
class Rows:
    """All rows of a corpus, one after the other in flat arrays. `doc` is the document of each token."""

    ids: I32
    starts: I64  # row r is starts[r]:starts[r + 1]
    doc: I32
    keep: Mask
    units: I32 | None
    allowed: Mask | None
    labels: I64 | None  # of documents
    doc_ids: pa.Array
    pad_id: int

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> I64:
        """Tokens of each row."""
        return np.diff(self.starts)

    def batch(self, numbers: I64, epoch: int) -> Batch:
        """These rows as a batch, as long as the longest of them."""
        lengths = self.starts[numbers + 1] - self.starts[numbers]
        at = np.arange(int(lengths.max(initial=1)))
        mask = at < lengths[:, None]
        places = self.starts[numbers][:, None] + np.minimum(at, lengths[:, None] - 1)
        return Batch(
            numbers=numbers,
            epoch=epoch,
            ids=np.where(mask, self.ids[places], self.pad_id).astype(np.int32),
            mask=mask,
            keep=mask & self.keep[places],
            places=places,
            units=None if self.units is None else np.where(mask, self.units[places], NO_WORD),
            allowed=None if self.allowed is None else mask & self.allowed[places],
            labels=None if self.labels is None else self.labels[self.doc[self.starts[numbers]]],
        )

    def pairs(self) -> tuple[I64, I32]:
        """Every pair of a row and a document that has tokens in it, once for each run of tokens."""
        row = np.repeat(np.arange(len(self)), self.lengths)
        fresh = np.ones(len(row), bool)
        fresh[1:] = (row[1:] != row[:-1]) | (self.doc[1:] != self.doc[:-1])
        return row[fresh], self.doc[fresh]


def lay(
    tokens: Tokens,
    *,
    layout: Literal["packed", "document"],
    context: int,
    seed: int,
    pad_id: int,
    prefix: tuple[int, ...] = (),
    suffix: tuple[int, ...] = (),
    every_piece: bool = False,
    overlong: Literal["split", "cut"] = "split",
) -> Rows:
    """Tokens as rows of at most `context`. `prefix` and `suffix` are special tokens around a document.

    `packed`: documents in an order drawn once, end to end, cut every `context` tokens; the packing is the same in all epochs, so that what
    is cached for a token stays true. `document`: rows of one document each; a long one is split (with `every_piece`, special tokens stand
    around each piece, else at the document's two ends) or cut.
    """
    sizes = np.diff(tokens.offsets)
    documents = np.flatnonzero(sizes)  # one without a token is in no row
    if layout == "packed":
        documents = documents[order(len(documents), seed=seed, epoch=0, lane=PACKING)]
        first, length = tokens.offsets[documents], sizes[documents]
        head = tail = np.ones(len(documents), bool)
    else:
        room = context - len(prefix) - len(suffix)
        if room < 1:
            raise UsageError(f"model.context = {context} leaves no room for a text beside its special tokens")
        pieces = np.ones(len(documents), np.int64) if overlong == "cut" else -(-sizes[documents] // room)
        nth = np.arange(int(pieces.sum())) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        documents = np.repeat(documents, pieces)
        first = tokens.offsets[documents] + nth * room
        length = np.minimum(sizes[documents] - nth * room, room)
        head = (nth == 0) | every_piece
        tail = (nth * room + length == sizes[documents]) | every_piece
    if not len(documents):
        raise InputRefused("the documents hold no tokens at all; expected texts")
    before, after = head * len(prefix), tail * len(suffix)
    whole = before + length + after
    start = np.concatenate([[0], np.cumsum(whole)]).astype(np.int64)
    total = int(start[-1])
    # where each token comes from in `tokens`, -1 for special ones
    source = np.full(total, -1, np.int64)
    inner = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
    source[np.repeat(start[:-1] + before, length) + inner] = np.repeat(first, length) + inner
    ids = np.where(source >= 0, tokens.ids[source], 0).astype(np.int32)
    for nth_special, one in enumerate(prefix):
        ids[start[:-1][head] + nth_special] = one
    for nth_special, one in enumerate(suffix):
        ids[(start[1:] - len(suffix))[tail] + nth_special] = one
    own = source >= 0
    return Rows(
        ids=ids,
        starts=np.append(np.arange(0, total, context), total).astype(np.int64) if layout == "packed" else start,
        doc=np.repeat(documents, whole).astype(np.int32),
        keep=np.ones(total, bool) if tokens.keep is None else np.where(own, tokens.keep[source], True),
        units=None if tokens.units is None else np.where(own, tokens.units[source], NO_WORD).astype(np.int32),
        allowed=None if tokens.allowed is None else own & tokens.allowed[source],
        labels=tokens.labels,
        doc_ids=tokens.doc_ids,
        pad_id=pad_id,
    )


@dataclass(frozen=True)
class Plan:
    """Which rows make which optimizer step. Steps count from 0 and do not cross the end of an epoch; the last one there is shorter."""

    rows: int
    batch: int
    seed: int
    epochs: int
    max_steps: int | None = None

    @property
    def steps_per_epoch(self) -> int:
        """Optimizer steps of one epoch."""
        return -(-self.rows // self.batch)

    @property
    def steps(self) -> int:
        """Optimizer steps of the run."""
        return min(self.steps_per_epoch * self.epochs, self.max_steps or 2**62)

    def epoch_of(self, step: int) -> int:
        """The epoch, from 0, that a step belongs to."""
        return step // self.steps_per_epoch

    def step(self, step: int) -> I64:
        """The rows of a step."""
        at = step % self.steps_per_epoch * self.batch
        return _orders(self.rows, self.seed, self.epoch_of(step))[at : at + self.batch]

    def share(self, step: int, *, rank: int = 0, ranks: int = 1, pieces: int = 1) -> list[I64]:
        """The rows of a step that fall to one process, in so many pieces; a piece may be empty where rows are few."""
        return list(np.array_split(self.step(step)[rank::ranks], pieces))

    def first_of_rows(self) -> I64:
        """After which step (from 1) each row was in a batch for the first time."""
        found = np.empty(self.rows, np.int64)
        found[order(self.rows, seed=self.seed, epoch=0)] = np.arange(self.rows) // self.batch + 1
        return found

    def marks(self, every: float) -> list[int]:
        """After how many steps a checkpoint is due: every so many epochs (0: never), and at the end."""
        count = int(self.steps / self.steps_per_epoch / every + 1e-9) if every else 0
        found = {max(1, round(number * every * self.steps_per_epoch)) for number in range(1, count + 1)}
        return sorted({mark for mark in found if mark < self.steps} | {self.steps})


_ORDERS: dict[tuple[int, int, int], I64] = {}


def _orders(rows: int, seed: int, epoch: int) -> I64:
    """The order of an epoch; the one of the last epoch asked for is kept."""
    key = (rows, seed, epoch)
    if key not in _ORDERS:
        found = order(rows, seed=seed, epoch=epoch)
        _ORDERS.clear()
        _ORDERS[key] = found
    return _ORDERS[key]


def first_steps(rows: Rows, plan: Plan, steps: int | None = None) -> pa.Table:
    """`doc_id` and `first_step`: after which step (from 1) a document had been in a batch for the first time; those seen within `steps`.

    Computed from the plan alone. A document that was never reached, or has no tokens, is not there.
    """
    steps = plan.steps if steps is None else steps
    return first_steps_of(rows, plan.first_of_rows(), steps)


def first_steps_of(rows: Rows, step_of_row: I64, steps: int) -> pa.Table:
    """As `first_steps`, from the step (from 1) after which each row had been in a batch for the first time."""
    row, doc = rows.pairs()
    first = np.full(len(rows.doc_ids), np.iinfo(np.int64).max)
    np.minimum.at(first, doc, step_of_row[row])
    seen = np.flatnonzero(first <= steps)
    table = pa.table({"doc_id": rows.doc_ids.take(pa.array(seen)).cast(pa.string()), "first_step": first[seen]})
    return merged(table)


def merged(*tables: pa.Table) -> pa.Table:
    """Such tables as one; an id that several documents share is one document."""
    table = pa.concat_tables(tables).group_by("doc_id").aggregate([("first_step", "min")]).rename_columns(["doc_id", "first_step"])
    return table.sort_by([("first_step", "ascending"), ("doc_id", "ascending")])


class Stream:
    """Batches along a plan, for one process of `ranks` and one worker of `workers`; `state_dict` puts another stream to the same place.

    A position is a step of the plan. Worker w takes the positions p with p % workers == w, so that a loader that asks its workers in turn
    gives the batches in the order of one worker; all ranks and workers together give every row of an epoch exactly once.
    """

    def __init__(self, rows: Rows, plan: Plan, *, rank: int = 0, ranks: int = 1, worker: int = 0, workers: int = 1) -> None:
        assert len(rows) == plan.rows, "a plan of these rows"
        self.rows, self.plan = rows, plan
        self.rank, self.ranks, self.worker, self.workers = rank, ranks, worker, workers
        self.position = 0  # the next step that nobody has been given

    def __iter__(self) -> Iterator[Batch]:
        while self.position < self.plan.steps:
            step = self.position
            self.position += 1  # before the batch leaves: who saves the state with a batch in hand has had it
            if step % self.workers != self.worker:
                continue
            (numbers,) = self.plan.share(step, rank=self.rank, ranks=self.ranks)
            if len(numbers):
                yield self.rows.batch(numbers, self.plan.epoch_of(step))

    def state_dict(self) -> dict[str, Any]:
        """Where the stream stands: plain numbers."""
        return {"position": self.position, **self._kind()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where another stream stood; UsageError where it was over other rows, or in another order."""
        kind = {key: state.get(key) for key in self._kind()}
        if kind != self._kind():
            wrong = sorted(key for key, value in self._kind().items() if kind[key] != value)
            raise UsageError(
                f"the state is one of another stream: {', '.join(wrong)} differ; start anew, or give the data and settings of then"
            )
        self.position = int(state["position"])

    def _kind(self) -> dict[str, Any]:
        return {"rows": self.plan.rows, "batch": self.plan.batch, "seed": self.plan.seed, "tokens": len(self.rows.ids)}

    def torch(self) -> Any:
        """The same as a `torch.utils.data.IterableDataset` of dictionaries, for any other trainer (`DataLoader(..., batch_size=None)`).

        Each item has `input_ids`, `attention_mask`, `labels` (tokens that may be in a loss, -100 elsewhere, not shifted, as Hugging Face
        models take them), `doc_ids`, a list for each row, and `position`. Several workers of a loader share the stream; each walks along
        a copy of it, so then the place to go on from is that of the last item: `load_state_dict({**state_dict(), "position": position})`.
        """
        return torch_dataset(self)

    def ids_of(self, numbers: I64) -> list[list[str]]:
        """The ids of the documents in each of these rows, in the order they stand there."""
        found = []
        for number in numbers:  # a few rows
            doc = self.rows.doc[self.rows.starts[number] : self.rows.starts[number + 1]]
            here = doc[np.sort(np.unique(doc, return_index=True)[1])]
            found.append(self.rows.doc_ids.take(pa.array(here)).to_pylist())
        return found


def torch_dataset(stream: Stream) -> Any:
    """`Stream.torch`, as a function that a worker process can find."""
    import torch

    class Dataset(torch.utils.data.IterableDataset[dict[str, Any]]):
        def __reduce__(self) -> tuple[Any, ...]:
            return torch_dataset, (stream,)

        def __iter__(self) -> Iterator[dict[str, Any]]:
            info = torch.utils.data.get_worker_info()
            if info is not None:
                stream.worker, stream.workers = info.id, info.num_workers
            for batch in stream:
                yield {
                    "input_ids": torch.from_numpy(batch.ids.astype(np.int64)),
                    "attention_mask": torch.from_numpy(batch.mask.astype(np.int64)),
                    "labels": torch.from_numpy(np.where(batch.keep, batch.ids, -100).astype(np.int64)),
                    "doc_ids": stream.ids_of(batch.numbers),
                    "position": stream.position,
                }

        def state_dict(self) -> dict[str, Any]:
            return stream.state_dict()

        def load_state_dict(self, state: Mapping[str, Any]) -> None:
            stream.load_state_dict(state)

    return Dataset()
