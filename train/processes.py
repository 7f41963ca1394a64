"""The processes of a training run: a single one, or several that `accelerate launch` (or torchrun) started, one per GPU."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from sanitize.errors import MissingExtra, UsageError


class SingleProcess:
    """A run of one process on one device: rank 0 of `world_size` 1. `Distributed` overrides what several processes do differently.

    Raises UsageError if the machine does not have the device.
    """

    rank, world_size = 0, 1

    def __init__(self, device: str) -> None:
        import torch

        name = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
        try:
            self.device = torch.device(name)
            torch.empty(0, device=self.device)
        except (RuntimeError, AssertionError) as error:
            raise UsageError(
                f"run.device = {device}: not a device of this machine ({type(error).__name__}); use auto, cpu or cuda"
            ) from None

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes files (rank 0)."""
        return self.rank == 0

    def wrap_model(self, model: Any) -> Any:
        """Return the model to call during training: itself, or wrapped by DistributedDataParallel."""
        return model

    def no_sync(self, model: Any) -> Any:
        """Return a context in which gradients are not synchronized between processes."""
        return contextlib.nullcontext()

    def all_reduce_sum(self, values: dict[str, float]) -> dict[str, float]:
        """Return the values by name, summed over all processes."""
        return values

    def barrier(self) -> None:
        """Wait until all processes have reached this call."""


class Distributed(SingleProcess):
    """Processes started by accelerate or torchrun: gradients are averaged over them by torch's DistributedDataParallel."""

    def __init__(self, device: str) -> None:
        try:
            from accelerate import Accelerator
        except ImportError:
            raise MissingExtra("accelerate", "multi") from None
        self.accelerator = Accelerator(cpu=device == "cpu", mixed_precision="no")
        self.device = self.accelerator.device
        self.rank, self.world_size = self.accelerator.process_index, self.accelerator.num_processes

    def wrap_model(self, model: Any) -> Any:
        return self.accelerator.prepare_model(model)

    def no_sync(self, model: Any) -> Any:
        return self.accelerator.no_sync(model)

    def all_reduce_sum(self, values: dict[str, float]) -> dict[str, float]:
        import torch

        names = sorted(values)
        # counts up to 2**24 are exact in float32 too, for devices that have no float64
        dtype = torch.float64 if self.device.type in ("cpu", "cuda") else torch.float32
        added = self.accelerator.reduce(torch.tensor([values[name] for name in names], dtype=dtype, device=self.device), "sum")
        return dict(zip(names, added.tolist(), strict=True))

    def barrier(self) -> None:
        self.accelerator.wait_for_everyone()


def detect_processes(device: str) -> SingleProcess:
    """Return `Distributed` if a launcher set WORLD_SIZE > 1 in the environment, else `SingleProcess` on the device."""
    return Distributed(device) if int(os.environ.get("WORLD_SIZE", "1")) > 1 else SingleProcess(device)
