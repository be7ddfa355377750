"""Keys of cells and of their evaluations: hashes of everything that determines the weights and the scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_type_hints

import attrs
from sentbed import FilePath, ModelId, locate
from sentbed.errors import SentbedError
from sentbed.helpers import key_of, sha256
from sentbed.protocols import Component, DataSource, Evaluate, Evaluator, Recipe
from sentbed.tools import (
    Plugins,
    components_of,
    computing_code,
    decisive,
    mentions,
    plain,
)

Content: TypeAlias = Mapping[str, Any]
"""Content of a key: the JSON data whose hash is the key."""


@attrs.frozen(eq=False)
class EvaluationKey:
    """One evaluation of a cell before or after training, with its key."""

    key: str
    entry: Evaluate
    """Configuration of the evaluation. Its `at` has one value, even if the recipe's has both."""
    content: Content = attrs.field(repr=False)
    """Data whose hash is the key: key of the training, configuration, code and versions."""

    @property
    def at(self) -> Literal["start", "end"]:
        """When the encoder is evaluated: before the first stage (`start`) or after the last stage (`end`)."""
        return self.entry.at[0]


@attrs.define(eq=False)
class CellKeys:
    """Computes keys of recipes; each file is hashed once."""

    plugins: Plugins
    _digests: dict[Path, str] = attrs.field(factory=dict, init=False)
    _code: dict[frozenset[type], Mapping[str, str]] = attrs.field(
        factory=dict, init=False
    )

    def of(self, recipe: Recipe, *more: Any) -> str:
        """Return the key of a recipe and of `more`, further parts of recipes or JSON data, as 32 hex digits."""
        return key_of(self.content(recipe, *more))

    def content(self, recipe: Recipe, *more: Any) -> Content:
        """Return the content of the key that `of` returns for the same arguments.

        The content has the recipe with all defaults, the code of core and of every distribution whose
        components compute, the versions of libraries, and the digest of every file and directory that the
        recipe reads. A file is represented by its name, without its directory, and its digest; a model on a
        hub by its name and revision.
        """
        parts = decisive(recipe)
        return {
            "recipe": self._content(parts),
            "more": self._content(more),
            "code": self._computing_code(components_of([parts, *more])),
        }

    def training(self, recipe: Recipe) -> Content:
        """Return the content of the key of a cell's training: everything that determines its weights.

        Evaluations are left out, unless a tokenizer is trained on their texts.
        """
        texts = recipe.evaluate if reads_texts_of_evaluations(recipe) else ()
        return self.content(attrs.evolve(recipe, evaluate=()), *texts)

    def evaluations(self, recipe: Recipe, training: str) -> tuple[EvaluationKey, ...]:
        """Return the evaluations of a cell in the order in which they are run.

        `training` is the key of the cell's training.
        """
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

    def _content(
        self,
        part: Any,
        kind: Any = None,
        read: Sequence[Path] = (),
    ) -> Any:
        """Return a part of a recipe as JSON data.

        `kind` is the annotated type of the part; `read` are the files that the part's component reads.
        """
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
        """Return the name and digest of the file or directory at `location`; `location` if there is none."""
        try:
            path = locate(location)
        except SentbedError:
            # Either the file will be downloaded, or it is missing, which the run reports.
            return location

        if path.is_dir() and any(file.is_relative_to(path) for file in read):
            # `_table` has the digests of the files that are read from the directory.
            return "what is read of it"

        digest = self._digest(path)
        if not digest:
            return location
        # The name of a file may determine how it is read, and the name of its task.
        return [path.name, digest]

    def _digest(self, path: Path) -> str:
        """Return the SHA-256 of a file or directory; empty if it cannot be read."""
        if path not in self._digests:
            try:
                self._digests[path] = sha256(path)
            except OSError:
                self._digests[path] = ""
        return self._digests[path]


def is_from_files(recipe: Recipe) -> bool:
    """Whether the initial weights and the tokenizers of all encoders come from files."""
    encoders = recipe.encoders.values()
    return all(encoder.backbone.from_files for encoder in encoders)


def reads_texts_of_evaluations(recipe: Recipe) -> bool:
    """Whether a tokenizer is trained on the texts of the evaluations.

    That is the case for the tokenizer of an encoder that no stage uses, unless it comes from a file.
    """
    if is_from_files(recipe):
        return False
    used: set[str] = set()
    for stage in recipe.stage:
        used.update(recipe.towers(stage).values())
    return not used.issuperset(recipe.encoders)


@cache
def _types_of_fields(cls: Any) -> Mapping[str, Any]:
    return get_type_hints(cls)


def _is_local(value: str, kind: Any) -> bool:
    """Whether a text whose annotated type is `kind` names a local file or directory."""
    if mentions(kind, FilePath):
        return not value.startswith("hub:")
    if not mentions(kind, ModelId):
        return False
    # Without one of these prefixes, a model is a hub id, even if there is a directory of that name.
    return value.startswith(("pkg:", "data:", ".", "/", "~"))
