"""Events of MkDocs: checks that the built site loads nothing from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

# what makes a browser load something: scripts, images, frames, styles and fonts; a link to another
# site is none of these
_LOADED_URL = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\ssrc=["']?(?:https?:)?//|<link\b(?![^>]*rel=["']?canonical)[^>]*href=["']?(?:https?:)?//"""
)
_LOADED_BY_STYLE = re.compile(r"""@import\s+["']?(?:https?:)?//|url\(\s*["']?(?:https?:)?//""")


def on_post_build(config: Any) -> None:
    """Raises PluginError where a page would load something from another host."""
    for pattern, suffix in ((_LOADED_URL, "html"), (_LOADED_BY_STYLE, "css")):
        for path in Path(config.site_dir).rglob(f"*.{suffix}"):
            if match := pattern.search(path.read_text("utf-8")):
                raise PluginError(
                    f"{path.relative_to(config.site_dir)} loads a file from another host:"
                    f" {match[0][-80:]}"
                )
