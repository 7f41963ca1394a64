"""Events of MkDocs: adds the generated pages, fills the generated blocks, and checks that the built
site loads nothing from elsewhere."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # MkDocs imports this file by its path

from docs.generate import blocks, reference  # noqa: E402

# what makes a browser load something: scripts, images, frames, styles and fonts; a link to another
# site is none of these
_LOADED_URL = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\ssrc=["']?(?:https?:)?//|<link\b(?![^>]*rel=["']?canonical)[^>]*href=["']?(?:https?:)?//"""
)
_LOADED_BY_STYLE = re.compile(r"""@import\s+["']?(?:https?:)?//|url\(\s*["']?(?:https?:)?//""")


def on_files(files: Files, config: Any) -> Files:
    """Adds the reference pages."""
    for path, render in reference.PAGES.items():
        files.append(File.generated(config, path, content=render()))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fills `<!-- generated: NAME -->`."""
    return blocks.fill_blocks(markdown)


def on_post_build(config: Any) -> None:
    """Raises PluginError where a page would load something from another host."""
    for pattern, suffix in ((_LOADED_URL, "html"), (_LOADED_BY_STYLE, "css")):
        for path in Path(config.site_dir).rglob(f"*.{suffix}"):
            if match := pattern.search(path.read_text("utf-8")):
                raise PluginError(
                    f"{path.relative_to(config.site_dir)} loads a file from another host:"
                    f" {match[0][-80:]}"
                )
