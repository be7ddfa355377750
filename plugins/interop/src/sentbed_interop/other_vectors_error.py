"""The error of an export whose model gives other vectors than the encoder."""

from __future__ import annotations

from sentbed import ModelError


class OtherVectorsError(ModelError):
    """The exported model gives other vectors than the encoder, although its format supports the encoder."""
