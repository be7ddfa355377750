"""The data that a command takes by name or from a recipe, with the runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
from sentbed.errors import Problem, RecipeError, suggest
from sentbed.helpers import sentences
from sentbed.protocols import DataSource, Runtime
from sentbed.tools import (
    Document,
    apply_overrides,
    load_plugins,
    load_recipe,
    structure,
)


@attrs.frozen
class _Tables:
    data: DataSource
    runtime: Runtime


def data_named(source: str, overrides: Sequence[str]) -> tuple[DataSource, Runtime]:
    """Return a data source by name; `overrides` set its fields, or `runtime.FIELD`.

    Raises:
        RecipeError: if fields are invalid; lists all of them.
    """
    document = Document({"data": {"use": source}, "runtime": {"use": "cpu"}})
    paths = []
    for text in overrides:
        if text.startswith("runtime."):
            paths.append(text)
        else:
            paths.append(f"data.{text}")

    document = apply_overrides(document, paths)
    tables, problems = structure(
        document.data, _Tables, document, load_plugins(), Path.cwd()
    )
    if problems:
        raise RecipeError(problems)
    return tables.data, tables.runtime


def data_of_stage(
    path: str, name: str | None, overrides: Sequence[str]
) -> tuple[DataSource, Runtime]:
    """Return the data of a recipe's stage and the recipe's runtime; `overrides` set values of the recipe.

    Only the data have to be on this machine.

    Raises:
        RecipeError: if the recipe has problems, or no such stage; lists all of them.
    """
    recipe = load_recipe(path, overrides, look=False)
    stages = {stage.name: stage for stage in recipe.stage}
    if name is None and len(stages) == 1:
        (name,) = stages
    if name is None or name not in stages:
        fault = f"there is no stage `{name}`"
        if name is None:
            fault = "the recipe has several stages"
        if name is None and not stages:
            fault = "the recipe has no stage"
        message = f"{fault}; name one that has data with `--stage`.{suggest(name or '', list(stages))}"
        raise RecipeError([Problem(message, "stage", path)])
    data = stages[name].data
    if problems := sentences(data.check(), data, "check"):
        raise RecipeError(
            [Problem(problem, f"stage.{name}.data", path) for problem in problems]
        )
    return data, recipe.runtime
