"""The transform `embed-filter`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs
from attrs.validators import ge, gt, optional
from sentbed import ModelError
from sentbed.protocols import BuiltBackbone, EncoderRecipe, Transform

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BLOCK = 8192
"""Number of rows of the output embedding that are converted to float64 at a time."""


@attrs.frozen
class EmbedFilter(Transform):
    """Vectors of a language model without the directions in which it writes frequent tokens.

    Let W `(tokens, d)` = U S V^T be the output embedding. Its largest and its smallest singular directions
    raise the logits of frequent tokens, so only the middle directions of a vector x are kept. The new vector is
    x V[:, l:r] with r - l = d / tau.

    W may be tied to the input embedding. It does not include the gain of the model's norm before it. The sign of
    each direction is chosen so that its largest component is positive.

    Source: Wu et al. (2026), arXiv 2606.07502.
    """

    name = "embed-filter"
    cites = ("wu2026embedfilter",)

    tau: float = attrs.field(default=2.0, validator=gt(1))
    """Factor by which the number of dimensions is divided: d / tau, rounded down, are kept."""
    first: int | None = attrs.field(default=None, validator=optional(ge(0)))
    """The number l: how many directions are left out among those with the largest singular values. By default, it
    is half of the number of all directions that are left out, so that the middle ones are kept. The paper uses
    128 for Mistral-7B."""

    def misfits(self, place: EncoderRecipe) -> Iterator[str]:
        """Yield a problem if the backbone has no output embedding, or vectors are not states of the backbone."""
        if not place.backbone.predicts:
            yield (
                "the transform `embed-filter` needs the output embedding of a language model, and the "
                f"backbone `{place.backbone.name}` has none with these settings: it has no head that "
                "predicts tokens, has one with random weights, or reads other layers than the last; use a "
                "pretrained causal model"
            )
        if place.head.projection is not None:
            yield (
                "the transform `embed-filter` takes vectors in the space of the model's states, and the "
                "head's `projection` makes others; take `projection` out"
            )

    def output_width(self, width: int) -> int:
        """Return the width of the new vectors.

        Raises:
            ModelError: if `width` is too small for `tau` and `first`.
        """
        first, last = self._kept(width)
        return last - first

    def fit(
        self, vectors: NDArray[np.float32], backbone: BuiltBackbone
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return a mean of zeros, and the matrix by which vectors are multiplied.

        Raises:
            ModelError: if the output embedding has another width than the vectors, or has NaN or infinity.
        """
        import numpy as np

        width = vectors.shape[1]
        embedding: NDArray[np.float32] = backbone.output_embedding()
        if embedding.shape[1] != width:
            raise ModelError(
                f"the transform `embed-filter` is given vectors that are {width} wide, and the rows of the "
                f"model's output embedding have {embedding.shape[1]} values; use a pooler that returns "
                "states of the last layer, such as `prompt-eol` or `mean`"
            )
        if not np.isfinite(embedding).all():
            raise ModelError(
                "the model's output embedding has NaN or infinite values; fetch the model again"
            )

        # The eigenvectors of W^T W are the right singular vectors of W. This needs no memory for U. Squaring the
        # singular values loses precision, but float64 has enough.
        squares = np.zeros((width, width))
        for start in range(0, len(embedding), BLOCK):
            rows = embedding[start : start + BLOCK].astype(np.float64)
            squares += rows.T @ rows

        first, last = self._kept(width)
        ascending = np.linalg.eigh(squares).eigenvectors
        directions = ascending[:, ::-1][:, first:last]
        # The sign of an eigenvector is arbitrary, and is set so that the largest component is positive.
        largest = np.abs(directions).argmax(axis=0, keepdims=True)
        directions = directions * np.sign(np.take_along_axis(directions, largest, 0))
        return np.zeros(width), directions

    def _kept(self, width: int) -> tuple[int, int]:
        """Return the numbers l and r for vectors of this width. Raises `ModelError` if they do not fit."""
        count = int(width / self.tau)
        first = self.first
        if first is None:
            first = (width - count) // 2
        if count < 1 or first + count > width:
            raise ModelError(
                f"the transform `embed-filter` keeps {count} directions (`tau = {self.tau:g}`) after the "
                f"first {first} of {width}; take a `tau` between 1 and {width}, and a `first` of at most "
                f"{width - max(count, 1)}"
            )

        return first, first + count
