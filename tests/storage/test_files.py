"""JSON lines are refused before a parser in compiled code follows their brackets too deeply."""

from __future__ import annotations

import json
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from sanitize.storage import files
from sanitize.storage.files import require_shallow_lines

VALUES = st.recursive(
    st.text(st.sampled_from('a[]{}"\\')),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.just("[{"), inner),
    max_leaves=12,
)


def depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


@given(st.lists(VALUES, max_size=4), st.integers(1, 5))
def test_only_lines_with_deeper_brackets_are_refused(values: list[Any], limit: int) -> None:
    data = "\n".join(map(json.dumps, values)).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "MAX_NESTING", limit)
        if max(map(depth, values), default=0) > limit:
            with pytest.raises(ValueError, match="nested too deeply"):
                require_shallow_lines(data)
        else:
            assert require_shallow_lines(data) == data
