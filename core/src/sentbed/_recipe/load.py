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
from sentbed._document.structuring import (
    faults_of,
    fields_by_key,
    in_order,
    make_converter,
    structure,
)
from sentbed._recipe.checks import check, check_components
from sentbed._recipe.component_notes import naming_components
from sentbed._recipe.recipe import SCHEMA
from sentbed._registry.distribution_catalog import owner_of
from sentbed._registry.offers import TABLE
from sentbed._registry.registry import Plugins, load_plugins
from sentbed._toml import Document, KeyPath
from sentbed.errors import PluginError, Problem, RecipeError, suggest
from sentbed.protocols import MAIN_ENCODER, Recipe, RecipeTable
from sentbed.protocols.recipe import written_path

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
    recipe = structure_recipe(document, plugins, Path(path).resolve().parent)
    with naming_components(recipe):
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
    data: Mapping[str, Any] = {**(table or {}), **fields}
    plugins = plugins or load_plugins()
    document = Document.of(data)
    at: KeyPath = ()
    if key:
        document = Document.of({key: data})
        at = (key,)
    return part_of(document, base, plugins, at)


def part_of(
    document: Document,
    cls: Callable[..., T],
    plugins: Plugins,
    at: KeyPath = (),
) -> T:
    """Return a document, or its value at the path `at`, as an object of an attrs class or a kind of component.

    Components are asked what is wrong with them. Relative paths are relative to the current directory.

    Raises:
        RecipeError: if the value has problems. The error lists all of them.
    """
    part = structure(document, cls, plugins, Path.cwd(), at)
    check_components(part, document, at)
    return part


def read_document(path: str | Path, overrides: Sequence[str] = ()) -> Document:
    """Return the data of a recipe: its file, merged into the files that it extends, with overrides applied.

    Raises:
        RecipeError: if a file cannot be read or is not TOML, or an override is wrong.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        message = f"cannot read the recipe: {error.strerror or error}; check the path"
        raise RecipeError([Problem(message, file=str(path))]) from error
    return apply_overrides(extend(content, str(path), SCHEMA), overrides)


def structure_recipe(
    document: Document,
    plugins: Plugins,
    base: Path,
) -> Recipe:
    """Return the recipe in a document. Relative paths in it are relative to the directory `base`.

    Components are not asked what is wrong with them; see `checks.check`.

    Raises:
        RecipeError: if the document has problems. The error lists all of them.
    """
    schema = document.data.get("schema")
    if schema is not None and (schema != SCHEMA or isinstance(schema, bool)):
        # The keys of another schema version cannot be checked.
        message = f"the recipe has `schema = {schema!r}`, this version of sentbed reads `schema = {SCHEMA}`"
        raise RecipeError([document.problem(message, ("schema",))])

    data = dict(document.data)
    if MAIN_ENCODER in data:
        if "encoders" in data:
            message = "the recipe has both `[encoder]` and `[encoders]`; name every encoder under `[encoders]`"
            raise RecipeError([document.problem(message, (MAIN_ENCODER,))])
        data["encoders"] = {MAIN_ENCODER: data.pop(MAIN_ENCODER)}
    data.setdefault("encoders", {})

    converter = make_converter(plugins, base)
    faults: list[tuple[KeyPath, str]] = []
    tables: dict[str, RecipeTable] = {}
    keys_of_core = {*fields_by_key(Recipe), MAIN_ENCODER}
    for key, table in document.data.items():
        if key in keys_of_core:
            continue
        del data[key]
        try:
            tables[key] = converter.structure(table, _class_of_table(key, plugins))
        except Exception as error:  # noqa: BLE001 - a fault must not hide those of other tables
            for path, message in faults_of(error):
                faults.append(((key, *path), message))
    try:
        recipe = converter.structure(data, Recipe)
    except Exception as error:  # noqa: BLE001 - as above
        faults += faults_of(error)

    if faults:
        problems = []
        for path, message in faults:
            path_in_file = written_path(document.data, path)
            problems.append(document.problem(message, path_in_file))
        raise RecipeError(in_order(problems))
    return attrs.evolve(recipe, document=document, tables=tables)


def _class_of_table(key: str, plugins: Plugins) -> type[RecipeTable]:
    """Return the class of a top-level table that a plugin offers.

    Raises:
        PluginError: if no plugin offers it, two do, or its plugin cannot be loaded.
    """
    if (TABLE, key) not in plugins.offers and owner_of(TABLE, key) is None:
        if key == EXTENDS:
            # `extend` has removed the key of the file, so this one is from an override.
            raise PluginError(
                f"`{EXTENDS}` cannot be overridden; write it into the recipe"
            )
        # Not all of these keys are fields of `Recipe`.
        choices = {*fields_by_key(Recipe), *plugins.names(TABLE), MAIN_ENCODER, EXTENDS}
        raise PluginError(f"unknown key `{key}`.{suggest(key, sorted(choices))}")
    cls: type[RecipeTable] = plugins.load(TABLE, key)
    return cls
