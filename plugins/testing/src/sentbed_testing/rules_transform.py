"""Rules of a transform, which is fitted to random vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sentbed.protocols import BuiltBackbone

from sentbed_testing.component_under_test import NotRunError, Subject

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sentbed_testing.conformance import Findings

TOKENS = 100
"""Number of tokens in the backbone's output embedding."""


class RandomEmbedding(BuiltBackbone):
    """A backbone that has only a random output embedding."""

    def __init__(self, width: int) -> None:
        import numpy as np

        generator = np.random.default_rng(1)
        self.width = width
        self.embedding = generator.standard_normal((TOKENS, width)).astype(np.float32)

    def output_embedding(self) -> NDArray[np.float32]:
        """Return the embedding, `(tokens, width)`."""
        return self.embedding


def texts(subject: Subject) -> Findings:
    """`texts` returns the same list of strings in every call."""
    part = subject.ready
    sentences = part.texts(subject.width)
    is_list = isinstance(sentences, list | tuple)
    if not is_list or not all(isinstance(text, str) for text in sentences):
        yield (
            f"`texts` returned {sentences!r:.80}",
            "return a list of strings, which is empty if the transform needs no texts",
        )
    elif list(part.texts(subject.width)) != list(sentences):
        yield (
            "a second call of `texts` gives other texts",
            "draw no texts at random, or draw them from a `seed` that is a field",
        )


def fit(subject: Subject) -> Findings:
    """`fit` returns a finite mean and matrix of the declared widths, the same in every call."""
    import numpy as np

    part, width = subject.ready, subject.width
    output_width = part.output_width(width)
    is_integer = isinstance(output_width, int) and not isinstance(output_width, bool)
    if not is_integer or output_width < 1:
        yield (
            f"`output_width({width})` is {output_width!r}",
            "return the width of its vectors, at least 1",
        )
        return

    rows = len(part.texts(width))
    generator = np.random.default_rng(0)
    vectors = generator.standard_normal((rows, width)).astype(np.float32)
    passed_vectors = vectors.copy()
    backbone = RandomEmbedding(width)
    transform = _mean_and_matrix(part.fit(passed_vectors, backbone))
    if transform is None:
        yield "`fit` returned no mean and matrix", "return two NumPy arrays"
        return

    mean, matrix = transform
    if mean.shape != (width,) or matrix.shape != (width, output_width):
        yield (
            f"`fit` returned a mean of the shape {mean.shape} and a matrix of the shape {matrix.shape}",
            f"return {(width,)} and, as `output_width` says, {(width, output_width)}",
        )
    elif not (np.isfinite(mean).all() and np.isfinite(matrix).all()):
        yield (
            "`fit` returned NaN or infinite values",
            "raise `ModelError` if the vectors allow no fit",
        )

    if not np.array_equal(passed_vectors, vectors):
        yield "`fit` writes into its vectors", "change a copy"
    second = _mean_and_matrix(part.fit(vectors.copy(), backbone))
    if second is None or not all(map(np.array_equal, transform, second)):
        yield (
            "a second call of `fit` gives another transform",
            "draw no random numbers, and keep nothing between calls",
        )


def equal_vectors(subject: Subject) -> Findings:
    """For vectors that are all equal, `fit` returns finite numbers or raises `ModelError`."""
    import numpy as np
    from sentbed import ModelError

    part, width = subject.ready, subject.width
    rows = len(part.texts(width))
    if not rows:
        raise NotRunError("it is fitted on no texts")
    vectors = np.ones((rows, width), np.float32)
    try:
        result = part.fit(vectors, RandomEmbedding(width))
    except ModelError:
        return

    transform = _mean_and_matrix(result)

    if transform is None or not all(np.isfinite(array).all() for array in transform):
        yield (
            "for vectors that are all equal, `fit` returned NaN or infinite values",
            "raise `ModelError` with what was found and what to do",
        )


def _mean_and_matrix(
    transform: Any,
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return a result of `fit` as two arrays, or None if it is something else."""
    import numpy as np

    try:
        mean, matrix = (np.asarray(array, np.float64) for array in transform)
    except (TypeError, ValueError):
        return None
    return mean, matrix


RULES = {"texts": texts, "fit": fit, "equal-vectors": equal_vectors}
