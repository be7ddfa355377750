"""Files that a recipe trains on, and that are test data of its evaluations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import get_type_hints

from sentbed._document.structuring import parts_in
from sentbed._locations import HUB, FilePath, locate, mentions
from sentbed._toml import KeyPath
from sentbed.errors import SentbedError
from sentbed.protocols import DataSource, Evaluator, Recipe


def files_of(component: DataSource | Evaluator) -> Iterator[Path]:
    """Yield the existing files and directories that a component and those within it read.

    A missing file is skipped, since reading the data will report it.
    """
    for _, part in parts_in(component):
        if isinstance(part, DataSource | Evaluator):
            yield from filter(Path.exists, _files_of_part(part))


def _files_of_part(part: DataSource | Evaluator) -> Iterator[Path]:
    """Yield the files that `part.files` returns, then the files and directories that its fields name."""
    listed: list[Path] = []
    with suppress(SentbedError):
        listed = [Path(path) for path in part.files()]
    yield from listed
    for name, kind in get_type_hints(type(part)).items():
        if not mentions(kind, FilePath):
            continue
        value = getattr(part, name, None)
        locations = value if isinstance(value, tuple) else (value,)
        for location in locations:
            if not isinstance(location, str) or location.startswith(HUB):
                continue
            try:
                path = locate(location)
            except SentbedError:
                continue
            # If a field names a directory, `files` may have returned the files in it that are read.
            if not any(file.is_relative_to(path) for file in listed):
                yield path


def training_on_test_data(recipe: Recipe) -> Iterator[tuple[KeyPath, str]]:
    """Yield a fault for each file of test data that a stage trains on, unless the recipe allows it."""
    if recipe.run.allow_overlap or not recipe.stage:
        return
    evaluators = _evaluators_of_test_files(recipe)
    for index, stage in enumerate(recipe.stage):
        for path in files_of(stage.data):
            evaluator = evaluators.get(path.resolve())
            if evaluator is not None:
                yield (
                    ("stage", index, "data"),
                    f"the stage trains on `{path}`, which is test data of the evaluation `{evaluator}`; train "
                    "on other data, say in the evaluation that it is no test data (such as "
                    '`split = "train"`), or set `allow_overlap = true` in `[run]`',
                )


def _evaluators_of_test_files(recipe: Recipe) -> dict[Path, str]:
    """Return the name of the evaluator of each file with test data of `[[evaluate]]`, by its resolved path."""
    evaluators: dict[Path, str] = {}
    for entry in recipe.evaluate:
        evaluator = entry.evaluator
        if evaluator.development:
            continue
        development: set[Path] = set()
        with suppress(SentbedError):
            development = set(evaluator.development_files())
        for path in files_of(evaluator):
            if path not in development:
                evaluators.setdefault(path.resolve(), evaluator.name)
    return evaluators
