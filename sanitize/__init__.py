"""sanitize: index every occurrence of personal data in a text corpus, rewrite it, verify, and publish clean shards.

The names below load what they need when they are first used, so that the import itself costs next to nothing.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sanitize.ask import sql, status, top
    from sanitize.corpus import Columns
    from sanitize.doctor import doctor
    from sanitize.errors import LeakFound, PlanError, SanitizeError
    from sanitize.explain import explain
    from sanitize.indexing import Settings
    from sanitize.kinds.kind import Kind, kinds
    from sanitize.label import label
    from sanitize.plan import Plan, load_plan
    from sanitize.read import Roles
    from sanitize.replay import replay
    from sanitize.reporting import report
    from sanitize.run import find, run
    from sanitize.shards import Corpus
    from sanitize.stream import stream
    from sanitize.subject import subject
    from sanitize.verify import check as verify

# where each name lives; of one that is another there, that too
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
    "doctor": "doctor",
    "explain": "explain",
    "find": "run",
    "kinds": "kinds.kind",
    "label": "label",
    "load_plan": "plan",
    "replay": "replay",
    "report": "reporting",
    "run": "run",
    "sql": "ask",
    "status": "ask",
    "stream": "stream",
    "subject": "subject",
    "top": "ask",
    "verify": "verify:check",
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
    "doctor",
    "explain",
    "find",
    "kinds",
    "label",
    "load_plan",
    "replay",
    "report",
    "run",
    "sql",
    "status",
    "stream",
    "subject",
    "top",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("corpus-sanitize")
    if name not in _HOMES:
        raise AttributeError(f"module 'sanitize' has no attribute {name!r}")
    module, _, other = _HOMES[name].partition(":")
    return getattr(importlib.import_module(f"sanitize.{module}"), other or name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


class _Face(ModuleType):
    """Keeps `sanitize.run` the function, `verify` too: importing the module of that name must not put itself in its place.

    Inside the house a module that has a verb's name is imported from: `from sanitize.verify import scan`.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Face
