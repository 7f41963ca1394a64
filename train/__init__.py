"""Sanitized shards in, checkpoints in Hugging Face layout out.

    recipe -> documents -> tokens -> batches -> loop (model, objective) -> checkpoints

`fit(recipe, out)` trains, resumes or says what was done; `stream(recipe)` gives its batches to a loop of your own; `Recipe` is what a TOML
file becomes. They are loaded when they are first used.
Knocks at `sanitize.storage.corpus` and `sanitize.errors`, and at nothing else; imports among its own files are relative.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .recipe import Recipe
    from .training_run import fit, stream

# where each name lives
_HOMES = {"Recipe": "recipe", "fit": "training_run", "stream": "training_run"}

__all__ = ["Recipe", "fit", "stream"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
