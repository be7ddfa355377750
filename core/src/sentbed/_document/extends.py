"""`extends`: recipes that build on others.

The bases of a file come first, in order, then the file itself; a file that is reached twice counts only the
first time. Each file is then merged into those before it:

- Tables are merged recursively, key by key. But a component (a table with `use`) with a different `use`
  replaces the earlier table, since its fields are different ones.
- Arrays of tables with unique `name`s, such as `[[stage]]`, are merged by name; new elements are appended.
- All other values are replaced.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from sentbed._document.toml import Document, KeyPath, Located, parse
from sentbed._files import read_file
from sentbed._locations import absolute, locate
from sentbed.errors import Problem, RecipeError, SentbedError

EXTENDS = "extends"

LONGEST_CHAIN = 32
"""Largest number of files in a chain, each of which extends the next."""


def extend(content: bytes, file: str, schema: int) -> Document:
    """Return the recipe `file`, with this content, merged into its bases.

    A base may be a fragment without `schema`; if it has the key, its value must equal `schema`.

    Raises:
        RecipeError: if bases cannot be read; lists all of them.
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
    """Add a file to `layers` after its bases, yielding problems; `chain` has the files that extend it."""
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
        if "\0" in location:
            message = f"found {location!r}, expected a path without null characters; write it without them"
            yield document.problem(message, path)
            continue
        try:
            base = locate(absolute(location, resolved_path.parent)).resolve()
            if base in chain:
                files = [*list(chain.values())[list(chain).index(base) :], chain[base]]
                message = f"the recipe extends itself: {' -> '.join(files)}; take one `{EXTENDS}` out"
                yield document.problem(message, path)
            elif base not in layers and len(chain) == LONGEST_CHAIN:
                message = (
                    f"more than {LONGEST_CHAIN} files in a row extend one another; put some of them into one "
                    "file, or let the recipe extend them side by side"
                )
                yield document.problem(message, path)
            elif base not in layers:
                base_file = _shown(base, location, file)
                yield from _read(read_file(base), base_file, chain, layers, schema)
        except OSError as error:
            message = f"cannot read the base `{location}`: {error.strerror or error}; check the path"
            yield document.problem(message, path)
        except (SentbedError, ValueError, RuntimeError) as error:
            yield document.problem(f"cannot read the base: {error}", path)
    data = {key: value for key, value in document.data.items() if key != EXTENDS}
    directory = next(iter(chain)).parent
    if resolved_path.parent != directory:
        data = _located(data, resolved_path.parent)
    layers[resolved_path] = attrs.evolve(document, data=data)


def _locations_of_bases(document: Document) -> Iterator[tuple[KeyPath, Any]]:
    """Yield the path of the key that names each base, and the base's location."""
    bases = document.data.get(EXTENDS, [])
    if not isinstance(bases, list):
        yield (EXTENDS,), bases
        return
    for index, location in enumerate(bases):
        yield (EXTENDS, index), location


def _shown(base: Path, location: str, file: str) -> str:
    """Return a base's path as the user would write it: relative if the recipe's is."""
    short = os.path.normpath(Path(file).parent / location)
    if Path(short).resolve() != base:
        return str(base)
    return short


def _located(value: Any, directory: Path) -> Any:
    """Return the data with its strings marked as read from a file in `directory`."""
    if isinstance(value, dict):
        return {key: _located(item, directory) for key, item in value.items()}
    if isinstance(value, list):
        return [_located(item, directory) for item in value]
    return Located(value, directory) if isinstance(value, str) else value


class _Merge:
    """Merge of two documents that records each key's source."""

    def __init__(self, low: Document, high: Document) -> None:
        self.low = low
        self.high = high
        self.below_low = _by_prefix(low.places)
        self.below_high = _by_prefix(high.places)
        self.places = dict(low.places)

    def document(self) -> Document:
        data = self.tables(self.low.data, self.high.data, (), ())
        return Document(data, self.high.file, self.places, (self.low, *self.low.below))

    def tables(
        self,
        low: Mapping[str, Any],
        high: Mapping[str, Any],
        at: KeyPath,
        source: KeyPath,
    ) -> dict[str, Any]:
        """Merge two tables; `at` is the path in the first and the result, `source` the path in the second."""
        merged = dict(low)
        for key, value in high.items():
            place, place_in_source = (*at, key), (*source, key)
            if key in low:
                merged[key] = self.values(low[key], value, place, place_in_source)
            else:
                merged[key] = value
                self.take(place, place_in_source)
        return merged

    def values(self, low: Any, high: Any, at: KeyPath, source: KeyPath) -> Any:
        """Merge tables and named arrays recursively; otherwise the second value replaces the first."""
        if isinstance(low, dict) and isinstance(high, dict):
            if "use" not in low or low["use"] == high.get("use", low["use"]):
                self.move(at, source)
                return self.tables(low, high, at, source)
        elif _indices(low) and _indices(high):
            self.move(at, source)
            return self.arrays(low, high, at, source)
        for path in self.below_low.get(at, ()):
            del self.places[path]
        self.take(at, source)
        return high

    def arrays(
        self, low: list[Any], high: list[Any], at: KeyPath, source: KeyPath
    ) -> list[Any]:
        """Merge two arrays of tables by name, and append the elements with new names."""
        indices = _indices(low)
        merged = list(low)
        for number, element in enumerate(high):
            element_source = (*source, number)
            index = indices.get(element["name"])
            if index is None:
                self.take((*at, len(merged)), element_source)
                merged.append(element)
            else:
                element_at = (*at, index)
                merged[index] = self.values(
                    low[index], element, element_at, element_source
                )
        return merged

    def move(self, at: KeyPath, source: KeyPath) -> None:
        """Set the position of an existing key to its position in the second document."""
        if source in self.high.places:
            self.places[at] = self.high.places[source]

    def take(self, at: KeyPath, source: KeyPath) -> None:
        """Copy the positions of a key, and of all keys below it, from the second document."""
        for path in self.below_high.get(source, ()):
            self.move((*at, *path[len(source) :]), path)


def _by_prefix(paths: Iterable[KeyPath]) -> dict[KeyPath, list[KeyPath]]:
    """Return each path -> itself and the paths of all keys below it."""
    by_prefix: dict[KeyPath, list[KeyPath]] = {}
    for path in paths:
        for end in range(1, len(path) + 1):
            by_prefix.setdefault(path[:end], []).append(path)
    return by_prefix


def _indices(value: Any) -> dict[str, int]:
    """Return name -> index in an array of tables; empty if the names are not unique strings."""
    if not isinstance(value, list):
        return {}
    indices: dict[str, int] = {}
    for index, item in enumerate(value):
        name = item.get("name") if isinstance(item, dict) else None
        if not isinstance(name, str) or name in indices:
            return {}
        indices[name] = index
    return indices
