"""Training objectives (losses), one per file. **The folder is the registry**: `use = "goldfish"` means `goldfish.py`, class `Goldfish`.

A dotted path (`use = "mypackage.mine"`) names a module of the user's own, with a class of the same name (`Mine`). The interface is
`Objective` in `objective.py`. torch is imported only where a loss is computed, so that recipes can be checked without it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from sanitize.errors import UsageError, suggest_names

from .objective import Objective

__all__ = ["Objective", "load_objective", "list_objectives"]


def list_objectives() -> list[str]:
    """Return the names of the objectives in this folder, sorted."""
    return sorted(entry.name for entry in pkgutil.iter_modules(__path__) if entry.name != "objective")


def load_objective(settings: Mapping[str, Any], where: str) -> Objective:
    """Build the objective that `settings["use"]` names; `where` is the prefix of error messages, such as `recipe: objective`.

    Raises UsageError for an unknown objective, key or value.
    """
    use = settings.get("use")
    if not isinstance(use, str):
        raise UsageError(f'{where} has no `use`; expected use = "NAME"; {suggest_names("", list_objectives())}')
    if "." not in use and use not in list_objectives():
        raise UsageError(f"{where}.use = {use!r}: there is no such objective; {suggest_names(use, list_objectives())}")
    try:
        module = importlib.import_module(use if "." in use else f".{use}", __name__)
    except ImportError as error:
        raise UsageError(f"{where}.use = {use!r} cannot be imported ({type(error).__name__})") from None
    class_name = "".join(word.title() for word in use.rsplit(".", 1)[-1].split("_"))
    objective_class = getattr(module, class_name, None)
    if not (isinstance(objective_class, type) and issubclass(objective_class, Objective)):
        raise UsageError(f"{where}.use = {use!r}: the module has no subclass of Objective with the name {class_name}")
    try:
        return objective_class(**settings)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        path = ".".join(str(step) for step in first["loc"])
        if first["type"] == "extra_forbidden":
            raise UsageError(f"{where}.{path}: unknown key; {suggest_names(path, objective_class.model_fields)}") from None
        raise UsageError(f"{where}.{path}: {first['msg'].removeprefix('Value error, ')}") from None
