"""Which of several that are alike stay: the first of each component of pairs, or the first comers where nothing may stand twice.

Both decide for groups known by a number that ascends in corpus order. Memory: the groups that are paired with another, or the distinct
things that stand in more than one group; never all groups.
"""

from __future__ import annotations

from array import array
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

I64 = npt.NDArray[np.int64]


def components(one: I64, other: I64) -> tuple[I64, I64]:
    """Every group that is connected with a smaller one by pairs (`one`, `other`), and the smallest of its component; ascending.

    Union-find over whole columns: every root takes the smallest root it is paired with, then all paths are halved to their roots.
    """
    groups, place = np.unique(np.concatenate([one, other]), return_inverse=True)
    left, right = place[: len(one)], place[len(one) :]
    root = np.arange(len(groups))
    while len(left):
        low, high = np.minimum(root[left], root[right]), np.maximum(root[left], root[right])
        apart = low != high
        left, right, low, high = left[apart], right[apart], low[apart], high[apart]
        np.minimum.at(root, high, low)
        while (root != root[root]).any():
            root = root[root]
    later = np.flatnonzero(root != np.arange(len(groups)))
    return groups[later], groups[root[later]]


def that_repeat(path: Path) -> tuple[I64, I64]:
    """The groups that go, ascending, and for each the first group that stays and holds one of its things.

    `path` is a Parquet file with `group_no` (ascending; a document, or a line of one) and `thing` (numbered from 0 without gaps). A group
    goes if one of its things stands in an earlier group that stays: afterwards no thing stands in two groups, and no group went for
    the sake of one that is gone itself.
    """
    owner = np.full(_most(path) + 1, -1, np.int64)
    gone, kept = array("q"), array("q")
    rest_group, rest_thing = np.empty(0, np.int64), np.empty(0, np.int64)
    with pq.ParquetFile(path, pre_buffer=False) as file:
        for batch in [*range(file.num_row_groups), None]:
            if batch is not None:
                rows = file.read_row_group(batch, columns=["group_no", "thing"], use_threads=False)
                rest_group = np.concatenate([rest_group, np.asarray(rows.column("group_no"), np.int64)])
                rest_thing = np.concatenate([rest_thing, np.asarray(rows.column("thing"), np.int64)])
            bounds = np.flatnonzero(np.diff(rest_group, prepend=-1, append=-1))
            whole = bounds if batch is None else bounds[:-1]  # the last group may go on in the next row group
            # a loop over the groups that share something: each decision hangs on all before it
            for low, high in zip(whole[:-1].tolist(), whole[1:].tolist(), strict=True):
                things = rest_thing[low:high]
                holders = owner[things]
                if holders.max() < 0:
                    owner[things] = rest_group[low]
                else:
                    gone.append(int(rest_group[low]))
                    kept.append(int(holders[holders >= 0].min()))
            if len(whole):
                rest_group, rest_thing = rest_group[whole[-1] :], rest_thing[whole[-1] :]
    return np.array(gone, np.int64), np.array(kept, np.int64)


def _most(path: Path) -> int:
    """The largest `thing`, -1 where there is none; read a row group at a time."""
    with pq.ParquetFile(path, pre_buffer=False) as file:
        return max(
            (
                int(np.asarray(file.read_row_group(at, columns=["thing"]).column("thing"), np.int64).max(initial=-1))
                for at in range(file.num_row_groups)
            ),
            default=-1,
        )
