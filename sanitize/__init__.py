"""sanitize: index every occurrence of personal data in a text corpus, rewrite it, verify, and publish clean shards.

The names below load what they need when they are first used, so that the import itself costs next to nothing.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sanitize.corpus import Columns
    from sanitize.errors import LeakFound, PlanError, SanitizeError
    from sanitize.explain import explain
    from sanitize.indexing import Settings
    from sanitize.kinds.kind import Kind, kinds
    from sanitize.plan import Plan, load_plan
    from sanitize.read import Roles
    from sanitize.run import find, run
    from sanitize.shards import Corpus
    from sanitize.verify import check

_HOMES = {
    "Columns": "corpus",
    "Corpus": "shards",
    "Kind": "kinds.kind",
    "LeakFound": "errors",
    "Plan": "plan",
    "PlanError": "errors",
    "Roles": "read",
    "SanitizeError": "errors",
    "Settings": "indexing",
    "check": "verify",
    "explain": "explain",
    "find": "run",
    "kinds": "kinds.kind",
    "load_plan": "plan",
    "run": "run",
}

__all__ = [
    "Columns",
    "Corpus",
    "Kind",
    "LeakFound",
    "Plan",
    "PlanError",
    "Roles",
    "SanitizeError",
    "Settings",
    "check",
    "explain",
    "find",
    "kinds",
    "load_plan",
    "run",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("corpus-sanitize")
    if name not in _HOMES:
        raise AttributeError(f"module 'sanitize' has no attribute {name!r}")
    return getattr(importlib.import_module(f"sanitize.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


class _Face(ModuleType):
    """Keeps `sanitize.run` the function: importing the module of that name must not put itself in its place."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Face
