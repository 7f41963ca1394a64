"""Errors of a training that have a cause outside this package: disk, memory, other processes, and
code of the user's own."""

from __future__ import annotations

import errno
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sanitize.errors import ResourceError, SanitizeError, UsageError, describe_exception

from .checkpoint import CheckpointEvent, CheckpointHook
from .device_memory import is_out_of_memory
from .recipe import Recipe

_DISK_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG)


@contextmanager
def user_code_errors(recipe: Recipe) -> Iterator[None]:
    """Turn an exception in code of the user's own that the recipe names into UsageError: which, the
    type of the exception, and where.

    Only code outside this package is the user's: an exception elsewhere is an internal error.
    """
    try:
        yield
    except SanitizeError:
        raise
    except Exception as error:
        named = {
            "run.early_stop": recipe.run.early_stop.rpartition(".")[0],
            "objective.use": str(recipe.objective["use"]),
        }
        frames = traceback.extract_tb(error.__traceback__)
        files = {frame.filename for frame in frames}
        # a function with other parameters, or one that is not Python's, has no frame of its own
        failed_at_call = (frames[-1].filename, frames[-1].name) == (__file__, call_hook.__name__)
        for key, module_name in named.items():
            file = getattr(sys.modules.get(module_name), "__file__", None)
            is_hook = key == "run.early_stop" and module_name and failed_at_call
            if not module_name.startswith("sanitize.") and (file in files or is_hook):
                name = recipe.run.early_stop if key == "run.early_stop" else module_name
                raise UsageError(
                    f"{key} = {name!r} failed: {describe_exception(error, inside=file)}. This code"
                    " is not part of sanitize; correct it, then run the same command again, which"
                    " resumes from the last saved state"
                ) from error
        raise


def call_hook(hook: CheckpointHook, event: CheckpointEvent) -> bool:
    """Call a hook at a checkpoint; whether the run is to stop there."""
    return bool(hook(event))


@contextmanager
def resource_errors(folder: Path, recipe: Recipe) -> Iterator[None]:
    """Turn errors of a full or broken disk, of a full device and of a process that ended into
    ResourceError.

    The run can be resumed from its last state.
    """
    import torch

    try:
        yield
    except OSError as error:
        if error.errno not in _DISK_ERRNOS:
            raise
        raise ResourceError(
            f"{folder}: could not be written ({errno.errorcode[error.errno]}); free some space,"
            " then run the same command again"
        ) from None
    except (RuntimeError, MemoryError) as error:
        if is_out_of_memory(error):
            raise ResourceError(_describe_too_little_memory(recipe)) from None
        if isinstance(error, torch.distributed.DistError) or "gloo" in str(error):
            raise ResourceError(
                "another process of this run has ended, or cannot be reached; its own message says"
                " why. The same command goes on from the last saved state"
            ) from None
        if recipe.run.compile and type(error).__module__.startswith(
            ("torch._dynamo", "torch._inductor")
        ):
            raise UsageError(
                f"run.compile: torch cannot compile this model here ({type(error).__name__}); leave"
                " it out, or install a C++ compiler"
            ) from None
        raise


def _describe_too_little_memory(recipe: Recipe) -> str:
    """Say what a step needed, and what lowers it, in the order of what it costs."""
    rows = -(-recipe.run.batch // recipe.run.accumulate)
    advice = []
    if rows > 1:
        advice.append(
            f"raise run.accumulate ({recipe.run.accumulate}, at most {recipe.run.batch}), which"
            " does not change the result"
        )
    if recipe.run.precision == "float32":
        advice.append('set run.precision = "bf16"')
    if not recipe.run.gradient_checkpointing and recipe.privacy is None:
        advice.append("set run.gradient_checkpointing = true")
    advice.append("lower model.context")
    if recipe.model.path and recipe.lora is None:
        advice.append("train an adapter (lora.rank = 16) or the top layers only (model.top_layers)")
    return (
        f"the device has too little memory for a step of {rows} rows at once. In this order: "
        + "; ".join(advice)
    )
