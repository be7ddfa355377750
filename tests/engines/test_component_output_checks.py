"""NaN, and vectors of another width, are told with the name of the component that they come from."""

from __future__ import annotations

from typing import ClassVar

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
    Pooler,
)
from sentbed_hardware.adamw import AdamW
from small_encoder import assemble_on

ENGINES = ["torch", pytest.param("jax", marks=pytest.mark.jax)]
HERE = f"`{__name__}`"
PLAIN = Head()


class Pooling(torch.nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault

    def forward(self, states):
        hidden, mask = states.last_hidden_state, states.attention_mask
        if mask is None:
            mask = torch.ones_like(hidden[:, :, 0])
        mask = mask.to(hidden.dtype)
        pooled = (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
        if self.fault == "columns":
            return pooled[:, :3]
        if self.fault == "nan":
            return pooled / (pooled - pooled)
        return pooled


@attrs.frozen
class Faulty(Pooler):
    """A mean with a fault."""

    name: ClassVar[str] = "faulty"
    fault: str = ""
    """What is wrong with it."""

    def build(self, width):
        """Return the module."""
        return Pooling(self.fault)

    def output_width(self, width):
        """Return the same width."""
        return width


class NanStates(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, input_ids, attention_mask):
        states = self.module(input_ids, attention_mask)
        hidden = states.last_hidden_state
        return states._replace(last_hidden_state=hidden / (hidden - hidden))


class AnyLoss(torch.nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault

    def forward(self, inputs):
        anchor, positive = inputs["anchor"], inputs["positive"]
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
    columns = frozenset({"anchor", "positive"})
    fault: str = ""
    """What is wrong with it."""

    def build(self, width):
        """Return the module."""
        return AnyLoss(self.fault)


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
            built.module = NanStates(built.module)
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


def test_another_width_than_the_pooler_says_is_told(make_encoder, toys, two):
    encoder = make_encoder("torch", pooler="columns")
    with pytest.raises(PluginError) as caught:
        encoder.encode(toys.padded(two["anchor"]))
    assert str(caught.value).startswith(
        f"`output_width` of the pooler `faulty` of {HERE} returned 8, its module returned vectors of 3 numbers"
    )


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
def test_nan_of_a_loss_is_told_with_its_component(on, make_encoder, toys, two):
    result = step(toys, make_encoder(on), two, loss="nan")
    message = f"NaN or infinite values come from the loss `faulty-loss` of {HERE}: the vectors that it got have"
    assert result.fault.startswith(message)
