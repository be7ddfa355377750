"""The trainer on PyTorch: its steps, from the columns of a batch to the update of the weights, and its state."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sentbed import ModelError, RunError
from sentbed.helpers import derive
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
from torch.utils._pytree import tree_map

from sentbed_hardware._common.random_generators import (
    generator_states,
    restore_generators,
)
from sentbed_hardware._common.tensor_files import Tensors
from sentbed_hardware._torch.parameter_groups import separate
from sentbed_hardware._torch.placed_encoder import TorchEncoder
from sentbed_hardware._torch.placement import Placement
from sentbed_hardware._torch.sharding import (
    Replicas,
    mesh_of,
    replicated,
    share_of,
    whole,
)
from sentbed_hardware._torch.tower import (
    BatchVectors,
    MovingAverage,
    Texts,
    Tower,
    plan_chunks,
)
from sentbed_hardware.engine_parts.calls_in_all_processes import in_all_processes
from sentbed_hardware.engine_parts.component_output_checks import (
    learning_rate,
)
from sentbed_hardware.engine_parts.loss_learning_rates import rate_factors
from sentbed_hardware.engine_parts.process_group import Processes
from sentbed_hardware.engine_parts.state_files import (
    read_state,
    require_same_tensors,
    write_state,
)
from sentbed_hardware.engine_parts.training_checks import (
    common_width,
    key_columns,
    require_trainable,
    towers_with_keys,
)


class TorchTrainer(Trainer):
    """Trains the encoders of one stage."""

    def __init__(
        self,
        placement: Placement,
        processes: Processes,
        encoders: Mapping[str, TorchEncoder],
        training: Training,
    ) -> None:
        self.placement = placement
        self.processes = processes
        """The processes that began this stage. If one of them ends, the stage cannot go on. A later run can
        resume it."""
        self.encoders = encoders
        self.training = training
        width = common_width(encoders)

        self.towers: dict[str, Tower] = {}
        self.parameters: dict[str, nn.Parameter] = {}
        """Name -> trained parameter, of all towers and of the loss."""
        self._add_towers()

        self.key_columns = key_columns(training)
        """Names of the columns whose texts are keys: a moving average of the weights encodes them."""
        self.averages: dict[str, MovingAverage] = {}
        """Name of a tower -> the moving average that encodes its keys."""
        self.ema: dict[str, MovingAverage] = {}
        """Name of a tower -> the moving average with which the stage is evaluated."""
        self._begin_averages()

        self.loss_state: Tensors | None = None
        """State of a stateful loss, which is an input of its next step. None for a loss without state."""
        self.loss = self._built_loss(width)
        self.loss_parameters = self._trained_loss_parameters()
        """Name -> trained parameter of the loss."""
        self.parameters |= self.loss_parameters

        self.mesh = None
        if processes.sharded:
            self.mesh = mesh_of(processes)
        self.optimized = self._for_optimizer()
        """Name in `parameters` -> the parameter as the optimiser gets it; see `_for_optimizer`."""

        self.optimizer = training.optimizer.build(list(self.optimized.items()))
        factors = rate_factors(self.loss, training)
        self.rate_factors = separate(self.optimizer, self.optimized, factors)
        """Multiplier of the learning rate for each parameter group of the optimiser."""

        self.scaler = self._gradient_scaler()
        """Scales the loss in fp16, where many gradients would underflow without it; does nothing otherwise."""
        self.steps = 0
        self.batch_vectors: list[BatchVectors] = []
        """Encoded texts of the current step, whose vectors get a gradient from the loss."""
        self.loss_generators: list[Tensor] | None = None
        """States of the random generators with which the loss is computed. They are equal in all processes.
        None if there is a single process, whose loss uses torch's generators as they are."""
        self.seed = torch.initial_seed()
        self._broadcast_loss()
        self.reseed()

    def _add_towers(self) -> None:
        """Create the towers."""
        names = list(dict.fromkeys(self.training.towers.values()))
        placement = self.placement
        bf16 = placement.dtype == torch.bfloat16
        for name in names:
            encoder = self.encoders[name]
            module, backbone = encoder.module, encoder.backbone
            tower = Tower(name, module, backbone, placement, self.processes)
            require_trainable(name, len(names) == 1, module, tower.parameters, bf16)
            self.towers[name] = tower
            self.parameters |= tower.parameters

    def _gradient_scaler(self) -> torch.amp.GradScaler:
        """Return the scaler of the loss.

        Raises:
            RunError: if weights are sharded, since a process does not see that gradients of another overflowed.
        """
        enabled = self.placement.dtype == torch.float16
        if enabled and self.processes.sharded:
            raise RunError(
                'weights that are spread over processes cannot be trained in fp16; set `precision = "bf16"` or '
                '"fp32", or `parallel = "ddp"`'
            )

        return torch.amp.GradScaler(self.placement.device.type, enabled=enabled)

    def _broadcast_loss(self) -> None:
        """Copy the weights of the first process's loss to all processes."""
        tensors = [*self.loss.parameters(), *self.loss.buffers()]
        self.processes.same([value.detach() for value in tensors])

    def _begin_averages(self) -> None:
        """Create the moving averages; they start as copies of the current weights."""
        momentum = self.training.loss.momentum or 0.0
        for name in towers_with_keys(self.training):
            self.averages[name] = self.towers[name].average(momentum)

        if self.training.ema is None:
            return

        for name, tower in self.towers.items():
            self.ema[name] = tower.average(self.training.ema)

    def _for_optimizer(self) -> dict[str, nn.Parameter]:
        """Return the parameters as the optimiser gets them.

        If some are sharded, all are DTensors, since no optimiser accepts both DTensors and ordinary tensors.
        """
        optimized = dict(self.parameters)
        if self.mesh is None:
            return optimized

        for name, value in self.parameters.items():
            if not isinstance(value, DTensor):
                # The DTensor has the same memory as the parameter, so a step of the optimiser changes both.
                optimized[name] = nn.Parameter(replicated(value, self.mesh))

        return optimized

    def _built_loss(self, width: int) -> nn.Module:
        """Return the loss's module for vectors of this width, and set `loss_state` to its initial state."""
        component, device = self.training.loss, self.placement.device
        built: Any = component.build(width)
        module: nn.Module = built
        module.to(device)
        if "state" in component.needs:
            self.loss_state = {}
            for name, value in built.initial_state().items():
                self.loss_state[name] = value.to(device)

        return module

    def _trained_loss_parameters(self) -> dict[str, nn.Parameter]:
        """Return the trained parameters of the loss under the names `loss.NAME`."""
        trained = {}
        for name, parameter in self.loss.named_parameters():
            if parameter.requires_grad:
                trained[f"loss.{name}"] = parameter

        return trained

    @in_all_processes
    def step(self, columns: Columns) -> StepResult:
        """Take a training step: forward pass, loss, gradient, update of the weights.

        If the loss or the gradient is not finite, neither the weights nor the loss's state change, and the caller
        stops. In fp16, a step whose scaled gradient overflows is skipped, with 0 as the norm of its gradient.

        Raises:
            RunError: if the step does not fit into memory.
        """
        rate = learning_rate(self.training, self.steps)
        groups = self.optimizer.param_groups
        for group, factor in zip(groups, self.rate_factors, strict=True):
            group["lr"] = rate * factor

        with self.placement.fitting():
            output = self._backward(columns)

        self._sum_gradients()

        self.scaler.unscale_(self.optimizer)
        norm = self._clip_gradients()

        if torch.isfinite(norm) and torch.isfinite(output.loss):
            self._update()
            self.loss_state = output.state
            for average in (*self.averages.values(), *self.ema.values()):
                average.update()
        elif torch.isfinite(output.loss) and self.scaler.get_scale() > 1:
            norm = torch.zeros_like(norm)

        self.scaler.update()
        self._finish()
        self.steps += 1
        metrics = {}
        for name, value in output.metrics.items():
            metrics[name] = float(value)

        return StepResult(output.loss.item(), rate, float(norm), metrics)

    @in_all_processes
    def gradients(
        self, columns: Columns
    ) -> tuple[float, dict[str, NDArray[np.float32]]]:
        """Return the loss of a batch, and its gradient for each parameter by name, without taking a step."""
        output = self._backward(columns)
        self._sum_gradients()
        self.scaler.unscale_(self.optimizer)
        self.scaler.update()
        gradients = {}
        for name, parameter in self.parameters.items():
            gradient = parameter.grad
            if gradient is None:
                gradient = torch.zeros_like(parameter)
            gradients[name] = whole(gradient).float().cpu().numpy()

        self._finish()
        return output.loss.item(), gradients

    def _finish(self) -> None:
        """Drop the step's gradients and vectors, and the encoders' copies of their weights for encoding."""
        self.optimizer.zero_grad(set_to_none=True)
        for parameter in self.parameters.values():
            parameter.grad = None

        self.batch_vectors = []
        for name in self.towers:
            self.encoders[name].weights_changed()

    def _backward(self, columns: Columns) -> LossOutput:
        """Return the loss of a batch, and add its gradient to the `grad` of each parameter."""
        self.batch_vectors = []
        self.loss.train()
        inputs = self._inputs(columns)

        # Similarities must separate near neighbours, so the loss is computed in fp32, outside autocast.
        with self._same_random_numbers():
            if self.loss_state is None:
                output: LossOutput = self.loss(inputs)
            else:
                output = self.loss(inputs, self.loss_state)

        # The first call gives the vectors their gradient, the others give it to the encoders' parameters.

        loss: Any = self.scaler.scale(output.loss)
        loss.backward()
        for vectors in self.batch_vectors:
            vectors.backward()

        return output

    def _inputs(self, columns: Columns) -> dict[str, Any]:
        """Return the loss's input for each column: the vectors of a column of texts, else its values."""
        inputs: dict[str, Any] = {}
        for name, values in columns.items():
            if not isinstance(values, TokenIds):
                inputs[name] = torch.tensor(values, device=self.placement.device)

        for tower in self.towers.values():
            tower.module.train()
            for are_keys in (False, True):
                texts = self._texts_of(columns, tower.name, are_keys)
                if texts:
                    inputs |= self._encode(tower, texts, are_keys)

        # The loss gets its columns in the order of the data, however many towers there are.
        return {name: inputs[name] for name in dict.fromkeys((*columns, *inputs))}

    def _texts_of(self, columns: Columns, tower: str, are_keys: bool) -> Texts:
        """Return the texts that a tower encodes: those of keys, or all others."""
        texts: dict[str, TokenIds] = {}
        for name, tokens in columns.items():
            if not isinstance(tokens, TokenIds):
                continue
            is_key = name in self.key_columns
            if self.training.towers[name] == tower and is_key == are_keys:
                texts[name] = tokens

        return texts

    def _encode(
        self, tower: Tower, columns: Texts, are_keys: bool
    ) -> Mapping[str, Any]:
        """Encode the columns of a tower together, and return the vectors of each.

        They get a gradient, except those of keys, which the tower's moving average encodes. If the batch exceeds
        a micro-batch, passes are computed a second time for the gradient.
        """
        tokens = TokenIds.join(columns.values())
        texts_of_a_row = len(columns)
        rows = self.training.micro_batch
        if rows is not None:
            rows *= self.processes.world
            if rows * texts_of_a_row >= len(tokens):
                rows = None

        chunks = list(
            plan_chunks(tokens.lengths, texts_of_a_row, rows, tower.pass_cost)
        )
        if are_keys:
            average = self.averages[tower.name]
            return tower.encode_keys(average, tokens, chunks).by_column(columns)

        vectors = BatchVectors(tower, tokens, chunks, recompute=rows is not None)
        self.batch_vectors.append(vectors)
        return vectors.by_column(columns)

    @contextmanager
    def _same_random_numbers(self) -> Iterator[None]:
        """While active, torch's generators give the same random numbers in every process."""
        if self.loss_generators is None:
            yield
            return

        states_of_process = generator_states()
        restore_generators(self.loss_generators)
        yield
        self.loss_generators = generator_states()
        restore_generators(states_of_process)

    def _sum_gradients(self) -> None:
        """Sum the towers' gradients over the processes, since each process has those of its own rows.

        The loss is computed on all rows in every process, so the gradients of its parameters are complete.
        """
        processes = self.processes
        if processes.world == 1:
            return

        tower_parameters: list[nn.Parameter] = []
        for tower in self.towers.values():
            tower_parameters += tower.parameters.values()
            # Buffers may be batch statistics, and each process has those of its own rows.
            processes.same(list(tower.buffers.values()))

        # FSDP sums the gradients of sharded parameters in the backward pass.
        unsharded = []
        for parameter in tower_parameters:
            if not isinstance(parameter, DTensor):
                unsharded.append(parameter)

        # A parameter with a gradient in one process needs one in all, so that all sum the same tensors.
        have_gradient = [parameter.grad is not None for parameter in unsharded]
        counts = torch.tensor(have_gradient, dtype=torch.int32)
        counts = counts.to(self.placement.device)
        processes.sum([counts])
        for parameter, count in zip(unsharded, counts.tolist(), strict=True):
            if count and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)

        processes.sum(_gradients_of(unsharded))
        processes.same(_gradients_of(self.loss_parameters.values()))

    def _clip_gradients(self) -> Tensor:
        """Clip the gradients to the stage's `max_grad_norm`, and return their norm before clipping."""
        if self.mesh is not None:
            for name, parameter in self.parameters.items():
                optimized = self.optimized[name]
                if optimized is not parameter and parameter.grad is not None:
                    optimized.grad = replicated(parameter.grad, self.mesh)

        limit = self.training.max_grad_norm or math.inf
        norm = nn.utils.clip_grad_norm_(self.optimized.values(), limit)
        return whole(norm)

    def _update(self) -> None:
        """Let the optimiser change the weights."""
        replicas: AbstractContextManager[Any] = nullcontext()
        if self.mesh is not None:
            replicas = Replicas(self.mesh)
        # The first step allocates the optimiser's state.
        with self.placement.fitting(), replicas:
            self.optimizer.step()

    @in_all_processes
    def swap_average(self) -> None:
        """Exchange the encoders' trained weights with their moving averages for evaluation."""
        for name, average in self.ema.items():
            average.swap()
            self.encoders[name].weights_changed()

    def reseed(self) -> None:
        """Seed torch's generators anew if there are several processes.

        The seed of a process depends on its rank, the seed for the loss does not. Both depend on the number of
        steps taken.
        """
        processes = self.processes
        if processes.world == 1:
            return

        torch.manual_seed(derive(self.seed, "loss", self.steps))
        self.loss_generators = generator_states()
        torch.manual_seed(derive(self.seed, "process", processes.rank, self.steps))

    def save(self, directory: Path) -> None:
        """Write everything that determines later steps into `directory`, which is empty."""

        generators = self.processes.results(generator_states)

        state = self.processes.together(type(self)._state, self)
        write_state(directory, state | {"generators": generators})

    def _state(self) -> dict[str, Any]:
        """Return what determines later steps, on the host, except the states of torch's generators.

        Only the first process has the tensors.
        """
        tensors = tree_map(self._on_host, self._tensors_to_save())
        optimizer = tree_map(self._on_host, self.optimizer.state_dict())
        return {
            "steps": self.steps,
            "processes": self.processes.world,
            "tensors": tensors,
            "optimizer": optimizer,
            "scaler": self.scaler.state_dict(),
            "random": host_generator_states(),
            "loss generators": self.loss_generators,
        }

    def _on_host(self, value: Any) -> Any:
        """Return a tensor as a whole on the host of the first process; return other values as they are."""
        if not isinstance(value, Tensor):
            return value

        full = whole(value.detach())
        if not self.processes.first:
            return None

        return full.cpu()

    @in_all_processes
    def load(self, directory: Path) -> None:
        """Restore the state that `save` wrote. If it does not fit this trainer, nothing changes.

        Raises:
            ModelError: if the file cannot be read, has tensors of other names or shapes, or is of another number
                of processes.
        """

        state = read_state(directory)
        world = self.processes.world
        if state["processes"] != world:
            raise ModelError(
                f"the state in `{directory}` is of {state['processes']} processes, and this run has {world}; "
                "resume it with as many"
            )

        tensors = state["tensors"]
        require_same_tensors(tensors, self._tensors_to_save(), directory)

        with torch.no_grad():
            for name, value in self._tensors_changed_in_place().items():
                value.copy_(share_of(tensors[name], value))

        if self.loss_state is not None:
            loss_state = {}
            for name, value in self.loss_state.items():
                loss_state[name] = tensors[f"state.{name}"].clone().to(value.device)
            self.loss_state = loss_state

        self._load_optimizer(state["optimizer"])

        self.scaler.load_state_dict(state["scaler"])
        self.steps = state["steps"]
        for name in self.towers:
            self.encoders[name].weights_changed()

        # The generators come last, since the code above may draw random numbers.
        restore_host_generators(state["random"])
        restore_generators(state["generators"][self.processes.rank])
        self.loss_generators = state["loss generators"]

    def _load_optimizer(self, saved: dict[str, Any]) -> None:
        """Restore the optimiser's state; its settings stay those of the recipe, which may have been changed."""
        groups = self.optimizer.param_groups
        number = 0

        settings = []
        for group in groups:
            settings.append({key: group[key] for key in self.optimizer.defaults})
            for parameter in group["params"]:
                if number in saved["state"]:
                    placed = partial(_placed, parameter)
                    saved["state"][number] = tree_map(placed, saved["state"][number])
                number += 1

        self.optimizer.load_state_dict(saved)
        for group, of_recipe in zip(self.optimizer.param_groups, settings, strict=True):
            group.update(of_recipe)

    def _tensors_to_save(self) -> dict[str, Tensor]:
        """Return the tensors of a state, except those of the optimiser and of random generators, as
        `SECTION.NAME`."""
        tensors = self._tensors_changed_in_place()
        for name, value in (self.loss_state or {}).items():
            tensors[f"state.{name}"] = value

        return tensors

    def _tensors_changed_in_place(self) -> dict[str, Tensor]:
        """Return the tensors under the names `SECTION.NAME` that a step changes in place.

        A step also replaces the tensors of the loss's state, and changes those of the optimiser.
        """
        sections: list[tuple[str, Tensors]] = [
            ("weights", self.parameters),
            ("buffers.loss", dict(self.loss.named_buffers())),
        ]
        for tower in self.towers.values():
            sections.append(("buffers", tower.buffers))
        for average in self.averages.values():
            sections.append(("average", average.tensors))
        for average in self.ema.values():
            sections.append(("ema", average.tensors))

        changed: dict[str, Tensor] = {}
        for section, tensors in sections:
            for name, value in tensors.items():
                changed[f"{section}.{name}"] = value.detach()

        return changed


def _gradients_of(parameters: Iterable[nn.Parameter]) -> list[Tensor]:
    """Return the gradients of the parameters, leaving out parameters without a gradient."""
    gradients = []
    for parameter in parameters:
        if parameter.grad is not None:
            gradients.append(parameter.grad)

    return gradients


def _placed(parameter: Tensor, value: Any) -> Any:
    """Return a value of a parameter's state in the optimiser; a tensor in the form of the parameter."""
    if not isinstance(value, Tensor):
        return value
    if not isinstance(parameter, DTensor):
        return value.clone()
    if value.shape == parameter.shape:
        return share_of(value, parameter.detach())
    if value.ndim == 0:
        return value.clone()

    # Adafactor's moments have other shapes, and are equal in all processes; see `sharding.Replicas`.
    return replicated(value.to(parameter.device), parameter.device_mesh)
