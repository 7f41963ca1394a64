"""The processes of a training run: a single one, or several that torchrun or `accelerate launch`
started, one per GPU.

Several processes hold a copy of the model each (torch's DistributedDataParallel), and each step has
the gradient of all its rows. A launcher ends all processes if one of them dies; the same command
resumes from the last saved state.
"""

from __future__ import annotations

import atexit
import contextlib
import datetime
import os
from typing import Any

from sanitize.errors import UsageError

# rank 0 reads and tokenizes while the others wait; a launcher notices dead processes at once
_TIMEOUT = datetime.timedelta(hours=12)


def uses_bf16(precision: str, device: Any) -> bool:
    """Whether steps are computed in bfloat16: if the recipe asks for it, or on "auto" the GPU
    supports it."""
    import torch

    return precision == "bf16" or (
        precision == "auto" and device.type == "cuda" and torch.cuda.is_bf16_supported()
    )


class SingleProcess:
    """A run of one process on one device: rank 0 of `world_size` 1. Subclasses override what
    several processes do differently.

    Raises UsageError if the machine does not have the device.
    """

    rank, world_size = 0, 1

    def __init__(self, device: str) -> None:
        import torch

        name = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
        try:
            self.device = torch.device(name)
            torch.zeros(1, device=self.device).item()  # the device `meta` has no values
        except (RuntimeError, AssertionError) as error:
            raise UsageError(
                f"run.device = {device}: not a device of this machine ({type(error).__name__}); use"
                " auto, cpu or cuda"
            ) from None

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes files (rank 0)."""
        return self.rank == 0

    def wrap_model(self, model: Any) -> Any:
        """Move the model to the device and return the model to call during training: itself, or
        wrapped by DistributedDataParallel."""
        return model.to(self.device)

    def no_sync(self, model: Any) -> Any:
        """Return a context in which gradients are not synchronized between processes."""
        return contextlib.nullcontext()

    def all_reduce_sum(self, values: dict[str, float]) -> dict[str, float]:
        """Return the values by name, summed over all processes."""
        return values

    def barrier(self) -> None:
        """Wait until all processes have reached this call."""


class DataParallel(SingleProcess):
    """Processes with a copy of the model each: gradients are averaged over them by torch's
    DistributedDataParallel."""

    def __init__(self, device: str) -> None:
        import torch
        from torch import distributed

        local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        is_gpu = device != "cpu" and torch.cuda.is_available()
        super().__init__(f"cuda:{local_rank}" if is_gpu and device in ("auto", "cuda") else device)
        if is_gpu:
            torch.cuda.set_device(self.device)
        if not distributed.is_initialized():
            distributed.init_process_group("nccl" if is_gpu else "gloo", timeout=_TIMEOUT)
            atexit.register(_destroy_process_group)
        self.rank, self.world_size = distributed.get_rank(), distributed.get_world_size()

    def wrap_model(self, model: Any) -> Any:
        from torch.nn.parallel import DistributedDataParallel

        return DistributedDataParallel(
            model.to(self.device),
            device_ids=[self.device.index] if self.device.type == "cuda" else None,
        )

    def no_sync(self, model: Any) -> Any:
        return model.no_sync()

    def all_reduce_sum(self, values: dict[str, float]) -> dict[str, float]:
        import torch

        names = sorted(values)
        added = torch.tensor(
            [values[name] for name in names], dtype=torch.float64, device=self.device
        )
        torch.distributed.all_reduce(added)
        return dict(zip(names, added.tolist(), strict=True))

    def barrier(self) -> None:
        self.all_reduce_sum({"barrier": 0.0})


def detect_processes(device: str) -> SingleProcess:
    """Return the processes that a launcher started (WORLD_SIZE > 1 in the environment), else
    `SingleProcess` on the device."""
    is_launched = int(os.environ.get("WORLD_SIZE", "1")) > 1
    return DataParallel(device) if is_launched else SingleProcess(device)


def _destroy_process_group() -> None:
    from torch import distributed

    if distributed.is_initialized():
        distributed.destroy_process_group()
