from __future__ import annotations

from typing import Any, ClassVar, cast

import attrs
import numpy as np
import pytest
from sentbed import DataError, ModelError
from sentbed.protocols import BuiltBackbone, DataSource, Head
from sentbed_common import InMemoryDataset
from sentbed_poolers.whitening import Whitening

WIDTH = 5
NO_BACKBONE = cast(BuiltBackbone, None)


@attrs.frozen
class Pairs(DataSource):
    """Two columns of texts, a label and a number."""

    name: ClassVar[str] = "in-memory"

    count: int = 10
    columns: tuple[str, ...] = ("anchor", "positive", "label", "score")

    numbers = frozenset({"score"})

    def open(self):
        values = {"label": ["alike"] * self.count, "score": [1.0] * self.count}
        for name in self.columns[:2]:
            values[name] = [f"{name} {number}" for number in range(self.count)]
        columns = {}
        for name in self.columns:
            columns[name] = values[name]
        return InMemoryDataset(columns)


def vectors_of(count=300, rank=WIDTH):
    """Vectors with a mean that is not 0 and directions that are not those of the axes."""
    rng = np.random.default_rng(0)
    spread = rng.standard_normal((rank, WIDTH)) * 3.0 ** -np.arange(rank)[:, None]
    return (rng.standard_normal((count, rank)) @ spread + 7).astype(np.float32)


@pytest.mark.parametrize("dimensions", [1, 3, 5])
def test_it_is_the_formula_of_the_paper(dimensions):
    vectors = vectors_of().astype(np.float64)
    mean, matrix = Whitening(Pairs(), dimensions=dimensions).fit(
        vectors.astype(np.float32), NO_BACKBONE
    )
    values, directions = np.linalg.eigh(np.cov(vectors.T, bias=True))
    centred = vectors - vectors.mean(axis=0)
    expected = np.zeros((len(vectors), dimensions))
    for number, row in enumerate(centred):
        for place in range(dimensions):
            expected[number, place] = (
                row @ directions[:, -1 - place] / values[-1 - place] ** 0.5
            )
    whitened = (vectors - mean) @ matrix
    np.testing.assert_allclose(
        np.cov(whitened.T, bias=True), np.eye(dimensions), atol=1e-6
    )
    # The sign of a direction is free.
    np.testing.assert_allclose(np.abs(whitened), np.abs(expected), rtol=1e-4, atol=1e-5)
    assert Whitening(Pairs(), dimensions=dimensions).output_width(WIDTH) == dimensions


def test_texts_are_those_of_all_columns_of_texts():
    texts = Whitening(Pairs()).texts(WIDTH)
    assert texts == [
        *(f"anchor {n}" for n in range(10)),
        *(f"positive {n}" for n in range(10)),
    ]


def test_of_many_texts_some_are_taken_at_equal_distances():
    texts = Whitening(Pairs(), max_texts=6).texts(WIDTH)
    assert texts == [
        "anchor 0",
        "anchor 3",
        "anchor 6",
        "positive 0",
        "positive 3",
        "positive 6",
    ]
    assert len(Whitening(Pairs(), max_texts=50).texts(WIDTH)) == 20


@pytest.mark.parametrize(
    ("fields", "count"), [({"max_texts": 5}, 5), ({"data": Pairs(count=2)}, 4)]
)
def test_too_few_texts_are_refused_before_anything_is_encoded(fields, count):
    with pytest.raises(
        DataError,
        match=rf"5 wide is fitted on {count} different texts .* take at least 6",
    ):
        Whitening(**{"data": Pairs(), **fields}).texts(WIDTH)


def test_vectors_that_vary_in_too_few_dimensions_are_refused():
    vectors = vectors_of(rank=3)
    with pytest.raises(
        ModelError,
        match=r"300 texts .* vary in 3 of 5 dimensions, and it keeps 5; set `dimen",
    ):
        Whitening(Pairs()).fit(vectors, NO_BACKBONE)
    mean, matrix = Whitening(Pairs(), dimensions=3).fit(vectors, NO_BACKBONE)
    np.testing.assert_allclose(
        np.cov(((vectors - mean) @ matrix).T, bias=True), np.eye(3), atol=1e-5
    )
    with pytest.raises(
        ModelError, match=r"vary in 0 of 5 dimensions, .* the encoder has collapsed"
    ):
        Whitening(Pairs()).fit(np.ones((9, WIDTH), np.float32), NO_BACKBONE)


@attrs.frozen
class Parts:
    """What of a recipe's encoder the transform looks at."""

    head: Head
    prompts: tuple[Any, ...] = (None,)


def test_what_cannot_work_is_refused_before_anything_is_built():
    (problem,) = Whitening(Pairs(columns=("label", "score"))).check()
    assert problem.startswith("the data source `in-memory` gives no texts to fit on")
    assert not [*Whitening(Pairs()).check()]
    whitening = Whitening(Pairs(), dimensions=4)
    assert not [*whitening.misfits(Parts(Head(projection=4)))]
    (problem,) = whitening.misfits(Parts(Head(projection=3)))
    assert (
        "keeps 4 dimensions of vectors that are 3 wide; set its `dimensions` to 3"
        in problem
    )
    (problem,) = whitening.misfits(Parts(Head(), (None, None)))
    assert "the encoder has 2; give it one `prompt`" in problem
    with pytest.raises(
        ModelError, match="keeps 4 dimensions of vectors that are 3 wide"
    ):
        whitening.output_width(3)
