"""The instruction sets of this machine's processor: the choice of precision depends on them.

The environment variable `SENTBED_INSTRUCTIONS` hides all but those that it names, separated by commas. So what a
processor without bf16 does can be tested on one that has more: `SENTBED_INSTRUCTIONS=avx2`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

PRECISION_INSTRUCTIONS: Mapping[str, tuple[str, ...]] = {
    "bf16": ("amx_bf16", "avx512_bf16"),
    "int8": ("amx_int8", "avx512_vnni", "avx_vnni"),
}
"""Precision -> the instruction sets that have its products; one of them is enough. Without them, bf16 is emulated
and slower than fp32, and sums of products of 8-bit integers may overflow."""


def processor_capabilities() -> dict[str, Any]:
    """Return the name, the caches and the instruction sets of this processor, under torch's names."""
    import torch

    capabilities = dict(torch.cpu.get_capabilities())
    visible = os.environ.get("SENTBED_INSTRUCTIONS")
    if visible is None:
        return capabilities

    for name, value in capabilities.items():
        if value is True and name not in visible.split(","):
            capabilities[name] = False
    return capabilities


def present_instructions(precision: str) -> list[str]:
    """Return which instruction sets for the products of a precision this processor has."""
    capabilities = processor_capabilities()
    names = PRECISION_INSTRUCTIONS[precision]
    return [name for name in names if capabilities.get(name)]
