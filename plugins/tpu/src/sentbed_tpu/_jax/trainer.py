"""The trainer on JAX: a step is one compiled function, from the columns of a batch to the new weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import attrs
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
from sentbed_hardware.engine_parts.component_output_checks import (
    learning_rate,
)
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


@attrs.frozen
class _Texts:
    """The columns of texts of a step that an encoder encodes together."""

    encoder: str
    are_keys: bool
    """Whether a moving average of the weights encodes them, without gradient."""
    sizes: tuple[tuple[str, int], ...]
    """Name and number of texts of each column. Rows of padding follow the last one."""


class _Inputs(NamedTuple):
    """The batch of a step on the devices."""

    texts: tuple[Batch, ...]
    """For each `_Texts`, a batch with the axes `(passes, rows, length)`."""
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
            averages[name] = _copies(weights)

        state: Arrays | None = None
        if "state" in training.loss.needs:
            state = {}
            for name, initial in host_arrays(loss.initial_state()).items():
                state[name] = layout.place_wide(initial, layout.whole)

        shapes = {name: value.shape for name, value in weights.items()}
        self.transform = optax_form(training.optimizer, shapes)
        optimizer = jax.eval_shape(self.transform.init, weights)
        shardings = jax.tree.map(lambda value: layout.weight(value.shape), optimizer)

        jit = devices.compiled.jit
        optimizer = jit(self.transform.init, out_shardings=shardings)(weights)
        self.state = _State(weights, optimizer, averages, state)

        self.unreached: frozenset[str] | None = None
        """Names of the weights on which the loss does not depend, which a step leaves as they are; None before
        the first step."""
        self.steps = 0
        self.key = jax.random.fold_in(key, 1)

        static: dict[str, Any] = {
            "static_argnames": ("plan", "order"),
            "counted": True,
        }
        self._gradients = jit(self._loss_and_gradients, **static)
        self._compiled_step = jit(self._step, donate_argnums=(0,), **static)

    def step(self, columns: Columns) -> StepResult:
        """Take a training step. If the loss or the gradient is not finite, no weight and no state changes."""
        rate = learning_rate(self.training, self.steps)
        plan, inputs = self._place(columns)

        key = self._next_key()
        static = {"plan": plan, "order": tuple(columns)}
        if self.unreached is None:
            self.unreached = self._unreached_weights(inputs, key, **static)

        self.state, loss, norm, metrics = self._compiled_step(
            self.state, self.fixed, inputs, key, np.float32(rate), **static
        )

        self._give_weights()
        self.steps += 1
        loss, norm = float(loss), float(norm)

        numbers = {name: float(value) for name, value in metrics.items()}
        numbers["compiled_shapes"] = float(self.devices.compiled.shapes)
        return StepResult(loss, rate, norm, numbers)

    def gradients(
        self, columns: Columns
    ) -> tuple[float, dict[str, NDArray[np.float32]]]:
        """Return the loss of a batch, and its gradient for each parameter by name, without taking a step."""

        plan, inputs = self._place(columns)
        state, key = self.state, self._next_key()

        static = {"plan": plan, "order": tuple(columns)}
        (loss, _), gradients = self._gradients(
            state.weights, state, self.fixed, inputs, key, **static
        )
        return float(loss), self.devices.layout.fetch_all(gradients)

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

    def _place(self, columns: Columns) -> tuple[tuple[_Texts, ...], _Inputs]:
        """Put a batch on the devices, padded to a shape; return it with the columns that are encoded together."""
        layout = self.devices.layout
        values: Arrays = {}
        together: dict[tuple[str, bool], dict[str, TokenIds]] = {}
        for column, content in columns.items():
            if isinstance(content, TokenIds):
                place = self.training.towers[column], column in self.key_columns
                together.setdefault(place, {})[column] = content
            else:
                values[column] = layout.place_wide(content, layout.whole)

        plan = []
        batches = []
        for (name, are_keys), texts in together.items():
            sizes = []
            for column, tokens in texts.items():
                sizes.append((column, len(tokens)))

            encoded_together = _Texts(name, are_keys, tuple(sizes))
            plan.append(encoded_together)
            padded = self._padded(self.encoders[name], texts)
            batches.append(padded)

        return tuple(plan), _Inputs(tuple(batches), values)

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
        plan: tuple[_Texts, ...],
        order: tuple[str, ...],
    ) -> tuple[jax.Array, tuple[Arrays, Arrays | None]]:
        """Return the loss, and the pair of its metrics and its next state; `order` is that of the columns."""
        by_column = dict(inputs.values)
        for number, texts in enumerate(plan):
            encoding_weights = weights
            if texts.are_keys:
                encoding_weights = state.averages[KEYS]

            batch = inputs.texts[number]
            key_of_texts = jax.random.fold_in(key, number)
            vectors = self._vectors(texts, encoding_weights, fixed, batch, key_of_texts)
            by_column |= vectors

        ordered = {}
        for name in order:
            ordered[name] = by_column[name]

        loss_weights = _part(weights, LOSS)
        loss_buffers = _part(fixed, LOSS)
        key_of_loss = jax.random.fold_in(key, len(plan))
        numbers = jax.random.key_data(key_of_loss)
        return self.loss(loss_weights, loss_buffers, ordered, state.loss, numbers)

    def _vectors(
        self,
        texts: _Texts,
        weights: Arrays,
        fixed: Arrays,
        batch: Batch,
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

    def _loss_and_gradients(self, *arguments: Any, **static: Any) -> Any:
        """Return the result of `_loss_of`, and the gradients of the weights."""
        compute = jax.value_and_grad(self._loss_of, has_aux=True)
        return compute(*arguments, **static)

    def _step(
        self,
        before: _State,
        fixed: Arrays,
        inputs: _Inputs,
        key: jax.Array,
        rate: jax.Array,
        **static: Any,
    ) -> tuple[_State, jax.Array, jax.Array, Arrays]:
        """Return the new state, the loss, the norm of the gradient, and the metrics."""
        (loss, (metrics, loss_state)), gradients = self._loss_and_gradients(
            before.weights, before, fixed, inputs, key, **static
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
        # The loss's state keeps its integers of 64 bits; see `Layout.place_wide`.
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

    def _unreached_weights(
        self, inputs: _Inputs, key: jax.Array, **static: Any
    ) -> frozenset[str]:
        """Return the names of the weights on which the loss does not depend.

        Their gradients are zeros here. In torch they have none, and an optimiser leaves them as they are.
        """

        def loss(weights: Arrays) -> jax.Array:
            return self._loss_of(
                weights, self.state, self.fixed, inputs, key, **static
            )[0]

        weights = self.state.weights
        traced = jax.make_jaxpr(loss)(weights)
        program = traced.jaxpr

        _, are_used = partial_eval.dce_jaxpr(program, [True])

        names = jax.tree.leaves({name: name for name in weights})
        unused = set()
        for name, is_used in zip(names, are_used, strict=True):
            if not is_used:
                unused.add(name)

        return frozenset(unused)

    def save(self, directory: Path) -> None:
        """Write everything that determines later steps into `directory`, which is empty."""
        tensors = {}
        for name, array in self.state_by_name().items():
            tensors[name] = torch.from_numpy(self.devices.layout.fetch(array).copy())

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

        layout = self.devices.layout
        placed = []
        for name, value in expected.items():
            placed.append(layout.place_wide(tensors[name].numpy(), value.sharding))

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


def _copies(arrays: Arrays) -> Arrays:
    """Return a copy of each array."""
    copied: Arrays = jax.tree.map(jnp.copy, arrays)
    return copied


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
