"""Runtimes for sentbed, with their optimisers and schedules."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed import hookimpl


@hookimpl
def runtimes() -> Mapping[str, str]:
    """Return the runtimes of this distribution."""
    return {
        "cpu": "sentbed_hardware.cpu:Cpu",
        "cuda": "sentbed_hardware.cuda:Cuda",
    }


@hookimpl
def optimizers() -> Mapping[str, str]:
    """Return the optimisers of this distribution."""
    return {
        "adamw": "sentbed_hardware.adamw:AdamW",
        "adafactor": "sentbed_hardware.adafactor:Adafactor",
    }


@hookimpl
def schedules() -> Mapping[str, str]:
    """Return the schedules of this distribution."""
    return {
        "constant": "sentbed_hardware.learning_rate_schedules:Constant",
        "linear": "sentbed_hardware.learning_rate_schedules:Linear",
        "linear-after-hold": "sentbed_hardware.learning_rate_schedules:LinearAfterHold",
        "cosine": "sentbed_hardware.learning_rate_schedules:Cosine",
        "relative-step": "sentbed_hardware.learning_rate_schedules:RelativeStep",
    }
