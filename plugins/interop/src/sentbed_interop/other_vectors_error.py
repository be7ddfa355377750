"""The error of an export that does not give the encoder's vectors."""

from __future__ import annotations

from sentbed import ModelError


class OtherVectorsError(ModelError):
    """The folder was written, but does not load as the same encoder."""
