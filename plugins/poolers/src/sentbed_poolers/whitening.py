"""The transform `whitening`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import attrs
from attrs.validators import ge, optional
from sentbed import DataError, ModelError
from sentbed.helpers import returned
from sentbed.protocols import (
    LABEL,
    BuiltBackbone,
    ComponentTraits,
    Dataset,
    DataSource,
    EncoderParts,
    Transform,
)
from sentbed_common import whitening_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@attrs.frozen
class Whitening(Transform):
    """Vectors with mean 0 and covariance 1 on the texts that it is fitted on.

    With the mean m and the covariance S = U diag(l) U^T (l descending) of the texts' vectors, a vector x
    becomes (x - m) U diag(l)^-1/2, of which the first `dimensions` components are kept. The covariance is
    taken over n texts, repeated ones included, in float64.

    Source: Su et al. (2021), algorithm 1.
    """

    name = "whitening"
    traits = ComponentTraits(cites=("su2021whitening",))

    data: DataSource
    """Source of the texts, of which no labels are used: all columns of texts, more texts than dimensions."""
    dimensions: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Components to keep, those of the largest variance: 256 for base and 384 for large models in the paper;
    default: all."""
    max_texts: int | None = attrs.field(default=None, validator=optional(ge(2)))
    """Texts to fit on at most, at equal distances in the data; default: all."""

    def check(self) -> Iterator[str]:
        """Yield that the data has no texts."""
        if not self._columns(self.data.columns):
            yield (
                f"the data source `{self.data.name}` gives no texts to fit on; choose one that does, such as "
                "`pairs`"
            )

    def misfits(self, encoder: EncoderParts) -> Iterator[str]:
        """Yield that the encoder has several prompts, or vectors that are too narrow."""
        if len(encoder.prompts) > 1:
            yield (
                "the transform `whitening` is fitted on the vectors of one prompt, and the encoder has "
                f"{len(encoder.prompts)}; give it one `prompt`, or whiten in the evaluator (`whitening`)"
            )

        width = encoder.head.projection
        if width is not None and (self.dimensions or 0) > width:
            yield _too_many(self.dimensions, width)

    def output_width(self, width: int) -> int:
        """Return `dimensions`; raises `ModelError` if the vectors are narrower."""
        if (self.dimensions or 0) > width:
            raise ModelError(_too_many(self.dimensions, width))

        return self.dimensions or width

    def texts(self, width: int) -> Sequence[str]:
        """Return the texts of the data; raises `DataError` if there are not more of them than dimensions."""
        dataset = returned(self.data.open(), Dataset, self.data, "open")
        texts = list(dataset.texts(self._columns(dataset.columns)))
        if self.max_texts is not None and len(texts) > self.max_texts:
            texts = [
                texts[number * len(texts) // self.max_texts]
                for number in range(self.max_texts)
            ]

        distinct = len(set(texts))
        if distinct <= width:
            raise DataError(
                f"the whitening of vectors that are {width} wide is fitted on {distinct} different texts of "
                f"`{self.data.name}`, which have a singular covariance; take at least {width + 1} (`data`, "
                "`max_texts`)"
            )

        return texts

    def fit(
        self, vectors: NDArray[np.float32], backbone: BuiltBackbone
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean and matrix; raises `ModelError` if the vectors vary in too few dimensions."""
        mean, kernel = whitening_of(vectors)
        rank, dimensions = kernel.shape[1], self.output_width(vectors.shape[1])
        if rank < dimensions:
            remedy = "the encoder has collapsed: do not whiten it"
            if rank:
                remedy = f"set `dimensions` to {rank} or less"

            raise ModelError(
                f"the vectors of the {len(vectors)} texts that the whitening is fitted on vary in {rank} of "
                f"{vectors.shape[1]} dimensions, and it keeps {dimensions}; {remedy}, or fit it on other "
                "texts"
            )

        return mean, kernel[:, :dimensions]

    def _columns(self, columns: Sequence[str]) -> list[str]:
        """Return the columns of texts."""
        return [
            name for name in columns if name not in {LABEL, *self.data.traits.numbers}
        ]


def _too_many(dimensions: int | None, width: int) -> str:
    return (
        f"the transform `whitening` keeps {dimensions} dimensions of vectors that are {width} wide; set its "
        f"`dimensions` to {width} or less"
    )
