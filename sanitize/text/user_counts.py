"""Counts distinct users per item up to k: with a hash table for frequent items, by sorting where
most items occur once or twice.

Items (words, n-grams) are 64-bit ids. `UserCounter` and `IdIndex` are vectorised hash tables with
open addressing and linear probing: an id is stored in the first free slot at or after the slot that
its multiplicative hash selects. Most words of a text soon have k users, and one lookup then skips
them; memory is 8 bytes per slot, 4 for the position and 4 for each of k - 1 users.
`SortedUserCounter` stores 8 bytes for each (item, user) pair and sorts the pairs: 20 ns per pair,
where a hash table larger than the cache takes 200 ns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import numpy as np

from sanitize.array_types import I32, I64, U64

# odd constant of multiplicative (Fibonacci) hashing: spreads neighbouring ids over the table
_HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_BLOCK = 1 << 15  # items per block: their columns then stay in the second-level cache
_INITIAL_SLOTS = 1 << 17  # slots of a new table; must exceed the fill limit by one block of new ids
_EMIT_PAIRS = 1 << 17  # pairs per call of `emit`
_INITIAL_PAIRS = 1 << 21  # pairs stored before they are sorted for the first time: 16 MB
_MAX_LOAD = 0.55  # fraction of occupied slots above which the table grows
_FREE, _FULL = -1, -2


class _HashSlots:
    """Hash table of distinct non-zero ids: `keys` has one id per slot, 0 for a free slot."""

    def __init__(self, slot_count: int) -> None:
        self.keys = np.zeros(slot_count, np.uint64)
        self._shift = np.uint64(64 - (slot_count.bit_length() - 1))

    def find_slots(self, item_ids: U64, *, insert: bool) -> tuple[I64, I64]:
        """(slot of each id, rows of the ids that were inserted); an id that occurs several times
        may be in the rows several times.

        Without `insert`, an id that is not in the table gets the free slot that ended its search.
        """
        at = ((item_ids * _HASH_MULTIPLIER) >> self._shift).view(np.int64)
        new = [np.empty(0, np.int64)]
        rest = np.flatnonzero(self.keys[at] != item_ids)
        while len(rest):
            slots, ids = at[rest], item_ids[rest]
            free = self.keys[slots] == 0
            if insert:
                # if two ids compete for one free slot, the last write wins; the other continues to
                # probe
                self.keys[slots[free]] = ids[free]
                done = self.keys[slots] == ids
                new.append(rest[free & done])
            else:
                done = free | (self.keys[slots] == ids)
            rest = rest[~done]
            at[rest] = (at[rest] + 1) & (len(self.keys) - 1)
        return at, np.concatenate(new)


class IdIndex:
    """Looks up the positions of ids in a column of distinct ids, for whole columns at once."""

    def __init__(self, item_ids: U64) -> None:
        assert len(item_ids) < 1 << 31
        self._slots = _HashSlots(max(64, 1 << int(len(item_ids) / _MAX_LOAD).bit_length()))
        self._positions = np.full(len(self._slots.keys), -1, np.int32)
        for low in range(0, len(item_ids), _BLOCK):
            block = item_ids[low : low + _BLOCK]
            at, _ = self._slots.find_slots(block, insert=True)
            self._positions[at] = np.arange(low, low + len(block), dtype=np.int32)

    def positions_of(self, item_ids: U64) -> I32:
        """The position of each id, -1 for an id that is not in the index."""
        out = np.empty(len(item_ids), np.int32)
        for low in range(0, len(item_ids), _BLOCK):
            block = item_ids[low : low + _BLOCK]
            out[low : low + _BLOCK] = self._positions[
                self._slots.find_slots(block, insert=False)[0]
            ]
        return out


class UserCounter:
    """Counts the distinct users of each item with a hash table: stores up to k - 1 users per item;
    with k users an item is full.

    Calls `emit` from `flush`, and whenever the table would exceed `max_bytes`: with all pairs of an
    item and a user, and one pair with user -1 for a full item. Results of several flushes have to
    be merged by the reader (`merge_user_counts`).
    """

    blocks_per_run: ClassVar[None] = None  # emitted pairs are not sorted

    def __init__(
        self, k: int, emit: Callable[[U64, I32], None], max_bytes: int = 384 << 20
    ) -> None:
        assert k > 1
        self._k, self._emit = k, emit
        self._next_position = 0  # position of the next new item
        self._max_slots = max(_INITIAL_SLOTS, 1 << ((max_bytes // (8 + 4 * k)).bit_length() - 1))
        self._reset(_INITIAL_SLOTS)

    def add(self, item_ids: U64, users: I32) -> tuple[I32, I64]:
        """Counts items with their users (numbered from 0).

        Returns the position of each item in order of first appearance, and the rows of the items
        that were new, in that order. After a flush an item may be new again.
        """
        new, positions = [np.empty(0, np.int64)], np.empty(len(item_ids), np.int32)
        for low in range(0, len(item_ids), _BLOCK):
            block, block_users = item_ids[low : low + _BLOCK], users[low : low + _BLOCK]
            at, inserted = self._slots.find_slots(block, insert=True)
            if len(inserted):
                # one row per inserted item: its first, in order of appearance
                inserted.sort()
                inserted = inserted[np.sort(np.unique(at[inserted], return_index=True)[1])]
                self._positions[at[inserted]] = np.arange(
                    self._next_position, self._next_position + len(inserted), dtype=np.int32
                )
                self._next_position += len(inserted)
                self._count += len(inserted)
                new.append(inserted + low)
            positions[low : low + _BLOCK] = self._positions[at]
            self._record_users(at, block_users)
            if self._count > _MAX_LOAD * len(self._slots.keys):
                self._grow()
        return positions, np.concatenate(new)

    def _record_users(self, slots: I64, users: I32) -> None:
        """Stores each user in a free user column of its slot; an item without a free column is
        marked as full."""
        rows = np.flatnonzero(self._users[0][slots] != _FULL)
        slots, users = slots[rows], users[rows]
        for user_column in self._users:
            free = user_column[slots] == _FREE
            user_column[slots[free]] = users[free]
            rest = user_column[slots] != users
            slots, users = slots[rest], users[rest]
        self._users[0][slots] = _FULL

    def flush(self) -> None:
        """Emits all counts and empties the table."""
        occupied = np.flatnonzero(self._slots.keys)
        item_ids, first_users = self._slots.keys[occupied], self._users[0][occupied]
        self._emit(item_ids, np.where(first_users == _FULL, np.int32(-1), first_users))
        rows = np.flatnonzero(first_users != _FULL)
        for user_column in self._users[1:]:
            rows = rows[user_column[occupied[rows]] != _FREE]
            if len(rows):
                self._emit(item_ids[rows], user_column[occupied[rows]])
        self._reset(_INITIAL_SLOTS)

    def _reset(self, slot_count: int) -> None:
        self._slots = _HashSlots(slot_count)
        self._users = [np.full(slot_count, _FREE, np.int32) for _ in range(self._k - 1)]
        self._positions = np.empty(slot_count, np.int32)
        self._count = 0

    def _grow(self) -> None:
        """Moves everything to a table of four times the slots; flushes instead if the table already
        has the maximum size."""
        old_keys, old_columns, count = (
            self._slots.keys,
            [*self._users, self._positions],
            self._count,
        )
        if len(old_keys) >= self._max_slots:
            return self.flush()
        self._reset(min(self._max_slots, 4 * len(old_keys)))
        occupied = np.flatnonzero(old_keys)
        for low in range(0, len(occupied), _BLOCK):
            rows = occupied[low : low + _BLOCK]
            at, _ = self._slots.find_slots(old_keys[rows], insert=True)
            for column, old in zip([*self._users, self._positions], old_columns, strict=True):
                column[at] = old[rows]
        self._count = count


class SortedUserCounter:
    """Counts the distinct users of each item by sorting pairs; items are below 2^`item_bits`, users
    below `user_count`.

    An item and a user must fit in 64 bits together (`can_pack`). Calls `emit` from `flush`, and
    whenever more than half of `max_pairs` pairs are distinct, with pairs as `UserCounter` does.
    Each flush (a run) is ascending by item, and no item is split over two calls. `blocks_per_run`
    has the number of calls of each run.
    """

    def __init__(
        self,
        k: int,
        item_bits: int,
        user_count: int,
        emit: Callable[[U64, I32], None],
        max_pairs: int = 1 << 25,
    ) -> None:
        assert k > 1 and self.can_pack(item_bits, user_count)
        self._k, self._emit, self._user_bits = k, emit, np.uint64((user_count - 1).bit_length())
        # Untouched pages of the array cost no memory, and the first touch of a page costs more than
        # another sort: grow late.
        self._pairs, self._count, self._capacity = (
            np.empty(max_pairs, np.uint64),
            0,
            min(max_pairs, _INITIAL_PAIRS),
        )
        self.blocks_per_run: list[int] = []

    @staticmethod
    def can_pack(item_bits: int, user_count: int) -> bool:
        """True if an item and a user fit in one number of 64 bits."""
        return item_bits + (user_count - 1).bit_length() <= 64

    def add(self, item_ids: U64, users: I32) -> None:
        """Counts items with their users."""
        while len(item_ids):
            n = min(len(item_ids), self._capacity - self._count)
            packed = self._pairs[self._count : self._count + n]
            np.left_shift(item_ids[:n], self._user_bits, out=packed)
            packed |= users[:n].astype(np.uint64)
            self._count += n
            item_ids, users = item_ids[n:], users[n:]
            if self._count == self._capacity:
                self._compact()
                if self._count > self._capacity // 2:
                    if self._capacity == len(self._pairs):
                        self.flush()
                    else:
                        self._capacity = min(4 * self._capacity, len(self._pairs))

    def _compact(self) -> None:
        """Sorts the stored pairs in place and keeps each pair once, at most k pairs per item."""
        pairs = self._pairs[: self._count]
        pairs.sort()
        previous, self._count = pairs[:0], 0  # the last k distinct pairs of the blocks before
        for low in range(0, len(pairs), _BLOCK):
            block = pairs[low : low + _BLOCK]
            is_new = np.ones(len(block), np.bool_)
            np.not_equal(block[1:], block[:-1], out=is_new[1:])
            if len(previous):
                is_new[0] = block[0] != previous[-1]
            block = np.concatenate([previous, block[is_new]])
            item_ids = block >> self._user_bits
            # a pair is kept unless the pair k places before it is of the same item
            is_kept = np.ones(len(block), np.bool_)
            np.not_equal(item_ids[self._k :], item_ids[: -self._k], out=is_kept[self._k :])
            is_kept[: len(previous)] = False
            kept = block[is_kept]
            # in place: the write position never passes the read position
            pairs[self._count : self._count + len(kept)] = kept
            self._count += len(kept)
            previous = block[-self._k :]

    def flush(self) -> None:
        """Emits all counts as one run and empties the counter."""
        self._compact()
        pairs, low, calls = self._pairs[: self._count], 0, 0
        while low < len(pairs):
            high = min(len(pairs), low + _EMIT_PAIRS)
            # extend the block to the end of its last item
            last = pairs[high - 1] >> self._user_bits
            high += int(
                np.searchsorted(pairs[high : high + self._k] >> self._user_bits, last, side="right")
            )
            item_ids = pairs[low:high] >> self._user_bits
            first_rows = np.flatnonzero(np.append(True, item_ids[1:] != item_ids[:-1]))
            full = np.diff(np.append(first_rows, len(item_ids))) == self._k
            users = (pairs[low:high] & ((np.uint64(1) << self._user_bits) - np.uint64(1))).astype(
                np.int32
            )
            # a full item is emitted once, with user -1
            users[first_rows[full]] = -1
            emitted = np.ones(len(item_ids), np.bool_)
            for offset in range(1, self._k):
                emitted[first_rows[full] + offset] = False
            self._emit(item_ids[emitted], users[emitted])
            low, calls = high, calls + 1
        if calls:
            self.blocks_per_run.append(calls)
        self._count = 0


def merge_user_counts(
    runs: Sequence[Iterator[tuple[I64, I64]]], k: int
) -> Iterator[tuple[I64, I64]]:
    """Merges sorted runs: yields blocks of (item ids, distinct users of each up to k), ascending by
    item.

    Each run is an iterator of blocks that ascend and do not split an item: item ids, and one user
    per row, or one row with -1 for an item with k users. One block of each run is in memory.
    """
    heads = [(run, *block) for run in runs if (block := next(run, None)) is not None]
    while heads:
        # up to the smallest last item of all current blocks, no run has rows beyond its current
        # block
        bound = min(int(item_ids[-1]) for _, item_ids, _ in heads)
        ready, next_heads = list[tuple[I64, I64]](), []
        for run, item_ids, users in heads:
            cut = int(np.searchsorted(item_ids, bound, side="right"))
            ready.append((item_ids[:cut], users[:cut]))
            item_ids, users = item_ids[cut:], users[cut:]
            if len(item_ids):
                next_heads.append((run, item_ids, users))
            elif (block := next(run, None)) is not None:
                next_heads.append((run, *block))
        heads = next_heads
        item_ids, users = (
            ready[0]
            if len(ready) == 1
            else (np.concatenate(column) for column in zip(*ready, strict=True))
        )
        if len(ready) > 1:
            # the input consists of sorted runs, which a stable sort merges
            order = np.argsort(item_ids, kind="stable")
            item_ids, users = item_ids[order], users[order]
        yield _count_distinct_users(item_ids, users, k)


def _count_distinct_users(item_ids: I64, users: I64, k: int) -> tuple[I64, I64]:
    """Each item once, with the number of its distinct users up to k; k where one of its users is
    -1. Rows of an item are adjacent."""
    first_rows = np.flatnonzero(np.append(True, item_ids[1:] != item_ids[:-1]))
    counts = np.where(users[first_rows] < 0, k, 1)
    row_counts = np.diff(np.append(first_rows, len(item_ids)))
    repeated = np.flatnonzero(row_counts > 1)  # items with several rows
    if len(repeated):
        item_no, item_users = (
            np.repeat(np.arange(len(repeated)), row_counts[repeated]),
            users[np.repeat(row_counts > 1, row_counts)],
        )
        order = np.lexsort((item_users, item_no))
        item_no, item_users = item_no[order], item_users[order]
        is_new = np.append(
            True, (item_no[1:] != item_no[:-1]) | (item_users[1:] != item_users[:-1])
        )
        distinct = np.minimum(np.bincount(item_no[is_new], minlength=len(repeated)), k)
        distinct[item_no[item_users < 0]] = k
        counts[repeated] = distinct
    return item_ids[first_rows], counts
