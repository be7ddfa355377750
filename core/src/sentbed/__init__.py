"""sentbed: a test bed for sentence encoders."""

from __future__ import annotations

# mypy: implicit-reexport
from typing import TYPE_CHECKING

from sentbed._lazy_exports import lazy as _lazy

if TYPE_CHECKING:
    from sentbed._encoder.encoder import Encoder
    from sentbed._locations import FilePath, ModelId, locate
    from sentbed._recipe.load import load_recipe
    from sentbed._run.encoder_building import build_encoder
    from sentbed._run.runner import resume, run
    from sentbed._version import __version__
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

if not TYPE_CHECKING:
    __getattr__, __dir__ = _lazy(__name__)
