"""Evaluations of a run; equal evaluators read their data once, and shared texts are encoded once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import TypeAlias, get_type_hints

import attrs

from sentbed._component_faults import returned
from sentbed._encoder.encoder import EncodeBar, Encoder, pair_name
from sentbed._files import sha256
from sentbed._locations import FilePath, locate, mentions
from sentbed._recipe.recipe import Evaluate, Recipe, Validate, Watch
from sentbed._registry.registry import Plugins
from sentbed.errors import SentbedError
from sentbed.protocols import Evaluation, Evaluator, PartProgress, Preparation, Prepared, VectorStore

Entry: TypeAlias = Evaluate | Validate | Watch


@attrs.frozen
class EvaluationFile:
    """A file or directory that evaluations or validations of a run read."""

    evaluator: str
    path: Path
    sha256: str
    chooses: bool
    """Whether a validation chooses weights by it."""

    @property
    def name(self) -> str:
        """Evaluator and name of the file, by which it is known: data may move."""
        return f"{self.evaluator} {self.path.name}"


def files_of_evaluations(recipe: Recipe) -> list[EvaluationFile]:
    """Return the files and directories that evaluations and validations read, with their hashes."""
    looks = chain.from_iterable((stage.validate, *stage.watch) for stage in recipe.stage)
    files: dict[tuple[str, Path], EvaluationFile] = {}
    for entry in (*recipe.evaluate, *looks):
        if entry is None:
            continue
        evaluator = entry.with_.name
        chooses = isinstance(entry, Validate) and entry.chooses
        for path in _files_of(entry.with_):
            known = files.get((evaluator, path))
            if known is not None:
                files[evaluator, path] = attrs.evolve(known, chooses=known.chooses or chooses)
            elif path.exists():
                files[evaluator, path] = EvaluationFile(evaluator, path, sha256(path), chooses)
    return list(files.values())


def _files_of(evaluator: Evaluator) -> Iterator[Path]:
    """Yield the files that an evaluator says it reads, and those that its fields name."""
    listed = _listed_files(evaluator)
    yield from listed
    for name, kind in get_type_hints(type(evaluator)).items():
        value = getattr(evaluator, name, None)
        locations = value if isinstance(value, tuple) else (value,)
        for location in locations:
            if not (isinstance(location, str) and mentions(kind, FilePath)) or location.startswith("hub:"):
                continue
            try:
                path = locate(location)
            except SentbedError:
                continue  # what is missing is told where it is read
            # Of a directory, the evaluator may say which files it reads.
            if not any(file.is_relative_to(path) for file in listed):
                yield path


def _listed_files(evaluator: Evaluator) -> list[Path]:
    try:
        return [Path(path) for path in evaluator.files()]
    except SentbedError:
        return []  # what is missing is told where it is read


@attrs.define(eq=False)
class Evaluations:
    """Evaluates the encoders of a run."""

    plugins: Plugins | None = None
    store: VectorStore | None = None
    """Store for the vectors of the evaluations before and after training."""
    _prepared: list[tuple[Evaluator, Preparation]] = attrs.field(factory=list, init=False)

    def prepare(self, recipe: Recipe) -> None:
        """Read the data of all evaluations of a recipe. Raises `DataError` if any cannot be used."""
        looks = chain.from_iterable((stage.validate, *stage.watch) for stage in recipe.stage)
        for entry in (*recipe.evaluate, *looks):
            if entry is not None:
                self.prepared(entry.with_)

    def prepared(self, evaluator: Evaluator) -> Preparation:
        """Return the preparation of an evaluator, shared with equal evaluators."""
        for one, found in self._prepared:
            if type(one) is type(evaluator) and one == evaluator:
                return found
        found = returned(evaluator.prepare(), Preparation, evaluator, "prepare")
        self._prepared.append((evaluator, found))
        return found

    def bar(self, entries: Iterable[Entry]) -> EncodeBar:
        """Return one progress bar for several evaluations."""
        found = (self.prepared(entry.with_) for entry in entries)
        return EncodeBar(sum(one.size for one in found if isinstance(one, Prepared)))

    def look(self, encoders: Mapping[str, Encoder], entry: Validate | Watch, trained: str) -> Evaluation:
        """Evaluate during a stage, by default the encoder `trained`; no vectors are kept."""
        name = entry.encoder or trained
        return self.evaluate(encoders, entry, name, pair_name(name, entry.second), keep=False)

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
        second = None if entry.second is None else (entry.second, encoders[entry.second])
        store, prepared = self.store if keep else None, self.prepared(entry.with_)
        return encoders[name].evaluate(
            entry.with_, label, second, progress, store, self.plugins, prepared=prepared, bar=bar
        )
