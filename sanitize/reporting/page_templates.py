"""Renders the templates of pages, HTML and Markdown: texts are escaped for the format, control
characters are made visible.

No page loads anything: styles are in it, and its content security policy forbids scripts and
everything from elsewhere.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sanitize.core.table_rendering import escape_controls
from sanitize.core.verdict import format_share


def render_template(template: str, /, **variables: Any) -> str:
    """Render a template. Control characters are made visible and texts are escaped for the format;
    an undefined variable is an error."""
    return str(load_template(template).render(**variables))


@functools.cache  # compiling one takes longer than rendering it
def load_template(template: str) -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).resolve().parent / "templates"),
        # Markdown is escaped by `finalize`
        autoescape=jinja2.select_autoescape(enabled_extensions=("html.j2",)),
        undefined=jinja2.StrictUndefined,
        finalize=_finalize_html if template.endswith(".html.j2") else _finalize_markdown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "n": format_number,
        "size": format_size,
        "share": _format_share,
        "interval": functools.partial(format_share, none="–"),
        "yaml": _format_yaml,
    }
    return environment.get_template(template)


class VerbatimText(str):
    """A trusted text that is written without escaping."""


def _finalize_html(value: object) -> object:
    return escape_controls(value) if type(value) is str else value


def _finalize_markdown(value: object) -> object:
    """Escape a text so that neither Markdown nor HTML inside it reads it as markup."""
    if type(value) is not str:
        return value
    text = escape_controls(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*\[\]|!#~$])", r"\\\1", text)


def _format_yaml(text: str) -> VerbatimText:
    """A text as a quoted scalar of YAML, for the head of the card."""
    return VerbatimText(json.dumps(escape_controls(text), ensure_ascii=False))


def format_number(value: float | None) -> str:
    """1234567 as `1,234,567`; None (not measured) as a dash."""
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def _format_share(pair: Sequence[int]) -> str:
    """Percentage of `pair` = (all, part); `<1%` and `>99%` for values that would round to 0 % and
    100 %."""
    share = 100 * pair[1] / pair[0] if pair[0] else 0.0
    return (
        f"{share:.0f}%" if share in (0, 100) or 1 <= share <= 99 else "<1%" if share < 1 else ">99%"
    )


def format_size(value: int | None) -> str:
    """A file size such as `12 B` or `3.4 MB`; None as a dash."""
    if value is None:
        return "–"
    size = float(value)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
