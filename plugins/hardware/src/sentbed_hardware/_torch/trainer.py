"""Training steps on PyTorch, from the columns of a batch to the update of the weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from numpy.typing import NDArray
from sentbed.helpers import derive, fault, number, returned
from sentbed.protocols import (
    Columns,
    LossOutput,
    StepResult,
    TokenIds,
    Trainer,
    Training,
)
from sentbed_common import host_generator_states, restore_host_generators
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from sentbed_hardware._common.random_generators import (
    generator_states,
    restore_generators,
)
from sentbed_hardware._common.tensor_files import Tensors
from sentbed_hardware._torch.parameter_groups import separate
from sentbed_hardware._torch.placed_encoder import TorchEncoder
from sentbed_hardware._torch.placement import Placement, Say
from sentbed_hardware._torch.sharding import (
    Replicas,
    mesh_of,
    replicated,
    share_of,
    whole,
)
from sentbed_hardware._torch.token_prediction import Corrupted, PredictingStates
from sentbed_hardware._torch.token_vectors import BatchTokenVectors
from sentbed_hardware._torch.tower import (
    BatchVectors,
    Chunk,
    MovingAverage,
    Texts,
    Tower,
    plan_chunks,
)
from sentbed_hardware._torch.training_state import (
    RANDOM,
    numbered,
    optimizer_values,
    prefixed,
    read_by_all,
    require_fitting,
    restore_optimizer,
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
from sentbed_hardware.engine_parts.process_group import Processes
from sentbed_hardware.engine_parts.state_files import read_state, write_state
from sentbed_hardware.engine_parts.training_checks import (
    common_width,
    joined,
    keyed_towers,
    keys_of,
    refuse_predictions,
    require_trainable,
    settings_of,
    texts_a_row,
)


class TorchTrainer(Trainer):
    """One stage's optimiser over the encoders that it trains. `say` shows the user a message."""

    kept: tuple[str, ...] = ("steps",)
    """Names of the attributes that are saved besides tensors."""

    def __init__(
        self,
        placement: Placement,
        processes: Processes,
        say: Say,
        encoders: Mapping[str, TorchEncoder],
        training: Training,
    ) -> None:
        self.placement = placement
        self.processes = processes
        """The processes that began this stage; if one of them ends, the stage must be resumed."""
        self.say = say
        self.encoders = encoders
        self.training = training
        width = common_width(encoders, training)
        if processes.world > 1:
            refuse_predictions(training, f"this engine has {processes.world} processes")

        self.towers: dict[str, Tower] = {}
        self.heads: dict[str, nn.Module] = {}
        """Language-modelling heads by tower, if the loss predicts tokens."""
        self.parameters: dict[str, nn.Parameter] = {}
        """Trained parameters of all towers and of the loss, by name."""
        self._add_towers()

        self.keys = keys_of(training)
        self.averages: dict[str, MovingAverage] = {}
        """Moving averages that encode keys, by tower."""
        self.ema: dict[str, MovingAverage] = {}
        """Moving averages for evaluation, by tower."""
        self._begin_averages()

        self.state: Tensors | None = None
        """State of a stateful loss, its input in the next step."""
        self.loss = self._built_loss(width)
        self.of_loss: dict[str, nn.Parameter] = {}
        """Trained parameters of the loss."""
        for name, parameter in self.loss.named_parameters():
            if parameter.requires_grad:
                self.of_loss[f"loss.{name}"] = parameter
        self.parameters |= self.of_loss

        self.mesh = None
        if processes.sharded:
            self.mesh = mesh_of(processes)
        self.optimized = self._for_optimizer()
        """What the optimiser changes, under the names of `parameters`."""

        component = training.optimizer
        optimizer = component.build(list(self.optimized.items()))
        self.optimizer = returned(optimizer, torch.optim.Optimizer, component, "build")
        settings = settings_of(self.loss, training.loss, "loss.")
        self.rate_factors = separate(
            self.optimizer, self.optimized, settings, component
        )
        """Multiplier of the learning rate for each parameter group of the optimiser."""

        self.steps = 0
        self.batch_vectors: list[BatchVectors] = []
        """Encoded texts of the current step, on whose vectors the loss leaves its gradient."""
        self.loss_generators: list[Tensor] | None = None
        """States of the random generators for the loss, equal in all processes; None for a single process."""
        self._tensors_read: Tensors | None = None
        """Tensors of the state that `load` restores, in the process that has read them."""
        self.seed = torch.initial_seed()
        self._share_loss()
        self.reseed()

    @property
    def micro_batch(self) -> int | None:
        """Rows per process whose activations are held at a time; None for the whole batch."""
        return self.training.micro_batch

    def _add_towers(self) -> None:
        """Create the towers and, for a loss that predicts tokens, their heads."""
        names = list(dict.fromkeys(self.training.towers.values()))
        predicts = self.training.loss.traits.predicts
        placement = self.placement
        bf16 = placement.dtype == torch.bfloat16
        for name in names:
            encoder = self.encoders[name]
            module, backbone = encoder.module, encoder.backbone
            tower = Tower(
                name, module, backbone, placement, self.processes, not predicts
            )
            require_trainable(name, len(names) == 1, module, tower.parameters, bf16)
            self.towers[name] = tower
            self.parameters |= tower.parameters
            if predicts:
                self.heads[name] = backbone.prediction_head().to(placement.device)

    def _share_loss(self) -> None:
        """Give all processes the loss of the first."""
        tensors = [*self.loss.parameters(), *self.loss.buffers()]
        self.processes.same([value.detach() for value in tensors])

    def _begin_averages(self) -> None:
        """Begin the moving averages with the current weights."""
        momentum = self.training.loss.traits.momentum or 0.0
        for name in keyed_towers(self.training):
            self.averages[name] = self.towers[name].average(momentum)

        if self.training.ema is None:
            return

        for name, tower in self.towers.items():
            self.ema[name] = tower.average(self.training.ema)

    def _for_optimizer(self) -> dict[str, nn.Parameter]:
        """Return the parameters; if some are sharded, all as DTensors, since no optimiser mixes the two."""
        optimized = dict(self.parameters)
        if self.mesh is None:
            return optimized

        for name, value in self.parameters.items():
            if not isinstance(value, DTensor):
                # It shares its memory with the parameter.
                optimized[name] = nn.Parameter(replicated(value, self.mesh))

        return optimized

    def _built_loss(self, width: int) -> nn.Module:
        """Build the loss for vectors of this width, and set its first state."""
        component, device = self.training.loss, self.placement.device
        built: Any = component.build(width)
        module: nn.Module = returned(built, nn.Module, component, "build")
        module.to(device)
        if component.traits.stateful:
            initial = built.initial_state()
            self.state = {name: value.to(device) for name, value in initial.items()}

        return module

    @in_all_processes
    def step(self, columns: Columns) -> StepResult:
        """Take a training step: forward, loss, gradient, update.

        A step whose loss or gradient is not finite changes no weight and no state; the caller sees the
        numbers and stops.
        """
        rate = learning_rate(self.training, self.steps)
        groups = self.optimizer.param_groups
        for group, factor in zip(groups, self.rate_factors, strict=True):
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

        self._finish()
        self.steps += 1
        metrics = {}
        for name, value in output.metrics.items():
            metrics[name] = number(value, self.training.loss, "build")

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
            gradients[name] = whole(gradient).float().cpu().numpy()

        self._finish()
        return output.loss.item(), gradients

    def _finish(self) -> None:
        """Drop gradients and vectors of the step, and the encoders' copies of weights."""
        self.optimizer.zero_grad(set_to_none=True)
        for parameter in self.parameters.values():
            parameter.grad = None

        self.batch_vectors = []
        for name in self.towers:
            self.encoders[name].weights_changed()

    def _backward(self, columns: Columns) -> LossOutput:
        """Compute the loss and add its gradient to the parameters' gradients."""
        self.batch_vectors = []
        self.loss.train()
        inputs = self._inputs(columns)

        # Similarities must separate near neighbours, so the loss is computed in fp32, outside autocast.
        with self._drawing_as_all():
            if self.state is None:
                output: LossOutput = self.loss(inputs)
            else:
                output = self.loss(inputs, self.state)

        require_output(
            output, self.training.loss, self.state is not None, recorded=True
        )

        output.loss.backward()  # type: ignore[no-untyped-call]
        for vectors in self.batch_vectors:
            vectors.backward()

        return output

    def _inputs(self, columns: Columns) -> dict[str, Any]:
        """Return the input of the loss by column, with vectors in place of texts."""
        inputs: dict[str, Any] = {}
        texts_of_all: dict[str, TokenIds] = {}
        for name, values in columns.items():
            if isinstance(values, TokenIds):
                texts_of_all[name] = values
            else:
                inputs[name] = torch.tensor(values, device=self.placement.device)

        for tower in self.towers.values():
            tower.module.train()
            texts: dict[str, TokenIds] = {}
            keys: dict[str, TokenIds] = {}
            for name, tokens in texts_of_all.items():
                if self.training.towers[name] != tower.name:
                    continue
                if name in self.keys:
                    keys[name] = tokens
                else:
                    texts[name] = tokens

            if self.heads:
                inputs |= self._predict(tower, texts | keys)
                continue

            if texts:
                inputs |= self._encode(tower, texts)
            if keys:
                inputs |= self._encode_keys(tower, keys)

        return {name: inputs[name] for name in dict.fromkeys((*columns, *inputs))}

    @contextmanager
    def _drawing_as_all(self) -> Iterator[None]:
        """While active, every process draws the same random numbers."""
        if self.loss_generators is None:
            yield
            return

        of_this_process = generator_states()
        restore_generators(self.loss_generators)
        yield
        self.loss_generators = generator_states()
        restore_generators(of_this_process)

    def _encode(self, tower: Tower, columns: Texts) -> Mapping[str, Any]:
        """Encode columns together, with gradient; return their vectors by column."""
        tokens, chunks, recompute = self._passes(tower, columns)

        if tower.module.output == "tokens":
            of_tokens = BatchTokenVectors(tower, tokens, chunks, recompute)
            self.batch_vectors.append(of_tokens)
            return of_tokens.by_column(columns)

        batch_vectors = BatchVectors(tower, tokens, chunks, recompute)
        self.batch_vectors.append(batch_vectors)
        return self._by_column(tower, columns, batch_vectors.vectors)

    def _encode_keys(self, tower: Tower, columns: Texts) -> dict[str, Tensor]:
        """Encode columns of keys by the moving average; return their vectors by column."""
        tokens, chunks, _ = self._passes(tower, columns)
        vectors = tower.encode_keys(self.averages[tower.name], tokens, chunks)
        return self._by_column(tower, columns, vectors)

    def _passes(
        self, tower: Tower, columns: Texts
    ) -> tuple[TokenIds, list[Chunk], bool]:
        """Return all texts of the columns, the texts of each pass, and whether passes are computed twice.

        They are computed again for the gradient if the batch exceeds a micro-batch.
        """
        tokens = TokenIds.join(columns.values())
        texts_of_a_row = len(columns) * texts_a_row(self.training, tower.name)
        rows = self.micro_batch
        if rows is not None:
            rows *= self.processes.world
            if rows * texts_of_a_row >= len(tokens):
                rows = None
        chunks = plan_chunks(tokens.lengths, texts_of_a_row, rows, tower.pass_cost)
        return tokens, list(chunks), rows is not None

    def _by_column(
        self, tower: Tower, columns: Texts, vectors: Tensor
    ) -> dict[str, Tensor]:
        """Return one vector per row for each column, given the vectors of all texts."""
        counts = [len(tokens) for tokens in columns.values()]
        parts = zip(columns, torch.split(vectors, counts), strict=True)
        return {name: joined(self.training, tower.name, part) for name, part in parts}

    def _predict(self, tower: Tower, columns: Texts) -> dict[str, Tensor]:
        """Return logits and ids of the tokens that the loss has chosen in a tower's columns."""
        head = self.heads[tower.name]
        predictions: dict[str, Tensor] = {}
        for name, tokens in columns.items():
            corrupted = Corrupted(tokens, self.loss, head, self.training.loss)
            _, chunks, recompute = self._passes(tower, {name: tokens})
            states = PredictingStates(tower, corrupted, chunks, recompute)
            self.batch_vectors.append(states)
            predictions[name] = head(states.vectors)
            predictions[f"{name}.id"] = self.placement.put(corrupted.ids)

        return predictions

    def _add_up_gradients(self) -> None:
        """Sum the gradients of the towers over the processes, each of which has those of its own rows.

        The loss has seen all rows, so every process has the complete gradient of the loss's own parameters.
        It is not divided when the others are averaged.
        """
        processes = self.processes
        if processes.world == 1:
            return

        of_towers: list[nn.Parameter] = []
        for tower in self.towers.values():
            of_towers += tower.parameters.values()
            # Such as batch statistics, which each process has of its own rows.
            processes.same(list(tower.buffers.values()))

        # Sharded gradients are summed in the backward pass.
        unsharded = [value for value in of_towers if not isinstance(value, DTensor)]
        have_gradient = [parameter.grad is not None for parameter in unsharded]
        counts = torch.tensor(have_gradient, dtype=torch.int32)
        counts = counts.to(self.placement.device)
        processes.sum([counts])
        # A parameter with a gradient in one process needs one in all.
        for parameter, count in zip(unsharded, counts.tolist(), strict=True):
            if count and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)

        processes.sum(_gradients_of(unsharded))
        if processes.local_gradient:
            for gradient in _gradients_of(of_towers):
                gradient.div_(processes.world)

        processes.same(_gradients_of(self.of_loss.values()))

    def _require_gradients(self) -> None:
        """Raise `PluginError` for a trained part of an encoder that no gradient reaches."""
        reached_towers = set()
        for batch in self.batch_vectors:
            if batch.vectors.grad is not None:
                reached_towers.add(batch.tower.name)

        for name, tower in self.towers.items():
            if name not in reached_towers:
                wrong = f"built a module whose loss has no gradient for the vectors of the encoder `{name}`"
                raise fault(self.training.loss, "build", wrong)

            reached = {}
            for key, parameter in tower.parameters.items():
                reached[key.removeprefix(f"{name}.")] = parameter.grad is not None

            error = cut(name, tower.module, reached)
            if error is not None:
                raise error

    def _origin_of_fault(self, columns: Columns, output: LossOutput) -> str:
        """Return which part gave the first number of a step that is not finite; "" if unknown."""
        if self.processes.world > 1:
            return ""

        for batch in self.batch_vectors:
            not_finite = torch.nonzero(~torch.isfinite(batch.vectors).all(1))
            if len(not_finite):
                before = generator_states()
                texts = batch.texts_of(not_finite[0].cpu().numpy())
                origin = batch.tower.origin_of_nan(batch.tokens, texts)
                restore_generators(before)
                return came_from(origin or f"the encoder `{batch.tower.name}`")

        if frozen_nan(columns):
            return came_from("a frozen encoder")

        loss = named_loss(self.training.loss)
        if not torch.isfinite(output.loss):
            return came_from(f"{loss}: the vectors that it got have none")

        for batch in self.batch_vectors:
            gradient = batch.vectors.grad
            if gradient is not None and not torch.isfinite(gradient).all():
                return came_from(f"the gradient of {loss}")

        first_tower = next(iter(self.towers.values()))
        return came_from(f"the gradient of {named_parts(first_tower.module)}")

    def _clip_gradients(self) -> Tensor:
        """Clip the gradients to the stage's limit, and return their norm before."""
        if self.mesh is not None:
            for name, parameter in self.parameters.items():
                optimized = self.optimized[name]
                if optimized is not parameter and parameter.grad is not None:
                    optimized.grad = replicated(parameter.grad, self.mesh)

        limit = self.training.max_grad_norm or math.inf
        norm = nn.utils.clip_grad_norm_(self.optimized.values(), limit)
        return whole(norm)

    def _update(self) -> None:
        """Take the optimiser's step."""
        if self.mesh is None:
            self.optimizer.step()
            return

        with Replicas(self.mesh):
            self.optimizer.step()

    @in_all_processes
    def swap_average(self) -> None:
        """Exchange the encoders' trained weights with their moving average."""
        for name, average in self.ema.items():
            average.swap()
            self.encoders[name].weights_changed()

    def reseed(self) -> None:
        """Seed each process differently, by its rank and the number of steps, and the loss alike in all."""
        processes = self.processes
        if processes.world == 1:
            return

        torch.manual_seed(derive(self.seed, "loss", self.steps))
        self.loss_generators = generator_states()
        torch.manual_seed(derive(self.seed, "process", processes.rank, self.steps))

    def save(self, directory: Path) -> None:
        """Write everything that determines later steps into the empty `directory`.

        Raises:
            RunError: if the optimiser's state cannot be written to a file.
        """
        states_of_ranks = self.processes.results(generator_states)
        values, tensors = self.processes.together(type(self)._collect, self)
        for rank, states in enumerate(states_of_ranks):
            tensors |= prefixed(_random_of(rank), enumerate(states))

        tensors |= prefixed(f"{RANDOM}.loss", enumerate(self.loss_generators or []))
        plain = {name: value.detach().contiguous() for name, value in tensors.items()}
        write_state(directory, values, plain, safetensors.torch.save_file)

    def load(self, directory: Path) -> None:
        """Restore what `save` wrote; nothing changes if it does not fit.

        Raises:
            ModelError: if a file cannot be read, or names or shapes differ.
        """
        values, tensors = read_state(directory, safetensors.torch.load_file)
        require_fitting(
            values, tensors, self._held(), self.optimizer, self.optimized, directory
        )
        unread = {name: value.to("meta") for name, value in tensors.items()}
        self._tensors_read = tensors
        try:
            self.processes.together(type(self)._restore, self, values, unread)
        finally:
            self._tensors_read = None

    def _collect(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return what determines later steps, as values for JSON and as tensors.

        The states of torch's generators are left out. Sharded tensors are whole in the first process only.
        """
        tensors = self._held()
        values = optimizer_values(self.optimizer, self.optimized, tensors)

        for name, value in tensors.items():
            full = whole(value)
            if full is not value and self.processes.first:
                tensors[name] = full.cpu()

        for name in self.kept:
            values[name] = getattr(self, name)
        values["random"] = host_generator_states()
        values["processes"] = self.processes.world
        return values, tensors

    def _restore(self, values: Mapping[str, Any], unread: Tensors) -> None:
        """Restore what `save` wrote; only the first process has read the tensors."""
        # Only the first process has the tensors; the others know their shapes.
        read = partial(read_by_all, self.processes, self._tensors_read or unread)
        with torch.no_grad():
            for name, value in self._changed().items():
                value.copy_(share_of(read(name), value))

        if self.state is not None:
            state = {}
            for name in self.state:
                state[name] = read(f"state.{name}").clone().to(self.placement.device)
            self.state = state

        restore_optimizer(self.optimizer, self.optimized, values, read)
        for name in self.kept:
            setattr(self, name, values.get(name, getattr(self, name)))
        for name in self.towers:
            self.encoders[name].weights_changed()

        # Last, since the code above may draw random numbers.
        restore_host_generators(values["random"])
        generators = {}
        for name in unread:
            if name.startswith(f"{RANDOM}."):
                generators[name] = read(name).cpu()

        self._rewind(generators, values.get("processes", 1))

    def _rewind(self, generators: Tensors, processes_before: int) -> None:
        """Restore the generators, or seed them again if the state is of another number of processes."""
        world = self.processes.world
        saved = numbered(generators, _random_of(self.processes.rank))
        now = generator_states()
        if processes_before == world and len(saved) == len(now):
            restore_generators(saved)
            self.loss_generators = numbered(generators, f"{RANDOM}.loss") or None
            return

        self.reseed()
        if world == 1:
            # The saved generators may be those of more or fewer devices.
            usable = saved[: len(now)]
            restore_generators(usable + now[len(usable) :])

        if self.processes.first:
            self.say(
                f"the state's number of processes is {processes_before}, and this run's is {world}; dropout is "
                "drawn anew"
            )

    def _held(self) -> dict[str, Tensor]:
        """Return the tensors that a step changes or replaces, without the optimiser's, by section and name."""
        return self._changed() | prefixed("state", (self.state or {}).items())

    def _changed(self) -> dict[str, Tensor]:
        """Return the tensors that a step changes in place, by section and name."""
        changed: dict[str, Tensor] = {}
        changed |= prefixed("weights", self.parameters.items())
        changed |= prefixed("buffers.loss", self.loss.named_buffers())
        for tower in self.towers.values():
            changed |= prefixed("buffers", tower.buffers.items())

        for average in self.averages.values():
            changed |= prefixed("average", average.tensors.items())

        for average in self.ema.values():
            changed |= prefixed("ema", average.tensors.items())

        return {name: value.detach() for name, value in changed.items()}


def _gradients_of(parameters: Iterable[nn.Parameter]) -> list[Tensor]:
    """Return the gradients of those parameters that have one."""
    gradients = []
    for parameter in parameters:
        if parameter.grad is not None:
            gradients.append(parameter.grad)

    return gradients


def _random_of(rank: int) -> str:
    """Return the prefix of the names of a process's generator states."""
    if rank == 0:
        return RANDOM

    return f"{RANDOM}.process-{rank}"
