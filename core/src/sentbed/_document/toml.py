"""TOML with positions: the document as tomli reads it, and the line of every key.

tomli gives no positions, and a position is what turns "unknown key" into something one can click on. The
scanner below walks text that tomli has already accepted, so it needs no error handling of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import attrs

from sentbed.errors import Problem, RecipeError

T = TypeVar("T")

KeyPath: TypeAlias = tuple[str | int, ...]
"""Keys and, for elements of arrays, numbers from 0."""

_SPACE = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|' + r"'''.*?'{3,5}|" + r'"(?:\\.|[^"\\\n])*"|' + r"'[^'\n]*'", re.DOTALL
)
_SCALAR = re.compile(r"[^,\]}#\n]+")


class Located(str):
    """A string of a file in another directory than the recipe's: a path that it may be starts there."""

    __slots__ = ("directory",)
    directory: Path

    def __new__(cls, text: str, directory: Path) -> Located:
        """Return `text`, said in `directory`."""
        located = super().__new__(cls, text)
        located.directory = directory
        return located

    def __getnewargs__(self) -> tuple[str, Path]:  # type: ignore[override]  # str's own has no directory
        return str(self), self.directory


def unlocated(value: Any) -> Any:
    """Return a value, a string of another directory's file as any other string."""
    return str(value) if isinstance(value, Located) else value


@attrs.frozen
class Said:
    """What a file said of a key, before another one said something else."""

    value: Any
    file: str | None
    line: int | None


@attrs.frozen
class Document:
    """A parsed TOML file, or several of which each has had its say on the ones before."""

    data: Mapping[str, Any]
    file: str | None = None
    lines: Mapping[KeyPath, int] = attrs.field(factory=dict)
    """Line, from 1, of every key and array element."""
    files: Mapping[KeyPath, str | None] = attrs.field(factory=dict)
    """File of each key that does not come from `file`."""
    before: Mapping[KeyPath, tuple[Said, ...]] = attrs.field(factory=dict)
    """What other files said of a value, the last one first."""

    def place(self, path: KeyPath) -> tuple[str | None, int | None]:
        """Return file and line of `path`, or of its nearest parent that stands in a file."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.lines:
                return self.files.get(path[:end], self.file), self.lines[path[:end]]
        return self.file, None

    def line(self, path: KeyPath) -> int | None:
        """Return the line of `path`, or of its nearest parent that stands in a file."""
        return self.place(path)[1]

    def problem(self, message: str, path: KeyPath, misfit: bool = False) -> Problem:
        """Return a problem that knows its file, line and dotted path."""
        return Problem(message, dotted(path), *self.place(path), misfit)

    def key_path(self, path: str) -> KeyPath:
        """Return the keys of a path as `--set` takes it: an element of an array by number or by name."""
        place: Any = self.data
        keys: KeyPath = ()
        for key in path.split("."):
            found: str | int = key
            if isinstance(place, list):
                names = [item.get("name") if isinstance(item, dict) else None for item in place]
                found = (
                    int(key) if key.isascii() and key.isdigit() else names.index(key) if key in names else key
                )
                place = place[found] if isinstance(found, int) and found < len(place) else None
            else:
                place = place.get(key) if isinstance(place, Mapping) else None
            keys += (found,)
        return keys

    def without(self, path: KeyPath) -> Document:
        """Return the document whose array has lost the element at `path`; its `data` has lost it already."""
        *above, gone = path
        depth = len(above)

        def kept(places: Mapping[KeyPath, T]) -> dict[KeyPath, T]:
            found = {}
            for known, at in places.items():
                number = known[depth] if len(known) > depth and list(known[:depth]) == above else None
                if not isinstance(number, int) or not isinstance(gone, int) or number < gone:
                    found[known] = at
                elif number > gone:
                    found[(*known[:depth], number - 1, *known[depth + 1 :])] = at
            return found

        return attrs.evolve(self, lines=kept(self.lines), files=kept(self.files), before=kept(self.before))

    def placed(self, path: KeyPath, file: str | None, line: int | None) -> Document:
        """Return the document with `path`, and all that is below it, at another place."""
        lines = {known: at for known, at in self.lines.items() if known[: len(path)] != path}
        files = {known: at for known, at in self.files.items() if known[: len(path)] != path}
        if line is not None:
            lines[path], files[path] = line, file
        return attrs.evolve(self, lines=lines, files=files)


def dotted(path: KeyPath) -> str:
    """Return `stage.0.loss` for `("stage", 0, "loss")`."""
    return ".".join(str(part) for part in path)


def parse(content: bytes, file: str | None = None) -> Document:
    """Parse a TOML file.

    Raises:
        RecipeError: where it is not UTF-8 or not TOML, with the line.
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
    except (ValueError, RecursionError) as error:  # tomli's own error is a ValueError
        found = re.search(r"\(at line (\d+), column \d+\)|\(at end of document\)", str(error))
        line = int(found[1]) if found and found[1] else text.rstrip("\n").count("\n") + 1
        raise RecipeError([Problem(f"this is not TOML: {error}", file=file, line=line)]) from error
    return Document(data, file, _Scanner(text.replace("\r\n", "\n")).lines)


class _Scanner:
    """Finds every key in text that is known to be valid TOML."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[KeyPath, int] = {}
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
        match = _SPACE.match(self.text, self.at)
        assert match is not None  # the pattern matches the empty string
        self.at = match.end()

    def line(self) -> int:
        return self.text.count("\n", 0, self.at) + 1

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
                self.lines.setdefault(path, line)
                self.array_lengths[path] = self.array_lengths.get(path, 0) + 1
            if path in self.array_lengths:
                path += (self.array_lengths[path] - 1,)
            self.lines.setdefault(path, line)
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
            self.lines.setdefault(path, line)
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
                    self.lines.setdefault((*path, index), self.line())
                    self.value((*path, index))
                else:
                    self.pair(path)
                index += 1
                self.space()
                if self.text[self.at] == ",":
                    self.at += 1
                    self.space()
            self.at += 1
        else:
            self.take(_SCALAR)
