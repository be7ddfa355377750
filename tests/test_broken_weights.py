"""Weights with NaN or infinite values are found in whichever tensor they are."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
import torch
from sentbed import Encoder
from sentbed.errors import NotFiniteError
from sentbed.protocols import EncoderRecipe
from sentbed.tools import component_of, load_plugins

TABLE = {
    "backbone": {"use": "bert", "init": "random", "size": "tiny"},
    "pooler": {"use": "cls-mlp"},
    "head": {"projection": 8},
    "max_length": 16,
}
TEXTS = ["one two three", "four five six"]
VALUES = (math.nan, math.inf, -math.inf)


@pytest.fixture(scope="module")
def encoder():
    plugins = load_plugins()
    recipe = component_of(EncoderRecipe, TABLE, plugins, "encoder")
    engine = plugins.load("runtime", "cpu")().build()
    return Encoder.build(recipe, engine, lambda: TEXTS * 20)


def test_whichever_weight_is_not_finite_no_vector_is_given_and_its_name_is(
    encoder,
):
    random = Random(0)
    expected = encoder.encode(TEXTS)
    for name in weights(encoder):
        with (
            broken(encoder, name, random.choice(VALUES), random),
            pytest.raises(
                NotFiniteError, match=f"infinite values, first in `{name}`; load other"
            ),
        ):
            encoder.encode(TEXTS)
    np.testing.assert_array_equal(encoder.encode(TEXTS), expected)


def weights(encoder):
    return [name for name, _ in encoder.placed.module.named_parameters()]


class broken:  # noqa: N801 - a context
    """One number of a weight is another."""

    def __init__(self, encoder, name, value, random):
        self.placed = encoder.placed
        self.weight = (
            dict(self.placed.module.named_parameters())[name].detach().view(-1)
        )
        self.place = random.randrange(len(self.weight))
        self.value = value

    def __enter__(self):
        self.before = self.weight[self.place].clone()
        self.put(torch.tensor(self.value))

    def __exit__(self, *error):
        self.put(self.before)

    def put(self, number):
        self.weight[self.place] = number
        self.placed.weights_changed()
