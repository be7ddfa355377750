"""Data source and runtime of the command `mine`: set by its options, or taken from a recipe."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from sentbed.errors import Problem, RecipeError, suggest
from sentbed.protocols import DataSource, Runtime
from sentbed.tools import (
    Document,
    apply_overrides,
    check_components,
    load_plugins,
    load_recipe,
    part_of,
)


@attrs.frozen
class _Tables:
    data: DataSource
    runtime: Runtime


def data_named(source: str, overrides: Sequence[str]) -> tuple[DataSource, Runtime]:
    """Return the data source of this name, and the runtime, which is `cpu` unless it is overridden.

    `overrides` set fields of the source as `FIELD=VALUE`, and fields of the runtime as `runtime.FIELD=VALUE`.

    Raises:
        RecipeError: with all invalid fields.
    """
    document = Document.of({"data": {"use": source}, "runtime": {"use": "cpu"}})
    paths = []
    for text in overrides:
        if text.startswith("runtime."):
            paths.append(text)
        else:
            paths.append(f"data.{text}")

    document = apply_overrides(document, paths)
    tables = part_of(document, _Tables, load_plugins())
    return tables.data, tables.runtime


def data_of_stage(
    path: str,
    name: str | None,
    overrides: Sequence[str],
) -> tuple[DataSource, Runtime]:
    """Return the data source of a recipe's stage, and the recipe's runtime.

    `name` is the stage's name; it may be None if the recipe has a single stage. `overrides` set values of the
    recipe. Of the files that the recipe names, only those of the stage's data must exist.

    Raises:
        RecipeError: with all problems of the recipe, or if it has no such stage.
    """
    recipe = load_recipe(path, overrides, check_files=False)
    stages = {stage.name: stage for stage in recipe.stage}
    if name is None and len(stages) == 1:
        (name,) = stages
    if name is None or name not in stages:
        fault = f"there is no stage `{name}`"
        if name is None:
            fault = "the recipe has several stages"
        if name is None and not stages:
            fault = "the recipe has no stage"
        choices = suggest(name or "", list(stages))
        message = f"{fault}; name one that has data with `--stage`.{choices}"
        raise RecipeError([Problem(message, "stage", path)])

    data = stages[name].data
    at = ("stage", recipe.stage.index(stages[name]), "data")
    check_components(data, recipe.document, at)
    return data, recipe.runtime
