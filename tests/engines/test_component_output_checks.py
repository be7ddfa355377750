"""Vectors that are not finite, or of another width than the pooler says, are errors."""

from __future__ import annotations

from typing import ClassVar

import attrs
import pytest
import torch
from sentbed import PluginError
from sentbed.errors import NotFiniteError
from sentbed.protocols import BuildContext, Head, Pooler
from small_encoder import assemble_on


class Pooling(torch.nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault

    def forward(self, states):
        first = states.last_hidden_state[:, 0]
        if self.fault == "columns":
            return first[:, :3]

        return first / (first - first)


@attrs.frozen
class Faulty(Pooler):
    """The first token's state, with a fault."""

    name: ClassVar[str] = "faulty"
    fault: str = "nan"
    """What is wrong with it."""

    def build(self, width):
        """Return the module."""
        return Pooling(self.fault)

    def output_width(self, width):
        """Return the same width."""
        return width


def test_another_width_than_the_pooler_says_is_an_error(toys, engine):
    built = toys.backbone().build(BuildContext(tuple))
    encoder = assemble_on(engine, built, Faulty("columns"), Head())
    with pytest.raises(PluginError) as caught:
        encoder.encode(toys.padded(toys.tokens("a small house by the sea", "rain")))
    assert str(caught.value).startswith(
        f"`output_width` of the pooler `faulty` of `{__name__}` returned 8, its module returned vectors of 3 "
        "numbers"
    )


@pytest.mark.parametrize("on", ["torch", pytest.param("jax", marks=pytest.mark.jax)])
def test_vectors_that_are_not_finite_are_an_error(on, toys, engine):
    if on == "jax":
        pytest.importorskip("torchax")
        from sentbed_tpu.tpu import Tpu

        engine = Tpu(platform="cpu", precision="fp32", lengths=(8, 16)).build()
    built = toys.backbone().build(BuildContext(tuple))
    encoder = assemble_on(engine, built, Faulty(), Head())
    with pytest.raises(NotFiniteError, match="the vectors have NaN or infinite"):
        encoder.encode(toys.padded(toys.tokens("a small house by the sea", "rain")))
