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
from collections.abc import Iterator, Mapping
from functools import reduce
from pathlib import Path

import attrs

from sentbed._locations import absolute, locate
from sentbed._toml import Document, KeyPath, Located, Node, parse
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
    layers: dict[Path, Node] = {}
    problems = list(_read(content, file, {}, layers, schema))
    if problems:
        raise RecipeError(problems)
    return Document(reduce(_merged, layers.values()))


def _read(
    content: bytes,
    file: str,
    chain: Mapping[Path, str],
    layers: dict[Path, Node],
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
    bases = document.data.get(EXTENDS, [])
    if not isinstance(bases, list):
        bases = [bases]
    for location in bases:
        path: KeyPath = (EXTENDS,)
        if not isinstance(location, str):
            message = f"found {location!r}, expected the path of a recipe, or an array of them"
            yield document.problem(message, path)
            continue
        try:
            base = locate(absolute(location, resolved_path.parent)).resolve()
            if base in chain:
                circle = " -> ".join([*chain.values(), chain[base]])
                message = (
                    f"the recipe extends itself: {circle}; take one `{EXTENDS}` out"
                )
                yield document.problem(message, path)
            elif base not in layers:
                base_file = _shown(base, location, file)
                yield from _read(base.read_bytes(), base_file, chain, layers, schema)
        except (SentbedError, OSError, ValueError, RuntimeError) as error:
            yield document.problem(f"cannot read the base: {error}", path)

    root = document.without(EXTENDS).root
    directory_of_recipe = next(iter(chain)).parent
    if resolved_path.parent != directory_of_recipe:
        root = _located(root, resolved_path.parent)
    layers[resolved_path] = root


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


def _located(node: Node, directory: Path) -> Node:
    """Return a node in which each string is a `Located` string, from a file in `directory`."""
    value = node.value
    if isinstance(value, dict):
        value = {key: _located(item, directory) for key, item in value.items()}
    elif isinstance(value, list):
        value = [_located(item, directory) for item in value]
    elif isinstance(value, str):
        value = Located(value, directory)
    return attrs.evolve(node, value=value)


def _merged(earlier: Node, later: Node) -> Node:
    """Return two tables, or two arrays of named tables, merged; otherwise the later value."""
    if isinstance(earlier.value, dict) and isinstance(later.value, dict):
        use = earlier.below("use")
        later_use = later.below("use")
        if use and later_use and use.value != later_use.value:
            return later
        table = dict(earlier.value)
        for key, node in later.value.items():
            table[key] = _merged(table[key], node) if key in table else node
        return attrs.evolve(later, value=table)

    indices = _indices_of_names(earlier)
    names = _indices_of_names(later)
    if not indices or not names:
        return later
    elements = list(earlier.value)
    for name, node in zip(names, later.value, strict=True):
        if name in indices:
            index = indices[name]
            elements[index] = _merged(elements[index], node)
        else:
            elements.append(node)
    return attrs.evolve(later, value=elements)


def _indices_of_names(array: Node) -> dict[str, int]:
    """Return the index of each table in an array by its `name`; empty if the names are not unique strings."""
    indices: dict[str, int] = {}
    if not isinstance(array.value, list):
        return {}
    for index, element in enumerate(array.value):
        name = element.below("name")
        if name is None or not isinstance(name.value, str) or name.value in indices:
            return {}
        indices[name.value] = index
    return indices
