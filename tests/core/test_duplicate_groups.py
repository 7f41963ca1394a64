"""Selection of duplicate groups, compared with decisions made one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanitize.core.duplicate_groups import connected_components, find_repeating_groups


def slow_components(pairs: list[tuple[int, int]]) -> dict[int, int]:
    near: dict[int, set[int]] = {}
    for one, other in pairs:
        near.setdefault(one, set()).add(other)
        near.setdefault(other, set()).add(one)
    found = {}
    for group in near:
        reached, todo = {group}, [group]
        while todo:
            todo += [other for other in near[todo.pop()] if other not in reached and not reached.add(other)]  # type: ignore[func-returns-value]
        if min(reached) < group:
            found[group] = min(reached)
    return found


@settings(max_examples=200, deadline=None)
@given(pairs=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=40))
def test_components(pairs: list[tuple[int, int]]) -> None:
    one, other = (np.array([pair[side] for pair in pairs], np.int64) * 1_000_003 for side in (0, 1))
    later, first = connected_components(one, other)
    assert later.tolist() == sorted(later.tolist())
    assert dict(zip((later // 1_000_003).tolist(), (first // 1_000_003).tolist(), strict=True)) == slow_components(pairs)


def test_a_long_chain_is_one_component() -> None:
    numbers = np.random.RandomState(3).permutation(5_000)
    later, first = connected_components(numbers[1:], numbers[:-1])
    assert later.tolist() == list(range(1, 5_000)) and set(first.tolist()) == {0}


def slow_repeats(groups: dict[int, set[int]]) -> dict[int, int]:
    owner: dict[int, int] = {}
    gone = {}
    for group, things in sorted(groups.items()):
        holders = [owner[thing] for thing in things if thing in owner]
        if holders:
            gone[group] = min(holders)
        else:
            owner |= dict.fromkeys(things, group)
    return gone


@settings(max_examples=100, deadline=None)
@given(
    groups=st.dictionaries(st.integers(0, 60), st.sets(st.integers(0, 12), min_size=1, max_size=4), max_size=20),
    size=st.integers(1, 7),
)
def test_groups_that_repeat(tmp_path_factory: pytest.TempPathFactory, groups: dict[int, set[int]], size: int) -> None:
    """The result does not depend on the row groups into which the groups are cut."""
    dense = {thing: number for number, thing in enumerate(sorted({thing for things in groups.values() for thing in things}))}
    rows = sorted((group, dense[thing]) for group, things in groups.items() for thing in things)
    path = tmp_path_factory.mktemp("repeats") / "rows.parquet"
    table = pa.table({name: pa.array([row[at] for row in rows], pa.int64()) for at, name in enumerate(("group_no", "item_no"))})
    pq.write_table(table, path, row_group_size=size)
    gone, kept = find_repeating_groups(path)
    found = dict(zip(gone.tolist(), kept.tolist(), strict=True))
    assert found == slow_repeats({group: {dense[thing] for thing in things} for group, things in groups.items()})
    stay = [things for group, things in groups.items() if group not in found]
    assert sum(map(len, stay)) == len(set().union(*stay))  # no thing stands twice


def test_what_goes_does_not_make_others_go(tmp_path: Path) -> None:
    """Group 1 repeats 0 and is removed; group 2, which shares an item only with 1, stays."""
    path: Path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"group_no": [0, 1, 1, 2], "item_no": [0, 0, 1, 1]}), path)
    gone, kept = find_repeating_groups(path)
    assert (gone.tolist(), kept.tolist()) == ([1], [0])
