"""Which errors mean that a device has too little memory."""

from __future__ import annotations


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of torch means that the device, or the machine, has too little memory."""
    import torch

    # the allocator of a CPU has no error of its own; some calls of CUDA and its libraries report a
    # RuntimeError
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(
        text in str(error) for text in ("can't allocate memory", "out of memory", "ALLOC_FAILED")
    )
