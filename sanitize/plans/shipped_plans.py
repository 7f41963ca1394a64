"""The shipped plans: their names and texts. Imports nothing heavy, because `--help` and shell
completion import it."""

from __future__ import annotations

import warnings
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent
# earlier name of a shipped plan -> its name; an entry is deleted one release after the new name
EARLIER_NAMES = {"erase": "surrogates"}
_PAPER_PLANS = ("baseline", "blacklist", "dp_mlm", "header_dedup", "mask_words")


class RenamedPlanWarning(FutureWarning):
    """A plan was given by its earlier name. The message says the new one."""


def plan_names() -> list[str]:
    """The names of the shipped plans."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def list_plans(*, of_papers: bool) -> list[str]:
    """The names of the plans for comparisons and trainings of the papers, or of all others."""
    return [name for name in plan_names() if (name in _PAPER_PLANS) == of_papers]


def resolve_plan_name(name: str) -> str:
    """The name of the plan that `name` means: of an earlier name the new one, with a
    RenamedPlanWarning; any other name as it is."""
    new_name = EARLIER_NAMES.get(name, name)
    if new_name != name:
        warnings.warn(
            f"the plan {name} is called {new_name} now; use the new name, because the next release"
            " does not know the old one",
            RenamedPlanWarning,
            stacklevel=3,  # the caller of the function that loads or copies a plan
        )
    return new_name


def read_shipped_plan(name: str) -> str:
    """The TOML text of a shipped plan."""
    return (_FOLDER / f"{name}.toml").read_text("utf-8")
