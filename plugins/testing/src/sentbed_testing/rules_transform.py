"""Rules of a transform, tested on random vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sentbed.protocols import BuiltBackbone

from sentbed_testing.component_under_test import NotRunError, Subject

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sentbed_testing.conformance import Findings

TOKENS = 100
"""Number of rows of the output embedding that a transform is given."""


class RandomEmbedding(BuiltBackbone):
    """A backbone that has only an output embedding, with random values."""

    def __init__(self, width: int) -> None:
        import numpy as np

        self.width = width
        self.embedding = (
            np.random.default_rng(1).standard_normal((TOKENS, width)).astype(np.float32)
        )

    def output_embedding(self) -> NDArray[np.float32]:
        """Return `(tokens, width)`."""
        return self.embedding


def texts(subject: Subject) -> Findings:
    """`texts` returns a list of strings, the same every time."""
    part = subject.ready
    sentences = part.texts(subject.width)
    if not isinstance(sentences, list | tuple) or not all(
        isinstance(text, str) for text in sentences
    ):
        yield (
            f"`texts` returned {sentences!r:.80}",
            "return a list of strings, empty if it is fitted on none",
        )
    elif list(part.texts(subject.width)) != list(sentences):
        yield (
            "a second call of `texts` gives others",
            "let nothing be drawn, or from a seed that is a field",
        )


def fit(subject: Subject) -> Findings:
    """`fit` returns a finite mean and matrix of the declared widths, the same every time."""
    import numpy as np

    part, width = subject.ready, subject.width
    to = part.output_width(width)
    if not isinstance(to, int) or isinstance(to, bool) or to < 1:
        yield (
            f"`output_width({width})` is {to!r}",
            "return the width of its vectors, at least 1",
        )
        return

    rows = len(part.texts(width))
    vectors = np.random.default_rng(0).standard_normal((rows, width)).astype(np.float32)
    passed_vectors, backbone = vectors.copy(), RandomEmbedding(width)
    transform = _arrays(part.fit(passed_vectors, backbone))
    if transform is None:
        yield "`fit` returned no mean and matrix", "return two arrays of NumPy"
        return
    mean, matrix = transform
    if mean.shape != (width,) or matrix.shape != (width, to):
        yield (
            f"`fit` returned a mean of the shape {mean.shape} and a matrix of the shape {matrix.shape}",
            f"return {(width,)} and, as `output_width` says, {(width, to)}",
        )
    elif not (np.isfinite(mean).all() and np.isfinite(matrix).all()):
        yield (
            "`fit` returned NaN or infinite values",
            "raise `ModelError` where vectors allow no fit",
        )

    if not np.array_equal(passed_vectors, vectors):
        yield "`fit` writes into its vectors", "take a copy first"
    again = _arrays(part.fit(vectors.copy(), backbone))
    if again is None or not all(map(np.array_equal, transform, again)):
        yield (
            "a second call of `fit` gives another transform",
            "let nothing be drawn or kept between calls",
        )


def equal_vectors(subject: Subject) -> Findings:
    """Fitted to vectors that are all equal, it returns finite numbers or raises `ModelError`."""
    import numpy as np
    from sentbed import ModelError

    part, width = subject.ready, subject.width
    rows = len(part.texts(width))
    if not rows:
        raise NotRunError("it is fitted on no texts")
    try:
        transform = _arrays(
            part.fit(np.ones((rows, width), np.float32), RandomEmbedding(width))
        )
    except ModelError:
        return

    if transform is None or not all(np.isfinite(array).all() for array in transform):
        yield (
            "of vectors that are all equal, `fit` returned NaN or infinite values",
            "raise `ModelError`, with what was found and what to do",
        )


def _arrays(transform: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    import numpy as np

    try:
        mean, matrix = (np.asarray(array, np.float64) for array in transform)
    except (TypeError, ValueError):
        return None
    return mean, matrix


RULES = {"texts": texts, "fit": fit, "equal-vectors": equal_vectors}
