"""Runtimes for sentbed, and the optimisers and schedules that they drive."""

from __future__ import annotations

from sentbed import hookimpl
from sentbed.protocols import Optimizer, Runtime, Schedule

from sentbed_hardware.adafactor import Adafactor
from sentbed_hardware.adamw import AdamW
from sentbed_hardware.cpu import Cpu
from sentbed_hardware.schedules import Constant, Cosine, Linear, LinearAfterHold

__all__ = [
    "Adafactor",
    "AdamW",
    "Constant",
    "Cosine",
    "Cpu",
    "Linear",
    "LinearAfterHold",
    "optimizers",
    "runtimes",
    "schedules",
]


@hookimpl
def runtimes() -> list[type[Runtime]]:
    """Return the runtimes of this distribution."""
    return [Cpu]


@hookimpl
def optimizers() -> list[type[Optimizer]]:
    """Return the optimisers of this distribution."""
    return [AdamW, Adafactor]


@hookimpl
def schedules() -> list[type[Schedule]]:
    """Return the schedules of this distribution."""
    return [Constant, Linear, LinearAfterHold, Cosine]
