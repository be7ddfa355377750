"""The recipe key `extends`: a recipe names the files that it builds on, its bases.

The bases of a file are read first, in the order in which it names them, then the file itself. A file that is
reached twice is read only the first time. Each file is then merged into the result of the files before it:

- Tables are merged recursively, key by key. A component is a table with `use`; if the later file names another
  `use`, its table replaces the earlier table as a whole, since the two components have different fields.
- Arrays of tables with unique `name`s, such as `[[stage]]`, are merged by name. Elements with new names are
  appended.
- Any other value of the later file replaces the earlier value.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from sentbed._document.toml import Document, KeyPath, Located, parse
from sentbed._locations import absolute, locate
from sentbed.errors import Problem, RecipeError, SentbedError

EXTENDS = "extends"


def extend(
    content: bytes,
    file: str,
    schema: int,
) -> Document:
    """Return the recipe `file` merged into its bases. `content` is what the file contains.

    A base need not have the key `schema`. If it does, the value must equal `schema`, the version of the recipe
    format that this release reads.

    Raises:
        RecipeError: if bases cannot be read. The error lists all of them.
    """
    layers: dict[Path, Document] = {}
    problems = list(_read(content, file, {}, layers, schema))
    if problems:
        raise RecipeError(problems)
    merged, *others = layers.values()
    for other in others:
        merged = _Merge(merged, other).document()
    return merged


def _read(
    content: bytes,
    file: str,
    chain: Mapping[Path, str],
    layers: dict[Path, Document],
    schema: int,
) -> Iterator[Problem]:
    """Add the bases of a file, then the file itself, to `layers`; yield the problems.

    `chain` has the files that lead here: the recipe, the base that it names, the base that this base names, and
    so on. It maps the resolved path of each to its path in messages.
    """
    try:
        document = parse(content, file)
    except RecipeError as error:
        yield from error.problems
        return
    resolved_path = Path(file).resolve()
    base_schema = document.data.get("schema", schema)
    if chain and (base_schema != schema or isinstance(base_schema, bool)):
        message = f"the base has `schema = {base_schema!r}`, this version of sentbed reads `schema = {schema}`"
        yield document.problem(message, ("schema",))
        return

    chain = {**chain, resolved_path: file}
    for path, location in _locations_of_bases(document):
        if not isinstance(location, str):
            message = f"found {location!r}, expected the path of a recipe, or an array of them"
            yield document.problem(message, path)
            continue
        try:
            base = locate(absolute(location, resolved_path.parent)).resolve()
            if base in chain:
                first = list(chain).index(base)
                circle = [*list(chain.values())[first:], chain[base]]
                message = f"the recipe extends itself: {' -> '.join(circle)}; take one `{EXTENDS}` out"
                yield document.problem(message, path)
            elif base in layers:
                continue
            else:
                base_file = _shown(base, location, file)
                yield from _read(base.read_bytes(), base_file, chain, layers, schema)
        except OSError as error:
            message = f"cannot read the base `{location}`: {error.strerror or error}; check the path"
            yield document.problem(message, path)
        except (SentbedError, ValueError, RuntimeError) as error:
            yield document.problem(f"cannot read the base: {error}", path)

    data = dict(document.data)
    data.pop(EXTENDS, None)
    directory_of_recipe = next(iter(chain)).parent
    if resolved_path.parent != directory_of_recipe:
        data = _located(data, resolved_path.parent)
    layers[resolved_path] = attrs.evolve(document, data=data)


def _locations_of_bases(document: Document) -> Iterator[tuple[KeyPath, Any]]:
    """Yield, for each base, the path of the key or array element that names it, and its location."""
    bases = document.data.get(EXTENDS, [])
    if not isinstance(bases, list):
        yield (EXTENDS,), bases
        return
    for index, location in enumerate(bases):
        yield (EXTENDS, index), location


def _shown(
    base: Path,
    location: str,
    file: str,
) -> str:
    """Return a base's path for messages; it is relative to the working directory if the path `file` is."""
    short = os.path.normpath(Path(file).parent / location)
    if Path(short).resolve() != base:
        return str(base)
    return short


def _located(value: Any, directory: Path) -> Any:
    """Return TOML data in which each string is a `Located` string, from a file in `directory`."""
    if isinstance(value, dict):
        return {key: _located(item, directory) for key, item in value.items()}
    if isinstance(value, list):
        return [_located(item, directory) for item in value]
    return Located(value, directory) if isinstance(value, str) else value


class _Merge:
    """Merge of a later document into an earlier one, which keeps the file and line of each key.

    Methods take two paths of a value: `path` in the earlier document, which is also its path in the result, and
    `later_path` in the later document. The two differ in the indices of array elements.
    """

    def __init__(self, earlier: Document, later: Document) -> None:
        self.earlier = earlier
        self.later = later
        self.paths_below_earlier = _by_prefix(earlier.places)
        self.paths_below_later = _by_prefix(later.places)
        self.places = dict(earlier.places)

    def document(self) -> Document:
        """Return the merged document."""
        data = self.merged_tables(self.earlier.data, self.later.data, (), ())
        return Document(data, self.later.file, self.places)

    def merged_tables(
        self,
        earlier: Mapping[str, Any],
        later: Mapping[str, Any],
        path: KeyPath,
        later_path: KeyPath,
    ) -> dict[str, Any]:
        """Return the keys of both tables; the values of common keys are merged."""
        merged = dict(earlier)
        for key, value in later.items():
            key_path = (*path, key)
            later_key_path = (*later_path, key)
            if key in earlier:
                merged[key] = self.merged_values(
                    earlier[key], value, key_path, later_key_path
                )
            else:
                merged[key] = value
                self.copy_all_places(key_path, later_key_path)
        return merged

    def merged_values(
        self,
        earlier: Any,
        later: Any,
        path: KeyPath,
        later_path: KeyPath,
    ) -> Any:
        """Return the merge of two tables or of two arrays of named tables; otherwise the later value."""
        if isinstance(earlier, dict) and isinstance(later, dict):
            use = earlier.get("use")
            if use is None or later.get("use", use) == use:
                self.copy_place(path, later_path)
                return self.merged_tables(earlier, later, path, later_path)
        elif _indices(earlier) and _indices(later):
            self.copy_place(path, later_path)
            return self.merged_arrays(earlier, later, path, later_path)

        for replaced_path in self.paths_below_earlier.get(path, ()):
            del self.places[replaced_path]
        self.copy_all_places(path, later_path)
        return later

    def merged_arrays(
        self,
        earlier: list[Any],
        later: list[Any],
        path: KeyPath,
        later_path: KeyPath,
    ) -> list[Any]:
        """Return two arrays of tables merged by name; elements with new names are appended."""
        indices = _indices(earlier)
        merged = list(earlier)
        for later_index, element in enumerate(later):
            later_element_path = (*later_path, later_index)
            index = indices.get(element["name"])
            if index is None:
                self.copy_all_places((*path, len(merged)), later_element_path)
                merged.append(element)
            else:
                merged[index] = self.merged_values(
                    earlier[index], element, (*path, index), later_element_path
                )
        return merged

    def copy_place(self, path: KeyPath, later_path: KeyPath) -> None:
        """Set the file and line of a key to those in the later document, if it has them."""
        if later_path in self.later.places:
            self.places[path] = self.later.places[later_path]

    def copy_all_places(self, path: KeyPath, later_path: KeyPath) -> None:
        """Set the files and lines of a key, and of all keys below it, to those in the later document."""
        for path_below in self.paths_below_later.get(later_path, ()):
            self.copy_place((*path, *path_below[len(later_path) :]), path_below)


def _by_prefix(paths: Iterable[KeyPath]) -> dict[KeyPath, list[KeyPath]]:
    """Return a mapping from each path to a list of itself and all paths below it."""
    by_prefix: dict[KeyPath, list[KeyPath]] = {}
    for path in paths:
        for end in range(1, len(path) + 1):
            by_prefix.setdefault(path[:end], []).append(path)
    return by_prefix


def _indices(value: Any) -> dict[str, int]:
    """Return the index of each table in an array by its `name`; empty if the names are not unique strings."""
    if not isinstance(value, list):
        return {}
    indices: dict[str, int] = {}
    for index, item in enumerate(value):
        name = item.get("name") if isinstance(item, dict) else None
        if not isinstance(name, str) or name in indices:
            return {}
        indices[name] = index
    return indices
