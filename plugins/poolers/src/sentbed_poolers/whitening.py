"""The transform `whitening`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import attrs
from attrs.validators import ge, optional
from sentbed import DataError, ModelError
from sentbed.protocols import (
    LABEL,
    BuiltBackbone,
    DataSource,
    EncoderRecipe,
    Transform,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@attrs.frozen
class Whitening(Transform):
    """Vectors with mean 0 and covariance 1 on the texts that it is fitted on.

    Let m be the mean and S = U diag(l) U^T the covariance of the texts' vectors, with l in descending order. A
    vector x becomes (x - m) U diag(l)^-1/2, cut to its first `dimensions` components. The covariance divides by
    the number of texts, counts a repeated text repeatedly, and is computed in float64.

    Source: Su et al. (2021), algorithm 1.
    """

    name = "whitening"
    cites = ("su2021whitening",)

    data: DataSource
    """Data source of the texts to fit on. All its columns of texts are used, and no labels. There must be more
    different texts than a vector has components before the whitening."""
    dimensions: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Number of components to keep: those with the largest variance. Default: all components. The paper uses 256
    for base and 384 for large models."""
    max_texts: int | None = attrs.field(default=None, validator=optional(ge(2)))
    """Largest number of texts to fit on. They are taken at equal distances in the data; default: all texts."""

    def check(self) -> Iterator[str]:
        """Yield a problem if the data source has no columns of texts."""
        if not self._columns(self.data.columns):
            yield (
                f"the data source `{self.data.name}` gives no texts to fit on; choose one that does, such as "
                "`pairs`"
            )

    def misfits(self, place: EncoderRecipe) -> Iterator[str]:
        """Yield a problem if the encoder has several prompts, or vectors narrower than `dimensions`."""
        if len(place.prompts) > 1:
            yield (
                "the transform `whitening` is fitted on the vectors of one prompt, and the encoder has "
                f"{len(place.prompts)}; give it one `prompt`"
            )

        width = place.head.projection
        if width is not None and (self.dimensions or 0) > width:
            yield _too_many(self.dimensions, width)

    def output_width(self, width: int) -> int:
        """Return the width of the new vectors. Raises `ModelError` if `width` is below `dimensions`."""
        if (self.dimensions or 0) > width:
            raise ModelError(_too_many(self.dimensions, width))

        return self.dimensions or width

    def texts(self, width: int) -> Sequence[str]:
        """Return the texts to fit on. Raises `DataError` if fewer than `width` + 1 of them are different."""
        dataset = self.data.open()
        texts = list(dataset.texts(self._columns(dataset.columns)))
        if self.max_texts is not None and len(texts) > self.max_texts:
            chosen = []
            for number in range(self.max_texts):
                chosen.append(texts[number * len(texts) // self.max_texts])
            texts = chosen

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
        """Return the mean and the matrix. Raises `ModelError` if the vectors vary in fewer dimensions than are
        kept."""
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
        """Return those of the columns that hold texts, not labels or numbers."""
        without_texts = {LABEL, *self.data.numbers}
        return [name for name in columns if name not in without_texts]


def _too_many(dimensions: int | None, width: int) -> str:
    """Return the message for vectors that are narrower than `dimensions`."""
    return (
        f"the transform `whitening` keeps {dimensions} dimensions of vectors that are {width} wide; set its "
        f"`dimensions` to {width} or less"
    )


def whitening_of(
    vectors: NDArray[np.float32],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean `(width,)` and kernel `(width, rank)` that whiten vectors `(n, width)`, in float64.

    `(vectors - mean) @ kernel` has mean 0 and the identity as its covariance (divided by n, not n - 1). The
    kernel's columns are in descending order of variance; its first columns whiten to fewer dimensions. `rank`
    is the number of directions in which the vectors vary by more than the rounding of fp32: 0 if all vectors
    are equal.

    Source: Su et al. (2021), algorithm 1.
    """
    import numpy as np

    rows = vectors.astype(np.float64)
    mean = rows.mean(axis=0)
    # The eigenvalues of the covariance are the squared singular values of the centred rows, divided by n. Small
    # eigenvalues are more exact this way than computed from the covariance.
    values, components = _singular(rows - mean)
    # Singular values below `noise` are rounding errors of vectors in fp32.
    largest = np.abs(rows).max(initial=0.0)
    noise = largest * max(rows.shape) ** 0.5 * np.finfo(np.float32).eps
    rank = int((values > noise).sum())
    return mean, components[:rank].T * (len(rows) ** 0.5 / values[:rank])


def _singular(
    rows: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the singular values of a matrix, descending, and its right singular vectors as rows."""
    import numpy as np

    if len(rows) > rows.shape[1]:
        # The triangular factor (QR) of a tall matrix is small, with the same singular values and vectors.
        rows = np.asarray(np.linalg.qr(rows, mode="r"))

    _, values, components = np.linalg.svd(rows, full_matrices=False)
    return values, components
