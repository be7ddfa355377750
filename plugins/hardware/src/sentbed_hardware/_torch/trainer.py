"""Training steps in PyTorch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from sentbed import PluginError, RunError
from sentbed.protocols import Columns, LossOutput, StepResult, TokenIds, Training

from sentbed_hardware._torch import training_state
from sentbed_hardware._torch.average import Average
from sentbed_hardware._torch.caching import CachedVectors
from sentbed_hardware._torch.tower import Tower, plan_chunks

if TYPE_CHECKING:
    from sentbed_hardware._torch.engine import TorchEncoder, TorchEngine


class TorchTrainer:
    """One stage's optimiser over the encoders that it trains.

    `parameters` are those of all towers and of the loss, by name; `averages` has the momentum encoders by
    the name of their tower, `state` what a loss with state is given in the next step.
    """

    def __init__(self, engine: TorchEngine, encoders: Mapping[str, TorchEncoder], training: Training) -> None:
        self.engine = engine
        self.training = training
        width = _common_width(encoders)
        names = list(dict.fromkeys(training.towers.values()))
        self.towers = {name: Tower(name, encoders[name], alone=len(names) == 1) for name in names}
        self.momentum: float | None = getattr(training.loss, "momentum", None)
        self.keys = frozenset() if self.momentum is None else frozenset(getattr(training.loss, "keys", ()))
        self.averages = self._averages()
        self.loss = training.loss.build(width).to(engine.device)
        self.state: Mapping[str, torch.Tensor] | None = None
        if hasattr(self.loss, "initial_state"):
            self.state = {name: value.to(engine.device) for name, value in self.loss.initial_state().items()}
        self.parameters = {
            name: parameter for tower in self.towers.values() for name, parameter in tower.parameters.items()
        }
        self.parameters |= {f"loss.{name}": p for name, p in self.loss.named_parameters() if p.requires_grad}
        self.peak_rate = training.optimizer.lr
        self.optimizer = training.optimizer.build(list(self.parameters.items()))
        self.steps = 0

    def _averages(self) -> dict[str, Average]:
        averages = {}
        for name, tower in self.towers.items():
            columns = {column for column, of in self.training.towers.items() if of == name}
            if self.momentum is None or not columns & self.keys:
                continue
            if columns <= self.keys:
                listed = ", ".join(f"`{column}`" for column in sorted(columns))
                raise RunError(
                    f"nothing trains the encoder `{name}`: of its columns the loss "
                    f"`{self.training.loss.name}` sees only keys ({listed}), which a moving average encodes "
                    "without gradient; train the encoder of another column on them, or freeze this one"
                )
            averages[name] = Average(tower, self.momentum)
        return averages

    def step(self, columns: Columns) -> StepResult:
        """Forward, loss, gradient, update.

        A step whose loss or gradient is not finite changes no weight and no state; the caller sees the
        numbers and stops.
        """
        rate = self.peak_rate * self.training.schedule.factor(self.steps, self.training.total_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        output = self._backward(columns)
        norm = torch.nn.utils.clip_grad_norm_(
            list(self.parameters.values()), self.training.max_grad_norm or math.inf
        )
        if torch.isfinite(norm) and torch.isfinite(output.loss):
            self.optimizer.step()
            self.state = output.state
            for average in self.averages.values():
                average.update()
        self.optimizer.zero_grad(set_to_none=True)
        for tower in self.towers.values():
            tower.encoder.weights_changed()
        self.steps += 1
        metrics = {name: float(value) for name, value in output.metrics.items()}
        return StepResult(output.loss.item(), rate, float(norm), metrics)

    def gradients(self, columns: Columns) -> tuple[float, dict[str, NDArray[np.float32]]]:
        """Return loss and gradient of a batch by the name of each parameter; take no step."""
        output = self._backward(columns)
        found = {
            name: torch.zeros_like(value) if value.grad is None else value.grad
            for name, value in self.parameters.items()
        }
        self.optimizer.zero_grad(set_to_none=True)
        return output.loss.item(), {name: value.float().cpu().numpy() for name, value in found.items()}

    def _backward(self, columns: Columns) -> LossOutput:
        """Compute the loss, and add its gradient to the parameters'."""
        self.loss.train()
        inputs = {
            name: torch.tensor(values, device=self.engine.device)
            for name, values in columns.items()
            if not isinstance(values, TokenIds)
        }
        cached: list[CachedVectors] = []
        for tower in self.towers.values():
            tower.module.train()
            inputs |= self._encode(tower, columns, cached)
        inputs = {name: inputs[name] for name in columns}
        # Similarities decide between near neighbours: the loss is computed in fp32, outside autocast.
        output: LossOutput = self.loss(inputs) if self.state is None else self.loss(inputs, self.state)
        self._require_kept(output)
        output.loss.backward()
        for vectors in cached:
            vectors.backward()
        return output

    def _require_kept(self, output: object) -> None:
        """Raise `PluginError` where the loss has not kept its contract."""
        name = self.training.loss.name
        if not isinstance(output, LossOutput):
            raise PluginError(
                f"the loss `{name}` returned a {type(output).__name__}, expected a `LossOutput`"
            )
        if not output.loss.requires_grad:
            raise PluginError(f"the loss `{name}` returned a value without a gradient; do not detach it")
        if self.state is not None and output.state is None:
            raise PluginError(
                f"the loss `{name}` has a state and returned none; put it into its `LossOutput`"
            )

    def save(self, directory: Path) -> None:
        """Write everything that decides the steps to come into the empty `directory`."""
        training_state.save(self, directory)

    def load(self, directory: Path) -> None:
        """Go on from what `save` wrote. Raises `ModelError` where it does not fit this trainer."""
        training_state.load(self, directory)

    def _encode(self, tower: Tower, columns: Columns, cached: list[CachedVectors]) -> dict[str, torch.Tensor]:
        """Encode the columns of one tower together, and its keys together."""
        texts: tuple[dict[str, TokenIds], dict[str, TokenIds]] = {}, {}
        for name, tokens in columns.items():
            if isinstance(tokens, TokenIds) and self.training.towers[name] == tower.name:
                texts[name in self.keys][name] = tokens
        found: dict[str, torch.Tensor] = {}
        for is_key, some in enumerate(texts):
            if not some:
                continue
            tokens = TokenIds.join(some.values())
            micro_batch = self.training.micro_batch
            if micro_batch is not None and micro_batch * len(some) >= len(tokens):
                micro_batch = None
            chunks = list(plan_chunks(tokens.lengths, len(some), micro_batch))
            if is_key:
                vectors = self.averages[tower.name].encode(tokens, chunks)
            elif micro_batch is None:
                vectors = tower.encode(tokens, chunks)
            else:
                cached.append(CachedVectors(tower, tokens, chunks))
                vectors = cached[-1].vectors
            found |= zip(some, torch.split(vectors, [len(t) for t in some.values()]), strict=True)
        return found


def _common_width(encoders: Mapping[str, TorchEncoder]) -> int:
    (first, start), *others = encoders.items()
    for name, encoder in others:
        if encoder.width != start.width:
            raise RunError(
                f"the vectors of the encoder `{first}` are {start.width} wide, those of `{name}` "
                f"{encoder.width}, and a loss compares them; give both one width, such as "
                f"`head = {{ projection = {min(start.width, encoder.width)} }}`"
            )
    return start.width
