"""Whitening of vectors before they are scored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
from attrs.validators import ge, optional
from sentbed import FilePath, RunError, locate
from sentbed.protocols import Evaluation, Output, Prepared, Texts, Vectors
from sentbed_common import require_finite, whitening_of

from sentbed_evaluators.similarities import ALL_OUTPUTS
from sentbed_evaluators.text_lines import (
    Hashes,
    read_lines,
    text_file_problems,
    texts_digest,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FITTED = "whitening"
"""Name of the list that has the texts of `path`."""


@attrs.frozen
class Whitening:
    """`whitening`: map vectors to mean 0 and identity covariance before they are scored.

    From the vectors of some texts, the mean m and the covariance S = U diag(l) U^T (l descending) are computed,
    in float64 and without labels. A vector x becomes (x - m) U diag(l)^-1/2, of which the first `width`
    components are kept. The whitening is fitted whenever the evaluator scores.

    The protocol of a score describes the fitted texts as a part of the encoder: a score with whitening and one
    without it are compared like scores of two encoders.

    Components along which the vectors do not vary are left out. If all vectors are equal, they become zeros.

    Source: Su et al. (2021), algorithm 1.
    """

    path: FilePath | None = None
    """Text file with one sentence per line, on which the whitening is fitted. Default: each task is whitened by
    the vectors of its own texts, of both sides; this is the paper's setting `target`. For the paper's setting
    `NLI`, name a file of NLI sentences."""
    width: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Number of components to keep; for base models, the paper keeps 256 of 768. Default: all components along
    which the vectors vary."""

    def problems(self) -> Iterator[str]:
        """Yield problems that can be found without reading the file."""
        if self.path is not None:
            yield from text_file_problems(self.path)

    def applied(self, prepared: Prepared) -> Prepared:
        """Return an evaluation that whitens the vectors before it scores them.

        Each score must depend on one list of texts: the only list, or the list with the name of the score's task.
        Raises `DataError` if the file cannot be read.
        """
        lists, source = prepared.lists, None
        if self.path is not None:
            path, hashes = locate(self.path), Hashes()
            texts = read_lines(path, hashes=hashes)
            source = {"fitted_on": path.name, "texts": len(texts), "data": hashes[path]}
            lists = {**lists, _FITTED: Texts(texts)}
        return attrs.evolve(
            prepared, lists=lists, score=partial(self._score, prepared, source)
        )

    def _score(
        self,
        prepared: Prepared,
        source: Mapping[str, Any] | None,
        vectors: Vectors,
    ) -> Evaluation:
        """Whiten the vectors and score them.

        Raises `RunError` if an embedding is not finite, or the vectors vary along fewer than `width` directions.
        """
        fit_of_file = None
        if source is not None:
            texts = vectors.lists[_FITTED].both
            rows = require_finite(vectors[_FITTED], texts)
            fit_of_file = Fit(*fit_whitening(rows, self.width), source)
        white = _Whitened(
            prepared.lists,
            vectors.encoder,
            vectors.second,
            vectors.device,
            vectors.progress,
            original=vectors,
            width=self.width,
            fit_of_file=fit_of_file,
        )
        evaluation = prepared.score(white)
        scores = []
        for score in evaluation.scores:
            name = score.task
            if len(prepared.lists) == 1:
                (name,) = prepared.lists
            fit = white.fits[name]
            scores.append(attrs.evolve(score, transform={"whitening": fit.protocol}))
        return attrs.evolve(evaluation, scores=tuple(scores))


def whitened(prepared: Prepared, whitening: Whitening | None) -> Prepared:
    """Return an evaluation of whitened vectors; if `whitening` is None, return `prepared`.

    Raises `DataError` if the file of the whitening cannot be read.
    """
    return prepared if whitening is None else whitening.applied(prepared)


def citations(whitening: Whitening | None) -> tuple[str, ...]:
    """Return the keys of the papers to cite for a whitening; empty if there is none."""
    return () if whitening is None else ("su2021whitening",)


def outputs_read(whitening: Whitening | None) -> frozenset[Output]:
    """Return the outputs of poolers that an evaluator can read: with a whitening, only vectors."""
    return ALL_OUTPUTS if whitening is None else frozenset({"vector"})


@attrs.frozen(eq=False)
class Fit:
    """A fitted whitening, and a description of the texts on which it was fitted."""

    mean: NDArray[np.float64]
    """`(width of a vector,)`."""
    kernel: NDArray[np.float64]
    """`(width of a vector, components)`."""
    source: Mapping[str, Any]
    """Description of the texts, for the protocol of a score."""

    @property
    def protocol(self) -> dict[str, Any]:
        """Description of the whitening, for the protocol of a score."""
        return {**self.source, "width": self.kernel.shape[1]}


@attrs.frozen(eq=False, kw_only=True)
class _Whitened(Vectors):
    """The vectors of each list, whitened when they are read."""

    original: Vectors
    width: int | None
    fit_of_file: Fit | None
    """The whitening that was fitted on a file; None if one is fitted on each list."""
    fits: dict[str, Fit] = attrs.field(factory=dict)
    """The whitening that was used for each list, by the name of the list."""

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        import numpy as np

        texts = self.lists[name].both
        rows = require_finite(self.original[name], texts)
        fit = self.fit_of_file
        if fit is None:
            source = {
                "fitted_on": "the texts of the task",
                "texts": len(texts),
                "data": texts_digest(texts),
            }
            fit = Fit(*fit_whitening(rows, self.width), source)
        self.fits[name] = fit
        white: NDArray[np.float32] = ((rows - fit.mean) @ fit.kernel).astype(np.float32)
        return white


def fit_whitening(
    vectors: NDArray[np.float32], width: int | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean `(dimension,)` and the kernel `(dimension, width)` of the whitening of vectors.

    If all vectors are equal, the kernel is a column of zeros. Raises `RunError` if the vectors vary along fewer
    than `width` directions.
    """
    import numpy as np

    mean, kernel = whitening_of(vectors)
    rank = kernel.shape[1]
    if rank == 0:
        return mean, np.zeros((len(mean), 1))
    if width is not None and width > rank:
        raise RunError(
            f"`width` is {width}, and the vectors of the {len(vectors)} texts that the whitening is fitted "
            f"on vary in {rank} dimensions; lower `width`, or fit it on more texts (`path`)"
        )
    return mean, kernel[:, :width]
