"""The runtimes' part of `sentbed plan`; see `sentbed_common.resource_planning`."""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import Any

from sentbed import RuntimeUnavailableError
from sentbed.protocols import Loss, Pooler
from sentbed_common import Device, PlannedRuntime, Sketch

from sentbed_hardware.peak_rates import Peak, find, known

SHARE = (0.3, 0.6)
"""Share of an accelerator's published speed that training steps are assumed to reach."""
STEP = 0.03
"""Approximate minimum of seconds per step: a thousand kernels or more are launched one by one."""
CONTEXT = 2**29
"""Bytes that CUDA and its libraries take on a device, about."""


class TorchPlanned(PlannedRuntime):
    """A runtime that runs torch modules; poolers and losses are built with tensors without content."""

    __slots__ = ()

    def sketch_pooler(self, pooler: Pooler, width: int) -> Sketch:
        """Return the sketch of a pooler over token states of this width."""
        from sentbed_hardware._torch.resource_planning import sketch_pooler

        return sketch_pooler(pooler, width)

    def sketch_loss(
        self, loss: Loss, width: int, batch_size: int, columns: frozenset[str]
    ) -> Sketch:
        """Return the sketch of a loss over vectors of this width."""
        from sentbed_hardware._torch.resource_planning import sketch_loss

        return sketch_loss(loss, width, batch_size, columns)


class PlannedProcessor(TorchPlanned):
    """A runtime on the host's processor."""

    __slots__ = ()

    def outline(self, on: str | None = None) -> Device:
        """Return this machine, timed; raises `RuntimeUnavailableError` for another one."""
        if on is not None:
            raise RuntimeUnavailableError(
                f"the runtime `cpu` is timed where it runs, and cannot say what a `{on}` does; leave out "
                "`--on`, or plan another runtime: `--set runtime.use=cuda`"
            )
        # As in `Cpu.build`, for a process that then runs the recipe.
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
        from sentbed_hardware._torch.resource_planning import cpu

        return cpu(self)


class PlannedAccelerator(TorchPlanned):
    """A runtime on devices with published peak rates."""

    __slots__ = ()

    def outline(self, on: str | None = None) -> Device:
        """Return this machine's device, or the published one named.

        Raises:
            RuntimeUnavailableError: if there is none here, or none of this name is published.
        """
        name, memory = self.device_here() if on is None else (on, None)
        published = self.peaks()
        peak = find(name, published)
        if peak is None and on is not None:
            raise RuntimeUnavailableError(
                f"no peaks are known of a `{on}` for the runtime `{self.name}`; it knows {known(published)}"
            )
        return planned_device(self, name, memory, peak)

    @abstractmethod
    def peaks(self) -> tuple[Peak, ...]:
        """Return the published devices."""

    @abstractmethod
    def peak_flops(self, peak: Peak, precision: str) -> float | None:
        """Return the TFLOP/s of a published device in this precision, or None if it lacks it."""

    @abstractmethod
    def device_here(self) -> tuple[str, int | None]:
        """Return name and bytes of memory of this machine's device, or raise `RuntimeUnavailableError`."""


def planned_device(
    parameters: Any, name: str, memory: int | None, peak: Peak | None
) -> Device:
    """Return the device of a runtime for a plan; of an unpublished one (`peak` is None) no speed is known."""
    precision = parameters.precision
    if precision == "auto":
        precision = "fp32" if peak is None or "bf16" not in peak.flops else "bf16"
    flops = None if peak is None else parameters.peak_flops(peak, precision)
    source = "unknown for this device" if flops is None else "its maker's data sheet"
    if parameters.devices is None:
        source += "; for one device: set `devices` to plan for more"
    return Device(
        kind=parameters.name,
        name=name,
        precision=precision,
        count=(parameters.devices or 1) * parameters.nodes,
        parallel=parameters.parallel,
        memory=memory or (None if peak is None else int(peak.memory * 1e9)),
        libraries=CONTEXT,
        flops=None if flops is None else flops * 1e12,
        bandwidth=None if peak is None else peak.bandwidth * 1e12,
        source=source,
        share=SHARE,
        share_source="assumed",
        step_seconds=STEP,
        token_budget=parameters.token_budget or 16384,
    )
