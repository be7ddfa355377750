"""Modules of losses that contain losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from sentbed.protocols import LossOutput
from torch import Tensor, nn

from sentbed_losses._torch.batch_columns import Columns


class Parts(nn.Module):
    """Several losses by name, each with its weight and, if it has one, its state."""

    def __init__(
        self, losses: Mapping[str, nn.Module], weights: Sequence[float]
    ) -> None:
        super().__init__()
        self.names = tuple(losses)
        self.weights = tuple(weights) or (1.0,) * len(losses)
        self.losses = nn.ModuleList(losses.values())
        self.stateful = tuple(
            hasattr(loss, "initial_state") for loss in losses.values()
        )

    def total(
        self,
        inputs: Sequence[Columns],
        state: Mapping[str, Tensor] | None,
    ) -> LossOutput:
        """Return the weighted sum, given the inputs of each loss and the states of all."""
        outputs = [
            self._output(number, inputs_of_loss, state)
            for number, inputs_of_loss in enumerate(inputs)
        ]
        losses = [
            weight * output.loss
            for weight, output in zip(self.weights, outputs, strict=True)
        ]
        metrics: dict[str, Tensor] = {}
        after: dict[str, Tensor] = {}
        for name, output in zip(self.names, outputs, strict=True):
            metrics[name] = output.loss.detach()
            metrics |= {f"{name}.{key}": value for key, value in output.metrics.items()}
            after |= {
                f"{name}.{key}": value for key, value in (output.state or {}).items()
            }
        total = torch.stack(losses).sum()
        if state is None:
            return LossOutput(total, metrics)
        return LossOutput(total, metrics, after)

    def _output(
        self,
        number: int,
        inputs: Columns,
        state: Mapping[str, Tensor] | None,
    ) -> LossOutput:
        arguments: tuple[Columns, ...] = (inputs,)
        if state is not None and self.stateful[number]:
            prefix = f"{self.names[number]}."
            state_of_loss = {
                key.removeprefix(prefix): v
                for key, v in state.items()
                if key.startswith(prefix)
            }
            arguments = inputs, state_of_loss
        output: LossOutput = self.losses[number](*arguments)
        return output


class StatefulParts(Parts):
    """Losses some of which have a state; only a stateful loss may have `initial_state`."""

    def initial_state(self) -> dict[str, Tensor]:
        """Return the first states of the losses, as `NAME.KEY`."""
        states: dict[str, Tensor] = {}
        for name, loss, stateful in zip(
            self.names, self.losses, self.stateful, strict=True
        ):
            module: Any = loss
            if stateful:
                states |= {
                    f"{name}.{key}": value
                    for key, value in module.initial_state().items()
                }
        return states
