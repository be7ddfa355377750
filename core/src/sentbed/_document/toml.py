"""TOML with positions: the data that tomli parses, and the line of every key.

tomli reports no positions, and a message such as "unknown key" needs one. The scanner below walks text that
tomli has already accepted, so it needs no error handling.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import attrs

from sentbed.errors import Problem, RecipeError, printable

DEEPEST = 32
"""Largest number of levels (tables and array elements) in the path of a key."""

MOST_KEYS = 10_000
"""Largest number of keys and array elements in a file."""

LONGEST_NUMBER = 100
"""Largest number of characters of a number or date."""

KeyPath: TypeAlias = tuple[str | int, ...]
"""Table keys, and indices from 0 for array elements."""

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
"""A line with a key and an unquoted text."""
_UNQUOTED_VALUE = re.compile(r"[A-Za-z./~][^\"'\[\]{}#=,]*")
"""An unquoted text, to the end of its value."""
_KEY_BEFORE = re.compile(r"(?<![\w.\-])([\w.\-]+)\s*=\s*$")
"""A key right before its value."""
_LONGEST_KEY = 200
"""Number of characters before a value in which its key is searched."""
_SCALAR = re.compile(r"[^,\]}#\n]+")

_PART = r"""(?:[A-Za-z0-9_-]++|"(?:\\.|[^"\\\n])*+"|'[^'\n]*+')"""
"""A part of a dotted key."""
_TOKEN = re.compile(
    rf"(?P<long_key>(?:{_PART}[ \t]*+\.[ \t]*+){{{DEEPEST}}}{_PART})|"
    r'"""(?:\\.|[^\\])*?(?:"{3,5}|\Z)|'
    r"'''.*?(?:'{3,5}|\Z)|"
    r'"(?:\\.|[^"\\\n])*+"?|'
    r"'[^'\n]*+'?|"
    r"#[^\n]*+|"
    r"[A-Za-z0-9_-]++",
    re.DOTALL,
)
"""A key with too many parts, a string, a comment or a word, in a file that may not be valid TOML. An unterminated
string matches to the end, since retrying at each character would take quadratic time."""


class Located(str):
    """String from a file outside the recipe's directory; a relative path in it is relative to `directory`."""

    __slots__ = ("directory",)
    directory: Path

    def __new__(cls, text: str, directory: Path) -> Located:
        """Return `text`, marked as read from a file in `directory`."""
        located = super().__new__(cls, text)
        located.directory = directory
        return located

    def __getnewargs__(self) -> tuple[str, Path]:  # type: ignore[override]  # str's own has no directory
        return str(self), self.directory


def unlocated(value: Any) -> Any:
    """Return `value`; a `Located` string is converted to a plain one."""
    return str(value) if isinstance(value, Located) else value


@attrs.frozen
class Document:
    """Parsed TOML file, or several files merged in order."""

    data: Mapping[str, Any]
    file: str | None = None
    places: Mapping[KeyPath, tuple[str | None, int | None]] = attrs.field(factory=dict)
    """File and line (from 1) of every key and array element; the line is None if no file has it."""
    below: tuple[Document, ...] = attrs.field(default=(), repr=False)
    """The documents before each file was merged in, the latest first."""
    overrides: tuple[str, ...] = ()
    """`PATH=VALUE` overrides that were applied, in order."""
    plain: Document | None = attrs.field(default=None, repr=False)
    """Document without the overrides; None if it has none."""
    left_out: Mapping[KeyPath, Any] = attrs.field(factory=dict)
    """Path -> value of the machine settings that were not read from a directory's recipe."""

    def place(self, path: KeyPath) -> tuple[str | None, int | None]:
        """Return file and line of `path`, or of its nearest parent with a position."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.places:
                return self.places[path[:end]]
        return self.file, None

    def problem(self, message: str, path: KeyPath, misfit: bool = False) -> Problem:
        """Return a problem at `path`, with file, line and the dotted path, in which a stage has its name."""
        path_in_message = path
        if path[:1] == ("stage",) and len(path) > 1:
            stage = self.value(path[:2])
            name = stage.get("name") if isinstance(stage, dict) else None
            # Only if `--set` finds this stage by the name.
            if name and self.key_path(f"stage.{name}") == path[:2]:
                path_in_message = ("stage", name, *path[2:])
        return Problem(message, dotted(path_in_message), *self.place(path), misfit)

    def key_path(self, path: str) -> KeyPath:
        """Return the keys of a dotted path, as in `--set`; array elements are given by index or name."""
        keys: KeyPath = ()
        for key in path.split("."):
            elements = self.value(keys)
            if isinstance(elements, list):
                keys += (_element(elements, key),)
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
        """Return the document with `origin`, which is not a file, as the source of `path` and all below it."""
        places = {}
        for key_path, place in self.places.items():
            if key_path[: len(path)] != path:
                places[key_path] = place
        places[path] = (origin, None)
        return attrs.evolve(self, places=places)

    def without(self, path: KeyPath) -> Document:
        """Return the document without the positions of an array element that was removed from `data`.

        The indices of later elements are reduced by one.
        """
        *array, removed = path
        depth = len(array)
        places = {}
        for key_path, place in self.places.items():
            index = None
            if len(key_path) > depth and list(key_path[:depth]) == array:
                index = key_path[depth]
            if (
                not isinstance(index, int)
                or not isinstance(removed, int)
                or index < removed
            ):
                places[key_path] = place
            elif index > removed:
                places[(*key_path[:depth], index - 1, *key_path[depth + 1 :])] = place
        return attrs.evolve(self, places=places)


def _element(elements: list[Any], key: str) -> str | int:
    """Return the index of an array element, given by index or name; `key` itself if there is no such name."""
    if key.isascii() and key.isdigit():
        return int(key)
    for index, element in enumerate(elements):
        if isinstance(element, dict) and element.get("name") == key:
            return index
    return key


def dotted(path: KeyPath) -> str:
    """Return `stage.0.loss` for `("stage", 0, "loss")`."""
    return ".".join(str(part) for part in path)


def parse(content: bytes, file: str | None = None) -> Document:
    """Parse the content of a TOML file.

    Raises:
        RecipeError: if it is not valid UTF-8 or TOML; has the line.
    """
    import tomli

    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = f"found the byte 0x{content[error.start]:02x}, expected UTF-8; save the file as UTF-8"
        raise RecipeError([Problem(message, file=file, line=line)]) from error
    _require_short_keys(text, file)
    try:
        data = tomli.loads(text)
    except (ValueError, RecursionError) as error:  # tomli's own error is a ValueError
        place = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        line = int(place[1]) if place else text.rstrip("\n").count("\n") + 1
        at_value = place is not None and str(error).startswith("Invalid value")
        column = int(place[2]) if place and at_value else None
        message = f"this is not TOML: {error}{_quotes(text, line, column)}"
        raise RecipeError([Problem(message, file=file, line=line)]) from error
    return Document(data, file, _Scanner(text.replace("\r\n", "\n"), file).places)


def _require_short_keys(text: str, file: str | None) -> None:
    """Raise `RecipeError` for a dotted key with more parts than a recipe has levels.

    The time and memory that tomli takes for a key are quadratic in its number of parts.
    """
    for token in _TOKEN.finditer(text):
        if token["long_key"] is not None:
            beginning = token[0][:20]
            message = f"the key `{beginning}...` has more than {DEEPEST} levels; write it flatter"
            line = text.count("\n", 0, token.start()) + 1
            raise RecipeError([Problem(message, file=file, line=line)])


def _quotes(text: str, line: int, column: int | None) -> str:
    """Return advice on an unquoted text in a line (from 1); empty if there is none.

    `column` (from 1) is where the invalid value begins, if the parser says so.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    if line > len(lines):
        return ""
    faulty = lines[line - 1]
    if whole := _UNQUOTED.fullmatch(faulty):
        return _advice(whole[1].strip(), whole[2].strip())
    bare = _UNQUOTED_VALUE.match(faulty, column - 1) if column else None
    # In `a = b = 3` it is unclear what is meant.
    if column is None or bare is None or faulty[bare.end() : bare.end() + 1] == "=":
        return ""
    match = _KEY_BEFORE.search(faulty[: column - 1][-_LONGEST_KEY:])
    key = match[1] if match else ""
    return _advice(key, bare[0].strip())


def _advice(key: str, value: str) -> str:
    """Return how to write a value that is not valid TOML; `key` is empty for an array element."""
    before = f"{key} = " if key else ""
    if re.fullmatch(r"\.\d[\d_]*(?:[eE][+-]?\d+)?", value):
        return f"; a number has a digit before its point: `{before}0{value}`"
    if value.lower() in ("true", "false"):
        return f"; TOML writes it in small letters: `{before}{value.lower()}`"
    return f'; a text is written in quotes: `{before}"{value}"`'


class _Scanner:
    """Scanner that records the line of every key in valid TOML."""

    def __init__(self, text: str, file: str | None) -> None:
        self.text, self.file = text, file
        self.at = 0
        self.counted, self.line_there = 0, 1
        self.places: dict[KeyPath, tuple[str | None, int]] = {}
        self.array_lengths: dict[KeyPath, int] = {}
        table: KeyPath = ()
        self.space()
        while self.at < len(text):
            if text.startswith("[", self.at):
                table = self.header()
            else:
                self.pair(table)
            self.space()

    def space(self) -> None:
        self.take(_SPACE)

    def line(self) -> int:
        self.line_there += self.text.count("\n", self.counted, self.at)
        self.counted = self.at
        return self.line_there

    def mark(self, path: KeyPath, line: int) -> None:
        if len(path) > DEEPEST:
            self.refuse(
                f"`{dotted(path[:3])}...` has more than {DEEPEST} levels; write it flatter"
            )
        if len(self.places) > MOST_KEYS:
            self.refuse(
                f"the file has more than {MOST_KEYS:,} keys and elements of arrays; take some out"
            )
        if printable(str(path[-1])) != path[-1] and isinstance(path[-1], str):
            self.refuse(f"the key {path[-1]!r} has control characters; take them out")
        self.places.setdefault(path, (self.file, line))

    def refuse(self, message: str) -> NoReturn:
        raise RecipeError([Problem(message, file=self.file, line=self.line())])

    def take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        assert match is not None, f"valid TOML was expected at offset {self.at}"
        self.at = match.end()
        return match[0]

    def header(self) -> KeyPath:
        is_array = self.text.startswith("[[", self.at)
        line = self.line()
        self.at += 2 if is_array else 1
        self.space()
        keys = self.key()
        self.space()
        self.at += 2 if is_array else 1
        path: KeyPath = ()
        for position, key in enumerate(keys):
            path += (key,)
            if is_array and position == len(keys) - 1:
                self.mark(path, line)
                self.array_lengths[path] = self.array_lengths.get(path, 0) + 1
            if path in self.array_lengths:
                path += (self.array_lengths[path] - 1,)
            self.mark(path, line)
        return path

    def key(self) -> list[str]:
        keys = []
        while True:
            if self.text[self.at] in "\"'":
                import tomli

                keys.append(str(tomli.loads("k = " + self.take(_STRING))["k"]))
            else:
                keys.append(self.take(_BARE))
            self.space()
            if not self.text.startswith(".", self.at):
                return keys
            self.at += 1
            self.space()

    def pair(self, table: KeyPath) -> None:
        line = self.line()
        path = table
        for key in self.key():
            path += (key,)
            self.mark(path, line)
        self.at += 1  # the equals sign
        self.space()
        self.value(path)

    def value(self, path: KeyPath) -> None:
        opening = self.text[self.at]
        if opening in "\"'":
            self.take(_STRING)
        elif opening in "[{":
            self.at += 1
            self.space()
            index = 0
            while self.text[self.at] not in "]}":
                if opening == "[":
                    self.mark((*path, index), self.line())
                    self.value((*path, index))
                else:
                    self.pair(path)
                index += 1
                self.space()
                if self.text[self.at] == ",":
                    self.at += 1
                    self.space()
            self.at += 1
        elif len(self.take(_SCALAR).strip()) > LONGEST_NUMBER:
            self.refuse(
                f"found a number of more than {LONGEST_NUMBER} characters; write a shorter one"
            )
