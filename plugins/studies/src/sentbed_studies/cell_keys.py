"""Keys of cells: hashes of everything that determines their scores."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

import attrs
from sentbed import FilePath, ModelId, __version__, locate
from sentbed.errors import SentbedError
from sentbed.helpers import sha256
from sentbed.protocols import Component, DataSource, Evaluator
from sentbed.tools import Checkpoint, Plugins, Recipe, plain
from sentbed_common import package_code

_SETTLED = 2.0
"""Seconds after which another change to a file gets a different time on any file system."""


@attrs.define(eq=False)
class CellKeys:
    """Computes keys of recipes; files are read once."""

    plugins: Plugins
    _files: dict[Path, str] = attrs.field(factory=dict, init=False)
    _code: dict[type, str] = attrs.field(factory=dict, init=False)

    def of(self, recipe: Recipe, *more: Any) -> str:
        """Return the key of a recipe and further parts (of recipes, or JSON data) as 32 hex digits.

        In it go the recipe with every default, the version and the source code of every plugin that it uses,
        sentbed's version, and the content of every file and directory that it reads, with the name and
        without the place of those that it names. What is on a hub is known by its name and revision.
        """
        content = {
            "recipe": self._content(decisive(recipe)),
            "more": self._content(more),
            "sentbed": __version__,
        }
        text = json.dumps(content, sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def _content(self, part: Any, kind: Any = None, read: Sequence[Path] = ()) -> Any:
        """Return a part of a recipe as JSON data; `kind` is its type, `read` its component's files."""
        if attrs.has(type(part)):
            return self._table(part)
        if isinstance(part, Mapping):
            return {str(key): self._content(value, kind, read) for key, value in part.items()}
        if isinstance(part, list | tuple):
            return [self._content(value, kind, read) for value in part]
        return self._named(part, read) if isinstance(part, str) and _is_here(part, kind) else plain(part)

    def _table(self, part: Any) -> dict[str, Any]:
        read = list(_read_by(part))
        cls: Any = type(part)
        kinds = _kinds(cls)
        fields = {
            attribute.name: self._content(value, kinds[attribute.name], read)
            for attribute in attrs.fields(cls)
            if not attribute.metadata.get("skip") and (value := getattr(part, attribute.name)) is not None
        }
        table = {"fields": fields, "read": [self._digest(path) for path in read]}
        if isinstance(part, Component):
            table |= {"use": cls.name, "code": self._source(cls)}
        return table

    def _named(self, location: str, read: Sequence[Path]) -> Any:
        """Return name and digest of a location's content, or the location itself if nothing is there."""
        try:
            path = locate(location)
        except SentbedError:
            # Must be downloaded: the run itself reports what is missing.
            return location
        if path.is_dir() and any(file.is_relative_to(path) for file in read):
            return "what is read of it"
        # The name may affect how a file is read and what scores are called.
        return [path.name, found] if (found := self._digest(path)) else location

    def _digest(self, path: Path) -> str:
        if path not in self._files:
            try:
                self._files[path] = _hash(path)
            except OSError:
                self._files[path] = ""
        return self._files[path]

    def _source(self, component: type) -> str:
        if component not in self._code:
            origin = self.plugins.origin(component)
            release = [origin.release] if origin else []
            self._code[component] = " ".join([*release, package_code(component)])
        return self._code[component]


def decisive(recipe: Recipe) -> Recipe:
    """Return the recipe with everything reset that cannot affect a score."""
    return attrs.evolve(
        recipe,
        run=attrs.evolve(recipe.run, name="any", cache=True),
        checkpoint=Checkpoint(),
        tracker=(),
        expected={},
        tables={key: table for key, table in recipe.tables.items() if table.traits.decides},
    )


def _read_by(part: Any) -> Iterator[Path]:
    """Yield the files that a component reports to read (`files`)."""
    if not isinstance(part, DataSource | Evaluator):
        return
    try:
        yield from map(Path, part.files())
    except SentbedError:
        # The run reports what is missing.
        return


@cache
def _kinds(cls: Any) -> Mapping[str, Any]:
    return get_type_hints(cls)


def _is_here(value: str, kind: Any) -> bool:
    """Whether a value of this type names a local file or directory."""
    if _has(kind, FilePath):
        return not value.startswith("hub:")
    # Anything else is a hub id, even if a directory of that name exists.
    return _has(kind, ModelId) and value.startswith(("pkg:", "data:", ".", "/", "~"))


def _has(kind: Any, wanted: Any) -> bool:
    return kind is wanted or any(_has(part, wanted) for part in get_args(kind))


_hashes: dict[tuple[Path, tuple[tuple[Path, int, int, int], ...]], str] = {}


def _hash(path: Path) -> str:
    """Return the SHA-256 of a file or directory, cached while nothing in it changes."""
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    states = [(file, file.stat()) for file in files]
    known = path, tuple((file, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for file, s in states)
    if known in _hashes:
        return _hashes[known]
    found = sha256(path)
    if all(time.time() - state.st_mtime > _SETTLED for _, state in states):
        _hashes[known] = found
    return found


def short(key: str) -> str:
    """Return the part of a key used in directory names."""
    return key[:10]


def slug(name: str) -> str:
    """Return a cell's name in a form for directory names."""
    letters = "".join(
        c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in name.replace(", ", "_")
    )
    return letters.strip("-._")[:80] or "cell"


def directory_of(cell: str, seed: int, key: str) -> Path:
    """Return the directory of a cell's run, relative to the study's."""
    return Path("cells") / f"{slug(cell)}-seed{seed}-{short(key)}"
