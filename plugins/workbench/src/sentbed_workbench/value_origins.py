"""Origins of a recipe's values: a file, a default, the command line or an axis of its study.

A study makes several recipes of one, its *cells*, which differ in the values that its axes set.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import attrs
from sentbed.errors import Problem, RecipeError, suggest
from sentbed.protocols import Component
from sentbed.tools import (
    MAIN_ENCODER,
    RESOLVED,
    Document,
    KeyPath,
    Plugins,
    Recipe,
    apply_overrides,
    read_document,
    structure_recipe,
    unstructure,
)

DEFAULT = "default"
"""Origin of a value that no file and no setting sets."""
_ABSENT = object()
"""Value at a path that a document does not have."""

_Layer: TypeAlias = tuple[Document, Mapping[KeyPath, str]]
"""A document in which some values have been set, and path -> origin of each of these values."""


@attrs.frozen(eq=False)
class Explanation:
    """A recipe, or a cell of its study, with the origins of its values."""

    recipe: Recipe
    layers: Sequence[_Layer]
    """The first layer is the document of the files. Each further layer applies settings to the layer before."""

    def values(self) -> Iterator[tuple[KeyPath, Any]]:
        """Yield path and value of everything in the recipe, including defaults, in the order of a recipe."""
        for key, value in unstructure(self.recipe).items():
            if key == "encoders" and self._has_single_encoder:
                yield from leaves(value)
            else:
                yield from leaves(value, (key,))

    @property
    def _has_single_encoder(self) -> bool:
        """Whether the recipe has the table `[encoder]` in place of `[encoders]`."""
        return MAIN_ENCODER in self.recipe.document.data

    def spelled(self, path: KeyPath) -> str:
        """Return a path as text. A stage has its name instead of its index if `--set` accepts the name."""
        match path:
            case ("stage", int(number), *rest):
                name = self.recipe.stage[number].name
                if "." not in name and not name.isdigit():
                    path = ("stage", name, *rest)
        return spelled(path)

    def history(self, path: KeyPath) -> list[tuple[Any, str]]:
        """Return all values that were set at a path, each with its origin, the latest first."""
        history: list[tuple[Any, str]] = []
        for document, settings in reversed(self.layers[1:]):
            origins = []
            for at, origin in settings.items():
                if _is_below(path, at) or _is_below(at, path):
                    origins.append(origin)
            if origins:
                history.append((_value(document.data, path), origins[-1]))

        document, _ = self.layers[0]
        value = _value(document.data, path)
        if value is not _ABSENT:
            history.append((value, _place(*document.place(path))))
        elif history:
            history.append((_ABSENT, DEFAULT))
        return history + list(_values_in_extended_files(document, path))

    def origin(self, path: KeyPath) -> str:
        """Return the origin of the value in effect at a path."""
        history = self.history(path)
        if not history:
            return DEFAULT
        value, origin = history[0]
        if value is _ABSENT:
            return DEFAULT
        return origin

    def listing(self, below: KeyPath = ()) -> Iterator[str]:
        """Yield a line with value and origin for each path at or below `below`."""
        for path, value in self.values():
            if path[: len(below)] == below:
                yield f"{self.spelled(path)} = {written(value)}   # {self.origin(path)}"

    def _paths_below(self, keys: KeyPath) -> list[KeyPath]:
        """Return the paths of all values at or below a path."""
        return [path for path, _ in self.values() if _is_below(path, keys)]

    def details(self, path: str) -> Iterator[str]:
        """Yield lines that explain a value or a table: origin, overridden values, documentation.

        Raises:
            RecipeError: if the recipe has no such path.
        """
        keys, value, meaning = self._find(_keys(path))
        below = self._paths_below(keys)
        while value is not None and not below:
            # An element of an array, such as `tasks.0`: the array has the origin, and is shown as a whole.
            keys = keys[:-1]
            below = self._paths_below(keys)
        if value is None:
            yield f"{self.spelled(keys)} is not set   # {self.origin(keys)}"
            below = [keys]
        else:
            yield from self.listing(keys)

        if len(below) == 1:
            yield from self._replaced_values(below[0])

        if meaning:
            yield ""
            for line in inspect.cleandoc(meaning).splitlines():
                yield f"  {line}".rstrip()

    def _replaced_values(self, path: KeyPath) -> Iterator[str]:
        """Yield a line for each value that was replaced at a path, the latest first."""
        replaced = self.history(path)
        # If the default is in effect, every value that was set has been replaced.
        if self.origin(path) != DEFAULT:
            del replaced[0]
        for value, origin in replaced:
            if origin == DEFAULT:
                continue
            if value is _ABSENT:
                yield f"  before: {origin} took it out"
            else:
                yield f"  before: {origin} said {written(value)}"

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
    files = read_document(path)
    document = read_document(path, overrides)
    if cell is None:
        layers: list[_Layer] = [
            (files, {}),
            (document, _set_by_overrides(document, overrides)),
        ]
    else:
        layers = _layers_of_cell(files, document, overrides, plugins, base, cell)
        document = layers[-1][0]

    try:
        recipe = structure_recipe(document, plugins, base, check_files=False)
    except RecipeError as error:
        key = variants_key(document, plugins)
        if cell is None and key is not None:
            error.add_note(
                f'the recipe has `[{key}]`: `--cell "LABELS"` explains one of its cells'
            )
        raise

    return Explanation(recipe, layers)


def _set_by_overrides(
    document: Document, overrides: Sequence[str]
) -> dict[KeyPath, str]:
    """Return path -> `--set` for each override of a document."""
    return {_overridden_path(document, override): "--set" for override in overrides}


def _overridden_path(document: Document, override: str) -> KeyPath:
    """Return the path that an override sets."""
    return document.key_path(override.partition("=")[0].strip())


def _layers_of_cell(
    files: Document,
    document: Document,
    overrides: Sequence[str],
    plugins: Plugins,
    base: Path,
    cell: str,
) -> list[_Layer]:
    """Return the layers of a cell: files, overrides, settings of the cell, and overrides of these settings.

    Raises:
        RecipeError: if there is no such cell.
    """
    key = variants_key(document, plugins)
    if key is None:
        message = "the recipe has no table such as `[study]`, whose cells could be named; take `--cell` out"
        raise RecipeError([document.problem(message, ())])

    table = plugins.tables[key].value
    variant = table.variant(document, plugins, base, cell)
    cell_settings: dict[KeyPath, str] = {}
    for path, labels in variant.setters.items():
        cell_settings[path] = f"{spelled((key, *labels[:-1]))} {labels[-1]}"

    settings_before_cell = _set_by_overrides(document, overrides)
    settings_after_cell: dict[KeyPath, str] = {}
    for override in overrides:
        path = _overridden_path(document, override)
        removes_value = override.endswith("=")
        for at in cell_settings:
            if _is_below(path, at) and not (path == at and removes_value):
                settings_after_cell[path] = "--set"
                settings_before_cell.pop(path, None)

    # This cell is without the overrides that come after the settings of the cell.
    study_overrides = [
        override for override in overrides if override.strip().startswith(f"{key}.")
    ]
    cell_alone = table.variant(
        apply_overrides(files, study_overrides), plugins, base, cell
    )
    return [
        (files, {}),
        (document, settings_before_cell),
        (cell_alone.document, cell_settings),
        (variant.document, settings_after_cell),
    ]


def _is_below(path: KeyPath, at: KeyPath) -> bool:
    """Whether a path is `at` or below it."""
    return path[: len(at)] == at


def variants_key(document: Document, plugins: Plugins) -> str | None:
    """Return the key of the table by which one recipe stands for several, such as `study`; None without one."""
    for key, table in plugins.tables.items():
        if key in document.data and table.value.traits.variants:
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


def _values_in_extended_files(
    document: Document, path: KeyPath
) -> Iterator[tuple[Any, str]]:
    """Yield the values at a path in extended files that were replaced, each with its place, the latest first."""
    last = document.places.get(path)
    later = _value(document.data, path)
    for below in document.below:
        place = below.places.get(path)
        if place is None or place == last:
            continue
        last, value = place, _value(below.data, path)
        is_leaf = next(leaves(value)) == ((), value)
        # An empty table is merged into another table, not replaced by it.
        is_merged = value == {} and isinstance(later, Mapping)
        if is_leaf and not is_merged:
            yield value, _place(*place)
        later = value


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


def _value(data: Any, path: KeyPath) -> Any:
    """Return a document's value at a path. If a parent of the path is no table, return the parent's value."""
    key: Any
    for key in path:
        if not isinstance(data, dict | list):
            break
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            return _ABSENT
    return data


def _place(file: str | None, line: int | None) -> str:
    """Return the origin of a value in a file."""
    return f"{file}:{line}"


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
