"""What a model is trained to do: one loss a file. **The folder is the registry**: `use = "goldfish"` means `goldfish.py`, class `Goldfish`.

A dotted path (`use = "mypackage.mine"`) names a user's own, with a class of the same name (`Mine`). `objective.py` says what one is.
torch is imported where a loss is computed, so that recipes are checked without it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from sanitize.errors import UsageError, nearest

from .objective import Objective

__all__ = ["Objective", "load", "names"]


def names() -> list[str]:
    """The names of the objectives in this folder."""
    return sorted(entry.name for entry in pkgutil.iter_modules(__path__) if entry.name != "objective")


def load(settings: Mapping[str, Any], where: str) -> Objective:
    """The objective that `settings["use"]` names; `where` opens the error, such as `recipe: objective`."""
    use = settings.get("use")
    if not isinstance(use, str):
        raise UsageError(f'{where} has no `use`; expected use = "NAME"; {nearest("", names())}')
    if "." not in use and use not in names():
        raise UsageError(f"{where}.use = {use!r}: there is no such objective; {nearest(use, names())}")
    try:
        module = importlib.import_module(use if "." in use else f".{use}", __name__)
    except ImportError as error:
        raise UsageError(f"{where}.use = {use!r} cannot be imported ({type(error).__name__})") from None
    title = "".join(word.title() for word in use.rsplit(".", 1)[-1].split("_"))
    kind = getattr(module, title, None)
    if not (isinstance(kind, type) and issubclass(kind, Objective)):
        raise UsageError(f"{where}.use = {use!r}: the module holds no Objective of the name {title}")
    try:
        return kind(**settings)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        path = ".".join(str(step) for step in first["loc"])
        if first["type"] == "extra_forbidden":
            raise UsageError(f"{where}.{path}: unknown key; {nearest(path, kind.model_fields)}") from None
        raise UsageError(f"{where}.{path}: {first['msg'].removeprefix('Value error, ')}") from None
