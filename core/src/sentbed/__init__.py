"""sentbed: the test bed for sentence encoders."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import sentbed._source_hash  # noqa: F401 - its clock starts before any plugin is imported
from sentbed._paths import FilePath, ModelId, locate
from sentbed._version import API_VERSION, __version__
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

if TYPE_CHECKING:
    from sentbed._encoder.encoder import Encoder
    from sentbed._recipe.load import load_recipe
    from sentbed._run.resume import resume
    from sentbed._run.runner import build_encoder, run

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
    "__version__",
    "build_encoder",
    "hookimpl",
    "load_recipe",
    "locate",
    "resume",
    "run",
]

_LAZY = {
    "Encoder": "_encoder.encoder",
    "build_encoder": "_run.runner",
    "load_recipe": "_recipe.load",
    "resume": "_run.resume",
    "run": "_run.runner",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Import what runs recipes when it is first used: a plugin that only declares a component needs none."""
    if name not in _LAZY:
        raise AttributeError(f"module `sentbed` has no attribute `{name}`")
    return getattr(import_module(f"sentbed.{_LAZY[name]}"), name)
