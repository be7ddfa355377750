"""Every combination of Adafactor's settings takes the steps of transformers' own, on torch and on JAX."""

from __future__ import annotations

import copy
import itertools

import attrs
import numpy as np
import pytest
import torch
from sentbed_hardware.adafactor import Adafactor
from sentbed_hardware.learning_rate_schedules import Constant, RelativeStep
from transformers.optimization import Adafactor as TransformersAdafactor

SHAPES = {
    "wide": (3, 40),
    "tall": (40, 3),
    "column": (5, 1),
    "bias": (7,),
    "temperature": (),
}
STEPS, STEPS_BEFORE_SAVING = 20, 7


@attrs.frozen
class Settings:
    """Transformers' settings, and ours that mean the same."""

    scale_parameter: bool
    relative_step: bool
    warmup_init: bool
    weight_decay: float
    decay_rate: float

    @property
    def optimizer(self):
        return Adafactor(
            lr=1.0 if self.relative_step else 0.02,
            decay_rate=self.decay_rate,
            clip_threshold=0.7,
            scale_parameter=self.scale_parameter,
            weight_decay=self.weight_decay,
        )

    @property
    def schedule(self):
        return RelativeStep(self.warmup_init) if self.relative_step else Constant()

    def reference(self, parameters):
        return TransformersAdafactor(
            parameters,
            lr=None if self.relative_step else 0.02,
            decay_rate=self.decay_rate,
            clip_threshold=0.7,
            weight_decay=self.weight_decay,
            scale_parameter=self.scale_parameter,
            relative_step=self.relative_step,
            warmup_init=self.warmup_init,
        )


COMBINATIONS = [
    Settings(scaled, relative, warm, weight_decay, decay_rate)
    for scaled, (relative, warm), weight_decay, decay_rate in itertools.product(
        (False, True),
        ((False, False), (True, False), (True, True)),
        (0.0, 0.1),
        (-0.8, -0.5),
    )
]
"""Transformers refuses `warmup_init` without `relative_step`."""


def normal(generator, size):
    """Return normally distributed numbers of this standard deviation for every parameter."""
    return {
        name: np.asarray(size * generator.normal(size=shape), np.float32)
        for name, shape in SHAPES.items()
    }


def initial_weights():
    weights = normal(np.random.default_rng(0), 1.0)
    # Below the smallest root mean square that scales a step.
    weights["bias"] *= 1e-5
    return weights


def gradients():
    """Another gradient for every step, among them large and small ones."""
    generator = np.random.default_rng(1)
    for step in range(STEPS):
        yield normal(generator, 10.0 ** (step % 3 - 1))


def torch_parameters(weights):
    return {
        name: torch.nn.Parameter(torch.from_numpy(value.copy()))
        for name, value in weights.items()
    }


def set_gradients(parameters, gradient):
    for name, parameter in parameters.items():
        parameter.grad = torch.from_numpy(gradient[name].copy())


def values_of(parameters):
    return {
        name: parameter.detach().numpy().copy()
        for name, parameter in parameters.items()
    }


def steps_of_transformers(settings):
    parameters = torch_parameters(initial_weights())
    reference = settings.reference(list(parameters.values()))
    weights = []
    for gradient in gradients():
        set_gradients(parameters, gradient)
        reference.step()
        weights.append(values_of(parameters))
    return weights


def steps_on_torch(settings):
    """Take the steps as the trainer does; a new optimiser goes on from the state of the first."""
    parameters = torch_parameters(initial_weights())
    optimizer = settings.optimizer.build(list(parameters.items()))
    weights = []
    for step, gradient in enumerate(gradients()):
        if step == STEPS_BEFORE_SAVING:
            state = copy.deepcopy(optimizer.state_dict())
            parameters = torch_parameters(values_of(parameters))
            optimizer = settings.optimizer.build(list(parameters.items()))
            optimizer.load_state_dict(state)
        for group in optimizer.param_groups:
            group["lr"] = settings.optimizer.lr * settings.schedule.factor(step, STEPS)
        set_gradients(parameters, gradient)
        optimizer.step()
        weights.append(values_of(parameters))
    return weights


def steps_on_jax(settings):
    """Take the steps as the trainer does; the state passes through NumPy in between."""
    import jax
    from sentbed_tpu._jax.optax_optimizers import optax_form

    parameters = jax.tree.map(jax.numpy.asarray, initial_weights())
    transform = optax_form(settings.optimizer, SHAPES)
    state = transform.init(parameters)
    weights = []
    for step, gradient in enumerate(gradients()):
        if step == STEPS_BEFORE_SAVING:
            leaves, structure = jax.tree.flatten(state)
            restored = [jax.numpy.asarray(np.asarray(leaf).copy()) for leaf in leaves]
            transform = optax_form(settings.optimizer, SHAPES)
            state = jax.tree.unflatten(structure, restored)
        rate = settings.optimizer.lr * settings.schedule.factor(step, STEPS)
        updates, state = transform.update(
            jax.tree.map(jax.numpy.asarray, gradient), state, parameters
        )
        parameters = {
            name: value - rate * updates[name] for name, value in parameters.items()
        }
        weights.append({name: np.asarray(value) for name, value in parameters.items()})
    return weights


def assert_the_same_steps(actual, expected):
    """Compare how far each weight has moved by each step, relative to the farthest of its parameter."""
    initial = initial_weights()
    assert len(actual) == len(expected) == STEPS
    for step, (weights, reference) in enumerate(
        zip(actual, expected, strict=True), start=1
    ):
        for name, value in reference.items():
            farthest = np.abs(value - initial[name]).max()
            assert farthest > 0, name
            # A step rounds weights below 4 to 2.4e-7. The first relative step with warm-up is 1e-6.
            assert (
                np.abs(weights[name] - value).max() <= 1e-4 * farthest + 2.4e-7 * step
            ), (name, step)


@pytest.mark.sweep(8)
@pytest.mark.parametrize("settings", COMBINATIONS, ids=str)
def test_torch_takes_the_steps_of_transformers(settings):
    assert_the_same_steps(steps_on_torch(settings), steps_of_transformers(settings))


@pytest.mark.jax
@pytest.mark.parametrize("settings", COMBINATIONS, ids=str)
def test_jax_takes_the_steps_of_transformers(settings):
    pytest.importorskip("sentbed_tpu")
    assert_the_same_steps(steps_on_jax(settings), steps_of_transformers(settings))


def test_a_scaled_step_is_the_plain_one_times_the_root_mean_square():
    before = initial_weights()
    plain, scaled = (
        steps_on_torch(Settings(scale, False, False, 0.0, -0.8))[0]
        for scale in (False, True)
    )
    for name, value in before.items():
        root_mean_square = max(
            1e-3, float(np.sqrt(np.mean(value.astype(np.float64) ** 2)))
        )
        expected = root_mean_square * (plain[name] - value)
        np.testing.assert_allclose(scaled[name] - value, expected, rtol=1e-3, atol=3e-7)


def test_the_default_scales_a_step_by_the_weight_as_t5x_does():
    assert Adafactor().scale_parameter
