"""Runtimes for sentbed, with their optimisers and schedules."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed import hookimpl
from sentbed.protocols import Lazy


@hookimpl
def runtimes() -> Mapping[str, Lazy]:
    """Return the runtimes of this distribution."""
    return {
        "cpu": Lazy(
            "sentbed_hardware.cpu:Cpu",
            "PyTorch on the host's processor, in one process or in several.",
        ),
        "cuda": Lazy(
            "sentbed_hardware.cuda:Cuda", "PyTorch on an NVIDIA GPU, or on several."
        ),
    }


@hookimpl
def optimizers() -> Mapping[str, Lazy]:
    """Return the optimisers of this distribution."""
    return {
        "adamw": Lazy(
            "sentbed_hardware.adamw:AdamW",
            "Adam with decoupled weight decay (Loshchilov and Hutter, 2019), as SimCSE trains.",
        ),
        "adafactor": Lazy(
            "sentbed_hardware.adafactor:Adafactor",
            "Adafactor with factored second moments (Shazeer and Stern, 2018), as Sentence-T5 trains.",
        ),
    }


@hookimpl
def schedules() -> Mapping[str, Lazy]:
    """Return the schedules of this distribution."""
    return {
        "constant": Lazy(
            "sentbed_hardware.learning_rate_schedules:Constant",
            "The same learning rate throughout, after the warm-up.",
        ),
        "linear": Lazy(
            "sentbed_hardware.learning_rate_schedules:Linear",
            "Linear decay to 0 over the steps after the warm-up, as SimCSE trains.",
        ),
        "linear-after-hold": Lazy(
            "sentbed_hardware.learning_rate_schedules:LinearAfterHold",
            "The full learning rate for a while, then linear decay to 0.",
        ),
        "cosine": Lazy(
            "sentbed_hardware.learning_rate_schedules:Cosine",
            "Half a cosine from 1 to `floor` over the steps after the warm-up.",
        ),
        "relative-step": Lazy(
            "sentbed_hardware.learning_rate_schedules:RelativeStep",
            "The inverse square root of the step, at most 0.01, as Adafactor's `relative_step`.",
        ),
    }
