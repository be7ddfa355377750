"""Training steps on PyTorch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sentbed import ModelError
from sentbed.helpers import derive, fault, number, returned
from sentbed.protocols import (
    Columns,
    LossOutput,
    StepResult,
    TokenIds,
    Trainer,
    Training,
)
from sentbed_common import host_draws, rewind_host
from torch.distributed.tensor import DTensor

from sentbed_hardware._common.random_generators import draws, rewind
from sentbed_hardware._common.tensor_files import REMEDY
from sentbed_hardware._torch.engine_base import TorchEngineBase
from sentbed_hardware._torch.gradient_caching import BatchVectors
from sentbed_hardware._torch.momentum_encoder import MomentumEncoder
from sentbed_hardware._torch.parameter_groups import separate
from sentbed_hardware._torch.placed_encoder import TorchEncoder
from sentbed_hardware._torch.sharding import (
    Replicas,
    mesh_of,
    replicated,
    share_of,
    whole,
)
from sentbed_hardware._torch.token_prediction import Corrupted, PredictingStates
from sentbed_hardware._torch.token_vectors import BatchTokenVectors
from sentbed_hardware._torch.tower import Chunk, Tower, plan_chunks
from sentbed_hardware._torch.training_state import (
    TensorReader,
    joined_value,
    read_state,
    require_one_state,
    require_same_tensors,
    require_whole_optimizer,
    split_value,
    write_state,
)
from sentbed_hardware.engine_parts.calls_in_all_processes import in_all_processes
from sentbed_hardware.engine_parts.component_output_checks import (
    came_from,
    cut,
    frozen_nan,
    learning_rate,
    named_loss,
    named_parts,
    require_output,
)
from sentbed_hardware.engine_parts.training_settings import (
    common_width,
    joined,
    keyed_towers,
    keys_of,
    refuse_predictions,
    settings_of,
    texts_a_row,
)


class TorchTrainer(Trainer):
    """One stage's optimiser over the encoders that it trains.

    `parameters` are those of all towers and of the loss, by name; `averages` has the momentum encoders by
    the name of their tower, `ema` the averages for evaluation; `state` is the input of a stateful loss in
    the next step.
    """

    def __init__(
        self,
        engine: TorchEngineBase,
        encoders: Mapping[str, TorchEncoder],
        training: Training,
    ) -> None:
        self.engine = engine
        self.processes = engine.processes
        """Those that began this stage: with fewer it is not gone on with, but resumed."""
        self.training = training
        width = common_width(encoders, training)
        names = list(dict.fromkeys(training.towers.values()))
        predicts = training.loss.traits.predicts
        self.towers = {
            name: Tower(name, encoders[name], len(names) == 1, not predicts)
            for name in names
        }
        self.heads: dict[str, torch.nn.Module] = {}
        """Language-modelling heads by tower, if the loss predicts tokens."""
        if engine.processes.world > 1:
            refuse_predictions(
                training, f"this engine has {engine.processes.world} processes"
            )
        if predicts:
            for name in names:
                self.heads[name] = (
                    encoders[name].backbone.prediction_head().to(engine.device)
                )
        self.momentum = training.loss.traits.momentum
        self.keys = keys_of(training)
        self.averages = {
            name: MomentumEncoder(self.towers[name], self.momentum or 0.0)
            for name in keyed_towers(training)
        }
        self.ema = {
            name: MomentumEncoder(tower, training.ema)
            for name, tower in self.towers.items()
            if training.ema is not None
        }
        loss = returned(
            training.loss.build(width), torch.nn.Module, training.loss, "build"
        )
        self.loss = loss.to(engine.device)
        self.state: Mapping[str, torch.Tensor] | None = None
        if training.loss.traits.stateful:
            self.state = {
                name: value.to(engine.device)
                for name, value in self.loss.initial_state().items()
            }
        self.parameters: dict[str, torch.nn.Parameter] = {}
        for tower in self.towers.values():
            self.parameters |= tower.parameters
        of_loss = {
            f"loss.{name}": p
            for name, p in self.loss.named_parameters()
            if p.requires_grad
        }
        self.parameters |= of_loss
        self.of_loss = list(of_loss)
        processes = self.processes
        self.mesh = mesh_of(processes) if processes.sharded else None
        self.optimized = dict(self.parameters)
        """What the optimiser changes: the parameters, or copies of them over the mesh."""
        if self.mesh is not None:
            # An optimiser cannot mix both kinds of tensor.
            for name, value in self.parameters.items():
                if not isinstance(value, DTensor):
                    self.optimized[name] = torch.nn.Parameter(
                        replicated(value, self.mesh)
                    )
        optimizer = training.optimizer.build(list(self.optimized.items()))
        self.optimizer = returned(
            optimizer, torch.optim.Optimizer, training.optimizer, "build"
        )
        settings = settings_of(self.loss, training.loss, "loss.")
        self.rate_factors = separate(
            self.optimizer, self.optimized, settings, training.optimizer
        )
        """What the learning rate of a step is multiplied by, for each group of the optimiser."""
        self.steps = 0
        self.batch_vectors: list[BatchVectors] = []
        """Vectors of the step under way, with the loss's gradient."""
        self.common: list[torch.Tensor] | None = None
        """States of the generators of a loss, equal in all processes; None for a single process."""
        self._tensors_read: Mapping[str, torch.Tensor] | None = None
        self.seed = torch.initial_seed()
        processes.same(
            [
                value.detach()
                for value in (*self.loss.parameters(), *self.loss.buffers())
            ]
        )
        self.reseed()

    @in_all_processes
    def step(self, columns: Columns) -> StepResult:
        """Take a training step: forward, loss, gradient, update.

        A step whose loss or gradient is not finite changes no weight and no state; the caller sees the
        numbers and stops.
        """
        rate = learning_rate(self.training, self.steps)
        for group, factor in zip(
            self.optimizer.param_groups, self.rate_factors, strict=True
        ):
            group["lr"] = rate * factor
        output = self._backward(columns)
        self._add_up_gradients()
        if self.steps == 0:
            self._require_gradients()
        norm = self._clip_gradients()
        origin = ""
        if torch.isfinite(norm) and torch.isfinite(output.loss):
            self._update()
            self.state = output.state
            for average in (*self.averages.values(), *self.ema.values()):
                average.update()
        else:
            origin = self._origin_of_fault(columns, output)
        self._forget_gradients()
        self.batch_vectors = []
        for tower in self.towers.values():
            tower.encoder.weights_changed()
        self.steps += 1
        loss = self.training.loss
        metrics = {
            name: number(value, loss, "build") for name, value in output.metrics.items()
        }
        return StepResult(output.loss.item(), rate, float(norm), metrics, fault=origin)

    @in_all_processes
    def gradients(
        self, columns: Columns
    ) -> tuple[float, dict[str, NDArray[np.float32]]]:
        """Return loss and gradient of a batch by the name of each parameter; take no step."""
        output = self._backward(columns)
        self._add_up_gradients()
        gradients = {}
        for name, parameter in self.parameters.items():
            gradient = parameter.grad
            if gradient is None:
                gradient = torch.zeros_like(parameter)
            gradients[name] = whole(gradient)
        self._forget_gradients()
        for tower in self.towers.values():
            # The copy for encoding shares pooler and head, which are now in training mode.
            tower.encoder.weights_changed()
        return output.loss.item(), {
            name: value.float().cpu().numpy() for name, value in gradients.items()
        }

    def _backward(self, columns: Columns) -> LossOutput:
        """Compute the loss and add its gradient to the parameters' gradients."""
        self.loss.train()
        inputs: dict[str, Any] = {
            name: torch.tensor(values, device=self.engine.device)
            for name, values in columns.items()
            if not isinstance(values, TokenIds)
        }
        batch_vectors: list[BatchVectors] = []
        for tower in self.towers.values():
            tower.module.train()
            if self.heads:
                inputs |= self._predict(tower, columns, batch_vectors)
            else:
                inputs |= self._encode(tower, columns, batch_vectors)
        inputs = {name: inputs[name] for name in dict.fromkeys((*columns, *inputs))}
        # Similarities must separate near neighbours, so the loss is computed in fp32, outside autocast.
        arguments = (inputs,) if self.state is None else (inputs, self.state)
        with self._drawing_as_all():
            output: LossOutput = self.loss(*arguments)
        require_output(
            output, self.training.loss, self.state is not None, recorded=True
        )
        output.loss.backward()
        for vectors in batch_vectors:
            vectors.backward()
        self.batch_vectors = batch_vectors
        return output

    @contextmanager
    def _drawing_as_all(self) -> Iterator[None]:
        """Make a loss draw the same random numbers in every process."""
        if self.common is None:
            yield
            return
        of_this_process = draws()
        rewind(self.common)
        yield
        self.common = draws()
        rewind(of_this_process)

    def _encode(
        self, tower: Tower, columns: Columns, batch_vectors: list[BatchVectors]
    ) -> dict[str, Any]:
        """Encode the columns of one tower together, and likewise its keys.

        Vectors that get a gradient are added to `batch_vectors`.
        """
        texts: dict[str, TokenIds] = {}
        keys: dict[str, TokenIds] = {}
        for name, tokens in columns.items():
            if (
                isinstance(tokens, TokenIds)
                and self.training.towers[name] == tower.name
            ):
                group = keys if name in self.keys else texts
                group[name] = tokens
        vectors: dict[str, Any] = {}
        if texts:
            tokens, chunks, recompute = self._passes(tower, texts)
            if tower.module.output == "tokens":
                of_tokens = BatchTokenVectors(tower, tokens, chunks, recompute)
                batch_vectors.append(of_tokens)
                vectors |= of_tokens.by_column(texts)
            else:
                trained = BatchVectors(tower, tokens, chunks, recompute)
                batch_vectors.append(trained)
                vectors |= self._by_column(tower, texts, trained.vectors)
        if keys:
            tokens, chunks, _ = self._passes(tower, keys)
            vectors |= self._by_column(
                tower, keys, self.averages[tower.name].encode(tokens, chunks)
            )
        return vectors

    def _passes(
        self, tower: Tower, columns: Mapping[str, TokenIds]
    ) -> tuple[TokenIds, list[Chunk], bool]:
        """Return the texts of columns together, those of each pass, and whether a pass is repeated.

        It is, for its gradient, where the texts are more than the micro-batch.
        """
        tokens = TokenIds.join(columns.values())
        texts_of_a_row = len(columns) * texts_a_row(self.training, tower.name)
        micro_batch = self.training.micro_batch
        if micro_batch is not None:
            # Number of rows in each process.
            micro_batch *= self.processes.world
            if micro_batch * texts_of_a_row >= len(tokens):
                micro_batch = None
        pass_cost = tower.encoder.backbone.training_pass_cost
        chunks = list(
            plan_chunks(tokens.lengths, texts_of_a_row, micro_batch, pass_cost)
        )
        return tokens, chunks, micro_batch is not None

    def _by_column(
        self, tower: Tower, columns: Mapping[str, TokenIds], vectors: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """Return the vectors of each column, one a row, given those of all texts."""
        counts = [len(tokens) for tokens in columns.values()]
        parts = zip(columns, torch.split(vectors, counts), strict=True)
        return {name: joined(self.training, tower.name, part) for name, part in parts}

    def _predict(
        self, tower: Tower, columns: Columns, batch_vectors: list[BatchVectors]
    ) -> dict[str, torch.Tensor]:
        """Return the logits of the tokens that the loss has chosen in a tower's columns, and their ids.

        The states that predict them are added to `batch_vectors`.
        """
        head = self.heads[tower.name]
        predictions: dict[str, torch.Tensor] = {}
        for name, tokens in columns.items():
            if (
                not isinstance(tokens, TokenIds)
                or self.training.towers[name] != tower.name
            ):
                continue
            micro_batch = self.training.micro_batch
            if micro_batch is not None and micro_batch >= len(tokens):
                micro_batch = None
            corrupted = Corrupted(tokens, self.loss, head, self.training)
            chunks = list(plan_chunks(tokens.lengths, 1, micro_batch))
            states = PredictingStates(
                tower, corrupted, chunks, recompute=micro_batch is not None
            )
            batch_vectors.append(states)
            predictions[name] = head(states.vectors)
            predictions[f"{name}.id"] = tower.put(corrupted.ids)
        return predictions

    def _add_up_gradients(self) -> None:
        """Sum the processes' gradients of their own rows.

        The loss has seen all rows, so the gradients of its own parameters are complete. They are not divided
        when others are averaged, as in a module under DDP, where each process has the complete gradient.
        """
        processes = self.processes
        if processes.world == 1:
            return
        of_loss = [p for name, p in self.parameters.items() if name in self.of_loss]
        of_towers = [
            p for name, p in self.parameters.items() if name not in self.of_loss
        ]
        # Sharded gradients are summed in the backward pass.
        unsharded = [
            parameter for parameter in of_towers if not isinstance(parameter, DTensor)
        ]
        used_here = [parameter.grad is not None for parameter in unsharded]
        used_anywhere = processes.highest(used_here)
        # A parameter with a gradient in one process needs one in all.
        for parameter, used in zip(unsharded, used_anywhere, strict=True):
            if used and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        processes.sum(
            [parameter.grad for parameter in unsharded if parameter.grad is not None]
        )
        if processes.local_gradient:
            for parameter in of_towers:
                if parameter.grad is not None:
                    parameter.grad.div_(processes.world)
        processes.same(
            [parameter.grad for parameter in of_loss if parameter.grad is not None]
        )
        # Batch statistics, for example: each process has those of its own rows.
        processes.same(
            [
                value
                for tower in self.towers.values()
                for value in tower.buffers.values()
            ]
        )

    def _require_gradients(self) -> None:
        """Raise `PluginError` for a trained part of an encoder that no gradient reaches."""
        for name, tower in self.towers.items():
            of_tower = [
                vectors for vectors in self.batch_vectors if vectors.tower is tower
            ]
            if all(vectors.vectors.grad is None for vectors in of_tower):
                wrong = f"built a module whose loss has no gradient for the vectors of the encoder `{name}`"
                raise fault(self.training.loss, "build", wrong)
            reached = {}
            for key, parameter in tower.parameters.items():
                reached[key.removeprefix(f"{name}.")] = parameter.grad is not None
            if (error := cut(name, tower.module, reached)) is not None:
                raise error

    def _origin_of_fault(self, columns: Columns, output: LossOutput) -> str:
        """Return what gave the first number that is not finite in a step; "" if that cannot be told."""
        if self.processes.world > 1:
            return ""
        for batch in self.batch_vectors:
            bad = (
                torch.flatten(torch.nonzero(~torch.isfinite(batch.vectors).all(1)))[:1]
                .cpu()
                .numpy()
            )
            if len(bad):
                before = draws()
                origin = batch.tower.origin_of_nan(batch.tokens, batch.texts_of(bad))
                rewind(before)
                return came_from(origin or f"the encoder `{batch.tower.name}`")
        loss = named_loss(self.training.loss)
        if frozen_nan(columns):
            return came_from("a frozen encoder")
        if not torch.isfinite(output.loss):
            return came_from(f"{loss}: the vectors that it got have none")
        gradients = [batch.vectors.grad for batch in self.batch_vectors]
        if not all(
            torch.isfinite(gradient).all()
            for gradient in gradients
            if gradient is not None
        ):
            return came_from(f"the gradient of {loss}")
        return came_from(
            f"the gradient of {named_parts(next(iter(self.towers.values())).module)}"
        )

    def _clip_gradients(self) -> torch.Tensor:
        """Clip the gradients to the stage's limit, and return their norm before."""
        limit = self.training.max_grad_norm or math.inf
        if self.mesh is not None:
            for name, parameter in self.parameters.items():
                optimized = self.optimized[name]
                if optimized is not parameter and parameter.grad is not None:
                    optimized.grad = replicated(parameter.grad, self.mesh)
        norm = torch.nn.utils.clip_grad_norm_(self.optimized.values(), limit)
        return whole(norm)

    def _update(self) -> None:
        """Take the optimiser's step."""
        if self.mesh is None:
            self.optimizer.step()
            return
        with Replicas(self.mesh):
            self.optimizer.step()

    def _forget_gradients(self) -> None:
        """Drop all gradients."""
        self.optimizer.zero_grad(set_to_none=True)
        for parameter in self.parameters.values():
            parameter.grad = None

    @in_all_processes
    def swap_average(self) -> None:
        """Exchange the encoders' trained weights with their moving average."""
        for name, average in self.ema.items():
            average.swap()
            self.towers[name].encoder.weights_changed()

    def reseed(self) -> None:
        """Seed each process differently, by the number of steps; a loss draws the same in all."""
        processes = self.processes
        if processes.world == 1:
            return
        torch.manual_seed(derive(self.seed, "loss", self.steps))
        self.common = draws()
        torch.manual_seed(derive(self.seed, "process", processes.rank, self.steps))

    def save(self, directory: Path) -> None:
        """Write everything that determines later steps into the empty `directory`.

        Raises:
            RunError: if the optimiser's state can be written into no file.
        """
        drawn = self.processes.results(TorchTrainer._drawn, self)
        values, tensors = self.processes.together(TorchTrainer._collect, self)
        for rank, (of_process, common) in enumerate(drawn):
            start = "random" if rank == 0 else f"random.process-{rank}"
            tensors |= _by_number(of_process, start)
            if rank == 0:
                tensors |= _by_number(common or [], "random.loss")
        values["tensors"] = sorted(tensors)
        write_state(directory, values, tensors)

    def load(self, directory: Path) -> None:
        """Restore what `save` wrote; nothing changes if it does not fit.

        Raises:
            ModelError: if a file cannot be read, or names or shapes differ.
        """
        values, tensors = read_state(directory)
        require_same_tensors(
            tensors, self._changed_tensors() | self._replaced_tensors(), directory
        )
        require_one_state(values, tensors, directory)
        saved_name, saved_groups = values["optimizer"], values["groups"]
        name, groups = type(self.optimizer).__name__, self._groups()
        if (saved_name, saved_groups) != (name, groups):
            raise ModelError(
                f"`{directory}` holds the state of the optimiser {saved_name} over groups of "
                f"{[len(group) for group in saved_groups]} parameters, the recipe has {name} over "
                f"{[len(group) for group in groups]}; {REMEDY}"
            )
        require_whole_optimizer(values, tensors, directory)
        shapes = {
            name: (tuple(value.shape), value.dtype) for name, value in tensors.items()
        }
        self._tensors_read = tensors
        try:
            self.processes.together(TorchTrainer._restore, self, values, shapes)
        finally:
            self._tensors_read = None

    def _drawn(self) -> tuple[list[torch.Tensor], list[torch.Tensor] | None]:
        """Return the states of this process's generators, and of those of a loss."""
        return draws(), self.common

    def _collect(self) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
        """Return what determines later steps besides the generators, in the first process.

        Values for JSON, and tensors.
        """
        processes = self.processes
        tensors = self._changed_tensors() | self._replaced_tensors()
        optimizer = self.optimizer
        states = {
            name: split_value(optimizer.state[parameter], f"optimizer.{name}", tensors)
            for name, parameter in self.optimized.items()
            if parameter in optimizer.state
        }
        settings = []
        for number_of_group, group in enumerate(optimizer.param_groups):
            values_of_group = {
                key: value for key, value in group.items() if key != "params"
            }
            settings.append(
                split_value(values_of_group, f"group.{number_of_group}", tensors)
            )
        for name, value in tensors.items():
            if isinstance(value, DTensor):
                full = whole(value)
                tensors[name] = full.cpu() if processes.first else full.new_empty(0)
        values = {
            "steps": self.steps,
            "optimizer": type(optimizer).__name__,
            "groups": self._groups(),
            "settings": settings,
            "states": states,
            "random": host_draws(),
            "processes": processes.world,
        }
        return values, tensors

    def _restore(
        self,
        values: Mapping[str, Any],
        shapes: Mapping[str, tuple[tuple[int, ...], torch.dtype]],
    ) -> None:
        """Restore what `save` wrote; only the first process has read the tensors."""
        read = TensorReader(self.processes, shapes, self._tensors_read)
        with torch.no_grad():
            for name, value in self._changed_tensors().items():
                value.copy_(share_of(read(name), value))
        if self.state is not None:
            device = self.engine.device
            self.state = {
                name: read(f"state.{name}").clone().to(device) for name in self.state
            }
        optimizer = self.optimizer
        optimizer.state.clear()
        for name, state in values["states"].items():
            parameter = self.optimized[name]
            optimizer.state[parameter] = joined_value(state, read, parameter)
        for group, settings in zip(
            optimizer.param_groups, values["settings"], strict=True
        ):
            # Values set by the recipe may have changed since.
            kept = joined_value(settings, read, group["params"][0])
            group.update(
                {
                    key: value
                    for key, value in kept.items()
                    if key not in optimizer.defaults
                }
            )
        self.steps = values["steps"]
        for tower in self.towers.values():
            tower.encoder.weights_changed()
        # Last, since the code above may have drawn random numbers.
        rewind_host(values["random"])
        drawn = {name: read(name) for name in shapes if name.startswith("random.")}
        self._rewind(drawn, values.get("processes", 1))

    def _rewind(self, drawn: Mapping[str, torch.Tensor], processes_before: int) -> None:
        """Restore every process's generators; for a state of another number of processes, seed them again."""
        processes = self.processes
        start = "random" if processes.first else f"random.process-{processes.rank}"
        saved = _numbered(drawn, start)
        common = _numbered(drawn, "random.loss")
        if processes_before == processes.world and len(saved) == len(draws()):
            rewind(saved)
            self.common = common or None
            return
        self.reseed()
        if processes.world == 1:
            rewind([*saved, *draws()[len(saved) :]][: len(draws())])
        if processes.first:
            before = (
                "1 process"
                if processes_before == 1
                else f"{processes_before} processes"
            )
            now = "is 1" if processes.world == 1 else f"are {processes.world}"
            self.engine.say(
                f"the state is of {before}, and there {now}; dropout is drawn anew"
            )

    def _changed_tensors(self) -> dict[str, torch.Tensor]:
        """Return the tensors that a step changes in place, by section and name."""
        changed = {
            f"weights.{name}": parameter.detach()
            for name, parameter in self.parameters.items()
        }
        for tower in self.towers.values():
            changed |= {
                f"buffers.{name}": value for name, value in tower.buffers.items()
            }
        changed |= {
            f"buffers.loss.{name}": value for name, value in self.loss.named_buffers()
        }
        for average in self.averages.values():
            changed |= {
                f"average.{name}": value for name, value in average.tensors.items()
            }
        for average in self.ema.values():
            changed |= {f"ema.{name}": value for name, value in average.tensors.items()}
        return changed

    def _replaced_tensors(self) -> dict[str, torch.Tensor]:
        """Return the tensors that a step replaces by new ones."""
        return {f"state.{name}": value for name, value in (self.state or {}).items()}

    def _groups(self) -> list[list[str]]:
        """Return the names of the parameters of each group of the optimiser."""
        names = {id(parameter): name for name, parameter in self.optimized.items()}
        return [
            [names[id(p)] for p in group["params"]]
            for group in self.optimizer.param_groups
        ]


def _by_number(values: Sequence[torch.Tensor], start: str) -> dict[str, torch.Tensor]:
    """Return tensors under the names `START.0`, `START.1` and so on."""
    return {f"{start}.{number}": value for number, value in enumerate(values)}


def _numbered(tensors: Mapping[str, torch.Tensor], start: str) -> list[torch.Tensor]:
    """Return the tensors `START.0`, `START.1` and so on."""
    numbered: list[torch.Tensor] = []
    while (name := f"{start}.{len(numbered)}") in tensors:
        numbered.append(tensors[name])
    return numbered
