"""sentbed: the test bed for sentence encoders."""

from __future__ import annotations

from sentbed.errors import (
    DataError,
    ModelError,
    PluginError,
    Problem,
    RecipeError,
    RunError,
    RuntimeUnavailableError,
    SentbedError,
)
from sentbed.hookspecs import hookimpl
from sentbed.paths import FilePath, ModelId, locate

__version__ = "0.1.0"

__all__ = [
    "DataError",
    "FilePath",
    "ModelError",
    "ModelId",
    "PluginError",
    "Problem",
    "RecipeError",
    "RunError",
    "RuntimeUnavailableError",
    "SentbedError",
    "hookimpl",
    "locate",
]
