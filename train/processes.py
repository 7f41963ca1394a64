"""The processes that train together: one alone, or several that `accelerate launch` (or torchrun) started, one a GPU."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from sanitize.errors import MissingExtra, UsageError


class Crew:
    """One process alone on one device. `rank` of `ranks`; what several must do otherwise is in `Several`."""

    rank, ranks = 0, 1

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
    def leads(self) -> bool:
        """True for the one process that writes."""
        return self.rank == 0

    def wrapped(self, model: Any) -> Any:
        """The model as it is called while it trains."""
        return model

    def apart(self, model: Any) -> Any:
        """A context in which gradients are not exchanged yet."""
        return contextlib.nullcontext()

    def summed(self, values: dict[str, float]) -> dict[str, float]:
        """The values added up over all processes."""
        return values

    def wait(self) -> None:
        """Until all are here."""


class Several(Crew):
    """Processes started by accelerate or torchrun: gradients are averaged over them by torch's DistributedDataParallel."""

    def __init__(self, device: str) -> None:
        try:
            from accelerate import Accelerator
        except ImportError:
            raise MissingExtra("accelerate", "multi") from None
        self.accelerator = Accelerator(cpu=device == "cpu", mixed_precision="no")
        self.device = self.accelerator.device
        self.rank, self.ranks = self.accelerator.process_index, self.accelerator.num_processes

    def wrapped(self, model: Any) -> Any:
        return self.accelerator.prepare_model(model)

    def apart(self, model: Any) -> Any:
        return self.accelerator.no_sync(model)

    def summed(self, values: dict[str, float]) -> dict[str, float]:
        import torch

        names = sorted(values)
        # counts up to 2**24 are exact in float32 too, for devices that have no float64
        kind = torch.float64 if self.device.type in ("cpu", "cuda") else torch.float32
        added = self.accelerator.reduce(torch.tensor([values[name] for name in names], dtype=kind, device=self.device), "sum")
        return dict(zip(names, added.tolist(), strict=True))

    def wait(self) -> None:
        self.accelerator.wait_for_everyone()


def crew(device: str) -> Crew:
    """The crew that this process belongs to, by what its launcher left in the environment."""
    return Several(device) if int(os.environ.get("WORLD_SIZE", "1")) > 1 else Crew(device)
