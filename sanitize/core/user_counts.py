"""Numbers of things with their users, counted up to k: by a table where things come often, by sorting where most come once or twice.

`Degrees` and `Places` are open addressing in columns: a number of 64 bits stands in one of the slots after the place that its multiple
names. Most words of a text are known to have k users soon, and one look at the table passes them over; memory is 8 bytes a slot, 4 for its
place and 4 for each of k - 1 users. `Pairs` holds 8 bytes for each thing and user that it was given, and sorts them: 20 ns each, where a
table that fits no cache takes 200.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
_STEP = np.uint64(0x9E3779B97F4A7C15)  # odd, and nothing like a number that is counted: neighbours come to lie far apart
_BLOCK = 1 << 15  # things at a time: their columns then stay in the second-level cache
_FIRST = 1 << 17  # slots; a block of new numbers must find room beside what is there
_OUT = 1 << 17  # pairs that go out at once
_PAIRS = 1 << 21  # pairs that are held before they are sorted for the first time: 16 MB
_LOAD = 0.55  # of the slots that are taken before there are more
_FREE, _FULL = -1, -2


class _Slots:
    """Distinct numbers, none of them zero, each in a slot of its own."""

    def __init__(self, slots: int) -> None:
        self.keys = np.zeros(slots, np.uint64)
        self._shift = np.uint64(64 - (slots.bit_length() - 1))

    def places(self, numbers: U64, *, put: bool) -> tuple[I64, I64]:
        """The slot of each number, and which of them were `put` into a free one, once or more often; without `put`, one that is not there
        has the free slot that ended the search."""
        at = ((numbers * _STEP) >> self._shift).view(np.int64)
        new = [np.empty(0, np.int64)]
        rest = np.flatnonzero(self.keys[at] != numbers)
        while len(rest):
            place, wanted = at[rest], numbers[rest]
            free = self.keys[place] == 0
            if put:
                # where two want the same slot one of them has it now
                self.keys[place[free]] = wanted[free]
                done = self.keys[place] == wanted
                new.append(rest[free & done])
            else:
                done = free | (self.keys[place] == wanted)
            rest = rest[~done]
            at[rest] = (at[rest] + 1) & (len(self.keys) - 1)
        return at, np.concatenate(new)


class Places:
    """The place of a number in a column of distinct ones, asked for whole columns."""

    def __init__(self, column: U64) -> None:
        assert len(column) < 1 << 31
        self._slots = _Slots(max(64, 1 << int(len(column) / _LOAD).bit_length()))
        self._numbers = np.full(len(self._slots.keys), -1, np.int32)
        for low in range(0, len(column), _BLOCK):
            block = column[low : low + _BLOCK]
            at, _ = self._slots.places(block, put=True)
            self._numbers[at] = np.arange(low, low + len(block), dtype=np.int32)

    def of(self, numbers: U64) -> I32:
        """The place of each, -1 for one that is not there."""
        out = np.empty(len(numbers), np.int32)
        for low in range(0, len(numbers), _BLOCK):
            block = numbers[low : low + _BLOCK]
            out[low : low + _BLOCK] = self._numbers[self._slots.places(block, put=False)[0]]
        return out


class Degrees:
    """How many users each number has: up to k - 1 by name, and with one more it is full.

    What is counted goes to `out` at the end, and whenever the slots would take more than `most` bytes: all pairs of a number and a user,
    and for a number that is full one pair with -1. Whoever reads what came out in several parts puts them together.
    """

    parts: ClassVar[None] = None  # what goes out is in no order

    def __init__(self, k: int, out: Callable[[U64, I32], None], most: int = 384 << 20) -> None:
        assert k > 1
        self._k, self._out = k, out
        self._next = 0  # the place of the next new number
        self._most = max(_FIRST, 1 << ((most // (8 + 4 * k)).bit_length() - 1))
        self._renew(_FIRST)

    def add(self, numbers: U64, users: I32) -> tuple[I32, I64]:
        """Count numbers with their users (from 0). Returns the place of each number in the order in which they came first, and where those
        that were new stand, in that order. After the table went to `out` a number may be new again."""
        new, place = [np.empty(0, np.int64)], np.empty(len(numbers), np.int32)
        for low in range(0, len(numbers), _BLOCK):
            block, mine = numbers[low : low + _BLOCK], users[low : low + _BLOCK]
            at, fresh = self._slots.places(block, put=True)
            if len(fresh):
                fresh.sort()
                fresh = fresh[np.sort(np.unique(at[fresh], return_index=True)[1])]
                self._places[at[fresh]] = np.arange(self._next, self._next + len(fresh), dtype=np.int32)
                self._next += len(fresh)
                self._count += len(fresh)
                new.append(fresh + low)
            place[low : low + _BLOCK] = self._places[at]
            self._settle(at, mine)
            if self._count > _LOAD * len(self._slots.keys):
                self._grow()
        return place, np.concatenate(new)

    def _settle(self, at: I64, users: I32) -> None:
        """Give each user a place beside the number in the slot, or find the number full."""
        rows = np.flatnonzero(self._users[0][at] != _FULL)
        at, users = at[rows], users[rows]
        for names in self._users:
            free = names[at] == _FREE
            names[at[free]] = users[free]
            rest = names[at] != users
            at, users = at[rest], users[rest]
        self._users[0][at] = _FULL

    def done(self) -> None:
        """Let go of everything."""
        held = np.flatnonzero(self._slots.keys)
        numbers, first = self._slots.keys[held], self._users[0][held]
        self._out(numbers, np.where(first == _FULL, np.int32(-1), first))
        rows = np.flatnonzero(first != _FULL)
        for names in self._users[1:]:
            rows = rows[names[held[rows]] != _FREE]
            if len(rows):
                self._out(numbers[rows], names[held[rows]])
        self._renew(_FIRST)

    def _renew(self, slots: int) -> None:
        self._slots = _Slots(slots)
        self._users = [np.full(slots, _FREE, np.int32) for _ in range(self._k - 1)]
        self._places = np.empty(slots, np.int32)
        self._count = 0

    def _grow(self) -> None:
        """The same in four times the slots; where these are all there may be, everything goes out."""
        before, columns, count = self._slots.keys, [*self._users, self._places], self._count
        if len(before) >= self._most:
            return self.done()
        self._renew(min(self._most, 4 * len(before)))
        held = np.flatnonzero(before)
        for low in range(0, len(held), _BLOCK):
            rows = held[low : low + _BLOCK]
            at, _ = self._slots.places(before[rows], put=True)
            for column, old in zip([*self._users, self._places], columns, strict=True):
                column[at] = old[rows]
        self._count = count


class Pairs:
    """Numbers below 2^`bits` with their users (from 0, below `users`), counted by sorting them; `fits` says whether both fit 64 bits.

    What is counted goes to `out` at the end, and whenever more than half of `most` pairs are distinct: as with `Degrees`, ascending by
    number in each part, and no call holds a piece of a number's users. `parts` says how many calls each part took.
    """

    def __init__(self, k: int, bits: int, users: int, out: Callable[[U64, I32], None], most: int = 1 << 25) -> None:
        assert k > 1 and self.fits(bits, users)
        self._k, self._out, self._shift = k, out, np.uint64((users - 1).bit_length())
        # memory that is never written to costs nothing, and a first touch more than to sort what is there once more
        self._held, self._count, self._full = np.empty(most, np.uint64), 0, min(most, _PAIRS)
        self.parts: list[int] = []

    @staticmethod
    def fits(bits: int, users: int) -> bool:
        """True where a number and a user are one number of 64 bits."""
        return bits + (users - 1).bit_length() <= 64

    def add(self, numbers: U64, users: I32) -> None:
        """Count numbers with their users."""
        while len(numbers):
            many = min(len(numbers), self._full - self._count)
            packed = self._held[self._count : self._count + many]
            np.left_shift(numbers[:many], self._shift, out=packed)
            packed |= users[:many].astype(np.uint64)
            self._count += many
            numbers, users = numbers[many:], users[many:]
            if self._count == self._full:
                self._settle()
                if self._count > self._full // 2:
                    if self._full == len(self._held):
                        self.done()
                    else:
                        self._full = min(4 * self._full, len(self._held))

    def _settle(self) -> None:
        """What is held, sorted: each pair once, and of each number no more than k."""
        held = self._held[: self._count]
        held.sort()
        before, self._count = held[:0], 0  # the last k that were distinct
        for low in range(0, len(held), _BLOCK):
            block = held[low : low + _BLOCK]
            new = np.ones(len(block), np.bool_)
            np.not_equal(block[1:], block[:-1], out=new[1:])
            if len(before):
                new[0] = block[0] != before[-1]
            block = np.concatenate([before, block[new]])
            numbers = block >> self._shift
            few = np.ones(len(block), np.bool_)
            np.not_equal(numbers[self._k :], numbers[: -self._k], out=few[self._k :])
            few[: len(before)] = False
            kept = block[few]
            # never beyond what was read
            held[self._count : self._count + len(kept)] = kept
            self._count += len(kept)
            before = block[-self._k :]

    def done(self) -> None:
        """Let go of everything."""
        self._settle()
        held, low, calls = self._held[: self._count], 0, 0
        while low < len(held):
            high = min(len(held), low + _OUT)
            # up to where another number begins
            last = held[high - 1] >> self._shift
            high += int(np.searchsorted(held[high : high + self._k] >> self._shift, last, side="right"))
            numbers = held[low:high] >> self._shift
            first = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))
            full = np.diff(np.append(first, len(numbers))) == self._k
            users = (held[low:high] & ((np.uint64(1) << self._shift) - np.uint64(1))).astype(np.int32)
            users[first[full]] = -1
            rows = np.ones(len(numbers), np.bool_)
            for more in range(1, self._k):
                rows[first[full] + more] = False
            self._out(numbers[rows], users[rows])
            low, calls = high, calls + 1
        if calls:
            self.parts.append(calls)
        self._count = 0


def merged(parts: Sequence[Iterator[tuple[I64, I64]]], k: int) -> Iterator[tuple[I64, I64]]:
    """Numbers that several parts saw, ascending, and how many users they have, up to k. Each part comes in blocks that ascend and split no
    number: numbers, and for each its users one by one, or -1 once where it has k of them. A block of each is in memory."""
    heads = [(part, *block) for part in parts if (block := next(part, None)) is not None]
    while heads:
        # up to where the first of all blocks ends, no part has more to say than its block does
        bound = min(int(numbers[-1]) for _, numbers, _ in heads)
        taken, left = list[tuple[I64, I64]](), []
        for part, numbers, users in heads:
            cut = int(np.searchsorted(numbers, bound, side="right"))
            taken.append((numbers[:cut], users[:cut]))
            numbers, users = numbers[cut:], users[cut:]
            if len(numbers):
                left.append((part, numbers, users))
            elif (block := next(part, None)) is not None:
                left.append((part, *block))
        heads = left
        numbers, users = taken[0] if len(taken) == 1 else (np.concatenate(column) for column in zip(*taken, strict=True))
        if len(taken) > 1:
            order = np.argsort(numbers, kind="stable")  # of runs that ascend: they are merged
            numbers, users = numbers[order], users[order]
        yield _told(numbers, users, k)


def _told(numbers: I64, users: I64, k: int) -> tuple[I64, I64]:
    """Each number once, with how many of its users are distinct, up to k, or k where one of them is -1."""
    first = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))
    counted = np.where(users[first] < 0, k, 1)
    # those that stand in several rows
    many = np.diff(np.append(first, len(numbers)))
    several = np.flatnonzero(many > 1)
    if len(several):
        number, who = np.repeat(np.arange(len(several)), many[several]), users[np.repeat(many > 1, many)]
        order = np.lexsort((who, number))
        number, who = number[order], who[order]
        new = np.append(True, (number[1:] != number[:-1]) | (who[1:] != who[:-1]))
        distinct = np.minimum(np.bincount(number[new], minlength=len(several)), k)
        distinct[number[who < 0]] = k
        counted[several] = distinct
    return numbers[first], counted
