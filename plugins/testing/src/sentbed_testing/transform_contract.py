"""The contract of a transform, which is fitted to random vectors."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from sentbed.protocols import BuiltBackbone, Transform

from sentbed_testing.component_contract import ComponentContract

TOKENS = 100
"""Number of tokens in the backbone's output embedding."""


class RandomEmbedding(BuiltBackbone):
    """A backbone that has only a random output embedding."""

    def __init__(self, width: int) -> None:
        generator = np.random.default_rng(1)
        self.width = width
        self.embedding = generator.standard_normal((TOKENS, width)).astype(np.float32)

    def output_embedding(self) -> NDArray[np.float32]:
        """Return the embedding, `(tokens, width)`."""
        return self.embedding


class TransformContract(ComponentContract):
    """Tests of a transform."""

    component: ClassVar[Transform]
    width: ClassVar[int] = 8
    """Dimension of the vectors."""

    @pytest.fixture
    def vectors(self, component: Transform) -> NDArray[np.float32]:
        """Random vectors of the texts to which the transform is fitted."""
        rows = len(component.texts(self.width))
        generator = np.random.default_rng(0)
        return generator.standard_normal((rows, self.width)).astype(np.float32)

    def fitted(
        self,
        component: Transform,
        vectors: NDArray[np.float32],
    ) -> Any:
        """Return the mean and the matrix of a fit as arrays."""
        mean, matrix = component.fit(vectors.copy(), RandomEmbedding(self.width))
        return np.asarray(mean, np.float64), np.asarray(matrix, np.float64)

    def test_texts(self, component: Transform) -> None:
        """`texts` returns the same strings in every call."""
        texts = list(component.texts(self.width))

        assert all(isinstance(text, str) for text in texts)
        assert list(component.texts(self.width)) == texts

    def test_fit(
        self,
        component: Transform,
        vectors: NDArray[np.float32],
    ) -> None:
        """`fit` returns a finite mean and matrix of the declared widths."""
        width = component.output_width(self.width)

        assert width > 0

        mean, matrix = self.fitted(component, vectors)

        assert mean.shape == (self.width,)
        assert matrix.shape == (self.width, width)
        assert np.isfinite(mean).all()
        assert np.isfinite(matrix).all()

    def test_fit_is_a_function(
        self,
        component: Transform,
        vectors: NDArray[np.float32],
    ) -> None:
        """`fit` does not change its vectors, and a second call gives the same transform."""
        passed = vectors.copy()
        component.fit(passed, RandomEmbedding(self.width))

        np.testing.assert_array_equal(passed, vectors)

        first = self.fitted(component, vectors)
        second = self.fitted(component, vectors)

        np.testing.assert_array_equal(first[0], second[0])
        np.testing.assert_array_equal(first[1], second[1])
