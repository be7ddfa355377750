"""Evaluations of a run; equal evaluators read their data once, and shared texts are encoded once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias, get_type_hints

import attrs

from sentbed._component_faults import returned
from sentbed._encoder.encoder import EncodeBar, Encoder, pair_name
from sentbed._files import sha256
from sentbed._locations import HUB, FilePath, locate, mentions
from sentbed._recipe.recipe import Evaluate, Recipe, Validate, Watch
from sentbed._registry.registry import Plugins
from sentbed.errors import SentbedError
from sentbed.protocols import (
    DrivesEncoder,
    Evaluation,
    Evaluator,
    PartProgress,
    Preparation,
    Prepared,
    VectorStore,
)

Entry: TypeAlias = Evaluate | Validate | Watch


@attrs.frozen
class EvaluationFile:
    """A file or directory that evaluations or validations of a run read."""

    evaluator: str
    path: Path
    sha256: str
    chooses: bool
    """Whether a validation reads it to choose weights."""

    @property
    def name(self) -> str:
        """Evaluator and file name, which stay the same if the data is moved."""
        return f"{self.evaluator} {self.path.name}"


def files_of_evaluations(recipe: Recipe) -> list[EvaluationFile]:
    """Return the files and directories that evaluations and validations read, with their hashes."""
    files: dict[tuple[str, Path], EvaluationFile] = {}
    for entry in _entries(recipe):
        evaluator = entry.evaluator.name
        chooses = isinstance(entry, Validate) and entry.chooses
        for path in _files_of(entry.evaluator):
            key = evaluator, path
            if key not in files and path.exists():
                files[key] = EvaluationFile(evaluator, path, sha256(path), chooses)
            elif key in files and chooses:
                files[key] = attrs.evolve(files[key], chooses=True)
    return list(files.values())


def _entries(recipe: Recipe) -> Iterator[Entry]:
    """Yield the evaluations of a recipe, then those of its stages."""
    yield from recipe.evaluate
    for stage in recipe.stage:
        if stage.validate is not None:
            yield stage.validate
        yield from stage.watch


def _files_of(evaluator: Evaluator) -> Iterator[Path]:
    """Yield the files that `evaluator.files` returns, then those that its fields name."""
    listed: list[Path] = []
    with suppress(SentbedError):  # a missing file is reported when it is read
        listed = [Path(path) for path in evaluator.files()]
    yield from listed
    for name, kind in get_type_hints(type(evaluator)).items():
        if not mentions(kind, FilePath):
            continue
        value = getattr(evaluator, name, None)
        locations = value if isinstance(value, tuple) else (value,)
        for location in locations:
            if not isinstance(location, str) or location.startswith(HUB):
                continue
            try:
                path = locate(location)
            except SentbedError:
                continue  # as above
            # If a field names a directory, `evaluator.files` may list the files in it that are read.
            if not any(file.is_relative_to(path) for file in listed):
                yield path


@attrs.define(eq=False)
class Evaluations:
    """Evaluates the encoders of a run."""

    plugins: Plugins | None = None
    store: VectorStore | None = None
    """Vector store for the evaluations before and after training; those during training use none."""
    _prepared: list[tuple[Evaluator, Preparation]] = attrs.field(
        factory=list, init=False
    )

    def prepare(self, recipe: Recipe) -> None:
        """Read the data of all evaluations of a recipe. Raises `DataError` if any cannot be used."""
        for entry in _entries(recipe):
            self.prepared(entry.evaluator)

    def prepared(self, evaluator: Evaluator) -> Preparation:
        """Return the preparation of an evaluator, shared with equal evaluators."""
        for earlier, preparation in self._prepared:
            if type(earlier) is type(evaluator) and earlier == evaluator:
                return preparation
        preparation = returned(evaluator.prepare(), Preparation, evaluator, "prepare")
        self._prepared.append((evaluator, preparation))
        return preparation

    def texts(self, recipe: Recipe) -> dict[str, list[str]]:
        """Return encoder -> the texts that it encodes in a recipe's evaluations."""
        texts: dict[str, list[str]] = {}
        for entry in recipe.evaluate:
            first = entry.encoder or recipe.main_encoder
            second = entry.second or first
            preparation = self.prepared(entry.evaluator)
            if isinstance(preparation, DrivesEncoder):
                texts.setdefault(first, []).extend(preparation.texts())
                continue
            for part in preparation.lists.values():
                texts.setdefault(first, []).extend(part.first)
                texts.setdefault(second, []).extend(part.second)
        return texts

    def bar(self, entries: Iterable[Entry]) -> EncodeBar:
        """Return one progress bar for several evaluations."""
        total = 0
        for entry in entries:
            preparation = self.prepared(entry.evaluator)
            if isinstance(preparation, Prepared):
                total += preparation.size
        return EncodeBar(total)

    def observe(
        self, encoders: Mapping[str, Encoder], entry: Validate | Watch, trained: str
    ) -> Evaluation:
        """Evaluate during a stage, by default the encoder `trained`, without the vector store."""
        name = entry.encoder or trained
        return self.evaluate(
            encoders, entry, name, pair_name(name, entry.second), keep=False
        )

    def evaluate(
        self,
        encoders: Mapping[str, Encoder],
        entry: Entry,
        name: str,
        label: str,
        progress: PartProgress | None = None,
        bar: EncodeBar | None = None,
        keep: bool = True,
    ) -> Evaluation:
        """Evaluate the encoder `name`, with `entry.second` if given, and report scores as `label`.

        With `keep`, vectors are read from and written to the store.
        """
        second = None
        if entry.second is not None:
            second = entry.second, encoders[entry.second]
        store = self.store if keep else None
        return encoders[name].evaluate(
            entry.evaluator,
            label,
            second,
            progress,
            store=store,
            plugins=self.plugins,
            prepared=self.prepared(entry.evaluator),
            bar=bar,
        )
