"""Parses memory limits and other sizes in bytes, such as the 512MB of `--memory-limit`."""

from __future__ import annotations

import re

from sanitize.errors import UsageError


def parse_size(text: str) -> int | None:
    """The number of bytes of a size such as 500MB or 1.5GB (factors of 1024); None if `text` is not
    a size."""
    match = re.fullmatch(r"([1-9][0-9]*(?:\.[0-9]+)?) ?([KMGT])i?B", text)
    return int(float(match[1]) * 1024 ** ("KMGT".index(match[2]) + 1)) if match else None


def parse_memory_limit(memory_limit: str, flag: str = "--memory-limit") -> int:
    """The number of bytes of a memory limit, which `flag` gave; 1 GiB for a percentage. Raises
    UsageError for anything else."""
    if re.fullmatch(r"[1-9][0-9]*(?:\.[0-9]+)? ?%", memory_limit):
        # only DuckDB takes a percentage of the machine's memory; everything else gets this fixed
        # limit
        return 1 << 30
    size = parse_size(memory_limit)
    if size is None:
        raise UsageError(f"{flag} {memory_limit}: expected a size such as 500MB or 4GB")
    return size
