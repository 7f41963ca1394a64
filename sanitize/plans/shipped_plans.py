"""The shipped plans: their names and texts. Imports nothing heavy, because `--help` and shell
completion import it."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).resolve().parent


def plan_names() -> list[str]:
    """The names of the shipped plans."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def read_shipped_plan(name: str) -> str:
    """The TOML text of a shipped plan."""
    return (_FOLDER / f"{name}.toml").read_text("utf-8")
