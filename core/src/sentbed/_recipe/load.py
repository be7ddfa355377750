"""Loading of recipes: reads a TOML file, makes a `Recipe` of its data, and checks it.

All problems are reported at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attrs

from sentbed._document.extends import EXTENDS, extend
from sentbed._document.overrides import apply_overrides
from sentbed._document.structuring import fields_by_key, structure
from sentbed._document.toml import Document, KeyPath
from sentbed._files import read_file
from sentbed._recipe.checks import check
from sentbed._recipe.recipe import MAIN_ENCODER, SCHEMA, Recipe
from sentbed._registry.distribution_catalog import owner_of
from sentbed._registry.offers import TABLE
from sentbed._registry.registry import Plugins, load_plugins
from sentbed.errors import DataError, PluginError, Problem, RecipeError, unknown_keys
from sentbed.protocols import RecipeTable

T = TypeVar("T")


def load_recipe(
    path: str | Path,
    overrides: Sequence[str] = (),
    plugins: Plugins | None = None,
    check_files: bool = True,
) -> Recipe:
    """Read, structure and check a recipe.

    Args:
        path: File of the recipe.
        overrides: `PATH=VALUE` as on the command line, such as `stage.nli.loss.temperature=0.01`. A value that
            is not TOML is a string; `PATH=` removes a key.
        plugins: Installed plugins; they are loaded by default.
        check_files: Whether components check for the files and packages that they need.

    Raises:
        RecipeError: if the recipe has problems. The error lists all of them.
    """
    plugins = plugins or load_plugins()
    document = read_document(path, overrides)
    recipe = structure_recipe(
        document, plugins, Path(path).resolve().parent, check_files
    )
    check(recipe, plugins, check_files)
    return recipe


def component_of(
    base: Callable[..., T],
    table: Mapping[str, Any] | None = None,
    plugins: Plugins | None = None,
    key: str = "",
    **fields: Any,
) -> T:
    """Return the component that a table describes, such as `component_of(Runtime, use="cpu", threads=2)`.

    Args:
        base: Base class of the component's kind.
        table: The table; by default an empty one. Relative paths in it are relative to the current directory.
        plugins: Installed plugins; they are loaded by default.
        key: Path that messages put before the keys of the table.
        fields: Further keys of the table.

    Raises:
        RecipeError: if the table has problems. The error lists all of them.
    """
    cls: Any = base
    data = {**(table or {}), **fields}
    plugins = plugins or load_plugins()
    rename: tuple[KeyPath, KeyPath] = ((), ())
    if key:
        rename = ((), (key,))
    component: T
    component, problems = structure(
        data, cls, Document({}), plugins, Path.cwd(), rename
    )
    if problems:
        raise RecipeError(problems)
    return component


def read_document(path: str | Path, overrides: Sequence[str] = ()) -> Document:
    """Return the data of a recipe: its file, merged into the files that it extends, with overrides applied.

    Raises:
        RecipeError: if a file cannot be read or is not TOML, or an override is wrong.
    """
    try:
        content = read_file(Path(path))
    except OSError as error:
        message = f"cannot read the recipe: {error.strerror or error}; check the path"
        raise RecipeError([Problem(message, file=str(path))]) from error
    except DataError as error:
        raise RecipeError([Problem(f"cannot read the recipe: {error}")]) from error
    return apply_overrides(extend(content, str(path), SCHEMA), overrides)


def structure_recipe(
    document: Document,
    plugins: Plugins,
    base: Path,
    check_files: bool = True,
) -> Recipe:
    """Return the recipe in a document. Relative paths in it are relative to the directory `base`.

    If `check_files` is false, components do not check for the files and packages that they need.

    Raises:
        RecipeError: if the document has problems. The error lists all of them.
    """
    problems: list[Problem] = []

    schema = document.data.get("schema")
    if schema != SCHEMA or isinstance(schema, bool):
        fault = "has no `schema`" if schema is None else f"has `schema = {schema!r}`"
        message = (
            f"the recipe {fault}, this version of sentbed reads `schema = {SCHEMA}`"
        )
        problems.append(document.problem(message, ("schema",)))
        if schema is not None:
            # The keys of another schema version cannot be checked.
            raise RecipeError(problems)

    # A missing `schema` has been reported, and `structure` would report it again.
    data = {**document.data, "schema": SCHEMA}
    main = data.pop("encoder", None)
    if main is not None and "encoders" in data:
        message = "the recipe has both `[encoder]` and `[encoders]`; name every encoder under `[encoders]`"
        raise RecipeError([document.problem(message, ("encoder",))])
    rename: tuple[KeyPath, KeyPath] = ((), ())
    if main is not None:
        data["encoders"] = {MAIN_ENCODER: main}
        # Messages have the path in the file, `encoder`.
        rename = (("encoders", MAIN_ENCODER), (MAIN_ENCODER,))
    if not data.get("encoders"):
        problems.append(
            document.problem("the recipe has no encoder; add a table `[encoder]`", ())
        )
        data["encoders"] = {}

    tables, more = _take_tables(data, document, plugins, base, check_files)
    problems += more
    problems += _take_unknown_keys(data, document, plugins)
    recipe, more = structure(data, Recipe, document, plugins, base, rename, check_files)
    problems += more

    if problems:
        raise RecipeError(sorted(problems, key=lambda problem: problem.line or 0))
    return attrs.evolve(recipe, document=document, tables=tables)


def _take_tables(
    data: dict[str, Any],
    document: Document,
    plugins: Plugins,
    base: Path,
    check_files: bool,
) -> tuple[dict[str, RecipeTable], list[Problem]]:
    """Remove the tables that belong to plugins from `data`; return them, structured, and their problems."""
    tables: dict[str, RecipeTable] = {}
    problems = []
    for key in list(data):
        if (TABLE, key) not in plugins.offers and owner_of(TABLE, key) is None:
            continue

        table = data.pop(key)
        try:
            cls: type[RecipeTable] = plugins.load(TABLE, key)
        except PluginError as error:
            problems.append(document.problem(str(error), (key,)))
            continue
        tables[key], more = structure(
            table, cls, document, plugins, base, ((), (key,)), check_files
        )
        problems += more
    return tables, problems


def _take_unknown_keys(
    data: dict[str, Any],
    document: Document,
    plugins: Plugins,
) -> list[Problem]:
    """Remove unknown top-level keys from `data`; return a problem for each."""
    fields = fields_by_key(Recipe)
    # These keys are not fields of `Recipe`, but messages should suggest them.
    choices = sorted({*fields, *plugins.names(TABLE), MAIN_ENCODER, EXTENDS})
    unknown = [key for key in data if key not in fields]
    problems = []
    for key, advice in zip(unknown, unknown_keys(unknown, choices), strict=True):
        del data[key]
        message = advice
        if key == EXTENDS:
            # `extend` has removed the key of the file, so this one is from an override.
            message = "`extends` cannot be set by an override; write it at the top of a recipe"
        problems.append(document.problem(message, (key,)))
    return problems
