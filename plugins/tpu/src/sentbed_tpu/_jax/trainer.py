"""The trainer on JAX: a step is one compiled function, from the columns of a batch to the new weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
from jax.interpreters import partial_eval
from numpy.typing import NDArray
from sentbed.helpers import pad
from sentbed.protocols import Columns, Module, StepResult, TokenIds, Trainer, Training
from sentbed_common import host_generator_states, restore_host_generators
from sentbed_hardware.engine_parts.component_output_checks import learning_rate
from sentbed_hardware.engine_parts.loss_learning_rates import rate_factors
from sentbed_hardware.engine_parts.state_files import (
    read_state,
    require_same_tensors,
    write_state,
)
from sentbed_hardware.engine_parts.training_checks import (
    key_columns,
    require_trainable,
    towers_with_keys,
)

from sentbed_tpu._jax.devices import JaxDevices
from sentbed_tpu._jax.encoder import JaxEncoder
from sentbed_tpu._jax.mesh import put_wide
from sentbed_tpu._jax.optax_optimizers import optax_form
from sentbed_tpu._jax.pure_functions import (
    Arrays,
    Batch,
    FunctionalLoss,
    Mode,
    host_arrays,
)

LOSS = "loss"
"""Prefix of the names of the loss's weights; those of an encoder have its name."""
KEYS, EMA = "keys", "ema"
"""Names of the moving averages that encode keys, and with which a stage is evaluated."""
CLIPPING_EPSILON = 1e-6
"""Added to the norm of the gradient before dividing by it, as `torch.nn.utils.clip_grad_norm_` does."""


STATIC = {"static": True}
"""Mark of a field that a compiled step does not take as an array: a step is compiled for each of its values."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Texts:
    """The columns of texts of a step that an encoder encodes together."""

    encoder: str = field(metadata=STATIC)
    are_keys: bool = field(metadata=STATIC)
    """Whether a moving average of the weights encodes them, without gradient."""
    sizes: tuple[tuple[str, int], ...] = field(metadata=STATIC)
    """Name and number of texts of each column. Rows of padding follow the last one."""
    batch: Batch
    """The texts on the devices, with the axes `(passes, rows, length)`."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Inputs:
    """The batch of a step on the devices."""

    order: tuple[str, ...] = field(metadata=STATIC)
    """Names of all columns, in the order in which the loss gets them."""
    texts: tuple[_Texts, ...]
    values: Arrays
    """The columns of numbers and of vectors of frozen encoders."""


class _State(NamedTuple):
    """The arrays that a step changes. The names of the fields are part of the names in saved states."""

    weights: Arrays
    """Trained weights of encoders and loss, under the names of `Trainer.gradients`."""
    optimizer: Any
    """State of the optimiser, a tree of arrays of optax."""
    averages: dict[str, Arrays]
    """`KEYS` and `EMA` -> moving averages of weights, under their names."""
    loss: Arrays | None
    """State of the loss; None if it has no state."""


class JaxTrainer(Trainer):
    """Trains the encoders of one stage on JAX; see `TorchTrainer` for the trainer on PyTorch."""

    def __init__(
        self,
        devices: JaxDevices,
        key: jax.Array,
        encoders: Mapping[str, JaxEncoder],
        training: Training,
        loss: Module,
    ) -> None:
        self.devices = devices
        self.training = training
        names = list(dict.fromkeys(training.towers.values()))
        self.encoders = {name: encoders[name] for name in names}
        self.key_columns = key_columns(training)
        """Names of the columns whose texts are keys."""
        self.loss = FunctionalLoss(loss)
        self.rate_factors = rate_factors(loss, training)
        """Name of a parameter of the loss with a learning rate of its own -> its multiplier."""

        layout = devices.layout
        weights: Arrays = {}
        self.fixed: Arrays = {}
        """Weights that are not trained, and buffers, under the names of `Trainer.gradients`."""
        for name, encoder in self.encoders.items():
            trained = encoder.function.trained()
            require_trainable(
                name, len(names) == 1, encoder.module, trained, devices.bf16
            )
            for part, value in encoder.weights.items():
                if part in trained:
                    weights[f"{name}.{part}"] = value
                else:
                    self.fixed[f"{name}.{part}"] = value

        loss_weights, loss_buffers = self.loss.weights()
        weights |= _prefixed(LOSS, layout.put(loss_weights))
        self.fixed |= _prefixed(LOSS, layout.put(loss_buffers))

        self.decays = _decays(training)
        """Name of a moving average -> its decay."""
        averages = {}
        for name in self.decays:
            averages[name] = jax.tree.map(jnp.copy, weights)

        state: Arrays | None = None
        if "state" in training.loss.needs:
            state = {}
            for name, initial in host_arrays(loss.initial_state()).items():
                state[name] = put_wide(initial, layout.whole)

        shapes = {name: value.shape for name, value in weights.items()}
        self.transform = optax_form(training.optimizer, shapes)
        optimizer = jax.eval_shape(self.transform.init, weights)
        shardings = jax.tree.map(lambda value: layout.weight(value.shape), optimizer)

        optimizer = jax.jit(self.transform.init, out_shardings=shardings)(weights)
        self.state = _State(weights, optimizer, averages, state)

        self.unreached: frozenset[str] | None = None
        """Names of the weights on which the loss does not depend, which a step leaves as they are; None before
        the first step."""
        self.steps = 0
        self.key = jax.random.fold_in(key, 1)

        self._loss_and_gradients = jax.value_and_grad(self._loss_of, has_aux=True)
        self._compiled_gradients = jax.jit(self._loss_and_gradients)
        self._compiled_step = jax.jit(self._step, donate_argnums=(0,))

    def step(self, columns: Columns) -> StepResult:
        """Take a training step. If the loss or the gradient is not finite, no weight and no state changes."""
        rate = learning_rate(self.training, self.steps)
        inputs = self._place(columns)
        key = self._next_key()
        if self.unreached is None:
            self.unreached = self._unreached_weights(inputs, key)

        self.state, loss, norm, metrics = self._compiled_step(
            self.state, self.fixed, inputs, key, np.float32(rate)
        )

        self._give_weights()
        self.steps += 1
        numbers = {name: float(value) for name, value in metrics.items()}
        return StepResult(float(loss), rate, float(norm), numbers)

    def gradients(
        self, columns: Columns
    ) -> tuple[float, dict[str, NDArray[np.float32]]]:
        """Return the loss of a batch, and its gradient for each parameter by name, without taking a step."""
        inputs = self._place(columns)
        (loss, _), gradients = self._compiled_gradients(
            self.state.weights, self.state, self.fixed, inputs, self._next_key()
        )
        return float(loss), jax.device_get(gradients)

    def swap_average(self) -> None:
        """Exchange the encoders' trained weights with their moving averages for evaluation."""
        weights, average = self.state.weights, self.state.averages[EMA]
        averages = self.state.averages | {EMA: weights}
        self.state = self.state._replace(weights=average, averages=averages)
        self._give_weights()

    def _give_weights(self) -> None:
        """Give each encoder its trained weights."""
        for name, encoder in self.encoders.items():
            encoder.weights |= _part(self.state.weights, name)

    def _next_key(self) -> jax.Array:
        """Return the random key of the next step."""
        self.key, split = jax.random.split(self.key)
        key: jax.Array = split
        return key

    def _place(self, columns: Columns) -> _Inputs:
        """Put a batch on the devices, padded to a shape."""
        values: Arrays = {}
        together: dict[tuple[str, bool], dict[str, TokenIds]] = {}
        for column, content in columns.items():
            if isinstance(content, TokenIds):
                place = self.training.towers[column], column in self.key_columns
                together.setdefault(place, {})[column] = content
            else:
                values[column] = put_wide(content, self.devices.layout.whole)

        all_texts = []
        for (name, are_keys), texts in together.items():
            sizes = tuple((column, len(tokens)) for column, tokens in texts.items())
            batch = self._padded(self.encoders[name], texts)
            all_texts.append(_Texts(name, are_keys, sizes, batch))

        return _Inputs(tuple(columns), tuple(all_texts), values)

    def _padded(self, encoder: JaxEncoder, texts: Mapping[str, TokenIds]) -> Batch:
        """Return all texts as a batch on the devices, `(passes, rows, length)`.

        There is one pass, unless the stage has a `micro_batch`. Each device has an equal share of the rows of a
        pass.
        """
        tokens = TokenIds.join(texts.values())
        count = len(tokens)
        passes = 1
        if self.training.micro_batch is not None:
            devices = self.devices.layout.mesh.size
            texts_of_pass = self.training.micro_batch * devices * len(texts)
            passes = math.ceil(count / texts_of_pass)

        buckets = self.devices.buckets
        rows = buckets.rows_in_training(math.ceil(count / passes))
        length = buckets.length(int(tokens.lengths.max()), encoder.longest)

        padded = pad(tokens, np.arange(count), encoder.pad_id)
        batch = padded.widened(passes * rows, length, encoder.pad_id)
        return encoder.place(batch, passes)

    def _loss_of(
        self,
        weights: Arrays,
        state: _State,
        fixed: Arrays,
        inputs: _Inputs,
        key: jax.Array,
    ) -> tuple[jax.Array, tuple[Arrays, Arrays | None]]:
        """Return the loss, and the pair of its metrics and its next state."""
        by_column = dict(inputs.values)
        for number, texts in enumerate(inputs.texts):
            encoding_weights = weights
            if texts.are_keys:
                encoding_weights = state.averages[KEYS]

            key_of_texts = jax.random.fold_in(key, number)
            by_column |= self._vectors(texts, encoding_weights, fixed, key_of_texts)

        ordered = {name: by_column[name] for name in inputs.order}
        loss_weights = _part(weights, LOSS)
        loss_buffers = _part(fixed, LOSS)
        key_of_loss = jax.random.fold_in(key, len(inputs.texts))
        numbers = jax.random.key_data(key_of_loss)
        return self.loss(loss_weights, loss_buffers, ordered, state.loss, numbers)

    def _vectors(
        self,
        texts: _Texts,
        weights: Arrays,
        fixed: Arrays,
        key: jax.Array,
    ) -> Arrays:
        """Return the vectors `(texts, width)` of each column."""
        function = self.encoders[texts.encoder].function
        of_encoder = _part(fixed, texts.encoder)
        of_encoder |= _part(weights, texts.encoder)
        mode: Mode = "train"
        if texts.are_keys:
            mode = "key"

        def encode(batch_and_key: tuple[Batch, jax.Array]) -> jax.Array:
            return function(of_encoder, *batch_and_key, mode)

        batch = texts.batch
        passes = len(batch[0])
        keys = jax.random.key_data(jax.random.split(key, passes))
        if passes == 1:
            first = jax.tree.map(lambda array: array[0], batch)
            vectors = encode((first, keys[0]))
        else:
            # The activations of a pass are dropped, and computed again for the gradient.
            vectors = jax.lax.map(jax.checkpoint(encode), (batch, keys))

        width = vectors.shape[-1]
        vectors = vectors.reshape(-1, width)
        vectors = jax.lax.with_sharding_constraint(vectors, self.devices.layout.whole)

        by_column = {}
        start = 0
        for column, size in texts.sizes:
            by_column[column] = vectors[start : start + size]
            start += size

        return by_column

    def _step(
        self,
        before: _State,
        fixed: Arrays,
        inputs: _Inputs,
        key: jax.Array,
        rate: jax.Array,
    ) -> tuple[_State, jax.Array, jax.Array, Arrays]:
        """Return the new state, the loss, the norm of the gradient, and the metrics."""
        (loss, (metrics, loss_state)), gradients = self._loss_and_gradients(
            before.weights, before, fixed, inputs, key
        )
        norm = optax.tree.norm(gradients)
        scale: Any = 1.0
        if self.training.max_grad_norm:
            limit = self.training.max_grad_norm
            scale = jnp.minimum(1.0, limit / (norm + CLIPPING_EPSILON))

        clipped = jax.tree.map(lambda gradient: gradient * scale, gradients)
        updates, optimizer = self.transform.update(
            clipped, before.optimizer, before.weights
        )

        weights = {}
        for name, old in before.weights.items():
            weights[name] = old
            # As in torch, a weight without a gradient does not decay.
            if name not in (self.unreached or ()):
                factor = self.rate_factors.get(name, 1.0)
                weights[name] = old - rate * factor * updates[name]

        averages: dict[str, Arrays] = {}
        for kind, average in before.averages.items():
            decay = self.decays[kind]
            averages[kind] = {}
            for name, old in average.items():
                averages[kind][name] = decay * old + (1 - decay) * weights[name]

        is_finite = jnp.isfinite(norm) & jnp.isfinite(loss)
        # The loss's state keeps its integers of 64 bits; see `put_wide`.
        with jax.enable_x64(True):
            new = jax.tree.map(
                lambda new, old: jnp.where(is_finite, new, old),
                _State(weights, optimizer, averages, loss_state),
                before,
            )

        layout = self.devices.layout
        shardings = jax.tree.map(lambda value: layout.weight(value.shape), new)
        whole = jax.tree.map(lambda _: layout.whole, new.loss)
        shardings = shardings._replace(loss=whole)
        return jax.lax.with_sharding_constraint(new, shardings), loss, norm, metrics

    def _unreached_weights(self, inputs: _Inputs, key: jax.Array) -> frozenset[str]:
        """Return the names of the weights on which the loss does not depend.

        Their gradients are zeros here. In torch they have none, and an optimiser leaves them as they are.
        """

        def loss(weights: Arrays) -> jax.Array:
            return self._loss_of(weights, self.state, self.fixed, inputs, key)[0]

        weights = self.state.weights
        program = jax.make_jaxpr(loss)(weights)
        _, are_used = partial_eval.dce_jaxpr(program.jaxpr, [True])

        # JAX sorts the leaves of a dictionary by their names.
        unused = set()
        for name, is_used in zip(sorted(weights), are_used, strict=True):
            if not is_used:
                unused.add(name)

        return frozenset(unused)

    def save(self, directory: Path) -> None:
        """Write everything that determines later steps into `directory`, which is empty."""
        tensors = {}
        for name, array in self.state_by_name().items():
            tensors[name] = torch.from_numpy(np.array(array))

        values = {"steps": self.steps, "random": host_generator_states()}
        write_state(directory, {**values, "tensors": tensors})

    def load(self, directory: Path) -> None:
        """Restore the state that `save` wrote.

        Raises:
            ModelError: if the file cannot be read, or the state does not fit this trainer.
        """
        state = read_state(directory)
        tensors = state["tensors"]
        expected = self.state_by_name()
        require_same_tensors(tensors, expected, directory)

        placed = []
        for name, value in expected.items():
            placed.append(put_wide(tensors[name].numpy(), value.sharding))

        structure = jax.tree.structure(self._tree())
        self.state, key = jax.tree.unflatten(structure, placed)
        # A key that lay on devices could not be used beside arrays on others.
        self.key = jax.random.wrap_key_data(jnp.asarray(np.asarray(key)))
        self._give_weights()

        self.steps = state["steps"]
        restore_host_generators(state["random"])

    def _tree(self) -> tuple[_State, jax.Array]:
        """Return all arrays that determine later steps: the state, and the numbers of the random key."""
        return self.state, jax.random.key_data(self.key)

    def state_by_name(self) -> dict[str, jax.Array]:
        """Return the arrays of `_tree`, each under its path in the tree."""
        leaves, _ = jax.tree_util.tree_flatten_with_path(self._tree())
        by_name = {}
        for path, value in leaves:
            by_name[jax.tree_util.keystr(path, simple=True, separator="/")] = value

        return by_name


def _decays(training: Training) -> dict[str, float]:
    """Return the decays of the moving averages that a stage has."""
    decays = {}
    if towers_with_keys(training):
        decays[KEYS] = training.loss.momentum or 0.0
    if training.ema is not None:
        decays[EMA] = training.ema

    return decays


def _prefixed(prefix: str, arrays: Arrays) -> Arrays:
    """Return arrays under the names `PREFIX.NAME`."""
    prefixed = {}
    for name, value in arrays.items():
        prefixed[f"{prefix}.{name}"] = value

    return prefixed


def _part(arrays: Arrays, prefix: str) -> Arrays:
    """Return the arrays with names `PREFIX.NAME`, under the name `NAME`."""
    start = f"{prefix}."
    part = {}
    for name, value in arrays.items():
        if name.startswith(start):
            part[name.removeprefix(start)] = value

    return part
