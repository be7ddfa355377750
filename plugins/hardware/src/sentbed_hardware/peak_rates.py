"""Published peak rates of accelerators, for `sentbed plan`."""

from __future__ import annotations

import re
from collections.abc import Mapping

import attrs


@attrs.frozen
class Peak:
    """The manufacturer's figures for one kind of device, without sparsity."""

    name: str
    pattern: str
    """Case-insensitive regular expression to find in the device's name."""
    memory: float
    """Memory in GB."""
    bandwidth: float
    """Memory bandwidth in TB/s."""
    flops: Mapping[str, float]
    """TFLOP/s of matrix products, by precision: `fp32`, `tf32`, `bf16` (and `fp16` where they differ)."""


CUDA = (
    Peak("H200", r"H200", 141, 4.8, {"fp32": 67, "tf32": 494, "bf16": 989}),
    Peak("H100 PCIe", r"H100.*PCIe", 80, 2.0, {"fp32": 51, "tf32": 378, "bf16": 756}),
    Peak("H100", r"H100", 80, 3.35, {"fp32": 67, "tf32": 494, "bf16": 989}),
    Peak("A100 40GB", r"A100.*40", 40, 1.555, {"fp32": 19.5, "tf32": 156, "bf16": 312}),
    Peak("A100", r"A100", 80, 2.039, {"fp32": 19.5, "tf32": 156, "bf16": 312}),
    Peak("L40S", r"L40S", 48, 0.864, {"fp32": 91.6, "tf32": 183, "bf16": 362}),
    Peak("L4", r"\bL4\b", 24, 0.3, {"fp32": 30.3, "tf32": 60, "bf16": 121}),
    Peak("A10", r"\bA10G?\b", 24, 0.6, {"fp32": 31.2, "tf32": 62.5, "bf16": 125}),
    Peak("V100", r"V100", 32, 0.9, {"fp32": 15.7, "fp16": 125}),
    Peak("T4", r"\bT4\b", 16, 0.32, {"fp32": 8.1, "fp16": 65}),
    Peak("RTX 4090", r"4090", 24, 1.008, {"fp32": 82.6, "tf32": 82.6, "bf16": 165}),
    Peak("RTX 3090", r"3090", 24, 0.936, {"fp32": 35.6, "tf32": 35.6, "bf16": 71}),
)
"""NVIDIA's data sheets."""


def find(name: str, table: tuple[Peak, ...]) -> Peak | None:
    """Return the kind of device with this name, or None if the table has none."""
    whole = r"(?<![a-z0-9])(?:{})(?![0-9])"
    return next(
        (
            peak
            for peak in table
            if re.search(whole.format(peak.pattern), name, re.IGNORECASE)
        ),
        None,
    )


def known(table: tuple[Peak, ...]) -> str:
    """Return the names that the table knows, for a message."""
    return ", ".join(peak.name for peak in table)
