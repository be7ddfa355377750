"""Training texts, of files and of data sources."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from sentbed import locate
from sentbed.protocols import DataSource, Recipe
from sentbed_common import (
    csv_rows,
    decoded_lines,
    json_object,
    suffix_of,
    text_lines,
)

from sentbed_audit.clean.clean_config import Clean

TrainingSource: TypeAlias = Path | DataSource
"""A file or a component that has training texts."""


def training_sources(recipe: Recipe) -> list[TrainingSource]:
    """Return the sources that `[clean]` names in a recipe, and those of its stages."""
    table = recipe.table(Clean) or Clean()
    sources: list[TrainingSource] = [locate(path).resolve() for path in table.training]
    sources += table.data
    sources += [stage.data for stage in recipe.stage]
    return sources


def texts_of(source: TrainingSource) -> Iterator[str]:
    """Yield the texts of a source, as the field `Clean.training` says.

    Raises:
        DataError: if it cannot be read, with file and line.
    """
    if not isinstance(source, Path):
        yield from source.open().texts()
        return

    suffix = suffix_of(source.name)
    if suffix == ".csv":
        for _, fields in csv_rows(decoded_lines(source), source):
            yield from fields
        return

    for number, line in text_lines(source):
        if suffix == ".jsonl":
            yield from _strings(json_object(line, source, number))
        else:
            yield from line.split("\t")


def _strings(value: Any) -> Iterator[str]:
    """Yield all strings in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from _strings(part)
    elif isinstance(value, dict):
        yield from _strings(list(value.values()))
