"""The shipped plans: their names and texts. Imports nothing heavy, because shell completion needs the names."""

from __future__ import annotations

from importlib import resources


def plan_names() -> list[str]:
    """The names of the shipped plans."""
    return sorted(entry.name[:-5] for entry in (resources.files("sanitize") / "plans").iterdir() if entry.name.endswith(".toml"))


def read_shipped_plan(name: str) -> str:
    """The TOML text of a shipped plan."""
    return (resources.files("sanitize") / "plans" / f"{name}.toml").read_text("utf-8")
