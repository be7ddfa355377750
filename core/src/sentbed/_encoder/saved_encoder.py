"""The files of a saved encoder, and its recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sentbed._document.structuring import structure, unstructure
from sentbed._recipe.recipe import SCHEMA, runs_code
from sentbed._registry.registry import Plugins
from sentbed._toml import parse
from sentbed.errors import ModelError, listed
from sentbed.protocols import EncoderRecipe

BACKBONE = "backbone"
"""Subdirectory of a saved encoder that has the backbone."""

ENCODER_FILE = "encoder.toml"
"""File of a saved encoder that has the encoder's part of the recipe."""


def encoder_table(recipe: EncoderRecipe) -> dict[str, Any]:
    """Return the data of `encoder.toml` for a saved encoder."""
    return {"schema": SCHEMA, **unstructure(recipe)}


def saved_recipe(
    directory: Path,
    plugins: Plugins,
    trust_remote_code: bool = False,
) -> EncoderRecipe:
    """Return the recipe of the encoder that is saved in a directory.

    Raises:
        ModelError: if the directory is not an encoder, or it would run code without `trust_remote_code`.
        RecipeError: if `encoder.toml` has problems, such as a component that is not installed.
    """
    file = directory / ENCODER_FILE
    if not file.is_file():
        advice = (
            "name the directory of an encoder that `Encoder.save` wrote; `sentbed import` makes one of a folder "
            "of sentence-transformers"
        )
        encoders = sorted((directory / "encoder").rglob(ENCODER_FILE))
        if encoders:
            # It is the directory of a run.
            advice = f"use {listed(str(path.parent) for path in encoders)}"
        raise ModelError(
            f"`{directory}` is not an encoder: it holds no `{ENCODER_FILE}`; {advice}"
        )

    document = parse(file.read_bytes(), str(file))
    schema = document.data.get("schema")
    if schema != SCHEMA:
        raise ModelError(
            f"`{file}` has `schema = {schema}`, this version of sentbed reads {SCHEMA}"
        )

    encoder = document.without("schema")
    recipe = structure(encoder, EncoderRecipe, plugins, directory.resolve())
    if runs_code(recipe) and not trust_remote_code:
        raise ModelError(
            f"the encoder in `{directory}` wants to run Python code that comes with its model "
            f"(`{directory / BACKBONE}/*.py`, or the hub's); read it, then pass `trust_remote_code=True` "
            "or, on the command line, `--trust-remote-code`"
        )
    return recipe
