"""The files of a saved encoder: its recipe, and the checksums of its weights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sentbed._document.structuring import structure, unstructure
from sentbed._document.toml import Document, parse
from sentbed._files import SUMS_FILE, verified_sums
from sentbed._recipe.recipe import SCHEMA, EncoderRecipe
from sentbed._registry.computing_code import components_of
from sentbed._registry.registry import Plugins, load_plugins
from sentbed.errors import ModelError, Problem, RecipeError, printable

BACKBONE = "backbone"
"""Subdirectory of a saved encoder that has the backbone."""

ENCODER_FILE = "encoder.toml"
"""File of a saved encoder that has the encoder's part of the recipe."""

DISTRIBUTIONS = "distributions"
"""Table in `encoder.toml` with the versions of the distributions that have the encoder's components."""


def encoder_table(
    recipe: EncoderRecipe,
    plugins: Plugins | None = None,
) -> dict[str, Any]:
    """Return the data of `encoder.toml` for a saved encoder.

    The plugins of the encoder's components are found among `plugins`, which are loaded by default.
    """
    table = {"schema": SCHEMA, **unstructure(recipe)}
    plugins = plugins or load_plugins()
    releases: dict[str, str] = {}
    for cls in components_of(recipe):
        info = plugins.origin(cls)
        if info is not None:
            releases[info.distribution] = info.version
    if releases:
        table[DISTRIBUTIONS] = dict(sorted(releases.items()))
    return table


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
    try:
        is_file = file.is_file()
    except OSError as error:
        raise ModelError(
            f"`{directory}` cannot be a path: {error.strerror}; check the path"
        ) from error
    if not is_file:
        raise ModelError(_no_encoder(directory))

    document = parse(file.read_bytes(), str(file))
    schema = document.data.get("schema")
    if schema != SCHEMA:
        raise ModelError(
            f"`{file}` has `schema = {schema}`, this version of sentbed reads {SCHEMA}"
        )

    base = directory.resolve()
    encoder = document.without("schema", DISTRIBUTIONS)
    try:
        recipe = structure(encoder, EncoderRecipe, plugins, base)
    except RecipeError as error:
        releases = document.data.get(DISTRIBUTIONS, {})
        missing = _missing_distributions(releases, document, plugins)
        raise RecipeError([*missing, *error.problems]) from error
    if recipe.runs_code and not trust_remote_code:
        raise ModelError(
            f"the encoder in `{directory}` wants to run Python code that comes with its model "
            f"(`{directory / BACKBONE}/*.py`, or the hub's); read it, then pass `trust_remote_code=True` "
            "or, on the command line, `--trust-remote-code`"
        )
    return recipe


def _missing_distributions(
    releases: Any,
    document: Document,
    plugins: Plugins,
) -> Iterator[Problem]:
    """Yield a problem for each distribution that is not installed, but has a component of a saved encoder."""
    if not isinstance(releases, dict):
        return
    installed = {plugin.distribution for plugin in plugins.plugins}
    for name, release in releases.items():
        if name in installed:
            continue
        yield document.problem(
            f"the encoder has parts of {printable(f'{name} {release}')}, which is not installed; "
            f"`pip install {printable(name)}`",
            (DISTRIBUTIONS, name),
        )


def verified_backbone_sums(saved: Path) -> dict[str, str]:
    """Return the verified SHA-256 of each file of a saved encoder's backbone.

    The result is empty if the directory has no file of checksums.

    Raises:
        ModelError: if a file has changed.
    """
    if not (saved / SUMS_FILE).exists():
        return {}
    try:
        sums = verified_sums(saved)
    except ValueError as error:
        raise ModelError(
            f"the encoder in `{saved}` has changed since it was saved: {error}; copy or save it again, "
            f"or, if you have edited it, delete its `{SUMS_FILE}`"
        ) from error
    backbone_sums = {}
    for name, digest in sums.items():
        if name.startswith(f"{BACKBONE}/"):
            backbone_sums[name.removeprefix(f"{BACKBONE}/")] = digest
    return backbone_sums


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
