"""Selects which groups of similar documents or lines stay: by connected components of pairs, or by
items that occur in two groups.

Groups are numbered in ascending corpus order. `connected_components` keeps the first group of every
component; `find_repeating_groups` keeps a group unless it shares an item with an earlier kept
group. Memory: the groups that are paired with another, or the distinct items that occur in more
than one group; never all groups.
"""

from __future__ import annotations

from array import array
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from sanitize.array_types import I64


def connected_components(first_groups: I64, second_groups: I64) -> tuple[I64, I64]:
    """Every group that pairs (`first_groups`, `second_groups`) connect with a smaller one, and the
    smallest group of its component.

    Both arrays are in ascending order of the group. Union-find over whole columns: every root is
    linked to the smallest root it is paired with, then all paths are halved until they end at a
    root.
    """
    groups, group_nos = np.unique(
        np.concatenate([first_groups, second_groups]), return_inverse=True
    )
    left, right = group_nos[: len(first_groups)], group_nos[len(first_groups) :]
    root = np.arange(len(groups))
    while len(left):
        low, high = np.minimum(root[left], root[right]), np.maximum(root[left], root[right])
        unmerged = low != high
        left, right, low, high = left[unmerged], right[unmerged], low[unmerged], high[unmerged]
        np.minimum.at(root, high, low)
        while (root != root[root]).any():
            root = root[root]
    later = np.flatnonzero(root != np.arange(len(groups)))
    return groups[later], groups[root[later]]


def find_repeating_groups(path: Path) -> tuple[I64, I64]:
    """The groups to remove, ascending, and for each the first kept group that contains one of its
    items.

    `path` is a Parquet file with `group_no` (ascending; a document, or a line of one) and `item_no`
    (an item, numbered from 0 without gaps). A group is removed if one of its items occurs in an
    earlier group that is kept. Afterwards no item occurs in two groups, and no group was removed
    because of a group that is itself removed.
    """
    owner = np.full(_max_item(path) + 1, -1, np.int64)
    removed, kept_instead = array("q"), array("q")
    pending_groups, pending_items = np.empty(0, np.int64), np.empty(0, np.int64)
    with pq.ParquetFile(path, pre_buffer=False) as file:
        for batch in [*range(file.num_row_groups), None]:
            if batch is not None:
                rows = file.read_row_group(
                    batch, columns=["group_no", "item_no"], use_threads=False
                )
                pending_groups = np.concatenate(
                    [pending_groups, np.asarray(rows.column("group_no"), np.int64)]
                )
                pending_items = np.concatenate(
                    [pending_items, np.asarray(rows.column("item_no"), np.int64)]
                )
            bounds = np.flatnonzero(np.diff(pending_groups, prepend=-1, append=-1))
            # the last group may continue in the next row group
            complete = bounds if batch is None else bounds[:-1]
            # a loop over the groups that share an item: each decision depends on all decisions
            # before it
            for low, high in zip(complete[:-1].tolist(), complete[1:].tolist(), strict=True):
                items = pending_items[low:high]
                holders = owner[items]
                if holders.max() < 0:
                    owner[items] = pending_groups[low]
                else:
                    removed.append(int(pending_groups[low]))
                    kept_instead.append(int(holders[holders >= 0].min()))
            if len(complete):
                pending_groups, pending_items = (
                    pending_groups[complete[-1] :],
                    pending_items[complete[-1] :],
                )
    return np.array(removed, np.int64), np.array(kept_instead, np.int64)


def _max_item(path: Path) -> int:
    """The largest item number (column `item_no`), -1 for an empty file; reads one row group at a
    time."""
    with pq.ParquetFile(path, pre_buffer=False) as file:
        return max(
            (
                int(
                    np.asarray(
                        file.read_row_group(at, columns=["item_no"]).column("item_no"), np.int64
                    ).max(initial=-1)
                )
                for at in range(file.num_row_groups)
            ),
            default=-1,
        )
