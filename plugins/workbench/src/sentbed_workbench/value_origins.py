"""Origins of a recipe's values: a file, a default, or the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from sentbed.errors import Problem, RecipeError, suggest
from sentbed.protocols import MAIN_ENCODER, Recipe
from sentbed.tools import (
    RESOLVED,
    TABLE,
    Document,
    KeyPath,
    Plugins,
    read_document,
    structure_recipe,
    unstructure,
)

DEFAULT = "default"
"""Origin of a value that no file and no setting sets."""


@attrs.frozen(eq=False)
class Explanation:
    """A recipe, or a cell of its study, with the origins of its values."""

    recipe: Recipe

    @property
    def _has_single_encoder(self) -> bool:
        """Whether the recipe has the table `[encoder]` in place of `[encoders]`."""
        return MAIN_ENCODER in self.recipe.document.data

    def values(self) -> Iterator[tuple[KeyPath, Any]]:
        """Yield path and value of everything in the recipe, including defaults, in the order of a recipe."""
        for key, value in unstructure(self.recipe).items():
            if key == "encoders" and self._has_single_encoder:
                yield from leaves(value)
            else:
                yield from leaves(value, (key,))

    def spelled(self, path: KeyPath) -> str:
        """Return a path as text. A stage has its name instead of its index if `--set` accepts the name."""
        match path:
            case ("stage", int(number), *rest):
                name = self.recipe.stage[number].name
                if "." not in name and not name.isdigit():
                    path = ("stage", name, *rest)
        return spelled(path)

    def origin(self, path: KeyPath) -> str:
        """Return the origin of a value: file and line, `--set`, or `default`. Values of an axis have its line."""
        document = self.recipe.document
        value: Any = document.data
        key: Any
        for key in path:
            if not isinstance(value, dict | list):
                # The file has a single value where the recipe has a table, such as the name of a component.
                break
            try:
                value = value[key]
            except (KeyError, IndexError):
                return DEFAULT

        file, line = document.place(path)
        if line is None:
            return str(file)
        return f"{file}:{line}"

    def listing(self, below: str = "") -> Iterator[str]:
        """Yield a line with value and origin for each path; with `below`, for those at or below this path.

        `below` has stages by name or by number, as `--set` has.

        Raises:
            RecipeError: if the recipe has no value there.
        """
        names = []
        is_chosen = False
        for path, value in self.values():
            name = self.spelled(path)
            names.append(name)
            is_below = f"{name}.".startswith(f"{below}.")
            is_below_by_number = f"{spelled(path)}.".startswith(f"{below}.")
            if not below or is_below or is_below_by_number:
                is_chosen = True
                yield f"{name} = {written(value)}   # {self.origin(path)}"
        if not is_chosen:
            message = f"the recipe has no value at `{below}`.{suggest(below, names)}"
            raise RecipeError([Problem(message)])


def explain(
    path: str | Path,
    overrides: Sequence[str],
    plugins: Plugins,
    cell: str | None = None,
) -> Explanation:
    """Return the explanation of a recipe, of the recipe of a run directory, or of a cell of its study.

    Raises:
        RecipeError: if the recipe is invalid, or there is no such cell.
    """
    path = recipe_of(path)
    base = Path(path).resolve().parent
    document = read_document(path, overrides)
    if cell is not None:
        key = variants_key(document, plugins)
        if key is None:
            message = "the recipe has no table such as `[study]`, whose cells could be named; take `--cell` out"
            raise RecipeError([document.problem(message, ())])
        document = plugins.load(TABLE, key).variant(document, plugins, base, cell)
    return Explanation(structure_recipe(document, plugins, base))


def variants_key(document: Document, plugins: Plugins) -> str | None:
    """Return the key of the table by which one recipe stands for several, such as `study`; None without one."""
    for key in plugins.names(TABLE):
        if key in document.data and plugins.load(TABLE, key).traits.variants:
            return key
    return None


def recipe_of(place: str | Path) -> Path:
    """Return the file of a recipe. Raises `RecipeError` if `place` is a directory without `resolved.toml`."""
    path = Path(place)
    try:
        is_directory = path.is_dir()
    except OSError:
        # The name is too long. Reading the file will report it.
        is_directory = False

    if not is_directory:
        return path
    if not (path / RESOLVED).is_file():
        message = f"the directory has no `{RESOLVED}`; name a recipe or a run directory"
        raise RecipeError([Problem(message, file=str(place))])
    return path / RESOLVED


def leaves(value: Any, at: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yield path and value of every leaf. Tables and arrays of tables are leaves only if they are empty."""
    inner: Mapping[Any, Any] = {}
    if isinstance(value, Mapping):
        inner = value
    elif is_array_of_tables(value):
        inner = dict(enumerate(value))
    for key, item in inner.items():
        yield from leaves(item, (*at, key))
    if not inner:
        yield at, value


def is_array_of_tables(value: Any) -> bool:
    """Whether a value of a recipe is an array whose elements are all tables."""
    return isinstance(value, list) and all(isinstance(item, Mapping) for item in value)


def written(value: Any) -> str:
    """Return a value as TOML."""
    return json.dumps(value, ensure_ascii=False, default=str)


def spelled(path: Sequence[str | int]) -> str:
    """Return a dotted path, with keys quoted as TOML requires."""
    parts = []
    for key in map(str, path):
        if re.fullmatch(r"[A-Za-z0-9_-]+", key):
            parts.append(key)
        else:
            parts.append(written(key))
    return ".".join(parts)
