"""Griffe extension: the project's docstrings as Markdown, for the reference of the Python API.

In a docstring, an aligned list of names ("inputs   Files, folders ...") describes arguments or
                                                    fields, and `>>>` begins an example.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_LISTED_NAME = re.compile(r"([a-z]\w*(?:, [a-z]\w*)*) {2,}(?=\S)")


class DocstringMarkdown(griffe.Extension):
    """Rewrites every docstring that is loaded."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)


def to_markdown(docstring: str) -> str:
    """The docstring with its aligned lists as Markdown lists, and its examples as blocks of
    code."""
    paragraphs = []
    for paragraph in docstring.split("\n\n"):
        lines = paragraph.split("\n")
        if lines[0].startswith(">>> "):
            lines = ["```pycon", *lines, "```"]
        elif _LISTED_NAME.match(lines[0]):
            lines = [
                (
                    f"- `{match[1]}`: {line[match.end() :]}"
                    if (match := _LISTED_NAME.match(line))
                    else f"  {line.strip()}"
                )
                for line in lines
            ]
        paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs)
