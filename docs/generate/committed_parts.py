"""Writes what is generated and committed: the blocks of README.md and the JSON schemas of
docs/reference (`make generate`).

tests/project/test_readme.py checks that they are current.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from docs.generate import blocks, schemas
from sanitize.cli.demo import run_demo

README = Path(__file__).resolve().parents[2] / "README.md"


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
    verdict = re.search(r"^THE VERDICT\n.*?(?=\n\nFILES)", text, re.MULTILINE | re.DOTALL)
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


def main() -> None:
    """Writes README.md and the schemas."""
    before = README.read_text("utf-8")
    after = fill_readme(before)
    README.write_text(after, "utf-8")
    schemas.write_schemas()
    print(  # noqa: T201
        f"README.md: {'unchanged' if after == before else 'written again'}; docs/reference: schemas"
        " written"
    )


if __name__ == "__main__":
    main()
