"""Training objectives (losses), one per file, found by the file name: `use = "goldfish"`
means `goldfish.py`, class `Goldfish`; those that forget documents are together in `unlearning.py`.

A dotted path (`use = "mypackage.mine"`) names a module of the user's own, with a class of the same
name (`Mine`). The interface is `Objective` in `objective.py`. torch is imported only where a loss
is computed, so that recipes can be checked without it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from sanitize.errors import UsageError, describe_exception, describe_validation_error, suggest_names

from .objective import Objective

__all__ = ["Objective", "load_objective", "load_objective_class", "list_objectives"]
UNLEARNING_OBJECTIVES = ("dpo", "ga", "gd", "idk", "kl", "npo")


def list_objectives() -> list[str]:
    """Return the names of the objectives in this folder, sorted."""
    files = {entry.name for entry in pkgutil.iter_modules(__path__)} - {"objective", "unlearning"}
    return sorted(files | set(UNLEARNING_OBJECTIVES))


def load_objective(settings: Mapping[str, Any], where: str) -> Objective:
    """Build the objective that `settings["use"]` names; `where` is the prefix of error messages,
    such as `recipe: objective`.

    Raises UsageError for an unknown objective, key or value.
    """
    use = settings.get("use")
    if not isinstance(use, str):
        raise UsageError(
            f'{where} has no `use`; expected use = "NAME"; {suggest_names("", list_objectives())}'
        )
    objective_class = load_objective_class(use, where)
    try:
        return objective_class(**settings)
    except ValidationError as error:
        raise UsageError(describe_validation_error(error, objective_class, where)) from None


def load_objective_class(use: str, where: str) -> type[Objective]:
    """The class of the objective with this name, or in this module of the user's own. Raises
    UsageError if there is none."""
    is_dotted = "." in use and all(word.isidentifier() for word in use.split("."))
    if not is_dotted and use not in list_objectives():
        raise UsageError(
            f"{where}.use = {use!r}: there is no such objective;"
            f" {suggest_names(use, list_objectives())}"
        )
    try:
        name = "unlearning" if use in UNLEARNING_OBJECTIVES else use
        module = importlib.import_module(use if is_dotted else f".{name}", __name__)
    except Exception as error:  # a module of the user's own runs when it is imported
        raise UsageError(
            f"{where}.use = {use!r} cannot be imported ({describe_exception(error)})"
        ) from None
    class_name = "".join(word.title() for word in use.rsplit(".", 1)[-1].split("_"))
    objective_class = getattr(module, class_name, None)
    if not (isinstance(objective_class, type) and issubclass(objective_class, Objective)):
        raise UsageError(
            f"{where}.use = {use!r}: the module has no subclass of Objective with the name"
            f" {class_name}"
        )
    return objective_class
