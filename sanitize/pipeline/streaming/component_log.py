"""Component pools of a stream: the components of the values seen so far, from which variants are
drawn. Each component is stored once, in order of appearance, in one append-only file.

One JSON line per component: kind, component name, document, text. Lines after the length in the
state were never acknowledged and are truncated. A pool stops growing at 65,536 entries, enough to
draw from, so that memory is bounded however long the stream is.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from sanitize.array_types import I64
from sanitize.kinds.kind import get_kind
from sanitize.stages.aggregates import COMPONENT_PATTERNS, MAX_COMPONENT_BYTES
from sanitize.storage.files import parse_json

MAX_POOL_SIZE = 1 << 16


class ComponentLog:
    """The component pools of a stream, in memory and in their file."""

    def __init__(self, path: Path, acknowledged_bytes: int) -> None:
        self._path = path
        # text -> doc_no, in order of appearance
        self._pools: dict[tuple[str, str], dict[str, int]] = {}
        self._pending: list[tuple[str, str, int, str]] = []
        if not path.exists():
            path.touch(mode=0o600)
        with path.open("r+b") as file:
            file.truncate(acknowledged_bytes)
            for line in file:
                kind, component, doc_no, text = parse_json(line)
                self._pools.setdefault((kind, component), {})[text] = doc_no

    def add_components(self, kind: str, normalised: pa.LargeStringArray, doc_no: I64) -> None:
        """Add the components of values, which come in order of appearance with the document of
        each. `discard_unconfirmed` undoes this until `confirm`; `commit` writes it."""
        split_components = get_kind(kind).split_components
        if split_components is None or not len(normalised):
            return
        components = split_components(pl.Series(normalised))
        has_no_last_name = components["last"] == ""
        host = components.select(pl.concat_str("domain", "dot", "tld")).to_series()
        columns = {
            "first": components["first"],
            "local": components["first"],
            "last": components["last"],
            "domain": components["domain"],
            "tld": components["tld"],
        }
        for component, column in {**columns, "host": host}.items():
            lower = column.str.to_lowercase()
            is_wanted = lower.str.contains(COMPONENT_PATTERNS[component]) & (
                lower.str.len_bytes() <= MAX_COMPONENT_BYTES
            )
            if component in ("first", "local"):
                is_wanted &= has_no_last_name if component == "local" else ~has_no_last_name
            frame = (
                pl.DataFrame({"text": lower, "doc_no": doc_no})
                .filter(is_wanted)
                .unique("text", keep="first", maintain_order=True)
            )
            pool = self._pools.setdefault((kind, component), {})
            # a loop over distinct components, most of which are in the dictionary already
            for text, number in frame.iter_rows():
                if text not in pool and len(pool) < MAX_POOL_SIZE:
                    pool[text] = number
                    self._pending.append((kind, component, number, text))

    def discard_unconfirmed(self) -> None:
        """Remove the components that were added since the last `confirm`."""
        for kind, component, _, text in self._pending[self._confirmed_count :]:
            del self._pools[kind, component][text]
        del self._pending[self._confirmed_count :]

    _confirmed_count = 0

    def confirm(self) -> None:
        """Keep the components added so far."""
        self._confirmed_count = len(self._pending)

    def get_pool(self, kind: str, component: str) -> tuple[pa.LargeStringArray, I64]:
        """The entries of one pool in order of appearance, and the document in which each first
        appeared."""
        pool = self._pools.get((kind, component), {})
        return pa.array(list(pool), pa.large_string()), np.fromiter(
            pool.values(), np.int64, len(pool)
        )

    def commit(self) -> int:
        """Append the new components to the file (fsync); returns its length, which the state
        stores."""
        with self._path.open("ab") as file:
            # only components that fit COMPONENT_PATTERNS are added, so a line is plain text
            file.write(b"".join(json.dumps(entry).encode() + b"\n" for entry in self._pending))
            file.flush()
            os.fsync(file.fileno())
            self._pending, self._confirmed_count = [], 0
            return file.tell()
