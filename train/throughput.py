"""Speed of a training run: tokens a second, the share of the device's peak that this is (MFU), and
the time that is left.

Model FLOPs utilization, Chowdhery et al. 2022 (PaLM), appendix B: a token costs 6 FLOPs for each
weight of a matrix product, 2 forward and 4 backward, and 12 * layers * width * context for
attention. Weights that are frozen have no gradient: 4 instead of 6. What gradient checkpointing
computes again is not counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .model import trainable_parameters

# dense bf16 FLOPs a second, from the vendors' data sheets, by a part of the device's name; the
# first that matches
PEAK_FLOPS = (
    ("B200", 2.25e15),
    ("H200", 989e12),
    ("H100 NVL", 835e12),
    ("H100 PCIe", 756e12),
    ("H100", 989e12),
    ("GH200", 989e12),
    ("A100", 312e12),
    ("A40", 149.7e12),
    ("A10G", 70e12),
    ("A10", 125e12),
    ("L40S", 362e12),
    ("L4", 121e12),
    ("RTX 4090", 165.2e12),
    ("RTX 3090", 71e12),
    ("MI300X", 1307e12),
    ("MI250X", 191.5e12),
)


def find_peak_flops(device: Any) -> float | None:
    """Return the peak of a device in bf16 FLOPs a second; None if it is not known."""
    import torch

    if device.type != "cuda":
        return None
    name = torch.cuda.get_device_name(device)
    return next((peak for part, peak in PEAK_FLOPS if part in name), None)


def count_flops_per_token(model: Any, context: int) -> float | None:
    """Return the FLOPs of training by a token; None if only the top layers are trained, whose
    backward pass ends above the others."""
    import torch

    trained_names = {name for name, _ in trainable_parameters(model)}
    matrices = {
        name: parameter.numel()
        for name, parameter in model.named_parameters()
        if parameter.ndim > 1
    }
    has_adapter = any(".lora_" in name for name in trained_names)
    if not has_adapter and len(trained_names) < sum(1 for _ in model.parameters()):
        return None
    head = model.get_output_embeddings()
    for name, module in model.named_modules():
        # a table that is read by row multiplies nothing, unless it is tied to the head
        if isinstance(module, torch.nn.Embedding) and (
            head is None or head.weight is not module.weight
        ):
            matrices.pop(f"{name}.weight", None)
    trained = sum(count for name, count in matrices.items() if name in trained_names)
    config = model.config
    attention = 12 * config.num_hidden_layers * config.hidden_size * context
    return float(6 * trained + 4 * (sum(matrices.values()) - trained) + attention)


@dataclass
class Throughput:
    """Counts tokens and the seconds of steps between two readings; `exclude` leaves out what is no
    step, such as a checkpoint."""

    flops_per_token: float | None = None  # None: MFU is not reported
    peak_flops: float | None = None  # of all devices together
    clock: Callable[[], float] = time.perf_counter
    _tokens: int = 0
    _since: float = field(default=0.0)

    def __post_init__(self) -> None:
        self._since = self.clock()

    def add(self, tokens: int) -> None:
        """Count the tokens of a step."""
        self._tokens += tokens

    def exclude(self, seconds: float) -> None:
        """Leave seconds out that were not spent on steps."""
        self._since += seconds

    def read(self) -> dict[str, float]:
        """Return `tokens_per_s`, and `mfu` where it is known, since the last call."""
        now = self.clock()
        rate = self._tokens / max(now - self._since, 1e-9)
        self._tokens, self._since = 0, now
        if self.flops_per_token is None or self.peak_flops is None:
            return {"tokens_per_s": round(rate, 1)}
        return {
            "tokens_per_s": round(rate, 1),
            "mfu": round(rate * self.flops_per_token / self.peak_flops, 4),
        }


def format_duration(seconds: float) -> str:
    """Return a duration in words, such as `12 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
