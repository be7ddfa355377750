"""Memory of the GPUs of this process, as PyTorch counts it."""

from __future__ import annotations

import attrs
import torch


@attrs.frozen
class DeviceMemory:
    """Memory of all GPUs that the process sees, in GiB."""

    peak: float
    """Most that has been allocated; the sum of the peaks of each."""
    allocated: float
    """What is allocated now."""
    devices: int
    """Number of GPUs on which something has been allocated."""


def measure() -> DeviceMemory:
    """Return the memory of the GPUs of this process."""
    every = range(torch.cuda.device_count())
    peaks = [torch.cuda.max_memory_allocated(device) / 2**30 for device in every]
    allocated = [torch.cuda.memory_allocated(device) / 2**30 for device in every]
    return DeviceMemory(sum(peaks), sum(allocated), sum(peak > 0 for peak in peaks))
