"""By what a cell is known: everything that decides its scores."""

from __future__ import annotations

import hashlib
import json
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import attrs

from sentbed import __version__
from sentbed.errors import SentbedError
from sentbed.paths import FilePath, ModelId, locate, sha256
from sentbed.recipe import Recipe
from sentbed.registry import Plugins
from sentbed.report.record import plain
from sentbed.sources import package_code
from sentbed.structure import unstructure

UNDECIDED = ("run.name", "run.cache", "bootstrap", "checkpoint", "tracker", "expected", "study")
"""Keys of a recipe on which no score depends."""


@attrs.define(eq=False)
class Identities:
    """Hashes of recipes; files are read once."""

    plugins: Plugins
    _files: dict[str, str] = attrs.field(factory=dict, init=False)
    _code: dict[type, str] = attrs.field(factory=dict, init=False)

    def of(self, recipe: Recipe, *more: Any) -> str:
        """Return the key of a recipe, and of what else decides (for JSON): 32 hex digits.

        In it go the recipe with every default, the version and the source code of every plugin that it uses,
        sentbed's version, and the content of every file and directory that it names. What is on a hub is
        known by its name and revision.
        """
        table: Any = plain(unstructure(recipe))
        for path in UNDECIDED:
            place, (*above, last) = table, path.split(".")
            for key in above:
                place = place.get(key, {})
            place.pop(last, None)
        parts = list(_components(recipe))
        content = {
            "recipe": table,
            "more": plain(more),
            "sentbed": __version__,
            "plugins": {f"{p.__module__}.{p.__name__}": self._source(p) for p in {type(p) for p in parts}},
            "files": {name: self._digest(name) for part in parts for name in _read_by(part)},
        }
        text = json.dumps(content, sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def _source(self, component: type) -> str:
        if component not in self._code:
            versions = [
                f"{info.distribution} {info.version}"
                for info in self.plugins.components.values()
                if info.cls is component
            ]
            self._code[component] = " ".join([*versions, package_code(component)])
        return self._code[component]

    def _digest(self, location: str) -> str:
        if location not in self._files:
            try:
                self._files[location] = sha256(locate(location))
            except (SentbedError, OSError):
                # A model on a hub, or what is to be downloaded: the run itself says what is missing.
                self._files[location] = ""
        return self._files[location]


def _components(part: Any) -> Iterator[Any]:
    """Yield every attrs object of a recipe that a plugin offers, or that names files."""
    if attrs.has(type(part)):
        if isinstance(getattr(type(part), "name", None), str) or any(_locations(part)):
            yield part
        for attribute in attrs.fields(type(part)):
            if not attribute.metadata.get("skip"):
                yield from _components(getattr(part, attribute.name))
    elif isinstance(part, Mapping):
        for value in part.values():
            yield from _components(value)
    elif isinstance(part, tuple):
        for value in part:
            yield from _components(value)


def _read_by(part: Any) -> Iterator[str]:
    """Yield what a component reads: what its fields name, and what it says itself (`Component.files`)."""
    yield from _locations(part)
    try:
        yield from map(str, getattr(part, "files", tuple)())
    except SentbedError:
        # What is missing is for the run to say.
        return


def _locations(part: Any) -> Iterator[str]:
    """Yield the files and models that the fields of a component name."""
    hints = get_type_hints(type(part))
    for attribute in attrs.fields(type(part)):
        value = getattr(part, attribute.name)
        if value is not None and _is_location(hints.get(attribute.name)):
            yield from (str(v) for v in (value if isinstance(value, tuple) else (value,)))


def _is_location(kind: Any) -> bool:
    if get_origin(kind) in (Union, types.UnionType, tuple):
        return any(map(_is_location, get_args(kind)))
    return kind is FilePath or kind is ModelId


def short(key: str) -> str:
    """Return the part of a key that stands in the name of a directory."""
    return key[:10]


def slug(name: str) -> str:
    """Return a cell's name as a part of a directory's name."""
    letters = "".join(
        c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in name.replace(", ", "_")
    )
    return letters.strip("-._")[:80] or "cell"


def directory_of(cell: str, seed: int, key: str) -> Path:
    """Return the directory of a cell's run within that of the study."""
    return Path("cells") / f"{slug(cell)}-seed{seed}-{short(key)}"
