"""Keys of cells: hashes of everything that determines their weights and their scores."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_type_hints

import attrs
from sentbed import FilePath, ModelId, locate
from sentbed.errors import SentbedError
from sentbed.helpers import sha256
from sentbed.protocols import Component, DataSource, Evaluator
from sentbed.tools import (
    UNDECISIVE,
    Evaluate,
    Plugins,
    Recipe,
    components_of,
    computing_code,
    mentions,
    plain,
)

_SETTLED = 2.0
"""Seconds after which another change to a file gets a different modification time on any file system."""


Content: TypeAlias = Mapping[str, Any]
"""JSON data of which a key is the hash."""


@attrs.frozen(eq=False)
class EvaluationKey:
    """One evaluation of a cell before or after training, with its key."""

    key: str
    entry: Evaluate
    """Its configuration, with only this time in `at`."""
    content: Content = attrs.field(repr=False)
    """What the key is the hash of: key of the training, configuration, code and versions."""

    @property
    def at(self) -> Literal["start", "end"]:
        """`start`: before the first stage; `end`: after the last."""
        return self.entry.at[0]


@attrs.define(eq=False)
class CellKeys:
    """Computes keys of recipes; each file is hashed once."""

    plugins: Plugins
    _files: dict[Path, str] = attrs.field(factory=dict, init=False)
    _code: dict[frozenset[type], Mapping[str, str]] = attrs.field(
        factory=dict, init=False
    )

    def of(self, recipe: Recipe, *more: Any) -> str:
        """Return the key of a recipe and further parts (of recipes, or JSON data) as 32 hex digits."""
        return key_of(self.content(recipe, *more))

    def content(self, recipe: Recipe, *more: Any) -> Content:
        """Return the data of which the key of a recipe and further parts is the hash.

        It has the recipe with all defaults, the code of core and of every distribution that computes, the
        versions of libraries, and the digest of every file and directory that the recipe reads. A file that
        the recipe names counts with its name but without its directory, and a model on a hub with its name
        and revision.
        """
        parts = decisive(recipe)
        return {
            "recipe": self._content(parts),
            "more": self._content(more),
            "code": self._computing_code(components_of([parts, *more])),
        }

    def training(self, recipe: Recipe) -> Content:
        """Return the content that determines the weights of a cell: its recipe without the evaluations.

        If a tokenizer is trained on the texts of the evaluations, they are a part of it.
        """
        texts = recipe.evaluate if reads_texts_of_evaluations(recipe) else ()
        return self.content(attrs.evolve(recipe, evaluate=()), *texts)

    def evaluations(self, recipe: Recipe, training: str) -> tuple[EvaluationKey, ...]:
        """Return the evaluations of a cell in the order in which they are run; `training` is its key."""
        keys = []
        times: tuple[Literal["start", "end"], ...] = ("start", "end")
        for at in times:
            for entry in recipe.evaluate:
                if at not in entry.at:
                    continue
                alone = attrs.evolve(entry, at=(at,))
                content = {
                    "training": training,
                    "evaluation": self._content(alone),
                    "code": self._computing_code(components_of(alone)),
                }
                keys.append(EvaluationKey(key_of(content), alone, content))
        return tuple(keys)

    def _computing_code(self, classes: Iterable[type]) -> Mapping[str, str]:
        """Return the code and versions on which the scores of components of these classes depend."""
        distinct = frozenset(classes)
        if distinct not in self._code:
            ordered = sorted(distinct, key=repr)
            self._code[distinct] = computing_code(ordered, self.plugins)
        return self._code[distinct]

    def _content(self, part: Any, kind: Any = None, read: Sequence[Path] = ()) -> Any:
        """Return a part of a recipe as JSON data; `kind` is its type, `read` the files of its component."""
        if attrs.has(type(part)):
            return self._table(part)

        if isinstance(part, Mapping):
            table = {}
            for key, value in part.items():
                table[str(key)] = self._content(value, kind, read)
            return table

        if isinstance(part, list | tuple):
            return [self._content(value, kind, read) for value in part]

        if isinstance(part, str) and _is_local(part, kind):
            return self._named(part, read)
        return plain(part)

    def _table(self, part: Any) -> dict[str, Any]:
        """Return the fields of an attrs class, and the digests of the files that a component reads."""
        read: list[Path] = []
        if isinstance(part, DataSource | Evaluator):
            # Missing files are reported by the run.
            with suppress(SentbedError):
                read.extend(map(Path, part.files()))
        cls: Any = type(part)
        kinds = _types_of_fields(cls)
        fields = {}
        for attribute in attrs.fields(cls):
            name = attribute.name
            value = getattr(part, name)
            if value is not None and not attribute.metadata.get("skip"):
                fields[name] = self._content(value, kinds[name], read)

        table = {"fields": fields, "read": [self._digest(path) for path in read]}
        if isinstance(part, Component):
            table["use"] = cls.name
        return table

    def _named(self, location: str, read: Sequence[Path]) -> Any:
        """Return name and digest of a file or directory, or `location` itself if nothing is there."""
        try:
            path = locate(location)
        except SentbedError:
            # To be downloaded, or missing, which the run reports.
            return location
        if path.is_dir() and any(file.is_relative_to(path) for file in read):
            # The files that are read in it count by themselves.
            return "what is read of it"
        digest = self._digest(path)
        # The name may determine how a file is read, and the name of the task.
        return [path.name, digest] if digest else location

    def _digest(self, path: Path) -> str:
        """Return the SHA-256 of a file or directory; empty if it cannot be read."""
        if path not in self._files:
            try:
                self._files[path] = _hash(path)
            except OSError:
                self._files[path] = ""
        return self._files[path]


def key_of(content: Content) -> str:
    """Return the hash (BLAKE2b) of a content as 32 hex digits."""
    text = json.dumps(content, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def is_from_files(recipe: Recipe) -> bool:
    """Whether the untrained weights and the tokenizers of all encoders come from files."""
    backbones = [encoder.backbone for encoder in recipe.encoders.values()]
    return all(backbone.traits.from_files for backbone in backbones)


def reads_texts_of_evaluations(recipe: Recipe) -> bool:
    """Whether the tokenizer of an encoder that no stage uses is trained on the texts of its evaluations."""
    if is_from_files(recipe):
        return False
    used: set[str] = set()
    for stage in recipe.stage:
        used.update(recipe.towers(stage).values())
    return not used.issuperset(recipe.encoders)


def decisive(recipe: Recipe) -> Recipe:
    """Return the recipe with all settings reset that cannot affect a score."""
    run = attrs.evolve(recipe.run, name="any", cache=True)
    tables = {}
    for key, table in recipe.tables.items():
        if table.traits.decides:
            tables[key] = table

    bare = Recipe(recipe.schema, recipe.run, recipe.runtime, recipe.encoders)
    defaults = {key: getattr(bare, key) for key in UNDECISIVE}
    return attrs.evolve(recipe, run=run, tables=tables, **defaults)


@cache
def _types_of_fields(cls: Any) -> Mapping[str, Any]:
    return get_type_hints(cls)


def _is_local(value: str, kind: Any) -> bool:
    """Whether a value of this type names a local file or directory."""
    if mentions(kind, FilePath):
        return not value.startswith("hub:")
    if not mentions(kind, ModelId):
        return False
    # Any other model is a hub id, even if there is a directory of that name.
    return value.startswith(("pkg:", "data:", ".", "/", "~"))


_hashes: dict[tuple[Path, tuple[tuple[Path, int, int, int], ...]], str] = {}
"""Path, and the path, size and times of each file in it -> SHA-256."""


def _hash(path: Path) -> str:
    """Return the SHA-256 of a file or directory, cached as long as nothing in it changes."""
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
    states = []
    last_change = 0.0
    for file in files:
        state = file.stat()
        last_change = max(last_change, state.st_mtime)
        states.append((file, state.st_size, state.st_mtime_ns, state.st_ctime_ns))

    key = path, tuple(states)
    if key in _hashes:
        return _hashes[key]

    digest = sha256(path)
    if time.time() - last_change > _SETTLED:
        _hashes[key] = digest
    return digest


def short(key: str) -> str:
    """Return the part of a key that directory names contain."""
    return key[:10]


def slug(name: str) -> str:
    """Return a cell's name with only characters that are safe in directory names."""
    letters = re.sub(r"[^A-Za-z0-9._-]", "-", name.replace(", ", "_"))
    return letters.strip("-._")[:80] or "cell"


def directory_of(cell: str, seed: int, key: str, prompt: str = "") -> Path:
    """Return the directory of a cell's run, relative to the study's; `prompt` is empty without prompts."""
    name = slug(cell)
    if prompt:
        name += f"-{prompt_slug(prompt)}"
    return Path("cells") / f"{name}-seed{seed}-{short(key)}"


def prompt_slug(prompt: str) -> str:
    """Return a prompt's label with only characters that are safe in directory names."""
    return slug(prompt)[:40].rstrip("-._")
