"""The files of a saved encoder, and its recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sentbed._document.structuring import structure, unstructure
from sentbed._recipe.recipe import SCHEMA, runs_code
from sentbed._registry.registry import Plugins
from sentbed._toml import parse
from sentbed.errors import ModelError
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
        raise ModelError(_no_encoder(directory))

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


def _no_encoder(directory: Path) -> str:
    """Return the message for a directory that is not a saved encoder."""
    files = [
        *directory.glob(f"*/{ENCODER_FILE}"),
        *directory.glob(f"encoder/*/{ENCODER_FILE}"),  # those of a run with several
    ]
    encoders = sorted(f"`{file.parent}`" for file in files)
    if encoders:
        return f"`{directory}` is not an encoder, it holds some; use {' or '.join(encoders)}"
    if (directory / "modules.json").is_file():
        return (
            f"`{directory}` is a folder of sentence-transformers, not an encoder of sentbed; make one of it "
            f"with `sentbed import {directory} NEW_DIRECTORY --from sentence-transformers`, and name that"
        )
    fault = f"holds no `{ENCODER_FILE}`" if directory.exists() else "does not exist"
    return (
        f"`{directory}` is not an encoder (it {fault}); "
        "name the directory `encoder` of a run that has finished, or one that `Encoder.save` wrote"
    )
