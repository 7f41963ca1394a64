"""Selection of duplicate groups, compared with a reference implementation that handles one group at
a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanitize.core.duplicate_groups import connected_components, find_repeating_groups


def reference_components(pairs: list[tuple[int, int]]) -> dict[int, int]:
    neighbours: dict[int, set[int]] = {}
    for node, neighbour in pairs:
        neighbours.setdefault(node, set()).add(neighbour)
        neighbours.setdefault(neighbour, set()).add(node)
    smallest_nodes = {}
    for group in neighbours:
        reached, pending = {group}, [group]
        while pending:
            pending += [
                neighbour
                for neighbour in neighbours[pending.pop()]
                if neighbour not in reached and not reached.add(neighbour)
            ]  # type: ignore[func-returns-value]
        if min(reached) < group:
            smallest_nodes[group] = min(reached)
    return smallest_nodes


@settings(max_examples=200, deadline=None)
@given(pairs=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=40))
def test_connected_components_equal_the_reference(pairs: list[tuple[int, int]]) -> None:
    first_node, second_node = (
        np.array([pair[side] for pair in pairs], np.int64) * 1_000_003 for side in (0, 1)
    )
    later, first = connected_components(first_node, second_node)
    assert later.tolist() == sorted(later.tolist())
    assert dict(
        zip((later // 1_000_003).tolist(), (first // 1_000_003).tolist(), strict=True)
    ) == reference_components(pairs)


def test_a_long_chain_is_one_component() -> None:
    numbers = np.random.RandomState(3).permutation(5_000)
    later, first = connected_components(numbers[1:], numbers[:-1])
    assert later.tolist() == list(range(1, 5_000)) and set(first.tolist()) == {0}


def reference_repeating_groups(groups: dict[int, set[int]]) -> dict[int, int]:
    owner: dict[int, int] = {}
    removed = {}
    for group, items in sorted(groups.items()):
        owners = [owner[item] for item in items if item in owner]
        if owners:
            removed[group] = min(owners)
        else:
            owner |= dict.fromkeys(items, group)
    return removed


@settings(max_examples=100, deadline=None)
@given(
    groups=st.dictionaries(
        st.integers(0, 60), st.sets(st.integers(0, 12), min_size=1, max_size=4), max_size=20
    ),
    size=st.integers(1, 7),
)
def test_repeating_groups_equal_the_reference(
    tmp_path_factory: pytest.TempPathFactory, groups: dict[int, set[int]], size: int
) -> None:
    """The result does not depend on the row groups into which the groups are cut."""
    dense_ids = {
        item: number
        for number, item in enumerate(sorted({item for items in groups.values() for item in items}))
    }
    rows = sorted((group, dense_ids[item]) for group, items in groups.items() for item in items)
    path = tmp_path_factory.mktemp("repeats") / "rows.parquet"
    table = pa.table(
        {
            name: pa.array([row[index] for row in rows], pa.int64())
            for index, name in enumerate(("group_no", "item_no"))
        }
    )
    pq.write_table(table, path, row_group_size=size)
    removed, kept_groups = find_repeating_groups(path)
    repeats = dict(zip(removed.tolist(), kept_groups.tolist(), strict=True))
    assert repeats == reference_repeating_groups(
        {group: {dense_ids[item] for item in items} for group, items in groups.items()}
    )
    remaining = [items for group, items in groups.items() if group not in repeats]
    assert sum(map(len, remaining)) == len(set().union(*remaining))  # no item occurs twice


def test_a_removed_group_does_not_remove_other_groups(tmp_path: Path) -> None:
    """Group 1 repeats 0 and is removed; group 2, which shares an item only with 1, stays."""
    path: Path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"group_no": [0, 1, 1, 2], "item_no": [0, 0, 1, 1]}), path)
    removed, kept_groups = find_repeating_groups(path)
    assert (removed.tolist(), kept_groups.tolist()) == ([1], [0])
