"""The contract of a similarity: it compares random vectors, and random token vectors if it can."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
from sentbed.protocols import Similarity, TokenVectors
from torch import Tensor
from torch.testing import assert_close

from sentbed_testing.component_contract import ComponentContract
from sentbed_testing.module_contract import assert_gradient

FIRST = (3, 1, 5)
"""Number of tokens of each text on the first side."""
SECOND = (2, 6, 1, 4)
"""Number of tokens of each text on the second side."""
GARBAGE = 1e4
"""The numbers in the vectors of padding."""


class SimilarityContract(ComponentContract):
    """Tests of a similarity. Each is run for sentence vectors and for token vectors."""

    component: ClassVar[Similarity]
    width: ClassVar[int] = 8
    """Dimension of the vectors."""

    @pytest.fixture(params=["vector", "tokens"])
    def output(
        self,
        component: Similarity,
        request: pytest.FixtureRequest,
    ) -> str:
        """The output of a pooler that is compared."""
        output: str = request.param
        if output not in component.compares:
            pytest.skip(f"it does not compare the output `{output}`")

        return output

    def vectors(
        self,
        output: str,
        lengths: tuple[int, ...],
    ) -> Tensor:
        """Return random vectors `(texts, width)`, or `(texts, length, width)` for tokens."""
        shape: tuple[int, ...] = (len(lengths), self.width)
        if output == "tokens":
            shape = (len(lengths), max(lengths), self.width)

        generator = torch.Generator().manual_seed(len(lengths))
        return torch.randn(shape, generator=generator)

    def pooled(
        self,
        vectors: Tensor,
        lengths: tuple[int, ...],
        more: int = 0,
        garbage: float = GARBAGE,
    ) -> Any:
        """Return vectors as a pooler does: token vectors with a mask, and `more` tokens of padding."""
        if vectors.ndim == 2:
            return vectors

        padded = torch.nn.functional.pad(vectors, (0, 0, 0, more))
        mask = torch.arange(padded.shape[1]) < torch.tensor(lengths)[:, None]
        return TokenVectors(padded.masked_fill(~mask[..., None], garbage), mask)

    def texts(
        self,
        output: str,
        lengths: tuple[int, ...],
        more: int = 0,
    ) -> Any:
        """Return random vectors in the form of a pooler's output."""
        return self.pooled(self.vectors(output, lengths), lengths, more)

    def rows(
        self,
        texts: Any,
        rows: list[int],
    ) -> Any:
        """Return some texts, without the padding that all of them have."""
        if not isinstance(texts, TokenVectors):
            return texts[rows]

        mask = texts.mask[rows]
        longest = int(mask.sum(dim=1).max())
        return TokenVectors(texts.vectors[rows, :longest], mask[:, :longest])

    def similarities(
        self,
        component: Similarity,
        first: Any,
        second: Any,
    ) -> Any:
        """Return the similarity of each text of the first side to each text of the second side."""
        return component.similarity(
            component.normalize(first), component.normalize(second)
        )

    def test_shape(
        self,
        component: Similarity,
        output: str,
    ) -> None:
        """`similarity` returns a finite number for each pair of texts."""
        first, second = self.texts(output, FIRST), self.texts(output, SECOND)
        similarities = self.similarities(component, first, second)

        assert similarities.shape == (len(FIRST), len(SECOND))
        assert similarities.is_floating_point()
        assert torch.isfinite(similarities).all()

    def test_pairwise_is_the_diagonal(
        self,
        component: Similarity,
        output: str,
    ) -> None:
        """`pairwise` returns the similarity of the two texts of each row."""
        first = self.texts(output, FIRST)
        second = self.rows(self.texts(output, SECOND), [0, 1, 2])
        pairs = component.pairwise(
            component.normalize(first), component.normalize(second)
        )

        assert_close(pairs, self.similarities(component, first, second).diagonal())

    def test_alone_as_in_a_batch(
        self,
        component: Similarity,
        output: str,
    ) -> None:
        """The similarity of two texts depends neither on other texts nor on padding."""
        first = self.texts(output, FIRST, more=2)
        second = self.texts(output, SECOND, more=3)
        similarities = self.similarities(component, first, second)
        for row in range(len(FIRST)):
            left = self.rows(first, [row])
            for column in range(len(SECOND)):
                right = self.rows(second, [column])
                alone = self.similarities(component, left, right)
                assert_close(alone, similarities[row, column].reshape(1, 1))

    def test_gradient(
        self,
        component: Similarity,
        output: str,
    ) -> None:
        """The gradients of the vectors on both sides agree with finite differences."""

        def compare(first: Tensor, second: Tensor) -> Any:
            left = self.pooled(first, FIRST, garbage=0.0)
            right = self.pooled(second, SECOND, garbage=0.0)
            return self.similarities(component, left, right)

        sides = [self.vectors(output, FIRST), self.vectors(output, SECOND)]

        assert_gradient(compare, sides)

    def test_is_a_function(
        self,
        component: Similarity,
        output: str,
    ) -> None:
        """A call changes no argument, and a second call gives the same numbers."""
        first, second = self.texts(output, FIRST), self.texts(output, SECOND)
        similarities = self.similarities(component, first, second)
        again = self.similarities(component, first, second)
        assert_close(again, similarities, rtol=0, atol=0)

        for side, lengths in ((first, FIRST), (second, SECOND)):
            unchanged = self.texts(output, lengths)
            if output == "tokens":
                side, unchanged = side.vectors, unchanged.vectors  # noqa: PLW2901
            assert_close(side, unchanged, rtol=0, atol=0)
