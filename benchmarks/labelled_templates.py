"""Fills the fields of templates, and says where values of personal kinds are: generated corpora
with labels are made of such texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

Spans = tuple[tuple[int, int, str], ...]  # start and end in code points, kind
_FIELD = re.compile(r"\{([a-z_]+[0-9]*)\}")


@dataclass(frozen=True)
class LabelledText:
    """A text and its labelled values, and its register where there are several."""

    text: str
    spans: Spans
    register: str = ""


def fill_template(
    template: str, draw: Callable[[str], tuple[str | None, str, str]], register: str = ""
) -> LabelledText:
    """The text of a template, and its labelled values. `draw` gives for a field the kind of its
    value (None: no label), the value, and text that follows it but does not belong to it. `{{` and
    `}}` are one brace each."""
    text, spans, position = "", list[tuple[int, int, str]](), 0
    for field in _FIELD.finditer(template):
        text += _unescape(template[position : field.start()])
        kind, value, rest = draw(field[1])
        if kind is not None:
            spans.append((len(text), len(text) + len(value), kind))
        text, position = text + value + rest, field.end()
    return LabelledText(text + _unescape(template[position:]), tuple(spans), register)


def _unescape(text: str) -> str:
    return text.replace("{{", "{").replace("}}", "}")
