"""Files that a recipe trains on, or chooses weights by, and that are test data of its evaluations."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
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


def training_on_test_data(
    recipe: Recipe,
    identity: Callable[[Path], Hashable] = Path.resolve,
) -> Iterator[tuple[KeyPath, str]]:
    """Yield a fault for each file of test data that a stage trains on, unless the recipe allows it.

    `identity` tells files apart: by their resolved path or, so that a copy is found, by their content.
    """
    if recipe.run.allow_overlap or not recipe.stage:
        return
    tests = _test_files(recipe, identity)
    if not tests:
        return
    # A file of another size is another one, and a large one takes long to hash.
    sizes = {file.stat().st_size for _, file in tests.values()}
    for index, stage in enumerate(recipe.stage):
        for path in files_of(stage.data):
            if path.stat().st_size not in sizes or identity(path) not in tests:
                continue
            evaluator, test_file = tests[identity(path)]
            yield (
                ("stage", index, "data"),
                f"the stage trains on `{path}`, the test data `{test_file}` of the evaluation `{evaluator}`; "
                "train on other data, say in the evaluation that it is no test data (such as "
                '`split = "train"`), or set `allow_overlap = true` in `[run]`',
            )


def choosing_on_test_data(
    recipe: Recipe,
    identity: Callable[[Path], Hashable] = Path.resolve,
) -> Iterator[str]:
    """Yield a warning for each file of test data by whose score a stage chooses its weights.

    `identity` is that of `training_on_test_data`.
    """
    choosing: list[tuple[str, Path]] = []
    for stage in recipe.stage:
        validate = stage.validate
        if validate is None or not validate.chooses:
            continue
        for path in files_of(validate.evaluator):
            if path.is_file():
                choosing.append((stage.name, path))
    if not choosing:
        # The files of a large evaluation take long to hash.
        return

    tests = _test_files(recipe, identity)
    for stage_name, path in choosing:
        if identity(path) in tests:
            evaluator, _ = tests[identity(path)]
            yield (
                f"the stage `{stage_name}` chooses its weights by `{path}`, which is test data of the "
                f"evaluation `{evaluator}`: that score is biased upwards; validate on other data"
            )


def _test_files(
    recipe: Recipe,
    identity: Callable[[Path], Hashable],
) -> dict[Hashable, tuple[str, Path]]:
    """Return the evaluator and the path of each file with test data of `[[evaluate]]`, by its identity."""
    tests: dict[Hashable, tuple[str, Path]] = {}
    for entry in recipe.evaluate:
        evaluator = entry.evaluator
        if evaluator.development:
            continue
        development: set[Path] = set()
        with suppress(SentbedError):
            development = set(evaluator.development_files())
        for path in files_of(evaluator):
            if path not in development:
                tests.setdefault(identity(path), (evaluator.name, path))
    return tests
