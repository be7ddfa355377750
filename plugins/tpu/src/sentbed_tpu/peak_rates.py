"""Published peak rates of TPUs, for `sentbed plan`."""

from __future__ import annotations

from sentbed_hardware.peak_rates import Peak

TPU = (
    Peak("v6e", r"v6e|v6 lite", 32, 1.64, {"bf16": 918}),
    Peak("v5p", r"v5p|TPU v5$", 95, 2.765, {"bf16": 459}),
    Peak("v5e", r"v5e|v5 lite", 16, 0.82, {"bf16": 197}),
    Peak("v4", r"v4", 32, 1.2, {"bf16": 275}),
    Peak("v3", r"v3", 16, 0.45, {"bf16": 61.5}),
)
"""Google's system architecture pages; for v3, of one core, which is a device there."""

PASSES = 6
"""Passes of a TPU's bf16 units for one product in fp32."""
