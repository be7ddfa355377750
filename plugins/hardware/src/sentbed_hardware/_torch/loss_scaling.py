"""Loss scaling for training in fp16, where many gradients would underflow without it."""

from __future__ import annotations

from typing import Any

import torch
from sentbed import RunError
from sentbed.protocols import Columns, LossOutput, StepResult
from torch import nn

from sentbed_hardware._torch.out_of_memory import FittingTrainer
from sentbed_hardware._torch.placement import Placement
from sentbed_hardware.engine_parts.process_group import Processes

FIRST, LARGEST = 2.0**16, 2.0**24
"""The scale at the start, and its upper limit."""
STEPS_TO_DOUBLE = 2000
"""Steps without an overflow after which the scale is doubled (Micikevicius et al., 2018, section 3.2)."""


class ScalingTrainer(FittingTrainer):
    """A trainer that multiplies the loss's gradient by a scale before the backward pass of the encoders.

    Afterwards, the gradients of all parameters are divided by the scale. It is a power of 2, so that this is
    exact. If a gradient overflows, the backward pass is repeated at half the scale, with the same dropout. So
    no step is skipped. If the gradient is not even finite at a scale of 1, training has diverged.
    """

    saved_attributes = ("steps", "fits", "scale", "good_steps")

    def __init__(
        self,
        placement: Placement,
        processes: Processes,
        *others: Any,
    ) -> None:
        if processes.world > 1:
            raise RunError(
                "several processes cannot train in fp16, since a process does not see that the gradient of "
                'another has overflowed; set `precision = "bf16"` or "fp32"'
            )

        super().__init__(placement, processes, *others)
        self.scale = FIRST
        self.good_steps = 0
        """Number of steps without an overflow since the scale was last changed."""
        self.loss.register_forward_hook(self._scale_gradient)

    def step(self, columns: Columns) -> StepResult:
        """Take a training step, and double the scale after `STEPS_TO_DOUBLE` steps without an overflow."""
        before = self.scale
        result = super().step(columns)
        self.good_steps += 1
        if self.scale != before:
            self.good_steps = 0
        if self.good_steps >= STEPS_TO_DOUBLE:
            self.scale = min(2 * self.scale, LARGEST)
            self.good_steps = 0

        return result

    def _scale_gradient(
        self,
        _: Any,
        __: Any,
        output: object,
    ) -> None:
        """Let autograd multiply the gradient of the loss by the scale; a forward hook of the loss's module."""
        if isinstance(output, LossOutput) and output.loss.requires_grad:
            output.loss.register_hook(self._scaled)  # type: ignore[no-untyped-call]

    def _scaled(self, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * self.scale

    def _backward(self, columns: Columns) -> LossOutput:
        undo = self._prepare_undo()
        while True:
            output = super()._backward(columns)
            gradients = [p.grad for p in self.parameters.values() if p.grad is not None]
            norm = nn.utils.get_total_norm(gradients)
            overflowed = torch.isfinite(output.loss) and not torch.isfinite(norm)
            if self.scale == 1 or not overflowed:
                torch._foreach_mul_(gradients, 1 / self.scale)
                return output

            undo()
            self.scale /= 2
