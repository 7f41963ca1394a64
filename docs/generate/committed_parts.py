"""Writes what is generated and committed (`make generate`): the blocks of README.md and of the
pages of docs/, the generated pages, the JSON schemas of docs/reference, and the lexicon of names.

tests/project/test_readme.py and tests/text/test_name_lexicon.py check that they are current.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from docs.generate import blocks, reference, schemas
from sanitize.cli.demo import run_demo
from sanitize.text.name_lexicon import LEXICON_FILE, list_flagged_words

DOCS = Path(__file__).resolve().parents[1]
README = DOCS.parent / "README.md"


def demo_block() -> list[str]:
    """The command of `sanitize demo`, what it found, the first lines about one address, and the
    verdict."""
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        run_demo(Path("demo"), 2_000, lines.append)
    text = re.sub(r"WHAT WAS FOUND \(.*\)", "WHAT WAS FOUND", "\n".join(lines))
    command = re.search(r"^\$ .*", text, re.MULTILINE)
    found = re.search(r"^WHAT WAS FOUND\n.*?(?=\nThe plan)", text, re.MULTILINE | re.DOTALL)
    address = re.search(r"^WHAT BECAME OF ONE ADDRESS(?:.*\n){8}", text, re.MULTILINE)
    verdict = re.search(r"^THE VERDICT\n.*?(?=\n  documents )", text, re.MULTILINE | re.DOTALL)
    assert command and found and address and verdict
    sections = "\n".join([command[0], "", found[0], address[0], verdict[0]])
    return ["```text", *(line.rstrip() for line in sections.splitlines()), "```"]


README_BLOCKS: dict[str, Callable[[], list[str]]] = {"demo": demo_block, **blocks.README_BLOCKS}


def read_block(readme: str, name: str) -> list[str]:
    """The lines between `<!-- NAME -->` and `<!-- /NAME -->`."""
    match = re.search(
        rf"^<!-- {name} -->\n(.*?)^<!-- /{name} -->$", readme, re.MULTILINE | re.DOTALL
    )
    assert match, f"README.md has no block {name}"
    return match[1].splitlines()


def fill_readme(readme: str) -> str:
    """The text of README.md with its blocks generated again."""
    for name, make_lines in README_BLOCKS.items():
        lines = "\n".join(make_lines())
        pattern = rf"(?ms)(^<!-- {name} -->\n).*?(^<!-- /{name} -->$)"
        readme = re.sub(
            pattern, lambda match, lines=lines: f"{match[1]}{lines}\n{match[2]}", readme
        )
    return readme


def render_pages() -> dict[str, str]:
    """What the pages of docs/ should be: those that are generated, and those with blocks."""
    pages = {path: render() for path, render in reference.PAGES.items()}
    for path in sorted(DOCS.rglob("*.md")):
        name, page = path.relative_to(DOCS).as_posix(), path.read_text("utf-8")
        if name not in pages and "<!-- generated: " in page:
            pages[name] = blocks.fill_blocks(page)
    return pages


def main() -> None:
    """Writes README.md, the pages of docs/, the schemas and the lexicon; names changed pages."""
    pages = {README: fill_readme(README.read_text("utf-8"))}
    pages |= {DOCS / name: page for name, page in render_pages().items()}
    for path, page in pages.items():
        if not path.exists() or path.read_text("utf-8") != page:
            path.write_text(page, "utf-8")
            print(f"{path.relative_to(DOCS.parent)}: written again")  # noqa: T201
    np.save(LEXICON_FILE, list_flagged_words())
    schemas.write_schemas()


if __name__ == "__main__":
    main()
