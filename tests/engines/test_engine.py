"""Memory limits in bytes."""

from __future__ import annotations

import pytest

from sanitize.engines.memory_limits import parse_memory_limit, parse_size
from sanitize.errors import UsageError

SIZES = {
    "1B": None,
    "1KB": 1 << 10,
    "1.5KB": 1536,
    "500MB": 500 << 20,
    "4 GiB": 4 << 30,
    "2TB": 2 << 40,
    "50%": 1 << 30,
    "12.5 %": 1 << 30,
}


@pytest.mark.parametrize(
    "text", [*SIZES, "", "4", "0GB", "-1GB", "GB", "1gb", "1GB ", "1e3MB", "%", "0%"]
)
def test_memory_limits_are_parsed(text: str) -> None:
    size = SIZES.get(text)
    assert parse_size(text) == (None if "%" in text else size)
    if size is None:
        with pytest.raises(
            UsageError, match=r"--memory-limit .*: expected a size such as 500MB or 4GB"
        ):
            parse_memory_limit(text)
    else:
        assert parse_memory_limit(text) == size
