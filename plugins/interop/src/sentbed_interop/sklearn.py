"""Saved encoders as transformers for scikit-learn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentbed_interop.lazy_encoder import LazyEncoder, missing_library

try:
    # Only users import this module, so that the plugin can be registered without the library.
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
    """scikit-learn transformer that encodes texts with a saved encoder.

    `encoder` is the directory of the encoder, and `precision` the precision of the runtime `cpu`: `fp32`, `bf16`
    or `auto`. Python code that comes with the model runs only with `trust_remote_code`.

    Nothing is learned: `fit` only checks the texts and loads the encoder. Each instance loads the encoder once;
    pickles and clones do not contain it.
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
        """Check the texts and load the encoder; nothing is learned from the texts."""
        _texts(X)
        self._encoder()
        return self

    def transform(self, X: Iterable[str]) -> NDArray[np.float32]:  # noqa: N803 - scikit-learn's name
        """Return float32 `(texts, width)`, one row per text."""
        return self._encoder().encode(_texts(X))

    def fit_transform(
        self,
        X: Iterable[str],  # noqa: N803 - scikit-learn's name
        y: object = None,
    ) -> NDArray[np.float32]:
        """Return `transform(X)`. An iterator of texts, which `fit` would use up, is read once."""
        return self.transform(X)

    def _encoder(self) -> Encoder:
        options = self.encoder, self.precision, self.trust_remote_code
        held: LazyEncoder = getattr(self, "_held", LazyEncoder(*options))
        # `at` returns a new one if `set_params` has changed the options.
        self._held = held.at(*options)
        return self._held.encoder

    @property
    def _n_features_out(self) -> int:
        # The mixin gives as many names to output columns.
        return self._encoder().width

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.requires_fit = False
        tags.transformer_tags.preserves_dtype = []
        return tags


def _texts(texts: Any) -> list[str]:
    """Return the texts of a list, an array or a column as a list.

    Raises:
        ValueError: if it is one value, has several dimensions, or has something else than strings.
        TypeError: if it is no sequence.
    """
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
