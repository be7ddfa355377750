"""Axes of a study: labels, the values they set, and the combinations that form cells."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from sentbed.errors import Problem, RecipeError, printable, suggest
from sentbed.tools import Document

from sentbed_studies.study_config import StudyTable

MOST_COMBINATIONS = 100_000
"""Combinations of labels, before `exclude` takes some out."""

MOST_CELLS = 2_000
"""Cells of the largest study."""

MOST_RUNS = 20_000
"""Cells times seeds of the largest study."""

_NUMBER = re.compile(r"(?<![\w.+-])[+-]?[0-9][0-9_]*(?:\.[0-9_]+)?(?:[eE][+-]?[0-9_]+)?(?![\w.])")
"""A number of TOML that is a float or could be one."""

_NOT_AN_AXIS = {
    "run.seed": "seeds are no labels; write `seeds = [1, 2, 3]` under `[study]`",
    "run.name": "a name changes no score; vary what the scores depend on",
    "run.cache": "no score depends on it; take it out",
    "study": "a cell has no study; take it out",
    "": "a path is that of `--set`, such as `encoder.pooler.use`",
}


@attrs.frozen
class Axis:
    """Axis along which cells differ."""

    name: str
    settings: Mapping[str, Mapping[str, Any]]
    """Label -> path -> value."""
    given: Mapping[str, float] = attrs.field(factory=dict)
    """Label -> number that the recipe gives it; see `StudyTable.numbers`."""

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels, in the recipe's order."""
        return tuple(self.settings)

    @property
    def numbers(self) -> tuple[float, ...] | None:
        """Numbers of the labels: those given, or those set; None unless each label has a single one."""
        if self.given:
            return tuple(self.given[label] for label in self.labels)
        values = [list(setting.values()) for setting in self.settings.values()]
        if all(found and all(found[0] == v for v in found) and _is_number(found[0]) for found in values):
            return tuple(float(found[0]) for found in values)
        return None


@attrs.frozen
class Combination:
    """Combination of labels for one cell."""

    labels: Mapping[str, str]
    """Axis -> label."""
    settings: Mapping[str, Any]
    """Path -> value, with later axes last."""
    axes: Mapping[str, str] = attrs.field(factory=dict)
    """Path -> axis that sets it."""

    @property
    def name(self) -> str:
        """Name of the cell in `[study.expected]` and tables: its labels, in the order of the axes."""
        return ", ".join(self.labels.values())


def read_axes(table: StudyTable, document: Document) -> tuple[Axis, ...]:
    """Return the axes of `[study]`. Raises `RecipeError` with all their problems."""
    problems: list[Problem] = []
    axes = []
    for name, content in table.axes.items():
        try:
            settings = _settings(content, _Written(document, ("study", "axes", name, "values")))
            if strange := [label for label in settings if printable(label) != label]:
                raise ValueError(f"the label {strange[0]!r} has control characters; give the axis `labels`")  # noqa: TRY301
        except ValueError as error:
            problems.append(document.problem(str(error), ("study", "axes", name)))
            continue
        axes.append(Axis(name, settings, _given(name, settings, table, document, problems)))
        for path in dict.fromkeys(path for setting in settings.values() for path in setting):
            if reason := _NOT_AN_AXIS.get(path.split(".")[0]) or _NOT_AN_AXIS.get(path):
                message = f"the axis sets `{path}`: {reason}"
                problems.append(document.problem(message, ("study", "axes", name)))
    if problems:
        raise RecipeError(problems)
    return tuple(axes)


def _given(
    name: str, labels: Mapping[str, Any], table: StudyTable, document: Document, problems: list[Problem]
) -> Mapping[str, float]:
    """Return the number of each label of an axis as `numbers` has them; none, and a problem, if one lacks."""
    given = table.numbers.get(name, {})
    if given and (lacking := [label for label in labels if label not in given]):
        message = f"the label `{lacking[0]}` has no number; give one to each label of the axis, or to none"
        problems.append(document.problem(message, ("study", "numbers", name)))
        return {}
    return given


def labels_that_are_equal(axes: Sequence[Axis]) -> Iterator[str]:
    """Yield a remark for labels of an axis that set the same values: their cells are the same."""
    for axis in axes:
        for first, second in itertools.combinations(axis.labels, 2):
            if axis.settings[first] == axis.settings[second]:
                yield (
                    f"the labels `{first}` and `{second}` of the axis `{axis.name}` set the same values, and "
                    "their cells differ in nothing by it; take one out, or change its values"
                )


def combinations(table: StudyTable, axes: Sequence[Axis], document: Document) -> tuple[Combination, ...]:
    """Return the combinations of labels that form cells, with the last axis changing fastest.

    Raises:
        RecipeError: if a key names an unknown axis or label, or no cell is left.
    """
    problems = list(_unknown(table, axes, document))
    if problems:
        raise RecipeError(problems)
    by_name = {axis.name: axis for axis in axes}
    groups: list[tuple[str, ...]] = []
    for axis in axes:
        group = next((g for g in table.zip if axis.name in g), (axis.name,))
        if group not in groups:
            groups.append(group)
    rows = [list(zip(*(by_name[name].labels for name in group), strict=True)) for group in groups]
    if (count := math.prod(map(len, rows))) > MOST_COMBINATIONS:
        raise RecipeError([_too_many(count, "combinations", MOST_COMBINATIONS, document)])
    found = []
    for row in itertools.product(*rows):
        chosen = {
            n: label for g, part in zip(groups, row, strict=True) for n, label in zip(g, part, strict=True)
        }
        labels = {axis.name: chosen[axis.name] for axis in axes}
        if _named(labels, table.exclude) and not _named(labels, table.include):
            continue
        settings: dict[str, Any] = {}
        setters: dict[str, str] = {}
        for axis in axes:
            for path, value in axis.settings[labels[axis.name]].items():
                settings.pop(path, None)
                settings[path] = value
                setters[path] = axis.name
        found.append(Combination(labels, settings, setters))
    if not found:
        raise RecipeError(
            [document.problem("`exclude` leaves no cell; take an entry out", ("study", "exclude"))]
        )
    if len(found) > MOST_CELLS:
        raise RecipeError([_too_many(len(found), "cells", MOST_CELLS, document)])
    if (runs := len(found) * max(len(table.seeds), 1)) > MOST_RUNS:
        raise RecipeError([_too_many(runs, "runs", MOST_RUNS, document)])
    counts = Counter(combination.name for combination in found)
    if repeated := next((name for name, count in counts.items() if count > 1), None):
        message = f"two cells have the labels `{repeated}`; give the axes labels that differ"
        raise RecipeError([document.problem(message, ("study", "axes"))])
    return tuple(found)


def _too_many(count: int, what: str, most: int, document: Document) -> Problem:
    message = (
        f"the axes make {count:,} {what}, more than {most:,}; take labels out, exclude some, let axes go "
        "together (`zip`), or make several studies"
    )
    return document.problem(message, ("study", "axes"))


def baseline_of(table: StudyTable, axes: Sequence[Axis]) -> dict[str, str] | None:
    """Return the labels of the baseline on all axes, or None if the study has no baseline."""
    if table.baseline is None:
        return None
    return {axis.name: table.baseline.get(axis.name, axis.labels[0]) for axis in axes}


def matches(labels: Mapping[str, str], entry: Mapping[str, str | tuple[str, ...]]) -> bool:
    """Whether a cell has one of the given labels on every axis in `entry`."""
    return all(labels.get(axis) in ((v,) if isinstance(v, str) else v) for axis, v in entry.items())


def _named(labels: Mapping[str, str], entries: Sequence[Mapping[str, str | tuple[str, ...]]]) -> bool:
    return any(matches(labels, entry) for entry in entries)


@attrs.frozen
class _Written:
    """Values of an axis as they are written in the recipe."""

    document: Document
    path: tuple[str | int, ...]

    def label(self, value: Any, *place: int) -> str:
        """Return the label of a value at a place of `values`: what is written, or the `use` of a table."""
        if isinstance(value, Mapping):
            if not isinstance(value.get("use"), str):
                raise ValueError(  # noqa: TRY004 - a fault of the recipe
                    "the values are tables without `use`; give the axis `labels`, one a value"
                )
            return str(value["use"])
        if isinstance(value, list):
            return " ".join(self.label(one, *place, i) for i, one in enumerate(value)) or "none"
        if isinstance(value, float):
            return self._number(value, place)
        return str(value).lower() if isinstance(value, bool) else str(value)

    def _number(self, value: float, place: tuple[int, ...]) -> str:
        """Return `1e-3` for a number that is written so, which Python would print as `0.001`."""
        file, line = self.document.place((*self.path, *place))
        if file is None or line is None:
            return str(value)
        try:
            lines = Path(file).read_text("utf-8-sig").splitlines()
        except OSError:
            return str(value)  # the recipe was given as text, or is gone: what it means stays the same
        found = _NUMBER.findall(lines[line - 1]) if line <= len(lines) else []
        return next((text for text in found if float(text.replace("_", "")) == value), str(value))


def _settings(content: Mapping[str, Any], written: _Written) -> dict[str, dict[str, Any]]:
    """Return label -> path -> value. Raises `ValueError` with the problem."""
    path = content.get("path")
    paths = path if isinstance(path, list) and path else [path]
    if all(isinstance(one, str) for one in paths):
        return _values([str(one) for one in paths], content, written)
    settings = {}
    for label, setting in content.items():
        if not isinstance(setting, Mapping):
            raise ValueError(  # noqa: TRY004 - a fault of the recipe, as all others here
                f"the label `{label}` is {setting!r}, expected a table of the values that it sets, by path "
                '(`{ "encoder.pooler.use" = "mean" }`); an axis over one path has `path` and `values`'
            )
        settings[label] = dict(_flat(setting))
    if not settings:
        raise ValueError("the axis has no labels; give it `path` and `values`, or a table a label")
    return settings


def _flat(paths: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Join nested keys into paths: TOML parses `{ encoder.pooler.use = "x" }` as nested tables.

    A quoted path sets a whole table: `{ "encoder.pooler" = { use = "x" } }`.
    """
    for path, value in paths.items():
        if "." in path or not isinstance(value, Mapping) or not value:
            yield path, value
        else:
            yield from ((f"{path}.{rest}", inner) for rest, inner in _flat(value))


def _values(paths: Sequence[str], content: Mapping[str, Any], written: _Written) -> dict[str, dict[str, Any]]:
    if unknown := [key for key in content if key not in ("path", "values", "labels")]:
        raise ValueError(f"unknown key `{unknown[0]}`.{suggest(unknown[0], ['path', 'values', 'labels'])}")
    values, labels = content.get("values"), content.get("labels")
    if not isinstance(values, list) or not values:
        raise ValueError("the axis has a `path` and no `values`; give it an array of them")
    if labels is None:
        labels = [written.label(value, place) for place, value in enumerate(values)]
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise ValueError("`labels` is to be an array of strings, one a value")
    if len(labels) != len(values):
        raise ValueError(f"there are {len(values)} values and {len(labels)} labels; give as many of each")
    if len(set(labels)) < len(labels):
        raise ValueError(f"two values have one label ({', '.join(labels)}); give `labels` that differ")
    return {str(label): dict.fromkeys(paths, value) for label, value in zip(labels, values, strict=True)}


def _unknown(table: StudyTable, axes: Sequence[Axis], document: Document) -> Iterator[Problem]:
    names = {axis.name: axis.labels for axis in axes}
    for i, group in enumerate(table.zip):
        for name in group:
            if name not in names:
                message = f"there is no axis `{name}`.{suggest(name, list(names))}"
                yield document.problem(message, ("study", "zip", i))
        sizes = {name: len(names[name]) for name in group if name in names}
        if len(set(sizes.values())) > 1:
            listed = ", ".join(f"`{name}` {size}" for name, size in sizes.items())
            message = f"axes that go together have as many labels; {listed}"
            yield document.problem(message, ("study", "zip", i))
    if twice := [n for n in names if sum(n in group for group in table.zip) > 1]:
        yield document.problem(
            f"the axis `{twice[0]}` is in two groups; take it out of one", ("study", "zip")
        )
    entries: list[tuple[tuple[str | int, ...], Mapping[str, str | tuple[str, ...]]]] = [
        (("study", "numbers"), {name: tuple(given) for name, given in table.numbers.items()}),
        *((("study", "exclude", i), entry) for i, entry in enumerate(table.exclude)),
        *((("study", "include", i), entry) for i, entry in enumerate(table.include)),
        (("study", "baseline"), table.baseline or {}),
    ]
    for path, entry in entries:
        yield from unknown_labels(entry, axes, document, path)
    for i, name in enumerate(table.ranks or ()):
        if name not in names:
            message = f"there is no axis `{name}`.{suggest(name, list(names))}"
            yield document.problem(message, ("study", "ranks", i))
    if table.baseline is not None:
        for name, labels in names.items():
            if name not in table.baseline and len(labels) > 1:
                message = f"the baseline has no label on the axis `{name}`; name one of {', '.join(labels)}"
                yield document.problem(message, ("study", "baseline"))


def unknown_labels(
    entry: Mapping[str, str | tuple[str, ...]],
    axes: Sequence[Axis],
    document: Document,
    path: tuple[str | int, ...] = (),
) -> Iterator[Problem]:
    """Yield a problem for each unknown axis or label in `entry`."""
    by_name = {axis.name: axis for axis in axes}
    for name, given in entry.items():
        if name not in by_name:
            message = f"there is no axis `{name}`.{suggest(name, list(by_name))}"
            yield document.problem(message, (*path, name))
            continue
        axis = by_name[name]
        for label in (given,) if isinstance(given, str) else given:
            if label not in axis.labels:
                hint = suggest(label_of(axis, label), axis.labels)
                message = f"the axis `{name}` has no label `{label}`.{hint}"
                yield document.problem(message, (*path, name))


def label_of(axis: Axis, given: str) -> str:
    """Return the label that `given` names: the label itself, or the only one that sets this number."""
    if given in axis.labels or axis.numbers is None:
        return given
    try:
        number = float(given)
    except ValueError:
        return given
    same = [label for label, value in zip(axis.labels, axis.numbers, strict=True) if value == number]
    return same[0] if len(same) == 1 else given


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
