"""Trains language models on sanitized shards and writes checkpoints in Hugging Face layout.

    recipe -> documents -> tokens -> batches -> trainer (model, objective) -> checkpoints

`fit(recipe, out)` trains or resumes, or returns the summary of a finished run;
`stream_batches(recipe)` gives a recipe's batches to a training loop of your own; `Recipe` is a
parsed recipe file (TOML). They are imported on first use. May import `sanitize.storage.corpus` and
`sanitize.errors`, and nothing else of `sanitize`; imports among its own files are relative.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .recipe import Recipe
    from .recipe_data import stream_batches
    from .training_run import TrainingResult, fit

# public name -> the module that defines it
_LAZY_EXPORTS = {
    "Recipe": "recipe",
    "TrainingResult": "training_run",
    "fit": "training_run",
    "stream_batches": "recipe_data",
}

__all__ = ["Recipe", "TrainingResult", "fit", "stream_batches"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY_EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_LAZY_EXPORTS[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
