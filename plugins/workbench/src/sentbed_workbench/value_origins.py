"""Origins of a recipe's values: a file, a default, or the command line."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from sentbed.errors import Problem, RecipeError, suggest
from sentbed.protocols import MAIN_ENCODER, Component, Recipe
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

    def listing(self, below: KeyPath = ()) -> Iterator[str]:
        """Yield a line with value and origin for each path at or below `below`."""
        for path, value in self.values():
            if path[: len(below)] == below:
                yield f"{self.spelled(path)} = {written(value)}   # {self.origin(path)}"

    def details(self, path: str) -> Iterator[str]:
        """Yield lines that explain a value or a table: value, origin, documentation.

        Raises:
            RecipeError: if the recipe has no such path.
        """
        keys, value, meaning = self._find(_keys(path))
        if value is None:
            yield f"{self.spelled(keys)} is not set   # {self.origin(keys)}"
        else:
            yield from self.listing(keys)

        if meaning:
            yield ""
            for line in inspect.cleandoc(meaning).splitlines():
                yield f"  {line}".rstrip()

    def _find(self, keys: Sequence[str]) -> tuple[KeyPath, Any, str]:
        """Return a path, its value and its documentation. Names of elements are replaced by indices.

        Raises:
            RecipeError: if the recipe has no such path.
        """
        part: Any = self.recipe
        path: KeyPath = ()
        meaning = ""
        for name in keys:
            choices = _contents(part)
            if not path and self._has_single_encoder:
                encoders, _ = choices.pop("encoders")
                choices |= _contents(encoders)
            indices = _indices_of_names(part)
            key = str(indices.get(name, name))
            if key not in choices:
                place = "the recipe"
                if path:
                    place = f"`{self.spelled(path)}`"
                message = f"{place} has no `{key}`.{suggest(key, [*choices, *indices])}"
                raise RecipeError([Problem(message, spelled((*path, key)))])

            if isinstance(part, tuple):
                path += (int(key),)
            else:
                path += (key,)
            part, documented = choices[key]
            if documented or attrs.has(type(part)):
                meaning = documented or (inspect.getdoc(type(part)) or "")

        return path, part, meaning


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


def _keys(path: str) -> list[str]:
    """Split a dotted path into keys, which may be quoted as in TOML."""
    import tomli

    keys = []
    try:
        table: Any = tomli.loads(f"{path} = 0")
        while isinstance(table, dict):
            ((key, table),) = table.items()
            keys.append(key)
    except ValueError:
        # `tomli.TOMLDecodeError` is a `ValueError`.
        return path.split(".")
    return keys


def _indices_of_names(part: Any) -> dict[str, int]:
    """Return the index of each element of an array that has a name, by name."""
    indices: dict[str, int] = {}
    if isinstance(part, tuple):
        for index, item in enumerate(part):
            name = getattr(item, "name", None)
            if isinstance(name, str):
                indices[name] = index
    return indices


def _contents(part: Any) -> dict[str, tuple[Any, str]]:
    """Return the value and the documentation of each key of a table, or of each index of an array."""
    from sentbed_common import field_docs

    contents: dict[str, tuple[Any, str]] = {}
    if isinstance(part, Mapping):
        for key, value in part.items():
            contents[key] = (value, "")
    elif isinstance(part, tuple):
        for number, value in enumerate(part):
            contents[str(number)] = (value, "")
    elif attrs.has(type(part)):
        docs = field_docs(type(part))
        for field in attrs.fields(type(part)):
            value = getattr(part, field.name)
            if field.metadata.get("inline"):
                contents = {**_contents(value), **contents}
            elif field.metadata.get("spread"):
                contents |= _contents(value)
            elif not field.metadata.get("skip"):
                contents[field.metadata.get("key", field.name)] = (
                    value,
                    docs.get(field.name, ""),
                )

        if isinstance(part, Component):
            contents["use"] = (part.name, inspect.getdoc(type(part)) or "")
    return contents
