"""Parses TOML files into their data and the line of every key.

tomli parses the data. It reports no lines, which a message such as "unknown key" needs, so a scanner finds them.
The scanner reads only texts that tomli has accepted: it need not handle invalid TOML.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from sentbed.errors import Level, Problem, RecipeError

KeyPath: TypeAlias = tuple[str | int, ...]
"""Path of a value in a document: the keys of tables, and the indices (from 0) of array elements."""

_SPACE = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|'
    + r"'''.*?'{3,5}|"
    + r'"(?:\\.|[^"\\\n])*"|'
    + r"'[^'\n]*'",
    re.DOTALL,
)
_UNQUOTED = re.compile(r"([\w.\- ]+)=\s*([A-Za-z./~][^\"'\[\]{}#=,]*?)\s*(?:#.*)?")
"""A whole line with a key and a text without quotes: `name = my run`."""

_UNQUOTED_VALUE = re.compile(r"[A-Za-z./~][^\"'\[\]{}#=,]*")
"""A text without quotes, where a value is expected."""

_KEY_BEFORE = re.compile(r"(?<![\w.\-])([\w.\-]+)\s*=\s*$")
"""A key and its equals sign, at the end of the text before a value."""

_LONGEST_KEY = 200
"""Number of characters before a value in which its key is searched."""

_SCALAR = re.compile(r"[^,\]}#\n]+")
"""A number, a date or a boolean, with the spaces after it."""


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


def unlocated(value: Any) -> Any:
    """Return `value`, as a plain string if it is a `Located` string."""
    return str(value) if isinstance(value, Located) else value


@attrs.frozen
class Document:
    """A parsed TOML file, or several files merged in order."""

    data: Mapping[str, Any]

    file: str | None = None
    places: Mapping[KeyPath, tuple[str | None, int | None]] = attrs.field(factory=dict)
    """File and line (from 1) of every key and array element. The line is None if the value comes from no file."""

    overrides: tuple[str, ...] = ()
    """`PATH=VALUE` overrides that were applied, in order."""

    def place(self, path: KeyPath) -> tuple[str | None, int | None]:
        """Return the file and line of a key; if they are unknown, those of the nearest key above it."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.places:
                return self.places[path[:end]]
        return self.file, None

    def problem(
        self,
        message: str,
        path: KeyPath,
        level: Level = "error",
    ) -> Problem:
        """Return a problem at `path`, with its file, its line and its dotted path.

        In the dotted path, a stage has its name instead of its index: `stage.nli.loss`.
        """
        path_in_message = path
        if path[:1] == ("stage",) and len(path) > 1:
            stage = self.value(path[:2])
            name = stage.get("name") if isinstance(stage, dict) else None
            # If two stages have this name, `--set` finds only the first of them.
            if name and self.key_path(f"stage.{name}") == path[:2]:
                path_in_message = ("stage", name, *path[2:])
        return Problem(message, dotted(path_in_message), *self.place(path), level)

    def key_path(self, path: str) -> KeyPath:
        """Return the `KeyPath` of a dotted path, in which array elements are given by index or name."""
        keys: KeyPath = ()
        for key in path.split("."):
            elements = self.value(keys)
            if isinstance(elements, list):
                keys += (element_key(elements, key),)
            else:
                keys += (key,)
        return keys

    def value(self, path: KeyPath) -> Any:
        """Return the value at a path, or None if there is none."""
        value: Any = self.data
        for key in path:
            try:
                value = value[key]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    def set_from(self, path: KeyPath, origin: str) -> Document:
        """Return the document with an origin such as `--set` as the file of `path` and of all keys below it."""
        places = {}
        for key_path, place in self.places.items():
            if key_path[: len(path)] != path:
                places[key_path] = place
        places[path] = (origin, None)
        return attrs.evolve(self, places=places)

    def without(self, path: KeyPath) -> Document:
        """Return the document without the `places` of an array element that the caller has removed from `data`.

        The indices of the later elements are reduced by one.
        """
        array, removed = path[:-1], path[-1]
        assert isinstance(removed, int), "array elements have indices"
        depth = len(array)
        places = {}
        for key_path, place in self.places.items():
            index = None
            if len(key_path) > depth and key_path[:depth] == array:
                index = key_path[depth]
            if not isinstance(index, int) or index < removed:
                places[key_path] = place
            elif index > removed:
                places[(*array, index - 1, *key_path[depth + 1 :])] = place
        return attrs.evolve(self, places=places)


def element_key(elements: list[Any], key: str) -> str | int:
    """Return the index of an array element; `key` is its index or its name, which may be a number as well.

    If there is no such element, return `key`, as an integer if it is a number.
    """
    is_number = key.isascii() and key.isdigit()
    if is_number and int(key) < len(elements):
        return int(key)
    for index, item in enumerate(elements):
        if isinstance(item, dict) and item.get("name") == key:
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
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = f"found the byte 0x{content[error.start]:02x}, expected UTF-8; save the file as UTF-8"
        raise RecipeError([Problem(message, file=file, line=line)]) from error

    try:
        data = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        place = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        line = int(place[1]) if place else text.rstrip("\n").count("\n") + 1
        at_value = place is not None and str(error).startswith("Invalid value")
        column = int(place[2]) if place and at_value else None
        message = f"this is not TOML: {error}{_advice_on_line(text, line, column)}"
        raise RecipeError([Problem(message, file=file, line=line)]) from error

    scanner = _Scanner(text.replace("\r\n", "\n"), file)
    scanner.scan()
    return Document(data, file, scanner.places)


def _advice_on_line(
    text: str,
    line: int,
    column: int | None,
) -> str:
    """Return advice on a text without quotes in a line (from 1) that is not TOML; empty if there is no such text.

    `column` (from 1) is where the invalid value begins; None if the parser does not say.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    if line > len(lines):
        return ""
    faulty_line = lines[line - 1]
    whole_line = _UNQUOTED.fullmatch(faulty_line)
    if whole_line is not None:
        return _advice(whole_line[1].strip(), whole_line[2].strip())
    if column is None:
        return ""

    value = _UNQUOTED_VALUE.match(faulty_line, column - 1)
    # In `a = b = 3` it is unclear what is meant.
    if value is None or faulty_line.startswith("=", value.end()):
        return ""
    key = ""
    key_before = _KEY_BEFORE.search(faulty_line[: column - 1][-_LONGEST_KEY:])
    if key_before is not None:
        key = key_before[1]
    return _advice(key, value[0].strip())


def _advice(key: str, value: str) -> str:
    """Return how to write a value that is not valid TOML; `key` is empty for an array element."""
    before = f"{key} = " if key else ""
    if re.fullmatch(r"\.\d[\d_]*(?:[eE][+-]?\d+)?", value):
        return f"; a number has a digit before its point: `{before}0{value}`"
    if value.lower() in ("true", "false"):
        return f"; TOML writes it in small letters: `{before}{value.lower()}`"
    return f'; a text is written in quotes: `{before}"{value}"`'


class _Scanner:
    """Reads a valid TOML text from its beginning to its end, and records the line of every key in `places`."""

    def __init__(self, text: str, file: str | None) -> None:
        self.text = text
        self.file = file
        self.at = 0
        self.places: dict[KeyPath, tuple[str | None, int]] = {}
        # Number of elements so far of each array of tables (`[[stage]]`).
        self.array_lengths: dict[KeyPath, int] = {}
        # The line at an earlier position, from which `current_line` counts on.
        self.counted_at = 0
        self.counted_line = 1

    def scan(self) -> None:
        """Read the whole text."""
        table: KeyPath = ()
        self.skip_space()
        while self.at < len(self.text):
            if self.text.startswith("[", self.at):
                table = self.read_header()
            else:
                self.read_pair(table)
            self.skip_space()

    def skip_space(self) -> None:
        """Move behind white space and comments."""
        self.match(_SPACE)

    def current_line(self) -> int:
        """Return the line (from 1) of the current position."""
        self.counted_line += self.text.count("\n", self.counted_at, self.at)
        self.counted_at = self.at
        return self.counted_line

    def record(self, path: KeyPath, line: int) -> None:
        """Record the line of a key or array element."""
        self.places.setdefault(path, (self.file, line))

    def match(self, pattern: re.Pattern[str]) -> str:
        """Return what the pattern matches at the current position, and move behind it."""
        match = pattern.match(self.text, self.at)
        assert match is not None, f"valid TOML was expected at offset {self.at}"
        self.at = match.end()
        return match[0]

    def read_header(self) -> KeyPath:
        """Read `[TABLE]` or `[[ARRAY]]`; return the path of the table, or of the new array element."""
        is_array = self.text.startswith("[[", self.at)
        brackets = 2 if is_array else 1
        line = self.current_line()
        self.at += brackets
        self.skip_space()
        keys = self.read_dotted_key()
        self.skip_space()
        self.at += brackets

        path: KeyPath = ()
        for position, key in enumerate(keys):
            path += (key,)
            if is_array and position == len(keys) - 1:
                self.record(path, line)
                self.array_lengths[path] = self.array_lengths.get(path, 0) + 1
            if path in self.array_lengths:
                path += (self.array_lengths[path] - 1,)
            self.record(path, line)
        return path

    def read_dotted_key(self) -> list[str]:
        """Read a key such as `a."b c".d`; return its parts."""
        keys = []
        while True:
            if self.text[self.at] in "\"'":
                import tomli

                keys.append(str(tomli.loads("k = " + self.match(_STRING))["k"]))
            else:
                keys.append(self.match(_BARE))
            self.skip_space()
            if not self.text.startswith(".", self.at):
                return keys
            self.at += 1
            self.skip_space()

    def read_pair(self, table: KeyPath) -> None:
        """Read `KEY = VALUE` in the table with this path."""
        line = self.current_line()
        path = table
        for key in self.read_dotted_key():
            path += (key,)
            self.record(path, line)
        self.at += 1  # the equals sign
        self.skip_space()
        self.read_value(path)

    def read_value(self, path: KeyPath) -> None:
        """Read the value of a key or array element, with all keys and elements in it."""
        opening = self.text[self.at]
        if opening in "\"'":
            self.match(_STRING)
        elif opening in "[{":
            self.read_container(path)
        else:
            self.match(_SCALAR)

    def read_container(self, path: KeyPath) -> None:
        """Read an array or an inline table."""
        is_array = self.text[self.at] == "["
        self.at += 1
        self.skip_space()

        index = 0
        while self.text[self.at] not in "]}":
            if is_array:
                self.record((*path, index), self.current_line())
                self.read_value((*path, index))
            else:
                self.read_pair(path)
            index += 1
            self.skip_space()
            if self.text[self.at] == ",":
                self.at += 1
                self.skip_space()
        self.at += 1
