"""Runtimes for sentbed, with their optimisers and schedules."""

from __future__ import annotations

from sentbed import hookimpl
from sentbed.protocols import Finding, Optimizer, Runtime, Schedule

sentbed_api = "2.0"


@hookimpl
def runtimes() -> list[type[Runtime]]:
    """Return the runtimes of this distribution."""

    from sentbed_hardware.cpu import Cpu
    from sentbed_hardware.cuda import Cuda
    from sentbed_hardware.tpu import Tpu

    return [Cpu, Cuda, Tpu]


@hookimpl
def optimizers() -> list[type[Optimizer]]:
    """Return the optimisers of this distribution."""

    from sentbed_hardware.adafactor import Adafactor
    from sentbed_hardware.adamw import AdamW

    return [AdamW, Adafactor]


@hookimpl
def schedules() -> list[type[Schedule]]:
    """Return the schedules of this distribution."""

    from sentbed_hardware.schedule import Constant, Cosine, Linear, LinearAfterHold

    return [Constant, Linear, LinearAfterHold, Cosine]


@hookimpl
def findings() -> list[Finding]:
    """Return what PyTorch and JAX can run on this machine, and on which devices."""
    from sentbed_hardware.doctor import findings

    return findings()
