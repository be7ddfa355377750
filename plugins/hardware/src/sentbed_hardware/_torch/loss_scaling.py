"""Loss scaling for training in fp16, in which many gradients would underflow."""

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
STEPS_TO_DOUBLE = 2000
"""Steps without an overflow after which the scale is doubled (Micikevicius et al., 2018, section 3.2)."""


class ScalingTrainer(FittingTrainer):
    """A trainer that scales the loss's gradient before the encoder's backward pass, and unscales it after.

    If the gradient overflows, the step is repeated at half the scale, with the same dropout. So no step is
    lost, and a gradient that is not finite at a scale of 1 has diverged, as in fp32. Scales are powers of 2,
    so that scaling is exact.
    """

    kept = ("steps", "fits", "scale", "good_steps")

    def __init__(
        self, placement: Placement, processes: Processes, *others: Any
    ) -> None:
        if processes.world > 1:
            raise RunError(
                "several processes do not train in fp16: none sees that another's gradient has overflowed; "
                'set `precision = "bf16"` or "fp32"'
            )

        super().__init__(placement, processes, *others)
        self.scale = FIRST
        self.good_steps = 0
        self.loss.register_forward_hook(self._scale)

    def step(self, columns: Columns) -> StepResult:
        """Take a training step: forward, loss, gradient, update."""
        before = self.scale
        result = super().step(columns)
        self.good_steps += 1
        if self.scale != before:
            self.good_steps = 0
        if self.good_steps >= STEPS_TO_DOUBLE:
            self.scale = min(2 * self.scale, LARGEST)
            self.good_steps = 0

        return result

    def _scale(self, _: Any, __: Any, output: object) -> None:
        if isinstance(output, LossOutput) and output.loss.requires_grad:
            output.loss.register_hook(self._scaled)  # type: ignore[no-untyped-call]

    def _scaled(self, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * self.scale

    def _backward(self, columns: Columns) -> LossOutput:
        start_again = self._beginning()
        while True:
            output = super()._backward(columns)
            gradients = [p.grad for p in self.parameters.values() if p.grad is not None]
            norm = nn.utils.get_total_norm(gradients)
            overflowed = torch.isfinite(output.loss) and not torch.isfinite(norm)
            if self.scale == 1 or not overflowed:
                torch._foreach_mul_(gradients, 1 / self.scale)
                return output

            start_again()
            self.scale /= 2
