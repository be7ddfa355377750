"""What the classes for other libraries share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sentbed import Encoder


def load(encoder: str | Path, precision: str) -> Encoder:
    """Load an encoder on the runtime `cpu`. Raises `ModelError`, or `RecipeError` for the precision."""
    from sentbed import Encoder

    return Encoder.load(encoder, runtime={"use": "cpu", "precision": precision})


def missing(library: str, extra: str) -> ImportError:
    """Return the error for a library that is not installed."""
    return ImportError(
        f"{library} is not installed; install it with `pip install 'sentbed-interop[{extra}]'`"
    )
