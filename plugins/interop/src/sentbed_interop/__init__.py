"""Encoders of sentbed elsewhere, and encoders from elsewhere in sentbed."""

from __future__ import annotations

from sentbed import hookimpl
from sentbed.protocols import Exporter, Importer

__all__ = ["exporters", "importers"]


@hookimpl
def exporters() -> list[type[Exporter]]:
    """Return the exporters of this distribution."""
    return []


@hookimpl
def importers() -> list[type[Importer]]:
    """Return the importers of this distribution."""
    return []
