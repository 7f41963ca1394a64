"""Docstrings in the reference of the Python API."""

from __future__ import annotations

import pytest

pytest.importorskip("griffe", reason="comes with the extra `dev`")

from docs.generate.docstring_markdown import to_markdown

DOCSTRING = """Sanitize a corpus [once].

inputs   Files, and
         folders.
a, b     Two numbers.

Raises  nothing.

>>> run("in")["text"][0]
'x'"""


def test_lists_and_examples_become_markdown() -> None:
    expected = """Sanitize a corpus [once].

- `inputs`: Files, and
  folders.
- `a, b`: Two numbers.

Raises  nothing.

```pycon
>>> run("in")["text"][0]
'x'
```"""
    assert to_markdown(DOCSTRING) == expected
