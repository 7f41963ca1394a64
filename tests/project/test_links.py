"""Relative links in the committed Markdown files lead to committed files, so that they work in a
checkout and on a code host, not only on the built site."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_FENCED_BLOCK = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
_CODE_SPAN = re.compile(r"`[^`\n]*`")
_LINK_TARGET = re.compile(r"\]\(\s*<?([^)\s>#]+)")
_SCHEME = re.compile(r"[a-z][a-z+.-]*:", re.IGNORECASE)


def dead_links(page: str, text: str, committed: set[str]) -> list[str]:
    """Relative link targets of `page` that are neither a committed file nor a folder of some."""
    prose = _CODE_SPAN.sub("``", _FENCED_BLOCK.sub("", text))
    folder = (ROOT / page).parent
    dead = []
    for target in _LINK_TARGET.findall(prose):
        if _SCHEME.match(target):
            continue
        path = (folder / target).resolve()
        name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ".."
        if name not in committed and not any(file.startswith(f"{name}/") for file in committed):
            dead.append(target)
    return dead


@pytest.mark.parametrize(
    ("text", "dead"),
    [
        ("[a](b.md)", []),
        ("[a](../README.md#install)", []),
        ("[a](missing.md)", ["missing.md"]),
        ("![a](missing.png)", ["missing.png"]),
        ("[a](https://example.org/missing.md) [b](#part)", []),
        ("```\n[a](missing.md)\n```\n`[a](missing.md)`", []),
        ("[a](../../outside.md)", ["../../outside.md"]),
    ],
)
def test_dead_links_of_one_page(text: str, dead: list[str]) -> None:
    assert dead_links("docs/index.md", text, {"docs/b.md", "README.md"}) == dead


def test_no_committed_page_has_a_dead_link() -> None:
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listing.returncode:
        pytest.skip("needs a git checkout: the test compares links with the committed files")
    committed = set(listing.stdout.splitlines())
    pages = sorted(file for file in committed if file.endswith(".md"))
    assert "README.md" in pages
    texts = {page: (ROOT / page).read_text("utf-8") for page in pages}
    found = {page: dead_links(page, text, committed) for page, text in texts.items()}
    assert not {page: dead for page, dead in found.items() if dead}
