"""Training losses for sentbed: sentence vectors -> a scalar to minimise."""

from __future__ import annotations

from sentbed import hookimpl
from sentbed.protocols import Loss

from sentbed_losses.info_nce import InfoNCE

__all__ = ["InfoNCE", "losses"]


@hookimpl
def losses() -> list[type[Loss]]:
    """Return the losses of this distribution."""
    return [InfoNCE]
