from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
from sentbed import ModelError
from sentbed.protocols import BuiltBackbone, Head
from sentbed_poolers import embed_filter
from sentbed_poolers.embed_filter import EmbedFilter

WIDTH, TOKENS = 12, 50
RNG = np.random.default_rng(0)
# Singular values that are well apart: the directions are then decided to the last digits.
EMBEDDING = (RNG.standard_normal((TOKENS, WIDTH)) * 2.0 ** -np.arange(WIDTH)).astype(
    np.float32
)


class Embedding(BuiltBackbone):
    def __init__(self, matrix=EMBEDDING):
        self.matrix = matrix

    def output_embedding(self):
        return self.matrix


def fitted(backbone=None, **fields):
    return EmbedFilter(**fields).fit(
        np.zeros((0, WIDTH), np.float32), backbone or Embedding()
    )


def naive(first, last):
    """The projection, one outer product a direction of the whole matrix's singular value decomposition."""
    directions = np.linalg.svd(EMBEDDING.astype(np.float64))[2]
    return sum(
        (np.outer(directions[i], directions[i]) for i in range(first, last)),
        np.zeros((WIDTH, WIDTH)),
    )


@pytest.mark.parametrize(
    ("fields", "first", "last"),
    [
        ({}, 3, 9),
        ({"tau": 4}, 4, 7),
        ({"tau": 5}, 5, 7),  # 12 / 5 rounded down, and 5 of the 10 others before
        ({"tau": 1.5}, 2, 10),
        ({"first": 0}, 0, 6),
        ({"first": 6}, 6, 12),
    ],
)
def test_the_projection_keeps_these_directions_alone(fields, first, last):
    mean, directions = fitted(**fields)
    assert not mean.any()
    assert directions.shape == (WIDTH, last - first)
    np.testing.assert_allclose(directions @ directions.T, naive(first, last), atol=1e-6)
    assert EmbedFilter(**fields).output_width(WIDTH) == last - first


def test_the_largest_component_of_each_direction_is_positive():
    _, reduced = fitted()
    assert (reduced[np.abs(reduced).argmax(axis=0), np.arange(WIDTH // 2)] > 0).all()
    _, turned = fitted(Embedding(-EMBEDDING))
    np.testing.assert_allclose(turned, reduced, atol=1e-9)


def test_blocks_of_the_matrix_change_nothing(monkeypatch):
    _, whole = fitted()
    monkeypatch.setattr(embed_filter, "BLOCK", 7)
    np.testing.assert_allclose(fitted()[1], whole, atol=1e-9)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tau": 13}, r"keeps 0 directions .`tau = 13`. after the first 6 of 12"),
        (
            {"first": 7},
            r"keeps 6 directions .`tau = 2`. after the first 7 of 12; .* `first` of at most 6",
        ),
    ],
)
def test_directions_that_are_not_there_are_refused(fields, message):
    with pytest.raises(ModelError, match=message):
        EmbedFilter(**fields).output_width(WIDTH)


def test_an_output_embedding_of_another_width_is_refused():
    with pytest.raises(
        ModelError,
        match=r"vectors that are 12 wide, .* output embedding have 5 values; use",
    ):
        fitted(Embedding(EMBEDDING[:, :5]))


def test_an_output_embedding_that_is_not_finite_is_refused():
    broken = EMBEDDING.copy()
    broken[3, 4] = np.nan
    with pytest.raises(ModelError, match="NaN or infinite values"):
        fitted(Embedding(broken))


@attrs.frozen
class Parts:
    """What of a recipe's encoder the transform looks at."""

    backbone: Any
    head: Head


@attrs.frozen
class Model:
    predicts: bool
    name: str = "causal"


def test_a_backbone_without_an_output_embedding_and_a_projection_are_refused():
    assert list(EmbedFilter().misfits(Parts(Model(True), Head(normalize=True)))) == []
    (misfit,) = EmbedFilter().misfits(Parts(Model(False), Head()))
    assert "the backbone `causal` has none with these settings" in misfit
    (misfit,) = EmbedFilter().misfits(Parts(Model(True), Head(projection=5)))
    assert misfit.endswith("take `projection` out")
