"""Loading of recipes: file -> document -> `Recipe`; all problems are reported at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attrs

from sentbed._document.extends import EXTENDS, extend
from sentbed._document.overrides import EVERYWHERE, apply_overrides
from sentbed._document.structuring import fields_by_key, structure
from sentbed._document.toml import Document, KeyPath
from sentbed._files import read_file
from sentbed._recipe.checks import check
from sentbed._recipe.recipe import MAIN_ENCODER, SCHEMA, Evaluate, Recipe
from sentbed._recipe.requirements import unmet_requirements
from sentbed._registry.distribution_catalog import owner_of
from sentbed._registry.plugin_offer_rules import TABLE
from sentbed._registry.registry import Plugins, load_plugins
from sentbed.errors import DataError, PluginError, Problem, RecipeError, unknown_keys
from sentbed.protocols import RecipeTable

T = TypeVar("T")


def load_recipe(
    path: str | Path,
    overrides: Sequence[str] = (),
    plugins: Plugins | None = None,
    look: bool = True,
) -> Recipe:
    """Read, structure and check a recipe.

    `overrides` are `PATH=VALUE` as on the command line, such as `stage.nli.loss.temperature=0.01`; a value
    that is not valid TOML is a string, and `PATH=` removes a key. Without `look`, components do not check for
    the files and packages that they need.

    Raises:
        RecipeError: if the recipe has problems; lists all of them.
    """
    plugins = plugins or load_plugins()
    document = read_document(path, overrides)
    recipe = structure_recipe(document, plugins, Path(path).resolve().parent, look)
    check(recipe, plugins, look)
    return recipe


def component_of(
    base: Callable[..., T],
    table: Mapping[str, Any] | None = None,
    plugins: Plugins | None = None,
    key: str = "",
    **fields: Any,
) -> T:
    """Return the component that a recipe table describes: `component_of(Runtime, use="cpu", threads=2)`.

    `base` is the base class of its kind. The keys of the table are keyword arguments, or `table`, or both.
    Relative paths start in the current directory; `key` is the table's path in messages.

    Raises:
        RecipeError: if it cannot be made; lists all problems.
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
    """Read a recipe's file and the files it extends, without structuring them.

    Raises `RecipeError`.
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
    document: Document, plugins: Plugins, base: Path, look: bool = True
) -> Recipe:
    """Structure a document as a `Recipe`; its paths are relative to `base`. Raises `RecipeError`."""
    document = _set_everywhere(document, plugins)
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
    data = {**document.data, "schema": SCHEMA}
    main = data.pop("encoder", None)
    if main is not None and "encoders" in data:
        message = "the recipe has both `[encoder]` and `[encoders]`; name every encoder under `[encoders]`"
        raise RecipeError([document.problem(message, ("encoder",))])
    rename: tuple[KeyPath, KeyPath] = ((), ())
    if main is not None:
        data["encoders"] = {MAIN_ENCODER: main}
        # Problems are reported at `encoder`, the key in the file.
        rename = (("encoders", MAIN_ENCODER), (MAIN_ENCODER,))
    if not data.get("encoders"):
        problems.append(
            document.problem("the recipe has no encoder; add a table `[encoder]`", ())
        )
        data["encoders"] = {}
    tables, more = _tables(data, document, plugins, base, look)
    problems += more
    problems += _unknown_keys(data, document, plugins)
    recipe, more = structure(data, Recipe, document, plugins, base, rename, look)
    problems += more
    if isinstance(requires := data.get("requires"), dict):
        # Also if components are missing, since a missing distribution may be the cause.
        written = {str(name): str(specifier) for name, specifier in requires.items()}
        for name, message in unmet_requirements(written):
            problems.append(document.problem(message, ("requires", name)))
    if problems:
        raise RecipeError(sorted(problems, key=lambda problem: problem.line or 0))
    return attrs.evolve(recipe, document=document, tables=tables)


def _set_everywhere(document: Document, plugins: Plugins) -> Document:
    """Apply the overrides `evaluate.*.KEY=VALUE` to each evaluation that has the key."""
    for override in map(str.strip, document.overrides):
        if not override.startswith(EVERYWHERE):
            continue
        path = override.removeprefix(EVERYWHERE).partition("=")[0].strip()
        key = path.partition(".")[0]
        overrides = []
        for i, entry in enumerate(document.data.get("evaluate", ())):
            if isinstance(entry, dict) and key in _evaluation_keys(entry, plugins):
                overrides.append(override.replace("*", str(i), 1))
        if not overrides:
            message = f"no evaluation has the key `{key}` of the override {override!r}"
            raise RecipeError([Problem(message)])
        document = apply_overrides(document, overrides)
    return document


def _evaluation_keys(entry: Mapping[str, Any], plugins: Plugins) -> set[str]:
    """Return the keys that an entry of `[[evaluate]]` may have: those of all entries, and of its evaluator."""
    keys = set(fields_by_key(Evaluate))
    info = plugins.components.get(("evaluator", str(entry.get("use"))))
    if info is not None:
        keys.update(fields_by_key(info.cls))
    return keys


def _tables(
    data: dict[str, Any], document: Document, plugins: Plugins, base: Path, look: bool
) -> tuple[dict[str, RecipeTable], list[Problem]]:
    """Remove the plugins' tables from `data`; return them and their problems."""
    tables: dict[str, RecipeTable] = {}
    problems = []
    for key in list(data):
        owner = owner_of("tables", key)
        clash = plugins.clashes.get((TABLE, key))
        if key not in plugins.tables and owner is None and clash is None:
            continue
        table = data.pop(key)
        if clash is not None:
            problems.append(document.problem(clash.message, (key,)))
            continue
        if key not in plugins.tables:
            message = (
                f"the table `[{key}]` belongs to `{owner}`, which is not installed or not loaded; "
                f"install it with `pip install {owner}`"
            )
            problems.append(document.problem(message, (key,)))
            continue
        try:
            cls: type[RecipeTable] = plugins.tables[key].value
        except PluginError as error:
            problems.append(document.problem(str(error), (key,)))
            continue
        tables[key], more = structure(
            table, cls, document, plugins, base, ((), (key,)), look
        )
        problems += more
    return tables, problems


def _unknown_keys(
    data: dict[str, Any], document: Document, plugins: Plugins
) -> list[Problem]:
    """Remove unknown top-level keys from `data`; return their problems.

    Suggestions include the tables of plugins, and `encoder` and `extends`, which are not fields of `Recipe`.
    """
    fields = fields_by_key(Recipe)
    choices = sorted({*fields, *plugins.tables, MAIN_ENCODER, EXTENDS})
    unknown = [key for key in data if key not in fields]
    problems = []
    for key, advice in zip(unknown, unknown_keys(unknown, choices), strict=True):
        del data[key]
        message = advice
        if key == EXTENDS:  # `extends` of the file has been removed by now
            message = "`extends` cannot be set by an override; write it at the top of a recipe"
        problems.append(document.problem(message, (key,)))
    return problems
