"""sentbed: the test bed for sentence encoders."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import sentbed.sources  # noqa: F401 - its clock starts before any plugin is imported
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

if TYPE_CHECKING:
    from sentbed.encoder import Encoder
    from sentbed.recipe import load_recipe
    from sentbed.resuming import resume
    from sentbed.runner import build_encoder, run

__version__ = "0.1.0"

API_VERSION = "1.0"
"""What plugins are written against, MAJOR.MINOR: a minor version only adds; see `sentbed_api`."""

__all__ = [
    "API_VERSION",
    "DataError",
    "Encoder",
    "FilePath",
    "ModelError",
    "ModelId",
    "PluginError",
    "Problem",
    "RecipeError",
    "RunError",
    "RuntimeUnavailableError",
    "SentbedError",
    "build_encoder",
    "hookimpl",
    "load_recipe",
    "locate",
    "resume",
    "run",
]

_LAZY = {
    "Encoder": "encoder",
    "build_encoder": "runner",
    "load_recipe": "recipe",
    "resume": "resuming",
    "run": "runner",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Import what runs recipes when it is first used: a plugin that only declares a component needs none."""
    if name not in _LAZY:
        raise AttributeError(f"module `sentbed` has no attribute `{name}`")
    return getattr(import_module(f"sentbed.{_LAZY[name]}"), name)
