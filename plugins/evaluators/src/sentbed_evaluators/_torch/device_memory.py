"""Memory of the GPUs of this process, as PyTorch counts it."""

from __future__ import annotations

import attrs
import torch


@attrs.frozen
class DeviceMemory:
    """Memory of all GPUs that the process sees, in GiB."""

    peak: float
    """Peak of the allocated memory on each GPU, summed over the GPUs."""
    allocated: float
    """Memory that is allocated now, summed over the GPUs."""
    devices: int
    """Number of GPUs on which the process has allocated memory at any time."""


def measure() -> DeviceMemory:
    """Return the memory of the GPUs of this process."""
    peak = allocated = 0
    devices = 0
    for device in range(torch.cuda.device_count()):
        peak_of_device = torch.cuda.max_memory_allocated(device)
        peak += peak_of_device
        allocated += torch.cuda.memory_allocated(device)
        if peak_of_device > 0:
            devices += 1
    return DeviceMemory(peak / 2**30, allocated / 2**30, devices)
