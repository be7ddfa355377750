"""Faults of backbones, poolers, losses, optimisers and schedules are told with the name of the component."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs
import numpy as np
import pytest
import torch
from sentbed import PluginError
from sentbed.errors import NotFiniteError
from sentbed.protocols import (
    BuildContext,
    Head,
    Loss,
    LossOutput,
    LossTraits,
    Optimizer,
    Pooler,
    Schedule,
)
from sentbed_hardware.adamw import AdamW
from small_encoder import assemble_on

ENGINES = ["torch", pytest.param("jax", marks=pytest.mark.jax)]
HERE = f"`{__name__}`"
PLAIN = Head()
ADVICE = "; test it with `sentbed_testing`, or tell its authors"


class Pooling(torch.nn.Module):
    def __init__(self, width, fault):
        super().__init__()
        self.fault = fault
        if "weights" in fault:
            self.dense = torch.nn.Linear(width, width)

    def forward(self, states):
        hidden, mask, fault = (
            states.last_hidden_state,
            states.attention_mask,
            self.fault,
        )
        mask = (
            torch.ones_like(hidden[:, :, 0]) if mask is None else mask.to(hidden.dtype)
        )
        pooled = (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
        if fault == "detached with weights":
            return self.dense(pooled.detach())
        if fault == "weights that nothing uses":
            return pooled
        return {
            "": pooled,
            "none": None,
            "tuple": (pooled,),
            "rows": pooled[:1],
            "columns": pooled[:, :3],
            "tokens": hidden,
            "one": pooled.sum(),
            "whole numbers": pooled.long(),
            "detached": pooled.detach(),
            "nan": pooled / (pooled - pooled),
            "gradient": (pooled - pooled).abs().sqrt() + pooled,
        }[fault]


@attrs.frozen
class Narrow(Pooler):
    """A mean whose module gives three numbers, and which says nothing of that."""

    name: ClassVar[str] = "narrow"

    def build(self, width):
        """Return the module."""
        return Pooling(width, "columns")


@attrs.frozen
class Faulty(Pooler):
    """A mean with a fault."""

    name: ClassVar[str] = "faulty"
    fault: str = ""
    """What is wrong with it."""

    def build(self, width):
        """Return the module."""
        return None if self.fault == "nothing" else Pooling(width, self.fault)

    def output_width(self, width):
        """Return the same width."""
        return "8" if self.fault == "output width" else width


class States(torch.nn.Module):
    def __init__(self, module, fault):
        super().__init__()
        self.module, self.fault = module, fault

    def forward(self, input_ids, attention_mask):
        states = self.module(input_ids, attention_mask)
        hidden = states.last_hidden_state
        return {
            "": states,
            "tuple": (hidden, attention_mask),
            "none": None,
            "rows": states._replace(last_hidden_state=hidden[:1], attention_mask=None),
            "width": states._replace(last_hidden_state=hidden[:, :, :3]),
            "flat": states._replace(last_hidden_state=hidden[:, 0]),
            "mask": states._replace(attention_mask=torch.ones_like(hidden[:, :-1, 0])),
            "detached": states._replace(last_hidden_state=hidden.detach()),
            "nan": states._replace(last_hidden_state=hidden / (hidden - hidden)),
        }[self.fault]


class AnyLoss(torch.nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault

    def forward(self, inputs):
        anchor, positive = inputs["anchor"], inputs["positive"]
        if self.fault == "ignores":
            return LossOutput(torch.ones((), requires_grad=True))
        difference = (anchor - positive).square().sum(1).mean()
        return LossOutput(
            difference / (difference - difference)
            if self.fault == "nan"
            else difference
        )


@attrs.frozen
class FaultyLoss(Loss):
    """The squared distance, with a fault."""

    name: ClassVar[str] = "faulty-loss"
    traits = LossTraits(needs=frozenset({"anchor", "positive"}))
    fault: str = ""
    """What is wrong with it."""

    def build(self, width):
        """Return the module."""
        return AnyLoss(self.fault)


@attrs.frozen
class FaultyOptimizer(Optimizer):
    """None at all."""

    name: ClassVar[str] = "faulty-optimizer"
    lr: float = 0.1
    """Learning rate."""

    def build(self, parameters):
        """Return nothing."""

    def build_optax(self, shapes):
        """Return something else."""
        return 3


@attrs.frozen
class FaultySchedule(Schedule):
    """A multiplier with a fault."""

    name: ClassVar[str] = "faulty-schedule"
    value: Any = None
    """The multiplier."""

    def factor(self, step, total_steps):
        """Return the value."""
        return self.value


@pytest.fixture
def make_encoder(toys, engine):
    """Return a function that puts an encoder with faulty parts on an engine."""

    def make(on, pooler="", backbone="", head=PLAIN):
        chosen = engine
        if on == "jax":
            pytest.importorskip("torchax")
            from sentbed_tpu.tpu import Tpu

            fields = {
                "platform": "cpu",
                "precision": "fp32",
                "lengths": (8, 16),
                "token_budget": 64,
            }
            chosen = Tpu(**fields, devices=1).build()
        built = toys.backbone().build(BuildContext(tuple))
        if backbone:
            built.module = States(built.module, backbone)
        return assemble_on(chosen, built, Faulty(pooler), head)

    return make


@pytest.fixture
def two(toys):
    """Two columns of texts of different lengths."""
    return {
        "anchor": toys.tokens("a small house by the sea", "rain", "two birds sing"),
        "positive": toys.tokens("a house", "it rains a lot today", "birds"),
    }


def step(toys, encoder, columns, loss="", **options):
    towers = dict.fromkeys(columns, "encoder")
    arguments = {"towers": towers, **options}
    return toys.train(
        {"encoder": encoder}, FaultyLoss(loss), AdamW(lr=0.01), **arguments
    ).step(columns)


SHAPES = {
    "none": "a `NoneType`, expected a tensor",
    "tuple": "a `tuple`, expected a tensor",
    "rows": "the shape (1, 8), expected (3, 8)",
    "tokens": r"the shape (3, ",
    "one": "the shape (), expected (3, 8)",
    "whole numbers": "torch.int64, expected floating-point numbers",
}


@pytest.mark.parametrize(
    ("pooler", "message", "method"),
    [
        (
            Faulty("columns"),
            "`output_width` of the pooler `faulty` of {here} returned 8, its module returned vectors of 3 "
            "numbers",
            Faulty.output_width,
        ),
        (
            Narrow(),
            "`build` of the pooler `narrow` of {here} built a module that returned vectors of 3 numbers, "
            "expected 8; a pooler whose vectors have another width than the states says so in `output_width`",
            Narrow.build,
        ),
    ],
    ids=["says another", "says nothing"],
)
def test_another_width_is_told_where_the_pooler_says_its_width(
    pooler, message, method, toys, engine, two
):
    encoder = engine.assemble(toys.backbone().build(BuildContext(tuple)), pooler, PLAIN)
    with pytest.raises(PluginError) as caught:
        encoder.encode(toys.padded(two["anchor"]))
    line = f" @ {method.__code__.co_filename}:{method.__code__.co_firstlineno}"
    assert str(caught.value).startswith(message.format(here=HERE) + line)


@pytest.mark.parametrize("on", ENGINES)
@pytest.mark.parametrize("fault", SHAPES)
def test_a_pooler_of_wrong_shapes_is_named(on, fault, make_encoder, toys, two):
    encoder = make_encoder(on, pooler=fault)
    start = f"`build` of the pooler `faulty` of {HERE} built a module that returned "
    expected = start + SHAPES[fault]
    with pytest.raises(PluginError) as caught:
        encoder.encode(toys.padded(two["anchor"]))
    if on == "torch":
        assert str(caught.value).startswith(expected)
    assert str(caught.value).startswith(start)
    assert str(caught.value).endswith(ADVICE)
    with pytest.raises(PluginError) as caught:
        step(toys, encoder, two)
    assert str(caught.value).startswith(start)


STATES = {
    "tuple": "returned a `tuple`, expected `TokenStates`",
    "none": "returned a `NoneType`, expected `TokenStates`",
    "rows": "returned states of the shape (1, ",
    "width": "returned states of the shape (",
    "flat": "returned states of the shape (",
    "mask": "returned a mask of the shape (",
}


@pytest.mark.parametrize("on", ENGINES)
@pytest.mark.parametrize("fault", STATES)
def test_a_backbone_of_wrong_shapes_is_named(on, fault, make_encoder, toys, two):
    encoder = make_encoder(on, backbone=fault)
    for use in (
        lambda: encoder.encode(toys.padded(two["anchor"])),
        lambda: step(toys, encoder, two),
    ):
        with pytest.raises(PluginError) as caught:
            use()
        message = str(caught.value)
        assert message.startswith("`module` of the built backbone `BuiltDense` of `")
        assert STATES[fault] in message


@pytest.mark.parametrize("on", ENGINES)
def test_what_builds_nothing_or_leaves_something_out_is_named(
    on, make_encoder, toys, engine
):
    with pytest.raises(
        PluginError,
        match=r"^`build` of the pooler `faulty` of .* returned None, expected",
    ):
        make_encoder(on, pooler="nothing")
    with pytest.raises(
        PluginError,
        match=r"^`output_width` of the pooler `faulty` of .* returned '8', exp",
    ):
        make_encoder(on, pooler="output width")
    built = toys.backbone().build(BuildContext(tuple))
    del built.max_length
    with pytest.raises(
        PluginError,
        match=r"^`__init__` of the built backbone .* the attribute `max_length`",
    ):
        engine.assemble(built, toys.mean(), Head())


@pytest.mark.parametrize("on", ENGINES)
def test_an_optimizer_or_a_schedule_that_is_none_is_named(on, make_encoder, toys, two):
    encoder = make_encoder(on)
    towers = dict.fromkeys(two, "encoder")
    method, returned = {"torch": ("build", "None"), "jax": ("build_optax", "3")}[on]
    message = rf"^`{method}` of the optimizer `faulty-optimizer` of {HERE} returned {returned}, expected"
    with pytest.raises(PluginError, match=message):
        toys.train({"encoder": encoder}, FaultyLoss(), FaultyOptimizer(), towers=towers)
    before = toys.weights_of(encoder)
    for value in (None, "1", float("nan"), float("inf"), -1.0, [1, 2]):
        with pytest.raises(
            PluginError,
            match=rf"^`factor` of the schedule `faulty-schedule` of {HERE} ret",
        ):
            step(toys, encoder, two, schedule=FaultySchedule(value))
    after = toys.weights_of(encoder)
    assert all(torch.equal(after[name], value) for name, value in before.items())


@pytest.mark.parametrize("on", ENGINES)
@pytest.mark.parametrize(
    ("parts", "source"),
    [
        ({"backbone": "nan"}, "the token states of the backbone of `"),
        ({"pooler": "nan"}, f"the vectors of the pooler `faulty` of {HERE}"),
    ],
)
def test_nan_is_told_with_the_part_that_gave_it(
    on, parts, source, make_encoder, toys, two
):
    encoder = make_encoder(on, **parts)
    with pytest.raises(NotFiniteError) as caught:
        encoder.encode(toys.padded(two["anchor"]))
    start = "the vectors have NaN or infinite values, first in "
    assert str(caught.value).startswith(start + source)
    assert str(caught.value).endswith("or test the part with `sentbed_testing`")
    result = step(toys, encoder, two)
    assert not np.isfinite(result.loss)
    assert result.fault.startswith(f"NaN or infinite values come from {source}")


@pytest.mark.parametrize("on", ENGINES)
def test_nan_of_weights_of_the_head_is_told_as_such(on, make_encoder, toys, two):
    encoder = make_encoder(on, head=Head(projection=4))
    with torch.no_grad():
        encoder.module.projection.weight[0, 0] = torch.nan
    if on == "jax":
        weight = encoder.module.projection.weight.detach().numpy()
        encoder.weights["projection.weight"] = encoder.devices.layout.put(
            {"w": weight}
        )["w"]
    assert encoder.broken_weight() == "projection.weight"
    with pytest.raises(NotFiniteError) as caught:
        encoder.encode(toys.padded(two["anchor"]))
    where = "weights of the encoder have NaN or infinite values, first in `projection.weight`"
    if on == "jax":
        where = (
            "vectors have NaN or infinite values, first in the projection of the head, whose weights have "
            "NaN or infinite values"
        )
    assert (
        str(caught.value)
        == f"the {where}; load other weights, or train with a lower learning rate"
    )


@pytest.mark.parametrize("on", ENGINES)
def test_nan_of_a_loss_or_of_a_gradient_is_told_with_its_component(
    on, make_encoder, toys, two
):
    result = step(toys, make_encoder(on), two, loss="nan")
    message = f"NaN or infinite values come from the loss `faulty-loss` of {HERE}: the vectors that it got have"
    assert result.fault.startswith(message)
    result = step(toys, make_encoder(on, pooler="gradient"), two)
    assert np.isfinite(result.loss)
    assert f"the pooler `faulty` of {HERE} or of the backbone of " in result.fault


@pytest.mark.parametrize("on", ENGINES)
def test_a_gradient_that_is_cut_is_told_with_the_part_that_cuts_it(
    on, make_encoder, toys, two
):
    start = f"`build` of the pooler `faulty` of {HERE} built a module "
    for fault, wrong in {
        "detached": "",
        "detached with weights": "that lets no gradient reach the backbone's weights in the encoder",
        "weights that nothing uses": "that lets no gradient reach the pooler's weights in the encoder",
    }.items():
        with pytest.raises(PluginError) as caught:
            step(toys, make_encoder(on, pooler=fault), two)
        assert str(caught.value).startswith(start + wrong), fault
    assert np.isfinite(step(toys, make_encoder(on), two).loss)


def test_a_backbone_or_a_loss_that_cuts_the_gradient_is_told(make_encoder, toys, two):
    with pytest.raises(
        PluginError,
        match=r"^`module` of the built backbone .* states without a gradient",
    ):
        step(toys, make_encoder("torch", backbone="detached"), two)
    with pytest.raises(PluginError) as caught:
        step(toys, make_encoder("torch"), two, loss="ignores")
    assert str(caught.value).startswith(
        f"`build` of the loss `faulty-loss` of {HERE} built a module whose loss has no gradient for "
    )
