"""Similarities of pairs of texts, as their encoder has them compared."""

from __future__ import annotations

from typing import ClassVar

import attrs
import numpy as np
import pytest
from sentbed.protocols import (
    Similarity,
    TextEncoder,
    Texts,
    Vectors,
)
from sentbed_common import pair_similarities

PAIRS = Texts(["a", "b", "zero"], ["A", "B", "a"])
TABLE = {
    "a": [1.0, 0.0],
    "A": [3.0, 4.0],
    "b": [0.0, 2.0],
    "B": [1.0, 1.0],
    "zero": [0.0, 0.0],
}


@attrs.frozen
class Distance(Similarity):
    """Minus the largest difference of two components."""

    name: ClassVar[str] = "distance"

    def similarity(self, first, second):
        """Return `(n, m)`."""
        return -(first[:, None] - second[None]).abs().amax(-1)


@attrs.frozen
class Dot(Distance):
    """The dot product, which is known by its formula."""

    name: ClassVar[str] = "dot"
    formula = "dot"


@attrs.frozen
class FirstTokens(Similarity):
    """The dot product of the vectors of the first tokens."""

    name: ClassVar[str] = "first-tokens"
    compares = frozenset({"tokens"})

    def similarity(self, first, second):
        """Return `(n, m)`."""
        return first.vectors[:, 0] @ second.vectors[:, 0].T


class Encoder(TextEncoder):
    """An encoder that has a vector for each text, and names a similarity."""

    def __init__(self, similarity=None):
        self.similarity = similarity

    def encode(self, texts, task=None):
        vectors = []
        for text in texts:
            vectors.append(TABLE[text])

        return np.array(vectors, np.float32)


class TokenEncoder(Encoder):
    """One with the vector of a text once or twice, by the length of the text."""

    output = "tokens"

    def encode(self, texts, task=None):
        tokens = []
        for text, vector in zip(texts, super().encode(texts), strict=True):
            tokens.append(np.tile(vector, (1 + len(text) % 2, 1)))
        return tokens


@pytest.mark.parametrize(
    ("similarity", "expected"),
    [
        (None, [0.6, 0.5**0.5, 0.0]),
        (Dot(), [3.0, 2.0, 0.0]),
        (Distance(), [-4.0, -1.0, -1.0]),
    ],
)
def test_pairs_are_compared_as_their_encoder_says(similarity, expected):
    vectors = Vectors({"pairs": PAIRS}, Encoder(similarity))
    similarities = pair_similarities(vectors, "pairs")

    assert similarities.dtype == np.float64
    np.testing.assert_allclose(similarities, expected, atol=1e-12)


def test_token_vectors_are_compared_by_their_similarity():
    vectors = Vectors({"pairs": PAIRS}, TokenEncoder(FirstTokens()))

    assert pair_similarities(vectors, "pairs").tolist() == [3.0, 2.0, 0.0]


def test_many_pairs_are_compared_in_blocks():
    class Random(Encoder):
        def encode(self, texts, task=None):
            seeds = [int(text) for text in texts]
            rows = np.random.default_rng(0).normal(size=(400, 3))
            return rows[seeds].astype(np.float32)

    texts = list(map(str, range(400)))
    pairs = Texts(texts[:200], texts[200:])
    vectors = Vectors({"pairs": pairs}, Random(Distance()))
    first, second = np.split(vectors["pairs"].astype(float), 2)
    largest_difference = np.abs(first - second).max(axis=1)
    np.testing.assert_allclose(
        pair_similarities(vectors, "pairs"), -largest_difference, atol=1e-12
    )
