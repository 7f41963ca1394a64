"""Names of one person or of a list in texts. All people in it are invented."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sanitize.core.keys import Key
from sanitize.text.name_search import find_names, is_too_common

NAMES = ["ann roe", "王小明", "田中太郎"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Joann Roe, Roe, Ann and ANN ROE", ["Roe, Ann", "ANN ROE"]),
        ("请联系王小明先生", ["王小明"]),
        ("田中\u3000太郎と田中太郎さん、田中", ["田中\u3000太郎", "田中太郎"]),
        ("王小、明小王", []),
    ],
)
def test_names_are_found_also_where_no_blank_is_beside_them(text: str, found: list[str]) -> None:
    matches = find_names(pa.array([text], pa.large_string()), NAMES, Key.from_seed(3))
    assert [
        text.encode()[start:end].decode()
        for start, end in zip(matches.start, matches.end, strict=True)
    ] == found


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("王小明", False),
        ("田中 太郎", False),
        ("ann roe", False),
        ("王伟", True),
        ("田中", True),
        ("ann", True),
    ],
)
def test_short_names_are_too_common(name: str, expected: bool) -> None:
    assert is_too_common(name) is expected
