"""A TOML document as a tree of values that know the file and the line in which they are written.

tomli parses a file, but reports no lines, which a message such as "unknown key" needs. So each statement (a
header or `KEY = VALUE`) is parsed once more on its own, which shows the keys that its lines set.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import attrs

from sentbed.errors import Level, Problem, RecipeError

KeyPath: TypeAlias = tuple[str | int, ...]
"""Path of a value in a document: the keys of tables, and the indices (from 0) of array elements."""


class Located(str):
    """String from a base of a recipe in another directory.

    If it is a relative path, it is relative to `directory`.
    """

    __slots__ = ("directory",)
    directory: Path

    def __new__(cls, text: str, directory: Path) -> Located:
        """Return `text`, marked as read from a file in `directory`."""
        located = super().__new__(cls, text)
        located.directory = directory
        return located

    def __getnewargs__(self) -> tuple[str, Path]:  # type: ignore[override]  # that of `str` has no directory
        return str(self), self.directory


@attrs.frozen
class Node:
    """A value of a document, with its place.

    `value` is a dictionary of nodes for a table, a list of nodes for an array, and otherwise what TOML holds.
    """

    value: Any
    file: str | None = None
    """File for messages, or what else sets the value, such as `--set`."""
    line: int | None = None
    """Line in the file, from 1; None if the value comes from no file."""

    @property
    def data(self) -> Any:
        """The value without places."""
        if isinstance(self.value, dict):
            return {key: node.data for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.data for node in self.value]
        return self.value

    def below(self, key: str | int) -> Node | None:
        """Return the value of a key of a table or the element of an array; None if there is none."""
        try:
            node: Node = self.value[key]
        except (KeyError, IndexError, TypeError):
            return None
        return node if isinstance(node, Node) else None


def node_of(
    value: Any,
    file: str | None = None,
    line: int | None = None,
    lines: Mapping[KeyPath, int] = MappingProxyType({}),
    path: KeyPath = (),
) -> Node:
    """Return the node of a value at `path`.

    Its line is that of its path in `lines`; without one, it is `line`, that of the node above it.
    """
    line = lines.get(path, line)
    if isinstance(value, Mapping):
        table = {}
        for key, item in value.items():
            table[key] = node_of(item, file, line, lines, (*path, key))
        return Node(table, file, line)
    if isinstance(value, list | tuple):
        array = []
        for index, item in enumerate(value):
            array.append(node_of(item, file, line, lines, (*path, index)))
        return Node(array, file, line)
    return Node(value, file, line)


@attrs.frozen
class Document:
    """A TOML file, or several files merged in order."""

    root: Node

    overrides: tuple[str, ...] = ()
    """`PATH=VALUE` overrides that were applied, in order."""

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Document:
        """Return a document of data that come from no file."""
        return cls(node_of(data))

    def without(self, *keys: str) -> Document:
        """Return the document without these top-level keys."""
        tables = dict(self.root.value)
        for key in keys:
            tables.pop(key, None)
        return attrs.evolve(self, root=attrs.evolve(self.root, value=tables))

    @property
    def file(self) -> str | None:
        """The file of the recipe itself, without those that it extends."""
        return self.root.file

    @cached_property
    def data(self) -> Mapping[str, Any]:
        """The data without places."""
        data: Mapping[str, Any] = self.root.data
        return data

    def nodes(self, path: KeyPath) -> list[Node]:
        """Return the root and the nodes along a path, as far as it exists."""
        nodes = [self.root]
        for key in path:
            node = nodes[-1].below(key)
            if node is None:
                break
            nodes.append(node)
        return nodes

    def value(self, path: KeyPath) -> Any:
        """Return the value at a path, or None if there is none."""
        nodes = self.nodes(path)
        if len(nodes) <= len(path):
            return None
        return nodes[-1].data

    def place(self, path: KeyPath) -> tuple[str | None, int | None]:
        """Return the file and line of a key; if there is no such key, those of the nearest key above it."""
        node = self.nodes(path)[-1]
        return node.file, node.line

    def problem(
        self,
        message: str,
        path: KeyPath,
        level: Level = "error",
    ) -> Problem:
        """Return a problem at `path`, with its file, its line and its dotted path.

        In the dotted path, an array element has its name instead of its index: `stage.nli.loss`.
        """
        keys = list(map(str, path))
        for position, array in enumerate(self.nodes(path)[: len(path)]):
            name = _name_of_element(array, path[position])
            if name is not None:
                keys[position] = name
        return Problem(message, ".".join(keys), *self.place(path), level)

    def key_path(self, path: str) -> KeyPath:
        """Return the `KeyPath` of a dotted path, in which array elements are given by index or name."""
        keys: KeyPath = ()
        for key in path.split("."):
            nodes = self.nodes(keys)
            if len(nodes) > len(keys) and isinstance(nodes[-1].value, list):
                keys += (element_key(nodes[-1].value, key),)
            else:
                keys += (key,)
        return keys


def _name_of_element(array: Node, index: str | int) -> str | None:
    """Return the name by which `--set` finds an array element; None if only its index finds it."""
    element = array.below(index)
    name = element.below("name") if element and isinstance(array.value, list) else None
    if name is None or not isinstance(name.value, str):
        return None
    is_one_key = name.value and "." not in name.value
    if is_one_key and element_key(array.value, name.value) == index:
        return name.value
    return None


def element_key(elements: list[Node], key: str) -> str | int:
    """Return the index of an array element; `key` is its index or its name, which may be a number as well.

    If there is no such element, return `key`, as an integer if it is a number.
    """
    is_number = key.isascii() and key.isdigit()
    if is_number and int(key) < len(elements):
        return int(key)
    for index, element in enumerate(elements):
        name = element.below("name")
        if name is not None and name.value == key:
            return index
    return int(key) if is_number else key


def dotted(path: KeyPath) -> str:
    """Return `stage.0.loss` for `("stage", 0, "loss")`."""
    return ".".join(str(part) for part in path)


def parse(content: bytes, file: str | None = None) -> Document:
    """Parse the content of a TOML file.

    Raises:
        RecipeError: if it is not valid UTF-8 or TOML. The error has the line.
    """
    import tomli

    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = f"this is not UTF-8: {error}; save the file as UTF-8"
        raise RecipeError([Problem(message, file=file, line=line)]) from error

    try:
        data = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        place = re.search(r"at line (\d+)", str(error))
        line = int(place[1]) if place else len(text.rstrip("\n").split("\n"))
        message = f"this is not TOML: {error}"
        raise RecipeError([Problem(message, file=file, line=line)]) from error

    return Document(node_of(data, file, lines=_lines_of_keys(text)))


def _lines_of_keys(text: str) -> dict[KeyPath, int]:
    """Return the line (from 1) of each table and each key that the statements of a valid TOML text set.

    What is within an inline table or an array has the line of its key, and is left out.
    """
    import tomli

    lines: dict[KeyPath, int] = {}
    lengths: dict[KeyPath, int] = {}
    table: KeyPath = ()
    statement = ""
    first_line = 1
    for number, line in enumerate(text.split("\n"), 1):
        statement += line + "\n"
        if line.rstrip().endswith((",", "[")) and "#" not in line:
            # A statement goes on after a comma. To parse each line of a long array takes quadratic time.
            continue
        try:
            data = tomli.loads(statement)
        except tomli.TOMLDecodeError:
            # The statement goes on in the next line.
            continue

        is_header = statement.lstrip().startswith("[")
        is_array = statement.lstrip().startswith("[[")
        path: KeyPath = () if is_header else table
        keys = _keys_of_statement(data)
        for position, key in enumerate(keys, 1):
            path += (key,)
            lines.setdefault(path, first_line)
            if is_array and position == len(keys):
                lengths[path] = lengths.get(path, 0) + 1
            if path in lengths:
                path += (lengths[path] - 1,)
                lines.setdefault(path, first_line)
        if is_header:
            table = path
        statement = ""
        first_line = number + 1
    return lines


def _keys_of_statement(data: Any) -> list[str]:
    """Return the keys of `a.b = 1`, `[a.b]` or `[[a.b]]` from what tomli reads from it; empty for a comment."""
    keys = []
    while isinstance(data, dict) and len(data) == 1:
        [(key, data)] = data.items()
        keys.append(key)
    return keys
