"""Training steps on PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from sentbed.helpers import derive, number, returned
from sentbed.protocols import (
    Columns,
    LossOutput,
    StepResult,
    TokenIds,
    Trainer,
    Training,
)
from torch.distributed.tensor import DTensor

from sentbed_hardware._common.random_generators import draws, rewind
from sentbed_hardware._torch import gradients, training_state
from sentbed_hardware._torch.gradient_caching import BatchVectors
from sentbed_hardware._torch.momentum_encoder import MomentumEncoder
from sentbed_hardware._torch.parameter_groups import separate
from sentbed_hardware._torch.sharding import mesh_of, replicated, whole
from sentbed_hardware._torch.token_prediction import Corrupted, PredictingStates
from sentbed_hardware._torch.tower import Tower, plan_chunks
from sentbed_hardware.engine_parts.component_output_checks import learning_rate, require_output
from sentbed_hardware.engine_parts.training_settings import (
    common_width,
    joined,
    keyed_towers,
    keys_of,
    refuse_predictions,
    settings_of,
    texts_a_row,
)

if TYPE_CHECKING:
    from sentbed_hardware._torch.engine import TorchEncoder, TorchEngine


class TorchTrainer(Trainer):
    """One stage's optimiser over the encoders that it trains.

    `parameters` are those of all towers and of the loss, by name; `averages` has the momentum encoders by
    the name of their tower, `ema` the averages for evaluation; `state` is the input of a stateful loss in
    the next step.
    """

    def __init__(self, engine: TorchEngine, encoders: Mapping[str, TorchEncoder], training: Training) -> None:
        self.engine = engine
        self.training = training
        width = common_width(encoders, training)
        names = list(dict.fromkeys(training.towers.values()))
        pools = not training.loss.traits.predicts
        self.towers = {name: Tower(name, encoders[name], len(names) == 1, pools) for name in names}
        self.heads: dict[str, torch.nn.Module] = {}
        """Language-modelling heads by tower, if the loss predicts tokens."""
        if engine.processes.world > 1:
            refuse_predictions(training, f"this engine has {engine.processes.world} processes")
        if not pools:
            self.heads = {name: encoders[name].backbone.prediction_head().to(engine.device) for name in names}
        self.momentum = training.loss.traits.momentum
        self.keys = keys_of(training)
        self.averages = {
            name: MomentumEncoder(self.towers[name], self.momentum or 0.0) for name in keyed_towers(training)
        }
        self.ema = {
            name: MomentumEncoder(tower, training.ema)
            for name, tower in self.towers.items()
            if training.ema is not None
        }
        loss = returned(training.loss.build(width), torch.nn.Module, training.loss, "build")
        self.loss = loss.to(engine.device)
        self.state: Mapping[str, torch.Tensor] | None = None
        if training.loss.traits.stateful:
            self.state = {name: value.to(engine.device) for name, value in self.loss.initial_state().items()}
        self.parameters = {
            name: parameter for tower in self.towers.values() for name, parameter in tower.parameters.items()
        }
        of_loss = {f"loss.{name}": p for name, p in self.loss.named_parameters() if p.requires_grad}
        self.parameters |= of_loss
        self.of_loss = list(of_loss)
        processes = engine.processes
        self.mesh = mesh_of(processes) if processes.sharded else None
        # An optimiser cannot mix both kinds of tensor.
        self.optimized = {
            name: torch.nn.Parameter(replicated(value, self.mesh))
            if self.mesh is not None and not isinstance(value, DTensor)
            else value
            for name, value in self.parameters.items()
        }
        found = training.optimizer.build(list(self.optimized.items()))
        self.optimizer = returned(found, torch.optim.Optimizer, training.optimizer, "build")
        settings = settings_of(self.loss, training.loss, "loss.")
        self.rate_factors = separate(self.optimizer, self.optimized, settings, training.optimizer)
        """What the learning rate of a step is multiplied by, for each group of the optimiser."""
        self.steps = 0
        self.made: list[BatchVectors] = []
        """Vectors of the step under way, with the loss's gradient."""
        self.common: list[torch.Tensor] | None = None
        """States of the generators of a loss, equal in all processes; None for a single process."""
        self.seed = torch.initial_seed()
        processes.same([value.detach() for value in (*self.loss.parameters(), *self.loss.buffers())])
        self.reseed()

    def step(self, columns: Columns) -> StepResult:
        """Take a training step: forward, loss, gradient, update.

        A step whose loss or gradient is not finite changes no weight and no state; the caller sees the
        numbers and stops.
        """
        rate = learning_rate(self.training, self.steps)
        for group, factor in zip(self.optimizer.param_groups, self.rate_factors, strict=True):
            group["lr"] = rate * factor
        output = self._backward(columns)
        interrupted = gradients.add_up(self)
        if self.steps == 0:
            gradients.require_all(self)
        norm = gradients.clip(self)
        origin = ""
        if torch.isfinite(norm) and torch.isfinite(output.loss):
            gradients.update(self)
            self.state = output.state
            for average in (*self.averages.values(), *self.ema.values()):
                average.update()
        else:
            origin = gradients.origin_of_fault(self, columns, output)
        gradients.forget(self)
        self.made = []
        for tower in self.towers.values():
            tower.encoder.weights_changed()
        self.steps += 1
        loss = self.training.loss
        metrics = {name: number(value, loss, "build") for name, value in output.metrics.items()}
        return StepResult(output.loss.item(), rate, float(norm), metrics, interrupted, origin)

    def gradients(self, columns: Columns) -> tuple[float, dict[str, NDArray[np.float32]]]:
        """Return loss and gradient of a batch by the name of each parameter; take no step."""
        output = self._backward(columns)
        gradients.add_up(self)
        found = {
            name: whole(torch.zeros_like(value) if value.grad is None else value.grad)
            for name, value in self.parameters.items()
        }
        gradients.forget(self)
        for tower in self.towers.values():
            # The copy for encoding shares pooler and head, which are now in training mode.
            tower.encoder.weights_changed()
        return output.loss.item(), {name: value.float().cpu().numpy() for name, value in found.items()}

    def swap_average(self) -> None:
        """Exchange the encoders' trained weights with their moving average."""
        for name, average in self.ema.items():
            average.swap()
            self.towers[name].encoder.weights_changed()

    def reseed(self) -> None:
        """Seed each process differently, by the number of steps; a loss draws the same in all."""
        processes = self.engine.processes
        if processes.world == 1:
            return
        torch.manual_seed(derive(self.seed, "loss", self.steps))
        self.common = draws()
        torch.manual_seed(derive(self.seed, "process", processes.rank, self.steps))

    def _backward(self, columns: Columns) -> LossOutput:
        """Compute the loss and add its gradient to the parameters' gradients."""
        self.loss.train()
        inputs = {
            name: torch.tensor(values, device=self.engine.device)
            for name, values in columns.items()
            if not isinstance(values, TokenIds)
        }
        made: list[BatchVectors] = []
        for tower in self.towers.values():
            tower.module.train()
            inputs |= (self._predict if self.heads else self._encode)(tower, columns, made)
        inputs = {name: inputs[name] for name in dict.fromkeys((*columns, *inputs))}
        # Similarities must separate near neighbours, so the loss is computed in fp32, outside autocast.
        with self._drawing_as_all():
            output: LossOutput = self.loss(inputs) if self.state is None else self.loss(inputs, self.state)
        require_output(output, self.training.loss, self.state is not None, recorded=True)
        output.loss.backward()
        for vectors in made:
            vectors.backward()
        self.made = made
        return output

    @contextmanager
    def _drawing_as_all(self) -> Iterator[None]:
        """Make a loss draw the same random numbers in every process."""
        if self.common is None:
            yield
            return
        own = draws()
        rewind(self.common)
        yield
        self.common = draws()
        rewind(own)

    def save(self, directory: Path) -> None:
        """Write everything that determines later steps into the empty `directory`."""
        training_state.save(self, directory)

    def load(self, directory: Path) -> None:
        """Restore what `save` wrote. Raises `ModelError` if it does not fit this trainer."""
        training_state.load(self, directory)

    def _encode(self, tower: Tower, columns: Columns, made: list[BatchVectors]) -> dict[str, torch.Tensor]:
        """Encode the columns of one tower together, and likewise its keys."""
        texts: tuple[dict[str, TokenIds], dict[str, TokenIds]] = {}, {}
        for name, tokens in columns.items():
            if isinstance(tokens, TokenIds) and self.training.towers[name] == tower.name:
                texts[name in self.keys][name] = tokens
        found: dict[str, torch.Tensor] = {}
        prompts = texts_a_row(self.training, tower.name)
        for is_key, some in enumerate(texts):
            if not some:
                continue
            tokens = TokenIds.join(some.values())
            micro_batch = self.training.micro_batch
            if micro_batch is not None:
                # Number of rows in each process.
                micro_batch *= self.engine.processes.world
                if micro_batch * len(some) * prompts >= len(tokens):
                    micro_batch = None
            chunks = list(plan_chunks(tokens.lengths, len(some) * prompts, micro_batch))
            if is_key:
                vectors = self.averages[tower.name].encode(tokens, chunks)
            else:
                made.append(BatchVectors(tower, tokens, chunks, recompute=micro_batch is not None))
                vectors = made[-1].vectors
            columns_of = torch.split(vectors, [len(own) for own in some.values()])
            for name, part in zip(some, columns_of, strict=True):
                found[name] = joined(self.training, tower.name, part)
        return found

    def _predict(self, tower: Tower, columns: Columns, made: list[BatchVectors]) -> dict[str, torch.Tensor]:
        """Return the logits of the tokens that the loss has chosen in a tower's columns, and their ids."""
        found: dict[str, torch.Tensor] = {}
        for name, tokens in columns.items():
            if isinstance(tokens, TokenIds) and self.training.towers[name] == tower.name:
                corrupted = Corrupted(tokens, self.loss, self.heads[tower.name], self.training)
                held = self.training.micro_batch
                held = None if held is None or held >= len(tokens) else held
                chunks = list(plan_chunks(tokens.lengths, 1, held))
                made.append(PredictingStates(tower, corrupted, chunks, recompute=held is not None))
                found[name] = self.heads[tower.name](made[-1].vectors)
                found[f"{name}.id"] = self.engine.put(corrupted.ids)
        return found
