"""The strings inside a JSON text, decoded: lists them, and writes changed ones back so that the text stays valid JSON.

Tool calls hold their arguments as JSON in a string. Searched as it is, such a text has escapes where its values have characters (`\\n`,
`\\u00e9`), and a replacement could break its syntax. Long numbers count as strings: one that is replaced becomes a string.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

_MIN_NUMBER_LENGTH = 7  # no kind has a value of fewer digits in a row that a number alone would show
_LITERAL = re.compile(r'"(?:[^"\\]++|\\.)*+"|-?[0-9][0-9.eE+-]*+', re.DOTALL)


def is_valid_json(text: str) -> bool:
    """True for a JSON text whose strings can be written as UTF-8; blank texts count, because they hold nothing."""
    if not text.strip():
        return True
    try:
        json.dumps(json.loads(text), ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return True


def list_strings(text: str | None) -> list[str]:
    """The strings of a JSON text in order, keys too, and its long numbers. A text that is not valid JSON counts as one string.

    >>> list_strings('{"to": "Ann\\\\nRoe", "call": 2055550142, "n": 3}')
    ['to', 'Ann\\nRoe', 'call', '2055550142', 'n']
    """
    if not text or not text.strip():
        return []
    if not is_valid_json(text):
        return [text]
    return [value for _, _, value in _iterate_literals(text)]


def replace_strings(text: str | None, strings: list[str | None]) -> str | None:
    """The JSON text with its strings replaced by `strings`, as many as `list_strings` returned; unchanged ones keep their bytes.

    >>> replace_strings('{"to": "Ann", "call": 2055550142}', ["to", 'A "B"', "call", "[PHONE_NUMBER]"])
    '{"to": "A \\\\"B\\\\"", "call": "[PHONE_NUMBER]"}'
    """
    if not text or not text.strip():
        return text
    if not is_valid_json(text):
        return strings[0]
    parts, position = [], 0
    for (start, end, value), replacement in zip(_iterate_literals(text), strings, strict=True):
        if replacement != value:
            parts += [text[position:start], json.dumps(replacement, ensure_ascii=text.isascii())]
            position = end
    return "".join([*parts, text[position:]])


def _iterate_literals(text: str) -> Iterator[tuple[int, int, str]]:
    """(start, end, value) of each string and each long number of a valid JSON text."""
    for literal in _LITERAL.finditer(text):
        token = literal[0]
        if token[0] == '"':
            yield literal.start(), literal.end(), json.loads(token)
        elif len(token) >= _MIN_NUMBER_LENGTH:
            yield literal.start(), literal.end(), token
