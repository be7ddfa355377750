"""Saved encoders as transformers of scikit-learn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentbed_interop.lazy_encoder import LazyEncoder, missing_library

try:
    # Users import this module; the plugin's registration does not.
    from sklearn.base import (
        BaseEstimator,
        ClassNamePrefixFeaturesOutMixin,
        TransformerMixin,
    )
except ImportError as error:
    raise missing_library("scikit-learn", "sklearn") from error

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from sentbed import Encoder


class SentbedVectorizer(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]  # scikit-learn ships no types
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Texts -> their vectors, by an encoder on disk.

    `encoder` is the directory of a saved encoder and `precision` that of the runtime `cpu`: `fp32`, `bf16`
    or `auto`. Python code that comes with its model runs only with `trust_remote_code`. Nothing is learned:
    `fit` only looks at the texts and whether the encoder loads. It is loaded once an instance, and not part
    of a pickle or a clone.
    """

    def __init__(
        self,
        encoder: str | Path = "encoder",
        precision: str = "fp32",
        trust_remote_code: bool = False,
    ) -> None:
        self.encoder = encoder
        self.precision = precision
        self.trust_remote_code = trust_remote_code

    def fit(self, X: Sequence[str], y: object = None) -> SentbedVectorizer:  # noqa: N803 - scikit-learn's name
        """Load the encoder; nothing is learned from the texts."""
        _texts(X)
        self._encoder()
        return self

    def transform(self, X: Sequence[str]) -> NDArray[np.float32]:  # noqa: N803 - scikit-learn's name
        """Return float32 `(len(X), width)`, one row per text."""
        return self._encoder().encode(_texts(X))

    def _encoder(self) -> Encoder:
        options = self.encoder, self.precision, self.trust_remote_code
        self._held: LazyEncoder = getattr(self, "_held", LazyEncoder(*options)).at(
            *options
        )
        return self._held.encoder

    @property
    def _n_features_out(self) -> int:
        # scikit-learn derives the number of column names from it.
        return self._encoder().width

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.requires_fit = False
        tags.transformer_tags.preserves_dtype = []
        return tags


def _texts(texts: Any) -> list[str]:
    """Return a list of the texts in a list, an array or a column; raises `ValueError` or `TypeError`."""
    dimensions = getattr(texts, "ndim", 1)
    if isinstance(texts, str) or dimensions == 0:
        raise ValueError(
            "expected a sequence of texts, found one value; put it in a list"
        )
    if isinstance(texts, Mapping | Set) or not isinstance(texts, Iterable):
        raise TypeError(
            f"expected a sequence of texts, found {type(texts).__name__}; give a list, an array or a column"
        )
    if dimensions != 1:
        raise ValueError(
            f"expected a sequence of texts, found {dimensions} dimensions; name one column"
        )
    strings = []
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"text {row} is {text!r}, expected a string")  # noqa: TRY004 - scikit-learn's kind
        strings.append(str(text))

    return strings
